//! The io_uring back end: completion, with one system call per turn for all connections.
//!
//! ```text
//!   submit(Recv) ──▶ bytes held back? ──yes──▶ Done::Recv (at once)
//!                      │ no
//!                      ▼
//!               wanted; armed once, it goes on by itself ──▶ wait(): Done::Recv, Eof, Failed
//!
//!   submit(Send) ──▶ in memory: queued ──▶ wait(): Done::Sent, or Progress and the rest is queued
//!                └─▶ a file: sent here ──▶ Done::Sent, Cold, or room is awaited ──▶ wait(): Done::Ready
//! ```
//! Operations queued in a turn are submitted by the `wait` that ends it, which also returns completions. A receive is
//! armed once per connection (multishot) and takes one of the worker's buffers only when bytes arrive, so an idle
//! connection holds none. Buffers never stay with a connection. Input that arrives unasked (a client pipelines while
//! its response is being sent) is copied to that connection; beyond [`HELD_MAX`], the receive is ended until the worker
//! asks again. No client can therefore take the buffers away from others, and after a burst has used them up, the next
//! turn has all of them back.
//!
//! **Files** are sent by `sendfile` or through the worker's pipe, called directly, which moves pages
//! without copying them; only the wait for room uses the ring. io_uring's splice always goes to a kernel thread. Reading
//! into a buffer would copy every byte once more and hold one buffer per slow reader. Cold pages are read by the crew,
//! as with epoll.
//!
//! **Accepting** is armed once per listener, too. The kernel then accepts all waiting connections in one go. While
//! fewer places are left than one go can bring, connections are accepted one at a time instead, so the limits hold as
//! they do with epoll. A failed accept ends the arming, and the back end arms again only when the worker asks; after a
//! lack of descriptors, it asks ten times a second. Leaving a listener takes two steps, because the kernel assigns
//! connections to a canceled accept until its last completion.

use super::conduit::Conduit;
use super::epoll::Waker;
use super::socket::{self, Disk, Pushed};
use super::table::Table;
use super::{Backend, Buf, Done, Id, Op, Out, PRESSED_RECEIVE};
use crate::clock;
use crate::listen::UNIX_PEER;
use crate::memory::Step;
use crate::peer::{PeerLoss, Upstream};
use crate::session::{Body, Loss};
use crate::shaping::{Egress, Grant, Withheld};
use crate::sys::{Completion, Ring, Sizes, Ticket};
use rustix::net::{AddressFamily, Shutdown};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use units::{Duration, Instant, UnixTime};

/// A worker's ring. 256 receive buffers of 4 KiB limit its memory to 1 MiB, few enough to stay in the processor's
/// cache. A request is smaller, and a larger burst takes several turns.
pub(crate) const SIZES: Sizes = Sizes {
    submissions: 256,
    completions: 1024,
    buffers: 256,
    buffer: 4 << 10,
};
/// The sizes of a worker's ring.
pub(crate) fn sizes() -> Sizes {
    #[cfg(test)]
    if tests::tiny() {
        return tests::TINY_SIZES;
    }
    SIZES
}

/// Bytes held for a connection, received unasked, before its receive is ended. Input that arrives until the kernel has
/// processed that comes on top, once. For a peer, it is [`Buf::LONG`].
const HELD_MAX: usize = Buf::CAPACITY;
/// Token of the waker: no connection has this index. Other tokens that belong to no connection follow.
const WAKE: u64 = (1 << 61) - 1;
const TIMER: u64 = (1 << 61) - 2;

/// State of the kernel's receive for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receive {
    Off,
    Armed,
    /// Canceled; its last completion is still to come.
    Ending,
}

/// Input that arrived unasked.
#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    end: Option<End>,
}

/// What follows the last byte.
#[derive(Clone, Copy, Debug)]
enum End {
    Eof,
    Lost(i32),
}

