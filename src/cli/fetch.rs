//! The flags of `weir fetch`: page, modes, repetitions, cache and reports. Does nothing.

use crate::secure::TlsFlags;
use clap::Args;
use client::extra::Extra;
use client::plan::{Manner, Priorities};
use server::config::parse_duration;
use std::path::PathBuf;
use units::{Bytes, Duration};

const EXAMPLES: &str = "\
Examples:
  weir fetch http://localhost:8080/
  weir fetch http://localhost:8080/ --mode pipelined+deflate --explain
  weir fetch https://localhost:8443/ --ca ca.pem --explain
  weir fetch https://localhost:8443/ --ca ca.pem --compare serial,h2 --repeat 5
  weir fetch https://localhost:8443/ --ca ca.pem --h3-only --explain
  weir fetch https://localhost:8443/ --ca ca.pem --mode h3    QUIC races TCP
  weir fetch https://localhost:8443/ --ca ca.pem --h3-only --qlog client.qlog
  weir fetch http://localhost:8080/ --compare http10,serial,pipelined,pipelined+deflate --repeat 5
  weir fetch http://localhost:8080/ --cache ./cache
  weir fetch http://localhost:8080/ --cache ./cache --revalidate
  weir fetch https://example.org/ -H 'Accept-Language: de' --user me:secret --cookie 'theme=dark'
  weir fetch http://localhost:8080/ --csv objects.csv
  weir fetch http://localhost:8080/ --svg waterfall.svg --har page.har
  weir fetch http://localhost:8080/ --compare serial,h2 --svg both.svg
  weir fetch http://localhost:8080/ --svg both.svg --beside before.har
  weir fetch --simulate ppp --from apache --compare http10,serial,pipelined,pipelined+deflate
  weir fetch --simulate 'wan loss=3%' --compare serial,h2,h3 --repeat 10
  weir fetch --simulate wan --from jigsaw --mode pipelined --revalidate --pcapng visit.pcapng

Modes:
  auto         https: h2 if the server agrees (ALPN), otherwise as serial; http: as serial.
               With --repeat, if the server names HTTP/3 (Alt-Svc), every https fetch after
               the first races QUIC against TCP
  http10       HTTP/1.0, one connection per request, 4 at once
  serial       HTTP/1.1, one persistent connection, one request at a time
  pipelined    HTTP/1.1, one persistent connection, up to 64 requests outstanding
  early-close  as pipelined; the last request says Connection: close
  h2           HTTP/2, one connection, each request as soon as it is known
  h3           HTTP/3 over QUIC, otherwise as h2; https only. QUIC races TCP, which starts
               250 ms later
Add +deflate, +gzip, +br or +zstd to request text in that content coding.

Exit codes: 0 all objects of the page's origin arrived; 1 an object is missing or left out;
2 usage; 4 the system refused.";

/// A server of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `weir serve`.
    Weir,
    /// A server of 1997.
    Period(repro::server::Kind),
}

fn origin(text: &str) -> Result<Origin, String> {
    use repro::server::Kind;
    match text {
        "weir" => Ok(Origin::Weir),
        "apache" => Ok(Origin::Period(Kind::Apache)),
        "jigsaw" => Ok(Origin::Period(Kind::Jigsaw)),
        _ => Err("a server is weir, apache or jigsaw".to_owned()),
    }
}

/// A flow-control window (RFC 9113 section 6.9.1).
fn window(text: &str) -> Result<u32, String> {
    let bytes: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    match u32::try_from(bytes.0) {
        Ok(bytes @ 1..=0x7fff_ffff) => Ok(bytes),
        _ => Err("a window is 1 B to 2 GiB less a byte".to_owned()),
    }
}

