//! The flags of `weir profile`: whom to watch, by which means, how long, what to write. Does nothing.

use clap::{Args, ValueEnum};
use measure::Duration;
use server::config::parse_duration;
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir profile 4711 --seconds 10                a server that runs
  weir profile $(cat /run/nginx.pid) --svg nginx.svg
  weir profile --json 4711 --requests 150000    per request instead of per exchange
  weir profile --self                           this program's own, under load
  weir profile --self ./site --seconds 5 -- --concurrency pool --workers 20
  weir profile -- curl -s http://localhost/     a command, from its start on

Tracepoints need root (or perf_event_paranoid -1 and a readable
tracefs) and cost the watched one about a microsecond a call, or
several; without them ptrace is used, which costs several times that.
The report says which it was, and what it cost here if that can be told.
docs/profile.md says how to read it.

Exit codes: 0 good, 2 usage, 3 records were lost or nothing was seen,
4 the system refused.";

/// Flags of `weir profile`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true,
    override_usage = "weir profile [OPTIONS] PID\n       weir profile [OPTIONS] --self [ROOT] [-- SERVE OPTIONS...]\n       \
                      weir profile [OPTIONS] -- COMMAND...")]
pub(crate) struct Flags {
    /// The process, with its descendants; with --self the directory to serve
    #[arg(value_name = "PID | ROOT")]
    pub(crate) target: Option<String>,

    /// What to run and watch; with --self, options of `weir serve`
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<OsString>,

    /// Starts this program's server and puts a load on it: 15 connections, as document 002 had
    #[arg(long = "self")]
    pub(crate) own: bool,

    /// Connections of the load of --self
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000), requires = "own")]
    pub(crate) connections: u32,

    /// How long; a command is asked to end then [default: 10s, with --self 5s, a command until it ends]
    #[arg(long, visible_alias = "duration", value_name = "TIME", value_parser = seconds)]
    pub(crate) seconds: Option<Duration>,

    /// How to see the calls [default: tracepoints, else ptrace]
    #[arg(long, value_name = "MEANS")]
    pub(crate) means: Option<Means>,

    /// Requests answered meanwhile, if you know: counts are then per request
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,

    /// Draws where the processor time went and the calls of each category
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// How calls can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Means {
    /// The kernel writes them down
    Tracepoints,
    /// Threads are stopped at each
    Ptrace,
}

/// A number of seconds, or a time with its unit.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let span = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?,
        Err(_) => parse_duration(text).map_err(|error| error.to_string())?,
    };
    if span.is_zero() {
        return Err("no time at all shows nothing".to_owned());
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_a_unit() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(seconds("200ms"), Ok(Duration::from_millis(200)));
        for wrong in ["0", "-1", "soon", "nan"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
