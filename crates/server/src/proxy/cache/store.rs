//! The stored responses of a cache: found by target and request fields, limited in bytes, evicted by a policy.
//!
//! One mutex guards index and policy; it is never held while memory of content is freed. A reservation comes before the
//! memory (`crate::cache::Budget`), so evicted content that is still being sent stays counted.

use super::object::Object;
use crate::cache::{Budget, Charge, Eviction, Policy, Slot};
use http_cache::variant;
use http_semantics::field::Fields;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Most stored responses of one target. Above it, the oldest is dropped.
pub(super) const VARIANTS_MAX: usize = 32;

/// Most stored responses whose content is in a file in memory. Each takes a descriptor.
pub(super) const FILES_MAX: u64 = 256;

/// The stored responses.
#[derive(Debug)]
pub(super) struct Store {
    budget: Arc<Budget>,
    inner: Mutex<Inner>,
    hasher: RandomState,
    evictions: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    /// Slots of a target, the oldest first.
    index: HashMap<Arc<[u8]>, Vec<Slot>>,
    slots: Vec<Option<Arc<Object>>>,
    free: Vec<Slot>,
    policy: Box<dyn Eviction>,
}

/// What is stored for a request.
#[derive(Clone, Debug)]
pub(super) enum Lookup {
    Found(Arc<Object>),
    /// What is stored was chosen by other request fields.
    OtherVariant,
    /// What is stored is a part that does not have the range.
    OtherPart,
    Nothing,
}

