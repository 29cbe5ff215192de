//! The server against frames written by hand: errors with their codes, floods, flow control, priorities, memory.

use super::*;
use crate::frame::{
    self, Frame, HEADER, Header, PREFACE, Prelude, SIZE_MIN, Setting, WINDOW_MAX, flag, kind, write,
};
use crate::hpack::block;
use core::time::Duration;

/// A server with a peer that writes frames by hand.
struct Peer {
    server: Connection,
    now: Instant,
    /// Every event, shortened.
    events: Vec<String>,
    out: Vec<u8>,
}

fn get(path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let pseudo = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", path),
    ];
    for (name, value) in pseudo {
        block::field(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out
}

fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        length: payload.len() as u32,
        kind,
        flags,
        stream,
    };
    [&header.bytes()[..], payload].concat()
}

fn headers(stream: u32, block: &[u8], end: bool) -> Vec<u8> {
    let mut out = Vec::new();
    write::headers(&mut out, stream, block, end, SIZE_MIN);
    out
}

impl Peer {
    fn with(limits: Limits) -> Peer {
        let mut out = Vec::new();
        let now = Instant::ZERO + Duration::from_secs(100);
        let server = Connection::new(Arc::new(limits), now, &mut out);
        let mut peer = Peer {
            server,
            now,
            events: Vec::new(),
            out,
        };
        peer.send(PREFACE);
        peer.send(&raw(kind::SETTINGS, 0, 0, &[]));
        peer.send(&raw(kind::SETTINGS, flag::ACK, 0, &[]));
        peer.out.clear();
        peer
    }

    fn new() -> Peer {
        Peer::with(Limits::DEFAULT)
    }

    fn send(&mut self, mut input: &[u8]) {
        loop {
            let received = self.server.receive(input, self.now, &mut self.out);
            input = &input[received.used..];
            self.events.push(match received.event {
                Event::Partial => return,
                Event::Request {
                    stream, end, control, ..
                } => {
                    let path = control.path.map(String::from_utf8_lossy).unwrap_or_default();
                    format!("request {stream} {path} {end}")
                }
                Event::Body { stream, bytes } => format!("body {stream} {}", bytes.len()),
                Event::Trailers { stream, fields } => format!("trailers {stream} {}", fields.len()),
                Event::Closed(Fault::Connection(code, _)) => {
                    self.events.push(format!("closed {code}"));
                    return;
                }
                other => format!("{other:?}"),
            });
        }
    }

    /// Frames written since the last call.
    fn frames(&mut self) -> Vec<(u8, u32, Vec<u8>)> {
        let (mut rest, mut found) = (&self.out[..], Vec::new());
        while !rest.is_empty() {
            let header = Header::read(rest.first_chunk().unwrap());
            let end = HEADER + header.length as usize;
            found.push((header.kind, header.stream, rest[HEADER..end].to_vec()));
            rest = &rest[end..];
        }
        self.out.clear();
        found
    }

    /// The connection error, or the code of the one stream that was reset.
    fn outcome(&mut self) -> String {
        let mut found = Vec::new();
        for (kind, stream, payload) in self.frames() {
            let code = |at: usize| Code(u32::from_be_bytes(payload[at..at + 4].try_into().unwrap()));
            match kind {
                kind::GOAWAY => found.push(format!("connection {}", code(4))),
                kind::RST_STREAM => found.push(format!("stream {stream} {}", code(0))),
                _ => {}
            }
        }
        found.join(", ")
    }
}

