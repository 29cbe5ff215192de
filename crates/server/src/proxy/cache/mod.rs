//! Responses of upstreams that are stored for other clients (RFC 9111: a shared cache).
//!
//! ```text
//!   request ─▶ Cached::new ─▶ look_up ─┬─ stored ────────▶ Reply
//!                                      ├─ under way ─────▶ Waiter, then look_up again, at most twice
//!                                      └─ go on ─▶ answered ─┬─ 304, or an error ─▶ Reply
//!                                                            └─ take, complete ───▶ Store
//! ```
//! The crate `http-cache` decides what a cache may do. This module keeps the responses and knows neither upstreams nor
//! connections:
//!
//! - `store` has the responses, `object` is one, `body` collects its content.
//! - `disk` keeps them across restarts, as `record` writes them; `purges` has what operators dropped.
//! - `exchange` is the cache's part in one exchange; `flight` lets one request go for many.
//! - `repeat` answers equal requests without a lookup.

mod body;
mod disk;
mod exchange;
mod flight;
mod object;
mod purge;
mod purges;
mod record;
mod repeat;
mod store;
#[cfg(test)]
mod tests;

use disk::Disk;
pub(crate) use disk::DiskReport;
pub(crate) use exchange::{Cached, Step, key};
pub(crate) use flight::{Flights, Lead, Part, WaitGuard, Waiter};
pub use purge::Purge;
pub use purges::Purges;
pub(crate) use repeat::{Again, Repeat, Written};

use crate::config::ProxyCache;
use http_cache::reuse::Allowances;
use http_cache::stored::{Stored, lines};
use http_semantics::field::Line;
use object::Object;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::Store;
use units::{Duration, UnixTime};

/// Targeted fields that this cache obeys (RFC 9213 section 2.2).
pub(crate) const TARGETS: &[&str] = &["cdn-cache-control"];

/// Targets whose last response was not stored, by hash. Requests for them do not wait for each other.
const REFUSED: usize = 1_024;

/// Seconds for which such a target is remembered.
const REFUSED_SECS: u64 = 10;

/// A cache of responses.
#[derive(Debug)]
pub(crate) struct Cache {
    config: ProxyCache,
    store: Arc<Store>,
    disk: Option<Disk>,
    flights: Arc<Flights>,
    counts: Arc<Counts>,
    /// High half: hash of a target. Low half: seconds of civil time until which it is remembered.
    refused: Box<[AtomicU64]>,
    hasher: RandomState,
    purges: Purges,
    /// Purges that were applied; held while more are.
    applied: Mutex<u64>,
    /// The same number, readable without waiting.
    applied_count: AtomicU64,
    /// The system made no file in memory once, which the log has.
    has_no_files: AtomicBool,
}

/// Counts, by [`Count`].
type Counts = [AtomicU64; Count::ALL.len()];

/// What a cache counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Responses from the cache without the upstream.
    Hits,
    /// Those of them that were stale.
    Stale,
    /// Requests that went to the upstream because nothing stored answers them.
    Misses,
    /// Stored responses that the upstream validated.
    Validated,
    /// Stored responses that stood in for an error.
    StoodIn,
    /// Requests that waited for that of another client.
    Collapsed,
    /// Requests that the cache does not handle.
    Bypassed,
    /// Responses stored.
    Stored,
    /// Stored responses that were purged.
    Purged,
    /// Stored responses made invalid by a request that changes their target.
    Invalidated,
    /// Responses read from the disk for a request.
    DiskHits,
    /// Responses written to the disk.
    DiskWrites,
    /// Files that were removed to make room.
    DiskEvicted,
    /// Files that could not be written, read or removed, and files with other content than was written.
    DiskErrors,
}

impl Count {
    pub(crate) const ALL: [Count; 14] = [
        Count::Hits,
        Count::Stale,
        Count::Misses,
        Count::Validated,
        Count::StoodIn,
        Count::Collapsed,
        Count::Bypassed,
        Count::Stored,
        Count::Purged,
        Count::Invalidated,
        Count::DiskHits,
        Count::DiskWrites,
        Count::DiskEvicted,
        Count::DiskErrors,
    ];

