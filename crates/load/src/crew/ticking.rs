//! The tick of a thread: a periodic timer that runs whatever its users do. It shows when the thread was stopped or
//! overloaded; the users' own timers show this only while users sleep.

use super::{Crew, TICK};
use crate::deferred::Timing;
use runtime::dial::Port;
use units::{Duration, Instant};

/// Time between two ticks.
pub(super) const EVERY: Duration = Duration::from_millis(10);

impl Crew {
    /// Records the tick due at `at` and all ticks missed since, each with its own lateness. So a thread that was
    /// stopped for 1 % of the run has 1 % of its ticks late instead of a single one. Ticks after the end of the run are
    /// left out.
    pub(super) fn tick(&mut self, at: Instant, port: &mut Port, now: Instant) {
        let until = self.until();
        let mut due = at;
        while due <= now && due < until && !self.ending {
            self.ledger.of(due).time(Timing::Tick, now.since(due));
            due = due + EVERY;
        }
        if due < until && !self.ending {
            port.wake(TICK, due);
        }
    }
}
