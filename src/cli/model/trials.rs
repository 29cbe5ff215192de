//! The flags of the questions that compare models with measurements, simulations or this machine.

use super::SenderFlags;
use super::values::{bytes, seconds, tolerance};
use super::{rate, seed};
use ::model::Seconds;
use clap::Args;
use std::path::PathBuf;
use units::{Bytes, Rate, Seed};

/// Flags of `weir model fit`.
#[derive(Debug, Args)]
pub(crate) struct FitFlags {
    /// Measurements: CSV, results of `weir load`, or lines of `weir trace --json`; - is standard input (CSV, lines)
    #[arg(value_name = "RESULTS", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// For load tests: predicts the fitted system for this many users; may be repeated
    #[arg(long, value_name = "USERS")]
    pub(crate) predict: Vec<u64>,

    /// Random seed of the bootstrap
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: Seed,

    #[command(flatten)]
    pub(crate) sender: SenderFlags,
}

/// Flags of `weir model balance`.
#[derive(Debug, Args)]
pub(crate) struct BalanceFlags {
    /// Replays the choices that a server recorded in this file (`balance-record` in `[[proxy]]`) through each policy
    #[arg(long, value_name = "FILE", conflicts_with_all = ["upstreams", "duration"])]
    pub(crate) record: Option<PathBuf>,

    /// Number of upstreams; may be repeated
    #[arg(long, value_name = "N", default_values = ["2", "8"],
        value_parser = clap::value_parser!(u8).range(2..=64))]
    pub(crate) upstreams: Vec<u8>,

    /// Length of each run: the time in which requests arrive
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = seconds)]
    pub(crate) duration: Seconds,

    /// Number of runs of each policy in each case, each with its own seed
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u64).range(2..=1_000))]
    pub(crate) runs: u64,

    /// First seed; the others follow it
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: Seed,
}

/// Flags of `weir model experiment`.
#[derive(Debug, Args)]
pub(crate) struct ExperimentFlags {
    /// Bytes of the file; may be repeated
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_values = ["3000", "6000", "12000"])]
    pub(crate) size: Vec<Bytes>,

    /// Number of users who ask at the same time; may be repeated
    #[arg(long, value_name = "N", default_values = ["1", "5", "10"])]
    pub(crate) users: Vec<u32>,

    /// Bandwidth of the link
    #[arg(long, value_name = "RATE", default_value = "10M", value_parser = rate)]
    pub(crate) rate: Rate,

    /// Round-trip time
    #[arg(long, value_name = "TIME", default_value = "0.5ms", value_parser = seconds)]
    pub(crate) rtt: Seconds,

    /// Processor time of a response, which document 004 omits
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = seconds)]
    pub(crate) server_time: Seconds,

    /// Also measures this kernel's TCP over an emulated link, in its own namespaces; takes a second for each burst of
    /// each cell
    #[arg(long)]
    pub(crate) measure: bool,

    /// Bursts to measure per cell
    #[arg(long, value_name = "N", default_value = "20", requires = "measure",
        value_parser = clap::value_parser!(u32).range(2..=3_600))]
    pub(crate) bursts: u32,

    /// TCP stack of the 1990s for the simulated client
    #[arg(long, value_name = "STACK", default_value = "solaris-2.5")]
    pub(crate) client_stack: String,

    /// TCP stack of the 1990s for the simulated server
    #[arg(long, value_name = "STACK", default_value = "linux-2.0")]
    pub(crate) server_stack: String,

    /// Random seed
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: Seed,
}

/// Flags of `weir model validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateFlags {
    /// Total number of users; may be repeated
    #[arg(long, value_name = "N", default_values = ["1", "10", "100", "1000", "10000"], conflicts_with = "load")]
    pub(crate) users: Vec<u32>,

    /// Number of servers, each with its own line; may be repeated
    #[arg(long, value_name = "N", default_values = ["1", "4", "16", "64"], conflicts_with = "load")]
    pub(crate) lines: Vec<u32>,

    /// Bytes of a page
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "125KB")]
    pub(crate) page: Bytes,

    /// Bandwidth of each line
    #[arg(long, value_name = "RATE", default_value = "10M", value_parser = rate, conflicts_with = "load")]
    pub(crate) rate: Rate,

    /// Round-trip time
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = seconds, conflicts_with = "load")]
    pub(crate) rtt: Seconds,

    /// Mean think time (exponential)
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

    /// Simulates lines packet by packet, too, up to this many users per line
    #[arg(long, value_name = "N", default_value = "100", conflicts_with = "load")]
    pub(crate) packet_users: u32,

    /// Approximate number of responses per packet simulation
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=20_000), conflicts_with = "load")]
    pub(crate) packet_answers: u32,

    /// Loads `weir serve` over loopback instead: fits the model to a few client counts, predicts other counts, then
    /// measures these
    #[arg(long)]
    pub(crate) load: bool,

    /// With --load: client counts to measure for the fit; may be repeated
    #[arg(long, value_name = "N", default_values = ["1", "2", "3", "4", "6"], requires = "load", help_heading = "On this machine",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) fitted: Vec<u32>,

    /// With --load: client counts to predict and then measure; may be repeated
    #[arg(long, value_name = "N", default_values = ["8", "16", "32"], requires = "load", help_heading = "On this machine",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: Vec<u32>,

    /// With --load: length of a run in seconds, at least 2. Weir excludes the first second; a confidence interval needs
    /// five more seconds
    #[arg(long, value_name = "N", default_value = "7", requires = "load", help_heading = "On this machine",
        value_parser = clap::value_parser!(u32).range(2..=3_600))]
    pub(crate) seconds: u32,

    /// Accepted error of a prediction, beyond the 95 % interval of the flow simulation (with --load: of the
    /// measurement) [default: 2%; 25% with --load]
    #[arg(long, value_name = "SHARE", value_parser = tolerance)]
    tolerance: Option<f64>,

    /// Accepted error against simulated packets. It is larger, because the formulas assume equal sharing, while a
    /// first-in first-out line serves windows
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = tolerance, conflicts_with = "load")]
    pub(crate) packet_tolerance: f64,

    /// Random seed
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: Seed,
}

impl ValidateFlags {
    /// The accepted error, larger for a machine: it differs from a formula for more reasons than a simulation does.
    pub(crate) fn tolerance(&self, is_real: bool) -> f64 {
        self.tolerance.unwrap_or(if is_real { 0.25 } else { 0.02 })
    }
}
