//! Commands at the admin listener: who may send them, what becomes of them, and `weir ctl --admin`.

use crate::cli::weir;
use crate::serve::certificates::Members;
use crate::serve::frames::Client;
use crate::serve::listeners::address;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::tree::Tree;
use crate::serve::upgrade::Line;
use crate::serve::wire::{Connection, Response};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

const TOKEN: &str = "0123456789abcdef0123";
const USAGE: i32 = 2;
const SYSTEM: i32 = 4;

/// A server whose admin listener, at its second address, has these lines more.
fn launch(strategy: Strategy, tree: &Tree, admin: &str) -> (Server, SocketAddr) {
    tree.write("token", format!("{TOKEN}\n"));
    configure(tree, admin, "1");
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    let admin = address(&server, 1);
    (server, admin)
}

fn configure(tree: &Tree, admin: &str, version: &str) {
    let text = format!(
        "versions = 'www'\nhttp2 = 'all'\nheader = ['X-Version: {version}']\n[[access]]\npath = '/*'\nallow = ['127.0.0.0/8']\n\
         [admin]\nlisten = '127.0.0.2:0'\n{admin}\n"
    );
    tree.replace("weir.toml", text);
}

fn versions(tree: &Tree) {
    tree.write("www/v1/index.html", "first");
    tree.write("www/v2/index.html", "second");
    tree.link("www/current", "v1");
}

/// The response to a POST of a command with these fields.
fn post(admin: SocketAddr, path: &str, fields: &[(&str, &str)], command: &str) -> Response {
    let mut connection = Connection::open(admin);
    let length = command.len().to_string();
    let mut text =
        crate::serve::wire::head("POST", path, &[&[("Content-Length", &*length)], fields].concat());
    text.push_str(command);
    connection.send(text);
    connection.receive("POST")
}

fn json(response: &Response) -> Value {
    serde_json::from_str(&response.text()).unwrap_or_else(|error| panic!("{error}: {}", response.text()))
}

/// The sum of a metric over all workers.
fn total(metrics: &str, name: &str) -> u64 {
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with(&format!("{name}{{")));
    let values = lines.filter_map(|line| line.rsplit(' ').next());
    values.map(|value| value.parse::<u64>().expect("a count")).sum()
}

