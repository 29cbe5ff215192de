//! The tick of a thread: a timer at even intervals, whatever its users do. It shows when the thread stood still or
//! was overloaded, which the timers of users show only where users sleep.

use super::{Crew, TICK};
use measure::{Duration, Instant};
use runtime::dial::Port;

/// Between two ticks.
pub(super) const EVERY: Duration = Duration::from_millis(10);

impl Crew {
    /// Counts the tick that was due at `at` and all that were due since, each as late as it is: a thread that stood still
    /// for a hundredth of the run has a hundredth of its ticks late, and not one. There are as many as fit into the run.
    pub(super) fn tick(&mut self, at: Instant, port: &mut Port, now: Instant) {
        let until = self.until();
        let mut due = at;
        while due <= now && due < until && !self.ending {
            self.ledger.of(due).tick.add(now.since(due));
            due = due + EVERY;
        }
        if due < until && !self.ending {
            port.wake(TICK, due);
        }
    }
}
