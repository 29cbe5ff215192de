//! What an exchange of HTTP/1.1 becomes in HTTP/2, against the server's end of the crate `http2`.

use super::*;
use crate::proxy::forward::LIMITS as OF_RESPONSES;
use http_semantics::field::MAX_FIELDS;
use http_semantics::method::Method;
use http2::server;

const NOW: Instant = Instant::ZERO;

/// An upstream, and the exchange that talks to it.
struct Pair {
    translator: Translator,
    upstream: server::Connection,
    /// Frames from either side that the other has not got.
    up: Vec<u8>,
    down: Vec<u8>,
    /// What the upstream got, in words.
    got: Vec<String>,
    stream: u32,
    /// The response as the exchange gets it.
    plain: String,
}

impl Pair {
    fn new(limits: Limits) -> Pair {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        Pair {
            translator: Translator::new(&Arc::default(), NOW, &mut up),
            upstream: server::Connection::new(Arc::new(limits), NOW, &mut down),
            up,
            down,
            got: Vec::new(),
            stream: 0,
            plain: String::new(),
        }
    }

    /// Moves all bytes both ways. Returns whether the exchange goes on.
    fn settle(&mut self) -> Result<(), Over> {
        loop {
            let mut input = std::mem::take(&mut self.up);
            let mut used = 0;
            loop {
                let received = self.upstream.receive(&input[used..], NOW, &mut self.down);
                used += received.used;
                match received.event {
                    Event::Partial => break,
                    Event::Request {
                        stream, end, fields, ..
                    } => {
                        self.stream = stream;
                        let lines = fields.iter().map(|(name, value)| {
                            format!(
                                "{}={}",
                                String::from_utf8_lossy(name),
                                String::from_utf8_lossy(value)
                            )
                        });
                        self.got.extend(lines);
                        self.got.push(format!("end={end}"));
                    }
                    Event::Body { bytes, stream } => {
                        self.got.push(format!("{} bytes", bytes.len()));
                        let count = bytes.len() as u32;
                        self.upstream.consumed(stream, count, &mut self.down);
                    }
                    Event::Trailers { fields, .. } => {
                        let lines = fields
                            .iter()
                            .map(|(name, _)| String::from_utf8_lossy(name).into_owned());
                        self.got.extend(lines);
                    }
                    Event::End { .. } => self.got.push("end".to_owned()),
                    other => panic!("{other:?}"),
                }
            }
            input.drain(..used);
            let rest = input;
            let down = std::mem::take(&mut self.down);
            if down.is_empty() {
                self.up.splice(0..0, rest);
                return Ok(());
            }
            let mut plain = Vec::new();
            self.up = rest;
            let went_on = self.translator.receive(&down, NOW, &mut plain, &mut self.up);
            self.plain += std::str::from_utf8(&plain).expect("text");
            went_on?;
        }
    }

    fn send(&mut self, text: &str) {
        let sent = self.translator.send(text.as_bytes(), true, NOW, &mut self.up);
        sent.expect("the connection takes it");
        self.settle().expect("the exchange goes on");
    }

    /// The head of a response.
    fn respond(&mut self, fields: &[(&str, &str)], end: bool) -> Result<(), Over> {
        let mut lines = Vec::new();
        for (name, value) in fields {
            block::field(name.as_bytes(), value.as_bytes(), &mut lines);
        }
        let head = self.upstream.respond(self.stream, &lines, end, &mut self.down);
        head.expect("a stream");
        self.settle()
    }

    fn content(&mut self, content: &str) {
        self.upstream
            .ready(self.stream, content.len() as u64)
            .expect("a stream");
        let mut left = content.as_bytes();
        while let Some(piece) = self.upstream.next(ROOM, NOW, &mut self.down) {
            let (now, later) = left.split_at(piece.bytes);
            self.down.extend_from_slice(now);
            left = later;
        }
        self.settle().expect("the exchange goes on");
    }
}

#[test]
fn heads_bodies_and_trailers_pass_both_ways() {
    let mut pair = Pair::new(Limits::DEFAULT);
    pair.send(
        "POST /x?y HTTP/1.1\r\nHost: a.test\r\nX-Upper: 1\r\ncookie: a=b\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n",
    );
    let expected = [
        ":method=POST",
        ":scheme=https",
        ":authority=a.test",
        ":path=/x?y",
        "x-upper=1",
        "cookie=a=b",
        "te=trailers",
        "end=false",
    ];
    assert_eq!(pair.got, expected);
    pair.got.clear();
    pair.send("5\r\nhello\r\n0\r\nX-End: 1\r\n\r\n");
    assert_eq!(pair.got, ["5 bytes", "x-end"]);
    assert_eq!(pair.translator.blocked(), 0);
}

