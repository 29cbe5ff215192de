//! Fetches a page with its embedded objects: the robot of W3C NOTE-pipelining-970624 as a state machine over
//! many connections.
//!
//! ```text
//!   found ──▶ queue ──▶ waiting on a connection ──▶ answered ──▶ done, moved, failed
//!               ▲                    │                  │
//!               └── connection cut ──┘                  └──▶ found: what it embeds
//! ```
//! Holds no socket and no clock. Events come in through [`Crew`] and commands go out on the [`Port`], so real
//! and simulated networks drive the same client. Decides which requests to make, on which connection and when
//! they are sent; [`reply`] decides the meaning of responses. Line 0 of the crew is a clock; connection n is
//! line n + 1, which is never reused.

mod page;
mod priority;
mod reply;
mod request;
mod tape;

use crate::cache::{Entries, Use};
use crate::http3::Http3;
use crate::jar::Jar;
use crate::multiplexed::{Arrived, Multiplexed};
use crate::outbox::Outbox;
use crate::plan::{Mode, Plan, may_repeat};
use crate::session::{OUTSTANDING_MAX, Session};
use crate::streamed::STREAMS_MAX;
use crate::streams::Streams;
use crate::timeline::{
    Arrival, Connection, Fate, Initiator, Object, Part, Quic, Role, Security, Skipped, Source, Tcp, Timeline,
    Try,
};
use encoding_rs::{Encoding, WINDOWS_1252};
use http_semantics::method::Method;
use markup::{Loading, Timing};
use page::Named;
use reply::Reply;
use runtime::dial::{Crew, Failing, Happened, Port};
use std::collections::{BTreeSet, HashMap, VecDeque};
pub use tape::{Reference, Tape, Taped};
use units::{Instant, UnixTime};
use url::Url;

/// The line whose timer limits the whole fetch.
const CLOCK: u32 = 0;
/// Most skipped references listed; further ones are only counted.
const SKIPPED_MAX: usize = 100;

/// The fetch of one page: its objects, connections and cache entries.
#[derive(Debug)]
pub struct Fetch {
    plan: Plan,
    page: Url,
    entries: Entries,
    changed: BTreeSet<String>,
    /// Civil time at the start.
    wall: UnixTime,
    timeline: Timeline,
    items: Vec<Item>,
    known: HashMap<String, usize>,
    queue: VecDeque<Job>,
    /// Requests made when no others are left: the rest of objects begun.
    later: VecDeque<Job>,
    lines: Vec<Line>,
    received: u64,
    decoded: u64,
    is_over: bool,
    /// Requests made now had to wait since then for the agreement on a protocol.
    held_since: Option<Instant>,
    /// Whether the mode was agreed on with the server.
    is_agreed: bool,
    /// The alternative service that connections go to, as `Alt-Used` names it (RFC 7838 section 5).
    alternative: Option<String>,
    /// Why the fetch must be given up, noticed where that could not be done.
    trouble: Option<String>,
    /// Cookies of this fetch.
    jar: Jar,
    /// What the fetch begins with besides its page.
    also: Vec<Reference>,
    /// What is kept for a recording, if this is one.
    tape: Option<Tape>,
}

/// State of an object beyond its record.
#[derive(Debug)]
struct Item {
    url: Url,
    /// What its first reference says of the priority of requests for it.
    loading: Loading,
    /// Redirections that led to it.
    redirects: u32,
    /// Connections that ended while it was the first to be answered.
    strikes: u32,
    /// Whether its next request repeats an earlier one.
    is_repeat: bool,
    /// Field lines that make its next request conditional.
    conditions: Fields,
    /// Its first bytes and their head, until the rest arrives.
    front: Option<(Vec<u8>, Fields)>,
    /// The encoding of its text, as far as known; used for its references and for objects without an encoding
    /// of their own.
    encoding: &'static Encoding,
}

/// Field lines: name and value.
type Fields = Vec<(String, String)>;

/// A request to be made.
#[derive(Clone, Copy, Debug)]
struct Job {
    object: usize,
    part: Part,
}

/// One connection.
#[derive(Debug)]
struct Line {
    talk: Talk,
    phase: Phase,
    /// Requests not completely answered, in the order in which they were made.
    waiting: VecDeque<Asked>,
    outbox: Outbox,
    answered: u32,
    /// Bytes read.
    heard: u64,
    /// Whether the last request told the server that it is the last.
    is_last_said: bool,
    /// When bytes were last sent or received.
    stirred: Instant,
    alarm: Option<Instant>,
}

/// What a connection speaks.
#[derive(Debug)]
enum Talk {
    /// HTTP/1: responses come in the order of the requests.
    InOrder(Session),
    /// HTTP/2 and HTTP/3: in any order, and at once.
    Streams(Box<Multiplexed>),
}

