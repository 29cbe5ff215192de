//! Passes a request of this connection to an upstream. From then on, the connection works both ways.
//!
//! ```text
//!   Idle ─ request for a route ─▶ Forward ─┬─ response passed on ──▶ Sending(next) ─▶ as after any response
//!      ▲                                   ├─ WebSocket, and ended ▶ Sending(closing)
//!      │                                   ├─ failed before it ────▶ the page for 502 or 504
//!      └─ the connection goes on           └─ failed within it ────▶ Reset
//! ```
//! Decides when a request is passed on, its deadlines, its line in the log and what the client gets if it fails. `crate::proxy`
//! knows the exchange itself.

use super::serve::{Outcome, Received, with_head};
use super::{Http1, Input, Phase, Then};
use crate::access_log::Cut;
use crate::checked::Known;
use crate::context::{Cx, Task, Work};
use crate::exchange::{Asked, Exchange, Failure, Step as Next};
use crate::proxy::Found;
use crate::proxy::failed::Failed;
use crate::proxy::forward::Forward;
use crate::proxy::http1::{ForClient, connected, take_input, welcome};
use crate::request_limit::Seats;
use crate::session::gateway::{self, UNWRITABLE, complain, failure};
use http_semantics::request::RequestHead;
use http1::framing::Framing;
use http1::head::{Expect, Request};
use http1::version::Version;
use runtime::memory::Holding;
use runtime::session::{PeerEvent, Ticket};
use runtime::{Action, Tx};
use units::Instant;

/// Jobs have tickets from here on, below those of layers around the session.
const JOBS: u32 = 1 << 30;

/// Most bytes of a stored response that one output has.
const STORED_PER_OUTPUT: usize = 64 << 10;

/// Most bytes of an output that are copied rather than given away with their buffer.
const COPIED_MAX: usize = 40 << 10;

/// A request that is passed on.
#[derive(Debug)]
pub(super) struct Passed {
    forward: Forward,
    version: Version,
    /// Input of the client that is not decoded.
    input: Vec<u8>,
    /// The head of the request.
    head: Vec<u8>,
    /// Arrival of its first byte.
    started: Instant,
    /// Beginning of its body.
    since: Instant,
    wants_close: bool,
    /// Generation of the configuration that chose the route.
    generation: u64,
    held: Holding,
}

impl Http1 {
    /// The route of a request, if it has one. The server's own handlers and the redirect to https take precedence.
    #[cold]
    pub(super) fn route(
        &self,
        cx: &Cx,
        request: &Request<'_, '_>,
        head: &RequestHead<'_, '_>,
        known: &Known,
    ) -> Option<Found> {
        match request.expect {
            Expect::Unknown => None,
            Expect::Nothing | Expect::Continue => {
                let has_body = request.framing != Framing::Empty;
                gateway::route(cx, (&self.client, self.client.next()), head, has_body, known)
            }
        }
    }