#[test]
fn errors_have_the_codes_of_the_rfc() {
    let request = headers(1, &get("/"), true);
    let open = headers(1, &get("/"), false);
    let cat = |parts: &[&[u8]]| parts.concat();
    let update = |stream, n: u32| raw(kind::WINDOW_UPDATE, 0, stream, &n.to_be_bytes());
    let begun = raw(kind::HEADERS, 0, 1, &get("/"));
    let mut malformed = get("/");
    block::field(b"connection", b"close", &mut malformed);
    let mut length = get("/");
    block::field(b"content-length", b"3", &mut length);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (raw(kind::DATA, 0, 1, b"x"), "connection PROTOCOL_ERROR"),
        (raw(kind::RST_STREAM, 0, 1, &[0; 4]), "connection PROTOCOL_ERROR"),
        (update(1, 9), "connection PROTOCOL_ERROR"),
        (update(0, 0), "connection PROTOCOL_ERROR"),
        (update(0, WINDOW_MAX), "connection FLOW_CONTROL_ERROR"),
        (cat(&[&open, &update(1, 0)]), "stream 1 PROTOCOL_ERROR"),
        (
            cat(&[&open, &update(1, WINDOW_MAX)]),
            "stream 1 FLOW_CONTROL_ERROR",
        ),
        (headers(2, &get("/"), true), "connection PROTOCOL_ERROR"),
        (
            cat(&[&request, &raw(kind::DATA, 0, 1, b"x")]),
            "stream 1 STREAM_CLOSED",
        ),
        (
            cat(&[&request, &headers(1, &get("/"), true)]),
            "stream 1 STREAM_CLOSED",
        ),
        (cat(&[&open, &headers(1, &[], false)]), "stream 1 PROTOCOL_ERROR"),
        (
            cat(&[&open, &headers(1, &get("/"), true)]),
            "stream 1 PROTOCOL_ERROR",
        ),
        (headers(1, &malformed, true), "stream 1 PROTOCOL_ERROR"),
        (headers(1, &length, true), "stream 1 PROTOCOL_ERROR"),
        (
            cat(&[&headers(1, &length, false), &raw(kind::DATA, 0, 1, b"four")]),
            "stream 1 PROTOCOL_ERROR",
        ),
        (
            cat(&[&headers(1, &length, false), &raw(kind::DATA, 1, 1, b"12")]),
            "stream 1 PROTOCOL_ERROR",
        ),
        (
            headers(1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff], true),
            "connection COMPRESSION_ERROR",
        ),
        (raw(kind::CONTINUATION, 4, 1, &[]), "connection PROTOCOL_ERROR"),
        (
            cat(&[&begun, &raw(kind::PING, 0, 0, &[0; 8])]),
            "connection PROTOCOL_ERROR",
        ),
        (
            cat(&[&begun, &raw(kind::CONTINUATION, 4, 3, &[])]),
            "connection PROTOCOL_ERROR",
        ),
        (
            raw(kind::PUSH_PROMISE, 4, 1, &[0; 4]),
            "connection PROTOCOL_ERROR",
        ),
        (
            raw(kind::PRIORITY, 0, 3, &[0, 0, 0, 3, 9]),
            "stream 3 PROTOCOL_ERROR",
        ),
        (raw(kind::PRIORITY, 0, 3, &[0; 4]), "stream 3 FRAME_SIZE_ERROR"),
        (
            raw(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 2]),
            "connection PROTOCOL_ERROR",
        ),
        (
            raw(kind::SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]),
            "connection FLOW_CONTROL_ERROR",
        ),
        (
            raw(kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2]),
            "connection PROTOCOL_ERROR",
        ),
        (
            cat(&[
                &open,
                &update(1, 0x7fff_0000),
                &raw(kind::SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]),
            ]),
            "connection FLOW_CONTROL_ERROR",
        ),
        (raw(kind::PING, 0, 0, &[0; 7]), "connection FRAME_SIZE_ERROR"),
        (raw(0x55, 0, 9, &[0; 100]), ""),
        (raw(kind::PRIORITY, 0, 9, &[0; 5]), ""),
        (request, ""),
    ];
    for (at, (input, expected)) in cases.iter().enumerate() {
        for cut in [1, 7, input.len()] {
            let mut peer = Peer::new();
            let mut pending = Vec::new();
            for piece in input.chunks(cut) {
                pending.extend_from_slice(piece);
                let before = peer.events.len();
                let mut used = 0;
                loop {
                    let received = peer.server.receive(&pending[used..], peer.now, &mut peer.out);
                    used += received.used;
                    if matches!(received.event, Event::Partial | Event::Closed(_)) {
                        break;
                    }
                }
                assert_eq!(before, peer.events.len());
                pending.drain(..used);
            }
            assert_eq!(peer.outcome(), *expected, "case {at}, pieces of {cut}");
        }
    }
}

