//! A pipe through which a worker sends files, one connection after another.
//!
//! ```text
//!   file ── splice ──▶ pipe ── splice ──▶ socket
//!                       └─▶ dropped: what the socket had no room for. It is taken from the file again later
//! ```
//! sendfile(2) does the same with a pipe of 64 KiB in the kernel, and hands over each 64 KiB by themselves. With a longer
//! pipe, TCP gets more at a time and takes less processor time for it (docs/performance.md). Only references to pages of
//! the file are in the pipe, not their bytes. It is empty between two sends, so all connections of a worker share it.

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::os::fd::{AsFd, OwnedFd};

/// Bytes of a file in the pipe at most: 128 pages.
pub(super) const CAPACITY: usize = 512 << 10;
/// Bytes in the pipe of sendfile(2): for no more than these, a pipe of our own gains nothing.
pub(super) const IN_SENDFILE: usize = 64 << 10;

/// The pipe of a worker. It is opened for the first file that is long enough.
#[derive(Debug, Default)]
pub(super) enum Conduit {
    #[default]
    Unopened,
    /// Its ends, to read from and to write to.
    Open(OwnedFd, OwnedFd),
    /// The system allows this user no pipe of that length (pipe(7): `/proc/sys/fs/pipe-user-pages-soft`).
    Refused,
}

/// Why a send failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    File(Errno),
    /// Also `AGAIN`: the socket has no room for a single byte.
    Socket(Errno),
}

impl Conduit {
    /// Sends up to `len` bytes of a file from `offset` on, as many as the socket has room for, and returns their number; 0 if
    /// the file ends there. `None` if there is no pipe: use sendfile(2).
    pub(super) fn send(
        &mut self,
        file: impl AsFd,
        mut offset: u64,
        len: usize,
        socket: &OwnedFd,
    ) -> Option<Result<usize, Trouble>> {
        let (from, into) = self.ends()?;
        let len = len.min(CAPACITY);
        let held = match splice(file, Some(&mut offset), into, None, len, SpliceFlags::NONBLOCK) {
            Ok(held) => held,
            Err(errno) => return Some(Err(Trouble::File(errno))),
        };
        let mut sent = 0;
        let mut failed = None;
        while sent < held {
            match splice(from, None, socket, None, held - sent, SpliceFlags::NONBLOCK) {
                // Not the end of the file, which 0 means to the caller.
                Ok(0) => {
                    failed = Some(Errno::IO);
                    break;
                }
                Ok(n) => sent += n,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    failed = Some(errno);
                    break;
                }
            }
        }
        if sent < held {
            // No call empties a pipe without reading it.
            *self = Conduit::Unopened;
        }
        Some(match failed {
            // What the next call says is soon enough.
            Some(errno) if sent == 0 => Err(Trouble::Socket(errno)),
            _ => Ok(sent),
        })
    }

    fn ends(&mut self) -> Option<(&OwnedFd, &OwnedFd)> {
        if matches!(self, Conduit::Unopened) {
            // Without descriptors, sendfile(2) does it; there may be some for the next file.
            let (from, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
            *self = match fcntl_setpipe_size(&into, CAPACITY) {
                Ok(_) => Conduit::Open(from, into),
                Err(_) => Conduit::Refused,
            };
        }
        match self {
            Conduit::Open(from, into) => Some((from, into)),
            Conduit::Unopened | Conduit::Refused => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    use std::io::{Read, Write};

    fn sockets() -> (OwnedFd, std::os::unix::net::UnixStream) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (near, far) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        (near, far.into())
    }

    fn file_of(len: usize) -> (std::fs::File, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|at| (at / 7 % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        (file, bytes)
    }

    #[test]
    fn what_a_socket_does_not_take_is_sent_later_and_nothing_of_it_to_others() {
        let (file, bytes) = file_of(700_000);
        let mut conduit = Conduit::default();
        let (near, mut far) = sockets();
        let (other, mut other_far) = sockets();
        let (mut came, mut at) = (Vec::new(), 0);
        let mut blocked = 0;
        while at < bytes.len() {
            match conduit.send(&file, at as u64, bytes.len() - at, &near).unwrap() {
                Ok(n) => at += n,
                Err(trouble) => {
                    assert_eq!(trouble, Trouble::Socket(Errno::AGAIN));
                    blocked += 1;
                    // The bytes of another connection, while those of the first were in the pipe.
                    assert_eq!(conduit.send(&file, 5, 3, &other).unwrap(), Ok(3));
                    let mut buf = vec![0; 100_000];
                    let n = far.read(&mut buf).unwrap();
                    came.extend_from_slice(&buf[..n]);
                }
            }
        }
        assert!(blocked > 0, "the socket took everything");
        drop(near);
        far.read_to_end(&mut came).unwrap();
        assert!(came == bytes, "{} bytes came, not those of the file", came.len());
        drop(other);
        let mut came = Vec::new();
        other_far.read_to_end(&mut came).unwrap();
        assert_eq!(came, bytes[5..8].repeat(blocked));
    }

    #[test]
    fn the_end_of_the_file_and_failures_of_either_side_are_told_apart() {
        let (file, _) = file_of(1000);
        let mut conduit = Conduit::default();
        let (near, far) = sockets();
        assert_eq!(conduit.send(&file, 1000, 10, &near).unwrap(), Ok(0));
        assert_eq!(conduit.send(&file, 990, 100, &near).unwrap(), Ok(10));
        let folder = std::fs::File::open("/").unwrap();
        assert!(matches!(
            conduit.send(&folder, 0, 10, &near).unwrap(),
            Err(Trouble::File(_))
        ));
        drop(far);
        assert_eq!(
            conduit.send(&file, 0, 10, &near).unwrap(),
            Err(Trouble::Socket(Errno::PIPE))
        );
        assert!(Conduit::Refused.send(&file, 0, 10, &near).is_none());
    }
}
