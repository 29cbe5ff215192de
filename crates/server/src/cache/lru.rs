//! Least recently used: one chain; a use moves an entry to its newest end.

use super::Eviction;
use super::chain::{Chain, Link, Slot};

/// The policy `lru`; see the module.
#[derive(Debug)]
pub(crate) struct Lru {
    nodes: Vec<Link>,
    order: Chain,
}

impl Lru {
    pub(crate) const fn new() -> Lru {
        Lru {
            nodes: Vec::new(),
            order: Chain::EMPTY,
        }
    }
}

impl Eviction for Lru {
    fn insert(&mut self, slot: Slot, _id: u64, _size: u64) {
        if self.nodes.len() <= slot as usize {
            self.nodes.resize(slot as usize + 1, Link::LOOSE);
        }
        self.order.push(&mut self.nodes, slot);
    }

    fn touch(&mut self, slot: Slot, _times: u32) {
        self.order.remove(&mut self.nodes, slot);
        self.order.push(&mut self.nodes, slot);
    }

    fn remove(&mut self, slot: Slot) {
        self.order.remove(&mut self.nodes, slot);
    }

    fn victim(&mut self) -> Option<Slot> {
        self.order.pop(&mut self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::testing::drain;

    #[test]
    fn the_longest_unused_leaves_first() {
        let mut lru = Lru::new();
        for slot in 0..5 {
            lru.insert(slot, u64::from(slot), 1);
        }
        lru.touch(0, 1);
        lru.touch(3, 7);
        lru.remove(2);
        assert_eq!(drain(&mut lru), [1, 4, 0, 3]);
    }
}
