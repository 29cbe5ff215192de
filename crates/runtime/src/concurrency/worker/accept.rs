//! How connections arrive at a worker and leave it: from listeners, from other workers, and to those that take
//! connections with input.
//!
//! Decides how many are accepted at once, and when accepting pauses. The worker does the rest.

use super::super::dispatcher::Dispatcher;
use super::super::shared_state::count;
use super::{Conn, First, NEVER, Next, State, Stopping, Worker};
use crate::io::{Backend, Done, Id, Op};
use crate::machine::is_out_of_resources;
use crate::session::{Event, Need, Service};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use units::Duration;

/// How long accepting pauses after descriptors or memory ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long it pauses at the connection limit, while other workers may close one.
const LIMIT_PAUSE: Duration = Duration::from_millis(10);

/// A connection that waits for input, on its way between two workers.
pub(crate) struct Parcel<S> {
    fd: OwnedFd,
    pub(super) session: S,
    /// Bytes the peer may still send, once our half is closed.
    lingering: Option<u32>,
    /// The listener it came from.
    pub(super) listener: u8,
}

/// A connection that does not come from this worker's listeners.
pub(crate) enum Arrival<S> {
    /// Just accepted, from this peer, at this listener.
    New {
        fd: OwnedFd,
        peer: SocketAddr,
        listener: usize,
    },
    /// From another worker.
    Parcel(Parcel<S>),
}

/// How accepting from a listener ended.
pub(super) enum Accepting {
    /// No connection waits.
    Empty,
    /// Others may still wait.
    More,
    /// Descriptors ran out or the limit is reached.
    Paused,
}

/// A listener's number as stored with connections; those beyond 255 share one number.
fn numbered(listener: usize) -> u8 {
    u8::try_from(listener).unwrap_or(u8::MAX)
}

impl<V: Service, B: Backend> Worker<V, B> {
    /// Gives connections with input to this dispatcher from now on.
    pub(crate) fn hand_over_to(&mut self, dispatcher: Dispatcher<V::Session>) {
        self.dispatcher = Some(dispatcher);
    }

    /// Adds a connection in the next turn.
    pub(crate) fn bring(&mut self, arrival: Arrival<V::Session>) {
        self.arrivals.push(arrival);
    }

    /// Gives up a connection that waits for input.
    pub(super) fn part_with(&mut self, id: Id) -> Option<Parcel<V::Session>> {
        self.conns.get_mut(id).filter(|conn| conn.state.awaits_input())?;
        if self.started.contains_key(&id.index) || self.peers.has_any(id) {
            return None;
        }
        let fd = self.backend.release(id)?;
        let conn = self.conns.remove_at(id).expect("it was just looked at");
        self.wheel.disarm(id.index);
        self.show_open();
        Some(Parcel {
            fd,
            session: conn.session,
            lingering: self.lingering.remove(&id.index),
            listener: conn.listener,
        })
    }

    /// Takes in connections that came from elsewhere.
    pub(super) fn arrive(&mut self) {
        for arrival in std::mem::take(&mut self.arrivals) {
            match arrival {
                Arrival::New { fd, peer, listener } => {
                    self.accepting = numbered(listener);
                    if let Some(id) = self.backend.adopt(fd) {
                        self.run(First::Done(Done::Accepted { id, peer }));
                    }
                }
                Arrival::Parcel(parcel) => {
                    let Some(id) = self.backend.adopt(parcel.fd) else {
                        self.lay_to_rest(parcel.session, parcel.listener);
                        continue;
                    };
                    let conn = Conn {
                        session: parcel.session,
                        due: NEVER,
                        state: State::Turn,
                        eof: false,
                        half_closed: parcel.lingering.is_some(),
                        listener: parcel.listener,
                    };
                    if let Some(left) = parcel.lingering {
                        self.lingering.insert(id.index, left);
                    }
                    self.conns.insert_at(id, conn);
                    self.show_open();
                    if self.stopping == Stopping::Drained {
                        self.tell_of_the_end(id);
                    } else if self.dispatcher.is_some() {
                        // Timeouts may have changed while it was with another worker.
                        self.tell_aside(id, Event::Reconsider);
                    } else {
                        self.run(First::Step(Next::Receive(id)));
                    }
                }
            }
        }
    }

