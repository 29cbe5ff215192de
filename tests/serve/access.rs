//! Access rules: who may have which paths, however the path is spelled and whatever answers it.

use crate::serve::frames;
use crate::serve::on_each_back_end;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::{HELLO, Upstream};
use crate::serve::tls::Pairs;
use crate::serve::tree::Tree;
use crate::serve::wire::Connection;
use std::process::Command;

/// `ann`'s password is `secret`, hashed by bcrypt; `bob`'s is too, by SHA-512-crypt.
pub(crate) const USERS: &str = "# users\n\
    ann:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n\
    bob:$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1\n";

const ANN: (&str, &str) = ("Authorization", "Basic YW5uOnNlY3JldA==");
const BOB: (&str, &str) = ("Authorization", "Basic Ym9iOnNlY3JldA==");
const WRONG: (&str, &str) = ("Authorization", "Basic YW5uOndyb25n");
const NOBODY: (&str, &str) = ("Authorization", "Basic eHg6c2VjcmV0");

const CONFIG: &str = r#"
root = "site"
access-log = "access.log"
log-format = "json"
live = "all"
health = true
listing = true

[[redirect]]
from = "/admin/old"
to = "/admin/a.txt"

[[access]]
path = "/admin/*"
htpasswd = "users"
realm = "Administration"

[[access]]
path = "/.weir/*"
htpasswd = "users"

[[access]]
path = "/nobody/*"
deny = "all"

[[access]]
path = "/near/*"
allow = ["127.0.0.0/8", "::1"]

[[access]]
path = "/far/*"
allow = ["192.0.2.0/24", "2001:db8::/32"]

[[access]]
path = "/either/*"
allow = "192.0.2.0/24"
htpasswd = "users"
satisfy = "any"

[[host]]
names = ["open.test"]
access = []

[[host]]
names = ["own.test"]
access = [{ path = "/", htpasswd = "users", realm = "Own" }]
[host.error-pages]
401 = "/401.html"
"#;

fn tree() -> Tree {
    Tree::with(&[
        ("weir.toml", CONFIG),
        ("users", USERS),
        ("site/a.txt", "public"),
        ("site/401.html", "who are you?"),
        ("site/admin/a.txt", "0123456789"),
        ("site/admin/index.html", "<p>admin"),
        ("site/nobody/a.txt", "nobody"),
        ("site/near/a.txt", "near"),
        ("site/far/a.txt", "far"),
        ("site/either/a.txt", "either"),
    ])
}

fn launch(strategy: Strategy, tree: &Tree) -> Server {
    let config = tree.join("weir.toml");
    Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .args(["--http2=all"])
        .start()
}

fn status(connection: &mut Connection, path: &str, fields: &[(&str, &str)]) -> u16 {
    connection.request("GET", path, fields).status
}

fn a_password_opens_a_path(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    for round in 0..4 {
        // More than twice, as what was met before is answered in another way.
        let answer = connection.get("/admin/a.txt");
        assert_eq!(answer.status, 401, "{round}");
        assert_eq!(
            answer.must("WWW-Authenticate"),
            "Basic realm=\"Administration\", charset=\"UTF-8\""
        );
        assert!(!answer.text().contains("0123456789") && answer.text().contains("password"));
        for (who, wanted) in [(ANN, 200), (WRONG, 401), (BOB, 200), (NOBODY, 401)] {
            let answer = connection.request("GET", "/admin/a.txt", &[who]);
            assert_eq!(answer.status, wanted, "{round} {who:?}");
            assert_eq!(answer.field("WWW-Authenticate").is_some(), wanted == 401);
            assert_eq!(answer.text() == "0123456789", wanted == 200);
        }
        assert_eq!(connection.get("/a.txt").text(), "public");
    }
    let answer = connection.request("HEAD", "/admin/a.txt", &[]);
    assert_eq!((answer.status, answer.text().as_str()), (401, ""));
    for fields in [
        &[("Range", "bytes=2-4")][..],
        &[("If-None-Match", "*")],
        &[("If-Modified-Since", "Fri, 01 Jan 2038 00:00:00 GMT")],
        &[("Accept-Encoding", "gzip")],
    ] {
        assert_eq!(status(&mut connection, "/admin/a.txt", fields), 401, "{fields:?}");
    }
    let ranged = connection.request("GET", "/admin/a.txt", &[("Range", "bytes=2-4"), ANN]);
    assert_eq!((ranged.status, ranged.text().as_str()), (206, "234"));
    for method in ["OPTIONS", "POST", "DELETE"] {
        assert_eq!(
            connection.request(method, "/admin/a.txt", &[]).status,
            401,
            "{method}"
        );
    }
    // Redirects, of the configuration and to a directory, say what there is.
    for path in ["/admin/old", "/admin"] {
        let answer = connection.get(path);
        assert_eq!((answer.status, answer.field("Location")), (401, None), "{path}");
        assert_eq!(connection.request("GET", path, &[ANN]).status, 301, "{path}");
    }
    // The live page is no exception.
    assert_eq!(status(&mut connection, "/.weir/live.json", &[]), 401);
    assert_eq!(status(&mut connection, "/.weir/live.json", &[ANN]), 200);
    assert_eq!(status(&mut connection, "/healthz", &[]), 200);
}

