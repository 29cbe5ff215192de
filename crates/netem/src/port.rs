//! An end of the link as the emulator sees it: batches of frames in and out.
//!
//! Two back ends: a packet socket on the near end of a veth pair, and a TUN device. Both deliver IP packets with a
//! prefix that the link does not count; frames of one kind go only to ports of the same kind.

use link::{Packet, TcpView};
use runtime::sys;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use units::{Bytes, Instant};

/// Length of an Ethernet header.
const ETHERNET: usize = 14;
/// Length of the header before a frame whose segmentation or checksum is left to the receiver (`virtio_net_hdr`).
const OFFLOAD: usize = 10;

/// A packet on its way, with the prefix its port needs.
#[derive(Debug)]
pub(super) struct Frame {
    bytes: Vec<u8>,
    /// Where the IP packet starts.
    ip: usize,
}

impl Frame {
    /// A packet behind the prefix that its port needs ([`Port::prefix`]).
    pub(super) fn new(prefix: &[u8], packet: &[u8]) -> Frame {
        Frame {
            bytes: [prefix, packet].concat(),
            ip: prefix.len(),
        }
    }

    /// If a kernel has left it to the receiver to make several UDP datagrams of one: the bytes of payload of each.
    pub(super) fn segment(&self) -> Option<u16> {
        // `linux/virtio_net.h`: VIRTIO_NET_HDR_GSO_UDP_L4, and a flag about ECN.
        const UDP_SEGMENTS: u8 = 5;
        const ECN: u8 = 0x80;
        let [_, kind, _, _, low, high, ..] = *self.bytes.get(..self.ip)? else {
            return None;
        };
        let has_header = self.ip == OFFLOAD + ETHERNET;
        (has_header && kind & !ECN == UDP_SEGMENTS).then(|| u16::from_ne_bytes([low, high]))
    }

