//! The flags of `weir compare`: two results, and how much worse the second may be. Does nothing.

use super::share::parse_share;
use ::load::compare::Measure;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir load http://localhost:8080/ --site ./site --out before.json
  weir load http://localhost:8080/ --site ./site --out after.json
  weir compare before.json after.json
  weir compare before.json after.json --worse 2% --measure p99_ms --measure files_per_s
  cat before-*.json > before.jsonl                   five runs or more on each side say how runs differ
  weir compare before.jsonl after.jsonl --json
  weir compare before.json after.json --pieces       one run each decides, for what that is worth

B is worse if a measure is by more than --worse, and both its interval and the rank test say that this is no
accident. The rank tests of all measures that decide are corrected for their number (Holm), so that B is called
worse by accident in one comparison of twenty at the most.

With fewer than five runs on a side what is compared are pieces of runs. Two runs of one server differ by more than their
pieces do, so pieces decide nothing: the exit code is 0 and a warning says what seems worse, unless --pieces is said.

Exit codes: 0 B is not worse, or there are too few runs to say; 1 it is; 2 usage, or too few batches for the test ever to
say so; 3 a run that cannot be trusted is among them.";

/// What is said to `weir compare`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Results of `weir load --out`, of one run or of several
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,

    /// The results held against them
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,

    /// By how much B may be worse: a share or percent, 0.05 or 5%
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub(crate) worse: f64,

    /// What decides the exit code; may be said again [default: all]
    #[arg(long, value_name = "MEASURE")]
    pub(crate) measure: Vec<Measure>,

    /// With too few runs, lets pieces of them decide the exit code
    #[arg(long)]
    pub(crate) pieces: bool,

    /// How sure intervals and the rank tests, all together, are to be
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = share)]
    pub(crate) confidence: f64,

    /// How often the bootstrap draws
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) draws: u32,

    /// All chance of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Compares runs that cannot be trusted too
    #[arg(long)]
    pub(crate) invalid: bool,
}

/// A share that leaves something.
fn share(text: &str) -> Result<f64, String> {
    match parse_share(text)? {
        share if share < 1.0 => Ok(share),
        _ => Err("the whole is no share here; it lies below 1, or 100%".to_owned()),
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
