//! CoDel: drops at the head when packets have waited longer than the target for a whole interval (RFC 8289).
//!
//! The state machine of section 5, in virtual time. Decides only whether to drop the packet at the head;
//! [`crate::Discipline`] holds the packets.

use units::{Bytes, Duration, Instant};

/// CoDel's parameters (RFC 8289).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelParams {
    /// Acceptable standing delay (5 ms, section 4.3).
    pub target: Duration,
    /// An upper estimate of the round-trip time (100 ms, section 4.3).
    pub interval: Duration,
    /// Never drops while the queue holds at most this many bytes: one MTU.
    pub mtu: Bytes,
}

impl Default for CodelParams {
    fn default() -> CodelParams {
        CodelParams {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            mtu: Bytes(1_500),
        }
    }
}

/// ```text
///  Below --sojourn >= target--> Above(until = now + interval) --until passed--> Dropping
///    ^                            |                                               |
///    +----- sojourn < target -----+------------ sojourn < target -----------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Below,
    /// Drops if the delay is still above the target at `until`.
    Above {
        until: Instant,
    },
    /// Drops at shorter and shorter intervals.
    Dropping {
        next: Instant,
        count: u32,
    },
}

/// The control law for one queue.
#[derive(Clone, Debug)]
pub(crate) struct Codel {
    params: CodelParams,
    state: State,
    /// Count at the last drop, count when that dropping state began, and time: the starting point if dropping
    /// resumes soon.
    last: Option<(u32, u32, Instant)>,
}

impl Codel {
    pub(crate) fn new(params: CodelParams) -> Codel {
        Codel {
            params,
            state: State::Below,
            last: None,
        }
    }

    /// Whether to drop the packet at the head at `now`. It has waited for `sojourn`; the queue holds `bytes`,
    /// including it.
    pub(crate) fn drops(&mut self, sojourn: Duration, bytes: Bytes, now: Instant) -> bool {
        if sojourn < self.params.target || bytes <= self.params.mtu {
            if let State::Dropping { next, count } = self.state {
                self.leave(count, next);
            }
            self.state = State::Below;
            return false;
        }
        match self.state {
            State::Below => {
                self.state = State::Above {
                    until: now + self.params.interval,
                };
                false
            }
            State::Above { until } if now < until => false,
            State::Above { .. } => {
                // Section 5.6: dropping that resumes soon starts at nearly the rate that controlled the queue
                // last time.
                let count = match self.last {
                    Some((count, entered_with, next))
                        if now.since(next) < 16 * self.params.interval && count - entered_with > 1 =>
                    {
                        count - entered_with
                    }
                    _ => 1,
                };
                self.last = Some((count, count, now));
                self.state = State::Dropping {
                    next: now + self.spacing(count),
                    count,
                };
                true
            }
            State::Dropping { next, .. } if now < next => false,
            State::Dropping { next, count } => {
                let count = count.saturating_add(1);
                self.state = State::Dropping {
                    next: next + self.spacing(count),
                    count,
                };
                true
            }
        }
    }

    /// Records that the queue is empty.
    pub(crate) fn empty(&mut self) {
        if let State::Dropping { next, count } = self.state {
            self.leave(count, next);
        }
        self.state = State::Below;
    }

    fn leave(&mut self, count: u32, next: Instant) {
        let entered_with = self.last.map_or(1, |(_, entered_with, _)| entered_with);
        self.last = Some((count, entered_with, next));
    }

    fn spacing(&self, count: u32) -> Duration {
        self.params.interval.div_f64(f64::from(count).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_come_at_the_interval_over_the_root_of_their_count() {
        let mut codel = Codel::new(CodelParams::default());
        let mut at = Vec::new();
        for ms in 0..500 {
            let now = Instant::ZERO + Duration::from_millis(ms);
            if codel.drops(Duration::from_millis(20), Bytes(30_000), now) {
                at.push(ms);
            }
        }
        // Drops at 100, then + 100/sqrt(1), + 100/sqrt(2), + 100/sqrt(3), + 100/sqrt(4) and so on.
        assert_eq!(at, [100, 200, 271, 329, 379, 424, 464]);
        assert!(!codel.drops(Duration::from_millis(4), Bytes(30_000), Instant::from_nanos(1)));
    }

    #[test]
    fn one_packet_is_never_dropped() {
        let mut codel = Codel::new(CodelParams::default());
        for ms in 0..1_000 {
            let now = Instant::ZERO + Duration::from_millis(ms);
            assert!(!codel.drops(Duration::from_secs(1), Bytes(1_500), now));
        }
    }
}
