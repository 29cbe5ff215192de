//! The two roles against each other, in pieces of every size, and the client's own rules.

use super::*;
use crate::error::Fault;
use crate::frame::{HEADER, Header, flag, kind};
use crate::hpack::block;
use crate::server;
use std::collections::BTreeMap;
use units::{Draw, Seed};

fn get(path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", path),
    ] {
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

fn client() -> (Connection, Vec<u8>) {
    let mut out = Vec::new();
    let mut client = Connection::new(Arc::default(), Instant::ZERO, &mut out);
    let settings = raw(kind::SETTINGS, 0, 0, &[]);
    assert_eq!(client.receive(&settings, Instant::ZERO, &mut out).used, HEADER);
    out.clear();
    (client, out)
}

fn events(client: &mut Connection, mut input: &[u8], out: &mut Vec<u8>) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let received = client.receive(input, Instant::ZERO, out);
        input = &input[received.used..];
        found.push(match received.event {
            Event::Partial => return found,
            Event::Response {
                stream, end, status, ..
            } => format!("{stream}: {status} {end}"),
            Event::Body { stream, bytes } => format!("{stream}: {} bytes", bytes.len()),
            Event::Closed(Fault::Connection(code, _)) => {
                found.push(format!("closed {code}"));
                return found;
            }
            Event::Reset { stream, code } => format!("{stream}: reset {code}"),
            Event::GoAway { last, .. } => format!("leaves after {last}"),
            other => format!("{other:?}"),
        });
    }
}

/// Each of 20 bodies arrives whole, whatever the pieces; neither side sees an error.
#[test]
fn both_roles_understand_each_other() {
    for seed in 0..30 {
        let mut rng = Seed(seed).rng();
        let now = Instant::ZERO;
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let mut client = Connection::new(Arc::default(), now, &mut up);
        let mut server = server::Connection::new(Arc::default(), now, &mut down);
        let mut wanted = BTreeMap::new();
        for n in 0..20_u64 {
            let length = rng.next_u64() % 100_000;
            let block = get(&format!("/{length}"));
            let priority = Priority {
                urgency: (n % 8) as u8,
                incremental: n % 3 == 0,
            };
            let stream = client.request(&block, true, false, priority, &mut up).unwrap();
            client.prioritize(stream, priority, &mut up);
            wanted.insert(stream, length);
        }
        let mut got: BTreeMap<u32, u64> = BTreeMap::new();
        let mut ended = 0;
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        for _ in 0..200_000 {
            let cut = (1 + (rng.next_u64() % 5_000)) as usize;
            to_server.extend(up.drain(..cut.min(up.len())));
            let mut used = 0;
            loop {
                let received = server.receive(&to_server[used..], now, &mut down);
                used += received.used;
                let (stream, length) = match received.event {
                    Event::Partial => break,
                    Event::Request {
                        stream, end, control, ..
                    } => {
                        assert!(end);
                        let path = core::str::from_utf8(&control.path.unwrap()[1..]).unwrap();
                        (stream, path.parse().unwrap())
                    }
                    other => panic!("seed {seed}: {other:?}"),
                };
                server.respond(stream, &[0x88], false, &mut down).unwrap();
                server.ready(stream, length).unwrap();
                server.finish(stream).unwrap();
            }
            to_server.drain(..used);
            let room = (10 + (rng.next_u64() % 20_000)) as usize;
            if let Some(piece) = server.next(room, now, &mut down) {
                down.resize(down.len() + piece.bytes, 7);
            }
            let cut = (1 + (rng.next_u64() % 20_000)) as usize;
            to_client.extend(down.drain(..cut.min(down.len())));
            let mut used = 0;
            loop {
                let received = client.receive(&to_client[used..], now, &mut up);
                used += received.used;
                let (stream, bytes) = match received.event {
                    Event::Partial => break,
                    Event::Response { status, end, .. } => {
                        assert_eq!((status, end), (200, false));
                        continue;
                    }
                    Event::Body { stream, bytes } => (stream, bytes.len() as u32),
                    Event::End { stream } => {
                        assert_eq!(got.get(&stream).copied().unwrap_or(0), wanted[&stream]);
                        ended += 1;
                        continue;
                    }
                    other => panic!("seed {seed}: {other:?}"),
                };
                *got.entry(stream).or_default() += u64::from(bytes);
                client.consumed(stream, bytes, &mut up);
            }
            to_client.drain(..used);
            if ended == wanted.len() {
                break;
            }
        }
        assert_eq!(ended, 20, "seed {seed}");
        assert_eq!((client.streams(), server.streams()), (0, 0));
    }
}

