//! Where the time of a fetch went: assigns every instant of the critical path to one cause.
//!
//! Works backward from the end. The response that ended last was received over some interval. Before it, the
//! client waited for its first byte; before that, the request was held, or waited for a connection, or its
//! reference was not yet known. The response that made the reference known is next. Each step covers the
//! interval between two instants, and the next step begins where it ended. So the intervals are a partition,
//! and their sum is the elapsed time by construction, even if a cause is wrong.
//!
//! Causes are inferred from this end only: from the arrival times of bytes and the kernel's `TCP_INFO`. Knows
//! no packets; a caller with a capture knows more and can give [`Span`]s other causes.

mod hints;
mod streams;

use crate::timeline::{Arrival, Connection, Sight, Timeline, Try};
pub use hints::{Hint, hints};
use std::collections::VecDeque;
pub use streams::{StreamTime, Wait, streams};
use units::{Duration, Instant};

/// A cause of elapsed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Establishing a connection.
    Connect,
    /// The TLS handshake of a connection.
    Handshake,
    /// One round trip for a request and the first byte of its response, whichever server responds.
    RoundTrip,
    /// The server's silence beyond the round trip before a response.
    ServerWait,
    /// The server's silence inside a response, or between responses it owed.
    ServerPause,
    /// Either the server used up its window and waited for acknowledgments, or it paused for about a round
    /// trip. This end cannot distinguish the two.
    SlowStart,
    /// Either the server waited for an acknowledgment that this end delays, or it paused for that long. This
    /// end cannot distinguish the two.
    DelayedAck,
    /// A full link: the time these bytes take at the link's rate, measured while bytes came back to back.
    Bandwidth,
    /// Bytes arrived with pauses too short to distinguish from delays in either host, and no full link is
    /// known.
    Transfer,
    /// A segment is known to have been missing.
    LossRecovery,
    /// Silence longer than a round trip on a path that loses segments: either the last segment in flight was
    /// lost, or the server was slow. This end cannot distinguish the two.
    LossOrServer,
    /// No request was outstanding: one was held in the output buffer, or made later than possible.
    ClientIdle,
    /// HTTP/2: the server had used up the flow-control window, and continued a round trip after this end granted more.
    FlowControl,
}

impl Cause {
    /// All causes, in the order of tables.
    pub const ALL: [Cause; 13] = [
        Cause::Connect,
        Cause::Handshake,
        Cause::RoundTrip,
        Cause::ServerWait,
        Cause::ServerPause,
        Cause::SlowStart,
        Cause::DelayedAck,
        Cause::Bandwidth,
        Cause::Transfer,
        Cause::LossRecovery,
        Cause::LossOrServer,
        Cause::ClientIdle,
        Cause::FlowControl,
    ];

    /// The name in flags and results.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Connect => "connect",
            Cause::Handshake => "TLS handshake",
            Cause::RoundTrip => "round trip",
            Cause::ServerWait => "server wait",
            Cause::ServerPause => "server pause",
            Cause::SlowStart => "slow start or pause",
            Cause::DelayedAck => "delayed ACK or pause",
            Cause::FlowControl => "flow control",
            Cause::Bandwidth => "bandwidth",
            Cause::Transfer => "unexplained transfer",
            Cause::LossRecovery => "loss recovery",
            Cause::LossOrServer => "loss or server",
            Cause::ClientIdle => "client idle",
        }
    }
}

/// An interval of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start of the interval.
    pub from: Instant,
    /// End of the interval, after its start.
    pub to: Instant,
    /// The cause of the time.
    pub cause: Cause,
    /// Index of the object the client waited for.
    pub object: usize,
}

/// The critical path of a fetch, in order. Spans are contiguous, of positive length, and cover the whole fetch.
/// Empty if the fetch took no time.
pub fn explain(timeline: &Timeline) -> Vec<Span> {
    let mut walk = Walk {
        timeline,
        line: Line::of(timeline),
        is_lossy: is_lossy(timeline),
        at: timeline.ended,
        spans: Vec::new(),
    };
    walk.back();
    let mut spans = walk.spans;
    spans.reverse();
    spans
}

/// The time of each cause, in the order of [`Cause::ALL`]; the sum is the elapsed time.
pub fn sums(spans: &[Span]) -> [(Cause, Duration); Cause::ALL.len()] {
    Cause::ALL.map(|cause| {
        let of_cause = spans.iter().filter(|span| span.cause == cause);
        (cause, of_cause.map(|span| span.to - span.from).sum())
    })
}