fn networks_open_and_close_paths(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    for _ in 0..3 {
        for (path, fields, wanted) in [
            ("/nobody/a.txt", &[][..], 403),
            ("/nobody/a.txt", &[ANN], 403),
            ("/nobody/missing", &[], 403),
            ("/near/a.txt", &[], 200),
            ("/near/missing", &[], 404),
            ("/far/a.txt", &[], 403),
            ("/either/a.txt", &[], 401),
            ("/either/a.txt", &[ANN], 200),
            ("/a.txt", &[], 200),
        ] {
            let answer = connection.request("GET", path, fields);
            assert_eq!(answer.status, wanted, "{path} {fields:?}");
        }
    }
}

const REFUSALS: &str = r#"
root = "site"

[[redirect]]
from = "/gone/moved"
to = "/a.txt"

[[access]]
path = "/gone/kept.txt"
allow = "all"

[[access]]
path = "/gone/*"
deny = "all"
status = 410

[[access]]
path = "/banned/*"
deny = "127.0.0.0/8"
status = 451

[[access]]
path = "/hidden/*"
allow = "192.0.2.1"
status = 404

[error-pages]
410 = "/gone.html"
"#;

fn a_refusal_has_the_status_of_its_rule(strategy: Strategy) {
    let tree = Tree::with(&[
        ("weir.toml", REFUSALS),
        ("site/a.txt", "public"),
        ("site/gone.html", "<p>It is gone."),
        ("site/gone/a.txt", "old"),
        ("site/gone/kept.txt", "kept"),
        ("site/banned/a.txt", "banned"),
        ("site/hidden/a.txt", "hidden"),
    ]);
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    let mut client = frames::connect(&server);
    for (path, wanted) in [
        ("/gone/a.txt", 410),
        ("/gone/missing", 410),
        ("/GONE/a.txt", 410),
        ("/gone/moved", 410),
        ("/gone", 410),
        ("/gone/kept.txt", 200),
        ("/banned/a.txt", 451),
        ("/hidden/a.txt", 404),
        ("/missing", 404),
    ] {
        for method in ["GET", "HEAD"] {
            assert_eq!(
                connection.request(method, path, &[]).status,
                wanted,
                "{method} {path}"
            );
        }
        assert_eq!(client.get(path, &[]).status, wanted, "HTTP/2 {path}");
    }
    let posted = connection.request("POST", "/gone/a.txt", &[]);
    assert_eq!((posted.status, posted.text().as_str()), (410, "<p>It is gone."));
    let banned = connection.get("/banned/a.txt").text();
    assert!(banned.contains("451 Unavailable For Legal Reasons"), "{banned}");
}

