//! Connects commands behind the link with the outside: TCP connections are accepted at the far end and opened again
//! from the namespace this process was started in.
//!
//! No rights over that namespace are needed, which is the purpose. The price: the connection over the link ends at the
//! far end, so a server outside has a connection of its own. A connection is first made outside, while its SYN waits;
//! only then is the SYN let on. A refusal outside is therefore a refusal inside, and no port listens without being
//! asked for.
//!
//! ```text
//!  SYN arrives ── somebody listens there already ─────────────▶ let on
//!      │
//!      └▶ listener, connection outside ── made ── let on, parked ── accepted ─▶ pair ── both ended ─▶ gone
//!                                      └─ refused ── listener closed, let on: the kernel answers RST
//!                                      └─ no answer ── dropped with its SYN
//! ```

use crate::control::Control;
use crate::netns::Netns;
use crate::port::Frame;
use runtime::bell::Bell;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// Bytes held for one direction of a connection.
const ROOM: usize = 64 << 10;
/// Rounds of reading and writing before others have their turn.
const ROUNDS: usize = 8;
/// Connections relayed at a time; further SYNs are dropped.
const CONNECTIONS_MAX: usize = 8_192;

/// The emulator's side, where SYNs are announced.
pub(super) struct Door {
    pub(super) to: Sender<Frame>,
    pub(super) bell: Arc<Bell>,
}

impl Door {
    /// Takes a SYN out of the stream; it returns later if it may continue. Returns all other frames.
    pub(super) fn announce(&self, frame: Frame) -> Option<Frame> {
        if connection(frame.ip()).is_none() {
            return Some(frame);
        }
        match self.to.send(frame) {
            Ok(()) => {
                self.bell.ring();
                None
            }
            // The relay has ended: the kernel of the far end answers.
            Err(back) => Some(back.0),
        }
    }
}

/// Source and destination, if the packet is the SYN of a new connection.
pub(super) fn connection(ip: &[u8]) -> Option<Key> {
    let header = usize::from(ip.first()? & 15) * 4;
    let is_first_of_tcp = ip.get(9) == Some(&6) && ip.get(6)? & 0x3f == 0 && ip.get(7) == Some(&0);
    let tcp = ip.get(header..)?;
    const SYN_ACK: u8 = 0x12;
    if !is_first_of_tcp || header < 20 || tcp.get(13)? & SYN_ACK != 0x02 {
        return None;
    }
    let address = |at: usize| {
        Some(Ipv4Addr::new(
            *ip.get(at)?,
            *ip.get(at + 1)?,
            *ip.get(at + 2)?,
            *ip.get(at + 3)?,
        ))
    };
    let port = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
    Some(Key {
        from: SocketAddrV4::new(address(12)?, port(0)?),
        to: SocketAddrV4::new(address(16)?, port(2)?),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) from: SocketAddrV4,
    pub(super) to: SocketAddrV4,
}

/// One direction of a pair.
#[derive(Default)]
struct Half {
    held: Vec<u8>,
    start: usize,
    stage: Stage,
}

/// ```text
/// Open ── end of input ──▶ Ended ── everything written ──▶ Shut
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    Ended,
    Shut,
}

impl Half {
    fn is_empty(&self) -> bool {
        self.start == self.held.len()
    }

