//! Which response sends next (RFC 9218 section 10): the most urgent one; among equally urgent ones, the smallest
//! non-incremental one takes turns with the incremental ones.

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

/// The turns of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    now: u32,
    /// The last turn of a non-incremental response.
    exclusive: u32,
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

    /// Whether `a` sends before `b`. Of two that are equal in everything, neither does.
    pub fn precedes(self, a: Candidate, b: Candidate) -> bool {
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
    fn order(mut list: Vec<(char, u8, bool, u64)>) -> String {
        let (mut turns, mut last, mut out) = (Turns::default(), vec![0; list.len()], String::new());
        loop {
            let candidate = |at: usize| {
                let (_, urgency, incremental, left) = list[at];
                let priority = Priority { urgency, incremental };
                let turn = last[at];
                (left > 0).then_some(Candidate { priority, left, turn })
            };
            let mut best: Option<(usize, Candidate)> = None;
            for at in 0..list.len() {
                if let Some(one) = candidate(at)
                    && best.is_none_or(|(_, other)| turns.precedes(one, other))
                {
                    best = Some((at, one));
                }
            }
            let Some((at, one)) = best else {
                return out;
            };
            last[at] = turns.taken(one.priority);
            list[at].3 -= 1;
            out.push(list[at].0);
        }
    }

    #[test]
    fn urgent_first_then_whole_or_in_turns() {
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
}
