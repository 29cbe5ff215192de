//! Clients behind a proxy: the address that a trusted peer names counts for log, limits, access rules, live page and upstreams.
//! One that anybody else names does not.

use crate::serve::frames;
use crate::serve::on_each_back_end;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::{HELLO, Upstream};
use crate::serve::tree::Tree;

/// Tests connect over loopback, so this decides whether they are trusted.
fn launch(strategy: Strategy, trusted: &str, more: &str) -> (Server, Tree) {
    let text = format!(
        r#"
root = "site"
access-log = "-"
log-format = "json"
live = "local"
http2 = "all"
trusted = "{trusted}"
{more}

[[access]]
path = "/near/*"
allow = "192.0.2.0/24"
"#
    );
    let tree = Tree::with(&[
        ("weir.toml", &*text),
        ("site/a.txt", "a file"),
        ("site/near/a.txt", "near"),
    ]);
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    (server, tree)
}

fn ask(server: &Server, path: &str, fields: &[(&str, &str)]) -> u16 {
    let mut connection = server.connect();
    let status = connection.request("GET", path, fields).status;
    let mut client = frames::connect(server);
    let fields = [fields, &[(":authority", "weir.localhost")]].concat();
    assert_eq!(
        client.get(path, &fields).status,
        status,
        "{path}: HTTP/2 as HTTP/1"
    );
    status
}

fn a_trusted_peer_names_its_client(strategy: Strategy) {
    let (server, _tree) = launch(strategy, "127.0.0.0/8", "");
    for (fields, near, live) in [
        (&[][..], 403, 200),
        (&[("x-forwarded-for", "192.0.2.7")], 200, 404),
        // A client that is not trusted may claim anything in front.
        (&[("x-forwarded-for", "192.0.2.7, 203.0.113.9")], 403, 404),
        (&[("x-forwarded-for", "127.0.0.1, 203.0.113.9")], 403, 404),
        (
            &[("x-forwarded-for", "203.0.113.9, 192.0.2.7, 127.0.0.1")],
            200,
            404,
        ),
        (
            &[
                ("x-forwarded-for", "203.0.113.9"),
                ("x-forwarded-for", "192.0.2.7"),
            ],
            200,
            404,
        ),
        (&[("x-forwarded-for", "192.0.2.7, spoiled")], 403, 404),
        (&[("forwarded", "for=192.0.2.7")], 403, 200),
    ] {
        assert_eq!(ask(&server, "/near/a.txt", fields), near, "{fields:?}");
        assert_eq!(ask(&server, "/.weir/live.json", fields), live, "{fields:?}");
    }
    // The same head again, from another client: no answer from memory has the other's line.
    let mut connection = server.connect();
    for client in ["192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.2"] {
        let fields = [("X-Forwarded-For", client)];
        assert_eq!(connection.request("GET", "/a.txt", &fields).text(), "a file");
    }
    eventually("the lines in the log", || {
        let log = server.stdout();
        let lines = |client: &str| {
            let is_its =
                |line: &&str| line.contains("/a.txt") && line.contains(client) && !line.contains("near");
            log.lines().filter(is_its).count()
        };
        (lines("\"192.0.2.1\"") == 2 && lines("\"192.0.2.2\"") == 2).then_some(())
    });
}

fn nobody_else_does(strategy: Strategy) {
    let (server, _tree) = launch(strategy, "10.0.0.0/8", "");
    for value in ["192.0.2.7", "10.0.0.1", "192.0.2.7, 10.0.0.1"] {
        let fields = [("x-forwarded-for", value), ("forwarded", "for=192.0.2.7")];
        assert_eq!(ask(&server, "/near/a.txt", &fields), 403, "{value}");
        assert_eq!(ask(&server, "/.weir/live.json", &fields), 200, "{value}");
    }
    eventually("the peer in the log", || {
        let log = server.stdout();
        (log.contains("127.0.0.1") && !log.contains("192.0.2.7")).then_some(())
    });
}

fn the_other_field_can_be_chosen(strategy: Strategy) {
    let (server, _tree) = launch(strategy, "127.0.0.1", "trusted-field = \"Forwarded\"");
    for (fields, near) in [
        (
            &[("forwarded", "for=203.0.113.9, For=\"192.0.2.7:80\";proto=https")][..],
            200,
        ),
        (&[("forwarded", "for=192.0.2.7, for=_hidden")], 403),
        (&[("forwarded", "for=\"192.0.2.7, for=203.0.113.9")], 403),
        (&[("x-forwarded-for", "192.0.2.7")], 403),
    ] {
        assert_eq!(ask(&server, "/near/a.txt", fields), near, "{fields:?}");
    }
}

