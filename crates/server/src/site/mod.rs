//! The cached virtual file system: from the path of a request to an answer ready for the wire.
//!
//! ```text
//!  worker: View ──hit──▶ &Arc<Entry>                          no lock, no system call, no allocation
//!            │ miss                              touches in batches
//!            ├──▶ Store (one per process) ◀─────────────────── View
//!            │ miss                  ▲ insert      ▲ kill
//!            └──▶ Load (a job) ──────┘             └──────── Freshness: watched and polled directories
//! ```
//!
//! What a path may name is decided in [`path`], how an answer is found in [`load`], what is kept in
//! [`crate::cache`], when it is no longer true in [`fresh`], what is loaded before it is asked for in
//! [`warm`], whose directories are at `/~login/` in [`logins`]. Nothing here knows a request.

pub(crate) mod config;
mod encode;
mod fresh;
mod load;
mod logins;
pub(crate) mod path;
mod represent;
mod tree;
mod view;
mod warm;

#[cfg(test)]
mod tests;

pub use config::{OpenError, SiteConfig, Source, Symlinks};
pub use encode::Encode;
pub(crate) use fresh::Polls;
pub use load::{Load, Loaded};
pub use logins::Logins;
pub(crate) use represent::{Recipe, is_weak, line as write_line, shows_writes};
pub use view::{Lookup, View, ViewCounters};

use crate::cache::{Store, StoreCounters};
use bytes::Bytes;
use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use fresh::Freshness;
use measure::{Instant, UnixTime};
use runtime::fs::Root;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock};
use tree::{Embedded, Tree};
use warm::Warmer;

/// A site, opened: shared by all workers.
#[derive(Clone, Debug)]
pub struct Site {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    config: SiteConfig,
    tree: Tree,
    store: Store,
    freshness: Arc<Freshness>,
    hasher: SeedableRandomState,
    /// The configured field lines, each with its CRLF.
    configured: Bytes,
    /// Files up to this length are kept in memory.
    memory_max: u64,
    /// Encodings being made.
    encoding: AtomicUsize,
    /// Where what pages embed is loaded; none if the policy does not want that.
    warmer: OnceLock<Warmer>,
    /// Held while an answer is made, where that is asked for.
    pub(crate) in_use: Mutex<()>,
}

impl Site {
    /// Everything kept is no longer true.
    #[cfg(test)]
    pub(crate) fn change_everything(&self) {
        self.shared.store.kill_where(|_| true);
    }

    /// Opens the root (not its files) and starts watching it.
    ///
    /// # Errors
    /// The root that cannot be opened, and why.
    pub fn open(config: SiteConfig) -> Result<Site, OpenError> {
        let tree = match &config.source {
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
        let mut configured = Vec::new();
        for (name, value) in &config.fields {
            represent::line(&mut configured, name, value.as_bytes());
        }
        let store = Store::new(&config.cache);
        let memory_max = config.cache.memory_file_max.0.min(store.largest());
        // Paths are the clients' to choose, so the seed is the operating system's randomness.
        let seed = std::collections::hash_map::RandomState::new()
            .build_hasher()
            .finish();
        let shared = Arc::new(Shared {
            tree,
            store,
            freshness: Arc::default(),
            hasher: SeedableRandomState::with_seed(seed, SharedSeed::global_random()),
            configured: configured.into(),
            memory_max,
            encoding: AtomicUsize::new(0),
            warmer: OnceLock::new(),
            in_use: Mutex::new(()),
            config,
        });
        fresh::start(&shared)?;
        warm::start(&shared);
        Ok(Site { shared })
    }

    /// A worker's window on the site; made once per worker.
    pub fn view(&self, now: Instant, wall: UnixTime) -> View {
        View::new(Arc::clone(&self.shared), now, wall)
    }

    /// What the store holds and counted.
    pub fn counters(&self) -> StoreCounters {
        self.shared.store.counters()
    }

    /// Whether the root can be opened now, which waits for the disk.
    ///
    /// # Errors
    /// The root, and why it cannot.
    pub(crate) fn confirm(&self) -> Result<(), OpenError> {
        match &self.shared.tree {
            Tree::Disk { root, .. } => root
                .confirm()
                .map_err(|cause| OpenError::Root(root.path().to_owned(), cause)),
            Tree::Embedded(_) => Ok(()),
        }
    }

    /// Whether the root could be opened when it was last looked at; has it looked at again.
    pub(crate) fn is_reachable(&self) -> bool {
        self.shared.look_at_root();
        match &self.shared.tree {
            Tree::Disk { root, .. } => root.trouble().is_none(),
            Tree::Embedded(_) => true,
        }
    }

    /// What it was opened with.
    pub fn config(&self) -> &SiteConfig {
        &self.shared.config
    }
}

impl Shared {
    #[inline]
    fn hash(&self, path: &[u8]) -> u64 {
        hash_with(&self.hasher, path)
    }

    /// The field lines, each with its CRLF, that filters left an answer, if these are not those of all.
    fn lines(&self, fields: Option<Vec<(String, String)>>) -> Bytes {
        let Some(fields) = fields else {
            return self.configured.clone();
        };
        let mut out = Vec::new();
        for (name, value) in fields {
            represent::line(&mut out, &name, value.as_bytes());
        }
        out.into()
    }

    /// Where the files are, if they are on disk.
    fn root(&self) -> Option<&Path> {
        match &self.tree {
            Tree::Disk { root, .. } => Some(root.path()),
            Tree::Embedded(_) => None,
        }
    }

    /// Whether what is served can change while it is.
    fn tree_changes(&self) -> bool {
        matches!(self.tree, Tree::Disk { .. })
    }
}

#[inline]
fn hash_with(hasher: &SeedableRandomState, path: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(path);
    hasher.finish()
}
