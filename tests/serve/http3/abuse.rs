//! What hostile clients do: each time, a normal client is answered within a second, and memory stays below a bound. On a busy
//! machine it may take longer, as it does before the attack. `benches/h3-flood` measures how soon it is answered.
//!
//! The bounds leave room for what a server and its allocator need anyway, and are far below what an attack that is kept
//! in memory would cost.

use super::client::config;
use super::{is_served, launch, metric, open, resident, site};
use crate::serve::files::noise;
use crate::serve::process::{PATIENCE, Server, Strategy, eventually};
use crate::serve::tls::Pairs;
use http3::qpack::block;
use quic::hostile::frames::{self, RESET_STREAM};
use quic::hostile::{Closed, Hostile, Parameters};
use std::cell::Cell;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Type of a frame with a field section (RFC 9114 section 7.2.2).
const HEADERS: u8 = 0x01;

/// What the connections of normal clients and the allocator take, with room to spare: growth beyond it is the attack's.
const USUAL: u64 = 8 << 20;

/// Time in which a normal client is answered during an attack, from its first packet.
const PROMPT: Duration = Duration::from_secs(1);

/// Normal clients of which one must be prompt. One whose first packet is lost sends it again after a second (RFC 9002 section
/// 6.2.2), and the scheduler of a busy machine may forget one.
const TRIES: usize = 3;

/// Clients that keep the rules while others attack.
struct Normal<'s> {
    server: &'s Server,
    pairs: &'s Pairs,
    /// How long the slowest took before the attack.
    before: Duration,
}

impl<'s> Normal<'s> {
    fn before_attack(server: &'s Server, pairs: &'s Pairs) -> Normal<'s> {
        // The first client brings what is allocated once.
        is_served(server, pairs);
        let mut normal = Normal {
            server,
            pairs,
            before: Duration::ZERO,
        };
        normal.before = (0..TRIES).map(|_| normal.time()).max().unwrap_or_default();
        normal
    }

    fn time(&self) -> Duration {
        let began = Instant::now();
        is_served(self.server, self.pairs);
        began.elapsed()
    }

    /// A client is answered, and not much later than before the attack.
    fn is_served(&self) {
        let bound = PROMPT.max(self.before * 5);
        let mut took = Vec::new();
        while took.len() < TRIES {
            let time = self.time();
            if time <= bound {
                return;
            }
            took.push(time);
        }
        panic!(
            "normal clients took {took:?}, and {:?} before the attack",
            self.before
        );
    }
}

/// A client that breaks rules, on a socket of its own.
struct Attacker {
    socket: UdpSocket,
    client: Hostile,
}

impl Attacker {
    fn open(server: &Server, pairs: &Pairs, parameters: &Parameters) -> Attacker {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.connect(server.address).expect("an address");
        socket.set_nonblocking(true).expect("a socket");
        let mut tls = (*pairs.client()).clone();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let destination = OPENED.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let client = Hostile::new(Arc::new(tls), "a.test", parameters, destination).expect("TLS 1.3");
        let mut attacker = Attacker { socket, client };
        let mut sent = Instant::now();
        eventually("a handshake", || {
            attacker.pump();
            if sent.elapsed() > Duration::from_millis(500) {
                attacker.client.again();
                sent = Instant::now();
            }
            attacker.client.is_connected().then_some(())
        });
        // A control stream with empty SETTINGS.
        attacker.send(|to| frames::stream(2, 0, &[0x00, 0x04, 0x00], false, to));
        attacker
    }

    /// Takes what came, and sends what is due.
    fn pump(&mut self) {
        let mut buffer = [0; 2_048];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            self.client.receive(&buffer[..length]);
        }
        for datagram in self.client.take() {
            // A full socket loses it, as a path would.
            let _ = self.socket.send(&datagram);
        }
    }

    /// Sends a packet with these frames.
    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut frames = Vec::new();
        write(&mut frames);
        self.client.send(&frames);
        self.pump();
    }

    /// Sends the first request, and waits for bytes of its answer.
    fn ask(&mut self, path: &str) {
        let before = self.client.stream_bytes;
        self.send(|to| frames::stream(0, 0, &request(path), true, to));
        eventually("an answer", || {
            self.pump();
            (self.client.stream_bytes > before).then_some(())
        });
    }

    /// How the server ends the connection because of these frames, which are sent until they arrive.
    fn end(&mut self, what: &str, write: impl Fn(&mut Vec<u8>)) -> Closed {
        eventually(what, || {
            self.send(&write);
            self.client.closed.clone()
        })
    }
}

