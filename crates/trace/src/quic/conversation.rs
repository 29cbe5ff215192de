//! One QUIC connection as its datagrams pass: headers, the handshake, and, with secrets, frames.
//!
//! It observes only: nothing is checked that a peer would have to check. A packet that cannot be opened is counted, and leaves
//! what it holds unknown.

use super::frame::{self, hex};
use super::header::{self, Packet, PacketKind};
use super::http3::Http3;
use super::log;
use super::offload::Offload;
use super::pauses::Pauses;
use super::protect::{Closed, Opened, Protection, Session, Space};
use super::recovery::{self, Flight, report};
use super::shake::Handshake;
use super::spin::Spin;
use super::streams::{Piece, Streams};
use crate::connection::{ConnectionId, End, Side};
use crate::context::Context;
use crate::event::Event;
use crate::finding::Kind;
use crate::packet::Endpoint;
use crate::quic_facts::{Close, ErrorSpace, Quic, QuicDirection, QuicFrame};
use crate::times::Stamp;
use crate::tls::Decryption;
use crate::volume::DatagramVolume;
use core::time::Duration;

/// Limit on the versions kept of a Version Negotiation packet.
const VERSIONS_MAX: usize = 16;
/// Limit on the bytes of packets that wait for their keys, per connection.
const HELD_MAX: usize = 64 << 10;

/// A packet that came before its key.
#[derive(Debug)]
struct Held {
    side: Side,
    at: Stamp,
    bytes: Vec<u8>,
}

/// State of one direction.
#[derive(Debug, Default)]
struct Half {
    /// Connection ID that this end chose last: its length is that of the peer's short headers.
    id: Vec<u8>,
    totals: QuicDirection,
    spin: Spin,
    flight: Flight,
    pauses: Pauses,
    /// Packet number expected next in the application space, once there was one: some ends number all spaces in one sequence.
    expected: Option<u64>,
    /// Numbers below it that did not come.
    missing: u64,
    /// Whether the kernel joined datagrams, and how long each was.
    offload: Offload,
}

/// The observer of one connection.
#[derive(Debug)]
pub(crate) struct Conversation {
    id: ConnectionId,
    facts: Quic,
    started: Stamp,
    last: Stamp,
    /// Connection ID that makes the Initial keys.
    original: Vec<u8>,
    /// Packet of the server's Retry.
    retry: Option<Stamp>,
    halves: [Half; 2],
    protection: Protection,
    handshake: Handshake,
    streams: Streams,
    http: Option<Http3>,
    held: Vec<Held>,
    held_bytes: usize,
    datagrams: u64,
}

impl Conversation {
    /// An observer of a connection that begins with the datagram at `now`.
    pub(crate) fn new(id: ConnectionId, (client, server): (Endpoint, Endpoint), now: Stamp) -> Conversation {
        Conversation {
            id,
            facts: Quic::new(id, (client, server), now.1),
            started: now,
            last: now,
            original: Vec::new(),
            retry: None,
            halves: [Half::default(), Half::default()],
            protection: Protection::default(),
            handshake: Handshake::default(),
            streams: Streams::default(),
            http: None,
            held: Vec::new(),
            held_bytes: 0,
            datagrams: 0,
        }
    }

