//! The event loop: turns completions into session calls and actions into operations.
//!
//! ```text
//!        ┌──────────────────────────── wait ◀───────────────┐
//!        ▼                                                   │ nothing more inline
//!   completion ─▶ Session::handle ─▶ Session::poll ─▶ operation ─▶ submit ─▶ completion …
//! ```
//!
//! Completions run depth first: a connection whose request, answer and next request need no waiting
//! is served in one go, up to [`ROUNDS`] operations, so that none starves the others.

use super::helpers::{Helpers, Inbox, Outcome, Task};
use super::{Control, Counters, Limits, Phase, count};
use crate::clock;
use crate::io::{Backend, ConnId, Done, Op, Table};
use crate::session::{Action, Context, Event, Job, JobOf, Loss, Service, Session, Tx};
use measure::{Duration, Instant};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Operations a connection may do in one go.
const ROUNDS: usize = 32;
/// Connections accepted in one go.
const ACCEPTS: usize = 64;
/// Output buffers kept for reuse.
const TXS_KEPT: usize = 16;
/// Normal capacity of an output buffer: a burst of pipelined answers (32 KiB) and one more.
const TX_BYTES: usize = 48 << 10;
/// The least time between two looks at all deadlines.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);
/// How long accepting rests after the system had no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type SessionOf<V> = <V as Service>::Session;
type ContextOf<V> = <SessionOf<V> as Session>::Cx;
type JobFor<V> = JobOf<SessionOf<V>>;

/// One event loop.
pub(super) struct Worker<V: Service, B> {
    service: Arc<V>,
    cx: ContextOf<V>,
    backend: B,
    conns: Table<Conn<SessionOf<V>>>,
    txs: Vec<Box<Tx>>,
    deferred: VecDeque<Op>,
    helpers: Arc<Helpers<JobFor<V>>>,
    inbox: Arc<Inbox<JobFor<V>>>,
    control: Arc<Control>,
    counters: Arc<Counters>,
    limits: Limits,
    now: Instant,
    /// When some deadline may fall due; never later than the earliest of them.
    sweep_at: Option<Instant>,
    swept: Instant,
    accepting: Accepting,
    accept_complaint: Option<Instant>,
    phase: Phase,
    current: Option<ConnId>,
}

/// Whether this worker takes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepting {
    Yes,
    /// Not before this instant: descriptors or connections were used up.
    NotBefore(Instant),
    /// Never again.
    Ended,
}

struct Conn<S: Session> {
    session: S,
    generation: u32,
    /// Output is with the back end.
    sending: bool,
    /// A job to start once the output is sent.
    job: Option<Box<JobOf<S>>>,
}

