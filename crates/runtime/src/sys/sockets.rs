//! Socket options without a safe wrapper elsewhere.

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