#[test]
fn a_wrong_beginning_is_refused() {
    for input in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x08\x06\0\0\0\0\x0012345678",
    ] {
        let mut out = Vec::new();
        let mut server = Connection::new(Arc::default(), Instant::ZERO, &mut out);
        let mut used = 0;
        let event = loop {
            let received = server.receive(&input[used..], Instant::ZERO, &mut out);
            used += received.used;
            match received.event {
                Event::Partial => panic!("the input is wrong"),
                Event::Closed(fault) => break fault,
                _ => {}
            }
        };
        assert!(
            matches!(event, Fault::Connection(Code::PROTOCOL_ERROR, _)),
            "{event}"
        );
    }
}

#[test]
fn bodies_and_trailers_arrive_and_windows_are_returned() {
    let mut peer = Peer::new();
    peer.events.clear();
    peer.send(&headers(1, &get("/up"), false));
    let body = vec![7; 16_000];
    for _ in 0..4 {
        peer.send(&raw(
            kind::DATA,
            flag::PADDED,
            1,
            &[&[3], &body[..], &[0; 3]].concat(),
        ));
    }
    assert_eq!(peer.outcome(), "");
    peer.server.consumed(1, 64_000, &mut peer.out);
    let updates: Vec<_> = peer
        .frames()
        .into_iter()
        .map(|(kind, stream, _)| (kind, stream))
        .collect();
    assert_eq!(
        updates,
        [(kind::WINDOW_UPDATE, 1)],
        "the connection's window is larger"
    );
    let mut trailer = Vec::new();
    block::field(b"x-sum", b"1", &mut trailer);
    peer.send(&headers(1, &trailer, true));
    let expected = [
        "request 1 /up false",
        "body 1 16000",
        "body 1 16000",
        "body 1 16000",
        "body 1 16000",
        "trailers 1 1",
    ];
    assert_eq!(peer.events, expected);

    let mut peer = Peer::new();
    peer.send(&headers(1, &get("/up"), false));
    for _ in 0..5 {
        peer.send(&raw(kind::DATA, 0, 1, &body));
    }
    assert_eq!(peer.outcome(), "stream 1 FLOW_CONTROL_ERROR");
}

#[test]
fn urgent_then_short_then_turns() {
    let mut peer = Peer::new();
    let answer = {
        let mut out = Vec::new();
        block::status(200, &mut out);
        out
    };
    let bodies = [
        (1, "u=5", 10),
        (3, "u=3", 3_000),
        (5, "u=3", 2_000),
        (7, "u=3, i", 2_000),
        (9, "u=3, i", 2_000),
        (11, "u=0", 500),
    ];
    for (stream, priority, length) in bodies {
        let mut block = get("/");
        block::field(b"priority", priority.as_bytes(), &mut block);
        peer.send(&headers(stream, &block, true));
        peer.server
            .respond(stream, &answer, false, &mut peer.out)
            .unwrap();
        peer.server.ready(stream, length).unwrap();
        peer.server.finish(stream).unwrap();
    }
    let mut order = Vec::new();
    while let Some(piece) = peer.server.next(1_009, peer.now, &mut peer.out) {
        order.push(piece.stream);
    }
    assert_eq!(order[0], 11);
    assert_eq!(order.last(), Some(&1));
    let place = |stream| order.iter().rposition(|&s| s == stream).unwrap();
    assert!(place(5) < place(3), "the shorter of two goes first: {order:?}");
    assert!(
        order[1..7].contains(&7) && order[1..7].contains(&9),
        "incremental ones take turns: {order:?}"
    );
    assert_eq!(peer.server.streams(), 0);
}

