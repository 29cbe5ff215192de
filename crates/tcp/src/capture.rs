//! Simulated segments as a pcapng file for packet analyzers.
//!
//! Appends to the caller's buffer: one section, one interface of raw IP, nanosecond timestamps. This crate has
//! its own writer because it needs only three block types and may not depend on the crate that reads captures.

use crate::segment::Segment;
use crate::wire::ipv4_packet;
use core::net::SocketAddrV4;
use units::Instant;

const RAW: u16 = 101;

/// A pcapng capture in progress; the bytes go to the caller's buffer.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    id: u16,
}

impl Capture {
    /// Starts a capture: appends the section header and the interface description to `out`.
    pub fn begin(out: &mut Vec<u8>) -> Capture {
        // Section header: byte order, version 1.0, length unknown.
        let mut section = Vec::from(0x1a2b_3c4d_u32.to_le_bytes());
        section.extend_from_slice(&[1, 0, 0, 0]);
        section.extend_from_slice(&u64::MAX.to_le_bytes());
        block(out, 0x0a0d_0d0a, &section);
        // Interface: no snap length; option 9: timestamps in units of 10^-9 s; end of options.
        let mut interface = Vec::from(RAW.to_le_bytes());
        interface.extend_from_slice(&[0; 6]);
        interface.extend_from_slice(&[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        block(out, 1, &interface);
        Capture::default()
    }

    /// Appends a packet block for a segment captured at `at`, counted from 1970-01-01.
    pub fn segment(
        &mut self,
        out: &mut Vec<u8>,
        at: Instant,
        source: SocketAddrV4,
        destination: SocketAddrV4,
        segment: &Segment,
    ) {
        self.id = self.id.wrapping_add(1);
        let packet = ipv4_packet(source, destination, self.id, segment);
        let nanos = at.as_nanos();
        let mut body = Vec::with_capacity(packet.len() + 24);
        for word in [
            0,
            (nanos >> 32) as u32,
            nanos as u32,
            packet.len() as u32,
            packet.len() as u32,
        ] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&packet);
        body.resize(body.len().next_multiple_of(4), 0);
        block(out, 6, &body);
    }
}

fn block(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let total = body.len() as u32 + 12;
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&total.to_le_bytes());
    out.extend_from_slice(body);
    out.extend_from_slice(&total.to_le_bytes());
}
