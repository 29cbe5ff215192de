//! The flags of `weir load`: what is asked for, by whom, how, for how long, and what a run may fall short of.
//! Does nothing.

use super::site::Workload;
use ::load::arrivals::Process;
use ::load::connections::Mode;
use clap::{Args, Subcommand};
use measure::Duration;
use server::config::parse_duration;
use std::path::PathBuf;

const RUN_EXAMPLES: &str = "\
Examples:
  weir site surge ./site && weir serve ./site
  weir load http://localhost:8080/ --site ./site --users 40 --duration 60s --mode pipelined
  weir load http://localhost:8080/ --site ./site --rate 500 --arrivals poisson --verify
  weir load http://localhost:8080/index.html --clients 64 --mode serial
  weir load http://localhost:8080/ --urls paths.txt --clients 10 --json > result.jsonl

Users sleep between objects as in Surge; clients never do, as in WebStone; arrivals do not wait for answers.

Exit codes: 0 valid; 2 usage; 3 the run cannot be trusted, with the reason; 4 the system refused.";

const PLAN_EXAMPLES: &str = "\
Examples:
  weir load plan --users 40 --duration 60s                 what 40 users would ask for in a minute
  weir load plan --users 40 --duration 60s --summary       how much that is
  weir load plan --site ./site --users 520 --duration 10m  for a site that was written
  weir load plan --users 40 --size 3                       which of 3 machines sends what
  weir load plan --users 40 --size 3 --rank 1              only what machine 1 sends

Nothing is sent. Each line is one request. The plan takes every answer to need --nominal; in a run,
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
}

/// Flags of a run.
#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// Where the server is; the path is asked for, or is where the site lies
    #[arg(value_name = "URL", required = true)]
    pub(crate) url: Option<String>,

    /// Folder that `weir site` wrote, or its manifest: what can be asked for, and what it should be
    #[arg(long, value_name = "DIR", help_heading = "What")]
    pub(crate) site: Option<PathBuf>,

    /// File of paths, one a line, asked for in turn
    #[arg(long, value_name = "FILE", conflicts_with = "site", help_heading = "What")]
    pub(crate) urls: Option<PathBuf>,

    /// Surge users, who are OFF after each object; needs the --site of a Surge [default with one: 40]
    #[arg(long, value_name = "N", requires = "site", conflicts_with_all = ["clients", "rate"], help_heading = "Who")]
    pub(crate) users: Option<u32>,

    /// Clients that never sleep [default without a Surge: 10]
    #[arg(long, value_name = "N", conflicts_with = "rate", help_heading = "Who")]
    pub(crate) clients: Option<u32>,

    /// Objects a second, whatever the answers do
    #[arg(long, value_name = "N", help_heading = "Who")]
    pub(crate) rate: Option<f64>,

    /// With --rate: poisson, constant [default: poisson]
    #[arg(long, value_name = "PROCESS", requires = "rate", help_heading = "Who")]
    pub(crate) arrivals: Option<Process>,

    /// With --rate: connections at once
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Who")]
    pub(crate) connections: u32,

    /// http10: a connection a file; serial; pipelined; early-close: pipelined, closed after each object
    /// [default: serial; http10 for a WebStone site]
    #[arg(long, value_name = "MODE", help_heading = "How")]
    pub(crate) mode: Option<Mode>,

    /// No object begins after this
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration, help_heading = "How")]
    pub(crate) duration: Duration,

    /// Between the starts of two users
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_duration, help_heading = "How")]
    pub(crate) stagger: Duration,

    /// A reply that makes no progress for this long has failed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration, help_heading = "How")]
    pub(crate) timeout: Duration,

    /// What is under way at the end may still take this long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, help_heading = "How")]
    pub(crate) grace: Duration,

    /// Threads, each with its own users [default: one a processor]
    #[arg(long, value_name = "N", help_heading = "How")]
    pub(crate) threads: Option<usize>,

    /// All chance in arrivals and choices [default: the site's, or 1]
    #[arg(long, value_name = "N", help_heading = "How")]
    pub(crate) seed: Option<u64>,

    /// Holds every body against the digest in the manifest
    #[arg(long, requires = "site", help_heading = "Trust")]
    pub(crate) verify: bool,

    /// How late one alarm in a hundred may be
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_duration, help_heading = "Trust")]
    pub(crate) lag_max: Duration,

    /// The share of files that may fail
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, help_heading = "Trust")]
    pub(crate) failures_max: f64,

    /// Writes the result here, one JSON line
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Flags of `weir load plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanFlags {
    /// User equivalents over all machines
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) users: u32,

    /// No object begins after this
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) duration: Duration,

    /// Between the starts of two users
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_duration)]
    pub(crate) stagger: Duration,

    /// What an answer is taken to need
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub(crate) nominal: Duration,

    /// Machines the users are spread over
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) size: u32,

    /// Only what this machine sends, from 0; without it, what all of them send
    #[arg(long, value_name = "N")]
    pub(crate) rank: Option<u32>,

    /// Prints sums instead of requests: objects, files, bytes, connections by protocol mode
    #[arg(long)]
    pub(crate) summary: bool,

    /// Folder that `weir site surge` wrote, or its manifest; without it, the site the flags below describe
    #[arg(long, value_name = "DIR")]
    pub(crate) site: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) workload: Workload,
}
