//! One end of a connection: takes segments, application calls and timer expiries, and returns segments (RFC
//! 9293, section 3.10).
//!
//! Connects the state machines that decide: `state`, `send`, `receive`, `ack`, `congestion`, `rto`,
//! `scoreboard`, `suspicion`. It has four kinds of methods: constructors; [`Endpoint::receive`],
//! [`Endpoint::expire`] and the application's calls, most of which take `now`; getters; and
//! [`Endpoint::transmit`] and [`Endpoint::deadline`]. After each call, take segments from `transmit` until it
//! returns `None`, then read the new `deadline`.

use crate::ack::Acks;
use crate::congestion::Congestion;
use crate::receive::Receiver;
use crate::rto::Rto;
use crate::scoreboard::{Rules, Scoreboard};
use crate::segment::{Flags, SACK_BLOCK, SACK_FIXED, Segment, Stamps};
use crate::send::{Cut, Sender, Terms};
use crate::stack::{AckRule, NagleIdle, SpuriousTimeouts, Stack};
use crate::state::{Closed, State, Step};
use crate::suspicion::{Doubt, Judgment, Suspicion};
use std::collections::VecDeque;
use units::{Duration, Instant};

/// Limits of an endpoint. The stack's parameters limit its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Expiries of the retransmission timer without progress before the connection is dropped (BSD: 12).
    pub expiries_max: u32,
    /// How long a finished connection answers late segments (BSD: 2 × 30 s).
    pub time_wait: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            expiries_max: 12,
            time_wait: Duration::from_secs(60),
        }
    }
}

/// Parameters of an endpoint.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Behavior of the simulated stack.
    pub stack: Stack,
    /// The initial sequence number.
    pub iss: u32,
    /// Offset of the host's delayed-ACK ticks from whole periods.
    pub phase: Duration,
    /// Maximum segment size this end accepts and announces, in bytes.
    pub mss: u16,
    /// Whether the peer is on the same network, where some stacks skip slow start.
    pub local: bool,
    /// Whether Nagle's algorithm is off (TCP_NODELAY).
    pub no_delay: bool,
    /// Retransmission and `TimeWait` limits.
    pub limits: Limits,
}

impl Setup {
    /// The stack's defaults on an Ethernet, with a peer on another network.
    pub fn new(stack: Stack, iss: u32) -> Setup {
        Setup {
            mss: stack.mss,
            stack,
            iss,
            phase: Duration::ZERO,
            local: false,
            no_delay: false,
            limits: Limits::default(),
        }
    }
}

/// The largest window shift (RFC 7323, section 2.3).
const SHIFT_MAX: u8 = 14;
/// Bytes available for options in a TCP header.
const OPTIONS_MAX: u64 = 40;

/// A round trip being measured: the position whose ACK ends it, and when the segment was sent.
#[derive(Clone, Copy, Debug)]
struct Timing {
    end: u64,
    sent: Instant,
}

/// Interval and next time for segments paced after idle time.
#[derive(Clone, Copy, Debug)]
struct Pacing {
    every: Duration,
    next: Instant,
}

/// State of the timestamp option once both sides have offered it.
#[derive(Clone, Copy, Debug)]
struct Stamping {
    /// The peer's timestamp to echo in the next segment (RFC 7323, TS.Recent).
    recent: u32,
    /// The position last acknowledged to the peer (RFC 7323, Last.ACK.sent).
    acked: u64,
}

/// Both sides' window shifts, once both have announced one (RFC 7323, section 2.2).
#[derive(Clone, Copy, Debug)]
struct Scaling {
    own: u8,
    peer: u8,
}

/// A recovery based on selective acknowledgments (RFC 6675, section 5).
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// The position whose ACK ends the recovery: everything sent before it began.
    point: u64,
    /// The position up to which gaps have been retransmitted (HighRxt).
    again: u64,
}

/// Purpose of the one output timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Off,
    /// Waits for the ACK of outstanding data.
    Retransmit(Instant),
    /// Waits for a window large enough for the waiting data.
    Persist(Instant),
}

/// One end of a connection: owns its buffers, timers and outgoing segments, but no clock.
#[derive(Clone, Debug)]
pub struct Endpoint {
    setup: Setup,
    state: State,
    sender: Sender,
    receiver: Receiver,
    acks: Acks,
    congestion: Congestion,
    rto: Rto,
    /// The peer's initial sequence number.
    irs: u32,
    mss: u64,
    timer: Timer,
    timing: Option<Timing>,
    /// Timestamp clock in milliseconds, set by each call that takes `now`; never zero.
    clock: u32,
    stamping: Option<Stamping>,
    suspicion: Suspicion,
    spurious: u64,
    pacing: Option<Pacing>,
    last_sent: Option<Instant>,
    duplicates: u32,
    scaling: Option<Scaling>,
    /// Both sides have permitted selective acknowledgments.
    is_selective: bool,
    scoreboard: Scoreboard,
    recovery: Option<Recovery>,
    /// No recovery begins while ACKs are below this position: a timeout is already repairing that data (RFC
    /// 6675, section 5.1).
    recover_from: u64,
    /// Whether the application has closed the receiving half.
    deaf: bool,
    out: VecDeque<Segment>,
    retransmitted: u64,
}