impl Talk {
    /// Whether another request may follow on this connection.
    fn is_persistent(&self) -> bool {
        match self {
            Talk::InOrder(session) => session.is_persistent(),
            Talk::Streams(streams) => streams.is_persistent(),
        }
    }

    fn has_room(&self) -> bool {
        match self {
            Talk::InOrder(session) => session.outstanding() < OUTSTANDING_MAX && session.is_persistent(),
            Talk::Streams(streams) => streams.has_room(),
        }
    }
}

/// A request that is not completely answered.
#[derive(Debug)]
struct Asked {
    object: usize,
    /// Its place among the tries of the object.
    one: usize,
    part: Part,
    /// The stream that carries it; 0 for HTTP/1.
    stream: u32,
    /// Its response, once that has begun.
    reply: Option<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Opening,
    Open,
    Closed,
}

/// The result of a fetch.
#[derive(Debug)]
pub struct Outcome {
    /// The record of all events.
    pub timeline: Timeline,
    /// The cache after the fetch.
    pub entries: Entries,
    /// The URLs of new and changed entries.
    pub changed: BTreeSet<String>,
    /// What was kept for a recording, if the fetch was one.
    pub tape: Option<Tape>,
}

impl Fetch {
    /// A fetch of `page` with the cache `entries`, starting at civil time `wall`.
    pub fn new(page: Url, mut plan: Plan, entries: Entries, wall: UnixTime) -> Fetch {
        // Without TLS nothing is negotiated.
        if plan.manner.mode == Mode::Auto && page.scheme() != "https" {
            plan.manner.mode = Mode::Serial;
        }
        let mut jar = Jar::new();
        for (name, value) in &plan.cookies {
            jar.add(name, value, page.host_str().unwrap_or_default());
        }
        Fetch {
            jar,
            plan,
            page,
            entries,
            changed: BTreeSet::new(),
            wall,
            timeline: Timeline::default(),
            items: Vec::new(),
            known: HashMap::new(),
            queue: VecDeque::new(),
            later: VecDeque::new(),
            lines: Vec::new(),
            received: 0,
            decoded: 0,
            is_over: false,
            held_since: None,
            is_agreed: false,
            alternative: None,
            trouble: None,
            also: Vec::new(),
            tape: None,
        }
    }

    /// A fetch of these references, which are of the origin of `first`, that keeps what a recording needs. Starts at
    /// civil time `wall`, without a cache.
    pub fn recording(first: Reference, more: Vec<Reference>, plan: Plan, wall: UnixTime) -> Fetch {
        let mut fetch = Fetch::new(first.url.clone(), plan, Entries::new(), wall);
        fetch.also.push(first);
        fetch.also.extend(more);
        fetch.tape = Some(Tape::default());
        fetch
    }

    /// The same, over connections to an alternative service (RFC 7838). `authority`: its host and port.
    #[must_use]
    pub fn at_alternative(mut self, authority: String) -> Fetch {
        self.alternative = Some(authority);
        self
    }

    /// Civil time at an instant of this fetch.
    fn civil(&self, at: Instant) -> UnixTime {
        let nanos = u64::from(self.wall.nanos) + at.since(self.timeline.began).as_nanos() as u64;
        UnixTime {
            secs: self.wall.secs + (nanos / 1_000_000_000) as i64,
            nanos: (nanos % 1_000_000_000) as u32,
        }
    }

    /// The record so far.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The result, after the end.
    pub fn into_outcome(self) -> Outcome {
        let received = self.received;
        Outcome {
            tape: self.tape.map(|tape| Tape { received, ..tape }),
            timeline: self.timeline,
            entries: self.entries,
            changed: self.changed,
        }
    }

