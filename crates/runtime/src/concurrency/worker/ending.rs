//! How a worker ends: told to, with haste or without, or by a panic.
//!
//! ```text
//!   No ── asked to ──▶ Listening: whoever had connected is taken in ──▶ Drained: everyone was told
//!                          ▲ │ a turn that brought somebody                 │ patience over: closed
//!                          └─┘                                              ▼ nobody left: the end
//! ```
//! Decides who is told what, and when. What a session owes its peer then is the session's.

use super::super::front::Front;
use super::Worker;
use super::coming::Arrival;
use crate::io::{Backend, Id, Op};
use crate::session::{Event, Service, Session};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// The most connections taken from a listener's backlog when draining.
const BACKLOG_DRAIN_MAX: u32 = 8192;

/// Where the worker is in stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopping {
    No,
    /// Listeners are being closed; what the last turns brought in is still being looked at. So many connections
    /// had been accepted before.
    Listening {
        accepted: u64,
    },
    /// Everyone was told.
    Drained,
}

impl<V: Service, B: Backend> Worker<V, B> {
    /// Runs until drained.
    ///
    /// # Errors
    /// The back end's, when it cannot go on.
    pub(crate) fn run_until_drained(&mut self) -> std::io::Result<()> {
        while !self.is_drained() {
            let until = self.next_wake();
            self.turn(until)?;
        }
        Ok(())
    }

    /// Whether it was told to drain and nothing is left.
    pub(crate) fn is_drained(&self) -> bool {
        self.stopping == Stopping::Drained
            && self.conns.len() == 0
            && self.arrivals.is_empty()
            && !self.owes()
            && self.front.as_ref().is_none_or(|front| front.outstanding() == 0)
    }

    /// Whether some may wait whom nobody else takes, now that there is room.
    pub(super) fn owes(&self) -> bool {
        let are_its_own = !self.gently || !self.control.is_followed();
        are_its_own && self.conns.len() == 0 && self.backend.owes()
    }

    /// Goes through the steps of stopping; called every turn once that was asked for.
    pub(super) fn drain(&mut self) {
        let accepted = self.counters.accepted.load(Ordering::Relaxed);
        match self.stopping {
            Stopping::No => {
                // Whoever waits in the backlog was told by the kernel that he is connected: he is
                // owed an answer as long as there is room.
                self.accept_paused_until = None;
                for listener in 0..self.listeners {
                    let _ = self.accept_from(listener, BACKLOG_DRAIN_MAX);
                }
                self.accept_paused_until = None;
                self.waiting.clear();
                let _ = self.backend.submit(Op::StopListening);
                let accepted = self.counters.accepted.load(Ordering::Relaxed);
                self.stopping = Stopping::Listening { accepted };
            }
            // Each turn that brings connections in is followed by one that sees what they have said.
            Stopping::Listening { accepted: before }
                if self.now < self.control.until() && (accepted > before || self.backend.is_listening()) =>
            {
                self.stopping = Stopping::Listening { accepted };
            }
            Stopping::Listening { .. } => {
                // One more turn has passed, so bytes that had arrived by then have been seen.
                self.stopping = Stopping::Drained;
                self.gently = self.control.is_gentle();
                self.for_each(Self::tell_of_the_end);
            }
            Stopping::Drained if self.gently && !self.control.is_gentle() => {
                self.gently = false;
                self.for_each(Self::tell_of_the_end);
            }
            Stopping::Drained if self.owes() && self.now < self.control.until() => {
                self.stopping = Stopping::No;
                self.drain();
            }
            Stopping::Drained if self.now >= self.control.until() => {
                if let Some(front) = &mut self.front {
                    self.arrivals.extend(front.dissolve().map(Arrival::Parcel));
                }
                self.for_each(|worker, id| drop(worker.cut_off(id)));
                let _ = self.backend.submit(Op::StopListening);
            }
            Stopping::Drained => {}
        }
    }

    /// Tells a connection that all ends, with haste or without.
    pub(super) fn tell_of_the_end(&mut self, id: Id) {
        let event = if self.gently { Event::Retire } else { Event::Drain };
        self.tell_aside(id, event);
    }

    pub(super) fn for_each(&mut self, mut act: impl FnMut(&mut Self, Id)) {
        for index in 0..self.conns.slots() {
            if let Some(id) = self.conns.id_at(index) {
                act(self, id);
            }
        }
    }

    /// Tells a session whose connection is gone so; it may be one that panicked.
    pub(super) fn lay_to_rest(&mut self, mut session: V::Session, listener: u8) {
        self.together.leave(listener);
        let now = self.now;
        // Should it panic again, nothing more can be done for it.
        let _ = catch_unwind(AssertUnwindSafe(|| session.closed(&mut self.cx, now)));
    }
}

impl<V: Service, B: Backend> Drop for Worker<V, B> {
    /// A worker that ends before its connections do, by a panic or a failure of the system, gives their
    /// places back.
    fn drop(&mut self) {
        self.release_budget();
        for index in 0..self.conns.slots() {
            if let Some(conn) = self.conns.id_at(index).and_then(|id| self.conns.remove_at(id)) {
                self.lay_to_rest(conn.session, conn.listener);
            }
        }
        let line: Vec<_> = self.front.iter_mut().flat_map(Front::dissolve).collect();
        let arrivals = std::mem::take(&mut self.arrivals).into_iter();
        let arrived = arrivals.filter_map(|arrival| match arrival {
            Arrival::Parcel(parcel) => Some(parcel),
            Arrival::New { .. } => None,
        });
        for parcel in line.into_iter().chain(arrived) {
            self.lay_to_rest(parcel.session, parcel.listener);
        }
        self.show_open();
    }
}
