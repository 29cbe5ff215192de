//! Pauses of one end in the middle of its answers, while nothing was under way and nothing held it back: its application had no data.

use crate::direction::Spread;
use crate::times::Stamp;
use core::time::Duration;

/// Shortest pause that counts as the application's.
const SHORTEST: Duration = Duration::from_millis(20);

/// The pauses of one end.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// When the last packet under way was acknowledged.
    pub(super) idle_since: Option<Stamp>,
    pub(super) count: u64,
    pub(super) total: Duration,
    /// Length and both ends of the longest pause.
    pub(super) longest: (Duration, u64, u64),
}

impl Pauses {
    /// The answer went on at `now` after a time in which nothing was under way. The acknowledgment had to reach the sender and the
    /// data the capture point, which takes up to a round trip, `rtt` of the peer's packets.
    pub(super) fn end(&mut self, idle: Stamp, now: Stamp, rtt: &Spread) {
        let cost = now.0.since(idle.0).saturating_sub(rtt.min);
        if rtt.count == 0 || cost < SHORTEST {
            return;
        }
        self.count += 1;
        self.total += cost;
        if cost > self.longest.0 {
            self.longest = (cost, idle.1, now.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Instant;

    #[test]
    fn a_pause_is_longer_than_a_round_trip_explains() {
        let at = |ms: u64| (Instant::from_nanos(ms * 1_000_000), ms);
        let mut pauses = Pauses::default();
        let mut rtt = Spread::default();
        pauses.end(at(0), at(500), &rtt);
        assert_eq!(pauses.count, 0, "no round trip is known");
        rtt.record(Duration::from_millis(100));
        pauses.end(at(0), at(119), &rtt);
        assert_eq!(pauses.count, 0);
        pauses.end(at(0), at(120), &rtt);
        pauses.end(at(200), at(350), &rtt);
        assert_eq!((pauses.count, pauses.total), (2, Duration::from_millis(70)));
        assert_eq!(pauses.longest, (Duration::from_millis(50), 200, 350));
    }
}
