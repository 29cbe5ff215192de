//! Writes whole buffers of log lines to a file from a thread of its own, so that a slow disk never delays a worker.
//!
//! ```text
//!   worker ── full buffer ──▶ queue (bounded in bytes) ──▶ thread ── write ──▶ file
//!     ▲                                                        │
//!     └───────────────── empty buffer ◀────────────────────────┘
//! ```
//! If the disk is so slow that the queue is full, lines are dropped and counted; nothing else waits. Queued lines are
//! written when the [`LogFile`] is closed or dropped. Callers can ask when that is done, and give up
//! ([`LogFile::abandon`]) if nobody reads the other end of a pipe.
//!
//! The target may be a socket, which gets each line as a datagram ([`crate::log_socket`]).
//!
//! A full disk may accept part of a line. The next successful write starts a new line, and the number of lost lines is
//! then reported. Other processes that write to the file in between do not know of the torn line.

mod rotation;

pub use rotation::Rotation;

use crate::log_socket::{Fields, LogSocket, Sender, Severity};
use rotation::{Rotor, Turn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Stderr, Stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use units::Bytes;

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Appended to this file, which is created if it does not exist.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// This socket, which gets each line as a datagram.
    Socket(LogSocket),
}

/// Maximum bytes queued: a second of a fast server's log.
const QUEUED_MAX: Bytes = Bytes::mib(16);
/// Empty buffers kept for the workers.
const SPARE_MAX: usize = 8;
/// Bytes per write: what a writable pipe accepts without blocking (`PIPE_BUF`).
const PIECE: usize = 4096;
/// How often a writer that waits for its reader checks whether to give up.
const GIVE_UP_TICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// A log file and the thread that writes it.
#[derive(Debug)]
pub struct LogFile {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    target: Target,
    /// Finds fields in lines for a socket.
    fields: Option<Fields>,
    queued_max: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
    abandoned: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    reopen: bool,
    closed: bool,
}

/// The effects of failures on the log.
#[derive(Debug, Default)]
struct Damage {
    /// The file ends within a line.
    torn: bool,
    /// Lines not written, or not completely, since the last report of losses.
    lost: u64,
}

#[derive(Debug)]
enum Sink {
    File(File),
    Stdout(Stdout),
    Socket(Sender),
    /// The file could not be opened again; lines go to standard error instead.
    Stderr(Stderr),
}

impl LogFile {
    /// Opens the target and starts the thread.
    ///
    /// # Errors
    /// Why the file cannot be opened for appending; `NotConnected` for a named pipe without a reader.
    pub fn open(target: Target) -> std::io::Result<LogFile> {
        LogFile::bounded(target, None, None, QUEUED_MAX)
    }

    /// As [`LogFile::open`], with rotation of the file. Pipes and devices are never rotated. `fields` finds fields of lines for
    /// a socket that takes any.
    ///
    /// # Errors
    /// As [`LogFile::open`].
    pub fn open_rotating(
        target: Target,
        rotation: Rotation,
        fields: Option<Fields>,
    ) -> std::io::Result<LogFile> {
        LogFile::bounded(target, Some(rotation), fields, QUEUED_MAX)
    }

