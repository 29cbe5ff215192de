//! Relays UDP between commands behind the link and the outside: each flow has a socket of its own in the namespace this
//! process was started in.
//!
//! Packets reach it when they leave the link, and the packets it makes of answers enter the link like those of the far
//! host. So both cross the link as any other packet does. A flow is a client's address and port and where it sends to,
//! as in a NAT with address- and port-dependent mapping (RFC 4787, section 4.1).
//!
//! ```text
//!  datagram leaves the link ─┬─ a process at the far end has its port ──▶ let on
//!                            ├─ a flow ────▶ its socket ─▶ the server
//!                            └─ no flow ───▶ a new socket; a full table loses the flow idle the longest
//!  answer ──▶ a packet that enters the link
//!  ICMP error ─▶ one for the client, which enters the link; a refusal first tries further addresses of the server
//!  rebind ──▶ a new socket, so a new source port; what arrives at the old one is lost
//! ```

use crate::control::Control;
use crate::flows::Table;
use crate::netns::Netns;
use crate::port::Frame;
use crate::ready::udp_ports;
use crate::relay::{Key, Outside};
use crate::udp::{self, Datagram, Seen, Unreachable};
use crate::{GATEWAY, Rebind, UdpSettings, UdpTally};
use runtime::bell::Bell;
use runtime::{clock, sys};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError};
use units::{Duration, Instant};

/// Frames that may wait for the relay, or for the emulator. Further ones are lost and counted.
pub(super) const WAITING_MAX: usize = 1_024;
/// Receive calls before other flows have their turn.
const ROUNDS: usize = 4;
/// How often it is checked which ports processes at the far end have.
const LOOK: Duration = Duration::from_secs(1);
/// Receive buffer of a flow, if `net.core.rmem_max` permits so much.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Most bytes of the datagrams that a flow keeps for another address of its server, their headers included.
const HELD_MAX: usize = 16 << 10;
const BELL: u64 = 0;

/// Events, counted by the emulator and the relay.
#[derive(Debug, Default)]
pub(super) struct Counts {
    opened: AtomicU64,
    evicted: AtomicU64,
    evicted_for_descriptors: AtomicU64,
    rebound: AtomicU64,
    unreachable: AtomicU64,
    fragments: AtomicU64,
    too_large: AtomicU64,
    overflowed: AtomicU64,
    unsent: AtomicU64,
}

