//! Load balancers that announce their client in a header of the PROXY protocol, in cleartext and in front of TLS. Only trusted
//! peers may, and they must.

use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually, signal, within};
use crate::serve::tls::Pairs;
use crate::serve::tree::Tree;
use crate::serve::upgrade::{ENDING, Line, pid_of};
use crate::serve::wire::{Connection, End};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use tls::rustls::pki_types::ServerName;
use tls::rustls::{ClientConnection, StreamOwned};

const V1: &[u8] = b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\x0a\0\0\x01\x12\x67\0\x50";
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

const RULES: &str = "access-log = \"-\"\nlog-format = \"json\"\nheader-timeout = \"3s\"\n\
    proxy-protocol = true\ntrusted = \"127.0.0.0/8\"\n[[access]]\npath = \"/near/*\"\nallow = \"192.0.2.0/24\"\n";

fn launch(strategy: Strategy) -> (Server, Tree) {
    launch_with(strategy, RULES)
}

fn launch_with(strategy: Strategy, rules: &str) -> (Server, Tree) {
    let tree = Tree::with(&[("site/near/a.txt", "near"), ("site/a.txt", "a file")]);
    let file = tree.write("weir.toml", format!("root = \"site\"\n{rules}"));
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), file.as_os_str()])
        .args(["--listen", "[::1]:0"])
        .start();
    (server, tree)
}

/// The addresses of the server: one whose clients are trusted, and one whose clients are not.
fn addresses(server: &Server) -> [SocketAddr; 2] {
    [0, 1].map(|at| {
        let text = server.started["listeners"][at]["address"]
            .as_str()
            .expect("an address");
        text.parse().expect("an address")
    })
}

/// Half of the header has arrived when an upgrade replaces the server: its next response is the last, as that of others.
#[test]
fn who_is_announced_during_an_upgrade_is_told_to_go() {
    let (server, _tree) = launch_with(Strategy::LOOPS, &RULES.replace("3s", "1h"));
    let [near, _] = addresses(&server);
    let mut connection = Connection::open(near);
    connection.send(&V1[..9]);
    // Each has been read by then.
    for _ in 0..32 {
        let mut other = Connection::open(near);
        other.send([V1, ASK].concat());
        assert_eq!(other.receive("GET").status, 200);
    }
    let mut line = Line::of(server);
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    eventually("the old one leaves", || {
        line.first.stderr().contains("stopping").then_some(())
    });
    connection.send(&V1[9..]);
    eventually("its last answer, which says so", || {
        connection.send(ASK);
        let answer = connection.receive("GET");
        assert_eq!(answer.text(), "near");
        answer.closes().then_some(())
    });
    drop(connection);
    within(ENDING, "the old one ends", || line.first.has_ended());
    line.stop();
}

const ASK: &[u8] = b"GET /near/a.txt HTTP/1.1\r\nHost: a\r\n\r\n";

fn the_header_names_the_client(strategy: Strategy) {
    let (server, _tree) = launch(strategy);
    let [near, _] = addresses(&server);
    for (header, status) in [(V1, 200), (V2, 200), (LOCAL, 403), (b"PROXY UNKNOWN\r\n", 403)] {
        let all = [header, ASK].concat();
        // Cut at each byte of the header, and behind it.
        for at in [
            1,
            header.len() / 2,
            header.len() - 1,
            header.len(),
            header.len() + 3,
            all.len(),
        ] {
            let mut connection = Connection::open(near);
            connection.send(&all[..at]);
            if at < all.len() {
                connection.send(&all[at..]);
            }
            assert_eq!(
                connection.receive("GET").status,
                status,
                "{}",
                header.escape_ascii()
            );
            // The header stands once.
            assert_eq!(connection.get("/a.txt").text(), "a file");
        }
    }
    eventually("the client in the log", || {
        let log = server.stdout();
        (log.contains("\"192.0.2.7\"") && log.contains("\"127.0.0.1\"")).then_some(())
    });
}

fn a_trusted_peer_must_send_it_and_nobody_else_can(strategy: Strategy) {
    let (server, _tree) = launch(strategy);
    let [near, far] = addresses(&server);
    for wrong in [
        ASK,
        b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 80 \r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x31",
    ] {
        let mut connection = Connection::open(near);
        connection.send(wrong);
        let (got, _) = connection.rest();
        assert!(got.is_empty(), "{}", got.escape_ascii());
    }
    // A header that does not end, and a peer that is silent, are given up.
    for part in [&V1[..9], b""] {
        let mut connection = Connection::open(near);
        connection.send(part);
        assert_eq!(connection.rest(), (Vec::new(), End::Closed));
    }
    eventually("the reason in the log", || {
        server
            .stderr()
            .contains("turn `proxy-protocol` off")
            .then_some(())
    });
    let mut connection = Connection::open(far);
    assert_eq!(connection.get("/a.txt").text(), "a file");
    assert_eq!(connection.get("/near/a.txt").status, 403);
    let mut connection = Connection::open(far);
    connection.send([V1, ASK].concat());
    assert_eq!(connection.receive("GET").status, 400);
    // The server serves on.
    let mut connection = Connection::open(near);
    connection.send([V1, ASK].concat());
    assert_eq!(connection.receive("GET").status, 200);
}

on_every_strategy!(
    the_header_names_the_client,
    a_trusted_peer_must_send_it_and_nobody_else_can,
);

#[test]
fn tls_follows_the_header() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let file = pairs.tree.write(
        "weir.toml",
        "root = \"site\"\ntrusted = \"127.0.0.1\"\n[[listener]]\naddress = \"127.0.0.1:0\"\nproxy-protocol = true\n\
         tls = { cert = \"a.pem\", key = \"a.key\" }\n[[access]]\npath = \"/\"\nallow = \"192.0.2.0/24\"\n",
    );
    let server = Launch::file(env!("CARGO_BIN_EXE_weir").as_ref())
        .args(["--config".as_ref(), file.as_os_str()])
        .start();
    let name = ServerName::try_from("a.test").expect("a name");
    let client = ClientConnection::new(Arc::clone(&pairs.client()), name).expect("a client");
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream
        .set_read_timeout(Some(crate::serve::process::PATIENCE))
        .expect("a timeout");
    stream.write_all(V2).expect("the server takes bytes");
    let mut stream = StreamOwned::new(client, stream);
    stream
        .write_all(b"GET /index.html HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
        .expect("the server takes bytes");
    let mut got = String::new();
    stream.read_to_string(&mut got).expect("a whole answer");
    assert!(got.starts_with("HTTP/1.1 200") && got.ends_with("hello"), "{got}");
}

#[test]
fn it_needs_trusted_peers() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--check", "--proxy-protocol"])
        .output()
        .expect("the program runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("`trusted`"), "{told}");
}