impl Endpoint {
    fn new(setup: Setup, state: State) -> Endpoint {
        let slow = setup.stack.slow_start_on_lan || !setup.local;
        Endpoint {
            state,
            sender: Sender::new(setup.stack.send_buffer.0),
            receiver: Receiver::new(setup.stack.recv_buffer.0),
            acks: Acks::new(&setup.stack, setup.phase),
            congestion: Congestion::new(&setup.stack, setup.mss, slow),
            rto: Rto::new(&setup.stack),
            irs: 0,
            mss: u64::from(setup.mss),
            timer: Timer::Off,
            timing: None,
            clock: 1,
            stamping: None,
            suspicion: Suspicion::Quiet,
            spurious: 0,
            pacing: None,
            last_sent: None,
            duplicates: 0,
            scaling: None,
            is_selective: false,
            scoreboard: Scoreboard::default(),
            recovery: None,
            recover_from: 0,
            deaf: false,
            out: VecDeque::new(),
            retransmitted: 0,
            setup,
        }
    }

    /// Opens a connection: the SYN is the first segment to transmit.
    pub fn connect(setup: Setup, now: Instant) -> Endpoint {
        let mut endpoint = Endpoint::new(setup, State::SynSent);
        endpoint.tick(now);
        endpoint.send_syn(now);
        endpoint
    }

    /// Waits for a SYN.
    pub fn listen(setup: Setup) -> Endpoint {
        Endpoint::new(setup, State::Listen)
    }

    /// The connection's state (RFC 9293).
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the handshake is complete and the connection is not closed.
    pub fn is_established(&self) -> bool {
        !matches!(
            self.state,
            State::Listen | State::SynSent | State::SynReceived | State::Closed(_)
        )
    }

    /// Bytes available to read.
    pub fn readable(&self) -> usize {
        self.receiver.readable()
    }

    /// Whether the peer has sent its FIN and all data has been read.
    pub fn is_eof(&self) -> bool {
        self.receiver.is_eof()
    }

    /// Bytes of free space in the send buffer.
    pub fn room(&self) -> usize {
        self.sender.room()
    }

    /// Bytes written and not acknowledged, sent or not.
    pub fn unacknowledged(&self) -> u64 {
        self.sender.end().saturating_sub(self.sender.una.max(1))
    }

    /// The congestion window and its state.
    pub fn congestion(&self) -> &Congestion {
        &self.congestion
    }

    /// The retransmission timeout estimator.
    pub fn rto(&self) -> &Rto {
        &self.rto
    }

    /// Segments sent again.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// Timeouts detected as spurious.
    pub fn spurious_timeouts(&self) -> u64 {
        self.spurious
    }

    /// Most data bytes in a segment: the negotiated MSS, less the options in every segment (RFC 6691).
    pub fn mss(&self) -> u64 {
        self.mss
    }

    /// Switches Nagle's algorithm off (`true`) or back to the stack's default.
    pub fn set_no_delay(&mut self, no_delay: bool) {
        self.setup.no_delay = no_delay;
    }

    /// The next segment to send; `None` when there is none left.
    pub fn transmit(&mut self) -> Option<Segment> {
        self.out.pop_front()
    }

    /// When to call [`Endpoint::expire`]; `None` if no timer runs.
    pub fn deadline(&self) -> Option<Instant> {
        let timer = match self.timer {
            Timer::Off => None,
            Timer::Retransmit(at) | Timer::Persist(at) => Some(at),
        };
        let wait = match self.state {
            State::TimeWait { until } => Some(until),
            _ => None,
        };
        // Pacing counts only if a segment could be sent: with the window shut, an ACK must come first.
        let terms = self.terms(self.small_ok(!self.sender.is_outstanding()), false);
        let pace = self
            .pacing
            .filter(|_| self.sender.cut(terms).is_some())
            .map(|pacing| pacing.next);
        [timer, wait, pace, self.acks.due()].into_iter().flatten().min()
    }

    /// Writes as much of `data` as the send buffer has room for and returns that number of bytes. One output
    /// call.
    pub fn write(&mut self, data: &[u8], now: Instant) -> usize {
        self.tick(now);
        if self.sender.fin_queued || matches!(self.state, State::Closed(_)) {
            return 0;
        }
        let taken = self.sender.write(data);
        if taken > 0 {
            self.output(now);
        }
        taken
    }

