//! Programs of the operator that a server runs while it serves: to their end, within a limit of time, and with what
//! they said if they fail.

use crate::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::fmt;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use units::Duration;

/// Bytes of its output that are kept: the last ones, where programs say what was wrong.
pub(super) const SAID_MAX: usize = 500;

/// Reads after its end, of up to 4 KiB: as much as a pipe holds by default (64 KiB), and a few more.
pub(super) const WORDS_MAX: usize = 20;

/// Why a hook did not do its work.
#[derive(Debug)]
pub enum HookError {
    /// It could not be started.
    Start(io::Error),
    /// It ended with an error; the end of its output, in one line.
    Ended(ExitStatus, String),
    /// It ran longer than this and was killed, with the programs that it had started.
    Late(Duration),
    /// The system refused to wait for it; it was killed.
    Wait(io::Error),
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HookError::Start(error) => write!(f, "cannot be started: {error}"),
            HookError::Ended(status, said) if said.is_empty() => {
                write!(f, "failed ({status}) without a word")
            }
            HookError::Ended(status, said) => write!(f, "failed ({status}): {said}"),
            HookError::Late(limit) => write!(f, "did not end within {} s and was killed", limit.as_secs()),
            HookError::Wait(error) => write!(f, "cannot be waited for: {error}"),
        }
    }
}

impl std::error::Error for HookError {}

/// Runs a program and waits for its end; blocks this thread. It reads nothing, and has a process group of its own.
///
/// # Errors
/// It did not end with status 0 in time.
pub fn run(program: &Path, arguments: &[&str], limit: Duration) -> Result<(), HookError> {
    let (said, its) = io::pipe().map_err(HookError::Start)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(its.try_clone().map_err(HookError::Start)?)
        .stderr(its)
        .process_group(0);
    let mut child = command.spawn().map_err(HookError::Start)?;
    // The command still holds the other end of the pipe.
    drop(command);
    let mut kept = Vec::new();
    match attend(&child, said, &mut kept, limit) {
        Ok(true) => {}
        outcome => {
            if let Ok(group) = i32::try_from(child.id()) {
                // It may have ended just now.
                let _ = Pid::from_raw(group).map(|group| kill_process_group(group, Signal::KILL));
            }
            child.wait().map_err(HookError::Wait)?;
            return Err(outcome.map_or_else(HookError::Wait, |_| HookError::Late(limit)));
        }
    }
    let status = child.wait().map_err(HookError::Wait)?;
    match status.success() {
        true => Ok(()),
        false => Err(HookError::Ended(status, in_a_line(&kept))),
    }
}

/// Takes what it says until it ends, or the time is over: then false. Programs that outlive it may hold its output open;
/// nobody waits for them.
fn attend(child: &Child, mut said: PipeReader, kept: &mut Vec<u8>, limit: Duration) -> io::Result<bool> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("it has no process ID"))?;
    let end = pidfd_open(pid, PidfdFlags::empty())?;
    rustix::io::ioctl_fionbio(&said, true)?;
    let until = clock::now() + limit;
    let mut is_open = true;
    loop {
        let has_ended = {
            let left = until.since(clock::now());
            let patience = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut both = [
                PollFd::new(&end, PollFlags::IN),
                PollFd::new(&said, PollFlags::IN),
            ];
            let count = if is_open { 2 } else { 1 };
            match poll(&mut both[..count], Some(&patience)) {
                Ok(0) => return Ok(false),
                Ok(_) => !both[0].revents().is_empty(),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
        };
        if has_ended {
            // Its last words. A program that it leaves behind may go on talking.
            for _ in 0..WORDS_MAX {
                if !matches!(take(&mut said, kept)?, Some(1..)) {
                    break;
                }
            }
            return Ok(true);
        }
        is_open = is_open && take(&mut said, kept)? != Some(0);
        // One who talks without end is always ready.
        if clock::now() >= until {
            return Ok(false);
        }
    }
}

/// Reads some of what there is: how much, 0 once there will be no more; `None` if there is nothing now.
pub(super) fn take(said: &mut PipeReader, kept: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let mut some = [0; 4096];
    match said.read(&mut some) {
        Ok(count) => {
            kept.extend_from_slice(&some[..count]);
            kept.drain(..kept.len().saturating_sub(SAID_MAX));
            Ok(Some(count))
        }
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Output as one line for a log.
pub(super) fn in_a_line(kept: &[u8]) -> String {
    let text = String::from_utf8_lossy(kept);
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .collect();
    words
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script for the shell, with one argument.
    fn shell(script: &str, limit: Duration) -> Result<(), HookError> {
        run(Path::new("/bin/sh"), &["-c", script, "sh", "one"], limit)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn its_end_and_its_words_are_told() {
        assert!(shell("test \"$1\" = one && echo fine", LONG).is_ok());
        let failed = shell(
            "echo no such zone; echo >&2 '  ask the\ttechnician'; exit 3",
            LONG,
        );
        let words = failed.expect_err("failed").to_string();
        assert_eq!(words, "failed (exit status: 3): no such zone ask the technician");
        let silent = shell("exit 1", LONG).expect_err("failed").to_string();
        assert!(silent.ends_with("without a word"), "{silent}");
        let missing = run(Path::new("/nowhere/hook"), &[], LONG)
            .expect_err("missing")
            .to_string();
        assert!(missing.contains("cannot be started"), "{missing}");
    }

    #[test]
    fn who_does_not_end_is_killed_with_its_own_programs() {
        let late = shell("echo waiting; sleep 1000 & wait", Duration::from_millis(300));
        assert!(matches!(late, Err(HookError::Late(_))), "{late:?}");
        // One that writes without end, too.
        let loud = shell("while :; do echo loud; done", Duration::from_millis(300));
        assert!(matches!(loud, Err(HookError::Late(_))), "{loud:?}");
        let louder = shell("exec yes", Duration::from_millis(300));
        assert!(matches!(louder, Err(HookError::Late(_))), "{louder:?}");
    }

    #[test]
    fn much_output_is_cut_and_nobody_waits_for_who_stays() {
        let wordy = shell("seq 100000; echo the end; exit 1", LONG)
            .expect_err("failed")
            .to_string();
        assert!(
            wordy.len() < SAID_MAX + 50 && wordy.ends_with("the end"),
            "{wordy}"
        );
        let before = clock::now();
        assert!(shell("sleep 30 & exit 0", LONG).is_ok());
        assert!(clock::now().since(before) < Duration::from_secs(25));
    }
}
