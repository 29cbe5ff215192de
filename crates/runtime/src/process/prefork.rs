//! Worker processes: forks them, supervises them, and forwards the operator's signals.
//!
//! ```text
//!            fork             ready (SIGURG)
//!   VACANT ───────▶ STARTING ───────────────▶ RUNNING ◀──▶ busy, idle (seen on the board)
//!     ▲                 │ died                  │ died, or told to go
//!     └── soon, or after a pause that doubles ──┘
//! ```
//! Members are forked without exec: a fork has the validated configuration, even if its file has changed since, and
//! needs no file at all once privileges are dropped. Forking is safe because the founder never has a second thread
//! (checked before each fork). For that reason it serves nothing itself, and it fetches its signals instead of using
//! handlers, whose pipes its members would share.
//!
//! A member dies with its founder: the kernel sends it SIGTERM (`PR_SET_PDEATHSIG`). Otherwise only the founder
//! decides. A terminal sends SIGINT to all processes, and a service manager SIGTERM (`KillMode=control-group`). Acting
//! on these would count each stop twice and cut connections off. So members ignore SIGINT, and act on other signals
//! only as often as the board shows that the founder sent them. The number of idle members follows Apache 1.3
//! (`MinSpareServers`, `MaxSpareServers`), and so does the number of connections each serves; see `strategy`. What a
//! member does is not known here.

use crate::clock;
use crate::ledger::{Ledger, Shape};
use crate::roll::Roll;
use crate::shared::Words;
use crate::signal::{Signal, Signals};
use crate::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, kill_process};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Duration, Instant};

/// Signals fetched by the founder.
const FETCHED: [i32; 7] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCHLD,
    NEWS,
];
/// A member has news on the board. Nobody sends this signal by hand, and processes that do not expect it ignore it.
const NEWS: i32 = libc::SIGURG;
/// A member that lived this long did not die because of how it was started.
const SETTLED: Duration = Duration::from_secs(5);
/// The pause after the second death in a row; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Minimum interval between reports of deaths.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Interval between dismissals of spare members.
const RETIRE_EVERY: Duration = Duration::from_secs(1);
/// Maximum members dismissed at once. It starts at one and doubles each further time in a row. A family that suddenly
/// loses its load frees its memory within half a minute, and one whose load fluctuates is not forked anew.
const RETIRE_MAX: usize = 32;

/// Words of each member's part of the board.
const WORDS: usize = 8;
/// 0 until the member is ready, then 1.
const READY: usize = 0;
/// Open connections.
const OPEN: usize = 1;
/// Number of the last wish of the founder that the member has fulfilled.
const DONE: usize = 2;
/// How often the founder told this member to stop; in the founder's own part, how often it told all.
const STOPS: usize = 3;
/// In the founder's own part: 0 until another program serves in its place, then a [`Succession`].
const FOLLOWED: usize = 4;
/// If members have one connection each: whether it is idle, and since when (a word of a [`Roll`]).
const IDLE: usize = 5;
/// In the founder's own part, written by members: until which nanosecond a member wants another's idle connection to be
/// closed, because the connection limit is reached.
const ROOM_WANTED: usize = 6;
/// In the founder's own part, written by members: the nanosecond at which one last took a connection in.
const LAST_ENTERED: usize = 7;

/// The number of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Constant.
    Fixed(usize),
    /// Follows the load.
    Spare {
        /// Members at the start, and the minimum of idle ones while `max` allows more.
        min: usize,
        /// Maximum of idle members. Further ones are dismissed: one after a second, two after another, at most 32 at
        /// once.
        max_idle: usize,
        /// Maximum of all members.
        max: usize,
    },
}

impl Size {
    /// Maximum of members.
    pub fn max(self) -> usize {
        match self {
            Size::Fixed(count) => count,
            Size::Spare { max, .. } => max,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    Vacant,
    Taken { pid: Pid, since: Instant, leaving: bool },
}

/// What has become of the program that serves in place of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Succession {
    /// It serves.
    Serves = 1,
    /// It has died, and nobody serves.
    Died = 2,
    /// Another starts in its place.
    Expected = 3,
}

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A signal from the operator.
    Wanted(Signal),
    /// Members came, went, or changed the board.
    Changed,
    /// Nothing within the time given.
    Nothing,
}