/// Whether segments were lost in a record that knows only this end.
fn is_lossy(timeline: &Timeline) -> bool {
    let is_seen = |one: &Connection| {
        let last = one.arrivals.last();
        one.shaken_again > 0
            || last.is_some_and(|last| last.holes > 0 || last.repeats > 0)
            || one.tcp.is_some_and(|tcp| tcp.retransmitted > 0)
            || one.quic.is_some_and(|quic| quic.lost > 0)
    };
    timeline.sight == Sight::Here && timeline.connections.iter().any(is_seen)
}

/// Index of an object, and of one of its tries.
type Place = (usize, usize);

struct Walk<'t> {
    timeline: &'t Timeline,
    line: Line,
    /// Whether segments were lost, and more may have been lost than this end noticed.
    is_lossy: bool,
    /// Everything after this instant is explained.
    at: Instant,
    spans: Vec<Span>,
}

impl Walk<'_> {
    /// Assigns the time since `from` to a cause.
    fn spend(&mut self, from: Instant, cause: Cause, object: usize) {
        let from = from.max(self.timeline.began);
        if from < self.at {
            match self.spans.last_mut() {
                Some(last) if last.cause == cause && last.object == object => last.from = from,
                _ => self.spans.push(Span {
                    from,
                    to: self.at,
                    cause,
                    object,
                }),
            }
            self.at = from;
        }
    }

    fn try_at(&self, place: Place) -> &Try {
        &self.timeline.objects[place.0].tries[place.1]
    }

    /// The response completed last at or before `at`, except those for which `but` is true.
    fn last_complete(&self, at: Instant, but: impl Fn(Place) -> bool) -> Option<Place> {
        let all = self.timeline.objects.iter().enumerate();
        all.flat_map(|(object, record)| (0..record.tries.len()).map(move |one| (object, one)))
            .filter(|&place| !but(place))
            .filter_map(|place| Some((self.try_at(place).last.filter(|&last| last <= at)?, place)))
            .max_by_key(|(last, _)| *last)
            .map(|(_, place)| place)
    }

    fn back(&mut self) {
        let mut next = self.last_complete(self.at, |_| false);
        let tries: usize = self
            .timeline
            .objects
            .iter()
            .map(|object| object.tries.len())
            .sum();
        // Each step goes to an earlier try, or to the object that made this one known.
        for _ in 0..=2 * tries + self.timeline.objects.len() {
            let Some(place) = next else { break };
            if let Some(last) = self.try_at(place).last {
                self.spend(last, Cause::ClientIdle, place.0);
            }
            next = self.step(place);
            if self.at <= self.timeline.began {
                return;
            }
        }
        // The time before the first request, or of one that was never answered.
        let cause = if self
            .timeline
            .connections
            .iter()
            .any(|one| one.connected.is_some())
        {
            Cause::ServerWait
        } else {
            Cause::Connect
        };
        let first = self
            .timeline
            .objects
            .iter()
            .flat_map(|object| object.tries.first());
        let asked = first.map(|one| one.asked).min().unwrap_or(self.at);
        self.spend(asked, cause, 0);
        self.spend(self.timeline.began, Cause::ClientIdle, 0);
    }

    /// Explains one response back to the start of waiting for it; returns the response waited for before.
    fn step(&mut self, place: Place) -> Option<Place> {
        let one = self.try_at(place).clone();
        let connection = &self.timeline.connections[one.connection];
        let path = Path::of(connection);
        // A response that began later cannot have been waited for at this instant.
        let first = one.first.filter(|&first| first <= self.at).unwrap_or(self.at);
        self.receive(place.0, connection, &path, first);
        let stands = connection.ready().unwrap_or(connection.opened);
        let sent = one.sent.unwrap_or(one.asked).max(stands);
        if one.stream.is_some() {
            // Other responses came meanwhile, in any order. What they brought is explained as a receipt, too.
            let reached = sent + path.rtt.unwrap_or(Duration::ZERO);
            let later = connection.arrivals.partition_point(|one| one.at < reached);
            if let Some(other) = connection.arrivals.get(later).filter(|other| other.at < self.at) {
                self.receive(place.0, connection, &path, other.at);
            }
        }
        // The previous response on the connection delayed it, if it was complete after the request was sent.
        let before = self.answer_before(place);
        if let Some(before) = before
            && let Some(last) = self.try_at(before).last
            && last > sent
            && last <= self.at
        {
            self.receive(place.0, connection, &path, last);
            return Some(before);
        }
        self.await_first(place.0, connection, &path, sent);
        if connection.opened >= one.asked.min(sent) {
            // A request that left the moment its connection was ready had waited for that.
            let left = one.sent.filter(|_| one.sent != connection.ready());
            self.connect(place.0, connection, left.unwrap_or(one.asked));
        }
        self.spend(one.asked, Cause::ClientIdle, place.0);
        self.before_asking(place, one.asked)
    }

    /// The previous request on the same connection, whose response comes first; in HTTP/2 none has to.
    fn answer_before(&self, place: Place) -> Option<Place> {
        let one = self.try_at(place);
        if one.stream.is_some() {
            return None;
        }
        let all = self.timeline.objects.iter().enumerate();
        all.flat_map(|(object, record)| (0..record.tries.len()).map(move |one| (object, one)))
            .filter(|&other| {
                let other = self.try_at(other);
                other.connection == one.connection && other.turn < one.turn
            })
            .max_by_key(|&other| self.try_at(other).turn)
    }

    /// Explains the time from a request to the first bytes of its response: a round trip, then the server's
    /// silence unless something was lost, then the transmission time of these bytes and of others that arrived
    /// meanwhile.
    fn await_first(&mut self, object: usize, connection: &Connection, path: &Path, sent: Instant) {
        let reached = (sent + path.rtt.unwrap_or(Duration::ZERO)).min(self.at);
        let beyond = self.at.since(reached);
        let arrivals = &connection.arrivals;
        let loss = arrivals
            .partition_point(|arrival| arrival.at <= self.at)
            .checked_sub(1)
            .map_or(Loss::None, |number| Loss::before(connection, number));
        let of_loss = match loss {
            Loss::Hole => self.line.time_of_segment(path.segment).min(beyond),
            Loss::None | Loss::Repeat => Duration::ZERO,
        };
        let fair = self.line.time_of(sent, self.at).min(beyond - of_loss);
        let cause = match loss {
            Loss::None => self.silence(Cause::ServerWait),
            Loss::Hole | Loss::Repeat => Cause::LossRecovery,
        };
        let silent = Instant::from_nanos(self.at.as_nanos() - fair.as_nanos() as u64);
        self.spend(silent, Cause::Bandwidth, object);
        self.spend(reached, cause, object);
        self.spend(sent, Cause::RoundTrip, object);
    }

    /// The cause of an otherwise unexplained silence: the server's, unless a loss may be behind it.
    fn silence(&self, of_server: Cause) -> Cause {
        match self.is_lossy {
            true => Cause::LossOrServer,
            false => of_server,
        }
    }

    /// Explains the wait for a connection. The client notices that it is established when it sends the first
    /// request, so time before that belongs to the request.
    fn connect(&mut self, object: usize, connection: &Connection, sent: Instant) {
        let opened = connection.opened.max(sent);
        if let (Some(_), Some(connected)) = (connection.secured, connection.connected) {
            self.spend(connected.max(opened), Cause::Handshake, object);
        }
        let rtt = connection.rtt_min();
        if let (1.., Some(rtt)) = (connection.shaken_again, rtt) {
            let from = connection.connected.unwrap_or(self.at);
            let fair = Instant::from_nanos(from.as_nanos().saturating_sub(rtt.as_nanos() as u64));
            self.spend(fair.max(opened), Cause::Connect, object);
            self.spend(opened, Cause::LossRecovery, object);
        }
        self.spend(opened, Cause::Connect, object);
    }

    /// Explains why a request was not made earlier: its reference was not known, or it had to wait for another
    /// request.
    fn before_asking(&mut self, place: Place, asked: Instant) -> Option<Place> {
        let object = &self.timeline.objects[place.0];
        let earlier_try = (0..place.1)
            .map(|one| (place.0, one))
            .rev()
            .find(|&other| self.try_at(other).last.is_some_and(|last| last <= asked));
        if earlier_try.is_some() {
            return earlier_try;
        }
        if object.found < asked {
            let waited_for = self.last_complete(asked, |other| other.0 == place.0);
            if let Some(other) = waited_for
                && self.try_at(other).last.is_some_and(|last| last > object.found)
            {
                return Some(other);
            }
            self.spend(object.found, Cause::ClientIdle, place.0);
        }
        // The object that refers to it was being received then.
        let parent = object.parent?;
        let tries = &self.timeline.objects[parent].tries;
        let one = tries
            .iter()
            .rposition(|one| one.hinted.or(one.first).is_some_and(|told| told <= object.found))?;
        Some((parent, one))
    }

    /// Explains the time since `from` during which a connection received bytes.
    fn receive(&mut self, object: usize, connection: &Connection, path: &Path, from: Instant) {
        let end = connection
            .arrivals
            .partition_point(|arrival| arrival.at <= self.at);
        let late = connection.arrivals[..end].last();
        if let Some(late) = late
            && late.at >= from
        {
            // Between the last bytes and their consequence, this end was working.
            self.spend(late.at, Cause::ClientIdle, object);
        }
        for number in (1..end).rev() {
            if connection.arrivals[number].at <= from {
                break;
            }
            self.gap(object, connection, path, number, from);
        }
        self.spend(from, Cause::ServerPause, object);
    }

    /// Explains the time between two receipts: the transmission time of the bytes, including those of other
    /// connections, and the rest.
    fn gap(&mut self, object: usize, connection: &Connection, path: &Path, number: usize, from: Instant) {
        let (before, arrival) = (connection.arrivals[number - 1], connection.arrivals[number]);
        let loss = Loss::before(connection, number);
        let began = before.at.max(from);
        let gap = arrival.at - before.at;
        let fair = self.line.time_of(before.at, arrival.at).min(gap);
        // A retransmitted segment used the link a second time, even if other segments arrived meanwhile.
        let excess = match loss {
            Loss::Hole => (gap - fair).max(self.line.time_of_segment(path.segment).min(gap)),
            Loss::None | Loss::Repeat => gap - fair,
        };
        let earlier = &connection.arrivals[..number];
        let is_clocked = path.is_clocked(earlier, arrival.at);
        let is_held = path.is_held(gap);
        let is_granted = before
            .dry
            .is_some_and(|raised| path.is_answer(raised, arrival.at));
        let silence = self.silence(Cause::ServerPause);
        // Short delays of either host are normal on a full link; on a link that was mostly idle they stay
        // unexplained.
        let short = match fair * 2 >= gap && !fair.is_zero() {
            true => Cause::Bandwidth,
            false => Cause::Transfer,
        };
        let cause = match path.cause_of(excess, loss, (is_clocked, is_held), silence) {
            Some(cause) if is_granted && cause != Cause::LossRecovery => Cause::FlowControl,
            cause => cause.unwrap_or(short),
        };
        let paused = (before.at + excess).max(began);
        self.spend(paused, Cause::Bandwidth, object);
        self.spend(began, cause, object);
    }
}

