//! One visit of the robot to the page: network, server, manner, first visit or revalidation, and the trace at
//! the client.
//!
//! The client is [`client::fetch::Fetch`], which `weir fetch` drives over sockets. Both hosts are of 1997
//! ([`Hosts::of`]); [`over`] accepts any hosts and any server. (F) marks values fitted to published figures.

use crate::costs::Costs;
use crate::page::{Page, URL};
use crate::server::{self, Kind, Server};
use client::cache::Entries;
use client::fetch::{Fetch, Outcome};
use client::plan::{Buffering, Limits, Manner, Mode, Plan, Priorities};
use client::streams::STREAM_WINDOW;
use client::timeline::{Sight, Timeline, Try};
use link::{Direction, Profile};
use netsim::{
    Application, Conn, Dialing, Effort, HostSetup, Limits as WorldLimits, Logged, Price, Vantage, World,
};
use runtime::dial::{Crew, Tcp};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tcp::{Setup, Stack};
use units::{Bytes, Draw, Duration, Instant, Seed, UnixTime};
use url::Url;

/// Noon of the day the NOTE was published: the civil time of every visit.
const WALL: UnixTime = UnixTime::from_secs(867_153_600);
/// The robot's `User-Agent`, before padding.
const AGENT: &str = "libwww-robot/5.1";

/// A network of Table 1 of document 003.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Network {
    /// 10 Mbit/s Ethernet.
    Lan,
    /// The Internet, coast to coast.
    Wan,
    /// A modem line.
    Ppp,
}

impl Network {
    /// All networks.
    pub const ALL: [Network; 3] = [Network::Lan, Network::Wan, Network::Ppp];

    /// The name in flags and of links.
    pub fn name(self) -> &'static str {
        match self {
            Network::Lan => "lan",
            Network::Wan => "wan",
            Network::Ppp => "ppp",
        }
    }

    /// The link: the document's figures, completed from [`crate::ASSUMPTIONS`].
    pub fn link(self) -> &'static str {
        match self {
            Network::Lan => "rate=10M half-duplex=yes framing=ethernet delay=0.25ms mtu=1500",
            Network::Wan => "rate=1.5M delay=44.5ms mtu=1500",
            Network::Ppp => "rate=26.4k delay=65ms framing=ppp mtu=1500",
        }
    }
}

/// A visit to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// The network.
    pub network: Network,
    /// The server product.
    pub server: Kind,
    /// Protocol mode and content coding.
    pub manner: Manner,
    /// Whether the cache is empty; otherwise it holds every object, and all are validated.
    pub is_first: bool,
    /// Differences from the document's final setup.
    pub variation: Variation,
}

/// Differences from the document's final setup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// The client's output buffer.
    pub buffering: Buffering,
    /// Most simultaneous connections; `None` for the mode's default.
    pub connections: Option<usize>,
    /// Whether the page is fetched without its images.
    pub page_alone: bool,
    /// Compression factor of the server's modem.
    pub line_gain: f64,
    /// Whether the server sets TCP_NODELAY.
    pub no_delay: bool,
    /// Most requests per connection, and how the server ends it; `None` for no limit.
    pub requests_max: Option<(u32, server::Ending)>,
    /// Processor times of both hosts.
    pub costs: Costs,
}

impl Variation {
    /// The final setup itself.
    pub const NONE: Variation = Variation {
        buffering: Buffering::DEFAULT,
        connections: None,
        page_alone: false,
        line_gain: 1.0,
        no_delay: true,
        requests_max: None,
        costs: Costs::FITTED,
    };
}

/// Packets and bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Way {
    /// Packets.
    pub packets: f64,
    /// Payload bytes, including retransmitted ones.
    pub bytes: f64,
    /// Bytes of the packets, headers of IP and TCP or UDP included.
    pub packet_bytes: f64,
}

impl Way {
    /// Counts a packet.
    pub fn count(&mut self, payload: u64, packet: u64) {
        self.packets += 1.0;
        self.bytes += payload as f64;
        self.packet_bytes += packet as f64;
    }
}

/// Totals of a trace at the client.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// From client to server.
    pub up: Way,
    /// From server to client.
    pub down: Way,
    /// Seconds from the start to the last byte of the last response.
    pub seconds: f64,
    /// Connections opened.
    pub connections: f64,
}

impl Figures {
    /// Packets in both directions.
    pub fn packets(&self) -> f64 {
        self.up.packets + self.down.packets
    }

