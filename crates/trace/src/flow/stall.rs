//! Why a sender paused: the acknowledgment that released it tells.
//!
//! A turn is the data one end sends without hearing data from the other in between: a reply, a request.
//! At each new segment of a turn the pause before it is judged. If an acknowledgment without data
//! came just before, the sender had waited for it, and the wait has a name; if nothing was under
//! way, the application had nothing to send.
//!
//! A pause at the capture point need not be one at the sender. What the line took to deliver a segment, what waited
//! in a queue, and what was sent before an acknowledgment arrived is told apart by the line's rate, by time stamps
//! and their echoes; where the evidence leaves an innocent explanation nothing is reported.
//!
//! The first two predicates are those of Heidemann (1997) and of the reference's trace detectors: G = 100 ms,
//! 10 ms for "at once". The general ones measure from the smallest round trip, so that they hold at any
//! capture point.

use super::Context;
use super::half::{AckEvent, Half, NEAR, Sent};
use crate::finding::{AckTimer, Kind};
use crate::seq::SeqNum;
use core::time::Duration;
use measure::Instant;

/// Time between a released segment's acknowledgment and the segment, at the sender.
const RELEASE: Duration = Duration::from_millis(3);
/// Held for less, a short segment is not worth a word.
const HELD_LEAST: Duration = Duration::from_millis(5);
/// No timer holds an acknowledgment longer: the 500 ms of RFC 1122, and a tick.
const TIMER_MAX: Duration = Duration::from_millis(550);
/// Headers of a segment, when the time it takes the line is judged.
const HEADERS: f64 = 52.0;
/// A pause with nothing under way counts from here.
const PAUSE_LEAST: Duration = Duration::from_millis(20);

/// What a turn has seen so far.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// New data segments.
    segments: u64,
    first: Option<Sent>,
    second: Option<Sent>,
    /// The segment before the current one.
    previous: Option<Sent>,
    /// Highest acknowledgment of this turn's data, and the one before it.
    acked: Option<u64>,
    acked_before: Option<u64>,
    /// An odd/short final segment, if the turn ends with it.
    odd: Option<Odd>,
    /// Something was sent again in this turn.
    disturbed: bool,
    pauses: Pauses,
    queued: Pauses,
}

/// Pauses of one kind.
#[derive(Debug, Default)]
struct Pauses {
    times: u64,
    sum: Duration,
    longest: (Duration, u64, u64),
}

impl Pauses {
    fn add(&mut self, pause: Duration, previous: &Sent, current: &Sent) {
        self.times += 1;
        self.sum += pause;
        if pause >= self.longest.0 {
            self.longest = (pause, previous.packet, current.packet);
        }
    }

    fn packets(&self) -> [u64; 2] {
        [self.longest.1, self.longest.2]
    }
}

/// A candidate that the end of the turn confirms.
#[derive(Debug)]
struct Odd {
    finding: Kind,
    otherwise: Option<Kind>,
    packets: [u64; 3],
    at: Instant,
    cost: Duration,
    otherwise_cost: Duration,
}

impl Turn {
    pub(super) fn disturbed(&mut self) {
        self.disturbed = true;
    }

    pub(super) fn has_begun(&self) -> bool {
        self.segments > 0
    }
}

/// The pause and what ended it.
struct Release<'a> {
    ack: &'a AckEvent,
    previous: Sent,
    current: Sent,
    back: Duration,
    base: Duration,
    /// The least time the line takes for the current segment.
    line: Duration,
}

impl Release<'_> {
    /// From the previous segment to this one.
    fn gap(&self) -> Duration {
        self.current.first_at.since(self.previous.first_at)
    }

    /// What the wait for the acknowledgment cost, without what a queue may have added behind it.
    fn cost(&self, general: Option<&Kind>) -> Duration {
        match general {
            Some(Kind::DelayedAck { excess, .. }) => *excess,
            Some(_) => self.gap().min(self.ack.delay + self.back + self.line),
            None => self.gap(),
        }
    }

    /// The predicates of the paper: the segment follows the acknowledgment within 10 ms.
    fn is_prompt(&self, cx: &Context<'_>) -> bool {
        self.current.first_at.since(self.ack.at) < cx.thresholds.prompt
    }

    /// The same from any capture point: it came when an answer to the acknowledgment could, and its sender had heard it.
    fn is_released(&self) -> bool {
        let after = self.current.first_at.since(self.ack.at);
        let is_possible = self.back < NEAR || after >= self.back.mul_f64(0.9);
        self.has_heard() && is_possible && after < RELEASE + self.back
    }

    /// Its sender had the acknowledgment, as far as it says.
    fn has_heard(&self) -> bool {
        self.current
            .echo
            .zip(self.ack.stamp)
            .is_none_or(|(echo, stamp)| SeqNum(echo) - SeqNum(stamp) >= 0)
    }

    /// It was held back by its sender, not merely delivered behind the segment before it.
    fn is_held(&self) -> bool {
        let sent_apart = match self.current.tsval.zip(self.previous.tsval) {
            // A clock slower than a millisecond ticks less often, and some holds are missed.
            Some((now, before)) => {
                Duration::from_millis(u64::try_from(SeqNum(now) - SeqNum(before)).unwrap_or(0) + 1)
            }
            None => Duration::MAX,
        };
        let gap = self.gap();
        gap.min(sent_apart) >= HELD_LEAST && gap >= self.line.mul_f64(1.25) + RELEASE
    }

    /// Held by a timer for longer than G: what the path takes anyway is no stall.
    fn is_stalled(&self, cx: &Context<'_>) -> bool {
        self.ack.delay.saturating_sub(self.base) > cx.thresholds.stall
    }

    /// The acknowledgment's delay beyond the path, if a timer must have held it: silence before it, and too
    /// little data under way to force it.
    fn timer(&self, cx: &Context<'_>) -> Option<(AckTimer, Duration)> {
        let excess = self.ack.delay.saturating_sub(self.base);
        let least = cx.thresholds.delayed_ack;
        (excess >= least && excess <= TIMER_MAX && self.ack.silence >= least && self.ack.before_full < 2)
            .then(|| (AckTimer::of(excess), excess))
    }
}

