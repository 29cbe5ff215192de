//! Responses of upstreams that are stored for other clients (RFC 9111: a shared cache).
//!
//! ```text
//!   request ─▶ Cached::new ─▶ look_up ─┬─ stored ────────▶ Reply
//!                                      ├─ under way ─────▶ Waiter, then look_up again
//!                                      └─ go on ─▶ answered ─┬─ 304, or an error ─▶ Reply
//!                                                            └─ take, complete ───▶ Store
//! ```
//! The crate `http-cache` decides what a cache may do. This module keeps the responses: `store` has them, `object` is one,
//! `body` collects content, `purges` has what operators dropped, `flight` lets one request go for many, `exchange` is the cache's part in one exchange. It knows
//! neither upstreams nor connections.

mod body;
mod exchange;
mod flight;
mod object;
mod purge;
mod purges;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use exchange::{Cached, Step};
pub(crate) use flight::Waiter;
pub use purge::Purge;
pub use purges::Purges;

use crate::config::ProxyCache;
use flight::Flights;
use http_cache::reuse::Allowances;
use http_cache::stored::Stored;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::Store;
use units::{Duration, UnixTime};

/// Targeted fields that this cache obeys (RFC 9213 section 2.2).
const TARGETS: &[&str] = &["cdn-cache-control"];

/// Targets whose last response was not stored, by hash. Requests for them do not wait for each other.
const REFUSED: usize = 1_024;

/// Seconds for which such a target is remembered.
const REFUSED_SECS: u64 = 10;

/// A cache of responses.
#[derive(Debug)]
pub(crate) struct Cache {
    config: ProxyCache,
    store: Store,
    flights: Arc<Flights>,
    counts: [AtomicU64; Count::ALL.len()],
    /// High half: hash of a target. Low half: seconds of civil time until which it is remembered.
    refused: Box<[AtomicU64]>,
    hasher: RandomState,
    purges: Purges,
    /// Purges that were applied; held while more are.
    applied: Mutex<u64>,
    /// The same number, readable without waiting.
    applied_count: AtomicU64,
}

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
}

impl Count {
    pub(crate) const ALL: [Count; 10] = [
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
}

impl Cache {
    pub(crate) fn new(config: &ProxyCache, purges: &Purges) -> Cache {
        let applied = purges.count();
        Cache {
            config: config.clone(),
            store: Store::new(config.size.0, config.policy),
            flights: Arc::default(),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            refused: (0..REFUSED).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            purges: purges.clone(),
            applied: Mutex::new(applied),
            applied_count: AtomicU64::new(applied),
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
            let is_picked = |key: &[u8], head: &Stored| new.iter().any(|what| what.picks(key, head));
            purged = self
                .store
                .remove_all(|object| is_picked(&object.key, &object.head)) as u64;
            self.count(Count::Purged, purged);
        }
        **applied = count;
        self.applied_count.store(count, Ordering::Release);
        purged
    }

    /// Whether a response was purged since there were `seen` purges.
    fn is_purged_since(&self, seen: u64, key: &[u8], head: &Stored) -> bool {
        self.purges.count() != seen && self.purges.since(seen).iter().any(|what| what.picks(key, head))
    }
}

fn secs(time: Duration) -> u64 {
    time.as_secs()
}
