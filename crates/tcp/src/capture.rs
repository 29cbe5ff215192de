//! Simulated segments as a pcapng file that packet analyzers read.
//!
//! Appends to a caller's bytes: one section, one interface of raw IP, nanosecond time stamps. Written here
//! in full because the format's part that is needed is three blocks, and this crate may name no other of ours.

use crate::segment::Segment;
use crate::wire::ipv4_packet;
use core::net::SocketAddrV4;
use measure::Instant;

/// Link type "raw IP" (tcpdump.org/linktypes).
const RAW: u16 = 101;

/// A capture being written.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    id: u16,
}

impl Capture {
    /// Appends the file's beginning to `out`.
    pub fn begin(out: &mut Vec<u8>) -> Capture {
        // Section header: byte order, version 1.0, length unknown.
        let mut section = Vec::from(0x1a2b_3c4d_u32.to_le_bytes());
        section.extend_from_slice(&[1, 0, 0, 0]);
        section.extend_from_slice(&u64::MAX.to_le_bytes());
        block(out, 0x0a0d_0d0a, &section);
        // Interface: no snap length; option 9: time stamps in units of 10^-9 s; end of options.
        let mut interface = Vec::from(RAW.to_le_bytes());
        interface.extend_from_slice(&[0; 6]);
        interface.extend_from_slice(&[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        block(out, 1, &interface);
        Capture::default()
    }

    /// Appends a segment seen at `at`, counted from 1970.
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
