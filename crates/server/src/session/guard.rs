//! Access rules for requests that have a route to an upstream: what is decided before the body of a request is read or passed
//! on. For all others, the exchange decides.

use super::client::Client;
use crate::access::{Check, Verdict};
use crate::context::{Cx, Work};
use crate::exchange::{Asked, Exchange, Failure};
use crate::proxy::Found;
use http_semantics::request::RequestHead;

/// Why a request with a route is not passed on yet.
pub(super) enum Stop {
    /// It gets this error.
    Refused(Failure),
    /// Whether its password is right must be checked first.
    Check(Check, Found),
}

/// What stops a request with a route; `None`: nothing, or it has no route.
#[cold]
pub(super) fn stop(cx: &Cx, client: &Client, head: &RequestHead<'_, '_>, has_body: bool) -> Option<Stop> {
    let is_redirected = cx.state.https_port.is_some() && !client.used_https(cx, Asked::Request(head));
    if cx.state.gates.is_empty() || client.is_admin() || is_redirected || cx.state.mounts.of(head).is_some() {
        return None;
    }
    let site = cx.state.hosts.index_of(head.authority());
    if cx.state.field_rules.answers(site, head) {
        return None;
    }
    let verdict = cx
        .state
        .gates
        .verdict(site, head, client.sender(cx, Asked::Request(head)), false);
    if let Verdict::Open(_) = verdict {
        return None;
    }
    let found = cx.state.proxies.find(site, head, has_body)?;
    Some(match verdict {
        Verdict::Open(_) => return None,
        Verdict::Check(check) => Stop::Check(check, found),
        Verdict::Forbidden => Stop::Refused(Failure::FORBIDDEN),
        Verdict::Challenge(rule) => Stop::Refused(Failure::unauthorized(rule)),
        Verdict::Busy => Stop::Refused(Failure::BEHIND),
        Verdict::Malformed => Stop::Refused(Failure::TARGET),
    })
}

/// Whether a request may be passed on, for the site at this index.
pub(super) fn admits(cx: &Cx, client: &Client, site: usize, head: &RequestHead<'_, '_>) -> bool {
    let gates = &cx.state.gates;
    gates.is_empty()
        || matches!(
            gates.verdict(site, head, client.sender(cx, Asked::Request(head)), false),
            Verdict::Open(_)
        )
}

/// The user of a request that was passed on, if its path needs a password.
pub(super) fn user(cx: &Cx, client: &Client, head: &RequestHead<'_, '_>) -> Option<Box<[u8]>> {
    if cx.state.gates.is_empty() {
        return None;
    }
    let site = cx.state.hosts.index_of(head.authority());
    match cx
        .state
        .gates
        .verdict(site, head, client.sender(cx, Asked::Request(head)), false)
    {
        Verdict::Open(admitted) => admitted.user,
        _ => None,
    }
}

/// The job of a check, after which `exchange` knows its result.
pub(super) fn begin(cx: &Cx, exchange: &mut Exchange, head: &RequestHead<'_, '_>, check: Check) -> Work {
    let site = cx.state.hosts.index_of(head.authority());
    exchange.check((cx.generation, site), check, (&cx.hub, &cx.state))
}
