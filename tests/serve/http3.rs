//! HTTP/3 as a client sees it: answers, many requests at once, stops, floods, programs people use.
//!
//! Its UDP sockets are served by threads of their own, the same with every strategy of threads, and in each worker process of
//! `process-loops`.

mod abuse;
pub(crate) mod client;
mod handover;
mod idle;
mod processes;
mod qlog;
mod unasked;

use crate::serve::access::USERS;
use crate::serve::clients::run;
use crate::serve::files::noise;
use crate::serve::process::{Launch, Server, Strategy, eventually, signal, within};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::upgrade::{ENDING, Line, pid_of};
use crate::serve::wire::head;
use client::Client;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

fn site(files: &[(&str, &[u8])]) -> Pairs {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    for (name, content) in files {
        pairs.tree.write(&format!("site/{name}"), content);
    }
    pairs
}

fn launch(strategy: Strategy, pairs: &Pairs, more: &[&str]) -> Server {
    let launch: Launch = pairs.launch(strategy, &["a"]);
    launch.args(["--http3", "--live=all"]).args(more).start()
}

fn open(server: &Server, pairs: &Pairs) -> Client {
    Client::open(server.address, &pairs.client(), "a.test")
}

fn many_requests_at_once_are_answered(strategy: Strategy) {
    let large = noise(20 << 20);
    let small = noise(3_000);
    let pairs = site(&[("large.bin", &large), ("small.bin", &small), ("a.txt", b"a")]);
    let server = launch(strategy, &pairs, &[]);
    let mut client = open(&server, &pairs);
    let first = client.ask("/large.bin");
    let others: Vec<u64> = (0..99)
        .map(|n| client.ask(["/small.bin", "/a.txt", "/missing"][n % 3]))
        .collect();
    assert!(client.run(Client::is_done), "{:?}", client.closed);
    assert!(client.got[&first].body == large, "20 MiB arrive whole");
    for (n, stream) in others.iter().enumerate() {
        let got = &client.got[stream];
        match n % 3 {
            0 => assert!(got.status == 200 && got.body == small),
            1 => assert_eq!((got.status, &got.body[..]), (200, &b"a"[..])),
            _ => assert_eq!(got.status, 404),
        }
    }
    // Over the same connection again, after it was idle.
    let again = client.ask("/a.txt");
    assert!(client.run(Client::is_done));
    assert_eq!(client.got[&again].body, b"a");
}

/// `--request-micros` is for streams, too.
#[test]
fn each_request_takes_the_time_that_was_set() {
    let pairs = site(&[("a.txt", b"a")]);
    let server = launch(Strategy::LOOPS, &pairs, &["--request-micros", "200000"]);
    let mut client = open(&server, &pairs);
    let start = Instant::now();
    let asked = [client.ask("/a.txt"), client.ask("/a.txt")];
    assert!(client.run(Client::is_done), "{:?}", client.closed);
    assert!(start.elapsed() >= Duration::from_millis(400));
    for stream in asked {
        assert_eq!(client.got[&stream].body, b"a");
    }
}

fn comparable(fields: impl Iterator<Item = String>) -> Vec<String> {
    let own = [":status", "date:", "connection:", "alt-svc:", "keep-alive:"];
    let mut fields: Vec<String> = fields
        .filter(|line| !own.iter().any(|name| line.starts_with(name)))
        .collect();
    fields.sort_unstable();
    fields
}

