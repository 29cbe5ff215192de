//! Datagrams in batches: `recvmmsg(2)` with receive offload (`UDP_GRO`), `sendmsg(2)` with segmentation (`UDP_SEGMENT`), the
//! ECN field of each (RFC 3168), and the local address of each (`IP_PKTINFO`). udp(7), ip(7), ipv6(7), `linux/udp.h`.
//!
//! An [`Arrivals`] owns the memory that the kernel writes to; what it hands out is borrowed from it.

use super::options::{get, set, set_following};
use super::seccomp::Instruction;
use socket2::SockAddr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Messages that one call receives; with receive offload each may be many datagrams.
const BATCH: usize = 16;
/// Room for one message: the most that the kernel joins.
const ROOM: usize = 65_535;
/// Words of ancillary data: a segment size, an ECN field and a local address of each family, with their headers (24, 24, 32
/// and 40 bytes).
const CONTROL: usize = 16;

/// The errors that Linux makes of ICMP and ICMPv6 messages (`icmp_err_convert`, `icmpv6_err_convert`).
const NETWORK_ERRORS: [i32; 9] = [
    libc::EACCES,
    libc::ECONNREFUSED,
    libc::EHOSTDOWN,
    libc::EHOSTUNREACH,
    libc::EMSGSIZE,
    libc::ENETUNREACH,
    libc::ENONET,
    libc::ENOPROTOOPT,
    libc::EPROTO,
];

const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;

/// Has the kernel join datagrams of one sender that arrive together, and report the ECN field. With `reports_local`, also the
/// local address that a datagram was sent to, for sockets that receive at several. What a kernel does not offer is left out.
pub fn prepare_datagrams(fd: BorrowedFd<'_>, reports_local: bool) {
    let _ = set(fd, libc::SOL_UDP, UDP_GRO, 1);
    let _ = set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
    let _ = set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
    if reports_local {
        let _ = set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1);
        let _ = set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1);
    }
}

/// Forbids fragments of IPv4 datagrams sent from here: one that is longer than the path takes fails with `EMSGSIZE`.
///
/// # Errors
/// The system's.
pub fn forbid_fragments(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
}

/// Forbids fragments of datagrams sent from here, for protocols that find out themselves what a path takes (QUIC: RFC 9000
/// section 14). What is longer is lost on the way, and only what the interface does not take fails with `EMSGSIZE`. Left out
/// where the system does not offer it.
pub fn probe_paths(fd: BorrowedFd<'_>) {
    let _ = set(
        fd,
        libc::IPPROTO_IP,
        libc::IP_MTU_DISCOVER,
        libc::IP_PMTUDISC_PROBE,
    );
    let _ = set(
        fd,
        libc::IPPROTO_IPV6,
        libc::IPV6_MTU_DISCOVER,
        libc::IPV6_PMTUDISC_PROBE,
    );
}

/// Whether the kernel knows `UDP_SEGMENT` (udp(7), Linux 4.18): one call then sends several datagrams. A device may refuse them
/// still.
pub fn knows_segments(fd: BorrowedFd<'_>) -> bool {
    get::<libc::c_int>(fd, libc::SOL_UDP, UDP_SEGMENT).is_ok()
}

/// `SO_ATTACH_REUSEPORT_CBPF`: this program, which sees the payload of a datagram, returns the index of the socket that gets
/// it, of those that share the address of this one.
///
/// # Errors
/// `EINVAL` for a socket that shares its address with none, or a program that is not valid; `ENOPROTOOPT` from a kernel
/// without it.
pub(crate) fn attach_steering(fd: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: `filter` points to `program` with its length, which outlives the call, in which the kernel copies it and does
    // not write to it.
    unsafe { set_following(fd, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &filter) }
}

/// `SO_DETACH_REUSEPORT_BPF` (Linux 5.3): takes the program away from this socket and those that share its address.
///
/// # Errors
/// `ENOENT` if there is none, `ENOPROTOOPT` from an older kernel, and the system's others.
pub(crate) fn detach_steering(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF, 0)
}

/// Sends without checksums over IPv4 from here on. Linux then refuses to segment (`EINVAL`), as it does where a device or a
/// tunnel cannot (`EIO`).
#[cfg(test)]
pub(crate) fn leave_out_checksums(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)
}

