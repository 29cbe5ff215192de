//! Requests about which another server decides: what it is told, what upstreams get of its answer, and that nothing is answered
//! without it.

use crate::serve::access::USERS;
use crate::serve::frames;
use crate::serve::http3::client::Client;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::{GONE, HELLO, Upstream, request};
use crate::serve::proxy_h2_upstream;
use crate::serve::proxy_http2::crowd;
use crate::serve::tls::{Pairs, Secure};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, Response, head};
use crate::serve::{on_each_back_end, on_strategy};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};

/// What admits a request, by its cookie.
const COOKIE: (&str, &str) = ("Cookie", "session=ann");

const LOGIN: &[u8] =
    b"HTTP/1.1 302 Found\r\nLocation: https://login.test/?rd=/\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\
    X-Private: 1\r\nConnection: X-Private\r\nContent-Length: 9\r\n\r\nlog in...";

/// Admits requests with the cookie, and sends all others to a login page.
fn gatekeeper() -> Upstream {
    Upstream::telling(|stream: &mut TcpStream, tell| {
        let got = request(stream);
        let is_ann = got.to_ascii_lowercase().contains("\r\ncookie: session=ann\r\n");
        tell(got);
        let _ = match is_ann {
            true => stream.write_all(
                b"HTTP/1.1 200 OK\r\nRemote-User: ann\r\nRemote-Groups: a\r\nRemote-Groups: b\r\nX-Other: 1\r\n\
                  Content-Length: 5\r\n\r\nhello",
            ),
            false => stream.write_all(LOGIN),
        };
    })
}

/// A site whose server of this address decides, with another one behind it if there is an upstream.
fn tree(auth: &str, upstream: Option<&str>, more: &str) -> Tree {
    let passed = upstream.map_or_else(String::new, |upstream| {
        format!(
            "[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{upstream}\"]\n\
             [[proxy]]\npath = \"/open/api/*\"\nupstreams = [\"{upstream}\"]\n"
        )
    });
    let config = format!(
        r#"
root = "site"
access-log = "-"
log-format = "json"
http2 = "all"
error-pages = {{ 404 = "/none.html" }}

[[access]]
path = "/open/*"
allow = "all"

[[access]]
path = "/*"
auth = "{auth}/verify?a=b"
copy = ["Remote-User", "Remote-Groups", "X-Missing"]
{more}
{passed}
"#
    );
    Tree::with(&[
        ("weir.toml", &config),
        ("users", USERS),
        ("site/a.txt", "a file"),
        ("site/open/a.txt", "open"),
    ])
}

fn launch(strategy: Strategy, tree: &Tree) -> Server {
    Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start()
}

/// A POST with content, and its answer.
fn post(connection: &mut Connection, path: &str, fields: &[(&str, &str)], content: &str) -> Response {
    let length = content.len().to_string();
    let fields = [fields, &[("Content-Length", &*length)]].concat();
    connection.send(head("POST", path, &fields) + content);
    connection.receive("POST")
}

/// The fields as HTTP/2 spells them.
fn lower<'f>(fields: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    let spelled = |name: &str| match name {
        "Cookie" => "cookie",
        "Authorization" => "authorization",
        "Remote-User" => "remote-user",
        "X-Missing" => "x-missing",
        "X-Forwarded-Uri" => "x-forwarded-uri",
        "If-None-Match" => "if-none-match",
        "Range" => "range",
        "remote_groups" => "remote_groups",
        other => panic!("{other} has no spelling here"),
    };
    fields
        .iter()
        .map(|(name, value)| (spelled(name), *value))
        .collect()
}

/// The values of a field in a head.
fn values<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let its = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    its.map(|(_, value)| value).collect()
}

