//! The flags of what holds models against something else: measurements, simulations, this machine.

use super::SenderFlags;
use super::values::{bytes, seconds, tolerance};
use super::{rate, seed};
use ::model::Seconds;
use clap::Args;
use measure::{Bytes, Rate, Seed};
use std::path::PathBuf;

/// A fit.
#[derive(Debug, Args)]
pub(crate) struct FitFlags {
    /// The measurements: CSV, results of `weir load`, or lines of `weir trace --json`; - is standard input (CSV, lines)
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
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_values = ["3000", "6000", "12000"])]
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
    #[arg(long, value_name = "N", default_values = ["1", "10", "100", "1000", "10000"], conflicts_with = "load")]
    pub(crate) users: Vec<u32>,

    /// Servers, each with a line of its own; may be repeated
    #[arg(long, value_name = "N", default_values = ["1", "4", "16", "64"], conflicts_with = "load")]
    pub(crate) lines: Vec<u32>,

    /// Bytes of a page
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "125KB")]
    pub(crate) page: Bytes,

    /// Rate of a line
    #[arg(long, value_name = "RATE", default_value = "10M", value_parser = rate, conflicts_with = "load")]
    pub(crate) rate: Rate,

    /// Round-trip time
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = seconds, conflicts_with = "load")]
    pub(crate) rtt: Seconds,

    /// Mean think time; exponential
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = seconds, conflicts_with = "load")]
    pub(crate) think: Seconds,

    /// TCP of both hosts
    #[arg(
        long,
        value_name = "STACK",
        default_value = "linux-6",
        conflicts_with = "load"
    )]
    pub(crate) stack: String,

    /// Most users of a line that are simulated packet by packet as well
    #[arg(long, value_name = "N", default_value = "100", conflicts_with = "load")]
    pub(crate) packet_users: u32,

    /// Answers of a packet simulation, about
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=20_000), conflicts_with = "load")]
    pub(crate) packet_answers: u32,

    /// Loads `weir serve` on the loopback instead: fits few clients, predicts more, measures those
    #[arg(long)]
    pub(crate) load: bool,

    /// With --load: clients that are measured for the fit; may be repeated
    #[arg(long, value_name = "N", default_values = ["1", "2", "3", "4", "6"], requires = "load", help_heading = "On this machine",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) fitted: Vec<u32>,

    /// With --load: clients that are predicted, and then measured; may be repeated
    #[arg(long, value_name = "N", default_values = ["8", "16", "32"], requires = "load", help_heading = "On this machine",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: Vec<u32>,

    /// With --load: seconds of a run, 2 or more; the first is left out, and an interval needs five besides
    #[arg(long, value_name = "N", default_value = "7", requires = "load", help_heading = "On this machine",
        value_parser = clap::value_parser!(u32).range(2..=3_600))]
    pub(crate) seconds: u32,

    /// Error of a prediction that is still good, beyond the interval of what it is held against: the flow simulation,
    /// or with --load this machine [default: 2%; 25% with --load]
    #[arg(long, value_name = "SHARE", value_parser = tolerance)]
    tolerance: Option<f64>,

    /// The same against packets, which are no formula's assumption: a first-in first-out line serves windows
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = tolerance, conflicts_with = "load")]
    pub(crate) packet_tolerance: f64,

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
