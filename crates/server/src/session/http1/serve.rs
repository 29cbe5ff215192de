//! Takes requests off the input, one after another, until the turn's share of output is made, a response refers to a
//! body, a job is needed, or the input ends within a request.
//!
//! The body of a request is read, checked and discarded before the request is answered, so that the next request begins
//! exactly where the framing says.

use super::again::Again;
use super::reply;
use super::{Discard, Http1, Input, Parts, Phase, Then, Wait, of_fault};
use crate::access::Verdict;
use crate::checked::Known;
use crate::config::Http2;
use crate::context::{Cx, Desk, Work};
use crate::entry::Entry;
use crate::exchange::{Asked, Exchange, Failure, Multipart, Step as Next};
use crate::limits::Limits;
use crate::proxy::Found;
use crate::request_limit::Seats;
use crate::session::guard;
use crate::site::Loaded;
use ::http2::frame::PREFACE;
use http_semantics::method::Method;
use http_semantics::request::RequestHead;
use http_semantics::status::Status;
use http1::framing::Framing;
use http1::head::{Expect, Request};
use http1::response::CONTINUE;
use http1::server::{After, Connection, Step};
use http1::slots::Slots;
use runtime::Tx;
use std::sync::Arc;
use units::Instant;

/// Input that gets an answer.
#[derive(Clone, Copy)]
pub(super) struct Received<'a, 'b, 's> {
    asked: Asked<'a, 'b, 's>,
    /// The request as HTTP/1 sees it.
    request: Option<&'a Request<'b, 's>>,
    /// The head, or the part of it that arrived if it is invalid.
    bytes: &'b [u8],
    /// Arrival of its first byte.
    started: Instant,
}

impl<'a, 'b, 's> Received<'a, 'b, 's> {
    #[inline]
    fn request(
        request: &'a Request<'b, 's>,
        head: &'a RequestHead<'b, 's>,
        bytes: &'b [u8],
        started: Instant,
    ) -> Self {
        Received {
            asked: Asked::Request(head),
            request: Some(request),
            bytes,
            started,
        }
    }

    /// Input that is no complete and valid request.
    pub(super) fn input(bytes: &'b [u8], started: Instant) -> Self {
        Received {
            asked: Asked::Input(bytes),
            request: None,
            bytes,
            started,
        }
    }

    /// The request as HTTP/1 sees it, if it is one.
    pub(super) fn request_head(&self) -> Option<&'a Request<'b, 's>> {
        self.request
    }

    /// What was asked.
    pub(super) fn asked(&self) -> Asked<'a, 'b, 's> {
        self.asked
    }

    /// The head, or the part of it that arrived if it is invalid.
    pub(super) fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// Arrival of its first byte.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Whether the client wants the connection to end.
    #[inline]
    fn wants_close(&self) -> bool {
        self.request.is_some_and(|request| !request.persistent)
    }
}

/// How far an exchange got.
pub(super) enum Outcome {
    /// The response is written.
    Answered,
    /// The first part of the response is written.
    Parts(Multipart),
    /// A job must run.
    Wait(Exchange, Work),
    /// A password must be checked before the request, whose body was not read, is passed to an upstream.
    Check(Exchange, Work),
    /// There is no file, and an upstream answers.
    Pass(Box<Found>, Seats),
}

/// How far a body was read.
enum Body {
    /// To its end, after this many bytes.
    End(usize),
    /// This many bytes; the rest cannot be parsed without more input.
    More(usize),
    /// It must not continue.
    Refused(Failure),
}

