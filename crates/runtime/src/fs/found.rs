//! Remembers which bytes of a file were in memory a moment ago, so that the kernel is not asked again for each response
//! that sends them. Asking for a mebibyte takes some microseconds; sending it, a hundred.
//!
//! Decides how long a moment is, and joins adjacent findings. An eviction within that time costs one wait.

use std::ops::Range;
use std::sync::{Mutex, PoisonError, TryLockError};
use units::{Duration, Instant};

/// How long a finding is trusted. Bytes sent this recently are the last that the kernel evicts.
const MOMENT: Duration = Duration::from_millis(20);

/// One range of a file.
#[derive(Debug, Default)]
pub(super) struct Found(Mutex<Option<(Instant, Range<u64>)>>);

impl Found {
    /// Whether all of `range` was found less than a moment ago. False if another thread holds the lock: asking the
    /// kernel costs less than waiting.
    pub(super) fn holds(&self, range: &Range<u64>, now: Instant) -> bool {
        let found = match self.0.try_lock() {
            Ok(found) => found,
            Err(TryLockError::Poisoned(found)) => found.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        found.as_ref().is_some_and(|(since, found)| {
            now.since(*since) < MOMENT && found.start <= range.start && range.end <= found.end
        })
    }

    /// Notes that all of `range` is in memory.
    pub(super) fn note(&self, range: Range<u64>, now: Instant) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *found = match found.take() {
            // The older of both times: no part is trusted longer than a moment.
            Some((since, old))
                if now.since(since) < MOMENT && range.start <= old.end && old.start <= range.end =>
            {
                Some((since, old.start.min(range.start)..old.end.max(range.end)))
            }
            _ => Some((now, range)),
        };
    }

    /// Drops the finding.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_believed_for_a_moment() {
        let found = Found::default();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        assert!(!found.holds(&(0..1), at(0)));
        found.note(0..100, at(100));
        assert!(found.holds(&(0..100), at(119)));
        assert!(found.holds(&(40..60), at(100)));
        assert!(!found.holds(&(40..101), at(100)));
        assert!(!found.holds(&(0..100), at(120)));
    }

    #[test]
    fn neighbors_are_joined_and_as_old_as_the_oldest() {
        let found = Found::default();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        found.note(0..100, at(0));
        found.note(100..200, at(10));
        assert!(found.holds(&(50..150), at(19)));
        assert!(!found.holds(&(150..160), at(20)), "as old as the first");
        found.note(100..200, at(20));
        assert!(!found.holds(&(50..60), at(21)), "nobody has looked lately");
        found.note(400..500, at(22));
        assert!(found.holds(&(400..500), at(22)), "what is apart takes its place");
        assert!(!found.holds(&(100..200), at(22)));
    }
}
