//! The root of a tree and the ways into it.
//!
//! Decides how a relative path becomes an open file: one `openat2(2)` where the kernel has it and
//! allows it, else the walk of [`super::walk`]. Refuses to know URLs: what comes in is bytes of a
//! path that the caller has decoded and split.

use super::inside::Spellings;
use super::{File, Found, Graft, Grafts, Kind, Meta, Wait, walk};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};

/// Whether symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// Followed as long as they stay within the root. An absolute one stays if its target begins with the root's
    /// path, as it was given or with its links resolved.
    FollowWithinRoot,
    /// Any symbolic link on the path is `Link`.
    Refuse,
}

/// How a path is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// What to do at a symbolic link.
    pub symlinks: Symlinks,
    /// Whether the call may wait for directories to be read from disk.
    pub wait: Wait,
}

/// Why a path could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Nothing has this name, or a part of the path that should be a directory is none.
    NotFound,
    /// Permissions: of the thing itself, or of a directory on the path.
    Forbidden,
    /// A symbolic link where none is allowed.
    Link,
    /// Symbolic links that lead to each other without end, or more than the kernel follows.
    Loop,
    /// A FIFO, a socket or a device.
    Special,
    /// The names on the path are not all in memory and the call was not to wait.
    WouldBlock,
    /// The path, or a symbolic link on it, leads out of the root.
    OutsideRoot,
    /// The process or the system has no descriptor left.
    TooManyOpen,
    /// The system refused with this errno.
    Io(i32),
}

impl OpenError {
    pub(super) fn from_errno(errno: Errno) -> OpenError {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => OpenError::NotFound,
            Errno::ACCESS | Errno::PERM => OpenError::Forbidden,
            Errno::LOOP => OpenError::Link,
            Errno::NXIO | Errno::NODEV => OpenError::Special,
            Errno::AGAIN => OpenError::WouldBlock,
            Errno::XDEV => OpenError::OutsideRoot,
            Errno::MFILE | Errno::NFILE => OpenError::TooManyOpen,
            other => OpenError::Io(other.raw_os_error()),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotFound => f.write_str("no such file or directory"),
            OpenError::Forbidden => f.write_str("permission denied"),
            OpenError::Link => f.write_str("a symbolic link where none is allowed"),
            OpenError::Loop => f.write_str("too many levels of symbolic links (ELOOP)"),
            OpenError::Special => f.write_str("a FIFO, socket or device, not a file"),
            OpenError::WouldBlock => f.write_str("the path's directories are not in the kernel's directory cache"),
            OpenError::OutsideRoot => f.write_str("the path leads out of the root"),
            OpenError::TooManyOpen => f.write_str("too many open files; raise the limit (ulimit -n)"),
            OpenError::Io(errno) => write!(f, "open: {}", Errno::from_raw_os_error(*errno)),
        }
    }
}

impl std::error::Error for OpenError {}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name, without any slash; bytes, because file names are.
    pub name: Vec<u8>,
    /// What it names, links followed if they were to be.
    pub kind: Kind,
    /// Length in bytes.
    pub len: u64,
    /// When the content was last written.
    pub modified: measure::UnixTime,
}

/// The names in a directory, sorted bytewise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The names, without `.` and `..`, and without names that cannot be followed.
    pub entries: Vec<Listed>,
    /// Whether the limit left names out (which ones is the file system's choice).
    pub truncated: bool,
}

/// What the kernel lets us resolve paths with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolver {
    /// `openat2(2)`; `cached` if it knows `RESOLVE_CACHED` (Linux 5.12).
    Kernel { cached: bool },
    /// A seccomp filter or an old kernel refuses `openat2`: component by component.
    Walk,
}

/// A directory that no path given to it can leave.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    /// Behind a lock for [`Root::refresh`] only; cold paths take it, requests served from memory don't.
    dir: RwLock<Arc<Dir>>,
    resolver: Resolver,
    grafts: Option<Grafts>,
    /// The errno that opening the root's path failed with; 0 while it can be opened.
    trouble: AtomicI32,
}

#[derive(Debug)]
struct Dir {
    fd: OwnedFd,
    meta: Meta,
    /// What absolute links to something in it begin with.
    spellings: Spellings,
}

