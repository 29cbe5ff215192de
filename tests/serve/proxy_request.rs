//! What an upstream gets of a request, and when: another path, other fields, a header of the PROXY protocol in front, a body that
//! was collected first; and what a total timeout ends. For clients of HTTP/1 and HTTP/2.

use crate::serve::frames;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::{HELLO, Upstream, request};
use crate::serve::tree::Tree;
use crate::serve::wire::End;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn launch(strategy: Strategy, upstream: &Upstream, more: &str) -> (Server, Tree) {
    let text = format!(
        "root = \"site\"\nhttp2 = \"all\"\nbody-timeout = \"2s\"\n[[proxy]]\nupstreams = [\"{}\"]\n{more}\n",
        upstream.url
    );
    let tree = Tree::with(&[("weir.toml", &*text), ("site/a.txt", "a file")]);
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    (server, tree)
}

fn paths_and_fields_are_rewritten(strategy: Strategy) {
    let upstream = Upstream::answering(HELLO);
    let rule = "path = \"/api*\"\nrewrite = \"/v2/*\"\n[proxy.request-header]\nset = [\"X-Env: prod\", \"Host: app.internal\"]\n\
                add = [\"X-Tag: 2\"]\nremove = [\"Cookie\"]";
    let (server, _tree) = launch(strategy, &upstream, rule);
    let fields = [
        ("x-env", "dev"),
        ("x-tag", "1"),
        ("cookie", "a=b"),
        ("x-other", "kept"),
    ];
    for (path, target) in [
        ("/api/%61?q=1", "/v2/a?q=1"),
        ("/api../x", "/v2/x"),
        ("/api", "/v2/"),
    ] {
        assert_eq!(server.connect().request("GET", path, &fields).text(), "hello");
        let mut client = frames::connect(&server);
        assert_eq!(client.get(path, &fields).text(), "hello");
        let begins = format!("GET {target} HTTP/1.1\r\nHost: app.internal\r\n");
        eventually("both requests", || {
            let all = upstream.all();
            (all.iter().filter(|got| got.starts_with(&begins)).count() == 2).then_some(())
        });
    }
    for got in upstream.all() {
        let lower = got.to_ascii_lowercase();
        assert!(!lower.contains("cookie") && !lower.contains("dev"), "{got}");
        for line in ["x-env: prod", "x-tag: 1", "x-tag: 2", "x-other: kept"] {
            assert_eq!(lower.matches(line).count(), 1, "{line}: {got}");
        }
    }
}

fn a_connection_announces_its_client(strategy: Strategy) {
    // The header of version 2 has an empty line, so the request is read from behind it.
    for (version, begins) in [
        ("v1", &b"PROXY TCP4 127.0.0.1 0.0.0.0 0 0\r\n"[..]),
        (
            "v2",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\0\0\0\0\0\0\0\0",
        ),
    ] {
        let upstream = Upstream::new(|stream| {
            let mut header = vec![0; begins.len()];
            let _ = stream.read_exact(&mut header);
            let got = request(stream);
            let _ = stream.write_all(HELLO);
            header.escape_ascii().to_string() + &got
        });
        let rule = format!("path = \"/api/*\"\nproxy-protocol = \"{version}\"");
        let (server, _tree) = launch(strategy, &upstream, &rule);
        let mut connection = server.connect();
        // Each request has a connection of its own, with a header.
        for _ in 0..2 {
            assert_eq!(connection.get("/api/x").text(), "hello");
        }
        eventually("both connections", || {
            let expected = format!("{}GET /api/x HTTP/1.1\r\n", begins.escape_ascii());
            let all = upstream.all();
            (all.iter().filter(|got| got.starts_with(&expected)).count() == 2).then_some(())
        });
    }
}

/// An upstream, and whether anybody connected to it.
fn watched() -> (Upstream, Arc<AtomicBool>) {
    let is_asked = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_asked);
    let upstream = Upstream::new(move |stream| {
        asked.store(true, Ordering::SeqCst);
        let got = request(stream);
        let _ = stream.write_all(HELLO);
        got
    });
    (upstream, is_asked)
}