/// Flags of `weir fetch`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// URL of the page: http or https
    #[arg(value_name = "URL", required_unless_present_any = ["simulate", "beside"])]
    pub(crate) url: Option<String>,

    /// Simulates a fetch of document 003's Microscape page over lan, wan, ppp or any link that `weir link` takes
    #[arg(
        long,
        value_name = "NETWORK",
        conflicts_with_all = ["url", "cache"],
        help_heading = "Simulation"
    )]
    pub(crate) simulate: Option<String>,

    /// Simulated server: weir (today's TCP on both hosts), apache or jigsaw (hosts of 1997) [default: weir]
    #[arg(long, value_name = "SERVER", value_parser = origin, help_heading = "Simulation")]
    pub(crate) from: Option<Origin>,

    /// TCP of both simulated hosts, with --from weir: linux-6, or a stack of the 1990s, as document 003's hosts had
    /// [default: linux-6]
    #[arg(long, value_name = "STACK", value_parser = clap::builder::PossibleValuesParser::new(tcp::PRESETS),
        help_heading = "Simulation")]
    pub(crate) tcp: Option<String>,

    /// Uses TLS on every simulated connection, with --from weir. The server then takes no time for a response, instead of
    /// 1 ms. The mode h3 turns this on for all modes
    #[arg(long, help_heading = "Simulation")]
    pub(crate) https: bool,

    /// Random seed for losses and the phases of timers; each repetition adds 1 [default: 1]
    #[arg(long, value_name = "N", help_heading = "Simulation")]
    pub(crate) seed: Option<u64>,

    /// Writes a packet capture of the last fetch, as seen at the client. For h3, it has the keys
    #[arg(long, value_name = "FILE", help_heading = "Simulation")]
    pub(crate) pcapng: Option<PathBuf>,

    /// How requests use connections, and the content coding for text; see Modes below
    #[arg(long, value_name = "MODE", default_value = "auto", help_heading = "Requests")]
    pub(crate) mode: Manner,

    /// Adds a header field to every request, as `Name: value`; repeatable. Host, User-Agent, Accept and Cookie replace the
    /// client's own
    #[arg(short = 'H', long, value_name = "LINE", help_heading = "Requests")]
    pub(crate) header: Vec<Extra>,

    /// Logs in with this name and password (Basic, RFC 7617), as a URL with `name:password@` does
    #[arg(long, value_name = "NAME:PASSWORD", help_heading = "Requests")]
    pub(crate) user: Option<String>,

    /// Cookies for the page and its objects, as `a=1; b=2`; repeatable. Cookies that responses set are sent in any case
    #[arg(long, value_name = "PAIRS", help_heading = "Requests")]
    pub(crate) cookie: Vec<String>,

    /// Uses HTTP/3 over QUIC alone, from the first byte: no race against TCP, no Alt-Svc
    #[arg(long, conflicts_with_all = ["simulate", "compare"], help_heading = "Requests")]
    pub(crate) h3_only: bool,

    /// Fetches in each of these comma-separated modes and compares them
    #[arg(
        long,
        value_name = "MODES",
        value_delimiter = ',',
        conflicts_with = "mode",
        help_heading = "Requests"
    )]
    pub(crate) compare: Vec<Manner>,

    /// Connections open at once [default: 4 for http10, otherwise 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Requests")]
    pub(crate) connections: Option<u16>,

    /// Pipelined modes: size at which the output buffer is flushed [default: 1024]
    #[arg(long, value_name = "SIZE", help_heading = "Requests")]
    pub(crate) buffer: Option<Bytes>,

    /// Pipelined modes: flushes the output buffer when no request was added for this long [default: 50ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Requests")]
    pub(crate) flush_timer: Option<Duration>,

    /// Pipelined modes: buffers the request for the page, too, instead of sending it at once
    #[arg(long, help_heading = "Requests")]
    pub(crate) no_explicit_flush: bool,

    /// HTTP/2: sends the priorities of this browser: chromium or firefox; none sends no priorities [default: chromium]
    #[arg(long, value_name = "BROWSER", help_heading = "Requests")]
    pub(crate) priorities: Option<Priorities>,

    /// HTTP/2: flow-control window of a stream, in bytes [default: 6MiB]
    #[arg(long, value_name = "SIZE", value_parser = window, help_heading = "Requests")]
    pub(crate) stream_window: Option<u32>,

    /// Requests this many bytes of every image first, then the rest of the images, as ranges with If-Range
    #[arg(long, value_name = "SIZE", help_heading = "Requests")]
    pub(crate) first_bytes: Option<Bytes>,

    /// Fetches only the page, without the objects it embeds
    #[arg(long, help_heading = "Requests")]
    pub(crate) no_embedded: bool,

    /// Number of fetches; with more than one, reports the spread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000),
        help_heading = "Requests")]
    pub(crate) repeat: u32,

    /// Caches responses in this directory and uses the entries already there
    #[arg(long, value_name = "DIR", help_heading = "Cache")]
    pub(crate) cache: Option<PathBuf>,

    /// Revalidates every cache entry, even fresh ones. In http10: GET for the page, HEAD for the rest. With --simulate:
    /// a second visit, after one that filled the cache
    #[arg(long, help_heading = "Cache")]
    pub(crate) revalidate: bool,

    /// Maximum number of objects to fetch, the page included; further references are left out [default: 500]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) objects_max: Option<usize>,

    /// Maximum number of bytes received, and also of bytes decoded, for all objects together [default: 256MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub(crate) bytes_max: Option<Bytes>,

    /// Maximum decompression ratio of a response, beyond its first mebibyte [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Limits")]
    pub(crate) ratio_max: Option<u64>,

    /// Maximum number of redirects in a row [default: 10]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) redirects_max: Option<u32>,

    /// Maximum number of repeats of a request whose connection ended before the response [default: 3]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) repeats_max: Option<u32>,

    /// Longest time to establish a connection [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Limits")]
    pub(crate) connect_timeout: Option<Duration>,

    /// Longest time without a byte while a response is outstanding [default: 30s; simulated: 300s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Limits")]
    pub(crate) stall_timeout: Option<Duration>,

    /// Longest time for the whole fetch [default: 120s; simulated: 900s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Limits")]
    pub(crate) timeout: Option<Duration>,

    #[command(flatten)]
    pub(crate) tls: TlsFlags,

    /// Reports where the time went, by cause
    #[arg(long, help_heading = "Output")]
    pub(crate) explain: bool,

    /// Writes an HTTP archive (HAR 1.2) of the last fetch; with -, to standard output, and the report to standard error
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) har: Option<PathBuf>,

    /// Writes a waterfall picture of the last fetch; with --compare, of the last fetch in each mode, one above the other on
    /// one time scale. - works as for --har
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) svg: Option<PathBuf>,

    /// Draws this HTTP archive (HAR) of an earlier fetch, or of a browser, above the fetch in --svg; repeatable. Without URL,
    /// draws only the archives
    #[arg(long, value_name = "FILE", requires = "svg", help_heading = "Output")]
    pub(crate) beside: Vec<PathBuf>,

    /// Writes CSV with a row for each object of each fetch; - works as for --har
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) csv: Option<PathBuf>,

    /// HTTP/3: writes the packets of the last fetch to this file as qlog (version 0.3), for qvis and other viewers
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) qlog: Option<PathBuf>,
}

