//! Hands a request on a stream to an exchange, and says what became of it.

use super::answer::{Reply, reply};
use crate::access::Verdict;
use crate::checked::{Known, Vouched};
use crate::context::{Cx, Desk, Work};
use crate::entry::Entry;
use crate::exchange::{Asked, Exchange, Failure, Step};
use crate::field_block::Compression;
use crate::limits::Limits;
use crate::proxy::forward::Forward;
use crate::proxy::{Found, Tried};
use crate::request_id::Nth;
use crate::request_limit::Seats;
use crate::session::client::Client;
use crate::session::gateway::{self, UNWRITABLE};
use crate::session::guard::{self, Stop};
use crate::traced::Trace;
use http_semantics::compression::Fields;
use http_semantics::field::{Line, MAX_FIELDS};
use http_semantics::message::Control;
use http_semantics::method::Method;
use http_semantics::request::{Protocol, RequestHead};
use http_semantics::status::Status;
use http1::framing::Framing;
use std::sync::Arc;
use units::Instant;

/// Requests with no more fields than this get small tables.
const FEW_FIELDS: usize = 24;

/// Who asks, on which stream, in which version of HTTP.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Ask<'c> {
    pub(in crate::session) client: &'c Client,
    pub(in crate::session) stream: u64,
    pub(in crate::session) protocol: Protocol,
}

impl Ask<'_> {
    /// The exchange of what was asked now.
    fn exchange(self, cx: &Cx, asked: Asked<'_, '_, '_>, now: Instant) -> Exchange {
        let id = self.client.request_id(cx, asked, self.nth());
        let trace = self.client.trace(cx, asked, self.nth());
        Exchange::new(self.client.sender(cx, asked), self.client.way(cx, asked), now)
            .identified(id)
            .certified(self.client.certificate(cx))
            .traced(trace)
    }

    fn nth(self) -> Nth {
        Nth::Stream(self.stream)
    }

    pub(in crate::session) fn compression(self) -> Compression {
        match self.protocol {
            Protocol::Http3 => Compression::Qpack,
            _ => Compression::Hpack,
        }
    }
}

/// What became of a request.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once; a box would cost each request that waits an allocation"
)]
pub(in crate::session) enum Outcome {
    /// Its answer; the head is in the worker's block.
    Reply(Reply),
    /// A job must run. What the page embeds can be told before that.
    Wait(Exchange, Work, Option<Arc<str>>),
    /// There is no file, and an upstream answers.
    Pass(Box<Forward>),
}

impl Outcome {
    /// Whether the request is needed further on.
    pub(in crate::session) fn keeps_request(&self) -> bool {
        matches!(self, Outcome::Wait(..) | Outcome::Pass(_))
    }
}

/// Begins the exchange of a request, with an error if there is one already. Tells whether no further request should be
/// awaited.
pub(in crate::session) fn begin(
    cx: &mut Cx,
    ask: Ask<'_>,
    control: &Control<'_>,
    fields: &Fields,
    refused: Option<Failure>,
    now: Instant,
) -> (Outcome, bool) {
    with_head(control, fields, ask.protocol, |head| {
        let (asked, mut failure) = match head {
            Ok(head) => (Asked::Request(head), refused),
            Err(failure) => (Asked::Input(control.path.unwrap_or_default()), Some(failure)),
        };
        let (mut is_last, mut seats) = (false, Seats::default());
        if failure.is_none() {
            match ask.client.limit(cx, asked, now) {
                Ok(held) => seats = held,
                Err(limited) => (failure, is_last) = (Some(limited.failure), limited.ends_connection),
            }
        }
        let mut exchange = ask.exchange(cx, asked, now).holding(seats);
        let (scope, desk) = cx.split();
        let step = match (failure, asked) {
            (None, Asked::Request(head)) => exchange.begin(scope, head),
            (failure, asked) => {
                let failure = failure.unwrap_or(Failure::of(Status::BAD_REQUEST));
                exchange.refuse(scope, asked, failure)
            }
        };
        let begun = outcome(desk, exchange, step, ask, asked);
        (
            begun.unwrap_or_else(|found| upstream(cx, ask, asked, found, now)),
            is_last,
        )
    })
}

