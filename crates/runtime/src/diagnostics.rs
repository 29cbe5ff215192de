//! Standard error for a running server: a slow or absent reader must not delay any response.
//!
//! Drops a line rather than wait, and reports afterwards how many were dropped. A pipe or terminal is opened again,
//! non-blocking (`O_NONBLOCK` on standard error itself would affect all processes that share it). A file is written to
//! directly; a socket is polled first. Messages of the log may go to a socket of a log daemon ([`send_to`]) or to a file
//! ([`append_to`]) instead; while it cannot be used, they go to standard error. What lines mean is not known here.

use crate::log_socket::{LogSocket, Sender, Severity};
use crate::logfile;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What a pipe with any room accepts in one piece (`PIPE_BUF`).
const PIECE: usize = 4096;

static WAY: OnceLock<Way> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);

/// Where messages of the log go instead.
static ELSEWHERE: OnceLock<Elsewhere> = OnceLock::new();

/// A place for messages of the log other than standard error.
enum Elsewhere {
    /// A log daemon, and the number of messages that it did not take in time.
    Daemon(Mutex<Sender>, AtomicU64),
    File(Mutex<MessageFile>),
}

/// A file to which messages are appended.
struct MessageFile {
    path: PathBuf,
    /// `None`: it could not be opened again.
    file: Option<File>,
    /// Whether it ends within a message, because only a part of that was written.
    is_torn: bool,
}

/// How standard error is written to.
enum Way {
    /// Through a file description of our own, which never blocks.
    Own(OwnedFd),
    /// Directly, after polling for room.
    Asked,
    /// Directly.
    File,
}

/// Standard error. Each call of `write` is one line. It never fails and, for pipes and terminals, never blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Diagnostics {
    /// Set for messages of the log, which may go elsewhere.
    severity: Option<Severity>,
}

impl Diagnostics {
    /// For messages of the log.
    pub fn of(severity: Severity) -> Diagnostics {
        Diagnostics {
            severity: Some(severity),
        }
    }
}

/// Sends messages of the log to this socket from now on. It can be set once in a process; processes that are forked have it.
///
/// # Errors
/// Why it cannot be used.
pub fn send_to(socket: LogSocket) -> io::Result<()> {
    let sender = Sender::open(socket, "server")?;
    let _ = ELSEWHERE.set(Elsewhere::Daemon(Mutex::new(sender), AtomicU64::new(0)));
    Ok(())
}

/// Appends messages of the log to this file from now on, and creates it if it does not exist. It can be set once in a process;
/// processes that are forked have it.
///
/// # Errors
/// Why it cannot be opened; `NotConnected` for a named pipe without a reader.
pub fn append_to(path: &Path) -> io::Result<()> {
    let _ = ELSEWHERE.set(Elsewhere::File(Mutex::new(MessageFile::open(path)?)));
    Ok(())
}

/// Opens the file of messages by its name again, for log rotation. Does nothing if messages go to no file.
///
/// # Errors
/// As [`append_to`]. Messages go to standard error then, until it can be opened.
pub fn reopen() -> io::Result<()> {
    match ELSEWHERE.get() {
        Some(Elsewhere::File(file)) => file.lock().unwrap_or_else(PoisonError::into_inner).reopen(),
        Some(Elsewhere::Daemon(..)) | None => Ok(()),
    }
}

impl Elsewhere {
    /// Takes a message. `false`: it must go to standard error.
    fn take(&self, severity: Severity, line: &[u8]) -> bool {
        match self {
            Elsewhere::Daemon(daemon, lost) => send(daemon, lost, severity, line),
            Elsewhere::File(file) => file
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .append(&colorless(line)),
        }
    }
}

impl MessageFile {
    fn open(path: &Path) -> io::Result<MessageFile> {
        Ok(MessageFile {
            file: Some(logfile::append_to(path)?),
            path: path.to_owned(),
            is_torn: false,
        })
    }

