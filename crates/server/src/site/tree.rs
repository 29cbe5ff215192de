//! The files of a site: in a directory of the file system, or in the executable.
//!
//! Both kinds answer the same three questions. Paths are resolved and without their leading slash.

use super::config::Symlinks;
use runtime::fs::{self, How, Kind, Meta, OpenError, Root, Wait};
use std::sync::Arc;
use units::UnixTime;

/// The files of a site.
#[derive(Debug)]
pub(crate) enum Tree {
    /// Below a directory of the file system.
    Disk { root: Arc<Root>, symlinks: Symlinks },
    /// In the executable.
    Embedded(Embedded),
}

/// An opened path.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A file of the file system. `linked`: it was reached through a symbolic link or has several names, so it can
    /// change without an event in the directories of its path.
    Disk { file: fs::File, linked: bool },
    /// An embedded file.
    Embedded {
        bytes: &'static [u8],
        modified: UnixTime,
    },
    /// A directory.
    Directory { linked: bool },
}

/// Files sorted by path, without leading slashes.
#[derive(Debug)]
pub(crate) struct Embedded {
    files: Vec<(&'static str, &'static [u8])>,
    modified: UnixTime,
}

impl Embedded {
    pub(crate) fn new(files: &'static [(&'static str, &'static [u8])], modified: UnixTime) -> Embedded {
        let mut files: Vec<_> = files
            .iter()
            .map(|&(path, bytes)| (path.trim_start_matches('/'), bytes))
            .collect();
        files.sort_unstable_by_key(|&(path, _)| path);
        Embedded { files, modified }
    }

    fn open(&self, rel: &[u8]) -> Result<Opened, OpenError> {
        if let Ok(at) = self.files.binary_search_by_key(&rel, |(path, _)| path.as_bytes()) {
            return Ok(Opened::Embedded {
                bytes: self.files[at].1,
                modified: self.modified,
            });
        }
        let is_directory = rel.is_empty() || self.below(rel).next().is_some();
        is_directory
            .then_some(Opened::Directory { linked: false })
            .ok_or(OpenError::NotFound)
    }

    /// The files below `rel/`, with the rest of their paths and their content.
    fn below<'a>(&'a self, rel: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'static [u8])> {
        self.files.iter().filter_map(move |&(path, bytes)| {
            let rest = path.as_bytes().strip_prefix(rel)?;
            let rest = if rel.is_empty() {
                rest
            } else {
                rest.strip_prefix(b"/")?
            };
            Some((rest, bytes))
        })
    }

    fn list(&self, rel: &[u8]) -> fs::Listing {
        let mut listing = fs::Listing::default();
        for (rest, bytes) in self.below(rel) {
            let slash = memchr::memchr(b'/', rest);
            let name = rest[..slash.unwrap_or(rest.len())].to_vec();
            if listing
                .entries
                .last()
                .is_some_and(|last: &fs::Listed| last.name == name)
            {
                continue;
            }
            listing.entries.push(fs::Listed {
                name,
                kind: if slash.is_some() {
                    Kind::Directory
                } else {
                    Kind::File
                },
                len: bytes.len() as u64,
                modified: self.modified,
            });
        }
        listing
    }
}

impl Tree {
    /// The root, if the files are on disk.
    pub(crate) fn root(&self) -> Option<&Arc<Root>> {
        match self {
            Tree::Disk { root, .. } => Some(root),
            Tree::Embedded(_) => None,
        }
    }

    /// Opens a regular file or finds a directory. Anything else counts as missing.
    pub(crate) fn open(&self, rel: &[u8], wait: Wait) -> Result<Opened, OpenError> {
        let (root, symlinks) = match self {
            Tree::Embedded(embedded) => return embedded.open(rel),
            Tree::Disk { root, symlinks } => (root, *symlinks),
        };
        let how = |symlinks| How { symlinks, wait };
        // First without following links: if that works, watching the directories of the path reports every change.
        let denied = |error| match error {
            OpenError::Forbidden => why_denied(root, rel, how(symlinks.into())),
            error => error,
        };
        let (file, linked) = match root.open_file(rel, how(fs::Symlinks::Refuse)) {
            Ok(file) => (file, false),
            Err(OpenError::Link) if symlinks == Symlinks::FollowWithinRoot => {
                let file = root.open_file(rel, how(fs::Symlinks::FollowWithinRoot));
                (file.map_err(denied)?, true)
            }
            Err(error) => return Err(denied(error)),
        };
        match file.meta().kind {
            Kind::File => {
                let linked = linked || file.meta().names > 1;
                Ok(Opened::Disk { file, linked })
            }
            Kind::Directory => Ok(Opened::Directory { linked }),
            Kind::Other => Err(OpenError::Special),
        }
    }

    /// Whether a path names a regular file of the file system, in no user's home directory; `None`: that is not known without
    /// waiting.
    pub(crate) fn has_file(&self, rel: &[u8], wait: Wait) -> Option<bool> {
        let Tree::Disk { root, symlinks } = self else {
            return Some(false);
        };
        if root.graft_of(rel).is_some() {
            return Some(false);
        }
        let how = |symlinks| How { symlinks, wait };
        match root.stat(rel, how((*symlinks).into())) {
            Ok(meta) => Some(meta.kind == Kind::File),
            Err(OpenError::WouldBlock) => None,
            Err(_) => Some(false),
        }
    }

    /// The current state of a path; `None` if it names nothing that could be served.
    pub(crate) fn meta(&self, rel: &[u8]) -> Option<Meta> {
        match self {
            Tree::Embedded(_) => None,
            Tree::Disk { root, symlinks } => {
                let how = How {
                    symlinks: (*symlinks).into(),
                    wait: Wait::Block,
                };
                root.stat(rel, how).ok()
            }
        }
    }

    /// Up to `limit` names in a directory. Blocks.
    pub(crate) fn list(&self, rel: &[u8], limit: usize) -> Result<fs::Listing, OpenError> {
        match self {
            Tree::Embedded(embedded) => Ok(embedded.list(rel)),
            Tree::Disk { root, symlinks } => root.list(rel, (*symlinks).into(), limit),
        }
    }
}

/// Why access was denied: no permission to read an existing file or directory, or to search a directory on the way,
/// means forbidden. Sockets and devices without permission still count as special files.
fn why_denied(root: &Root, rel: &[u8], how: How) -> OpenError {
    match root.stat(rel, how) {
        Ok(meta) if meta.kind == Kind::Other => OpenError::Special,
        Err(OpenError::WouldBlock) => OpenError::WouldBlock,
        _ => OpenError::Forbidden,
    }
}

impl From<Symlinks> for fs::Symlinks {
    fn from(symlinks: Symlinks) -> fs::Symlinks {
        match symlinks {
            Symlinks::Refuse => fs::Symlinks::Refuse,
            Symlinks::FollowWithinRoot => fs::Symlinks::FollowWithinRoot,
        }
    }
}
