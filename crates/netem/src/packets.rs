//! Frames of a live interface, read without blocking and without interpretation.
//!
//! Decides which link layer a reader is told of, restores the VLAN tags that the kernel removes, and drops the second
//! copy of frames that the loopback interface shows twice. Memory use is one queue in the kernel and one batch here.
//! Frames that find the queue full are dropped by the kernel, which counts them.
//!
//! Interfaces with Ethernet frames yield Ethernet, those without a link layer (TUN) raw IP; all others, and `any`,
//! yield Linux "cooked" frames, version 2 (tcpdump.org/linktypes/LINKTYPE_LINUX_SLL2.html). Source: `packet(7)`.

use runtime::sys;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Room before a frame for restored parts: a cooked header and a tag.
const HEADROOM: usize = COOKED_LEN + TAG_LEN;
const COOKED_LEN: usize = 20;
const TAG_LEN: usize = 4;
/// Frames per system call.
const BATCH: usize = 32;

/// Memory limits of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of frames waiting in the kernel; further frames are dropped.
    pub queue: usize,
    /// Bytes kept of each frame.
    pub snaplen: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            queue: 32 << 20,
            snaplen: 256 << 10,
        }
    }
}

/// The header at the start of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// An Ethernet header.
    Ethernet,
    /// An IP header.
    RawIp,
    /// A Linux cooked header, version 2.
    Cooked,
}

/// A frame.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// When the kernel saw it, in nanoseconds since 1970.
    pub nanos: u64,
    /// Its length in bytes, at least that of `data`.
    pub wire_len: usize,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// Why an interface cannot be captured.
