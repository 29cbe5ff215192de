//! The next of the waiting responses: the one with the fewest bytes left, except for one byte in eight. That byte
//! belongs to the response that began first (the eldest). If the eldest is also the one with the fewest left, it
//! belongs to the next eldest.
//!
//! ```text
//!   unknown ── wait ──▶ WAITING ── leave ──▶ KNOWN (its socket is full, its file on disk) ── wait ──▶ WAITING
//!      ▲                                        │
//!      └──────────────── forget ────────────────┴ from anywhere
//! ```
//! Schrage (1968): of all orders, smallest remaining first has the lowest mean response time. Its cost for a large
//! response is unbounded while smaller ones keep coming; the eldest's share bounds it. Suppose that responses with B
//! bytes left had begun before a response. It is then sent no later than after 8 · (B + its own bytes) have left,
//! whatever comes afterwards, as long as those can be sent. Giving the eighth never to the response that already has
//! the rest leaves this bound intact, and no response has the line to itself while another waits: of equal ones, the
//! eldest is always the one with the fewest bytes left, too. This module decides the order; the
//! [`bucket`](super::bucket) decides the amount.

use super::{FULL, Precedence, SEGMENT, SHARE, on_the_line};
use std::collections::{BTreeSet, HashMap};

/// The next response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) index: u32,
    /// Content bytes it can send now.
    pub(super) left: u64,
    /// Content bytes after which another response may be next.
    pub(super) most: u64,
    /// Why it was chosen.
    pub(super) right: Right,
}

/// Why a response is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// It has the fewest bytes left, and another is older.
    Least,
    /// It is the eldest and has the fewest bytes left, and others wait.
    Both,
    /// It is the eldest, and is owed its share or waits alone.
    Eldest,
    /// It is the next eldest, and is owed a share by the eldest, which has the fewest bytes left.
    Next,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Order of arrival.
    number: u64,
    /// Its place if it waits: the sort key and the bytes to send now.
    place: Option<(u64, u64)>,
}

/// The responses that have something to send.
#[derive(Debug)]
pub(super) struct Order {
    precedence: Precedence,
    /// Content bytes per decision: whole segments.
    unit: u64,
    /// Waiting responses, the next one first.
    line: BTreeSet<(u64, u64, u32)>,
    /// Waiting responses, the eldest first.
    elders: BTreeSet<(u64, u32)>,
    entries: HashMap<u32, Entry>,
    /// Numbers and places given so far.
    given: u64,
    /// Line bytes sent for the fewest left while an older response waited, minus seven for each that the eldest got.
    owed: u64,
    /// Line bytes the eldest got because it had the fewest left while others waited, minus seven for each that the next
    /// eldest got.
    owed_next: u64,
    /// Content bytes left of waiting responses.
    waiting: u64,
}