    /// Writes the last data and, if all of it fits, closes the sending half in the same output call, so that
    /// the FIN can be sent with the data.
    pub fn write_last(&mut self, data: &[u8], now: Instant) -> usize {
        self.tick(now);
        if self.sender.fin_queued || matches!(self.state, State::Closed(_) | State::Listen) {
            return 0;
        }
        let taken = self.sender.write(data);
        self.sender.fin_queued = taken == data.len();
        self.output(now);
        taken
    }

    /// Reads up to `max` bytes. May send an ACK, because reading opens the window.
    pub fn read(&mut self, max: usize) -> Vec<u8> {
        let data = self.receiver.read(max);
        if !data.is_empty() && self.state.receives() {
            let opens = self.receiver.window(self.mss) + self.receiver.next;
            let opens = opens.saturating_sub(self.receiver.edge);
            let capacity = self.receiver.capacity();
            let offered = self.receiver.edge.saturating_sub(self.receiver.next);
            let update = match self.acks.rule() {
                AckRule::OnRead => opens >= 2 * self.mss || 2 * opens >= capacity,
                // Other rules acknowledge on arrival; a read matters only to a sender that may be blocked by
                // the window.
                _ => offered < 2 * self.mss && (opens >= 2 * self.mss || 2 * opens >= capacity),
            };
            if update {
                self.send_ack();
            }
        }
        data
    }

    /// Closes the sending half; data already written is still delivered, and reading goes on.
    pub fn shutdown(&mut self, now: Instant) {
        self.tick(now);
        if !self.sender.fin_queued && !matches!(self.state, State::Closed(_) | State::Listen) {
            self.sender.fin_queued = true;
            self.output(now);
        }
    }

    /// Closes both halves: data arriving from now on is answered with a reset. If received data is still
    /// unread, a reset is sent at once (RFC 2525, section 2.17).
    pub fn close(&mut self, now: Instant) {
        self.tick(now);
        self.deaf = true;
        match self.state {
            State::Listen | State::SynSent => self.state = State::Closed(Closed::Aborted),
            _ if self.readable() > 0 => self.abort(),
            _ => self.shutdown(now),
        }
    }

    /// Resets the connection and discards unread data.
    pub fn abort(&mut self) {
        if self.is_established() || self.state == State::SynReceived {
            let reset = Flags {
                rst: true,
                ack: true,
                ..Flags::default()
            };
            let segment = self.segment(self.sender.next, reset, Vec::new());
            self.out.push_back(segment);
        }
        self.drop_connection(Closed::Aborted);
    }

    /// Runs all timers due by `now`.
    pub fn expire(&mut self, now: Instant) {
        self.tick(now);
        if self.acks.due().is_some_and(|at| at <= now) {
            self.send_ack();
        }
        if let State::TimeWait { until } = self.state
            && until <= now
        {
            self.drop_connection(Closed::Orderly);
            return;
        }
        match self.timer {
            Timer::Retransmit(at) if at <= now => self.retransmit(now),
            Timer::Persist(at) if at <= now => {
                self.timer = Timer::Off;
                self.rto.back_off();
                if self.sender.window >= self.mss {
                    self.output(now);
                } else {
                    self.output_forced(now);
                }
            }
            _ => {}
        }
        if self.pacing.is_some_and(|pacing| pacing.next <= now) {
            self.output(now);
        }
    }

    /// Processes a segment received at `now`.
    pub fn receive(&mut self, segment: Segment, now: Instant) {
        self.tick(now);
        match self.state {
            State::Closed(_) => self.refuse(&segment),
            State::Listen => self.receive_listening(&segment, now),
            State::SynSent => self.receive_syn_sent(&segment, now),
            _ => self.receive_synchronized(segment, now),
        }
    }

    /// Sets the timestamp clock (RFC 7323, section 5.4: a tick of 1 ms).
    fn tick(&mut self, now: Instant) {
        self.clock = (now.as_nanos() / 1_000_000) as u32 | u32::from(now.as_nanos() < 1_000_000);
    }

    fn receive_listening(&mut self, segment: &Segment, now: Instant) {
        if segment.flags.rst {
            return;
        }
        if segment.flags.ack || !segment.flags.syn {
            self.refuse(segment);
            return;
        }
        self.learn_peer(segment);
        self.state = State::SynReceived;
        self.send_syn(now);
    }

