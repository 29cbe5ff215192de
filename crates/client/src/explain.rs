//! Where the time of a fetch went: every instant of the critical path given to one cause.
//!
//! From the end backward: the answer that ended last was received over some stretch; before it the client waited
//! for its first byte; before that the request was held, or waited for a connection, or its name was not yet
//! known, and then whatever made it known is next. Each step covers the stretch between two instants, the next
//! step begins where it ended, and so the stretches are a partition: their sum is the elapsed time by
//! construction, whatever is wrong about a cause.
//!
//! What a stretch was spent on is inferred from this end alone: the times at which bytes came, and the kernel's
//! `TCP_INFO`. Refuses to know packets; a capture knows more, and whoever has one can give [`Span`]s other causes.

use crate::timeline::{Arrival, Connection, Sight, Timeline, Try};
use measure::{Duration, Instant};
use std::collections::VecDeque;

/// What an instant was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A connection was being made.
    Connect,
    /// A request and the first byte of its answer were on their way: one round trip, whoever answers.
    RoundTrip,
    /// The server was silent for longer than that before an answer.
    ServerWait,
    /// The server sent nothing for a while within an answer, or between answers that it owed.
    ServerPause,
    /// The server had sent what its window allowed and waited for acknowledgments, or it paused for about a round trip.
    /// This end cannot tell which.
    SlowStart,
    /// The server waited for an acknowledgment that this end delays, or it paused for as long. This end cannot tell which.
    DelayedAck,
    /// The line was full: what these bytes take at the rate of a stretch in which they came back to back.
    Bandwidth,
    /// Bytes came, with pauses too short to be told from the delays of either host, and no line is known to have been full.
    Transfer,
    /// A segment was missing: it is known that one was.
    LossRecovery,
    /// Silence longer than a round trip on a path that loses segments: the last one under way was lost, or the server
    /// was slow. This end cannot tell which.
    LossOrServer,
    /// Nothing was asked: a request was held in the output buffer, or made later than it could have been.
    ClientIdle,
}

impl Cause {
    /// All of them, in the order of a table.
    pub const ALL: [Cause; 11] = [
        Cause::Connect,
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
    ];

    /// The name flags and results use.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Connect => "connect",
            Cause::RoundTrip => "round trip",
            Cause::ServerWait => "server wait",
            Cause::ServerPause => "server pause",
            Cause::SlowStart => "slow start or pause",
            Cause::DelayedAck => "delayed ACK or pause",
            Cause::Bandwidth => "bandwidth",
            Cause::Transfer => "unexplained transfer",
            Cause::LossRecovery => "loss recovery",
            Cause::LossOrServer => "loss or server",
            Cause::ClientIdle => "client idle",
        }
    }
}

/// A stretch of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its beginning.
    pub from: Instant,
    /// Its end; later than the beginning.
    pub to: Instant,
    /// What it was spent on.
    pub cause: Cause,
    /// Which object was waited for.
    pub object: usize,
}

/// The critical path of a fetch, in order. Spans touch, the first begins with the fetch and the last ends with it;
/// none are of no length. Empty if it took no time.
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

/// How much time each cause took, in the order of [`Cause::ALL`]; the sum is the elapsed time.
pub fn sums(spans: &[Span]) -> [(Cause, Duration); 11] {
    Cause::ALL.map(|cause| {
        let of_cause = spans.iter().filter(|span| span.cause == cause);
        (cause, of_cause.map(|span| span.to - span.from).sum())
    })
}

/// Whether something was lost on the way, where only this end was looked at.
fn is_lossy(timeline: &Timeline) -> bool {
    let is_seen = |one: &Connection| {
        let last = one.arrivals.last();
        one.shaken_again > 0
            || last.is_some_and(|last| last.holes > 0 || last.repeats > 0)
            || one.tcp.is_some_and(|tcp| tcp.retransmitted > 0)
    };
    timeline.sight == Sight::Here && timeline.connections.iter().any(is_seen)
}

/// A try by its object and its place among the object's tries.
type Place = (usize, usize);

struct Walk<'t> {
    timeline: &'t Timeline,
    line: Line,
    /// Whether segments were lost, and more may have been than this end could notice.
    is_lossy: bool,
    /// Everything from here on is explained.
    at: Instant,
    spans: Vec<Span>,
}

