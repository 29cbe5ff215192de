//! Memory that a process shares with those it forks.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A run of words, zero at first, that stays shared across forks. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct SharedWords {
    start: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: it is a plain run of atomics that lives as long as this value; threads may share those.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// `len` words. Pages that nobody touches cost nothing.
    pub(crate) fn new(len: usize) -> std::io::Result<SharedWords> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let bytes = len.max(1) * size_of::<AtomicU64>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so that nothing that is mapped is replaced.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }?;
        let start = NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(SharedWords { start, len })
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `len` words, page-aligned and zeroed, which are valid atomics, and
        // lives as long as `self`; other processes write to it through atomics only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        let bytes = self.len.max(1) * size_of::<AtomicU64>();
        // SAFETY: it was mapped with this length, and nobody has a reference to it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), bytes) };
    }
}
