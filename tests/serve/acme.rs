//! Certificates that Weir gets by itself, from Pebble, the CA that Let's Encrypt tests clients with, and from its own
//! authority. Skipped where Pebble is not installed.
//!
//! Pebble refuses a fifth of all nonces here and asks a name server of ours, for which every name is this machine.

use crate::control::ctl;
use crate::process::{Launch, Server, Strategy, eventually, within};
use crate::tls::Secure;
use crate::tree::Tree;
use crate::upgrade::Line;
use crate::wire::Connection;
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tls::rustls::client::Resumption;
use tls::rustls::pki_types::CertificateDer;
use tls::rustls::pki_types::pem::PemObject;
use tls::rustls::{ClientConfig, RootCertStore};

/// An order, with all the pauses of both sides, on a busy machine; and a second attempt if the first fails there.
const ISSUED: Duration = Duration::from_secs(150);

/// A CA, its name server, and the ports at which it checks names.
struct Pebble {
    tree: Tree,
    process: Child,
    directory: u16,
    management: u16,
    http: u16,
    https: u16,
}

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Ports that were free a moment ago.
fn free_ports<const N: usize>() -> [u16; N] {
    let held = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"));
    held.map(|held| held.local_addr().expect("an address").port())
}

/// Where Pebble is; prints why a test cannot run without it.
fn installed() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(home);
    let found = folders.find_map(|folder| Some(folder.join("pebble")).filter(|file| file.is_file()));
    if found.is_none() {
        println!("skipped: pebble is not installed (.ci/run installs it where there is Go)");
    }
    found
}

/// Answers every question for an IPv4 address with 127.0.0.1, and every other with nothing (RFC 1035 section 4.1), over
/// TCP, as Pebble asks. Ends with the process.
fn name_server() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || while answer_one(&stream).is_ok() {});
        }
    });
    address
}

