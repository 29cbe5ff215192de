//! The flags of `weir trace`: which packets, which of their connections, in which form, and how long a live
//! capture may last. Does nothing.

use clap::{Args, ValueEnum};
use measure::{Bytes, Duration};
use server::config::parse_duration;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir trace capture.pcapng                       what is in it, and what cost time
  weir trace capture.pcap --port 80 --host 192.0.2.0/24
  weir trace capture.pcap --connection 3          every counter, finding and request of one connection
  weir trace capture.pcap --plot plots            pictures, of the connection that lost the most time
  weir trace capture.pcap --csv requests > requests.csv
  ssh router tcpdump -w - -i eth0 | weir trace -  from a pipe
  weir trace --live eth0 --port 80 --duration 30s --write slow.pcapng
  weir trace --live any --packets 10000 --json

Reads pcap and pcapng, also compressed with gzip: Ethernet, PPP, LLC, raw IP, loopback and Linux cooked
frames; VLAN, PPPoE; the packets inside IP-in-IP, GRE and VXLAN; IPv4, IPv6 and their fragments.
A damaged file gives everything before the damage, and exit code 3.

Exit codes: 0 good; 2 usage, or no capture file; 3 the report is incomplete: the file is damaged or cut
short, has frames that cannot be read, or a live capture lost packets; 4 the system refused.";

/// Flags of `weir trace`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Capture file, pcap or pcapng, also as gzip; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "live")]
    pub(crate) file: Option<PathBuf>,

    /// Captures on this interface; any is all of them
    #[arg(
        long,
        value_name = "IF",
        conflicts_with = "file",
        help_heading = "Live capture"
    )]
    pub(crate) live: Option<String>,

    /// Ends the capture after this time; without it, Ctrl-C does
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Live capture")]
    pub(crate) duration: Option<Duration>,

    /// Ends the capture after so many packets that pass the filter
    #[arg(long, value_name = "N", help_heading = "Live capture")]
    pub(crate) packets: Option<u64>,

    /// Keeps at most so many bytes of each packet; without it, 256 KiB
    #[arg(long, value_name = "BYTES", help_heading = "Live capture")]
    pub(crate) snaplen: Option<Bytes>,

    /// Captures packets for other hosts, too
    #[arg(long, help_heading = "Live capture")]
    pub(crate) promiscuous: bool,

    /// Saves the packets that pass the filter as pcapng
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) write: Option<PathBuf>,

    /// Only connections with this port at either end; may be repeated
    #[arg(
        short,
        long,
        value_name = "PORT",
        value_delimiter = ',',
        help_heading = "Which"
    )]
    pub(crate) port: Vec<u16>,

    /// Only connections with this address or network at either end; may be repeated
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = "Which")]
    pub(crate) host: Vec<::trace::Network>,

    /// Everything about one connection, by its number among those that pass the filter
    #[arg(short, long, value_name = "N", help_heading = "Which")]
    pub(crate) connection: Option<u64>,

    /// An acknowledgment later than this was held by a timer: the stall of the short initial and the odd
    /// final segment
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration, help_heading = "Findings")]
    pub(crate) stall: Duration,

    /// Beyond the smallest round trip, an acknowledgment this late counts as delayed
    #[arg(long, value_name = "TIME", default_value = "30ms", value_parser = parse_duration, help_heading = "Findings")]
    pub(crate) delayed_ack: Duration,

    /// Rows of each list: the costliest findings, connections, and slowest requests
    #[arg(long, value_name = "N", default_value_t = 15, help_heading = "Output")]
    pub(crate) top: usize,

    /// Writes comma-separated values of this instead
    #[arg(long, value_name = "WHAT", conflicts_with = "json", help_heading = "Output")]
    pub(crate) csv: Option<Sheet>,

    /// Writes SVG pictures, xplot files and their points into this directory
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) plot: Option<PathBuf>,

    /// Connections followed at once; more, and the longest over or silent one is reported early
    #[arg(long, value_name = "N", default_value_t = 32_768, help_heading = "Bounds")]
    pub(crate) connections_max: usize,

    /// Points kept for the pictures of one connection
    #[arg(long, value_name = "N", default_value_t = 1 << 20, help_heading = "Bounds")]
    pub(crate) points_max: usize,
}

/// What a table of comma-separated values is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sheet {
    /// A row for each connection, with every counter of both directions
    Connections,
    /// A row for each finding
    Findings,
    /// A row for each request with its answer
    Requests,
    /// Packets by type and direction
    Types,
    /// Established connections over time
    Established,
    /// Estimated congestion windows over time
    Cwnd,
    /// The distribution function of congestion windows
    CwndDistribution,
    /// Each packet of the connection named by --connection, as it is plotted
    Points,
}
