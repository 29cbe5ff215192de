//! A program that this process talks with over two pipes: it reads from its descriptor 3 and writes to its descriptor 4, as
//! browsers do with `--remote-debugging-pipe`. Decides how long it waits for the program, not what they say.
//!
//! ```text
//!  this process ── pipe ──▶ 3 ┐
//!                             ├ program, in a process group of its own; ends with this thread
//!  this process ◀── pipe ── 4 ┘
//! ```

use super::hook::{WORDS_MAX, in_a_line, take};
use crate::{clock, sys};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use units::{Duration, Instant};

/// What came from the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// So many bytes.
    Bytes(usize),
    /// Nothing until the deadline.
    Nothing,
    /// The program closed its end: it has ended, or is about to.
    Closed,
}

/// A program that runs. Dropped, it is killed with the programs that it started.
#[derive(Debug)]
pub struct Piped {
    child: Child,
    to: Option<PipeWriter>,
    from: PipeReader,
    /// Its standard error.
    said: PipeReader,
    is_said_open: bool,
    /// The last bytes of `said`.
    kept: Vec<u8>,
    /// Whether its end was waited for, so that its number may be another's.
    is_gone: bool,
}

impl Piped {
    /// Starts a program. Its standard input and output are empty.
    ///
    /// # Errors
    /// The system's, `NotFound` if there is no such program.
    pub fn start(mut command: Command) -> io::Result<Piped> {
        let (its_input, to) = io::pipe()?;
        let (from, its_output) = io::pipe()?;
        let (said, its_error) = io::pipe()?;
        for ours in [to.as_fd(), from.as_fd(), said.as_fd()] {
            rustix::io::ioctl_fionbio(ours, true)?;
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(its_error)
            .process_group(0);
        sys::dies_with_its_parent(&mut command, Vec::new());
        let reserved = sys::pass_descriptors(&mut command, &its_input, &its_output)?;
        let child = command.spawn()?;
        // The command holds the child's ends of the pipes, too.
        drop((command, reserved));
        Ok(Piped {
            child,
            to: Some(to),
            from,
            said,
            is_said_open: true,
            kept: Vec::new(),
            is_gone: false,
        })
    }

    /// A descriptor that is readable when the program has written something, or has closed its end.
    ///
    /// # Errors
    /// The system's, if this process has too many files open.
    pub fn readable(&self) -> io::Result<OwnedFd> {
        self.from.as_fd().try_clone_to_owned()
    }

    /// Sends all bytes.
    ///
    /// # Errors
    /// `TimedOut` if the program does not read them in time, `BrokenPipe` if it has closed its end.
    pub fn send(&mut self, mut bytes: &[u8], until: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            let to = self.to.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            match to.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.waits(PollFlags::OUT, until)? {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what the program has written, or waits for it until then.
    ///
    /// # Errors
    /// The system's.
    pub fn hear(&mut self, chunk: &mut [u8], until: Instant) -> io::Result<Heard> {
        loop {
            match self.from.read(chunk) {
                Ok(0) => return Ok(Heard::Closed),
                Ok(count) => return Ok(Heard::Bytes(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.waits(PollFlags::IN, until)? {
                        return Ok(Heard::Nothing);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until a pipe is ready, and takes the program's words meanwhile: false if the time is over.
    fn waits(&mut self, wanted: PollFlags, until: Instant) -> io::Result<bool> {
        loop {
            let ready = {
                let pipe = match &self.to {
                    Some(to) if wanted == PollFlags::OUT => to.as_fd(),
                    _ => self.from.as_fd(),
                };
                let mut both = [PollFd::new(&pipe, wanted), PollFd::new(&self.said, PollFlags::IN)];
                let count = if self.is_said_open { 2 } else { 1 };
                match poll(&mut both[..count], Some(&left(until))) {
                    Ok(0) => return Ok(false),
                    Ok(_) => !both[0].revents().is_empty(),
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => return Err(error.into()),
                }
            };
            self.take_words()?;
            if ready {
                return Ok(true);
            }
            // One who talks without end is always ready.
            if clock::now() >= until {
                return Ok(false);
            }
        }
    }

    fn take_words(&mut self) -> io::Result<()> {
        self.is_said_open = self.is_said_open && take(&mut self.said, &mut self.kept)? != Some(0);
        Ok(())
    }

    /// Closes the pipe to the program and waits for its end until then. Afterwards it is killed. The status, `None` if it was
    /// killed, and the end of what it said on standard error, in one line.
    ///
    /// # Errors
    /// The system's.
    pub fn end(mut self, until: Instant) -> io::Result<(Option<ExitStatus>, String)> {
        self.to = None;
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("it has no process ID"))?;
        let end = pidfd_open(pid, PidfdFlags::empty())?;
        let has_ended = loop {
            let mut both = [
                PollFd::new(&end, PollFlags::IN),
                PollFd::new(&self.said, PollFlags::IN),
            ];
            let count = if self.is_said_open { 2 } else { 1 };
            match poll(&mut both[..count], Some(&left(until))) {
                Ok(0) => break false,
                Ok(_) if !both[0].revents().is_empty() => break true,
                Ok(_) => {
                    self.take_words()?;
                    if clock::now() >= until {
                        break false;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        for _ in 0..WORDS_MAX {
            if !matches!(take(&mut self.said, &mut self.kept)?, Some(1..)) {
                break;
            }
        }
        let status = self.kill()?;
        Ok((Some(status).filter(|_| has_ended), in_a_line(&self.kept)))
    }

    /// Kills it and the programs that it started, which may outlive it. One that has ended keeps its status.
    fn kill(&mut self) -> io::Result<ExitStatus> {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.is_gone = true;
        self.child.wait()
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        if !self.is_gone {
            let _ = self.kill();
        }
    }
}

/// The time left, for `poll`.
fn left(until: Instant) -> Timespec {
    let left: Duration = until.since(clock::now());
    Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Piped {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Piped::start(command).expect("a shell")
    }

    fn soon() -> Instant {
        clock::now() + Duration::from_secs(60)
    }

    fn all(piped: &mut Piped) -> Vec<u8> {
        let (mut heard, mut chunk) = (Vec::new(), [0; 7]);
        loop {
            match piped.hear(&mut chunk, soon()).expect("a pipe") {
                Heard::Bytes(count) => heard.extend_from_slice(&chunk[..count]),
                Heard::Closed => return heard,
                Heard::Nothing => panic!("in time"),
            }
        }
    }

    #[test]
    fn it_reads_from_three_and_writes_to_four() {
        let mut piped =
            shell("read -r line <&3; echo \"heard $line\" >&4; echo noise; echo done >&2; exit 7");
        piped.send(b"a question\n", soon()).expect("it reads");
        assert_eq!(all(&mut piped), b"heard a question\n");
        let (status, said) = piped.end(soon()).expect("its end");
        assert_eq!(status.and_then(|status| status.code()), Some(7));
        assert_eq!(said, "done");
    }

    #[test]
    fn one_who_talks_without_end_is_not_waited_for() {
        let mut piped = shell("exec yes >&2");
        let heard = piped.hear(&mut [0; 7], clock::now() + Duration::from_millis(50));
        assert!(matches!(heard, Ok(Heard::Nothing)), "{heard:?}");
        let (status, said) = piped
            .end(clock::now() + Duration::from_millis(50))
            .expect("its end");
        assert!(status.is_none() && said.ends_with('y'), "{status:?} {said}");
    }

    #[test]
    fn closing_is_heard_and_nothing_else_is_passed_on() {
        // It ends when the last writer of descriptor 3 is gone: no end of ours was passed on.
        let piped = shell("exec 4>&-; cat <&3; echo ended >&2");
        let (status, said) = piped.end(soon()).expect("its end");
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
        assert_eq!(said, "ended");
    }

    #[test]
    fn a_deadline_ends_reading_writing_and_waiting() {
        let mut piped = shell("sleep 1000 & wait");
        let now = clock::now();
        assert_eq!(piped.hear(&mut [0; 8], now).expect("a pipe"), Heard::Nothing);
        let much = vec![0; 1 << 20];
        let late = piped.send(&much, clock::now()).expect_err("it does not read");
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let (status, _) = piped.end(clock::now()).expect("killed");
        assert_eq!(status, None);
    }

    #[test]
    fn words_do_not_stop_it_and_only_the_last_are_kept() {
        let mut piped = shell("seq 100000 >&2; echo said >&4; echo the end >&2");
        assert_eq!(all(&mut piped), b"said\n");
        let (_, said) = piped.end(soon()).expect("its end");
        assert!(said.len() < 600 && said.ends_with("the end"), "{said}");
    }

    #[test]
    fn a_program_that_is_missing_is_an_error() {
        let missing = Piped::start(Command::new("/nowhere/browser")).expect_err("missing");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
