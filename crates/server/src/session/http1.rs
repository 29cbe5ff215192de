//! HTTP/1 (RFC 9112): one connection, which answers one request after the other.
//!
//! ```text
//!              ┌──────────────── Sent, nothing left ────────────────┐
//!              ▼                                                    │
//!  accept ─▶ Idle ─ bytes ─▶ Head ─ head whole ─┬─ known ─────▶ Sending ─┬─ last answer ─▶ Lingering
//!              │              ▲                 │                ▲  ▲    │                    │
//!              │              └─ part of a head ┤                │  └────┤ parts, left-over   │
//!              │                                ├─ body ─▶ Body ─┤       │ input              │
//!              │                                ├─ unknown ─▶ Waiting    └─ peer asked ─▶ Closed
//!              │                                └─ route ───▶ Forward, until its response was sent
//!              └───────────── Eof, Deadline, Drain ────────────────────────────────────────▲
//! ```
//!
//! An idle connection owns no memory outside this struct. Boxes hold a partial head, input behind a response, a request
//! that waits for a job, and the rest of a multipart response. Their size is limited by that of a head and by the
//! amount a driver reads at once: while output is pending, nothing is read.
//!
//! `serve` takes requests off the input, an exchange ([`crate::exchange`]) chooses the answer to each, and `reply`
//! writes it. This file decides which events may occur when, and how a connection ends.

mod again;
mod forward;
mod reply;
mod serve;
mod stopped;

use super::client::{Client, Layer};
use super::gateway::of_fault;
use crate::access_log::{Cut, Slot};
use crate::context::{Cx, Done, Work};
use crate::exchange::{Exchange, Failure, Multipart};
use crate::limits::Limits;
use forward::Passed;
use http1::server::Connection;
use runtime::memory::Holding;
use runtime::session::{Loss, Need, Secured, Taken, Unsecured};
use runtime::{Action, Event, Tx};
use serve::Received;
use units::{Duration, Instant};

/// A connection that speaks HTTP/1.
#[derive(Debug)]
pub struct Http1 {
    http: Connection,
    phase: Phase,
    /// End of the current phase's timeout.
    deadline: Instant,
    client: Client,
    /// Whether the peer has closed its sending half.
    half_closed: bool,
    /// Whether the server is shutting down: the next response is the last.
    draining: bool,
    /// Whether the next response is the last, because the strategy was switched. An idle connection still waits for its
    /// request.
    retiring: bool,
    /// Log lines of the responses being sent.
    slot: Slot,
}

/// State of a connection.
#[derive(Debug)]
enum Phase {
    /// Between requests.
    Idle,
    /// Part of a request head has arrived.
    Head(Box<Input>),
    /// A request body is being read and discarded.
    Body(Box<Discard>),
    /// A job is looking for the response.
    Waiting(Box<Wait>),
    /// The request is passed to an upstream.
    Forward(Box<Passed>),
    /// Output is being sent.
    Sending(Then),
    /// The server has closed its half and waits for the peer to close, so that no reset destroys the last response.
    Lingering,
    /// The client speaks HTTP/2; this is what it sent so far.
    Other(Box<Input>),
    /// To be reset: the client must not take its response for complete.
    Reset,
    /// Closed.
    Closed,
}

/// The next step once the output is sent.
#[derive(Debug)]
enum Then {
    /// Wait for the next request.
    Idle,
    /// Serve input that arrived with the requests just answered.
    Input(Box<Input>),
    /// Read the body of the current request.
    Body(Box<Discard>),
    /// Wait for the job of a request that followed others.
    Wait(Box<Wait>),
    /// Pass on a request that followed others.
    Forward(Box<Passed>),
    /// Send further parts of the same response.
    Parts(Box<Parts>),
    /// Close: the peer expects no more and sends no more.
    Close,
    /// Linger: the peer may still be sending.
    Linger,
}

/// Input not parsed yet.
#[derive(Debug)]
struct Input {
    bytes: Vec<u8>,
    /// Arrival of its first byte.
    started: Instant,
    held: Holding,
}

