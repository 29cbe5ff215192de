//! UDP datagrams and the ICMP errors about them, as IPv4 packets: RFC 768, RFC 791, RFC 792, RFC 1191.
//!
//! Pure functions of bytes. Checksums of received packets are not verified: they come from a kernel on this machine,
//! which may leave them to be computed by the receiver.

use std::net::{Ipv4Addr, SocketAddrV4};
use tcp::internet_checksum;

const ICMP: u8 = 1;
const UDP: u8 = 17;
/// Length of an IPv4 header without options, and of a UDP header.
const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
/// Bytes of a datagram's packet besides its payload, as [`packet`] makes it.
pub(super) const HEADERS: usize = IPV4_HEADER + UDP_HEADER;
/// The flag "don't fragment" in the first byte of the fragment field.
const DONT_FRAGMENT: u8 = 0x40;

/// Code of an ICMP message "destination unreachable" (RFC 792, RFC 1812 section 5.2.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreachable {
    Network,
    Host,
    Port,
    /// The datagram must be fragmented, and may not be. With the largest packet in bytes (RFC 1191, section 4).
    TooLarge(u16),
    Prohibited,
}

/// What a packet is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen<'p> {
    /// No UDP, or no packet.
    Other,
    /// A fragment of a datagram, and where it goes to.
    Fragment(Ipv4Addr),
    Datagram(Datagram<'p>),
}

/// A datagram in its packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Datagram<'p> {
    pub(super) from: SocketAddrV4,
    pub(super) to: SocketAddrV4,
    /// The ECN field (RFC 3168).
    pub(super) ecn: u8,
    /// Whether its sender forbids fragments.
    pub(super) is_unfragmentable: bool,
    /// The IP header and the UDP header: what an ICMP error quotes.
    pub(super) head: &'p [u8],
    pub(super) payload: &'p [u8],
}

/// Reads a packet.
pub(super) fn parse(ip: &[u8]) -> Seen<'_> {
    read(ip).unwrap_or(Seen::Other)
}

fn read(ip: &[u8]) -> Option<Seen<'_>> {
    let header = usize::from(ip.first()? & 15) * 4;
    if ip[0] >> 4 != 4 || header < IPV4_HEADER || *ip.get(9)? != UDP {
        return None;
    }
    let address = |at: usize| {
        let four: [u8; 4] = ip.get(at..at + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(four))
    };
    let (from, to) = (address(12)?, address(16)?);
    if be16(ip, 6)? & 0x3fff != 0 {
        return Some(Seen::Fragment(to));
    }
    let total = usize::from(be16(ip, 2)?);
    let datagram = ip.get(header..total)?;
    let payload = datagram.get(UDP_HEADER..)?;
    Some(Seen::Datagram(Datagram {
        from: SocketAddrV4::new(from, be16(datagram, 0)?),
        to: SocketAddrV4::new(to, be16(datagram, 2)?),
        ecn: ip[1] & 3,
        is_unfragmentable: ip[6] & DONT_FRAGMENT != 0,
        head: ip.get(..header + UDP_HEADER)?,
        payload,
    }))
}