impl Dir {
    fn open(path: &Path) -> Result<Dir, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        // It may be opened by a process that may not search it, which then could open nothing in it.
        rustix::fs::statat(&fd, ".", AtFlags::empty())?;
        may_be_read(fd.as_fd())?;
        let meta = Meta::of(fd.as_fd())?;
        let spellings = Spellings::of(path);
        Ok(Dir { fd, meta, spellings })
    }

    fn is(&self, other: &Dir) -> bool {
        (self.meta.device, self.meta.inode) == (other.meta.device, other.meta.inode)
    }
}

/// Fails where the process is confined to other directories (Landlock), which a descriptor of the kind above does
/// not show. A directory whose permissions deny reading is good enough: files in it can be opened by name.
fn may_be_read(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(dir, ".", flags, Mode::empty()) {
        Err(Errno::ACCESS)
            if rustix::fs::accessat(dir, ".", rustix::fs::Access::READ_OK, AtFlags::empty()).is_ok() =>
        {
            Err(Errno::ACCESS)
        }
        _ => Ok(()),
    }
}

/// What became of the path that a root was opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// It names the directory that is in use.
    Same,
    /// It names another directory, which is in use from now on.
    Moved,
    /// It cannot be opened, for this errno. The directory that was in use stays in use.
    Unreachable(i32),
}

impl Root {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// `NotFound` also if `path` is no directory.
    pub fn open(path: impl AsRef<Path>) -> Result<Root, OpenError> {
        let path = path.as_ref().to_owned();
        let dir = Dir::open(&path).map_err(OpenError::from_errno)?;
        let resolver = Resolver::probe(dir.fd.as_fd());
        Ok(Root {
            path,
            dir: RwLock::new(Arc::new(dir)),
            resolver,
            grafts: None,
            trouble: AtomicI32::new(0),
        })
    }

    /// The same root with names that stand for directories elsewhere; what the root itself has under such
    /// a name is no longer to be reached, nor listed.
    #[must_use]
    pub fn with_grafts(self, grafts: Grafts) -> Root {
        Root {
            grafts: Some(grafts),
            ..self
        }
    }

    /// As [`Root::open`], but resolving component by component even where the kernel could do it.
    #[cfg(test)]
    pub(super) fn open_walking(path: &Path) -> Root {
        Root {
            resolver: Resolver::Walk,
            ..Root::open(path).expect("a test root")
        }
    }

    /// The path it was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the root directory was like when it was opened.
    pub fn meta(&self) -> Meta {
        self.dir().meta
    }

    /// Opens the root's path again and goes over to the directory it names by now (a release was switched, say).
    /// While the path cannot be opened the old directory stays in use.
    pub fn refresh(&self) -> Refreshed {
        let new = match Dir::open(&self.path) {
            Ok(new) => new,
            Err(errno) => return Refreshed::Unreachable(errno.raw_os_error()),
        };
        let mut dir = self.dir.write().unwrap_or_else(|e| e.into_inner());
        if dir.is(&new) {
            return Refreshed::Same;
        }
        *dir = Arc::new(new);
        Refreshed::Moved
    }

