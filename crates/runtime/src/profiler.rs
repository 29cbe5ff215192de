//! Every system call of other processes while it happens, and when their threads ran: what a profile is made of.
//!
//! ```text
//!   tracepoints raw_syscalls:sys_enter, sys_exit and context switches ─▶ a ring a processor ─▶ in order of time ─▶ events
//!   else ptrace: each thread stops twice a call ──────────────────────────────────────────────────────────────▶ events
//! ```
//! Tracepoints cost the one who is watched about a microsecond a call, or several, and need rights; ptrace needs fewer and
//! costs several times that. What it costs here is tried on copies of this process each time ([`Seen::cost`]).
//! Decides whom to watch (a process with all its threads, its descendants, and what they make from now on), by which
//! means, for how long; refuses to know what a call is for.

mod calls;
mod ptrace;
mod record;
mod tasks;
mod tracepoints;
mod trial;

use crate::{clock, sys};
pub use calls::name;
use measure::{Duration, Instant};
use std::ffi::OsString;
use std::fmt;
use std::io;

const SIGCHLD: i32 = libc::SIGCHLD;
/// What ends a profile early.
const ENDS: [i32; 2] = [libc::SIGINT, libc::SIGTERM];
/// How long a command that was asked to end may take.
const GRACE: Duration = Duration::from_secs(2);
/// Between two looks; the rings hold several times what a busy machine writes in it.
const TURN: Duration = Duration::from_millis(5);

/// How calls are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The kernel writes them down.
    Tracepoints,
    /// Threads are stopped at each.
    Ptrace,
}

impl Means {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Means::Tracepoints => "tracepoints",
            Means::Ptrace => "ptrace",
        }
    }
}

/// Whom to watch.
#[derive(Clone, Debug)]
pub enum Target {
    /// A process that runs, and its descendants.
    Process(u32),
    /// A command, from its first call on.
    Command(Vec<OsString>),
}

/// Something that happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// When, on the clock of [`clock::now`].
    pub at: Instant,
    /// How long it has run on a processor in all, where that is looked at.
    pub ran: Option<Duration>,
    /// What.
    pub what: What,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It enters a system call.
    Enter {
        /// The call's number.
        call: u64,
        /// Its first two arguments.
        arguments: [u64; 2],
    },
    /// It leaves the call it was in.
    Exit {
        /// The result; below zero an errno.
        result: i64,
    },
    /// It got a processor.
    On,
    /// It left its processor.
    Off {
        /// Because another one was to have it: it could have gone on.
        preempted: bool,
    },
    /// It ended.
    Gone,
}

/// What was seen, besides the events.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Where all events lie between.
    pub start: Instant,
    /// The other end.
    pub end: Instant,
    /// How they were seen.
    pub means: Means,
    /// Why not by tracepoints, if not because ptrace was asked for.
    pub refused: Option<String>,
    /// Records the kernel had no room for: what was counted is then too little.
    pub lost: u64,
    /// What seeing one call costs the one who makes it; none where trying it failed.
    pub cost: Option<Price>,
    /// Processor time this process used meanwhile, which the watched one did not have.
    pub own: Duration,
    /// Processes and threads that were watched from the beginning.
    pub watched: (usize, usize),
    /// Those the system lets nobody watch; nothing of them is counted.
    pub unwatched: Option<Unwatched>,
    /// How long threads that could run waited for a processor; none by ptrace, which makes them wait itself.
    pub queued: Option<Duration>,
    /// How the command ended, 128 and the signal if by one.
    pub code: Option<i32>,
    /// Whether SIGINT or SIGTERM ended it.
    pub is_interrupted: bool,
}

/// Threads that were there and could not be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwatched {
    /// The processes that have such threads, each once.
    pub processes: Vec<u32>,
    /// How many threads.
    pub threads: usize,
    /// What the system said of the first.
    pub why: String,
}

