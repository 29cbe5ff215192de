//! The flags of `weir model`: which question, with which numbers, in which form the answer. Does nothing.

mod queues;
mod sender;
mod trials;
mod values;

pub(crate) use queues::{ClosedFlags, FlowFlags, QueueFlags, SrptFlags};
pub(crate) use sender::SenderFlags;
pub(crate) use trials::{ExperimentFlags, FitFlags, ValidateFlags};
pub(crate) use values::{LineOffer, Unit};

use ::model::transaction::Mode;
use ::model::waiting::{Group, InnerSum};
use ::model::{Quantity, Seconds};
use clap::{Args, Subcommand, ValueEnum};
use measure::{Bytes, Rate, Seed};
use values::{bytes, group, measured, seconds, share};

/// Examples of every question, for `weir model --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  weir model transaction --size 6000 --rate T1 --rtt 100ms --mss 512 --explain
  weir model transfer --size 125KB --rate 20M --rtt 90ms --setup tls1.3 --loss 1%
  weir model waiting --users 50 --size 6000 --rate T1 --rtt 100ms --mss 512
  weir model tables --errata
  weir model dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms
  weir model distribute --users 50 --page 6000 --rtt 100ms --line T1 --line E1 --line T3
  weir model page --rate 2M --rtt 90ms
  weir model closed --users 100 --think 7s --station cpu=5ms --station disk=30ms --format svg > closed.svg
  weir model flow --users 1000000 --lines 1000 --rate 100M --page 118750 --think 10s

Every answer comes with its bounds, the region in which it holds, and a warning for every
measurement (--measured size-scv=4) outside of it. docs/model.md says what each model is worth.";

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// One object, every digit, derivation included
    Json,
    /// The first table, every digit
    Csv,
    /// The first table, for documents
    Markdown,
    /// A picture, where the question has one
    Svg,
}

/// Flags of `weir model`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) output: Output,

    /// The question
    #[command(subcommand)]
    pub(crate) question: Question,
}

/// What all questions share.
#[derive(Clone, Debug, Args)]
pub(crate) struct Output {
    /// How the answer is written
    #[arg(
        long,
        value_enum,
        default_value = "table",
        global = true,
        help_heading = "Answer"
    )]
    pub(crate) format: Format,

    /// Prints each formula with the numbers in it, its source, and what is assumed
    #[arg(long, global = true, help_heading = "Answer")]
    pub(crate) explain: bool,

    /// Something measured, to be compared with the region in which the model holds; may be repeated
    #[arg(long, value_name = "QUANTITY=VALUE", value_parser = measured, global = true, help_heading = "Answer")]
    pub(crate) measured: Vec<(Quantity, f64)>,
}

