//! A worker's part in saving memory: reports to the budget what its connections hold, and takes those of the budget's
//! steps that concern a driver. The others (fewer responses per turn, 503) are up to the session.

use super::Worker;
use crate::io::Backend;
use crate::memory::Step;
use crate::session::{Need, Service};

/// Maximum idle connections closed per turn.
const CLOSED_MAX: usize = 64;

/// The last values reported to the budget and requested by it.
#[derive(Debug, Default)]
pub(super) struct Relief {
    held: usize,
    step: Step,
}

impl<V: Service, B: Backend> Worker<V, B> {
    /// Reports to the budget and applies its step, at the end of a turn.
    #[inline]
    pub(super) fn relieve(&mut self) {
        let held = self.backend.held();
        if held != self.relief.held {
            self.budget.hold(held as i64 - self.relief.held as i64);
            self.relief.held = held;
        }
        self.budget.turn(self.now);
        let step = self.budget.step();
        if step != Step::Calm || step != self.relief.step {
            self.take_step(step);
        }
    }

    #[cold]
    fn take_step(&mut self, step: Step) {
        if step != self.relief.step {
            self.relief.step = step;
            self.backend.press(step);
            if step > Step::Calm {
                self.spare = Vec::new();
            }
        }
        if step >= Step::Idle {
            for _ in 0..CLOSED_MAX {
                if !self.close_eldest(Need::Memory) {
                    break;
                }
            }
        }
    }

    /// Removes what its connections held from the budget.
    pub(super) fn release_budget(&mut self) {
        self.budget.hold(-(self.relief.held as i64));
        self.relief.held = 0;
    }
}
