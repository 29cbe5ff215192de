//! TLS as a client sees it, over every strategy: certificates by name, resumption, large files, plain HTTP on a TLS
//! port, reloads, and handshakes that do not end.
//!
//! The client is rustls, which refuses what a browser refuses: an unknown issuer, another name, a truncated response.

use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tree::Tree;
use crate::serve::upgrade::Line;
use crate::serve::wire::Connection;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use tls::rustls::pki_types::{CertificateDer, ServerName};
use tls::rustls::{
    self, ClientConfig, ClientConnection, HandshakeKind, NamedGroup, ProtocolVersion, RootCertStore,
    StreamOwned,
};

/// Certificates and keys in a folder, and what a client trusts of them.
pub(crate) struct Pairs {
    pub(crate) tree: Tree,
    pub(crate) roots: RootCertStore,
}

impl Pairs {
    pub(crate) fn new() -> Pairs {
        Pairs {
            tree: Tree::with(&[("site/index.html", "hello")]),
            roots: RootCertStore::empty(),
        }
    }

    /// Writes `NAME.pem` and `NAME.key`, with a certificate for these names.
    pub(crate) fn add(&mut self, file: &str, names: &[&str]) -> CertificateDer<'static> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        self.tree.write(&format!("{file}.pem"), made.cert.pem());
        self.tree
            .write(&format!("{file}.key"), made.signing_key.serialize_pem());
        let certificate = made.cert.der().clone();
        self.roots.add(certificate.clone()).expect("a root");
        certificate
    }

    /// `weir serve` of the site with the pairs of these names.
    pub(crate) fn launch(&self, strategy: Strategy, files: &[&str]) -> Launch {
        let mut launch = Launch::new(strategy).root(&self.tree.join("site"));
        for file in files {
            launch = launch
                .args([
                    "--tls-cert".as_ref(),
                    self.tree.join(&format!("{file}.pem")).as_os_str(),
                ])
                .args([
                    "--tls-key".as_ref(),
                    self.tree.join(&format!("{file}.key")).as_os_str(),
                ]);
        }
        launch
    }

    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        let config = ClientConfig::builder()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        Arc::new(config)
    }
}

/// A server with one certificate for `a.test`.
fn one_pair(strategy: Strategy) -> (Pairs, Server) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let server = pairs.launch(strategy, &["a"]).start();
    (pairs, server)
}

/// A TLS connection of a client that asks for this name.
pub(crate) struct Secure(pub(crate) StreamOwned<ClientConnection, TcpStream>);

impl Secure {
    pub(crate) fn open(server: SocketAddr, config: &Arc<ClientConfig>, name: &str) -> Secure {
        Secure::try_open(server, config, name).expect("a handshake")
    }

    pub(crate) fn try_open(
        server: SocketAddr,
        config: &Arc<ClientConfig>,
        name: &str,
    ) -> Result<Secure, std::io::Error> {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let connection = ClientConnection::new(Arc::clone(config), name).expect("a client");
        let stream = TcpStream::connect(server)?;
        stream
            .set_read_timeout(Some(crate::serve::process::PATIENCE))
            .expect("a timeout");
        let mut secure = Secure(StreamOwned::new(connection, stream));
        while secure.0.conn.is_handshaking() {
            secure.0.conn.complete_io(&mut secure.0.sock)?;
        }
        Ok(secure)
    }

    /// The version of TLS and the key exchange that both ends agreed on.
    pub(crate) fn agreed(&self) -> (ProtocolVersion, NamedGroup) {
        let version = self.0.conn.protocol_version();
        let group = self.0.conn.negotiated_key_exchange_group();
        (version.expect("a version"), group.expect("a group").name())
    }

    /// Sends a request that ends the connection; returns all of the response.
    fn last(mut self, path: &str) -> Vec<u8> {
        self.ask(path, "close");
        let mut all = Vec::new();
        // An error here is an end without `close_notify`.
        self.0.read_to_end(&mut all).expect("a response and a clean end");
        all
    }

    fn ask(&mut self, path: &str, connection: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: {connection}\r\n\r\n");
        self.0.write_all(request.as_bytes()).expect("a request");
    }