    fn bounded(
        target: Target,
        rotation: Option<Rotation>,
        fields: Option<Fields>,
        queued_max: Bytes,
    ) -> std::io::Result<LogFile> {
        let mut sink = open(&target)?;
        let rotation = rotation.filter(Rotation::is_on);
        let mut rotor = match (&target, rotation) {
            (Target::File(path), Some(rotation)) => Some(Rotor::new(rotation, path)),
            _ => None,
        };
        let shared = Arc::new(Shared {
            target,
            fields,
            queued_max: queued_max.0 as usize,
            queue: Mutex::default(),
            changed: Condvar::new(),
            abandoned: AtomicBool::new(false),
        });
        let thread = std::thread::Builder::new().name("weir-log".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run(&mut sink, &mut rotor)
        })?;
        Ok(LogFile { shared, thread })
    }

    /// The socket that gets its lines.
    #[cfg(test)]
    fn socket(&self) -> Option<LogSocket> {
        match &self.shared.target {
            Target::Socket(socket) => Some(socket.clone()),
            Target::File(_) | Target::Stdout => None,
        }
    }

    /// Queues whole lines. Returns an empty buffer to fill next, and the number of lines dropped because the queue is
    /// full: none, or all of these.
    pub fn write(&self, mut lines: Vec<u8>) -> (Vec<u8>, u64) {
        let mut queue = self.shared.queue();
        if queue.bytes + lines.len() > self.shared.queued_max {
            drop(queue);
            let dropped = lines.iter().filter(|b| **b == b'\n').count() as u64;
            lines.clear();
            return (lines, dropped);
        }
        queue.bytes += lines.len();
        queue.buffers.push_back(lines);
        let spare = queue.spare.pop().unwrap_or_default();
        drop(queue);
        self.shared.changed.notify_one();
        (spare, 0)
    }

    /// Whether the file can be opened by its name now.
    ///
    /// # Errors
    /// As [`LogFile::open`].
    pub fn can_be_opened(&self) -> std::io::Result<()> {
        open(&self.shared.target).map(drop)
    }

    /// Opens the file by its name again after all lines queued so far are written to the old one: for log rotation.
    pub fn reopen(&self) {
        self.shared.queue().reopen = true;
        self.shared.changed.notify_one();
    }
}

impl LogFile {
    /// Accepts no more lines: the thread writes the queue and ends.
    pub fn close(&self) {
        self.shared.queue().closed = true;
        self.shared.changed.notify_one();
    }

