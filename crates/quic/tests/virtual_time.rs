//! Whole connections in virtual time, over a path that loses datagrams by a seed: an endpoint that echoes streams, and a
//! client of `quinn-proto`. Keys are drawn anew in each run; what is lost, and when, follows from the seed.

mod checked;
mod echo;

use checked::Checked;
use echo::{Echoes, PANICS, PASSED, served};
use quic::Limits;
use quic::endpoint::{Endpoint, Shared};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, Dir, EndpointConfig, Event, ReadError, StreamEvent,
    StreamId,
};
use runtime::clock::{from_standard, to_standard};
use runtime::datagram::{Asked, Endpoint as _, Owner, Sim};
use runtime::memory::Bound;
use runtime::session::{Ask, PeerEvent, PeerLoss};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tls::rustls;
use tls::tickets::EPOCH_SECS;
use units::{Bytes, Draw, Duration, Instant, Rng, Seed, UnixTime};

struct World {
    sim: Sim<Endpoint<Echoes>>,
    service: Arc<Echoes>,
    shared: Arc<Shared>,
    quic: quinn_proto::Endpoint,
    handle: ConnectionHandle,
    connection: quinn_proto::Connection,
    /// Where the client is.
    at: SocketAddr,
    to_send: BTreeMap<StreamId, (Vec<u8>, usize)>,
    got: BTreeMap<StreamId, (Vec<u8>, bool)>,
    is_connected: bool,
    closed: Option<String>,
    /// Datagrams under way: when they arrive, and whether at the server.
    under_way: Vec<(Instant, bool, Vec<u8>)>,
    loss: f64,
    rng: Rng,
    now: Instant,
}

const DELAY: Duration = Duration::from_millis(20);
/// Time in which everything below must be over.
const MOST: Duration = Duration::from_secs(120);

impl World {
    fn new(loss: f64, seed: u64, limits: Limits) -> World {
        World::of(&served(limits), loss, seed)
    }

    /// A client whose TLS may know these endpoints from an earlier connection; they have a worker of their own.
    fn of(
        (shared, service, tls): &(Arc<Shared>, Arc<Echoes>, rustls::ClientConfig),
        loss: f64,
        seed: u64,
    ) -> World {
        let (shared, service) = (Arc::clone(shared), Arc::clone(service));
        let endpoint = Endpoint::new(Arc::clone(&shared), Arc::clone(&service), 5);
        let (quic, handle, connection) = begin(tls, Instant::ZERO);
        World {
            sim: Sim::new(endpoint),
            service,
            shared,
            quic,
            handle,
            connection,
            at: SocketAddr::from(([192, 0, 2, 2], 5_000)),
            to_send: BTreeMap::new(),
            got: BTreeMap::new(),
            is_connected: false,
            closed: None,
            under_way: Vec::new(),
            loss,
            rng: Seed(seed).rng(),
            now: Instant::ZERO,
        }
    }

    /// Another client, elsewhere, begins a connection. The one before falls silent.
    fn replace_client(&mut self, tls: &rustls::ClientConfig, at: SocketAddr) {
        (self.quic, self.handle, self.connection) = begin(tls, self.now);
        (self.at, self.is_connected, self.closed) = (at, false, None);
        self.to_send.clear();
        self.got.clear();
        self.under_way.clear();
    }

    fn send(&mut self, to_server: bool, datagram: Vec<u8>) {
        if (self.rng.next_u64() % 1_000) as f64 >= self.loss * 1_000.0 {
            self.under_way.push((self.now + DELAY, to_server, datagram));
        }
    }

    /// Opens a stream with these bytes.
    fn ask(&mut self, bytes: Vec<u8>) -> StreamId {
        let id = self
            .connection
            .streams()
            .open(Dir::Bi)
            .expect("room for a stream");
        self.to_send.insert(id, (bytes, 0));
        id
    }

    /// Lets a round trip pass.
    fn ask_nothing(&mut self) {
        let sent = self.connection.stats().frame_rx.acks;
        self.connection.ping();
        self.run("ping", |world| world.connection.stats().frame_rx.acks > sent);
    }

