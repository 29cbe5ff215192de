//! What is kept, and what leaves first.
//!
//! The [`store`](Store) bounds bytes, entries and descriptors; a policy only orders. Policies see
//! slots, hashes and sizes, never paths or content, and each has a file of its own.

mod budget;
mod chain;
mod lfu;
mod lru;
mod s3fifo;
mod store;

#[cfg(test)]
mod testing;

pub(crate) use budget::Charge;
pub use store::StoreCounters;
pub(crate) use store::{Draft, ENTRY_OVERHEAD, Snapshot, Store, Touch};

use chain::Slot;
use core::fmt;
use core::str::FromStr;
use measure::Bytes;

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
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 3] = [Policy::Lru, Policy::Lfu, Policy::S3Fifo];
    /// The name used in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Lru => "lru",
            Policy::Lfu => "lfu",
            Policy::S3Fifo => "s3-fifo",
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
        write!(f, "`{}` is no cache policy; choose lru, lfu or s3-fifo", self.0)
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

    /// An entry was used.
    fn touch(&mut self, slot: Slot, times: u32);

    /// An entry left for another reason than eviction.
    fn remove(&mut self, slot: Slot);

    /// Chooses the entry to evict and forgets it. `None` if there are none.
    fn victim(&mut self) -> Option<Slot>;
}
