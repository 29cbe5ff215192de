//! Holds ACKs back, so that a modern sender sees the delayed-ACK timer of another stack.
//!
//! A pure ACK that acknowledges less than two segments waits for a timer; a newer ACK, or data that carries
//! one, replaces it. ACKs of two segments, duplicate ACKs and window updates pass at once. An ACK cannot be
//! delayed less than by the receiver's own kernel: switch off its delayed ACKs first.

use crate::packet::{Flow, Packet};
use crate::queue::{Cause, Counters, Queue, Verdict};
use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};
use units::{Bytes, Duration, Instant};

/// When held ACKs are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldTimer {
    /// At `phase + k * period` for all connections, as on BSD-derived hosts (200 ms).
    Heartbeat {
        /// Time between releases.
        period: Duration,
        /// Time of the first release.
        phase: Duration,
    },
    /// This long after the first held ACK.
    PerSegment(Duration),
}

impl HoldTimer {
    /// When an ACK held from `now` on is released.
    pub fn due(&self, now: Instant) -> Instant {
        match *self {
            HoldTimer::PerSegment(delay) => now + delay,
            HoldTimer::Heartbeat { period, phase } => {
                let period = period.as_nanos().max(1);
                let phase = phase.as_nanos() % period;
                let now = u128::from(now.as_nanos());
                let beats = (now + period - phase) / period;
                let at = beats * period + phase;
                Instant::from_nanos(u64::try_from(at).unwrap_or(u64::MAX))
            }
        }
    }
}

/// One direction of a connection.
#[derive(Debug)]
struct Held<P> {
    /// The last acknowledgment number forwarded.
    passed: u32,
    waiting: Option<(Instant, u32, P)>,
}

/// A queue that holds pure ACKs and passes all other packets.
#[derive(Debug)]
pub struct AckHold<P> {
    timer: HoldTimer,
    /// Segment size in bytes; an ACK of two segments passes.
    mss: Bytes,
    flows: BTreeMap<Flow, Held<P>>,
    due: BTreeSet<(Instant, Flow)>,
    out: BTreeMap<(Instant, u64), P>,
    flows_max: usize,
    /// The flow removed last.
    forgotten: Option<Flow>,
    moved: u64,
    counters: Counters,
}

impl<P> AckHold<P> {
    /// Holds ACKs by `timer` with a segment size of `mss`, for at most `flows_max` flows.
    pub fn new(timer: HoldTimer, mss: Bytes, flows_max: usize) -> AckHold<P> {
        AckHold {
            timer,
            mss,
            flows: BTreeMap::new(),
            due: BTreeSet::new(),
            out: BTreeMap::new(),
            flows_max,
            forgotten: None,
            moved: 0,
            counters: Counters::default(),
        }
    }

    fn pass(&mut self, packet: P, at: Instant) {
        self.moved += 1;
        self.out.insert((at, self.moved), packet);
    }

