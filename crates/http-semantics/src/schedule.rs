//! Which response sends next: the most urgent one (RFC 9218 section 10). Among equally urgent ones, [`Order`] decides.

use crate::priority::Priority;

/// A response that could send now.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its priority.
    pub priority: Priority,
    /// Bytes it has left; `u64::MAX` if unknown.
    pub left: u64,
    /// The turn it had last, from [`Turns::taken`].
    pub turn: u32,
}

/// The order of equally urgent responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The smallest non-incremental one takes turns with the incremental ones (RFC 9218 section 10).
    Turns,
    /// The smallest goes first, incremental or not, except that one turn in eight is of the one that began first.
    SmallestFirst,
}

/// One turn in this many belongs to the response that began first, where the smallest goes first otherwise.
const SHARE: u8 = 8;

/// The turns of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    now: u32,
    /// The last turn of a non-incremental response.
    exclusive: u32,
    /// Turns since the response that began first had one, where the smallest goes first otherwise.
    owed: u8,
}

impl Turns {
    /// The turn of now, for a response that begins.
    pub const fn now(self) -> u32 {
        self.now
    }

    /// Notes that a response of this priority sends, and returns its turn.
    pub const fn taken(&mut self, priority: Priority) -> u32 {
        self.now = self.now.wrapping_add(1);
        if !priority.incremental {
            self.exclusive = self.now;
        }
        self.now
    }

    /// The candidate that sends next, by the identifier given with it. Candidates come in the order in which they began.
    #[inline]
    pub fn choose(
        &mut self,
        order: Order,
        candidates: impl Iterator<Item = (usize, Candidate)>,
    ) -> Option<usize> {
        match order {
            Order::Turns => {
                let best =
                    candidates.reduce(|best, next| if self.precedes(next.1, best.1) { next } else { best });
                best.map(|(id, _)| id)
            }
            Order::SmallestFirst => self.smallest(candidates),
        }
    }

    fn smallest(&mut self, mut candidates: impl Iterator<Item = (usize, Candidate)>) -> Option<usize> {
        let mut eldest = candidates.next()?;
        let mut least = eldest;
        for next in candidates {
            if next.1.priority.urgency < eldest.1.priority.urgency {
                (eldest, least) = (next, next);
            } else if next.1.priority.urgency == eldest.1.priority.urgency && next.1.left < least.1.left {
                least = next;
            }
        }
        if least.0 == eldest.0 {
            return Some(least.0);
        }
        self.owed = (self.owed + 1) % SHARE;
        Some(if self.owed == 0 { eldest.0 } else { least.0 })
    }

    /// Whether `a` sends before `b`. Of two that are equal in everything, neither does.
    fn precedes(self, a: Candidate, b: Candidate) -> bool {
        if a.priority.urgency != b.priority.urgency {
            return a.priority.urgency < b.priority.urgency;
        }
        // Turns wrap: the older one is farther from the present.
        let age = |turn: u32| self.now.wrapping_sub(turn);
        match (a.priority.incremental, b.priority.incremental) {
            (false, false) => a.left < b.left,
            (true, true) => age(a.turn) > age(b.turn),
            (true, false) => age(a.turn) > age(self.exclusive),
            (false, true) => age(self.exclusive) >= age(b.turn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each response sends one byte a turn; the letters say who was served when.
    fn sent(order: Order, mut list: Vec<(char, u8, bool, u64)>) -> String {
        let (mut turns, mut last, mut out) = (Turns::default(), vec![0; list.len()], String::new());
        loop {
            let candidates = list.iter().zip(&last).enumerate();
            let candidates = candidates.filter_map(|(at, (&(_, urgency, incremental, left), &turn))| {
                let priority = Priority { urgency, incremental };
                (left > 0).then_some((at, Candidate { priority, left, turn }))
            });
            let Some(at) = turns.choose(order, candidates) else {
                return out;
            };
            let (name, urgency, incremental, _) = list[at];
            last[at] = turns.taken(Priority { urgency, incremental });
            list[at].3 -= 1;
            out.push(name);
        }
    }

    #[test]
    fn urgent_first_then_whole_or_in_turns() {
        let order = |list| sent(Order::Turns, list);
        assert_eq!(order(vec![('a', 3, false, 2), ('b', 0, false, 2)]), "bbaa");
        assert_eq!(
            order(vec![('a', 3, false, 3), ('b', 3, false, 2)]),
            "bbaaa",
            "the smallest first"
        );
        assert_eq!(order(vec![('a', 3, true, 2), ('b', 3, true, 2)]), "abab");
        assert_eq!(
            order(vec![('a', 3, false, 2), ('b', 3, true, 2), ('c', 3, true, 2)]),
            "abcabc",
            "non-incremental ones share one turn"
        );
    }

    #[test]
    fn the_smallest_first_and_one_turn_in_eight_for_the_eldest() {
        let order = |list| sent(Order::SmallestFirst, list);
        assert_eq!(
            order(vec![('a', 3, false, 3), ('b', 3, true, 2), ('c', 0, true, 2)]),
            "ccbbaaa"
        );
        assert_eq!(
            order(vec![('a', 3, false, 99), ('b', 3, false, 10)])[..12],
            *"bbbbbbbabbba"
        );
    }
}
