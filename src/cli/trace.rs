//! The flags of `weir trace`: packets, connections, output form, and limits of a live
//! capture may last. Does nothing.

use crate::voice::Voice;
use clap::{Args, FromArgMatches, ValueEnum};
use server::config::parse_duration;
use std::ffi::OsString;
use std::path::PathBuf;
use units::{Bytes, Duration};

const EXAMPLES: &str = "\
Examples:
  weir trace capture.pcapng                       summary, and what cost time
  weir trace capture.pcap --port 80 --host 192.0.2.0/24
  weir trace capture.pcap --connection 3          everything about one connection
  weir trace capture.pcap --plot plots            pictures of the connection that lost most time
  weir trace capture.pcap --csv requests > requests.csv
  ssh router tcpdump -w - -i eth0 not port 22 | weir trace -  from a pipe
  weir trace --live eth0 --port 80 --duration 30s --write slow.pcapng
  weir trace --live any --packets 10000 --json
  weir trace capture.pcapng --keys keys.log       requests within TLS and QUIC, with a key log
  weir trace capture.pcapng --keys keys.log --qlog quic.qlog    QUIC packets for qvis
  weir trace server.pcapng --keys keys.log --compare-qlog client.qlog   what the network did
  weir trace visit.pcapng --keys keys.log --har page.har    what each object of a page waited for
  weir trace visit.pcapng --har page.har --report visit.html    the same as an HTML page

Reads pcap and pcapng, also compressed with gzip. Understands Ethernet, PPP, LLC, raw IP, loopback
and Linux cooked frames; VLAN, PPPoE; packets inside IP-in-IP, GRE and VXLAN; IPv4, IPv6 and their
fragments. From a damaged file, Weir reports everything before the damage, with exit code 3.

Exit codes: 0 success; 2 usage, or not a capture file; 3 the report is incomplete: the file is
damaged or cut short, has frames that cannot be read, or a live capture lost packets; 4 the system
refused.";

/// Flags of `weir trace`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Capture file: pcap or pcapng, also gzipped; - reads standard input
    #[arg(value_name = "FILE", required_unless_present = "live")]
    pub(crate) file: Option<PathBuf>,

    /// Captures on this interface; any captures on all. Needs CAP_NET_RAW
    #[arg(
        long,
        value_name = "IF",
        conflicts_with = "file",
        help_heading = "Live capture"
    )]
    pub(crate) live: Option<String>,

    /// Ends the capture after this time [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Live capture")]
    pub(crate) duration: Option<Duration>,

    /// Ends the capture after this many packets that pass the filter [default: no limit]
    #[arg(long, value_name = "N", help_heading = "Live capture")]
    pub(crate) packets: Option<u64>,

    /// Keeps at most this many bytes of each packet [default: 256KiB]
    #[arg(long, value_name = "BYTES", help_heading = "Live capture")]
    pub(crate) snaplen: Option<Bytes>,

    /// Captures packets for other hosts, too (promiscuous mode)
    #[arg(long, help_heading = "Live capture")]
    pub(crate) promiscuous: bool,

    /// Saves the packets that pass the filter as pcapng; also when reading a file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) write: Option<PathBuf>,

    /// Shows only connections with this port at either end; may be repeated
    #[arg(
        short,
        long,
        value_name = "PORT",
        value_delimiter = ',',
        help_heading = "Filter"
    )]
    pub(crate) port: Vec<u16>,

    /// Shows only connections with this address or network at either end; may be repeated
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = "Filter")]
    pub(crate) host: Vec<::trace::Network>,

    /// Shows everything about one connection, by its number among those that pass the filter
    #[arg(short, long, value_name = "N", help_heading = "Filter")]
    pub(crate) connection: Option<u64>,

    /// Decrypts TLS and QUIC with the secrets in this key log, written by a client or server (SSLKEYLOGFILE, weir serve
    /// --tls-key-log). Secrets in a pcapng file need no flag
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) keys: Option<PathBuf>,

    /// Threshold of the findings `short initial segment` and `odd/short final segment`: time of the acknowledgment
    /// beyond the smallest round trip
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration, help_heading = "Findings")]
    pub(crate) stall: Duration,

    /// Threshold of a delayed acknowledgment: its time beyond the smallest round trip
    #[arg(long, value_name = "TIME", default_value = "30ms", value_parser = parse_duration, help_heading = "Findings")]
    pub(crate) delayed_ack: Duration,

    /// Rows in each list: costliest findings, connections, slowest requests
    #[arg(long, value_name = "N", default_value_t = 15, help_heading = "Output")]
    pub(crate) top: usize,

    /// Prints one table as comma-separated values instead of the report
    #[arg(long, value_name = "WHAT", conflicts_with = "json", help_heading = "Output")]
    pub(crate) csv: Option<Sheet>,

    /// Writes SVG pictures, xplot files and their points to this directory
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) plot: Option<PathBuf>,

    /// Writes the packets of QUIC connections to this file as qlog (version 0.3), for qvis and other viewers
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) qlog: Option<PathBuf>,

    /// Compares the QUIC packets of the capture with those of this qlog, which one end wrote (weir fetch --qlog, weir serve
    /// --qlog): packets lost between the two points, and delays. Needs --keys for all but the first packets
    #[arg(long, value_name = "FILE", conflicts_with = "csv", help_heading = "Output")]
    pub(crate) compare_qlog: Option<PathBuf>,

    /// Joins the requests of this HTTP archive (HAR), which a browser or weir fetch --har wrote, with those of the capture: how long
    /// each object waited for what. Needs --keys for TLS and QUIC
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["csv", "connection"],
        help_heading = "Output"
    )]
    pub(crate) har: Option<PathBuf>,

    /// Writes the objects of --har as one HTML page: the waterfall, what each object waited for, the connections and the
    /// findings. The page needs no network
    #[arg(long, value_name = "FILE", requires = "har", help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,

    /// Limit on connections followed at once. Beyond it, Weir reports one connection early: the one closed longest ago
    /// or, if none is closed, the one silent longest
    #[arg(long, value_name = "N", default_value_t = 32_768, help_heading = "Limits")]
    pub(crate) connections_max: usize,

    /// Limit on points kept for the pictures of one connection; later points are not drawn
    #[arg(long, value_name = "N", default_value_t = 1 << 20, help_heading = "Limits")]
    pub(crate) points_max: usize,
}

impl Flags {
    /// The flags of these words, which stand behind `weir trace`.
    ///
    /// # Errors
    /// A word that is none of them.
    pub(crate) fn of(words: Vec<OsString>) -> Result<Flags, clap::Error> {
        // Flags of every command are among those that exclude others.
        let declaration = Voice::augment_args(clap::Command::new("weir trace").no_binary_name(true));
        let declaration = Flags::augment_args(declaration);
        Flags::from_arg_matches(&declaration.try_get_matches_from(words)?)
    }
}

/// Table to print as comma-separated values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sheet {
    /// One row per connection, with every counter of both directions
    Connections,
    /// One row per finding
    Findings,
    /// One row per request with its response
    Requests,
    /// One row per DNS lookup over UDP
    Lookups,
    /// Packets by type and direction
    Types,
    /// Established connections over time
    Established,
    /// Estimated congestion windows over time
    Cwnd,
    /// Distribution function of congestion windows
    CwndDistribution,
    /// Each packet of the connection given with --connection, as plotted
    Points,
}