impl Input {
    /// Keeps these bytes, the first of which arrived at `started`.
    fn keep(cx: &Cx, bytes: &[u8], started: Instant) -> Box<Input> {
        Box::new(Input {
            bytes: bytes.to_vec(),
            started,
            held: cx.hub.budget.holding(size_of::<Input>() + bytes.len()),
        })
    }
}

/// A request body being read.
#[derive(Debug)]
struct Discard {
    _held: Holding,
    /// The head of its request, which is answered when the body is complete.
    head: Vec<u8>,
    /// Bytes of the body that cannot be parsed yet: part of a trailer section, limited in size.
    left: Vec<u8>,
    /// Arrival of the request's first byte.
    started: Instant,
    /// Beginning of the body.
    since: Instant,
    /// Content bytes so far.
    received: u64,
    /// The error that the request gets, which is counted then.
    declined: Option<Failure>,
}

/// A request that waits for a job.
#[derive(Debug)]
struct Wait {
    _held: Holding,
    exchange: Exchange,
    /// The driver takes it at the next poll.
    job: Option<Work>,
    /// The head, or the part of it that arrived if it is invalid.
    bytes: Vec<u8>,
    /// Whether `bytes` is a complete and valid request.
    is_request: bool,
    /// Whether its body, if it has one, is in `rest`: it may have a route to an upstream.
    is_unread: bool,
    /// Input behind the request.
    rest: Vec<u8>,
}

/// A multipart response being sent.
#[derive(Debug)]
struct Parts {
    multipart: Multipart,
    then: Then,
}

impl Http1 {
    /// A connection that must send bytes until `deadline`.
    pub(super) fn new(client: Client, deadline: Instant) -> Http1 {
        Http1 {
            http: Connection::new(),
            phase: Phase::Idle,
            deadline,
            client,
            half_closed: false,
            draining: false,
            retiring: false,
            slot: Slot::NONE,
        }
    }

    /// Who is at the other end.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// TLS agreed with the client, perhaps on HTTP/2.
    #[cold]
    fn secured(&mut self, cx: &Cx, secured: Secured<'_>, now: Instant) {
        cx.counters.tls_handshakes().add(1);
        cx.counters.tls_resumed().add(u64::from(secured.resumed));
        if let Layer::Agreeing { hurried } = self.client.layer() {
            cx.hub.handshakes.leave(self.client.address());
            if hurried {
                self.deadline = now + cx.state.limits.header_timeout;
            }
        }
        self.client.secured(secured);
        if secured.protocol == Some(HTTP2) {
            self.phase = Phase::Other(Input::keep(cx, &[], now));
        }
    }

    /// What stands in for a connection that moves elsewhere.
    pub(super) fn placeholder() -> Http1 {
        let nobody = std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        Http1::new(Client::new(nobody, Layer::None, None), Instant::ZERO)
    }

