//! The flags of `weir profile`: process to observe, means, duration, output. Parses and documents them; observes
//! nothing.

use clap::{Args, ValueEnum};
use server::config::parse_duration;
use std::ffi::OsString;
use std::path::PathBuf;
use units::Duration;

const EXAMPLES: &str = "\
Examples:
  weir profile 4711 --seconds 10                a running server
  weir profile $(cat /run/nginx.pid) --svg nginx.svg
  weir profile --json 4711 --requests 150000    calls per request
  weir profile --self                           a weir server under load
  weir profile --self ./site --seconds 5 -- --concurrency pool --workers 20
  weir profile -- curl -s http://localhost/     a command, from its start

Tracepoints need root (or perf_event_paranoid -1 and a readable
tracefs) and cost the profiled process one to several microseconds per
system call. Without them, ptrace is used, which costs several
microseconds and two stops per call. The report names the means and, if
measurable, its cost on this machine.
docs/profile.md explains the report.

Exit codes: 0 profiled; 2 usage; 3 records were lost or no call was seen;
4 the system refused.";

/// Flags of `weir profile`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true,
    override_usage = "weir profile [OPTIONS] PID\n       weir profile [OPTIONS] --self [ROOT] [-- SERVE OPTIONS...]\n       \
                      weir profile [OPTIONS] -- COMMAND...")]
pub(crate) struct Flags {
    /// Process to profile, with its descendants; with --self, the document root
    #[arg(value_name = "PID | ROOT")]
    pub(crate) target: Option<String>,

    /// Command to run and profile; with --self, options of `weir serve`
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<OsString>,

    /// Profiles a weir server under load, by default 15 connections as in document 002
    #[arg(long = "self")]
    pub(crate) own: bool,

    /// Connections of the load with --self
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000), requires = "own")]
    pub(crate) connections: u32,

    /// Time to profile; then Weir asks COMMAND to end [default: 10s; with --self 5s; with COMMAND, until it ends]
    #[arg(long, visible_alias = "duration", value_name = "TIME", value_parser = seconds)]
    pub(crate) seconds: Option<Duration>,

    /// How to observe system calls [default: tracepoints, or ptrace if they are refused]
    #[arg(long, value_name = "MEANS")]
    pub(crate) means: Option<Means>,

    /// Number of requests that the process answered in this time, so that the report counts per request
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,

    /// Writes a picture of processor time and calls by category
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// How system calls are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Means {
    /// The kernel records each call
    Tracepoints,
    /// Threads stop at each call
    Ptrace,
}

/// A number of seconds, or a time with its unit.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let span = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?,
        Err(_) => parse_duration(text).map_err(|error| error.to_string())?,
    };
    if span.is_zero() {
        return Err("the time must be more than 0".to_owned());
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
