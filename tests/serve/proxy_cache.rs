//! Responses of upstreams that are stored for other clients. The upstreams here count what reaches them.

use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::{GONE, Upstream, configured, request};
use crate::serve::tree::Tree;
use crate::serve::wire::Response;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

fn tree() -> Tree {
    Tree::with(&[("a.txt", "a file")])
}

/// An upstream whose response to the request number `n` (from 1) `answer` makes.
fn numbered(answer: impl Fn(u64, &str) -> String + Send + 'static) -> Upstream {
    let count = AtomicU64::new(0);
    Upstream::telling(move |stream, tell| {
        let got = request(stream);
        tell(got.clone());
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let _ = stream.write_all(answer(number, &got).as_bytes());
    })
}

/// A response with these field lines and content.
fn response(status: &str, fields: &str, content: &str) -> String {
    let length = content.len();
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{content}")
}

fn launch(strategy: Strategy, tree: &Tree, upstream: &Upstream, cache: &str) -> Server {
    let (root, url) = (tree.path().display(), &upstream.url);
    let rule = format!("[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{url}\"]\ncache = {cache}\n");
    let config = tree.write(
        "weir.toml",
        format!("root = \"{root}\"\nlive = \"local\"\n{rule}"),
    );
    Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start()
}

fn status_of(response: &Response) -> &str {
    response.must("cache-status")
}

fn a_fresh_response_is_served_without_the_upstream(strategy: Strategy) {
    let tree = tree();
    let upstream = numbered(|number, _| {
        response(
            "200 OK",
            "Cache-Control: max-age=600\r\nAge: 5\r\nX-A: b\r\n",
            &format!("answer {number}"),
        )
    });
    let server = launch(strategy, &tree, &upstream, "true");
    let first = server.connect().get("/api/x");
    assert_eq!(
        (first.text(), status_of(&first)),
        ("answer 1".to_owned(), "weir; fwd=uri-miss; stored")
    );
    // Other clients, and the same connection, get the stored one.
    let mut client = server.connect();
    for _ in 0..3 {
        let again = client.get("/api/x");
        assert_eq!(again.text(), "answer 1");
        assert_eq!(again.must("x-a"), "b");
        assert!(
            status_of(&again).starts_with("weir; hit; ttl=5"),
            "{}",
            status_of(&again)
        );
        assert!(
            again
                .must("age")
                .parse::<u64>()
                .is_ok_and(|age| (5..60).contains(&age))
        );
    }
    let head = client.request("HEAD", "/api/x", &[]);
    assert_eq!((head.must("content-length"), head.text()), ("8", String::new()));
    let part = client.request("GET", "/api/x", &[("Range", "bytes=0-1")]);
    assert_eq!((part.status, part.text()), (206, "an".to_owned()));
    // Another query is another target, and a file is no business of the cache.
    assert_eq!(client.get("/api/x?q").text(), "answer 2");
    assert!(client.get("/a.txt").field("cache-status").is_none());
    assert_eq!(upstream.all().len(), 2);
}

fn a_stale_response_is_validated(strategy: Strategy) {
    let tree = tree();
    let upstream = numbered(|_, got| match got.contains("If-None-Match: \"v1\"") {
        true => {
            "HTTP/1.1 304 Not Modified\r\nConnection: close\r\nETag: \"v1\"\r\nX-A: new\r\n\r\n".to_owned()
        }
        false => response(
            "200 OK",
            "Cache-Control: no-cache\r\nETag: \"v1\"\r\nX-A: old\r\n",
            "content",
        ),
    });
    let server = launch(strategy, &tree, &upstream, "true");
    let mut client = server.connect();
    assert_eq!(client.get("/api/x").must("x-a"), "old");
    let validated = client.request(
        "GET",
        "/api/x",
        &[("If-None-Match", "\"other\""), ("Range", "bytes=0-2")],
    );
    assert_eq!((validated.status, validated.text()), (206, "con".to_owned()));
    assert_eq!(validated.must("x-a"), "new");
    assert!(
        status_of(&validated).starts_with("weir; fwd=stale; fwd-status=304"),
        "{}",
        status_of(&validated)
    );
    // The client has it already.
    let known = client.request("GET", "/api/x", &[("If-None-Match", "\"v1\"")]);
    assert_eq!((known.status, known.text()), (304, String::new()));
    let all = upstream.all();
    assert_eq!(all.len(), 3);
    assert!(
        !all[1].contains("other") && !all[1].contains("Range"),
        "conditions are the cache's own: {}",
        all[1]
    );
}