    /// Whether the thread has ended: everything is written or given up.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Gives up unwritten lines, and logs that once. Follows [`LogFile::close`] when waiting for the other end makes no
    /// sense any more.
    pub fn abandon(&self) {
        let queue = self.shared.queue();
        self.shared.abandoned.store(true, Ordering::Relaxed);
        if queue.bytes > 0 && !self.is_finished() {
            tracing::error!(
                "{} accepts no more data: {} of log lines are lost",
                self.shared.name(),
                Bytes(queue.bytes as u64)
            );
        }
        drop(queue);
        self.close();
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, sink: &mut Sink, rotor: &mut Option<Rotor>) {
        let mut queue = self.queue();
        let mut damage = Damage::default();
        loop {
            if self.abandoned.load(Ordering::Relaxed) {
                return;
            } else if let Some(mut buffer) = queue.buffers.pop_front() {
                drop(queue);
                let len = buffer.len();
                let is_rotated = self.rotate(sink, rotor, &mut damage);
                self.pass_on(&mut buffer, &mut damage, |bytes| {
                    sink.write(bytes, self.fields, &self.abandoned)
                });
                if is_rotated {
                    Rotor::written(&*sink);
                }
                queue = self.queue();
                queue.bytes -= len;
                if queue.spare.len() < SPARE_MAX {
                    buffer.clear();
                    queue.spare.push(buffer);
                }
            } else if std::mem::take(&mut queue.reopen) {
                drop(queue);
                self.open_again(sink, &mut damage);
                queue = self.queue();
            } else if queue.closed {
                if damage.lost > 0 {
                    tracing::error!("{} rejected log lines; lost: {}", self.name(), damage.lost);
                }
                return;
            } else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn open_again(&self, sink: &mut Sink, damage: &mut Damage) {
        let before = identity(sink);
        *sink = open(&self.target).unwrap_or_else(|error| {
            tracing::error!(
                "opening {} again failed: {error}; let user {} write it, or create it for that user, \
                 and open it again; until then log lines go to standard error",
                self.name(),
                rustix::process::geteuid().as_raw()
            );
            Sink::Stderr(std::io::stderr())
        });
        damage.torn &= identity(sink) == before;
    }

    /// Rotates the file if it is due. Returns whether it is locked now.
    fn rotate(&self, sink: &mut Sink, rotor: &mut Option<Rotor>, damage: &mut Damage) -> bool {
        let Some(rotor) = rotor else { return false };
        // Another process may rotate the file that this one has just opened, but hardly again and again.
        for _ in 0..8 {
            match sink {
                Sink::File(file) if file.metadata().is_ok_and(|file| file.is_file()) => {}
                _ => return false,
            }
            match rotor.turn(&*sink) {
                Turn::Write => return true,
                Turn::Next => self.open_again(sink, damage),
            }
        }
        false
    }

    /// Writes a buffer, first ending a line that a failure has torn.
    fn pass_on(
        &self,
        buffer: &mut Vec<u8>,
        damage: &mut Damage,
        write: impl FnOnce(&[u8]) -> (usize, std::io::Result<()>),
    ) {
        let mended = usize::from(damage.torn);
        if damage.torn {
            buffer.insert(0, b'\n');
        }
        let (written, outcome) = write(buffer);
        if let Some(last) = written.checked_sub(1) {
            damage.torn = buffer[last] != b'\n';
        }
        match outcome {
            Ok(()) if damage.lost > 0 && written == buffer.len() => {
                let lost = std::mem::take(&mut damage.lost);
                tracing::warn!("{} accepts log lines again; lost: {lost}", self.name());
            }
            Ok(()) => {}
            Err(error) => {
                if damage.lost == 0 {
                    tracing::error!(
                        "writing the log to {} failed: {error}; lines are lost",
                        self.name()
                    );
                }
                let rest = &buffer[written.max(mended)..];
                damage.lost += rest.iter().filter(|byte| **byte == b'\n').count() as u64;
            }
        }
    }

    fn name(&self) -> String {
        match &self.target {
            Target::File(path) => path.display().to_string(),
            Target::Stdout => "standard output".to_owned(),
            Target::Socket(socket) => socket.to_string(),
        }
    }
}

/// The file's identity; `None` if unknown.
fn identity(sink: &Sink) -> Option<(u64, u64)> {
    let stat = rustix::fs::fstat(sink).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

fn open(target: &Target) -> std::io::Result<Sink> {
    Ok(match target {
        Target::Stdout => Sink::Stdout(std::io::stdout()),
        Target::File(path) => Sink::File(append_to(path)?),
        Target::Socket(socket) => Sink::Socket(Sender::open(socket.clone(), "access")?),
    })
}

/// Opens a file for appending, and creates it if it does not exist.
///
/// # Errors
/// The system's; `NotConnected` for a named pipe without a reader.
pub fn append_to(path: &Path) -> std::io::Result<File> {
    // A pipe without a reader must be an error, not an endless wait.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut how = OpenOptions::new();
    how.create(true).append(true).custom_flags(flags);
    how.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) => std::io::Error::new(ErrorKind::NotConnected, "it is a pipe that nobody reads"),
        _ => error,
    })
}

/// Bytes of the file with this name; 0 if there is none, or if it is no regular file.
pub fn length_of(path: &Path) -> u64 {
    path.metadata()
        .ok()
        .filter(std::fs::Metadata::is_file)
        .map_or(0, |found| found.len())
}

impl Sink {
    /// Writes everything, waiting for the reader of the other end until that is given up. Returns the bytes written and
    /// the error.
    fn write(
        &mut self,
        bytes: &[u8],
        fields: Option<Fields>,
        abandoned: &AtomicBool,
    ) -> (usize, std::io::Result<()>) {
        let mut written = 0;
        let outcome = match self {
            Sink::Socket(sender) => send_lines(sender, bytes, fields, abandoned, &mut written),
            Sink::File(_) | Sink::Stdout(_) | Sink::Stderr(_) => {
                self.write_counting(bytes, abandoned, &mut written)
            }
        };
        (written, outcome)
    }

