//! Requests of a connection that upstreams answer, each on its stream.
//!
//! ```text
//!   Forward ─┬─ response passed on ──▶ gone, as any stream whose answer was sent
//!            ├─ failed before it ────▶ the page for 502 or 504
//!            └─ failed within it ────▶ the stream is reset
//! ```
//! A connection has [`PEERS_MAX`] upstream connections at a time. Further requests wait for one in the order of their
//! numbers; the limit on streams bounds them. Decides what goes out on the stream and when the client may send more;
//! `crate::proxy` knows the exchange itself, and each version of HTTP its frames ([`Frames`]) and its streams
//! ([`Forwarding`]).

use super::again;
use super::ask::{self, Admission, Ask, Outcome};
use super::passed::Passed;
use super::priority;
use super::stream::{State, Stream};
use crate::access_log::{Cut, Slot};
use crate::context::Cx;
use crate::field_block::Compression;
use crate::field_list::FieldList;
use crate::field_rules::RuledLines;
use crate::proxy::cache::Written;
use crate::proxy::forward::ToClient;
use crate::proxy::head::{Added, Outgoing, write_fields, write_trailers};
use crate::session::client::Client;
use crate::session::gateway::{self, PEERS_MAX, complain, failure};
use crate::site::Loaded;
use http_semantics::compression;
use http_semantics::field::{Fields, Line};
use http_semantics::message::Control;
use http_semantics::priority::Priority;
use http_semantics::request::Protocol;
use http_semantics::status::Status;
use http1::framing::Framing;
use http1::head::Response;
use runtime::session::{self, PeerEvent, Ticket};
use units::Instant;

/// The frames of a connection to its client. What returns `false` had no effect: the stream is gone.
pub(in crate::session) trait Frames {
    /// Names a stream.
    type Id: Copy + Ord + Into<u64>;

    const COMPRESSION: Compression;

    /// Sends an interim response.
    fn inform(&mut self, id: Self::Id, block: &[u8]) -> bool;

    /// Sends the head of the final response, which `is_whole` if no content follows.
    fn respond(&mut self, id: Self::Id, block: &[u8], is_whole: bool) -> bool;

    /// How long the content is.
    fn length(&mut self, id: Self::Id, bytes: u64);

    /// The priority of a response; `None` if the stream is gone.
    fn priority(&self, id: Self::Id) -> Option<Priority>;

    /// Replaces it.
    fn prioritize(&mut self, id: Self::Id, priority: Priority);

    /// So much more content can be sent.
    fn ready(&mut self, id: Self::Id, bytes: u64) -> bool;

    /// No more content follows.
    fn finish(&mut self, id: Self::Id) -> bool;

    /// Ends the response with a trailer section.
    fn trailers(&mut self, id: Self::Id, block: &[u8]) -> bool;

    /// Ends the stream, so that the client does not take what it has for the whole response.
    fn reset(&mut self, id: Self::Id);

    /// So much of the request's content is held no more: the client may send it anew.
    fn consumed(&mut self, id: Self::Id, bytes: u32);
}

/// A connection, apart.
pub(in crate::session) struct Parts<'a, F: Frames> {
    pub(in crate::session) frames: F,
    /// Requests that are not answered whole yet, in the order of their numbers.
    pub(in crate::session) streams: &'a mut Vec<Stream<F::Id>>,
    pub(in crate::session) client: &'a Client,
    /// What is to be asked for connections to upstreams whose streams are gone.
    pub(in crate::session) parting: &'a mut Vec<(Ticket, session::Ask)>,
}

/// What a head needs besides what the upstream said.
struct Around<'a> {
    date: &'a [u8],
    hsts: &'a [u8],
}

/// How a response goes to the client: heads as frames at once, content as the windows permit.
struct Downstream<'a, F: Frames> {
    frames: F,
    id: F::Id,
    around: Around<'a>,
    /// The request names a priority.
    is_prioritized: bool,
    /// The head was the whole response.
    is_whole: bool,
    /// The lines of the head.
    lines: Vec<u8>,
    /// The priority by the type of the content, unless the request names one.
    priority: Option<Priority>,
    /// The field block of the trailer section.
    trailers: Option<Vec<u8>>,
}

