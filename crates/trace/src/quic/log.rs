//! A packet as an event.

use super::frame::hex;
use super::header::{Packet, PacketKind};
use crate::connection::{ConnectionId, Side};
use crate::context::Context;
use crate::event::Event;
use crate::quic_facts::{QuicFrame, QuicPacket};

/// The event of a packet that passed now.
pub(super) fn event(
    (connection, sender): (ConnectionId, Side),
    packet: &Packet<'_>,
    number: Option<u64>,
    frames: Vec<QuicFrame>,
    cx: &Context<'_>,
) -> Event {
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
    }))
}