impl Flags {
    /// The first flag that has no effect with the other flags, and why. clap cannot express this for `--simulate`: it conflicts
    /// with URL, and clap does not require an argument that conflicts with a given one.
    pub(crate) fn idle(&self) -> Option<(&'static str, &'static str)> {
        use client::plan::Mode;
        let first =
            |flags: &[(&'static str, bool)]| flags.iter().find(|(_, given)| *given).map(|(name, _)| *name);
        let is_buffered = |manner: &Manner| matches!(manner.mode, Mode::Pipelined | Mode::EarlyClose);
        let of_simulation = [
            ("--from", self.from.is_some()),
            ("--tcp", self.tcp.is_some()),
            ("--https", self.https),
            ("--seed", self.seed.is_some()),
            ("--pcapng", self.pcapng.is_some()),
        ];
        let of_real = [
            ("--header", !self.header.is_empty()),
            ("--user", self.user.is_some()),
            ("--cookie", !self.cookie.is_empty()),
        ];
        let of_tls = self.tls.first().filter(|_| self.simulate.is_some());
        let of_buffer = [
            ("--buffer", self.buffer.is_some()),
            ("--flush-timer", self.flush_timer.is_some()),
            ("--no-explicit-flush", self.no_explicit_flush),
        ];
        let of_http2 = [
            ("--priorities", self.priorities.is_some()),
            ("--stream-window", self.stream_window.is_some()),
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
        let of_http3 = [("--h3-only", self.h3_only)];
        let may_be_http3 = matches!(self.mode.mode, Mode::Auto | Mode::Http3);
        let of_period = [("--tcp", self.tcp.is_some())];
        let of_quic = [("--qlog", self.qlog.is_some())];
        let can_be_quic = match self.compare.as_slice() {
            // A simulated server announces no HTTP/3.
            [] if self.simulate.is_some() => self.mode.mode == Mode::Http3,
            [] => may_be_http3,
            several => several.iter().any(|manner| manner.mode == Mode::Http3),
        };
        let has_fetch = self.url.is_some() || self.simulate.is_some();
        let of_fetch = [
            ("--compare", !self.compare.is_empty()),
            ("--cache", self.cache.is_some()),
            ("--repeat", self.repeat > 1),
            ("--explain", self.explain),
            ("--har", self.har.is_some()),
            ("--csv", self.csv.is_some()),
            ("--qlog", self.qlog.is_some()),
        ];
        let is_period = matches!(self.from, Some(Origin::Period(_)));
        let has_buffer = is_buffered(&self.mode) || self.compare.iter().any(is_buffered);
        let can_be_http2 = |manner: &Manner| manner.mode.is_multiplexed() || manner.mode == Mode::Auto;
        let has_http2 = match self.compare.as_slice() {
            [] => can_be_http2(&self.mode),
            several => several.iter().any(can_be_http2),
        };
        if let Some(name) = first(&of_fetch).filter(|_| !has_fetch) {
            return Some((name, "it applies to fetches: name a URL, or leave it out"));
        }
        None.or_else(|| {
            let name = first(&of_simulation).filter(|_| self.simulate.is_none());
            name.map(|name| {
                (
                    name,
                    "it applies to simulations: add --simulate NETWORK, or leave it out",
                )
            })
        })
        .or_else(|| {
            of_tls.map(|name| {
                let why = "simulated servers have a certificate of their own, which is not checked";
                (name, why)
            })
        })
        .or_else(|| {
            let name = first(&of_real).filter(|_| self.simulate.is_some());
            name.map(|name| (name, "simulated servers do not look at it"))
        })
        .or_else(|| {
            let name = first(&of_buffer).filter(|_| !has_buffer);
            name.map(|name| {
                (
                    name,
                    "it applies to the output buffer of the modes pipelined and early-close, and neither is chosen",
                )
            })
        })
        .or_else(|| {
            let name = first(&of_http2).filter(|_| !has_http2);
            name.map(|name| (name, "it applies to HTTP/2 and HTTP/3, and no mode speaks them"))
        })
        .or_else(|| {
            let name = first(&of_http3).filter(|_| !may_be_http3);
            name.map(|name| (name, "it needs --mode auto or h3"))
        })
        .or_else(|| {
            let name = first(&of_quic).filter(|_| !can_be_quic);
            let why = "it writes packets of HTTP/3, and no mode of this fetch speaks it: add --mode h3, or leave it out";
            name.map(|name| (name, why))
        })
        .or_else(|| {
            let name = first(&of_period).filter(|_| is_period);
            name.map(|name| (name, "the hosts of 1997 have a TCP of their own: it needs --from weir"))
        })
        .or_else(|| {
            let name = first(&of_today).filter(|_| is_period);
            name.map(|name| {
                (
                    name,
                    "the client of 1997 has its own limits: it needs --from weir",
                )
            })
        })
    }
}
