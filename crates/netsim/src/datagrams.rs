//! Two endpoints that exchange datagrams over a link, in virtual time: QUIC, for instance.
//!
//! As [`World`](crate::World) does for TCP, this owns time and the order of events: the client's address, the link and a
//! log of datagrams. Deterministic: what is lost, and when everything happens, follows from the endpoints and the seed.
//! Hosts have no processors here: work takes no time.

use crate::{Limits, Vantage, seen};
use core::net::SocketAddr;
use link::{Counters, Direction, Packet, Path, Profile, Verdict};
use runtime::datagram::{Endpoint, Sim};
use units::{Bytes, Duration, Instant, Seed, UnixTime};

/// Headers of IPv4 and UDP before a payload, in bytes.
const HEADERS: u64 = 28;
/// Addresses reserved for measurements (RFC 2544).
const CLIENT: ([u8; 4], u16) = ([198, 18, 0, 1], 10_000);
const SERVER: ([u8; 4], u16) = ([198, 18, 0, 2], 443);
/// Civil time at the start: 2026-01-01.
const STARTED: UnixTime = UnixTime::from_secs(1_767_225_600);

/// A datagram with its times of sending and arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedDatagram {
    /// Which way.
    pub direction: Direction,
    /// When its host handed it to the link.
    pub sent: Instant,
    /// When the other host received it; `None` if it was lost or is under way.
    pub arrived: Option<Instant>,
    /// Bytes of its payload.
    pub bytes: usize,
    /// The client's port at the time of sending.
    pub port: u16,
    /// Its payload; empty unless the world [keeps](DatagramWorld::keeping_payloads) payloads.
    pub payload: Vec<u8>,
}

impl LoggedDatagram {
    /// Bytes of the IPv4 packet that carries it, headers included, as [`tcp::Segment::packet_bytes`] counts them.
    pub fn packet_bytes(&self) -> u64 {
        self.bytes as u64 + HEADERS
    }
}

/// A datagram on the link.
#[derive(Debug)]
struct Flying {
    payload: Vec<u8>,
    /// The client's address that it comes from, or goes to.
    client: SocketAddr,
    /// Its index in the log, if it is logged.
    place: Option<usize>,
}

impl Packet for Flying {
    fn size(&self) -> Bytes {
        Bytes(self.payload.len() as u64 + HEADERS)
    }
}

/// Two endpoints and the link between them.
pub struct DatagramWorld<C, S> {
    now: Instant,
    client: Sim<C>,
    server: Sim<S>,
    /// The client's address, as the server sees it.
    address: SocketAddr,
    path: Path<Flying>,
    log: Vec<LoggedDatagram>,
    log_max: usize,
    keeps_payloads: bool,
    /// Civil time at time zero.
    started: UnixTime,
}

impl<C: Endpoint, S: Endpoint> DatagramWorld<C, S> {
    /// A world at time zero, in which nothing has happened. Of the limits, that on connections has no meaning here.
    pub fn new(profile: &Profile, client: C, server: S, seed: Seed, limits: &Limits) -> DatagramWorld<C, S> {
        DatagramWorld {
            now: Instant::ZERO,
            client: Sim::new(client),
            server: Sim::new(server),
            address: CLIENT.into(),
            path: Path::new(profile, seed, &limits.link),
            log: Vec::new(),
            log_max: limits.log_max,
            keeps_payloads: false,
            started: STARTED,
        }
    }

    /// The same world at another civil time; 2026-01-01 without this.
    #[must_use]
    pub fn starting_at(self, started: UnixTime) -> DatagramWorld<C, S> {
        DatagramWorld { started, ..self }
    }

    /// The same world, whose log has the payloads. They take memory, for which only the number of logged datagrams is a bound.
    #[must_use]
    pub fn keeping_payloads(self) -> DatagramWorld<C, S> {
        DatagramWorld {
            keeps_payloads: true,
            ..self
        }
    }

    /// The address at which the client finds the server.
    pub fn server_address() -> SocketAddr {
        SERVER.into()
    }

