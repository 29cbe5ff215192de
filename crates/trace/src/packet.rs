//! From a frame to a TCP segment: link header, VLAN tags, IPv4 or IPv6, TCP, as one borrowed view.
//!
//! Lengths come from the IP headers, never from the captured bytes, so Ethernet padding does not
//! count as payload and a snapshot length costs content but no counter. Checksums are not verified:
//! captures taken on the sending host hold unfinished ones. Nothing here remembers an earlier packet.

use crate::capture::{Frame, LinkType};
use crate::seq::SeqNum;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::Serialize;

/// One end of a connection: address and port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address; an IPv4 address is kept in its IPv6-mapped form so that all keys have one shape.
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
    /// The capture holds only the beginning of the options: what is missing here may have been sent.
    pub is_cut: bool,
}

impl TcpOptions {
    /// Reads the option bytes; stops quietly where they are malformed or not captured.
    fn parse(mut bytes: &[u8]) -> TcpOptions {
        let mut options = TcpOptions::default();
        // Nearly every data segment of a modern stack carries exactly this.
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
    /// Who sent it.
    pub from: Endpoint,
    /// Who should get it.
    pub to: Endpoint,
    /// Sequence number.
    pub seq: SeqNum,
    /// Acknowledgment number; meaningless without the ACK flag.
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// The window field, not scaled.
    pub window: u16,
    /// The options.
    pub options: TcpOptions,
    /// Length of the IP headers in bytes.
    pub ip_header: u16,
    /// Length of the TCP header with options in bytes.
    pub tcp_header: u8,
    /// Payload length in bytes by the IP header's account.
    pub payload_len: u32,
    /// The captured payload; shorter than `payload_len` in a capture with a snapshot length.
    pub payload: &'a [u8],
}

impl Segment<'_> {
    /// The first SACK block reports bytes received twice: it lies below the acknowledgment or within the
    /// second block (RFC 2883, section 4).
    #[inline]
    pub fn reports_duplicate(&self) -> bool {
        let Some((left, right)) = self.options.sack_first else {
            return false;
        };
        let second = self.options.sack_second;
        left - self.ack < 0 || second.is_some_and(|(from, to)| left - from >= 0 && to - right >= 0)
    }
}

/// What a frame turned out to be.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// A TCP segment.
    Tcp(Segment<'a>),
    /// IP, but not TCP; the protocol number.
    OtherIp(u8),
    /// A fragment of an IP datagram; fragments are counted, not reassembled.
    Fragment,
    /// Not IP at all: ARP and the like.
    NotIp,
    /// Headers that contradict themselves or are not wholly captured.
    Malformed,
    /// A link type this crate does not know.
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
            // 12 and 14 are what some BSD systems call RAW inside files.
            LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType(12) | LinkType(14) => 0,
            // The address family's value differs between systems; the IP version says the same.
            LinkType::NULL | LinkType::LOOP => 4,
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
            Some(ip @ [first, ..]) => match first >> 4 {
                4 => ipv4(ip, missing),
                6 => ipv6(ip, missing),
                _ => Packet::NotIp,
            },
            _ => Packet::Malformed,
        }
    }
}

/// Follows EtherTypes from `at` through VLAN tags, QinQ and PPPoE; returns where IP starts.
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
            0x8864 if data.len() >= at + 10 && matches!(be16(data, at + 8), 0x0021 | 0x0057) => {
                return Ok(at + 10);
            }
            _ => return Err(Packet::NotIp),
        }
    }
}

#[inline]
fn ipv4<'a>(ip: &'a [u8], missing: usize) -> Packet<'a> {
    if ip.len() < 20 {
        return Packet::Malformed;
    }
    let header = usize::from(ip[0] & 0x0f) * 4;
    let total = match usize::from(be16(ip, 2)) {
        // The sending host's segmentation offload leaves the field empty.
        0 => ip.len() + missing,
        n => n,
    };
    if header < 20 || total < header {
        return Packet::Malformed;
    }
    if be16(ip, 6) & 0x3fff != 0 {
        return Packet::Fragment;
    }
    if ip[9] != 6 {
        return Packet::OtherIp(ip[9]);
    }
    let address = |at| MAPPED | u128::from(be32(ip, at));
    tcp(ip, header, total, address(12), address(16))
}

fn ipv6<'a>(ip: &'a [u8], missing: usize) -> Packet<'a> {
    if ip.len() < 40 {
        return Packet::Malformed;
    }
    let total = match usize::from(be16(ip, 4)) {
        0 => ip.len() + missing,
        n => 40 + n,
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
                    return Packet::Fragment;
                }
                Some(8)
            }
            other => return Packet::OtherIp(other),
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
