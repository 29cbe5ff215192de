//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction", SOSP 2023), with entries
//! weighted by size.
//!
//! ```text
//!  new ──▶ small (10 % of the bytes) ──touched──▶ main ──untouched──▶ out
//!              │ untouched                        ▲  └─touched: again─┐
//!              ▼                                  │                   │
//!             out, remembered in ghost ──asked again                  │
//!                                                 ▲───────────────────┘
//! ```
//!
//! A scan passes through the small queue and evicts no entry that was used twice. The ghost remembers hashes only, of
//! as many entries as the queues hold.

use super::Eviction;
use super::chain::{Chain, Link, Linked, Slot};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// The small queue may hold one part in this many of all bytes.
const SMALL_SHARE: u64 = 10;

/// Maximum count of uses; further ones are not counted.
const USES_MAX: u32 = 3;

/// Minimum number of hashes that the ghost remembers.
const GHOST_MIN: usize = 64;

/// The policy `s3-fifo`; see the module.
#[derive(Debug)]
pub(crate) struct S3Fifo {
    nodes: Vec<Node>,
    small: Queue,
    main: Queue,
    ghost: Ghost,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    chain: Chain,
    bytes: u64,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    link: Link,
    id: u64,
    size: u64,
    uses: u32,
    in_main: bool,
}

impl Linked for Node {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Queue {
    const EMPTY: Queue = Queue {
        chain: Chain::EMPTY,
        bytes: 0,
        len: 0,
    };

    fn push(&mut self, nodes: &mut [Node], slot: Slot) {
        self.bytes += nodes[slot as usize].size;
        self.len += 1;
        self.chain.push(nodes, slot);
    }

    fn remove(&mut self, nodes: &mut [Node], slot: Slot) {
        self.bytes -= nodes[slot as usize].size;
        self.len -= 1;
        self.chain.remove(nodes, slot);
    }
}

impl S3Fifo {
    pub(crate) fn new() -> S3Fifo {
        S3Fifo {
            nodes: Vec::new(),
            small: Queue::EMPTY,
            main: Queue::EMPTY,
            ghost: Ghost::default(),
        }
    }

    /// Whether the next victim comes from the small queue.
    fn small_is_over(&self) -> bool {
        self.main.chain.is_empty() || self.small.bytes * SMALL_SHARE >= self.small.bytes + self.main.bytes
    }
}

impl Eviction for S3Fifo {
    fn insert(&mut self, slot: Slot, id: u64, size: u64) {
        let in_main = self.ghost.forget(id);
        let node = Node {
            link: Link::LOOSE,
            id,
            size,
            uses: 0,
            in_main,
        };
        match self.nodes.get_mut(slot as usize) {
            Some(place) => *place = node,
            None => self.nodes.resize(slot as usize + 1, node),
        }
        let queue = if in_main { &mut self.main } else { &mut self.small };
        queue.push(&mut self.nodes, slot);
    }

    fn touch(&mut self, slot: Slot, times: u32) {
        let node = &mut self.nodes[slot as usize];
        node.uses = node.uses.saturating_add(times).min(USES_MAX);
    }

    fn remove(&mut self, slot: Slot) {
        let queue = if self.nodes[slot as usize].in_main {
            &mut self.main
        } else {
            &mut self.small
        };
        queue.remove(&mut self.nodes, slot);
    }

    fn victim(&mut self) -> Option<Slot> {
        loop {
            if let Some(slot) = self.small.chain.oldest().filter(|_| self.small_is_over()) {
                self.small.remove(&mut self.nodes, slot);
                let node = &mut self.nodes[slot as usize];
                if node.uses == 0 {
                    let bound = (self.small.len + self.main.len).max(GHOST_MIN);
                    self.ghost.remember(node.id, bound);
                    return Some(slot);
                }
                node.uses = 0;
                node.in_main = true;
                self.main.push(&mut self.nodes, slot);
                continue;
            }
            let slot = self.main.chain.oldest()?;
            self.main.remove(&mut self.nodes, slot);
            let node = &mut self.nodes[slot as usize];
            if node.uses == 0 {
                return Some(slot);
            }
            node.uses -= 1;
            self.main.push(&mut self.nodes, slot);
        }
    }
}

/// Hashes of entries that recently left the small queue.
#[derive(Debug, Default)]
struct Ghost {
    /// The sequence number of each hash. Records in `order` with another number are outdated.
    known: HashMap<u64, u64, foldhash::fast::FixedState>,
    order: VecDeque<(u64, u64)>,
    clock: u64,
}

impl Ghost {
    fn remember(&mut self, id: u64, bound: usize) {
        self.clock += 1;
        self.known.insert(id, self.clock);
        self.order.push_back((id, self.clock));
        while self.order.len() > bound {
            let Some((id, at)) = self.order.pop_front() else {
                break;
            };
            if self.known.get(&id) == Some(&at) {
                self.known.remove(&id);
            }
        }
    }

    fn forget(&mut self, id: u64) -> bool {
        self.known.remove(&id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::testing::drain;

    #[test]
    fn what_is_used_twice_survives_a_scan() {
        let mut policy = S3Fifo::new();
        for slot in 0..10 {
            policy.insert(slot, u64::from(slot), 1);
        }
        policy.touch(3, 1);
        policy.touch(7, 1);
        // A scan of a hundred other entries, each inserted and evicted.
        for scan in 0..100_u32 {
            let out = policy.victim().unwrap();
            assert!(out != 3 && out != 7, "step {scan}");
            policy.insert(out, 1_000 + u64::from(scan), 1);
        }
    }

    #[test]
    fn what_comes_back_soon_goes_to_main() {
        let mut policy = S3Fifo::new();
        for slot in 0..4 {
            policy.insert(slot, u64::from(slot), 10);
        }
        assert_eq!(policy.victim(), Some(0));
        policy.insert(0, 0, 10);
        // Main exceeds its share only once small is down to a tenth, so the three in small go first.
        assert_eq!(drain(&mut policy), [1, 2, 3, 0]);
    }

    #[test]
    fn the_ghost_is_bounded_and_forgets_the_oldest() {
        let mut ghost = Ghost::default();
        for id in 0..1_000 {
            ghost.remember(id, 64);
        }
        assert_eq!((ghost.known.len(), ghost.order.len()), (64, 64));
        assert!(!ghost.forget(935) && ghost.forget(936) && !ghost.forget(936));
        // A hash that is remembered again must not be forgotten with its first record.
        ghost.remember(937, 64);
        assert!(ghost.forget(937));
    }
}
