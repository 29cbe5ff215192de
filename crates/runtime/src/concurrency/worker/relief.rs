//! What a worker does about memory: tells the budget what its connections hold, and takes the steps the budget asks for that
//! are a driver's. The others (answer less per turn, refuse) are the session's.

use super::Worker;
use crate::io::Backend;
use crate::memory::Step;
use crate::session::{Need, Service};

/// Idle connections closed in a turn at the most.
const CLOSED_MAX: usize = 64;

/// What the budget was told last, and asked for.
#[derive(Debug, Default)]
pub(super) struct Relief {
    held: usize,
    step: Step,
}

impl<V: Service, B: Backend> Worker<V, B> {
    /// Ends a turn for the budget.
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

    /// Takes what its connections held out of the budget's books.
    pub(super) fn release_budget(&mut self) {
        self.budget.hold(-(self.relief.held as i64));
        self.relief.held = 0;
    }
}