impl<F: Frames> Downstream<'_, F> {
    /// The frames, the trailer section, and whether the head was the whole response.
    fn into_frames(self) -> (F, Option<Vec<u8>>, bool) {
        (self.frames, self.trailers, self.is_whole)
    }

    /// The lines of a head, and their field block.
    fn block(
        &self,
        head: &Response<'_, '_>,
        is_to_head: bool,
        outgoing: Outgoing,
        ruled: &RuledLines,
        received: Protocol,
    ) -> Result<(Vec<u8>, Vec<u8>), http1::Misuse> {
        Status::from_u16(head.status).map_err(|_| http1::Misuse::Unwritable)?;
        let added = Added {
            date: self.around.date,
            hsts: self.around.hsts,
            connection: b"",
            ruled,
            received,
        };
        let (mut lines, mut block) = (Vec::new(), Vec::new());
        write_fields(&mut lines, head, is_to_head, outgoing, added)?;
        F::COMPRESSION.status(head.status, &mut block);
        F::COMPRESSION.lines(FieldList::of(&lines), &mut block);
        Ok((lines, block))
    }
}

/// Bytes of a block with the header of its frame.
fn framed<F: Frames>(block: &[u8]) -> u32 {
    (F::COMPRESSION.frame_header(block.len()) + block.len()) as u32
}

impl<F: Frames> ToClient for Downstream<'_, F> {
    fn interim(&mut self, _: &mut Vec<u8>, head: &Response<'_, '_>, received: Protocol) -> u32 {
        match self.block(head, false, Outgoing::Empty, &RuledLines::NONE, received) {
            Ok((_, block)) if self.frames.inform(self.id, &block) => framed::<F>(&block),
            _ => 0,
        }
    }

    /// Streams carry WebSocket in another way (RFC 8441, RFC 9220), which this server does not offer.
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
        received: Protocol,
    ) -> Result<u32, http1::Misuse> {
        let (lines, block) = self.block(head, is_to_head, outgoing, ruled, received)?;
        let is_whole = outgoing == Outgoing::Empty;
        if !self.frames.respond(self.id, &block, is_whole) {
            return Err(http1::Misuse::Order);
        }
        (self.lines, self.is_whole) = (lines, is_whole);
        if let Framing::Length(length) = head.framing {
            self.frames.length(self.id, length);
        }
        let media_type = head.fields.find("content-type");
        self.priority = media_type.filter(|_| !self.is_prioritized).map(priority::of);
        if let Some(priority) = self.priority
            && self.frames.priority(self.id) == Some(Priority::DEFAULT)
        {
            self.frames.prioritize(self.id, priority);
        }
        Ok(framed::<F>(&block))
    }

    fn repeatable<'a>(&'a self, _: &'a [u8]) -> Option<Written<'a>> {
        Some(Written::Block(FieldList::of(&self.lines), F::COMPRESSION))
    }

    fn trailers(&mut self, trailers: &Fields<'_, '_>, ruled: &RuledLines) {
        let mut lines = Vec::new();
        write_trailers(&mut lines, trailers, |name| ruled.replaces(name));
        if !lines.is_empty() {
            let mut block = Vec::new();
            F::COMPRESSION.begin(&mut block);
            F::COMPRESSION.lines(FieldList::of(&lines), &mut block);
            self.trailers = Some(block);
        }
    }
}

/// Keeps content of a request that is passed on, if this one is. Returns whether its window is given back later.
pub(in crate::session) fn keep<Id: Ord>(streams: &mut [Stream<Id>], id: Id, bytes: &[u8]) -> bool {
    passed(streams, &id).is_some_and(|passed| passed.keep(bytes))
}

/// The request of this stream is whole, if it is passed on.
pub(in crate::session) fn end_request<Id: Ord>(
    streams: &mut [Stream<Id>],
    id: Id,
    trailers: Option<&compression::Fields>,
) {
    let Some(passed) = passed(streams, &id).filter(|passed| passed.forward.takes_content()) else {
        return;
    };
    let lines: Vec<Line<'_>> = trailers
        .into_iter()
        .flat_map(compression::Fields::iter)
        .filter_map(|(name, value)| {
            let name = std::str::from_utf8(name).ok()?;
            Some(Line { name, value })
        })
        .collect();
    passed.forward.end_request(&Fields::new(&lines));
}

