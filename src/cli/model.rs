//! The flags of `weir model`: the question, its numbers, and the form of the answer. Does nothing.

mod queues;
mod sender;
mod trials;
mod values;

pub(crate) use queues::{ClosedFlags, FlowFlags, QueueFlags, SrptFlags};
pub(crate) use sender::SenderFlags;
pub(crate) use trials::{BalanceFlags, ExperimentFlags, FitFlags, ValidateFlags};
pub(crate) use values::{LineOffer, Unit};

use ::model::transaction::Mode;
use ::model::waiting::{Group, InnerSum};
use ::model::{Quantity, Seconds};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use units::{Bytes, Rate, Seed};
use values::{bytes, group, measured, seconds, share};

/// Examples of most questions, for `weir model --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  weir model transaction --size 6000 --rate T1 --rtt 100ms --mss 512 --explain
  weir model transfer --size 125KB --rate 20M --rtt 90ms --setup tls1.3 --loss 1%
  weir model waiting --users 50 --size 6000 --rate T1 --rtt 100ms --mss 512
  weir model tables --errata
  weir model dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms
  weir model distribute --users 50 --page 6000 --rtt 100ms --line T1 --line E1 --line T3
  weir model page --rate 2M --rtt 90ms
  weir model closed --users 100 --think 7s --station disk=30ms --format svg > closed.svg
  weir model flow --users 1000000 --lines 1000 --rate 100M --page 118750 --think 10s

Every answer states its bounds and the region in which it holds, and warns of every measurement
(--measured size-scv=4) outside that region. docs/model.md gives the error of each model.";

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables to read in a terminal
    Table,
    /// One JSON object with all digits and the derivation
    Json,
    /// The first table, with all digits
    Csv,
    /// The first table, as Markdown
    Markdown,
    /// A picture, for questions that have one
    Svg,
}

/// Flags of `weir model`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) output: Output,

    #[command(subcommand)]
    pub(crate) question: Question,
}

