//! Certificates in operation: replaced while the server runs, asked of clients, listed; and what goes with them: the way
//! from http to https, the file of secrets, the counters.

use crate::serve::frames;
use crate::serve::http3::client::Client as Http3;
use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::wire::Connection;
use serde_json::Value;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use tls::policy::Policy;
use tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tls::rustls::{ClientConfig, HandshakeKind, NamedGroup, ProtocolVersion};

/// An authority for client certificates, and one certificate of it.
pub(crate) struct Members {
    pub(crate) authority: String,
    chain: CertificateDer<'static>,
    key: Vec<u8>,
    /// Both as PEM.
    pem: (String, String),
}

impl Members {
    pub(crate) fn new(member: &str) -> Members {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::default();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = parameters.self_signed(&key).expect("an authority").pem();
        let issuer = rcgen::Issuer::new(parameters, key);
        let member_key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, member);
        let made = parameters.signed_by(&member_key, &issuer).expect("a certificate");
        Members {
            authority,
            pem: (made.pem(), member_key.serialize_pem()),
            chain: made.der().clone(),
            key: member_key.serialize_der(),
        }
    }

    /// The certificate and its key, as PEM.
    pub(crate) fn pem(&self) -> (String, String) {
        self.pem.clone()
    }

    /// A client that shows the certificate.
    pub(crate) fn client(&self, pairs: &Pairs) -> Arc<ClientConfig> {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.clone()));
        let config = ClientConfig::builder()
            .with_root_certificates(pairs.roots.clone())
            .with_client_auth_cert(vec![self.chain.clone()], key)
            .expect("a client");
        Arc::new(config)
    }
}

/// Whether the server answers a client of this configuration.
fn is_answered(server: SocketAddr, config: &Arc<ClientConfig>) -> bool {
    // In TLS 1.3 a client learns of its refusal only when it reads.
    let Ok(mut secure) = Secure::try_open(server, config, "a.test") else {
        return false;
    };
    secure
        .try_ask("/")
        .is_some_and(|text| text.starts_with("HTTP/1.1 200"))
}

fn address(server: &Server, at: usize) -> SocketAddr {
    let text = server.started["listeners"][at]["address"].as_str();
    text.and_then(|text| text.parse().ok()).expect("an address")
}

/// A server with the configuration in `text`.
fn configured(launch: Launch, pairs: &Pairs, text: &str) -> Server {
    let file = pairs.tree.write("weir.toml", format!("root = 'site'\n{text}"));
    launch.args(["--config".as_ref(), file.as_os_str()]).start()
}

/// A server with these tables only.
fn of_tables(pairs: &Pairs, text: &str) -> Server {
    configured(Launch::file(env!("CARGO_BIN_EXE_weir").as_ref()), pairs, text)
}

fn certificates_are_read_again_when_their_files_change(strategy: Strategy) {
    let mut pairs = Pairs::new();
    let first = pairs.add("a", &["a.test"]);
    let server = pairs.launch(strategy, &["a"]).start();
    let seen = |pairs: &Pairs| Secure::open(server.address, &pairs.client(), "a.test").certificate();
    assert_eq!(seen(&pairs), first);
    let second = pairs.add("a", &["a.test"]);
    // Every process has to notice, and which one answers is chance.
    eventually("the new certificate", || {
        (0..8).all(|_| seen(&pairs) == second).then_some(())
    });
    eventually("a line in the log", || {
        server.stderr().contains("have changed: new").then_some(())
    });
    pairs.tree.write("a.key", "no key");
    eventually("a complaint", || {
        let log = server.stderr();
        (log.contains("the old certificates stay") && log.contains("a.key")).then_some(())
    });
    assert_eq!(seen(&pairs), second);
}