#[test]
fn windows_bound_what_is_sent() {
    let mut peer = Peer::new();
    peer.send(&headers(1, &get("/"), true));
    peer.server.respond(1, &[0x88], false, &mut peer.out).unwrap();
    peer.server.ready(1, 200_000).unwrap();
    peer.server.finish(1).unwrap();
    let mut sent = 0;
    while let Some(piece) = peer.server.next(usize::MAX, peer.now, &mut peer.out) {
        assert!(piece.bytes <= SIZE_MIN as usize && !piece.last);
        sent += piece.bytes;
    }
    assert_eq!(sent, 65_535);
    let due = peer.server.deadline().expect("blocked streams have a deadline");
    assert_eq!(due, peer.now + Limits::DEFAULT.stall_time);
    peer.out.clear();
    peer.send(&raw(kind::WINDOW_UPDATE, 0, 1, &100_000_u32.to_be_bytes()));
    assert_eq!(
        peer.server.next(usize::MAX, peer.now, &mut peer.out),
        None,
        "the connection's window is used up"
    );
    let result = peer.server.expire(due, &mut peer.out, |_, _| {});
    assert!(
        matches!(result, Err(Fault::Connection(Code::ENHANCE_YOUR_CALM, _))),
        "{result:?}"
    );
}

#[test]
fn a_window_that_drips_resets_its_stream_only() {
    let mut peer = Peer::new();
    peer.send(&raw(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]));
    for stream in [1, 3] {
        peer.send(&headers(stream, &get("/"), true));
        peer.server
            .respond(stream, &[0x88], false, &mut peer.out)
            .unwrap();
        peer.server.ready(stream, 10_000).unwrap();
    }
    peer.send(&raw(kind::WINDOW_UPDATE, 0, 3, &9_999_u32.to_be_bytes()));
    while peer.server.next(usize::MAX, peer.now, &mut peer.out).is_some() {}
    let due = peer.server.deadline().unwrap();
    while peer.now < due {
        peer.now = peer.now + Duration::from_secs(1);
        peer.send(&raw(kind::WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()));
        assert_eq!(
            peer.server
                .next(usize::MAX, peer.now, &mut peer.out)
                .unwrap()
                .bytes,
            1
        );
        peer.server.next(usize::MAX, peer.now, &mut peer.out);
    }
    let mut lost = Vec::new();
    peer.out.clear();
    peer.server
        .expire(peer.now, &mut peer.out, |stream, _| lost.push(stream))
        .unwrap();
    assert_eq!(
        (lost, peer.outcome()),
        (vec![1], "stream 1 ENHANCE_YOUR_CALM".to_owned())
    );
    assert_eq!(peer.server.streams(), 1);
}

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
fn floods_are_cut_off() {
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("ping", raw(kind::PING, 0, 0, &[0; 8])),
        ("settings", raw(kind::SETTINGS, 0, 0, &[])),
        ("priority", raw(kind::PRIORITY, 0, 9, &[0; 5])),
        ("priority update", raw(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 9])),
        (
            "window updates",
            raw(kind::WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
        ),
        ("unknown", raw(0x99, 0, 0, &[])),
        ("empty data", raw(kind::DATA, 0, 1, &[])),
        ("provoked", raw(kind::PRIORITY, 0, 9, &[0, 0, 0, 9, 0])),
    ];
    for (name, frame) in cases {
        let mut peer = Peer::new();
        peer.send(&headers(1, &get("/"), false));
        for _ in 0..2_000 {
            peer.send(&frame);
        }
        assert_eq!(peer.events.last().unwrap(), "closed ENHANCE_YOUR_CALM", "{name}");
        peer.out.clear();
        peer.send(&frame);
        assert!(peer.out.is_empty(), "{name}: nothing is answered after GOAWAY");
    }
}