/// The flags that all questions share.
#[derive(Clone, Debug, Args)]
pub(crate) struct Output {
    /// Format of the answer
    #[arg(
        long,
        value_enum,
        default_value = "table",
        global = true,
        help_heading = "Answer"
    )]
    pub(crate) format: Format,

    /// Prints each formula with its numbers, its source and its assumptions
    #[arg(long, global = true, help_heading = "Answer")]
    pub(crate) explain: bool,

    /// A measured value, to check whether the model holds for it; may be repeated
    #[arg(long, value_name = "QUANTITY=VALUE", value_parser = measured, global = true, help_heading = "Answer")]
    pub(crate) measured: Vec<(Quantity, f64)>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Question {
    /// One HTTP transaction alone on a link, over TCP and T/TCP: document 004's K, L, M, S, W, Tf, Tmin and T
    #[command(
        after_help = "Examples:\n  weir model transaction --size 1048576 --rate T3 --rtt 100ms --mss 512 --paper\n  \
                      weir model transaction --size 6000 --rate T1 --rtt 100ms --mss 512 --timeline"
    )]
    Transaction(TransactionFlags),
    /// One transfer over modern TCP: initial window, growth, window limit, delayed ACKs, loss, every set-up
    #[command(
        after_help = "Example: weir model transfer --size 125KB --rate 20M --rtt 90ms --loss 1% --initial-window 10"
    )]
    Transfer(TransferFlags),
    /// Users who ask at the same time: mean waiting and turnaround time (Eqs. 1 to 6)
    #[command(
        visible_alias = "turnaround",
        after_help = "Examples:\n  weir model waiting --users 50 --packets 12 --packet-time 36ms\n  \
                      weir model waiting --group 5:6ms --group 10:4.333ms --packets 3"
    )]
    Waiting(WaitingFlags),
    /// Document 004's Tables 1 to 5 computed from its formulas, with every erratum
    #[command(
        after_help = "Examples:\n  weir model tables 4\n  weir model tables --errata --format markdown"
    )]
    Tables(TablesFlags),
    /// Document 004's Figure 3: time saved by distributing users over several lines
    #[command(after_help = "Example: weir model savings --page 6000 --format svg > figure3.svg")]
    Savings(SavingsFlags),
    /// The least bandwidth for a number of users and a turnaround time, and the constraint that decides it
    #[command(
        after_help = "Examples:\n  weir model dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms\n  \
                      weir model dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms --think 10s\n  \
                      weir model dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms --loss 0.1%"
    )]
    Dimension(DimensionFlags),
    /// Number of lines, and users on each, for the least mean turnaround time
    #[command(
        after_help = "Examples:\n  weir model distribute --users 50 --page 6000 --rtt 100ms --mss 512 --line T1 --line E1 --line T3\n  \
                      weir model distribute --users 50 --page 6000 --rtt 100ms --line T1:15 --line E1:15 --line T3:20\n  \
                      weir model distribute --users 50 --page 6000 --rtt 100ms --line T1 --turnaround 4s\n  \
                      weir model distribute --record before.txt after.txt --turnaround 20ms"
    )]
    Distribute(DistributeFlags),
    /// Number of servers for an open stream of requests
    #[command(after_help = "Example: weir model servers --arrivals 2000 --service 3ms --response 10ms")]
    Servers(ServersFlags),
    /// A page with its objects: fetched serially, in parallel, pipelined
    #[command(after_help = "Examples:\n  weir model page --rate 28.8k --rtt 150ms\n  \
                      weir model page --base 40KB --object 20KB --object 8KB --rate 50M --rtt 30ms --setup tls1.3\n  \
                      weir model page --rate 50M --rtt 30ms --connections 6 --loss 1%")]
    Page(PageFlags),
    /// One queue under every discipline: M/M/c, M/G/1, processor sharing, GI/G/c
    #[command(after_help = "Example: weir model queue --arrivals 80 --service 10ms --service-scv 4")]
    Queue(QueueFlags),
    /// Users who alternate between thinking and waiting for a response (closed network): mean value analysis or convolution, with bounds
    #[command(
        after_help = "Example:\n  weir model closed --users 100 --think 7s --station cpu=5ms --station app=40msx4 --delay net=90ms"
    )]
    Closed(ClosedFlags),
    /// Shortest remaining time first against processor sharing, for a distribution of sizes
    #[command(
        after_help = "Example: weir model srpt --sizes 'pareto(1K,10M,1.2)' --rate 100M --load 0.5 --load 0.8"
    )]
    Srpt(SrptFlags),
    /// Simulates users and lines as flows, without packets: a million users on a thousand lines in seconds
    #[command(
        after_help = "Example: weir model flow --users 1000000 --lines 1000 --rate 100M --page 118750 --think 10s"
    )]
    Flow(FlowFlags),
    /// Fits parameters to measurements, with 95 % intervals
    #[command(after_help = "Give files of one kind only:\n  \
                      weir load --clients N --out F  three runs or more, different N: demand, delay, think time\n  \
                      weir trace --json CAPTURE > F  round trip, rate, initial window, retransmitted share\n  \
                      CSV, whose first line names the columns:\n    \
                      users,throughput,response    steady states of a load test (requests/s, s)\n    \
                      size,latency                 transfers on an unshared path (bytes, s)\n  \
                      Lines of CSV that begin with # are skipped, other columns ignored.\n\n\
                      Examples:\n  weir model fit one.json two.json four.json eight.json --predict 64\n  \
                      weir model fit results.csv --predict 500")]
    Fit(FitFlags),
    /// Document 004's experiment: published, modeled and simulated packet by packet, with the error of each cell
    #[command(after_help = "Examples:\n  weir model experiment --format markdown\n  \
                      weir model experiment --measure --bursts 30 --format markdown\n  \
                      weir model experiment --users 20 --users 50 --server-time 2ms")]
    Experiment(ExperimentFlags),
    /// Predicts response times of users on servers, checks them by simulation or load, and prints each error
    #[command(
        after_help = "Examples:\n  weir model validate --users 1 --users 100 --lines 1 --lines 4\n  \
                      weir model validate --users 200 --packet-users 200 --rtt 30ms --page 20KB\n  \
                      weir model validate --load --page 20KB --clients 16 --clients 64\n\n\
                      Weir compares every prediction with simulated flows, which share a line as the formula\n\
                      assumes. Up to --packet-users users per line, it also compares with simulated TCP\n\
                      (--packet-tolerance).\n\n\
                      Exit codes: 0 every prediction is within both tolerances; 1 some are not, and are named; 2 usage."
    )]
    Validate(ValidateFlags),
    /// Simulates the reverse proxy's policies for several upstreams: response times and errors of each policy in each
    /// case
    #[command(
        after_help = "Examples:\n  weir model balance --format markdown\n  weir model balance --upstreams 4 --runs 5\n  \
                      weir model balance --record choices.jsonl\n\n\
                      Requests arrive for --duration. The seed decides the requests and the policies' random choices.\n\
                      docs/proxy.md has the cases and the result."
    )]
    Balance(BalanceFlags),
}

