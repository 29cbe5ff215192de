//! The client side: many connections opened by this process, each for a line that also sleeps.
//!
//! ```text
//!                       connected, bytes, eof, lost, woken
//!   driver (one thread) ──────────────────────────────────▶ Crew
//!        ▲                                                    │
//!        └──────── connect, send, close, wake, end ◀── Port ──┘
//! ```
//! A [`Crew`] is a state machine one level above a session: it holds many *lines*, numbered from 0. A line has at most
//! one connection and one alarm. Only the crew knows what a line stands for (a user, a place in a pool). It holds no
//! socket and no clock, and answers events with commands on the [`Port`].
//!
//! Alarms lie in a wheel while they are distant (8 bytes a line, in steps of 100 ms) and in a heap when they are near.
//! They therefore fire with the accuracy of the clock, and 100,000 idle lines cost next to nothing. Connecting does not
//! block: output sent meanwhile leaves as soon as the connection is open, and `Connected` is reported then. The clock
//! is read for every event, because crews measure.
//!
//! A connection is a stream of bytes, or many streams: over QUIC, a layer carries [`Port::write`] and [`Happened::Stream`]
//! in datagrams ([`datagrams`]).

pub mod datagrams;
pub mod metered;

use crate::clock;
use crate::io::accept_mutex::AcceptMutex;
use crate::io::epoll::{Epoll, Waker};
use crate::io::{Backend, Done, Id, Op, Out};
use crate::manner::Writing;
use crate::peer::{PeerLoss, Upstream};
pub use crate::quic_info::Quic;
use crate::session::Loss;
use crate::streams::Input;
pub use crate::tcp_info::Tcp;
use crate::timer::Wheel;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Duration, Instant};

/// Granularity of distant alarms.
const COARSE: Duration = Duration::from_millis(100);
/// Receives of one connection before others have their turn.
const ROUNDS_MAX: usize = 16;
/// Minimum work per turn of the driver, whatever else waits.
const SHARE_MIN: usize = 256;
/// Output boxes kept for reuse.
const SPARE_MAX: usize = 64;
const NEVER: Instant = Instant::from_nanos(u64::MAX);
/// How often closing connections are checked. The kernel does not announce the last acknowledgment.
const GLANCE: Duration = Duration::from_millis(2);
/// How long the peer may take to close, beyond four round trips.
const PARTING: Duration = Duration::from_millis(500);

/// An event of a line.
#[derive(Debug)]
pub enum Happened<'a> {
    /// The connection is open. Reported before any other event of it.
    Connected,
    /// Bytes came.
    Bytes(&'a [u8]),
    /// This many bytes arrived and were dropped as requested ([`Port::skip`]).
    Skipped(u64),
    /// The peer closed its sending half. The connection stays until the crew closes it.
    Eof,
    /// The connection could not be opened, or failed; it is gone.
    Lost(Failing),
    /// The alarm fired. Carries the instant it was set to, so that lateness can be measured.
    Woken(Instant),
    /// The counters requested with [`Port::inspect`], or those at the end of [`Port::leave`]. Reported only if a kernel
    /// keeps counters.
    Inspected(Tcp),
    /// The counters requested with [`Port::inspect`] of a connection whose transport is QUIC.
    Measured(Quic),
    /// A layer between driver and crew, such as TLS, finished its handshake. Output requested before leaves now. Reported
    /// only by layers, after [`Happened::Connected`] and before any bytes.
    Secured(Security),
    /// A layer between driver and crew could not agree with the peer, or the peer broke the layer's rules; the connection
    /// is gone. Carries the reason for the user.
    Refused(&'a str),
    /// The peer ended the open connection with an error; it is gone. Carries the error, and whose fault it was, for the user. Reported
    /// only by transports in which peers name errors (QUIC, RFC 9000 section 10.2); an end without one is [`Happened::Eof`].
    Closed(&'a str),
    /// What has arrived of a stream, in its order, and what follows. Reported only by transports that carry many streams
    /// (QUIC), whose identifiers name them (RFC 9000 section 2.1).
    Stream(u64, &'a [u8], Input),
    /// The peer wants no more of our half of a stream (STOP_SENDING), with an application error code. Reported only by
    /// such transports.
    Stopped(u64, u64),
}

/// What a layer and the peer agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Security {
    /// The protocol version, as `TLS 1.3`.
    pub version: &'static str,
    /// The cipher suite by its registered name.
    pub suite: &'static str,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The protocol inside, by its ALPN name (RFC 7301): `h2`, `http/1.1`, or empty without agreement.
    pub protocol: &'static str,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// This machine has no descriptor, port or memory left for it: errno.
    Here(i32),
    /// It could not be opened: errno.
    Opening(i32),
    /// It failed while open: errno.
    Open(i32),
    /// The peer's half ended without the closing message of a layer: data may be missing (RFC 8446 section 6.1).
    /// Reported only by layers.
    Cut,
}

/// A state machine that holds many lines.
pub trait Crew: Send + 'static {
    /// Called once, first.
    fn start(&mut self, port: &mut Port, now: Instant);
    /// Processes an event of a line.
    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, now: Instant);
    /// A request to end: finish as soon as sensible, then call [`Port::end`].
    fn stop(&mut self, port: &mut Port, now: Instant);
    /// Another thread calls ([`Running::call`]), for example because it has queued something for this crew. Several calls may
    /// be reported as one.
    fn called(&mut self, _port: &mut Port, _now: Instant) {}
}

