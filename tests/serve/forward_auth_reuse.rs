//! Connections to the server that decides about requests: which questions share one, what ends one, how many are kept, and
//! what the metrics say of them.

use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::GONE;
use crate::serve::proxy_reuse::{Got, Keeper};
use crate::serve::tls::Pairs;
use crate::serve::tree::Tree;
use crate::serve::{frames, http3, on_strategy};
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::sync::Barrier;

/// A server whose application asks this server about its requests.
fn launch(strategy: Strategy, tree: &Tree) -> Server {
    Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start()
}

fn tree(auth: &str, more: &str) -> Tree {
    let config = format!(
        "root = \"site\"\nlive = \"local\"\nhttp2 = \"all\"\n[[access]]\npath = \"/app/*\"\nauth = \"{auth}/verify\"\n{more}\n"
    );
    Tree::with(&[("weir.toml", &config), ("site/app/a.txt", "a file")])
}

/// Admits requests whose query is not `no`. Its answers have content and a length.
fn decide(stream: &mut TcpStream, got: &Got) -> bool {
    let _ = match got.text.contains("?no\r\n") {
        true => stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"),
        false => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    };
    true
}

/// The value of a metric of this server in `auth`, with these labels besides.
fn metric(server: &Server, name: &str, more: &str) -> f64 {
    let metrics = server.connect().get("/.weir/metrics").text();
    let line = metrics.lines().find(|line| {
        line.strip_prefix(name).is_some_and(|rest| {
            rest.starts_with("{site=\"0\",rule=\"/app/*\",server=\"127.0.0.1:") && rest.contains(more)
        })
    });
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} with {more} in\n{metrics}"))
}

fn outcomes(server: &Server) -> [f64; 3] {
    ["allowed", "denied", "failed"].map(|outcome| {
        metric(
            server,
            "weir_auth_requests_total",
            &format!("outcome=\"{outcome}\""),
        )
    })
}

/// How many connections were opened, and how many are open.
fn connections(server: &Server) -> [f64; 2] {
    ["weir_auth_connections_opened_total", "weir_auth_connections_open"].map(|name| metric(server, name, ""))
}

fn questions_of_many_clients_share_a_connection(strategy: Strategy) {
    let auth = Keeper::new(decide);
    let tree = tree(&auth.url, "");
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    let mut second = frames::connect(&server);
    for _ in 0..3 {
        assert_eq!(connection.get("/app/a.txt").text(), "a file");
        assert_eq!(server.connect().get("/app/a.txt?no").text(), "no");
        assert_eq!(second.get("/app/a.txt", &[]).text(), "a file");
    }
    let got = auth.got();
    let numbers: Vec<(usize, usize)> = got.iter().map(|one| (one.connection, one.number)).collect();
    assert_eq!(numbers, (0..9).map(|number| (0, number)).collect::<Vec<_>>());
    for one in &got {
        assert!(!one.text.contains("\r\nConnection:"), "{}", one.text);
    }
    assert_eq!((auth.opened(), auth.ended()), (1, 0));
    assert_eq!(outcomes(&server), [6.0, 3.0, 0.0]);
    assert_eq!(connections(&server), [1.0, 1.0]);
    assert_eq!(metric(&server, "weir_auth_duration_seconds_count", ""), 9.0);
    assert!(metric(&server, "weir_auth_duration_seconds_sum", "") > 0.0);
    // A reload keeps the counts, and no connection.
    server.signal("HUP");
    eventually("the reload", || {
        server.stderr().contains("reloaded").then_some(())
    });
    eventually("the end of the connection", || {
        // Each event loop takes the new configuration in its next turn.
        server.connect().get("/");
        (auth.ended() == 1).then_some(())
    });
    assert_eq!(server.connect().get("/app/a.txt").text(), "a file");
    assert_eq!(outcomes(&server), [7.0, 3.0, 0.0]);
    assert_eq!(connections(&server), [2.0, 1.0]);
}

