//! A session that speaks TLS for another, so that any protocol over the driver's contract can be served encrypted.
//!
//! ```text
//!   driver ── ciphertext ──▶ Secured: Engine ── plaintext ──▶ the wrapped session
//!     ▲                                                            │ head, body in memory
//!     └──── records ◀── encrypt ◀─────────────────────────────────┤
//!     └──── job: read a chunk of the file ─▶ encrypt ─▶ records ◀──┘ body in a file
//! ```
//! A connection of a listener without TLS passes through untouched. Decides when ciphertext goes out and in which pieces a
//! file is read; what is served and how long anything may take stays with the wrapped session. Its timeout for a request head
//! runs from the accept, so that it bounds the handshake too.

mod duplex;

use crate::certificates;
use crate::engine::{Agreed, Engine, Fault};
use crate::settings::Slot;
use crate::tickets::{Ratchet, Rotation};
use bytes::Bytes;
use duplex::Duplex;
use runtime::fs::Wait;
use runtime::memory::{Budget, Holding};
use runtime::session::{self, Dialing, JobOf, Later, Loss, TlsVersion};
use runtime::shaping::Withheld;
use runtime::{
    Accepted, Action, Body, Context, Event, FileRange, Job, Line, Service, Session, Tx, Unsecured,
};
use rustls::ProtocolVersion;
use std::sync::Arc;
use units::{Duration, Instant, UnixTime};

/// Bytes of a body read, encrypted and sent at a time: what a slow reader costs in memory. glibc maps buffers of 128 KiB and
/// more anew each time (`M_MMAP_THRESHOLD`, mallopt(3)), and each page faults.
const CHUNK: u64 = 64 << 10;

/// A request of plain HTTP on a TLS port gets this; the connection ends with it.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 58\r\nConnection: close\r\n\r\n\
    This port speaks HTTPS: use https:// instead of http://.\r\n";

/// Connections accepted per turn. Most come with a ClientHello, whose answer takes a fifth of a millisecond, and connections
/// that are open wait for all of them.
const HANDSHAKES_PER_TURN: u32 = 4;

/// A service whose connections speak TLS where their listener does.
#[derive(Debug)]
pub struct SecuredService<V> {
    inner: Arc<V>,
    /// By index of the listener; `None`: cleartext.
    slots: Vec<Option<Slot>>,
    tickets: Ratchet,
}

impl<V: Service> SecuredService<V> {
    /// Wraps a service. `slots` has one entry per listener, in the order in which the strategy gets them; `None` is
    /// cleartext. Listeners beyond the end speak as the last one. Each worker moves the keys of `tickets` on with the
    /// time.
    pub fn new(inner: Arc<V>, slots: Vec<Option<Slot>>, tickets: Ratchet) -> SecuredService<V> {
        SecuredService {
            inner,
            slots,
            tickets,
        }
    }

    fn slot(&self, listener: u8) -> Option<&Slot> {
        let slots = &self.slots;
        slots.get(usize::from(listener)).or(slots.last())?.as_ref()
    }
}

impl<V: Service> Service for SecuredService<V> {
    type Session = Secured<V::Session>;

    fn context(&self, worker: usize) -> SecuredCx<<V::Session as Session>::Cx> {
        SecuredCx {
            inner: self.inner.context(worker),
            rotation: Rotation::new(self.tickets.clone()),
            budget: self.inner.budget(),
            scratch: Vec::new(),
            plain: Vec::new(),
            tx: Tx::default(),
        }
    }

    fn accept(
        &self,
        cx: &mut SecuredCx<<V::Session as Session>::Cx>,
        accepted: &Accepted,
        now: Instant,
    ) -> Option<Secured<V::Session>> {
        cx.tx.clear();
        let config = self.slot(accepted.listener).map(Slot::config);
        let accepted = Accepted {
            is_to_agree: config.is_some(),
            ..*accepted
        };
        let mut inner = self.inner.accept(&mut cx.inner, &accepted, now)?;
        let tls = match config.map(Engine::server).transpose() {
            Ok(engine) => engine.map(|engine| Box::new(Tls::new(engine))),
            Err(_) => {
                let event = Event::Unsecured(Unsecured::Fault);
                inner.handle(&mut cx.inner, event, &mut cx.tx, now);
                inner.closed(&mut cx.inner, now);
                return None;
            }
        };
        Some(Secured { inner, tls })
    }

    fn is_full(&self) -> bool {
        self.inner.is_full()
    }

    fn close_idle(&self) -> bool {
        self.inner.close_idle()
    }