/// Fewest receipts in a sample of the rate.
const RUN: usize = 3;
/// Fewest receipts of different sizes that prove a pace; fewer may fit by chance.
const RUN_VARIED: usize = 8;
/// Most receipts in a sample, to limit its time.
const RUN_MAX: usize = 512;
/// Fewest bytes in a sample, as a divisor of all bytes: with few bytes, a receipt noticed late makes the link
/// look faster.
const SHARE: u64 = 16;
/// Upper limit of that number of bytes, because a window may be all that arrives in one piece.
const SAMPLE_BYTES_MAX: u64 = 256 << 10;

/// The receipts of all connections, which share the bottleneck.
#[derive(Debug)]
struct Line {
    /// Instants, and the total bytes up to and including each.
    sums: Vec<(Instant, u64)>,
    /// Bytes per second: the best of all samples that show a full link; `None` without such a sample.
    rate: Option<f64>,
}

impl Line {
    fn of(timeline: &Timeline) -> Line {
        let mut lumps: Vec<Lump> = timeline.connections.iter().flat_map(lumps_of).collect();
        lumps.sort_unstable_by_key(|lump| lump.at);
        let rtts = timeline.connections.iter().filter_map(|one| Path::of(one).rtt);
        let rtt = rtts.max().unwrap_or(Duration::ZERO);
        let rate = line_rate(&lumps, &owing(timeline), rtt);
        let mut sums: Vec<(Instant, u64)> = lumps.iter().flat_map(Lump::spread).collect();
        sums.sort_unstable();
        let mut total = 0;
        for (_, bytes) in &mut sums {
            total += *bytes;
            *bytes = total;
        }
        Line { sums, rate }
    }

