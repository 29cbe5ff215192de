//! Forks of this process: one that becomes a command once it is watched, and one that makes calls to measure the cost
//! of watching. How watching works is not known here.

use super::{Means, Price, Target, attach};
use runtime::{clock, sys};
use rustix::fs::{Access, access};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use units::{Duration, Instant};

/// Calls per trial: some milliseconds of them.
const CALLS: [(Means, u32); 2] = [(Means::Tracepoints, 20_000), (Means::Ptrace, 2_000)];
/// A single trial says little: on a machine that others use, results vary widely.
const TRIALS: usize = 5;

/// Trials that take longer in total are inconclusive.
const COST_MAX: Duration = Duration::from_secs(5);

/// A process that waits for a word before it becomes a command.
pub(super) struct Command {
    pid: Pid,
    word: Option<File>,
    refusal: File,
    ended: Cell<Option<i32>>,
}

impl Command {
    pub(super) fn prepare(words: &[OsString]) -> io::Result<Command> {
        // Now, before it is watched: the search for the program is not part of the command.
        let program = words.first().map(|word| found(word, std::env::var_os("PATH")));
        let (hear, say) = pipe_with(PipeFlags::CLOEXEC)?;
        let (learn, tell) = pipe_with(PipeFlags::CLOEXEC)?;
        match sys::fork()? {
            Some(pid) => Ok(Command {
                pid,
                word: Some(File::from(say)),
                refusal: File::from(learn),
                ended: Cell::new(None),
            }),
            None => {
                drop((say, learn));
                become_command(program, words, File::from(hear), File::from(tell))
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Lets it start.
    pub(super) fn go(&mut self) -> io::Result<()> {
        match self.word.take() {
            Some(mut word) => word.write_all(b"!"),
            None => Ok(()),
        }
    }

    /// Why it did not become the command, once it has ended.
    pub(super) fn refusal(&mut self) -> Option<io::Error> {
        // Before its end there may be nothing to read yet; after it, reading always finishes.
        self.ended()?;
        let mut errno = [0; 4];
        self.refusal.read_exact(&mut errno).ok()?;
        Some(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
    }

    /// Notes its exit code, which the tracer learned.
    pub(super) fn has_ended(&self, code: i32) {
        self.ended.set(Some(code));
    }

    /// Its exit code, if it has ended. Must not be called while a tracer waits for it: this would take its stops away.
    pub(super) fn ended(&self) -> Option<i32> {
        if self.ended.get().is_none()
            && let Ok(Some((_, status))) = waitpid(Some(self.pid), WaitOptions::NOHANG)
        {
            let signal = status.terminating_signal().map(|signal| 128 + signal);
            self.ended.set(status.exit_status().or(signal));
        }
        self.ended.get()
    }

    /// Asks it to end; the second time, kills it.
    pub(super) fn ask_to_end(&self, asked: bool) {
        let signal = if asked { Signal::KILL } else { Signal::TERM };
        // A command that has ended needs no signal.
        let _ = kill_process(self.pid, signal);
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.ask_to_end(true);
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }
}

/// In the fork: waits, then becomes the command or reports why not.
fn become_command(program: Option<PathBuf>, words: &[OsString], mut hear: File, mut tell: File) -> ! {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // Its parent may end without a word.
    if hear.read_exact(&mut [0]).is_err() {
        std::process::exit(127);
    }
    let _ = sys::unblock(&[libc::SIGINT, libc::SIGTERM, libc::SIGCHLD]);
    let error = match (program, words.split_first()) {
        (Some(program), Some((name, arguments))) => {
            let mut command = std::process::Command::new(program);
            command.arg0(name).args(arguments).exec()
        }
        _ => io::ErrorKind::InvalidInput.into(),
    };
    let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
    let _ = tell.write_all(&errno.to_ne_bytes());
    std::process::exit(127);
}

/// The program of this name: the first in the search path; otherwise the name itself, whose exec then reports the
/// error.
fn found(name: &OsStr, path: Option<OsString>) -> PathBuf {
    let named = PathBuf::from(name);
    if name.as_encoded_bytes().contains(&b'/') {
        return named;
    }
    let folders = path.unwrap_or_default();
    let programs = std::env::split_paths(&folders).map(|folder| folder.join(name));
    let can_be_run = |program: &PathBuf| program.is_file() && access(program, Access::EXEC_OK).is_ok();
    programs
        .filter(|program| program.is_absolute())
        .find(can_be_run)
        .unwrap_or(named)
}

/// The first word of a command.
pub(super) fn shown(target: &Target) -> String {
    match target {
        Target::Process(pid) => pid.to_string(),
        Target::Command(words) => words
            .first()
            .map_or_else(String::new, |word| word.to_string_lossy().into_owned()),
    }
}

/// The additional processor time of a call when it is watched.
pub(super) fn price(means: Means) -> io::Result<Price> {
    let until = clock::now() + COST_MAX;
    let trials: io::Result<Vec<i64>> = (0..TRIALS).map(|_| cost(means, until)).collect();
    Ok(priced(trials?))
}

fn priced(mut nanoseconds: Vec<i64>) -> Price {
    nanoseconds.sort_unstable();
    // A negative cost counts as zero, but still counts for the range.
    let at = |place: usize| {
        let value = nanoseconds.get(place).copied().unwrap_or_default();
        Duration::from_nanos(value.max(0).unsigned_abs())
    };
    Price {
        middle: at(nanoseconds.len() / 2),
        lowest: at(0),
        highest: at(nanoseconds.len().saturating_sub(1)),
        trials: nanoseconds.len(),
    }
}

/// One trial, in nanoseconds: negative if noise exceeded the cost.
fn cost(means: Means, until: Instant) -> io::Result<i64> {
    let calls = CALLS
        .iter()
        .find(|(one, _)| *one == means)
        .map_or(1, |(_, calls)| *calls);
    let (hear, say) = pipe_with(PipeFlags::CLOEXEC)?;
    let (learn, tell) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(pid) = sys::fork()? else {
        drop((say, learn));
        make_calls(calls, File::from(hear), File::from(tell))
    };
    drop((hear, tell));
    let (mut say, mut learn) = (File::from(say), File::from(learn));
    let number = pid.as_raw_nonzero().get() as u32;
    let mut answer = [0; 8];
    let measured = (|| {
        learn.read_exact(&mut answer)?;
        let bare = u64::from_ne_bytes(answer);
        let (mut tracer, _) = attach(means, &[number])?;
        say.write_all(b"!")?;
        let has_ended = |tracer: &dyn super::Tracer| match tracer.waits() {
            true => tracer.ended(number).is_some(),
            false => matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_))),
        };
        while !has_ended(&*tracer) {
            if clock::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            tracer.turn(super::TURN, &mut |_| {})?;
        }
        tracer.finish(&mut |_| {})?;
        learn.read_exact(&mut answer)?;
        let watched = u64::from_ne_bytes(answer);
        Ok((watched as i64 - bare as i64) / i64::from(calls))
    })();
    if measured.is_err() {
        let _ = kill_process(pid, Signal::KILL);
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
    measured
}

/// In the fork: the processor time of `calls` calls, alone and, after a word, watched. Not wall-clock time, because
/// other programs use this machine, too.
fn make_calls(calls: u32, mut hear: File, mut tell: File) -> ! {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let time = || {
        let start = clock::thread_cpu();
        for _ in 0..calls {
            std::hint::black_box(rustix::process::getppid());
        }
        clock::thread_cpu().saturating_sub(start).as_nanos() as u64
    };
    // Everything is slow the first time.
    time();
    let bare = time();
    let said = tell
        .write_all(&bare.to_ne_bytes())
        .and_then(|()| hear.read_exact(&mut [0]))
        .and_then(|()| tell.write_all(&time().to_ne_bytes()));
    std::process::exit(i32::from(said.is_err()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_known_where_trials_are_less_apart_than_it_is() {
        let steady = priced(vec![1200, 1000, 1900, 1100, 1250]);
        assert_eq!(steady.middle, Duration::from_nanos(1200));
        assert_eq!(
            (steady.lowest, steady.highest, steady.trials),
            (Duration::from_nanos(1000), Duration::from_nanos(1900), 5)
        );
        assert!(steady.is_known());
        for apart in [
            vec![130, 1160, 8780],
            vec![-400, 300, 310],
            vec![-5, -3, -1],
            vec![0],
            Vec::new(),
        ] {
            assert!(!priced(apart.clone()).is_known(), "{apart:?}");
        }
    }

    #[test]
    fn a_program_is_where_the_search_path_has_it_first() {
        let path = || Some(OsString::from("/no/such/folder:/bin:/usr/bin"));
        assert_eq!(found(OsStr::new("sh"), path()), PathBuf::from("/bin/sh"));
        for name in ["no-such-program", "./sh", "/usr/bin/sh"] {
            assert_eq!(found(OsStr::new(name), path()), PathBuf::from(name));
        }
        assert_eq!(found(OsStr::new("sh"), None), PathBuf::from("sh"));
    }
}
