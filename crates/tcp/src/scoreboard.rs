//! The ranges the peer reports beyond the first gap, and the loss recovery that follows from them (RFC 2018,
//! RFC 6675).
//!
//! Decides which bytes are lost, how many are in the network and which to retransmit next. The endpoint decides
//! when to retransmit, and `congestion` the window. Positions count from our SYN and never wrap.

/// Most ranges kept. Further ones count as not reported, which costs a retransmission at most. A window of 1
/// MiB in segments of 1,460 bytes has at most 359 gaps.
const RANGES_MAX: usize = 1_024;

/// The ranges the peer has acknowledged selectively.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    /// Start and end of each range: ascending, with a gap between any two, above the cumulative acknowledgment.
    ranges: Vec<(u64, u64)>,
}

/// Parameters of RFC 6675: the segment size in bytes (SMSS), and the number of segments above a gap that make
/// it a loss (DupThresh).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) mss: u64,
    pub(crate) threshold: u64,
}

impl Scoreboard {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Adds a reported block; returns whether it brought news. A block outside the outstanding data brings
    /// none.
    pub(crate) fn add(&mut self, start: u64, end: u64, una: u64, max: u64) -> bool {
        let start = start.max(una);
        if start >= end || end > max {
            return false;
        }
        // Merges all ranges that touch the block.
        let from = self.ranges.partition_point(|(_, before)| *before < start);
        let to = self.ranges.partition_point(|(after, _)| *after <= end);
        match self.ranges.get(from..to) {
            Some([]) if self.ranges.len() >= RANGES_MAX => false,
            Some([(first, last)]) if *first <= start && end <= *last => false,
            Some(touched) => {
                let first = touched.first().map_or(start, |(first, _)| start.min(*first));
                let last = touched.last().map_or(end, |(_, last)| end.max(*last));
                self.ranges.splice(from..to, [(first, last)]);
                true
            }
            None => false,
        }
    }

    /// Drops everything below `una`, which is acknowledged.
    pub(crate) fn advance(&mut self, una: u64) {
        self.ranges.retain(|(_, end)| *end > una);
        if let Some((start, _)) = self.ranges.first_mut() {
            *start = una.max(*start);
        }
    }

    /// Whether the peer discarded data it had reported: it waits for a byte inside a reported range.
    pub(crate) fn is_reneged(&self, una: u64) -> bool {
        self.ranges.first().is_some_and(|(start, _)| *start <= una)
    }

    /// Bytes reported below position `at`.
    pub(crate) fn below(&self, at: u64) -> u64 {
        let part = |(start, end): &(u64, u64)| (*end).min(at).saturating_sub(*start);
        self.ranges.iter().map(part).sum()
    }

    /// The first unreported position from `at` on, and the start of the next reported range.
    pub(crate) fn gap(&self, at: u64) -> (u64, Option<u64>) {
        let next = self.ranges.partition_point(|(_, end)| *end <= at);
        match self.ranges.get(next) {
            Some((start, end)) if *start <= at => (*end, self.ranges.get(next + 1).map(|(start, _)| *start)),
            Some((start, _)) => (at, Some(*start)),
            None => (at, None),
        }
    }

    /// RFC 6675's `IsLost`: enough was reported above the unreported position `at`.
    pub(crate) fn is_lost(&self, at: u64, rules: Rules) -> bool {
        let first = self.ranges.partition_point(|(_, end)| *end <= at);
        let above = &self.ranges[first..];
        let bytes: u64 = above.iter().map(|(start, end)| end - start).sum();
        above.len() as u64 >= rules.threshold || bytes > (rules.threshold - 1) * rules.mss
    }

    /// Start and end of each gap from `una` to `max`.
    fn gaps(&self, una: u64, max: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let starts = std::iter::once(una).chain(self.ranges.iter().map(|(_, end)| *end));
        let ends = self
            .ranges
            .iter()
            .map(|(start, _)| *start)
            .chain(std::iter::once(max));
        starts.zip(ends).filter(|(start, end)| start < end)
    }

    /// RFC 6675's `SetPipe`: bytes in the network, with everything in gaps below `again` retransmitted once.
    pub(crate) fn pipe(&self, una: u64, max: u64, again: u64, rules: Rules) -> u64 {
        let of_gap = |(start, end): (u64, u64)| {
            let first = if self.is_lost(start, rules) {
                0
            } else {
                end - start
            };
            first + end.min(again).saturating_sub(start)
        };
        self.gaps(una, max).map(of_gap).sum()
    }

