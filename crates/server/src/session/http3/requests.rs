//! Takes requests in, has an exchange answer each, and sends the answers.
//!
//! As over HTTP/2, the body of a request is read and discarded before the request is answered, unless it is clear before
//! that the answer is an error. Requests for upstreams go to `forward`.

use super::{Http3, Phase, Stream};
use crate::access_log::Cut;
use crate::context::{Cx, Task, Work};
use crate::entry::Entry;
use crate::exchange::{Exchange, Failure};
use crate::limits::Limits;
use crate::session::client::Client;
use crate::session::gateway;
use crate::session::multiplexed::again::again;
use crate::session::multiplexed::answer::Reply;
use crate::session::multiplexed::ask::{self, Ask, Outcome, Passing};
use crate::session::multiplexed::content::Fresh;
use crate::session::multiplexed::forward::{Forwarding as _, end_request, keep};
use crate::session::multiplexed::passed::Passed;
use crate::session::multiplexed::stream::{Receiving, State, Waiting};
use crate::site::Loaded;
use ::http3::Code;
use ::http3::qpack::block;
use ::http3::server::{Event, Output};
use http_semantics::compression::Fields;
use http_semantics::message::Control;
use http_semantics::priority::Priority;
use http_semantics::request::Protocol;
use http_semantics::status::Status;
use runtime::streams::Transport;
use std::sync::Arc;
use units::Instant;

