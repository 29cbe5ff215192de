//! Detects outdated entries.
//!
//! Directories are watched, and a change removes the entries it can affect. They are found by name: the path of an
//! entry tells which files it was made of, so no index from files to entries is needed. Some paths cannot be watched:
//! those through symbolic links, on file systems without events, or beyond the watch limit. These are polled one by
//! one, and entries that cannot be polled are not cached.

use super::config::OpenError;
use super::load::{SIBLINGS, join};
use super::tree::Tree;
use super::{Shared, path};
use crate::entity_tag::is_settled;
use crate::entry::{Answer, Polls};
use runtime::fs::watch::{Change, Limits, Watched, Watcher};
use runtime::fs::{self, How, Meta, Wait};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use units::UnixTime;

/// The watchers, and how many entries need each polled path.
#[derive(Debug, Default)]
pub(crate) struct Freshness {
    /// One for each tree, in the order of their numbers; `None` for a tree that cannot change.
    watchers: OnceLock<Vec<Option<Watcher>>>,
    observed: Mutex<HashMap<Polled, Observed>>,
}

/// The number of a tree, and a path in it.
type Polled = (usize, Box<[u8]>);

#[derive(Debug)]
struct Observed {
    entries: usize,
    expected: Option<Meta>,
}

/// State of an entry's files before they were read, by their paths of the site.
#[derive(Debug)]
pub(super) struct Proof(Vec<(Vec<u8>, Option<Meta>)>);

#[derive(Debug)]
struct Guard {
    freshness: Arc<Freshness>,
    paths: Vec<Polled>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.freshness.release(&self.paths);
    }
}

impl Freshness {
    /// The watcher of the tree with this number.
    fn watcher(&self, number: usize) -> Option<&Watcher> {
        self.watchers.get()?.get(number)?.as_ref()
    }

    fn release(&self, paths: &[Polled]) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        for polled in paths {
            let Some(one) = observed.get_mut(polled) else {
                continue;
            };
            one.entries -= 1;
            if one.entries == 0 {
                observed.remove(polled);
                if let Some(watcher) = self.watcher(polled.0) {
                    watcher.forget(&polled.1);
                }
            }
        }
    }
}

/// Starts watching the trees whose files can change.
pub(super) fn start(shared: &Arc<Shared>) -> Result<(), OpenError> {
    let mut limits = Limits::default();
    if !shared.config.change_events {
        limits.directories_max = 0;
    }
    let mut watchers = Vec::new();
    for (number, tree) in shared.trees.all().enumerate() {
        let Tree::Disk { root, symlinks } = tree else {
            watchers.push(None);
            continue;
        };
        let weak: Weak<Shared> = Arc::downgrade(shared);
        let on_change = Box::new(move |change| {
            if let Some(shared) = weak.upgrade() {
                shared.on_change_in(number, change);
            }
        });
        let watcher = Watcher::start(Arc::clone(root), (*symlinks).into(), limits, on_change);
        watchers.push(Some(watcher.map_err(OpenError::Watch)?));
    }
    let unset = shared.freshness.watchers.set(watchers);
    debug_assert!(unset.is_ok(), "a site is started once");
    Ok(())
}

impl Shared {
    /// Asks the watchers to check whether the roots can still be opened.
    pub(super) fn look_at_roots(&self) {
        let watchers = self.freshness.watchers.get();
        watchers.into_iter().flatten().flatten().for_each(Watcher::look);
    }

    /// Whether events report changes in the directory of this path of the site. `None` if the answer would have to wait
    /// for the disk.
    pub(super) fn watch(&self, path: &[u8], wait: Wait) -> Option<bool> {
        let seat = self.trees.seat(relative(path));
        let (Some(root), Some(watcher)) = (seat.tree.root(), self.freshness.watcher(seat.number)) else {
            return Some(false);
        };
        let rel = match path.ends_with(b"/") {
            true => seat.rel,
            false => split(seat.rel).0,
        };
        if wait == Wait::Cached {
            // The watcher blocks on the names of the path, so they must be in memory already.
            match root.stat(
                rel,
                How {
                    symlinks: fs::Symlinks::Refuse,
                    wait,
                },
            ) {
                Ok(_) => {}
                Err(fs::OpenError::WouldBlock) => return None,
                Err(_) => return Some(false),
            }
        }
        Some(watcher.watch(rel) == Watched::Events)
    }

    /// Records the state of the files behind `path`. `None`: one of them changed so recently that another change might
    /// leave no trace.
    pub(super) fn proof(&self, path: &[u8], wall: UnixTime) -> Option<Proof> {
        let rel = relative(path);
        let mut files = vec![rel.to_vec()];
        if path.ends_with(b"/") {
            let index = self.index_of(rel).iter();
            files.extend(index.map(|index| join(rel, index.as_bytes())));
        }
        let siblings: Vec<Vec<u8>> = files
            .iter()
            .filter(|_| self.config.precompressed)
            .flat_map(|file| SIBLINGS.map(|(suffix, _)| [file, suffix.as_bytes()].concat()))
            .collect();
        files.extend(siblings);
        let mut proof = Vec::with_capacity(files.len());
        for file in files {
            let meta = self.trees.meta(&file);
            if meta.is_some_and(|meta| !is_settled(&meta, wall)) {
                return None;
            }
            proof.push((file, meta));
        }
        Some(Proof(proof))
    }

    /// Records the target of a path's first name, if that stands for a directory elsewhere, because no event reports a
    /// change of it. `None` for all other paths. Blocks.
    pub(super) fn lead(&self, path: &[u8]) -> Option<Proof> {
        let name = self.graft_of(path)?;
        Some(Proof(vec![(name.to_vec(), self.trees.meta(name))]))
    }