    /// Transmission time of the bytes received after `from` and up to `to`; zero if the rate is unknown.
    fn time_of(&self, from: Instant, to: Instant) -> Duration {
        let up_to = |at: Instant| {
            let count = self.sums.partition_point(|(when, _)| *when <= at);
            count.checked_sub(1).map_or(0, |last| self.sums[last].1)
        };
        self.time_of_bytes(up_to(to).saturating_sub(up_to(from)))
            .unwrap_or(Duration::ZERO)
    }

    /// Longest transmission time of a retransmitted segment; unlimited if the rate is unknown.
    fn time_of_segment(&self, bytes: u64) -> Duration {
        self.time_of_bytes(bytes).unwrap_or(Duration::MAX)
    }

    fn time_of_bytes(&self, bytes: u64) -> Option<Duration> {
        let rate = self.rate.filter(|rate| *rate > 0.0)?;
        Some(Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(Duration::MAX))
    }
}

/// Intervals during which the server was sending, or owed bytes requested at least a round trip before; without
/// the times between a response and the request that follows it. Ordered and disjoint.
fn owing(timeline: &Timeline) -> Vec<(Instant, Instant)> {
    let tries = timeline.objects.iter().flat_map(|object| &object.tries);
    let mut all: Vec<(Instant, Instant)> = tries
        .filter_map(|one| {
            let rtt = Path::of(timeline.connections.get(one.connection)?).rtt;
            let reached = one.sent.map(|sent| sent + rtt.unwrap_or(Duration::ZERO));
            let from = match (one.first, reached) {
                (Some(first), Some(reached)) => first.min(reached),
                (one, other) => one.or(other)?,
            };
            Some((from, one.last.unwrap_or(timeline.ended)))
        })
        .filter(|(from, to)| from < to)
        .collect();
    all.sort_unstable();
    all.dedup_by(|next, before| {
        let is_one = next.0 <= before.1;
        if is_one {
            before.1 = before.1.max(next.1);
        }
        is_one
    });
    all
}

