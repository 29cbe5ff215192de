//! Two hosts whose TCP is a model and whose applications are real: `tcp` endpoints on both sides of a link, for a driver
//! that moves the applications' bytes.
//!
//! Unlike a [`World`](crate::World), it has no applications, and the driver passes the time. The driver may be late:
//! segments and timers are processed at the instants they were due, not when the driver asks. Segments cross the link as
//! the bytes of IPv4 packets, and the [`Passing`] packets of a capture are these bytes.
//!
//! ```text
//!  near host                              far host
//!  connect ── SYN ─▶ link ─▶ Asked ──┬── accept ── SYN+ACK ─▶ link ─▶ Opened
//!                                    ├── refuse ── RST ─────▶ link ─▶ Moved, has ended
//!                                    └── ignore: the SYN is repeated
//! ```

use core::net::SocketAddrV4;
use link::{Counters, Datagram, Direction, Packet, Path, Profile, Way};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tcp::{Closed, Endpoint, Segment, Setup, Stack, State, ipv4_packet, parse_ipv4_packet};
use units::{Bytes, Draw, Duration, Instant, Rng, Seed};

/// Bytes of the headers of IPv4 and TCP without options.
const HEADERS: u64 = 40;

/// Limits of a bridge.
#[derive(Clone, Debug)]
pub struct BridgeLimits {
    /// Connections at a time. Beyond it, [`Bridge::connect`] opens none. As many again may wait in `TIME_WAIT`; beyond
    /// that, the wait that ends first ends at once.
    pub connections_max: usize,
    /// Limits of the link.
    pub link: link::Limits,
}

impl Default for BridgeLimits {
    fn default() -> BridgeLimits {
        BridgeLimits {
            connections_max: 1_024,
            link: link::Limits::default(),
        }
    }
}

/// The TCP of one host.
#[derive(Clone, Debug, PartialEq)]
pub struct BridgeHost {
    /// Its stack.
    pub stack: Stack,
    /// Whether Nagle's algorithm is off for all its connections.
    pub no_delay: bool,
}

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The host that opens connections.
    Near,
    /// The host that accepts them.
    Far,
}

impl Side {
    /// The direction of its packets.
    fn sends(self) -> Direction {
        match self {
            Side::Near => Direction::Up,
            Side::Far => Direction::Down,
        }
    }
}

/// A connection: its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The address that opened it.
    pub near: SocketAddrV4,
    /// The address that accepts it.
    pub far: SocketAddrV4,
}

impl Pair {
    /// Source and destination of a packet sent by `side`.
    fn ends(self, side: Side) -> (SocketAddrV4, SocketAddrV4) {
        match side {
            Side::Near => (self.near, self.far),
            Side::Far => (self.far, self.near),
        }
    }
}

/// An event for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A SYN has arrived at the far host. It waits for [`Bridge::accept`], [`Bridge::refuse`] or [`Bridge::ignore`].
    Asked(Pair),
    /// The near host has completed the handshake.
    Opened(Pair),
    /// A segment or a timer has changed this end: it may have bytes, room, an end of the stream, or have ended.
    Moved(Pair, Side),
}

/// A packet at the near end of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    /// When it entered the link there or left it.
    pub at: Instant,
    /// Up: it entered the link. Down: it left the link.
    pub direction: Direction,
    /// The IPv4 packet.
    pub packet: Vec<u8>,
}

/// One end of a connection.
struct End {
    endpoint: Endpoint,
    /// Its entry in the host's timers.
    due: Option<Instant>,
    is_open: bool,
    /// The driver has no further use for it.
    is_released: bool,
}

struct Host {
    setup: Setup,
    rng: Rng,
    ends: BTreeMap<Pair, End>,
    timers: BTreeSet<(Instant, Pair)>,
    /// Identification of the next packet.
    id: u16,
}

impl Host {
    fn new(host: &BridgeHost, mtu: Option<Bytes>, mut rng: Rng) -> Host {
        let room = mtu.map_or(u64::MAX, |Bytes(mtu)| mtu.saturating_sub(HEADERS).max(1));
        let period = host.stack.delayed_ack.as_nanos().max(1) as u64;
        Host {
            setup: Setup {
                phase: Duration::from_nanos(rng.next_u64() % period),
                mss: u16::try_from(room).unwrap_or(u16::MAX).min(host.stack.mss),
                no_delay: host.no_delay,
                ..Setup::new(host.stack.clone(), 0)
            },
            rng,
            ends: BTreeMap::new(),
            timers: BTreeSet::new(),
            id: 0,
        }
    }