    fn run(&mut self, what: &str, done: impl Fn(&World) -> bool) {
        while !done(self) {
            self.turn();
            // The next thing that happens may be the end of an idle connection.
            if done(self) {
                return;
            }
            let server = self.sim.endpoint().deadline();
            let client = self.connection.poll_timeout().map(from_standard);
            let arrival = self.under_way.iter().map(|(due, ..)| *due).min();
            let next = [server, client, arrival].into_iter().flatten().min();
            let Some(next) = next else {
                panic!("{what}: nothing will happen any more; {:?}", self.closed);
            };
            assert!(next < Instant::ZERO + MOST, "{what}: too late; {:?}", self.closed);
            let next = self.now.max(next);
            self.sim.advance(next.since(self.now));
            self.now = next;
        }
    }

    /// What can happen at this instant.
    fn turn(&mut self) {
        let due: Vec<_> = self
            .under_way
            .extract_if(.., |(due, ..)| *due <= self.now)
            .collect();
        for (_, to_server, mut datagram) in due {
            if to_server {
                self.sim.send(self.at, &datagram);
                continue;
            }
            let from = SocketAddr::from(([192, 0, 2, 1], 443));
            let mut answer = Vec::new();
            let event = self.quic.handle(
                to_standard(self.now),
                from,
                None,
                None,
                datagram.as_mut_slice().as_ref().into(),
                &mut answer,
            );
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
        }
        let now = to_standard(self.now);
        if self.connection.poll_timeout().is_some_and(|due| due <= now) {
            self.connection.handle_timeout(now);
        }
        self.events();
        for (id, (bytes, sent)) in &mut self.to_send {
            let mut stream = self.connection.send_stream(*id);
            if let Ok(count) = stream.write(&bytes[*sent..]) {
                *sent += count;
            }
            if *sent == bytes.len() {
                // Once is enough; again is an error without consequences.
                let _ = stream.finish();
            }
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.quic.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        let mut buffer = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(now, 1, &mut buffer) {
            self.send(true, buffer[..transmit.size].to_vec());
            buffer.clear();
        }
        for (_, datagram) in self.sim.take_sent() {
            self.send(false, datagram);
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.closed = Some(reason.to_string()),
                Event::Stream(StreamEvent::Readable { id }) => {
                    let (bytes, is_whole) = self.got.entry(id).or_default();
                    let mut stream = self.connection.recv_stream(id);
                    let Ok(mut chunks) = stream.read(true) else {
                        continue;
                    };
                    loop {
                        match chunks.next(usize::MAX) {
                            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                            Ok(None) => {
                                *is_whole = true;
                                break;
                            }
                            Err(ReadError::Blocked | ReadError::Reset(_)) => break,
                        }
                    }
                    let _ = chunks.finalize();
                }
                _ => {}
            }
        }
    }

    fn is_echoed(&self, id: StreamId) -> bool {
        self.got
            .get(&id)
            .is_some_and(|(bytes, is_whole)| *is_whole && *bytes == self.to_send[&id].0)
    }
}

/// A connection that a client begins.
fn begin(
    tls: &rustls::ClientConfig,
    now: Instant,
) -> (quinn_proto::Endpoint, ConnectionHandle, quinn_proto::Connection) {
    let crypto = QuicClientConfig::try_from(tls.clone()).expect("TLS 1.3");
    let config = ClientConfig::new(Arc::new(crypto));
    let mut quic = quinn_proto::Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
    let server = SocketAddr::from(([192, 0, 2, 1], 443));
    let (handle, connection) = quic
        .connect(to_standard(now), config, server, "a.test")
        .expect("a valid configuration");
    (quic, handle, connection)
}