/// Where a connection's output is.
#[derive(Debug)]
enum Output {
    Nowhere,
    /// None yet: the connection is being opened.
    Opening,
    /// In the kernel.
    Flying(Ticket),
    /// Waiting for room in the socket.
    Blocked(Box<Out>),
    /// Waiting for the next turn.
    Shared(Box<Out>),
    /// Waiting for its file to be read from disk.
    Cold(Box<Out>),
    /// Waiting for the line.
    Held(Box<Out>, Disk),
}

#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    receive: Receive,
    /// The worker asked for input and has not received any yet.
    wanted: bool,
    /// A session opened this connection: it leads to another host than the line whose rate is limited.
    is_dialed: bool,
    held: Option<Box<Held>>,
    output: Output,
}

/// State of the kernel's accept on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accept {
    Off,
    /// The next connection only.
    One,
    /// All connections.
    All,
    /// Canceled; its last completion is still to come.
    Ending,
    /// As `Ending`, with no accept to follow.
    Leaving,
    /// Out of service.
    Gone,
}

#[derive(Debug)]
struct Listener {
    /// `None` once out of service.
    fd: Option<Arc<OwnedFd>>,
    accept: Accept,
    /// Accepted and not yet taken by the worker. At most as many as one go brings.
    accepted: VecDeque<OwnedFd>,
    /// Why the last accept failed, until reported to the worker.
    failed: Option<i32>,
    /// Whether the worker knows that there is something to take.
    told: bool,
}

/// The io_uring back end of one worker.
pub(crate) struct Uring {
    // The first field, so that it is dropped first: that cancels operations that use the descriptors below.
    ring: Ring<Out>,
    enabled: bool,
    wake: Waker,
    /// When the timer fires, if it is set.
    timer: Option<Instant>,
    listeners: Vec<Listener>,
    /// This worker's share of the connections that may still be opened.
    room: Box<dyn Fn() -> usize + Send>,
    sockets: Table<Socket>,
    /// Receives that found no buffer.
    starved: Vec<Id>,
    /// Sends that used up their share of the last turn.
    again: Vec<Id>,
    /// The way of long files.
    conduit: Conduit,
    /// Where output waits, if the line's rate is limited.
    egress: Option<Box<Egress>>,
    /// A buffer for held input.
    spare: Option<Buf>,
    /// Memory of output under way and of input received unasked, in bytes.
    held: usize,
    /// Bytes received unasked for a connection before its receive is ended.
    ahead_max: usize,
    /// Whether output takes no more memory than its bytes.
    is_pressed: bool,
    /// Whether the kernel is to use small send buffers.
    is_tight: bool,
    now: Instant,
}

impl Uring {
    /// A back end that accepts from these listeners. `room` returns how many more connections may be opened before all
    /// limits are reached, if other workers take as many.
    ///
    /// # Errors
    /// The kernel's, for a new ring; see [`Refusal`](super::refusal::Refusal).
    pub(crate) fn new(
        listeners: Vec<Arc<OwnedFd>>,
        wake: &Waker,
        sizes: Sizes,
        room: impl Fn() -> usize + Send + 'static,
    ) -> std::io::Result<Uring> {
        let listeners = listeners.into_iter().map(|fd| Listener {
            fd: Some(fd),
            accept: Accept::Off,
            accepted: VecDeque::new(),
            failed: None,
            told: false,
        });
        Ok(Uring {
            ring: Ring::new(sizes)?,
            enabled: false,
            wake: wake.clone(),
            timer: None,
            listeners: listeners.collect(),
            room: Box::new(room),
            sockets: Table::new(),
            starved: Vec::new(),
            again: Vec::new(),
            conduit: Conduit::default(),
            egress: None,
            spare: None,
            held: 0,
            ahead_max: HELD_MAX,
            is_pressed: false,
            is_tight: false,
            now: clock::now(),
        })
    }

    /// Sends output through this egress queue, if there is one.
    pub(crate) fn behind(self, egress: Option<Egress>) -> Uring {
        Uring {
            egress: egress.map(Box::new),
            ..self
        }
    }

    #[cfg(test)]
    pub(crate) const fn conn_size() -> usize {
        Table::<Socket>::slot_size()
    }

