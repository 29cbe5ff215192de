//! The flags of `weir load`: users, time, machines. Does nothing.

use super::site::Workload;
use clap::{Args, Subcommand};
use measure::Duration;
use server::config::parse_duration;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir load plan --users 40 --duration 60s                 what 40 users would ask for in a minute
  weir load plan --users 40 --duration 60s --summary       how much that is
  weir load plan --site ./site --users 520 --duration 10m  for a site that was written
  weir load plan --users 40 --size 3                       which of 3 machines sends what
  weir load plan --users 40 --size 3 --rank 1              only what machine 1 sends

Nothing is sent. Each line is one request. The plan takes every answer to need --nominal; in a run,
each user keeps its objects and OFF times and only the instants move with the server.";

/// What `weir load` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prints the request stream as JSON lines and sends nothing
    #[command(after_help = EXAMPLES)]
    Plan(Box<PlanFlags>),
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