/// The commands of a crew. The driver carries them out in order when the crew's method returns.
#[derive(Debug, Default)]
pub struct Port {
    wishes: Vec<Wish>,
    /// Bytes of all sends among the wishes, concatenated.
    bytes: Vec<u8>,
    ended: bool,
}

/// A command for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Open a connection.
    Connect(u32),
    /// Send this many of the bytes, after those of earlier sends.
    Send(u32, usize),
    /// Send this many of the bytes on a stream, and then, if so, its end.
    Write(u32, u64, usize, bool),
    /// Give up a stream with this application error code.
    Abandon(u32, u64, u64),
    /// Close its connection with this application error code, once it is to be closed.
    Blame(u32, u64),
    /// Drop up to this many of the next bytes.
    Skip(u32, u64),
    /// Close its connection.
    Close(u32),
    /// Close its connection, and report its counters when both ends have closed.
    Leave(u32),
    /// Set its alarm.
    Wake(u32, Instant),
    /// Report the counters of its connection.
    Inspect(u32),
}

impl Port {
    /// Opens a connection for a line and closes the previous one. Send something at once: the driver recognizes an open
    /// connection by the data leaving.
    pub fn connect(&mut self, line: u32) {
        self.wishes.push(Wish::Connect(line));
    }

    /// Sends what `write` appends, as one piece.
    pub fn send(&mut self, line: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        self.wishes.push(Wish::Send(line, self.bytes.len() - before));
    }

    /// Sends what `write` appends on a stream, and its end if `end`. Only for transports that carry many streams. The first
    /// write to one of our streams opens it, as soon as the peer allows another.
    pub fn write(&mut self, line: u32, stream: u64, end: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        self.wishes
            .push(Wish::Write(line, stream, self.bytes.len() - before, end));
    }

    /// Gives up both halves of a stream with an application error code (RESET_STREAM, STOP_SENDING). Only for transports
    /// that carry many streams.
    pub fn abandon(&mut self, line: u32, stream: u64, code: u64) {
        self.wishes.push(Wish::Abandon(line, stream, code));
    }

    /// Has the connection that a line has now end with this application error code when it is closed: its peer has broken the rules.
    /// Only for transports that carry many streams.
    pub fn blame(&mut self, line: u32, code: u64) {
        self.wishes.push(Wish::Blame(line, code));
    }

