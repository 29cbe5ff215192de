//! The bottleneck: transmits one packet after the other, at a rate or at the delivery opportunities of a trace.
//!
//! Decides when each packet has left, and how many bytes it takes: [`Framing`] states the link-layer overhead
//! of each IP packet.

use crate::discipline::{Discipline, Waiting};
use crate::limits::Limits;
use crate::packet::Packet;
use crate::queue::{Cause, Counters, Queue, Verdict};
use crate::trace::{OPPORTUNITY, Trace};
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Rate};

/// Link-layer overhead of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// Bytes added to each packet.
    pub per_packet: Bytes,
    /// Shorter packets are padded to this size before `per_packet` is added.
    pub padded_to: Bytes,
}

impl Framing {
    /// IP bytes only, as most published link rates count.
    pub const IP: Framing = Framing {
        per_packet: Bytes(0),
        padded_to: Bytes(0),
    };
    /// Ethernet: 14 bytes of header, 4 of checksum, padding to 46; preamble and interframe gap not counted.
    pub const ETHERNET: Framing = Framing {
        per_packet: Bytes(18),
        padded_to: Bytes(46),
    };
    /// PPP in HDLC-like framing (RFC 1662): two flags, address, control, protocol, checksum.
    pub const PPP: Framing = Framing {
        per_packet: Bytes(8),
        padded_to: Bytes(0),
    };

    fn on_line(&self, packet: &impl Packet) -> u64 {
        packet.line_size().max(self.padded_to).0 + self.per_packet.0
    }
}

/// The bandwidth of a bottleneck.
#[derive(Clone, Debug)]
pub enum Server {
    /// A fixed rate. At zero, no packet ever leaves.
    Rate(Rate),
    /// A trace of delivery opportunities. A packet may take several; several packets may share one.
    Trace(Arc<Trace>),
}

#[derive(Debug)]
enum Line<P> {
    /// Idle since this instant.
    Idle { since: Instant },
    /// Transmitting a packet at a rate, until this instant.
    Sending { packet: P, until: Instant },
    /// Transmitting a packet in a trace; `left` bytes still wait for opportunities.
    Partly { packet: P, left: u64 },
}

/// A queue in front of a transmitter of limited bandwidth.
#[derive(Debug)]
pub struct Bottleneck<P> {
    server: Server,
    framing: Framing,
    waiting: Waiting<P>,
    line: Line<P>,
    /// Index of the trace's next unused opportunity.
    opportunity: u64,
    out: VecDeque<(Instant, P)>,
    counters: Counters,
}

impl<P: Packet> Bottleneck<P> {
    /// A bottleneck with an idle transmitter and an empty queue.
    pub fn new(server: Server, framing: Framing, discipline: Discipline, limits: &Limits) -> Bottleneck<P> {
        Bottleneck {
            server,
            framing,
            waiting: Waiting::new(discipline, limits),
            line: Line::Idle { since: Instant::ZERO },
            opportunity: 0,
            out: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    fn is_idle(&self) -> bool {
        matches!(self.line, Line::Idle { .. }) && self.waiting.is_empty()
    }

    /// Runs every event due by `now`, each at its own instant.
    fn advance(&mut self, now: Instant) {
        match self.server.clone() {
            Server::Rate(rate) => self.advance_rate(rate, now),
            Server::Trace(trace) => self.advance_trace(&trace, now),
        }
    }

    fn advance_rate(&mut self, rate: Rate, now: Instant) {
        loop {
            let since = match core::mem::replace(&mut self.line, Line::Idle { since: now }) {
                Line::Sending { packet, until } if until <= now => {
                    self.out.push_back((until, packet));
                    until
                }
                Line::Idle { since } => since,
                busy => {
                    self.line = busy;
                    return;
                }
            };
            self.line = Line::Idle { since };
            let Some(arrived) = self.waiting.head_arrived() else {
                return;
            };
            let start = since.max(arrived);
            let counters = &mut self.counters;
            if let Some(packet) = self.waiting.pop(start, || counters.lose(Cause::Aged)) {
                let until = start + duration(self.framing.on_line(&packet), rate);
                self.line = Line::Sending { packet, until };
            }
        }
    }

    fn advance_trace(&mut self, trace: &Trace, now: Instant) {
        while !self.is_idle() {
            let at = trace.at(self.opportunity);
            if at > now {
                return;
            }
            self.opportunity += 1;
            let mut budget = OPPORTUNITY.0;
            while budget > 0 {
                let (packet, left) = match core::mem::replace(&mut self.line, Line::Idle { since: at }) {
                    Line::Partly { packet, left } => (packet, left),
                    _ => {
                        let counters = &mut self.counters;
                        match self.waiting.pop(at, || counters.lose(Cause::Aged)) {
                            Some(packet) => {
                                let size = self.framing.on_line(&packet);
                                (packet, size)
                            }
                            None => break,
                        }
                    }
                };
                let part = left.min(budget);
                budget -= part;
                if part == left {
                    self.out.push_back((at, packet));
                } else {
                    let left = left - part;
                    self.line = Line::Partly { packet, left };
                }
            }
        }
    }
}

/// Transmission time of `bytes`, rounded up to a nanosecond so that the rate is never exceeded.
fn duration(bytes: u64, rate: Rate) -> Duration {
    if rate.0 == 0 {
        return Duration::MAX;
    }
    let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(rate.0));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

impl<P: Packet> Queue<P> for Bottleneck<P> {
    fn enqueue(&mut self, packet: P, now: Instant) -> Verdict {
        self.advance(now);
        if let Server::Trace(trace) = &self.server
            && self.is_idle()
        {
            // Opportunities expire unused while no packet waits.
            self.opportunity = trace.after(now);
        }
        if !self.waiting.push(packet, now) {
            return self.counters.refuse(Cause::Full);
        }
        let verdict = self.counters.admit();
        self.advance(now);
        verdict
    }

    fn dequeue(&mut self, now: Instant) -> Option<P> {
        self.advance(now);
        let (_, packet) = self.out.pop_front_if(|(at, _)| *at <= now)?;
        self.counters.release();
        Some(packet)
    }

    fn next_departure(&self) -> Option<Instant> {
        if let Some((at, _)) = self.out.front() {
            return Some(*at);
        }
        match (&self.line, &self.server) {
            (Line::Sending { until, .. }, _) => Some(*until),
            (_, Server::Trace(trace)) if !self.is_idle() => Some(trace.at(self.opportunity)),
            _ => None,
        }
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
