//! The flags of `weir load`: workload, users or arrivals, protocol, duration, and the limits of a valid run.
//! Parses and documents them; runs nothing.

use super::objective::Objective;
use super::requirement::Requirement;
use super::share::parse_share;
use super::site::Workload;
use super::summary::SummaryFlags;
use crate::secure::TlsFlags;
use ::load::arrivals::{Process, Schedule};
use ::load::replies::Accept;
use clap::{Args, Subcommand};
use client::extra::Extra;
use client::plan::Mode;
use client::session::Verb;
use client::streamed::STREAMS_MAX;
use server::config::{FieldLine, OtlpEndpoint, parse_duration};
use std::path::PathBuf;
use units::Duration;
use url::Url;

/// Largest `--threads`: more than any machine has processors.
const THREADS_MAX: i64 = 1024;

/// A protocol mode of `weir load`.
fn parse_mode(text: &str) -> Result<Mode, String> {
    match text {
        "h2" | "http/2" => Ok(Mode::Http2),
        "h3" | "http/3" => Ok(Mode::Http3),
        text => text.parse().map_err(|why| format!("{why}, h2 or h3")),
    }
}

/// A time span greater than zero.
fn parse_span(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text)?;
    if span.is_zero() {
        return Err("it must be more than 0".to_owned());
    }
    Ok(span)
}

/// The whole URL of a receiver of remote write: each kind of receiver has its own path.
fn parse_receiver(text: &str) -> Result<Url, String> {
    let wrong = |what: &str| {
        format!(
            "`{}` {what}; write a URL as in http://127.0.0.1:9090/api/v1/write",
            text.escape_debug()
        )
    };
    let url = Url::parse(text).map_err(|_| wrong("is not the URL of a receiver"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("is not the URL of a receiver"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("has credentials, which belong in --remote-write-header"));
    }
    if url.path() == "/" && url.query().is_none() {
        return Err(wrong("has no path, and Weir adds none"));
    }
    Ok(url)
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
  weir load http://localhost:8080/ --rate 100 --require 'p99<200ms' --junit load.xml
  weir load http://localhost:8080/ --rate 100 --require 'failures<=0' --markdown load.md
  weir load http://localhost:8080/ --site ./site --users 2000 --warmup 10s --duration 60s
  weir load https://localhost:8443/ --site ./site --users 200 --mode h2 --insecure
  weir load http://localhost:8080/a.html --http2 --clients 80 --users-per-connection 10
  weir load https://localhost:8443/ --http3 --clients 20 --insecure
  weir load http://127.0.0.1:8080/ -H 'Host: www.example.org' -H 'Accept: text/html' --method HEAD
  weir load http://localhost:8080/ --scenario shop.toml --users 50 --require 'login:p99<200ms'
  weir load http://localhost:8080/ --scenario shop.toml --rate 20 --duration 1m
  weir load http://localhost:8080/orders --body hello -H 'Content-Type: text/plain'
  weir load https://localhost:8443/upload --method PUT --body @photo.jpg --accept-status 201,204
  weir load http://h/ --site ./site --users 3000 --rank 0 --size 3 --start-at $START --out 0.json
  weir load http://h/ --site /s --users 3000 --rank 0 --size 3 --start-with /shared/1 --out 0.json

Users sleep between objects as in Surge; clients never sleep, as in WebStone.
Arrivals (--rate, --replay) do not wait for responses.
docs/load.md describes loads, measurements and verdicts.

Exit codes: 0 valid run; 1 --require not met, or no load met --slo; 2 usage; 3 invalid run, with its
reasons; 4 the system refused.";

const MERGE_EXAMPLES: &str = "\
Examples:
  weir load merge shard-*.json                       combines the results of all machines
  weir load merge 0.json 1.json --out part.json      parts can be merged again
  weir load merge part.json 2.json --html all.html
  weir load merge shard-*.json --require 'p99<200ms' --junit load.xml

Merging is exact, in any order and in any number of steps. The report names missing ranks and their
share of the load.

Exit codes: 0 valid run; 1 --require not met; 2 usage; 3 invalid run, with its reasons;
4 the system refused.";

const FIT_EXAMPLES: &str = "\
Examples:
  weir load fit access.log                           models of each stream, best first
  weir load fit access.log --session-gap 10m --json

The output has the models as flags of `weir site surge`. Weir identifies clients by address, so it
mixes clients that share an address.

Exit codes: 0 estimated; 2 usage; 4 the system refused.";

const PLAN_EXAMPLES: &str = "\
Examples:
  weir load plan --users 40 --duration 60s                 every request of 40 users in a minute
  weir load plan --users 40 --duration 60s --summary       totals only
  weir load plan --site ./site --users 520 --duration 10m  for an existing site
  weir load plan --rate 100,500@10s --duration 20s         arrivals, independent of responses
  weir load plan --site ./webstone --clients 8 --nominal 5ms   clients that never sleep
  weir load plan --replay access.log --speed 10            requests of a log, with the run's times
  weir load plan http://h/a.html --rate 100                one path, repeatedly
  weir load plan --users 40 --size 3                       with the machine of each request
  weir load plan --users 40 --size 3 --rank 1              requests of machine 1 only

Nothing is sent. Each line is one request. Without --site, --urls, --replay or a URL, the workload
is a Surge site, described by the flags of `weir site surge`. The plan assumes that every response
takes --nominal. In a run, each user keeps its objects and OFF times; only the start times depend on
the server.";

/// Arguments of `weir load`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, arg_required_else_help = true,
    after_help = RUN_EXAMPLES)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) what: Option<Command>,

    #[command(flatten)]
    pub(crate) run: RunFlags,
}