    /// Drops up to this many of the next bytes unseen and reports only their number ([`Happened::Skipped`]), so the
    /// kernel need not copy them. Replaces an earlier number. A driver that gains nothing by it delivers the bytes
    /// instead.
    pub fn skip(&mut self, line: u32, bytes: u64) {
        self.wishes.push(Wish::Skip(line, bytes));
    }

    /// Closes a line's connection; no further event of it is reported.
    pub fn close(&mut self, line: u32) {
        self.wishes.push(Wish::Close(line));
    }

    /// Closes a line's connection as [`Port::close`] does, and reports the kernel's counters ([`Happened::Inspected`])
    /// once both ends have closed or too much time has passed. No other event of the connection is reported, and
    /// further input is dropped. The line may connect again meanwhile. The driver does not end before the report.
    pub fn leave(&mut self, line: u32) {
        self.wishes.push(Wish::Leave(line));
    }

    /// Sets a line's alarm and replaces an earlier one.
    pub fn wake(&mut self, line: u32, at: Instant) {
        self.wishes.push(Wish::Wake(line, at));
    }

    /// Requests the kernel's counters of a line's connection, as of when earlier commands are carried out.
    pub fn inspect(&mut self, line: u32) {
        self.wishes.push(Wish::Inspect(line));
    }

    /// Closes everything and ends this crew's run, after the reports of connections being left.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Takes the commands and the concatenated bytes of all sends: for drivers without sockets.
    pub fn take(&mut self) -> (Vec<Wish>, Vec<u8>) {
        (std::mem::take(&mut self.wishes), std::mem::take(&mut self.bytes))
    }

    /// Gives back the memory of [`Port::take`] for reuse. Commands in it are dropped.
    pub fn reuse(&mut self, mut wishes: Vec<Wish>, mut bytes: Vec<u8>) {
        wishes.clear();
        bytes.clear();
        if self.wishes.is_empty() && self.bytes.is_empty() {
            (self.wishes, self.bytes) = (wishes, bytes);
        }
    }

    /// Whether the crew has ended.
    pub fn is_ended(&self) -> bool {
        self.ended
    }
}

/// Time used by one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Wall-clock time from start to end.
    pub wall: Duration,
    /// Processor time.
    pub cpu: Duration,
}

/// How long each of several addresses may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The address of a host to use: the first that accepts a connection. A name often has an IPv6 address although the
/// server listens on IPv4 only (RFC 6724 section 2). A single address is returned untested; if none answers, the first
/// is.
pub fn answering(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let takes = |peer: &&SocketAddr| std::net::TcpStream::connect_timeout(peer, PATIENCE).is_ok();
    let found = match addresses {
        [_, _, ..] => addresses.iter().find(takes),
        _ => None,
    };
    found.or(addresses.first()).copied()
}

/// Asks all crews of a run to stop.
#[derive(Clone, Debug)]
pub struct Stopper {
    asked: Arc<AtomicBool>,
    wakers: Vec<Waker>,
    datagrams: Vec<datagrams::Stop>,
}

impl Stopper {
    /// Asks them to stop; may be called repeatedly.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::Release);
        self.wakers.iter().for_each(Waker::wake);
        self.datagrams.iter().for_each(datagrams::Stop::stop);
    }
}

/// Running crews, each on a thread of its own.
#[derive(Debug)]
pub struct Running<C> {
    threads: Vec<std::thread::JoinHandle<io::Result<(C, Usage)>>>,
    stopper: Stopper,
    /// One for each crew over TCP.
    calls: Vec<Call>,
}

/// How a crew is called.
#[derive(Clone, Debug)]
struct Call {
    is_made: Arc<AtomicBool>,
    waker: Waker,
}

