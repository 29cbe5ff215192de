//! The last resort without namespaces and TUN: a proxy that accepts TCP connections, opens each again to one target,
//! and passes their bytes through the queues of a [`link::Path`] in pieces of a packet's size.
//!
//! This is not a link. It keeps propagation delay, jitter in order, the line's rate and framing, trace-driven lines,
//! half duplex, one line shared by all connections, and a round trip before the first byte. It cannot keep, and rejects
//! ([`impossible`]), loss, reordering, queues that drop, ACKs and all other properties of the hosts' TCP. There is no
//! slow start either: a connection has a window of twice the bandwidth-delay product from its start.
//!
//! ```text
//!  accepted ── Open ─▶ far dialed ── Opened ─▶ near is read ── Bytes ─▶ written ── End ─▶ shut
//!                          └─ refused ── Reset ─▶ near is reset
//! ```

use crate::child::Signals;
use crate::{Commands, Fault, HostSettings, Notice, Observer, Outcome, Plan, Tally};
use link::{Direction, Discipline, Packet, Path, Profile, Server, Verdict, Way};
use runtime::bell::Bell;
use runtime::clock;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Bytes, Duration, Instant};

/// Headers of IPv4 and TCP that a piece would have as a packet, in bytes.
const HEADERS: u64 = 40;
/// Connections at a time; further ones wait in the kernel.
const CONNECTIONS_MAX: usize = 1_024;
/// Minimum and maximum bytes of one direction of a connection under way or not yet read.
const WINDOW: (u64, u64) = (24_000, 1 << 20);
/// Maximum bytes of all connections, headers included.
const INSIDE_MAX: u64 = 64 << 20;
/// Tokens of the bell and the listener; connections have the numbers from here on, two each.
const BELL: u64 = 0;
const LISTENER: u64 = 1;

/// Settings that a proxy cannot emulate, by their keys.
pub fn impossible(profile: &Profile, hosts: &HostSettings) -> Vec<&'static str> {
    let any = |is: &dyn Fn(&Way) -> bool| is(&profile.up) || is(&profile.down);
    let is_default = |way: &Way| way.discipline == Discipline::default();
    [
        ("loss", any(&|way| way.loss.is_some())),
        ("reorder", any(&|way| way.reorder)),
        ("queue", any(&|way| !is_default(way))),
        ("hold-acks", any(&|way| way.hold_acks.is_some())),
        ("mss", hosts.mss.is_some()),
        ("initcwnd", hosts.initcwnd.is_some()),
        ("congestion", hosts.congestion.is_some()),
        ("idle-restart", hosts.idle_restart.is_some()),
        ("aged", hosts.aged),
    ]
    .into_iter()
    .filter_map(|(key, is_asked)| is_asked.then_some(key))
    .collect()
}

/// An item that travels for a connection.
#[derive(Debug)]
enum Cargo {
    /// The first and the second packet of a handshake.
    Open,
    Opened,
    Bytes(Vec<u8>),
    /// No more bytes in this direction.
    End,
    /// The other end broke or refused.
    Reset,
}

/// The proxy's equivalent of a packet.
#[derive(Debug)]
struct Piece {
    connection: u64,
    cargo: Cargo,
}

impl Packet for Piece {
    fn size(&self) -> Bytes {
        let payload = match &self.cargo {
            Cargo::Bytes(bytes) => bytes.len() as u64,
            _ => 0,
        };
        Bytes(HEADERS + payload)
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Half {
    source: Source,
    /// Bytes under way, headers included.
    inside: u64,
    /// Bytes that have arrived and that the sink has not accepted, from `start` on.
    held: Vec<u8>,
    start: usize,
    sink: Sink,
}

/// State of the socket that bytes come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Source {
    /// The handshake is under way.
    #[default]
    NotYet,
    Open,
    Ended,
}

/// State of the socket that bytes go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sink {
    #[default]
    Open,
    /// The end has arrived; bytes may still wait to be written.
    Ending,
    Shut,
}

impl Half {
    fn waiting(&self) -> u64 {
        (self.held.len() - self.start) as u64
    }