fn what_must_not_be_stored_is_not(strategy: Strategy) {
    let tree = tree();
    let upstream = numbered(|number, got| {
        let fields = match got.split(' ').nth(1).expect("a target") {
            "/api/private" => "Cache-Control: private, max-age=600\r\n",
            "/api/cookie" => "ETag: \"a\"\r\nSet-Cookie: a=b\r\n",
            "/api/vary" => "Cache-Control: max-age=600\r\nVary: X-User\r\n",
            _ => "Cache-Control: max-age=600\r\n",
        };
        response("200 OK", fields, &number.to_string())
    });
    let server = launch(strategy, &tree, &upstream, "true");
    let mut client = server.connect();
    let login = [("Authorization", "Basic eDp5")];
    for (path, fields) in [
        ("/api/private", &[][..]),
        ("/api/cookie", &[]),
        ("/api/login", &login),
    ] {
        let first = client.request("GET", path, fields).text();
        assert_ne!(client.request("GET", path, fields).text(), first, "{path}");
    }
    let of = |user| [("X-User", user)];
    let (a, b) = (
        client.request("GET", "/api/vary", &of("a")).text(),
        client.request("GET", "/api/vary", &of("b")).text(),
    );
    assert_ne!(a, b);
    assert_eq!(client.request("GET", "/api/vary", &of("a")).text(), a);
    assert_eq!(client.request("GET", "/api/vary", &of("b")).text(), b);
    // A request that changes the target drops what is stored.
    let before = client.get("/api/x").text();
    assert_eq!(client.get("/api/x").text(), before);
    let post = client.request("POST", "/api/x", &[("Content-Length", "0")]);
    assert_eq!(post.status, 200);
    assert_ne!(client.get("/api/x").text(), before);
}

fn one_request_goes_for_many(strategy: Strategy) {
    const CLIENTS: usize = 20;
    let tree = tree();
    // The upstream answers only when all other clients have asked.
    let (all_ask, asked) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (theirs, told) = (Arc::clone(&all_ask), Arc::clone(&asked));
    let upstream = numbered(move |number, _| {
        if number == 1 {
            told.wait();
            theirs.wait();
        }
        response(
            "200 OK",
            "Cache-Control: max-age=600\r\n",
            &format!("answer {number}"),
        )
    });
    let server = launch(strategy, &tree, &upstream, "true");
    let mut first = server.connect();
    let ask = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    first.send(ask("/api/x"));
    asked.wait();
    let mut others: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.connect();
            client.send(ask("/api/x"));
            client
        })
        .collect();
    eventually("all clients wait", || {
        let metrics = server.connect().get("/.weir/metrics").text();
        metrics
            .lines()
            .any(|line| {
                line.starts_with("weir_proxy_cache_collapsed_total") && line.ends_with(&format!(" {CLIENTS}"))
            })
            .then_some(())
    });
    all_ask.wait();
    assert_eq!(first.receive("GET").text(), "answer 1");
    for client in &mut others {
        let got = client.receive("GET");
        assert_eq!(got.text(), "answer 1");
        let status = status_of(&got);
        assert!(
            status.starts_with("weir; fwd=uri-miss; ttl=") && status.ends_with("; collapsed"),
            "{status}"
        );
    }
    assert_eq!(upstream.all().len(), 1);
}

fn a_stored_response_stands_in_for_an_error(strategy: Strategy) {
    let tree = tree();
    let upstream = numbered(|number, _| match number {
        1 => response("200 OK", "Cache-Control: max-age=0\r\nETag: \"a\"\r\n", "content"),
        2 => response("503 Service Unavailable", "", "error"),
        3 => String::new(),
        _ => response("404 Not Found", "", "gone"),
    });
    let server = launch(strategy, &tree, &upstream, "{ stale-if-error = \"1h\" }");
    let mut client = server.connect();
    assert_eq!(client.get("/api/x").text(), "content");
    for _ in 0..2 {
        let got = client.get("/api/x");
        assert_eq!((got.status, got.text()), (200, "content".to_owned()));
        assert!(status_of(&got).contains("stale-if-error"), "{}", status_of(&got));
    }
    assert_eq!(
        client.get("/api/x").status,
        404,
        "that is no failure of the upstream"
    );
    assert_eq!(client.get("/api/x").status, 404);
    assert_eq!(upstream.all().len(), 5);
}

