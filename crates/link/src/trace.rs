//! Delivery opportunities over time, in the file format of Mahimahi's `mm-link`.
//!
//! One line per opportunity: whole milliseconds since the start, never decreasing. At each the link can deliver
//! 1,500 bytes; unused bytes expire. The file repeats, with its last line as its length.

use core::fmt;
use units::{Bytes, Duration, Instant, Rate};

/// Bytes delivered by one opportunity.
pub const OPPORTUNITY: Bytes = Bytes(1_500);

/// The delivery opportunities of a link; cyclic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Milliseconds since the start: not empty, never decreasing, the last above zero.
    at_ms: Vec<u64>,
}

/// Why a text is not a valid trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// A line is not a whole number of milliseconds.
    NotANumber {
        /// Line number, from 1.
        line: usize,
    },
    /// A line is earlier than the line before it.
    Falling {
        /// Line number, from 1.
        line: usize,
    },
    /// The file has no lines, or its last line is zero.
    Empty,
    /// More lines than [`crate::Limits`] allows.
    TooLong {
        /// The allowed number of lines.
        max: usize,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::NotANumber { line } => {
                write!(f, "line {line} is not a whole number of milliseconds")
            }
            TraceError::Falling { line } => write!(f, "line {line} is earlier than the line before it"),
            TraceError::Empty => f.write_str("a trace needs at least one opportunity after time zero"),
            TraceError::TooLong { max } => write!(f, "the trace has more than {max} lines"),
        }
    }
}

impl std::error::Error for TraceError {}

impl Trace {
    /// Parses the text of a trace file with at most `lines_max` lines.
    ///
    /// # Errors
    /// Names the first faulty line.
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

    /// A trace with `opportunities` opportunities at a fixed interval, for comparison with a rate.
    pub fn steady(every: Duration, opportunities: u64) -> Trace {
        let every_ms = (every.as_millis() as u64).max(1);
        Trace {
            at_ms: (1..=opportunities.max(1)).map(|k| k * every_ms).collect(),
        }
    }

    /// The mean rate over one repetition.
    pub fn rate(&self) -> Rate {
        let bits = self.at_ms.len() as u64 * OPPORTUNITY.0 * 8;
        Rate(bits * 1_000 / self.period_ms())
    }

    fn period_ms(&self) -> u64 {
        self.at_ms.last().copied().unwrap_or(1)
    }

    /// The instant of opportunity `k`, counted from 0 across repetitions.
    pub(crate) fn at(&self, k: u64) -> Instant {
        let n = self.at_ms.len() as u64;
        let ms = (k / n) * self.period_ms() + self.at_ms[(k % n) as usize];
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// The first opportunity after `now`, counted from 0 across repetitions.
    pub(crate) fn after(&self, now: Instant) -> u64 {
        let n = self.at_ms.len() as u64;
        let now_ms = now.as_nanos() / 1_000_000;
        // An opportunity at time zero of a repetition coincides with the last of the previous one, so the
        // search starts one repetition earlier.
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
