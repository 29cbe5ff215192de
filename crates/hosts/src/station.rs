//! The application of the server's host: sessions of a real service, on workers that share processors, locks, memory
//! and a disk.
//!
//! ```text
//!   opened ──▶ waits for a worker ──▶ SERVED: its program runs ──▶ idle: waits for a request ──▶ closed
//! ```
//! A connection has a program: what its worker still has to do for it. The session decides what is answered; here is
//! decided what that costs. Sessions keep the calling order of [`runtime::session`] and get one request at a time. A
//! worker that waits for the disk or a lock serves nobody; one that waits for its peer does so only if it serves many
//! connections ([`Concurrency::Events`]).

use crate::costs::{Answer, Costs, Piece};
use crate::disk::Disk;
use crate::lock::Lock;
use crate::memory::{Memory, Reads};
use crate::parameters::{Concurrency, Values};
use crate::processors::{Processors, Task};
use crate::requests::{Input, Protocol};
use bytes::Bytes;
use core::net::{Ipv4Addr, SocketAddr};
use netsim::{Application, Conn, Happened, Work};
use runtime::fs::Wait;
use runtime::session::{
    Accepted, Action, Body, Context, Event, Job, JobOf, Loss, Service, Session, Ticket, Tx,
};
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use units::{Duration, Instant, UnixTime};

/// Noon of a day in 1997: the civil time at virtual time zero.
const WALL: i64 = 867_153_600;
/// Most bytes kept of requests that a session does not take; a connection that sends more is reset.
const INPUT_MAX: usize = 1 << 20;
/// Timers: a worker's processor time or disk request ends; a session's deadline comes.
const DEADLINE: u64 = 1 << 32;
const DISK: u64 = 1 << 33;
const NUMBER: u64 = DEADLINE - 1;

/// One thing to do for a connection.
#[derive(Debug)]
enum Op {
    /// Processor time.
    Run(Task, Duration),
    Take(usize),
    Release(usize),
    Load(Reads),
    Accept,
    /// Hands the next request to the session, of HTTP/2 with the frames before it.
    Request,
    Send(Piece),
    Sent,
    HalfClose,
    Eof,
    Deadline,
    Close,
    Abort,
}

/// A connection.
struct Served<S: Session> {
    number: u64,
    session: Option<S>,
    tx: Tx,
    program: VecDeque<Op>,
    input: Input,
    worker: Option<usize>,
    /// Everything sent has entered the send buffer.
    drained: bool,
    /// The session takes input.
    reading: bool,
    /// It has requests that are not answered yet: its process is in memory.
    awake: bool,
    /// A response is being written: it has the memory of a connection that is served.
    serving: bool,
    /// The request whose answer has not begun: its file and the file's bytes.
    asked: Option<(u32, u64)>,
    has_eof: bool,
    half_closed: bool,
    /// TCP has given the connection up.
    gone: bool,
    armed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not there, or without a connection.
    Free,
    Ready,
    Running(usize),
    /// For its peer or a connection.
    Waiting,
    /// For the disk or a lock.
    Blocked,
}

#[derive(Debug)]
struct Worker {
    state: State,
    /// The connection that it serves now.
    conn: Option<Conn>,
    /// Connections with something to do, of a worker that serves many.
    inbox: VecDeque<Conn>,
}

/// Totals of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Requests handed to sessions.
    pub requests: u64,
    /// Connections opened.
    pub connections: u64,
    /// Requests whose file was not in memory.
    pub misses: u64,
    /// Processes and threads made after the start.
    pub made: u64,
    /// Most connections that had to wait for a worker at once.
    pub backlog_max: usize,
}

