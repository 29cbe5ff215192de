//! A client's side of exchanges, against a server of this crate.

use super::*;
use crate::error::Code;
use crate::qpack::block;
use crate::server;
use std::collections::BTreeMap;
use units::Instant;

const NOW: Instant = Instant::ZERO;

fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    block::begin(&mut out);
    for (name, value) in fields {
        block::field(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out
}

fn request(path: &str) -> Vec<u8> {
    section(&[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", path),
    ])
}

/// Both ends and what each has seen. Bodies are zeros.
struct Pair {
    client: Connection,
    server: server::Connection,
    opened: BTreeMap<u64, ()>,
    seen: Vec<String>,
}

impl Pair {
    fn new() -> Pair {
        Pair {
            client: Connection::new(Default::default()),
            server: server::Connection::new(Default::default()),
            opened: BTreeMap::new(),
            seen: Vec::new(),
        }
    }

    /// Carries everything both ways; returns what happened.
    fn carry(&mut self) -> Vec<String> {
        loop {
            let up = carry(
                &mut self.client,
                &mut self.server,
                &mut self.opened,
                true,
                &mut self.seen,
            );
            let down = carry(
                &mut self.server,
                &mut self.client,
                &mut self.opened,
                false,
                &mut self.seen,
            );
            if !up && !down {
                return core::mem::take(&mut self.seen);
            }
        }
    }
}

/// Carries the output of one end to the other.
fn carry<A, B>(
    from: &mut connection::Connection<A>,
    to: &mut connection::Connection<B>,
    opened: &mut BTreeMap<u64, ()>,
    opens_requests: bool,
    seen: &mut Vec<String>,
) -> bool {
    let mut moved = false;
    while let Some(output) = from.poll() {
        moved = true;
        let piece = match output {
            Output::Write(piece) => piece,
            Output::Reset { stream, code } => {
                let open = to.peer_reset(stream, NOW).unwrap();
                seen.push(format!("reset {stream} {code} {open}"));
                continue;
            }
            Output::Stop { stream, code } => {
                let open = to.peer_stopped(stream, code, NOW).unwrap();
                seen.push(format!("stop {stream} {code} {open}"));
                continue;
            }
        };
        let (stream, end) = (piece.stream, piece.end);
        let mut bytes = piece.frames.to_vec();
        bytes.resize(bytes.len() + piece.body as usize, 0);
        from.sent(stream, bytes.len() as u64);
        if (opens_requests || stream & 3 != 0) && opened.insert(stream, ()).is_none() {
            to.open(stream, NOW).unwrap();
        }
        let mut rest = &bytes[..];
        loop {
            let received = to.receive(stream, rest, end, NOW);
            rest = &rest[received.used..];
            seen.push(match received.event {
                Event::Partial => break,
                Event::Request {
                    stream, end, control, ..
                } => {
                    let path = String::from_utf8_lossy(control.path.unwrap_or_default()).into_owned();
                    format!("request {stream} {path} {end}")
                }
                Event::Response {
                    stream, status, end, ..
                } => format!("response {stream} {status} {end}"),
                Event::Body { stream, bytes } => format!("body {stream} {}", bytes.len()),
                Event::Trailers { stream, fields } => format!("trailers {stream} {}", fields.len()),
                Event::Closed(fault) => panic!("{fault}"),
                other => format!("{other:?}"),
            });
        }
    }
    moved
}

#[test]
fn an_exchange_with_bodies_both_ways() {
    let mut pair = Pair::new();
    pair.client
        .request(0, &request("/a"), false, false, Priority::DEFAULT)
        .unwrap();
    assert_eq!(pair.carry(), ["request 0 /a false"]);
    assert_eq!(
        pair.client.peer().map(|settings| settings.section_size),
        Some(32 << 10)
    );
    pair.client.ready(0, 1_000).unwrap();
    pair.server.inform(0, &section(&[(":status", "100")])).unwrap();
    assert_eq!(pair.carry(), ["body 0 1000", "response 0 100 false"]);
    pair.client.trailers(0, &section(&[("a", "b")])).unwrap();
    assert_eq!(pair.carry(), ["trailers 0 1", "End { stream: 0 }"]);
    pair.server
        .respond(0, &section(&[(":status", "200"), ("content-length", "3")]), false)
        .unwrap();
    pair.server.ready(0, 3).unwrap();
    pair.server.finish(0).unwrap();
    assert_eq!(
        pair.carry(),
        ["response 0 200 false", "body 0 3", "End { stream: 0 }"]
    );
    assert_eq!((pair.client.streams(), pair.server.streams()), (0, 0));
}

#[test]
fn a_head_response_announces_a_length_and_has_no_body() {
    let mut pair = Pair::new();
    pair.client
        .request(0, &request("/"), true, true, Priority::DEFAULT)
        .unwrap();
    pair.carry();
    let head = section(&[(":status", "200"), ("content-length", "3")]);
    pair.server.respond(0, &head, true).unwrap();
    assert_eq!(pair.carry(), ["response 0 200 true"]);
}

#[test]
fn a_client_cancels() {
    let mut pair = Pair::new();
    pair.client
        .request(0, &request("/"), false, false, Priority::DEFAULT)
        .unwrap();
    pair.carry();
    pair.client.reset(0, Code::REQUEST_CANCELLED);
    let seen = pair.carry();
    assert_eq!(seen[0], "reset 0 H3_REQUEST_CANCELLED true");
    assert_eq!((pair.client.streams(), pair.server.streams()), (0, 0));
}

/// RFC 9114 section 4.1: a complete response must not be discarded because the rest of the request is not wanted.
#[test]
fn a_response_outlives_the_stop_of_its_request() {
    let mut pair = Pair::new();
    pair.client
        .request(0, &request("/"), false, false, Priority::DEFAULT)
        .unwrap();
    pair.carry();
    pair.server.stop(0, Code::NO_ERROR);
    pair.server
        .respond(0, &section(&[(":status", "413")]), true)
        .unwrap();
    let seen = pair.carry();
    let expected = [
        "stop 0 H3_NO_ERROR false",
        "response 0 413 true",
        "reset 0 H3_NO_ERROR false",
    ];
    assert_eq!(seen, expected);
    assert_eq!((pair.client.streams(), pair.server.streams()), (0, 0));
}

#[test]
fn goaway_refuses_what_was_not_processed() {
    let mut pair = Pair::new();
    for stream in [0, 4] {
        pair.client
            .request(stream, &request("/"), true, false, Priority::DEFAULT)
            .unwrap();
    }
    // Only the first request has arrived when the server leaves.
    pair.server.open(0, NOW).unwrap();
    pair.server.leave();
    let down = carry(
        &mut pair.server,
        &mut pair.client,
        &mut pair.opened,
        false,
        &mut pair.seen,
    );
    assert!(down);
    assert_eq!(
        pair.seen,
        [
            "GoAway { first: 4 }",
            "Reset { stream: 4, code: H3_REQUEST_REJECTED }"
        ]
    );
    assert!(!pair.client.has_room());
    let refused = pair
        .client
        .request(8, &request("/"), true, false, Priority::DEFAULT);
    assert_eq!(refused, Err(Misuse::Full));
    assert_eq!(pair.client.streams(), 1);
    assert!(!pair.client.is_drained());
}

#[test]
fn a_client_leaves() {
    let mut pair = Pair::new();
    pair.carry();
    pair.client.shut_down(NOW);
    assert_eq!(pair.carry(), ["GoAway { first: 0 }"]);
    // It names a push (RFC 9114 section 5.2): requests may still be on their way, and the client closes when it is done.
    assert!(pair.client.is_drained() && !pair.server.is_drained());
}

#[test]
fn priorities_reach_the_server() {
    let mut pair = Pair::new();
    pair.client
        .request(0, &request("/"), true, false, Priority::DEFAULT)
        .unwrap();
    pair.carry();
    let urgent = Priority {
        urgency: 0,
        incremental: true,
    };
    pair.client.prioritize(0, urgent);
    pair.carry();
    assert_eq!(pair.server.priority(0), Some(urgent));
}

#[test]
fn a_stream_carries_one_request() {
    let mut client = Connection::new(Default::default());
    let request =
        |client: &mut Connection, stream| client.request(stream, &[0, 0], true, false, Priority::DEFAULT);
    assert_eq!(request(&mut client, 4), Ok(()));
    assert_eq!(request(&mut client, 4), Err(Misuse::Order));
    assert_eq!(request(&mut client, 2), Err(Misuse::Order), "unidirectional");
}
