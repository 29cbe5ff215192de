//! The epoll back end: readiness presented as completion. Edge-triggered, registered once and late.
//!
//! ```text
//!   submit(Recv) ──▶ bytes? ──yes──▶ Done::Recv (inline)
//!                      │ no (or the last receive came back short: it would only say so again)
//!                      ▼
//!               park: register with epoll unless registered ──▶ wait() ──▶ Done::Input ─▶ submit(Recv)
//!
//!   submit(Send) ──▶ all taken? ──yes──▶ Done::Sent (inline)
//!                      │ no: keep the rest, park ──▶ wait() ──▶ Done::Ready ─▶ submit(Resume)
//!                      └ next part of the file is cold ──▶ Done::Cold
//! ```
//! A connection is registered when it first has to wait; a short exchange never is. It is registered for input and
//! output together, edge-triggered, so it is never modified: `ADD` and `DEL` cost 840 ns together, `MOD` 197. Closing
//! the descriptor ends the registration. Waiting has no timeout: a timer descriptor, armed about once a second, is
//! cheaper than a kernel timer started for every wait.

use super::accept_mutex::AcceptMutex;
use super::conduit::Conduit;
use super::marker::Marker;
use super::socket::{self, Disk, Pushed, Received};
use super::table::Table;
use super::{Backend, Buf, Done, Id, Op, Out, PRESSED_RECEIVE};
use crate::clock;
use crate::memory::Step;
use crate::peer::{PeerLoss, Upstream};
use crate::session::{Line, Loss};
use crate::shaping::{Egress, Grant, Withheld};
use crate::sys;
use foldhash::fast::RandomState;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use units::{Duration, Instant, UnixTime};

/// Events taken per system call.
const EVENTS: usize = 256;
/// Receive buffers kept for reuse; receives complete inline, so only one is in use at a time.
const BUFS_KEPT: usize = 2;
/// The generation of events from listeners, the waker and the timer.
const SPECIAL: u32 = u32::MAX;
const WAKE: u32 = u32::MAX;
const TIMER: u32 = u32::MAX - 1;
const MARK: u32 = u32::MAX - 2;
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Registered with epoll.
const REGISTERED: u16 = 1;
/// The last receive emptied the socket; only an event can change that.
const EXHAUSTED: u16 = 2;
/// The peer has closed or the socket failed: a receive always completes at once.
const HUNG_UP: u16 = 4;
/// A receive is parked.
const WANTS_INPUT: u16 = 8;
/// A send is parked until the socket has room (not for a cold file).
const WANTS_ROOM: u16 = 16;
/// A send waits for its file to be read from disk.
const COLD: u16 = 32;
/// A send is under way; the rest of it is in [`Epoll::sending`].
const SENDING: u16 = 64;
/// The file was read in for a send that waits for the line.
const WARMED: u16 = 128;
/// A session opened this connection: it leads to another host than the line whose rate is limited.
const DIALED: u16 = 256;
/// The last receive had at least [`Buf::CAPACITY`] bytes: more are likely to wait.
const SENDS_MUCH: u16 = 512;

#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    flags: u16,
}

/// Wakes an event loop from another thread.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    /// # Errors
    /// The system's, if it refuses a descriptor.
    pub(crate) fn new() -> std::io::Result<Waker> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker(Arc::new(wake)))
    }

    pub(crate) fn wake(&self) {
        // Fails only if the counter is full, and then the worker is already being woken.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// The descriptor that becomes readable.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Resets it.
    pub(super) fn hear(&self) {
        // Fails only if another thread has already reset it.
        let _ = rustix::io::read(&*self.0, &mut [0; 8]);
    }
}

