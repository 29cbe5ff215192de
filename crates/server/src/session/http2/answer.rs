//! Writes the head of an answer as a field block: references to the static table and literals only, so that the block of
//! a cached file is a copy of bytes that were made once.

use super::content::{Content, Fresh};
use super::priority;
use crate::access_log::Slot;
use crate::context::Desk;
use crate::exchange::{Answer, Asked, Exchange, Head, Source};
use crate::field_list::FieldList;
use crate::session::client::Client;
use ::http2::hpack::block;
use ::http2::priority::Priority;
use http_semantics::request::RequestHead;
use measure::Instant;

/// Index of `date` in the static table, for a literal that is not indexed (RFC 7541 section 6.2.2).
const DATE: [u8; 2] = [0x0f, 0x12];

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
            block::status(answer.status.as_u16(), block);
            fields(lines, block);
            if !matches!(answer.source, Source::Empty) {
                length(answer.len, block);
            }
        }
    }
    fields(answer.more, block);
    let date = desk.clock.date();
    block.extend_from_slice(&DATE);
    block.push(date.len() as u8);
    block.extend_from_slice(date);
    if client.is_secured() {
        fields(FieldList::of(desk.hsts), block);
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
    }
}

/// The block of 200 with these lines and this length: what a cached file is answered with.
pub(crate) fn prepared(lines: FieldList<'_>, len: u64) -> Box<[u8]> {
    let mut block = Vec::with_capacity(lines.text().len());
    block::status(200, &mut block);
    fields(lines, &mut block);
    length(len, &mut block);
    block.into()
}

fn length(len: u64, block: &mut Vec<u8>) {
    block::field(
        b"content-length",
        itoa::Buffer::new().format(len).as_bytes(),
        block,
    );
}

/// Appends lines, with their names in lower case. Those that are about a connection of HTTP/1 are left out: they would
/// make the answer malformed (RFC 9113 section 8.2.2).
fn fields(lines: FieldList<'_>, block: &mut Vec<u8>) {
    for (name, value) in lines.iter() {
        let name = name.to_ascii_lowercase();
        match &name[..] {
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {}
            b"set-cookie" => block::sensitive(&name, value, block),
            name => block::field(name, value, block),
        }
    }
}