fn passed<'s, Id: Ord>(streams: &'s mut [Stream<Id>], id: &Id) -> Option<&'s mut Passed> {
    let at = find(streams, id)?;
    match &mut streams[at].state {
        State::Forward(passed) => Some(passed),
        _ => None,
    }
}

fn find<Id: Ord>(streams: &[Stream<Id>], id: &Id) -> Option<usize> {
    streams.binary_search_by(|stream| stream.id.cmp(id)).ok()
}

/// Gives up the exchange of a stream that ends, if there is one: composes its log line, if its response has begun, and
/// adds to `parting` what is to be asked for the connection to the upstream.
pub(in crate::session) fn part<Id: Copy + Into<u64>>(
    client: &Client,
    parting: &mut Vec<(Ticket, session::Ask)>,
    stream: &mut Stream<Id>,
    cx: &mut Cx,
) {
    if let State::Forward(passed) = &mut stream.state {
        parting.extend(passed.forward.part());
        if passed.forward.has_begun() {
            passed.log(cx, client, stream.id.into(), &mut stream.slot);
        }
    }
}

/// A connection that passes requests on. What it implements is how its version sends and accounts; the rest follows.
pub(in crate::session) trait Forwarding {
    /// Names a stream.
    type Id: Copy + Ord + Into<u64>;

    type Frames<'a>: Frames<Id = Self::Id>
    where
        Self: 'a;

    const PROTOCOL: Protocol;

    /// Its frames and its streams.
    fn parts(&mut self) -> Parts<'_, Self::Frames<'_>>;

    /// So many bytes of the response at this place are in the output, which ends it if `is_last`.
    fn gave(&mut self, cx: &mut Cx, at: usize, bytes: u64, is_last: bool);

    /// The log line is about to be finished: its bytes count no more.
    fn release(&mut self, slot: Slot);

    /// Carries out what became of a request.
    fn follow(
        &mut self,
        cx: &mut Cx,
        id: Self::Id,
        outcome: Outcome,
        fields: Option<compression::Fields>,
        now: Instant,
    );

    /// An answer was given out whole.
    fn end(&mut self, cx: &mut Cx, id: Self::Id, now: Instant);

    /// Drops a stream whose answer will not be sent whole.
    fn forget(&mut self, cx: &mut Cx, id: Self::Id, cut: Cut, now: Instant);

    /// Requests that are not answered whole yet, in the order of their numbers.
    fn streams(&mut self) -> &mut Vec<Stream<Self::Id>> {
        self.parts().streams
    }

    /// Where the stream is.
    fn place(&mut self, id: Self::Id) -> Option<usize> {
        find(self.streams(), &id)
    }

    /// Begins to pass a request on.
    fn pass(&mut self, cx: &Cx, id: Self::Id, mut passed: Box<Passed>, now: Instant) {
        passed.rewind(&cx.state.limits, now);
        let streams = self.streams();
        if let Some(at) = find(streams, &id) {
            streams[at].state = State::Forward(passed);
        }
        self.welcome(cx, id);
    }

    /// Sends 100 to a client that waits for it, if its body is collected before there is an upstream.
    fn welcome(&mut self, cx: &Cx, id: Self::Id) {
        let Some(passed) = passed(self.streams(), &id) else {
            return;
        };
        let may_send = passed.forward.is_collecting() && passed.check.is_none();
        if may_send && std::mem::take(&mut passed.expects) {
            self.invite(cx, id);
        }
    }

    /// Tells the client to send its body.
    fn invite(&mut self, cx: &Cx, id: Self::Id) {
        let mut parts = self.parts();
        let mut head = Vec::new();
        <Self::Frames<'_> as Frames>::COMPRESSION.status(100, &mut head);
        if parts.frames.inform(id, &head) {
            cx.counters.informational().add(1);
        }
    }

    /// What the driver is to do next for a connection to an upstream.
    fn next_ask(&mut self, cx: &mut Cx, now: Instant) -> Option<(Ticket, session::Ask)> {
        loop {
            let Parts { streams, parting, .. } = self.parts();
            if let Some(asked) = parting.pop() {
                return Some(asked);
            }
            let mut peers = 0;
            let mut queued = None;
            for stream in streams {
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
                peers += usize::from(passed.forward.has_own_peer());
            }
            let (id, passed) = queued.filter(|_| peers < PEERS_MAX)?;
            passed.forward.start(&mut cx.rng, now);
            if passed.forward.has_peer() {
                passed.rewind(&cx.state.limits, now);
                return passed.ask(now);
            }
            // No upstream has a known address; a stored response may stand in.
            let has_reply = passed.forward.has_reply();
            match self.place(id) {
                Some(at) if has_reply => self.received(cx, at, Some(&[]), now),
                _ => self.settle(cx, id, now),
            }
        }
    }