    fn enable(&mut self) -> std::io::Result<()> {
        self.ring.enable()?;
        self.enabled = true;
        self.ring.await_input(self.wake.fd().as_fd(), WAKE);
        for at in 0..self.listeners.len() {
            self.arm(at);
        }
        Ok(())
    }

    /// Makes the kernel accept from this listener, unless it already does or the worker must check it first.
    fn arm(&mut self, at: usize) {
        let all = (self.room)() > self.ring.completions();
        let listener = &mut self.listeners[at];
        let idle =
            listener.accept == Accept::Off && listener.accepted.is_empty() && listener.failed.is_none();
        if let (true, Some(fd)) = (idle, &listener.fd) {
            listener.accept = if all { Accept::All } else { Accept::One };
            self.ring.accept(fd.as_fd(), at as u64, all);
        }
    }

    fn accept(&mut self, at: usize) -> Option<Done> {
        let listener = self.listeners.get_mut(at)?;
        while let Some(fd) = listener.accepted.pop_front() {
            if listener.accept == Accept::All && (self.room)() <= self.ring.completions() {
                listener.accept = Accept::Ending;
                self.ring.cancel_accept(at as u64);
            }
            // A peer that has already gone has no address and needs no answer.
            if let Some(peer) = peer_of(&fd) {
                return Some(self.open(fd, peer));
            }
        }
        if let Some(errno) = listener.failed.take() {
            return Some(Done::AcceptFailed { errno });
        }
        if std::mem::take(&mut listener.told) {
            self.arm(at);
            return None;
        }
        // The worker asks on its own initiative: it wants the connections waiting right now, to drain.
        match socket::accept(listener.fd.as_ref()?) {
            Ok(None) => None,
            Ok(Some((fd, peer))) => Some(self.open(fd, peer)),
            Err(errno) => Some(Done::AcceptFailed { errno }),
        }
    }

    fn open(&mut self, fd: OwnedFd, peer: SocketAddr) -> Done {
        if self.is_tight {
            socket::press(&fd);
        }
        let id = self.insert(fd, false);
        Done::Accepted { id, peer }
    }

    fn insert(&mut self, fd: OwnedFd, is_dialed: bool) -> Id {
        self.sockets.insert(Socket {
            fd,
            receive: Receive::Off,
            wanted: false,
            is_dialed,
            held: None,
            output: Output::Nowhere,
        })
    }

    fn accepted(&mut self, at: usize, result: Result<OwnedFd, i32>, more: bool, done: &mut Vec<Done>) {
        let listener = &mut self.listeners[at];
        let is_leaving = listener.accept == Accept::Leaving;
        if !more {
            listener.accept = Accept::Off;
        }
        match result {
            Ok(fd) => listener.accepted.push_back(fd),
            Err(libc::ECANCELED | libc::EAGAIN | libc::EINTR) => {}
            Err(errno) => listener.failed = Some(errno),
        }
        if is_leaving && !more {
            self.leave(at);
        }
        let listener = &mut self.listeners[at];
        if listener.accepted.is_empty() && listener.failed.is_none() {
            if !listener.told {
                self.arm(at);
            }
        } else if !std::mem::replace(&mut listener.told, true) {
            done.push(Done::Incoming { listener: at });
        }
    }