fn clients_share_no_rate(strategy: Strategy) {
    let (server, _tree) = launch(
        strategy,
        "127.0.0.1",
        "max-request-rate = 1\nmax-request-burst = 2\nmax-connections-per-address = 1",
    );
    // Two connections: the limit of one is for peers that are not trusted.
    let (mut first, mut second) = (server.connect(), server.connect());
    let line = |client: &str| format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n");
    first.send(line("192.0.2.1").repeat(20));
    let all: Vec<u16> = (0..20).map(|_| first.receive("GET").status).collect();
    assert_eq!(all[..2], [200, 200]);
    assert!(all.contains(&429), "{all:?}");
    second.send(line("192.0.2.2"));
    assert_eq!(second.receive("GET").status, 200);
}

on_each_back_end!(
    a_trusted_peer_names_its_client,
    nobody_else_does,
    the_other_field_can_be_chosen,
    clients_share_no_rate,
);

#[test]
fn upstreams_get_the_whole_chain() {
    let upstream = Upstream::answering(HELLO);
    let proxy = format!("[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{}\"]", upstream.url);
    let (server, _tree) = launch(Strategy::LOOPS, "127.0.0.0/8", &proxy);
    let fields = [
        ("X-Forwarded-For", "1.1.1.1, 203.0.113.9, 127.0.0.2"),
        ("X-Forwarded-Proto", "https"),
        ("Forwarded", "for=1.1.1.1"),
    ];
    assert_eq!(server.connect().request("GET", "/api/x", &fields).status, 200);
    let got = upstream.first();
    let expected = "X-Forwarded-For: 203.0.113.9, 127.0.0.2, 127.0.0.1\r\nX-Forwarded-Proto: https\r\n\
                    Forwarded: for=203.0.113.9;proto=https;host=\"weir.localhost\", for=127.0.0.2, for=127.0.0.1\r\n";
    assert!(got.contains(expected), "{got}");
}

#[test]
fn upstreams_hear_of_https_from_trusted_proxies_only() {
    for (trusted, scheme, passes) in [
        ("127.0.0.0/8", Some(("X-Forwarded-Proto", "https")), true),
        ("127.0.0.0/8", Some(("X-Forwarded-Proto", "http")), false),
        ("127.0.0.0/8", None, false),
        // The default of `trusted-field` selects the other field.
        (
            "127.0.0.0/8",
            Some(("Forwarded", "for=192.0.2.7;proto=http")),
            false,
        ),
        (
            "127.0.0.0/8",
            Some(("Forwarded", "for=192.0.2.7;proto=https")),
            false,
        ),
        ("10.0.0.0/8", Some(("X-Forwarded-Proto", "https")), false),
    ] {
        let upstream = Upstream::answering(HELLO);
        let proxy = format!("[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{}\"]", upstream.url);
        let (server, _tree) = launch(Strategy::LOOPS, trusted, &proxy);
        let claims = [
            ("X-Forwarded-Ssl", "on"),
            ("X-Forwarded-Scheme", "https"),
            ("X-Forwarded-Protocol", "https"),
            ("Front-End-Https", "on"),
            ("X-Scheme", "https"),
            ("X-Url-Scheme", "https"),
        ];
        let mut fields = claims.to_vec();
        fields.extend(scheme);
        assert_eq!(server.connect().request("GET", "/api/x", &fields).status, 200);
        let got = upstream.first();
        for (name, value) in claims {
            let line = format!("\r\n{name}: {value}\r\n");
            assert_eq!(got.contains(&line), passes, "{trusted} {scheme:?}: {name}: {got}");
        }
    }
}

#[test]
fn https_may_end_at_the_proxy() {
    for (trusted, redirected) in [("127.0.0.1", false), ("10.0.0.0/8", true)] {
        let (server, _tree) = launch(Strategy::LOOPS, trusted, "https-redirect = 8443");
        let fields = [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-proto", "https")];
        assert_eq!(
            ask(&server, "/a.txt", &fields),
            if redirected { 308 } else { 200 }
        );
        let fields = [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-proto", "http")];
        assert_eq!(ask(&server, "/a.txt", &fields), 308);
        assert_eq!(ask(&server, "/a.txt", &[]), 308);
    }
}

#[test]
fn a_reload_changes_whom_to_trust() {
    let (server, tree) = launch(Strategy::LOOPS, "10.0.0.0/8", "");
    let fields = [("x-forwarded-for", "192.0.2.7")];
    let mut open = server.connect();
    assert_eq!(open.request("GET", "/near/a.txt", &fields).status, 403);
    let file = tree.join("weir.toml");
    let text = std::fs::read_to_string(&file).expect("the file");
    std::fs::write(&file, text.replace("10.0.0.0/8", "127.0.0.0/8")).expect("the file");
    server.signal("HUP");
    eventually("the new networks", || {
        let status = open.request("GET", "/near/a.txt", &fields).status;
        (status == 200).then_some(())
    });
}

#[test]
fn nobody_can_trust_everyone() {
    for network in ["all", "0.0.0.0/0", "::/0"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--check", "--trusted", network])
            .output()
            .expect("the program runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("trusted") && told.contains("10.0.0.0/8"), "{told}");
    }
}