fn files_need_the_consent_of_another_server(strategy: Strategy) {
    let auth = gatekeeper();
    let tree = tree(&auth.url, None, "");
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    for _ in 0..3 {
        // Nobody tells the server in other fields that the client used https.
        let fields = [COOKIE, ("X-Forwarded-Ssl", "on"), ("Front-End-Https", "on")];
        let answer = connection.request("GET", "/a.txt?x=y", &fields);
        assert_eq!((answer.status, answer.text().as_str()), (200, "a file"));
        assert_eq!(answer.field("Remote-User"), None);
        let answer = connection.get("/a.txt");
        assert_eq!((answer.status, answer.text().as_str()), (302, "log in..."));
        assert_eq!(answer.must("Location"), "https://login.test/?rd=/");
        assert_eq!(answer.field("X-Private"), None);
        let cookies = answer.fields.iter().filter(|(name, _)| name == "Set-Cookie");
        assert_eq!(
            cookies.map(|(_, value)| &**value).collect::<Vec<_>>(),
            ["a=b", "c=d"]
        );
        assert!(answer.field("Date").is_some());
    }
    // Which files there are is not told.
    for path in ["/none", "/open/%2e%2e/a.txt", "//a.txt"] {
        assert_eq!(connection.get(path).status, 302, "{path}");
    }
    assert_eq!(connection.request("GET", "/none", &[COOKIE]).status, 404);
    assert_eq!(connection.get("/open/a.txt").text(), "open");
    let head = connection.request("HEAD", "/a.txt", &[]);
    assert_eq!((head.status, head.text().as_str()), (302, ""));
    // A body is never told.
    assert_eq!(post(&mut connection, "/a.txt", &[], "secret").status, 302);
    let told = auth.all();
    assert_eq!(
        told[0],
        "GET /verify?a=b HTTP/1.1\r\nHost: HOST\r\nCookie: session=ann\r\nVia: 1.1 weir\r\nX-Forwarded-For: 127.0.0.1\r\n\
         X-Forwarded-Proto: http\r\nForwarded: for=127.0.0.1;proto=http;host=\"weir.localhost\"\r\n\
         X-Forwarded-Host: weir.localhost\r\nX-Forwarded-Method: GET\r\n\
         X-Forwarded-Uri: /a.txt?x=y\r\n\r\n"
            .replace("HOST", auth.url.trim_start_matches("http://"))
    );
    let last = told.last().expect("it was told");
    assert_eq!(values(last, "x-forwarded-method"), ["POST"]);
    assert!(
        !last.contains("secret") && values(last, "content-length").is_empty(),
        "{last}"
    );
    // Nothing was asked about the open path.
    assert!(!told.iter().any(|head| head.contains("/open/a.txt")));
    eventually("the user in the log", || {
        let log = server.stdout();
        log.contains("\"user\":\"ann\"").then_some(())
    });
}

fn upstreams_get_what_another_server_says(strategy: Strategy) {
    let auth = gatekeeper();
    let upstream = Upstream::answering(HELLO);
    let tree = tree(&auth.url, Some(&upstream.url), "");
    let server = launch(strategy, &tree);
    let forged = [
        COOKIE,
        ("Remote-User", "root"),
        ("remote_groups", "admins"),
        ("X-Missing", "forged"),
        ("X-Forwarded-Uri", "/forged"),
        ("Authorization", "Bearer x"),
        ("If-None-Match", "*"),
        ("Range", "bytes=0-1"),
    ];
    let mut connection = server.connect();
    let answer = connection.request("GET", "/api/x", &forged);
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    assert_eq!(post(&mut connection, "/api/y", &forged, "content").status, 200);
    assert_eq!(connection.request("GET", "/open/api/z", &forged).status, 200);
    let refused = connection.request("GET", "/api/x", &forged[1..]);
    assert_eq!((refused.status, refused.text().as_str()), (302, "log in..."));
    let mut second = frames::connect(&server);
    let fields = lower(&forged);
    assert_eq!(second.get("/api/h2", &fields).text(), "hello");
    assert_eq!(second.get("/a.txt", &fields[..1]).text(), "a file");
    let refused = second.get("/api/h2", &fields[1..]);
    assert_eq!(
        (refused.field("location"), refused.text().as_str()),
        (Some("https://login.test/?rd=/"), "log in...")
    );
    assert_eq!(second.get("/a.txt", &[]).text(), "log in...");
    let stream = second.open("/api/body", &fields, false);
    assert!(second.send_body(stream, b"content"));
    second.end(stream, &[]);
    assert_eq!(second.end_of(stream).text(), "hello");
    // The cookie is told to both.
    let got = upstream.all();
    assert_eq!(got.len(), 5, "{got:#?}");
    for head in &got {
        let is_asked = !head.contains(" /open/api/z ");
        let user: &[&str] = if is_asked { &["ann"] } else { &[] };
        let groups: &[&str] = if is_asked { &["a", "b"] } else { &[] };
        assert_eq!(values(head, "remote-user"), user, "{head}");
        assert_eq!(values(head, "remote-groups"), groups, "{head}");
        assert!(
            values(head, "x-missing").is_empty() && values(head, "x-other").is_empty(),
            "{head}"
        );
        assert!(values(head, "remote_groups").is_empty(), "{head}");
        assert_eq!(values(head, "authorization"), ["Bearer x"]);
        assert_eq!(values(head, "range"), ["bytes=0-1"]);
    }
    assert!(
        got[1].ends_with("\r\n\r\ncontent") && got[4].contains("content"),
        "{got:#?}"
    );
    for head in auth.all() {
        assert!(
            values(&head, "range").is_empty() && values(&head, "if-none-match").is_empty(),
            "{head}"
        );
        assert!(!values(&head, "x-forwarded-uri").contains(&"/forged"), "{head}");
    }
    eventually("the user in each line of an admitted request", || {
        let log = server.stdout();
        let lines = log.lines().filter(|line| line.contains("\"/api/"));
        let (named, all) = lines.fold((0, 0), |(named, all), line| {
            (named + usize::from(line.contains("\"user\":\"ann\"")), all + 1)
        });
        ((named, all) == (4, 6)).then_some(())
    });
}