fn text(length: usize, seed: u64) -> Vec<u8> {
    let mut rng = Seed(seed).rng();
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

#[test]
fn streams_arrive_through_loss() {
    for seed in 0..3 {
        for loss in [0.0, 0.02, 0.1] {
            let label = format!("seed {seed}, loss {loss}");
            let mut world = World::new(loss, seed, Limits::default());
            world.run(&label, |world| world.is_connected);
            let streams: Vec<_> = [0, 1, 3_000, 400_000, 20_000]
                .into_iter()
                .map(|length| world.ask(text(length, seed)))
                .collect();
            world.run(&label, |world| streams.iter().all(|id| world.is_echoed(*id)));
            assert_eq!(world.shared.open(), 1, "{label}");
        }
    }
}

/// After its handshake, a server has no more of TLS than the secrets of the next keys.
#[test]
fn keys_are_updated() {
    let mut world = World::new(0.0, 12, Limits::default());
    world.run("handshake", |world| world.is_connected);
    for _ in 0..3 {
        world.connection.force_key_update();
        // Long enough for the old keys to be forgotten: three probe timeouts later (RFC 9001 section 6.5). Before, the client
        // changes them no further.
        let stream = world.ask(text(600_000, 12));
        world.run("new keys", |world| world.is_echoed(stream));
    }
    assert_eq!(world.closed, None);
}

/// The library keeps an entry for each stream it permits, so a client gets the last ones when it has many requests.
#[test]
fn all_streams_are_permitted_once_there_are_many() {
    let permitted = |world: &mut World| {
        let all = std::iter::from_fn(|| world.connection.streams().open(Dir::Bi));
        all.collect::<Vec<StreamId>>()
    };
    let echo = |world: &mut World, streams: &[StreamId]| {
        let texts = streams.iter().map(|&id| (id, (text(10, 1), 0)));
        world.to_send.extend(texts);
        world.run("echo", |world| streams.iter().all(|id| world.is_echoed(*id)));
    };
    let (few, many) = (63, 64);
    for (requests, more) in [(few, 0), (many, 28)] {
        let mut world = World::new(0.0, 11, Limits::default());
        world.run("handshake", |world| world.is_connected);
        let first = permitted(&mut world);
        assert_eq!(first.len(), 100);
        echo(&mut world, &first[..requests]);
        // The acknowledgment of the last answer ends its stream, which permits others: all but the last eighth, which is not
        // worth a frame.
        for _ in 0..3 {
            world.ask_nothing();
        }
        let then = permitted(&mut world).len();
        assert!(
            (requests + more - 16..=requests + more).contains(&then),
            "{then} after {requests}"
        );
    }
}

#[test]
fn a_client_proves_its_address_if_it_must() {
    let limits = Limits {
        handshakes_calm: 0,
        ..Limits::default()
    };
    for (loss, seed) in [(0.0, 0), (0.1, 1), (0.1, 2)] {
        let mut world = World::new(loss, seed, limits);
        world.run("retry", |world| world.is_connected);
        assert!(world.service.retried.load(Ordering::Relaxed) >= 1);
        let stream = world.ask(text(5_000, seed));
        world.run("retry", |world| world.is_echoed(stream));
    }
}

/// The addresses of so many clients, and the datagrams with which each begins.
fn first_flights(tls: &rustls::ClientConfig, count: u16) -> Vec<(SocketAddr, Vec<Vec<u8>>)> {
    let crypto = Arc::new(QuicClientConfig::try_from(tls.clone()).expect("TLS 1.3"));
    let server = SocketAddr::from(([192, 0, 2, 1], 443));
    let flight = |number| {
        let mut quic = quinn_proto::Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let config = ClientConfig::new(Arc::clone(&crypto) as _);
        let now = to_standard(Instant::ZERO);
        let (_, mut connection) = quic.connect(now, config, server, "a.test").expect("valid");
        let mut datagrams = Vec::new();
        let mut buffer = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, 1, &mut buffer) {
            datagrams.push(buffer[..transmit.size].to_vec());
            buffer.clear();
        }
        (SocketAddr::from(([198, 51, 100, 1], 5_000 + number)), datagrams)
    };
    (0..count).map(flight).collect()
}

