//! The flags of `weir link`: the link, TCP settings of its two hosts, the command behind it. Does nothing.

use clap::{Args, FromArgMatches, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir link ppp -- curl http://198.18.0.1:8080/        a server on this machine, over a modem
  weir link wan --far 'weir serve ./site --listen 0.0.0.0:80' -- curl http://198.18.0.1/
  weir link 'rate=1.5M rtt=90ms loss=burst:1%,30%' -- sh
  weir link cable --initcwnd 2 --up rate=256k --queue 20p -- COMMAND
  weir link wan -- weir link ppp -- COMMAND            links nest
  weir link 'loss=1% rebind=2s' -- weir fetch https://198.18.0.1:8443/ --ca ca.pem --h3-only
  weir link ppp --stack windows-nt-4.0,sunos-4.1.3 -- curl http://198.18.0.1:8080/
  weir link --calibrate                                measure how exact links are here
  weir link wan --proxy 127.0.0.1:8081=127.0.0.1:8080  without namespaces

The command reaches this machine at 198.18.0.1 (also in WEIR_LINK_GATEWAY), including servers that
listen here on 0.0.0.0, 127.0.0.1 or ::1. A relay terminates the TCP connections of the link, so the
server's own TCP is not on the link. With --far, the server runs at the far end, and its own TCP is
on the link. With --stack, the TCP on the link is a model of the named stack in either case.

UDP is relayed datagram by datagram, so QUIC runs between the command and the server itself. Names
are looked up over the link, at this machine's name servers. With --stack, no UDP crosses the link.

Flags override the words of LINK, and the words override the preset. Without a preset and settings,
the link neither limits, delays nor loses packets.

Exit codes: that of the command, or 128 plus the signal that ended it. If no command ran, 1 to 4
as for every weir command; 3 if --calibrate finds the link too inaccurate. See also docs/link.md.";

/// Flags of `weir link`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "weir link [OPTIONS] [LINK] -- COMMAND...")]
pub(crate) struct Flags {
    /// A preset (see --list), key=value words (rate=1.5M rtt=90ms), both, or a .toml file with the same keys
    #[arg(value_name = "LINK")]
    pub(crate) link: Option<String>,

    /// Command to run behind the link
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<OsString>,

    /// Prints the presets with their rates, round trips and sources
    #[arg(long)]
    pub(crate) list: bool,

    /// Measures the accuracy of the link on this machine instead of running a command; exits with 3 if the link is too
    /// inaccurate
    #[arg(long, conflicts_with_all = ["far", "pcap", "log"])]
    pub(crate) calibrate: bool,

    /// Runs this command with sh at the far end, at 198.18.0.1, and stops it when COMMAND has ended
    #[arg(long, value_name = "SHELL COMMAND", help_heading = "Far end")]
    pub(crate) far: Option<String>,

    /// Condition for starting COMMAND: any (a socket listens at the far end, or 5 s have passed), PORT (a socket
    /// listens at this port; an error after 30 s), no (none)
    #[arg(long, value_name = "any|PORT|no", default_value = "any", requires = "far", value_parser = far_ready,
        help_heading = "Far end")]
    pub(crate) far_ready: FarReady,

    /// Forwards connections from LISTEN to TARGET with delay and pacing, for machines without namespaces. Does not
    /// emulate packets: no loss, no reordering, no queue drops, no TCP settings. COMMAND is optional
    #[arg(
        long,
        value_name = "LISTEN=TARGET",
        conflicts_with_all = ["far", "pcap", "backend", "calibrate"],
        help_heading = "Emulation"
    )]
    pub(crate) proxy: Option<String>,

    /// Saves all packets at the command's end of the link as pcapng
    #[arg(long, value_name = "FILE", help_heading = "Recording")]
    pub(crate) pcap: Option<PathBuf>,

    /// Writes counters of queues and losses periodically, one JSON object per line
    #[arg(long, value_name = "FILE", help_heading = "Recording")]
    pub(crate) log: Option<PathBuf>,

    /// Writes the TCP settings of both hosts when COMMAND has ended, as one JSON object; with --stack, the names of the
    /// modeled stacks
    #[arg(long, value_name = "FILE", conflicts_with_all = ["proxy", "calibrate"], help_heading = "Recording")]
    pub(crate) settings: Option<PathBuf>,

    /// Interval between the lines of --log, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=3_600_000),
        help_heading = "Recording")]
    pub(crate) log_every: u64,

    /// Device that carries the packets [default: veth, or tun if veth is refused]
    #[arg(long, value_name = "BACKEND", help_heading = "Emulation")]
    pub(crate) backend: Option<Backend>,

    /// Replaces the TCP on the link by a model of this stack, or of one stack for COMMAND's host and one for the far
    /// host: sunos-4.1.3, solaris-2.5, 4.4bsd, digital-unix-4.0, linux-2.0, windows-nt-4.0, linux-6
    #[arg(long, value_name = "NEAR[,FAR]", conflicts_with_all = ["proxy", "calibrate"], help_heading = "Hosts")]
    pub(crate) stack: Option<String>,

    /// Changes a setting of the modeled TCP, as in rto_min_ms=1000; with near. or far. before the key, of one host only;
    /// may be repeated. The keys are those of the presets (docs/link.md)
    #[arg(
        long,
        value_name = "[HOST.]KEY=VALUE",
        requires = "stack",
        help_heading = "Hosts"
    )]
    pub(crate) stack_set: Vec<String>,

    /// Switches off Nagle's algorithm in the modeled TCP of these hosts, as TCP_NODELAY does [default: the stack's own
    /// setting on both]
    #[arg(long, value_name = "HOSTS", requires = "stack", help_heading = "Hosts")]
    pub(crate) stack_nodelay: Option<Hosts>,

    /// Random seed for loss and jitter, and for timers and sequence numbers of --stack
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Emulation")]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) words: Words,

    /// Sets a link key for the direction from the command only, as in --up rate=128k; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Link")]
    pub(crate) up: Vec<String>,

    /// Sets a link key for the direction to the command only; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Link")]
    pub(crate) down: Vec<String>,
}