    /// Reads until the response to a small file is there.
    fn small(&mut self) -> String {
        let mut text = String::new();
        let mut buffer = [0; 4096];
        while !text.ends_with("hello") {
            let count = self.0.read(&mut buffer).expect("a response");
            assert!(count > 0, "an end after {text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        text
    }

    /// The response to a GET, on a connection that stays open; `None` if the server ends it.
    pub(crate) fn try_ask(&mut self, path: &str) -> Option<String> {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"))
    }

    /// The response to a POST.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> Option<String> {
        let length = body.len();
        self.exchange(&format!(
            "POST {path} HTTP/1.1\r\nHost: a.test\r\nUser-Agent: test\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// The response to these bytes; `None` if the server ends the connection.
    pub(crate) fn exchange(&mut self, request: &str) -> Option<String> {
        self.0.write_all(request.as_bytes()).ok()?;
        let mut text = Vec::new();
        let mut buffer = [0; 16_384];
        loop {
            let head = crate::serve::wire::find(&text, b"\r\n\r\n").map(|at| at + 4);
            if let Some(head) = head {
                let lines = String::from_utf8_lossy(&text[..head]).to_ascii_lowercase();
                let length = lines
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
                if text.len() >= head + length {
                    return String::from_utf8(text).ok();
                }
            }
            match self.0.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(count) => text.extend_from_slice(&buffer[..count]),
            }
        }
    }

    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        let chain = self.0.conn.peer_certificates().expect("a certificate");
        chain[0].clone().into_owned()
    }
}

fn body(response: &[u8]) -> &[u8] {
    let end = crate::serve::wire::find(response, b"\r\n\r\n").expect("a head");
    &response[end + 4..]
}

fn files_large_and_small_arrive_whole(strategy: Strategy) {
    let (pairs, server) = one_pair(strategy);
    let config = pairs.client();
    for size in [0, 1, 8_192, 16_384, 16_385, 100_000, 3_000_000] {
        let content = crate::serve::files::noise(size);
        pairs.tree.write(&format!("site/{size}.bin"), &content);
        let response = Secure::open(server.address, &config, "a.test").last(&format!("/{size}.bin"));
        assert!(response.starts_with(b"HTTP/1.1 200"), "{size}");
        assert!(
            body(&response) == content,
            "{size}: {} bytes",
            body(&response).len()
        );
    }
}

fn a_connection_serves_many_requests_and_says_goodbye(strategy: Strategy) {
    let (pairs, server) = one_pair(strategy);
    let mut secure = Secure::open(server.address, &pairs.client(), "a.test");
    for _ in 0..20 {
        secure.ask("/", "keep-alive");
        assert!(secure.small().starts_with("HTTP/1.1 200"));
    }
    let version = secure.0.conn.protocol_version();
    assert_eq!(version, Some(rustls::ProtocolVersion::TLSv1_3));
    let group = secure.0.conn.negotiated_key_exchange_group().expect("a group");
    assert_eq!(group.name(), rustls::NamedGroup::X25519MLKEM768);
    assert!(body(&secure.last("/")) == b"hello");
}

fn the_name_chooses_the_certificate(strategy: Strategy) {
    let mut pairs = Pairs::new();
    let a = pairs.add("a", &["a.test"]);
    let b = pairs.add("b", &["*.b.test"]);
    let server = pairs.launch(strategy, &["a", "b"]).start();
    let config = pairs.client();
    assert_eq!(Secure::open(server.address, &config, "a.test").certificate(), a);
    assert_eq!(Secure::open(server.address, &config, "x.b.test").certificate(), b);
    // A client that trusts the issuer and asks for another name refuses the first certificate.
    let refused = Secure::try_open(server.address, &config, "other.test").map(|_| ());
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::InvalidData));
}

fn a_second_connection_resumes(strategy: Strategy) {
    let (pairs, server) = one_pair(strategy);
    let config = pairs.client();
    let kind = |secure: &Secure| secure.0.conn.handshake_kind();
    let mut first = Secure::open(server.address, &config, "a.test");
    first.ask("/", "keep-alive");
    first.small();
    // Workers and processes share ticket keys, so whoever accepts can resume.
    for _ in 0..8 {
        let mut next = Secure::open(server.address, &config, "a.test");
        assert_eq!(kind(&next), Some(HandshakeKind::Resumed));
        next.ask("/", "keep-alive");
        next.small();
    }
}

fn a_connection_after_an_upgrade_resumes(strategy: Strategy) {
    let (pairs, server) = one_pair(strategy);
    let config = pairs.client();
    let mut before = Secure::open(server.address, &config, "a.test");
    before.ask("/", "close");
    before.small();
    drop(before);
    let address = server.address;
    let mut line = Line::of(server);
    line.upgrade();
    let after = Secure::open(address, &config, "a.test");
    assert_eq!(after.0.conn.handshake_kind(), Some(HandshakeKind::Resumed));
    assert!(body(&after.last("/")) == b"hello");
}

fn plain_http_is_told_to_use_https(strategy: Strategy) {
    let (_pairs, server) = one_pair(strategy);
    let response = server.connect().request("GET", "/", &[("Host", "a.test")]);
    assert_eq!(response.status, 400);
    assert!(response.text().contains("https://"), "{}", response.text());
}

