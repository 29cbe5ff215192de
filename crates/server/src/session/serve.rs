//! Takes requests off the input, one after another, until the turn's share of output is made, a response refers to a
//! body, a job is needed, or the input ends within a request.
//!
//! The body of a request is read, checked and discarded before the request is answered, so that the next request begins
//! exactly where the framing says.

use super::resolve::{Asked, Failure, Outcome, Stage, Start, Subject};
use super::{Discard, Input, Parts, Phase, Session, Then, Wait, body_deadline};
use crate::context::Cx;
use crate::entry::{Answer, Entry, Missing};
use crate::limits::Limits;
use crate::site::Loaded;
use http_semantics::method::Method;
use http1::framing::Framing;
use http1::head::{Expect, Request};
use http1::response::CONTINUE;
use http1::server::{After, Connection, Step};
use http1::slots::Slots;
use measure::Instant;
use runtime::Tx;
use std::sync::Arc;

/// How far a body was read.
enum Body {
    /// To its end, after this many bytes.
    End(usize),
    /// This many bytes; the rest cannot be parsed without more input.
    More(usize),
    /// It must not continue.
    Refused(Failure),
}

impl Session {
    /// Answers the requests in `input`, whose first byte arrived at `started`.
    #[inline]
    pub(super) fn serve(
        &mut self,
        cx: &mut Cx,
        input: &[u8],
        mut started: Instant,
        tx: &mut Tx,
        now: Instant,
    ) {
        let mut rest = input;
        let mut depth = 0;
        loop {
            if rest.is_empty() {
                return self.park(cx, rest, started, tx, now);
            }
            if tx.head.len() >= cx.output_max || depth >= cx.state.limits.pipeline_depth {
                let input = Input::keep(cx, rest, started);
                return self.depart(cx, tx, Then::Input(input), now);
            }
            if self.pace.is_none()
                && cx.recalls
                && !cx.gate.is_shut()
                && let Some(found) = cx.recall.find(rest, cx.clock.now())
                && self.http.receive_again(found.version, found.persistent)
            {
                match self.answer_again(cx, found, &rest[found.used..], started, tx, now) {
                    Some(left) => rest = left,
                    None => return,
                }
                depth += 1;
                started = now;
                continue;
            }
            let mut slots = Slots::new();
            match self.http.receive(rest, &mut slots, &cx.state.http_limits) {
                Ok(Step::Request { head, used }) => {
                    let (bytes, behind) = rest.split_at(used);
                    if head.framing == Framing::Empty && head.expect != Expect::Unknown {
                        let asked = Asked::request(&head, bytes, started);
                        match self.answer(cx, &asked, behind, tx, now) {
                            Some(left) => rest = left,
                            None => return,
                        }
                    } else {
                        match self.with_body(cx, &head, bytes, behind, started, tx, now) {
                            Some(left) => rest = left,
                            None => return,
                        }
                    }
                    depth += 1;
                    started = now;
                }
                Ok(Step::Partial { used }) => return self.park(cx, &rest[used..], started, tx, now),
                Ok(_) => {
                    debug_assert!(
                        false,
                        "a step that is possible only after a body or the last request"
                    );
                    self.phase = Phase::Closed;
                    return;
                }
                Err(fault) => {
                    let asked = Asked::faulty(fault, rest, started);
                    return self.refuse(cx, &asked, Failure::of_fault(fault), tx, now);
                }
            }
        }
    }

    /// The input ends before the next request does.
    #[inline]
    fn park(&mut self, cx: &mut Cx, rest: &[u8], started: Instant, tx: &mut Tx, now: Instant) {
        if !tx.is_empty() {
            let then = match rest {
                [] => Then::Idle,
                _ => Then::Input(Input::keep(cx, rest, started)),
            };
            return self.depart(cx, tx, then, now);
        }
        if rest.is_empty() {
            return self.idle(cx, now);
        }
        self.phase = Phase::Head(Input::keep(cx, rest, started));
        self.deadline = now + cx.state.limits.header_timeout;
        if self.draining {
            self.hurry(now);
        }
        if self.half_closed {
            self.eof(cx, tx, now);
        }
    }

