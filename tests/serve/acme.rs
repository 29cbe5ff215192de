//! Certificates that Weir gets by itself, from Pebble, the CA that Let's Encrypt tests clients with, and from its own
//! authority. Skipped where Pebble is not installed.
//!
//! Pebble refuses a fifth of all nonces here and asks a name server of ours, for which every name is this machine. Text
//! records are the lines of a file, which the hook of these tests writes.

use crate::serve::control::ctl;
use crate::serve::process::{Launch, Server, Strategy, eventually, within, within_or};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::tree::Tree;
use crate::serve::upgrade::Line;
use crate::serve::wire::Connection;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tls::certificates::Pair;
use tls::rustls::client::Resumption;
use tls::rustls::pki_types::CertificateDer;
use tls::rustls::pki_types::pem::PemObject;
use tls::rustls::{self, ClientConfig, RootCertStore};

/// An order, with all the pauses of both sides, on a busy machine; and further attempts if the first three fail there. The
/// waits before these are a minute, two, and four.
const ISSUED: Duration = Duration::from_secs(600);

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

/// Free ports below those that the system gives to whoever names none, each only once: between here and its use, no
/// other test can be given it, nor can one of another process, which finds the name of the port taken.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    [(); N].map(|()| {
        loop {
            let first = std::process::id().wrapping_mul(200);
            let number = first.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
            let port = 10_000 + (number % 20_000) as u16;
            let name = unix::net::SocketAddr::from_abstract_name(format!("weir-test-port-{port}"));
            let Ok(held) = UnixListener::bind_addr(&name.expect("a short name")) else {
                continue;
            };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                // Until the end of this process.
                std::mem::forget(held);
                return port;
            }
        }
    })
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

/// What `present NAME VALUE` and `cleanup NAME VALUE` do here. The folder of certificates is the only one that a program
/// started by Weir can write under Landlock.
const HOOK: &str = r#"#!/bin/sh
records=$(dirname "$0")/state/records
case $1 in
    present) echo "$2 $3" >>"$records" ;;
    cleanup)
        grep -v -e "$3" "$records" >"$records.new"
        mv "$records.new" "$records" ;;
    *) exit 1 ;;
esac
"#;

/// Answers every question for an IPv4 address with 127.0.0.1, those for text with the records in a file, and every other
/// with nothing (RFC 1035 section 4.1), over TCP, as Pebble asks. Ends with the process.
fn name_server(records: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let records = records.clone();
            std::thread::spawn(move || while answer_one(&stream, &records).is_ok() {});
        }
    });
    address
}

/// Answers one question of a connection.
fn answer_one(mut stream: &TcpStream, records: &Path) -> std::io::Result<()> {
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
    let kind = question[question.len() - 3];
    let data: Vec<Vec<u8>> = match kind {
        A => vec![vec![127, 0, 0, 1]],
        TXT => {
            let name = in_words(question);
            let all = std::fs::read_to_string(records).unwrap_or_default();
            let found = all.lines().filter_map(|line| line.split_once(' '));
            let found = found.filter(|(of, _)| *of == name);
            let sized = |value: &str| [&[value.len() as u8], value.as_bytes()].concat();
            found.map(|(_, value)| sized(value)).collect()
        }
        _ => Vec::new(),
    };
    let mut answer = asked[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, data.len() as u8, 0, 0, 0, 0]);
    answer.extend(question);
    for data in data {
        // The name of the question, its type, class IN, a second.
        answer.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 1, 0, data.len() as u8]);
        answer.extend(data);
    }
    let length = u16::try_from(answer.len()).map_err(|_| ErrorKind::InvalidData)?;
    stream.write_all(&[&length.to_be_bytes(), &answer[..]].concat())
}

/// Types of questions.
const A: u8 = 1;
const TXT: u8 = 16;

/// The name of a question, in lower case, with a dot after each label.
fn in_words(question: &[u8]) -> String {
    let mut rest = question;
    let mut name = String::new();
    while let Some((&length @ 1.., more)) = rest.split_first() {
        let (label, after) = more.split_at(usize::from(length).min(more.len()));
        name += &String::from_utf8_lossy(label).to_ascii_lowercase();
        name.push('.');
        rest = after;
    }
    name
}

