//! The flags of `weir model`: which question, with which numbers, in which form the answer. Does nothing.

mod values;

pub(crate) use values::LineOffer;

use ::model::closed::Station;
use ::model::flow::{Discipline, Dispatch};
use ::model::tcp::Sender;
use ::model::tcp::setup::Setup;
use ::model::transaction::Mode;
use ::model::waiting::{Group, InnerSum};
use ::model::{Quantity, Seconds, Sizes};
use clap::{Args, Subcommand, ValueEnum};
use measure::{Bytes, Rate, Seed};
use std::path::PathBuf;
use values::{delay, group, measured, seconds, share, sizes, station};

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
                      weir model dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms --think 10s --setup tls1.3"
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
                      weir model page --base 40KB --object 20KB --object 8KB --rate 50M --rtt 30ms --setup tls1.3 --connections 6")]
    Page(PageFlags),
    /// One queue under every discipline: M/M/c, M/G/1, processor sharing, GI/G/c
    #[command(after_help = "Example: weir model queue --arrivals 80 --service 10ms --service-scv 4")]
    Queue(QueueFlags),
    /// Users who think, ask and wait: exact mean value analysis between its bounds
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
                      Exit codes: 0 every prediction within the tolerance; 1 one is not; 2 usage."
    )]
    Validate(ValidateFlags),
}

/// A link and a file.
#[derive(Debug, Args)]
pub(crate) struct TransactionFlags {
    /// Bytes of the file
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Bytes,

    /// Rate of the link; T1, E1, T3, OC3 are names of rates
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Rate,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// Largest segment
    #[arg(long, value_name = "BYTES", default_value = "1460")]
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

/// Whose habits a sender has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SenderName {
    /// Ten segments first, doubling, timestamps (RFC 6928, 3465, 7323)
    Modern,
    /// 4.4BSD's age: one segment, delayed ACKs, 16 KiB window
    Bsd,
    /// Document 004's: one segment, doubling, no headers
    Document,
}

/// A sender and how connections are made.
#[derive(Debug, Args)]
pub(crate) struct SenderFlags {
    /// Whose habits the sender has
    #[arg(long, value_enum, default_value = "modern", help_heading = "TCP")]
    sender: SenderName,

    /// Largest segment
    #[arg(long, value_name = "BYTES", default_value = "1460", help_heading = "TCP")]
    pub(crate) mss: Bytes,

    /// Initial window in segments [default: the sender's]
    #[arg(long, value_name = "SEGMENTS", help_heading = "TCP")]
    initial_window: Option<f64>,

    /// Growth of the window in a round trip of slow start, up to 2 [default: the sender's]
    #[arg(long, value_name = "FACTOR", help_heading = "TCP")]
    growth: Option<f64>,

    /// Segments an ACK covers; growth becomes 1 + 1/N unless given [default: the sender's]
    #[arg(long, value_name = "N", help_heading = "TCP")]
    delayed_acks: Option<f64>,

    /// Largest window: the receiver's, or the send buffer [default: the sender's]
    #[arg(long, value_name = "BYTES", help_heading = "TCP")]
    window: Option<Bytes>,

    /// What precedes the request: open, tcp, t-tcp, tfo, tls1.2, tls1.2-resumed, tls1.3, tls1.3-0rtt,
    /// tfo+tls1.3, tfo+tls1.3-0rtt, quic, quic-0rtt
    #[arg(long, value_name = "NAME", default_value = "tcp", value_parser = setup, help_heading = "TCP")]
    pub(crate) setup: Setup,
}

impl SenderFlags {
    /// The sender; whether its numbers make sense is for the formula to say.
    pub(crate) fn sender(&self) -> Sender {
        let mut sender = match self.sender {
            SenderName::Modern => Sender::modern(self.mss),
            SenderName::Bsd => Sender::bsd(self.mss),
            SenderName::Document => Sender::document(self.mss),
        };
        if let Some(b) = self.delayed_acks {
            sender = sender.with_delayed_acks(b);
        }
        if let Some(growth) = self.growth {
            sender.growth = growth;
        }
        if let Some(segments) = self.initial_window {
            sender = sender.with_initial_window(segments);
        }
        if let Some(cap) = self.window {
            sender = sender.with_window_max(cap);
        }
        sender
    }
}

