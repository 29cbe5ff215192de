//! Cache simulation: runs every policy of this server over recorded requests, and compares the results with bounds that
//! no policy can exceed.
//!
//! ```text
//!  requests, sizes, references ──▶ Trace ──┬──▶ simulate: the policies' own code, no time, no content
//!                                          └──▶ bound: infinite room, and hindsight
//! ```
//!
//! The simulated cache holds whole objects, each of which takes its size plus a fixed overhead. Objects larger than the
//! cache are not kept. Uses reach the policy one by one (the server reports them in batches). This module does not know
//! where requests come from, or the content of objects. [`shared`] simulates the cache of `[[proxy]]` instead.

pub mod bound;
mod objects;
pub mod shared;
#[cfg(test)]
mod tests;

pub use objects::{Kind, Known, classify, look, resolve};

use crate::cache::{Policy, UNIT_SHARE};
use crate::references;

/// A sequence of requests for objects.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The objects, by number.
    pub objects: Vec<Object>,
    /// Numbers of the requested objects, in order.
    pub requests: Vec<u32>,
}

/// An object of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Length of its content in bytes.
    pub size: u64,
    /// Numbers of the objects it embeds.
    pub references: Vec<u32>,
}

impl Trace {
    /// Bytes of all objects together.
    pub fn distinct_bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.size).sum()
    }

    /// Bytes of all requests together.
    pub fn requested_bytes(&self) -> u64 {
        self.requests
            .iter()
            .map(|&number| self.objects[number as usize].size)
            .sum()
    }
}

/// Capacity of a simulated cache, and how objects count against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// In bytes, or in objects if `cost` is [`Cost::One`].
    pub capacity: u64,
    /// How an object counts.
    pub cost: Cost,
}

/// How much of the capacity an object takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Its size plus a fixed overhead.
    Bytes {
        /// Bytes in addition to the content.
        overhead: u64,
    },
    /// One, whatever its size: the capacity is a number of objects.
    One,
}

impl Cost {
    pub(crate) fn of(self, object: &Object) -> u64 {
        match self {
            Cost::Bytes { overhead } => object.size.saturating_add(overhead),
            Cost::One => 1,
        }
    }
}

/// The result of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Requests for objects in the cache.
    pub hits: u64,
    /// Bytes of these requests.
    pub hit_bytes: u64,
    /// Objects loaded on demand.
    pub misses: u64,
    /// Bytes of these objects.
    pub miss_bytes: u64,
    /// Objects loaded before their request, because a page embeds them.
    pub ahead: u64,
    /// Bytes of these objects.
    pub ahead_bytes: u64,
    /// Objects evicted.
    pub evictions: u64,
}

impl Outcome {
    /// Number of objects loaded: the reads a disk would see.
    pub fn loads(&self) -> u64 {
        self.misses + self.ahead
    }

    /// Bytes loaded in all.
    pub fn loaded_bytes(&self) -> u64 {
        self.miss_bytes + self.ahead_bytes
    }
}

/// Runs a policy over a trace.
pub fn simulate(trace: &Trace, policy: Policy, room: Room) -> Outcome {
    let mut cache = Cache {
        trace,
        room,
        policy: policy.eviction(room.capacity),
        slot_of: vec![NOWHERE; trace.objects.len()],
        held: Vec::new(),
        free: Vec::new(),
        used: 0,
        outcome: Outcome::default(),
    };
    for &number in &trace.requests {
        let object = &trace.objects[number as usize];
        match cache.slot_of[number as usize] {
            NOWHERE => {
                cache.outcome.misses += 1;
                cache.outcome.miss_bytes += object.size;
                cache.load(number, policy.anticipates());
            }
            slot => {
                cache.outcome.hits += 1;
                cache.outcome.hit_bytes += object.size;
                cache.policy.touch(slot, 1);
            }
        }
        if policy.anticipates() && !object.references.is_empty() {
            cache.anticipate(number);
        }
        debug_assert!(cache.used <= room.capacity);
    }
    cache.outcome
}

const NOWHERE: u32 = u32::MAX;

/// A cache of object numbers.
struct Cache<'t> {
    trace: &'t Trace,
    room: Room,
    policy: Box<dyn crate::cache::Eviction>,
    slot_of: Vec<u32>,
    /// The object in each slot.
    held: Vec<u32>,
    free: Vec<u32>,
    used: u64,
    outcome: Outcome,
}

impl Cache<'_> {
    /// Loads an object, evicting others if necessary. Returns false if it is larger than the cache.
    fn load(&mut self, number: u32, refers: bool) -> bool {
        let object = &self.trace.objects[number as usize];
        let cost = self.room.cost.of(object);
        if cost > self.room.capacity {
            return false;
        }
        while self.used + cost > self.room.capacity {
            let Some(slot) = self.policy.victim() else { break };
            self.leave(slot);
            while self.policy.is_leaving() {
                let Some(slot) = self.policy.victim() else { break };
                self.leave(slot);
            }
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.held.push(NOWHERE);
            self.held.len() as u32 - 1
        });
        self.held[slot as usize] = number;
        self.slot_of[number as usize] = slot;
        self.used += cost;
        self.policy.insert(slot, u64::from(number), cost);
        if refers && !object.references.is_empty() {
            let references: Vec<u64> = object.references.iter().map(|&other| u64::from(other)).collect();
            self.policy.refer(slot, &references);
        }
        true
    }

    fn leave(&mut self, slot: u32) {
        let number = std::mem::replace(&mut self.held[slot as usize], NOWHERE);
        self.slot_of[number as usize] = NOWHERE;
        self.used -= self.room.cost.of(&self.trace.objects[number as usize]);
        self.free.push(slot);
        self.outcome.evictions += 1;
    }

    /// Loads the files a page embeds, within the server's limits.
    fn anticipate(&mut self, page: u32) {
        let trace = self.trace;
        let mut spent = 0;
        for &part in &trace.objects[page as usize].references {
            let is_held = self.slot_of[page as usize] != NOWHERE;
            if !is_held || spent > self.room.capacity / UNIT_SHARE {
                return;
            }
            if self.slot_of[part as usize] == NOWHERE && self.load(part, false) {
                let object = &trace.objects[part as usize];
                spent += self.room.cost.of(object);
                self.outcome.ahead += 1;
                self.outcome.ahead_bytes += object.size;
            }
        }
    }
}

/// Maximum number of references per object that are used.
pub const REFERENCES_MAX: usize = references::Limits::DEFAULT.references_max;
