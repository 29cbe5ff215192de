//! Connections to the server that decides about requests: which questions share one, what ends one, how many are kept, and
//! what the metrics say of them.

use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::GONE;
use crate::serve::proxy_reuse::{Got, Keeper};
use crate::serve::tree::Tree;
use crate::serve::{frames, on_strategy};
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};

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
    let tree = self::tree(&auth.url, "auth-timeout = \"1s\"");
    let server = launch(strategy, &tree);
    assert_eq!(server.connect().get("/app/a.txt").status, 200);
    assert_eq!(server.connect().get("/app/a.txt").status, 504);
    assert_eq!(server.connect().get("/app/a.txt").status, 200);
    assert_eq!(outcomes(&server), [2.0, 0.0, 1.0]);
    assert_eq!(connections(&server), [2.0, 1.0]);
}

/// 64 questions at a time have a connection each; 32 of them are kept.
#[test]
fn idle_connections_have_a_bound() {
    const THREADS: usize = 64;
    const KEPT: f64 = 32.0;
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let opened = Arc::clone(&gate);
    let auth = Keeper::new(move |stream, got| {
        let (is_open, changed) = &*opened;
        let guard = is_open.lock().expect("no panic");
        drop(changed.wait_while(guard, |open| !*open).expect("no panic"));
        decide(stream, got)
    });
    let tree = tree(&auth.url, "auth-timeout = \"60s\"");
    let server = launch(Strategy::LOOPS, &tree);
    let mut client = frames::connect(&server);
    let streams: Vec<u32> = (0..THREADS).map(|_| client.ask("/app/a.txt")).collect();
    eventually("a question of each thread", || {
        (auth.got().len() == THREADS).then_some(())
    });
    assert_eq!(connections(&server), [THREADS as f64; 2]);
    *gate.0.lock().expect("no panic") = true;
    gate.1.notify_all();
    for stream in streams {
        assert_eq!(client.end_of(stream).text(), "a file");
    }
    assert_eq!(connections(&server), [THREADS as f64, KEPT]);
    assert_eq!(outcomes(&server), [THREADS as f64, 0.0, 0.0]);
    // No further connection is needed.
    assert_eq!(client.get("/app/a.txt", &[]).text(), "a file");
    assert_eq!(connections(&server), [THREADS as f64, KEPT]);
}

on_strategy!(loops, LOOPS: questions_of_many_clients_share_a_connection, a_question_survives_the_end_of_a_kept_connection, answers_that_end_the_connection_are_not_followed, content_that_follows_late_keeps_the_connection, failures_are_counted);
on_strategy!(loops_uring, LOOPS_URING: questions_of_many_clients_share_a_connection);