impl Store {
    pub(super) fn new(bytes: u64, policy: Policy) -> Store {
        Store {
            budget: Budget::new(bytes, FILES_MAX),
            inner: Mutex::new(Inner {
                index: HashMap::new(),
                slots: Vec::new(),
                free: Vec::new(),
                policy: policy.eviction(bytes),
            }),
            hasher: RandomState::new(),
            evictions: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest stored response that matches a request.
    pub(super) fn find(&self, key: &[u8], request: &Fields<'_, '_>) -> Lookup {
        let mut inner = self.lock();
        let Some(slots) = inner.index.get(key) else {
            return Lookup::Nothing;
        };
        let mut missed = Lookup::OtherVariant;
        let mut part = None;
        for &slot in slots.iter().rev() {
            let Some(object) = &inner.slots[slot as usize] else {
                continue;
            };
            if !matches(object, request) {
                continue;
            }
            if object.part.is_none() {
                part = Some((slot, Arc::clone(object)));
                break;
            }
            match object.answers(request) {
                true if part.is_none() => part = Some((slot, Arc::clone(object))),
                true => {}
                false => missed = Lookup::OtherPart,
            }
        }
        match part {
            Some((slot, object)) => {
                inner.policy.touch(slot, 1);
                Lookup::Found(object)
            }
            None => missed,
        }
    }

    /// The names of the request fields that chose the newest response of a target.
    pub(super) fn names(&self, key: &[u8]) -> Vec<String> {
        let inner = self.lock();
        let newest = inner.index.get(key).and_then(|slots| slots.last());
        let object = newest.and_then(|&slot| inner.slots[slot as usize].as_ref());
        object.map(|object| object.names.clone()).unwrap_or_default()
    }

    /// Reserves room, evicting as needed. `None`: what is evicted is still being sent, or the room is larger than the budget.
    pub(super) fn reserve(&self, bytes: u64) -> Option<Charge> {
        if bytes > self.budget.bytes_limit() {
            return None;
        }
        loop {
            if let Some(charge) = self.budget.reserve(bytes, 0) {
                return Some(charge);
            }
            // Dropped without the lock: content is freed here.
            let gone = self.lock().evict();
            if gone.is_empty() {
                return None;
            }
            self.evictions.fetch_add(gone.len() as u64, Ordering::Relaxed);
        }
    }

    /// As [`Store::reserve`], with a descriptor. `None` also if no descriptor is left; nothing is evicted for that.
    pub(super) fn reserve_file(&self, bytes: u64) -> Option<Charge> {
        let mut charge = self.budget.reserve(0, 1)?;
        charge.join(self.reserve(bytes)?);
        Some(charge)
    }

    /// Stores a response in place of another with the same head and content, of which the policy learns nothing. `None`: that
    /// one is not stored any more.
    pub(super) fn exchange(&self, older: &Object, object: Object) -> Option<Arc<Object>> {
        let object = Arc::new(object);
        let mut inner = self.lock();
        let slot = older.standing.slot();
        let place = inner.slots.get_mut(slot as usize)?.as_mut()?;
        if !std::ptr::eq(&raw const **place, older) {
            return None;
        }
        object.standing.enter(slot);
        // What another response of the target may answer, it may still answer.
        if older.standing.is_outdated() {
            object.standing.outdate();
        }
        older.standing.outdate();
        let gone = std::mem::replace(place, Arc::clone(&object));
        drop(inner);
        drop(gone);
        Some(object)
    }

    /// Stores a response that was read from a disk, unless there is one for the same request fields.
    pub(super) fn restore(&self, object: Object) {
        let is_there = {
            let inner = self.lock();
            let slots = inner.index.get(&object.key);
            slots.into_iter().flatten().any(|&slot| {
                inner.slots[slot as usize].as_ref().is_some_and(|other| {
                    other.part.is_none() && other.names == object.names && other.variant == object.variant
                })
            })
        };
        if !is_there {
            self.insert(object);
        }
    }

    /// Stores a response in place of the one for the same request fields and the same kind of content.
    pub(super) fn insert(&self, object: Object) -> Arc<Object> {
        let object = Arc::new(object);
        let id = self.hasher.hash_one((&object.key, &object.variant));
        let size = object.body.len() as u64 + Object::cost(&object.key, &object.head, &object.variant);
        let mut gone = Vec::new();
        {
            let mut inner = self.lock();
            let same = |other: &Object| {
                other.names == object.names
                    && other.variant == object.variant
                    && other.part.is_some() == object.part.is_some()
            };
            inner.remove_where(&object.key, same, &mut gone);
            let slots = inner.index.get(&object.key).map_or(0, Vec::len);
            if slots >= VARIANTS_MAX
                && let Some(oldest) = inner
                    .index
                    .get(&object.key)
                    .and_then(|slots| slots.first().copied())
            {
                gone.extend(inner.remove(oldest));
            }
            let slot = inner.free.pop().unwrap_or_else(|| {
                inner.slots.push(None);
                (inner.slots.len() - 1) as Slot
            });
            inner.outdate(&object);
            object.standing.enter(slot);
            inner.slots[slot as usize] = Some(Arc::clone(&object));
            inner.index.entry(Arc::clone(&object.key)).or_default().push(slot);
            inner.policy.insert(slot, id, size);
        }
        object
    }

    /// Tells the policy that a response was used this often, if the store still has it. `false`: another thread has the
    /// store; the policy is to be told later.
    pub(super) fn touch(&self, object: &Object, times: u32) -> bool {
        let mut inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let slot = object.standing.slot();
        let known = inner.slots.get(slot as usize).and_then(Option::as_ref);
        if known.is_some_and(|known| std::ptr::eq(&raw const **known, object)) {
            inner.policy.touch(slot, times);
        }
        true
    }

    /// Removes this response, unless another replaced it.
    pub(super) fn remove(&self, object: &Arc<Object>) {
        let mut gone = Vec::new();
        let is_it = |other: &Object| std::ptr::eq(other, &raw const **object) || other.is_like(object);
        self.lock().remove_where(&object.key, is_it, &mut gone);
    }

    /// Removes all responses of a target. Returns how many there were.
    pub(super) fn remove_target(&self, key: &[u8]) -> usize {
        let mut gone = Vec::new();
        self.lock().remove_where(key, |_| true, &mut gone);
        gone.len()
    }

    /// Removes the responses that the predicate picks. Returns how many.
    pub(super) fn remove_all(&self, mut is_picked: impl FnMut(&Object) -> bool) -> usize {
        let mut inner = self.lock();
        let slots: Vec<Slot> = inner
            .slots
            .iter()
            .enumerate()
            .filter(|(_, object)| object.as_ref().is_some_and(|object| is_picked(object)))
            .map(|(slot, _)| slot as Slot)
            .collect();
        let gone: Vec<Arc<Object>> = slots.into_iter().filter_map(|slot| inner.remove(slot)).collect();
        drop(inner);
        gone.len()
    }

    /// Files in memory.
    #[cfg(test)]
    pub(super) fn files(&self) -> u64 {
        self.budget.descriptors_used()
    }

    /// Stored responses, bytes reserved, most bytes reserved at once, and evictions.
    pub(super) fn figures(&self) -> [u64; 4] {
        let inner = self.lock();
        let entries = inner.slots.len() - inner.free.len();
        [
            entries as u64,
            self.budget.bytes_used(),
            self.budget.bytes_peak(),
            self.evictions.load(Ordering::Relaxed),
        ]
    }
}

/// Whether a request has the fields that chose a response.
fn matches(object: &Object, request: &Fields<'_, '_>) -> bool {
    if variant::key(&object.names, request) == object.variant {
        return true;
    }
    is_by_language(object) && {
        let lines = object.head.lines();
        let language = Fields::new(&lines).find("content-language");
        language.is_some_and(|language| variant::is_preferred_language(request, language))
    }
}

/// Whether only the languages that a request accepts chose a response.
fn is_by_language(object: &Object) -> bool {
    matches!(&object.names[..], [name] if name == "accept-language")
}

impl Inner {
    /// Evicts what the policy picks next.
    fn evict(&mut self) -> Vec<Arc<Object>> {
        let mut gone = Vec::new();
        while let Some(slot) = self.policy.victim() {
            gone.extend(self.take(slot));
            if !self.policy.is_leaving() {
                break;
            }
        }
        gone
    }

    fn remove_where(&mut self, key: &[u8], is_picked: impl Fn(&Object) -> bool, gone: &mut Vec<Arc<Object>>) {
        let slots = self.index.get(key).cloned().unwrap_or_default();
        for slot in slots {
            if self.slots[slot as usize]
                .as_ref()
                .is_some_and(|object| is_picked(object))
            {
                gone.extend(self.remove(slot));
            }
        }
    }

    /// Outdates the responses of the target that answer requests which this newer one may answer, too. Of those that the
    /// same fields chose, a request matches one, except for a preferred language. A part answers no request that a whole
    /// response answers.
    fn outdate(&self, newer: &Object) {
        let slots = self.index.get(&newer.key).into_iter().flatten();
        for older in slots.filter_map(|&slot| self.slots[slot as usize].as_ref()) {
            if newer.part.is_none() && (older.names != newer.names || is_by_language(newer)) {
                older.standing.outdate();
            }
        }
    }

    /// Removes a response for another reason than eviction.
    fn remove(&mut self, slot: Slot) -> Option<Arc<Object>> {
        self.policy.remove(slot);
        self.take(slot)
    }

    /// Removes a response that the policy has forgotten.
    fn take(&mut self, slot: Slot) -> Option<Arc<Object>> {
        let object = self.slots[slot as usize].take()?;
        object.standing.outdate();
        self.free.push(slot);
        if let Some(slots) = self.index.get_mut(&object.key) {
            slots.retain(|&other| other != slot);
            if slots.is_empty() {
                self.index.remove(&object.key);
            }
        }
        Some(object)
    }
}
