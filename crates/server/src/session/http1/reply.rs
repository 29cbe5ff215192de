//! Writes answers as HTTP/1: the header block, and content behind it or beside it.
//!
//! Order of the lines: those of the answer with `Content-Length`, `Date`, and `Connection` if needed. A connection
//! persists without `Connection: close`. HTTP/0.9 gets content only.

use super::Http1;
use crate::clock::Clock;
use crate::context::Desk;
use crate::entry::Content;
use crate::exchange::{Answer, Asked, Exchange, Head, Multipart, Source};
use crate::limits::Limits;
use http1::response;
use http1::server::{Connection, Persistence};
use runtime::{Body, FileRange, Tx};

impl Http1 {
    /// Writes an answer and hands its log line to this connection. Returns the parts that did not fit into this turn.
    #[inline]
    pub(super) fn write(
        &mut self,
        desk: Desk<'_>,
        mut exchange: Exchange,
        asked: Asked<'_, '_, '_>,
        answer: Answer<'_>,
        tx: &mut Tx,
    ) -> Option<Multipart> {
        let secured_lines = if self.client.is_secured() {
            desk.secured_lines
        } else {
            b""
        };
        let head_bytes = head(&mut self.http, (desk.clock, secured_lines), &answer, &mut tx.head);
        let status = answer.status.as_u16();
        desk.counters.answered(status);
        let sent = if answer.sends_content { answer.len } else { 0 };
        let user = self.client.user();
        exchange.answered(
            (desk.journal, desk.clock),
            (asked, user, None),
            status,
            head_bytes,
            sent,
        );
        desk.journal.join(&mut self.slot, exchange.into_slot());
        if !answer.sends_content {
            return None;
        }
        match answer.source {
            Source::Empty => {}
            Source::Entry(from, offset) => content(tx, from, offset, answer.len, desk.copied_max),
            Source::Made(bytes) => {
                content(tx, &Content::Memory(bytes), 0, answer.len, Limits::COPIED_BODY);
            }
            Source::Page(page) => page.write(&mut tx.head),
            Source::Parts(mut multipart) => return (!parts(&mut multipart, tx)).then_some(multipart),
        }
        None
    }
}

/// Appends the header block of an answer, with room for copied content behind it. Returns its length in bytes.
#[inline]
fn head(
    http: &mut Connection,
    (clock, secured_lines): (&Clock, &[u8]),
    answer: &Answer<'_>,
    out: &mut Vec<u8>,
) -> u32 {
    let persistence = http.begin_response(true).unwrap_or_else(|_| {
        debug_assert!(false, "a response begins before the last one has ended");
        Persistence::Ends
    });
    let start = out.len();
    let copied = match answer.len {
        len if len <= Limits::COPIED_BODY => len as usize,
        _ => 0,
    };
    // Room for a typical header block and copied content, so that appending does not reallocate.
    let room = match answer.head {
        Head::Prepared(representation) => representation.head_200.len() + 96,
        Head::Composed(_) => 512,
    };
    out.reserve(room + copied);
    if persistence == Persistence::Headless {
        return 0;
    }
    match answer.head {
        Head::Prepared(representation) => out.extend_from_slice(&representation.head_200),
        Head::Composed(lines) => {
            response::status_line(out, answer.status);
            out.extend_from_slice(lines.text());
            if !matches!(answer.source, Source::Empty) {
                response::content_length(out, answer.len);
            }
        }
    }
    out.extend_from_slice(answer.more.text());
    last_lines((clock, secured_lines), persistence, out);
    (out.len() - start) as u32
}

/// Appends the lines that end a header block.
#[inline]
pub(super) fn last_lines(
    (clock, secured_lines): (&Clock, &[u8]),
    persistence: Persistence,
    out: &mut Vec<u8>,
) {
    if persistence == Persistence::Implied && secured_lines.is_empty() {
        // The usual case takes one copy of known length.
        return out.extend_from_slice(clock.last_lines());
    }
    more_last_lines((clock, secured_lines), persistence, out);
}

/// As [`last_lines`], for any response.
#[cold]
fn more_last_lines((clock, secured_lines): (&Clock, &[u8]), persistence: Persistence, out: &mut Vec<u8>) {
    for lines in [clock.date_line(), secured_lines, persistence.line(), b"\r\n"] {
        out.extend_from_slice(lines);
    }
}

/// Appends parts until one refers to a body or all are written. Returns whether all are.
pub(super) fn parts(multipart: &mut Multipart, tx: &mut Tx) -> bool {
    while let Some(range) = multipart.next(&mut tx.head) {
        content(
            tx,
            multipart.content(),
            range.first,
            range.len(),
            Limits::COPIED_BODY,
        );
        if tx.body.is_some() {
            return false;
        }
    }
    true
}

/// Appends `len` bytes of content from `offset` on: copied if they are in memory and no more than `copied_max`,
/// otherwise referenced. Always inlined, because a call would cost each response the saving of registers.
#[inline(always)]
pub(super) fn content(tx: &mut Tx, content: &Content, offset: u64, len: u64, copied_max: u64) {
    match content {
        Content::Memory(bytes) if len <= copied_max => {
            tx.head
                .extend_from_slice(&bytes[offset as usize..(offset + len) as usize]);
        }
        _ if len == 0 => {}
        _ => tx.body = Some(referenced(content, offset, len)),
    }
}

/// A body that refers to `len` bytes of content from `offset` on.
#[inline(never)]
pub(super) fn referenced(content: &Content, offset: u64, len: u64) -> Body {
    match content {
        Content::Memory(bytes) => Body::Bytes(bytes.slice(offset as usize..(offset + len) as usize)),
        Content::File(file) => Body::File(FileRange {
            file: file.clone(),
            offset,
            len,
        }),
    }
}
