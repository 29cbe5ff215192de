//! The other end: many connections that are opened here, each on behalf of somebody who also sleeps.
//!
//! ```text
//!                       connected, bytes, eof, lost, woken
//!   driver (one thread) ──────────────────────────────────▶ Crew
//!        ▲                                                    │
//!        └──────── connect, send, close, wake, end ◀── Port ──┘
//! ```
//! A [`Crew`] is a machine one level above a session: it holds many *lines*, numbered from 0. A line has
//! at most one connection and one alarm; what a line stands for (a user, a place in a pool) only the crew
//! knows. It holds no socket and no clock, and answers what happens with commands on the [`Port`].
//!
//! Alarms lie in a wheel while they are far (8 bytes a line, 100 ms coarse) and in a heap when they are near,
//! so that they ring to the accuracy of the clock and 100,000 sleepers cost next to nothing. A connection
//! is opened without waiting: what is sent meanwhile leaves as soon as it stands, and `Connected` is told
//! then. The clock is read for every event, because what a crew does with it is measure.

use crate::clock;
use crate::io::epoll::{Epoll, Waker};
use crate::io::turnstile::Turnstile;
use crate::io::{Backend, Done, Id, Op, Out};
use crate::session::Loss;
use crate::strategy::Writing;
use crate::timer::Wheel;
use measure::{Duration, Instant};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Grain of far alarms.
const COARSE: Duration = Duration::from_millis(100);
/// How often one connection may receive before the others have their turn.
const ROUNDS_MAX: usize = 16;
/// How much is done in one turn of the driver whatever else waits.
const SHARE_MIN: usize = 256;
/// Boxes for output kept for reuse.
const SPARE_MAX: usize = 64;
const NEVER: Instant = Instant::from_nanos(u64::MAX);
/// How often connections that are being left are looked at. Nothing says it when the last acknowledgment has come.
const GLANCE: Duration = Duration::from_millis(2);
/// How long the peer may take to close, beyond four round trips.
const PARTING: Duration = Duration::from_millis(500);

/// What happened to a line.
#[derive(Debug)]
pub enum Happened<'a> {
    /// Its connection stands. Told before anything else of it.
    Connected,
    /// Bytes came.
    Bytes(&'a [u8]),
    /// So many bytes came that the crew had no use for ([`Port::skip`]), and were dropped.
    Skipped(u64),
    /// The peer closed its sending half. The connection stays until the crew closes it.
    Eof,
    /// The connection could not be opened, or failed; it is gone.
    Lost(Failing),
    /// Its alarm rang. The instant it was set to is handed over, so that lateness can be measured.
    Woken(Instant),
    /// What was asked for with [`Port::inspect`], or counted at the end of [`Port::leave`]; told only where there is a
    /// kernel that counts.
    Inspected(Tcp),
}

/// What the kernel has counted on a connection since it began (`TCP_INFO`, tcp(7)). What follows the closing of its
/// descriptor is not among it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Smoothed round-trip time (RFC 6298), of the handshake and of what this end sent.
    pub rtt: Duration,
    /// The least round-trip time, if there is a sample.
    pub rtt_min: Option<Duration>,
    /// How long this end waits before it acknowledges alone.
    pub delayed_ack: Duration,
    /// Data bytes of the segments that come.
    pub mss: u32,
    /// Data bytes of the largest segment that the path carries, as both ends announced it; zero if that is not known.
    pub path_mss: u32,
    /// Segments that came, acknowledgments included.
    pub segments_in: u32,
    /// Segments that left, acknowledgments included.
    pub segments_out: u32,
    /// Segments that came with data in them, repeated ones included.
    pub data_segments_in: u32,
    /// Data bytes that came in order.
    pub bytes_in: u64,
    /// Data bytes that left and were acknowledged, the SYN counted as one.
    pub bytes_out: u64,
    /// Segments this end sent again.
    pub retransmitted: u32,
    /// Data bytes in them (Linux 5.4; zero where it is not counted).
    pub bytes_retransmitted: u64,
    /// Segments that came before an earlier one had (Linux 5.4; zero where it is not counted).
    pub out_of_order: u32,
    /// Whether both ends had closed by then, so that the segments of closing are counted, too: all but those an end sends
    /// again that waits lest its last acknowledgment was lost (TIME-WAIT, RFC 9293 section 3.3.2).
    pub is_over: bool,
}