#[test]
fn what_is_gone_does_not_reach_the_upstream() {
    let upstream = Upstream::answering(HELLO);
    let config = format!(
        "[[proxy]]\npath = \"/*\"\nupstreams = [\"{}\"]\n[[access]]\npath = \"/gone/*\"\ndeny = \"all\"\nstatus = 410\n",
        upstream.url
    );
    let tree = Tree::with(&[("weir.toml", &config)]);
    let server = launch(Strategy::LOOPS, &tree);
    let mut connection = server.connect();
    connection.send(crate::serve::wire::head("PUT", "/gone/x", &[("Content-Length", "3")]) + "abc");
    assert_eq!(connection.receive("PUT").status, 410);
    let mut client = frames::connect(&server);
    assert_eq!(client.get("/gone/y", &[]).status, 410);
    assert_eq!(client.get("/here", &[]).text(), "hello");
    let all = upstream.all();
    assert!(all.len() == 1 && all[0].starts_with("GET /here "), "{all:?}");
}

#[test]
fn an_explanation_names_the_status_of_a_refusal() {
    let tree = Tree::with(&[("weir.toml", REFUSALS), ("site/a.txt", "public")]);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--config"])
        .arg(tree.join("weir.toml"))
        .args(["--explain", "GET /gone/x"])
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("is not admitted: 410"), "{text}");
}

const SPELLINGS: [&str; 20] = [
    "/nobody/a.txt",
    "//nobody/a.txt",
    "/%6eobody/a.txt",
    "/%6E%6F%62%6F%64%79/a.txt",
    "/x/../nobody/a.txt",
    "/x/%2e%2e/nobody/a.txt",
    "/./nobody/./a.txt",
    "/nobody//a.txt",
    "/nobody/../nobody/a.txt",
    "/near/../nobody/a.txt",
    "/NOBODY/a.txt",
    "/Nobody/a.txt",
    "/nobody/a.txt?x=/near/",
    "/nobody",
    "/nobody/",
    "/nobody/.",
    "/x/..%2fnobody/a.txt",
    "/nobody%2fa.txt",
    "/nobody/a.txt.gz",
    "/nobody/%61.txt",
];

fn no_spelling_avoids_a_rule(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    let mut client = frames::connect(&server);
    for _ in 0..2 {
        for path in SPELLINGS {
            assert_eq!(status(&mut connection, path, &[]), 403, "{path}");
            assert_eq!(client.get(path, &[]).status, 403, "HTTP/2: {path}");
        }
        connection.send("GET http://weir.localhost//nobody/a.txt HTTP/1.1\r\nHost: open.test\r\n\r\n");
        assert_eq!(connection.receive("GET").status, 403);
        for path in ["/near/a.txt", "/%6eear/a.txt", "/nobody/../near/a.txt"] {
            let wanted = if path.contains("nobody") { 403 } else { 200 };
            assert_eq!(status(&mut connection, path, &[]), wanted, "{path}");
        }
    }
    let mut old = server.connect();
    old.send("GET /nobody/a.txt HTTP/1.0\r\n\r\n");
    assert_eq!(old.receive("GET").status, 403);
}

fn http2_asks_for_passwords_too(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    let mut client = frames::connect(&server);
    for _ in 0..3 {
        let answer = client.get("/admin/a.txt", &[]);
        let realm = "Basic realm=\"Administration\", charset=\"UTF-8\"";
        assert_eq!(
            (answer.status, answer.field("www-authenticate")),
            (401, Some(realm))
        );
        for (who, wanted) in [(ANN, 200), (WRONG, 401), (BOB, 200)] {
            let answer = client.get("/admin/a.txt", &[("authorization", who.1)]);
            assert_eq!(answer.status, wanted, "{who:?}");
            assert_eq!(answer.text() == "0123456789", wanted == 200);
        }
        assert_eq!(client.get("/far/a.txt", &[]).status, 403);
    }
    // Several at once, all of which wait for checks.
    let streams: Vec<u32> = (0..6)
        .map(|n| {
            let who = if n % 2 == 0 { WRONG } else { ANN };
            client.ask_as("/admin/", &[("authorization", who.1)])
        })
        .collect();
    for (n, stream) in streams.into_iter().enumerate() {
        assert_eq!(client.end_of(stream).status, [401, 200][n % 2]);
    }
}

