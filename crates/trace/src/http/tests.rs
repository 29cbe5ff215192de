//! The tokenizer, with its input cut everywhere.

use super::*;
use proptest::prelude::*;

fn run(role: Role, pieces: &[&[u8]], asked: Asked) -> Vec<Token> {
    let mut tokenizer = Tokenizer::new(role, false);
    let mut out = Vec::new();
    for piece in pieces {
        tokenizer.bytes(piece, || asked, &mut out);
    }
    out
}

/// Runs whole, per byte and cut in two at every place; all must agree.
fn check(role: Role, input: &[u8], asked: Asked) -> Vec<Token> {
    let whole = run(role, &[input], asked);
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(run(role, &bytes, asked), whole, "per byte");
    for cut in 0..=input.len() {
        let (a, b) = input.split_at(cut);
        assert_eq!(run(role, &[a, b], asked), whole, "cut at {cut}");
    }
    whole
}

fn request(method: &str, target: &str, header_bytes: u64) -> Token {
    Token::Request {
        method: method.into(),
        target: target.into(),
        header_bytes,
    }
}

#[test]
fn pipelined_requests_with_and_without_bodies() {
    let tokens = check(
        Role::Requests,
        b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nPOST /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc\r\nHEAD / HTTP/1.0\n\n",
        Asked::Other,
    );
    assert_eq!(
        tokens,
        [
            request("GET", "/a", 28),
            Token::End { body_bytes: 0 },
            request("POST", "/b", 39),
            Token::End { body_bytes: 3 },
            request("HEAD", "/", 19),
            Token::End { body_bytes: 0 },
        ]
    );
}

#[test]
fn every_way_a_response_can_end() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: 1\r\n\r\n";
    assert_eq!(
        check(Role::Responses, chunked, Asked::Other),
        [
            Token::Response {
                status: 200,
                header_bytes: 47
            },
            Token::End { body_bytes: 13 }
        ]
    );
    let two = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n";
    assert_eq!(check(Role::Responses, two, Asked::Other).len(), 4);
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(check(Role::Responses, head, Asked::Head).len(), 4);
    let mut tokenizer = Tokenizer::new(Role::Responses, false);
    let mut out = Vec::new();
    tokenizer.bytes(b"HTTP/1.0 200 OK\r\n\r\nuntil close", || Asked::Other, &mut out);
    tokenizer.gap(100, &mut out);
    assert_eq!(out.len(), 1);
    tokenizer.close(&mut out);
    assert_eq!(out[1], Token::End { body_bytes: 111 });
}

#[test]
fn what_is_not_http_ends_the_reading() {
    for (role, input) in [
        (
            Role::Requests,
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        ),
        (Role::Requests, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (Role::Requests, b"EHLO example.org\r\n"),
        (Role::Responses, b"SSH-2.0-OpenSSH_9.2\r\n"),
    ] {
        assert_eq!(run(role, &[input], Asked::Other), [Token::NotHttp], "{input:?}");
    }
    let tunnel = b"HTTP/1.1 200 OK\r\n\r\nbinary";
    assert!(run(Role::Responses, &[tunnel], Asked::Connect).contains(&Token::NotHttp));
}

#[test]
fn a_gap_inside_a_body_is_harmless_and_elsewhere_loses_the_stream() {
    let mut tokenizer = Tokenizer::new(Role::Responses, false);
    let mut out = Vec::new();
    tokenizer.bytes(
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01",
        || Asked::Other,
        &mut out,
    );
    tokenizer.gap(8, &mut out);
    assert_eq!(out[1], Token::End { body_bytes: 10 });
    tokenizer.gap(1, &mut out);
    assert_eq!(out[2], Token::Lost);
    tokenizer.bytes(b"middle of something", || Asked::Other, &mut out);
    tokenizer.bytes(b"HTTP/1.1 204 No Content\r\n\r\n", || Asked::Other, &mut out);
    assert_eq!(out[4], Token::End { body_bytes: 0 });
}

#[test]
fn long_lines_are_cut_and_not_kept() {
    let mut input = b"GET /".to_vec();
    input.resize(5000, b'x');
    input.extend_from_slice(b" HTTP/1.1\r\nCookie: ");
    input.resize(20_000, b'c');
    input.extend_from_slice(b"\r\n\r\n");
    let length = input.len() as u64;
    let tokens = run(
        Role::Requests,
        &input.chunks(700).collect::<Vec<_>>(),
        Asked::Other,
    );
    match &tokens[..] {
        [
            Token::Request {
                target, header_bytes, ..
            },
            Token::End { body_bytes: 0 },
        ] => {
            assert_eq!((target.len(), *header_bytes), (TARGET_MAX, length));
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20), role: bool) {
        let role = if role { Role::Requests } else { Role::Responses };
        let mut tokenizer = Tokenizer::new(role, false);
        let mut out = Vec::new();
        for (i, piece) in pieces.iter().enumerate() {
            tokenizer.bytes(piece, || Asked::Other, &mut out);
            if i % 5 == 4 {
                tokenizer.gap(piece.len() as u64, &mut out);
            }
            prop_assert!(tokenizer.line.len() <= LINE_MAX);
        }
        tokenizer.close(&mut out);
    }
}