/// Bytes delivered at `at` that arrived since `since`.
#[derive(Clone, Copy, Debug)]
struct Lump {
    since: Instant,
    at: Instant,
    bytes: u64,
    /// Estimated number of segments.
    pieces: u64,
    /// Data bytes of the largest segment on the path.
    segment: u64,
}

impl Lump {
    /// The bytes as if they had arrived evenly.
    fn spread(&self) -> impl Iterator<Item = (Instant, u64)> {
        let Lump {
            at, bytes, pieces, ..
        } = *self;
        let span = at.since(self.since);
        (1..=pieces).map(move |piece| {
            let early = span.mul_f64((pieces - piece) as f64 / pieces as f64);
            let at = Instant::from_nanos(at.as_nanos().saturating_sub(early.as_nanos() as u64));
            (at, bytes * piece / pieces - bytes * (piece - 1) / pieces)
        })
    }
}

/// Most pieces of a lump: more than a window has segments.
const PIECES_MAX: u64 = 10_000;

/// The receipts of a connection, with the time since when they may have arrived. Bytes that waited behind a
/// hole are delivered all at once, although the link carried them while the hole was open. While one receipt
/// after another fills holes, the arrival of each byte is unknown: all of them form one lump since the receipt
/// before.
fn lumps_of(connection: &Connection) -> Vec<Lump> {
    let path = Path::of(connection);
    let segment = path.segment;
    let arrivals = &connection.arrivals;
    let is_hole = |number: usize| Loss::before(connection, number) == Loss::Hole;
    let stands = connection.ready().unwrap_or(connection.opened);
    let mut lumps = Vec::new();
    let mut from = 0;
    while from < arrivals.len() {
        let holes = (from..arrivals.len()).take_while(|&number| is_hole(number));
        let to = holes.last().unwrap_or(from);
        let (since, before) = match from.checked_sub(1) {
            Some(before) => (arrivals[before].at, arrivals[before].came),
            None => (stands, 0),
        };
        let last = arrivals[to];
        let bytes = last.came.saturating_sub(before);
        if bytes > 0 {
            lumps.push(match is_hole(from) {
                true => Lump {
                    since: since.min(last.at),
                    at: last.at,
                    bytes,
                    pieces: bytes.div_ceil(segment).clamp(1, PIECES_MAX),
                    segment: path.largest,
                },
                false => Lump {
                    since: last.at,
                    at: last.at,
                    bytes,
                    pieces: 1,
                    segment: path.largest,
                },
            });
        }
        from = to + 1;
    }
    lumps
}

