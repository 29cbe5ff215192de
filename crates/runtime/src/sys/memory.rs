//! Memory shared with forked processes, runs of words in it or in private memory, and the return of memory: the
//! allocator's, and the program's own pages that were needed only once.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A run of words, initially zero, that stays shared across forks. Unmapped when dropped.
#[derive(Debug)]
struct SharedWords {
    start: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: it is a plain run of atomics that lives as long as this value; threads may share those.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// `len` words. Untouched pages cost nothing.
    fn new(len: usize) -> std::io::Result<SharedWords> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let bytes = len.max(1) * size_of::<AtomicU64>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so that nothing that is mapped is replaced.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }?;
        let start = NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(SharedWords { start, len })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `len` words, page-aligned and zeroed, which are valid atomics, and lives as long as
        // `self`; other processes write to it through atomics only.
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

#[derive(Debug)]
enum Memory {
    /// Stays shared across forks.
    Shared(SharedWords),
    /// Each process has its own.
    Own(Box<[AtomicU64]>),
}

/// Some words of a memory that lives as long as any run of it. Their address is computed once, not at every access: a
/// server counts several times per request.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    start: NonNull<AtomicU64>,
    len: usize,
    memory: Arc<Memory>,
}

// SAFETY: the memory is of atomics, and threads may share both kinds.
unsafe impl Send for Run {}
// SAFETY: as above.
unsafe impl Sync for Run {}

impl Run {
    /// `len` words that stay shared across forks, all zero.
    pub(crate) fn shared(len: usize) -> std::io::Result<Run> {
        Ok(Run::all_of(Memory::Shared(SharedWords::new(len)?)))
    }

    /// `len` words private to this process, all zero.
    pub(crate) fn own(len: usize) -> Run {
        Run::all_of(Memory::Own((0..len).map(|_| AtomicU64::new(0)).collect()))
    }

    fn all_of(memory: Memory) -> Run {
        let memory = Arc::new(memory);
        let words = match &*memory {
            Memory::Shared(words) => words.words(),
            Memory::Own(words) => words,
        };
        let (start, len) = (NonNull::from(words).cast(), words.len());
        Run { start, len, memory }
    }

    /// The words of this range.
    ///
    /// # Panics
    /// If it ends beyond the run.
    pub(crate) fn part(&self, range: Range<usize>) -> Run {
        let words = &self.words()[range];
        Run {
            start: NonNull::from(words).cast(),
            len: words.len(),
            memory: Arc::clone(&self.memory),
        }
    }

    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: start and length were taken of a slice of this memory, which neither moves nor ends before `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

/// Makes the allocator return the end of an arena as soon as this many bytes of it are free. Otherwise it adapts to the
/// largest blocks freed, up to tens of megabytes per arena. False if the allocator has no such option.
pub(crate) fn set_trim_threshold(bytes: i32) -> bool {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer and changes a number the allocator reads under its own lock.
    let is_set = unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, bytes) == 1 };
    #[cfg(not(target_env = "gnu"))]
    let is_set = {
        let _ = bytes;
        false
    };
    is_set
}

/// Asks the allocator to return unused pages of all its arenas; does nothing if it has no such call.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, may be called from any thread, and changes nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Unmaps the code and the constants of this program and its libraries. They come back when needed: from the page
/// cache, at a microsecond for sixteen pages. Returns their size in bytes. Breakpoints that a debugger has set in them
/// are lost.
pub(crate) fn let_go_of_program() -> usize {
    unsafe extern "C" fn let_go(
        info: *mut libc::dl_phdr_info,
        _: usize,
        bytes: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: both pointers are live for this call and nobody else's: what the linker says of one file, and what was
        // given below.
        let (info, bytes) = unsafe { (&*info, &mut *bytes.cast::<usize>()) };
        // SAFETY: the linker says that the file's headers are there, and they stay as long as the file is mapped.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let page = rustix::param::page_size();
        for header in headers {
            // Modified pages, such as addresses written while a file is linked, would not come back as they were.
            if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
                continue;
            }
            let at = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            let start = at & !(page - 1);
            let len = (at + header.p_memsz as usize).next_multiple_of(page) - start;
            // SAFETY: the pages are private, never writable and of a file, so that each is read from there, as it is, when
            // it is wanted again. The running code is among them.
            if unsafe { rustix::mm::madvise(start as *mut _, len, rustix::mm::Advice::LinuxDontNeed) }.is_ok()
            {
                *bytes += len;
            }
        }
        0
    }
    let mut bytes = 0_usize;
    // SAFETY: the function is called before this returns, with the pointer that is given here.
    unsafe { libc::dl_iterate_phdr(Some(let_go), (&raw mut bytes).cast()) };
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_let_go_of_comes_back() {
        let bytes = let_go_of_program();
        assert!(bytes > 100_000, "{bytes} bytes of code and constants");
        assert_eq!(Run::own(3).part(1..3).words().len(), 2);
    }
}