fn a_stale_response_is_served_while_it_is_validated(strategy: Strategy) {
    let tree = tree();
    let upstream = numbered(|number, _| {
        let fields = match number {
            1 => "Cache-Control: max-age=0, stale-while-revalidate=600\r\nETag: \"a\"\r\n",
            _ => "Cache-Control: max-age=600\r\n",
        };
        response("200 OK", fields, &format!("answer {number}"))
    });
    let server = launch(strategy, &tree, &upstream, "true");
    assert_eq!(server.connect().get("/api/x").text(), "answer 1");
    let stale = server.connect().get("/api/x");
    assert_eq!(stale.text(), "answer 1");
    assert!(
        status_of(&stale).starts_with("weir; hit; ttl="),
        "{}",
        status_of(&stale)
    );
    // The client has left, and the response arrives nonetheless.
    eventually("the newer response", || {
        (server.connect().get("/api/x").text() == "answer 2").then_some(())
    });
    let all = upstream.all();
    assert_eq!(all.len(), 2);
    assert!(
        all[1].contains("If-None-Match: \"a\"") && all[1].contains("Connection: close"),
        "{}",
        all[1]
    );
}

fn errors_are_kept_for_a_while_if_the_rule_says_so(strategy: Strategy) {
    let tree = tree();
    let upstream = numbered(|number, _| response("404 Not Found", "", &number.to_string()));
    let server = launch(strategy, &tree, &upstream, "{ negative-time = \"1h\" }");
    let mut client = server.connect();
    for _ in 0..3 {
        let got = client.get("/api/x");
        assert_eq!((got.status, got.text()), (404, "1".to_owned()));
    }
}

fn a_response_without_an_upstream_is_still_served(strategy: Strategy) {
    let tree = tree();
    let config = format!("upstreams = [\"{GONE}\"]\ncache = true");
    let server = configured(strategy, &tree, &config);
    let got = server
        .connect()
        .request("GET", "/api/x", &[("Cache-Control", "only-if-cached")]);
    assert_eq!(got.status, 504);
    assert_eq!(server.connect().get("/api/x").status, 502);
}

fn stored_responses_are_purged(strategy: Strategy) {
    let tree = tree();
    let upstream = numbered(|number, got| {
        let tag = match got.contains("/api/b") {
            true => "Cache-Tag: x, y\r\n",
            false => "",
        };
        response(
            "200 OK",
            &format!("Cache-Control: max-age=600\r\n{tag}"),
            &number.to_string(),
        )
    });
    let socket = tree.path().join("control");
    let server = Launch::new(strategy)
        .root(tree.path())
        .args([
            format!("--proxy=/api={}", upstream.url),
            "--proxy-cache".to_owned(),
            format!("--control={}", socket.display()),
        ])
        .start();
    let purge = |what: &[&str]| {
        let run = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["ctl", "--socket"])
            .arg(&socket)
            .arg("purge")
            .args(what)
            .output()
            .expect("weir ctl");
        String::from_utf8(run.stdout).expect("text")
    };
    let mut client = server.connect();
    let mut get = |path: &str| client.get(path).text();
    for (path, number) in [
        ("/api/a", "1"),
        ("/api/b", "2"),
        ("/api", "3"),
        ("/api/a", "1"),
        ("/api", "3"),
    ] {
        assert_eq!(get(path), number, "both rules of the flag share a cache");
    }
    assert_eq!(purge(&["tag", "y"]), "done: 1 stored response is dropped\n");
    assert_eq!((get("/api/a"), get("/api/b")), ("1".to_owned(), "4".to_owned()));
    assert_eq!(
        purge(&["path", "/api/*"]),
        "done: 2 stored responses are dropped\n"
    );
    assert_eq!((get("/api"), get("/api/a")), ("3".to_owned(), "5".to_owned()));
    assert_eq!(purge(&["all"]), "done: 2 stored responses are dropped\n");
    assert_eq!(get("/api"), "6");
}

