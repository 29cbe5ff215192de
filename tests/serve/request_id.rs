//! Ids of requests: the same one in the response, at the upstream and in both logs; and whose ids are believed.

use crate::serve::frames;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::{GONE, HELLO, Upstream};
use crate::serve::tree::Tree;
use crate::serve::{on_every_strategy, on_strategy};
use std::collections::BTreeSet;

/// An id that a client sends.
const SENT: &str = "client-1";

/// Lines in front of the tables. Tests connect over loopback, so `trusted` decides whether they are believed.
fn launch(strategy: Strategy, upstream: &str, lines: &str) -> (Server, Tree) {
    let text = format!(
        r#"
root = "site"
access-log = "-"
log-format = "json"
http2 = "all"
{lines}

[[proxy]]
path = "/api/*"
upstreams = ["{upstream}"]

[[proxy]]
path = "/gone/*"
upstreams = ["{GONE}"]

[[access]]
path = "/asked/*"
auth = "{GONE}/verify"
"#
    );
    let tree = Tree::with(&[("weir.toml", &*text), ("site/a.txt", "a file")]);
    tree.link("site/out.txt", "/etc/passwd");
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    (server, tree)
}

/// Status and id of the response over HTTP/1, then over HTTP/2.
fn ask(server: &Server, path: &str, fields: &[(&str, &str)]) -> [(u16, Option<String>); 2] {
    let first = server.connect().request("GET", path, fields);
    let first = (first.status, first.field("X-Request-Id").map(str::to_owned));
    let mut client = frames::connect(server);
    let second = client.get(path, fields);
    let second = (second.status, second.field("x-request-id").map(str::to_owned));
    [first, second]
}

/// The ids in lines of the access log for this path, sorted, once there are so many.
fn logged(server: &Server, path: &str, count: usize) -> Vec<String> {
    eventually("lines of the access log", || {
        let log = server.stdout();
        let lines = log.lines().filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            let is_it = line["target"] == path;
            is_it.then(|| line["request_id"].as_str().unwrap_or_default().to_owned())
        });
        let mut ids: Vec<String> = lines.collect();
        // Each worker writes its lines when it likes.
        ids.sort();
        (ids.len() == count).then_some(ids)
    })
}

/// Waits for a warning about this path with this part.
fn warns(server: &Server, path: &str, part: &str) {
    eventually("a warning", || {
        let log = server.stderr();
        let mut lines = log.lines();
        lines
            .any(|line| line.contains(path) && line.contains(part))
            .then_some(())
    });
}

/// The ids that the upstream got.
fn passed(upstream: &Upstream, count: usize) -> Vec<String> {
    eventually("requests at the upstream", || {
        let all = upstream.all();
        let ids = all.iter().map(|got| {
            let lower = got.to_ascii_lowercase();
            let mut ids = lower
                .lines()
                .filter_map(|line| line.strip_prefix("x-request-id: "));
            let id = ids.next().map(str::to_owned);
            assert_eq!(ids.next(), None, "one line: {got}");
            id.unwrap_or_default()
        });
        (all.len() == count).then(|| ids.collect())
    })
}

fn a_request_has_one_id_everywhere(strategy: Strategy) {
    let upstream = Upstream::answering(HELLO);
    let (server, _tree) = launch(
        strategy,
        &upstream.url,
        "request-id = true\nrequest-id-answer = true",
    );
    let mut seen = BTreeSet::new();
    for (path, status) in [
        ("/a.txt", 200),
        ("/a.txt?again", 200),
        ("/missing", 404),
        ("/api/x", 200),
        ("/gone/x", 502),
        ("/asked/x", 502),
        ("/out.txt", 404),
    ] {
        // Whoever is not trusted is not believed.
        let answers = ask(&server, path, &[("x-request-id", SENT), ("x_request_id", SENT)]);
        let ids: Vec<String> = answers
            .into_iter()
            .map(|(got, id)| {
                let id = id.unwrap_or_else(|| panic!("{path} has no id"));
                assert_eq!(got, status, "{path}");
                let is_hex = id.bytes().all(|b| b.is_ascii_hexdigit());
                assert!(id.len() == 32 && is_hex, "{path}: {id}");
                assert!(seen.insert(id.clone()), "{path}: {id} again");
                id
            })
            .collect();
        let mut sorted = ids.clone();
        sorted.sort();
        assert_eq!(logged(&server, path, 2), sorted, "{path}");
        if path == "/api/x" {
            assert_eq!(passed(&upstream, 2), ids);
            assert!(!upstream.all().concat().contains(SENT), "{:?}", upstream.all());
        }
        // What fails for a reason of the system has a line in the server's own log.
        if ["/gone/x", "/asked/x", "/out.txt"].contains(&path) {
            // What is known to lead out of the root is not looked up, nor warned of, again.
            let warned = if path == "/out.txt" { 1 } else { 2 };
            for id in &ids[..warned] {
                warns(&server, path, &format!("(request {id}): "));
            }
        }
    }
}

fn requests_over_one_connection_have_different_ids(strategy: Strategy) {
    let upstream = Upstream::answering(HELLO);
    let (server, _tree) = launch(
        strategy,
        &upstream.url,
        "request-id = true\nrequest-id-answer = true",
    );
    let mut connection = server.connect();
    let mut ids = BTreeSet::new();
    for path in ["/a.txt", "/a.txt", "/api/x", "/missing", "/a.txt"] {
        ids.insert(connection.get(path).must("X-Request-Id").to_owned());
    }
    connection.send("BAD REQUEST\r\n\r\n");
    let refused = connection.receive("GET");
    assert_eq!(refused.status, 400);
    ids.insert(refused.must("X-Request-Id").to_owned());
    let mut client = frames::connect(&server);
    for path in ["/a.txt", "/a.txt", "/api/x", "/missing", "/a.txt"] {
        let id = client.get(path, &[]).field("x-request-id").map(str::to_owned);
        ids.insert(id.expect("an id"));
    }
    assert_eq!(ids.len(), 11, "{ids:?}");
}