#[test]
fn answers_are_those_of_http1() {
    let page = "<!DOCTYPE html><p>".to_owned() + &"hello ".repeat(2_000);
    let pairs = site(&[
        ("index.html", page.as_bytes()),
        ("folder/a.txt", b"0123456789"),
        ("large.bin", &noise(100_000)),
        ("empty", b""),
    ]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let mut http3 = open(&server, &pairs);
    let clear = Launch::new(Strategy::LOOPS)
        .root(&pairs.tree.join("site"))
        .start();
    let mut compared = 0;
    for (method, path, more) in [
        ("GET", "/", &[][..]),
        ("HEAD", "/", &[]),
        ("GET", "/", &[("accept-encoding", "gzip, br")]),
        ("GET", "/folder", &[]),
        ("GET", "/folder/a.txt", &[("range", "bytes=2-4")]),
        ("GET", "/folder/a.txt", &[("range", "bytes=0-0,3-4")]),
        ("GET", "/folder/a.txt", &[("range", "bytes=20-")]),
        ("GET", "/folder/a.txt", &[("if-none-match", "*")]),
        ("GET", "/folder/", &[]),
        ("GET", "/missing", &[]),
        ("GET", "/empty", &[]),
        ("GET", "/large.bin", &[]),
        ("GET", "/../escape", &[]),
        ("DELETE", "/", &[]),
        ("OPTIONS", "/", &[]),
    ] {
        let stream = http3.ask_as(method, path, more);
        assert!(http3.run(Client::is_done), "{method} {path}: {:?}", http3.closed);
        let got = &http3.got[&stream];
        let fields = got.fields.iter().map(|(name, value)| format!("{name}: {value}"));
        let (mut fields, mut body) = (comparable(fields), got.body.clone());
        let mut http1 = clear.connect();
        http1.send(head(method, path, more));
        let response = http1.receive(method);
        let lines = response.fields.iter();
        let lines = lines.map(|(name, value)| format!("{}: {value}", name.to_ascii_lowercase()));
        let (mut wanted, mut expected) = (comparable(lines), response.body.clone());
        if wanted.iter().any(|line| line.contains("multipart/byteranges")) {
            // Its boundary is drawn anew.
            for (fields, body) in [(&mut fields, &mut body), (&mut wanted, &mut expected)] {
                fields.retain(|line| !line.contains("boundary"));
                let length = body.len();
                *body = length.to_string().into_bytes();
            }
        }
        assert_eq!(
            (got.status, fields),
            (response.status, wanted),
            "{method} {path} {more:?}"
        );
        assert!(body == expected, "{method} {path} {more:?}");
        compared += 1;
    }
    assert_eq!(compared, 15);
}

#[test]
fn access_rules_hold() {
    let pairs = site(&[("admin/a.txt", b"admin"), ("nobody/a.txt", b"nobody")]);
    pairs.tree.write("users", USERS);
    let text = "[[access]]\npath = '/admin/*'\nhtpasswd = 'users'\n\
        [[access]]\npath = '/nobody/*'\ndeny = 'all'\n";
    let config = pairs.tree.write("weir.toml", text).display().to_string();
    let server = launch(Strategy::LOOPS, &pairs, &["--config", &config]);
    let mut client = open(&server, &pairs);
    // Of `ann`, whose password is `secret`, and with a wrong one.
    let right = [("authorization", "Basic YW5uOnNlY3JldA==")];
    let wrong = [("authorization", "Basic YW5uOndyb25n")];
    for _ in 0..2 {
        for (path, fields, status) in [
            ("/admin/a.txt", &[][..], 401),
            ("/%61dmin/a.txt", &[], 401),
            ("/admin/a.txt", &wrong, 401),
            ("/admin/a.txt", &right, 200),
            ("/nobody/a.txt", &right, 403),
            ("/x/../nobody/a.txt", &[], 403),
        ] {
            let stream = client.ask_as("GET", path, fields);
            assert!(client.run(Client::is_done), "{path}: {:?}", client.closed);
            assert_eq!(client.got[&stream].status, status, "{path} {fields:?}");
        }
    }
}

#[test]
fn other_protocols_name_it_and_metrics_count_it() {
    let mut pairs = site(&[("a.txt", b"a")]);
    let server = launch(
        Strategy::LOOPS,
        &pairs,
        &["--log-format", "json", "--access-log", "-"],
    );
    let mut secure = Secure::open(server.address, &pairs.client(), "a.test");
    let answer = secure.try_ask("/a.txt").expect("an answer");
    let wanted = format!("Alt-Svc: h3=\":{}\"; ma=86400\r\n", server.address.port());
    assert!(answer.contains(&wanted), "{answer}");
    let mut client = open(&server, &pairs);
    for _ in 0..3 {
        client.ask("/a.txt");
        assert!(client.run(Client::is_done));
    }
    for (name, wanted) in [("connections", 1.0), ("requests", 3.0), ("failed", 0.0)] {
        let counted = metric(&server, &pairs, &format!("weir_http3_{name}_total"));
        assert_eq!(counted, wanted, "{name}");
    }
    let page = secure.try_ask("/.weir/").expect("the live page");
    assert!(
        page.contains("data-key=\"totals.http3-requests\" data-rate>3<"),
        "{page}"
    );
    let live = secure.try_ask("/.weir/live.json").expect("its figures");
    let figure = |name: &str| {
        let (_, rest) = live.split_once(&format!("\"{name}\":")).expect("a figure");
        let digits = rest.trim_start().split(|one: char| !one.is_ascii_digit()).next();
        digits
            .and_then(|text| text.parse::<u64>().ok())
            .expect("a number")
    };
    assert_eq!((figure("http3-connections"), figure("http3-requests")), (1, 3));
    // Of the handshake at least two each way, and one for each request.
    assert!(figure("udp-received") >= 5 && figure("udp-sent") >= 5, "{live}");
    // Handshakes count as those of TLS over TCP: the connection above and the two of these metrics' own.
    let handshakes = metric(&server, &pairs, "weir_tls_handshakes_total");
    // A client that trusts nobody refuses the certificate.
    let roots = std::mem::replace(&mut pairs.roots, tls::rustls::RootCertStore::empty());
    let mut stranger = Client::new(server.address, &pairs.client(), "a.test");
    assert!(!stranger.run(|client| client.is_connected));
    pairs.roots = roots;
    let failed = eventually("the failed handshake", || {
        Some(metric(&server, &pairs, "weir_tls_failed_total")).filter(|&count| count > 0.0)
    });
    assert_eq!(failed, 1.0);
    drop(open(&server, &pairs));
    let after = metric(&server, &pairs, "weir_tls_handshakes_total");
    assert!(after - handshakes >= 2.0, "{handshakes} → {after}");
    // Requests for metrics, over HTTP/1.1, have response times, too.
    let times = || metric(&server, &pairs, "weir_answer_duration_seconds_count");
    let before = times();
    for _ in 0..20 {
        client.ask("/a.txt");
        assert!(client.run(Client::is_done));
    }
    // Read once: each reading counts itself.
    let counted = times() - before;
    assert!((20.0..24.0).contains(&counted), "{counted} response times");
    client.leave();
    let logged = eventually("log lines", || {
        let lines = server.stdout();
        let count = lines.lines().filter(|line| line.contains("HTTP/3.0")).count();
        (count == 23).then_some(lines)
    });
    let line = logged
        .lines()
        .find(|line| line.contains("HTTP/3.0"))
        .expect("counted above");
    assert!(line.contains("\"stream\":0"), "{line}");
}

fn a_stop_finishes_what_was_asked_for(strategy: Strategy) {
    let large = noise(8 << 20);
    let pairs = site(&[("large.bin", &large)]);
    let mut server = launch(strategy, &pairs, &[]);
    let mut client = open(&server, &pairs);
    let stream = client.ask("/large.bin");
    assert!(client.run(|client| client.got[&stream].body.len() > 100_000));
    server.signal("TERM");
    assert!(
        client.run(|client| client.is_leaving && client.is_done()),
        "{:?}",
        client.closed
    );
    assert!(client.got[&stream].body == large);
    assert!(!client.run(|_| false), "the connection ends");
    assert_eq!(server.wait(), 0);
}

/// One of two addresses has no UDP port to give.
#[test]
fn a_taken_port_ends_the_start_unless_http3_is_automatic() {
    let pairs = site(&[("a.txt", b"a")]);
    let taken = UdpSocket::bind("127.0.0.2:0").expect("a port");
    let place = taken.local_addr().expect("an address").to_string();
    let at = |http3: &str| {
        let launch: Launch = pairs.launch(Strategy::LOOPS, &["a"]);
        launch.args(["--listen", &place, http3])
    };
    for http3 in ["--http3", "--http3=true"] {
        let (code, said) = at(http3).fail();
        assert_ne!(code, 0);
        assert!(said.contains(&format!("cannot receive UDP at {place}")), "{said}");
    }
    let server = at("--http3=auto").start();
    let why = format!("serving without HTTP/3: cannot receive UDP at {place}");
    eventually("the reason", || server.stderr().contains(&why).then_some(()));
    let speak = |server: &Server| {
        let listeners = server.started["listeners"].as_array().expect("a list").clone();
        listeners.iter().filter(|one| one["http3"] == true).count()
    };
    let answer = |server: &Server| {
        let mut secure = Secure::open(server.address, &pairs.client(), "a.test");
        secure.try_ask("/a.txt").expect("an answer")
    };
    assert_eq!(speak(&server), 0);
    assert!(!answer(&server).contains("Alt-Svc"));
    drop(server);
    drop(taken);
    let server = at("--http3=auto").start();
    assert_eq!(speak(&server), 2);
    assert!(answer(&server).contains("Alt-Svc"));
    let mut client = open(&server, &pairs);
    let stream = client.ask("/a.txt");
    assert!(client.run(Client::is_done), "{:?}", client.closed);
    assert_eq!(client.got[&stream].body, b"a");
}

/// Where HTTP/3 is impossible from the start, `auto` says why and does without.
#[test]
fn automatic_http3_needs_tls_and_processes_for_many_connections() {
    let pairs = site(&[("a.txt", b"a")]);
    let launch: Launch = pairs.launch(Strategy::PROCESSES, &["a"]);
    let server = launch.args(["--http3=auto"]).start();
    let why = "serving without HTTP/3: a process of `processes`";
    eventually("the reason", || server.stderr().contains(why).then_some(()));
    assert_eq!(server.started["listeners"][0]["http3"], false);
    let clear = Launch::new(Strategy::LOOPS).args(["--http3=auto"]).start();
    assert_eq!(clear.started["listeners"][0]["http3"], false);
    assert!(!clear.stderr().contains("HTTP/3"), "{}", clear.stderr());
    let (code, said) = Launch::new(Strategy::LOOPS).args(["--http3=perhaps"]).fail();
    assert_ne!(code, 0);
    assert!(said.contains("`auto`"), "{said}");
}

#[test]
fn a_new_certificate_is_used_after_a_reload() {
    let mut pairs = site(&[("a.txt", b"a")]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let mut client = open(&server, &pairs);
    let stale = pairs.client();
    pairs.roots = tls::rustls::RootCertStore::empty();
    pairs.add("a", &["a.test"]);
    server.signal("HUP");
    eventually("the new certificate", || {
        let mut fresh = Client::new(server.address, &pairs.client(), "a.test");
        fresh.run(|client| client.is_connected).then_some(())
    });
    let mut old = Client::new(server.address, &stale, "a.test");
    assert!(
        !old.run(|client| client.is_connected),
        "the old certificate is gone"
    );
    let stream = client.ask("/a.txt");
    assert!(client.run(Client::is_done), "open connections stay");
    assert_eq!(client.got[&stream].body, b"a");
}

fn upgrades_lose_no_connection(strategy: Strategy) {
    let large = noise(20 << 20);
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &large)]);
    let server = launch(strategy, &pairs, &["--user", "nobody", "--grace", "90s"]);
    two_upgrades_lose_no_connection(server, &pairs, &large, |_| {});
}

