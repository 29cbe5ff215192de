//! HTTP/3 (RFC 9114) as observed in opened streams: one transaction per request stream. Frames and field compression are read by
//! the crate `http3`.
//!
//! Bytes of a stream come in order. A stream that lacks bytes stays incomplete; the others go on.

use super::log;
use crate::budget::Budget;
use crate::connection::Side;
use crate::context::Context;
use crate::quic_facts::MessageStart;
use crate::times::Stamp;
use crate::transaction::{HttpCounts, Reset, TARGET_MAX, Transaction};
use core::time::Duration;
use http3::frame::{Control, Item, Reader, Settings, control, kind, stream};
use http3::priority::Priority;
use http3::qpack::{Bounds, Decoder, Fields};
use std::collections::BTreeMap;
use units::Instant;

/// Limit on request streams that are followed at once, per connection.
const STREAMS_MAX: usize = 1024;
/// Limit on unidirectional streams that are followed, per connection.
const UNI_MAX: usize = 32;
/// Share of the common budget per request stream: the record and the target's bytes.
const STREAM_BYTES: usize = 768;
/// Limit on the bytes of a field section or a control frame; a longer one is skipped.
const BLOCK_MAX: usize = 64 << 10;
/// Limit on the bytes of frames that are not complete and of sections that wait, per connection.
const HELD_MAX: usize = 1 << 20;
/// Limit on the capacity of a compression table that is followed, in bytes.
const TABLE_MAX: u64 = 64 << 10;
/// Limit on the bytes of a method that are kept.
const METHOD_MAX: usize = 32;
/// Limits of a decoded field section.
const BOUNDS: Bounds = Bounds {
    bytes: BLOCK_MAX,
    fields: 512,
};

/// One direction of a stream.
#[derive(Debug, Default)]
struct Half {
    reader: Reader,
    /// Type of the current frame.
    kind: u64,
    /// Payload of a frame that is read whole.
    block: Vec<u8>,
    /// Bytes behind a section that waits.
    after: Vec<u8>,
    /// Bytes of the current frame's payload.
    length: u64,
    /// Whether a field section waits for the peer's encoder stream.
    is_blocked: bool,
    has_ended: bool,
}

#[derive(Debug)]
struct Open {
    transaction: Transaction,
    started: Instant,
    request_last: Instant,
    has_request: bool,
    response_first: Option<Instant>,
    datagrams_before: u64,
    halves: [Half; 2],
}

/// A unidirectional stream.
#[derive(Debug, Default)]
struct Uni {
    /// Bytes of the stream type that have come.
    start: Vec<u8>,
    kind: Option<u64>,
    half: Half,
}

/// The HTTP/3 observer of one connection.
#[derive(Debug)]
pub(super) struct Http3 {
    open: BTreeMap<u64, Open>,
    unis: BTreeMap<(u64, u8), Uni>,
    /// Decoders of the sections that the client and the server send.
    decoders: [Decoder; 2],
    counts: HttpCounts,
    fields: Fields,
    held: Held,
    /// Ends whose SETTINGS were read, as bits.
    tables: u8,
}

/// Bytes held in frames and tables, all of them charged to the common budget.
#[derive(Debug, Default)]
struct Held {
    buffers: usize,
    tables: usize,
}

impl Held {
    /// Appends to a buffer; `false` if a limit is reached.
    fn extend(&mut self, buffer: &mut Vec<u8>, bytes: &[u8], budget: &mut Budget) -> bool {
        let fits = buffer.len() + bytes.len() <= BLOCK_MAX
            && self.buffers + bytes.len() <= HELD_MAX
            && budget.hold(bytes.len());
        if fits {
            self.buffers += bytes.len();
            buffer.extend_from_slice(bytes);
        }
        fits
    }

    /// Takes what a buffer holds.
    fn take(&mut self, buffer: &mut Vec<u8>, budget: &mut Budget) -> Vec<u8> {
        self.buffers -= buffer.len();
        budget.release(buffer.len());
        core::mem::take(buffer)
    }
}

impl Http3 {
    pub(super) fn new() -> Http3 {
        Http3 {
            open: BTreeMap::new(),
            unis: BTreeMap::new(),
            decoders: [Decoder::new(0), Decoder::new(0)],
            counts: HttpCounts::default(),
            fields: Fields::default(),
            held: Held::default(),
            tables: 0,
        }
    }

