//! How a name is taken from a file or a directory, and given to another one in its place.

use super::WriteFolder;
use super::part::part_name;
use super::tree::{DEPTH_MAX, remove_at, stat};
use crate::fs::Kind;
use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What was taken away and is not removed yet: a directory.
#[derive(Debug)]
pub struct Removed(Option<(OwnedFd, Vec<u8>)>);

impl Removed {
    /// Takes what has this name away.
    pub(super) fn from(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Removed> {
        if stat(dir, name)?.kind != Kind::Directory {
            rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
            return Ok(Removed(None));
        }
        let holder = dir.try_clone_to_owned()?;
        let aside = part_name();
        rustix::fs::renameat(dir, name, dir, &aside)?;
        Ok(Removed(Some((holder, aside))))
    }

    /// Removes it.
    ///
    /// # Errors
    /// Of the system. The next start tries again.
    pub fn finish(mut self) -> io::Result<()> {
        match self.0.take() {
            Some((dir, name)) => remove_at(dir.as_fd(), &name, DEPTH_MAX),
            None => Ok(()),
        }
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        if let Some((dir, name)) = self.0.take() {
            // If that fails, the next start removes it.
            let _ = remove_at(dir.as_fd(), &name, DEPTH_MAX);
        }
    }
}

/// Renames `from` to `to`, in place of what has that name.
pub(super) fn replace(
    (from_dir, from, kind): (BorrowedFd<'_>, &[u8], Kind),
    (to_dir, to): (BorrowedFd<'_>, &[u8]),
) -> io::Result<Removed> {
    let rename = || rustix::fs::renameat(from_dir, from, to_dir, to);
    let there = match stat(to_dir, to) {
        Ok(meta) => meta.kind,
        Err(Errno::NOENT) => return Ok(rename().map(|()| Removed(None))?),
        Err(errno) => return Err(errno.into()),
    };
    if kind != Kind::Directory && there != Kind::Directory {
        return Ok(rename().map(|()| Removed(None))?);
    }
    if let Some(removed) = exchange((from_dir, from), (to_dir, to))? {
        return Ok(removed);
    }
    // Nothing has the name for a moment.
    let holder = to_dir.try_clone_to_owned()?;
    let aside = part_name();
    rustix::fs::renameat(to_dir, to, to_dir, &aside)?;
    if let Err(errno) = rename() {
        rustix::fs::renameat(to_dir, &aside, to_dir, to)?;
        return Err(errno.into());
    }
    Ok(Removed(Some((holder, aside))))
}

/// Renames `from` to `to` by exchanging both, so that something has the name `to` at any time. What had it is then removed from the
/// name `from`. `None`: the file system cannot exchange these two, and nothing has changed.
pub(super) fn exchange(
    (from_dir, from): (BorrowedFd<'_>, &[u8]),
    (to_dir, to): (BorrowedFd<'_>, &[u8]),
) -> io::Result<Option<Removed>> {
    let swap = || rustix::fs::renameat_with(from_dir, from, to_dir, to, RenameFlags::EXCHANGE);
    let holder = from_dir.try_clone_to_owned()?;
    if swap().is_err() {
        return Ok(None);
    }
    if WriteFolder::is_part(from) {
        return Ok(Some(Removed(Some((holder, from.to_owned())))));
    }
    let aside = part_name();
    if let Err(errno) = rustix::fs::renameat(from_dir, from, from_dir, &aside) {
        swap()?;
        return Err(errno.into());
    }
    Ok(Some(Removed(Some((holder, aside)))))
}