/// A server on its host.
pub(crate) struct Station<V: Service> {
    service: V,
    cx: <V::Session as Session>::Cx,
    costs: Costs,
    concurrency: Concurrency,
    protocol: Protocol,
    workers: Vec<Worker>,
    /// Workers without a connection; the last one to become idle is the first to be used.
    idle: Vec<usize>,
    /// Numbers of workers that have ended.
    ended: Vec<usize>,
    backlog: VecDeque<Conn>,
    conns: BTreeMap<Conn, Served<V::Session>>,
    numbers: BTreeMap<u64, Conn>,
    next: u64,
    files: BTreeMap<Box<str>, (u32, u64)>,
    locks: [Lock; 2],
    pub(crate) processors: Processors,
    pub(crate) memory: Memory,
    pub(crate) disk: Disk,
    pub(crate) counts: Counts,
}

impl<V: Service> Station<V> {
    /// A server that has not started. `files` are the paths that it will be asked for, with their lengths.
    pub(crate) fn new(
        service: V,
        concurrency: Concurrency,
        protocol: Protocol,
        values: &Values,
        files: impl Iterator<Item = (Box<str>, u64)>,
    ) -> Station<V> {
        let costs = Costs::new(values, concurrency);
        let cx = service.context(0);
        let start = match concurrency {
            Concurrency::ThreadPerRequest => 0,
            Concurrency::Processes => costs.workers_at_start,
            Concurrency::Threads | Concurrency::Events => costs.workers,
        };
        let worker = |_| Worker {
            state: State::Waiting,
            conn: None,
            inbox: VecDeque::new(),
        };
        Station {
            service,
            cx,
            concurrency,
            protocol,
            workers: (0..start).map(worker).collect(),
            idle: (0..start).rev().collect(),
            ended: Vec::new(),
            backlog: VecDeque::new(),
            conns: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next: 0,
            files: (0..)
                .zip(files)
                .map(|(n, (path, bytes))| (path, (n, bytes)))
                .collect(),
            locks: [Lock::default(), Lock::default()],
            processors: Processors::new(costs.processors, costs.switch),
            memory: Memory::new(costs.sizes),
            disk: Disk::new(costs.geometry),
            counts: Counts::default(),
            costs,
        }
    }

    /// Puts the files into memory.
    pub(crate) fn preload(&mut self) {
        for &(file, bytes) in self.files.values() {
            self.memory.file(file, bytes);
        }
    }

    /// A new connection: gives it a worker, or lets it wait for one.
    fn opened(&mut self, conn: Conn) {
        self.counts.connections += 1;
        self.next = (self.next + 1) & NUMBER;
        let number = self.next;
        self.numbers.insert(number, conn);
        self.conns.insert(
            conn,
            Served {
                number,
                session: None,
                tx: Tx::default(),
                program: VecDeque::new(),
                input: Input::new(self.protocol),
                worker: None,
                drained: true,
                reading: false,
                awake: false,
                serving: false,
                asked: None,
                has_eof: false,
                half_closed: false,
                gone: false,
                armed: false,
            },
        );
        self.backlog.push_back(conn);
        self.assign();
        self.counts.backlog_max = self.counts.backlog_max.max(self.backlog.len());
    }

    /// Gives waiting connections to workers, as long as there are any.
    fn assign(&mut self) {
        while let Some(&conn) = self.backlog.front() {
            let (worker, made) = match self.concurrency {
                Concurrency::Events => (self.conns[&conn].number as usize % self.workers.len(), None),
                Concurrency::Threads => match self.idle.pop() {
                    Some(worker) => (worker, None),
                    None => return,
                },
                Concurrency::Processes | Concurrency::ThreadPerRequest => match self.idle.pop() {
                    Some(worker) => (worker, None),
                    None if self.workers.len() - self.ended.len() >= self.costs.workers => return,
                    None => (self.make(), Some(self.costs.make)),
                },
            };
            self.backlog.pop_front();
            let Some(served) = self.conns.get_mut(&conn) else {
                continue;
            };
            served.worker = Some(worker);
            served
                .program
                .extend(made.map(|time| Op::Run(Task::ProcessControl, time)));
            served
                .program
                .push_back(Op::Run(Task::Connections, self.costs.connection));
            served.program.push_back(Op::Accept);
            self.memory.opened();
            if self.concurrency != Concurrency::Events {
                self.workers[worker].conn = Some(conn);
            }
            self.wake(conn);
        }
    }

