//! Two hosts and a link in virtual time: applications talk over `tcp` endpoints, and a log of segments comes out.
//!
//! What `sim` is to one worker, this is to a network: it owns time, the processor of each host and who is told
//! what when. It decides nothing of TCP (the crate `tcp` does), of queues (`link`), or of what is said (an
//! [`Application`]). Deterministic: one thread, one seed.
//!
//! A host has one processor, shared by its connections. Work takes time on it ([`Work::run`]), a read takes
//! time, and an ACK that depends on reading therefore waits for the processor.

mod connections;
mod dialing;
mod host;
mod hosted;

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
pub use dialing::{Dialing, Effort, Price};
use host::Host;
pub use host::{Application, Conn, Happened, HostSetup, Work};
pub use hosted::Hosted;
use link::{Direction, Flow, Packet, Path, Profile, TcpView, Verdict};
use measure::{Bytes, Draw, Instant, Seed};
use tcp::{Capture, Segment};

/// Bounds of a world.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections open at a time; a SYN beyond is not answered.
    pub connections_max: usize,
    /// Segments logged; later ones travel and are not logged.
    pub log_max: usize,
    /// Those of the link.
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

/// A segment, when it went and when it came.
#[derive(Clone, Debug)]
pub struct Logged {
    /// Which connection.
    pub conn: Conn,
    /// Which way.
    pub direction: Direction,
    /// When its host handed it to the link.
    pub sent: Instant,
    /// When the other host got it; `None` for what was lost or is under way.
    pub arrived: Option<Instant>,
    /// What it says.
    pub segment: Segment,
}

/// Where a capture is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vantage {
    /// At the client: what it sends as it sends it, what it gets as it gets it.
    Client,
    /// At the server, likewise.
    Server,
    /// Beside the receiving host, whichever that is: what has passed the line, in the order it passed.
    Line,
}

/// Two hosts, their applications and the link between them.
pub struct World {
    now: Instant,
    /// The client first.
    hosts: [Host; 2],
    path: Path<Carried>,
    log: Vec<Logged>,
    limits: Limits,
}

/// A segment on the link.
#[derive(Debug)]
struct Carried {
    conn: Conn,
    direction: Direction,
    /// Its place in the log, if it has one.
    place: Option<usize>,
    line_gain: f64,
    segment: Segment,
}

impl Packet for Carried {
    fn size(&self) -> Bytes {
        Bytes(self.segment.packet_bytes())
    }

    fn line_size(&self) -> Bytes {
        // Headers are counted whole.
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

/// RFC 2544's addresses for measurements.
fn endpoints(conn: Conn, direction: Direction) -> (SocketAddrV4, SocketAddrV4) {
    let client = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 1), conn.port());
    let server = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 2), 80);
    match direction {
        Direction::Up => (client, server),
        Direction::Down => (server, client),
    }
}

impl World {
    /// A world at time zero in which both applications have been told [`Happened::Started`].
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

    /// The segments as a capture at `vantage` shows them: time, and which.
    pub fn seen_from(&self, vantage: Vantage) -> Vec<(Instant, &Logged)> {
        let mut seen: Vec<(Instant, &Logged)> = self
            .log
            .iter()
            .filter_map(|logged| {
                let own = match vantage {
                    Vantage::Client => logged.direction == Direction::Up,
                    Vantage::Server => logged.direction == Direction::Down,
                    Vantage::Line => false,
                };
                let at = if own { Some(logged.sent) } else { logged.arrived };
                Some((at?, logged))
            })
            .collect();
        seen.sort_by_key(|(at, _)| *at);
        seen
    }

    /// A pcapng file of what is seen at `vantage`, its clock starting at `epoch` after 1970.
    pub fn pcapng(&self, vantage: Vantage, epoch: measure::Duration) -> Vec<u8> {
        let mut out = Vec::new();
        let mut capture = Capture::begin(&mut out);
        for (at, logged) in self.seen_from(vantage) {
            let (source, destination) = endpoints(logged.conn, logged.direction);
            capture.segment(&mut out, at + epoch, source, destination, &logged.segment);
        }
        out
    }

    /// Lets everything happen until `until`, or until nothing more would ever happen; returns whether that is so.
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

    /// Everything that is due now, until nothing is.
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
                    // A segment is answered before the next one is looked at, as in a kernel.
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

    /// Puts what one host has to send on the link; returns whether there was anything.
    fn send(&mut self, side: usize) -> bool {
        let direction = if side == 0 { Direction::Up } else { Direction::Down };
        let mut any = false;
        while let Some((conn, segment)) = self.hosts[side].transmit() {
            any = true;
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
            // Lost at once or later: the log entry stays without an arrival.
            let (Verdict::Queued | Verdict::Dropped(_)) = self.path.send(direction, carried, self.now);
        }
        any
    }
}

#[cfg(test)]
mod tests;