/// Why a connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// This machine has no descriptor, port or memory for it: errno.
    Here(i32),
    /// It could not be opened: errno.
    Opening(i32),
    /// It failed while open: errno.
    Open(i32),
}

/// A machine that holds many lines.
pub trait Crew: Send + 'static {
    /// Called once, first.
    fn start(&mut self, port: &mut Port, now: Instant);
    /// Takes in what happened to a line.
    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, now: Instant);
    /// Somebody wants it to end: finish as soon as is sensible, then [`Port::end`].
    fn stop(&mut self, port: &mut Port, now: Instant);
}

/// What a crew wants done. Carried out when the call returns, in order.
#[derive(Debug, Default)]
pub struct Port {
    wishes: Vec<Wish>,
    /// Bytes of all sends among the wishes, one after another.
    bytes: Vec<u8>,
    ended: bool,
}

/// What a crew wants done to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Open a connection.
    Connect(u32),
    /// Send that many of the bytes, those of earlier sends taken off.
    Send(u32, usize),
    /// Drop up to so many of the bytes that come next.
    Skip(u32, u64),
    /// Close its connection.
    Close(u32),
    /// Close its connection, and say what was counted when that is done.
    Leave(u32),
    /// Set its alarm.
    Wake(u32, Instant),
    /// Say what was counted on its connection.
    Inspect(u32),
}

impl Port {
    /// Opens a connection for a line, and closes the one it had. Send something at once: when that
    /// leaves is how the connection is known to stand.
    pub fn connect(&mut self, line: u32) {
        self.wishes.push(Wish::Connect(line));
    }

    /// Sends what `write` appends, as one piece.
    pub fn send(&mut self, line: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        self.wishes.push(Wish::Send(line, self.bytes.len() - before));
    }

    /// Has up to so many of the bytes that come next dropped unseen, and only their number told
    /// ([`Happened::Skipped`]): the kernel need not copy them then. A number told before is forgotten. A driver that would
    /// gain nothing by it shows them all the same.
    pub fn skip(&mut self, line: u32, bytes: u64) {
        self.wishes.push(Wish::Skip(line, bytes));
    }

    /// Closes a line's connection; nothing more is told of it.
    pub fn close(&mut self, line: u32) {
        self.wishes.push(Wish::Close(line));
    }

    /// Closes a line's connection as [`Port::close`] does, and has told what the kernel has counted once both ends
    /// have closed, or too much time has gone by ([`Happened::Inspected`]); nothing else is told of it. What the peer still
    /// sends is dropped. The line may be connected anew meanwhile. The driver does not end before.
    pub fn leave(&mut self, line: u32) {
        self.wishes.push(Wish::Leave(line));
    }

    /// Sets a line's alarm; an earlier one is forgotten.
    pub fn wake(&mut self, line: u32, at: Instant) {
        self.wishes.push(Wish::Wake(line, at));
    }

    /// Asks what the kernel has counted on a line's connection, as it is when earlier wishes are carried out.
    pub fn inspect(&mut self, line: u32) {
        self.wishes.push(Wish::Inspect(line));
    }

    /// Closes everything and ends the run of this crew; what is being left is told of first.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Takes out what is wanted, with the bytes of all sends one after another: for drivers without sockets.
    pub fn take(&mut self) -> (Vec<Wish>, Vec<u8>) {
        (std::mem::take(&mut self.wishes), std::mem::take(&mut self.bytes))
    }

    /// Whether the crew has ended.
    pub fn is_ended(&self) -> bool {
        self.ended
    }
}

/// What one thread used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// From its start to its end.
    pub wall: Duration,
    /// Processor time.
    pub cpu: Duration,
}

/// How long one of several addresses may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Which address of a host to use: the first that takes a connection, as a name often has one for IPv6 where
/// a server listens on IPv4 alone (RFC 6724 section 2). Without asking if there is just one; the first if none answers.
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
}

impl Stopper {
    /// Asks once or more often.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::Release);
        self.wakers.iter().for_each(Waker::wake);
    }
}

/// Crews at work, each on a thread of its own.
#[derive(Debug)]
pub struct Running<C> {
    threads: Vec<std::thread::JoinHandle<io::Result<(C, Usage)>>>,
    stopper: Stopper,
}

