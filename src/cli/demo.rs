//! The flags of `weir demo`: how many users, for how long, when memory gets tight. Does nothing.

use clap::Args;
use measure::Duration;
use server::config::parse_duration;

const EXAMPLES: &str = "\
Examples:
  weir demo
  weir demo --users 50 --duration 30s --squeeze 10s

Everything happens on this machine: a site of Surge, a server for it, users who ask, and after a while less memory, if
the machine lets a control group be made. The live page shows what the server decides. It ends by itself.

Exit codes: 0 it ran; 1 the users could not be served; 4 the system refused.";

/// What is said to `weir demo`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Surge users
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub(crate) users: u32,

    /// How long they ask
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) duration: Duration,

    /// When memory gets tight
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    pub(crate) squeeze: Duration,

    /// Where the server listens; port 0 is any that is free
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,
}
