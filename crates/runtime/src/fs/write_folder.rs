//! A folder whose files clients may create, replace, move and remove.
//!
//! ```text
//!   begin ─▶ .weir-upload-PID-N, beside the target ── write … ─▶ place: rename ─▶ the target, whole
//!                              └── dropped, or an error ───────▶ removed
//! ```
//! Readers of the folder see the old file or the new one, never a part. Parts carry a lock (`flock(2)`) while their
//! process works on them, so [`WriteFolder::clean`] removes what a crash left and nothing else.
//!
//! A file or directory can have a note, which stays if the file is replaced, moves with it and is copied with it.
//!
//! A path is a list of names. Each directory on the way is opened without following symbolic links, and names with a
//! slash, `.` and `..` are refused, so no path leaves the folder. The folder itself is opened by its path for each
//! call, so it may be replaced. All calls block. What names mean, and who may use them, is not known here.

mod copied;
mod new_file;
mod part;
mod removed;
mod tree;

use super::{Kind, Meta, note};
pub use copied::{Copied, NewTree, Spend};
pub use new_file::NewFile;
use new_file::set_modified;
use part::{PART, is_worked_on, part_prefix};
pub use removed::Removed;
use removed::replace;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use tree::{
    DEPTH_MAX, DIRECTORY, READ, check, directory, entries, levels_below, remove_at, stat, synced, walk,
};
use units::UnixTime;

/// A folder in which files may be changed.
#[derive(Debug)]
pub struct WriteFolder {
    path: PathBuf,
}

/// What the files of a folder take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Their lengths together, with the parts on which other processes work.
    pub bytes: u64,
    /// Whether there are such parts. They grow, and become files, without this process knowing.
    pub has_others: bool,
}

/// Names and metadata of what is in a directory.
pub type Entries = Vec<(Vec<u8>, Meta)>;

impl WriteFolder {
    /// The folder at this path, which is made absolute.
    ///
    /// # Errors
    /// Of the system, if it cannot be opened as a directory.
    pub fn open(path: &Path) -> io::Result<WriteFolder> {
        let folder = WriteFolder {
            path: std::path::absolute(path)?,
        };
        folder.root()?;
        Ok(folder)
    }

