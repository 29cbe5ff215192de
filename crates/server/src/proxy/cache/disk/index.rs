//! What is on the disk of a cache: found by target and request fields, limited in bytes and files, evicted by a policy.
//!
//! ```text
//!   begin ─▶ without a file ── written ─▶ with a file ── evicted or dropped ─▶ to be removed ── released
//! ```
//! Bytes count until the file is removed, so the budget holds at every moment.

use super::super::object::Object;
use super::super::record::Record;
use super::{DiskReport, tags_of};
use crate::cache::{Eviction, Policy, Slot};
use http_cache::variant;
use http_semantics::field::Fields;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

/// Most files.
const FILES_MAX: u64 = 65_536;

/// Most targets that are remembered as dropped before all files were found. Above it, no file is used that was not found yet.
const DROPPED_MAX: usize = 4_096;

/// Blocks of a file.
const BLOCK: u64 = 4 << 10;

/// What a file of this length takes.
pub(super) fn rounded(len: u64) -> u64 {
    len.div_ceil(BLOCK).max(1) * BLOCK
}

/// An entry, until another one takes its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Place {
    slot: Slot,
    pub(super) number: u64,
}

/// A response on the disk, or on its way there.
#[derive(Debug)]
pub(in super::super) struct Entry {
    number: u64,
    key: Arc<[u8]>,
    pub(in super::super) names: Vec<String>,
    pub(in super::super) variant: Vec<u8>,
    tags: Box<[u8]>,
    /// Length of the file; `None`: it is not written yet.
    len: Option<u64>,
}

impl Entry {
    pub(super) fn of(number: u64, len: u64, record: Record) -> Entry {
        Entry {
            number,
            tags: tags_of(&record.head),
            key: record.key.into(),
            names: record.names,
            variant: record.variant,
            len: Some(len),
        }
    }
}

#[derive(Debug)]
pub(super) struct Index {
    bytes_max: u64,
    by_key: HashMap<Arc<[u8]>, Vec<Slot>>,
    entries: Vec<Option<Entry>>,
    free: Vec<Slot>,
    policy: Box<dyn Eviction>,
    hasher: RandomState,
    next: u64,
    files: u64,
    used: u64,
    peak: u64,
    /// Numbers and sizes of files to be removed.
    unlinks: Vec<(u64, u64)>,
    unfound: Option<Unfound>,
}

/// While files of an earlier process may not have been found: what must not be taken from them.
#[derive(Debug, Default)]
struct Unfound {
    is_numbered: bool,
    dropped: HashSet<Box<[u8]>>,
    drops_all: bool,
}

impl Index {
    pub(super) fn new(bytes_max: u64, policy: Policy) -> Index {
        Index {
            bytes_max,
            by_key: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            policy: policy.eviction(bytes_max),
            hasher: RandomState::new(),
            next: 0,
            files: 0,
            used: 0,
            peak: 0,
            unlinks: Vec::new(),
            unfound: Some(Unfound::default()),
        }
    }

    /// The files were listed: new ones get numbers from this one on.
    pub(super) fn number_from(&mut self, next: u64) {
        self.next = next;
        if let Some(unfound) = &mut self.unfound {
            unfound.is_numbered = true;
        }
    }

    /// All files were found.
    pub(super) fn is_complete(&mut self) {
        self.unfound = None;
    }

    pub(super) fn report(&self) -> DiskReport {
        DiskReport {
            entries: (self.entries.len() - self.free.len()) as u64,
            bytes: self.used,
            bytes_peak: self.peak,
            bytes_max: self.bytes_max,
        }
    }

    /// The newest response with a file that matches a request.
    pub(super) fn find(&mut self, key: &[u8], request: &Fields<'_, '_>) -> Option<Place> {
        let slots = self.by_key.get(key)?;
        let slot = slots.iter().rev().copied().find(|&slot| {
            self.entries[slot as usize].as_ref().is_some_and(|entry| {
                entry.len.is_some() && variant::key(&entry.names, request) == entry.variant
            })
        })?;
        self.policy.touch(slot, 1);
        let number = self.entries[slot as usize].as_ref()?.number;
        Some(Place { slot, number })
    }