impl Counts {
    /// The counts so far.
    pub(super) fn read(&self) -> UdpTally {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        UdpTally {
            opened: read(&self.opened),
            evicted: read(&self.evicted),
            evicted_for_descriptors: read(&self.evicted_for_descriptors),
            rebound: read(&self.rebound),
            unreachable: read(&self.unreachable),
            fragments: read(&self.fragments),
            too_large: read(&self.too_large),
            overflowed: read(&self.overflowed),
            unsent: read(&self.unsent),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// UDP ports of processes at the far end: datagrams to them need no relay.
#[derive(Debug)]
pub(super) struct Ports(Box<[AtomicU64]>);

impl Ports {
    pub(super) fn new() -> Ports {
        Ports((0..1 << 10).map(|_| AtomicU64::new(0)).collect())
    }

    fn has(&self, port: u16) -> bool {
        let word = self.0[usize::from(port >> 6)].load(Ordering::Relaxed);
        word >> (port & 63) & 1 == 1
    }

    fn replace(&self, ports: &[u16]) {
        let mut words = vec![0u64; self.0.len()];
        for port in ports {
            words[usize::from(port >> 6)] |= 1 << (port & 63);
        }
        for (word, bits) in self.0.iter().zip(words) {
            word.store(bits, Ordering::Relaxed);
        }
    }
}

/// The emulator's side: where datagrams are handed over, and where answers come from.
pub(super) struct Door {
    pub(super) to: SyncSender<Frame>,
    pub(super) bell: Arc<Bell>,
    pub(super) answers: Receiver<(Instant, Frame)>,
    pub(super) direct: Arc<Ports>,
    /// Whether there is a command at the far end.
    pub(super) has_far: bool,
    pub(super) counts: Arc<Counts>,
    /// Whether the relay must be told of frames handed over.
    pub(super) is_news: bool,
}

impl Door {
    /// Takes a datagram for the outside out of the stream. Returns all other frames.
    pub(super) fn take(&mut self, frame: Frame) -> Option<Frame> {
        match udp::parse(frame.ip()) {
            Seen::Other => return Some(frame),
            Seen::Fragment(to) if self.has_far && to == GATEWAY => return Some(frame),
            Seen::Fragment(_) => {
                count(&self.counts.fragments);
                return None;
            }
            Seen::Datagram(datagram) => {
                let to = datagram.to;
                if !may_leave(*to.ip()) || (*to.ip() == GATEWAY && self.direct.has(to.port())) {
                    return Some(frame);
                }
            }
        }
        match self.to.try_send(frame) {
            Ok(()) => self.is_news = true,
            Err(TrySendError::Full(_)) => count(&self.counts.overflowed),
            // The relay has ended: the kernel of the far end answers.
            Err(TrySendError::Disconnected(frame)) => return Some(frame),
        }
        None
    }

    /// Wakes the relay if there is something for it.
    pub(super) fn ring(&mut self) {
        if std::mem::take(&mut self.is_news) {
            self.bell.ring();
        }
    }
}

/// Whether datagrams to this address may leave the far end: not those to a group or to everybody.
fn may_leave(to: Ipv4Addr) -> bool {
    !(to.is_multicast() || to.is_broadcast() || to.is_loopback() || to.octets()[0] == 0)
}

/// Ends of channels, and what the relay must know of the link.
pub(super) struct Ends {
    pub(super) settings: UdpSettings,
    /// Bytes before the IP packet in a frame for the near end.
    pub(super) prefix: Vec<u8>,
    /// The largest packet that the near end's interface takes, in bytes.
    pub(super) mtu: usize,
    pub(super) outside: Outside,
    /// Datagrams that have left the link.
    pub(super) news: Receiver<Frame>,
    /// Rung for each of them, and when to stop.
    pub(super) bell: Arc<Bell>,
    /// Where frames for processes at the far end go on.
    pub(super) back: Sender<Frame>,
    /// Where answers enter the link.
    pub(super) answers: SyncSender<(Instant, Frame)>,
    pub(super) emulator: Arc<Control>,
    pub(super) stop: Arc<AtomicBool>,
    /// The namespace of the far end, if a command runs there.
    pub(super) far: Option<Netns>,
    pub(super) direct: Arc<Ports>,
    pub(super) counts: Arc<Counts>,
}

/// A datagram that may have to be sent again.
struct Held {
    payload: Vec<u8>,
    segment: Option<u16>,
    ecn: u8,
}

/// The first datagrams of a flow, at most [`HELD_MAX`] bytes, for another address of its server.
#[derive(Default)]
struct Hold {
    datagrams: Vec<Held>,
    bytes: usize,
}

impl Hold {
    /// Keeps a datagram if there is room; whether there was.
    fn keep(&mut self, payload: &[u8], segment: Option<u16>, ecn: u8) -> bool {
        // Empty datagrams take memory, too.
        let bytes = self.bytes + udp::HEADERS + payload.len();
        let has_room = bytes <= HELD_MAX;
        if has_room {
            self.bytes = bytes;
            self.datagrams.push(Held {
                payload: payload.to_vec(),
                segment,
                ecn,
            });
        }
        has_room
    }
}

/// One flow.
struct Flow {
    key: Key,
    socket: Socket,
    /// The socket before the last rebind. It stays open and unread until the next one: a NAT answers nothing that arrives
    /// at a port it has given up, and does not use that port for the same flow again.
    old: Option<Socket>,
    /// Where the socket is connected to.
    peer: SocketAddr,
    /// Further addresses of the server, the one to try next last.
    others: Vec<SocketAddr>,
    /// What would be sent to these, until something has come back.
    hold: Hold,
    has_answered: bool,
    /// Of the last datagram, for an ICMP error about it.
    head: Vec<u8>,
    is_unfragmentable: bool,
    /// When the socket was opened, and how many datagrams have gone out since.
    bound: Instant,
    sent: u64,
}

/// The thread's state.
pub(super) struct DatagramRelay {
    ends: Ends,
    poll: OwnedFd,
    table: Table<Key, Flow>,
    arrivals: sys::Arrivals,
    look_at: Instant,
    /// Whether the emulator must be told of answers.
    is_news: bool,
}

impl DatagramRelay {
    /// # Errors
    /// The system's, for an epoll instance.
    pub(super) fn new(ends: Ends) -> io::Result<DatagramRelay> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&poll, ends.bell.fd(), EventData::new_u64(BELL), EventFlags::IN)?;
        let settings = ends.settings;
        Ok(DatagramRelay {
            ends,
            poll,
            table: Table::new(settings.flows_max, settings.idle, BELL + 1),
            arrivals: sys::Arrivals::new(),
            look_at: clock::now(),
            is_news: false,
        })
    }

    /// Relays until told to stop.
    ///
    /// # Errors
    /// The system's, of a poll.
    pub(super) fn run(mut self) -> io::Result<()> {
        // As the emulator: a real NAT is no slower because its users are busy.
        let _ = sys::run_first();
        let mut events = Vec::with_capacity(256);
        while !self.ends.stop.load(Ordering::Acquire) {
            let now = clock::now();
            while self.table.expired(now).is_some() {}
            if now >= self.look_at {
                self.look();
            }
            events.clear();
            let timeout = self.timeout();
            let room = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.poll, room, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    BELL => {
                        self.ends.bell.silence();
                        while let Ok(frame) = self.ends.news.try_recv() {
                            self.forward(frame);
                        }
                    }
                    number => self.answer(number),
                }
            }
            if std::mem::take(&mut self.is_news) {
                self.ends.emulator.bell.ring();
            }
        }
        Ok(())
    }

    /// Time until a flow expires, or until the far end's ports are checked.
    fn timeout(&self) -> Option<Timespec> {
        let look = self.ends.far.as_ref().map(|_| self.look_at);
        let until = look.into_iter().chain(self.table.next_expiry()).min()?;
        // A call that wakes early would be repeated until the time has come.
        let span = until.since(clock::now()) + Duration::from_millis(1);
        Some(Timespec {
            tv_sec: span.as_secs() as i64,
            tv_nsec: i64::from(span.subsec_nanos()),
        })
    }

    /// Learns which ports processes at the far end have.
    fn look(&mut self) {
        if let Some(far) = &self.ends.far
            && let Ok(ports) = udp_ports(far)
        {
            self.ends.direct.replace(&ports);
        }
        self.look_at = clock::now() + LOOK;
    }

    /// Sends a datagram of the command on.
    fn forward(&mut self, frame: Frame) {
        let segment = frame.segment();
        let Seen::Datagram(datagram) = udp::parse(frame.ip()) else {
            return;
        };
        let key = Key {
            from: datagram.from,
            to: datagram.to,
        };
        let now = clock::now();
        let number = match self.table.number(&key) {
            Some(number) => number,
            None => {
                if *key.to.ip() == GATEWAY && self.ends.far.is_some() {
                    self.look();
                    if self.ends.direct.has(key.to.port()) {
                        // The emulator is gone only when everything ends.
                        let _ = self.ends.back.send(frame);
                        self.is_news = true;
                        return;
                    }
                }
                match self.open(key, &datagram, now) {
                    Some(number) => number,
                    None => return,
                }
            }
        };
        self.table.touch(number, now);
        self.rebind(number, now);
        let Some(flow) = self.table.get_mut(number) else {
            return;
        };
        flow.head.clear();
        flow.head.extend_from_slice(datagram.head);
        flow.sent += 1;
        let may_hold = !flow.has_answered && !flow.others.is_empty();
        let is_held = may_hold && flow.hold.keep(datagram.payload, segment, datagram.ecn);
        match send(flow, datagram.payload, segment, datagram.ecn) {
            Ok(()) => {}
            // That is about a datagram before, and this one was not sent.
            Err(error) if is(&error, Errno::CONNREFUSED) => {
                self.refused(number);
                if !is_held && let Some(flow) = self.table.get(number) {
                    let sent = send(flow, datagram.payload, segment, datagram.ecn);
                    sent.unwrap_or_else(|error| self.unsent(number, &error));
                }
            }
            Err(error) => self.unsent(number, &error),
        }
    }

    /// A flow to the server's first address.
    fn open(&mut self, key: Key, datagram: &Datagram<'_>, now: Instant) -> Option<u64> {
        if self.table.is_full() {
            self.table.evict();
            count(&self.ends.counts.evicted);
        }
        let mut others = self.ends.outside.of(key.to);
        let mut failure = None;
        let number = self.table.next_number();
        while let Some(peer) = others.pop() {
            let mut dialed = dial(&self.poll, number, peer, datagram.is_unfragmentable);
            if dialed.as_ref().is_err_and(|error| is(error, Errno::MFILE)) && self.table.evict().is_some() {
                // This process may have fewer descriptors than the table has flows.
                count(&self.ends.counts.evicted);
                count(&self.ends.counts.evicted_for_descriptors);
                dialed = dial(&self.poll, number, peer, datagram.is_unfragmentable);
            }
            match dialed {
                Ok(socket) => {
                    count(&self.ends.counts.opened);
                    let flow = Flow {
                        key,
                        socket,
                        old: None,
                        peer,
                        others,
                        hold: Hold::default(),
                        has_answered: false,
                        head: Vec::new(),
                        is_unfragmentable: datagram.is_unfragmentable,
                        bound: now,
                        sent: 0,
                    };
                    return Some(self.table.insert(key, flow, now));
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure.as_ref().and_then(reason) {
            Some(why) => self.complain(datagram.head, why),
            None => count(&self.ends.counts.unsent),
        }
        None
    }

    /// Gives a flow a new source port if it is time.
    fn rebind(&mut self, number: u64, now: Instant) {
        let Some(flow) = self.table.get_mut(number) else {
            return;
        };
        let is_due = match self.ends.settings.rebind {
            None => false,
            Some(Rebind::After(age)) => now.since(flow.bound) >= age,
            Some(Rebind::Every(datagrams)) => flow.sent >= datagrams,
        };
        if !is_due {
            return;
        }
        // Without a descriptor for it, or room in the epoll instance, the flow keeps its port until the next datagram.
        if let Ok(socket) = dial(&self.poll, number, flow.peer, flow.is_unfragmentable) {
            let old = std::mem::replace(&mut flow.socket, socket);
            let _ = epoll::delete(&self.poll, &old);
            flow.old = Some(old);
            (flow.bound, flow.sent) = (now, 0);
            count(&self.ends.counts.rebound);
        }
    }

    /// Takes what has arrived for a flow.
    fn answer(&mut self, number: u64) {
        for _ in 0..ROUNDS {
            let Some(flow) = self.table.get_mut(number) else {
                return;
            };
            let received = self.arrivals.receive(flow.socket.as_fd());
            let now = clock::now();
            let reported = self.arrivals.network_error().map(io::Error::from_raw_os_error);
            let has_more = match (received, reported) {
                (_, Some(error)) if is(&error, Errno::CONNREFUSED) => return self.refused(number),
                (_, Some(error)) | (Err(error), None) => return self.unsent(number, &error),
                (Ok(has_more), None) => has_more,
            };
            let mut is_any = false;
            for arrived in self.arrivals.datagrams() {
                let (payload, ecn) = (arrived.bytes, arrived.ecn);
                is_any = true;
                if payload.len() + udp::HEADERS > self.ends.mtu {
                    // As at a router, if fragments are forbidden.
                    count(&self.ends.counts.too_large);
                } else if let Some(ip) = udp::packet(flow.key.to, flow.key.from, ecn, payload) {
                    self.is_news |= put(&self.ends, now, &ip);
                }
            }
            if is_any {
                flow.has_answered = true;
                flow.hold = Hold::default();
                self.table.touch(number, now);
            }
            if !has_more {
                return;
            }
        }
    }

    /// Nobody receives at the server's address: tries the next, or tells the client.
    fn refused(&mut self, number: u64) {
        let Some(flow) = self.table.get_mut(number) else {
            return;
        };
        if !flow.has_answered {
            while let Some(peer) = flow.others.pop() {
                let Ok(socket) = dial(&self.poll, number, peer, flow.is_unfragmentable) else {
                    continue;
                };
                let old = std::mem::replace(&mut flow.socket, socket);
                let _ = epoll::delete(&self.poll, &old);
                flow.peer = peer;
                let again = flow
                    .hold
                    .datagrams
                    .iter()
                    .try_for_each(|held| send(flow, &held.payload, held.segment, held.ecn));
                if let Err(error) = again {
                    self.unsent(number, &error);
                }
                return;
            }
        }
        let head = std::mem::take(&mut flow.head);
        if !flow.has_answered {
            // The next datagram starts again with the first address.
            self.table.remove(number);
        }
        self.complain(&head, Unreachable::Port);
    }

    /// A datagram could not be sent. The client learns what a router would tell it.
    fn unsent(&mut self, number: u64, error: &io::Error) {
        let Some(flow) = self.table.get(number) else {
            return;
        };
        let why = match reason(error) {
            Some(Unreachable::TooLarge(_)) => sys::path_mtu(flow.socket.as_fd())
                .ok()
                .map(|mtu| Unreachable::TooLarge(u16::try_from(mtu).unwrap_or(u16::MAX))),
            other => other,
        };
        match why {
            Some(why) => {
                let head = flow.head.clone();
                self.complain(&head, why);
            }
            None => count(&self.ends.counts.unsent),
        }
    }

    /// Sends the client an ICMP error.
    fn complain(&mut self, head: &[u8], why: Unreachable) {
        if let Some(ip) = udp::unreachable(head, why) {
            count(&self.ends.counts.unreachable);
            self.is_news |= put(&self.ends, clock::now(), &ip);
        }
    }
}

/// Puts a packet into the link; returns whether it did.
fn put(ends: &Ends, now: Instant, ip: &[u8]) -> bool {
    match ends.answers.try_send((now, Frame::new(&ends.prefix, ip))) {
        Ok(()) => true,
        Err(_) => {
            count(&ends.counts.overflowed);
            false
        }
    }
}

/// A socket connected to this address, whose answers `poll` reports as those of flow `number`.
///
/// # Errors
/// The system's: no descriptor, no route, no memory, or no further watch for this user (`max_user_watches`, epoll(7)).
fn dial(poll: &OwnedFd, number: u64, to: SocketAddr, is_unfragmentable: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(to),
        Type::DGRAM.nonblocking().cloexec(),
        Some(Protocol::UDP),
    )?;
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    sys::prepare_datagrams(socket.as_fd(), false);
    if is_unfragmentable && to.is_ipv4() {
        sys::forbid_fragments(socket.as_fd())?;
    }
    socket.connect(&SockAddr::from(to))?;
    epoll::add(poll, &socket, EventData::new_u64(number), EventFlags::IN)?;
    Ok(socket)
}

/// Sends a payload, or several of `segment` bytes that the command's kernel has joined.
fn send(flow: &Flow, payload: &[u8], segment: Option<u16>, ecn: u8) -> io::Result<()> {
    let fd = flow.socket.as_fd();
    let whole = sys::Address {
        ecn,
        ..sys::Address::to(flow.peer)
    };
    match segment.filter(|&bytes| bytes > 0 && usize::from(bytes) < payload.len()) {
        None => sys::send_datagrams(fd, whole, payload),
        segment @ Some(bytes) => match sys::send_datagrams(fd, sys::Address { segment, ..whole }, payload) {
            Err(error) if is(&error, Errno::IO) || is(&error, Errno::INVAL) => payload
                .chunks(usize::from(bytes))
                .try_for_each(|one| sys::send_datagrams(fd, whole, one)),
            sent => sent,
        },
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// What a router would say.
fn reason(error: &io::Error) -> Option<Unreachable> {
    Some(match Errno::from_io_error(error)? {
        Errno::NETUNREACH => Unreachable::Network,
        Errno::HOSTUNREACH => Unreachable::Host,
        Errno::CONNREFUSED => Unreachable::Port,
        Errno::MSGSIZE => Unreachable::TooLarge(0),
        Errno::ACCESS | Errno::PERM => Unreachable::Prohibited,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_replaced_as_a_whole() {
        let ports = Ports::new();
        for all in [&[0, 53, 63, 64, 65_535][..], &[443], &[]] {
            ports.replace(all);
            let found: Vec<u16> = (0..=u16::MAX).filter(|&port| ports.has(port)).collect();
            assert_eq!(found, all);
        }
    }

    #[test]
    fn what_a_flow_holds_is_bounded_even_if_it_is_empty() {
        for (payload, most) in [(&[0; 484][..], 32), (&[0], 564), (&[], 585)] {
            let mut hold = Hold::default();
            let kept = (0..1_000).filter(|_| hold.keep(payload, None, 0)).count();
            assert_eq!((kept, hold.datagrams.len()), (most, most));
        }
    }

    #[test]
    fn datagrams_wait_for_the_relay_up_to_the_bound_and_further_ones_are_counted() {
        let (to, news) = std::sync::mpsc::sync_channel(WAITING_MAX);
        let (_answer, answers) = std::sync::mpsc::sync_channel(1);
        let mut door = Door {
            to,
            bell: Arc::new(Bell::new().expect("an eventfd")),
            answers,
            direct: Arc::new(Ports::new()),
            has_far: false,
            counts: Arc::default(),
            is_news: false,
        };
        let [from, to] = ["198.18.0.2:40000", "192.0.2.1:53"].map(|text| text.parse().expect("an address"));
        let packet = udp::packet(from, to, 0, b"query").expect("it fits");
        for _ in 0..WAITING_MAX + 3 {
            assert!(door.take(Frame::new(&[], &packet)).is_none());
        }
        assert_eq!(door.counts.read().overflowed, 3);
        assert_eq!(news.try_iter().count(), WAITING_MAX);
        // Without the relay, the kernel of the far end has them.
        drop(news);
        assert!(door.take(Frame::new(&[], &packet)).is_some());
    }

    /// A relay that nobody has started.
    fn relay() -> DatagramRelay {
        let (back, _) = std::sync::mpsc::channel();
        DatagramRelay::new(Ends {
            settings: UdpSettings::default(),
            prefix: Vec::new(),
            mtu: 1_500,
            outside: Outside {
                gateway: Ipv4Addr::new(198, 18, 0, 1),
                host: Ipv4Addr::LOCALHOST,
                resolver: None,
            },
            news: std::sync::mpsc::sync_channel(1).1,
            bell: Arc::new(Bell::new().expect("an eventfd")),
            back,
            answers: std::sync::mpsc::sync_channel(1).0,
            emulator: Arc::new(Control {
                bell: Bell::new().expect("an eventfd"),
                stop: AtomicBool::new(false),
                tally: std::sync::Mutex::default(),
            }),
            stop: Arc::default(),
            far: None,
            direct: Arc::new(Ports::new()),
            counts: Arc::default(),
        })
        .expect("an epoll instance")
    }

    /// The kernel refuses a watch if the user has too many. Here, the descriptor is no epoll instance.
    #[test]
    fn a_flow_whose_answers_cannot_be_watched_is_not_opened() {
        let [from, to] = ["198.18.0.2:40000", "127.0.0.1:9"].map(|text| text.parse().expect("an address"));
        let packet = udp::packet(from, to, 0, b"query").expect("it fits");
        let mut relay = relay();
        relay.forward(Frame::new(&[], &packet));
        let counts = Arc::clone(&relay.ends.counts);
        assert_eq!((counts.read().opened, counts.read().unsent), (1, 0));
        relay.table.evict().expect("the flow");
        let bell = Bell::new().expect("an eventfd");
        relay.poll = bell.fd().try_clone().expect("a descriptor");
        relay.forward(Frame::new(&[], &packet));
        assert_eq!((counts.read().opened, counts.read().unsent), (1, 1));
        assert!(relay.table.evict().is_none(), "the next datagram tries again");
    }

    #[test]
    fn groups_and_everybody_are_not_reached() {
        for (address, leaves) in [
            ("198.18.0.1", true),
            ("8.8.8.8", true),
            ("224.0.0.251", false),
            ("255.255.255.255", false),
            ("0.0.0.0", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(
                may_leave(address.parse().expect("an address")),
                leaves,
                "{address}"
            );
        }
    }
}