    /// Gives a connection with input to the dispatcher; returns whether there is one.
    pub(super) fn hand_over(&mut self, id: Id) -> bool {
        if self.dispatcher.is_none() {
            return false;
        }
        let Some(parcel) = self.part_with(id) else {
            return false;
        };
        let now = self.now;
        let given = self
            .dispatcher
            .as_mut()
            .map(|dispatcher| dispatcher.give(parcel, now));
        self.complain_of_threads(given);
        true
    }

    pub(super) fn take_back(&mut self) {
        let Some(dispatcher) = &mut self.dispatcher else {
            return;
        };
        let mut parcels = Vec::new();
        dispatcher.take_back(&mut parcels);
        let given = dispatcher.go_on(self.now);
        self.arrivals.extend(parcels.into_iter().map(Arrival::Parcel));
        self.complain_of_threads(Some(given));
        self.arrive();
        if self.accept_paused_until.is_some() {
            // One of them may have ended and left a place.
            self.accept_paused_until = Some(self.now);
        }
    }

    fn complain_of_threads(&self, given: Option<std::io::Result<()>>) {
        if let Some(Err(error)) = given
            && self.shared_state.may_complain(self.now)
        {
            tracing::warn!("requests wait: cannot start a thread for them: {error}");
        }
    }

    /// Accepts connections that wait at listeners, in bounded portions.
    pub(super) fn accept(&mut self) {
        if self.accept_paused_until.is_some_and(|until| self.now < until) {
            return;
        }
        self.accept_paused_until = None;
        let mut at = 0;
        while at < self.waiting.len() {
            let listener = self.waiting[at];
            let most = self.service.accepts_per_turn(numbered(listener));
            match self.accept_from(listener, most) {
                Accepting::Empty => drop(self.waiting.swap_remove(at)),
                Accepting::More => at += 1,
                Accepting::Paused => return,
            }
        }
    }

    pub(super) fn accept_from(&mut self, listener: usize, most: u32) -> Accepting {
        for _ in 0..most {
            match self.make_room(listener) {
                Ok(()) => {}
                Err(None) => return self.nobody_waits(),
                Err(Some(full)) => {
                    self.accept_paused_until = Some(self.now + LIMIT_PAUSE);
                    if self.is_stuck() && self.shared_state.may_complain(self.now) {
                        tracing::warn!(
                            open = self.shared_state.open.load(Ordering::Relaxed),
                            "not accepting connections for now: none is idle, and {}",
                            full.words()
                        );
                    }
                    return Accepting::Paused;
                }
            }
            self.accepting = numbered(listener);
            match self.backend.submit(Op::Accept { listener }) {
                None => return self.nobody_waits(),
                Some(Done::AcceptFailed { errno }) => {
                    count(&self.counters.accept_errors, 1);
                    if is_out_of_resources(errno) {
                        // Frees a descriptor for the next attempt, if the limit is this process's.
                        if !self.close_parked() {
                            self.close_eldest(Need::Place);
                        }
                        self.pause_accepting("the system is out of descriptors or memory", errno);
                        return Accepting::Paused;
                    }
                    // Other errors concern that one connection (aborted, a network error); the next may succeed.
                }
                Some(done) => self.run(First::Done(done)),
            }
        }
        Accepting::More
    }

    /// Whoever waited for room has been taken or refused: idle connections may stay.
    fn nobody_waits(&mut self) -> Accepting {
        if self.full_since.take().is_some() {
            self.shared_state.has_room();
        }
        Accepting::Empty
    }

    fn pause_accepting(&mut self, why: &str, errno: i32) {
        self.accept_paused_until = Some(self.now + ACCEPT_PAUSE);
        if self.shared_state.may_complain(self.now) {
            tracing::warn!(
                open = self.shared_state.open.load(Ordering::Relaxed),
                errno,
                "not accepting connections for now: {why}"
            );
        }
    }
}