    fn make(&mut self) -> usize {
        self.counts.made += 1;
        let fresh = Worker {
            state: State::Waiting,
            conn: None,
            inbox: VecDeque::new(),
        };
        match self.ended.pop() {
            Some(number) => {
                self.workers[number] = fresh;
                number
            }
            None => {
                self.workers.push(fresh);
                self.workers.len() - 1
            }
        }
    }

    /// A connection has something to do: its worker hears of it.
    fn wake(&mut self, conn: Conn) {
        let Some(worker) = self.conns.get(&conn).and_then(|served| served.worker) else {
            return;
        };
        let it = &mut self.workers[worker];
        if self.concurrency == Concurrency::Events && it.conn != Some(conn) && !it.inbox.contains(&conn) {
            it.inbox.push_back(conn);
        }
        let is_for_peer = it.conn.is_none() || it.conn == Some(conn);
        if it.state == State::Waiting && is_for_peer {
            it.state = State::Ready;
            self.processors.wake(worker);
        }
    }

    /// Puts ready workers on free processors.
    fn dispatch(&mut self, work: &mut Work, now: Instant) {
        while let Some((worker, place, cost)) = self.processors.dispatch() {
            self.workers[worker].state = State::Running(place);
            if cost.is_zero() {
                self.advance(worker, work, now);
            } else {
                work.timer(cost, worker as u64);
            }
        }
    }

    /// The worker leaves its processor.
    fn wait(&mut self, worker: usize, state: State) {
        if let State::Running(place) = mem::replace(&mut self.workers[worker].state, state) {
            self.processors.free(place);
        }
    }

    /// Does what the worker has to do until that takes time or has to wait.
    fn advance(&mut self, worker: usize, work: &mut Work, now: Instant) {
        loop {
            let it = &mut self.workers[worker];
            if it.conn.is_none() {
                it.conn = it.inbox.pop_front();
            }
            let Some(conn) = it.conn else {
                return self.wait(worker, State::Waiting);
            };
            let Some(served) = self.conns.get_mut(&conn) else {
                self.workers[worker].conn = None;
                if self.concurrency == Concurrency::Events {
                    continue;
                }
                return self.release(worker);
            };
            let Some(op) = served.program.pop_front() else {
                if self.settle(conn, work, now) {
                    continue;
                }
                // Nothing to do for it until its peer sends more.
                if self.concurrency == Concurrency::Events {
                    self.workers[worker].conn = None;
                    continue;
                }
                return self.wait(worker, State::Waiting);
            };
            match op {
                Op::Run(task, mut time) => {
                    self.processors.spent.add(task, time);
                    while let Some(&Op::Run(task, more)) = served.program.front() {
                        self.processors.spent.add(task, more);
                        time += more;
                        served.program.pop_front();
                    }
                    if !time.is_zero() {
                        return work.timer(time, worker as u64);
                    }
                }
                Op::Take(lock) => {
                    if !self.locks[lock].take(worker) {
                        return self.wait(worker, State::Blocked);
                    }
                }
                Op::Release(lock) => {
                    if let Some(next) = self.locks[lock].release() {
                        self.workers[next].state = State::Ready;
                        self.processors.wake(next);
                    }
                }
                Op::Load(reads) => {
                    let at = self.disk.read(reads.requests, reads.bytes, now);
                    work.timer(at.since(now), DISK | worker as u64);
                    return self.wait(worker, State::Blocked);
                }
                Op::Send(_) if served.gone => {}
                Op::Send(piece) => {
                    served.drained = false;
                    if !mem::replace(&mut served.serving, true) {
                        self.memory.serve();
                    }
                    work.write(conn, piece.into_bytes());
                    // Comes after the report that all of it has entered the send buffer, if it has at once.
                    return work.mark(worker as u64);
                }
                other => self.control(conn, other, work, now),
            }
        }
    }