/// Those who come while the most handshakes are under way get not a byte. Handshakes that go nowhere end after a while, and
/// there is room again.
#[test]
fn peers_beyond_the_most_handshakes_get_no_answer() {
    let limits = Limits {
        handshakes_calm: 8,
        handshakes_max: 4,
        ..Limits::default()
    };
    let server = served(limits);
    let mut world = World::of(&server, 0.0, 14);
    let peers = first_flights(&server.2, 6);
    let answered = |world: &mut World, peers: &[(SocketAddr, Vec<Vec<u8>>)]| {
        for (at, datagrams) in peers {
            for datagram in datagrams {
                world.sim.send(*at, datagram);
            }
        }
        let to = world.sim.take_sent().into_iter().map(|(to, _)| to);
        to.collect::<BTreeSet<SocketAddr>>()
    };
    let first: BTreeSet<SocketAddr> = peers[..4].iter().map(|(at, _)| *at).collect();
    assert_eq!(answered(&mut world, &peers), first);
    assert_eq!(world.shared.open(), 4);
    let ignored: usize = peers[4..].iter().map(|(_, datagrams)| datagrams.len()).sum();
    assert_eq!(world.service.crowded.load(Ordering::Relaxed), ignored);
    assert_eq!(world.service.retried.load(Ordering::Relaxed), 0);
    world.sim.advance(limits.idle_time + Duration::from_secs(5));
    world.sim.take_sent();
    assert_eq!(world.shared.open(), 0);
    let late: BTreeSet<SocketAddr> = peers[4..].iter().map(|(at, _)| *at).collect();
    assert_eq!(answered(&mut world, &peers[4..]), late);
}

/// At the connection limit, who has proved an address gets the place of a connection that is idle. Who has not costs nobody a
/// connection: a first packet can come in anybody's name.
#[test]
fn idle_connections_give_way_to_peers_that_prove_their_address() {
    let server = served(Limits::default());
    let mut world = World::of(&server, 0.0, 17);
    let service = Arc::clone(&world.service);
    service.open_max.store(1, Ordering::Relaxed);
    let open = || service.open.load(Ordering::Relaxed);
    let retried = || service.retried.load(Ordering::Relaxed);
    world.run("the first", |world| world.is_connected);
    let settle = |world: &mut World| {
        let stream = world.ask(text(1_000, 17));
        world.run("echo", |world| world.is_echoed(stream));
        // The echo is acknowledged, and the connection is idle for a while.
        (0..3).for_each(|_| world.ask_nothing());
        world.sim.advance(Duration::from_millis(100));
        world.now = world.sim.now();
    };
    settle(&mut world);
    assert_eq!((open(), retried()), (1, 0));
    for (at, datagrams) in first_flights(&server.2, 3) {
        for datagram in datagrams {
            world.sim.send(at, &datagram);
        }
    }
    assert!(retried() >= 3, "{}", retried());
    world.sim.take_sent();
    settle(&mut world);
    assert_eq!((open(), world.closed.as_deref()), (1, None));
    world.replace_client(&server.2, SocketAddr::from(([192, 0, 2, 3], 5_000)));
    world.run("the second", |world| world.is_connected);
    assert_eq!(open(), 1, "in place of the first");
    // The second is owed an answer, so nobody gives way to the third.
    world.ask([PASSED, b"question"].concat());
    world.run("the question", |world| {
        let is_sent = world.to_send.values().all(|(bytes, sent)| *sent == bytes.len());
        is_sent && world.under_way.is_empty()
    });
    world.replace_client(&server.2, SocketAddr::from(([192, 0, 2, 4], 5_000)));
    let until = world.now + Duration::from_secs(5);
    world.run("the third", |world| world.is_connected || world.now > until);
    assert!(!world.is_connected);
    assert_eq!(open(), 1);
}