/// A transfer.
#[derive(Debug, Args)]
pub(crate) struct TransferFlags {
    /// Bytes to move
    #[arg(long, value_name = "BYTES")]
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
    #[arg(long, value_name = "BYTES", requires_all = ["rate", "rtt"], conflicts_with = "group")]
    pub(crate) size: Option<Bytes>,

    /// Rate of the link
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<Rate>,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) rtt: Option<Seconds>,

    /// Largest segment
    #[arg(long, value_name = "BYTES", default_value = "1460")]
    pub(crate) mss: Bytes,

    /// Over TCP or T/TCP
    #[arg(long, value_enum, default_value = "tcp")]
    pub(crate) protocol: Protocol,

    /// Computes T as the document's tables do
    #[arg(long)]
    pub(crate) paper: bool,

    /// How far the last inner sum of Eqs. 5 and 6 runs
    #[arg(long, value_enum, default_value = "printed")]
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
    #[arg(long, value_name = "BYTES", default_value = "6000", visible_alias = "size")]
    pub(crate) page: Bytes,
}

/// A question of dimensioning.
#[derive(Debug, Args)]
pub(crate) struct DimensionFlags {
    /// Users of the link
    #[arg(long, value_name = "N")]
    pub(crate) users: u64,

    /// Bytes each fetches
    #[arg(long, value_name = "BYTES", visible_alias = "size")]
    pub(crate) page: Bytes,

    /// Mean turnaround wanted
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) turnaround: Seconds,

    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) rtt: Seconds,

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

    /// All ask at once and nothing overlaps, round trips included: the document's upper bound
    #[arg(long, help_heading = "Users")]
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
    #[arg(long, value_name = "BYTES", visible_alias = "size")]
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
    #[arg(long, value_name = "BYTES")]
    pub(crate) base: Option<Bytes>,

    /// Bytes of an embedded object; may be repeated
    #[arg(long, value_name = "BYTES", requires = "base")]
    pub(crate) object: Vec<Bytes>,

    /// Bytes of a request
    #[arg(long, value_name = "BYTES", default_value = "190")]
    pub(crate) request: Bytes,

    /// Bytes of a response's header section
    #[arg(long, value_name = "BYTES", default_value = "226")]
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

    #[command(flatten)]
    pub(crate) sender: SenderFlags,
}

/// An open queue.
#[derive(Debug, Args)]
pub(crate) struct QueueFlags {
    /// Requests per second
    #[arg(long, value_name = "PER-SECOND")]
    pub(crate) arrivals: f64,

    /// Mean service time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) service: Seconds,

    /// Servers
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) servers: u32,

    /// Squared coefficient of variation of service times
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) service_scv: f64,

    /// Squared coefficient of variation of the times between arrivals
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) arrival_scv: f64,
}

/// A closed network.
#[derive(Debug, Args)]
pub(crate) struct ClosedFlags {
    /// Users
    #[arg(long, value_name = "N")]
    pub(crate) users: u64,

    /// Mean time between an answer and the next request
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = seconds)]
    pub(crate) think: Seconds,

    /// What a request needs of a station, visits included; may be repeated
    #[arg(long, value_name = "NAME=TIME[xSERVERS]", value_parser = station, required = true)]
    pub(crate) station: Vec<Station>,

    /// Time a request spends without queueing; may be repeated
    #[arg(long, value_name = "NAME=TIME", value_parser = delay)]
    pub(crate) delay: Vec<Station>,
}

/// Two disciplines.
#[derive(Debug, Args)]
pub(crate) struct SrptFlags {
    /// Sizes of transfers in bytes, or service times without --rate
    #[arg(long, value_name = "DISTRIBUTION", value_parser = sizes)]
    pub(crate) sizes: Sizes,

