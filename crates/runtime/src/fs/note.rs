//! A note on a file or a directory: bytes in an extended attribute (`xattr(7)`). It moves with the file, ends with it, and is not
//! part of its content. Decides its name. What it says is not known here.

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;

const NAME: &str = "user.weir.properties";

/// Bytes that most notes have at most.
const USUAL: usize = 4_096;

/// Most bytes that Linux allows (`XATTR_SIZE_MAX`).
const MOST: usize = 65_536;

/// The note on a file; empty if there is none, or if the file system stores none.
///
/// # Errors
/// Of the system.
pub(super) fn read(file: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut usual = [0; USUAL];
    match rustix::fs::fgetxattr(file, NAME, &mut usual[..]) {
        Ok(length) => Ok(usual[..length].to_vec()),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(Vec::new()),
        Err(Errno::RANGE) => {
            let mut note = vec![0; MOST];
            let length = rustix::fs::fgetxattr(file, NAME, &mut note[..])?;
            note.truncate(length);
            Ok(note)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Replaces the note on a file. An empty one removes it.
///
/// # Errors
/// Of the system: `EOPNOTSUPP` if the file system stores none, `ENOSPC` or `E2BIG` if it is too long for it.
pub(super) fn write(file: BorrowedFd<'_>, note: &[u8]) -> io::Result<()> {
    if !note.is_empty() {
        return Ok(rustix::fs::fsetxattr(file, NAME, note, XattrFlags::empty())?);
    }
    match rustix::fs::fremovexattr(file, NAME) {
        Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Gives a new file the note on another one. Returns whether there is one. A file system that stores no notes gets none.
///
/// # Errors
/// Of the system.
pub(super) fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<bool> {
    let note = read(from)?;
    if note.is_empty() {
        return Ok(false);
    }
    match write(to, &note) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(false),
        outcome => outcome.map(|()| true),
    }
}
