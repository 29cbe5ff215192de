//! The commands at both ends: started, told the signals this process gets, waited for.
//!
//! Whatever ends this process ends them too: the kernel kills a child when the thread that started it is gone.

use super::ground::Ground;
use super::room::Room;
use super::{Commands, Fault};
use crate::sys;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

const FORWARDED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Signals held for this module. Threads made afterwards leave them alone; children start with none held.
pub(super) struct Signals {
    all: Vec<i32>,
}

impl Signals {
    pub(super) fn block() -> io::Result<Signals> {
        let mut all = FORWARDED.to_vec();
        all.push(SIGCHLD);
        sys::block(&all)?;
        Ok(Signals { all })
    }

    /// Runs both commands until the near one has ended; its exit code.
    pub(super) fn see_through(&self, ground: &Ground, commands: &Commands) -> Result<u8, Fault> {
        let mut far = match &commands.far {
            Some(words) => Some(self.start(&ground.far, words, commands, true)?),
            None => None,
        };
        let outcome = self
            .start(&ground.near, &commands.near, commands, false)
            .and_then(|near| self.attend(near, &mut far));
        if let Some(mut far) = far {
            let _ = tell(&far, SIGTERM);
            self.end(&mut far);
        }
        outcome
    }

    fn attend(&self, mut near: Child, far: &mut Option<Child>) -> Result<u8, Fault> {
        let mut code_of_far = None;
        loop {
            if let Some(status) = near.try_wait().map_err(Fault::at("waiting for the command"))? {
                return Ok(code(status));
            }
            if let Some(other) = far
                && code_of_far.is_none()
                && let Ok(Some(status)) = other.try_wait()
            {
                tracing::warn!("the command at the far end has ended with code {}", code(status));
                code_of_far = Some(code(status));
            }
            let (signal, is_from_process) =
                sys::next_signal_and_sender(&self.all).map_err(Fault::at("waiting for signals"))?;
            // A terminal's signal has reached the command already: it is in the same group.
            if signal != SIGCHLD && is_from_process {
                let _ = tell(&near, signal);
            }
        }
    }

    fn start(
        &self,
        room: &Room,
        words: &[OsString],
        commands: &Commands,
        is_far: bool,
    ) -> Result<Child, Fault> {
        let fault = |error| Fault::Command {
            name: words
                .first()
                .map_or_else(String::new, |word| word.to_string_lossy().into_owned()),
            error,
        };
        let (name, arguments) = words
            .split_first()
            .ok_or_else(|| fault(io::Error::from(io::ErrorKind::InvalidInput)))?;
        let mut command = Command::new(name);
        command.args(arguments);
        command.envs(commands.environment.iter().map(|(name, value)| (name, value)));
        if is_far {
            command.stdin(Stdio::null());
        }
        sys::dies_with_its_parent(&mut command, self.all.clone());
        room.call(move || command.spawn())
            .and_then(|child| child)
            .map_err(fault)
    }

    /// Waits a moment for a child that was asked to end, then kills it.
    fn end(&self, child: &mut Child) {
        for _ in 0..40 {
            match child.try_wait() {
                Ok(None) => {
                    let soon = measure::Duration::from_millis(50);
                    let _ = sys::next_signal(&[SIGCHLD], Some(soon));
                }
                _ => return,
            }
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn tell(child: &Child, signal: i32) -> io::Result<()> {
    let pid = Pid::from_raw(child.id() as i32).ok_or(io::ErrorKind::NotFound)?;
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(pid, signal)?)
}

/// As a shell says it.
fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128 + signal.unwrap_or(0) as u8,
    }
}
