//! The flags of `weir lab`: what the laboratory can say of this machine, and what it reproduces. Does nothing.

use super::profile::seconds;
use super::share::parse_share;
use clap::{Args, Subcommand};
use measure::Duration;

/// What `weir lab` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Says what works on this machine (namespaces, TUN, io_uring, capture, control groups) and how to enable the rest
    #[command(after_help = "\
Examples:
  weir lab doctor
  weir lab doctor --json

Exit code 0 whatever is found: what is missing limits what can be measured here, not whether Weir serves.")]
    Doctor,

    /// Simulates document 003 (W3C NOTE, 1997), Tables 3 to 9 and the modem's, beside the published figures
    #[command(after_help = "\
Examples:
  weir lab w3c
  weir lab w3c --table 5 --runs 1
  weir lab w3c --json > rows.jsonl

The published figures of Tables 3 to 9 are recalled and unverified, and every row says so; what was fitted to them
is listed at the end. A row beyond 10 % of packets or bytes or 20 % of seconds is `not explained`.
One visit by itself: weir fetch --simulate ppp --from apache --mode pipelined --explain")]
    W3c(W3cFlags),

    /// Simulates document 001 (Heidemann, 1997): Table 1, Figures 2 and 4, restart after idling
    #[command(after_help = "\
Examples:
  weir lab heidemann
  weir lab heidemann --pages 20 --json")]
    Heidemann(HeidemannFlags),

    /// Repeats document 003's study of content on the Microscape site: deflate by the case of tags, PNG, style sheets
    #[command(after_help = "\
Examples:
  weir lab content
  weir lab content --json

The original's pixels are lost: what is said of pictures is about made-up ones of the published lengths.")]
    Content,

    /// Reads the congestion windows of the connections to a port of this machine from the kernel, and says how they spread
    #[command(after_help = "\
Examples:
  weir lab windows --port 8080 --seconds 60
  weir lab windows --port 80 --seconds 20 --every 50ms --json

Counted is every connection at every look, in the network namespace it runs in: what document 000 sampled for its
Table 3 and Figure 2. It needs no privilege.

Exit codes: 0 good, 2 usage, 4 the kernel does not tell (it has no inet_diag).")]
    Windows(WindowsFlags),

    /// Takes a share of a processor away from all else that runs on it, as if it were slower
    #[command(after_help = "\
Examples:
  weir lab occupy --processor 0 --share 70%
  weir lab occupy --processor 1 --share 0.5 --seconds 10m

For a load and a server on one machine: what should be the bottleneck gets the slower processor. It runs before whatever is
not real-time, so it needs root (CAP_SYS_NICE), and takes its share every 2 ms.

Exit codes: 0 good, 2 usage, 4 the system refused.")]
    Occupy(OccupyFlags),
}

/// Flags of `weir lab w3c`.
#[derive(Debug, Args)]
pub(crate) struct W3cFlags {
    /// Only these, commas between them: tables 3 to 9, modem, closing (what a close with requests in flight loses), nagle
    /// [default: all]
    #[arg(long, value_name = "TABLES", value_delimiter = ',', value_parser = table)]
    pub(crate) table: Vec<Table>,

    /// Visits of each row, each with timers of its own
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) runs: u64,

    /// Also with this server and this client on today's stack over the same networks
    #[arg(long)]
    pub(crate) today: bool,
}

/// A table of document 003.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// 3 to 9.
    Number(u32),
    /// The one without a number.
    Modem,
    /// Answers that a close with requests in flight loses.
    Closing,
    /// What Nagle's algorithm costs a server that buffers.
    Nagle,
}

fn table(text: &str) -> Result<Table, String> {
    match text.parse() {
        Ok(number @ 3..=9) => Ok(Table::Number(number)),
        _ => match text {
            "modem" => Ok(Table::Modem),
            "closing" => Ok(Table::Closing),
            "nagle" => Ok(Table::Nagle),
            _ => Err("write a number from 3 to 9, modem, closing or nagle".to_owned()),
        },
    }
}

/// Flags of `weir lab heidemann`.
#[derive(Debug, Args)]
pub(crate) struct HeidemannFlags {
    /// Retrievals of the page in each configuration
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) pages: u16,
}

/// Flags of `weir lab windows`.
#[derive(Debug, Args)]
pub(crate) struct WindowsFlags {
    /// The port, at the end that is looked at: a server's
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,

    /// How long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = seconds)]
    pub(crate) seconds: Duration,

    /// How often
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = seconds)]
    pub(crate) every: Duration,
}

/// Flags of `weir lab occupy`.
#[derive(Debug, Args)]
pub(crate) struct OccupyFlags {
    /// Its number, as the kernel counts them from 0
    #[arg(long, value_name = "N")]
    pub(crate) processor: usize,

    /// What is taken, at most 90 %
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) share: f64,

    /// How long
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = seconds)]
    pub(crate) seconds: Duration,
}
