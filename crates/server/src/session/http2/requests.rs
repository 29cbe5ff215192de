//! Takes requests in, has an exchange answer each, and begins to send the answers.
//!
//! As in HTTP/1, the body of a request is read and discarded before the request is answered, unless it is clear before
//! that the answer is an error. Requests for upstreams go to `forward`.

use super::{Http2, PENDING_MAX, Phase};
use crate::access_log::Cut;
use crate::context::{Cx, Task, Work};
use crate::entry::Entry;
use crate::exchange::{Exchange, Failure};
use crate::session::client::Client;
use crate::session::gateway;
use crate::session::multiplexed::again::again;
use crate::session::multiplexed::answer::Reply;
use crate::session::multiplexed::ask::{self, Ask, Outcome, Passing};
use crate::session::multiplexed::content::Fresh;
use crate::session::multiplexed::forward::{Forwarding as _, end_request, keep};
use crate::session::multiplexed::passed::Passed;
use crate::session::multiplexed::stream::{Receiving, State, Stream, Waiting};
use crate::site::Loaded;
use ::http2::Code;
use ::http2::hpack::{Fields, block};
use ::http2::message::Control;
use ::http2::priority::Priority;
use ::http2::server::Event;
use http_semantics::request::Protocol;
use http_semantics::status::Status;
use runtime::Tx;
use std::sync::Arc;
use units::Instant;

/// An empty frame is not worth a turn.
const SMALLEST_FRAME: usize = 1 << 10;

impl Http2 {
    /// Takes input, after what has waited. It stays if much output waits, because some of it must be answered.
    pub(super) fn bytes(&mut self, cx: &mut Cx, bytes: &[u8], out: &mut Vec<u8>, now: Instant) {
        if self.phase != Phase::Open || (bytes.is_empty() && self.input.is_empty()) {
            return;
        }
        if self.input.is_empty() {
            let used = self.take_in(cx, bytes, out, now);
            self.input.extend_from_slice(&bytes[used..]);
            return;
        }
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let used = self.take_in(cx, &input, out, now);
        if used < input.len() {
            input.drain(..used);
            self.input = input;
        }
    }

    /// Takes whole frames off the input. Returns the number of bytes used.
    fn take_in(&mut self, cx: &mut Cx, input: &[u8], out: &mut Vec<u8>, now: Instant) -> usize {
        let mut used = 0;
        while self.phase == Phase::Open && out.len() < PENDING_MAX {
            let received = self.http.receive(&input[used..], now, out);
            used += received.used;
            match received.event {
                Event::Partial => break,
                Event::Request {
                    stream: id,
                    end,
                    control,
                    fields,
                } => {
                    let known = match end {
                        true => again(cx, ask(&self.client, id), &control, fields, now),
                        false => None,
                    };
                    if let Some(reply) = known {
                        self.count(cx, id, false, false, out, now);
                        self.answer(cx, id, reply, out, now);
                        continue;
                    }
                    let passing = match cx.state.passes(self.client.is_admin()) {
                        true => ask::pass(cx, ask(&self.client, id), &control, fields, end, now),
                        false => None,
                    };
                    let (refused, ends) = match passing {
                        Some(Passing::Begun(forward, check)) => {
                            let expects = !end && ask::expectation(fields).is_some();
                            let from = (Protocol::Http2, cx.generation);
                            let mut passed = Passed::new(*forward, fields.clone(), from, expects, now);
                            self.count(cx, id, !end, false, out, now);
                            passed.check = check;
                            self.pass(cx, id, passed, out, now);
                            continue;
                        }
                        Some(Passing::Refused(failure, ends)) => (Some(failure), ends),
                        None if end => (None, false),
                        None => (ask::refusal(&control, fields, &cx.state.limits), false),
                    };
                    if end || refused.is_some() {
                        let (outcome, is_last) =
                            ask::begin(cx, ask(&self.client, id), &control, fields, refused, now);
                        let kept = outcome.keeps_request().then(|| fields.clone());
                        self.count(cx, id, !end, is_last || ends, out, now);
                        self.follow(cx, id, outcome, kept, out, now);
                    } else {
                        let (fields, expects) = (fields.clone(), ask::expectation(fields).is_some());
                        self.count(cx, id, true, false, out, now);
                        self.await_body(cx, id, fields, expects, out, now);
                    }
                }
                Event::Oversized { stream: id, end } => {
                    let failure = Failure::of(Status::REQUEST_HEADER_FIELDS_TOO_LARGE);
                    let outcome = ask::refuse(cx, ask(&self.client, id), failure, now);
                    self.count(cx, id, !end, false, out, now);
                    self.follow(cx, id, outcome, None, out, now);
                }
                Event::Body { stream: id, bytes } => {
                    let len = bytes.len() as u32;
                    if !keep(&mut self.streams, id, bytes) {
                        self.http.consumed(id, len, out);
                    }
                    self.body(cx, id, len, out, now);
                }
                Event::Trailers { stream: id, fields } => {
                    end_request(&mut self.streams, id, Some(fields));
                    self.body_ended(cx, id, out, now);
                }
                Event::End { stream: id } => {
                    end_request(&mut self.streams, id, None);
                    self.body_ended(cx, id, out, now);
                }
                Event::Reset { stream: id, .. } => {
                    cx.counters.http2_resets().add(1);
                    self.forget(cx, id, Cut::Peer, now);
                }
                Event::GoAway { .. } => {}
                Event::Closed(fault) => self.fail(cx, fault, now),
                Event::Response { .. } => debug_assert!(false, "a server gets no responses"),
            }
        }
        used
    }

