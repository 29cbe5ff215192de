//! Files below a root that no path can leave.
//!
//! A path is relative bytes, resolved by the kernel inside the root (`openat2(2)` with `RESOLVE_BENEATH`), so no
//! spelling and no symbolic link reaches outside. The kernel rejects all absolute links that way; they are resolved
//! name by name, beneath the root as well. Every call says whether it may wait for a disk. An event loop calls with
//! [`Wait::Cached`] and hands the work to another thread if the answer is `WouldBlock`. What a file is for is not known
//! here.

mod found;
mod graft;
mod in_memory;
mod inside;
mod log_folder;
mod note;
mod open;
mod record_folder;
mod small;
mod versions;
mod walk;
pub mod watch;
mod write_folder;

use crate::{clock, sys};
use found::Found;
pub use graft::{Graft, Grafts};
pub use log_folder::{GrowingFile, LogFolder};
pub use open::{How, Listed, Listing, OpenError, Refreshed, Root, Symlinks};
pub use record_folder::{RecordFolder, create as create_record_folder};
use rustix::io::{Errno, ReadWriteFlags};
pub use small::{names_in, read_small};
use std::fmt;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use units::UnixTime;
pub use versions::{VersionError, VersionFolder, VersionLinks};
pub use write_folder::{
    Copied, Entries, Measured, NewFile, NewTree, Notes, Removed, Spend, WriteFolder, real_path,
};

/// Whether a call may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Only data already in memory; otherwise `WouldBlock`.
    Cached,
    /// For as long as it takes.
    Block,
}

/// The type of a file system object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A FIFO, socket, device, or a symbolic link that was not followed.
    Other,
}

/// The metadata of a file at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What it is.
    pub kind: Kind,
    /// Length in bytes.
    pub len: u64,
    /// When the content was last written.
    pub modified: UnixTime,
    /// When content, link count, owner or permissions last changed; cannot be set back.
    pub changed: UnixTime,
    /// Its inode number.
    pub inode: u64,
    /// The device number of its file system.
    pub device: u64,
    /// Its number of hard links.
    pub names: u64,
}

impl Meta {
    fn of(fd: BorrowedFd<'_>) -> Result<Meta, Errno> {
        Ok(Meta::from_stat(&rustix::fs::fstat(fd)?))
    }

    /// The identity of the object, without fields that change with its content.
    fn identity(self) -> Meta {
        let never = UnixTime { secs: 0, nanos: 0 };
        Meta {
            len: 0,
            modified: never,
            changed: never,
            names: 1,
            ..self
        }
    }

    fn from_stat(stat: &rustix::fs::Stat) -> Meta {
        use rustix::fs::FileType;
        let time = |secs: i64, nanos: u32| UnixTime { secs, nanos };
        Meta {
            kind: match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Directory,
                _ => Kind::Other,
            },
            len: stat.st_size.max(0) as u64,
            // Below 10^9, in a type that differs between architectures and between rustix's back ends.
            modified: time(stat.st_mtime, stat.st_mtime_nsec as u32),
            changed: time(stat.st_ctime, stat.st_ctime_nsec as u32),
            inode: stat.st_ino,
            device: stat.st_dev,
            #[allow(
                clippy::useless_conversion,
                clippy::unnecessary_cast,
                reason = "the type differs between architectures"
            )]
            names: stat.st_nlink as u64,
        }
    }
}

/// Why bytes of a file could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The bytes are not in memory and the call may not wait.
    WouldBlock,
    /// The system refused with this errno.
    Io(i32),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::WouldBlock => f.write_str("the bytes are not in the page cache"),
            ReadError::Io(errno) => write!(f, "read: {}", Errno::from_raw_os_error(*errno)),
        }
    }
}

impl std::error::Error for ReadError {}

/// An open file with the metadata it had when it was opened.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
    meta: Meta,
    /// The path it was opened by, below its root.
    name: Box<[u8]>,
    found: Found,
    /// It is on no disk.
    is_in_memory: bool,
}

/// The granularity of residency checks; a multiple of every page size in use.
const PAGE: u64 = 4096;

impl File {
    /// The path it was opened by, below its root.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its metadata when it was opened.
    #[inline]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Its metadata now (`fstat`); it may have grown, shrunk or been deleted since it was opened.
    ///
    /// # Errors
    /// The errno of `fstat`, on a failing file system only.
    pub fn meta_now(&self) -> Result<Meta, ReadError> {
        Meta::of(self.fd.as_fd()).map_err(|e| ReadError::Io(e.raw_os_error()))
    }

    /// Whether all metadata, times included, are unchanged since it was opened (`fstat`). Blocks only on a file system
    /// that asks a server for them.
    pub fn is_unchanged(&self) -> bool {
        Meta::of(self.fd.as_fd()).is_ok_and(|now| now == self.meta)
    }

    /// Whether all modified pages of the file are on disk. While they are not, a program that has mapped the file can
    /// write to it again without changing its times; afterwards, the first write to each page changes them. `None`: the
    /// kernel cannot tell, as on layered file systems. Takes up to some milliseconds per gibibyte.
    pub fn is_written_back(&self) -> Option<bool> {
        const PIECE: u64 = 8 << 20;
        let mut cached = 0;
        for offset in (0..self.meta.len).step_by(PIECE as usize) {
            let pages = sys::cached_pages(self.fd.as_fd(), offset, PIECE)?;
            if pages.unwritten > 0 {
                return Some(false);
            }
            cached += pages.cached;
        }
        (cached > 0).then_some(true)
    }