/// A GET as the bytes of its stream.
fn request(path: &str) -> Vec<u8> {
    let mut section = Vec::new();
    block::begin(&mut section);
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a.test"),
        (":path", path),
    ];
    for (name, value) in fields {
        block::field(name.as_bytes(), value.as_bytes(), &mut section);
    }
    headers(&section)
}

fn headers(section: &[u8]) -> Vec<u8> {
    let mut bytes = vec![HEADERS];
    frames::varint(section.len() as u64, &mut bytes);
    bytes.extend_from_slice(section);
    bytes
}

/// How much memory has grown while `attack` ran and normal clients were served: those of the attack, and one right behind it.
fn grown(server: &Server, pairs: &Pairs, attack: impl FnOnce(&Normal<'_>)) -> u64 {
    let normal = Normal::before_attack(server, pairs);
    let before = resident(server);
    attack(&normal);
    normal.is_served();
    resident(server).saturating_sub(before)
}

#[test]
fn handshakes_that_never_go_on_cost_little_and_delay_nobody() {
    let pairs = site(&[("a.txt", b"a")]);
    let limits = ["--max-connections-per-address", "65536"];
    let server = launch(Strategy::LOOPS, &pairs, &limits);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let config = config(&pairs.client());
    let flood = |count: usize, normal: &Normal<'_>| {
        for number in 0..count {
            if number % 500 == 499 {
                normal.is_served();
            }
            let settings = Arc::new(quinn_proto::EndpointConfig::default());
            let mut endpoint = quinn_proto::Endpoint::new(settings, None, true, None);
            let (_, mut quic) = endpoint
                .connect(Instant::now(), config.clone(), server.address, "a.test")
                .expect("a valid configuration");
            let mut buffer = Vec::new();
            while let Some(transmit) = quic.poll_transmit(Instant::now(), 1, &mut buffer) {
                let _ = socket.send_to(&buffer[..transmit.size], server.address);
                buffer.clear();
            }
        }
    };
    let first = grown(&server, &pairs, |normal| flood(3_000, normal));
    // Two workers keep 256 handshakes each, of 40 to 80 KiB, before peers have to prove their address.
    assert!(first < 40 << 20, "{first} bytes");
    let retries = metric(&server, &pairs, "weir_http3_retries_total");
    assert!(retries > 100.0, "{retries}");
    let more = grown(&server, &pairs, |normal| flood(2_000, normal));
    assert!(more < USUAL, "{more} bytes more: it grows with the flood");
}

#[test]
fn a_client_that_must_prove_its_address_can() {
    let pairs = site(&[("a.txt", b"a")]);
    let server = launch(
        Strategy::LOOPS,
        &pairs,
        &["--max-connections-per-address", "65536"],
    );
    // Handshakes that are begun and left.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut tls = (*pairs.client()).clone();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = Arc::new(tls);
    for number in 0..1_500_u64 {
        let destination = (number | 1 << 40).to_be_bytes();
        let mut client =
            Hostile::new(Arc::clone(&tls), "a.test", &Parameters::ample(), destination).expect("TLS 1.3");
        for datagram in client.take() {
            let _ = socket.send_to(&datagram, server.address);
        }
    }
    eventually("Retry", || {
        (metric(&server, &pairs, "weir_http3_retries_total") > 0.0).then_some(())
    });
    // A socket leads to one of the workers, of which one is calm.
    let proven = eventually("a connection after Retry", || {
        Some(Attacker::open(&server, &pairs, &Parameters::ample())).filter(|one| one.client.retries > 0)
    });
    { proven }.ask("/a.txt");
}

/// A byte at a time, on as many streams as there may be.
#[test]
fn heads_that_come_slowly_end_after_their_time() {
    // At first, the server permits 100 streams, of which one carries the whole request. One more would end the connection,
    // unless the server has seen in time that there are many.
    const SLOW: u64 = 99;
    let pairs = site(&[("a.txt", b"a")]);
    // The other clients of this test have as long for their heads, on a machine that may be busy.
    let server = launch(Strategy::LOOPS, &pairs, &["--header-timeout", "3s"]);
    let slow = request("/a.txt");
    let mut attacker = Attacker::open(&server, &pairs, &Parameters::ample());
    // A connection without any whole request would end at once.
    attacker.ask("/a.txt");
    let attack = |normal: &Normal<'_>| {
        let began = Instant::now();
        let mut at = 0;
        while attacker.client.counts.get(&RESET_STREAM) < Some(&SLOW) {
            let counts = &attacker.client.counts;
            assert!(
                began.elapsed() < PATIENCE,
                "{counts:?} {:?}",
                attacker.client.closed
            );
            if at + 1 < slow.len() {
                for first in (1..=SLOW).step_by(16) {
                    attacker.send(|to| {
                        for stream in first..=SLOW.min(first + 15) {
                            frames::stream(stream * 4, at as u64, &slow[at..=at], false, to);
                        }
                    });
                }
                at += 1;
            }
            normal.is_served();
            attacker.pump();
        }
    };
    let bytes = grown(&server, &pairs, attack);
    assert!(bytes < USUAL, "{bytes} bytes");
    let counted = metric(&server, &pairs, "weir_timeouts_total");
    assert!(counted >= SLOW as f64, "each head counts: {counted}");
}

