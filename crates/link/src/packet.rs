//! The properties of a packet a link needs: its size and, for holding ACKs, its TCP acknowledgment.
//!
//! Header layouts: RFC 791, RFC 8200, RFC 9293. Does not verify checksums.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use units::Bytes;

/// A packet that can travel over a link.
pub trait Packet {
    /// Length in bytes, from the IP header to the end of the payload.
    fn size(&self) -> Bytes;

    /// Bytes transmitted, before framing. Smaller than `size` behind a compressing modem.
    fn line_size(&self) -> Bytes {
        self.size()
    }

    /// The TCP acknowledgment, if the packet is an unfragmented TCP segment with ACK.
    fn tcp(&self) -> Option<TcpView> {
        None
    }
}

/// One direction of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// Address and port of the sender.
    pub source: SocketAddr,
    /// Address and port of the receiver.
    pub destination: SocketAddr,
}

/// The acknowledgment of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpView {
    /// The direction the segment travels.
    pub flow: Flow,
    /// The acknowledgment number.
    pub ack: u32,
    /// Whether the segment only acknowledges: no payload, SYN, FIN, RST or URG.
    pub pure_ack: bool,
}

/// An IPv4 or IPv6 packet, from its IP header on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram(Vec<u8>);

impl Datagram {
    /// Wraps the bytes of a packet, from its IP header on; nothing is checked.
    pub fn new(bytes: Vec<u8>) -> Datagram {
        Datagram(bytes)
    }

    /// The packet's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The packet's bytes, as a vector.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl Packet for Datagram {
    fn size(&self) -> Bytes {
        Bytes(self.0.len() as u64)
    }

    fn tcp(&self) -> Option<TcpView> {
        TcpView::of(&self.0)
    }
}

impl TcpView {
    /// The acknowledgment in the IP packet `b`, if it is an unfragmented TCP segment with ACK.
    pub fn of(b: &[u8]) -> Option<TcpView> {
        let (source, destination, tcp) = match b.first()? >> 4 {
            4 => {
                let header = usize::from(b[0] & 15) * 4;
                let total = usize::from(be16(b, 2)?);
                let fragment = be16(b, 6)? & 0x3fff;
                if header < 20 || *b.get(9)? != 6 || fragment != 0 {
                    return None;
                }
                let source: [u8; 4] = b.get(12..16)?.try_into().ok()?;
                let destination: [u8; 4] = b.get(16..20)?.try_into().ok()?;
                (
                    IpAddr::V4(Ipv4Addr::from(source)),
                    IpAddr::V4(Ipv4Addr::from(destination)),
                    b.get(header..total)?,
                )
            }
            6 => {
                let payload = usize::from(be16(b, 4)?);
                // TCP behind extension headers is not recognized: such segments are never held.
                if *b.get(6)? != 6 {
                    return None;
                }
                let source: [u8; 16] = b.get(8..24)?.try_into().ok()?;
                let destination: [u8; 16] = b.get(24..40)?.try_into().ok()?;
                (
                    IpAddr::V6(Ipv6Addr::from(source)),
                    IpAddr::V6(Ipv6Addr::from(destination)),
                    b.get(40..40 + payload)?,
                )
            }
            _ => return None,
        };
        let header = usize::from(tcp.get(12)? >> 4) * 4;
        let flags = *tcp.get(13)?;
        const ACK: u8 = 0x10;
        const FIN_SYN_RST_URG: u8 = 0x27;
        if flags & ACK == 0 || header < 20 || header > tcp.len() {
            return None;
        }
        Some(TcpView {
            flow: Flow {
                source: SocketAddr::new(source, be16(tcp, 0)?),
                destination: SocketAddr::new(destination, be16(tcp, 2)?),
            },
            ack: u32::from(be16(tcp, 8)?) << 16 | u32::from(be16(tcp, 10)?),
            pure_ack: tcp.len() == header && flags & FIN_SYN_RST_URG == 0,
        })
    }
}

fn be16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*b.get(at)?, *b.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(payload: usize, flags: u8, fragment: u16) -> Datagram {
        let mut b = vec![0u8; 40 + payload];
        b[0] = 0x45;
        b[2..4].copy_from_slice(&(40 + payload as u16).to_be_bytes());
        b[6..8].copy_from_slice(&fragment.to_be_bytes());
        b[9] = 6;
        b[12..16].copy_from_slice(&[10, 0, 0, 1]);
        b[16..20].copy_from_slice(&[10, 0, 0, 2]);
        b[20..22].copy_from_slice(&4000u16.to_be_bytes());
        b[22..24].copy_from_slice(&80u16.to_be_bytes());
        b[28..32].copy_from_slice(&77u32.to_be_bytes());
        b[32] = 5 << 4;
        b[33] = flags;
        Datagram::new(b)
    }

    #[test]
    fn a_pure_ack_is_told_from_all_else() {
        let ack = v4(0, 0x10, 0).tcp().unwrap();
        assert!(ack.pure_ack);
        assert_eq!(ack.ack, 77);
        assert_eq!(ack.flow.source, "10.0.0.1:4000".parse().unwrap());
        assert_eq!(ack.flow.destination, "10.0.0.2:80".parse().unwrap());
        assert!(!v4(1, 0x10, 0).tcp().unwrap().pure_ack);
        assert!(!v4(0, 0x11, 0).tcp().unwrap().pure_ack);
        assert_eq!(v4(0, 0x02, 0).tcp(), None);
        assert_eq!(v4(0, 0x10, 0x2000).tcp(), None);
        // "Don't fragment" does not make a packet a fragment.
        assert!(v4(0, 0x10, 0x4000).tcp().is_some());
    }

    #[test]
    fn every_cut_of_a_packet_is_no_tcp_and_no_panic() {
        let whole = v4(0, 0x10, 0).into_bytes();
        for n in 0..whole.len() {
            assert_eq!(Datagram::new(whole[..n].to_vec()).tcp(), None, "{n}");
        }
        let mut six = vec![0u8; 60];
        six[0] = 0x60;
        six[5] = 20;
        six[6] = 6;
        six[40 + 12] = 5 << 4;
        six[40 + 13] = 0x10;
        assert!(Datagram::new(six.clone()).tcp().unwrap().pure_ack);
        for n in 0..six.len() {
            assert_eq!(Datagram::new(six[..n].to_vec()).tcp(), None, "{n}");
        }
    }
}