/// The epoll back end of one worker.
#[derive(Debug)]
pub(crate) struct Epoll {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    timer: OwnedFd,
    /// When the timer fires.
    timer_at: Instant,
    listeners: Vec<Arc<OwnedFd>>,
    accept_mutex: AcceptMutex,
    sockets: Table<Socket>,
    /// Output under way, by slot. A map, because only few connections have any: idle ones pay nothing for it.
    sending: HashMap<u32, Box<Out>, RandomState>,
    /// Memory of that output, in bytes.
    held: usize,
    /// Bytes received at a time.
    receive_max: usize,
    /// Whether the kernel is to use small send buffers.
    is_tight: bool,
    /// Sends that used up their share of the last turn.
    again: Vec<Id>,
    /// The way of long files.
    conduit: Conduit,
    /// Where output waits, if the line's rate is limited.
    egress: Option<Box<Egress>>,
    /// The mark that is put at the end of the kernel's ready queue. Created when the queue first exceeds a turn.
    mark: Option<OwnedFd>,
    marker: Marker,
    /// Whether the mark came out in this turn.
    mark_came: bool,
    line: Line,
    bufs: Vec<Buf>,
    /// The buffer for peers that send much, kept for reuse.
    long: Option<Buf>,
    /// Reports input as `Ready` and leaves receiving to others.
    tells_only: bool,
    now: Instant,
}

