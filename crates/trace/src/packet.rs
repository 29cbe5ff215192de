//! From a frame to a TCP segment: link header, VLAN tags, tunnels, IPv4 or IPv6, TCP, as one borrowed view.
//!
//! A segment inside a tunnel (IP in IP, GRE, VXLAN, PPPoE) is reported with the inner packet's addresses and IP header;
//! outer headers count as link headers. A fragment is returned for reassembly ([`Fragment`]).
//!
//! Lengths come from the IP headers, never from the captured bytes. So Ethernet padding does not count as payload, and
//! a snapshot length costs content but no counter. Checksums are not verified: captures made on the sending host
//! contain unfinished ones. Keeps no state between packets.

use crate::capture::{Frame, LinkType};
use crate::seq::SeqNum;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::Serialize;

/// One end of a connection: address and port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address; IPv4 in its IPv6-mapped form, so that all keys have one shape.
    bits: u128,
    /// The TCP port.
    pub port: u16,
}

const MAPPED: u128 = 0xffff << 32;

impl Endpoint {
    /// The end at `address` and `port`.
    pub fn new(address: IpAddr, port: u16) -> Endpoint {
        let bits = match address {
            IpAddr::V4(v4) => MAPPED | u128::from(v4.to_bits()),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        Endpoint { bits, port }
    }

    /// The address.
    pub fn address(self) -> IpAddr {
        if self.bits >> 32 == MAPPED >> 32 {
            IpAddr::V4(Ipv4Addr::from_bits(self.bits as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(self.bits))
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address() {
            IpAddr::V4(address) => write!(f, "{address}:{}", self.port),
            IpAddr::V6(address) => write!(f, "[{address}]:{}", self.port),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Endpoint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// TCP's control bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment field is significant.
    pub const ACK: u8 = 0x10;

    /// True if any of `bits` is set.
    #[inline]
    pub fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

/// The options of one segment that the analysis uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum segment size (SYN only).
    pub mss: Option<u16>,
    /// Window scale shift (SYN only).
    pub window_scale: Option<u8>,
    /// Selective acknowledgment permitted (SYN only).
    pub sack_permitted: bool,
    /// Number of SACK blocks.
    pub sack_blocks: u8,
    /// The first SACK block, left and right edge.
    pub sack_first: Option<(SeqNum, SeqNum)>,
    /// The second SACK block.
    pub sack_second: Option<(SeqNum, SeqNum)>,
    /// Timestamp value and echo reply.
    pub timestamps: Option<(u32, u32)>,
    /// The options were captured only in part; missing ones may have been sent.
    pub is_cut: bool,
}

impl TcpOptions {
    /// Parses the option bytes; stops silently where they are malformed or not captured.
    fn parse(mut bytes: &[u8]) -> TcpOptions {
        let mut options = TcpOptions::default();
        // Nearly every data segment of a modern stack has exactly these options.
        if let [1, 1, 8, 10, rest @ ..] = bytes
            && rest.len() == 8
        {
            options.timestamps = Some((be32(rest, 0), be32(rest, 4)));
            return options;
        }
        while let [kind, rest @ ..] = bytes {
            match (kind, rest) {
                (0, _) => break,
                (1, _) => {
                    bytes = rest;
                    continue;
                }
                (_, []) => break,
                _ => {}
            }
            let length = usize::from(rest[0]);
            let Some(value) = length.checked_sub(2).and_then(|n| rest.get(1..1 + n)) else {
                break;
            };
            match (kind, value) {
                (2, &[a, b]) => options.mss = Some(u16::from_be_bytes([a, b])),
                // RFC 7323, section 2.3: a shift above 14 is used as 14.
                (3, &[shift]) => options.window_scale = Some(shift.min(14)),
                (4, []) => options.sack_permitted = true,
                (5, blocks) => {
                    options.sack_blocks = (blocks.len() / 8) as u8;
                    let block = |at: usize| {
                        (blocks.len() >= at + 8)
                            .then(|| (SeqNum(be32(blocks, at)), SeqNum(be32(blocks, at + 4))))
                    };
                    options.sack_first = block(0);
                    options.sack_second = block(8);
                }
                (8, value) if value.len() == 8 => {
                    options.timestamps = Some((be32(value, 0), be32(value, 4)));
                }
                _ => {}
            }
            bytes = &rest[1 + value.len()..];
        }
        options
    }
}

/// A TCP segment as captured.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Sender.
    pub from: Endpoint,
    /// Receiver.
    pub to: Endpoint,
    /// Sequence number.
    pub seq: SeqNum,
    /// Acknowledgment number; meaningless without the ACK flag.
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// Window field, unscaled.
    pub window: u16,
    /// The options.
    pub options: TcpOptions,
    /// Length of the IP headers in bytes.
    pub ip_header: u16,
    /// Length of the TCP header with options in bytes.
    pub tcp_header: u8,
    /// Payload length in bytes according to the IP header.
    pub payload_len: u32,
    /// The captured payload; shorter than `payload_len` in a capture with a snapshot length.
    pub payload: &'a [u8],
}

impl Segment<'_> {
    /// Whether the first SACK block reports bytes received twice: it lies below the acknowledgment or within the second
    /// block (RFC 2883, section 4).
    #[inline]
    pub fn reports_duplicate(&self) -> bool {
        let Some((left, right)) = self.options.sack_first else {
            return false;
        };
        let second = self.options.sack_second;
        left - self.ack < 0 || second.is_some_and(|(from, to)| left - from >= 0 && to - right >= 0)
    }
}

/// A UDP datagram (RFC 768) with its IP header.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Sender.
    pub from: Endpoint,
    /// Receiver.
    pub to: Endpoint,
    /// Length of the IP headers in bytes.
    pub ip_header: u16,
    /// Payload length in bytes according to the IP header.
    pub payload_len: u32,
    /// The captured payload; shorter than `payload_len` in a capture with a snapshot length.
    pub payload: &'a [u8],
}

/// Identification of a fragment's datagram (RFC 791, section 3.2; RFC 8200, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatagramId {
    pub(crate) from: u128,
    pub(crate) to: u128,
    pub(crate) protocol: u8,
    pub(crate) id: u32,
}

/// A part of an IP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    pub(crate) datagram: DatagramId,
    /// The datagram's headers, without those that concern fragmentation.
    pub(crate) headers: &'a [u8],
    /// Offset of this part behind the headers, in bytes.
    pub(crate) offset: u32,
    /// Length according to the IP header, in bytes.
    pub(crate) len: u32,
    /// Whether more parts follow.
    pub(crate) has_more: bool,
    /// The captured bytes of the part.
    pub(crate) bytes: &'a [u8],
}

