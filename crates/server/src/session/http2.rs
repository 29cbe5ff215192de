//! HTTP/2 (RFC 9113): one connection with many requests under way.
//!
//! ```text
//!                     ┌─ body awaited ─▶ Receiving ─┐
//!   bytes ─▶ request ─┤                             ├─▶ exchange ─┬─ answer ─▶ Sending ─▶ gone
//!                     └─────────────────────────────┘      ▲      └─ job ────▶ Waiting ─┐
//!                                                          └──────────────── done ──────┘
//!   bytes ─▶ request with a route ─▶ Forward: an upstream answers it
//! ```
//! The connection works both ways at once. Heads of answers go out as they are made; content follows in the order of
//! RFC 9218, a turn at a time: what is given to the driver cannot be overtaken any more. `requests` takes requests in,
//! `forward` passes those with a route on, `turn` knows what is under way; what HTTP/3 does alike is in `multiplexed`. Flow control, priorities and floods are the
//! protocol's business (crate `http2`); this file decides how a connection lives and ends.

mod forward;
mod requests;
mod turn;

#[cfg(test)]
mod tests;

use super::client::Client;
use super::multiplexed::forward::{self as passing, Forwarding as _};
use super::multiplexed::stream::{self, State};
use crate::access_log::Cut;
use crate::context::{Cx, Done, Work};
use crate::exchange::Failure;
use crate::limits::Limits;
use ::http2::server::Connection;
use ::http2::{Code, Fault};
use runtime::memory::Holding;
use runtime::session::{Ask, Loss, Need, Taken};
use runtime::{Action, Event, Ticket, Tx};
use std::sync::Arc;
use turn::Turn;
use units::{Duration, Instant};

/// Frames that wait for the output under way. Above, no input is taken: some of it would have to be answered.
const PENDING_MAX: usize = 64 << 10;

type Stream = stream::Stream<u32>;

/// A connection that speaks HTTP/2.
#[derive(Debug)]
pub struct Http2 {
    http: Connection,
    client: Client,
    /// Requests that are not answered whole yet, in the order of their numbers.
    streams: Vec<Stream>,
    /// Input of which the protocol needs more, or that has to wait.
    input: Vec<u8>,
    /// Frames for the next output.
    pending: Vec<u8>,
    turn: Turn,
    phase: Phase,
    /// End of the time without any request, or for the peer to close.
    deadline: Instant,
    /// The peer has closed its sending half.
    half_closed: bool,
    /// The server is shutting down.
    draining: bool,
    /// A request of this connection named a priority, so the others mean the default.
    names_priorities: bool,
    /// A request came since the connection was last idle.
    is_active: bool,
    /// A request was passed to an upstream.
    has_passed: bool,
    /// What is to be asked for connections to upstreams whose streams are gone.
    parting: Vec<(Ticket, Ask)>,
    held: Holding,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Requests are taken.
    Open,
    /// Output is sent, then the connection ends.
    Ending,
    /// The server has closed its half and waits for the peer to close, so that no reset destroys the last frames.
    Lingering,
    /// Closed.
    Closed,
}

impl Http2 {
    /// A connection of `client`, which must send a request until `deadline`.
    pub(super) fn new(cx: &Cx, client: Client, deadline: Instant, now: Instant) -> Http2 {
        cx.counters.http2_connections().add(1);
        let mut pending = Vec::new();
        let http = Connection::new(Arc::clone(&cx.state.http2_limits), now, &mut pending);
        Http2 {
            held: cx.hub.budget.holding(size_of::<Http2>()),
            http,
            client,
            streams: Vec::new(),
            input: Vec::new(),
            pending,
            turn: Turn::default(),
            phase: Phase::Open,
            deadline,
            half_closed: false,
            draining: false,
            names_priorities: false,
            is_active: false,
            has_passed: false,
            parting: Vec::new(),
        }
    }

    /// Who is at the other end.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Writes nothing to the driver's output: only `poll` knows whether a job has to be given out first.
    pub(super) fn handle(&mut self, cx: &mut Cx, event: Event<'_, Work>, now: Instant) {
        let mut out = std::mem::take(&mut self.pending);
        self.react(cx, event, &mut out, now);
        self.pending = out;
    }