/// A token proves an address for fifteen seconds. Whoever comes later is told, instead of a second Retry.
#[test]
fn a_token_of_retry_is_refused_when_it_is_old() {
    let limits = Limits {
        handshakes_calm: 0,
        ..Limits::default()
    };
    for (age, is_taken) in [(14, true), (17, false)] {
        let mut world = World::new(0.0, 15, limits);
        world
            .sim
            .endpoint()
            .turn(Instant::ZERO, UnixTime::from_secs(1_000));
        world.run("retry", |world| {
            world.service.retried.load(Ordering::Relaxed) >= 1
        });
        world
            .sim
            .endpoint()
            .turn(world.now, UnixTime::from_secs(1_000 + age));
        world.run("the token", |world| world.is_connected || world.closed.is_some());
        assert_eq!(world.is_connected, is_taken, "{age} s: {:?}", world.closed);
        if !is_taken {
            let why = world.closed.expect("it is over");
            assert!(why.contains("invalid Retry Token"), "{why}");
        }
    }
}

/// A client that has Retry comes again with the token: to a server that has other certificates meanwhile, or one that drains.
#[test]
fn a_handshake_that_began_with_retry_goes_on() {
    let limits = Limits {
        handshakes_calm: 0,
        ..Limits::default()
    };
    // A first flight of two datagrams has two.
    let retried = |world: &World| world.service.retried.load(Ordering::Relaxed) >= 1;
    let mut world = World::new(0.0, 9, limits);
    world.run("retry", retried);
    let tls = world.shared.tls();
    tls.replace(Arc::new((*tls.config()).clone()));
    world.run("after a reload", |world| world.is_connected);
    let stream = world.ask(text(5_000, 9));
    world.run("after a reload", |world| world.is_echoed(stream));

    let mut world = World::new(0.0, 9, limits);
    world.run("retry", retried);
    world.sim.drain();
    world.run("while it drains", |world| world.closed.is_some());
    assert!(world.is_connected);
    assert!(
        world.closed.as_ref().is_some_and(|why| why.contains("drained")),
        "{:?}",
        world.closed
    );

    // Who comes anew is refused.
    let mut world = World::new(0.0, 9, limits);
    world.sim.drain();
    world.run("while it drains", |world| world.closed.is_some());
    assert!(!world.is_connected);
    let retried = world.service.retried.load(Ordering::Relaxed);
    assert_eq!(retried, 0, "nobody is asked to come again in vain");
}

#[test]
fn a_connection_goes_on_from_another_address() {
    let mut world = World::new(0.02, 4, Limits::default());
    world.run("handshake", |world| world.is_connected);
    let stream = world.ask(text(300_000, 4));
    world.run("begun", |world| {
        world.got.get(&stream).is_some_and(|got| got.0.len() > 50_000)
    });
    world.at = SocketAddr::from(([198, 51, 100, 7], 6_000));
    world.run("moved", |world| world.is_echoed(stream));
    assert_eq!(world.closed, None);
}

#[test]
fn sessions_are_resumed_while_the_ticket_keys_live() {
    let mut server = served(Limits::default());
    let checks = Checked::watch(&mut server.2);
    let epoch = i64::try_from(EPOCH_SECS).expect("small");
    // The keys of an epoch are kept for the next one, even if nobody but QUIC's workers looks after them.
    for (at, is_resumed) in [
        (0, false),
        (0, true),
        (epoch, true),
        (2 * epoch, true),
        (4 * epoch, false),
        (4 * epoch, true),
    ] {
        let mut world = World::of(&server, 0.02, 8);
        let wall = UnixTime { secs: at, nanos: 0 };
        world.sim.endpoint().turn(Instant::ZERO, wall);
        let before = checks.load(Ordering::Relaxed);
        world.run("handshake", |world| world.is_connected);
        // With the answer, the client has the next tickets.
        let stream = world.ask(text(1_000, 8));
        world.run("echo", |world| world.is_echoed(stream));
        let is_checked = checks.load(Ordering::Relaxed) > before;
        let noted = world.service.handshakes.lock().expect("no panic").pop();
        assert_eq!((noted, is_checked), (Some(is_resumed), !is_resumed), "at {at} s");
    }
}

