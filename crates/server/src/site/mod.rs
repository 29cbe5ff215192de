//! The cached virtual file system: turns the path of a request into a response ready to send.
//!
//! ```text
//!  worker: View ──hit──▶ &Arc<Entry>                          no lock, no system call, no allocation
//!            │ miss                              touches in batches
//!            ├──▶ Store (one per process) ◀─────────────────── View
//!            │ miss                  ▲ insert      ▲ kill
//!            └──▶ Load (a job) ──────┘             └──────── Freshness: watched and polled directories
//! ```
//!
//! [`path`] decides which paths name files, [`load`] finds responses, [`crate::cache`] keeps them, and [`fresh`]
//! detects outdated ones. [`warm`] loads entries before their request, and [`logins`] finds the pages at `/~login/`.
//! [`trees`] decides which folder holds a path. This module does not know requests.

pub(crate) mod config;
mod encode;
mod fresh;
mod hints;
mod load;
mod logins;
mod readme;
mod represent;
mod tree;
mod trees;
mod view;
mod warm;

#[cfg(test)]
mod tests;

pub use crate::listing::Theme;
pub use config::{OpenError, ReadmeRules, SiteConfig, Source, Symlinks};
pub use encode::Encode;
pub use load::{Load, Loaded};
pub use logins::Logins;
pub(crate) use view::{Located, Spot};
pub use view::{Lookup, View, ViewCounters};

use crate::path;
use crate::store::{Store, StoreCounters};
use bytes::Bytes;
use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use fresh::Freshness;
use hints::Hints;
use runtime::fs::{Root, Wait};
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock};
use tree::{Embedded, Tree};
use trees::Trees;
use units::{Instant, UnixTime};
use warm::Warmer;

/// An opened site, shared by all workers.
#[derive(Clone, Debug)]
pub struct Site {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    config: SiteConfig,
    trees: Trees,
    store: Store,
    freshness: Arc<Freshness>,
    hasher: SeedableRandomState,
    /// The configured field lines, each with its CRLF.
    configured: Bytes,
    /// Files up to this length are kept in memory.
    memory_max: u64,
    /// Number of compressions running.
    encoding: AtomicUsize,
    /// Reads what pages embed; empty if neither the policy nor early hints use it.
    warmer: OnceLock<Warmer>,
    /// What pages embedded, if that is told early.
    hints: Option<Hints>,
    /// Held while a response is composed, if that is configured.
    pub(crate) in_use: Mutex<()>,
}

impl Site {
    /// Makes all entries outdated.
    #[cfg(test)]
    pub(crate) fn change_everything(&self) {
        self.shared.store.kill_where(|_| true);
    }

    /// Outdates what was made of a file or folder that has changed just now. `number` is that of its root: 0 for the
    /// site's own, otherwise the index of a mount and one. The path is named from this root on. `is_tree`: all that is
    /// below it may have changed, too.
    pub(crate) fn changed(&self, number: usize, path: &[u8], is_tree: bool) {
        self.shared.changed(number, path, is_tree);
    }

    /// Opens the root and those of mounts (not their files) and starts watching them.
    ///
    /// # Errors
    /// The root that cannot be opened, and the reason.
    pub fn open(config: SiteConfig) -> Result<Site, OpenError> {
        let own = match &config.source {
            Source::Embedded { .. } if config.logins.is_some() => return Err(OpenError::NoRoot),
            Source::Embedded { files, modified } => Tree::Embedded(Embedded::new(files, *modified)),
            Source::Directory(path) => {
                let mut root = Root::open(path).map_err(|cause| OpenError::Root(path.clone(), cause))?;
                if let Some(logins) = &config.logins {
                    root = root.with_grafts(Logins::grafts(logins));
                }
                Tree::Disk {
                    root: Arc::new(root),
                    symlinks: config.symlinks,
                }
            }
        };
        let symlinks = config.symlinks;
        let trees = Trees::open(own, &config.mounts, |root| Tree::Disk {
            root: Arc::new(root),
            symlinks,
        })?;
        let mut configured = Vec::new();
        for (name, value) in &config.fields {
            crate::field_list::write_line(&mut configured, name, value.as_bytes());
        }
        let store = Store::new(&config.cache);
        let memory_max = config.cache.memory_file_max.0.min(store.largest());
        // Clients choose the paths, so the seed must be random.
        let seed = std::collections::hash_map::RandomState::new()
            .build_hasher()
            .finish();
        let shared = Arc::new(Shared {
            trees,
            store,
            freshness: Arc::default(),
            hasher: SeedableRandomState::with_seed(seed, SharedSeed::global_random()),
            configured: configured.into(),
            memory_max,
            encoding: AtomicUsize::new(0),
            warmer: OnceLock::new(),
            hints: config.early_hints.then(Hints::default),
            in_use: Mutex::new(()),
            config,
        });
        fresh::start(&shared)?;
        warm::start(&shared);
        Ok(Site { shared })
    }