    pub(super) fn counts(&self) -> Option<HttpCounts> {
        (self.counts.requests > 0).then_some(self.counts)
    }

    /// Whether a response is under way: the server owes bytes.
    pub(super) fn is_answering(&self, id: u64) -> bool {
        self.open
            .get(&id)
            .is_some_and(|open| open.response_first.is_some() && !open.halves[1].has_ended)
    }

    /// Reads in-order bytes of a stream. `begun` is the packet with the first of them; `datagrams` have been seen so far.
    pub(super) fn bytes(
        &mut self,
        side: Side,
        id: u64,
        input: &[u8],
        (begun, datagrams): (Stamp, u64),
        cx: &mut Context<'_>,
    ) {
        match id & 3 {
            0 => {
                if side == Side::Client
                    && !self.open.contains_key(&id)
                    && !self.admit(id, begun, datagrams, cx)
                {
                    return;
                }
                let Some(mut open) = self.open.remove(&id) else {
                    return;
                };
                self.message((side, id), &mut open, input, cx);
                self.open.insert(id, open);
            }
            2 | 3 => self.unidirectional(side, id, input, cx),
            _ => {}
        }
    }

    fn admit(&mut self, id: u64, (at, number): Stamp, datagrams: u64, cx: &mut Context<'_>) -> bool {
        if self.open.len() >= STREAMS_MAX || !cx.budget.hold(STREAM_BYTES) {
            return false;
        }
        let transaction = Transaction {
            connection: cx.connection,
            index: 0,
            stream: u32::try_from(id).ok(),
            method: String::new(),
            target: String::new(),
            status: None,
            request_header_bytes: 0,
            request_body_bytes: 0,
            response_header_bytes: 0,
            response_body_bytes: 0,
            start: at.since(cx.start),
            request: Duration::ZERO,
            wait: None,
            receive: None,
            ahead: self.open.len() as u32,
            packets: 0,
            first_packet: number,
            last_packet: number,
            complete: false,
            reset: None,
            priority: None,
            flow_control: None,
        };
        self.open.insert(
            id,
            Open {
                transaction,
                started: at,
                request_last: at,
                has_request: false,
                response_first: None,
                datagrams_before: datagrams.saturating_sub(1),
                halves: [Half::default(), Half::default()],
            },
        );
        true
    }

    /// Bytes of a request stream.
    fn message(&mut self, (side, id): (Side, u64), open: &mut Open, mut input: &[u8], cx: &mut Context<'_>) {
        let now = (cx.at, cx.number);
        match side {
            Side::Client => open.sent(now),
            Side::Server => open.received(now),
        }
        loop {
            let half = &mut open.halves[side as usize];
            if half.is_blocked {
                // What follows is read behind the section that waits. Beyond the limit the stream stays incomplete.
                self.held.extend(&mut half.after, input, cx.budget);
                return;
            }
            let (used, item) = half.reader.next(input);
            match item {
                Item::Partial => return,
                Item::Frame { kind, length } => {
                    half.kind = kind;
                    half.length = length;
                    if kind != kind::HEADERS {
                        log::http3_frame((side, id), (kind, length), None, cx);
                    }
                }
                Item::Payload(bytes) => match (half.kind, side) {
                    (kind::DATA, Side::Client) => open.transaction.request_body_bytes += bytes.len() as u64,
                    (kind::DATA, Side::Server) => open.transaction.response_body_bytes += bytes.len() as u64,
                    (kind::HEADERS, _) => {
                        self.held.extend(&mut half.block, bytes, cx.budget);
                    }
                    _ => {}
                },
                Item::End if half.kind == kind::HEADERS => {
                    let block = self.held.take(&mut half.block, cx.budget);
                    self.section((side, id), open, &block, now, cx);
                }
                Item::End => {}
            }
            input = &input[used..];
        }
    }