/// Answers a request that an upstream did not answer with an error. `trace`: that of the request to the upstream, if there was one.
#[cold]
pub(in crate::session) fn stand_in(
    cx: &mut Cx,
    ask: Ask<'_>,
    (control, fields): (&Control<'_>, &Fields),
    failure: Failure,
    (tried, trace): (Option<Tried>, Option<Arc<Trace>>),
    now: Instant,
) -> Outcome {
    with_head(control, fields, ask.protocol, |head| {
        let asked = match head {
            Ok(head) => Asked::Request(head),
            Err(_) => Asked::Input(control.path.unwrap_or_default()),
        };
        let mut exchange = ask.exchange(cx, asked, now).after(tried);
        if trace.is_some() {
            exchange = exchange.traced(trace);
        }
        let (scope, desk) = cx.split();
        let step = exchange.refuse(scope, asked, failure);
        let refused = outcome(desk, exchange, step, ask, asked);
        refused.unwrap_or_else(|found| upstream(cx, ask, asked, found, now))
    })
}

/// What became of a request that has a route to an upstream.
pub(in crate::session) enum Passing {
    /// The exchange with the upstream, and the check of the client's password that must come before it, if any.
    Begun(Box<Forward>, Option<Box<(Exchange, Option<Work>)>>),
    /// It gets this error instead. Whether no further request should be awaited.
    Refused(Failure, bool),
}

/// Begins the exchange with an upstream if the request has a route. `is_whole`: no body follows.
#[cold]
pub(in crate::session) fn pass(
    cx: &Cx,
    ask: Ask<'_>,
    control: &Control<'_>,
    fields: &Fields,
    is_whole: bool,
    now: Instant,
) -> Option<Passing> {
    if !is_whole && expectation(fields).is_some_and(|value| !value.eq_ignore_ascii_case(b"100-continue")) {
        return None;
    }
    with_head(control, fields, ask.protocol, |head| {
        let head = head.ok()?;
        let (found, check) =
            match gateway::route(cx, (ask.client, ask.nth()), head, !is_whole, &Known::default()) {
                Some(found) => (found, None),
                None => match guard::stop(cx, (ask.client, ask.nth()), head, !is_whole)? {
                    Stop::Refused(failure) => return Some(Passing::Refused(failure, false)),
                    Stop::Check(check, found) => (found, Some(check)),
                },
            };
        let bound = found.route.rule.max_body_size.0;
        if control.length.is_some_and(|length| length > bound) {
            return Some(Passing::Refused(gateway::too_large(&found.route), false));
        }
        let seats = match ask.client.limit(cx, Asked::Request(head), now) {
            Ok(seats) => seats,
            Err(limited) => return Some(Passing::Refused(limited.failure, limited.ends_connection)),
        };
        let framing = match (is_whole, control.length) {
            (true, _) => Framing::Empty,
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::Chunked,
        };
        let from = ask.client.from(cx, head, ask.nth());
        let base = gateway::first_ticket(ask.client.next_upstream());
        Some(
            match Forward::new(found, head, framing, &from, base, (cx.clock.now(), now)) {
                Ok(mut forward) => {
                    forward.ruled = gateway::ruled(cx, ask.client, head, forward.id.as_ref());
                    forward.seats = seats;
                    let check = check.map(|check| {
                        let mut exchange = ask.exchange(cx, Asked::Request(head), now);
                        let work = guard::begin(cx, &mut exchange, head, check);
                        Box::new((exchange, Some(work)))
                    });
                    Passing::Begun(Box::new(forward), check)
                }
                Err(_) => Passing::Refused(UNWRITABLE, false),
            },
        )
    })
}

/// What follows from the check of a request that has a route.
pub(in crate::session) enum Admission {
    /// It is passed on, with what other servers say of it.
    Open(Option<Arc<Vouched>>),
    /// Another check comes first.
    Check(Work),
    /// It is not passed on.
    Refused,
}

/// Looks at a request with a route again, after a check whose result `exchange` knows.
#[cold]
pub(in crate::session) fn admit(
    cx: &Cx,
    ask: Ask<'_>,
    exchange: &mut Exchange,
    fields: &Fields,
) -> Admission {
    let Some(control) = Control::of(fields) else {
        return Admission::Refused;
    };
    with_head(&control, fields, ask.protocol, |head| {
        let Ok(head) = head else { return Admission::Refused };
        let site = cx.state.hosts.index_of(head.authority());
        match guard::admit(cx, (ask.client, ask.nth()), site, head, exchange.known()) {
            Ok(vouched) => Admission::Open(vouched),
            Err(Verdict::Check(check)) => Admission::Check(guard::begin(cx, exchange, head, check)),
            Err(_) => Admission::Refused,
        }
    })
}

/// Answers what is no request with an error.
#[cold]
pub(in crate::session) fn refuse(cx: &mut Cx, ask: Ask<'_>, failure: Failure, now: Instant) -> Outcome {
    let asked = Asked::Input(b"");
    let mut exchange = ask.exchange(cx, asked, now);
    let (scope, desk) = cx.split();
    let step = exchange.refuse(scope, asked, failure);
    let refused = outcome(desk, exchange, step, ask, asked);
    refused.unwrap_or_else(|found| upstream(cx, ask, asked, found, now))
}

/// Continues an exchange that has waited, with the entry that `find` gives. `fields`: the request, if it was one that could
/// be answered otherwise than by an error.
pub(in crate::session) fn resume(
    cx: &mut Cx,
    ask: Ask<'_>,
    mut exchange: Exchange,
    fields: Option<&Fields>,
    find: impl FnOnce(&mut Exchange, &mut Cx) -> Arc<Entry>,
) -> Outcome {
    let entry = find(&mut exchange, cx);
    let control = fields.and_then(|fields| Some((Control::of(fields)?, fields)));
    let started = exchange.started();
    let go = |asked: Asked<'_, '_, '_>| {
        let (scope, desk) = cx.split();
        let step = exchange.resume(scope, asked, &entry);
        let resumed = outcome(desk, exchange, step, ask, asked);
        resumed.unwrap_or_else(|found| upstream(cx, ask, asked, found, started))
    };
    match control {
        Some((control, fields)) => with_head(&control, fields, ask.protocol, |head| match head {
            Ok(head) => go(Asked::Request(head)),
            Err(_) => go(Asked::Input(control.path.unwrap_or_default())),
        }),
        None => go(Asked::Input(b"")),
    }
}

