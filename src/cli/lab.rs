//! The flags of `weir lab`: tests of this machine and reproductions of the documents. Does nothing.

use super::offered::offered;
use super::profile::seconds;
use super::share::parse_share;
use ::load::webstone::List;
use clap::{Args, Subcommand, ValueEnum};
use client::plan::{Manner, Mode};
use http_semantics::coding::Coding;
use repro::refit::Group;
use units::Duration;

/// Subcommands of `weir lab`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Checks which features this machine allows (namespaces, TUN, io_uring, capture, control groups), and says how to
    /// enable the others
    #[command(after_help = "\
Examples:
  weir lab doctor
  weir lab doctor --json

Always exits with 0: a missing feature limits measurements on this machine, not the server.")]
    Doctor,

    /// Simulates document 003 (W3C NOTE, 1997), Tables 3 to 9 and the modem table, beside the published figures
    #[command(after_help = "\
Examples:
  weir lab w3c
  weir lab w3c --table 5 --runs 1
  weir lab w3c --json > rows.jsonl
  weir lab w3c --table 5 --set client_reopening_ms=0

The published figures of Tables 3 to 9 are recalled from memory and not verified, and every row
says so. The report ends with the values that were fitted to them. A row is `not explained` if its
packets or bytes differ by more than 10 %, or its seconds by more than 20 %.

For a single visit: weir fetch --simulate ppp --from apache --mode pipelined --explain")]
    W3c(W3cFlags),

    /// Simulates document 001 (Heidemann, 1997): Table 1, Figures 2 and 4, slow-start restart after idle periods
    #[command(after_help = "\
Examples:
  weir lab heidemann
  weir lab heidemann --pages 20 --json")]
    Heidemann(HeidemannFlags),

    /// Predicts each figure of documents 001 and 003 with parameters that are fitted to the other figures only
    #[command(after_help = "\
Examples:
  weir lab leave-one-out
  weir lab leave-one-out --parameters page,times --json
  weir lab leave-one-out --format markdown

Parameters are refitted in groups. For each figure of a group, the report has four values:
  published   the document's
  adopted     with the values that the simulations use
  refitted    with a new fit to all figures of the group
  left out    with a fit to all figures but this one; only this value is a prediction

The report ends with the fitted parameters that cannot be checked in this way. It simulates
about 6,500 visits. Its output is the same on every machine.

Groups: page (times of document 001), sizes, times, timeouts, wan, ppp, modem (all of document 003).")]
    LeaveOneOut(LeaveOneOutFlags),

    /// Simulates a server of document 000 or 002 on a host of its time: processors, locks, memory, a disk and period TCP,
    /// under the users of `weir load`
    #[command(after_help = "\
Examples:
  weir lab hosts
  weir lab hosts --server apache-1.3 --users 520 --mode pipelined --set memory_mb=32
  weir lab hosts --server jaws --list table-1 --clients 30 --set whole_lock=1 --json

Without --server, prints every parameter with its source. Parameters marked recalled-unverified were
not checked against a copy of their publication. All were chosen before the first run, except
delayed_ack_ms of linux-2.0: it was changed afterwards, by document 000's Table 6. The output is
the same on every machine.

Exit codes: 0 success; 2 usage; 4 the simulation failed.")]
    Hosts(HostsFlags),

    /// Simulates visits of the study on the protocols since (`weir study since`): HTTP/1.1, HTTP/2 and HTTP/3 with TLS over one
    /// link
    #[command(after_help = "\
Examples:
  weir lab since
  weir lab since --link '4g loss=3%' --modes h1-six,h2,h3 --seed 2 --json
  weir lab since --link lan --pages 5s

Modes: h1-each (HTTP/1.0, six connections at once), h1-six (HTTP/1.1 on six connections), h1-one,
h1-pipelined, h2, h3; h2 and h3 also with +deflate.

Client and server are those of `weir fetch` and `weir serve`, with real TLS. The link, TCP and time
are simulated, and processors take no time. The output is the same on every machine.

Exit codes: 0 success; 1 an object is missing; 2 usage; 4 the system refused.")]
    Since(SinceFlags),

    /// Repeats document 003's content study on the Microscape site: deflate with tags in lower or mixed case, PNG
    /// instead of GIF, style sheets instead of pictures of text
    #[command(after_help = "\
