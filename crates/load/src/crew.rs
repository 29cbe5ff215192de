//! Users as state machines that fetch objects, sleep and record times.
//!
//! ```text
//!   COMING (its first alarm: the user begins) ─┐
//!            alarm        ◀────────────────────┘    all files of the object
//!   WAITING ───────▶ FETCHING ───────────────────────────────▶ WAITING (OFF time), or at once the next
//!      ▲               │  ▲ alarm                               │
//!      │     a pause   ▼  │                                     │ the script, or the run, is over
//!      │   (active OFF, retry)                                  ▼
//!      └─────────── PAUSING                                    DONE
//! ```
//! One *line* of `runtime`'s driver is one connection of a user; a user has one by default. Protocol modes follow
//! document 000. HTTP/1.0 opens a connection for each file. Serial keeps one connection with one request outstanding.
//! Pipelined requests the page alone and then all remaining files at once. Early close is pipelined and closes before
//! the OFF time. "At once" means up to 64 requests, topped up as responses arrive: the only departure from the
//! original, visible for objects of more than 65 files. When the server closes early, unanswered requests are repeated
//! on a new connection; a truncated response is a failed file.
//!
//! A user with several connections requests the page on the first. When the page is complete, its embedded files are
//! dealt round-robin to all connections, and each connection follows the mode. The object is complete with its last
//! file. In HTTP/2, one connection carries the requests of several lines ([`carrier`]).
//!
//! Three lines have timers only: the end of the run, the arrivals of an open run (whose users are a pool of
//! connections), and the tick that measures the thread's own lateness. Knows nothing of sockets, clocks or the
//! purpose of a run.

mod arriving;
mod carrier;
mod hearing;
mod scripted;
mod ticking;

use crate::arrivals::Arrivals;
use crate::ledger::Ledger;
use crate::record::{Record, Trouble};
use crate::replies::Accept;
use crate::request_source::{Dealt, Part, RequestSource, whole};
use crate::scenario::{Script, Visitor};
use crate::work::Work;
use arriving::Open;
pub use carrier::Sharing;
use carrier::{Carrier, Ended};
use client::multiplexed::Arrived;
use client::plan::Mode;
use client::session::{Ending, Left, Memory, OUTSTANDING_MAX, Session};
use core::sync::atomic::{AtomicU64, Ordering};
use hearing::Came;
use runtime::dial::{self, Failing, Happened, Port, Security};
use std::collections::VecDeque;
use std::sync::Arc;
use twox_hash::xxhash3_128::Hasher;
use units::{Duration, Instant};

/// Lost connections after which a file is given up.
const TRIES_MAX: u8 = 3;
/// Minimum pause of a user after giving up a file, so that clients do not flood a dead server.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Arrival model of a crew.
#[derive(Debug)]
pub enum Model {
    /// Closed loop: each user starts at its offset from the run's start, then alternates between fetching and thinking.
    Closed(Vec<(Duration, RequestSource)>),
    /// Open loop: objects are requested at their arrival times.
    Open {
        /// Arrival times of this shard.
        arrivals: Arrivals,
        /// Objects, one per arrival of the whole process, so that every shard draws the same sequence.
        source: RequestSource,
        /// Connection limit.
        lines_max: u32,
    },
}

/// Settings of a crew.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Files and objects to request.
    pub work: Arc<Work>,
    /// Connections and request order, as in document 000.
    pub mode: Mode,
    /// The part of every request after its target.
    pub ending: Arc<Ending>,
    /// Statuses that count as success.
    pub accept: Accept,
    /// Whether the content of a 200 response must have the known length of its file. False if responses may be coded.
    pub lengths: bool,
    /// Time excluded from all figures: events whose intended time lies before its end go to the warm-up's record.
    pub warmup: Duration,
    /// Time after the start when the run stops beginning objects. All times here count from the start.
    pub duration: Duration,
    /// Completions after this time are left out of rates; at most `duration`.
    pub counted: Duration,
    /// Time after `duration` in which pending objects may still complete.
    pub grace: Duration,
    /// Maximum time a response may make no progress.
    pub timeout: Duration,
    /// Whether content is compared with the manifest's digests.
    pub verify: bool,
    /// Minimum number of remaining content bytes to skip in the kernel instead of copying them: they are counted, not
    /// inspected. Ignored if `verify` is set.
    pub unseen_from: u64,
    /// Requests that a user has outstanding at once, each on a connection of its own or, with `sharing`, on a stream. In
    /// an open loop over HTTP/1, 1.
    pub lanes: u32,
    /// How requests share connections: HTTP/2, with this mode; `None` for HTTP/1.
    pub sharing: Option<Arc<Sharing>>,
    /// Whether a layer below secures connections, so that a handshake follows each connection.
    pub secured: bool,
    /// Scenarios, whose steps are the files; the sources then give numbers of starts. Needs a mode with one request
    /// outstanding per user, and one lane.
    pub script: Option<Arc<Script>>,
    /// Seconds since 1970 at the start of the run: cookies of scenarios expire at dates.
    pub started: i64,
}