    /// Payload bytes in both directions.
    pub fn bytes(&self) -> f64 {
        self.up.bytes + self.down.bytes
    }

    /// Bytes of the packets in both directions, headers included.
    pub fn packet_bytes(&self) -> f64 {
        self.up.packet_bytes + self.down.packet_bytes
    }

    /// Headers as a percentage of all bytes, at 40 bytes per packet, as the document counts.
    pub fn overhead(&self) -> f64 {
        let headers = 40.0 * self.packets();
        100.0 * headers / (self.bytes() + headers).max(1.0)
    }

    /// The mean of several visits.
    pub fn mean(all: &[Figures]) -> Figures {
        let mean = |of: &dyn Fn(&Figures) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
        Figures {
            up: Way {
                packets: mean(&|one| one.up.packets),
                bytes: mean(&|one| one.up.bytes),
                packet_bytes: mean(&|one| one.up.packet_bytes),
            },
            down: Way {
                packets: mean(&|one| one.down.packets),
                bytes: mean(&|one| one.down.bytes),
                packet_bytes: mean(&|one| one.down.packet_bytes),
            },
            seconds: mean(&|one| one.seconds),
            connections: mean(&|one| one.connections),
        }
    }
}

/// The result of one visit.
#[derive(Debug)]
pub struct Visit {
    /// Totals of the trace.
    pub figures: Figures,
    /// The client's record and its cache.
    pub outcome: Outcome,
    /// Responses the server has written completely, if it counts them.
    pub answered: u32,
    /// The trace as a pcapng file.
    pub capture: Vec<u8>,
}

impl Visit {
    /// Number of objects that failed.
    pub fn failed(&self) -> u64 {
        self.outcome.timeline.sums().failed
    }
}

/// Two hosts and the network between them.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The network link.
    pub link: Profile,
    /// The client's host.
    pub client: HostSetup,
    /// The server's host.
    pub server: HostSetup,
    /// Whether the trace includes the closing of connections.
    pub counts_teardown: bool,
}

/// Parses a constant description.
fn link(text: &str) -> Profile {
    Profile::parse(text, &link::Limits::default(), &mut |_| Err(String::new()))
        .expect("the texts are constants that tests parse")
}

fn preset(name: &str) -> Stack {
    Stack::preset(name).expect("the names are constants that tests look up")
}

impl Hosts {
    /// The hosts of document 003, with timer phases drawn from `seed`.
    pub fn of(network: Network, line_gain: f64, seed: Seed) -> Hosts {
        let mut client = preset(match network {
            Network::Ppp => "windows-nt-4.0",
            _ => "digital-unix-4.0",
        });
        let mut server = preset("solaris-2.5");
        server.rto_fixed = Stack::rto_effective("solaris-2.5", network.name());
        server.send_buffer = Stack::send_buffer_effective("solaris-2.5").unwrap_or(Bytes(8_192));
        if network == Network::Ppp {
            // The PPP rows contain no retransmission of either side (F).
            client.rto_fixed = server.rto_fixed;
        }
        let mut rng = seed.rng();
        let mut host = |stack: Stack, read_time| HostSetup {
            tcp: Setup {
                phase: Duration::from_micros(rng.next_u64() % 200_000),
                no_delay: true,
                ..Setup::new(stack, 0)
            },
            read_time,
            read_max: 32_768,
            line_gain,
        };
        Hosts {
            link: link(network.link()),
            client: host(client, Costs::FITTED.read()),
            server: host(server, Duration::ZERO),
            counts_teardown: network != Network::Ppp,
        }
    }

    /// A sentence if an assumption about these hosts contradicts the sources of their stacks; `None` otherwise.
    pub fn contradiction(network: Network) -> Option<String> {
        let least = preset("solaris-2.5").rto_min;
        let fitted = Stack::rto_effective("solaris-2.5", network.name()).filter(|fitted| *fitted < least)?;
        Some(format!(
            "the server's retransmission timeout, fitted to {} ms, is below its documented minimum of {} ms",
            fitted.as_millis(),
            least.as_millis()
        ))
    }

