//! The sender's own clock, read from its TCP timestamps (RFC 7323): when a segment was sent, however late it arrived.
//!
//! A capture near the receiver sees segments when queues let them pass; timestamps tell when they left. The least delay
//! between the two clocks stands for an empty path, and more delay is queueing. Only clocks that evidently count
//! milliseconds are used; slower or faster ones are ignored.

use crate::seq::SeqNum;
use core::time::Duration;
use units::Instant;

/// Tick of the supported clocks.
const TICK: Duration = Duration::from_millis(1);
/// Minimum time over which a clock's rate is judged.
const SPAN: Duration = Duration::from_millis(100);

/// One end's clock as its packets show it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamps {
    /// First timestamp and the time it passed.
    first: Option<(SeqNum, Instant)>,
    /// Start of the next judgment of the rate.
    since: (SeqNum, Instant),
    /// Least difference of capture time and clock, both since the first timestamp, in nanoseconds.
    least: i64,
    /// Whether it was seen to count milliseconds.
    is_known: bool,
}

impl Stamps {
    /// Reads the timestamp of a packet that passed at `at`.
    #[inline]
    pub(super) fn read(&mut self, stamp: u32, at: Instant) {
        let stamp = SeqNum(stamp);
        let Some(first) = self.first else {
            self.first = Some((stamp, at));
            self.since = (stamp, at);
            return;
        };
        self.least = self.least.min(lag(first, stamp, at));
        let span = at.since(self.since.1);
        if !self.is_known && span >= SPAN {
            let ticked = TICK * u32::try_from(stamp - self.since.0).unwrap_or(0);
            self.is_known = ticked >= span.mul_f64(0.8) && ticked <= span.mul_f64(1.25);
            self.since = (stamp, at);
        }
    }

    /// Time at which a packet that passed at `at` would have passed on an empty path; `None` while unknown.
    pub(super) fn unqueued(&self, stamp: Option<u32>, at: Instant) -> Option<Instant> {
        let (first, stamp) = self.first.zip(stamp).filter(|_| self.is_known)?;
        let waited = lag(first, SeqNum(stamp), at).saturating_sub(self.least);
        let waited = u64::try_from(waited).unwrap_or(0);
        Some(Instant::from_nanos(at.as_nanos().saturating_sub(waited)))
    }

    /// How much further apart two packets passed than they were sent, less one tick of uncertainty.
    pub(super) fn spread(&self, before: (Option<u32>, Instant), after: (Option<u32>, Instant)) -> Duration {
        let (Some(a), Some(b), true) = (before.0, after.0, self.is_known) else {
            return Duration::ZERO;
        };
        let sent = TICK * u32::try_from(SeqNum(b) - SeqNum(a)).unwrap_or(0);
        after.1.since(before.1).saturating_sub(sent + TICK)
    }
}

fn lag(first: (SeqNum, Instant), stamp: SeqNum, at: Instant) -> i64 {
    let capture = i64::try_from(at.since(first.1).as_nanos()).unwrap_or(i64::MAX);
    capture.saturating_sub(i64::from(stamp - first.0) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + ms * 1_000_000)
    }

    #[test]
    fn a_queue_shows_as_more_than_the_least_delay() {
        let mut stamps = Stamps::default();
        stamps.read(7_000, at(0));
        assert_eq!(stamps.unqueued(Some(7_000), at(0)), None, "no rate yet");
        stamps.read(7_120, at(120));
        // Sent 10 ms later, then 500 ms in a queue.
        stamps.read(7_130, at(630));
        assert_eq!(stamps.unqueued(Some(7_130), at(630)), Some(at(130)));
        let spread = stamps.spread((Some(7_120), at(120)), (Some(7_130), at(630)));
        assert_eq!(spread, Duration::from_millis(499));
        assert_eq!(stamps.unqueued(None, at(630)), None);
    }

    #[test]
    fn clocks_of_other_rates_say_nothing() {
        for ticks_a_second in [2, 10, 100, 250, 1_000_000] {
            let mut stamps = Stamps::default();
            for ms in 0..2000 {
                stamps.read((ms * ticks_a_second / 1000) as u32, at(ms));
            }
            assert_eq!(stamps.unqueued(Some(5), at(2000)), None, "{ticks_a_second}");
        }
    }
}