    #[inline]
    fn receive(&mut self, id: Id) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        if let Some(held) = &mut socket.held {
            if !held.bytes.is_empty() {
                let most = if socket.is_dialed {
                    Buf::LONG
                } else {
                    Buf::CAPACITY
                };
                let mut buf = self.spare.take().unwrap_or_else(|| Buf::of(Buf::LONG));
                buf.len = held.bytes.len().min(most);
                buf.bytes[..buf.len].copy_from_slice(&held.bytes[..buf.len]);
                held.bytes.drain(..buf.len);
                self.held -= buf.len;
                if held.bytes.is_empty() && held.end.is_none() {
                    socket.held = None;
                }
                return Some(Done::Recv { id, buf });
            }
            match held.end {
                Some(End::Eof) => return Some(Done::Eof { id }),
                Some(End::Lost(errno)) => {
                    let loss = Loss::Socket(errno);
                    return Some(Done::Failed { id, loss });
                }
                None => {}
            }
        }
        socket.wanted = true;
        if socket.receive == Receive::Off {
            socket.receive = Receive::Armed;
            self.ring.receive(socket.fd.as_fd(), token(id));
        }
        None
    }

    #[inline]
    fn received(&mut self, id: Id, result: Result<Option<Buf>, i32>, more: bool, done: &mut Vec<Done>) {
        let Some(socket) = self.sockets.get_mut(id) else {
            if let Ok(Some(buf)) = result {
                self.ring.recycle(buf);
            }
            return;
        };
        if !more {
            socket.receive = Receive::Off;
        }
        let end = match result {
            Ok(Some(buf)) if socket.wanted => {
                socket.wanted = false;
                done.push(Done::Recv { id, buf });
                return;
            }
            Ok(Some(buf)) => {
                let held = socket.held.get_or_insert_default();
                held.bytes.extend_from_slice(buf.filled());
                self.held += buf.len;
                // What a peer sends is passed on in longer calls.
                let most = match socket.is_dialed && self.ahead_max == HELD_MAX {
                    true => Buf::LONG,
                    false => self.ahead_max,
                };
                if held.bytes.len() > most && socket.receive == Receive::Armed {
                    socket.receive = Receive::Ending;
                    self.ring.cancel_receive(token(id));
                }
                self.ring.recycle(buf);
                return;
            }
            Ok(None) => End::Eof,
            Err(libc::ENOBUFS | libc::ECANCELED | libc::EAGAIN | libc::EINTR) => {
                if socket.wanted {
                    self.starved.push(id);
                }
                return;
            }
            Err(errno) => End::Lost(errno),
        };
        if !socket.wanted {
            socket.held.get_or_insert_default().end = Some(end);
            return;
        }
        socket.wanted = false;
        done.push(match end {
            End::Eof => Done::Eof { id },
            End::Lost(errno) => {
                let loss = Loss::Socket(errno);
                Done::Failed { id, loss }
            }
        });
    }

    #[inline]
    fn send(&mut self, id: Id, mut out: Box<Out>, disk: Disk) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        if self.is_tight {
            socket::press(&socket.fd);
        }
        if out.is_sent() {
            return Some(Done::Sent { id, out });
        }
        if let Some(egress) = self.egress.as_mut().filter(|_| !socket.is_dialed) {
            // At least until the end of the turn, so that output with fewer bytes left can go first.
            egress.hold(id, out.left(), out.tx.beyond, self.now);
            self.held += out.cost();
            socket.output = Output::Held(out, disk);
            return None;
        }
        if matches!(out.tx.body, Some(Body::File(_))) || !out.writing.is_free() || out.is_patient {
            return self.send_here(id, out, disk, None);
        }
        if self.is_pressed {
            // The kernel may keep it until a slow client reads.
            socket::shrink(&mut out);
        }
        self.held += out.cost();
        socket.output = Output::Flying(self.ring.send(socket.fd.as_fd(), token(id), out));
        None
    }

    /// Sends with calls of this thread: files, or output to be divided in a certain way or patient.
    fn send_here(&mut self, id: Id, mut out: Box<Out>, disk: Disk, grant: Option<Grant>) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        let before = out.left();
        let most = grant.map_or(socket::ALL, |grant| grant.bytes);
        let pushed = socket::push(&socket.fd, &mut out, disk, most, Some(&mut self.conduit));
        if let (Some(egress), Some(grant)) = (&mut self.egress, grant) {
            egress.used(grant, before - out.left());
            if out.is_answer_sent() {
                egress.forget(id);
            }
        }
        let bytes = match pushed {
            Pushed::All => return Some(Done::Sent { id, out }),
            Pushed::Lost(loss) => return Some(Done::Failed { id, loss }),
            Pushed::Cold(range) => {
                self.held += out.cost();
                socket.output = Output::Cold(out);
                return Some(Done::Cold { id, range });
            }
            Pushed::Blocked | Pushed::Enough => std::mem::take(&mut out.unreported),
        };
        socket::shrink(&mut out);
        self.held += out.cost();
        let mut egress = self.egress.as_mut().filter(|_| !socket.is_dialed);
        if let (Some(egress), 1..) = (&mut egress, bytes) {
            egress.advanced(id);
        }
        if matches!(pushed, Pushed::Blocked) {
            socket.output = Output::Blocked(out);
            self.ring.await_room(socket.fd.as_fd(), token(id));
        } else if let Some(egress) = egress {
            egress.hold(id, out.left(), out.tx.beyond, self.now);
            socket.output = Output::Held(out, Disk::Ask);
        } else {
            socket.output = Output::Shared(out);
            self.again.push(id);
        }
        (bytes > 0).then_some(Done::Progress { id, bytes })
    }

    /// Sends as much as the line takes now.
    #[cold]
    fn let_go(&mut self, done: &mut Vec<Done>) {
        let now = clock::now();
        while let Some(grant) = self.egress.as_mut().and_then(|egress| egress.next(now)) {
            let Some(socket) = self.sockets.get_mut(grant.id) else {
                continue;
            };
            if let Output::Held(out, disk) = std::mem::replace(&mut socket.output, Output::Nowhere) {
                self.held -= out.cost();
                done.extend(self.send_here(grant.id, out, disk, Some(grant)));
            }
        }
    }

    fn resume(&mut self, id: Id, warmed: Result<(), Loss>) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        let (out, disk) = match std::mem::replace(&mut socket.output, Output::Nowhere) {
            Output::Cold(out) => (out, Disk::Warmed),
            Output::Shared(out) | Output::Blocked(out) => (out, Disk::Ask),
            other => {
                socket.output = other;
                return None;
            }
        };
        self.held -= out.cost();
        match warmed {
            Ok(()) => self.send(id, out, disk),
            Err(loss) => Some(Done::Failed { id, loss }),
        }
    }

    #[inline]
    fn sent(&mut self, id: Id, result: Result<usize, i32>, mut out: Box<Out>, done: &mut Vec<Done>) {
        self.held -= out.cost();
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        socket.output = Output::Nowhere;
        match result {
            Ok(bytes) => out.advance(bytes),
            Err(libc::EINTR | libc::EAGAIN) => {}
            Err(errno) => {
                let loss = Loss::Socket(errno);
                return done.push(Done::Failed { id, loss });
            }
        }
        if out.is_sent() {
            return done.push(Done::Sent { id, out });
        }
        let bytes = std::mem::take(&mut out.unreported);
        socket::shrink(&mut out);
        self.held += out.cost();
        socket.output = Output::Flying(self.ring.send(socket.fd.as_fd(), token(id), out));
        if bytes > 0 {
            done.push(Done::Progress { id, bytes });
        }
    }

    fn signaled(&mut self, token: u64, more: bool, done: &mut Vec<Done>) {
        match token {
            WAKE => {
                self.wake.hear();
                if !more {
                    self.ring.await_input(self.wake.fd().as_fd(), WAKE);
                }
                done.push(Done::Woken);
            }
            TIMER => self.timer = None,
            _ => {
                let id = id_of(token);
                match self.sockets.get_mut(id).map(|socket| &mut socket.output) {
                    Some(Output::Blocked(_)) => done.push(Done::Ready { id }),
                    Some(output @ Output::Opening) => {
                        *output = Output::Nowhere;
                        done.push(Done::Ready { id });
                    }
                    _ => {}
                }
            }
        }
    }

    fn close(&mut self, id: Id) {
        let Some(socket) = self.sockets.remove(id) else {
            return;
        };
        // The kernel keeps a socket open while an operation is under way on it.
        if socket.receive == Receive::Armed {
            self.ring.cancel_receive(token(id));
        }
        self.held -= socket.held.as_ref().map_or(0, |held| held.bytes.len());
        match socket.output {
            // Its output belongs to the kernel until the completion.
            Output::Flying(ticket) => self.ring.cancel_send(ticket),
            Output::Blocked(out) => {
                self.held -= out.cost();
                self.ring.cancel_poll(token(id));
            }
            Output::Opening => self.ring.cancel_poll(token(id)),
            Output::Shared(out) | Output::Cold(out) | Output::Held(out, _) => self.held -= out.cost(),
            Output::Nowhere => {}
        }
        if let Some(egress) = &mut self.egress {
            egress.forget(id);
        }
        self.ring.close(socket.fd);
    }

    /// Cancels the accepts and nothing more: a shutdown(2) would also end the listener for the process it was handed
    /// to.
    fn stop_listening(&mut self) {
        for at in 0..self.listeners.len() {
            let listener = &mut self.listeners[at];
            match listener.accept {
                Accept::Off => self.leave(at),
                Accept::Ending => listener.accept = Accept::Leaving,
                Accept::One | Accept::All => {
                    listener.accept = Accept::Leaving;
                    self.ring.cancel_accept(at as u64);
                }
                Accept::Leaving | Accept::Gone => {}
            }
        }
    }

    /// Takes waiting connections, then takes the listener out of service. The kernel announces each connection to only
    /// one of the processes that accept. If that was this one, while its accept was being canceled, another process
    /// with the listener would not hear of the connection before the next one arrives.
    fn leave(&mut self, at: usize) {
        let room = (self.room)();
        let listener = &mut self.listeners[at];
        listener.accept = Accept::Gone;
        let Some(fd) = listener.fd.take() else { return };
        while listener.accepted.len() < room
            && let Ok(Some((waiting, _))) = socket::accept(&fd)
        {
            listener.accepted.push_back(waiting);
        }
    }

    /// Ensures that waiting ends at `until`. An earlier timer does no harm.
    fn set_timer(&mut self, until: Instant) {
        match self.timer {
            Some(at) if at <= until => return,
            Some(_) => self.ring.move_timer(TIMER, until),
            None => self.ring.start_timer(TIMER, until),
        }
        self.timer = Some(until);
    }
}