    /// Hosts with today's stack and infinitely fast processors, over the document's network at its stated rate.
    pub fn today(network: Network) -> Hosts {
        let mut stack = preset("linux-6");
        // The preset has initial buffer sizes; today's buffers grow with the connection.
        stack.send_buffer = Bytes(1 << 20);
        stack.recv_buffer = Bytes(1 << 20);
        let host = || HostSetup {
            tcp: Setup {
                no_delay: true,
                ..Setup::new(stack.clone(), 0)
            },
            read_time: Duration::ZERO,
            read_max: 65_536,
            line_gain: 1.0,
        };
        Hosts {
            link: link(match network {
                Network::Ppp => "rate=28.8k delay=65ms framing=ppp mtu=1500",
                _ => network.link(),
            }),
            client: host(),
            server: host(),
            counts_teardown: true,
        }
    }

    /// The same, with this TCP (one of [`tcp::PRESETS`]) at both ends. `linux-6` has the buffers of
    /// [`Hosts::today`].
    ///
    /// # Panics
    /// If there is no such preset.
    #[must_use]
    pub fn with_tcp(mut self, name: &str) -> Hosts {
        if name != "linux-6" {
            for host in [&mut self.client, &mut self.server] {
                host.tcp = Setup {
                    no_delay: true,
                    ..Setup::new(preset(name), 0)
                };
            }
        }
        self
    }
}

/// Processor time of the client.
fn price(mode: Mode, costs: Costs) -> Price<Fetch> {
    let (mut answers, mut kept, mut is_first) = (0, 0, true);
    Box::new(move |fetch: &Fetch, effort: Effort<'_>| match effort {
        Effort::Connecting => {
            let again = mode == Mode::Http10 && !std::mem::take(&mut is_first);
            costs.connection(again)
        }
        Effort::Heard(bytes) => {
            let tries = || fetch.timeline().objects.iter().flat_map(|object| &object.tries);
            let count = |of: &dyn Fn(&Try) -> bool| tries().map(|one| u32::from(of(one))).sum::<u32>();
            let now = count(&|one| one.last.is_some());
            let new = now - std::mem::replace(&mut answers, now);
            let now = match mode {
                Mode::Http10 => 0,
                _ => count(&|one| one.last.is_some() && one.status == 200),
            };
            let keep = now - std::mem::replace(&mut kept, now);
            costs.heard(bytes, new, keep)
        }
        Effort::Sending(piece) => {
            let requests = piece.windows(4).filter(|four| four == b"\r\n\r\n").count();
            costs.requests(requests as u32)
        }
    })
}

/// The client's plan in a case, with a `User-Agent` of `agent` bytes.
fn plan(case: &Case, agent: usize) -> Plan {
    let mut user_agent = AGENT.to_owned();
    user_agent.extend(std::iter::repeat_n('.', agent.saturating_sub(AGENT.len())));
    let variation = &case.variation;
    Plan {
        manner: case.manner,
        connections: variation
            .connections
            .unwrap_or_else(|| case.manner.mode.connections()),
        buffering: variation.buffering,
        user_agent,
        fields: Vec::new(),
        cookies: Vec::new(),
        revalidate: !case.is_first,
        first_bytes: None,
        embedded: !variation.page_alone,
        priorities: Priorities::default(),
        stream_window: STREAM_WINDOW,
        limits: Limits {
            timeout: Duration::from_secs(900),
            stall_timeout: Duration::from_secs(300),
            connect_timeout: Duration::from_secs(60),
            ..Limits::DEFAULT
        },
    }
}

/// A fetch within a crew: itself, or in a layer such as TLS.
#[derive(Debug)]
pub struct Carried<C> {
    /// The crew.
    pub crew: C,
    /// The fetch in it.
    pub fetch: fn(&C) -> &Fetch,
    /// The fetch, at the end.
    pub into_fetch: fn(C) -> Fetch,
}

/// Fetches the page from `server` over `hosts`; returns totals, result and capture.
pub fn over(
    hosts: &Hosts,
    plan: Plan,
    entries: Entries,
    price: Option<Price<Fetch>>,
    server: Box<dyn Application>,
    seed: Seed,
) -> (Figures, Outcome, Vec<u8>) {
    let url = Url::parse(URL).expect("a constant, and tests fetch it");
    let carried = Carried {
        crew: Fetch::new(url, plan, entries, WALL),
        fetch: |fetch| fetch,
        into_fetch: |fetch| fetch,
    };
    carry(hosts, carried, price, server, seed)
}