/// Live counters of a crew, for progress output.
#[derive(Debug, Default)]
pub struct Live {
    /// Completed files.
    pub files: AtomicU64,
    /// Content bytes received.
    pub bytes: AtomicU64,
    /// Errors of any kind.
    pub errors: AtomicU64,
    /// Objects in progress.
    pub active: AtomicU64,
    /// Sum of the response times of completed files, in nanoseconds.
    pub response_ns: AtomicU64,
    /// Longest response time since the last reset, in nanoseconds. The reader resets it to 0.
    pub longest_ns: AtomicU64,
}

/// Running digest of the response body in progress.
#[derive(Default)]
struct Digest(Hasher);

impl core::fmt::Debug for Digest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Digest")
    }
}

/// An object in progress on one connection.
#[derive(Debug)]
struct Fetch {
    parts: Vec<Part>,
    /// Parts requested: those complete plus those pending on this connection.
    asked: usize,
    /// Completed parts.
    got: usize,
    /// Intended start time of the object.
    intended: Instant,
    /// Intended start time of the current part.
    part_intended: Instant,
    /// Start of the current part's service time.
    mark: Instant,
    /// Start of the wait for the current part's first byte.
    sent: Instant,
    /// Arrival of the current response's head.
    first: Option<Instant>,
    /// Start of the connection attempt; `None` once established.
    opening: Option<Instant>,
    /// Start of the TLS handshake; `None` once it is complete, and for cleartext.
    shaking: Option<Instant>,
    /// Time of the last progress, from which the timeout counts.
    progress: Instant,
    status: u16,
    bytes: u64,
    /// Bytes received for the current part, headers included. If responses arrive in one read, the first part gets all
    /// of it.
    received: u64,
    /// Content length stated by the response's head, for responses without content.
    said: Option<u64>,
    /// Whether any part failed.
    spoiled: bool,
    digest: Option<Box<Digest>>,
    /// Connections lost since the last completed part.
    tries: u8,
    /// Whether the session ends with this object.
    last: bool,
    /// Whether the first part is requested alone: it is the page that references the others.
    alone: bool,
}

/// An object in progress on several connections.
#[derive(Debug)]
struct Group {
    /// Embedded files, dealt out when the page is complete.
    rest: Vec<Part>,
    /// All files of the object.
    files: Box<[u32]>,
    /// Connections still fetching their share.
    left: u32,
    /// Whether all parts so far succeeded.
    whole: bool,
    intended: Instant,
    /// OFF time after the object.
    off: Duration,
    /// Whether the session ends with this object.
    last: bool,
}

#[derive(Debug)]
enum Phase {
    /// The timer starts the user and its first object.
    Coming,
    /// The timer begins the next object; with `leave`, on a new connection.
    Waiting {
        leave: bool,
    },
    Fetching(Box<Fetch>),
    /// The timer continues the object.
    Pausing(Box<Fetch>),
    /// Idle in an open loop's pool, or waiting for the next object of its user.
    Free,
    /// Finished.
    Done,
}

#[derive(Debug)]
struct User {
    phase: Phase,
    session: Option<Session>,
    /// When the connection was established.
    stands: Option<Instant>,
    source: Option<RequestSource>,
    /// The object in progress, on the first of several connections.
    group: Option<Box<Group>>,
    /// When the timer fires.
    alarm: Instant,
    /// Values and cookies of a user of a script.
    visitor: Option<Box<Visitor>>,
}

/// All users of one thread.
#[derive(Debug)]
pub struct Crew {
    setup: Setup,
    users: Vec<User>,
    /// HTTP/2 connections, by the lines they carry.
    carriers: Vec<Option<Box<Carrier>>>,
    /// Carriers with output.
    due: Vec<usize>,
    /// Streams that ended; kept for its memory.
    ended: Vec<u32>,
    starts: Vec<Duration>,
    open: Option<Open>,
    began: Instant,
    /// The run is ending: no object begins any more.
    ending: bool,
    active: u64,
    /// Number of the `active` objects whose intended start lies after the warm-up.
    measured: u64,
    /// Start of the next second of the series.
    next_second: Instant,
    #[expect(clippy::vec_box, reason = "the boxes themselves are used again")]
    spare: Vec<Box<Fetch>>,
    live: Arc<Live>,
    ledger: Ledger,
    /// Parsed head of the previous response of any line: equal heads are not parsed again.
    memory: Memory,
    /// Users of a script who have no row left.
    done: usize,
}

const NEVER: Instant = Instant::from_nanos(u64::MAX);
/// Line of the timer that ends the run; belongs to no user.
const BELL: u32 = 0;
/// Line of the arrival timer. Users' lines follow these three.
const CLOCK: u32 = 1;
/// Line of the tick, a periodic timer that measures lateness.
const TICK: u32 = 2;
const FIRST: u32 = 3;