impl Half {
    /// A new data segment was placed as [`super::half::Arrival::New`]. `back` is the round trip from the capture point to the
    /// sender, `is_final_flag` says that it carries a FIN.
    pub(super) fn judge(&mut self, back: Duration, carries_fin: bool, cx: &mut Context<'_>) {
        // Without a place in the bounded queue there is nothing to compare with.
        let Some(current) = self.outstanding.back().copied().filter(|s| s.packet == cx.number) else {
            self.last_data = Some((cx.at, cx.number));
            return;
        };
        self.judge_pause(current, back, carries_fin, cx);
        if current.full
            && let Some(previous) = self.turn.previous
        {
            let gap = current.first_at.since(previous.first_at).as_secs_f64();
            if gap > 0.0 {
                self.line = self.line.max((f64::from(current.payload) + HEADERS) / gap);
            }
        }
        let turn = &mut self.turn;
        turn.segments += 1;
        match turn.segments {
            1 => turn.first = Some(current),
            2 => turn.second = Some(current),
            _ => {}
        }
        turn.previous = Some(current);
        self.last_data = Some((cx.at, cx.number));
    }

    fn judge_pause(&mut self, current: Sent, back: Duration, carries_fin: bool, cx: &mut Context<'_>) {
        self.refute_odd(cx);
        let Some(previous) = self.turn.previous else {
            return;
        };
        let ack = self.last_ack.filter(|ack| ack.at >= previous.first_at);
        let base = self.base_rtt();
        let Some(ack) = ack.filter(|ack| ack.pure) else {
            return;
        };
        if self.turn.disturbed {
            return;
        }
        let release = Release {
            ack: &ack,
            previous,
            current,
            back,
            base,
            line: self.line_time(&current),
        };
        let timer = release.timer(cx);
        let general = release
            .is_released()
            .then(|| self.general(&release, timer))
            .flatten();
        let cost = release.cost(general.as_ref());
        if self.is_short_initial(&release, cx) {
            let (first, second) = (self.turn.first.unwrap_or(previous), previous);
            let packets = [first.packet, second.packet, ack.packet, current.packet];
            let kind = Kind::ShortInitialSegment {
                first_len: first.payload,
                ack_delay: ack.delay,
            };
            cx.finding(self.side, cx.at, release.gap(), &packets, kind);
        } else if !carries_fin && self.is_odd_final(&release, cx) {
            self.turn.odd = Some(Odd {
                finding: Kind::OddShortFinalSegment {
                    odd_len: previous.payload,
                    final_len: current.payload,
                    ack_delay: ack.delay,
                },
                otherwise: general,
                packets: [previous.packet, ack.packet, current.packet],
                at: cx.at,
                cost: release.gap(),
                otherwise_cost: cost,
            });
        } else if let Some(kind) = general {
            cx.finding(
                self.side,
                cx.at,
                cost,
                &[previous.packet, ack.packet, current.packet],
                kind,
            );
        } else if ack.after == 0 {
            self.pause(&release, cx);
        }
    }

    /// The least time the line has been seen to take for so much.
    fn line_time(&self, segment: &Sent) -> Duration {
        if self.line > 0.0 {
            Duration::from_secs_f64((f64::from(segment.payload) + HEADERS) / self.line)
        } else {
            Duration::ZERO
        }
    }

    /// Short initial segment: D1 short, D2 full, both and only they under way, the acknowledgment of D2 later than
    /// G, D3 at once after it.
    fn is_short_initial(&self, release: &Release<'_>, cx: &Context<'_>) -> bool {
        let turn = &self.turn;
        let (Some(first), Some(second)) = (turn.first, turn.second) else {
            return false;
        };
        turn.segments == 2
            && !first.full
            && second.full
            && release.ack.before == 2
            && release.ack.before_full < 2
            && release.ack.newest.end >= second.end
            && release.is_stalled(cx)
            && release.is_prompt(cx)
    }