fn clients_must_show_a_certificate(strategy: Strategy) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let (members, strangers) = (Members::new("Alice"), Members::new("Mallory"));
    pairs.tree.write("members.pem", &members.authority);
    let log = pairs.tree.join("access.log");
    let launch = pairs.launch(strategy, &["a"]);
    let server = launch
        .args([
            "--tls-client-ca".as_ref(),
            pairs.tree.join("members.pem").as_os_str(),
        ])
        .args(["--access-log".as_ref(), log.as_os_str()])
        .start();
    assert!(!is_answered(server.address, &pairs.client()), "no certificate");
    assert!(
        !is_answered(server.address, &strangers.client(&pairs)),
        "of another authority"
    );
    let member = members.client(&pairs);
    assert!(is_answered(server.address, &member));
    assert!(is_answered(server.address, &member), "resumed");
    let lines = eventually("log lines", || {
        let lines = std::fs::read_to_string(&log).ok()?;
        (lines.lines().count() == 2).then_some(lines)
    });
    // A resumption remembers who the client is.
    assert!(
        lines.lines().all(|line| line.starts_with("127.0.0.1 - Alice [")),
        "{lines}"
    );
}

/// The status of the response to a client of this configuration, over a connection of its own.
fn status(server: SocketAddr, config: &Arc<ClientConfig>, path: &str) -> u16 {
    let mut secure = Secure::open(server, config, "a.test");
    let text = secure.try_ask(path).expect("a response");
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.expect("a status")
}

fn some_paths_need_a_certificate(strategy: Strategy) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let members = Members::new("Alice");
    pairs.tree.write("members.pem", &members.authority);
    for folder in ["any", "alice", "bob"] {
        pairs.tree.write(&format!("site/{folder}/a.txt"), folder);
    }
    let text = "[[listener]]\naddress = '127.0.0.2:0'\n\
        tls = { cert = 'a.pem', key = 'a.key', client-ca = 'members.pem', client-auth = 'optional' }\n\
        [[access]]\npath = '/any/*'\ncertificate = true\n\
        [[access]]\npath = '/alice/*'\ncertificate = ['Alice', 'Eve']\n\
        [[access]]\npath = '/bob/*'\ncertificate = 'Bob'\n";
    let server = configured(Launch::new(strategy), &pairs, text);
    let secured = address(&server, 1);
    let (anyone, alice) = (pairs.client(), members.client(&pairs));
    // Known heads must not get the answer of another client.
    for _ in 0..3 {
        for (path, for_anyone, for_alice) in [
            ("/", 200, 200),
            ("/any/a.txt", 403, 200),
            ("/%61ny/../any/a.txt", 403, 200),
            ("/alice/a.txt", 403, 200),
            ("/bob/a.txt", 403, 403),
        ] {
            let in_cleartext = Connection::open(address(&server, 0)).get(path).status;
            assert_eq!(in_cleartext, for_anyone, "{path}");
            assert_eq!(status(secured, &alice, path), for_alice, "{path}");
            assert_eq!(status(secured, &anyone, path), for_anyone, "{path}");
        }
    }
    // The certificate of a proxy is not that of its clients.
    pairs.tree.write(
        "weir.toml",
        format!("root = 'site'\ntrusted = '127.0.0.0/8'\n{text}"),
    );
    server.signal("HUP");
    eventually("a proxy that is trusted", || {
        (status(secured, &alice, "/any/a.txt") == 403).then_some(())
    });
}

fn http_leads_to_https(strategy: Strategy) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let tables = "[[listener]]\naddress = '127.0.0.2:0'\ntls = { cert = 'a.pem', key = 'a.key' }\n";
    let switches = "health = true\nhttps-redirect = 8443\nhsts = '1d subdomains'\n";
    let server = configured(Launch::new(strategy), &pairs, &format!("{switches}{tables}"));
    let mut clear = Connection::open(address(&server, 0));
    for _ in 0..3 {
        let response = clear.request("GET", "/a%20b?c=d", &[]);
        assert_eq!(response.status, 308);
        assert_eq!(response.must("Location"), "https://weir.localhost:8443/a%20b?c=d");
        // RFC 6797 section 7.2: not in cleartext.
        assert_eq!(response.field("Strict-Transport-Security"), None);
    }
    assert_eq!(clear.get("/healthz").status, 200, "for load balancers");
    let mut secure = Secure::open(address(&server, 1), &pairs.client(), "a.test");
    // The last of them is answered from memory.
    for path in ["/nothing", "/", "/", "/"] {
        let text = secure.try_ask(path).expect("a response");
        let wanted = if path == "/" { "200" } else { "404" };
        assert!(text.starts_with(&format!("HTTP/1.1 {wanted}")), "{text}");
        let line = "\r\nStrict-Transport-Security: max-age=86400; includeSubDomains\r\n";
        assert!(text.contains(line), "{text}");
    }
    pairs.tree.write("weir.toml", format!("root = 'site'\n{tables}"));
    server.signal("HUP");
    eventually("an answer in cleartext", || {
        (Connection::open(address(&server, 0)).get("/").status == 200).then_some(())
    });
    eventually("no more such lines", || {
        let mut secure = Secure::open(address(&server, 1), &pairs.client(), "a.test");
        let text = secure.try_ask("/").expect("a response");
        (!text.contains("Strict-Transport")).then_some(())
    });
}

