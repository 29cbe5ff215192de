//! Receiving and sending on one socket without waiting: what epoll and the blocking back end share.

use super::{Buf, Out};
use crate::session::{Body, FileRange, Loss};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags};
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Bytes of a file sent between two looks at whether the next ones are in memory.
const FILE_CHUNK: u64 = 1 << 20;
/// Bytes one connection may send before the others have their turn.
const SEND_MAX: u64 = 4 << 20;

/// What a receive found.
#[derive(Debug)]
pub(super) enum Received {
    /// Bytes; `all` if there were no more at that moment.
    Bytes {
        all: bool,
    },
    Eof,
    Nothing,
    Lost(Loss),
}

/// Receives what is there into `buf`.
#[inline]
pub(super) fn receive(fd: &OwnedFd, buf: &mut Buf) -> Received {
    loop {
        return match rustix::net::recv(fd, &mut *buf.bytes, RecvFlags::empty()) {
            Ok((0, _)) => Received::Eof,
            Ok((n, _)) => {
                buf.len = n;
                Received::Bytes {
                    all: n < buf.bytes.len(),
                }
            }
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Received::Nothing,
            Err(errno) => Received::Lost(Loss::Socket(errno.raw_os_error())),
        };
    }
}

/// Takes a waiting connection: `Ok(None)` if there is none.
pub(crate) fn accept(listener: &OwnedFd) -> Result<Option<(OwnedFd, SocketAddr)>, i32> {
    loop {
        match rustix::net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((fd, peer)) => {
                let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                // The kernel always tells; an unknown family cannot come from these listeners.
                return Ok(Some((
                    fd,
                    peer.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)),
                )));
            }
            // The peer went away while it waited; there may be others.
            Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(errno) => return Err(errno.raw_os_error()),
        }
    }
}

/// How far a send came.
#[derive(Debug)]
pub(super) enum Pushed {
    /// Everything went.
    All,
    /// The kernel takes no more for now.
    Blocked,
    /// The connection has had its share; the kernel would take more.
    Enough,
    /// The next bytes are on disk.
    Cold(FileRange),
    Lost(Loss),
}

/// Whether reading the file may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    /// Never: say `Cold` instead.
    Ask,
    /// Not for the next chunk: it was just read in. (Nor asked, so that a machine that drops pages as
    /// fast as they are read still makes progress.)
    Warmed,
    /// As long as it takes.
    Wait,
}

/// Hands as much of `out` to the kernel as it takes.
#[inline]
pub(super) fn push(fd: &OwnedFd, out: &mut Out, disk: Disk) -> Pushed {
    loop {
        let head = out.head_left();
        let sent = match &out.tx.body {
            None if head.is_empty() => return Pushed::All,
            None => rustix::net::send(fd, head, SendFlags::NOSIGNAL),
            Some(Body::Bytes(body)) => match (head.is_empty(), body.is_empty()) {
                (true, true) => return Pushed::All,
                (true, false) => rustix::net::send(fd, body, SendFlags::NOSIGNAL),
                (false, _) => {
                    let pieces = [IoSlice::new(head), IoSlice::new(body)];
                    let mut control = SendAncillaryBuffer::default();
                    rustix::net::sendmsg(fd, &pieces, &mut control, SendFlags::NOSIGNAL)
                }
            },
            Some(Body::File(range)) if head.is_empty() || range.len == 0 => {
                if head.is_empty() {
                    return push_file(fd, out, disk);
                }
                rustix::net::send(fd, head, SendFlags::NOSIGNAL)
            }
            // MORE: the first bytes of the file join the head's segment.
            Some(Body::File(_)) => rustix::net::send(fd, head, SendFlags::NOSIGNAL | SendFlags::MORE),
        };
        match sent {
            Ok(n) => out.advance(n),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Pushed::Blocked,
            Err(errno) => return Pushed::Lost(Loss::Socket(errno.raw_os_error())),
        }
    }
}

fn push_file(fd: &OwnedFd, out: &mut Out, mut disk: Disk) -> Pushed {
    let mut share = SEND_MAX;
    loop {
        let Some(Body::File(range)) = &out.tx.body else {
            return Pushed::All;
        };
        if range.len == 0 {
            return Pushed::All;
        }
        if share == 0 {
            return Pushed::Enough;
        }
        let chunk = range.len.min(FILE_CHUNK).min(share);
        match disk {
            Disk::Ask if !range.file.is_resident(range.offset, chunk) => {
                return Pushed::Cold(FileRange {
                    file: Arc::clone(&range.file),
                    offset: range.offset,
                    len: chunk,
                });
            }
            Disk::Warmed => disk = Disk::Ask,
            Disk::Ask | Disk::Wait => {}
        }
        let mut offset = range.offset;
        match rustix::fs::sendfile(fd, range.file.as_fd(), Some(&mut offset), chunk as usize) {
            // The file was cut while it was being sent.
            Ok(0) => return Pushed::Lost(Loss::File(0)),
            Ok(n) => {
                share -= (n as u64).min(share);
                out.advance(n);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Pushed::Blocked,
            Err(errno @ Errno::IO) => return Pushed::Lost(Loss::File(errno.raw_os_error())),
            Err(errno) => return Pushed::Lost(Loss::Socket(errno.raw_os_error())),
        }
    }
}

/// Gives back the memory that a blocked connection does not need: it keeps what is unsent.
pub(super) fn shrink(out: &mut Out) {
    let left = out.head_left();
    if out.tx.head.capacity() > 2 * left.len() + 64 {
        out.tx.head = left.to_vec();
        out.head_sent = 0;
    }
}