/// The questions.
#[derive(Debug, Subcommand)]
pub(crate) enum Question {
    /// One HTTP transaction alone on a link: K, L, M, S, W, Tf, Tmin, T and T/TCP
    #[command(
        after_help = "Example: weir model transaction --size 1048576 --rate T3 --rtt 100ms --mss 512 --paper"
    )]
    Transaction(TransactionFlags),
    /// One transfer over the TCP of today: initial window, growth, cap, delayed ACKs, loss, every set-up
    #[command(
        after_help = "Example: weir model transfer --size 125KB --rate 20M --rtt 90ms --loss 1% --initial-window 10"
    )]
    Transfer(TransferFlags),
    /// Users who ask at once: mean waiting and turnaround (Eqs. 1 to 6)
    #[command(
        visible_alias = "turnaround",
        after_help = "Examples:\n  weir model waiting --users 50 --packets 12 --packet-time 36ms\n  \
                      weir model waiting --group 5:6ms --group 10:4.333ms --packets 3"
    )]
    Waiting(WaitingFlags),
    /// The document's Tables 1 to 5 from its formulas, with every erratum
    #[command(
        after_help = "Examples:\n  weir model tables 4\n  weir model tables --errata --format markdown"
    )]
    Tables(TablesFlags),
    /// The document's Figure 3: what distributing the users over several lines saves
    #[command(after_help = "Example: weir model savings --page 6000 --format svg > figure3.svg")]
    Savings(SavingsFlags),
    /// The least bandwidth for a number of users and a turnaround, and what binds
    #[command(
        after_help = "Examples:\n  weir model dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms\n  \
                      weir model dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms --think 10s --setup tls1.3\n  \
                      weir model dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms --loss 0.1%"
    )]
    Dimension(DimensionFlags),
    /// How many lines, and how many users on each, for the least mean turnaround
    #[command(
        after_help = "Examples:\n  weir model distribute --users 50 --page 6000 --rtt 100ms --mss 512 --line T1 --line E1 --line T3\n  \
                      weir model distribute --users 50 --page 6000 --rtt 100ms --line T1:15 --line E1:15 --line T3:20\n  \
                      weir model distribute --users 50 --page 6000 --rtt 100ms --line T1 --turnaround 4s"
    )]
    Distribute(DistributeFlags),
    /// How many servers an open stream of requests needs
    #[command(after_help = "Example: weir model servers --arrivals 2000 --service 3ms --response 10ms")]
    Servers(ServersFlags),
    /// A page with its objects: serial, parallel, pipelined
    #[command(after_help = "Examples:\n  weir model page --rate 28.8k --rtt 150ms\n  \
                      weir model page --base 40KB --object 20KB --object 8KB --rate 50M --rtt 30ms --setup tls1.3 --connections 6 --loss 1%")]
    Page(PageFlags),
    /// One queue under every discipline: M/M/c, M/G/1, processor sharing, GI/G/c
    #[command(after_help = "Example: weir model queue --arrivals 80 --service 10ms --service-scv 4")]
    Queue(QueueFlags),
    /// Users who think, ask and wait: exact mean value analysis, or convolution with several servers, between bounds
    #[command(
        after_help = "Example: weir model closed --users 100 --think 7s --station cpu=5ms --station app=40msx4 --delay net=90ms"
    )]
    Closed(ClosedFlags),
    /// Shortest remaining first against sharing, for a distribution of sizes
    #[command(
        after_help = "Example: weir model srpt --sizes 'pareto(1K,10M,1.2)' --rate 100M --load 0.5 --load 0.8"
    )]
    Srpt(SrptFlags),
    /// Simulates users and lines without packets: a million users on a thousand lines in seconds
    #[command(
        after_help = "Example: weir model flow --users 1000000 --lines 1000 --rate 100M --page 118750 --think 10s"
    )]
    Flow(FlowFlags),
    /// From measurements to parameters, with 95 % intervals
    #[command(after_help = "Results are of one kind:\n  \
                      weir load --clients N --out F  three runs or more with different N: demand, delay, think time\n  \
                      weir trace --json CAPTURE > F  round trip, rate, initial window, share of segments sent again\n  \
                      CSV, whose first line names the columns:\n    \
                      users,throughput,response    steady states of a load test (requests/s, s)\n    \
                      size,latency                 transfers on an unshared path (bytes, s)\n  \
                      Lines of CSV that begin with # are skipped, other columns ignored.\n\n\
                      Examples:\n  weir model fit one.json two.json four.json eight.json --predict 64\n  \
                      weir model fit results.csv --predict 500")]
    Fit(FitFlags),
    /// The document's experiment: published, modeled, and simulated packet by packet, with the error of each cell
    #[command(after_help = "Examples:\n  weir model experiment --format markdown\n  \
                      weir model experiment --measure --bursts 30 --format markdown\n  \
                      weir model experiment --users 20 --users 50 --server-time 2ms")]
    Experiment(ExperimentFlags),
    /// Predicts users on servers, simulates them or loads a server with them, and states the error of each cell
    #[command(
        after_help = "Examples:\n  weir model validate --users 1 --users 100 --lines 1 --lines 4\n  \
                      weir model validate --users 200 --packet-users 200 --rtt 30ms --page 20KB\n  \
                      weir model validate --load --page 20KB --clients 16 --clients 64\n\n\
                      Every prediction is judged twice: against flows, which share as the formula assumes, and where\n\
                      there are packets against those, which do what TCP does (--packet-tolerance).\n\
                      Exit codes: 0 every prediction within both tolerances; 1 one is not, and is named; 2 usage."
    )]
    Validate(ValidateFlags),
}

