//! The flags of `weir visit`: page, browser, link, limits and files. Does nothing.

use clap::Args;
use server::config::parse_duration;
use std::ffi::OsString;
use std::path::PathBuf;
use units::Duration;

const EXAMPLES: &str = "\
Examples:
  weir visit http://localhost:8080/                 without a link: the browser's own times
  weir visit http://198.18.0.1:8080/ --link ppp     a server on this machine, over a modem
  weir visit http://198.18.0.1/ --link wan --report visit.html \\
      --far 'weir serve ./site --listen 0.0.0.0:80'
  weir visit https://198.18.0.1:8443/ --link 'rate=8M rtt=60ms loss=1%' --insecure
  weir visit https://198.18.0.1:8443/ --link wan --insecure --browser-arg=--disable-http2
  weir visit http://198.18.0.1:8080/ --link wan --har visit.har --pcap visit.pcapng
  weir visit http://localhost:8080/ --browser /opt/chrome/chrome --har visit.har

Weir starts Chromium without a window and with a new profile, opens the page and records its requests
as the browser reports them (DevTools protocol). The visit ends when the page is loaded and no request
was outstanding for 500 ms. With --link, Weir also captures the packets of the visit, and reports for
each object what the browser waited for: `weir trace --har` does the same with an archive and a
capture of your own.

Behind a link, this machine is 198.18.0.1 (see weir link --help). Weir never reads your own profile of
the browser. If Weir runs as root, Chromium runs without its sandbox: visit only pages you trust.

Exit codes: 0 the page was loaded; 1 it was not, or the server answered with an error; 2 usage, no
browser, or no such link; 3 the capture is incomplete, or --far failed early; 4 the system refused. See also docs/visit.md.";

/// Flags of `weir visit`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// URL of the page: http or https
    #[arg(value_name = "URL")]
    pub(crate) url: String,

    /// Runs the browser behind this emulated link, and captures its packets: a preset (weir link --list), key=value words,
    /// or both
    #[arg(long, value_name = "LINK", help_heading = "Link")]
    pub(crate) link: Option<String>,

    /// Runs this command with sh at the far end of the link, at 198.18.0.1, and stops it after the visit
    #[arg(long, value_name = "SHELL COMMAND", requires = "link", help_heading = "Link")]
    pub(crate) far: Option<String>,

    /// Event at the far end that starts the browser: any (a socket listens, or 5 s have passed), PORT (a socket listens at
    /// this port), no (none) [default: any]
    #[arg(long, value_name = "any|PORT|no", requires = "far", help_heading = "Link")]
    pub(crate) far_ready: Option<String>,

    /// Random seed for loss and jitter of the link [default: 1]
    #[arg(long, value_name = "N", requires = "link", help_heading = "Link")]
    pub(crate) seed: Option<u64>,

    /// Program of the browser [default: the first of chromium, chromium-browser, google-chrome-stable, google-chrome]
    #[arg(long, value_name = "PROGRAM", help_heading = "Browser")]
    pub(crate) browser: Option<PathBuf>,

    /// Further argument for the browser, as in --browser-arg=--disable-http2; repeatable
    #[arg(
        long,
        value_name = "ARGUMENT",
        allow_hyphen_values = true,
        help_heading = "Browser"
    )]
    pub(crate) browser_arg: Vec<OsString>,

    /// Makes the browser accept every certificate, so the identity of servers is not verified
    #[arg(long, help_heading = "Browser")]
    pub(crate) insecure: bool,

    /// Longest time until the page is loaded and complete. The start of the browser is not counted; it may take 30 s, or this time
    /// if that is less
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration, help_heading = "Limits")]
    pub(crate) timeout: Duration,

    /// Longest time for requests that go on after the page is loaded
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, help_heading = "Limits")]
    pub(crate) settle: Duration,

    /// Writes the visit as one HTML page: the waterfall, and with --link what each object waited for, the connections and the
    /// findings. The page needs no network
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,

    /// Writes the requests as an HTTP archive (HAR 1.2), without bodies
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) har: Option<PathBuf>,

    /// Keeps the capture of the visit as pcapng
    #[arg(long, value_name = "FILE", requires = "link", help_heading = "Output")]
    pub(crate) pcap: Option<PathBuf>,

    /// Keeps the browser's key log, with which the TLS and QUIC of the capture can be read
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) keys: Option<PathBuf>,

    /// Only drives the browser and writes its files: the part of a visit that runs behind the link
    #[arg(long, hide = true, conflicts_with_all = ["link", "report"], requires_all = ["har", "keys"])]
    pub(crate) behind: bool,
}