    fn write_counting(
        &mut self,
        bytes: &[u8],
        abandoned: &AtomicBool,
        total: &mut usize,
    ) -> std::io::Result<()> {
        let may_wait = match self {
            Sink::File(file) => !file.metadata()?.file_type().is_file(),
            Sink::Stdout(_) | Sink::Stderr(_) | Sink::Socket(_) => true,
        };
        for mut piece in Pieces(bytes, if may_wait { PIECE } else { usize::MAX }) {
            while !piece.is_empty() {
                if abandoned.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let ready = poll(
                    &mut [PollFd::new(&self.as_fd(), PollFlags::OUT)],
                    Some(&GIVE_UP_TICK),
                );
                match ready {
                    Ok(0) | Err(rustix::io::Errno::INTR) => {}
                    Ok(_) => match self.write_some(piece) {
                        Ok(written) => {
                            *total += written;
                            piece = &piece[written..];
                        }
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    },
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// One write; `Ok` means that at least one byte was written.
    fn write_some(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            let written = rustix::io::write(self.as_fd(), bytes);
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(rustix::io::Errno::INTR) => {}
                written => return Ok(written?),
            }
        }
    }
}

/// Sends each line as a datagram, waiting for the daemon until that is given up. Adds the bytes of whole lines to `total`.
fn send_lines(
    sender: &mut Sender,
    bytes: &[u8],
    fields: Option<Fields>,
    abandoned: &AtomicBool,
    total: &mut usize,
) -> std::io::Result<()> {
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        loop {
            if abandoned.load(Ordering::Relaxed) {
                return Ok(());
            }
            match sender.send(text, Severity::default(), fields) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // Its end is an error of the next attempt.
                    let _ = poll(&mut [PollFd::new(&*sender, PollFlags::OUT)], Some(&GIVE_UP_TICK));
                }
                Err(error) => return Err(error),
            }
        }
        *total += line.len();
    }
    Ok(())
}

