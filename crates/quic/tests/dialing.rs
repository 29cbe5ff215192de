//! The client's end against the server's, in virtual time, over a path that loses datagrams by a seed.

mod echo;

use echo::{Echoes, served};
use quic::Limits;
use quic::dialing::{Dialing, Target};
use quic::endpoint::Endpoint;
use quic::tape::{PacketType, Tape};
use runtime::datagram::{Endpoint as _, Sim};
use runtime::dial::{Crew, Failing, Happened, Port};
use runtime::streams::Input;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tls::rustls::{ClientConfig, RootCertStore};
use units::{Draw, Duration, Instant, Rng, Seed, UnixTime};

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 443);
const CLIENT: ([u8; 4], u16) = ([192, 0, 2, 2], 5_000);
const DELAY: Duration = Duration::from_millis(20);
/// The application error code of an ordinary end.
const CLOSED: u32 = 7;
/// Time in which everything below must be over.
const MOST: Duration = Duration::from_secs(120);

/// Sends texts over streams of several connections, and takes what comes back.
#[derive(Debug, Default)]
struct Asker {
    /// Texts by line and stream.
    texts: BTreeMap<(u32, u64), Vec<u8>>,
    got: BTreeMap<(u32, u64), Vec<u8>>,
    ended: usize,
    connected: Vec<u32>,
    /// Whether each handshake resumed a session.
    secured: Vec<bool>,
    /// What went wrong on a line.
    troubles: Vec<(u32, String)>,
    /// When an alarm of line 0 fired.
    woken: Option<Instant>,
    alarm: Option<Instant>,
    /// Gives up this stream of line 1 as soon as something came of it.
    abandons: Option<u64>,
}

impl Asker {
    /// `streams` texts of `bytes` on each of `lines` lines.
    fn of(lines: u32, streams: u64, bytes: usize) -> Asker {
        let mut asker = Asker::default();
        for line in 1..=lines {
            for stream in 0..streams {
                let text = (0..bytes).map(|n| (n as u64 * 31 + stream + u64::from(line)) as u8);
                asker.texts.insert((line, stream * 4), text.collect());
            }
        }
        asker
    }

    fn finish(&mut self, port: &mut Port) {
        let lines: Vec<u32> = self.texts.keys().map(|(line, _)| *line).collect();
        lines.into_iter().for_each(|line| port.close(line));
        port.end();
    }
}

impl Crew for Asker {
    fn start(&mut self, port: &mut Port, _: Instant) {
        let mut last = 0;
        for (&(line, stream), text) in &self.texts {
            if line != last {
                port.connect(line);
                last = line;
            }
            // In two pieces, the second with the end.
            let (head, rest) = text.split_at(text.len() / 2);
            port.write(line, stream, false, |out| out.extend_from_slice(head));
            port.write(line, stream, true, |out| out.extend_from_slice(rest));
        }
        if let Some(alarm) = self.alarm {
            port.wake(0, alarm + Duration::from_secs(100));
            port.wake(0, alarm);
        }
    }

    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, now: Instant) {
        match happened {
            Happened::Connected => self.connected.push(line),
            Happened::Secured(agreed) => {
                assert_eq!((agreed.version, self.connected.last()), ("TLS 1.3", Some(&line)));
                assert!(agreed.suite.starts_with("TLS_"), "{}", agreed.suite);
                self.secured.push(agreed.resumed);
            }
            Happened::Stream(stream, bytes, follows) => {
                self.got
                    .entry((line, stream))
                    .or_default()
                    .extend_from_slice(bytes);
                if self.abandons == Some(stream) && !bytes.is_empty() {
                    port.abandon(line, stream, 7);
                    self.texts.remove(&(line, stream));
                    self.abandons = None;
                }
                self.ended += usize::from(follows == Input::End);
                if self.ended == self.texts.len() {
                    self.finish(port);
                }
            }
            Happened::Lost(failing) => self.trouble(line, format!("{failing:?}"), port),
            Happened::Refused(why) => self.trouble(line, why.to_owned(), port),
            Happened::Eof => self.trouble(line, "closed".to_owned(), port),
            Happened::Closed(why) => self.trouble(line, why.to_owned(), port),
            Happened::Woken(_) => {
                self.woken = Some(now);
                self.finish(port);
            }
            other => panic!("{other:?}"),
        }
    }

    fn stop(&mut self, port: &mut Port, _: Instant) {
        self.troubles.push((0, "stopped".to_owned()));
        self.finish(port);
    }
}

