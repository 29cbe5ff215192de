//! How a worker ends: on request, with haste or without, or by a panic.
//!
//! ```text
//!   No ── asked to ──▶ Listening: whoever had connected is taken in ──▶ Drained: everyone was told
//!                          ▲ │ a turn that brought somebody                 │ patience over: closed
//!                          └─┘                                              ▼ nobody left: the end
//! ```
//! Decides which sessions are told, and when. What a session then owes its peer is up to the session.

use super::super::dispatcher::Dispatcher;
use super::Worker;
use super::accept::Arrival;
use crate::io::{Backend, Id, Op};
use crate::session::{Event, Service, Session};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// Maximum connections accepted from a listener's queue when draining.
const BACKLOG_DRAIN_MAX: u32 = 8192;

/// The worker's progress in stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopping {
    No,
    /// Listeners are being closed; connections of the last turns are still being read. `accepted` is the number
    /// accepted before.
    Listening {
        accepted: u64,
    },
    /// All sessions were told.
    Drained,
}

impl<V: Service, B: Backend> Worker<V, B> {
    /// Runs until drained.
    ///
    /// # Errors
    /// The back end's, if it cannot continue.
    pub(crate) fn run_until_drained(&mut self) -> std::io::Result<()> {
        while !self.is_drained() {
            let until = self.next_wake();
            self.turn(until)?;
        }
        Ok(())
    }

    /// Whether it was told to drain and no connection is left.
    pub(crate) fn is_drained(&self) -> bool {
        self.stopping == Stopping::Drained
            && self.conns.len() == 0
            && self.arrivals.is_empty()
            && !self.owes()
            && self
                .dispatcher
                .as_ref()
                .is_none_or(|dispatcher| dispatcher.outstanding() == 0)
    }

    /// Whether connections may wait that no other worker takes, now that there is room.
    pub(super) fn owes(&self) -> bool {
        let are_its_own = !self.gently || !self.control.is_followed();
        are_its_own && self.conns.len() == 0 && self.backend.owes()
    }

    /// Takes the steps of stopping; called every turn after a stop was requested.
    pub(super) fn drain(&mut self) {
        let accepted = self.counters.accepted.load(Ordering::Relaxed);
        match self.stopping {
            Stopping::No => {
                // The kernel has told these clients that they are connected: they get a response as long as there is
                // room.
                self.accept_paused_until = None;
                for listener in 0..self.listeners {
                    let _ = self.accept_from(listener, BACKLOG_DRAIN_MAX);
                }
                self.accept_paused_until = None;
                self.waiting.clear();
                self.close_parked();
                let _ = self.backend.submit(Op::StopListening);
                let accepted = self.counters.accepted.load(Ordering::Relaxed);
                self.stopping = Stopping::Listening { accepted };
            }
            // Each turn that accepts connections is followed by one that reads what they sent.
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
                if let Some(dispatcher) = &mut self.dispatcher {
                    self.arrivals.extend(dispatcher.dissolve().map(Arrival::Parcel));
                }
                self.for_each(|worker, id| {
                    let _ = worker.cut_off(id);
                });
                let _ = self.backend.submit(Op::StopListening);
            }
            Stopping::Drained => {}
        }
    }

    /// Tells a connection that the worker ends, with haste or without.
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

    /// Tells a session that its connection is gone; it may have panicked.
    pub(super) fn lay_to_rest(&mut self, mut session: V::Session, listener: u8) {
        self.shared_state.leave(listener);
        let now = self.now;
        // If it panics again, nothing more can be done for it.
        let _ = catch_unwind(AssertUnwindSafe(|| session.closed(&mut self.cx, now)));
    }
}

impl<V: Service, B: Backend> Drop for Worker<V, B> {
    /// A worker that ends before its connections, by a panic or a system failure, frees their places.
    fn drop(&mut self) {
        self.release_budget();
        for index in 0..self.conns.slots() {
            if let Some(conn) = self.conns.id_at(index).and_then(|id| self.conns.remove_at(id)) {
                self.lay_to_rest(conn.session, conn.listener);
            }
        }
        let line: Vec<_> = self
            .dispatcher
            .iter_mut()
            .flat_map(Dispatcher::dissolve)
            .collect();
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
