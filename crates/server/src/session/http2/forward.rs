//! Requests of this connection that upstreams answer, each on its stream.
//!
//! ```text
//!   Forward ─┬─ response passed on ──▶ gone, as any stream whose answer was sent
//!            ├─ failed before it ────▶ the page for 502 or 504
//!            └─ failed within it ────▶ the stream is reset
//! ```
//! A connection has [`PEERS_MAX`] upstream connections at a time. Further requests wait for one in the order of their
//! numbers; the limit on streams bounds them. Decides what goes out on the stream and when the client may send more;
//! `crate::proxy` knows the exchange itself.

use super::requests::ask;
use super::{Http2, Stream};
use crate::access_log::Cut;
use crate::context::Cx;
use crate::field_block::Compression;
use crate::field_list::FieldList;
use crate::field_rules::RuledLines;
use crate::proxy::forward::ToClient;
use crate::proxy::head::{Added, Outgoing, write_fields, write_trailers};
use crate::session::client::Client;
use crate::session::gateway::{self, PEERS_MAX, complain, failure};
use crate::session::multiplexed::ask as request;
use crate::session::multiplexed::passed::Passed;
use crate::session::multiplexed::priority;
use crate::session::multiplexed::stream::State;
use ::http2::hpack::{self, block};
use ::http2::message::Control;
use ::http2::priority::Priority;
use ::http2::server::{Connection, Piece};
use ::http2::{Code, Misuse};
use http_semantics::field::{Fields, Line};
use http_semantics::status::Status;
use http1::framing::Framing;
use http1::head::Response;
use runtime::session::{Ask, PeerEvent, Ticket};
use units::Instant;

/// How a response goes to a client of HTTP/2: heads as HEADERS at once, content as the windows permit.
struct Downstream<'a> {
    http: &'a mut Connection,
    id: u32,
    out: &'a mut Vec<u8>,
    date: &'a [u8],
    hsts: &'a [u8],
    /// The request names a priority.
    is_prioritized: bool,
    /// The head was the whole response.
    is_whole: bool,
    /// The field block of the trailer section.
    trailers: Option<Vec<u8>>,
}

impl Downstream<'_> {
    /// The field block of a head.
    fn block(
        &self,
        head: &Response<'_, '_>,
        is_to_head: bool,
        outgoing: Outgoing,
        ruled: &RuledLines,
    ) -> Result<Vec<u8>, http1::Misuse> {
        Status::from_u16(head.status).map_err(|_| http1::Misuse::Unwritable)?;
        let added = Added {
            date: self.date,
            hsts: self.hsts,
            connection: b"",
            ruled,
        };
        let (mut lines, mut block) = (Vec::new(), Vec::new());
        write_fields(&mut lines, head, is_to_head, outgoing, added)?;
        block::status(head.status, &mut block);
        Compression::Hpack.lines(FieldList::of(&lines), &mut block);
        Ok(block)
    }
}

/// Bytes of a block with the header of its frame.
fn framed(block: &[u8]) -> u32 {
    (Compression::Hpack.frame_header(block.len()) + block.len()) as u32
}

