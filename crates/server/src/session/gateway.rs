//! What sessions of every version of HTTP do alike when they pass requests on: which requests have a route, what a failure
//! means to the client and to the log, and the line of a response in the access log.
//!
//! `crate::proxy` knows the exchange with the upstream; each session knows its client's connection.

use super::client::Client;
use super::guard;
use crate::access_log::{self, Slot};
use crate::checked::Known;
use crate::context::Cx;
use crate::exchange::{Asked, Failure};
use crate::field_rules::RuledLines;
use crate::proxy::failed::Failed;
use crate::proxy::forward::Forward;
use crate::proxy::{End, Found, Route};
use crate::request_id::{Nth, RequestId};
use crate::service::admin::Command;
use http_semantics::request::RequestHead;
use http_semantics::status::Status;
use runtime::complaints;
use units::Instant;

/// Connections to upstreams that one client's connection may have at a time.
pub(crate) const PEERS_MAX: usize = 8;

/// Connections of a request are no more, so each has a ticket of its own: a rule has 64 upstreams with at most 16 addresses
/// each, and one reused connection may prove stale.
const TICKETS: u32 = 2_048;

/// Tickets of upstreams are below this number.
const TICKETS_END: u32 = 1 << 30;

/// The answer to a request that cannot be written for an upstream.
pub(super) const UNWRITABLE: Failure = Failure {
    detail: Some("it cannot be passed on"),
    ..Failure::of(Status::BAD_REQUEST)
};

/// Exchanges with upstreams after which a connection of many streams takes no more requests, so that tickets stay apart. As many
/// again may be on their way then.
pub(super) const UPSTREAMS_MAX: u32 = TICKETS_END / TICKETS / 2;

/// The first ticket for the upstreams of a request. `exchange`: a number that no other exchange under way on the connection has.
pub(super) fn first_ticket(exchange: u32) -> u32 {
    (exchange % (TICKETS_END / TICKETS)) * TICKETS
}

/// The route of a request, if it has one that no file comes before. The server's own handlers and the redirect to https take
/// precedence. `known`: what checks of the request have shown.
#[cold]
pub(super) fn route(
    cx: &Cx,
    (client, nth): (&Client, Nth),
    head: &RequestHead<'_, '_>,
    has_body: bool,
    known: &Known,
) -> Option<Found> {
    if client.is_admin() {
        return command(cx, head);
    }
    let is_redirected = cx.state.https_port.is_some() && !client.used_https(cx, Asked::Request(head));
    if is_redirected || cx.state.handlers.of(head).is_some() {
        return None;
    }
    let site = cx.state.hosts.index_of(head.authority());
    let facts = client.facts(cx, head);
    if guard::is_answered(cx, site, facts) {
        return None;
    }
    let vouched = guard::admit(cx, (client, nth), site, head, known).ok()?;
    Some(cx.state.proxies.find(site, facts, has_body)?.vouched(vouched))
}

/// The route of a request at an admin address, if it may hold a command.
fn command(cx: &Cx, head: &RequestHead<'_, '_>) -> Option<Found> {
    let admin = &cx.state.admin;
    let control = admin.control.as_ref()?;
    let right = admin.admit(head).ok()?;
    (admin.command(head, right) == Command::Taken).then(|| control.route())
}

/// Lines of rules for the response of an upstream to this request, and that of its id if responses have one.
pub(super) fn ruled(
    cx: &Cx,
    client: &Client,
    head: &RequestHead<'_, '_>,
    id: Option<&RequestId>,
) -> RuledLines {
    let lines = match client.is_admin() {
        true => RuledLines::NONE,
        false => {
            let site = cx.state.hosts.index_of(head.authority());
            cx.state.ruled(site, client.facts(cx, head))
        }
    };
    match id.filter(|_| cx.state.config.request_id_answer) {
        Some(id) => lines.identified(id),
        None => lines,
    }
}

/// Whether requests of this client may get stored responses without a lookup.
#[inline]
pub(super) fn repeats(cx: &Cx, client: &Client) -> bool {
    cx.uses_head_cache[usize::from(client.is_secured())]
        && !client.is_special()
        // The head may name another client.
        && !client.is_trusted(&cx.state.trusted)
}

/// Whether equal requests may get a stored response to one of this client again. `generation`: that of the configuration which
/// chose the route.
pub(super) fn may_be_repeated(cx: &Cx, client: &Client, generation: u64) -> bool {
    let has_limits = !cx.state.gates.is_empty() || !cx.state.request_limits.is_empty();
    repeats(cx, client) && !has_limits && cx.generation == generation
}

/// The path of a target.
pub(super) fn path(target: &[u8]) -> &[u8] {
    target.split(|&b| b == b'?').next().unwrap_or_default()
}