impl Http1 {
    /// Answers the requests in `input`, whose first byte arrived at `started`.
    #[inline(never)]
    pub(in crate::session) fn serve(
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
                return match tx.is_empty() {
                    true => self.idle(cx, now),
                    false => self.depart(cx, tx, Then::Idle, now),
                };
            }
            if tx.head.len() >= cx.output_max || depth >= cx.state.limits.pipeline_depth {
                let input = Input::keep(cx, rest, started);
                return self.depart(cx, tx, Then::Input(input), now);
            }
            rest = match self.answer_again(cx, rest, started, tx, now) {
                Again::Answered(left) => left,
                Again::Ended => return,
                Again::Unknown => match self.serve_unknown(cx, rest, started, tx, now) {
                    Some(left) => left,
                    None => return,
                },
            };
            depth += 1;
            started = now;
        }
    }

    /// Parses the head at the start of `rest`, which is not empty, and answers it. Returns the input behind it if the
    /// turn continues. Apart from the loop above, so that known heads do not pay for the stack space of the fields.
    #[inline(never)]
    fn serve_unknown<'b>(
        &mut self,
        cx: &mut Cx,
        rest: &'b [u8],
        started: Instant,
        tx: &mut Tx,
        now: Instant,
    ) -> Option<&'b [u8]> {
        let mut slots = Slots::new();
        match self.http.receive(rest, &mut slots, &cx.state.http_limits) {
            Ok(Step::Request { head, used }) => {
                let (bytes, behind) = rest.split_at(used);
                if cx.state.passes(self.client.is_admin()) {
                    let semantics = head.semantics();
                    if let Some(found) = self.route(cx, &head, &semantics, &Known::default()) {
                        let received = Received::request(&head, &semantics, bytes, started);
                        self.count(cx);
                        match self.limit(cx, &received, now) {
                            Ok(seats) => self.pass(cx, found, &head, &received, behind, seats, tx, now),
                            Err(failure) => {
                                return self.decline(cx, &head, &received, behind, failure, tx, now);
                            }
                        }
                        return None;
                    }
                    if head.expect != Expect::Unknown
                        && let has_body = head.framing != Framing::Empty
                        && let Some(stop) =
                            guard::stop(cx, (&self.client, self.client.next()), &semantics, has_body)
                    {
                        let received = Received::request(&head, &semantics, bytes, started);
                        return self.stop(cx, stop, &head, &received, behind, tx, now);
                    }
                }
                if head.framing == Framing::Empty && head.expect != Expect::Unknown {
                    let semantics = head.semantics();
                    let received = Received::request(&head, &semantics, bytes, started);
                    self.answer(cx, &received, behind, tx, now)
                } else {
                    self.with_body(cx, &head, bytes, behind, started, tx, now)
                }
            }
            Ok(Step::Partial { used }) => {
                self.park(cx, &rest[used..], started, tx, now);
                None
            }
            Ok(_) => {
                debug_assert!(
                    false,
                    "a step that is possible only after a body or the last request"
                );
                self.phase = Phase::Closed;
                None
            }
            Err(_) if self.client.requests == 0 && cx.state.config.http2 == Http2::All && is_http2(rest) => {
                self.phase = Phase::Other(Input::keep(cx, rest, started));
                None
            }
            Err(fault) => {
                let received = Received::input(rest, started);
                self.refuse(cx, &received, of_fault(fault), tx, now);
                None
            }
        }
    }

    /// The input ends before the next request does.
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
        received: &Received<'_, 'b, '_>,
        behind: &'b [u8],
        tx: &mut Tx,
        now: Instant,
    ) -> Option<&'b [u8]> {
        self.count(cx);
        let admitted = self.limit(cx, received, now);
        let outcome = self.begin(cx, received, admitted, tx);
        self.conclude(cx, received, outcome, behind, tx, now)
    }

    /// Admits a complete request. Returns what it holds until it is answered.
    ///
    /// # Errors
    /// The rejection by a limit.
    #[inline]
    pub(super) fn limit(
        &mut self,
        cx: &Cx,
        received: &Received<'_, '_, '_>,
        now: Instant,
    ) -> Result<Seats, Failure> {
        self.client.limit(cx, received.asked, now).map_err(|refused| {
            if refused.ends_connection {
                self.http.drain();
            }
            refused.failure
        })
    }

    /// Begins an exchange, with an error if the request was not admitted.
    #[inline]
    pub(super) fn begin(
        &mut self,
        cx: &mut Cx,
        received: &Received<'_, '_, '_>,
        admitted: Result<Seats, Failure>,
        tx: &mut Tx,
    ) -> Outcome {
        let sender = self.client.sender(cx, received.asked);
        let way = self.client.way(cx, received.asked);
        let nth = match received.asked {
            Asked::Request(_) => self.client.current(),
            // It is not counted, and the last one.
            Asked::Input(_) => self.client.next(),
        };
        let id = self.client.request_id(cx, received.asked, nth);
        let trace = self.client.trace(cx, received.asked, nth);
        let mut exchange = Exchange::new(sender, way, received.started)
            .identified(id)
            .certified(self.client.certificate(cx))
            .traced(trace);
        let failure = match admitted {
            Ok(seats) => {
                exchange = exchange.holding(seats);
                None
            }
            Err(failure) => Some(failure),
        };
        self.begin_with(cx, exchange, received, failure, tx)
    }

    /// Begins this exchange, with an error if there is one already.
    #[inline]
    pub(super) fn begin_with(
        &mut self,
        cx: &mut Cx,
        mut exchange: Exchange,
        received: &Received<'_, '_, '_>,
        failure: Option<Failure>,
        tx: &mut Tx,
    ) -> Outcome {
        let (scope, desk) = cx.split();
        let next = match (failure, received.asked) {
            (None, Asked::Request(head)) => {
                if head.method == Method::Connect {
                    // Bytes after CONNECT may be meant for the tunnel, not for this server.
                    self.http.drain();
                }
                exchange.begin(scope, head)
            }
            (failure, asked) => {
                let failure = failure.unwrap_or(Failure::of(Status::BAD_REQUEST));
                exchange.refuse(scope, asked, failure)
            }
        };
        self.follow(desk, exchange, received, next, tx)
    }

    /// Carries out the next step of an exchange.
    #[inline]
    pub(super) fn follow(
        &mut self,
        desk: Desk<'_>,
        mut exchange: Exchange,
        received: &Received<'_, '_, '_>,
        next: Next<'_>,
        tx: &mut Tx,
    ) -> Outcome {
        let answer = match next {
            Next::Answer(answer) => answer,
            Next::Wait(work, _) => return Outcome::Wait(exchange, work),
            Next::Pass(found) => return Outcome::Pass(found, exchange.take_seats()),
        };
        if let (Some(settled), Some(request)) = (answer.settled, received.request) {
            desk.head_cache.saw(request, received.bytes, settled);
        }
        match self.write(desk, exchange, received.asked, answer, tx) {
            None => Outcome::Answered,
            Some(multipart) => Outcome::Parts(multipart),
        }
    }

    /// Counts a request, which may be the last.
    #[inline]
    pub(super) fn count(&mut self, cx: &Cx) {
        if self.counts_as_last(&cx.state.limits) {
            self.http.drain();
        }
    }

    /// Whether the request that is counted next has to be the last.
    #[inline]
    pub(super) fn next_is_last(&self, limits: &Limits) -> bool {
        let next = self.client.requests.saturating_add(1);
        self.draining || self.retiring || next >= limits.requests_per_connection
    }

    /// Counts a request. Returns whether it has to be the last.
    #[inline]
    pub(super) fn counts_as_last(&mut self, limits: &Limits) -> bool {
        self.client.requests = self.client.requests.saturating_add(1);
        self.draining || self.retiring || self.client.requests >= limits.requests_per_connection
    }

    /// Applies an outcome. Returns the input behind the request if the turn continues.
    #[inline]
    pub(super) fn conclude<'b>(
        &mut self,
        cx: &mut Cx,
        received: &Received<'_, '_, '_>,
        outcome: Outcome,
        behind: &'b [u8],
        tx: &mut Tx,
        now: Instant,
    ) -> Option<&'b [u8]> {
        if matches!(outcome, Outcome::Answered | Outcome::Parts(_)) {
            cx.answered(received.started);
        }
        match outcome {
            Outcome::Pass(found, seats) => {
                let Some(request) = received.request else {
                    debug_assert!(false, "only requests have a route");
                    return None;
                };
                if request.framing != Framing::Empty {
                    // Its body was discarded under a configuration that did not pass it on.
                    self.refuse(cx, received, Failure::BEHIND, tx, now);
                    return None;
                }
                self.pass(cx, *found, request, received, behind, seats, tx, now);
            }
            Outcome::Answered => match self.after(received.wants_close(), behind) {
                None if tx.body.is_none() => return Some(behind),
                None => {
                    let then = Http1::onwards(cx, behind, now);
                    self.depart(cx, tx, then, now);
                }
                Some(then) => self.depart(cx, tx, then, now),
            },
            Outcome::Parts(multipart) => {
                let then = match self.after(received.wants_close(), behind) {
                    None => Http1::onwards(cx, behind, now),
                    Some(then) => then,
                };
                let then = Then::Parts(Box::new(Parts { multipart, then }));
                self.depart(cx, tx, then, now);
            }
            Outcome::Wait(..) | Outcome::Check(..) => {
                let is_unread = matches!(outcome, Outcome::Check(..));
                let (Outcome::Wait(exchange, job) | Outcome::Check(exchange, job)) = outcome else {
                    return None;
                };
                cx.counters.loads().add(1);
                let kept = received.bytes.len() + behind.len();
                let wait = Box::new(Wait {
                    _held: cx.hub.budget.holding(size_of::<Wait>() + kept),
                    exchange,
                    job: Some(job),
                    bytes: received.bytes.to_vec(),
                    is_request: received.request.is_some(),
                    is_unread,
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
            Ok(After::Close) => Some(self.closing(wants_close, behind)),
        }
    }

    /// How the connection ends.
    pub(super) fn closing(&self, wants_close: bool, behind: &[u8]) -> Then {
        // A peer that asked for the end and has sent nothing more will not send. Any other peer may be sending right
        // now, and a reset would destroy the response.
        match self.half_closed || wants_close && behind.is_empty() {
            true => Then::Close,
            false => Then::Linger,
        }
    }

    /// Answers with an error that ends the connection.
    pub(super) fn refuse(
        &mut self,
        cx: &mut Cx,
        received: &Received<'_, '_, '_>,
        failure: Failure,
        tx: &mut Tx,
        now: Instant,
    ) {
        self.http.drain();
        let outcome = self.begin(cx, received, Err(failure), tx);
        let left = self.conclude(cx, received, outcome, &[], tx, now);
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
        let semantics = head.semantics();
        let received = &Received::request(head, &semantics, bytes, started);
        if let Some(failure) = refusal(head, &cx.state.limits) {
            self.count(cx);
            if head.framing != Framing::Empty {
                self.refuse(cx, received, failure, tx, now);
                return None;
            }
            let outcome = self.begin(cx, received, Err(failure), tx);
            return self.conclude(cx, received, outcome, behind, tx, now);
        }
        self.read_body(cx, received, behind, None, tx, now)
    }

    /// Answers a counted request with an error, and keeps the connection if the rest of the request is within the limits.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of the request, and the arguments of every step"
    )]
    #[cold]
    pub(super) fn decline<'b>(
        &mut self,
        cx: &mut Cx,
        head: &Request<'b, '_>,
        received: &Received<'_, 'b, '_>,
        behind: &'b [u8],
        failure: Failure,
        tx: &mut Tx,
        now: Instant,
    ) -> Option<&'b [u8]> {
        if head.framing == Framing::Empty {
            let outcome = self.begin(cx, received, Err(failure), tx);
            return self.conclude(cx, received, outcome, behind, tx, now);
        }
        // A client that waits for 100 may send its body or not.
        if head.expect != Expect::Nothing || refusal(head, &cx.state.limits).is_some() {
            self.refuse(cx, received, failure, tx, now);
            return None;
        }
        self.read_body(cx, received, behind, Some(failure), tx, now)
    }

    /// Reads the body of a request before its answer: this error, of a request that is counted, if there is one.
    fn read_body<'b>(
        &mut self,
        cx: &mut Cx,
        received: &Received<'_, 'b, '_>,
        behind: &'b [u8],
        declined: Option<Failure>,
        tx: &mut Tx,
        now: Instant,
    ) -> Option<&'b [u8]> {
        let (bytes, started) = (received.bytes, received.started);
        let mut content = 0;
        match self.discard(cx, &mut content, behind) {
            Body::End(used) => match declined {
                None => self.answer(cx, received, &behind[used..], tx, now),
                Some(failure) => {
                    let outcome = self.begin(cx, received, Err(failure), tx);
                    self.conclude(cx, received, outcome, &behind[used..], tx, now)
                }
            },
            Body::Refused(failure) => {
                if declined.is_none() {
                    self.count(cx);
                }
                self.refuse(cx, received, failure, tx, now);
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
                    received: content,
                    declined,
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
        self.deadline = cx.state.limits.body_until(discard.since, discard.received);
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
                if discard.declined.is_none() {
                    self.count(cx);
                }
                with_head(&discard.head, discard.started, cx, |cx, received| {
                    self.refuse(cx, received, failure, tx, now);
                });
            }
            Body::End(used) => {
                let left = with_head(&discard.head, discard.started, cx, |cx, received| {
                    let admitted = match discard.declined {
                        Some(failure) => Err(failure),
                        None => {
                            self.count(cx);
                            self.limit(cx, received, now)
                        }
                    };
                    let outcome = self.begin(cx, received, admitted, tx);
                    self.conclude(cx, received, outcome, &bytes[used..], tx, now)
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
                Err(fault) => return Body::Refused(of_fault(fault)),
            }
        }
    }

    /// Whether a body of which this much arrived exceeds the limit, including the announced rest of its chunk.
    fn exceeds(&self, cx: &Cx, received: u64) -> bool {
        received.saturating_add(self.http.announced()) > cx.state.limits.body_size.0
    }

    /// The job has finished.
    pub(super) fn found(&mut self, cx: &mut Cx, loaded: Loaded, tx: &mut Tx, now: Instant) {
        let mut wait = match std::mem::replace(&mut self.phase, Phase::Closed) {
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
        let entry = wait.exchange.found(cx, loaded);
        self.go_on(cx, *wait, &entry, tx, now);
    }

    /// The job exceeds its timeout: answers its request without it.
    #[cold]
    pub(super) fn late(&mut self, cx: &mut Cx, tx: &mut Tx, now: Instant) {
        let Phase::Waiting(mut wait) = std::mem::replace(&mut self.phase, Phase::Closed) else {
            return;
        };
        let entry = wait.exchange.late(cx);
        self.go_on(cx, *wait, &entry, tx, now);
    }

    /// Continues an exchange that has waited, with the entry found.
    fn go_on(&mut self, cx: &mut Cx, wait: Wait, entry: &Arc<Entry>, tx: &mut Tx, now: Instant) {
        let Wait {
            mut exchange,
            bytes,
            is_request,
            is_unread,
            rest,
            ..
        } = wait;
        let started = exchange.started();
        let go = |cx: &mut Cx, received: &Received<'_, '_, '_>| {
            if is_unread && let (Some(request), Asked::Request(head)) = (received.request, received.asked) {
                if let Some(found) = self.route(cx, request, head, exchange.known()) {
                    let seats = exchange.take_seats();
                    self.pass(cx, found, request, received, &rest, seats, tx, now);
                    return None;
                }
                let site = cx.state.hosts.index_of(head.authority());
                let admitted = guard::admit(
                    cx,
                    (&self.client, self.client.current()),
                    site,
                    head,
                    exchange.known(),
                );
                // Also the right password of a user whom the rule does not admit.
                let is_refused =
                    matches!(admitted, Err(Verdict::Refused(_))) || exchange.known().is_refused();
                if let Err(Verdict::Check(check)) = admitted {
                    // Another condition of the rules.
                    let work = guard::begin(cx, &mut exchange, head, check);
                    let outcome = Outcome::Check(exchange, work);
                    return self.conclude(cx, received, outcome, &rest, tx, now);
                }
                let has_body = request.framing != Framing::Empty;
                if has_body {
                    // What follows is the body, which nobody reads.
                    self.http.drain();
                }
                let (scope, desk) = cx.split();
                let next = match is_refused {
                    true => exchange.resume(scope, received.asked, entry),
                    // The check took too long, or the configuration has changed meanwhile.
                    false => exchange.refuse(scope, received.asked, Failure::BEHIND),
                };
                let outcome = self.follow(desk, exchange, received, next, tx);
                let behind = if has_body { &[][..] } else { &rest[..] };
                return self.conclude(cx, received, outcome, behind, tx, now);
            }
            let (scope, desk) = cx.split();
            let next = exchange.resume(scope, received.asked, entry);
            let outcome = self.follow(desk, exchange, received, next, tx);
            self.conclude(cx, received, outcome, &rest, tx, now)
        };
        let left = match is_request {
            true => with_head(&bytes, started, cx, go).flatten(),
            false => go(cx, &Received::input(&bytes, started)),
        };
        if let Some(left) = left {
            self.serve(cx, left, now, tx, now);
        }
    }

    /// Sends the next part of a multipart response.
    pub(super) fn next_part(&mut self, cx: &mut Cx, mut parts: Box<Parts>, tx: &mut Tx, now: Instant) {
        let then = if reply::parts(&mut parts.multipart, tx) {
            parts.then
        } else {
            Then::Parts(parts)
        };
        self.depart(cx, tx, then, now);
    }
}

