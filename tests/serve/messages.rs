//! Malformed and odd requests over a real socket: refused with a status, answered, never guessed;
//! and the server is as well afterwards as before.

use crate::serve::on_each_back_end;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tree::Tree;
use crate::serve::wire::{End, head};
use std::path::Path;

fn tree() -> Tree {
    Tree::with(&[("a.txt", "a"), ("index.html", "<p>index")])
}

/// What must be refused, why, and with which status. Each stands for a way to smuggle a request past a
/// proxy, or to confuse one (RFC 9112 sections 2.2, 3, 5, 6, 11).
pub(crate) const REFUSED: &[(&str, &str, u16)] = &[
    ("no version number", "GET /a.txt HTTP/1\r\nHost: x\r\n\r\n", 400),
    ("no such version", "GET /a.txt HTTP/3.0\r\nHost: x\r\n\r\n", 505),
    ("no HTTP", "GET /a.txt SIP/2.0\r\nHost: x\r\n\r\n", 400),
    (
        "lower case version",
        "GET /a.txt http/1.1\r\nHost: x\r\n\r\n",
        400,
    ),
    ("a space and no version", "GET /a.txt \r\n", 400),
    (
        "a method of 33 letters",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG /a.txt HTTP/1.1\r\nHost: x\r\n\r\n",
        501,
    ),
    (
        "a length beyond counting",
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775808\r\n\r\n",
        413,
    ),
    (
        "a chunk beyond counting",
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nabc",
        413,
    ),
    ("two spaces", "GET  /a.txt HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (
        "a space in the target",
        "GET /a .txt HTTP/1.1\r\nHost: x\r\n\r\n",
        400,
    ),
    (
        "a tab in the request line",
        "GET\t/a.txt HTTP/1.1\r\nHost: x\r\n\r\n",
        400,
    ),
    ("no host", "GET /a.txt HTTP/1.1\r\n\r\n", 400),
    (
        "two hosts",
        "GET /a.txt HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        400,
    ),
    (
        "no IPv6 address",
        "GET /a.txt HTTP/1.1\r\nHost: [::g]\r\n\r\n",
        400,
    ),
    ("a bad host", "GET /a.txt HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    (
        "space before colon",
        "GET /a.txt HTTP/1.1\r\nHost : x\r\n\r\n",
        400,
    ),
    (
        "no colon",
        "GET /a.txt HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n",
        400,
    ),
    (
        "empty field name",
        "GET /a.txt HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n",
        400,
    ),
    (
        "folded line",
        "GET /a.txt HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
        400,
    ),
    (
        "five empty lines first",
        "\r\n\r\n\r\n\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n",
        400,
    ),
    (
        "space before the first field",
        "GET /a.txt HTTP/1.1\r\n Host: x\r\n\r\n",
        400,
    ),
    (
        "bare CR",
        "GET /a.txt HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n",
        400,
    ),
    (
        "NUL in a value",
        "GET /a.txt HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n",
        400,
    ),
    (
        "NUL in the target",
        "GET /a\0.txt HTTP/1.1\r\nHost: x\r\n\r\n",
        400,
    ),
    (
        "length and chunks",
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "two lengths",
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        400,
    ),
    (
        "a list of lengths",
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 4, 5\r\n\r\nabcde",
        400,
    ),
    (
        "a signed length",
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: +4\r\n\r\nabcd",
        400,
    ),
    (
        "a negative length",
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        400,
    ),
    (
        "a hexadecimal length",
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 0x4\r\n\r\nabcd",
        400,
    ),
    (
        "an empty length",
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: \r\n\r\n",
        400,
    ),
    (
        "an unknown coding",
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: cow\r\n\r\n",
        501,
    ),
    (
        "chunked is not last",
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "chunked twice",
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "chunks of the old version",
        "POST /a.txt HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    ("a fragment", "GET /a.txt#top HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (
        "the start of TLS",
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\r\n\r\n",
        400,
    ),
];

fn what_is_ambiguous_is_refused(strategy: Strategy) {
    let tree = tree();
    let server = Server::of(strategy, tree.path());
    for (why, request, status) in REFUSED {
        let mut connection = server.connect();
        // What follows must not be taken for a request: the server no longer knows where it begins.
        connection.send(format!("{request}{}", head("GET", "/a.txt", &[])));
        let answer = connection.receive("POST");
        assert_eq!(answer.status, *status, "{why}");
        connection.finish();
        let (rest, end) = connection.rest();
        assert!(
            rest.is_empty(),
            "{why}: a second answer: {}",
            String::from_utf8_lossy(&rest)
        );
        assert_eq!(end, End::Closed, "{why}");
    }
    assert_eq!(server.connect().get("/a.txt").text(), "a");
}

