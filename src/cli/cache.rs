//! The flags of `weir cache`: logs, policies and cache sizes. Parses and documents them; replays nothing.

use super::offered::offered;
use clap::{Args, Subcommand};
use server::cache::Policy;
use server::config::{PathPattern, parse_duration};
use std::path::PathBuf;
use std::str::FromStr;
use units::{Bytes, Duration};

const EXAMPLES: &str = "\
Examples:
  weir cache replay access.log                       all policies, at five cache sizes
  weir cache replay access.log --root ./public       lengths and references from the files
  weir cache replay access.log --size 16MiB,64MiB,10%
  weir cache replay access.log.1 access.log --policy s3-fifo,lru --csv > replay.csv
  zcat access.log.*.gz | weir cache replay - --json
  weir cache replay access.log --unit --size 100     every file counts as one; adds Belady's MIN
  weir cache replay access.log --shared --lifetime 5m --path '/api/*'
  weir cache replay access.log --shared --lifetime 1h --size 64MiB,1GiB --json
  weir cache replay access.log --shared --lifetime 1m --vary User-Agent --stale-while-revalidate 30s

Log formats: Common, Combined and the JSON of weir serve, recognized line by line. GET requests
answered with 200, 206 or 304 are replayed, each as one use of the whole file.

Without --root, a file's length is that of its largest 200 response, and a page embeds the images,
styles, scripts and fonts that were requested with it as Referer (Combined and JSON only).

Bounds: \"infinite\" has room for everything; \"space-time\" and \"min\" know the future. The bounds
apply to policies that load on demand. hinted and structured load ahead, so they may have more hits
than a bound. Also compare the number of files that each policy read from disk (loads).

--shared judges the cache of [[proxy]] (docs/proxy.md) instead: GET and HEAD requests whose
responses it would store or answer. A log has no Cache-Control, so --lifetime says how long
responses are fresh. It has no Vary either: --vary names request fields that choose a response. Common
logs have none of them, Combined ones Referer and User-Agent; a JSON line has Accept-Language as
accept_language. It reads the log once, and lists what it could not judge.

Exit codes: 0 done; 2 usage, missing log or nothing to replay; 4 the log cannot be read.";

/// Subcommands of `weir cache`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Replays an access log through every cache policy, and shows upper bounds
    #[command(after_long_help = EXAMPLES, after_help = "Examples: weir cache replay --help")]
    Replay(Replay),
}

