//! HTTP/3 (RFC 9114): one connection with many requests under way, each on a QUIC stream of its own.
//!
//! ```text
//!                        ┌─ body awaited ─▶ Receiving ─┐
//!   streams ─▶ request ──┤                             ├─▶ exchange ─┬─ answer ─▶ Sending ─▶ gone
//!                        └─────────────────────────────┘      ▲      └─ job ────▶ Waiting ─┐
//!                                                             └──────────────── done ──────┘
//!   streams ─▶ request with a route ─▶ Forward: an upstream answers it
//! ```
//! As over HTTP/2 ([`super::http2`]), with the transport in place of the driver's output: what it takes at a time is little,
//! so an urgent answer overtakes the rest. `requests` takes requests in and sends answers, `forward` passes those with a route
//! on. Priorities and floods are the
//! protocol's business (crate `http3`), packets and flow control the transport's; this file decides how a connection lives
//! and ends.

mod forward;
mod requests;

#[cfg(test)]
mod tests;

use super::client::{Client, Layer};
use super::multiplexed::forward::{self as passing, Forwarding as _};
use super::multiplexed::stream::{self, State};
use crate::access_log::Cut;
use crate::context::{Cx, Done, Work};
use crate::exchange::Failure;
use crate::rate_limit::Pace;
use ::http3::server::{Connection, Output};
use ::http3::{Code, Fault};
use runtime::memory::Holding;
use runtime::session::{Ask, Need, Secured, Ticket};
use runtime::streams::{Event, Input, LAST_WORDS, Transport, Wanted};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use units::{Duration, Instant};

type Stream = stream::Stream<u64>;

/// While the server drains: time for a handshake under way. A client repeats a flight that was lost after one second, and again
/// after two more (RFC 9002 section 6.2.2).
const LAST_HANDSHAKE: Duration = Duration::from_secs(3);
/// Why a connection is closed before its requests are answered.
const ENDS: &str = "the server ends";

/// A connection that speaks HTTP/3.
#[derive(Debug)]
pub struct Http3 {
    http: Connection,
    client: Client,
    /// Requests that are not answered whole yet, in the order of their numbers.
    streams: Vec<Stream>,
    /// Streams whose last bytes the client has not acknowledged: closing the connection could lose them.
    unacknowledged: BTreeSet<u64>,
    /// Input of which the protocol needs more. Small: it keeps what belongs to a frame itself.
    input: BTreeMap<u64, Vec<u8>>,
    phase: Phase,
    /// End of the handshake, of the time without any request, or of the connection.
    deadline: Instant,
    /// A request came since the connection was last idle.
    is_active: bool,
    /// The server is shutting down.
    draining: bool,
    /// A request of this connection named a priority, so the others mean the default.
    names_priorities: bool,
    /// A request was passed to an upstream.
    has_passed: bool,
    /// What is to be asked for connections to upstreams whose streams are gone.
    parting: Vec<(Ticket, Ask)>,
    /// Streams whose input was left unread until upstreams took what came before.
    unread: BTreeSet<u64>,
    held: Holding,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Client and transport have not agreed yet.
    Agreeing,
    /// Requests are taken.
    Open,
    /// GOAWAY was given to the transport; the connection is closed at the deadline, for this reason.
    Leaving(&'static str),
    /// Closed.
    Closed,
}

impl Http3 {
    /// A connection from `peer`, whose handshake must be complete at `deadline`.
    pub(crate) fn new(cx: &Cx, peer: IpAddr, pace: Option<Pace>, deadline: Instant) -> Http3 {
        let client = Client::new(peer, Layer::Agreeing { hurried: false }, pace);
        Http3 {
            held: cx.hub.budget.holding(size_of::<Http3>()),
            http: Connection::new(Arc::clone(&cx.state.http3_limits)),
            client,
            streams: Vec::new(),
            unacknowledged: BTreeSet::new(),
            input: BTreeMap::new(),
            phase: Phase::Agreeing,
            deadline,
            is_active: false,
            draining: false,
            names_priorities: false,
            has_passed: false,
            parting: Vec::new(),
            unread: BTreeSet::new(),
        }
    }