impl Epoll {
    /// A back end that accepts from these listeners, one worker at a time if the mutex says so.
    ///
    /// # Errors
    /// The system's, if it refuses descriptors.
    pub(crate) fn new(
        listeners: Vec<Arc<OwnedFd>>,
        accept_mutex: AcceptMutex,
        wake: &Waker,
    ) -> std::io::Result<Epoll> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = Arc::clone(&wake.0);
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &*wake, data(WAKE, SPECIAL), edge)?;
        epoll::add(&epoll, &timer, data(TIMER, SPECIAL), edge)?;
        for (at, listener) in listeners.iter().enumerate() {
            // Exclusive: if workers share a listener, one connection wakes one of them.
            epoll::add(
                &epoll,
                &**listener,
                data(at as u32, SPECIAL),
                edge | EventFlags::EXCLUSIVE,
            )?;
        }
        Ok(Epoll {
            epoll,
            wake,
            timer,
            timer_at: NEVER,
            listeners,
            accept_mutex,
            sockets: Table::new(),
            sending: HashMap::default(),
            held: 0,
            receive_max: Buf::CAPACITY,
            is_tight: false,
            again: Vec::new(),
            conduit: Conduit::default(),
            egress: None,
            mark: None,
            marker: Marker::Out,
            mark_came: false,
            line: Line::Taken,
            bufs: Vec::new(),
            long: None,
            tells_only: false,
            now: clock::now(),
        })
    }

    /// The descriptor that is readable while `wait` would report something.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Whether `wait` would report something that its descriptor does not show.
    pub(crate) fn has_more(&self) -> bool {
        !self.again.is_empty()
    }

    /// The kernel's counters of a connection.
    pub(crate) fn tcp(&mut self, id: Id) -> Option<crate::tcp_info::Tcp> {
        sys::tcp_of(self.sockets.get_mut(id)?.fd.as_fd())
    }

    /// Waits for input without trying to receive: the last receive emptied the socket, and only an event can change
    /// that. `Input` if some may already be there.
    #[inline]
    pub(crate) fn expect(&mut self, id: Id) -> Option<Done> {
        match self.sockets.get_mut(id)?.flags & EXHAUSTED {
            0 => Some(Done::Input { id }),
            _ => self.park(id, WANTS_INPUT),
        }
    }

    /// Sends output through this egress queue, if there is one.
    pub(crate) fn behind(self, egress: Option<Egress>) -> Epoll {
        Epoll {
            egress: egress.map(Box::new),
            ..self
        }
    }

    /// Never receives: a connection with input is reported as ready.
    pub(crate) fn telling_only(self) -> Epoll {
        Epoll {
            tells_only: true,
            ..self
        }
    }

    #[cfg(test)]
    pub(crate) const fn conn_size() -> usize {
        Table::<Socket>::slot_size()
    }

    fn accept(&mut self, listener: usize) -> Option<Done> {
        match self.accept_mutex.accept(self.listeners.get(listener)?) {
            Ok(None) => None,
            Ok(Some((fd, peer))) => {
                if self.is_tight {
                    socket::press(&fd);
                }
                let id = self.sockets.insert(Socket { fd, flags: 0 });
                Some(Done::Accepted { id, peer })
            }
            Err(errno) => Some(Done::AcceptFailed { errno }),
        }
    }

    #[inline]
    fn receive(&mut self, id: Id) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        // After a response, there is usually nothing to receive.
        match self.tells_only || socket.flags & EXHAUSTED != 0 {
            true => self.park(id, WANTS_INPUT),
            false => self.receive_now(id),
        }
    }

    fn receive_now(&mut self, id: Id) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        // What a peer sends is passed on, and fewer, longer calls cost less for each byte.
        let is_long = socket.flags & (DIALED | SENDS_MUCH) == DIALED | SENDS_MUCH;
        let (mut buf, most) = match is_long && self.receive_max == Buf::CAPACITY {
            true => (self.long.take().unwrap_or_else(|| Buf::of(Buf::LONG)), Buf::LONG),
            false => (self.bufs.pop().unwrap_or_else(Buf::new), self.receive_max),
        };
        match socket::receive(&socket.fd, &mut buf, most) {
            Received::Bytes { all } => {
                socket.flags &= !(WANTS_INPUT | SENDS_MUCH);
                if buf.len >= Buf::CAPACITY {
                    socket.flags |= SENDS_MUCH;
                }
                if all && socket.flags & HUNG_UP == 0 {
                    socket.flags |= EXHAUSTED;
                }
                Some(Done::Recv { id, buf })
            }
            Received::Nothing => {
                socket.flags |= EXHAUSTED;
                self.recycle(buf);
                self.park(id, WANTS_INPUT)
            }
            Received::Eof => {
                self.recycle(buf);
                Some(Done::Eof { id })
            }
            Received::Lost(loss) => {
                self.recycle(buf);
                Some(Done::Failed { id, loss })
            }
        }
    }

    /// As a receive of at most `most` bytes, but discards them: how many, or another result.
    pub(crate) fn discard(&mut self, id: Id, most: u64) -> Result<u64, Option<Done>> {
        let Some(socket) = self.sockets.get_mut(id) else {
            return Err(None);
        };
        if socket.flags & EXHAUSTED == 0 {
            match socket::discard(&socket.fd, most) {
                (bytes, Received::Bytes { all }) => {
                    if all && socket.flags & HUNG_UP == 0 {
                        socket.flags |= EXHAUSTED;
                    }
                    return Ok(bytes);
                }
                (_, Received::Nothing) => socket.flags |= EXHAUSTED,
                (_, Received::Eof) => return Err(Some(Done::Eof { id })),
                (_, Received::Lost(loss)) => return Err(Some(Done::Failed { id, loss })),
            }
        }
        Err(self.park(id, WANTS_INPUT))
    }

    #[inline]
    fn park(&mut self, id: Id, wants: u16) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        socket.flags |= wants;
        match socket.flags & REGISTERED {
            0 => self.register(id),
            _ => None,
        }
    }

    /// Registers a connection that has to wait for the first time.
    fn register(&mut self, id: Id) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        match epoll::add(&self.epoll, &socket.fd, data(id.index, id.generation), flags) {
            Ok(()) => {
                socket.flags |= REGISTERED;
                None
            }
            Err(errno) => Some(Done::Failed {
                id,
                loss: Loss::Socket(errno.raw_os_error()),
            }),
        }
    }

    #[inline]
    fn send(&mut self, id: Id, out: Box<Out>, disk: Disk) -> Option<Done> {
        match self.egress {
            None => self.push(id, out, disk, None),
            Some(_) => self.hold(id, out, disk),
        }
    }

    /// Holds output back for the line, at least until the end of the turn, so that output with fewer bytes left can go
    /// first.
    fn hold(&mut self, id: Id, out: Box<Out>, disk: Disk) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        if socket.flags & DIALED != 0 {
            return self.push(id, out, disk, None);
        }
        let Some(egress) = self.egress.as_mut().filter(|_| !out.is_sent()) else {
            return Some(Done::Sent { id, out });
        };
        socket.flags |= SENDING;
        if disk == Disk::Warmed {
            socket.flags |= WARMED;
        }
        egress.hold(id, out.left(), out.tx.beyond, self.now);
        self.put_by(id, out);
        None
    }

    /// Sends as much as the line takes now.
    #[cold]
    fn let_go(&mut self, done: &mut Vec<Done>) {
        let now = clock::now();
        while let Some(grant) = self.egress.as_mut().and_then(|egress| egress.next(now)) {
            let id = grant.id;
            let Some(out) = self.take_up(id) else {
                continue;
            };
            let mut disk = Disk::Ask;
            if let Some(socket) = self.sockets.get_mut(id) {
                if socket.flags & WARMED != 0 {
                    disk = Disk::Warmed;
                }
                socket.flags &= !(SENDING | WARMED);
            }
            done.extend(self.push(id, out, disk, Some(grant)));
        }
    }

    #[inline]
    fn push(&mut self, id: Id, mut out: Box<Out>, disk: Disk, grant: Option<Grant>) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        if self.is_tight {
            socket::press(&socket.fd);
        }
        let pushed = match grant {
            None => socket::push(&socket.fd, &mut out, disk, socket::ALL, Some(&mut self.conduit)),
            Some(grant) => {
                let before = out.left();
                let pushed = socket::push(&socket.fd, &mut out, disk, grant.bytes, Some(&mut self.conduit));
                if let Some(egress) = &mut self.egress {
                    egress.used(grant, before - out.left());
                    if out.is_answer_sent() {
                        egress.forget(id);
                    }
                }
                pushed
            }
        };
        let (bytes, wants) = match pushed {
            Pushed::All => return Some(Done::Sent { id, out }),
            Pushed::Lost(loss) => {
                // The peer may have answered before it closed.
                socket.flags &= !EXHAUSTED;
                return Some(Done::Failed { id, loss });
            }
            Pushed::Cold(range) => {
                socket.flags |= COLD | SENDING;
                self.put_by(id, out);
                return Some(Done::Cold { id, range });
            }
            Pushed::Blocked => (std::mem::take(&mut out.unreported), WANTS_ROOM),
            Pushed::Enough => (std::mem::take(&mut out.unreported), 0),
        };
        socket::shrink(&mut out);
        socket.flags |= SENDING;
        let mut egress = self.egress.as_mut().filter(|_| socket.flags & DIALED == 0);
        if let (Some(egress), 1..) = (&mut egress, bytes) {
            egress.advanced(id);
        }
        if let (Some(egress), 0) = (egress, wants) {
            egress.hold(id, out.left(), out.tx.beyond, self.now);
            self.put_by(id, out);
            return (bytes > 0).then_some(Done::Progress { id, bytes });
        }
        self.put_by(id, out);
        if wants == 0 {
            self.again.push(id);
        } else if let Some(failed) = self.park(id, wants) {
            return Some(failed);
        }
        (bytes > 0).then_some(Done::Progress { id, bytes })
    }

    fn resume(&mut self, id: Id, warmed: Result<(), Loss>) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        let flags = socket.flags;
        if flags & SENDING == 0 {
            return None;
        }
        socket.flags &= !(COLD | SENDING);
        let out = self.take_up(id)?;
        match warmed {
            Ok(()) if flags & COLD != 0 => self.send(id, out, Disk::Warmed),
            Ok(()) => self.send(id, out, Disk::Ask),
            Err(loss) => Some(Done::Failed { id, loss }),
        }
    }

    #[inline]
    fn understand(&mut self, event: Event, done: &mut Vec<Done>) {
        let (index, generation) = (event.data.u64() as u32, (event.data.u64() >> 32) as u32);
        if generation == SPECIAL {
            match index {
                WAKE => {
                    let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
                    done.push(Done::Woken);
                }
                TIMER => self.timer_at = NEVER,
                MARK => self.mark_came = true,
                listener => done.push(Done::Incoming {
                    listener: listener as usize,
                }),
            }
            return;
        }
        let id = Id { index, generation };
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        let flags = event.flags;
        let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if flags.intersects(ended) {
            socket.flags |= HUNG_UP;
        }
        let mut wanted = 0;
        if flags.intersects(EventFlags::IN | ended) {
            socket.flags &= !EXHAUSTED;
            wanted |= WANTS_INPUT;
        }
        if flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
            wanted |= WANTS_ROOM;
        }
        let granted = socket.flags & wanted;
        socket.flags &= !granted;
        if granted & WANTS_ROOM != 0 {
            done.push(Done::Ready { id });
        }
        if granted & WANTS_INPUT != 0 {
            done.push(Done::Input { id });
        }
    }

    fn put_by(&mut self, id: Id, out: Box<Out>) {
        self.held += out.cost();
        self.sending.insert(id.index, out);
    }

    fn take_up(&mut self, id: Id) -> Option<Box<Out>> {
        let out = self.sending.remove(&id.index)?;
        self.held -= out.cost();
        Some(out)
    }

    /// Removes a connection and drops its output.
    fn remove(&mut self, id: Id) -> Option<Socket> {
        let socket = self.sockets.remove(id)?;
        if socket.flags & SENDING != 0 {
            self.take_up(id);
        }
        if let Some(egress) = &mut self.egress {
            egress.forget(id);
        }
        Some(socket)
    }

    /// Ensures that waiting ends at `until`. An earlier timer does no harm.
    fn arm(&mut self, until: Instant) {
        if until >= self.timer_at {
            return;
        }
        let at = until.as_nanos().max(1);
        let value = Timespec {
            tv_sec: (at / 1_000_000_000) as i64,
            tv_nsec: (at % 1_000_000_000) as i64,
        };
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let timer = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        // Fails only for invalid arguments.
        let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &timer);
        self.timer_at = until;
    }

    /// Puts the mark at the end of the kernel's ready queue. Without a descriptor for it, the queue's length stays
    /// unknown; nothing else is affected.
    #[cold]
    fn put_mark(&mut self) {
        if self.mark.is_none() {
            let Ok(mark) = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) else {
                return;
            };
            let edge = EventFlags::IN | EventFlags::ET;
            if epoll::add(&self.epoll, &mark, data(MARK, SPECIAL), edge).is_err() {
                return;
            }
            self.mark = Some(mark);
        }
        if let Some(mark) = &self.mark {
            // Each write is an event, read or not; the counter overflows only after centuries.
            let _ = rustix::io::write(mark, &1u64.to_ne_bytes());
        }
    }
}