    fn receive_syn_sent(&mut self, segment: &Segment, now: Instant) {
        let acceptable = segment.flags.ack && segment.ack == self.setup.iss.wrapping_add(1);
        if segment.flags.ack && !acceptable {
            if !segment.flags.rst {
                self.refuse(segment);
            }
            return;
        }
        if segment.flags.rst {
            if acceptable {
                self.drop_connection(Closed::Reset);
            }
            return;
        }
        if !segment.flags.syn {
            return;
        }
        self.learn_peer(segment);
        if acceptable {
            self.acknowledged(1, None, now);
            self.state = self.state.after(Step::Opened, now);
            self.send_ack();
            self.output(now);
        } else {
            // Simultaneous open.
            self.state = State::SynReceived;
            self.send_syn(now);
        }
    }

    fn learn_peer(&mut self, segment: &Segment) {
        self.irs = segment.seq;
        self.receiver.next = 1;
        // The window in a SYN is never scaled.
        self.receiver.edge = 1 + self.receiver.capacity();
        self.is_selective = segment.sack_permitted && self.setup.stack.selective_acks;
        self.scaling = segment
            .window_scale
            .zip(self.setup.stack.window_scale)
            .map(|(peer, own)| Scaling {
                own: own.min(SHIFT_MAX),
                peer: peer.min(SHIFT_MAX),
            });
        if let Some(scaling) = self.scaling {
            let most = u64::from(u16::MAX) << scaling.own;
            self.receiver
                .set_capacity(self.setup.stack.recv_buffer.0.min(most));
        }
        let theirs = segment.mss.unwrap_or(536);
        let offered = segment.stamps.filter(|_| self.setup.stack.timestamps);
        self.stamping = offered.map(|stamps| Stamping {
            recent: stamps.value,
            acked: 0,
        });
        let options = if self.stamping.is_some() { Stamps::BYTES } else { 0 };
        let mss = theirs.min(self.setup.mss).saturating_sub(options).max(1);
        self.mss = u64::from(mss);
        self.congestion.set_mss(mss);
        self.sender.window = u64::from(segment.window);
        self.sender.window_max = self.sender.window;
    }

    fn receive_synchronized(&mut self, segment: Segment, now: Instant) {
        let at = self.position(segment.seq);
        if !self.receiver.accepts(at, u64::from(segment.space())) {
            if !segment.flags.rst {
                // A duplicate, or a probe of a shut window: acknowledge the current position.
                self.send_ack();
            }
            return;
        }
        if let (Some(stamping), Some(stamps)) = (&mut self.stamping, segment.stamps)
            && at <= stamping.acked
            && (stamps.value.wrapping_sub(stamping.recent) as i32) >= 0
        {
            stamping.recent = stamps.value;
        }
        if segment.flags.rst {
            // RFC 5961: only a reset with the exact sequence number counts; others get a challenge ACK.
            if at == self.receiver.next {
                self.drop_connection(Closed::Reset);
            } else {
                self.send_ack();
            }
            return;
        }
        if segment.flags.syn || !segment.flags.ack {
            self.send_ack();
            return;
        }
        if !self.receive_ack(&segment, now) {
            return;
        }
        let data = !segment.payload.is_empty();
        if data && self.deaf && !matches!(self.state, State::TimeWait { .. }) {
            self.abort();
            return;
        }
        if data || segment.flags.fin {
            self.receive_data(at, &segment, now);
        }
    }

    /// Processes the acknowledgment; returns whether the segment's data should be processed, too.
    fn receive_ack(&mut self, segment: &Segment, now: Instant) -> bool {
        let behind = self.wire(self.sender.una);
        let moved = segment.ack.wrapping_sub(behind) as i32;
        if i64::from(moved) > (self.sender.max - self.sender.una) as i64 {
            // An ACK of data that was never sent.
            if self.state == State::SynReceived {
                self.refuse(segment);
            } else {
                self.send_ack();
            }
            return false;
        }
        if moved < 0 {
            return true;
        }
        if self.state == State::SynReceived && moved > 0 {
            self.state = self.state.after(Step::Opened, now);
            if self.setup.stack.handshake_ack_opens_cwnd {
                self.congestion.acked();
            }
        }
        let window = u64::from(segment.window) << self.scaling.map_or(0, |scaling| scaling.peer);
        let same_window = window == self.sender.window;
        if self.sender.window == 0 && window > 0 && moved == 0 && self.sender.is_outstanding() {
            // The window opens: what probed it was discarded, and is sent again with what follows.
            self.sender.next = self.sender.una;
            self.rto.progress();
        }
        self.sender.window = window;
        self.sender.window_max = self.sender.window_max.max(window);
        if moved > 0 {
            let echo = self.stamping.and(segment.stamps).map(|stamps| stamps.echo);
            self.acknowledged(self.sender.una + moved as u64, echo, now);
            let judgment = self.suspicion.advanced(self.sender.una, echo);
            self.judged(judgment, now);
            if self.is_selective {
                self.note_sacks(segment);
            }
        } else if self.is_selective {
            // A segment that reports new ranges counts as a duplicate ACK, even with data or a new window (RFC
            // 6675, section 2).
            if self.note_sacks(segment) {
                self.duplicates += 1;
                let judgment = self.suspicion.duplicate();
                self.judged(judgment, now);
            }
        } else if segment.is_pure_ack() && same_window && self.sender.is_outstanding() {
            let judgment = self.suspicion.duplicate();
            self.judged(judgment, now);
            self.duplicate(now);
            return true;
        }
        if !matches!(self.state, State::Closed(_)) {
            if self.must_recover() {
                self.begin_recovery(now);
            }
            self.output(now);
        }
        true
    }

