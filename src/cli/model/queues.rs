//! The flags of the questions about queues and thinking users: open, closed, and simulated as flows.

use super::values::{Distribution, bytes, delay, seconds, share, sizes, sizes_in_bytes, station};
use super::{rate, seed};
use ::model::closed::Station;
use ::model::flow::{Discipline, Dispatch};
use ::model::{Seconds, Sizes};
use clap::{Args, ValueEnum};
use units::{Bytes, Rate, Seed};

/// Flags of `weir model queue`.
#[derive(Debug, Args)]
pub(crate) struct QueueFlags {
    /// Requests per second
    #[arg(long, value_name = "PER-SECOND")]
    pub(crate) arrivals: f64,

    /// Mean service time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) service: Seconds,

    /// Number of servers
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) servers: u32,

    /// Squared coefficient of variation of service times
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) service_scv: f64,

    /// Squared coefficient of variation of interarrival times
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) arrival_scv: f64,
}

/// Flags of `weir model closed`.
#[derive(Debug, Args)]
pub(crate) struct ClosedFlags {
    /// Number of users
    #[arg(long, value_name = "N")]
    pub(crate) users: u64,

    /// Mean think time, from a response to the next request
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = seconds)]
    pub(crate) think: Seconds,

    /// A station and the service time of a request there, summed over its visits, as in cpu=5ms or app=40msx4 (four
    /// servers); may be repeated
    #[arg(long, value_name = "NAME=TIME[xSERVERS]", value_parser = station, required = true)]
    pub(crate) station: Vec<Station>,

    /// A delay that a request spends without queueing; may be repeated
    #[arg(long, value_name = "NAME=TIME", value_parser = delay)]
    pub(crate) delay: Vec<Station>,
}

/// Flags of `weir model srpt`.
#[derive(Debug, Args)]
pub(crate) struct SrptFlags {
    /// Distribution of transfer sizes in bytes: fixed(X), uniform(LOW,HIGH), exponential(MEAN), pareto(LOW,HIGH,ALPHA),
    /// lognormal(MU,SIGMA,HIGH) or values(X,X,...). Without --rate, of service times (a number without a unit is
    /// seconds)
    #[arg(long, value_name = "DISTRIBUTION", value_parser = sizes)]
    pub(crate) sizes: Distribution,

    /// Bandwidth of the link that serves the transfers
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<Rate>,

    /// Utilization, below 1; may be repeated
    #[arg(long, value_name = "SHARE", value_parser = share, default_values = ["50%", "80%", "95%"])]
    pub(crate) load: Vec<f64>,
}

/// The service discipline of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Service {
    /// Processor sharing: all transfers share equally
    Sharing,
    /// First in, first out
    Fifo,
    /// Round robin: one packet of each transfer in turn
    RoundRobin,
    /// Shortest remaining time first
    Srpt,
}

/// The default quantum of a round robin: one segment.
const TURN: Bytes = Bytes(1460);

impl Service {
    /// The discipline; `None` if a `quantum` is given for a discipline other than round robin.
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

/// How requests are assigned to lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// Each user always uses one line
    Fixed,
    /// A random line
    Random,
    /// The less busy of two random lines
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

/// Flags of `weir model flow`.
#[derive(Debug, Args)]
pub(crate) struct FlowFlags {
    /// Number of users, each with a think time between transfers
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "arrivals",
        conflicts_with = "arrivals"
    )]
    pub(crate) users: Option<u32>,

    /// Total requests per second, instead of users
    #[arg(long, value_name = "PER-SECOND")]
    pub(crate) arrivals: Option<f64>,

    /// Mean think time (exponential)
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = seconds, conflicts_with = "arrivals")]
    pub(crate) think: Seconds,

    /// Mean bytes of a transfer (exponential)
    #[arg(
        long,
        value_name = "BYTES", value_parser = bytes,
        required_unless_present = "sizes",
        conflicts_with = "sizes"
    )]
    pub(crate) page: Option<Bytes>,

    /// Distribution of transfer sizes in bytes: fixed(X), uniform(LOW,HIGH), exponential(MEAN), pareto(LOW,HIGH,ALPHA),
    /// lognormal(MU,SIGMA,HIGH) or values(X,X,...)
    #[arg(long, value_name = "DISTRIBUTION", value_parser = sizes_in_bytes)]
    pub(crate) sizes: Option<Sizes>,

    /// Number of lines, each with its own server
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) lines: u32,

    /// Bandwidth of each line
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Rate,

    /// Time of a request outside the shared line: round trips, server
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = seconds)]
    pub(crate) latency: Seconds,

    /// Service discipline of a line
    #[arg(long, value_enum, default_value = "sharing")]
    pub(crate) discipline: Service,

    /// With --discipline round-robin: quantum in bytes [default: 1460]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) quantum: Option<Bytes>,

    /// How requests are assigned to lines
    #[arg(long, value_enum, default_value = "fixed")]
    pub(crate) dispatch: Choice,

    /// Simulated time before the measurement
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = seconds)]
    pub(crate) warmup: Seconds,

    /// Simulated time that is measured
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = seconds)]
    pub(crate) measure: Seconds,

    /// Random seed
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: Seed,
}
