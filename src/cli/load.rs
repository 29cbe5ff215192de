//! The flags of `weir load`: what is asked for, by whom, how, for how long, and what a run may fall short of.
//! Does nothing.

use super::offered::{METHODS, offered};
use super::share::parse_share;
use super::site::Workload;
use crate::load::search::Objective;
use ::load::arrivals::{Process, Schedule};
use ::load::replies::Accept;
use clap::{Args, Subcommand};
use client::extra::Extra;
use client::plan::Mode;
use client::session::Verb;
use measure::Duration;
use server::config::parse_duration;
use std::path::PathBuf;

/// Threads at the most: more than any machine has processors to run them on.
const THREADS_MAX: i64 = 1024;

/// A time span in which something can happen.
fn parse_span(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text)?;
    if span.is_zero() {
        return Err("it must be more than 0".to_owned());
    }
    Ok(span)
}

const RUN_EXAMPLES: &str = "\
Examples:
  weir site surge ./site && weir serve ./site
  weir load http://localhost:8080/ --site ./site --users 40 --duration 60s --mode pipelined
  weir load http://localhost:8080/ --site ./site --rate 500 --arrivals poisson --verify
  weir load http://localhost:8080/index.html --clients 64 --mode serial
  weir load http://localhost:8080/ --urls paths.txt --clients 10 --json > result.jsonl
  weir load http://localhost:8080/ --site ./site --sessions 20 --duration 5m --html report.html
  weir load http://localhost:8080/ --rate 100,500@10s,100@20s --duration 30s
  weir load http://localhost:8080/ --replay access.log --speed 10 --duration 1m
  weir load http://localhost:8080/ --rate 100 --slo 'p99<50ms' --duration 10s
  weir load http://localhost:8080/ --site ./site --users 2000 --warmup 10s --duration 60s
  weir load http://127.0.0.1:8080/ -H 'Host: www.example.org' -H 'Accept: text/html' --method HEAD
  weir load http://h/ --site ./site --users 3000 --rank 0 --size 3 --start-at $START --out 0.json

Users sleep between objects as in Surge; clients never do, as in WebStone.
Arrivals do not wait for answers.

Exit codes: 0 valid; 1 no load meets --slo; 2 usage; 3 the run cannot be trusted;
4 the system refused.";

const MERGE_EXAMPLES: &str = "\
Examples:
  weir load merge shard-*.json                       what all machines measured together
  weir load merge 0.json 1.json --out part.json      parts can be merged again, in any order, any number of times
  weir load merge part.json 2.json --html all.html

A merge is exact. It names the ranks that are missing and the load they would have carried.

Exit codes: 0 valid; 2 usage; 3 the run cannot be trusted, with the reason; 4 the system refused.";

const FIT_EXAMPLES: &str = "\
Examples:
  weir load fit access.log                           models of each stream, best first, as flags of `weir site surge`
  weir load fit access.log --session-gap 10m --json

Clients are told apart by address: those who share one are mixed.

Exit codes: 0 estimated; 2 usage; 4 the system refused.";

const PLAN_EXAMPLES: &str = "\
Examples:
  weir load plan --users 40 --duration 60s                 what 40 users would ask for in a minute
  weir load plan --users 40 --duration 60s --summary       how much that is
  weir load plan --site ./site --users 520 --duration 10m  for a site that was written
  weir load plan --rate 100,500@10s --duration 20s         objects that arrive whatever answers do
  weir load plan --site ./webstone --clients 8 --nominal 5ms   clients that never sleep
  weir load plan --replay access.log --speed 10            the requests of a log, with the times of the run
  weir load plan http://h/a.html --rate 100                one path, again and again
  weir load plan --users 40 --size 3                       which of 3 machines sends what
  weir load plan --users 40 --size 3 --rank 1              only what machine 1 sends

Nothing is sent. Each line is one request. Without --site, --urls, --replay or a URL it is a Surge site as the
flags below describe it. The plan takes every answer to need --nominal; in a run,
each user keeps its objects and OFF times and only the instants move with the server.";

/// What is said to `weir load`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, arg_required_else_help = true,
    after_help = RUN_EXAMPLES)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) what: Option<Command>,

    #[command(flatten)]
    pub(crate) run: RunFlags,
}

/// What `weir load` can do besides running.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prints the request stream as JSON lines and sends nothing
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Box<PlanFlags>),
    /// Puts together what several machines measured in one run, exactly
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(MergeFlags),
    /// Estimates the parameters of Surge from an access log, and says how badly each model fits
    #[command(after_help = FIT_EXAMPLES)]
    Fit(FitFlags),
}

/// Flags of `weir load fit`.
#[derive(Debug, Args)]
pub(crate) struct FitFlags {
    /// Access log: Common, Combined or JSON
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,