    /// Parameters of its next connection.
    fn next_setup(&mut self) -> Setup {
        Setup {
            iss: self.rng.next_u64() as u32,
            ..self.setup.clone()
        }
    }

    /// Ends that are neither closed nor in `TIME_WAIT`.
    fn open(&self) -> usize {
        let is_open = |end: &&End| !matches!(end.endpoint.state(), State::Closed(_) | State::TimeWait { .. });
        self.ends.values().filter(is_open).count()
    }

    fn enter(&mut self, pair: Pair, endpoint: Endpoint) {
        self.remove(pair);
        let end = End {
            endpoint,
            due: None,
            is_open: false,
            is_released: false,
        };
        self.ends.insert(pair, end);
    }

    fn remove(&mut self, pair: Pair) {
        if let Some(end) = self.ends.remove(&pair)
            && let Some(due) = end.due
        {
            self.timers.remove(&(due, pair));
        }
    }

    /// Ends the waits in `TIME_WAIT` that are soonest over, while more than `max` ends exist.
    fn make_room(&mut self, max: usize) {
        while self.ends.len() >= max {
            let waits = |pair: &Pair| {
                let end = self.ends.get(pair);
                end.is_some_and(|end| end.is_released && is_over(end.endpoint.state()))
            };
            let Some((_, pair)) = self.timers.iter().find(|(_, pair)| waits(pair)).copied() else {
                return;
            };
            self.remove(pair);
        }
    }
}

/// Whether a connection in this state may give way to a new one between the same addresses (RFC 9293, section 3.10.7.4).
fn is_over(state: State) -> bool {
    matches!(state, State::TimeWait { .. } | State::Closed(_))
}

/// Two hosts and the link between them.
pub struct Bridge {
    now: Instant,
    hosts: [Host; 2],
    path: Path<Datagram>,
    /// SYNs at the far host that wait for the driver's decision.
    asked: BTreeMap<Pair, Segment>,
    turns: VecDeque<Turn>,
    moved: BTreeSet<(Pair, Side)>,
    captures: bool,
    passing: VecDeque<Passing>,
    bytes_in: [u64; 2],
    bytes_out: [u64; 2],
    limits: BridgeLimits,
}

impl Bridge {
    /// Two hosts (near, far) without connections. `captures` tells whether packets are kept for [`Bridge::passing`].
    pub fn new(
        profile: &Profile,
        [near, far]: [&BridgeHost; 2],
        seed: Seed,
        limits: BridgeLimits,
        captures: bool,
    ) -> Bridge {
        // The link's randomness is that of the same link without a bridge.
        let mut rng = Seed(seed.0.rotate_left(32) ^ 0x5bd1_e995).rng();
        let mut host = |host: &BridgeHost, way: &Way| {
            let own = Seed(rng.next_u64()).rng();
            Host::new(host, way.mtu, own)
        };
        Bridge {
            now: Instant::ZERO,
            // A host announces the segments that fit the packets that reach it.
            hosts: [host(near, &profile.down), host(far, &profile.up)],
            path: Path::new(profile, seed, &limits.link),
            asked: BTreeMap::new(),
            turns: VecDeque::new(),
            moved: BTreeSet::new(),
            captures,
            passing: VecDeque::new(),
            bytes_in: [0; 2],
            bytes_out: [0; 2],
            limits,
        }
    }

    /// When something is due: a packet arrives, or a timer expires.
    pub fn next_due(&self) -> Option<Instant> {
        let timers = self.hosts.iter().filter_map(|host| Some(host.timers.first()?.0));
        timers.chain(self.path.next_departure()).min()
    }