    /// Content of a request came, or its end.
    fn pass_body(&mut self, cx: &mut Cx, id: Self::Id, now: Instant) {
        let Some(passed) = passed(self.streams(), &id) else {
            return;
        };
        passed.forward.bound_content(0);
        // Before that, an upstream is awaited, whatever the client sends.
        if passed.collected() || passed.forward.is_open() || passed.forward.failed().is_some() {
            self.settle(cx, id, now);
        }
    }

    /// Something happened to a connection to an upstream.
    fn peer(&mut self, cx: &mut Cx, ticket: Ticket, event: PeerEvent<'_>, now: Instant) {
        let streams = self.streams();
        let its = |stream: &Stream<Self::Id>| match &stream.state {
            State::Forward(passed) => passed.forward.has_peer() && passed.forward.ticket() == ticket,
            _ => false,
        };
        let Some(at) = streams.iter().position(its) else {
            return;
        };
        let stream = &mut streams[at];
        let id = stream.id;
        let State::Forward(passed) = &mut stream.state else {
            return;
        };
        match event {
            PeerEvent::Connected | PeerEvent::Reused(_) | PeerEvent::Joined => {
                match event {
                    PeerEvent::Reused(parcel) => passed.forward.reused(parcel),
                    PeerEvent::Joined => passed.forward.joined(),
                    _ => {}
                }
                self.connected(cx, at, now);
            }
            PeerEvent::Bytes(bytes) => {
                self.received(cx, at, Some(bytes), now);
                if let Some(at) = self.place(id) {
                    self.connected(cx, at, now);
                }
                return;
            }
            PeerEvent::Eof => return self.received(cx, at, None, now),
            PeerEvent::Sent => {
                let taken = passed.sent_up();
                self.parts().frames.consumed(id, taken);
            }
            PeerEvent::Lost(loss) => {
                if let Some(why) = passed.forward.lost(loss, now) {
                    complain(&passed.forward, path(&passed.fields), why, now);
                    passed.forward.try_another(&mut cx.rng, now);
                }
            }
        }
        self.settle(cx, id, now);
    }

    /// Looks for stored responses of requests that are new, and begins those responses.
    fn serve_stored(&mut self, cx: &mut Cx, now: Instant) {
        let mut at = 0;
        while let Some(stream) = self.streams().get_mut(at) {
            let id = stream.id;
            if let State::Forward(passed) = &mut stream.state
                && passed.check.is_none()
            {
                let was_queued = passed.forward.is_queued();
                passed.forward.look_up(now);
                if was_queued && !passed.forward.is_queued() {
                    // The disk, or the request of another client, is not awaited as long as a connection.
                    passed.rewind(&cx.state.limits, now);
                }
                if passed.forward.has_reply() {
                    self.received(cx, at, Some(&[]), now);
                }
            }
            // A response without content ends its stream at once.
            at = match self.streams().binary_search_by(|stream| stream.id.cmp(&id)) {
                Ok(at) => at + 1,
                Err(next) => next,
            };
        }
    }

    /// An upstream may be connected now: the client may send its body.
    fn connected(&mut self, cx: &mut Cx, at: usize, now: Instant) {
        let stream = &mut self.streams()[at];
        let id = stream.id;
        if let State::Forward(passed) = &mut stream.state
            && passed.connected(now)
            && std::mem::take(&mut passed.expects)
        {
            self.invite(cx, id);
        }
    }