    /// Rate that serves them
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<Rate>,

    /// Utilization, below 1; may be repeated
    #[arg(long, value_name = "SHARE", value_parser = share, default_values = ["50%", "80%", "95%"])]
    pub(crate) load: Vec<f64>,
}

/// How a line shares itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Service {
    /// All transfers share equally
    Sharing,
    /// First come, first served
    Fifo,
    /// A packet of each in turn
    RoundRobin,
    /// Shortest remaining first
    Srpt,
}

impl Service {
    /// The discipline; `quantum` is the turn of a round robin.
    pub(crate) fn discipline(self, quantum: Bytes) -> Discipline {
        match self {
            Service::Sharing => Discipline::Sharing,
            Service::Fifo => Discipline::Fifo,
            Service::RoundRobin => Discipline::RoundRobin { quantum },
            Service::Srpt => Discipline::Srpt,
        }
    }
}

/// Who serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// A user always asks the same line
    Fixed,
    /// Any line
    Random,
    /// The less busy of two
    TwoChoices,
}

impl From<Choice> for Dispatch {
    fn from(choice: Choice) -> Dispatch {
        match choice {
            Choice::Fixed => Dispatch::Fixed,
            Choice::Random => Dispatch::Random,
            Choice::TwoChoices => Dispatch::TwoChoices,
        }
    }
}

/// A simulation of flows.
#[derive(Debug, Args)]
pub(crate) struct FlowFlags {
    /// Users who think and ask again
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "arrivals",
        conflicts_with = "arrivals"
    )]
    pub(crate) users: Option<u32>,

    /// Requests per second in all, in place of users
    #[arg(long, value_name = "PER-SECOND")]
    pub(crate) arrivals: Option<f64>,

    /// Mean think time; exponential
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = seconds)]
    pub(crate) think: Seconds,

    /// Mean bytes of a transfer; exponential
    #[arg(
        long,
        value_name = "BYTES",
        required_unless_present = "sizes",
        conflicts_with = "sizes"
    )]
    pub(crate) page: Option<Bytes>,

    /// Bytes of transfers, as a distribution
    #[arg(long, value_name = "DISTRIBUTION", value_parser = sizes)]
    pub(crate) sizes: Option<Sizes>,

    /// Lines, each with a server of its own
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) lines: u32,

    /// Rate of a line
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Rate,

    /// Time of a request that is not shared: round trips, server
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = seconds)]
    pub(crate) latency: Seconds,

    /// How a line shares itself
    #[arg(long, value_enum, default_value = "sharing")]
    pub(crate) discipline: Service,

    /// Bytes of a turn of round-robin
    #[arg(long, value_name = "BYTES", default_value = "1460")]
    pub(crate) quantum: Bytes,

    /// Who serves a request
    #[arg(long, value_enum, default_value = "fixed")]
    pub(crate) dispatch: Choice,

    /// Simulated time before measuring
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = seconds)]
    pub(crate) warmup: Seconds,

    /// Simulated time measured
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = seconds)]
    pub(crate) measure: Seconds,

    /// All chance
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: Seed,
}

/// A fit.
#[derive(Debug, Args)]
pub(crate) struct FitFlags {
    /// The measurements: CSV, results of `weir load`, or lines of `weir trace --json`
    #[arg(value_name = "RESULTS", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// For a load test: what the fitted system does with so many users; may be repeated
    #[arg(long, value_name = "USERS")]
    pub(crate) predict: Vec<u64>,

    /// All chance of the bootstrap
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: Seed,

    #[command(flatten)]
    pub(crate) sender: SenderFlags,
}

/// The document's experiment.
#[derive(Debug, Args)]
pub(crate) struct ExperimentFlags {
    /// Bytes of the file; may be repeated
    #[arg(long, value_name = "BYTES", default_values = ["3000", "6000", "12000"])]
    pub(crate) size: Vec<Bytes>,

    /// Users who ask at once; may be repeated
    #[arg(long, value_name = "N", default_values = ["1", "5", "10"])]
    pub(crate) users: Vec<u32>,

