//! `weir adapt`: what the server's controllers make of a recording.

use clap::{Args, Subcommand};
use server::config::parse_duration;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir serve ./public --adapt dry-run --record sensors.jsonl
  weir adapt replay sensors.jsonl
  weir --json adapt replay sensors.jsonl --idle-timeout 15s

The numbers are those of the run that was recorded: what another setting would have done to them is not known.";

/// What can be asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prints what would be decided, second by second
    Replay(Replay),
}

/// Flags of `weir adapt replay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// What `weir serve --record` wrote; - is standard input
    pub(crate) recording: PathBuf,

    /// The idle timeout that is configured [default: 65s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) idle_timeout: Option<measure::Duration>,
}
