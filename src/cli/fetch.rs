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

Modes: http10 (a connection a request, 4 at once), serial, pipelined, early-close.
With +deflate, +gzip, +br or +zstd the client asks for text in that coding.

Exit codes: 0 everything of the page's own origin is here; 1 an object is missing or left out;
2 usage; 4 the system refused.";

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

    /// Who serves there: weir (today's stack on both hosts), apache or jigsaw (1997's) [default: weir]
    #[arg(long, value_name = "SERVER", value_parser = origin, help_heading = "Simulation")]
    pub(crate) from: Option<Origin>,

    /// Where the phases of timers come from; each repetition counts it up [default: 1]
    #[arg(long, value_name = "N", help_heading = "Simulation")]
    pub(crate) seed: Option<u64>,

    /// Writes the segments of the last fetch as a packet capture, seen at the client
    #[arg(long, value_name = "FILE", help_heading = "Simulation")]
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

    /// Pipelined: requests leave when this much of them is held [default: 1024]
    #[arg(long, value_name = "SIZE", help_heading = "How")]
    pub(crate) buffer: Option<Bytes>,

    /// Pipelined: or when none was added for this long [default: 50ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "How")]
    pub(crate) flush_timer: Option<Duration>,

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

    /// Asks about everything in the cache, however fresh; http10: GET for the page, HEAD for the rest.
    /// Simulated: after a first visit that filled the cache
    #[arg(long, help_heading = "Cache")]
    pub(crate) revalidate: bool,

    /// Objects of the page, itself included [default: 500]
    #[arg(long, value_name = "N", help_heading = "Bounds")]
    pub(crate) objects_max: Option<usize>,

    /// Bytes received, and bytes decoded, of all together [default: 256MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Bounds")]
    pub(crate) bytes_max: Option<Bytes>,

    /// Decoded bytes of one answer for each coded one, beyond the first mebibyte [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Bounds")]
    pub(crate) ratio_max: Option<u64>,

    /// Redirections in a row [default: 10]
    #[arg(long, value_name = "N", help_heading = "Bounds")]
    pub(crate) redirects_max: Option<u32>,

    /// How often one request may be repeated after a connection ended before its answer [default: 3]
    #[arg(long, value_name = "N", help_heading = "Bounds")]
    pub(crate) repeats_max: Option<u32>,

    /// For a connection to be made [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Bounds")]
    pub(crate) connect_timeout: Option<Duration>,

    /// Without a byte while an answer is owed [default: 30s; simulated: 300s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Bounds")]
    pub(crate) stall_timeout: Option<Duration>,

    /// For everything [default: 120s; simulated: 900s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Bounds")]
    pub(crate) timeout: Option<Duration>,

    /// Says where the time went
    #[arg(long, help_heading = "Output")]
    pub(crate) explain: bool,

    /// Writes an HTTP archive (HAR 1.2) of the last fetch; - is standard output, and the report goes to standard error
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) har: Option<PathBuf>,

    /// Draws the last fetch
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) svg: Option<PathBuf>,
}

impl Flags {
    /// Flags that were given and are about what this command line has not got, and what that is. clap cannot say it of
    /// `--simulate`: that is in conflict with URL, and what is in conflict with something given it does not require.
    pub(crate) fn idle(&self) -> Option<(&'static str, &'static str)> {
        use client::plan::Mode;
        let first =
            |flags: &[(&'static str, bool)]| flags.iter().find(|(_, given)| *given).map(|(name, _)| *name);
        let is_buffered = |manner: &Manner| matches!(manner.mode, Mode::Pipelined | Mode::EarlyClose);
        let of_simulation = [
            ("--from", self.from.is_some()),
            ("--seed", self.seed.is_some()),
            ("--pcapng", self.pcapng.is_some()),
        ];
        let of_buffer = [
            ("--buffer", self.buffer.is_some()),
            ("--flush-timer", self.flush_timer.is_some()),
            ("--no-explicit-flush", self.no_explicit_flush),
        ];
        let of_today = [
            ("--objects-max", self.objects_max.is_some()),
            ("--bytes-max", self.bytes_max.is_some()),
            ("--ratio-max", self.ratio_max.is_some()),
            ("--redirects-max", self.redirects_max.is_some()),
            ("--repeats-max", self.repeats_max.is_some()),
            ("--connect-timeout", self.connect_timeout.is_some()),
            ("--stall-timeout", self.stall_timeout.is_some()),
            ("--timeout", self.timeout.is_some()),
        ];
        let is_period = matches!(self.from, Some(Origin::Period(_)));
        let has_buffer = is_buffered(&self.mode) || self.compare.iter().any(is_buffered);
        None.or_else(|| {
            let name = first(&of_simulation).filter(|_| self.simulate.is_none());
            name.map(|name| {
                (
                    name,
                    "it is about a simulation: add --simulate NETWORK, or leave it out",
                )
            })
        })
        .or_else(|| {
            let name = first(&of_buffer).filter(|_| !has_buffer);
            name.map(|name| {
                (
                    name,
                    "it is about the output buffer of pipelined and early-close, and neither is the mode",
                )
            })
        })
        .or_else(|| {
            let name = first(&of_today).filter(|_| is_period);
            name.map(|name| {
                (
                    name,
                    "the client of 1997 has bounds of its own: it needs --from weir",
                )
            })
        })
    }
}
