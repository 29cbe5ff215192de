//! One worker: a set of connections, driven over a back end.
//!
//! ```text
//!             ┌──────────── all sent: Event::Sent ───────────┐
//!             ▼                                              │
//!   accepted ─▶ TURN: handle, poll ── output in tx ──▶ SENDING
//!             │ ▲ ▲
//!       Read  │ │ └── Event::Done ───── WORKING ◀── Wait(job)
//!             ▼ │ bytes, eof, deadline, drain
//!           READING                     Close, failure: gone, from anywhere
//!
//!   Start, Duplex: DUPLEX, with a receive, a send and jobs under way, each or none; any completion is a turn
//! ```
//! Decides the order of events, fairness between connections, limits on their number, timers and draining, in the same
//! way for every strategy and for the simulator. How bytes move is up to the back end; what they mean, up to the
//! session.
//!
//! A completion is followed depth-first as far as possible without waiting: receive, handle, send, receive again.
//! `ROUNDS_MAX` bounds that, so that a peer that never stops sending has to wait in the queue like all others.

mod accept;
mod drain;
mod duplex;
mod patience;
mod peers;
mod relief;
mod room;

pub(crate) use accept::{Arrival, Parcel};

use super::blocking_pool::{Finished, Hands, JobId, Work};
use super::dispatcher::Dispatcher;
use super::eldest::Eldest;
use super::peers::Peers;
use super::shared_state::{Control, Counters, SharedState, count};
use crate::io::table::Table;
use crate::io::{Backend, Buf, Done, Id, Op, Out};
use crate::lock_calls;
use crate::manner::Manner;
use crate::memory::Budget;
use crate::session::{Accepted, Action, Context, Event, Job, JobOf, Loss, Need, Service, Session, Ticket};
use crate::timer::Wheel;
use drain::Stopping;
use patience::Look;
use relief::Relief;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::{Duration, Instant};

/// Receives of one connection before others have their turn.
const ROUNDS_MAX: u32 = 8;
/// Output boxes kept for reuse.
const SPARE_OUT_MAX: usize = 16;

/// The limits of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Connections open at once, over all workers of this listener set.
    pub(crate) connections_max: usize,
    /// Bytes a peer may still send on a half-closed connection before it is cut off.
    pub(crate) linger_bytes_max: u32,
    /// Granularity of deadlines.
    pub(crate) tick: Duration,
    /// Details of the strategy.
    pub(crate) manner: Manner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Being processed by the worker, or staying: only a deadline or a drain moves it.
    Turn,
    /// Queued for the worker's next turn.
    Queued,
    /// A receive is under way.
    Reading,
    /// Output is under way.
    Sending,
    /// A job is under way.
    Working,
    /// The session takes both ways at once, and this is under way.
    Duplex(Underway),
}

/// What of a connection that works both ways is under way, or queued for the worker's next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Underway {
    Neither,
    Receive,
    Send,
    Both,
}

impl Underway {
    const fn new(receives: bool, sends: bool) -> Underway {
        match (receives, sends) {
            (false, false) => Underway::Neither,
            (true, false) => Underway::Receive,
            (false, true) => Underway::Send,
            (true, true) => Underway::Both,
        }
    }

    const fn receives(self) -> bool {
        matches!(self, Underway::Receive | Underway::Both)
    }

    const fn sends(self) -> bool {
        matches!(self, Underway::Send | Underway::Both)
    }
}

impl State {
    const fn is_sending(self) -> bool {
        matches!(
            self,
            State::Sending | State::Duplex(Underway::Send | Underway::Both)
        )
    }

    const fn is_receiving(self) -> bool {
        matches!(
            self,
            State::Reading | State::Duplex(Underway::Receive | Underway::Both)
        )
    }

    /// Whether all it waits for is its peer's next bytes; jobs may be under way.
    const fn awaits_input(self) -> bool {
        matches!(self, State::Reading | State::Duplex(Underway::Receive))
    }

    /// The ways of a connection that works both ways from now on.
    const fn underway(self) -> Underway {
        match self {
            State::Duplex(underway) => underway,
            State::Reading => Underway::Receive,
            State::Sending => Underway::Send,
            State::Turn | State::Queued | State::Working => Underway::Neither,
        }
    }

    /// After a receive.
    const fn received(self) -> State {
        match self {
            State::Duplex(underway) => State::Duplex(Underway::new(false, underway.sends())),
            _ => State::Turn,
        }
    }

    /// After a send.
    const fn sent(self) -> State {
        match self {
            State::Duplex(underway) => State::Duplex(Underway::new(underway.receives(), false)),
            _ => State::Turn,
        }
    }

