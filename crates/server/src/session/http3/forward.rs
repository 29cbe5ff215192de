//! Requests of this connection that upstreams answer: how HTTP/3 sends what `multiplexed::forward` decides, and when it reads
//! on.
//!
//! The transport gives the window of a stream back for what is read. So a stream is left unread while its upstream has not
//! taken what came before; [`Http3::read_on`] reads it when it has.

use super::Http3;
use crate::access_log::{Cut, Slot};
use crate::context::Cx;
use crate::field_block::Compression;
use crate::session::multiplexed::ask::Outcome;
use crate::session::multiplexed::forward::{Forwarding, Frames, Parts};
use crate::session::multiplexed::passed::Passed;
use crate::session::multiplexed::stream::State;
use ::http3::Code;
use ::http3::server::Connection;
use http_semantics::compression::Fields;
use http_semantics::priority::Priority;
use http_semantics::request::Protocol;
use runtime::streams::Transport;
use std::collections::BTreeSet;
use units::Instant;

/// The frames of HTTP/3, which the protocol keeps until the transport takes them.
pub(in crate::session) struct Kept<'a> {
    http: &'a mut Connection,
    unread: &'a mut BTreeSet<u64>,
}

impl Frames for Kept<'_> {
    type Id = u64;

    const COMPRESSION: Compression = Compression::Qpack;

    fn inform(&mut self, id: u64, block: &[u8]) -> bool {
        self.http.inform(id, block).is_ok()
    }

    fn respond(&mut self, id: u64, block: &[u8], is_whole: bool) -> bool {
        self.http.respond(id, block, is_whole).is_ok()
    }

    fn length(&mut self, id: u64, bytes: u64) {
        self.http.length(id, bytes);
    }

    fn priority(&self, id: u64) -> Option<Priority> {
        self.http.priority(id)
    }

    fn prioritize(&mut self, id: u64, priority: Priority) {
        self.http.prioritize(id, priority);
    }

    fn ready(&mut self, id: u64, bytes: u64) -> bool {
        self.http.ready(id, bytes).is_ok()
    }

    fn finish(&mut self, id: u64) -> bool {
        self.http.finish(id).is_ok()
    }

    fn trailers(&mut self, id: u64, block: &[u8]) -> bool {
        self.http.trailers(id, block).is_ok()
    }

    fn reset(&mut self, id: u64) {
        self.http.reset(id, Code::INTERNAL_ERROR);
    }

    fn consumed(&mut self, id: u64, _: u32) {
        self.unread.insert(id);
    }
}

impl Forwarding for Http3 {
    type Id = u64;
    type Frames<'a> = Kept<'a>;

    const PROTOCOL: Protocol = Protocol::Http3;

    fn parts(&mut self) -> Parts<'_, Kept<'_>> {
        Parts {
            frames: Kept {
                http: &mut self.http,
                unread: &mut self.unread,
            },
            streams: &mut self.streams,
            client: &self.client,
            parting: &mut self.parting,
        }
    }

    fn gave(&mut self, cx: &mut Cx, at: usize, bytes: u64, _: bool) {
        if cx.journal.is_on() {
            let slot = &mut self.streams[at].slot;
            cx.journal.given(slot, bytes);
            cx.journal.progress(*slot, bytes);
        }
    }

    fn release(&mut self, _: Slot) {}

    fn follow(&mut self, cx: &mut Cx, id: u64, outcome: Outcome, fields: Option<Fields>, now: Instant) {
        self.carry_out(cx, id, outcome, fields, now);
    }

    fn end(&mut self, cx: &mut Cx, id: u64, now: Instant) {
        self.answered(cx, id, now);
    }

    fn forget(&mut self, cx: &mut Cx, id: u64, cut: Cut, now: Instant) {
        self.drop_stream(cx, id, cut, now);
    }
}

impl Http3 {
    /// Begins to pass a request on.
    pub(super) fn begin_to_pass(&mut self, cx: &Cx, id: u64, passed: Box<Passed>, now: Instant) {
        self.has_passed = true;
        self.pass(cx, id, passed, now);
    }

    /// Whether an upstream has not taken all content of this stream's request that came so far.
    pub(super) fn holds_content(&self, id: u64) -> bool {
        let Ok(at) = self.at(id) else { return false };
        match &self.streams[at].state {
            State::Forward(passed) => passed.holds_content(),
            _ => false,
        }
    }

    /// Reads streams whose content was taken.
    pub(super) fn read_on(&mut self, cx: &mut Cx, transport: &mut dyn Transport, now: Instant) {
        while let Some(id) = self.unread.pop_first() {
            self.readable(cx, id, transport, now);
        }
    }
}
