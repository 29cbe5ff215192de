//! The flags of `weir link`: which link, what its two hosts are told, which command runs behind it. Does nothing.

use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir link ppp -- curl http://198.18.0.1:8080/        a server on this machine, over a modem
  weir link wan --far 'weir serve ./site --listen 0.0.0.0:80' -- curl http://198.18.0.1/
  weir link 'rate=1.5M rtt=90ms loss=burst:1%,30%' -- sh
  weir link cable --initcwnd 2 --up rate=256k --queue 20p -- COMMAND
  weir link wan -- weir link ppp -- COMMAND            links nest
  weir link --calibrate                                how exact is it here?
  weir link wan --proxy 127.0.0.1:8081=127.0.0.1:8080  where there are no namespaces: bytes, not packets

The command finds this machine at 198.18.0.1 (in its variable WEIR_LINK_GATEWAY): whatever listens on
0.0.0.0, 127.0.0.1 or ::1 here answers there. TCP over the link ends at a relay; with --far the server runs
at the far end of the link and its own TCP is what travels.

Exit codes: those of the command; 128 and its number for a signal; 1, 2, 3 and 4 as everywhere if there was
no command (--calibrate: 3 when the link is not as exact as it should be). docs/link.md says more.";

/// Flags of `weir link`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "weir link [OPTIONS] [LINK] -- COMMAND...")]
pub(crate) struct Flags {
    /// A preset (--list), key=value words (rate=1.5M rtt=90ms), both, or a .toml file with the same keys
    #[arg(value_name = "LINK")]
    pub(crate) link: Option<String>,

    /// What to run behind the link
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<OsString>,

    /// Prints the presets, their numbers and where those come from
    #[arg(long)]
    pub(crate) list: bool,

    /// Measures how exact the link is here, instead of running a command; exit code 3 if it is not enough
    #[arg(long, conflicts_with_all = ["far", "pcap", "log"])]
    pub(crate) calibrate: bool,

    /// Also runs this (through sh) at the far end, at 198.18.0.1; it ends with the command
    #[arg(long, value_name = "SHELL COMMAND")]
    pub(crate) far: Option<String>,

    /// What the command waits for before it starts: any (a socket there listens, 5 s at the most), a PORT (which is
    /// an error after 30 s), no
    #[arg(long, value_name = "any|PORT|no", default_value = "any", requires = "far", value_parser = far_ready)]
    pub(crate) far_ready: FarReady,

    /// The last resort without namespaces: connections to LISTEN are made again to TARGET and their bytes delayed and
    /// paced. Not packet level: no loss, no queue that drops, nothing of the hosts' TCP. COMMAND may be left out
    #[arg(long, value_name = "LISTEN=TARGET", conflicts_with_all = ["far", "pcap", "backend", "calibrate"])]
    pub(crate) proxy: Option<String>,

    /// Saves what passes the command's end of the link, as pcapng
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,

    /// Writes the counters of queues and losses, a line of JSON each time
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,

    /// How often --log writes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub(crate) log_every: u64,

    /// What carries packets [default: veth, else tun]
    #[arg(long, value_name = "BACKEND")]
    pub(crate) backend: Option<Backend>,

    /// All chance: loss and jitter
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) words: Words,

    /// A key of the upward direction only, from the command, as in --up rate=128k
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Link")]
    pub(crate) up: Vec<String>,

    /// A key of the downward direction only
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Link")]
    pub(crate) down: Vec<String>,
}

/// What the near command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FarReady {
    /// Anybody who listens.
    Any,
    /// Somebody at this port.
    Port(u16),
    /// Nobody.
    No,
}

fn far_ready(text: &str) -> Result<FarReady, String> {
    match text {
        "any" => Ok(FarReady::Any),
        "no" => Ok(FarReady::No),
        port => match port.parse() {
            Ok(port @ 1..) => Ok(FarReady::Port(port)),
            _ => Err("write any, no, or a port".to_owned()),
        },
    }
}

/// What can carry packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Virtual Ethernet and packet sockets
    Veth,
    /// TUN devices; needs access to /dev/net/tun
    Tun,
}

/// Declares one flag for each key and hands the given ones on by name.
macro_rules! words {
    ($($(#[$help:meta])* $field:ident = $name:literal, $value:literal, $heading:literal;)*) => {
        /// The keys, as text: the crate that knows them reads them.
        #[derive(Debug, Args)]
        pub(crate) struct Words {
            $($(#[$help])*
            #[arg(long = $name, value_name = $value, help_heading = $heading)]
            $field: Option<String>,)*
        }

        impl Words {
            /// Key and value of each that was given.
            pub(crate) fn given(&self) -> Vec<(&'static str, &str)> {
                let mut given = Vec::new();
                $(if let Some(value) = &self.$field { given.push(($name, value.as_str())); })*
                given
            }
        }
    };
}

words! {
    /// Bits a second, as in 28.8k, 1.5M; none: no line
    rate = "rate", "RATE", "Link";
    /// A trace of delivery opportunities in the format of mm-link, instead of a rate
    trace = "trace", "FILE", "Link";
    /// Propagation delay of each direction, as in 45ms
    delay = "delay", "TIME", "Link";
    /// Round trip: half of it in each direction
    rtt = "rtt", "TIME", "Link";
    /// Added to the delay: 5ms uniformly, normal:5ms
    jitter = "jitter", "TIME", "Link";
    /// Whether jitter may change the order of packets: yes, no
    reorder = "reorder", "YES|NO", "Link";
    /// Loss: 1%, or in bursts burst:p,r or burst:p,r,bad,good
    loss = "loss", "SHARE", "Link";
    /// The queue before the line: 100p, 64K, 100p/64K, codel, codel:5ms,100ms,1000p
    queue = "queue", "QUEUE", "Link";
    /// What the line carries around packets: ip, ethernet, ppp, +BYTES
    framing = "framing", "FRAMING", "Link";
    /// Largest packet
    mtu = "mtu", "BYTES", "Link";
    /// Holds pure ACKs back as a delayed-ACK timer would: 200ms, beat:200ms, beat:200ms,30ms
    hold_acks = "hold-acks", "TIME", "Link";
    /// The segment size two of which make an ACK pass unheld
    hold_mss = "hold-mss", "BYTES", "Link";
    /// Whether both directions share one line: yes, no
    half_duplex = "half-duplex", "YES|NO", "Link";
    /// Largest segment both hosts announce
    mss = "mss", "BYTES", "Hosts";
    /// Segments a sender begins with
    initcwnd = "initcwnd", "N", "Hosts";
    /// Congestion control of both hosts, as in reno
    congestion = "congestion", "NAME", "Hosts";
    /// Whether an idle connection starts slowly again: yes, no
    idle_restart = "idle-restart", "YES|NO", "Hosts";
}