/// The largest packet, in bytes with its headers, that the path of this connected socket is known to take: the MTU of the
/// interface, or less after an ICMP message.
///
/// # Errors
/// The system's, if the socket is not connected.
pub fn path_mtu(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let bytes: libc::c_int = get(fd, libc::IPPROTO_IP, libc::IP_MTU)?;
    Ok(u32::try_from(bytes).unwrap_or(0))
}

/// A message that arrived.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    length: usize,
    from: SocketAddr,
    /// Bytes of each datagram in it.
    segment: usize,
    told: Told,
}

/// What the ancillary data of a message tell.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Bytes of each datagram, if the message is several.
    segment: Option<usize>,
    /// The ECN field.
    ecn: u8,
    /// The local address it was sent to, if the kernel was asked for it.
    local: Option<IpAddr>,
}

/// A datagram that arrived.
#[derive(Debug)]
pub struct Datagram<'b> {
    /// Its payload.
    pub bytes: &'b mut [u8],
    /// Its sender.
    pub from: SocketAddr,
    /// The address of this host that it was sent to, if the socket receives at several and the kernel was asked for it
    /// ([`prepare_datagrams`]).
    pub local: Option<IpAddr>,
    /// The ECN field of its IP header (RFC 3168 section 5): 0 to 3.
    pub ecn: u8,
}

/// Where a payload is sent, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The receiver.
    pub to: SocketAddr,
    /// The address of this host to send from: the one that the receiver knows. None: the system chooses.
    pub local: Option<IpAddr>,
    /// The ECN field to send with: 0 to 3.
    pub ecn: u8,
    /// Bytes of each datagram if the payload is several of equal size, the last of which may be shorter (`UDP_SEGMENT`,
    /// udp(7)). None: one datagram.
    pub segment: Option<u16>,
}

impl Address {
    /// One datagram without an ECN mark, from an address that the system chooses.
    pub const fn to(to: SocketAddr) -> Address {
        Address {
            to,
            local: None,
            ecn: 0,
            segment: None,
        }
    }
}

/// Memory for datagrams that are received together.
pub struct Arrivals {
    data: Vec<u8>,
    got: Vec<Arrival>,
    network_error: Option<i32>,
}

impl Arrivals {
    /// Room for one call's messages: 1 MiB, of which only what is used is ever touched.
    #[allow(
        clippy::new_without_default,
        reason = "it is 1 MiB: nobody should make one by accident"
    )]
    pub fn new() -> Arrivals {
        Arrivals {
            data: vec![0; BATCH * ROOM],
            got: Vec::with_capacity(BATCH),
            network_error: None,
        }
    }

    /// What an ICMP message about an earlier send has told the last call, as errno: `ECONNREFUSED` if no program receives
    /// at the peer's port, `EMSGSIZE` if the datagram was too long for the path. Only connected sockets get these.
    pub fn network_error(&self) -> Option<i32> {
        self.network_error
    }

    /// Receives what is there, without waiting; whether there may be more.
    ///
    /// # Errors
    /// The system's, except for those of the network: see [`Arrivals::network_error`].
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        self.got.clear();
        self.network_error = None;
        // SAFETY: these are made of integers and pointers, for which zero is a value.
        let (mut heads, mut names): ([libc::mmsghdr; BATCH], [libc::sockaddr_storage; BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let mut pieces = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; BATCH];
        let mut control = [[0_u64; CONTROL]; BATCH];
        for (k, room) in self.data.chunks_exact_mut(ROOM).enumerate() {
            pieces[k].iov_base = room.as_mut_ptr().cast();
            pieces[k].iov_len = room.len();
            let head = &mut heads[k].msg_hdr;
            head.msg_name = (&raw mut names[k]).cast();
            head.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            head.msg_iov = &raw mut pieces[k];
            head.msg_iovlen = 1;
            head.msg_control = control[k].as_mut_ptr().cast();
            head.msg_controllen = size_of_val(&control[k]) as _;
        }
        // SAFETY: every head points to a name, an iovec and control memory of this frame and to a part of `self.data`, as long
        // as said and all disjoint, which nobody else uses during the call.
        let n = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                heads.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let Ok(n) = usize::try_from(n) else {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN) => Ok(false),
                Some(libc::EINTR) => Ok(true),
                Some(errno) if NETWORK_ERRORS.contains(&errno) => {
                    self.network_error = Some(errno);
                    Ok(true)
                }
                _ => Err(error),
            };
        };
        for (head, name) in heads[..n].iter().zip(names) {
            let length = (head.msg_len as usize).min(ROOM);
            // SAFETY: the kernel wrote an address of this length into the storage.
            let name = unsafe { SockAddr::new(name.into_storage(), head.msg_hdr.msg_namelen) };
            let Some(from) = name.as_socket() else { continue };
            let told = ancillary(&head.msg_hdr);
            let segment = told.segment.filter(|&bytes| bytes > 0);
            self.got.push(Arrival {
                length,
                from,
                segment: segment.unwrap_or(length).max(1),
                told,
            });
        }
        Ok(n == BATCH)
    }

    /// The datagrams of the last call, in their order; an empty one is a datagram, too.
    pub fn datagrams(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        let rooms = self.data.chunks_exact_mut(ROOM);
        rooms.zip(&self.got).flat_map(|(room, arrival)| {
            let (empty, bytes) = room[..arrival.length].split_at_mut(0);
            // Nothing has no chunks.
            let empty = bytes.is_empty().then_some(empty);
            bytes
                .chunks_mut(arrival.segment)
                .chain(empty)
                .map(|bytes| Datagram {
                    bytes,
                    from: arrival.from,
                    local: arrival.told.local,
                    ecn: arrival.told.ecn,
                })
        })
    }
}

