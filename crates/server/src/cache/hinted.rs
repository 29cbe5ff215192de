//! Hinted: least recently used, with hints from pages. A use of a page counts as a use of every file it embeds, because
//! clients request those next.
//!
//! ```text
//!  newest ◀── logo ◀── photo ◀── page ◀── ... ◀── oldest ──▶ out
//!               what a page embeds is always newer than the page
//! ```
//!
//! So a cached page never loses the files it embeds, and once it is evicted, they are no longer renewed. Loading
//! embedded files together with their page is the task of `site::warm`. (The cached virtual file system of the JAWS web
//! server lists a policy of this name. Its authors published no algorithm, so this one is our own.)

use super::Eviction;
use super::chain::{Chain, Link, Linked, Slot};
use hashbrown::HashMap;

/// The policy `hinted`; see the module.
#[derive(Debug)]
pub(crate) struct Hinted {
    nodes: Vec<Node>,
    order: Chain,
    /// Slot of each entry, by the hash of its name.
    index: HashMap<u64, Slot, foldhash::fast::FixedState>,
    /// The page used last, and the newest entry after that use. While no entry becomes newer, another use of the page
    /// changes nothing.
    settled: Option<(Slot, Option<Slot>)>,
}

#[derive(Clone, Debug)]
struct Node {
    link: Link,
    id: u64,
    /// Hashes of the files it embeds, if it is a page.
    references: Box<[u64]>,
}

impl Linked for Node {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Hinted {
    pub(crate) fn new() -> Hinted {
        Hinted {
            nodes: Vec::new(),
            order: Chain::EMPTY,
            index: HashMap::default(),
            settled: None,
        }
    }

    fn renew(&mut self, slot: Slot) {
        self.order.remove(&mut self.nodes, slot);
        self.order.push(&mut self.nodes, slot);
    }

    /// Renews the files that a page embeds. Embedded pages count only by their own uses: renewing one would make it
    /// newer than the files that it embeds itself.
    fn anticipate(&mut self, page: Slot) {
        let references = std::mem::take(&mut self.nodes[page as usize].references);
        for id in &references {
            if let Some(&slot) = self.index.get(id)
                && slot != page
                && self.nodes[slot as usize].references.is_empty()
            {
                self.renew(slot);
            }
        }
        let is_page = !references.is_empty();
        self.nodes[page as usize].references = references;
        self.settled = is_page.then(|| (page, self.order.newest()));
    }

    fn forget(&mut self, slot: Slot) {
        self.settled = None;
        let node = &mut self.nodes[slot as usize];
        node.references = Box::default();
        if self.index.get(&node.id) == Some(&slot) {
            self.index.remove(&node.id);
        }
    }
}

impl Eviction for Hinted {
    fn insert(&mut self, slot: Slot, id: u64, _size: u64) {
        let node = Node {
            link: Link::LOOSE,
            id,
            references: Box::default(),
        };
        match self.nodes.get_mut(slot as usize) {
            Some(place) => *place = node,
            None => self.nodes.resize(slot as usize + 1, node),
        }
        self.order.push(&mut self.nodes, slot);
        self.index.insert(id, slot);
        self.settled = None;
    }

    fn refer(&mut self, slot: Slot, references: &[u64]) {
        self.nodes[slot as usize].references = references.into();
        self.anticipate(slot);
    }

    fn touch(&mut self, slot: Slot, _times: u32) {
        if self.settled == Some((slot, self.order.newest())) {
            return;
        }
        self.renew(slot);
        self.anticipate(slot);
    }

    fn remove(&mut self, slot: Slot) {
        self.order.remove(&mut self.nodes, slot);
        self.forget(slot);
    }

    fn victim(&mut self) -> Option<Slot> {
        let slot = self.order.pop(&mut self.nodes)?;
        self.forget(slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::testing::drain;
    use proptest::prelude::*;

    fn with(entries: u32) -> Hinted {
        let mut policy = Hinted::new();
        for slot in 0..entries {
            policy.insert(slot, u64::from(slot), 1);
        }
        policy
    }

    #[test]
    fn a_use_of_a_page_is_one_of_what_it_embeds() {
        let mut policy = with(6);
        policy.refer(5, &[1, 3, 77]);
        assert_eq!(drain(&mut policy), [0, 2, 4, 5, 1, 3]);
        let mut policy = with(3);
        policy.refer(2, &[0]);
        policy.insert(3, 3, 1);
        policy.touch(2, 1);
        assert_eq!(drain(&mut policy), [1, 3, 2, 0]);
    }

    #[test]
    fn uses_of_one_page_in_a_row_cost_one() {
        let mut policy = with(4);
        policy.refer(0, &[1, 2]);
        policy.touch(0, 1);
        assert!(policy.settled.is_some());
        policy.touch(0, 1);
        policy.touch(3, 1);
        policy.touch(0, 1);
        assert_eq!(drain(&mut policy), [3, 0, 1, 2]);
    }

    #[test]
    fn without_references_it_is_lru() {
        let mut policy = with(5);
        policy.touch(0, 1);
        policy.touch(3, 7);
        policy.remove(2);
        assert_eq!(drain(&mut policy), [1, 4, 0, 3]);
    }

    #[test]
    fn a_page_that_is_gone_renews_nothing() {
        let mut policy = with(2);
        policy.refer(1, &[0]);
        policy.remove(1);
        policy.insert(1, 9, 1);
        policy.insert(2, 2, 1);
        policy.touch(1, 1);
        assert_eq!(drain(&mut policy), [0, 2, 1]);
    }

    #[test]
    fn pages_may_refer_to_themselves_and_to_each_other() {
        let mut policy = with(3);
        policy.refer(0, &[0, 1, 2]);
        policy.refer(1, &[0, 1]);
        policy.touch(0, 1);
        assert_eq!(drain(&mut policy), [1, 0, 2]);
    }

    proptest! {
        /// A page never outlives the files it embeds.
        #[test]
        fn what_a_page_embeds_is_newer_than_the_page(
            ops in proptest::collection::vec((0..4_u8, 0..24_u32), 1..200)
        ) {
            // Every fourth name is a page that embeds its three successors and the entry of a neighbor.
            let refers = |id: u64| [id + 1, id + 2, id + 3, (id + 5) % 24];
            let mut policy = Hinted::new();
            let mut held = [false; 24];
            for (op, slot) in ops {
                let id = u64::from(slot);
                match (op, held[slot as usize]) {
                    (0 | 1, true) => policy.touch(slot, 1),
                    (_, true) => {
                        policy.remove(slot);
                        held[slot as usize] = false;
                    }
                    (3, false) => {
                        if let Some(victim) = policy.victim() {
                            held[victim as usize] = false;
                        }
                    }
                    (_, false) => {
                        policy.insert(slot, id, 1);
                        if slot % 4 == 0 {
                            policy.refer(slot, &refers(id));
                        }
                        held[slot as usize] = true;
                    }
                }
            }
            let order = drain(&mut policy);
            prop_assert_eq!(order.len(), held.iter().filter(|&&held| held).count());
            prop_assert!(policy.index.is_empty());
            let at = |slot: u64| order.iter().position(|&other| u64::from(other) == slot);
            for &page in order.iter().filter(|&&slot| slot % 4 == 0) {
                let page = u64::from(page);
                for id in refers(page) {
                    if id % 4 != 0 && let Some(embedded) = at(id) {
                        prop_assert!(Some(embedded) > at(page), "{} of {} in {:?}", id, page, order);
                    }
                }
            }
        }
    }
}