fn a_reload_takes_new_certificates_and_refuses_bad_ones(strategy: Strategy) {
    let mut pairs = Pairs::new();
    let first = pairs.add("a", &["a.test"]);
    let server = pairs.launch(strategy, &["a"]).start();
    let seen = |pairs: &Pairs| Secure::open(server.address, &pairs.client(), "a.test").certificate();
    assert_eq!(seen(&pairs), first);
    let mut old = Secure::open(server.address, &pairs.client(), "a.test");
    let second = pairs.add("a", &["a.test"]);
    server.signal("HUP");
    eventually("the new certificate", || (seen(&pairs) == second).then_some(()));
    // An open connection keeps what it began with.
    old.ask("/", "keep-alive");
    assert!(old.small().starts_with("HTTP/1.1 200"));
    pairs.tree.write("a.key", "no key");
    server.signal("HUP");
    eventually("a complaint", || server.stderr().contains("a.key").then_some(()));
    assert_eq!(seen(&pairs), second);
}

fn handshakes_that_do_not_end_keep_nobody_out(strategy: Strategy) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let server = pairs
        .launch(strategy, &["a"])
        .args(["--header-timeout", "2s", "--max-connections", "24"])
        .start();
    let config = pairs.client();
    // The first bytes of a hello, and then nothing; more of them than there are places.
    let mut stuck: Vec<Connection> = (0..32)
        .map(|number: u8| {
            let mut connection = Connection::over(TcpStream::connect(server.address).expect("a connection"));
            connection.try_send([0x16, 3, 1, 2, number]);
            connection
        })
        .collect();
    eventually("a normal client is answered", || {
        let mut secure = Secure::try_open(server.address, &config, "a.test").ok()?;
        secure.ask("/", "keep-alive");
        secure.small().starts_with("HTTP/1.1 200").then_some(())
    });
    for connection in &mut stuck {
        // Closed by the timeout, with an alert or without.
        connection.rest();
    }
}

fn garbage_ends_its_own_connection_only(strategy: Strategy) {
    let (pairs, server) = one_pair(strategy);
    let mut good = Secure::open(server.address, &pairs.client(), "a.test");
    for bytes in [
        &[0x80; 300][..],
        &[0x16, 3, 1, 0, 4, 0xff, 0, 0, 0],
        &[0; 5],
        &[23, 3, 3, 0xff, 0xff, 1],
    ] {
        let mut bad = Connection::over(TcpStream::connect(server.address).expect("a connection"));
        bad.try_send(bytes);
        bad.finish();
        bad.rest();
    }
    good.ask("/", "keep-alive");
    assert!(good.small().starts_with("HTTP/1.1 200"));
}

on_every_strategy!(
    files_large_and_small_arrive_whole,
    a_connection_serves_many_requests_and_says_goodbye,
    the_name_chooses_the_certificate,
    a_second_connection_resumes,
    a_connection_after_an_upgrade_resumes,
    plain_http_is_told_to_use_https,
    a_reload_takes_new_certificates_and_refuses_bad_ones,
    handshakes_that_do_not_end_keep_nobody_out,
    garbage_ends_its_own_connection_only,
);

#[test]
fn pairs_that_cannot_work_end_the_start_and_are_named() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs.add("b", &["b.test"]);
    let at = |name: &str| pairs.tree.join(name).to_string_lossy().into_owned();
    for (cert, key, wanted) in [
        ("none.pem", "a.key", "cannot read"),
        ("a.pem", "b.key", "does not belong"),
        ("a.key", "a.key", "not a certificate chain"),
        ("a.pem", "a.pem", "not a private key"),
    ] {
        let launch = || Launch::bare().root(&pairs.tree.join("site"));
        let flags = ["--tls-cert", &at(cert), "--tls-key", &at(key)];
        for check in [false, true] {
            let launch = launch().args(flags);
            let (code, printed) = if check { launch.args(["--check"]) } else { launch }.fail();
            assert_eq!(code, 2, "{printed}");
            assert!(printed.contains(wanted), "{cert} {key}: {printed}");
        }
    }
    let (code, printed) = Launch::bare().args(["--tls-cert", &at("a.pem")]).fail();
    assert_eq!(code, 2);
    assert!(printed.contains("tls-key"), "{printed}");
}

#[test]
fn logs_name_the_version_of_tls() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let log = pairs.tree.join("access.log");
    let mut server = pairs
        .launch(Strategy::ONE_LOOP, &["a"])
        .args(["--access-log".as_ref(), log.as_os_str()])
        .args(["--log-template=$scheme $tls_version"])
        .start();
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let config = ClientConfig::builder_with_protocol_versions(&[version])
            .with_root_certificates(pairs.roots.clone())
            .with_no_client_auth();
        let mut secure = Secure::open(server.address, &Arc::new(config), "a.test");
        // The last requests are known from memory.
        for _ in 0..4 {
            assert!(secure.try_ask("/").is_some_and(|text| text.ends_with("hello")));
        }
    }
    assert_eq!(server.stop(), 0);
    let lines = ["TLSv1.3", "TLSv1.2"].map(|version| format!("https {version}\n").repeat(4));
    assert_eq!(std::fs::read_to_string(&log).expect("a log"), lines.concat());
}