/// The highest rate that lasted: samples of nearly that rate begin at least a round trip apart. A sender that
/// paces (BBR) fills a round trip as evenly as a full link does, but sends faster in the next one until the
/// link is full.
fn lasting(samples: &[(Instant, f64)], rtt: Duration) -> Option<f64> {
    let mut by_rate: Vec<(Instant, f64)> = samples.to_vec();
    by_rate.sort_unstable_by(|one, other| other.1.total_cmp(&one.1));
    let mut end = 0;
    // The earliest and latest start in the window from `start`, both in order of rate.
    let (mut firsts, mut lasts) = (VecDeque::new(), VecDeque::new());
    for start in 0..by_rate.len() {
        while end < by_rate.len() && by_rate[end].1 >= by_rate[start].1 * ALIKE {
            while firsts
                .back()
                .is_some_and(|&one: &usize| by_rate[one].0 >= by_rate[end].0)
            {
                firsts.pop_back();
            }
            while lasts
                .back()
                .is_some_and(|&one: &usize| by_rate[one].0 <= by_rate[end].0)
            {
                lasts.pop_back();
            }
            firsts.push_back(end);
            lasts.push_back(end);
            end += 1;
        }
        let (first, last) = (*firsts.front()?, *lasts.front()?);
        if by_rate[last].0 - by_rate[first].0 >= rtt {
            return Some(by_rate[start].1);
        }
        if firsts.front() == Some(&start) {
            firsts.pop_front();
        }
        if lasts.front() == Some(&start) {
            lasts.pop_front();
        }
    }
    None
}

/// Bytes per second: the highest rate of the samples that show a full link. `lumps` is ordered by end. A lump
/// counts only in samples that contain all of it; otherwise it would look like a fast link.
fn line_rate(lumps: &[Lump], owing: &[(Instant, Instant)], rtt: Duration) -> Option<f64> {
    let mut sums = Vec::with_capacity(lumps.len());
    let mut total = 0;
    for lump in lumps {
        total += lump.bytes;
        sums.push(total);
    }
    let enough = (total / SHARE).min(SAMPLE_BYTES_MAX);
    let mut by_beginning: Vec<&Lump> = lumps.iter().filter(|lump| lump.since < lump.at).collect();
    by_beginning.sort_unstable_by_key(|lump| lump.since);
    let mut coming = by_beginning.into_iter().peekable();
    // Lumps in progress at the start of a sample: at most one per connection.
    let mut astride: Vec<&Lump> = Vec::new();
    let mut samples: Vec<(Instant, f64)> = Vec::new();
    let mut end = 0;
    for start in 0..lumps.len() {
        let from = lumps[start].at;
        while let Some(lump) = coming.next_if(|lump| lump.since < from) {
            astride.push(lump);
        }
        astride.retain(|lump| lump.at > from);
        let bytes = |end: usize| {
            let partly = astride.iter().filter(|lump| lump.at <= lumps[end].at);
            (sums[end] - sums[start]).saturating_sub(partly.map(|lump| lump.bytes).sum())
        };
        end = end.max(start + RUN);
        let is_short = |end: usize| bytes(end) < enough || lumps[end].at - from < PAUSE_MIN;
        while end < lumps.len() && end - start < RUN_MAX && is_short(end) {
            end += 1;
        }
        if end >= lumps.len() {
            break;
        }
        // Where sizes differ, more receipts are needed than with whole segments.
        let longer = end.max(start + RUN_VARIED).min(lumps.len() - 1);
        for (end, evidence) in [(end, Evidence::WholeSegments), (longer, Evidence::Pace)] {
            let to = lumps[end].at;
            let stretch = owing.partition_point(|(began, _)| *began <= from);
            let is_owed = stretch.checked_sub(1).is_some_and(|last| owing[last].1 >= to);
            let sample = Sample {
                first: lumps[start],
                lumps: &lumps[start + 1..=end],
                bytes: bytes(end),
            };
            if to - from >= PAUSE_MIN && is_owed && sample.is_full_line(evidence) {
                samples.push((from, sample.rate()));
                break;
            }
        }
    }
    lasting(&samples, rtt)
}

/// Consecutive receipts while bytes were owed.
struct Sample<'l> {
    /// The lump at whose end the sample starts.
    first: Lump,
    lumps: &'l [Lump],
    /// Bytes received in the sample.
    bytes: u64,
}

/// Longest delay before a process notices a receipt.
const READ_LATE: Duration = Duration::from_millis(2);

