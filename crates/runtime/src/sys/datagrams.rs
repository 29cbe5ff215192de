//! Datagrams in batches: `recvmmsg(2)` with receive offload (`UDP_GRO`), `sendmsg(2)` with segmentation (`UDP_SEGMENT`), and
//! the ECN field of each (RFC 3168). udp(7), ip(7), ipv6(7), `linux/udp.h`.
//!
//! An [`Arrivals`] owns the memory that the kernel writes to; what it hands out is borrowed from it.

use super::options::{get, set};
use socket2::SockAddr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Messages that one call receives; with receive offload each may be many datagrams.
const BATCH: usize = 16;
/// Room for one message: the most that the kernel joins.
const ROOM: usize = 65_535;
/// Words of ancillary data: a segment size and an ECN field, with their headers, and to spare.
const CONTROL: usize = 16;

const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;

/// Has the kernel join datagrams of one sender that arrive together, and report the ECN field. What a kernel does not offer is
/// left out.
pub fn prepare_datagrams(fd: BorrowedFd<'_>) {
    let _ = set(fd, libc::SOL_UDP, UDP_GRO, 1);
    let _ = set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
    let _ = set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
}

/// Forbids fragments of IPv4 datagrams sent from here: one that is longer than the path takes fails with `EMSGSIZE`.
///
/// # Errors
/// The system's.
pub fn forbid_fragments(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
}

/// The largest IPv4 packet, in bytes, that the path of this connected socket is known to take.
///
/// # Errors
/// The system's, if the socket is not connected.
pub fn path_mtu(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let bytes: libc::c_int = get(fd, libc::IPPROTO_IP, libc::IP_MTU)?;
    Ok(u32::try_from(bytes).unwrap_or(0))
}

/// A message that arrived.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    length: usize,
    from: SocketAddr,
    /// Bytes of each datagram in it.
    segment: usize,
    ecn: u8,
}

/// Memory for datagrams that are received together.
pub struct Arrivals {
    data: Vec<u8>,
    got: Vec<Arrival>,
    is_refused: bool,
}

impl Arrivals {
    /// Room for one call's messages: 1 MiB, of which only what is used is ever touched.
    #[allow(
        clippy::new_without_default,
        reason = "it is 1 MiB: nobody should make one by accident"
    )]
    pub fn new() -> Arrivals {
        Arrivals {
            data: vec![0; BATCH * ROOM],
            got: Vec::with_capacity(BATCH),
            is_refused: false,
        }
    }

    /// Whether the last call learned that nobody receives at the other end. Sockets know that only if they are connected.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Receives what is there, without waiting; whether there may be more.
    ///
    /// # Errors
    /// What the system says, but for faults of earlier sends that the network reports here.
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        self.got.clear();
        self.is_refused = false;
        // SAFETY: these are made of integers and pointers, for which zero is a value.
        let (mut heads, mut names): ([libc::mmsghdr; BATCH], [libc::sockaddr_storage; BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let mut pieces = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; BATCH];
        let mut control = [[0_u64; CONTROL]; BATCH];
        for (k, room) in self.data.chunks_exact_mut(ROOM).enumerate() {
            pieces[k].iov_base = room.as_mut_ptr().cast();
            pieces[k].iov_len = room.len();
            let head = &mut heads[k].msg_hdr;
            head.msg_name = (&raw mut names[k]).cast();
            head.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            head.msg_iov = &raw mut pieces[k];
            head.msg_iovlen = 1;
            head.msg_control = control[k].as_mut_ptr().cast();
            head.msg_controllen = size_of_val(&control[k]) as _;
        }
        // SAFETY: every head points to a name, an iovec and control memory of this frame and to a part of `self.data`, as long
        // as said and all disjoint, which nobody else uses during the call.
        let n = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                heads.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let Ok(n) = usize::try_from(n) else {
            let error = io::Error::last_os_error();
            self.is_refused = error.raw_os_error() == Some(libc::ECONNREFUSED);
            return match error.raw_os_error() {
                Some(libc::EAGAIN) => Ok(false),
                Some(libc::EINTR | libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH) => Ok(true),
                _ => Err(error),
            };
        };
        for (head, name) in heads[..n].iter().zip(names) {
            let length = (head.msg_len as usize).min(ROOM);
            // SAFETY: the kernel wrote an address of this length into the storage.
            let name = unsafe { SockAddr::new(name.into_storage(), head.msg_hdr.msg_namelen) };
            let Some(from) = name.as_socket() else { continue };
            let (segment, ecn) = ancillary(&head.msg_hdr);
            self.got.push(Arrival {
                length,
                from,
                segment: segment.filter(|&bytes| bytes > 0).unwrap_or(length).max(1),
                ecn,
            });
        }
        Ok(n == BATCH)
    }

    /// The datagrams of the last call, in order: payload, sender, ECN field.
    pub fn datagrams(&mut self) -> impl Iterator<Item = (&mut [u8], SocketAddr, u8)> {
        let rooms = self.data.chunks_exact_mut(ROOM);
        rooms.zip(&self.got).flat_map(|(room, arrival)| {
            let bytes = &mut room[..arrival.length];
            bytes
                .chunks_mut(arrival.segment)
                .map(|bytes| (bytes, arrival.from, arrival.ecn))
        })
    }
}

/// Storage of the kernel's address as `socket2` has it.
trait AsStorage {
    fn into_storage(self) -> socket2::SockAddrStorage;
}

impl AsStorage for libc::sockaddr_storage {
    fn into_storage(self) -> socket2::SockAddrStorage {
        let mut storage = socket2::SockAddrStorage::zeroed();
        // SAFETY: the storage is a `sockaddr_storage`, plain memory for which every value is one.
        unsafe { *storage.view_as::<libc::sockaddr_storage>() = self };
        storage
    }
}

