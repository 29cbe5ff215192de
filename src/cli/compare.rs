//! The flags of `weir compare`: two results, and how much worse the second may be. Parses them; compares nothing.

use super::share::parse_share;
use super::summary::SummaryFlags;
use ::load::compare::Measure;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir load http://localhost:8080/ --site ./site --out before.json
  weir load http://localhost:8080/ --site ./site --out after.json
  weir compare before.json after.json
  weir compare before.json after.json --worse 2% --measure p99_ms --measure files_per_s
  cat before-*.json > before.jsonl                   five runs or more on each side: better evidence
  weir compare before.jsonl after.jsonl --json
  weir compare before.json after.json --pieces       decides from one run each: weak evidence
  weir compare before.jsonl after.jsonl --junit compare.xml --markdown compare.md

B is worse if a measure is worse by more than --worse, and both its interval and the rank test
exclude chance as the cause. The rank tests of all deciding measures are corrected together (Holm),
so that chance makes B worse in at most one comparison of twenty.

With fewer than five runs on a side, Weir compares pieces of runs. Two runs of one server differ by
more than their pieces do, so pieces do not decide the exit code: a warning names the measures that
seem worse. With --pieces, they do decide.

Exit codes: 0 B is not worse, or too few runs to decide; 1 B is worse; 2 usage, or so few runs or
pieces that the test could never find B worse; 3 a run is invalid.";

/// Arguments of `weir compare`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Result file of `weir load --out`, with one run or several
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,

    /// Result file to compare with A
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,

    /// Largest acceptable worsening of B, as 0.05 or 5%
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub(crate) worse: f64,

    /// Measure that decides the exit code; repeatable [default: all]
    #[arg(long, value_name = "MEASURE")]
    pub(crate) measure: Vec<Measure>,

    /// With fewer than five runs on a side, lets pieces of runs, each a second or longer, decide the exit code
    #[arg(long)]
    pub(crate) pieces: bool,

    /// Confidence of the intervals, and of all rank tests together
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = share)]
    pub(crate) confidence: f64,

    /// Number of bootstrap resamples
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) draws: u32,

    /// Random seed of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Compares invalid runs too
    #[arg(long)]
    pub(crate) invalid: bool,

    #[command(flatten)]
    pub(crate) summary: SummaryFlags,
}

/// A share below 1.
fn share(text: &str) -> Result<f64, String> {
    match parse_share(text)? {
        share if share < 1.0 => Ok(share),
        _ => Err("the share must be below 1, or 100%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_or_percent() {
        for (text, wanted) in [("5%", 0.05), ("0.05", 0.05), ("2.5 %", 0.025), ("0", 0.0)] {
            assert_eq!(share(text), Ok(wanted), "{text}");
        }
        for wrong in ["", "5", "100%", "-1%", "nan", "x%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
