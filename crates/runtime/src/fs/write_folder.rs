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

use super::{Kind, Meta, note};
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use units::UnixTime;

/// Beginning of the names of parts, and of files and folders that are being removed.
const PART: &[u8] = b".weir-upload-";

/// Most folders above each other: each takes a descriptor while a tree is walked.
const DEPTH_MAX: usize = 128;

/// Bytes that are copied at a time.
const COPY_CHUNK: usize = 128 << 10;

/// How every directory on a path is opened.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// How a file is opened to read it: never through a symbolic link, and a FIFO would block.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// How a new file is opened.
const CREATE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

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

/// Gets a directory, a name in it and its metadata. Says whether to go on below it.
type Visit<'v> = dyn FnMut(BorrowedFd<'_>, &[u8], &Meta) -> io::Result<bool> + 'v;

/// Is called with the bytes that are about to be copied. Its error ends the copy.
pub type Spend<'s> = dyn FnMut(u64) -> io::Result<()> + 's;

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

/// A file that has no path yet. Dropping it removes it.
#[derive(Debug)]
pub struct NewFile {
    dir: OwnedFd,
    part: Vec<u8>,
    /// The name that it is to have.
    name: Vec<u8>,
    file: File,
    /// Whether it gets the note on the file that it replaces.
    takes_note: bool,
    is_placed: bool,
}

