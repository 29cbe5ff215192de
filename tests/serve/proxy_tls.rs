//! Upstreams with TLS: what passes over it, which certificates are accepted, and what is said of those that are not.
//!
//! The upstreams are rustls, read and written by a thread for each connection.

use crate::serve::messages::REFUSED;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::proxy::{HELLO, Upstream, head, request};
use crate::serve::tls::Pairs;
use crate::serve::{frames, on_strategy};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use tls::rustls::pki_types::pem::PemObject;
use tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tls::rustls::server::WebPkiClientVerifier;
use tls::rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// What an upstream got over one connection, and how it was secured.
#[derive(Clone, Debug, Default)]
struct Got {
    text: String,
    is_resumed: bool,
    server_name: Option<String>,
    has_certificate: bool,
}

/// An upstream with TLS.
struct Secured {
    url: String,
    port: u16,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Secured {
    /// Each connection is left to `serve`, which appends what it gets.
    fn new(
        config: ServerConfig,
        serve: impl Fn(&mut Stream, &dyn Fn(&str)) + Send + Sync + 'static,
    ) -> Secured {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let got: Arc<Mutex<Vec<Got>>> = Arc::default();
        let (log, serve, config) = (Arc::clone(&got), Arc::new(serve), Arc::new(config));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                let (log, serve) = (Arc::clone(&log), Arc::clone(&serve));
                let connection = ServerConnection::new(Arc::clone(&config)).expect("a server");
                std::thread::spawn(move || {
                    let announcement = announcement(&stream);
                    let mut stream = StreamOwned::new(connection, stream);
                    while stream.conn.is_handshaking() {
                        if stream.conn.complete_io(&mut stream.sock).is_err() {
                            return;
                        }
                    }
                    let at = {
                        let mut all = log.lock().expect("no upstream panics");
                        all.push(Got {
                            text: announcement,
                            is_resumed: stream.conn.handshake_kind() == Some(HandshakeKind::Resumed),
                            server_name: stream.conn.server_name().map(str::to_owned),
                            has_certificate: stream.conn.peer_certificates().is_some(),
                        });
                        all.len() - 1
                    };
                    serve(&mut stream, &|text| {
                        log.lock().expect("no upstream panics")[at].text += text;
                    });
                });
            }
        });
        Secured {
            url: format!("https://127.0.0.1:{port}"),
            port,
            got,
        }
    }

    /// Answers each request of a connection with its content, or with its target if it has none.
    fn echoing(config: ServerConfig) -> Secured {
        Secured::new(config, |stream, note| {
            loop {
                let got = request(stream);
                note(&got);
                let Some((head, content)) = got.split_once("\r\n\r\n") else {
                    return;
                };
                let target = head.split(' ').nth(1).unwrap_or_default();
                let content = if content.is_empty() { target } else { content };
                let length = content.len();
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{content}");
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
                let _ = stream.flush();
            }
        })
    }

    fn all(&self) -> Vec<Got> {
        self.got.lock().expect("no upstream panics").clone()
    }
}

/// Takes the line of the PROXY protocol that precedes TLS; empty without one.
fn announcement(mut stream: &TcpStream) -> String {
    let mut first = [0];
    let mut line = Vec::new();
    if stream.peek(&mut first).is_ok_and(|got| got == 1) && first == *b"P" {
        while !line.ends_with(b"\r\n") && stream.read(&mut first).is_ok_and(|got| got == 1) {
            line.push(first[0]);
        }
    }
    String::from_utf8_lossy(&line).into_owned()
}

/// The TLS of an upstream with the pair of this name.
fn config(pairs: &Pairs, file: &str) -> ServerConfig {
    let (chain, key) = pair(pairs, file);
    let builder = ServerConfig::builder().with_no_client_auth();
    builder.with_single_cert(chain, key).expect("a pair")
}

fn pair(pairs: &Pairs, file: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let read = |end: &str| std::fs::read(pairs.tree.join(&format!("{file}.{end}"))).expect("our own file");
    let chain = CertificateDer::pem_slice_iter(&read("pem"))
        .collect::<Result<_, _>>()
        .expect("certificates");
    (chain, PrivateKeyDer::from_pem_slice(&read("key")).expect("a key"))
}

/// Pairs for `127.0.0.1` and for `a.test`.
fn pairs() -> Pairs {
    let mut pairs = Pairs::new();
    pairs.add("local", &["127.0.0.1"]);
    pairs.add("a", &["a.test"]);
    pairs
}

fn launch(strategy: Strategy, pairs: &Pairs, table: &str) -> Server {
    let folder = pairs.tree.path().display();
    let text = format!(
        "root = \"{folder}/site\"\nhttp2 = \"all\"\n[[proxy]]\npath = \"/api/*\"\n{}\n",
        table.replace("$", &format!("{folder}/"))
    );
    let config = pairs.tree.write("weir.toml", text);
    Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .args(["--access-log=-", "--log-format=json"])
        .start()
}

