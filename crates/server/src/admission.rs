//! Admission control (`--max-turn`): rejects expensive requests while a worker is overloaded, so that its turns stay
//! short. Cheap requests are always admitted.
//!
//! An overloaded worker has many ready connections in each turn, and each waits for those before it. So the length of a
//! turn is the time that requests wait for the worker. If more connections are ready than a turn takes, the length of
//! the queue behind it counts too. Admission keeps this time at a target by additive increase and multiplicative
//! decrease (AIMD, Chiu and Jain 1989). It counts the responses that are more than a copy from memory. Above the turn's
//! allowance, it rejects them with 503 and `Retry-After`. A small response from memory costs as much as a rejection, so
//! it is never rejected.
//!
//! A queue longer than one turn is measured once each time it has passed. The allowance is lowered once for each
//! measurement, as a TCP sender does once per round trip. It is pure: no clock, no system calls.

use crate::queue::waited;
use runtime::Line;
use units::Duration;

/// Largest allowance: more expensive responses than any short turn has.
const ALLOWANCE_MAX: f64 = 4096.0;
/// Smallest allowance, so that some request is always served.
const ALLOWANCE_MIN: f64 = 1.0;
/// Factor of the allowance after a turn that was too long.
const LOWER: f64 = 0.7;

/// The admission control of one worker.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Target for the length of a turn; `None`: no request is rejected.
    target: Option<Duration>,
    /// Expensive responses allowed per turn.
    allowance: f64,
    /// Expensive responses begun in this turn.
    given: u32,
    /// Whether a request was rejected in this turn.
    refused: bool,
}

impl Admission {
    pub(crate) const fn new() -> Admission {
        Admission {
            target: None,
            allowance: ALLOWANCE_MAX,
            given: 0,
            refused: false,
        }
    }

    /// Sets the target, or `None` for no limit.
    pub(crate) fn hold(&mut self, target: Option<Duration>) {
        if self.target != target {
            *self = Admission {
                target,
                ..Admission::new()
            };
        }
    }

    /// Whether an expensive response would be rejected now.
    #[inline]
    pub(crate) fn is_shut(&self) -> bool {
        self.target.is_some() && f64::from(self.given) >= self.allowance
    }

    /// Admits or rejects an expensive response.
    #[inline]
    pub(crate) fn admits(&mut self) -> bool {
        if self.is_shut() {
            self.refused = true;
            return false;
        }
        self.given = self.given.saturating_add(1);
        true
    }

    /// A turn of this length ended, which had begun with this queue.
    #[inline]
    pub(crate) fn end(&mut self, length: Duration, line: Line) {
        let Some(target) = self.target else { return };
        let wait = waited(line, length);
        if self.given > 0 && wait.unwrap_or(length) > target {
            // Lower it from the number of responses begun: an allowance that was not used up proves nothing.
            self.allowance = (self.allowance.min(f64::from(self.given)) * LOWER).max(ALLOWANCE_MIN);
        } else if self.refused && wait.is_some() {
            self.allowance = (self.allowance + 1.0).min(ALLOWANCE_MAX);
        }
        self.given = 0;
        self.refused = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(20);

    /// A worker with an endless queue, whose expensive responses take `cost` each. Returns each turn as (given,
    /// rejected).
    fn run(admission: &mut Admission, cost: Duration, queue: u32, turns: usize) -> Vec<(u32, u32)> {
        (0..turns)
            .map(|_| {
                let given = (0..queue).filter(|_| admission.admits()).count() as u32;
                admission.end(cost * given, Line::Taken);
                (given, queue - given)
            })
            .collect()
    }

    #[test]
    fn without_a_target_everything_is_taken_on() {
        let mut admission = Admission::new();
        let turns = run(&mut admission, Duration::from_millis(100), 5000, 3);
        assert!(turns.iter().all(|turn| *turn == (5000, 0)));
    }

    #[test]
    fn turns_of_a_worker_that_is_behind_come_to_last_what_they_should() {
        let mut admission = Admission::new();
        admission.hold(Some(TARGET));
        // Twenty responses of a millisecond fill a turn.
        let turns = run(&mut admission, Duration::from_millis(1), 1000, 200);
        let late = &turns[100..];
        let mean = late.iter().map(|turn| f64::from(turn.0)).sum::<f64>() / late.len() as f64;
        assert!((15.0..=21.0).contains(&mean), "{mean}");
        let least = late.iter().map(|turn| turn.0).min().expect("turns");
        let most = late.iter().map(|turn| turn.0).max().expect("turns");
        assert!(least >= 13 && most <= 22, "{least} to {most}");
    }

    #[test]
    fn a_line_is_a_wait_that_is_held_down_too() {
        let mut admission = Admission::new();
        admission.hold(Some(TARGET));
        // Turns are short, but the queue behind them is not; until its length is known, nothing changes.
        let mut allowed = Vec::new();
        for turn in 0..40 {
            let given = (0..100).filter(|_| admission.admits()).count();
            allowed.push(given);
            let line = match turn % 10 {
                9 => Line::Waited(TARGET * 4),
                _ => Line::Longer,
            };
            admission.end(TARGET / 4, line);
        }
        assert_eq!(allowed[..10], [100; 10]);
        assert_eq!((allowed[10], allowed[19]), (70, 70));
        assert_eq!((allowed[20], allowed[30]), (49, 35));
        // The queue is gone.
        for _ in 0..100 {
            let _ = (0..100).filter(|_| admission.admits()).count();
            admission.end(TARGET / 4, Line::Taken);
        }
        assert_eq!((0..100).filter(|_| admission.admits()).count(), 100);
    }

    #[test]
    fn whoever_is_not_behind_refuses_nobody_and_somebody_is_always_served() {
        let mut admission = Admission::new();
        admission.hold(Some(TARGET));
        assert!(
            run(&mut admission, Duration::from_micros(100), 50, 100)
                .iter()
                .all(|turn| turn.1 == 0)
        );
        // Each response alone takes longer than the target.
        let turns = run(&mut admission, Duration::from_secs(1), 50, 100);
        assert!(turns.iter().all(|turn| turn.0 >= 1));
        assert_eq!(turns.last(), Some(&(1, 49)));
        // The allowance recovers when responses are quick again.
        let turns = run(&mut admission, Duration::from_micros(10), 50, 100);
        assert_eq!(turns.last(), Some(&(50, 0)));
    }
}