    fn reopen(&mut self) -> io::Result<()> {
        // The file that was renamed gets no more messages: a rotation may compress or remove it.
        self.file = None;
        self.file = Some(logfile::append_to(&self.path)?);
        Ok(())
    }

    /// Appends a message, behind the end of a line that a failure has torn. `false`: not all of it was written.
    fn append(&mut self, line: &[u8]) -> bool {
        let Some(file) = &self.file else { return false };
        let mended = [&b"\n"[..usize::from(self.is_torn)], line].concat();
        let mut rest = &mended[..];
        while !rest.is_empty() {
            match rustix::io::write(file, rest) {
                Ok(written) if written > 0 => rest = &rest[written..],
                Err(Errno::INTR) => {}
                _ => break,
            }
        }
        if let Some(last) = (mended.len() - rest.len()).checked_sub(1) {
            self.is_torn = mended[last] != b'\n';
        }
        rest.is_empty()
    }
}

/// Sends a message without waiting; one that the daemon does not take in time is counted, and the next one says how many
/// were. `false`: the daemon cannot be reached.
fn send(daemon: &Mutex<Sender>, lost: &AtomicU64, severity: Severity, line: &[u8]) -> bool {
    let mut daemon = daemon.lock().unwrap_or_else(PoisonError::into_inner);
    let before = lost.swap(0, Ordering::Relaxed);
    let mut count = before;
    let mut result = Ok(());
    if before > 0 {
        let word = format!("messages lost here: {before}, because the log daemon took no more");
        result = daemon.send(word.as_bytes(), Severity::Warning, None);
    }
    if result.is_ok() {
        count = 0;
        result = daemon.send(&bare(line), severity, None);
    }
    match result {
        Ok(()) => true,
        Err(error) => {
            let is_slow = error.kind() == io::ErrorKind::WouldBlock;
            lost.fetch_add(count + u64::from(is_slow), Ordering::Relaxed);
            is_slow
        }
    }
}

/// A line without the colors of a terminal.
fn colorless(line: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(line.len());
    let mut rest = line;
    while let [first, behind @ ..] = rest {
        rest = match (first, behind) {
            (0x1b, [b'[', colors @ ..]) => {
                let end = colors
                    .iter()
                    .position(|&b| b == b'm')
                    .map_or(colors.len(), |at| at + 1);
                &colors[end..]
            }
            _ => {
                text.push(*first);
                behind
            }
        };
    }
    text
}

/// A line without colors, time, level and line end, which daemons add. JSON stays as it is.
fn bare(line: &[u8]) -> Vec<u8> {
    let mut text = colorless(line.strip_suffix(b"\n").unwrap_or(line));
    let level = [&b" ERROR "[..], b" WARN ", b" INFO ", b" DEBUG ", b" TRACE "];
    let begins_with_time = text.first().is_some_and(u8::is_ascii_digit);
    let behind = level.iter().filter_map(|level| {
        let start = text
            .windows(level.len())
            .take(40)
            .position(|part| part == *level)?;
        Some(start + level.len())
    });
    match behind.min().filter(|_| begins_with_time) {
        Some(end) => text.split_off(end),
        None => text,
    }
}