    /// Answers a complete request. Returns the input behind it if the turn continues.
    #[inline]
    fn answer<'b>(
        &mut self,
        cx: &mut Cx,
        asked: &Asked<'_, 'b, '_>,
        behind: &'b [u8],
        tx: &mut Tx,
        now: Instant,
    ) -> Option<&'b [u8]> {
        self.count(cx);
        let start = self.start(cx, asked, now);
        let outcome = self.pursue(cx, asked, start, tx);
        self.conclude(cx, asked, outcome, behind, tx, now)
    }

    /// The start of a complete request, or its rejection by a limit.
    #[inline]
    fn start(&mut self, cx: &Cx, asked: &Asked<'_, '_, '_>, now: Instant) -> Start<'static> {
        if cx.is_out_of_memory() && asked.is_rate_limited(&cx.state.mounts) {
            cx.counters.out_of_memory().add(1);
            // Close, because an open connection would request again.
            self.http.drain();
            return Start::Failure(Failure::BEHIND);
        }
        match (&self.pace, cx.state.rate) {
            (Some(pace), Some(rate))
                if asked.is_rate_limited(&cx.state.mounts) && !pace.admits(rate, now) =>
            {
                cx.counters.too_many().add(1);
                Start::Failure(Failure::TOO_MANY)
            }
            _ => Start::Request,
        }
    }

    /// Counts a request, which may be the last.
    #[inline]
    pub(super) fn count(&mut self, cx: &Cx) {
        self.requests = self.requests.saturating_add(1);
        if self.draining || self.retiring || self.requests >= cx.state.limits.requests_per_connection {
            self.http.drain();
        }
    }

    /// Applies an outcome. Returns the input behind the request if the turn continues.
    #[inline]
    pub(super) fn conclude<'b>(
        &mut self,
        cx: &mut Cx,
        asked: &Asked<'_, '_, '_>,
        outcome: Outcome,
        behind: &'b [u8],
        tx: &mut Tx,
        now: Instant,
    ) -> Option<&'b [u8]> {
        if !matches!(outcome, Outcome::Wait(..)) {
            cx.answered(asked.started());
        }
        match outcome {
            Outcome::Answered => match self.after(asked.wants_close(), behind) {
                None if tx.body.is_none() => return Some(behind),
                None => {
                    let then = Session::onwards(cx, behind, now);
                    self.depart(cx, tx, then, now);
                }
                Some(then) => self.depart(cx, tx, then, now),
            },
            Outcome::Parts(multipart) => {
                let then = match self.after(asked.wants_close(), behind) {
                    None => Session::onwards(cx, behind, now),
                    Some(then) => then,
                };
                let then = Then::Parts(Box::new(Parts { multipart, then }));
                self.depart(cx, tx, then, now);
            }
            Outcome::Wait(job, stage) => {
                cx.counters.loads().add(1);
                let kept = asked.bytes().len() + behind.len();
                let wait = Box::new(Wait {
                    _held: cx.hub.budget.holding(size_of::<Wait>() + kept),
                    job: Some(job),
                    bytes: asked.bytes().to_vec(),
                    subject: asked.subject(),
                    started: asked.started(),
                    stage,
                    generation: cx.generation,
                    site: cx.state.hosts.index_of(asked.authority()),
                    rest: behind.to_vec(),
                });
                if tx.is_empty() {
                    self.wait(cx, wait, now);
                } else {
                    self.depart(cx, tx, Then::Wait(wait), now);
                }
            }
        }
        None
    }

    pub(super) fn onwards(cx: &Cx, behind: &[u8], now: Instant) -> Then {
        if behind.is_empty() {
            return Then::Idle;
        }
        Then::Input(Input::keep(cx, behind, now))
    }

    /// How the connection ends after this response; `None` if it continues. `wants_close`: the client asked for the
    /// end.
    #[inline]
    pub(super) fn after(&mut self, wants_close: bool, behind: &[u8]) -> Option<Then> {
        match self.http.end_response() {
            Ok(After::Request) => None,
            Ok(After::Discard) | Err(_) => {
                debug_assert!(false, "bodies are read before their request is answered");
                Some(Then::Linger)
            }
            // A peer that asked for the end and has sent nothing more will not send. Any other peer may be sending
            // right now, and a reset would destroy the response.
            Ok(After::Close) if self.half_closed => Some(Then::Close),
            Ok(After::Close) if wants_close && behind.is_empty() => Some(Then::Close),
            Ok(After::Close) => Some(Then::Linger),
        }
    }

    /// Answers with an error that ends the connection.
    pub(super) fn refuse(
        &mut self,
        cx: &mut Cx,
        asked: &Asked<'_, '_, '_>,
        failure: Failure,
        tx: &mut Tx,
        now: Instant,
    ) {
        self.http.drain();
        let outcome = self.pursue(cx, asked, Start::Failure(failure), tx);
        let left = self.conclude(cx, asked, outcome, &[], tx, now);
        debug_assert!(left.is_none(), "a rejection ends the connection");
    }

    /// A request with a body or an expectation: rejects it at once if it will be rejected anyway, otherwise reads the
    /// body first.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of the request, and the arguments of every step"
    )]
    #[cold]
    fn with_body<'b>(
        &mut self,
        cx: &mut Cx,
        head: &Request<'b, '_>,
        bytes: &'b [u8],
        behind: &'b [u8],
        started: Instant,
        tx: &mut Tx,
        now: Instant,
    ) -> Option<&'b [u8]> {
        let asked = Asked::request(head, bytes, started);
        if let Some(failure) = refusal(head, &cx.state.limits) {
            self.count(cx);
            if head.framing != Framing::Empty {
                self.refuse(cx, &asked, failure, tx, now);
                return None;
            }
            let outcome = self.pursue(cx, &asked, Start::Failure(failure), tx);
            return self.conclude(cx, &asked, outcome, behind, tx, now);
        }
        let mut received = 0;
        match self.discard(cx, &mut received, behind) {
            Body::End(used) => self.answer(cx, &asked, &behind[used..], tx, now),
            Body::Refused(failure) => {
                self.count(cx);
                self.refuse(cx, &asked, failure, tx, now);
                None
            }
            Body::More(used) => {
                let kept = bytes.len() + behind.len() - used;
                let discard = Box::new(Discard {
                    _held: cx.hub.budget.holding(size_of::<Discard>() + kept),
                    head: bytes.to_vec(),
                    left: behind[used..].to_vec(),
                    started,
                    since: now,
                    received,
                });
                if self.http.awaits_continue() {
                    self.http.continued();
                    tx.head.extend_from_slice(CONTINUE);
                    cx.counters.informational().add(1);
                }
                if tx.is_empty() {
                    self.await_body(cx, discard, tx, now);
                } else {
                    self.depart(cx, tx, Then::Body(discard), now);
                }
                None
            }
        }
    }

    /// Waits for the rest of a body.
    pub(super) fn await_body(&mut self, cx: &mut Cx, discard: Box<Discard>, tx: &mut Tx, now: Instant) {
        self.deadline = body_deadline(&cx.state.limits, discard.since, discard.received);
        self.phase = Phase::Body(discard);
        if self.half_closed {
            self.eof(cx, tx, now);
        }
    }

    /// More of a body arrived.
    pub(super) fn body(
        &mut self,
        cx: &mut Cx,
        mut discard: Box<Discard>,
        bytes: &[u8],
        tx: &mut Tx,
        now: Instant,
    ) {
        let joined;
        let bytes = if discard.left.is_empty() {
            bytes
        } else {
            joined = [&std::mem::take(&mut discard.left), bytes].concat();
            &joined
        };
        match self.discard(cx, &mut discard.received, bytes) {
            Body::More(used) => {
                discard.left.extend_from_slice(&bytes[used..]);
                self.await_body(cx, discard, tx, now);
            }
            Body::Refused(failure) => {
                self.count(cx);
                with_head(&discard.head, cx, |cx, head| {
                    let asked = Asked::request(head, &discard.head, discard.started);
                    self.refuse(cx, &asked, failure, tx, now);
                });
            }
            Body::End(used) => {
                let left = with_head(&discard.head, cx, |cx, head| {
                    let asked = Asked::request(head, &discard.head, discard.started);
                    self.count(cx);
                    let start = self.start(cx, &asked, now);
                    let outcome = self.pursue(cx, &asked, start, tx);
                    self.conclude(cx, &asked, outcome, &bytes[used..], tx, now)
                });
                if let Some(Some(left)) = left {
                    self.serve(cx, left, now, tx, now);
                }
            }
        }
    }

    /// Reads a body from the start of `input` and discards it.
    fn discard(&mut self, cx: &Cx, received: &mut u64, input: &[u8]) -> Body {
        let mut used = 0;
        loop {
            let mut slots = Slots::new();
            match self
                .http
                .receive(&input[used..], &mut slots, &cx.state.http_limits)
            {
                Ok(Step::Body { data, used: more }) => {
                    used += more;
                    *received += data.len() as u64;
                    if self.exceeds(cx, *received) {
                        return Body::Refused(Failure::TOO_LARGE);
                    }
                }
                Ok(Step::End { used: more, .. }) => return Body::End(used + more),
                Ok(Step::Partial { .. }) if self.exceeds(cx, *received) => {
                    return Body::Refused(Failure::TOO_LARGE);
                }
                Ok(Step::Partial { used: more }) => return Body::More(used + more),
                Ok(_) => return Body::More(input.len()),
                Err(fault) => return Body::Refused(Failure::of_fault(fault)),
            }
        }
    }

    /// Whether a body of which this much arrived exceeds the limit, including the announced rest of its chunk.
    fn exceeds(&self, cx: &Cx, received: u64) -> bool {
        received.saturating_add(self.http.announced()) > cx.state.limits.body_size.0
    }

    /// The job has finished.
    pub(super) fn found(&mut self, cx: &mut Cx, loaded: Loaded, tx: &mut Tx, now: Instant) {
        let wait = match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Waiting(wait) => wait,
            phase => {
                debug_assert!(
                    matches!(phase, Phase::Closed),
                    "a job finished that was not given"
                );
                self.phase = phase;
                return;
            }
        };
        if loaded.is_refused {
            cx.counters.disk_refused().add(1);
        }
        let (entry, stage) = match cx.views.get_mut(wait.site) {
            Some(view) if wait.generation == cx.generation => (view.finish(loaded), wait.stage),
            // Found in a site that is no longer served: valid for this response, but not for the view.
            _ => (Arc::clone(loaded.entry()), wait.stage.settled()),
        };
        self.go_on(cx, *wait, &entry, stage, tx, now);
    }

    /// The job exceeds its timeout: answers its request without it.
    #[cold]
    pub(super) fn late(&mut self, cx: &mut Cx, tx: &mut Tx, now: Instant) {
        let Phase::Waiting(wait) = std::mem::replace(&mut self.phase, Phase::Closed) else {
            return;
        };
        cx.counters.disk_timeouts().add(1);
        let entry = Arc::new(Entry::new(Answer::Missing(Missing::Unavailable)));
        // The site's own page for this error might need the disk as well.
        let stage = match wait.stage {
            Stage::Page(failure) => Stage::Page(failure),
            _ => Stage::Page(Failure::of_missing(Missing::Unavailable)),
        };
        self.go_on(cx, *wait, &entry, stage, tx, now);
    }

    /// Answers a request that has waited, with the entry found for a stage.
    fn go_on(
        &mut self,
        cx: &mut Cx,
        wait: Wait,
        entry: &Arc<Entry>,
        stage: Stage,
        tx: &mut Tx,
        now: Instant,
    ) {
        let Wait {
            bytes,
            subject,
            started,
            rest,
            ..
        } = wait;
        let mut go = |cx: &mut Cx, asked: &Asked<'_, '_, '_>| {
            let outcome = self.pursue(cx, asked, Start::Found(entry, stage), tx);
            self.conclude(cx, asked, outcome, &rest, tx, now)
        };
        let left = match subject {
            Subject::Request => with_head(&bytes, cx, |cx, head| {
                go(cx, &Asked::request(head, &bytes, started))
            })
            .flatten(),
            Subject::Faulty(fault) => go(cx, &Asked::faulty(fault, &bytes, started)),
            Subject::Unclear => go(cx, &Asked::unclear(&bytes, started)),
        };
        if let Some(left) = left {
            self.serve(cx, left, now, tx, now);
        }
    }

    /// Sends the next part of a multipart response.
    pub(super) fn next_part(&mut self, cx: &mut Cx, mut parts: Box<Parts>, tx: &mut Tx, now: Instant) {
        let then = if parts.multipart.write(tx) {
            parts.then
        } else {
            Then::Parts(parts)
        };
        self.depart(cx, tx, then, now);
    }
}