/// Starts crews against one peer.
///
/// # Errors
/// The system's, if it refuses descriptors or threads.
pub fn start<C: Crew>(crews: Vec<C>, peer: SocketAddr) -> io::Result<Running<C>> {
    let wakers: Vec<Waker> = crews.iter().map(|_| Waker::new()).collect::<io::Result<_>>()?;
    let stopper = Stopper {
        asked: Arc::default(),
        wakers,
        datagrams: Vec::new(),
    };
    let mut threads = Vec::new();
    let mut calls = Vec::new();
    for (number, crew) in crews.into_iter().enumerate() {
        let asked = Arc::clone(&stopper.asked);
        let call = Call {
            is_made: Arc::default(),
            waker: stopper.wakers[number].clone(),
        };
        calls.push(call.clone());
        let thread = std::thread::Builder::new().name(format!("load-{number}"));
        threads.push(thread.spawn(move || Driver::new(crew, peer, &call.waker)?.run(&asked, &call.is_made))?);
    }
    Ok(Running {
        threads,
        stopper,
        calls,
    })
}

impl<C> Running<C> {
    /// A handle to stop them.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Calls each crew ([`Crew::called`]). Crews over datagrams are not called.
    pub fn call(&self) {
        for call in &self.calls {
            call.is_made.store(true, Ordering::Release);
            call.waker.wake();
        }
    }

    /// Whether all have ended.
    pub fn is_over(&self) -> bool {
        self.threads.iter().all(std::thread::JoinHandle::is_finished)
    }

    /// Waits for all of them; results in the order the crews were given.
    ///
    /// # Errors
    /// The error that ended one of them.
    ///
    /// # Panics
    /// If one of them has panicked.
    pub fn join(self) -> io::Result<Vec<(C, Usage)>> {
        self.threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    }
}

#[derive(Clone, Copy, Debug)]
struct Line {
    alarm: Instant,
    link: Link,
}

impl Line {
    const FRESH: Line = Line {
        alarm: NEVER,
        link: Link::None,
    };
}

/// A line's connection.
///
/// ```text
///   None ──connect──▶ Opening ──room, or an answer──▶ Open ──close, failure──▶ None
///                                                       └────leave──▶ None, and Leaving until the peer has closed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    None,
    /// Connecting; output waits in the back end.
    Opening(Id),
    Open(Id),
}

impl Link {
    fn id(self) -> Option<Id> {
        match self {
            Link::None => None,
            Link::Opening(id) | Link::Open(id) => Some(id),
        }
    }
}

struct Driver<C> {
    crew: C,
    peer: SocketAddr,
    backend: Epoll,
    lines: Vec<Line>,
    /// Connections by their slot in the back end.
    conns: Vec<Conn>,
    /// Output that waits for earlier output of the same connection, by slot.
    queued: HashMap<u32, Vec<u8>>,
    wheel: Wheel,
    near: BinaryHeap<Reverse<(Instant, u32)>>,
    port: Port,
    #[expect(
        clippy::vec_box,
        reason = "the boxes themselves travel: to an operation and back"
    )]
    spare: Vec<Box<Out>>,
    /// Operations that completed at once, in order.
    ready: VecDeque<Done>,
    /// Lines whose connection could not be opened, reported once the crew's commands are carried out.
    failed: Vec<(u32, Failing)>,
    /// Lines whose counters were requested, reported once the crew's commands are carried out.
    inspected: Vec<(u32, Tcp)>,
    /// Connections that are closing and still counted.
    leaving: Vec<Leaving>,
}

/// A connection closed by this end; its descriptor is kept for the counters until the peer has closed, too.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    id: Id,
    line: u32,
    /// The end of the wait.
    until: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Conn {
    line: u32,
    doing: Doing,
    /// How many of the next bytes to drop.
    skip: u64,
}

/// The driver's operation on a connection.
///
/// ```text
///               ┌──bytes──▶ Hearing ──told, nothing blocked──┐
///   Resting ◀───┤              │ output that blocks          ├──▶ Resting, expecting input
///               └──output──▶ Sending ◀─┘ ────all of it went──┘
/// ```
/// Input is expected in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// None: it expects input.
    Resting,
    /// The crew is processing its bytes; input is expected again afterwards.
    Hearing,
    /// Output waits for room, or for its completion to be reported. Input that comes meanwhile is processed, too.
    Sending,
}

