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
mod failure;
mod hearing;
mod objects;
mod scripted;
mod settings;
mod ticking;

use crate::ledger::Ledger;
use crate::record::{Record, Trouble};
use crate::request_source::{Dealt, Part, RequestSource};
use crate::scenario::Visitor;
use arriving::Open;
pub use carrier::Sharing;
use carrier::{Carrier, Ended};
use client::multiplexed::Arrived;
use client::plan::Mode;
use client::session::{Left, Memory, OUTSTANDING_MAX, Session};
use hearing::Came;
use runtime::dial::{self, Failing, Happened, Port, Security};
pub use settings::{Live, Model, Setup};
use std::collections::VecDeque;
use std::sync::Arc;
use twox_hash::xxhash3_128::Hasher;
use units::{Duration, Instant};

/// Lost connections after which a file is given up.
const TRIES_MAX: u8 = 3;
/// Minimum pause of a user after giving up a file, so that clients do not flood a dead server.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

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
        // What was pending at the end is counted. A driver reports the other events of that turn, too.
        if port.is_ended() {
            return;
        }
        self.happened(line, happened, port, now);
        self.flush(port);
    }

    fn stop(&mut self, port: &mut Port, now: Instant) {
        if port.is_ended() {
            return;
        }
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
