//! The flags of `weir cache`: logs, policies and cache sizes. Parses and documents them; replays nothing.

use super::offered::offered;
use clap::{Args, Subcommand};
use server::cache::Policy;
use std::path::PathBuf;
use std::str::FromStr;
use units::Bytes;

const EXAMPLES: &str = "\
Examples:
  weir cache replay access.log                       all policies, at five cache sizes
  weir cache replay access.log --root ./public       lengths and references from the files
  weir cache replay access.log --size 16MiB,64MiB,10%
  weir cache replay access.log.1 access.log --policy s3-fifo,lru --csv > replay.csv
  zcat access.log.*.gz | weir cache replay - --json
  weir cache replay access.log --unit --size 100     every file counts as one; adds Belady's MIN

Log formats: Common, Combined and the JSON of weir serve, recognized line by line. GET requests
answered with 200, 206 or 304 are replayed, each as one use of the whole file.

Without --root, a file's length is that of its largest 200 response, and a page embeds the images,
styles, scripts and fonts that were requested with it as Referer (Combined and JSON only).

Bounds: \"infinite\" has room for everything; \"space-time\" and \"min\" know the future. The bounds
apply to policies that load on demand. hinted and structured load ahead, so they may have more hits
than a bound. Also compare the number of files that each policy read from disk (loads).

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

    /// Prints CSV
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
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