impl<C: Crew> Driver<C> {
    fn new(crew: C, peer: SocketAddr, waker: &Waker) -> io::Result<Driver<C>> {
        Ok(Driver {
            crew,
            peer,
            backend: Epoll::new(Vec::new(), AcceptMutex::Open, waker)?,
            lines: Vec::new(),
            conns: Vec::new(),
            queued: HashMap::new(),
            wheel: Wheel::new(clock::now(), COARSE),
            near: BinaryHeap::new(),
            port: Port::default(),
            spare: Vec::new(),
            ready: VecDeque::new(),
            failed: Vec::new(),
            inspected: Vec::new(),
            leaving: Vec::new(),
        })
    }

    fn run(mut self, asked: &AtomicBool, called: &AtomicBool) -> io::Result<(C, Usage)> {
        let began = clock::now();
        let cpu = clock::thread_cpu();
        let (mut done, mut due) = (Vec::new(), Vec::new());
        self.crew.start(&mut self.port, began);
        self.obey(began);
        let mut told = false;
        while !self.port.ended {
            let woken = self.backend.wait(self.next_alarm(), &mut done)?;
            self.ready.extend(done.drain(..));
            let is_alarm = self.ready.is_empty();
            // The rest has its turn after the others that wait.
            for _ in 0..SHARE_MIN.max(self.ready.len() * ROUNDS_MAX) {
                let Some(done) = self.ready.pop_front() else {
                    break;
                };
                self.take(done);
            }
            // After events, the time has passed.
            self.ring(&mut due, if is_alarm { woken } else { clock::now() });
            if !self.leaving.is_empty() {
                self.see_off(clock::now());
            }
            if called.swap(false, Ordering::Acquire) {
                let now = clock::now();
                self.crew.called(&mut self.port, now);
                self.obey(now);
            }
            if !told && asked.load(Ordering::Acquire) {
                told = true;
                let now = clock::now();
                self.crew.stop(&mut self.port, now);
                self.obey(now);
            }
        }
        while !self.leaving.is_empty() {
            self.backend.wait(Some(clock::now() + GLANCE), &mut done)?;
            // No further events of the others are reported.
            done.clear();
            self.see_off(clock::now());
        }
        let usage = Usage {
            wall: clock::now() - began,
            cpu: clock::thread_cpu().saturating_sub(cpu),
        };
        Ok((self.crew, usage))
    }

    fn next_alarm(&self) -> Option<Instant> {
        if !self.ready.is_empty() {
            return Some(Instant::ZERO);
        }
        let near = self.near.peek().map(|Reverse((at, _))| *at);
        let glance = (!self.leaving.is_empty()).then(|| clock::now() + GLANCE);
        [near, self.wheel.next(), glance].into_iter().flatten().min()
    }

    /// Moves alarms from the wheel to the heap, and fires those that are due.
    fn ring(&mut self, due: &mut Vec<u32>, mut now: Instant) {
        self.wheel.expire(now, due);
        for line in due.drain(..) {
            let at = self.lines[line as usize].alarm;
            self.set(line, at, now);
        }
        let mut share = SHARE_MIN;
        while let (Some(&Reverse((at, line))), true) = (self.near.peek(), share > 0) {
            if at > now {
                break;
            }
            share -= 1;
            self.near.pop();
            let alarm = &mut self.lines[line as usize].alarm;
            // Otherwise it has been set anew.
            if *alarm == at {
                *alarm = NEVER;
                self.tell(line, Happened::Woken(at), now);
                now = clock::now();
            }
        }
    }

    fn set(&mut self, line: u32, at: Instant, now: Instant) {
        if at == NEVER {
            return;
        }
        // The wheel is up to one tick late, so it is set two ticks early.
        let early = Instant::from_nanos(at.as_nanos().saturating_sub(2 * COARSE.as_nanos() as u64));
        if early <= now {
            self.near.push(Reverse((at, line)));
        } else {
            self.wheel.arm(line, early);
        }
    }