Examples:
  weir lab content
  weir lab content --json

The original images are lost. The results are for generated images of the published lengths.")]
    Content,

    /// Samples the congestion windows of a server's connections from the kernel, and prints their distribution
    #[command(after_help = "\
Examples:
  weir lab windows --port 8080 --seconds 60
  weir lab windows --port 80 --seconds 20 --every 50ms --json

Each sample counts every connection of the port in the network namespace of this command, as
document 000 did for its Table 3 and Figure 2. No privilege is needed.

Exit codes: 0 success; 2 usage; 4 the kernel does not report windows (it has no inet_diag).")]
    Windows(WindowsFlags),

    /// Takes a share of a processor's time, so that all other processes run slower on it
    #[command(after_help = "\
Examples:
  weir lab occupy --processor 0 --share 70%
  weir lab occupy --processor 1 --share 0.5 --seconds 10m

If a load and a server run on one machine, slow down the processor of the one that should be the
bottleneck. The command takes its share of every 2 ms. It runs with real-time priority, so it
needs root (CAP_SYS_NICE).

Exit codes: 0 success; 2 usage; 4 the system refused.")]
    Occupy(OccupyFlags),
}

/// Flags of `weir lab w3c`.
#[derive(Debug, Args)]
pub(crate) struct W3cFlags {
    /// Comma-separated tables: 3 to 9, modem, closing (responses lost by a close with requests in flight), nagle (cost
    /// of Nagle's algorithm to a buffering server) [default: all]
    #[arg(long, value_name = "TABLES", value_delimiter = ',', value_parser = table)]
    pub(crate) table: Vec<Table>,

    /// Visits per row, each with its own timer phases
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) runs: u64,

    /// Adds rows for Weir's server and client over these networks: HTTP/1.0 to HTTP/2, each with the TCP of 1997 and
    /// with today's
    #[arg(long)]
    pub(crate) today: bool,

    /// Changes a fitted processor time in Tables 4 to 9, as in client_reopening_ms=0; repeatable. Prints only these
    /// tables
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "today", value_parser = change)]
    pub(crate) set: Vec<(String, f64)>,
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
    /// Page retrievals per configuration
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) pages: u16,
}

/// Flags of `weir lab leave-one-out`.
#[derive(Debug, Args)]
pub(crate) struct LeaveOneOutFlags {
    /// Comma-separated groups of parameters [default: all]
    #[arg(long, value_name = "GROUPS", value_delimiter = ',', value_parser = offered::<Group>(), hide_possible_values = true)]
    pub(crate) parameters: Vec<Group>,

    /// Visits per simulated figure of document 003, each with its own timer phases
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) runs: u64,

    /// Format of the report without --json
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Form,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Tables to read in a terminal
    Table,
    /// Tables of docs/reproductions.md
    Markdown,
}

/// Flags of `weir lab hosts`.
#[derive(Debug, Args)]
pub(crate) struct HostsFlags {
    /// Server to simulate: apache-1.3, iis-4.0 (document 000); apache-1.1, phttpd, java-server, zeus, enterprise, jaws
    /// (document 002) [default: print all parameters]
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,

    /// Surge users, who sleep between objects
    #[arg(long, value_name = "N", requires = "server", value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub(crate) users: Option<u32>,

    /// Clients that never sleep [default: 1]
    #[arg(long, value_name = "N", requires = "server", conflicts_with = "users", value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub(crate) clients: Option<u32>,

    /// Clients request a WebStone list instead of a Surge site: table-1 or standard
    #[arg(long, value_name = "LIST", requires = "server", conflicts_with = "users")]
    pub(crate) list: Option<List>,

    /// Protocol mode: http10, serial, pipelined, early-close, or h2 (HTTP/2 without TLS, which no server of that time had)
    #[arg(long, value_name = "MODE", default_value = "http10", value_parser = period_mode)]
    pub(crate) mode: Mode,

