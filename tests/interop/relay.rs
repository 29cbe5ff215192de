//! A relay of UDP between clients and one server of loopback that does what a network does: it delays, loses, damages and
//! reorders datagrams, is silent for a while, and gives clients other addresses, as a NAT does. It counts what it sees.
//!
//! ```text
//!   clients ◀──▶ one address ── Path: what happens to the datagram ── a socket for each client ◀──▶ server
//!                                  │
//!                                Seen
//! ```
//! What happens to a client's nth datagram of a direction follows from the seed and the number of clients before it, whenever
//! the datagram comes.

use super::packets::{Kind, kinds};
use runtime::sys::{Address, Arrivals, prepare_datagrams, send_datagrams};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep_until};
use units::{Draw, Rng, Seed};

/// Datagrams of a client in a direction that are lost or damaged one after another at most, as in the public cases.
const BURST_MAX: u32 = 3;

/// How long a datagram is late that others overtake: some are always under way for longer than the machine takes for three.
const LATE: Duration = Duration::from_millis(8);

/// Datagrams that wait at a time at most; further ones are lost.
const WAITING_MAX: usize = 16_384;

/// Receive buffer of a socket, if `net.core.rmem_max` permits so much.
const RECEIVE_BUFFER: usize = 4 << 20;

/// What the network does.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) seed: Seed,
    /// Each way.
    pub(super) delay: Duration,
    /// Shares of the datagrams of each direction, from 0 to 1.
    pub(super) loss: f64,
    pub(super) damage: f64,
    pub(super) reorder: f64,
    /// Datagrams to the server that are lost, counted from 1.
    pub(super) lost_up: &'static [u64],
    /// After so many datagrams to the client, nothing passes for this time.
    pub(super) hole: Option<(u64, Duration)>,
    /// After each of so many datagrams to the client, the server sees its client at another address.
    pub(super) rebind: &'static [u64],
    /// Whether it is another IP address, too.
    pub(super) moves: bool,
}

impl Path {
    /// A path that changes nothing.
    pub(super) fn clear() -> Path {
        Path {
            seed: Seed(24),
            delay: Duration::ZERO,
            loss: 0.0,
            damage: 0.0,
            reorder: 0.0,
            lost_up: &[],
            hole: None,
            rebind: &[],
            moves: false,
        }
    }
}

/// What passed in a direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    pub(super) datagrams: u64,
    pub(super) kinds: HashMap<Kind, u64>,
    /// By ECN field.
    pub(super) ecn: [u64; 4],
    /// The ECN field of the last datagrams of 1-RTT, newest last, of at most as many as are asked about.
    pub(super) last_ecn: Vec<u8>,
    pub(super) lost: u64,
    pub(super) damaged: u64,
    pub(super) late: u64,
}

impl Way {
    pub(super) fn count(&self, kind: Kind) -> u64 {
        self.kinds.get(&kind).copied().unwrap_or(0)
    }
}

/// What the relay saw.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// To the server.
    pub(super) up: Way,
    /// To clients.
    pub(super) down: Way,
    /// Versions in long headers of clients.
    pub(super) versions: BTreeSet<u32>,
    /// Addresses of clients.
    pub(super) clients: u64,
    /// Addresses that they were given after their first.
    pub(super) rebound: u64,
    /// Bytes that reached the server, and that it sent, before a Handshake packet of the client reached it.
    pub(super) unproven: (u64, u64),
    /// The most that it sent for each byte that had reached it meanwhile.
    pub(super) amplified: f64,
    has_proven: bool,
}

/// A relay, which ends with this.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // It waits for a datagram.
        let any = SocketAddr::new(self.address.ip(), 0);
        if let Ok(socket) = std::net::UdpSocket::bind(any) {
            let _ = socket.send_to(&[], self.address);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Relay {
    /// A relay at a port of its own before this server.
    pub(super) fn before(server: SocketAddr, path: Path) -> Relay {
        println!("the path: {path:?}");
        let front = bound(server.ip());
        let address = front.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (its_seen, its_end) = (Arc::clone(&seen), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let run = run(front, server, path, its_seen, its_end);
            LocalSet::new().block_on(&runtime.expect("a runtime"), run);
        });
        Relay {
            address,
            seen,
            is_over,
            thread: Some(thread),
        }
    }

    /// What it saw so far.
    pub(super) fn seen(&self) -> Seen {
        locked(&self.seen).clone()
    }
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().expect("nobody panics with it")
}

/// A socket at a port of its own that reports ECN fields.
fn bound(at: IpAddr) -> std::net::UdpSocket {
    let socket = std::net::UdpSocket::bind((at, 0)).expect("a port");
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER);
    prepare_datagrams(socket.as_fd(), false);
    socket.set_nonblocking(true).expect("a socket");
    socket
}