#[test]
fn responses_get_the_framing_that_they_have() {
    let long = [(":status", "200"), ("content-length", "2")];
    let short = [(":status", "200"), ("grpc-status", "5")];
    for (request, fields, content, trailers, expected) in [
        (
            "GET",
            &long[..],
            Some("ab"),
            false,
            "HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nab",
        ),
        (
            "GET",
            &long[..1],
            Some("ab"),
            false,
            "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        ),
        (
            "GET",
            &long[..1],
            Some("ab"),
            true,
            "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\ngrpc-status: 0\r\n\r\n",
        ),
        (
            "GET",
            &short[..],
            None,
            false,
            "HTTP/1.1 200 \r\ngrpc-status: 5\r\nContent-Length: 0\r\n\r\n",
        ),
        (
            "HEAD",
            &long[..],
            None,
            false,
            "HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\n",
        ),
        (
            "GET",
            &[(":status", "304")][..],
            None,
            false,
            "HTTP/1.1 304 \r\n\r\n",
        ),
    ] {
        let mut pair = Pair::new(Limits::DEFAULT);
        pair.send(&format!("{request} / HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        pair.respond(fields, content.is_none()).expect("a response");
        if let Some(content) = content {
            pair.content(content);
            if trailers {
                let mut lines = Vec::new();
                block::field(b"grpc-status", b"0", &mut lines);
                pair.upstream
                    .trailers(pair.stream, &lines, &mut pair.down)
                    .expect("a stream");
            } else {
                pair.upstream.finish(pair.stream).expect("a stream");
                assert!(
                    pair.upstream
                        .next(ROOM, NOW, &mut pair.down)
                        .is_some_and(|piece| piece.bytes == 0)
                );
            }
            pair.settle().expect("the exchange goes on");
        }
        assert_eq!(pair.plain, expected, "{request}");
        assert!(pair.translator.is_at_rest(), "{request}");
    }
}

/// A client may send as many lines as a parser takes, and this server adds some. A response gets one for its framing.
#[test]
fn heads_have_room_for_lines_that_are_added() {
    let mut pair = Pair::new(Limits {
        fields_max: 400,
        ..Limits::DEFAULT
    });
    let lines: Vec<String> = (1..MAX_LINES).map(|at| format!("x-{at}: y\r\n")).collect();
    let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{}\r\n", lines.concat());
    pair.send(&request);
    // Behind the four pseudo-fields; `te` and the end follow.
    assert_eq!(pair.got.len(), 4 + lines.len() + 2);
    let names: Vec<String> = (0..MAX_FIELDS).map(|at| format!("x-{at}")).collect();
    let mut fields = vec![(":status", "200")];
    fields.extend(names.iter().map(|name| (name.as_str(), "y")));
    pair.respond(&fields, false).expect("a response");
    let mut client = http1::client::Connection::new();
    client
        .begin_request(Method::Get, true, &OF_RESPONSES)
        .expect("a request");
    client.end_request().expect("it has no content");
    let mut slots = Slots::new();
    match client.receive(pair.plain.as_bytes(), &mut slots, &OF_RESPONSES) {
        Ok(http1::client::Step::Response { head, .. }) => assert_eq!(head.fields.len(), MAX_FIELDS + 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn content_waits_for_the_windows_of_the_upstream_and_trailers_behind_it() {
    let narrow = Limits {
        stream_window: 10,
        ..Limits::DEFAULT
    };
    let mut pair = Pair::new(narrow);
    pair.settle().expect("SETTINGS");
    let request = format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n19\r\n{}\r\n0\r\nX-End: 1\r\n\r\n",
        "x".repeat(25)
    );
    let sent = pair.translator.send(request.as_bytes(), true, NOW, &mut pair.up);
    sent.expect("the connection takes it");
    assert_eq!(pair.translator.blocked(), 15);
    pair.settle().expect("the exchange goes on");
    assert_eq!(pair.translator.blocked(), 0);
    assert_eq!(
        pair.got.last().map(String::as_str),
        Some("x-end"),
        "{:?}",
        pair.got
    );
}

#[test]
fn what_http1_cannot_say_and_what_the_upstream_gives_up_is_over() {
    let begin = || {
        let mut pair = Pair::new(Limits::DEFAULT);
        pair.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        pair
    };
    for name in ["connection", "transfer-encoding", "upgrade", "keep-alive"] {
        let mut pair = begin();
        assert_eq!(
            pair.respond(&[(":status", "200"), (name, "x")], true),
            Err(Over::Given),
            "{name}"
        );
    }
    let mut pair = begin();
    pair.upstream
        .reset(pair.stream, http2::Code::REFUSED_STREAM, &mut pair.down);
    assert_eq!(pair.settle(), Err(Over::Unprocessed));
    assert!(!pair.translator.is_at_rest());
    // One that leaves names the last request that it processed. Another reset may come within the work.
    let mut pair = Pair::new(Limits::DEFAULT);
    pair.settle().expect("SETTINGS");
    pair.upstream.leave(&mut pair.down);
    let request = b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n";
    let sent = pair.translator.send(request, true, NOW, &mut pair.up);
    assert_eq!(sent, Ok(()));
    let left = pair
        .translator
        .receive(&pair.down, NOW, &mut Vec::new(), &mut pair.up);
    assert_eq!(left, Err(Over::Unprocessed));
    pair.translator.rest();
    assert_eq!(
        pair.translator.send(request, true, NOW, &mut pair.up),
        Err(Over::Unprocessed)
    );
    let mut pair = begin();
    pair.upstream
        .reset(pair.stream, http2::Code::INTERNAL_ERROR, &mut pair.down);
    assert_eq!(pair.settle(), Err(Over::Given));
    // An upstream that leaves answers first, and gets nothing more.
    let mut pair = begin();
    pair.upstream.leave(&mut pair.down);
    pair.respond(&[(":status", "204")], true).expect("a response");
    assert!(pair.plain.starts_with("HTTP/1.1 204 ") && !pair.translator.is_at_rest());
}

#[test]
fn a_connection_carries_one_request_after_another() {
    let mut pair = Pair::new(Limits::DEFAULT);
    for number in 0..300 {
        pair.send(&format!("GET /{number} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        assert!(!pair.translator.is_at_rest());
        pair.respond(&[(":status", "204")], true).expect("a response");
        assert!(pair.translator.is_at_rest());
        pair.translator.rest();
        assert!(pair.got.contains(&format!(":path=/{number}")));
        pair.got.clear();
    }
    assert!(pair.translator.held() < 8 << 10, "{}", pair.translator.held());
}