/// Processor time that seeing one call costs the one who makes it, of several trials on copies of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// The middle one.
    pub middle: Duration,
    /// The least.
    pub lowest: Duration,
    /// The most.
    pub highest: Duration,
    /// How many there were.
    pub trials: usize,
}

impl Price {
    /// Whether the trials say what it is: they are no further apart than it is large.
    pub fn is_known(&self) -> bool {
        !self.lowest.is_zero() && self.highest.saturating_sub(self.lowest) <= self.middle
    }
}

/// Why there is no profile.
#[derive(Debug)]
pub enum Fault {
    /// There is no such process.
    NoProcess(u32),
    /// The command cannot be started.
    Command(String, io::Error),
    /// The system refuses both means; for each why.
    Refused(Vec<(Means, io::Error)>),
    /// Something else the system refuses.
    System(&'static str, io::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoProcess(pid) => write!(f, "there is no process {pid}"),
            Fault::Command(name, error) => write!(f, "`{name}`: {error}"),
            Fault::System(what, error) => write!(f, "{what}: {error}"),
            Fault::Refused(whys) => {
                for (place, (means, error)) in whys.iter().enumerate() {
                    let between = if place > 0 { "; " } else { "" };
                    write!(f, "{between}{}: {error}", means.name())?;
                }
                write!(
                    f,
                    "; run as root, or see `weir lab doctor` for perf tracepoints and ptrace"
                )
            }
        }
    }
}

impl std::error::Error for Fault {}

/// A way of seeing.
trait Tracer {
    /// Waits at the most this long and hands over what happened; whether one of [`ENDS`] came.
    fn turn(&mut self, patience: Duration, take: &mut dyn FnMut(Event)) -> io::Result<bool>;
    /// Looks away, and hands over what is left.
    fn finish(self: Box<Self>, take: &mut dyn FnMut(Event)) -> io::Result<u64>;
    /// How this process ended, if it has and this is who learns it.
    fn ended(&self, process: u32) -> Option<i32>;
    /// Whether ends and stops of children are told to this alone: nobody else may wait for them then.
    fn waits(&self) -> bool;
}

/// Watches until the target ends, this long has passed, or SIGINT or SIGTERM came. Each event is handed over; those of
/// one thread are in order of time. `started` is called when the watching has begun, with its instant, and `is_over` at each
/// turn after that: it ends the watching as well. Only for a process of one thread.
///
/// # Errors
/// There is nothing to watch, or the system lets nobody watch it.
pub fn watch(
    target: &Target,
    means: Option<Means>,
    at_most: Option<Duration>,
    started: impl FnOnce(Instant),
    is_over: &mut dyn FnMut() -> bool,
    take: &mut dyn FnMut(Event),
) -> Result<Seen, Fault> {
    let system = |what| move |error| Fault::System(what, error);
    crate::machine::raise_descriptor_limit();
    sys::block(&[ENDS[0], ENDS[1], SIGCHLD]).map_err(system("signals"))?;
    let mut command = None;
    let process = match target {
        Target::Process(pid) => *pid,
        Target::Command(words) => {
            let made = trial::Command::prepare(words).map_err(system("fork"))?;
            command.insert(made).pid()
        }
    };
    let (processes, threads) = tasks::below(process);
    if threads.is_empty() {
        return Err(Fault::NoProcess(process));
    }
    let mut whys = Vec::new();
    let mut chosen = None;
    for means in means.map_or(vec![Means::Tracepoints, Means::Ptrace], |means| vec![means]) {
        match attach(means, &threads) {
            Ok((tracer, refusals)) => {
                chosen = Some((means, tracer, refusals));
                break;
            }
            Err(error) => whys.push((means, error)),
        }
    }
    let Some((means, mut tracer, refusals)) = chosen else {
        return Err(Fault::Refused(whys));
    };
    let watched = tasks::owners(
        threads
            .iter()
            .copied()
            .filter(|thread| !refusals.threads.contains(thread)),
    );
    let unwatched = refusals.error.map(|error| Unwatched {
        processes: tasks::owners(refusals.threads.iter().copied()),
        threads: refusals.threads.len(),
        why: error.to_string(),
    });
    let before = tasks::queued(&processes);
    let start = clock::now();
    let cpu = clock::thread_cpu();
    started(start);
    if let Some(command) = &mut command {
        command
            .go()
            .map_err(|error| Fault::Command(trial::shown(target), error))?;
    }
    let until = Until {
        at: at_most.map(|span| start + span),
        is_over,
    };
    let (code, is_interrupted) =
        follow(&mut *tracer, process, command.as_ref(), until, take).map_err(system("watching"))?;
    if let (Some(command), Some(code)) = (&command, code) {
        command.has_ended(code);
    }
    let end = clock::now();
    let queued = tasks::queued(&tasks::below(process).0).saturating_sub(before);
    let lost = tracer.finish(take).map_err(system("watching"))?;
    let own = clock::thread_cpu().saturating_sub(cpu);
    if let Some(error) = command.as_mut().and_then(trial::Command::refusal) {
        return Err(Fault::Command(trial::shown(target), error));
    }
    Ok(Seen {
        start,
        end,
        means,
        refused: whys.first().map(|(_, error)| error.to_string()),
        lost,
        cost: trial::price(means).ok(),
        own,
        watched: (watched.len(), threads.len() - refusals.threads.len()),
        unwatched,
        queued: (means == Means::Tracepoints).then_some(queued),
        code,
        is_interrupted,
    })
}