fn a_bad_target_is_refused_without_closing(strategy: Strategy) {
    let tree = tree();
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    for path in ["/%zz", "/a%", "/a%4", "/%00"] {
        let answer = connection.get(path);
        assert_eq!((answer.status, answer.closes()), (400, false), "{path}");
    }
    assert_eq!(connection.get("/a.txt").text(), "a");
}

fn what_is_odd_but_clear_is_answered(strategy: Strategy) {
    let tree = tree();
    let server = Server::of(strategy, tree.path());
    for (why, request) in [
        (
            "an empty line first",
            "\r\nGET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n",
        ),
        (
            "four empty lines first",
            "\r\n\r\n\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n",
        ),
        ("no space after colon", "GET /a.txt HTTP/1.1\r\nHost:x\r\n\r\n"),
        (
            "space around the value",
            "GET /a.txt HTTP/1.1\r\nHost: \t x \t \r\n\r\n",
        ),
        ("an empty value", "GET /a.txt HTTP/1.1\r\nHost: x\r\nA:\r\n\r\n"),
        ("an empty host", "GET /a.txt HTTP/1.1\r\nHost:\r\n\r\n"),
        (
            "a host with a port",
            "GET /a.txt HTTP/1.1\r\nHost: x:8080\r\n\r\n",
        ),
        (
            "an address as host",
            "GET /a.txt HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
        ),
        (
            "an obsolete byte in a value",
            "GET /a.txt HTTP/1.1\r\nHost: x\r\nA: caf\u{e9}\r\n\r\n",
        ),
        (
            "lower case names",
            "GET /a.txt HTTP/1.1\r\nhost: x\r\nconnection: KEEP-ALIVE\r\n\r\n",
        ),
        ("an empty query", "GET /a.txt? HTTP/1.1\r\nHost: x\r\n\r\n"),
        (
            "a length of nothing",
            "GET /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        ),
    ] {
        let mut connection = server.connect();
        connection.send(request);
        let answer = connection.receive("GET");
        assert_eq!((answer.status, answer.text().as_str()), (200, "a"), "{why}");
    }
}

/// A request of HTTP/0.9, and all that comes back.
pub(crate) fn first_version(server: &Server, path: &str) -> String {
    let mut connection = server.connect();
    connection.send(format!("GET {path}\r\n"));
    connection.finish();
    let (answer, end) = connection.rest();
    assert_eq!(end, End::Closed);
    String::from_utf8_lossy(&answer).into_owned()
}

fn the_first_version_is_answered_only_if_that_is_said(strategy: Strategy) {
    let tree = tree();
    let refused = |server: &Server| first_version(server, "/a.txt").starts_with("HTTP/1.1 400 ");
    assert!(refused(&Server::of(strategy, tree.path())));
    let launch = Launch::new(strategy).root(tree.path());
    let server = launch.args(["--http09"]).start();
    assert_eq!(first_version(&server, "/a.txt"), "a");
    // A key that can be reloaded.
    let config = tree.write("weir.toml", "http09 = true\n");
    let launch = Launch::new(strategy).root(tree.path());
    let server = launch.args(["--config".as_ref(), config.as_os_str()]).start();
    assert_eq!(first_version(&server, "/a.txt"), "a");
    tree.replace("weir.toml", "http09 = false\n");
    server.signal("HUP");
    eventually("the reload", || refused(&server).then_some(()));
}

/// It names no host, by which the live page tells who asks from this machine.
fn nothing_of_the_server_is_shown_to_the_first_version(strategy: Strategy) {
    let tree = tree();
    for live in ["--live", "--live=all"] {
        let launch = Launch::new(strategy).root(tree.path());
        let server = launch.args(["--http09", "--health", live]).start();
        for path in ["/.weir/", "/.weir/live.json", "/.weir/metrics", "/healthz"] {
            let shown = first_version(&server, path);
            assert!(shown.contains("404"), "{path}: {shown}");
            for word in ["requests", "weir_", "alive"] {
                assert!(!shown.contains(word), "{path}: {shown}");
            }
        }
        assert_eq!(first_version(&server, "/a.txt"), "a");
    }
}

/// The conformance vectors of `testdata/http`, those that say what a server sees, as far as a client can
/// tell: how many answers come, and with which status a fault is refused.
fn the_vectors_hold_over_a_socket(strategy: Strategy) {
    let tree = tree();
    let server = Server::of(strategy, tree.path());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/http");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("testdata/http") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a file of vectors");
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        for section in text.split("\n## ").skip(1) {
            // Blocks with options are about a server that is configured otherwise.
            let Some((_, rest)) = section.split_once("\n```server\n") else {
                continue;
            };
            let Some((message, rest)) = rest.split_once("\n```\n```events\n") else {
                continue;
            };
            let Some((events, _)) = rest.split_once("\n```") else {
                continue;
            };
            let title = format!("{file}: {}", section.lines().next().unwrap_or_default());
            vector(&server, &title, &unescape(message), events);
            count += 1;
        }
    }
    assert!(count >= 100, "{count} vectors");
}

