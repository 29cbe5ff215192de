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
mod asking;
mod carrier;
mod failure;
mod hearing;
mod objects;
mod scripted;
mod settings;
mod ticking;
mod user;

use crate::deferred::Timing;
use crate::ledger::Ledger;
use crate::record::{Record, Trouble};
use crate::request_source::Dealt;
use arriving::Open;
pub use carrier::Sharing;
use carrier::{Carrier, Ended};
use client::multiplexed::Arrived;
use client::session::Memory;
use hearing::Came;
use runtime::dial::{self, Failing, Happened, Port, Security};
pub use settings::{Live, Model, Setup};
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Duration, Instant};
use user::{Fetch, Phase, User};

/// Lost connections after which a file is given up.
const TRIES_MAX: u8 = 3;
/// Minimum pause of a user after giving up a file, so that clients do not flood a dead server.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

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
        let ledger = Ledger::prepared(!setup.warmup.is_zero(), setup.secured);
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
            ledger,
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
                self.ledger.of(at).time(Timing::Lag, now.since(at));
                self.begin(line, at, None, port, now);
            }
            Phase::Waiting { leave } => {
                if leave {
                    self.leave_all(line, port, now);
                }
                self.ledger.of(at).time(Timing::Lag, now.since(at));
                self.begin(line, at, None, port, now);
            }
            Phase::Pausing(mut fetch) => {
                fetch.part_intended = at;
                fetch.progress = now;
                self.ledger.of(at).time(Timing::Lag, now.since(at));
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