/// The packet of a datagram that may not be fragmented, as Linux sends them unless told otherwise. `None` if the payload
/// is too long for one packet.
pub(super) fn packet(from: SocketAddrV4, to: SocketAddrV4, ecn: u8, payload: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(UDP_HEADER + payload.len()).ok()?;
    let mut packet = header(*from.ip(), *to.ip(), UDP, ecn, usize::from(length))?;
    packet.extend_from_slice(&from.port().to_be_bytes());
    packet.extend_from_slice(&to.port().to_be_bytes());
    packet.extend_from_slice(&length.to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(payload);
    // The pseudo-header: both addresses, which are words already, the protocol and the length.
    let words = |address: &Ipv4Addr| {
        let bits = u64::from(address.to_bits());
        (bits >> 16) + (bits & 0xffff)
    };
    let pseudo = words(from.ip()) + words(to.ip()) + u64::from(UDP) + u64::from(length);
    let sum = match internet_checksum(&packet[IPV4_HEADER..], pseudo) {
        // RFC 768: zero means that there is no checksum.
        0 => 0xffff,
        sum => sum,
    };
    packet[IPV4_HEADER + 6..IPV4_HEADER + 8].copy_from_slice(&sum.to_be_bytes());
    Some(packet)
}

/// The ICMP error about a datagram with this [head](Datagram::head), from where the datagram was sent to. `None` if the
/// head is none.
pub(super) fn unreachable(head: &[u8], why: Unreachable) -> Option<Vec<u8>> {
    let address = |at: usize| {
        let four: [u8; 4] = head.get(at..at + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(four))
    };
    let (code, mtu) = match why {
        Unreachable::Network => (0, 0),
        Unreachable::Host => (1, 0),
        Unreachable::Port => (3, 0),
        Unreachable::TooLarge(mtu) => (4, mtu),
        Unreachable::Prohibited => (13, 0),
    };
    const DESTINATION_UNREACHABLE: u8 = 3;
    let mut packet = header(address(16)?, address(12)?, ICMP, 0, 8 + head.len())?;
    packet.extend_from_slice(&[DESTINATION_UNREACHABLE, code, 0, 0, 0, 0]);
    packet.extend_from_slice(&u16::to_be_bytes(mtu));
    packet.extend_from_slice(head);
    let sum = internet_checksum(&packet[IPV4_HEADER..], 0);
    packet[IPV4_HEADER + 2..IPV4_HEADER + 4].copy_from_slice(&sum.to_be_bytes());
    Some(packet)
}

/// The IPv4 header before `length` bytes.
fn header(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, ecn: u8, length: usize) -> Option<Vec<u8>> {
    let total = u16::try_from(IPV4_HEADER + length).ok()?;
    let mut packet = Vec::with_capacity(usize::from(total));
    packet.extend_from_slice(&[0x45, ecn & 3]);
    packet.extend_from_slice(&total.to_be_bytes());
    // RFC 6864: what may not be fragmented needs no identification. Time to live 64; the checksum follows.
    packet.extend_from_slice(&[0, 0, DONT_FRAGMENT, 0, 64, protocol, 0, 0]);
    packet.extend_from_slice(&from.octets());
    packet.extend_from_slice(&to.octets());
    let sum = internet_checksum(&packet, 0);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(packet)
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 1), 53);
    const TO: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 2), 40_000);

    /// RFC 1071: the sum of everything including the checksum is all ones.
    fn is_summed(bytes: &[u8], start: u64) -> bool {
        internet_checksum(bytes, start) == 0
    }

    fn pseudo(length: usize) -> u64 {
        let words = [198 << 8 | 18, 1, 198 << 8 | 18, 2];
        words.iter().sum::<u64>() + u64::from(UDP) + length as u64
    }

    #[test]
    fn a_packet_reads_as_it_was_made() {
        for payload in [&b""[..], b"x", b"an odd number of bytes.", &[0xff; 1_472]] {
            let bytes = packet(FROM, TO, 2, payload).expect("it fits");
            assert!(is_summed(&bytes[..20], 0));
            assert!(is_summed(&bytes[20..], pseudo(8 + payload.len())));
            let Seen::Datagram(seen) = parse(&bytes) else {
                panic!("no datagram: {bytes:?}");
            };
            assert_eq!((seen.from, seen.to, seen.ecn), (FROM, TO, 2));
            assert!(seen.is_unfragmentable);
            assert_eq!((seen.payload, seen.head), (payload, &bytes[..28]));
            for n in 0..bytes.len() {
                assert!(!matches!(parse(&bytes[..n]), Seen::Datagram(_)), "{n}");
            }
        }
        assert!(packet(FROM, TO, 0, &[0; 65_507]).is_some());
        assert_eq!(packet(FROM, TO, 0, &[0; 65_508]), None);
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_ones() {
        // The payload that makes the sum of all else zero.
        let bytes = packet(FROM, TO, 0, &[0, 0]).expect("it fits");
        let missing = u16::from_be_bytes([bytes[26], bytes[27]]);
        let bytes = packet(FROM, TO, 0, &missing.to_be_bytes()).expect("it fits");
        assert_eq!(bytes[26..28], [0xff, 0xff]);
    }

    #[test]
    fn fragments_are_told_from_datagrams() {
        let mut bytes = packet(FROM, TO, 0, b"part").expect("it fits");
        for (flags, offset) in [(0x20, 0), (0x20, 7), (0, 7)] {
            bytes[6..8].copy_from_slice(&[flags, offset]);
            assert_eq!(parse(&bytes), Seen::Fragment(*TO.ip()));
        }
        bytes[6..8].copy_from_slice(&[0, 0]);
        assert!(matches!(parse(&bytes), Seen::Datagram(seen) if !seen.is_unfragmentable));
        bytes[9] = 6;
        assert_eq!(parse(&bytes), Seen::Other);
    }

    #[test]
    fn an_error_quotes_the_datagram_and_comes_from_where_it_went() {
        let bytes = packet(TO, FROM, 0, b"hello").expect("it fits");
        for (why, code, mtu) in [
            (Unreachable::Network, 0, 0),
            (Unreachable::Host, 1, 0),
            (Unreachable::Port, 3, 0),
            (Unreachable::TooLarge(576), 4, 576),
            (Unreachable::Prohibited, 13, 0),
        ] {
            let error = unreachable(&bytes[..28], why).expect("a head");
            assert!(is_summed(&error[..20], 0) && is_summed(&error[20..], 0));
            assert_eq!(error[9], ICMP);
            assert_eq!((&error[12..16], &error[16..20]), (&bytes[16..20], &bytes[12..16]));
            assert_eq!(error[20..22], [3, code]);
            assert_eq!(error[26..28], u16::to_be_bytes(mtu));
            assert_eq!(error[28..], bytes[..28]);
        }
        assert_eq!(unreachable(&bytes[..19], Unreachable::Port), None);
    }
}