impl Asker {
    fn trouble(&mut self, line: u32, why: String, port: &mut Port) {
        self.troubles.push((line, why));
        if self.troubles.len() >= self.connected.len().max(1) {
            self.finish(port);
        }
    }
}

/// What endpoints of a server share, its service, and the TLS of a client that trusts it.
type Parts = (Arc<quic::endpoint::Shared>, Arc<Echoes>, Arc<ClientConfig>);

/// Names application error codes.
type Names = fn(u64) -> Option<String>;

/// A client and a server.
struct World {
    client: Sim<Dialing<Asker>>,
    server: Sim<Endpoint<Echoes>>,
    shared: Arc<quic::endpoint::Shared>,
    /// Datagrams under way: when they arrive, and whether at the server.
    under_way: Vec<(Instant, bool, Vec<u8>)>,
    /// Records the client's end.
    tape: Tape,
    loss: f64,
    rng: Rng,
    now: Instant,
}

impl World {
    fn new(asker: Asker, loss: f64, seed: u64, is_trusted: bool) -> World {
        let (shared, service, mut tls) = served(Limits::default());
        if !is_trusted {
            let nobody = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
            tls = nobody.with_no_client_auth();
            tls.alpn_protocols = vec![b"echo".to_vec()];
        }
        World::of(&(shared, service, Arc::new(tls)), asker, loss, seed)
    }

    /// A client to which this application error code is that of an ordinary end.
    fn closed_by(ordinary: u32, names: Option<Names>) -> World {
        let (shared, service, tls) = served(Limits::default());
        let parts = (shared, service, Arc::new(tls));
        // More than is through before the end.
        World::made(&parts, Asker::of(1, 1, 3_000_000), (0.0, 9), ordinary, names)
    }

    /// A client whose TLS may know the server from an earlier world.
    fn of(parts: &Parts, asker: Asker, loss: f64, seed: u64) -> World {
        World::made(parts, asker, (loss, seed), CLOSED, None)
    }

    fn made(
        (shared, service, tls): &Parts,
        asker: Asker,
        (loss, seed): (f64, u64),
        close_code: u32,
        names: Option<Names>,
    ) -> World {
        let limits = Limits::default();
        let name = "a.test".to_owned();
        let target = Target::new(Arc::clone(tls), &limits, SERVER.into(), name, close_code);
        let tape = Tape::default();
        let mut target = target.expect("TLS 1.3").taped(Some(tape.clone()));
        if let Some(names) = names {
            target = target.naming(names);
        }
        World {
            client: Sim::new(Dialing::new(asker, target)),
            server: Sim::new(Endpoint::new(Arc::clone(shared), Arc::clone(service), 0)),
            shared: Arc::clone(shared),
            under_way: Vec::new(),
            tape,
            loss,
            rng: Seed(seed).rng(),
            now: Instant::ZERO,
        }
    }

    /// Until the client has ended.
    fn run(&mut self, what: &str) -> &Asker {
        self.run_until(what, |client| client.has_ended());
        self.turn();
        self.client.endpoint().crew()
    }

    fn run_until(&mut self, what: &str, is_done: impl Fn(&Dialing<Asker>) -> bool) {
        let wall = UnixTime { secs: 0, nanos: 0 };
        self.client.endpoint().turn(self.now, wall);
        while !is_done(self.client.endpoint()) {
            self.turn();
            let deadlines = [
                self.server.endpoint().deadline(),
                self.client.endpoint().deadline(),
                self.under_way.iter().map(|(due, ..)| *due).min(),
            ];
            let next = deadlines
                .into_iter()
                .flatten()
                .min()
                .expect("something to wait for");
            assert!(next < Instant::ZERO + MOST, "{what}: too late");
            let next = self.now.max(next);
            self.client.advance(next.since(self.now));
            self.server.advance(next.since(self.now));
            self.now = next;
        }
    }

    fn turn(&mut self) {
        let due: Vec<_> = self
            .under_way
            .extract_if(.., |(due, ..)| *due <= self.now)
            .collect();
        for (_, to_server, datagram) in due {
            match to_server {
                true => self.server.send(SocketAddr::from(CLIENT), &datagram),
                false => self.client.send(SocketAddr::from(SERVER), &datagram),
            }
        }
        self.client.advance(Duration::ZERO);
        let up = self
            .client
            .take_sent()
            .into_iter()
            .map(|(_, bytes)| (true, bytes));
        let down = self
            .server
            .take_sent()
            .into_iter()
            .map(|(_, bytes)| (false, bytes));
        for (to_server, bytes) in up.chain(down) {
            if (self.rng.next_u64() % 1_000) as f64 >= self.loss * 1_000.0 {
                self.under_way.push((self.now + DELAY, to_server, bytes));
            }
        }
    }
}