/// The founder's side: forks and supervises members.
#[derive(Debug)]
pub struct Prefork {
    size: Size,
    board: Words,
    /// Memory shared by the members beside the board, one part each.
    common: Words,
    common_len: usize,
    /// The members' counters.
    ledger: Ledger,
    slots: Vec<Slot>,
    /// Deaths in a row of members that had not settled. Members that were alive when another died have the same cause,
    /// so they count once.
    deaths: u32,
    died_at: Option<Instant>,
    not_before: Instant,
    retire_at: Instant,
    /// How many members the next dismissal takes, if that many are spare.
    retire_count: usize,
    /// Readable while a signal waits.
    signals: OwnedFd,
    /// A further descriptor that ends a wait.
    also: Option<OwnedFd>,
    reported_at: Option<Instant>,
    /// Unreported deaths since `reported_at`, and the connections lost with them.
    unreported: (u64, u64),
    stopping: bool,
}

/// A member's side.
#[derive(Clone, Debug)]
pub struct Member {
    number: usize,
    board: Words,
    common: Words,
    ledger: Ledger,
    min_idle: usize,
    founder: Pid,
}

/// A member's driver reports through this.
#[derive(Debug)]
pub(crate) struct Seat(Member);

impl Prefork {
    /// Takes over the signals; forks nothing yet. From here on, this process must stay single-threaded. Each member
    /// gets a part of `common_len` words in a memory that all can read; it is zeroed when the member is gone. It also
    /// gets a part of a ledger of this shape, where its counts last.
    ///
    /// # Errors
    /// The system's, for memory and signals.
    pub fn new(size: Size, common_len: usize, counts: Shape) -> io::Result<Prefork> {
        sys::block(&FETCHED)?;
        let max = size.max();
        Ok(Prefork {
            size,
            // The last part is the founder's.
            board: Words::new((max + 1) * WORDS)?,
            common: Words::new(max * common_len)?,
            common_len,
            ledger: Ledger::new(max, counts)?,
            slots: vec![Slot::Vacant; max],
            deaths: 0,
            died_at: None,
            not_before: Instant::ZERO,
            retire_at: Instant::ZERO,
            retire_count: 1,
            signals: sys::signal_descriptor(&FETCHED)?,
            also: None,
            reported_at: None,
            unreported: (0, 0),
            stopping: false,
        })
    }

    /// Ends waits early when this is readable. Members do not inherit it.
    pub fn watch(&mut self, also: OwnedFd) {
        self.also = Some(also);
    }

    /// Drops what [`Prefork::watch`] was given.
    pub fn watch_nothing_else(&mut self) {
        self.also = None;
    }

