//! Least frequently used, with decaying counts, in constant time.
//!
//! There is one chain per count up to [`LEVELS`]. The victim is the least recently used entry with the lowest count.
//! After an average of [`FADE_AFTER`] touches per entry, all counts are halved, so that entries of past popularity
//! leave. Halving joins two chains into one at each level; an entry's own count is corrected when it is next used.
//! (Aging by halving as in W-TinyLFU's sketch; the chain per count after Shah, Mitra and Matani, "An O(1) algorithm for
//! implementing the LFU".)

use super::Eviction;
use super::chain::{Chain, Link, Linked, Slot};

/// Number of chains; counts go up to one less.
const LEVELS: usize = 64;

/// Average number of touches per entry between two halvings.
const FADE_AFTER: u64 = 8;

/// The policy `lfu`; see the module.
#[derive(Debug)]
pub(crate) struct Lfu {
    nodes: Vec<Node>,
    levels: [Chain; LEVELS],
    /// Bit n is set if level n may hold entries.
    occupied: u64,
    live: u64,
    touches: u64,
    halvings: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    link: Link,
    /// The count at the time of `halvings`.
    count: u8,
    halvings: u32,
}

impl Linked for Node {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Lfu {
    pub(crate) const fn new() -> Lfu {
        Lfu {
            nodes: Vec::new(),
            levels: [Chain::EMPTY; LEVELS],
            occupied: 0,
            live: 0,
            touches: 0,
            halvings: 0,
        }
    }

    fn level(&self, slot: Slot) -> usize {
        let node = &self.nodes[slot as usize];
        let passed = self.halvings.wrapping_sub(node.halvings);
        usize::from(node.count.checked_shr(passed).unwrap_or(0))
    }

    fn put(&mut self, slot: Slot, level: usize) {
        self.nodes[slot as usize] = Node {
            link: Link::LOOSE,
            count: level as u8,
            halvings: self.halvings,
        };
        self.levels[level].push(&mut self.nodes, slot);
        self.occupied |= 1 << level;
    }

    fn halve(&mut self) {
        self.halvings = self.halvings.wrapping_add(1);
        self.touches = 0;
        self.occupied = 0;
        for level in 0..LEVELS / 2 {
            let joined = self.levels[2 * level + 1].join(self.levels[2 * level], &mut self.nodes);
            self.levels[level] = joined;
            self.occupied |= u64::from(!joined.is_empty()) << level;
        }
        self.levels[LEVELS / 2..].fill(Chain::EMPTY);
    }
}

impl Eviction for Lfu {
    fn insert(&mut self, slot: Slot, _id: u64, _size: u64) {
        if self.nodes.len() <= slot as usize {
            let fresh = Node {
                link: Link::LOOSE,
                count: 0,
                halvings: 0,
            };
            self.nodes.resize(slot as usize + 1, fresh);
        }
        self.put(slot, 0);
        self.live += 1;
    }

    fn touch(&mut self, slot: Slot, times: u32) {
        let level = self.level(slot);
        self.levels[level].remove(&mut self.nodes, slot);
        self.put(slot, level.saturating_add(times as usize).min(LEVELS - 1));
        self.touches += u64::from(times);
        if self.touches > FADE_AFTER * self.live {
            self.halve();
        }
    }

    fn remove(&mut self, slot: Slot) {
        let level = self.level(slot);
        self.levels[level].remove(&mut self.nodes, slot);
        self.live -= 1;
    }

    fn victim(&mut self) -> Option<Slot> {
        while self.occupied != 0 {
            let level = self.occupied.trailing_zeros() as usize;
            if let Some(slot) = self.levels[level].pop(&mut self.nodes) {
                self.live -= 1;
                return Some(slot);
            }
            self.occupied &= self.occupied - 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::testing::drain;

    #[test]
    fn the_least_used_leaves_first_and_ties_go_by_age() {
        let mut lfu = Lfu::new();
        for slot in 0..5 {
            lfu.insert(slot, u64::from(slot), 1);
        }
        lfu.touch(0, 3);
        lfu.touch(4, 1);
        lfu.touch(1, 1);
        lfu.remove(3);
        assert_eq!(drain(&mut lfu), [2, 4, 1, 0]);
    }

    #[test]
    fn yesterdays_favorite_fades() {
        let mut lfu = Lfu::new();
        lfu.insert(0, 0, 1);
        lfu.touch(0, 60);
        lfu.insert(1, 1, 1);
        // The favorite is not touched again; the other entry is, a little, for long enough.
        for _ in 0..200 {
            lfu.touch(1, 1);
        }
        assert_eq!(lfu.victim(), Some(0));
    }

    #[test]
    fn counts_saturate() {
        let mut lfu = Lfu::new();
        lfu.insert(0, 0, 1);
        lfu.touch(0, u32::MAX);
        lfu.touch(0, u32::MAX);
        assert_eq!(drain(&mut lfu), [0]);
    }
}