/// Storage of the kernel's address as `socket2` has it.
trait AsStorage {
    fn into_storage(self) -> socket2::SockAddrStorage;
}

impl AsStorage for libc::sockaddr_storage {
    fn into_storage(self) -> socket2::SockAddrStorage {
        let mut storage = socket2::SockAddrStorage::zeroed();
        // SAFETY: the storage is a `sockaddr_storage`, plain memory for which every value is one.
        unsafe { *storage.view_as::<libc::sockaddr_storage>() = self };
        storage
    }
}

/// Reads the ancillary data of a message.
fn ancillary(head: &libc::msghdr) -> Told {
    let mut told = Told::default();
    // SAFETY: the kernel filled the control memory of `head`, which is alive and aligned for cmsghdr; the macros walk within
    // the length it set, and each value is as long as its header says, read unaligned.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(head);
        while !at.is_null() {
            let data = libc::CMSG_DATA(at);
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::SOL_UDP, UDP_GRO) => {
                    let size: libc::c_int = std::ptr::read_unaligned(data.cast());
                    told.segment = usize::try_from(size).ok();
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => told.ecn = std::ptr::read_unaligned(data) & 3,
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    let class: libc::c_int = std::ptr::read_unaligned(data.cast());
                    told.ecn = (class & 3) as u8;
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info: libc::in_pktinfo = std::ptr::read_unaligned(data.cast());
                    // Of a packet to a broadcast address, the first is one that can be a source. It is missing if the packet came
                    // before the kernel was asked for it.
                    let known = match info.ipi_spec_dst.s_addr {
                        0 => info.ipi_addr.s_addr,
                        source => source,
                    };
                    told.local = Some(Ipv4Addr::from(u32::from_be(known)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info: libc::in6_pktinfo = std::ptr::read_unaligned(data.cast());
                    let local = IpAddr::from(info.ipi6_addr.s6_addr).to_canonical();
                    // Of a packet over IPv4, the other one counts, whichever comes first.
                    told.local = told.local.or(Some(local));
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(head, at);
        }
    }
    told
}

/// Sends one payload without waiting: one datagram, or several of [`Address::segment`] bytes each.
///
/// # Errors
/// What the system says: `EAGAIN` if the socket takes nothing now, `EIO` or `EINVAL` where segments are not offered, `EINVAL`
/// if the host has lost the local address.
pub fn send_datagrams(fd: BorrowedFd<'_>, address: Address, bytes: &[u8]) -> io::Result<()> {
    let to = address.to;
    let to_v4 = to.ip().to_canonical().is_ipv4();
    let name = SockAddr::from(to);
    let mut piece = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control::default();
    if let Some(segment) = address
        .segment
        .filter(|&segment| usize::from(segment) < bytes.len())
    {
        control.put(libc::SOL_UDP, UDP_SEGMENT, &segment.to_ne_bytes());
    }
    if address.ecn != 0 {
        let (level, name) = match to_v4 {
            true => (libc::IPPROTO_IP, libc::IP_TOS),
            false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        control.put(level, name, &libc::c_int::from(address.ecn & 3).to_ne_bytes());
    }
    match address.local.map(|local| local.to_canonical()) {
        // `struct in_pktinfo`: any interface, the source, and a field that counts on receipt only.
        Some(IpAddr::V4(local)) if to_v4 => {
            let info = [[0; 4], local.octets(), [0; 4]];
            control.put(libc::IPPROTO_IP, libc::IP_PKTINFO, info.as_flattened());
        }
        // `struct in6_pktinfo`: the source, and any interface.
        Some(IpAddr::V6(local)) if !to_v4 => {
            let mut info = [0; 20];
            info[..16].copy_from_slice(&local.octets());
            control.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        }
        _ => {}
    }
    // SAFETY: msghdr is made of integers and pointers, for which zero is a value.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_name = name.as_ptr().cast_mut().cast();
    head.msg_namelen = name.len();
    head.msg_iov = &raw mut piece;
    head.msg_iovlen = 1;
    if control.used > 0 {
        head.msg_control = control.words.as_mut_ptr().cast();
        head.msg_controllen = control.used as _;
    }
    // SAFETY: the head points to a name, an iovec and control memory that outlive the call, in which the kernel only reads.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const head, libc::MSG_DONTWAIT) };
    match sent {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Ancillary data of a message to be sent, in memory aligned for its headers.
#[derive(Default)]
struct Control {
    words: [u64; CONTROL],
    /// Bytes of it.
    used: usize,
}

impl Control {
    /// Appends a value, for which there is room: see [`CONTROL`].
    fn put(&mut self, level: libc::c_int, name: libc::c_int, value: &[u8]) {
        let length = value.len() as u32;
        // SAFETY: it computes with a number.
        let (whole, space) = unsafe { (libc::CMSG_LEN(length), libc::CMSG_SPACE(length) as usize) };
        assert!(self.used + space <= size_of_val(&self.words), "no room");
        // SAFETY: `used` is a sum of spaces, so that the place is aligned for a header, and header and value fit as asserted.
        unsafe {
            let at = self
                .words
                .as_mut_ptr()
                .byte_add(self.used)
                .cast::<libc::cmsghdr>();
            (*at).cmsg_level = level;
            (*at).cmsg_type = name;
            (*at).cmsg_len = whole as _;
            std::ptr::copy_nonoverlapping(value.as_ptr(), libc::CMSG_DATA(at), value.len());
        }
        self.used += space;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn exchange(host: &str, segment: Option<u16>, ecn: u8) -> Option<Vec<(Vec<u8>, u8)>> {
        let receiver = UdpSocket::bind((host, 0)).ok()?;
        let sender = UdpSocket::bind((host, 0)).ok()?;
        prepare_datagrams(receiver.as_fd(), false);
        let to = Address {
            ecn,
            segment,
            ..Address::to(receiver.local_addr().ok()?)
        };
        send_datagrams(sender.as_fd(), to, b"one-two-three").ok()?;
        receiver.set_nonblocking(true).ok()?;
        // Waits until something is there.
        receiver
            .set_read_timeout(Some(std::time::Duration::from_secs(60)))
            .ok()?;
        let mut arrivals = Arrivals::new();
        let mut got = Vec::new();
        while got
            .iter()
            .map(|(bytes, _): &(Vec<u8>, u8)| bytes.len())
            .sum::<usize>()
            < 13
        {
            let mut poll = [rustix::event::PollFd::new(
                &receiver,
                rustix::event::PollFlags::IN,
            )];
            rustix::event::poll(&mut poll, None).ok()?;
            arrivals.receive(receiver.as_fd()).ok()?;
            let sender = sender.local_addr().ok()?;
            got.extend(arrivals.datagrams().map(|datagram| {
                assert_eq!((datagram.from, datagram.local), (sender, None));
                (datagram.bytes.to_vec(), datagram.ecn)
            }));
        }
        Some(got)
    }

    #[test]
    fn paths_are_probed_without_fragments() {
        let four = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        probe_paths(four.as_fd());
        let is: libc::c_int = get(four.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER).expect("an option");
        assert_eq!(is, libc::IP_PMTUDISC_PROBE);
        let Ok(six) = UdpSocket::bind("[::1]:0") else {
            println!("skipped: no IPv6 here");
            return;
        };
        probe_paths(six.as_fd());
        let is: libc::c_int =
            get(six.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER).expect("an option");
        assert_eq!(is, libc::IPV6_PMTUDISC_PROBE);
    }

    #[test]
    fn payloads_segments_and_ecn_arrive() {
        for host in ["127.0.0.1", "::1"] {
            let Some(whole) = exchange(host, None, 2) else {
                println!("skipped: no UDP over {host}");
                continue;
            };
            assert_eq!(whole, [(b"one-two-three".to_vec(), 2)], "{host}");
            let segments = exchange(host, Some(4), 1).expect("segments on loopback");
            let expected: Vec<_> = [&b"one-"[..], b"two-", b"thre", b"e"]
                .map(|bytes| (bytes.to_vec(), 1))
                .into();
            assert_eq!(segments, expected, "{host}");
        }
    }

    /// A host with several addresses answers from the one that was asked, also over IPv4 on a socket of both families.
    #[test]
    fn a_socket_of_all_addresses_answers_from_the_one_that_was_asked() {
        let bind = |all: &str| {
            let all: SocketAddr = all.parse().expect("an address");
            let socket = socket2::Socket::new(socket2::Domain::for_address(all), socket2::Type::DGRAM, None)?;
            if all.is_ipv6() {
                socket.set_only_v6(false)?;
            }
            socket.bind(&all.into())?;
            io::Result::Ok(UdpSocket::from(socket))
        };
        for (all, asked, client) in [
            ("0.0.0.0:0", "127.0.0.9", "127.0.0.1:0"),
            ("[::]:0", "127.0.0.9", "127.0.0.1:0"),
            ("[::]:0", "::1", "[::1]:0"),
        ] {
            let (Ok(server), Ok(client)) = (bind(all), UdpSocket::bind(client)) else {
                println!("skipped: no UDP over {all} to {asked}");
                continue;
            };
            prepare_datagrams(server.as_fd(), true);
            let asked: IpAddr = asked.parse().expect("an address");
            let port = server.local_addr().expect("an address").port();
            // It takes answers from there only.
            client.connect((asked, port)).expect("a route");
            client.send(b"question").expect("a send");
            let mut poll = [rustix::event::PollFd::new(&server, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut poll, None).expect("something to read");
            let mut arrivals = Arrivals::new();
            arrivals.receive(server.as_fd()).expect("a receive");
            let datagram = arrivals.datagrams().next().expect("a datagram");
            assert_eq!(datagram.local, Some(asked), "{all}");
            let address = Address {
                to: datagram.from,
                local: datagram.local,
                ecn: 2,
                segment: Some(3),
            };
            send_datagrams(server.as_fd(), address, b"one-two").expect("a send");
            client
                .set_read_timeout(Some(std::time::Duration::from_secs(60)))
                .expect("a timeout");
            let mut buffer = [0; 64];
            let length = client
                .recv(&mut buffer)
                .expect("an answer from the address that was asked");
            assert_eq!(&buffer[..length], b"one", "{all}");
        }
    }

    #[test]
    fn an_empty_datagram_arrives_between_others() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = socket.local_addr().expect("an address");
        for payload in [&b"one"[..], b"", b"two"] {
            socket.send_to(payload, to).expect("sent");
        }
        let mut arrivals = Arrivals::new();
        arrivals.receive(socket.as_fd()).expect("received");
        let got: Vec<Vec<u8>> = arrivals.datagrams().map(|one| one.bytes.to_vec()).collect();
        assert_eq!(got, [&b"one"[..], b"", b"two"]);
    }

    /// What a sender's kernel was to cut passes the loopback whole. It stays one message where the receiver takes such.
    #[test]
    fn datagrams_that_arrive_together_are_one_message() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
        if set(receiver.as_fd(), libc::SOL_UDP, UDP_GRO, 0).is_err() {
            println!("skipped: the kernel has no UDP_GRO");
            return;
        }
        prepare_datagrams(receiver.as_fd(), false);
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = Address {
            segment: Some(4),
            ..Address::to(receiver.local_addr().expect("an address"))
        };
        send_datagrams(sender.as_fd(), to, b"one-two-three").expect("a send");
        let mut poll = [rustix::event::PollFd::new(
            &receiver,
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut poll, None).expect("something to read");
        let mut arrivals = Arrivals::new();
        arrivals.receive(receiver.as_fd()).expect("a receive");
        let messages: Vec<(usize, usize)> = arrivals
            .got
            .iter()
            .map(|arrival| (arrival.length, arrival.segment))
            .collect();
        assert_eq!(messages, [(13, 4)]);
        let got: Vec<Vec<u8>> = arrivals.datagrams().map(|one| one.bytes.to_vec()).collect();
        assert_eq!(got, [&b"one-"[..], b"two-", b"thre", b"e"]);
    }

    #[test]
    fn more_than_a_batch_arrives_in_order() {
        const PAYLOADS: usize = 2 * BATCH + 3;
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
        prepare_datagrams(receiver.as_fd(), false);
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = Address {
            segment: Some(4),
            ..Address::to(receiver.local_addr().expect("an address"))
        };
        let mut expected = Vec::new();
        for number in 0..PAYLOADS {
            let payload = format!("{number:03}-{number:03}+");
            send_datagrams(sender.as_fd(), to, payload.as_bytes()).expect("a send");
            expected.extend(payload.as_bytes().chunks(4).map(<[u8]>::to_vec));
        }
        let mut arrivals = Arrivals::new();
        let (mut got, mut calls) = (Vec::new(), 0);
        while got.len() < expected.len() {
            let mut poll = [rustix::event::PollFd::new(
                &receiver,
                rustix::event::PollFlags::IN,
            )];
            rustix::event::poll(&mut poll, None).expect("something to read");
            let has_more = arrivals.receive(receiver.as_fd()).expect("a receive");
            assert_eq!(has_more, arrivals.got.len() == BATCH, "call {calls}");
            got.extend(arrivals.datagrams().map(|one| one.bytes.to_vec()));
            calls += 1;
        }
        assert_eq!(got, expected);
        assert!(calls >= 3, "{calls} calls");
    }

    #[test]
    fn a_connected_socket_learns_what_the_network_says() {
        // Takes datagrams of its peer only, so all others are refused.
        let closed = UdpSocket::bind("127.0.0.1:0").expect("a port");
        closed.connect("127.0.0.1:9").expect("a route");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        assert!(path_mtu(socket.as_fd()).is_err(), "it has no peer");
        socket
            .connect(closed.local_addr().expect("an address"))
            .expect("a route");
        assert!(path_mtu(socket.as_fd()).expect("an MTU") >= 576);
        socket.send(b"x").expect("a send");
        let mut arrivals = Arrivals::new();
        let mut receive = || {
            let has_more = arrivals.receive(socket.as_fd()).expect("no error of the socket");
            (has_more, arrivals.network_error())
        };
        assert_eq!(receive(), (true, Some(libc::ECONNREFUSED)));
        assert_eq!(receive(), (false, None));
        let Ok(six) = UdpSocket::bind("[::1]:0") else {
            println!("skipped: no IPv6 here");
            return;
        };
        six.connect("[::1]:9").expect("a route");
        assert!(path_mtu(six.as_fd()).expect("an MTU") >= 1_280);
    }

    #[test]
    fn nothing_is_there_without_waiting() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let mut arrivals = Arrivals::new();
        assert!(!arrivals.receive(socket.as_fd()).expect("a receive"));
        assert_eq!(arrivals.datagrams().count(), 0);
    }
}