impl NewFile {
    fn begin(dir: OwnedFd, name: Vec<u8>) -> io::Result<NewFile> {
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

/// What was taken away and is not removed yet: a directory.
#[derive(Debug)]
pub struct Removed(Option<(OwnedFd, Vec<u8>)>);

impl Removed {
    /// Takes what has this name away.
    fn from(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Removed> {
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
fn replace(
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
fn exchange(
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

/// A path without symbolic links; as it is, if that cannot be told.
pub fn real_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A name for a part that no other one of this process has.
fn part_name() -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    [&*part_prefix(), format!("{number:x}").as_bytes()].concat()
}

/// Beginning of the names of this process's parts.
fn part_prefix() -> Vec<u8> {
    [PART, format!("{:x}-", std::process::id()).as_bytes()].concat()
}

/// Whether a process works on a part.
fn is_worked_on(dir: BorrowedFd<'_>, name: &[u8], kind: Kind) -> bool {
    kind != Kind::Other
        && rustix::fs::openat(dir, name, READ, Mode::empty())
            .is_ok_and(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}

/// Refuses what is no name of a file.
fn check(name: &[u8]) -> io::Result<()> {
    let is_name = !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0);
    match is_name {
        true => Ok(()),
        false => Err(Errno::INVAL.into()),
    }
}

/// How many levels of directories fit below a directory at this path.
fn levels_below(names: &[&[u8]]) -> io::Result<usize> {
    Ok((DEPTH_MAX - 1)
        .checked_sub(names.len())
        .ok_or(Errno::NAMETOOLONG)?)
}

/// Opens a directory in another one, but not through a symbolic link.
fn directory(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    check(name)?;
    Ok(rustix::fs::openat(dir, name, DIRECTORY, Mode::empty())?)
}

fn stat(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Meta, Errno> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(Meta::from_stat(&stat))
}

/// The permissions of a file for its owner, its group and others.
fn mode_of(file: &File) -> io::Result<Mode> {
    Ok(permissions(rustix::fs::fstat(file)?.st_mode))
}

fn permissions(st_mode: u32) -> Mode {
    Mode::from_raw_mode(st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO)
}

fn set_modified(file: &File, modified: UnixTime) -> io::Result<()> {
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

/// Waits until the names in a directory are on the disk, if that is wanted.
fn synced(dir: &OwnedFd, sync: bool) -> io::Result<()> {
    match sync {
        true => Ok(rustix::fs::fsync(dir)?),
        false => Ok(()),
    }
}

/// The names in a directory.
fn entries(dir: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
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
fn walk(dir: &OwnedFd, depth: usize, visit: &mut Visit<'_>) -> io::Result<()> {
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
fn remove_at(dir: BorrowedFd<'_>, name: &[u8], depth: usize) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn folder() -> (tempfile::TempDir, WriteFolder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = WriteFolder::open(dir.path()).unwrap();
        (dir, folder)
    }

    fn stored(folder: &WriteFolder, names: &[&[u8]], content: &[u8]) {
        let mut file = folder.begin(names).unwrap();
        file.write(content).unwrap();
        file.place(true).unwrap();
    }

    #[test]
    fn notes_go_where_their_files_go() {
        let (_dir, folder) = folder();
        stored(&folder, &[b"a"], b"1");
        folder.make_directory(&[b"sub"], false).unwrap();
        stored(&folder, &[b"sub", b"b"], b"2");
        match folder.set_note(&[b"a"], b"of a", true) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                eprintln!("skipped: the file system of temporary files stores no extended attributes");
                return;
            }
            outcome => outcome.unwrap(),
        }
        folder.set_note(&[b"sub"], b"of sub", false).unwrap();
        folder.set_note(&[b"sub", b"b"], b"of b", false).unwrap();
        folder.set_note(&[], b"of all", false).unwrap();
        let note = |names: &[&[u8]]| String::from_utf8(folder.note(names).unwrap()).unwrap();
        assert_eq!(
            (note(&[]), note(&[b"a"])),
            ("of all".to_owned(), "of a".to_owned())
        );
        // It stays if the content is replaced, and if the file is moved.
        stored(&folder, &[b"a"], b"3");
        assert_eq!(note(&[b"a"]), "of a");
        folder.rename(&[b"a"], &[b"c"], false).unwrap();
        assert_eq!(note(&[b"c"]), "of a");
        // A copy has that of its source, not of what it replaces.
        let copied = |from: &[&[u8]], to: &[&[u8]]| {
            let copy = folder.copy(from, to, true, &mut |_| Ok(())).unwrap();
            copy.place(true).unwrap().finish().unwrap();
        };
        copied(&[b"sub"], &[b"tree"]);
        assert_eq!(
            (note(&[b"tree"]), note(&[b"tree", b"b"])),
            ("of sub".to_owned(), "of b".to_owned())
        );
        copied(&[b"c"], &[b"sub", b"b"]);
        assert_eq!(note(&[b"sub", b"b"]), "of a");
        folder.set_note(&[b"tree", b"b"], b"", true).unwrap();
        folder.set_note(&[b"tree", b"b"], b"", false).unwrap();
        copied(&[b"tree", b"b"], &[b"c"]);
        assert_eq!(note(&[b"c"]), "");
        // A new file at the path of a removed one has none.
        folder.remove(&[b"sub", b"b"], false).unwrap().finish().unwrap();
        stored(&folder, &[b"sub", b"b"], b"4");
        assert_eq!(note(&[b"sub", b"b"]), "");
        let notes = folder.notes(&[]).unwrap();
        assert_eq!(
            (notes.of(b"sub").unwrap(), notes.of(b"c").unwrap()),
            (b"of sub".to_vec(), Vec::new())
        );
        assert!(notes.of(b"missing").is_err() && notes.of(b"../x").is_err());
    }

    #[test]
    fn a_note_is_as_long_as_the_file_system_allows() {
        let (_dir, folder) = folder();
        stored(&folder, &[b"a"], b"1");
        let mut longest = 0;
        for length in [3_072, 4_097, 65_536, 65_537] {
            let note = vec![b'x'; length];
            match folder.set_note(&[b"a"], &note, false) {
                Ok(()) => longest = length,
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    eprintln!("skipped: the file system of temporary files stores no extended attributes");
                    return;
                }
                Err(error) => assert!(
                    matches!(
                        error.kind(),
                        io::ErrorKind::StorageFull | io::ErrorKind::ArgumentListTooLong
                    ),
                    "{length}: {error}"
                ),
            }
            assert_eq!(
                folder.note(&[b"a"]).unwrap().len(),
                longest,
                "the last one that fit"
            );
        }
        assert!((3_072..=65_536).contains(&longest));
    }

    #[test]
    fn notes_are_not_reached_through_links() {
        let (dir, folder) = folder();
        fs::write(dir.path().join("outside"), "").unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        symlink(dir.path().join("outside"), inner.join("link")).unwrap();
        let inner = WriteFolder::open(&inner).unwrap();
        for names in [&[&b"link"[..]][..], &[&b".."[..], b"outside"]] {
            assert!(inner.set_note(names, b"x", false).is_err() && inner.note(names).is_err());
        }
        assert_eq!(folder.note(&[b"outside"]).unwrap(), b"");
    }

    fn directory_of(path: &Path) -> OwnedFd {
        rustix::fs::open(path, DIRECTORY, Mode::empty()).unwrap()
    }

    fn names(dir: &Path) -> Vec<String> {
        let found = fs::read_dir(dir).unwrap();
        let mut found: Vec<String> = found
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        found
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let (dir, folder) = folder();
        stored(&folder, &[b"a"], b"old");
        let mut file = folder.begin(&[b"a"]).unwrap();
        file.write(b"ne").unwrap();
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"old");
        assert_eq!(
            folder.list(&[], 10).unwrap().unwrap().len(),
            1,
            "parts are not listed"
        );
        file.write(b"w").unwrap();
        file.set_modified(UnixTime::from_secs(1_000_000_000)).unwrap();
        let (meta, _) = file.place(true).unwrap();
        assert_eq!((meta.len, meta.modified.secs), (3, 1_000_000_000));
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"new");
        drop(folder.begin(&[b"a"]).unwrap());
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn no_path_leaves_the_folder() {
        let (dir, folder) = folder();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        symlink(outside.path(), dir.path().join("way")).unwrap();
        symlink(outside.path().join("secret"), dir.path().join("link")).unwrap();
        for names in [
            &[&b"way"[..], b"new"][..],
            &[b"..", b"new"],
            &[b".", b"new"],
            &[b"..\0", b"x"],
        ] {
            assert!(folder.begin(names).is_err(), "{names:?}");
            assert!(folder.make_directory(names, false).is_err(), "{names:?}");
        }
        for names in [&[&b".."[..]][..], &[b"a/b"], &[b""], &[]] {
            assert!(folder.begin(names).is_err(), "{names:?}");
            assert!(folder.remove(names, false).is_err(), "{names:?}");
        }
        assert!(folder.read(&[b"way", b"secret"]).is_err());
        assert!(folder.read(&[b"link"]).is_err());
        assert_eq!(folder.meta(&[b"link"]).unwrap().kind, Kind::Other);
        assert!(folder.list(&[b"way"], 10).is_err());
        assert_eq!(folder.list(&[], 10).unwrap().unwrap(), []);
        // Links themselves are removed, and never followed.
        folder.remove(&[b"way"], true).unwrap().finish().unwrap();
        folder.remove(&[b"link"], true).unwrap().finish().unwrap();
        assert_eq!(names(outside.path()), ["secret"]);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn a_copy_leaves_links_out_and_a_move_replaces() {
        let (dir, folder) = folder();
        folder.make_directory(&[b"a"], true).unwrap();
        folder.make_directory(&[b"a", b"b"], true).unwrap();
        stored(&folder, &[b"a", b"b", b"x"], b"12345");
        stored(&folder, &[b"a", b"y"], b"123");
        symlink("/etc/passwd", dir.path().join("a/link")).unwrap();
        assert_eq!(folder.measure().unwrap().bytes, 8);
        let mut spent = 0;
        let mut spend = |bytes| {
            spent += bytes;
            Ok(())
        };
        folder
            .copy(&[b"a"], &[b"c"], true, &mut spend)
            .unwrap()
            .place(true)
            .unwrap();
        assert_eq!(spent, 8);
        assert_eq!(names(&dir.path().join("c")), ["b", "y"]);
        folder
            .copy(&[b"a"], &[b"d"], false, &mut |_| Ok(()))
            .unwrap()
            .place(true)
            .unwrap();
        assert!(names(&dir.path().join("d")).is_empty());
        // A file in place of a directory, and the other way round.
        folder
            .rename(&[b"c", b"y"], &[b"d"], true)
            .unwrap()
            .finish()
            .unwrap();
        assert_eq!(fs::read(dir.path().join("d")).unwrap(), b"123");
        folder.rename(&[b"c"], &[b"d"], true).unwrap().finish().unwrap();
        assert_eq!(names(&dir.path().join("d")), ["b"]);
        let full = folder.copy(&[b"a"], &[b"e"], true, &mut |_| Err(io::Error::other("full")));
        assert_eq!(full.unwrap_err().to_string(), "full");
        assert_eq!(names(dir.path()), ["a", "d"]);
        folder.remove(&[b"a"], true).unwrap().finish().unwrap();
        assert_eq!(names(dir.path()), ["d"]);
    }

    #[test]
    fn a_folder_is_never_missing_while_it_is_replaced() {
        let (dir, folder) = folder();
        for name in [b"a", b"b"] {
            folder.make_directory(&[name], false).unwrap();
        }
        let dir_fd = directory_of(dir.path());
        let probed = rustix::fs::renameat_with(&dir_fd, "a", &dir_fd, "b", RenameFlags::EXCHANGE);
        if let Err(errno) = probed {
            println!("skipped: the file system of the folder cannot exchange names: {errno}");
            return;
        }
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let begins = std::sync::Barrier::new(2);
        let target = dir.path().join("b");
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut missed = 0_u64;
                begins.wait();
                while !is_over.load(Ordering::Relaxed) {
                    missed += u64::from(!target.is_dir());
                }
                missed
            });
            begins.wait();
            for round in 0..500 {
                match round % 2 {
                    0 => {
                        folder.make_directory(&[b"c"], false).unwrap();
                        folder.rename(&[b"c"], &[b"b"], false).unwrap().finish().unwrap();
                    }
                    _ => {
                        let copy = folder.copy(&[b"a"], &[b"b"], true, &mut |_| Ok(())).unwrap();
                        copy.place(false).unwrap().finish().unwrap();
                    }
                }
            }
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(reader.join().unwrap(), 0, "looks that found nothing");
        });
        assert_eq!(names(dir.path()), ["a", "b"]);
    }

    #[test]
    fn names_that_cannot_be_exchanged_are_replaced_one_after_the_other() {
        let (dir, folder) = folder();
        folder.make_directory(&[b"a"], false).unwrap();
        folder.make_directory(&[b"a", b"b"], false).unwrap();
        stored(&folder, &[b"a", b"b", b"x"], b"1");
        let (root, above) = (directory_of(dir.path()), directory_of(&dir.path().join("a")));
        // The kernel refuses to exchange a folder with one in it.
        let (from, to) = ((above.as_fd(), &b"b"[..]), (root.as_fd(), &b"a"[..]));
        assert!(exchange(from, to).unwrap().is_none());
        replace((above.as_fd(), b"b", Kind::Directory), to)
            .unwrap()
            .finish()
            .unwrap();
        assert_eq!(names(dir.path()), ["a"]);
        assert_eq!(names(&dir.path().join("a")), ["x"]);
    }

    #[test]
    fn only_parts_of_nobody_are_cleaned_away() {
        let (dir, folder) = folder();
        folder.make_directory(&[b"deep"], false).unwrap();
        fs::write(dir.path().join("deep/.weir-upload-1-1"), "left").unwrap();
        fs::create_dir_all(dir.path().join(".weir-upload-1-2/x")).unwrap();
        stored(&folder, &[b"kept"], b"x");
        let under_way = folder.begin(&[b"deep", b"new"]).unwrap();
        assert_eq!(folder.measure().unwrap().bytes, 1);
        assert_eq!(folder.clean().unwrap(), 2);
        assert_eq!(names(dir.path()), ["deep", "kept"]);
        assert_eq!(names(&dir.path().join("deep")).len(), 1);
        under_way.place(true).unwrap();
        assert_eq!(folder.clean().unwrap(), 0);
        assert_eq!(names(&dir.path().join("deep")), ["new"]);
    }

    #[test]
    fn parts_of_other_processes_are_measured() {
        let (dir, folder) = folder();
        let other = fs::File::create(dir.path().join(".weir-upload-1-1")).unwrap();
        other.set_len(7).unwrap();
        let own = folder.begin(&[b"own"]).unwrap();
        own.announce(5).unwrap();
        assert_eq!(
            folder.measure().unwrap(),
            Measured::default(),
            "nobody works on it"
        );
        rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        let found = folder.measure().unwrap();
        assert!(found.bytes == 7 && found.has_others, "{found:?}");
    }

    #[test]
    fn lists_and_depths_have_bounds() {
        let (_dir, folder) = folder();
        for name in [b"a", b"b", b"c"] {
            stored(&folder, &[name], b"");
        }
        assert!(folder.list(&[], 2).unwrap().is_none());
        assert_eq!(folder.list(&[], 3).unwrap().unwrap().len(), 3);
        let path = vec![&b"d"[..]; DEPTH_MAX];
        for depth in 1..DEPTH_MAX {
            folder.make_directory(&path[..depth], false).unwrap();
        }
        assert!(folder.make_directory(&path, false).is_err());
        // Neither a copy nor a move nests more deeply.
        folder.make_directory(&[b"e"], false).unwrap();
        let copied =
            |from: &[&[u8]], to: &[&[u8]], deep| folder.copy(from, to, deep, &mut |_| Ok(())).map(drop);
        let moved = |from: &[&[u8]], to: &[&[u8]]| folder.rename(from, to, false).map(drop);
        let long = io::ErrorKind::InvalidFilename;
        assert_eq!(copied(&[b"e"], &path, false).unwrap_err().kind(), long);
        assert_eq!(copied(&[b"d"], &[b"e", b"d"], true).unwrap_err().kind(), long);
        assert_eq!(moved(&[b"d"], &[b"e", b"d"]).unwrap_err().kind(), long);
        assert_eq!(moved(&[b"e"], &path).unwrap_err().kind(), long);
        copied(&[b"d", b"d"], &[b"e", b"d"], true).unwrap();
        moved(&[b"d", b"d"], &[b"e", b"d"]).unwrap();
        moved(&[b"e", b"d"], &[b"d", b"d"]).unwrap();
        assert_eq!(folder.measure().unwrap().bytes, 0);
        folder.remove(&[b"d"], false).unwrap().finish().unwrap();
    }
}