/// Subcommands of `weir load`; without one, it runs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prints the request stream as JSON lines and sends nothing
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Box<PlanFlags>),
    /// Merges the results of one run on several machines, exactly
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(MergeFlags),
    /// Estimates Surge's parameters from an access log, and reports how well each model fits
    #[command(after_help = FIT_EXAMPLES)]
    Fit(FitFlags),
}

/// Flags of `weir load fit`.
#[derive(Debug, Args)]
pub(crate) struct FitFlags {
    /// Access log: Common, Combined or JSON
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,

    /// Pause of a client after which a new session starts; longer pauses are not OFF times
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_duration)]
    pub(crate) session_gap: Duration,
}

/// Flags of `weir load merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeFlags {
    /// Result files of runs with --rank, or of earlier merges
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Files that results are written to.
#[derive(Debug, Args)]
pub(crate) struct OutputFlags {
    /// Writes the result as JSON lines for `weir load merge` and `weir compare`; `{rank}` in a file name becomes
    /// this machine's rank
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,

    /// Writes a self-contained HTML page with plots
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) html: Option<PathBuf>,

    /// Writes CSV by second: objects, files, bytes, errors, response times
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) csv: Option<PathBuf>,

    /// Writes a histogram log for HdrHistogram's tools
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) hdr: Option<PathBuf>,

    /// Condition on the finished load, repeatable: `p99<200ms` (also mean, p50, p90, p999, max), `failures<1%`,
    /// `rate>=500` (files per second), another time, as in `service.p50<20ms`, or a step of a scenario, as in
    /// `login:p99<200ms`. Exit code 1 if a condition is not met
    #[arg(long, value_name = "CONDITION", help_heading = "Continuous integration")]
    pub(crate) require: Vec<Requirement>,

    #[command(flatten)]
    pub(crate) summary: SummaryFlags,
}

/// Rank of this machine and number of machines.
#[derive(Debug, Args)]
pub(crate) struct PlaceFlags {
    /// Rank of this machine, from 0 [default: from Slurm, Open MPI or Kubernetes, or 0]
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub(crate) rank: Option<u32>,

    /// Number of machines that share the load [default: from Slurm or Open MPI, or 1]
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub(crate) size: Option<u32>,

    /// Common start time of all machines, in seconds since 1970 (`date +%s`)
    #[arg(long, value_name = "SECONDS", help_heading = "Machines")]
    pub(crate) start_at: Option<f64>,

    /// Folder that all machines share, in which they agree on a common start once all have arrived. Each run needs a new
    /// folder, and the clocks must be synchronized (NTP)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["start_at", "slo"], help_heading = "Machines")]
    pub(crate) start_with: Option<PathBuf>,

    /// With --start-with: longest time to wait for the other machines [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = parse_span, requires = "start_with", help_heading = "Machines")]
    pub(crate) start_timeout: Option<Duration>,
}

