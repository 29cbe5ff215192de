//! Two hosts and a link in virtual time: applications communicate over `tcp` endpoints and produce a log of segments.
//!
//! As `runtime::sim` does for one worker, this crate owns time, the processor of each host, and the order of events in a
//! network. It decides nothing about TCP (the crate `tcp` does), queues (`link`), or content (an [`Application`]).
//! Deterministic: one thread, one seed.
//!
//! A host has one processor, shared by its connections. Work takes time on it ([`Work::run`]), and so does a read; an
//! ACK that depends on reading therefore waits for the processor.

mod bridge;
mod datagrams;
mod dialing;
mod host;
mod hosted;
mod tally;
// The toy protocol of the drivers' tests; it names these modules from its crate's root.
#[cfg(test)]
#[path = "../../runtime/src/toy.rs"]
#[expect(dead_code, reason = "the drivers of `runtime` use all of it")]
mod toy;

pub use bridge::{Bridge, BridgeHost, BridgeLimits, Pair, Passing, Side, Turn};
use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
pub use datagrams::{DatagramWorld, LoggedDatagram};
pub use dialing::{Dialing, Effort, Price};
use host::Host;
pub use host::{Application, Conn, Happened, HostSetup, Work};
pub use hosted::Hosted;
use link::{Direction, Flow, Packet, Path, Profile, TcpView, Verdict};
#[cfg(test)]
use runtime::{fs, session, shaping};
pub use tally::Tally;
use tcp::{Capture, Segment};
use units::{Bytes, Draw, Instant, Seed};

/// Limits of a world.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections; a SYN beyond this limit is not answered.
    pub connections_max: usize,
    /// Logged segments; later ones travel without being logged.
    pub log_max: usize,
    /// Limits of the link.
    pub link: link::Limits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 10_000,
            log_max: 1_000_000,
            link: link::Limits::default(),
        }
    }
}

/// A segment with its times of sending and arrival.
#[derive(Clone, Debug)]
pub struct Logged {
    /// Which connection.
    pub conn: Conn,
    /// Which way.
    pub direction: Direction,
    /// When its host handed it to the link.
    pub sent: Instant,
    /// When the other host received it; `None` if it was lost or is under way.
    pub arrived: Option<Instant>,
    /// The segment itself.
    pub segment: Segment,
}

/// The point of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vantage {
    /// At the client: outgoing segments when sent, incoming ones when received.
    Client,
    /// At the server: outgoing segments when sent, incoming ones when received.
    Server,
    /// Beside the receiving host, in both directions: segments that have passed the line, in that order.
    Line,
}

impl Vantage {
    /// When a packet is seen here: at its sender when it is sent, and elsewhere when it arrives. `None` if it never does.
    fn time(self, direction: Direction, sent: Instant, arrived: Option<Instant>) -> Option<Instant> {
        let is_sender = match self {
            Vantage::Client => direction == Direction::Up,
            Vantage::Server => direction == Direction::Down,
            Vantage::Line => false,
        };
        if is_sender { Some(sent) } else { arrived }
    }
}

/// Packets of a log with the times at which a capture shows them, in that order. `time` is `None` for those it does not show.
fn seen<L>(log: &[L], time: impl Fn(&L) -> Option<Instant>) -> Vec<(Instant, &L)> {
    let mut seen: Vec<(Instant, &L)> = log
        .iter()
        .filter_map(|logged| Some((time(logged)?, logged)))
        .collect();
    seen.sort_by_key(|(at, _)| *at);
    seen
}

/// Two hosts, their applications and the link between them.
pub struct World {
    now: Instant,
    /// Client, then server.
    hosts: [Host; 2],
    path: Path<Carried>,
    log: Vec<Logged>,
    tallies: [Tally; 2],
    limits: Limits,
}

/// A segment on the link.
#[derive(Debug)]
struct Carried {
    conn: Conn,
    direction: Direction,
    /// Its index in the log, if it is logged.
    place: Option<usize>,
    line_gain: f64,
    segment: Segment,
}

impl Packet for Carried {
    fn size(&self) -> Bytes {
        Bytes(self.segment.packet_bytes())
    }

    fn line_size(&self) -> Bytes {
        // The link adds the headers' whole size.
        let data = self.segment.payload.len() as u64;
        Bytes(self.size().0 - data + (data as f64 / self.line_gain).ceil() as u64)
    }

    fn tcp(&self) -> Option<TcpView> {
        let (source, destination) = endpoints(self.conn, self.direction);
        self.segment.flags.ack.then(|| TcpView {
            flow: Flow {
                source: SocketAddr::V4(source),
                destination: SocketAddr::V4(destination),
            },
            ack: self.segment.ack,
            pure_ack: self.segment.is_pure_ack(),
        })
    }
}

