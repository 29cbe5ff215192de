//! How long a worker waits: for a peer that reads its output slowly, and for a job that may never end.
//!
//! ```text
//!   output waits ── each second: what has the peer acknowledged? ──▶ Event::Taken ──▶ its session goes on waiting, or not
//!   a job is under way ── its session's deadline ──▶ an answer without it; what the job brings later is dropped
//! ```
//! Decides when to check and which results are no longer awaited. The session decides how long to wait.

use super::{Next, State, Worker};
use crate::concurrency::blocking_pool::{BlockingPool, Finished, Inbox, JobId, Work};
use crate::io::{Backend, Id};
use crate::session::{Action, Context, Event, JobOf, Loss, Service, Session, Taken, Ticket};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use units::{Duration, Instant};

/// Interval of checks on waiting output; there are at least two before a deadline.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often a thread that waits for a job checks whether the strategy is ending.
const DRAIN_TICK: Duration = Duration::from_millis(100);

/// A peer's acknowledgments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// When they were first checked.
    since: Instant,
    /// Bytes at the first check.
    first: u64,
    /// Bytes at the latest check.
    latest: u64,
}

/// When to check a connection in this state with this deadline next.
#[inline]
pub(super) fn next(deadline: Instant, state: State, now: Instant) -> Instant {
    match state {
        state if state.is_sending() => deadline.min(now + LOOK_EVERY.min(deadline.since(now) / 2)),
        _ => deadline,
    }
}

/// Drops the notes on output that is now sent, and returns the job that starts then. Also reports whether notes on
/// other connections are left.
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
    /// Makes the wheel ask for a connection's deadline, and check it before that if its output waits.
    pub(super) fn watch(&mut self, id: Id) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        if let Some(at) = conn.session.deadline() {
            let at = next(at, conn.state, self.now);
            conn.wake_at(id, at, &mut self.wheel);
        }
    }

    /// Tells a session with waiting output what its peer has acknowledged, if the back end knows.
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

    /// The deadline of a session. It stands still while output waits for the line, because the peer is offered nothing
    /// then. That pause has a limit of its own, beyond which the time counts.
    pub(super) fn deadline(&mut self, id: Id) -> Option<(Instant, State)> {
        let conn = self.conns.get_mut(id)?;
        let (at, state) = (conn.session.deadline()?, conn.state);
        if !state.is_sending() {
            return Some((at, state));
        }
        let waited = self.backend.waited(id, self.now);
        Some((at + waited.min(self.cx.line_patience()), state))
    }

    /// Whether a session waits for this job; it no longer waits afterwards.
    pub(super) fn is_awaited(&mut self, id: Id, job_id: JobId) -> bool {
        let Some(conn) = self.conns.get_mut(id) else {
            return false;
        };
        if job_id.ticket != Ticket::ONLY {
            if let Some(started) = self.started.get_mut(&id.index) {
                *started -= 1;
                if *started == 0 {
                    self.started.remove(&id.index);
                }
            }
            return true;
        }
        let is_awaited = conn.state == State::Working && self.awaited.get(&id.index) == Some(&job_id);
        if is_awaited {
            conn.state = State::Turn;
            self.awaited.remove(&id.index);
        }
        is_awaited
    }

    /// Tells a session that its job takes too long.
    pub(super) fn late(&mut self, id: Id) -> Next {
        let Some(conn) = self.conns.get_mut(id) else {
            return Next::Park;
        };
        conn.session
            .handle(&mut self.cx, Event::Deadline, &mut self.out.tx, self.now);
        if !self.out.tx.is_empty() {
            // The job's result has no receiver any more.
            conn.state = State::Turn;
            self.awaited.remove(&id.index);
            return Next::Poll(id);
        }
        let action = conn.session.poll(&mut self.cx, &mut self.out.tx, self.now);
        self.out.reset();
        match action {
            Action::Close => self.close(id),
            _ => Next::Park,
        }
    }

    /// Waits for a job on this thread: as long as its session does, or, for one of several, until it is done.
    pub(super) fn wait_for(
        &mut self,
        id: Id,
        work: Work<JobOf<V::Session>>,
        pool: &Arc<BlockingPool<JobOf<V::Session>>>,
    ) -> Next {
        let waiter = std::thread::current();
        let inbox = Inbox::new(move || waiter.unpark());
        let is_alone = work.is_awaited_alone();
        let deadline = self.conns.get_mut(id).and_then(|conn| conn.session.deadline());
        let mut until = deadline.filter(|_| is_alone);
        let mut finished = Vec::new();
        if let Err(work) = pool.give(id, work, &inbox, until) {
            // The system refuses a thread: the job runs here, for as long as it takes.
            finished.push(work.run(id));
        }
        loop {
            inbox.take(&mut finished);
            self.now = self.backend.now();
            match finished.pop() {
                None => {}
                Some(Finished::Job(_, job_id, output)) => {
                    self.cx.turn(self.now, self.backend.wall());
                    if let Some(conn) = self.conns.get_mut(id).filter(|_| is_alone) {
                        conn.state = State::Turn;
                    }
                    return self.tell(id, Event::Done(job_id.ticket, output));
                }
                Some(Finished::Warm(..) | Finished::Panicked(..)) => {
                    return self.lose(id, Loss::File(libc::EIO));
                }
            }
            if self.control.is_over(self.now) {
                return self.cut_off(id);
            }
            if until.is_some_and(|until| until <= self.now) {
                self.cx.turn(self.now, self.backend.wall());
                let next = self.late(id);
                let conn = self.conns.get_mut(id);
                match conn.filter(|conn| conn.state == State::Working) {
                    // It keeps waiting.
                    Some(conn) => until = conn.session.deadline(),
                    None => return next,
                }
            }
            let left = until.map_or(DRAIN_TICK, |until| until.since(self.now).min(DRAIN_TICK));
            std::thread::park_timeout(left);
        }
    }
}
