//! Requests of this connection that upstreams answer: how HTTP/2 sends what `multiplexed::forward` decides.

use super::Http2;
use crate::access_log::{Cut, Slot};
use crate::context::Cx;
use crate::field_block::Compression;
use crate::session::multiplexed::ask::Outcome;
use crate::session::multiplexed::forward::{Forwarding, Frames, Parts};
use crate::session::multiplexed::passed::Passed;
use crate::session::multiplexed::stream::State;
use ::http2::Code;
use ::http2::hpack::Fields;
use ::http2::priority::Priority;
use ::http2::server::{Connection, Piece};
use http_semantics::request::Protocol;
use units::Instant;

/// A connection and its next output.
pub(super) struct Front<'a> {
    pub(super) session: &'a mut Http2,
    pub(super) out: &'a mut Vec<u8>,
}

/// The frames of HTTP/2, which go to the next output.
pub(in crate::session) struct Written<'a> {
    http: &'a mut Connection,
    out: &'a mut Vec<u8>,
}

impl Frames for Written<'_> {
    type Id = u32;

    const COMPRESSION: Compression = Compression::Hpack;

    fn inform(&mut self, id: u32, block: &[u8]) -> bool {
        self.http.inform(id, block, self.out).is_ok()
    }

    fn respond(&mut self, id: u32, block: &[u8], is_whole: bool) -> bool {
        self.http.respond(id, block, is_whole, self.out).is_ok()
    }

    fn length(&mut self, id: u32, bytes: u64) {
        self.http.length(id, bytes);
    }

    fn priority(&self, id: u32) -> Option<Priority> {
        self.http.priority(id)
    }

    fn prioritize(&mut self, id: u32, priority: Priority) {
        self.http.prioritize(id, priority);
    }

    fn ready(&mut self, id: u32, bytes: u64) -> bool {
        self.http.ready(id, bytes).is_ok()
    }

    fn finish(&mut self, id: u32) -> bool {
        self.http.finish(id).is_ok()
    }

    fn trailers(&mut self, id: u32, block: &[u8]) -> bool {
        self.http.trailers(id, block, self.out).is_ok()
    }

    fn reset(&mut self, id: u32) {
        self.http.reset(id, Code::INTERNAL_ERROR, self.out);
    }

    fn consumed(&mut self, id: u32, bytes: u32) {
        self.http.consumed(id, bytes, self.out);
    }
}

impl Forwarding for Front<'_> {
    type Id = u32;
    type Frames<'a>
        = Written<'a>
    where
        Self: 'a;

    const PROTOCOL: Protocol = Protocol::Http2;

    fn parts(&mut self) -> Parts<'_, Written<'_>> {
        Parts {
            frames: Written {
                http: &mut self.session.http,
                out: self.out,
            },
            streams: &mut self.session.streams,
            client: &self.session.client,
            parting: &mut self.session.parting,
        }
    }

    fn gave(&mut self, cx: &mut Cx, at: usize, bytes: u64, is_last: bool) {
        let slot = &mut self.session.streams[at].slot;
        self.session.turn.share(cx, slot, self.out.len(), bytes, is_last);
    }

    fn release(&mut self, slot: Slot) {
        self.session.turn.release(slot);
    }

    fn follow(&mut self, cx: &mut Cx, id: u32, outcome: Outcome, fields: Option<Fields>, now: Instant) {
        self.session.follow(cx, id, outcome, fields, self.out, now);
    }

    fn end(&mut self, _: &mut Cx, id: u32, _: Instant) {
        if let Ok(at) = self.session.at(id) {
            self.session.end(id, at, self.out);
        }
    }

    fn forget(&mut self, cx: &mut Cx, id: u32, cut: Cut, now: Instant) {
        self.session.forget(cx, id, cut, now);
    }
}

impl Http2 {
    /// The connection as one that passes requests on.
    pub(super) fn front<'a>(&'a mut self, out: &'a mut Vec<u8>) -> Front<'a> {
        Front { session: self, out }
    }

    /// Does something for requests that are passed on, outside [`Http2::handle`].
    pub(super) fn aside<T>(&mut self, act: impl FnOnce(&mut Front<'_>) -> T) -> T {
        let mut out = std::mem::take(&mut self.pending);
        let result = act(&mut self.front(&mut out));
        self.pending = out;
        result
    }

    /// Begins to pass a request on.
    pub(super) fn pass(&mut self, cx: &Cx, id: u32, passed: Box<Passed>, out: &mut Vec<u8>, now: Instant) {
        self.has_passed = true;
        self.front(out).pass(cx, id, passed, now);
    }

    /// Adds a piece of a response to an output.
    pub(super) fn fill_from_upstream(
        &mut self,
        cx: &mut Cx,
        at: usize,
        piece: Piece,
        out: &mut Vec<u8>,
        now: Instant,
    ) {
        if let State::Forward(passed) = &mut self.streams[at].state {
            passed.take(piece.bytes, out);
            self.front(out).went(cx, at, piece.bytes as u64, piece.last, now);
        }
    }
}
