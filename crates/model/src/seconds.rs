//! A time span in real seconds, because formulas divide and round where clocks do not.
//!
//! `Duration` counts whole nanoseconds and cannot be negative; a fitted estimate can be both.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, Div, Mul, Sub};
use serde::{Deserialize, Serialize};
use units::Duration;

/// A span of time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub f64);

impl Seconds {
    /// Zero.
    pub const ZERO: Seconds = Seconds(0.0);

    /// From milliseconds.
    pub const fn from_millis(ms: f64) -> Seconds {
        Seconds(ms / 1e3)
    }

    /// In milliseconds.
    pub const fn as_millis(self) -> f64 {
        self.0 * 1e3
    }
}

impl From<Duration> for Seconds {
    fn from(span: Duration) -> Seconds {
        Seconds(span.as_secs_f64())
    }
}

impl fmt::Display for Seconds {
    /// Four significant digits in the unit that reads best.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A value that rounds to the next unit is shown in that unit: 1 s, not 1000 ms.
        let size = self.0.abs() * 1.00005;
        let (value, unit) = if size >= 1.0 || size == 0.0 {
            (self.0, "s")
        } else if size >= 1e-3 {
            (self.0 * 1e3, "ms")
        } else {
            (self.0 * 1e6, "µs")
        };
        write!(f, "{} {unit}", crate::explain::significant(value))
    }
}

impl Add for Seconds {
    type Output = Seconds;
    fn add(self, other: Seconds) -> Seconds {
        Seconds(self.0 + other.0)
    }
}

impl Sub for Seconds {
    type Output = Seconds;
    fn sub(self, other: Seconds) -> Seconds {
        Seconds(self.0 - other.0)
    }
}

impl Mul<f64> for Seconds {
    type Output = Seconds;
    fn mul(self, factor: f64) -> Seconds {
        Seconds(self.0 * factor)
    }
}

impl Div<f64> for Seconds {
    type Output = Seconds;
    fn div(self, divisor: f64) -> Seconds {
        Seconds(self.0 / divisor)
    }
}

impl Sum for Seconds {
    fn sum<I: Iterator<Item = Seconds>>(spans: I) -> Seconds {
        Seconds(spans.map(|span| span.0).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_in_the_unit_that_reads_best() {
        for (value, shown) in [
            (0.0, "0 s"),
            (2.0, "2 s"),
            (20.2859, "20.29 s"),
            (0.0034576, "3.458 ms"),
            (0.1, "100 ms"),
            (0.9994, "999.4 ms"),
            (0.99997, "1 s"),
            (0.000_999_98, "1 ms"),
            (0.000_01, "10 µs"),
            (123_456.0, "123456 s"),
        ] {
            assert_eq!(Seconds(value).to_string(), shown);
        }
        assert_eq!(Seconds::from(Duration::from_millis(90)), Seconds(0.09));
    }
}