    /// A view of the site for one worker.
    pub fn view(&self, now: Instant, wall: UnixTime) -> View {
        View::new(Arc::clone(&self.shared), now, wall)
    }

    /// Whether every page loaded so far has been scanned for what it embeds. Requests do not wait for that; tests do.
    pub fn is_settled(&self) -> bool {
        self.shared.warmer.get().is_none_or(Warmer::is_idle)
    }

    /// Whether there is a regular file of this name, resolved and without its leading slash. It need not be readable. `None`: the
    /// answer has to wait for the disk, and `wait` does not permit that. Files of mounts do not count: an application knows the
    /// root of the site alone.
    pub(crate) fn has_file(&self, rel: &[u8], wait: Wait) -> Option<bool> {
        let seat = self.shared.trees.seat(rel);
        match seat.number {
            trees::OWN => seat.tree.has_file(seat.rel, wait),
            _ => Some(false),
        }
    }

    /// The counters of the cache.
    pub fn counters(&self) -> StoreCounters {
        self.shared.store.counters()
    }

    /// Checks that the root and those of mounts can be opened. Blocks on the disk.
    ///
    /// # Errors
    /// The first root that cannot be opened, and why.
    pub(crate) fn confirm(&self) -> Result<(), OpenError> {
        self.shared.trees.confirm()
    }

    /// Whether all roots could be opened at the last check. Also starts a new check.
    pub(crate) fn is_reachable(&self) -> bool {
        self.shared.look_at_roots();
        let mut roots = self.shared.trees.all().filter_map(Tree::root);
        roots.all(|root| root.trouble().is_none())
    }

    /// The configuration of the site.
    pub fn config(&self) -> &SiteConfig {
        &self.shared.config
    }
}

impl Shared {
    #[inline]
    fn hash(&self, path: &[u8]) -> u64 {
        hash_with(&self.hasher, path)
    }

    /// Field lines after the filters, each with its CRLF. Without changes by filters, those of all responses.
    fn lines(&self, fields: Option<Vec<(String, String)>>) -> Bytes {
        let Some(fields) = fields else {
            return self.configured.clone();
        };
        let mut out = Vec::new();
        for (name, value) in fields {
            crate::field_list::write_line(&mut out, &name, value.as_bytes());
        }
        out.into()
    }

    /// The root of a path of the site, if its files are on disk.
    fn root_of(&self, path: &[u8]) -> Option<&Path> {
        let root = self.trees.seat(fresh::relative(path)).tree.root()?;
        Some(root.path())
    }

    /// Whether the file of this path can change while it is served.
    fn tree_changes(&self, path: &[u8]) -> bool {
        self.root_of(path).is_some()
    }

    /// The names of index files in a directory, which is named without slashes at its ends.
    fn index_of(&self, directory: &[u8]) -> &[String] {
        let own = self
            .trees
            .mount_of(directory)
            .and_then(|mount| mount.index.as_deref());
        own.unwrap_or(&self.config.index)
    }

    /// Whether a directory without an index is listed. It is named as for [`Shared::index_of`].
    fn lists(&self, directory: &[u8]) -> bool {
        let own = self.trees.mount_of(directory).and_then(|mount| mount.listing);
        own.unwrap_or(self.config.listing)
    }
}

#[inline]
fn hash_with(hasher: &SeedableRandomState, path: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(path);
    hasher.finish()
}