impl Walk<'_> {
    /// Gives the time since `from` to a cause.
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

    /// The answer that was complete last, of those complete by `at`; `but` is none of them.
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
        // Each step goes on to an earlier try, or to what made it known.
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
        // What is before the first request, or under one that was never answered.
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

    /// Explains one answer up to where it was waited for; what was waited for before.
    fn step(&mut self, place: Place) -> Option<Place> {
        let one = self.try_at(place).clone();
        let connection = &self.timeline.connections[one.connection];
        let path = Path::of(connection);
        // Not yet begun at the instant in question: then it cannot have been waited for.
        let first = one.first.filter(|&first| first <= self.at).unwrap_or(self.at);
        self.receive(place.0, connection, &path, first);
        let stands = connection.connected.unwrap_or(connection.opened);
        let sent = one.sent.unwrap_or(one.asked).max(stands);
        // The answer before it on its connection kept it waiting, if that was complete after it was sent.
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
            self.connect(place.0, connection, one.sent.unwrap_or(one.asked));
        }
        self.spend(one.asked, Cause::ClientIdle, place.0);
        self.before_asking(place, one.asked)
    }

    /// The request that was made before it on its connection, whose answer comes before its own.
    fn answer_before(&self, place: Place) -> Option<Place> {
        let one = self.try_at(place);
        let all = self.timeline.objects.iter().enumerate();
        all.flat_map(|(object, record)| (0..record.tries.len()).map(move |one| (object, one)))
            .filter(|&other| {
                let other = self.try_at(other);
                other.connection == one.connection && other.turn < one.turn
            })
            .max_by_key(|&other| self.try_at(other).turn)
    }

    /// Explains the time from a request to the first bytes of its answer: a round trip, the server's silence unless
    /// something was lost, and at the end what those bytes, and others that came meanwhile, take on the line.
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

    /// What a silence is that nothing seen here explains: the server's, unless a loss may be behind it.
    fn silence(&self, of_server: Cause) -> Cause {
        match self.is_lossy {
            true => Cause::LossOrServer,
            false => of_server,
        }
    }

    /// Explains how long a connection was waited for. That it stands is known when the first request leaves, so
    /// that what passed before that was the request's.
    fn connect(&mut self, object: usize, connection: &Connection, sent: Instant) {
        let opened = connection.opened.max(sent);
        let rtt = connection.tcp.and_then(|tcp| tcp.rtt_min);
        if let (1.., Some(rtt)) = (connection.shaken_again, rtt) {
            let from = connection.connected.unwrap_or(self.at);
            let fair = Instant::from_nanos(from.as_nanos().saturating_sub(rtt.as_nanos() as u64));
            self.spend(fair.max(opened), Cause::Connect, object);
            self.spend(opened, Cause::LossRecovery, object);
        }
        self.spend(opened, Cause::Connect, object);
    }

    /// Why a request was not made earlier: its name was not known, or it had to wait for another.
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
        // What named it was being received then.
        let parent = object.parent?;
        let tries = &self.timeline.objects[parent].tries;
        let one = tries
            .iter()
            .rposition(|one| one.first.is_some_and(|first| first <= object.found))?;
        Some((parent, one))
    }

    /// Explains the time since `from`, in which a connection received.
    fn receive(&mut self, object: usize, connection: &Connection, path: &Path, from: Instant) {
        let end = connection
            .arrivals
            .partition_point(|arrival| arrival.at <= self.at);
        let late = connection.arrivals[..end].last();
        if let Some(late) = late
            && late.at >= from
        {
            // Between the last bytes and what they led to, this end was at work.
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

    /// Explains the time between two receipts: as much as the bytes take at the rate of the line, those of other
    /// connections with them, and the rest.
    fn gap(&mut self, object: usize, connection: &Connection, path: &Path, number: usize, from: Instant) {
        let (before, arrival) = (connection.arrivals[number - 1], connection.arrivals[number]);
        let loss = Loss::before(connection, number);
        let began = before.at.max(from);
        let gap = arrival.at - before.at;
        let fair = self.line.time_of(before.at, arrival.at).min(gap);
        // What was sent again took its time on the line a second time, even if other segments came meanwhile.
        let excess = match loss {
            Loss::Hole => (gap - fair).max(self.line.time_of_segment(path.segment).min(gap)),
            Loss::None | Loss::Repeat => gap - fair,
        };
        let earlier = &connection.arrivals[..number];
        let is_clocked = path.is_clocked(earlier, arrival.at);
        let is_held = path.is_held(gap);
        let silence = self.silence(Cause::ServerPause);
        // Short delays of either host come with a line that is full; where the line was idle most of the time, they are all there is.
        let short = match fair * 2 >= gap && !fair.is_zero() {
            true => Cause::Bandwidth,
            false => Cause::Transfer,
        };
        let cause = path
            .cause_of(excess, loss, (is_clocked, is_held), silence)
            .unwrap_or(short);
        let paused = (before.at + excess).max(began);
        self.spend(paused, Cause::Bandwidth, object);
        self.spend(began, cause, object);
    }
}

/// Receipts that make up one sample of the rate, at least.
const RUN: usize = 3;
/// Receipts of different sizes that show a pace, at least: of fewer, a few fit by chance.
const RUN_VARIED: usize = 8;
/// And at most, so that a sample takes bounded time.
const RUN_MAX: usize = 512;
/// And the share of all bytes: over a few of them a receipt that was noticed late makes the line look faster than it is.
const SHARE: u64 = 16;
/// But never more bytes than these: a window may be all that comes in one piece.
const SAMPLE_BYTES_MAX: u64 = 256 << 10;

/// What all connections received: they share what is narrow on the way.
#[derive(Debug)]
struct Line {
    /// Instants, and bytes up to and at each.
    sums: Vec<(Instant, u64)>,
    /// Bytes a second, the best of all samples that show a full line; none if none does.
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

    /// How long what came after one instant and up to another takes at the rate of the line; nothing without one.
    fn time_of(&self, from: Instant, to: Instant) -> Duration {
        let up_to = |at: Instant| {
            let count = self.sums.partition_point(|(when, _)| *when <= at);
            count.checked_sub(1).map_or(0, |last| self.sums[last].1)
        };
        self.time_of_bytes(up_to(to).saturating_sub(up_to(from)))
            .unwrap_or(Duration::ZERO)
    }

    /// How long a segment that was sent again takes at the most: without a rate, forever.
    fn time_of_segment(&self, bytes: u64) -> Duration {
        self.time_of_bytes(bytes).unwrap_or(Duration::MAX)
    }

    fn time_of_bytes(&self, bytes: u64) -> Option<Duration> {
        let rate = self.rate.filter(|rate| *rate > 0.0)?;
        Some(Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(Duration::MAX))
    }
}

/// The stretches in which the server owed bytes that it had been asked for a round trip before, or was sending them: not those
/// between an answer and the request that follows it. In order, and apart.
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

/// Bytes that were handed over at one instant and came since another.
#[derive(Clone, Copy, Debug)]
struct Lump {
    since: Instant,
    at: Instant,
    bytes: u64,
    /// How many segments that may be.
    pieces: u64,
    /// Data bytes of the largest segment the path carries.
    segment: u64,
}

impl Lump {
    /// Its bytes as if they had come evenly.
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

/// Pieces of a lump: more than a window has segments.
const PIECES_MAX: u64 = 10_000;

/// What a connection received, and since when it may have come. What had waited behind a hole is handed over all at once,
/// though the line carried it while the hole was open. As long as receipt after receipt fills a hole, nobody can say
/// which of the bytes came when: all of theirs are one lump since the last receipt before them.
fn lumps_of(connection: &Connection) -> Vec<Lump> {
    let path = Path::of(connection);
    let segment = path.segment;
    let arrivals = &connection.arrivals;
    let is_hole = |number: usize| Loss::before(connection, number) == Loss::Hole;
    let stands = connection.connected.unwrap_or(connection.opened);
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

/// The best of these rates that lasted: samples of nearly the same rate begin a round trip apart or further. A sender that
/// paces what it sends (BBR) fills a round trip as evenly as a full line does, but sends faster in the next one as long as
/// the line is not full.
fn lasting(samples: &[(Instant, f64)], rtt: Duration) -> Option<f64> {
    let mut by_rate: Vec<(Instant, f64)> = samples.to_vec();
    by_rate.sort_unstable_by(|one, other| other.1.total_cmp(&one.1));
    let mut end = 0;
    // The first and the last beginning within the window from `start`, both only ever looked at in order of rate.
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

/// Bytes a second, the best of the samples of these that show a full line; they are in the order of their ends. A lump belongs
/// to a sample only if all of it does, or else one would pass for a fast line.
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
    // Lumps that have begun and not ended where a sample begins: one a connection.
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
        // What whole segments show sooner takes more receipts where sizes differ.
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

/// Receipts one after another, while bytes were owed.
struct Sample<'l> {
    /// Since whose end it is.
    first: Lump,
    lumps: &'l [Lump],
    /// Bytes that came in it.
    bytes: u64,
}

/// How late a receipt may be noticed.
const READ_LATE: Duration = Duration::from_millis(2);

/// What shows that a line was full while bytes came evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// Most of them came in segments of the largest size the path carries.
    WholeSegments,
    /// Receipts of different sizes each came as long after the one before as their bytes take.
    Pace,
}

/// How near a rate is to another that is nearly the same.
const ALIKE: f64 = 0.85;
/// The share of receipts that must be whole segments: a bulk answer has a shorter one only at its end, or at the end of
/// each piece of 4 KiB that its server writes.
const NEARLY_WHOLE: f64 = 0.6;
/// Bytes that options may take of a segment: time stamps (RFC 7323, section 3.2) and what aligns them.
const OPTIONS: f64 = 12.0;
/// The share of bytes that most are.
const MOST: f64 = 2.0 / 3.0;
/// The share of bytes whose receipts must have the pace of the line.
const NEARLY_ALL: f64 = 0.9;

impl Sample<'_> {
    fn rate(&self) -> f64 {
        let took = self
            .lumps
            .last()
            .map_or(Duration::ZERO, |last| last.at - self.first.at);
        self.bytes as f64 / took.as_secs_f64()
    }

    /// Whether its bytes came back to back at one rate. Who paces what it writes sends pieces that are not as large as the path
    /// carries, and lets a time pass between them that has nothing to do with their size; or pieces that are larger, which
    /// come all at once, as they would not on a line of this rate.
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
            // Even: never further from what the rate brings by then than a reader may be late.
            let due = rate * (lump.at - self.first.at).as_secs_f64();
            let slack = 0.25 * segment.min(SEGMENT as f64) + of_noise.min(self.bytes as f64 / 4.0);
            if !is_spread && (came - due).abs() > slack {
                return false;
            }
            // A burst: more at once than the line carries in an instant.
            if !is_spread && bytes > 1.05 * segment.min(SEGMENT as f64) + of_noise {
                return false;
            }
            let pieces = (bytes / segment).round().max(1.0);
            // Time stamps take their bytes from each segment; writes that are a little larger than a segment are no segments.
            let short = pieces * segment - bytes;
            if is_spread || (-0.003 * bytes..=pieces * OPTIONS).contains(&short) {
                whole += 1;
                full += bytes;
            }
            let gap = rate * (lump.at - before).as_secs_f64();
            if (gap - bytes).abs() <= 0.25 * bytes {
                fitting += bytes;
                // Sizes show a pace only if receipts of each size keep it.
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

/// What was missing before a receipt, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    None,
    /// A segment to this end was, and others had to wait for it.
    Hole,
    /// One from this end was, such as a request.
    Repeat,
}

impl Loss {
    /// Before the receipt of this number.
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

/// What is known of a path from one end.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// The least round trip: the kernel's, or what the handshake took.
    rtt: Option<Duration>,
    delayed_ack: Option<Duration>,
    /// Data bytes of a segment.
    segment: u64,
    /// Data bytes of the largest segment it carries.
    largest: u64,
}

/// Data bytes of a segment where nobody says: what Ethernet leaves.
const SEGMENT: u64 = 1_460;

/// A pause shorter than this is no pause: a process is not always run at once.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// A timer of the kernel runs off this much late (`CONFIG_HZ=250`).
const TICK: Duration = Duration::from_millis(4);

/// The shortest time after which Linux sends a delayed acknowledgment (`TCP_DELACK_MIN`), whatever `tcpi_ato` says.
const DELAYED_ACK_MIN: Duration = Duration::from_millis(40);

/// Whether one of these came this long before an instant, at least and at most.
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
        let kernel = connection.tcp.and_then(|tcp| tcp.rtt_min);
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

    /// Whether something came about a round trip before this instant, whose acknowledgment may have let the next segment go.
    fn is_clocked(&self, before: &[Arrival], at: Instant) -> bool {
        let rtt = self.rtt.unwrap_or(Duration::ZERO);
        is_one_between(before, at, rtt.mul_f64(0.75), rtt.mul_f64(1.75))
    }

    /// Whether the silence between two receipts is as long as the timer of delayed acknowledgments and a round trip: the
    /// acknowledgment of the first left late, and the second came a round trip after it. Earlier receipts do not count:
    /// the second of two full segments is acknowledged at once, and a steady writer always has one at any distance.
    fn is_held(&self, silence: Duration) -> bool {
        let rtt = self.rtt.unwrap_or(Duration::ZERO);
        self.delayed_ack.is_some_and(|wait| {
            let wait = wait.max(DELAYED_ACK_MIN);
            let latest = rtt.mul_f64(1.25) + wait.mul_f64(1.1) + TICK;
            (rtt + wait.mul_f64(0.9)..=latest).contains(&silence)
        })
    }

    /// What a pause between two receipts was, if it was one; `silence` if nothing explains it. `released`: as
    /// [`Path::is_clocked`] and [`Path::is_held`] say of its end.
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
