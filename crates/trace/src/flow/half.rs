//! One direction of a connection: sequence space, acknowledgments, retransmissions, round-trip times, flight.
//!
//! "The sender" is the end whose data this is. The capture point may be anywhere on the path. The time from there to
//! the sender and back is the other direction's smallest round-trip time, and an acknowledgment counts as known to the
//! sender only after that time, or with timestamps once the sender echoes it. So flights and congestion windows mean
//! nearly the same whether the capture was made at the sender or at the receiver. Packets lost between the sender and
//! the capture point are in none of the figures.

use super::repair::{Hole, Repair, Unconfirmed};
use super::restart::Restart;
use super::stall::Turn;
use super::stamps::Stamps;
use crate::connection::Side;
use crate::context::Context;
use crate::direction::Direction;
use crate::packet::{Flags, Segment};
use crate::seq::{SeqNum, Space};
use core::time::Duration;
use std::collections::VecDeque;
use units::Instant;

/// Limit on unseen ranges below the highest sequence number, per direction.
const HOLES_MAX: usize = 64;
/// Limit on retransmissions remembered per direction in case the receiver reports them as duplicates.
const REPEATS_MAX: usize = 64;
/// Round-trip times below this count as zero when acknowledgments are timed back to the sender.
pub(super) const NEAR: Duration = Duration::from_millis(1);
/// Minimum retransmission timeout (Linux; the RFC's own minimum is a second).
pub(super) const RTO_MIN: Duration = Duration::from_millis(200);
/// Minimum size of a full segment: every IPv4 host must accept this much.
const MSS_LEAST: u32 = 536;

/// A segment that awaits its acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) payload: u32,
    pub(super) full: bool,
    pub(super) first_at: Instant,
    pub(super) last_at: Instant,
    pub(super) packet: u64,
    pub(super) transmissions: u32,
    /// Whether an earlier segment passed after it, so that its acknowledgment waited for that one.
    is_overtaken: bool,
    pub(super) tsval: Option<u32>,
    /// The peer's timestamp that it echoes: shows what the sender had received when it sent this.
    pub(super) echo: Option<u32>,
    /// Bytes in flight including it, as the sender knew them.
    pub(super) flight: u64,
}

/// A timeout whose retransmission has not been acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expired {
    pub(super) at: Instant,
    pub(super) packets: [u64; 2],
    pub(super) transmissions: u32,
    pub(super) cost: Duration,
    tsval: Option<u32>,
    start: u64,
    /// Whether the receiver reported the retransmission as a duplicate.
    is_duplicate: bool,
}

/// Cause of a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Fast,
    Timeout,
    /// No other cause: the last segment again, before its timer can have expired.
    Probe,
}

/// A retransmitted range, kept in case the receiver reports it as a duplicate.
#[derive(Clone, Copy, Debug)]
struct Repeat {
    start: u64,
    end: u64,
    cause: Cause,
}

/// Effect of an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckEvent {
    pub(super) at: Instant,
    pub(super) packet: u64,
    /// Timestamp of the acknowledgment's sender.
    pub(super) stamp: Option<u32>,
    /// Whether it carried no payload.
    pub(super) pure: bool,
    /// Data segments in flight before it.
    pub(super) before: u32,
    /// Full segments among them.
    pub(super) before_full: u32,
    /// Bytes in flight before it.
    pub(super) before_bytes: u64,
    /// Data segments in flight after it.
    pub(super) after: u32,
    /// Newest segment it covers, and how long that had waited.
    pub(super) newest: Sent,
    pub(super) delay: Duration,
    /// Silence on the connection before it.
    pub(super) silence: Duration,
}

/// Class of a data, SYN or FIN segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Beyond everything seen so far.
    New,
    /// Below the highest byte, but not seen before.
    Late,
    /// Seen before.
    Repeated,
    /// Seen before, and repeated into a closed window to probe it.
    WindowProbe,
    KeepAlive,
}