    fn react(&mut self, cx: &mut Cx, event: Event<'_, Work>, out: &mut Vec<u8>, now: Instant) {
        match event {
            Event::Bytes(bytes) => self.bytes(cx, bytes, out, now),
            Event::Sent => {
                self.turn.sent(cx, now);
                // Input may have waited for the output.
                self.bytes(cx, &[], out, now);
            }
            Event::Path(path) => self.turn.path(cx, path),
            Event::Progress(bytes) => self.turn.progress(cx, bytes, now),
            Event::Taken(taken) => self.taken(cx, taken, now),
            Event::Done(Ticket(id), done) => self.done(cx, id, done, out, now),
            Event::Eof => self.eof(cx, now),
            Event::Deadline => self.timeout(cx, out, now),
            Event::Drain => {
                self.draining = true;
                self.http.shut_down(now, out);
                if self.phase == Phase::Lingering {
                    self.deadline = self.deadline.min(now + Limits::HURRY);
                }
            }
            Event::Retire => self.http.shut_down(now, out),
            Event::Reconsider => {
                if self.phase == Phase::Open && self.client.requests > 0 {
                    self.deadline = self.deadline.min(now + cx.idle_timeout());
                }
            }
            Event::GiveWay(need) => self.give_way(cx, need, out),
            Event::Lost(Loss::Socket(_)) => self.abort(cx, Cut::Peer, now),
            Event::Lost(Loss::File(_)) => self.abort(cx, Cut::File, now),
            Event::Unsecured(_) => cx.counters.tls_failed().add(1),
            Event::Peer(ticket, event) => self.front(out).peer(cx, ticket, event, now),
            Event::Secured(_) => debug_assert!(false, "TLS agreed twice"),
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Cx, tx: &mut Tx, now: Instant) -> Action<Work> {
        if self.has_passed && self.phase == Phase::Open {
            self.aside(|front| front.serve_stored(cx, now));
        }
        if self.has_passed
            && self.phase != Phase::Closed
            && let Some((ticket, ask)) = self.aside(|front| front.next_ask(cx, now))
        {
            return tx.ask(ticket, ask);
        }
        if self.phase == Phase::Open
            && let Some((id, work)) = self.next_job(cx, now)
        {
            self.http.job_began(id);
            return Action::Start(Ticket(id), work);
        }
        if !self.turn.is_under_way() {
            tx.head.append(&mut self.pending);
            if self.phase == Phase::Closed {
                // The driver reports when the last words were sent, and closes the connection then.
                if !tx.head.is_empty() {
                    let until = now + cx.state.limits.write_timeout;
                    self.turn.begin(tx.head.len(), now, until);
                }
                return Action::Close;
            }
            if self.phase == Phase::Open {
                self.fill(cx, tx, now);
            }
            if !tx.head.is_empty() {
                let until = now + cx.state.limits.write_timeout;
                self.turn.begin(tx.head.len(), now, until);
            } else if self.phase == Phase::Ending || self.is_over() {
                self.phase = Phase::Lingering;
                let patience = match self.draining {
                    true => Limits::HURRY,
                    false => cx.state.limits.linger_timeout,
                };
                self.deadline = now + patience;
            }
        }
        self.rest(cx, now);
        match self.phase {
            Phase::Closed => Action::Close,
            Phase::Lingering if self.half_closed => Action::Close,
            Phase::Lingering => Action::HalfClose,
            phase => Action::Duplex {
                read: phase == Phase::Open && !self.half_closed && self.pending.len() < PENDING_MAX,
                patient: self.turn.is_patient(),
            },
        }
    }

    /// Whether nothing is due and nothing will be.
    fn is_over(&self) -> bool {
        self.phase == Phase::Open && self.streams.is_empty() && (self.half_closed || self.http.is_drained())
    }

    /// Counts the memory in use, and gives back what an idle connection does not need.
    fn rest(&mut self, cx: &Cx, now: Instant) {
        if self.is_active && self.streams.is_empty() && !self.turn.is_under_way() {
            self.is_active = false;
            self.http.trim(now);
            self.streams = Vec::new();
            if self.phase == Phase::Open {
                self.deadline = now + cx.idle_timeout();
            }
        }
        if !self.is_active && self.pending.is_empty() {
            // An answer to PING leaves a buffer, too.
            self.pending = Vec::new();
        }
        let streams: usize = self.streams.iter().map(Stream::memory).sum();
        // The protocol counts its own size, which is part of this one.
        let own = size_of::<Http2>() - size_of::<Connection>();
        let buffers = self.input.capacity() + self.pending.capacity() + self.turn.memory();
        self.held.set(own + buffers + self.http.memory() + streams);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let streams = self.streams.iter().filter_map(Stream::deadline).min();
        let own = match self.phase {
            Phase::Open if self.is_active || !self.streams.is_empty() || self.turn.is_under_way() => None,
            _ => Some(self.deadline),
        };
        let protocol = self.http.deadline().filter(|_| self.phase == Phase::Open);
        [streams, own, protocol, self.turn.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// As for HTTP/1: a connection whose requests have not arrived whole may go after a while, an idle one at once.
    pub(super) fn idle_since(&self, cx: &Cx) -> Option<Instant> {
        let limits = &cx.state.limits;
        if self.turn.is_under_way() {
            return None;
        }
        let before = |timeout: Duration| {
            let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            Instant::from_nanos(self.deadline.as_nanos().saturating_sub(nanos))
        };
        match self.phase {
            Phase::Lingering => Some(before(limits.linger_timeout.saturating_sub(Limits::HURRY))),
            Phase::Open if self.streams.is_empty() && self.client.requests == 0 => {
                Some(before(limits.header_timeout.saturating_sub(limits.deferred)))
            }
            Phase::Open if self.streams.is_empty() => Some(before(cx.idle_timeout())),
            Phase::Open => {
                let since = self.streams.iter().map(Stream::receiving_since);
                // One request that is whole is owed an answer.
                let since = since.collect::<Option<Vec<_>>>()?;
                since.into_iter().max().map(|since| since + Limits::PATIENCE)
            }
            _ => None,
        }
    }

    /// The connection is gone.
    pub(super) fn closed(&mut self, cx: &mut Cx, now: Instant) {
        self.abort(cx, Cut::Peer, now);
    }

    /// The peer sends no more. Answers to whole requests are still sent.
    fn eof(&mut self, cx: &mut Cx, now: Instant) {
        self.half_closed = true;
        if self.phase == Phase::Lingering {
            self.phase = Phase::Closed;
        }
        let is_whole = |stream: &Stream| match &stream.state {
            State::Receiving(_) => false,
            State::Forward(passed) => passed.forward.has_whole_request(),
            _ => true,
        };
        for mut stream in self.streams.extract_if(.., |stream| !is_whole(stream)) {
            self.turn.release(stream.slot);
            passing::part(&self.client, &mut self.parting, &mut stream, cx);
            stream.lost(cx, Cut::Peer, now);
        }
    }

    fn timeout(&mut self, cx: &mut Cx, out: &mut Vec<u8>, now: Instant) {
        let is_due = |instant: Option<Instant>| instant.is_some_and(|instant| instant <= now);
        if is_due(self.turn.deadline()) {
            cx.counters.timeouts().add(1);
            return self.abort(cx, Cut::Timeout, now);
        }
        match self.phase {
            Phase::Open => {}
            // Its output has a deadline of its own.
            Phase::Ending if self.turn.is_under_way() => return,
            Phase::Ending | Phase::Lingering | Phase::Closed => {
                if self.deadline <= now {
                    self.phase = Phase::Closed;
                }
                return;
            }
        }
        let mut lost = Vec::new();
        if let Err(fault) = self.http.expire(now, out, |id, _| lost.push(id)) {
            cx.counters.timeouts().add(1);
            return self.fail(cx, fault, now);
        }
        for id in lost {
            cx.counters.timeouts().add(1);
            self.forget(cx, id, Cut::Timeout, now);
        }
        self.expire_streams(cx, out, now);
        if !self.is_active && self.streams.is_empty() && !self.turn.is_under_way() && self.deadline <= now {
            cx.counters.timeouts().add(1);
            self.http.leave(out);
            self.phase = Phase::Ending;
        }
    }

    /// Ends streams that took too long to arrive or to be found.
    fn expire_streams(&mut self, cx: &mut Cx, out: &mut Vec<u8>, now: Instant) {
        while let Some(at) = self
            .streams
            .iter()
            .position(|stream| stream.deadline().is_some_and(|due| due <= now))
        {
            let id = self.streams[at].id;
            match self.streams[at].state {
                State::Receiving(_) => {
                    cx.counters.timeouts().add(1);
                    self.give_up(cx, id, Failure::TIMEOUT, out, now);
                }
                State::Waiting(_) => self.late(cx, id, out, now),
                State::Forward(_) => self.front(out).pass_timeout(cx, id, now),
                State::Sending(_) | State::Gone(_) => {
                    self.http.reset(id, Code::INTERNAL_ERROR, out);
                    self.forget(cx, id, Cut::File, now);
                }
            }
        }
    }

    /// The peer has acknowledged bytes of the waiting output, or none.
    fn taken(&mut self, cx: &mut Cx, taken: Taken, now: Instant) {
        let limits = &cx.state.limits;
        if taken.moves {
            self.turn.extend(now + limits.write_timeout);
        }
        let granted = taken.bytes.saturating_mul(1_000).checked_div(limits.send_rate.0);
        if let Some(granted) = granted.map(Duration::from_millis)
            && self.turn.is_under_way()
            && now > taken.since + limits.write_timeout + granted
        {
            cx.counters.timeouts().add(1);
            self.abort(cx, Cut::Timeout, now);
        }
    }

    /// Another connection needs this one's place or memory.
    fn give_way(&mut self, cx: &mut Cx, need: Need, out: &mut Vec<u8>) {
        match need {
            Need::Place => cx.counters.idle_closed().add(1),
            Need::Memory => cx.counters.idle_closed_for_memory().add(1),
        }
        self.http.leave(out);
        self.phase = Phase::Closed;
    }

    /// The protocol ended the connection; GOAWAY is in the output.
    fn fail(&mut self, cx: &mut Cx, fault: Fault, now: Instant) {
        tracing::debug!("HTTP/2: {fault}");
        cx.counters.http2_failed().add(1);
        for mut stream in self.streams.drain(..) {
            self.turn.release(stream.slot);
            passing::part(&self.client, &mut self.parting, &mut stream, cx);
            stream.lost(cx, Cut::Peer, now);
        }
        self.phase = Phase::Ending;
    }

    /// Drops a stream whose answer will not be sent whole.
    fn forget(&mut self, cx: &mut Cx, id: u32, cut: Cut, now: Instant) {
        let Ok(at) = self.at(id) else { return };
        let stream = &mut self.streams[at];
        self.turn.release(stream.slot);
        passing::part(&self.client, &mut self.parting, stream, cx);
        stream.lost(cx, cut, now);
        if !stream.is_working {
            self.streams.remove(at);
        }
    }

    /// Ends the connection and gives up its output.
    fn abort(&mut self, cx: &mut Cx, cut: Cut, now: Instant) {
        self.turn.lost(cx, cut, now);
        for mut stream in self.streams.drain(..) {
            passing::part(&self.client, &mut self.parting, &mut stream, cx);
            stream.lost(cx, cut, now);
        }
        self.phase = Phase::Closed;
    }

    /// Where the stream is, or would be.
    fn at(&self, id: u32) -> Result<usize, usize> {
        self.streams.binary_search_by_key(&id, |stream| stream.id)
    }

    /// A job has ended.
    fn done(&mut self, cx: &mut Cx, id: u32, done: Done, out: &mut Vec<u8>, now: Instant) {
        self.http.job_ended(id);
        let Ok(at) = self.at(id) else { return };
        let stream = &mut self.streams[at];
        stream.is_working = false;
        match (&mut stream.state, done) {
            (State::Waiting(_), Done::Loaded(loaded)) => self.found(cx, id, loaded, out, now),
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
                self.http.reset(id, Code::INTERNAL_ERROR, out);
                self.forget(cx, id, Cut::File, now);
            }
            // It came too late: the request was answered with an error.
            (State::Sending(_), Done::Loaded(_)) => {}
            (State::Forward(passed), Done::Loaded(loaded)) if passed.check.is_some() => {
                self.front(out).checked(cx, id, loaded, now);
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
}