/// A decoded frame.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// A TCP segment.
    Tcp(Segment<'a>),
    /// A UDP datagram that carries no tunnel.
    Udp(Datagram<'a>),
    /// IP with another protocol; the protocol number.
    OtherIp(u8),
    /// A fragment of an IP datagram.
    Fragment(Fragment<'a>),
    /// Not IP, for instance ARP.
    NotIp,
    /// Headers that are contradictory or incompletely captured.
    Malformed,
    /// An unsupported link type.
    UnknownLink(LinkType),
}

#[inline]
fn be16(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

#[inline]
fn be32(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

impl<'a> Packet<'a> {
    /// Decodes one frame.
    #[inline]
    pub fn decode(frame: &Frame<'a>) -> Packet<'a> {
        let data = frame.data;
        let ip_at = match frame.link {
            LinkType::ETHERNET => match ethernet(data, 12) {
                Ok(at) => at,
                Err(packet) => return packet,
            },
            // 12 and 14 are RAW in the files of some BSD systems.
            LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType(12) | LinkType(14) => 0,
            // The address family's value depends on the system; the IP version replaces it.
            LinkType::NULL | LinkType::LOOP => 4,
            LinkType::PPP | LinkType::PPP_HDLC | LinkType::PPP_ETHER | LinkType::PPP_WITH_DIR => {
                match ppp_link(data, frame.link) {
                    Ok(at) => at,
                    Err(packet) => return packet,
                }
            }
            LinkType::C_HDLC => match ethernet(data, 2) {
                Ok(at) => at,
                Err(packet) => return packet,
            },
            LinkType::ATM_RFC1483 => match llc(data, 0) {
                Ok(at) => at,
                Err(packet) => return packet,
            },
            LinkType::FDDI => match llc(data, 13) {
                Ok(at) => at,
                Err(packet) => return packet,
            },
            LinkType::LINUX_SLL => match ethernet(data, 14) {
                Ok(at) => at,
                Err(packet) => return packet,
            },
            LinkType::LINUX_SLL2 => match data {
                [0x08, 0x00, ..] | [0x86, 0xdd, ..] => 20,
                // VLAN tags follow the cooked header.
                [0x81, 0x00, ..] | [0x88, 0xa8, ..] => match ethernet(data, 22) {
                    Ok(at) => at,
                    Err(packet) => return packet,
                },
                [] | [_] => return Packet::Malformed,
                _ => return Packet::NotIp,
            },
            other => return Packet::UnknownLink(other),
        };
        let missing = (frame.wire_len as usize).saturating_sub(data.len());
        match data.get(ip_at..) {
            Some(ip) => Packet::of_ip(ip, missing, 0),
            None => Packet::Malformed,
        }
    }

    /// Decodes an IP packet with `missing` uncaptured bytes at its end, inside `depth` tunnels.
    #[inline]
    pub(crate) fn of_ip(ip: &'a [u8], missing: usize, depth: u32) -> Packet<'a> {
        match ip.first().map(|first| first >> 4) {
            Some(4) => ipv4(ip, missing, depth),
            Some(6) => ipv6(ip, missing, depth),
            Some(_) => Packet::NotIp,
            None => Packet::Malformed,
        }
    }
}

/// UDP's protocol number.
const UDP: u8 = 17;
/// Length of a UDP header in bytes.
const UDP_HEADER: usize = 8;
/// Limit on nested tunnels; deeper packets count as other IP.
const TUNNELS_MAX: u32 = 4;
/// VXLAN's port (RFC 7348), and the one Linux used before it was assigned.
const VXLAN_PORTS: [u16; 2] = [4789, 8472];

/// Content of an IP packet that is not TCP: the inner packet if it is a tunnel. `None` for UDP without one.
fn inside(protocol: u8, bytes: &[u8], missing: usize, depth: u32) -> Option<Packet<'_>> {
    let other = (protocol != UDP).then_some(Packet::OtherIp(protocol));
    if depth >= TUNNELS_MAX {
        return other;
    }
    let start = match protocol {
        // IP in IP (RFC 2003) and 6in4 (RFC 4213).
        4 | 41 => Some(0),
        47 => gre(bytes),
        UDP => vxlan(bytes),
        _ => None,
    };
    match start.and_then(|at| bytes.get(at..)) {
        Some(ip @ [_, ..]) => match Packet::of_ip(ip, missing, depth + 1) {
            Packet::NotIp | Packet::Malformed => other,
            packet => Some(packet),
        },
        _ => other,
    }
}

/// Offset of IP behind a GRE header (RFC 2784 and 2890; RFC 2637 for PPTP).
fn gre(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < 4 {
        return None;
    }
    let flags = be16(bytes, 0);
    let optional = |bit: u16| if flags & bit != 0 { 4 } else { 0 };
    // Routing (deprecated) is not parsed.
    if flags & 0x4000 != 0 {
        return None;
    }
    match (flags & 7, be16(bytes, 2)) {
        (0, protocol) => {
            let at = 4 + optional(0x8000) + optional(0x2000) + optional(0x1000);
            match protocol {
                0x0800 | 0x86dd => Some(at),
                // A bridged Ethernet frame.
                0x6558 => ethernet(bytes, at + 12).ok(),
                _ => None,
            }
        }
        // PPTP: the key is always present, and another bit marks an acknowledgment.
        (1, 0x880b) => ppp(bytes, 8 + optional(0x1000) + optional(0x0080)).ok(),
        _ => None,
    }
}

/// Offset of IP inside a VXLAN datagram.
fn vxlan(udp: &[u8]) -> Option<usize> {
    let is_vxlan =
        udp.len() >= 16 && VXLAN_PORTS.contains(&be16(udp, 2)) && udp[8] & 0x08 != 0 && udp[15] == 0;
    is_vxlan.then(|| ethernet(udp, 16 + 12).ok()).flatten()
}

/// Offset of IP in a frame of a link that carries PPP.
#[allow(
    clippy::result_large_err,
    reason = "inlined; the error is the caller's return value"
)]
fn ppp_link<'a>(data: &[u8], link: LinkType) -> Result<usize, Packet<'a>> {
    match (link, data) {
        // Version, code, session, length.
        (LinkType::PPP_ETHER, _) => ppp(data, 6),
        (LinkType::PPP_WITH_DIR, _) => ppp(data, 1),
        // Cisco's HDLC uses the same link type.
        (LinkType::PPP_HDLC, [0x0f | 0x8f, ..]) => ethernet(data, 2),
        _ => ppp(data, 0),
    }
}

/// Offset of IP behind a PPP header (RFC 1661 and 1662). Address and control may be omitted, and so may the first byte
/// of the protocol, which is even while the second is odd.
#[allow(
    clippy::result_large_err,
    reason = "inlined; the error is the caller's return value"
)]
fn ppp<'a>(data: &[u8], at: usize) -> Result<usize, Packet<'a>> {
    let at = if data.get(at..at + 2) == Some(&[0xff, 0x03]) {
        at + 2
    } else {
        at
    };
    match data.get(at..) {
        Some([0x21 | 0x57, _, ..]) => Ok(at + 1),
        Some([0x00, 0x21 | 0x57, ..]) => Ok(at + 2),
        Some([_, _, ..]) => Err(Packet::NotIp),
        _ => Err(Packet::Malformed),
    }
}

/// Offset of IP behind an LLC header (IEEE 802.2, RFC 1042): SNAP names an EtherType, or the service is IP itself.
#[allow(
    clippy::result_large_err,
    reason = "inlined; the error is the caller's return value"
)]
fn llc<'a>(data: &[u8], at: usize) -> Result<usize, Packet<'a>> {
    match data.get(at..) {
        Some([0xaa, 0xaa, 0x03, 0, 0, 0, ..]) => ethernet(data, at + 6),
        Some([0x06, 0x06, 0x03, ..]) => Ok(at + 3),
        Some([_, _, _, ..]) => Err(Packet::NotIp),
        _ => Err(Packet::Malformed),
    }
}