#[derive(Debug)]
pub(super) struct Half {
    pub(super) side: Side,
    pub(super) stats: Direction,
    pub(super) space: Option<Space>,
    /// End of the highest byte (or SYN, FIN) seen.
    pub(super) next: u64,
    /// Highest acknowledgment seen from the peer.
    pub(super) acked: u64,
    /// Highest acknowledgment that had reached the sender when it sent the current packet.
    pub(super) known: u64,
    en_route: VecDeque<(Instant, u64, Option<u32>)>,
    first_data: Option<(u64, Instant)>,
    data_end: u64,
    pub(super) fin: Option<u64>,
    pub(super) holes: Vec<Hole>,
    pub(super) outstanding: VecDeque<Sent>,
    /// Whether the direction's first payload byte was acknowledged.
    data_acked: bool,
    /// Largest payload plus TCP options.
    largest: u32,
    /// MSS that the peer announced.
    pub(super) peer_mss: Option<u16>,
    /// Shift that applies to this end's window field; `None` until both SYNs were seen.
    pub(super) shift: Option<u8>,
    /// Whether a SYN with completely captured options arrived.
    has_announced: bool,
    /// This end's clock.
    pub(super) stamps: Stamps,
    /// Whether a packet of this direction was lost or retransmitted.
    pub(super) is_lossy: bool,
    /// Largest rate seen between a segment and the one before it, in bytes per second.
    pub(super) line: f64,
    /// Window that this end advertises.
    pub(super) window: u64,
    window_field: Option<u16>,
    window_base: SeqNum,
    zero_since: Option<(Instant, u64)>,
    zero_probes: u32,
    /// The byte sent as a probe into the peer's closed window.
    asked_with: Option<u64>,
    srtt: Option<(Duration, Duration)>,
    pub(super) duplicates: u32,
    pub(super) sacked_above: bool,
    recovery: Option<(Cause, u64)>,
    duplicate_first: Option<(Instant, u64)>,
    pub(super) repair: Option<Repair>,
    /// A finished repair, while the receiver may still report that nothing was lost.
    pub(super) unconfirmed: Option<Unconfirmed>,
    repeats: VecDeque<Repeat>,
    /// Whether the peer has sent selective acknowledgments.
    pub(super) is_sacked: bool,
    expired: Option<Expired>,
    syn_seen: Option<(Instant, u64)>,
    syn_last: Option<(Instant, u64)>,
    syns: u32,
    last_packet_at: Option<Instant>,
    pub(super) last_data: Option<(Instant, u64)>,
    pub(super) last_ack: Option<AckEvent>,
    flight_changed: Instant,
    flight_area: f64,
    flight_time: Duration,
    round_end: Option<u64>,
    round_peak: u64,
    round_reached: (Instant, u64),
    pub(super) rounds: u32,
    pub(super) initial_flight: u64,
    /// Largest flight since the last loss or restart.
    pub(super) peak: u64,
    /// Time from the capture point to this end and back.
    pub(super) back: Duration,
    window_full: Option<(Instant, u64)>,
    /// Time at which the peer's window closed, while it is closed.
    shut_since: Option<Instant>,
    /// Total time the peer's window had been closed when `window_full` began.
    shut_before_full: Duration,
    window_waits: u64,
    window_worst: (Duration, u64, u64),
    pub(super) turn: Turn,
    pub(super) restart: Option<Restart>,
}

impl Half {
    pub(super) fn new(side: Side) -> Half {
        Half {
            side,
            stats: Direction::default(),
            space: None,
            next: 0,
            acked: 0,
            known: 0,
            en_route: VecDeque::new(),
            first_data: None,
            data_end: 0,
            fin: None,
            holes: Vec::new(),
            outstanding: VecDeque::new(),
            data_acked: false,
            largest: 0,
            peer_mss: None,
            shift: None,
            has_announced: false,
            stamps: Stamps::default(),
            is_lossy: false,
            line: 0.0,
            window: 0,
            window_field: None,
            window_base: SeqNum(0),
            zero_since: None,
            zero_probes: 0,
            asked_with: None,
            srtt: None,
            duplicates: 0,
            sacked_above: false,
            recovery: None,
            duplicate_first: None,
            repair: None,
            unconfirmed: None,
            repeats: VecDeque::new(),
            is_sacked: false,
            expired: None,
            syn_seen: None,
            syn_last: None,
            syns: 0,
            last_packet_at: None,
            last_data: None,
            last_ack: None,
            flight_changed: Instant::ZERO,
            flight_area: 0.0,
            flight_time: Duration::ZERO,
            round_end: None,
            round_peak: 0,
            round_reached: (Instant::ZERO, 0),
            rounds: 0,
            initial_flight: 0,
            peak: 0,
            back: Duration::ZERO,
            window_full: None,
            shut_since: None,
            shut_before_full: Duration::ZERO,
            window_waits: 0,
            window_worst: (Duration::ZERO, 0, 0),
            turn: Turn::default(),
            restart: None,
        }
    }

    /// Smallest round-trip time of this direction; zero while unknown.
    pub(super) fn base_rtt(&self) -> Duration {
        self.stats.rtt.min
    }

    /// Retransmission timeout of RFC 6298 with Linux's minimum; a second before the first sample.
    pub(super) fn rto(&self) -> Duration {
        self.srtt.map_or(Duration::from_secs(1), |(srtt, var)| {
            (srtt + 4 * var).max(RTO_MIN)
        })
    }