/// Evidence for a full link, given bytes that arrived evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// Most bytes came in segments of the largest size on the path.
    WholeSegments,
    /// Receipts of different sizes each came after the transmission time of their bytes.
    Pace,
}

/// Ratio above which two rates count as nearly equal.
const ALIKE: f64 = 0.85;
/// Required share of receipts that are whole segments. A bulk response has shorter ones only at its end, or at
/// the end of each 4 KiB its server writes.
const NEARLY_WHOLE: f64 = 0.6;
/// Option bytes in a segment: timestamps (RFC 7323, section 3.2) with padding.
const OPTIONS: f64 = 12.0;
/// Required share of bytes in whole segments.
const MOST: f64 = 2.0 / 3.0;
/// Required share of bytes in receipts that keep the link's pace.
const NEARLY_ALL: f64 = 0.9;

impl Sample<'_> {
    fn rate(&self) -> f64 {
        let took = self
            .lumps
            .last()
            .map_or(Duration::ZERO, |last| last.at - self.first.at);
        self.bytes as f64 / took.as_secs_f64()
    }

    /// Whether the bytes came back to back at one rate. A server that paces its writes sends pieces smaller
    /// than the path's segments at intervals unrelated to their size; or larger pieces that arrive all at once,
    /// which is impossible on a link of this rate.
    fn is_full_line(&self, evidence: Evidence) -> bool {
        let rate = self.rate();
        let of_noise = rate * READ_LATE.as_secs_f64();
        let (mut came, mut full, mut fitting) = (0.0, 0.0, 0.0);
        let mut whole = 0;
        let (mut least, mut most) = (u64::MAX, 0);
        let mut before = self.first.at;
        for lump in self.lumps {
            let bytes = lump.bytes as f64;
            let segment = lump.segment as f64;
            let is_spread = lump.since < lump.at;
            came += bytes;
            // Even: the bytes never differ from the expected number by more than a late reader explains.
            let due = rate * (lump.at - self.first.at).as_secs_f64();
            let slack = 0.25 * segment.min(SEGMENT as f64) + of_noise.min(self.bytes as f64 / 4.0);
            if !is_spread && (came - due).abs() > slack {
                return false;
            }
            // A burst: more at once than the link can carry in an instant.
            if !is_spread && bytes > 1.05 * segment.min(SEGMENT as f64) + of_noise {
                return false;
            }
            let pieces = (bytes / segment).round().max(1.0);
            // Timestamps take bytes of each segment; a write slightly larger than a segment does not count as
            // whole segments.
            let short = pieces * segment - bytes;
            if is_spread || (-0.003 * bytes..=pieces * OPTIONS).contains(&short) {
                whole += 1;
                full += bytes;
            }
            let gap = rate * (lump.at - before).as_secs_f64();
            if (gap - bytes).abs() <= 0.25 * bytes {
                fitting += bytes;
                // Sizes prove a pace only if receipts of each size keep it.
                (least, most) = (least.min(lump.bytes), most.max(lump.bytes));
            }
            before = lump.at;
        }
        match evidence {
            Evidence::WholeSegments => {
                full >= MOST * came && f64::from(whole) >= NEARLY_WHOLE * self.lumps.len() as f64
            }
            Evidence::Pace => {
                let is_varied = most as f64 >= 1.5 * least as f64;
                self.lumps.len() >= RUN_VARIED && is_varied && fitting >= NEARLY_ALL * came
            }
        }
    }
}

/// Known loss before a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    None,
    /// A segment to this end was missing, and others had to wait for it.
    Hole,
    /// A segment from this end, such as a request, was retransmitted.
    Repeat,
}

impl Loss {
    /// The loss before the receipt with this index.
    fn before(connection: &Connection, number: usize) -> Loss {
        let arrival = connection.arrivals[number];
        let (holes, repeats) = match number.checked_sub(1) {
            Some(before) => (
                connection.arrivals[before].holes,
                connection.arrivals[before].repeats,
            ),
            None => (0, connection.shaken_again),
        };
        if arrival.holes > holes {
            Loss::Hole
        } else if arrival.repeats > repeats {
            Loss::Repeat
        } else {
            Loss::None
        }
    }
}

/// Properties of a path, as seen from one end.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// Minimum round-trip time: the kernel's, or the handshake's if that is smaller.
    rtt: Option<Duration>,
    delayed_ack: Option<Duration>,
    /// Data bytes of a segment in use.
    segment: u64,
    /// Data bytes of the largest segment on the path.
    largest: u64,
}