/// A datagram on its way.
struct Sent {
    from: Rc<UdpSocket>,
    to: SocketAddr,
    ecn: u8,
    bytes: Vec<u8>,
}

impl Sent {
    fn leave(&self) {
        let address = Address {
            ecn: self.ecn,
            ..Address::to(self.to)
        };
        // A full socket loses it, as a path would.
        let _ = send_datagrams(self.from.as_fd(), address, &self.bytes);
    }
}

/// Draws what happens to the datagrams of a client in a direction.
struct Chance {
    rng: Rng,
    /// Datagrams in a row that were lost or damaged.
    burst: u32,
}

impl Chance {
    /// Of the nth client in a direction, whenever the first datagram of that direction comes.
    fn of(seed: Seed, client: u64, is_up: bool) -> Chance {
        Chance {
            rng: Seed(seed.0 ^ client << 32 ^ u64::from(is_up) << 16).rng(),
            burst: 0,
        }
    }

    fn draw(&mut self) -> f64 {
        // 53 bits, as a fraction.
        (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn is_below(&mut self, share: f64) -> bool {
        self.draw() < share && self.burst < BURST_MAX
    }
}

/// A client's socket toward the server.
struct Flow {
    socket: Rc<UdpSocket>,
    reader: JoinHandle<()>,
}

struct World {
    path: Path,
    server: SocketAddr,
    front: Rc<UdpSocket>,
    /// By the client's address.
    flows: HashMap<SocketAddr, Flow>,
    /// By the client's address, and whether the datagrams are the client's.
    chances: HashMap<(SocketAddr, bool), Chance>,
    /// Datagrams that wait, by their time and number.
    waiting: BTreeMap<(Instant, u64), Sent>,
    number: u64,
    hole_until: Option<Instant>,
    seen: Arc<Mutex<Seen>>,
}

type Shared = Rc<RefCell<World>>;

async fn run(
    front: std::net::UdpSocket,
    server: SocketAddr,
    path: Path,
    seen: Arc<Mutex<Seen>>,
    is_over: Arc<AtomicBool>,
) {
    let front = Rc::new(UdpSocket::from_std(front).expect("a socket"));
    let world = Rc::new(RefCell::new(World {
        chances: HashMap::new(),
        path,
        server,
        front: Rc::clone(&front),
        flows: HashMap::new(),
        waiting: BTreeMap::new(),
        number: 0,
        hole_until: None,
        seen,
    }));
    let mut arrivals = Arrivals::new();
    loop {
        arrived(&front, &mut arrivals).await;
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        for datagram in arrivals.datagrams() {
            let sent = Sent {
                from: flow(&world, datagram.from),
                to: server,
                ecn: datagram.ecn,
                bytes: datagram.bytes.to_vec(),
            };
            pass(&world, datagram.from, true, sent);
        }
    }
}

/// Waits for datagrams, and receives them.
async fn arrived(socket: &UdpSocket, arrivals: &mut Arrivals) {
    let received = socket.async_io(Interest::READABLE, || {
        arrivals.receive(socket.as_fd())?;
        // None is what readiness that has passed looks like.
        let is_any = arrivals.datagrams().next().is_some();
        is_any.then_some(()).ok_or(std::io::ErrorKind::WouldBlock.into())
    });
    // Errors of the network are about datagrams that were sent.
    let _ = received.await;
}

/// The socket of a client toward the server; of a new client, a new one.
fn flow(world: &Shared, client: SocketAddr) -> Rc<UdpSocket> {
    if let Some(flow) = world.borrow().flows.get(&client) {
        return Rc::clone(&flow.socket);
    }
    let at = {
        let mut world = world.borrow_mut();
        let World {
            path,
            seen,
            chances,
            server,
            ..
        } = &mut *world;
        let mut seen = locked(seen);
        seen.clients += 1;
        for is_up in [true, false] {
            chances.insert((client, is_up), Chance::of(path.seed, seen.clients, is_up));
        }
        server.ip()
    };
    open(world, client, at)
}

/// Gives a client a socket at this address, in place of the one it has.
fn open(world: &Shared, client: SocketAddr, at: IpAddr) -> Rc<UdpSocket> {
    let socket = Rc::new(UdpSocket::from_std(bound(at)).expect("a socket"));
    let (its_world, its_socket) = (Rc::clone(world), Rc::clone(&socket));
    let reader = spawn_local(async move {
        let mut arrivals = Arrivals::new();
        let front = Rc::clone(&its_world.borrow().front);
        loop {
            arrived(&its_socket, &mut arrivals).await;
            for datagram in arrivals.datagrams() {
                let sent = Sent {
                    from: Rc::clone(&front),
                    to: client,
                    ecn: datagram.ecn,
                    bytes: datagram.bytes.to_vec(),
                };
                pass(&its_world, client, false, sent);
            }
            rebind(&its_world, client);
        }
    });
    let flow = Flow {
        socket: Rc::clone(&socket),
        reader,
    };
    if let Some(before) = world.borrow_mut().flows.insert(client, flow) {
        // It ends where it waits next, and with it the socket.
        before.reader.abort();
    }
    socket
}

/// Gives the client another address, if it is time.
fn rebind(world: &Shared, client: SocketAddr) {
    let (at, is_due) = {
        let borrowed = world.borrow();
        let mut seen = locked(&borrowed.seen);
        let next = borrowed.path.rebind.get(seen.rebound as usize);
        let is_due = next.is_some_and(|&after| seen.down.datagrams >= after);
        seen.rebound += u64::from(is_due);
        let host = 1 + u8::try_from(seen.rebound).expect("few");
        let at = match borrowed.path.moves {
            true => IpAddr::V4(Ipv4Addr::new(127, 0, 0, host)),
            false => borrowed.server.ip(),
        };
        (at, is_due)
    };
    if is_due {
        open(world, client, at);
    }
}

/// Lets a datagram from or to a client pass, now or later, or loses it.
fn pass(world: &Shared, client: SocketAddr, is_up: bool, mut sent: Sent) {
    let due = {
        let mut world = world.borrow_mut();
        let Some(wait) = world.harm(client, is_up, &mut sent) else {
            return;
        };
        if wait.is_zero() {
            return sent.leave();
        }
        if world.waiting.len() >= WAITING_MAX {
            return;
        }
        let due = Instant::now() + wait;
        world.number += 1;
        let number = world.number;
        world.waiting.insert((due, number), sent);
        due
    };
    let world = Rc::clone(world);
    spawn_local(async move {
        sleep_until(due).await;
        // In the order of their times, whichever task is first.
        let mut world = world.borrow_mut();
        while let Some(first) = world.waiting.first_entry()
            && first.key().0 <= Instant::now()
        {
            first.remove().leave();
        }
    });
}

impl World {
    /// Harms a datagram, or not, and says how much later it arrives; `None` if it is lost. Counts it.
    fn harm(&mut self, client: SocketAddr, is_up: bool, sent: &mut Sent) -> Option<Duration> {
        let World {
            path, chances, seen, ..
        } = self;
        let mut seen = locked(seen);
        let seen = &mut *seen;
        let (bytes, ecn) = (&mut sent.bytes, sent.ecn);
        let (kinds, version) = kinds(bytes);
        let way = if is_up { &mut seen.up } else { &mut seen.down };
        way.datagrams += 1;
        way.ecn[usize::from(ecn & 3)] += 1;
        if kinds == [Kind::Short] {
            if way.last_ecn.len() == 8 {
                way.last_ecn.remove(0);
            }
            way.last_ecn.push(ecn & 3);
        }
        for &kind in &kinds {
            *way.kinds.entry(kind).or_default() += 1;
        }
        if is_up {
            seen.versions.extend(version);
        } else if !seen.has_proven {
            seen.unproven.1 += bytes.len() as u64;
            seen.amplified = seen
                .amplified
                .max(seen.unproven.1 as f64 / seen.unproven.0 as f64);
        }
        let chance = chances.get_mut(&(client, is_up)).expect("drawn since its first");
        // Always drawn, so that the fate of the next does not depend on this one's.
        let is_lost = chance.is_below(path.loss);
        let is_damaged = chance.is_below(path.damage) && !is_lost;
        chance.burst = if is_lost || is_damaged {
            chance.burst + 1
        } else {
            0
        };
        let is_late = chance.draw() < path.reorder;
        let at = chance.draw();
        let now = Instant::now();
        if let Some((after, time)) = path.hole
            && self.hole_until.is_none()
            && !is_up
            && way.datagrams == after
        {
            self.hole_until = Some(now + time);
        }
        let is_in_hole = self.hole_until.is_some_and(|until| now < until);
        if is_lost || is_in_hole || (is_up && path.lost_up.contains(&way.datagrams)) {
            way.lost += 1;
            return None;
        }
        if is_damaged {
            way.damaged += 1;
            let at = (at * bytes.len() as f64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 0xff;
            }
        }
        way.late += u64::from(is_late);
        if is_up && !seen.has_proven {
            seen.unproven.0 += bytes.len() as u64;
            seen.has_proven = kinds.contains(&Kind::Handshake);
        }
        Some(path.delay + if is_late { LATE } else { Duration::ZERO })
    }
}

/// Otherwise a path that happens to lose none of the first datagrams to a client loses none to any.
#[test]
fn clients_share_no_fate() {
    let mut fates = BTreeSet::new();
    for client in 1..=20 {
        for is_up in [true, false] {
            let mut chance = Chance::of(Path::clear().seed, client, is_up);
            fates.insert((0..64).map(|_| chance.is_below(0.2)).collect::<Vec<bool>>());
        }
    }
    assert_eq!(fates.len(), 40);
}