impl Http3 {
    /// Takes whole frames off the input of a stream. Returns the number of bytes used.
    pub(super) fn take_in(
        &mut self,
        cx: &mut Cx,
        stream: u64,
        input: &[u8],
        fin: bool,
        transport: &mut dyn Transport,
        now: Instant,
    ) -> usize {
        let mut used = 0;
        while self.phase == Phase::Open {
            let received = self.http.receive(stream, &input[used..], fin, now);
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
                        self.count(cx, id, false, false, now);
                        self.answer(cx, id, reply, now);
                        continue;
                    }
                    let passing = match cx.state.proxies.is_empty() {
                        true => None,
                        false => ask::pass(cx, ask(&self.client, id), &control, fields, end, now),
                    };
                    let (refused, ends) = match passing {
                        Some(Passing::Begun(forward, check)) => {
                            let expects = !end && ask::expectation(fields).is_some();
                            let from = (Protocol::Http3, cx.generation);
                            let mut passed = Passed::new(*forward, fields.clone(), from, expects, now);
                            self.count(cx, id, !end, false, now);
                            passed.check = check;
                            self.begin_to_pass(cx, id, passed, now);
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
                        self.count(cx, id, !end, is_last || ends, now);
                        self.carry_out(cx, id, outcome, kept, now);
                    } else {
                        let (fields, expects) = (fields.clone(), ask::expectation(fields).is_some());
                        self.count(cx, id, true, false, now);
                        self.await_body(cx, id, fields, expects, now);
                    }
                }
                Event::Oversized { stream: id, end } => {
                    let failure = Failure::of(Status::REQUEST_HEADER_FIELDS_TOO_LARGE);
                    let outcome = ask::refuse(cx, ask(&self.client, id), failure, now);
                    self.count(cx, id, !end, false, now);
                    self.carry_out(cx, id, outcome, None, now);
                }
                Event::Body { stream: id, bytes } => {
                    let len = bytes.len() as u64;
                    // The window is that of the transport, which gives it back for what is read.
                    let _ = keep(&mut self.streams, id, bytes);
                    self.body(cx, id, len, now);
                }
                // The end of the stream follows.
                Event::Trailers { stream: id, fields } => end_request(&mut self.streams, id, Some(fields)),
                Event::End { stream: id } => {
                    end_request(&mut self.streams, id, None);
                    self.body_ended(cx, id, now);
                }
                Event::Reset { stream: id, .. } => {
                    cx.counters.http3_resets().add(1);
                    self.drop_stream(cx, id, Cut::Peer, now);
                }
                Event::GoAway { .. } => {}
                Event::Closed(fault) => self.fail(cx, fault, transport, now),
                Event::Resumed { .. } => debug_assert!(false, "there is no dynamic table"),
                Event::Response { .. } => debug_assert!(false, "a server gets no responses"),
            }
        }
        used
    }

    /// Counts a request, which may be the last. `is_uploading`: its body follows.
    fn count(&mut self, cx: &Cx, id: u64, is_uploading: bool, is_last: bool, now: Instant) {
        self.is_active = true;
        self.client.requests = self.client.requests.saturating_add(1);
        cx.counters.http3_requests().add(1);
        let mut stream = Stream::new(id, State::Gone(None));
        stream.is_uploading = is_uploading;
        let at = self.at(id).unwrap_or_else(|at| at);
        self.streams.insert(at, stream);
        let has_enough = self.client.requests >= cx.state.limits.requests_per_connection
            || self.client.upstreams() >= gateway::UPSTREAMS_MAX;
        if is_last || has_enough {
            self.http.shut_down(now);
        }
    }

    /// Reads the body of a request before the request is answered. `expects`: the client waits for 100 (Continue).
    fn await_body(&mut self, cx: &Cx, id: u64, fields: Fields, expects: bool, now: Instant) {
        let Ok(at) = self.at(id) else { return };
        self.streams[at].state = State::Receiving(Box::new(Receiving {
            fields,
            since: now,
            received: 0,
            until: cx.state.limits.body_until(now, 0),
        }));
        if expects {
            self.inform(cx, id, 100, None);
        }
    }

    /// Sends an interim response, with a `link` field or none.
    #[cold]
    fn inform(&mut self, cx: &Cx, id: u64, status: u16, links: Option<&str>) {
        let mut head = Vec::new();
        block::begin(&mut head);
        block::status(status, &mut head);
        if let Some(links) = links {
            block::field(b"link", links.as_bytes(), &mut head);
        }
        if self.http.inform(id, &head).is_ok() {
            cx.counters.informational().add(1);
        }
    }

    /// Part of a body arrived.
    fn body(&mut self, cx: &mut Cx, id: u64, len: u64, now: Instant) {
        let Ok(at) = self.at(id) else { return };
        let receiving = match &mut self.streams[at].state {
            State::Receiving(receiving) => receiving,
            State::Forward(_) => return self.pass_body(cx, id, now),
            _ => return,
        };
        let limits = &cx.state.limits;
        receiving.received += len;
        receiving.until = limits.body_until(receiving.since, receiving.received);
        if receiving.received > limits.body_size.0 {
            self.give_up(cx, id, Failure::TOO_LARGE, now);
        }
    }

    /// A body arrived whole: its request is answered, unless it has been.
    fn body_ended(&mut self, cx: &mut Cx, id: u64, now: Instant) {
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
                    self.http.shut_down(now);
                }
                self.carry_out(cx, id, outcome, Some(fields), now);
            }
            state @ State::Forward(_) => {
                stream.state = state;
                self.pass_body(cx, id, now);
            }
            state => stream.state = state,
        }
    }

    /// Answers a request whose body is on the way with an error.
    pub(super) fn give_up(&mut self, cx: &mut Cx, id: u64, failure: Failure, now: Instant) {
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
        self.carry_out(cx, id, outcome, Some(fields), now);
    }

    /// Carries out what became of a request. `fields`: what it was, if it has to be kept.
    pub(super) fn carry_out(
        &mut self,
        cx: &mut Cx,
        id: u64,
        outcome: Outcome,
        fields: Option<Fields>,
        now: Instant,
    ) {
        match outcome {
            Outcome::Reply(reply) => self.answer(cx, id, reply, now),
            Outcome::Pass(forward) => {
                let Some(fields) = fields else {
                    debug_assert!(false, "only requests have a route");
                    return;
                };
                let passed = Passed::new(*forward, fields, (Protocol::Http3, cx.generation), false, now);
                self.begin_to_pass(cx, id, passed, now);
            }
            Outcome::Wait(exchange, job, hint) => {
                cx.counters.loads().add(1);
                if let Some(hint) = hint {
                    self.inform(cx, id, 103, Some(&hint));
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

    /// Sends the head of an answer, which is in the worker's block, and makes its content ready.
    fn answer(&mut self, cx: &mut Cx, id: u64, reply: Reply, now: Instant) {
        self.names_priorities |= reply.is_priority_named;
        cx.answered(reply.started);
        let Ok(at) = self.at(id) else { return };
        let is_whole = reply.content.is_none();
        let mut slot = reply.slot;
        if self.http.respond(id, &cx.block, is_whole).is_err() {
            // It was reset meanwhile.
            let _ = cx.journal.lost(&mut slot, Cut::Peer, now);
            cx.counters.aborted().add(1);
            self.streams.remove(at);
            return;
        }
        if cx.journal.is_on() {
            cx.journal.given(&mut slot, reply.head_bytes);
            cx.journal.progress(slot, reply.head_bytes);
        }
        let stream = &mut self.streams[at];
        stream.slot = slot;
        let Some((content, fresh)) = reply.content else {
            return self.answered(cx, id, now);
        };
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
    pub(super) fn announce(&mut self, id: u64, fresh: Option<Fresh>) {
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

    /// An answer was given to the transport whole, or its head was and nothing follows.
    pub(super) fn answered(&mut self, cx: &mut Cx, id: u64, now: Instant) {
        let Ok(at) = self.at(id) else { return };
        let stream = &mut self.streams[at];
        if let State::Forward(passed) = &mut stream.state {
            self.parting.extend(passed.forward.part());
        }
        let _ = cx.journal.sent(&mut stream.slot, now);
        if stream.is_uploading {
            // The client need not send the rest (RFC 9114 section 4.1).
            self.http.stop(id, Code::NO_ERROR);
        }
        if stream.is_working {
            stream.state = State::Gone(None);
        } else {
            self.streams.remove(at);
        }
        if cx.state.config.behavior.log_each {
            cx.flush_each(now);
        }
    }

    /// Gives the transport what is due, in the order of the protocol, as far as it has room.
    pub(super) fn write(&mut self, cx: &mut Cx, transport: &mut dyn Transport, now: Instant) {
        loop {
            let room = transport.room() as u64;
            if room == 0 {
                return;
            }
            let piece = match self.http.poll() {
                None => return,
                Some(Output::Reset { stream, code }) => {
                    transport.reset(stream, code.0);
                    continue;
                }
                Some(Output::Stop { stream, code }) => {
                    transport.stop(stream, code.0);
                    continue;
                }
                Some(Output::Write(piece)) => piece,
            };
            let (id, frames, body, ends) = (piece.stream, piece.frames.len() as u64, piece.body, piece.end);
            let head = match frames {
                0 => Some(0),
                _ => transport.write(id, piece.frames).map(|bytes| bytes as u64),
            };
            let mut given = head.unwrap_or(0);
            let mut is_blocked = given < frames;
            let mut content = 0;
            if body > 0 && !is_blocked {
                let (taken, offered) = self.give(id, body.min(room) as usize, transport);
                content = taken as u64;
                is_blocked = taken < offered;
                given += content;
            }
            cx.counters.bytes_sent().add(given);
            self.http.sent(id, given);
            if is_blocked {
                self.http.blocked(id, now);
            }
            let is_whole = ends && given == frames + body;
            if is_whole {
                transport.finish(id);
                self.unacknowledged.insert(id);
            }
            if content > 0 || is_whole {
                self.gone_out(cx, id, content, is_whole, now);
            }
        }
    }

    /// Gives the transport up to `most` bytes of the content of an answer. Returns how many it took, and how many it was
    /// offered.
    fn give(&mut self, id: u64, most: usize, transport: &mut dyn Transport) -> (usize, usize) {
        let front = self.at(id).ok().and_then(|at| match &self.streams[at].state {
            State::Sending(content) => Some(content.front()),
            State::Forward(passed) => Some(passed.front()),
            _ => None,
        });
        let Some(front) = front.filter(|front| !front.is_empty()) else {
            debug_assert!(false, "stream {id} has no content");
            // The protocol would ask for it again and again.
            self.http.reset(id, Code::INTERNAL_ERROR);
            return (0, 0);
        };
        let offered = front.len().min(most);
        let mut bytes = front.slice(..offered);
        let taken = transport.write_shared(id, &mut bytes).unwrap_or(0);
        (taken, offered)
    }

    /// The transport took so many bytes of the content of an answer, which ends with them if `is_whole`.
    fn gone_out(&mut self, cx: &mut Cx, id: u64, bytes: u64, is_whole: bool, now: Instant) {
        // An answer without content has ended with its head.
        let Ok(at) = self.at(id) else { return };
        let stream = &mut self.streams[at];
        match &mut stream.state {
            State::Sending(content) => {
                let fresh = content.drop_front(bytes as usize);
                if cx.journal.is_on() {
                    cx.journal.given(&mut stream.slot, bytes);
                    cx.journal.progress(stream.slot, bytes);
                }
                self.announce(id, fresh);
                if is_whole {
                    self.answered(cx, id, now);
                }
            }
            State::Forward(passed) => {
                passed.drop_front(bytes as usize);
                self.went(cx, at, bytes, is_whole, now);
            }
            _ => {}
        }
    }

    /// The next job that a request or its answer needs.
    pub(super) fn next_job(&mut self, cx: &Cx, now: Instant) -> Option<(u64, Work)> {
        let until = now + cx.state.limits.disk_timeout;
        let (turn, answers) = (Limits::OUTPUT_PER_TURN, self.streams.len());
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
    pub(super) fn found(&mut self, cx: &mut Cx, id: u64, loaded: Loaded, now: Instant) {
        self.resume(cx, id, |exchange, cx| exchange.found(cx, loaded), now);
    }

    /// A job takes too long: its request is answered without it.
    #[cold]
    pub(super) fn late(&mut self, cx: &mut Cx, id: u64, now: Instant) {
        self.resume(cx, id, |exchange, cx| exchange.late(cx), now);
    }

    /// Continues an exchange that has waited, with the entry that `find` gives.
    fn resume(
        &mut self,
        cx: &mut Cx,
        id: u64,
        find: impl FnOnce(&mut Exchange, &mut Cx) -> Arc<Entry>,
        now: Instant,
    ) {
        let Ok(at) = self.at(id) else { return };
        let state = std::mem::replace(&mut self.streams[at].state, State::Gone(None));
        let State::Waiting(waiting) = state else { return };
        let Waiting { fields, exchange, .. } = *waiting;
        let outcome = ask::resume(cx, ask(&self.client, id), exchange, fields.as_ref(), find);
        self.carry_out(cx, id, outcome, fields, now);
    }
}

/// A request on this stream.
fn ask(client: &Client, id: u64) -> Ask<'_> {
    Ask {
        client,
        stream: id,
        protocol: Protocol::Http3,
    }
}