fn hosts_have_rules_of_their_own(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    let mut ask = |host: &str, path: &str, more: &str| {
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"));
        connection.receive("GET")
    };
    for _ in 0..3 {
        assert_eq!(ask("open.test", "/admin/a.txt", "").status, 200);
        assert_eq!(ask("other.test", "/admin/a.txt", "").status, 401);
        let answer = ask("own.test", "/a.txt", "");
        assert_eq!((answer.status, answer.text().as_str()), (401, "who are you?"));
        assert!(answer.must("WWW-Authenticate").contains("\"Own\""));
        let more = format!("{}: {}\r\n", ANN.0, ANN.1);
        assert_eq!(ask("own.test", "/a.txt", &more).text(), "public");
    }
}

fn the_log_names_verified_users(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    for (path, who) in [
        ("/admin/a.txt?ann", ANN),
        ("/admin/a.txt?bob", BOB),
        ("/admin/a.txt?wrong", WRONG),
        ("/a.txt?free", ANN),
    ] {
        connection.request("GET", path, &[who]);
    }
    for (path, user) in [
        ("?ann", Some("ann")),
        ("?bob", Some("bob")),
        ("?wrong", None),
        ("?free", None),
    ] {
        let line = eventually("the line in the log", || {
            let log = std::fs::read_to_string(tree.join("access.log")).expect("a log");
            log.lines().find(|line| line.contains(path)).map(str::to_owned)
        });
        let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(line["user"].as_str(), user, "{line}");
    }
}

fn a_reload_reads_users_and_rules_again(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    assert_eq!(status(&mut connection, "/admin/a.txt", &[ANN]), 200);
    assert_eq!(status(&mut connection, "/admin/a.txt", &[BOB]), 200);
    // A file that cannot be used changes nothing.
    tree.replace("users", "ann:secret\n");
    server.signal("HUP");
    eventually("the complaint", || {
        server.stderr().contains("htpasswd -B").then_some(())
    });
    assert_eq!(status(&mut connection, "/admin/a.txt", &[ANN]), 200);
    let bob = USERS.lines().find(|line| line.starts_with("bob")).expect("bob");
    tree.replace("users", bob);
    server.signal("HUP");
    eventually("a password that is no longer one", || {
        (status(&mut server.connect(), "/admin/a.txt", &[ANN]) == 401).then_some(())
    });
    assert_eq!(status(&mut connection, "/admin/a.txt", &[BOB]), 200);
}

