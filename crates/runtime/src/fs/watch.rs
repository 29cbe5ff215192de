//! Reports changes below a root, well within a second, without a check per request.
//!
//! One thread listens to inotify for the requested directories and their ancestors. Where inotify cannot be trusted
//! (network and layered file systems) or is exhausted (`fs.inotify.max_user_watches`), the same thread polls single
//! paths twice a second. It also polls the root's own path if it contains a symbolic link, because whole sites are
//! switched by changing one, and after the root was moved or removed. Not every loss of a root causes an event, so its
//! path is also checked on request ([`Watcher::look`]). Without anything to poll, the thread never wakes.
//!
//! ```text
//!            opened                 opened, told
//!   REACHABLE ◀──── DOUBTED      ┌──────────────── UNREACHABLE: told once a minute
//!       │              ▲ │       ▼                    ▲
//!       └──── failed ──┘ └── failed again, 400 ms later
//! ```
//! Directories above a grafted directory are not watched: a cache that holds something of it polls the name.
//!
//! Watch *before* reading: every change after `watch` returns is reported.

use super::{How, Meta, Refreshed, Root, Symlinks, Wait};
use crate::{clock, complaints};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use units::{Duration, Instant};

/// A change. Paths are relative to the root, without leading or trailing slash; the root is the empty path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// `name` in `dir` was created, removed, replaced, rewritten, or had its permissions changed.
    Entry {
        /// The directory.
        dir: Vec<u8>,
        /// The name in it.
        name: Vec<u8>,
    },
    /// The directory and everything beneath it: it was moved, removed, created, or had its permissions changed; or it
    /// is a grafted name that leads elsewhere now.
    Tree {
        /// The directory.
        dir: Vec<u8>,
    },
    /// Events were lost; anything may have changed.
    Everything,
}

/// How changes in a directory will be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// By events; nothing more to do.
    Events,
    /// Not by events: pass the paths that matter to [`Watcher::poll`].
    Poll,
}

/// Limits of a watcher.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum directories watched by events; beyond it, paths are polled. 0: no inotify at all.
    pub directories_max: usize,
    /// Maximum paths polled; beyond it, [`Watcher::poll`] refuses.
    pub polled_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            directories_max: 65_536,
            polled_max: 16_384,
        }
    }
}

const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 400_000_000,
};

/// As [`POLL_INTERVAL`].
const LOOK_INTERVAL: Duration = Duration::from_millis(400);

/// Minimum interval between log lines about an unreachable root, and about missing inotify instances.
const TELL_INTERVAL: Duration = Duration::from_secs(60);

/// Whether the root's path can be opened.
#[derive(Clone, Copy, Debug)]
enum Reach {
    Reachable,
    /// It failed once. Replacing a link by removing it first leaves such a gap.
    Doubted,
    Unreachable {
        /// Whether this process has logged it.
        is_told: bool,
    },
}

/// Watches directories below a root until dropped.
#[derive(Debug)]
pub struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    root: Arc<Root>,
    inotify: Option<OwnedFd>,
    wake: OwnedFd,
    limits: Limits,
    symlinks: Symlinks,
    /// A check of the root's path was requested.
    asked: AtomicBool,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    stopping: bool,
    /// Whether the root's path may name another directory without an event.
    root_moves: bool,
    /// The watch on the parent directory of the root. Removing the root causes no event of its own while it is open
    /// here.
    above: Option<i32>,
    directory_of: HashMap<i32, Vec<u8>>,
    watch_of: BTreeMap<Vec<u8>, i32>,
    polled: HashMap<Vec<u8>, Option<Meta>>,
}

impl Tables {
    /// Removes the watches on `tree` and beneath it; none if it is the root.
    fn let_go(&mut self, inotify: &OwnedFd, tree: &[u8]) {
        let gone: Vec<_> = self
            .watch_of
            .range(tree.to_vec()..)
            .take_while(|(path, _)| path.starts_with(tree))
            .filter(|(path, _)| !tree.is_empty() && is_beneath(path, tree))
            .map(|(path, wd)| (path.clone(), *wd))
            .collect();
        for (path, wd) in gone {
            self.watch_of.remove(&path);
            self.directory_of.remove(&wd);
            let _ = inotify::remove_watch(inotify, wd);
        }
    }
}

