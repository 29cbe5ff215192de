//! Socket options and calls without a safe wrapper elsewhere.

use super::options::{get, set, set_following};
use crate::dial::Tcp;
use crate::session::Path;
use measure::Duration;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `TCP_DEFER_ACCEPT`: the listener reports a connection once its first bytes are here, or after
/// this long, in whole seconds.
pub(crate) fn set_tcp_defer_accept(fd: BorrowedFd<'_>, at_most: Duration) -> std::io::Result<()> {
    let seconds = libc::c_int::try_from(at_most.as_secs()).unwrap_or(libc::c_int::MAX);
    set(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)
}

/// More than any line has, and not what means that there is no bound.
const PACED_AT_MOST: libc::c_ulong = libc::c_ulong::MAX - 1;

/// `SO_MAX_PACING_RATE`: with a bound, whatever it is, the kernel spreads a window over a round trip by a clock of its own
/// (since Linux 4.13 without a packet scheduler that does). Before 4.20 half of the bytes are taken, which say the same.
pub(crate) fn pace(fd: BorrowedFd<'_>) -> std::io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, PACED_AT_MOST)
}

/// `TCP_NOTSENT_LOWAT`: a socket with so many bytes that are not on their way takes no more (Linux 3.12).
pub(crate) fn bound_unsent(fd: BorrowedFd<'_>, bytes: usize) -> std::io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Whether there is that bound.
#[cfg(test)]
pub(crate) fn is_paced(fd: BorrowedFd<'_>) -> std::io::Result<bool> {
    get::<libc::c_ulong>(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE)
        .map(|rate| rate != libc::c_ulong::MAX)
}

/// Drops at most `most` bytes of what has come, without copying them anywhere (`MSG_TRUNC`, tcp(7)); how many. 0: the peer
/// closed its half. Never waits.
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
    // SAFETY: `filter` points to `program` with its length, which outlives the call, in which the kernel copies it.
    unsafe { set_following(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter) }
}

/// `TCP_INFO`: how the path of a connection is; `None` for a descriptor that is no connection of TCP.
pub(crate) fn path_of(fd: BorrowedFd<'_>) -> Option<Path> {
    let info: libc::tcp_info = get(fd, libc::IPPROTO_TCP, libc::TCP_INFO).ok()?;
    Some(Path {
        rtt: Duration::from_micros(info.tcpi_rtt.into()),
        cwnd: info.tcpi_snd_cwnd,
        retransmitted: info.tcpi_total_retrans,
    })
}

/// `TCP_INFO`: bytes of this connection that its peer has acknowledged; `None` for a descriptor that is no connection of TCP.
/// Zero for ever before Linux 4.1.
pub(crate) fn acknowledged(fd: BorrowedFd<'_>) -> Option<u64> {
    let info: libc::tcp_info = get(fd, libc::IPPROTO_TCP, libc::TCP_INFO).ok()?;
    Some(info.tcpi_bytes_acked)
}

// The kernel writes by place, whatever the fields are called here (`linux/tcp.h`, fixed since Linux 5.4).
const _: () = assert!(std::mem::offset_of!(libc::tcp_info, tcpi_data_segs_in) == 152);
const _: () = assert!(std::mem::offset_of!(libc::tcp_info, tcpi_bytes_retrans) == 208);
const _: () = assert!(std::mem::offset_of!(libc::tcp_info, tcpi_rcv_ooopack) == 224);

/// A state of `enum` in `linux/tcp.h` (`net/tcp_states.h`): also that of a socket whose TIME-WAIT the kernel keeps apart.
const TCP_CLOSE: u8 = 7;

/// `TCP_INFO`: what the kernel has counted on a connection; `None` for a descriptor that is no connection of TCP.
pub(crate) fn tcp_of(fd: BorrowedFd<'_>) -> Option<Tcp> {
    // An older kernel writes less of it, and the rest stays zero.
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