    /// Whether a datagram of the client opens another connection between the ends: this one has been closed.
    pub(crate) fn is_reopened_by(&self, datagram: &[u8]) -> bool {
        let is_other = |packet: Packet<'_>| {
            packet.kind == PacketKind::Initial
                && packet.destination != self.original
                && packet.destination != self.halves[1].id
        };
        self.facts.close.is_some() && header::next(datagram, 0).is_some_and(|(packet, _)| is_other(packet))
    }

    /// Reads a datagram of `side`. `payload_len` is its length on the wire.
    pub(crate) fn datagram(&mut self, side: Side, payload: &[u8], payload_len: u32, cx: &mut Context<'_>) {
        cx.connection = self.id;
        self.datagrams += 1;
        self.last = (cx.at.max(self.last.0), cx.number);
        self.facts.packets.1 = cx.number;
        let (mut rest, mut packets) = (payload, 0);
        while !rest.is_empty() {
            let id_len = self.halves[side.peer() as usize].id.len();
            let Some((packet, behind)) = header::next(rest, id_len) else {
                break;
            };
            packets += 1;
            if packet.kind == PacketKind::OneRtt && (payload.len() as u32) < payload_len {
                // A short header has no length: the packet ends with the datagram, whose end was not captured.
                self.halves[side as usize].totals.one_rtt += 1;
                self.halves[side as usize].totals.not_authentic += 1;
                break;
            }
            let used = self.packet(side, &packet, cx);
            rest = match used {
                Some(used) => &rest[used..],
                None => behind,
            };
        }
        self.facts.coalesced += u64::from(packets > 1);
    }

    /// Reads a packet. Returns its length if that is less than the rest of the datagram, which has no other way to tell.
    fn packet(&mut self, side: Side, packet: &Packet<'_>, cx: &mut Context<'_>) -> Option<usize> {
        let now = (cx.at, cx.number);
        self.count(side, packet, now, cx);
        let mut used = None;
        if Space::of(packet.kind).is_some() {
            match self.open(side, packet, cx) {
                Ok(opened) => self.opened(side, packet, &opened, cx),
                Err(Closed::NoKey) => {
                    if !self.hold(side, packet, now, cx) {
                        self.log(side, packet, cx);
                    }
                }
                Err(Closed::NotAuthentic) => {
                    used = self.joined(side, packet, cx);
                    if used.is_none() {
                        self.halves[side as usize].totals.not_authentic += 1;
                        self.log(side, packet, cx);
                    }
                }
            }
        } else {
            self.log(side, packet, cx);
        }
        used
    }

    /// Counts a packet by what its header shows.
    fn count(&mut self, side: Side, packet: &Packet<'_>, now: Stamp, cx: &mut Context<'_>) {
        if self.facts.offered_version == 0 && packet.version != 0 {
            self.facts.offered_version = packet.version;
            self.facts.version = packet.version;
            self.facts.original_id = hex(packet.destination);
            self.original = packet.destination.to_vec();
        }
        let half = &mut self.halves[side as usize];
        let totals = &mut half.totals;
        match packet.kind {
            PacketKind::Initial => totals.initial += 1,
            PacketKind::ZeroRtt => totals.zero_rtt += 1,
            PacketKind::Handshake => totals.handshake += 1,
            PacketKind::OneRtt => {
                totals.one_rtt += 1;
                half.spin.bit(packet.bytes[0] & 0x20 != 0, now.0);
                if side == Side::Client && self.facts.handshake.is_none() && totals.initial > 0 {
                    self.facts.handshake = Some(now.0.since(self.started.0));
                }
                return;
            }
            PacketKind::Retry => {
                if side == Side::Server && !self.facts.retried {
                    self.facts.retried = true;
                    self.retry = Some(now);
                }
            }
            PacketKind::VersionNegotiation => {
                self.facts.supported_versions = header::versions(packet, VERSIONS_MAX);
                let kind = Kind::VersionNegotiation {
                    offered: self.facts.offered_version,
                };
                let cost = now.0.since(self.started.0);
                cx.finding(Side::Server, now.0, cost, &[self.started.1, now.1], kind);
            }
            PacketKind::Foreign => {}
        }
        if matches!(packet.kind, PacketKind::Initial | PacketKind::Handshake) {
            self.facts.handshake_last = Some(now.0.since(cx.start));
            self.facts.version = packet.version;
            half.id = packet.source.to_vec();
            let known = match side {
                Side::Client => &mut self.facts.client_id,
                Side::Server => &mut self.facts.server_id,
            };
            if known.is_empty() {
                *known = hex(packet.source);
            }
        }
        if side == Side::Client && packet.kind == PacketKind::Initial {
            if let Some((at, number)) = self.retry.take() {
                // RFC 9001, section 5.2: the keys follow from the connection ID that the Retry packet gave.
                self.original = packet.destination.to_vec();
                self.handshake.restart(cx.budget);
                self.halves[side as usize]
                    .flight
                    .discard(Space::Initial, cx.budget);
                let cost = now.0.since(self.started.0);
                let packets = [self.started.1, number, now.1];
                cx.finding(Side::Server, at, cost, &packets, Kind::QuicRetry);
            } else if self.halves.iter().all(|half| half.totals.opened == 0) {
                self.original = packet.destination.to_vec();
            }
        }
    }

    fn open(&mut self, side: Side, packet: &Packet<'_>, cx: &Context<'_>) -> Result<Opened, Closed> {
        let session = Session {
            version: self.facts.version,
            random: self.facts.client_hello.as_ref().map(|hello| &hello.random),
            server: self.facts.server_hello.as_ref(),
        };
        self.protection
            .open(side, packet, &self.original, session, cx.keys)
    }

    /// A packet that is not authentic may be several datagrams that the sender's kernel had not yet cut. Opens the first one and
    /// returns its length.
    fn joined(&mut self, side: Side, packet: &Packet<'_>, cx: &mut Context<'_>) -> Option<usize> {
        if packet.kind != PacketKind::OneRtt {
            return None;
        }
        let lengths = self.halves[side as usize].offload.lengths(packet.bytes.len());
        for len in lengths {
            let one = Packet {
                bytes: &packet.bytes[..len],
                ..*packet
            };
            if let Ok(opened) = self.open(side, &one, cx) {
                self.halves[side as usize].offload.found(len);
                self.opened(side, &one, &opened, cx);
                return Some(len);
            }
        }
        self.halves[side as usize].offload.failed();
        None
    }

    /// Keeps a packet until its key is known, if it may come. Returns whether it is kept.
    fn hold(&mut self, side: Side, packet: &Packet<'_>, at: Stamp, cx: &mut Context<'_>) -> bool {
        let may_come = (!cx.keys.is_empty() || cx.keys.grows()) && cx.keys.suites().is_some();
        let len = packet.bytes.len();
        let is_kept = may_come && self.held_bytes + len <= HELD_MAX && cx.budget.hold(len);
        if is_kept {
            self.held_bytes += len;
            self.held.push(Held {
                side,
                at,
                bytes: packet.bytes.to_vec(),
            });
        }
        is_kept
    }

    /// Reads the packets that waited, as far as their keys are known now.
    fn replay(&mut self, cx: &mut Context<'_>) {
        if self.held.is_empty() {
            return;
        }
        let (at, number) = (cx.at, cx.number);
        let mut waiting = Vec::new();
        for held in core::mem::take(&mut self.held) {
            let id_len = self.halves[held.side.peer() as usize].id.len();
            let opened = header::next(&held.bytes, id_len)
                .map(|(packet, _)| (packet, self.open(held.side, &packet, cx)));
            let Some((packet, Ok(opened))) = opened else {
                waiting.push(held);
                continue;
            };
            self.held_bytes -= held.bytes.len();
            cx.budget.release(held.bytes.len());
            (cx.at, cx.number) = held.at;
            self.opened(held.side, &packet, &opened, cx);
        }
        (cx.at, cx.number) = (at, number);
        waiting.append(&mut self.held);
        self.held = waiting;
    }

    /// Reads the frames of an opened packet.
    fn opened(&mut self, side: Side, packet: &Packet<'_>, opened: &Opened, cx: &mut Context<'_>) {
        let Some(space) = Space::of(packet.kind) else {
            return;
        };
        let now = (cx.at, cx.number);
        self.order(side, space, opened.number);
        let (mut rest, mut frames) = (&opened.payload[..], Vec::new());
        let before = cx.events.len();
        let (mut is_eliciting, mut pieces) = (false, Vec::new());
        let mut messages = false;
        while !rest.is_empty() {
            let Some((frame, data, behind)) = frame::next(rest) else {
                break;
            };
            let length = (rest.len() - behind.len()) as u64;
            rest = behind;
            is_eliciting |= frame::is_eliciting(&frame);
            messages |= self.frame(side, space, &frame, data, opened.number, &mut pieces, cx);
            if cx.logs {
                frames.push((frame, length));
            }
        }
        if is_eliciting {
            let half = &mut self.halves[side as usize];
            half.flight.sent(space, opened.number, now, pieces, cx.budget);
            half.pauses.idle_since = None;
        }
        if cx.logs {
            // Ahead of what its frames brought.
            let event = log::event((self.id, side), packet, Some(opened.number), frames, cx);
            cx.events.insert(before, event);
        }
        if messages {
            self.shaken(cx);
            self.replay(cx);
        }
    }

    /// Counts a packet number.
    fn order(&mut self, side: Side, space: Space, number: u64) {
        let half = &mut self.halves[side as usize];
        half.totals.opened += 1;
        if space == Space::Application {
            let expected = half.expected.unwrap_or(number);
            if number < expected {
                half.totals.out_of_order += 1;
                half.missing = half.missing.saturating_sub(1);
            } else {
                half.missing += number - expected;
                half.expected = Some(number + 1);
            }
        }
    }

    /// Acts on a frame. Returns whether it brought a handshake message.
    #[allow(clippy::too_many_arguments, reason = "a frame and the packet around it")]
    fn frame(
        &mut self,
        side: Side,
        space: Space,
        frame: &QuicFrame,
        data: &[u8],
        number: u64,
        pieces: &mut Vec<recovery::Piece>,
        cx: &mut Context<'_>,
    ) -> bool {
        let now = (cx.at, cx.number);
        match frame {
            QuicFrame::Crypto { offset, .. } => {
                let to = offset + data.len() as u64;
                let stream = u64::MAX - space as u64;
                let piece = recovery::Piece {
                    stream,
                    from: *offset,
                    to,
                };
                let arrival = self.handshake.take(side, space, *offset, data, cx.budget);
                if arrival.again > 0 {
                    self.again(side, space, piece, cx);
                }
                pieces.push(piece);
                return arrival.fresh > 0;
            }
            QuicFrame::Stream {
                stream_id,
                offset,
                fin,
                ..
            } => {
                let piece = recovery::Piece {
                    stream: *stream_id,
                    from: *offset,
                    to: offset + data.len() as u64,
                };
                let frame = Piece {
                    stream: *stream_id,
                    offset: *offset,
                    fin: *fin,
                    data,
                    number,
                };
                self.stream(side, space, frame, piece, cx);
                pieces.push(piece);
            }
            QuicFrame::Ack { acked_ranges, .. } => {
                self.halves[side as usize].totals.acks += 1;
                let sender = &mut self.halves[side.peer() as usize];
                let acked = sender.flight.acked(space, acked_ranges, now, cx.budget);
                sender.totals.spurious += acked.spurious;
                if let Some(rtt) = acked.rtt {
                    sender.totals.rtt.record(rtt);
                }
                if acked.emptied {
                    sender.pauses.idle_since = Some(now);
                }
            }
            QuicFrame::MaxData { maximum } => {
                self.streams.windows[side.peer() as usize].raise(*maximum, now);
            }
            QuicFrame::MaxStreamData { stream_id, maximum } => {
                self.streams.raise(side, *stream_id, *maximum, now);
            }
            QuicFrame::DataBlocked { .. }
            | QuicFrame::StreamDataBlocked { .. }
            | QuicFrame::StreamsBlocked { .. } => self.halves[side as usize].totals.blocked += 1,
            // A short header does not say how long its connection ID is, so ends choose one length for all of theirs.
            QuicFrame::NewConnectionId { .. } if !data.is_empty() => {
                self.halves[side as usize].id = data.to_vec();
            }
            QuicFrame::ResetStream {
                stream_id,
                error_code,
                ..
            }
            | QuicFrame::StopSending {
                stream_id,
                error_code,
            } => {
                if let Some(http) = &mut self.http {
                    http.reset(side, *stream_id, *error_code, self.datagrams, cx);
                }
            }
            QuicFrame::ConnectionClose {
                error_space,
                error_code,
                reason,
            } => {
                let close = Close {
                    by: side,
                    space: *error_space,
                    code: *error_code,
                    reason: reason.clone(),
                };
                if self.facts.close.is_none() {
                    if is_error(&close) {
                        let kind = Kind::QuicError {
                            space: close.space,
                            code: close.code,
                        };
                        cx.finding(side, now.0, Duration::ZERO, &[now.1], kind);
                    }
                    self.facts.close = Some(close);
                }
            }
            _ => {}
        }
        false
    }

    fn stream(
        &mut self,
        side: Side,
        space: Space,
        frame: Piece<'_>,
        piece: recovery::Piece,
        cx: &mut Context<'_>,
    ) {
        let now = (cx.at, cx.number);
        let half = &self.halves[side as usize];
        let idle = half.pauses.idle_since;
        let (has_gaps, is_whole) = (half.missing > 0, half.missing == 0 && !half.flight.is_partial);
        let was_blocked = self.streams.is_blocked(side, frame.stream);
        let is_answering = side == Side::Server
            && self
                .http
                .as_ref()
                .is_some_and(|http| http.is_answering(frame.stream));
        let taken = self.streams.take(side, frame, has_gaps, now, cx.budget);
        if taken.arrival.again > 0 {
            self.again(side, space, piece, cx);
        }
        if let Some(hole) = taken.filled {
            let half = &mut self.halves[side as usize];
            half.totals.lost_before += 1;
            let ended = half.flight.filled(hole, now);
            report(side, ended, cx);
        }
        if let (Some(idle), true, true, false) = (idle, is_answering, is_whole, was_blocked)
            && taken.arrival.fresh > 0
            && taken.continues
        {
            let rtt = self.halves[side.peer() as usize].totals.rtt;
            self.halves[side as usize].pauses.end(idle, now, &rtt);
        }
        if self.http.is_none()
            && self
                .facts
                .alpn
                .as_ref()
                .is_some_and(|protocol| protocol.starts_with("h3"))
        {
            self.http = Some(Http3::new());
        }
        let Some(http) = &mut self.http else {
            return;
        };
        if !taken.ready.is_empty() {
            http.bytes(side, frame.stream, &taken.ready, (now, self.datagrams), cx);
        }
        if taken.ends {
            http.end(side, frame.stream, self.datagrams, cx);
        }
    }

    /// Data was sent again.
    fn again(&mut self, side: Side, space: Space, piece: recovery::Piece, cx: &mut Context<'_>) {
        let half = &mut self.halves[side as usize];
        let (lost, ended) = half.flight.again(space, piece, (cx.at, cx.number), cx.budget);
        half.totals.lost += u64::from(lost);
        report(side, ended, cx);
    }

    /// Takes what handshake messages say.
    fn shaken(&mut self, cx: &mut Context<'_>) {
        let now = (cx.at, cx.number);
        let news = self.handshake.read();
        for (side, values) in news.parameters {
            self.streams.permit(side, values, now);
            if cx.logs {
                cx.events.push_back(log::parameters((self.id, side), values, cx));
            }
        }
        if let Some(hello) = news.client_hello {
            if let (Some((_, first)), Some((_, asked))) =
                (self.handshake.first_hello, self.handshake.asked.take())
            {
                let cost = now.0.since(self.started.0);
                cx.finding(
                    Side::Server,
                    now.0,
                    cost,
                    &[first, asked, now.1],
                    Kind::HelloRetry,
                );
            }
            self.handshake.first_hello.get_or_insert(now);
            self.facts.client_hello = Some(hello);
        }
        if let Some(hello) = news.server_hello {
            if hello.is_retry {
                self.handshake.asked = Some(now);
            } else {
                self.facts.server_hello = Some(hello);
            }
        }
        if news.alpn.is_some() {
            self.facts.alpn = news.alpn;
        }
        if news.finished {
            self.facts.handshake = Some(now.0.since(self.started.0));
        }
    }

    /// A packet that was not opened.
    fn log(&self, side: Side, packet: &Packet<'_>, cx: &mut Context<'_>) {
        if cx.logs {
            let event = log::event((self.id, side), packet, None, Vec::new(), cx);
            cx.events.push_back(event);
        }
    }

    /// Whether the records of this connection are decrypted, as far as there are any.
    fn decryption(&self, cx: &Context<'_>) -> Decryption {
        let short: u64 = self.halves.iter().map(|half| half.totals.one_rtt).sum();
        let is_open = self.halves.iter().any(|half| half.expected.is_some());
        if is_open {
            return Decryption::Done;
        }
        if cx.keys.is_empty() || cx.keys.suites().is_none() || short == 0 {
            return Decryption::NotTried;
        }
        let hello = self.facts.server_hello.as_ref();
        match hello.map(|hello| hello.cipher_suite) {
            Some(0x1304 | 0x1305) => Decryption::UnknownSuite,
            _ => Decryption::NoSecrets,
        }
    }

    /// Ends the connection and reports it.
    pub(crate) fn finish(mut self: Box<Self>, end: End, volumes: [DatagramVolume; 2], cx: &mut Context<'_>) {
        cx.connection = self.id;
        (cx.at, cx.number) = self.last;
        self.replay(cx);
        for held in core::mem::take(&mut self.held) {
            (cx.at, cx.number) = held.at;
            let id_len = self.halves[held.side.peer() as usize].id.len();
            if let Some((packet, _)) = header::next(&held.bytes, id_len) {
                self.log(held.side, &packet, cx);
            }
        }
        (cx.at, cx.number) = self.last;
        cx.budget.release(core::mem::take(&mut self.held_bytes));
        if let Some(http) = &mut self.http {
            http.finish(self.datagrams, cx);
            self.facts.http = http.counts();
        }
        for side in [Side::Client, Side::Server] {
            self.close(side, cx);
        }
        self.handshake.finish(cx.budget);
        self.facts.decryption = self.decryption(cx);
        let mut facts = self.facts;
        let [client, server] = &mut self.halves;
        facts.streams = self
            .streams
            .finish(cx.start, [&mut client.totals, &mut server.totals], cx.budget);
        facts.streams_seen = self.streams.seen;
        for (half, volume) in self.halves.iter_mut().zip(volumes) {
            half.totals.volume = volume;
            half.totals.spin = half.spin.round_trips(half.totals.one_rtt);
        }
        facts.start = self.started.0.since(cx.start);
        facts.duration = self.last.0.since(self.started.0);
        facts.end = if facts.close.is_some() { End::Closed } else { end };
        facts.key_updates = self.protection.updates;
        facts.from_client = self.halves[0].totals;
        facts.from_server = self.halves[1].totals;
        cx.meter.quic(&facts);
        cx.events.push_back(Event::Quic(Box::new(facts)));
    }

    /// Reports what one direction lost.
    fn close(&mut self, side: Side, cx: &mut Context<'_>) {
        let (at, _) = self.last;
        self.halves[side as usize].totals.flow_control = self.streams.waited(side);
        let waits = self
            .streams
            .each_window(side)
            .map(|(id, window)| (Some(id), *window));
        let connection = (None, self.streams.windows[side as usize]);
        for (stream, window) in core::iter::once(connection).chain(waits).collect::<Vec<_>>() {
            if window.total >= cx.thresholds.delayed_ack {
                let (_, from, to) = window.longest;
                let kind = Kind::QuicFlowControl {
                    stream,
                    waits: window.waits,
                };
                cx.finding(side, at, window.total, &[from, to], kind);
            }
        }
        let half = &mut self.halves[side as usize];
        let ended = half.flight.finish(cx.budget);
        report(side, ended, cx);
        let pauses = &self.halves[side as usize].pauses;
        if pauses.count > 0 {
            let (_, from, to) = pauses.longest;
            let kind = Kind::ApplicationLimited { pauses: pauses.count };
            cx.finding(side, at, pauses.total, &[from, to], kind);
        }
    }
}

/// Whether a CONNECTION_CLOSE tells an error: NO_ERROR, and H3_NO_ERROR of an application, do not.
fn is_error(close: &Close) -> bool {
    match close.space {
        ErrorSpace::Transport => close.code != 0,
        ErrorSpace::Application => close.code != 0 && close.code != 0x100,
    }
}
