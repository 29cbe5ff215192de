//! `weir fetch`: HTTP/3 that a server names (Alt-Svc), and the race of QUIC against TCP.

use super::*;
use std::net::UdpSocket;

/// A server of HTTP/1.1 over TLS that answers its first connection, with this `Alt-Svc`, and no other: those wait in the
/// backlog for their handshake.
fn naming(authority: &Authority, service: String) -> SocketAddr {
    let chain = CertificateDer::pem_file_iter(authority.path("cert.pem")).expect("a file");
    let chain = chain.map(|one| one.expect("a certificate")).collect();
    let key = PrivateKeyDer::from_pem_file(authority.path("cert.key")).expect("a key");
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a configuration");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::Builder::new()
        .spawn(move || {
            let (stream, _) = listener.accept().expect("a connection");
            let connection = ServerConnection::new(Arc::new(config)).expect("a server");
            let mut secure = StreamOwned::new(connection, stream);
            assert!(secure.read(&mut [0; 4096]).expect("a request") > 0);
            let answer = format!(
                "HTTP/1.1 200 OK\r\nAlt-Svc: {service}\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"
            );
            secure.write_all(answer.as_bytes()).expect("an answer");
            secure.flush().expect("an answer");
            // The listener stays open as long as the process.
            std::mem::forget(listener);
        })
        .expect("a thread");
    address
}

fn lines(output: &Output) -> Vec<Value> {
    let said = text(&output.stdout);
    said.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["event"] == "fetch")
        .collect()
}

#[test]
fn a_named_service_is_used_from_the_second_fetch_on() {
    let authority = Authority::new();
    authority.issue("127.0.0.1", 2090);
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    let server = authority.start(&["--http3", "--tls-cert", &cert, "--tls-key", &key]);
    let port = server.address.port();
    let service = format!("h2=\":1\", h3=\":{port}\"; ma=3600");
    let url = format!("https://{}/", naming(&authority, service));
    let archive = authority.path("page.har");
    let flags = ["--ca", &authority.ca(), "--repeat", "3", "--har", &archive];
    let output = fetch(&url, &flags);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all = lines(&output);
    assert_eq!(all.len(), 3, "{}", text(&output.stdout));
    assert_eq!(all[0]["opened"][0]["protocol"], "http/1.1", "{}", all[0]);
    assert!(all[0]["race"].is_null(), "nothing was known: {}", all[0]);
    // The second fetch knows what the first server said, and the third what the second said over HTTP/3.
    for (line, most) in all[1..].iter().zip([3_600, 86_400]) {
        assert_eq!(line["opened"][0]["protocol"], "h3", "{line}");
        let race = &line["race"];
        assert_eq!(race["winner"], "quic", "{race}");
        assert_eq!(race["alternative"], format!("127.0.0.1:{port}"), "{race}");
        let fresh = race["fresh_seconds"].as_u64().expect("a number");
        assert!((most - 600..=most).contains(&fresh), "{race}");
    }
    let archive = fs::read_to_string(&archive).expect("an archive");
    assert!(archive.contains("Alt-Used"), "{archive}");
}

fn without_http3(authority: &Authority) -> Server {
    authority.issue("127.0.0.1", 2090);
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    authority.start(&["--http3=false", "--tls-cert", &cert, "--tls-key", &key])
}

#[test]
fn the_winner_is_said_and_why() {
    let authority = Authority::new();
    let server = without_http3(&authority);
    let (url, ca) = (server.url("https"), authority.ca());
    let flags = ["--ca", &ca, "--mode", "h3", "--no-embedded"];
    let check = |fragment: &str| {
        let output = fetch(&url, &flags);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let line = json(&output);
        assert_ne!(line["opened"][0]["protocol"], "h3", "{line}");
        let race = &line["race"];
        assert_eq!(race["winner"], "tcp", "{race}");
        assert_eq!(race["tcp"]["complete"], true, "{race}");
        assert_eq!(race["quic"]["complete"], false, "{race}");
        let why = race["why"].as_str().expect("text");
        assert!(why.contains(fragment), "{why}");
        let said = text(&weir(&[&["fetch", &url], &flags[..]].concat()).stdout);
        assert!(
            said.contains("TCP won the race: ") && said.contains(fragment),
            "{said}"
        );
    };
    // The server has no HTTP/3: its host says that nobody receives.
    check("Connection refused");
    // A path that drops UDP.
    let silent = UdpSocket::bind(server.address).expect("the port is free for UDP");
    check("UDP may be blocked");
    // QUIC alone fails, and soon if it is refused.
    let only = ["--ca", &ca, "--h3-only", "--connect-timeout", "200ms"];
    assert!(refused(&url, &only, 1).contains("no connection within 200ms: no datagram came back"));
    drop(silent);
    assert!(refused(&url, &only[..3], 1).contains("Connection refused"));
}

#[test]
fn a_failed_service_is_left_alone() {
    let authority = Authority::new();
    let server = without_http3(&authority);
    let flags = ["--ca", &authority.ca(), "--mode", "h3", "--repeat", "2"];
    let all = lines(&fetch(&server.url("https"), &flags));
    assert_eq!(all[0]["race"]["winner"], "tcp", "{}", all[0]);
    assert!(all[1]["race"].is_null(), "{}", all[1]);
}

#[test]
fn without_either_both_reasons_are_said() {
    let authority = Authority::new();
    let flags = ["--ca", &authority.ca(), "--mode", "h3"];
    let errors = refused("https://127.0.0.1:1/", &flags, 1);
    assert!(errors.contains("neither QUIC nor TCP connects"), "{errors}");
    let errors = refused(
        "https://127.0.0.1:1/",
        &["--mode", "serial", "--h3-only", "--insecure"],
        2,
    );
    assert!(errors.contains("it needs --mode auto or h3"), "{errors}");
}