/// Flags of `weir cache replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Access logs, in order; - is standard input
    #[arg(value_name = "LOG", required = true)]
    pub(crate) logs: Vec<PathBuf>,

    /// Document root of the logged server, to read file lengths and the files that pages embed
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,

    /// Cache size, in bytes or as a share of the total size of all distinct requested files; repeatable [default:
    /// 1%,5%,10%,25%,50%]
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub(crate) size: Vec<Size>,

    /// Policy to replay: lru, lfu, s3-fifo, hinted, structured; repeatable [default: all]
    #[arg(long, value_name = "POLICY", value_delimiter = ',', value_parser = offered::<Policy>(), hide_possible_values = true)]
    pub(crate) policy: Vec<Policy>,

    /// Counts every file as size 1, so that --size is a number of files
    #[arg(long, conflicts_with = "overhead")]
    pub(crate) unit: bool,

    /// Overhead of each cache entry, in addition to its content [default: 0]
    #[arg(long, value_name = "BYTES")]
    pub(crate) overhead: Option<Bytes>,

    /// Judges the shared cache of `[[proxy]]` instead of the cache of files; --size is in bytes [default: 16MiB, 64MiB,
    /// 256MiB and 1GiB, with the policies lru, lfu and s3-fifo]
    #[arg(
        long,
        requires = "lifetime",
        conflicts_with_all = ["root", "unit", "overhead"],
        help_heading = "Shared cache"
    )]
    pub(crate) shared: bool,

    /// Time for which each response is assumed to be fresh, because a log does not say; at least 1s
    #[arg(long, value_name = "TIME", requires = "shared", value_parser = lifetime, help_heading = "Shared cache")]
    pub(crate) lifetime: Option<Duration>,

    /// Time for which a 404, 405, 410, 414 or 501 is assumed to be fresh, as `negative-time` in [proxy.cache] [default: not
    /// stored]
    #[arg(long, value_name = "TIME", requires = "shared", value_parser = lifetime, help_heading = "Shared cache")]
    pub(crate) negative_time: Option<Duration>,

    /// Time after its lifetime in which a stale response is served while it is validated, as in [proxy.cache] [default: none]
    #[arg(long, value_name = "TIME", requires = "shared", value_parser = lifetime, help_heading = "Shared cache")]
    pub(crate) stale_while_revalidate: Option<Duration>,

    /// Time after its lifetime in which a stale response is served in place of a logged 500, 502, 503 or 504, as in
    /// [proxy.cache] [default: none]
    #[arg(long, value_name = "TIME", requires = "shared", value_parser = lifetime, help_heading = "Shared cache")]
    pub(crate) stale_if_error: Option<Duration>,

    /// Request fields that each response is assumed to name in Vary, as far as the log has them; repeatable [default: none]
    #[arg(
        long,
        value_name = "FIELD",
        value_delimiter = ',',
        requires = "shared",
        value_parser = field_name,
        help_heading = "Shared cache"
    )]
    pub(crate) vary: Vec<String>,

    /// Longest content that is stored, as in [proxy.cache]; at most half of the cache [default: 4MiB]
    #[arg(
        long,
        value_name = "BYTES",
        requires = "shared",
        help_heading = "Shared cache"
    )]
    pub(crate) max_object_size: Option<Bytes>,

    /// Paths of the rule: a pattern with at most one star [default: all paths]
    #[arg(
        long,
        value_name = "PATTERN",
        requires = "shared",
        help_heading = "Shared cache"
    )]
    pub(crate) path: Option<PathPattern>,

    /// Prints CSV
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}

/// A time span of whole seconds, at least one.
fn lifetime(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text)?;
    match span.as_secs() {
        0 => Err("the shortest lifetime is 1s".to_owned()),
        seconds => Ok(Duration::from_secs(seconds)),
    }
}

/// A field name, in lower case.
fn field_name(text: &str) -> Result<String, String> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if text == "*" {
        return Err("a response with `Vary: *` answers no other request; name fields instead".to_owned());
    }
    if text.is_empty() || !text.bytes().all(is_plain) {
        return Err("not a field name; write names as in Accept-Language,User-Agent".to_owned());
    }
    Ok(text.to_ascii_lowercase())
}

/// Size of a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Size {
    /// Without a unit: bytes, or files with `--unit`.
    Number(u64),
    /// With a unit of bytes.
    Bytes(Bytes),
    /// A share (0 to 1) of all requested files, each counted once.
    Share(f64),
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        if let Some(percent) = text.strip_suffix('%') {
            let share = percent
                .parse::<f64>()
                .ok()
                .filter(|share| (0.0..=100.0).contains(share));
            return share
                .map(|share| Size::Share(share / 100.0))
                .ok_or_else(|| format!("`{text}` is not a share: write 0% to 100%"));
        }
        if let Ok(number) = text.parse() {
            return Ok(Size::Number(number));
        }
        text.parse()
            .map(Size::Bytes)
            .map_err(|error: units::ParseBytesError| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_bytes_or_shares() {
        assert_eq!("100".parse(), Ok(Size::Number(100)));
        assert_eq!("64KiB".parse(), Ok(Size::Bytes(Bytes::kib(64))));
        assert_eq!("2.5%".parse(), Ok(Size::Share(0.025)));
        for bad in ["", "%", "101%", "-1%", "NaN%", "ten"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }
}