    fn accepts_per_turn(&self, listener: u8) -> u32 {
        match self.slot(listener) {
            Some(_) => HANDSHAKES_PER_TURN,
            None => self.inner.accepts_per_turn(listener),
        }
    }

    fn budget(&self) -> Arc<Budget> {
        self.inner.budget()
    }

    fn dialing(&self) -> Option<Dialing> {
        self.inner.dialing()
    }

    fn grace(&self) -> Duration {
        self.inner.grace()
    }
}

/// The context of a worker: that of the wrapped sessions, and buffers that they share.
#[derive(Debug)]
pub struct SecuredCx<C> {
    inner: C,
    rotation: Rotation,
    budget: Arc<Budget>,
    /// Of no content between calls.
    scratch: Vec<u8>,
    plain: Vec<u8>,
    /// Output of the wrapped session, until it is encrypted.
    tx: Tx,
}

/// Buffers larger than this after a turn are given back.
const BUFFER_KEPT: usize = 256 << 10;

impl<C: Context> Context for SecuredCx<C> {
    type Job = Work<C::Job>;

    fn turn(&mut self, now: Instant, wall: UnixTime) {
        for buffer in [&mut self.scratch, &mut self.plain, &mut self.tx.head] {
            if buffer.capacity() > BUFFER_KEPT {
                *buffer = Vec::new();
            }
        }
        self.rotation.turn(wall);
        self.inner.turn(now, wall);
    }

    fn wake(&self) -> Option<Instant> {
        self.inner.wake()
    }

    fn has_new_bounds(&mut self) -> bool {
        self.inner.has_new_bounds()
    }

    fn is_timed(&self) -> bool {
        self.inner.is_timed()
    }

    fn wants_path(&self) -> bool {
        self.inner.wants_path()
    }

    fn withheld(&mut self, what: Withheld) {
        self.inner.withheld(what);
    }

    fn line_patience(&self) -> Duration {
        self.inner.line_patience()
    }

    fn rest(&mut self, now: Instant, line: Line) {
        self.inner.rest(now, line);
    }
}

/// Work that may block: the wrapped session's, or a chunk of a file.
#[derive(Debug)]
pub enum Work<J> {
    /// The wrapped session's.
    Inner(J),
    /// Bytes to be encrypted.
    Read(Chunk),
}

/// A piece of a file, and whether it is the last of its body.
#[derive(Clone, Debug)]
pub struct Chunk {
    range: FileRange,
    is_last: bool,
}

/// What came of [`Work`].
#[derive(Debug)]
pub enum Done<O> {
    /// Of the wrapped session's.
    Inner(O),
    /// The bytes, or why there are none.
    Read(Result<Vec<u8>, Loss>),
}

impl Chunk {
    /// None if it would have to wait.
    fn read(&self, wait: Wait) -> Option<Result<Vec<u8>, Loss>> {
        self.range.read(self.is_last, wait)
    }
}

impl<J: Job> Job for Work<J> {
    type Output = Done<J::Output>;

    fn try_now(self) -> Result<Self::Output, Self> {
        match self {
            Work::Inner(job) => job.try_now().map(Done::Inner).map_err(Work::Inner),
            Work::Read(chunk) => match chunk.read(Wait::Cached) {
                Some(read) => Ok(Done::Read(read)),
                None => Err(Work::Read(chunk)),
            },
        }
    }

    fn defer(self, later: Later<Self::Output>) -> Result<(), Self> {
        match self {
            Work::Inner(job) => job.defer(later.map(Done::Inner)).map_err(Work::Inner),
            Work::Read(_) => Err(self),
        }
    }

    fn run(self) -> Self::Output {
        match self {
            Work::Inner(job) => Done::Inner(job.run()),
            Work::Read(chunk) => {
                let read = chunk.read(Wait::Block);
                Done::Read(read.unwrap_or(Err(Loss::File(0))))
            }
        }
    }
}

/// A connection, with TLS or without.
#[derive(Debug)]
pub struct Secured<S: Session> {
    inner: S,
    tls: Option<Box<Tls<JobOf<S>>>>,
}

/// What a connection with TLS has besides its session.
struct Tls<J> {
    engine: Engine,
    /// What the engine keeps of a record that is not whole, counted against the memory limit.
    kept: Option<Holding>,
    output: Output,
    /// A job that the wrapped session gave together with a body in a file.
    held: Option<J>,
    /// `close_notify` was given out, or must not be.
    is_closing: bool,
    /// TLS itself failed: all that is left is to close.
    has_failed: bool,
    /// What the wrapped session and TLS do at once, if the session works both ways.
    duplex: Option<Duplex>,
}