/// Sets crews to work against one peer.
///
/// # Errors
/// What the system says to new descriptors or threads.
pub fn start<C: Crew>(crews: Vec<C>, peer: SocketAddr) -> io::Result<Running<C>> {
    let wakers: Vec<Waker> = crews.iter().map(|_| Waker::new()).collect::<io::Result<_>>()?;
    let stopper = Stopper {
        asked: Arc::default(),
        wakers,
    };
    let mut threads = Vec::new();
    for (number, crew) in crews.into_iter().enumerate() {
        let asked = Arc::clone(&stopper.asked);
        let waker = stopper.wakers[number].clone();
        let thread = std::thread::Builder::new().name(format!("load-{number}"));
        threads.push(thread.spawn(move || Driver::new(crew, peer, &waker)?.run(&asked))?);
    }
    Ok(Running { threads, stopper })
}

impl<C> Running<C> {
    /// What stops them.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Whether all have ended.
    pub fn is_over(&self) -> bool {
        self.threads.iter().all(std::thread::JoinHandle::is_finished)
    }

    /// Waits for all of them; in the order they were given.
    ///
    /// # Errors
    /// What ended one of them.
    ///
    /// # Panics
    /// If one of them has.
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

/// What is kept of a line.
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
    /// On its way; output waits in the back end.
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
    /// What is kept of a connection, by its slot in the back end.
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
    /// What was done at once, in order.
    ready: VecDeque<Done>,
    /// Lines whose connection could not be opened, told once the crew's wishes are carried out.
    failed: Vec<(u32, Failing)>,
    /// Lines whose counters were asked for, told likewise.
    inspected: Vec<(u32, Tcp)>,
    /// Connections that are closing and still counted.
    leaving: Vec<Leaving>,
}

/// A connection this end has closed; its descriptor is kept for the counters until the peer has closed, too.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    id: Id,
    line: u32,
    /// Longer is not waited.
    until: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Conn {
    /// Whose it is.
    line: u32,
    doing: Doing,
    /// How many of the bytes that come next nobody wants to see.
    skip: u64,
}

/// What the driver has under way on a connection.
///
/// ```text
///               ┌──bytes──▶ Hearing ──told, nothing blocked──┐
///   Resting ◀───┤              │ output that blocks          ├──▶ Resting, expecting input
///               └──output──▶ Sending ◀─┘ ────all of it went──┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing: it expects input.
    Resting,
    /// The crew is being told of its bytes; input is expected again afterwards.
    Hearing,
    /// Output waits for room, or for its turn to be told of; input stays where it is until then.
    Sending,
}