/// A link and a file.
#[derive(Debug, Args)]
pub(crate) struct TransactionFlags {
    /// Bytes of the file
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) size: Bytes,

    /// Rate of the link; T1, E1, T3, OC3 are names of rates
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Rate,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// Largest segment
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "1460")]
    pub(crate) mss: Bytes,

    /// Computes as the document's tables do: 1,000 B counted as 1,024 B in Tf, K not rounded up
    #[arg(long)]
    pub(crate) paper: bool,
}

impl TransactionFlags {
    pub(crate) fn mode(&self) -> Mode {
        mode(self.paper)
    }
}

/// The document's units, or consistent ones.
pub(crate) fn mode(paper: bool) -> Mode {
    if paper { Mode::Paper } else { Mode::Exact }
}

/// A transfer.
#[derive(Debug, Args)]
pub(crate) struct TransferFlags {
    /// Bytes to move
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) size: Bytes,

    /// Rate of the slowest link; without it rate is no limit
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<Rate>,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// Share of the packets that are lost, in each direction
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub(crate) loss: f64,

    #[command(flatten)]
    pub(crate) sender: SenderFlags,
}

/// Over TCP or T/TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// With the round trip of connection set-up
    Tcp,
    /// Without
    TTcp,
}

/// How far the last inner sum of Eqs. 5 and 6 runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sum {
    /// Over the users of the group, as printed
    Printed,
    /// Over the index of the group, as Table 3 was computed
    Table3,
}

impl From<Sum> for InnerSum {
    fn from(sum: Sum) -> InnerSum {
        match sum {
            Sum::Printed => InnerSum::Printed,
            Sum::Table3 => InnerSum::TableThree,
        }
    }
}

/// Users who ask at once.
#[derive(Debug, Args)]
pub(crate) struct WaitingFlags {
    /// Users, all with the same packet time
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "group",
        conflicts_with = "group"
    )]
    pub(crate) users: Option<u64>,

    /// Users of one packet time, in the order they are served; may be repeated
    #[arg(long, value_name = "USERS:TIME", value_parser = group)]
    pub(crate) group: Vec<Group>,

    /// Packets each user fetches
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "size",
        conflicts_with = "size"
    )]
    pub(crate) packets: Option<u64>,

    /// Time a packet takes
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with_all = ["size", "group"])]
    pub(crate) packet_time: Option<Seconds>,

    /// Bytes each user fetches; with --rate and --rtt in place of packets and their time: t = T/n
    #[arg(long, value_name = "BYTES", value_parser = bytes, requires_all = ["rate", "rtt"], conflicts_with = "group")]
    pub(crate) size: Option<Bytes>,

    /// Rate of the link
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with = "packets")]
    pub(crate) rate: Option<Rate>,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "packets")]
    pub(crate) rtt: Option<Seconds>,

    /// Largest segment
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "1460", conflicts_with = "packets")]
    pub(crate) mss: Bytes,

    /// Over TCP or T/TCP
    #[arg(long, value_enum, default_value = "tcp", conflicts_with = "packets")]
    pub(crate) protocol: Protocol,

    /// Computes T as the document's tables do
    #[arg(long, conflicts_with = "packets")]
    pub(crate) paper: bool,

    /// How far the last inner sum of Eqs. 5 and 6 runs
    #[arg(long, value_enum, default_value = "printed", conflicts_with = "users")]
    pub(crate) inner_sum: Sum,
}

/// Tables of the document.
#[derive(Debug, Args)]
pub(crate) struct TablesFlags {
    /// Which, from 1 to 5; none: all
    #[arg(value_name = "TABLE", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) tables: Vec<u8>,

    /// Lists only the entries that differ from the formulas
    #[arg(long)]
    pub(crate) errata: bool,
}

/// Figure 3.
#[derive(Debug, Args)]
pub(crate) struct SavingsFlags {
    /// Bytes each user fetches; the document has 6,000 and 1,048,576
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "6000", visible_alias = "size")]
    pub(crate) page: Bytes,
}

/// A question of dimensioning.
#[derive(Debug, Args)]
pub(crate) struct DimensionFlags {
    /// Users of the link
    #[arg(long, value_name = "N")]
    pub(crate) users: u64,