/// A connection to the program of this number, counted from the one that was started first. One that came too early for it
/// leaves again.
fn open_at(program: usize, server: &Server, pairs: &Pairs) -> Client {
    eventually("the new one has the sockets", || {
        let mut fresh = Client::new(server.address, &pairs.client(), "a.test");
        if !fresh.run(|client| client.is_connected) || fresh.is_leaving {
            return None;
        }
        let asked = fresh.ask("/a.txt");
        let is_answered =
            fresh.run(|client| client.got[&asked].has_ended || client.got[&asked].reset.is_some());
        let [_, named, _] = fresh.named.expect("it has sent a request");
        if usize::from(named) != program {
            fresh.leave();
            return None;
        }
        assert!(is_answered, "{:?}", fresh.closed);
        assert_eq!(fresh.got[&asked].body, b"a");
        Some(fresh)
    })
}

/// Packets reach the process that has their connection, while those that followed receive from the sockets. `prepare` gets the
/// number of each upgrade before it, from 1. The site has `a.txt` and, in `large.bin`, 20 MiB.
fn two_upgrades_lose_no_connection(server: Server, pairs: &Pairs, large: &[u8], prepare: impl Fn(usize)) {
    let (mut idle, mut busy) = (open(&server, pairs), open(&server, pairs));
    let stream = busy.ask("/large.bin");
    let mut line = Line::of(server);
    let mut later = Vec::new();
    for upgrades in 1..=2 {
        let wanted = upgrades * (4 << 20);
        assert!(busy.run(|client| client.got[&stream].body.len() > wanted));
        prepare(upgrades);
        signal(line.newest, "USR2");
        line.newest = pid_of(&line.next_start());
        eventually("the old one leaves", || {
            let said = line.first.stderr();
            (said.matches("stopping:").count() == upgrades).then_some(())
        });
        assert!(!busy.got[&stream].has_ended);
        // Who comes now is the new one's.
        later.push(open_at(upgrades, &line.first, pairs));
    }
    assert!(busy.run(Client::is_done), "{:?}", busy.closed);
    assert!(busy.is_leaving);
    assert!(busy.got[&stream].body == large);
    // Those of both earlier processes are told to leave, the one of the last is not.
    let mut last = later.pop().expect("two");
    for client in [&mut idle, &mut busy, &mut later[0]] {
        client.run(|_| false);
        assert!(client.is_leaving, "{:?}", client.closed);
    }
    within(ENDING, "the old one ends", || line.first.has_ended());
    let again = last.ask("/a.txt");
    assert!(last.run(Client::is_done), "{:?}", last.closed);
    assert_eq!(last.got[&again].body, b"a");
    assert!(!last.is_leaving);
    last.leave();
    line.stop();
}