    /// Payload plus options of a full segment: the peer's announced MSS, or the largest seen.
    pub(super) fn mss(&self) -> u32 {
        self.peer_mss.map_or(self.largest.max(MSS_LEAST), u32::from)
    }

    /// Bytes in flight as the sender knew them.
    pub(super) fn flight(&self) -> u64 {
        self.next.saturating_sub(self.known)
    }

    /// Whether everything sent was acknowledged.
    pub(super) fn is_quiet(&self) -> bool {
        self.acked >= self.next
    }

    /// Unwraps a sequence number of this direction; the first one seen fixes the numbering.
    pub(super) fn offset(&mut self, seq: SeqNum, is_syn: bool) -> u64 {
        let space = *self.space.get_or_insert_with(|| {
            let origin = if is_syn { seq } else { seq + u32::MAX };
            self.next = if is_syn { Space::BASE } else { Space::BASE + 1 };
            self.acked = self.next;
            self.known = self.next;
            Space::new(origin)
        });
        space.offset(seq, self.next)
    }

    /// Counts the packet, whatever it carries.
    pub(super) fn count(&mut self, segment: &Segment<'_>, at: Instant) {
        let s = &mut self.stats;
        s.volume.packets += 1;
        s.volume.payload += u64::from(segment.payload_len);
        s.volume.headers += u64::from(segment.ip_header) + u64::from(segment.tcp_header);
        let flags = segment.flags;
        let has_data = segment.payload_len > 0;
        s.kinds.syn += u64::from(flags.has(Flags::SYN));
        s.kinds.fin += u64::from(flags.has(Flags::FIN));
        s.kinds.rst += u64::from(flags.has(Flags::RST));
        s.kinds.data += u64::from(has_data);
        let pure = flags.has(Flags::ACK) && !has_data && !flags.has(Flags::SYN | Flags::FIN | Flags::RST);
        s.kinds.ack += u64::from(pure);
        s.with_ack += u64::from(flags.has(Flags::ACK));
        s.pushed += u64::from(flags.has(Flags::PSH));
        if segment.options.sack_blocks > 0 {
            s.sacks += 1;
            s.duplicate_sacks += u64::from(segment.reports_duplicate());
        }
        if let Some((stamp, _)) = segment.options.timestamps {
            s.timestamps = true;
            self.stamps.read(stamp, at);
        }
        if let Some(last) = self.last_packet_at {
            s.idle_max = s.idle_max.max(at.since(last));
        }
        self.last_packet_at = Some(at);
        if has_data {
            s.segment_max = s.segment_max.max(segment.payload_len);
            s.segment_min = match s.segment_min {
                0 => segment.payload_len,
                n => n.min(segment.payload_len),
            };
            let options = u32::from(segment.tcp_header) - 20;
            self.largest = self.largest.max(segment.payload_len + options);
        }
    }

    /// Reads the options of a SYN or SYN-ACK. Retransmissions are counted and, once answered, reported by the flow.
    pub(super) fn syn(&mut self, segment: &Segment<'_>, cx: &Context<'_>) {
        let options = &segment.options;
        self.stats.mss = options.mss;
        self.stats.window_scale = options.window_scale;
        self.stats.sack_permitted = options.sack_permitted;
        self.has_announced = !options.is_cut;
        self.syns += 1;
        self.syn_seen.get_or_insert((cx.at, cx.number));
        self.syn_last = Some((cx.at, cx.number));
    }

    /// Window scale that this end announced, if any; `None` while unknown.
    pub(super) fn announced_scale(&self) -> Option<Option<u8>> {
        self.has_announced.then_some(self.stats.window_scale)
    }

    /// Window that this end advertises; unlimited while its scale is unknown.
    pub(super) fn known_window(&self) -> u64 {
        if self.shift.is_some() || self.window == 0 {
            self.window
        } else {
            u64::MAX
        }
    }

    /// Whether the window field repeats the last one.
    pub(super) fn window_matches(&self, segment: &Segment<'_>) -> bool {
        self.window_field == Some(segment.window)
    }

    /// Payload bytes that the peer has not acknowledged.
    pub(super) fn unacknowledged_data(&self) -> u64 {
        self.data_end.saturating_sub(self.acked)
    }

    /// Time at which the oldest unacknowledged data was sent.
    pub(super) fn oldest_data(&self) -> Option<Instant> {
        self.outstanding
            .iter()
            .find(|s| s.payload > 0)
            .map(|s| s.first_at)
    }

    /// The latest SYN.
    pub(super) fn last_syn(&self) -> Option<(Instant, u64)> {
        self.syn_last
    }

