//! A doubly linked list of slot numbers, used by every policy that keeps an order.
//!
//! The links of all chains of a policy are in one vector indexed by slot, so moving an entry allocates nothing. A chain
//! does not know which slots are its members; the policy does.

/// Number of a place in the store: small and dense, so it can index vectors.
pub(crate) type Slot = u32;

/// No slot.
pub(crate) const NONE: Slot = Slot::MAX;

/// The neighbors of a slot in its chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    newer: Slot,
    older: Slot,
}

impl Link {
    /// The link of a slot that is in no chain.
    pub(crate) const LOOSE: Link = Link {
        newer: NONE,
        older: NONE,
    };
}

/// A node with a [`Link`].
pub(crate) trait Linked {
    fn link(&mut self) -> &mut Link;
}

impl Linked for Link {
    fn link(&mut self) -> &mut Link {
        self
    }
}

/// An order of slots, from newest to oldest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    newest: Slot,
    oldest: Slot,
}

impl Chain {
    pub(crate) const EMPTY: Chain = Chain {
        newest: NONE,
        oldest: NONE,
    };

    /// Whether the chain has no members.
    pub(crate) fn is_empty(&self) -> bool {
        self.oldest == NONE
    }

    /// The oldest member.
    pub(crate) fn oldest(&self) -> Option<Slot> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The newest member.
    pub(crate) fn newest(&self) -> Option<Slot> {
        (self.newest != NONE).then_some(self.newest)
    }

    /// Adds a slot that is in no chain as the newest.
    pub(crate) fn push<N: Linked>(&mut self, nodes: &mut [N], slot: Slot) {
        *nodes[slot as usize].link() = Link {
            newer: NONE,
            older: self.newest,
        };
        match self.newest {
            NONE => self.oldest = slot,
            next => nodes[next as usize].link().newer = slot,
        }
        self.newest = slot;
    }

    /// Takes out a member.
    pub(crate) fn remove<N: Linked>(&mut self, nodes: &mut [N], slot: Slot) {
        let Link { newer, older } = *nodes[slot as usize].link();
        match newer {
            NONE => self.newest = older,
            newer => nodes[newer as usize].link().older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => nodes[older as usize].link().newer = newer,
        }
    }

    /// Takes out the oldest member.
    pub(crate) fn pop<N: Linked>(&mut self, nodes: &mut [N]) -> Option<Slot> {
        let slot = self.oldest()?;
        self.remove(nodes, slot);
        Some(slot)
    }

    /// Appends `older` to this chain: all of `self` counts as newer.
    pub(crate) fn join<N: Linked>(self, older: Chain, nodes: &mut [N]) -> Chain {
        if self.is_empty() {
            return older;
        }
        if older.is_empty() {
            return self;
        }
        nodes[self.oldest as usize].link().older = older.newest;
        nodes[older.newest as usize].link().newer = self.oldest;
        Chain {
            newest: self.newest,
            oldest: older.oldest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(mut chain: Chain, nodes: &mut [Link]) -> Vec<Slot> {
        std::iter::from_fn(|| chain.pop(nodes)).collect()
    }

    #[test]
    fn order_survives_removal_and_joining() {
        let mut nodes = vec![Link::LOOSE; 8];
        let (mut a, mut b) = (Chain::EMPTY, Chain::EMPTY);
        for slot in 0..4 {
            a.push(&mut nodes, slot);
            b.push(&mut nodes, slot + 4);
        }
        a.remove(&mut nodes, 0);
        a.remove(&mut nodes, 2);
        b.remove(&mut nodes, 7);
        let both = a.join(b, &mut nodes).join(Chain::EMPTY, &mut nodes);
        assert_eq!(
            drain(Chain::EMPTY.join(both, &mut nodes), &mut nodes),
            [4, 5, 6, 1, 3]
        );
    }
}
