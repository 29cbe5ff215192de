//! The flags of `weir demo`: how many users, for how long, when memory gets tight. Does nothing.

use clap::Args;
use measure::Duration;
use server::config::{Listen, parse_duration};
use std::net::SocketAddr;

const EXAMPLES: &str = "\
Examples:
  sudo weir demo
  sudo weir demo --users 200 --duration 45s --squeeze 15s

Everything happens on this machine: a site of Surge, a server for it with a process for each connection, users who ask, and
after a while memory for the files or for the connections, not for both, and a slow disk, as in the year 2000. The server
notices and decides; each decision is told with the numbers that led to it, here and on the live page. That takes control
groups, and these take root. It ends by itself and leaves nothing behind.

Exit codes: 0 the server decided something; 1 nothing was decided, or the users could not be served; 2 usage; 4 the system
refused.";

/// What is said to `weir demo`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Surge users
    #[arg(long, value_name = "N", default_value_t = 320, value_parser = clap::value_parser!(u32).range(32..=1000))]
    pub(crate) users: u32,

    /// How long they ask
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) duration: Duration,

    /// When memory gets tight
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    pub(crate) squeeze: Duration,

    /// Where the server listens; port 0 is any that is free
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", value_parser = Listen::parse_one)]
    pub(crate) listen: SocketAddr,
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::Parser;

    #[test]
    fn what_could_not_be_noticed_or_listened_to_is_refused() {
        for wrong in [["--users", "5"], ["--listen", "foo"], ["--duration", "long"]] {
            let told = Cli::try_parse_from(["weir", "demo"].iter().chain(&wrong));
            assert_eq!(told.expect_err("no demo").exit_code(), 2, "{wrong:?}");
        }
    }
}