/// Divides lines into parts of at most this length that end at line ends, as far as lines are not longer. A pipe
/// accepts each part whole, so several processes can write to one pipe and every line stays intact.
struct Pieces<'a>(&'a [u8], usize);

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let Pieces(left, most) = self;
        if left.is_empty() {
            return None;
        }
        let window = &left[..left.len().min(*most)];
        let line_end = window.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let (piece, rest) = left.split_at(line_end.unwrap_or(window.len()));
        *left = rest;
        Some(piece)
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Sink::File(file) => file.as_fd(),
            Sink::Stdout(out) => out.as_fd(),
            Sink::Socket(sender) => sender.as_fd(),
            Sink::Stderr(err) => err.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_queued_is_written_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = LogFile::open(Target::File(path.clone())).unwrap();
        let mut buffer = Vec::new();
        for line in 0..1000 {
            buffer.extend_from_slice(format!("{line}\n").as_bytes());
            let dropped;
            (buffer, dropped) = log.write(buffer);
            assert_eq!((buffer.len(), dropped), (0, 0));
        }
        finish(&log);
        let wanted: String = (0..1000).map(|line| format!("{line}\n")).collect();
        assert_eq!(std::fs::read_to_string(path).unwrap(), wanted);
    }

    /// A disk that accepts `room` bytes and then is full.
    #[test]
    fn a_torn_line_is_ended_before_the_next_begins_and_lost_lines_are_counted() {
        let shared = Shared {
            target: Target::File("log".into()),
            fields: None,
            queued_max: 0,
            queue: Mutex::default(),
            changed: Condvar::new(),
            abandoned: AtomicBool::new(false),
        };
        let (mut disk, mut damage) = (Vec::new(), Damage::default());
        let mut write = |lines: &str, room: usize| {
            shared.pass_on(&mut lines.into(), &mut damage, |bytes| {
                let written = bytes.len().min(room);
                disk.extend_from_slice(&bytes[..written]);
                match written == bytes.len() {
                    true => (written, Ok(())),
                    false => (written, Err(ErrorKind::StorageFull.into())),
                }
            });
            (damage.torn, damage.lost)
        };
        assert_eq!(write("one\ntwo\nthree\n", 6), (true, 2));
        assert_eq!(write("four\n", 0), (true, 3), "full still");
        assert_eq!(write("five\n", 1), (false, 4), "room for the line end alone");
        assert_eq!(write("six\nseven\n", 4), (false, 5), "cut between lines");
        assert_eq!(write("eight\n", 2), (true, 6));
        assert_eq!(write("nine\n", 99), (false, 0), "told");
        assert_eq!(write("ten\n", 99), (false, 0));
        assert_eq!(disk, b"one\ntw\nsix\nei\nnine\nten\n");
    }

    #[test]
    fn pieces_end_where_lines_do() {
        let pieces = |text: &'static str| -> Vec<&[u8]> { Pieces(text.as_bytes(), 4).collect() };
        assert_eq!(pieces("a\nb\nc\n"), [&b"a\nb\n"[..], b"c\n"]);
        assert_eq!(pieces("abc\nd\n"), [&b"abc\n"[..], b"d\n"]);
        assert_eq!(pieces("longer\nd"), [&b"long"[..], b"er\n", b"d"]);
        assert_eq!(pieces(""), [&b""[..]; 0]);
    }

    #[test]
    fn a_moved_file_is_made_anew_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("log"), dir.path().join("log.1"));
        let log = LogFile::open(Target::File(path.clone())).unwrap();
        log.write(b"old\n".to_vec());
        std::fs::rename(&path, &moved).unwrap();
        log.reopen();
        // The order is kept: lines queued before go to the old file, later ones to the new.
        while !path.exists() {
            std::thread::yield_now();
        }
        log.write(b"new\n".to_vec());
        finish(&log);
        assert_eq!(std::fs::read(moved).unwrap(), b"old\n");
        assert_eq!(std::fs::read(path).unwrap(), b"new\n");
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_an_error_or_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        let error = LogFile::open(Target::File(path.clone())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConnected);
        // Opened for both, so that there is a reader that does not read.
        let reader = File::options().read(true).write(true).open(&path).unwrap();
        let log = LogFile::open(Target::File(path)).unwrap();
        log.write(b"line\n".repeat(1 << 16));
        log.close();
        assert!(!log.is_finished(), "more than a pipe holds");
        log.abandon();
        finish(&log);
        drop(reader);
    }

    fn finish(log: &LogFile) {
        log.close();
        while !log.is_finished() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn past_the_bound_lines_are_dropped_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let log = LogFile::bounded(Target::File(dir.path().join("log")), None, None, Bytes(4)).unwrap();
        assert_eq!(log.write(b"a\nb\nc\n".to_vec()), (Vec::new(), 3));
        assert_eq!(log.write(b"ok\n".to_vec()).1, 0);
    }

    #[test]
    fn a_socket_gets_each_line_and_lines_that_it_missed_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let socket = format!("syslog:{}", path.display()).parse().unwrap();
        let daemon = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let log = LogFile::open(Target::Socket(socket)).unwrap();
        // More than the socket holds.
        log.write(b"line\n".repeat(1_000));
        let mut got = [0; 1024];
        for _ in 0..1_000 {
            let len = daemon.recv(&mut got).unwrap();
            assert!(got[..len].starts_with(b"<30>weir-access["));
            assert!(got[..len].ends_with(b"]: line"));
        }
        let mut sender = Sender::open(log.socket().unwrap(), "access").unwrap();
        drop(daemon);
        std::fs::remove_file(path).unwrap();
        let mut total = 0;
        let gone = AtomicBool::new(false);
        assert!(send_lines(&mut sender, b"a\nb\n", None, &gone, &mut total).is_err());
        assert_eq!(total, 0);
        finish(&log);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_an_error_at_once() {
        assert!(LogFile::open(Target::File("/nonexistent/dir/log".into())).is_err());
    }
}
