//! The flow table: assigns packets to connections, and evicts connections at the limit.
//!
//! Live connections are in a list ordered by their last packet; finished ones are in a second list. When the table is
//! full, the connection finished longest ago is evicted first, then the one silent longest. Each is reported in full,
//! so memory is bounded and no connection disappears unreported.

use crate::packet::Endpoint;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use units::Instant;

const NONE: u32 = u32::MAX;

type Key = (Endpoint, Endpoint);

/// What a table holds, one for each pair of ends.
pub(crate) trait Tracked {
    /// Client and server.
    fn ends(&self) -> (Endpoint, Endpoint);

    /// Time of the last packet.
    fn last_at(&self) -> Instant;

    /// Whether it is finished.
    fn is_over(&self) -> bool;
}

fn key(a: Endpoint, b: Endpoint) -> Key {
    if a <= b { (a, b) } else { (b, a) }
}

#[derive(Debug)]
struct Slot<F> {
    flow: Box<F>,
    key: Key,
    list: List,
    before: u32,
    after: u32,
}

/// List that contains a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Live = 0,
    Over = 1,
}

#[derive(Debug)]
pub(crate) struct Table<F> {
    slots: Vec<Option<Slot<F>>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
    /// Oldest and newest slot of each list.
    ends: [(u32, u32); 2],
    /// The slot found last: packets come in bursts of one connection.
    recent: u32,
}

impl<F: Tracked> Table<F> {
    pub(crate) fn new() -> Table<F> {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: foldhash::fast::RandomState::default(),
            ends: [(NONE, NONE); 2],
            recent: NONE,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// The slot of the connection between two ends.
    #[inline]
    pub(crate) fn find(&mut self, from: Endpoint, to: Endpoint) -> Option<u32> {
        let key = key(from, to);
        if let Some(Some(slot)) = self.slots.get(self.recent as usize)
            && slot.key == key
        {
            return Some(self.recent);
        }
        let hash = self.hasher.hash_one(key);
        let slots = &self.slots;
        let found = *self.index.find(hash, |i| {
            slots[*i as usize].as_ref().is_some_and(|s| s.key == key)
        })?;
        self.recent = found;
        Some(found)
    }

    pub(crate) fn insert(&mut self, flow: F) -> u32 {
        let (client, server) = flow.ends();
        let key = key(client, server);
        let slot = Slot {
            flow: Box::new(flow),
            key,
            list: List::Live,
            before: NONE,
            after: NONE,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = Some(slot);
                at
            }
            None => {
                self.slots.push(Some(slot));
                (self.slots.len() - 1) as u32
            }
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        let rehash = |i: &u32| slots[*i as usize].as_ref().map_or(0, |s| hasher.hash_one(s.key));
        self.index.insert_unique(hasher.hash_one(key), at, rehash);
        self.link(at, List::Live);
        self.recent = at;
        at
    }

    #[inline]
    pub(crate) fn flow(&mut self, at: u32) -> Option<&mut F> {
        self.slots
            .get_mut(at as usize)?
            .as_mut()
            .map(|slot| &mut *slot.flow)
    }

    /// Moves a connection to the newest end of its list after a packet.
    #[inline]
    pub(crate) fn touch(&mut self, at: u32) {
        let Some(Some(slot)) = self.slots.get(at as usize) else {
            return;
        };
        let list = if slot.flow.is_over() {
            List::Over
        } else {
            List::Live
        };
        // A finished connection keeps its place: late packets do not prolong its stay.
        if slot.list == list && (list == List::Over || self.ends[list as usize].1 == at) {
            return;
        }
        self.unlink(at);
        self.link(at, list);
    }

    /// The oldest slot of a list and the time of its last packet.
    #[inline]
    pub(crate) fn oldest(&self, list: List) -> Option<(u32, Instant)> {
        let at = self.ends[list as usize].0;
        let slot = self.slots.get(at as usize)?.as_ref()?;
        Some((at, slot.flow.last_at()))
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<F> {
        self.slots.get(at as usize)?.as_ref()?;
        self.unlink(at);
        let slot = self.slots[at as usize].take()?;
        let hash = self.hasher.hash_one(slot.key);
        if let Ok(entry) = self.index.find_entry(hash, |i| *i == at) {
            entry.remove();
        }
        self.free.push(at);
        if self.recent == at {
            self.recent = NONE;
        }
        Some(*slot.flow)
    }

    fn link(&mut self, at: u32, list: List) {
        let newest = self.ends[list as usize].1;
        if let Some(Some(slot)) = self.slots.get_mut(at as usize) {
            slot.list = list;
            slot.before = newest;
            slot.after = NONE;
        }
        match self.slots.get_mut(newest as usize) {
            Some(Some(slot)) => slot.after = at,
            _ => self.ends[list as usize].0 = at,
        }
        self.ends[list as usize].1 = at;
    }

    fn unlink(&mut self, at: u32) {
        let Some(Some(slot)) = self.slots.get(at as usize) else {
            return;
        };
        let (list, before, after) = (slot.list, slot.before, slot.after);
        match self.slots.get_mut(before as usize) {
            Some(Some(slot)) => slot.after = after,
            _ => self.ends[list as usize].0 = after,
        }
        match self.slots.get_mut(after as usize) {
            Some(Some(slot)) => slot.before = before,
            _ => self.ends[list as usize].1 = before,
        }
    }
}