/// Follows EtherTypes from `at` through VLAN tags, QinQ, PPPoE and LLC; returns the offset of IP.
#[inline]
#[allow(
    clippy::result_large_err,
    reason = "inlined; the error is the caller's return value"
)]
fn ethernet<'a>(data: &[u8], mut at: usize) -> Result<usize, Packet<'a>> {
    loop {
        if data.len() < at + 2 {
            return Err(Packet::Malformed);
        }
        match be16(data, at) {
            0x0800 | 0x86dd => return Ok(at + 2),
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            0x8864 => return ppp(data, at + 8),
            // IEEE 802.3: a length, followed by LLC.
            ..=1_500 => return llc(data, at + 2),
            _ => return Err(Packet::NotIp),
        }
    }
}

#[inline]
fn ipv4<'a>(ip: &'a [u8], missing: usize, depth: u32) -> Packet<'a> {
    if ip.len() < 20 {
        return Packet::Malformed;
    }
    let header = usize::from(ip[0] & 0x0f) * 4;
    let total = match usize::from(be16(ip, 2)) {
        // The sending host's segmentation offload leaves the field 0.
        0 => ip.len() + missing,
        n => n,
    };
    if header < 20 || total < header {
        return Packet::Malformed;
    }
    let address = |at| MAPPED | u128::from(be32(ip, at));
    if be16(ip, 6) & 0x3fff != 0 {
        let (Some(headers), Some(bytes)) = (ip.get(..header), ip.get(header..total.min(ip.len()))) else {
            return Packet::Malformed;
        };
        return Packet::Fragment(Fragment {
            datagram: DatagramId {
                from: address(12),
                to: address(16),
                protocol: ip[9],
                id: u32::from(be16(ip, 4)),
            },
            headers,
            offset: u32::from(be16(ip, 6) & 0x1fff) * 8,
            len: (total - header) as u32,
            has_more: be16(ip, 6) & 0x2000 != 0,
            bytes,
        });
    }
    if ip[9] != 6 {
        let rest = ip.get(header..total.min(ip.len())).unwrap_or_default();
        return inside(ip[9], rest, total.saturating_sub(ip.len()), depth)
            .unwrap_or_else(|| udp(rest, header, total, address(12), address(16)));
    }
    tcp(ip, header, total, address(12), address(16))
}