fn a_purge_reaches_all_worker_processes(strategy: Strategy) {
    let tree = tree();
    let upstream =
        numbered(|number, _| response("200 OK", "Cache-Control: max-age=600\r\n", &number.to_string()));
    let socket = tree.path().join("control");
    let server = Launch::new(strategy)
        .root(tree.path())
        .args([
            format!("--proxy=/api/*={}", upstream.url),
            "--proxy-cache".to_owned(),
            format!("--control={}", socket.display()),
        ])
        .start();
    let number = |client: &mut crate::serve::wire::Connection| -> u64 {
        client.get("/api/a").text().parse().expect("a number")
    };
    // Each process stores a response of its own.
    let mut clients = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    eventually("two processes that serve", || {
        let mut client = server.connect();
        seen.insert(number(&mut client));
        clients.push(client);
        (seen.len() >= 2).then_some(())
    });
    let before = seen.last().copied();
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["ctl", "--socket"])
        .arg(&socket)
        .args(["purge", "path", "/api/a"])
        .output()
        .expect("weir ctl");
    assert_eq!(
        String::from_utf8_lossy(&run.stdout),
        "done: all worker processes drop these stored responses\n"
    );
    for client in &mut clients {
        let after = number(client);
        assert!(Some(after) > before, "{after} was stored before the purge");
    }
}

on_strategy!(process_loops, PROCESS_LOOPS: a_purge_reaches_all_worker_processes);
on_strategy!(loops, LOOPS: a_fresh_response_is_served_without_the_upstream, a_stale_response_is_validated,
    what_must_not_be_stored_is_not, one_request_goes_for_many, a_stored_response_stands_in_for_an_error,
    a_stale_response_is_served_while_it_is_validated, errors_are_kept_for_a_while_if_the_rule_says_so,
    a_response_without_an_upstream_is_still_served, stored_responses_are_purged);
on_strategy!(one_loop_uring, ONE_LOOP_URING: a_fresh_response_is_served_without_the_upstream, one_request_goes_for_many);

/// RFC 9110 section 7.6.3.
#[test]
fn a_response_from_the_cache_names_the_proxies_it_passed() {
    let tree = tree();
    let upstream =
        numbered(|_, _| response("200 OK", "Cache-Control: max-age=60\r\nVia: 1.0 inner\r\n", "x"));
    let server = launch(Strategy::LOOPS, &tree, &upstream, "true");
    for is_hit in [false, true] {
        let got = server.connect().get("/api/a");
        assert_eq!(got.must("Via"), "1.0 inner, 1.1 weir");
        assert_eq!(got.must("Cache-Status").contains("; hit"), is_hit);
    }
}

#[test]
fn logs_tell_what_the_cache_did() {
    let tree = Tree::with(&[("site/a.txt", "a file")]);
    let upstream = numbered(|_, _| response("200 OK", "Cache-Control: max-age=600\r\n", "x"));
    let log = tree.join("access.log");
    let config = tree.write(
        "weir.toml",
        format!(
            "root = \"site\"\naccess-log = \"{}\"\nlog-template = \"$cache_status\"\n\
             [[proxy]]\npath = \"/api/*\"\nupstreams = [\"{}\"]\ncache = true\n\
             [[proxy]]\npath = \"/gone/*\"\nupstreams = [\"{GONE}\"]\ncache = true\n",
            log.display(),
            upstream.url
        ),
    );
    let mut server = Launch::new(Strategy::ONE_LOOP)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut client = server.connect();
    // The last of these are known from memory.
    for _ in 0..5 {
        assert_eq!(client.get("/api/x").text(), "x");
    }
    assert_eq!(client.get("/a.txt").text(), "a file");
    client.send("POST /api/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.receive("POST").status, 200);
    // An upstream that fails was asked for the same reasons.
    assert_eq!(client.get("/gone/x").status, 502);
    assert_eq!(server.stop(), 0);
    assert_eq!(
        std::fs::read_to_string(&log).expect("a log"),
        "uri-miss\nhit\nhit\nhit\nhit\n-\nmethod\nuri-miss\n"
    );
}
