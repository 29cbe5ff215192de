//! What a request is in records, and a response in HTTP/1.1, wherever either is cut.

use super::*;
use crate::proxy::forward::LIMITS as OF_RESPONSES;
use http_semantics::field::{MAX_FIELDS, MAX_LINES};
use http_semantics::method::Method;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A request as an application sees it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    keeps: bool,
    params: BTreeMap<String, String>,
    content: Vec<u8>,
    has_ended: bool,
}

/// Reads the records of a request.
fn heard(mut bytes: &[u8]) -> Heard {
    let (mut heard, mut pairs) = (Heard::default(), Vec::new());
    while let [1, kind, 0, 1, high, low, padding, _, rest @ ..] = bytes {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let content = &rest[..length];
        bytes = &rest[length + usize::from(*padding)..];
        match kind {
            1 => heard.keeps = content[2] == 1,
            4 => pairs.extend_from_slice(content),
            5 => {
                heard.has_ended = length == 0;
                heard.content.extend_from_slice(content);
            }
            other => panic!("type {other}"),
        }
    }
    assert!(bytes.is_empty(), "{bytes:?}");
    for (name, value) in params::read(&pairs).expect("pairs") {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let before = heard.params.insert(text(name), text(value));
        assert_eq!(before, None, "each parameter comes once");
    }
    heard
}

fn translator() -> Translator {
    let mut pairs = Vec::new();
    params::pair(&mut pairs, b"SCRIPT_FILENAME", b"/srv/a.php");
    let mut translator = Translator::default();
    translator.begin(&Arc::new(Call { pairs, keeps: true }));
    translator
}

fn sent(request: &[u8], piece: usize) -> Result<Heard, Over> {
    let (mut translator, mut out) = (translator(), Vec::new());
    for part in request.chunks(piece) {
        translator.send(part, &mut out)?;
    }
    Ok(heard(&out))
}

fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    pairs.collect()
}

#[test]
fn field_lines_become_parameters() {
    let request =
        b"GET /a.php/b?c=d&e HTTP/1.1\r\nHost: a.test\r\nAccept: x\r\nX_Real-Ip: forged\r\nProxy: evil\r\n\
        Cookie: a=1\r\nCookie: b=2\r\nX-A: 1\r\nx-a: 2\r\n\r\n";
    for piece in [1, 7, request.len()] {
        let heard = sent(request, piece).unwrap();
        let params = of(&[
            ("SCRIPT_FILENAME", "/srv/a.php"),
            ("REQUEST_METHOD", "GET"),
            ("REQUEST_URI", "/a.php/b?c=d&e"),
            ("QUERY_STRING", "c=d&e"),
            ("HTTP_HOST", "a.test"),
            ("HTTP_ACCEPT", "x"),
            ("HTTP_COOKIE", "a=1; b=2"),
            ("HTTP_X_A", "1, 2"),
        ]);
        assert_eq!((heard.params, heard.keeps, heard.has_ended), (params, true, true));
        assert_eq!(heard.content, b"");
    }
}