fn requests_pass_over_kept_connections(strategy: Strategy) {
    let pairs = pairs();
    let upstream = Secured::echoing(config(&pairs, "local"));
    let table = format!(
        "upstreams = [\"{}\"]\n[proxy.tls]\nca = \"$local.pem\"",
        upstream.url
    );
    let server = launch(
        Strategy {
            workers: 1,
            ..strategy
        },
        &pairs,
        &table,
    );
    let mut connection = server.connect();
    for number in 0..5 {
        let target = format!("/api/{number}");
        assert_eq!(connection.get(&target).text(), target);
    }
    let first = upstream.all();
    assert_eq!(first.len(), 1, "one connection for all: {first:?}");
    assert!(first[0].text.contains("GET /api/0 HTTP/1.1\r\n"), "{first:?}");
    assert_eq!(
        (first[0].is_resumed, &first[0].server_name),
        (false, &None),
        "an address is no name"
    );
    // Content of more than a record each way, in chunks as well. It needs a connection of its own.
    let content = "0123456789abcdef".repeat(20_000);
    connection.send(format!(
        "POST /api/x HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{content}",
        content.len()
    ));
    assert!(connection.receive("POST").text() == content);
    let mut client = frames::connect(&server);
    assert_eq!(client.get("/api/new", &[]).text(), "/api/new");
    let all = upstream.all();
    assert!(
        all.len() > 1 && all[1..].iter().all(|got| got.is_resumed),
        "sessions are resumed"
    );
}

fn every_mistake_gets_an_answer_and_a_reason(strategy: Strategy) {
    let pairs = pairs();
    let right = Secured::echoing(config(&pairs, "local"));
    let other = Secured::echoing(config(&pairs, "a"));
    // It speaks first, as it cannot make sense of what it gets.
    let plain = Upstream::new(|stream| {
        let _ = stream.write_all(HELLO);
        let _ = stream.read_to_end(&mut Vec::new());
        String::new()
    });
    let plain = plain.url.replace("http:", "https:");
    let closing = Upstream::new(|_| String::new()).url.replace("http:", "https:");
    for (url, more, said) in [
        // All authorities of the test have the same name, so the wrong one is one with another key.
        (
            &right.url,
            "ca = \"$a.pem\"",
            &[
                "(for 127.0.0.1, issued by",
                "has a bad signature",
                "`ca` in [proxy.tls]",
            ][..],
        ),
        (
            &other.url,
            "ca = \"$a.pem\"",
            &[
                "(for a.test, issued by",
                "is not for `127.0.0.1`",
                "`server-name`",
            ],
        ),
        (&plain, "ca = \"$a.pem\"", &["speaks plain HTTP", "http URL"]),
        (
            &closing,
            "ca = \"$a.pem\"",
            &["closed the connection during the handshake"],
        ),
    ] {
        let server = launch(
            strategy,
            &pairs,
            &format!("upstreams = [\"{url}\"]\n[proxy.tls]\n{more}"),
        );
        for method in ["GET", "POST"] {
            let got = server
                .connect()
                .request(method, "/api/x", &[("Content-Length", "0")]);
            assert_eq!(got.status, 502, "{url} {more}");
            assert!(got.text().contains("secure connection"), "{}", got.text());
        }
        assert_eq!(
            frames::connect(&server).get("/api/x", &[]).status,
            502,
            "{url} {more}"
        );
        let line = eventually("the reason in the log", || {
            let log = server.stderr();
            log.lines()
                .find(|line| line.contains("TLS failed"))
                .map(str::to_owned)
        });
        assert!(said.iter().all(|part| line.contains(part)), "{said:?}: {line}");
        // Another upstream stands in.
        let table = format!(
            "balance = \"round-robin\"\nupstreams = [\"{url}\", \"{}\"]\n[proxy.tls]\n{}",
            right.url, "ca = \"$local.pem\""
        );
        let server = launch(strategy, &pairs, &table);
        for _ in 0..2 {
            let got = server
                .connect()
                .request("POST", "/api/x", &[("Content-Length", "0")]);
            assert_eq!((got.status, got.text().as_str()), (200, "/api/x"), "{url}");
        }
    }
}