    /// Connections of a user; 1 with h2
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) connections_per_user: u32,

    /// Changes a parameter, as in memory_mb=32; repeatable
    #[arg(long, value_name = "NAME=VALUE", requires = "server", value_parser = change)]
    pub(crate) set: Vec<(String, f64)>,

    /// Simulated time before measuring begins; Surge users start within it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = seconds)]
    pub(crate) warmup: Duration,

    /// Measured time, simulated
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = seconds)]
    pub(crate) duration: Duration,

    /// Seed of users and network; the same seed gives the same output on every machine
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Flags of `weir lab since`.
#[derive(Debug, Args)]
pub(crate) struct SinceFlags {
    /// Link between client and server, as `weir link` takes it
    #[arg(long, value_name = "LINK", default_value = "wan")]
    pub(crate) link: String,

    /// Comma-separated modes [default: all; without h3 with --clear]
    #[arg(long, value_name = "MODES", value_delimiter = ',', value_parser = study_mode)]
    pub(crate) modes: Vec<StudyMode>,

    /// Without TLS, and so without HTTP/3
    #[arg(long)]
    pub(crate) clear: bool,

    /// Instead of visits: a client that takes the page again and again for this long, simulated, over one connection that
    /// stays open and over one for each page (early close)
    #[arg(long, value_name = "TIME", conflicts_with_all = ["clear", "modes"], value_parser = seconds)]
    pub(crate) pages: Option<Duration>,

    /// Random seed of losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl SinceFlags {
    /// The modes to simulate.
    pub(crate) fn modes(&self) -> Vec<StudyMode> {
        let is_wanted = |mode: &StudyMode| !self.clear || mode.manner.mode != Mode::Http3;
        match self.modes.as_slice() {
            [] => STUDY_MODES.into_iter().filter(is_wanted).collect(),
            given => given.to_vec(),
        }
    }
}

/// A mode of the study on the protocols since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StudyMode {
    /// Its name in the plan.
    pub(crate) name: &'static str,
    /// What its connections speak.
    pub(crate) manner: Manner,
    /// Connections open at once.
    pub(crate) connections: usize,
}

/// All of them.
const STUDY_MODES: [StudyMode; 8] = [
    of_study("h1-each", Mode::Http10, 6, None),
    of_study("h1-six", Mode::Serial, 6, None),
    of_study("h1-one", Mode::Serial, 1, None),
    of_study("h1-pipelined", Mode::Pipelined, 1, None),
    of_study("h2", Mode::Http2, 1, None),
    of_study("h3", Mode::Http3, 1, None),
    of_study("h2+deflate", Mode::Http2, 1, Some(Coding::Deflate)),
    of_study("h3+deflate", Mode::Http3, 1, Some(Coding::Deflate)),
];

const fn of_study(name: &'static str, mode: Mode, connections: usize, coding: Option<Coding>) -> StudyMode {
    StudyMode {
        name,
        manner: Manner { mode, coding },
        connections,
    }
}

fn study_mode(text: &str) -> Result<StudyMode, String> {
    let found = STUDY_MODES.into_iter().find(|mode| mode.name == text);
    found.ok_or_else(|| {
        let names = STUDY_MODES.map(|mode| mode.name);
        format!("write one of {}", names.join(", "))
    })
}

/// A mode of document 000.
fn period_mode(text: &str) -> Result<Mode, String> {
    if text == Mode::Http2.name() {
        return Ok(Mode::Http2);
    }
    match text.parse() {
        Ok(mode @ (Mode::Http10 | Mode::Serial | Mode::Pipelined | Mode::EarlyClose)) => Ok(mode),
        _ => Err("write http10, serial, pipelined, early-close or h2".to_owned()),
    }
}

fn change(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("write NAME=VALUE, with a number for VALUE")?;
    let value = value.parse().map_err(|_| format!("`{value}` is not a number"))?;
    Ok((name.to_owned(), value))
}

/// Flags of `weir lab windows`.
#[derive(Debug, Args)]
pub(crate) struct WindowsFlags {
    /// Port of the server whose connections to sample
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,

    /// How long to sample
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = seconds)]
    pub(crate) seconds: Duration,

    /// Time between samples
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = seconds)]
    pub(crate) every: Duration,
}

/// Flags of `weir lab occupy`.
#[derive(Debug, Args)]
pub(crate) struct OccupyFlags {
    /// Number of the processor, counted from 0 as in the kernel
    #[arg(long, value_name = "N")]
    pub(crate) processor: usize,

    /// Share of the processor's time to take, as in 0.5 or 50%; at most 90%
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) share: f64,

    /// How long to occupy the processor
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = seconds)]
    pub(crate) seconds: Duration,
}
