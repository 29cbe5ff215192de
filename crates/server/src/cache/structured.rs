//! Structured: a page and the files it embeds are one unit, inserted and evicted together. Units are ordered by their
//! last use. An entry that no page embeds is a unit of its own.
//!
//! ```text
//!  newest ◀── page A ◀── robots.txt ◀── page B ◀── oldest ──▶ out, all of B at once
//!               └ logo, photo             └ chart
//! ```
//!
//! A file that several pages embed belongs to the page used last. The other pages are older and leave before it, so a
//! cached page does not lose embedded files to the eviction of another one. A use of any part is a use of the unit. The
//! size of a unit is limited, so that no page takes the whole cache; files beyond the limit are units of their own.
//! Loading embedded files together with their page is the task of `site::warm`. (The JAWS web server lists a policy of
//! this name, without an algorithm; this one is our own.)

use super::Eviction;
use super::chain::{Chain, Link, Linked, Slot};
use hashbrown::HashMap;

type ById = HashMap<u64, Slot, foldhash::fast::FixedState>;

/// The policy `structured`; see the module.
#[derive(Debug)]
pub(crate) struct Structured {
    nodes: Vec<Node>,
    order: Chain,
    /// Members of the last victim's unit, which leave next.
    leaving: Chain,
    /// Slot of each entry, by the hash of its name.
    index: ById,
    /// For each embedded name, cached or not: the cached page that embeds it and was used last.
    claims: ById,
    /// Maximum size of a unit in bytes.
    unit_max: u64,
}

#[derive(Debug)]
struct Node {
    link: Link,
    id: u64,
    size: u64,
    part: Part,
}

/// The chain of an entry.
#[derive(Debug)]
enum Part {
    /// `order`, as a unit of one entry.
    Alone,
    /// `order`, as the page of a unit.
    Page(Unit),
    /// The members of this page's unit.
    Member(Slot),
    /// `leaving`.
    Leaving,
}

#[derive(Debug)]
struct Unit {
    references: Box<[u64]>,
    members: Chain,
    /// Size of the page and its members together.
    bytes: u64,
}

impl Linked for Node {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Structured {
    /// A new order; units have at most `unit_max` bytes.
    pub(crate) fn new(unit_max: u64) -> Structured {
        Structured {
            nodes: Vec::new(),
            order: Chain::EMPTY,
            leaving: Chain::EMPTY,
            index: HashMap::default(),
            claims: HashMap::default(),
            unit_max,
        }
    }

    fn unit(&mut self, page: Slot) -> Option<&mut Unit> {
        match &mut self.nodes[page as usize].part {
            Part::Page(unit) => Some(unit),
            _ => None,
        }
    }

    /// Whether the unit of a page has room for an entry.
    fn has_room(&mut self, page: Slot, slot: Slot) -> bool {
        let (size, unit_max) = (self.nodes[slot as usize].size, self.unit_max);
        self.unit(page)
            .is_some_and(|unit| unit.bytes.saturating_add(size) <= unit_max)
    }

    /// Adds an entry that is in no chain to a unit with room for it.
    fn join(&mut self, slot: Slot, page: Slot) {
        let size = self.nodes[slot as usize].size;
        let Some(unit) = self.unit(page) else { return };
        unit.bytes += size;
        let mut members = unit.members;
        members.push(&mut self.nodes, slot);
        if let Some(unit) = self.unit(page) {
            unit.members = members;
        }
        self.nodes[slot as usize].part = Part::Member(page);
    }

    /// Removes an entry from its chain. A page keeps its members.
    fn take_out(&mut self, slot: Slot) {
        match self.nodes[slot as usize].part {
            Part::Alone | Part::Page(_) => self.order.remove(&mut self.nodes, slot),
            Part::Leaving => self.leaving.remove(&mut self.nodes, slot),
            Part::Member(page) => {
                let size = self.nodes[slot as usize].size;
                let Some(unit) = self.unit(page) else { return };
                unit.bytes -= size;
                let mut members = unit.members;
                members.remove(&mut self.nodes, slot);
                if let Some(unit) = self.unit(page) {
                    unit.members = members;
                }
            }
        }
    }

    /// Makes a page the newest, and the files it embeds its members.
    fn use_unit(&mut self, page: Slot) {
        // No other page can have claimed files since, because claiming makes a page the newest.
        if self.order.newest() == Some(page) {
            return;
        }
        self.order.remove(&mut self.nodes, page);
        self.order.push(&mut self.nodes, page);
        self.claim(page);
    }