impl Crew {
    /// A crew that has not started.
    pub fn new(setup: Setup, model: Model, live: Arc<Live>) -> Crew {
        let lanes = setup.lanes.max(1) as usize;
        let user = |source| {
            let first = User {
                phase: Phase::Coming,
                source: Some(source),
                ..User::free()
            };
            core::iter::once(first).chain((1..lanes).map(|_| User::free()))
        };
        let (starts, users, open) = match model {
            Model::Closed(users) => {
                let (starts, supplies): (Vec<_>, Vec<_>) = users.into_iter().unzip();
                (starts, supplies.into_iter().flat_map(user).collect(), None)
            }
            Model::Open {
                arrivals,
                source,
                lines_max,
            } => {
                let open = Open {
                    ends: arrivals.are_given(),
                    arrivals,
                    next: (0, Instant::ZERO),
                    dealt: Dealt::new(source),
                    lines_max: lines_max.max(1) as usize,
                    free: Vec::new(),
                    backlog: VecDeque::new(),
                };
                (Vec::new(), Vec::new(), Some(open))
            }
        };
        Crew {
            setup,
            users,
            carriers: Vec::new(),
            due: Vec::new(),
            ended: Vec::new(),
            starts,
            open,
            began: Instant::ZERO,
            ending: false,
            active: 0,
            measured: 0,
            next_second: NEVER,
            spare: Vec::new(),
            live,
            ledger: Ledger::new(),
            memory: Memory::default(),
            done: 0,
        }
    }

    /// Closes the account at `now` and returns the record.
    pub fn into_record(mut self, now: Instant) -> Record {
        self.pass_seconds(now.min(self.until()));
        for user in &mut self.users {
            parted(&mut user.stands, &mut self.ledger, now);
        }
        self.part_from_carriers(now);
        self.ledger.into_record()
    }

    /// Time span in which completions counted for rates.
    pub fn counted(&self) -> Duration {
        self.ledger.counted()
    }

    /// When the run stops beginning objects.
    fn until(&self) -> Instant {
        self.began + self.setup.duration
    }

    fn user(&mut self, line: u32) -> &mut User {
        &mut self.users[(line - FIRST) as usize]
    }

    /// Sets a user's timer.
    fn wake(&mut self, line: u32, at: Instant, port: &mut Port) {
        self.user(line).alarm = at;
        port.wake(line, at);
    }

    /// Makes sure that a user wakes by `at`. An earlier timer stays: when it fires, the timeout is checked against the
    /// last progress. So not every request sets a timer.
    fn wake_by(&mut self, line: u32, at: Instant, port: &mut Port) {
        if at < self.user(line).alarm {
            self.wake(line, at, port);
        }
    }

    /// Handles a user's timer.
    fn woken(&mut self, line: u32, at: Instant, port: &mut Port, now: Instant) {
        let timeout = self.setup.timeout;
        self.user(line).alarm = NEVER;
        match core::mem::replace(&mut self.user(line).phase, Phase::Done) {
            Phase::Coming => {
                if !self.ending {
                    self.ledger.came(now);
                }
                self.ledger.of(at).lag.add(now.since(at));
                self.begin(line, at, None, port, now);
            }
            Phase::Waiting { leave } => {
                if leave {
                    self.leave_all(line, port, now);
                }
                self.ledger.of(at).lag.add(now.since(at));
                self.begin(line, at, None, port, now);
            }
            Phase::Pausing(mut fetch) => {
                fetch.part_intended = at;
                fetch.progress = now;
                self.ledger.of(at).lag.add(now.since(at));
                self.user(line).phase = Phase::Fetching(fetch);
                self.wake(line, now + timeout, port);
                self.ask(line, port, now);
            }
            Phase::Fetching(fetch) => {
                let due = fetch.progress + timeout;
                self.user(line).phase = Phase::Fetching(fetch);
                if due > now {
                    self.wake(line, due, port);
                } else {
                    let is_shaking = match &self.user(line).phase {
                        Phase::Fetching(fetch) => fetch.shaking.is_some() || self.is_carrier_shaking(line),
                        _ => false,
                    };
                    let trouble = match is_shaking {
                        true => {
                            self.refused("TLS failed: the handshake made no progress within --timeout", now);
                            Trouble::Handshake
                        }
                        false => Trouble::Timeout,
                    };
                    match self.is_shared() {
                        true => self.late_on_stream(line, trouble, port, now),
                        false => self.lost(line, trouble, port, now),
                    }
                }
            }
            other => self.user(line).phase = other,
        }
    }

    /// First line of the user that owns `line`.
    fn head(&self, line: u32) -> u32 {
        line - (line - FIRST) % self.setup.lanes.max(1)
    }

