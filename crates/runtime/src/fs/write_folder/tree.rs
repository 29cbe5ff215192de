//! The tree below the folder: which names are valid, how directories and files are opened, and how everything below a
//! directory is visited or removed. No call follows a symbolic link.

use crate::fs::{Kind, Meta};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most folders above each other: each takes a descriptor while a tree is walked.
pub(super) const DEPTH_MAX: usize = 128;

/// How every directory on a path is opened.
pub(super) const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// How a file is opened to read it: never through a symbolic link, and a FIFO would block.
pub(super) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// How a new file is opened.
pub(super) const CREATE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Gets a directory, a name in it and its metadata. Says whether to go on below it.
type Visit<'v> = dyn FnMut(BorrowedFd<'_>, &[u8], &Meta) -> io::Result<bool> + 'v;

/// Refuses what is no name of a file.
pub(super) fn check(name: &[u8]) -> io::Result<()> {
    let is_name = !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0);
    match is_name {
        true => Ok(()),
        false => Err(Errno::INVAL.into()),
    }
}

/// How many levels of directories fit below a directory at this path.
pub(super) fn levels_below(names: &[&[u8]]) -> io::Result<usize> {
    Ok((DEPTH_MAX - 1)
        .checked_sub(names.len())
        .ok_or(Errno::NAMETOOLONG)?)
}

/// Opens a directory in another one, but not through a symbolic link.
pub(super) fn directory(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    check(name)?;
    Ok(rustix::fs::openat(dir, name, DIRECTORY, Mode::empty())?)
}

pub(super) fn stat(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Meta, Errno> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(Meta::from_stat(&stat))
}

/// Waits until the names in a directory are on the disk, if that is wanted.
pub(super) fn synced(dir: &OwnedFd, sync: bool) -> io::Result<()> {
    match sync {
        true => Ok(rustix::fs::fsync(dir)?),
        false => Ok(()),
    }
}

/// The names in a directory.
pub(super) fn entries(dir: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}

/// Visits everything below a directory. What disappears meanwhile is left out.
pub(super) fn walk(dir: &OwnedFd, depth: usize, visit: &mut Visit<'_>) -> io::Result<()> {
    for name in entries(dir)? {
        let Ok(meta) = stat(dir.as_fd(), &name) else {
            continue;
        };
        if !visit(dir.as_fd(), &name, &meta)? || meta.kind != Kind::Directory {
            continue;
        }
        let depth = depth.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
        match directory(dir.as_fd(), &name).and_then(|below| walk(&below, depth, visit)) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Removes a file or a directory with all that is in it. Whatever is gone already is no error: another process may clean
/// the folder.
pub(super) fn remove_at(dir: BorrowedFd<'_>, name: &[u8], depth: usize) -> io::Result<()> {
    match unlink_tree(dir, name, depth) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

fn unlink_tree(dir: BorrowedFd<'_>, name: &[u8], depth: usize) -> io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        // POSIX has EPERM for directories.
        Err(Errno::ISDIR | Errno::PERM) => {}
        outcome => return Ok(outcome?),
    }
    let below = directory(dir, name)?;
    let depth = depth.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
    for name in entries(&below)? {
        remove_at(below.as_fd(), &name, depth)?;
    }
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?)
}