    /// Whether the connection goes on as another kind of session.
    #[inline]
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Other(_) | Phase::Forward(_))
    }

    /// Whether the client speaks HTTP/2 instead.
    #[inline]
    pub(super) fn is_other(&self) -> bool {
        matches!(self.phase, Phase::Other(_))
    }

    /// Leaves the connection to HTTP/2: its client, the input so far, and the deadline of a connection that must send
    /// bytes.
    #[cold]
    pub(super) fn leave(&mut self) -> (Client, Vec<u8>, Instant) {
        let input = match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Other(input) => input.bytes,
            _ => Vec::new(),
        };
        (self.client.take(), input, self.deadline)
    }

    /// The event that has told it of the end of the server, if one has.
    #[cold]
    pub(super) fn end_in_sight(&self) -> Option<Event<'static, Work>> {
        match (self.draining, self.retiring) {
            (true, _) => Some(Event::Drain),
            (false, true) => Some(Event::Retire),
            (false, false) => None,
        }
    }

    /// Whether no request is under way.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Whether the output is all that is left of the requests so far.
    #[inline]
    pub(super) fn has_answered(&self) -> bool {
        matches!(self.phase, Phase::Sending(Then::Idle))
    }

    fn bytes(&mut self, cx: &mut Cx, bytes: &[u8], tx: &mut Tx, now: Instant) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => self.serve(cx, bytes, now, tx, now),
            Phase::Head(mut input) => {
                input.bytes.extend_from_slice(bytes);
                input.held.set(size_of::<Input>() + input.bytes.capacity());
                let (until, requests) = (self.deadline, self.client.requests);
                self.serve(cx, &input.bytes, input.started, tx, now);
                if matches!(self.phase, Phase::Head(_)) && self.client.requests == requests {
                    // Still the same head: single bytes do not extend its time.
                    self.deadline = until;
                }
            }
            Phase::Body(discard) => self.body(cx, discard, bytes, tx, now),
            phase @ Phase::Forward(_) => {
                self.phase = phase;
                self.pass_bytes(cx, bytes, now);
            }
            phase @ (Phase::Waiting(_)
            | Phase::Sending(_)
            | Phase::Lingering
            | Phase::Other(_)
            | Phase::Reset
            | Phase::Closed) => {
                debug_assert!(
                    matches!(phase, Phase::Lingering | Phase::Reset | Phase::Closed),
                    "bytes arrived while the session did not read"
                );
                self.phase = phase;
            }
        }
    }

    /// The output was sent, and nothing but the next request follows.
    #[inline(never)]
    pub(super) fn answer_sent(&mut self, cx: &mut Cx, now: Instant) {
        debug_assert!(self.has_answered(), "something follows the output");
        // This phase owns nothing: forgetting it spares every response the search for what to free.
        std::mem::forget(std::mem::replace(&mut self.phase, Phase::Idle));
        self.tally(cx, now);
        self.idle(cx, now);
    }

    /// Finishes the log lines of the responses sent. Always inlined, as `depart` is.
    #[inline(always)]
    fn tally(&mut self, cx: &mut Cx, now: Instant) {
        let tally = cx.journal.sent(&mut self.slot, now);
        cx.counters.bytes_sent().add(tally.bytes);
        if cx.state.config.behavior.log_each {
            cx.flush_each(now);
        }
    }

    /// The output was sent.
    fn sent(&mut self, cx: &mut Cx, tx: &mut Tx, now: Instant) {
        if self.is_forwarding() {
            return self.pass_sent(cx, now);
        }
        let Phase::Sending(then) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            debug_assert!(false, "sent without output");
            self.phase = Phase::Closed;
            return;
        };
        if let Then::Parts(parts) = then {
            cx.journal.part_sent(self.slot);
            self.next_part(cx, parts, tx, now);
            return;
        }
        self.tally(cx, now);
        match then {
            Then::Idle => self.idle(cx, now),
            Then::Input(input) => self.serve(cx, &input.bytes, input.started, tx, now),
            Then::Body(mut discard) => {
                discard.since = now;
                self.await_body(cx, discard, tx, now);
            }
            Then::Wait(wait) => self.wait(cx, wait, now),
            Then::Forward(passed) => self.set_forth(cx, passed, now),
            Then::Close => self.phase = Phase::Closed,
            Then::Linger => {
                self.phase = Phase::Lingering;
                self.deadline = now + cx.state.limits.linger_timeout;
                if self.draining {
                    self.hurry(now);
                }
            }
            Then::Parts(_) => {}
        }
    }

    /// Nothing is under way: waits for a request, or closes.
    #[inline]
    fn idle(&mut self, cx: &Cx, now: Instant) {
        if self.half_closed || self.draining {
            self.phase = Phase::Closed;
        } else {
            if !matches!(self.phase, Phase::Idle) {
                self.phase = Phase::Idle;
            }
            let timeout = match self.client.requests {
                0 => cx.state.limits.idle_timeout,
                _ => cx.idle_timeout(),
            };
            self.deadline = now + timeout;
        }
    }

    /// Gives the content of `tx` to the driver. Always inlined, because a call would cost each response the saving of
    /// registers.
    #[inline(always)]
    fn depart(&mut self, cx: &mut Cx, tx: &mut Tx, then: Then, now: Instant) {
        let body = match &tx.body {
            None => 0,
            Some(runtime::Body::Bytes(bytes)) => bytes.len() as u64,
            Some(runtime::Body::File(range)) => range.len,
        };
        cx.journal.given(&mut self.slot, tx.head.len() as u64 + body);
        let before = std::mem::replace(&mut self.phase, Phase::Sending(then));
        if matches!(before, Phase::Idle) {
            // As in `answer_sent`: it owns nothing.
            std::mem::forget(before);
        }
        self.deadline = now + cx.state.limits.write_timeout;
        if tx.is_empty() {
            self.nothing_departs(cx, tx, now);
        }
    }

    /// An empty file in HTTP/0.9: there is nothing to send.
    #[cold]
    fn nothing_departs(&mut self, cx: &mut Cx, tx: &mut Tx, now: Instant) {
        self.sent(cx, tx, now);
    }

    /// Waits for a job, at most for `disk_timeout`, or as long as another server may take.
    fn wait(&mut self, cx: &Cx, wait: Box<Wait>, now: Instant) {
        self.deadline = now + wait.exchange.patience(cx.state.limits.disk_timeout);
        self.phase = Phase::Waiting(wait);
    }

    /// The peer has acknowledged bytes of the waiting output, or none.
    fn taken(&mut self, cx: &mut Cx, taken: Taken, now: Instant) {
        if !matches!(self.phase, Phase::Sending(_)) && !self.is_passing_down() {
            return;
        }
        let limits = &cx.state.limits;
        if taken.moves {
            self.deadline = now + limits.write_timeout;
        }
        let granted = taken.bytes.saturating_mul(1_000).checked_div(limits.send_rate.0);
        if let Some(granted) = granted.map(Duration::from_millis)
            && now > taken.since + limits.write_timeout + granted
        {
            cx.counters.timeouts().add(1);
            self.abort(cx, Cut::Timeout, now);
        }
    }

    /// The peer sends no more. Responses due are still sent; an incomplete request gets 400.
    fn eof(&mut self, cx: &mut Cx, tx: &mut Tx, now: Instant) {
        self.half_closed = true;
        match &self.phase {
            Phase::Idle | Phase::Lingering => self.phase = Phase::Closed,
            Phase::Head(_) | Phase::Body(_) => match self.http.eof() {
                Ok(()) => self.phase = Phase::Closed,
                Err(fault) => self.cut_short(cx, of_fault(fault), tx, now),
            },
            Phase::Forward(_) => self.pass_eof(),
            Phase::Waiting(_) | Phase::Sending(_) | Phase::Other(_) | Phase::Reset | Phase::Closed => {}
        }
    }

    fn timeout(&mut self, cx: &mut Cx, tx: &mut Tx, now: Instant) {
        if now < self.deadline {
            return;
        }
        match &self.phase {
            Phase::Idle => {
                cx.counters.timeouts().add(1);
                self.phase = Phase::Closed;
            }
            // Only empty lines: no request has begun that could be answered.
            Phase::Head(_) if self.http.is_idle() => {
                cx.counters.timeouts().add(1);
                self.phase = Phase::Closed;
            }
            Phase::Head(_) | Phase::Body(_) => {
                cx.counters.timeouts().add(1);
                self.cut_short(cx, Failure::TIMEOUT, tx, now);
            }
            Phase::Sending(_) => {
                cx.counters.timeouts().add(1);
                self.abort(cx, Cut::Timeout, now);
            }
            Phase::Lingering => self.phase = Phase::Closed,
            Phase::Waiting(_) => self.late(cx, tx, now),
            Phase::Forward(_) => self.pass_timeout(cx, now),
            Phase::Other(_) | Phase::Reset | Phase::Closed => {}
        }
    }

    /// Answers an incomplete request and ends the connection.
    fn cut_short(&mut self, cx: &mut Cx, failure: Failure, tx: &mut Tx, now: Instant) {
        let (bytes, started) = match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Head(input) => (input.bytes, input.started),
            Phase::Body(discard) => (discard.head, discard.started),
            _ => return,
        };
        self.refuse(cx, &Received::input(&bytes, started), failure, tx, now);
    }

    fn drain(&mut self, now: Instant) {
        self.draining = true;
        match self.phase {
            Phase::Idle => self.phase = Phase::Closed,
            Phase::Head(_) | Phase::Lingering => self.hurry(now),
            Phase::Body(_)
            | Phase::Waiting(_)
            | Phase::Forward(_)
            | Phase::Sending(_)
            | Phase::Other(_)
            | Phase::Reset
            | Phase::Closed => {}
        }
    }

    /// Shortens the deadline of an idle connection to that of one that becomes idle now.
    fn reconsider(&mut self, cx: &Cx, now: Instant) {
        if let Phase::Idle = self.phase {
            let before = self.deadline;
            self.idle(cx, now);
            self.deadline = self.deadline.min(before);
        }
    }

    /// Another connection needs this one's place or memory. An incomplete request gets 408, and the connection does not
    /// linger after that, because it would keep its place.
    fn give_way(&mut self, cx: &mut Cx, need: Need, tx: &mut Tx, now: Instant) {
        match need {
            Need::Place => cx.counters.idle_closed().add(1),
            Need::Memory => cx.counters.idle_closed_for_memory().add(1),
        }
        match self.phase {
            Phase::Head(_) | Phase::Body(_) if !self.http.is_idle() => {
                self.cut_short(cx, Failure::TIMEOUT, tx, now);
                if let Phase::Sending(Then::Linger) = self.phase {
                    self.phase = Phase::Sending(Then::Close);
                }
            }
            _ => self.phase = Phase::Closed,
        }
    }

    /// How long a request may take to arrive while other connections need a place.
    fn patience(&self, cx: &Cx) -> Duration {
        let peers = &cx.hub.peers;
        let held = u64::from(peers.held(self.client.address()));
        match held * 4 > u64::from(peers.total()) {
            true => Limits::CROWD_PATIENCE,
            false => Limits::PATIENCE,
        }
    }

    /// Limits the wait for a peer without a response due to [`Limits::HURRY`].
    fn hurry(&mut self, now: Instant) {
        self.deadline = self.deadline.min(now + Limits::HURRY);
    }

    /// Ends the connection and gives up its output.
    fn abort(&mut self, cx: &mut Cx, cut: Cut, now: Instant) {
        if self.is_forwarding() {
            self.log_cut(cx, now);
        }
        let tally = cx.journal.lost(&mut self.slot, cut, now);
        cx.counters.bytes_sent().add(tally.bytes);
        cx.counters.aborted().add(tally.cut);
        if cut == Cut::File {
            cx.counters.truncated().add(tally.cut);
        }
        self.phase = Phase::Closed;
    }
}

