//! The largest packet a link carries. Larger ones are dropped, as by a router that sends no ICMP.
//!
//! Fragments nothing; the owner of the hosts sets their MSS to match.

use crate::packet::Packet;
use crate::queue::{Cause, Counters, Queue, Verdict};
use std::collections::VecDeque;
use units::{Bytes, Instant};

/// A queue that passes packets up to a size at once and in order, and drops the others.
#[derive(Debug)]
pub struct Mtu<P> {
    max: Bytes,
    passing: VecDeque<(Instant, P)>,
    counters: Counters,
}

impl<P> Mtu<P> {
    /// Passes IP packets of at most `max` bytes, header included.
    pub fn new(max: Bytes) -> Mtu<P> {
        Mtu {
            max,
            passing: VecDeque::new(),
            counters: Counters::default(),
        }
    }
}

impl<P: Packet> Queue<P> for Mtu<P> {
    fn enqueue(&mut self, packet: P, now: Instant) -> Verdict {
        if packet.size() > self.max {
            return self.counters.refuse(Cause::TooLarge);
        }
        self.passing.push_back((now, packet));
        self.counters.admit()
    }

    fn dequeue(&mut self, now: Instant) -> Option<P> {
        let (_, packet) = self.passing.pop_front_if(|(at, _)| *at <= now)?;
        self.counters.release();
        Some(packet)
    }

    fn next_departure(&self) -> Option<Instant> {
        self.passing.front().map(|(at, _)| *at)
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