/// Answers one question of a connection.
fn answer_one(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut asked = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut asked)?;
    // The question: labels up to an empty one, type, class.
    let end = asked
        .iter()
        .skip(12)
        .position(|&b| b == 0)
        .map_or(0, |at| 12 + at + 5);
    let question = asked.get(12..end).ok_or(ErrorKind::InvalidData)?;
    let is_a = question.ends_with(&[0, 1, 0, 1]);
    let mut answer = asked[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    answer.extend(question);
    if is_a {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    let length = u16::try_from(answer.len()).map_err(|_| ErrorKind::InvalidData)?;
    stream.write_all(&[&length.to_be_bytes(), &answer[..]].concat())
}

impl Pebble {
    fn start() -> Option<Pebble> {
        let binary = installed()?;
        let tree = Tree::with(&[("site/index.html", "hello")]);
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let own = own.expect("a certificate");
        tree.write("ca.pem", own.cert.pem());
        tree.write("ca.key", own.signing_key.serialize_pem());
        let [directory, management, http, https] = free_ports();
        let file = |name: &str| tree.join(name).to_string_lossy().into_owned();
        let config = json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{directory}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": file("ca.pem"),
            "privateKey": file("ca.key"),
            "httpPort": http,
            "tlsPort": https,
            "profiles": { "default": { "description": "", "validityPeriod": 7_776_000 } },
        } });
        tree.write("pebble.json", config.to_string());
        let names = name_server();
        let log = std::fs::File::create(tree.join("pebble.log")).expect("a log");
        let process = Command::new(binary)
            .args(["-config", &file("pebble.json"), "-dnsserver", &names.to_string()])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "20")
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("pebble");
        let pebble = Pebble {
            tree,
            process,
            directory,
            management,
            http,
            https,
        };
        within(ISSUED, "pebble", || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, management)).ok()
        });
        Some(pebble)
    }

    /// A server of the site for `a.test`. `state` is its folder.
    fn serve(&self, strategy: Strategy, state: &str, more: &[&str]) -> Launch {
        self.serve_by(self.directory, strategy, state, more)
    }

    /// The same, with a CA at this port.
    fn serve_by(&self, ca: u16, strategy: Strategy, state: &str, more: &[&str]) -> Launch {
        let file = |name: &str| self.tree.join(name).to_string_lossy().into_owned();
        let mut launch = Launch::at(strategy, &format!("127.0.0.1:{}", self.https));
        for (flag, value) in [
            ("--domain", "a.test"),
            ("--http-listen", &format!("127.0.0.1:{}", self.http)),
            ("--acme-ca", &format!("https://localhost:{ca}/dir")),
            ("--acme-ca-root", &file("ca.pem")),
            ("--tls-state", &file(state)),
            ("--control", &file("control")),
        ] {
            launch = launch.args([flag, value]);
        }
        launch.root(&self.tree.join("site")).args(more)
    }

    /// A client that trusts what this CA issues. Its root is new at every start.
    fn client(&self) -> Arc<ClientConfig> {
        let own = std::fs::read(self.tree.join("ca.pem")).expect("a certificate");
        let text = ask(trusting(&own), self.management, "/roots/0");
        trusting(text.as_bytes())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.tree.join("pebble.log")).expect("a log")
    }

    fn orders(&self) -> usize {
        self.log().matches("Added order").count()
    }

    fn certificates(&self) -> Value {
        let (code, text) = ctl(&self.tree.join("control"), &["certificates"]);
        assert_eq!(code, 0, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The file of the certificate that was issued.
    fn pem(&self, state: &str) -> PathBuf {
        let folder = format!("{state}/acme/localhost_{}_dir", self.directory);
        self.tree.join(&folder).join("a.test.pem")
    }
}

fn trusting(pem: &[u8]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(pem) {
        roots.add(root.expect("PEM")).expect("a root");
    }
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    // A resumed connection shows the certificate of the one before.
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// The content at a path of a server on this machine.
fn ask(config: Arc<ClientConfig>, port: u16, path: &str) -> String {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut secure = Secure::open(address, &config, "localhost");
    let text = secure.try_ask(path).expect("an answer");
    let (_, body) = text.split_once("\r\n\r\n").expect("a head");
    body.to_owned()
}

/// Waits for the certificate; returns it.
fn issued(server: &Server, client: &Arc<ClientConfig>, name: &str) -> CertificateDer<'static> {
    within(ISSUED, "a certificate", || {
        let mut secure = Secure::try_open(server.address, client, name).ok()?;
        let text = secure.try_ask("/")?;
        text.ends_with("hello").then(|| secure.certificate())
    })
}

#[test]
fn a_site_gets_its_certificate_by_http() {
    let Some(pebble) = Pebble::start() else { return };
    let server = pebble.serve(Strategy::LOOPS, "state", &["--acme-challenge", "http-01"]);
    let server = server.start();
    let client = pebble.client();
    issued(&server, &client, "a.test");
    assert!(
        Secure::try_open(server.address, &client, "b.test").is_err(),
        "no name of ours"
    );
    let mut clear = Connection::open(SocketAddr::from((Ipv4Addr::LOCALHOST, pebble.http)));
    let moved = clear.get("/x");
    assert_eq!(moved.status, 308);
    let wanted = format!("https://weir.localhost:{}/x", pebble.https);
    assert_eq!(moved.must("Location"), wanted);
    let listed = pebble.certificates();
    assert_eq!(listed["certificates"][0]["names"], json!(["a.test"]));
    assert_eq!(listed["certificates"][0]["is-managed"], true);
    assert_eq!(listed["trouble"], Value::Null);
    assert!(pebble.log().contains("nonce"), "some were refused");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &pebble.pem("state").metadata().expect("a file").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    let left = std::fs::read_dir(pebble.tree.join("state/acme/challenges")).expect("a folder");
    assert_eq!(left.count(), 0, "answers are taken back");
}

#[test]
fn worker_processes_get_it_by_tls() {
    let Some(pebble) = Pebble::start() else { return };
    let server = pebble.serve(
        Strategy::PROCESS_LOOPS,
        "state",
        &["--acme-challenge", "tls-alpn-01"],
    );
    let server = server.start();
    let client = pebble.client();
    let first = issued(&server, &client, "a.test");
    eventually("every process", || {
        let opened = |_| {
            Secure::try_open(server.address, &client, "a.test").is_ok_and(|one| one.certificate() == first)
        };
        (0..8).all(opened).then_some(())
    });
    assert_eq!(pebble.orders(), 1, "one process ordered: {}", pebble.log());
}

#[test]
fn it_is_renewed_when_the_ca_wants_it() {
    let Some(pebble) = Pebble::start() else { return };
    let launch = || pebble.serve(Strategy::LOOPS, "state", &[]);
    let client = pebble.client();
    let mut server = launch().start();
    let first = issued(&server, &client, "a.test");
    server.stop();
    // The CA moves the window into the past.
    let window =
        json!({ "suggestedWindow": { "start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z" } });
    let pem = std::fs::read_to_string(pebble.pem("state")).expect("a certificate");
    let chain = pem
        .split_inclusive("-----END CERTIFICATE-----\n")
        .next()
        .expect("a certificate");
    let body = json!({ "certificate": chain, "ariResponse": window.to_string() }).to_string();
    let own = std::fs::read(pebble.tree.join("ca.pem")).expect("a certificate");
    let management = SocketAddr::from((Ipv4Addr::LOCALHOST, pebble.management));
    let mut secure = Secure::open(management, &trusting(&own), "localhost");
    let told = secure.post("/set-renewal-info/", &body).expect("an answer");
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    // So that it is asked at once, and not hours later.
    std::fs::remove_file(pebble.pem("state").with_extension("json")).expect("notes");
    let server = launch().start();
    within(ISSUED, "another certificate", || {
        (issued(&server, &client, "a.test") != first).then_some(())
    });
    assert_eq!(pebble.orders(), 2);
    eventually("a line in the log", || {
        server
            .stderr()
            .contains("wants the certificate renewed")
            .then_some(())
    });
}

#[test]
fn two_servers_with_one_folder_order_once() {
    let Some(pebble) = Pebble::start() else { return };
    let first = pebble.serve(Strategy::LOOPS, "state", &[]).start();
    let [https, http] = free_ports();
    let second = Launch::at(Strategy::LOOPS, &format!("127.0.0.1:{https}"))
        .root(&pebble.tree.join("site"))
        .args([
            "--domain",
            "a.test",
            "--http-listen",
            &format!("127.0.0.1:{http}"),
        ])
        .args([
            "--acme-ca",
            &format!("https://localhost:{}/dir", pebble.directory),
        ])
        .args(["--acme-ca-root".as_ref(), pebble.tree.join("ca.pem").as_os_str()])
        .args(["--tls-state".as_ref(), pebble.tree.join("state").as_os_str()])
        .start();
    let client = pebble.client();
    let one = issued(&first, &client, "a.test");
    assert_eq!(issued(&second, &client, "a.test"), one);
    assert_eq!(pebble.orders(), 1);
}

#[test]
fn an_upgrade_in_the_middle_of_an_order_loses_nothing() {
    let Some(pebble) = Pebble::start() else { return };
    let server = pebble.serve(Strategy::LOOPS, "state", &[]).start();
    within(ISSUED, "an order", || (pebble.orders() > 0).then_some(()));
    let mut line = Line::of(server);
    line.upgrade();
    let client = pebble.client();
    issued(&line.first, &client, "a.test");
}

#[test]
fn a_ca_that_is_down_is_reported_and_the_old_certificate_stays() {
    let Some(mut pebble) = Pebble::start() else { return };
    let client = pebble.client();
    let mut server = pebble.serve(Strategy::LOOPS, "state", &[]).start();
    let first = issued(&server, &client, "a.test");
    server.stop();
    let [closed] = free_ports();
    let mut server = pebble.serve_by(closed, Strategy::LOOPS, "empty", &[]).start();
    let listed = eventually("the trouble", || {
        let listed = pebble.certificates();
        listed["trouble"].is_string().then_some(listed)
    });
    let trouble = listed["trouble"].as_str().expect("text");
    assert!(
        trouble.contains("does not answer") && trouble.contains("next attempt in"),
        "{trouble}"
    );
    assert!(Secure::try_open(server.address, &client, "a.test").is_err());
    let mut clear = Connection::open(SocketAddr::from((Ipv4Addr::LOCALHOST, pebble.http)));
    assert_eq!(clear.get("/").status, 308, "http is answered");
    server.stop();
    // The same CA as before, now down: the certificate in the folder is used.
    pebble.process.kill().expect("pebble ends");
    let server = pebble.serve(Strategy::LOOPS, "state", &[]).start();
    assert_eq!(issued(&server, &client, "a.test"), first);
}

#[test]
fn this_machine_can_be_the_authority() {
    let tree = Tree::with(&[("site/index.html", "hello")]);
    let launch = || {
        Launch::new(Strategy::LOOPS).root(&tree.join("site")).args([
            "--tls=internal".as_ref(),
            "--tls-state".as_ref(),
            tree.join("state").as_os_str(),
        ])
    };
    let mut server = launch().start();
    let root = || std::fs::read(tree.join("state/internal/root.pem")).expect("a root");
    let before = root();
    eventually("advice on how to trust it", || {
        server.stderr().contains("update-ca-certificates").then_some(())
    });
    for name in ["localhost", "127.0.0.1"] {
        assert!(
            Secure::try_open(server.address, &trusting(&before), name).is_ok(),
            "{name}"
        );
    }
    assert!(Secure::try_open(server.address, &trusting(&before), "a.test").is_err());
    server.stop();
    drop(launch().start());
    assert_eq!(root(), before, "trusted once");
    tree.write("state/internal/root.key", "no key");
    std::fs::remove_file(tree.join("state/internal/localhost.pem")).expect("a certificate");
    let server = launch().start();
    eventually("advice", || {
        server
            .stderr()
            .contains("remove the file and its key")
            .then_some(())
    });
}

#[test]
fn keys_that_need_a_domain_say_so() {
    for (flags, wanted) in [
        (["--acme-email", "a@a.test"], "`domain`"),
        (["--domain", "*.a.test"], "wildcard"),
        (["--domain", "a b"], "not a host name"),
        (["--acme-ca", "letsencript"], "letsencrypt-staging"),
    ] {
        let (code, printed) = Launch::bare().args(flags).fail();
        assert_eq!(code, 2, "{printed}");
        assert!(printed.contains(wanted), "{flags:?}: {printed}");
    }
}