fn nothing_passes_without_an_answer(strategy: Strategy) {
    let upstream = Upstream::answering(HELLO);
    let large: &'static [u8] = {
        let content = "x".repeat(64 * 1024 + 1);
        let answer = format!(
            "HTTP/1.1 403 No\r\nContent-Length: {}\r\n\r\n{content}",
            content.len()
        );
        Box::leak(answer.into_bytes().into_boxed_slice())
    };
    let silent = Upstream::telling(|stream, tell| {
        tell(request(stream));
        // Until the server gives up.
        let mut rest = Vec::new();
        let _ = std::io::Read::read_to_end(stream, &mut rest);
    });
    for (why, auth, status) in [
        ("nobody listens", GONE.to_owned(), 502),
        ("closed", Upstream::answering(b"").url, 502),
        (
            "no HTTP",
            Upstream::answering(b"SSH-2.0-OpenSSH\r\n\r\n").url,
            502,
        ),
        (
            "cut",
            Upstream::answering(b"HTTP/1.1 200 OK\r\nA: b\r\n").url,
            502,
        ),
        (
            "another protocol",
            Upstream::answering(b"HTTP/1.1 101 Switch\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n").url,
            502,
        ),
        (
            "an error",
            Upstream::answering(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n").url,
            500,
        ),
        ("too much", Upstream::answering(large).url, 502),
        ("no name", "http://nowhere.invalid".to_owned(), 502),
        ("silence", silent.url.clone(), 504),
    ] {
        // A busy machine may be slow with those that are not silent.
        let patience = if status == 504 { "200ms" } else { "60s" };
        let tree = tree(
            &auth,
            Some(&upstream.url),
            &format!("auth-timeout = \"{patience}\""),
        );
        let server = launch(strategy, &tree);
        let mut connection = server.connect();
        for path in ["/a.txt", "/api/x"] {
            let answer = connection.request("GET", path, &[COOKIE]);
            assert_eq!(answer.status, status, "{why} {path}");
            assert!(!answer.text().contains("a file") && !answer.text().contains("hello"));
        }
        let answer = post(&mut server.connect(), "/api/x", &[COOKIE], "content");
        assert_eq!(answer.status, status, "{why}");
        let mut second = frames::connect(&server);
        for path in ["/a.txt", "/api/x"] {
            assert_eq!(second.get(path, &[]).status, status, "{why} {path}");
        }
        if status != 500 {
            eventually("the reason in the log", || {
                server.stderr().contains("auth ").then_some(())
            });
        }
    }
    assert_eq!(upstream.all(), Vec::<String>::new());
}

fn a_rule_may_need_a_password_as_well(strategy: Strategy) {
    let auth = gatekeeper();
    let upstream = Upstream::answering(HELLO);
    let tree = tree(&auth.url, Some(&upstream.url), "htpasswd = \"users\"");
    let server = launch(strategy, &tree);
    let password = ("Authorization", "Basic YW5uOnNlY3JldA==");
    let wrong = ("Authorization", "Basic YW5uOndyb25n");
    let mut connection = server.connect();
    let mut second = frames::connect(&server);
    for path in ["/a.txt", "/api/x"] {
        for (fields, status) in [
            (&[][..], 401),
            (&[COOKIE][..], 401),
            (&[COOKIE, wrong], 401),
            (&[password], 302),
            (&[COOKIE, password], 200),
        ] {
            assert_eq!(
                connection.request("GET", path, fields).status,
                status,
                "{path} {fields:?}"
            );
            assert_eq!(
                second.get(path, &lower(fields)).status,
                status,
                "{path} {fields:?}"
            );
        }
    }
    // Without a verified password, the other server hears nothing.
    assert_eq!(auth.all().len(), 8);
}

