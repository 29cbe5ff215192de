//! HTTP/2 as observed on the wire: one transaction per stream, from the frames of both directions.
//!
//! Frames and field compression are read by the crate `http2`; nothing is checked here that a peer would have to check.
//! Compression makes each field block depend on all earlier ones. So if bytes are missing outside the content of DATA,
//! or a block does not decompress, this direction is given up with a finding, and the other one goes on.

mod blocking;
mod half;
mod reader;
mod window;

use crate::budget::Budget;
use crate::connection::Side;
use crate::context::Context;
use crate::finding::Kind;
pub(crate) use crate::finding::Undecodable as Cause;
use crate::times::Stamp;
use crate::transaction::{HttpCounts, Reset, TARGET_MAX, Transaction};
use blocking::Hole;
use core::time::Duration;
use half::{Block, Half};
use http2::frame::{Frame, HEADER, Header, Setting, Settings, flag};
use http2::hpack::Fields;
use http2::priority::Priority;
use reader::{Data, Item, Reader, Take};
use std::collections::BTreeMap;
use units::Instant;
use window::{Flow, Windows};

/// Limit on open streams that are followed, per connection.
const STREAMS_MAX: usize = 1024;
/// Share of the common budget per open stream: the record and the target's bytes.
const STREAM_BYTES: usize = 640;
/// Limit on the bytes of a method that are kept.
const METHOD_MAX: usize = 32;

/// When the bytes of a piece came, and when they could be read. A piece is a segment or the content of a TLS record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Arrival of its first byte.
    pub(crate) begun: Stamp,
    /// Arrival of its latest byte.
    pub(crate) came: Stamp,
    /// Arrival of the last byte before or in the piece.
    pub(crate) here: Stamp,
    /// Packets of the connection so far.
    pub(crate) packets: u64,
}

/// An open stream with its request.
#[derive(Debug)]
struct Open {
    transaction: Transaction,
    started: Instant,
    request_last: Instant,
    request_ended: bool,
    response_first: Option<Instant>,
    response_ended: bool,
    packets_before: u64,
    /// Flow control of the client's content and of the server's.
    flows: [Flow; 2],
}

/// The HTTP/2 observer of one connection.
#[derive(Debug)]
pub(crate) struct Conversation {
    halves: [Half; 2],
    open: BTreeMap<u32, Open>,
    /// The highest stream seen that each end initiated.
    highest: [u32; 2],
    fields: Fields,
    moment: Moment,
    counts: HttpCounts,
    windows: [Windows; 2],
    hole: Hole,
}

impl Conversation {
    /// An observer behind the client's preface, at the start of the server's bytes.
    pub(crate) fn new() -> Conversation {
        let never = (Instant::ZERO, 0);
        Conversation {
            halves: [Half::new(), Half::new()],
            open: BTreeMap::new(),
            highest: [0, 0],
            fields: Fields::default(),
            moment: Moment {
                begun: never,
                came: never,
                here: never,
                packets: 0,
            },
            counts: HttpCounts::default(),
            windows: [Windows::new(); 2],
            hole: Hole::default(),
        }
    }

    pub(crate) fn counts(&self) -> HttpCounts {
        self.counts
    }

    /// Whether `side` is no longer decoded.
    pub(crate) fn is_lost(&self, side: Side) -> bool {
        self.halves[side as usize].is_lost
    }

    /// Whether no further byte can change the result.
    pub(crate) fn is_over(&self) -> bool {
        self.halves.iter().all(|half| half.is_lost) && self.open.is_empty()
    }

    /// Number of open streams, and when the oldest request began.
    pub(crate) fn waiting(&self) -> (u32, Option<Instant>) {
        if self.is_lost(Side::Server) {
            return (0, None);
        }
        let waiting = self.open.values().filter(|open| !open.response_ended);
        (
            waiting.clone().count() as u32,
            waiting.map(|open| open.started).min(),
        )
    }

    /// Reads in-order bytes of `side`.
    pub(crate) fn bytes(&mut self, side: Side, input: &[u8], moment: Moment, cx: &mut Context<'_>) {
        self.read(side, moment, cx, |reader, take| {
            reader.bytes(input, moment.begun, take)
        });
    }