fn ipv6<'a>(ip: &'a [u8], missing: usize, depth: u32) -> Packet<'a> {
    if ip.len() < 40 {
        return Packet::Malformed;
    }
    let total = match usize::from(be16(ip, 4)) {
        0 => ip.len() + missing,
        n => 40 + n,
    };
    let address = |at: usize| {
        let words = [
            be32(ip, at),
            be32(ip, at + 4),
            be32(ip, at + 8),
            be32(ip, at + 12),
        ];
        words
            .iter()
            .fold(0u128, |bits, word| (bits << 32) | u128::from(*word))
    };
    let mut next = ip[6];
    let mut header = 40;
    loop {
        let length = |unit: usize, more: usize| ip.get(header + 1).map(|n| (usize::from(*n) + more) * unit);
        let step = match next {
            6 => break,
            // Hop-by-hop, routing, destination options, mobility: units of 8 bytes beyond the first 8.
            0 | 43 | 60 | 135 => length(8, 1),
            // Authentication: units of 4 bytes beyond the first 8.
            51 => length(4, 2),
            44 => {
                if ip.len() < header + 8 {
                    return Packet::Malformed;
                }
                if be16(ip, header + 2) & 0xfff9 != 0 {
                    let start = header + 8;
                    let Some(bytes) = ip.get(start..total.min(ip.len())).filter(|_| start <= total) else {
                        return Packet::Malformed;
                    };
                    return Packet::Fragment(Fragment {
                        datagram: DatagramId {
                            from: address(8),
                            to: address(24),
                            protocol: ip[header],
                            id: be32(ip, header + 4),
                        },
                        headers: &ip[..header],
                        offset: u32::from(be16(ip, header + 2) & 0xfff8),
                        len: (total - start) as u32,
                        has_more: ip[header + 3] & 1 != 0,
                        bytes,
                    });
                }
                Some(8)
            }
            other => {
                let rest = ip.get(header..total.min(ip.len())).unwrap_or_default();
                return inside(other, rest, total.saturating_sub(ip.len()), depth)
                    .unwrap_or_else(|| udp(rest, header, total, address(8), address(24)));
            }
        };
        let Some(step) = step else {
            return Packet::Malformed;
        };
        next = ip[header];
        header += step;
        if header > total {
            return Packet::Malformed;
        }
    }
    tcp(ip, header, total, address(8), address(24))
}