/// The same for a fetch that is made and carried already.
pub fn carry<C: Crew + 'static>(
    hosts: &Hosts,
    carried: Carried<C>,
    price: Option<Price<C>>,
    server: Box<dyn Application>,
    seed: Seed,
) -> (Figures, Outcome, Vec<u8>) {
    let Carried {
        crew,
        fetch,
        into_fetch,
    } = carried;
    let crew = Rc::new(RefCell::new(crew));
    let dialing = match price {
        Some(price) => Dialing::priced(Rc::clone(&crew), price),
        None => Dialing::new(Rc::clone(&crew), Duration::ZERO),
    };
    let mut world = World::new(
        &hosts.link,
        (hosts.client.clone(), Box::new(dialing)),
        (hosts.server.clone(), server),
        seed,
        WorldLimits::default(),
    );
    world.run(Instant::ZERO + Duration::from_secs(1_000));
    let ended = fetch(&crew.borrow()).timeline().ended;
    let counts = |at: Instant, way: Direction, is_data: bool| {
        hosts.counts_teardown || at <= ended || (way == Direction::Down && is_data)
    };
    let mut figures = Figures::default();
    let mut conns = Vec::new();
    let mut tcp: Vec<Tcp> = Vec::new();
    let mut payload: Vec<u64> = Vec::new();
    let mut asked: Vec<Instant> = Vec::new();
    for (at, logged) in world.seen_from(Vantage::Client) {
        let bytes = logged.segment.payload.len();
        if !counts(at, logged.direction, bytes > 0) {
            continue;
        }
        // Host and client number connections in the order they are opened.
        let number = conns
            .iter()
            .position(|conn| *conn == logged.conn)
            .unwrap_or_else(|| {
                conns.push(logged.conn);
                asked.push(at);
                payload.push(0);
                tcp.push(Tcp {
                    delayed_ack: hosts.client.tcp.stack.delayed_ack,
                    mss: u32::from(hosts.client.tcp.mss),
                    path_mss: u32::from(hosts.client.tcp.mss),
                    is_over: hosts.counts_teardown,
                    ..Tcp::default()
                });
                conns.len() - 1
            });
        if logged.segment.flags.syn && logged.direction == Direction::Up {
            // After a retransmitted SYN, measure from the last one: only that is known to have been answered.
            asked[number] = at;
        }
        if logged.segment.flags.syn && logged.direction == Direction::Down {
            let rtt = at.since(asked[number]);
            (tcp[number].rtt, tcp[number].rtt_min) = (rtt, Some(rtt));
        }
        let kernel = &mut tcp[number];
        let way = match logged.direction {
            Direction::Up => {
                kernel.segments_out += 1;
                &mut figures.up
            }
            Direction::Down => {
                kernel.segments_in += 1;
                kernel.data_segments_in += u32::from(bytes > 0);
                &mut figures.down
            }
        };
        way.count(bytes as u64, logged.segment.packet_bytes());
        payload[number] += bytes as u64;
    }
    let again: Vec<Again> = conns.iter().map(|&conn| Again::of(world.log(), conn)).collect();
    let capture = world.pcapng(Vantage::Client, Duration::new(WALL.secs as u64, 0));
    drop(world);
    let crew = Rc::into_inner(crew).expect("the world, which held the other handle, was dropped");
    let mut outcome = into_fetch(crew.into_inner()).into_outcome();
    counted(&mut outcome.timeline, &tcp, &again);
    let connections = outcome.timeline.connections.iter_mut();
    for ((connection, payload), again) in connections.zip(payload).zip(&again) {
        connection.bytes_again = match connection.secured {
            None => {
                let once: u64 = connection.arrivals.iter().map(|arrival| arrival.bytes).sum();
                payload.saturating_sub(once + connection.bytes_out)
            }
            // The payload has the bytes of TLS, too, which no arrival has.
            Some(_) => again.left_bytes() + again.came_bytes,
        };
    }
    figures.seconds = (ended - Instant::ZERO).as_secs_f64();
    figures.connections = outcome.timeline.connections.len() as f64;
    (figures, outcome, capture)
}

/// Retransmitted segments of one connection.
#[derive(Clone, Debug, Default)]
struct Again {
    /// Segments of the handshake, from either end.
    handshake: u32,
    /// Arrival times at the client of retransmitted data segments.
    came: Vec<Instant>,
    /// Their bytes.
    came_bytes: u64,
    /// Times at which the client retransmitted data segments, and their bytes.
    left: Vec<(Instant, u64)>,
}