    /// A client that pauses for longer begins another session; such pauses are no OFF times
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_duration)]
    pub(crate) session_gap: Duration,
}

/// Flags of `weir load merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeFlags {
    /// Results of runs with --rank, or of merges
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Where results go besides the terminal.
#[derive(Debug, Args)]
pub(crate) struct OutputFlags {
    /// Writes the result here as JSON lines, which `weir load merge` and `weir compare` read; `{rank}` in the
    /// name becomes this machine's number
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,

    /// Writes a self-contained HTML page with plots
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) html: Option<PathBuf>,

    /// Writes the run by second: objects, files, bytes, errors, response times
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) csv: Option<PathBuf>,

    /// Writes a log of histograms that HdrHistogram's tools read
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) hdr: Option<PathBuf>,
}

/// Which machine of how many this is.
#[derive(Debug, Args)]
pub(crate) struct PlaceFlags {
    /// Which machine this is, from 0 [default: as Slurm, Open MPI or Kubernetes say, or 0]
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub(crate) rank: Option<u32>,

    /// How many machines share the load [default: as Slurm or Open MPI say, or 1]
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub(crate) size: Option<u32>,

    /// When all of them begin, in seconds since 1970 (`date +%s`)
    #[arg(long, value_name = "SECONDS", help_heading = "Machines")]
    pub(crate) start_at: Option<f64>,
}

/// Who asks for what, and for how long: a run and its plan say it in the same words.
#[derive(Debug, Args)]
pub(crate) struct AskedFlags {
    /// Folder that `weir site` wrote, or its manifest: what can be asked for, and what it should be
    #[arg(long, value_name = "DIR", help_heading = "What")]
    pub(crate) site: Option<PathBuf>,

    /// File of paths, one a line, asked for in turn
    #[arg(long, value_name = "FILE", conflicts_with = "site", help_heading = "What")]
    pub(crate) urls: Option<PathBuf>,

    /// Access log (Common, Combined or JSON) whose GET requests are made again when it says they were
    #[arg(long, value_name = "FILE", conflicts_with_all = ["site", "urls", "users", "clients", "sessions", "rate"],
        help_heading = "What")]
    pub(crate) replay: Option<PathBuf>,

    /// How many times faster than the log [default: 1]
    #[arg(long, value_name = "FACTOR", help_heading = "What")]
    pub(crate) speed: Option<f64>,

    /// Surge users, who are OFF after each object; needs a Surge [default with one: 40]
    #[arg(long, value_name = "N", conflicts_with_all = ["clients", "sessions", "rate"],
        help_heading = "Who")]
    pub(crate) users: Option<u32>,

    /// Clients that never sleep [default without a Surge: 10]
    #[arg(long, value_name = "N", conflicts_with_all = ["sessions", "rate"], help_heading = "Who")]
    pub(crate) clients: Option<u32>,

    /// Surge users who come so many a second, have one session and go; a rate as with --rate
    #[arg(long, value_name = "RATE", conflicts_with = "rate", help_heading = "Who")]
    pub(crate) sessions: Option<Schedule>,

    /// Objects a second, whatever the answers do; `100,500@10s` is 100, from 10 s on 500
    #[arg(long, value_name = "RATE", help_heading = "Who")]
    pub(crate) rate: Option<Schedule>,

    /// With --rate and --sessions: poisson, constant [default: poisson]
    #[arg(long, value_name = "PROCESS", help_heading = "Who")]
    pub(crate) arrivals: Option<Process>,

    /// How long is measured: no object begins after this. A replay ends with its log if that is shorter
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_span, help_heading = "How")]
    pub(crate) duration: Duration,

    /// Runs for so long before --duration begins; what is meant to be asked for then is left out of every figure
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration, conflicts_with = "replay",
        help_heading = "How")]
    pub(crate) warmup: Duration,

    /// Between the starts of two of --users [default: such that all begin within --warmup or, without one, the first
    /// third of --duration; 50ms, as the original, at the most]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "How")]
    pub(crate) stagger: Option<Duration>,
}

impl AskedFlags {
    /// From the start to when nothing begins any more: the warm-up and what is measured.
    pub(crate) fn span(&self) -> Duration {
        self.warmup.saturating_add(self.duration)
    }
}

/// How it is asked for, and what a run may fall short of: nothing of this changes what a plan prints.
#[derive(Debug, Args)]
pub(crate) struct HowFlags {
    /// With --rate and --replay: connections at once [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Who")]
    pub(crate) connections: Option<u32>,