impl Write for Diagnostics {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let (Some(severity), Some(elsewhere)) = (self.severity, ELSEWHERE.get())
            && elsewhere.take(severity, line)
        {
            return Ok(line.len());
        }
        let way = WAY.get_or_init(|| Way::to(rustix::stdio::stderr()));
        deliver(way, rustix::stdio::stderr(), &LOST, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Way {
    fn to(stderr: BorrowedFd<'_>) -> Way {
        let kind = rustix::fs::fstat(stderr).map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(FileType::RegularFile) => Way::File,
            // A socket cannot be opened that way, and a pipe or terminal of another user may be refused.
            _ => {
                let path = format!("/proc/self/fd/{}", stderr.as_raw_fd());
                let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                rustix::fs::open(path, flags, Mode::empty()).map_or(Way::Asked, Way::Own)
            }
        }
    }
}

/// Writes a line, after a report of lines lost before it; or counts it as lost, too.
fn deliver(way: &Way, stderr: BorrowedFd<'_>, lost: &AtomicU64, line: &[u8]) {
    let before = lost.swap(0, Ordering::Relaxed);
    let is_told = before == 0 || {
        let word = format!("lines lost here: {before}, because nothing read standard error\n");
        put(way, stderr, word.as_bytes())
    };
    if !is_told {
        lost.fetch_add(before + 1, Ordering::Relaxed);
    } else if !put(way, stderr, line) {
        lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether all of it was accepted.
fn put(way: &Way, stderr: BorrowedFd<'_>, line: &[u8]) -> bool {
    line.chunks(PIECE).all(|piece| {
        let (fd, may) = match way {
            Way::Own(own) => (own.as_fd(), true),
            Way::File => (stderr, true),
            Way::Asked => (stderr, has_room(stderr)),
        };
        may && put_piece(fd, piece)
    })
}

fn put_piece(fd: BorrowedFd<'_>, mut piece: &[u8]) -> bool {
    while !piece.is_empty() {
        match rustix::io::write(fd, piece) {
            Ok(written) if written > 0 => piece = &piece[written..],
            Err(rustix::io::Errno::INTR) => {}
            _ => return false,
        }
    }
    true
}

fn has_room(fd: BorrowedFd<'_>) -> bool {
    let mut asked = [PollFd::new(&fd, PollFlags::OUT)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut asked, Some(&now)), Ok(1)) && asked[0].revents().contains(PollFlags::OUT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// Lines that are not accepted are dropped and counted; the next accepted line is preceded by their number.
    fn fills_up(reader: &mut impl Read, writer: BorrowedFd<'_>) {
        let (way, lost) = (Way::to(writer), AtomicU64::new(0));
        let line = [[b'x'; 99].as_slice(), b"\n"].concat();
        let mut sent = 0;
        while lost.load(Ordering::Relaxed) == 0 {
            deliver(&way, writer, &lost, &line);
            sent += 1;
            assert!(sent < 1_000_000, "it takes everything");
        }
        let mut taken = vec![0; 64 << 10];
        let count = reader.read(&mut taken).unwrap();
        assert!(count > 0);
        deliver(&way, writer, &lost, b"at last\n");
        assert_eq!(lost.load(Ordering::Relaxed), 0);
        let mut rest = Vec::new();
        while !rest.ends_with(b"at last\n") {
            let count = reader.read(&mut taken).unwrap();
            rest.extend_from_slice(&taken[..count]);
        }
        let rest = String::from_utf8(rest).unwrap();
        assert!(
            rest.contains("lines lost here: 1,"),
            "{}",
            &rest[rest.len() - 200..]
        );
    }

    #[test]
    fn a_daemon_gets_the_message_alone() {
        for (line, text) in [
            ("2026-11-28T09:00:00.000001Z  INFO a WARN b\n", "a WARN b"),
            (
                "\x1b[2m2026-11-28T09:00:00.000001Z\x1b[0m \x1b[33m WARN\x1b[0m c: d\n",
                "c: d",
            ),
            ("{\"level\":\" INFO \"}\n", "{\"level\":\" INFO \"}"),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(bare(line.as_bytes()), text.as_bytes());
        }
    }

    #[test]
    fn a_slow_daemon_costs_lines_that_are_counted_and_one_that_is_gone_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let daemon = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let socket = format!("syslog:{}", path.display()).parse().unwrap();
        let sender = Mutex::new(Sender::open(socket, "server").unwrap());
        let lost = AtomicU64::new(0);
        let mut sent = 0;
        while lost.load(Ordering::Relaxed) == 0 {
            assert!(send(&sender, &lost, Severity::Warning, b"line\n"));
            sent += 1;
            assert!(sent < 1_000_000, "it takes everything");
        }
        let mut got = [0; 1024];
        for _ in 1..sent {
            let len = daemon.recv(&mut got).unwrap();
            assert!(got[..len].ends_with(b": line"));
        }
        assert!(send(&sender, &lost, Severity::Error, b"next\n"));
        let len = daemon.recv(&mut got).unwrap();
        let text = String::from_utf8_lossy(&got[..len]).into_owned();
        assert!(text.contains("messages lost here: 1,"), "{text}");
        let len = daemon.recv(&mut got).unwrap();
        assert!(got[..len].starts_with(b"<27>weir-server[") && got[..len].ends_with(b": next"));
        drop(daemon);
        assert!(!send(&sender, &lost, Severity::Error, b"to standard error\n"));
        assert_eq!(lost.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_file_gets_whole_messages_and_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("log"), dir.path().join("log.1"));
        std::fs::write(&path, "before\n").unwrap();
        let mut file = MessageFile::open(&path).unwrap();
        assert!(file.append(b"one\n"));
        file.is_torn = true;
        assert!(file.append(b"two\n") && file.append(b"three\n"));
        std::fs::rename(&path, &moved).unwrap();
        assert!(file.append(b"four\n"));
        file.reopen().unwrap();
        assert!(file.append(b"five\n"));
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(&moved), "before\none\n\ntwo\nthree\nfour\n");
        assert_eq!(read(&path), "five\n");
        // It cannot be opened by its name, and later it can.
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(file.reopen().is_err() && !file.append(b"to standard error\n"));
        std::fs::remove_dir(&path).unwrap();
        file.reopen().unwrap();
        assert!(file.append(b"six\n"));
        assert_eq!(read(&path), "six\n");
    }

    #[test]
    fn a_full_disk_and_a_full_pipe_take_no_message() {
        let mut full = MessageFile::open(Path::new("/dev/full")).unwrap();
        assert!(!full.append(b"line\n") && !full.is_torn);
        assert!(MessageFile::open(Path::new("/nonexistent/dir/log")).is_err());
        let (reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let mut pipe = MessageFile::open(Path::new(&path)).unwrap();
        let line = [[b'x'; 999].as_slice(), b"\n"].concat();
        while pipe.append(&line) {}
        assert!(!pipe.is_torn);
        drop(reader);
    }

    #[test]
    fn a_file_gets_no_colors() {
        let line = b"\x1b[2m2026-11-28T09:00:00Z\x1b[0m \x1b[33m WARN\x1b[0m c: d\n";
        assert_eq!(colorless(line), b"2026-11-28T09:00:00Z  WARN c: d\n");
    }

    #[test]
    fn a_pipe_that_nobody_empties_holds_nobody_up() {
        let (mut reader, writer) = io::pipe().unwrap();
        assert!(matches!(Way::to(writer.as_fd()), Way::Own(_)));
        fills_up(&mut reader, writer.as_fd());
    }

    #[test]
    fn nor_does_a_socket() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        assert!(matches!(Way::to(writer.as_fd()), Way::Asked));
        fills_up(&mut reader, writer.as_fd());
    }

    #[test]
    fn a_pipe_whose_reader_is_gone_costs_a_line() {
        let (reader, writer) = io::pipe().unwrap();
        let (way, lost) = (Way::to(writer.as_fd()), AtomicU64::new(0));
        drop(reader);
        deliver(&way, writer.as_fd(), &lost, b"to nobody\n");
        assert_eq!(lost.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_file_is_added_to_and_not_begun_anew() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut shared = file.reopen().unwrap();
        shared.write_all(b"before\n").unwrap();
        let (way, lost) = (Way::to(shared.as_fd()), AtomicU64::new(0));
        deliver(&way, shared.as_fd(), &lost, b"after\n");
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "before\nafter\n");
    }
}
