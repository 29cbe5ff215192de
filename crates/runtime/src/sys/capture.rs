//! Packet sockets: whole frames of an interface, as the kernel delivers them to `packet(7)`.

use super::options::{get, set};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Room for the control messages of one frame: a timestamp and the data of `PACKET_AUXDATA`.
const CONTROL: usize = 128;

/// The metadata of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Bytes received into the slot.
    pub captured: usize,
    /// Length of the whole frame in bytes.
    pub length: usize,
    /// Nanoseconds since 1970, by the kernel's clock.
    pub nanos: u64,
    /// The tag that the kernel removed from the frame: protocol and control information.
    pub vlan: Option<(u16, u16)>,
    /// The link-level address: interface, hardware type, packet type, protocol.
    pub from: libc::sockaddr_ll,
}

/// A packet socket that does not receive yet. `cooked` sockets deliver packets without their link header.
pub fn capture_socket(cooked: bool) -> io::Result<OwnedFd> {
    let kind = if cooked { libc::SOCK_DGRAM } else { libc::SOCK_RAW };
    // SAFETY: no pointers are passed.
    let fd = unsafe {
        libc::socket(
            libc::AF_PACKET,
            kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            0,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds to an interface (0: all) and starts to receive; returns the interface's hardware type.
pub fn bind_packet_socket(fd: BorrowedFd<'_>, index: u32) -> io::Result<u16> {
    // SAFETY: `sockaddr_ll` is made of integers only, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: pointer and length describe `address`, which outlives the call.
    let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    if bound != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the pointers describe `address` and its length, which outlive the call.
    let named = unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &raw mut length) };
    if named != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(address.sll_hatype)
}

/// Requests timestamps and removed tags with every frame; the queue holds this many bytes if the system permits it.
pub fn prepare_packet_socket(fd: BorrowedFd<'_>, queue: usize) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    set(fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
    let queue = i32::try_from(queue).unwrap_or(i32::MAX);
    // Beyond the administrator's limit if privileged, otherwise up to it.
    set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, queue)
        .or_else(|_| set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, queue))
}

/// Also receives frames for other hosts, while the socket is open.
pub fn make_promiscuous(fd: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, request)
}

/// Frames the kernel received for this socket, and those it had no room for, since the last call.
pub fn packet_statistics(fd: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let counts: libc::tpacket_stats = get(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
    Ok((counts.tp_packets, counts.tp_drops))
}

/// Receives up to one frame into each of `slots` without blocking; `arrived` has an entry for each received frame.
pub fn receive_packets(
    fd: BorrowedFd<'_>,
    slots: &mut [&mut [u8]],
    arrived: &mut Vec<Arrived>,
) -> io::Result<()> {
    arrived.clear();
    let count = slots.len();
    let mut pieces: Vec<libc::iovec> = slots
        .iter_mut()
        .map(|slot| libc::iovec {
            iov_base: slot.as_mut_ptr().cast(),
            iov_len: slot.len(),
        })
        .collect();
    // Words, so that the control messages in them are aligned.
    let mut control = vec![0u64; count * CONTROL / 8];
    // SAFETY: `sockaddr_ll` is made of integers only, for which zero is a value.
    let mut from: Vec<libc::sockaddr_ll> = vec![unsafe { zeroed() }; count];
    let mut messages: Vec<libc::mmsghdr> = (0..count)
        .map(|i| {
            // SAFETY: a zeroed `mmsghdr` is one with null pointers and no lengths.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_name = (&raw mut from[i]).cast();
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            message.msg_hdr.msg_iov = &raw mut pieces[i];
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = (&raw mut control[i * CONTROL / 8]).cast();
            message.msg_hdr.msg_controllen = CONTROL as _;
            message
        })
        .collect();
    // SAFETY: every message points into `from`, `pieces`, `control` and the slots, all of which outlive the call,
    // with their true lengths; no two messages share any of them.
    let received = unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            messages.as_mut_ptr(),
            count as libc::c_uint,
            (libc::MSG_TRUNC | libc::MSG_DONTWAIT) as _,
            std::ptr::null_mut(),
        )
    };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    for (i, message) in messages.iter().enumerate().take(received as usize) {
        let length = message.msg_len as usize;
        let (nanos, vlan) = control_of(&message.msg_hdr);
        arrived.push(Arrived {
            captured: length.min(slots[i].len()),
            length,
            nanos,
            vlan,
            from: from[i],
        });
    }
    Ok(())
}

/// The timestamp and the tag in a message's control data.
fn control_of(message: &libc::msghdr) -> (u64, Option<(u16, u16)>) {
    let (mut nanos, mut vlan) = (0, None);
    // SAFETY: the kernel has filled in the control data that `message` points to and its length, and the memory
    // is the caller's, alive and aligned.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: a header that is not null lies within the control data; its data is as long as the kernel's type
        // for this level and type, which is read without asking for alignment.
        unsafe {
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                    nanos = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                    let data: libc::tpacket_auxdata =
                        std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                    vlan = tag(&data);
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    (nanos, vlan)
}

fn tag(data: &libc::tpacket_auxdata) -> Option<(u16, u16)> {
    let has = |bit: u32| data.tp_status & bit != 0;
    has(libc::TP_STATUS_VLAN_VALID).then(|| {
        let protocol = if has(libc::TP_STATUS_VLAN_TPID_VALID) {
            data.tp_vlan_tpid
        } else {
            libc::ETH_P_8021Q as u16
        };
        (protocol, data.tp_vlan_tci)
    })
}