/// A client may send as many lines as a parser takes, and this server adds some. A response gets one for its framing.
#[test]
fn heads_have_room_for_lines_that_are_added() {
    let lines: Vec<String> = (1..MAX_LINES).map(|at| format!("X-{at}: y\r\n")).collect();
    let request = format!("GET /a.php HTTP/1.1\r\nHost: a\r\n{}\r\n", lines.concat());
    let heard = sent(request.as_bytes(), request.len()).unwrap();
    let variables = heard.params.keys().filter(|name| name.starts_with("HTTP_X_"));
    assert_eq!(variables.count(), lines.len());
    let fields: Vec<String> = (0..MAX_FIELDS).map(|at| format!("X-{at}: y\n")).collect();
    let output = record(6, format!("{}\n", fields.concat()).as_bytes());
    let (plain, over, _) = received("GET", &output, output.len());
    assert_eq!(over, Ok(()));
    let mut client = http1::client::Connection::new();
    client.begin_request(Method::Get, true, &OF_RESPONSES).unwrap();
    client.end_request().unwrap();
    let mut slots = Slots::new();
    match client.receive(plain.as_bytes(), &mut slots, &OF_RESPONSES) {
        Ok(http1::client::Step::Response { head, .. }) => assert_eq!(head.fields.len(), MAX_FIELDS + 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn content_has_a_length() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n";
    for framed in [
        "Content-Length: 5\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n",
    ] {
        let request = format!("{head}{framed}");
        for piece in 1..=request.len() {
            let heard = sent(request.as_bytes(), piece).unwrap();
            assert_eq!((&heard.content[..], heard.has_ended), (&b"hello"[..], true));
            assert_eq!(heard.params["CONTENT_LENGTH"], "5");
            assert_eq!(heard.params["CONTENT_TYPE"], "text/plain");
            assert!(
                !heard
                    .params
                    .keys()
                    .any(|name| name.starts_with("HTTP_CONTENT") || name.contains("TRANSFER"))
            );
        }
    }
}

#[test]
fn content_of_unknown_length_has_a_bound() {
    let request = |length: usize| {
        let content = "x".repeat(length);
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{content}\r\n0\r\n\r\n"
        )
    };
    let most = sent(request(UNKNOWN_LENGTH_MAX).as_bytes(), 60_000).unwrap();
    assert_eq!(most.content.len(), UNKNOWN_LENGTH_MAX);
    let more = sent(request(UNKNOWN_LENGTH_MAX + 1).as_bytes(), 60_000);
    assert_eq!(more, Err(Over::NoLength));
}

#[test]
fn content_with_a_length_is_passed_on_as_it_comes() {
    let (mut translator, mut out) = (translator(), Vec::new());
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
    translator.send(head, &mut out).unwrap();
    assert_eq!(heard(&out).params["CONTENT_LENGTH"], "200000");
    for _ in 0..2 {
        out.clear();
        translator.send(&[b'x'; 100_000], &mut out).unwrap();
        assert!(out.len() > 100_000, "{}", out.len());
        assert!(translator.held() < 8_192, "nothing is held");
    }
    assert!(out.ends_with(&[1, 5, 0, 1, 0, 0, 0, 0]), "the content has ended");
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

fn ended(status: u8) -> Vec<u8> {
    record(3, &[0, 0, 0, 0, status, 0, 0, 0])
}

/// What an exchange gets of these bytes, in pieces; and whether the connection can be used again.
fn received(method: &str, bytes: &[u8], piece: usize) -> (String, Result<(), Over>, bool) {
    let mut translator = translator();
    let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
    translator.send(request.as_bytes(), &mut Vec::new()).unwrap();
    let mut plain = Vec::new();
    let mut all = bytes.chunks(piece);
    let over = all.try_for_each(|part| translator.receive(part, &mut plain));
    (String::from_utf8(plain).unwrap(), over, translator.is_at_rest())
}

#[test]
fn responses_are_whole_with_the_end_of_the_request() {
    let chunked = "HTTP/1.1 200 \r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
    let moved = "HTTP/1.1 302 \r\nLocation: /b\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (method, output, plain, over) in [
        (
            "GET",
            "Content-Type: text/html\r\n\r\n",
            format!("{chunked}0\r\n\r\n"),
            Ok(()),
        ),
        ("GET", "Location: /b\n\n", format!("{moved}0\r\n\r\n"), Ok(())),
        (
            "GET",
            "Status: 404 Not Found\nContent-Length: 2\nConnection: close\nTransfer-Encoding: chunked\n\nno",
            "HTTP/1.1 404 \r\nContent-Length: 2\r\n\r\nno".to_owned(),
            Err(Over::Given),
        ),
        (
            "HEAD",
            "Content-Length: 9\n\nignored",
            "HTTP/1.1 200 \r\nContent-Length: 9\r\n\r\n".to_owned(),
            Ok(()),
        ),
        (
            "GET",
            "Status: 304\nETag: \"a\"\n\nignored",
            "HTTP/1.1 304 \r\nETag: \"a\"\r\n\r\n".to_owned(),
            Ok(()),
        ),
        (
            "GET",
            "Status: 204\nContent-Length: 3\n\nabc",
            "HTTP/1.1 204 \r\n\r\n".to_owned(),
            Ok(()),
        ),
    ] {
        let output = record(6, output.as_bytes());
        let bytes = [output.clone(), record(6, b""), ended(0)].concat();
        for piece in 1..=bytes.len() {
            assert_eq!(
                received(method, &bytes, piece),
                (plain.clone(), over, true),
                "pieces of {piece}"
            );
        }
        // Without the end, a response without a length is not whole.
        let (cut, _, rests) = received(method, &output, output.len());
        assert!(!rests);
        if over.is_ok() {
            assert!(!cut.ends_with("0\r\n\r\n") && cut != plain, "{cut:?}");
        }
    }
}

#[test]
fn content_is_in_chunks() {
    let bytes = [record(6, b"A: b\n\nhello"), record(6, b" world"), ended(0)].concat();
    let (plain, over, rests) = received("GET", &bytes, bytes.len());
    assert_eq!(
        plain,
        "HTTP/1.1 200 \r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    );
    assert_eq!((over, rests), (Ok(()), true));
}

#[test]
fn failures_are_told_apart() {
    let long = format!("X: {}\n", "y".repeat(60_000));
    let long = [record(6, long.as_bytes()), record(6, long.as_bytes())].concat();
    for (bytes, over) in [
        (ended(2), Over::Unprocessed),
        (ended(1), Over::Unprocessed),
        (ended(3), Over::Given),
        (ended(0), Over::Given),
        ([record(6, b"A: b\n\nx"), ended(2)].concat(), Over::Given),
        (
            [record(6, b"A: b"), ended(0)].concat(),
            Over::Malformed(Fault::NoHead),
        ),
        ([record(6, b"A: b"), ended(2)].concat(), Over::Given),
        (record(6, b"no head\n\n"), Over::Malformed(Fault::Field)),
        (
            b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
            Over::Malformed(Fault::Version(b'H')),
        ),
        (long, Over::Malformed(Fault::LongHead)),
    ] {
        for piece in [1_000, bytes.len()] {
            let (_, got, rests) = received("GET", &bytes, piece);
            assert_eq!((got, rests && got == Ok(())), (Err(over), false));
        }
    }
}

#[test]
fn error_messages_have_a_bound_and_are_one_text() {
    let mut translator = translator();
    translator
        .receive(&record(7, b"PHP Warning:  a\nb"), &mut Vec::new())
        .unwrap();
    assert_eq!(translator.take_errors(false), None, "the request is under way");
    let flood = record(7, &[b'x'; 60_000]);
    for _ in 0..100 {
        translator.receive(&flood, &mut Vec::new()).unwrap();
    }
    assert!(translator.held() < 2 * ERRORS_MAX + 4_096);
    let text = translator.take_errors(true).unwrap();
    assert!(text.starts_with("PHP Warning:  a\\nbxxx"), "{text}");
    let more = 17 + 100 * 60_000 - ERRORS_MAX;
    assert!(
        text.ends_with(&format!("... ({more} bytes more)")),
        "{}",
        &text[text.len() - 60..]
    );
    assert!(text.len() < 2 * ERRORS_MAX);
    assert_eq!(translator.take_errors(true), None, "it is logged once");
}

#[test]
fn a_connection_serves_one_request_after_another() {
    let mut translator = translator();
    let call = Arc::new(Call {
        pairs: Vec::new(),
        keeps: false,
    });
    for _ in 0..3 {
        translator.begin(&call);
        let (mut out, mut plain) = (Vec::new(), Vec::new());
        translator
            .send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n", &mut out)
            .unwrap();
        let heard = heard(&out);
        assert_eq!((heard.keeps, &*heard.params["REQUEST_URI"]), (false, "/x"));
        let bytes = [record(6, b"A: b\n\n"), ended(0)].concat();
        translator.receive(&bytes, &mut plain).unwrap();
        assert!(translator.is_at_rest() && plain.starts_with(b"HTTP/1.1 200 "));
    }
    translator.rest();
    assert!(!translator.is_at_rest(), "nothing was asked");
}

proptest! {
    /// What an exchange gets does not depend on the pieces, whatever the bytes are.
    #[test]
    fn pieces_do_not_matter(content in prop::collection::vec(any::<u8>(), 0..200), piece in 1..50_usize, kind in 5..9_u8) {
        let bytes = [record(6, b"A: b\n\n"), record(kind, &content), ended(0)].concat();
        let run = |piece: usize| {
            let (mut translator, mut plain) = (translator(), Vec::new());
            translator.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut Vec::new()).unwrap();
            let over = bytes.chunks(piece).try_for_each(|part| translator.receive(part, &mut plain));
            // Chunks differ: their content does not.
            let mut client = http1::client::Connection::new();
            client.begin_request(http_semantics::method::Method::Get, true, &OWN).unwrap();
            client.end_request().unwrap();
            let (mut used, mut got) = (0, Vec::new());
            loop {
                let mut slots = Slots::new();
                match client.receive(&plain[used..], &mut slots, &OWN).unwrap() {
                    http1::client::Step::Body { data, used: more } => {
                        got.extend_from_slice(data);
                        used += more;
                    }
                    http1::client::Step::Response { used: more, .. } => used += more,
                    http1::client::Step::End { .. } => break got.push(0),
                    _ => break,
                }
            }
            (got, over, translator.is_at_rest(), translator.take_errors(true))
        };
        prop_assert_eq!(run(piece), run(bytes.len()));
    }
}