    /// Writes as much as the sink accepts.
    fn flush(&mut self, mut to: &Socket) -> io::Result<()> {
        while self.start < self.held.len() {
            match to.write(&self.held[self.start..]) {
                Ok(n) => self.start += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // An idle connection holds no memory.
        (self.held, self.start) = (Vec::new(), 0);
        if self.sink == Sink::Ending {
            self.sink = Sink::Shut;
            to.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }
}

/// A connection: the accepted socket, and the socket to the target once it has been dialed.
struct Connection {
    ends: [Option<Socket>; 2],
    /// Addresses of the target not yet tried.
    untried: Vec<SocketAddr>,
    is_connected: bool,
    /// Up, down.
    halves: [Half; 2],
    /// The events watched at each end.
    watched: [EventFlags; 2],
}

/// A listener and the target of its connections.
#[derive(Debug)]
pub struct Proxy {
    listener: Socket,
    target: Vec<SocketAddr>,
}

impl Proxy {
    /// Listens.
    ///
    /// # Errors
    /// The system's, for the address.
    pub fn open(listen: SocketAddr, target: Vec<SocketAddr>) -> Result<Proxy, Fault> {
        let open = || {
            let socket = Socket::new(
                Domain::for_address(listen),
                Type::STREAM.nonblocking().cloexec(),
                Some(Protocol::TCP),
            )?;
            socket.set_reuse_address(true)?;
            socket.bind(&SockAddr::from(listen))?;
            socket.listen(1_024)?;
            io::Result::Ok(socket)
        };
        let listener = open().map_err(Fault::at(format!("listening on {listen}")))?;
        Ok(Proxy { listener, target })
    }

    /// Its address, with the port chosen by the system if none was named.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let address = self.listener.local_addr()?;
        address
            .as_socket()
            .ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))
    }

    /// Carries connections until the near command has ended, or without a command until a signal ends it. There is no
    /// far command.
    ///
    /// # Errors
    /// A command that cannot be started, or a step the system refused.
    pub fn run(self, plan: &Plan, commands: &Commands, observer: Option<Observer>) -> Result<Outcome, Fault> {
        let signals = Signals::block().map_err(Fault::at("blocking signals"))?;
        let bell = Arc::new(Bell::new().map_err(Fault::at("eventfd"))?);
        let stop = Arc::new(AtomicBool::new(false));
        let carrier = Carrier::new(self, plan, Arc::clone(&bell), Arc::clone(&stop), observer)
            .map_err(Fault::at("epoll"))?;
        let thread = std::thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || carrier.run())
            .map_err(Fault::at("starting a thread"))?;
        let start = clock::now();
        let code = if commands.near.is_empty() {
            signals
                .wait_for_the_end()
                .map_err(Fault::at("waiting for signals"))
        } else {
            signals.see_alone(commands)
        };
        let took = clock::now().since(start);
        stop.store(true, Ordering::Release);
        bell.ring();
        let tally = thread
            .join()
            .map_err(|_| io::Error::other("it panicked"))
            .and_then(|ended| ended)
            .map_err(Fault::at("the proxy"))?;
        Ok(Outcome {
            code: code?,
            tally,
            took,
            // A proxy has no hosts of its own.
            settings: Default::default(),
        })
    }
}

/// The thread's state.
struct Carrier {
    listener: Socket,
    accepts: bool,
    target: Vec<SocketAddr>,
    path: Path<Piece>,
    origin: Instant,
    /// Payload of a full piece, up and down, in bytes.
    payload: [usize; 2],
    window: [u64; 2],
    /// Bytes under way for all connections, headers included.
    inside: u64,
    connections: HashMap<u64, Connection>,
    next: u64,
    poll: OwnedFd,
    bell: Arc<Bell>,
    stop: Arc<AtomicBool>,
    observer: Option<Observer>,
    tally: Tally,
}

