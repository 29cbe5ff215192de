//! How long a worker waits for others: for a peer that takes its output slowly, for a job that may never end.
//!
//! ```text
//!   output waits ── each second: what has the peer acknowledged? ──▶ Event::Taken ──▶ its session goes on waiting, or not
//!   a job is under way ── its session's deadline ──▶ an answer without it; what the job brings later is dropped
//! ```
//! Decides when to look and what is no longer awaited. How much patience there is, is the session's.

use super::{Next, State, Worker};
use crate::concurrency::offload::{Crew, Finished, Inbox, Ticket, Work};
use crate::io::{Backend, Id};
use crate::session::{Action, Context, Event, JobOf, Loss, Service, Session, Taken};
use measure::{Duration, Instant};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// How often output that waits is looked at, and at least twice before a deadline.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often a thread that waits for a job looks whether all is to end.
const DRAIN_TICK: Duration = Duration::from_millis(100);

/// What a peer had acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// When it was first looked at.
    since: Instant,
    /// Bytes by then.
    first: u64,
    /// Bytes at the latest look.
    latest: u64,
}

/// When a connection in this state is to be looked at that has this deadline.
#[inline]
pub(super) fn next(deadline: Instant, state: State, now: Instant) -> Instant {
    match state {
        State::Sending => deadline.min(now + LOOK_EVERY.min(deadline.since(now) / 2)),
        _ => deadline,
    }
}

/// Forgets what was noted of output that is sent; gives the job that begins then. Says whether anything is left of others.
#[cold]
pub(super) fn clear<J>(
    looks: &mut HashMap<u32, Look>,
    held: &mut HashMap<u32, J>,
    is_any: &mut bool,
    id: Id,
) -> Option<J> {
    looks.remove(&id.index);
    let job = held.remove(&id.index);
    *is_any = !looks.is_empty() || !held.is_empty();
    job
}

impl<V: Service, B: Backend> Worker<V, B> {
    /// Has the wheel ask for the deadline of a connection, and look at it before that if its output waits.
    pub(super) fn watch(&mut self, id: Id) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        if let Some(at) = conn.session.deadline() {
            let at = next(at, conn.state, self.now);
            self.wake_at(id, at);
        }
    }

    /// Tells a session whose output waits what its peer has acknowledged, if the back end knows.
    pub(super) fn look(&mut self, id: Id) {
        let Some(acknowledged) = self.backend.acknowledged(id) else {
            return;
        };
        self.is_aside = true;
        let (look, moves) = match self.looks.entry(id.index) {
            Entry::Vacant(none) => {
                let look = none.insert(Look {
                    since: self.now,
                    first: acknowledged,
                    latest: acknowledged,
                });
                (*look, true)
            }
            Entry::Occupied(mut look) => {
                let look = look.get_mut();
                let before = std::mem::replace(&mut look.latest, acknowledged);
                (*look, acknowledged > before)
            }
        };
        let taken = Taken {
            since: look.since,
            bytes: look.latest.saturating_sub(look.first),
            moves,
        };
        self.tell_aside(id, Event::Taken(taken));
    }

    /// The deadline of a session, which stands still while its output waits for the line: until then its peer could take
    /// nothing. That has a bound of its own, beyond which it counts.
    pub(super) fn deadline(&mut self, id: Id) -> Option<(Instant, State)> {
        let conn = self.conns.get_mut(id)?;
        let (at, state) = (conn.session.deadline()?, conn.state);
        if state != State::Sending {
            return Some((at, state));
        }
        let waited = self.backend.waited(id, self.now);
        Some((at + waited.min(self.cx.line_patience()), state))
    }

    /// Whether a session waits for this job; it waits no longer then.
    pub(super) fn is_awaited(&mut self, id: Id, ticket: Ticket) -> bool {
        let Some(conn) = self.conns.get_mut(id) else {
            return false;
        };
        let is_awaited = conn.state == State::Working && self.tickets.get(&id.index) == Some(&ticket);
        if is_awaited {
            conn.state = State::Turn;
            self.tickets.remove(&id.index);
        }
        is_awaited
    }

    /// Tells a session that its job takes too long.
    pub(super) fn late(&mut self, id: Id) -> Next<JobOf<V::Session>> {
        let Some(conn) = self.conns.get_mut(id) else {
            return Next::Park;
        };
        conn.session
            .handle(&mut self.cx, Event::Deadline, &mut self.out.tx, self.now);
        if !self.out.tx.is_empty() {
            // What the job brings is for nobody.
            conn.state = State::Turn;
            self.tickets.remove(&id.index);
            return Next::Poll(id);
        }
        let action = conn.session.poll(&mut self.cx, &mut self.out.tx, self.now);
        self.out.reset();
        match action {
            Action::Close => self.close(id),
            _ => Next::Park,
        }
    }

    /// Waits for a job on this thread, as long as its session does.
    pub(super) fn wait_for(
        &mut self,
        id: Id,
        work: Work<JobOf<V::Session>>,
        crew: &Arc<Crew<JobOf<V::Session>>>,
    ) -> Next<JobOf<V::Session>> {
        let waiter = std::thread::current();
        let inbox = Inbox::new(move || waiter.unpark());
        let mut until = self.conns.get_mut(id).and_then(|conn| conn.session.deadline());
        let mut finished = Vec::new();
        if let Err(work) = crew.give(id, work, &inbox, until) {
            // The system starts no thread: then it takes as long as it takes.
            finished.push(work.run(id));
        }
        loop {
            inbox.take(&mut finished);
            self.now = self.backend.now();
            match finished.pop() {
                None => {}
                Some(Finished::Job(_, _, output)) => {
                    self.cx.turn(self.now, self.backend.wall());
                    if let Some(conn) = self.conns.get_mut(id) {
                        conn.state = State::Turn;
                    }
                    return Next::Output(id, output);
                }
                Some(Finished::Warm(..) | Finished::Panicked(..)) => {
                    return self.lose(id, Loss::File(libc::EIO));
                }
            }
            if self.control.is_over(self.now) {
                return self.close(id);
            }
            if until.is_some_and(|until| until <= self.now) {
                self.cx.turn(self.now, self.backend.wall());
                let next = self.late(id);
                let conn = self.conns.get_mut(id);
                match conn.filter(|conn| conn.state == State::Working) {
                    // It goes on waiting.
                    Some(conn) => until = conn.session.deadline(),
                    None => return next,
                }
            }
            let left = until.map_or(DRAIN_TICK, |until| until.since(self.now).min(DRAIN_TICK));
            std::thread::park_timeout(left);
        }
    }
}