impl Again {
    fn left_bytes(&self) -> u64 {
        self.left.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The retransmissions of `conn` in a log ordered by sending time.
    fn of(log: &[Logged], conn: Conn) -> Again {
        let mut again = Again::default();
        // Highest position sent: client, server.
        let mut furthest: [Option<u32>; 2] = [None; 2];
        for logged in log.iter().filter(|logged| logged.conn == conn) {
            let segment = &logged.segment;
            let furthest = &mut furthest[usize::from(logged.direction == Direction::Down)];
            let end = segment.seq.wrapping_add(segment.space());
            // Sequence numbers wrap around (RFC 9293 section 3.4).
            let is_new = furthest.is_none_or(|furthest| end.wrapping_sub(furthest).cast_signed() > 0);
            if is_new {
                *furthest = Some(end);
            } else if segment.flags.syn {
                again.handshake += 1;
            } else if !segment.payload.is_empty() {
                match logged.direction {
                    Direction::Up => again.left.push((logged.sent, segment.payload.len() as u64)),
                    Direction::Down => {
                        again.came.extend(logged.arrived);
                        let has_arrived = u64::from(logged.arrived.is_some());
                        again.came_bytes += has_arrived * segment.payload.len() as u64;
                    }
                }
            }
        }
        again.came.sort_unstable();
        again
    }
}

/// Adds to the record the counters of a kernel, and the full list of retransmissions, which no kernel has.
fn counted(timeline: &mut Timeline, tcp: &[Tcp], again: &[Again]) {
    timeline.sight = Sight::Whole;
    for ((connection, tcp), again) in timeline.connections.iter_mut().zip(tcp).zip(again) {
        connection.tcp = Some(Tcp {
            retransmitted: again.handshake + again.left.len() as u32,
            bytes_retransmitted: again.left_bytes(),
            ..*tcp
        });
        connection.shaken_again = again.handshake;
        for arrival in &mut connection.arrivals {
            arrival.holes = again.came.partition_point(|came| *came <= arrival.at) as u32;
            let left = again.left.partition_point(|(left, _)| *left <= arrival.at);
            arrival.repeats = again.handshake + left as u32;
        }
    }
}

/// A prepared case: the cache filled, requests padded to the fitted length.
pub struct Ready {
    case: Case,
    page: Rc<Page>,
    entries: Entries,
    agent: usize,
}

impl Ready {
    /// Prepares `case` with `page` on the server.
    pub fn new(case: Case, page: &Rc<Page>) -> Ready {
        let mut ready = Ready {
            case: Case {
                is_first: true,
                ..case
            },
            page: Rc::clone(page),
            entries: Entries::new(),
            agent: AGENT.len(),
        };
        // Uses the fastest network and no request limit, so that the visit is complete.
        let visit = |ready: &Ready| {
            let case = Case {
                network: Network::Lan,
                variation: Variation {
                    requests_max: None,
                    page_alone: case.variation.page_alone,
                    ..Variation::NONE
                },
                ..ready.case
            };
            let whole = Ready {
                case,
                page: Rc::clone(page),
                entries: ready.entries.clone(),
                agent: ready.agent,
            };
            whole.visit(Seed(1)).outcome
        };
        let mut tried = visit(&ready);
        if !case.is_first {
            ready.entries = tried.entries;
            ready.case.is_first = false;
            tried = visit(&ready);
        }
        let requests: Vec<usize> = tried
            .timeline
            .objects
            .iter()
            .flat_map(|object| &object.tries)
            .map(|one| one.request.len())
            .collect();
        let mean = requests.iter().sum::<usize>() / requests.len().max(1);
        ready.agent = (AGENT.len() + request(&case)).saturating_sub(mean);
        // Responses must not vary by `User-Agent`, which differs between the visits; they do not.
        ready.case = case;
        ready
    }

    /// The same case with other processor times.
    #[must_use]
    pub fn with_costs(&self, costs: Costs) -> Ready {
        let mut case = self.case;
        case.variation.costs = costs;
        Ready {
            case,
            page: Rc::clone(&self.page),
            entries: self.entries.clone(),
            agent: self.agent,
        }
    }

    /// One visit, with timer phases from `seed`.
    pub fn visit(&self, seed: Seed) -> Visit {
        self.visit_over(seed, |_| {})
    }

