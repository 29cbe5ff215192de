//! Why a sender paused, judged by the acknowledgment that released it.
//!
//! A turn is the data that one end sends without receiving data in between: a response, a request. At each new segment
//! of a turn, the pause before it is judged. If an acknowledgment without data came just before, the sender had waited
//! for it, and the wait has a name. If nothing was in flight, the application had nothing to send.
//!
//! A pause at the capture point need not be one at the sender. The line's rate, timestamps and their echoes distinguish
//! it from transmission time, queueing and data sent before an acknowledgment arrived. If the evidence leaves an
//! innocent explanation, nothing is reported.
//!
//! The first two predicates are those of Heidemann (1997) and of the reference's trace detectors: G = 100 ms, and 10 ms
//! for "at once". The general ones measure from the smallest round-trip time, so they hold at any capture point.

use super::half::{AckEvent, Half, NEAR, Sent};
use crate::context::Context;
use crate::finding::{AckTimer, Kind};
use crate::seq::SeqNum;
use core::time::Duration;
use units::Instant;

/// Longest time at the sender between an acknowledgment and the segment it releases.
const RELEASE: Duration = Duration::from_millis(3);
/// Shorter holds of a short segment are not reported.
const HELD_LEAST: Duration = Duration::from_millis(5);
/// Longest delay of an acknowledgment by a timer: the 500 ms of RFC 1122, and a tick.
const TIMER_MAX: Duration = Duration::from_millis(550);
/// Header bytes of a segment, for its transmission time.
const HEADERS: f64 = 52.0;
/// Minimum pause with nothing in flight that counts.
const PAUSE_LEAST: Duration = Duration::from_millis(20);

/// State of a turn.
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
    /// Whether a segment was retransmitted in this turn.
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

/// A candidate, confirmed by the end of the turn.
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

/// A pause and the acknowledgment that ended it.
struct Release<'a> {
    ack: &'a AckEvent,
    previous: Sent,
    current: Sent,
    back: Duration,
    base: Duration,
    /// Minimum transmission time of the current segment.
    line: Duration,
}

impl Release<'_> {
    /// Time from the previous segment to this one.
    fn gap(&self) -> Duration {
        self.current.first_at.since(self.previous.first_at)
    }

    /// Cost of the wait for the acknowledgment, without queueing delay after it.
    fn cost(&self, general: Option<&Kind>) -> Duration {
        match general {
            Some(Kind::DelayedAck { excess, .. }) => *excess,
            Some(_) => self.gap().min(self.ack.delay + self.back + self.line),
            None => self.gap(),
        }
    }

    /// The paper's criterion: the segment follows the acknowledgment within 10 ms.
    fn is_prompt(&self, cx: &Context<'_>) -> bool {
        self.current.first_at.since(self.ack.at) < cx.thresholds.prompt
    }

    /// The criterion for any capture point: the segment came when a reaction to the acknowledgment could, and its
    /// sender had received that.
    fn is_released(&self) -> bool {
        let after = self.current.first_at.since(self.ack.at);
        let is_possible = self.back < NEAR || after >= self.back.mul_f64(0.9);
        self.has_heard() && is_possible && after < RELEASE + self.back
    }

    /// Whether the sender had received the acknowledgment, as far as its timestamps tell.
    fn has_heard(&self) -> bool {
        self.current
            .echo
            .zip(self.ack.stamp)
            .is_none_or(|(echo, stamp)| SeqNum(echo) - SeqNum(stamp) >= 0)
    }

    /// Whether the sender held it back, so that it was not merely transmitted behind the previous segment.
    fn is_held(&self) -> bool {
        let sent_apart = match self.current.tsval.zip(self.previous.tsval) {
            // A clock slower than 1 kHz ticks less often, so some holds are missed.
            Some((now, before)) => {
                Duration::from_millis(u64::try_from(SeqNum(now) - SeqNum(before)).unwrap_or(0) + 1)
            }
            None => Duration::MAX,
        };
        let gap = self.gap();
        gap.min(sent_apart) >= HELD_LEAST && gap >= self.line.mul_f64(1.25) + RELEASE
    }

    /// Whether a timer held it for longer than G, beyond the time of the path.
    fn is_stalled(&self, cx: &Context<'_>) -> bool {
        self.ack.delay.saturating_sub(self.base) > cx.thresholds.stall
    }

    /// The acknowledgment's delay beyond the path, if a timer must have held it: silence before it, and too little data
    /// in flight to force it.
    fn timer(&self, cx: &Context<'_>) -> Option<(AckTimer, Duration)> {
        let excess = self.ack.delay.saturating_sub(self.base);
        let least = cx.thresholds.delayed_ack;
        (excess >= least && excess <= TIMER_MAX && self.ack.silence >= least && self.ack.before_full < 2)
            .then(|| (AckTimer::of(excess), excess))
    }
}