impl<J> std::fmt::Debug for Tls<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("engine", &self.engine)
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

/// What of the wrapped session's output is on its way.
#[derive(Debug)]
enum Output {
    /// Nothing.
    None,
    /// All of it was given out: that it was sent is for the session to know.
    All,
    /// A body in memory of which this much is not encrypted yet. Only of a session that takes one way at a time.
    Memory(Bytes),
    /// A body of which this much is not read yet.
    File(FileRange),
    /// The same, while a job reads the chunk before.
    Reading(FileRange),
}

impl<J> Tls<J> {
    fn new(engine: Engine) -> Tls<J> {
        Tls {
            engine,
            kept: None,
            output: Output::None,
            held: None,
            is_closing: false,
            has_failed: false,
            duplex: None,
        }
    }

    /// Counts what the engine keeps between calls.
    fn count(&mut self, budget: &Arc<Budget>) {
        match (&mut self.kept, self.engine.held()) {
            (None, 0) => {}
            (kept, 0) => *kept = None,
            (Some(kept), bytes) => kept.set(bytes),
            (kept, bytes) => *kept = Some(budget.holding(bytes)),
        }
    }

    /// Encrypts what the session wrote.
    fn encrypt(&mut self, plain: &mut Tx, tx: &mut Tx) {
        if plain.is_empty() {
            return;
        }
        let mut sent = self.engine.send(&plain.head, &mut tx.head);
        self.output = Output::All;
        match plain.body.take() {
            None => {}
            Some(Body::Bytes(bytes)) if self.duplex.is_some() => {
                sent = sent.and_then(|()| self.engine.send(&bytes, &mut tx.head));
            }
            Some(Body::Bytes(bytes)) => {
                plain.beyond += bytes.len() as u64;
                self.output = Output::Memory(bytes);
                sent = sent.and_then(|()| self.send_part(&mut plain.beyond, &mut tx.head));
            }
            Some(Body::File(range)) if range.len == 0 => {}
            Some(Body::File(range)) => {
                plain.beyond += range.len;
                self.output = Output::File(range);
            }
        }
        tx.beyond = std::mem::take(&mut plain.beyond);
        plain.head.clear();
        self.has_failed |= sent.is_err();
    }

    /// Encrypts the next chunk of a body in memory; `beyond` are the bytes of the answer that are not given out.
    fn send_part(&mut self, beyond: &mut u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        let Output::Memory(rest) = &mut self.output else {
            return Ok(());
        };
        let part = rest.split_to(rest.len().min(CHUNK as usize));
        *beyond = beyond.saturating_sub(part.len() as u64);
        if rest.is_empty() {
            self.output = Output::All;
        }
        self.engine.send(&part, out)
    }

    /// The next chunk of the body, if there is one to be read.
    fn next_chunk(&mut self) -> Option<Chunk> {
        let Output::File(rest) = std::mem::replace(&mut self.output, Output::All) else {
            return None;
        };
        let length = rest.len.min(CHUNK);
        let chunk = Chunk {
            is_last: length == rest.len,
            range: FileRange {
                len: length,
                ..rest.clone()
            },
        };
        self.output = Output::Reading(FileRange {
            offset: rest.offset + length,
            len: rest.len - length,
            ..rest
        });
        Some(chunk)
    }

    /// Adds `close_notify`, once.
    fn say_goodbye(&mut self, tx: &mut Tx) {
        if !std::mem::replace(&mut self.is_closing, true) && !self.engine.is_handshaking() {
            // Without it the peer sees an end that may be a truncation; there is nothing else to do.
            let _ = self.engine.close(&mut tx.head);
        }
    }
}