fn settings_decide_what_is_accepted(strategy: Strategy) {
    let pairs = pairs();
    let upstream = Secured::echoing(config(&pairs, "a"));
    for more in ["ca = \"$a.pem\"\nserver-name = \"a.test\"", "insecure = true"] {
        let table = format!("upstreams = [\"{}\"]\n[proxy.tls]\n{more}", upstream.url);
        assert_eq!(
            launch(strategy, &pairs, &table).connect().get("/api/x").text(),
            "/api/x",
            "{more}"
        );
    }
    assert_eq!(upstream.all()[0].server_name.as_deref(), Some("a.test"));
    // An upstream that asks for a certificate.
    let verifier = WebPkiClientVerifier::builder(Arc::new(pairs.roots.clone()))
        .build()
        .expect("roots");
    let (chain, key) = pair(&pairs, "local");
    let asking = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .expect("a pair");
    let asking = Secured::echoing(asking);
    for (more, status) in [("cert = \"$a.pem\"\nkey = \"$a.key\"", 200), ("", 502)] {
        let table = format!(
            "upstreams = [\"{}\"]\n[proxy.tls]\nca = \"$local.pem\"\n{more}",
            asking.url
        );
        assert_eq!(
            launch(strategy, &pairs, &table).connect().get("/api/x").status,
            status,
            "{more}"
        );
    }
    assert!(asking.all()[0].has_certificate);
}

fn a_connection_announces_its_client_before_tls(strategy: Strategy) {
    let pairs = pairs();
    let upstream = Secured::echoing(config(&pairs, "local"));
    let table = format!(
        "upstreams = [\"{}\"]\nproxy-protocol = \"v1\"\n[proxy.tls]\nca = \"$local.pem\"\n[proxy.check]\n\
         path = \"/healthz\"\ninterval = \"10ms\"",
        upstream.url
    );
    let server = launch(strategy, &pairs, &table);
    let mut connection = server.connect();
    for _ in 0..2 {
        assert_eq!(connection.get("/api/x").text(), "/api/x");
    }
    for (begins, count) in [
        ("PROXY TCP4 127.0.0.1 0.0.0.0 0 0\r\nGET /api/x HTTP/1.1\r\n", 2),
        ("PROXY UNKNOWN\r\nGET /healthz HTTP/1.1\r\n", 1),
    ] {
        eventually("what was announced", || {
            let all = upstream.all();
            let found = all.iter().filter(|got| got.text.starts_with(begins)).count();
            (found >= count).then_some(())
        });
    }
}

/// An upstream that sends a TLS record byte by byte never exceeds the time between two of them.
fn a_handshake_has_one_deadline(strategy: Strategy) {
    let pairs = pairs();
    let upstream = Upstream::new(|stream| {
        let _ = stream.set_read_timeout(Some(std::time::Duration::from_millis(10)));
        // The head of a record of 16,000 bytes with a handshake message.
        let mut next = [22, 3, 3, 0x3e, 0x80, 2].into_iter().chain(std::iter::repeat(0));
        let mut scratch = [0; 1024];
        while next.next().is_some_and(|byte| stream.write_all(&[byte]).is_ok()) {
            // Reading is the pause.
            if stream.read(&mut scratch).is_ok_and(|got| got == 0) {
                break;
            }
        }
        String::new()
    });
    let table = format!(
        "upstreams = [\"{}\"]\nconnect-timeout = \"100ms\"\n[proxy.tls]\ninsecure = true",
        upstream.url.replace("http:", "https:")
    );
    let server = launch(strategy, &pairs, &table);
    assert_eq!(server.connect().get("/api/x").status, 504);
    assert_eq!(frames::connect(&server).get("/api/x", &[]).status, 504);
}

fn an_end_has_to_be_said(strategy: Strategy) {
    let pairs = pairs();
    let upstream = Secured::new(config(&pairs, "local"), |stream, _| {
        let got = head(stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nwhole");
        if got.contains("/api/said") {
            stream.conn.send_close_notify();
        }
        let _ = stream.flush();
    });
    let table = format!(
        "upstreams = [\"{}\"]\n[proxy.tls]\nca = \"$local.pem\"",
        upstream.url
    );
    let server = launch(strategy, &pairs, &table);
    assert_eq!(server.connect().get("/api/said").text(), "whole");
    let mut cut = server.connect();
    cut.send("GET /api/cut HTTP/1.1\r\nHost: x\r\n\r\n");
    let (got, _) = cut.rest();
    assert!(
        !got.ends_with(b"\r\n0\r\n\r\n"),
        "{}",
        String::from_utf8_lossy(&got)
    );
}

fn websocket_passes(strategy: Strategy) {
    let pairs = pairs();
    let upstream = Secured::new(config(&pairs, "local"), |stream, note| {
        note(&head(stream));
        let _ = stream.write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nearly",
        );
        let _ = stream.flush();
        let mut part = [0; 4_096];
        while let Ok(length) = stream.read(&mut part) {
            if length == 0 {
                return note("END");
            }
            let _ = stream.write_all(&part[..length]);
            let _ = stream.flush();
        }
    });
    let table = format!(
        "upstreams = [\"{}\"]\n[proxy.tls]\nca = \"$local.pem\"",
        upstream.url
    );
    let server = launch(strategy, &pairs, &table);
    let mut connection = server.connect();
    connection.send("GET /api/x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(connection.exactly(1));
    }
    assert!(
        head.starts_with(b"HTTP/1.1 101 "),
        "{}",
        String::from_utf8_lossy(&head)
    );
    assert_eq!(connection.exactly(5), b"early");
    for _ in 0..3 {
        connection.send([7; 1_000]);
        assert_eq!(connection.exactly(1_000), [7; 1_000]);
    }
    connection.finish();
    eventually("the end at the upstream", || {
        upstream.all()[0].text.ends_with("END").then_some(())
    });
}

