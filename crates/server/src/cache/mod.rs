//! What is kept, and what leaves first.
//!
//! The [`store`](Store) bounds bytes, entries and descriptors; a policy only orders. Policies see
//! slots, hashes and sizes, never paths or content, and each has a file of its own. Two of them also
//! see which hashes an entry refers to: [`hinted`] and [`structured`].

mod budget;
mod chain;
mod hinted;
mod lfu;
mod lru;
mod s3fifo;
mod store;
mod structured;

#[cfg(test)]
pub(crate) mod testing;

pub(crate) use budget::Charge;
pub use store::StoreCounters;
pub(crate) use store::{Draft, ENTRY_OVERHEAD, Snapshot, Store, Touch};

use chain::Slot;
use core::fmt;
use core::str::FromStr;
use measure::Bytes;

/// A unit of [`structured`] may have one part in this many of the budget: one page must not be the cache.
pub(crate) const UNIT_SHARE: u64 = 4;

/// Which entry leaves when there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The one unused for longest.
    Lru,
    /// The one used least often, counts fading with time.
    Lfu,
    /// S3-FIFO: new entries must prove themselves in a small queue first, so one scan evicts nothing useful.
    #[default]
    S3Fifo,
    /// Least recently used, where a use of a page is a use of all that it embeds, which is loaded with it.
    Hinted,
    /// Least recently used among units: a page and what it embeds are loaded together and leave together.
    Structured,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 5] = [
        Policy::Lru,
        Policy::Lfu,
        Policy::S3Fifo,
        Policy::Hinted,
        Policy::Structured,
    ];

    /// Whether it wants to know what pages refer to; then what they refer to is loaded with them.
    pub const fn anticipates(self) -> bool {
        matches!(self, Policy::Hinted | Policy::Structured)
    }

    /// The name used in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Lru => "lru",
            Policy::Lfu => "lfu",
            Policy::S3Fifo => "s3-fifo",
            Policy::Hinted => "hinted",
            Policy::Structured => "structured",
        }
    }

    /// A new order of eviction for a cache of this many bytes.
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

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The name of no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a cache policy; choose lru, lfu, s3-fifo, hinted or structured",
            self.0
        )
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for Policy {
    type Err = UnknownPolicy;
    fn from_str(text: &str) -> Result<Policy, UnknownPolicy> {
        Policy::ALL
            .into_iter()
            .find(|p| p.name() == text)
            .ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Which entry leaves first.
    pub policy: Policy,
    /// Bytes of content, header blocks, keys and index together; never exceeded.
    pub budget: Bytes,
    /// Files up to this size are kept in memory, larger ones as open descriptors.
    pub memory_file_max: Bytes,
    /// Entries at most.
    pub entries_max: usize,
    /// Descriptors kept open at most.
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
/// A slot is inserted once, then touched any number of times, then either removed (it left for a
/// reason of its own) or returned as a victim; after that it may be inserted again.
pub(crate) trait Eviction: Send + fmt::Debug {
    /// An entry came in. `id` is the hash of its name: the same when it comes back in another slot.
    fn insert(&mut self, slot: Slot, id: u64, size: u64);

    /// What an entry that just came in refers to, as hashes of names, whether or not those are in.
    /// Called once at most, right after `insert`.
    fn refer(&mut self, _slot: Slot, _references: &[u64]) {}

    /// An entry was used.
    fn touch(&mut self, slot: Slot, times: u32);

    /// An entry left for another reason than eviction.
    fn remove(&mut self, slot: Slot);

    /// Chooses the entry to evict and forgets it. `None` if there are none.
    fn victim(&mut self) -> Option<Slot>;

    /// Whether the next victims belong to the last one and are to leave now, too.
    fn is_leaving(&self) -> bool {
        false
    }
}
