//! Calls for whole packets: packet sockets, TUN devices, batches of frames in one call, offloads.
//!
//! `linux/if_packet.h`, `linux/if_tun.h`, `linux/ethtool.h`. A [`Batch`] owns the memory that `recvmmsg(2)` writes to;
//! results are borrowed from it.

use super::capture::{bind_packet_socket, capture_socket, packet_statistics};
use super::options::set;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Maximum frames per call.
pub const BATCH: usize = 64;

/// Room for one timestamp as ancillary data.
const CONTROL: usize = 64;

const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A raw, non-blocking socket for all frames that arrive at an interface of the calling thread's network namespace, but
/// none of those sent through it. With `offload`, each frame is preceded by a `virtio_net_hdr` of 10 bytes and may be
/// up to 64 KiB long.
pub fn packet_socket(interface: u32, offload: bool) -> io::Result<OwnedFd> {
    let fd = capture_socket(false)?;
    set(fd.as_fd(), libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    set(fd.as_fd(), libc::SOL_PACKET, PACKET_QDISC_BYPASS, 1)?;
    if offload {
        set(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    }
    set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    // The first needs a right in the initial user namespace; the second is capped by the administrator's limit.
    let room = 16 << 20;
    let _ = set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, room)
        .or_else(|_| set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, room));
    let _ = set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, room)
        .or_else(|_| set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, room));
    bind_packet_socket(fd.as_fd(), interface)?;
    Ok(fd)
}

/// Frames that found the receive buffer of a packet socket full since the last call.
pub fn overflowed(fd: BorrowedFd<'_>) -> u32 {
    packet_statistics(fd).map_or(0, |(_, drops)| drops)
}

/// Memory for frames received together.
pub struct Batch {
    /// Bytes of room per frame.
    room: usize,
    data: Vec<u8>,
    control: Vec<[u64; CONTROL / 8]>,
    /// Length of each frame, and its kernel timestamp in nanoseconds of civil time.
    got: Vec<(usize, Option<u64>)>,
}

impl Batch {
    /// Room for [`BATCH`] frames of this many bytes.
    pub fn new(room: usize) -> Batch {
        Batch {
            room,
            data: vec![0; room * BATCH],
            control: vec![[0; CONTROL / 8]; BATCH],
            got: Vec::with_capacity(BATCH),
        }
    }

    /// Receives waiting frames, if any. A frame longer than the room is truncated.
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        self.got.clear();
        let mut pieces = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; BATCH];
        // SAFETY: mmsghdr is made of integers and pointers, for which zero is a value.
        let mut heads: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for (k, frame) in self.data.chunks_exact_mut(self.room).enumerate() {
            pieces[k].iov_base = frame.as_mut_ptr().cast();
            pieces[k].iov_len = frame.len();
            heads[k].msg_hdr.msg_iov = &raw mut pieces[k];
            heads[k].msg_hdr.msg_iovlen = 1;
            heads[k].msg_hdr.msg_control = self.control[k].as_mut_ptr().cast();
            heads[k].msg_hdr.msg_controllen = CONTROL as _;
        }
        // SAFETY: every head points to an iovec of this frame and to memory of `self` as long as said, all
        // disjoint, which nobody else uses during the call.
        let n = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                heads.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if n < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR | libc::ENETDOWN) => Ok(0),
                _ => Err(error),
            };
        }
        for head in &heads[..n as usize] {
            self.got.push((head.msg_len as usize, stamp(&head.msg_hdr)));
        }
        Ok(n as usize)
    }

    /// A frame of the last call, and its kernel timestamp in nanoseconds of civil time.
    pub fn frame(&self, k: usize) -> (&[u8], Option<u64>) {
        let (len, at) = self.got[k];
        let start = k * self.room;
        (&self.data[start..start + len.min(self.room)], at)
    }
}

/// The timestamp in the ancillary data of a message.
fn stamp(head: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel filled the control memory of `head`, which is alive and aligned for cmsghdr; the macros
    // walk within the length it set, and a stamp is as long as its header says, read unaligned.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(head);
        while !at.is_null() {
            if (*at).cmsg_level == libc::SOL_SOCKET && (*at).cmsg_type == libc::SCM_TIMESTAMPNS {
                let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(at).cast());
                return Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
            }
            at = libc::CMSG_NXTHDR(head, at);
        }
    }
    None
}

/// Sends frames in order, at most [`BATCH`]; returns how many the kernel took.
///
/// # Errors
/// That of the first frame if it was not taken.
pub fn send_batch<'f>(fd: BorrowedFd<'_>, frames: impl Iterator<Item = &'f [u8]>) -> io::Result<usize> {
    let mut pieces = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; BATCH];
    // SAFETY: mmsghdr is made of integers and pointers, for which zero is a value.
    let mut heads: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    let mut n = 0;
    for (k, frame) in frames.take(BATCH).enumerate() {
        pieces[k].iov_base = frame.as_ptr().cast_mut().cast();
        pieces[k].iov_len = frame.len();
        heads[k].msg_hdr.msg_iov = &raw mut pieces[k];
        heads[k].msg_hdr.msg_iovlen = 1;
        n = k + 1;
    }
    // SAFETY: every head points to an iovec of this frame and that to a borrowed slice, which the kernel only reads.
    let sent = unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            heads.as_mut_ptr(),
            n as u32,
            libc::MSG_DONTWAIT as _,
        )
    };
    check(sent).map(|sent| sent as usize)
}

/// `struct ifreq` with room for the largest member of its union.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: [u64; 3],
}

impl Request {
    fn of(interface: &str) -> io::Result<Request> {
        let mut request = Request {
            name: [0; libc::IFNAMSIZ],
            data: [0; 3],
        };
        if interface.len() >= libc::IFNAMSIZ {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        request.name[..interface.len()].copy_from_slice(interface.as_bytes());
        Ok(request)
    }
}

/// Disables offloads that let an interface send segments longer than its MTU or without checksums. Afterwards, each
/// frame is as on a wire.
pub fn offloads_off(socket: BorrowedFd<'_>, interface: &str) -> io::Result<()> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    // Transmit checksums, TSO, GSO, GRO.
    for command in [0x17u32, 0x1f, 0x24, 0x2c] {
        let value = [command, 0u32];
        let mut request = Request::of(interface)?;
        request.data[0] = value.as_ptr() as u64;
        // SAFETY: the request is an ifreq whose pointer leads to an ethtool_value, both alive during the call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) })?;
    }
    Ok(())
}

/// A new, non-blocking TUN device in the calling thread's network namespace: each read and write is one IP packet.
pub fn tun(interface: &str) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
    const IFF_TUN_NO_PI: u64 = 0x1001;
    let fd = rustix::fs::open(
        "/dev/net/tun",
        OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut request = Request::of(interface)?;
    request.data[0] = IFF_TUN_NO_PI;
    // SAFETY: the request is an ifreq with its flags set, alive during the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETIFF as _, &raw mut request) })?;
    Ok(fd)
}

/// Makes the kernel record when each datagram arrived.
pub fn stamp_arrivals(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Receives one datagram and its time of arrival in nanoseconds of civil time, with the socket's timeout.
pub fn receive_stamped(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut control = [0u64; CONTROL / 8];
    let mut piece = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: msghdr is made of integers and pointers, for which zero is a value.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_iov = &raw mut piece;
    head.msg_iovlen = 1;
    head.msg_control = control.as_mut_ptr().cast();
    head.msg_controllen = CONTROL as _;
    // SAFETY: the head points to memory as long as said, borrowed or owned by this frame for the call.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut head, 0) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((n as usize, stamp(&head)))
}
