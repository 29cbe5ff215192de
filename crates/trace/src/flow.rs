//! One TCP connection as the capture shows it, from its first packet to its report.
//!
//! Decides which end is the client and when a connection is established and over. Passes each packet to the two
//! [`half::Half`]s, first as an acknowledgment, then as data. Knows no file and no other connection.

mod half;
mod repair;
mod restart;
mod stall;
mod stamps;

use crate::connection::{ConnectionId, End, Side, Vantage};
use crate::context::Context;
use crate::event::Connection;
use crate::exchange::{Exchange, Piece};
use crate::finding::Kind;
use crate::http::{Guess, guess};
use crate::packet::{Endpoint, Flags, Segment};
use crate::seq::Space;
use crate::series::{Mark, Point};
use crate::table::Tracked;
use crate::tls::Tls;
use crate::transaction::HttpCounts;
use core::time::Duration;
use half::{Arrival, Expired, Half};
use units::Instant;

/// The findings and points that only a connection's own parts report.
impl Context<'_> {
    fn zero_window(&mut self, sender: Side, since: (Instant, u64), probes: u32) {
        let cost = self.at.since(since.0);
        self.finding(
            sender,
            since.0,
            cost,
            &[since.1, self.number],
            Kind::ZeroWindow { probes },
        );
    }

    fn timeout(&mut self, sender: Side, expired: Expired, spurious: bool) {
        let kind = Kind::RetransmissionTimeout {
            transmissions: expired.transmissions,
            spurious,
        };
        self.finding(sender, expired.at, expired.cost, &expired.packets, kind);
    }

    fn window_limited(&mut self, sender: Side, waits: u64, cost: Duration, worst: (Duration, u64, u64)) {
        let kind = Kind::ReceiverWindowLimited {
            waits,
            window_max: self.peer_window_max,
        };
        self.finding(sender, self.at, cost, &[worst.1, worst.2], kind);
    }

    /// Records the largest flight of a round trip and when it was reached.
    fn cwnd(&mut self, side: Side, bytes: u64, reached: (Instant, u64), mss: u32) {
        self.meter.cwnd(reached.0, bytes, mss);
        self.recorder
            .record(self.connection, side, reached.0, reached.1, Mark::Cwnd { bytes });
    }

    fn series_rtt(&mut self, side: Side, rtt: Duration) {
        self.recorder
            .record(self.connection, side, self.at, self.number, Mark::Rtt { rtt });
    }
}

/// ```text
///   Opening --handshake--> Open --both FINs acked or RST--> Over (lingers for stragglers)
///      \------first data-----^
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Opening,
    Open {
        since: Instant,
    },
    Over {
        since: Option<Instant>,
        at: Instant,
        end: End,
    },
}

/// A connection being followed.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) id: ConnectionId,
    ends: [Endpoint; 2],
    phase: Phase,
    first: (Instant, u64),
    last: (Instant, u64),
    packets: u64,
    handshake: Option<Duration>,
    halves: [Half; 2],
    http: Option<Box<Exchange>>,
    counts: Option<HttpCounts>,
    tls: Option<Tls>,
    /// Whether the peer sent data since this side's last new data.
    heard: [bool; 2],
    /// Latest data segment that arrived after its receiver had closed.
    after_close: [Option<u64>; 2],
    after_close_bytes: [u64; 2],
    /// Whether the client was guessed from the ports alone; the first data may correct that.
    is_guess: bool,
}

impl Tracked for Flow {
    fn ends(&self) -> (Endpoint, Endpoint) {
        (self.ends[0], self.ends[1])
    }

    fn last_at(&self) -> Instant {
        self.last.0
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over { .. })
    }
}

impl Flow {
    pub(crate) fn new(id: ConnectionId, segment: &Segment<'_>, at: Instant, number: u64) -> Flow {
        let syn = segment.flags.has(Flags::SYN);
        let from_client = match (syn, segment.flags.has(Flags::ACK)) {
            (true, false) => true,
            (true, true) => false,
            _ => match guess(segment.payload) {
                Guess::Request => true,
                Guess::Response => false,
                Guess::Neither => segment.from.port >= segment.to.port,
            },
        };
        let ends = if from_client {
            [segment.from, segment.to]
        } else {
            [segment.to, segment.from]
        };
        let midstream = !syn;
        Flow {
            id,
            ends,
            phase: if midstream {
                Phase::Open { since: at }
            } else {
                Phase::Opening
            },
            first: (at, number),
            last: (at, number),
            packets: 0,
            handshake: None,
            halves: [Half::new(Side::Client), Half::new(Side::Server)],
            http: Some(Box::new(Exchange::new(midstream))),
            counts: None,
            tls: None,
            heard: [true, true],
            after_close: [None, None],
            after_close_bytes: [0, 0],
            is_guess: midstream,
        }
    }