    /// What it is, for metrics.
    pub(crate) const fn help(self) -> &'static str {
        match self {
            Count::Hits => "Requests answered from the proxy's cache without an upstream",
            Count::Stale => "Requests answered from the proxy's cache although the response was stale",
            Count::Misses => "Requests that nothing in the proxy's cache answered",
            Count::Validated => "Stored responses that an upstream confirmed with 304",
            Count::StoodIn => "Stored responses served in place of an error",
            Count::Collapsed => "Requests that waited for another client's request for the same response",
            Count::Bypassed => "Requests whose method the proxy's cache does not handle",
            Count::Stored => "Responses stored in the proxy's cache",
            Count::Purged => "Stored responses dropped by weir ctl purge",
            Count::Invalidated => "Stored responses dropped because a request changed their target",
            Count::DiskHits => "Responses of the proxy's cache read from its disk for a request",
            Count::DiskWrites => "Responses of the proxy's cache written to its disk",
            Count::DiskEvicted => "Files of the proxy's cache removed to make room",
            Count::DiskErrors => {
                "Files of the proxy's cache that were not written, read or removed, or were damaged"
            }
        }
    }

    /// Its name in metrics, without prefix and suffix.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Count::Hits => "hits",
            Count::Stale => "stale_hits",
            Count::Misses => "misses",
            Count::Validated => "validated",
            Count::StoodIn => "stood_in",
            Count::Collapsed => "collapsed",
            Count::Bypassed => "bypassed",
            Count::Stored => "stored",
            Count::Purged => "purged",
            Count::Invalidated => "invalidated",
            Count::DiskHits => "disk_hits",
            Count::DiskWrites => "disk_writes",
            Count::DiskEvicted => "disk_evicted",
            Count::DiskErrors => "disk_errors",
        }
    }
}

/// What a cache has done and holds.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) counts: [u64; Count::ALL.len()],
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_peak: u64,
    pub(crate) bytes_max: u64,
    pub(crate) evictions: u64,
    /// Without a disk, all zero.
    pub(crate) disk: DiskReport,
}

impl Cache {
    pub(crate) fn new(config: &ProxyCache, purges: &Purges) -> Cache {
        let applied = purges.count();
        let store = Arc::new(Store::new(config.size.0, config.policy));
        let counts: Arc<Counts> = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
        Cache {
            disk: Disk::new(config, &store, &counts, purges),
            config: config.clone(),
            store,
            flights: Arc::default(),
            counts,
            refused: (0..REFUSED).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            purges: purges.clone(),
            applied: Mutex::new(applied),
            applied_count: AtomicU64::new(applied),
            has_no_files: AtomicBool::new(false),
        }
    }

    fn count(&self, what: Count, by: u64) {
        self.counts[what as usize].fetch_add(by, Ordering::Relaxed);
    }

    fn allowances(&self) -> Allowances {
        Allowances {
            stale_while_revalidate: secs(self.config.stale_while_revalidate),
            stale_if_error: secs(self.config.stale_if_error),
        }
    }

    fn negative(&self) -> u64 {
        secs(self.config.negative_time)
    }

    fn mark(&self, key: &[u8], now: UnixTime) -> (&AtomicU64, u64, u64) {
        let hash = self.hasher.hash_one(key);
        let now = u64::try_from(now.secs).unwrap_or(0) & 0xffff_ffff;
        (&self.refused[hash as usize % REFUSED], hash & !0xffff_ffff, now)
    }

    /// The response of a target was not stored.
    fn refuse(&self, key: &[u8], now: UnixTime) {
        let (mark, hash, now) = self.mark(key, now);
        mark.store(hash | (now + REFUSED_SECS) & 0xffff_ffff, Ordering::Relaxed);
    }

