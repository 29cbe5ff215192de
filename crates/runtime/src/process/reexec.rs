//! Runs this program as a child of itself, for commands that use other commands of the same binary.
//!
//! Decides which file is run, and that a child never outlives its parent. What the child does is not known here.

use crate::sys;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// The file this program was started from, for shells that run it again.
///
/// # Errors
/// The system's, if the path is unknown.
pub fn path() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// A run of this program with other arguments and additional variables.
#[derive(Clone, Debug, Default)]
pub struct Again {
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

impl Again {
    /// A run with these arguments.
    pub fn with<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Again {
        Again {
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
        }
    }

    /// Adds this variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Again {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// As a command whose output the caller arranges. It ends when the calling thread's process does.
    pub fn command(&self) -> Command {
        // This name refers to the running file even after another has replaced it.
        self.command_of("/proc/self/exe")
    }

    fn command_of(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        sys::dies_with_its_parent(&mut command, Vec::new());
        command
    }

    /// Runs it to its end; returns its status and all output.
    ///
    /// # Errors
    /// The system's, if it cannot be started.
    pub fn run(&self) -> io::Result<Output> {
        self.command().output()
    }

    /// Starts it and waits for the first line it prints. Later output is discarded.
    ///
    /// # Errors
    /// The system's if it cannot be started, and `UnexpectedEof` if it ends without a line.
    pub fn start(&self) -> io::Result<(Running, String)> {
        Running::begin(self.command())
    }
}

/// A running child, killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Held open: a closed pipe would kill a child that writes to it.
    said: BufReader<ChildStdout>,
}

impl Running {
    fn begin(mut command: Command) -> io::Result<(Running, String)> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let said = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut running = Running {
            child,
            said: BufReader::new(said),
        };
        let mut line = String::new();
        if running.said.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((running, line))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A child that has ended cannot be killed, but must still be waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_what_it_was_asked_for_and_one_that_is_dropped_is_gone() {
        let said = Again::with(["-c", "echo $WORD; exit 3"])
            .variable("WORD", "over")
            .command_of("sh")
            .output()
            .unwrap();
        assert_eq!((said.status.code(), &said.stdout[..]), (Some(3), &b"over\n"[..]));
        let sleeps = Again::with(["-c", "echo $$; exec sleep 1000"]).command_of("sh");
        let (running, line) = Running::begin(sleeps).unwrap();
        let place = format!("/proc/{}", line.trim());
        assert!(std::path::Path::new(&place).exists());
        drop(running);
        assert!(!std::path::Path::new(&place).exists());
        let silent = Running::begin(Again::with(["-c", ":"]).command_of("sh"));
        assert_eq!(silent.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn it_runs_this_very_file() {
        // The running file is that of the tests, which lists them.
        let listed = Again::with(["--list", "process::reexec::"]).run().unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        assert!(text.contains("it_runs_this_very_file"), "{text}");
        assert!(path().unwrap().exists());
    }
}