fn a_question_survives_the_end_of_a_kept_connection(strategy: Strategy) {
    // It closes each connection at its second question.
    let auth = Keeper::new(|stream, got| got.number == 0 && decide(stream, got));
    let tree = tree(&auth.url, "");
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    for _ in 0..3 {
        assert_eq!(connection.get("/app/a.txt").text(), "a file");
        assert_eq!(connection.get("/app/a.txt?no").status, 403);
    }
    // The first question of each connection, and the one that finds it closed.
    let numbers: Vec<(usize, usize)> = auth
        .got()
        .iter()
        .map(|one| (one.connection, one.number))
        .collect();
    let expected: Vec<(usize, usize)> = (0..6).flat_map(|at| [(at, 0), (at, 1)]).take(11).collect();
    assert_eq!(numbers, expected);
    assert_eq!(outcomes(&server), [3.0, 3.0, 0.0]);
    assert_eq!(connections(&server), [6.0, 1.0]);
    // A kept connection that ends within an answer is no decision, and nothing is repeated.
    let auth = Keeper::new(|stream, got| match got.number {
        0 => decide(stream, got),
        _ => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
            false
        }
    });
    let tree = self::tree(&auth.url, "");
    let server = launch(strategy, &tree);
    assert_eq!(server.connect().get("/app/a.txt").status, 200);
    assert_eq!(server.connect().get("/app/a.txt").status, 502);
    assert_eq!(auth.got().len(), 2);
    assert_eq!(outcomes(&server), [1.0, 0.0, 1.0]);
}

fn answers_that_end_the_connection_are_not_followed(strategy: Strategy) {
    const ANSWERS: [&[u8]; 5] = [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        b"HTTP/1.1 401 No\r\nWWW-Authenticate: Negotiate\r\nContent-Length: 2\r\n\r\nno",
        // Its content never ends.
        b"HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n",
    ];
    let auth = Keeper::new(|stream, got| {
        let _ = stream.write_all(ANSWERS[got.connection]);
        true
    });
    let tree = tree(&auth.url, "");
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    for (at, answer) in ANSWERS.iter().enumerate() {
        let status = if answer.starts_with(b"HTTP/1.1 401") {
            401
        } else {
            200
        };
        assert_eq!(connection.get("/app/a.txt").status, status, "{at}");
        eventually("the end of the connection", || {
            (auth.ended() == at + 1).then_some(())
        });
    }
    assert_eq!(outcomes(&server), [4.0, 1.0, 0.0]);
    assert_eq!(connections(&server), [5.0, 0.0]);
    // Credentials that authenticate a connection never share one.
    let auth = Keeper::new(decide);
    let tree = self::tree(&auth.url, "");
    let server = launch(strategy, &tree);
    assert_eq!(server.connect().get("/app/a.txt").status, 200);
    let fields = [("Authorization", "NTLM TlRMTVNTUAAB")];
    for count in 1..3 {
        let answer = server.connect().request("GET", "/app/a.txt", &fields);
        assert_eq!(answer.status, 200);
        eventually("the end of the connection", || {
            (auth.ended() == count).then_some(())
        });
    }
    assert_eq!(server.connect().get("/app/a.txt").status, 200);
    let got: Vec<(usize, bool)> = auth
        .got()
        .iter()
        .map(|one| (one.connection, one.text.contains("\r\nConnection: close\r\n")))
        .collect();
    assert_eq!(got, [(0, false), (1, true), (2, true), (0, false)]);
}

/// The content of an answer that admits a request may follow late. Nobody waits for it, and the connection is kept.
fn content_that_follows_late_keeps_the_connection(strategy: Strategy) {
    let auth = Keeper::new(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let _ = stream.write_all(b"2\r\nok\r\n");
        let _ = stream.write_all(b"0\r\n\r\n");
        true
    });
    let tree = tree(&auth.url, "");
    let server = launch(strategy, &tree);
    eventually("a question on a kept connection", || {
        assert_eq!(server.connect().get("/app/a.txt").text(), "a file");
        auth.got().iter().any(|one| one.number > 0).then_some(())
    });
}