on_every_strategy!(
    certificates_are_read_again_when_their_files_change,
    clients_must_show_a_certificate,
    some_paths_need_a_certificate,
    http_leads_to_https,
);

#[test]
fn a_certificate_counts_in_every_version_of_http() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let members = Members::new("Alice");
    pairs.tree.write("members.pem", &members.authority);
    pairs.tree.write("site/any/a.txt", "any");
    let rules = "[[access]]\npath = '/any/*'\ncertificate = true\n";
    let config = pairs.tree.write("weir.toml", rules);
    let launch = || {
        let launch = pairs.launch(Strategy::LOOPS, &["a"]).args(["--http3"]);
        launch.args(["--config".as_ref(), config.as_os_str()])
    };
    let (code, why) = launch().fail();
    assert!(
        code == 2 && why.contains("no listener asks for them") && why.contains("weir.toml:3"),
        "{code}: {why}"
    );
    let authority = pairs.tree.join("members.pem");
    let server = launch()
        .args(["--tls-client-auth", "optional", "--tls-client-ca"])
        .args([&authority])
        .start();
    for (client, wanted) in [(pairs.client(), 403), (members.client(&pairs), 200)] {
        assert_eq!(status(server.address, &client, "/any/a.txt"), wanted, "HTTP/1.1");
        let mut tls = Arc::unwrap_or_clone(client.clone());
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let secure = Secure::open(server.address, &Arc::new(tls), "a.test");
        let mut http2 = frames::Client::new(secure.0);
        let mut http3 = Http3::open(server.address, &client, "a.test");
        for (path, wanted) in [("/any/a.txt", wanted), ("/", 200), ("/any/a.txt", wanted)] {
            assert_eq!(http2.get(path, &[]).status, wanted, "HTTP/2 {path}");
            let stream = http3.ask(path);
            assert!(http3.run(Http3::is_done), "{path}: {:?}", http3.closed);
            assert_eq!(http3.got[&stream].status, wanted, "HTTP/3 {path}");
        }
    }
    for (more, wanted) in [
        (
            &[][..],
            [
                "a client certificate is needed, and explained requests have none",
                "403, from the access rule",
            ],
        ),
        (
            &["--explain-admitted"],
            [
                "127.0.0.1 is admitted, assuming a client certificate",
                "404, from no file",
            ],
        ),
    ] {
        let explained = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--tls-client-auth", "optional", "--tls-client-ca"])
            .arg(&authority)
            .arg("--tls-cert")
            .arg(pairs.tree.join("a.pem"))
            .arg("--tls-key")
            .arg(pairs.tree.join("a.key"))
            .arg("--config")
            .arg(&config)
            .args(["--explain", "GET https://a.test/any/a.txt"])
            .args(more)
            .output()
            .expect("the binary");
        let text = String::from_utf8_lossy(&explained.stdout);
        for words in wanted {
            assert!(
                text.contains(words),
                "{words}: {text}{}",
                String::from_utf8_lossy(&explained.stderr)
            );
        }
    }
}