    /// Whether connections carry the requests of several lines.
    fn is_shared(&self) -> bool {
        self.setup.sharing.is_some()
    }

    /// Closes all connections of the user whose first line is `head`.
    fn leave_all(&mut self, head: u32, port: &mut Port, now: Instant) {
        if self.is_shared() {
            return self.leave_carrier(head, port, now);
        }
        for lane in 0..self.setup.lanes.max(1) {
            self.leave(head + lane, port, now);
        }
    }

    /// Closes a line's connection, if any.
    fn leave(&mut self, line: u32, port: &mut Port, now: Instant) {
        let user = &mut self.users[(line - FIRST) as usize];
        if user.session.take().is_some() {
            parted(&mut user.stands, &mut self.ledger, now);
            port.close(line);
        }
    }

    /// An object without parts, in a reused box if there is one.
    fn fresh(&mut self, intended: Instant, now: Instant) -> Box<Fetch> {
        let mut fetch = self
            .spare
            .pop()
            .unwrap_or_else(|| Box::new(Fetch::new(intended, now)));
        let parts = core::mem::take(&mut fetch.parts);
        *fetch = Fetch {
            parts,
            ..Fetch::new(intended, now)
        };
        fetch.parts.clear();
        fetch
    }

    /// Records the number of pending objects at the start of each second that began since the last call.
    fn pass_seconds(&mut self, now: Instant) {
        while self.next_second <= now {
            if self.measured > 0 {
                let from = self.ledger.from();
                let record = self.ledger.of(self.next_second);
                record.second(self.next_second, from).under_way += self.measured;
            }
            self.next_second = self.next_second + Duration::from_secs(1);
        }
    }

    /// Begins an object: `given`, or the next of the user's own source.
    fn begin(&mut self, line: u32, intended: Instant, given: Option<u32>, port: &mut Port, now: Instant) {
        if self.ending {
            return;
        }
        let mut fetch = self.fresh(intended, now);
        let work = &self.setup.work;
        let user = &mut self.users[(line - FIRST) as usize];
        let last = match (given, &mut user.source) {
            _ if self.setup.script.is_some() => {
                let script = self.setup.script.as_ref();
                match script.and_then(|script| scripted::begin(script, user, given, &mut fetch.parts)) {
                    Some(last) => last,
                    None => return self.exhausted(line, port, now),
                }
            }
            (Some(object), _) => {
                whole(work, object, &mut fetch.parts);
                false
            }
            (None, Some(source)) => match source.next(work, &mut fetch.parts) {
                Some(last) => last,
                None => return self.leave_all(line, port, now),
            },
            (None, None) => return,
        };
        fetch.last = last;
        if self.setup.lanes > 1 && fetch.parts.len() > 1 {
            user.group = Some(Box::new(Group {
                files: fetch.parts.iter().map(|part| part.file).collect(),
                off: fetch.parts.last().map_or(Duration::ZERO, |part| part.off),
                rest: fetch.parts.split_off(1),
                left: 1,
                whole: true,
                intended,
                last,
            }));
        }
        user.phase = Phase::Fetching(fetch);
        self.pass_seconds(now);
        let from = self.ledger.from();
        self.active += 1;
        self.measured += u64::from(intended >= from);
        self.live.active.store(self.active, Ordering::Relaxed);
        let record = self.ledger.of(intended);
        record.objects_begun += 1;
        record.second(now, from).begun += 1;
        self.wake_by(line, now + self.setup.timeout, port);
        self.ask(line, port, now);
    }

    /// Sends the requests that the mode allows now, on a new connection if necessary.
    fn ask(&mut self, line: u32, port: &mut Port, now: Instant) {
        if self.setup.script.is_some() && !self.render(line, port, now) {
            return;
        }
        if self.is_shared() {
            return self.ask_on_stream(line, port, now);
        }
        let Setup {
            work,
            mode,
            ending,
            script,
            ..
        } = &self.setup;
        let User {
            phase,
            session,
            stands,
            visitor,
            ..
        } = &mut self.users[(line - FIRST) as usize];
        let Phase::Fetching(fetch) = phase else { return };
        if !session.as_ref().is_some_and(Session::is_persistent) {
            if session.is_some() {
                parted(stands, &mut self.ledger, now);
                port.close(line);
            }
            *session = None;
        }
        let connected = session.is_some();
        let session = session.get_or_insert_with(Session::new);
        if !connected {
            port.connect(line);
            fetch.asked = fetch.got;
            fetch.opening = Some(now);
        }
        let wanted = match mode {
            Mode::Http10 | Mode::Serial | Mode::Auto => fetch.got + 1,
            _ if fetch.got == 0 && fetch.alone => 1,
            Mode::Pipelined | Mode::EarlyClose | Mode::Http2 | Mode::Http3 => fetch.parts.len(),
        };
        let room = OUTSTANDING_MAX - session.outstanding();
        let to = wanted.min(fetch.parts.len()).min(fetch.asked + room);
        if fetch.asked >= to {
            return;
        }
        // The part's time starts here unless its request was sent together with earlier ones.
        if fetch.asked == fetch.got && fetch.first.is_none() {
            fetch.mark = now;
            fetch.sent = now;
        }
        let parts = &fetch.parts[fetch.asked..to];
        port.send(line, |out| {
            if let (Some(script), Some(visitor)) = (script, visitor) {
                // One request at a time: the next depends on its response.
                let step = parts[0].file;
                let (version, persists) = match mode {
                    Mode::Http10 => ("1.0", false),
                    _ => ("1.1", true),
                };
                let refused = session.ask(script.steps[step as usize].verb.method(), persists);
                debug_assert!(refused.is_ok(), "room was counted");
                return visitor.write(script, step, version, out);
            }
            for part in parts {
                let refused = session.request(out, &work.files[part.file as usize].path, ending);
                debug_assert!(refused.is_ok(), "room was counted");
            }
        });
        fetch.asked = to;
    }