    /// Operations that concern the session.
    fn control(&mut self, conn: Conn, op: Op, work: &mut Work, now: Instant) {
        let Some(served) = self.conns.get_mut(&conn) else {
            return;
        };
        match op {
            Op::Accept => {
                work.no_delay(conn, true);
                let port = (served.number % 60_000) as u16 + 1;
                let peer = SocketAddr::from((Ipv4Addr::new(198, 18, 0, 1), port));
                match self.service.accept(&mut self.cx, &Accepted::at_first(peer), now) {
                    Some(session) => {
                        served.session = Some(session);
                        self.plan(conn, now);
                    }
                    None => served.program.push_back(Op::Close),
                }
            }
            Op::Request => {
                let part = served.input.take();
                // Frames of HTTP/2 may come without a request, while the answer to another has not begun.
                if let Some(path) = &part.path {
                    served.asked = self.files.get(path.as_str()).copied();
                    self.counts.requests += 1;
                }
                served.reading = false;
                if !mem::replace(&mut served.awake, true) {
                    let reads = self.memory.wake();
                    if reads.requests > 0 {
                        served.program.push_back(Op::Load(reads));
                    }
                }
                self.tell(conn, Event::Bytes(&part.bytes), now);
            }
            Op::Sent => self.tell(conn, Event::Sent, now),
            Op::Eof => self.tell(conn, Event::Eof, now),
            Op::Deadline => {
                // The session may have been busy since.
                if served
                    .session
                    .as_ref()
                    .and_then(Session::deadline)
                    .is_some_and(|at| at <= now)
                {
                    self.tell(conn, Event::Deadline, now);
                }
            }
            Op::HalfClose => {
                if !mem::replace(&mut served.half_closed, true) {
                    work.shutdown(conn);
                }
            }
            Op::Close => self.close(conn, work, now),
            Op::Abort => {
                work.abort(conn);
                self.close(conn, work, now);
            }
            Op::Run(..) | Op::Take(_) | Op::Release(_) | Op::Load(_) | Op::Send(_) => {}
        }
    }

    /// Forgets output among the first `planned` operations if the session has given up the connection since: it does not
    /// expect to hear that it was sent.
    fn drop_output(&mut self, conn: Conn, planned: usize) {
        let Some(served) = self.conns.get_mut(&conn) else {
            return;
        };
        let ends = |op: &Op| matches!(op, Op::Close | Op::Abort);
        if served.program.iter().skip(planned).any(ends) {
            let mut at = 0;
            served.program.retain(|op| {
                at += 1;
                at > planned || !matches!(op, Op::Send(_) | Op::Sent)
            });
        }
    }

    /// Reports an event to a session and plans what it wants.
    fn tell(&mut self, conn: Conn, event: Event<'_, JobOf<V::Session>>, now: Instant) {
        if let Some(served) = self.conns.get_mut(&conn)
            && let Some(session) = &mut served.session
        {
            let planned = served.program.len();
            session.handle(&mut self.cx, event, &mut served.tx, now);
            self.plan(conn, now);
            self.drop_output(conn, planned);
        }
    }