    /// Skips `n` bytes of `side` that the capture lacks.
    pub(crate) fn gap(&mut self, side: Side, n: u64, moment: Moment, cx: &mut Context<'_>) {
        self.read(side, moment, cx, |reader, take| reader.gap(n, take));
    }

    /// No further byte of `side` can be read, as has been reported.
    pub(crate) fn give_up(&mut self, side: Side, moment: Moment, cx: &mut Context<'_>) {
        if !self.is_lost(side) {
            self.moment = moment;
            self.drop_side(side, cx);
        }
    }

    fn read(
        &mut self,
        side: Side,
        moment: Moment,
        cx: &mut Context<'_>,
        step: impl FnOnce(&mut Reader, &mut Take<'_>) -> Result<(), Cause>,
    ) {
        if self.is_lost(side) {
            return;
        }
        self.moment = moment;
        let mut reader = core::mem::take(&mut self.halves[side as usize].reader);
        let result = step(&mut reader, &mut |item, begun| self.item(side, item, begun, cx));
        let half = &mut self.halves[side as usize];
        half.reader = reader;
        if let Err(cause) = result.and_then(|()| half.charge(cx.budget)) {
            self.lose(side, cause, cx);
        }
    }

    /// Gives up a direction.
    fn lose(&mut self, side: Side, cause: Cause, cx: &mut Context<'_>) {
        let (at, packet) = self.moment.here;
        let kind = Kind::Http2DecodingStopped { cause };
        cx.finding(side, at, Duration::ZERO, &[packet], kind);
        self.drop_side(side, cx);
    }

    fn drop_side(&mut self, side: Side, cx: &mut Context<'_>) {
        self.halves[side as usize].drop_state(cx.budget);
        for open in self.open.values_mut() {
            // Either what is sent or what permits it is no longer known.
            open.flows.iter_mut().for_each(Flow::forget);
        }
        let streams: Vec<u32> = self.open.keys().copied().collect();
        for stream in streams {
            self.close_if_done(stream, cx);
        }
    }

    fn item(&mut self, side: Side, item: Item<'_>, begun: Stamp, cx: &mut Context<'_>) -> Result<(), Cause> {
        let half = &mut self.halves[side as usize];
        let is_continuation = matches!(item, Item::Frame(_, Frame::Continuation(_)));
        if half.is_in_block() != is_continuation {
            return Err(Cause::Malformed);
        }
        let stream = match &item {
            Item::Content { stream, .. } => *stream,
            Item::Data(data) => data.stream,
            Item::Frame(header, _) => header.stream,
        };
        if stream > 0 {
            self.hole.touch(stream, begun, &self.moment);
        }
        match item {
            Item::Content { stream, bytes } => self.content(side, stream, bytes),
            Item::Data(data) => {
                self.spend(side, data);
                if data.ends {
                    self.end(side, data.stream, cx);
                }
            }
            Item::Frame(header, frame) => return self.frame(side, header, frame, begun, cx),
        }
        Ok(())
    }

    /// Names the streams that waited for the current packet, a retransmission of `side`.
    pub(crate) fn repaired(&mut self, side: Side, cx: &mut Context<'_>) {
        if let Some((lost, waiting, (first, packet))) = self.hole.blocked(cx.number) {
            let kind = Kind::HeadOfLineBlocking { lost, waiting };
            cx.finding(side, first, cx.at.since(first), &[packet, cx.number], kind);
        }
    }

    /// A DATA frame took its length from two windows.
    fn spend(&mut self, side: Side, data: Data) {
        let windows = &mut self.windows[side as usize];
        windows.connection -= i64::from(data.length);
        if let Some(open) = self.open.get_mut(&data.stream) {
            let flow = &mut open.flows[side as usize];
            flow.window -= i64::from(data.length);
            flow.is_owed = !data.ends && !self.halves.iter().any(|half| half.is_lost);
            flow.judge(windows.connection, self.moment.here);
        }
        if windows.connection <= 0 {
            self.judge(side);
        }
    }

    /// Notes which streams of `side` must wait now.
    fn judge(&mut self, side: Side) {
        let connection = self.windows[side as usize].connection;
        for open in self.open.values_mut() {
            open.flows[side as usize].judge(connection, self.moment.here);
        }
    }

    /// `by` sent WINDOW_UPDATE.
    fn widen(&mut self, by: Side, stream: u32, bytes: u32) {
        let sender = by.peer();
        let windows = &mut self.windows[sender as usize];
        if stream == 0 {
            windows.connection += i64::from(bytes);
            self.judge(sender);
        } else if let Some(open) = self.open.get_mut(&stream) {
            let flow = &mut open.flows[sender as usize];
            flow.window += i64::from(bytes);
            flow.judge(windows.connection, self.moment.here);
        }
    }

    /// `by` sent SETTINGS.
    fn settings(&mut self, by: Side, settings: Settings<'_>) {
        for setting in settings.iter() {
            if let Ok(Setting::InitialWindowSize(bytes)) = setting {
                let sender = by.peer();
                let windows = &mut self.windows[sender as usize];
                let change = i64::from(bytes) - windows.initial;
                windows.initial = i64::from(bytes);
                for open in self.open.values_mut() {
                    open.flows[sender as usize].window += change;
                }
                self.judge(sender);
            }
        }
        if let Some(size) = self.halves[by as usize].announce(settings) {
            self.halves[by.peer() as usize].raise_table(size);
        }
    }

    /// `by` sent GOAWAY: it has processed no stream of its peer above `last`.
    fn go_away(&mut self, by: Side, last: u32, code: http2::Code, cx: &mut Context<'_>) {
        let is_refused = |stream: &&u32| **stream > last && (by == Side::Server) == (**stream % 2 == 1);
        let refused = self.open.keys().filter(is_refused).count() as u32;
        if refused > 0 || code != http2::Code::NO_ERROR {
            let (at, packet) = self.moment.here;
            let kind = Kind::GoAway {
                code: code.to_string(),
                last_stream: last,
                refused,
            };
            cx.finding(by, at, Duration::ZERO, &[packet], kind);
        }
    }

    fn frame(
        &mut self,
        side: Side,
        header: Header,
        frame: Frame<'_>,
        begun: Stamp,
        cx: &mut Context<'_>,
    ) -> Result<(), Cause> {
        let [own, peer] = match side {
            Side::Client => [0, 1],
            Side::Server => [1, 0],
        };
        let (fragment, promised) = match frame {
            Frame::Headers { fragment, .. } => (fragment, None),
            Frame::PushPromise { promised, fragment } => (fragment, Some(promised)),
            Frame::Continuation(fragment) => (fragment, None),
            Frame::Settings(settings) => {
                self.settings(side, settings);
                return Ok(());
            }
            Frame::WindowUpdate(bytes) => {
                self.widen(side, header.stream, bytes);
                return Ok(());
            }
            Frame::GoAway { last, code, .. } => {
                self.go_away(side, last, code, cx);
                return Ok(());
            }
            Frame::PriorityUpdate { stream, value } => {
                if let Some(open) = self.open.get_mut(&stream) {
                    let priority = Priority::DEFAULT.updated(value);
                    open.transaction.priority = Some(priority.value().to_owned());
                }
                return Ok(());
            }
            Frame::SettingsAck => {
                if let Some(size) = self.halves[peer].settle() {
                    self.halves[own].limit_table(size);
                }
                return Ok(());
            }
            Frame::Reset(code) => {
                self.reset(side, header.stream, code, cx);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let half = &mut self.halves[own];
        if !half.is_in_block() {
            half.begin(Block {
                stream: header.stream,
                promised,
                ends: promised.is_none() && header.has(flag::END_STREAM),
                bytes: 0,
                begun,
            });
        }
        let wire = u64::from(header.length) + HEADER as u64;
        let is_last = header.has(flag::END_HEADERS);
        if let Some(block) = half.fragment(header.stream, wire, fragment, is_last, &mut self.fields)? {
            self.head(side, block, cx);
        }
        Ok(())
    }

    /// A whole field section: a request's head, a response's, an interim one's, or trailers.
    fn head(&mut self, side: Side, block: Block, cx: &mut Context<'_>) {
        let stream = block.promised.unwrap_or(block.stream);
        match side {
            _ if block.promised.is_some() => {
                // The request of a push is the server's own; only its response follows.
                self.request(Side::Server, stream, &block, cx);
                self.end(Side::Client, stream, cx);
            }
            Side::Client => self.request(Side::Client, stream, &block, cx),
            Side::Server => self.response(stream, &block),
        }
        if block.ends {
            self.end(side, stream, cx);
        }
    }

    fn request(&mut self, opener: Side, stream: u32, block: &Block, cx: &mut Context<'_>) {
        let highest = &mut self.highest[opener as usize];
        if stream <= *highest {
            // Trailers.
            return;
        }
        *highest = stream;
        let Some(method) = value(&self.fields, b":method") else {
            return;
        };
        // CONNECT has an authority only (RFC 9113, section 8.5).
        let target = value(&self.fields, b":path").or(value(&self.fields, b":authority"));
        let (method, target) = (
            text(method, METHOD_MAX),
            text(target.unwrap_or_default(), TARGET_MAX),
        );
        let index = self.counts.requests;
        self.counts.requests += 1;
        if self.open.len() >= STREAMS_MAX || !cx.budget.hold(STREAM_BYTES) {
            self.counts.unanswered += 1;
            return;
        }
        let (started, first_packet) = block.begun;
        let here = self.moment.here;
        let transaction = Transaction {
            connection: cx.connection,
            index,
            stream: Some(stream),
            method,
            target,
            status: None,
            request_header_bytes: block.bytes,
            request_body_bytes: 0,
            response_header_bytes: 0,
            response_body_bytes: 0,
            start: started.since(cx.start),
            request: here.0.since(started),
            wait: None,
            receive: None,
            ahead: self.open.len() as u32,
            packets: 0,
            first_packet,
            last_packet: here.1,
            complete: false,
            reset: None,
            priority: priority(&self.fields),
            flow_control: None,
        };
        let open = Open {
            transaction,
            started,
            request_last: here.0,
            request_ended: false,
            response_first: None,
            response_ended: false,
            packets_before: self.moment.packets.saturating_sub(1),
            flows: self.windows.map(|windows| Flow::new(windows.initial)),
        };
        self.open.insert(stream, open);
    }

    fn response(&mut self, stream: u32, block: &Block) {
        let status = value(&self.fields, b":status")
            .and_then(|text| core::str::from_utf8(text).ok())
            .and_then(|text| text.parse::<u16>().ok())
            .filter(|status| *status >= 200);
        let Some(status) = status else {
            // An interim response, or trailers.
            return;
        };
        match self.open.get_mut(&stream) {
            Some(open) if open.response_first.is_none() => {
                let first = block.begun.0;
                open.response_first = Some(first);
                open.transaction.status = Some(status);
                open.transaction.response_header_bytes = block.bytes;
                open.transaction.wait = Some(first.since(open.request_last));
                open.receive(self.moment.here);
            }
            Some(_) => {}
            // Responses on streams seen before answer requests that were reset or not followed.
            None => {
                let opener = usize::from(stream.is_multiple_of(2));
                self.counts.unmatched_responses += u64::from(stream > self.highest[opener]);
            }
        }
    }

    fn content(&mut self, side: Side, stream: u32, bytes: u32) {
        let Some(open) = self.open.get_mut(&stream) else {
            return;
        };
        match side {
            Side::Client => {
                open.transaction.request_body_bytes += u64::from(bytes);
                open.send(self.moment.here);
            }
            Side::Server => {
                open.transaction.response_body_bytes += u64::from(bytes);
                open.receive(self.moment.here);
            }
        }
    }

    /// `side` sent END_STREAM.
    fn end(&mut self, side: Side, stream: u32, cx: &mut Context<'_>) {
        let Some(open) = self.open.get_mut(&stream) else {
            return;
        };
        match side {
            Side::Client => {
                open.request_ended = true;
                open.send(self.moment.here);
            }
            // Without a final status the response is malformed and stays incomplete.
            Side::Server => {
                open.response_ended = true;
                open.transaction.complete = open.response_first.is_some();
                open.receive(self.moment.here);
                open.transaction.packets = self.moment.packets.saturating_sub(open.packets_before);
            }
        }
        self.close_if_done(stream, cx);
    }

    fn reset(&mut self, by: Side, stream: u32, code: http2::Code, cx: &mut Context<'_>) {
        if let Some(open) = self.open.get_mut(&stream) {
            open.transaction.reset = Some(Reset {
                by,
                code: code.to_string(),
            });
            open.request_ended = true;
            open.response_ended = true;
            self.close(stream, cx);
        }
    }

    /// Reports a stream about which the capture can tell nothing more.
    fn close_if_done(&mut self, stream: u32, cx: &mut Context<'_>) {
        let [client, server] = [Side::Client, Side::Server].map(|side| self.is_lost(side));
        let is_done = |open: &Open| (open.request_ended || client) && (open.response_ended || server);
        if self.open.get(&stream).is_some_and(is_done) {
            self.close(stream, cx);
        }
    }

    fn close(&mut self, stream: u32, cx: &mut Context<'_>) {
        let Some(open) = self.open.remove(&stream) else {
            return;
        };
        cx.budget.release(STREAM_BYTES);
        let mut transaction = open.transaction;
        self.report_waits(stream, open.flows, &mut transaction, cx);
        if transaction.packets == 0 {
            transaction.packets = self.moment.packets.saturating_sub(open.packets_before);
        }
        if transaction.complete {
            self.counts.responses += 1;
        } else if self.is_lost(Side::Server) && !open.response_ended {
            self.counts.unmatched_requests += 1;
        } else {
            self.counts.unanswered += 1;
        }
        cx.transaction(transaction);
    }

    /// Reports the waits for flow control of a stream that ends.
    fn report_waits(
        &self,
        stream: u32,
        flows: [Flow; 2],
        transaction: &mut Transaction,
        cx: &mut Context<'_>,
    ) {
        let mut total = Duration::ZERO;
        for (side, mut flow) in [Side::Client, Side::Server].into_iter().zip(flows) {
            // A wait that never ended lasts until now.
            flow.is_owed = false;
            flow.judge(0, self.moment.here);
            total += flow.total;
            if flow.total >= cx.thresholds.delayed_ack {
                let (_, from, to) = flow.longest;
                let waits = flow.waits;
                let kind = Kind::StreamFlowControl { stream, waits };
                cx.finding(side, self.moment.here.0, flow.total, &[from, to], kind);
            }
        }
        transaction.flow_control = Some(total);
    }

    /// Ends the connection: open streams stay unanswered.
    pub(crate) fn finish(&mut self, packets: u64, cx: &mut Context<'_>) {
        self.moment.packets = packets;
        while let Some((&stream, _)) = self.open.first_key_value() {
            self.close(stream, cx);
        }
        self.forget(cx.budget);
    }

    /// Returns held bytes to the budget.
    fn forget(&mut self, budget: &mut Budget) {
        for half in &mut self.halves {
            half.drop_state(budget);
        }
    }
}

impl Open {
    /// Bytes of the request came.
    fn send(&mut self, here: Stamp) {
        self.request_last = here.0;
        self.transaction.request = here.0.since(self.started);
        if self.response_first.is_none() {
            self.transaction.last_packet = here.1;
        }
    }

    /// Bytes of the response came. It may begin before the request has ended; the time until then counts as the
    /// request's.
    fn receive(&mut self, here: Stamp) {
        let Some(first) = self.response_first else {
            return;
        };
        self.transaction.receive = Some(here.0.since(first.max(self.request_last)));
        self.transaction.last_packet = here.1;
    }
}

/// The priority that a request names (RFC 9218, section 5).
fn priority(fields: &Fields) -> Option<String> {
    let named = fields.iter().filter(|(name, _)| *name == b"priority");
    let priority = named.fold(None, |before: Option<Priority>, (_, value)| {
        Some(before.unwrap_or(Priority::DEFAULT).updated(value))
    });
    priority.map(|priority| priority.value().to_owned())
}

/// The value of the first field with this name.
fn value<'f>(fields: &'f Fields, name: &[u8]) -> Option<&'f [u8]> {
    let found = fields.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| value)
}

/// The beginning of a value as text.
fn text(value: &[u8], max: usize) -> String {
    String::from_utf8_lossy(&value[..value.len().min(max)]).into_owned()
}
