//! Packets, transport parameters and frames of HTTP/3 as events.

use super::frame::hex;
use super::header::{Packet, PacketKind};
use crate::connection::{ConnectionId, Side};
use crate::context::Context;
use crate::event::Event;
use crate::quic_facts::{
    Http3Frame, MessageStart, QuicFrame, QuicPacket, QuicParameters, TransportParameters,
};

/// The event of a packet that passed now.
pub(super) fn event(
    (connection, sender): (ConnectionId, Side),
    packet: &Packet<'_>,
    number: Option<u64>,
    frames: Vec<(QuicFrame, u64)>,
    cx: &Context<'_>,
) -> Event {
    let (frames, frame_lengths) = frames.into_iter().unzip();
    let packet_type = match packet.kind {
        PacketKind::Initial => "initial",
        PacketKind::ZeroRtt => "0RTT",
        PacketKind::Handshake => "handshake",
        PacketKind::OneRtt => "1RTT",
        PacketKind::Retry => "retry",
        PacketKind::VersionNegotiation => "version_negotiation",
        PacketKind::Foreign => "unknown",
    };
    Event::Packet(Box::new(QuicPacket {
        connection,
        sender,
        at: cx.at.since(cx.start),
        frame: cx.number,
        packet_type,
        version: (packet.kind != PacketKind::OneRtt).then_some(packet.version),
        destination: hex(packet.destination),
        source: hex(packet.source),
        number,
        length: packet.bytes.len() as u64,
        frames,
        frame_lengths,
    }))
}

/// The event of transport parameters that are known now.
pub(super) fn parameters(
    (connection, sender): (ConnectionId, Side),
    values: TransportParameters,
    cx: &Context<'_>,
) -> Event {
    Event::Parameters(Box::new(QuicParameters {
        connection,
        sender,
        at: cx.at.since(cx.start),
        values,
    }))
}

/// Adds the event of a frame of HTTP/3, of this type and length, if events are wanted.
pub(super) fn http3_frame(
    (sender, stream): (Side, u64),
    (kind, length): (u64, u64),
    start: Option<MessageStart>,
    cx: &mut Context<'_>,
) {
    if cx.logs {
        cx.events.push_back(Event::Http3(Box::new(Http3Frame {
            connection: cx.connection,
            sender,
            at: cx.at.since(cx.start),
            stream,
            kind,
            length,
            start,
        })));
    }
}
