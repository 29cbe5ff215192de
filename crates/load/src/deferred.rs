//! Times that are not in their histograms yet.
//!
//! A request adds a time to each of several histograms. A client that sleeps between two requests finds their memory no
//! longer in the processor's caches, and waits for it several times. So times are first kept in one list, in which those
//! of a request are neighbors, and a full list is added to the histograms in one go. Knows no clock and no record.

use crate::times::LONGEST;
use units::Duration;

/// Times kept. Adding so many takes a few microseconds, which delays the requests that are due meanwhile.
const KEPT_MAX: usize = 256;
/// Bits of a time in an entry; the kind of the time is above them.
const TIME_BITS: u32 = 56;

/// A kind of time that most requests have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    /// Lateness of a timer of a user or an arrival.
    Lag,
    /// Lateness of a tick.
    Tick,
    /// Service time of a file.
    Service,
    /// Response time of a file.
    Response,
    /// Time to the first byte of a file.
    FirstByte,
    /// Time from the first to the last byte of a file.
    Transfer,
    /// Time of an object.
    Object,
}

/// All kinds, in the order of their numbers.
const TIMINGS: [Timing; 7] = [
    Timing::Lag,
    Timing::Tick,
    Timing::Service,
    Timing::Response,
    Timing::FirstByte,
    Timing::Transfer,
    Timing::Object,
];

/// Times with their kinds, in the order in which they were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deferred(Vec<u64>);

impl Deferred {
    /// Whether it takes no further time before [`Deferred::take`].
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= KEPT_MAX
    }

    /// Keeps a time. One beyond the bounds of histograms counts as their longest, as it does there.
    #[inline]
    pub(crate) fn keep(&mut self, timing: Timing, time: Duration) {
        let time = time.min(LONGEST).as_nanos() as u64;
        self.0.push((timing as u64) << TIME_BITS | time);
    }

    /// Takes all times out of it.
    pub(crate) fn take(&mut self, mut add: impl FnMut(Timing, Duration)) {
        for entry in self.0.drain(..) {
            let time = entry & ((1 << TIME_BITS) - 1);
            add(TIMINGS[(entry >> TIME_BITS) as usize], Duration::from_nanos(time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_taken_once_and_in_order() {
        let mut deferred = Deferred::default();
        let mut wanted = Vec::new();
        let times = [Duration::ZERO, Duration::from_nanos(1), LONGEST];
        while !deferred.is_full() {
            for timing in TIMINGS {
                let time = times[wanted.len() % times.len()];
                deferred.keep(timing, time);
                wanted.push((timing, time));
            }
        }
        deferred.keep(Timing::Tick, Duration::MAX);
        wanted.push((Timing::Tick, LONGEST));
        let mut taken = Vec::new();
        deferred.take(|timing, time| taken.push((timing, time)));
        assert_eq!(taken, wanted);
        assert!(!deferred.is_full());
        deferred.take(|timing, time| panic!("{timing:?} of {time:?} was taken already"));
    }
}
