//! `weir adapt`: what the server's controllers make of a recording.

use clap::{Args, Subcommand};
use server::config::{Config, parse_duration};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir serve ./public --adapt dry-run --record sensors.jsonl
  weir adapt replay sensors.jsonl
  weir --json adapt replay sensors.jsonl --idle-timeout 15s
  weir adapt replay sensors.jsonl --all

What was set then stays set, and with --adapt off nothing is decided; --all and --idle-timeout ask what would have been. The
numbers are those of the run that was recorded: what another setting would have done to them is not known.

Without these two flags what was decided then must be decided again: what differs is listed, and the exit code is 1. A damaged
line, and all up to the next start of a server, is left out with a warning; if none follows, the exit code is 2.";

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

    /// Decides as if nothing had been set
    #[arg(long)]
    pub(crate) all: bool,

    /// Decides as if this idle timeout had been in force, and free; as for weir serve at least 100ms [default: as recorded, or 65s]
    #[arg(long, value_name = "TIME", value_parser = idle_timeout)]
    pub(crate) idle_timeout: Option<measure::Duration>,
}

/// One that a server would have taken.
fn idle_timeout(text: &str) -> Result<measure::Duration, String> {
    let config = Config {
        idle_timeout: parse_duration(text)?,
        ..Config::default()
    };
    config.validate().map_err(|error| error.to_string())?;
    Ok(config.idle_timeout)
}
