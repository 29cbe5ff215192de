//! Whole exchanges over QUIC (`quinn-proto`) in virtual time: datagrams are lost and reordered from a seed, streams and windows
//! are narrow, and every body must arrive. No socket and no clock take part.

mod host;
mod network;

use core::time::Duration;
use host::{Host, Request, identity};
use http3::Code;
use http3::connection::{Client, Server};
use http3::priority::Priority;
use network::{Network, Path};
use units::{Draw, Instant, Seed};

const CLEAN: Path = Path {
    delay: Duration::from_millis(20),
    loss: 0,
    late: 0,
};

/// Time in which everything below must be over.
const MOST: Duration = Duration::from_secs(120);

struct World {
    client: Host<Client>,
    server: Host<Server>,
    network: Network,
    now: Instant,
}

impl World {
    fn new(requests: &[Request], path: Path, seed: u64) -> World {
        let identity = identity();
        World {
            client: Host::client(&identity, requests),
            server: Host::server(&identity),
            network: Network::new(path, Seed(seed)),
            now: Instant::ZERO,
        }
    }

    /// Lets time pass until `done`.
    fn run(&mut self, label: &str, done: impl Fn(&World) -> bool) {
        loop {
            while let Some((to_server, datagram)) = self.network.arrived(self.now) {
                let answer = match to_server {
                    true => self.server.datagram(&datagram, false, self.now),
                    false => self.client.datagram(&datagram, true, self.now),
                };
                if let Some(answer) = answer {
                    self.network.send(!to_server, answer, self.now);
                }
            }
            for datagram in self.client.turn(self.now) {
                self.network.send(true, datagram, self.now);
            }
            for datagram in self.server.turn(self.now) {
                self.network.send(false, datagram, self.now);
            }
            if done(self) {
                return;
            }
            let next = [
                self.network.deadline(),
                self.client.deadline(),
                self.server.deadline(),
            ];
            let next = next.into_iter().flatten().min();
            let next = next.unwrap_or_else(|| panic!("{label}: nothing will happen any more"));
            assert!(
                next <= Instant::ZERO + MOST,
                "{label}: too late; client {:?}, server {:?}",
                self.client.closed,
                self.server.closed
            );
            self.now = self.now.max(next);
        }
    }

    /// Whether all requests were sent and no stream is left.
    fn is_over(&self) -> bool {
        self.client.wanted.is_empty()
            && !self.client.seen.is_empty()
            && self.client.http.streams() == 0
            && self.server.http.streams() == 0
    }
}

fn plain(up: u64, down: u64) -> Request {
    Request {
        up,
        down,
        priority: Priority::DEFAULT,
        cancel_at: None,
        unread: false,
    }
}

/// Requests and responses of many sizes, more than there are streams at a time.
fn mixture(seed: u64) -> Vec<Request> {
    let mut rng = Seed(seed ^ 0xb0d7).rng();
    let mut size = || {
        let most = [1, 2_000, 20_000, 300_000][(rng.next_u64() % 4) as usize];
        rng.next_u64() % most
    };
    let bodies: Vec<(u64, u64)> = (0..40).map(|_| (size(), size())).collect();
    bodies
        .into_iter()
        .enumerate()
        .map(|(at, (up, down))| Request {
            priority: Priority {
                urgency: at as u8 % 8,
                incremental: at % 3 == 0,
            },
            ..plain(up, down)
        })
        .collect()
}

#[test]
fn every_body_arrives_through_loss_and_reordering() {
    for seed in 0..4 {
        for (loss, late) in [(0, 0), (20, 20), (100, 100)] {
            let label = format!("seed {seed}, loss {loss}/1000, late {late}/1000");
            let requests = mixture(seed);
            let mut world = World::new(&requests, Path { loss, late, ..CLEAN }, seed);
            world.run(&label, World::is_over);
            assert_eq!(world.client.seen.len(), requests.len(), "{label}");
            for (stream, seen) in &world.client.seen {
                let request = seen.request.expect("noted when it was sent");
                let expected = (200, request.down, true, None);
                let found = (seen.status, seen.bytes, seen.ended.is_some(), seen.reset);
                assert_eq!(found, expected, "{label}, stream {stream}");
                assert_eq!(
                    world.server.seen[stream].bytes, request.up,
                    "{label}, stream {stream}"
                );
            }
            assert_eq!(world.network.lost > 0, loss > 0, "{label}");
            assert_eq!(
                (&world.client.closed, &world.server.closed),
                (&None, &None),
                "{label}"
            );
        }
    }
}