impl ToClient for Downstream<'_> {
    fn interim(&mut self, _: &mut Vec<u8>, head: &Response<'_, '_>) -> u32 {
        match self.block(head, false, Outgoing::Empty, &RuledLines::NONE) {
            Ok(block) if self.http.inform(self.id, &block, self.out).is_ok() => framed(&block),
            _ => 0,
        }
    }

    /// Streams carry WebSocket in another way (RFC 8441), which this server does not offer.
    fn switch(&mut self, _: &mut Vec<u8>, _: &Response<'_, '_>) -> Result<u32, http1::Misuse> {
        Err(http1::Misuse::Order)
    }

    fn begin(&mut self, head: &Response<'_, '_>, _: bool) -> Result<Outgoing, http1::Misuse> {
        match head.framing {
            Framing::Empty => Ok(Outgoing::Empty),
            Framing::Length(_) => Ok(Outgoing::Length),
            // Frames delimit the content.
            Framing::Chunked | Framing::UntilClose => Ok(Outgoing::UntilClose),
        }
    }

    fn head(
        &mut self,
        _: &mut Vec<u8>,
        head: &Response<'_, '_>,
        is_to_head: bool,
        outgoing: Outgoing,
        ruled: &RuledLines,
    ) -> Result<u32, http1::Misuse> {
        let block = self.block(head, is_to_head, outgoing, ruled)?;
        let is_whole = outgoing == Outgoing::Empty;
        let sent = self.http.respond(self.id, &block, is_whole, self.out);
        sent.map_err(|_: Misuse| http1::Misuse::Order)?;
        self.is_whole = is_whole;
        if let Framing::Length(length) = head.framing {
            self.http.length(self.id, length);
        }
        if !self.is_prioritized
            && self.http.priority(self.id) == Some(Priority::DEFAULT)
            && let Some(media_type) = head.fields.find("content-type")
        {
            self.http.prioritize(self.id, priority::of(media_type));
        }
        Ok(framed(&block))
    }

    fn trailers(&mut self, trailers: &Fields<'_, '_>) {
        let mut lines = Vec::new();
        write_trailers(&mut lines, trailers);
        if !lines.is_empty() {
            let mut block = Vec::new();
            Compression::Hpack.lines(FieldList::of(&lines), &mut block);
            self.trailers = Some(block);
        }
    }
}

/// Takes content of a request that is passed on. `false` if its window is to be given back at once: it is no such request, its
/// content is of no use, or the content is collected.
pub(super) fn keep(streams: &mut [Stream], id: u32, bytes: &[u8]) -> bool {
    match passed(streams, id) {
        Some(passed) => passed.keep(bytes),
        None => false,
    }
}

/// A request that is passed on is complete.
pub(super) fn end_request(streams: &mut [Stream], id: u32, trailers: Option<&hpack::Fields>) {
    let Some(passed) = passed(streams, id).filter(|passed| passed.forward.takes_content()) else {
        return;
    };
    let lines: Vec<Line<'_>> = trailers
        .into_iter()
        .flat_map(hpack::Fields::iter)
        .filter_map(|(name, value)| {
            let name = std::str::from_utf8(name).ok()?;
            Some(Line { name, value })
        })
        .collect();
    passed.forward.end_request(&Fields::new(&lines));
}

fn passed(streams: &mut [Stream], id: u32) -> Option<&mut Passed> {
    let at = streams.binary_search_by_key(&id, |stream| stream.id).ok()?;
    match &mut streams[at].state {
        State::Forward(passed) => Some(passed),
        _ => None,
    }
}

/// Gives up the exchange of a stream that ends, if there is one: composes its log line, if its response has begun, and
/// adds to `parting` what is to be asked for the connection to the upstream.
pub(super) fn part(client: &Client, parting: &mut Vec<(Ticket, Ask)>, stream: &mut Stream, cx: &mut Cx) {
    if let State::Forward(passed) = &mut stream.state {
        parting.extend(passed.forward.part());
        if passed.forward.has_begun() {
            passed.log(cx, client, stream.id.into(), &mut stream.slot);
        }
    }
}

impl Http2 {
    /// Begins to pass a request on.
    pub(super) fn pass(
        &mut self,
        cx: &Cx,
        id: u32,
        mut passed: Box<Passed>,
        out: &mut Vec<u8>,
        now: Instant,
    ) {
        self.has_passed = true;
        passed.rewind(&cx.state.limits, now);
        if let Ok(at) = self.at(id) {
            self.streams[at].state = State::Forward(passed);
        }
        self.welcome(cx, id, out);
    }