    /// Runs `work` in a process of its own and returns its result. For work that needs threads, which this process must
    /// not have, or that may fail in ways that must not affect this process.
    ///
    /// # Errors
    /// The system's, or `UnexpectedEof` if the process did not finish.
    pub fn apart(&mut self, work: impl FnOnce() -> Vec<u8>) -> io::Result<Vec<u8>> {
        let (mut read, mut write) = io::pipe()?;
        let founder = rustix::process::getpid();
        let Some(pid) = sys::fork()? else {
            drop(read);
            // Other signals sent to all processes must not end it before it has reported.
            let _ = leave_with(founder).and_then(|()| sys::unblock(&[libc::SIGTERM]));
            // The end of the pipe ends the message, so its completeness must be verifiable.
            let mut told = work();
            told.push(b'.');
            let _ = write.write_all(&told);
            std::process::exit(0);
        };
        drop(write);
        let mut told = Vec::new();
        read.read_to_end(&mut told)?;
        rustix::process::waitpid(Some(pid), WaitOptions::empty())?;
        match told.pop() {
            Some(b'.') => Ok(told),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Forks missing members when their time has come, and dismisses spare ones. `life` is what a member does; its
    /// result is the exit code. It runs in the fork only and has copies of all this process's values. It must drop what
    /// it must not keep (a listener that is to close when it drains).
    ///
    /// # Errors
    /// The system's, if it cannot fork and there is no member at all.
    pub fn tend(&mut self, life: &mut dyn FnMut(Member) -> i32) -> io::Result<()> {
        if self.stopping {
            return Ok(());
        }
        let now = clock::now();
        let mut lacking = self.lacking();
        for number in 0..self.slots.len() {
            if lacking == 0 || now < self.not_before {
                break;
            }
            if !matches!(self.slots[number], Slot::Vacant) {
                continue;
            }
            lacking -= 1;
            if let Err(error) = self.fork(number, now, life) {
                self.pause(now);
                if self.members().next().is_none() {
                    return Err(error);
                }
                tracing::error!("cannot fork another worker process: {error}");
            }
        }
        self.retire(now);
        Ok(())
    }

    fn fork(&mut self, number: usize, now: Instant, life: &mut dyn FnMut(Member) -> i32) -> io::Result<()> {
        let board = self.board.part(number, WORDS);
        board.clear();
        self.common.part(number, self.common_len).clear();
        board.get()[DONE].store(wish(&self.board), Ordering::Relaxed);
        let member = Member {
            number,
            board: self.board.clone(),
            common: self.common.clone(),
            ledger: self.ledger.clone(),
            min_idle: match self.size {
                Size::Fixed(_) => 0,
                Size::Spare { min, .. } => min,
            },
            founder: rustix::process::getpid(),
        };
        // Buffered output must be written once, not by each fork.
        let _ = (io::stdout().flush(), io::stderr().flush());
        match sys::fork()? {
            Some(pid) => {
                self.slots[number] = Slot::Taken {
                    pid,
                    since: now,
                    leaving: false,
                };
                Ok(())
            }
            None => {
                self.also = None;
                let code = match leave_with(member.founder) {
                    Ok(()) => life(member),
                    Err(_) => 1,
                };
                std::process::exit(code);
            }
        }
    }

    /// Number of members to fork.
    fn lacking(&self) -> usize {
        let taken = self.members().count();
        match self.size {
            Size::Fixed(count) => count - taken.min(count),
            Size::Spare { min, max, .. } => min.saturating_sub(self.idle()).min(max - taken.min(max)),
        }
    }

    /// Members that can take a connection now or soon.
    fn idle(&self) -> usize {
        let idle = |number: &usize| {
            let staying = matches!(self.slots[*number], Slot::Taken { leaving: false, .. });
            staying && self.word(*number, OPEN) == 0
        };
        (0..self.slots.len()).filter(idle).count()
    }

    /// Dismisses spare members.
    fn retire(&mut self, now: Instant) {
        for number in self.spare(now) {
            if let Slot::Taken { leaving, .. } = &mut self.slots[number] {
                *leaving = true;
            }
            self.tell(number, Signal::Stop);
        }
    }

    /// The members to dismiss now, because too many are idle.
    fn spare(&mut self, now: Instant) -> Vec<usize> {
        let Size::Spare { max_idle, .. } = self.size else {
            return Vec::new();
        };
        let spare = self.idle().saturating_sub(max_idle);
        if spare == 0 {
            self.retire_count = 1;
        }
        if now < self.retire_at || spare == 0 {
            return Vec::new();
        }
        let leave = (0..self.slots.len())
            .rev()
            .filter(|number| matches!(self.slots[*number], Slot::Taken { leaving: false, .. }))
            .filter(|number| self.word(*number, OPEN) == 0)
            .take(self.retire_count.min(spare))
            .collect();
        self.retire_at = now + RETIRE_EVERY;
        self.retire_count = (self.retire_count * 2).min(RETIRE_MAX);
        leave
    }

    /// Waits for an event, at most this long.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&mut self, at_most: Option<Duration>) -> io::Result<News> {
        let now = clock::now();
        self.report_the_rest(now);
        // The wait must end when a postponed fork or dismissal is due.
        let due = match self.size {
            _ if self.stopping => None,
            _ if self.lacking() > 0 => Some(self.not_before.since(now)),
            Size::Spare { max_idle, .. } if self.idle() > max_idle => Some(self.retire_at.since(now)),
            // Members do not announce that they become idle.
            Size::Spare { max_idle, .. } if self.members().count() > max_idle => Some(RETIRE_EVERY),
            _ => None,
        };
        let report = self.to_report_at().map(|at| at.since(now));
        let span = [at_most, due, report].into_iter().flatten().min();
        let Some(number) = self.next_signal(span)? else {
            return Ok(if span == at_most && !self.is_asked() {
                News::Nothing
            } else {
                News::Changed
            });
        };
        Ok(match number {
            libc::SIGTERM | libc::SIGINT => News::Wanted(Signal::Stop),
            libc::SIGHUP => News::Wanted(Signal::Reload),
            libc::SIGUSR1 => News::Wanted(Signal::ReopenLogs),
            libc::SIGUSR2 => News::Wanted(Signal::Upgrade),
            libc::SIGCHLD => {
                self.reap()?;
                News::Changed
            }
            _ => News::Changed,
        })
    }

    /// The next signal, after at most this long; the watched descriptor ends the wait, too.
    fn next_signal(&self, at_most: Option<Duration>) -> io::Result<Option<i32>> {
        let Some(also) = &self.also else {
            return sys::next_signal(&FETCHED, at_most);
        };
        let timeout = at_most.map(|span| Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        let waiting = &mut [&self.signals, also].map(|one| PollFd::new(one, PollFlags::IN));
        match poll(waiting, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => sys::next_signal(&FETCHED, Some(Duration::ZERO)),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the watched descriptor is readable.
    fn is_asked(&self) -> bool {
        let is_readable = |also: &OwnedFd| {
            let mut waiting = [PollFd::new(also, PollFlags::IN)];
            poll(&mut waiting, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        };
        self.also.as_ref().is_some_and(is_readable)
    }

    /// Reaps dead members, and leaves other children alone.
    fn reap(&mut self) -> io::Result<()> {
        for number in 0..self.slots.len() {
            let Slot::Taken { pid, since, leaving } = self.slots[number] else {
                continue;
            };
            let status = match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
                Ok(None) => continue,
                Ok(Some((_, status))) => Some(status),
                Err(rustix::io::Errno::CHILD) => None,
                Err(errno) => return Err(errno.into()),
            };
            self.slots[number] = Slot::Vacant;
            let open = self.word(number, OPEN);
            self.board.part(number, WORDS).clear();
            self.common.part(number, self.common_len).clear();
            self.ledger.close(number);
            if leaving || self.stopping {
                continue;
            }
            let now = clock::now();
            let how = match status {
                Some(status) if status.signaled() => {
                    format!(
                        "was killed by signal {}",
                        status.terminating_signal().unwrap_or(0)
                    )
                }
                Some(status) => format!("ended with exit code {}", status.exit_status().unwrap_or(0)),
                None => "ended".to_owned(),
            };
            self.died(since, now);
            self.report(pid, &how, open, now);
        }
        Ok(())
    }

    /// Notes the death of a member started at `since`.
    fn died(&mut self, since: Instant, now: Instant) {
        if self.died_at.is_some_and(|last| since <= last) {
            return;
        }
        self.died_at = Some(now);
        if now.since(since) >= SETTLED {
            self.deaths = 0;
        }
        self.pause(now);
    }

    /// Delays the next fork, longer the more members died in a row.
    fn pause(&mut self, now: Instant) {
        let doublings = self.deaths.saturating_sub(1).min(10);
        let span = match self.deaths {
            0 => Duration::ZERO,
            _ => (PAUSE * (1 << doublings)).min(PAUSE_MAX),
        };
        self.deaths = self.deaths.saturating_add(1);
        self.not_before = now + span;
    }

    fn report(&mut self, pid: Pid, how: &str, open: u64, now: Instant) {
        if self.reported_at.is_some_and(|at| now.since(at) < REPORT_EVERY) {
            self.unreported.0 += 1;
            self.unreported.1 += open;
            return;
        }
        self.reported_at = Some(now);
        let pause = self.not_before.since(now);
        tracing::error!(
            pid = pid.as_raw_nonzero().get(),
            connections = open,
            "worker process {} {how}: its {open} connections are lost; starting another{}",
            pid.as_raw_nonzero(),
            if pause.is_zero() {
                String::new()
            } else {
                format!(" in {pause:?}")
            },
        );
    }

    /// When to report deaths that no line has reported.
    fn to_report_at(&self) -> Option<Instant> {
        self.reported_at
            .filter(|_| self.unreported.0 > 0)
            .map(|at| at + REPORT_EVERY)
    }

    fn report_the_rest(&mut self, now: Instant) {
        if self.to_report_at().is_none_or(|at| now < at) {
            return;
        }
        self.reported_at = Some(now);
        let (count, open) = std::mem::take(&mut self.unreported);
        tracing::error!(
            count,
            connections = open,
            "more worker processes died since the last report, {count} in all: {open} connections are lost"
        );
    }

    /// Signals all members; [`Prefork::have_done`] tells when all have reloaded. Members forked from now on are not
    /// signaled: they start with this process's state. [`Signal::Upgrade`] tells them that another program has taken
    /// over; no further member is forked then.
    pub fn ask(&mut self, what: Signal) {
        if what == Signal::Stop {
            self.stopping = true;
            founders(&self.board)[STOPS].fetch_add(1, Ordering::Relaxed);
        }
        if what == Signal::Upgrade {
            self.stopping = true;
            self.note(Succession::Serves);
        }
        if what == Signal::Reload {
            wish_word(&self.board).fetch_add(1, Ordering::Relaxed);
        }
        for number in self.numbers() {
            self.tell(number, what);
        }
    }

    /// Tells all members, which know that another program has taken over, what has become of that.
    pub fn tell_of(&mut self, succession: Succession) {
        self.note(succession);
        for number in self.numbers() {
            self.tell(number, Signal::Upgrade);
        }
    }

    fn note(&self, succession: Succession) {
        founders(&self.board)[FOLLOWED].store(succession as u64, Ordering::Release);
    }

    fn tell(&self, number: usize, what: Signal) {
        let Slot::Taken { pid, .. } = self.slots[number] else {
            return;
        };
        let signal = match what {
            Signal::Stop => {
                self.board.get()[number * WORDS + STOPS].fetch_add(1, Ordering::Relaxed);
                rustix::process::Signal::TERM
            }
            Signal::Reload => rustix::process::Signal::HUP,
            Signal::ReopenLogs => rustix::process::Signal::USR1,
            Signal::Upgrade => rustix::process::Signal::USR2,
        };
        // Fails only for a member that has already ended.
        let _ = kill_process(pid, signal);
    }

    /// Whether all members have reloaded as often as they were asked to.
    pub fn have_done(&self) -> bool {
        let wish = wish(&self.board);
        self.numbers().all(|number| self.word(number, DONE) >= wish)
    }

    /// Deaths in a row of members that had not lived long.
    pub fn deaths_in_a_row(&self) -> u32 {
        self.deaths
    }

    /// Whether all members are ready.
    pub fn are_ready(&self) -> bool {
        self.members().next().is_some() && self.numbers().all(|number| self.word(number, READY) > 0)
    }

    /// Kills the remaining members.
    pub fn kill(&mut self) {
        self.stopping = true;
        for pid in self.members() {
            // Fails only for a member that has already ended.
            let _ = kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// The processes of the members.
    pub fn members(&self) -> impl Iterator<Item = Pid> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Taken { pid, .. } => Some(*pid),
            Slot::Vacant => None,
        })
    }

    /// The counters of all members.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Process IDs of the members.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.members()
            .map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Numbers of the occupied slots.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        let taken = |number: &usize| matches!(self.slots[*number], Slot::Taken { .. });
        (0..self.slots.len()).filter(taken)
    }

    /// Connections open in all members.
    pub fn open(&self) -> u64 {
        (0..self.slots.len()).map(|number| self.word(number, OPEN)).sum()
    }

    fn word(&self, number: usize, word: usize) -> u64 {
        self.board.get()[number * WORDS + word].load(Ordering::Relaxed)
    }
}

impl Member {
    /// Its number among the members, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Memory that all members can read; this member writes only the part with its own number.
    pub fn common(&self) -> &Words {
        &self.common
    }

    /// Counters of all members; this member writes only the part with its own number.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The founder's requests, as signals; those sent since the fork come first.
    ///
    /// # Errors
    /// The system's, for pipes and handlers.
    pub fn signals(&self) -> io::Result<Signals> {
        let (member, mut stops) = (self.clone(), 0);
        Signals::take_over_from_founder(move |signal| member.heeds(signal, &mut stops))
    }

    /// Whether this signal came from the founder; `stops` counts the stops already seen.
    fn heeds(&self, signal: Signal, stops: &mut u64) -> bool {
        let is_orphan = self.is_orphan();
        match signal {
            Signal::Stop if self.own()[STOPS].load(Ordering::Relaxed) > *stops => {
                *stops += 1;
                true
            }
            Signal::Stop => is_orphan,
            Signal::Reload => self.own()[DONE].load(Ordering::Relaxed) < self.wish(),
            Signal::ReopenLogs => true,
            Signal::Upgrade => founders(&self.board)[FOLLOWED].load(Ordering::Relaxed) > 0,
        }
    }

    /// What has become of the program that serves in place of this one; `None` if there is none.
    pub fn succession(&self) -> Option<Succession> {
        match founders(&self.board)[FOLLOWED].load(Ordering::Acquire) {
            1 => Some(Succession::Serves),
            2 => Some(Succession::Died),
            3 => Some(Succession::Expected),
            _ => None,
        }
    }

    /// Whether the founder is dead.
    pub fn is_orphan(&self) -> bool {
        rustix::process::getppid() != Some(self.founder)
    }

    /// Reports that this member serves.
    pub fn is_ready(&self) {
        self.own()[READY].store(1, Ordering::Relaxed);
        self.news();
    }

    /// The number of the founder's last wish; read it before fulfilling the wish.
    pub fn wish(&self) -> u64 {
        wish(&self.board)
    }

    /// Whether all members are to stop, and not only this one.
    pub fn are_all_leaving(&self) -> bool {
        founders(&self.board)[STOPS].load(Ordering::Relaxed) > 0
    }

    /// Reports that this wish is fulfilled.
    pub fn has_done(&self, wish: u64) {
        self.own()[DONE].store(wish, Ordering::Relaxed);
        self.news();
    }

    pub(crate) fn seat(&self) -> Seat {
        Seat(self.clone())
    }

    fn own(&self) -> &[AtomicU64] {
        &self.board.get()[self.number * WORDS..][..WORDS]
    }

    fn news(&self) {
        // Otherwise the founder is dead, and its PID may belong to another process.
        if rustix::process::getppid() == Some(self.founder) {
            let _ = kill_process(self.founder, rustix::process::Signal::URG);
        }
    }

    /// Ready members without a connection, except this one.
    fn idle_others(&self) -> usize {
        let parts = self.board.get().chunks_exact(WORDS).enumerate();
        let idle = |part: &[AtomicU64]| {
            part[READY].load(Ordering::Relaxed) > 0 && part[OPEN].load(Ordering::Relaxed) == 0
        };
        // The last part is the founder's, which is never ready.
        parts
            .filter(|(number, part)| *number != self.number && idle(part))
            .count()
    }
}

impl Seat {
    /// Asks all members to close an idle connection until then; 0 withdraws the request.
    pub(crate) fn want_room(&self, until: u64) {
        let word = &founders(&self.0.board)[ROOM_WANTED];
        if word.load(Ordering::Relaxed) != until {
            word.store(until, Ordering::Relaxed);
        }
    }

    /// Until when a member asks for that; 0 if none does.
    #[inline]
    pub(crate) fn room_wanted(&self) -> u64 {
        founders(&self.0.board)[ROOM_WANTED].load(Ordering::Relaxed)
    }

    /// Tells all members that a connection was taken in at this nanosecond.
    pub(crate) fn entered(&self, now: u64) {
        founders(&self.0.board)[LAST_ENTERED].store(now, Ordering::Relaxed);
    }

    /// When a member last took a connection in; 0 if none did yet.
    pub(crate) fn last_entered(&self) -> u64 {
        founders(&self.0.board)[LAST_ENTERED].load(Ordering::Relaxed)
    }

    /// The members' idle connections, if they have one connection each.
    pub(crate) fn roll(&self) -> Roll {
        let Seat(member) = self;
        let count = member.board.get().len() / WORDS - 1;
        Roll::on(member.board.tail(IDLE), WORDS, count, member.number)
    }

    /// Publishes this member's open connections, and notifies the founder if few members without a connection are left.
    pub(crate) fn tell_open(&self, open: usize) {
        let Seat(member) = self;
        member.own()[OPEN].store(open as u64, Ordering::Relaxed);
        if open == 1 && member.min_idle > 0 && member.idle_others() < member.min_idle {
            member.news();
        }
    }
}

/// The founder's part of the board.
fn founders(board: &Words) -> &[AtomicU64] {
    &board.get()[board.get().len() - WORDS..]
}

fn wish_word(board: &Words) -> &AtomicU64 {
    &founders(board)[DONE]
}

fn wish(board: &Words) -> u64 {
    wish_word(board).load(Ordering::Relaxed)
}

/// Makes a fork end with its founder.
fn leave_with(founder: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    // The founder may have died before that was set.
    match rustix::process::getppid() == Some(founder) {
        true => Ok(()),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPARE: Size = Size::Spare {
        min: 5,
        max_idle: 10,
        max: 12,
    };

    /// One with this many members that are not processes; `busy` of them have a connection.
    fn prefork(size: Size, members: usize, busy: usize) -> Prefork {
        let mut prefork = Prefork::new(size, 1, Shape { len: 1, lasting: 1 }).unwrap();
        for number in 0..members {
            prefork.slots[number] = Slot::Taken {
                pid: rustix::process::getpid(),
                since: Instant::ZERO,
                leaving: false,
            };
            let own = &prefork.board.get()[number * WORDS..];
            own[READY].store(1, Ordering::Relaxed);
            own[OPEN].store(u64::from(number < busy), Ordering::Relaxed);
        }
        prefork
    }

    #[test]
    fn as_many_are_lacking_as_the_load_asks_for() {
        let lacking = |size, members, busy| prefork(size, members, busy).lacking();
        assert_eq!(lacking(Size::Fixed(3), 0, 0), 3);
        assert_eq!(lacking(Size::Fixed(3), 2, 2), 1);
        assert_eq!((lacking(SPARE, 0, 0), lacking(SPARE, 5, 0)), (5, 0));
        assert_eq!((lacking(SPARE, 5, 3), lacking(SPARE, 8, 7)), (3, 4));
        // Never more than the maximum.
        assert_eq!((lacking(SPARE, 10, 10), lacking(SPARE, 12, 12)), (2, 0));
    }

    #[test]
    fn spare_members_leave_faster_and_faster() {
        let size = Size::Spare {
            min: 5,
            max_idle: 10,
            max: 200,
        };
        let mut prefork = prefork(size, 200, 100);
        let leave = |prefork: &mut Prefork, now| {
            let left = prefork.spare(now);
            for number in &left {
                prefork.slots[*number] = Slot::Vacant;
            }
            left.len()
        };
        let mut now = clock::now();
        let mut after = |prefork: &mut Prefork| {
            now = now + RETIRE_EVERY;
            let left = leave(prefork, now);
            assert_eq!(leave(prefork, now), 0, "again after a second");
            left
        };
        let left: Vec<usize> = (0..8).map(|_| after(&mut prefork)).collect();
        assert_eq!(
            left,
            [1, 2, 4, 8, 16, 32, 27, 0],
            "ten stay idle, and whoever serves"
        );
        // A fluctuating load costs one dismissal at a time.
        prefork.board.get()[WORDS + OPEN].store(0, Ordering::Relaxed);
        prefork.board.get()[2 * WORDS + OPEN].store(0, Ordering::Relaxed);
        assert_eq!(
            [after(&mut prefork), after(&mut prefork), after(&mut prefork)],
            [1, 1, 0]
        );
    }

    #[test]
    fn deaths_in_a_row_are_answered_slower_and_slower() {
        let mut prefork = prefork(Size::Fixed(1), 0, 0);
        let now = clock::now();
        let pauses: Vec<u64> = (0..12)
            .map(|_| {
                prefork.pause(now);
                prefork.not_before.since(now).as_millis() as u64
            })
            .collect();
        assert_eq!(
            pauses,
            [
                0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000, 10_000
            ]
        );
    }

    #[test]
    fn many_deaths_at_once_are_one() {
        let mut prefork = prefork(Size::Fixed(8), 0, 0);
        let (born, at) = (clock::now(), clock::now() + SETTLED * 2);
        for late in 0..8 {
            prefork.died(born, at + Duration::from_millis(late));
        }
        assert_eq!(
            (prefork.deaths, prefork.not_before),
            (1, at),
            "all are replaced at once"
        );
        // The death of replacements counts separately.
        let soon = at + Duration::from_millis(20);
        prefork.died(at + Duration::from_millis(10), soon);
        assert_eq!((prefork.deaths, prefork.not_before), (2, soon + PAUSE));
    }

    #[test]
    fn a_wish_is_done_when_the_last_has_done_it() {
        let mut prefork = prefork(Size::Fixed(2), 0, 0);
        assert!(prefork.have_done() && !prefork.are_ready());
        let member = |number| Member {
            number,
            board: prefork.board.clone(),
            common: prefork.common.clone(),
            ledger: prefork.ledger.clone(),
            min_idle: 0,
            founder: Pid::INIT,
        };
        let members = [member(0), member(1)];
        prefork.ask(Signal::Reload);
        for number in 0..2 {
            prefork.slots[number] = Slot::Taken {
                pid: rustix::process::getpid(),
                since: Instant::ZERO,
                leaving: false,
            };
        }
        for member in &members {
            assert!(!prefork.have_done());
            assert!(member.heeds(Signal::Reload, &mut 0));
            member.has_done(member.wish());
            assert!(!member.heeds(Signal::Reload, &mut 0), "nobody asked again");
        }
        assert!(prefork.have_done());
    }

    #[test]
    fn a_member_heeds_as_many_stops_as_its_founder_sent() {
        let prefork = prefork(Size::Fixed(1), 1, 0);
        let founder = rustix::process::getppid().unwrap();
        let member = |founder| Member {
            number: 0,
            board: prefork.board.clone(),
            common: prefork.common.clone(),
            ledger: prefork.ledger.clone(),
            min_idle: 0,
            founder,
        };
        let mut stops = 0;
        let told = &prefork.board.get()[STOPS];
        let mut heeds = |founder| member(founder).heeds(Signal::Stop, &mut stops);
        assert!(!heeds(founder), "it was somebody else");
        told.store(1, Ordering::Relaxed);
        assert!(heeds(founder) && !heeds(founder));
        told.store(2, Ordering::Relaxed);
        assert!(heeds(founder) && !heeds(founder));
        assert!(heeds(rustix::process::getpid()), "its founder is gone");
    }

    #[test]
    fn a_process_with_threads_is_not_copied() {
        // The test runner has one thread for itself and one for this test.
        let error = sys::fork().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }
}