/// Over TLS and over HTTP/3, the server that decides is told how the client came, and nothing passes without it.
fn every_version_needs_consent(strategy: Strategy) {
    let auth = gatekeeper();
    let upstream = Upstream::answering(HELLO);
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs.tree.write("site/a.txt", "a file");
    let config = format!(
        "[[access]]\npath = \"/*\"\nauth = \"{}/verify\"\ncopy = [\"Remote-User\"]\n\
         [[proxy]]\npath = \"/api/*\"\nupstreams = [\"{}\"]\n",
        auth.url, upstream.url
    );
    let config = pairs.tree.write("weir.toml", config).display().to_string();
    let launch: Launch = pairs.launch(strategy, &["a"]);
    let server = launch.args(["--http3", "--config", &config]).start();
    let cookie = [("cookie", "session=ann")];
    let forged = [
        ("cookie", "session=bob"),
        ("remote-user", "root"),
        ("via", "1.0 other"),
    ];
    let is_login = |status: u16, text: &str| assert_eq!((status, text), (302, "log in..."));

    let mut client = Client::open(server.address, &pairs.client(), "a.test");
    assert_eq!(client.get("/a.txt", &cookie).text(), "a file");
    assert_eq!(client.get("/api/x", &cookie).text(), "hello");
    for path in ["/a.txt", "/none", "/api/x"] {
        let got = client.get(path, &forged);
        is_login(got.status, &got.text());
        assert_eq!(got.field("location"), Some("https://login.test/?rd=/"));
    }
    // The body follows if the request is admitted, and is not told.
    let stream = client.open_request("/api/body", &[(":method", "POST"), cookie[0]], false);
    assert!(client.send_body(stream, b"content"));
    client.end(stream, &[]);
    assert_eq!(client.end_of(stream).text(), "hello");

    let mut config = Arc::unwrap_or_clone(pairs.client());
    config.alpn_protocols = vec![b"h2".to_vec()];
    let secure = Secure::open(server.address, &Arc::new(config), "a.test");
    let mut second = frames::Client::new(secure.0);
    assert_eq!(second.get("/api/x", &cookie).text(), "hello");
    let got = second.get("/api/x", &forged);
    is_login(got.status, &got.text());

    let mut first = Secure::open(server.address, &pairs.client(), "a.test");
    let fields = [("Cookie", "session=ann"), ("Connection", "close")];
    first
        .0
        .write_all(head("GET", "/api/x", &fields).as_bytes())
        .expect("a request");
    let mut text = String::new();
    first.0.read_to_string(&mut text).expect("a response");
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.ends_with("hello"),
        "{text}"
    );

    let told = auth.all();
    let versions: Vec<&str> = told.iter().flat_map(|head| values(head, "via")).collect();
    let third = [
        "3.0 weir",
        "3.0 weir",
        "1.0 other, 3.0 weir",
        "1.0 other, 3.0 weir",
        "1.0 other, 3.0 weir",
        "3.0 weir",
    ];
    let others = ["2.0 weir", "1.0 other, 2.0 weir", "1.1 weir"];
    assert_eq!(versions, [&third[..], &others].concat());
    for head in &told {
        assert_eq!(values(head, "x-forwarded-proto"), ["https"], "{head}");
        assert_eq!(values(head, "x-forwarded-for"), ["127.0.0.1"], "{head}");
        assert!(
            !head.contains("content") && head.starts_with("GET /verify HTTP/1.1\r\n"),
            "{head}"
        );
    }
    assert_eq!(values(&told[5], "x-forwarded-method"), ["POST"]);
    assert_eq!(values(&told[5], "x-forwarded-uri"), ["/api/body"]);
    let got = upstream.all();
    assert_eq!(got.len(), 4, "{got:#?}");
    assert!(got[1].contains("content"), "{}", got[1]);
    for (head, via) in got.iter().zip(["3.0 weir", "3.0 weir", "2.0 weir", "1.1 weir"]) {
        assert_eq!(
            (values(head, "remote-user"), values(head, "via")),
            (vec!["ann"], vec![via]),
            "{head}"
        );
    }
}