    /// Sends 100 to a client that waits for it, if its body is collected before there is an upstream.
    pub(super) fn welcome(&mut self, cx: &Cx, id: u32, out: &mut Vec<u8>) {
        let Some(passed) = passed(&mut self.streams, id) else {
            return;
        };
        let may_send = passed.forward.is_collecting() && passed.check.is_none();
        if may_send && std::mem::take(&mut passed.expects) {
            let mut head = Vec::new();
            block::status(100, &mut head);
            if self.http.inform(id, &head, out).is_ok() {
                cx.counters.informational().add(1);
            }
        }
    }

    /// What the driver is to do next for a connection to an upstream.
    pub(super) fn next_ask(&mut self, cx: &mut Cx, now: Instant) -> Option<(Ticket, Ask)> {
        if let Some(asked) = self.parting.pop() {
            return Some(asked);
        }
        let mut peers = 0;
        let mut queued = None;
        for stream in &mut self.streams {
            let State::Forward(passed) = &mut stream.state else {
                continue;
            };
            if passed.check.is_some() || passed.forward.is_collecting() {
                continue;
            }
            if passed.forward.is_queued() {
                queued = queued.or(Some((stream.id, passed)));
                continue;
            }
            if let Some(asked) = passed.ask(now) {
                return Some(asked);
            }
            peers += usize::from(passed.forward.has_peer());
        }
        let (id, passed) = queued.filter(|_| peers < PEERS_MAX)?;
        passed.forward.start(&mut cx.rng, now);
        if !passed.forward.has_peer() {
            // No upstream has a known address; a stored response may stand in.
            let has_reply = passed.forward.has_reply();
            let mut out = std::mem::take(&mut self.pending);
            match self.at(id) {
                Ok(at) if has_reply => self.received(cx, at, Some(&[]), &mut out, now),
                _ => self.settle(cx, id, &mut out, now),
            }
            self.pending = out;
            return self.next_ask(cx, now);
        }
        passed.rewind(&cx.state.limits, now);
        passed.ask(now)
    }

    /// Content of a request came, or its end.
    pub(super) fn pass_body(&mut self, cx: &mut Cx, id: u32, out: &mut Vec<u8>, now: Instant) {
        let Some(passed) = passed(&mut self.streams, id) else {
            return;
        };
        passed.forward.bound_content(0);
        // Before that, an upstream is awaited, whatever the client sends.
        if passed.collected() || passed.forward.is_open() || passed.forward.failed().is_some() {
            self.settle(cx, id, out, now);
        }
    }

    /// Something happened to a connection to an upstream.
    pub(super) fn peer(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        event: PeerEvent<'_>,
        out: &mut Vec<u8>,
        now: Instant,
    ) {
        let its = |stream: &Stream| match &stream.state {
            State::Forward(passed) => passed.forward.has_peer() && passed.forward.ticket() == ticket,
            _ => false,
        };
        let Some(at) = self.streams.iter().position(its) else {
            return;
        };
        let stream = &mut self.streams[at];
        let id = stream.id;
        let State::Forward(passed) = &mut stream.state else {
            return;
        };
        match event {
            PeerEvent::Connected | PeerEvent::Reused(_) => {
                if let PeerEvent::Reused(parcel) = event {
                    passed.forward.reused(parcel);
                }
                self.connected(cx, at, out, now);
            }
            PeerEvent::Bytes(bytes) => {
                self.received(cx, at, Some(bytes), out, now);
                if let Ok(at) = self.at(id) {
                    self.connected(cx, at, out, now);
                }
                return;
            }
            PeerEvent::Eof => return self.received(cx, at, None, out, now),
            PeerEvent::Sent => {
                let taken = passed.sent_up();
                self.http.consumed(id, taken, out);
            }
            PeerEvent::Lost(loss) => {
                if let Some(why) = passed.forward.lost(loss, now) {
                    complain(&passed.forward, path(&passed.fields), why, now);
                    passed.forward.try_another(&mut cx.rng, now);
                }
            }
        }
        self.settle(cx, id, out, now);
    }

