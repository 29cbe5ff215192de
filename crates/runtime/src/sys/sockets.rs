//! Socket options without a safe wrapper elsewhere.

use crate::session::Path;
use measure::Duration;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `TCP_DEFER_ACCEPT`: the listener reports a connection once its first bytes are here, or after
/// `seconds`.
pub(crate) fn set_tcp_defer_accept(fd: BorrowedFd<'_>, seconds: libc::c_int) -> std::io::Result<()> {
    // SAFETY: the pointer and length describe `seconds`, which outlives the call; the descriptor is
    // open for as long as it is borrowed.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// `SO_ATTACH_FILTER`: the listener gets no SYN any more. Whoever is in the middle of the handshake gets to its end.
pub(crate) fn drop_syns(fd: BorrowedFd<'_>) -> std::io::Result<()> {
    const FLAGS: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    // A socket's filter sees a segment from its TCP header on.
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, FLAGS),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, SYN | ACK),
        libc::sock_filter {
            jf: 1,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, SYN)
        },
        statement(libc::BPF_RET | libc::BPF_K, 0),
        statement(libc::BPF_RET | libc::BPF_K, u32::MAX),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the pointer and length describe `filter`, which points to `program` with its length; both outlive the
    // call, in which the kernel copies them. The descriptor is open for as long as it is borrowed.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// `TCP_INFO`: how the path of a connection is; `None` for a descriptor that is no connection of TCP.
pub(crate) fn path_of(fd: BorrowedFd<'_>) -> Option<Path> {
    // SAFETY: `tcp_info` is made of integers only, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the pointers describe `info` and its length, which outlive the call and are written within that
    // length; the descriptor is open for as long as it is borrowed.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    (result == 0).then(|| Path {
        rtt: Duration::from_micros(info.tcpi_rtt.into()),
        cwnd: info.tcpi_snd_cwnd,
        retransmitted: info.tcpi_total_retrans,
    })
}