    /// Whether the root's path can be opened now. Waits for the disk and changes nothing.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub fn confirm(&self) -> Result<(), OpenError> {
        Dir::open(&self.path).map(drop).map_err(OpenError::from_errno)
    }

    /// The errno that opening the root's path failed with when the watcher last looked; `None` while the root is
    /// reachable.
    pub fn trouble(&self) -> Option<i32> {
        Some(self.trouble.load(Ordering::Relaxed)).filter(|errno| *errno != 0)
    }

    pub(super) fn set_trouble(&self, errno: Option<i32>) {
        self.trouble.store(errno.unwrap_or(0), Ordering::Relaxed);
    }

    fn dir(&self) -> Arc<Dir> {
        let guard: RwLockReadGuard<'_, Arc<Dir>> = self.dir.read().unwrap_or_else(|e| e.into_inner());
        Arc::clone(&guard)
    }

    /// Opens what `rel` names for reading; the empty path is the root itself.
    ///
    /// Only regular files and directories are opened. Anything else is reported as [`Kind::Other`] and left alone:
    /// opening a FIFO, even without waiting, lets a writer go on who waits for a reader, and opening a device can
    /// do anything. A file under a write lease (fcntl(2), `F_SETLEASE`) is waited for if `how` says so, at the most
    /// as long as the kernel gives its holder (`fs.lease-break-time`).
    ///
    /// # Errors
    /// See [`OpenError`]; `WouldBlock` only if `how` says not to wait.
    pub fn open_file(&self, rel: &[u8], how: How) -> Result<File, OpenError> {
        let found = self.resolve(rel, how, OFlags::PATH)?;
        let meta = Meta::of(found.as_fd()).map_err(OpenError::from_errno)?;
        let (fd, meta) = match meta.kind {
            Kind::Other => (found, meta),
            Kind::File | Kind::Directory => {
                let fd = self.open_found(&found, rel, how)?;
                let meta = Meta::of(fd.as_fd()).map_err(OpenError::from_errno)?;
                (fd, meta)
            }
        };
        Ok(File {
            fd,
            meta,
            name: rel.into(),
            found: Found::default(),
        })
    }

    /// Opens for reading what was found at `rel`: the very file, not what has its name by now.
    fn open_found(&self, found: &OwnedFd, rel: &[u8], how: How) -> Result<OwnedFd, OpenError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        let flags = match how.wait {
            Wait::Cached => flags | OFlags::NONBLOCK,
            Wait::Block => flags,
        };
        let magic_link = format!("/proc/self/fd/{}", found.as_raw_fd());
        loop {
            match rustix::fs::open(&magic_link, flags, Mode::empty()) {
                Ok(fd) => return Ok(fd),
                Err(Errno::INTR) => {}
                // There is no /proc. By its name, it may be a FIFO this time, so nothing is waited for.
                Err(Errno::NOENT) => {
                    return self.resolve(rel, how, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY);
                }
                Err(errno) => return Err(OpenError::from_errno(errno)),
            }
        }
    }

    /// What `rel` names is like, without opening it for reading. Of a grafted directory itself it says
    /// which directory that is, and nothing that changes with what is in it.
    ///
    /// # Errors
    /// As [`Root::open_file`].
    pub fn stat(&self, rel: &[u8], how: How) -> Result<Meta, OpenError> {
        let fd = self.resolve(rel, how, OFlags::PATH)?;
        let meta = Meta::of(fd.as_fd()).map_err(OpenError::from_errno)?;
        let is_graft = self.graft_of(rel).is_some_and(|name| name.len() == rel.len());
        Ok(if is_graft { meta.identity() } else { meta })
    }

    /// The name at the beginning of `rel` that stands for a directory elsewhere, whether or not that exists.
    pub fn graft_of<'p>(&self, rel: &'p [u8]) -> Option<&'p [u8]> {
        self.grafts.as_ref()?.name(rel)
    }

    /// Up to `limit` names of the directory `rel`. Waits for the disk. A name that is a symbolic link
    /// appears as what it leads to within the root, or not at all.
    ///
    /// # Errors
    /// As [`Root::open_file`]; `NotFound` if it is no directory.
    pub fn list(&self, rel: &[u8], symlinks: Symlinks, limit: usize) -> Result<Listing, OpenError> {
        let how = How {
            symlinks,
            wait: Wait::Block,
        };
        let fd = self.resolve(rel, how, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut listing = Listing::default();
        let names = rustix::fs::Dir::read_from(&fd).map_err(OpenError::from_errno)?;
        for name in names {
            let name = name.map_err(OpenError::from_errno)?;
            let name = name.file_name().to_bytes();
            if name == b"." || name == b".." || (rel.is_empty() && self.graft_of(name).is_some()) {
                continue;
            }
            if listing.entries.len() == limit {
                listing.truncated = true;
                break;
            }
            let Some(meta) = self.stat_listed(&fd, rel, name, how) else {
                continue;
            };
            listing.entries.push(Listed {
                name: name.to_vec(),
                kind: meta.kind,
                len: meta.len,
                modified: meta.modified,
            });
        }
        listing.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }

    fn stat_listed(&self, dir: &OwnedFd, rel: &[u8], name: &[u8], how: How) -> Option<Meta> {
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Symlink {
            return Some(Meta::from_stat(&stat));
        }
        if how.symlinks == Symlinks::Refuse {
            return None;
        }
        self.stat(&join(rel, name), how).ok()
    }

    fn resolve(&self, rel: &[u8], how: How, flags: OFlags) -> Result<OwnedFd, OpenError> {
        if rel.first() == Some(&b'/') {
            return Err(OpenError::OutsideRoot);
        }
        let graft = self.grafts.as_ref().and_then(|grafts| grafts.find(rel));
        if let Some((graft, rest)) = graft {
            // Going there takes several steps, and whether they wait must not depend on where it leads.
            if how.wait == Wait::Cached {
                return Err(OpenError::WouldBlock);
            }
            let dir = self.reach(&graft)?;
            let spellings = || Spellings::of(&graft.path());
            return self.resolve_in(dir.as_fd(), rest, how, flags, spellings);
        }
        let dir = self.dir();
        self.resolve_in(dir.fd.as_fd(), rel, how, flags, || dir.spellings.clone())
    }

    /// Opens a grafted directory. Whatever keeps it from being opened, it is not there, and the steps are the
    /// same up to the answer: a home that is missing costs the second as well.
    fn reach(&self, graft: &Graft) -> Result<OwnedFd, OpenError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = rustix::fs::open(&graft.base, flags, Mode::empty()).map_err(OpenError::from_errno);
        let instead = base.is_err().then(|| self.dir().fd.try_clone()).transpose();
        let instead = instead.map_err(|_| OpenError::TooManyOpen)?;
        let Some(start) = base.as_ref().ok().or(instead.as_ref()) else {
            return Err(OpenError::NotFound);
        };
        let how = How {
            symlinks: Symlinks::Refuse,
            wait: Wait::Block,
        };
        // The dot makes the kernel ask whether it may be searched.
        let below = [&graft.below, b"/.".as_slice()].concat();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let dir = self.resolve_in(start.as_fd(), &below, how, flags, Spellings::default);
        match (base, dir) {
            (Err(OpenError::TooManyOpen), _) | (_, Err(OpenError::TooManyOpen)) => {
                Err(OpenError::TooManyOpen)
            }
            (Ok(_), Ok(dir)) if graft.exists => Ok(dir),
            _ => Err(OpenError::NotFound),
        }
    }

    fn resolve_in(
        &self,
        dir: BorrowedFd<'_>,
        rel: &[u8],
        how: How,
        flags: OFlags,
        spellings: impl FnOnce() -> Spellings,
    ) -> Result<OwnedFd, OpenError> {
        let rel = if rel.is_empty() { b".".as_slice() } else { rel };
        if rel[0] == b'/' {
            return Err(OpenError::OutsideRoot);
        }
        match (self.resolver, how.wait) {
            (Resolver::Kernel { cached: true }, _) | (Resolver::Kernel { cached: false }, Wait::Block) => {
                match kernel_resolve(dir, rel, how, flags) {
                    // The kernel refuses every absolute link, wherever it leads.
                    Err(OpenError::OutsideRoot) if how.symlinks == Symlinks::FollowWithinRoot => {
                        match how.wait {
                            Wait::Block => walk::open(dir, rel, how.symlinks, flags, &spellings()),
                            Wait::Cached => Err(OpenError::WouldBlock),
                        }
                    }
                    result => result,
                }
            }
            (Resolver::Walk, Wait::Block) => walk::open(dir, rel, how.symlinks, flags, &spellings()),
            // It cannot be told whether these would wait.
            (_, Wait::Cached) => Err(OpenError::WouldBlock),
        }
    }
}

