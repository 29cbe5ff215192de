//! The flags of `weir tune`: what is served, what is asked of it, how long that may take. Does nothing.

use clap::Args;
use client::plan::Mode;
use measure::Duration;
use server::config::parse_duration;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir tune ./public                                64 clients, file by file
  weir tune ./site --clients 200 --mode pipelined   as the site's manifest says
  weir tune /srv/www --log access.log               as the log's clients did
  weir serve /srv/www --profile weir-profile.toml

It starts a server and a load of its own on loopback, changes one thing at a
time, and compares each setting with the current one in pairs of short runs.
An exact sign test decides after 9, 14, 20 and 28 pairs whether a setting is
at least 3 percent faster. Settings that cannot be told apart are listed with
a 95 % interval; more time narrows it. Stages that are complete when the
budget ends are written. If interrupted, no profile is written.
docs/tune.md describes stages and numbers.

Exit codes: 0 written; 2 usage; 3 not one setting could be told apart from the
defaults, which the profile keeps; 4 the system refused.";

/// Flags of `weir tune`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Flags {
    /// The directory that will be served
    #[arg(value_name = "ROOT")]
    pub(crate) root: PathBuf,

    /// Where the profile goes
    #[arg(long, value_name = "FILE", default_value = "weir-profile.toml")]
    pub(crate) out: PathBuf,

    /// Clients that ask without pause
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: u32,

    /// http10: a connection a file; serial; pipelined; early-close
    #[arg(long, value_name = "MODE", default_value = "serial")]
    pub(crate) mode: Mode,

    /// Access log (Common, Combined or JSON) whose GET requests are asked again, in its order
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,

    /// How long all of it may take; what is complete then is written
    #[arg(long, value_name = "TIME", default_value = "110s", value_parser = parse_duration)]
    pub(crate) budget: Duration,
}
