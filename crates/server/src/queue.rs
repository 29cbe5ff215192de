//! Detects a standing queue of a worker: one in which even the shortest wait is long.
//!
//! ```text
//!              a wait of `TARGET` or more              for `INTERVAL` no shorter one: its turns count
//!   Short ────────────────────────────────▶ Long { since } ◀─┐
//!     ▲                                        │   └─────────┘
//!     └────────────── a shorter wait ──────────┘
//! ```
//! This is CoDel's test (RFC 8289, 3.1 and 5). A burst makes a queue that is long and drains; overload makes one that
//! stands. Neither the length of the queue nor the mean wait tells them apart, but the minimum wait within an interval
//! does. Here, a connection's wait is that for the turns before its own plus the turn in which it is answered. The test
//! is pure. It is a metric and a figure of each window; no controller acts on it.

use runtime::Line;
use units::{Duration, Instant};

/// Shorter waits do no harm: half of what people notice. A hundred times the length of a turn that is not full.
const TARGET: Duration = Duration::from_millis(50);
/// A queue that lasts this long is not a burst: some round trips of a distant client, as in CoDel.
const INTERVAL: Duration = Duration::from_millis(100);

/// The state of the test for one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Some connection recently waited less than the target.
    Short,
    /// None has since the end of this turn.
    Long { since: Instant },
}

/// The wait of a connection answered at the end of a turn of this length; `None` if unknown.
pub(crate) fn waited(line: Line, length: Duration) -> Option<Duration> {
    match line {
        Line::Taken => Some(length),
        Line::Longer => None,
        Line::Waited(before) => Some(before.max(length)),
    }
}

impl Queue {
    /// A turn with this queue lasted from `began` to `ended`. Returns the part of it with a standing queue.
    #[inline]
    pub(crate) fn turn(&mut self, line: Line, began: Instant, ended: Instant) -> Duration {
        let length = ended - began;
        match (*self, waited(line, length)) {
            (_, Some(waited)) if waited < TARGET => *self = Queue::Short,
            (Queue::Short, Some(_)) => *self = Queue::Long { since: ended },
            (Queue::Long { since }, _) if ended - since >= INTERVAL => return length,
            (Queue::Short | Queue::Long { .. }, _) => {}
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Runs turns one after another, given as (line, length). Returns the time with a standing queue.
    fn count(turns: impl IntoIterator<Item = (Line, u64)>) -> Duration {
        let mut queue = Queue::Short;
        let mut now = Instant::ZERO;
        let mut sum = Duration::ZERO;
        for (line, length) in turns {
            let began = now;
            now = now + ms(length);
            sum += queue.turn(line, began, now);
        }
        sum
    }

    #[test]
    fn turns_that_stay_long_count_once_they_have_been_so_for_an_interval() {
        let turns = [(Line::Taken, 60); 100];
        assert_eq!(count(turns), ms(60 * 98), "the first two are within the interval");
    }

    #[test]
    fn one_short_wait_ends_it_however_long_the_others_are() {
        let turns = (0..100).map(|n| (Line::Taken, if n % 2 == 0 { 60 } else { 1 }));
        assert_eq!(count(turns), Duration::ZERO);
    }

    #[test]
    fn short_turns_are_a_queue_when_the_line_behind_them_is_long() {
        // Full turns of 5 ms; every twentieth reports that the end of the queue was reached after 100 ms.
        let long = |n: u64| match n % 20 {
            19 => Line::Waited(ms(100)),
            _ => Line::Longer,
        };
        let stands = count((0..400).map(|n| (long(n), 5)));
        assert!(stands > ms(1_750), "{stands:?}");
        // The same turns with a queue of 40 ms, or one of unknown length.
        let short = |n: u64| match n % 8 {
            7 => Line::Waited(ms(40)),
            _ => Line::Longer,
        };
        assert_eq!(count((0..400).map(|n| (short(n), 5))), Duration::ZERO);
        assert_eq!(count([(Line::Longer, 5); 400]), Duration::ZERO);
    }

    /// A worker that now and then reads a cold file itself has long turns and no queue.
    #[test]
    fn time_between_turns_does_not_count() {
        let mut queue = Queue::Short;
        let mut sum = Duration::ZERO;
        for second in 0..60 {
            let began = Instant::ZERO + Duration::from_secs(second);
            sum += queue.turn(Line::Taken, began, began + ms(80));
        }
        assert!(sum <= ms(60 * 80), "{sum:?}");
    }
}