    pub(super) fn syns(&self) -> (u32, Option<(Instant, u64)>) {
        (self.syns, self.syn_seen)
    }

    /// Processes this end's window field; `back` is the peer's state, which the window limits.
    pub(super) fn offer(&mut self, segment: &Segment<'_>, back: &mut Half, cx: &mut Context<'_>) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        let is_syn = segment.flags.has(Flags::SYN);
        let shift = if is_syn { 0 } else { self.shift.unwrap_or(0) };
        let window = u64::from(segment.window) << shift;
        let unchanged_ack = segment.ack == self.window_base;
        if unchanged_ack
            && segment.payload_len == 0
            && !segment.flags.has(Flags::SYN | Flags::FIN)
            && self.window_field.is_some_and(|field| field != segment.window)
        {
            self.stats.window_updates += 1;
        }
        self.window = window;
        self.window_field = Some(segment.window);
        self.window_base = segment.ack;
        if !is_syn && self.shift.is_some() {
            self.stats.window.record(window);
            self.stats.window_min = Some(self.stats.window_min.map_or(window, |least| least.min(window)));
        }
        if window == 0 && !is_syn {
            self.stats.zero_windows += 1;
            if self.zero_since.is_none() {
                self.zero_since = Some((cx.at, cx.number));
                back.shut_since = Some(cx.at);
                self.zero_probes = 0;
            }
        } else if let Some((since, packet)) = self.zero_since.take() {
            back.stats.zero_window += cx.at.since(since);
            back.shut_since = None;
            cx.zero_window(back.side, (since, packet), self.zero_probes);
        }
    }

    /// Total time for which the peer's window has been closed so far.
    fn shut_for(&self, now: Instant) -> Duration {
        let open = self.shut_since.map_or(Duration::ZERO, |since| now.since(since));
        self.stats.zero_window + open
    }

    /// Reports a zero window that never opened.
    pub(super) fn settle_zero_window(&mut self, back: &mut Half, cx: &mut Context<'_>) {
        if let Some((since, packet)) = self.zero_since.take() {
            back.stats.zero_window += cx.at.since(since);
            back.shut_since = None;
            cx.zero_window(back.side, (since, packet), self.zero_probes);
        }
    }

    pub(super) fn probe_counted(&mut self) {
        if self.zero_since.is_some() {
            self.zero_probes += 1;
        }
    }

    /// Processes the peer's acknowledgment of this direction's data. `back` is the smallest round-trip time from the
    /// capture point to this sender; duplicate acknowledgments count for `peer`.
    pub(super) fn acknowledge(
        &mut self,
        segment: &Segment<'_>,
        same_window: bool,
        silence: Duration,
        back: Duration,
        peer: &mut Direction,
        cx: &mut Context<'_>,
    ) {
        let Some(space) = self.space else {
            return;
        };
        let ack = space.offset(segment.ack, self.acked.max(Space::BASE));
        if segment.options.sack_blocks > 0 {
            self.sacked_above = true;
            self.is_sacked = true;
        }
        if segment.reports_duplicate()
            && let Some((left, right)) = segment.options.sack_first
        {
            let near = self.acked.max(Space::BASE);
            self.told_of_duplicate(space.offset(left, near), space.offset(right, near), cx);
        }
        self.confirm_repair(cx);
        let pure = segment.payload_len == 0;
        if ack == self.acked {
            let quiet_flags = !segment.flags.has(Flags::SYN | Flags::FIN | Flags::RST);
            if pure && quiet_flags && same_window && self.next > self.acked {
                peer.duplicate_acks += 1;
                self.duplicates += 1;
                self.duplicate_first.get_or_insert((cx.at, cx.number));
                if self.duplicates == 3 {
                    peer.triple_duplicate_acks += 1;
                }
            }
            return;
        }
        if ack < self.acked {
            return;
        }
        if let Some(expired) = self.expired {
            // Eifel (RFC 3522): an echo older than the retransmission's own timestamp answers the original.
            let echo = segment.options.timestamps.map(|(_, echo)| SeqNum(echo));
            let older = echo
                .zip(expired.tsval)
                .is_some_and(|(echo, sent)| echo - SeqNum(sent) < 0);
            // Or the receiver reports that it has it twice (RFC 3708).
            self.settle_timeout(older || expired.is_duplicate, cx);
        }
        self.settle_flight(cx.at);
        let before_bytes = self.next.saturating_sub(self.acked);
        let count = |queue: &VecDeque<Sent>| {
            let data = queue.iter().filter(|s| s.payload > 0);
            let full = data.clone().filter(|s| s.full).count() as u32;
            (data.count() as u32, full)
        };
        // Stalls have few segments in flight; long queues need no exact count.
        let (before, before_full) = if self.outstanding.len() <= 64 {
            count(&self.outstanding)
        } else {
            (self.outstanding.len() as u32, u32::MAX)
        };
        let mut newest = None;
        let mut covered = 0;
        let mut repeated = None;
        while self.outstanding.front().is_some_and(|s| s.end <= ack) {
            newest = self.outstanding.pop_front();
            repeated = newest.filter(|s| s.transmissions > 1).or(repeated);
            covered += u32::from(newest.is_some_and(|s| s.payload > 0));
            cx.budget.segments += 1;
        }
        if let Some(sent) = newest {
            self.sample(&sent, repeated, segment, cx);
            self.last_ack = Some(AckEvent {
                at: cx.at,
                packet: cx.number,
                stamp: segment.options.timestamps.map(|(value, _)| value),
                pure,
                before,
                before_full,
                before_bytes,
                after: before.saturating_sub(covered),
                newest: sent,
                delay: cx.at.since(sent.last_at),
                silence,
            });
        }
        self.acked = ack;
        self.data_acked |= self.first_data.is_some_and(|(start, _)| ack > start);
        self.duplicates = 0;
        self.duplicate_first = None;
        self.sacked_above = segment.options.sack_blocks > 0;
        if self.recovery.is_some_and(|(_, point)| ack >= point) {
            self.recovery = None;
            if self.repair.is_some_and(|repair| !repair.is_upstream) {
                self.settle_repair(cx);
            }
        }
        if back < NEAR {
            self.learn(ack, cx);
        } else {
            if cx.budget.segments == 0 {
                self.learn(ack, cx);
                return;
            }
            cx.budget.segments -= 1;
            let stamp = segment.options.timestamps.map(|(value, _)| value);
            self.en_route.push_back((cx.at, ack, stamp));
        }
    }

    /// Applies the acknowledgments that had reached the sender when it sent the current packet: those whose timestamps
    /// it has echoed, or without timestamps, those older than the time to the sender and back.
    pub(super) fn catch_up(&mut self, back: Duration, echo: Option<u32>, cx: &mut Context<'_>) {
        self.back = back;
        while let Some(&(at, ack, stamp)) = self.en_route.front() {
            let has_come = match echo.zip(stamp) {
                Some((echo, stamp)) => SeqNum(echo) - SeqNum(stamp) >= 0,
                None => cx.at.since(at) >= back.mul_f64(0.95),
            };
            if !has_come {
                break;
            }
            self.en_route.pop_front();
            cx.budget.segments += 1;
            self.learn(ack, cx);
        }
    }

    fn learn(&mut self, ack: u64, cx: &Context<'_>) {
        self.known = self.known.max(ack);
        if let Some((since, packet)) = self.window_full.take() {
            // The time of a closed window belongs to the zero window, and is counted there.
            let closed = self.shut_for(cx.at).saturating_sub(self.shut_before_full);
            let wait = cx.at.since(since).saturating_sub(closed);
            if wait.is_zero() {
                return;
            }
            self.stats.window_limited += wait;
            self.window_waits += 1;
            if wait >= self.window_worst.0 {
                self.window_worst = (wait, packet, cx.number);
            }
        }
    }

    /// Karn's rule: no sample if an acknowledged segment was sent twice, or if an earlier segment passed after the
    /// newest one, whose acknowledgment then waited for it. A timestamp echo tells which transmission is answered. Such
    /// a sample updates the timeout's estimate but is counted apart, so that the distribution is the one every other
    /// tool reports.
    fn sample(&mut self, newest: &Sent, repeated: Option<Sent>, segment: &Segment<'_>, cx: &mut Context<'_>) {
        let echo = segment.options.timestamps.map(|(_, echo)| echo);
        let rtt = match repeated {
            None if newest.is_overtaken => return,
            None => {
                let rtt = cx.at.since(newest.first_at);
                self.stats.rtt.record(rtt);
                rtt
            }
            Some(sent) if echo.is_some() && sent.tsval == echo => {
                self.stats.rtt_by_echo += 1;
                cx.at.since(sent.last_at)
            }
            Some(_) => return,
        };
        self.srtt = Some(match self.srtt {
            None => (rtt, rtt / 2),
            Some((srtt, var)) => {
                let error = rtt.abs_diff(srtt);
                ((srtt * 7 + rtt) / 8, (var * 3 + error) / 4)
            }
        });
        cx.series_rtt(self.side, rtt);
    }

    /// Places a segment that occupies sequence space, and classifies it.
    pub(super) fn place(
        &mut self,
        segment: &Segment<'_>,
        start: u64,
        peer_window: u64,
        cx: &mut Context<'_>,
    ) -> Arrival {
        let flags = segment.flags;
        let controls = u64::from(flags.has(Flags::SYN)) + u64::from(flags.has(Flags::FIN));
        let end = start + u64::from(segment.payload_len) + controls;
        if segment.payload_len <= 1
            && controls == 0
            && start + 1 == self.next
            && !flags.has(Flags::RST)
            && self.is_quiet()
        {
            self.stats.keep_alives += 1;
            return Arrival::KeepAlive;
        }
        if segment.payload_len > 0 {
            self.data_placed(start, end, cx);
        }
        if start >= self.next {
            if start > self.next && self.holes.len() < HOLES_MAX {
                self.holes.push(Hole {
                    left: self.next,
                    right: start,
                    at: cx.at,
                    packet: cx.number,
                    stamp: segment.options.timestamps.map(|(value, _)| value),
                });
            }
            self.stats.unique_bytes += u64::from(segment.payload_len);
            if peer_window == 0 && segment.payload_len == 1 && start == self.acked {
                self.asked_with = Some(start);
            }
            self.remember(segment, start, end, cx);
            self.settle_flight(cx.at);
            self.next = end;
            if segment.payload_len > 0 {
                self.first_flight(u64::from(segment.payload_len));
                let stamp = segment.options.timestamps.map(|(value, _)| value);
                self.fly(end, peer_window, stamp, cx);
            }
            return Arrival::New;
        }
        self.below(segment, start, end, peer_window, cx)
    }

    fn data_placed(&mut self, start: u64, end: u64, cx: &Context<'_>) {
        let (first, since) = *self.first_data.get_or_insert((start, cx.at));
        if start < first {
            self.first_data = Some((start, since));
        }
        self.data_end = self.data_end.max(end);
        self.stats.data_span = cx.at.since(since);
    }

    /// Stores a segment until it is acknowledged, in the order of sequence numbers.
    fn remember(&mut self, segment: &Segment<'_>, start: u64, end: u64, cx: &mut Context<'_>) {
        if cx.budget.segments == 0 {
            cx.budget.refused += 1;
            return;
        }
        cx.budget.segments -= 1;
        let options = u32::from(segment.tcp_header) - 20;
        let sent = Sent {
            start,
            end,
            payload: segment.payload_len,
            full: segment.payload_len + options >= self.mss(),
            first_at: cx.at,
            last_at: cx.at,
            packet: cx.number,
            transmissions: 1,
            is_overtaken: false,
            tsval: segment.options.timestamps.map(|(value, _)| value),
            echo: segment.options.timestamps.map(|(_, echo)| echo),
            flight: end.saturating_sub(self.known),
        };
        if self.outstanding.back().is_none_or(|last| last.end <= start) {
            self.outstanding.push_back(sent);
        } else {
            let place = self.outstanding.partition_point(|sent| sent.end <= start);
            self.outstanding.insert(place, sent);
        }
    }

    /// Updates flight and windows for new data up to `end`.
    fn fly(&mut self, end: u64, peer_window: u64, stamp: Option<u32>, cx: &mut Context<'_>) {
        let flight = self.flight();
        self.stats.flight.max = self.stats.flight.max.max(flight);
        self.peak = self.peak.max(flight);
        if self.round_end.is_none_or(|mark| self.known >= mark) {
            self.end_round(cx);
            self.round_end = Some(end);
            self.rounds += 1;
            self.round_peak = 0;
        }
        if flight > self.round_peak {
            self.round_peak = flight;
            self.round_reached = (cx.at, cx.number);
        }
        if self.rounds == 1 {
            self.initial_flight = self.round_peak;
        }
        if self.window_full.is_none()
            && self.peer_mss.is_some()
            && flight > u64::from(self.mss())
            && flight + u64::from(self.mss()) > peer_window
            && !self.is_queued(stamp, cx.at)
        {
            self.shut_before_full = self.shut_for(cx.at);
            self.window_full = Some((cx.at, cx.number));
        }
    }

    /// Counts new data while none is acknowledged yet.
    fn first_flight(&mut self, bytes: u64) {
        if !self.data_acked {
            self.stats.initial_window += bytes;
            self.stats.initial_packets += 1;
        }
    }

    /// Whether a queue on the path holds the data: then the line limits, and a larger window would only lengthen the
    /// queue.
    fn is_queued(&self, stamp: Option<u32>, now: Instant) -> bool {
        let path = self.base_rtt() + self.back;
        let before_here = self.stamps.unqueued(stamp, now).map(|sent| now.since(sent));
        let behind_here = self.last_ack.map(|ack| ack.delay.saturating_sub(self.base_rtt()));
        let waited = before_here.unwrap_or_default() + behind_here.unwrap_or_default();
        waited > path.mul_f64(0.5).max(NEAR)
    }

    fn end_round(&mut self, cx: &mut Context<'_>) {
        if self.round_peak > 0 {
            self.stats.cwnd.record(self.round_peak);
            cx.cwnd(self.side, self.round_peak, self.round_reached, self.mss());
        }
    }

    /// Handles a segment that starts below the highest byte seen: a retransmission, a late segment, or both.
    fn below(
        &mut self,
        segment: &Segment<'_>,
        start: u64,
        end: u64,
        peer_window: u64,
        cx: &mut Context<'_>,
    ) -> Arrival {
        let (fresh, opened) = self.fill_holes(start, end.min(self.next));
        // A filled hole or a repetition: acknowledgments of segments that passed before may have waited for it.
        let after = self.outstanding.partition_point(|sent| sent.start < end);
        for sent in self.outstanding.range_mut(after..) {
            sent.is_overtaken = true;
        }
        let beyond = end.saturating_sub(self.next);
        let payload = u64::from(segment.payload_len);
        let repeated = payload.saturating_sub(fresh + beyond);
        self.stats.unique_bytes += (fresh + beyond).min(payload);
        if beyond > 0 {
            let old_end = self.next;
            self.remember(segment, old_end, end, cx);
            self.settle_flight(cx.at);
            self.next = end;
        }
        if payload == 0 {
            self.stats.retransmissions.control += u64::from(segment.flags.has(Flags::SYN | Flags::FIN));
            self.again(segment, start, end, cx);
            return Arrival::Repeated;
        }
        if repeated == 0 {
            self.stats.out_of_order += 1;
            self.first_flight(payload);
            if beyond == 0 {
                self.remember(segment, start, end, cx);
            }
            if let Some(hole) = opened.filter(|hole| self.is_sent_again(hole, segment, cx.at)) {
                self.stats.out_of_order_late += 1;
                self.is_lossy = true;
                self.peak = 0;
                self.restart = None;
                self.turn.disturbed();
                self.repaired(&hole, cx);
            }
            return Arrival::Late;
        }
        let r = &mut self.stats.retransmissions;
        r.packets += 1;
        r.bytes += repeated;
        if self.is_window_probe(start, peer_window) {
            self.stats.retransmissions.window_probe += 1;
            // Karn's rule applies nevertheless.
            let place = self.outstanding.partition_point(|sent| sent.end <= start);
            if let Some(sent) = self.outstanding.get_mut(place).filter(|sent| sent.start < end) {
                sent.transmissions += 1;
                sent.last_at = cx.at;
            }
            return Arrival::WindowProbe;
        }
        self.again(segment, start, end, cx);
        Arrival::Repeated
    }

    /// Whether bytes repeated at the edge of a closed window probe it (RFC 9293, section 3.8.6.1). The first full
    /// segment through the opened window repeats the probe's byte.
    fn is_window_probe(&self, start: u64, peer_window: u64) -> bool {
        start == self.acked && (peer_window == 0 || self.asked_with == Some(start))
    }

    /// Classifies a retransmission by cause.
    fn again(&mut self, segment: &Segment<'_>, start: u64, end: u64, cx: &mut Context<'_>) {
        self.is_lossy = true;
        self.peak = 0;
        self.restart = None;
        self.turn.disturbed();
        let rto = self.rto();
        let last = self.outstanding.len().wrapping_sub(1);
        // The queue is in the order of sequence numbers.
        let index = self.outstanding.partition_point(|s| s.end <= start);
        let found = self
            .outstanding
            .get(index)
            .is_some_and(|s| s.start < end)
            .then_some(index);
        let Some(index) = found else {
            if segment.payload_len > 0 {
                self.stats.retransmissions.needless += 1;
            }
            return;
        };
        let (recovery, duplicates, sacked) = (self.recovery, self.duplicates, self.sacked_above);
        let next = self.next;
        let sent = &mut self.outstanding[index];
        let waited = cx.at.since(sent.last_at);
        let packet = sent.packet;
        sent.transmissions += 1;
        sent.last_at = cx.at;
        sent.tsval = segment.options.timestamps.map(|(value, _)| value);
        let transmissions = sent.transmissions;
        if segment.payload_len == 0 {
            return;
        }
        let r = &mut self.stats.retransmissions;
        let timer_ran = waited >= rto.mul_f64(0.8) || (transmissions > 2 && waited >= RTO_MIN);
        let cause = match recovery {
            // During a recovery, only a second full timeout is a new event.
            Some((Cause::Fast, _)) if !(timer_ran && index == 0) => {
                r.fast += 1;
                if let Some(repair) = &mut self.repair {
                    repair.segments += 1;
                }
                Cause::Fast
            }
            Some((Cause::Timeout, _)) if !(timer_ran && index == 0) => {
                r.timeout += 1;
                Cause::Timeout
            }
            _ if duplicates >= 3 || (sacked && !timer_ran) => {
                r.fast += 1;
                self.recovery = Some((Cause::Fast, next));
                let (since, first) = self.duplicate_first.unwrap_or((cx.at, packet));
                self.repair.get_or_insert(Repair {
                    since,
                    first,
                    again: (cx.at, cx.number),
                    segments: 0,
                    needless: 0,
                    from: start,
                    is_upstream: false,
                    is_timeout: false,
                });
                if let Some(repair) = &mut self.repair {
                    repair.segments += 1;
                }
                Cause::Fast
            }
            _ if index == 0 && (timer_ran || index != last) => {
                r.timeout += 1;
                self.recovery = Some((Cause::Timeout, next));
                self.settle_repair(cx);
                self.settle_timeout(false, cx);
                self.expired = Some(Expired {
                    at: cx.at,
                    packets: [packet, cx.number],
                    transmissions,
                    cost: waited,
                    tsval: segment.options.timestamps.map(|(value, _)| value),
                    start,
                    is_duplicate: false,
                });
                Cause::Timeout
            }
            _ => {
                r.probe += 1;
                Cause::Probe
            }
        };
        self.remember_repeat(start, end, cause);
    }

    /// The receiver got these bytes twice (RFC 2883): their retransmission was needless.
    fn told_of_duplicate(&mut self, left: u64, right: u64, cx: &mut Context<'_>) {
        if let Some(expired) = &mut self.expired {
            expired.is_duplicate |= (left..right).contains(&expired.start);
        }
        let place = |repeat: &Repeat| repeat.start < right && left < repeat.end;
        let Some(repeat) = self
            .repeats
            .iter()
            .position(place)
            .and_then(|n| self.repeats.remove(n))
        else {
            return;
        };
        let r = &mut self.stats.retransmissions;
        match repeat.cause {
            Cause::Fast => r.fast -= 1,
            Cause::Timeout => r.timeout -= 1,
            Cause::Probe => r.probe -= 1,
        }
        r.needless += 1;
        if repeat.cause == Cause::Fast {
            self.needless_repair(repeat.start, cx);
        }
    }

    fn remember_repeat(&mut self, start: u64, end: u64, cause: Cause) {
        if self.repeats.len() >= REPEATS_MAX {
            self.repeats.pop_front();
        }
        self.repeats.push_back(Repeat { start, end, cause });
    }

    /// Frees the queues of a finished connection, which is kept only for late packets.
    pub(super) fn rest(&mut self, cx: &mut Context<'_>) {
        cx.budget.segments += self.outstanding.len() + self.en_route.len();
        self.outstanding = VecDeque::new();
        self.en_route = VecDeque::new();
        self.holes = Vec::new();
        self.repeats = VecDeque::new();
    }

    fn settle_timeout(&mut self, spurious: bool, cx: &mut Context<'_>) {
        if let Some(expired) = self.expired.take() {
            cx.timeout(self.side, expired, spurious);
        }
    }

    fn settle_flight(&mut self, now: Instant) {
        let flight = self.flight();
        if flight > 0 {
            let span = now.since(self.flight_changed);
            self.flight_time += span;
            self.flight_area += flight as f64 * span.as_secs_f64();
        }
        self.flight_changed = now;
    }

    /// Completes the direction's figures; no packet follows.
    pub(super) fn close(&mut self, cx: &mut Context<'_>) {
        self.end_round(cx);
        self.settle_timeout(false, cx);
        self.settle_repair(cx);
        self.report_repair(cx);
        self.rest(cx);
        let s = &mut self.stats;
        if let Some((first, _)) = self.first_data {
            s.stream_bytes = self.data_end.saturating_sub(first);
        }
        let time = self.flight_time.as_secs_f64();
        s.flight.samples = s.kinds.data;
        s.flight.mean = if time > 0.0 { self.flight_area / time } else { 0.0 };
        let span = s.data_span;
        if self.window_waits >= 3 && s.window_limited >= Duration::from_millis(10).max(span.mul_f64(0.05)) {
            let (waits, limited, worst) = (self.window_waits, s.window_limited, self.window_worst);
            cx.window_limited(self.side, waits, limited, worst);
        }
    }
}
