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
//! One line of `runtime`'s driver is one connection of a user; a user has one by default. Protocol modes follow
//! document 000: HTTP/1.0 opens a connection for each file; serial keeps one connection with one request outstanding;
//! pipelined requests the page alone and then all remaining files at once; early close does this too and closes
//! before the OFF time. "At once" means up to 64 requests, topped up as responses arrive: the only departure from the
//! original, visible for objects of more than 65 files. When the server closes early, unanswered requests are
//! repeated on a new connection; a truncated response is a failed file.
//!
//! A user with several connections requests the page on the first. When it is complete, the embedded files are dealt
//! out to all connections in turn, and each follows the mode. The object is complete with its last file.
//!
//! Three lines have timers only: the end of the run, the arrivals of an open run (whose users are a pool of
//! connections), and the tick that measures the thread's own lateness. Knows nothing of sockets, clocks or the
//! purpose of a run.

mod arriving;
mod hearing;
mod ticking;

use crate::arrivals::Arrivals;
use crate::ledger::Ledger;
use crate::record::{Record, Trouble};
use crate::replies::Accept;
use crate::supply::{Dealt, Part, Supply, whole};
use crate::work::Work;
use arriving::Open;
use client::plan::Mode;
use client::session::{Ending, Left, Memory, OUTSTANDING_MAX, Session};
use core::sync::atomic::{AtomicU64, Ordering};
use hearing::Came;
use measure::{Duration, Instant};
use runtime::dial::{self, Failing, Happened, Port};
use std::collections::VecDeque;
use std::sync::Arc;
use twox_hash::xxhash3_128::Hasher;

/// Connections that a file may lose before it is given up.
const TRIES_MAX: u8 = 3;
/// How long a user without OFF time waits after it gave a file up, so that a dead server is not stormed.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Who asks when.
#[derive(Debug)]
pub enum Model {
    /// Users that begin at these times from the start, and fetch, sleep and fetch again.
    Closed(Vec<(Duration, Supply)>),
    /// Objects are asked for when they arrive.
    Open {
        /// When.
        arrivals: Arrivals,
        /// What, one for each arrival of the whole process, whichever shard it belongs to.
        supply: Supply,
        /// Connections at the most.
        lines_max: u32,
    },
}

/// How a crew works.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What can be asked for.
    pub work: Arc<Work>,
    /// How it is asked for.
    pub mode: Mode,
    /// All of each request but its target.
    pub ending: Arc<Ending>,
    /// Which statuses are those of a good file.
    pub accept: Accept,
    /// Whether replies of status 200 have the lengths that are known of their files: not if they may be coded.
    pub lengths: bool,
    /// What is meant to happen before this is left out of every figure.
    pub warmup: Duration,
    /// No object begins after this, which counts from the start, as the others do.
    pub duration: Duration,
    /// What is complete after this is no part of rates; at most the duration.
    pub counted: Duration,
    /// How long objects under way may still take then.
    pub grace: Duration,
    /// How long a reply may make no progress.
    pub timeout: Duration,
    /// Whether contents are held against the manifest's digests.
    pub verify: bool,
    /// From how many bytes on content that is still to come is counted but not looked at, so that the kernel need not copy
    /// it. Nothing is counted unseen where contents are verified.
    pub unseen_from: u64,
    /// Connections of each user; 1 in an open run.
    pub lanes: u32,
}

/// What can be seen of a crew while it works.
#[derive(Debug, Default)]
pub struct Live {
    /// Files complete.
    pub files: AtomicU64,
    /// Content received.
    pub bytes: AtomicU64,
    /// Troubles.
    pub errors: AtomicU64,
    /// Objects under way.
    pub active: AtomicU64,
    /// Sum of the response times of its files, in nanoseconds.
    pub response_ns: AtomicU64,
    /// The longest of them since somebody looked, in nanoseconds. Who looks sets it to 0.
    pub longest_ns: AtomicU64,
}

/// The digest of a body under way.
#[derive(Default)]
struct Digest(Hasher);

impl core::fmt::Debug for Digest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Digest")
    }
}