    /// Makes room by removing a flow without a held ACK, in round-robin order. Most such flows ended long ago;
    /// the next ACK of one that did not passes at once.
    fn forget_one(&mut self) {
        let is_free = |(flow, held): (&Flow, &Held<P>)| held.waiting.is_none().then_some(*flow);
        let after = match self.forgotten {
            Some(last) => (Bound::Excluded(last), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let next = self.flows.range(after).find_map(is_free);
        let next = next.or_else(|| self.flows.iter().find_map(is_free));
        if let Some(flow) = next {
            self.flows.remove(&flow);
            self.forgotten = Some(flow);
        }
    }

    fn advance(&mut self, now: Instant) {
        while let Some((at, flow)) = self.due.first().copied()
            && at <= now
        {
            self.due.pop_first();
            if let Some(held) = self.flows.get_mut(&flow)
                && let Some((_, ack, packet)) = held.waiting.take()
            {
                held.passed = ack;
                self.pass(packet, at);
            }
        }
    }
}

impl<P: Packet> Queue<P> for AckHold<P> {
    fn enqueue(&mut self, packet: P, now: Instant) -> Verdict {
        self.advance(now);
        let verdict = self.counters.admit();
        let Some(tcp) = packet.tcp() else {
            self.pass(packet, now);
            return verdict;
        };
        if !self.flows.contains_key(&tcp.flow) {
            if self.flows.len() >= self.flows_max {
                self.forget_one();
            }
            if self.flows.len() < self.flows_max {
                self.flows.insert(
                    tcp.flow,
                    Held {
                        passed: tcp.ack,
                        waiting: None,
                    },
                );
            }
            self.pass(packet, now);
            return verdict;
        }
        let held = self
            .flows
            .get_mut(&tcp.flow)
            .expect("contains_key was checked above");
        let newest = held.waiting.as_ref().map_or(held.passed, |(_, ack, _)| *ack);
        let advances = tcp.ack.wrapping_sub(newest) as i32 > 0;
        let moved = tcp.ack.wrapping_sub(held.passed) as i32;
        let hold = tcp.pure_ack && advances && i64::from(moved) < 2 * self.mss.0 as i64;
        let replaced = if advances || !tcp.pure_ack {
            held.waiting.take()
        } else {
            None
        };
        let due = match &replaced {
            Some((due, _, _)) => {
                self.due.remove(&(*due, tcp.flow));
                // The timer counts from the first held ACK.
                *due
            }
            None => self.timer.due(now),
        };
        if hold {
            held.waiting = Some((due, tcp.ack, packet));
            self.due.insert((due, tcp.flow));
        } else {
            if advances {
                held.passed = tcp.ack;
            }
            self.pass(packet, now);
        }
        if replaced.is_some() {
            self.counters.lose(Cause::Superseded);
        }
        verdict
    }

    fn dequeue(&mut self, now: Instant) -> Option<P> {
        self.advance(now);
        let entry = self.out.first_entry()?;
        if entry.key().0 > now {
            return None;
        }
        self.counters.release();
        Some(entry.remove())
    }

    fn next_departure(&self) -> Option<Instant> {
        let out = self.out.first_key_value().map(|((at, _), _)| *at);
        let due = self.due.first().map(|(at, _)| *at);
        out.into_iter().chain(due).min()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::TcpView;

    struct Ack {
        ack: u32,
        pure: bool,
        port: u16,
    }

    impl Packet for Ack {
        fn size(&self) -> Bytes {
            Bytes(40)
        }
        fn tcp(&self) -> Option<TcpView> {
            Some(TcpView {
                flow: Flow {
                    source: ([10, 0, 0, 1], self.port).into(),
                    destination: ([10, 0, 0, 2], 80).into(),
                },
                ack: self.ack,
                pure_ack: self.pure,
            })
        }
    }

    fn beat() -> HoldTimer {
        HoldTimer::Heartbeat {
            period: Duration::from_millis(200),
            phase: Duration::from_millis(30),
        }
    }

    /// Feeds (ms, ack, pure) and returns (ms, ack) as they come out.
    fn check(timer: HoldTimer, input: &[(u64, u32, bool)], want: &[(u64, u32)]) -> Counters {
        let mut hold = AckHold::new(timer, Bytes(1_000), 8);
        for &(ms, ack, pure) in input {
            let now = Instant::ZERO + Duration::from_millis(ms);
            hold.enqueue(Ack { ack, pure, port: 1 }, now);
        }
        let mut got = Vec::new();
        while let Some(at) = hold.next_departure() {
            let packet = hold.dequeue(at).expect("due");
            got.push((at.as_nanos() / 1_000_000, packet.ack));
        }
        assert_eq!(got, want);
        hold.counters()
    }

    #[test]
    fn short_acks_wait_for_the_beat_and_full_ones_pass() {
        let counters = check(
            beat(),
            &[
                (1, 0, true),      // the first ACK of a flow passes
                (40, 1_000, true), // acknowledges one segment: waits until 230
                (300, 2_000, true),
                (310, 4_000, true), // three segments since the last forwarded ACK: passes and replaces the held one
                (320, 4_000, true), // a duplicate ACK passes
                (330, 4_500, true),
                (340, 4_500, false), // data with a newer ACK replaces the held one
            ],
            &[(1, 0), (230, 1_000), (310, 4_000), (320, 4_000), (340, 4_500)],
        );
        assert_eq!(counters.dropped.superseded, 2);
        assert_eq!((counters.entered, counters.left), (7, 5));
    }

    #[test]
    fn a_timer_per_segment_runs_from_the_first() {
        check(
            HoldTimer::PerSegment(Duration::from_millis(50)),
            &[(1, 0, true), (10, 500, true), (30, 900, true)],
            &[(1, 0), (60, 900)],
        );
    }

    #[test]
    fn beats_are_strictly_later_and_in_phase() {
        for (now_ms, want_ms) in [(0, 30), (29, 30), (30, 230), (31, 230), (430, 630)] {
            let now = Instant::ZERO + Duration::from_millis(now_ms);
            assert_eq!(beat().due(now).as_nanos(), want_ms * 1_000_000);
        }
    }

    #[test]
    fn a_flow_that_is_over_makes_room_for_the_next() {
        let mut hold = AckHold::new(beat(), Bytes(1_000), 2);
        for port in 1..=50 {
            let ack = |ack| Ack {
                ack,
                pure: true,
                port,
            };
            let now = Instant::ZERO + Duration::from_secs(u64::from(port));
            hold.enqueue(ack(0), now);
            assert!(hold.dequeue(now).is_some(), "port {port}: the first ACK passes");
            hold.enqueue(ack(10), now);
            assert!(hold.dequeue(now).is_none(), "port {port}: the second ACK is held");
            let due = hold.next_departure().expect("a release is due");
            assert!(hold.dequeue(due).is_some());
        }
        assert!(hold.flows.len() <= 2);
    }

    #[test]
    fn flows_beyond_the_bound_are_not_held() {
        let mut hold = AckHold::new(beat(), Bytes(1_000), 1);
        for port in [1, 2] {
            for ack in [0, 10] {
                hold.enqueue(
                    Ack {
                        ack,
                        pure: true,
                        port,
                    },
                    Instant::ZERO,
                );
            }
        }
        let at_once = core::iter::from_fn(|| hold.dequeue(Instant::ZERO)).count();
        assert_eq!(at_once, 3);
    }
}
