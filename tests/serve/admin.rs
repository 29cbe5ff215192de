//! The admin listener: the live page and the metrics at addresses of their own, for those who have the token
//! or a certificate.

use crate::serve::certificates::Members;
use crate::serve::listeners::address;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::net::SocketAddr;
use std::sync::Arc;
use tls::rustls::ClientConfig;

const TOKEN: &str = "0123456789abcdef0123";

fn launch(strategy: Strategy, admin: &str) -> (Tree, Server) {
    let tree = Tree::with(&[
        ("site/index.html", "page"),
        ("site/metrics", "a file"),
        ("token", &format!("{TOKEN}\n")),
        (
            "weir.toml",
            &format!(
                "root = 'site'\nlive = 'all'\n[[proxy]]\npath = '/api/*'\n\
                 upstreams = ['http://127.0.0.1:1']\n[admin]\nlisten = '127.0.0.1:0'\n{admin}\n"
            ),
        ),
    ]);
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    (tree, server)
}

fn ask(address: SocketAddr, path: &str, authorization: &str) -> Response {
    let mut connection = Connection::open(address);
    let field = match authorization {
        "" => String::new(),
        value => format!("Authorization: {value}\r\n"),
    };
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n"));
    connection.receive("GET")
}

fn figures_are_at_the_admin_address_only(strategy: Strategy) {
    let (_tree, server) = launch(strategy, "");
    let admin = address(&server, 1);
    for path in [
        "/",
        "/.weir/",
        "/metrics",
        "/.weir/metrics",
        "/live.json",
        "/healthz",
        "/readyz",
    ] {
        assert_eq!(ask(admin, path, "").status, 200, "{path}");
    }
    assert!(ask(admin, "/metrics", "").text().contains("weir_requests"));
    // Neither files nor upstreams.
    for path in ["/index.html", "/api/x", "/.weir/none"] {
        assert_eq!(ask(admin, path, "").status, 404, "{path}");
    }
    let mut connection = Connection::open(admin);
    assert_eq!(connection.request("POST", "/metrics", &[]).status, 405);
    // The public address answers the same heads with its files, whatever was asked before.
    for _ in 0..3 {
        assert_eq!(ask(server.address, "/", "").text(), "page");
        assert_eq!(ask(server.address, "/metrics", "").text(), "a file");
        assert!(ask(admin, "/", "").text().contains("<title>"));
        for path in ["/.weir/", "/.weir/metrics", "/live.json"] {
            assert_eq!(ask(server.address, path, "").status, 404, "{path}");
        }
    }
}

fn a_token_is_needed(strategy: Strategy) {
    let (tree, server) = launch(strategy, "token-file = 'token'");
    let admin = address(&server, 1);
    let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
    for (authorization, status) in [
        (String::new(), 401),
        (format!("Bearer {TOKEN}"), 200),
        (format!("bearer  {TOKEN}"), 200),
        (format!("Bearer {TOKEN}x"), 401),
        ("Bearer".to_owned(), 401),
        (basic(&format!("anyone:{TOKEN}")), 200),
        (basic(&format!("{TOKEN}:")), 401),
        ("Basic !".to_owned(), 401),
        (format!("Digest {TOKEN}"), 401),
    ] {
        for path in ["/metrics", "/none"] {
            let answer = ask(admin, path, &authorization);
            let wanted = if status == 200 && path == "/none" {
                404
            } else {
                status
            };
            assert_eq!(answer.status, wanted, "{path} {authorization}");
        }
    }
    let challenges = ask(admin, "/metrics", "").fields;
    let challenges = challenges
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("www-authenticate"));
    assert_eq!(challenges.count(), 2);
    assert_eq!(ask(server.address, "/", "").text(), "page");
    drop(server);
    tree.write("token", "short");
    let (code, printed) = Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .fail();
    assert!(
        code == 2 && printed.contains("openssl rand -hex 32"),
        "{code}: {printed}"
    );
}

/// A server that accepts one connection after the other learns late that earlier ones were closed.
fn who_comes_again_and_again_is_served(strategy: Strategy) {
    let (_tree, server) = launch(strategy, "token-file = 'token'");
    let admin = address(&server, 1);
    for _ in 0..1_000 {
        assert_eq!(ask(admin, "/metrics", "").status, 401);
    }
}

fn a_certificate_is_needed(strategy: Strategy) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let (members, strangers) = (Members::new("Alice"), Members::new("Mallory"));
    pairs.tree.write("members.pem", &members.authority);
    let config = pairs.tree.write(
        "weir.toml",
        "root = 'site'\n[admin]\nlisten = '127.0.0.2:0'\n\
         tls = { cert = 'a.pem', key = 'a.key', client-ca = 'members.pem' }\n",
    );
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let admin = address(&server, 1);
    // In TLS 1.3 a client learns of its refusal only when it reads.
    let answer = |client: &Arc<ClientConfig>, path: &str| -> Option<String> {
        let mut secure = Secure::try_open(admin, client, "a.test").ok()?;
        secure.try_ask(path)
    };
    let (anyone, stranger, member) = (pairs.client(), strangers.client(&pairs), members.client(&pairs));
    // The second time, the member resumes its session.
    for _ in 0..2 {
        for path in ["/", "/metrics", "/live.json", "/healthz", "/none"] {
            assert_eq!(answer(&anyone, path), None, "no certificate: {path}");
            assert_eq!(answer(&stranger, path), None, "of another authority: {path}");
            let status = if path == "/none" { "404" } else { "200" };
            let text = answer(&member, path).unwrap_or_default();
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {text}");
        }
        let metrics = answer(&member, "/metrics").unwrap_or_default();
        assert!(metrics.contains("weir_requests"), "{metrics}");
    }
    assert_eq!(ask(admin, "/metrics", "").status, 400, "in cleartext");
    assert_eq!(ask(server.address, "/", "").text(), "hello");
    assert_eq!(ask(server.address, "/metrics", "").status, 404);
}

on_strategy!(
    loops, LOOPS: figures_are_at_the_admin_address_only, a_token_is_needed, a_certificate_is_needed,
    who_comes_again_and_again_is_served
);
on_strategy!(
    loops_uring, LOOPS_URING: figures_are_at_the_admin_address_only, a_token_is_needed, a_certificate_is_needed
);