fn upstreams_get_admitted_requests_only(strategy: Strategy) {
    let tree = tree();
    let upstream = Upstream::answering(HELLO);
    let text = format!(
        "{CONFIG}\n[[proxy]]\npath = \"/admin/api/*\"\nupstreams = [\"{0}\"]\n[[proxy]]\npath = \"/far/*\"\nupstreams = [\"{0}\"]\n",
        upstream.url
    );
    // Tables of the top level must come before those of hosts.
    let (top, hosts) = CONFIG.split_once("[[host]]").expect("hosts");
    let text = text.replace(CONFIG, top) + "\n[[host]]" + hosts;
    tree.write("weir.toml", text);
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    assert_eq!(status(&mut connection, "/admin/api/0", &[]), 401);
    assert_eq!(status(&mut connection, "/%61dmin/api/0", &[]), 401);
    assert_eq!(status(&mut connection, "/ADMIN/api/0", &[]), 401);
    assert_eq!(status(&mut connection, "/far/0", &[]), 403);
    assert_eq!(status(&mut connection, "/admin/api/0", &[WRONG]), 401);
    // A body that nobody reads ends the connection, but not before the answer.
    for who in [&[][..], &[WRONG]] {
        let mut other = server.connect();
        let fields = [&[("Content-Length", "3")], who].concat();
        other.send(crate::serve::wire::head("POST", "/admin/api/0", &fields) + "abc");
        assert_eq!(other.receive("POST").status, 401, "{who:?}");
    }
    // The first request with a password waits for its check, and its body with it; the next does not.
    for n in 1..3 {
        let fields = [("Content-Length", "3"), ANN];
        connection.send(crate::serve::wire::head("POST", &format!("/admin/api/{n}"), &fields) + "abc");
        assert_eq!(connection.receive("POST").text(), "hello");
        assert_eq!(connection.get("/a.txt").text(), "public");
    }
    let mut client = frames::connect(&server);
    assert_eq!(client.get("/admin/api/0", &[]).status, 401);
    assert_eq!(
        client.get("/admin/api/0", &[("authorization", WRONG.1)]).status,
        401
    );
    for n in 3..5 {
        let fields = [(":method", "POST"), ("authorization", BOB.1)];
        let stream = client.open(&format!("/admin/api/{n}"), &fields, false);
        assert!(client.send_body(stream, b"abc"));
        client.end(stream, &[]);
        assert_eq!(client.end_of(stream).text(), "hello", "{n}");
        let fields = [(":method", "POST"), ("authorization", WRONG.1)];
        let stream = client.open("/admin/api/0", &fields, false);
        client.send_body(stream, b"abc");
        assert_eq!(client.end_of(stream).status, 401);
    }
    let got = eventually("four requests at the upstream", || {
        let all = upstream.all();
        (all.len() >= 4).then_some(all)
    });
    let paths: Vec<&str> = got
        .iter()
        .map(|one| one.split(' ').nth(1).expect("a target"))
        .collect();
    assert_eq!(
        paths,
        ["/admin/api/1", "/admin/api/2", "/admin/api/3", "/admin/api/4"]
    );
    assert!(got.iter().all(|one| one.contains("abc")), "{got:?}");
    let line = eventually("the line in the log", || {
        let log = std::fs::read_to_string(tree.join("access.log")).expect("a log");
        log.lines()
            .find(|line| line.contains("/admin/api/3"))
            .map(str::to_owned)
    });
    assert!(line.contains("\"user\":\"bob\""), "{line}");
}

fn some_users_of_a_file_are_admitted(strategy: Strategy) {
    let tree = tree();
    let upstream = Upstream::answering(HELLO);
    let text = format!(
        "root = 'site'\n[[access]]\npath = '/admin/*'\nhtpasswd = 'users'\nusers = ['ann', 'eve']\n\
         [[proxy]]\npath = '/admin/api/*'\nupstreams = ['{}']\n",
        upstream.url
    );
    tree.write("weir.toml", text);
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    // The second time, the passwords are known.
    for _ in 0..2 {
        for (who, wanted) in [(ANN, 200), (BOB, 403), (WRONG, 401), (NOBODY, 401)] {
            assert_eq!(status(&mut connection, "/admin/a.txt", &[who]), wanted, "{who:?}");
            assert_eq!(status(&mut connection, "/admin/api/0", &[who]), wanted, "{who:?}");
        }
    }
    // The first request of a server with this password, and it has a body.
    let other = launch(strategy, &tree);
    let mut connection = other.connect();
    let fields = [("Content-Length", "3"), BOB];
    connection.send(crate::serve::wire::head("POST", "/admin/api/0", &fields) + "abc");
    assert_eq!(connection.receive("POST").status, 403);
    let other = launch(strategy, &tree);
    let mut client = frames::connect(&other);
    let stream = client.open(
        "/admin/api/0",
        &[(":method", "POST"), ("authorization", BOB.1)],
        false,
    );
    client.send_body(stream, b"abc");
    assert_eq!(client.end_of(stream).status, 403);
    eventually("a warning of a user who does not exist", || {
        server.stderr().contains("does not have: `eve`").then_some(())
    });
}

#[test]
fn passwords_in_cleartext_are_warned_of() {
    let tree = tree();
    let server = launch(Strategy::LOOPS, &tree);
    eventually("the warning", || {
        let said = server.stderr();
        (said.contains("readable on the network") && said.contains("no TLS")).then_some(())
    });
}