/// The server that decides may speak HTTP/2 without TLS, or TLS.
fn a_server_of_http2_or_tls_decides(strategy: Strategy) {
    let (url, heard) = proxy_h2_upstream::upstream();
    let tree = tree(&url, None, "");
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    for number in 0..3 {
        assert_eq!(connection.get(&format!("/a.txt?{number}")).text(), "a file");
    }
    assert_eq!(frames::connect(&server).get("/a.txt", &[]).text(), "a file");
    let told = heard.all();
    assert_eq!(told.len(), 4);
    let vias: Vec<&str> = told.iter().flat_map(|head| values(head, "via")).collect();
    assert_eq!(
        vias,
        ["1.1 weir", "1.1 weir", "1.1 weir", "2.0 weir"],
        "{told:#?}"
    );
    assert!(told[2].contains("x-forwarded-uri: /a.txt?2"), "{}", told[2]);
    // The content of an answer may follow its head; once it is there, the connection is kept.
    eventually("a question on a kept connection", || {
        assert_eq!(connection.get("/a.txt").text(), "a file");
        (heard.connections() < heard.all().len()).then_some(())
    });
    // So may one on a Unix socket.
    let folder = Tree::new();
    let (url, heard) = proxy_h2_upstream::upstream_on_socket(&folder);
    let tree = self::tree(&format!("{url}:"), None, "");
    let server = launch(strategy, &tree);
    eventually("a question on a kept connection", || {
        assert_eq!(server.connect().get("/a.txt").text(), "a file");
        (heard.connections() < heard.all().len()).then_some(())
    });
    let told = heard.all();
    assert!(
        told[0].starts_with("GET http://localhost/verify?a=b\n"),
        "{}",
        told[0]
    );
    // One with TLS admits what it has a file for.
    let mut pairs = Pairs::new();
    pairs.add("local", &["127.0.0.1"]);
    pairs.tree.write("site/verify", "yes");
    let behind = pairs.launch(Strategy::LOOPS, &["local"]).start();
    let of = |path: &str| {
        let tls = format!(
            "[access.auth-tls]\nca = \"{}\"",
            pairs.tree.join("local.pem").display()
        );
        let config = format!(
            "root = \"site\"\nlive = \"local\"\n[[access]]\npath = \"/.weir/*\"\nallow = \"all\"\n\
             [[access]]\npath = \"/*\"\nauth = \"https://{}{path}\"\n{tls}\n",
            behind.address
        );
        let tree = Tree::with(&[("weir.toml", &config), ("site/a.txt", "a file")]);
        let server = launch(strategy, &tree);
        let mut connection = server.connect();
        let mut count = 0_u64;
        let answer = eventually("a question on a kept connection", || {
            let answer = connection.get("/a.txt");
            count += 1;
            let metrics = connection.get("/.weir/metrics").text();
            let mut lines = metrics.lines();
            let opened = lines.find(|line| line.starts_with("weir_auth_connections_opened_total"));
            let opened = opened.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
            (opened.expect("a metric") < count).then_some(answer)
        });
        (answer.status, answer.text().contains("a file"))
    };
    assert_eq!(of("/verify"), (200, true));
    assert_eq!(of("/none"), (404, false));
}

/// 64 requests are asked about at a time, 1,024 wait, and others get 503 until there is room.
#[test]
fn questions_have_bounds() {
    const THREADS: usize = 64;
    const WAITING: usize = 1_024;
    let gate = Arc::new((Mutex::new((0, false)), Condvar::new()));
    let url = {
        let gate = Arc::clone(&gate);
        crowd(move |stream| {
            let _ = request(stream);
            let (state, changed) = &*gate;
            let mut guard = state.lock().expect("no panic");
            guard.0 += 1;
            drop(
                changed
                    .wait_while(guard, |(_, is_open)| !*is_open)
                    .expect("no panic"),
            );
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        })
    };
    let asked = || gate.0.lock().expect("no panic").0;
    let tree = tree(&url, None, "auth-timeout = \"60s\"");
    let server = launch(Strategy::LOOPS, &tree);
    let mut first = frames::connect(&server);
    let mut streams: Vec<(usize, u32)> = (0..THREADS).map(|_| (0, first.ask("/a.txt"))).collect();
    eventually("a question of each thread", || (asked() == THREADS).then_some(()));
    let mut clients = vec![first];
    for at in 1..=WAITING / 64 {
        let mut client = frames::connect(&server);
        streams.extend((0..64).map(|_| (at, client.ask("/a.txt"))));
        // Behind them on the connection, so they wait by now.
        assert_eq!(client.get("/open/a.txt", &[]).text(), "open");
        clients.push(client);
    }
    let mut late = frames::connect(&server);
    for _ in 0..10 {
        assert_eq!(late.get("/a.txt", &[]).status, 503);
    }
    assert_eq!(server.connect().get("/a.txt").status, 503);
    assert_eq!(late.get("/open/a.txt", &[]).text(), "open");
    assert_eq!((asked(), streams.len()), (THREADS, THREADS + WAITING));
    gate.0.lock().expect("no panic").1 = true;
    gate.1.notify_all();
    for (at, stream) in streams {
        let got = clients[at].end_of(stream);
        assert!(
            got.status == 200 && got.text() == "a file",
            "{at} {stream}: {}",
            got.status
        );
    }
    assert_eq!(asked(), THREADS + WAITING);
    assert_eq!(late.get("/a.txt", &[]).text(), "a file");
}