impl Half {
    /// Judges the pause before a new data segment, placed as [`super::half::Arrival::New`]. `back` is the round-trip
    /// time from the capture point to the sender; `carries_fin` says whether the segment has a FIN.
    pub(super) fn judge(&mut self, back: Duration, carries_fin: bool, cx: &mut Context<'_>) {
        // A segment that did not fit into the bounded queue cannot be compared.
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

    /// Minimum transmission time seen for a segment of this size.
    fn line_time(&self, segment: &Sent) -> Duration {
        if self.line > 0.0 {
            Duration::from_secs_f64((f64::from(segment.payload) + HEADERS) / self.line)
        } else {
            Duration::ZERO
        }
    }

    /// Short initial segment: D1 is short, D2 full, and only these two are in flight. The acknowledgment of D2 is later
    /// than G, and D3 follows it at once.
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

    /// Odd/short final segment, as far as can be told before the turn ends. The segment is short; an earlier
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
        // A window with room for more cannot have held the segment.
        let window_had_room = (ack.before == 1 && !previous.full) || wanted <= self.peak;
        if held && !current.full && ack.after == 0 && ack.before > 0 && window_had_room {
            return Some(Kind::NagleBuffering {
                held_len: current.payload,
                timer: timer.map(|(timer, _)| timer),
            });
        }
        timer.map(|(timer, excess)| Kind::DelayedAck { timer, excess })
    }

    /// Judges a pause with everything acknowledged: nothing was sent, or it waited on the way.
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
        // The segment itself is in flight already; before it, nothing may have been.
        let was_empty = self.known >= previous.end
            && release.has_heard()
            && (self.is_at_sender(release.back) || (sent.is_some() && self.had_room(release)));
        if was_empty && idle >= least {
            self.turn.pauses.add(idle, &previous, &current);
        }
    }

    /// Whether the sender is so near that packets were sent just before they passed.
    fn is_at_sender(&self, back: Duration) -> bool {
        back < NEAR
    }

    /// Whether the sender's window had room, so that it did not wait for a late acknowledgment: more had been in flight
    /// before, or it had sent a short segment instead of a full one. After a loss, a late segment may be a
    /// retransmission.
    fn had_room(&self, release: &Release<'_>) -> bool {
        let (current, previous) = (release.current, release.previous);
        let reached = self.stats.flight.max;
        let has_opened = reached >= 2 * u64::from(self.mss());
        !self.is_lossy
            && (previous.flight + u64::from(current.payload) <= reached || (has_opened && !previous.full))
    }

    /// Records the peer's acknowledgment of this turn's data up to `ack`.
    pub(super) fn note_ack(&mut self, ack: u64) {
        if self.turn.has_begun() {
            self.turn.acked_before = self.turn.acked.replace(ack);
        }
    }

    /// More data follows, so the candidate for a final segment was none.
    fn refute_odd(&mut self, cx: &mut Context<'_>) {
        if let Some(odd) = self.turn.odd.take()
            && let Some(kind) = odd.otherwise
        {
            cx.finding(self.side, odd.at, odd.otherwise_cost, &odd.packets, kind);
        }
    }

    /// Ends the turn: the peer sent data after receiving everything, or the connection ends.
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