/// Carries out the step of an exchange.
///
/// # Errors
/// The route, if an upstream is to answer.
fn outcome(
    desk: Desk<'_>,
    mut exchange: Exchange,
    step: Step<'_>,
    ask: Ask<'_>,
    asked: Asked<'_, '_, '_>,
) -> Result<Outcome, (Box<Found>, Seats)> {
    match step {
        Step::Answer(answer) => Ok(Outcome::Reply(reply(desk, exchange, ask, asked, answer))),
        Step::Wait(work, hint) => Ok(Outcome::Wait(exchange, work, hint)),
        Step::Pass(found) => Err((found, exchange.take_seats())),
    }
}

/// Begins the exchange with an upstream of a request without a body and without a file.
#[cold]
fn upstream(
    cx: &mut Cx,
    ask: Ask<'_>,
    asked: Asked<'_, '_, '_>,
    (found, seats): (Box<Found>, Seats),
    now: Instant,
) -> Outcome {
    if let Asked::Request(head) = asked {
        let from = ask.client.from(cx, head, ask.nth());
        let base = gateway::first_ticket(ask.client.next_upstream());
        if let Ok(mut forward) =
            Forward::new(*found, head, Framing::Empty, &from, base, (cx.clock.now(), now))
        {
            forward.ruled = gateway::ruled(cx, ask.client, head, forward.id.as_ref());
            forward.seats = seats;
            return Outcome::Pass(Box::new(forward));
        }
    }
    let mut exchange = ask.exchange(cx, asked, now);
    let (scope, desk) = cx.split();
    match exchange.refuse(scope, asked, UNWRITABLE) {
        Step::Wait(work, hint) => Outcome::Wait(exchange, work, hint),
        Step::Answer(answer) => Outcome::Reply(reply(desk, exchange, ask, asked, answer)),
        Step::Pass(_) => unreachable!("an error is not passed on"),
    }
}

/// Calls `then` with the head of a request, or with the error if it has none that could be answered.
pub(in crate::session) fn with_head<T>(
    control: &Control<'_>,
    fields: &Fields,
    protocol: Protocol,
    then: impl FnOnce(Result<&RequestHead<'_, '_>, Failure>) -> T,
) -> T {
    const NO_LINE: Line<'_> = Line { name: "", value: b"" };
    if fields.len() < FEW_FIELDS {
        return head(control, fields, protocol, &mut [NO_LINE; FEW_FIELDS], then);
    }
    head(control, fields, protocol, &mut [NO_LINE; MAX_FIELDS], then)
}

/// As [`with_head`], with the field lines in `slots`.
fn head<'b, T>(
    control: &Control<'b>,
    fields: &'b Fields,
    protocol: Protocol,
    slots: &mut [Line<'b>],
    then: impl FnOnce(Result<&RequestHead<'b, '_>, Failure>) -> T,
) -> T {
    match control.head(fields.iter(), slots, protocol) {
        Ok(head) if head.method != Method::Connect && head.authority().is_none_or(<[u8]>::is_empty) => {
            then(Err(Failure::NO_HOST))
        }
        Ok(head) => then(Ok(&head)),
        Err(_) => then(Err(Failure::TARGET)),
    }
}

/// The value of `Expect`.
pub(in crate::session) fn expectation(fields: &Fields) -> Option<&[u8]> {
    let mut expectations = fields.iter().filter(|(name, _)| *name == b"expect");
    expectations.next().map(|(_, value)| value)
}

/// Why a request will be rejected, whatever its body.
pub(in crate::session) fn refusal(
    control: &Control<'_>,
    fields: &Fields,
    limits: &Limits,
) -> Option<Failure> {
    let method = Method::of(control.method);
    let reads = matches!(method, Method::Get | Method::Head | Method::Options);
    if method == Method::Connect {
        // What follows is no body, and has no end (RFC 9113 section 8.5).
        return Some(Failure::of_method(method));
    }
    match expectation(fields) {
        Some(value) if !value.eq_ignore_ascii_case(b"100-continue") => {
            Some(Failure::of(Status::EXPECTATION_FAILED))
        }
        _ if control.length.is_some_and(|len| len > limits.body_size.0) => Some(Failure::TOO_LARGE),
        Some(_) if !reads => Some(Failure::of_method(method)),
        _ => None,
    }
}