    fn connected(&mut self, cx: &mut Cx, secured: Secured<'_>, transport: &mut dyn Transport, now: Instant) {
        cx.counters.http3_connections().add(1);
        cx.counters.tls_handshakes().add(1);
        cx.counters.tls_resumed().add(u64::from(secured.resumed));
        cx.hub.handshakes.leave(self.client.address());
        self.client.secured(secured);
        self.phase = Phase::Open;
        self.deadline = now + cx.state.limits.header_timeout;
        // The protocol writes to it by its number, which is known.
        if transport.open().is_none() {
            let text = "the peer allows no control stream (RFC 9114 section 6.2)";
            let fault = Fault::Connection(Code::STREAM_CREATION_ERROR, text);
            return self.fail(cx, fault, transport, now);
        }
        if self.draining {
            // Only now can the client ask, and learn that it should not.
            self.http.shut_down(now);
        }
    }

    /// Reads what has arrived of a stream, unless an upstream has to take what came before. So a request that is passed on
    /// holds what one read brings, and the transport a window.
    fn readable(&mut self, cx: &mut Cx, id: u64, transport: &mut dyn Transport, now: Instant) {
        if self.holds_content(id) {
            if transport.was_reset(id).is_some() {
                self.was_reset(cx, id, transport, now);
            }
            return;
        }
        let mut bytes = self.input.remove(&id).unwrap_or_default();
        let input = transport.read(id, &mut |more| bytes.extend_from_slice(more));
        let used = self.take_in(cx, id, &bytes, input == Input::End, transport, now);
        if used < bytes.len() && input == Input::Open && self.phase == Phase::Open {
            bytes.drain(..used);
            self.input.insert(id, bytes);
        }
        if let Input::Reset(_) = input {
            self.was_reset(cx, id, transport, now);
        }
    }

    /// The peer has ended its half of a stream early.
    fn was_reset(&mut self, cx: &mut Cx, id: u64, transport: &mut dyn Transport, now: Instant) {
        match self.http.peer_reset(id, now) {
            Ok(true) => {
                cx.counters.http3_resets().add(1);
                self.drop_stream(cx, id, Cut::Peer, now);
            }
            Ok(false) => {}
            Err(fault) => self.fail(cx, fault, transport, now),
        }
    }

    /// The peer wants no more of an answer.
    fn stopped(&mut self, cx: &mut Cx, id: u64, code: u64, transport: &mut dyn Transport, now: Instant) {
        self.unacknowledged.remove(&id);
        match self.http.peer_stopped(id, Code(code), now) {
            Ok(true) => {
                cx.counters.http3_resets().add(1);
                self.drop_stream(cx, id, Cut::Peer, now);
            }
            Ok(false) => {}
            Err(fault) => self.fail(cx, fault, transport, now),
        }
    }

    fn timeout(&mut self, cx: &mut Cx, transport: &mut dyn Transport, now: Instant) {
        match self.phase {
            Phase::Closed => return,
            Phase::Leaving(why) if self.deadline <= now => return self.close(transport, Code::NO_ERROR, why),
            _ => {}
        }
        let mut lost = Vec::new();
        if let Err(fault) = self.http.expire(now, |id, _| lost.push(id)) {
            cx.counters.timeouts().add(1);
            return self.fail(cx, fault, transport, now);
        }
        for id in lost {
            cx.counters.timeouts().add(1);
            self.drop_stream(cx, id, Cut::Timeout, now);
        }
        self.expire_streams(cx, now);
        if !self.is_active && self.streams.is_empty() && self.deadline <= now {
            cx.counters.timeouts().add(1);
            self.leave(cx, transport, "idle", LAST_WORDS, now);
        }
    }

