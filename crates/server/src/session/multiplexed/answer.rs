//! Writes the head of an answer as a field block of HTTP/2 or a section of HTTP/3. That of a cached file is a copy of bytes
//! that were made once.

use super::ask::Ask;
use super::content::{Content, Fresh};
use super::priority;
use crate::access_log::Slot;
use crate::context::Desk;
use crate::exchange::{Answer, Asked, Exchange, Head, Source};
use crate::field_list::FieldList;
use http_semantics::priority::Priority;
use http_semantics::request::RequestHead;
use units::Instant;

/// An answer whose head is in the worker's block.
#[derive(Debug)]
pub(in crate::session) struct Reply {
    /// What follows the head, and what of it can be sent at once.
    pub(in crate::session) content: Option<(Content, Fresh)>,
    /// By what it is; `None` if the request names one.
    pub(in crate::session) priority: Option<Priority>,
    /// Whether the request names one.
    pub(in crate::session) is_priority_named: bool,
    /// It is a stored response of the proxy's cache. As with all responses of upstreams, whether other requests name priorities
    /// does not matter.
    pub(in crate::session) is_stored: bool,
    /// Arrival of the request.
    pub(in crate::session) started: Instant,
    pub(in crate::session) slot: Slot,
    /// Bytes of the head, as the log counts them.
    pub(in crate::session) head_bytes: u64,
    /// Bytes of the content.
    pub(in crate::session) length: u64,
}

/// Writes the head of an answer to `desk.block` and composes its log line.
pub(in crate::session) fn reply(
    desk: Desk<'_>,
    mut exchange: Exchange,
    ask: Ask<'_>,
    asked: Asked<'_, '_, '_>,
    answer: Answer<'_>,
) -> Reply {
    let (client, compression) = (ask.client, ask.compression());
    let block = desk.block;
    block.clear();
    match answer.head {
        Head::Prepared(representation) => block.extend_from_slice(representation.block_200(compression)),
        Head::Composed(lines) => {
            compression.status(answer.status.as_u16(), block);
            compression.lines(lines, block);
            if !matches!(answer.source, Source::Empty) {
                compression.length(answer.len, block);
            }
        }
    }
    compression.lines(answer.more, block);
    compression.date(desk.clock.date(), block);
    if client.is_secured() {
        compression.lines(FieldList::of(desk.secured_lines), block);
    }
    let status = answer.status.as_u16();
    desk.counters.answered(status);
    let sent = if answer.sends_content { answer.len } else { 0 };
    let head_bytes = (compression.frame_header(block.len()) + block.len()) as u32;
    exchange.answered(
        (desk.journal, desk.clock),
        (asked, client.user(), Some(ask.stream)),
        status,
        head_bytes,
        sent,
    );
    let is_named = |head: &RequestHead<'_, '_>| head.fields.iter().any(|(name, _)| name == "priority");
    let is_priority_named = matches!(asked, Asked::Request(head) if is_named(head));
    let priority = match answer.head {
        Head::Prepared(representation) if !is_priority_named => {
            Some(priority::of(&representation.media_type))
        }
        Head::Prepared(_) | Head::Composed(_) => None,
    };
    Reply {
        content: (sent > 0).then(|| Content::new(answer.source, answer.len)),
        priority,
        is_priority_named,
        is_stored: false,
        started: exchange.started(),
        slot: exchange.into_slot(),
        head_bytes: head_bytes.into(),
        length: sent,
    }
}