    /// Passes on what came from an upstream; `None`: it closed its half.
    fn received(&mut self, cx: &mut Cx, at: usize, bytes: Option<&[u8]>, now: Instant) {
        let Parts {
            frames,
            streams,
            client,
            ..
        } = self.parts();
        let stream = &mut streams[at];
        let id = stream.id;
        let State::Forward(passed) = &mut stream.state else {
            return;
        };
        let before = passed.ready();
        let forward = &mut passed.forward;
        let (began, ended, heads) = (forward.has_begun(), forward.has_ended(), forward.head_bytes);
        let mut down = Downstream {
            frames,
            id,
            around: Around {
                date: cx.clock.date_line(),
                hsts: match client.is_secured() {
                    true => &cx.state.secured_lines,
                    false => b"",
                },
            },
            is_prioritized: passed.fields.iter().any(|(name, _)| name == b"priority"),
            is_whole: false,
            lines: Vec::new(),
            priority: None,
            trailers: None,
        };
        let failed = match bytes {
            Some(bytes) => forward.received(bytes, &mut down, now),
            None => forward.ended_by_upstream(now),
        };
        if let Some(why) = failed {
            complain(forward, path(&passed.fields), why, now);
            forward.try_another(&mut cx.rng, now);
        }
        let priority = down.priority;
        let (mut frames, trailers, is_whole) = down.into_frames();
        if let Some(why) = forward.take_stood_in_for() {
            complain(forward, path(&passed.fields), why, now);
        }
        let heads = forward.head_bytes - heads;
        let begins = forward.has_begun() && !began;
        let ends = forward.has_ended() && !ended;
        let fresh = passed.ready() - before;
        passed.trailers = trailers.or(passed.trailers.take());
        passed.feed();
        if let Some(repeat) = passed.forward.take_repeat() {
            again::keep(cx, client, passed, id.into(), repeat, priority);
        }
        if begins {
            cx.counters.answered(passed.forward.status);
            cx.answered(passed.started);
        }
        if is_whole {
            passed.log(cx, client, id.into(), &mut stream.slot);
        }
        let has_failed = passed.forward.failed().is_some();
        let has_ended = passed.forward.has_ended() && passed.ready() == 0;
        let has_trailers = passed.trailers.is_some();
        if !is_whole && !has_failed {
            if fresh > 0 {
                let is_ready = frames.ready(id, fresh as u64);
                debug_assert!(is_ready, "stream {} has no head", id.into());
            }
            if ends && !has_trailers {
                let is_finished = frames.finish(id);
                debug_assert!(is_finished, "stream {} has no head", id.into());
            }
        }
        drop(frames);
        if heads > 0 {
            self.gave(cx, at, heads.into(), is_whole);
        }
        if is_whole {
            return self.end(cx, id, now);
        }
        if !has_failed && has_trailers && has_ended {
            return self.send_trailers(cx, at, now);
        }
        self.settle(cx, id, now);
    }

    /// Content of the response at this place was given out, and its end if `is_last`. What follows if it was the last that
    /// was ready.
    fn went(&mut self, cx: &mut Cx, at: usize, bytes: u64, is_last: bool, now: Instant) {
        let Parts { streams, client, .. } = self.parts();
        let stream = &mut streams[at];
        let id = stream.id;
        let State::Forward(passed) = &mut stream.state else {
            return;
        };
        let ends_with_trailers = passed.forward.has_ended() && passed.ready() == 0;
        if is_last {
            passed.log(cx, client, id.into(), &mut stream.slot);
        } else if !ends_with_trailers {
            passed.rewind(&cx.state.limits, now);
        }
        self.gave(cx, at, bytes, is_last);
        if is_last {
            self.end(cx, id, now);
        } else if ends_with_trailers {
            self.send_trailers(cx, at, now);
        }
    }

    /// Ends a response with its trailer section, if it has one: all content was sent.
    fn send_trailers(&mut self, cx: &mut Cx, at: usize, now: Instant) {
        let Parts {
            mut frames,
            streams,
            client,
            ..
        } = self.parts();
        let stream = &mut streams[at];
        let id = stream.id;
        let State::Forward(passed) = &mut stream.state else {
            return;
        };
        let Some(block) = passed.trailers.take() else {
            return;
        };
        let bytes = framed::<Self::Frames<'_>>(&block).into();
        passed.forward.body_bytes += bytes;
        passed.log(cx, client, id.into(), &mut stream.slot);
        let is_sent = frames.trailers(id, &block);
        debug_assert!(is_sent, "stream {} has content, or has ended", id.into());
        drop(frames);
        self.gave(cx, at, bytes, true);
        self.end(cx, id, now);
    }

