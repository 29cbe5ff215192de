//! Copies of files and directories: parts until they are whole, then in place of what has their name.

use super::WriteFolder;
use super::new_file::{NewFile, mode_of};
use super::part::part_name;
use super::removed::{Removed, replace};
use super::tree::{CREATE, DEPTH_MAX, READ, directory, entries, levels_below, remove_at, stat, synced};
use crate::fs::{Kind, note};
use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};

/// Bytes that are copied at a time.
const COPY_CHUNK: usize = 128 << 10;

/// Is called with the bytes that are about to be copied. Its error ends the copy.
pub type Spend<'s> = dyn FnMut(u64) -> io::Result<()> + 's;

impl WriteFolder {
    /// Copies a file, or a directory with (`deep`) or without what is in it, so that it can be given this path. Symbolic
    /// links and other files are left out. `spend` is asked before bytes are copied.
    ///
    /// # Errors
    /// Of the system, or of `spend`. Nothing is left of the copy then.
    pub fn copy(
        &self,
        from: &[&[u8]],
        to: &[&[u8]],
        deep: bool,
        spend: &mut Spend<'_>,
    ) -> io::Result<Copied> {
        let (dir, name) = self.holder(to)?;
        if self.meta(from)?.kind != Kind::Directory {
            let (mut source, _) = self.read(from)?;
            let mut file = NewFile::begin(dir, name.to_vec())?;
            rustix::fs::fchmod(&file.file, mode_of(&source)?)?;
            copy(&mut source, &mut file.file, spend)?;
            note::copy(source.as_fd(), file.file.as_fd())?;
            file.takes_note = false;
            return Ok(Copied::File(file));
        }
        let levels = levels_below(to)?;
        let source = self.directory(from)?;
        let part = part_name();
        rustix::fs::mkdirat(&dir, &part, Mode::from_raw_mode(0o777))?;
        let mut tree = NewTree {
            dir,
            part,
            name: name.to_vec(),
            lock: None,
            is_placed: false,
        };
        let made = directory(tree.dir.as_fd(), &tree.part)?;
        // Another process may hold it for the moment in which it measures the folder.
        rustix::fs::flock(&made, FlockOperation::LockExclusive)?;
        note::copy(source.as_fd(), made.as_fd())?;
        if deep {
            copy_tree(&source, &made, spend, levels)?;
        }
        tree.lock = Some(made);
        Ok(Copied::Tree(tree))
    }
}

/// A copied directory that has no path yet. Dropping it removes it.
#[derive(Debug)]
pub struct NewTree {
    dir: OwnedFd,
    part: Vec<u8>,
    name: Vec<u8>,
    lock: Option<OwnedFd>,
    is_placed: bool,
}

impl Drop for NewTree {
    fn drop(&mut self) {
        if !self.is_placed {
            // If that fails, the next start removes it.
            let _ = remove_at(self.dir.as_fd(), &self.part, DEPTH_MAX);
        }
    }
}

/// A copy that has no path yet. Dropping it removes it.
#[derive(Debug)]
pub enum Copied {
    /// Of a file.
    File(NewFile),
    /// Of a directory.
    Tree(NewTree),
}

impl Copied {
    /// Waits until it is on the disk: the content of a file, or of all files of the file system for a directory.
    ///
    /// # Errors
    /// Of the system.
    pub fn sync(&self) -> io::Result<()> {
        match self {
            Copied::File(file) => file.sync(),
            Copied::Tree(tree) => Ok(rustix::fs::syncfs(&tree.dir)?),
        }
    }

    /// Gives the copy its path, in place of what has it.
    ///
    /// # Errors
    /// Of the system. Nothing has changed then.
    pub fn place(self, sync: bool) -> io::Result<Removed> {
        match self {
            Copied::File(file) => file.place(sync).map(|(_, removed)| removed),
            Copied::Tree(mut tree) => {
                let removed = replace(
                    (tree.dir.as_fd(), &tree.part, Kind::Directory),
                    (tree.dir.as_fd(), &tree.name),
                )?;
                tree.is_placed = true;
                synced(&tree.dir, sync)?;
                Ok(removed)
            }
        }
    }
}

/// Copies what follows in one file to another.
fn copy(from: &mut File, to: &mut File, spend: &mut Spend<'_>) -> io::Result<()> {
    let mut chunk = vec![0; COPY_CHUNK];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                spend(count as u64)?;
                to.write_all(&chunk[..count])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Copies what is in one directory to another, which is new.
fn copy_tree(from: &OwnedFd, to: &OwnedFd, spend: &mut Spend<'_>, depth: usize) -> io::Result<()> {
    for name in entries(from)? {
        let Ok(meta) = stat(from.as_fd(), &name) else {
            continue;
        };
        if WriteFolder::is_part(&name) {
            continue;
        }
        match meta.kind {
            Kind::File => {
                let mut source: File = rustix::fs::openat(from, &name, READ, Mode::empty())?.into();
                let mut made: File =
                    rustix::fs::openat(to, &name, CREATE, Mode::from_raw_mode(0o666))?.into();
                rustix::fs::fchmod(&made, mode_of(&source)?)?;
                copy(&mut source, &mut made, spend)?;
                note::copy(source.as_fd(), made.as_fd())?;
            }
            Kind::Directory => {
                let depth = depth.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
                rustix::fs::mkdirat(to, &name, Mode::from_raw_mode(0o777))?;
                let source = directory(from.as_fd(), &name)?;
                let made = directory(to.as_fd(), &name)?;
                note::copy(source.as_fd(), made.as_fd())?;
                copy_tree(&source, &made, spend, depth)?;
            }
            Kind::Other => {}
        }
    }
    Ok(())
}