impl Watcher {
    /// Starts the thread. `on_change` runs on it and should return soon.
    ///
    /// # Errors
    /// The system's, if it refuses a thread or event descriptor. Refused inotify is not an error: everything is polled
    /// then.
    pub fn start(
        root: Arc<Root>,
        symlinks: Symlinks,
        limits: Limits,
        on_change: Box<dyn Fn(Change) + Send>,
    ) -> std::io::Result<Watcher> {
        let events = (limits.directories_max > 0)
            .then(|| inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC))
            .transpose();
        let inotify = match events {
            Ok(fd) => fd,
            Err(errno) => {
                // One line for all roots.
                if complaints::may_tell_of_instances(clock::now(), TELL_INTERVAL) {
                    tracing::warn!(
                        "inotify is not available ({errno}): changes below `{}` and perhaps other roots are found by polling; \
                         raise fs.inotify.max_user_instances, of which each root needs one in each process",
                        root.path().display()
                    );
                }
                None
            }
        };
        // A path that equals its canonical form contains no link.
        let root_moves = std::fs::canonicalize(root.path()).ok().as_deref() != Some(root.path());
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            root,
            inotify,
            wake,
            limits,
            symlinks,
            asked: AtomicBool::new(false),
            tables: Mutex::new(Tables {
                root_moves,
                ..Tables::default()
            }),
        });
        shared.watch_above();
        // It could be opened just now, perhaps by a reload after it was lost.
        complaints::is_over(shared.topic());
        let thread = std::thread::Builder::new().name("weir-watch".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run(&*on_change)
        })?;
        Ok(Watcher {
            shared,
            thread: Some(thread),
        })
    }

    /// Watches the directory `dir` and its ancestors.
    pub fn watch(&self, dir: &[u8]) -> Watched {
        self.shared.watch(dir)
    }

    /// Compares `path` with `expected` (`None`: it does not exist) twice a second until it differs. False if the table
    /// is full: the caller must not cache what it read.
    pub fn poll(&self, path: &[u8], expected: Option<Meta>) -> bool {
        let mut tables = self.shared.tables();
        if tables.polled.len() >= self.shared.limits.polled_max && !tables.polled.contains_key(path) {
            return false;
        }
        tables.polled.insert(path.to_vec(), expected);
        if tables.polled.len() == 1 {
            self.shared.wake();
        }
        true
    }

    /// Requests a check of the root's path soon: [`Root::trouble`] then tells whether it can be opened. However often
    /// this is called, there are at most 2.5 checks a second.
    pub fn look(&self) {
        if !self.shared.asked.swap(true, Ordering::Relaxed) {
            self.shared.wake();
        }
    }

    /// Stops comparing `path`.
    pub fn forget(&self, path: &[u8]) {
        self.shared.tables().polled.remove(path);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.tables().stopping = true;
        self.shared.wake();
        // `on_change` may hold the last reference to the watcher's owner; a thread cannot join itself.
        let elsewhere = |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(elsewhere) {
            // The panic hook has already reported a panic in `on_change`.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn watch(&self, dir: &[u8]) -> Watched {
        let Some(inotify) = &self.inotify else {
            return Watched::Poll;
        };
        let mut tables = self.tables();
        // From the root down, so that a rename of an ancestor is noticed from then on.
        let ends = dir
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'/')
            .map(|(at, _)| at);
        for end in std::iter::once(0).chain(ends).chain(std::iter::once(dir.len())) {
            let part = &dir[..end];
            let known = tables.watch_of.get(part).copied();
            // No event tells that such a name leads elsewhere now.
            let is_graft = !part.is_empty() && self.root.graft_of(part) == Some(part);
            if known.is_some() && !is_graft {
                continue;
            }
            if tables.watch_of.len() >= self.limits.directories_max {
                return Watched::Poll;
            }
            match self.add(inotify, part) {
                Some(wd) if known == Some(wd) => {}
                Some(wd) => {
                    if known.is_some() {
                        tables.let_go(inotify, part);
                    }
                    // One directory by two names (a bind mount, or a move whose event is still queued): the first name
                    // keeps the events.
                    if tables.directory_of.contains_key(&wd) {
                        return Watched::Poll;
                    }
                    tables.directory_of.insert(wd, part.to_vec());
                    tables.watch_of.insert(part.to_vec(), wd);
                }
                None => return Watched::Poll,
            }
        }
        Watched::Events
    }

    /// Watches for the removal of the root, unless its path contains a link and is polled anyway.
    fn watch_above(&self) {
        let (Some(inotify), Some(above)) = (&self.inotify, self.root.path().parent()) else {
            return;
        };
        let flags = WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR;
        let mut tables = self.tables();
        if !tables.root_moves {
            tables.above = inotify::add_watch(inotify, above, flags).ok();
        }
    }

    fn add(&self, inotify: &OwnedFd, dir: &[u8]) -> Option<i32> {
        // Links are refused here: a directory reached through one has another path, which is watched.
        let how = How {
            symlinks: Symlinks::Refuse,
            wait: Wait::Block,
        };
        let opened = self.root.open_file(dir, how).ok()?;
        if !has_events(&opened) {
            return None;
        }
        let path = format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd());
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MODIFY
            // Writes through a memory map are noticed when the map and the file are closed.
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        match inotify::add_watch(inotify, path, flags) {
            Ok(wd) => Some(wd),
            Err(Errno::NOSPC) => {
                tracing::debug!("fs.inotify.max_user_watches is exhausted: further paths are polled");
                None
            }
            Err(_) => None,
        }
    }

    fn run(&self, on_change: &dyn Fn(Change)) {
        let buffer = self.inotify.as_ref().map_or(0, |_| 64 << 10);
        let mut buf = vec![MaybeUninit::uninit(); buffer];
        let (mut reach, mut looked) = (Reach::Reachable, None::<Instant>);
        loop {
            let polling = {
                let tables = self.tables();
                if tables.stopping {
                    return;
                }
                !tables.polled.is_empty() || tables.root_moves
            };
            let looking = self.asked.load(Ordering::Relaxed) || !matches!(reach, Reach::Reachable);
            let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
            if let Some(inotify) = &self.inotify {
                fds.push(PollFd::new(inotify, PollFlags::IN));
            }
            let timeout = (polling || looking).then_some(&POLL_INTERVAL);
            let ready = poll(&mut fds, timeout);
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.wake, &mut count);
            if let Some(inotify) = &self.inotify {
                self.read_events(inotify, &mut buf, on_change);
            }
            if ready == Err(Errno::INTR) {
                continue;
            }
            let now = clock::now();
            let is_due = looked.is_none_or(|looked| now.since(looked) >= LOOK_INTERVAL);
            let wanted = self.asked.load(Ordering::Relaxed) || !matches!(reach, Reach::Reachable);
            if is_due && (wanted || self.tables().root_moves) {
                self.asked.store(false, Ordering::Relaxed);
                reach = self.follow_root(reach, now, on_change);
                looked = Some(now);
            }
            if polling {
                self.compare(on_change);
            }
        }
    }

    fn read_events(&self, inotify: &OwnedFd, buf: &mut [MaybeUninit<u8>], on_change: &dyn Fn(Change)) {
        let mut reader = inotify::Reader::new(inotify, buf);
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| name.to_bytes().to_vec());
            if let Some(change) = self.understand(inotify, event.wd(), event.events(), name) {
                on_change(change);
            }
        }
    }

    fn understand(
        &self,
        inotify: &OwnedFd,
        wd: i32,
        events: ReadFlags,
        name: Option<Vec<u8>>,
    ) -> Option<Change> {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            return Some(Change::Everything);
        }
        let mut tables = self.tables();
        if tables.above == Some(wd) {
            let root = self.root.path().file_name().map(OsStrExt::as_bytes);
            tables.root_moves |= name.as_deref() == root;
            return None;
        }
        if events.contains(ReadFlags::IGNORED) {
            let dir = tables.directory_of.remove(&wd)?;
            tables.watch_of.remove(&dir);
            return Some(Change::Tree { dir });
        }
        let dir = tables.directory_of.get(&wd)?.clone();
        let is_tree = events.intersects(
            ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT | ReadFlags::ISDIR,
        );
        if !is_tree {
            return name.map(|name| Change::Entry { dir, name });
        }
        let tree = match name {
            Some(name) => join(&dir, &name),
            None => dir,
        };
        // Only the end of the root itself has an empty name: its path is polled from now on.
        tables.root_moves |= tree.is_empty();
        // A moved directory keeps its watch, which would report the old name.
        tables.let_go(inotify, &tree);
        Some(Change::Tree { dir: tree })
    }

    /// Switches to the directory that the root's path names now, and logs if it names none any more.
    fn follow_root(&self, before: Reach, now: Instant, on_change: &dyn Fn(Change)) -> Reach {
        match self.root.refresh() {
            Refreshed::Unreachable(errno) => return self.miss_root(before, errno, now),
            Refreshed::Same => {}
            Refreshed::Moved => {
                // All watches were on the old one.
                let mut tables = self.tables();
                tables.watch_of.clear();
                for (wd, _) in std::mem::take(&mut tables.directory_of) {
                    if let Some(inotify) = &self.inotify {
                        let _ = inotify::remove_watch(inotify, wd);
                    }
                }
                drop(tables);
                on_change(Change::Everything);
            }
        }
        self.root.set_trouble(None);
        if let Reach::Unreachable { is_told: true } = before {
            tracing::info!("the root `{}` is reachable again", self.root.path().display());
            complaints::is_over(self.topic());
        }
        Reach::Reachable
    }

    /// The topic of complaints about the root.
    fn topic(&self) -> &[u8] {
        self.root.path().as_os_str().as_bytes()
    }

    fn miss_root(&self, before: Reach, errno: i32, now: Instant) -> Reach {
        let is_told = match before {
            Reach::Reachable => return Reach::Doubted,
            Reach::Doubted => false,
            Reach::Unreachable { is_told } => is_told,
        };
        self.root.set_trouble(Some(errno));
        if !complaints::may_tell(self.topic(), now, TELL_INTERVAL) {
            return Reach::Unreachable { is_told };
        }
        tracing::error!(
            "the root `{}` cannot be reached: {}; not ready until it can be opened again",
            self.root.path().display(),
            std::io::Error::from_raw_os_error(errno)
        );
        Reach::Unreachable { is_told: true }
    }

    fn compare(&self, on_change: &dyn Fn(Change)) {
        let polled: Vec<_> = self
            .tables()
            .polled
            .iter()
            .map(|(path, meta)| (path.clone(), *meta))
            .collect();
        for (path, expected) in polled {
            let how = How {
                symlinks: self.symlinks,
                wait: Wait::Block,
            };
            if self.root.stat(&path, how).ok() == expected {
                continue;
            }
            self.tables().polled.remove(&path);
            if self.root.graft_of(&path) == Some(&path) {
                if let Some(inotify) = &self.inotify {
                    self.tables().let_go(inotify, &path);
                }
                on_change(Change::Tree { dir: path });
                continue;
            }
            let split = path.iter().rposition(|&b| b == b'/');
            let (dir, name) = match split {
                Some(at) => (path[..at].to_vec(), path[at + 1..].to_vec()),
                None => (Vec::new(), path),
            };
            on_change(Change::Entry { dir, name });
        }
    }
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