/// How many datagrams threads have handed to each other, and processes to each other.
fn handed_over(server: &Server, pairs: &Pairs) -> [f64; 2] {
    ["forwarded", "relayed"].map(|name| metric(server, pairs, &format!("weir_udp_{name}_total")))
}

/// Has a client's address change in the middle of an answer, as another NAT binding or another network does. The site has 4 MiB
/// in `large.bin`.
fn move_in_an_answer(server: &Server, pairs: &Pairs, large: &[u8]) {
    let mut client = open(server, pairs);
    let stream = client.ask("/large.bin");
    assert!(client.run(|client| client.got[&stream].body.len() > 100_000));
    client.socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    // What it sends next tells the server where it is.
    client.ask("/missing");
    assert!(client.run(Client::is_done), "{:?}", client.closed);
    assert!(client.got[&stream].body == large);
    client.leave();
}

/// Moves after which the kernel's choice by addresses surely has led to another worker: each ends where it began by a chance of
/// one half at most.
const MOVES: usize = 20;

/// The kernel finds the thread or process of a connection, wherever the client is.
fn a_connection_outlives_its_clients_address(strategy: Strategy) {
    let large = noise(4 << 20);
    let pairs = site(&[("large.bin", &large)]);
    let server = launch(strategy, &pairs, &[]);
    for _ in 0..MOVES {
        move_in_an_answer(&server, &pairs, &large);
    }
    assert_eq!(handed_over(&server, &pairs), [0.0, 0.0]);
    let [received, sent, dropped] = ["received", "sent", "dropped"]
        .map(|name| metric(&server, &pairs, &format!("weir_udp_{name}_total")));
    assert!(
        received > MOVES as f64 && sent > MOVES as f64,
        "{received} {sent}"
    );
    assert_eq!(dropped, 0.0);
}