    /// Reports an event to the crew and carries out its commands.
    fn tell(&mut self, line: u32, happened: Happened<'_>, now: Instant) {
        self.crew.handle(line, happened, &mut self.port, now);
        self.obey(now);
    }

    /// Carries out the crew's commands of `now`.
    fn obey(&mut self, now: Instant) {
        while !self.port.wishes.is_empty() {
            let (mut wishes, mut bytes) = self.port.take();
            let mut from = 0;
            for wish in wishes.drain(..) {
                match wish {
                    Wish::Connect(line) => self.connect(line),
                    Wish::Send(line, len) => {
                        self.send(line, &bytes[from..from + len]);
                        from += len;
                    }
                    Wish::Write(_, stream, len, _) => {
                        debug_assert!(false, "TCP carries no stream {stream}");
                        from += len;
                    }
                    Wish::Abandon(..) | Wish::Blame(..) => debug_assert!(false, "TCP carries no streams"),
                    Wish::Skip(line, bytes) => {
                        if let Some(id) = self.line(line).link.id() {
                            self.conns[id.index as usize].skip = bytes;
                        }
                    }
                    Wish::Close(line) => self.close(line),
                    Wish::Leave(line) => self.leave(line, now),
                    Wish::Wake(line, at) => {
                        self.line(line).alarm = at;
                        self.wheel.disarm(line);
                        self.set(line, at, now);
                    }
                    Wish::Inspect(line) => {
                        let id = self.line(line).link.id();
                        let tcp = id.and_then(|id| self.backend.tcp(id));
                        self.inspected.extend(tcp.map(|tcp| (line, tcp)));
                    }
                }
            }
            bytes.clear();
            self.port.wishes = wishes;
            self.port.bytes = bytes;
            for (line, tcp) in std::mem::take(&mut self.inspected) {
                let told = Happened::Inspected(tcp);
                self.crew.handle(line, told, &mut self.port, clock::now());
            }
            for (line, failing) in std::mem::take(&mut self.failed) {
                let lost = Happened::Lost(failing);
                self.crew.handle(line, lost, &mut self.port, clock::now());
            }
        }
    }

    fn line(&mut self, line: u32) -> &mut Line {
        if line as usize >= self.lines.len() {
            self.lines.resize(line as usize + 1, Line::FRESH);
        }
        &mut self.lines[line as usize]
    }

    fn connect(&mut self, line: u32) {
        self.close(line);
        let id = match open(self.peer) {
            Ok(fd) => self.backend.adopt(fd),
            Err(failing) => {
                self.failed.push((line, failing));
                return;
            }
        };
        // This back end accepts every descriptor.
        let Some(id) = id else { return };
        let conn = Conn {
            line,
            doing: Doing::Resting,
            skip: 0,
        };
        let slot = id.index as usize;
        if slot >= self.conns.len() {
            self.conns.resize(slot + 1, conn);
        }
        self.conns[slot] = conn;
        self.line(line).link = Link::Opening(id);
    }

    fn send(&mut self, line: u32, bytes: &[u8]) {
        let Some(id) = self.line(line).link.id() else {
            return;
        };
        let before = std::mem::replace(&mut self.conns[id.index as usize].doing, Doing::Sending);
        if before == Doing::Sending {
            self.queued.entry(id.index).or_default().extend_from_slice(bytes);
            return;
        }
        let mut out = self.spare.pop().unwrap_or_else(|| Out::new(Writing::default()));
        out.reset();
        out.tx.head.extend_from_slice(bytes);
        let stands = self.line(line).link == Link::Open(id);
        match self.backend.submit(Op::Send { id, out }) {
            // The crew already knows that the connection is open: no event is left to report.
            Some(Done::Sent { out, .. }) if stands => {
                self.spare(out);
                self.conns[id.index as usize].doing = before;
                if before == Doing::Resting {
                    self.expect(id);
                }
            }
            // An answer may come before all output has left: a server may refuse a request before it has read the content
            // (RFC 9112 section 9.3).
            None if stands && before == Doing::Resting => self.expect(id),
            done => self.ready.extend(done),
        }
    }