    /// The address from which the client sends at the start.
    pub fn client_address() -> SocketAddr {
        CLIENT.into()
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The client.
    pub fn client(&mut self) -> &mut C {
        self.client.endpoint()
    }

    /// The client, at the end.
    pub fn into_client(self) -> C {
        self.client.into_endpoint()
    }

    /// The server.
    pub fn server(&mut self) -> &mut S {
        self.server.endpoint()
    }

    /// The datagrams sent so far, in that order; at most as many as the limit says.
    pub fn log(&self) -> &[LoggedDatagram] {
        &self.log
    }

    /// The datagrams as a capture at `vantage` shows them, each with its time there: the counterpart of
    /// [`World::seen_from`](crate::World::seen_from).
    pub fn seen_from(&self, vantage: Vantage) -> Vec<(Instant, &LoggedDatagram)> {
        seen(&self.log, |logged| {
            vantage.time(logged.direction, logged.sent, logged.arrived)
        })
    }

    /// Datagrams in, out and dropped in one direction.
    pub fn counters(&self, direction: Direction) -> Counters {
        self.path.counters(direction)
    }

    /// Gives the client another port, as a NAT does that has forgotten the last one. What the server sends to the old port
    /// arrives no more.
    pub fn rebind(&mut self) {
        self.address.set_port(self.address.port() + 1);
    }

    /// Lets time pass until `done` holds, but not beyond `until`; returns whether it holds. It is asked after each instant at
    /// which something happens. If nothing will happen any more, time stops there.
    pub fn run(&mut self, until: Instant, mut done: impl FnMut(&mut DatagramWorld<C, S>) -> bool) -> bool {
        loop {
            self.happen();
            if done(self) {
                return true;
            }
            let deadlines = [
                self.client.endpoint().deadline(),
                self.server.endpoint().deadline(),
                self.path.next_departure(),
            ];
            let Some(next) = deadlines.into_iter().flatten().min().filter(|&at| at <= until) else {
                return false;
            };
            let span = next.since(self.now);
            self.client.advance(span);
            self.server.advance(span);
            self.now = self.now.max(next);
        }
    }

    /// Everything that happens at this instant.
    fn happen(&mut self) {
        let past = self.now.since(Instant::ZERO);
        let wall = UnixTime {
            secs: self.started.secs + past.as_secs() as i64,
            nanos: past.subsec_nanos(),
        };
        self.client.endpoint().turn(self.now, wall);
        self.server.endpoint().turn(self.now, wall);
        self.client.advance(Duration::ZERO);
        self.server.advance(Duration::ZERO);
        loop {
            self.depart();
            if !self.arrive() {
                return;
            }
        }
    }

    /// Gives the link what the endpoints have sent.
    fn depart(&mut self) {
        let both = [
            (Direction::Up, self.client.take_sent()),
            (Direction::Down, self.server.take_sent()),
        ];
        for (direction, sent) in both {
            for (to, payload) in sent {
                let client = match direction {
                    Direction::Up => self.address,
                    Direction::Down => to,
                };
                let place = (self.log.len() < self.log_max).then_some(self.log.len());
                if place.is_some() {
                    let kept = if self.keeps_payloads { &payload[..] } else { &[] };
                    self.log.push(LoggedDatagram {
                        direction,
                        sent: self.now,
                        arrived: None,
                        bytes: payload.len(),
                        port: client.port(),
                        payload: kept.to_vec(),
                    });
                }
                // The counters know of one that is dropped.
                let _: Verdict = self.path.send(
                    direction,
                    Flying {
                        payload,
                        client,
                        place,
                    },
                    self.now,
                );
            }
        }
    }

    /// Delivers what is due; returns whether there was anything.
    fn arrive(&mut self) -> bool {
        let mut is_any = false;
        for direction in [Direction::Up, Direction::Down] {
            while let Some(datagram) = self.path.receive(direction, self.now) {
                is_any = true;
                if direction == Direction::Down && datagram.client != self.address {
                    // Nobody receives at the old port.
                    continue;
                }
                if let Some(logged) = datagram.place.and_then(|place| self.log.get_mut(place)) {
                    logged.arrived = Some(self.now);
                }
                match direction {
                    Direction::Up => self.server.send(datagram.client, &datagram.payload),
                    Direction::Down => self.client.send(SERVER.into(), &datagram.payload),
                }
            }
        }
        is_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::datagram::{Address, Datagram, Outbox, Owner};

    /// Sends 100 numbered datagrams, one every 10 ms, and notes what comes back; or, as a server, sends back what comes.
    struct Toy {
        left: u8,
        next: Option<Instant>,
        echoes: Vec<(SocketAddr, u8)>,
        got: Vec<(SocketAddr, u8, Instant)>,
        is_server: bool,
    }

    impl Toy {
        fn new(left: u8, is_server: bool) -> Toy {
            Toy {
                left,
                next: (!is_server).then_some(Instant::ZERO),
                echoes: Vec::new(),
                got: Vec::new(),
                is_server,
            }
        }
    }

    impl Endpoint for Toy {
        type Job = runtime::NoJob;

        fn handle(&mut self, batch: &mut [Datagram<'_>], _: &mut Outbox, now: Instant) {
            for datagram in batch {
                self.got.push((datagram.from, datagram.bytes[0], now));
                if self.is_server {
                    self.echoes.push((datagram.from, datagram.bytes[0]));
                }
            }
        }

        fn poll(&mut self, out: &mut Outbox, now: Instant) -> bool {
            if self.next.is_some_and(|at| at <= now) {
                self.left -= 1;
                self.echoes.push((SERVER.into(), self.left));
                self.next = (self.left > 0).then(|| now + Duration::from_millis(10));
            }
            for (to, number) in self.echoes.drain(..) {
                out.push(|buffer| {
                    buffer.extend_from_slice(&[number; 972]);
                    Some(Address::to(to))
                });
            }
            false
        }

        fn deadline(&self) -> Option<Instant> {
            self.next
        }

        fn owner(&self, _: &[u8]) -> Owner {
            Owner::Anyone
        }

        fn drain(&mut self, _: &mut Outbox, _: Instant) {
            self.next = None;
        }

        fn is_idle(&self) -> bool {
            self.next.is_none()
        }
    }

    fn world(link: &str, seed: u64) -> DatagramWorld<Toy, Toy> {
        let limits = Limits::default();
        let profile = Profile::parse(link, &limits.link, &mut |_| Err(String::new())).expect(link);
        DatagramWorld::new(
            &profile,
            Toy::new(100, false),
            Toy::new(0, true),
            Seed(seed),
            &limits,
        )
    }

    fn end() -> Instant {
        Instant::ZERO + Duration::from_secs(60)
    }

    #[test]
    fn datagrams_take_the_time_of_the_link() {
        // 1,000 bytes with headers: a millisecond each way.
        let mut world = world("rate=8M rtt=40ms", 1);
        assert!(world.run(end(), |world| world.client().got.len() == 100));
        let times: Vec<u64> = world
            .client()
            .got
            .iter()
            .map(|(_, _, at)| at.as_nanos())
            .collect();
        let expected: Vec<u64> = (0..100).map(|n| n * 10_000_000 + 42_000_000).collect();
        assert_eq!(times, expected);
        assert_eq!(world.log().len(), 200);
        assert!(!world.run(end(), |_| false), "nothing happens any more");
        assert_eq!(world.now().as_nanos(), expected[99]);
    }

    #[test]
    fn a_seed_loses_the_same_datagrams() {
        let run = |seed| {
            let mut world = world("rtt=40ms loss=20% jitter=30ms reorder=yes", seed);
            world.run(end(), |_| false);
            let lost = [Direction::Up, Direction::Down].map(|way| world.counters(way).dropped.loss);
            (lost, world.log().to_vec())
        };
        let (lost, log) = run(1);
        assert_eq!((lost, log.clone()), run(1));
        assert_ne!(log, run(2).1);
        assert!(
            (5..=40).contains(&lost[0]) && (3..=35).contains(&lost[1]),
            "{lost:?}"
        );
        let missing = log.iter().filter(|one| one.arrived.is_none()).count() as u64;
        assert_eq!(missing, lost[0] + lost[1]);
        // What was lost is in a capture at its sender and in no other.
        let seen = |vantage| {
            let mut world = world("rtt=40ms loss=20% jitter=30ms reorder=yes", 1);
            world.run(end(), |_| false);
            world.seen_from(vantage).len() as u64
        };
        let all = log.len() as u64;
        assert_eq!(seen(Vantage::Client), all - lost[1]);
        assert_eq!(seen(Vantage::Server), all - lost[0]);
        assert_eq!(seen(Vantage::Line), all - missing);
        let up = log.iter().filter(|one| one.direction == Direction::Up);
        let arrived: Vec<Instant> = up.filter_map(|one| one.arrived).collect();
        assert!(!arrived.is_sorted(), "some were overtaken");
    }

    #[test]
    fn what_goes_to_a_forgotten_port_is_lost() {
        let mut world = world("rtt=40ms", 1);
        let middle = Instant::ZERO + Duration::from_millis(505);
        world.run(middle, |_| false);
        world.rebind();
        world.run(end(), |_| false);
        let ports: Vec<u16> = world.server().got.iter().map(|(from, ..)| from.port()).collect();
        assert_eq!(ports.len(), 100);
        assert_eq!(ports.iter().filter(|&&port| port == 10_000).count(), 51);
        // Sent within a round trip before the change: their echoes come too late.
        assert_eq!(world.client().got.len(), 96);
    }

    #[test]
    fn a_log_is_bounded_and_datagrams_travel_on() {
        let limits = Limits {
            log_max: 7,
            ..Limits::default()
        };
        let profile = Profile::default();
        let mut world = DatagramWorld::new(
            &profile,
            Toy::new(100, false),
            Toy::new(0, true),
            Seed(1),
            &limits,
        );
        world.run(end(), |_| false);
        assert_eq!((world.log().len(), world.client().got.len()), (7, 100));
    }
}