/// Where the kernel chooses by addresses alone, whoever receives a datagram passes it on.
fn a_connection_outlives_its_clients_address_without_steering(strategy: Strategy) {
    let large = noise(4 << 20);
    let pairs = site(&[("large.bin", &large)]);
    let server = launch(strategy, &pairs, &["--http3-steering=false"]);
    let (mut moves, mut counted) = (0, [0.0; 2]);
    while moves < 8 || (counted == [0.0; 2] && moves < 2 * MOVES) {
        moves += 1;
        move_in_an_answer(&server, &pairs, &large);
        counted = handed_over(&server, &pairs);
    }
    // Threads hand packets to each other, and processes with one thread do so by relays.
    let by_relays = strategy.is_of_processes();
    assert_eq!(
        counted.map(|count| count > 0.0),
        [!by_relays, by_relays],
        "{counted:?}"
    );
    let [dropped, taken] =
        ["dropped", "taken"].map(|name| metric(&server, &pairs, &format!("weir_udp_{name}_total")));
    assert_eq!(dropped, 0.0);
    assert_eq!(by_relays, taken > 0.0);
}

/// The answer that is most urgent comes first, although it was asked for last and is the longest.
#[test]
fn an_urgent_answer_overtakes() {
    const LAST: &str = "none, and it can wait";
    type Ask = fn(&mut Client) -> u64;
    // More than can be under way when the last one is asked for.
    let (shorter, longer) = (noise(8 << 20), noise(12 << 20));
    let pairs = site(&[
        ("a.bin", &shorter),
        ("b.bin", &shorter),
        ("c.bin", &longer),
        ("style.css", &longer),
    ]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let ways: [(&str, Ask); 4] = [
        (LAST, |client| {
            client.ask_as("GET", "/c.bin", &[("priority", "u=7")])
        }),
        ("a field", |client| {
            client.ask_as("GET", "/c.bin", &[("priority", "u=0")])
        }),
        ("a frame", |client| {
            let stream = client.ask_as("GET", "/c.bin", &[("priority", "u=7")]);
            client.prioritize(stream, 0);
            stream
        }),
        ("the media type", |client| client.ask("/style.css")),
    ];
    for (way, ask_last) in ways {
        let mut client = open(&server, &pairs);
        let before = ["/a.bin", "/b.bin"].map(|path| client.ask(path));
        assert!(client.run(|client| {
            before
                .iter()
                .any(|stream| client.got[stream].body.len() > 100_000)
        }));
        let last = ask_last(&mut client);
        let is_over = |client: &Client, stream: u64| client.got[&stream].has_ended;
        assert!(
            client.run(|client| [before[0], before[1], last]
                .iter()
                .any(|&stream| is_over(client, stream))),
            "{way}: {:?}",
            client.closed
        );
        assert_eq!(is_over(&client, last), way != LAST, "{way}");
        client.leave();
    }
}

/// A counter's sum over all workers.
pub(crate) fn metric(server: &Server, pairs: &Pairs, name: &str) -> f64 {
    let mut secure = Secure::open(server.address, &pairs.client(), "a.test");
    let text = secure.try_ask("/.weir/metrics").expect("an answer");
    let lines = text.lines().filter(|line| line.starts_with(name));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// Bytes of a process that are resident and of no file.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("a number") << 10
}

/// A normal client is answered.
fn is_served(server: &Server, pairs: &Pairs) {
    let mut client = open(server, pairs);
    let stream = client.ask("/a.txt");
    assert!(client.run(Client::is_done), "{:?}", client.closed);
    assert_eq!(client.got[&stream].body, b"a");
    client.leave();
}

const FROM_PYPI: &str = "skipped: no python3 with";

/// curl, as Python's curl_cffi brings it.
#[test]
fn curl() {
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &noise(20 << 20))]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let script = r#"
import sys
try:
    from curl_cffi import requests, CurlHttpVersion