    /// Whether the content is unchanged since the file was opened, judged by length and modification time. A file that
    /// was renamed, removed or given other permissions meanwhile still has its content.
    pub fn has_same_content(&self) -> bool {
        Meta::of(self.fd.as_fd())
            .is_ok_and(|now| (now.len, now.modified) == (self.meta.len, self.meta.modified))
    }

    /// Reads into `buf` from `offset`; returns the number of bytes. It is smaller at the end of the file or, with
    /// [`Wait::Cached`], where the bytes in memory end.
    ///
    /// # Errors
    /// [`ReadError::WouldBlock`] if not even the first byte is in memory.
    pub fn read_at(&self, buf: &mut [u8], offset: u64, wait: Wait) -> Result<usize, ReadError> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            let got = match wait {
                Wait::Block => rustix::io::pread(&self.fd, &mut *buf, offset),
                Wait::Cached => {
                    let mut pieces = [IoSliceMut::new(buf)];
                    rustix::io::preadv2(&self.fd, &mut pieces, offset, ReadWriteFlags::NOWAIT)
                }
            };
            match got {
                Ok(n) => return Ok(n),
                Err(Errno::INTR) => {}
                // Some file systems cannot tell whether they would block; then they might.
                Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) if wait == Wait::Cached => {
                    return Err(ReadError::WouldBlock);
                }
                Err(e) => return Err(ReadError::Io(e.raw_os_error())),
            }
        }
    }

    /// Reads exactly the `len` bytes from `offset`, blocking if `wait` allows it; the vector is shorter only at the end
    /// of the file.
    ///
    /// # Errors
    /// As [`File::read_at`]; with [`Wait::Cached`] also if only a part is in memory.
    pub fn read_all(&self, offset: u64, len: usize, wait: Wait) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; len];
        let mut have = 0;
        while have < len {
            match self.read_at(&mut bytes[have..], offset + have as u64, wait)? {
                0 => break,
                n => have += n,
            }
        }
        bytes.truncate(have);
        Ok(bytes)
    }

    /// Whether sending this range would find every byte in memory, as far as a cheap check can tell: the page cache's
    /// count over the range if the kernel has `cachestat(2)`, otherwise one byte at both ends. Bytes beyond the end of
    /// the file count as resident.
    pub fn is_resident(&self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len).min(self.meta.len);
        if end <= offset {
            return true;
        }
        let resident = match sys::cached_pages(self.fd.as_fd(), offset, end - offset) {
            Some(pages) => {
                let wanted = end.div_ceil(PAGE) - offset / PAGE;
                // A page still being read counts as cached. Reading proceeds forward, so if the last byte is available,
                // the others are.
                pages.cached >= wanted && self.has_byte(end - 1)
            }
            None => self.has_byte(offset) && self.has_byte(end - 1),
        };
        // A file truncated since it was opened has pages that no read will ever bring back.
        resident || self.is_shorter_than(end)
    }

    /// As [`File::is_resident`], or whether the range was resident a moment ago: for files that are sent repeatedly.
    pub(crate) fn was_resident(&self, offset: u64, len: u64) -> bool {
        // Not every kernel can tell of such files.
        if self.is_in_memory {
            return true;
        }
        let (range, now) = (offset..offset.saturating_add(len), clock::coarse());
        if self.found.holds(&range, now) {
            return true;
        }
        let is_resident = self.is_resident(offset, len);
        if is_resident {
            self.found.note(range, now);
        }
        is_resident
    }

    fn is_shorter_than(&self, end: u64) -> bool {
        rustix::fs::fstat(&self.fd).is_ok_and(|stat| u64::try_from(stat.st_size).is_ok_and(|size| size < end))
    }

    fn has_byte(&self, offset: u64) -> bool {
        !matches!(
            self.read_at(&mut [0], offset, Wait::Cached),
            Err(ReadError::WouldBlock)
        )
    }

    /// Reads a range into memory, waiting for the disk.
    ///
    /// # Errors
    /// The errno of a failing disk. A file that ends before the range is not an error.
    pub fn warm(&self, offset: u64, len: u64) -> Result<(), ReadError> {
        const CHUNK: usize = 128 << 10;
        // Requests large reads at once; the loop below only waits for them. File systems without read-ahead rely on the
        // loop.
        let _ = rustix::fs::fadvise(
            &self.fd,
            offset,
            std::num::NonZeroU64::new(len),
            rustix::fs::Advice::WillNeed,
        );
        let mut scratch = vec![0; CHUNK.min(len as usize)];
        let (mut at, end) = (offset, offset.saturating_add(len));
        while at < end {
            let want = scratch.len().min((end - at) as usize);
            match self.read_at(&mut scratch[..want], at, Wait::Block)? {
                0 => break,
                n => at += n as u64,
            }
        }
        Ok(())
    }

    /// Asks the kernel to evict the file's clean pages from memory.
    pub fn cool(&self) {
        self.found.forget();
        let _ = rustix::fs::fadvise(&self.fd, 0, None, rustix::fs::Advice::DontNeed);
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
pub(crate) mod tests;
