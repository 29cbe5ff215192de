//! SETTINGS, shutdown, limits on lists and memory.

use super::*;
use crate::hpack::Encoder;

#[test]
fn unacknowledged_settings_time_out() {
    let mut out = Vec::new();
    let mut server = Connection::new(Arc::default(), Instant::ZERO, &mut out);
    let due = server.deadline().unwrap();
    let result = server.expire(due, &mut out, |_, _| {});
    assert!(
        matches!(result, Err(Fault::Connection(Code::SETTINGS_TIMEOUT, _))),
        "{result:?}"
    );
    assert_eq!(server.deadline(), None);
}

#[test]
fn large_lists_become_events_and_the_table_stays_in_step() {
    let mut peer = Peer::new();
    let mut crumbs = get("/");
    // One entry of the dynamic table, referred to a thousand times.
    crumbs.extend_from_slice(b"\x60\x03a=b");
    crumbs.extend_from_slice(&[0xbe; 1_000]);
    peer.events.clear();
    peer.send(&headers(1, &crumbs, true));
    assert_eq!(peer.events, ["Oversized { stream: 1, end: true }"]);
    let mut next = get("/again");
    next.push(0xbe);
    peer.send(&headers(3, &next, true));
    assert_eq!(peer.events[1], "request 3 /again true");
}

#[test]
fn a_drain_takes_two_steps() {
    let mut peer = Peer::new();
    peer.send(&headers(1, &get("/"), true));
    peer.server.shut_down(peer.now, &mut peer.out);
    let frames = peer.frames();
    assert_eq!(frames[0].2[..4], WINDOW_MAX.to_be_bytes());
    peer.send(&headers(3, &get("/late"), true));
    assert_eq!(peer.events.last().unwrap(), "request 3 /late true");
    peer.send(&raw(kind::PING, flag::ACK, 0, &frames[1].2));
    assert_eq!(peer.frames()[0].2[..4], 3_u32.to_be_bytes());
    let events = peer.events.len();
    peer.send(&headers(5, &get("/too-late"), true));
    assert_eq!((peer.events.len(), peer.outcome().as_str()), (events, ""));
    for stream in [1, 3] {
        assert!(!peer.server.is_drained());
        peer.server.respond(stream, &[0x88], true, &mut peer.out).unwrap();
    }
    assert!(peer.server.is_drained());
}

#[test]
fn an_idle_connection_costs_at_most_1_kib() {
    let mut peer = Peer::with(Limits {
        table_bytes: 256,
        ..Limits::DEFAULT
    });
    for stream in (1..=99).step_by(2) {
        let mut request = vec![0x3f, 0xe1, 1];
        request.extend(get("/"));
        request.extend_from_slice(b"\x40\x04name\x14a value of some size");
        peer.send(&headers(stream, &request, true));
    }
    assert!(peer.server.memory() > 1_024, "fifty streams cost something");
    for stream in (1..=99).step_by(2) {
        peer.server.respond(stream, &[0x88], true, &mut peer.out).unwrap();
    }
    peer.server.trim(peer.now);
    assert!(peer.server.memory() <= 1_024, "{}", peer.server.memory());
}

