//! Memory shared with forked processes, runs of words in it or in private memory, and the return of memory: the
//! allocator's, and the program's own pages that were needed only once.

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
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

/// A file in memory with this content, which the kernel keeps from changing.
pub(crate) fn memory_file(content: &[u8]) -> std::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag, and later ones may insist on it.
    let fd = match rustix::fs::memfd_create("weir", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create("weir", flags),
        other => other,
    }?;
    let mut left = content;
    while !left.is_empty() {
        match rustix::io::write(&fd, left) {
            Ok(0) => return Err(Errno::NOSPC.into()),
            Ok(n) => left = &left[n..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    rustix::fs::fcntl_add_seals(&fd, FIXED | SealFlags::SEAL)?;
    Ok(fd)
}

/// What keeps content and length of a file in memory as they are.
const FIXED: SealFlags = SealFlags::WRITE.union(SealFlags::GROW).union(SealFlags::SHRINK);

/// The content of a file in memory, readable as bytes. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapped {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is memory that nobody can write to, and that lives as long as this value; threads may share it.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The first `len` bytes of a file of [`memory_file`].
    ///
    /// # Errors
    /// `EINVAL` if the file could change or is shorter, otherwise the errno of the kernel.
    pub(crate) fn of(fd: BorrowedFd<'_>, len: usize) -> std::io::Result<Mapped> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let is_fixed = rustix::fs::fcntl_get_seals(fd)?.contains(FIXED);
        let has_all = u64::try_from(rustix::fs::fstat(fd)?.st_size).is_ok_and(|size| size >= len as u64);
        if !is_fixed || !has_all {
            return Err(Errno::INVAL.into());
        }
        if len == 0 {
            let start = NonNull::dangling();
            return Ok(Mapped { start, len });
        }
        // Kernels before 6.7 take every shared mapping for one that may become writable. The pages are shared in any case.
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: the kernel chooses the address, so that nothing that is mapped is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, flags, fd, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Mapped { start, len })
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the mapping holds `len` bytes as long as `self` lives, or `len` is 0. The seals keep every process from
        // changing the bytes and from cutting the file.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: it was mapped with this length, and nobody has a reference to it any more.
            let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        }
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
    use std::os::fd::AsFd;

    #[test]
    fn a_program_that_was_let_go_of_comes_back() {
        let bytes = let_go_of_program();
        assert!(bytes > 100_000, "{bytes} bytes of code and constants");
        assert_eq!(Run::own(3).part(1..3).words().len(), 2);
    }

    #[test]
    fn only_what_cannot_change_is_mapped() {
        let open = rustix::fs::memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(Mapped::of(open.as_fd(), 0).is_err(), "it has no seals");
        let file = memory_file(b"content").unwrap();
        assert!(Mapped::of(file.as_fd(), 8).is_err(), "it is shorter");
        assert_eq!(Mapped::of(file.as_fd(), 7).unwrap().as_ref(), b"content");
        assert!(Mapped::of(file.as_fd(), 0).unwrap().as_ref().is_empty());
    }
}