    /// The first name of a path, if it stands for a directory elsewhere.
    pub(super) fn graft_of<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        self.trees.graft_of(relative(path))
    }

    /// Starts polling the files of a proof. `None`: too many are polled already.
    pub(super) fn poll(&self, proof: Proof) -> Option<Polls> {
        let mut guard = Guard {
            freshness: Arc::clone(&self.freshness),
            paths: Vec::with_capacity(proof.0.len()),
        };
        let mut differing = Vec::new();
        for (path, expected) in proof.0 {
            let seat = self.trees.seat(&path);
            let watcher = self.freshness.watcher(seat.number)?;
            let mut observed = self
                .freshness
                .observed
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if !watcher.poll(seat.rel, expected) {
                drop(observed);
                return None;
            }
            let key: Polled = (seat.number, seat.rel.into());
            let one = observed
                .entry(key.clone())
                .or_insert(Observed { entries: 0, expected });
            one.entries += 1;
            if std::mem::replace(&mut one.expected, expected) != expected {
                differing.push(path);
            }
            guard.paths.push(key);
        }
        // Other entries were made of an earlier state, which is no longer polled for.
        for path in differing {
            match self.graft_of(&path) == Some(&path) {
                true => self.on_change(Change::Tree { dir: path }),
                false => self.kill_made_of(&site_path(&path)),
            }
        }
        Some(Polls::until_dropped(guard))
    }

    /// Removes the entries that a change of this file or folder in the tree of this number may have outdated.
    pub(super) fn changed(&self, number: usize, rel: &[u8], is_tree: bool) {
        if is_tree {
            self.on_change_in(number, Change::Tree { dir: rel.to_vec() });
        }
        if rel.is_empty() {
            return;
        }
        let (dir, name) = split(rel);
        self.on_change_in(
            number,
            Change::Entry {
                dir: dir.to_vec(),
                name: name.to_vec(),
            },
        );
    }

    /// As [`Shared::on_change`], for a change in the tree of this number.
    fn on_change_in(&self, number: usize, change: Change) {
        if let Some(change) = self.trees.on_site(number, change) {
            self.on_change(change);
        }
    }

    /// Removes the entries that a change may have outdated. Runs on the watcher's thread, or on the one that
    /// learned of the change.
    fn on_change(&self, change: Change) {
        match change {
            Change::Entry { dir, name } => {
                let file = site_path(&join(&dir, &name));
                self.store.changed(self.hash(path::directory(&file)));
                // If it is a directory, loads of its files compare with its own counter.
                self.store.changed(self.hash(&[&file[..], b"/"].concat()));
                self.kill_made_of(&file);
            }
            Change::Tree { dir } => {
                self.store.changed_everywhere();
                let tree = site_path(&dir);
                self.kill_made_of(&tree);
                self.store.kill_where(|entry| is_at_or_below(&entry.path, &tree));
            }
            Change::Everything => {
                self.store.changed_everywhere();
                self.store.kill_where(|_| true);
            }
        }
    }

    /// Removes the entries made of this file or directory (given without final slash).
    fn kill_made_of(&self, file: &[u8]) {
        let kill = |path: &[u8]| self.store.kill(self.hash(path), path);
        kill(file);
        kill(&[file, b"/"].concat());
        let plain = SIBLINGS
            .iter()
            .find_map(|(suffix, _)| file.strip_suffix(suffix.as_bytes()));
        if let Some(plain) = plain {
            kill(plain);
        }
        let directory = path::directory(file);
        let is_index = |file: &[u8]| {
            let mut index = self.index_of(relative(directory)).iter();
            index.any(|index| index.as_bytes() == path::name(file))
        };
        if is_index(file) || plain.is_some_and(is_index) {
            kill(directory);
        } else if self.lists(relative(directory)) {
            let listed = self.store.get(self.hash(directory), directory);
            if listed.is_some_and(|entry| matches!(entry.answer, Answer::Listing(_))) {
                kill(directory);
            }
        }
    }
}

/// A path of the site, relative to the root, as the file system needs it.
pub(super) fn relative(path: &[u8]) -> &[u8] {
    let rel = path.strip_prefix(b"/").unwrap_or(path);
    rel.strip_suffix(b"/").unwrap_or(rel)
}

/// The directory of a relative path, and the name in it.
fn split(rel: &[u8]) -> (&[u8], &[u8]) {
    match rel.iter().rposition(|&b| b == b'/') {
        Some(at) => (&rel[..at], &rel[at + 1..]),
        None => (b"", rel),
    }
}

/// The inverse of [`relative`].
fn site_path(rel: &[u8]) -> Vec<u8> {
    [b"/", rel].concat()
}

fn is_at_or_below(path: &[u8], tree: &[u8]) -> bool {
    let tree = tree.strip_suffix(b"/").unwrap_or(tree);
    path.strip_prefix(tree)
        .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_end_at_slashes() {
        assert!(
            is_at_or_below(b"/a", b"/a") && is_at_or_below(b"/a/", b"/a") && is_at_or_below(b"/a/b", b"/a")
        );
        assert!(!is_at_or_below(b"/ab", b"/a") && !is_at_or_below(b"/", b"/a"));
        assert!(is_at_or_below(b"/", b"/") && is_at_or_below(b"/x", b"/"));
        assert_eq!(
            (relative(b"/"), relative(b"/a/"), relative(b"/a/b")),
            (&b""[..], &b"a"[..], &b"a/b"[..])
        );
    }
}