#[inline]
fn tcp<'a>(ip: &'a [u8], header: usize, total: usize, from: u128, to: u128) -> Packet<'a> {
    let Some(tcp) = ip.get(header..) else {
        return Packet::Malformed;
    };
    if tcp.len() < 20 {
        return Packet::Malformed;
    }
    let offset = usize::from(tcp[12] >> 4) * 4;
    if offset < 20 || header + offset > total {
        return Packet::Malformed;
    }
    let options = if offset > 20 {
        TcpOptions {
            is_cut: tcp.len() < offset,
            ..TcpOptions::parse(&tcp[20..offset.min(tcp.len())])
        }
    } else {
        TcpOptions::default()
    };
    let payload_len = total - header - offset;
    let captured = tcp.len().saturating_sub(offset).min(payload_len);
    Packet::Tcp(Segment {
        from: Endpoint {
            bits: from,
            port: be16(tcp, 0),
        },
        to: Endpoint {
            bits: to,
            port: be16(tcp, 2),
        },
        seq: SeqNum(be32(tcp, 4)),
        ack: SeqNum(be32(tcp, 8)),
        flags: Flags(tcp[13]),
        window: be16(tcp, 14),
        options,
        ip_header: u16::try_from(header).unwrap_or(u16::MAX),
        tcp_header: offset as u8,
        payload_len: payload_len as u32,
        payload: tcp.get(offset..offset + captured).unwrap_or(&[]),
    })
}

/// The datagram whose captured bytes are `udp`, behind `header` bytes of an IP packet of `total` bytes. The length in the
/// UDP header is not used: segmentation offload leaves it wrong, and the IP header's is always there.
fn udp(udp: &[u8], header: usize, total: usize, from: u128, to: u128) -> Packet<'_> {
    if udp.len() < UDP_HEADER {
        return Packet::Malformed;
    }
    Packet::Udp(Datagram {
        from: Endpoint {
            bits: from,
            port: be16(udp, 0),
        },
        to: Endpoint {
            bits: to,
            port: be16(udp, 2),
        },
        ip_header: u16::try_from(header).unwrap_or(u16::MAX),
        payload_len: total.saturating_sub(header + UDP_HEADER) as u32,
        payload: &udp[UDP_HEADER..],
    })
}