    /// When the next packet may arrive.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.path.next_departure()
    }

    /// Processes everything due by `now`, each at its own instant. Call it before every other method that takes a time,
    /// with that time.
    pub fn advance(&mut self, now: Instant) {
        while let Some(due) = self.next_due().filter(|due| *due <= now) {
            self.now = self.now.max(due);
            for direction in [Direction::Up, Direction::Down] {
                while let Some(packet) = self.path.receive(direction, self.now) {
                    self.arrived(direction, packet);
                }
            }
            for side in [Side::Near, Side::Far] {
                self.expire(side);
            }
        }
        self.now = self.now.max(now);
    }

    /// The next event; `None` if there is none left.
    pub fn turn(&mut self) -> Option<Turn> {
        let moved = |(pair, side)| Turn::Moved(pair, side);
        self.turns
            .pop_front()
            .or_else(|| self.moved.pop_first().map(moved))
    }

    /// The next packet seen at the near end, if captured.
    pub fn passing(&mut self) -> Option<Passing> {
        self.passing.pop_front()
    }

    /// Packets in, out and dropped in one direction.
    pub fn counters(&self, direction: Direction) -> Counters {
        self.path.counters(direction)
    }

    /// Bytes of IP packets that entered the link: up, down.
    pub fn bytes_in(&self) -> [u64; 2] {
        self.bytes_in
    }

    /// Bytes of IP packets that left the link: up, down.
    pub fn bytes_out(&self) -> [u64; 2] {
        self.bytes_out
    }

    /// Whether [`Bridge::connect`] is at its limit.
    pub fn is_full(&self) -> bool {
        self.hosts[Side::Near as usize].open() >= self.limits.connections_max
    }

    /// Opens a connection from the near host. Returns whether it does: not beyond the limit, and not while an earlier
    /// connection between the same addresses is unfinished.
    pub fn connect(&mut self, pair: Pair) -> bool {
        let end = self.end(pair, Side::Near);
        if self.is_full() || end.is_some_and(|end| !is_over(end.endpoint.state())) {
            return false;
        }
        let host = &mut self.hosts[Side::Near as usize];
        host.make_room(2 * self.limits.connections_max);
        let setup = host.next_setup();
        host.enter(pair, Endpoint::connect(setup, self.now));
        self.settle(pair, Side::Near);
        true
    }

    /// Answers a waiting SYN with SYN and ACK.
    pub fn accept(&mut self, pair: Pair) {
        let Some(syn) = self.asked.remove(&pair) else {
            return;
        };
        let host = &mut self.hosts[Side::Far as usize];
        host.make_room(2 * self.limits.connections_max);
        let mut endpoint = Endpoint::listen(host.next_setup());
        endpoint.receive(syn, self.now);
        host.enter(pair, endpoint);
        self.settle(pair, Side::Far);
    }

    /// Answers a waiting SYN with a reset.
    pub fn refuse(&mut self, pair: Pair) {
        if let Some(syn) = self.asked.remove(&pair) {
            self.reset(pair, Side::Far, syn);
        }
    }

    /// Drops a waiting SYN. The near host repeats it.
    pub fn ignore(&mut self, pair: Pair) {
        self.asked.remove(&pair);
    }

    /// Bytes that [`Bridge::write`] takes now.
    pub fn room(&self, pair: Pair, side: Side) -> usize {
        self.end(pair, side).map_or(0, |end| {
            if end.endpoint.state().sends() {
                end.endpoint.room()
            } else {
                0
            }
        })
    }

    /// Writes as much as the send buffer has room for; returns how much that is. One output call of the stack.
    pub fn write(&mut self, pair: Pair, side: Side, data: &[u8]) -> usize {
        let now = self.now;
        self.with(pair, side, |endpoint| endpoint.write(data, now))
            .unwrap_or(0)
    }

    /// Reads up to `max` bytes, which opens the receive window.
    pub fn read(&mut self, pair: Pair, side: Side, max: usize) -> Vec<u8> {
        self.with(pair, side, |endpoint| endpoint.read(max))
            .unwrap_or_default()
    }

    /// Whether the peer has finished sending, and everything is read.
    pub fn is_eof(&self, pair: Pair, side: Side) -> bool {
        self.end(pair, side).is_some_and(|end| end.endpoint.is_eof())
    }

    /// How this end has ended; `None` while it has not.
    pub fn ended(&self, pair: Pair, side: Side) -> Option<Closed> {
        match self.end(pair, side)?.endpoint.state() {
            State::Closed(how) => Some(how),
            _ => None,
        }
    }

    /// Closes the sending half.
    pub fn shutdown(&mut self, pair: Pair, side: Side) {
        let now = self.now;
        self.with(pair, side, |endpoint| endpoint.shutdown(now));
    }

    /// Resets the connection.
    pub fn abort(&mut self, pair: Pair, side: Side) {
        self.with(pair, side, Endpoint::abort);
    }

    /// Leaves this end to itself: it acknowledges and repeats what it must and then disappears.
    pub fn release(&mut self, pair: Pair, side: Side) {
        if let Some(end) = self.hosts[side as usize].ends.get_mut(&pair) {
            end.is_released = true;
            self.settle(pair, side);
        }
        self.moved.remove(&(pair, side));
    }

    fn end(&self, pair: Pair, side: Side) -> Option<&End> {
        self.hosts[side as usize].ends.get(&pair)
    }

    fn with<T>(&mut self, pair: Pair, side: Side, call: impl FnOnce(&mut Endpoint) -> T) -> Option<T> {
        let end = self.hosts[side as usize].ends.get_mut(&pair)?;
        let result = call(&mut end.endpoint);
        self.settle(pair, side);
        Some(result)
    }

    /// Sends what an endpoint has to send, sets its timer, and forgets it if it is finished.
    fn settle(&mut self, pair: Pair, side: Side) {
        let host = &mut self.hosts[side as usize];
        let Some(end) = host.ends.get_mut(&pair) else {
            return;
        };
        let mut segments = Vec::new();
        while let Some(segment) = end.endpoint.transmit() {
            segments.push(segment);
        }
        if !end.is_open && end.endpoint.is_established() {
            end.is_open = true;
            if side == Side::Near {
                self.turns.push_back(Turn::Opened(pair));
            }
        }
        let due = end.endpoint.deadline();
        if due != end.due {
            if let Some(old) = end.due {
                host.timers.remove(&(old, pair));
            }
            if let Some(new) = due {
                host.timers.insert((new, pair));
            }
            end.due = due;
        }
        if end.is_released && matches!(end.endpoint.state(), State::Closed(_)) {
            host.remove(pair);
        }
        for segment in segments {
            self.send(pair, side, &segment);
        }
    }

    fn send(&mut self, pair: Pair, side: Side, segment: &Segment) {
        let host = &mut self.hosts[side as usize];
        host.id = host.id.wrapping_add(1);
        let (source, destination) = pair.ends(side);
        let packet = Datagram::new(ipv4_packet(source, destination, host.id, segment));
        let direction = side.sends();
        self.bytes_in[direction as usize] += packet.size().0;
        if direction == Direction::Up {
            self.seen(direction, &packet);
        }
        // A packet that is dropped is in the link's counters, and the stack repeats it.
        self.path.send(direction, packet, self.now);
    }

    fn seen(&mut self, direction: Direction, packet: &Datagram) {
        if self.captures {
            self.passing.push_back(Passing {
                at: self.now,
                direction,
                packet: packet.bytes().to_vec(),
            });
        }
    }

    fn arrived(&mut self, direction: Direction, packet: Datagram) {
        self.bytes_out[direction as usize] += packet.size().0;
        if direction == Direction::Down {
            self.seen(direction, &packet);
        }
        // Only `send` puts packets on the link, so every packet is a segment.
        let Some((source, destination, segment)) = parse_ipv4_packet(packet.bytes()) else {
            return;
        };
        match direction {
            Direction::Up => {
                let (near, far) = (source, destination);
                self.deliver(Pair { near, far }, Side::Far, segment);
            }
            Direction::Down => {
                let (near, far) = (destination, source);
                self.deliver(Pair { near, far }, Side::Near, segment);
            }
        }
    }

    fn deliver(&mut self, pair: Pair, side: Side, segment: Segment) {
        let now = self.now;
        let is_syn = segment.flags.syn && !segment.flags.ack && !segment.flags.rst;
        let end = self.hosts[side as usize].ends.get_mut(&pair);
        match end {
            Some(end) if !(is_syn && is_over(end.endpoint.state())) => {
                end.endpoint.receive(segment, now);
                if !end.is_released {
                    self.moved.insert((pair, side));
                }
                self.settle(pair, side);
            }
            _ if is_syn && side == Side::Far => {
                let host = &self.hosts[side as usize];
                let taken = host.open() + self.asked.len();
                if !self.asked.contains_key(&pair) && taken < self.limits.connections_max {
                    self.asked.insert(pair, segment);
                    self.turns.push_back(Turn::Asked(pair));
                }
            }
            _ => self.reset(pair, side, segment),
        }
    }

    /// Answers a segment that belongs to no connection, as a closed endpoint does.
    fn reset(&mut self, pair: Pair, side: Side, segment: Segment) {
        let mut closed = Endpoint::listen(self.hosts[side as usize].setup.clone());
        closed.close(self.now);
        closed.receive(segment, self.now);
        while let Some(answer) = closed.transmit() {
            self.send(pair, side, &answer);
        }
    }

    /// Runs the timers of one host that are due.
    fn expire(&mut self, side: Side) {
        while let Some(&(due, pair)) = self.hosts[side as usize].timers.first()
            && due <= self.now
        {
            let now = self.now;
            let Some(end) = self.hosts[side as usize].ends.get_mut(&pair) else {
                self.hosts[side as usize].timers.remove(&(due, pair));
                continue;
            };
            end.endpoint.expire(now);
            if !end.is_released {
                self.moved.insert((pair, side));
            }
            self.settle(pair, side);
        }
    }
}

#[cfg(test)]
mod tests;