#[test]
fn rapid_reset_is_cut_off_and_slow_resets_are_not() {
    let mut peer = Peer::new();
    let cancel = |stream| raw(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    for stream in (1..3_001).step_by(2) {
        peer.send(&headers(stream, &get("/"), true));
        peer.send(&cancel(stream));
    }
    assert_eq!(peer.events.last().unwrap(), "closed ENHANCE_YOUR_CALM");

    let mut peer = Peer::new();
    for n in 0..100_000 {
        peer.now = peer.now + Duration::from_millis(36);
        let stream = 2 * n + 1;
        peer.send(&headers(stream, &get("/"), true));
        peer.send(&cancel(stream));
        peer.events.clear();
        assert_eq!(peer.outcome(), "", "reset {n}");
    }
    assert_eq!(peer.server.streams(), 0);
}

#[test]
fn a_block_without_end_is_cut_off() {
    let mut peer = Peer::new();
    peer.send(&raw(kind::HEADERS, 0, 1, &get("/")));
    let due = peer.server.deadline().unwrap();
    for _ in 0..20 {
        peer.send(&raw(kind::CONTINUATION, 0, 1, b""));
    }
    assert_eq!(peer.events.last().unwrap(), "closed ENHANCE_YOUR_CALM");
    let mut peer = Peer::new();
    peer.send(&raw(kind::HEADERS, 0, 1, &get("/")));
    assert!(peer.server.expire(due, &mut peer.out, |_, _| {}).is_err());
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
fn work_counts_until_its_job_ends() {
    let mut peer = Peer::with(Limits {
        streams_max: 2,
        ..Limits::DEFAULT
    });
    for stream in [1, 3] {
        peer.send(&headers(stream, &get("/"), true));
        peer.server.job_began(stream);
        peer.send(&raw(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    peer.send(&headers(5, &get("/"), true));
    assert_eq!(peer.outcome(), "stream 5 REFUSED_STREAM");
    peer.server.job_ended(1);
    peer.send(&headers(7, &get("/"), true));
    assert_eq!(peer.events.last().unwrap(), "request 7 / true");
    assert_eq!(
        peer.server.respond(3, &[0x88], true, &mut peer.out),
        Err(Misuse::Gone)
    );
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
fn late_frames_after_a_reset_are_ignored_and_after_the_end_are_not() {
    let mut peer = Peer::new();
    peer.send(&headers(1, &get("/"), false));
    peer.server.reset(1, Code::CANCEL, &mut peer.out);
    peer.out.clear();
    peer.send(&raw(kind::DATA, 0, 1, b"late"));
    assert_eq!(peer.outcome(), "");
    peer.send(&headers(3, &get("/"), true));
    peer.server.respond(3, &[0x88], true, &mut peer.out).unwrap();
    peer.out.clear();
    peer.send(&raw(kind::DATA, 0, 3, b"x"));
    assert_eq!(peer.outcome(), "connection STREAM_CLOSED");
}

#[test]
fn a_lowered_table_is_acknowledged_in_the_next_block() {
    let mut peer = Peer::new();
    let mut lower = Vec::new();
    write::settings(&mut lower, &[Setting::HeaderTableSize(0)]);
    peer.send(&lower);
    for (stream, block) in [(1, &b"\x20\x88"[..]), (3, b"\x88")] {
        peer.send(&headers(stream, &get("/"), true));
        peer.out.clear();
        peer.server.respond(stream, &[0x88], true, &mut peer.out).unwrap();
        let Ok(Prelude::Other(header)) = frame::prelude(&peer.out, SIZE_MIN) else {
            panic!("HEADERS");
        };
        let expected = Frame::Headers {
            fragment: block,
            depends: None,
        };
        assert_eq!(frame::parse(header, &peer.out[HEADER..]), Ok(expected));
    }
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
    peer.server.trim();
    assert!(peer.server.memory() <= 1_024, "{}", peer.server.memory());
}
