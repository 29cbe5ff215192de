//! Connections of real programs that cross the link by a modeled TCP: kernel sockets at both ends, a [`Bridge`] between
//! them.
//!
//! Decides where the programs' connections lead and moves their bytes. TCP and the link between the two ends are the
//! bridge's.
//!
//! ```text
//!  near                    desk                                    far, or outside
//!  the command ── weir0 ── listener ── leg ── Bridge ── leg ── connection ── the server
//!      kernel TCP              │  modeled TCP over link::Path      kernel TCP
//!
//!  SYN held ─▶ connect ─▶ Asked ─▶ the server is dialed ─┬ made ─▶ accept ─▶ Opened ─▶ SYN let on, parked, accepted ─▶ leg
//!                                                        ├ refused ─▶ refuse ─▶ listener closed, SYN let on: RST
//!                                                        └ no answer ─▶ ignore; the modeled SYN is repeated
//! ```
//!
//! A byte is read from a socket only when the modeled send buffer has room for it, and from the model only when the
//! socket has taken the bytes before it. So a slow reader shuts the modeled window.

use crate::carry::Watch;
use crate::control::Control;
use crate::netns::Netns;
use crate::port::Frame;
use crate::relay::{Outside, connection, dial, is_refusal, listen, waits};
use crate::{ADDRESS, LATE, Notice, Tally};
use link::Direction;
use netsim::{Bridge, Pair, Side, Turn};
use runtime::bell::Bell;
use runtime::{clock, sys};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockAddr, Socket};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TrySendError};
use std::sync::{Arc, Mutex};
use tcp::Closed;
use units::{Duration, Instant};

/// Most bytes read from a socket at once. A model sends what it is given in one call with full segments first.
const READ_MAX: usize = 64 << 10;
/// Most bytes read from a model at once: those that a socket may not take yet are in no window.
const CHUNK: usize = 4 << 10;
/// Kernel buffers of the relay's sockets, in bytes. The kernel doubles them and counts its own overhead. Small, because
/// bytes that wait in them are not yet in the model's buffers.
const KERNEL_BUFFER: usize = 8 << 10;
/// How long the command's kernel may take to complete a handshake whose modeled one is complete. It takes microseconds,
/// unless the program has ended.
const ACCEPT_MAX: Duration = Duration::from_secs(5);
const BELL: u64 = 0;

/// Where a server may be.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// In the namespace of the far host.
    Far(SocketAddrV4),
    /// Where this process was started.
    Outside(SocketAddr),
}

/// A kernel socket and the end of a modeled connection that continues it.
struct Leg {
    pair: Pair,
    side: Side,
    socket: Socket,
    /// Bytes from the model that the socket has not taken, from `start` on; at most [`CHUNK`].
    held: Vec<u8>,
    start: usize,
    /// The socket's peer has finished sending.
    has_ended: bool,
    /// The socket's peer knows that nothing more comes.
    is_shut: bool,
    /// Watched events; `None` if the socket is not registered.
    watched: Option<EventFlags>,
}

/// What a pass over a leg has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Goes,
    Finished,
    /// The kernel's side is broken.
    Broken,
    /// The model's side is.
    Reset,
}

impl Leg {
    /// Moves bytes in both directions as far as possible.
    fn pass(&mut self, bridge: &mut Bridge, buffer: &mut [u8]) -> Fate {
        let (pair, side) = (self.pair, self.side);
        if bridge.ended(pair, side).is_some_and(|how| how != Closed::Orderly) {
            return Fate::Reset;
        }
        let moved = self.take(bridge, buffer).and_then(|()| self.give(bridge));
        match moved {
            Err(_) => Fate::Broken,
            Ok(()) if self.has_ended && self.is_shut => Fate::Finished,
            Ok(()) => Fate::Goes,
        }
    }