#[test]
fn a_ticket_is_no_way_around_a_client_certificate() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let members = Members::new("Alice");
    pairs.tree.write("members.pem", &members.authority);
    let pair = "cert = 'a.pem', key = 'a.key'";
    let server = of_tables(
        &pairs,
        &format!(
            "[[listener]]\naddress = '127.0.0.1:0'\ntls = {{ {pair} }}\n\
             [[listener]]\naddress = '127.0.0.2:0'\ntls = {{ {pair}, client-ca = 'members.pem' }}\n\
             [[listener]]\naddress = '127.0.0.3:0'\ntls = {{ {pair}, client-ca = 'members.pem', client-auth = 'optional' }}\n"
        ),
    );
    let [open, required, optional] = [0, 1, 2].map(|at| address(&server, at));
    let anyone = pairs.client();
    assert!(is_answered(open, &anyone));
    let again = Secure::open(open, &anyone, "a.test");
    assert_eq!(again.0.conn.handshake_kind(), Some(HandshakeKind::Resumed));
    assert!(!is_answered(required, &anyone), "a ticket of the open listener");
    assert!(is_answered(optional, &anyone));
    assert!(!is_answered(required, &anyone), "a ticket without a certificate");
    assert!(is_answered(required, &members.client(&pairs)));
}

#[test]
fn hosts_have_certificates_at_every_address_with_tls() {
    let mut pairs = Pairs::new();
    let a = pairs.add("a", &["a.test"]);
    let b = pairs.add("b", &["b.test"]);
    let server = of_tables(
        &pairs,
        "[[listener]]\naddress = '127.0.0.1:0'\ntls = {}\n\
         [[host]]\nnames = ['a.test']\ntls-cert = 'a.pem'\ntls-key = 'a.key'\n\
         [[host]]\nnames = ['b.test']\ntls-cert = 'b.pem'\ntls-key = 'b.key'\n",
    );
    let config = pairs.client();
    for (name, wanted) in [("a.test", a), ("b.test", b)] {
        assert_eq!(Secure::open(server.address, &config, name).certificate(), wanted);
    }
}

#[test]
fn certificates_and_handshakes_are_shown() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test", "www.a.test"]);
    let socket = pairs.tree.join("control");
    let server = pairs
        .launch(Strategy::LOOPS, &["a"])
        .args(["--control".as_ref(), socket.as_os_str()])
        .args(["--live=all"])
        .start();
    let config = pairs.client();
    for _ in 0..2 {
        assert!(is_answered(server.address, &config));
    }
    assert_eq!(server.connect().get("/").status, 400, "plain HTTP");
    let mut bad = Connection::open(server.address);
    bad.try_send([0x16, 3, 1, 0, 4, 0xff, 0, 0, 0]);
    bad.rest();
    let metrics = eventually("the counters", || {
        let mut secure = Secure::open(server.address, &config, "a.test");
        let text = secure.try_ask("/.weir/metrics")?;
        text.contains("tls_failed_total{worker=\"0\"}").then_some(text)
    });
    let sum = |name: &str| -> f64 {
        let of_name = metrics
            .lines()
            .filter(|line| line.starts_with(&format!("{name}{{")));
        let counts = of_name.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        counts.sum()
    };
    assert!(sum("weir_tls_handshakes_total") >= 3.0, "{metrics}");
    assert!(sum("weir_tls_resumed_total") >= 2.0, "{metrics}");
    assert_eq!(sum("weir_tls_plain_http_total"), 1.0, "{metrics}");
    assert_eq!(sum("weir_tls_failed_total"), 1.0, "{metrics}");
    let expiry = sum("weir_certificate_expiry_timestamp_seconds");
    assert!(expiry > 1.8e9, "{metrics}");
    let ctl = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(words)
            .args(["ctl", "--socket"])
            .arg(&socket)
            .arg("certificates")
            .output()
            .expect("the binary");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("text")
    };
    let listed: Value = serde_json::from_str(&ctl(&["--json"])).expect("JSON");
    let first = &listed["certificates"][0];
    assert_eq!(first["names"], serde_json::json!(["a.test", "www.a.test"]));
    assert_eq!(first["is-due"], false);
    let line = ctl(&[]);
    assert!(
        line.contains("days left  a.test, www.a.test  ") && line.ends_with("a.pem\n"),
        "{line}"
    );
}