    fn claim(&mut self, page: Slot) {
        let Some(unit) = self.unit(page) else { return };
        let references = std::mem::take(&mut unit.references);
        for id in &references {
            self.claims.insert(*id, page);
            let Some(&slot) = self.index.get(id) else { continue };
            let joins = match self.nodes[slot as usize].part {
                Part::Alone => slot != page,
                Part::Member(other) => other != page,
                Part::Page(_) | Part::Leaving => false,
            };
            if joins && self.has_room(page, slot) {
                self.take_out(slot);
                self.join(slot, page);
            }
        }
        if let Some(unit) = self.unit(page) {
            unit.references = references;
        }
    }

    fn stand_alone(&mut self, slot: Slot) {
        self.nodes[slot as usize].part = Part::Alone;
        self.order.push(&mut self.nodes, slot);
    }

    /// Removes an entry that is in no chain from index and claims. Returns its members.
    fn forget(&mut self, slot: Slot) -> Chain {
        let node = &mut self.nodes[slot as usize];
        let id = node.id;
        let part = std::mem::replace(&mut node.part, Part::Alone);
        if self.index.get(&id) == Some(&slot) {
            self.index.remove(&id);
        }
        let Part::Page(unit) = part else {
            return Chain::EMPTY;
        };
        for id in &unit.references {
            if self.claims.get(id) == Some(&slot) {
                self.claims.remove(id);
            }
        }
        unit.members
    }
}

impl Eviction for Structured {
    fn insert(&mut self, slot: Slot, id: u64, size: u64) {
        let node = |id, size| Node {
            link: Link::LOOSE,
            id,
            size,
            part: Part::Alone,
        };
        if self.nodes.len() <= slot as usize {
            self.nodes.resize_with(slot as usize + 1, || node(0, 0));
        }
        self.nodes[slot as usize] = node(id, size);
        self.index.insert(id, slot);
        match self.claims.get(&id).copied() {
            Some(page) if self.has_room(page, slot) => {
                self.join(slot, page);
                self.use_unit(page);
            }
            _ => self.stand_alone(slot),
        }
    }

    fn refer(&mut self, slot: Slot, references: &[u64]) {
        if references.is_empty() {
            return;
        }
        self.take_out(slot);
        let node = &mut self.nodes[slot as usize];
        node.part = Part::Page(Unit {
            references: references.into(),
            members: Chain::EMPTY,
            bytes: node.size,
        });
        self.order.push(&mut self.nodes, slot);
        self.claim(slot);
    }

    fn touch(&mut self, slot: Slot, _times: u32) {
        match self.nodes[slot as usize].part {
            Part::Alone => {
                self.order.remove(&mut self.nodes, slot);
                self.order.push(&mut self.nodes, slot);
            }
            Part::Page(_) => self.use_unit(slot),
            Part::Member(page) => self.use_unit(page),
            Part::Leaving => {}
        }
    }

    fn remove(&mut self, slot: Slot) {
        self.take_out(slot);
        let mut members = self.forget(slot);
        while let Some(member) = members.pop(&mut self.nodes) {
            self.stand_alone(member);
        }
    }

    fn victim(&mut self) -> Option<Slot> {
        if let Some(slot) = self.leaving.pop(&mut self.nodes) {
            self.forget(slot);
            return Some(slot);
        }
        let slot = self.order.pop(&mut self.nodes)?;
        let mut members = self.forget(slot);
        while let Some(member) = members.pop(&mut self.nodes) {
            self.nodes[member as usize].part = Part::Leaving;
            self.leaving.push(&mut self.nodes, member);
        }
        Some(slot)
    }

    fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::testing::drain;
    use proptest::prelude::*;

    fn with(entries: u32) -> Structured {
        let mut policy = Structured::new(100);
        for slot in 0..entries {
            policy.insert(slot, u64::from(slot), 1);
        }
        policy
    }

    /// The next unit to leave.
    fn unit(policy: &mut Structured) -> Vec<Slot> {
        let mut unit: Vec<Slot> = policy.victim().into_iter().collect();
        while policy.is_leaving() {
            unit.extend(policy.victim());
        }
        unit
    }