impl Http1 {
    pub(super) fn handle(&mut self, cx: &mut Cx, event: Event<'_, Work>, tx: &mut Tx, now: Instant) {
        match event {
            Event::Bytes(bytes) => self.bytes(cx, bytes, tx, now),
            Event::Sent => self.sent(cx, tx, now),
            Event::Path(path) => cx.journal.path(self.slot, path),
            Event::Progress(bytes) => {
                cx.journal.progress(self.slot, bytes);
                if matches!(self.phase, Phase::Sending(_)) || self.is_passing_down() {
                    self.deadline = now + cx.state.limits.write_timeout;
                }
            }
            Event::Taken(taken) => self.taken(cx, taken, now),
            Event::Done(_, Done::Loaded(loaded)) => self.found(cx, loaded, tx, now),
            Event::Done(_, Done::Woken) => self.pass_woken(cx, now),
            Event::Done(_, Done::Read(_)) => debug_assert!(false, "drivers read files for HTTP/1"),
            Event::Eof => self.eof(cx, tx, now),
            Event::Deadline => self.timeout(cx, tx, now),
            Event::Drain => self.drain(now),
            Event::Retire => self.retiring = true,
            Event::Reconsider => self.reconsider(cx, now),
            Event::GiveWay(need) => self.give_way(cx, need, tx, now),
            Event::Lost(Loss::Socket(_)) => self.abort(cx, Cut::Peer, now),
            Event::Lost(Loss::File(_)) => self.abort(cx, Cut::File, now),
            Event::Peer(ticket, event) => self.peer(cx, ticket, event, now),
            Event::Secured(secured) => self.secured(cx, secured, now),
            Event::Unsecured(why) => unsecured(cx, why),
        }
    }