#[derive(Debug)]
pub enum OpenError {
    /// No interface has this name; the existing ones.
    NoInterface(Vec<String>),
    /// The refused system call and its error.
    Refused(&'static str, io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NoInterface(names) => {
                write!(
                    f,
                    "there is no such interface; choose one of: any, {}",
                    names.join(", ")
                )
            }
            OpenError::Refused(call, error) if error.kind() == io::ErrorKind::PermissionDenied => write!(
                f,
                "{call}: {error}; capturing needs CAP_NET_RAW: run as root, give the program the capability, or \
                 capture in a network namespace of your own"
            ),
            OpenError::Refused(call, error) => write!(f, "{call}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// An interface being captured.
pub struct Tap {
    socket: OwnedFd,
    link: Link,
    snaplen: usize,
    slots: Vec<u8>,
    arrived: Vec<sys::Arrived>,
    received: u64,
    dropped: u64,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("socket", &self.socket)
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl Tap {
    /// Starts to capture on the interface of this name; `any` means all interfaces.
    ///
    /// # Errors
    /// If there is no such interface, or the system refuses.
    pub fn open(interface: &str, promiscuous: bool, limits: Limits) -> Result<Tap, OpenError> {
        let refused = |call| move |error| OpenError::Refused(call, error);
        let mut cooked = interface == "any";
        let mut socket = sys::capture_socket(cooked).map_err(refused("socket(AF_PACKET)"))?;
        let index = if cooked {
            0
        } else {
            rustix::net::netdevice::name_to_index(socket.as_fd(), interface)
                .map_err(|_| OpenError::NoInterface(interfaces()))?
        };
        let set_up = |socket: &OwnedFd| {
            sys::prepare_packet_socket(socket.as_fd(), limits.queue).map_err(refused("setsockopt"))?;
            sys::bind_packet_socket(socket.as_fd(), index).map_err(refused("bind"))
        };
        let hardware = set_up(&socket)?;
        let link = match hardware {
            _ if cooked => Link::Cooked,
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Link::Ethernet,
            libc::ARPHRD_NONE => Link::RawIp,
            _ => {
                cooked = true;
                socket = sys::capture_socket(cooked).map_err(refused("socket(AF_PACKET)"))?;
                set_up(&socket)?;
                Link::Cooked
            }
        };
        if promiscuous && index != 0 {
            sys::make_promiscuous(socket.as_fd(), index)
                .map_err(refused("setsockopt(PACKET_ADD_MEMBERSHIP)"))?;
        }
        let snaplen = limits.snaplen.max(1);
        Ok(Tap {
            socket,
            link,
            snaplen,
            slots: vec![0; BATCH * (HEADROOM + snaplen)],
            arrived: Vec::with_capacity(BATCH),
            received: 0,
            dropped: 0,
        })
    }

    /// The header at the start of frames.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Passes waiting frames to `sink` until it returns `false`, at most one batch; returns their number, zero if none
    /// waits.
    ///
    /// # Errors
    /// If the interface has gone down or away.
    pub fn receive(&mut self, mut sink: impl FnMut(Captured<'_>) -> bool) -> io::Result<usize> {
        let size = HEADROOM + self.snaplen;
        let mut slots: Vec<&mut [u8]> = self
            .slots
            .chunks_exact_mut(size)
            .map(|slot| &mut slot[HEADROOM..])
            .collect();
        match sys::receive_packets(self.socket.as_fd(), &mut slots, &mut self.arrived) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return Ok(0);
            }
            other => other?,
        }
        for (slot, arrived) in self.slots.chunks_exact_mut(size).zip(&self.arrived) {
            if is_second_copy(arrived) {
                continue;
            }
            let added = match self.link {
                Link::Ethernet => put_tag_back(slot, arrived),
                Link::RawIp => 0,
                Link::Cooked => cook(slot, arrived),
            };
            let captured = Captured {
                nanos: arrived.nanos,
                wire_len: arrived.length + added,
                data: &slot[HEADROOM - added..HEADROOM + arrived.captured],
            };
            if !sink(captured) {
                break;
            }
        }
        Ok(self.arrived.len())
    }

    /// Frames the kernel saw for this capture, dropped ones included, and the dropped ones.
    ///
    /// # Errors
    /// The system's.
    pub fn counts(&mut self) -> io::Result<(u64, u64)> {
        let (received, dropped) = sys::packet_statistics(self.socket.as_fd())?;
        self.received += u64::from(received);
        self.dropped += u64::from(dropped);
        Ok((self.received, self.dropped))
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Loopback receives everything it sends: the outgoing frame equals the incoming one.
fn is_second_copy(arrived: &sys::Arrived) -> bool {
    arrived.from.sll_hatype == libc::ARPHRD_LOOPBACK && arrived.from.sll_pkttype == libc::PACKET_OUTGOING
}

/// Moves the addresses forward and inserts the tag after them; returns the bytes added.
fn put_tag_back(slot: &mut [u8], arrived: &sys::Arrived) -> usize {
    const ADDRESSES: usize = 12;
    let Some((protocol, control)) = arrived.vlan.filter(|_| arrived.captured >= ADDRESSES) else {
        return 0;
    };
    let start = HEADROOM - TAG_LEN;
    slot.copy_within(HEADROOM..HEADROOM + ADDRESSES, start);
    let tag = &mut slot[start + ADDRESSES..start + ADDRESSES + TAG_LEN];
    tag[..2].copy_from_slice(&protocol.to_be_bytes());
    tag[2..].copy_from_slice(&control.to_be_bytes());
    TAG_LEN
}

/// Puts a cooked header, and the tag if there was one, before the packet; returns the bytes added.
fn cook(slot: &mut [u8], arrived: &sys::Arrived) -> usize {
    let from = &arrived.from;
    let mut protocol = u16::from_be(from.sll_protocol);
    let mut added = COOKED_LEN;
    if let Some((tag, control)) = arrived.vlan {
        let place = &mut slot[HEADROOM - TAG_LEN..HEADROOM];
        place[..2].copy_from_slice(&control.to_be_bytes());
        place[2..].copy_from_slice(&protocol.to_be_bytes());
        protocol = tag;
        added += TAG_LEN;
    }
    let header = &mut slot[HEADROOM - added..HEADROOM - added + COOKED_LEN];
    header[..2].copy_from_slice(&protocol.to_be_bytes());
    header[2..4].fill(0);
    header[4..8].copy_from_slice(&from.sll_ifindex.to_be_bytes());
    header[8..10].copy_from_slice(&from.sll_hatype.to_be_bytes());
    header[10] = from.sll_pkttype;
    header[11] = from.sll_halen.min(8);
    header[12..].copy_from_slice(&from.sll_addr);
    added
}

/// Names of the interfaces in this process's network namespace.
fn interfaces() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(captured: usize, vlan: Option<(u16, u16)>, hatype: u16, pkttype: u8) -> sys::Arrived {
        let from = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: 0x0800u16.to_be(),
            sll_ifindex: 7,
            sll_hatype: hatype,
            sll_pkttype: pkttype,
            sll_halen: 6,
            sll_addr: [1, 2, 3, 4, 5, 6, 0, 0],
        };
        sys::Arrived {
            captured,
            length: captured,
            nanos: 1,
            vlan,
            from,
        }
    }

    fn slot(frame: &[u8]) -> Vec<u8> {
        [&[0xee; HEADROOM], frame].concat()
    }

    #[test]
    fn tags_go_back_behind_the_addresses() {
        let frame: Vec<u8> = (1..=14).collect();
        let mut slot = slot(&frame);
        let added = put_tag_back(&mut slot, &arrived(14, Some((0x8100, 42)), 1, 0));
        let whole: Vec<u8> = (1..=12).chain([0x81, 0, 0, 42, 13, 14]).collect();
        assert_eq!(&slot[HEADROOM - added..], whole);
        assert_eq!(put_tag_back(&mut slot, &arrived(14, None, 1, 0)), 0);
        assert_eq!(put_tag_back(&mut slot, &arrived(5, Some((0x8100, 42)), 1, 0)), 0);
    }

    #[test]
    fn cooked_headers_say_protocol_interface_and_address() {
        let mut plain = slot(&[0x45]);
        let added = cook(&mut plain, &arrived(1, None, 1, 4));
        let want = [8, 0, 0, 0, 0, 0, 0, 7, 0, 1, 4, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0x45];
        assert_eq!(&plain[HEADROOM - added..], want);
        let mut tagged = slot(&[0x45]);
        let added = cook(&mut tagged, &arrived(1, Some((0x8100, 42)), 1, 4));
        assert_eq!(&tagged[HEADROOM - added..][..2], [0x81, 0]);
        assert_eq!(&tagged[HEADROOM - 4..], [0, 42, 8, 0, 0x45]);
    }

    #[test]
    fn loopback_is_seen_once() {
        assert!(is_second_copy(&arrived(
            1,
            None,
            libc::ARPHRD_LOOPBACK,
            libc::PACKET_OUTGOING
        )));
        assert!(!is_second_copy(&arrived(
            1,
            None,
            libc::ARPHRD_LOOPBACK,
            libc::PACKET_HOST
        )));
        assert!(!is_second_copy(&arrived(
            1,
            None,
            libc::ARPHRD_ETHER,
            libc::PACKET_OUTGOING
        )));
    }

    /// A datagram over loopback is captured once, whole, with a time. If capturing is forbidden, the error says what to
    /// do.
    #[test]
    fn a_datagram_is_captured_or_the_refusal_explains_itself() {
        for (interface, link, udp_at) in [("lo", Link::Ethernet, 34), ("any", Link::Cooked, 40)] {
            let mut tap = match Tap::open(interface, false, Limits::default()) {
                Ok(tap) => tap,
                Err(error) => {
                    println!("skipped: {interface}: {error}");
                    assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
                    continue;
                }
            };
            assert_eq!(tap.link(), link);
            let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let address = receiver.local_addr().expect("an address");
            let payload = b"seen by the tap";
            receiver.send_to(payload, address).expect("loopback is up");
            receiver.recv(&mut [0; 64]).expect("a datagram");
            let port = address.port().to_be_bytes();
            let mut seen = Vec::new();
            while tap
                .receive(|frame| {
                    // Other programs may use the same port number, for example for TCP.
                    if frame.data.ends_with(payload) && frame.data[udp_at..udp_at + 2] == port {
                        seen.push((frame.nanos, frame.wire_len, frame.data.to_vec()));
                    }
                    true
                })
                .expect("the interface is up")
                > 0
            {}
            assert_eq!(seen.len(), 1, "{interface}");
            let (nanos, wire_len, data) = &seen[0];
            assert_eq!(*wire_len, data.len());
            assert!(*nanos > 1_600_000_000_000_000_000);
            assert!(tap.counts().expect("statistics").0 >= 1);
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_told_with_those_that_are() {
        match Tap::open("no-such-if", false, Limits::default()) {
            Err(OpenError::NoInterface(names)) => assert!(names.contains(&"lo".to_owned()), "{names:?}"),
            Err(OpenError::Refused(..)) => println!("skipped: packet sockets are refused here"),
            Ok(_) => panic!("there is no such interface"),
        }
    }
}