/// Workload, users or arrivals, and duration: the flags that a run and its plan share.
#[derive(Debug, Args)]
pub(crate) struct AskedFlags {
    /// Site written by `weir site`: its folder or its manifest
    #[arg(long, value_name = "DIR", help_heading = "Workload")]
    pub(crate) site: Option<PathBuf>,

    /// File of paths, one per line, requested in turn. If any line has a weight after its path (`/a 3`), each request
    /// draws its path by weight instead; lines without a weight have weight 1
    #[arg(long, value_name = "FILE", conflicts_with = "site", help_heading = "Workload")]
    pub(crate) urls: Option<PathBuf>,

    /// TOML file of scenarios: steps that depend on each other, with data, captured values and cookies; docs/load.md
    /// describes it. Each user or client, and each arrival of --rate, starts scenarios
    #[arg(long, value_name = "FILE", conflicts_with_all = ["site", "urls", "replay", "sessions"],
        help_heading = "Workload")]
    pub(crate) scenario: Option<PathBuf>,

    /// Access log (Common, Combined or JSON) whose GET requests are sent at their logged times
    #[arg(long, value_name = "FILE", conflicts_with_all = ["site", "urls", "users", "clients", "sessions", "rate"],
        help_heading = "Workload")]
    pub(crate) replay: Option<PathBuf>,

    /// Replays the log this many times as fast [default: 1]
    #[arg(long, value_name = "FACTOR", help_heading = "Workload")]
    pub(crate) speed: Option<f64>,

    /// Surge users, each with an OFF time after every object; needs a Surge site [default with a Surge site: 40]. With
    /// --scenario: users who begin one after another
    #[arg(long, value_name = "N", conflicts_with_all = ["clients", "sessions", "rate"],
        help_heading = "Load")]
    pub(crate) users: Option<u32>,

    /// Clients that never sleep [default without a Surge site: 10]
    #[arg(long, value_name = "N", conflicts_with_all = ["sessions", "rate"], help_heading = "Load")]
    pub(crate) clients: Option<u32>,

    /// Surge users who arrive per second, complete one session and leave; may change as for --rate
    #[arg(long, value_name = "RATE", conflicts_with = "rate", help_heading = "Load")]
    pub(crate) sessions: Option<Schedule>,

    /// Objects per second, independent of responses; `100,500@10s` is 100, then 500 from 10 s on
    #[arg(long, value_name = "RATE", help_heading = "Load")]
    pub(crate) rate: Option<Schedule>,

    /// With --rate and --sessions: poisson, constant [default: poisson]
    #[arg(long, value_name = "PROCESS", help_heading = "Load")]
    pub(crate) arrivals: Option<Process>,

    /// Measured time; no object begins after it. A replay ends with its log if that is shorter
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_span, help_heading = "Load")]
    pub(crate) duration: Duration,

    /// Time before --duration; requests intended to start in it are excluded from every figure except rates
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration, conflicts_with = "replay",
        help_heading = "Load")]
    pub(crate) warmup: Duration,

    /// Time between the starts of two --users [default: 50ms, or less so that all begin within --warmup (without a
    /// warm-up, within the first third of --duration)]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Load")]
    pub(crate) stagger: Option<Duration>,
}

impl AskedFlags {
    /// Warm-up plus measured time: after it, no object begins.
    pub(crate) fn span(&self) -> Duration {
        self.warmup.saturating_add(self.duration)
    }
}

/// Protocol and the limits of a valid run: flags that do not change what a plan prints.
#[derive(Debug, Args)]
pub(crate) struct HowFlags {
    /// With --rate and --replay: maximum number of open connections [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Requests")]
    pub(crate) connections: Option<u32>,

