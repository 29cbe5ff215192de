//! Standard error for a running server: a slow or absent reader must not delay any response.
//!
//! Drops a line rather than wait, and reports afterwards how many were dropped. A pipe or terminal is opened again,
//! non-blocking (`O_NONBLOCK` on standard error itself would affect all processes that share it). A file is written to
//! directly; a socket is polled first. What lines mean is not known here.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a pipe with any room accepts in one piece (`PIPE_BUF`).
const PIECE: usize = 4096;

static WAY: OnceLock<Way> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);

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
pub struct Diagnostics;

impl Write for Diagnostics {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
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