impl Backend for Uring {
    fn is_awaited(&mut self, listener: usize) -> bool {
        let Some(at) = self.listeners.get_mut(listener) else {
            return false;
        };
        // With the kernel's accept under way, nothing stays in its queue.
        let queued = |fd: &OwnedFd| at.accept == Accept::Off && socket::is_awaited(fd);
        let is_awaited =
            !at.accepted.is_empty() || at.failed.is_some() || at.fd.as_ref().is_some_and(|fd| queued(fd));
        if !is_awaited && std::mem::take(&mut at.told) {
            self.arm(listener);
        }
        is_awaited
    }

    #[inline]
    fn submit(&mut self, op: Op) -> Option<Done> {
        match op {
            Op::Recv { id } => self.receive(id),
            Op::Pause { id } => {
                if let Some(socket) = self.sockets.get_mut(id) {
                    // What arrives is held.
                    socket.wanted = false;
                }
                None
            }
            Op::Send { id, out } => self.send(id, out, Disk::Ask),
            Op::Resume { id, warmed } => self.resume(id, warmed),
            Op::Accept { listener } => self.accept(listener),
            Op::Close { id } => {
                self.close(id);
                None
            }
            Op::Abort { id } => {
                if let Some(socket) = self.sockets.get_mut(id) {
                    socket::reset_when_closed(&socket.fd);
                }
                self.close(id);
                None
            }
            Op::ShutdownWrite { id } => {
                // Fails only if the connection is gone; the receive reports that. Not an operation of the ring, because
                // the kernel would hand it to a thread.
                if let Some(socket) = self.sockets.get_mut(id) {
                    let _ = rustix::net::shutdown(&socket.fd, Shutdown::Write);
                }
                None
            }
            Op::StopListening => {
                self.stop_listening();
                None
            }
        }
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Done>) -> std::io::Result<Instant> {
        if !self.enabled {
            self.enable()?;
        }
        for id in std::mem::take(&mut self.starved) {
            // All buffers have been returned by now.
            if let Some(socket) = self.sockets.get_mut(id)
                && socket.wanted
                && socket.receive == Receive::Off
            {
                socket.receive = Receive::Armed;
                self.ring.receive(socket.fd.as_fd(), token(id));
            }
        }
        let mut until = until;
        if self.egress.is_some() {
            self.let_go(done);
            let due = self.egress.as_ref().and_then(|egress| egress.due(clock::now()));
            until = [until, due].into_iter().flatten().min();
        }
        let pressing =
            !self.again.is_empty() || !done.is_empty() || until.is_some_and(|until| until <= self.now);
        if let (Some(until), false) = (until, pressing) {
            self.set_timer(until);
        }
        self.ring.enter(!pressing)?;
        while let Some(completion) = self.ring.next() {
            match completion {
                Completion::Received { token, result, more } => {
                    self.received(id_of(token), result, more, done);
                }
                Completion::Sent { token, result, out } => self.sent(id_of(token), result, out, done),
                Completion::Accepted { token, result, more } => {
                    self.accepted(token as usize, result, more, done);
                }
                Completion::Signaled { token, more } => self.signaled(token, more, done),
            }
        }
        done.extend(self.again.drain(..).map(|id| Done::Ready { id }));
        self.now = clock::now();
        Ok(self.now)
    }