    #[test]
    fn a_page_leaves_with_what_it_embeds() {
        let mut policy = with(6);
        policy.refer(1, &[3, 4]);
        policy.touch(0, 1);
        policy.touch(2, 1);
        policy.touch(5, 1);
        assert_eq!(unit(&mut policy), [1, 3, 4]);
        assert_eq!([unit(&mut policy), unit(&mut policy)], [[0], [2]]);
        assert_eq!((unit(&mut policy), unit(&mut policy)), (vec![5], vec![]));
        assert!(policy.claims.is_empty() && policy.index.is_empty());
    }

    #[test]
    fn a_use_of_a_part_is_one_of_the_unit() {
        let mut policy = with(4);
        policy.refer(0, &[2]);
        policy.touch(3, 1);
        policy.touch(2, 1);
        assert_eq!(drain(&mut policy), [1, 3, 0, 2]);
    }

    #[test]
    fn what_comes_later_joins() {
        let mut policy = with(1);
        policy.refer(0, &[7]);
        policy.insert(1, 1, 1);
        policy.insert(2, 7, 1);
        assert_eq!(unit(&mut policy), [1]);
        assert_eq!(unit(&mut policy), [0, 2]);
    }

    #[test]
    fn what_two_pages_embed_belongs_to_the_one_used_last() {
        let mut policy = with(3);
        policy.refer(0, &[2]);
        policy.refer(1, &[2]);
        policy.touch(0, 1);
        assert_eq!(unit(&mut policy), [1]);
        assert_eq!(unit(&mut policy), [0, 2]);
    }

    #[test]
    fn a_page_that_changed_leaves_its_parts_behind() {
        let mut policy = with(3);
        policy.refer(0, &[1, 2]);
        policy.remove(0);
        policy.insert(0, 0, 1);
        policy.refer(0, &[1]);
        assert_eq!(unit(&mut policy), [2]);
        assert_eq!(unit(&mut policy), [0, 1]);
    }

    #[test]
    fn a_unit_is_bounded() {
        let mut policy = Structured::new(10);
        policy.insert(0, 0, 4);
        policy.refer(0, &[1, 2, 3]);
        policy.insert(1, 1, 5);
        policy.insert(2, 2, 5);
        policy.insert(3, 3, 1);
        // The second one does not fit and becomes a unit of its own; the third one fits.
        assert_eq!(unit(&mut policy), [2]);
        assert_eq!(unit(&mut policy), [0, 1, 3]);
    }

    proptest! {
        /// No entry is lost or counted twice, units stay whole, and their sizes are correct.
        #[test]
        fn units_are_whole(ops in proptest::collection::vec((0..5_u8, 0..24_u32), 1..200)) {
            let refers = |id: u64| [id, id + 1, id + 2, id + 3, (id + 5) % 24, (id + 8) % 24];
            let mut policy = Structured::new(6);
            let mut held = [false; 24];
            for (op, slot) in ops {
                match (op, held[slot as usize]) {
                    (0..=2, true) => policy.touch(slot, 1),
                    (_, true) => {
                        policy.remove(slot);
                        held[slot as usize] = false;
                    }
                    (3, false) => {
                        for victim in unit(&mut policy) {
                            prop_assert!(std::mem::replace(&mut held[victim as usize], false));
                        }
                    }
                    (_, false) => {
                        policy.insert(slot, u64::from(slot), 1 + u64::from(slot % 3));
                        if slot % 4 == 0 {
                            policy.refer(slot, &refers(u64::from(slot)));
                        }
                        held[slot as usize] = true;
                    }
                }
                for (page, node) in policy.nodes.iter().enumerate() {
                    let Part::Page(unit) = &node.part else { continue };
                    let members = policy.nodes.iter().filter(|m| matches!(m.part, Part::Member(p) if p as usize == page));
                    let bytes = node.size + members.map(|m| m.size).sum::<u64>();
                    prop_assert_eq!(unit.bytes, bytes);
                    prop_assert!(bytes <= 6);
                }
                for (&id, &page) in &policy.claims {
                    prop_assert!(held[page as usize] && refers(u64::from(page)).contains(&id));
                }
            }
            let left = drain(&mut policy);
            prop_assert_eq!(left.len(), held.iter().filter(|&&held| held).count());
            prop_assert!(policy.index.is_empty() && policy.claims.is_empty());
        }
    }
}
