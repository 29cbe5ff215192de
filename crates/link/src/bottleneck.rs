//! The line itself: one packet after the other, at a rate or at the opportunities of a trace.
//!
//! Header accounting is explicit: [`Framing`] says what the line carries around each IP packet.

use crate::discipline::{Discipline, Waiting};
use crate::limits::Limits;
use crate::packet::Packet;
use crate::queue::{Cause, Counters, Queue, Verdict};
use crate::trace::{OPPORTUNITY, Trace};
use measure::{Bytes, Duration, Instant, Rate};
use std::collections::VecDeque;
use std::sync::Arc;

/// What the line carries around a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// Bytes added to each packet.
    pub per_packet: Bytes,
    /// Shorter packets are padded to this before framing.
    pub padded_to: Bytes,
}

impl Framing {
    /// IP bytes only: what most published link rates mean.
    pub const IP: Framing = Framing {
        per_packet: Bytes(0),
        padded_to: Bytes(0),
    };
    /// Ethernet's 14 bytes of header and 4 of checksum, padding to 46; preamble and gap not counted.
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

/// How fast the line is.
#[derive(Clone, Debug)]
pub enum Server {
    /// A fixed rate. A rate of zero passes nothing, ever.
    Rate(Rate),
    /// A trace of delivery opportunities; a packet may take several, several may share one.
    Trace(Arc<Trace>),
}

/// What the line is doing.
#[derive(Debug)]
enum Line<P> {
    /// Nothing; free since then.
    Idle { since: Instant },
    /// Sending at a rate, done then.
    Sending { packet: P, until: Instant },
    /// So many bytes of this packet still wait for opportunities.
    Partly { packet: P, left: u64 },
}

/// A queue and the line it waits for.
#[derive(Debug)]
pub struct Bottleneck<P> {
    server: Server,
    framing: Framing,
    waiting: Waiting<P>,
    line: Line<P>,
    /// The next opportunity of a trace.
    opportunity: u64,
    out: VecDeque<(Instant, P)>,
    counters: Counters,
}

impl<P: Packet> Bottleneck<P> {
    /// A free line with an empty queue.
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

    /// Lets everything happen that is due by `now`, each at its instant.
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

/// Time `bytes` take, rounded up to the nanosecond so that the rate is never exceeded.
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
            // Opportunities pass unused while nothing waits.
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