/// Default data bytes of a segment: those on Ethernet.
const SEGMENT: u64 = 1_460;

/// Shorter pauses are ignored, because a process does not always run at once.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Most delay of a kernel timer (`CONFIG_HZ=250`).
const TICK: Duration = Duration::from_millis(4);

/// Shortest time after which Linux sends a delayed acknowledgment (`TCP_DELACK_MIN`), regardless of `tcpi_ato`.
const DELAYED_ACK_MIN: Duration = Duration::from_millis(40);

/// Whether the latest receipt at least `least` before `at` came at most `most` before it.
fn is_one_between(before: &[Arrival], at: Instant, least: Duration, most: Duration) -> bool {
    let earlier = |by: Duration| Instant::from_nanos(at.as_nanos().saturating_sub(by.as_nanos() as u64));
    let until = before.partition_point(|arrival| arrival.at <= earlier(least));
    before[..until]
        .last()
        .is_some_and(|arrival| arrival.at >= earlier(most))
}

impl Path {
    fn of(connection: &Connection) -> Path {
        let shaken = connection
            .connected
            .map(|connected| connected - connection.opened);
        let kernel = connection.rtt_min();
        Path {
            rtt: match (kernel, shaken) {
                (Some(kernel), Some(shaken)) => Some(kernel.min(shaken)),
                (kernel, shaken) => kernel.or(shaken),
            },
            segment: connection
                .tcp
                .map_or(0, |tcp| u64::from(tcp.mss))
                .clamp(1, SEGMENT),
            largest: connection
                .tcp
                .map(|tcp| u64::from(tcp.path_mss))
                .filter(|bytes| *bytes > 0)
                .unwrap_or(SEGMENT),
            delayed_ack: connection
                .tcp
                .map(|tcp| tcp.delayed_ack)
                .filter(|wait| !wait.is_zero()),
        }
    }

    /// Whether bytes came about a round trip before `at`, whose acknowledgment may have released the next
    /// segment.
    fn is_clocked(&self, before: &[Arrival], at: Instant) -> bool {
        let rtt = self.rtt.unwrap_or(Duration::ZERO);
        is_one_between(before, at, rtt.mul_f64(0.75), rtt.mul_f64(1.75))
    }

    /// Whether what came at `at` can be the answer to what this end sent at `sent`: it took a round trip, and not much more.
    fn is_answer(&self, sent: Instant, at: Instant) -> bool {
        let rtt = self.rtt.unwrap_or(Duration::ZERO);
        (rtt.mul_f64(0.75)..=rtt.mul_f64(1.75) + PAUSE_MIN).contains(&at.since(sent))
    }

    /// Whether the silence between two receipts is as long as the delayed-ACK timer plus a round trip: the
    /// acknowledgment of the first was delayed, and the second came a round trip after it. Earlier receipts do
    /// not count: the second of two full segments is acknowledged at once, and with a steady writer there is
    /// always a receipt at any distance.
    fn is_held(&self, silence: Duration) -> bool {
        let rtt = self.rtt.unwrap_or(Duration::ZERO);
        self.delayed_ack.is_some_and(|wait| {
            let wait = wait.max(DELAYED_ACK_MIN);
            let latest = rtt.mul_f64(1.25) + wait.mul_f64(1.1) + TICK;
            (rtt + wait.mul_f64(0.9)..=latest).contains(&silence)
        })
    }

    /// The cause of a pause between two receipts, or `None` if it is too short to be one; `silence` if nothing
    /// explains it. `released` holds [`Path::is_clocked`] and [`Path::is_held`] at its end.
    fn cause_of(&self, pause: Duration, loss: Loss, released: (bool, bool), silence: Cause) -> Option<Cause> {
        let (is_clocked, is_held) = released;
        let rtt = self.rtt.unwrap_or(Duration::ZERO);
        if loss == Loss::Hole {
            return Some(Cause::LossRecovery);
        }
        if pause < PAUSE_MIN.max(rtt / 4) {
            return None;
        }
        if pause <= rtt.mul_f64(1.75) && is_clocked {
            return Some(Cause::SlowStart);
        }
        if loss == Loss::Repeat {
            return Some(Cause::LossRecovery);
        }
        Some(if is_held { Cause::DelayedAck } else { silence })
    }
}

#[cfg(test)]
mod tests;