impl Pebble {
    fn start() -> Option<Pebble> {
        Pebble::start_with(&json!({}))
    }

    /// With more settings of Pebble's own.
    fn start_with(more: &Value) -> Option<Pebble> {
        let binary = installed()?;
        let tree = Tree::with(&[("site/index.html", "hello")]);
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let own = own.expect("a certificate");
        tree.write("ca.pem", own.cert.pem());
        tree.write("ca.key", own.signing_key.serialize_pem());
        let [directory, management, http, https] = free_ports();
        let file = |name: &str| tree.join(name).to_string_lossy().into_owned();
        tree.write("hook", HOOK);
        Launch::executable(&tree.join("hook"));
        let mut config = json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{directory}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": file("ca.pem"),
            "privateKey": file("ca.key"),
            "httpPort": http,
            "tlsPort": https,
            "profiles": { "default": { "description": "", "validityPeriod": 7_776_000 } },
        } });
        for (key, value) in more.as_object().expect("settings") {
            config["pebble"][key] = value.clone();
        }
        tree.write("pebble.json", config.to_string());
        let names = name_server(tree.join("state/records"));
        let log = std::fs::File::create(tree.join("pebble.log")).expect("a log");
        let process = Command::new(binary)
            .args(["-config", &file("pebble.json"), "-dnsserver", &names.to_string()])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "20")
            .env("PEBBLE_AUTHZREUSE", "0")
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
        self.serve_as("a.test", ca, strategy, state, more)
    }

    /// The same, for these names, with commas between them.
    fn serve_as(&self, names: &str, ca: u16, strategy: Strategy, state: &str, more: &[&str]) -> Launch {
        let file = |name: &str| self.tree.join(name).to_string_lossy().into_owned();
        let mut launch = Launch::at(strategy, &format!("127.0.0.1:{}", self.https));
        for (flag, value) in [
            ("--domain", names),
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
        trusting(self.manage("/roots/0").as_bytes())
    }

    /// An answer of its management.
    fn manage(&self, path: &str) -> String {
        let own = std::fs::read(self.tree.join("ca.pem")).expect("a certificate");
        ask(trusting(&own), self.management, path)
    }

    /// What it says of a certificate: `Valid` or `Revoked`, and why.
    fn status(&self, certificate: &CertificateDer<'_>) -> Value {
        let id = acme::renewal::id(certificate).expect("an identifier");
        let (_, serial) = id.split_once('.').expect("a serial number");
        let bytes = URL_SAFE_NO_PAD.decode(serial).expect("base64url");
        let serial: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = self.manage(&format!("/cert-status-by-serial/{serial}"));
        serde_json::from_str(&text).expect("JSON")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.tree.join("pebble.log")).expect("a log")
    }

    fn orders(&self) -> usize {
        self.log().matches("Added order").count()
    }

    /// One order of these servers has succeeded. On a busy machine, others may have failed before.
    fn has_one_order(&self, servers: &[&Server]) {
        let failed = servers
            .iter()
            .map(|server| server.stderr().matches("no certificate for").count());
        let most = 1 + failed.sum::<usize>();
        assert!(
            (1..=most).contains(&self.orders()),
            "at most {most}: {}",
            self.log()
        );
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

/// What a log ends with.
fn last_lines(log: &str, count: usize) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Waits for the certificate; returns it.
fn issued(server: &Server, client: &Arc<ClientConfig>, name: &str) -> CertificateDer<'static> {
    let answer = || {
        let mut secure = Secure::try_open(server.address, client, name).ok()?;
        let text = secure.try_ask("/")?;
        text.ends_with("hello").then(|| secure.certificate())
    };
    within_or(ISSUED, answer, || {
        format!(
            "a certificate; the server said last:\n{}",
            last_lines(&server.stderr(), 8)
        )
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
fn a_wildcard_comes_by_dns_records_of_a_hook() {
    let Some(pebble) = Pebble::start() else { return };
    let hook = pebble.tree.join("hook").to_string_lossy().into_owned();
    let names = "a.test,*.a.test";
    let more = ["--acme-hook", &hook, "--acme-hook-wait", "1s"];
    let launch = pebble.serve_as(names, pebble.directory, Strategy::LOOPS, "state", &more);
    let server = launch.start();
    let client = pebble.client();
    let one = issued(&server, &client, "b.a.test");
    assert_eq!(issued(&server, &client, "a.test"), one);
    assert!(Secure::try_open(server.address, &client, "c.b.a.test").is_err());
    let records = || std::fs::read_to_string(pebble.tree.join("state/records"));
    eventually("records are taken back", || {
        records().is_ok_and(|text| text.is_empty()).then_some(())
    });
    let listed = pebble.certificates();
    assert_eq!(listed["certificates"][0]["names"], json!(["a.test", "*.a.test"]));
    let said = server.stderr();
    assert!(!said.contains("a DNS record may stay"), "{said}");
}

#[test]
fn a_hook_that_fails_is_quoted() {
    let Some(pebble) = Pebble::start() else { return };
    pebble
        .tree
        .write("hook", "#!/bin/sh\necho \"no zone for $2\" >&2\nexit 3\n");
    let hook = pebble.tree.join("hook").to_string_lossy().into_owned();
    let more = ["--acme-hook", &hook, "--acme-challenge", "dns-01"];
    let server = pebble.serve(Strategy::LOOPS, "state", &more).start();
    let listed = within(ISSUED, "the trouble", || {
        let listed = pebble.certificates();
        listed["trouble"].is_string().then_some(listed)
    });
    let trouble = listed["trouble"].as_str().expect("text");
    for part in [
        "no zone for _acme-challenge.a.test.",
        "exit status: 3",
        "--acme-hook",
    ] {
        assert!(trouble.contains(part), "{trouble}");
    }
    assert!(
        server.stderr().contains("a DNS record may stay"),
        "cleanup failed, too"
    );
    drop(server);
    for (flag, wanted) in [("/nowhere/hook", "No such file"), ("/dev/null", "no program")] {
        let (code, printed) = pebble
            .serve(Strategy::LOOPS, "state", &["--acme-hook", flag])
            .fail();
        assert!(code == 2 && printed.contains(wanted), "{printed}");
    }
}

#[test]
fn operators_renew_and_revoke() {
    let Some(pebble) = Pebble::start() else { return };
    for (strategy, state) in [(Strategy::LOOPS, "state"), (Strategy::PROCESS_LOOPS, "others")] {
        let mut server = pebble.serve(strategy, state, &[]).start();
        let client = pebble.client();
        let first = issued(&server, &client, "a.test");
        let another = |than: &CertificateDer<'_>| {
            within(ISSUED, "another certificate", || {
                Some(issued(&server, &client, "a.test")).filter(|one| one != than)
            })
        };
        let ctl = |arguments: &[&str]| ctl(&pebble.tree.join("control"), arguments);
        let (code, text) = ctl(&["certificates", "renew"]);
        assert!(code == 0 && text.contains("is ordered"), "{text}");
        let second = another(&first);
        assert_eq!(pebble.status(&first)["Status"], "Valid");
        let (code, text) = ctl(&["certificates", "revoke", "key-compromise"]);
        assert!(code == 0 && text.contains("is revoked"), "{text}");
        let third = another(&second);
        within(ISSUED, "the revocation", || {
            (pebble.status(&second)["Status"] == "Revoked").then_some(())
        });
        assert_eq!(pebble.status(&second)["Reason"], 1);
        assert_eq!(pebble.status(&third)["Status"], "Valid");
        eventually("the end of it", || {
            (pebble.certificates()["revocation"] == Value::Null).then_some(())
        });
        let (code, text) = ctl(&["certificates", "revoke", "ca-compromise"]);
        assert!(code == 2 && text.contains("superseded"), "{text}");
        server.stop();
    }
}

#[test]
fn a_certificate_is_revoked_although_there_is_no_other_and_a_refusal_is_told() {
    let Some(pebble) = Pebble::start() else { return };
    let hook = pebble.tree.join("hook").to_string_lossy().into_owned();
    let more = [
        "--acme-hook",
        &hook,
        "--acme-hook-wait",
        "0",
        "--acme-challenge",
        "dns-01",
    ];
    let server = pebble.serve(Strategy::LOOPS, "state", &more).start();
    let client = pebble.client();
    let first = issued(&server, &client, "a.test");
    pebble.tree.write("hook", "#!/bin/sh\nexit 1\n");
    // Without the account, the CA does not know whose certificate it is.
    let account = pebble.pem("state").with_file_name("account.json");
    let aside = account.with_extension("aside");
    std::fs::rename(&account, &aside).expect("the account");
    let socket = pebble.tree.join("control");
    assert_eq!(ctl(&socket, &["certificates", "revoke"]).0, 0);
    within(ISSUED, "a refusal", || {
        let listed = pebble.certificates();
        let told = listed["revocation"].as_str().unwrap_or_default().to_owned();
        told.contains("refused").then_some(())
    });
    assert_eq!(pebble.status(&first)["Status"], "Valid");
    std::fs::rename(&aside, &account).expect("the account");
    assert_eq!(ctl(&socket, &["certificates", "revoke"]).0, 0);
    within(ISSUED, "the revocation", || {
        (pebble.status(&first)["Status"] == "Revoked").then_some(())
    });
    assert!(pebble.certificates()["trouble"].is_string(), "no other");
    assert_eq!(issued(&server, &client, "a.test"), first, "it stays in use");
}

#[test]
fn a_ca_that_wants_its_own_customers_gets_them() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let settings = json!({
        "externalAccountBindingRequired": true,
        "externalAccountMACKeys": { "kid-1": key },
    });
    let Some(pebble) = Pebble::start_with(&settings) else {
        return;
    };
    let mut server = pebble.serve(Strategy::LOOPS, "state", &[]).start();
    let listed = within(ISSUED, "the trouble", || {
        let listed = pebble.certificates();
        listed["trouble"].is_string().then_some(listed)
    });
    let trouble = listed["trouble"].as_str().expect("text");
    assert!(trouble.contains("--acme-eab"), "{trouble}");
    server.stop();
    pebble.tree.write("eab", format!("kid-1 {key}\n"));
    let file = pebble.tree.join("eab").to_string_lossy().into_owned();
    let server = pebble
        .serve(Strategy::LOOPS, "another", &["--acme-eab", &file])
        .start();
    issued(&server, &pebble.client(), "a.test");
}

#[test]
fn a_certificate_is_of_the_profile_that_was_asked_for() {
    const SHORT: i64 = 518_400;
    let settings = json!({ "profiles": {
        "default": { "description": "", "validityPeriod": 7_776_000 },
        "short": { "description": "six days", "validityPeriod": SHORT },
    } });
    let Some(pebble) = Pebble::start_with(&settings) else {
        return;
    };
    let mut server = pebble
        .serve(Strategy::LOOPS, "state", &["--acme-profile", "long"])
        .start();
    let listed = within(ISSUED, "the trouble", || {
        let listed = pebble.certificates();
        listed["trouble"].is_string().then_some(listed)
    });
    let trouble = listed["trouble"].as_str().expect("text");
    assert!(
        trouble.contains("no profile `long`") && trouble.contains("short"),
        "{trouble}"
    );
    assert_eq!(pebble.orders(), 0);
    server.stop();
    let server = pebble
        .serve(Strategy::LOOPS, "another", &["--acme-profile", "short"])
        .start();
    let shown = issued(&server, &pebble.client(), "a.test");
    // The key is in the file of the chain.
    let pem = std::fs::read(pebble.pem("another")).expect("a file");
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let pair = Pair::from_pem(&pem, &pem, &provider).expect("a pair");
    assert_eq!(pair.chain().first(), Some(&shown));
    // Both days count (RFC 5280, section 4.1.2.5).
    assert_eq!(pair.expires().secs - pair.begins().secs + 1, SHORT);
}

#[test]
fn a_certificate_that_has_ended_by_our_clock_is_no_reason_to_order_without_end() {
    // What a clock that is ahead sees: the certificate ends in the second in which it begins.
    let settings = json!({ "profiles": { "default": { "description": "", "validityPeriod": 1 } } });
    let Some(pebble) = Pebble::start_with(&settings) else {
        return;
    };
    let server = pebble.serve(Strategy::LOOPS, "state", &[]).start();
    let listed = within(ISSUED, "the trouble", || {
        let listed = pebble.certificates();
        listed["trouble"].is_string().then_some(listed)
    });
    let trouble = listed["trouble"].as_str().expect("text");
    assert!(trouble.contains("set the clock"), "{trouble}");
    eventually("a line in the log", || {
        server.stderr().contains("set the clock").then_some(())
    });
    assert_eq!(pebble.orders(), 1);
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
    within(ISSUED, "every process", || {
        let opened = |_| {
            Secure::try_open(server.address, &client, "a.test").is_ok_and(|one| one.certificate() == first)
        };
        (0..8).all(opened).then_some(())
    });
    pebble.has_one_order(&[&server]);
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
    // So that it is asked at once, and not hours later. A server that ends as soon as the certificate is in use may not have
    // written it.
    match std::fs::remove_file(pebble.pem("state").with_extension("json")) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        removed => removed.expect("notes"),
    }
    let server = launch().start();
    let renewed = || (issued(&server, &client, "a.test") != first).then_some(());
    within_or(ISSUED, renewed, || {
        let (said, of_the_ca) = (server.stderr(), pebble.log());
        let notes = std::fs::read_to_string(pebble.pem("state").with_extension("json"));
        format!(
            "another certificate; notes: {notes:?}; the server said last:\n{}\nthe CA said last:\n{}",
            last_lines(&said, 4),
            last_lines(&of_the_ca, 4)
        )
    });
    for line in ["wants the certificate renewed", "got a new certificate"] {
        eventually(line, || server.stderr().contains(line).then_some(()));
    }
    // Not the orders or certificates of the CA: on a busy machine, an order may fail late and be repeated.
    let said = server.stderr();
    assert_eq!(said.matches("got a new certificate").count(), 1, "{said}");
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
    pebble.has_one_order(&[&first, &second]);
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
    let listed = within(ISSUED, "the trouble", || {
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

/// The server of the CA is one of ours, with a certificate that the roots of another do not vouch for.
#[test]
fn a_ca_with_another_root_is_reported_with_the_flag_for_it() {
    let mut pairs = Pairs::new();
    for name in ["ca", "other"] {
        pairs.add(name, &["localhost"]);
    }
    let ca = pairs.launch(Strategy::LOOPS, &["ca"]).start();
    let [https, http] = free_ports();
    let server = Launch::at(Strategy::LOOPS, &format!("127.0.0.1:{https}"))
        .root(&pairs.tree.join("site"))
        .args(["--domain", "a.test"])
        .args(["--http-listen", &format!("127.0.0.1:{http}")])
        .args([
            "--acme-ca",
            &format!("https://localhost:{}/dir", ca.address.port()),
        ])
        .args([
            "--acme-ca-root".as_ref(),
            pairs.tree.join("other.pem").as_os_str(),
        ])
        .args(["--tls-state".as_ref(), pairs.tree.join("state").as_os_str()])
        .start();
    let line = within(ISSUED, "the trouble", || {
        let log = server.stderr();
        let (whole, _) = log.rsplit_once('\n')?;
        whole
            .lines()
            .find(|line| line.contains("TLS failed"))
            .map(str::to_owned)
    });
    assert!(
        line.contains("check --acme-ca-root:") && !line.contains("--insecure"),
        "{line}"
    );
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
        (["--domain", "*.a.test"], "wildcard; name a program"),
        (["--domain", "a b"], "not a host name"),
        (["--acme-ca", "letsencript"], "letsencrypt-staging"),
    ] {
        let (code, printed) = Launch::bare().args(flags).fail();
        assert_eq!(code, 2, "{printed}");
        assert!(printed.contains(wanted), "{flags:?}: {printed}");
    }
}