    /// Continues after responses or the end of the connection, as `left` says.
    fn advance(&mut self, line: u32, left: Option<Left>, port: &mut Port, now: Instant) {
        let mode = self.setup.mode;
        let User {
            phase,
            session,
            stands,
            ..
        } = &mut self.users[(line - FIRST) as usize];
        let Phase::Fetching(fetch) = phase else { return };
        if let Some(left) = left {
            *session = None;
            parted(stands, &mut self.ledger, now);
            port.close(line);
            let unanswered = matches!(left, Left::Unanswered(_));
            self.ledger.of(now).closed_by_server += u64::from(unanswered || mode != Mode::Http10);
            if let Left::Unanswered(count) = left {
                let took = now.since(fetch.mark);
                self.ledger.transferred(fetch.part_intended, took, None, now);
                fetch.tries += 1;
                let is_repeatable = self.setup.verb(fetch).is_idempotent();
                if fetch.tries > TRIES_MAX || !is_repeatable {
                    self.lost(line, Trouble::Unanswered, port, now);
                    return;
                }
                self.ledger.of(now).resent += u64::from(count);
            }
        }
        let User {
            phase,
            session,
            stands,
            ..
        } = &mut self.users[(line - FIRST) as usize];
        let Phase::Fetching(fetch) = phase else { return };
        if fetch.got == fetch.parts.len() {
            self.finish(line, Duration::ZERO, port, now);
            return;
        }
        // A response is still arriving.
        if fetch.first.is_some() && session.is_some() {
            return;
        }
        let unanswered = fetch.asked - fetch.got;
        if mode == Mode::Http10 && session.is_some() && unanswered > 0 {
            return;
        }
        // The connection carries no further response: HTTP/1.0, or the server announced the close.
        if session.as_ref().is_some_and(|session| !session.is_persistent()) {
            let record = self.ledger.of(now);
            record.closed_by_server += u64::from(mode != Mode::Http10);
            record.resent += unanswered as u64;
            fetch.asked = fetch.got;
            *session = None;
            parted(stands, &mut self.ledger, now);
            port.close(line);
        }
        self.go_on(line, port, now);
    }

    /// Sends the next requests, after the active OFF time of the last part if it has one.
    fn go_on(&mut self, line: u32, port: &mut Port, now: Instant) {
        // A think time that the run does not wait for.
        let is_over = self.ending && self.setup.script.is_some();
        let Phase::Fetching(fetch) = &mut self.users[(line - FIRST) as usize].phase else {
            return;
        };
        let off = match fetch.got.checked_sub(1) {
            Some(before) if fetch.asked == fetch.got => fetch.parts[before].off,
            _ => Duration::ZERO,
        };
        if off.is_zero() {
            self.ask(line, port, now);
            return;
        }
        if is_over {
            self.interrupt(line, port, now);
            if self.active == 0 {
                port.end();
            }
            return;
        }
        // The active OFF time of a part applies once.
        let before = fetch.got - 1;
        fetch.parts[before].off = Duration::ZERO;
        let user = self.user(line);
        if let Phase::Fetching(fetch) = core::mem::replace(&mut user.phase, Phase::Done) {
            user.phase = Phase::Pausing(fetch);
        }
        self.wake(line, now + off, port);
    }