/// `dir` and `name` with a slash between, unless `dir` is the root.
pub(super) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !dir.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

fn kernel_resolve(dir: BorrowedFd<'_>, rel: &[u8], how: How, flags: OFlags) -> Result<OwnedFd, OpenError> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if how.symlinks == Symlinks::Refuse {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    if how.wait == Wait::Cached {
        resolve |= ResolveFlags::CACHED;
    }
    // A rename elsewhere in the tree makes the kernel say EAGAIN to be safe; then it is asked again.
    let mut tries_left = 16;
    loop {
        match rustix::fs::openat2(dir, rel, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Ok(fd) => return Ok(fd),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if how.wait == Wait::Block && tries_left > 0 => tries_left -= 1,
            Err(Errno::LOOP) if how.symlinks == Symlinks::FollowWithinRoot => return Err(OpenError::Loop),
            Err(e) => return Err(OpenError::from_errno(e)),
        }
    }
}

impl Resolver {
    fn probe(dir: BorrowedFd<'_>) -> Resolver {
        let try_with = |resolve| {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            rustix::fs::openat2(dir, ".", flags, Mode::empty(), ResolveFlags::BENEATH | resolve)
        };
        match try_with(ResolveFlags::CACHED) {
            Ok(_) | Err(Errno::AGAIN) => Resolver::Kernel { cached: true },
            Err(_) if try_with(ResolveFlags::empty()).is_ok() => Resolver::Kernel { cached: false },
            Err(_) => Resolver::Walk,
        }
    }
}