    /// Looks for stored responses of requests that are new, and begins those responses.
    pub(super) fn serve_stored(&mut self, cx: &mut Cx, now: Instant) {
        let mut at = 0;
        while let Some(stream) = self.streams.get_mut(at) {
            let id = stream.id;
            if let State::Forward(passed) = &mut stream.state
                && passed.check.is_none()
            {
                passed.forward.look_up(now);
                if passed.forward.has_reply() {
                    let mut out = std::mem::take(&mut self.pending);
                    self.received(cx, at, Some(&[]), &mut out, now);
                    self.pending = out;
                }
            }
            // A response without content ends its stream at once.
            at = match self.at(id) {
                Ok(at) => at + 1,
                Err(next) => next,
            };
        }
    }

    /// An upstream may be connected now: the client may send its body.
    fn connected(&mut self, cx: &mut Cx, at: usize, out: &mut Vec<u8>, now: Instant) {
        let stream = &mut self.streams[at];
        if let State::Forward(passed) = &mut stream.state
            && passed.connected(now)
            && std::mem::take(&mut passed.expects)
        {
            let mut head = Vec::new();
            block::status(100, &mut head);
            if self.http.inform(stream.id, &head, out).is_ok() {
                cx.counters.informational().add(1);
            }
        }
    }

    /// Passes on what came from an upstream; `None`: it closed its half.
    fn received(&mut self, cx: &mut Cx, at: usize, bytes: Option<&[u8]>, out: &mut Vec<u8>, now: Instant) {
        let stream = &mut self.streams[at];
        let id = stream.id;
        let State::Forward(passed) = &mut stream.state else {
            return;
        };
        let forward = &mut passed.forward;
        let (began, ended, heads) = (forward.has_begun(), forward.has_ended(), forward.head_bytes);
        let before = passed.ready();
        let forward = &mut passed.forward;
        let mut client = Downstream {
            http: &mut self.http,
            id,
            out: &mut *out,
            date: cx.clock.date_line(),
            hsts: match self.client.is_secured() {
                true => &cx.state.secured_lines,
                false => b"",
            },
            is_prioritized: passed.fields.iter().any(|(name, _)| name == b"priority"),
            is_whole: false,
            trailers: None,
        };
        let failed = match bytes {
            Some(bytes) => forward.received(bytes, &mut client, now),
            None => forward.ended_by_upstream(now),
        };
        if let Some(why) = failed {
            complain(forward, path(&passed.fields), why, now);
            forward.try_another(&mut cx.rng, now);
        }
        let (trailers, is_whole) = (client.trailers, client.is_whole);
        if let Some(why) = forward.take_stood_in_for() {
            complain(forward, path(&passed.fields), why, now);
        }
        let heads = forward.head_bytes - heads;
        let begins = forward.has_begun() && !began;
        let ends = forward.has_ended() && !ended;
        let fresh = passed.ready() - before;
        passed.trailers = trailers.or(passed.trailers.take());
        passed.feed();
        if begins {
            cx.counters.answered(passed.forward.status);
            cx.answered(passed.started);
        }
        if is_whole {
            passed.log(cx, &self.client, id.into(), &mut stream.slot);
        }
        if heads > 0 {
            let bytes = heads.into();
            self.turn.share(cx, &mut stream.slot, out.len(), bytes, is_whole);
        }
        if is_whole {
            return self.end(id, at, out);
        }
        if passed.forward.failed().is_some() {
            return self.settle(cx, id, out, now);
        }
        if fresh > 0 {
            let ready = self.http.ready(id, fresh as u64);
            debug_assert!(ready.is_ok(), "stream {id} has no head");
        }
        if ends && passed.trailers.is_none() {
            let finished = self.http.finish(id);
            debug_assert!(finished.is_ok(), "stream {id} has no head");
        } else if passed.forward.has_ended() && passed.ready() == 0 {
            return self.send_trailers(cx, at, out);
        }
        self.settle(cx, id, out, now);
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
        let stream = &mut self.streams[at];
        let State::Forward(passed) = &mut stream.state else {
            return;
        };
        passed.take(piece.bytes, out);
        if piece.last {
            passed.log(cx, &self.client, stream.id.into(), &mut stream.slot);
        }
        let bytes = piece.bytes as u64;
        self.turn
            .share(cx, &mut stream.slot, out.len(), bytes, piece.last);
        if piece.last {
            self.end(piece.stream, at, out);
        } else if passed.forward.has_ended() && passed.ready() == 0 {
            self.send_trailers(cx, at, out);
        } else {
            passed.rewind(&cx.state.limits, now);
        }
    }