    fn is_listening(&self) -> bool {
        self.listeners
            .iter()
            .any(|listener| listener.accept == Accept::Leaving)
    }

    #[inline]
    fn recycle(&mut self, buf: Buf) {
        if let Some(buf) = self.ring.recycle(buf) {
            self.spare = Some(buf);
        }
    }

    #[inline]
    fn held(&self) -> usize {
        self.held
    }

    fn press(&mut self, step: Step) {
        self.ahead_max = match step {
            Step::Calm => HELD_MAX,
            _ => PRESSED_RECEIVE,
        };
        self.is_pressed = step > Step::Calm;
        self.is_tight = step >= Step::Idle;
    }

    #[inline]
    fn withheld(&self) -> Option<Withheld> {
        self.egress.as_ref().map(|egress| egress.withheld())
    }

    fn waited(&self, id: Id, now: Instant) -> Duration {
        let egress = self.egress.as_ref();
        egress.map_or(Duration::ZERO, |egress| egress.waited(id, now))
    }

    fn dial(&mut self, to: &Upstream) -> Result<Id, PeerLoss> {
        let fd = socket::open(to)?;
        Ok(self.insert(fd, true))
    }

    fn opened(&mut self, id: Id) -> Option<Result<(), i32>> {
        let socket = self.sockets.get_mut(id)?;
        let opened = socket::opened(&socket.fd);
        if opened.is_none() && !matches!(socket.output, Output::Opening) {
            socket.output = Output::Opening;
            self.ring.await_room(socket.fd.as_fd(), token(id));
        }
        opened
    }

    /// What arrives stays in the socket until the ring is entered, so looking there suffices.
    fn is_quiet(&mut self, id: Id) -> bool {
        let socket = self.sockets.get_mut(id);
        // A completion that the worker has not processed yet ended the wait for input.
        socket.is_some_and(|socket| socket.wanted && socket.held.is_none() && socket::is_quiet(&socket.fd))
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

/// Indices stay far below 2^29, because that many connections need as many descriptors.
fn token(id: Id) -> u64 {
    u64::from(id.index) << 32 | u64::from(id.generation)
}

fn id_of(token: u64) -> Id {
    Id {
        index: (token >> 32) as u32,
        generation: token as u32,
    }
}

fn peer_of(fd: &OwnedFd) -> Option<SocketAddr> {
    match rustix::net::getpeername(fd).ok()?? {
        peer if peer.address_family() == AddressFamily::UNIX => Some(UNIX_PEER),
        peer => SocketAddr::try_from(peer).ok(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
