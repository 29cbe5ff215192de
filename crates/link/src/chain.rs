//! Queues in series: a packet that leaves one enters the next at that instant.
//!
//! Keeps the order of events exact; knows nothing about the work of its parts.

use crate::queue::{Counters, Queue, Verdict};
use units::Instant;

/// Queues in series, themselves a queue.
pub struct Chain<P> {
    parts: Vec<Box<dyn Queue<P> + Send>>,
    entered: u64,
    left: u64,
    /// Packets in a chain without parts.
    through: std::collections::VecDeque<(Instant, P)>,
}

impl<P> core::fmt::Debug for Chain<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Chain")
            .field("parts", &self.parts.len())
            .field("entered", &self.entered)
            .field("left", &self.left)
            .finish()
    }
}

impl<P> Chain<P> {
    /// A chain of `parts`, in the order packets pass them. Without parts, packets pass at once.
    pub fn new(parts: Vec<Box<dyn Queue<P> + Send>>) -> Chain<P> {
        Chain {
            parts,
            entered: 0,
            left: 0,
            through: std::collections::VecDeque::new(),
        }
    }

    /// Moves packets on until nothing more is due by `now`. Each move happens at its own instant, earliest
    /// first, so that a late driver sees the same packets as a punctual one.
    fn advance(&mut self, now: Instant) {
        loop {
            let last = self.parts.len().saturating_sub(1);
            let due = (0..last)
                .filter_map(|k| Some((self.parts[k].next_departure()?, k)))
                .filter(|(at, _)| *at <= now)
                // If several parts are due at one instant, the last moves first, to make room.
                .min_by_key(|(at, k)| (*at, last - *k));
            let Some((at, k)) = due else { return };
            if let Some(packet) = self.parts[k].dequeue(at) {
                self.parts[k + 1].enqueue(packet, at);
            }
        }
    }
}

impl<P> Queue<P> for Chain<P> {
    fn enqueue(&mut self, packet: P, now: Instant) -> Verdict {
        self.advance(now);
        self.entered += 1;
        let Some(first) = self.parts.first_mut() else {
            self.through.push_back((now, packet));
            return Verdict::Queued;
        };
        let verdict = first.enqueue(packet, now);
        self.advance(now);
        verdict
    }

    fn dequeue(&mut self, now: Instant) -> Option<P> {
        self.advance(now);
        let packet = match self.parts.last_mut() {
            Some(last) => last.dequeue(now),
            None => self
                .through
                .pop_front_if(|(at, _)| *at <= now)
                .map(|(_, packet)| packet),
        };
        self.left += u64::from(packet.is_some());
        packet
    }

    fn next_departure(&self) -> Option<Instant> {
        self.parts
            .iter()
            .filter_map(|part| part.next_departure())
            .chain(self.through.front().map(|(at, _)| *at))
            .min()
    }

    fn counters(&self) -> Counters {
        let mut total = Counters {
            entered: self.entered,
            left: self.left,
            waiting: self.through.len() as u64,
            ..Counters::default()
        };
        for part in &self.parts {
            let counters = part.counters();
            total.dropped.add(&counters.dropped);
            total.waiting += counters.waiting;
        }
        total
    }
}