    /// Begins to pass a request on, which is counted and within the limits; it holds `seats` until it is answered.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of the request, and the arguments of every step"
    )]
    #[cold]
    pub(super) fn pass(
        &mut self,
        cx: &mut Cx,
        found: Found,
        request: &Request<'_, '_>,
        received: &Received<'_, '_, '_>,
        behind: &[u8],
        seats: Seats,
        tx: &mut Tx,
        now: Instant,
    ) {
        let length = match request.framing {
            Framing::Length(length) => length,
            _ => 0,
        };
        let too_large = (length > found.route.rule.max_body_size.0).then(|| gateway::too_large(&found.route));
        let semantics = request.semantics();
        let from = self.client.from(cx, &semantics, self.client.current());
        let base = gateway::first_ticket(self.client.requests);
        let times = (cx.clock.now(), now);
        let forward = Forward::new(found, &semantics, request.framing, &from, base, times);
        let mut forward = match (too_large, forward) {
            (Some(failure), _) => return self.refuse(cx, received, failure, tx, now),
            (None, Err(_)) => {
                return self.refuse(cx, received, UNWRITABLE, tx, now);
            }
            (None, Ok(forward)) => forward,
        };
        forward.seats = seats;
        forward.ruled = gateway::ruled(cx, &self.client, &semantics, forward.id.as_ref());
        let mut input = behind.to_vec();
        take_input(&mut forward, &mut input, &mut self.http, &cx.state.http_limits);
        let passed = Box::new(Passed {
            held: cx
                .hub
                .budget
                .holding(forward.held() + input.capacity() + received.bytes().len()),
            forward,
            version: request.version,
            input,
            head: received.bytes().to_vec(),
            started: received.started(),
            since: now,
            wants_close: !request.persistent,
            generation: cx.generation,
        });
        if tx.is_empty() {
            self.set_forth(cx, passed, now);
        } else {
            self.depart(cx, tx, Then::Forward(passed), now);
        }
    }

    /// The request is the only one under way from now on.
    pub(super) fn set_forth(&mut self, cx: &mut Cx, mut passed: Box<Passed>, now: Instant) {
        passed.forward.look_up(now);
        passed.forward.start(&mut cx.rng, now);
        passed.since = now;
        if passed.forward.is_collecting() {
            // The body comes first, so this server answers expectations before there is an upstream.
            welcome(&mut passed.forward, &mut self.http);
        }
        self.phase = Phase::Forward(passed);
        self.rewind(cx, now);
    }

    /// Whether the connection begins to work both ways.
    #[inline]
    pub(super) fn is_forwarding(&self) -> bool {
        matches!(self.phase, Phase::Forward(_))
    }

    /// Something moved: sets the deadline anew.
    fn rewind(&mut self, cx: &Cx, now: Instant) {
        let Phase::Forward(passed) = &mut self.phase else {
            return;
        };
        let limits = &cx.state.limits;
        let forward = &mut passed.forward;
        passed
            .held
            .set(forward.held() + passed.input.capacity() + passed.head.capacity());
        // What the upstream does, and what the client sends, give the client no more time to take output.
        if !forward.is_sending_down {
            self.deadline = match forward.patience(now) {
                Some(patience) => now + patience,
                None => limits.body_until(passed.since, forward.received),
            };
        }
        if let Some(until) = forward.until() {
            self.deadline = self.deadline.min(until);
        }
    }

    /// Bytes of the client's body, or what follows it.
    pub(super) fn pass_bytes(&mut self, cx: &mut Cx, bytes: &[u8], now: Instant) {
        let Phase::Forward(passed) = &mut self.phase else {
            return;
        };
        let Passed { forward, input, .. } = &mut **passed;
        input.extend_from_slice(bytes);
        take_input(forward, input, &mut self.http, &cx.state.http_limits);
        forward.start(&mut cx.rng, now);
        self.rewind(cx, now);
    }

    /// The client took the output.
    pub(super) fn pass_sent(&mut self, cx: &mut Cx, now: Instant) {
        let Phase::Forward(passed) = &mut self.phase else {
            return;
        };
        passed.forward.is_sending_down = false;
        passed.forward.taken_down();
        cx.journal.part_sent(self.slot);
        self.rewind(cx, now);
    }

    /// The client sends no more.
    pub(super) fn pass_eof(&mut self) {
        let Phase::Forward(passed) = &mut self.phase else {
            return;
        };
        passed.forward.ended_by_client();
    }

    /// The deadline has come.
    pub(super) fn pass_timeout(&mut self, cx: &mut Cx, now: Instant) {
        let Phase::Forward(passed) = &mut self.phase else {
            return;
        };
        if passed.forward.find_again(&mut cx.rng, now) {
            return self.rewind(cx, now);
        }
        if passed.forward.woken(now) {
            return self.go_alone(cx, now);
        }
        cx.counters.timeouts().add(1);
        if passed.forward.is_sending_down {
            return self.abort(cx, Cut::Timeout, now);
        }
        if let Some(why) = passed.forward.time_out(now) {
            complain(&passed.forward, path(&passed.head), why, now);
            passed.forward.try_another(&mut cx.rng, now);
        }
        self.rewind(cx, now);
    }

    /// The response to another client's request is there, or will not come.
    pub(super) fn pass_woken(&mut self, cx: &mut Cx, now: Instant) {
        if let Phase::Forward(passed) = &mut self.phase
            && passed.forward.wait_ended(now)
        {
            self.go_alone(cx, now);
        }
    }

    /// A request waited for another: it goes to the upstream, unless a stored response answers it.
    fn go_alone(&mut self, cx: &mut Cx, now: Instant) {
        if let Phase::Forward(passed) = &mut self.phase {
            passed.forward.start(&mut cx.rng, now);
        }
        self.rewind(cx, now);
    }

    /// Whether output waits for the client.
    pub(super) fn is_passing_down(&self) -> bool {
        matches!(&self.phase, Phase::Forward(passed) if passed.forward.is_sending_down)
    }

    /// Something happened to the connection to the upstream.
    pub(super) fn peer(&mut self, cx: &mut Cx, ticket: Ticket, event: PeerEvent<'_>, now: Instant) {
        let Phase::Forward(passed) = &mut self.phase else {
            return;
        };
        let Passed { forward, head, .. } = &mut **passed;
        if ticket != forward.ticket() {
            return;
        }
        let failed = match event {
            PeerEvent::Connected => {
                connected(forward, &mut self.http, now);
                None
            }
            PeerEvent::Reused(parcel) => {
                forward.reused(parcel);
                connected(forward, &mut self.http, now);
                None
            }
            PeerEvent::Joined => {
                forward.joined();
                connected(forward, &mut self.http, now);
                None
            }
            PeerEvent::Bytes(bytes) => {
                self.pass_received(cx, bytes, now);
                return self.rewind(cx, now);
            }
            PeerEvent::Sent => {
                forward.sent_up();
                None
            }
            PeerEvent::Eof => forward.ended_by_upstream(now),
            PeerEvent::Lost(loss) => forward.lost(loss, now),
        };
        if let Some(why) = failed {
            complain(forward, path(head), why, now);
            forward.try_another(&mut cx.rng, now);
        }
        self.rewind(cx, now);
    }

    /// Writes what came from the upstream for the client, or the response from the cache.
    fn pass_received(&mut self, cx: &mut Cx, bytes: &[u8], now: Instant) {
        let Phase::Forward(passed) = &mut self.phase else {
            return;
        };
        let Passed {
            forward,
            input,
            version,
            head,
            ..
        } = &mut **passed;
        let mut client = ForClient {
            http: &mut self.http,
            version: *version,
            persists: !self.draining && !self.retiring,
            date: cx.clock.date_line(),
            hsts: match self.client.is_secured() {
                true => &cx.state.secured_lines,
                false => b"",
            },
            connection: b"",
        };
        let failed = forward.received(bytes, &mut client, now);
        if let Some(why) = failed {
            complain(forward, path(head), why, now);
            forward.try_another(&mut cx.rng, now);
        }
        connected(forward, &mut self.http, now);
        if forward.is_switched() {
            // A client may have sent more before it got the response.
            take_input(forward, input, &mut self.http, &cx.state.http_limits);
        }
        if let Some(why) = forward.take_stood_in_for() {
            complain(forward, path(head), why, now);
        }
    }

    /// The next action of a connection that works both ways.
    pub(in super::super) fn poll_both_ways(
        &mut self,
        cx: &mut Cx,
        tx: &mut Tx,
        now: Instant,
    ) -> Action<Work> {
        if matches!(&self.phase, Phase::Forward(passed) if passed.forward.has_reply()) {
            self.pass_received(cx, &[], now);
            self.rewind(cx, now);
        }
        let job = self.job();
        if let Phase::Forward(passed) = &mut self.phase {
            let forward = &mut passed.forward;
            if let Some(waiter) = forward.waiter() {
                return Action::Start(job, Work::new(Task::Await(waiter), &cx.hub, &cx.state));
            }
            if let Some((ticket, ask)) = forward.ask(now) {
                return tx.ask(ticket, ask);
            }
            if forward.is_over() {
                self.end_pass(cx, tx, now);
                return self.poll_both_ways(cx, tx, now);
            }
            if !forward.is_sending_down && forward.has_output() {
                // A short output is copied, so that the exchange does not keep the buffer of a long one.
                match tx.head.is_empty() && forward.down.len() > COPIED_MAX {
                    true => std::mem::swap(&mut tx.head, &mut forward.down),
                    false => tx.head.append(&mut forward.down),
                }
                forward.take_stored(STORED_PER_OUTPUT, &mut tx.head);
                forward.is_sending_down = true;
                cx.journal.given(&mut self.slot, tx.head.len() as u64);
                let read = forward.wants_input();
                self.deadline = now + cx.state.limits.write_timeout;
                return Action::Duplex { read, patient: false };
            }
            return Action::Duplex {
                read: forward.wants_input(),
                patient: false,
            };
        }
        match self.poll(tx) {
            Action::Read => Action::Duplex {
                read: true,
                patient: false,
            },
            Action::Write | Action::Stay => Action::Duplex {
                read: false,
                patient: false,
            },
            Action::Wait(job) => Action::Start(self.job(), job),
            other => other,
        }
    }

    /// Ticket of the current request's job.
    fn job(&self) -> Ticket {
        Ticket(JOBS + self.client.requests % JOBS)
    }

    /// Whether the result of this job is awaited. One that took too long is not.
    pub(super) fn awaits(&self, ticket: Ticket) -> bool {
        matches!(self.phase, Phase::Waiting(_)) && ticket == self.job()
    }

    /// Keeps input that came while the connection did not read: a receive may have been under way.
    pub(super) fn keep_input(&mut self, cx: &Cx, bytes: &[u8], now: Instant) {
        match &mut self.phase {
            Phase::Waiting(wait) => wait.rest.extend_from_slice(bytes),
            Phase::Sending(then) => then.keep_input(cx, bytes, now),
            _ => {}
        }
    }

    /// The exchange is over: the connection goes on, or the failure is told.
    fn end_pass(&mut self, cx: &mut Cx, tx: &mut Tx, now: Instant) {
        let Phase::Forward(mut passed) = std::mem::replace(&mut self.phase, Phase::Closed) else {
            return;
        };
        match passed.forward.failed() {
            None if passed.forward.status == 101 => {
                self.log(cx, &passed);
                self.phase = Phase::Sending(self.closing(false, b""));
                self.sent(cx, tx, now);
            }
            None => {
                self.log(cx, &passed);
                self.keep(cx, &mut passed);
                cx.answered(passed.started);
                let behind = std::mem::take(&mut passed.input);
                let then = match self.after(passed.wants_close, &behind) {
                    Some(then) => then,
                    None => Http1::onwards(cx, &behind, now),
                };
                self.phase = Phase::Sending(then);
                self.sent(cx, tx, now);
            }
            Some(why) => {
                if !matches!(why, Failed::ClientGone) {
                    complain(&passed.forward, path(&passed.head), why, now);
                }
                match failure(&passed.forward, why) {
                    Some(failure) if !passed.forward.has_begun() => {
                        self.tell(cx, &passed, failure, tx, now);
                    }
                    _ => {
                        self.phase = Phase::Forward(passed);
                        self.abort(cx, Cut::Upstream, now);
                        self.phase = Phase::Reset;
                    }
                }
            }
        }
    }

    /// Answers with an error in place of the upstream.
    fn tell(&mut self, cx: &mut Cx, passed: &Passed, failure: Failure, tx: &mut Tx, now: Instant) {
        if !passed.forward.has_whole_request() {
            self.http.drain();
        }
        // A client that got 100 has taken output; its line begins with the page.
        cx.journal.sent(&mut self.slot, now);
        let behind = &passed.input;
        let left = with_head(&passed.head, passed.started, cx, |cx, received| {
            let is_whole = passed.forward.has_whole_request();
            let sender = self.client.sender(cx, received.asked());
            let way = self.client.way(cx, received.asked());
            let exchange = Exchange::new(sender, way, passed.started)
                .identified(passed.forward.id.clone())
                .traced(passed.forward.trace.clone())
                .after(passed.forward.tried(now));
            let mut outcome = self.begin_with(cx, exchange, received, Some(failure), tx);
            if !is_whole && let Outcome::Wait(mut exchange, _) = outcome {
                // The client may still be sending, and a connection that waits for a job does not read.
                outcome = self.answer_without_page(cx, &mut exchange, received, tx);
            }
            self.conclude(
                cx,
                received,
                outcome,
                if is_whole { behind } else { &[] },
                tx,
                now,
            )
            .map(<[u8]>::to_vec)
        });
        if let Some(Some(left)) = left {
            self.serve(cx, &left, now, tx, now);
        }
    }

    /// Answers with the built-in page.
    fn answer_without_page(
        &mut self,
        cx: &mut Cx,
        exchange: &mut Exchange,
        received: &Received<'_, '_, '_>,
        tx: &mut Tx,
    ) -> Outcome {
        let entry = exchange.late(cx);
        let way = self.client.way(cx, received.asked());
        let (scope, desk) = cx.split();
        let next: Next<'_> = exchange.resume(scope, received.asked(), &entry);
        let fresh = Exchange::new(self.client.address(), way, received.started());
        let exchange = std::mem::replace(exchange, fresh);
        self.follow(desk, exchange, received, next, tx)
    }

    /// Keeps a response from the cache for equal requests, unless it depends on more than the request.
    fn keep(&self, cx: &mut Cx, passed: &mut Passed) {
        let is_secured = self.client.is_secured();
        let Some(repeat) = passed.forward.take_repeat() else {
            return;
        };
        if !gateway::may_be_repeated(cx, &self.client, passed.generation) {
            return;
        }
        with_head(&passed.head, passed.started, cx, |cx, received| {
            if let Some(request) = received.request_head() {
                cx.head_cache
                    .saw_stored(request, received.bytes(), repeat, is_secured);
            }
        });
    }

    /// Composes the log line of a response that was passed on, whole or in part.
    fn log(&mut self, cx: &mut Cx, passed: &Passed) {
        let forward = &passed.forward;
        cx.counters.answered(forward.status);
        if !cx.journal.is_on() {
            return;
        }
        let (client, slot) = (&self.client, &mut self.slot);
        with_head(&passed.head, passed.started, cx, |cx, received| {
            if let Asked::Request(head) = received.asked() {
                gateway::log(cx, slot, (client, None), head, passed.started, forward);
            }
        });
    }

    /// The connection ends while a request is passed on: its response, if it has begun, gets a line. An upstream that had failed is
    /// to blame, although the client took no page.
    #[cold]
    pub(super) fn log_cut(&mut self, cx: &mut Cx, now: Instant) {
        let Phase::Forward(passed) = std::mem::replace(&mut self.phase, Phase::Closed) else {
            return;
        };
        match passed.forward.failed() {
            _ if passed.forward.has_begun() => self.log(cx, &passed),
            None | Some(Failed::ClientGone) => {}
            Some(why) => complain(&passed.forward, path(&passed.head), why, now),
        }
    }
}

impl Then {
    /// Keeps input behind the response.
    fn keep_input(&mut self, cx: &Cx, bytes: &[u8], now: Instant) {
        match self {
            Then::Idle => *self = Then::Input(Input::keep(cx, bytes, now)),
            Then::Input(input) => input.bytes.extend_from_slice(bytes),
            Then::Body(discard) => discard.left.extend_from_slice(bytes),
            Then::Wait(wait) => wait.rest.extend_from_slice(bytes),
            Then::Parts(parts) => parts.then.keep_input(cx, bytes, now),
            Then::Forward(passed) => passed.input.extend_from_slice(bytes),
            Then::Close | Then::Linger => {}
        }
    }
}

/// The path of the request with this head.
fn path(head: &[u8]) -> &[u8] {
    let target = head.split(|&b| b == b' ').nth(1).unwrap_or_default();
    gateway::path(target)
}
