//! The cache entries that all workers share: found by path, limited in bytes, entries and descriptors.
//!
//! One mutex guards the index and the policy. Hits in a worker's view do not take it. It is for loads, for a worker's
//! first use of an entry, for changes on disk, and for the touches that views hand over in batches. No memory is freed
//! while it is held.
//!
//! The store keeps one part in [`HEADROOM`] of the budget free of live entries: evicted ones stay counted until every
//! view has released them, and loads must not fail meanwhile.

use crate::cache::{Budget, CacheConfig, Charge, Eviction, NONE, Slot};
use crate::entry::{Draft, Entry, Token};
use crate::references::References;
use hashbrown::HashTable;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// One part in this many of the budget is kept free of live entries.
const HEADROOM: u64 = 16;

/// An entry may have at most one part in this many of the budget, so that it does not evict all others.
const LARGEST_SHARE: u64 = 16;

/// Bytes an entry costs beyond its text and content: the entry itself, its slot, and its records in the index, in the
/// policy with its ghost, and in the tables of a few views.
pub(crate) const ENTRY_OVERHEAD: u64 = 640;

/// Number of change counters, which tell loads that a directory changed meanwhile. Directories share them by hash.
const CHANGE_COUNTERS: usize = 1024;

/// The cache entries that all workers share.
#[derive(Debug)]
pub(crate) struct Store {
    budget: Arc<Budget>,
    entries_max: usize,
    inner: Mutex<Inner>,
    deaths: AtomicU64,
    evictions: AtomicU64,
    turned_away: AtomicU64,
    ahead: AtomicU64,
    changes: Box<[AtomicU64]>,
}

/// Counters of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// Current number of entries.
    pub entries: u64,
    /// Bytes reserved now, by live entries and by evicted ones still in use.
    pub bytes: u64,
    /// Largest number of bytes reserved at once; never above the budget.
    pub bytes_peak: u64,
    /// Current number of descriptors kept open.
    pub descriptors: u64,
    /// Entries evicted to make room.
    pub evictions: u64,
    /// Responses not cached for lack of room.
    pub turned_away: u64,
    /// Entries loaded before their request, because a page embeds them.
    pub ahead: u64,
}

impl std::ops::AddAssign for StoreCounters {
    fn add_assign(&mut self, other: StoreCounters) {
        self.entries += other.entries;
        self.bytes += other.bytes;
        self.bytes_peak += other.bytes_peak;
        self.descriptors += other.descriptors;
        self.evictions += other.evictions;
        self.turned_away += other.turned_away;
        self.ahead += other.ahead;
    }
}

/// Uses of an entry, as views report them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) token: Token,
    pub(crate) times: u32,
}

/// The value of a directory's change counter when a load began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    counter: usize,
    value: u64,
}

#[derive(Debug)]
struct Inner {
    index: HashTable<Slot>,
    places: Vec<Place>,
    free: Slot,
    memory: Box<dyn Eviction>,
    /// The order of entries with descriptors; `None` if one order covers all entries.
    descriptors: Option<Box<dyn Eviction>>,
    live_bytes: u64,
    live_descriptors: u64,
    live: usize,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    Free {
        next: Slot,
    },
    Taken {
        entry: Arc<Entry>,
        bytes: u64,
        descriptors: u64,
        /// `None` until known.
        embeds: Option<Embeds>,
    },
}

/// An entry that left the store; freed after the lock is released.
type Gone = (Arc<Entry>, Option<Embeds>);

/// The references of a page, with their reservation.
#[derive(Debug)]
struct Embeds {
    references: Arc<References>,
    charge: Charge,
}

