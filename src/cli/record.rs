//! The flags of `weir record`: page, folder, requests and bounds. Does nothing.

use crate::secure::TlsFlags;
use clap::Args;
use client::extra::Extra;
use client::plan::Manner;
use server::config::parse_duration;
use std::path::PathBuf;
use units::{Bytes, Duration};

const EXAMPLES: &str = "\
Examples:
  weir record https://example.org/ ./example
  weir record https://localhost:8443/ ./site --ca ca.pem --mode h2+br
  weir record http://localhost:8080/shop ./site -H 'Accept-Language: de' --cookie 'theme=dark'
  weir serve --replay ./example --listen 127.0.0.1:9000    answers from the recording

Weir fetches the page and everything it embeds, from all origins, and stores each exchange in a file
of its own. Redirects and error responses are recorded, too. A second recording into the same folder
adds exchanges and replaces those with the same URL. Stored are the responses as they arrived, with
Set-Cookie, but no Authorization and no Cookie of requests.

Exit codes: 0 everything was recorded; 1 a response is missing, or a bound was reached (the other
responses are recorded); 2 usage; 4 the system refused.";

/// Flags of `weir record`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// URL of the page: http or https
    #[arg(value_name = "URL")]
    pub(crate) url: String,

    /// Folder of the recording; created if there is none
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,

    /// How requests use connections, and the content coding for text: auto (https: h2 if the server agrees, otherwise
    /// as serial), serial, h2; add +gzip, +br, +zstd or +deflate
    #[arg(long, value_name = "MODE", default_value = "auto", help_heading = "Requests")]
    pub(crate) mode: Manner,

    /// Adds a header field to every request to the origin of the page, as `Name: value`; repeatable
    #[arg(short = 'H', long, value_name = "LINE", help_heading = "Requests")]
    pub(crate) header: Vec<Extra>,

    /// Logs in to the origin of the page with this name and password (Basic, RFC 7617)
    #[arg(long, value_name = "NAME:PASSWORD", help_heading = "Requests")]
    pub(crate) user: Option<String>,

    /// Cookies for the origin of the page, as `a=1; b=2`; repeatable
    #[arg(long, value_name = "PAIRS", help_heading = "Requests")]
    pub(crate) cookie: Vec<String>,

    /// Largest number of exchanges
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=20_000), help_heading = "Limits")]
    pub(crate) exchanges_max: u32,

    /// Largest number of bytes received from all origins together
    #[arg(long, value_name = "BYTES", default_value = "256MiB", help_heading = "Limits")]
    pub(crate) bytes_max: Bytes,

    /// Longest time for the whole recording
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = parse_duration, help_heading = "Limits")]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    pub(crate) tls: TlsFlags,
}