    /// Ends streams that took too long to arrive or to be found.
    fn expire_streams(&mut self, cx: &mut Cx, now: Instant) {
        let is_due = |stream: &Stream| stream.deadline().is_some_and(|due| due <= now);
        while let Some(at) = self.streams.iter().position(is_due) {
            let id = self.streams[at].id;
            match self.streams[at].state {
                State::Receiving(_) => {
                    cx.counters.timeouts().add(1);
                    self.give_up(cx, id, Failure::TIMEOUT, now);
                }
                State::Waiting(_) => self.late(cx, id, now),
                State::Forward(_) => self.pass_timeout(cx, id, now),
                State::Sending(_) | State::Gone(_) => {
                    self.http.reset(id, Code::INTERNAL_ERROR);
                    self.drop_stream(cx, id, Cut::File, now);
                }
            }
        }
    }

    /// Gives up all answers, and closes a little later.
    fn cut(&mut self, cx: &mut Cx, transport: &mut dyn Transport, now: Instant) {
        if let Phase::Leaving(_) = self.phase {
            return;
        }
        for id in self.streams.iter().map(|stream| stream.id).collect::<Vec<_>>() {
            self.http.reset(id, Code::REQUEST_CANCELLED);
        }
        self.abort(cx, Cut::Peer, now);
        // Ends of streams come first and need no room.
        loop {
            match self.http.poll() {
                Some(Output::Reset { stream, code }) => transport.reset(stream, code.0),
                Some(Output::Stop { stream, code }) => transport.stop(stream, code.0),
                Some(Output::Write(_)) | None => break,
            }
        }
        self.leave(cx, transport, ENDS, LAST_WORDS, now);
    }

    /// Tells the client which requests were taken, so that it can repeat the others (RFC 9114 section 5.2), and closes after
    /// `patience`. With the close, the transport drops what it has not sent.
    fn leave(
        &mut self,
        cx: &mut Cx,
        transport: &mut dyn Transport,
        why: &'static str,
        patience: Duration,
        now: Instant,
    ) {
        if self.phase == Phase::Agreeing {
            // There is no control stream yet.
            return self.close(transport, Code::NO_ERROR, why);
        }
        self.http.leave();
        self.write(cx, transport, now);
        self.phase = Phase::Leaving(why);
        self.deadline = now + patience;
    }

    fn close(&mut self, transport: &mut dyn Transport, code: Code, reason: &str) {
        transport.close(code.0, reason);
        self.phase = Phase::Closed;
    }

    /// The protocol ended the connection.
    fn fail(&mut self, cx: &mut Cx, fault: Fault, transport: &mut dyn Transport, now: Instant) {
        tracing::debug!("HTTP/3: {fault}");
        cx.counters.http3_failed().add(1);
        self.abort(cx, Cut::Peer, now);
        let (Fault::Connection(code, text) | Fault::Stream(_, code, text)) = fault;
        self.close(transport, code, text);
    }

    /// Drops a stream whose answer will not be sent whole.
    fn drop_stream(&mut self, cx: &mut Cx, id: u64, cut: Cut, now: Instant) {
        self.input.remove(&id);
        self.unread.remove(&id);
        self.unacknowledged.remove(&id);
        let Ok(at) = self.at(id) else { return };
        let stream = &mut self.streams[at];
        passing::part(&self.client, &mut self.parting, stream, cx);
        stream.lost(cx, cut, now);
        if !stream.is_working {
            self.streams.remove(at);
        }
    }

    /// Gives up all answers.
    fn abort(&mut self, cx: &mut Cx, cut: Cut, now: Instant) {
        for mut stream in self.streams.drain(..) {
            passing::part(&self.client, &mut self.parting, &mut stream, cx);
            stream.lost(cx, cut, now);
        }
    }

    /// Where the stream is, or would be.
    fn at(&self, id: u64) -> Result<usize, usize> {
        self.streams.binary_search_by_key(&id, |stream| stream.id)
    }