impl Store {
    pub(crate) fn new(config: &CacheConfig) -> Store {
        Store {
            budget: Budget::new(config.budget.0, config.descriptors_max as u64),
            entries_max: config.entries_max.clamp(1, NONE as usize - 1),
            inner: Mutex::new(Inner {
                index: HashTable::new(),
                places: Vec::new(),
                free: NONE,
                memory: config.policy.eviction(config.budget.0),
                // A page and the files it embeds may be of both kinds, and policies with references keep them together.
                descriptors: (!config.policy.anticipates()).then(|| config.policy.eviction(config.budget.0)),
                live_bytes: 0,
                live_descriptors: 0,
                live: 0,
            }),
            deaths: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            changes: (0..CHANGE_COUNTERS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The live entry of this path.
    pub(crate) fn get(&self, hash: u64, path: &[u8]) -> Option<Arc<Entry>> {
        let inner = self.lock();
        let slot = inner.find(hash, path)?;
        inner.entry(slot).cloned()
    }

    /// Reserves room, evicting as needed. `None`: there is no room now, so the response is served without caching it.
    pub(crate) fn reserve(&self, bytes: u64, descriptors: u64) -> Option<Charge> {
        let largest = self.budget.bytes_limit() / LARGEST_SHARE;
        if bytes > largest || descriptors > self.budget.descriptors_limit() {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let mut gone = Vec::new();
        {
            let mut inner = self.lock();
            let bytes_target = self.budget.bytes_limit() - largest.max(self.budget.bytes_limit() / HEADROOM);
            let free = self.budget.bytes_limit().saturating_sub(self.budget.bytes_used());
            let mut freed = 0;
            // Stop after freeing `bytes` beyond the target: evicted entries may linger in views. Waiting for them would
            // stop all loads, and further evictions would empty the cache for nothing.
            while inner.live_bytes + bytes > bytes_target || (free + freed < bytes && freed < bytes) {
                let Some(bytes) = inner.evict(&mut gone) else {
                    break;
                };
                freed += bytes;
            }
            let limit = self.budget.descriptors_limit();
            let target = limit - limit / HEADROOM;
            while descriptors > 0 && inner.live_descriptors + descriptors > target {
                if inner.evict_descriptor(&mut gone).is_none() {
                    break;
                }
            }
        }
        self.evicted(gone);
        let charge = self.budget.reserve(bytes, descriptors);
        if charge.is_none() {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
        }
        charge
    }

    /// Largest content, in bytes, for which a reservation can succeed.
    pub(crate) fn largest(&self) -> u64 {
        (self.budget.bytes_limit() / LARGEST_SHARE).saturating_sub(4096)
    }

    /// Inserts an entry, replacing any other of its path. If its directory changed since `snapshot`, the entry is
    /// returned but not kept.
    pub(crate) fn insert(&self, draft: Draft, snapshot: Snapshot) -> Arc<Entry> {
        let (mut replaced, mut evicted) = (Vec::new(), Vec::new());
        let entry = {
            let mut inner = self.lock();
            if self.snapshot_of(snapshot.counter) != snapshot {
                return Arc::new(Entry::kept(draft, Token::NONE));
            }
            if let Some(old) = inner.find(draft.hash, &draft.path) {
                inner.forget(old);
                inner.retire(old, &mut replaced);
            }
            while inner.live >= self.entries_max {
                if inner.evict(&mut evicted).is_none() {
                    break;
                }
            }
            inner.place(draft)
        };
        self.bury(replaced);
        self.evicted(evicted);
        entry
    }

    /// Inserts an entry in place of `old`, if `old` is still live.
    pub(crate) fn replace(&self, old: &Entry, draft: Draft) -> Option<Arc<Entry>> {
        let mut gone = Vec::new();
        let entry = {
            let mut inner = self.lock();
            let alive = inner.find(draft.hash, &draft.path).filter(|&slot| {
                inner
                    .entry(slot)
                    .is_some_and(|entry| std::ptr::eq(&raw const **entry, old))
            });
            let slot = alive?;
            inner.forget(slot);
            inner.retire(slot, &mut gone);
            let entry = inner.place(draft);
            // The content is the same, so the references are too.
            if let Some((_, known)) = gone.last_mut()
                && let Some(embeds) = known.take()
            {
                *known = inner.embed(entry.token, embeds).err();
            }
            entry
        };
        self.bury(gone);
        Some(entry)
    }

    /// Sets the references of a live entry. Returns false if the entry is no longer live or its references are already
    /// known.
    pub(crate) fn refer(&self, page: &Entry, references: &Arc<References>, charge: Charge) -> bool {
        let embeds = Embeds {
            references: Arc::clone(references),
            charge,
        };
        // Rejected references are freed after the lock is released.
        let noted = self.lock().embed(page.token, embeds);
        noted.is_ok()
    }

    /// Whether the references of this path's entry are known.
    pub(crate) fn is_referred(&self, page: &Entry) -> bool {
        let inner = self.lock();
        let slot = inner.find(page.hash, &page.path);
        slot.is_some_and(|slot| {
            matches!(
                inner.places[slot as usize].state,
                State::Taken { embeds: Some(_), .. }
            )
        })
    }

    /// Closes about a quarter of the files kept open. Returns whether there were any.
    pub(crate) fn shed_descriptors(&self) -> bool {
        let mut gone = Vec::new();
        {
            let mut inner = self.lock();
            let enough = inner.live_descriptors - inner.live_descriptors / 4;
            while inner.live_descriptors > 0 && inner.live_descriptors >= enough {
                if inner.evict_descriptor(&mut gone).is_none() {
                    break;
                }
            }
        }
        let any = !gone.is_empty();
        self.evicted(gone);
        any
    }

    /// The state that [`Store::insert`] compares with; to be taken before the file is first examined.
    pub(crate) fn snapshot(&self, directory_hash: u64) -> Snapshot {
        self.snapshot_of(directory_hash as usize % CHANGE_COUNTERS)
    }

    fn snapshot_of(&self, counter: usize) -> Snapshot {
        Snapshot {
            counter,
            value: self.changes[counter].load(Ordering::Acquire),
        }
    }

    /// A directory changed: results of loads that began before are not kept.
    pub(crate) fn changed(&self, directory_hash: u64) {
        self.changes[directory_hash as usize % CHANGE_COUNTERS].fetch_add(1, Ordering::AcqRel);
    }

    /// Any directory may have changed.
    pub(crate) fn changed_everywhere(&self) {
        for counter in &self.changes {
            counter.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Removes the entry of this path, because it is outdated. Returns whether there was one.
    pub(crate) fn kill(&self, hash: u64, path: &[u8]) -> bool {
        let mut gone = Vec::new();
        {
            let mut inner = self.lock();
            if let Some(slot) = inner.find(hash, path) {
                inner.forget(slot);
                inner.retire(slot, &mut gone);
            }
        }
        let any = !gone.is_empty();
        self.bury(gone);
        any
    }

    /// Removes this entry, because it is outdated; one that replaced it meanwhile stays.
    pub(crate) fn kill_entry(&self, old: &Entry) {
        let mut gone = Vec::new();
        {
            let mut inner = self.lock();
            let slot = inner.find(old.hash, &old.path).filter(|&slot| {
                inner
                    .entry(slot)
                    .is_some_and(|entry| std::ptr::eq(&raw const **entry, old))
            });
            if let Some(slot) = slot {
                inner.forget(slot);
                inner.retire(slot, &mut gone);
            }
        }
        // If it has left the store already, only views know it.
        old.kill();
        self.bury(gone);
    }

    /// Removes the entries that the predicate picks, because they are outdated. Returns how many.
    pub(crate) fn kill_where(&self, mut stale: impl FnMut(&Entry) -> bool) -> usize {
        let mut gone = Vec::new();
        {
            let mut inner = self.lock();
            for slot in 0..inner.places.len() as Slot {
                if inner.entry(slot).is_some_and(|entry| stale(entry)) {
                    inner.forget(slot);
                    inner.retire(slot, &mut gone);
                }
            }
        }
        let count = gone.len();
        self.bury(gone);
        count
    }

    /// Hands touches to the policy. Returns false if the lock is taken; the caller then keeps them.
    pub(crate) fn apply(&self, touches: &[Touch]) -> bool {
        let mut inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        for touch in touches {
            inner.touch(touch);
        }
        true
    }

    /// Grows whenever an entry dies, so that views know when to check their entries.
    #[inline]
    pub(crate) fn deaths(&self) -> u64 {
        self.deaths.load(Ordering::Acquire)
    }

    pub(crate) fn counters(&self) -> StoreCounters {
        StoreCounters {
            entries: self.lock().live as u64,
            bytes: self.budget.bytes_used(),
            bytes_peak: self.budget.bytes_peak(),
            descriptors: self.budget.descriptors_used(),
            evictions: self.evictions.load(Ordering::Relaxed),
            turned_away: self.turned_away.load(Ordering::Relaxed),
            ahead: self.ahead.load(Ordering::Relaxed),
        }
    }

    /// Counts an entry loaded before its request.
    pub(crate) fn loaded_ahead(&self) {
        self.ahead.fetch_add(1, Ordering::Relaxed);
    }

    /// Frees dead entries, after the lock is released.
    fn bury(&self, gone: Vec<Gone>) {
        if !gone.is_empty() {
            self.deaths.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn evicted(&self, gone: Vec<Gone>) {
        self.evictions.fetch_add(gone.len() as u64, Ordering::Relaxed);
        self.bury(gone);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in another thread leaves at worst an entry that the index does not find.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn find(&self, hash: u64, path: &[u8]) -> Option<Slot> {
        self.index
            .find(hash, |&slot| {
                self.entry(slot)
                    .is_some_and(|entry| entry.hash == hash && *entry.path == *path)
            })
            .copied()
    }

    fn entry(&self, slot: Slot) -> Option<&Arc<Entry>> {
        match &self.places[slot as usize].state {
            State::Taken { entry, .. } => Some(entry),
            State::Free { .. } => None,
        }
    }

    /// The policy that orders an entry. Those with descriptors compete with each other for descriptors, unless one
    /// order covers all entries.
    fn policy(&mut self, descriptors: u64) -> &mut dyn Eviction {
        match &mut self.descriptors {
            Some(own) if descriptors > 0 => &mut **own,
            _ => &mut *self.memory,
        }
    }

    /// Evicts an entry, and those that leave with it, to free memory. Returns their bytes.
    fn evict(&mut self, gone: &mut Vec<Gone>) -> Option<u64> {
        match self.memory.victim() {
            Some(slot) => Some(self.retire_unit(slot, 0, gone)),
            None => self.evict_descriptor(gone),
        }
    }

    /// Evicts an entry, and those that leave with it, to free a descriptor. Returns their bytes.
    fn evict_descriptor(&mut self, gone: &mut Vec<Gone>) -> Option<u64> {
        let slot = self.policy(1).victim()?;
        Some(self.retire_unit(slot, 1, gone))
    }

    /// Retires a victim and those that leave with it. Returns their bytes.
    fn retire_unit(&mut self, victim: Slot, descriptors: u64, gone: &mut Vec<Gone>) -> u64 {
        let mut freed = self.retire(victim, gone);
        while self.policy(descriptors).is_leaving() {
            let Some(slot) = self.policy(descriptors).victim() else {
                break;
            };
            freed += self.retire(slot, gone);
        }
        freed
    }

    /// Makes the policy forget an entry that leaves for another reason than eviction.
    fn forget(&mut self, slot: Slot) {
        if let State::Taken { descriptors, .. } = self.places[slot as usize].state {
            self.policy(descriptors).remove(slot);
        }
    }

    /// Takes an entry that its policy has forgotten out of the index. Returns its bytes.
    fn retire(&mut self, slot: Slot, gone: &mut Vec<Gone>) -> u64 {
        let place = &mut self.places[slot as usize];
        let next = State::Free { next: self.free };
        let State::Taken {
            entry,
            bytes,
            descriptors,
            embeds,
        } = std::mem::replace(&mut place.state, next)
        else {
            debug_assert!(false, "a policy named an empty slot");
            return 0;
        };
        place.generation = place.generation.wrapping_add(1);
        self.free = slot;
        if let Ok(found) = self.index.find_entry(entry.hash, |&other| other == slot) {
            found.remove();
        }
        self.live -= 1;
        self.live_bytes -= bytes;
        self.live_descriptors -= descriptors;
        entry.kill();
        gone.push((entry, embeds));
        bytes
    }

    fn place(&mut self, draft: Draft) -> Arc<Entry> {
        let slot = match self.free {
            NONE => {
                self.places.push(Place {
                    generation: 0,
                    state: State::Free { next: NONE },
                });
                self.places.len() as Slot - 1
            }
            slot => slot,
        };
        let place = &mut self.places[slot as usize];
        if let State::Free { next } = place.state {
            self.free = next;
        }
        let token = Token {
            slot,
            generation: place.generation,
        };
        let bytes = draft.charge.bytes() + draft.content;
        let descriptors = draft.charge.descriptors();
        let hash = draft.hash;
        let entry = Arc::new(Entry::kept(draft, token));
        place.state = State::Taken {
            entry: Arc::clone(&entry),
            bytes,
            descriptors,
            embeds: None,
        };
        let Inner { index, places, .. } = self;
        index.insert_unique(entry.hash, slot, |&slot| match &places[slot as usize].state {
            State::Taken { entry, .. } => entry.hash,
            State::Free { .. } => 0,
        });
        self.live += 1;
        self.live_bytes += bytes;
        self.live_descriptors += descriptors;
        self.policy(descriptors).insert(slot, hash, bytes);
        entry
    }

    /// Sets the references of the entry with this token. Gives them back if the entry is gone or its references are
    /// known.
    fn embed(&mut self, token: Token, given: Embeds) -> Result<(), Embeds> {
        let Some(place) = self.places.get_mut(token.slot as usize) else {
            return Err(given);
        };
        let State::Taken {
            bytes,
            descriptors,
            embeds: embeds @ None,
            ..
        } = &mut place.state
        else {
            return Err(given);
        };
        if place.generation != token.generation {
            return Err(given);
        }
        let more = given.charge.bytes();
        let references = Arc::clone(&given.references);
        let descriptors = *descriptors;
        *bytes += more;
        *embeds = Some(given);
        self.live_bytes += more;
        self.policy(descriptors).refer(token.slot, references.ids());
        Ok(())
    }

    fn touch(&mut self, touch: &Touch) {
        let Some(place) = self.places.get(touch.token.slot as usize) else {
            return;
        };
        if place.generation != touch.token.generation {
            return;
        }
        if let State::Taken { descriptors, .. } = place.state {
            self.policy(descriptors).touch(touch.token.slot, touch.times);
        }
    }
}

#[cfg(test)]
mod tests;