fn nothing_ambiguous_is_passed_on(strategy: Strategy) {
    let pairs = pairs();
    let upstream = Secured::new(config(&pairs, "local"), |stream, note| {
        let mut part = [0; 4_096];
        while let Ok(length @ 1..) = stream.read(&mut part) {
            note(&String::from_utf8_lossy(&part[..length]));
        }
    });
    let table = format!(
        "upstreams = [\"{}\"]\n[proxy.tls]\nca = \"$local.pem\"",
        upstream.url
    );
    let server = launch(strategy, &pairs, &table);
    for (why, request, status) in REFUSED {
        let mut connection = server.connect();
        connection.send(request.replace("/a.txt", "/api/a.txt"));
        connection.try_send("GET /api/smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
        let answer = connection.receive("GET");
        assert!(
            answer.status == *status || answer.status == 502,
            "{why}: {}",
            answer.status
        );
        assert!(answer.closes(), "{why}");
    }
    for Got { text, .. } in upstream.all() {
        assert!(!text.contains("/api/smuggled"), "{text}");
        assert!(text.matches(" HTTP/1.1\r\n").count() <= 1, "{text}");
        assert!(
            !text.ends_with("0\r\n\r\n"),
            "an invalid body was completed: {text}"
        );
    }
}

on_strategy!(loops, LOOPS:
    requests_pass_over_kept_connections, every_mistake_gets_an_answer_and_a_reason,
    settings_decide_what_is_accepted, an_end_has_to_be_said, websocket_passes, nothing_ambiguous_is_passed_on,
    a_connection_announces_its_client_before_tls, a_handshake_has_one_deadline);
on_strategy!(loops_uring, LOOPS_URING:
    requests_pass_over_kept_connections, every_mistake_gets_an_answer_and_a_reason, an_end_has_to_be_said,
    websocket_passes);
on_strategy!(process_loops, PROCESS_LOOPS: requests_pass_over_kept_connections);

#[test]
fn checks_use_tls_too() {
    let pairs = pairs();
    let good = Secured::echoing(config(&pairs, "local"));
    let bad = Secured::echoing(config(&pairs, "a"));
    let table = format!(
        "upstreams = [\"{}\", \"{}\"]\nbalance = \"round-robin\"\n[proxy.check]\npath = \"/healthz\"\ninterval = \"20ms\"\n[proxy.tls]\nca = \"$local.pem\"",
        good.url, bad.url
    );
    let server = launch(Strategy::LOOPS, &pairs, &table);
    assert_eq!(server.connect().get("/api/x").status, 200);
    let line = eventually("the failed check", || {
        let log = server.stderr();
        log.lines()
            .find(|line| line.contains("the check failed"))
            .map(str::to_owned)
    });
    assert!(
        line.contains(&format!(":{}", bad.port)) && line.contains("TLS failed"),
        "{line}"
    );
    assert!(good.all().iter().any(|got| got.text.starts_with("GET /healthz ")));
}

#[test]
fn files_that_cannot_be_used_are_named_at_the_start() {
    let pairs = pairs();
    pairs.tree.write("empty.pem", "");
    for (more, said) in [
        ("ca = \"$none.pem\"", "none.pem"),
        ("ca = \"$empty.pem\"", "no certificate"),
        ("cert = \"$a.pem\"\nkey = \"$local.key\"", "does not belong"),
        ("server-name = \"a b\"", "`a b`"),
    ] {
        let folder = pairs.tree.path().display();
        let text = format!(
            "root = \"{folder}/site\"\n[[proxy]]\npath = \"/api/*\"\nupstreams = [\"https://127.0.0.1:1\"]\n[proxy.tls]\ninsecure = {}\n{}\n",
            !more.starts_with("ca"),
            more.replace("$", &format!("{folder}/"))
        );
        let config = pairs.tree.write("weir.toml", text);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&config)
            .output()
            .expect("the binary starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more}: {stderr}");
        assert!(
            stderr.contains("`proxy`") && stderr.contains(said),
            "{more}: {stderr}"
        );
    }
}