impl<S: Session> Secured<S> {
    /// Takes ciphertext in.
    fn decrypt(&mut self, cx: &mut SecuredCx<S::Cx>, cipher: &[u8], tx: &mut Tx, now: Instant) {
        let Some(tls) = &mut self.tls else { return };
        cx.plain.clear();
        let received = tls
            .engine
            .receive(cipher, &mut cx.scratch, &mut cx.plain, &mut tx.head);
        tls.count(&cx.budget);
        let is_closed = match received {
            Ok(received) => {
                if received.completed {
                    let identity = tls.engine.peer_certificate().and_then(certificates::identity);
                    let agreed = tls.engine.agreed();
                    let secured = session::Secured {
                        protocol: tls.engine.protocol(),
                        resumed: agreed.resumed,
                        identity: identity.as_deref(),
                        version: version(&agreed),
                    };
                    self.inner
                        .handle(&mut cx.inner, Event::Secured(secured), &mut cx.tx, now);
                }
                received.closed
            }
            Err(fault) => {
                tls.has_failed = true;
                tls.is_closing = true;
                let why = match fault {
                    Fault::PlainHttp => {
                        tx.head.extend_from_slice(PLAIN_HTTP);
                        Unsecured::PlainHttp
                    }
                    Fault::Tls(error) => {
                        tracing::debug!("TLS: {error}");
                        Unsecured::Fault
                    }
                };
                self.inner
                    .handle(&mut cx.inner, Event::Unsecured(why), &mut cx.tx, now);
                return;
            }
        };
        if !cx.plain.is_empty() {
            let plain = std::mem::take(&mut cx.plain);
            self.inner
                .handle(&mut cx.inner, Event::Bytes(&plain), &mut cx.tx, now);
            cx.plain = plain;
        }
        if is_closed {
            self.inner.handle(&mut cx.inner, Event::Eof, &mut cx.tx, now);
        }
    }

    /// A chunk of the body was read.
    fn send_chunk(
        &mut self,
        cx: &mut SecuredCx<S::Cx>,
        read: Result<Vec<u8>, Loss>,
        tx: &mut Tx,
        now: Instant,
    ) {
        let Some(tls) = &mut self.tls else { return };
        let Output::Reading(rest) = std::mem::replace(&mut tls.output, Output::None) else {
            return;
        };
        match read {
            Ok(bytes) => {
                tls.has_failed |= tls.engine.send(&bytes, &mut tx.head).is_err();
                tx.beyond = rest.len;
                tls.output = match rest.len {
                    0 => Output::All,
                    _ => Output::File(rest),
                };
            }
            Err(loss) => {
                // A close that the peer must not take for the end of the body.
                tls.is_closing = true;
                self.inner
                    .handle(&mut cx.inner, Event::Lost(loss), &mut cx.tx, now);
            }
        }
    }

    /// What was given out last has been sent.
    fn sent(&mut self, cx: &mut SecuredCx<S::Cx>, tx: &mut Tx, now: Instant) {
        let Some(tls) = &mut self.tls else { return };
        let event = match &tls.output {
            Output::None => return,
            Output::All => {
                tls.output = Output::None;
                Event::Sent
            }
            Output::Memory(rest) => {
                tx.beyond = rest.len() as u64;
                tls.has_failed |= tls.send_part(&mut tx.beyond, &mut tx.head).is_err();
                Event::Progress(1)
            }
            // The peer takes something: the timeout of a write begins anew.
            Output::File(_) | Output::Reading(_) => Event::Progress(1),
        };
        self.inner.handle(&mut cx.inner, event, &mut cx.tx, now);
    }

    /// An event of a connection that takes one way at a time.
    fn handle_in_turn(
        &mut self,
        cx: &mut SecuredCx<S::Cx>,
        event: Event<'_, Work<JobOf<S>>>,
        tx: &mut Tx,
        now: Instant,
    ) {
        let Some(tls) = &mut self.tls else { return };
        match event {
            Event::Bytes(cipher) => self.decrypt(cx, cipher, tx, now),
            Event::Done(_, Done::Read(read)) => self.send_chunk(cx, read, tx, now),
            Event::Sent => self.sent(cx, tx, now),
            event => {
                tls.is_closing |= matches!(event, Event::Lost(_));
                if let Some(event) = unwrapped(event) {
                    self.inner.handle(&mut cx.inner, event, &mut cx.tx, now);
                }
            }
        }
    }
}

impl<S: Session> Session for Secured<S> {
    type Cx = SecuredCx<S::Cx>;

    fn handle(&mut self, cx: &mut Self::Cx, event: Event<'_, JobOf<Self>>, tx: &mut Tx, now: Instant) {
        let Some(tls) = &mut self.tls else {
            if let Some(event) = unwrapped(event) {
                self.inner.handle(&mut cx.inner, event, tx, now);
            }
            return;
        };
        // Nothing of another connection may be in it.
        cx.tx.clear();
        if tls.duplex.is_some() {
            return self.handle_duplex(cx, event, tx, now);
        }
        self.handle_in_turn(cx, event, tx, now);
    }

