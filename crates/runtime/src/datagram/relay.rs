//! Channels to other processes that receive from the same UDP sockets: worker processes of this program, and those of another
//! program, such as the predecessor in an upgrade in place.
//!
//! ```text
//!   UDP socket ─▶ this process ── the datagram names process 0x0702 ──▶ relay to program 7 ══▶ one of its processes
//!                                                                                                  ║ if it is not 0x0702
//!                                                                                   inbox of 0x0702 ◀╝
//! ```
//! The number of a process is that of its program (high byte) and its own among the processes of that program (low byte). A
//! relay leads to a program, whose processes all read the other end: whoever has the datagram passes it on to the inbox of
//! its process. So two programs need one channel, however many processes each has.
//!
//! A channel is a socket pair that preserves messages. A message has the sender's address and ECN field before the payload.
//! The kernel bounds the bytes under way; a datagram that does not fit is lost, as it may be anywhere. Which process a
//! datagram belongs to is decided elsewhere.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType,
    recvmsg, sendmsg, socketpair, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes before a payload: ECN field, address family, port, scope (RFC 4007), address.
const HEAD: usize = 24;

/// Bytes of a message at most.
const ROOM: usize = HEAD + u16::MAX as usize;

/// Bytes under way to a process, if `net.core.wmem_max` permits so many; the kernel counts its bookkeeping, too.
const UNDER_WAY_MAX: usize = 4 << 20;

/// One end of a channel to another process, or to the processes of another program.
#[derive(Debug)]
pub struct Relay {
    process: u16,
    channel: OwnedFd,
}

/// The other processes that share UDP sockets with one.
#[derive(Debug, Default)]
pub struct Others {
    /// Leads to other programs. At most [`RELAYS_MAX`](super::RELAYS_MAX) are kept, those added last.
    pub programs: Vec<Relay>,
    /// Further processes of this program; none if it is the only one.
    pub siblings: Option<Siblings>,
}

/// The processes of one program, as one of them sees them.
#[derive(Debug)]
pub struct Siblings {
    /// Where the others put the datagrams of this process.
    pub inbox: Relay,
    /// The ways to the inboxes of all processes. As that to its own is among them, no process ever finds its inbox closed.
    pub ways: Vec<Relay>,
}

/// What became of a datagram for another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// The other process will read it.
    Sent,
    /// It is lost: too much is under way.
    Full,
    /// It is lost: the other process has closed its end.
    Gone,
}

/// What a relay had to read.
#[derive(Debug)]
pub(super) enum Arrived<'b> {
    /// A datagram: payload, sender, ECN field.
    Datagram(&'b mut [u8], SocketAddr, u8),
    /// A message that is none.
    Odd,
    /// Nothing now.
    Nothing,
    /// The other process has closed its end.
    Gone,
}

impl Relay {
    /// The two ends of a new channel: this process keeps the first, which leads to `process`, and gives the second away. To
    /// lead to a program of several processes, `process` is the last of them.
    ///
    /// # Errors
    /// What the system says to descriptors.
    pub fn pair(process: u16) -> io::Result<(Relay, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for end in [&ours, &theirs] {
            // The kernel gives less if its limit is lower.
            let _ = sockopt::set_socket_send_buffer_size(end, UNDER_WAY_MAX);
        }
        let ours = Relay {
            process,
            channel: ours,
        };
        Ok((ours, theirs))
    }

    /// The way to the inbox of `process`, and the inbox.
    ///
    /// # Errors
    /// What the system says to descriptors.
    pub fn inbox(process: u16) -> io::Result<(Relay, Relay)> {
        let (way, inbox) = Relay::pair(process)?;
        Ok((way, Relay::adopt(process, inbox)))
    }

    /// An end that another process gave, which leads to `process`.
    pub fn adopt(process: u16, channel: OwnedFd) -> Relay {
        Relay { process, channel }
    }

    /// The process that it leads to, or the last of those.
    pub fn process(&self) -> u16 {
        self.process
    }

    /// Whether it leads to the program of this process.
    pub fn is_of_program(&self, process: u16) -> bool {
        program(self.process) == program(process)
    }

    /// Whether it leads to this process, if it leads to a program. Processes beyond the last do not exist: a datagram that
    /// names one has the number by chance.
    pub(super) fn leads_to(&self, process: u16) -> bool {
        self.is_of_program(process) && process <= self.process
    }

    /// The same end again, for a third process.
    ///
    /// # Errors
    /// What the system says to descriptors.
    pub fn channel(&self) -> io::Result<OwnedFd> {
        self.channel.try_clone()
    }

    /// Whether a process holds the other end.
    pub fn is_held(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.channel, PollFlags::empty())];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        !matches!(poll(&mut fds, Some(&at_once)), Ok(1..))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Passes a datagram on, without waiting.
    pub(super) fn pass(&self, payload: &[u8], from: SocketAddr, ecn: u8) -> Passed {
        let head = head(from, ecn);
        let pieces = [IoSlice::new(&head), IoSlice::new(payload)];
        loop {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            return match sendmsg(&self.channel, &pieces, &mut SendAncillaryBuffer::default(), flags) {
                Ok(_) => Passed::Sent,
                Err(Errno::INTR) => continue,
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Passed::Gone,
                Err(_) => Passed::Full,
            };
        }
    }

    /// Reads one datagram into `room`, without waiting.
    pub(super) fn read<'b>(&self, room: &'b mut Room) -> Arrived<'b> {
        let length = loop {
            let mut pieces = [IoSliceMut::new(&mut room.0)];
            let mut control = RecvAncillaryBuffer::default();
            match recvmsg(&self.channel, &mut pieces, &mut control, RecvFlags::DONTWAIT) {
                Ok(message) if message.bytes == 0 => return Arrived::Gone,
                Ok(message) => break message.bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return Arrived::Nothing,
                Err(_) => return Arrived::Gone,
            }
        };
        let Some((head, payload)) = room
            .0
            .get_mut(..length)
            .and_then(<[u8]>::split_first_chunk_mut::<HEAD>)
        else {
            return Arrived::Odd;
        };
        match sender(head) {
            Some((from, ecn)) if !payload.is_empty() => Arrived::Datagram(payload, from, ecn),
            _ => Arrived::Odd,
        }
    }
}

