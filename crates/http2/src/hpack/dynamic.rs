//! The dynamic table (RFC 7541 sections 2.3.2 and 4), the same at both ends of one direction.

use super::tables::STATIC;
use std::collections::VecDeque;

/// SETTINGS_HEADER_TABLE_SIZE before the first SETTINGS (RFC 9113 section 6.5.2).
pub(super) const INITIAL: usize = 4096;

/// Overhead of an entry (RFC 7541 section 4.1).
pub(super) const OVERHEAD: usize = 32;

/// Where both tables hold a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The index of name and value.
    Field(usize),
    /// The index of an entry with this name and another value.
    Name(usize),
}

/// Entries within a capacity. Indexes count from 1 and include the static table.
#[derive(Debug)]
pub(super) struct Dynamic {
    /// Newest first: name and value in one text, and the length of the name.
    entries: VecDeque<(Box<[u8]>, u32)>,
    size: usize,
    capacity: usize,
}

impl Dynamic {
    pub(super) fn new(capacity: usize) -> Dynamic {
        Dynamic {
            entries: VecDeque::new(),
            size: 0,
            capacity,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        let texts: usize = self.entries.iter().map(|(text, _)| text.len()).sum();
        texts + self.entries.capacity() * size_of::<(Box<[u8]>, u32)>()
    }

    /// The entries, newest first, and their size by RFC 7541 section 4.1.
    #[cfg(any(test, fuzzing))]
    pub(super) fn entries(&self) -> (impl Iterator<Item = (&[u8], &[u8])>, usize) {
        let entries = self.entries.iter();
        (
            entries.map(|(text, name)| text.split_at(*name as usize)),
            self.size,
        )
    }

    /// The field at this index of both tables.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let at = index.checked_sub(1)?;
        if let Some(&entry) = STATIC.get(at) {
            return Some(entry);
        }
        let (text, name) = self.entries.get(at - STATIC.len())?;
        Some(text.split_at(*name as usize))
    }

    /// The lowest index with this name and value, otherwise with this name.
    pub(super) fn find(&self, name: &[u8], value: &[u8]) -> Option<Found> {
        let dynamic = self
            .entries
            .iter()
            .map(|(text, name)| text.split_at(*name as usize));
        let mut named = None;
        for (at, entry) in STATIC.iter().copied().chain(dynamic).enumerate() {
            if entry == (name, value) {
                return Some(Found::Field(at + 1));
            }
            if named.is_none() && entry.0 == name {
                named = Some(Found::Name(at + 1));
            }
        }
        named
    }

    /// Changes the capacity and evicts what exceeds it (section 4.3).
    pub(super) fn resize(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.evict(capacity);
    }

    /// Removes all entries and gives back their memory.
    pub(super) fn clear(&mut self) {
        (self.entries, self.size) = (VecDeque::new(), 0);
    }

    /// Adds `text`, whose first `name` bytes are the name. An entry above the capacity empties the table (section 4.4).
    pub(super) fn insert(&mut self, text: &[u8], name: usize) {
        let size = text.len() + OVERHEAD;
        self.evict(self.capacity.saturating_sub(size));
        if size <= self.capacity {
            self.entries.push_front((Box::from(text), name as u32));
            self.size += size;
        }
    }

    /// Evicts the oldest entries until the others have at most `capacity` bytes. An empty table holds no memory.
    pub(super) fn evict(&mut self, capacity: usize) {
        while self.size > capacity {
            let Some((text, _)) = self.entries.pop_back() else {
                return;
            };
            self.size -= text.len() + OVERHEAD;
        }
        if capacity == 0 {
            self.clear();
        }
    }
}