/// An object under way.
#[derive(Debug)]
struct Fetch {
    parts: Vec<Part>,
    /// Parts asked for, on this connection or, if complete, on earlier ones.
    asked: usize,
    /// Parts complete.
    got: usize,
    /// When the object was meant to begin.
    intended: Instant,
    /// When the part under way was.
    part_intended: Instant,
    /// Where its service time begins.
    mark: Instant,
    /// Where waiting for its first byte begins.
    sent: Instant,
    /// When its reply began.
    first: Option<Instant>,
    /// When the connection was opened, until it stands.
    opening: Option<Instant>,
    /// The last sign of life.
    progress: Instant,
    status: u16,
    bytes: u64,
    /// What came for the part under way, heads among it. Of parts whose replies come together, the first has it all.
    received: u64,
    /// The length that the reply's head says, where no content follows it.
    said: Option<u64>,
    /// Whether a part was not as it should be.
    spoiled: bool,
    digest: Option<Box<Digest>>,
    /// Connections lost since the last progress.
    tries: u8,
    /// Whether the session ends with the object.
    last: bool,
    /// Whether the first part is asked for alone, being the page that names the others.
    alone: bool,
}

/// An object under way on several connections.
#[derive(Debug)]
struct Group {
    /// What is dealt out when the page is complete.
    rest: Vec<Part>,
    /// Its files.
    files: Box<[u32]>,
    /// Connections that are not done with their part.
    left: u32,
    /// Whether no part was given up.
    whole: bool,
    intended: Instant,
    /// How long the user is OFF after it.
    off: Duration,
    /// Whether the session ends with it.
    last: bool,
}

#[derive(Debug)]
enum Phase {
    /// The alarm begins the user, with its first object.
    Coming,
    /// The alarm begins the next object; with `leave`, on a new connection.
    Waiting {
        leave: bool,
    },
    Fetching(Box<Fetch>),
    /// The alarm goes on with the object.
    Pausing(Box<Fetch>),
    /// In the pool of an open run, or a connection that waits for its user's next object.
    Free,
    /// Nothing more to do.
    Done,
}

#[derive(Debug)]
struct User {
    phase: Phase,
    session: Option<Session>,
    /// Since when its connection stands.
    stands: Option<Instant>,
    supply: Option<Supply>,
    /// With several connections, on the first of them: the object under way.
    group: Option<Box<Group>>,
    /// When its alarm rings.
    alarm: Instant,
}

/// The users of one thread.
#[derive(Debug)]
pub struct Crew {
    setup: Setup,
    users: Vec<User>,
    starts: Vec<Duration>,
    open: Option<Open>,
    began: Instant,
    /// Nothing begins any more.
    ending: bool,
    active: u64,
    /// Those of them that were meant to begin while it is measured.
    measured: u64,
    /// The second that begins next.
    next_second: Instant,
    #[expect(clippy::vec_box, reason = "the boxes themselves are used again")]
    spare: Vec<Box<Fetch>>,
    live: Arc<Live>,
    ledger: Ledger,
    /// The head of the last reply, whoever asked.
    memory: Memory,
}

const NEVER: Instant = Instant::from_nanos(u64::MAX);
/// The line whose alarm ends the run: no user has it.
const BELL: u32 = 0;
/// The line that tells arrivals; users come after these three.
const CLOCK: u32 = 1;
/// The line whose alarm rings at even intervals.
const TICK: u32 = 2;
const FIRST: u32 = 3;