fn is_beneath(path: &[u8], tree: &[u8]) -> bool {
    path.len() == tree.len() || path.get(tree.len()) == Some(&b'/')
}

/// Whether changes on this file system cause events here: not if others can write to it without the kernel's knowledge
/// (NFS, SMB, 9P, FUSE), or if layers may change beneath it (overlayfs).
fn has_events(dir: &super::File) -> bool {
    const UNRELIABLE: [u64; 7] = [
        0x6969,
        0xff53_4d42,
        0xfe53_4d42,
        0x517b,
        0x6573_5546,
        0x0102_1997,
        0x794c_7630,
    ];
    rustix::fs::fstatfs(dir).is_ok_and(|stat| !UNRELIABLE.contains(&(stat.f_type as u64 & 0xffff_ffff)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    fn start(limits: Limits) -> (tempfile::TempDir, Watcher, Receiver<Change>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/file"), b"1").unwrap();
        let (tx, rx) = channel();
        let root = Arc::new(Root::open(dir.path()).unwrap());
        let report = Box::new(move |change| drop(tx.send(change)));
        let watcher = Watcher::start(root, Symlinks::Refuse, limits, report).unwrap();
        (dir, watcher, rx)
    }

    fn expect(changes: &Receiver<Change>, wanted: &Change) {
        loop {
            let change = changes
                .recv_timeout(Duration::from_secs(60))
                .expect("a change within a minute");
            if change == *wanted {
                return;
            }
        }
    }

    fn entry(dir: &str, name: &str) -> Change {
        Change::Entry {
            dir: dir.into(),
            name: name.into(),
        }
    }

    #[test]
    fn files_that_change_are_named() {
        let (dir, watcher, changes) = start(Limits::default());
        if watcher.watch(b"a/b") == Watched::Poll {
            println!("skipped: the temporary directory's file system gives no events");
            return;
        }
        std::fs::write(dir.path().join("a/b/file"), b"22").unwrap();
        expect(&changes, &entry("a/b", "file"));
        std::fs::write(dir.path().join("a/b/new"), b"3").unwrap();
        expect(&changes, &entry("a/b", "new"));
        std::fs::rename(dir.path().join("a/b/new"), dir.path().join("a/b/file")).unwrap();
        expect(&changes, &entry("a/b", "file"));
        std::fs::remove_file(dir.path().join("a/b/file")).unwrap();
        expect(&changes, &entry("a/b", "file"));
    }

    #[test]
    fn a_moved_ancestor_takes_its_tree_along() {
        let (dir, watcher, changes) = start(Limits::default());
        if watcher.watch(b"a/b") == Watched::Poll {
            println!("skipped: the temporary directory's file system gives no events");
            return;
        }
        std::fs::rename(dir.path().join("a"), dir.path().join("z")).unwrap();
        expect(&changes, &Change::Tree { dir: b"a".to_vec() });
        // The old watch is gone: the directory that takes the name is watched anew.
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        expect(&changes, &Change::Tree { dir: b"a".to_vec() });
        assert_eq!(watcher.watch(b"a/b"), Watched::Events);
        std::fs::write(dir.path().join("a/b/file"), b"x").unwrap();
        expect(&changes, &entry("a/b", "file"));
    }

    #[test]
    fn a_root_switched_by_a_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        for release in ["one", "two"] {
            std::fs::create_dir(dir.path().join(release)).unwrap();
            std::fs::write(dir.path().join(release).join("file"), release).unwrap();
        }
        std::os::unix::fs::symlink("one", dir.path().join("current")).unwrap();
        let root = Arc::new(Root::open(dir.path().join("current")).unwrap());
        let (tx, changes) = channel();
        let report = Box::new(move |change| drop(tx.send(change)));
        let watcher = Watcher::start(Arc::clone(&root), Symlinks::Refuse, Limits::default(), report).unwrap();
        watcher.watch(b"");
        std::os::unix::fs::symlink("two", dir.path().join("next")).unwrap();
        std::fs::rename(dir.path().join("next"), dir.path().join("current")).unwrap();
        expect(&changes, &Change::Everything);
        let how = How {
            symlinks: Symlinks::Refuse,
            wait: Wait::Block,
        };
        let file = root.open_file(b"file", how).unwrap();
        assert_eq!(file.read_all(0, 3, Wait::Block).unwrap(), b"two");
    }

    #[test]
    fn a_root_that_is_lost_is_told_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("above/site")).unwrap();
        std::fs::write(at("above/site/file"), "one").unwrap();
        let root = Arc::new(Root::open(at("above/site").canonicalize().unwrap()).unwrap());
        for events in [true, false] {
            let limits = Limits {
                directories_max: if events { 16 } else { 0 },
                ..Limits::default()
            };
            let (tx, changes) = channel();
            let report = Box::new(move |change| drop(tx.send(change)));
            let watcher = Watcher::start(Arc::clone(&root), Symlinks::Refuse, limits, report).unwrap();
            let wait = |wanted: Option<i32>| {
                let began = std::time::Instant::now();
                while root.trouble() != wanted {
                    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", root.trouble());
                    // Renaming a directory above it causes no event.
                    watcher.look();
                    std::thread::park_timeout(Duration::from_millis(5));
                }
            };
            wait(None);
            std::fs::rename(at("above"), at("aside")).unwrap();
            wait(Some(libc::ENOENT));
            std::os::unix::fs::symlink("above", at("above")).unwrap();
            wait(Some(libc::ELOOP));
            std::fs::remove_file(at("above")).unwrap();
            std::fs::rename(at("aside"), at("above")).unwrap();
            wait(None);
            // Another directory of this name takes its place.
            std::fs::remove_dir_all(at("above/site")).unwrap();
            wait(Some(libc::ENOENT));
            std::fs::create_dir(at("above/site")).unwrap();
            std::fs::write(at("above/site/file"), "two").unwrap();
            wait(None);
            expect(&changes, &Change::Everything);
            drop(watcher);
        }
    }

    #[test]
    fn a_root_whose_end_makes_an_event_is_missed_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("root");
        std::fs::create_dir(&path).unwrap();
        let root = Arc::new(Root::open(path.canonicalize().unwrap()).unwrap());
        let watcher = Watcher::start(
            Arc::clone(&root),
            Symlinks::Refuse,
            Limits::default(),
            Box::new(|_| ()),
        )
        .unwrap();
        if watcher.watch(b"") == Watched::Poll {
            println!("skipped: the temporary directory's file system gives no events");
            return;
        }
        std::fs::remove_dir(&path).unwrap();
        let began = std::time::Instant::now();
        while root.trouble() != Some(libc::ENOENT) {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_grafted_name_that_leads_elsewhere_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("home/a/web/sub")).unwrap();
        std::fs::create_dir(at("root")).unwrap();
        let home = at("home");
        let grafts = crate::fs::Grafts::new(b'~', move |name| crate::fs::Graft {
            base: home.join(str::from_utf8(&name[1..]).unwrap()),
            below: b"web".to_vec(),
            exists: true,
        });
        let root = Arc::new(Root::open(at("root")).unwrap().with_grafts(grafts));
        let (tx, changes) = channel();
        let report = Box::new(move |change| drop(tx.send(change)));
        let watcher = Watcher::start(Arc::clone(&root), Symlinks::Refuse, Limits::default(), report).unwrap();
        if watcher.watch(b"~a/sub") == Watched::Poll {
            println!("skipped: the temporary directory's file system gives no events");
            return;
        }
        std::fs::write(at("home/a/web/sub/file"), b"1").unwrap();
        expect(&changes, &entry("~a/sub", "file"));
        let how = How {
            symlinks: Symlinks::Refuse,
            wait: Wait::Block,
        };
        assert!(watcher.poll(b"~a", root.stat(b"~a", how).ok()));
        std::fs::rename(at("home/a"), at("home/old")).unwrap();
        expect(&changes, &Change::Tree { dir: b"~a".to_vec() });
        std::fs::create_dir_all(at("home/a/web/sub")).unwrap();
        assert_eq!(watcher.watch(b"~a/sub"), Watched::Events);
        std::fs::write(at("home/a/web/sub/file"), b"2").unwrap();
        expect(&changes, &entry("~a/sub", "file"));
        // Nobody polls the name, so the next call to watch notices.
        std::fs::rename(at("home/a"), at("home/older")).unwrap();
        std::fs::create_dir_all(at("home/a/web/sub")).unwrap();
        assert_eq!(watcher.watch(b"~a/sub"), Watched::Events);
        std::fs::write(at("home/a/web/sub/third"), b"3").unwrap();
        expect(&changes, &entry("~a/sub", "third"));
    }

    #[test]
    fn past_the_bound_paths_are_polled_and_past_that_refused() {
        let (dir, watcher, changes) = start(Limits {
            directories_max: 1,
            polled_max: 2,
        });
        assert_eq!(watcher.watch(b"a/b"), Watched::Poll);
        let meta = watcher
            .shared
            .root
            .stat(
                b"a/b/file",
                How {
                    symlinks: Symlinks::Refuse,
                    wait: Wait::Block,
                },
            )
            .unwrap();
        assert!(watcher.poll(b"a/b/file", Some(meta)));
        assert!(watcher.poll(b"a/b/file.gz", None));
        assert!(!watcher.poll(b"a/b/third", None));
        std::fs::write(dir.path().join("a/b/file"), b"22").unwrap();
        expect(&changes, &entry("a/b", "file"));
        std::fs::write(dir.path().join("a/b/file.gz"), b"22").unwrap();
        expect(&changes, &entry("a/b", "file.gz"));
        assert!(watcher.poll(b"a/b/third", None));
        watcher.forget(b"a/b/third");
    }

    #[test]
    fn a_directory_that_is_not_there_is_polled() {
        let (_dir, watcher, _changes) = start(Limits::default());
        assert_eq!(watcher.watch(b"missing/deep"), Watched::Poll);
        assert_eq!(watcher.watch(b"a/b/file"), Watched::Poll);
    }
}