#[test]
fn a_seed_repeats_a_run() {
    let run = || {
        let mut world = World::new(
            &mixture(7),
            Path {
                loss: 30,
                late: 30,
                ..CLEAN
            },
            7,
        );
        world.run("seed 7", World::is_over);
        let ends: Vec<_> = world.client.seen.values().map(|seen| seen.ended).collect();
        (world.now, world.network.sent, world.network.lost, ends)
    };
    assert_eq!(run(), run());
}

#[test]
fn an_urgent_response_overtakes_large_ones() {
    let large = Request {
        priority: Priority {
            urgency: 5,
            incremental: true,
        },
        ..plain(0, 500_000)
    };
    let urgent = Request {
        priority: Priority {
            urgency: 0,
            incremental: false,
        },
        ..plain(0, 30_000)
    };
    let mut world = World::new(&[large, large, large], CLEAN, 0);
    world.run("begun", |world| {
        world.client.seen.values().all(|seen| seen.bytes > 50_000) && world.client.seen.len() == 3
    });
    let begun = world.now;
    world.client.wanted.push_back(urgent);
    world.client.request();
    world.run("over", World::is_over);
    let ended = |stream: u64| world.client.seen[&stream].ended.expect("it is over");
    // A round trip for the request, and at most two for what was in flight and for the windows of slow start.
    let took = ended(12).since(begun);
    assert!(took <= 3 * 2 * CLEAN.delay, "{took:?}");
    assert!((0..3).all(|at| ended(4 * at) > ended(12)));
}

#[test]
fn a_cancelled_response_frees_its_streams_and_others_go_on() {
    let cancelled = Request {
        cancel_at: Some(20_000),
        ..plain(0, 5_000_000)
    };
    let path = Path {
        loss: 20,
        late: 20,
        ..CLEAN
    };
    let mut world = World::new(
        &[cancelled, plain(100_000, 100_000), cancelled, plain(0, 7)],
        path,
        1,
    );
    world.run("seed 1", World::is_over);
    for (stream, is_whole) in [(0, false), (4, true), (8, false), (12, true)] {
        let (near, far) = (&world.client.seen[&stream], &world.server.seen[&stream]);
        assert_eq!(near.ended.is_some(), is_whole, "stream {stream}");
        let code = (!is_whole).then_some(Code::REQUEST_CANCELLED);
        assert_eq!(
            far.reset, code,
            "stream {stream}: STOP_SENDING reaches the server"
        );
        assert!(is_whole || near.bytes < 5_000_000);
    }
}

#[test]
fn a_response_that_is_never_read_is_given_up_and_others_go_on() {
    let unread = Request {
        unread: true,
        ..plain(0, 5_000_000)
    };
    let mut world = World::new(&[unread, plain(0, 300_000), plain(100_000, 0)], CLEAN, 0);
    world.run("others", |world| {
        world.client.seen.len() == 3
            && [4, 8]
                .iter()
                .all(|stream| world.client.seen[stream].ended.is_some())
    });
    assert!(
        world.now < Instant::ZERO + Duration::from_secs(2),
        "{:?}",
        world.now
    );
    assert_eq!(world.server.http.streams(), 1);
    world.run("the unread one", World::is_over);
    let stall = http3::Limits::DEFAULT.stall_time;
    assert!(world.now >= Instant::ZERO + stall && world.now < Instant::ZERO + stall + Duration::from_secs(2));
    for seen in [&world.client.seen[&0], &world.server.seen[&0]] {
        assert_eq!(seen.reset, Some(Code::EXCESSIVE_LOAD));
    }
    assert_eq!((&world.client.closed, &world.server.closed), (&None, &None));
}

#[test]
fn a_server_that_shuts_down_finishes_what_it_took() {
    for (seed, loss) in [(0, 0), (1, 50), (2, 50)] {
        let label = format!("seed {seed}, loss {loss}/1000");
        let requests = vec![plain(3_000, 400_000); 60];
        let mut world = World::new(&requests, Path { loss, ..CLEAN }, seed);
        world.run(&label, |world| world.server.seen.len() >= 20);
        let now = world.now;
        world.server.http.shut_down(now);
        world.run(&label, |world| {
            world.server.http.is_drained() && world.client.goaway.is_some() && world.client.http.is_drained()
        });
        let (mut whole, mut rejected) = (0, 0);
        for (stream, seen) in &world.client.seen {
            match seen.reset {
                None => {
                    assert_eq!(seen.bytes, 400_000, "{label}, stream {stream}");
                    whole += 1;
                }
                Some(code) => {
                    assert_eq!(code, Code::REQUEST_REJECTED, "{label}, stream {stream}");
                    assert!(!world.server.seen.contains_key(stream), "it was never processed");
                    rejected += 1;
                }
            }
        }
        assert!(
            whole >= 20 && whole + rejected < 60,
            "{label}: {whole} whole, {rejected} rejected"
        );
    }
}