/// Threads that a means was refused to watch, though it may watch others.
#[derive(Debug, Default)]
struct Refusals {
    threads: Vec<u32>,
    error: Option<io::Error>,
}

/// Where all threads are refused, that is an error.
fn attach(means: Means, threads: &[u32]) -> io::Result<(Box<dyn Tracer>, Refusals)> {
    Ok(match means {
        Means::Tracepoints => (
            Box::new(tracepoints::Tracepoints::attach(threads)?),
            Refusals::default(),
        ),
        Means::Ptrace => {
            let (tracer, refusals) = ptrace::Ptrace::attach(threads)?;
            (Box::new(tracer), refusals)
        }
    })
}

/// What ends the watching besides the end of who is watched.
struct Until<'a> {
    at: Option<Instant>,
    is_over: &'a mut dyn FnMut() -> bool,
}

/// Until the end; how the command ended, if it did, and whether a signal was the reason.
fn follow(
    tracer: &mut dyn Tracer,
    process: u32,
    command: Option<&trial::Command>,
    until: Until<'_>,
    take: &mut dyn FnMut(Event),
) -> io::Result<(Option<i32>, bool)> {
    let mut deadline = until.at;
    let mut asked = false;
    let mut was_interrupted = false;
    loop {
        let now = clock::now();
        let patience = deadline.map_or(TURN, |deadline| deadline.since(now)).min(TURN);
        let interrupted = tracer.turn(patience, take)?;
        was_interrupted |= interrupted;
        let ended = |tracer: &dyn Tracer| match command {
            Some(command) if !tracer.waits() => command.ended(),
            _ => tracer.ended(process),
        };
        if let Some(code) = ended(tracer) {
            return Ok((Some(code), was_interrupted));
        }
        if tasks::is_gone(process) {
            // Since this turn: what it left is still to be told, its code with it.
            tracer.turn(Duration::ZERO, take)?;
            return Ok((ended(tracer), was_interrupted));
        }
        let is_over = interrupted || (until.is_over)();
        if !is_over && deadline.is_none_or(|deadline| clock::now() < deadline) {
            continue;
        }
        let Some(command) = command else {
            return Ok((None, was_interrupted));
        };
        // A command was started for this: it ends with it.
        command.ask_to_end(asked);
        asked = true;
        deadline = Some(clock::now() + GRACE);
    }
}

#[cfg(test)]
mod tests;