    /// Bytes each fetches
    #[arg(long, value_name = "BYTES", value_parser = bytes, visible_alias = "size")]
    pub(crate) page: Bytes,

    /// Mean turnaround wanted
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) turnaround: Seconds,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// Share of the packets that are lost, in each direction
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, conflicts_with = "document")]
    pub(crate) loss: f64,

    #[command(flatten)]
    pub(crate) basis: BasisFlags,

    #[command(flatten)]
    pub(crate) sender: SenderFlags,
}

/// What users do.
#[derive(Debug, Args)]
pub(crate) struct BasisFlags {
    /// Each user reads this long and asks again; without it all ask at once
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "document", help_heading = "Users")]
    pub(crate) think: Option<Seconds>,

    /// All ask at once and nothing overlaps, round trips included: the document's upper bound, with a sender of its own
    #[arg(long, conflicts_with_all = ["sender", "initial_window", "growth", "delayed_acks", "window"], help_heading = "Users")]
    pub(crate) document: bool,

    /// All ask at once and the link serves a packet of each in turn, as the document assumes; without it a
    /// window of each, as a first-in first-out queue does
    #[arg(long, conflicts_with_all = ["document", "think"], help_heading = "Users")]
    pub(crate) packets_in_turn: bool,

    /// With --document, computes T as the document's tables do
    #[arg(long, requires = "document", help_heading = "Users")]
    pub(crate) paper: bool,
}

/// A question of distribution.
#[derive(Debug, Args)]
pub(crate) struct DistributeFlags {
    /// Users in all
    #[arg(long, value_name = "N")]
    pub(crate) users: u64,

    /// Bytes each fetches
    #[arg(long, value_name = "BYTES", value_parser = bytes, visible_alias = "size")]
    pub(crate) page: Bytes,

    /// Round-trip time of lines that name none of their own
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// A line, with :USERS for a split that is given instead of sought; may be repeated
    #[arg(long, value_name = "[NAME=]RATE[@RTT][:USERS]", required = true)]
    pub(crate) line: Vec<LineOffer>,

    /// With a single line: how many like it bring the mean turnaround to this
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) turnaround: Option<Seconds>,

    #[command(flatten)]
    pub(crate) basis: BasisFlags,

    #[command(flatten)]
    pub(crate) sender: SenderFlags,
}

/// A pool of servers.
#[derive(Debug, Args)]
pub(crate) struct ServersFlags {
    /// Requests per second
    #[arg(long, value_name = "PER-SECOND")]
    pub(crate) arrivals: f64,

    /// Mean service time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) service: Seconds,

    /// Mean response wanted
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) response: Seconds,
}

/// A page and the way to it.
#[derive(Debug, Args)]
pub(crate) struct PageFlags {
    /// Bytes of the document that names the others; without it, document 003's Microscape page
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) base: Option<Bytes>,

    /// Bytes of an embedded object; may be repeated
    #[arg(long, value_name = "BYTES", value_parser = bytes, requires = "base")]
    pub(crate) object: Vec<Bytes>,

    /// Bytes of a request
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "190")]
    pub(crate) request: Bytes,

    /// Bytes of a response's header section
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "226")]
    pub(crate) response_header: Bytes,

    /// Rate towards the client
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Rate,

    /// Rate towards the server [default: the same]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) up: Option<Rate>,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// Server time for each request
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = seconds)]
    pub(crate) server_time: Seconds,

    /// Connections side by side in the parallel modes
    #[arg(long, value_name = "N", default_value = "4")]
    pub(crate) connections: u32,

    /// Share of the packets that are lost, in each direction
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub(crate) loss: f64,

    #[command(flatten)]
    pub(crate) sender: SenderFlags,
}

/// A rate, or the name of one.
fn rate(text: &str) -> Result<Rate, String> {
    let named = ::model::paper::LINKS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text));
    match named {
        Some(&(_, rate)) => Ok(rate),
        None => text
            .parse()
            .map_err(|why: measure::ParseRateError| why.to_string()),
    }
}

fn seed(text: &str) -> Result<Seed, String> {
    text.parse()
        .map(Seed)
        .map_err(|_| format!("`{text}` is not a whole number"))
}