except ImportError:
    sys.exit()
session = requests.Session(verify=False, http_version=CurlHttpVersion.V3ONLY)
for path in ["/a.txt", "/large.bin", "/missing"] + ["/a.txt"] * 100:
    answer = session.get(sys.argv[1] + path, timeout=20)
    print(answer.http_version, answer.status_code, len(answer.content))
"#;
    let url = format!("https://{}", server.address);
    let printed = run("python3", &["-c", script, &url]).unwrap_or_default();
    if printed.is_empty() {
        return println!("{FROM_PYPI} curl_cffi");
    }
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[1], "30 200 20971520");
    assert!(lines[2].starts_with("30 404"), "{printed}");
    assert_eq!(lines.iter().filter(|line| **line == "30 200 1").count(), 101);
}

#[test]
fn aioquic() {
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &noise(20 << 20))]);
    let server = launch(Strategy::LOOPS, &pairs, &[]);
    let script = r#"
import asyncio, collections, ssl, sys
try:
    from aioquic.asyncio import connect
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.h3.connection import H3Connection
    from aioquic.h3.events import DataReceived, HeadersReceived
    from aioquic.quic.configuration import QuicConfiguration
except ImportError:
    sys.exit()
class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.http, self.got = H3Connection(self._quic), {}
    def quic_event_received(self, event):
        for one in self.http.handle_event(event):
            if one.stream_id not in self.got: continue
            entry = self.got[one.stream_id]
            if isinstance(one, HeadersReceived): entry[0] = dict(one.headers)[b":status"].decode()
            if isinstance(one, DataReceived): entry[1] += len(one.data)
            if one.stream_ended: entry[2].set_result(None)
    async def get(self, path):
        stream = self._quic.get_next_available_stream_id()
        self.got[stream] = entry = ["", 0, asyncio.get_running_loop().create_future()]
        self.http.send_headers(stream, [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"a.test"), (b":path", path.encode())], end_stream=True)
        self.transmit()
        await entry[2]
        return entry[0], entry[1]