    /// Creates and removes a part, to show that this process may change files here.
    ///
    /// # Errors
    /// Of the system.
    pub fn try_out(&self) -> io::Result<()> {
        NewFile::begin(self.root()?, Vec::new()).map(drop)
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a name is one that this folder uses for parts.
    pub fn is_part(name: &[u8]) -> bool {
        name.starts_with(PART)
    }

    fn root(&self) -> io::Result<OwnedFd> {
        // Symbolic links on the way to the folder are the operator's.
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        Ok(rustix::fs::open(&self.path, flags, Mode::empty())?)
    }

    fn directory(&self, names: &[&[u8]]) -> io::Result<OwnedFd> {
        if names.len() > DEPTH_MAX {
            return Err(Errno::NAMETOOLONG.into());
        }
        let mut at = self.root()?;
        for name in names {
            at = directory(at.as_fd(), name)?;
        }
        Ok(at)
    }

    /// The folder that holds a path, and the last name.
    fn holder<'n>(&self, names: &[&'n [u8]]) -> io::Result<(OwnedFd, &'n [u8])> {
        // The folder itself is not to be changed.
        let (name, above) = names.split_last().ok_or(Errno::BUSY)?;
        check(name)?;
        Ok((self.directory(above)?, name))
    }

    /// The metadata of a file, a directory, or of a symbolic link itself ([`Kind::Other`]).
    ///
    /// # Errors
    /// Of the system: `ENOENT`, and `ENOTDIR` for a file or link on the way.
    pub fn meta(&self, names: &[&[u8]]) -> io::Result<Meta> {
        match names {
            [] => Ok(Meta::of(self.root()?.as_fd())?),
            _ => {
                let (dir, name) = self.holder(names)?;
                Ok(stat(dir.as_fd(), name)?)
            }
        }
    }

    /// Opens a file to read it.
    ///
    /// # Errors
    /// Of the system. `ELOOP` for a symbolic link, `EISDIR` for all else that is no regular file.
    pub fn read(&self, names: &[&[u8]]) -> io::Result<(File, Meta)> {
        let (dir, name) = self.holder(names)?;
        let file = rustix::fs::openat(&dir, name, READ, Mode::empty())?;
        let meta = Meta::of(file.as_fd())?;
        match meta.kind {
            Kind::File => Ok((file.into(), meta)),
            Kind::Directory | Kind::Other => Err(Errno::ISDIR.into()),
        }
    }

    /// The files and directories in a directory, by name, without parts and symbolic links. `None`: there are more than
    /// `most`.
    ///
    /// # Errors
    /// Of the system.
    pub fn list(&self, names: &[&[u8]], most: usize) -> io::Result<Option<Entries>> {
        let dir = self.directory(names)?;
        let mut found = Vec::new();
        for name in entries(&dir)? {
            // It may have been removed meanwhile.
            let Ok(meta) = stat(dir.as_fd(), &name) else {
                continue;
            };
            if meta.kind == Kind::Other || WriteFolder::is_part(&name) {
                continue;
            }
            if found.len() == most {
                return Ok(None);
            }
            found.push((name, meta));
        }
        found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Some(found))
    }

    /// Begins a file that is to have this path.
    ///
    /// # Errors
    /// Of the system. `ENOENT` and `ENOTDIR` if its directory is missing.
    pub fn begin(&self, names: &[&[u8]]) -> io::Result<NewFile> {
        let (dir, name) = self.holder(names)?;
        NewFile::begin(dir, name.to_vec())
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// Of the system: `EEXIST`, and `ENOENT` or `ENOTDIR` if the directory above is missing.
    pub fn make_directory(&self, names: &[&[u8]], sync: bool) -> io::Result<()> {
        levels_below(names)?;
        let (dir, name) = self.holder(names)?;
        rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777))?;
        synced(&dir, sync)
    }

    /// Takes a file or a directory away. Its path is free at once; a directory is removed when the result is dropped or
    /// [`Removed::finish`] is called.
    ///
    /// # Errors
    /// Of the system.
    pub fn remove(&self, names: &[&[u8]], sync: bool) -> io::Result<Removed> {
        let (dir, name) = self.holder(names)?;
        let removed = Removed::from(dir.as_fd(), name)?;
        synced(&dir, sync)?;
        Ok(removed)
    }

    /// Renames a file or a directory. What has the new path already is replaced at once; if the file system cannot exchange
    /// names (`RENAME_EXCHANGE`), only a file by a file, and everything else after a [`WriteFolder::remove`].
    ///
    /// # Errors
    /// Of the system. `ENAMETOOLONG` if a directory would be nested too deeply. What was at the new path is then still
    /// there.
    pub fn rename(&self, from: &[&[u8]], to: &[&[u8]], sync: bool) -> io::Result<Removed> {
        let (from_dir, from_name) = self.holder(from)?;
        let (to_dir, to_name) = self.holder(to)?;
        let moved = stat(from_dir.as_fd(), from_name)?;
        if moved.kind == Kind::Directory && to.len() > from.len() {
            // A tree that is nested too deeply could neither be measured nor removed.
            let moved = directory(from_dir.as_fd(), from_name)?;
            walk(&moved, levels_below(to)?, &mut |_, _, _| Ok(true))?;
        }
        let removed = replace(
            (from_dir.as_fd(), from_name, moved.kind),
            (to_dir.as_fd(), to_name),
        )?;
        synced(&from_dir, sync)?;
        synced(&to_dir, sync)?;
        Ok(removed)
    }

    /// Sets the modification time of a file.
    ///
    /// # Errors
    /// Of the system, and as [`WriteFolder::read`].
    pub fn set_modified(&self, names: &[&[u8]], modified: UnixTime) -> io::Result<()> {
        let (file, _) = self.read(names)?;
        set_modified(&file, modified)
    }

    /// Opens a file or a directory to look at what is not its content.
    fn object(&self, names: &[&[u8]]) -> io::Result<OwnedFd> {
        match names {
            [] => self.root(),
            _ => {
                let (dir, name) = self.holder(names)?;
                Ok(rustix::fs::openat(&dir, name, READ, Mode::empty())?)
            }
        }
    }

    /// The note on a file or a directory; empty if there is none, or if the file system stores none.
    ///
    /// # Errors
    /// Of the system. `ELOOP` for a symbolic link.
    pub fn note(&self, names: &[&[u8]]) -> io::Result<Vec<u8>> {
        note::read(self.object(names)?.as_fd())
    }

    /// The notes on what is in a directory.
    ///
    /// # Errors
    /// Of the system.
    pub fn notes(&self, names: &[&[u8]]) -> io::Result<Notes> {
        self.directory(names).map(Notes)
    }

    /// Replaces the note on a file or a directory. An empty one removes it.
    ///
    /// # Errors
    /// Of the system: `EOPNOTSUPP` if the file system stores none, `ENOSPC` or `E2BIG` if it is too long for it. `ELOOP` for a
    /// symbolic link.
    pub fn set_note(&self, names: &[&[u8]], note: &[u8], sync: bool) -> io::Result<()> {
        let object = self.object(names)?;
        note::write(object.as_fd(), note)?;
        synced(&object, sync)
    }

    /// The lengths of all files together, without the parts of this process.
    ///
    /// # Errors
    /// Of the system.
    pub fn measure(&self) -> io::Result<Measured> {
        let own = part_prefix();
        let mut found = Measured::default();
        walk(&self.root()?, DEPTH_MAX, &mut |dir, name, meta| {
            if WriteFolder::is_part(name) {
                if name.starts_with(&own) || !is_worked_on(dir, name, meta.kind) {
                    return Ok(false);
                }
                found.has_others = true;
            }
            if meta.kind == Kind::File {
                found.bytes += meta.len;
            }
            Ok(true)
        })?;
        Ok(found)
    }

    /// Removes parts on which no process works. Returns how many.
    ///
    /// # Errors
    /// Of the system.
    pub fn clean(&self) -> io::Result<u64> {
        let mut removed = 0;
        walk(&self.root()?, DEPTH_MAX, &mut |dir, name, meta| {
            if !WriteFolder::is_part(name) {
                return Ok(true);
            }
            // Nobody makes parts of another kind.
            if meta.kind != Kind::Other && !is_worked_on(dir, name, meta.kind) {
                remove_at(dir, name, DEPTH_MAX)?;
                removed += 1;
            }
            Ok(false)
        })?;
        Ok(removed)
    }

    /// Bytes that this user can still store on the file system.
    ///
    /// # Errors
    /// Of the system.
    pub fn space(&self) -> io::Result<u64> {
        let found = rustix::fs::fstatvfs(self.root()?)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// The notes on what is in a directory.
#[derive(Debug)]
pub struct Notes(OwnedFd);

impl Notes {
    /// The note on the file or directory with this name, as [`WriteFolder::note`].
    ///
    /// # Errors
    /// Of the system.
    pub fn of(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        check(name)?;
        let object = rustix::fs::openat(&self.0, name, READ, Mode::empty())?;
        note::read(object.as_fd())
    }
}

/// A path without symbolic links; as it is, if that cannot be told.
pub fn real_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests;
