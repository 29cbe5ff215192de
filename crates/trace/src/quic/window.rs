//! Flow control (RFC 9000, section 4): how long one end had to wait because its peer's limit was reached.

use crate::times::Stamp;
use core::time::Duration;

/// A limit on the bytes of one end, and the waits for a higher one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    /// Bytes that may be sent; `None` until it is known.
    limit: Option<u64>,
    /// Bytes that were sent: the highest offset, or the sum over all streams.
    used: u64,
    /// When the limit was reached.
    since: Option<Stamp>,
    pub(super) waits: u64,
    pub(super) total: Duration,
    /// Length and both ends of the longest wait.
    pub(super) longest: (Duration, u64, u64),
}

impl Window {
    /// A window with this limit.
    pub(super) fn new(limit: Option<u64>) -> Window {
        Window {
            limit,
            ..Window::default()
        }
    }

    /// `bytes` more were sent by the packet `now`. `has_more` says whether their sender owes more.
    pub(super) fn spend(&mut self, bytes: u64, has_more: bool, now: Stamp) {
        self.used += bytes;
        if self.limit.is_some_and(|limit| self.used >= limit) && has_more {
            self.since.get_or_insert(now);
        }
    }

    /// The peer permits bytes up to `limit`.
    pub(super) fn raise(&mut self, limit: u64, now: Stamp) {
        if self.limit.is_none_or(|before| limit > before) {
            self.limit = Some(limit);
            if self.used < limit {
                self.resume(now);
            }
        }
    }

    /// Whether the sender must wait now.
    pub(super) fn is_exhausted(&self) -> bool {
        self.since.is_some()
    }

    fn resume(&mut self, now: Stamp) {
        let Some((from, packet)) = self.since.take() else {
            return;
        };
        let wait = now.0.since(from);
        self.waits += 1;
        self.total += wait;
        if wait >= self.longest.0 {
            self.longest = (wait, packet, now.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Instant;

    #[test]
    fn a_wait_lasts_from_the_limit_to_a_higher_one() {
        let at = |ms: u64| (Instant::from_nanos(ms * 1_000_000), ms);
        let mut window = Window::default();
        window.spend(10, true, at(1));
        assert!(!window.is_exhausted(), "no limit is known");
        window.raise(20, at(2));
        window.spend(10, true, at(3));
        window.raise(20, at(4));
        assert!(window.is_exhausted(), "the same limit again");
        window.raise(30, at(53));
        window.spend(10, false, at(54));
        assert!(!window.is_exhausted(), "nothing is owed");
        assert_eq!((window.waits, window.total), (1, Duration::from_millis(50)));
        assert_eq!(window.longest, (Duration::from_millis(50), 3, 53));
    }
}
