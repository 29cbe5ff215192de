//! What must hold for any datagrams at all: memory stays bounded and is given back, and counts add up.

use crate::tls::Null;
use crate::{Analyzer, Event, Frame, Limits, LinkType, Options};
use units::Instant;

/// Reads `data` as datagrams between two ends: a control byte (bit 0: sender, bit 1: another pair of ends), a length byte (times 8),
/// the payload. Packets are protected by nothing. For the fuzz target `quic_datagrams`.
///
/// # Panics
/// If a datagram is not counted, a packet is counted twice, or memory is not given back.
pub fn fuzz_quic(data: &[u8]) {
    let small = Limits {
        connections: 1,
        segments: 3,
        reassembly: 2048,
        ..Limits::default()
    };
    for limits in [small, Limits::default()] {
        let mut analyzer = Analyzer::new(Options {
            limits,
            packets: true,
            ..Options::default()
        });
        analyzer.open_with(Box::new(Null));
        analyzer.add_secret_block(SECRETS);
        let (mut rest, mut number) = (data, 0);
        while let [control, len, behind @ ..] = rest {
            let (payload, behind) = behind.split_at(behind.len().min(usize::from(*len) * 8));
            rest = behind;
            number += 1;
            let packet = packet(*control, payload);
            analyzer.frame(&Frame {
                at: Instant::from_nanos(number * 1_000_000),
                number,
                link: LinkType::RAW,
                wire_len: packet.len() as u32,
                data: &packet,
            });
        }
        analyzer.finish_frames();
        assert_eq!(analyzer.connections(), 0);
        assert!(analyzer.has_returned_memory(), "the budget has been returned");
        let summary = analyzer.summary();
        assert_eq!(summary.frames.udp, number);
        let (mut quic, mut opened, mut logged) = (0, 0, 0);
        while let Some(event) = analyzer.next_event() {
            match event {
                Event::Quic(one) => {
                    quic += one.from_client.volume.datagrams + one.from_server.volume.datagrams;
                    opened += one.from_client.opened + one.from_server.opened;
                    assert!(one.streams.len() as u64 <= one.streams_seen);
                }
                Event::Packet(packet) => logged += u64::from(packet.number.is_some()),
                _ => {}
            }
        }
        assert_eq!(summary.udp.quic_datagrams, quic);
        assert_eq!(opened, logged);
    }
}

/// Secrets for a ClientHello whose random value is zero.
const SECRETS: &[u8] = b"\
CLIENT_HANDSHAKE_TRAFFIC_SECRET 0000000000000000000000000000000000000000000000000000000000000000 00
SERVER_HANDSHAKE_TRAFFIC_SECRET 0000000000000000000000000000000000000000000000000000000000000000 00
CLIENT_TRAFFIC_SECRET_0 0000000000000000000000000000000000000000000000000000000000000000 00
SERVER_TRAFFIC_SECRET_0 0000000000000000000000000000000000000000000000000000000000000000 00
";

/// An IPv4 packet with the datagram.
fn packet(control: u8, payload: &[u8]) -> Vec<u8> {
    let client = 40_000 + u16::from(control >> 1 & 1);
    let ports = if control & 1 == 0 {
        [client, 443]
    } else {
        [443, client]
    };
    let udp = 8 + payload.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&(20 + udp).to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 1]);
    for word in [ports[0], ports[1], udp, 0] {
        packet.extend_from_slice(&word.to_be_bytes());
    }
    packet.extend_from_slice(payload);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A datagram that begins as QUIC does, from any bytes.
    fn datagram() -> impl Strategy<Value = Vec<u8>> {
        let start = prop::sample::select(vec![
            &b"\xc0\x00\x00\x00\x01\x08abcdefgh\x04efgh\x00\x40"[..],
            b"\xe0\x00\x00\x00\x01\x04efgh\x04abcd\x40",
            b"\xd0\x6b\x33\x43\xcf\x08abcdefgh\x00\x00\x40",
            b"\x80\x00\x00\x00\x00\x04efgh\x04abcd",
            b"\x40efgh",
            b"",
        ]);
        (any::<bool>(), start, prop::collection::vec(any::<u8>(), 0..200)).prop_map(
            |(is_server, start, rest)| {
                let mut payload = start.to_vec();
                payload.extend_from_slice(&rest);
                payload.resize(payload.len().div_ceil(8) * 8, 0);
                let mut all = vec![u8::from(is_server), (payload.len() / 8) as u8];
                all.extend_from_slice(&payload);
                all
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn any_datagrams_are_counted(datagrams in prop::collection::vec(datagram(), 0..12)) {
            fuzz_quic(&datagrams.concat());
        }

        #[test]
        fn any_bytes_are_counted(data in prop::collection::vec(any::<u8>(), 0..400)) {
            fuzz_quic(&data);
        }
    }
}
