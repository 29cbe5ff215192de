//! A worker's part in saving memory: reports to the budget what its connections hold, and takes those of the budget's
//! steps that concern a driver. The others (fewer responses per turn, 503) are up to the session.

use super::Worker;
use crate::io::Backend;
use crate::memory::Step;
use crate::session::{Context, Need, Service};

/// Maximum idle connections closed per turn.
const CLOSED_MAX: usize = 64;

/// Bytes by which what connections hold may grow within a turn before the budget hears of it. A turn may serve thousands
/// of connections, which together can exceed any budget before the turn ends.
const GROWTH_MAX: usize = 256 << 10;

/// The last values reported to the budget and requested by it.
#[derive(Debug, Default)]
pub(super) struct Relief {
    held: usize,
    step: Step,
}

impl Relief {
    /// Whether connections hold so much more than reported that the report cannot wait for the end of the turn.
    #[inline]
    pub(super) fn is_overdue(&self, held: usize) -> bool {
        held > self.held + GROWTH_MAX
    }
}

impl<V: Service, B: Backend> Worker<V, B> {
    /// Reports to the budget and applies its step, at the end of a turn.
    #[inline]
    pub(super) fn relieve(&mut self) {
        self.report();
        let step = self.budget.step();
        if step != self.relief.step {
            self.take_step(step);
        }
        if step >= Step::Idle {
            self.close_idle();
        }
    }

    /// The same within a turn, so that the connections still to be served in it keep to a new step. Idle ones are closed
    /// at its end.
    #[cold]
    pub(super) fn relieve_early(&mut self) {
        self.report();
        let step = self.budget.step();
        if step != self.relief.step {
            self.take_step(step);
            self.cx.turn(self.now, self.backend.wall());
        }
    }

    #[inline]
    fn report(&mut self) {
        let held = self.backend.held() + self.peers.held();
        if held != self.relief.held {
            self.budget.hold(held as i64 - self.relief.held as i64);
            self.relief.held = held;
        }
        self.budget.turn(self.now);
    }

    #[cold]
    fn take_step(&mut self, step: Step) {
        self.relief.step = step;
        self.backend.press(step);
        if step > Step::Calm {
            self.spare = Vec::new();
        }
    }

    #[cold]
    fn close_idle(&mut self) {
        self.close_parked();
        for _ in 0..CLOSED_MAX {
            if !self.close_eldest(Need::Memory) {
                break;
            }
        }
    }

    /// Removes what its connections held from the budget.
    pub(super) fn release_budget(&mut self) {
        self.budget.hold(-(self.relief.held as i64));
        self.relief.held = 0;
    }
}