    /// Registers a referenced object unless it is known, of another origin or one too many; returns its index.
    fn note(&mut self, named: Named, parent: Option<usize>, now: Instant) -> Option<usize> {
        let Named {
            mut url,
            role,
            loading,
            initiator,
            redirects,
        } = named;
        url.set_fragment(None);
        let is_hint = initiator == Initiator::EarlyHints;
        let is_use = !is_hint && loading.timing != Timing::Preload;
        if let Some(&number) = self.known.get(url.as_str()) {
            let object = &mut self.timeline.objects[number];
            object.named = object.named.or(Some(now).filter(|_| !is_hint));
            object.is_used |= is_use;
            return Some(number);
        }
        let skipped = if url.origin() != self.page.origin() {
            Some(Skipped::Elsewhere)
        } else if self.timeline.objects.len() >= self.plan.limits.objects_max {
            Some(Skipped::TooMany)
        } else {
            None
        };
        if let Some(why) = skipped {
            // Content inside the reference itself needs no fetch.
            if matches!(url.scheme(), "data" | "about" | "blob" | "javascript") {
                return None;
            }
            self.timeline.left_out += u64::from(why == Skipped::TooMany);
            if let (Some(tape), Skipped::Elsewhere) = (&mut self.tape, why) {
                let reference = Reference::of(url.clone(), role, loading, initiator);
                tape.keep(reference, self.plan.limits.objects_max);
            }
            let list = &mut self.timeline.skipped;
            if list.iter().any(|(known, _)| known == url.as_str()) {
                return None;
            }
            if list.len() < SKIPPED_MAX {
                list.push((url.into(), why));
            } else {
                self.timeline.skipped_more += 1;
            }
            return None;
        }
        let number = self.timeline.objects.len();
        self.known.insert(url.to_string(), number);
        self.timeline.objects.push(Object {
            url: url.to_string(),
            role,
            parent,
            found: now,
            initiator,
            named: Some(now).filter(|_| !is_hint),
            is_used: is_use,
            tries: Vec::new(),
            fate: Fate::Pending,
            status: None,
            media: String::new(),
            content_bytes: 0,
        });
        self.items.push(Item {
            url,
            loading,
            redirects,
            strikes: 0,
            is_repeat: false,
            conditions: Vec::new(),
            front: None,
            encoding: parent.map_or(WINDOWS_1252, |parent| self.items[parent].encoding),
        });
        self.plan_object(number, now);
        Some(number)
    }

    /// Decides how to request an object, if at all.
    fn plan_object(&mut self, number: usize, now: Instant) {
        let object = &self.timeline.objects[number];
        let role = object.role;
        let mut part = match self.plan.first_bytes {
            Some(bytes) if role == Role::Image => Part::First(bytes),
            _ => Part::Whole,
        };
        if let Some(entry) = self.entries.get(&object.url) {
            let fields = self.varying_fields(role);
            match entry.kept.usable(&fields, self.plan.revalidate, self.civil(now)) {
                Use::Fresh => {
                    self.take_from_cache(number, Source::Cache, now);
                    return;
                }
                // As the robot's HTTP/1.0: GET for the page, and HEAD for other objects, whose validators this
                // client compares.
                Use::Validate(_) if self.plan.manner.mode == Mode::Http10 && self.plan.revalidate => {
                    if role != Role::Page {
                        part = Part::Head;
                    }
                }
                Use::Validate(conditions) => self.items[number].conditions = conditions,
                Use::None => {}
            }
        }
        self.queue.push_back(Job { object: number, part });
    }

    /// Whether a response in progress may refer to further objects.
    fn is_discovering(&self) -> bool {
        self.timeline
            .objects
            .iter()
            .any(|object| object.fate == Fate::Pending && object.role.names_more())
    }

    /// Makes requests while there are any and a connection has room.
    fn dispatch(&mut self, port: &mut Port, now: Instant) {
        if self.is_over {
            return;
        }
        if let Some(why) = self.trouble.take() {
            self.abort(&why, port, now);
            return;
        }
        loop {
            if self.queue.is_empty() {
                self.queue.extend(self.later.pop_front());
            }
            let Some(&job) = self.queue.front() else { break };
            let is_early = self.plan.manner.mode == Mode::EarlyClose;
            let role = self.timeline.objects[job.object].role;
            let names_more = role.names_more() || matches!(job.part, Part::First(_));
            // The last request must be known as such before it is sent.
            let is_last = is_early
                && self.queue.len() == 1
                && self.later.is_empty()
                && !names_more
                && !self.is_discovering();
            if is_early && self.queue.len() == 1 && !is_last && !names_more && self.is_discovering() {
                break;
            }
            let Some(line) = self.room(now, port) else { break };
            self.queue.pop_front();
            self.ask(line, job, is_last, port, now);
        }
        let is_done = self.queue.is_empty() && self.lines.iter().all(|line| line.waiting.is_empty());
        if is_done {
            self.finish(port, now);
        }
    }