/// Early data can be replayed, so tickets permit none (RFC 9001 section 9.2), and a client has to wait for the handshake.
#[test]
fn a_resumed_session_takes_no_early_data() {
    let mut server = served(Limits::default());
    server.2.enable_early_data = true;
    for is_resumed in [false, true] {
        let mut world = World::of(&server, 0.0, 20);
        assert!(!world.connection.has_0rtt(), "resumed: {is_resumed}");
        let early = world.connection.streams().open(Dir::Bi);
        assert_eq!(early, None, "resumed: {is_resumed}");
        world.run("handshake", |world| world.is_connected);
        assert!(!world.connection.accepted_0rtt(), "resumed: {is_resumed}");
        // With the answer, the client has the next tickets.
        let stream = world.ask(text(1_000, 20));
        world.run("echo", |world| world.is_echoed(stream));
        let noted = world.service.handshakes.lock().expect("no panic").pop();
        assert_eq!(noted, Some(is_resumed));
    }
}

/// A first packet can come in anybody's name: who has not proved an address gets at most three times the bytes that came from
/// there (RFC 9000 section 8.1), however often the server probes.
#[test]
fn an_address_that_is_not_proved_gets_little() {
    // The library begins a datagram as long as a byte is left, and sends it whole.
    const LAST: usize = 1_200 - 1;
    let server = served(Limits::default());
    let mut world = World::of(&server, 0.0, 21);
    let sent = |world: &mut World| {
        let sent = world.sim.take_sent();
        sent.iter().map(|(_, datagram)| datagram.len()).sum::<usize>()
    };
    for (at, flight) in first_flights(&server.2, 1) {
        let received: usize = flight.iter().map(Vec::len).sum();
        for datagram in &flight {
            world.sim.send(at, datagram);
        }
        let at_once = sent(&mut world);
        // Probe timeouts: one second after the flight, then after twice the time each (RFC 9002 section 6.2).
        (0..60).for_each(|_| world.sim.advance(Duration::from_secs(1)));
        let later = sent(&mut world);
        assert!(at_once > 0 && later > 0, "{at_once} bytes, then {later}");
        assert!(
            at_once + later <= 3 * received + LAST,
            "{at_once} and {later} bytes for {received}"
        );
    }
}

#[test]
fn packets_name_their_worker() {
    let mut world = World::new(0.0, 5, Limits::default());
    world.run("handshake", |world| world.is_connected);
    world.run("its end", |world| world.under_way.is_empty());
    let stream = world.ask(text(1_000, 5));
    world.turn();
    // What the client sends now has a short header with our ID.
    let (_, _, datagram) = world
        .under_way
        .iter()
        .find(|(_, to_server, _)| *to_server)
        .expect("a packet");
    assert_eq!(world.sim.endpoint().owner(&datagram.clone()), Owner::Worker(5));
    world.run("echo", |world| world.is_echoed(stream));
}

#[test]
fn a_drain_finishes_and_an_end_does_not_wait() {
    let mut world = World::new(0.0, 6, Limits::default());
    world.run("handshake", |world| world.is_connected);
    let stream = world.ask(text(300_000, 6));
    world.run("begun", |world| {
        world.got.get(&stream).is_some_and(|got| got.0.len() > 10_000)
    });
    world.sim.drain();
    world.run("drained", |world| world.closed.is_some());
    assert!(world.is_echoed(stream), "what was begun is finished");
    assert!(world.closed.as_ref().is_some_and(|why| why.contains("drained")));

    let mut world = World::new(0.0, 7, Limits::default());
    world.run("handshake", |world| world.is_connected);
    let stream = world.ask(text(300_000, 7));
    world.run("begun", |world| {
        world.got.get(&stream).is_some_and(|got| got.0.len() > 10_000)
    });
    let now = world.now;
    world.sim.endpoint().end(now);
    world.run("cut", |world| world.closed.is_some());
    assert!(!world.is_echoed(stream));
    assert!(
        world.closed.as_ref().is_some_and(|why| why.contains("cut")),
        "{:?}",
        world.closed
    );
    assert!(world.now < now + Duration::from_millis(400));
}

