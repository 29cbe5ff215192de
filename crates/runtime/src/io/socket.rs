//! Non-blocking receives and sends on one socket, shared by the back ends.

use super::conduit::{self, Conduit, Trouble};
use super::{Buf, Out};
use crate::buffer::Outgoing;
use crate::fs::{ReadError, Wait};
use crate::listen::UNIX_PEER;
use crate::lock_calls;
use crate::manner::Writing;
use crate::peer::{PeerLoss, Upstream};
use crate::session::{Body, FileRange, Loss};
use crate::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    sockopt,
};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Bytes of a file sent between two checks whether the next ones are in memory.
const FILE_CHUNK: u64 = 1 << 20;
/// Bytes one connection may send before others have their turn.
const SEND_MAX: u64 = 4 << 20;

/// A file with at least this many bytes left goes through the pipe of the worker, in segments that wait until they are full.
const LONG: u64 = 128 << 10;

/// Maximum bytes discarded per call.
const DISCARD_MAX: usize = 1 << 30;

/// Bytes copied per call when files are copied.
const COPY_CHUNK: u64 = 64 << 10;

/// The result of a receive.
#[derive(Debug)]
pub(super) enum Received {
    /// Bytes; `all` if the socket was empty afterwards.
    Bytes {
        all: bool,
    },
    Eof,
    Nothing,
    Lost(Loss),
}

/// Receives available bytes into `buf`, at most `most`.
#[inline]
pub(super) fn receive(fd: &OwnedFd, buf: &mut Buf, most: usize) -> Received {
    loop {
        return match rustix::net::recv(fd, &mut buf.bytes[..most], RecvFlags::empty()) {
            Ok((0, _)) => Received::Eof,
            Ok((n, _)) => {
                buf.len = n;
                Received::Bytes { all: n < most }
            }
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Received::Nothing,
            Err(errno) => Received::Lost(Loss::Socket(errno.raw_os_error())),
        };
    }
}

/// Discards available bytes, at most `most`; returns the number first.
#[inline]
pub(super) fn discard(fd: &OwnedFd, most: u64) -> (u64, Received) {
    let most = usize::try_from(most).unwrap_or(usize::MAX).min(DISCARD_MAX);
    loop {
        return match sys::discard(fd.as_fd(), most) {
            Ok(0) => (0, Received::Eof),
            Ok(n) => (n as u64, Received::Bytes { all: n < most }),
            Err(error) => match error.raw_os_error().unwrap_or(0) {
                libc::EINTR => continue,
                libc::EAGAIN => (0, Received::Nothing),
                errno => (0, Received::Lost(Loss::Socket(errno))),
            },
        };
    }
}

/// Makes closing the socket's last descriptor send a reset and drop queued data (`SO_LINGER` of zero, socket(7)).
pub(super) fn reset_when_closed(fd: &OwnedFd) {
    // Fails only for something that is not a socket; closing it is then all there is to do.
    let _ = rustix::net::sockopt::set_socket_linger(fd, Some(std::time::Duration::ZERO));
}

/// Accepts a waiting connection; `Ok(None)` if there is none.
pub(crate) fn accept(listener: &OwnedFd) -> Result<Option<(OwnedFd, SocketAddr)>, i32> {
    loop {
        match rustix::net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((fd, peer)) => {
                let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                // The kernel always reports the address of TCP, and the only other family is that of Unix sockets.
                return Ok(Some((fd, peer.unwrap_or(UNIX_PEER))));
            }
            // The peer left while it waited; there may be others.
            Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(errno) => return Err(errno.raw_os_error()),
        }
    }
}

/// Starts to open a connection.
pub(crate) fn open(to: &Upstream) -> Result<OwnedFd, PeerLoss> {
    let here = |errno: Errno| PeerLoss::Here(errno.raw_os_error());
    let opening = |errno: Errno| PeerLoss::Opening(errno.raw_os_error());
    let family = match to {
        Upstream::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
        Upstream::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
        Upstream::Unix(_) | Upstream::Local(_) => AddressFamily::UNIX,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None).map_err(here)?;
    if let Upstream::Tcp(_) = to {
        sockopt::set_tcp_nodelay(&fd, true).map_err(here)?;
    }
    loop {
        let connected = match to {
            Upstream::Tcp(address) => rustix::net::connect(&fd, address),
            Upstream::Unix(path) => {
                let address = SocketAddrUnix::new(path).map_err(opening)?;
                rustix::net::connect(&fd, &address)
            }
            Upstream::Local(name) => {
                let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(opening)?;
                rustix::net::connect(&fd, &address)
            }
        };
        return match connected {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
            Err(Errno::INTR) => continue,
            // No free port (connect(2)); at a Unix socket, a full accept queue, which is the peer's.
            Err(Errno::AGAIN) if family != AddressFamily::UNIX => Err(here(Errno::AGAIN)),
            Err(errno @ (Errno::ADDRNOTAVAIL | Errno::NOBUFS | Errno::NOMEM)) => Err(here(errno)),
            Err(errno) => Err(opening(errno)),
        };
    }
}