/// Whether input that is no HTTP/1 is the beginning of HTTP/2 (RFC 9113 section 3.4), as far as it arrived.
#[cold]
fn is_http2(input: &[u8]) -> bool {
    let len = input.len().min(PREFACE.len());
    input[..len] == PREFACE[..len]
}

/// Why a request will be rejected, whatever its body.
fn refusal(head: &Request<'_, '_>, limits: &Limits) -> Option<Failure> {
    let reads = matches!(head.method, Method::Get | Method::Head | Method::Options);
    match (head.expect, head.framing) {
        (Expect::Unknown, _) => Some(of_fault(http1::Fault::Expectation)),
        (_, Framing::Length(len)) if len > limits.body_size.0 => Some(Failure::TOO_LARGE),
        (Expect::Continue, _) if !reads => Some(Failure::of_method(head.method)),
        _ => None,
    }
}

/// Parses a kept head again. It was complete and valid when it was kept.
pub(super) fn with_head<T>(
    bytes: &[u8],
    started: Instant,
    cx: &mut Cx,
    then: impl FnOnce(&mut Cx, &Received<'_, '_, '_>) -> T,
) -> Option<T> {
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
        Ok(Step::Request { head, .. }) => {
            let semantics = head.semantics();
            Some(then(cx, &Received::request(&head, &semantics, bytes, started)))
        }
        _ => {
            debug_assert!(false, "a kept head is invalid");
            None
        }
    }
}
