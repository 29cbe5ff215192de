//! The trees of a site: its own, and one for each mount.
//!
//! Decides which tree holds a path of the site, what the path is called there, and what a change in a tree means for the
//! site. Paths are resolved and without slashes at their ends. Each tree is a jail of its own.

use super::config::OpenError;
use super::tree::{Opened, Tree};
use crate::config::Mount;
use runtime::fs::watch::Change;
use runtime::fs::{self, Meta, Root, Wait};

/// The number of the site's own tree. That of a mount is its index and one.
pub(super) const OWN: usize = 0;

/// The trees of a site.
#[derive(Debug)]
pub(crate) struct Trees {
    own: Tree,
    mounts: Vec<Mount>,
    /// Those of the mounts, in the same order.
    mounted: Vec<Tree>,
}

/// Where a path of the site is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat<'t, 'p> {
    /// [`OWN`], or that of a mount.
    pub(super) number: usize,
    pub(super) tree: &'t Tree,
    /// What the path is called in this tree.
    pub(super) rel: &'p [u8],
}

impl Trees {
    /// Opens the roots of `mounts` beside a site's own tree.
    ///
    /// # Errors
    /// The mount whose root cannot be opened, and why.
    pub(super) fn open(
        own: Tree,
        mounts: &[Mount],
        mut tree_of: impl FnMut(Root) -> Tree,
    ) -> Result<Trees, OpenError> {
        let mut mounted = Vec::with_capacity(mounts.len());
        for mount in mounts {
            let root = Root::open(&mount.root).map_err(|cause| unusable(mount, cause))?;
            mounted.push(tree_of(root));
        }
        Ok(Trees {
            own,
            mounts: mounts.to_vec(),
            mounted,
        })
    }

    /// Where a path is.
    pub(super) fn seat<'p>(&self, rel: &'p [u8]) -> Seat<'_, 'p> {
        match Mount::covering(&self.mounts, rel) {
            Some((at, below)) => Seat {
                number: at + 1,
                tree: &self.mounted[at],
                rel: below,
            },
            None => Seat {
                number: OWN,
                tree: &self.own,
                rel,
            },
        }
    }

    /// The mount that covers a path.
    pub(super) fn mount_of(&self, rel: &[u8]) -> Option<&Mount> {
        let (at, _) = Mount::covering(&self.mounts, rel)?;
        self.mounts.get(at)
    }

    /// All trees, in the order of their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = &Tree> {
        std::iter::once(&self.own).chain(&self.mounted)
    }

    /// As [`Tree::open`].
    pub(super) fn open_file(&self, rel: &[u8], wait: Wait) -> Result<Opened, fs::OpenError> {
        let seat = self.seat(rel);
        seat.tree.open(seat.rel, wait)
    }

    /// As [`Tree::meta`].
    pub(super) fn meta(&self, rel: &[u8]) -> Option<Meta> {
        let seat = self.seat(rel);
        seat.tree.meta(seat.rel)
    }

    /// As [`Tree::list`].
    pub(super) fn list(&self, rel: &[u8], limit: usize) -> Result<fs::Listing, fs::OpenError> {
        let seat = self.seat(rel);
        seat.tree.list(seat.rel, limit)
    }

    /// The first name of a path, if it stands for a directory elsewhere.
    pub(super) fn graft_of<'p>(&self, rel: &'p [u8]) -> Option<&'p [u8]> {
        match self.seat(rel) {
            Seat {
                number: OWN,
                tree: Tree::Disk { root, .. },
                rel,
            } => root.graft_of(rel),
            _ => None,
        }
    }

    /// Checks that all roots can be opened. Blocks on the disk.
    ///
    /// # Errors
    /// The first root that cannot be opened, and why.
    pub(super) fn confirm(&self) -> Result<(), OpenError> {
        if let Some(root) = self.own.root() {
            root.confirm()
                .map_err(|cause| OpenError::Root(root.path().to_owned(), cause))?;
        }
        for (mount, tree) in self.mounts.iter().zip(&self.mounted) {
            if let Some(root) = tree.root() {
                root.confirm().map_err(|cause| unusable(mount, cause))?;
            }
        }
        Ok(())
    }

    /// What a change in the tree of this number changes in the site. `None`: nothing, because it is outside what the
    /// mount covers.
    pub(super) fn on_site(&self, number: usize, change: Change) -> Option<Change> {
        let Some(mount) = number.checked_sub(1).and_then(|at| self.mounts.get(at)) else {
            return Some(change);
        };
        let whole = || Change::Tree {
            dir: mount.path.names().to_vec(),
        };
        match change {
            Change::Everything => Some(whole()),
            Change::Tree { dir } if mount.strip => Some(Change::Tree {
                dir: joined(mount, &dir),
            }),
            Change::Entry { dir, name } if mount.strip => Some(Change::Entry {
                dir: joined(mount, &dir),
                name,
            }),
            Change::Tree { dir } => match is_at_or_above(&dir, mount.path.names()) {
                true => Some(whole()),
                false => mount.below(&dir).is_some().then_some(Change::Tree { dir }),
            },
            Change::Entry { dir, name } => {
                let path = super::load::join(&dir, &name);
                match is_at_or_above(&path, mount.path.names()) {
                    true => Some(whole()),
                    false => mount
                        .below(&path)
                        .is_some()
                        .then_some(Change::Entry { dir, name }),
                }
            }
        }
    }
}

