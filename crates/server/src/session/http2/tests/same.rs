//! Answers are those of HTTP/1: status, fields and content.

use super::peer::Peer;
use super::under_way::folder;
use crate::config::{Config, Tilde};
use crate::session::rig::{Rig, answers, cuts, file};

/// Method, path, fields.
type Request = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// Requests of every kind.
const REQUESTS: &[Request] = &[
    ("GET", "/", &[]),
    ("GET", "/digits.bin", &[]),
    ("HEAD", "/digits.bin", &[]),
    ("GET", "/small.png", &[]),
    ("GET", "/page.png", &[]),
    ("GET", "/big.png", &[]),
    ("HEAD", "/big.png", &[]),
    ("GET", "/empty.bin", &[]),
    ("GET", "/text.txt", &[("accept-encoding", "gzip")]),
    ("GET", "/text.txt", &[("accept-encoding", "br, gzip;q=0.5")]),
    ("GET", "/text.txt", &[("accept-encoding", "identity;q=0")]),
    ("GET", "/digits.bin", &[("accept-encoding", "identity;q=0")]),
    ("GET", "/dir", &[]),
    ("GET", "/dir?a=b", &[]),
    ("GET", "/dir/", &[]),
    ("GET", "/bare/", &[]),
    ("HEAD", "/bare/", &[]),
    ("GET", "/bare/", &[("accept", "application/json")]),
    ("HEAD", "/bare/", &[("accept", "application/json")]),
    (
        "GET",
        "/bare/",
        &[("accept", "application/json"), ("accept-encoding", "gzip")],
    ),
    (
        "GET",
        "/bare/",
        &[("accept", "text/html;q=0.2, application/json;q=0.8")],
    ),
    (
        "GET",
        "/bare/",
        &[("accept", "application/json"), ("if-none-match", "*")],
    ),
    ("GET", "/dir/", &[("accept", "application/json")]),
    ("GET", "/nothing", &[]),
    ("HEAD", "/nothing", &[]),
    ("GET", "/errors/404.html", &[]),
    ("GET", "/%2e%2e/etc", &[]),
    ("GET", "/%zz", &[]),
    ("GET", "/digits.bin", &[("range", "bytes=2-5")]),
    ("GET", "/digits.bin", &[("range", "bytes=-3")]),
    ("GET", "/digits.bin", &[("range", "bytes=20-")]),
    ("GET", "/digits.bin", &[("range", "bytes=9-2")]),
    (
        "GET",
        "/digits.bin",
        &[("range", "bytes=0-1"), ("if-range", "\"x\"")],
    ),
    ("GET", "/digits.bin", &[("if-none-match", "*")]),
    ("GET", "/digits.bin", &[("if-match", "\"x\"")]),
    (
        "GET",
        "/digits.bin",
        &[("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")],
    ),
    (
        "GET",
        "/digits.bin",
        &[("if-unmodified-since", "Sun, 06 Nov 1994 08:49:36 GMT")],
    ),
    ("OPTIONS", "/", &[]),
    ("OPTIONS", "*", &[]),
    ("POST", "/", &[]),
    ("DELETE", "/digits.bin", &[]),
    ("BREW", "/", &[]),
    ("GET", "/healthz", &[]),
    ("GET", "/old/page?x=1", &[]),
];

fn configure(config: &mut Config) {
    config.health = true;
    config.listing = true;
    config
        .error_pages
        .insert("404", "/errors/404.html")
        .expect("a valid page");
    let rules = "redirect = [{ from = '/old/*', to = '/new/*' }]\nheader = ['X-A: b', 'Set-Cookie: c=d']\n";
    let parsed = Config::from_toml(rules, "w.toml").expect("valid");
    (config.redirect, config.header) = (parsed.redirect, parsed.header);
}

/// The answer as HTTP/1 gives it: status, fields without `Connection`, content.
fn first_version(
    rig: &mut Rig,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
) -> (u16, Vec<(String, String)>, Vec<u8>) {
    rig.reconnect();
    let lines: String = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    rig.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes());
    let mut all = answers(&rig.out, |_| method == "HEAD");
    assert_eq!(all.len(), 1, "{method} {path}");
    let answer = all.remove(0);
    let fields = answer
        .head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "));
    let fields = fields
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .filter(|(name, _)| name != "connection");
    (answer.status, fields.collect(), answer.body)
}

/// Compares the answers of two servers, one of which speaks HTTP/1. Returns the statuses, of both rounds.
fn compare(old: &mut Rig, new: &mut Peer, requests: &[Request]) -> Vec<[u16; 2]> {
    let mut statuses = Vec::new();
    for &(method, path, fields) in requests {
        // Twice: once found by a job, once in the cache.
        statuses.push([0, 1].map(|round| {
            let (status, mut want, body) = first_version(old, method, path, fields);
            let got = new.get(method, path, fields);
            let mut have = got.fields.clone();
            have.sort();
            want.sort();
            let told = format!("{method} {path} {fields:?}, round {round}");
            assert_eq!((got.status(), &have), (status, &want), "{told}");
            assert!(got.body == body, "{told}");
            assert!(got.has_ended && got.reset.is_none(), "{told}");
            status
        }));
    }
    assert_eq!(new.rig.server.totals().http2_requests, 2 * requests.len() as u64);
    statuses
}

