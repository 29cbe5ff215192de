//! Connections that switch to WebSocket (RFC 6455): bytes pass both ways as they are, until one side ends or both are silent.

use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::{Upstream, head, peak};
use crate::serve::tree::Tree;
use crate::serve::wire::Connection;
use std::io::{Read, Write};
use std::net::Shutdown;

pub(crate) const ASK: &str = "GET /api/chat HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

pub(crate) const AGREE: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// The head that clients get for [`AGREE`].
const AGREED: &str = "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
                      Via: 1.1 weir\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

fn tree() -> Tree {
    Tree::with(&[("a.txt", "a file")])
}

fn launch(strategy: Strategy, tree: &Tree, url: &str, more: &str) -> Server {
    let text = format!(
        "root = \"{}\"\n[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{url}\"]\n{more}\n",
        tree.path().display()
    );
    let config = tree.write("weir.toml", text);
    Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .args(["--access-log=-", "--log-format=json"])
        .start()
}

/// An upstream that agrees, and then sends back what it gets. It records the head and how the connection ended.
fn echo() -> Upstream {
    Upstream::new(|stream| {
        let got = head(stream);
        let _ = stream.write_all(&[AGREE, b"early"].concat());
        let mut part = vec![0; 64 << 10];
        loop {
            match stream.read(&mut part) {
                Ok(0) => return format!("{got}END"),
                Ok(length) => {
                    if stream.write_all(&part[..length]).is_err() {
                        return format!("{got}RESET");
                    }
                }
                Err(_) => return format!("{got}RESET"),
            }
        }
    })
}

/// A client whose connection has switched.
fn switched(server: &Server) -> Connection {
    let mut connection = server.connect();
    connection.send(ASK);
    let got = connection.exactly(AGREED.len());
    assert_eq!(String::from_utf8_lossy(&got), AGREED);
    connection
}