#[test]
fn secrets_are_written_only_where_the_operator_wants_them() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let file = pairs.tree.join("secrets");
    let server = pairs
        .launch(Strategy::LOOPS, &["a"])
        .env("SSLKEYLOGFILE", &file.to_string_lossy())
        .start();
    assert!(is_answered(server.address, &pairs.client()));
    assert!(!file.exists(), "a variable alone is not enough");
    drop(server);
    let server = pairs
        .launch(Strategy::LOOPS, &["a"])
        .args(["--tls-key-log".as_ref(), file.as_os_str()])
        .start();
    assert!(is_answered(server.address, &pairs.client()));
    let secrets = std::fs::read_to_string(&file).expect("secrets");
    for label in ["CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0"] {
        let line = secrets.lines().find(|line| line.starts_with(label));
        let hex = line.and_then(|line| line.split(' ').nth(1)).expect("a line");
        assert!(
            hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()),
            "{secrets}"
        );
    }
    assert!(
        server.stderr().contains("can read all traffic"),
        "{}",
        server.stderr()
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().expect("it exists").permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_policy_bounds_what_is_agreed_on_and_changes_with_a_reload() {
    use NamedGroup::{X25519, X25519MLKEM768, secp256r1MLKEM768};
    use ProtocolVersion::{TLSv1_2, TLSv1_3};
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let client = |policy: Policy, versions| {
        let config = ClientConfig::builder_with_provider(Arc::new(policy.provider()))
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(pairs.roots.clone())
            .with_no_client_auth();
        Arc::new(config)
    };
    let usual = client(Policy::Default, Policy::Default.versions());
    let old = client(Policy::Default, &Policy::Default.versions()[1..]);
    let nist = client(Policy::Nist, Policy::Nist.versions());
    let classical = client(Policy::Classical, Policy::Classical.versions());
    let agreed = |server: &Server, config: &Arc<ClientConfig>| {
        let secure = Secure::try_open(server.address, config, "a.test");
        secure.ok().map(|secure| secure.agreed())
    };
    let text = |policy: &str| format!("tls-cert = 'a.pem'\ntls-key = 'a.key'\ncrypto = '{policy}'\n");
    let launch = Launch::new(Strategy::LOOPS);
    let server = configured(launch, &pairs, &text("classical"));
    assert_eq!(agreed(&server, &usual), Some((TLSv1_3, X25519)));
    assert_eq!(agreed(&server, &old).map(|(version, _)| version), Some(TLSv1_2));
    let reload = |policy: &str| {
        let root = format!("root = 'site'\n{}", text(policy));
        pairs.tree.write("weir.toml", root);
        server.signal("HUP");
    };
    reload("nist");
    eventually("the policy nist", || {
        (agreed(&server, &nist) == Some((TLSv1_3, secp256r1MLKEM768))).then_some(())
    });
    assert_eq!(
        agreed(&server, &classical).map(|(_, group)| group),
        Some(NamedGroup::secp256r1),
        "what both have"
    );
    reload("modern");
    eventually("the policy modern", || {
        (agreed(&server, &usual) == Some((TLSv1_3, X25519MLKEM768))).then_some(())
    });
    assert_eq!(agreed(&server, &old), None, "TLS 1.2 alone is refused");
}

#[test]
fn keys_are_in_no_log_and_in_no_core_dump() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let server = pairs.launch(Strategy::LOOPS, &["a"]).args(["-v", "-v"]).start();
    assert!(is_answered(server.address, &pairs.client()));
    let key = std::fs::read_to_string(pairs.tree.join("a.key")).expect("a key");
    // A certificate of another key, and one that is no certificate: both are complained of.
    let mut others = Pairs::new();
    others.add("b", &["a.test"]);
    let other = std::fs::read_to_string(others.tree.join("b.key")).expect("a key");
    pairs.tree.write("a.key", &other);
    eventually("a complaint", || {
        server
            .stderr()
            .contains("the old certificates stay")
            .then_some(())
    });
    let log = server.stderr();
    for line in key
        .lines()
        .chain(other.lines())
        .filter(|line| !line.starts_with('-'))
    {
        assert!(!line.is_empty() && !log.contains(line), "{log}");
    }
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).expect("limits");
    let core = limits.lines().find(|line| line.starts_with("Max core file size"));
    let core: Vec<&str> = core.expect("the limit").split_whitespace().collect();
    assert_eq!(core[4..6], ["0", "0"], "{limits}");
}