#[test]
fn responses_and_their_errors() {
    let (mut client, mut out) = client();
    for _ in 0..4 {
        client
            .request(&get("/"), true, false, Priority::DEFAULT, &mut out)
            .unwrap();
    }
    let mut hint = Vec::new();
    block::status(103, &mut hint);
    let mut sized = vec![0x88];
    block::field(b"content-length", b"2", &mut sized);
    let h = |stream, block: &[u8], flags: u8| raw(kind::HEADERS, flag::END_HEADERS | flags, stream, block);
    let input = [
        h(1, &hint, 0),
        h(1, &sized, 0),
        raw(kind::DATA, 1, 1, b"ok"),
        h(3, &hint, flag::END_STREAM),
        raw(kind::DATA, 0, 5, b"early"),
        h(7, &sized, flag::END_STREAM),
    ]
    .concat();
    let found = events(&mut client, &input, &mut out);
    let error = "reset PROTOCOL_ERROR";
    let expected = [
        "1: 103 false".to_owned(),
        "1: 200 false".to_owned(),
        "1: 2 bytes".to_owned(),
        "End { stream: 1 }".to_owned(),
        format!("3: {error}"),
        format!("5: {error}"),
        format!("7: {error}"),
    ];
    assert_eq!(found, expected);
    assert_eq!(client.streams(), 0);
}

#[test]
fn head_and_304_have_lengths_without_bodies() {
    let (mut client, mut out) = client();
    client
        .request(&get("/"), true, true, Priority::DEFAULT, &mut out)
        .unwrap();
    client
        .request(&get("/"), true, false, Priority::DEFAULT, &mut out)
        .unwrap();
    for (stream, status) in [(1, 200), (3, 304)] {
        let mut block = Vec::new();
        block::status(status, &mut block);
        block::field(b"content-length", b"99", &mut block);
        let found = events(&mut client, &raw(kind::HEADERS, 5, stream, &block), &mut out);
        assert_eq!(found, [format!("{stream}: {status} true")]);
    }
}

#[test]
fn content_of_a_response_that_has_none_is_an_error() {
    for (is_to_head, status) in [(true, 200), (false, 204), (false, 304)] {
        for (content, end) in [("evil", "1: reset PROTOCOL_ERROR"), ("", "End { stream: 1 }")] {
            let (mut client, mut out) = client();
            client
                .request(&get("/"), true, is_to_head, Priority::DEFAULT, &mut out)
                .unwrap();
            let mut block = Vec::new();
            block::status(status, &mut block);
            let input = [
                raw(kind::HEADERS, flag::END_HEADERS, 1, &block),
                raw(kind::DATA, flag::END_STREAM, 1, content.as_bytes()),
            ]
            .concat();
            let found = events(&mut client, &input, &mut out);
            assert_eq!(found, [format!("1: {status} false"), end.to_owned()]);
        }
    }
}

#[test]
fn goaway_says_which_requests_to_repeat() {
    let (mut client, mut out) = client();
    for _ in 0..3 {
        client
            .request(&get("/"), true, false, Priority::DEFAULT, &mut out)
            .unwrap();
    }
    let found = events(
        &mut client,
        &raw(kind::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]),
        &mut out,
    );
    assert_eq!(
        found,
        [
            "leaves after 1",
            "3: reset REFUSED_STREAM",
            "5: reset REFUSED_STREAM"
        ]
    );
    let again = client.request(&get("/"), true, false, Priority::DEFAULT, &mut out);
    assert_eq!(again, Err(Misuse::Full));
    assert!(!client.is_drained());
    assert_eq!(
        events(&mut client, &raw(kind::HEADERS, 5, 1, &[0x88]), &mut out),
        ["1: 200 true"]
    );
    assert!(client.is_drained());
}