    /// Connections per user or client; embedded files are assigned to them in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64),
        help_heading = "Requests")]
    pub(crate) connections_per_user: u32,

    /// http10 (one connection per file), serial, pipelined, early-close (pipelined, closed after each object), h2
    /// (HTTP/2: the page alone, then its embedded files on streams) or h3 (HTTP/3, the same over QUIC) [default: http10 for a WebStone site; over https h2, if
    /// the server chooses it; otherwise serial]
    #[arg(long, value_name = "MODE", value_parser = parse_mode, help_heading = "Requests")]
    pub(crate) mode: Option<Mode>,

    /// Short for --mode h2
    #[arg(long, conflicts_with = "mode", help_heading = "Requests")]
    pub(crate) http2: bool,

    /// Short for --mode h3
    #[arg(long, conflicts_with_all = ["mode", "http2"], help_heading = "Requests")]
    pub(crate) http3: bool,

    /// With --mode h2 or h3: maximum number of requests outstanding on a connection; the server may permit fewer
    #[arg(long, value_name = "N", default_value_t = STREAMS_MAX as u32,
        value_parser = clap::value_parser!(u32).range(1..=STREAMS_MAX as i64), help_heading = "Requests")]
    pub(crate) streams: u32,

    /// With --mode h2 or h3: number of users or clients that share a connection, as behind a proxy. With --rate: number of
    /// simultaneous objects on a connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000),
        help_heading = "Requests")]
    pub(crate) users_per_connection: u32,

    /// Adds a header field to every request, as `Name: value`; repeatable. Host and User-Agent replace the defaults.
    /// Fields of the connection (Connection, Content-Length, Transfer-Encoding and similar) are rejected
    #[arg(short = 'H', long, value_name = "LINE", help_heading = "Requests")]
    pub(crate) header: Vec<Extra>,

    /// Method of every request, as POST. HEAD requests headers only, with their lengths checked against the manifest
    /// [default: POST with --body, otherwise GET]
    #[arg(long, value_name = "METHOD", help_heading = "Requests")]
    pub(crate) method: Option<Verb>,

    /// Content of every request: this text, or that of a file (@FILE, up to 64 MiB). Content-Length is added; add
    /// Content-Type with --header
    #[arg(long, value_name = "TEXT|@FILE", help_heading = "Requests")]
    pub(crate) body: Option<String>,

    /// Statuses that count as success, such as `200-399`, `200,404` or `2xx`; redirects are not followed [default: 200,
    /// also 206 if --header has a Range, 304 if it has If-None-Match or If-Modified-Since; with other methods than GET
    /// and HEAD 200-299]
    #[arg(long, value_name = "STATUSES", help_heading = "Requests")]
    pub(crate) accept_status: Option<Accept>,

    /// Time without progress after which a response has failed. Means count every failed request with at least this
    /// time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_span, help_heading = "Limits")]
    pub(crate) timeout: Duration,

    /// Time after --duration in which pending requests may still complete
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, help_heading = "Limits")]
    pub(crate) grace: Duration,

    /// Client threads, each with its own users [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX), help_heading = "Load")]
    pub(crate) threads: Option<u32>,

    /// Checks every body against the digest in the manifest
    #[arg(long, requires = "site", help_heading = "Valid runs")]
    pub(crate) verify: bool,

    /// Largest p99 lateness of this client in a valid run. It is measured on the timers of users and arrivals, and on a
    /// 10 ms tick in each thread. At p99.9 and max, larger lateness causes only a warning, and only if it is also above
    /// 10% of the response time
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_duration, help_heading = "Valid runs")]
    pub(crate) lag_max: Duration,

    /// Longest stall in a valid run. A stall is a period in which requests are pending and none completes, although ten
    /// or more would have completed at the rate of the rest of the run [default: 2s; with --users or --clients a
    /// quarter of --duration, between 1s and 2s]
    #[arg(long, value_name = "TIME", value_parser = parse_span, help_heading = "Valid runs")]
    pub(crate) stall_max: Option<Duration>,

    /// Largest share of failed files in a valid run, as 0.01 or 1%
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = parse_share, help_heading = "Valid runs")]
    pub(crate) failures_max: f64,

    /// Searches for the highest rate, or number of users or clients, that meets this objective: `p99<50ms`; also mean,
    /// p50, p90, p999, max; in us, ms, s. If a failed request determines the statistic, the objective is not met. Each
    /// trial needs enough requests: 100 for p99, 1000 for p999
    #[arg(long, value_name = "OBJECTIVE", conflicts_with_all = ["replay", "rank", "size"], help_heading = "Load")]
    pub(crate) slo: Option<Objective>,
}

impl HowFlags {
    /// The mode that the flags name, if they do.
    pub(crate) fn named_mode(&self) -> Option<Mode> {
        let named = self.http2.then_some(Mode::Http2);
        self.mode.or(named).or(self.http3.then_some(Mode::Http3))
    }