fn a_trusted_peer_is_believed(strategy: Strategy) {
    let upstream = Upstream::answering(HELLO);
    let (server, _tree) = launch(
        strategy,
        &upstream.url,
        "trusted = \"127.0.0.0/8\"\nrequest-id = true\nrequest-id-answer = true",
    );
    let longest = "x".repeat(128);
    for id in [SENT, &longest] {
        for path in ["/a.txt", "/missing", "/gone/x"] {
            for (_, got) in ask(&server, path, &[("x-request-id", id)]) {
                assert_eq!(got.as_deref(), Some(id), "{path}");
            }
        }
    }
    ask(&server, "/api/x", &[("x-request-id", SENT)]);
    assert_eq!(passed(&upstream, 2), [SENT, SENT]);
    assert_eq!(logged(&server, "/api/x", 2), [SENT, SENT]);
    warns(&server, "/gone/x", &format!("(request {SENT}): "));
    // What is too long, has other characters or is not one value is not taken.
    let too_long = "x".repeat(129);
    for fields in [
        &[("x-request-id", &*too_long)][..],
        &[("x-request-id", "a b")],
        &[("x-request-id", "a\"b")],
        &[("x-request-id", "a"), ("x-request-id", "a")],
        &[],
    ] {
        for (_, got) in ask(&server, "/a.txt", fields) {
            assert_eq!(got.expect("an id").len(), 32, "{fields:?}");
        }
    }
}

fn without_the_key_there_are_none(strategy: Strategy) {
    let upstream = Upstream::answering(HELLO);
    let (server, _tree) = launch(strategy, &upstream.url, "trusted = \"127.0.0.0/8\"");
    for path in ["/a.txt", "/api/x", "/gone/x"] {
        for (_, id) in ask(&server, path, &[("x-request-id", SENT)]) {
            assert_eq!(id, None, "{path}");
        }
        assert_eq!(logged(&server, path, 2), ["", ""], "{path}");
    }
    // The field is one like any other.
    assert_eq!(passed(&upstream, 2), [SENT, SENT]);
    warns(&server, "/gone/x", "upstream");
    assert!(!server.stderr().contains("(request "), "{}", server.stderr());
}

fn the_field_may_have_another_name(strategy: Strategy) {
    let upstream = Upstream::answering(HELLO);
    let (server, _tree) = launch(
        strategy,
        &upstream.url,
        "request-id = \"X-Trace\"\nlog-template = \"$target <$request_id>\"",
    );
    let answer = server
        .connect()
        .request("GET", "/api/x", &[("X-Request-Id", SENT), ("X-Trace", "forged")]);
    assert_eq!(
        (answer.status, answer.field("X-Trace")),
        (200, None),
        "in responses only if asked for"
    );
    let got = eventually("the request at the upstream", || upstream.all().pop()).to_ascii_lowercase();
    assert!(
        got.contains(&format!("x-request-id: {SENT}")) && !got.contains("forged"),
        "{got}"
    );
    let (_, id) = got.split_once("x-trace: ").expect("an id");
    let id = id.lines().next().expect("a value");
    let line = format!("/api/x <{id}>");
    eventually("the line of the access log", || {
        server.stdout().lines().any(|known| known == line).then_some(())
    });
}

#[test]
fn mistakes_are_pointed_out() {
    for (flags, fragment) in [
        (&["--request-id=Host"][..], "`Host` is not a field for ids"),
        (&["--request-id=X-Forwarded-For"], "is not a field for ids"),
        (&["--request-id-answer"], "set `request-id = true`"),
        (
            &["--log-template", "$request_id", "--access-log", "-"],
            "set `request-id = true`",
        ),
    ] {
        let (code, err) = Launch::new(Strategy::LOOPS).args(flags).fail();
        assert_eq!(code, 2, "{flags:?}: {err}");
        assert!(err.contains(fragment), "{flags:?}: {err}");
    }
}

/// Whatever worker takes a connection, and however often it moves.
fn no_two_requests_share_an_id(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a file")]);
    let mut server = Launch::new(strategy)
        .root(tree.path())
        .args([
            "--request-id",
            "--request-id-answer",
            "--access-log=-",
            "--log-format=json",
        ])
        .start();
    let mut ids = BTreeSet::new();
    for _ in 0..4 {
        let mut connection = server.connect();
        for _ in 0..4 {
            ids.insert(connection.get("/a.txt").must("X-Request-Id").to_owned());
        }
    }
    assert_eq!(ids.len(), 16, "{ids:?}");
    assert_eq!(server.stop(), 0);
    let log = server.stdout();
    let logged = log.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        line["request_id"].as_str().map(str::to_owned)
    });
    assert_eq!(logged.collect::<BTreeSet<String>>(), ids);
}

on_every_strategy!(no_two_requests_share_an_id);
mod with_upstreams {
    use super::*;
    on_strategy!(
        loops, LOOPS:
        a_request_has_one_id_everywhere,
        requests_over_one_connection_have_different_ids,
        a_trusted_peer_is_believed,
        without_the_key_there_are_none,
        the_field_may_have_another_name
    );
    on_strategy!(
        loops_uring, LOOPS_URING:
        a_request_has_one_id_everywhere,
        requests_over_one_connection_have_different_ids,
        a_trusted_peer_is_believed
    );
    on_strategy!(
        process_loops, PROCESS_LOOPS:
        a_request_has_one_id_everywhere,
        requests_over_one_connection_have_different_ids,
        a_trusted_peer_is_believed
    );
}