    /// Ends a response with its trailer section: all content was sent.
    fn send_trailers(&mut self, cx: &mut Cx, at: usize, out: &mut Vec<u8>) {
        let stream = &mut self.streams[at];
        let id = stream.id;
        let State::Forward(passed) = &mut stream.state else {
            return;
        };
        let Some(block) = passed.trailers.take() else {
            return;
        };
        let bytes = framed(&block).into();
        passed.forward.body_bytes += bytes;
        passed.log(cx, &self.client, id.into(), &mut stream.slot);
        let sent = self.http.trailers(id, &block, out);
        debug_assert!(sent.is_ok(), "stream {id} has content, or has ended");
        self.turn.share(cx, &mut stream.slot, out.len(), bytes, true);
        self.end(id, at, out);
    }

    /// An exchange took too long.
    pub(super) fn pass_timeout(&mut self, cx: &mut Cx, id: u32, out: &mut Vec<u8>, now: Instant) {
        let Some(passed) = passed(&mut self.streams, id) else {
            return;
        };
        if passed.forward.find_again(&mut cx.rng, now) {
            return self.settle(cx, id, out, now);
        }
        if passed.forward.woken(now) {
            return passed.rewind(&cx.state.limits, now);
        }
        cx.counters.timeouts().add(1);
        if let Some(why) = passed.forward.time_out(now) {
            complain(&passed.forward, path(&passed.fields), why, now);
            passed.forward.try_another(&mut cx.rng, now);
        }
        self.settle(cx, id, out, now);
    }

    /// Ends an exchange that failed, with the page for it or a reset. Otherwise sets its deadline anew.
    fn settle(&mut self, cx: &mut Cx, id: u32, out: &mut Vec<u8>, now: Instant) {
        let Ok(at) = self.at(id) else { return };
        let stream = &mut self.streams[at];
        let State::Forward(passed) = &mut stream.state else {
            return;
        };
        let Some(why) = passed.forward.failed() else {
            return passed.rewind(&cx.state.limits, now);
        };
        complain(&passed.forward, path(&passed.fields), why, now);
        let page = failure(why).filter(|_| !passed.forward.has_begun());
        let Some(page) = page else {
            // The client must not take what it has for the whole response.
            self.http.reset(id, Code::INTERNAL_ERROR, out);
            return self.forget(cx, id, Cut::Upstream, now);
        };
        let tried = passed.forward.tried(now);
        self.parting.extend(passed.forward.part());
        let unread = passed.release();
        // Interim responses may have gone out.
        self.turn.release(stream.slot);
        let _ = cx.journal.lost(&mut stream.slot, Cut::Upstream, now);
        let State::Forward(passed) = std::mem::replace(&mut stream.state, State::Gone(None)) else {
            return;
        };
        self.http.consumed(id, unread, out);
        let (fields, started) = (passed.fields, passed.started);
        let asked = ask(&self.client, id);
        let outcome = match Control::of(&fields) {
            Some(control) => request::stand_in(cx, asked, (&control, &fields), page, tried, started),
            None => request::refuse(cx, asked, page, started),
        };
        self.follow(cx, id, outcome, Some(fields), out, now);
    }
}

/// The path of a request.
fn path(fields: &hpack::Fields) -> &[u8] {
    let target = fields.iter().find(|(name, _)| *name == b":path");
    gateway::path(target.map_or(b"", |(_, target)| target))
}
