//! Every system call of other processes as it happens, and when their threads ran: the raw data of a profile.
//!
//! ```text
//!   tracepoints raw_syscalls:sys_enter, sys_exit and context switches ─▶ a ring a processor ─▶ in order of time ─▶ events
//!   else ptrace: each thread stops twice a call ──────────────────────────────────────────────────────────────▶ events
//! ```
//! Tracepoints cost the watched thread about a microsecond a call, or several, and need privileges. ptrace needs fewer
//! and costs several times that. The cost on this machine is measured on forks of this process each time
//! ([`Seen::cost`]). Decides which processes to watch (one with all its threads, its descendants, and those they create
//! from now on), by which method and for how long. What a call is for is not known here.

mod calls;
mod ptrace;
mod record;
mod tasks;
mod tracepoints;
mod trial;

pub use calls::name;
use runtime::{clock, sys};
use std::ffi::OsString;
use std::fmt;
use std::io;
use units::{Duration, Instant};

const SIGCHLD: i32 = libc::SIGCHLD;
/// Signals that end a profile early.
const ENDS: [i32; 2] = [libc::SIGINT, libc::SIGTERM];
/// How long a command may take to end on request.
const GRACE: Duration = Duration::from_secs(2);
/// Interval of reads; the rings hold several times what a busy machine writes in it.
const TURN: Duration = Duration::from_millis(5);

/// The method of tracing calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The kernel records them.
    Tracepoints,
    /// Threads are stopped at each call.
    Ptrace,
}

impl Means {
    /// Its name, one word.
    pub fn name(self) -> &'static str {
        match self {
            Means::Tracepoints => "tracepoints",
            Means::Ptrace => "ptrace",
        }
    }
}

/// What to watch.
#[derive(Clone, Debug)]
pub enum Target {
    /// A running process and its descendants.
    Process(u32),
    /// A command, from its first call on.
    Command(Vec<OsString>),
}

/// An event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its process ID.
    pub process: u32,
    /// Its thread ID.
    pub thread: u32,
    /// Time, on the clock of [`clock::now`].
    pub at: Instant,
    /// Its total processor time so far, if the method reads it.
    pub ran: Option<Duration>,
    /// The kind of event.
    pub what: What,
}

/// Kinds of events.
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
        /// The result; a negated errno if negative.
        result: i64,
    },
    /// It got a processor.
    On,
    /// It left its processor.
    Off {
        /// Preempted: it could have continued.
        preempted: bool,
    },
    /// It ended.
    Gone,
}

/// Facts about the profile, besides the events.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Start of the interval that contains all events.
    pub start: Instant,
    /// End of that interval.
    pub end: Instant,
    /// The method used.
    pub means: Means,
    /// Why tracepoints were refused; `None` if they were used or ptrace was requested.
    pub refused: Option<String>,
    /// Records the kernel had no room for: if not zero, counts are too low.
    pub lost: u64,
    /// The cost of tracing one call, for the thread that makes it; `None` if the trials failed.
    pub cost: Option<Price>,
    /// Processor time this process used meanwhile, which was not available to the watched one.
    pub own: Duration,
    /// Processes and threads watched from the beginning.
    pub watched: (usize, usize),
    /// Threads the system does not let be watched; nothing of them is counted.
    pub unwatched: Option<Unwatched>,
    /// How long runnable threads waited for a processor; `None` with ptrace, which causes such waits itself.
    pub queued: Option<Duration>,
    /// The command's exit code; 128 plus the signal if one ended it.
    pub code: Option<i32>,
    /// Whether SIGINT or SIGTERM ended it.
    pub is_interrupted: bool,
}

/// Existing threads that could not be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwatched {
    /// The processes of these threads, each once.
    pub processes: Vec<u32>,
    /// How many threads.
    pub threads: usize,
    /// The system's answer for the first.
    pub why: String,
}

/// Processor time that tracing one call costs the thread that makes it, from several trials on forks of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// The median.
    pub middle: Duration,
    /// The lowest.
    pub lowest: Duration,
    /// The highest.
    pub highest: Duration,
    /// Number of trials.
    pub trials: usize,
}

impl Price {
    /// Whether the trials are conclusive: their range is no larger than their median.
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
    /// The system refuses both methods; the reason for each.
    Refused(Vec<(Means, io::Error)>),
    /// Another refusal of the system.
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

/// A method of tracing.
trait Tracer {
    /// Waits at most this long and delivers events; returns whether one of [`ENDS`] came.
    fn turn(&mut self, patience: Duration, take: &mut dyn FnMut(Event)) -> io::Result<bool>;
    /// Stops tracing and delivers the remaining events; returns the number of lost records.
    fn finish(self: Box<Self>, take: &mut dyn FnMut(Event)) -> io::Result<u64>;
    /// How this process ended, if it has and the tracer is the one that learns it.
    fn ended(&self, process: u32) -> Option<i32>;
    /// Whether the tracer alone is told of ends and stops of children: others must not wait for them then.
    fn waits(&self) -> bool;
}

/// Whether this process can look up the tracepoints of system calls, the first need of [`Means::Tracepoints`].
pub fn finds_tracepoints() -> bool {
    tracepoints::ids().is_ok()
}

/// Watches until the target ends, this long has passed, or SIGINT or SIGTERM comes. Delivers every event; those of one
/// thread are in order of time. `started` is called when the watching begins, with its instant, and `is_over` at each
/// turn after that: it ends the watching as well. Only for a process with one thread.
///
/// # Errors
/// If there is nothing to watch, or the system does not permit watching it.
pub fn watch(
    target: &Target,
    means: Option<Means>,
    at_most: Option<Duration>,
    started: impl FnOnce(Instant),
    is_over: &mut dyn FnMut() -> bool,
    take: &mut dyn FnMut(Event),
) -> Result<Seen, Fault> {
    let system = |what| move |error| Fault::System(what, error);
    runtime::machine::raise_descriptor_limit();
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

/// Threads that a method may not watch, although it may watch others.
#[derive(Debug, Default)]
struct Refusals {
    threads: Vec<u32>,
    error: Option<io::Error>,
}

/// Attaches to the threads. It is an error if all of them are refused.
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

/// What ends the watching besides the end of the target.
struct Until<'a> {
    at: Option<Instant>,
    is_over: &'a mut dyn FnMut() -> bool,
}

/// Watches until the end; returns how the command ended, if it did, and whether a signal was the reason.
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
            // It ended in this turn: its last events and its exit code are still to be delivered.
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
        // The command was started for the profile, so it ends with it.
        command.ask_to_end(asked);
        asked = true;
        deadline = Some(clock::now() + GRACE);
    }
}

#[cfg(test)]
mod tests;