    /// With a receive under way.
    const fn receiving(self) -> State {
        match self {
            State::Duplex(underway) => State::Duplex(Underway::new(true, underway.sends())),
            _ => State::Reading,
        }
    }

    /// With a send under way.
    const fn sending(self) -> State {
        match self {
            State::Duplex(underway) => State::Duplex(Underway::new(underway.receives(), true)),
            _ => State::Sending,
        }
    }
}

/// The next step of a queued connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    /// A receive.
    Receive,
    /// The event that all was sent.
    Sent,
}

struct Conn<S> {
    session: S,
    /// When the wheel asks for the session's deadline, on the wheel's scale.
    due: u32,
    state: State,
    eof: bool,
    /// Our half is closed; the worker keeps the number of bytes the peer may still send.
    half_closed: bool,
    /// The listener it came from.
    listener: u8,
}

/// The wheel does not ask for this connection.
const NEVER: u32 = u32::MAX;

impl<S: Session> Conn<S> {
    /// Moves the connection forward in the wheel if its deadline is now earlier.
    #[inline]
    fn rearm(&mut self, id: Id, wheel: &mut Wheel) {
        if let Some(at) = self.session.deadline() {
            self.wake_at(id, at, wheel);
        }
    }

    /// Makes the wheel ask for the connection's deadline at `at`, unless it does so earlier.
    #[inline]
    fn wake_at(&mut self, id: Id, at: Instant, wheel: &mut Wheel) {
        let due = wheel.coarse(at);
        if due < self.due {
            self.due = due;
            wheel.arm(id.index, at);
        }
    }
}

/// The next step of the connection being processed. It carries only the id, because each request takes several steps and
/// each is copied. Bytes and output go directly to the function that processes them.
#[derive(Clone, Copy)]
enum Next {
    Poll(Id),
    Receive(Id),
    Sent(Id),
    Park,
}

/// What starts the processing of a connection.
enum First<J: Job> {
    Done(Done),
    Output(Id, Ticket, J::Output),
    Step(Next),
}

impl<J: Job> First<J> {
    /// The connection concerned.
    fn id(&self) -> Option<Id> {
        match self {
            First::Done(done) => done.id(),
            First::Output(id, ..) | First::Step(Next::Poll(id) | Next::Receive(id) | Next::Sent(id)) => {
                Some(*id)
            }
            First::Step(Next::Park) => None,
        }
    }
}

pub(crate) struct Worker<V: Service, B: Backend> {
    service: Arc<V>,
    cx: <V::Session as Session>::Cx,
    pub(crate) backend: B,
    pub(crate) hands: Hands<JobOf<V::Session>>,
    conns: Table<Conn<V::Session>>,
    wheel: Wheel,
    bounds: Bounds,
    shared_state: Arc<SharedState>,
    pub(crate) counters: Arc<crossbeam_utils::CachePadded<Counters>>,
    control: Arc<Control>,
    now: Instant,
    out: Box<Out>,
    #[expect(
        clippy::vec_box,
        reason = "the boxes themselves travel: to an operation and back"
    )]
    spare: Vec<Box<Out>>,
    done: Vec<Done>,
    /// Connections that used up their share of this turn.
    again: Vec<(Id, Owed)>,
    /// Jobs that start when the output before them is sent, by slot.
    held: HashMap<u32, JobOf<V::Session>>,
    /// Bytes that peers may still send after our half is closed, by slot. A map, because there are few: idle
    /// connections pay nothing for it.
    lingering: HashMap<u32, u32>,
    /// Whether `held` or `looks` may have entries: a single check per request.
    is_aside: bool,
    /// For output that has waited for a while: what its peer has acknowledged, by slot.
    looks: HashMap<u32, Look>,
    /// Jobs that sessions wait for, by slot.
    awaited: HashMap<u32, JobId>,
    /// How many jobs of `Action::Start` are under way, by slot.
    started: HashMap<u32, u32>,
    /// Connections that sessions opened.
    peers: Peers<Id>,
    /// Jobs started so far.
    jobs: u64,
    finished: Vec<Finished<<JobOf<V::Session> as Job>::Output>>,
    due: Vec<u32>,
    arrivals: Vec<Arrival<V::Session>>,
    /// Takes connections with input, if this worker only waits for input.
    dispatcher: Option<Dispatcher<V::Session>>,
    listeners: usize,
    /// The listener of the connection being accepted.
    accepting: u8,
    /// Listeners at which connections may be waiting.
    waiting: Vec<usize>,
    accept_paused_until: Option<Instant>,
    /// Finds the connection to close at the connection limit.
    eldest: Eldest<Id>,
    /// Since when no connection could be accepted because none is idle.
    full_since: Option<Instant>,
    budget: Arc<Budget>,
    relief: Relief,
    stopping: Stopping,
    /// Whether a stop is without haste.
    gently: bool,
}