#[test]
fn every_answer_is_that_of_http_1() {
    compare(&mut Rig::with(configure), &mut Peer::with(configure), REQUESTS);
}

/// Requests about which limits and rules for pages of other origins decide, and the statuses of the two rounds.
const CONDITIONAL: &[(Request, [u16; 2])] = &[
    (("GET", "/digits.bin", &[]), [200, 200]),
    (
        ("GET", "/digits.bin", &[("origin", "https://a.test")]),
        [200, 200],
    ),
    (
        (
            "GET",
            "/digits.bin",
            &[("origin", "https://a.test"), ("cookie", "beta=1")],
        ),
        [200, 200],
    ),
    (("GET", "/digits.bin", &[("user-agent", "Bot")]), [200, 429]),
    (("GET", "/digits.bin", &[("user-agent", "Bot")]), [429, 429]),
    (("GET", "/digits.bin", &[]), [200, 200]),
    (
        (
            "OPTIONS",
            "/digits.bin",
            &[
                ("origin", "https://a.test"),
                ("access-control-request-method", "PUT"),
            ],
        ),
        [204, 204],
    ),
    (
        (
            "OPTIONS",
            "/digits.bin",
            &[
                ("origin", "https://a.test"),
                ("access-control-request-method", "GET"),
            ],
        ),
        [204, 204],
    ),
];

#[test]
fn conditions_of_limits_and_of_rules_for_other_origins_are_those_of_http_1() {
    let rules = "[[limit]]\nrate = '1/h'\nif = 'header User-Agent~bot*'\n\
        [[cors]]\norigins = ['https://a.test']\nif = 'cookie beta'\n\
        [[cors]]\norigins = ['*']\nmethods = ['PUT']\nif = 'header Access-Control-Request-Method=PUT'\n";
    let configure = |config: &mut Config| {
        let rules = Config::from_toml(rules, "w.toml").unwrap();
        (config.limit, config.cors) = (rules.limit, rules.cors);
    };
    let requests: Vec<Request> = CONDITIONAL.iter().map(|(request, _)| *request).collect();
    let mut new = Peer::with(configure);
    let statuses = compare(&mut Rig::with(configure), &mut new, &requests);
    assert!(
        statuses
            .iter()
            .eq(CONDITIONAL.iter().map(|(_, statuses)| statuses)),
        "{statuses:?}"
    );
    let allowed = requests.iter().map(|&(method, path, fields)| {
        let got = new.get(method, path, fields);
        got.field("access-control-allow-origin").map(str::to_owned)
    });
    let expected = [
        None,
        None,
        Some("https://a.test"),
        None,
        None,
        None,
        Some("*"),
        None,
    ];
    assert!(allowed.eq(expected.map(|origin| origin.map(str::to_owned))));
}