    /// Polls a session until it waits; appends to its program what that takes.
    fn plan(&mut self, conn: Conn, now: Instant) {
        let Some(served) = self.conns.get_mut(&conn) else {
            return;
        };
        let Served {
            session: Some(session),
            tx,
            program,
            asked,
            reading,
            ..
        } = served
        else {
            return;
        };
        loop {
            let action = session.poll(&mut self.cx, tx, now);
            let (ticket, job) = match action {
                Action::Start(ticket, job) => (ticket, job),
                other if !tx.is_empty() => {
                    let Some(answer) = taken(tx) else {
                        session.handle(&mut self.cx, Event::Lost(Loss::File(0)), tx, now);
                        continue;
                    };
                    let mut is_locked = false;
                    if let Some((file, length)) = asked.take() {
                        let reads = self.memory.file(file, length);
                        self.counts.misses += u64::from(reads.requests > 0);
                        for (task, time, lock) in self.costs.request() {
                            if lock {
                                program.push_back(Op::Take(0));
                            }
                            program.push_back(Op::Run(task, time));
                            if lock {
                                program.push_back(Op::Release(0));
                            }
                        }
                        let (calls, lookup) = self.costs.lookup();
                        program.push_back(Op::Run(Task::Synchronization, calls));
                        if self.costs.whole_lock {
                            program.push_back(Op::Take(1));
                        }
                        program.push_back(Op::Run(Task::FileOperations, lookup));
                        if reads.requests > 0 {
                            program.push_back(Op::Load(reads));
                        }
                        if self.costs.whole_lock && !self.costs.lock_response {
                            program.push_back(Op::Release(1));
                        }
                        is_locked = self.costs.whole_lock && self.costs.lock_response;
                    }
                    for piece in self.costs.pieces(&answer) {
                        program.push_back(Op::Run(Task::WritingFiles, self.costs.writing(piece.len())));
                        program.push_back(Op::Send(piece));
                    }
                    if is_locked {
                        program.push_back(Op::Release(1));
                    }
                    program.push_back(Op::Sent);
                    debug_assert!(!matches!(other, Action::Wait(_)), "a job after output");
                    return;
                }
                Action::Wait(job) => (Ticket::ONLY, job),
                Action::Read | Action::Duplex { read: true, .. } => {
                    *reading = true;
                    return;
                }
                Action::HalfClose => {
                    *reading = true;
                    program.push_back(Op::Run(Task::Connections, self.costs.call));
                    program.push_back(Op::HalfClose);
                    return;
                }
                Action::Close => {
                    program.push_back(Op::Run(Task::Connections, self.costs.call));
                    program.push_back(Op::Close);
                    return;
                }
                Action::End | Action::Abort => {
                    program.push_back(Op::Abort);
                    return;
                }
                Action::Peer => unreachable!("simulated servers open no connections"),
                Action::Write | Action::Stay | Action::Duplex { read: false, .. } => return,
            };
            // The system's files cost what the simulated disk and memory say, not what they cost here.
            let output = job.run();
            session.handle(&mut self.cx, Event::Done(ticket, output), tx, now);
        }
    }

    /// What a connection with an empty program does next; returns whether there is anything.
    fn settle(&mut self, conn: Conn, work: &mut Work, now: Instant) -> bool {
        let Some(served) = self.conns.get_mut(&conn) else {
            return false;
        };
        if !served.reading {
            return false;
        }
        if served.input.has_part() {
            served
                .program
                .push_back(Op::Run(Task::ReadingRequests, self.costs.reading));
            served.program.push_back(Op::Request);
            return true;
        }
        served.awake = false;
        if mem::take(&mut served.serving) {
            self.memory.rest();
        }
        if mem::take(&mut served.has_eof) {
            served.reading = false;
            served
                .program
                .push_back(Op::Run(Task::ReadingRequests, self.costs.call));
            served.program.push_back(Op::Eof);
            return true;
        }
        if !served.armed
            && let Some(at) = served.session.as_ref().and_then(Session::deadline)
        {
            served.armed = true;
            work.timer(at.since(now), DEADLINE | served.number);
        }
        false
    }

    fn close(&mut self, conn: Conn, work: &mut Work, now: Instant) {
        let Some(mut served) = self.conns.remove(&conn) else {
            return;
        };
        self.numbers.remove(&served.number);
        if let Some(session) = &mut served.session {
            session.closed(&mut self.cx, now);
        }
        work.close(conn);
        if served.worker.is_some() {
            if served.serving {
                self.memory.rest();
            }
            self.memory.closed();
        }
        self.backlog.retain(|waiting| *waiting != conn);
    }

    /// A worker's connection is gone: it takes another one, becomes idle or ends.
    fn release(&mut self, worker: usize) {
        self.wait(worker, State::Waiting);
        let ends = match self.concurrency {
            Concurrency::ThreadPerRequest => true,
            Concurrency::Processes => self.backlog.is_empty() && self.idle.len() >= self.costs.workers_spare,
            Concurrency::Threads | Concurrency::Events => false,
        };
        if ends {
            self.workers[worker].state = State::Free;
            self.ended.push(worker);
        } else {
            self.idle.push(worker);
        }
        self.assign();
    }