    /// Keeps a box for reuse.
    fn spare(&mut self, out: Box<Out>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(out);
        }
    }

    /// Waits for a connection's input. If some may already be there, it is read after the others that wait.
    fn expect(&mut self, id: Id) {
        self.ready.extend(self.backend.expect(id));
    }

    fn close(&mut self, line: u32) {
        let link = std::mem::replace(&mut self.line(line).link, Link::None);
        if let Some(id) = link.id() {
            if !self.queued.is_empty() {
                self.queued.remove(&id.index);
            }
            self.backend.submit(Op::Close { id });
        }
    }

    /// Closes this end of a line's connection and watches the other end. A connection with output on its way is closed
    /// completely: nothing is owed to the peer.
    fn leave(&mut self, line: u32, now: Instant) {
        let Link::Open(id) = self.line(line).link else {
            return self.close(line);
        };
        let patience = self.backend.tcp(id).map(|tcp| PARTING + tcp.rtt * 4);
        let Some(patience) = patience.filter(|_| self.doing(id) != Doing::Sending) else {
            return self.close(line);
        };
        self.line(line).link = Link::None;
        self.backend.submit(Op::ShutdownWrite { id });
        self.leaving.push(Leaving {
            id,
            line,
            until: now + patience,
        });
    }

    /// Reports connections that both ends have closed, and those whose wait has expired.
    fn see_off(&mut self, now: Instant) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.retain(|one| {
            let tcp = self.backend.tcp(one.id);
            if tcp.is_some_and(|tcp| !tcp.is_over) && now < one.until {
                return true;
            }
            self.backend.submit(Op::Close { id: one.id });
            self.inspected.extend(tcp.map(|tcp| (one.line, tcp)));
            false
        });
        self.leaving.extend(leaving);
        for (line, tcp) in std::mem::take(&mut self.inspected) {
            self.tell(line, Happened::Inspected(tcp), now);
        }
    }

    /// The line that owns a connection, if it is still open.
    fn owner(&self, id: Id) -> Option<u32> {
        let line = self.conns.get(id.index as usize)?.line;
        (self.lines.get(line as usize)?.link.id() == Some(id)).then_some(line)
    }

    fn doing(&self, id: Id) -> Doing {
        self.conns[id.index as usize].doing
    }

    /// Ensures that `Connected` was reported; returns the line if the connection is still open then.
    fn stands(&mut self, id: Id) -> Option<u32> {
        let line = self.owner(id)?;
        let link = &mut self.lines[line as usize].link;
        if *link == Link::Opening(id) {
            *link = Link::Open(id);
            self.tell(line, Happened::Connected, clock::now());
        }
        self.owner(id)
    }

    /// Whether the next input of a connection is to be dropped.
    fn skips(&self, id: Id) -> bool {
        let conn = self.conns.get(id.index as usize);
        conn.is_some_and(|conn| conn.skip > 0 && conn.doing == Doing::Resting) && self.owner(id).is_some()
    }

    fn drop_unseen(&mut self, id: Id) {
        match self.backend.discard(id, self.conns[id.index as usize].skip) {
            Ok(bytes) => {
                if let Some(line) = self.stands(id) {
                    let conn = &mut self.conns[id.index as usize];
                    conn.skip = conn.skip.saturating_sub(bytes);
                    conn.doing = Doing::Hearing;
                    self.tell(line, Happened::Skipped(bytes), clock::now());
                }
                self.heard(id);
            }
            Err(done) => self.ready.extend(done),
        }
    }

    /// After the crew has processed input: expects more.
    fn heard(&mut self, id: Id) {
        if self.owner(id).is_some() {
            let doing = &mut self.conns[id.index as usize].doing;
            if *doing == Doing::Hearing {
                *doing = Doing::Resting;
            }
            self.expect(id);
        }
    }

    /// Reports input that came before the connection's output failed: the answer of a server that then closed.
    #[cold]
    fn hear_last_words(&mut self, id: Id) {
        while let Some(line) = self.owner(id)
            && let Some(Done::Recv { buf, .. }) = self.backend.submit(Op::Recv { id })
        {
            self.tell(line, Happened::Bytes(buf.filled()), clock::now());
            self.backend.recycle(buf);
        }
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Input { id } if self.skips(id) => self.drop_unseen(id),
            Done::Ready { id } | Done::Input { id } => {
                let op = match done {
                    Done::Input { .. } => Op::Recv { id },
                    _ => Op::Resume { id, warmed: Ok(()) },
                };
                // Taken at once: received bytes hold a buffer. If all ready connections held one, as many buffers would
                // be needed instead of one.
                if let Some(done) = self.backend.submit(op) {
                    self.take(done);
                }
            }
            Done::Progress { id, .. } => {
                let line = self.owner(id);
                let is_new = line.is_some_and(|line| self.lines[line as usize].link == Link::Opening(id));
                if self.stands(id).is_some() && is_new {
                    self.expect(id);
                }
            }
            Done::Sent { id, out } => {
                self.spare(out);
                if self.owner(id).is_some() {
                    self.conns[id.index as usize].doing = Doing::Resting;
                }
                if let Some(line) = self.stands(id) {
                    match self.queued.remove(&id.index) {
                        Some(more) => self.send(line, &more),
                        // Otherwise the crew's own output, sent in reply, expects input later.
                        None if self.doing(id) == Doing::Resting => self.expect(id),
                        None => {}
                    }
                }
            }
            Done::Recv { id, buf } => {
                if let Some(line) = self.stands(id) {
                    let conn = &mut self.conns[id.index as usize];
                    conn.skip = conn.skip.saturating_sub(buf.filled().len() as u64);
                    if conn.doing == Doing::Resting {
                        conn.doing = Doing::Hearing;
                    }
                    self.tell(line, Happened::Bytes(buf.filled()), clock::now());
                }
                self.backend.recycle(buf);
                self.heard(id);
            }
            Done::Eof { id } => {
                if let Some(line) = self.stands(id) {
                    self.tell(line, Happened::Eof, clock::now());
                }
            }
            Done::Failed { id, loss } => {
                let (Loss::Socket(errno) | Loss::File(errno)) = loss;
                // The peer has closed its end, so the connection was open, although nothing has told so yet.
                if errno == libc::EPIPE || errno == libc::ECONNRESET {
                    self.stands(id);
                }
                let is_open = |line: u32| self.lines[line as usize].link == Link::Open(id);
                if self.owner(id).is_some_and(is_open) && self.doing(id) == Doing::Sending {
                    self.hear_last_words(id);
                }
                let Some(line) = self.owner(id) else { return };
                let failing = match self.lines[line as usize].link {
                    Link::Opening(_) => Failing::Opening(errno),
                    Link::None | Link::Open(_) => Failing::Open(errno),
                };
                self.close(line);
                self.tell(line, Happened::Lost(failing), clock::now());
            }
            // This driver neither listens nor sends files.
            Done::Incoming { .. }
            | Done::Accepted { .. }
            | Done::AcceptFailed { .. }
            | Done::Cold { .. }
            | Done::Contended { .. }
            | Done::Woken => {}
        }
    }
}

/// Starts to open a connection.
fn open(peer: SocketAddr) -> Result<OwnedFd, Failing> {
    crate::io::open(&Upstream::Tcp(peer)).map_err(|loss| match loss {
        PeerLoss::Opening(errno) => Failing::Opening(errno),
        PeerLoss::Here(errno) => Failing::Here(errno),
        other => unreachable!("opening a socket ends in no other way: {other}"),
    })
}

#[cfg(test)]
mod tests;