fn a_body_is_collected_first(strategy: Strategy) {
    let (upstream, is_asked) = watched();
    let (server, _tree) = launch(strategy, &upstream, "path = \"/api/*\"\nbuffer = \"100KiB\"");
    let mut connection = server.connect();
    connection.send("POST /api/x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n");
    assert_eq!(connection.exactly(25), b"HTTP/1.1 100 Continue\r\n\r\n");
    connection.send("abc");
    // The server answers this one after it took the bytes above.
    assert_eq!(server.connect().get("/a.txt").text(), "a file");
    assert!(!is_asked.load(Ordering::SeqCst), "the body is not whole");
    connection.send("def");
    assert_eq!(connection.receive("POST").text(), "hello");
    assert!(upstream.first().ends_with("\r\n\r\nabcdef"));
    // A body beyond the bound streams from there on, and one of HTTP/2 is not held up by its window of 64 KiB.
    let body = vec![b'x'; 300_000];
    let mut connection = server.connect();
    connection.send(format!(
        "POST /api/l HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    connection.send(&body);
    assert_eq!(connection.receive("POST").text(), "hello");
    for length in [80_000, 300_000] {
        let mut client = frames::connect(&server);
        let stream = client.open("/api/x", &[(":method", "POST")], false);
        assert!(client.send_body(stream, &body[..length]));
        client.end(stream, &[]);
        assert_eq!(client.end_of(stream).text(), "hello");
    }
    eventually("all bodies at the upstream", || {
        let all = upstream.all();
        let has = |length: usize| all.iter().any(|got| got.matches('x').count() >= length);
        (all.len() == 4 && has(300_000) && has(80_000)).then_some(())
    });
}

fn a_slow_body_costs_no_upstream(strategy: Strategy) {
    let (upstream, is_asked) = watched();
    let (server, _tree) = launch(strategy, &upstream, "path = \"/api/*\"\nbuffer = \"64KiB\"");
    let mut connection = server.connect();
    connection.send("POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    assert_eq!(connection.receive("POST").status, 408);
    let mut client = frames::connect(&server);
    let stream = client.open("/api/x", &[(":method", "POST"), ("content-length", "6")], false);
    assert!(client.send_body(stream, b"abc"));
    assert_eq!(client.end_of(stream).status, 408);
    // A client that ends within its body is no client of an upstream.
    let mut connection = server.connect();
    connection.send("POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    connection.finish();
    let _ = connection.rest();
    assert!(!is_asked.load(Ordering::SeqCst));
}

fn a_total_timeout_ends_an_exchange(strategy: Strategy) {
    // Silent behind this: within the other timeouts.
    let silent = |head: &'static [u8]| {
        Upstream::new(move |stream| {
            let got = request(stream);
            let _ = stream.write_all(head);
            let _ = stream.read_to_end(&mut Vec::new());
            got
        })
    };
    let rule = "path = \"/api/*\"\ntotal-timeout = \"2s\"";
    let before = silent(b"");
    let (server, _tree) = launch(strategy, &before, rule);
    assert_eq!(server.connect().get("/api/x").status, 504);
    let mut client = frames::connect(&server);
    assert_eq!(client.get("/api/x", &[]).status, 504);
    let within = silent(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    let (server, _tree) = launch(strategy, &within, rule);
    let mut connection = server.connect();
    connection.send("GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n");
    let (got, end) = connection.rest();
    assert!(got.ends_with(b"hello"), "{}", got.escape_ascii());
    assert_eq!(end, End::Reset);
    let mut client = frames::connect(&server);
    assert!(client.get("/api/x", &[]).reset.is_some());
    eventually("the reason in the log", || {
        server.stderr().contains("`total-timeout`").then_some(())
    });
}

macro_rules! where_sessions_dial {
    ($($name:ident),* $(,)?) => {
        on_strategy!(loops, LOOPS: $($name),*);
        on_strategy!(process_loops, PROCESS_LOOPS: $($name),*);
        on_strategy!(loops_uring, LOOPS_URING: $($name),*);
    };
}

where_sessions_dial!(
    paths_and_fields_are_rewritten,
    a_connection_announces_its_client,
    a_body_is_collected_first,
    a_slow_body_costs_no_upstream,
    a_total_timeout_ends_an_exchange,
);

#[test]
fn checks_speak_for_the_proxy() {
    let upstream = Upstream::new(|stream| {
        let got = request(stream);
        let _ = stream.write_all(HELLO);
        got
    });
    let rule =
        "path = \"/api/*\"\nproxy-protocol = \"v1\"\n[proxy.check]\npath = \"/healthz\"\ninterval = \"10ms\"";
    let (server, _tree) = launch(Strategy::LOOPS, &upstream, rule);
    assert_eq!(server.connect().get("/api/x").text(), "hello");
    eventually("a check", || {
        let all = upstream.all();
        let is_check = |got: &String| got.starts_with("PROXY UNKNOWN\r\nGET /healthz HTTP/1.1\r\n");
        all.iter().any(is_check).then_some(())
    });
}