impl<V: Service, B: Backend> Worker<V, B> {
    #[allow(
        clippy::too_many_arguments,
        reason = "called once per strategy; each is a part of the worker"
    )]
    pub(crate) fn new(
        number: usize,
        service: Arc<V>,
        backend: B,
        hands: Hands<JobOf<V::Session>>,
        bounds: Bounds,
        shared_state: Arc<SharedState>,
        counters: Arc<crossbeam_utils::CachePadded<Counters>>,
        control: Arc<Control>,
        listeners: usize,
        now: Instant,
    ) -> Worker<V, B> {
        Worker {
            cx: service.context(number),
            budget: service.budget(),
            peers: Peers::new(service.dialing()),
            relief: Relief::default(),
            service,
            backend,
            hands,
            conns: Table::new(),
            wheel: Wheel::new(now, bounds.tick),
            bounds,
            shared_state,
            counters,
            control,
            now,
            out: Out::new(bounds.manner.writing),
            spare: Vec::new(),
            done: Vec::new(),
            again: Vec::new(),
            held: HashMap::new(),
            lingering: HashMap::new(),
            is_aside: false,
            looks: HashMap::new(),
            awaited: HashMap::new(),
            started: HashMap::new(),
            jobs: 0,
            finished: Vec::new(),
            due: Vec::new(),
            arrivals: Vec::new(),
            dispatcher: None,
            listeners,
            accepting: 0,
            waiting: Vec::new(),
            accept_paused_until: None,
            eldest: Eldest::default(),
            full_since: None,
            stopping: Stopping::No,
            gently: false,
        }
    }

    /// Memory per idle connection besides its session, in bytes.
    #[cfg(test)]
    pub(crate) fn conn_size() -> usize {
        // Only the back end's table has a list of free slots.
        let slot = Table::<Conn<V::Session>>::slot_size() - size_of::<u32>();
        slot - size_of::<V::Session>() + Wheel::ENTRY_SIZE
    }

    /// Runs while there is a connection.
    ///
    /// # Errors
    /// The back end's, if it cannot continue.
    pub(crate) fn run_until_empty(&mut self) -> std::io::Result<()> {
        while !self.arrivals.is_empty() || self.conns.len() > 0 {
            self.turn(self.next_wake())?;
        }
        Ok(())
    }

    /// Runs its one connection until the connection waits for input, then gives it up; or until it has ended. While
    /// draining, the worker keeps it to the end.
    ///
    /// # Errors
    /// The back end's, if it cannot continue.
    pub(crate) fn run_until_idle(&mut self) -> std::io::Result<Option<Parcel<V::Session>>> {
        while !self.arrivals.is_empty() || self.conns.len() > 0 {
            self.turn(self.next_wake())?;
            let idle = (0..self.conns.slots())
                .find_map(|index| self.conns.id_at(index))
                .filter(|_| !self.control.is_draining());
            if let Some(parcel) = idle.and_then(|id| self.part_with(id)) {
                return Ok(Some(parcel));
            }
        }
        Ok(None)
    }

    fn show_open(&self) {
        self.counters
            .open
            .store(self.conns.len() as u64, Ordering::Relaxed);
    }

    pub(crate) fn open(&self) -> usize {
        self.conns.len()
    }

    /// The context shared by its sessions.
    pub(crate) fn context(&mut self) -> &mut <V::Session as Session>::Cx {
        &mut self.cx
    }

    /// Whether there is work to do without waiting for events.
    pub(crate) fn has_more(&self) -> bool {
        !self.again.is_empty()
            || !self.arrivals.is_empty()
            || !self.finished.is_empty()
            || self.peers.has_news()
            || (!self.waiting.is_empty() && self.accept_paused_until.is_none())
            || matches!(self.stopping, Stopping::Listening { .. })
            || (self.control.is_draining() && self.stopping == Stopping::No)
            || (self.stopping == Stopping::Drained && self.owes())
    }

    /// When the next turn is due even if nothing happens.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        if self.has_more() {
            return Some(Instant::ZERO);
        }
        // Contexts are guaranteed a turn a second while there are connections.
        let second = (self.conns.len() > 0).then(|| self.now + Duration::from_secs(1));
        let paused = self.accept_paused_until.filter(|_| !self.waiting.is_empty());
        let grace = match self.stopping {
            Stopping::Drained if !self.is_drained() => Some(self.control.until()),
            _ => None,
        };
        let retry = self.dispatcher.as_ref().and_then(Dispatcher::next);
        // Without an array, which would be built and searched in each turn.
        let wake = sooner(self.wheel.next(), self.cx.wake());
        let wake = sooner(sooner(wake, second), paused);
        sooner(sooner(wake, grace), retry)
    }

    /// Waits until `until` for events and processes them.
    ///
    /// # Errors
    /// The back end's, if it cannot continue.
    pub(crate) fn turn(&mut self, until: Option<Instant>) -> std::io::Result<()> {
        let mut done = std::mem::take(&mut self.done);
        if self.backend.stands_by() {
            self.stand_by();
        }
        self.now = self.backend.wait(until, &mut done)?;
        self.cx.turn(self.now, self.backend.wall());
        if self.cx.has_new_bounds() {
            self.for_each(|worker, id| worker.tell_aside(id, Event::Reconsider));
        }
        if !self.again.is_empty() {
            self.go_on();
        }
        if !self.finished.is_empty() {
            self.deliver();
        }
        if !self.arrivals.is_empty() {
            self.arrive();
        }
        for done in done.drain(..) {
            match done {
                Done::Incoming { listener } => {
                    if !self.waiting.contains(&listener) {
                        self.waiting.push(listener);
                    }
                }
                Done::Woken => {
                    if let Hands::Pool(hand) = &self.hands {
                        hand.take_finished(&mut self.finished);
                    }
                    self.deliver();
                    self.take_back();
                }
                Done::Contended { id } => self.tell_aside(id, Event::GiveWay(Need::Place)),
                other => self.run(First::Done(other)),
            }
        }
        self.done = done;
        if self.shared_state.is_room_wanted(self.now) && !self.backend.stands_by() {
            self.give_way();
        }
        self.relieve();
        if !self.waiting.is_empty() {
            self.accept();
        }
        if self.wheel.is_due(self.now) {
            self.expire();
        }
        if self
            .dispatcher
            .as_ref()
            .is_some_and(|dispatcher| dispatcher.next().is_some())
        {
            self.take_back();
        }
        if self.control.is_draining() {
            self.drain();
        }
        if self.peers.has_news() {
            self.tell_news();
        }
        if let Some(what) = self.backend.withheld() {
            self.cx.withheld(what);
        }
        if self.cx.is_timed() {
            self.cx.rest(self.backend.now(), self.backend.line());
        }
        Ok(())
    }

    /// Continues connections that used up their share of the last turn.
    fn go_on(&mut self) {
        for (id, owed) in std::mem::take(&mut self.again) {
            match (self.conns.get_mut(id).map(|conn| conn.state), owed) {
                // One that has closed its half since reads until its peer does so.
                (Some(State::Queued | State::Duplex(_) | State::Reading), Owed::Receive) => {
                    self.run(First::Step(Next::Receive(id)));
                }
                (Some(State::Queued | State::Duplex(_)), Owed::Sent) => {
                    self.run(First::Step(Next::Sent(id)));
                }
                (None, Owed::Receive) => self.go_on_with_peer(id),
                _ => {}
            }
        }
    }

    /// Follows a completion as far as possible without waiting. A session that panics loses only its own connection.
    /// Tells the budget if much memory was taken meanwhile.
    #[inline]
    fn run(&mut self, first: First<JobOf<V::Session>>) {
        // A panic is one of the session that owns the connection.
        let id = first.id().map(|id| match self.peers.are_any() {
            true => self.peers.owner(id).unwrap_or(id),
            false => id,
        });
        if catch_unwind(AssertUnwindSafe(|| self.follow(first))).is_err() {
            self.bury(id);
        }
        if self.relief.is_overdue(self.backend.held() + self.peers.held()) {
            self.relieve_early();
        }
    }

    #[inline]
    fn follow(&mut self, first: First<JobOf<V::Session>>) {
        let mut rounds_left = ROUNDS_MAX;
        let mut next = match first {
            // Nearly every request begins with input, which needs no call of `take`.
            First::Done(Done::Input { id }) => self.input(id),
            First::Done(done) => self.take(done, &mut rounds_left),
            First::Output(id, ticket, output) => self.tell(id, Event::Done(ticket, output)),
            First::Step(next) => next,
        };
        loop {
            next = match next {
                Next::Poll(id) => self.poll(id, &mut rounds_left),
                Next::Receive(id) => self.receive(id, &mut rounds_left),
                Next::Sent(id) => self.sent(id),
                Next::Park => return,
            };
        }
    }

    /// Removes a connection whose session panicked and can no longer be called.
    #[cold]
    fn bury(&mut self, id: Option<Id>) {
        tracing::error!("a session panicked: its connection is closed; others stay open");
        self.out.reset();
        let Some(id) = id else { return };
        if self.conns.get_mut(id).is_none() {
            self.bury_peer(id);
        }
        let _ = self.backend.submit(Op::Close { id });
        if let Some(conn) = self.conns.remove_at(id) {
            self.forget(id);
            self.lay_to_rest(conn.session, conn.listener);
        }
    }

    /// Submits an operation that may leave output waiting.
    #[inline]
    fn submit_output(&mut self, id: Id, op: Op, rounds_left: &mut u32) -> Next {
        match self.backend.submit(op) {
            Some(Done::Sent { id, out }) => self.all_sent(id, out, rounds_left),
            Some(done) => self.take(done, rounds_left),
            None => {
                self.watch(id);
                Next::Park
            }
        }
    }

    /// Reports an event to the session; the session is polled next.
    #[inline]
    fn tell(&mut self, id: Id, event: Event<'_, JobOf<V::Session>>) -> Next {
        let Some(conn) = self.conns.get_mut(id) else {
            return Next::Park;
        };
        conn.session
            .handle(&mut self.cx, event, &mut self.out.tx, self.now);
        Next::Poll(id)
    }

    /// Processes any completion. Never inlined: callers process the frequent ones themselves, so that their stack frames
    /// stay small.
    #[inline(never)]
    fn take(&mut self, done: Done, rounds_left: &mut u32) -> Next {
        match done {
            Done::Recv { id, buf } => self.received(id, buf),
            Done::Sent { id, out } => self.all_sent(id, out, rounds_left),
            Done::Input { id } => self.input(id),
            Done::Ready { id } if self.conns.get_mut(id).is_none() => self.take_of_peer(Done::Ready { id }),
            Done::Ready { id } => self.submit_output(id, Op::Resume { id, warmed: Ok(()) }, rounds_left),
            Done::Accepted { id, peer } => self.accepted(id, peer),
            Done::Eof { id } => {
                let Some(conn) = self.conns.get_mut(id) else {
                    return self.take_of_peer(Done::Eof { id });
                };
                conn.state = conn.state.received();
                conn.eof = true;
                self.tell(id, Event::Eof)
            }
            Done::Progress { id, bytes } => {
                if let Some(conn) = self.conns.get_mut(id) {
                    // Output is under way, so there is nothing to poll for; see `session`.
                    conn.session
                        .handle(&mut self.cx, Event::Progress(bytes), &mut self.out.tx, self.now);
                    self.out.reset();
                    self.watch(id);
                }
                Next::Park
            }
            Done::Cold { id, range } => {
                count(&self.counters.cold_reads, 1);
                self.offload(id, Work::Warm(range))
            }
            Done::Failed { id, loss } if self.conns.get_mut(id).is_none() => {
                self.take_of_peer(Done::Failed { id, loss })
            }
            Done::Failed { id, loss } => self.lose(id, loss),
            // The turn itself handles these.
            Done::Incoming { .. } | Done::AcceptFailed { .. } | Done::Woken | Done::Contended { .. } => {
                Next::Park
            }
        }
    }

    /// A connection has input. It is received if it is still waited for.
    #[inline]
    fn input(&mut self, id: Id) -> Next {
        if self.dispatcher.is_some() && self.hand_over(id) {
            return Next::Park;
        }
        match self.conns.get_mut(id).map(|conn| conn.state) {
            Some(state) if state.is_receiving() => Next::Receive(id),
            Some(_) => Next::Park,
            None => self.take_of_peer(Done::Input { id }),
        }
    }

    /// Passes bytes on to the session, which is polled next.
    #[inline]
    fn received(&mut self, id: Id, buf: Buf) -> Next {
        let Some(conn) = self.conns.get_mut(id) else {
            return self.take_of_peer(Done::Recv { id, buf });
        };
        conn.state = conn.state.received();
        if conn.half_closed
            && let Some(left) = self.lingering.get_mut(&id.index)
        {
            let Some(less) = left.checked_sub(buf.len as u32) else {
                self.backend.recycle(buf);
                return self.close(id);
            };
            *left = less;
        }
        if self.bounds.manner.fresh_clock {
            self.now = self.backend.now();
            self.cx.turn(self.now, self.backend.wall());
        }
        conn.session.handle(
            &mut self.cx,
            Event::Bytes(buf.filled()),
            &mut self.out.tx,
            self.now,
        );
        self.backend.recycle(buf);
        Next::Poll(id)
    }

    /// The kernel has taken all output of a connection. Keeps the box for reuse; the event follows, in the next turn if the
    /// connection's share of this one is used up.
    #[inline]
    fn all_sent(&mut self, id: Id, mut out: Box<Out>, rounds_left: &mut u32) -> Next {
        if self.peers.are_any() && self.conns.get_mut(id).is_none() {
            return self.take_of_peer(Done::Sent { id, out });
        }
        out.reset();
        if self.spare.len() < SPARE_OUT_MAX {
            self.spare.push(out);
        }
        self.take_turn(id, Owed::Sent, rounds_left)
    }

    /// Takes the connection's next step if its share of this turn is not used up.
    #[inline]
    fn take_turn(&mut self, id: Id, owed: Owed, rounds_left: &mut u32) -> Next {
        if *rounds_left == 0 {
            return self.put_off(id, owed);
        }
        *rounds_left -= 1;
        match owed {
            Owed::Receive => Next::Receive(id),
            Owed::Sent => Next::Sent(id),
        }
    }

    /// Leaves the connection's next step to the next turn.
    #[cold]
    fn put_off(&mut self, id: Id, owed: Owed) -> Next {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.state = match (conn.state, owed) {
                // What is owed counts as under way.
                (State::Duplex(_), Owed::Receive) => conn.state.receiving(),
                (State::Duplex(_), Owed::Sent) => conn.state,
                _ => State::Queued,
            };
            self.again.push((id, owed));
            self.rearm(id);
        }
        Next::Park
    }

    #[inline]
    fn receive(&mut self, id: Id, rounds_left: &mut u32) -> Next {
        let Some(conn) = self.conns.get_mut(id) else {
            return Next::Park;
        };
        conn.state = conn.state.receiving();
        match self.backend.submit(Op::Recv { id }) {
            Some(Done::Recv { id, buf }) => self.received(id, buf),
            Some(done) => self.take(done, rounds_left),
            None => {
                conn.rearm(id, &mut self.wheel);
                Next::Park
            }
        }
    }

    #[inline]
    fn sent(&mut self, id: Id) -> Next {
        let Some(conn) = self.conns.get_mut(id) else {
            return Next::Park;
        };
        conn.state = conn.state.sent();
        if self.cx.wants_path()
            && let Some(path) = self.backend.path(id)
        {
            conn.session
                .handle(&mut self.cx, Event::Path(path), &mut self.out.tx, self.now);
        }
        conn.session
            .handle(&mut self.cx, Event::Sent, &mut self.out.tx, self.now);
        Next::Poll(id)
    }

    /// Asks the session for its action and starts it; output in `tx` goes first, whatever the action.
    #[inline]
    fn poll(&mut self, id: Id, rounds_left: &mut u32) -> Next {
        let Some(conn) = self.conns.get_mut(id) else {
            return Next::Park;
        };
        match conn.session.poll(&mut self.cx, &mut self.out.tx, self.now) {
            // A response, and the wait for the next request, in as few steps as possible.
            Action::Write if conn.state == State::Turn && !self.out.tx.is_empty() => {
                conn.state = State::Sending;
                let out = self.take_output();
                self.submit_output(id, Op::Send { id, out }, rounds_left)
            }
            Action::Read
                if conn.state == State::Turn && self.out.tx.is_empty() && !self.is_aside && !conn.eof =>
            {
                self.take_turn(id, Owed::Receive, rounds_left)
            }
            Action::Duplex { read, patient } => self.both_ways(id, read, patient, rounds_left),
            action => self.act(id, action, rounds_left),
        }
    }

    /// Starts an action; output in `tx` goes first, whatever the action.
    fn act(&mut self, id: Id, action: Action<JobOf<V::Session>>, rounds_left: &mut u32) -> Next {
        let Some(conn) = self.conns.get_mut(id) else {
            return Next::Park;
        };
        let action = match action {
            Action::Start(ticket, job) => {
                self.go_both_ways(id);
                return self.begin(id, ticket, job);
            }
            Action::Peer => return self.ask(id, rounds_left),
            Action::End => return self.end_output(id),
            Action::Abort => return self.end(id, Op::Abort { id }),
            other => other,
        };
        if !self.out.tx.is_empty() {
            if conn.state == State::Reading {
                let _ = self.backend.submit(Op::Pause { id });
            }
            conn.state = conn.state.sending();
            if let Action::Wait(job) = action {
                self.held.insert(id.index, job);
                self.is_aside = true;
            }
            let out = self.take_output();
            return self.submit_output(id, Op::Send { id, out }, rounds_left);
        }
        if self.is_aside && !conn.state.is_sending() {
            let job = patience::clear(&mut self.looks, &mut self.held, &mut self.is_aside, id);
            if let Some(job) = job {
                return self.begin(id, Ticket::ONLY, job);
            }
        }
        match action {
            Action::Read | Action::HalfClose => {
                if matches!(action, Action::HalfClose) && !conn.half_closed {
                    conn.half_closed = true;
                    self.lingering.insert(id.index, self.bounds.linger_bytes_max);
                    let _ = self.backend.submit(Op::ShutdownWrite { id });
                }
                if conn.eof {
                    // Nothing is due, and nothing will come.
                    return self.close(id);
                }
                if conn.state.is_receiving() {
                    conn.state = State::Reading;
                    self.rearm(id);
                    return Next::Park;
                }
                self.take_turn(id, Owed::Receive, rounds_left)
            }
            Action::Wait(job) => self.begin(id, Ticket::ONLY, job),
            Action::Close => self.cut_off(id),
            // The last five were dealt with before.
            Action::Write
            | Action::Stay
            | Action::Start(..)
            | Action::Duplex { .. }
            | Action::Peer
            | Action::End
            | Action::Abort => {
                self.rearm(id);
                Next::Park
            }
        }
    }

    /// The session's output, with an empty box in its place.
    #[inline]
    fn take_output(&mut self) -> Box<Out> {
        let empty = self.spare.pop();
        let empty = empty.unwrap_or_else(|| Out::new(self.bounds.manner.writing));
        std::mem::replace(&mut self.out, empty)
    }

    fn accepted(&mut self, id: Id, peer: SocketAddr) -> Next {
        count(&self.counters.accepted, 1);
        let pause = self.bounds.manner.accept_pause;
        if !pause.is_zero() {
            lock_calls::hold_for(pause);
            // The session's deadlines begin after the pause.
            self.now = self.backend.now();
            self.cx.turn(self.now, self.backend.wall());
        }
        let accepted = Accepted {
            listener: self.accepting,
            ..Accepted::at_first(peer)
        };
        let Some(session) = self.service.accept(&mut self.cx, &accepted, self.now) else {
            count(&self.counters.refused, 1);
            let _ = self.backend.submit(Op::Close { id });
            return Next::Park;
        };
        let listener = accepted.listener;
        self.shared_state.enter(listener, self.now);
        let conn = Conn {
            session,
            due: NEVER,
            state: State::Turn,
            eof: false,
            half_closed: false,
            listener,
        };
        self.conns.insert_at(id, conn);
        self.show_open();
        Next::Poll(id)
    }

    fn close(&mut self, id: Id) -> Next {
        self.end(id, Op::Close { id })
    }

    /// Closes a connection that this side gives up; one that did not take its output is reset.
    fn cut_off(&mut self, id: Id) -> Next {
        let is_sending = self.conns.get_mut(id).is_some_and(|conn| conn.state.is_sending());
        match is_sending {
            true => self.end(id, Op::Abort { id }),
            false => self.close(id),
        }
    }

    fn end(&mut self, id: Id, op: Op) -> Next {
        let Some(mut conn) = self.conns.remove_at(id) else {
            return Next::Park;
        };
        let _ = self.backend.submit(op);
        self.forget(id);
        self.shared_state.leave(conn.listener);
        conn.session.closed(&mut self.cx, self.now);
        self.out.reset();
        Next::Park
    }

    /// Removes an ended connection from all tables.
    fn forget(&mut self, id: Id) {
        self.wheel.disarm(id.index);
        if !self.held.is_empty() {
            self.held.remove(&id.index);
        }
        if !self.lingering.is_empty() {
            self.lingering.remove(&id.index);
        }
        if !self.looks.is_empty() {
            self.looks.remove(&id.index);
        }
        if !self.awaited.is_empty() {
            self.awaited.remove(&id.index);
        }
        if !self.started.is_empty() {
            self.started.remove(&id.index);
        }
        if self.peers.has_any(id) {
            self.part_with_peers(id, false);
        }
        self.show_open();
        if self.accept_paused_until.is_some() {
            // A descriptor and a place are free again.
            self.accept_paused_until = Some(self.now);
        }
    }

    fn lose(&mut self, id: Id, loss: Loss) -> Next {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.session
                .handle(&mut self.cx, Event::Lost(loss), &mut self.out.tx, self.now);
        }
        if self.peers.has_any(id) {
            self.part_with_peers(id, true);
        }
        self.close(id)
    }

    /// Starts a job; continues at once with its output if it did not block. A session that waits for it alone rests; one
    /// with several is polled next.
    fn begin(&mut self, id: Id, ticket: Ticket, job: JobOf<V::Session>) -> Next {
        count(&self.counters.jobs, 1);
        let job = match &self.hands {
            Hands::Held { try_first: false, .. } => job,
            Hands::Own(_) | Hands::Pool(_) | Hands::Held { .. } => match job.try_now() {
                Ok(output) => return self.tell(id, Event::Done(ticket, output)),
                Err(job) => job,
            },
        };
        let job_id = self.job_id(ticket);
        let is_alone = ticket == Ticket::ONLY;
        if is_alone && let Some(conn) = self.conns.get_mut(id) {
            conn.state = State::Working;
        }
        let work = Work::Job(job_id, job);
        if let Hands::Own(crew) = &self.hands {
            let crew = Arc::clone(crew);
            return self.wait_for(id, work, &crew);
        }
        count(&self.counters.offloaded, 1);
        if is_alone {
            self.awaited.insert(id.index, job_id);
            return self.offload(id, work);
        }
        *self.started.entry(id.index).or_default() += 1;
        let _ = self.offload(id, work);
        Next::Poll(id)
    }

    /// A name for a job that no other has.
    fn job_id(&mut self, ticket: Ticket) -> JobId {
        self.jobs += 1;
        JobId {
            number: self.jobs,
            ticket,
        }
    }

    fn offload(&mut self, id: Id, work: Work<JobOf<V::Session>>) -> Next {
        let until = self.conns.get_mut(id).and_then(|conn| conn.session.deadline());
        // A session of several jobs counts on each: none is dropped for being late.
        let until = until.filter(|_| work.is_awaited_alone());
        match &mut self.hands {
            Hands::Own(_) => self.finished.push(work.run(id)),
            Hands::Pool(hand) => hand.give(id, work, until),
            Hands::Held { pieces, .. } => pieces.push_back((id, work)),
        }
        self.watch(id);
        Next::Park
    }

    /// Processes work that others finished.
    pub(crate) fn finish(&mut self, finished: Finished<<JobOf<V::Session> as Job>::Output>) {
        self.finished.push(finished);
    }

    fn deliver(&mut self) {
        for finished in std::mem::take(&mut self.finished) {
            match finished {
                Finished::Job(id, job_id, output) => {
                    if self.is_awaited(id, job_id) {
                        self.run(First::Output(id, job_id.ticket, output));
                    }
                }
                Finished::Warm(id, warmed) => {
                    if let Some(done) = self.backend.submit(Op::Resume { id, warmed }) {
                        self.run(First::Done(done));
                    }
                }
                Finished::Panicked(id, job_id) => {
                    if self.is_awaited(id, job_id) {
                        let _ = self.lose(id, Loss::File(libc::EIO));
                    }
                }
            }
        }
    }

    /// Moves the connection forward in the wheel if its deadline is now earlier.
    fn rearm(&mut self, id: Id) {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.rearm(id, &mut self.wheel);
        }
    }

    fn expire(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.expire(self.now, &mut due);
        for index in due.drain(..) {
            let Some(id) = self.conns.id_at(index) else {
                self.expire_peer(index);
                continue;
            };
            let conn = self.conns.get_mut(id).expect("its id was just made");
            conn.due = NEVER;
            if conn.state.is_sending() {
                self.look(id);
            }
            match self.deadline(id) {
                Some((at, state)) if at > self.now => {
                    let at = patience::next(at, state, self.now);
                    if let Some(conn) = self.conns.get_mut(id) {
                        conn.wake_at(id, at, &mut self.wheel);
                    }
                }
                Some(_) => {
                    self.fire(id);
                    self.watch(id);
                }
                None => {}
            }
        }
        self.due = due;
    }

    fn fire(&mut self, id: Id) {
        self.tell_aside(id, Event::Deadline);
    }

    /// Reports an event that did not come from the peer.
    fn tell_aside(&mut self, id: Id, event: Event<'_, JobOf<V::Session>>) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        let idle = matches!(conn.state, State::Reading | State::Turn | State::Duplex(_));
        if conn.state == State::Working && matches!(event, Event::Deadline) {
            let mut next = Next::Park;
            if catch_unwind(AssertUnwindSafe(|| next = self.late(id))).is_err() {
                return self.bury(Some(id));
            }
            return self.run(First::Step(next));
        }
        let told = catch_unwind(AssertUnwindSafe(|| {
            conn.session
                .handle(&mut self.cx, event, &mut self.out.tx, self.now);
            // While output or a job is under way, a session can only give up.
            !idle
                && matches!(
                    conn.session.poll(&mut self.cx, &mut self.out.tx, self.now),
                    Action::Close
                )
        }));
        match told {
            Err(_) => self.bury(Some(id)),
            Ok(_) if idle => self.run(First::Step(Next::Poll(id))),
            Ok(gives_up) => {
                self.out.reset();
                if gives_up {
                    let _ = self.cut_off(id);
                }
            }
        }
    }
}

/// The earlier of two instants, as far as there are any.
#[inline]
fn sooner(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
