//! The root of a tree and how paths in it are opened.
//!
//! Decides how a relative path becomes an open file: by one `openat2(2)` if the kernel has and permits it, otherwise by
//! the walk of [`super::walk`]. Knows nothing of URLs: the input is path bytes that the caller has decoded and split.

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
    /// Followed as long as they stay within the root. An absolute link stays if its target begins with the root's path,
    /// as it was given or with its links resolved.
    FollowWithinRoot,
    /// Any symbolic link on the path fails with `Link`.
    Refuse,
}

/// How a path is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// How to treat symbolic links.
    pub symlinks: Symlinks,
    /// Whether the call may wait for directories to be read from disk.
    pub wait: Wait,
}

/// Why a path could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Nothing has this name, or a part of the path that must be a directory is not one.
    NotFound,
    /// Permissions of the object itself or of a directory on the path.
    Forbidden,
    /// A symbolic link where none is allowed.
    Link,
    /// A loop of symbolic links, or more than the kernel follows.
    Loop,
    /// A FIFO, a socket or a device.
    Special,
    /// Not all names on the path are in memory, and the call may not wait.
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
            OpenError::WouldBlock => f.write_str("the path's directories are not in the kernel's cache"),
            OpenError::OutsideRoot => f.write_str("the path leads out of the root"),
            OpenError::TooManyOpen => f.write_str("too many open files; raise the limit (ulimit -n)"),
            OpenError::Io(errno) => write!(f, "open: {}", Errno::from_raw_os_error(*errno)),
        }
    }
}

impl std::error::Error for OpenError {}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name, without any slash; bytes, because file names are.
    pub name: Vec<u8>,
    /// Its type, after following links if they are followed.
    pub kind: Kind,
    /// Length in bytes.
    pub len: u64,
    /// When the content was last written.
    pub modified: units::UnixTime,
}

/// The entries of a directory, sorted bytewise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The entries, without `.`, `..` and links that cannot be followed.
    pub entries: Vec<Listed>,
    /// Whether the limit left entries out (which ones is the file system's choice).
    pub truncated: bool,
}

/// How this kernel lets us resolve paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolver {
    /// `openat2(2)`; `cached` if it knows `RESOLVE_CACHED` (Linux 5.12).
    Kernel { cached: bool },
    /// A seccomp filter or an old kernel rejects `openat2`: component by component.
    Walk,
}

/// A directory that no path given to it can leave.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    /// Locked for [`Root::refresh`] only; cold paths take the lock, requests served from memory do not.
    dir: RwLock<Arc<Dir>>,
    resolver: Resolver,
    grafts: Option<Grafts>,
    /// The errno of opening the root's path; 0 while it can be opened.
    trouble: AtomicI32,
}

#[derive(Debug)]
struct Dir {
    fd: OwnedFd,
    meta: Meta,
    /// The possible beginnings of absolute links into it.
    spellings: Spellings,
}

impl Dir {
    fn open(path: &Path) -> Result<Dir, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        // A process can open a directory that it may not search; it could then open nothing in it.
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

/// Fails if the process is confined to other directories (Landlock), which the root's own descriptor does not reveal. A
/// directory whose permissions deny reading is acceptable: files in it can be opened by name.
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

/// The result of opening a root's path again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// It names the directory in use.
    Same,
    /// It names another directory, which is in use from now on.
    Moved,
    /// It cannot be opened; the errno. The directory in use stays in use.
    Unreachable(i32),
}

impl Root {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// `NotFound` also if `path` is not a directory.
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

    /// Adds names that stand for directories elsewhere. Entries of the root itself with such names can no longer be
    /// reached or listed.
    #[must_use]
    pub fn with_grafts(self, grafts: Grafts) -> Root {
        Root {
            grafts: Some(grafts),
            ..self
        }
    }

    /// As [`Root::open`], but always resolves component by component.
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

    /// The root directory's metadata when it was opened.
    pub fn meta(&self) -> Meta {
        self.dir().meta
    }

    /// Opens the root's path again and switches to the directory it now names, for example after a release was
    /// switched. While the path cannot be opened, the old directory stays in use.
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

    /// Whether the root's path can be opened now. Blocks on the disk and changes nothing.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub fn confirm(&self) -> Result<(), OpenError> {
        Dir::open(&self.path).map(drop).map_err(OpenError::from_errno)
    }

    /// The errno of opening the root's path at the watcher's last check; `None` while the root is reachable.
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

    /// Opens `rel` for reading; the empty path is the root itself.
    ///
    /// Only regular files and directories are opened. All other types are reported as [`Kind::Other`] and left alone:
    /// opening a FIFO, even without blocking, releases a writer that waits for a reader, and opening a device can have
    /// any effect. If `how` permits, the call waits for a write lease (fcntl(2), `F_SETLEASE`), at most as long as the
    /// kernel gives its holder (`fs.lease-break-time`).
    ///
    /// # Errors
    /// See [`OpenError`]; `WouldBlock` only if `how` does not permit waiting.
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
            is_in_memory: false,
        })
    }

    /// Opens for reading the very object found at `rel`, even if another has that name by now.
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
                // Without /proc, it is opened by name. It may be a FIFO this time, so the call does not block.
                Err(Errno::NOENT) => {
                    return self.resolve(rel, how, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY);
                }
                Err(errno) => return Err(OpenError::from_errno(errno)),
            }
        }
    }

    /// The metadata of `rel`, without opening it for reading. For a grafted directory itself, it contains only the
    /// directory's identity, nothing that changes with its content.
    ///
    /// # Errors
    /// As [`Root::open_file`].
    pub fn stat(&self, rel: &[u8], how: How) -> Result<Meta, OpenError> {
        let fd = self.resolve(rel, how, OFlags::PATH)?;
        let meta = Meta::of(fd.as_fd()).map_err(OpenError::from_errno)?;
        let is_graft = self.graft_of(rel).is_some_and(|name| name.len() == rel.len());
        Ok(if is_graft { meta.identity() } else { meta })
    }

    /// The name at the start of `rel` that stands for a directory elsewhere, whether or not that directory exists.
    pub fn graft_of<'p>(&self, rel: &'p [u8]) -> Option<&'p [u8]> {
        self.grafts.as_ref()?.name(rel)
    }

    /// Up to `limit` entries of the directory `rel`. Blocks on the disk. A symbolic link appears as its target within
    /// the root, or not at all.
    ///
    /// # Errors
    /// As [`Root::open_file`]; `NotFound` if it is not a directory.
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
            // Opening it takes several steps, and whether they block must not depend on where it leads.
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

    /// Opens a grafted directory. Every failure is reported as not found, after the same steps: a missing home costs
    /// the second step as well.
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
        // The dot makes the kernel check whether it may be searched.
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
                    // The kernel rejects every absolute link, wherever it leads.
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
            // There is no way to tell whether these would block.
            (_, Wait::Cached) => Err(OpenError::WouldBlock),
        }
    }
}

/// `dir` and `name` joined by a slash, unless `dir` is the root.
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
    // After a concurrent rename anywhere, the kernel may return EAGAIN to be safe; then retry.
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
