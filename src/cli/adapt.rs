//! The flags of `weir adapt`: replay of recorded sensor windows through the server's controllers.

use clap::{Args, Subcommand};
use server::config::{Config, parse_duration};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir serve ./public --adapt dry-run --record sensors.jsonl
  weir adapt replay sensors.jsonl
  weir --json adapt replay sensors.jsonl --idle-timeout 15s
  weir adapt replay sensors.jsonl --all

Settings that were explicit in the recorded run stay explicit. If the run had --adapt off, the
controllers decide nothing. --all and --idle-timeout change these assumptions. The replay uses the
recorded sensor values: it cannot show how a different setting would have changed them.

Without --all and --idle-timeout, the replay must reproduce the recorded decisions; if not, it lists
the differences, and the exit code is 1. With a warning, the replay skips a damaged line and
everything up to the next server start. If no start follows, the exit code is 2.";

/// Subcommands of `weir adapt`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prints the decisions the controllers make on a recording
    Replay(Replay),
}

/// Flags of `weir adapt replay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// Recording of `weir serve --record`; - is standard input
    pub(crate) recording: PathBuf,

    /// Treats all settings as automatic
    #[arg(long)]
    pub(crate) all: bool,

    /// Starts with this idle timeout and treats it as automatic; at least 100ms [default: as recorded, or 65s]
    #[arg(long, value_name = "TIME", value_parser = idle_timeout)]
    pub(crate) idle_timeout: Option<units::Duration>,
}

/// An idle timeout that the server's configuration accepts.
fn idle_timeout(text: &str) -> Result<units::Duration, String> {
    let config = Config {
        idle_timeout: parse_duration(text)?,
        ..Config::default()
    };
    config.validate().map_err(|error| error.to_string())?;
    Ok(config.idle_timeout)
}