#[test]
fn answers_that_nobody_reads_delay_nobody() {
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &noise(4 << 20))]);
    let server = launch(Strategy::LOOPS, &pairs, &["--write-timeout", "1s"]);
    // No byte on a stream, but three streams for the server: without them, it must end the connection.
    let windows = Parameters::least()
        .integer(0x08, 128)
        .integer(0x09, 3)
        .integer(0x04, 0);
    let mut attackers: Vec<Attacker> = (0..20)
        .map(|_| Attacker::open(&server, &pairs, &windows))
        .collect();
    let ask = |attacker: &mut Attacker| {
        for stream in 0..100 {
            attacker.send(|to| frames::stream(stream * 4, 0, &request("/large.bin"), true, to));
        }
    };
    let bytes = grown(&server, &pairs, |_| attackers.iter_mut().for_each(ask));
    // Of the first 8 answers of each connection, 64 KiB are read ahead, of the others 8 KiB: 24 MiB. Requests take a few KiB.
    assert!(bytes < 44 << 20, "{bytes} bytes for 2,000 requests");
    eventually("all are given up", || {
        attackers.iter_mut().for_each(Attacker::pump);
        let is_over = |attacker: &Attacker| {
            let resets = attacker.client.counts.get(&RESET_STREAM).copied().unwrap_or(0);
            resets >= 100 || attacker.client.closed.is_some()
        };
        attackers.iter().all(is_over).then_some(())
    });
    is_served(&server, &pairs);
    let mut shut = Attacker::open(&server, &pairs, &Parameters::least());
    assert_eq!(
        shut.end("no stream is permitted", |to| to.push(0x01)).code,
        0x103,
        "H3_STREAM_CREATION_ERROR"
    );
}

/// It reads everything and acknowledges nothing, so that everything has to be kept.
#[test]
fn answers_that_are_not_acknowledged_are_kept_to_a_limit() {
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &noise(4 << 20))]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let bytes = grown(&server, &pairs, |normal| {
        for _ in 0..20 {
            let mut attacker = Attacker::open(&server, &pairs, &Parameters::ample());
            attacker.client.acknowledges = false;
            for stream in 0..100 {
                attacker.send(|to| frames::stream(stream * 4, 0, &request("/large.bin"), true, to));
            }
            for _ in 0..20 {
                normal.is_served();
                attacker.pump();
            }
        }
    });
    // 4 MiB each, and what is read ahead.
    assert!(bytes < 120 << 20, "{bytes} bytes for 2,000 requests of 4 MiB");
}

/// It takes each request back at once, and asks anew as soon as the server permits a stream.
#[test]
fn a_client_that_resets_what_it_asks_for_is_cut_off() {
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &noise(4 << 20))]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let mut client = open(&server, &pairs);
    let mut number = 0;
    let bytes = grown(&server, &pairs, |_| {
        let began = Instant::now();
        while client.closed.is_none() {
            assert!(began.elapsed() < PATIENCE, "{number} requests");
            match client.try_ask("GET", "/large.bin", &[]) {
                Some(stream) => {
                    client.cancel(stream);
                    number += 1;
                }
                None => {
                    let before = Cell::new(true);
                    client.run(|_| !before.replace(false));
                }
            }
        }
    });
    assert!(bytes < USUAL, "{bytes} bytes");
    let why = client.closed.expect("it is closed");
    assert!(why.contains("too many RESET_STREAM"), "{why} after {number}");
    assert_eq!(metric(&server, &pairs, "weir_http3_failed_total"), 1.0);
    let counted = metric(&server, &pairs, "weir_http3_resets_total");
    assert!(
        counted > 0.0 && counted <= f64::from(number),
        "{counted} of {number}"
    );
}