    /// Moves as many bytes as possible.
    ///
    /// # Errors
    /// One of the ends is broken.
    fn pump(&mut self, mut from: &Socket, mut to: &Socket) -> io::Result<()> {
        for _ in 0..ROUNDS {
            if self.is_empty() && self.stage == Stage::Open {
                self.held.resize(ROOM, 0);
                self.start = 0;
                let read = from.read(&mut self.held);
                self.held.truncate(*read.as_ref().unwrap_or(&0));
                match read {
                    Ok(0) => self.stage = Stage::Ended,
                    Ok(_) => {}
                    Err(error) if waits(&error) => {
                        // An idle connection holds no memory.
                        self.held = Vec::new();
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            }
            if !self.is_empty() {
                match to.write(&self.held[self.start..]) {
                    Ok(n) => self.start += n,
                    Err(error) if waits(&error) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            if self.is_empty() && self.stage != Stage::Open {
                if self.stage == Stage::Ended {
                    self.stage = Stage::Shut;
                    to.shutdown(Shutdown::Write)?;
                }
                return Ok(());
            }
        }
        Ok(())
    }
}

pub(super) fn waits(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// The subject of an event.
enum Subject {
    Listener(Socket, SocketAddrV4),
    /// A connection being made outside, further addresses to try, and the waiting SYN.
    Connecting(Socket, Vec<SocketAddr>, Key, Frame),
    /// Inside first.
    Pair(Box<([Socket; 2], [Half; 2])>),
}

pub(super) struct Relay {
    /// Where listeners are created.
    far: Netns,
    outside: Outside,
    news: Receiver<Frame>,
    bell: Arc<Bell>,
    back: Sender<Frame>,
    emulator: Arc<Control>,
    stop: Arc<AtomicBool>,
    subjects: HashMap<u64, Subject>,
    next: u64,
    listening: HashMap<SocketAddrV4, u64>,
    parked: HashMap<Key, Socket>,
    connecting: HashMap<Key, u64>,
}

const BELL: u64 = 0;

impl Relay {
    pub(super) fn new(
        far: Netns,
        outside: Outside,
        news: Receiver<Frame>,
        bell: Arc<Bell>,
        back: Sender<Frame>,
        emulator: Arc<Control>,
        stop: Arc<AtomicBool>,
    ) -> Relay {
        Relay {
            far,
            outside,
            news,
            bell,
            back,
            emulator,
            stop,
            subjects: HashMap::new(),
            next: BELL + 1,
            listening: HashMap::new(),
            parked: HashMap::new(),
            connecting: HashMap::new(),
        }
    }

    /// Relays until told to stop.
    ///
    /// # Errors
    /// The system's, for an epoll instance.
    pub(super) fn run(mut self) -> io::Result<()> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&poll, self.bell.fd(), EventData::new_u64(BELL), EventFlags::IN)?;
        let mut events = Vec::with_capacity(256);
        while !self.stop.load(Ordering::Acquire) {
            events.clear();
            match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    BELL => {
                        self.bell.silence();
                        while let Ok(frame) = self.news.try_recv() {
                            self.announced(&poll, frame);
                        }
                    }
                    token => self.ready(&poll, token),
                }
            }
        }
        Ok(())
    }

    fn let_on(&self, frame: Frame) {
        // The emulator is gone only when everything ends.
        let _ = self.back.send(frame);
        self.emulator.bell.ring();
    }

    fn enter(&mut self, subject: Subject) -> u64 {
        let token = self.next;
        self.next += 1;
        self.subjects.insert(token, subject);
        token
    }

    /// Processes a SYN that has arrived at the far end.
    fn announced(&mut self, poll: impl std::os::fd::AsFd, frame: Frame) {
        let Some(key) = connection(frame.ip()) else {
            return self.let_on(frame);
        };
        if self.parked.contains_key(&key) {
            return self.let_on(frame);
        }
        if self.connecting.contains_key(&key) || self.subjects.len() >= CONNECTIONS_MAX {
            // A repeated SYN while the first one still waits, or a SYN beyond the limit.
            return;
        }
        if !self.listening.contains_key(&key.to) {
            match self.far.call(move || listen(key.to)) {
                Ok(Ok(listener)) => {
                    let data = EventData::new_u64(self.next);
                    if epoll::add(&poll, &listener, data, EventFlags::IN).is_err() {
                        // As without a reply: the next SYN tries again.
                        return;
                    }
                    let token = self.enter(Subject::Listener(listener, key.to));
                    self.listening.insert(key.to, token);
                }
                // A process at the far end listens on this port: the SYN is for it.
                _ => return self.let_on(frame),
            }
        }
        let outside = self.outside.of(key.to);
        self.connect(poll, outside, key, frame);
    }

    /// Tries the last of these addresses, then those before it.
    fn connect(&mut self, poll: impl std::os::fd::AsFd, mut to: Vec<SocketAddr>, key: Key, frame: Frame) {
        while let Some(address) = to.pop() {
            match dial(address, |_| Ok(())) {
                Ok((socket, true)) => {
                    self.parked.insert(key, socket);
                    return self.let_on(frame);
                }
                Ok((socket, false)) => {
                    let token = self.next;
                    let data = EventData::new_u64(token);
                    if epoll::add(&poll, &socket, data, EventFlags::OUT).is_ok() {
                        self.connecting.insert(key, token);
                        self.enter(Subject::Connecting(socket, to, key, frame));
                    }
                    return;
                }
                Err(error) if !is_refusal(&error) => return self.unused(key.to),
                Err(_) => {}
            }
        }
        self.unused(key.to);
        self.let_on(frame);
    }

    /// Closes a listener whose outside connection failed, so that the kernel refuses. Connections accepted from it
    /// stay.
    fn unused(&mut self, address: SocketAddrV4) {
        let is_awaited = self
            .parked
            .keys()
            .chain(self.connecting.keys())
            .any(|key| key.to == address);
        if !is_awaited && let Some(token) = self.listening.remove(&address) {
            self.subjects.remove(&token);
        }
    }

    fn ready(&mut self, poll: &(impl std::os::fd::AsFd + ?Sized), token: u64) {
        match self.subjects.get_mut(&token) {
            Some(Subject::Listener(..)) => self.accept(poll, token),
            Some(Subject::Connecting(..)) => {
                let Some(Subject::Connecting(socket, rest, key, frame)) = self.subjects.remove(&token) else {
                    return;
                };
                self.connecting.remove(&key);
                let _ = epoll::delete(poll, &socket);
                match socket.take_error() {
                    Ok(None) => {
                        self.parked.insert(key, socket);
                        self.let_on(frame);
                    }
                    Ok(Some(error)) if is_refusal(&error) => self.connect(poll, rest, key, frame),
                    _ => self.unused(key.to),
                }
            }
            Some(Subject::Pair(pair)) => {
                let (sockets, halves) = &mut **pair;
                let [inside, outside] = &*sockets;
                let [out, back] = halves;
                let moved = out
                    .pump(inside, outside)
                    .and_then(|()| back.pump(outside, inside));
                let is_over = out.stage == Stage::Shut && back.stage == Stage::Shut;
                let ends = [(inside, &*out, &*back), (outside, &*back, &*out)];
                let is_watched = moved.is_ok()
                    && ends.into_iter().all(|(socket, reads, writes)| {
                        let mut wanted = EventFlags::empty();
                        wanted.set(EventFlags::IN, reads.stage == Stage::Open && reads.is_empty());
                        wanted.set(EventFlags::OUT, !writes.is_empty());
                        let data = EventData::new_u64(token);
                        // A socket without wanted events is removed: a broken one would be reported endlessly.
                        if wanted.is_empty() {
                            // It may have been removed before.
                            let _ = epoll::delete(poll, socket);
                            return true;
                        }
                        epoll::modify(poll, socket, data, wanted).is_ok()
                            || epoll::add(poll, socket, data, wanted).is_ok()
                    });
                if !is_watched {
                    // If one side is broken, or nobody would see what it sends, both are reset.
                    for socket in sockets.iter() {
                        let _ = socket.set_linger(Some(Duration::ZERO));
                    }
                }
                if !is_watched || is_over {
                    self.subjects.remove(&token);
                }
            }
            None => {}
        }
    }

    fn accept(&mut self, poll: &(impl std::os::fd::AsFd + ?Sized), token: u64) {
        while let Some(Subject::Listener(listener, to)) = self.subjects.get(&token) {
            let to = *to;
            let Ok((inside, from)) = listener.accept() else {
                return;
            };
            let Some(from) = from.as_socket_ipv4() else {
                continue;
            };
            let Some(outside) = self.parked.remove(&Key { from, to }) else {
                // Its SYN was not announced to the relay, so it has no connection outside.
                let _ = inside.set_linger(Some(Duration::ZERO));
                continue;
            };
            let _ = inside.set_nonblocking(true);
            let _ = inside.set_tcp_nodelay(true);
            // A server outside believes that bytes waiting here unsent are on their way.
            let _ = inside.set_tcp_notsent_lowat(16 << 10);
            let token = self.next;
            let added = [&inside, &outside]
                .iter()
                .all(|socket| epoll::add(poll, socket, EventData::new_u64(token), EventFlags::IN).is_ok());
            if added {
                let halves = [Half::default(), Half::default()];
                self.enter(Subject::Pair(Box::new(([inside, outside], halves))));
            }
        }
    }
}

/// Where addresses behind the link are outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outside {
    /// The address that stands for the machine.
    pub(super) gateway: Ipv4Addr,
    /// The outside address of the gateway.
    pub(super) host: Ipv4Addr,
    /// The machine's name server. It is behind the gateway's port 53 unless a server of the machine listens there.
    pub(super) resolver: Option<IpAddr>,
}