    /// Counts a request, which may be the last. `is_uploading`: its body follows.
    fn count(
        &mut self,
        cx: &Cx,
        id: u32,
        is_uploading: bool,
        is_last: bool,
        out: &mut Vec<u8>,
        now: Instant,
    ) {
        self.is_active = true;
        self.client.requests = self.client.requests.saturating_add(1);
        cx.counters.http2_requests().add(1);
        let mut stream = Stream::new(id, State::Gone(None));
        stream.is_uploading = is_uploading;
        let at = self.at(id).unwrap_or_else(|at| at);
        self.streams.insert(at, stream);
        let has_enough = self.client.requests >= cx.state.limits.requests_per_connection
            || self.client.upstreams() >= gateway::UPSTREAMS_MAX;
        if is_last || has_enough {
            self.http.shut_down(now, out);
        }
    }

    /// Reads the body of a request before the request is answered. `expects`: the client waits for 100 (Continue).
    fn await_body(
        &mut self,
        cx: &Cx,
        id: u32,
        fields: Fields,
        expects: bool,
        out: &mut Vec<u8>,
        now: Instant,
    ) {
        let Ok(at) = self.at(id) else { return };
        self.streams[at].state = State::Receiving(Box::new(Receiving {
            fields,
            since: now,
            received: 0,
            until: cx.state.limits.body_until(now, 0),
        }));
        let mut head = Vec::new();
        block::status(100, &mut head);
        if expects && self.http.inform(id, &head, out).is_ok() {
            cx.counters.informational().add(1);
        }
    }

    /// Part of a body arrived.
    fn body(&mut self, cx: &mut Cx, id: u32, len: u32, out: &mut Vec<u8>, now: Instant) {
        let Ok(at) = self.at(id) else { return };
        let receiving = match &mut self.streams[at].state {
            State::Receiving(receiving) => receiving,
            State::Forward(_) => return self.front(out).pass_body(cx, id, now),
            _ => return,
        };
        let limits = &cx.state.limits;
        receiving.received += u64::from(len);
        receiving.until = limits.body_until(receiving.since, receiving.received);
        if receiving.received > limits.body_size.0 {
            self.give_up(cx, id, Failure::TOO_LARGE, out, now);
        }
    }

    /// A body arrived whole: its request is answered, unless it has been.
    fn body_ended(&mut self, cx: &mut Cx, id: u32, out: &mut Vec<u8>, now: Instant) {
        let Ok(at) = self.at(id) else { return };
        let stream = &mut self.streams[at];
        stream.is_uploading = false;
        match std::mem::replace(&mut stream.state, State::Gone(None)) {
            State::Receiving(receiving) => {
                let fields = receiving.fields;
                let Some(control) = Control::of(&fields) else {
                    debug_assert!(false, "a kept request is invalid");
                    return;
                };
                let asked = ask(&self.client, id);
                let (mut outcome, is_last) = ask::begin(cx, asked, &control, &fields, None, now);
                if let Outcome::Pass(_) = outcome {
                    // Its body was discarded under a configuration that did not pass it on.
                    let request = (&control, &fields);
                    outcome = ask::stand_in(cx, asked, request, Failure::BEHIND, (None, None), now);
                }
                if is_last {
                    self.http.shut_down(now, out);
                }
                self.follow(cx, id, outcome, Some(fields), out, now);
            }
            state @ State::Forward(_) => {
                stream.state = state;
                self.front(out).pass_body(cx, id, now);
            }
            state => stream.state = state,
        }
    }

