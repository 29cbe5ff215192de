//! Responses of upstreams that are stored for other clients (RFC 9111: a shared cache).
//!
//! ```text
//!   request ─▶ Cached::new ─▶ look_up ─┬─ stored ────────▶ Reply
//!                                      ├─ under way ─────▶ Waiter, then look_up again
//!                                      └─ go on ─▶ answered ─┬─ 304, or an error ─▶ Reply
//!                                                            └─ take, complete ───▶ Store
//! ```
//! The crate `http-cache` decides what a cache may do. This module keeps the responses: `store` has them, `object` is one,
//! `body` collects content, `flight` lets one request go for many, `exchange` is the cache's part in one exchange. It knows
//! neither upstreams nor connections.

mod body;
mod exchange;
mod flight;
mod object;
mod purge;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use exchange::{Cached, Step};
pub(crate) use flight::Waiter;
pub use purge::Purge;

use crate::config::ProxyCache;
use flight::Flights;
use http_cache::reuse::Allowances;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    pub(crate) fn new(config: &ProxyCache) -> Cache {
        Cache {
            config: config.clone(),
            store: Store::new(config.size.0, config.policy),
            flights: Arc::default(),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            refused: (0..REFUSED).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
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

    /// Removes stored responses. Returns how many.
    pub(crate) fn purge(&self, what: &Purge) -> u64 {
        let purged = self
            .store
            .remove_all(|object| what.picks(&object.key, &object.head)) as u64;
        self.count(Count::Purged, purged);
        purged
    }
}

fn secs(time: Duration) -> u64 {
    time.as_secs()
}