impl Outside {
    /// The outside addresses of `to`, the one to try first last.
    pub(super) fn of(&self, to: SocketAddrV4) -> Vec<SocketAddr> {
        if *to.ip() != self.gateway {
            return vec![SocketAddr::V4(to)];
        }
        let port = to.port();
        let mut all = vec![SocketAddr::from((self.host, port))];
        if self.host.is_loopback() {
            all.insert(0, SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port));
        }
        const DNS: u16 = 53;
        let resolver = self.resolver.map(|address| SocketAddr::new(address, port));
        if let Some(resolver) = resolver.filter(|one| port == DNS && !all.contains(one)) {
            all.insert(0, resolver);
        }
        all
    }
}

pub(super) fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

pub(super) fn listen(at: SocketAddrV4) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::IPV4,
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(at))?;
    socket.listen(1_024)?;
    Ok(socket)
}

/// A connection, and whether it is already established. `prepare` sets the socket up before it connects.
pub(super) fn dial(
    to: SocketAddr,
    prepare: impl FnOnce(&Socket) -> io::Result<()>,
) -> io::Result<(Socket, bool)> {
    let socket = Socket::new(
        Domain::for_address(to),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    socket.set_tcp_nodelay(true)?;
    prepare(&socket)?;
    match socket.connect(&SockAddr::from(to)) {
        Ok(()) => Ok((socket, true)),
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => Ok((socket, false)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syn(flags: u8) -> Vec<u8> {
        let mut ip = vec![0u8; 40];
        ip[0] = 0x45;
        ip[9] = 6;
        ip[12..20].copy_from_slice(&[198, 18, 0, 2, 198, 18, 0, 1]);
        ip[20..24].copy_from_slice(&[0x90, 0, 0x1f, 0x90]);
        ip[33] = flags;
        ip
    }

    #[test]
    fn the_gateway_is_the_machine_and_its_name_server() {
        let outside = |host: &str, resolver: Option<&str>| Outside {
            gateway: Ipv4Addr::new(198, 18, 0, 1),
            host: host.parse().expect("an address"),
            resolver: resolver.map(|text| text.parse().expect("an address")),
        };
        for (host, resolver, to, wanted) in [
            (
                "127.0.0.1",
                None,
                "198.18.0.1:80",
                &["[::1]:80", "127.0.0.1:80"][..],
            ),
            (
                "127.0.0.1",
                Some("127.0.0.53"),
                "198.18.0.1:80",
                &["[::1]:80", "127.0.0.1:80"],
            ),
            (
                "127.0.0.1",
                Some("127.0.0.53"),
                "198.18.0.1:53",
                &["127.0.0.53:53", "[::1]:53", "127.0.0.1:53"],
            ),
            (
                "127.0.0.1",
                Some("::1"),
                "198.18.0.1:53",
                &["[::1]:53", "127.0.0.1:53"],
            ),
            (
                "198.18.0.1",
                Some("198.18.0.1"),
                "198.18.0.1:53",
                &["198.18.0.1:53"],
            ),
            ("127.0.0.1", Some("127.0.0.53"), "192.0.2.1:53", &["192.0.2.1:53"]),
        ] {
            let found = outside(host, resolver).of(to.parse().expect("an address"));
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, wanted, "{host} {resolver:?} {to}");
        }
    }

    #[test]
    fn only_the_first_packet_of_a_connection_is_announced() {
        let key = connection(&syn(0x02)).expect("a SYN");
        assert_eq!(key.from.to_string(), "198.18.0.2:36864");
        assert_eq!(key.to.to_string(), "198.18.0.1:8080");
        for other in [0x12, 0x10, 0x11, 0x04] {
            assert_eq!(connection(&syn(other)), None, "{other:x}");
        }
        for n in 0..34 {
            assert_eq!(connection(&syn(0x02)[..n]), None, "{n}");
        }
        let mut fragment = syn(0x02);
        fragment[7] = 1;
        assert_eq!(connection(&fragment), None);
    }
}