    /// One visit over hosts and a network that `change` has changed.
    fn visit_over(&self, seed: Seed, change: impl FnOnce(&mut Hosts)) -> Visit {
        let case = &self.case;
        let variation = &case.variation;
        let mut hosts = Hosts::of(case.network, variation.line_gain, seed);
        hosts.client.read_time = variation.costs.read();
        change(&mut hosts);
        let answered = Rc::new(Cell::new(0));
        let setup = server::Setup {
            kind: case.server,
            head_less: if case.network == Network::Ppp && case.is_first {
                PPP_HEAD_LESS
            } else {
                0
            },
            no_delay: variation.no_delay,
            requests_max: variation.requests_max,
            costs: variation.costs,
        };
        let server = Server::new(setup, Rc::clone(&self.page), Rc::clone(&answered));
        let (figures, outcome, capture) = over(
            &hosts,
            plan(case, self.agent),
            self.entries.clone(),
            Some(price(case.manner.mode, variation.costs)),
            Box::new(server),
            seed,
        );
        Visit {
            figures,
            outcome,
            answered: answered.get(),
            capture,
        }
    }

    /// The mean of visits with seeds 1 to `runs`.
    pub fn mean(&self, runs: u64) -> Figures {
        self.mean_over(runs, |_| {})
    }

    /// The mean of visits with seeds 1 to `runs` over hosts and a network that `change` has changed.
    pub fn mean_over(&self, runs: u64, change: impl Fn(&mut Hosts)) -> Figures {
        let all: Vec<Figures> = (1..=runs)
            .map(|seed| self.visit_over(Seed(seed), &change).figures)
            .collect();
        Figures::mean(&all)
    }
}

/// Bytes by which response heads of first visits over PPP are shorter (F).
pub(crate) const PPP_HEAD_LESS: usize = 23;
/// Bytes by which requests over PPP are shorter (F).
pub(crate) const PPP_REQUEST_LESS: usize = 4;

/// Mean bytes of a revalidating request, except over PPP (F).
pub(crate) fn revalidation(server: Kind) -> usize {
    match server {
        Kind::Jigsaw => 250,
        Kind::Apache => 206,
    }
}

/// Mean bytes of a request (F); the average of 190 B is the document's.
fn request(case: &Case) -> usize {
    let size = if case.is_first {
        190
    } else {
        revalidation(case.server)
    };
    size - if case.network == Network::Ppp {
        PPP_REQUEST_LESS
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::microscape;
    use load::site::microscape::TagCase;

    fn visit(network: Network, manner: &str, is_first: bool, seed: u64) -> Visit {
        let case = Case {
            network,
            server: Kind::Apache,
            manner: manner.parse().expect("a manner"),
            is_first,
            variation: Variation::NONE,
        };
        Ready::new(case, &Rc::new(microscape(TagCase::Lower))).visit(Seed(seed))
    }

    #[test]
    fn a_visit_brings_everything_and_is_counted() {
        let visit = visit(Network::Lan, "pipelined+deflate", true, 1);
        let timeline = &visit.outcome.timeline;
        assert_eq!((timeline.objects.len(), visit.failed()), (43, 0));
        assert_eq!(timeline.sums().packets, Some(visit.figures.packets() as u64));
        assert_eq!(visit.answered, 43);
        let requests: Vec<usize> = timeline
            .objects
            .iter()
            .map(|object| object.tries[0].request.len())
            .collect();
        assert!(
            requests.iter().sum::<usize>().abs_diff(190 * 43) < 43,
            "{requests:?}"
        );
        let head = timeline.objects[5].tries[0].head_bytes;
        assert_eq!(head, 222);
    }

    #[test]
    fn a_visit_again_asks_about_everything() {
        let again = visit(Network::Wan, "pipelined", false, 2);
        let timeline = &again.outcome.timeline;
        let statuses: Vec<u16> = timeline
            .objects
            .iter()
            .map(|object| object.tries[0].status)
            .collect();
        assert_eq!(statuses, [304; 43]);
        assert_eq!(timeline.objects[0].tries[0].head_bytes, 120);
        let old = visit(Network::Wan, "http10", false, 2);
        let heads = old
            .outcome
            .timeline
            .objects
            .iter()
            .map(|object| &object.tries[0].request);
        assert_eq!(heads.filter(|text| text.starts_with("HEAD ")).count(), 42);
    }

    #[test]
    fn a_seed_gives_the_same_visit() {
        let [one, other] = [(); 2].map(|()| visit(Network::Lan, "http10", true, 3));
        assert_eq!(one.capture, other.capture);
        let another = visit(Network::Lan, "http10", true, 4);
        assert!(one.capture != another.capture);
    }
}
