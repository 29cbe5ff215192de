//! The cache: which entries are kept, and which is evicted first.
//!
//! The [store](crate::store) limits bytes, entries and descriptors; a policy only decides the order of eviction. Policies
//! see slots, hashes and sizes, never paths or content. Two of them also see the hashes of the files that an entry
//! embeds: [`hinted`] and [`structured`].

mod budget;
mod chain;
mod hinted;
mod lfu;
mod lru;
mod s3fifo;
mod structured;

#[cfg(test)]
pub(crate) mod testing;

pub(crate) use budget::{Budget, Charge};
pub(crate) use chain::{NONE, Slot};

use core::fmt;
use units::Bytes;

/// A unit of [`structured`] may have at most one part in this many of the byte budget, so that no page fills the cache.
pub(crate) const UNIT_SHARE: u64 = 4;

units::words! {
    /// Which entry is evicted when the cache is full.
    #[derive(Default)]
    pub enum Policy {
        /// The least recently used entry.
        Lru = "lru",
        /// The least frequently used entry; counts decay with time.
        Lfu = "lfu",
        /// S3-FIFO: new entries first pass through a small queue, so a scan evicts no useful entry.
        #[default]
        S3Fifo = "s3-fifo",
        /// Least recently used; a use of a page counts as a use of every file it embeds, and these are loaded with it.
        Hinted = "hinted",
        /// Least recently used unit: a page and the files it embeds are loaded and evicted together.
        Structured = "structured",
    }
}

impl Policy {
    /// Whether the policy uses the references of pages. If so, the files that a page embeds are loaded with it.
    pub const fn anticipates(self) -> bool {
        matches!(self, Policy::Hinted | Policy::Structured)
    }

    /// A new instance for a cache of `budget` bytes.
    pub(crate) fn eviction(self, budget: u64) -> Box<dyn Eviction> {
        match self {
            Policy::Lru => Box::new(lru::Lru::new()),
            Policy::Lfu => Box::new(lfu::Lfu::new()),
            Policy::S3Fifo => Box::new(s3fifo::S3Fifo::new()),
            Policy::Hinted => Box::new(hinted::Hinted::new()),
            Policy::Structured => Box::new(structured::Structured::new(budget / UNIT_SHARE)),
        }
    }
}

/// Policy and limits of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Eviction policy.
    pub policy: Policy,
    /// Byte budget for content, header blocks, keys and index together; never exceeded.
    pub budget: Bytes,
    /// Files up to this size are kept in memory, larger ones as open descriptors.
    pub memory_file_max: Bytes,
    /// Maximum number of entries.
    pub entries_max: usize,
    /// Maximum number of descriptors kept open.
    pub descriptors_max: usize,
}

impl Default for CacheConfig {
    fn default() -> CacheConfig {
        CacheConfig {
            policy: Policy::default(),
            budget: Bytes::mib(64),
            memory_file_max: Bytes::kib(16),
            entries_max: 65_536,
            descriptors_max: 2048,
        }
    }
}

/// An order of eviction.
///
/// A slot is inserted once, then touched any number of times, then either returned as a victim or removed for another
/// reason. After that it may be inserted again. Workers collect touches and report them in batches; a slot is touched only
/// while it is inserted.
///
/// A store has one instance for entries in memory and one for descriptors, or one for both if the policy
/// [anticipates](Policy::anticipates). They share slot numbers, so an instance sees gaps.
pub(crate) trait Eviction: Send + fmt::Debug {
    /// An entry was inserted. `id` is the hash of its name, which stays the same when the entry returns in another
    /// slot. `size` is in bytes: what the entry takes in memory.
    fn insert(&mut self, slot: Slot, id: u64, size: u64);

    /// The references of an entry just inserted, as hashes of names, whether cached or not. Called at most once, right
    /// after `insert`.
    fn refer(&mut self, _slot: Slot, _references: &[u64]) {}

    /// An entry was used `times` times.
    fn touch(&mut self, slot: Slot, times: u32);

    /// An entry left for another reason than eviction.
    fn remove(&mut self, slot: Slot);

    /// Chooses an entry to evict and forgets it. `None` if there are none.
    fn victim(&mut self) -> Option<Slot>;

    /// Whether the next victims belong to the last one and must be evicted now, too.
    fn is_leaving(&self) -> bool {
        false
    }
}
