//! A segment as the bytes of an IPv4 packet, checksums included (RFC 791, RFC 9293, RFC 1071).
//!
//! Lays out the options of a SYN in Linux's order.

use crate::segment::Segment;
use core::net::SocketAddrV4;

/// The IPv4 packet that carries `segment`, with IP identification `id`.
pub fn ipv4_packet(source: SocketAddrV4, destination: SocketAddrV4, id: u16, segment: &Segment) -> Vec<u8> {
    let total = segment.packet_bytes() as u16;
    let mut packet = Vec::with_capacity(usize::from(total));
    packet.extend_from_slice(&[0x45, 0]);
    packet.extend_from_slice(&total.to_be_bytes());
    packet.extend_from_slice(&id.to_be_bytes());
    // Don't fragment; TTL 64; TCP; checksum filled in below.
    packet.extend_from_slice(&[0x40, 0, 64, 6, 0, 0]);
    packet.extend_from_slice(&source.ip().octets());
    packet.extend_from_slice(&destination.ip().octets());
    let sum = checksum(&packet, 0);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());

    let start = packet.len();
    packet.extend_from_slice(&source.port().to_be_bytes());
    packet.extend_from_slice(&destination.port().to_be_bytes());
    packet.extend_from_slice(&segment.seq.to_be_bytes());
    packet.extend_from_slice(&segment.ack.to_be_bytes());
    let words = (segment.header_bytes() / 4) as u8;
    let flags = segment.flags;
    let bits = u8::from(flags.fin)
        | u8::from(flags.syn) << 1
        | u8::from(flags.rst) << 2
        | u8::from(flags.psh) << 3
        | u8::from(flags.ack) << 4;
    packet.extend_from_slice(&[words << 4, bits]);
    packet.extend_from_slice(&segment.window.to_be_bytes());
    packet.extend_from_slice(&[0; 4]);
    if let Some(mss) = segment.mss {
        packet.extend_from_slice(&[2, 4]);
        packet.extend_from_slice(&mss.to_be_bytes());
    }
    // Two bytes in front of the option align it: two no-operations (RFC 7323, appendix A), or the two-byte
    // SACK-permitted option.
    let pair: [u8; 2] = if segment.sack_permitted { [4, 2] } else { [1, 1] };
    if let Some(stamps) = segment.stamps {
        packet.extend_from_slice(&pair);
        packet.extend_from_slice(&[8, 10]);
        packet.extend_from_slice(&stamps.value.to_be_bytes());
        packet.extend_from_slice(&stamps.echo.to_be_bytes());
    } else if segment.sack_permitted {
        packet.extend_from_slice(&[1, 1]);
        packet.extend_from_slice(&pair);
    }
    if let Some(shift) = segment.window_scale {
        packet.extend_from_slice(&[1, 3, 3, shift]);
    }
    if !segment.sacks.is_empty() {
        packet.extend_from_slice(&[1, 1, 5, 2 + 8 * segment.sacks.len() as u8]);
        for edge in segment.sacks.iter().flat_map(|(start, end)| [start, end]) {
            packet.extend_from_slice(&edge.to_be_bytes());
        }
    }
    packet.extend_from_slice(&segment.payload);
    let length = packet.len() - start;
    let pseudo = sum_words(&packet[12..20]) + 6 + length as u64;
    let sum = checksum(&packet[start..], pseudo);
    packet[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn sum_words(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)))
        .sum()
}

fn checksum(bytes: &[u8], start: u64) -> u16 {
    let mut sum = start + sum_words(bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Flags, Stamps};

    fn check(stamps: Option<Stamps>, options: &[u8]) {
        check_of(plain(stamps), options);
    }

    fn plain(stamps: Option<Stamps>) -> Segment {
        Segment {
            seq: 0xffff_fff0,
            ack: 7,
            flags: Flags {
                ack: true,
                psh: true,
                ..Flags::default()
            },
            window: 8_760,
            mss: Some(1_460),
            window_scale: None,
            sack_permitted: false,
            sacks: Vec::new(),
            stamps,
            payload: b"odd".to_vec(),
        }
    }

    fn check_of(segment: Segment, options: &[u8]) {
        let packet = ipv4_packet(
            "10.0.0.1:40000".parse().unwrap(),
            "10.0.0.2:80".parse().unwrap(),
            1,
            &segment,
        );
        let length = 20 + options.len() + 3;
        assert_eq!(packet.len(), 20 + length);
        assert_eq!(packet.len() as u64, segment.packet_bytes());
        assert_eq!(usize::from(packet[32] >> 4) * 4, length - 3);
        assert_eq!(&packet[40..40 + options.len()], options);
        assert_eq!(&packet[40 + options.len()..], b"odd");
        assert_eq!(checksum(&packet[..20], 0), 0);
        let pseudo = sum_words(&packet[12..20]) + 6 + length as u64;
        assert_eq!(checksum(&packet[20..], pseudo), 0);
    }

    #[test]
    fn a_packet_with_its_checksums_sums_to_zero() {
        check(None, &[2, 4, 5, 180]);
        let stamps = Stamps {
            value: 0x0102_0304,
            echo: 5,
        };
        check(Some(stamps), &[2, 4, 5, 180, 1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 5]);
        // The order in which Linux writes the options of its SYN, with and without timestamps.
        for (stamps, options) in [
            (
                Some(stamps),
                &[2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 5, 1, 3, 3, 7][..],
            ),
            (None, &[2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7]),
        ] {
            let syn = Segment {
                window_scale: Some(7),
                sack_permitted: true,
                ..plain(stamps)
            };
            check_of(syn, options);
        }
        let reports = Segment {
            mss: None,
            sacks: vec![(0x0102_0304, 0x0102_0404), (1, 2)],
            ..plain(None)
        };
        check_of(
            reports,
            &[1, 1, 5, 18, 1, 2, 3, 4, 1, 2, 4, 4, 0, 0, 0, 1, 0, 0, 0, 2],
        );
    }
}