/// Whether a connection that was being opened is open, or the errno it failed with; `None` while it is being opened.
pub(super) fn opened(fd: &OwnedFd) -> Option<Result<(), i32>> {
    match sockopt::socket_error(fd) {
        Ok(Ok(())) => {}
        Ok(Err(errno)) | Err(errno) => return Some(Err(errno.raw_os_error())),
    }
    match rustix::net::getpeername(fd) {
        Ok(_) => Some(Ok(())),
        Err(Errno::NOTCONN) => None,
        Err(errno) => Some(Err(errno.raw_os_error())),
    }
}

/// Whether a connection waits in this listener's accept queue.
pub(crate) fn is_awaited(listener: &OwnedFd) -> bool {
    let at_once = Timespec::default();
    poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Whether nothing has arrived on this connection: neither bytes nor its end, and no failure. `false` if that cannot be
/// told.
pub(super) fn is_quiet(fd: &OwnedFd) -> bool {
    let at_once = Timespec::default();
    let wanted = PollFlags::IN | PollFlags::RDHUP;
    poll(&mut [PollFd::new(fd, wanted)], Some(&at_once)) == Ok(0)
}

/// Whether the other end has closed its half of this connection or reset it (poll(2): `POLLRDHUP`, and `POLLHUP` and `POLLERR`,
/// which are always reported). Input may still wait. `false` if that cannot be told.
pub(super) fn has_hung_up(fd: &OwnedFd) -> bool {
    let at_once = Timespec::default();
    poll(&mut [PollFd::new(fd, PollFlags::RDHUP)], Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// The kernel's send buffer of a connection under memory pressure, in bytes; the kernel uses as much again for its own
/// structures. Without a limit, a peer that reads nothing can hold megabytes, all counted in a control group of version
/// 2.
const PRESSED_SEND_BUFFER: usize = 32 << 10;
const PRESSED_RECEIVE_BUFFER: usize = 16 << 10;

/// Makes the kernel use a small send buffer for a connection from now on.
#[cold]
pub(super) fn press(fd: &OwnedFd) {
    // Fails only for something that is not a socket; the buffer then stays as it is.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(fd, PRESSED_SEND_BUFFER);
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(fd, PRESSED_RECEIVE_BUFFER);
}

/// Bytes of a connection that the kernel holds before their first transmission (`TCP_NOTSENT_LOWAT`, tcp(7)): it says that
/// it has room below half of them, which is a packet and a half.
const UNSENT: usize = 4 << 10;

/// Makes the kernel hold few unsent bytes of a connection from now on.
#[cold]
pub(super) fn keep_shallow(fd: &OwnedFd) {
    // Fails only for something that is not TCP; what is sent then waits behind more. A line's rate may ask for less.
    if sys::unsent_bound(fd.as_fd()).is_none_or(|bound| bound > UNSENT) {
        let _ = sys::bound_unsent(fd.as_fd(), UNSENT);
    }
}

/// Whether the kernel has sent nearly all it has of a connection with [`keep_shallow`]; if not, it tells when. Without
/// being asked, it adds to the last unsent packet until that has 64 KiB, whatever the bound.
fn has_room(fd: &OwnedFd) -> bool {
    let at_once = Timespec::default();
    poll(&mut [PollFd::new(fd, PollFlags::OUT)], Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// The result of a send.
#[derive(Debug)]
pub(super) enum Pushed {
    /// Everything was sent.
    All,
    /// The socket's send buffer is full.
    Blocked,
    /// The connection used up its share or its grant; the kernel would accept more.
    Enough,
    /// The next bytes are on disk.
    Cold(FileRange),
    Lost(Loss),
}

/// Whether reading the file may block on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    /// Never: return `Cold` instead.
    Ask,
    /// Not for the next chunk, which was just read in. It is not checked again, so that a machine that evicts pages as
    /// fast as it reads them still makes progress.
    Warmed,
    /// Yes.
    Wait,
}

/// The grant without a limit.
pub(super) const ALL: u64 = u64::MAX;

/// Hands as much of `out` to the kernel as it accepts, up to `granted` bytes. Long files go through `conduit`, if there is one.
#[inline]
pub(super) fn push(
    fd: &OwnedFd,
    out: &mut Out,
    disk: Disk,
    granted: u64,
    conduit: Option<&mut Conduit>,
) -> Pushed {
    if out.is_patient && !has_room(fd) {
        return Pushed::Blocked;
    }
    if let Some(Body::File(range)) = &out.tx.body
        && range.len >= LONG
        && granted == ALL
        && out.writing.is_free()
        && !out.is_corked
    {
        // Else the end of each call's bytes would be a segment of its own. Fails only for something that is not TCP.
        out.is_corked = sockopt::set_tcp_cork(fd, true).is_ok();
    }
    let pushed = hand_over(fd, out, disk, granted, conduit);
    // The next bytes follow as soon as there is room, or when others had their turn: no segment waits for long.
    if out.is_corked && !matches!(pushed, Pushed::Blocked | Pushed::Enough) {
        let _ = sockopt::set_tcp_cork(fd, false);
        out.is_corked = false;
    }
    pushed
}

#[inline]
fn hand_over(fd: &OwnedFd, out: &mut Out, disk: Disk, granted: u64, conduit: Option<&mut Conduit>) -> Pushed {
    let mut room = granted;
    loop {
        if room == 0 {
            return match out.is_sent() {
                true => Pushed::All,
                false => Pushed::Enough,
            };
        }
        let Writing { split_head, most, .. } = out.writing;
        let most = most.min(usize::try_from(room).unwrap_or(usize::MAX));
        let head = cut(out.head_left(), most);
        let sent = match &out.tx.body {
            None if head.is_empty() => return Pushed::All,
            None => rustix::net::send(fd, head, SendFlags::NOSIGNAL),
            Some(Body::Bytes(body)) => match (head.is_empty(), body.is_empty()) {
                (true, true) => return Pushed::All,
                (true, false) => rustix::net::send(fd, cut(body, most), SendFlags::NOSIGNAL),
                (false, _) if split_head => rustix::net::send(fd, head, SendFlags::NOSIGNAL),
                (false, _) => {
                    let pieces = [IoSlice::new(head), IoSlice::new(cut(body, most - head.len()))];
                    let mut control = SendAncillaryBuffer::default();
                    rustix::net::sendmsg(fd, &pieces, &mut control, SendFlags::NOSIGNAL)
                }
            },
            Some(Body::File(_)) if head.is_empty() => return push_file(fd, out, disk, room, conduit),
            // Nothing of the file may follow now, and the head must not wait for it.
            Some(Body::File(range)) if range.len == 0 || split_head || head.len() as u64 == room => {
                rustix::net::send(fd, head, SendFlags::NOSIGNAL)
            }
            // MORE: the first bytes of the file join the head's segment.
            Some(Body::File(_)) => rustix::net::send(fd, head, SendFlags::NOSIGNAL | SendFlags::MORE),
        };
        match sent {
            // The end of most responses: they are a head that the kernel takes whole.
            Ok(n) if out.tx.body.is_none() && n == out.head_left().len() => {
                out.head_sent += n;
                return Pushed::All;
            }
            Ok(n) => {
                room -= n as u64;
                out.advance(n);
                rest(out);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Pushed::Blocked,
            Err(errno) => return Pushed::Lost(Loss::Socket(errno.raw_os_error())),
        }
    }
}

fn push_file(
    fd: &OwnedFd,
    out: &mut Out,
    mut disk: Disk,
    granted: u64,
    mut conduit: Option<&mut Conduit>,
) -> Pushed {
    let mut share = SEND_MAX.min(granted);
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
        let chunk = match out.writing.copies {
            true => range.len.min(COPY_CHUNK).min(share),
            false => range.len.min(FILE_CHUNK).min(share),
        };
        let chunk = chunk.min(out.writing.most as u64);
        // While bytes are missing, the client knows that the response is incomplete.
        if range.len <= chunk && out.unchecked >= FILE_CHUNK {
            if !range.file.has_same_content() {
                return Pushed::Lost(range.lost(Loss::CHANGED));
            }
            out.unchecked = 0;
        }
        match disk {
            Disk::Ask if !range.file.was_resident(range.offset, chunk) => {
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
        let sent = if out.writing.copies {
            match range.file.read_all(offset, chunk as usize, Wait::Block) {
                Ok(bytes) if bytes.is_empty() => Ok(0),
                Ok(bytes) => rustix::net::send(fd, &bytes, SendFlags::NOSIGNAL),
                Err(ReadError::WouldBlock) => {
                    return Pushed::Lost(range.lost(Loss::File(Errno::AGAIN.raw_os_error())));
                }
                Err(ReadError::Io(errno)) => return Pushed::Lost(range.lost(Loss::File(errno))),
            }
        } else if let Some(sent) = through(conduit.as_deref_mut(), fd, range, chunk, out) {
            match sent {
                Err(Trouble::File(errno)) if errno != Errno::INTR => {
                    return Pushed::Lost(range.lost(Loss::File(errno.raw_os_error())));
                }
                Err(Trouble::File(errno) | Trouble::Socket(errno)) => Err(errno),
                Ok(n) => Ok(n),
            }
        } else {
            rustix::fs::sendfile(fd, range.file.as_fd(), Some(&mut offset), chunk as usize)
        };
        match sent {
            // The file was truncated while it was sent.
            Ok(0) => return Pushed::Lost(range.lost(Loss::File(0))),
            Ok(n) => {
                out.at_once = (2 * n).clamp(conduit::IN_SENDFILE, conduit::CAPACITY);
                share -= (n as u64).min(share);
                out.advance(n);
                out.unchecked += n as u64;
                rest(out);
                // A range sent by one call was checked right before it. After the call, a client that has all of it may
                // already cause the next content to be written.
                if let Some(Body::File(range)) = &out.tx.body
                    && range.len == 0
                    && out.unchecked > n as u64
                    && !range.file.has_same_content()
                {
                    // The last bytes are already sent: a reset tells the client not to trust them.
                    let _ = rustix::net::sockopt::set_socket_linger(fd, Some(std::time::Duration::ZERO));
                    return Pushed::Lost(range.lost(Loss::CHANGED));
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                out.at_once = conduit::IN_SENDFILE;
                return Pushed::Blocked;
            }
            Err(errno @ Errno::IO) => return Pushed::Lost(range.lost(Loss::File(errno.raw_os_error()))),
            Err(errno) => return Pushed::Lost(Loss::Socket(errno.raw_os_error())),
        }
    }
}

/// Sends bytes of a long file through the pipe: at most twice as many as the socket took from the last call, so that a slow
/// reader costs little in vain. `None`: sendfile(2) is as good.
#[inline]
fn through(
    conduit: Option<&mut Conduit>,
    fd: &OwnedFd,
    range: &FileRange,
    chunk: u64,
    out: &Out,
) -> Option<Result<usize, Trouble>> {
    let chunk = usize::try_from(chunk).unwrap_or(usize::MAX).min(out.at_once);
    if !out.is_corked || chunk <= conduit::IN_SENDFILE {
        return None;
    }
    conduit?.send(range.file.as_fd(), range.offset, chunk, fd)
}

/// The pause that [`Writing::pause`] asks for, if bytes are left for another call.
#[inline]
fn rest(out: &Out) {
    if !out.writing.pause.is_zero() && !out.is_sent() {
        lock_calls::hold_for(out.writing.pause);
    }
}

#[inline]
fn cut(bytes: &[u8], most: usize) -> &[u8] {
    bytes.get(..most).unwrap_or(bytes)
}

/// Frees memory that a blocked connection does not need; keeps the unsent part.
pub(super) fn shrink(out: &mut Out) {
    let left = out.head_left();
    if out.tx.head.capacity() > 2 * left.len() + 64 {
        out.tx.head = left.to_vec();
        out.head_sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use rustix::net::{AddressFamily, SocketType};

    /// The bytes of each call: these sockets preserve the boundaries between calls.
    fn calls(writing: Writing, body: Option<Body>) -> Vec<Vec<u8>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (near, far) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let mut out = Out::new(writing);
        out.tx.head.extend_from_slice(b"the head, ");
        out.tx.body = body;
        assert!(matches!(
            push(&near, &mut out, Disk::Wait, ALL, None),
            Pushed::All
        ));
        assert!(out.is_sent());
        drop(near);
        let mut calls = Vec::new();
        let mut buf = Buf::new();
        while let Received::Bytes { .. } = receive(&far, &mut buf, Buf::CAPACITY) {
            calls.push(buf.filled().to_vec());
        }
        calls
    }

    fn lengths(writing: Writing, body: &Body) -> Vec<usize> {
        let calls = calls(writing, Some(body.clone()));
        assert_eq!(calls.concat(), b"the head, and the body that follows it");
        calls.iter().map(Vec::len).collect()
    }

    fn file_of(bytes: &[u8]) -> FileRange {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("body"), bytes).unwrap();
        let how = crate::fs::How {
            symlinks: crate::fs::Symlinks::Refuse,
            wait: Wait::Block,
        };
        let root = crate::fs::Root::open(folder.path()).unwrap();
        FileRange {
            file: Arc::new(root.open_file(b"body", how).unwrap()),
            offset: 0,
            len: bytes.len() as u64,
        }
    }

    /// Sends a head and a file over TCP to a client that reads only when the server has to wait. Returns what it read, and how
    /// often segments were held back when the server had to wait and when it was done.
    fn over_tcp(body: &[u8], mut conduit: Option<Conduit>) -> (Vec<u8>, usize, usize) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        let near = OwnedFd::from(near);
        let mut out = Out::new(Writing::default());
        out.tx.head.extend_from_slice(b"the head, ");
        out.tx.body = Some(Body::File(file_of(body)));
        let (mut came, mut held_meanwhile) = (Vec::new(), 0);
        loop {
            match push(&near, &mut out, Disk::Wait, ALL, conduit.as_mut()) {
                Pushed::All => break,
                Pushed::Enough => {}
                Pushed::Blocked => {
                    held_meanwhile += usize::from(sockopt::tcp_cork(&near).unwrap());
                    let mut buf = vec![0; 1 << 20];
                    let n = std::io::Read::read(&mut far, &mut buf).unwrap();
                    came.extend_from_slice(&buf[..n]);
                }
                pushed => panic!("{pushed:?}"),
            }
        }
        let held_after = usize::from(sockopt::tcp_cork(&near).unwrap());
        drop(near);
        std::io::Read::read_to_end(&mut far, &mut came).unwrap();
        (came, held_meanwhile, held_after)
    }

    #[test]
    fn segments_of_a_long_file_wait_until_they_are_full_and_none_waits_at_its_end() {
        let long: Vec<u8> = (0..9_000_001).map(|at: usize| (at / 11 % 251) as u8).collect();
        for conduit in [Some(Conduit::default()), Some(Conduit::Refused), None] {
            let (came, meanwhile, after) = over_tcp(&long, conduit);
            assert!(
                came == [&b"the head, "[..], &long].concat(),
                "{} bytes, not those sent",
                came.len()
            );
            assert!(meanwhile > 0, "the server never waited, or held nothing back");
            assert_eq!(after, 0);
        }
        let short = &long[..1000];
        assert_eq!(
            over_tcp(short, Some(Conduit::default())),
            ([b"the head, ", short].concat(), 0, 0)
        );
    }

    #[test]
    fn output_is_cut_as_it_is_to_be() {
        let free = Writing::default();
        let split = Writing {
            split_head: true,
            ..free
        };
        let small = Writing { most: 8, ..free };
        let memory = Body::Bytes(Bytes::from_static(b"and the body that follows it"));
        assert_eq!(lengths(free, &memory), [38]);
        assert_eq!(lengths(split, &memory), [10, 28]);
        assert_eq!(lengths(small, &memory), [8, 8, 8, 8, 6]);
        let file = Body::File(file_of(b"and the body that follows it"));
        for copies in [true, false] {
            let of_file = |writing| lengths(Writing { copies, ..writing }, &file);
            assert_eq!(of_file(free), [10, 28]);
            assert_eq!(of_file(split), [10, 28]);
            assert_eq!(of_file(small), [8, 2, 8, 8, 8, 4]);
        }
        assert_eq!(calls(small, None), [&b"the head"[..], b", "]);
    }
}