    /// A field section: a request's head, a response's, an interim one's, or trailers.
    fn section(
        &mut self,
        (side, id): (Side, u64),
        open: &mut Open,
        block: &[u8],
        now: Stamp,
        cx: &mut Context<'_>,
    ) {
        let decoder = &self.decoders[side as usize];
        let bytes = open.halves[side as usize].length;
        self.fields = Fields::default();
        let is_decoded = match decoder.open(block) {
            Ok(section) if section.required > decoder.inserted() => {
                let half = &mut open.halves[side as usize];
                half.is_blocked = self.held.extend(&mut half.block, block, cx.budget);
                if half.is_blocked {
                    return;
                }
                false
            }
            Ok(section) => decoder.decode(section, block, BOUNDS, &mut self.fields).is_ok(),
            Err(_) => false,
        };
        let start = is_decoded.then(|| start(&self.fields)).flatten();
        log::http3_frame((side, id), (kind::HEADERS, bytes), start, cx);
        if !is_decoded {
            return;
        }
        match side {
            Side::Client => self.request(open, bytes),
            Side::Server => self.response(open, bytes, now),
        }
    }

    fn request(&mut self, open: &mut Open, bytes: u64) {
        let Some(method) = value(&self.fields, b":method").filter(|_| !open.has_request) else {
            return;
        };
        // CONNECT has an authority only (RFC 9114, section 4.4).
        let target = value(&self.fields, b":path").or(value(&self.fields, b":authority"));
        open.transaction.method = text(method, METHOD_MAX);
        open.transaction.target = text(target.unwrap_or_default(), TARGET_MAX);
        open.transaction.request_header_bytes = bytes;
        if let Some(value) = value(&self.fields, b"priority") {
            let priority = Priority::DEFAULT.updated(value);
            open.transaction.priority = Some(priority.value().to_owned());
        }
        open.transaction.index = self.counts.requests;
        open.has_request = true;
        self.counts.requests += 1;
    }

    fn response(&mut self, open: &mut Open, bytes: u64, now: Stamp) {
        let status = value(&self.fields, b":status")
            .and_then(|text| core::str::from_utf8(text).ok())
            .and_then(|text| text.parse::<u16>().ok())
            .filter(|status| *status >= 200);
        let (Some(status), None) = (status, open.response_first) else {
            // An interim response, or trailers.
            return;
        };
        open.response_first = Some(now.0);
        open.transaction.status = Some(status);
        open.transaction.response_header_bytes = bytes;
        open.transaction.wait = Some(now.0.since(open.request_last));
        open.received(now);
    }

    fn unidirectional(&mut self, side: Side, id: u64, mut input: &[u8], cx: &mut Context<'_>) {
        let known = (id, side as u8);
        if !self.unis.contains_key(&known) && self.unis.len() >= UNI_MAX {
            return;
        }
        let mut uni = self.unis.remove(&known).unwrap_or_default();
        while uni.kind.is_none() && !input.is_empty() {
            uni.start.push(input[0]);
            input = &input[1..];
            uni.kind = http3::varint::read(&uni.start).map(|(kind, _)| kind);
        }
        match uni.kind {
            Some(stream::CONTROL) => self.control(side, &mut uni.half, input, cx.budget),
            Some(stream::QPACK_ENCODER) => {
                // A malformed instruction leaves the table as it is: sections that need more stay blocked.
                let _ = self.decoders[side as usize].instructions(input);
                self.unblock(side, cx);
            }
            _ => {}
        }
        self.unis.insert(known, uni);
    }

    fn control(&mut self, side: Side, half: &mut Half, mut input: &[u8], budget: &mut Budget) {
        loop {
            let (used, item) = half.reader.next(input);
            match item {
                Item::Partial => return,
                Item::Frame { kind, .. } => half.kind = kind,
                Item::Payload(bytes) => {
                    self.held.extend(&mut half.block, bytes, budget);
                }
                Item::End => {
                    let payload = self.held.take(&mut half.block, budget);
                    self.control_frame(side, half.kind, &payload, budget);
                }
            }
            input = &input[used..];
        }
    }

    fn control_frame(&mut self, side: Side, kind: u64, payload: &[u8], budget: &mut Budget) {
        if kind == kind::SETTINGS {
            let limit = Settings::parse(payload).map_or(0, |settings| settings.table_capacity.min(TABLE_MAX));
            // The table that an end permits holds what its peer inserts.
            if self.tables & (1 << side as u8) == 0 && budget.hold(limit as usize) {
                self.tables |= 1 << side as u8;
                self.held.tables += limit as usize;
                self.decoders[side.peer() as usize] = Decoder::new(limit as usize);
            }
        } else if let Ok(Some(Control::PriorityUpdate { stream, value })) = control(kind, payload)
            && let Some(open) = self.open.get_mut(&stream)
        {
            let priority = Priority::DEFAULT.updated(value);
            open.transaction.priority = Some(priority.value().to_owned());
        }
    }