    pub(super) fn ip(&self) -> &[u8] {
        &self.bytes[self.ip..]
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Packet for Frame {
    fn size(&self) -> Bytes {
        Bytes((self.bytes.len() - self.ip) as u64)
    }

    fn tcp(&self) -> Option<TcpView> {
        TcpView::of(self.ip())
    }
}

/// The device behind a port.
#[derive(Debug)]
enum Device {
    /// Frames with an Ethernet header.
    Packets(OwnedFd),
    /// Frames with an Ethernet header, each preceded by segmentation offload information.
    Offload(OwnedFd),
    /// Bare IP packets, one per call.
    Tun(OwnedFd),
}

/// One end.
pub(super) struct Port {
    device: Device,
    batch: sys::Batch,
    /// Frames the kernel rejected.
    pub(super) refused: u64,
    /// Frames that arrived while the receive buffer was full.
    overflowed: u64,
}

impl Port {
    pub(super) fn packets(socket: OwnedFd, offload: bool, mtu: u32) -> Port {
        let longest = if offload { 65_536 } else { mtu as usize };
        let device = if offload {
            Device::Offload(socket)
        } else {
            Device::Packets(socket)
        };
        Port::new(device, longest)
    }

    pub(super) fn tun(device: OwnedFd, mtu: u32) -> Port {
        Port::new(Device::Tun(device), mtu as usize)
    }

    fn new(device: Device, longest: usize) -> Port {
        Port {
            device,
            batch: sys::Batch::new(longest + ETHERNET + OFFLOAD),
            refused: 0,
            overflowed: 0,
        }
    }

    /// The bytes before an IP packet in a frame that goes out here, between interfaces with these addresses.
    pub(super) fn prefix(&self, from: [u8; 6], to: [u8; 6]) -> Vec<u8> {
        let ethernet = [&to[..], &from, &[8, 0]].concat();
        match self.device {
            Device::Tun(_) => Vec::new(),
            Device::Packets(_) => ethernet,
            // No segments, and a checksum that is there.
            Device::Offload(_) => [&[0; OFFLOAD][..], &ethernet[..]].concat(),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match &self.device {
            Device::Packets(fd) | Device::Offload(fd) | Device::Tun(fd) => fd.as_fd(),
        }
    }

    /// Delivers the frames that have arrived, with the instant of arrival as far as it is known; returns their number.
    /// Skips everything that is not IP.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        civil: u64,
        mut take: impl FnMut(Frame, Instant),
    ) -> io::Result<usize> {
        match &self.device {
            Device::Tun(fd) => {
                let mut packet = [0u8; 65_536];
                for n in 0..sys::BATCH {
                    match rustix::io::read(fd, &mut packet) {
                        Ok(len) if is_ip(&packet[..len]) => {
                            let bytes = packet[..len].to_vec();
                            take(Frame { bytes, ip: 0 }, now);
                        }
                        Ok(_) => {}
                        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(n),
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(sys::BATCH)
            }
            Device::Packets(fd) | Device::Offload(fd) => {
                let offset = match self.device {
                    Device::Offload(_) => OFFLOAD,
                    _ => 0,
                };
                let n = self.batch.receive(fd.as_fd())?;
                for k in 0..n {
                    let (bytes, stamp) = self.batch.frame(k);
                    let ip = offset + ETHERNET;
                    if bytes.len() <= ip || bytes[offset + 12..ip] != [8, 0] || !is_ip(&bytes[ip..]) {
                        continue;
                    }
                    let age = stamp.map_or(0, |stamp| civil.saturating_sub(stamp));
                    // If the clock was set meanwhile, no packet may appear a second old.
                    let age = if age < 1_000_000_000 { age } else { 0 };
                    let at = Instant::from_nanos(now.as_nanos().saturating_sub(age));
                    let bytes = bytes.to_vec();
                    take(Frame { bytes, ip }, at);
                }
                Ok(n)
            }
        }
    }

    /// Sends frames in order. Frames the kernel rejects are counted: a real interface would have dropped them.
    pub(super) fn send(&mut self, frames: &[Frame]) {
        match &self.device {
            Device::Tun(fd) => {
                for frame in frames {
                    if rustix::io::write(fd, &frame.bytes).is_err() {
                        self.refused += 1;
                    }
                }
            }
            Device::Packets(fd) | Device::Offload(fd) => {
                let mut done = 0;
                while done < frames.len() {
                    match sys::send_batch(fd.as_fd(), frames[done..].iter().map(Frame::bytes)) {
                        Ok(n) => done += n,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => {
                            self.refused += 1;
                            done += 1;
                        }
                    }
                }
            }
        }
    }

    /// Frames that arrived while the receive buffer was full, since the start.
    pub(super) fn overflowed(&mut self) -> u64 {
        if let Device::Packets(fd) | Device::Offload(fd) = &self.device {
            self.overflowed += u64::from(sys::overflowed(fd.as_fd()));
        }
        self.overflowed
    }
}

/// Whether it starts like an IPv4 packet.
fn is_ip(bytes: &[u8]) -> bool {
    bytes.len() >= 20 && bytes[0] >> 4 == 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_into_what_a_receiver_cuts_a_datagram() {
        // `linux/virtio_net.h`: flags, kind, length of the headers, bytes of a segment, place of the checksum.
        let header = |kind: u8| {
            let mut header = [0; OFFLOAD];
            header[1] = kind;
            header[4..6].copy_from_slice(&1_200_u16.to_ne_bytes());
            header
        };
        let frame = |header: &[u8]| Frame::new(&[header, &[0; ETHERNET]].concat(), b"packet");
        // UDP, without and with the flag about ECN; nothing, TCP over IPv4 and IPv6.
        for (kind, wanted) in [
            (5, Some(1_200)),
            (0x85, Some(1_200)),
            (0, None),
            (1, None),
            (4, None),
        ] {
            let frame = frame(&header(kind));
            assert_eq!((frame.segment(), frame.ip()), (wanted, &b"packet"[..]), "{kind}");
        }
        // Ports without such headers.
        assert_eq!(frame(&[]).segment(), None);
        assert_eq!(Frame::new(&[], &header(5)).segment(), None);
    }
}