/// Each question asks for an answer of the same length.
#[test]
fn path_challenges_are_answered_within_a_bound() {
    let pairs = site(&[("a.txt", b"a")]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let mut attacker = Attacker::open(&server, &pairs, &Parameters::ample());
    let bytes = grown(&server, &pairs, |normal| {
        for round in 0..2_000 {
            attacker.send(|to| {
                for number in 0..120 {
                    frames::path_challenge(round * 120 + number, to);
                }
            });
            if round % 500 == 0 {
                normal.is_served();
            }
        }
    });
    assert!(bytes < USUAL, "{bytes} bytes for 240,000 questions");
    attacker.ask("/a.txt");
}

/// As many ranges as a packet holds, each of one packet.
#[test]
fn acknowledgments_in_many_pieces_delay_nobody() {
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &noise(4 << 20))]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let mut attacker = Attacker::open(&server, &pairs, &Parameters::ample());
    // What there is to acknowledge.
    attacker.send(|to| frames::stream(0, 0, &request("/large.bin"), true, to));
    eventually("600 kB", || {
        attacker.pump();
        (attacker.client.stream_bytes > 600_000).then_some(())
    });
    attacker.client.acknowledges = false;
    // Every second of the packets that came.
    let came = attacker.client.received().to_vec();
    let runs: Vec<(u64, u64)> = came
        .iter()
        .flat_map(|&(first, last)| (first..=last).step_by(2).map(|number| (number, number)))
        // The last of a run may be next to the first of another.
        .filter(|&(number, _)| !came.iter().any(|&(first, _)| first == number + 2))
        .collect();
    let runs = &runs[runs.len().saturating_sub(195)..];
    assert!(runs.len() > 150, "{came:?}");
    let bytes = grown(&server, &pairs, |normal| {
        for round in 0..3_000 {
            attacker.send(|to| {
                for _ in 0..2 {
                    frames::ack_runs(runs, to);
                }
            });
            if round % 1_000 == 0 {
                normal.is_served();
            }
        }
    });
    assert!(bytes < USUAL, "{bytes} bytes");
}