/// Flags of `weir model transaction`.
#[derive(Debug, Args)]
pub(crate) struct TransactionFlags {
    /// Size of the file
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) size: Bytes,

    /// Bandwidth of the link; accepts the names T1, E1, T3 and OC3
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Rate,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// Maximum segment size
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "1460")]
    pub(crate) mss: Bytes,

    /// Computes as document 004's tables do: 1,000 B counted as 1,024 B in Tf, K not rounded up
    #[arg(long)]
    pub(crate) paper: bool,

    /// Lists each message with its times: by the formulas over TCP and T/TCP, and simulated over the TCP of the document's hosts
    #[arg(long)]
    pub(crate) timeline: bool,
}

impl TransactionFlags {
    pub(crate) fn mode(&self) -> Mode {
        mode(self.paper)
    }
}

/// The document's units, or consistent units.
pub(crate) fn mode(paper: bool) -> Mode {
    if paper { Mode::Paper } else { Mode::Exact }
}

/// Flags of `weir model transfer`.
#[derive(Debug, Args)]
pub(crate) struct TransferFlags {
    /// Bytes to transfer
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) size: Bytes,

    /// Bandwidth of the slowest link [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<Rate>,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// Packet loss in each direction, as in 1% or 0.01
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub(crate) loss: f64,

    #[command(flatten)]
    pub(crate) sender: SenderFlags,
}

/// The protocol of the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// With a round trip for connection set-up
    Tcp,
    /// Without that round trip
    TTcp,
}

/// Upper limit of the last inner sum of Eqs. 5 and 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sum {
    /// The users of the group, as printed
    Printed,
    /// The index of the group, as Table 3 was computed
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

/// Flags of `weir model waiting`.
#[derive(Debug, Args)]
pub(crate) struct WaitingFlags {
    /// Number of users, all with the same packet time
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "group",
        conflicts_with = "group"
    )]
    pub(crate) users: Option<u64>,

    /// A group of users with one packet time, in serving order; may be repeated
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

    /// Time to transfer one packet
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with_all = ["size", "group"])]
    pub(crate) packet_time: Option<Seconds>,

    /// Bytes each user fetches; with --rate and --rtt, replaces --packets and --packet-time: a packet
    /// takes the transaction time divided by the number of packets
    #[arg(long, value_name = "BYTES", value_parser = bytes, requires_all = ["rate", "rtt"], conflicts_with = "group")]
    pub(crate) size: Option<Bytes>,

    /// Bandwidth of the link
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with = "packets")]
    pub(crate) rate: Option<Rate>,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "packets")]
    pub(crate) rtt: Option<Seconds>,

    /// Maximum segment size
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "1460", conflicts_with = "packets")]
    pub(crate) mss: Bytes,

    /// Protocol of the transfer
    #[arg(long, value_enum, default_value = "tcp", conflicts_with = "packets")]
    pub(crate) protocol: Protocol,

    /// Computes T as document 004's tables do
    #[arg(long, conflicts_with = "packets")]
    pub(crate) paper: bool,

    /// Upper limit of the last inner sum of Eqs. 5 and 6
    #[arg(long, value_enum, default_value = "printed", conflicts_with = "users")]
    pub(crate) inner_sum: Sum,
}

/// Flags of `weir model tables`.
#[derive(Debug, Args)]
pub(crate) struct TablesFlags {
    /// Tables to compute, 1 to 5 [default: all]
    #[arg(value_name = "TABLE", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) tables: Vec<u8>,

    /// Lists only the entries that differ from the formulas
    #[arg(long)]
    pub(crate) errata: bool,
}

/// Flags of `weir model savings`.
#[derive(Debug, Args)]
pub(crate) struct SavingsFlags {
    /// Bytes each user fetches; document 004 uses 6,000 and 1,048,576
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "6000", visible_alias = "size")]
    pub(crate) page: Bytes,
}

/// Flags of `weir model dimension`.
#[derive(Debug, Args)]
pub(crate) struct DimensionFlags {
    /// Number of users of the link
    #[arg(long, value_name = "N")]
    pub(crate) users: u64,

    /// Bytes each user fetches
    #[arg(long, value_name = "BYTES", value_parser = bytes, visible_alias = "size")]
    pub(crate) page: Bytes,