impl Order {
    /// An empty order. A decision holds for the segments that fit into `grain` line bytes.
    pub(super) fn new(precedence: Precedence, grain: u64) -> Order {
        Order {
            precedence,
            unit: (grain / FULL).max(1) * SEGMENT,
            line: BTreeSet::new(),
            elders: BTreeSet::new(),
            entries: HashMap::new(),
            given: 0,
            owed: 0,
            owed_next: 0,
            waiting: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    /// This response has `left` bytes to send now, `beyond` bytes later, and waits for the line.
    pub(super) fn wait(&mut self, index: u32, left: u64, beyond: u64) {
        self.leave(index);
        let number = self.entries.get(&index).map(|entry| entry.number);
        let number = number.unwrap_or_else(|| self.number());
        let rank = match self.precedence {
            Precedence::Smallest => left.saturating_add(beyond),
            Precedence::Shared => self.number(),
        };
        let entry = Entry {
            number,
            place: Some((rank, left)),
        };
        self.entries.insert(index, entry);
        self.line.insert((rank, number, index));
        self.elders.insert((number, index));
        self.waiting += left;
    }

    /// This response stops waiting and keeps its age. Returns whether it waited.
    pub(super) fn leave(&mut self, index: u32) -> bool {
        let Some(entry) = self.entries.get_mut(&index) else {
            return false;
        };
        let Some((rank, left)) = entry.place.take() else {
            return false;
        };
        self.line.remove(&(rank, entry.number, index));
        self.elders.remove(&(entry.number, index));
        self.waiting -= left;
        true
    }

    /// This response has nothing to send.
    pub(super) fn forget(&mut self, index: u32) {
        self.leave(index);
        self.entries.remove(&index);
        if self.entries.is_empty() {
            (self.owed, self.owed_next) = (0, 0);
        }
    }

    /// Number of waiting responses.
    pub(super) fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Content bytes left of waiting responses.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting
    }

    /// Bytes the response with the fewest left may get before another must have a unit.
    fn patience(&self) -> u64 {
        (SHARE - 1) * on_the_line(self.unit)
    }

    /// The next response.
    pub(super) fn next(&self) -> Option<Pick> {
        let &(_, _, first) = self.line.first()?;
        let pick = |index: u32, most: u64, right: Right| {
            let left = self.entries.get(&index)?.place?.1;
            Some(Pick {
                index,
                left,
                most,
                right,
            })
        };
        let mut elders = self.elders.iter().map(|&(_, index)| index);
        let (eldest, next) = (elders.next()?, elders.next());
        let Some(next) = next else {
            return pick(first, u64::MAX, Right::Eldest);
        };
        if self.precedence == Precedence::Shared {
            return pick(first, self.unit, Right::Least);
        }
        let (favored, other, owed, share) = match first == eldest {
            true => (Right::Both, next, self.owed_next, Right::Next),
            false => (Right::Least, eldest, self.owed, Right::Eldest),
        };
        match self.patience().saturating_sub(owed) {
            0 => pick(other, self.unit, share),
            rest => pick(first, rest.div_ceil(FULL) * SEGMENT, favored),
        }
    }

    /// The response chosen for this reason got this many content bytes.
    pub(super) fn got(&mut self, right: Right, content: u64) {
        if self.precedence == Precedence::Shared {
            return;
        }
        let bytes = on_the_line(content);
        match right {
            Right::Least => self.owed += bytes,
            Right::Eldest => self.owed = self.owed.saturating_sub(bytes * (SHARE - 1)),
            // It pays for six others, because a seventh of it goes to the next eldest.
            Right::Both => {
                self.owed = self.owed.saturating_sub(bytes * (SHARE - 2));
                self.owed_next += bytes;
            }
            Right::Next => self.owed_next = self.owed_next.saturating_sub(bytes * (SHARE - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Draw, Rng, Seed};

    fn below(rng: &mut Rng, bound: u64) -> u64 {
        rng.next_u64() % bound
    }

    fn smallest() -> Order {
        Order::new(Precedence::Smallest, FULL)
    }

    /// Gives each response its grant in turn until none waits; returns the sequence of turns.
    fn turns(order: &mut Order) -> Vec<u32> {
        let mut turns = Vec::new();
        while let Some(pick) = order.next() {
            let bytes = pick.left.min(pick.most).min(SEGMENT);
            order.leave(pick.index);
            order.got(pick.right, bytes);
            match pick.left - bytes {
                0 => order.forget(pick.index),
                left => order.wait(pick.index, left, 0),
            }
            turns.push(pick.index);
        }
        turns
    }

    /// A large response given out in small outputs is not taken for a small one.
    #[test]
    fn what_follows_later_counts_too() {
        let mut order = smallest();
        order.wait(1, 2 * SEGMENT, 500 * SEGMENT);
        order.wait(2, 9 * SEGMENT, 0);
        assert_eq!(
            order.next().map(|pick| (pick.index, pick.left)),
            Some((2, 9 * SEGMENT))
        );
        order.wait(1, 2 * SEGMENT, 3 * SEGMENT);
        assert_eq!(
            order.next().map(|pick| (pick.index, pick.left)),
            Some((1, 2 * SEGMENT))
        );
    }

    #[test]
    fn the_least_left_goes_first_and_an_eighth_to_the_eldest() {
        let mut order = smallest();
        for (index, segments) in [(1, 30), (2, 9), (3, 5)] {
            order.wait(index, segments * SEGMENT, 0);
        }
        let turns = turns(&mut order);
        assert_eq!(turns[..8], [3, 3, 3, 3, 3, 2, 2, 1]);
        assert_eq!(turns[8..16], [2, 2, 2, 2, 2, 2, 2, 1]);
        assert!(turns[16..].iter().all(|&index| index == 1));
        assert_eq!(turns.len(), 44);
        assert_eq!((order.waiting(), order.waiting_bytes()), (0, 0));
    }

    /// Among equal responses, the eldest also has the fewest bytes left, and takes no more than seven eighths for that.
    #[test]
    fn what_the_eldest_needs_no_more_goes_to_the_next_eldest() {
        let mut order = smallest();
        for index in [1, 2, 3] {
            order.wait(index, 14 * SEGMENT, 0);
        }
        let turns = turns(&mut order);
        let of = |index: u32| {
            let of_it =
                |range: core::ops::Range<usize>| turns[range].iter().filter(|&&one| one == index).count();
            [
                of_it(0..8),
                of_it(8..16),
                of_it(16..24),
                of_it(24..32),
                of_it(32..42),
            ]
        };
        assert_eq!(of(1), [7, 7, 0, 0, 0]);
        assert_eq!(of(2), [1, 0, 7, 6, 0]);
        assert_eq!(of(3), [0, 1, 1, 2, 10]);
    }

    #[test]
    fn who_stops_waiting_keeps_its_age_and_who_is_forgotten_does_not() {
        let mut order = smallest();
        order.wait(1, 9 * SEGMENT, 0);
        order.wait(2, 5 * SEGMENT, 0);
        assert!(order.leave(1) && !order.leave(1));
        order.got(Right::Least, 7 * SEGMENT);
        assert_eq!(order.next().map(|pick| pick.index), Some(2), "nobody elder waits");
        order.wait(1, 9 * SEGMENT, 0);
        assert_eq!(order.next().map(|pick| pick.index), Some(1), "it is owed");
        order.forget(1);
        order.wait(1, 9 * SEGMENT, 0);
        assert_eq!(order.next().map(|pick| pick.index), Some(2), "the eldest now");
        assert_eq!(order.waiting_bytes(), 14 * SEGMENT);
    }

    #[test]
    fn shared_is_in_turn() {
        let mut order = Order::new(Precedence::Shared, FULL);
        for (index, segments) in [(1, 3), (2, 1), (3, 2)] {
            order.wait(index, segments * SEGMENT, 0);
        }
        assert_eq!(turns(&mut order), [1, 2, 3, 1, 3, 1]);
    }

    /// However many small ones keep coming, a response is sent after eight times what had begun before it plus itself.
    #[test]
    fn no_answer_starves() {
        for seed in 0..50 {
            let mut rng = Seed(seed).rng();
            let mut order = smallest();
            let mut before = 0;
            let elders = below(&mut rng, 6) as u32;
            for index in 0..elders {
                let left = 1 + below(&mut rng, 40 * SEGMENT);
                before += on_the_line(left);
                order.wait(index, left, 0);
            }
            let (it, size) = (elders, 1 + below(&mut rng, 100 * SEGMENT));
            order.wait(it, size, 0);
            let bound = SHARE * (before + on_the_line(size)) + u64::from(elders + 1) * SHARE * FULL;
            let (mut sent, mut next) = (0, 1_000);
            let mut blocked: Vec<(u32, u64)> = Vec::new();
            loop {
                // Always a smaller one, or now and then one of any size, so that each is first at times.
                if seed % 2 == 0 || below(&mut rng, 4) == 0 {
                    let most = if seed % 2 == 0 { 1 } else { 60 };
                    order.wait(next, 1 + below(&mut rng, most * SEGMENT), 0);
                    next += 1;
                }
                let pick = order.next().expect("somebody waits");
                let bytes = pick.left.min(pick.most).min(SEGMENT * (1 + below(&mut rng, 3)));
                order.leave(pick.index);
                order.got(pick.right, bytes);
                sent += on_the_line(bytes);
                match pick.left - bytes {
                    0 => order.forget(pick.index),
                    // Some are slow now and then and do not wait for the line meanwhile.
                    left if pick.index < it && below(&mut rng, 4) == 0 => blocked.push((pick.index, left)),
                    left => order.wait(pick.index, left, 0),
                }
                if pick.index == it && pick.left == bytes {
                    break;
                }
                if below(&mut rng, 4) == 0 {
                    blocked
                        .drain(..)
                        .for_each(|(index, left)| order.wait(index, left, 0));
                }
                assert!(sent <= bound, "seed {seed}: {sent} bytes left, at most {bound}");
            }
        }
    }

    /// The eldest gets its eighth of what leaves while it waits, even if it was first now and then.
    #[test]
    fn the_eldest_has_an_eighth() {
        for seed in 0..50 {
            let mut rng = Seed(seed).rng();
            let mut order = smallest();
            order.wait(0, 200 * SEGMENT, 0);
            let (mut its, mut others, mut next) = (0, 0, 1);
            while order.entries.contains_key(&0) {
                if below(&mut rng, 3) == 0 {
                    order.wait(next, 1 + below(&mut rng, 250 * SEGMENT), 0);
                    next += 1;
                }
                let pick = order.next().expect("it waits");
                let bytes = pick.left.min(pick.most).min(SEGMENT * (1 + below(&mut rng, 3)));
                order.leave(pick.index);
                order.got(pick.right, bytes);
                match pick.index {
                    0 => its += on_the_line(bytes),
                    _ => others += on_the_line(bytes),
                }
                match pick.left - bytes {
                    0 => order.forget(pick.index),
                    left => order.wait(pick.index, left, 0),
                }
                let most = (SHARE - 1) * its + 2 * SHARE * FULL;
                assert!(others <= most, "seed {seed}: {others} bytes beside {its}");
            }
        }
    }

    /// Without the share, the order would be exactly fewest left first; with it, all but one byte in eight are.
    #[test]
    fn all_but_an_eighth_goes_to_the_least_left() {
        let mut rng = Seed(7).rng();
        let mut order = smallest();
        let (mut all, mut other) = (0, 0);
        for round in 0..20_000_u32 {
            if order.waiting() < 20 {
                let most = 1 << (4 + below(&mut rng, 14));
                order.wait(round + 100, 1 + below(&mut rng, most), 0);
            }
            let pick = order.next().expect("somebody waits");
            let least = order
                .entries
                .values()
                .filter_map(|entry| entry.place)
                .map(|(_, left)| left)
                .min();
            let bytes = pick.left.min(pick.most).min(SEGMENT);
            all += on_the_line(bytes);
            if Some(pick.left) != least {
                other += on_the_line(bytes);
            }
            order.leave(pick.index);
            order.got(pick.right, bytes);
            match pick.left - bytes {
                0 => order.forget(pick.index),
                left => order.wait(pick.index, left, 0),
            }
        }
        assert!(other * SHARE <= all + SHARE * FULL, "{other} of {all}");
        assert!(other > 0);
    }
}