async def main():
    settings = QuicConfiguration(is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE, max_data=1 << 24, max_stream_data=1 << 23)
    async with connect("127.0.0.1", int(sys.argv[1]), configuration=settings, create_protocol=Client) as client:
        paths = ["/large.bin"] + ["/a.txt"] * 99
        got = await asyncio.gather(*(client.get(path) for path in paths))
        client.request_key_update()
        client.change_connection_id()
        got.append(await client.get("/a.txt"))
        print(sorted(collections.Counter(got).items()))
asyncio.run(main())
"#;
    let port = server.address.port().to_string();
    let printed = run("python3", &["-c", script, &port]).unwrap_or_default();
    if printed.is_empty() {
        return println!("{FROM_PYPI} aioquic");
    }
    assert_eq!(printed.trim(), "[(('200', 1), 100), (('200', 20971520), 1)]");
}

/// The client changes its address in the middle of a download, which continues there.
fn quic_go(strategy: Strategy) {
    const LARGE: usize = 20 << 20;
    let Some(program) = crate::quic_go::program() else {
        return;
    };
    let pairs = site(&[]);
    let folder = pairs.tree.join("site");
    let sum = crate::quic_go::write_files(&folder, LARGE);
    let server = launch(strategy, &pairs, &[]);
    let (program, folder) = (program.display().to_string(), folder.display().to_string());
    let printed = run(&program, &["client", &server.address.to_string(), &folder]).expect("it was built");
    let moved = crate::quic_go::assert_printed(&printed, sum, LARGE);
    // Of 20 MiB, 19 are left then; some of them are under way to the old address.
    assert!(moved > 8_000, "{moved} datagrams");
}

#[test]
fn without_tls_or_with_processes_it_is_refused_with_a_way_out() {
    let pairs = site(&[("a.txt", b"a")]);
    let (code, said) = Launch::new(Strategy::LOOPS)
        .root(&pairs.tree.join("site"))
        .args(["--http3"])
        .fail();
    assert!(code == 2 && said.contains("HTTP/3 needs TLS"), "{code} {said}");
    let (code, said) = pairs.launch(Strategy::PROCESSES, &["a"]).args(["--http3"]).fail();
    assert!(
        code == 2 && said.contains("a strategy of event loops or threads"),
        "{code} {said}"
    );
}

crate::serve::on_strategy!(loops, LOOPS: many_requests_at_once_are_answered, a_stop_finishes_what_was_asked_for, a_connection_outlives_its_clients_address, a_connection_outlives_its_clients_address_without_steering, upgrades_lose_no_connection, quic_go);
crate::serve::on_strategy!(loops_uring, LOOPS_URING: many_requests_at_once_are_answered, a_stop_finishes_what_was_asked_for, upgrades_lose_no_connection);
crate::serve::on_strategy!(one_loop, ONE_LOOP: many_requests_at_once_are_answered, a_stop_finishes_what_was_asked_for);
crate::serve::on_strategy!(one_loop_uring, ONE_LOOP_URING: many_requests_at_once_are_answered, a_stop_finishes_what_was_asked_for);
crate::serve::on_strategy!(per_connection, PER_CONNECTION: many_requests_at_once_are_answered, a_stop_finishes_what_was_asked_for);
crate::serve::on_strategy!(per_request, PER_REQUEST: many_requests_at_once_are_answered, a_stop_finishes_what_was_asked_for);
crate::serve::on_strategy!(process_loops, PROCESS_LOOPS: many_requests_at_once_are_answered, a_stop_finishes_what_was_asked_for, a_connection_outlives_its_clients_address, a_connection_outlives_its_clients_address_without_steering, upgrades_lose_no_connection, quic_go);
crate::serve::on_strategy!(pool, POOL: many_requests_at_once_are_answered, a_stop_finishes_what_was_asked_for, a_connection_outlives_its_clients_address, a_connection_outlives_its_clients_address_without_steering);