impl<V: Service, B: Backend> Worker<V, B> {
    #[expect(
        clippy::too_many_arguments,
        reason = "one caller; a builder would only rename the parts"
    )]
    pub(super) fn new(
        number: usize,
        service: Arc<V>,
        backend: B,
        helpers: Arc<Helpers<JobFor<V>>>,
        inbox: Arc<Inbox<JobFor<V>>>,
        control: Arc<Control>,
        counters: Arc<Counters>,
        limits: Limits,
    ) -> Worker<V, B> {
        let cx = service.context(number);
        let now = clock::now();
        Worker {
            service,
            cx,
            backend,
            conns: Table::new(),
            txs: Vec::new(),
            deferred: VecDeque::new(),
            helpers,
            inbox,
            control,
            counters,
            limits,
            now,
            sweep_at: None,
            swept: now,
            accepting: Accepting::Yes,
            accept_complaint: None,
            phase: Phase::Running,
            current: None,
        }
    }

    /// Runs until drained or stopped.
    ///
    /// # Errors
    /// What the system says to waiting; the worker cannot go on.
    pub(super) fn run(mut self) -> std::io::Result<()> {
        let mut done = Vec::new();
        let mut outcomes = Vec::new();
        loop {
            self.now = self.backend.wait(self.wake_at(), &mut done)?;
            self.cx.turn(self.now, clock::wall());
            for completion in done.drain(..) {
                self.guard(|this| this.complete(completion));
            }
            self.inbox.drain(&mut outcomes);
            for (id, outcome) in outcomes.drain(..) {
                self.guard(|this| this.finished(id, outcome));
            }
            for _ in 0..self.deferred.len() {
                if let Some(op) = self.deferred.pop_front() {
                    self.guard(|this| this.perform(op));
                }
            }
            self.sweep();
            self.resume_accepting();
            self.follow_phase();
            if self.phase == Phase::Stopping || (self.phase == Phase::Draining && self.conns.len() == 0) {
                self.close_all();
                return Ok(());
            }
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        if !self.deferred.is_empty() {
            return Some(self.now);
        }
        let resume = match self.accepting {
            Accepting::NotBefore(at) => Some(at),
            Accepting::Yes | Accepting::Ended => None,
        };
        let sweep = self.sweep_at.map(|at| at.max(self.swept + SWEEP_INTERVAL));
        [resume, sweep, self.cx.wake()].into_iter().flatten().min()
    }

    /// One poisoned connection never takes its neighbors along.
    fn guard(&mut self, work: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_ok() {
            return;
        }
        tracing::error!("a connection's handler panicked: the connection is closed, the others go on");
        if let Some(id) = self.current.take() {
            count(&self.counters.lost);
            self.backend.submit(Op::Close { id });
            // The session is in no state to be asked anything.
            if self.conns.take(id.slot).is_some() {
                self.control.closed();
                count(&self.counters.closed);
            }
        }
    }

    fn perform(&mut self, op: Op) {
        if let Some(done) = self.backend.submit(op) {
            self.complete(done);
        }
    }

    fn complete(&mut self, first: Done) {
        if let Done::Again(Op::Accept { listener }) = first {
            return self.accept_some(listener);
        }
        let mut next = Some(first);
        for _ in 0..ROUNDS {
            let Some(op) = next.and_then(|done| self.step(done)) else {
                return;
            };
            next = self.backend.submit(op);
        }
        // Rather than hold what it got, the connection comes again after the others had their turn.
        if let Some(done) = next
            && let Some(op) = self.step(done)
        {
            self.deferred.push_back(op);
        }
    }

    fn accept_some(&mut self, listener: u32) {
        for _ in 0..ACCEPTS {
            if self.accepting != Accepting::Yes {
                return;
            }
            match self.backend.submit(Op::Accept { listener }) {
                Some(done) => self.complete(done),
                None => return,
            }
        }
        // The listener is level-triggered: what is left is reported again.
    }

    /// Tells the session what happened; returns what to do next.
    #[inline]
    fn step(&mut self, done: Done) -> Option<Op> {
        match done {
            Done::Recv { id, buf } => {
                self.current = Some(id);
                let mut tx = self.take_tx();
                let Some(conn) = conn(&mut self.conns, id) else {
                    self.backend.recycle(buf);
                    return None;
                };
                conn.session
                    .handle(&mut self.cx, Event::Bytes(&buf), &mut tx, self.now);
                self.backend.recycle(buf);
                self.after(id, tx)
            }
            Done::Sent { id, mut tx } => {
                self.current = Some(id);
                tx.clear();
                let conn = conn(&mut self.conns, id)?;
                conn.sending = false;
                conn.session.handle(&mut self.cx, Event::Sent, &mut tx, self.now);
                self.after(id, tx)
            }
            Done::Again(op) => Some(op),
            Done::Accepted { id, peer, .. } => self.accepted(id, peer),
            Done::Eof { id } => self.tell(id, Event::Eof),
            Done::Progress { id, bytes } => {
                self.current = Some(id);
                let mut tx = self.take_tx();
                let conn = conn(&mut self.conns, id)?;
                conn.session
                    .handle(&mut self.cx, Event::Progress(bytes), &mut tx, self.now);
                note_deadline(&mut self.sweep_at, &conn.session);
                self.keep_tx(tx);
                None
            }
            Done::Cold { id, range } => {
                count(&self.counters.cold_reads);
                self.helpers.submit(&self.inbox, id, Task::Warm(range));
                None
            }
            Done::Lost { id, loss } => {
                self.lose(id, loss);
                None
            }
            Done::Refused { errno, .. } => {
                self.accept_failed(errno);
                None
            }
            // Results of helpers and the phase are looked at every turn.
            Done::Woken => None,
        }
    }

    fn tell(&mut self, id: ConnId, event: Event<'_, JobFor<V>>) -> Option<Op> {
        self.current = Some(id);
        let mut tx = self.take_tx();
        let conn = conn(&mut self.conns, id)?;
        conn.session.handle(&mut self.cx, event, &mut tx, self.now);
        self.after(id, tx)
    }

    /// Asks the session what to do next.
    #[inline]
    fn after(&mut self, id: ConnId, mut tx: Box<Tx>) -> Option<Op> {
        loop {
            let conn = conn(&mut self.conns, id)?;
            let action = conn.session.poll(&mut self.cx, &mut tx, self.now);
            note_deadline(&mut self.sweep_at, &conn.session);
            if conn.sending {
                // Something else than `Sent` happened meanwhile: only closing can matter.
                self.keep_tx(tx);
                if matches!(action, Action::Close) {
                    self.close(id);
                }
                return None;
            }
            if !tx.is_empty() {
                conn.sending = true;
                if let Action::Wait(job) = action {
                    conn.job = Some(Box::new(job));
                }
                return Some(Op::Send { id, tx });
            }
            let job = match conn.job.take() {
                Some(job) => Some(*job),
                None => match action {
                    Action::Wait(job) => Some(job),
                    Action::Read => {
                        self.keep_tx(tx);
                        return Some(Op::Recv { id });
                    }
                    Action::HalfClose => {
                        self.keep_tx(tx);
                        self.backend.submit(Op::Shutdown { id });
                        return Some(Op::Recv { id });
                    }
                    Action::Close => {
                        self.keep_tx(tx);
                        self.close(id);
                        return None;
                    }
                    Action::Write | Action::Stay => {
                        self.keep_tx(tx);
                        return None;
                    }
                },
            };
            let Some(job) = job else {
                return None;
            };
            match job.try_now() {
                Ok(output) => conn
                    .session
                    .handle(&mut self.cx, Event::Done(output), &mut tx, self.now),
                Err(job) => {
                    self.keep_tx(tx);
                    count(&self.counters.jobs_offloaded);
                    self.helpers.submit(&self.inbox, id, Task::Job(job));
                    return None;
                }
            }
        }
    }

    fn finished(&mut self, id: ConnId, outcome: Outcome<JobFor<V>>) {
        let op = match outcome {
            Outcome::Done(output) => self.tell(id, Event::Done(output)),
            Outcome::Warmed => Some(Op::Resume { id }),
            Outcome::Failed(errno) => {
                self.lose(id, Loss::File(errno));
                None
            }
        };
        if let Some(op) = op {
            self.perform(op);
        }
    }

    fn accepted(&mut self, id: ConnId, peer: SocketAddr) -> Option<Op> {
        count(&self.counters.accepted);
        let Some(session) = self.service.accept(&mut self.cx, peer, self.now) else {
            self.backend.submit(Op::Close { id });
            count(&self.counters.closed);
            return None;
        };
        if self.control.opened() >= self.limits.connections_max {
            self.pause_accepting();
        }
        self.conns.put(
            id.slot,
            Conn {
                session,
                generation: id.generation,
                sending: false,
                job: None,
            },
        );
        self.current = Some(id);
        let tx = self.take_tx();
        self.after(id, tx)
    }

    fn lose(&mut self, id: ConnId, loss: Loss) {
        self.current = Some(id);
        count(&self.counters.lost);
        let mut tx = self.take_tx();
        if let Some(conn) = conn(&mut self.conns, id) {
            conn.session
                .handle(&mut self.cx, Event::Lost(loss), &mut tx, self.now);
        }
        self.keep_tx(tx);
        self.close(id);
    }

    fn close(&mut self, id: ConnId) {
        self.backend.submit(Op::Close { id });
        if conn(&mut self.conns, id).is_none() {
            return;
        }
        if let Some(mut conn) = self.conns.take(id.slot) {
            if let Accepting::NotBefore(at) = &mut self.accepting {
                // A descriptor came free: what it was waiting for.
                *at = self.now;
            }
            self.control.closed();
            count(&self.counters.closed);
            conn.session.closed(&mut self.cx, self.now);
        }
    }

    fn close_all(&mut self) {
        for slot in 0..self.conns.end() {
            if let Some(conn) = self.conns.get_mut(slot) {
                let id = ConnId {
                    slot,
                    generation: conn.generation,
                };
                self.guard(|this| {
                    this.current = Some(id);
                    this.close(id);
                });
            }
        }
    }

    /// Looks at all deadlines, when the earliest known has come and not more often than every
    /// [`SWEEP_INTERVAL`]: 3 ns a connection, and no memory per connection.
    fn sweep(&mut self) {
        let Some(due) = self.sweep_at else {
            return;
        };
        if self.now < due || self.now < self.swept + SWEEP_INTERVAL {
            return;
        }
        self.swept = self.now;
        self.sweep_at = None;
        for slot in 0..self.conns.end() {
            let Some(conn) = self.conns.get_mut(slot) else {
                continue;
            };
            match conn.session.deadline() {
                Some(at) if at <= self.now => {
                    let id = ConnId {
                        slot,
                        generation: conn.generation,
                    };
                    self.guard(|this| {
                        if let Some(op) = this.tell(id, Event::Deadline) {
                            this.perform(op);
                        }
                    });
                }
                Some(_) => note_deadline(&mut self.sweep_at, &conn.session),
                None => {}
            }
        }
    }

    fn follow_phase(&mut self) {
        let phase = self.control.phase();
        if phase <= self.phase {
            return;
        }
        if self.phase == Phase::Running {
            // What the kernel has accepted already would be reset with the listener.
            self.accepting = Accepting::Yes;
            self.backend.resume_accepting();
            self.guard(|this| this.accept_some(0));
            self.accepting = Accepting::Ended;
            self.backend.close_listeners();
            for slot in 0..self.conns.end() {
                if let Some(conn) = self.conns.get_mut(slot) {
                    let id = ConnId {
                        slot,
                        generation: conn.generation,
                    };
                    self.guard(|this| {
                        if let Some(op) = this.tell(id, Event::Drain) {
                            this.perform(op);
                        }
                    });
                }
            }
        }
        self.phase = phase;
    }

    fn accept_failed(&mut self, errno: i32) {
        count(&self.counters.accept_failures);
        let complained = self
            .accept_complaint
            .is_some_and(|at| self.now < at + Duration::from_secs(1));
        if !complained {
            self.accept_complaint = Some(self.now);
            tracing::warn!(
                "accepting failed: {}; {} connections are open and go on; raise the descriptor limit \
                 (ulimit -n, LimitNOFILE=) or lower --connections-max",
                std::io::Error::from_raw_os_error(errno),
                self.control.open(),
            );
        }
        self.pause_accepting();
    }

    fn pause_accepting(&mut self) {
        if self.accepting != Accepting::Ended {
            self.accepting = Accepting::NotBefore(self.now + ACCEPT_PAUSE);
            self.backend.pause_accepting();
        }
    }

    fn resume_accepting(&mut self) {
        if let Accepting::NotBefore(at) = self.accepting
            && self.now >= at
        {
            if self.control.open() >= self.limits.connections_max {
                self.accepting = Accepting::NotBefore(self.now + ACCEPT_PAUSE);
            } else {
                self.accepting = Accepting::Yes;
                self.backend.resume_accepting();
            }
        }
    }

    #[inline]
    fn take_tx(&mut self) -> Box<Tx> {
        self.txs.pop().unwrap_or_else(|| {
            Box::new(Tx {
                head: Vec::with_capacity(TX_BYTES),
                ..Tx::default()
            })
        })
    }

    #[inline]
    fn keep_tx(&mut self, mut tx: Box<Tx>) {
        if self.txs.len() < TXS_KEPT && tx.head.capacity() <= 2 * TX_BYTES {
            tx.clear();
            self.txs.push(tx);
        }
    }
}

#[inline]
fn conn<S: Session>(conns: &mut Table<Conn<S>>, id: ConnId) -> Option<&mut Conn<S>> {
    conns
        .get_mut(id.slot)
        .filter(|conn| conn.generation == id.generation)
}

#[inline]
fn note_deadline<S: Session>(sweep_at: &mut Option<Instant>, session: &S) {
    if let Some(at) = session.deadline()
        && sweep_at.is_none_or(|earliest| at < earliest)
    {
        *sweep_at = Some(at);
    }
}