/// The segment size and the ECN field among the ancillary data of a message.
fn ancillary(head: &libc::msghdr) -> (Option<usize>, u8) {
    let (mut segment, mut ecn) = (None, 0);
    // SAFETY: the kernel filled the control memory of `head`, which is alive and aligned for cmsghdr; the macros walk within
    // the length it set, and each value is as long as its header says, read unaligned.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(head);
        while !at.is_null() {
            let data = libc::CMSG_DATA(at);
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::SOL_UDP, UDP_GRO) => {
                    let size: libc::c_int = std::ptr::read_unaligned(data.cast());
                    segment = usize::try_from(size).ok();
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => ecn = std::ptr::read_unaligned(data) & 3,
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    let class: libc::c_int = std::ptr::read_unaligned(data.cast());
                    ecn = (class & 3) as u8;
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(head, at);
        }
    }
    (segment, ecn)
}

/// Sends one payload without waiting: one datagram, or several of `segment` bytes each.
///
/// # Errors
/// What the system says: `EAGAIN` if the socket takes nothing now, `EIO` or `EINVAL` where segments are not offered.
pub fn send_datagrams(
    fd: BorrowedFd<'_>,
    to: SocketAddr,
    bytes: &[u8],
    segment: Option<u16>,
    ecn: u8,
) -> io::Result<()> {
    let to_v4 = match to {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(to) => to.ip().to_ipv4_mapped().is_some(),
    };
    let name = SockAddr::from(to);
    let mut piece = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = [0_u64; CONTROL];
    // SAFETY: msghdr is made of integers and pointers, for which zero is a value.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_name = name.as_ptr().cast_mut().cast();
    head.msg_namelen = name.len();
    head.msg_iov = &raw mut piece;
    head.msg_iovlen = 1;
    head.msg_control = control.as_mut_ptr().cast();
    head.msg_controllen = size_of_val(&control) as _;
    let mut used = 0;
    // SAFETY: the control memory is alive, zero, aligned for cmsghdr and has room for both headers and values; the macros walk
    // within the length set above.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&raw const head);
        if let Some(segment) = segment.filter(|&segment| usize::from(segment) < bytes.len()) {
            (*at).cmsg_level = libc::SOL_UDP;
            (*at).cmsg_type = UDP_SEGMENT;
            (*at).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
            std::ptr::write_unaligned(libc::CMSG_DATA(at).cast(), segment);
            used += libc::CMSG_SPACE(size_of::<u16>() as u32) as usize;
            at = libc::CMSG_NXTHDR(&raw const head, at);
        }
        if ecn != 0 && !at.is_null() {
            let (level, name) = match to_v4 {
                true => (libc::IPPROTO_IP, libc::IP_TOS),
                false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            };
            (*at).cmsg_level = level;
            (*at).cmsg_type = name;
            (*at).cmsg_len = libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as _;
            std::ptr::write_unaligned(libc::CMSG_DATA(at).cast(), libc::c_int::from(ecn & 3));
            used += libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) as usize;
        }
    }
    head.msg_controllen = used as _;
    if used == 0 {
        head.msg_control = std::ptr::null_mut();
    }
    // SAFETY: the head points to a name, an iovec and control memory that outlive the call, in which the kernel only reads.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const head, libc::MSG_DONTWAIT) };
    match sent {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn exchange(host: &str, segment: Option<u16>, ecn: u8) -> Option<Vec<(Vec<u8>, u8)>> {
        let receiver = UdpSocket::bind((host, 0)).ok()?;
        let sender = UdpSocket::bind((host, 0)).ok()?;
        prepare_datagrams(receiver.as_fd());
        let to = receiver.local_addr().ok()?;
        send_datagrams(sender.as_fd(), to, b"one-two-three", segment, ecn).ok()?;
        receiver.set_nonblocking(true).ok()?;
        // Waits until something is there.
        receiver
            .set_read_timeout(Some(std::time::Duration::from_secs(5)))
            .ok()?;
        let mut arrivals = Arrivals::new();
        let mut got = Vec::new();
        while got
            .iter()
            .map(|(bytes, _): &(Vec<u8>, u8)| bytes.len())
            .sum::<usize>()
            < 13
        {
            let mut poll = [rustix::event::PollFd::new(
                &receiver,
                rustix::event::PollFlags::IN,
            )];
            rustix::event::poll(&mut poll, None).ok()?;
            arrivals.receive(receiver.as_fd()).ok()?;
            let sender = sender.local_addr().ok()?;
            got.extend(arrivals.datagrams().map(|(bytes, from, ecn)| {
                assert_eq!(from, sender);
                (bytes.to_vec(), ecn)
            }));
        }
        Some(got)
    }

    #[test]
    fn payloads_segments_and_ecn_arrive() {
        for host in ["127.0.0.1", "::1"] {
            let Some(whole) = exchange(host, None, 2) else {
                println!("skipped: no UDP over {host}");
                continue;
            };
            assert_eq!(whole, [(b"one-two-three".to_vec(), 2)], "{host}");
            let segments = exchange(host, Some(4), 1).expect("segments on loopback");
            let expected: Vec<_> = [&b"one-"[..], b"two-", b"thre", b"e"]
                .map(|bytes| (bytes.to_vec(), 1))
                .into();
            assert_eq!(segments, expected, "{host}");
        }
    }

    #[test]
    fn nothing_is_there_without_waiting() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let mut arrivals = Arrivals::new();
        assert!(!arrivals.receive(socket.as_fd()).expect("a receive"));
        assert_eq!(arrivals.datagrams().count(), 0);
    }
}