#[test]
fn another_host_answers_a_stream() {
    let mut world = World::new(0.0, 10, Limits::default());
    world.run("handshake", |world| world.is_connected);
    let question = [PASSED, b"question"].concat();
    let (first, second) = (world.ask(question.clone()), world.ask(question.clone()));
    let other = world.ask(text(3_000, 10));
    world.run("echo", |world| world.is_echoed(other));
    let asked = world.sim.take_asked();
    let [
        Asked::Of(owner, one, Ask::Dial(_)),
        Asked::Of(same, two, Ask::Dial(_)),
    ] = asked[..]
    else {
        panic!("{asked:?}");
    };
    assert!(owner == same && one != two);
    world.sim.peer(owner, one, PeerEvent::Connected);
    assert_eq!(
        world.sim.take_asked(),
        [Asked::Of(owner, one, Ask::Send(question))]
    );
    world.sim.peer(owner, one, PeerEvent::Sent);
    assert_eq!(world.sim.take_asked(), [Asked::Of(owner, one, Ask::Read)]);
    world.sim.peer(owner, one, PeerEvent::Bytes(b"answer"));
    assert_eq!(world.sim.take_asked(), [Asked::Of(owner, one, Ask::Close)]);
    world.sim.peer(owner, two, PeerEvent::Lost(PeerLoss::TimedOut));
    world.run("answers", |world| {
        let has_ended = |id| world.got.get(id).is_some_and(|got| got.1);
        has_ended(&first) && has_ended(&second)
    });
    assert_eq!(world.got[&first].0, b"answer");
    assert_eq!(world.got[&second].0, PeerLoss::TimedOut.to_string().as_bytes());
    assert_eq!(world.sim.take_asked(), []);
}

/// What a connection has opened ends with it, and what comes of it later goes to no other connection.
#[test]
fn peers_end_with_their_connection() {
    let mut world = World::new(0.0, 11, Limits::default());
    world.run("handshake", |world| world.is_connected);
    world.ask([PASSED, b"question"].concat());
    let other = world.ask(text(3_000, 11));
    world.run("echo", |world| world.is_echoed(other));
    let asked = world.sim.take_asked();
    let [Asked::Of(owner, ticket, Ask::Dial(_))] = asked[..] else {
        panic!("{asked:?}");
    };
    let now = to_standard(world.now);
    world.connection.close(now, 0_u32.into(), Default::default());
    world.turn();
    let until = world.now + Duration::from_secs(1);
    world.run("the end", |world| world.now > until || world.under_way.is_empty());
    assert_eq!(world.sim.take_asked(), [Asked::Over(owner)]);
    world.sim.peer(owner, ticket, PeerEvent::Connected);
    assert_eq!(world.sim.take_asked(), []);
    // A connection without any leaves nothing to end.
    let mut world = World::new(0.0, 12, Limits::default());
    world.run("handshake", |world| world.is_connected);
    let now = to_standard(world.now);
    world.connection.close(now, 0_u32.into(), Default::default());
    world.turn();
    world.run("the end", |world| world.under_way.is_empty());
    assert_eq!(world.sim.take_asked(), []);
}

#[test]
fn the_service_closes_what_it_keeps_idle_when_descriptors_or_memory_are_short() {
    let mut world = World::new(0.0, 13, Limits::default());
    let service = Arc::clone(&world.service);
    let spared = || service.spared.load(Ordering::Relaxed);
    assert!(world.sim.endpoint().close_idle());
    assert_eq!(spared(), 1);
    let wall = UnixTime::from_secs(0);
    world.sim.endpoint().turn(Instant::ZERO, wall);
    assert_eq!(spared(), 1);
    service.budget.set(Bound::Told(Bytes(1)));
    world.sim.endpoint().turn(Instant::ZERO, wall);
    assert_eq!(spared(), 2);
}

