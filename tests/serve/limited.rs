//! Limits on the requests of each client for some paths, and access logs of formats that an operator wrote.

use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::{HELLO, Upstream};
use crate::serve::tree::Tree;
use crate::serve::wire::Connection;
use std::net::TcpListener;

const CONFIG: &str = r#"
root = "site"
access-log = "-"
log-template = '{"ms":$duration_ms,"path":"$path","status":$status,"sent":$body_bytes}'

[[limit]]
path = "/api/*"
rate = "2/h"
burst = 2

[[limit]]
path = "/few/*"
concurrent = 1
"#;

/// A server with these upstreams at `/api/up` and `/few/up`.
fn launch(strategy: Strategy, upstream: &str) -> (Tree, Server) {
    let routes = ["/api/up/*", "/few/up/*"]
        .map(|path| format!("[[proxy]]\npath = \"{path}\"\nupstreams = [\"{upstream}\"]\n"));
    let config = format!("{CONFIG}{}", routes.concat());
    let large = "x".repeat(32 << 20);
    let tree = Tree::with(&[
        ("site/index.html", "page"),
        ("site/api/a.txt", "some api"),
        ("site/few/large.bin", &large),
        ("site/few/a.txt", "few"),
        ("weir.toml", &config),
    ]);
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    (tree, server)
}

fn requests_above_the_rate_get_429(strategy: Strategy) {
    let upstream = Upstream::answering(HELLO);
    let (_tree, server) = launch(strategy, &upstream.url);
    let mut connection = server.connect();
    for status in [200, 200, 429, 429] {
        let answer = connection.get("/api/a.txt");
        assert_eq!(answer.status, status);
        let retry = (status == 429).then_some("1800");
        assert_eq!(answer.field("Retry-After"), retry);
    }
    // One bound for an upstream is refused on the same connection, with a body or without.
    assert_eq!(connection.get("/api/up/a").status, 429);
    let body = "x".repeat(100_000);
    connection.send(format!(
        "POST /api/up/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let refused = connection.receive("POST");
    assert_eq!((refused.status, refused.closes()), (429, false));
    // A body beyond the bound ends it.
    connection.send("POST /api/up/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n");
    let refused = connection.receive("POST");
    assert_eq!((refused.status, refused.closes()), (429, true));
    assert_eq!(upstream.all(), Vec::<String>::new());
    assert_eq!(server.connect().get("/").status, 200);
}

fn requests_under_way_are_limited(strategy: Strategy) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let (_tree, server) = launch(strategy, &url);
    // The upstream holds the first request, and answers nothing.
    let mut held = server.connect();
    held.send("GET /few/up/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (upstream, _) = listener.accept().expect("a connection");
    let refused = server.connect().get("/few/a.txt");
    assert_eq!((refused.status, refused.field("Retry-After")), (429, Some("1")));
    drop((held, upstream));
    let few = |server: &Server| (server.connect().get("/few/a.txt").status == 200).then_some(());
    eventually("the place of the request that ended", || few(&server));
    // So does a response that its client does not read.
    let mut slow = server.connect();
    slow.send("GET /few/large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("a response under way", || {
        (server.connect().get("/few/a.txt").status == 429).then_some(())
    });
    drop(slow);
    eventually("the place of the response that was given up", || few(&server));
}

fn lines_are_as_the_template_says(strategy: Strategy) {
    let (_tree, server) = launch(strategy, "http://127.0.0.1:1");
    let mut connection: Connection = server.connect();
    assert_eq!(connection.get("/?q=1").text(), "page");
    let line = eventually("a line", || {
        let out = server.stdout();
        out.lines().next().map(str::to_owned)
    });
    let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        (&line["path"], &line["status"], &line["sent"]),
        (&"/".into(), &200.into(), &4.into())
    );
    assert!(line["ms"].as_f64().is_some_and(|ms| ms >= 0.0), "{line}");
}

on_strategy!(
    loops, LOOPS: requests_above_the_rate_get_429, requests_under_way_are_limited, lines_are_as_the_template_says
);
on_strategy!(
    loops_uring, LOOPS_URING: requests_above_the_rate_get_429, requests_under_way_are_limited,
    lines_are_as_the_template_says
);