fn bytes_pass_as_they_are(strategy: Strategy) {
    let tree = tree();
    let upstream = echo();
    let server = launch(strategy, &tree, &upstream.url, "max-body-size = 4");
    let mut connection = server.connect();
    // What a hasty client sends behind its request is for the upstream.
    assert_eq!(connection.get("/a.txt").text(), "a file");
    connection.send([ASK.as_bytes(), b"hasty"].concat());
    assert_eq!(connection.exactly(AGREED.len()), AGREED.as_bytes());
    assert_eq!(connection.exactly(10), b"earlyhasty");
    let all: Vec<u8> = (0..=255).collect();
    for _ in 0..3 {
        connection.send(&all);
        assert_eq!(connection.exactly(256), all);
    }
    // It does not look like HTTP to anyone.
    connection.send("GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(connection.exactly(32).starts_with(b"GET /a.txt"));
    connection.finish();
    connection.expect_close();
    let got = upstream.first();
    assert!(got.ends_with("END"), "{got}");
    assert!(
        got.contains("\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"),
        "{got}"
    );
    assert_eq!(got.matches("pgrade").count(), 2, "{got}");
    assert!(got.contains("\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"));
    let line = eventually("the line in the log", || {
        let log = server.stdout();
        log.lines()
            .find(|line| line.contains("/api/chat"))
            .map(str::to_owned)
    });
    for part in [
        "\"status\":101",
        "\"upstream\":",
        &format!("\"body_bytes\":{},", 10 + 3 * 256 + 32),
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!line.contains("aborted"), "{line}");
}

fn an_upstream_that_closes_ends_the_client(strategy: Strategy) {
    let tree = tree();
    let upstream = Upstream::new(|stream| {
        let got = head(stream);
        let _ = stream.write_all(AGREE);
        let mut asked = [0; 4];
        let _ = stream.read_exact(&mut asked);
        let _ = stream.write_all(&vec![b'd'; 1 << 20]);
        got
    });
    let server = launch(strategy, &tree, &upstream.url, "");
    let mut connection = switched(&server);
    connection.send("more");
    let (got, end) = connection.rest();
    assert_eq!((got.len(), end), (1 << 20, crate::serve::wire::End::Closed));
}

/// Either side waits for the other, and nothing piles up here.
fn a_side_that_does_not_read_stops_the_other(strategy: Strategy) {
    const SIZE: usize = 64 << 20;
    let tree = tree();
    let upstream = echo();
    let server = launch(strategy, &tree, &upstream.url, "");
    let mut connection = switched(&server);
    assert_eq!(connection.exactly(5), b"early");
    let before = peak(&server);
    // An echo that is not read stops its upstream, and that stops the client.
    let mut writer = connection.stream().try_clone().expect("a descriptor");
    let sender = std::thread::spawn(move || {
        let part = vec![b'u'; 64 << 10];
        (0..SIZE / part.len()).for_each(|_| writer.write_all(&part).expect("the proxy takes all"));
    });
    eventually("full buffers", || {
        let held = unread(&mut connection);
        (held > 32 << 10).then_some(())
    });
    let mut got = 0;
    let mut part = vec![0; 64 << 10];
    while got < SIZE {
        got += connection.stream().read(&mut part).expect("the echo");
    }
    sender.join().expect("it sent all");
    assert_eq!(got, SIZE);
    let grown = peak(&server).saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB");
}

/// Bytes that wait at a client that does not read.
fn unread(connection: &mut Connection) -> usize {
    let mut part = vec![0; 128 << 10];
    connection.stream().peek(&mut part).unwrap_or(0)
}

fn silence_ends_both_sides(strategy: Strategy) {
    let tree = tree();
    let upstream = echo();
    let server = launch(strategy, &tree, &upstream.url, "idle-timeout = \"3s\"");
    let mut connection = switched(&server);
    assert_eq!(connection.exactly(5), b"early");
    connection.send("ping");
    assert_eq!(connection.exactly(4), b"ping");
    connection.expect_close();
    assert!(upstream.first().ends_with("END"));
}

fn other_answers_and_other_protocols_are_http(strategy: Strategy) {
    let tree = tree();
    for (why, ask, answer, more, status) in [
        (
            "the upstream declines",
            ASK.to_owned(),
            &b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno"[..],
            "",
            426,
        ),
        ("it is off", ASK.to_owned(), AGREE, "websocket = false", 502),
        (
            "another protocol is asked for",
            ASK.replace("WebSocket\r\n", "h2c\r\n"),
            AGREE,
            "",
            502,
        ),
        (
            "two protocols are asked for",
            ASK.replace("WebSocket\r\n", "websocket, h2c\r\n"),
            AGREE,
            "",
            502,
        ),
        (
            "a method with an effect",
            ASK.replace("GET ", "POST ")
                .replace("Host: x", "Host: x\r\nContent-Length: 0"),
            AGREE,
            "",
            502,
        ),
        (
            "the upstream switches to another protocol",
            ASK.to_owned(),
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
            "",
            502,
        ),
    ] {
        let upstream = Upstream::answering(answer);
        let server = launch(strategy, &tree, &upstream.url, more);
        let mut connection = server.connect();
        connection.send(ask);
        let got = connection.receive("GET");
        assert_eq!(got.status, status, "{why}: {}", got.text());
        // Its connection goes on.
        assert_eq!(connection.get("/a.txt").text(), "a file", "{why}");
        let first = upstream.first();
        let is_asked = first.contains("Upgrade: websocket\r\n");
        assert_eq!(is_asked, why.starts_with("the upstream"), "{why}: {first}");
        assert!(!first.contains("h2c"), "{why}: {first}");
    }
}

fn a_lost_client_ends_the_upstream(strategy: Strategy) {
    let tree = tree();
    let upstream = echo();
    let server = launch(strategy, &tree, &upstream.url, "");
    let mut connection = switched(&server);
    connection
        .stream()
        .shutdown(Shutdown::Both)
        .expect("an open socket");
    drop(connection);
    let got = upstream.first();
    assert!(got.ends_with("END") || got.ends_with("RESET"), "{got}");
    assert_eq!(server.connect().get("/a.txt").text(), "a file");
}

macro_rules! where_sessions_dial {
    ($($name:ident),* $(,)?) => {
        on_strategy!(loops, LOOPS: $($name),*);
        on_strategy!(one_loop, ONE_LOOP: $($name),*);
        on_strategy!(process_loops, PROCESS_LOOPS: $($name),*);
        on_strategy!(loops_uring, LOOPS_URING: $($name),*);
    };
}

where_sessions_dial!(
    bytes_pass_as_they_are,
    an_upstream_that_closes_ends_the_client,
    a_side_that_does_not_read_stops_the_other,
    silence_ends_both_sides,
    other_answers_and_other_protocols_are_http,
    a_lost_client_ends_the_upstream,
);