    /// Adds the segment's selective acknowledgments to the scoreboard; returns whether any is new.
    fn note_sacks(&mut self, segment: &Segment) -> bool {
        let (una, max) = (self.sender.una, self.sender.max);
        let behind = self.wire(una);
        let mut is_news = false;
        for (start, end) in &segment.sacks {
            let offset = |edge: u32| una.checked_add_signed(i64::from(edge.wrapping_sub(behind) as i32));
            if let (Some(start), Some(end)) = (offset(*start), offset(*end)) {
                is_news |= self.scoreboard.add(start, end, una, max);
            }
        }
        is_news
    }

    fn rules(&self) -> Rules {
        Rules {
            mss: self.mss,
            threshold: u64::from(self.setup.stack.dupack_threshold),
        }
    }

    /// Whether enough was reported to consider the first gap lost (RFC 6675, section 5).
    fn must_recover(&self) -> bool {
        self.recovery.is_none()
            && !self.scoreboard.is_empty()
            && self.sender.una >= self.recover_from
            // Retransmission after a timeout is a recovery of its own.
            && self.sender.next == self.sender.max
            && (self.duplicates >= self.setup.stack.dupack_threshold
                || self.scoreboard.is_lost(self.sender.una, self.rules()))
    }

    fn begin_recovery(&mut self, now: Instant) {
        self.congestion
            .recover_selectively(self.sender.max - self.sender.una);
        self.timing = None;
        self.recovery = Some(Recovery {
            point: self.sender.max,
            again: self.sender.una,
        });
        // The first gap is filled regardless of the bytes in the network.
        if let Some((start, end)) = self.scoreboard.next_gap(self.sender.una, 0, self.rules(), true) {
            self.send_again(start, end, now);
        }
    }

    /// Sends as much as recovery allows: lost bytes first, then new ones, then other missing ones.
    fn recover(&mut self, now: Instant) {
        let rules = self.rules();
        while let Some(recovery) = self.recovery {
            let (una, max) = (self.sender.una, self.sender.max);
            let pipe = self.scoreboard.pipe(una, max, recovery.again, rules);
            let free = self.congestion.window().saturating_sub(pipe);
            if free < self.mss {
                return;
            }
            if let Some((start, end)) = self.scoreboard.next_gap(una, recovery.again, rules, false) {
                self.send_again(start, end, now);
                continue;
            }
            let terms = Terms {
                cwnd: self.sender.flight() + free,
                ..self.terms(self.small_ok(false), false)
            };
            if let Some(cut) = self.sender.cut(terms) {
                self.emit(cut, now);
                continue;
            }
            // The RFC's fourth rule, a speculative retransmission of the last segment, is optional; Linux omits
            // it.
            let Some((start, end)) = self.scoreboard.next_gap(una, recovery.again, rules, true) else {
                return;
            };
            self.send_again(start, end, now);
        }
    }

    /// Retransmits a gap's bytes and moves HighRxt. Excludes the FIN, which no stack reports.
    fn send_again(&mut self, start: u64, end: u64, now: Instant) {
        let resume = self.sender.next;
        self.sender.next = start;
        let len = end - start;
        self.emit(Cut { len, fin: false }, now);
        self.sender.next = resume;
        if let Some(recovery) = &mut self.recovery {
            recovery.again = recovery.again.max(end);
        }
    }

    /// Acts on a judgment about the last timeout.
    fn judged(&mut self, judgment: Judgment, now: Instant) {
        match judgment {
            Judgment::Open => {}
            Judgment::Probe => {
                self.sender.next = self.sender.max;
                let mut sent = false;
                for _ in 0..2 {
                    // Allows one segment more than is outstanding, regardless of the window after the timeout.
                    let terms = Terms {
                        cwnd: self.sender.flight() + self.mss,
                        ..self.terms(true, false)
                    };
                    if let Some(cut) = self.sender.cut(terms) {
                        sent = true;
                        self.emit(cut, now);
                    }
                }
                if !sent {
                    // Without new data to probe with, the timeout counts as a loss.
                    self.suspicion = Suspicion::Quiet;
                    self.sender.next = self.sender.una;
                }
            }
            Judgment::Spurious(saved) => {
                self.spurious += 1;
                if self.stamping.is_none() {
                    self.rto.was_too_short();
                }
                self.congestion.restore(saved);
                self.sender.next = self.sender.max;
            }
            Judgment::Lost => {
                self.congestion.confirm_loss();
                self.sender.next = self.sender.una;
                self.output(now);
            }
        }
    }