    /// TCP has given a connection up: its worker finishes what it does for it, without sending, and closes.
    fn lost(&mut self, conn: Conn, work: &mut Work, now: Instant) {
        let Some(served) = self.conns.get_mut(&conn) else {
            return;
        };
        if served.worker.is_none() {
            return self.close(conn, work, now);
        }
        (served.gone, served.drained) = (true, true);
        served.program.push_back(Op::Close);
        self.wake(conn);
    }
}

impl<V: Service> Application for Station<V> {
    fn handle(&mut self, happened: Happened, work: &mut Work, now: Instant) {
        let wall = UnixTime {
            secs: WALL + (now.as_nanos() / 1_000_000_000).cast_signed(),
            nanos: (now.as_nanos() % 1_000_000_000) as u32,
        };
        self.cx.turn(now, wall);
        match happened {
            Happened::Started | Happened::Progress(..) => {}
            Happened::Opened(conn) => self.opened(conn),
            Happened::Data(conn, bytes) => {
                if let Some(served) = self.conns.get_mut(&conn) {
                    served.input.extend(&bytes);
                    if served.input.len() > INPUT_MAX {
                        work.abort(conn);
                    } else if served.program.is_empty() {
                        self.wake(conn);
                    }
                }
            }
            Happened::Drained(conn) => {
                if let Some(served) = self.conns.get_mut(&conn) {
                    served.drained = true;
                    let worker = served.worker.map(|worker| &self.workers[worker]);
                    // A worker that has just written goes on when it is told, below.
                    if worker.is_some_and(|it| it.state == State::Waiting || it.conn != Some(conn)) {
                        self.wake(conn);
                    }
                }
            }
            Happened::Reached(worker) => {
                let worker = worker as usize;
                let conn = self.workers[worker].conn;
                let waits = conn
                    .and_then(|conn| self.conns.get(&conn))
                    .is_some_and(|served| !served.drained);
                match waits {
                    false => self.advance(worker, work, now),
                    true => {
                        if self.concurrency == Concurrency::Events {
                            self.workers[worker].conn = None;
                            self.advance(worker, work, now);
                        } else {
                            self.wait(worker, State::Waiting);
                        }
                    }
                }
            }
            Happened::Finished(conn) => {
                if let Some(served) = self.conns.get_mut(&conn) {
                    served.has_eof = true;
                    if served.program.is_empty() {
                        self.wake(conn);
                    }
                }
            }
            Happened::Closed(conn, why) => {
                if why != tcp::Closed::Orderly {
                    self.tell(conn, Event::Lost(Loss::Socket(104)), now);
                }
                self.lost(conn, work, now);
            }
            Happened::Timer(token) if token & DEADLINE != 0 => {
                if let Some(conn) = self.numbers.get(&(token & NUMBER)).copied()
                    && let Some(served) = self.conns.get_mut(&conn)
                {
                    served.armed = false;
                    if served.program.is_empty() && served.reading {
                        served.program.push_back(Op::Deadline);
                        self.wake(conn);
                    }
                }
            }
            Happened::Timer(token) if token & DISK != 0 => {
                let worker = (token & NUMBER) as usize;
                self.workers[worker].state = State::Ready;
                self.processors.wake(worker);
            }
            Happened::Timer(worker) => self.advance(worker as usize, work, now),
        }
        self.dispatch(work, now);
    }
}

/// The output; `None` if a file is shorter than announced.
fn taken(tx: &mut Tx) -> Option<Answer> {
    let head = mem::take(&mut tx.head);
    let body = match tx.body.take() {
        None => Bytes::new(),
        Some(Body::Bytes(body)) => body,
        Some(Body::File(range)) => {
            let len = usize::try_from(range.len).ok()?;
            let body = range.file.read_all(range.offset, len, Wait::Block).ok()?;
            if body.len() != len {
                return None;
            }
            body.into()
        }
    };
    Some(Answer { head, body })
}