fn unusable(mount: &Mount, cause: fs::OpenError) -> OpenError {
    OpenError::Mount {
        host: None,
        path: mount.path.to_string(),
        root: mount.root.clone(),
        cause,
    }
}

/// The path of the site for a directory in the folder of a mount whose path is stripped.
fn joined(mount: &Mount, dir: &[u8]) -> Vec<u8> {
    match dir {
        [] => mount.path.names().to_vec(),
        dir => super::load::join(mount.path.names(), dir),
    }
}

/// Whether a directory holds `path`, or is it.
fn is_at_or_above(dir: &[u8], path: &[u8]) -> bool {
    dir.is_empty()
        || path
            .strip_prefix(dir)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MountFlag;
    use crate::site::tree::Embedded;
    use units::UnixTime;

    fn trees(strip: bool) -> Trees {
        let MountFlag(mount) = "/a/b/=dir".parse().unwrap();
        let empty = || Tree::Embedded(Embedded::new(&[], UnixTime::from_secs(0)));
        Trees {
            own: empty(),
            mounts: vec![Mount { strip, ..mount }],
            mounted: vec![empty()],
        }
    }

    fn tree(dir: &str) -> Change {
        Change::Tree { dir: dir.into() }
    }

    fn entry(dir: &str, name: &str) -> Change {
        Change::Entry {
            dir: dir.into(),
            name: name.into(),
        }
    }

    #[test]
    fn a_change_in_a_folder_is_one_of_the_site() {
        for (strip, change, on_site) in [
            (true, Change::Everything, Some(tree("a/b"))),
            (true, tree(""), Some(tree("a/b"))),
            (true, tree("c"), Some(tree("a/b/c"))),
            (true, entry("", "x"), Some(entry("a/b", "x"))),
            (true, entry("c/d", "x"), Some(entry("a/b/c/d", "x"))),
            (false, Change::Everything, Some(tree("a/b"))),
            (false, tree(""), Some(tree("a/b"))),
            (false, tree("a"), Some(tree("a/b"))),
            (false, tree("a/b/c"), Some(tree("a/b/c"))),
            (false, tree("a/bc"), None),
            (false, entry("a", "b"), Some(tree("a/b"))),
            (false, entry("a/b", "x"), Some(entry("a/b", "x"))),
            (false, entry("", "x"), None),
        ] {
            assert_eq!(
                trees(strip).on_site(1, change.clone()),
                on_site,
                "{strip} {change:?}"
            );
            assert_eq!(trees(strip).on_site(OWN, change.clone()), Some(change));
        }
    }

    #[test]
    fn a_path_has_one_tree() {
        for (strip, path, seat) in [
            (true, "", (OWN, "")),
            (true, "a", (OWN, "a")),
            (true, "a/bc", (OWN, "a/bc")),
            (true, "a/b", (1, "")),
            (true, "a/b/c", (1, "c")),
            (false, "a/b", (1, "a/b")),
            (false, "a/b/c", (1, "a/b/c")),
        ] {
            let trees = trees(strip);
            let found = trees.seat(path.as_bytes());
            assert_eq!(
                (found.number, found.rel),
                (seat.0, seat.1.as_bytes()),
                "{strip} {path}"
            );
        }
    }
}
