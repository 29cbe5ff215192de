//! Points in time: a monotonic [`Instant`] for deadlines and a [`UnixTime`] for civil time in messages and
//! logs.
//!
//! Both are plain values. Only `runtime` reads a clock; the simulator creates its own values.

use core::ops::{Add, Sub};
pub use core::time::Duration;

/// A point on a monotonic clock, in nanoseconds since an origin the driver chooses.
///
/// Instants of different drivers must not be mixed: their origins differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ZERO: Instant = Instant(0);

    /// The instant `ns` nanoseconds after the origin.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Instant {
        Instant(ns)
    }

    /// Nanoseconds since the origin.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero if `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    /// Saturates at the end of the clock (584 years), so that a huge duration can mean "never".
    #[inline]
    fn add(self, d: Duration) -> Instant {
        let ns = u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(ns))
    }
}

impl Sub for Instant {
    type Output = Duration;
    #[inline]
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

/// Civil time: seconds and nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime {
    /// Whole seconds since the epoch; negative before 1970.
    pub secs: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
}

impl UnixTime {
    /// A whole second.
    #[inline]
    pub const fn from_secs(secs: i64) -> UnixTime {
        UnixTime { secs, nanos: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_saturates_and_differences_never_go_negative() {
        let t = Instant::from_nanos(5);
        assert_eq!(t + Duration::MAX, Instant::from_nanos(u64::MAX));
        assert_eq!(t - Instant::from_nanos(9), Duration::ZERO);
        assert_eq!(t + Duration::from_nanos(4) - t, Duration::from_nanos(4));
    }
}