    fn acknowledged(&mut self, to: u64, echo: Option<u32>, now: Instant) {
        let is_syn = self.sender.una == 0;
        if let Some(echo) = echo {
            // Delayed ACKs: expect about half as many ACKs as segments.
            let in_flight = self.sender.flight().div_ceil(2 * self.mss);
            let rtt = Duration::from_millis(u64::from(self.clock.wrapping_sub(echo)));
            self.rto
                .sample_of(rtt, u32::try_from(in_flight).unwrap_or(u32::MAX >> 4));
            self.timing = None;
        } else if let Some(timing) = self.timing
            && to >= timing.end
        {
            self.rto.sample(now.since(timing.sent));
            self.timing = None;
        }
        self.rto.progress();
        self.duplicates = 0;
        self.pacing = None;
        self.sender.acknowledge(to);
        self.scoreboard.advance(to);
        match self.recovery {
            // A partial ACK: the recovery goes on.
            Some(recovery) if to < recovery.point => {}
            _ if is_syn => {}
            _ => {
                self.recovery = None;
                self.congestion.acked();
            }
        }
        self.timer = if self.sender.is_outstanding() {
            Timer::Retransmit(now + self.rto.timeout())
        } else {
            Timer::Off
        };
        if self.sender.fin_acked {
            self.state = self
                .state
                .after(Step::FinAcked, now + self.setup.limits.time_wait);
            if let State::Closed(why) = self.state {
                self.drop_connection(why);
            }
        }
    }

    fn duplicate(&mut self, now: Instant) {
        self.duplicates += 1;
        if self.duplicates == self.setup.stack.dupack_threshold {
            self.congestion
                .fast_retransmit(self.sender.flight(), self.duplicates);
            self.timing = None;
            let resume = self.sender.next;
            self.sender.next = self.sender.una;
            let len = (self.sender.end() - self.sender.una.max(1)).min(self.mss);
            let fin = self.sender.fin_queued && self.sender.una + len == self.sender.end();
            self.emit(Cut { len, fin }, now);
            self.sender.next = resume.max(self.sender.next);
        } else if self.duplicates > self.setup.stack.dupack_threshold {
            self.congestion.duplicate();
            self.output(now);
        }
    }

    fn receive_data(&mut self, at: u64, segment: &Segment, now: Instant) {
        if !self.state.receives() {
            // Everything up to the peer's FIN has already arrived.
            self.send_ack();
            return;
        }
        let arrival = self.receiver.insert(at, &segment.payload, segment.flags.fin);
        if arrival.finished {
            let step = Step::FinReceived(now + self.setup.limits.time_wait);
            self.state = self.state.after(step, now + self.setup.limits.time_wait);
            self.send_ack();
        } else if arrival.out_of_order
            || (arrival.in_order > 0 && self.acks.data(arrival.in_order, self.mss, now))
        {
            self.send_ack();
        }
    }

    /// One output call: sends everything that may be sent now.
    fn output(&mut self, now: Instant) {
        if !self.can_output() {
            return;
        }
        if self.recovery.is_some() {
            self.recover(now);
            return;
        }
        let idle = !self.sender.is_outstanding();
        if idle {
            self.restart_after_idle(now);
        }
        loop {
            if self.sender.next < self.sender.max {
                // Skips ranges the peer already has.
                self.sender.next = self.scoreboard.gap(self.sender.next).0;
            }
            if let Some(pacing) = self.pacing
                && pacing.next > now
            {
                break;
            }
            let Some(cut) = self.sender.cut(self.terms(self.small_ok(idle), false)) else {
                break;
            };
            self.emit(cut, now);
            if let Some(pacing) = &mut self.pacing {
                pacing.next = now + pacing.every;
            }
        }
        if self.timer == Timer::Off && self.sender.unsent() > 0 && !self.sender.is_outstanding() {
            self.timer = Timer::Persist(now + self.rto.timeout());
        }
    }

    /// Whether a segment below the MSS may be sent; `idle` tells whether the output call found the connection
    /// idle.
    fn small_ok(&self, idle: bool) -> bool {
        let nagle = self.setup.stack.nagle && !self.setup.no_delay;
        !nagle
            || match self.setup.stack.nagle_idle {
                NagleIdle::PerCall => idle,
                NagleIdle::PerSegment => !self.sender.is_outstanding(),
                NagleIdle::Minshall => self.sender.small_end <= self.sender.una,
            }
    }

