//! Packets under way in one direction: round trips by their acknowledgments, and losses. A packet counts as lost only if its data
//! is sent again before its acknowledgment is seen.

use super::protect::Space;
use crate::budget::Budget;
use crate::connection::Side;
use crate::context::Context;
use crate::finding::Kind;
use crate::times::Stamp;
use core::time::Duration;
use std::collections::BTreeMap;

/// Limit on the pieces of data remembered per packet.
const PIECES_MAX: usize = 8;
/// Limit on packets per connection and direction that were declared lost and may be acknowledged later.
const DECLARED_MAX: usize = 256;

/// A piece of a stream, or of a CRYPTO sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Stream identifier; above 2^62 for a CRYPTO sequence.
    pub(super) stream: u64,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// A packet under way.
#[derive(Debug)]
struct Sent {
    at: Stamp,
    pieces: Vec<Piece>,
    /// Whether an acknowledgment of a later packet left it out.
    is_skipped: bool,
}

/// Retransmissions of one round of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Episode {
    /// The first lost packet; if it was lost before the capture point, the one that showed the hole.
    pub(super) lost: Stamp,
    /// The first packet that sent its data again.
    pub(super) first: Stamp,
    /// The last packet that sent data again.
    pub(super) last: Stamp,
    /// Number of lost packets.
    pub(super) packets: u32,
    /// Whether acknowledgments had reported the first loss: no timer was needed.
    pub(super) is_reported: bool,
    /// Whether they were lost before the capture point.
    pub(super) upstream: bool,
}

/// The result of an acknowledgment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Acked {
    pub(super) rtt: Option<Duration>,
    /// Packets that had been declared lost.
    pub(super) spurious: u64,
    /// Whether nothing is under way any more.
    pub(super) emptied: bool,
}

/// The packets of one direction.
#[derive(Debug, Default)]
pub(super) struct Flight {
    sent: [BTreeMap<u64, Sent>; 3],
    declared: Vec<(Space, u64)>,
    episode: Option<Episode>,
    /// Whether a packet could not be remembered: from here on, "nothing under way" is not known.
    pub(super) is_partial: bool,
}

impl Flight {
    /// Remembers a packet that the peer must acknowledge.
    pub(super) fn sent(
        &mut self,
        space: Space,
        number: u64,
        at: Stamp,
        pieces: Vec<Piece>,
        budget: &mut Budget,
    ) {
        if budget.segments == 0 {
            budget.refused += 1;
            self.is_partial = true;
            return;
        }
        let mut pieces = pieces;
        pieces.truncate(PIECES_MAX);
        let packet = Sent {
            at,
            pieces,
            is_skipped: false,
        };
        if self.sent[space as usize].insert(number, packet).is_none() {
            budget.segments -= 1;
        }
    }

    /// The peer has discarded all packets of this space.
    pub(super) fn discard(&mut self, space: Space, budget: &mut Budget) {
        let sent = core::mem::take(&mut self.sent[space as usize]);
        budget.segments += sent.len();
    }

    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.sent.iter().all(BTreeMap::is_empty)
    }

    /// Takes the ranges of an ACK frame of the peer, the largest first.
    pub(super) fn acked(
        &mut self,
        space: Space,
        ranges: &[(u64, u64)],
        now: Stamp,
        budget: &mut Budget,
    ) -> Acked {
        let Some(&(_, largest)) = ranges.first() else {
            return Acked::default();
        };
        let was_empty = self.is_empty();
        let sent = &mut self.sent[space as usize];
        let mut acked = Acked::default();
        for &(low, high) in ranges {
            // RFC 9002, section 5.1: only the largest number yields a sample, when it is acknowledged first.
            if high == largest
                && let Some(packet) = sent.get(&largest)
            {
                acked.rtt = Some(now.0.since(packet.at.0));
            }
            let numbers: Vec<u64> = sent.range(low..=high).map(|(number, _)| *number).collect();
            for number in numbers {
                sent.remove(&number);
                budget.segments += 1;
            }
            let before = self.declared.len();
            self.declared
                .retain(|(of, number)| *of != space || !(low..=high).contains(number));
            acked.spurious += (before - self.declared.len()) as u64;
        }
        for (_, packet) in sent.range_mut(..largest) {
            packet.is_skipped = true;
        }
        acked.emptied = !was_empty && self.is_empty();
        acked
    }

    /// Data was sent again in the packet `now`: the unacknowledged packets that had it are lost. Returns how many, and an
    /// episode that ended before.
    pub(super) fn again(
        &mut self,
        space: Space,
        piece: Piece,
        now: Stamp,
        budget: &mut Budget,
    ) -> (u32, Option<Episode>) {
        let has = |packet: &Sent| {
            packet
                .pieces
                .iter()
                .any(|had| had.stream == piece.stream && had.from < piece.to && piece.from < had.to)
        };
        let sent = &mut self.sent[space as usize];
        let lost: Vec<u64> = sent
            .iter()
            .filter(|(_, packet)| packet.at.1 != now.1 && has(packet))
            .map(|(number, _)| *number)
            .collect();
        let mut ended = None;
        for number in &lost {
            let Some(packet) = sent.remove(number) else {
                continue;
            };
            budget.segments += 1;
            if self.declared.len() >= DECLARED_MAX {
                self.declared.remove(0);
            }
            self.declared.push((space, *number));
            let before = join(&mut self.episode, packet.at, now, packet.is_skipped, false);
            ended = ended.or(before);
        }
        (lost.len() as u32, ended)
    }

    /// The packet `now` filled a hole that was first seen at `hole`: its data was lost before the capture point. Returns an episode
    /// that ended before.
    pub(super) fn filled(&mut self, hole: Stamp, now: Stamp) -> Option<Episode> {
        join(&mut self.episode, hole, now, true, true)
    }

    /// The episode at the end of the connection. Returns everything to the budget.
    pub(super) fn finish(&mut self, budget: &mut Budget) -> Option<Episode> {
        for sent in &mut self.sent {
            budget.segments += sent.len();
            sent.clear();
        }
        self.episode.take()
    }
}

