//! The flags of `weir fetch`: what is fetched, how, how often, what is kept and what is shown. Does nothing.

use clap::Args;
use client::plan::Manner;
use measure::{Bytes, Duration};
use server::config::parse_duration;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir fetch http://localhost:8080/
  weir fetch http://localhost:8080/ --mode pipelined+deflate --explain
  weir fetch http://localhost:8080/ --compare http10,serial,pipelined,pipelined+deflate --repeat 5
  weir fetch http://localhost:8080/ --cache ./cache && weir fetch http://localhost:8080/ --cache ./cache --revalidate
  weir fetch http://localhost:8080/ --svg waterfall.svg --har page.har
  weir fetch --simulate ppp --from apache --compare http10,serial,pipelined,pipelined+deflate --repeat 5
  weir fetch --simulate wan --from jigsaw --mode pipelined --revalidate --pcapng visit.pcapng

Modes: http10 (a connection a request, 4 at once), serial, pipelined, early-close; with +deflate, +gzip, +br or
+zstd text is asked for in that coding.

Exit codes: 0 all is here; 1 an object is not; 2 usage; 4 the system refused.";

/// A server of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// This one.
    Weir,
    /// One of 1997.
    Period(period::server::Kind),
}

fn origin(text: &str) -> Result<Origin, String> {
    use period::server::Kind;
    match text {
        "weir" => Ok(Origin::Weir),
        "apache" => Ok(Origin::Period(Kind::Apache)),
        "jigsaw" => Ok(Origin::Period(Kind::Jigsaw)),
        _ => Err("a server is weir, apache or jigsaw".to_owned()),
    }
}

/// What is said to `weir fetch`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The page
    #[arg(value_name = "URL", required_unless_present = "simulate")]
    pub(crate) url: Option<String>,

    /// Instead of a page, Microscape of document 003 in virtual time over lan, wan, ppp or a link as `weir link` takes
    #[arg(
        long,
        value_name = "NETWORK",
        conflicts_with_all = ["url", "cache"],
        help_heading = "Simulation"
    )]
    pub(crate) simulate: Option<String>,

    /// Who serves there: weir (today's stack on both hosts), apache or jigsaw (1997's)
    #[arg(long, value_name = "SERVER", requires = "simulate", default_value = "weir", value_parser = origin,
        help_heading = "Simulation")]
    pub(crate) from: Origin,

    /// Where the phases of timers come from; each repetition counts it up
    #[arg(
        long,
        value_name = "N",
        requires = "simulate",
        default_value_t = 1,
        help_heading = "Simulation"
    )]
    pub(crate) seed: u64,

    /// Writes the segments of the last fetch as a packet capture, seen at the client
    #[arg(long, value_name = "FILE", requires = "simulate", help_heading = "Simulation")]
    pub(crate) pcapng: Option<PathBuf>,

    /// How requests are laid onto connections, and the coding asked for
    #[arg(long, value_name = "MODE", default_value = "serial", help_heading = "How")]
    pub(crate) mode: Manner,

    /// Fetches in each of these modes, commas between them, and compares
    #[arg(
        long,
        value_name = "MODES",
        value_delimiter = ',',
        conflicts_with = "mode",
        help_heading = "How"
    )]
    pub(crate) compare: Vec<Manner>,

    /// Connections at once [default: 4 for http10, otherwise 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "How")]
    pub(crate) connections: Option<u16>,

    /// Pipelined: requests leave when this much of them is held
    #[arg(long, value_name = "SIZE", default_value = "1024", help_heading = "How")]
    pub(crate) buffer: Bytes,

    /// Pipelined: or when none was added for this long
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_duration, help_heading = "How")]
    pub(crate) flush_timer: Duration,

    /// Pipelined: the request for the page waits for the timer, too
    #[arg(long, help_heading = "How")]
    pub(crate) no_explicit_flush: bool,

    /// Asks for this much of each picture before the rest of any, by ranges with If-Range
    #[arg(long, value_name = "SIZE", help_heading = "How")]
    pub(crate) first_bytes: Option<Bytes>,

    /// Fetches the page and nothing it embeds
    #[arg(long, help_heading = "How")]
    pub(crate) no_embedded: bool,

    /// How often, with the spread over all
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000),
        help_heading = "How")]
    pub(crate) repeat: u32,

    /// Keeps what may be kept in this folder, and uses what is there
    #[arg(long, value_name = "DIR", help_heading = "Cache")]
    pub(crate) cache: Option<PathBuf>,

    /// Asks about everything in the cache, however fresh; http10: GET for the page, HEAD for the rest
    /// Simulated: after a first visit that filled the cache
    #[arg(long, help_heading = "Cache")]
    pub(crate) revalidate: bool,

    /// Objects of the page, itself included
    #[arg(long, value_name = "N", default_value_t = 500, help_heading = "Bounds")]
    pub(crate) objects_max: usize,

    /// Bytes received
    #[arg(long, value_name = "SIZE", default_value = "256MiB", help_heading = "Bounds")]
    pub(crate) bytes_max: Bytes,

    /// Redirections in a row
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Bounds")]
    pub(crate) redirects_max: u32,

    /// How often one request may be repeated after a connection ended before its answer
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Bounds")]
    pub(crate) repeats_max: u32,

    /// For a connection to be made
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration, help_heading = "Bounds")]
    pub(crate) connect_timeout: Duration,

    /// Without a byte while an answer is owed
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration, help_heading = "Bounds")]
    pub(crate) stall_timeout: Duration,

    /// For everything
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = parse_duration, help_heading = "Bounds")]
    pub(crate) timeout: Duration,

    /// Says where the time went
    #[arg(long, help_heading = "Output")]
    pub(crate) explain: bool,

    /// Writes an HTTP archive (HAR 1.2) of the last fetch
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) har: Option<PathBuf>,

    /// Draws the last fetch
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) svg: Option<PathBuf>,
}