    /// Answers a request whose body is on the way with an error.
    pub(super) fn give_up(
        &mut self,
        cx: &mut Cx,
        id: u32,
        failure: Failure,
        out: &mut Vec<u8>,
        now: Instant,
    ) {
        let Ok(at) = self.at(id) else { return };
        let stream = &mut self.streams[at];
        let State::Receiving(receiving) = std::mem::replace(&mut stream.state, State::Gone(None)) else {
            return;
        };
        let fields = receiving.fields;
        let outcome = match Control::of(&fields) {
            Some(control) => ask::begin(cx, ask(&self.client, id), &control, &fields, Some(failure), now).0,
            None => ask::refuse(cx, ask(&self.client, id), failure, now),
        };
        self.follow(cx, id, outcome, Some(fields), out, now);
    }

    /// Carries out what became of a request. `fields`: what it was, if it has to be kept.
    pub(super) fn follow(
        &mut self,
        cx: &mut Cx,
        id: u32,
        outcome: Outcome,
        fields: Option<Fields>,
        out: &mut Vec<u8>,
        now: Instant,
    ) {
        match outcome {
            Outcome::Reply(reply) => self.answer(cx, id, reply, out, now),
            Outcome::Pass(forward) => {
                let Some(fields) = fields else {
                    debug_assert!(false, "only requests have a route");
                    return;
                };
                let passed = Passed::new(*forward, fields, (Protocol::Http2, cx.generation), false, now);
                self.pass(cx, id, passed, out, now);
            }
            Outcome::Wait(exchange, job, hint) => {
                cx.counters.loads().add(1);
                if let Some(hint) = hint {
                    self.hint(cx, id, &hint, out);
                }
                let Ok(at) = self.at(id) else { return };
                self.streams[at].state = State::Waiting(Box::new(Waiting {
                    fields,
                    job: Some(job),
                    until: now + exchange.patience(cx.state.limits.disk_timeout),
                    exchange,
                }));
            }
        }
    }

    /// Tells the client what the page embeds that it waits for.
    #[cold]
    fn hint(&mut self, cx: &Cx, id: u32, links: &str, out: &mut Vec<u8>) {
        let mut head = Vec::new();
        block::status(103, &mut head);
        block::field(b"link", links.as_bytes(), &mut head);
        if self.http.inform(id, &head, out).is_ok() {
            cx.counters.informational().add(1);
        }
    }

    /// Sends the head of an answer, which is in the worker's block, and makes its content ready.
    fn answer(&mut self, cx: &mut Cx, id: u32, reply: Reply, out: &mut Vec<u8>, now: Instant) {
        self.names_priorities |= reply.is_priority_named;
        cx.answered(reply.started);
        let Ok(at) = self.at(id) else { return };
        let is_whole = reply.content.is_none();
        let mut slot = reply.slot;
        if self.http.respond(id, &cx.block, is_whole, out).is_err() {
            // It was reset meanwhile.
            let _ = cx.journal.lost(&mut slot, Cut::Peer, now);
            cx.counters.aborted().add(1);
            self.streams.remove(at);
            return;
        }
        self.turn
            .share(cx, &mut slot, out.len(), reply.head_bytes, is_whole);
        let Some((content, fresh)) = reply.content else {
            return self.end(id, at, out);
        };
        let stream = &mut self.streams[at];
        stream.slot = slot;
        stream.state = State::Sending(content);
        if let Some(priority) = reply.priority
            && (reply.is_stored || !self.names_priorities)
            && self.http.priority(id) == Some(Priority::DEFAULT)
        {
            self.http.prioritize(id, priority);
        }
        self.http.length(id, reply.length);
        self.announce(id, Some(fresh));
    }

    /// Tells the protocol what can be sent.
    pub(super) fn announce(&mut self, id: u32, fresh: Option<Fresh>) {
        let Some(fresh) = fresh else { return };
        let ready = self.http.ready(id, fresh.bytes);
        let finished = match fresh.is_last {
            true => self.http.finish(id),
            false => Ok(()),
        };
        debug_assert!(
            ready.and(finished).is_ok(),
            "the protocol forgot stream {id}, which this session did not"
        );
    }