    /// A connection with room for a request; opens a new one if the plan allows it.
    fn room(&mut self, now: Instant, port: &mut Port) -> Option<usize> {
        let live = self
            .lines
            .iter()
            .filter(|line| line.phase != Phase::Closed)
            .count();
        let may_open = live < self.plan.connections;
        if self.plan.manner.mode == Mode::Auto {
            // The protocol decides what requests look like.
            if live == 0 {
                self.open(port, now);
            }
            return None;
        }
        let depth = match self.plan.manner.mode {
            Mode::Http10 => 0,
            Mode::Serial | Mode::Auto => 1,
            Mode::Pipelined | Mode::EarlyClose => OUTSTANDING_MAX,
            Mode::Http2 | Mode::Http3 => STREAMS_MAX,
        };
        let best = (0..self.lines.len())
            .filter(|&number| {
                let line = &self.lines[number];
                line.phase != Phase::Closed
                    && line.waiting.len() < depth
                    && line.talk.has_room()
                    && !line.is_last_said
            })
            .min_by_key(|&number| self.lines[number].waiting.len());
        match best {
            Some(number) if self.lines[number].waiting.is_empty() || !may_open => Some(number),
            _ if may_open => Some(self.open(port, now)),
            best => best,
        }
    }

    fn open(&mut self, port: &mut Port, now: Instant) -> usize {
        let number = self.lines.len();
        port.connect(number as u32 + 1);
        let buffering = self.plan.buffering;
        self.lines.push(Line {
            talk: self.talk(now),
            phase: Phase::Opening,
            waiting: VecDeque::new(),
            outbox: Outbox::new(buffering.bytes_max, buffering.timer),
            answered: 0,
            heard: 0,
            is_last_said: false,
            stirred: now,
            alarm: None,
        });
        self.timeline.connections.push(Connection {
            opened: now,
            connected: None,
            secured: None,
            closed: None,
            is_cut: false,
            shaken_again: 0,
            arrivals: Vec::new(),
            quic: None,
            tcp: None,
            bytes_out: 0,
            protocol: self.protocol(),
            requests: 0,
            bytes_again: 0,
        });
        number
    }

    /// What a new connection speaks.
    fn talk(&self, now: Instant) -> Talk {
        match self.plan.manner.mode {
            Mode::Http2 => {
                let http = Streams::new(self.plan.stream_window, now);
                Talk::Streams(Box::new(Multiplexed::Http2(http)))
            }
            Mode::Http3 => Talk::Streams(Box::new(Multiplexed::Http3(Http3::new()))),
            _ => Talk::InOrder(Session::new()),
        }
    }

