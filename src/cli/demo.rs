//! The flags of `weir demo`: number of users, duration, start of the memory squeeze. Does nothing.

use clap::Args;
use server::config::{Listen, parse_duration};
use std::net::SocketAddr;
use units::Duration;

const EXAMPLES: &str = "\
Examples:
  sudo weir demo
  sudo weir demo --users 200 --duration 45s --squeeze 15s
  sudo weir demo --https

Everything runs on this machine: a generated Surge site, a server with one process per connection,
and users. At --squeeze, a control group limits memory, so that the files or the connections fit but
not both, and slows the disk to a speed of the year 2000. The server detects the memory pressure and
adapts. The demo prints each decision here and on the live page, with the numbers that led to it.
Control groups need root. The demo ends by itself and leaves nothing behind.

Exit codes: 0 the server made a decision; 1 it made none, or the users could not be served; 2 usage;
4 the system refused.";

/// Flags of `weir demo`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Number of Surge users
    #[arg(long, value_name = "N", default_value_t = 320, value_parser = clap::value_parser!(u32).range(32..=1000))]
    pub(crate) users: u32,

    /// How long the users send requests
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) duration: Duration,

    /// Time from the start of the load to the memory squeeze
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    pub(crate) squeeze: Duration,

    /// Address of the server; port 0 picks a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", value_parser = Listen::parse_tcp)]
    pub(crate) listen: SocketAddr,

    /// Speaks https, with a certificate authority that is made for the demo and removed at its end
    #[arg(long)]
    pub(crate) https: bool,
}

#[cfg(feature = "measure")]
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