    fn output_forced(&mut self, now: Instant) {
        if let Some(cut) = self.sender.cut(self.terms(true, true)) {
            self.emit(cut, now);
        }
    }

    fn can_output(&self) -> bool {
        self.sender.una > 0
            && !matches!(
                self.state,
                State::Closed(_) | State::Listen | State::SynSent | State::TimeWait { .. }
            )
    }

    fn terms(&self, small_ok: bool, force: bool) -> Terms {
        let next = self.sender.next;
        Terms {
            mss: self.mss,
            // Bytes reported as received have left the network.
            cwnd: self.congestion.window() + self.scoreboard.below(next),
            small_ok,
            fin_with_data: self.setup.stack.fin_with_data,
            force,
            until: self.scoreboard.gap(next).1,
        }
    }

    fn restart_after_idle(&mut self, now: Instant) {
        let Some(last) = self.last_sent else { return };
        let (idle, rto) = (now.since(last), self.rto.timeout());
        if self.sender.unsent() > 0 && idle >= rto {
            let every = self.congestion.restart(idle, rto, self.rto.smooth());
            self.pacing = every.map(|every| Pacing { every, next: now });
        }
    }

    fn retransmit(&mut self, now: Instant) {
        if self.sender.una > 0 && self.sender.window == 0 {
            // The byte that probed the shut window was discarded, not lost. The peer may keep its window shut for as
            // long as it likes (RFC 9293, section 3.8.6.1).
            self.rto.back_off();
            self.timing = None;
            self.sender.next = self.sender.una;
            self.timer = Timer::Off;
            self.output_forced(now);
            return;
        }
        if self.rto.expiries() >= self.setup.limits.expiries_max {
            self.drop_connection(Closed::TimedOut);
            return;
        }
        let again = self.rto.expiries() > 0;
        self.rto.back_off();
        self.timing = None;
        self.duplicates = 0;
        if self.sender.una == 0 {
            self.sender.next = 0;
            self.send_syn(now);
            return;
        }
        let saved = self.congestion.saved();
        self.suspicion = match self.suspicion {
            _ if self.setup.stack.spurious_timeouts == SpuriousTimeouts::GoBack => Suspicion::Quiet,
            // A repeated timeout: with timestamps the first retransmission still decides, but F-RTO does not
            // continue.
            asking @ Suspicion::Asking(_) if again && self.stamping.is_some() => asking,
            _ if again => Suspicion::Quiet,
            _ => Suspicion::Asking(Doubt {
                recover: self.sender.max,
                saved,
                again_at: self.clock,
            }),
        };
        self.recovery = None;
        self.recover_from = self.sender.max;
        if self.scoreboard.is_reneged(self.sender.una) {
            self.scoreboard.clear();
        }
        self.congestion
            .timed_out(self.sender.max - self.sender.una, again);
        self.sender.next = self.sender.una;
        self.timer = Timer::Off;
        self.pacing = None;
        // Forced: data sent before is sent again, regardless of the window offered now.
        self.output_forced(now);
    }

    /// Sends a piece of the stream as a segment and updates state and timers.
    fn emit(&mut self, cut: Cut, now: Instant) {
        let at = self.sender.next.max(1);
        let payload = self.sender.data(at, cut.len);
        let after = at + cut.len;
        let again = at < self.sender.max;
        let flags = Flags {
            ack: true,
            // BSD sets PSH when the segment empties the buffer.
            psh: cut.len > 0 && after == self.sender.end(),
            fin: cut.fin,
            ..Flags::default()
        };
        let segment = self.segment(at, flags, payload);
        self.out.push_back(segment);
        self.acks.sent();
        if cut.len > 0 {
            self.acks.answered(now);
        }
        let after = after + u64::from(cut.fin);
        if cut.len > 0 && cut.len < self.mss {
            self.sender.small_end = after;
        }
        self.sender.next = after;
        self.sender.max = self.sender.max.max(after);
        if cut.fin {
            self.state = self.state.after(Step::FinSent, now);
        }
        self.account(again, after, now);
    }

    fn account(&mut self, again: bool, end: u64, now: Instant) {
        if again {
            self.retransmitted += 1;
        } else if self.timing.is_none() {
            self.timing = Some(Timing { end, sent: now });
        }
        self.last_sent = Some(now);
        if !matches!(self.timer, Timer::Retransmit(_)) || again {
            self.timer = Timer::Retransmit(now + self.rto.timeout());
        }
    }