    /// Rate of the link
    #[arg(long, value_name = "RATE", default_value = "10M", value_parser = rate)]
    pub(crate) rate: Rate,

    /// Round-trip time
    #[arg(long, value_name = "TIME", default_value = "0.5ms", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// Processor time of an answer, which the document leaves out
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = seconds)]
    pub(crate) server_time: Seconds,

    /// Measures as well: this kernel's TCP at both ends of an emulated link, in namespaces of its own; a second for
    /// each burst of each cell
    #[arg(long)]
    pub(crate) measure: bool,

    /// Bursts of a cell that are measured
    #[arg(long, value_name = "N", default_value = "20", requires = "measure",
        value_parser = clap::value_parser!(u32).range(2..=3_600))]
    pub(crate) bursts: u32,

    /// TCP of the client then
    #[arg(long, value_name = "STACK", default_value = "solaris-2.5")]
    pub(crate) client_stack: String,

    /// TCP of the server then
    #[arg(long, value_name = "STACK", default_value = "linux-2.0")]
    pub(crate) server_stack: String,

    /// All chance
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: Seed,
}

/// A comparison of model and simulation.
#[derive(Debug, Args)]
pub(crate) struct ValidateFlags {
    /// Users in all; may be repeated
    #[arg(long, value_name = "N", default_values = ["1", "10", "100", "1000", "10000"])]
    pub(crate) users: Vec<u32>,

    /// Servers, each with a line of its own; may be repeated
    #[arg(long, value_name = "N", default_values = ["1", "4", "16", "64"])]
    pub(crate) lines: Vec<u32>,

    /// Bytes of a page
    #[arg(long, value_name = "BYTES", default_value = "125KB")]
    pub(crate) page: Bytes,

    /// Rate of a line
    #[arg(long, value_name = "RATE", default_value = "10M", value_parser = rate)]
    pub(crate) rate: Rate,

    /// Round-trip time
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// Mean think time; exponential
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = seconds)]
    pub(crate) think: Seconds,

    /// TCP of both hosts
    #[arg(long, value_name = "STACK", default_value = "linux-6")]
    pub(crate) stack: String,

    /// Most users of a line that are simulated packet by packet as well
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) packet_users: u32,

    /// Answers of a packet simulation, about
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(crate) packet_answers: u32,

    /// Loads `weir serve` on the loopback instead: fits few clients, predicts more, measures those
    #[arg(long)]
    pub(crate) load: bool,

    /// With --load: clients that are measured for the fit; may be repeated
    #[arg(long, value_name = "N", default_values = ["1", "2", "3", "4", "6"], help_heading = "On this machine",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) fitted: Vec<u32>,

    /// With --load: clients that are predicted, and then measured; may be repeated
    #[arg(long, value_name = "N", default_values = ["8", "16", "32"], help_heading = "On this machine",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: Vec<u32>,

    /// With --load: seconds of a run
    #[arg(long, value_name = "N", default_value = "7", help_heading = "On this machine",
        value_parser = clap::value_parser!(u32).range(2..=3_600))]
    pub(crate) seconds: u32,

    /// Error of a prediction that is still good, beyond the simulation's own interval [default: 2%; 25% with --load]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    tolerance: Option<f64>,

    /// All chance
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: Seed,
}

impl ValidateFlags {
    /// The error that is still good: a machine has more reasons to differ from a formula than a simulation has.
    pub(crate) fn tolerance(&self, is_real: bool) -> f64 {
        self.tolerance.unwrap_or(if is_real { 0.25 } else { 0.02 })
    }
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

fn setup(text: &str) -> Result<Setup, String> {
    let names = || Setup::ALL.map(Setup::name).join(", ");
    Setup::from_name(text)
        .ok_or_else(|| format!("`{text}` is no way to open a connection; there are {}", names()))
}

fn seed(text: &str) -> Result<Seed, String> {
    text.parse()
        .map(Seed)
        .map_err(|_| format!("`{text}` is not a whole number"))
}
