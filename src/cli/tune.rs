//! The flags of `weir tune`: document root, load and time budget. Parses and documents them; runs nothing.

use clap::Args;
use client::plan::Mode;
use server::config::parse_duration;
use std::path::PathBuf;
use units::Duration;

const EXAMPLES: &str = "\
Examples:
  weir tune ./public                                64 clients request the files in turn
  weir tune ./site --clients 200 --mode pipelined   files by the weights of the site's manifest
  weir tune /srv/www --log access.log               the GET requests of a log
  weir serve /srv/www --profile weir-profile.toml

Starts a server and a load on loopback, changes one setting at a time, and
compares each value with the current one in rounds of short runs.
An exact sign test decides after 9, 14, 20 and 28 rounds whether a setting is
more than 3 percent faster. Weir lists undecided settings with the 95 % interval
of their lead; a longer --budget narrows it. The profile contains the stages
that completed within the budget. An interrupted run writes no profile.
docs/tune.md describes stages and numbers.

Exit codes: 0 written; 2 usage; 3 no setting could be distinguished from the
defaults, which the profile keeps; 4 the system refused.";

/// Flags of `weir tune`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Flags {
    /// Document root to tune for
    #[arg(value_name = "ROOT")]
    pub(crate) root: PathBuf,

    /// File to write the profile to
    #[arg(long, value_name = "FILE", default_value = "weir-profile.toml")]
    pub(crate) out: PathBuf,

    /// Clients that send requests without pause
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: u32,

    /// Protocol mode of the load: http10 (one connection per file), serial, pipelined or early-close
    #[arg(long, value_name = "MODE", default_value = "serial")]
    pub(crate) mode: Mode,

    /// Access log (Common, Combined or JSON) whose GET requests are sent in their order
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,

    /// Time budget for all stages; Weir writes the stages completed within it
    #[arg(long, value_name = "TIME", default_value = "110s", value_parser = parse_duration)]
    pub(crate) budget: Duration,
}