/// Reports one round of loss.
pub(super) fn report(side: Side, episode: Option<Episode>, cx: &mut Context<'_>) {
    let Some(episode) = episode else {
        return;
    };
    let kind = if episode.is_reported {
        Kind::QuicLossRecovery {
            packets_lost: episode.packets,
            upstream: episode.upstream,
        }
    } else {
        Kind::QuicProbeTimeout {
            packets_resent: episode.packets,
        }
    };
    let cost = episode.last.0.since(episode.lost.0);
    let packets = [episode.lost.1, episode.first.1];
    cx.finding(side, episode.lost.0, cost, &packets, kind);
}

/// Adds a loss to the episode, or begins another one if the packet was sent after the repair so far.
fn join(
    episode: &mut Option<Episode>,
    lost: Stamp,
    now: Stamp,
    is_reported: bool,
    upstream: bool,
) -> Option<Episode> {
    if let Some(open) = episode
        && lost.1 <= open.last.1
        && open.upstream == upstream
    {
        open.packets += 1;
        open.last = now;
        return None;
    }
    episode.replace(Episode {
        lost,
        first: now,
        last: now,
        packets: 1,
        is_reported,
        upstream,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Instant;

    fn at(ms: u64) -> Stamp {
        (Instant::from_nanos(ms * 1_000_000), ms)
    }

    fn piece(from: u64, to: u64) -> Piece {
        Piece { stream: 0, from, to }
    }

    fn budget() -> Budget {
        Budget {
            segments: 4,
            bytes: 0,
            refused: 0,
        }
    }

    #[test]
    fn a_loss_is_a_packet_left_out_whose_data_comes_again() {
        const SPACE: Space = Space::Application;
        let (mut flight, mut budget) = (Flight::default(), budget());
        for number in 0..3 {
            let pieces = vec![piece(number * 10, number * 10 + 10)];
            flight.sent(SPACE, number, at(number + 1), pieces, &mut budget);
        }
        let acked = flight.acked(SPACE, &[(2, 2), (0, 0)], at(33), &mut budget);
        assert_eq!(acked.rtt, Some(Duration::from_millis(30)));
        assert!(!acked.emptied);
        // Bytes that were acknowledged are no loss.
        assert_eq!(flight.again(SPACE, piece(0, 10), at(34), &mut budget), (0, None));
        assert_eq!(flight.again(SPACE, piece(10, 20), at(35), &mut budget), (1, None));
        let episode = flight.finish(&mut budget).expect("a loss");
        assert_eq!((episode.lost.1, episode.first.1, episode.packets), (2, 35, 1));
        assert!(episode.is_reported && !episode.upstream);
        assert_eq!(budget.segments, 4);
    }

    #[test]
    fn a_loss_without_a_report_took_a_timer_and_may_be_spurious() {
        const SPACE: Space = Space::Initial;
        let (mut flight, mut budget) = (Flight::default(), budget());
        flight.sent(SPACE, 0, at(1), vec![piece(0, 10)], &mut budget);
        assert_eq!(flight.again(SPACE, piece(0, 10), at(200), &mut budget).0, 1);
        flight.sent(SPACE, 1, at(200), vec![piece(0, 10)], &mut budget);
        let acked = flight.acked(SPACE, &[(0, 1)], at(230), &mut budget);
        assert_eq!((acked.spurious, acked.emptied), (1, true));
        assert!(
            flight
                .finish(&mut budget)
                .is_some_and(|episode| !episode.is_reported)
        );
    }

    #[test]
    fn beyond_the_limit_packets_are_counted_only() {
        let (mut flight, mut budget) = (Flight::default(), budget());
        for number in 0..6 {
            flight.sent(Space::Handshake, number, at(1), Vec::new(), &mut budget);
        }
        assert_eq!((budget.segments, budget.refused), (0, 2));
        assert!(flight.is_partial);
        flight.finish(&mut budget);
        assert_eq!(budget.segments, 4);
    }
}