    /// Handles a connection that is gone.
    fn lost_connection(&mut self, line: u32, trouble: Trouble, port: &mut Port, now: Instant) {
        if self.is_shared() {
            let is_early = !self.is_carrier_busy(line) || trouble == Trouble::Lost;
            self.ledger.of(now).closed_by_server += u64::from(is_early);
            let trouble = match trouble {
                Trouble::Handshake if !self.is_carrier_shaking(line) => Trouble::Protocol,
                other => other,
            };
            return self.carrier_ended(line, Ended::Failed(trouble), port, now);
        }
        let user = &mut self.users[(line - FIRST) as usize];
        let Phase::Fetching(fetch) = &user.phase else {
            // No response was pending.
            user.session = None;
            parted(&mut user.stands, &mut self.ledger, now);
            self.ledger.of(now).closed_by_server += 1;
            return;
        };
        let is_open = fetch.opening.is_none() && fetch.shaking.is_none();
        let trouble = match trouble {
            // The handshake was complete: the server broke the rules of TLS later.
            Trouble::Handshake if is_open => Trouble::Protocol,
            other => other,
        };
        // A response that was cut off is not asked for again, whether the server closed or reset.
        let has_begun =
            fetch.first.is_some() || user.session.as_ref().is_some_and(Session::is_within_final_head);
        if trouble == Trouble::Lost && has_begun {
            return self.cut_short(line, port, now);
        }
        self.ledger.of(now).closed_by_server += u64::from(trouble == Trouble::Lost);
        self.lost(line, trouble, port, now);
    }

    /// Records a complete TLS handshake. The wait for the first byte begins with it.
    fn secured(&mut self, line: u32, agreed: Security, now: Instant) {
        if self.is_shared() {
            if let Some(since) = self.carrier_secured(line, now) {
                let record = self.ledger.of(since);
                record.handshake.add(now.since(since));
                record.resumed += u64::from(agreed.resumed);
            }
            return;
        }
        if let Phase::Fetching(fetch) = &mut self.users[(line - FIRST) as usize].phase
            && let Some(since) = fetch.shaking.take()
        {
            fetch.sent = now;
            fetch.progress = now;
            let record = self.ledger.of(since);
            record.handshake.add(now.since(since));
            record.resumed += u64::from(agreed.resumed);
        }
    }

    /// Keeps the first reason of a failed handshake.
    #[cold]
    fn refused(&mut self, why: &str, now: Instant) {
        let fault = &mut self.ledger.of(now).handshake_fault;
        fault.get_or_insert_with(|| why.into());
    }

    /// Gives up the connection before the object is complete; retries or fails its pending files.
    fn lost(&mut self, line: u32, trouble: Trouble, port: &mut Port, now: Instant) {
        // A shared connection is another's to close.
        let is_shared = self.is_shared();
        if !is_shared {
            port.close(line);
        }
        let from = self.ledger.from();
        let user = &mut self.users[(line - FIRST) as usize];
        user.session = None;
        let stood = is_shared || user.stands.is_some();
        parted(&mut user.stands, &mut self.ledger, now);
        let Phase::Fetching(fetch) = &mut user.phase else {
            return;
        };
        let took = now.since(fetch.mark);
        match trouble {
            // `advance` has recorded it.
            Trouble::Unanswered => {}
            _ if stood => self.ledger.transferred(fetch.part_intended, took, None, now),
            _ => self.ledger.unconnected(fetch.part_intended, now),
        }
        fetch.received = 0;
        let record = self.ledger.of(fetch.part_intended);
        record.trouble(trouble, now, from);
        self.live.errors.fetch_add(1, Ordering::Relaxed);
        fetch.tries += 1;
        fetch.first = None;
        fetch.opening = None;
        fetch.shaking = None;
        let hopeless = matches!(
            trouble,
            Trouble::Here
                | Trouble::Connect
                | Trouble::Handshake
                | Trouble::Unanswered
                | Trouble::Timeout
                | Trouble::Protocol
        ) || !self.setup.verb(fetch).is_idempotent();
        if hopeless || fetch.tries > TRIES_MAX {
            if let Some(part) = fetch.parts.get(fetch.got) {
                let file = &self.setup.work.files[part.file as usize];
                record.example(trouble, &file.path, [file.bytes, None], now, from);
            }
            if self.setup.script.is_some() {
                scripted::fail_step(fetch, &mut self.ledger, trouble, now);
            }
            let record = self.ledger.of(fetch.part_intended);
            let failed = (fetch.parts.len() - fetch.got) as u64;
            record.fail(failed, now.since(fetch.part_intended), now, from);
            // The OFF time would have passed anyway.
            let off = fetch.parts.last().map_or(Duration::ZERO, |part| part.off);
            self.ledger
                .held(fetch.part_intended, now + RETRY_PAUSE.saturating_sub(off));
            self.finish(line, RETRY_PAUSE, port, now);
        } else {
            self.ledger.of(now).resent += (fetch.asked - fetch.got) as u64;
            fetch.progress = now;
            self.ask(line, port, now);
        }
    }