    /// Odd/short final segment, as far as can be told before the turn ends: the segment is short, an earlier
    /// acknowledgment left exactly the one before it, whose own came later than G; this one follows at once.
    fn is_odd_final(&self, release: &Release<'_>, cx: &Context<'_>) -> bool {
        let (current, previous) = (release.current, release.previous);
        !current.full
            && u64::from(current.payload) < self.peer_window_max(cx) / 2
            && self.turn.acked_before == Some(previous.start)
            && release.ack.before == 1
            && release.ack.newest.end >= previous.end
            && release.is_stalled(cx)
            && release.is_prompt(cx)
    }

    fn peer_window_max(&self, cx: &Context<'_>) -> u64 {
        cx.peer_window_max
    }

    /// Nagle's algorithm or the initial window, with or without a timer.
    fn general(&self, release: &Release<'_>, timer: Option<(AckTimer, Duration)>) -> Option<Kind> {
        let (ack, current, previous) = (release.ack, release.current, release.previous);
        let held = release.is_held();
        let wanted = ack.before_bytes + u64::from(current.payload);
        // A window that had room for more cannot have been what held the segment.
        let window_had_room = (ack.before == 1 && !previous.full) || wanted <= self.peak;
        if held && !current.full && ack.after == 0 && ack.before > 0 && window_had_room {
            return Some(Kind::NagleBuffering {
                held_len: current.payload,
                timer: timer.map(|(timer, _)| timer),
            });
        }
        timer.map(|(timer, excess)| Kind::DelayedAck { timer, excess })
    }

    /// Everything that had come was acknowledged, and then nothing came: because nothing was sent, or because it waited.
    fn pause(&mut self, release: &Release<'_>, cx: &Context<'_>) {
        let (current, previous) = (release.current, release.previous);
        if self.acked < previous.end {
            return;
        }
        let least = PAUSE_LEAST.max(self.base_rtt() + release.back);
        let came = cx.at.since(release.ack.at).saturating_sub(release.back);
        if came < least {
            return;
        }
        let (before, after) = (
            (previous.tsval, previous.first_at),
            (current.tsval, current.first_at),
        );
        let queued = self.stamps.spread(before, after);
        if queued >= least && queued >= release.line.mul_f64(3.0) {
            self.turn.queued.add(queued, &previous, &current);
            return;
        }
        let sent = self.stamps.unqueued(current.tsval, current.first_at);
        let idle = match sent {
            Some(sent) => sent.since(release.ack.at).saturating_sub(release.back),
            None => came,
        };
        // The segment itself is under way already; before it, nothing may have been.
        let was_empty = self.known >= previous.end
            && release.has_heard()
            && (self.is_at_sender(release.back) || (sent.is_some() && self.had_room(release)));
        if was_empty && idle >= least {
            self.turn.pauses.add(idle, &previous, &current);
        }
    }

    /// The sender is so near that what passes was sent just now.
    fn is_at_sender(&self, back: Duration) -> bool {
        back < NEAR
    }

    /// The sender's window did not make it wait for an acknowledgment that was late to arrive: more had been under way
    /// before, or it had sent a short segment although it might have sent a full one. Where something was lost, what
    /// comes late may be a repetition.
    fn had_room(&self, release: &Release<'_>) -> bool {
        let (current, previous) = (release.current, release.previous);
        let reached = self.stats.flight.max;
        let has_opened = reached >= 2 * u64::from(self.mss());
        !self.is_lossy
            && (previous.flight + u64::from(current.payload) <= reached || (has_opened && !previous.full))
    }

    /// The peer acknowledged this turn's data up to `ack`.
    pub(super) fn note_ack(&mut self, ack: u64) {
        if self.turn.has_begun() {
            self.turn.acked_before = self.turn.acked.replace(ack);
        }
    }

    /// More data follows: what looked like a final segment was none.
    fn refute_odd(&mut self, cx: &mut Context<'_>) {
        if let Some(odd) = self.turn.odd.take()
            && let Some(kind) = odd.otherwise
        {
            cx.finding(self.side, odd.at, odd.otherwise_cost, &odd.packets, kind);
        }
    }

    /// The turn is over: the peer sent data after hearing everything, or the connection ends.
    pub(super) fn end_turn(&mut self, cx: &mut Context<'_>) {
        let turn = core::mem::take(&mut self.turn);
        if let Some(odd) = turn.odd {
            cx.finding(self.side, odd.at, odd.cost, &odd.packets, odd.finding);
        }
        let (pauses, queued) = (turn.pauses, turn.queued);
        if pauses.times > 0 && !turn.disturbed {
            self.stats.application_limited += pauses.sum;
            let kind = Kind::ApplicationLimited { pauses: pauses.times };
            cx.finding(self.side, cx.at, pauses.sum, &pauses.packets(), kind);
        }
        if queued.times > 0 {
            let kind = Kind::QueuedInNetwork { pauses: queued.times };
            cx.finding(self.side, cx.at, queued.sum, &queued.packets(), kind);
        }
        self.finish_restart(cx);
    }
}