    /// Method of every request: the flag's, or that of a request with or without content.
    pub(crate) fn verb(&self) -> Verb {
        let usual = match self.body {
            Some(_) => Verb::POST,
            None => Verb::GET,
        };
        self.method.clone().unwrap_or(usual)
    }

    /// Statuses that count as success: the flag's, or those that answer the given method and headers.
    pub(crate) fn accepted(&self) -> Accept {
        let names = self.header.iter().map(|extra| extra.name.as_str());
        let usual = || match self.verb().is_retrieval() {
            true => Accept::answering(names),
            false => Accept::successful(),
        };
        self.accept_status.clone().unwrap_or_else(usual)
    }

    /// Whether the requests accept content codings, so that bodies may differ from the manifest.
    pub(crate) fn asks_for_coded(&self) -> bool {
        let mut names = self.header.iter().map(|extra| extra.name.as_str());
        names.any(|name| name.eq_ignore_ascii_case("Accept-Encoding"))
    }
}

/// The collector that gets the seconds of a run.
#[derive(Debug, Args)]
pub(crate) struct CollectorFlags {
    /// After the run, sends counts and response times by second to this collector of OpenTelemetry, such as
    /// http://127.0.0.1:4318
    #[arg(long, value_name = "URL", help_heading = "Results")]
    pub(crate) otlp: Option<OtlpEndpoint>,

    /// Field line for the collector, such as `Authorization: Bearer TOKEN`; repeatable
    #[arg(long, value_name = "NAME: VALUE", value_parser = FieldLine::of_request, help_heading = "Results")]
    pub(crate) otlp_header: Vec<FieldLine>,

    /// PEM file with the roots for the collector's certificate; the system's if not given
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) otlp_ca: Option<PathBuf>,
}

/// The receiver of Prometheus remote write that gets the seconds of a run.
#[derive(Debug, Args)]
pub(crate) struct RemoteWriteFlags {
    /// After the run, sends counts and response times by second to this receiver of Prometheus remote write, such as
    /// http://127.0.0.1:9090/api/v1/write
    #[arg(long, value_name = "URL", value_parser = parse_receiver, help_heading = "Results")]
    pub(crate) remote_write: Option<Url>,

    /// Field line for the receiver, such as `Authorization: Bearer TOKEN`; repeatable
    #[arg(long, value_name = "NAME: VALUE", value_parser = FieldLine::of_request, help_heading = "Results")]
    pub(crate) remote_write_header: Vec<FieldLine>,

    /// PEM file with the roots for the receiver's certificate; the system's if not given
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) remote_write_ca: Option<PathBuf>,
}

/// Flags of a run.
#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// Server to load, http or https; with --site, the URL's path is the root of the site, otherwise it is the path to request
    #[arg(value_name = "URL", required = true)]
    pub(crate) url: Option<String>,

    #[command(flatten)]
    pub(crate) asked: AskedFlags,

    #[command(flatten)]
    pub(crate) how: HowFlags,

    #[command(flatten)]
    pub(crate) tls: TlsFlags,

    /// Random seed of arrivals and choices [default: the site's, or 1]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) seed: Option<u64>,

    #[command(flatten)]
    pub(crate) place: PlaceFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,

    #[command(flatten)]
    pub(crate) collector: CollectorFlags,

    #[command(flatten)]
    pub(crate) receiver: RemoteWriteFlags,
}

/// Flags of `weir load plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanFlags {
    /// URL of the run; with --site, its path is the root of the site, otherwise it is the path to request
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,

    #[command(flatten)]
    pub(crate) asked: AskedFlags,

    #[command(flatten)]
    pub(crate) how: HowFlags,

    /// Assumed time of every response [default: 0s; 10ms for --clients]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) nominal: Option<Duration>,

    /// Number of machines that share the load
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) size: u32,

    /// Prints the requests of this machine only, from 0 [default: all machines]
    #[arg(long, value_name = "N")]
    pub(crate) rank: Option<u32>,

    /// Prints totals instead of requests: objects, files, bytes, connections by protocol mode
    #[arg(long)]
    pub(crate) summary: bool,

    #[command(flatten)]
    pub(crate) workload: Workload,
}