#[test]
fn pushes_and_limits() {
    for input in [
        raw(kind::PUSH_PROMISE, 4, 1, &[0; 8]),
        raw(kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 1]),
        raw(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1]),
        raw(kind::HEADERS, 5, 3, &[0x88]),
        raw(kind::HEADERS, 5, 2, &[0x88]),
    ] {
        let (mut client, mut out) = client();
        client
            .request(&get("/"), true, false, Priority::DEFAULT, &mut out)
            .unwrap();
        assert_eq!(
            events(&mut client, &input, &mut out),
            ["closed PROTOCOL_ERROR"],
            "{input:?}"
        );
    }
    let (mut client, mut out) = client();
    events(
        &mut client,
        &raw(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]),
        &mut out,
    );
    assert_eq!(
        client.request(&get("/"), true, false, Priority::DEFAULT, &mut out),
        Ok(1)
    );
    assert_eq!(
        client.request(&get("/"), true, false, Priority::DEFAULT, &mut out),
        Err(Misuse::Full)
    );
}

/// Repeated fields shrink to their indexes; a prepared block between them, and a lower limit of the peer, leave both ends in
/// step.
#[test]
fn fields_go_through_the_dynamic_table() {
    let now = Instant::ZERO;
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut client = Connection::new(Arc::default(), now, &mut up);
    let mut server = server::Connection::new(Arc::default(), now, &mut down);
    let (agent, date) = (
        "weir, with a long name of a client",
        "Mon, 23 Nov 2026 12:00:00 GMT",
    );
    let requested = [(&b"user-agent"[..], agent.as_bytes()), (b"accept", b"*/*")];
    let answered = [(&b"date"[..], date.as_bytes())];
    let (mut requests, mut answers) = (Vec::new(), Vec::new());
    for n in 0..4 {
        if n == 3 {
            up.extend(raw(kind::SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0]));
        }
        let before = up.len();
        let stream = match n {
            2 => client.request(&get("/"), true, false, Priority::DEFAULT, &mut up),
            _ => client.request_with(&get("/"), requested, true, false, Priority::DEFAULT, &mut up),
        };
        requests.push(up.len() - before);
        loop {
            let received = server.receive(&up, now, &mut down);
            let (used, event) = (received.used, received.event);
            if let Event::Request { fields, .. } = &event {
                assert_eq!(fields.iter().skip(4).eq(requested), n != 2);
            }
            let partial = matches!(event, Event::Partial);
            up.drain(..used);
            if partial {
                break;
            }
        }
        let before = down.len();
        server
            .respond_with(stream.unwrap(), &[0x88], answered, true, &mut down)
            .unwrap();
        answers.push(down[before + HEADER..].to_vec());
    }
    assert_eq!(requests[1], HEADER + get("/").len() + 2, "two indexes");
    assert_eq!(requests[3], requests[1]);
    assert_eq!(
        (answers[1].as_slice(), &answers[2]),
        (&[0x88, 0xbe][..], &answers[1])
    );
    assert_eq!(answers[3][..2], [0x20, 0x88], "the limit is 0 now");
    let mut ends = 0;
    loop {
        let received = client.receive(&down, now, &mut up);
        match received.event {
            Event::Partial => break,
            Event::Response { fields, .. } => {
                assert!(fields.iter().skip(1).eq(answered));
                ends += 1;
            }
            other => panic!("{other:?}"),
        }
        let used = received.used;
        down.drain(..used);
    }
    assert_eq!((ends, client.streams(), server.streams()), (4, 0, 0));
}
