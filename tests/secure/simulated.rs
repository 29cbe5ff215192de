//! QUIC in virtual time: the server's endpoint and the client's over an emulated link, with losses that follow from a seed.

#[path = "../../crates/quic/tests/echo/mod.rs"]
#[expect(dead_code, reason = "the tests of `quic` use all of it")]
mod echo;

use echo::Echoes;
use link::Direction;
use netsim::{DatagramWorld, Limits, LoggedDatagram};
use quic::dialing::{Dialing, Target};
use quic::endpoint::{Endpoint, Shared};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use runtime::datagram::Endpoint as _;
use runtime::dial::{Crew, Happened, Port, Quic};
use runtime::streams::Input;
use std::sync::Arc;
use tls::rustls::{ClientConfig, RootCertStore};
use tls::settings::{Maker, Options, Slot};
use tls::tickets::{Ratchet, Secret};
use units::{Duration, Instant, Seed};

const LINE: u32 = 1;

/// Sends a text on one stream and takes the echo.
struct Asker {
    text: Vec<u8>,
    got: Vec<u8>,
    /// The counters at the end.
    quic: Option<Quic>,
    trouble: Option<String>,
}

impl Crew for Asker {
    fn start(&mut self, port: &mut Port, _: Instant) {
        port.connect(LINE);
        port.write(LINE, 0, true, |out| out.extend_from_slice(&self.text));
    }

    fn handle(&mut self, _: u32, happened: Happened<'_>, port: &mut Port, _: Instant) {
        match happened {
            Happened::Stream(0, bytes, follows) => {
                self.got.extend_from_slice(bytes);
                if follows != Input::Open {
                    port.leave(LINE);
                    port.end();
                }
            }
            Happened::Measured(quic) => self.quic = Some(quic),
            Happened::Lost(failing) => self.fail(format!("{failing:?}"), port),
            Happened::Refused(why) => self.fail(why.to_owned(), port),
            Happened::Eof => self.fail("closed".to_owned(), port),
            _ => {}
        }
    }

    fn stop(&mut self, port: &mut Port, _: Instant) {
        port.end();
    }
}

impl Asker {
    fn fail(&mut self, why: String, port: &mut Port) {
        self.trouble = Some(why);
        port.end();
    }
}

type World = DatagramWorld<Dialing<Asker>, Endpoint<Echoes>>;

/// A server's TLS and that of a client that trusts it. Signatures of Ed25519 all have one size, and so has each flight of
/// the handshake.
struct Both {
    shared: Arc<Shared>,
    client: ClientConfig,
}

impl Both {
    fn new() -> Both {
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let parameters = CertificateParams::new(vec!["a.test".to_owned()]).expect("parameters");
        let made = parameters.self_signed(&key).expect("a certificate");
        let tickets = Ratchet::new(Secret::new(0).expect("chance")).expect("keys");
        let maker = Maker::new(tickets.clone());
        let pair = maker.pair(made.pem().as_bytes(), key.serialize_pem().as_bytes());
        let server = maker.server(&[pair.expect("a pair")], &Options::default());
        let slot = Slot::new(server.expect("a configuration"));
        let limits = quic::Limits::default();
        let mut roots = RootCertStore::empty();
        roots.add(made.der().clone()).expect("a root");
        let mut client = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"echo".to_vec()];
        // A session that is resumed has a shorter handshake.
        client.resumption = tls::rustls::client::Resumption::disabled();
        Both {
            shared: Arc::new(Shared::new(slot, tickets, &[b"echo"], limits)),
            client,
        }
    }

    /// A world in which a text of `bytes` goes over the link and back.
    fn world(&self, link: &str, bytes: usize, seed: u64) -> World {
        let limits = Limits::default();
        let profile = link::Profile::parse(link, &limits.link, &mut |_| Err(String::new())).expect(link);
        let asker = Asker {
            text: (0..bytes).map(|n| (n * 31 / 7) as u8).collect(),
            got: Vec::new(),
            quic: None,
            trouble: None,
        };
        let target = Target::new(
            Arc::new(self.client.clone()),
            &quic::Limits::default(),
            World::server_address(),
            "a.test".to_owned(),
            7,
        );
        let chance = |side: u8| {
            let mut all = [side; 32];
            all[..8].copy_from_slice(&seed.to_be_bytes());
            all
        };
        let client = Dialing::seeded(asker, target.expect("TLS 1.3"), chance(1));
        let server = Endpoint::seeded(Arc::clone(&self.shared), Arc::default(), 0, chance(2));
        DatagramWorld::new(&profile, client, server, Seed(seed), &limits)
    }
}

/// Until the client has its echo; checks that.
fn finish(world: &mut World, what: &str) {
    let most = Instant::ZERO + Duration::from_secs(300);
    let is_over = world.run(most, |world| world.client().has_ended());
    let now = world.now();
    let asker = world.client().crew();
    assert!(
        is_over,
        "{what}: {} of {} bytes at {now:?}",
        asker.got.len(),
        asker.text.len()
    );
    assert_eq!(asker.trouble, None, "{what}");
    assert!(asker.got == asker.text, "{what}");
}