impl Flags {
    /// The flags of these words, which stand behind `weir link`.
    ///
    /// # Errors
    /// A word that is none of them.
    pub(crate) fn of(words: Vec<OsString>) -> Result<Flags, clap::Error> {
        let declaration = Flags::augment_args(clap::Command::new("weir link").no_binary_name(true));
        Flags::from_arg_matches(&declaration.try_get_matches_from(words)?)
    }
}

/// The event that starts the near command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FarReady {
    /// Any listening socket.
    Any,
    /// A socket that listens at this port.
    Port(u16),
    /// Start at once.
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

/// Some of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hosts {
    /// The host of the command
    Near,
    /// The host at the far end
    Far,
    /// Both hosts
    Both,
}

/// Transport of the emulated packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Virtual Ethernet and packet sockets
    Veth,
    /// TUN devices; needs access to /dev/net/tun
    Tun,
}

/// Declares one flag per key and passes the given ones on by name.
macro_rules! words {
    ($($(#[$help:meta])* $field:ident = $name:literal, $value:literal, $heading:literal;)*) => {
        /// The keys as text; `link` parses them.
        #[derive(Debug, Args)]
        pub(crate) struct Words {
            $($(#[$help])*
            #[arg(long = $name, value_name = $value, help_heading = $heading)]
            $field: Option<String>,)*
        }

        impl Words {
            /// Key and value of each given flag.
            pub(crate) fn given(&self) -> Vec<(&'static str, &str)> {
                let mut given = Vec::new();
                $(if let Some(value) = &self.$field { given.push(($name, value.as_str())); })*
                given
            }
        }
    };
}

words! {
    /// Bandwidth of the line in bits per second, as in 28.8k, 1.5M; none: unlimited
    rate = "rate", "RATE", "Link";
    /// Trace of delivery opportunities in the format of mm-link, instead of a rate
    trace = "trace", "FILE", "Link";
    /// Propagation delay of each direction, as in 45ms
    delay = "delay", "TIME", "Link";
    /// Round-trip propagation delay; half of it in each direction
    rtt = "rtt", "TIME", "Link";
    /// Random addition to the delay: 5ms (uniform, up to 5 ms), normal:5ms (standard deviation)
    jitter = "jitter", "TIME", "Link";
    /// Lets jitter reorder packets: yes, no [default: no]
    reorder = "reorder", "YES|NO", "Link";
    /// Packet loss: 1%, or in bursts (Gilbert-Elliott): burst:p,r or burst:p,r,bad,good
    loss = "loss", "SHARE", "Link";
    /// Queue before the line: 100p, 64K, 100p/64K (drop-tail), codel, codel:5ms,100ms,1000p
    queue = "queue", "QUEUE", "Link";
    /// Framing that the line adds to each packet: ip, ethernet, ppp, +BYTES
    framing = "framing", "FRAMING", "Link";
    /// Largest packet, also the MTU of both hosts: 68 to 65535
    mtu = "mtu", "BYTES", "Link";
    /// Holds pure ACKs as a delayed-ACK timer would: 200ms (for this time), beat:200ms (until the next multiple of 200
    /// ms), beat:200ms,30ms (until 30 ms after a multiple of 200 ms)
    hold_acks = "hold-acks", "TIME", "Link";
    /// Segment size for --hold-acks: an ACK of two segments of this size is not held [default: 1460]
    hold_mss = "hold-mss", "BYTES", "Link";
    /// Makes both directions share one line: yes, no
    half_duplex = "half-duplex", "YES|NO", "Link";
    /// Maximum segment size that both hosts announce
    mss = "mss", "BYTES", "Hosts";
    /// Initial congestion window of both hosts, in segments
    initcwnd = "initcwnd", "N", "Hosts";
    /// Congestion control of both hosts, as in reno [default: the machine's]
    congestion = "congestion", "NAME", "Hosts";
    /// Returns to slow start after an idle period (tcp_slow_start_after_idle): yes, no
    idle_restart = "idle-restart", "YES|NO", "Hosts";
    /// Switches off TCP features newer than 1997, as far as this kernel allows: timestamps, SACK, window scaling, tail-loss
    /// probes, RACK, BBR; initcwnd 2: yes, no [default: no]
    aged = "aged", "YES|NO", "Hosts";
    /// Gives each UDP flow a new source port outside, like a NAT whose mapping has expired: after this time (2s), or after
    /// this many datagrams from the command (200p) [default: no]
    rebind = "rebind", "TIME|Np|no", "UDP";
    /// UDP flows outside at a time; a further one replaces the one that has been idle the longest; 0: no UDP leaves the
    /// far end [default: 1024]
    udp_flows = "udp-flows", "N", "UDP";
    /// Ends a UDP flow after this time without a datagram [default: 2m]
    udp_idle = "udp-idle", "TIME", "UDP";
}