/// Logs the failure of an upstream, with the path of the request, and tells the balancer.
pub(super) fn complain(forward: &Forward, path: &[u8], why: Failed, now: Instant) {
    let id = forward.id.as_ref().map(RequestId::value);
    // A client asked for a script that does not exist, as for a file.
    if let Failed::NoScript = why {
        return;
    }
    if let Failed::NoTurn = why {
        return complaints::about(id, || complaints::warn(path, || why.to_string()));
    }
    let shown = forward.shown();
    complaints::about(id, || {
        complaints::warn(path, || format!("{shown}: {}", forward.explain(why)));
    });
    if forward.blame(why, now) {
        tracing::warn!(
            "{shown}: it gets no requests for `ejection-time`, because `max-failures` requests in a row failed"
        );
    }
}

/// Composes the log line of a response that was passed on, whole or in part. `stream`: that of the request, in a version
/// with several.
pub(super) fn log(
    cx: &mut Cx,
    slot: &mut Slot,
    (client, stream): (&Client, Option<u64>),
    head: &RequestHead<'_, '_>,
    started: Instant,
    forward: &Forward,
) {
    let user = match forward.user() {
        Some(user) => Some(user.into()),
        None => guard::user(cx, (client, stream.map_or(client.current(), Nth::Stream)), head),
    };
    let target = forward.target();
    let call = forward.call();
    let upstream = forward.logged(&target, call.as_ref());
    let peer = client.sender(cx, Asked::Request(head));
    let request = access_log::Request {
        user: user.as_deref().or(client.user()),
        stream,
        is_secured: client.used_https(cx, Asked::Request(head)),
        tls: client.tls(),
        cache: forward.cache_word(),
        upstream: upstream.as_ref(),
        id: forward.id.as_ref().map(RequestId::value),
        trace: forward.trace.as_deref(),
        ..access_log::Request::of(head, peer, started)
    };
    // One byte more than was passed on marks a response that was cut.
    let missing = u64::from(!forward.has_ended() || forward.failed().is_some());
    let body = forward.body_bytes + missing;
    cx.journal.compose(
        slot,
        &cx.clock,
        &request,
        forward.status,
        forward.head_bytes,
        body,
    );
}

/// The error for a fault of the client's bytes.
pub(super) fn of_fault(fault: http1::Fault) -> Failure {
    Failure {
        detail: Some(fault.text()),
        ..Failure::of(fault.status())
    }
}

/// The answer to a body that is larger than a rule allows.
pub(super) fn too_large(route: &Route) -> Failure {
    match route.end() {
        End::Upstreams => Failure::TOO_LARGE,
        End::Uploads => Failure::FILE_TOO_LARGE,
        End::Control => Failure::COMMAND_TOO_LARGE,
    }
}

/// The answer in place of the upstream's; `None`: nobody is there to get it.
pub(super) fn failure(forward: &Forward, why: Failed) -> Option<Failure> {
    let page = |status, detail| {
        Some(Failure {
            detail: Some(detail),
            ..Failure::of(status)
        })
    };
    match why {
        Failed::Unreachable(_) => page(
            Status::BAD_GATEWAY,
            "The server behind this one cannot be reached.",
        ),
        Failed::Insecure => page(
            Status::BAD_GATEWAY,
            "No secure connection to the server behind this one can be made.",
        ),
        Failed::Unresolved => page(
            Status::BAD_GATEWAY,
            "The address of the server behind this one is unknown.",
        ),
        Failed::ConnectTimeout => page(
            Status::GATEWAY_TIMEOUT,
            "The server behind this one did not accept the connection in time.",
        ),
        Failed::NoRoom(_) => page(
            Status::SERVICE_UNAVAILABLE,
            "This server has no connection left for the request.",
        ),
        Failed::NoTurn => page(
            Status::GATEWAY_TIMEOUT,
            "The server behind this one did not respond to earlier requests in time.",
        ),
        Failed::Unanswered => page(
            Status::BAD_GATEWAY,
            "The server behind this one closed the connection without a response.",
        ),
        Failed::Refused => page(
            Status::BAD_GATEWAY,
            "The server behind this one refused the request.",
        ),
        Failed::NoScript => Some(Failure::of(Status::NOT_FOUND)),
        Failed::Disk => Some(Failure::of(Status::SERVICE_UNAVAILABLE)),
        Failed::NoLength => page(
            Status::LENGTH_REQUIRED,
            "This server has to know the length of the content first.",
        ),
        Failed::Truncated | Failed::Invalid(_) | Failed::Malformed(_) | Failed::Unwritable => page(
            Status::BAD_GATEWAY,
            "The server behind this one sent an invalid response.",
        ),
        Failed::Timeout | Failed::TotalTimeout => page(
            Status::GATEWAY_TIMEOUT,
            "The server behind this one did not respond in time.",
        ),
        Failed::Request(fault) => Some(of_fault(fault)),
        Failed::TooLarge => Some(too_large(forward.route())),
        Failed::RequestTimeout => Some(Failure::TIMEOUT),
        Failed::ClientGone => None,
    }
}