/// Fields a browser adds to each request, with different values of `path`.
fn browser(path: &str) -> Vec<(String, String)> {
    [
        (":method", "GET"),
        (":authority", "www.example.org"),
        (":scheme", "https"),
        (":path", path),
        (
            "sec-ch-ua",
            "\"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\", \"Google Chrome\";v=\"140\"",
        ),
        ("sec-ch-ua-mobile", "?0"),
        ("sec-ch-ua-platform", "\"Linux\""),
        (
            "user-agent",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
        ),
        (
            "accept",
            "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
        ),
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-mode", "no-cors"),
        ("sec-fetch-dest", "image"),
        ("referer", "https://www.example.org/news/2026/"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("accept-language", "en-US,en;q=0.9,de;q=0.8"),
        ("cookie", "session=4f1c2d7e9a8b4f1c2d7e9a8b4f1c2d7e9a8b"),
        ("priority", "i"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// The block of a request as a browser compresses it.
fn compressed(encoder: &mut Encoder, path: &str) -> Vec<u8> {
    let mut block = Vec::new();
    encoder.begin(&mut block);
    for (name, value) in browser(path) {
        encoder.field(name.as_bytes(), value.as_bytes(), &mut block);
    }
    block
}

/// Loads a page of twenty requests, and trims. Returns the bytes of the blocks.
fn load(peer: &mut Peer, encoder: &mut Encoder, from: u32) -> usize {
    let streams = (0..20).map(|n| from + 2 * n);
    let mut bytes = 0;
    for stream in streams {
        let block = compressed(encoder, &format!("/picture-{stream}.png"));
        bytes += block.len();
        peer.send(&headers(stream, &block, true));
        let event = format!("request {stream} /picture-{stream}.png true");
        assert!(peer.events.contains(&event), "{:?}", peer.events.last());
        peer.server.respond(stream, &[0x88], true, &mut peer.out).unwrap();
    }
    peer.server.trim(peer.now);
    bytes
}

/// The payloads of SETTINGS that the server has sent since the last call.
fn announced(peer: &mut Peer) -> Vec<Vec<u8>> {
    let frames = peer.frames().into_iter();
    let settings = frames.filter(|(kind, ..)| *kind == kind::SETTINGS);
    settings.map(|(_, _, payload)| payload).collect()
}

/// SETTINGS_HEADER_TABLE_SIZE of 0 and of 4,096.
const EMPTY: [[u8; 6]; 2] = [[0, 1, 0, 0, 0, 0], [0, 1, 0, 0, 0x10, 0]];

/// Acknowledges SETTINGS.
const ACK: [u8; 9] = [0, 0, 0, kind::SETTINGS, flag::ACK, 0, 0, 0, 0];

/// Lets the server ask for an empty table.
fn ask(peer: &mut Peer) {
    peer.out.clear();
    peer.now = peer.server.deadline().expect("the table is large");
    peer.server.expire(peer.now, &mut peer.out, |_, _| {}).unwrap();
    assert_eq!(announced(peer), EMPTY);
}

#[test]
fn an_idle_client_empties_its_table_and_may_fill_it_again() {
    let (mut peer, mut encoder) = (Peer::new(), Encoder::new(4_096));
    for from in [1, 101, 201] {
        load(&mut peer, &mut encoder, from);
        let held = peer.server.memory();
        ask(&mut peer);
        assert_eq!(peer.server.deadline(), None, "a client may sleep");
        assert_eq!(
            peer.server.memory(),
            held,
            "until it knows, it may refer to the table"
        );
        encoder.set_peer_limit(0);
        encoder.set_peer_limit(4_096);
        peer.send(&ACK);
        let rest = peer.server.memory();
        assert!(rest <= 700 && rest + 800 < held, "{rest} of {held}");
        peer.send(&ACK);
    }
}

#[test]
fn a_request_that_crosses_the_settings_is_understood() {
    let (mut peer, mut encoder) = (Peer::new(), Encoder::new(4_096));
    load(&mut peer, &mut encoder, 1);
    ask(&mut peer);
    let bytes = load(&mut peer, &mut encoder, 101);
    assert!(bytes < 20 * 40, "{bytes} bytes: the table was in use");
    assert_eq!(peer.server.deadline(), None, "not asked again before the answer");
    encoder.set_peer_limit(0);
    encoder.set_peer_limit(4_096);
    peer.send(&ACK);
    peer.send(&ACK);
    load(&mut peer, &mut encoder, 201);
    // RFC 9113 section 4.3.1: a block without the update is an error.
    let (mut peer, mut encoder) = (Peer::new(), Encoder::new(4_096));
    load(&mut peer, &mut encoder, 1);
    ask(&mut peer);
    peer.send(&ACK);
    peer.send(&headers(101, &compressed(&mut encoder, "/"), true));
    assert_eq!(peer.outcome(), "connection COMPRESSION_ERROR");
}

#[test]
fn a_client_without_a_table_is_never_asked() {
    let mut peer = Peer::new();
    peer.send(&headers(1, &get("/"), true));
    peer.server.respond(1, &[0x88], true, &mut peer.out).unwrap();
    peer.server.trim(peer.now);
    assert_eq!(peer.server.deadline(), None);
}

#[test]
fn an_idle_connection_keeps_no_large_table() {
    let mut peer = Peer::new();
    for n in 0..50_u32 {
        let (stream, date) = (2 * n + 1, format!("a date of the second {n}"));
        peer.send(&headers(stream, &get("/"), true));
        let fields = [(&b"date"[..], date.as_bytes())];
        peer.server
            .respond_with(stream, &[0x88], fields, true, &mut peer.out)
            .unwrap();
    }
    let before = peer.server.memory();
    peer.server.trim(peer.now);
    assert!(peer.server.memory() + 2_000 < before, "{before}");
    peer.out.clear();
    peer.send(&headers(101, &get("/"), true));
    peer.server.respond(101, &[0x88], true, &mut peer.out).unwrap();
    let frames = peer.frames();
    assert_eq!(
        frames[0].2, b"\x20\x3f\xe1\x1f\x88",
        "the client empties its table too"
    );
}
