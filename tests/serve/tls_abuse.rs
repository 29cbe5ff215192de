//! Clients that misuse TLS, with a normal client beside them that is answered all the same, over every strategy.

use crate::serve::on_every_strategy;
use crate::serve::process::{Server, Strategy, eventually};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::wire::Connection;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::rustls::pki_types::ServerName;
use tls::rustls::{ClientConfig, ClientConnection};

/// A normal client has its answer by then, beside the others and on a busy machine: before the 20 s are over that a client
/// has for a handshake.
const BESIDE_ABUSE: Duration = Duration::from_secs(15);

fn a_server(strategy: Strategy, more: &[&str]) -> (Pairs, Server) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let server = pairs.launch(strategy, &["a"]).args(more).start();
    (pairs, server)
}

/// A normal client gets its page in time. The best of three attempts counts, because the machine has other tests to run.
fn is_served(server: &Server, config: &Arc<ClientConfig>) {
    let ask = || {
        let mut secure = Secure::try_open(server.address, config, "a.test").ok()?;
        secure.try_ask("/").filter(|text| text.ends_with("hello"))
    };
    let is_in_time = |_| {
        let began = Instant::now();
        while ask().is_none() && began.elapsed() <= BESIDE_ABUSE {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        // The last try may have begun in time and taken longer.
        began.elapsed() <= BESIDE_ABUSE
    };
    assert!(
        (0..3).any(is_in_time),
        "a normal client is answered within {BESIDE_ABUSE:?}"
    );
}

/// The first message of a handshake.
fn hello(config: &Arc<ClientConfig>) -> Vec<u8> {
    let name = ServerName::try_from("a.test").expect("a name");
    let mut client = ClientConnection::new(Arc::clone(config), name).expect("a client");
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).expect("a hello");
    bytes
}

/// A hello that comes byte by byte gets no more time for that.
fn a_dribbled_hello_is_cut_off(strategy: Strategy) {
    let (pairs, server) = a_server(strategy, &["--header-timeout", "2s"]);
    let config = pairs.client();
    let bytes = hello(&config);
    let mut slow = TcpStream::connect(server.address).expect("a connection");
    slow.set_read_timeout(Some(Duration::from_millis(50)))
        .expect("a timeout");
    let mut at = 0;
    let mut buffer = [0; 64];
    // Reading waits in place of sleeping: 50 ms for each byte, so bytes tell the time that it had at least.
    while at < bytes.len() && slow.write_all(&bytes[at..=at]).is_ok() {
        at += 1;
        if at == 10 {
            is_served(&server, &config);
        }
        if matches!(slow.read(&mut buffer), Ok(0)) {
            break;
        }
    }
    assert!(at < bytes.len().min(300), "cut off only after {at} bytes");
    is_served(&server, &config);
}

/// A hello in records of one byte each is legal, and a whole one is answered (RFC 8446 section 5.1).
fn records_of_one_byte_end_nothing_else(strategy: Strategy) {
    let (pairs, server) = a_server(strategy, &[]);
    let config = pairs.client();
    let bytes = hello(&config);
    let tiny: Vec<u8> = bytes[5..]
        .iter()
        .flat_map(|&byte| [22, 3, 1, 0, 1, byte])
        .collect();
    let mut all: Vec<Connection> = (0..16)
        .map(|_| {
            let mut connection = Connection::open(server.address);
            connection.try_send(&tiny);
            connection
        })
        .collect();
    is_served(&server, &config);
    for connection in &mut all {
        // A ServerHello, or an alert: whichever, it is TLS.
        let first = connection.exactly(1)[0];
        assert!(first == 22 || first == 21, "{first}");
    }
}

/// Clients that begin handshakes and leave at once.
fn a_flood_of_handshakes_keeps_nobody_waiting(strategy: Strategy) {
    let (pairs, server) = a_server(strategy, &[]);
    let config = pairs.client();
    let bytes = hello(&config);
    for _ in 0..4 {
        let flood: Vec<Connection> = (0..50)
            .map(|_| {
                let mut connection = Connection::open(server.address);
                connection.try_send(&bytes);
                connection
            })
            .collect();
        is_served(&server, &config);
        drop(flood);
    }
}

/// Key updates cost the server a key schedule and an answer each (RFC 8446 section 4.6.3); nobody needs many.
fn a_flood_of_key_updates_is_ended(strategy: Strategy) {
    let (pairs, server) = a_server(strategy, &[]);
    let config = pairs.client();
    let mut bad = Secure::open(server.address, &config, "a.test");
    let mut sent = 0;
    while sent < 10_000 {
        if bad.0.conn.refresh_traffic_keys().is_err() || bad.0.flush().is_err() {
            break;
        }
        sent += 1;
        if sent % 64 == 0 && bad.try_ask("/").is_none() {
            break;
        }
    }
    assert!(sent < 10_000, "it was ended");
    is_served(&server, &config);
    // A few are no flood.
    let mut good = Secure::open(server.address, &config, "a.test");
    for _ in 0..8 {
        good.0.conn.refresh_traffic_keys().expect("TLS 1.3");
        assert!(good.try_ask("/").is_some_and(|text| text.ends_with("hello")));
    }
}

/// Handshakes that do not go on, of one address, leave room for those of others.
#[test]
fn unfinished_handshakes_of_an_address_are_bounded() {
    let flags = ["--max-handshakes-per-address", "8", "--header-timeout", "1h"];
    let (pairs, server) = a_server(Strategy::LOOPS, &flags);
    let config = pairs.client();
    let bytes = hello(&config);
    let mut begun: Vec<TcpStream> = (0..24)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            let elsewhere = SocketAddr::from(([127, 0, 0, 2], 0));
            socket
                .bind(&elsewhere.into())
                .expect("an address of this machine");
            socket.connect(&server.address.into()).expect("a connection");
            let mut stream = TcpStream::from(socket);
            // Less than a hello.
            stream.write_all(&bytes[..20]).expect("room in the socket");
            stream
        })
        .collect();
    is_served(&server, &config);
    // Those above the bound end at once; the others have the time of a request head.
    let stays = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).expect("a socket option");
        match stream.read(&mut [0]) {
            Ok(0) => false,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            other => {
                assert!(other.is_err(), "{other:?}");
                true
            }
        }
    };
    eventually("those above the bound to end", || {
        begun.retain_mut(stays);
        (begun.len() <= 8).then_some(())
    });
    assert_eq!(begun.len(), 8);
}

on_every_strategy!(
    a_dribbled_hello_is_cut_off,
    records_of_one_byte_end_nothing_else,
    a_flood_of_handshakes_keeps_nobody_waiting,
    a_flood_of_key_updates_is_ended,
);