    /// Mean turnaround time to reach
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) turnaround: Seconds,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// Packet loss in each direction, as in 1% or 0.01
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, conflicts_with = "document")]
    pub(crate) loss: f64,

    #[command(flatten)]
    pub(crate) basis: BasisFlags,

    #[command(flatten)]
    pub(crate) sender: SenderFlags,
}

/// The flags that say when users ask and how the link serves them.
#[derive(Debug, Args)]
pub(crate) struct BasisFlags {
    /// Mean think time of users [default: all users ask at the same time]
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "document", help_heading = "Users")]
    pub(crate) think: Option<Seconds>,

    /// Computes document 004's upper bound with its sender: all users ask at the same time, and nothing overlaps, not
    /// even round trips
    #[arg(long, conflicts_with_all = ["sender", "initial_window", "growth", "delayed_acks", "window"], help_heading = "Users")]
    pub(crate) document: bool,

    /// All users ask at the same time and the link serves one packet of each in turn, as document 004 assumes;
    /// without this flag, the link serves a window of each, as a first-in first-out queue does
    #[arg(long, conflicts_with_all = ["document", "think"], help_heading = "Users")]
    pub(crate) packets_in_turn: bool,

    /// With --document, computes T as document 004's tables do
    #[arg(long, requires = "document", help_heading = "Users")]
    pub(crate) paper: bool,
}

/// Flags of `weir model distribute`.
#[derive(Debug, Args)]
pub(crate) struct DistributeFlags {
    /// Total number of users
    #[arg(long, value_name = "N", required_unless_present = "record")]
    pub(crate) users: Option<u64>,

    /// Bytes each user fetches
    #[arg(long, value_name = "BYTES", value_parser = bytes, visible_alias = "size", required_unless_present = "record")]
    pub(crate) page: Option<Bytes>,

    /// Round-trip time of lines without one of their own
    #[arg(long, value_name = "TIME", value_parser = seconds, required_unless_present = "record")]
    pub(crate) rtt: Option<Seconds>,

    /// A line; :USERS fixes its number of users instead of computing it; may be repeated
    #[arg(
        long,
        value_name = "[NAME=]RATE[@RTT][:USERS]",
        required_unless_present = "record"
    )]
    pub(crate) line: Vec<LineOffer>,

    /// Two answers of a proxy's `/.weir/metrics`, saved some time apart: how its rules distribute requests to upstreams,
    /// the best distribution, and which upstreams to add
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with_all = ["users", "page", "rtt", "line"])]
    pub(crate) record: Vec<PathBuf>,

    /// With a single line: finds how many such lines reach this mean turnaround time. With --record: how many further
    /// upstreams do
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) turnaround: Option<Seconds>,

    #[command(flatten)]
    pub(crate) basis: BasisFlags,

    #[command(flatten)]
    pub(crate) sender: SenderFlags,
}

/// Flags of `weir model servers`.
#[derive(Debug, Args)]
pub(crate) struct ServersFlags {
    /// Requests per second
    #[arg(long, value_name = "PER-SECOND")]
    pub(crate) arrivals: f64,

    /// Mean service time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) service: Seconds,

    /// Mean response time to reach
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) response: Seconds,
}

/// Flags of `weir model page`.
#[derive(Debug, Args)]
pub(crate) struct PageFlags {
    /// Bytes of the HTML document [default: document 003's Microscape page]
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

    /// Bandwidth towards the client
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Rate,

    /// Bandwidth towards the server [default: as --rate]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) up: Option<Rate>,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// Server time per request
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = seconds)]
    pub(crate) server_time: Seconds,

    /// Number of connections in the parallel modes
    #[arg(long, value_name = "N", default_value = "4")]
    pub(crate) connections: u32,

    /// Packet loss in each direction, as in 1% or 0.01
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub(crate) loss: f64,

    #[command(flatten)]
    pub(crate) sender: SenderFlags,
}

/// Parses a bandwidth in bits per second or one of the names T1, E1, T3, OC3.
fn rate(text: &str) -> Result<Rate, String> {
    let named = ::model::paper::LINKS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text));
    match named {
        Some(&(_, rate)) => Ok(rate),
        None => text.parse().map_err(|why: units::ParseRateError| why.to_string()),
    }
}

fn seed(text: &str) -> Result<Seed, String> {
    text.parse()
        .map(Seed)
        .map_err(|_| format!("`{text}` is not a whole number"))
}
