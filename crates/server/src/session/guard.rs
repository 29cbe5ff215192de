//! Access rules for requests that have a route to an upstream: what is decided before the body of a request is read or passed
//! on. For all others, the exchange decides.

use super::client::Client;
use crate::access::{Check, Sender, Verdict};
use crate::checked::{Known, Vouched};
use crate::config::Facts;
use crate::context::{Cx, Work};
use crate::exchange::{Asked, Exchange, Failure};
use crate::proxy::Found;
use crate::request_id::Nth;
use http_semantics::request::RequestHead;
use http_semantics::status::Status;
use std::sync::Arc;

/// Why a request with a route is not passed on yet.
pub(super) enum Stop {
    /// It gets this error.
    Refused(Failure),
    /// Something must be checked first.
    Check(Check, Found),
}

/// What stops a request with a route; `None`: nothing, or it has no route.
#[cold]
pub(super) fn stop(
    cx: &Cx,
    (client, nth): (&Client, Nth),
    head: &RequestHead<'_, '_>,
    has_body: bool,
) -> Option<Stop> {
    let is_redirected = cx.state.https_port.is_some() && !client.used_https(cx, Asked::Request(head));
    if cx.state.gates.is_empty() || client.is_admin() || is_redirected || cx.state.handlers.of(head).is_some()
    {
        return None;
    }
    let site = cx.state.hosts.index_of(head.authority());
    let facts = client.facts(cx, head);
    if is_answered(cx, site, facts) {
        return None;
    }
    let verdict = verdict(cx, (client, nth), site, head, &Known::default());
    if let Verdict::Open(_) = verdict {
        return None;
    }
    let found = cx.state.proxies.find(site, facts, has_body)?;
    Some(match verdict {
        Verdict::Open(_) => return None,
        Verdict::Check(check) => Stop::Check(check, found),
        Verdict::Unanswered(why) => Stop::Refused(Failure::unanswered(why)),
        // Nobody was asked yet.
        Verdict::Answered(_) => Stop::Refused(Failure::BEHIND),
        Verdict::Refused(status) => Stop::Refused(Failure::of(status)),
        Verdict::Uncertified => Stop::Refused(Failure::of(Status::FORBIDDEN)),
        Verdict::Challenge(rule) => Stop::Refused(Failure::unauthorized(rule)),
        Verdict::Busy => Stop::Refused(Failure::BEHIND),
        Verdict::Malformed => Stop::Refused(Failure::TARGET),
    })
}

/// Whether a rule of the site at this index answers a request in place of files and upstreams.
pub(super) fn is_answered(cx: &Cx, site: usize, facts: Facts<'_, '_, '_>) -> bool {
    let config = &cx.state.hosts.place(site).config;
    cx.state.field_rules.answers(site, facts) || config.fixed_answer(facts).is_some()
}

/// Whether a request to the site at this index is admitted. `known`: what checks have shown.
fn verdict(
    cx: &Cx,
    (client, nth): (&Client, Nth),
    site: usize,
    head: &RequestHead<'_, '_>,
    known: &Known,
) -> Verdict {
    let asked = Asked::Request(head);
    let id = client.request_id(cx, asked, nth);
    let trace = client.trace(cx, asked, nth);
    let certificate = client.certificate(cx);
    let sender = Sender {
        peer: client.sender(cx, asked),
        is_secured: client.used_https(cx, asked),
        certificate: certificate.as_deref(),
        id: id.as_ref(),
        trace: trace.as_deref(),
    };
    cx.state.gates.verdict(site, head, sender, known)
}

/// What other servers say of a request to the site at this index that may be passed on.
///
/// # Errors
/// The request may not be passed on, or not yet.
pub(super) fn admit(
    cx: &Cx,
    (client, nth): (&Client, Nth),
    site: usize,
    head: &RequestHead<'_, '_>,
    known: &Known,
) -> Result<Option<Arc<Vouched>>, Verdict> {
    if cx.state.gates.is_empty() {
        return Ok(None);
    }
    match verdict(cx, (client, nth), site, head, known) {
        Verdict::Open(admitted) => Ok(admitted.vouched),
        other => Err(other),
    }
}

/// The user of a request that was passed on, if its path needs a password.
pub(super) fn user(cx: &Cx, (client, nth): (&Client, Nth), head: &RequestHead<'_, '_>) -> Option<Box<[u8]>> {
    if cx.state.gates.is_empty() || client.is_admin() {
        return None;
    }
    let site = cx.state.hosts.index_of(head.authority());
    match verdict(cx, (client, nth), site, head, &Known::default()) {
        Verdict::Open(admitted) => admitted.user,
        _ => None,
    }
}

/// The job of a check, after which `exchange` knows its result.
pub(super) fn begin(cx: &Cx, exchange: &mut Exchange, head: &RequestHead<'_, '_>, check: Check) -> Work {
    let site = cx.state.hosts.index_of(head.authority());
    exchange.check((cx.generation, site), check, (&cx.hub, &cx.state))
}