/// The default of Apache's `htpasswd`.
#[test]
fn weak_hashes_of_apache_are_accepted_and_warned_of() {
    const RIGHT: (&str, &str) = ("Authorization", "Basic Y2Fyb2w6c2VjcmV0");
    const OTHER: (&str, &str) = ("Authorization", "Basic Y2Fyb2w6d3Jvbmc=");
    const WARNING: &str = "the passwords of 1 of 3 users are hashed by MD5";
    let tree = tree();
    tree.replace(
        "users",
        format!("{USERS}carol:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\n"),
    );
    let server = launch(Strategy::LOOPS, &tree);
    let mut connection = server.connect();
    for _ in 0..3 {
        assert_eq!(status(&mut connection, "/admin/a.txt", &[RIGHT]), 200);
        assert_eq!(status(&mut connection, "/admin/a.txt", &[OTHER]), 401);
        assert_eq!(status(&mut connection, "/admin/a.txt", &[ANN]), 200);
    }
    let said = eventually("the warning", || {
        let said = server.stderr();
        said.contains(WARNING).then_some(said)
    });
    // Several rules name the file.
    assert_eq!(said.matches(WARNING).count(), 1, "{said}");
    assert!(said.contains("htpasswd -B"), "{said}");
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--check", "--config"])
        .arg(tree.join("weir.toml"))
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(WARNING), "{said}");
}

#[test]
fn nobody_is_asked_for_a_password_where_https_is_the_address() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs.tree.write("users", USERS);
    pairs.tree.write("site/admin/a.txt", "admin");
    let text = "root = 'site'\nhttps-redirect = 8443\nlive = 'all'\n\
        [[access]]\npath = '/admin/*'\nhtpasswd = 'users'\n\
        [[access]]\npath = '/.weir/*'\nhtpasswd = 'users'\n\
        [[listener]]\naddress = '127.0.0.2:0'\ntls = { cert = 'a.pem', key = 'a.key' }\n";
    let config = pairs.tree.write("weir.toml", text);
    let server = Launch::new(Strategy::LOOPS)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut connection = server.connect();
    for path in ["/admin/a.txt", "/.weir/live.json"] {
        for who in [&[][..], &[ANN]] {
            let answer = connection.request("GET", path, who);
            assert_eq!(
                answer.must("Location"),
                format!("https://weir.localhost:8443{path}")
            );
            assert_eq!(answer.field("WWW-Authenticate"), None);
        }
    }
    assert!(!server.stderr().contains("readable on the network"));
}

#[test]
fn files_that_cannot_be_used_end_the_start() {
    let tree = tree();
    for (users, advice) in [
        ("ann:secret\n", "line 1"),
        ("ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n", "htpasswd -B"),
        ("ann:rqXexS6ZhobKA\n", "htpasswd -B"),
        ("# users\nann:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ\n", "line 2"),
        ("", "no users"),
    ] {
        tree.replace("users", users);
        for check in [&[][..], &["--check"]] {
            let config = tree.join("weir.toml");
            let (code, said) = Launch::bare()
                .args(["--config"])
                .args([config.as_os_str()])
                .args(check)
                .fail();
            assert_eq!(code, 2, "{said}");
            assert!(said.contains(advice) && said.contains("users"), "{said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }
}

on_each_back_end!(
    a_password_opens_a_path,
    networks_open_and_close_paths,
    a_refusal_has_the_status_of_its_rule,
    no_spelling_avoids_a_rule,
    http2_asks_for_passwords_too,
    hosts_have_rules_of_their_own,
    the_log_names_verified_users,
    a_reload_reads_users_and_rules_again,
);

mod where_sessions_dial {
    use super::*;
    crate::serve::on_strategy!(
        loops, LOOPS: upstreams_get_admitted_requests_only, some_users_of_a_file_are_admitted
    );
    crate::serve::on_strategy!(
        process_loops, PROCESS_LOOPS: upstreams_get_admitted_requests_only, some_users_of_a_file_are_admitted
    );
    crate::serve::on_strategy!(
        loops_uring, LOOPS_URING: upstreams_get_admitted_requests_only, some_users_of_a_file_are_admitted
    );
}
