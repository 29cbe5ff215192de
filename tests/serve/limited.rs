//! Limits on the requests of each client for some paths, and access logs of formats that an operator wrote.

use crate::serve::frames;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::{HELLO, Upstream};
use crate::serve::tree::Tree;
use crate::serve::wire::Connection;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::time::{Duration, SystemTime};

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
    // So does a response that its client does not read. The request before it may hold the place for a moment more.
    let slow = eventually("a response under way", || {
        let mut slow = server.connect();
        slow.send("GET /few/large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
        (slow.exactly(12) == b"HTTP/1.1 200").then_some(slow)
    });
    assert_eq!(server.connect().get("/few/a.txt").status, 429);
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

fn a_full_log_is_rotated_and_no_line_is_lost(strategy: Strategy) {
    let tree = Tree::with(&[("site/index.html", "page"), ("log/kept.txt", "")]);
    let log = tree.join("log/access.log");
    let server = Launch::new(strategy)
        .root(&tree.join("site"))
        .args(["--access-log".as_ref(), log.as_os_str()])
        .args([
            "--log-rotate-size=4KiB",
            "--log-template=$query",
            "--log-keep=1000",
        ])
        .start();
    let mut connection = server.connect();
    let text = "x".repeat(600);
    for number in 0..60 {
        assert_eq!(connection.get(&format!("/?{number}.{text}")).status, 200);
        if number % 20 == 19 {
            // Lines are written once a second.
            eventually("lines on disk", || {
                let read = std::fs::read(&log).ok()?;
                let last = format!("{number}.");
                String::from_utf8_lossy(&read).contains(&last).then_some(())
            });
        }
    }
    let mut server = server;
    assert_eq!(server.stop(), 0);
    let (mut lines, mut old) = (Vec::new(), 0);
    for entry in std::fs::read_dir(tree.join("log")).expect("the folder") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name")
            .to_owned();
        let read = std::fs::read(&path).expect("a file");
        let mut content = String::new();
        if name.ends_with(".gz") {
            old += 1;
            let mut decoder = flate2::read::GzDecoder::new(&*read);
            std::io::Read::read_to_string(&mut decoder, &mut content).expect("gzip");
        } else {
            assert!(["access.log", "kept.txt"].contains(&&*name), "{name}");
            content = String::from_utf8(read).expect("text");
        }
        lines.extend(
            content
                .lines()
                .filter_map(|line| line.split('.').next()?.parse::<u32>().ok()),
        );
    }
    lines.sort_unstable();
    assert_eq!(lines, (0..60).collect::<Vec<_>>());
    assert!(old >= 2, "{old}");
}

/// The same for requests that the server knows from memory. Only a trusted peer says which scheme its client used.
fn lines_show_fields_and_how_a_request_came(strategy: Strategy) {
    for (trusted, scheme) in [("192.0.2.0/24", "http"), ("127.0.0.0/8", "https")] {
        let tree = Tree::with(&[("site/index.html", "page")]);
        let log = tree.join("access.log");
        let mut server = Launch::new(strategy)
            .root(&tree.join("site"))
            .args(["--access-log".as_ref(), log.as_os_str()])
            .args(["--log-template=$scheme $tls_version $cache_status \"$http_x_one\" $http_x_two"])
            .args(["--http2=all", "--trusted", trusted])
            .start();
        let fields = [
            ("x-one", "a \"b\""),
            ("x-forwarded-proto", "https"),
            ("x-one", "c"),
        ];
        let mut connection = server.connect();
        for _ in 0..4 {
            assert_eq!(connection.request("GET", "/", &fields).status, 200);
        }
        let mut client = frames::connect(&server);
        let fields = [&fields[..], &[(":authority", "localhost")]].concat();
        assert_eq!(client.get("/", &fields).status, 200);
        drop((connection, client));
        assert_eq!(server.stop(), 0);
        assert_eq!(
            std::fs::read_to_string(&log).expect("a log"),
            format!("{scheme} - - \"a \\\"b\\\", c\" -\n").repeat(5)
        );
    }
}

/// A log whose last line is of an earlier period gets no more, and the oldest of the old logs goes.
fn an_old_log_is_rotated_and_the_oldest_is_removed(strategy: Strategy) {
    let tree = Tree::with(&[
        ("site/index.html", "page"),
        ("log/access.log", "old\n"),
        ("log/access.log.20200101-000000", "first\n"),
        ("log/access.log.20210101-000000.gz", "second"),
    ]);
    let log = tree.join("log/access.log");
    let file = File::options().write(true).open(&log).expect("our own file");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(86_400))
        .expect("our own file");
    drop(file);
    let mut server = Launch::new(strategy)
        .root(&tree.join("site"))
        .args(["--access-log".as_ref(), log.as_os_str()])
        // Periods of about ten years: none ends during the test.
        .args(["--log-rotate-time=3650d", "--log-keep=2", "--log-compress=false"])
        .args(["--log-template=$query"])
        .start();
    for query in ["one", "two"] {
        assert_eq!(server.connect().get(&format!("/?{query}")).status, 200);
    }
    assert_eq!(server.stop(), 0);
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(tree.join("log")).expect("the folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("text");
        found.insert(name, std::fs::read_to_string(entry.path()).expect("text"));
    }
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    let [current, second, rotated] = names[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        (current, second),
        ("access.log", "access.log.20210101-000000.gz"),
        "{found:?}"
    );
    assert_eq!(found[rotated], "old\n", "{found:?}");
    // Workers may write in another order.
    let mut lines: Vec<&str> = found[current].lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "two"]);
}

/// Each worker counts by itself, so the strategy of this test has one.
fn of_many_responses_one_is_logged_and_every_error(strategy: Strategy) {
    let tree = Tree::with(&[("site/index.html", "page")]);
    let log = tree.join("access.log");
    let mut server = Launch::new(strategy)
        .root(&tree.join("site"))
        .args(["--access-log".as_ref(), log.as_os_str()])
        .args(["--log-sample=100", "--log-template=$status $query"])
        .start();
    let mut connection = server.connect();
    for number in 1..=300 {
        assert_eq!(connection.get(&format!("/?{number}")).status, 200);
        if number % 150 == 0 {
            assert_eq!(connection.get(&format!("/absent?{number}")).status, 404);
        }
    }
    assert_eq!(server.stop(), 0);
    assert_eq!(
        std::fs::read_to_string(&log).expect("a log"),
        "200 100\n404 150\n200 200\n200 300\n404 300\n"
    );
}

on_strategy!(
    one_loop, ONE_LOOP: of_many_responses_one_is_logged_and_every_error, lines_show_fields_and_how_a_request_came
);
on_strategy!(one_loop_uring, ONE_LOOP_URING: lines_show_fields_and_how_a_request_came);
on_strategy!(
    process_loops, PROCESS_LOOPS: a_full_log_is_rotated_and_no_line_is_lost,
    an_old_log_is_rotated_and_the_oldest_is_removed
);
on_strategy!(
    loops, LOOPS: a_full_log_is_rotated_and_no_line_is_lost, an_old_log_is_rotated_and_the_oldest_is_removed, requests_above_the_rate_get_429, requests_under_way_are_limited, lines_are_as_the_template_says
);
on_strategy!(
    loops_uring, LOOPS_URING: requests_above_the_rate_get_429, requests_under_way_are_limited,
    lines_are_as_the_template_says
);