    fn protocol(&self) -> &'static str {
        match self.plan.manner.mode {
            Mode::Http10 => "http/1.0",
            Mode::Serial | Mode::Pipelined | Mode::EarlyClose => "http/1.1",
            Mode::Http2 => "h2",
            Mode::Http3 => "h3",
            Mode::Auto => "",
        }
    }

    /// Handles the end of a TLS handshake: the protocol is agreed on.
    fn secured(&mut self, number: usize, agreed: Security, port: &mut Port, now: Instant) {
        self.lines[number].stirred = now;
        self.timeline.connections[number].secured = Some((now, agreed));
        let is_h2 = agreed.protocol == "h2";
        if self.plan.manner.mode == Mode::Auto {
            self.plan.manner.mode = if is_h2 { Mode::Http2 } else { Mode::Serial };
            self.is_agreed = true;
            self.lines[number].talk = self.talk(now);
            self.timeline.connections[number].protocol = self.protocol();
            self.held_since = Some(self.timeline.connections[number].opened);
        } else if self.is_agreed && is_h2 != (self.plan.manner.mode == Mode::Http2) {
            let why = "the server chose another version of HTTP than on the first connection";
            self.lost(number, why, false, port, now);
        }
    }

    /// Makes a request on a connection.
    fn ask(&mut self, number: usize, job: Job, is_last: bool, port: &mut Port, now: Instant) {
        let request = self.request(job, is_last);
        let method = match job.part {
            Part::Head => Method::Head,
            _ => Method::Get,
        };
        let persist = self.plan.manner.mode != Mode::Http10 && !is_last;
        let role = self.timeline.objects[job.object].role;
        let priority = priority::of(self.plan.priorities, role, self.items[job.object].loading);
        let said = priority::said(priority);
        let line = &mut self.lines[number];
        let asked = match &mut line.talk {
            Talk::InOrder(session) => session.ask(method, persist).ok().map(|()| None),
            Talk::Streams(streams) => {
                let scheme = self.items[job.object].url.scheme();
                let fields = request::as_fields(&request, scheme, said);
                let fields = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                streams.ask(fields, method == Method::Head, priority).map(Some)
            }
        };
        let Some(stream) = asked else {
            // The connection had room, so this is a bug; only the object fails, not the fetch.
            self.timeline.objects[job.object].fate =
                Fate::Failed("the request could not be made (a bug in weir)".to_owned());
            return;
        };
        line.is_last_said |= is_last;
        let object = &mut self.timeline.objects[job.object];
        line.waiting.push_back(Asked {
            object: job.object,
            one: object.tries.len(),
            part: job.part,
            stream: stream.unwrap_or_default(),
            reply: None,
        });
        let is_repeated = std::mem::take(&mut self.items[job.object].is_repeat);
        let bytes = request.clone().into_bytes();
        object.tries.push(Try {
            connection: number,
            part: job.part,
            request,
            asked: self.held_since.unwrap_or(now),
            sent: None,
            hinted: None,
            first: None,
            last: None,
            status: 0,
            reason: String::new(),
            fields: Vec::new(),
            head_bytes: 0,
            body_bytes: 0,
            is_repeated,
            turn: self.timeline.connections[number].requests,
            stream,
            priority: said.filter(|_| stream.is_some()),
            pieces: Vec::new(),
        });
        self.timeline.connections[number].requests += 1;
        let is_page = object.role == Role::Page;
        let is_buffered = matches!(self.plan.manner.mode, Mode::Pipelined | Mode::EarlyClose);
        let written = if stream.is_some() {
            // It is on its stream.
            None
        } else if is_buffered {
            let full = line.outbox.append(&bytes, now);
            // Repeated requests, the last one, and those that none follow need not wait for more.
            let flushed = (is_page && self.plan.buffering.flush_page)
                || is_last
                || (is_repeated && self.queue.is_empty());
            match full {
                None if flushed => line.outbox.flush(),
                full => full,
            }
        } else {
            Some(bytes)
        };
        self.send_streams(number, port, now);
        self.write(number, written, port, now);
        self.arm(number, port);
    }

    /// Passes what a connection with streams has to say to the driver.
    fn send_streams(&mut self, number: usize, port: &mut Port, now: Instant) {
        if let Talk::Streams(streams) = &mut self.lines[number].talk {
            let bytes = streams.send(number as u32 + 1, port);
            if bytes > 0 {
                self.note_sent(number, bytes, now);
            }
        }
    }

    /// Passes requests to the driver.
    fn write(&mut self, number: usize, bytes: Option<Vec<u8>>, port: &mut Port, now: Instant) {
        let Some(bytes) = bytes else { return };
        port.send(number as u32 + 1, |out| out.extend_from_slice(&bytes));
        self.note_sent(number, bytes.len() as u64, now);
    }

    /// Records that the driver has these bytes, and with them all requests made so far.
    fn note_sent(&mut self, number: usize, bytes: u64, now: Instant) {
        let line = &mut self.lines[number];
        line.stirred = now;
        self.timeline.connections[number].bytes_out += bytes;
        for asked in &line.waiting {
            let one = &mut self.timeline.objects[asked.object].tries[asked.one];
            one.sent.get_or_insert(now);
        }
    }

    /// Whether requests wait for the agreement on a protocol.
    fn is_undecided(&self) -> bool {
        self.plan.manner.mode == Mode::Auto
    }

    /// When a connection needs attention without an event; `None` if never.
    fn due(&self, number: usize) -> Option<Instant> {
        let line = &self.lines[number];
        let limits = &self.plan.limits;
        let patience = match line.phase {
            Phase::Closed => return None,
            Phase::Opening => Some(line.stirred + limits.connect_timeout),
            Phase::Open if line.waiting.is_empty() && !self.is_undecided() => None,
            Phase::Open => Some(line.stirred + limits.stall_timeout),
        };
        match (patience, line.outbox.due()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    fn arm(&mut self, number: usize, port: &mut Port) {
        let due = self.due(number);
        let line = &mut self.lines[number];
        if let Some(due) = due
            && line.alarm.is_none_or(|alarm| due < alarm)
        {
            line.alarm = Some(due);
            port.wake(number as u32 + 1, due);
        }
    }

    fn woken(&mut self, number: usize, port: &mut Port, now: Instant) {
        self.lines[number].alarm = None;
        let written = self.lines[number].outbox.expire(now);
        self.write(number, written, port, now);
        let line = &self.lines[number];
        let limits = &self.plan.limits;
        match line.phase {
            Phase::Opening if self.is_late(number, now) => {
                if self.plan.manner.mode == Mode::Http3 {
                    // The counters say whether anything came back.
                    return port.inspect(number as u32 + 1);
                }
                let why = format!("no connection within {:?}", limits.connect_timeout);
                self.lost(number, &why, true, port, now);
            }
            Phase::Open
                if (!line.waiting.is_empty() || self.is_undecided())
                    && now >= line.stirred + limits.stall_timeout =>
            {
                let why = format!("the server sent nothing for {:?}", limits.stall_timeout);
                // A repeated request would wait again.
                self.give_up_front(number);
                self.lost(number, &why, false, port, now);
            }
            _ => self.arm(number, port),
        }
    }

    /// Whether a connection has been opening for too long.
    fn is_late(&self, number: usize, now: Instant) -> bool {
        let line = &self.lines[number];
        line.phase == Phase::Opening && now >= line.stirred + self.plan.limits.connect_timeout
    }

    /// The first outstanding request is not repeated, because the response would be the same.
    fn give_up_front(&mut self, number: usize) {
        if let Some(asked) = self.lines[number].waiting.front() {
            self.items[asked.object].strikes = self.plan.limits.repeats_max;
            self.lines[number].answered = 0;
        }
    }

    /// Handles received bytes.
    fn heard(&mut self, number: usize, arrived: Arrived<'_>, port: &mut Port, now: Instant) {
        if self.lines[number].phase == Phase::Closed {
            return;
        }
        let record = &mut self.timeline.connections[number];
        let mut arrival = Arrival::after(record.arrivals.last(), now, arrived.bytes());
        // Bytes already counted when the kernel was last asked are not new.
        self.lines[number].heard += arrived.bytes();
        let before = record.arrivals.last().map_or(0, |last| last.came);
        arrival.came = before.max(self.lines[number].heard);
        record.arrivals.push(arrival);
        port.inspect(number as u32 + 1);
        self.lines[number].stirred = now;
        self.received += arrived.bytes();
        if self.received > self.plan.limits.bytes_max {
            self.trouble = Some(format!(
                "the page has more than {} bytes",
                self.plan.limits.bytes_max
            ));
        }
        let nothing = Talk::InOrder(Session::new());
        let mut talk = std::mem::replace(&mut self.lines[number].talk, nothing);
        let (heard, is_within_head) = match (&mut talk, arrived) {
            (Talk::InOrder(session), Arrived::Bytes(bytes)) => {
                let heard = session.listen(bytes, |said| self.said(number, 0, &said, now));
                (
                    heard.map_err(|fault| fault.to_string()),
                    session.is_within_final_head(),
                )
            }
            (Talk::InOrder(_), _) => {
                debug_assert!(false, "HTTP/1 has no streams");
                (Ok(()), false)
            }
            (Talk::Streams(streams), arrived) => {
                let heard = streams.listen(arrived, now, |came| self.came(number, came, now));
                self.measure_windows(number, streams);
                (heard, false)
            }
        };
        self.lines[number].talk = talk;
        self.send_streams(number, port, now);
        if let Err(fault) = heard {
            let why = format!("the server's response is invalid: {fault}");
            // After an earlier response, that one may be to blame: it may have announced too short a length.
            if self.lines[number].answered == 0 {
                self.give_up_front(number);
            }
            return self.lost(number, &why, false, port, now);
        }
        if is_within_head && let Some(asked) = self.lines[number].waiting.front() {
            let one = &mut self.timeline.objects[asked.object].tries[asked.one];
            one.first.get_or_insert(now);
        }
        let line = &self.lines[number];
        if line.waiting.is_empty() && !line.talk.is_persistent() {
            self.close(number, port, now);
        } else {
            self.arm(number, port);
        }
    }

    /// Takes the counters of QUIC, read after everything that has come at this instant.
    fn measured(&mut self, number: usize, quic: Quic, now: Instant) {
        let record = &mut self.timeline.connections[number];
        let before = record.quic.replace(quic).unwrap_or_default();
        let Some(latest) = record.arrivals.len().checked_sub(1) else {
            record.shaken_again = u32::try_from(quic.lost + quic.probes).unwrap_or(u32::MAX);
            return;
        };
        let holes = u32::try_from(quic.holes - before.holes).unwrap_or(u32::MAX);
        // What had waited is the first that could be read then.
        let last = record.arrivals[latest].at;
        let first = record.arrivals.partition_point(|arrival| arrival.at < last);
        for arrival in &mut record.arrivals[first..] {
            arrival.holes += holes;
        }
        if quic.blocked > before.blocked {
            // This end has just granted more, in answer to what it has read.
            record.arrivals[latest].dry = Some(now);
            for asked in &self.lines[number].waiting {
                let one = &mut self.timeline.objects[asked.object].tries[asked.one];
                if let Some(piece) = one.pieces.last_mut().filter(|piece| piece.arrival == latest) {
                    piece.dry = Some(now);
                }
            }
        }
    }

    /// Records which windows the server had used up at the end of a receipt.
    fn measure_windows(&mut self, number: usize, streams: &Multiplexed) {
        let record = &mut self.timeline.connections[number];
        let latest = record.arrivals.len() - 1;
        for asked in &self.lines[number].waiting {
            let one = &mut self.timeline.objects[asked.object].tries[asked.one];
            let dry = streams.dry(asked.stream);
            record.arrivals[latest].dry = record.arrivals[latest].dry.max(dry);
            if let Some(piece) = one.pieces.last_mut().filter(|piece| piece.arrival == latest) {
                piece.dry = dry;
            }
        }
    }

    /// Handles the server's close.
    fn eof(&mut self, number: usize, port: &mut Port, now: Instant) {
        if self.lines[number].phase == Phase::Closed {
            return;
        }
        let nothing = Talk::InOrder(Session::new());
        let mut talk = std::mem::replace(&mut self.lines[number].talk, nothing);
        let is_cut = match &mut talk {
            Talk::InOrder(session) => session.eof(|_| self.complete(number, 0, 0, now)).is_err(),
            Talk::Streams(_) => self.lines[number]
                .waiting
                .iter()
                .any(|asked| asked.reply.is_some()),
        };
        self.lines[number].talk = talk;
        let why = match is_cut {
            false => "the server closed the connection before it responded",
            true => "the server closed the connection during its response",
        };
        self.lost(number, why, false, port, now);
    }

    /// Closes a failed connection and requests again what it owes.
    fn lost(&mut self, number: usize, why: &str, is_opening: bool, port: &mut Port, now: Instant) {
        let waiting = std::mem::take(&mut self.lines[number].waiting);
        let was_answering = waiting.iter().any(|asked| asked.reply.is_some());
        let is_fruitless = self.lines[number].answered == 0 || was_answering;
        self.timeline.connections[number].is_cut = !waiting.is_empty();
        self.close(number, port, now);
        let mut all = self.timeline.connections.iter();
        let is_hopeless = self.is_undecided() || (is_opening && all.all(|one| one.connected.is_none()));
        if is_hopeless {
            self.abort(why, port, now);
            return;
        }
        for (place, asked) in waiting.into_iter().enumerate().rev() {
            if place == 0 && is_fruitless {
                self.items[asked.object].strikes += 1;
            }
            self.ask_again(asked.object, asked.part, why);
        }
    }

    /// Makes a request again that was not answered, unless that has been tried often enough.
    fn ask_again(&mut self, object: usize, part: Part, why: &str) {
        let method = match part {
            Part::Head => Method::Head,
            _ => Method::Get,
        };
        let item = &mut self.items[object];
        if item.strikes > self.plan.limits.repeats_max || !may_repeat(method) {
            self.timeline.objects[object].fate = Fate::Failed(why.to_owned());
            return;
        }
        item.is_repeat = true;
        self.queue.push_front(Job { object, part });
    }

    fn close(&mut self, number: usize, port: &mut Port, now: Instant) {
        let line = &mut self.lines[number];
        if line.phase != Phase::Closed {
            line.phase = Phase::Closed;
            let owes = !line.waiting.is_empty();
            let record = &mut self.timeline.connections[number];
            port.inspect(number as u32 + 1);
            if owes || record.is_cut {
                port.close(number as u32 + 1);
            } else {
                // Only the closing is still under way, and its packets are counted.
                port.leave(number as u32 + 1);
            }
            record.closed = Some(now);
            if record.connected.is_none() {
                // The requests were never sent.
                (record.bytes_out, record.requests) = (0, 0);
            }
        }
    }

    /// Fails every unfinished object.
    fn abort(&mut self, why: &str, port: &mut Port, now: Instant) {
        for object in &mut self.timeline.objects {
            if object.fate == Fate::Pending {
                object.fate = Fate::Failed(why.to_owned());
            }
        }
        self.finish(port, now);
    }

    fn finish(&mut self, port: &mut Port, now: Instant) {
        if !self.is_over {
            self.is_over = true;
            self.timeline.ended = now;
            (0..self.lines.len()).for_each(|number| self.close(number, port, now));
            port.end();
        }
    }
}

impl Crew for Fetch {
    fn start(&mut self, port: &mut Port, now: Instant) {
        self.timeline.began = now;
        self.timeline.ended = now;
        port.wake(CLOCK, now + self.plan.limits.timeout);
        let mut begun_with = std::mem::take(&mut self.also);
        if begun_with.is_empty() {
            begun_with.push(Reference::to_page(self.page.clone()));
        }
        for reference in begun_with {
            self.note(reference.named(), None, now);
        }
        self.dispatch(port, now);
    }

    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, now: Instant) {
        let Some(number) = line.checked_sub(1).map(|number| number as usize) else {
            let why = format!("not complete within {:?}", self.plan.limits.timeout);
            return self.abort(&why, port, now);
        };
        if let Happened::Inspected(tcp) = happened {
            let record = &mut self.timeline.connections[number];
            let before = record.tcp.replace(tcp);
            record.bytes_again = tcp.bytes_retransmitted;
            // Bytes counted at the end belong to no receipt.
            if self.lines[number].phase == Phase::Open {
                match record.arrivals.last_mut() {
                    Some(last) => {
                        last.came = last.came.max(tcp.bytes_in);
                        last.repeats = tcp.retransmitted;
                        last.holes += u32::from(is_hole_filled(before.as_ref(), &tcp));
                    }
                    None => record.shaken_again = tcp.retransmitted,
                }
            }
            return;
        }
        if let Happened::Measured(quic) = happened {
            self.measured(number, quic, now);
            if !self.is_late(number, now) {
                return;
            }
        }
        if self.is_over {
            return;
        }
        match happened {
            Happened::Connected => {
                self.lines[number].phase = Phase::Open;
                self.lines[number].stirred = now;
                self.timeline.connections[number].connected = Some(now);
                // Read the counters now, to separate later retransmissions from those of the handshake.
                port.inspect(number as u32 + 1);
                self.arm(number, port);
            }
            Happened::Secured(agreed) => self.secured(number, agreed, port, now),
            Happened::Refused(why) => {
                let is_any_secured = self.timeline.connections.iter().any(|one| one.secured.is_some());
                if is_any_secured {
                    self.lost(number, why, false, port, now);
                } else {
                    // The next connection would be refused, too.
                    self.timeline.connections[number].is_cut = true;
                    self.close(number, port, now);
                    self.abort(why, port, now);
                }
            }
            Happened::Bytes(bytes) => self.heard(number, Arrived::Bytes(bytes), port, now),
            Happened::Stream(stream, bytes, follows) => {
                self.heard(number, Arrived::OfStream(stream, bytes, follows), port, now);
            }
            Happened::Stopped(stream, code) => {
                self.heard(number, Arrived::Stopped(stream, code), port, now);
            }
            Happened::Eof => self.eof(number, port, now),
            Happened::Closed(why) => self.lost(number, why, false, port, now),
            Happened::Woken(_) => self.woken(number, port, now),
            Happened::Lost(failing) => {
                let (why, is_opening) = match failing {
                    Failing::Here(errno) => (format!("no connection: {}", said_by_system(errno)), true),
                    Failing::Opening(errno) => {
                        let hint = match self.plan.manner.mode {
                            Mode::Http3 => without_quic(errno),
                            _ => "",
                        };
                        (format!("no connection: {}{hint}", said_by_system(errno)), true)
                    }
                    Failing::Open(errno) => {
                        (format!("the connection failed: {}", said_by_system(errno)), false)
                    }
                    Failing::Cut => (
                        "the connection ended without TLS close_notify, so the response may be truncated"
                            .to_owned(),
                        false,
                    ),
                };
                self.lost(number, &why, is_opening, port, now);
            }
            Happened::Measured(quic) => {
                let came = match quic.datagrams_in {
                    0 => {
                        "no datagram came back, so the server has no HTTP/3, or the path drops UDP".to_owned()
                    }
                    n => format!("the handshake was not complete after {n} datagrams of the server"),
                };
                let limit = self.plan.limits.connect_timeout;
                let why = format!("no connection within {limit:?}: {came}; use --mode h2");
                self.lost(number, &why, true, port, now);
            }
            // This client parses every byte and never skips content.
            Happened::Inspected(_) | Happened::Skipped(_) => {}
        }
        self.dispatch(port, now);
        self.held_since = None;
    }

    fn stop(&mut self, port: &mut Port, now: Instant) {
        self.abort("stopped", port, now);
    }
}

/// Whether a segment was missing between two readings of the kernel's counters: some came out of order, or more
/// became in-order than arrived, because the rest had waited behind a hole. The largest segment so far limits
/// the bytes of each.
fn is_hole_filled(before: Option<&Tcp>, now: &Tcp) -> bool {
    let fresh = Tcp::default();
    let before = before.unwrap_or(&fresh);
    let segments = now.data_segments_in.saturating_sub(before.data_segments_in);
    let most = u64::from(segments) * u64::from(now.mss.max(before.mss));
    now.out_of_order > before.out_of_order
        || (now.data_segments_in > 0 && now.bytes_in.saturating_sub(before.bytes_in) > most)
}

fn said_by_system(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

/// What the failure of a handshake of QUIC means, and what to do.
fn without_quic(errno: i32) -> &'static str {
    match std::io::Error::from_raw_os_error(errno).kind() {
        std::io::ErrorKind::ConnectionRefused => {
            "; nothing receives UDP at that port, so the server has no HTTP/3, or a firewall rejects UDP; use --mode h2"
        }
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::ConnectionReset => "; use --mode h2",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