/// Why a request will be rejected, whatever its body.
fn refusal(head: &Request<'_, '_>, limits: &Limits) -> Option<Failure> {
    let reads = matches!(head.method, Method::Get | Method::Head | Method::Options);
    match (head.expect, head.framing) {
        (Expect::Unknown, _) => Some(Failure::of_fault(http1::Fault::Expectation)),
        (_, Framing::Length(len)) if len > limits.body_size.0 => Some(Failure::TOO_LARGE),
        (Expect::Continue, _) if !reads => Some(Failure::of_method(head.method)),
        _ => None,
    }
}

/// Parses a kept head again. It was complete and valid when it was kept.
fn with_head<T>(bytes: &[u8], cx: &mut Cx, then: impl FnOnce(&mut Cx, &Request<'_, '_>) -> T) -> Option<T> {
    /// The head met the limits in force when it arrived; the current limits are for new requests.
    const ANY: http1::Limits = http1::Limits {
        head_bytes_max: u32::MAX,
        target_bytes_max: u32::MAX,
        fields_max: u16::MAX,
        http09: true,
        ..http1::Limits::DEFAULT
    };
    let mut slots = Slots::new();
    match Connection::new().receive(bytes, &mut slots, &ANY) {
        Ok(Step::Request { head, .. }) => Some(then(cx, &head)),
        _ => {
            debug_assert!(false, "a kept head is invalid");
            None
        }
    }
}
