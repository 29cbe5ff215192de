//! Bodies are read, checked, discarded, and never taken for requests.

use super::rig::{End, Rig, answers, ask, exchange};
use crate::config::Config;

const NEXT: &str = "GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n";

fn statuses(text: &str) -> Vec<u16> {
    answers(text.as_bytes(), |_| false)
        .iter()
        .map(|a| a.status)
        .collect()
}

#[test]
fn a_body_is_discarded_and_the_next_request_answered() {
    for (request, status) in [
        (
            "GET /digits.bin HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            200,
        ),
        (
            "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /",
            405,
        ),
        (
            "BREW /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /",
            501,
        ),
        (
            "GET /digits.bin HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            200,
        ),
        (
            "GET /digits.bin HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: v\r\n\r\n",
            200,
        ),
        (
            "OPTIONS * HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            204,
        ),
    ] {
        let (text, end) = ask(&format!("{request}{NEXT}"));
        assert_eq!(
            (statuses(&text), end),
            (vec![status, 200], End::Open),
            "{request}"
        );
    }
}

#[test]
fn ambiguous_framing_never_yields_a_second_request() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for head in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 5\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\r\n : chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX\r\n: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\rZ: w\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let (text, end) = ask(&format!("{head}{smuggled}"));
        let got = statuses(&text);
        assert_eq!(got.len(), 1, "{head:?} was answered {got:?}");
        assert!(matches!(got[0], 400 | 501), "{head:?}: {got:?}");
        assert_eq!(end, End::HalfClosed, "{head:?}");
    }
}

#[test]
fn a_body_too_large_is_413_and_the_end() {
    let configure = |c: &mut Config| c.max_body_size = units::Bytes(8);
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n4\r\nhell\r\n0\r\n\r\n",
    ] {
        let (text, end) = exchange(configure, format!("{request}{NEXT}").as_bytes());
        assert_eq!((statuses(&text), end), (vec![413], End::HalfClosed), "{request}");
        assert!(text.contains("Connection: close\r\n"));
    }
    let fits = "GET /digits.bin HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n12345678";
    assert_eq!(statuses(&exchange(configure, fits.as_bytes()).0), [200]);
}

/// The size of a chunk announces as much as a length: a body that will be rejected is not awaited.
#[test]
fn a_chunk_too_large_is_413_before_it_comes() {
    for (chunks, status) in [
        ("FFFFFFFFFFFFFFFF\r\n", 413),
        ("FFFFFFFFFFFFFFFF\r\nabc", 413),
        ("0009;x=y\r\n", 413),
        ("5\r\nhello\r\n4\r\n", 413),
        ("5\r\nhello\r\nfffffffffffffffe\r\n", 413),
        ("8\r\n12345678\r\n0\r\n\r\n", 200),
    ] {
        let request =
            format!("GET /digits.bin HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        for slowly in [false, true] {
            let mut rig = Rig::with(|c| c.max_body_size = units::Bytes(8));
            match slowly {
                true => rig.send_slowly(request.as_bytes()),
                false => rig.send(request.as_bytes()),
            }
            assert_eq!(statuses(&rig.text()), [status], "{chunks:?} slowly: {slowly}");
            assert_eq!(
                rig.end == End::HalfClosed,
                status == 413,
                "{chunks:?} slowly: {slowly}"
            );
        }
    }
}

#[test]
fn a_length_beyond_counting_is_413() {
    for length in [
        "9223372036854775808",
        "18446744073709551615",
        "99999999999999999999999",
    ] {
        let (text, end) = ask(&format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{NEXT}"
        ));
        assert_eq!((statuses(&text), end), (vec![413], End::HalfClosed), "{length}");
        assert!(text.starts_with("HTTP/1.1 413 Content Too Large\r\n"), "{text}");
    }
}

#[test]
fn a_continue_is_sent_only_where_the_body_is_wanted() {
    let mut rig = Rig::new();
    rig.send(b"GET /digits.bin HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(rig.text(), "HTTP/1.1 100 Continue\r\n\r\n");
    rig.send(b"hello");
    assert_eq!(statuses(&rig.text()), [100, 200]);
    assert_eq!(rig.end, End::Open);

    let mut rig = Rig::new();
    rig.send(b"GET /digits.bin HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhel");
    assert_eq!(rig.text(), "", "the body is already coming");
    rig.send(b"lo");
    assert_eq!(statuses(&rig.text()), [200]);

    for method in ["POST", "PUT", "BREW"] {
        let mut rig = Rig::new();
        let head =
            format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
        rig.send_slowly(head.as_bytes());
        assert_eq!(statuses(&rig.text()), [if method == "BREW" { 501 } else { 405 }]);
        assert_eq!(rig.end, End::HalfClosed, "whether a body follows is unknown");
    }
    let (text, end) = ask("GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n");
    assert_eq!((statuses(&text), end), (vec![417], End::Open));
    let (text, _) = ask("GET /digits.bin HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\nx");
    assert_eq!(statuses(&text), [200], "HTTP/1.0 knows no 100");
}

#[test]
fn heads_have_bounds() {
    let long = "x".repeat(20_000);
    for (request, status) in [
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), 431),
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(101)),
            431,
        ),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}"), 431),
    ] {
        let mut rig = Rig::new();
        for piece in request.as_bytes().chunks(1_000) {
            rig.send(piece);
        }
        assert_eq!((statuses(&rig.text()), rig.end), (vec![status], End::HalfClosed));
    }
}

#[test]
fn other_protocols_are_told() {
    for (bytes, status) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01"[..], 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"\x00\x01\x02\x03", 400),
    ] {
        let mut rig = Rig::new();
        rig.send(bytes);
        assert_eq!(statuses(&rig.text()), [status], "{bytes:?}");
    }
}