    /// Decides which end is the client by the first data of a connection whose opening was not captured.
    fn reconsider(&mut self, segment: &Segment<'_>) {
        self.is_guess = false;
        let speaks = match guess(segment.payload) {
            Guess::Request => Side::Client,
            Guess::Response => Side::Server,
            Guess::Neither => return,
        };
        if speaks != self.side(segment) {
            self.ends.swap(0, 1);
            self.halves.swap(0, 1);
            (self.halves[0].side, self.halves[1].side) = (Side::Client, Side::Server);
            // Nothing was sent yet, so nothing else distinguishes the ends.
            self.http = Some(Box::new(Exchange::new(true)));
        }
    }

    pub(crate) fn is_established(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    /// Whether a SYN cannot belong to this connection: the endpoints opened another one.
    pub(crate) fn is_reopened_by(&self, segment: &Segment<'_>) -> bool {
        let flags = segment.flags;
        if !flags.has(Flags::SYN) || flags.has(Flags::ACK) {
            return false;
        }
        let half = &self.halves[self.side(segment) as usize];
        let same_start = half
            .space
            .is_some_and(|space| space.offset(segment.seq, half.next) == Space::BASE);
        (self.is_over() || half.next > Space::BASE + 1 || self.is_established()) && !same_start
    }

    fn side(&self, segment: &Segment<'_>) -> Side {
        if segment.from == self.ends[0] {
            Side::Client
        } else {
            Side::Server
        }
    }

    /// Processes one packet of this connection.
    pub(crate) fn packet(&mut self, segment: &Segment<'_>, cx: &mut Context<'_>) {
        if self.is_guess && segment.payload_len > 0 {
            self.reconsider(segment);
        }
        let side = self.side(segment);
        let silence = cx.at.since(self.last.0);
        self.last = (cx.at, cx.number);
        self.packets += 1;
        let [client, server] = &mut self.halves;
        let (s, r) = match side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        s.count(segment, cx.at);
        let flags = segment.flags;
        let is_syn = flags.has(Flags::SYN);
        let start = s.offset(segment.seq, is_syn);
        if is_syn {
            s.syn(segment, cx);
            r.peer_mss = segment.options.mss;
            if flags.has(Flags::ACK) {
                (s.shift, r.shift) = scaling(s, r);
            }
        }
        let same_window = s.window_matches(segment);
        // Acknowledgments of s's data travel from the capture point to s and back within this time.
        let back_to_s = r.base_rtt();
        if flags.has(Flags::ACK) {
            let back_to_r = s.base_rtt();
            let acked = r.acked;
            r.acknowledge(segment, same_window, silence, back_to_r, &mut s.stats, cx);
            if r.acked > acked {
                let ack = r.acked;
                r.note_ack(ack);
                if let Some(http) = &mut self.http {
                    http.acknowledged(side.peer(), ack, self.packets, cx);
                }
            }
        }
        s.offer(segment, r, cx);
        let [client, server] = &self.halves;
        let peer = match side {
            Side::Client => server,
            Side::Server => client,
        };
        let (peer_window, peer_fin) = (peer.known_window(), peer.fin);
        cx.peer_window_max = peer.stats.window.max.max(peer.window);
        let occupies = segment.payload_len > 0 || flags.has(Flags::SYN | Flags::FIN);
        if occupies && !flags.has(Flags::RST) {
            if peer_fin.is_some() && segment.payload_len > 0 {
                self.after_close[side as usize] = Some(cx.number);
                self.after_close_bytes[side as usize] += u64::from(segment.payload_len);
            }
            self.sequence(segment, side, start, peer_window, back_to_s, cx);
        } else if !flags.has(Flags::RST) {
            let s = &mut self.halves[side as usize];
            if s.space.is_some() && start + 1 == s.next && s.is_quiet() && s.next > Space::BASE + 1 {
                s.stats.keep_alives += 1;
                self.halves[side.peer() as usize].probe_counted();
            }
        }
        if cx.recorder.wants(cx.connection) {
            self.record(segment, side, start, cx);
        }
        self.advance(segment, side, cx);
    }

    fn sequence(
        &mut self,
        segment: &Segment<'_>,
        side: Side,
        start: u64,
        peer_window: u64,
        back: Duration,
        cx: &mut Context<'_>,
    ) {
        let has_data = segment.payload_len > 0;
        let data_start = start + u64::from(segment.flags.has(Flags::SYN));
        let data_end = data_start + u64::from(segment.payload_len);
        let heard = core::mem::replace(&mut self.heard[side as usize], false);
        let s = &mut self.halves[side as usize];
        s.catch_up(back, segment.options.timestamps.map(|(_, echo)| echo), cx);
        if has_data && heard && s.is_quiet() {
            s.end_turn(cx);
        } else if !has_data {
            self.heard[side as usize] = heard;
        }
        let s = &mut self.halves[side as usize];
        let resent_before = s.stats.out_of_order_late;
        let arrival = s.place(segment, start, peer_window, cx);
        let is_resent = s.stats.out_of_order_late > resent_before;
        let fin = segment.flags.has(Flags::FIN);
        // A single byte into a closed window waited for the receiver only.
        let asks = peer_window == 0 && segment.payload_len == 1;
        if has_data && arrival == Arrival::New && !asks {
            s.watch_restart(data_start, data_end, cx);
            s.judge(back, fin, cx);
        }
        if fin {
            s.fin = Some(data_end);
        }
        if has_data {
            self.heard[side.peer() as usize] = true;
            let is_probe = segment.payload_len == 1 || arrival == Arrival::WindowProbe;
            if peer_window == 0 && is_probe {
                self.halves[side.peer() as usize].probe_counted();
            }
            if arrival != Arrival::KeepAlive {
                let piece = Piece {
                    start: data_start,
                    len: segment.payload_len,
                    bytes: segment.payload,
                    is_resent,
                };
                self.http_data(side, piece, cx);
            }
        } else if segment.flags.has(Flags::SYN)
            && let Some(http) = &mut self.http
        {
            http.expect(side, data_start);
        }
        if fin && let Some(http) = &mut self.http {
            http.fin(side, data_end, self.packets, cx);
        }
    }

    fn http_data(&mut self, side: Side, piece: Piece<'_>, cx: &mut Context<'_>) {
        let Some(http) = &mut self.http else {
            return;
        };
        http.data(side, piece, self.packets, cx);
        if http.is_over() {
            self.finish_http(cx);
        }
    }

    /// Moves the connection through opening, open and over.
    fn advance(&mut self, segment: &Segment<'_>, side: Side, cx: &mut Context<'_>) {
        let flags = segment.flags;
        if flags.has(Flags::RST) {
            if !self.is_over() {
                self.reset(side, cx);
            }
            return;
        }
        match self.phase {
            Phase::Opening => {
                let both = self.halves.iter().all(|h| h.syns().0 > 0);
                let answered =
                    both && side == Side::Client && flags.has(Flags::ACK) && !flags.has(Flags::SYN);
                let midway = segment.payload_len > 0 && !flags.has(Flags::SYN);
                if answered || midway {
                    self.handshake = both.then(|| cx.at.since(self.first.0));
                    self.phase = Phase::Open { since: cx.at };
                    cx.meter.opened(cx.at);
                    self.report_handshake(cx);
                }
            }
            Phase::Open { since } => {
                let closed = self.halves.iter().all(|h| h.fin.is_some() && h.is_quiet());
                if closed {
                    self.over(Some(since), cx.at, End::Closed, cx);
                }
            }
            Phase::Over { .. } => {}
        }
    }

    fn over(&mut self, since: Option<Instant>, at: Instant, end: End, cx: &mut Context<'_>) {
        if let Some(since) = since {
            cx.meter.closed(at, at.since(since));
        }
        self.phase = Phase::Over { since, at, end };
        if !self.http.as_ref().is_some_and(|http| http.awaits_secrets()) {
            self.finish_http(cx);
        }
        for half in &mut self.halves {
            half.rest(cx);
        }
    }

    fn finish_http(&mut self, cx: &mut Context<'_>) {
        if let Some(mut http) = self.http.take() {
            http.finish(self.packets, cx);
            self.counts = Some(http.counts());
            self.tls = http.tls().cloned();
        }
    }

    fn report_handshake(&mut self, cx: &mut Context<'_>) {
        for half in &self.halves {
            let (transmissions, first) = half.syns();
            if let Some((at, packet)) = first
                && transmissions > 1
                && let Some(last) = half.last_syn()
            {
                let kind = Kind::HandshakeRetransmission { transmissions };
                cx.finding(half.side, at, last.0.since(at), &[packet, last.1], kind);
            }
        }
    }

    /// Reports a reset that destroyed data.
    fn reset(&mut self, side: Side, cx: &mut Context<'_>) {
        let since = match self.phase {
            Phase::Open { since } => Some(since),
            _ => None,
        };
        if self.phase == Phase::Opening {
            // The refusal ends the handshake, so its retransmissions are reported here.
            self.report_handshake(cx);
        }
        let (requests, waiting) = self.http.as_ref().map_or((0, None), |http| http.waiting());
        let (own, peer) = (&self.halves[side as usize], &self.halves[side.peer() as usize]);
        let own_fin = own.fin.is_some();
        let unacknowledged = own.unacknowledged_data();
        let late = self.after_close_bytes[side.peer() as usize];
        // Nobody misses the last alert of TLS.
        let farewell = self.http.as_ref().map_or(0, |http| http.farewell(side.peer()));
        let unread = peer.unacknowledged_data().max(if own_fin { late } else { 0 });
        let unread = if unread <= farewell { 0 } else { unread };
        // A refused or aborted handshake destroys nothing.
        if since.is_some() && (unacknowledged > 0 || unread > 0 || requests > 0) {
            let oldest = [own.oldest_data(), peer.oldest_data(), waiting]
                .into_iter()
                .flatten()
                .min();
            let cost = oldest.map_or(Duration::ZERO, |oldest| cx.at.since(oldest));
            let mut packets = Vec::new();
            packets
                .extend(self.after_close[side.peer() as usize].or(peer.last_data.map(|(_, packet)| packet)));
            packets.push(cx.number);
            let kind = Kind::ResetDestroyedData {
                by: side,
                unacknowledged,
                unread,
                requests,
                after_close: own_fin,
            };
            cx.finding(side, cx.at, cost, &packets, kind);
        }
        self.over(since, cx.at, End::Reset(side), cx);
    }

    fn record(&mut self, segment: &Segment<'_>, side: Side, start: u64, cx: &mut Context<'_>) {
        let s = &self.halves[side as usize];
        let r = &self.halves[side.peer() as usize];
        let point = |mark| Point {
            at: cx.at.since(cx.start),
            packet: cx.number,
            side,
            mark,
        };
        if segment.payload_len > 0 || segment.flags.has(Flags::SYN | Flags::FIN) {
            let start = Space::relative(start);
            cx.recorder.push(point(Mark::Data {
                start,
                end: start + i64::from(segment.payload_len),
                again: s.last_data.is_none_or(|(_, packet)| packet != cx.number) && segment.payload_len > 0,
                syn: segment.flags.has(Flags::SYN),
                fin: segment.flags.has(Flags::FIN),
                flight: s.flight(),
            }));
        }
        if segment.flags.has(Flags::ACK) && r.space.is_some() {
            let ack = Space::relative(r.acked);
            cx.recorder.push(point(Mark::Ack {
                ack,
                edge: ack + s.window as i64,
                flight: r.flight(),
            }));
        }
        if segment.flags.has(Flags::RST) {
            cx.recorder.push(point(Mark::Reset));
        }
    }

    /// Ends the record: settles all open questions and makes the report.
    pub(crate) fn finish(mut self, end: End, cx: &mut Context<'_>) -> Connection {
        let (since, over_at, end) = match self.phase {
            Phase::Over { since, at, end } => (since, at, end),
            Phase::Open { since } => (Some(since), self.last.0, end),
            Phase::Opening => (None, self.last.0, end),
        };
        if self.is_established() {
            cx.meter.closed(self.last.0, self.last.0.since(self.first.0));
        } else if self.phase == Phase::Opening {
            self.report_handshake(cx);
        }
        self.finish_http(cx);
        let [mut client, mut server] = self.halves;
        client.settle_zero_window(&mut server, cx);
        server.settle_zero_window(&mut client, cx);
        let windows = [&client, &server].map(|h| h.stats.window.max);
        for (half, peer_window_max) in [(&mut client, windows[1]), (&mut server, windows[0])] {
            cx.peer_window_max = peer_window_max;
            half.end_turn(cx);
            half.close(cx);
        }
        let http = self
            .counts
            .filter(|c| c.requests + c.unmatched_responses + c.cut_heads > 0);
        Connection {
            id: self.id,
            client: self.ends[0],
            server: self.ends[1],
            start: self.first.0.since(cx.start),
            duration: self.last.0.since(self.first.0),
            handshake: self.handshake,
            established: since.map(|since| over_at.since(since)),
            end,
            vantage: vantage(self.handshake, &client, &server),
            packets: (self.first.1, self.last.1),
            from_client: client.stats,
            from_server: server.stats,
            http,
            tls: self.tls,
            packets_per_request: http
                .filter(|c| c.requests > 0)
                .map(|c| self.packets as f64 / c.requests as f64),
        }
    }
}

/// Window scaling applies only if both ends announced it (RFC 7323, section 2.2); `None` if not captured.
fn scaling(a: &Half, b: &Half) -> (Option<u8>, Option<u8>) {
    match (a.announced_scale(), b.announced_scale()) {
        (Some(None), _) | (_, Some(None)) => (Some(0), Some(0)),
        (a, b) => a.flatten().zip(b.flatten()).unzip(),
    }
}

/// The nearer end answers its part of the handshake sooner.
fn vantage(handshake: Option<Duration>, client: &Half, server: &Half) -> Vantage {
    if handshake.is_none() {
        return Vantage::Unknown;
    }
    let (to_server, to_client) = (client.base_rtt(), server.base_rtt());
    if to_server > to_client * 4 {
        Vantage::Client
    } else if to_client > to_server * 4 {
        Vantage::Server
    } else {
        Vantage::Middle
    }
}