/// A server that is slow for some requests does not hold others up, and a reload loses none of them.
#[test]
fn a_reload_loses_no_request_that_waits() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let opened = Arc::clone(&gate);
    let auth = Upstream::telling(move |stream, tell| {
        let got = request(stream);
        tell(got);
        let mut stream = stream.try_clone().expect("a copy");
        let gate = Arc::clone(&opened);
        std::thread::spawn(move || {
            let (is_open, changed) = &*gate;
            let guard = is_open.lock().expect("no panic");
            let _open = changed.wait_while(guard, |open| !*open).expect("no panic");
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        });
    });
    let tree = tree(&auth.url, None, "auth-timeout = \"60s\"");
    let server = launch(Strategy::LOOPS, &tree);
    let mut waiting: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for connection in &mut waiting {
        connection.send("GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    eventually("all questions", || (auth.all().len() == 20).then_some(()));
    assert_eq!(server.connect().get("/open/a.txt").text(), "open");
    server.signal("HUP");
    eventually("the reload", || {
        server.stderr().contains("reloaded").then_some(())
    });
    *gate.0.lock().expect("no panic") = true;
    gate.1.notify_all();
    for connection in &mut waiting {
        assert_eq!(connection.receive("GET").text(), "a file");
    }
}

/// `--explain` names the server and does not ask it.
#[test]
fn an_explanation_names_the_server() {
    let auth = gatekeeper();
    let tree = tree(&auth.url, None, "");
    let explained = |path: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--config"])
            .arg(tree.join("weir.toml"))
            .args(["--explain", &format!("GET {path}")])
            .output()
            .expect("the program runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let text = explained("/a.txt");
    assert!(
        text.contains(&format!("{}/verify?a=b decides (auth)", auth.url)),
        "{text}"
    );
    assert!(text.contains("rule 2 for `/*`"), "{text}");
    assert!(!explained("/open/a.txt").contains("auth"));
    assert_eq!(auth.all(), Vec::<String>::new());
}

#[test]
fn mistakes_are_explained() {
    for (rule, advice) in [
        ("auth = \"http://127.0.0.1\"\ncopy = [\"Via\"]", "`Via`"),
        ("auth = \"127.0.0.1:1/verify\"", "http://127.0.0.1"),
        ("allow = \"all\"\ncopy = [\"Remote-User\"]", "asks no server"),
        (
            "auth = \"https://a.test\"\nauth-tls = { ca = \"none.pem\" }",
            "none.pem",
        ),
    ] {
        let tree = Tree::with(&[("weir.toml", &format!("root = \".\"\n[[access]]\n{rule}\n"))]);
        let (code, said) = Launch::bare()
            .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
            .fail();
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(advice), "{said}");
    }
}

on_each_back_end!(files_need_the_consent_of_another_server,);

mod where_sessions_dial {
    use super::*;
    crate::serve::on_strategy!(loops, LOOPS: upstreams_get_what_another_server_says, nothing_passes_without_an_answer, a_rule_may_need_a_password_as_well);
    crate::serve::on_strategy!(process_loops, PROCESS_LOOPS: upstreams_get_what_another_server_says, a_rule_may_need_a_password_as_well);
    crate::serve::on_strategy!(loops_uring, LOOPS_URING: upstreams_get_what_another_server_says);
}
on_strategy!(encrypted, LOOPS: every_version_needs_consent, a_server_of_http2_or_tls_decides);
on_strategy!(encrypted_uring, LOOPS_URING: every_version_needs_consent, a_server_of_http2_or_tls_decides);
