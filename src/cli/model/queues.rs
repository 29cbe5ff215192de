//! The flags of queues and of users who think, open, closed and simulated as flows.

use super::values::{Distribution, bytes, delay, seconds, share, sizes, sizes_in_bytes, station};
use super::{rate, seed};
use ::model::closed::Station;
use ::model::flow::{Discipline, Dispatch};
use ::model::{Seconds, Sizes};
use clap::{Args, ValueEnum};
use measure::{Bytes, Rate, Seed};

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
    /// Sizes of transfers in bytes; without --rate service times, bare numbers being seconds
    #[arg(long, value_name = "DISTRIBUTION", value_parser = sizes)]
    pub(crate) sizes: Distribution,

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

/// The turn of a round robin that names none: a segment.
const TURN: Bytes = Bytes(1460);

impl Service {
    /// The discipline; `quantum` is the turn of a round robin, and the others have none.
    pub(crate) fn discipline(self, quantum: Option<Bytes>) -> Option<Discipline> {
        match (self, quantum) {
            (Service::RoundRobin, quantum) => Some(Discipline::RoundRobin {
                quantum: quantum.unwrap_or(TURN),
            }),
            (_, Some(_)) => None,
            (Service::Sharing, None) => Some(Discipline::Sharing),
            (Service::Fifo, None) => Some(Discipline::Fifo),
            (Service::Srpt, None) => Some(Discipline::Srpt),
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
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = seconds, conflicts_with = "arrivals")]
    pub(crate) think: Seconds,

    /// Mean bytes of a transfer; exponential
    #[arg(
        long,
        value_name = "BYTES", value_parser = bytes,
        required_unless_present = "sizes",
        conflicts_with = "sizes"
    )]
    pub(crate) page: Option<Bytes>,

    /// Bytes of transfers, as a distribution
    #[arg(long, value_name = "DISTRIBUTION", value_parser = sizes_in_bytes)]
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

    /// With --discipline round-robin: bytes of a turn [default: 1460]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) quantum: Option<Bytes>,

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