/// Memory for one message.
pub(super) struct Room(Vec<u8>);

impl Room {
    pub(super) fn new() -> Room {
        Room(vec![0; ROOM])
    }
}

/// The program's part of a process's number.
fn program(process: u16) -> u16 {
    process >> 8
}

fn head(from: SocketAddr, ecn: u8) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[0] = ecn;
    head[2..4].copy_from_slice(&from.port().to_be_bytes());
    match from {
        SocketAddr::V4(from) => {
            head[1] = 4;
            head[8..12].copy_from_slice(&from.ip().octets());
        }
        SocketAddr::V6(from) => {
            head[1] = 6;
            head[4..8].copy_from_slice(&from.scope_id().to_be_bytes());
            head[8..].copy_from_slice(&from.ip().octets());
        }
    }
    head
}

fn sender(head: &[u8; HEAD]) -> Option<(SocketAddr, u8)> {
    let [ecn, family, port_high, port_low, rest @ ..] = *head;
    let (scope, address) = rest.split_first_chunk::<4>()?;
    let port = u16::from_be_bytes([port_high, port_low]);
    let from = match family {
        4 => {
            let octets: [u8; 4] = *address.first_chunk()?;
            SocketAddr::new(IpAddr::V4(Ipv4Addr::from(octets)), port)
        }
        6 => {
            let octets: [u8; 16] = *address.first_chunk()?;
            let scope = u32::from_be_bytes(*scope);
            SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope).into()
        }
        _ => return None,
    };
    (ecn <= 3).then_some((from, ecn))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Relay, Relay) {
        let (ours, theirs) = Relay::pair(7).expect("a channel");
        (ours, Relay::adopt(6, theirs))
    }

    #[test]
    fn datagrams_arrive_with_their_sender() {
        let (to_7, to_6) = pair();
        let mut room = Room::new();
        let scoped = SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, 3).into();
        for (from, ecn) in [
            ("192.0.2.1:443".parse().unwrap(), 0),
            ("[2001:db8::1]:1".parse().unwrap(), 3),
            (scoped, 2),
        ] {
            assert_eq!(to_7.pass(b"payload", from, ecn), Passed::Sent);
            let Arrived::Datagram(payload, its, field) = to_6.read(&mut room) else {
                panic!("a datagram was sent")
            };
            assert_eq!((&*payload, its, field), (&b"payload"[..], from, ecn));
        }
        assert!(matches!(to_6.read(&mut room), Arrived::Nothing));
        let largest = vec![1; u16::MAX as usize];
        assert_eq!(to_6.pass(&largest, scoped, 0), Passed::Sent);
        let Arrived::Datagram(payload, ..) = to_7.read(&mut room) else {
            panic!("a datagram was sent")
        };
        assert!(*payload == *largest);
    }

    #[test]
    fn a_relay_leads_to_the_processes_of_a_program() {
        let (to_program, _) = Relay::pair(0x0702).expect("a channel");
        let led =
            [0x0600, 0x0602, 0x0700, 0x0702, 0x0703, 0x07ff, 0x0800].map(|one| to_program.leads_to(one));
        assert_eq!(led, [false, false, true, true, false, false, false]);
        assert!(to_program.is_of_program(0x07ff) && !to_program.is_of_program(0x0802));
        let (to_single, _) = Relay::pair(0x0100).expect("a channel");
        assert!(to_single.leads_to(0x0100) && !to_single.leads_to(0x0101));
    }

    #[test]
    fn bytes_under_way_are_bounded_and_an_end_is_noticed() {
        let (to_7, to_6) = pair();
        let from = "192.0.2.1:443".parse().unwrap();
        let mut sent = 0;
        while to_7.pass(&[0; 1_200], from, 0) == Passed::Sent {
            sent += 1;
            assert!(sent * 1_200 <= 2 * UNDER_WAY_MAX, "no bound");
        }
        assert!(sent > 16, "{sent}");
        assert_eq!(to_7.pass(&[0; 1_200], from, 0), Passed::Full);
        let mut room = Room::new();
        assert!(matches!(to_6.read(&mut room), Arrived::Datagram(..)));
        assert!(to_7.is_held());
        drop(to_6);
        assert!(!to_7.is_held());
        assert_eq!(to_7.pass(b"late", from, 0), Passed::Gone);
        assert!(matches!(to_7.read(&mut room), Arrived::Gone));
    }

    #[test]
    fn messages_that_are_no_datagrams_are_told_apart() {
        let (to_7, to_6) = pair();
        let mut room = Room::new();
        let good = head("192.0.2.1:443".parse().unwrap(), 1);
        let (mut family, mut ecn) = (good, good);
        family[1] = 5;
        ecn[0] = 4;
        for odd in [
            &b"short"[..],
            &good,
            &[&family[..], b"x"].concat(),
            &[&ecn[..], b"x"].concat(),
        ] {
            let sent = sendmsg(
                &to_7.channel,
                &[IoSlice::new(odd)],
                &mut SendAncillaryBuffer::default(),
                SendFlags::NOSIGNAL,
            );
            assert_eq!(sent, Ok(odd.len()));
            assert!(matches!(to_6.read(&mut room), Arrived::Odd), "{odd:?}");
        }
    }
}