#[test]
fn streams_of_several_connections_come_back_through_loss() {
    for seed in 0..3 {
        for loss in [0.0, 0.02, 0.1] {
            let label = format!("seed {seed}, loss {loss}");
            let mut world = World::new(Asker::of(3, 5, 30_000), loss, seed, true);
            let asker = world.run(&label);
            assert_eq!(asker.troubles, [], "{label}");
            assert_eq!(
                (asker.connected.len(), asker.secured.len(), asker.ended),
                (3, 3, 15),
                "{label}"
            );
            assert!(asker.got == asker.texts, "{label}");
        }
    }
}

/// Also by way of Retry, whose integrity the client checks.
/// What a tape has of loss recovery agrees with the library's statistics, and with the path.
#[test]
fn a_tape_tells_of_losses_round_trips_and_bytes_in_flight() {
    let mut declared = 0;
    for seed in 0..3 {
        let label = format!("seed {seed}");
        let mut world = World::new(Asker::of(2, 5, 100_000), 0.1, seed, true);
        world.run(&label);
        let recorded = world.tape.take();
        for connection in 0..2 {
            let of = |one: u32| one == connection;
            let losses: Vec<_> = recorded.losses.iter().filter(|one| of(one.connection)).collect();
            let counters: Vec<_> = recorded
                .counters
                .iter()
                .filter(|one| of(one.connection))
                .collect();
            let last = counters.last().expect("counters");
            assert_eq!(losses.len() as u64, last.lost, "{label}");
            declared += losses.len();
            let mut numbers: Vec<_> = losses.iter().map(|one| (one.packet_type, one.number)).collect();
            numbers.sort_by_key(|(kind, number)| (*kind == PacketType::OneRtt, *number));
            numbers.dedup();
            assert_eq!(numbers.len(), losses.len(), "{label}: each is lost once");
            let latest: Vec<Duration> = counters.iter().filter_map(|one| one.rtt_latest).collect();
            // The library writes it with a precision of 24 bits.
            let least = 2 * DELAY - Duration::from_micros(1);
            assert!(latest.iter().all(|rtt| (least..MOST).contains(rtt)), "{latest:?}");
            assert!(latest.iter().any(|rtt| *rtt < 3 * DELAY), "{label}: {latest:?}");
            let most = counters.iter().filter_map(|one| one.in_flight).max();
            assert!(most.is_some_and(|bytes| bytes > 1_200), "{label}: {most:?}");
            // What was sent last is the end of the connection.
            assert!(last.in_flight < most, "{label}: {last:?}");
        }
    }
    assert!(declared > 10, "{declared}");
}

#[test]
fn a_client_resumes_the_session_of_its_last_connection() {
    for handshakes_calm in [Limits::default().handshakes_calm, 0] {
        let limits = Limits {
            handshakes_calm,
            ..Limits::default()
        };
        let (shared, service, tls) = served(limits);
        let parts = (shared, service, Arc::new(tls));
        for (nth, is_resumed) in [(0, false), (1, true), (2, true)] {
            let mut world = World::of(&parts, Asker::of(1, 1, 1_000), 0.0, nth);
            let asker = world.run("resumption");
            assert_eq!(
                (&asker.secured[..], &asker.troubles[..]),
                (&[is_resumed][..], &[][..])
            );
            assert!(asker.got == asker.texts);
        }
        let noted = parts.1.handshakes.lock().expect("no panic").clone();
        assert_eq!(noted, [false, true, true], "the server knows the same");
        let retried = parts.1.retried.load(Ordering::Relaxed);
        assert_eq!(retried > 0, handshakes_calm == 0);
    }
}

/// The server permits 100 at a time, then 128.
#[test]
fn streams_wait_until_the_peer_permits_them() {
    let mut world = World::new(Asker::of(1, 400, 10), 0.0, 1, true);
    let asker = world.run("many");
    assert_eq!((asker.ended, &asker.troubles[..]), (400, &[][..]));
    assert!(asker.got == asker.texts);
}

#[test]
fn an_abandoned_stream_leaves_the_others_alone() {
    let mut asker = Asker::of(1, 3, 100_000);
    asker.abandons = Some(4);
    let mut world = World::new(asker, 0.0, 2, true);
    let asker = world.run("abandoned");
    assert_eq!((asker.ended, &asker.troubles[..]), (2, &[][..]));
    assert!(asker.got[&(1, 4)].len() < 100_000, "it ended early");
    for stream in [0, 8] {
        assert!(asker.got[&(1, stream)] == asker.texts[&(1, stream)]);
    }
}