    /// Reads the sections that waited for insertions of `side`.
    fn unblock(&mut self, side: Side, cx: &mut Context<'_>) {
        let waiting: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, open)| open.halves[side as usize].is_blocked)
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            let Some(mut open) = self.open.remove(&id) else {
                continue;
            };
            let half = &mut open.halves[side as usize];
            half.is_blocked = false;
            let block = self.held.take(&mut half.block, cx.budget);
            let after = self.held.take(&mut half.after, cx.budget);
            self.section((side, id), &mut open, &block, (cx.at, cx.number), cx);
            self.message((side, id), &mut open, &after, cx);
            self.open.insert(id, open);
        }
    }

    /// `side` ended a stream, and all its bytes have been read.
    pub(super) fn end(&mut self, side: Side, id: u64, datagrams: u64, cx: &mut Context<'_>) {
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        let now = (cx.at, cx.number);
        open.halves[side as usize].has_ended = true;
        match side {
            Side::Client => open.sent(now),
            Side::Server => {
                open.received(now);
                open.transaction.complete = open.response_first.is_some();
            }
        }
        if open.halves.iter().all(|half| half.has_ended) {
            self.close(id, datagrams, cx);
        }
    }

    /// `by` sent RESET_STREAM or STOP_SENDING.
    pub(super) fn reset(&mut self, by: Side, id: u64, code: u64, datagrams: u64, cx: &mut Context<'_>) {
        if let Some(open) = self.open.get_mut(&id) {
            if open.transaction.complete {
                // A server may refuse the rest of a request that it has answered (RFC 9114, section 4.1).
                return;
            }
            open.transaction.reset = Some(Reset {
                by,
                code: http3::Code(code).to_string(),
            });
            self.close(id, datagrams, cx);
        }
    }

    fn close(&mut self, id: u64, datagrams: u64, cx: &mut Context<'_>) {
        let Some(mut open) = self.open.remove(&id) else {
            return;
        };
        cx.budget.release(STREAM_BYTES);
        for half in &mut open.halves {
            self.held.take(&mut half.block, cx.budget);
            self.held.take(&mut half.after, cx.budget);
        }
        if !open.has_request {
            return;
        }
        let mut transaction = open.transaction;
        transaction.packets = datagrams.saturating_sub(open.datagrams_before);
        if transaction.complete {
            self.counts.responses += 1;
        } else {
            self.counts.unanswered += 1;
        }
        cx.transaction(transaction);
    }

    /// Ends the connection: open requests stay unanswered.
    pub(super) fn finish(&mut self, datagrams: u64, cx: &mut Context<'_>) {
        while let Some((&id, _)) = self.open.first_key_value() {
            self.close(id, datagrams, cx);
        }
        for uni in self.unis.values_mut() {
            self.held.take(&mut uni.half.block, cx.budget);
        }
        cx.budget.release(core::mem::take(&mut self.held.tables));
    }
}

impl Open {
    fn sent(&mut self, now: Stamp) {
        self.request_last = now.0;
        self.transaction.request = now.0.since(self.started);
        if self.response_first.is_none() {
            self.transaction.last_packet = now.1;
        }
    }

    fn received(&mut self, now: Stamp) {
        let Some(first) = self.response_first else {
            return;
        };
        self.transaction.receive = Some(now.0.since(first.max(self.request_last)));
        self.transaction.last_packet = now.1;
    }
}

/// The value of the first field with this name.
fn value<'f>(fields: &'f Fields, name: &[u8]) -> Option<&'f [u8]> {
    let found = fields.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| value)
}

/// The method or the status that a field section has.
fn start(fields: &Fields) -> Option<MessageStart> {
    let status = |value| core::str::from_utf8(value).ok()?.parse().ok();
    match (value(fields, b":method"), value(fields, b":status")) {
        (Some(method), _) => Some(MessageStart::Method(text(method, METHOD_MAX))),
        (None, Some(value)) => status(value).map(MessageStart::Status),
        (None, None) => None,
    }
}

/// The beginning of a value as text.
fn text(value: &[u8], max: usize) -> String {
    String::from_utf8_lossy(&value[..value.len().min(max)]).into_owned()
}
