//! Socket options of any type: `setsockopt(2)` and `getsockopt(2)`, once.
//!
//! The caller knows which option has which type; [`Plain`] guarantees that the type is plain memory.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Plain memory, the only content allowed in an option's value.
///
/// # Safety
/// Only integers and arrays or `repr(C)` structures of them: all zeros and whatever else the kernel writes is a value,
/// and nothing in it is followed as a pointer.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for libc::c_int {}
// SAFETY: an integer.
unsafe impl Plain for libc::c_ulong {}
// SAFETY: `linux/if_packet.h`: two unsigned integers.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: `linux/if_packet.h`: integers and eight bytes.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: `linux/tcp.h`: integers of several sizes.
unsafe impl Plain for libc::tcp_info {}

/// Sets an option.
///
/// # Errors
/// The system's; `EINVAL` mostly if the type is not the option's.
pub(super) fn set<T: Plain>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: plain memory has no pointers.
    unsafe { set_following(fd, level, name, &value) }
}

/// Sets an option whose value contains pointers.
///
/// # Safety
/// The targets of the pointers must be alive and match the option's definition.
pub(super) unsafe fn set_following<T>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, which outlives the call, in which the kernel only reads it; the
    // descriptor is open while borrowed; the caller answers for pointers within.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), length) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An option's value. If it is longer than the kernel's, the rest is zero.
///
/// # Errors
/// The system's.
pub(super) fn get<T: Plain>(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    // SAFETY: zeros are a value of plain memory.
    let mut value: T = unsafe { zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointers describe `value` and its length, which outlive the call; the kernel writes within that
    // length, and whatever it writes is a value; the descriptor is open while borrowed.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_was_set_is_read_back_and_a_refusal_is_the_kernels() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let fd = socket.as_fd();
        for ttl in [1, 64, 255] {
            set(fd, libc::IPPROTO_IP, libc::IP_TTL, ttl).expect("a lifetime");
            let got: libc::c_int = get(fd, libc::IPPROTO_IP, libc::IP_TTL).expect("a lifetime");
            assert_eq!(got, ttl);
        }
        let fault = set(fd, libc::IPPROTO_IP, libc::IP_TTL, 256).expect_err("eight bits");
        assert_eq!(fault.raw_os_error(), Some(libc::EINVAL));
        let fault = get::<libc::tcp_info>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).expect_err("not TCP");
        assert!(fault.raw_os_error().is_some());
    }
}