fn failures_are_counted(strategy: Strategy) {
    let tree = tree(GONE, "");
    let server = launch(strategy, &tree);
    assert_eq!(server.connect().get("/app/a.txt").status, 502);
    assert_eq!(
        (outcomes(&server), connections(&server)),
        ([0.0, 0.0, 1.0], [0.0, 0.0])
    );
    // A server with a fault has decided nothing.
    let auth = Keeper::new(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
        true
    });
    let tree = self::tree(&auth.url, "");
    let server = launch(strategy, &tree);
    assert_eq!(server.connect().get("/app/a.txt").status, 503);
    assert_eq!(
        (outcomes(&server), connections(&server)),
        ([0.0, 0.0, 1.0], [1.0, 1.0])
    );
    // After silence on a kept connection, no kept one is trusted.
    let auth = Keeper::new(|stream, got| got.number > 0 || decide(stream, got));
    let tree = self::tree(&auth.url, "auth-timeout = \"3s\"");
    let server = launch(strategy, &tree);
    assert_eq!(server.connect().get("/app/a.txt").status, 200);
    assert_eq!(server.connect().get("/app/a.txt").status, 504);
    assert_eq!(server.connect().get("/app/a.txt").status, 200);
    assert_eq!(outcomes(&server), [2.0, 0.0, 1.0]);
    assert_eq!(connections(&server), [2.0, 1.0]);
}

/// Questions at a time.
const CROWD: usize = 8;

/// A server that answers none of the first questions before all of a crowd have come, so that each has a connection.
fn gathering(crowd: usize) -> Keeper {
    let barrier = Barrier::new(crowd);
    Keeper::new(move |stream, got| {
        if got.number == 0 && got.connection < crowd {
            barrier.wait();
        }
        decide(stream, got)
    })
}

/// As many questions at a time.
fn ask_in_a_crowd(client: &mut frames::Client<TcpStream>, crowd: usize) {
    let streams: Vec<u32> = (0..crowd).map(|_| client.ask("/app/a.txt")).collect();
    for stream in streams {
        assert_eq!(client.end_of(stream).text(), "a file");
    }
}

fn idle_connections_have_a_bound(strategy: Strategy) {
    // By default, 32 of 64 are kept.
    for (crowd, kept, more) in [
        (64, 32, ""),
        (CROWD, 5, "auth-keepalive = 5"),
        (
            CROWD,
            CROWD,
            "auth-keepalive = 1024\nauth-keepalive-time = \"1h\"",
        ),
        (CROWD, 0, "auth-keepalive = 0"),
    ] {
        let auth = gathering(crowd);
        let tree = tree(&auth.url, &format!("auth-timeout = \"60s\"\n{more}"));
        let server = launch(strategy, &tree);
        let mut client = frames::connect(&server);
        ask_in_a_crowd(&mut client, crowd);
        assert_eq!(connections(&server), [crowd as f64, kept as f64], "{more}");
        assert_eq!(outcomes(&server), [crowd as f64, 0.0, 0.0]);
        // A kept one suffices for the next question.
        assert_eq!(client.get("/app/a.txt", &[]).text(), "a file");
        let opened = crowd + usize::from(kept == 0);
        assert_eq!(connections(&server), [opened as f64, kept as f64], "{more}");
    }
}

/// Leaves the process no descriptor. Returns false if that is not possible here.
fn starve(server: &Server) -> bool {
    let pid = server.pid();
    let is_taken = |number: &usize| std::fs::exists(format!("/proc/{pid}/fd/{number}")).unwrap_or(false);
    // The lowest number that is free is the next to be given out.
    let next = (0..)
        .find(|number| !is_taken(number))
        .expect("numbers do not end");
    let limited = Command::new("prlimit")
        .args([format!("--pid={pid}"), format!("--nofile={next}:")])
        .status();
    let is_limited = limited.is_ok_and(|status| status.success());
    if !is_limited {
        println!("skipped: prlimit(1) is not there or refused");
    }
    is_limited
}

fn ended(auth: &Keeper, count: usize) {
    eventually("the end of idle connections", || {
        (auth.ended() == count).then_some(())
    });
}

