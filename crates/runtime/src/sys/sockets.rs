//! Socket options and calls without a safe wrapper elsewhere.

use super::options::{get, set, set_following};
use crate::tcp_info::{Path, Tcp};
use std::os::fd::{AsRawFd, BorrowedFd};
use units::Duration;

/// `TCP_DEFER_ACCEPT`: the listener reports a connection when its first bytes arrive, or after this long, in whole
/// seconds.
pub(crate) fn set_tcp_defer_accept(fd: BorrowedFd<'_>, at_most: Duration) -> std::io::Result<()> {
    let seconds = libc::c_int::try_from(at_most.as_secs()).unwrap_or(libc::c_int::MAX);
    set(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)
}

/// Above every line's rate, and below the value that means no limit.
const PACED_AT_MOST: libc::c_ulong = libc::c_ulong::MAX - 1;

/// `SO_MAX_PACING_RATE`: with any limit, the kernel spreads a window over a round trip with its own timer (since Linux
/// 4.13 without a pacing packet scheduler). Before 4.20, the kernel reads half of the bytes, which mean the same.
pub(crate) fn pace(fd: BorrowedFd<'_>) -> std::io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, PACED_AT_MOST)
}

/// `TCP_NOTSENT_LOWAT`: a socket with this many unsent bytes accepts no more (Linux 3.12).
pub(crate) fn bound_unsent(fd: BorrowedFd<'_>, bytes: usize) -> std::io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// `TCP_NOTSENT_LOWAT`: that bound, if there is one.
pub(crate) fn unsent_bound(fd: BorrowedFd<'_>) -> Option<usize> {
    let bytes: libc::c_int = get(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT).ok()?;
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// Whether a pacing limit is set.
#[cfg(test)]
pub(crate) fn is_paced(fd: BorrowedFd<'_>) -> std::io::Result<bool> {
    get::<libc::c_ulong>(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE)
        .map(|rate| rate != libc::c_ulong::MAX)
}

/// Discards at most `most` received bytes without copying them (`MSG_TRUNC`, tcp(7)); returns their number. 0: the peer
/// closed its half. Never blocks.
pub(crate) fn discard(fd: BorrowedFd<'_>, most: usize) -> std::io::Result<usize> {
    // SAFETY: with this flag the kernel writes nothing, so that there is no memory for the pointer to lead to; the
    // descriptor is open while borrowed.
    let came = unsafe {
        libc::recv(
            fd.as_raw_fd(),
            std::ptr::null_mut(),
            most,
            libc::MSG_TRUNC | libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(came).map_err(|_| std::io::Error::last_os_error())
}

/// `SO_ATTACH_FILTER`: the listener receives no SYN any more. Handshakes under way can finish.
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
    // SAFETY: `filter` points to `program` with its length, which outlives the call, in which the kernel copies it.
    unsafe { set_following(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter) }
}

/// `TCP_INFO`: state of a connection's path; `None` for a descriptor that is not a TCP connection.
pub(crate) fn path_of(fd: BorrowedFd<'_>) -> Option<Path> {
    let info: libc::tcp_info = get(fd, libc::IPPROTO_TCP, libc::TCP_INFO).ok()?;
    Some(Path {
        rtt: Duration::from_micros(info.tcpi_rtt.into()),
        cwnd: info.tcpi_snd_cwnd,
        retransmitted: info.tcpi_total_retrans,
    })
}

/// `TCP_INFO`: bytes of this connection that its peer has acknowledged; `None` for a descriptor that is not a TCP
/// connection. Always zero before Linux 4.1.
pub(crate) fn acknowledged(fd: BorrowedFd<'_>) -> Option<u64> {
    let info: libc::tcp_info = get(fd, libc::IPPROTO_TCP, libc::TCP_INFO).ok()?;
    Some(info.tcpi_bytes_acked)
}

// The kernel writes by offset, whatever the fields are called here (`linux/tcp.h`, fixed since Linux 5.4).
const _: () = assert!(std::mem::offset_of!(libc::tcp_info, tcpi_data_segs_in) == 152);
const _: () = assert!(std::mem::offset_of!(libc::tcp_info, tcpi_bytes_retrans) == 208);
const _: () = assert!(std::mem::offset_of!(libc::tcp_info, tcpi_rcv_ooopack) == 224);

/// A state of `enum` in `linux/tcp.h` (`net/tcp_states.h`). A socket whose TIME-WAIT the kernel keeps separately also
/// reports it.
const TCP_CLOSE: u8 = 7;

/// `TCP_INFO`: the kernel's counters of a connection; `None` for a descriptor that is not a TCP connection.
pub(crate) fn tcp_of(fd: BorrowedFd<'_>) -> Option<Tcp> {
    // An older kernel writes a shorter structure, and the rest stays zero.
    let known: libc::tcp_info = get(fd, libc::IPPROTO_TCP, libc::TCP_INFO).ok()?;
    let micros = |value: u32| Duration::from_micros(value.into());
    Some(Tcp {
        rtt: micros(known.tcpi_rtt),
        // All ones until there is a sample.
        rtt_min: (known.tcpi_min_rtt != u32::MAX).then(|| micros(known.tcpi_min_rtt)),
        delayed_ack: micros(known.tcpi_ato),
        mss: known.tcpi_rcv_mss,
        path_mss: known.tcpi_advmss.min(known.tcpi_snd_mss),
        segments_in: known.tcpi_segs_in,
        segments_out: known.tcpi_segs_out,
        bytes_in: known.tcpi_bytes_received,
        bytes_out: known.tcpi_bytes_acked,
        data_segments_in: known.tcpi_data_segs_in,
        retransmitted: known.tcpi_total_retrans,
        bytes_retransmitted: known.tcpi_bytes_retrans,
        out_of_order: known.tcpi_rcv_ooopack,
        is_over: known.tcpi_state == TCP_CLOSE,
    })
}
