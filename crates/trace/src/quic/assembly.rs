//! Puts the bytes of a CRYPTO or STREAM sequence in order, and tells new bytes from bytes that came again.

use crate::budget::Budget;
use std::collections::BTreeMap;

/// Limit on pieces held out of order, per sequence.
const PIECES_MAX: usize = 512;

/// What a piece brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Bytes that had not come before.
    pub(super) fresh: u64,
    /// Bytes that had come before.
    pub(super) again: u64,
    /// Whether new bytes lie below the highest offset seen: they fill a hole.
    pub(super) fills: bool,
    /// Whether it left a hole before it.
    pub(super) leaves: bool,
}

/// One sequence of bytes.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// Offset of the first byte that has not been delivered.
    next: u64,
    /// Pieces behind a hole by their offsets; they do not overlap.
    pieces: BTreeMap<u64, Vec<u8>>,
    /// Bytes held against the budget.
    held: usize,
    /// Offset behind the highest byte seen.
    pub(super) highest: u64,
    /// Offset of the end, once it is known.
    pub(super) end: Option<u64>,
    /// Whether a limit on memory was reached: nothing more is delivered.
    pub(super) is_lost: bool,
}

impl Assembly {
    /// Whether all bytes up to the end have been delivered.
    pub(super) fn is_whole(&self) -> bool {
        self.end == Some(self.next)
    }

    /// Takes a piece; `deliver` gets what is in order now.
    pub(super) fn take(
        &mut self,
        offset: u64,
        data: &[u8],
        budget: &mut Budget,
        mut deliver: impl FnMut(&[u8]),
    ) -> Arrival {
        let end = offset + data.len() as u64;
        let mut arrival = Arrival {
            leaves: offset > self.highest,
            ..Arrival::default()
        };
        // The parts of [offset, end) that are new.
        let mut at = offset.max(self.next);
        let mut parts = Vec::new();
        let before = self.pieces.range(..at).next_back();
        if let Some((start, piece)) = before {
            at = at.max(start + piece.len() as u64);
        }
        for (start, piece) in self.pieces.range(at..end.max(at)) {
            if at < *start {
                parts.push((at, *start));
            }
            at = start + piece.len() as u64;
        }
        if at < end {
            parts.push((at, end));
        }
        for (from, to) in parts {
            arrival.fresh += to - from;
            arrival.fills |= from < self.highest;
            let bytes = &data[(from - offset) as usize..(to - offset) as usize];
            if from == self.next {
                if !self.is_lost {
                    deliver(bytes);
                }
                self.next = to;
            } else if self.is_lost {
                // Delivered or not, the bytes have come; only their count is kept.
            } else if self.pieces.len() < PIECES_MAX && budget.hold(bytes.len()) {
                self.held += bytes.len();
                self.pieces.insert(from, bytes.to_vec());
            } else {
                self.give_up(budget);
            }
        }
        while let Some(entry) = self.pieces.first_entry()
            && *entry.key() == self.next
        {
            let piece = entry.remove();
            deliver(&piece);
            self.next += piece.len() as u64;
            self.held -= piece.len();
            budget.release(piece.len());
        }
        arrival.again = data.len() as u64 - arrival.fresh;
        self.highest = self.highest.max(end);
        arrival
    }

    /// Delivers nothing more, and returns what is held to the budget.
    pub(super) fn give_up(&mut self, budget: &mut Budget) {
        self.is_lost = true;
        self.pieces.clear();
        budget.release(core::mem::take(&mut self.held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn budget(bytes: usize) -> Budget {
        Budget {
            segments: 0,
            bytes,
            refused: 0,
        }
    }

    proptest! {
        /// Pieces in any order, cut anywhere and sent more than once, yield the sequence, and each byte counts once.
        #[test]
        fn any_order_yields_the_sequence(cuts in prop::collection::vec((0usize..200, 1usize..40), 1..60)) {
            let whole: Vec<u8> = (0..=255).collect();
            let mut budget = budget(1 << 20);
            let (mut assembly, mut got, mut fresh, mut sent) = (Assembly::default(), Vec::new(), 0, 0);
            let rest = (0..256).step_by(32).map(|at| (at, 32));
            for (at, len) in cuts.into_iter().chain(rest) {
                let end = (at + len).min(256);
                let arrival = assembly.take(at as u64, &whole[at..end], &mut budget, |bytes| got.extend_from_slice(bytes));
                fresh += arrival.fresh;
                sent += end - at;
                prop_assert_eq!(arrival.fresh + arrival.again, (end - at) as u64);
            }
            prop_assert_eq!(got, whole);
            prop_assert_eq!(fresh, 256);
            prop_assert!(sent >= 256);
            prop_assert_eq!(budget.bytes, 1 << 20);
        }
    }

    #[test]
    fn holes_are_left_and_filled() {
        let mut budget = budget(100);
        let mut assembly = Assembly::default();
        let mut take = |offset, data: &[u8]| assembly.take(offset, data, &mut budget, |_| {});
        assert_eq!(
            take(0, b"ab"),
            Arrival {
                fresh: 2,
                ..Arrival::default()
            }
        );
        assert_eq!(
            take(4, b"ef"),
            Arrival {
                fresh: 2,
                leaves: true,
                ..Arrival::default()
            }
        );
        assert_eq!(
            take(0, b"ab"),
            Arrival {
                again: 2,
                ..Arrival::default()
            }
        );
        assert_eq!(
            take(1, b"bcde"),
            Arrival {
                fresh: 2,
                again: 2,
                fills: true,
                leaves: false
            }
        );
        assert_eq!(take(6, b""), Arrival::default());
    }

    #[test]
    fn beyond_the_budget_nothing_more_is_delivered() {
        let mut budget = budget(3);
        let mut assembly = Assembly::default();
        let mut got = Vec::new();
        for (offset, data) in [(2, b"cd"), (6, b"gh"), (0, b"ab"), (4, b"ef")] {
            assembly.take(offset, data, &mut budget, |bytes| got.extend_from_slice(bytes));
        }
        assert!(assembly.is_lost && got.is_empty(), "{got:?}");
        assert_eq!(budget.bytes, 3);
        let mut many = Assembly::default();
        let mut budget = super::tests::budget(1 << 20);
        for n in 0..=PIECES_MAX as u64 {
            many.take(2 * n + 1, b"x", &mut budget, |_| {});
        }
        assert!(many.is_lost);
        assert_eq!(budget.bytes, 1 << 20);
    }
}
