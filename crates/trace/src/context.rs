//! What every part of an analysis gets with a packet: its circumstances, the thresholds, the shared memory budget, and
//! where results go. Decides nothing about a connection except whether a run of small requests is worth a finding.

use crate::budget::Budget;
use crate::connection::{ConnectionId, Side};
use crate::event::Event;
use crate::finding::{Finding, Kind};
use crate::series::Recorder;
use crate::summary::Meter;
use crate::tls::Keyring;
use crate::transaction::{SingleRun, Transaction};
use core::time::Duration;
use std::collections::VecDeque;
use units::Instant;

/// Thresholds that distinguish a stall from a round trip.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// G of the two 1997 predicates: an acknowledgment later than this, beyond the smallest round-trip time, was held
    /// by a timer.
    pub stall: Duration,
    /// Longest time after an acknowledgment for a segment to count as released by it (1997 predicates).
    pub prompt: Duration,
    /// Minimum delay beyond the smallest round-trip time for an acknowledgment to count as delayed.
    pub delayed_ack: Duration,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            stall: Duration::from_millis(100),
            prompt: Duration::from_millis(10),
            delayed_ack: Duration::from_millis(30),
        }
    }
}

/// Circumstances of the current packet, and the sink for results.
pub(crate) struct Context<'a> {
    pub(crate) at: Instant,
    pub(crate) number: u64,
    /// Time of the capture's first frame.
    pub(crate) start: Instant,
    pub(crate) connection: ConnectionId,
    pub(crate) thresholds: &'a Thresholds,
    pub(crate) budget: &'a mut Budget,
    pub(crate) events: &'a mut VecDeque<Event>,
    pub(crate) meter: &'a mut Meter,
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) keys: &'a Keyring,
    /// Whether every QUIC packet is an event, and what belongs to it.
    pub(crate) logs: bool,
    /// Largest window advertised by the peer of the sender being judged.
    pub(crate) peer_window_max: u64,
}

impl Context<'_> {
    pub(crate) fn finding(&mut self, sender: Side, at: Instant, cost: Duration, packets: &[u64], kind: Kind) {
        let finding = Finding {
            connection: self.connection,
            sender,
            at: at.since(self.start),
            cost,
            packets: packets.to_vec(),
            kind,
        };
        self.meter.finding(&finding);
        self.events.push_back(Event::Finding(finding));
    }

    pub(crate) fn transaction(&mut self, transaction: Transaction) {
        self.meter.transaction(&transaction);
        self.events.push_back(Event::Transaction(transaction));
    }

    pub(crate) fn single_requests(&mut self, run: SingleRun) {
        // A full segment's size; a connection's own value differs too little to matter.
        const SEGMENT: u64 = 1460;
        let needed = run.bytes.div_ceil(SEGMENT) as u32;
        let needless = run.requests.saturating_sub(needed.max(1));
        if run.requests < 3 || needless < 2 {
            return;
        }
        let cost = run
            .last
            .0
            .since(run.first.0)
            .mul_f64(f64::from(needless) / f64::from(run.requests - 1));
        let kind = Kind::OneRequestPerSegment {
            requests: run.requests,
            needless,
        };
        self.finding(Side::Client, run.first.0, cost, &[run.first.1, run.last.1], kind);
    }
}