/// Addresses reserved for measurements (RFC 2544).
fn endpoints(conn: Conn, direction: Direction) -> (SocketAddrV4, SocketAddrV4) {
    let client = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 1), conn.port());
    let server = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 2), 80);
    match direction {
        Direction::Up => (client, server),
        Direction::Down => (server, client),
    }
}

impl World {
    /// A world at time zero; both applications have received [`Happened::Started`].
    pub fn new(
        profile: &Profile,
        client: (HostSetup, Box<dyn Application>),
        server: (HostSetup, Box<dyn Application>),
        seed: Seed,
        limits: Limits,
    ) -> World {
        let mut rng = seed.rng();
        let path = Path::new(profile, Seed(rng.next_u64()), &limits.link);
        let mut world = World {
            now: Instant::ZERO,
            hosts: [
                Host::new(client.0, client.1, Seed(rng.next_u64())),
                Host::new(server.0, server.1, Seed(rng.next_u64())),
            ],
            path,
            log: Vec::new(),
            tallies: [Tally::default(); 2],
            limits,
        };
        for host in &mut world.hosts {
            host.tell(Happened::Started);
        }
        world
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Every segment so far, in the order they were sent.
    pub fn log(&self) -> &[Logged] {
        &self.log
    }

    /// What each side has sent, logged or not: client, then server.
    pub fn tallies(&self) -> [Tally; 2] {
        self.tallies
    }

    /// Congestion windows of the server's established connections, in segments.
    pub fn server_windows(&self) -> Vec<f64> {
        self.hosts[1].windows()
    }

    /// The segments as a capture at `vantage` shows them, each with its time there.
    pub fn seen_from(&self, vantage: Vantage) -> Vec<(Instant, &Logged)> {
        seen(&self.log, |logged| {
            vantage.time(logged.direction, logged.sent, logged.arrived)
        })
    }

    /// A pcapng file of the segments seen at `vantage`; its clock starts at `epoch` after 1970.
    pub fn pcapng(&self, vantage: Vantage, epoch: units::Duration) -> Vec<u8> {
        let mut out = Vec::new();
        let mut capture = Capture::begin(&mut out);
        for (at, logged) in self.seen_from(vantage) {
            let (source, destination) = endpoints(logged.conn, logged.direction);
            capture.segment(&mut out, at + epoch, source, destination, &logged.segment);
        }
        out
    }

    /// Runs until `until`, or until no event is left; returns whether no event is left.
    pub fn run(&mut self, until: Instant) -> bool {
        loop {
            self.settle();
            let next = self.next_event();
            match next {
                None => return true,
                Some(at) if at > until => {
                    self.now = self.now.max(until);
                    return false;
                }
                Some(at) => self.now = self.now.max(at),
            }
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.hosts
            .iter()
            .filter_map(Host::next_event)
            .chain(self.path.next_departure())
            .min()
    }

    /// Processes everything that is due now.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            for direction in [Direction::Up, Direction::Down] {
                while let Some(carried) = self.path.receive(direction, self.now) {
                    moved = true;
                    if let Some(place) = carried.place {
                        self.log[place].arrived = Some(self.now);
                    }
                    let receiver = match direction {
                        Direction::Up => 1,
                        Direction::Down => 0,
                    };
                    let accepts = receiver == 1 && self.hosts[1].open() < self.limits.connections_max;
                    self.hosts[receiver].receive(carried.conn, carried.segment, accepts, self.now);
                    // A segment is answered before the next one is processed, as in a kernel.
                    self.send(receiver);
                }
            }
            for side in 0..2 {
                moved |= self.hosts[side].turn(self.now);
                moved |= self.send(side);
            }
            if !moved {
                return;
            }
        }
    }

    /// Puts one host's pending segments on the link; returns whether there were any.
    fn send(&mut self, side: usize) -> bool {
        let direction = if side == 0 { Direction::Up } else { Direction::Down };
        let mut any = false;
        while let Some((conn, segment)) = self.hosts[side].transmit() {
            any = true;
            self.tallies[side].count(&segment);
            let place = (self.log.len() < self.limits.log_max).then(|| {
                self.log.push(Logged {
                    conn,
                    direction,
                    sent: self.now,
                    arrived: None,
                    segment: segment.clone(),
                });
                self.log.len() - 1
            });
            let carried = Carried {
                conn,
                direction,
                place,
                line_gain: self.hosts[side].line_gain(),
                segment,
            };
            // A segment that is lost, at once or later, keeps a log entry without arrival.
            let (Verdict::Queued | Verdict::Dropped(_)) = self.path.send(direction, carried, self.now);
        }
        any
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a capture is a file to another program")]
mod tests;
