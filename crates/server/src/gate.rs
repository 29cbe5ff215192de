//! Which requests one worker takes on while it is behind: those that cost little always, of the others so many a turn
//! that a turn stays short.
//!
//! A worker that is behind has many connections ready in each turn, and each of them waits for all before it: how long a
//! turn lasts is how long requests wait for the worker, and where more are ready than a turn takes, how long the line
//! behind it is. So that is held to a target by what is additive to raise and multiplicative to lower (AIMD, as in Chiu
//! and Jain 1989): answers that are more than a copy from memory are counted, and beyond the turn's allowance refused with
//! 503 and `Retry-After`. A small answer from memory costs as much as its refusal would, and is never refused. Of a line
//! that is longer than a turn is heard once each time it has passed, and the allowance is lowered once for that, as a
//! sender of TCP does once in a round trip. Pure; whether it holds at all the operator says (`--max-turn`).

use crate::queue::waited;
use measure::Duration;
use runtime::Line;

/// What a turn may have, when turns are short enough to have more than anybody asks for.
const ALLOWANCE_MAX: f64 = 4096.0;
/// Somebody is always served.
const ALLOWANCE_MIN: f64 = 1.0;
/// By this it is lowered after a turn that was too long.
const LOWER: f64 = 0.7;

/// The allowance of one worker.
#[derive(Debug)]
pub(crate) struct Gate {
    /// How long a turn should last at the most; none: everything is taken on.
    target: Option<Duration>,
    /// Costly answers of a turn.
    allowance: f64,
    /// Begun in this turn.
    given: u32,
    /// Whether any was refused in this turn.
    refused: bool,
}

impl Gate {
    pub(crate) const fn new() -> Gate {
        Gate {
            target: None,
            allowance: ALLOWANCE_MAX,
            given: 0,
            refused: false,
        }
    }

    /// Holds turns to this from now on, or none.
    pub(crate) fn hold(&mut self, target: Option<Duration>) {
        if self.target != target {
            *self = Gate {
                target,
                ..Gate::new()
            };
        }
    }

    /// Whether a costly answer would be refused now.
    #[inline]
    pub(crate) fn is_shut(&self) -> bool {
        self.target.is_some() && f64::from(self.given) >= self.allowance
    }

    /// Takes a costly answer on, or does not.
    #[inline]
    pub(crate) fn admits(&mut self) -> bool {
        if self.is_shut() {
            self.refused = true;
            return false;
        }
        self.given = self.given.saturating_add(1);
        true
    }

    /// A turn of this length ended, and with this line it had begun.
    #[inline]
    pub(crate) fn end(&mut self, length: Duration, line: Line) {
        let Some(target) = self.target else { return };
        let wait = waited(line, length);
        if self.given > 0 && wait.unwrap_or(length) > target {
            // From what was really done: an allowance nobody used says nothing.
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

    /// A worker with an endless queue, whose costly answers take this long each: turns as (given, refused).
    fn run(gate: &mut Gate, cost: Duration, queue: u32, turns: usize) -> Vec<(u32, u32)> {
        (0..turns)
            .map(|_| {
                let given = (0..queue).filter(|_| gate.admits()).count() as u32;
                gate.end(cost * given, Line::Taken);
                (given, queue - given)
            })
            .collect()
    }

    #[test]
    fn without_a_target_everything_is_taken_on() {
        let mut gate = Gate::new();
        let turns = run(&mut gate, Duration::from_millis(100), 5000, 3);
        assert!(turns.iter().all(|turn| *turn == (5000, 0)));
    }

    #[test]
    fn turns_of_a_worker_that_is_behind_come_to_last_what_they_should() {
        let mut gate = Gate::new();
        gate.hold(Some(TARGET));
        // Twenty answers of a millisecond are a turn.
        let turns = run(&mut gate, Duration::from_millis(1), 1000, 200);
        let late = &turns[100..];
        let mean = late.iter().map(|turn| f64::from(turn.0)).sum::<f64>() / late.len() as f64;
        assert!((15.0..=21.0).contains(&mean), "{mean}");
        let least = late.iter().map(|turn| turn.0).min().expect("turns");
        let most = late.iter().map(|turn| turn.0).max().expect("turns");
        assert!(least >= 13 && most <= 22, "{least} to {most}");
    }

    #[test]
    fn a_line_is_a_wait_that_is_held_down_too() {
        let mut gate = Gate::new();
        gate.hold(Some(TARGET));
        // Turns are short, and what waits behind them is not; while that is not known nothing changes.
        let mut allowed = Vec::new();
        for turn in 0..40 {
            let given = (0..100).filter(|_| gate.admits()).count();
            allowed.push(given);
            let line = match turn % 10 {
                9 => Line::Waited(TARGET * 4),
                _ => Line::Longer,
            };
            gate.end(TARGET / 4, line);
        }
        assert_eq!(allowed[..10], [100; 10]);
        assert_eq!((allowed[10], allowed[19]), (70, 70));
        assert_eq!((allowed[20], allowed[30]), (49, 35));
        // The line has gone.
        for _ in 0..100 {
            let _ = (0..100).filter(|_| gate.admits()).count();
            gate.end(TARGET / 4, Line::Taken);
        }
        assert_eq!((0..100).filter(|_| gate.admits()).count(), 100);
    }

    #[test]
    fn whoever_is_not_behind_refuses_nobody_and_somebody_is_always_served() {
        let mut gate = Gate::new();
        gate.hold(Some(TARGET));
        assert!(
            run(&mut gate, Duration::from_micros(100), 50, 100)
                .iter()
                .all(|turn| turn.1 == 0)
        );
        // Each answer alone takes longer than a turn should.
        let turns = run(&mut gate, Duration::from_secs(1), 50, 100);
        assert!(turns.iter().all(|turn| turn.0 >= 1));
        assert_eq!(turns.last(), Some(&(1, 49)));
        // And comes back when they are quick again.
        let turns = run(&mut gate, Duration::from_micros(10), 50, 100);
        assert_eq!(turns.last(), Some(&(50, 0)));
    }
}