    /// Ends the fetch on this line, complete or given up. If that ends the object, the user sleeps for its OFF time, at
    /// least for `least`.
    fn finish(&mut self, line: u32, least: Duration, port: &mut Port, now: Instant) {
        let head = self.head(line);
        let user = self.user(line);
        let Phase::Fetching(fetch) = core::mem::replace(&mut user.phase, Phase::Done) else {
            return;
        };
        let complete = fetch.got == fetch.parts.len();
        let good = complete && !fetch.spoiled;
        let Some(mut group) = self.user(head).group.take() else {
            let (last, intended) = (fetch.last, fetch.intended);
            let off = fetch.parts.last().map_or(Duration::ZERO, |part| part.off);
            let files = fetch.parts.iter().map(|part| part.file);
            let decile = self.setup.work.decile(files);
            self.spare.push(fetch);
            let over = Over {
                intended,
                complete: good,
                decile,
                off: off.max(least),
                leave: last,
            };
            self.over(line, &over, port, now);
            return;
        };
        self.spare.push(fetch);
        self.user(line).phase = Phase::Free;
        if matches!(self.setup.mode, Mode::Http10 | Mode::EarlyClose) {
            self.leave(line, port, now);
        }
        group.left -= 1;
        group.whole &= good;
        group.off = group.off.max(least);
        let rest = core::mem::take(&mut group.rest);
        if !rest.is_empty() && complete {
            self.deal(head, *group, &rest, port, now);
            return;
        }
        // The files of a page that never arrived were never requested; they failed.
        let from = self.ledger.from();
        let took = now.since(group.intended);
        let record = self.ledger.of(group.intended);
        record.fail(rest.len() as u64, took, now, from);
        if group.left > 0 {
            self.user(head).group = Some(group);
            return;
        }
        let over = Over {
            intended: group.intended,
            complete: group.whole,
            decile: self.setup.work.decile(group.files.iter().copied()),
            off: group.off,
            leave: group.last,
        };
        self.over(head, &over, port, now);
    }

    /// Deals a page's embedded files round-robin to the connections of its user.
    fn deal(&mut self, head: u32, mut group: Group, rest: &[Part], port: &mut Port, now: Instant) {
        let lanes = self.setup.lanes.max(1).min(rest.len() as u32);
        group.left = lanes;
        let intended = group.intended;
        self.user(head).group = Some(Box::new(group));
        for lane in 0..lanes {
            let mut fetch = self.fresh(intended, now);
            fetch.part_intended = now;
            fetch.alone = false;
            fetch
                .parts
                .extend(rest.iter().skip(lane as usize).step_by(lanes as usize));
            self.user(head + lane).phase = Phase::Fetching(fetch);
            self.wake_by(head + lane, now + self.setup.timeout, port);
            self.ask(head + lane, port, now);
        }
    }

    /// Records a completed or failed object and schedules the user's next one.
    fn over(&mut self, line: u32, over: &Over, port: &mut Port, now: Instant) {
        let &Over { off, leave, .. } = over;
        self.pass_seconds(now);
        self.active -= 1;
        self.measured -= u64::from(over.intended >= self.ledger.from());
        self.live.active.store(self.active, Ordering::Relaxed);
        let record = self.ledger.of(over.intended);
        if over.complete {
            let time = now.since(over.intended);
            record.objects += 1;
            record.object.add(time);
            if let Some(decile) = over.decile {
                record.decile(decile, time);
            }
        } else if let Some(decile) = over.decile {
            record.decile_failed(decile);
        }
        self.user(line).phase = Phase::Done;
        // The timer that ends the run may itself be late.
        let late = now >= self.until();
        let closes = matches!(self.setup.mode, Mode::Http10 | Mode::EarlyClose);
        if closes || self.ending || late {
            self.leave_all(line, port, now);
        }
        if self.ending {
            if self.active == 0 {
                port.end();
            }
            return;
        }
        if self.open.is_some() && leave {
            self.leave_all(line, port, now);
        }
        if let Some(open) = &mut self.open {
            self.users[(line - FIRST) as usize].phase = Phase::Free;
            match open.backlog.pop_front_if(|_| !late) {
                Some((at, object)) => self.begin(line, at, Some(object), port, now),
                None if open.backlog.is_empty() => open.free.push(line),
                // Too late for the waiting arrivals, and later ones must not overtake them.
                None => {}
            }
            self.end_with_log(port);
            return;
        }
        if late {
            return;
        }
        if off.is_zero() {
            if leave {
                self.leave_all(line, port, now);
            }
            self.begin(line, now, None, port, now);
        } else {
            self.user(line).phase = Phase::Waiting { leave };
            self.wake(line, now + off, port);
        }
    }
}

impl User {
    /// A connection without a user's script.
    fn free() -> User {
        User {
            phase: Phase::Free,
            session: None,
            stands: None,
            source: None,
            group: None,
            alarm: NEVER,
            visitor: None,
        }
    }
}

impl Fetch {
    fn new(intended: Instant, now: Instant) -> Fetch {
        Fetch {
            parts: Vec::new(),
            asked: 0,
            got: 0,
            intended,
            part_intended: intended,
            mark: now,
            sent: now,
            first: None,
            opening: None,
            shaking: None,
            progress: now,
            status: 0,
            bytes: 0,
            received: 0,
            said: None,
            spoiled: false,
            digest: None,
            tries: 0,
            last: false,
            alone: true,
        }
    }