/// Requests for the pages of logins.
const LOGINS: &[Request] = &[
    ("GET", "/~alice/", &[]),
    ("HEAD", "/~alice/", &[]),
    ("GET", "/~alice", &[]),
    ("GET", "/~alice/?a=b", &[]),
    ("GET", "/~alice/digits.bin", &[]),
    ("GET", "/~alice/digits.bin", &[("range", "bytes=2-5")]),
    ("GET", "/~alice/docs/", &[]),
    ("GET", "/~alice/docs/", &[("accept", "application/json")]),
    (
        "GET",
        "/~alice/docs/",
        &[("accept", "application/json"), ("accept-encoding", "gzip")],
    ),
    ("GET", "/~alice/docs", &[]),
    ("GET", "/~alice/nothing", &[]),
    ("GET", "/~alice/../mail.txt", &[]),
    ("POST", "/~alice/", &[]),
    ("GET", "/~bare/", &[]),
    ("GET", "/~gone/", &[]),
    ("GET", "/~nobody/", &[]),
    ("HEAD", "/~nobody/", &[]),
    ("GET", "/~/", &[]),
    ("GET", "/%7Ealice/", &[]),
    ("GET", "/", &[]),
    ("GET", "/", &[("accept", "application/json")]),
];

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of files writes some")]
fn pages_of_logins_are_those_of_http_1() {
    let tree = tempfile::tempdir().unwrap();
    for (path, content) in [
        ("www/a.txt", "of the root"),
        ("home/alice/public_html/index.html", "<p>Alice."),
        ("home/alice/public_html/digits.bin", "0123456789"),
        ("home/alice/public_html/docs/a.txt", "a"),
        ("home/alice/mail.txt", "secret"),
        ("home/bare/mail.txt", "secret"),
        ("home/gone/public_html/index.html", "gone"),
    ] {
        let path = tree.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let home = |login: &str| tree.path().join("home").join(login);
    let logins = ["alice", "bare", "gone"].map(|login| (login.to_owned(), home(login)));
    let configure = |config: &mut Config| {
        config.listing = true;
        config.tilde = Some(Tilde {
            disabled: vec!["gone".to_owned()],
            users: Some(logins.clone().into()),
            ..Tilde::default()
        });
    };
    let mut old = folder(&tree.path().join("www"), configure).rig;
    let mut new = folder(&tree.path().join("www"), configure);
    let statuses = compare(&mut old, &mut new, LOGINS);
    let of = |path: &str| {
        let at = LOGINS.iter().position(|(_, known, _)| *known == path);
        statuses[at.expect("one of them")]
    };
    assert_eq!((of("/~alice/"), of("/~alice/docs/")), ([200; 2], [200; 2]));
    assert_eq!(
        (of("/~alice"), of("/~nobody/"), of("/~gone/")),
        ([301; 2], [404; 2], [404; 2])
    );
}

#[test]
fn several_ranges_are_those_of_http_1_but_for_the_boundary() {
    let mut peer = Peer::new();
    let got = peer.get("GET", "/big.png", &[("range", "bytes=0-9,50000-89999,-7")]);
    assert_eq!(got.status(), 206);
    let kind = got.field("content-type").unwrap();
    let boundary = kind.split_once("boundary=").unwrap().1.trim_matches('"');
    assert_eq!(got.field("content-length"), Some(&*got.body.len().to_string()));
    let big = file("/big.png");
    for (from, to) in [(0, 9), (50_000, 89_999), (99_993, 99_999)] {
        let head = format!("\r\nContent-Range: bytes {from}-{to}/100000\r\n\r\n");
        let at = got
            .body
            .windows(head.len())
            .position(|w| w == head.as_bytes())
            .expect("a part");
        let from_here = &got.body[at + head.len()..];
        assert!(from_here.starts_with(&big[from..=to]));
        let end = format!("\r\n--{boundary}");
        assert!(from_here[to + 1 - from..].starts_with(end.as_bytes()));
    }
}

#[test]
fn answers_do_not_depend_on_how_the_input_is_split() {
    let script = |peer: &mut Peer| {
        let paths = ["/digits.bin", "/big.png", "/nothing", "/text.txt"];
        let ask = |path: &str| peer.ask("GET", path, &[("accept-encoding", "gzip")], true).1;
        paths.map(ask).concat()
    };
    let mut first = Peer::new();
    let input = script(&mut first);
    first.send(&input);
    for pieces in cuts(&input) {
        let mut peer = Peer::new();
        assert_eq!(script(&mut peer), input);
        for piece in pieces {
            peer.rig.send(piece);
        }
        peer.take();
        assert!(peer.got == first.got);
    }
}

#[test]
fn a_client_that_begins_with_http_2_gets_it_only_if_cleartext_may() {
    for (http2, speaks) in [
        (crate::config::Http2::All, true),
        (crate::config::Http2::Tls, false),
    ] {
        for split in [0, 1, 16, 20] {
            let mut rig = Rig::with(|config| config.http2 = http2);
            rig.send(&::http2::frame::PREFACE[..split]);
            rig.send(&::http2::frame::PREFACE[split..]);
            match speaks {
                true => assert_eq!(&rig.out[3..4], [4], "SETTINGS"),
                false => assert!(rig.out.starts_with(b"HTTP/1.1 505 "), "{}", rig.text()),
            }
        }
    }
}

#[test]
fn a_request_that_names_no_host_is_told() {
    let mut peer = Peer::new();
    let mut head = Vec::new();
    for (name, value) in [(":method", "GET"), (":scheme", "https"), (":path", "/")] {
        ::http2::hpack::block::field(name.as_bytes(), value.as_bytes(), &mut head);
    }
    let mut up = Vec::new();
    let priority = ::http2::priority::Priority::DEFAULT;
    let stream = peer.http.request(&head, true, false, priority, &mut up).unwrap();
    peer.send(&up);
    let got = &peer.got[&stream];
    assert_eq!(got.status(), 400);
    assert!(String::from_utf8_lossy(&got.body).contains("names no host"));
}

#[test]
fn a_log_line_has_version_stream_and_bytes() {
    let mut peer = Peer::new();
    peer.get("GET", "/digits.bin", &[("user-agent", "me")]);
    peer.get("GET", "/big.png", &[]);
    let log = peer.rig.log();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert_eq!(lines[0]["version"], "HTTP/2.0");
    assert_eq!(lines[0]["stream"], 1);
    assert_eq!(lines[0]["user_agent"], "me");
    assert_eq!(lines[0]["body_bytes"], 10);
    assert_eq!(lines[1]["body_bytes"], 100_000);
    assert_eq!(lines[1].get("aborted"), None);
    let sent = peer.rig.server.totals().bytes_sent;
    assert_eq!(sent, peer.rig.out.len() as u64);
}
