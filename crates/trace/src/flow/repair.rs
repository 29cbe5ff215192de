//! Loss as the receiver sees it, and the time to repair it without a timeout.
//!
//! A segment lost before the capture point leaves a hole. The segment that fills it was either reordered or
//! retransmitted. Timestamps tell which; without them, whether the sender can have learned of the hole. A repair lasts
//! from the first sign of the loss to its end, whether or not the lost segments passed the capture point.

use super::half::{Half, RTO_MIN};
use crate::context::Context;
use crate::finding::Kind;
use crate::packet::Segment;
use crate::seq::SeqNum;
use core::time::Duration;
use units::Instant;

/// An unseen range, and the segment that passed it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    pub(super) left: u64,
    pub(super) right: u64,
    pub(super) at: Instant,
    pub(super) packet: u64,
    pub(super) stamp: Option<u32>,
}

/// Losses being repaired without a timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    /// First sign of the gap: the segment after it, or the first duplicate acknowledgment.
    pub(super) since: Instant,
    pub(super) first: u64,
    /// First retransmission.
    pub(super) again: (Instant, u64),
    pub(super) segments: u32,
    /// Retransmissions that the receiver reported as duplicates.
    pub(super) needless: u32,
    /// First retransmitted byte.
    pub(super) from: u64,
    /// Whether the lost segments never passed the capture point: the retransmissions fill holes.
    pub(super) is_upstream: bool,
    /// Whether only a timer can have caused it.
    pub(super) is_timeout: bool,
}

/// A finished repair: if the receiver reports every retransmission as a duplicate, nothing was lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unconfirmed {
    repair: Repair,
    /// Time and frame of its end.
    end: (Instant, u64),
    /// Time until which the receiver may still report.
    until: Instant,
}

impl Half {
    /// Closes holes within the range; returns the number of new bytes and the first hole as it was.
    pub(super) fn fill_holes(&mut self, start: u64, end: u64) -> (u64, Option<Hole>) {
        if self.holes.is_empty() {
            return (0, None);
        }
        let mut fresh = 0;
        let mut opened = None;
        let mut rest = Vec::new();
        self.holes.retain_mut(|hole| {
            let (from, to) = (start.max(hole.left), end.min(hole.right));
            if from >= to {
                return true;
            }
            fresh += to - from;
            opened.get_or_insert(*hole);
            if from > hole.left && to < hole.right {
                rest.push(Hole { left: to, ..*hole });
                hole.right = from;
                return true;
            }
            if from > hole.left {
                hole.right = from;
            } else {
                hole.left = to;
            }
            hole.left < hole.right
        });
        self.holes.append(&mut rest);
        (fresh, opened)
    }

    /// Whether the segment that fills a hole is a retransmission: its timestamp is later than that of the segment that
    /// passed it. Without timestamps: the receiver had asked for it and the sender had time to learn that.
    pub(super) fn is_sent_again(&self, hole: &Hole, segment: &Segment<'_>, now: Instant) -> bool {
        let stamp = segment.options.timestamps.map(|(value, _)| value);
        let younger = stamp
            .zip(hole.stamp)
            .map_or(0, |(again, passed)| SeqNum(again) - SeqNum(passed));
        if younger != 0 {
            return younger > 0;
        }
        let waited = now.since(hole.at);
        let asked = self.duplicates >= 3 || self.sacked_above;
        let path = (self.base_rtt() + self.back).mul_f64(0.8);
        waited >= RTO_MIN || (asked && waited > path.max(Duration::from_millis(3)))
    }

    /// Records a retransmission that filled a hole, fully or partly.
    pub(super) fn repaired(&mut self, hole: &Hole, cx: &mut Context<'_>) {
        let asked = self.duplicates >= 3 || self.sacked_above;
        let waited = cx.at.since(hole.at);
        match &mut self.repair {
            Some(repair) => repair.segments += 1,
            None => {
                self.repair = Some(Repair {
                    since: hole.at,
                    first: hole.packet,
                    again: (cx.at, cx.number),
                    segments: 1,
                    needless: 0,
                    from: hole.left,
                    is_upstream: true,
                    is_timeout: !asked && waited >= RTO_MIN,
                });
            }
        }
        // Bytes that the peer acknowledged despite a hole are missing in the capture only.
        if self.holes.iter().all(|hole| hole.right <= self.acked) {
            self.settle_repair(cx);
        }
    }

    pub(super) fn settle_repair(&mut self, cx: &mut Context<'_>) {
        let Some(repair) = self.repair.take() else {
            return;
        };
        if repair.is_timeout {
            let packets = [repair.first, repair.again.1];
            let kind = Kind::RetransmissionTimeout {
                transmissions: 2,
                spurious: false,
            };
            let cost = repair.again.0.since(repair.since);
            cx.finding(self.side, repair.again.0, cost, &packets, kind);
        } else {
            // The time to report on the previous repair has passed.
            self.report_repair(cx);
            self.unconfirmed = Some(Unconfirmed {
                repair,
                end: (cx.at, cx.number),
                until: cx.at + self.base_rtt() + self.back + RTO_MIN,
            });
            if !self.is_sacked || repair.is_upstream {
                self.report_repair(cx);
            }
        }
    }

    /// Records a needless retransmission.
    pub(super) fn needless_repair(&mut self, start: u64, cx: &mut Context<'_>) {
        match (&mut self.unconfirmed, &mut self.repair) {
            (_, Some(repair)) if start >= repair.from => repair.needless += 1,
            (Some(unconfirmed), _) if start >= unconfirmed.repair.from => {
                unconfirmed.repair.needless += 1;
                if unconfirmed.repair.needless >= unconfirmed.repair.segments {
                    self.report_repair(cx);
                }
            }
            _ => {}
        }
    }

    /// Reports a finished repair once the receiver can no longer contradict.
    pub(super) fn confirm_repair(&mut self, cx: &mut Context<'_>) {
        if self.unconfirmed.is_some_and(|waiting| cx.at > waiting.until) {
            self.report_repair(cx);
        }
    }

    pub(super) fn report_repair(&mut self, cx: &mut Context<'_>) {
        let Some(Unconfirmed { repair, end, .. }) = self.unconfirmed.take() else {
            return;
        };
        let mut packets = vec![repair.first, repair.again.1, end.1];
        packets.dedup();
        let lost = repair.segments.saturating_sub(repair.needless);
        let kind = if lost == 0 {
            Kind::Reordering {
                segments: repair.segments,
            }
        } else {
            Kind::FastRecovery {
                segments: lost,
                upstream: repair.is_upstream,
            }
        };
        cx.finding(self.side, repair.since, end.0.since(repair.since), &packets, kind);
    }
}