#[test]
fn a_seed_repeats_every_loss_and_every_datagram() {
    let both = Both::new();
    let run = |seed| -> Vec<LoggedDatagram> {
        let mut world = both.world("rate=8M rtt=40ms loss=burst:2%,30% queue=40p", 200_000, seed);
        finish(&mut world, "replayed");
        world.log().to_vec()
    };
    let first = run(1);
    assert!(
        first.iter().any(|one| one.arrived.is_none()),
        "something was lost"
    );
    let again = run(1);
    let difference = first.iter().zip(&again).position(|(one, other)| one != other);
    assert_eq!((difference, first.len()), (None, again.len()));
    assert_ne!(first, run(2));
}

#[test]
fn everything_arrives_through_any_loss() {
    let both = Both::new();
    for seed in 0..8 {
        for link in [
            "rtt=40ms loss=1%",
            "rtt=40ms loss=20%",
            "rtt=40ms loss=burst:5%,20%",
            "rtt=20ms jitter=15ms reorder=yes",
            "rate=1M rtt=80ms queue=10p",
            "rtt=40ms mtu=1280",
        ] {
            let mut world = both.world(link, 60_000, seed);
            finish(&mut world, &format!("{link}, seed {seed}"));
        }
    }
}

#[test]
fn a_quiet_link_is_filled_and_loses_nothing() {
    let both = Both::new();
    let mut world = both.world("rate=8M rtt=40ms", 1_000_000, 3);
    finish(&mut world, "quiet");
    let quic = world.client().crew().quic.expect("counters");
    for way in [Direction::Up, Direction::Down] {
        let counters = world.counters(way);
        assert_eq!(
            counters.dropped.total(),
            0,
            "{way:?} {counters:?} {quic:?} {:?}",
            world.now()
        );
    }
    assert_eq!((quic.lost, quic.holes), (0, 0), "{quic:?}");
    assert!(quic.rtt_min >= Some(Duration::from_millis(40)), "{quic:?}");
    // Full packets, and an acknowledgment for two of the other direction: none is sent without need.
    assert!(
        quic.datagrams_in < 2_000 && quic.datagrams_out < 2_000,
        "{quic:?}"
    );
    // A second for so many bytes if they go both ways at a time, and some time for the handshake, windows and slow start.
    let took = world.now().since(Instant::ZERO);
    assert!((1.0..3.0).contains(&took.as_secs_f64()), "{took:?}");
}

#[test]
fn a_connection_survives_a_nat_that_rebinds() {
    let both = Both::new();
    let mut world = both.world("rate=8M rtt=40ms", 500_000, 4);
    for turn in 1..4 {
        // In the middle of the exchange.
        let share = world.client().crew().text.len() * turn / 5;
        let most = world.now() + Duration::from_secs(60);
        assert!(
            world.run(most, |world| world.client().crew().got.len() >= share),
            "turn {turn}"
        );
        world.rebind();
    }
    finish(&mut world, "rebound");
    let quic = world.client().crew().quic.expect("counters");
    assert!(quic.challenges >= 3, "{quic:?}");
    let mut ports: Vec<u16> = world.log().iter().map(|one| one.port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 4);
}

/// Streams have windows of 64 KiB, and the server says when it has used up one.
#[test]
fn a_server_that_flow_control_blocks_says_so() {
    let both = Both::new();
    for (bytes, is_blocked) in [(60_000, false), (300_000, true)] {
        let mut world = both.world("rtt=40ms", bytes, 1);
        finish(&mut world, "windows");
        let quic = world.client().crew().quic.expect("counters");
        assert_eq!(quic.blocked > 0, is_blocked, "{bytes}: {quic:?}");
    }
}

/// What the client counts as a wait for a missing packet is one, and happens only where packets are missing.
#[test]
fn holes_are_those_that_losses_make() {
    let both = Both::new();
    for seed in 0..5 {
        let mut world = both.world("rtt=40ms down.loss=5%", 200_000, seed);
        finish(&mut world, "holes");
        let lost = world.counters(Direction::Down).dropped.loss;
        let quic = world.client().crew().quic.expect("counters");
        assert!(lost > 0 && quic.holes > 0, "{lost} {quic:?}");
        assert!(quic.holes <= lost, "{lost} {quic:?}");
        assert_eq!(quic.lost, 0, "{quic:?}");
        // In the other direction, the client itself knows what was lost.
        let mut world = both.world("rtt=40ms up.loss=5%", 200_000, seed);
        finish(&mut world, "lost");
        let lost = world.counters(Direction::Up).dropped.loss;
        let quic = world.client().crew().quic.expect("counters");
        assert!((1..=lost).contains(&quic.lost), "{lost} {quic:?}");
        assert_eq!(quic.holes, 0, "{quic:?}");
    }
}