impl<C: Crew> Driver<C> {
    fn new(crew: C, peer: SocketAddr, waker: &Waker) -> io::Result<Driver<C>> {
        Ok(Driver {
            crew,
            peer,
            backend: Epoll::new(Vec::new(), Turnstile::Open, waker)?,
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

    fn run(mut self, asked: &AtomicBool) -> io::Result<(C, Usage)> {
        let began = clock::now();
        let cpu = clock::thread_cpu();
        let (mut done, mut due) = (Vec::new(), Vec::new());
        self.crew.start(&mut self.port, began);
        self.obey(began);
        let mut told = false;
        while !self.port.ended {
            self.backend.wait(self.next_alarm(), &mut done)?;
            self.ready.extend(done.drain(..));
            // What is left over has its turn after the others that wait.
            for _ in 0..SHARE_MIN.max(self.ready.len() * ROUNDS_MAX) {
                let Some(done) = self.ready.pop_front() else {
                    break;
                };
                self.take(done);
            }
            self.ring(&mut due);
            if !self.leaving.is_empty() {
                self.see_off(clock::now());
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
            // Of the others nothing is told any more.
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

    /// Moves alarms from the wheel to the heap, and rings those that are due.
    fn ring(&mut self, due: &mut Vec<u32>) {
        let mut now = clock::now();
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
            // Otherwise it was set anew since.
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
        // The wheel is late by up to a tick, so that it is asked two before.
        let early = Instant::from_nanos(at.as_nanos().saturating_sub(2 * COARSE.as_nanos() as u64));
        if early <= now {
            self.near.push(Reverse((at, line)));
        } else {
            self.wheel.arm(line, early);
        }
    }

    /// Tells the crew and does what it wants.
    fn tell(&mut self, line: u32, happened: Happened<'_>, now: Instant) {
        self.crew.handle(line, happened, &mut self.port, now);
        self.obey(now);
    }

    /// Does what the crew wanted at `now`.
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
        // This back end takes every descriptor.
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
            // The crew knows already that the connection stands: nothing is left to be told in its turn.
            Some(Done::Sent { out, .. }) if stands => {
                self.spare(out);
                self.conns[id.index as usize].doing = before;
                if before == Doing::Resting {
                    self.expect(id);
                }
            }
            done => self.ready.extend(done),
        }
    }

    /// Keeps a box for reuse.
    fn spare(&mut self, out: Box<Out>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(out);
        }
    }

    /// Waits for input of a connection. Where some may be there already it has its turn after the others that wait.
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

    /// Closes this end of a line's connection and keeps an eye on the other. One with output on its way is closed at once:
    /// what it would still send is nobody's.
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

    /// Tells of connections that both ends have closed, and of those that were waited for long enough.
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

    /// Whose a connection is, if it is still open.
    fn owner(&self, id: Id) -> Option<u32> {
        let line = self.conns.get(id.index as usize)?.line;
        (self.lines.get(line as usize)?.link.id() == Some(id)).then_some(line)
    }

    fn doing(&self, id: Id) -> Doing {
        self.conns[id.index as usize].doing
    }

    /// Makes sure that `Connected` was told; whether the connection is still open then.
    fn stands(&mut self, id: Id) -> Option<u32> {
        let line = self.owner(id)?;
        let link = &mut self.lines[line as usize].link;
        if *link == Link::Opening(id) {
            *link = Link::Open(id);
            self.tell(line, Happened::Connected, clock::now());
        }
        self.owner(id)
    }

    /// Whether what comes next on a connection is to be dropped.
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

    /// The crew was told of input: more is expected, unless what it did about that waits for room.
    fn heard(&mut self, id: Id) {
        if self.owner(id).is_some() && self.doing(id) == Doing::Hearing {
            self.conns[id.index as usize].doing = Doing::Resting;
            self.expect(id);
        }
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Ready { id } if self.skips(id) => self.drop_unseen(id),
            Done::Ready { id } => {
                let resume = Op::Resume { id, warmed: Ok(()) };
                // Taken at once: what was received holds a buffer, and if all that are ready held one there would have
                // to be as many buffers, not one.
                if let Some(done) = self.backend.submit(resume) {
                    self.take(done);
                }
            }
            Done::Progress { id, .. } => {
                self.stands(id);
            }
            Done::Sent { id, out } => {
                self.spare(out);
                if self.owner(id).is_some() {
                    self.conns[id.index as usize].doing = Doing::Resting;
                }
                if let Some(line) = self.stands(id) {
                    match self.queued.remove(&id.index) {
                        Some(more) => self.send(line, &more),
                        // Otherwise what the crew sent when it was told does this.
                        None if self.doing(id) == Doing::Resting => self.expect(id),
                        None => {}
                    }
                }
            }
            Done::Recv { id, buf } => {
                if let Some(line) = self.stands(id) {
                    self.conns[id.index as usize].doing = Doing::Hearing;
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
                let Some(line) = self.owner(id) else { return };
                let (Loss::Socket(errno) | Loss::File(errno)) = loss;
                let failing = match self.lines[line as usize].link {
                    Link::Opening(_) => Failing::Opening(errno),
                    Link::None | Link::Open(_) => Failing::Open(errno),
                };
                self.close(line);
                self.tell(line, Happened::Lost(failing), clock::now());
            }
            // Nothing listens here, and nothing that is sent lies on a disk.
            Done::Incoming { .. }
            | Done::Accepted { .. }
            | Done::AcceptFailed { .. }
            | Done::Cold { .. }
            | Done::Contended { .. }
            | Done::Woken => {}
        }
    }
}

/// Begins to open a connection.
fn open(peer: SocketAddr) -> Result<OwnedFd, Failing> {
    let family = if peer.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let here = |errno: Errno| Failing::Here(errno.raw_os_error());
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None).map_err(here)?;
    sockopt::set_tcp_nodelay(&fd, true).map_err(here)?;
    loop {
        return match rustix::net::connect(&fd, &peer) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
            Err(Errno::INTR) => continue,
            Err(errno @ (Errno::ADDRNOTAVAIL | Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM)) => {
                Err(here(errno))
            }
            Err(errno) => Err(Failing::Opening(errno.raw_os_error())),
        };
    }
}

#[cfg(test)]
mod tests;
