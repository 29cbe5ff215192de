//! A new file: a part until it is whole, then in place of what has its name.

use super::part::part_name;
use super::removed::{Removed, replace};
use super::tree::{CREATE, READ, synced};
use crate::fs::{Kind, Meta, note};
use rustix::fs::{AtFlags, FlockOperation, Mode, Timespec, Timestamps};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use units::UnixTime;

/// A file that has no path yet. Dropping it removes it.
#[derive(Debug)]
pub struct NewFile {
    dir: OwnedFd,
    part: Vec<u8>,
    /// The name that it is to have.
    name: Vec<u8>,
    pub(super) file: File,
    /// Whether it gets the note on the file that it replaces.
    pub(super) takes_note: bool,
    is_placed: bool,
}

impl NewFile {
    pub(super) fn begin(dir: OwnedFd, name: Vec<u8>) -> io::Result<NewFile> {
        loop {
            let part = part_name();
            let file = match rustix::fs::openat(&dir, &part, CREATE, Mode::from_raw_mode(0o666)) {
                Ok(file) => file,
                // Of a process with the same number, in another namespace or before a restart.
                Err(Errno::EXIST) => continue,
                Err(errno) => return Err(errno.into()),
            };
            // Another process may have removed it before it was locked.
            let is_there = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
                .and_then(|()| Ok(Meta::of(file.as_fd())?.names > 0));
            if is_there == Ok(true) {
                return Ok(NewFile {
                    dir,
                    part,
                    name,
                    file: file.into(),
                    takes_note: true,
                    is_placed: false,
                });
            }
            // If that fails, the next start removes it.
            let _ = rustix::fs::unlinkat(&dir, &part, AtFlags::empty());
            match is_there {
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Appends content.
    ///
    /// # Errors
    /// Of the system: `ENOSPC` and `EDQUOT` if there is no room.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Gives it the length that it is going to have, so that other processes count all of it. Content is still written
    /// from the start.
    ///
    /// # Errors
    /// Of the system.
    pub fn announce(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    /// Sets its modification time, after the last write.
    ///
    /// # Errors
    /// Of the system.
    pub fn set_modified(&self, modified: UnixTime) -> io::Result<()> {
        set_modified(&self.file, modified)
    }

    /// Waits until its content is on the disk.
    ///
    /// # Errors
    /// Of the system.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Gives it its path. It gets the permissions of the file that it replaces, and, unless it is a copy, its note. Returns its
    /// metadata.
    ///
    /// # Errors
    /// Of the system. Nothing has changed then.
    pub fn place(mut self, sync: bool) -> io::Result<(Meta, Removed)> {
        if let Ok(before) = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)
            && Meta::from_stat(&before).kind == Kind::File
        {
            rustix::fs::fchmod(&self.file, permissions(before.st_mode))?;
            // Who may not read the file has never shown its note.
            if self.takes_note
                && let Ok(before) = rustix::fs::openat(&self.dir, &self.name, READ, Mode::empty())
                && note::copy(before.as_fd(), self.file.as_fd())?
                && sync
            {
                self.sync()?;
            }
        }
        let removed = replace(
            (self.dir.as_fd(), &self.part, Kind::File),
            (self.dir.as_fd(), &self.name),
        )?;
        self.is_placed = true;
        synced(&self.dir, sync)?;
        Ok((Meta::of(self.file.as_fd())?, removed))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_placed {
            // If that fails, the next start removes it.
            let _ = rustix::fs::unlinkat(&self.dir, &self.part, AtFlags::empty());
        }
    }
}

/// The permissions of a file for its owner, its group and others.
pub(super) fn mode_of(file: &File) -> io::Result<Mode> {
    Ok(permissions(rustix::fs::fstat(file)?.st_mode))
}

fn permissions(st_mode: u32) -> Mode {
    Mode::from_raw_mode(st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO)
}

pub(super) fn set_modified(file: &File, modified: UnixTime) -> io::Result<()> {
    let unchanged = Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_OMIT,
    };
    let times = Timestamps {
        last_access: unchanged,
        last_modification: Timespec {
            tv_sec: modified.secs,
            tv_nsec: modified.nanos.into(),
        },
    };
    Ok(rustix::fs::futimens(file, &times)?)
}
