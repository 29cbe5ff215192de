//! The receiving half: puts segments in order and decides the window to offer.
//!
//! Positions count from the peer's SYN, which is 0, and never wrap; the endpoint translates sequence numbers.

use crate::copied::copied;
use std::collections::{BTreeMap, VecDeque};

/// Received data, in order and beyond gaps.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// The next position expected (RCV.NXT).
    pub(crate) next: u64,
    /// The right edge of the window last offered.
    pub(crate) edge: u64,
    /// Data in order, not read yet.
    ready: VecDeque<u8>,
    /// Data beyond a gap, by position; none overlaps `next`.
    ahead: BTreeMap<u64, Vec<u8>>,
    /// The ranges of `ahead`, first the range that contains the latest segment (RFC 2018, section 4).
    recent: Vec<(u64, u64)>,
    /// Position of the FIN, once received.
    fin: Option<u64>,
    capacity: u64,
}

/// Ranges kept for reports: the most a segment without other options can carry.
const BLOCKS_MAX: usize = 4;

/// The effect of an arriving segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Bytes that became readable in order.
    pub(crate) in_order: u64,
    /// Whether data before it is missing, or it brought nothing new.
    pub(crate) out_of_order: bool,
    /// Whether everything up to and including the FIN has arrived.
    pub(crate) finished: bool,
}

impl Receiver {
    pub(crate) fn new(capacity: u64) -> Receiver {
        // Without window scaling no larger window can be offered.
        let capacity = capacity.min(u64::from(u16::MAX));
        Receiver {
            next: 0,
            edge: 0,
            ready: VecDeque::new(),
            ahead: BTreeMap::new(),
            recent: Vec::new(),
            fin: None,
            capacity,
        }
    }

    /// Sets the largest window in bytes, for a connection whose sides both scale their windows.
    pub(crate) fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    /// Ranges received beyond the first gap, the latest first.
    pub(crate) fn blocks(&self) -> &[(u64, u64)] {
        &self.recent
    }

    /// Records the range that now contains the segment at `at`, which arrived beyond a gap.
    fn remember(&mut self, at: u64) {
        let (mut start, mut end) = (at, at);
        let mut reach: Option<(u64, u64)> = None;
        // Pieces may overlap: a range is everything they cover without a gap.
        for (&from, piece) in &self.ahead {
            let to = from + piece.len() as u64;
            reach = match reach {
                Some((first, last)) if from <= last => Some((first, last.max(to))),
                Some((first, last)) if last > at => {
                    reach = Some((first, last));
                    break;
                }
                _ => Some((from, to)),
            };
        }
        if let Some((first, last)) = reach.filter(|(first, last)| *first <= at && at < *last) {
            (start, end) = (first, last);
        }
        self.recent.retain(|(from, to)| *to < start || end < *from);
        if start < end {
            self.recent.insert(0, (start, end));
        }
        self.recent.truncate(BLOCKS_MAX);
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) fn readable(&self) -> usize {
        self.ready.len()
    }

    /// Whether the FIN has arrived in order and all data before it was read.
    pub(crate) fn is_eof(&self) -> bool {
        self.ready.is_empty() && self.fin.is_some_and(|at| self.next > at)
    }

    pub(crate) fn read(&mut self, max: usize) -> Vec<u8> {
        let n = max.min(self.ready.len());
        let data = copied(&self.ready, 0, n);
        self.ready.drain(..n);
        data
    }

    pub(crate) fn discard(&mut self) {
        self.ready.clear();
        self.ahead.clear();
        self.recent.clear();
    }

    /// The window to offer now: the free buffer, zero if little is free, and never less than was offered before
    /// (BSD's form of RFC 9293, section 3.8.6.2.2).
    pub(crate) fn window(&self, mss: u64) -> u64 {
        let offered = self.edge.saturating_sub(self.next);
        let free = self.capacity.saturating_sub(self.ready.len() as u64);
        let little = free < mss && free < self.capacity / 4;
        offered.max(if little { 0 } else { free })
    }

    /// Whether a segment at `at` that takes `space` sequence numbers overlaps the window.
    pub(crate) fn accepts(&self, at: u64, space: u64) -> bool {
        let edge = self.edge.max(self.next);
        if space == 0 {
            return at >= self.next && (at < edge || at == self.next);
        }
        at < edge && at + space > self.next
    }

    /// Adds data at `at`, followed by a FIN if `fin`.
    pub(crate) fn insert(&mut self, mut at: u64, mut data: &[u8], fin: bool) -> Arrival {
        let before = self.next;
        if fin {
            self.fin = Some(at + data.len() as u64);
        }
        let brought = data.len();
        let old = self.next.saturating_sub(at).min(data.len() as u64);
        data = &data[old as usize..];
        at += old;
        let room = self.edge.saturating_sub(at).min(data.len() as u64);
        data = &data[..room as usize];
        if at > self.next {
            if !data.is_empty() {
                let slot = self.ahead.entry(at).or_default();
                if slot.len() < data.len() {
                    *slot = data.to_vec();
                }
                self.remember(at);
            }
        } else {
            self.ready.extend(data);
            self.next += data.len() as u64;
            while let Some((&start, _)) = self.ahead.first_key_value()
                && start <= self.next
            {
                let (_, held) = self.ahead.pop_first().expect("the loop saw an entry");
                let old = (self.next - start).min(held.len() as u64) as usize;
                self.ready.extend(&held[old..]);
                self.next += (held.len() - old) as u64;
            }
        }
        self.recent.retain(|(_, end)| *end > self.next);
        let finished = self.fin == Some(self.next);
        if finished {
            self.next += 1;
        }
        let in_order = self.next - before - u64::from(finished);
        Arrival {
            in_order,
            out_of_order: (brought > 0 && in_order == 0) || !self.ahead.is_empty(),
            finished,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_order_of_overlapping_pieces_gives_the_stream(
            pieces in prop::collection::vec((0usize..400, 1usize..80), 0..60),
        ) {
            let stream: Vec<u8> = (0..400u32).map(|n| (n * 7) as u8).collect();
            let mut receiver = Receiver::new(1_000);
            receiver.edge = 401;
            let mut missing = vec![true; 400];
            for (start, len) in pieces {
                let end = (start + len).min(400);
                receiver.insert(start as u64, &stream[start..end], end == 400);
                missing[start..end].fill(false);
                let whole = missing.iter().position(|gap| *gap).unwrap_or(400);
                prop_assert_eq!(receiver.readable(), whole);
                let first = receiver.blocks().first().copied();
                if start > whole {
                    let (from, to) = first.expect("something is ahead");
                    prop_assert!(from <= start as u64 && end as u64 <= to);
                }
                for (from, to) in receiver.blocks() {
                    let (from, to) = (*from as usize, *to as usize);
                    prop_assert!(missing[from..to].iter().all(|gap| !*gap));
                    prop_assert!(missing[from - 1] && missing.get(to).is_none_or(|gap| *gap));
                }
            }
            let all = receiver.readable();
            prop_assert_eq!(receiver.read(400), &stream[..all]);
            prop_assert_eq!(receiver.is_eof(), all == 400);
        }
    }
}
