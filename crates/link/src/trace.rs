//! Delivery opportunities over time, in the file format of Mahimahi's `mm-link`.
//!
//! One line per opportunity: a whole number of milliseconds since the start, never falling. At each the link
//! can deliver 1,500 bytes; what is not used is lost; the file repeats, its last line being its length.

use core::fmt;
use measure::{Bytes, Duration, Instant, Rate};

/// Bytes one opportunity delivers.
pub const OPPORTUNITY: Bytes = Bytes(1_500);

/// When a link can deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Milliseconds since the start, never falling, not empty, the last above zero.
    at_ms: Vec<u64>,
}

/// Why a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// A line is no whole number of milliseconds.
    NotANumber {
        /// Counted from 1.
        line: usize,
    },
    /// A line lies before the one above it.
    Falling {
        /// Counted from 1.
        line: usize,
    },
    /// There is no line, or time never moves.
    Empty,
    /// More lines than [`crate::Limits`] allows.
    TooLong {
        /// The bound.
        max: usize,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::NotANumber { line } => {
                write!(f, "line {line} is not a whole number of milliseconds")
            }
            TraceError::Falling { line } => write!(f, "line {line} lies before the line above it"),
            TraceError::Empty => f.write_str("a trace needs at least one opportunity after time zero"),
            TraceError::TooLong { max } => write!(f, "a trace may have {max} lines at most"),
        }
    }
}

impl std::error::Error for TraceError {}

impl Trace {
    /// Reads a trace file's text.
    ///
    /// # Errors
    /// Names the first bad line.
    pub fn parse(text: &str, lines_max: usize) -> Result<Trace, TraceError> {
        let mut at_ms: Vec<u64> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let ms = line
                .parse()
                .map_err(|_| TraceError::NotANumber { line: index + 1 })?;
            if at_ms.last().is_some_and(|last| ms < *last) {
                return Err(TraceError::Falling { line: index + 1 });
            }
            if at_ms.len() == lines_max {
                return Err(TraceError::TooLong { max: lines_max });
            }
            at_ms.push(ms);
        }
        if at_ms.last().is_none_or(|last| *last == 0) {
            return Err(TraceError::Empty);
        }
        Ok(Trace { at_ms })
    }

    /// A trace with the opportunities of a fixed rate, for comparison: `opportunities` of them.
    pub fn steady(every: Duration, opportunities: u64) -> Trace {
        let every_ms = (every.as_millis() as u64).max(1);
        Trace {
            at_ms: (1..=opportunities.max(1)).map(|k| k * every_ms).collect(),
        }
    }

    /// The mean rate.
    pub fn rate(&self) -> Rate {
        let bits = self.at_ms.len() as u64 * OPPORTUNITY.0 * 8;
        Rate(bits * 1_000 / self.period_ms())
    }

    fn period_ms(&self) -> u64 {
        self.at_ms.last().copied().unwrap_or(1)
    }

    /// The instant of opportunity `k`, counted from 0 over all repetitions.
    pub(crate) fn at(&self, k: u64) -> Instant {
        let n = self.at_ms.len() as u64;
        let ms = (k / n) * self.period_ms() + self.at_ms[(k % n) as usize];
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// The first opportunity after `now`.
    pub(crate) fn after(&self, now: Instant) -> u64 {
        let n = self.at_ms.len() as u64;
        let now_ms = now.as_nanos() / 1_000_000;
        // An opportunity at time zero of one repetition coincides with the last of the one before, so the
        // repetition before is looked at too.
        let mut k = (now_ms / self.period_ms()).saturating_sub(1) * n;
        let base = (k / n) * self.period_ms();
        let within = now_ms - base;
        let passed = self.at_ms.partition_point(|at| *at <= within) as u64;
        k += passed;
        while self.at(k) <= now {
            k += 1;
        }
        k
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_repeats_and_lookup_agrees_with_counting() {
        let trace = Trace::parse("0\n3\n3\n10\n", 10).unwrap();
        let ms = |k| trace.at(k).as_nanos() / 1_000_000;
        assert_eq!(
            (0..9).map(ms).collect::<Vec<_>>(),
            [0, 3, 3, 10, 10, 13, 13, 20, 20]
        );
        for us in (0..45_000).step_by(500) {
            let now = Instant::from_nanos(us * 1_000);
            let counted = (0..).find(|k| trace.at(*k) > now).unwrap();
            assert_eq!(trace.after(now), counted, "{us} us");
        }
        assert_eq!(trace.rate(), Rate(4 * 12_000 * 100));
    }

    #[test]
    fn bad_lines_are_named() {
        assert_eq!(Trace::parse("1\nx\n", 9), Err(TraceError::NotANumber { line: 2 }));
        assert_eq!(Trace::parse("5\n\n4\n", 9), Err(TraceError::Falling { line: 3 }));
        assert_eq!(Trace::parse("0\n0\n", 9), Err(TraceError::Empty));
        assert_eq!(Trace::parse("", 9), Err(TraceError::Empty));
        assert_eq!(Trace::parse("1\n2\n3\n", 2), Err(TraceError::TooLong { max: 2 }));
    }
}