    /// A job has ended.
    fn done(&mut self, cx: &mut Cx, id: u64, done: Done, now: Instant) {
        self.http.job_ended(id);
        let Ok(at) = self.at(id) else { return };
        let stream = &mut self.streams[at];
        stream.is_working = false;
        match (&mut stream.state, done) {
            (State::Waiting(_), Done::Loaded(loaded)) => self.found(cx, id, loaded, now),
            (State::Gone(exchange), Done::Loaded(loaded)) => {
                // What was found is good for others.
                if let Some(mut exchange) = exchange.take() {
                    let _ = exchange.found(cx, loaded);
                }
                self.streams.remove(at);
            }
            (State::Gone(_), Done::Read(_) | Done::Woken) => drop(self.streams.remove(at)),
            (State::Sending(content), Done::Read(Ok(bytes))) => {
                let fresh = content.was_read(bytes);
                self.announce(id, fresh);
            }
            (State::Sending(_), Done::Read(Err(_))) => {
                self.http.reset(id, Code::INTERNAL_ERROR);
                self.drop_stream(cx, id, Cut::File, now);
            }
            // It came too late: the request was answered with an error.
            (State::Sending(_), Done::Loaded(_)) => {}
            (State::Forward(passed), Done::Loaded(loaded)) if passed.check.is_some() => {
                self.checked(cx, id, loaded, now);
            }
            // Its upstream failed meanwhile.
            (State::Forward(_), Done::Loaded(_)) => {}
            (State::Forward(passed), Done::Woken) => {
                if passed.forward.wait_ended(now) {
                    passed.rewind(&cx.state.limits, now);
                }
            }
            // It waited too long, and an error was the answer.
            (_, Done::Woken) => {}
            (State::Waiting(_) | State::Receiving(_) | State::Forward(_), _) => {
                debug_assert!(false, "a job finished that was not given");
            }
        }
    }

    /// Counts the memory in use, and gives back what an idle connection does not need.
    fn rest(&mut self, cx: &Cx, now: Instant) {
        if self.is_active && self.streams.is_empty() {
            self.is_active = false;
            self.http.trim();
            self.streams = Vec::new();
            self.deadline = now + cx.idle_timeout();
        }
        let streams: usize = self.streams.iter().map(Stream::memory).sum();
        let input: usize = self.input.values().map(Vec::capacity).sum();
        // The protocol counts its own size, which is part of this one.
        let own = size_of::<Http3>() - size_of::<Connection>();
        self.held.set(own + self.http.memory() + streams + input);
    }
}

impl runtime::streams::Session for Http3 {
    type Cx = Cx;

    const INTERNAL_ERROR: u64 = Code::INTERNAL_ERROR.0;

    fn handle(&mut self, cx: &mut Cx, event: Event<'_, Work>, transport: &mut dyn Transport, now: Instant) {
        if self.phase == Phase::Closed {
            return;
        }
        match event {
            Event::Connected(secured) => self.connected(cx, secured, transport, now),
            Event::Unsecured => cx.counters.tls_failed().add(1),
            Event::Opened(id) => {
                if let Err(fault) = self.http.open(id, now) {
                    self.fail(cx, fault, transport, now);
                }
            }
            Event::Readable(id) => self.readable(cx, id, transport, now),
            Event::Writable(id) => self.http.writable(id),
            Event::Finished(id) => {
                self.unacknowledged.remove(&id);
            }
            Event::Stopped(id, code) => self.stopped(cx, id, code, transport, now),
            Event::Peer(ticket, event) => self.peer(cx, ticket, event, now),
            Event::Done(Ticket(number), done) => self.done(cx, u64::from(number) << 2, done, now),
            Event::Deadline => self.timeout(cx, transport, now),
            Event::Drain => {
                self.draining = true;
                match self.phase {
                    Phase::Agreeing => self.deadline = self.deadline.min(now + LAST_HANDSHAKE),
                    Phase::Open | Phase::Leaving(_) | Phase::Closed => self.http.shut_down(now),
                }
            }
            Event::Cut => self.cut(cx, transport, now),
            Event::Reconsider => {
                if self.client.requests > 0 {
                    self.deadline = self.deadline.min(now + cx.idle_timeout());
                }
            }
            Event::GiveWay(need) => {
                match need {
                    Need::Place => cx.counters.idle_closed().add(1),
                    Need::Memory => cx.counters.idle_closed_for_memory().add(1),
                }
                // At once, because the place or the memory is needed now. GOAWAY leaves before the close.
                self.leave(cx, transport, "idle", Duration::ZERO, now);
            }
        }
    }