    /// Whether the last response of a target was not stored, a short time ago.
    fn is_refused(&self, key: &[u8], now: UnixTime) -> bool {
        let (mark, hash, now) = self.mark(key, now);
        let known = mark.load(Ordering::Relaxed);
        known & !0xffff_ffff == hash && known & 0xffff_ffff > now
    }

    /// What it has done and holds.
    pub(crate) fn report(&self) -> Report {
        let [entries, bytes, bytes_peak, evictions] = self.store.figures();
        Report {
            counts: std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed)),
            entries,
            bytes,
            bytes_peak,
            bytes_max: self.config.size.0,
            evictions,
            disk: self.disk.as_ref().map(Disk::report).unwrap_or_default(),
        }
    }

    /// Applies purges that any process noted since the last call. Returns the number of purges so far.
    fn catch_up(&self) -> u64 {
        let count = self.purges.count();
        if self.applied_count.load(Ordering::Acquire) != count {
            self.apply(&mut self.hold_purges());
        }
        count
    }

    /// Keeps other threads from applying purges.
    pub(crate) fn hold_purges(&self) -> MutexGuard<'_, u64> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the responses that new purges pick. Returns how many.
    pub(crate) fn apply(&self, applied: &mut MutexGuard<'_, u64>) -> u64 {
        let count = self.purges.count();
        let new = self.purges.since(**applied);
        let mut purged = 0;
        if !new.is_empty() {
            let is_picked = |key: &[u8], lines: &[Line<'_>]| new.iter().any(|what| what.picks(key, lines));
            let on_disk = self
                .disk
                .as_ref()
                .map_or(0, |disk| disk.drop_all(|key, tags| is_picked(key, &lines(tags))));
            let in_memory = self
                .store
                .remove_all(|object| is_picked(&object.key, &object.head.lines()));
            // Most of those on the disk are in memory, too.
            purged = in_memory.max(on_disk) as u64;
            self.count(Count::Purged, purged);
        }
        **applied = count;
        self.applied_count.store(count, Ordering::Release);
        purged
    }

    /// Removes the files of responses that were dropped. Blocks.
    pub(crate) fn sweep(&self, now: UnixTime) {
        if let Some(disk) = &self.disk {
            disk.sweep(now);
        }
    }

    /// Begins to use the disk, if there is one. A process calls this once it does not fork any more.
    pub(crate) fn awaken(&self) {
        if let Some(disk) = &self.disk {
            disk.awaken();
        }
    }

    /// Stores a response.
    fn keep(&self, object: Object, now: UnixTime) -> Arc<Object> {
        let object = self.store.insert(object);
        if let Some(disk) = &self.disk {
            disk.replace(&object, now);
        }
        object
    }

    /// Drops this response.
    fn drop_object(&self, object: &Arc<Object>) {
        if let Some(disk) = &self.disk {
            disk.drop_where(&object.key, |entry| {
                entry.names == object.names && entry.variant == object.variant
            });
        }
        self.store.remove(object);
    }

    /// Drops all responses of a target. Returns how many there were.
    fn drop_target(&self, key: &[u8]) -> usize {
        let on_disk = self
            .disk
            .as_ref()
            .map_or(0, |disk| disk.drop_where(key, |_| true));
        self.store.remove_target(key).max(on_disk)
    }

    /// Whether a response was purged since there were `seen` purges.
    fn is_purged_since(&self, seen: u64, key: &[u8], head: &Stored) -> bool {
        self.purges.count() != seen
            && self
                .purges
                .since(seen)
                .iter()
                .any(|what| what.picks(key, &head.lines()))
    }
}

/// Bytes that a stored response takes besides its content. `variant`: the values of the request fields that chose it.
pub(crate) fn cost(key: &[u8], head: &Stored, variant: &[u8]) -> u64 {
    Object::cost(key, head, variant)
}

fn secs(time: Duration) -> u64 {
    time.as_secs()
}