/// Code 0 would tell the client of no error.
#[test]
fn a_session_that_panics_closes_its_connection_with_the_code_of_its_protocol() {
    let mut world = World::new(0.0, 21, Limits::default());
    world.run("handshake", |world| world.is_connected);
    world.ask(PANICS.to_vec());
    world.run("the close", |world| world.closed.is_some());
    assert_eq!(world.closed.as_deref(), Some("closed by peer: 9"));
    assert_eq!(world.service.open.load(Ordering::Relaxed), 0);
}

#[test]
fn a_silent_peer_is_forgotten() {
    let mut world = World::new(0.0, 8, Limits::default());
    world.run("handshake", |world| world.is_connected);
    assert_eq!(world.shared.open(), 1);
    world.loss = 1.0;
    let until = world.now + Limits::default().idle_time + Duration::from_secs(5);
    world.sim.advance(until.since(world.now));
    assert_eq!(world.shared.open(), 0);
}

/// What a service says after a reload concerns the connections that begin after it.
#[test]
fn a_service_says_how_long_new_connections_may_be_silent() {
    let server = served(Limits::default());
    let mut world = World::of(&server, 0.0, 19);
    world.run("before", |world| world.is_connected);
    world.service.silence_max.store(10, Ordering::Relaxed);
    world.replace_client(&server.2, SocketAddr::from(([192, 0, 2, 3], 5_000)));
    world.run("after", |world| world.is_connected);
    assert_eq!(world.shared.open(), 2);
    // The client's own timeout is 30 s.
    world.sim.advance(Duration::from_secs(15));
    assert_eq!(world.shared.open(), 1);
    world.sim.advance(Duration::from_secs(20));
    assert_eq!(world.shared.open(), 0);
}

#[test]
fn another_version_is_offered_ours_and_noise_gets_nothing() {
    let mut world = World::new(0.0, 9, Limits::default());
    // A long header of version 0x1a2a3a4a, with IDs of eight bytes, padded as an Initial packet.
    let mut odd = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
    odd.extend_from_slice(&[1; 8]);
    odd.push(8);
    odd.extend_from_slice(&[2; 8]);
    odd.resize(1_200, 0);
    world.sim.send(world.at, &odd);
    let sent = world.sim.take_sent();
    let (_, answer) = &sent[0];
    assert_eq!(
        answer[1..5],
        [0; 4],
        "version negotiation (RFC 9000 section 17.2.1)"
    );
    assert!(answer.windows(4).any(|version| version == [0, 0, 0, 1]));
    world.sim.send(world.at, &text(1_200, 9)[..20]);
    world.sim.send(world.at, b"");
    assert_eq!(world.sim.take_sent(), [], "short noise is worth no answer");
    assert_eq!(world.shared.open(), 0);
}

/// Packets of connections that are gone come as a flood from one network. A client elsewhere still learns that its own is gone.
#[test]
fn a_flood_from_elsewhere_keeps_no_reset_from_a_client() {
    let mut world = World::new(0.0, 10, Limits::default());
    // A short header, and an ID of this worker that no connection has.
    let mut packet = vec![0x40, 5, 0, 0];
    packet.resize(60, 7);
    for host in 0..200 {
        for port in 1..=10 {
            world
                .sim
                .send(SocketAddr::from(([203, 0, 113, host], port)), &packet);
        }
    }
    let flood = world.sim.take_sent().len();
    assert!((1..=32).contains(&flood), "{flood} resets for 2,000 packets");
    // Networks share a bucket by chance, one in 1,024: of ten clients, at most one has none left.
    let clients = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(|net| SocketAddr::from(([198, 51, net, 1], 5_000)));
    for at in clients {
        world.sim.send(at, &packet);
    }
    let sent = world.sim.take_sent();
    assert!((9..=10).contains(&sent.len()), "{} answers", sent.len());
    for (to, reset) in &sent {
        assert!(clients.contains(to), "{to}");
        assert!(reset.len() < packet.len(), "no loop of resets, no amplification");
    }
    assert_eq!(world.shared.open(), 0);
}