    /// From the socket to the model.
    fn take(&mut self, bridge: &mut Bridge, buffer: &mut [u8]) -> io::Result<()> {
        while !self.has_ended {
            let room = bridge.room(self.pair, self.side).min(buffer.len());
            if room == 0 {
                return Ok(());
            }
            match (&self.socket).read(&mut buffer[..room]) {
                Ok(0) => {
                    self.has_ended = true;
                    bridge.shutdown(self.pair, self.side);
                }
                Ok(n) => {
                    let written = bridge.write(self.pair, self.side, &buffer[..n]);
                    debug_assert_eq!(written, n, "there was room");
                }
                Err(error) if waits(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// From the model to the socket.
    fn give(&mut self, bridge: &mut Bridge) -> io::Result<()> {
        loop {
            if self.start == self.held.len() {
                self.held = bridge.read(self.pair, self.side, CHUNK);
                self.start = 0;
            }
            if self.held.is_empty() {
                break;
            }
            match (&self.socket).write(&self.held[self.start..]) {
                Ok(n) => self.start += n,
                Err(error) if waits(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if !self.is_shut && bridge.is_eof(self.pair, self.side) {
            self.is_shut = true;
            self.socket.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }

    /// The events that can change something.
    fn wanted(&self, bridge: &Bridge) -> Option<EventFlags> {
        let mut wanted = EventFlags::empty();
        wanted.set(
            EventFlags::IN,
            !self.has_ended && bridge.room(self.pair, self.side) > 0,
        );
        wanted.set(EventFlags::OUT, self.start < self.held.len());
        // Without any, a reset is still reported. But a socket that is shut on both sides would be, endlessly.
        (!wanted.is_empty() || !self.is_shut).then_some(wanted)
    }
}

/// The subject of an event.
enum Subject {
    Listener(Socket),
    /// A connection being made to a server, and further places to try.
    Dialing(Socket, Vec<Target>, Pair),
    Leg(Box<Leg>),
}

/// Ends of channels and namespaces of a [`Stacked`].
pub(super) struct Ends {
    /// The namespace at the other end of the command's cable, where its connections are accepted.
    pub(super) desk: Netns,
    /// The namespace of the far host.
    pub(super) far: Netns,
    pub(super) outside: Outside,
    /// SYNs of the command, held.
    pub(super) news: Receiver<Frame>,
    /// Rung for each of them, and when to stop.
    pub(super) bell: Arc<Bell>,
    /// SYNs that may go on.
    pub(super) back: Sender<Frame>,
    /// Of the emulator of the command's cable, which takes them.
    pub(super) cable: Arc<Control>,
    pub(super) stop: Arc<AtomicBool>,
    /// The link's counters, as of a moment ago.
    pub(super) tally: Arc<Mutex<Tally>>,
    pub(super) watch: Option<Watch>,
}

/// The thread's state.
pub(super) struct Stacked {
    bridge: Bridge,
    /// When the bridge's time began.
    origin: Instant,
    ends: Ends,
    poll: OwnedFd,
    subjects: HashMap<u64, Subject>,
    next: u64,
    /// Listeners of the desk, by address.
    listening: HashMap<SocketAddrV4, u64>,
    /// SYNs of the command whose modeled connection is not open yet.
    opening: HashMap<Pair, Frame>,
    /// Open connections that the command's kernel has not completed, and until when it may.
    parked: HashMap<Pair, Instant>,
    legs: HashMap<(Pair, Side), u64>,
    buffer: Vec<u8>,
    tally: Tally,
    has_warned: bool,
}

impl Stacked {
    /// Begins the link's time.
    ///
    /// # Errors
    /// The system's, for an epoll instance.
    pub(super) fn new(bridge: Bridge, ends: Ends) -> io::Result<Stacked> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&poll, ends.bell.fd(), EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(Stacked {
            bridge,
            origin: clock::now(),
            ends,
            poll,
            subjects: HashMap::new(),
            next: BELL + 1,
            listening: HashMap::new(),
            opening: HashMap::new(),
            parked: HashMap::new(),
            legs: HashMap::new(),
            buffer: vec![0; READ_MAX],
            tally: Tally::default(),
            has_warned: false,
        })
    }

    /// Carries connections until told to stop.
    ///
    /// # Errors
    /// The system's, of a poll.
    pub(super) fn run(mut self) -> io::Result<()> {
        if let Some(slack) = std::num::NonZeroU64::new(1) {
            // With the default slack, timers are deliberately 50 microseconds late.
            let _ = rustix::thread::set_current_timer_slack(Some(slack));
        }
        // As the emulator of a link of packets: a real link is no slower because its users are busy.
        let _ = sys::run_first();
        let every = self.ends.watch.as_ref().map(|watch| watch.every);
        let every = every.unwrap_or(Duration::from_millis(100));
        let mut report_at = clock::now();
        let mut events = Vec::with_capacity(256);
        let outcome = loop {
            self.advance();
            while let Some(turn) = self.bridge.turn() {
                self.turn(turn);
            }
            self.abandon();
            self.record();
            let now = clock::now();
            if now >= report_at {
                self.report(now);
                report_at = now + every;
            }
            if self.ends.stop.load(Ordering::Acquire) {
                break Ok(());
            }
            events.clear();
            if let Err(error) = self.wait(report_at, &mut events) {
                break Err(error);
            }
            // What the programs do happens now.
            self.advance();
            for event in &events {
                self.ready(event.data.u64(), event.flags);
            }
        };
        self.record();
        self.report(clock::now());
        outcome
    }

    /// The time in the bridge.
    fn inside(&self) -> Instant {
        Instant::ZERO + clock::now().since(self.origin)
    }

    /// Brings the bridge up to the present.
    fn advance(&mut self) {
        let left = |bridge: &Bridge| {
            let [up, down] = [Direction::Up, Direction::Down].map(|way| bridge.counters(way).left);
            up + down
        };
        let (now, due, before) = (self.inside(), self.bridge.next_arrival(), left(&self.bridge));
        self.bridge.advance(now);
        let arrived = left(&self.bridge) - before;
        if arrived > 0 {
            // Judged by the packet that was due first.
            let late = due.map_or(Duration::ZERO, |due| now.since(due));
            self.tally.late_max = self.tally.late_max.max(late);
            self.tally.late += if late > LATE { arrived } else { 0 };
        }
    }

    /// Sleeps until something is due, a socket is ready or the bell rings.
    fn wait(&self, report_at: Instant, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let due = self.bridge.next_due();
        let parked = self.parked.values().min().copied();
        let inside = due.into_iter().chain(parked).min();
        let outside = inside.map(|at| self.origin + at.since(Instant::ZERO));
        let until = outside.map_or(report_at, |at| at.min(report_at));
        let span = until.since(clock::now());
        let timeout = Timespec {
            tv_sec: span.as_secs() as i64,
            tv_nsec: i64::from(span.subsec_nanos()),
        };
        // `poll` waits for nanoseconds, `epoll_wait` for milliseconds.
        let mut ready = [PollFd::new(&self.poll, PollFlags::IN)];
        match poll(&mut ready, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match epoll::wait(&self.poll, rustix::buffer::spare_capacity(events), Some(&now)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn let_on(&self, frame: Frame) {
        // The cable's emulator is gone only when everything ends.
        let _ = self.ends.back.send(frame);
        self.ends.cable.bell.ring();
    }

    fn enter(&mut self, subject: Subject) -> u64 {
        let token = self.next;
        self.next += 1;
        self.subjects.insert(token, subject);
        token
    }

    fn ready(&mut self, token: u64, flags: EventFlags) {
        if token == BELL {
            self.ends.bell.silence();
            while let Ok(frame) = self.ends.news.try_recv() {
                self.announced(frame);
            }
            return;
        }
        match self.subjects.get(&token) {
            Some(Subject::Listener(_)) => self.accept(token),
            Some(Subject::Dialing(..)) => {
                if let Some(Subject::Dialing(socket, rest, pair)) = self.subjects.remove(&token) {
                    let _ = epoll::delete(&self.poll, &socket);
                    match socket.take_error() {
                        Ok(None) => self.reached(pair, socket),
                        Ok(Some(error)) if is_refusal(&error) => self.dial(pair, rest),
                        _ => self.bridge.ignore(pair),
                    }
                }
            }
            Some(Subject::Leg(leg)) => {
                let is_hung_up = flags.contains(EventFlags::HUP) && leg.watched == Some(EventFlags::empty());
                if flags.contains(EventFlags::ERR) || is_hung_up {
                    self.end(token, Fate::Broken);
                } else {
                    self.pass(token);
                }
            }
            None => {}
        }
    }

    /// Processes a SYN of the command.
    fn announced(&mut self, frame: Frame) {
        let Some(key) = connection(frame.ip()) else {
            return self.let_on(frame);
        };
        let pair = Pair {
            near: key.from,
            far: key.to,
        };
        if self.parked.contains_key(&pair) || self.legs.contains_key(&(pair, Side::Near)) {
            // A repetition that the kernel of the desk expects.
            return self.let_on(frame);
        }
        if self.opening.contains_key(&pair) {
            return;
        }
        if self.bridge.is_full() && !self.has_warned {
            self.has_warned = true;
            tracing::warn!(
                "too many connections at a time over modeled TCP: further ones wait until others have ended"
            );
        }
        // The command's kernel repeats a SYN that goes no further.
        if self.listen(key.to) && self.bridge.connect(pair) {
            self.opening.insert(pair, frame);
        }
    }

    /// Listens in the desk's namespace; returns whether it does.
    fn listen(&mut self, at: SocketAddrV4) -> bool {
        if self.listening.contains_key(&at) {
            return true;
        }
        let made = self.ends.desk.call(move || {
            let listener = listen(at)?;
            // Accepted sockets inherit them.
            small(&listener)?;
            io::Result::Ok(listener)
        });
        match made.and_then(|listener| listener) {
            Ok(listener) => {
                let token = self.next;
                let data = EventData::new_u64(token);
                if let Err(error) = epoll::add(&self.poll, &listener, data, EventFlags::IN) {
                    tracing::warn!("cannot watch a listener: {error}");
                    return false;
                }
                self.enter(Subject::Listener(listener));
                self.listening.insert(at, token);
                true
            }
            Err(error) => {
                tracing::warn!("cannot accept connections to {at}: {error}");
                false
            }
        }
    }

    /// Closes a listener, so that the kernel refuses, unless other connections wait for it.
    fn unlisten(&mut self, at: SocketAddrV4) {
        let is_awaited = self
            .opening
            .keys()
            .chain(self.parked.keys())
            .any(|pair| pair.far == at);
        if !is_awaited && let Some(token) = self.listening.remove(&at) {
            self.subjects.remove(&token);
        }
    }

    fn accept(&mut self, token: u64) {
        while let Some(Subject::Listener(listener)) = self.subjects.get(&token) {
            let Ok((socket, from)) = listener.accept() else {
                return;
            };
            let to = listener.local_addr().ok().and_then(|to| to.as_socket_ipv4());
            let (Some(near), Some(far)) = (from.as_socket_ipv4(), to) else {
                continue;
            };
            let pair = Pair { near, far };
            if self.parked.remove(&pair).is_some() {
                let _ = socket.set_nonblocking(true);
                let _ = socket.set_tcp_nodelay(true);
                self.begin(pair, Side::Near, socket);
            } else {
                // Its modeled connection is already gone.
                let _ = socket.set_linger(Some(Duration::ZERO));
            }
        }
    }

    fn turn(&mut self, turn: Turn) {
        match turn {
            Turn::Asked(pair) => {
                let mut targets: Vec<Target> = self
                    .ends
                    .outside
                    .of(pair.far)
                    .into_iter()
                    .map(Target::Outside)
                    .collect();
                targets.push(Target::Far(pair.far));
                self.dial(pair, targets);
            }
            Turn::Opened(pair) => {
                if let Some(frame) = self.opening.remove(&pair) {
                    self.parked.insert(pair, self.inside() + ACCEPT_MAX);
                    self.let_on(frame);
                }
            }
            Turn::Moved(pair, side) => {
                if let Some(&token) = self.legs.get(&(pair, side)) {
                    return self.pass(token);
                }
                let Some(how) = self.bridge.ended(pair, side) else {
                    return;
                };
                self.bridge.release(pair, side);
                if side == Side::Near {
                    self.parked.remove(&pair);
                    let held = self.opening.remove(&pair);
                    if let Some(frame) = held.filter(|_| how == Closed::Reset) {
                        self.unlisten(pair.far);
                        self.let_on(frame);
                    }
                }
            }
        }
    }

    /// Tries the last of these places, then those before it.
    fn dial(&mut self, pair: Pair, mut targets: Vec<Target>) {
        while let Some(target) = targets.pop() {
            let dialed = match target {
                Target::Outside(to) => dial(to, small),
                Target::Far(to) => {
                    let dialed = self.ends.far.call(move || {
                        dial(SocketAddr::V4(to), |socket| {
                            small(socket)?;
                            // As over a link of packets, the server sees the command's address.
                            socket.bind(&SockAddr::from(SocketAddrV4::new(ADDRESS, 0)))
                        })
                    });
                    dialed.and_then(|dialed| dialed)
                }
            };
            match dialed {
                Ok((socket, true)) => return self.reached(pair, socket),
                Ok((socket, false)) => {
                    let data = EventData::new_u64(self.next);
                    match epoll::add(&self.poll, &socket, data, EventFlags::OUT) {
                        Ok(()) => {
                            self.enter(Subject::Dialing(socket, targets, pair));
                        }
                        Err(_) => self.bridge.ignore(pair),
                    }
                    return;
                }
                Err(error) if is_refusal(&error) => {}
                Err(_) => return self.bridge.ignore(pair),
            }
        }
        self.bridge.refuse(pair);
    }

    /// The server has accepted: the modeled SYN is answered.
    fn reached(&mut self, pair: Pair, socket: Socket) {
        if let Some(&earlier) = self.legs.get(&(pair, Side::Far)) {
            // Of an earlier connection between the same addresses, which the near host has finished.
            self.end(earlier, Fate::Reset);
        }
        self.bridge.accept(pair);
        self.begin(pair, Side::Far, socket);
    }

    fn begin(&mut self, pair: Pair, side: Side, socket: Socket) {
        let token = self.enter(Subject::Leg(Box::new(Leg {
            pair,
            side,
            socket,
            held: Vec::new(),
            start: 0,
            has_ended: false,
            is_shut: false,
            watched: None,
        })));
        self.legs.insert((pair, side), token);
        self.pass(token);
    }

    fn pass(&mut self, token: u64) {
        let Some(Subject::Leg(leg)) = self.subjects.get_mut(&token) else {
            return;
        };
        let fate = leg.pass(&mut self.bridge, &mut self.buffer);
        if fate != Fate::Goes {
            return self.end(token, fate);
        }
        let wanted = leg.wanted(&self.bridge);
        if wanted == leg.watched {
            return;
        }
        let data = EventData::new_u64(token);
        let changed = match (leg.watched, wanted) {
            (None, Some(wanted)) => epoll::add(&self.poll, &leg.socket, data, wanted),
            (Some(_), Some(wanted)) => epoll::modify(&self.poll, &leg.socket, data, wanted),
            (_, None) => epoll::delete(&self.poll, &leg.socket),
        };
        leg.watched = wanted;
        if changed.is_err() {
            self.end(token, Fate::Broken);
        }
    }

    /// Ends a leg. A socket whose model is broken is reset, and the other way round.
    fn end(&mut self, token: u64, fate: Fate) {
        let Some(Subject::Leg(leg)) = self.subjects.remove(&token) else {
            return;
        };
        let (pair, side) = (leg.pair, leg.side);
        if matches!(fate, Fate::Broken | Fate::Reset) {
            let _ = leg.socket.set_linger(Some(Duration::ZERO));
        }
        if fate == Fate::Broken {
            self.bridge.abort(pair, side);
        }
        self.legs.remove(&(pair, side));
        self.bridge.release(pair, side);
    }

    /// Resets connections that the command's kernel has not completed in time.
    fn abandon(&mut self) {
        if self.parked.is_empty() {
            return;
        }
        let now = self.inside();
        let late: Vec<Pair> = self
            .parked
            .iter()
            .filter_map(|(pair, until)| (*until <= now).then_some(*pair))
            .collect();
        for pair in late {
            self.parked.remove(&pair);
            self.bridge.abort(pair, Side::Near);
            self.bridge.release(pair, Side::Near);
        }
    }

    /// Reports captured packets.
    fn record(&mut self) {
        let (now, civil) = (self.inside(), clock::civil_nanos());
        while let Some(passing) = self.bridge.passing() {
            let Some(watch) = &self.ends.watch else { continue };
            let age = now.since(passing.at).as_nanos() as u64;
            let notice = Notice::Frame {
                civil: civil.saturating_sub(age),
                direction: passing.direction,
                ip: passing.packet,
            };
            if let Err(TrySendError::Full(_)) = watch.to.try_send(notice) {
                self.tally.untold += 1;
            }
        }
    }

    fn report(&mut self, now: Instant) {
        let bridge = &self.bridge;
        self.tally.at = now;
        self.tally.cpu = clock::thread_cpu();
        self.tally.ways = [Direction::Up, Direction::Down].map(|way| bridge.counters(way));
        self.tally.bytes_in = bridge.bytes_in();
        self.tally.bytes_out = bridge.bytes_out();
        if let Some(watch) = &self.ends.watch
            && let Err(TrySendError::Full(_)) = watch.to.try_send(Notice::Tally(Box::new(self.tally.clone())))
        {
            self.tally.untold += 1;
        }
        if let Ok(mut shared) = self.ends.tally.lock() {
            shared.clone_from(&self.tally);
        }
    }
}

/// Gives a socket small buffers.
fn small(socket: &Socket) -> io::Result<()> {
    socket.set_recv_buffer_size(KERNEL_BUFFER)?;
    socket.set_send_buffer_size(KERNEL_BUFFER)
}