    /// An exchange took too long.
    fn pass_timeout(&mut self, cx: &mut Cx, id: Self::Id, now: Instant) {
        let Some(passed) = passed(self.streams(), &id) else {
            return;
        };
        if passed.forward.find_again(&mut cx.rng, now) {
            return self.settle(cx, id, now);
        }
        if passed.forward.woken(now) {
            return passed.rewind(&cx.state.limits, now);
        }
        cx.counters.timeouts().add(1);
        if let Some(why) = passed.forward.time_out(now) {
            complain(&passed.forward, path(&passed.fields), why, now);
            passed.forward.try_another(&mut cx.rng, now);
        }
        self.settle(cx, id, now);
    }

    /// Ends an exchange that failed, with the page for it or a reset. Otherwise sets its deadline anew.
    fn settle(&mut self, cx: &mut Cx, id: Self::Id, now: Instant) {
        let Parts {
            mut frames,
            streams,
            parting,
            ..
        } = self.parts();
        let Some(at) = find(streams, &id) else { return };
        let stream = &mut streams[at];
        let State::Forward(passed) = &mut stream.state else {
            return;
        };
        let Some(why) = passed.forward.failed() else {
            return passed.rewind(&cx.state.limits, now);
        };
        complain(&passed.forward, path(&passed.fields), why, now);
        let page = failure(&passed.forward, why).filter(|_| !passed.forward.has_begun());
        let Some(page) = page else {
            frames.reset(id);
            drop(frames);
            return self.forget(cx, id, Cut::Upstream, now);
        };
        let tried = (passed.forward.tried(now), passed.forward.trace.clone());
        parting.extend(passed.forward.part());
        frames.consumed(id, passed.release());
        drop(frames);
        let State::Forward(passed) = std::mem::replace(&mut stream.state, State::Gone(None)) else {
            return;
        };
        // Interim responses may have gone out.
        let mut slot = std::mem::replace(&mut stream.slot, Slot::NONE);
        self.release(slot);
        let _ = cx.journal.lost(&mut slot, Cut::Upstream, now);
        let (fields, started) = (passed.fields, passed.started);
        let asked = asked::<Self>(self.parts().client, id);
        let outcome = match Control::of(&fields) {
            Some(control) => ask::stand_in(cx, asked, (&control, &fields), page, tried, started),
            None => ask::refuse(cx, asked, page, started),
        };
        self.follow(cx, id, outcome, Some(fields), now);
    }

    /// A request that has a route was checked: it is passed on, checked again, or answered otherwise.
    #[cold]
    fn checked(&mut self, cx: &mut Cx, id: Self::Id, loaded: Loaded, now: Instant) {
        let Parts {
            streams,
            parting,
            client,
            ..
        } = self.parts();
        let Some(at) = find(streams, &id) else { return };
        let State::Forward(passed) = &mut streams[at].state else {
            return;
        };
        let Some(check) = passed.check.take() else {
            return;
        };
        let (mut exchange, _) = *check;
        let entry = exchange.found(cx, loaded);
        match ask::admit(cx, asked::<Self>(client, id), &mut exchange, &passed.fields) {
            Admission::Open(vouched) => {
                passed.forward.vouch(vouched);
                passed.rewind(&cx.state.limits, now);
                return self.welcome(cx, id);
            }
            Admission::Check(work) => {
                passed.check = Some(Box::new((exchange, Some(work))));
                return;
            }
            Admission::Refused => {}
        }
        let State::Forward(mut passed) = std::mem::replace(&mut streams[at].state, State::Gone(None)) else {
            return;
        };
        parting.extend(passed.forward.part());
        self.parts().frames.consumed(id, passed.release());
        let fields = passed.fields;
        let asked = asked::<Self>(self.parts().client, id);
        let outcome = ask::resume(cx, asked, exchange, Some(&fields), |_, _| entry);
        self.follow(cx, id, outcome, Some(fields), now);
    }
}

/// A request on this stream.
fn asked<C: Forwarding + ?Sized>(client: &Client, id: C::Id) -> Ask<'_> {
    Ask {
        client,
        stream: id.into(),
        protocol: C::PROTOCOL,
    }
}

/// The path of a request.
fn path(fields: &compression::Fields) -> &[u8] {
    let target = fields.iter().find(|(name, _)| *name == b":path");
    gateway::path(target.map_or(b"", |(_, target)| target))
}