impl Backend for Epoll {
    fn is_awaited(&mut self, listener: usize) -> bool {
        self.listeners
            .get(listener)
            .is_some_and(|listener| socket::is_awaited(listener))
    }

    /// Always inlined: most callers pass a known operation, for which the compiler removes the `match`.
    #[inline(always)]
    fn submit(&mut self, op: Op) -> Option<Done> {
        match op {
            Op::Recv { id } => self.receive(id),
            Op::Pause { id } => {
                if let Some(socket) = self.sockets.get_mut(id) {
                    socket.flags &= !WANTS_INPUT;
                }
                None
            }
            Op::Send { id, out } => self.send(id, out, Disk::Ask),
            Op::Resume { id, warmed } => self.resume(id, warmed),
            Op::Accept { listener } => self.accept(listener),
            Op::Close { id } => {
                self.remove(id);
                None
            }
            Op::Abort { id } => {
                if let Some(socket) = self.remove(id) {
                    socket::reset_when_closed(&socket.fd);
                }
                None
            }
            Op::ShutdownWrite { id } => {
                // Fails only if the connection is gone; the next receive reports that.
                if let Some(socket) = self.sockets.get_mut(id) {
                    let _ = rustix::net::shutdown(&socket.fd, Shutdown::Write);
                }
                None
            }
            Op::StopListening => {
                for listener in self.listeners.drain(..) {
                    // Other processes may hold the descriptor, so closing it would not end the events.
                    let _ = epoll::delete(&self.epoll, &*listener);
                }
                None
            }
        }
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Done>) -> std::io::Result<Instant> {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut until = until;
        if self.egress.is_some() {
            self.let_go(done);
            let due = self.egress.as_ref().and_then(|egress| egress.due(clock::now()));
            until = [until, due].into_iter().flatten().min();
        }
        let pressing =
            !self.again.is_empty() || !done.is_empty() || until.is_some_and(|until| until <= self.now);
        if let (Some(until), false) = (until, pressing) {
            self.arm(until);
        }
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        let mut is_full = false;
        match epoll::wait(&self.epoll, &mut room, pressing.then_some(&at_once)) {
            Ok((events, _)) => {
                is_full = events.len() == EVENTS;
                for event in events {
                    self.understand(*event, done);
                }
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        done.extend(self.again.drain(..).map(|id| Done::Ready { id }));
        self.now = clock::now();
        let came = std::mem::take(&mut self.mark_came);
        let (line, put) = self.marker.pass(is_full, came, self.now);
        self.line = line;
        if put {
            self.put_mark();
        }
        Ok(self.now)
    }

    #[inline]
    fn line(&self) -> Line {
        self.line
    }

    #[inline]
    fn withheld(&self) -> Option<Withheld> {
        self.egress.as_ref().map(|egress| egress.withheld())
    }

    fn waited(&self, id: Id, now: Instant) -> Duration {
        let egress = self.egress.as_ref();
        egress.map_or(Duration::ZERO, |egress| egress.waited(id, now))
    }

    #[inline]
    fn held(&self) -> usize {
        self.held
    }

    fn press(&mut self, step: Step) {
        self.receive_max = match step {
            Step::Calm => Buf::CAPACITY,
            _ => PRESSED_RECEIVE,
        };
        self.long = None;
        self.is_tight = step >= Step::Idle;
    }

    #[inline]
    fn recycle(&mut self, buf: Buf) {
        if buf.bytes.len() > Buf::CAPACITY {
            self.long = Some(buf);
        } else if self.bufs.len() < BUFS_KEPT {
            self.bufs.push(buf);
        }
    }

    fn release(&mut self, id: Id) -> Option<OwnedFd> {
        let socket = self.remove(id)?;
        if socket.flags & REGISTERED != 0 {
            // The new owner keeps the descriptor open, so nothing else ends the registration.
            let _ = epoll::delete(&self.epoll, &socket.fd);
        }
        Some(socket.fd)
    }

    fn adopt(&mut self, fd: OwnedFd) -> Option<Id> {
        Some(self.sockets.insert(Socket { fd, flags: 0 }))
    }

    fn dial(&mut self, to: &Upstream) -> Result<Id, PeerLoss> {
        let fd = socket::open(to)?;
        Ok(self.sockets.insert(Socket { fd, flags: DIALED }))
    }

    fn opened(&mut self, id: Id) -> Option<Result<(), i32>> {
        let opened = socket::opened(&self.sockets.get_mut(id)?.fd);
        if opened.is_some() {
            return opened;
        }
        match self.park(id, WANTS_ROOM)? {
            Done::Failed {
                loss: Loss::Socket(errno) | Loss::File(errno),
                ..
            } => Some(Err(errno)),
            _ => None,
        }
    }

    fn is_quiet(&mut self, id: Id) -> bool {
        let socket = self.sockets.get_mut(id);
        // An event that the worker has not processed yet ended the wait for input.
        socket.is_some_and(|socket| {
            socket.flags & (WANTS_INPUT | HUNG_UP) == WANTS_INPUT && socket::is_quiet(&socket.fd)
        })
    }

    fn has_hung_up(&mut self, id: Id) -> bool {
        let socket = self.sockets.get_mut(id);
        socket.is_some_and(|socket| socket::has_hung_up(&socket.fd))
    }

    fn socket(&mut self, id: Id) -> Option<&OwnedFd> {
        Some(&self.sockets.get_mut(id)?.fd)
    }

    fn wall(&self) -> UnixTime {
        clock::wall()
    }

    fn now(&self) -> Instant {
        clock::now()
    }
}

fn data(index: u32, generation: u32) -> EventData {
    EventData::new_u64(u64::from(generation) << 32 | u64::from(index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn backend() -> Epoll {
        let waker = Waker::new().expect("a descriptor");
        Epoll::new(Vec::new(), AcceptMutex::Open, &waker).expect("descriptors")
    }

    fn connected(epoll: &mut Epoll) -> (Id, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("set");
        (epoll.adopt(ours.into()).expect("taken"), theirs)
    }

    /// After a shorter receive, the rest of the buffer still holds bytes of a longer one: the buffer was neither
    /// recreated nor zeroed.
    #[test]
    fn a_receive_takes_the_buffer_that_was_given_back_as_it_is() {
        let mut epoll = backend();
        for text in [&b"0123456789"[..], b"ab", b"c"] {
            let (id, mut theirs) = connected(&mut epoll);
            theirs.write_all(text).expect("sent");
            let Some(Done::Recv { buf, .. }) = epoll.submit(Op::Recv { id }) else {
                panic!("bytes are there")
            };
            assert_eq!(buf.filled(), text);
            assert_eq!(&buf.bytes[3..10], b"3456789");
            epoll.recycle(buf);
        }
    }

    /// How much each of some receives brings, while all of 120,000 bytes wait in the socket.
    fn received(epoll: &mut Epoll, flags: u16) -> Vec<usize> {
        let (id, mut theirs) = connected(epoll);
        epoll.sockets.get_mut(id).expect("it is there").flags |= flags;
        theirs.write_all(&[7; 120_000]).expect("sent");
        let mut lengths = Vec::new();
        while let Some(Done::Recv { buf, .. }) = epoll.submit(Op::Recv { id }) {
            lengths.push(buf.len);
            epoll.recycle(buf);
        }
        lengths
    }

    #[test]
    fn a_peer_that_sends_much_is_received_from_in_long_calls() {
        let mut epoll = backend();
        let (short, long) = (Buf::CAPACITY, Buf::LONG);
        assert_eq!(
            received(&mut epoll, DIALED),
            [short, long, 120_000 - short - long],
            "the first call learns that there is more"
        );
        let of_client = received(&mut epoll, 0);
        assert!(of_client.iter().all(|bytes| *bytes <= short), "{of_client:?}");
        epoll.press(Step::Reading);
        let pressed = received(&mut epoll, DIALED);
        assert!(
            pressed.iter().all(|bytes| *bytes <= PRESSED_RECEIVE),
            "{pressed:?}"
        );
    }

    #[test]
    fn who_expects_input_looks_for_it_unless_the_last_receive_took_everything() {
        let mut epoll = backend();
        let (id, mut theirs) = connected(&mut epoll);
        assert!(
            matches!(epoll.expect(id), Some(Done::Input { .. })),
            "nobody has looked yet"
        );
        theirs.write_all(b"one").expect("sent");
        assert!(matches!(epoll.submit(Op::Recv { id }), Some(Done::Recv { .. })));
        assert!(epoll.expect(id).is_none(), "it took all three");
        theirs.write_all(b"two").expect("sent");
        let mut done = Vec::new();
        epoll.wait(None, &mut done).expect("waited");
        assert!(
            matches!(done[..], [Done::Input { id: ready }] if ready == id),
            "{done:?}"
        );
        assert!(
            matches!(epoll.expect(id), Some(Done::Input { .. })),
            "something came"
        );
    }
}