    /// The next bytes to retransmit, at most one segment, from `again` on and below the highest report: only
    /// lost ones, or, with `any`, any missing ones (`NextSeg`'s third rule).
    pub(crate) fn next_gap(&self, una: u64, again: u64, rules: Rules, any: bool) -> Option<(u64, u64)> {
        let top = self.ranges.last()?.1;
        self.gaps(una, top)
            .filter(|(start, _)| any || self.is_lost(*start, rules))
            .find_map(|(start, end)| {
                let start = start.max(again);
                (start < end).then_some((start, end.min(start + rules.mss)))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: Rules = Rules {
        mss: 1_000,
        threshold: 3,
    };

    fn board(blocks: &[(u64, u64)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        for (start, end) in blocks {
            board.add(*start, *end, 1, 100_000);
        }
        board
    }

    #[test]
    fn blocks_join_and_what_is_outside_is_ignored() {
        let mut one = board(&[(3_001, 4_001), (5_001, 6_001), (4_001, 5_001)]);
        assert_eq!(one.ranges, [(3_001, 6_001)]);
        assert!(!one.add(3_001, 4_001, 1, 100_000), "nothing new");
        assert!(
            !one.add(1, 1_001, 1_001, 100_000),
            "a duplicate below the cumulative acknowledgment"
        );
        assert!(!one.add(99_000, 100_001, 1, 100_000), "never sent");
        assert!(one.add(2_501, 7_001, 1, 100_000));
        assert_eq!(one.ranges, [(2_501, 7_001)]);
        one.advance(2_801);
        assert_eq!(one.ranges, [(2_801, 7_001)]);
        assert!(one.is_reneged(2_801) && !one.is_reneged(2_001));
        one.advance(7_001);
        assert!(one.is_empty());
    }

    #[test]
    fn loss_pipe_and_the_next_segment_are_those_of_the_rfc() {
        // Ten segments of 1,000 bytes were sent from position 1; the first and the fourth are missing.
        let some = board(&[(1_001, 3_001)]);
        assert!(!some.is_lost(1, RULES), "two segments are not enough");
        assert_eq!(some.pipe(1, 10_001, 1, RULES), 8_000);
        assert_eq!(some.next_gap(1, 1, RULES, false), None);
        assert_eq!(some.next_gap(1, 1, RULES, true), Some((1, 1_001)));
        let more = board(&[(1_001, 3_001), (4_001, 5_001)]);
        assert!(more.is_lost(1, RULES) && !more.is_lost(3_001, RULES));
        // Lost and not retransmitted: not in the network. Retransmitted: counted once.
        assert_eq!(more.pipe(1, 10_001, 1, RULES), 6_000);
        assert_eq!(more.pipe(1, 10_001, 1_001, RULES), 7_000);
        assert_eq!(more.next_gap(1, 1, RULES, false), Some((1, 1_001)));
        assert_eq!(more.next_gap(1, 1_001, RULES, false), None);
        assert_eq!(more.next_gap(1, 1_001, RULES, true), Some((3_001, 4_001)));
        assert_eq!(more.next_gap(1, 4_001, RULES, true), None);
        // Three short ranges count as much as three segments.
        assert!(board(&[(101, 102), (201, 202), (301, 302)]).is_lost(1, RULES));
        assert_eq!(
            (more.gap(1), more.gap(1_001), more.gap(9_001)),
            ((1, Some(1_001)), (3_001, Some(4_001)), (9_001, None))
        );
        assert_eq!(
            (more.below(1), more.below(2_001), more.below(9_001)),
            (0, 1_000, 3_000)
        );
    }

    #[test]
    fn ranges_have_a_bound() {
        let mut many = Scoreboard::default();
        for n in 0..5_000 {
            many.add(n * 10 + 5, n * 10 + 6, 1, 1 << 20);
        }
        assert_eq!(many.ranges.len(), RANGES_MAX);
        // A known range may still grow.
        assert!(many.add(6, 10, 1, 1 << 20));
    }

    proptest! {
        #[test]
        fn any_blocks_give_what_single_bytes_would(
            blocks in prop::collection::vec((1u64..200, 1u64..40), 0..30),
            una in 1u64..60,
        ) {
            let mut board = Scoreboard::default();
            let mut has = vec![false; 300];
            for (start, len) in blocks {
                board.add(start, start + len, 1, 300);
                has[start as usize..(start + len) as usize].fill(true);
            }
            board.advance(una);
            has[..una as usize].fill(false);
            let count = |to: usize| has[..to].iter().filter(|has| **has).count() as u64;
            prop_assert_eq!(board.below(300), count(300));
            prop_assert_eq!(board.below(77), count(77));
            let rules = Rules { mss: 10, threshold: 3 };
            let missing = (una as usize..300).filter(|at| !has[*at]);
            let pipe = missing.filter(|at| !board.is_lost(*at as u64, rules)).count() as u64;
            prop_assert_eq!(board.pipe(una, 300, una, rules), pipe);
            prop_assert!(board.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