fn vector(server: &Server, title: &str, message: &[u8], events: &str) {
    let words = |line: &'static str| {
        events
            .lines()
            .filter(move |event| event.split(' ').next() == Some(line))
    };
    let methods: Vec<&str> = words("request")
        .filter_map(|event| event.split(' ').nth(1))
        .collect();
    let answered = words("response").count();
    let fault: Option<u16> = words("fault")
        .next()
        .and_then(|event| event.rsplit(' ').next()?.parse().ok());
    let mut connection = server.connect();
    connection.try_send(message);
    connection.finish();
    let mut statuses = Vec::new();
    loop {
        let method = methods.get(statuses.len()).copied().unwrap_or("GET");
        match connection.try_receive(method) {
            None => break,
            Some(answer) if answer.status / 100 == 1 => {}
            Some(answer) => statuses.push(answer.status),
        }
    }
    // A message that breaks off is answered, too (RFC 9112 section 8 leaves it open).
    let breaks_off = words("eof").any(|event| event.contains("fault"));
    let wanted = answered + usize::from(fault.is_some()) + usize::from(breaks_off);
    assert_eq!(statuses.len(), wanted, "{title}: {statuses:?}");
    // A fault inside a body may come after the request was answered: then that answer is the last.
    if let Some(status) = fault
        && methods.len() == answered
    {
        assert_eq!(statuses.last(), Some(&status), "{title}: {statuses:?}");
    }
}

/// The bytes a vector's message stands for: line ends mean nothing, escapes are bytes, `{a*300}` repeats.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'\n' => {}
            b'\\' => {
                let (&kind, tail) = rest.split_first().expect("an escape");
                rest = tail;
                bytes.push(match kind {
                    b'r' => b'\r',
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'0' => 0,
                    b'x' => {
                        let digits = std::str::from_utf8(&rest[..2]).expect("digits");
                        rest = &rest[2..];
                        u8::from_str_radix(digits, 16).expect("two hexadecimal digits")
                    }
                    other => other,
                });
            }
            b'{' if rest.get(1) == Some(&b'*') => {
                let end = rest
                    .iter()
                    .position(|byte| *byte == b'}')
                    .expect("the end of a repetition");
                let times: usize = std::str::from_utf8(&rest[2..end])
                    .ok()
                    .and_then(|n| n.parse().ok())
                    .expect("a number");
                bytes.extend(std::iter::repeat_n(rest[0], times));
                rest = &rest[end + 1..];
            }
            other => bytes.push(other),
        }
    }
    bytes
}

fn garbage_harms_nobody(strategy: Strategy) {
    let tree = tree();
    let server = Server::of(strategy, tree.path());
    let seed = 0x5eed_u64;
    println!("seed {seed}");
    let mut state = seed;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let valid = head(
        "GET",
        "/a.txt",
        &[("Range", "bytes=0-0,-1"), ("Accept-Encoding", "gzip;q=0.5, br")],
    );
    for round in 0..150 {
        let bytes: Vec<u8> = if round % 2 == 0 {
            // Anything at all.
            (0..next() % 2000).map(|_| (next() >> 32) as u8).collect()
        } else {
            // Something nearly right.
            let mut bytes = valid.clone().into_bytes();
            for _ in 0..=next() % 4 {
                let at = next() as usize % bytes.len();
                bytes[at] = (next() >> 24) as u8;
            }
            bytes
        };
        let mut connection = server.connect();
        connection.try_send(&bytes);
        connection.try_send("\r\n\r\n");
        connection.finish();
        let (answer, _) = connection.rest();
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 "),
            "{bytes:?} got {:?}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert_eq!(server.connect().get("/a.txt").text(), "a");
}

on_each_back_end!(
    what_is_ambiguous_is_refused,
    a_bad_target_is_refused_without_closing,
    what_is_odd_but_clear_is_answered,
    the_first_version_is_answered_only_if_that_is_said,
    nothing_of_the_server_is_shown_to_the_first_version,
    the_vectors_hold_over_a_socket,
    garbage_harms_nobody,
);