    /// Connections of each user or client: what a page embeds is dealt out to them in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64),
        help_heading = "How")]
    pub(crate) connections_per_user: u32,

    /// http10: a connection a file; serial; pipelined; early-close: pipelined, closed after each object
    /// [default: serial; http10 for a WebStone site]
    #[arg(long, value_name = "MODE", help_heading = "How")]
    pub(crate) mode: Option<Mode>,

    /// A field line of every request, as `Name: value`; may be said again. Host and User-Agent replace what would be sent; what
    /// the connection decides (Connection, Content-Length, Transfer-Encoding and the like) is refused
    #[arg(short = 'H', long, value_name = "LINE", help_heading = "How")]
    pub(crate) header: Vec<Extra>,

    /// GET, or HEAD: only the heads of files, and the lengths they say
    #[arg(long, value_name = "METHOD", default_value = "GET", value_parser = offered::<Verb>(METHODS),
        hide_possible_values = true, help_heading = "How")]
    pub(crate) method: Verb,

    /// Statuses of a good file, as 200-399, 200,404 or 2xx; no redirect is followed [default: 200, with 206 if --header has a
    /// Range, 304 if it has If-None-Match or If-Modified-Since]
    #[arg(long, value_name = "STATUSES", help_heading = "How")]
    pub(crate) accept_status: Option<Accept>,

    /// A reply that makes no progress for this long has failed. Whatever failed counts in means as at least this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_span, help_heading = "How")]
    pub(crate) timeout: Duration,

    /// What is under way at the end may still take this long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, help_heading = "How")]
    pub(crate) grace: Duration,

    /// Threads, each with its own users [default: one a processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX), help_heading = "How")]
    pub(crate) threads: Option<u32>,

    /// Holds every body against the digest in the manifest
    #[arg(long, requires = "site", help_heading = "Trust")]
    pub(crate) verify: bool,

    /// Largest allowed p99 of this client's own lateness: of the timers of its users and arrivals, and of a tick every 10 ms in
    /// each thread. A run above it is invalid. Lateness at p99.9 or max only causes a warning, if it is more than 10% of the response
    /// time there
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_duration, help_heading = "Trust")]
    pub(crate) lag_max: Duration,

    /// Longest allowed stall: no response completes although requests are waiting and, at the rate of the rest of the run,
    /// ten should have. A longer stall makes the run invalid [default: 2s; with --users or --clients a quarter of --duration,
    /// between 1s and 2s]
    #[arg(long, value_name = "TIME", value_parser = parse_span, help_heading = "Trust")]
    pub(crate) stall_max: Option<Duration>,

    /// The share of files that may fail: 0.01, or 1%
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = parse_share, help_heading = "Trust")]
    pub(crate) failures_max: f64,

    /// Searches the highest rate, or number of users or clients, at which response times keep this:
    /// `p99<50ms`; also mean, p50, p90, p999, max; in us, ms, s. A failed request meets no objective. Each trial needs enough
    /// requests: 100 for p99, 1000 for p999
    #[arg(long, value_name = "OBJECTIVE", conflicts_with_all = ["replay", "rank", "size"], help_heading = "Trust")]
    pub(crate) slo: Option<Objective>,
}

impl HowFlags {
    /// Which statuses are those of a good file.
    pub(crate) fn accepted(&self) -> Accept {
        let names = self.header.iter().map(|extra| extra.name.as_str());
        self.accept_status
            .clone()
            .unwrap_or_else(|| Accept::answering(names))
    }

    /// Whether the requests ask for something else than files as they are.
    pub(crate) fn asks_for_coded(&self) -> bool {
        let mut names = self.header.iter().map(|extra| extra.name.as_str());
        names.any(|name| name.eq_ignore_ascii_case("Accept-Encoding"))
    }
}

/// Flags of a run.
#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// Where the server is; the path is asked for, or is where the site lies
    #[arg(value_name = "URL", required = true)]
    pub(crate) url: Option<String>,

    #[command(flatten)]
    pub(crate) asked: AskedFlags,

    #[command(flatten)]
    pub(crate) how: HowFlags,

    /// All chance in arrivals and choices [default: the site's, or 1]
    #[arg(long, value_name = "N", help_heading = "How")]
    pub(crate) seed: Option<u64>,

    #[command(flatten)]
    pub(crate) place: PlaceFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Flags of `weir load plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanFlags {
    /// As of the run: its path is asked for, or is where the site lies
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,

    #[command(flatten)]
    pub(crate) asked: AskedFlags,

    #[command(flatten)]
    pub(crate) how: HowFlags,

    /// What an answer is taken to need [default: 0s; 10ms for clients, who never sleep]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) nominal: Option<Duration>,

    /// Machines the users are spread over
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) size: u32,

    /// Only what this machine sends, from 0; without it, what all of them send
    #[arg(long, value_name = "N")]
    pub(crate) rank: Option<u32>,

    /// Prints sums instead of requests: objects, files, bytes, connections by protocol mode
    #[arg(long)]
    pub(crate) summary: bool,

    #[command(flatten)]
    pub(crate) workload: Workload,
}