    fn poll(&mut self, cx: &mut Self::Cx, tx: &mut Tx, now: Instant) -> Action<JobOf<Self>> {
        let Some(tls) = &mut self.tls else {
            return wrapped(self.inner.poll(&mut cx.inner, tx, now));
        };
        if tls.duplex.is_some() {
            return self.poll_duplex(cx, tx, now);
        }
        if tls.has_failed {
            return Action::Close;
        }
        let is_busy = !matches!(tls.output, Output::None);
        let action = self.inner.poll(&mut cx.inner, &mut cx.tx, now);
        if matches!(
            action,
            Action::Start(..) | Action::Peer | Action::End | Action::Duplex { .. }
        ) {
            tls.duplex = Some(Duplex::default());
            return self.carry_out(action, cx, tx, now);
        }
        if matches!(action, Action::Close) && is_busy && cx.tx.is_empty() {
            // It gives up on what is on its way.
            tls.is_closing = true;
            return Action::Close;
        }
        tls.encrypt(&mut cx.tx, tx);
        if tls.has_failed {
            return Action::Close;
        }
        match (&tls.output, action) {
            (Output::Reading(_), _) => Action::Stay,
            (Output::Memory(_), action) => {
                if let Action::Wait(job) = action {
                    tls.held = Some(job);
                }
                match tx.is_empty() {
                    true => Action::Stay,
                    false => Action::Write,
                }
            }
            (Output::File(_), action) => {
                if let Action::Wait(job) = action {
                    tls.held = Some(job);
                }
                match tls.next_chunk() {
                    Some(chunk) => Action::Wait(Work::Read(chunk)),
                    None => Action::Stay,
                }
            }
            (Output::None | Output::All, Action::Wait(job)) => Action::Wait(Work::Inner(job)),
            (Output::All, _) if is_busy && !tx.is_empty() => Action::Write,
            (Output::None, action) if tls.held.is_some() => match tls.held.take() {
                Some(job) => Action::Wait(Work::Inner(job)),
                None => wrapped(action),
            },
            (_, action @ (Action::HalfClose | Action::Close)) => {
                tls.say_goodbye(tx);
                wrapped(action)
            }
            (_, action) => wrapped(action),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let duplex = self.tls.as_ref().and_then(|tls| tls.duplex.as_ref());
        let ends_by = duplex.and_then(|duplex| duplex.ends_by);
        ends_by.or_else(|| self.inner.deadline())
    }

    fn idle_since(&self, cx: &Self::Cx) -> Option<Instant> {
        self.inner.idle_since(&cx.inner)
    }

    fn closed(&mut self, cx: &mut Self::Cx, now: Instant) {
        self.inner.closed(&mut cx.inner, now);
    }
}

/// The event as the wrapped session knows it; none if it is of this layer alone.
fn unwrapped<J: Job>(event: Event<'_, Work<J>>) -> Option<Event<'_, J>> {
    Some(match event {
        Event::Bytes(bytes) => Event::Bytes(bytes),
        Event::Path(path) => Event::Path(path),
        Event::Sent => Event::Sent,
        Event::Progress(bytes) => Event::Progress(bytes),
        Event::Taken(taken) => Event::Taken(taken),
        Event::Done(ticket, Done::Inner(output)) => Event::Done(ticket, output),
        Event::Done(_, Done::Read(_)) => return None,
        Event::Peer(ticket, event) => Event::Peer(ticket, event),
        Event::Eof => Event::Eof,
        Event::Deadline => Event::Deadline,
        Event::Drain => Event::Drain,
        Event::Retire => Event::Retire,
        Event::GiveWay(need) => Event::GiveWay(need),
        Event::Reconsider => Event::Reconsider,
        Event::Lost(loss) => Event::Lost(loss),
        Event::Secured(secured) => Event::Secured(secured),
        Event::Unsecured(why) => Event::Unsecured(why),
    })
}

/// The version that was agreed on.
fn version(agreed: &Agreed) -> Option<TlsVersion> {
    match agreed.version {
        Some(ProtocolVersion::TLSv1_2) => Some(TlsVersion::V12),
        Some(ProtocolVersion::TLSv1_3) => Some(TlsVersion::V13),
        _ => None,
    }
}

/// The action as the driver knows it.
fn wrapped<J>(action: Action<J>) -> Action<Work<J>> {
    match action {
        Action::Read => Action::Read,
        Action::Write => Action::Write,
        Action::Stay => Action::Stay,
        Action::Wait(job) => Action::Wait(Work::Inner(job)),
        Action::Start(ticket, job) => Action::Start(ticket, Work::Inner(job)),
        Action::Duplex { read, patient } => Action::Duplex { read, patient },
        Action::Peer => Action::Peer,
        Action::End => Action::End,
        Action::HalfClose => Action::HalfClose,
        Action::Close => Action::Close,
        Action::Abort => Action::Abort,
    }
}

#[cfg(test)]
mod tests;
