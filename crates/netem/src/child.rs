//! The commands at both ends: starts them, forwards signals, and waits for them.
//!
//! Each has a process namespace of its own under a keeper ([`sys::under_a_keeper`]). The kernel kills the keepers when
//! the thread that started them is gone, so they end with this process, however it ends. With a keeper end all
//! processes its command has started, however far they have detached.
//!
//! ```text
//!  far started ── ready ──▶ near started ── near ended ──▶ far told to end ── 2 s ──▶ far killed
//!      └── not in time ──▶ with a warning, or not at all
//! ```

use crate::netns::Netns;
use crate::setup::Setup;
use crate::{Commands, FarReady, Fault, ready, resolver};
use runtime::{clock, sys};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use units::Duration;

const FORWARDED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// How often the far end is checked until it is ready.
const LOOK: Duration = Duration::from_millis(5);

/// The far command's state before the near one starts.
pub(super) enum Far {
    /// None was requested.
    None,
    /// It runs, or has already ended.
    Running(Child),
    /// This process was told to end meanwhile; the exit code.
    Interrupted(u8),
}

/// Signals blocked for this module. Threads created later leave them alone; children start with none blocked.
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

    /// Starts the far command, if there is one, and waits until it is ready.
    pub(super) fn start_far(&self, setup: &Setup, commands: &Commands) -> Result<Far, Fault> {
        let Some(words) = &commands.far else {
            return Ok(Far::None);
        };
        let mut far = self.start(&setup.far, words, commands, true)?;
        let wanted = commands.far_ready;
        let (patience, who) = match wanted {
            FarReady::AtOnce => return Ok(Far::Running(far)),
            FarReady::Anybody => (FarReady::PATIENCE, "at the far end".to_owned()),
            FarReady::Port(port) => (FarReady::PATIENCE_PORT, format!("on port {port} of the far end")),
        };
        let start = clock::now();
        let why = loop {
            let ended = far.try_wait().ok().flatten();
            if let Some(status) = ended.filter(|status| !status.success()) {
                // A command that moved to the background ends successfully.
                let why = format!("the command at the far end has ended with code {}", code(status));
                return Err(Fault::Far { why });
            }
            if ready::is_ready(&setup.far, wanted).map_err(Fault::at("checking the far end"))? {
                return Ok(Far::Running(far));
            }
            if ended.is_some() {
                break format!("nobody listens {who}: the command there has ended");
            }
            if clock::now().since(start) >= patience {
                break format!(
                    "nobody listens {who} after {} s (a listener on a loopback address cannot be reached)",
                    patience.as_secs()
                );
            }
            let told = sys::next_signal(&self.all, Some(LOOK)).map_err(Fault::at("waiting for signals"))?;
            if let Some(signal @ (SIGINT | SIGTERM | SIGHUP | SIGQUIT)) = told {
                self.end(&mut far);
                return Ok(Far::Interrupted(128 + signal as u8));
            }
        };
        if matches!(wanted, FarReady::Port(_)) {
            self.end(&mut far);
            return Err(Fault::Far { why });
        }
        tracing::warn!("{why}; starting the command anyway");
        Ok(Far::Running(far))
    }

    /// Runs the near command to its end, then ends the far one; returns the near one's exit code.
    pub(super) fn see_through(
        &self,
        setup: &Setup,
        commands: &Commands,
        mut far: Option<Child>,
    ) -> Result<u8, Fault> {
        if let Some(text) = setup.name_servers() {
            let text = text.to_owned();
            let shown = setup.near.call(move || resolver::show(&text));
            if let Err(error) = shown.and_then(|shown| shown) {
                tracing::warn!(
                    "the command cannot look up names: /etc/resolv.conf names a server that it cannot reach, and Weir \
                     cannot show it another file: {error}; use addresses instead of names"
                );
            }
        }
        let outcome = self
            .start(&setup.near, &commands.near, commands, false)
            .and_then(|near| self.attend(near, &mut far));
        if let Some(far) = &mut far {
            self.end(far);
        }
        outcome
    }

    /// Runs the near command in this process's namespace to its end; returns its exit code.
    pub(super) fn see_alone(&self, commands: &Commands) -> Result<u8, Fault> {
        let (mut command, name) = words_of(&commands.near, commands)?;
        sys::dies_with_its_parent(&mut command, self.all.clone());
        let near = command.spawn().map_err(|error| Fault::Command { name, error })?;
        self.attend(near, &mut None)
    }

    /// Waits until this process is told to end, which is the expected end: 0.
    pub(super) fn wait_for_the_end(&self) -> io::Result<u8> {
        loop {
            if let (SIGINT | SIGTERM | SIGHUP | SIGQUIT, _) = sys::next_signal_and_sender(&self.all)? {
                return Ok(0);
            }
        }
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
            // A terminal's signal has already reached the command, which is in the same group.
            if signal != SIGCHLD && is_from_process {
                let _ = tell(&near, signal);
            }
        }
    }

    fn start(
        &self,
        netns: &Netns,
        words: &[OsString],
        commands: &Commands,
        is_far: bool,
    ) -> Result<Child, Fault> {
        let (mut command, name) = words_of(words, commands)?;
        if is_far {
            // A server that forwards its end to its whole group (as Apache does) must not end the program that started
            // the link.
            command.stdin(Stdio::null()).process_group(0);
        }
        match netns.call(sys::own_processes).and_then(|made| made) {
            Ok(()) => {
                let keeps = if is_far { sys::Keeps::All } else { sys::Keeps::One };
                sys::under_a_keeper(&mut command, &self.all, keeps);
            }
            Err(error) => {
                tracing::warn!(
                    "no namespace of processes ({error}): what a command leaves behind stays behind"
                );
                sys::dies_with_its_parent(&mut command, self.all.clone());
            }
        }
        netns
            .call(move || command.spawn())
            .and_then(|child| child)
            .map_err(|error| Fault::Command { name, error })
    }

    /// Asks a child to end, waits a moment, then kills it.
    fn end(&self, child: &mut Child) {
        let _ = tell(child, SIGTERM);
        for _ in 0..40 {
            match child.try_wait() {
                Ok(None) => {
                    let soon = Duration::from_millis(50);
                    let _ = sys::next_signal(&[SIGCHLD], Some(soon));
                }
                _ => return,
            }
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The command of these words, and its name.
fn words_of(words: &[OsString], commands: &Commands) -> Result<(Command, String), Fault> {
    let first = words.first().cloned().unwrap_or_default();
    let name = first.to_string_lossy().into_owned();
    if first.is_empty() {
        let error = io::Error::from(io::ErrorKind::InvalidInput);
        return Err(Fault::Command { name, error });
    }
    let mut command = Command::new(first);
    command.args(&words[1..]);
    command.envs(commands.environment.iter().map(|(name, value)| (name, value)));
    Ok((command, name))
}

fn tell(child: &Child, signal: i32) -> io::Result<()> {
    let pid = Pid::from_raw(child.id() as i32).ok_or(io::ErrorKind::NotFound)?;
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(pid, signal)?)
}

/// Exit code as in a shell.
fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128 + signal.unwrap_or(0) as u8,
    }
}