    /// An answer was given out whole.
    pub(super) fn end(&mut self, id: u32, at: usize, out: &mut Vec<u8>) {
        let stream = &mut self.streams[at];
        if let State::Forward(passed) = &mut stream.state {
            self.parting.extend(passed.forward.part());
        }
        if stream.is_uploading {
            // The client need not send the rest (RFC 9113 section 8.1).
            self.http.reset(id, Code::NO_ERROR, out);
        }
        if stream.is_working {
            self.streams[at].state = State::Gone(None);
        } else {
            self.streams.remove(at);
        }
    }

    /// Adds content to an output, in the order of the protocol, up to the size of a turn.
    pub(super) fn fill(&mut self, cx: &mut Cx, tx: &mut Tx, now: Instant) {
        let room = self.turn.room(cx);
        let out = &mut tx.head;
        let mut beyond = u64::MAX;
        let mut is_full = true;
        while out.len() + SMALLEST_FRAME < room {
            let Some(piece) = self.http.next(room - out.len(), now, out) else {
                is_full = false;
                break;
            };
            let Ok(at) = self.at(piece.stream) else {
                debug_assert!(false, "stream {} has no content", piece.stream);
                break;
            };
            let stream = &mut self.streams[at];
            let content = match &mut stream.state {
                State::Sending(content) => content,
                State::Forward(_) => {
                    beyond = beyond.min(piece.left);
                    self.fill_from_upstream(cx, at, piece, out, now);
                    continue;
                }
                _ => {
                    debug_assert!(false, "stream {} has no content", piece.stream);
                    break;
                }
            };
            beyond = beyond.min(piece.left);
            let fresh = content.take(piece.bytes, out);
            let bytes = piece.bytes as u64;
            self.turn
                .share(cx, &mut stream.slot, out.len(), bytes, piece.last);
            match piece.last {
                true => self.end(piece.stream, at, out),
                false => self.announce(piece.stream, fresh),
            }
        }
        self.turn.filled(is_full);
        // Where connections wait for a line, this one goes by the answer in this output that has the least left.
        tx.beyond = if beyond == u64::MAX { 0 } else { beyond };
    }

    /// The next job that a request or its answer needs.
    pub(super) fn next_job(&mut self, cx: &Cx, now: Instant) -> Option<(u32, Work)> {
        let until = now + cx.state.limits.disk_timeout;
        let (turn, answers) = (self.turn.room(cx), self.streams.len());
        self.streams.iter_mut().find_map(|stream| {
            if stream.is_working {
                return None;
            }
            let work = match &mut stream.state {
                State::Waiting(waiting) => waiting.job.take(),
                State::Sending(content) => content.next_job(cx, turn, answers, until),
                State::Forward(passed) => match &mut passed.check {
                    Some(check) => check.1.take(),
                    None => passed
                        .forward
                        .waiter()
                        .map(|waiter| Work::new(Task::Await(waiter), &cx.hub, &cx.state)),
                },
                State::Receiving(_) | State::Gone(_) => None,
            }?;
            stream.is_working = true;
            Some((stream.id, work))
        })
    }

    /// A job has found something.
    pub(super) fn found(&mut self, cx: &mut Cx, id: u32, loaded: Loaded, out: &mut Vec<u8>, now: Instant) {
        self.resume(cx, id, |exchange, cx| exchange.found(cx, loaded), out, now);
    }

    /// A job takes too long: its request is answered without it.
    #[cold]
    pub(super) fn late(&mut self, cx: &mut Cx, id: u32, out: &mut Vec<u8>, now: Instant) {
        self.resume(cx, id, |exchange, cx| exchange.late(cx), out, now);
    }

    /// Continues an exchange that has waited, with the entry that `find` gives.
    fn resume(
        &mut self,
        cx: &mut Cx,
        id: u32,
        find: impl FnOnce(&mut Exchange, &mut Cx) -> Arc<Entry>,
        out: &mut Vec<u8>,
        now: Instant,
    ) {
        let Ok(at) = self.at(id) else { return };
        let state = std::mem::replace(&mut self.streams[at].state, State::Gone(None));
        let State::Waiting(waiting) = state else { return };
        let Waiting { fields, exchange, .. } = *waiting;
        let outcome = ask::resume(cx, ask(&self.client, id), exchange, fields.as_ref(), find);
        self.follow(cx, id, outcome, fields, out, now);
    }
}

/// A request on this stream.
fn ask(client: &Client, id: u32) -> Ask<'_> {
    Ask {
        client,
        stream: id.into(),
        protocol: Protocol::Http2,
    }
}