/// When the process has no descriptor left, idle connections give theirs to a client, to a question for another server, and to a
/// connection to an upstream.
fn idle_connections_yield_their_descriptors(strategy: Strategy) {
    let one = Strategy {
        workers: 1,
        ..strategy
    };
    for needs_one in ["a client", "a question", "an upstream"] {
        let (auth, other) = (gathering(CROWD), Keeper::new(decide));
        let more = format!(
            "auth-timeout = \"60s\"\n[[access]]\npath = \"/other/*\"\nauth = \"{}/verify\"\nauth-keepalive = 0\n\
             [[proxy]]\npath = \"/api/*\"\nupstreams = [\"{}\"]\nkeepalive = 0\n",
            other.url, other.url
        );
        let tree = tree(&auth.url, &more);
        tree.write("site/other/b.txt", "another file");
        tree.write("site/open.txt", "an open file");
        let server = launch(one, &tree);
        let mut connection = server.connect();
        // The files are in memory afterwards, and no connection is left of the two.
        assert_eq!(connection.get("/open.txt").text(), "an open file");
        assert_eq!(connection.get("/other/b.txt").text(), "another file");
        assert_eq!(connection.get("/api/x").text(), "ok");
        ended(&other, 2);
        let mut client = frames::connect(&server);
        ask_in_a_crowd(&mut client, CROWD);
        assert_eq!((auth.opened(), auth.ended()), (CROWD, 0));
        if !starve(&server) {
            return;
        }
        match needs_one {
            "a client" => {
                // Fewer than the descriptors that become free.
                let mut crowd: Vec<_> = (0..CROWD / 2).map(|_| server.connect()).collect();
                for connection in &mut crowd {
                    assert_eq!(connection.get("/open.txt").text(), "an open file");
                }
                ended(&auth, CROWD);
            }
            "a question" => {
                assert_eq!(connection.get("/other/b.txt").text(), "another file");
                ended(&auth, CROWD);
            }
            _ => {
                assert_eq!(connection.get("/api/x").text(), "ok");
                ended(&auth, CROWD);
            }
        }
        // The next crowd has connections again.
        assert_eq!(client.get("/app/a.txt", &[]).text(), "a file");
        assert_eq!(auth.opened(), CROWD + 1, "{needs_one}");
    }
}

/// The same for a connection to an upstream on behalf of a client of HTTP/3.
fn idle_connections_yield_their_descriptors_to_http3(strategy: Strategy) {
    let one = Strategy {
        workers: 1,
        ..strategy
    };
    let (auth, upstream) = (gathering(CROWD), Keeper::new(decide));
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs.tree.write("site/app/a.txt", "a file");
    let config = format!(
        "[[access]]\npath = \"/app/*\"\nauth = \"{}/verify\"\nauth-timeout = \"60s\"\n\
         [[proxy]]\npath = \"/api/*\"\nupstreams = [\"{}\"]\nkeepalive = 0\n",
        auth.url, upstream.url
    );
    pairs.tree.write("weir.toml", config);
    let launch = pairs.launch(one, &["a"]);
    let server = launch
        .args(["--config".as_ref(), pairs.tree.join("weir.toml").as_os_str()])
        .start();
    let mut client = http3::client::Client::open(server.address, &pairs.client(), "a.test");
    // No connection to the upstream is left.
    assert_eq!(client.get("/api/x", &[]).text(), "ok");
    ended(&upstream, 1);
    let streams: Vec<u64> = (0..CROWD).map(|_| client.ask("/app/a.txt")).collect();
    for stream in streams {
        assert_eq!(client.end_of(stream).text(), "a file");
    }
    assert_eq!((auth.opened(), auth.ended()), (CROWD, 0));
    if !starve(&server) {
        return;
    }
    assert_eq!(client.get("/api/x", &[]).text(), "ok");
    ended(&auth, CROWD);
}

on_strategy!(loops, LOOPS: questions_of_many_clients_share_a_connection, a_question_survives_the_end_of_a_kept_connection, answers_that_end_the_connection_are_not_followed, content_that_follows_late_keeps_the_connection, failures_are_counted, idle_connections_have_a_bound, idle_connections_yield_their_descriptors, idle_connections_yield_their_descriptors_to_http3);
// With io_uring, an accept goes by the limit of descriptors at the time it was armed.
on_strategy!(loops_uring, LOOPS_URING: questions_of_many_clients_share_a_connection);