    /// As [`Http1::handle`], for a connection that works both ways: input may come once after it is no longer wanted, and
    /// the result of a job after it was given up.
    pub(super) fn handle_both_ways(
        &mut self,
        cx: &mut Cx,
        event: Event<'_, Work>,
        tx: &mut Tx,
        now: Instant,
    ) {
        match event {
            Event::Bytes(bytes) if matches!(self.phase, Phase::Waiting(_) | Phase::Sending(_)) => {
                self.keep_input(cx, bytes, now);
            }
            Event::Done(_, Done::Woken) => self.pass_woken(cx, now),
            Event::Done(ticket, _) if !self.awaits(ticket) => {}
            event => self.handle(cx, event, tx, now),
        }
    }

    #[inline]
    pub(super) fn poll(&mut self, tx: &Tx) -> Action<Work> {
        match &mut self.phase {
            Phase::Idle | Phase::Head(_) | Phase::Body(_) => Action::Read,
            Phase::Sending(_) if tx.is_empty() => Action::Stay,
            Phase::Sending(_) => Action::Write,
            Phase::Waiting(wait) => match wait.job.take() {
                Some(job) => Action::Wait(job),
                None => Action::Stay,
            },
            Phase::Lingering => Action::HalfClose,
            // The session goes on as one that works both ways.
            Phase::Forward(_) => Action::Stay,
            Phase::Reset => Action::Abort,
            Phase::Other(_) | Phase::Closed => Action::Close,
        }
    }

    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        (self.deadline < Instant::ZERO + Duration::MAX).then_some(self.deadline)
    }

    /// Computed from the deadline, because a field for it would cost memory in every connection. After a reload that
    /// changes the timeouts, it is off by the difference until the next request.
    pub(super) fn idle_since(&self, cx: &Cx) -> Option<Instant> {
        let limits = &cx.state.limits;
        let before = |timeout: Duration| {
            let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            Instant::from_nanos(self.deadline.as_nanos().saturating_sub(nanos))
        };
        let silent = limits.header_timeout.saturating_sub(limits.deferred);
        if let Layer::Agreeing { hurried } = self.client.layer() {
            // As for a request that does not arrive.
            let accepted = before(if hurried {
                silent.min(Limits::PATIENCE)
            } else {
                silent
            });
            return Some(accepted + self.patience(cx));
        }
        let timeout = match &self.phase {
            // A client must not keep others out with requests that never arrive.
            Phase::Head(input) => return Some(input.started + self.patience(cx)),
            Phase::Body(discard) => return Some(discard.since + self.patience(cx)),
            Phase::Idle if self.client.requests == 0 => silent,
            Phase::Idle => cx.idle_timeout(),
            // The peer may still be receiving the last response.
            Phase::Lingering => limits.linger_timeout.saturating_sub(Limits::HURRY),
            _ => return None,
        };
        Some(before(timeout))
    }

    /// The connection is gone.
    pub(super) fn closed(&mut self, cx: &mut Cx, now: Instant) {
        self.abort(cx, Cut::Peer, now);
    }
}

/// HTTP/2 over TLS, in ALPN (RFC 9113 section 3.2).
const HTTP2: &[u8] = b"h2";

/// TLS ends the connection.
#[cold]
fn unsecured(cx: &Cx, why: Unsecured) {
    match why {
        Unsecured::Fault => cx.counters.tls_failed().add(1),
        Unsecured::PlainHttp => cx.counters.tls_plain_http().add(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_small() {
        assert_eq!(size_of::<Phase>(), 16);
    }
}