    fn send_syn(&mut self, now: Instant) {
        let answers = self.state == State::SynReceived;
        let flags = Flags {
            syn: true,
            ack: answers,
            ..Flags::default()
        };
        let mut segment = self.segment(0, flags, Vec::new());
        segment.mss = Some(self.setup.mss);
        if !answers && self.setup.stack.timestamps {
            segment.stamps = Some(Stamps {
                value: self.clock,
                echo: 0,
            });
        }
        let stack = &self.setup.stack;
        (segment.sack_permitted, segment.window_scale) = if answers {
            (self.is_selective, self.scaling.map(|scaling| scaling.own))
        } else {
            (stack.selective_acks, stack.window_scale)
        };
        if !answers {
            segment.window = self.receiver.capacity() as u16;
        }
        self.out.push_back(segment);
        let again = self.sender.max > 0;
        self.sender.next = 1;
        self.sender.max = self.sender.max.max(1);
        self.account(again, 1, now);
        // Idle time counts from data, not from the handshake.
        self.last_sent = None;
    }

    fn send_ack(&mut self) {
        let flags = Flags {
            ack: true,
            ..Flags::default()
        };
        let at = self.sender.max.max(self.sender.next);
        let segment = self.segment(at, flags, Vec::new());
        self.out.push_back(segment);
        self.acks.sent();
    }

    /// Builds a segment with the current acknowledgment and window, and records both as sent.
    fn segment(&mut self, at: u64, flags: Flags, payload: Vec<u8>) -> Segment {
        let shift = match self.scaling {
            Some(scaling) if !flags.syn => scaling.own,
            _ => 0,
        };
        let window = (self.receiver.window(self.mss) >> shift).min(u64::from(u16::MAX));
        if flags.ack {
            self.receiver.edge = self.receiver.edge.max(self.receiver.next + (window << shift));
            if let Some(stamping) = &mut self.stamping {
                stamping.acked = self.receiver.next;
            }
        }
        Segment {
            seq: self.wire(at),
            ack: if flags.ack {
                self.irs.wrapping_add(self.receiver.next as u32)
            } else {
                0
            },
            flags,
            window: window as u16,
            mss: None,
            window_scale: None,
            sack_permitted: false,
            sacks: self.sacks(flags, payload.len() as u64),
            stamps: self.stamping.map(|stamping| Stamps {
                value: self.clock,
                echo: stamping.recent,
            }),
            payload,
        }
    }

    /// The ranges to report, as many as fit beside `data` bytes.
    fn sacks(&self, flags: Flags, data: u64) -> Vec<(u32, u32)> {
        if !self.is_selective || !flags.ack || flags.syn {
            return Vec::new();
        }
        let stamps = if self.stamping.is_some() {
            u64::from(Stamps::BYTES)
        } else {
            0
        };
        let options = if data == 0 {
            u64::MAX
        } else {
            self.mss.saturating_sub(data)
        };
        let room = options.min(OPTIONS_MAX - stamps).saturating_sub(SACK_FIXED) / SACK_BLOCK;
        let wire = |position: u64| self.irs.wrapping_add(position as u32);
        let blocks = self.receiver.blocks().iter().take(room as usize);
        blocks.map(|(start, end)| (wire(*start), wire(*end))).collect()
    }

    /// Answers a segment that belongs to no connection with a reset (RFC 9293, section 3.10.7.1).
    fn refuse(&mut self, segment: &Segment) {
        if segment.flags.rst {
            return;
        }
        let (seq, ack, acks) = if segment.flags.ack {
            (segment.ack, 0, false)
        } else {
            (0, segment.seq.wrapping_add(segment.space()), true)
        };
        self.out.push_back(Segment {
            seq,
            ack,
            flags: Flags {
                rst: true,
                ack: acks,
                ..Flags::default()
            },
            window: 0,
            mss: None,
            window_scale: None,
            sack_permitted: false,
            sacks: Vec::new(),
            stamps: None,
            payload: Vec::new(),
        });
    }

    fn drop_connection(&mut self, why: Closed) {
        self.state = State::Closed(why);
        self.timer = Timer::Off;
        self.pacing = None;
        self.acks.sent();
        if why != Closed::Orderly {
            // A reset discards unread data.
            self.receiver.discard();
        }
    }

    fn wire(&self, position: u64) -> u32 {
        self.setup.iss.wrapping_add(position as u32)
    }

    /// The position of a sequence number of the peer, nearest to the expected one.
    fn position(&self, seq: u32) -> u64 {
        let expected = self.irs.wrapping_add(self.receiver.next as u32);
        let away = i64::from(seq.wrapping_sub(expected) as i32);
        self.receiver.next.saturating_add_signed(away)
    }
}

#[cfg(test)]
mod tests;
