//! Answers known requests on streams with stored responses, without route, exchange or lookup.
//!
//! Writes the same frames, counts and log line as `forward` would; a test compares them.

use super::answer::Reply;
use super::ask::{self, Ask};
use super::content::Content;
use super::passed::Passed;
use crate::access_log::{self, RequestLine, Slot};
use crate::context::Cx;
use crate::exchange::Source;
use crate::field_cache::{Carrier, Logged};
use crate::proxy::cache::Repeat;
use crate::session::client::Client;
use crate::session::gateway;
use http_semantics::compression::Fields;
use http_semantics::message::Control;
use http_semantics::priority::Priority;
use units::Instant;

/// How the requests of this client come.
fn carrier(ask: Ask<'_>) -> Carrier {
    Carrier {
        compression: ask.compression(),
        is_secured: ask.client.is_secured(),
    }
}

/// The answer to a request without a body, if it is known; its head is in the worker's block.
#[inline]
pub(in crate::session) fn again(
    cx: &mut Cx,
    ask: Ask<'_>,
    control: &Control<'_>,
    fields: &Fields,
    now: Instant,
) -> Option<Reply> {
    let Ask {
        client,
        stream,
        protocol,
    } = ask;
    let carrier = carrier(ask);
    if cx.field_cache.is_empty() || !gateway::repeats(cx, client) {
        return None;
    }
    let Cx {
        field_cache,
        clock,
        journal,
        counters,
        block,
        ..
    } = cx;
    let (known, again) = field_cache.find(control.path?, fields, carrier, clock.now())?;
    let status = known.repeat().status();
    block.clear();
    block.extend_from_slice(known.repeat().block());
    counters.answered(status);
    let body = again.body().clone();
    let length = body.len() as u64;
    let head_bytes = (carrier.compression.frame_header(block.len()) + block.len()) as u32;
    let mut slot = Slot::NONE;
    if journal.is_on() {
        let request = access_log::Request {
            peer: client.address(),
            user: client.user(),
            stream: Some(stream),
            started: now,
            line: RequestLine::Parsed {
                method: b"GET",
                target: &known.logged.target,
                version: protocol.name(),
            },
            host: known.logged.host.as_deref(),
            referer: known.logged.referer.as_deref(),
            user_agent: known.logged.user_agent.as_deref(),
            // No trusted peer comes here, which could name another scheme.
            is_secured: carrier.is_secured,
            tls: client.tls(),
            cache: Some("hit"),
            upstream: None,
            // Requests are not kept if logs show fields, and if requests have ids or are traced.
            fields: None,
            id: None,
            trace: None,
        };
        journal.compose(&mut slot, clock, &request, status, head_bytes, length);
    }
    Some(Reply {
        content: Some(Content::new(Source::Made(body), length)),
        priority: known.priority,
        is_priority_named: false,
        is_stored: true,
        started: now,
        slot,
        head_bytes: head_bytes.into(),
        length,
    })
}

/// Keeps a response from the cache for equal requests, unless it depends on more than the request. `priority`: that of the
/// response, if it was set.
#[cold]
pub(super) fn keep(
    cx: &mut Cx,
    client: &Client,
    passed: &Passed,
    stream: u64,
    repeat: Box<Repeat>,
    priority: Option<Priority>,
) {
    let fields = &passed.fields;
    let ask = Ask {
        client,
        stream,
        protocol: passed.protocol,
    };
    if !gateway::may_be_repeated(cx, client, passed.generation) {
        return;
    }
    let path = fields.iter().find(|(name, _)| *name == b":path");
    let Some((_, target)) = path else { return };
    cx.field_cache
        .saw((target, fields), carrier(ask), (repeat, priority), || {
            let control = Control::of(fields)?;
            ask::with_head(&control, fields, ask.protocol, |head| Logged::of(head.ok()?))
        });
}