impl Carrier {
    fn new(
        proxy: Proxy,
        plan: &Plan,
        bell: Arc<Bell>,
        stop: Arc<AtomicBool>,
        observer: Option<Observer>,
    ) -> io::Result<Carrier> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&poll, bell.fd(), EventData::new_u64(BELL), EventFlags::IN)?;
        epoll::add(
            &poll,
            &proxy.listener,
            EventData::new_u64(LISTENER),
            EventFlags::IN,
        )?;
        let profile = &plan.profile;
        let payload =
            |way: &Way| (way.mtu.map_or(1_500, |mtu| mtu.0).clamp(HEADERS + 1, 65_535) - HEADERS) as usize;
        // Senders are held back and nothing is ever dropped: this exceeds what INSIDE_MAX lets in.
        let pieces = (INSIDE_MAX / HEADERS) as usize + 8 * CONNECTIONS_MAX;
        let limits = link::Limits {
            in_flight_max: pieces,
            queue_packets_max: pieces,
            ..plan.limits.clone()
        };
        Ok(Carrier {
            listener: proxy.listener,
            accepts: true,
            target: proxy.target,
            path: Path::new(profile, plan.seed, &limits),
            origin: clock::now(),
            payload: [payload(&profile.up), payload(&profile.down)],
            window: [window(profile, &profile.up), window(profile, &profile.down)],
            inside: 0,
            connections: HashMap::new(),
            next: 1,
            poll,
            bell,
            stop,
            observer,
            tally: Tally::default(),
        })
    }

    fn run(mut self) -> io::Result<Tally> {
        let mut events = Vec::with_capacity(256);
        let mut report_at = clock::now();
        loop {
            self.arrive();
            let now = clock::now();
            let is_over = self.stop.load(Ordering::Acquire);
            if now >= report_at || is_over {
                self.report(now);
                report_at = now
                    + self
                        .observer
                        .as_ref()
                        .map_or(Duration::from_secs(1), |watch| watch.every);
            }
            if is_over {
                return Ok(self.tally);
            }
            let due = self.path.next_departure();
            let due = due.map(|due| self.origin + due.since(Instant::ZERO));
            let until = due.map_or(report_at, |due| due.min(report_at));
            let span = until.since(clock::now());
            let timeout = Timespec {
                tv_sec: span.as_secs() as i64,
                tv_nsec: i64::from(span.subsec_nanos()),
            };
            events.clear();
            match epoll::wait(
                &self.poll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    BELL => self.bell.silence(),
                    LISTENER => self.accept(),
                    token => self.ready(token / 2, (token % 2) as usize),
                }
            }
        }
    }

    fn report(&mut self, now: Instant) {
        self.tally.at = now;
        self.tally.cpu = clock::thread_cpu();
        self.tally.ways = [
            self.path.counters(Direction::Up),
            self.path.counters(Direction::Down),
        ];
        if let Some(observer) = &mut self.observer {
            (observer.tell)(Notice::Tally(Box::new(self.tally.clone())));
        }
    }

    fn send(&mut self, direction: Direction, connection: u64, cargo: Cargo) {
        let piece = Piece { connection, cargo };
        let size = piece.size().0;
        let now = Instant::ZERO + clock::now().since(self.origin);
        self.tally.bytes_in[direction as usize] += size;
        match self.path.send(direction, piece, now) {
            Verdict::Queued => {
                self.inside += size;
                if let Some(connection) = self.connections.get_mut(&connection) {
                    connection.halves[direction as usize].inside += size;
                }
            }
            // A line with a rate of zero takes what fits and nothing more; the rest is stuck.
            Verdict::Dropped(_) => {}
        }
    }

    fn accept(&mut self) {
        while self.connections.len() < CONNECTIONS_MAX {
            let Ok((near, _)) = self.listener.accept() else {
                return;
            };
            let _ = (near.set_nonblocking(true), near.set_tcp_nodelay(true));
            let id = self.next;
            self.next += 1;
            let mut untried = self.target.clone();
            untried.reverse();
            let connection = Connection {
                ends: [Some(near), None],
                untried,
                is_connected: false,
                halves: [Half::default(), Half::default()],
                watched: [EventFlags::empty(); 2],
            };
            self.connections.insert(id, connection);
            self.send(Direction::Up, id, Cargo::Open);
        }
        // Level-triggered: a listener that is not accepted from would be reported endlessly.
        self.accepts = epoll::delete(&self.poll, &self.listener).is_err();
    }

    /// Processes items that have reached the end of the path.
    fn arrive(&mut self) {
        let now = Instant::ZERO + clock::now().since(self.origin);
        for direction in [Direction::Up, Direction::Down] {
            while let Some(piece) = self.path.receive(direction, now) {
                let size = piece.size().0;
                self.inside -= size;
                self.tally.bytes_out[direction as usize] += size;
                if let Some(connection) = self.connections.get_mut(&piece.connection) {
                    connection.halves[direction as usize].inside -= size;
                    self.take(direction, piece);
                }
            }
        }
    }

    fn take(
        &mut self,
        direction: Direction,
        Piece {
            connection: id,
            cargo,
        }: Piece,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let half = &mut connection.halves[direction as usize];
        match cargo {
            Cargo::Open => return self.dial(id),
            Cargo::Opened => connection.halves[Direction::Up as usize].source = Source::Open,
            Cargo::Bytes(bytes) => half.held.extend_from_slice(&bytes),
            Cargo::End => half.sink = Sink::Ending,
            Cargo::Reset => return self.reset(id),
        }
        self.tend(id);
    }

    /// Connects to the target's next address; if none is left, resets the near end.
    fn dial(&mut self, id: u64) {
        while let Some(connection) = self.connections.get_mut(&id) {
            let Some(address) = connection.untried.pop() else {
                return self.send(Direction::Down, id, Cargo::Reset);
            };
            let kind = Type::STREAM.nonblocking().cloexec();
            let Ok(socket) = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP)) else {
                continue;
            };
            let _ = socket.set_tcp_nodelay(true);
            let tried = socket.connect(&SockAddr::from(address));
            let is_on_its_way = tried
                .as_ref()
                .is_err_and(|error| error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()));
            if tried.is_ok() || is_on_its_way {
                connection.watched[1] = EventFlags::empty();
                connection.ends[1] = Some(socket);
                return match tried {
                    Ok(()) => self.connected(id),
                    Err(_) => self.tend(id),
                };
            }
        }
    }

    fn connected(&mut self, id: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_connected = true;
            connection.halves[Direction::Down as usize].source = Source::Open;
            self.send(Direction::Down, id, Cargo::Opened);
            self.tend(id);
        }
    }

    /// Processes an event at an end: 0 near, 1 far.
    fn ready(&mut self, id: u64, end: usize) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if end == 1 && !connection.is_connected {
            let outcome = connection.ends[1].as_ref().map(Socket::take_error);
            return match outcome {
                Some(Ok(None)) => self.connected(id),
                _ => {
                    connection.ends[1] = None;
                    self.dial(id);
                }
            };
        }
        self.read(id, end);
        self.tend(id);
    }

    /// Reads as much as the window allows and sends it through the path.
    fn read(&mut self, id: u64, end: usize) {
        let direction = [Direction::Up, Direction::Down][end];
        let mut buffer = vec![0; self.payload[end]];
        while self.has_room(id, end) {
            let Some(mut socket) = self.connections.get(&id).and_then(|it| it.ends[end].as_ref()) else {
                return;
            };
            let (cargo, source) = match socket.read(&mut buffer) {
                Ok(0) => (Cargo::End, Source::Ended),
                Ok(n) => (Cargo::Bytes(buffer[..n].to_vec()), Source::Open),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => (Cargo::Reset, Source::Ended),
            };
            self.send(direction, id, cargo);
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.halves[end].source = source;
            }
        }
    }

    fn has_room(&self, id: u64, way: usize) -> bool {
        self.connections.get(&id).is_some_and(|connection| {
            let half = &connection.halves[way];
            half.source == Source::Open
                && half.inside + half.waiting() < self.window[way]
                && self.inside < INSIDE_MAX
        })
    }

    /// Writes what can be written, then watches both ends for the events they need.
    fn tend(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        for (way, sink) in [(0, 1), (1, 0)] {
            let is_there = sink == 0 || connection.is_connected;
            if let Some(socket) = connection.ends[sink].as_ref().filter(|_| is_there)
                && connection.halves[way].flush(socket).is_err()
            {
                // Broken here: the other end learns of it after the path's delay.
                connection.halves[way].sink = Sink::Shut;
                (connection.halves[way].held, connection.halves[way].start) = (Vec::new(), 0);
                connection.halves[1 - way].source = Source::Ended;
                let back = [Direction::Down, Direction::Up][way];
                self.send(back, id, Cargo::Reset);
                return;
            }
        }
        let is_over = connection.halves.iter().all(|half| half.sink == Sink::Shut);
        if is_over {
            return self.forget(id);
        }
        let rooms = [self.has_room(id, 0), self.has_room(id, 1)];
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        for end in [0, 1] {
            let Some(socket) = &connection.ends[end] else {
                continue;
            };
            let mut wanted = EventFlags::empty();
            let is_dialing = end == 1 && !connection.is_connected;
            wanted.set(EventFlags::IN, rooms[end]);
            wanted.set(
                EventFlags::OUT,
                is_dialing || connection.halves[1 - end].waiting() > 0,
            );
            let data = EventData::new_u64(id * 2 + end as u64);
            let was = connection.watched[end];
            // A socket without wanted events is removed: a broken one would be reported endlessly.
            let changed = match (was.is_empty(), wanted.is_empty()) {
                (true, true) => Ok(()),
                (true, false) => epoll::add(&self.poll, socket, data, wanted),
                (false, true) => epoll::delete(&self.poll, socket),
                (false, false) if was == wanted => Ok(()),
                (false, false) => epoll::modify(&self.poll, socket, data, wanted),
            };
            connection.watched[end] = wanted;
            if changed.is_err() {
                // Nobody would see what this end sends.
                return self.reset(id);
            }
        }
    }

    /// Resets both ends.
    fn reset(&mut self, id: u64) {
        if let Some(connection) = self.connections.get(&id) {
            for end in connection.ends.iter().flatten() {
                let _ = end.set_linger(Some(std::time::Duration::ZERO));
            }
        }
        self.forget(id);
    }

    fn forget(&mut self, id: u64) {
        self.connections.remove(&id);
        if !self.accepts {
            let data = EventData::new_u64(LISTENER);
            self.accepts = epoll::add(&self.poll, &self.listener, data, EventFlags::IN).is_ok();
        }
    }
}