/// Every second byte, so that nothing can be put together.
#[test]
fn streams_in_pieces_are_kept_to_a_limit() {
    let pairs = site(&[("a.txt", b"a")]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let mut attackers: Vec<Attacker> = (0..4)
        .map(|_| Attacker::open(&server, &pairs, &Parameters::ample()))
        .collect();
    let bytes = grown(&server, &pairs, |normal| {
        for attacker in &mut attackers {
            // Four streams of 60 KiB are nearly the window of a connection.
            for stream in 0..4 {
                for packet in 0..300 {
                    attacker.send(|to| {
                        for piece in 0..100 {
                            let offset = 2 * (packet * 100 + piece) + 1;
                            frames::stream(stream * 4, offset, b"x", false, to);
                        }
                    });
                }
            }
            normal.is_served();
        }
    });
    // 480,000 pieces. What keeps the datagram of each would take 144 MiB, and as much again for the lists.
    assert!(bytes < 96 << 20, "{bytes} bytes");
}

#[test]
fn connection_ids_and_empty_frames_cost_nothing_that_stays() {
    let pairs = site(&[("a.txt", b"a")]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let mut ids = Attacker::open(&server, &pairs, &Parameters::ample());
    ids.client.acknowledges = false;
    let mut empty = Attacker::open(&server, &pairs, &Parameters::ample());
    let bytes = grown(&server, &pairs, |normal| {
        for round in 0..1_000_u64 {
            ids.send(|to| {
                for number in round * 30 + 1..round * 30 + 31 {
                    // Each retires all before it, which the server has to say until that is acknowledged.
                    frames::integers(0x18, &[number, number], to);
                    to.push(8);
                    to.extend_from_slice(&number.to_be_bytes());
                    to.extend_from_slice(&[number as u8; 16]);
                }
            });
            empty.send(|to| {
                for _ in 0..200 {
                    // PING, DATA_BLOCKED, STREAMS_BLOCKED.
                    to.extend_from_slice(&[0x01, 0x14, 0x10, 0x16, 0x10]);
                }
            });
            if round % 250 == 0 {
                normal.is_served();
            }
        }
    });
    assert!(bytes < USUAL, "{bytes} bytes");
}

/// Compression refers to nothing that is still to come, so no stream can wait for it.
#[test]
fn no_stream_waits_for_a_dynamic_table() {
    let pairs = site(&[("a.txt", b"a")]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let normal = Normal::before_attack(&server, &pairs);
    // A section that needs one entry, and an encoder stream that sets a capacity of 4,096.
    let waiting = headers(&[0x02, 0x00, 0x80]);
    for (stream, bytes, code, name) in [
        (0, &waiting[..], 0x200, "QPACK_DECOMPRESSION_FAILED"),
        (6, &[0x02, 0x3f, 0xe1, 0x1f], 0x201, "QPACK_ENCODER_STREAM_ERROR"),
    ] {
        let mut attacker = Attacker::open(&server, &pairs, &Parameters::ample());
        let closed = attacker.end(name, |to| frames::stream(stream, 0, bytes, false, to));
        assert_eq!(
            (closed.code, closed.by_application),
            (code, true),
            "{name}: {closed:?}"
        );
        normal.is_served();
    }
}

/// NEW_CONNECTION_ID frames with these numbers, which retire none.
fn connection_ids(numbers: std::ops::RangeInclusive<u64>, to: &mut Vec<u8>) {
    for number in numbers {
        frames::integers(0x18, &[number, 0], to);
        to.push(8);
        to.extend_from_slice(&number.to_be_bytes());
        to.extend_from_slice(&[number as u8; 16]);
    }
}

/// What is just within the limits is taken.
#[test]
fn limits_of_the_transport_can_be_used_up() {
    // Of a reserved type, which means nothing (RFC 9114 section 6.2.3).
    const RESERVED: u8 = 0x21;
    let pairs = site(&[("a.txt", b"a")]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let mut attacker = Attacker::open(&server, &pairs, &Parameters::ample());
    // Twice, as what arrives once more is no more.
    for _ in 0..2 {
        attacker.send(|to| {
            connection_ids(1..=5, to);
            frames::stream(2 + 4 * 7, 0, &[RESERVED], false, to);
            frames::stream(4 * 99, 0, b"x", false, to);
            for stream in 1..4 {
                frames::stream(stream * 4, (64 << 10) - 1, b"x", false, to);
            }
            // Leaves 256 bytes of the connection's window, for the streams above and the request.
            frames::stream(4 * 4, (64 << 10) - 257, b"x", false, to);
        });
    }
    attacker.ask("/a.txt");
    assert_eq!(attacker.client.closed, None);
}

/// Whoever goes beyond a limit of the transport has no connection any more.
#[test]
fn limits_of_the_transport_hold() {
    let pairs = site(&[("a.txt", b"a")]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let normal = Normal::before_attack(&server, &pairs);
    type Write = fn(&mut Vec<u8>);
    let cases: [(&str, u64, Write); 11] = [
        ("more than a stream's window", 0x03, |to| {
            frames::stream(0, 64 << 10, b"x", false, to)
        }),
        ("more than a connection's window", 0x03, |to| {
            // Each within its own window.
            for stream in 0..5 {
                frames::stream(stream * 4, (64 << 10) - 1, b"x", false, to);
            }
        }),
        ("more unidirectional streams than permitted", 0x04, |to| {
            frames::stream(2 + 4 * 8, 0, b"x", false, to)
        }),
        ("a sixth connection ID", 0x09, |to| {
            // The server has retired the one of the handshake.
            connection_ids(1..=6, to);
        }),
        ("more streams than permitted", 0x04, |to| {
            frames::stream(4 * 100, 0, b"x", false, to)
        }),
        ("a stream of the server's", 0x05, |to| {
            frames::stream(1, 0, b"x", false, to)
        }),
        ("two ends of a stream", 0x06, |to| {
            frames::stream(0, 0, b"ab", true, to);
            frames::stream(0, 2, b"c", true, to);
        }),
        ("an acknowledgment of what was never sent", 0x0a, |to| {
            frames::ack(1_000_000, 0, to);
        }),
        ("a frame that is none", 0x07, |to| {
            frames::integers(0x3f, &[1], to)
        }),
        ("a handshake in pieces", 0x0d, |to| {
            frames::crypto(1 << 20, b"x", to)
        }),
        // KeyUpdate of TLS, which QUIC forbids (RFC 9001 section 6).
        ("a message of TLS after the handshake", 0x10a, |to| {
            frames::crypto(0, &[24, 0, 0, 1, 0], to)
        }),
    ];
    for (what, code, write) in cases {
        let mut attacker = Attacker::open(&server, &pairs, &Parameters::ample());
        let closed = attacker.end(what, write);
        assert_eq!(
            (closed.code, closed.by_application),
            (code, false),
            "{what}: {closed:?}"
        );
    }
    normal.is_served();
}
