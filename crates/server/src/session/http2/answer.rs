//! Writes the head of an answer as a field block. That of a cached file is a copy of bytes that were made once.

use super::content::{Content, Fresh};
use super::priority;
use crate::access_log::Slot;
use crate::context::Desk;
use crate::exchange::{Answer, Asked, Exchange, Head, Source};
use crate::field_block;
use crate::field_list::FieldList;
use crate::session::client::Client;
use ::http2::priority::Priority;
use http_semantics::request::RequestHead;
use units::Instant;

/// Bytes of a frame's header (RFC 9113 section 4.1).
const FRAME_HEADER: usize = 9;

/// An answer whose head is in the worker's block.
#[derive(Debug)]
pub(super) struct Reply {
    /// What follows the head, and what of it can be sent at once.
    pub(super) content: Option<(Content, Fresh)>,
    /// By what it is; `None` if the request names one.
    pub(super) priority: Option<Priority>,
    /// Arrival of the request.
    pub(super) started: Instant,
    pub(super) slot: Slot,
    /// Bytes of the head, as the log counts them.
    pub(super) head_bytes: u64,
    /// Bytes of the content.
    pub(super) length: u64,
}

/// Writes the head of an answer to `desk.block` and composes its log line.
pub(super) fn reply(
    desk: Desk<'_>,
    mut exchange: Exchange,
    (asked, client, id): (Asked<'_, '_, '_>, &Client, u32),
    answer: Answer<'_>,
) -> Reply {
    let block = desk.block;
    block.clear();
    match answer.head {
        Head::Prepared(representation) => block.extend_from_slice(representation.block_200()),
        Head::Composed(lines) => {
            field_block::status(answer.status.as_u16(), block);
            field_block::lines(lines, block);
            if !matches!(answer.source, Source::Empty) {
                field_block::length(answer.len, block);
            }
        }
    }
    field_block::lines(answer.more, block);
    field_block::date(desk.clock.date(), block);
    if client.is_secured() {
        field_block::lines(FieldList::of(desk.hsts), block);
    }
    let status = answer.status.as_u16();
    desk.counters.answered(status);
    let sent = if answer.sends_content { answer.len } else { 0 };
    let head_bytes = (FRAME_HEADER + block.len()) as u32;
    exchange.answered(
        (desk.journal, desk.clock),
        (asked, client.user(), Some(id)),
        status,
        head_bytes,
        sent,
    );
    let is_named = |head: &RequestHead<'_, '_>| head.fields.iter().any(|(name, _)| name == "priority");
    let priority = match (answer.head, asked) {
        (_, Asked::Request(head)) if is_named(head) => None,
        (Head::Prepared(representation), _) => Some(priority::of(&representation.media_type)),
        (Head::Composed(_), _) => None,
    };
    Reply {
        content: (sent > 0).then(|| Content::new(answer.source, answer.len)),
        priority,
        started: exchange.started(),
        slot: exchange.into_slot(),
        head_bytes: head_bytes.into(),
        length: sent,
    }
}
