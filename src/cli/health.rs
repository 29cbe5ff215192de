//! The flags of `weir health`.

use clap::Args;
use server::config::parse_duration;
use units::Duration;
use url::Url;

const EXAMPLES: &str = "\
Examples:
  weir health http://127.0.0.1:8080/healthz
  weir health https://www.example.com/ --timeout 2s

Exit codes: 0 if the response has a status of 2xx, 1 for another status or no response, 2 for a URL that cannot be
requested.";

/// Flags of `weir health`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// URL to request; https with the system's root certificates
    #[arg(value_name = "URL", value_parser = parse_url)]
    pub(crate) url: Url,

    /// Longest time until the response is complete
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

/// Parses a URL that can be requested.
///
/// # Errors
/// Why it cannot.
fn parse_url(text: &str) -> Result<Url, String> {
    const ADVICE: &str = "write http://HOST:PORT/PATH";
    let url = Url::parse(text).map_err(|error| format!("{error}; {ADVICE}"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err(format!("neither http nor https; {ADVICE}")),
    }
}