    fn poll(&mut self, cx: &mut Cx, transport: &mut dyn Transport, now: Instant) -> Option<Wanted<Work>> {
        if self.phase != Phase::Open {
            let (ticket, ask) = self.parting.pop()?;
            return Some(Wanted::Peer(ticket, ask));
        }
        if self.has_passed {
            self.read_on(cx, transport, now);
            self.serve_stored(cx, now);
            if let Some((ticket, ask)) = self.next_ask(cx, now) {
                return Some(Wanted::Peer(ticket, ask));
            }
        }
        if let Some((id, work)) = self.next_job(cx, now) {
            self.http.job_began(id);
            // Numbers of request streams are multiples of four (RFC 9000 section 2.1).
            return Some(Wanted::Job(Ticket((id >> 2) as u32), work));
        }
        self.write(cx, transport, now);
        // An upstream is read again once the client took what came.
        if self.has_passed
            && let Some((ticket, ask)) = self.next_ask(cx, now)
        {
            return Some(Wanted::Peer(ticket, ask));
        }
        self.rest(cx, now);
        if self.http.is_drained() && self.streams.is_empty() && self.unacknowledged.is_empty() {
            self.leave(cx, transport, "", LAST_WORDS, now);
        }
        None
    }

    fn deadline(&self) -> Option<Instant> {
        let streams = self.streams.iter().filter_map(Stream::deadline).min();
        let (own, protocol) = match self.phase {
            Phase::Closed => return None,
            Phase::Agreeing | Phase::Leaving(_) => (Some(self.deadline), None),
            Phase::Open if self.is_active || !self.streams.is_empty() => (None, self.http.deadline()),
            Phase::Open => (Some(self.deadline), self.http.deadline()),
        };
        [streams, own, protocol].into_iter().flatten().min()
    }

    fn is_idle(&self) -> bool {
        match self.phase {
            Phase::Closed => true,
            // GOAWAY is still to be sent.
            Phase::Open => self.streams.is_empty() && self.unacknowledged.is_empty() && !self.draining,
            Phase::Agreeing | Phase::Leaving(_) => false,
        }
    }

    /// As for HTTP/2, but a connection with a request whose rest is awaited stays.
    fn idle_since(&self, cx: &Cx) -> Option<Instant> {
        let has_requests = self.is_active || self.http.streams() > 0 || !self.streams.is_empty();
        let owes = has_requests || self.draining || !self.unacknowledged.is_empty();
        if self.phase != Phase::Open || owes {
            return None;
        }
        // The deadline was set when it became idle.
        let patience = match self.client.requests {
            0 => cx.state.limits.header_timeout,
            _ => cx.idle_timeout(),
        };
        let nanos = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        Some(Instant::from_nanos(
            self.deadline.as_nanos().saturating_sub(nanos),
        ))
    }

    fn closed(&mut self, cx: &mut Cx, now: Instant) {
        self.abort(cx, Cut::Peer, now);
        self.phase = Phase::Closed;
        cx.counters.closed().add(1);
        if let Layer::Agreeing { .. } = self.client.layer() {
            cx.hub.handshakes.leave(self.client.address());
        }
        cx.hub.peers.leave(self.client.address());
    }
}