    fn at(&self, place: Place) -> Option<&Entry> {
        let entry = self.entries.get(place.slot as usize)?.as_ref()?;
        (entry.number == place.number).then_some(entry)
    }

    /// Whether the entry was not dropped or replaced.
    pub(super) fn is_current(&self, place: Place) -> bool {
        self.at(place).is_some()
    }

    /// Length of the file of an entry, and whether a record from there is that of the entry.
    pub(super) fn expected(&self, place: Place) -> Option<(u64, impl Fn(&Record) -> bool + use<>)> {
        let entry = self.at(place)?;
        let (key, names, variant) = (Arc::clone(&entry.key), entry.names.clone(), entry.variant.clone());
        let is_its =
            move |record: &Record| *record.key == *key && record.names == names && record.variant == variant;
        Some((entry.len?, is_its))
    }

    /// Replaces an entry by one that is to be written. `None`: the folder is not open.
    pub(super) fn begin(&mut self, object: &Object) -> Option<Place> {
        self.drop_same(&object.key, &object.names, &object.variant);
        if self.unfound.as_ref().is_some_and(|unfound| !unfound.is_numbered) {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let slot = self.place(Entry {
            number,
            key: Arc::clone(&object.key),
            names: object.names.clone(),
            variant: object.variant.clone(),
            tags: tags_of(&object.head),
            len: None,
        });
        Some(Place { slot, number })
    }

    fn place(&mut self, entry: Entry) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as Slot
        });
        self.by_key.entry(Arc::clone(&entry.key)).or_default().push(slot);
        self.entries[slot as usize] = Some(entry);
        slot
    }

    fn drop_same(&mut self, key: &[u8], names: &[String], variant: &[u8]) {
        self.remove_where(key, |entry| entry.names == names && entry.variant == variant);
    }

    /// The file of an entry is written.
    pub(super) fn written(&mut self, place: Place, len: u64) {
        if !self.is_current(place) {
            return self.unlinks.push((place.number, rounded(len)));
        }
        if let Some(entry) = &mut self.entries[place.slot as usize] {
            entry.len = Some(len);
            let id = self.hasher.hash_one((&entry.key, &entry.variant));
            self.policy.insert(place.slot, id, rounded(len));
        }
    }

    /// Takes an entry whose file was found.
    pub(super) fn admit(&mut self, entry: Entry) {
        let len = entry.len.unwrap_or(0);
        let is_dropped = self
            .unfound
            .as_ref()
            .is_none_or(|unfound| unfound.drops_all || unfound.dropped.contains(&entry.key[..]));
        let slots = self.by_key.get(&entry.key);
        let is_outdated = slots.into_iter().flatten().any(|&slot| {
            let other = self.entries[slot as usize].as_ref();
            other.is_some_and(|other| {
                other.number > entry.number && other.names == entry.names && other.variant == entry.variant
            })
        });
        if is_dropped || is_outdated {
            return self.leave(entry.number, len);
        }
        self.drop_same(&entry.key.clone(), &entry.names, &entry.variant);
        let id = self.hasher.hash_one((&entry.key, &entry.variant));
        let slot = self.place(entry);
        self.policy.insert(slot, id, rounded(len));
        self.occupy(rounded(len));
    }

    /// A file was found that is not used.
    pub(super) fn leave(&mut self, number: u64, len: u64) {
        self.occupy(rounded(len));
        self.unlinks.push((number, rounded(len)));
    }

    fn occupy(&mut self, size: u64) {
        self.files += 1;
        self.used += size;
        self.peak = self.peak.max(self.used);
    }

    /// Occupies room for a file. `false`: there is none.
    pub(super) fn reserve(&mut self, size: u64) -> bool {
        let fits = self.files < FILES_MAX && self.used + size <= self.bytes_max;
        if fits {
            self.occupy(size);
        }
        fits
    }

    /// A file is gone.
    pub(super) fn released(&mut self, size: u64) {
        self.files -= 1;
        self.used -= size;
    }

    /// Whether there is room once the files to be removed are.
    pub(super) fn has_room(&self, size: u64) -> bool {
        let leaving: u64 = self.unlinks.iter().map(|(_, size)| size).sum();
        let files = self.files - self.unlinks.len() as u64;
        let is_new = u64::from(size > 0);
        files + is_new <= FILES_MAX && self.used - leaving + size <= self.bytes_max
    }

    /// Evicts until there is room for a file of this size; 0: until the budget holds. Returns how many were evicted.
    pub(super) fn evict_to_fit(&mut self, size: u64) -> u64 {
        let mut count = 0;
        if size > self.bytes_max {
            return count;
        }
        while !self.has_room(size) {
            let Some(slot) = self.policy.victim() else { break };
            self.take(slot);
            count += 1;
            while self.policy.is_leaving() {
                let Some(slot) = self.policy.victim() else { break };
                self.take(slot);
                count += 1;
            }
        }
        count
    }

    /// The files to be removed.
    pub(super) fn take_unlinks(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.unlinks)
    }

    /// Drops an entry that gets no file.
    pub(super) fn forget(&mut self, place: Place) {
        self.drop_at(place);
    }

    /// Drops an entry.
    pub(super) fn drop_at(&mut self, place: Place) {
        if self.is_current(place) {
            self.remove(place.slot);
        }
    }

    /// Drops the entries of a target that the predicate picks, found or not. Returns how many were found.
    pub(super) fn drop_where(&mut self, key: &[u8], is_picked: impl Fn(&Entry) -> bool) -> usize {
        if let Some(unfound) = &mut self.unfound {
            match unfound.dropped.len() < DROPPED_MAX {
                true => drop(unfound.dropped.insert(key.into())),
                false => unfound.drops_all = true,
            }
        }
        self.remove_where(key, is_picked)
    }

    /// Drops the entries that the predicate picks by key and tags. Returns how many.
    pub(super) fn drop_all(&mut self, is_picked: impl Fn(&[u8], &[u8]) -> bool) -> usize {
        let entries = self.entries.iter().enumerate();
        let picked = entries.filter(|(_, entry)| {
            let entry = entry.as_ref();
            entry.is_some_and(|entry| is_picked(&entry.key, &entry.tags))
        });
        let slots: Vec<Slot> = picked.map(|(slot, _)| slot as Slot).collect();
        for &slot in &slots {
            self.remove(slot);
        }
        slots.len()
    }

    fn remove_where(&mut self, key: &[u8], is_picked: impl Fn(&Entry) -> bool) -> usize {
        let slots = self.by_key.get(key).cloned().unwrap_or_default();
        let mut count = 0;
        for slot in slots {
            if self.entries[slot as usize].as_ref().is_some_and(&is_picked) {
                self.remove(slot);
                count += 1;
            }
        }
        count
    }

    /// Removes an entry for another reason than eviction.
    fn remove(&mut self, slot: Slot) {
        if self.entries[slot as usize]
            .as_ref()
            .is_some_and(|entry| entry.len.is_some())
        {
            self.policy.remove(slot);
        }
        self.take(slot);
    }

    /// Removes an entry that the policy does not know any more.
    fn take(&mut self, slot: Slot) {
        let Some(entry) = self.entries[slot as usize].take() else {
            return;
        };
        self.free.push(slot);
        if let Some(slots) = self.by_key.get_mut(&entry.key) {
            slots.retain(|&other| other != slot);
            if slots.is_empty() {
                self.by_key.remove(&entry.key);
            }
        }
        if let Some(len) = entry.len {
            self.unlinks.push((entry.number, rounded(len)));
        }
    }
}
