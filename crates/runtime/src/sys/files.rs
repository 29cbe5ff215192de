//! Calls about files.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// `cachestat(2)`, Linux 6.5; the number is the same on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of a range in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    /// All cached pages.
    pub(crate) cached: u64,
    /// Pages whose content is not on disk yet.
    pub(crate) unwritten: u64,
}

/// How many pages of this range are in the page cache; `None` if the kernel or the file cannot tell.
pub(crate) fn cached_pages(fd: BorrowedFd<'_>, offset: u64, len: u64) -> Option<Pages> {
    static REFUSED: AtomicBool = AtomicBool::new(false);
    if REFUSED.load(Ordering::Relaxed) {
        return None;
    }
    let range = Range { offset, len };
    let mut counts = Counts::default();
    // SAFETY: both pointers are to live values of the layout cachestat(2) documents, which are not
    // moved during the call; the descriptor is borrowed, so open.
    let rc = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            fd.as_raw_fd(),
            &raw const range,
            &raw mut counts,
            0u32,
        )
    };
    if rc == 0 {
        return Some(Pages {
            cached: counts.cached,
            unwritten: counts.dirty + counts.writeback,
        });
    }
    let errno = std::io::Error::last_os_error().raw_os_error();
    if matches!(errno, Some(libc::ENOSYS | libc::EPERM)) {
        REFUSED.store(true, Ordering::Relaxed);
    }
    None
}