impl Crew {
    /// A crew that has not begun.
    pub fn new(setup: Setup, model: Model, live: Arc<Live>) -> Crew {
        let lanes = setup.lanes.max(1) as usize;
        let user = |supply| {
            let first = User {
                phase: Phase::Coming,
                supply: Some(supply),
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
                supply,
                lines_max,
            } => {
                let open = Open {
                    ends: arrivals.are_given(),
                    arrivals,
                    next: (0, Instant::ZERO),
                    dealt: Dealt::new(supply),
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
        }
    }

    /// What it measured until `now`.
    pub fn into_record(mut self, now: Instant) -> Record {
        self.pass_seconds(now.min(self.until()));
        for user in &mut self.users {
            parted(&mut user.stands, &mut self.ledger, now);
        }
        self.ledger.into_record()
    }

    /// Over which time it counted what was complete in time.
    pub fn counted(&self) -> Duration {
        self.ledger.counted()
    }

    /// Nothing is meant to begin from then on.
    fn until(&self) -> Instant {
        self.began + self.setup.duration
    }

    fn user(&mut self, line: u32) -> &mut User {
        &mut self.users[(line - FIRST) as usize]
    }

    /// Sets a user's alarm.
    fn wake(&mut self, line: u32, at: Instant, port: &mut Port) {
        self.user(line).alarm = at;
        port.wake(line, at);
    }

    /// Sees to it that a user is woken by `at`. An alarm that rings earlier stays: who fetches looks then how long
    /// nothing has come, so that not every request sets one.
    fn wake_by(&mut self, line: u32, at: Instant, port: &mut Port) {
        if at < self.user(line).alarm {
            self.wake(line, at, port);
        }
    }

    /// The alarm of a user.
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
                    self.lost(line, Trouble::Timeout, port, now);
                }
            }
            other => self.user(line).phase = other,
        }
    }

    /// The first line of the user that a line belongs to.
    fn head(&self, line: u32) -> u32 {
        line - (line - FIRST) % self.setup.lanes.max(1)
    }

    /// Closes all connections of the user whose first line this is.
    fn leave_all(&mut self, head: u32, port: &mut Port, now: Instant) {
        for lane in 0..self.setup.lanes.max(1) {
            self.leave(head + lane, port, now);
        }
    }

    /// Closes a line's connection, if it has one.
    fn leave(&mut self, line: u32, port: &mut Port, now: Instant) {
        let user = &mut self.users[(line - FIRST) as usize];
        if user.session.take().is_some() {
            parted(&mut user.stands, &mut self.ledger, now);
            port.close(line);
        }
    }

    /// What is to be fetched, with no parts yet.
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

    /// Notes what was under way when each second began that has begun since it was last asked.
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

    /// Begins an object: the one given, or the next of the user's own supply.
    fn begin(&mut self, line: u32, intended: Instant, given: Option<u32>, port: &mut Port, now: Instant) {
        if self.ending {
            return;
        }
        let mut fetch = self.fresh(intended, now);
        let work = &self.setup.work;
        let user = &mut self.users[(line - FIRST) as usize];
        let last = match (given, &mut user.supply) {
            (Some(object), _) => {
                whole(work, object, &mut fetch.parts);
                false
            }
            (None, Some(supply)) => match supply.next(work, &mut fetch.parts) {
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

    /// Asks for what the mode allows to be asked for now.
    fn ask(&mut self, line: u32, port: &mut Port, now: Instant) {
        let Setup {
            work, mode, ending, ..
        } = &self.setup;
        let User {
            phase,
            session,
            stands,
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
            Mode::Http10 | Mode::Serial => fetch.got + 1,
            Mode::Pipelined | Mode::EarlyClose if fetch.got == 0 && fetch.alone => 1,
            Mode::Pipelined | Mode::EarlyClose => fetch.parts.len(),
        };
        let room = OUTSTANDING_MAX - session.outstanding();
        let to = wanted.min(fetch.parts.len()).min(fetch.asked + room);
        if fetch.asked >= to {
            return;
        }
        // A file's time begins here unless it was asked for with the ones before it.
        if fetch.asked == fetch.got && fetch.first.is_none() {
            fetch.mark = now;
            fetch.sent = now;
        }
        let parts = &fetch.parts[fetch.asked..to];
        port.send(line, |out| {
            for part in parts {
                let refused = session.request(out, &work.files[part.file as usize].path, ending);
                debug_assert!(refused.is_ok(), "room was counted");
            }
        });
        fetch.asked = to;
    }

    /// Goes on after replies, or what there was of them.
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
                if fetch.tries > TRIES_MAX {
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
        // A reply under way goes on.
        if fetch.first.is_some() && session.is_some() {
            return;
        }
        let unanswered = fetch.asked - fetch.got;
        if mode == Mode::Http10 && session.is_some() && unanswered > 0 {
            return;
        }
        // Nothing more comes here: HTTP/1.0, or a server's last reply.
        if session.as_ref().is_some_and(|session| !session.is_persistent()) {
            let record = self.ledger.of(now);
            record.closed_by_server += u64::from(mode != Mode::Http10);
            record.resent += unanswered as u64;
            fetch.asked = fetch.got;
            *session = None;
            parted(stands, &mut self.ledger, now);
            port.close(line);
        }
        let off = match fetch.got.checked_sub(1) {
            Some(before) if fetch.asked == fetch.got => fetch.parts[before].off,
            _ => Duration::ZERO,
        };
        if off.is_zero() {
            self.ask(line, port, now);
            return;
        }
        // Once it has slept it must not sleep again for the same file.
        let before = fetch.got - 1;
        fetch.parts[before].off = Duration::ZERO;
        let user = self.user(line);
        if let Phase::Fetching(fetch) = core::mem::replace(&mut user.phase, Phase::Done) {
            user.phase = Phase::Pausing(fetch);
        }
        self.wake(line, now + off, port);
    }

    /// The connection is of no more use and the object is not complete.
    fn lost(&mut self, line: u32, trouble: Trouble, port: &mut Port, now: Instant) {
        port.close(line);
        let from = self.ledger.from();
        let user = &mut self.users[(line - FIRST) as usize];
        user.session = None;
        let stood = user.stands.is_some();
        parted(&mut user.stands, &mut self.ledger, now);
        let Phase::Fetching(fetch) = &mut user.phase else {
            return;
        };
        let took = now.since(fetch.mark);
        match trouble {
            // That the last of them ended is told.
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
        let hopeless = matches!(
            trouble,
            Trouble::Here | Trouble::Connect | Trouble::Unanswered | Trouble::Timeout | Trouble::Protocol
        );
        if hopeless || fetch.tries > TRIES_MAX {
            if let Some(part) = fetch.parts.get(fetch.got) {
                let file = &self.setup.work.files[part.file as usize];
                record.example(trouble, &file.path, [file.bytes, None], now, from);
            }
            let failed = (fetch.parts.len() - fetch.got) as u64;
            record.fail(failed, now.since(fetch.part_intended), now, from);
            // Its user would have slept for its OFF time in any case.
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

    /// What was to be fetched on this line is complete or given up; the user sleeps for its OFF time, `least` at the
    /// least, when the whole object is.
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
        // A page that never came names no files.
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

    /// Deals the files of a page out to the connections of its user, in turn.
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

    /// An object is complete or given up.
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
        // The bell may be as late as the rest.
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
        if let Some(open) = &mut self.open {
            self.users[(line - FIRST) as usize].phase = Phase::Free;
            match open.backlog.pop_front_if(|_| !late) {
                Some((at, object)) => self.begin(line, at, Some(object), port, now),
                None if open.backlog.is_empty() => open.free.push(line),
                // It is too late for those who wait, and nobody overtakes them.
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
    /// A line that nobody waits for.
    fn free() -> User {
        User {
            phase: Phase::Free,
            session: None,
            stands: None,
            supply: None,
            group: None,
            alarm: NEVER,
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

    /// The part under way is over; the time of the next begins.
    fn done(&mut self, now: Instant) {
        self.got += 1;
        self.first = None;
        self.received = 0;
        self.mark = now;
        self.sent = now;
        self.part_intended = now;
    }
}

/// A connection that stood stands no more.
fn parted(stands: &mut Option<Instant>, ledger: &mut Ledger, now: Instant) {
    if let Some(since) = stands.take() {
        ledger.parted(since, now);
    }
}

/// An object that is complete or given up, and how its user goes on.
struct Over {
    intended: Instant,
    /// Whether all of it came.
    complete: bool,
    /// Of its size, if that is known.
    decile: Option<usize>,
    /// How long the user is OFF after it.
    off: Duration,
    /// Whether the session ends with it.
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
    }

    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, now: Instant) {
        match (line, happened) {
            (BELL, _) => self.end(port, now),
            (CLOCK, _) => self.arrive(port, now),
            (TICK, Happened::Woken(at)) => self.tick(at, port, now),
            (TICK, _) => {}
            // Never asked for.
            (_, Happened::Inspected(_)) => {}
            (line, Happened::Woken(at)) => self.woken(line, at, port, now),
            (line, Happened::Connected) => {
                let record = self.ledger.of(now);
                record.connections += 1;
                record.established += 1;
                self.user(line).stands = Some(now);
                if let Phase::Fetching(fetch) = &mut self.users[(line - FIRST) as usize].phase
                    && let Some(opened) = fetch.opening.take()
                {
                    fetch.sent = now;
                    self.ledger.of(opened).connect.add(now.since(opened));
                }
            }
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
                    Failing::Open(_) => Trouble::Lost,
                };
                let user = &mut self.users[(line - FIRST) as usize];
                if matches!(user.phase, Phase::Fetching(_)) {
                    self.ledger.of(now).closed_by_server += u64::from(trouble == Trouble::Lost);
                    self.lost(line, trouble, port, now);
                } else {
                    // Nothing was owed on it.
                    user.session = None;
                    parted(&mut user.stands, &mut self.ledger, now);
                    self.ledger.of(now).closed_by_server += 1;
                }
            }
        }
    }

    fn stop(&mut self, port: &mut Port, now: Instant) {
        self.end(port, now);
    }
}

#[cfg(test)]
mod tests;