    /// Moves on to the next part and restarts its times.
    fn done(&mut self, now: Instant) {
        self.got += 1;
        self.first = None;
        self.received = 0;
        self.mark = now;
        self.sent = now;
        self.part_intended = now;
    }
}

/// Records the end of an established connection.
fn parted(stands: &mut Option<Instant>, ledger: &mut Ledger, now: Instant) {
    if let Some(since) = stands.take() {
        ledger.parted(since, now);
    }
}

/// A completed or failed object and how its user continues.
struct Over {
    intended: Instant,
    /// Whether all files succeeded.
    complete: bool,
    /// Decile of the object's size, if known.
    decile: Option<usize>,
    /// OFF time after the object.
    off: Duration,
    /// Whether the session ends with this object.
    leave: bool,
}

impl dial::Crew for Crew {
    fn start(&mut self, port: &mut Port, now: Instant) {
        self.began = now;
        self.ledger.begin(now, self.setup.warmup, self.setup.counted);
        self.next_second = self.ledger.from() + Duration::from_secs(1);
        port.wake(BELL, self.until());
        port.wake(TICK, now + ticking::EVERY);
        for (number, start) in core::mem::take(&mut self.starts).into_iter().enumerate() {
            self.wake(FIRST + number as u32 * self.setup.lanes.max(1), now + start, port);
        }
        if let Some(open) = &mut self.open {
            open.advance(now);
            self.arrive(port, now);
        }
        self.flush(port);
    }

    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, now: Instant) {
        self.happened(line, happened, port, now);
        self.flush(port);
    }

    fn stop(&mut self, port: &mut Port, now: Instant) {
        self.end(port, now);
        self.flush(port);
    }
}

impl Crew {
    fn happened(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, now: Instant) {
        match (line, happened) {
            (BELL, _) => self.end(port, now),
            (CLOCK, _) => self.arrive(port, now),
            (TICK, Happened::Woken(at)) => self.tick(at, port, now),
            (TICK, _) => {}
            // This crew requests no inspections.
            (_, Happened::Inspected(_) | Happened::Measured(_)) => {}
            (line, Happened::Woken(at)) => self.woken(line, at, port, now),
            (line, Happened::Connected) => {
                let record = self.ledger.of(now);
                record.connections += 1;
                record.established += 1;
                if self.is_shared() {
                    return self.carrier_stands(line, now);
                }
                self.user(line).stands = Some(now);
                if let Phase::Fetching(fetch) = &mut self.users[(line - FIRST) as usize].phase
                    && let Some(opened) = fetch.opening.take()
                {
                    fetch.sent = now;
                    fetch.shaking = self.setup.secured.then_some(now);
                    // Cleartext counts its timeout from the request.
                    if self.setup.secured {
                        fetch.progress = now;
                    }
                    self.ledger.of(opened).connect.add(now.since(opened));
                }
            }
            (line, Happened::Secured(agreed)) => self.secured(line, agreed, now),
            (line, Happened::Refused(why)) => {
                self.refused(why, now);
                self.lost_connection(line, Trouble::Handshake, port, now);
            }
            (line, Happened::Closed(why)) => {
                let fault = &mut self.ledger.of(now).close_fault;
                fault.get_or_insert_with(|| why.into());
                self.lost_connection(line, Trouble::Lost, port, now);
            }
            (line, Happened::Bytes(bytes)) if self.is_shared() => {
                self.carried(line, Arrived::Bytes(bytes), port, now);
            }
            (line, Happened::Stream(stream, bytes, follows)) => {
                self.carried(line, Arrived::OfStream(stream, bytes, follows), port, now);
            }
            (line, Happened::Stopped(stream, code)) => {
                self.carried(line, Arrived::Stopped(stream, code), port, now);
            }
            (line, Happened::Eof | Happened::Lost(Failing::Cut)) if self.is_shared() => {
                self.ledger.of(now).closed_by_server += 1;
                self.carrier_ended(line, Ended::Closed, port, now);
            }
            (line, Happened::Lost(Failing::Cut)) => self.heard(line, Came::Cut, port, now),
            (line, Happened::Bytes(bytes)) => self.heard(line, Came::Bytes(bytes), port, now),
            (line, Happened::Skipped(bytes)) => self.heard(line, Came::Skipped(bytes), port, now),
            (line, Happened::Eof) => self.heard(line, Came::End, port, now),
            (line, Happened::Lost(failing)) => {
                let trouble = match failing {
                    Failing::Here(errno) => {
                        self.ledger.of(now).refusal = Some(errno);
                        Trouble::Here
                    }
                    Failing::Opening(_) => Trouble::Connect,
                    Failing::Open(_) | Failing::Cut => Trouble::Lost,
                };
                self.lost_connection(line, trouble, port, now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