#[test]
fn a_close_reaches_the_server() {
    let mut world = World::new(Asker::of(1, 1, 10), 0.0, 3, true);
    world.run("close");
    assert_eq!(world.shared.open(), 1);
    // The message arrives, and the server forgets the connection three probe timeouts later (RFC 9000 section 10.2).
    for _ in 0..20 {
        world.now = world.now + DELAY;
        world.client.advance(DELAY);
        world.server.advance(DELAY);
        world.turn();
    }
    assert_eq!(world.shared.open(), 0);
}

/// The server closes with the code 7. Whether that is an error, and which, is up to the protocol.
#[test]
fn a_crew_learns_with_which_error_its_connection_was_closed() {
    let said = |ordinary: u32, names: Option<Names>| {
        let mut world = World::closed_by(ordinary, names);
        world.run_until("begun", |client| !client.crew().got.is_empty());
        let now = world.now;
        world.server.endpoint().end(now);
        let mut troubles = world.run("closed").troubles.clone();
        assert_eq!(troubles.len(), 1, "{troubles:?}");
        troubles.remove(0).1
    };
    let (nothing, all): (Names, Names) = (|_| None, |code| Some(format!("E{code} (its fault)")));
    assert_eq!(said(CLOSED, None), "closed");
    assert_eq!(said(CLOSED, Some(all)), "closed");
    assert_eq!(said(CLOSED + 1, Some(nothing)), "closed");
    let error = "the server closed the connection with the application error 0x7: \"cut\"";
    assert_eq!(said(CLOSED + 1, None), error);
    let error = "the server closed the connection with E7 (its fault): \"cut\"";
    assert_eq!(said(CLOSED + 1, Some(all)), error);
}

#[test]
fn a_crew_learns_why_there_is_no_connection() {
    let mut world = World::new(Asker::of(1, 1, 10), 0.0, 4, false);
    let asker = world.run("a stranger");
    assert!(
        asker.troubles[0].1.contains("unknown issuer"),
        "{:?}",
        asker.troubles
    );
    // Nothing arrives.
    let mut world = World::new(Asker::of(1, 1, 10), 1.0, 5, true);
    let asker = world.run("silence");
    let timed_out = format!("{:?}", Failing::Opening(110));
    assert_eq!(asker.troubles, [(1, timed_out)]);
}

/// Anyone on the path can forge ICMP messages (RFC 9000 section 14.2.1).
#[test]
fn what_the_network_says_ends_handshakes_only() {
    let started = || {
        let mut world = World::new(Asker::of(1, 1, 10), 0.0, 8, true);
        world.run_until("start", |_| true);
        world
    };
    let mut world = started();
    world.client.endpoint().unreachable(101, Instant::ZERO);
    let unreachable = format!("{:?}", Failing::Opening(101));
    assert_eq!(world.run("no route").troubles, [(1, unreachable)]);
    let mut world = started();
    world.client.endpoint().packet_too_big(1_227, Instant::ZERO);
    let troubles = &world.run("too narrow").troubles;
    assert!(
        troubles[0].1.contains("is 1227 bytes, and QUIC needs 1228"),
        "{troubles:?}"
    );
    let mut world = started();
    world.client.endpoint().packet_too_big(1_228, Instant::ZERO);
    assert_eq!(world.run("wide enough").troubles, []);
    let mut world = World::new(Asker::of(1, 3, 100_000), 0.0, 8, true);
    world.run_until("established", |client| !client.crew().connected.is_empty());
    let now = world.now;
    world.client.endpoint().unreachable(111, now);
    world.client.endpoint().packet_too_big(600, now);
    let asker = world.run("on");
    assert_eq!((asker.ended, &asker.troubles[..]), (3, &[][..]));
}

#[test]
fn alarms_fire_and_a_stop_is_passed_on() {
    let mut asker = Asker::of(1, 1, 10);
    asker.alarm = Some(Instant::ZERO + Duration::from_millis(1_234));
    let mut world = World::new(asker, 1.0, 6, true);
    let woken = world.run("alarm").woken;
    assert_eq!(woken, Some(Instant::ZERO + Duration::from_millis(1_234)));
    let mut world = World::new(Asker::of(1, 1, 10), 1.0, 7, true);
    world
        .client
        .endpoint()
        .turn(Instant::ZERO, UnixTime { secs: 0, nanos: 0 });
    world.client.drain();
    let asker = world.run("stop");
    assert_eq!(asker.troubles, [(0, "stopped".to_owned())]);
}