/// Twice the bandwidth-delay product: enough to fill the line, not enough to hide it.
fn window(profile: &Profile, way: &Way) -> u64 {
    let server = if profile.half_duplex {
        &profile.up.server
    } else {
        &way.server
    };
    let rate = match server {
        Some(Server::Rate(rate)) => rate.bits_per_second(),
        Some(Server::Trace(trace)) => trace.rate().bits_per_second(),
        None => return WINDOW.1,
    };
    let rtt = (profile.up.delay + profile.down.delay).as_secs_f64();
    ((rate / 8.0 * rtt * 2.0) as u64).clamp(WINDOW.0, WINDOW.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str) -> Profile {
        Profile::parse(text, &link::Limits::default(), &mut |_| Err(String::new())).expect(text)
    }

    #[test]
    fn what_needs_packets_is_named() {
        for (text, keys) in [
            ("wan", &[][..]),
            ("rate=1M rtt=10ms jitter=2ms mtu=576 half-duplex=yes", &[]),
            ("wan loss=1%", &["loss"]),
            ("down.reorder=yes", &["reorder"]),
            ("rate=1M queue=codel hold-acks=200ms", &["queue", "hold-acks"]),
        ] {
            assert_eq!(
                impossible(&profile(text), &HostSettings::default()),
                keys,
                "{text}"
            );
        }
        let hosts = HostSettings {
            mss: Some(536),
            initcwnd: Some(2),
            congestion: Some("reno".to_owned()),
            idle_restart: Some(false),
            aged: true,
        };
        let keys = ["mss", "initcwnd", "congestion", "idle-restart", "aged"];
        assert_eq!(impossible(&profile("wan"), &hosts), keys);
    }

    #[test]
    fn a_window_fills_the_line_and_has_bounds() {
        for (text, want) in [
            ("rate=28.8k rtt=150ms", WINDOW.0),
            ("rate=10M rtt=100ms", 250_000),
            ("rate=1000M rtt=400ms", WINDOW.1),
            ("rtt=10ms", WINDOW.1),
        ] {
            let profile = profile(text);
            assert_eq!(window(&profile, &profile.down), want, "{text}");
        }
    }
}