/// `weir ctl --admin` with these words before its command: its exit code, and the answer or the complaint.
fn ctl(url: &str, access: &[&str], command: &[&str]) -> (i32, String) {
    let words = [&["--json", "ctl", "--admin", url], access, command].concat();
    let output = weir(&words);
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code().expect("an exit code"),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

fn commands_need_the_token_and_are_of_no_other_site(strategy: Strategy) {
    let tree = Tree::new();
    versions(&tree);
    let (server, admin) = launch(strategy, &tree, "token-file = 'token'\ncontrol = true");
    let right = format!("Bearer {TOKEN}");
    let authorized = ("Authorization", &*right);
    let is_json = ("Content-Type", "application/json");
    let status = r#"{"do":"status"}"#;
    let own = "http://weir.localhost";
    for (fields, wanted) in [
        (&[authorized, is_json][..], 200),
        (
            &[authorized, ("Content-Type", "Application/JSON; charset=utf-8")],
            200,
        ),
        (
            &[
                authorized,
                is_json,
                ("Origin", own),
                ("Sec-Fetch-Site", "same-origin"),
            ],
            200,
        ),
        (&[is_json], 401),
        (&[("Authorization", "Bearer 0123456789abcdef0124"), is_json], 401),
        (&[authorized], 415),
        (&[authorized, ("Content-Type", "text/plain")], 415),
        (&[authorized, is_json, ("Origin", "https://evil.test")], 403),
        (&[authorized, is_json, ("Origin", "null")], 403),
        (
            &[
                authorized,
                is_json,
                ("Origin", own),
                ("Origin", "https://evil.test"),
            ],
            403,
        ),
        (&[authorized, is_json, ("Sec-Fetch-Site", "cross-site")], 403),
        (&[authorized, is_json, ("Sec-Fetch-Site", "same-site")], 403),
    ] {
        for path in ["/control", "/.weir/control"] {
            let response = post(admin, path, fields, status);
            assert_eq!(response.status, wanted, "{path} {fields:?}: {}", response.text());
            if wanted == 200 {
                assert_eq!(json(&response)["pid"], server.pid());
                assert_eq!(response.must("Cache-Control"), "no-store");
                assert_eq!(response.must("Content-Type"), "application/json");
                assert_eq!(response.field("X-Version"), None, "a line of files");
            }
        }
    }
    let authorized = [authorized, is_json];
    // Other methods.
    let mut connection = Connection::open(admin);
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        let response = connection.request(method, "/control", &authorized);
        assert_eq!(response.status, 405, "{method}");
        assert_eq!(response.must("Allow"), "POST", "{method}");
    }
    // What is no command.
    let forged = r#"{"do":"purge","what":"x\nforged"}"#;
    for nonsense in ["", "nonsense", r#"{"do":"sing"}"#, "\u{0}", forged] {
        let response = post(admin, "/control", &authorized, nonsense);
        assert_eq!(response.status, 400, "{nonsense}: {}", response.text());
        assert_eq!(json(&response)["ok"], false, "{nonsense}");
    }
    let multiline = "{\r\n  \"do\": \"status\"\n}\n";
    assert_eq!(post(admin, "/control", &authorized, multiline).status, 200);
    // The largest command, and one that is larger.
    let padded = |length: usize| format!("{status}{}", " ".repeat(length - status.len()));
    assert_eq!(post(admin, "/control", &authorized, &padded(4095)).status, 200);
    let response = post(admin, "/control", &authorized, &padded(4096));
    assert!(
        response.status == 413 && response.text().contains("4,095"),
        "{}",
        response.text()
    );
    let mut connection = Connection::open(admin);
    let chunked = [authorized[0], authorized[1], ("Transfer-Encoding", "chunked")];
    let mut text = crate::serve::wire::head("POST", "/control", &chunked);
    text.push_str(&format!("1000\r\n{}\r\n0\r\n\r\n", padded(4096)));
    connection.send(text);
    assert_eq!(connection.receive("POST").status, 413);
    // The public address knows nothing of it.
    let response = post(server.address, "/control", &authorized, r#"{"do":"stop"}"#);
    assert_eq!(response.status, 405);
    assert_eq!(server.connect().get("/").text(), "first");
    // Failures are counted and logged, and so are commands.
    let mut connection = Connection::open(admin);
    let metrics = connection.request("GET", "/metrics", &authorized).text();
    assert_eq!(total(&metrics, "weir_admin_denied_total"), 14, "{metrics}");
    let log = server.stderr();
    for part in [
        "denied to 127.0.0.1 at an admin address: there is no token",
        "the token is wrong",
        "of another site",
        "`status` from 127.0.0.1: done",
        "`sing` from 127.0.0.1 failed: invalid command",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!log.lines().any(|line| line.starts_with("forged")), "{log}");
    assert!(
        !log.contains(TOKEN) && !log.contains("0123456789abcdef0124"),
        "{log}"
    );
}

fn commands_come_over_http2_too(strategy: Strategy) {
    let tree = Tree::new();
    versions(&tree);
    let (server, admin) = launch(strategy, &tree, "token-file = 'token'\ncontrol = true");
    let mut client = Client::new(TcpStream::connect(admin).expect("a connection"));
    let right = format!("Bearer {TOKEN}");
    for (authorization, length, wanted) in [
        (&*right, "15", 200),
        (&*right, "4096", 413),
        ("Bearer 0123456789abcdef0124", "15", 401),
    ] {
        let fields = [
            (":method", "POST"),
            ("authorization", authorization),
            ("content-type", "application/json"),
            ("content-length", length),
        ];
        let stream = client.open("/control", &fields, false);
        client.send_body(stream, br#"{"do":"status"}"#);
        if length == "15" {
            client.end(stream, &[]);
        }
        let got = client.end_of(stream);
        assert_eq!(got.status, wanted, "{authorization} {length}: {}", got.text());
        if wanted == 200 {
            assert!(
                got.text().contains(&format!("\"pid\":{}", server.pid())),
                "{}",
                got.text()
            );
        }
    }
}

fn commands_are_executed_over_tls(strategy: Strategy) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["127.0.0.2"]);
    let tree = &pairs.tree;
    versions(tree);
    let admin = "token-file = 'token'\ncontrol = true\ntls = { cert = 'a.pem', key = 'a.key' }";
    let (mut server, at) = launch(strategy, tree, admin);
    let (ca, token) = (tree.join("a.pem"), tree.join("token"));
    let path = |path: &std::path::PathBuf| path.to_str().expect("a plain path").to_owned();
    let (ca, token) = (path(&ca), path(&token));
    let url = format!("https://{at}");
    let run = |command: &[&str]| ctl(&url, &["--ca", &ca, "--token-file", &token], command);
    let (code, text) = run(&["status"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(server.connect().get("/").must("X-Version"), "1");
    configure(tree, admin, "2");
    let (code, text) = run(&["reload"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(server.connect().get("/").must("X-Version"), "2");
    let (code, text) = run(&["site", "switch", "v2"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(server.connect().get("/").text(), "second");
    let (code, text) = run(&["site", "rollback"]);
    assert!(code == 0 && text.contains("`v1`"), "{text}");
    assert_eq!(server.connect().get("/").text(), "first");
    let (code, text) = run(&["strategy", "pool", "--io", "blocking"]);
    assert!(code == 0 && text.contains("blocking"), "{text}");
    assert_eq!(run(&["purge", "all"]).0, 0);
    // The server's own error, with its kind.
    let (code, text) = run(&["site", "switch", "v3"]);
    assert!(code == USAGE && text.contains("v3"), "{code}: {text}");
    tree.replace("weir.toml", "workerz = 3\n");
    let (code, text) = run(&["reload"]);
    assert!(code == SYSTEM && text.contains("workerz"), "{code}: {text}");
    let (code, text) = run(&["stop"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(server.wait(), 0, "{}", server.stderr());
}

#[test]
fn commands_need_a_certificate() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["127.0.0.2"]);
    let (members, strangers) = (Members::new("Alice"), Members::new("Mallory"));
    let tree = &pairs.tree;
    versions(tree);
    tree.write("members.pem", &members.authority);
    let [member, stranger] = [("member", &members), ("stranger", &strangers)].map(|(name, one)| {
        let (chain, key) = one.pem();
        let file = |end: &str, text: String| {
            let path = tree.write(&format!("{name}.{end}"), text);
            path.to_str().expect("a plain path").to_owned()
        };
        [file("pem", chain), file("key", key)]
    });
    let (_server, at) = launch(
        Strategy::LOOPS,
        tree,
        "control = true\ntls = { cert = 'a.pem', key = 'a.key', client-ca = 'members.pem' }",
    );
    let url = format!("https://{at}");
    let ca = tree.join("a.pem");
    let ca = ca.to_str().expect("a plain path");
    let [cert, key] = &member;
    let (code, text) = ctl(
        &url,
        &["--ca", ca, "--cert", cert, "--key", key],
        &["site", "list"],
    );
    assert!(code == 0 && text.contains("v2"), "{code}: {text}");
    let (code, text) = ctl(&url, &["--ca", ca], &["status"]);
    assert!(
        code == SYSTEM && text.contains("--cert and --key"),
        "{code}: {text}"
    );
    let [cert, key] = &stranger;
    let (code, text) = ctl(&url, &["--ca", ca, "--cert", cert, "--key", key], &["status"]);
    assert!(code == SYSTEM && text.contains("TLS failed"), "{code}: {text}");
    let mut secure = Secure::open(at, &members.client(&pairs), "127.0.0.2");
    let metrics = secure.try_ask("/metrics").expect("a response");
    assert_eq!(total(&metrics, "weir_tls_failed_total"), 2, "{metrics}");
}

#[test]
fn readers_send_no_commands() {
    const CONTROL_TOKEN: &str = "fedcba9876543210fedc";
    let tree = Tree::new();
    versions(&tree);
    tree.write("control-token", CONTROL_TOKEN);
    let (server, admin) = launch(
        Strategy::LOOPS,
        &tree,
        "token-file = 'token'\ncontrol = true\ncontrol-token-file = 'control-token'",
    );
    let file = |name: &str| tree.join(name).to_str().expect("a plain path").to_owned();
    let url = format!("http://{admin}");
    let (code, text) = ctl(&url, &["--token-file", &file("token")], &["stop"]);
    assert!(
        code == USAGE && text.contains("403") && text.contains("`control-token-file`"),
        "{code}: {text}"
    );
    let (code, text) = ctl(&url, &["--token-file", &file("control-token")], &["status"]);
    assert!(code == 0 && text.contains("\"pid\""), "{code}: {text}");
    for token in [TOKEN, CONTROL_TOKEN] {
        let right = format!("Bearer {token}");
        let mut connection = Connection::open(admin);
        let response = connection.request("GET", "/metrics", &[("Authorization", &*right)]);
        assert_eq!(response.status, 200);
        assert_eq!(total(&response.text(), "weir_admin_denied_total"), 1);
    }
    let log = server.stderr();
    assert!(log.contains("at an admin address: it may only read"), "{log}");
    assert!(!log.contains(TOKEN) && !log.contains(CONTROL_TOKEN), "{log}");
}

#[test]
fn no_commands_are_taken_by_default() {
    let tree = Tree::new();
    versions(&tree);
    let (server, admin) = launch(Strategy::LOOPS, &tree, "token-file = 'token'");
    let right = format!("Bearer {TOKEN}");
    let fields = [("Authorization", &*right), ("Content-Type", "application/json")];
    let response = post(admin, "/control", &fields, r#"{"do":"stop"}"#);
    assert!(
        response.status == 404 && response.text().contains("control = true"),
        "{}",
        response.text()
    );
    let token = tree.join("token");
    let token = token.to_str().expect("a plain path");
    let (code, text) = ctl(&format!("http://{admin}"), &["--token-file", token], &["stop"]);
    assert!(code == USAGE && text.contains("control = true"), "{code}: {text}");
    assert_eq!(server.connect().get("/").text(), "first");
    drop(server);
    // A reload does not enable them.
    let (server, admin) = launch(Strategy::LOOPS, &tree, "token-file = 'token'");
    configure(&tree, "token-file = 'token'\ncontrol = true", "2");
    server.signal("HUP");
    eventually("a warning", || {
        server
            .stderr()
            .contains("admin will change at the next start")
            .then_some(())
    });
    assert_eq!(post(admin, "/control", &fields, r#"{"do":"stop"}"#).status, 404);
    drop(server);
    configure(&tree, "control = true", "1");
    let (code, printed) = Launch::new(Strategy::LOOPS)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .fail();
    assert!(
        code == USAGE && printed.contains("set `token-file`"),
        "{code}: {printed}"
    );
}

#[test]
fn each_failure_of_the_client_says_what_to_do() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["127.0.0.2"]);
    pairs.add("other", &["127.0.0.2"]);
    let tree = &pairs.tree;
    versions(tree);
    let (server, at) = launch(
        Strategy::LOOPS,
        tree,
        "token-file = 'token'\ncontrol = true\ntls = { cert = 'a.pem', key = 'a.key' }",
    );
    tree.write("wrong", "0123456789abcdef0124");
    tree.write("empty", "\n");
    let file = |name: &str| tree.join(name).to_str().expect("a plain path").to_owned();
    let [token, wrong, empty, none, ca, other] =
        ["token", "wrong", "empty", "none", "a.pem", "other.pem"].map(file);
    let closed = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    let url = format!("https://{at}");
    for (url, access, code, parts) in [
        (&*url, &["--ca", &ca][..], USAGE, &["401", "--token-file"][..]),
        (
            &url,
            &["--ca", &ca, "--token-file", &wrong],
            USAGE,
            &["401", "wrong", "reload"],
        ),
        (
            &url,
            &["--ca", &ca, "--token-file", &empty],
            USAGE,
            &["empty", "has no token"],
        ),
        (
            &url,
            &["--ca", &ca, "--token-file", &none],
            USAGE,
            &["none", "No such file"],
        ),
        (
            &url,
            &["--ca", &other, "--token-file", &token],
            SYSTEM,
            &["TLS failed", "check --ca"],
        ),
        (
            &format!("https://{closed}"),
            &["--ca", &ca, "--token-file", &token],
            SYSTEM,
            &["refused", "check that the server runs"],
        ),
        // In cleartext to a port of TLS, and the other way round.
        (
            &format!("http://{at}"),
            &["--token-file", &token],
            SYSTEM,
            &["400"],
        ),
        (
            &format!("https://{}", server.address),
            &["--ca", &ca, "--token-file", &token],
            SYSTEM,
            &["plain HTTP", "--admin"],
        ),
        // Another listener.
        (
            &format!("http://{}", server.address),
            &["--token-file", &token],
            USAGE,
            &["405", "[admin]"],
        ),
        (
            "http://192.0.2.1:1",
            &["--token-file", &token],
            USAGE,
            &["cleartext", "use https"],
        ),
        (&format!("http://{at}"), &["--ca", &ca], USAGE, &["--ca", "https"]),
    ] {
        let (got, text) = ctl(url, access, &["status"]);
        assert_eq!(got, code, "{url} {access:?}: {text}");
        for part in parts {
            assert!(text.contains(part), "{url} {access:?}: {part}: {text}");
        }
        assert!(!text.contains("--insecure") && !text.contains(TOKEN), "{text}");
    }
    let output = weir(&["ctl", "status"]);
    assert_eq!(output.status.code(), Some(USAGE));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--socket"));
}

#[test]
fn a_probe_fails_without_a_response_and_with_one_of_an_error() {
    let url = scripted(vec![("503 Service Unavailable", ""), ("200 OK", "")]);
    for (wanted, parts) in [
        (1, &["not healthy", "status is 503"][..]),
        (0, &[]),
        (1, &["not healthy", "no response"]),
    ] {
        let output = weir(&["health", &format!("{url}/readyz")]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(wanted), "{text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    let output = weir(&["health", "ftp://127.0.0.1/"]);
    assert_eq!(output.status.code(), Some(USAGE));
}

/// The URL of an admin listener that sends these responses, each over a connection of its own, and closes then.
fn scripted(responses: Vec<(&'static str, &'static str)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for (status, content) in responses {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut request = Vec::new();
            let mut room = [0; 1_024];
            let is_whole = |request: &[u8]| match request.starts_with(b"GET ") {
                true => request.ends_with(b"\r\n\r\n"),
                false => request.ends_with(b"}"),
            };
            while !is_whole(&request) {
                match stream.read(&mut room) {
                    Ok(0) | Err(_) => break,
                    Ok(length) => request.extend_from_slice(&room[..length]),
                }
            }
            let length = content.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nRetry-After: 0\r\n\r\n");
            let _ = stream.write_all(format!("{head}{content}").as_bytes());
        }
    });
    url
}

#[test]
fn a_command_that_no_process_has_read_is_sent_again() {
    let unread = (
        "503 Service Unavailable",
        r#"{"ok":false,"kind":"system","error":"another one takes over"}"#,
    );
    let done = ("200 OK", r#"{"ok":true,"now":"reloaded"}"#);
    let (code, text) = ctl(&scripted(vec![unread, unread, done]), &[], &["reload"]);
    assert!(code == 0 && text.contains("reloaded"), "{code}: {text}");
    let (code, text) = ctl(&scripted(vec![unread; 4]), &[], &["reload"]);
    assert!(
        code == SYSTEM && text.contains("another one takes over"),
        "{code}: {text}"
    );
}

/// The new program takes commands, and the old one none.
#[test]
fn commands_reach_the_newest_program() {
    let tree = Tree::new();
    versions(&tree);
    let (server, admin) = launch(Strategy::LOOPS, &tree, "token-file = 'token'\ncontrol = true");
    let token = tree.join("token");
    let token = token.to_str().expect("a plain path");
    let pid = || {
        let (code, text) = ctl(&format!("http://{admin}"), &["--token-file", token], &["status"]);
        assert_eq!(code, 0, "{text}");
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        answer["pid"].as_u64().expect("a process")
    };
    assert_eq!(pid(), u64::from(server.pid()));
    let mut line = Line::of(server);
    line.upgrade();
    assert_eq!(pid(), u64::from(line.newest));
    line.stop();
}

on_strategy!(
    loops, LOOPS: commands_need_the_token_and_are_of_no_other_site, commands_come_over_http2_too,
    commands_are_executed_over_tls
);
on_strategy!(
    loops_uring, LOOPS_URING: commands_need_the_token_and_are_of_no_other_site, commands_come_over_http2_too,
    commands_are_executed_over_tls
);
on_strategy!(
    pool, POOL: commands_need_the_token_and_are_of_no_other_site, commands_are_executed_over_tls
);
