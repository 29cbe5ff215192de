//! The entries of a dynamic table (RFC 7541 section 4, RFC 9204 section 3.2): a queue within a capacity, newest first.

use std::collections::VecDeque;

/// Bytes an entry counts beyond its name and value (RFC 7541 section 4.1).
pub const OVERHEAD: usize = 32;

/// Entries within a capacity, counted with [`OVERHEAD`].
#[derive(Debug)]
pub struct Table {
    /// Newest first: name and value in one text, and the length of the name.
    entries: VecDeque<(Box<[u8]>, u32)>,
    size: usize,
    capacity: usize,
}

impl Table {
    /// An empty table of this capacity in bytes.
    pub const fn new(capacity: usize) -> Table {
        Table {
            entries: VecDeque::new(),
            size: 0,
            capacity,
        }
    }

    /// Capacity in bytes.
    #[inline]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        let texts: usize = self.entries.iter().map(|(text, _)| text.len()).sum();
        texts + self.entries.capacity() * size_of::<(Box<[u8]>, u32)>()
    }

    /// Bytes in use, counted with [`OVERHEAD`].
    #[inline]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Name and value of each entry, newest first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries
            .iter()
            .map(|(text, name)| text.split_at(*name as usize))
    }

    /// Name and value of an entry; 0 is the newest.
    #[inline]
    pub fn get(&self, at: usize) -> Option<(&[u8], &[u8])> {
        let (text, name) = self.entries.get(at)?;
        Some(text.split_at(*name as usize))
    }

    /// Changes the capacity and evicts what exceeds it.
    pub fn resize(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.evict(capacity);
    }

    /// Removes all entries and gives back their memory.
    pub fn clear(&mut self) {
        (self.entries, self.size) = (VecDeque::new(), 0);
    }

    /// Adds `text`, whose first `name` bytes are the name. An entry above the capacity empties the table (RFC 7541
    /// section 4.4).
    pub fn insert(&mut self, text: &[u8], name: usize) {
        let size = text.len() + OVERHEAD;
        self.evict(self.capacity.saturating_sub(size));
        if size <= self.capacity {
            self.entries.push_front((Box::from(text), name as u32));
            self.size += size;
        }
    }

    /// Evicts the oldest entries until the others have at most `capacity` bytes. An empty table holds no memory.
    pub fn evict(&mut self, capacity: usize) {
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
