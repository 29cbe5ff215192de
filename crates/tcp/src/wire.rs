//! A segment as the bytes of an IPv4 packet, checksums included (RFC 791, RFC 9293, RFC 1071), and back.
//!
//! Lays out the options of a SYN in Linux's order. Reads them in any order.

use crate::segment::{Flags, Segment, Stamps};
use core::net::{Ipv4Addr, SocketAddrV4};

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
    let sum = internet_checksum(&packet, 0);
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
    let sum = internet_checksum(&packet[start..], pseudo);
    packet[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// A packet's source, destination and segment: the inverse of [`ipv4_packet`].
///
/// Skips options that a [`Segment`] does not have, and does not verify checksums. `None` if the packet is a fragment, is
/// cut short, or carries another protocol than TCP over IPv4.
pub fn parse_ipv4_packet(packet: &[u8]) -> Option<(SocketAddrV4, SocketAddrV4, Segment)> {
    let first = *packet.first()?;
    let (header, total) = (usize::from(first & 15) * 4, usize::from(be16(packet, 2)?));
    let is_fragment = be16(packet, 6)? & 0x3fff != 0;
    if first >> 4 != 4 || header < 20 || is_fragment || *packet.get(9)? != 6 {
        return None;
    }
    let address = |at: usize| Some(Ipv4Addr::from(be32(packet, at)?));
    let tcp = packet.get(header..total)?;
    let data = usize::from(*tcp.get(12)? >> 4) * 4;
    if data < 20 {
        return None;
    }
    let (options, payload) = (tcp.get(20..data)?, tcp.get(data..)?);
    let bits = *tcp.get(13)?;
    let mut segment = Segment {
        seq: be32(tcp, 4)?,
        ack: be32(tcp, 8)?,
        flags: Flags {
            fin: bits & 1 != 0,
            syn: bits & 2 != 0,
            rst: bits & 4 != 0,
            psh: bits & 8 != 0,
            ack: bits & 16 != 0,
        },
        window: be16(tcp, 14)?,
        mss: None,
        window_scale: None,
        sack_permitted: false,
        sacks: Vec::new(),
        stamps: None,
        payload: payload.to_vec(),
    };
    read_options(options, &mut segment)?;
    let source = SocketAddrV4::new(address(12)?, be16(tcp, 0)?);
    let destination = SocketAddrV4::new(address(16)?, be16(tcp, 2)?);
    Some((source, destination, segment))
}

/// Fills in the options of `segment`; `None` if the last one is cut short.
fn read_options(mut options: &[u8], segment: &mut Segment) -> Option<()> {
    loop {
        let length = match options {
            // The end of the list; the rest is padding.
            [] | [0, ..] => return Some(()),
            [1, ..] => 1,
            [_, length, ..] if *length >= 2 => usize::from(*length),
            _ => return None,
        };
        let option = options.get(..length)?;
        match option {
            [2, 4, ..] => segment.mss = be16(option, 2),
            [3, 3, shift] => segment.window_scale = Some(*shift),
            [4, 2] => segment.sack_permitted = true,
            [5, _, ranges @ ..] => {
                let edges = |range: &[u8]| Some((be32(range, 0)?, be32(range, 4)?));
                segment.sacks = ranges.chunks_exact(8).filter_map(edges).collect();
            }
            [8, 10, ..] => {
                segment.stamps = Some(Stamps {
                    value: be32(option, 2)?,
                    echo: be32(option, 6)?,
                });
            }
            _ => {}
        }
        options = &options[length..];
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([two[0], two[1]]))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

fn sum_words(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)))
        .sum()
}

/// The Internet checksum (RFC 1071) of `bytes`, with `start` added: the sum of the words of a pseudo-header, or zero.
pub fn internet_checksum(bytes: &[u8], start: u64) -> u16 {
    let mut sum = start + sum_words(bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let ends = ["10.0.0.1:40000".parse().unwrap(), "10.0.0.2:80".parse().unwrap()];
        let packet = ipv4_packet(ends[0], ends[1], 1, &segment);
        assert_eq!(
            parse_ipv4_packet(&packet),
            Some((ends[0], ends[1], segment.clone()))
        );
        for n in 0..packet.len() {
            assert_eq!(parse_ipv4_packet(&packet[..n]), None, "{n}");
        }
        let length = 20 + options.len() + 3;
        assert_eq!(packet.len(), 20 + length);
        assert_eq!(packet.len() as u64, segment.packet_bytes());
        assert_eq!(usize::from(packet[32] >> 4) * 4, length - 3);
        assert_eq!(&packet[40..40 + options.len()], options);
        assert_eq!(&packet[40 + options.len()..], b"odd");
        assert_eq!(internet_checksum(&packet[..20], 0), 0);
        let pseudo = sum_words(&packet[12..20]) + 6 + length as u64;
        assert_eq!(internet_checksum(&packet[20..], pseudo), 0);
    }

    /// A packet whose option list is `options`, which must be a multiple of four bytes.
    fn with_options(options: &[u8]) -> Vec<u8> {
        let (source, destination) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        let bare = Segment {
            mss: None,
            payload: Vec::new(),
            ..plain(None)
        };
        let mut packet = ipv4_packet(source, destination, 1, &bare);
        packet.extend_from_slice(options);
        let total = packet.len() as u16;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet[32] = ((20 + options.len()) as u8 / 4) << 4;
        packet
    }

    #[test]
    fn options_are_read_in_any_order_and_unknown_ones_are_skipped() {
        let read = |options: &[u8]| parse_ipv4_packet(&with_options(options)).map(|(.., segment)| segment);
        let segment = read(&[1, 254, 4, 9, 9, 3, 3, 2, 2, 4, 2, 24]).expect("whole options");
        assert_eq!((segment.mss, segment.window_scale), (Some(536), Some(2)));
        // What follows the end of the list is padding.
        let segment = read(&[4, 2, 0, 2]).expect("whole options");
        assert!(segment.sack_permitted && segment.mss.is_none());
        // A length of one or zero would never end; a length beyond the header is cut short.
        for options in [[8, 0, 0, 0], [8, 1, 0, 0], [8, 10, 0, 0], [1, 1, 1, 8]] {
            assert_eq!(read(&options), None, "{options:?}");
        }
    }

    #[test]
    fn only_whole_tcp_over_ipv4_is_read() {
        let good = with_options(&[]);
        assert!(parse_ipv4_packet(&good).is_some());
        for (at, byte) in [
            (0, 0x65),
            (0, 0x44),
            (6, 0x20),
            (7, 1),
            (9, 17),
            (32, 0x40),
            (32, 0x60),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(parse_ipv4_packet(&bad), None, "byte {at} = {byte:#x}");
        }
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
