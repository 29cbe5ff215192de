//! Measures how long ready events wait in the kernel's queue before a worker takes them: a mark of our own at the end
//! of the queue comes out after everything that was ready before it.
//!
//! ```text
//!          a turn took all it can: put it in line             it came out: so long did its neighbors wait
//!   Out ───────────────────────────────────────────▶ In { since } ───────────────────────────────────────▶ Out
//! ```
//! An event loop takes a limited number of events per turn, and the kernel does not say how many are left. It keeps
//! them in order of arrival, so the mark's wait shows how long the queue is. While the loop takes all events, no mark
//! is needed and nothing is spent. The marker neither knows what waits nor judges whether that is too long.

use crate::session::Line;
use units::Instant;

/// Whether the mark is in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Out,
    In { since: Instant },
}

impl Marker {
    /// Called after a turn took its events at `now`, with two facts: whether it took as many as a turn can, and whether
    /// the mark was among them. Returns the state of the queue, and whether to put the mark at its end now.
    #[inline]
    pub(super) fn pass(&mut self, is_full: bool, came: bool, now: Instant) -> (Line, bool) {
        let line = match (*self, came, is_full) {
            (Marker::In { since }, true, _) => Line::Waited(now.since(since)),
            (_, _, true) => Line::Longer,
            (_, _, false) => Line::Taken,
        };
        match *self {
            Marker::In { .. } if is_full && !came => (line, false),
            // If all events were taken, the mark was too, or it never got there.
            _ if !is_full => {
                *self = Marker::Out;
                (line, false)
            }
            _ => {
                *self = Marker::In { since: now };
                (line, true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use units::Duration;

    const MOST: usize = 4;

    /// A kernel queue with a limit per turn; `None` is the mark.
    struct Queue {
        line: VecDeque<Option<u32>>,
        marker: Marker,
        now: Instant,
    }

    impl Queue {
        fn turn(&mut self) -> (usize, Line) {
            self.now = self.now + Duration::from_millis(1);
            let taken: Vec<_> = (0..MOST).filter_map(|_| self.line.pop_front()).collect();
            let came = taken.contains(&None);
            let (line, put) = self.marker.pass(taken.len() == MOST, came, self.now);
            if put {
                self.line.push_back(None);
            }
            (taken.iter().flatten().count(), line)
        }
    }

    #[test]
    fn what_comes_out_says_how_long_the_line_was() {
        let mut queue = Queue {
            line: (0..20).map(Some).collect(),
            marker: Marker::Out,
            now: Instant::ZERO,
        };
        // Sixteen events are before the mark: four turns; it comes out alone in the fifth.
        let seen: Vec<_> = (0..7).map(|_| queue.turn()).collect();
        assert_eq!(seen[..5], [(4, Line::Longer); 5]);
        assert_eq!(seen[5], (0, Line::Waited(Duration::from_millis(5))));
        assert_eq!((seen[6], queue.marker), ((0, Line::Taken), Marker::Out));
    }

    #[test]
    fn a_line_that_stands_is_measured_again_and_again() {
        let mut queue = Queue {
            line: (0..20).map(Some).collect(),
            marker: Marker::Out,
            now: Instant::ZERO,
        };
        let mut waits = Vec::new();
        for _ in 0..100 {
            let (taken, line) = queue.turn();
            // Clients that were answered send again.
            queue.line.extend((0..taken as u32).map(Some));
            if let Line::Waited(waited) = line {
                waits.push(waited);
            }
            assert_ne!(line, Line::Taken);
        }
        assert!(waits.len() > 15, "{waits:?}");
        let bounds = Duration::from_millis(4)..=Duration::from_millis(6);
        assert!(waits.iter().all(|waited| bounds.contains(waited)), "{waits:?}");
    }

    #[test]
    fn nothing_is_put_in_a_line_that_is_taken_whole() {
        let mut marker = Marker::Out;
        for _ in 0..10 {
            assert_eq!(marker.pass(false, false, Instant::ZERO), (Line::Taken, false));
        }
        // A mark that could not be placed is not waited for.
        assert_eq!(marker.pass(true, false, Instant::ZERO), (Line::Longer, true));
        assert_eq!(marker.pass(false, false, Instant::ZERO), (Line::Taken, false));
        assert_eq!(marker, Marker::Out);
    }
}
