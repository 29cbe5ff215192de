//! The black box of the TLS clients: `weir fetch` and `weir load` against `weir serve` with certificates made here, and
//! against servers that misbehave.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a black-box test is the outside world: it starts programs and reads files"
)]

mod contents;
mod over_link;
mod over_quic;
mod race;
mod simulated;

use crate::cli::{WEIR, text};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tls::rustls::pki_types::pem::PemObject;
use tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tls::rustls::server::WebPkiClientVerifier;
use tls::rustls::server::danger::ClientCertVerifier;
use tls::rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// A CA, and certificates under it.
struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        Authority::named("the test's CA")
    }

    fn named(name: &str) -> Authority {
        let dir = TempDir::new().expect("a folder");
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = parameters.self_signed(&key).expect("a root");
        fs::write(dir.path().join("ca.pem"), root.pem()).expect("a file");
        let site = dir.path().join("site");
        fs::create_dir(&site).expect("a folder");
        let image = "<img src=a.gif><img src=b.gif>";
        fs::write(site.join("index.html"), image).expect("a file");
        fs::write(site.join("a.gif"), [7; 40_000]).expect("a file");
        fs::write(site.join("b.gif"), [8; 100]).expect("a file");
        Authority {
            dir,
            issuer: Issuer::new(parameters, key),
        }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("text").to_owned()
    }

    fn ca(&self) -> String {
        self.path("ca.pem")
    }

    /// Writes `cert.pem` and `cert.key` for this name, valid until this year.
    fn issue(&self, name: &str, until: i32) {
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("names");
        parameters.not_before = rcgen::date_time_ymd(2001, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let made = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        fs::write(self.path("cert.pem"), made.pem()).expect("a file");
        fs::write(self.path("cert.key"), key.serialize_pem()).expect("a file");
    }

    /// `weir serve` with a certificate for this name.
    fn serve(&self, name: &str, until: i32) -> Server {
        self.issue(name, until);
        self.start(&[
            "--tls-cert",
            &self.path("cert.pem"),
            "--tls-key",
            &self.path("cert.key"),
        ])
    }

    fn start(&self, flags: &[&str]) -> Server {
        let mut child = Command::new(WEIR)
            .args(["serve", &self.path("site"), "--listen", "127.0.0.1:0", "--json"])
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("its first line");
        let started: Value = serde_json::from_str(&line).expect("JSON");
        let address = started["listeners"][0]["address"].as_str().expect("an address");
        Server {
            address: address.parse().expect("an address"),
            child,
        }
    }
}

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/", self.address)
    }
}

fn weir(words: &[&str]) -> Output {
    crate::cli::weir(words)
}

fn json(output: &Output) -> Value {
    let said = text(&output.stdout);
    let line = said
        .lines()
        .next()
        .unwrap_or_else(|| panic!("{}", text(&output.stderr)));
    serde_json::from_str(line).expect("JSON")
}

fn fetch(url: &str, more: &[&str]) -> Output {
    weir(&[&["fetch", "--json", url], more].concat())
}

/// A fetch that fails with this exit code; its errors.
fn refused(url: &str, more: &[&str], code: i32) -> String {
    let output = fetch(url, more);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{more:?}: {errors}");
    errors
}

#[test]
fn a_page_is_fetched_over_every_version() {
    let authority = Authority::new();
    let server = authority.serve("127.0.0.1", 2090);
    for (versions, wanted) in [("1.2", "TLS 1.2"), ("1.3", "TLS 1.3"), ("1.2,1.3", "TLS 1.3")] {
        let flags = ["--ca", &authority.ca(), "--tls-versions", versions, "--explain"];
        let output = fetch(&server.url("https"), &flags);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let line = json(&output);
        assert_eq!(line["objects"].as_array().map(Vec::len), Some(3), "{line}");
        assert_eq!(line["insecure"], false);
        let tls = &line["opened"][0]["tls"];
        assert_eq!(tls["version"], wanted, "{line}");
        assert!(tls["handshake"].as_f64().is_some_and(|took| took > 0.0), "{line}");
        let causes = line["explain"]["causes"].as_array().expect("causes");
        let handshake = causes.iter().find(|one| one["cause"] == "TLS handshake");
        let seconds = handshake.and_then(|one| one["seconds"].as_f64());
        assert!(seconds.is_some_and(|seconds| seconds > 0.0), "{line}");
    }
}

#[test]
fn a_page_is_fetched_over_http_2() {
    let authority = Authority::new();
    let server = authority.serve("127.0.0.1", 2090);
    let output = fetch(&server.url("https"), &["--ca", &authority.ca(), "--mode", "h2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let line = json(&output);
    assert_eq!(line["objects"].as_array().map(Vec::len), Some(3), "{line}");
    assert_eq!(line["connections"], 1, "{line}");
    assert_eq!(line["objects"][1]["content_bytes"], 40_000, "{line}");
}

fn seconds_of(request: &Value, what: &str) -> f64 {
    request[what].as_f64().expect("a number")
}

/// A process that is ended with the test.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server of others, which also tells whether this client would take what is pushed.
#[test]
fn a_page_of_nodes_server_comes_over_http_2() {
    let script = r#"
const fs = require("node:fs"), http2 = require("node:http2");
const [cert, key] = process.argv.slice(1).map((file) => fs.readFileSync(file));
const server = http2.createSecureServer({ cert, key });
server.on("stream", (stream, head) => {
  const [type, body] = head[":path"] === "/" ? ["text/html", "<img src=a.gif><img src=b.gif>"] : ["image/gif", "x".repeat(40000)];
  stream.respond({ ":status": 200, "content-type": type, "x-push": String(stream.pushAllowed) });
  stream.end(body);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"#;
    let authority = Authority::new();
    authority.issue("127.0.0.1", 2090);
    let mut node = Command::new("node");
    node.args([
        "-e",
        script,
        &authority.path("cert.pem"),
        &authority.path("cert.key"),
    ]);
    let Ok(child) = node.stdout(Stdio::piped()).spawn() else {
        return println!("skipped: node is not on this machine");
    };
    let mut node = Other(child);
    let mut port = String::new();
    let output = node.0.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut port).expect("its port");
    let url = format!("https://127.0.0.1:{}/", port.trim());
    let (ca, har) = (authority.ca(), authority.path("node.har"));
    let line = json(&fetch(&url, &["--ca", &ca, "--har", &har]));
    assert_eq!(line["opened"][0]["protocol"], "h2", "{line}");
    assert_eq!(line["objects"][2]["content_bytes"], 40_000, "{line}");
    let archive = fs::read_to_string(&har).expect("a file");
    let archive: Value = serde_json::from_str(&archive).expect("JSON");
    let head = archive["log"]["entries"][0]["response"]["headers"].clone();
    let push = head
        .as_array()
        .expect("fields")
        .iter()
        .find(|field| field["name"] == "x-push");
    assert_eq!(
        push.expect("the field")["value"],
        "false",
        "push is refused: {head}"
    );
    let result = load(&url, &["--ca", &ca]);
    assert_eq!(result["mode"], "h2", "{result}");
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
}

/// The server of Go's standard library, which speaks HTTP/2 over TLS by itself.
#[test]
fn a_page_of_gos_server_comes_over_http_2() {
    let program = r#"
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<img src=a.gif><img src=b.gif>")
			return
		}
		w.Header().Set("Content-Type", "image/gif")
		w.Header().Set("X-Protocol", r.Proto)
		w.Header().Set("Trailer", "X-End")
		fmt.Fprint(w, strings.Repeat("x", 200000))
		w.Header().Set("X-End", "here")
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.ServeTLS(listener, nil, os.Args[1], os.Args[2]))
}
"#;
    let authority = Authority::new();
    authority.issue("127.0.0.1", 2090);
    let (source, server) = (authority.path("server.go"), authority.path("server"));
    fs::write(&source, program).expect("a file");
    let Ok(built) = Command::new("go")
        .args(["build", "-o", &server, &source])
        .output()
    else {
        return println!("skipped: go is not on this machine");
    };
    assert!(built.status.success(), "{}", text(&built.stderr));
    let mut go = Command::new(&server);
    go.args([authority.path("cert.pem"), authority.path("cert.key")]);
    let mut go = Other(go.stdout(Stdio::piped()).spawn().expect("the program starts"));
    let mut port = String::new();
    let output = go.0.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut port).expect("its port");
    let url = format!("https://127.0.0.1:{}/", port.trim());
    let (ca, har) = (authority.ca(), authority.path("go.har"));
    let line = json(&fetch(&url, &["--ca", &ca, "--har", &har]));
    assert_eq!(line["opened"][0]["protocol"], "h2", "{line}");
    assert_eq!(line["objects"][2]["content_bytes"], 200_000, "{line}");
    let archive = fs::read_to_string(&har).expect("a file");
    assert!(archive.contains("HTTP/2.0"), "{archive}");
    let result = load(&url, &["--ca", &ca]);
    assert_eq!(result["mode"], "h2", "{result}");
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
}

/// Which version is spoken is agreed on in the handshake; nobody has to name it.
#[test]
fn the_version_of_http_is_negotiated() {
    let authority = Authority::new();
    let server = authority.serve("127.0.0.1", 2090);
    let (url, ca) = (server.url("https"), authority.ca());
    let har = authority.path("h2.har");
    let output = fetch(&url, &["--ca", &ca, "--har", &har, "--explain"]);
    let line = json(&output);
    assert_eq!(line["mode"], "auto", "{line}");
    assert_eq!(line["opened"][0]["protocol"], "h2", "{line}");
    let streams: Vec<_> = (0..3)
        .map(|at| &line["objects"][at]["requests"][0]["stream"])
        .collect();
    assert_eq!(streams, [1, 3, 5], "{line}");
    assert_eq!(line["objects"][0]["requests"][0]["priority"], "u=0, i", "{line}");
    let causes = line["explain"]["causes"].as_array().expect("causes");
    let idle = causes
        .iter()
        .find(|one| one["cause"] == "client idle")
        .expect("it");
    let connect = causes.iter().find(|one| one["cause"] == "connect").expect("it");
    let seconds = |cause: &Value| cause["seconds"].as_f64().expect("a number");
    assert!(
        seconds(idle) < seconds(connect),
        "the wait for the agreement has its cause: {line}"
    );
    for one in line["explain"]["streams"].as_array().expect("streams") {
        let object = &line["objects"][one["object"].as_u64().expect("an index") as usize];
        let request = &object["requests"][0];
        let took = seconds_of(request, "last_byte") - seconds_of(request, "sent");
        let waits = one["waits"].as_array().expect("waits").iter();
        let sum: f64 = waits
            .map(|wait| wait["seconds"].as_f64().expect("a number"))
            .sum();
        assert!((took - sum).abs() < 1e-6, "{took} {sum}: {line}");
    }
    let archive: Value = serde_json::from_str(&fs::read_to_string(&har).expect("a file")).expect("JSON");
    let entry = &archive["log"]["entries"][1];
    assert_eq!(
        (&entry["_stream"], &entry["request"]["httpVersion"]),
        (&3.into(), &"HTTP/2".into())
    );
    assert!(entry["_waits"]["other streams"].is_number(), "{entry}");

    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    let plain = authority.start(&["--tls-cert", &cert, "--tls-key", &key, "--http2", "off"]);
    let line = json(&fetch(&plain.url("https"), &["--ca", &ca]));
    assert_eq!(line["opened"][0]["protocol"], "http/1.1", "{line}");
    assert_eq!(line["objects"][2]["requests"][0]["stream"], Value::Null, "{line}");
    assert_eq!(line["connections"], 1, "{line}");
    // A window of a few bytes must not be the end of it.
    let line = json(&fetch(
        &url,
        &["--ca", &ca, "--stream-window", "1KiB", "--priorities", "firefox"],
    ));
    assert_eq!(line["objects"][1]["content_bytes"], 40_000, "{line}");
    assert_eq!(line["objects"][1]["requests"][0]["priority"], "u=5, i", "{line}");
    for (flags, named) in [
        (
            &["--mode", "serial", "--priorities", "firefox"][..],
            "`--priorities`",
        ),
        (
            &["--mode", "serial", "--stream-window", "1KiB"],
            "`--stream-window`",
        ),
        (&["--priorities", "lynx"], "`chromium`, `firefox`, `none`"),
        (&["--stream-window", "3GiB"], "2 GiB"),
    ] {
        let output = fetch(&url, &[&["--ca", &ca][..], flags].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(named), "{}", text(&output.stderr));
    }
}

#[test]
fn connections_resume_unless_told_otherwise() {
    let authority = Authority::new();
    let server = authority.serve("127.0.0.1", 2090);
    for (more, wanted) in [
        (&[][..], vec![false, true, true]),
        (&["--no-resumption"], vec![false; 3]),
    ] {
        let ca = authority.ca();
        let flags = [&["--ca", &ca, "--mode", "http10", "--connections", "1"], more].concat();
        let line = json(&fetch(&server.url("https"), &flags));
        let opened = line["opened"].as_array().expect("connections").iter();
        let resumed: Vec<bool> = opened.map(|one| one["tls"]["resumed"] == true).collect();
        assert_eq!(resumed, wanted, "{line}");
    }
}

#[test]
fn an_archive_and_a_report_show_the_handshake() {
    let authority = Authority::new();
    let server = authority.serve("127.0.0.1", 2090);
    let (ca, har, svg) = (authority.ca(), authority.path("a.har"), authority.path("a.svg"));
    let output = weir(&[
        "fetch",
        &server.url("https"),
        "--ca",
        &ca,
        "--har",
        &har,
        "--svg",
        &svg,
    ]);
    let said = text(&output.stdout);
    assert!(
        said.contains("TLS 1.3") && said.contains("0 of 1 resumed"),
        "{said}"
    );
    let har: Value = serde_json::from_str(&fs::read_to_string(har).expect("a file")).expect("JSON");
    let timings = &har["log"]["entries"][0]["timings"];
    let time = |name: &str| timings[name].as_f64().expect("a time");
    assert!(time("ssl") > 0.0 && time("connect") >= time("ssl"), "{timings}");
    assert_eq!(har["log"]["entries"][1]["timings"]["ssl"], -1.0);
    assert!(
        fs::read_to_string(svg)
            .expect("a file")
            .contains("TLS handshake: ")
    );
}

/// sslyze knows the recommendations of Mozilla for servers, and the classical attacks.
#[test]
fn a_scanner_finds_the_server_as_mozilla_recommends() {
    let authority = Authority::new();
    let mut root = CertificateParams::new(Vec::new()).expect("parameters");
    root.distinguished_name
        .push(DnType::CommonName, "the scanner's CA");
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    root.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate().expect("a key");
    fs::write(authority.ca(), root.self_signed(&key).expect("a root").pem()).expect("a file");
    let issuer = Issuer::new(root, key);
    // Mozilla wants certificates that are valid now and live for at most 366 days.
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock");
    let day = std::time::Duration::from_secs(86_400);
    let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    parameters.not_before = rcgen::date_time_ymd(1970, 1, 1) + (now - day);
    parameters.not_after = rcgen::date_time_ymd(1970, 1, 1) + (now + day * 90);
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().expect("a key");
    let leaf = parameters.signed_by(&key, &issuer).expect("a certificate");
    fs::write(authority.path("cert.pem"), leaf.pem()).expect("a file");
    fs::write(authority.path("cert.key"), key.serialize_pem()).expect("a file");
    let server = authority.start(&[
        "--tls-cert",
        &authority.path("cert.pem"),
        "--tls-key",
        &authority.path("cert.key"),
    ]);
    let scan = Command::new("sslyze")
        .args([
            "--mozilla_config",
            "intermediate",
            "--certinfo_ca_file",
            &authority.ca(),
        ])
        .arg(format!("localhost:{}", server.address.port()))
        .output();
    let Ok(scan) = scan else {
        return println!("skipped: sslyze is not on this machine");
    };
    let said = text(&scan.stdout);
    assert!(said.contains("OK - Compliant"), "{said}");
    for attack in [
        "Not vulnerable to Heartbleed",
        "Not vulnerable to OpenSSL CCS injection",
        "Client Renegotiation DoS Attack:   OK",
        "ROBOT Attack",
    ] {
        assert!(said.contains(attack), "{attack}: {said}");
    }
    assert!(!said.contains("VULNERABLE -"), "{said}");
}

#[test]
fn certificates_that_are_wrong_are_named_with_advice() {
    let authority = Authority::new();
    let ca = authority.ca();
    let other = authority.serve("other.test", 2090);
    let named = refused(&other.url("https"), &["--ca", &ca], 1);
    assert!(
        named.contains("is not for `127.0.0.1`") && named.contains("other.test"),
        "{named}"
    );
    drop(other);
    let expired = authority.serve("127.0.0.1", 2002);
    let said = refused(&expired.url("https"), &["--ca", &ca], 1);
    assert!(
        said.contains("has expired") && said.contains("--insecure"),
        "{said}"
    );
    drop(expired);
    let good = authority.serve("127.0.0.1", 2090);
    let stranger = Authority::named("another CA");
    let said = refused(&good.url("https"), &["--ca", &stranger.ca()], 1);
    assert!(said.contains("unknown issuer") && said.contains("--ca"), "{said}");
}

#[test]
fn unchecked_certificates_are_said_loudly() {
    let authority = Authority::new();
    let server = authority.serve("other.test", 2002);
    let output = fetch(&server.url("https"), &["--insecure"]);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("certificates are not checked"), "{errors}");
    assert_eq!(json(&output)["insecure"], true);
}

#[test]
fn the_wrong_scheme_is_noticed_on_either_side() {
    let authority = Authority::new();
    let ca = authority.ca();
    let clear = authority.start(&[]);
    let said = refused(&clear.url("https"), &["--ca", &ca], 1);
    assert!(said.contains("plain HTTP"), "{said}");
    let server = authority.serve("127.0.0.1", 2090);
    let line = json(&fetch(&server.url("http"), &[]));
    assert_eq!(line["objects"][0]["status"], 400, "{line}");
    assert_eq!(line["insecure"], Value::Null);
}

#[test]
fn flags_that_cannot_work_are_refused() {
    let authority = Authority::new();
    let none = authority.path("none.pem");
    for (url, flags, wanted) in [
        ("http://127.0.0.1:1/", &["--insecure"][..], "applies to https"),
        ("https://127.0.0.1:1/", &["--ca", &none], "none.pem"),
        ("https://127.0.0.1:1/", &["--tls-versions", "1.1"], "1.1"),
        ("https://127.0.0.1:1/", &["--crypto", "fips"], "classical or nist"),
        (
            "https://127.0.0.1:1/",
            &["--crypto", "modern", "--tls-versions", "1.2"],
            "exclude each other",
        ),
        ("https://127.0.0.1:1/", &["--cert", &none], "--key"),
        (
            "https://127.0.0.1:1/",
            &["--insecure", "--cert", &none, "--key", &none],
            "none.pem",
        ),
        (
            "https://127.0.0.1:1/",
            &["--ca", &none, "--insecure"],
            "cannot be used with",
        ),
    ] {
        let said = refused(url, flags, 2);
        assert!(said.contains(wanted), "{said}");
    }
}

/// A TLS server whose response ends with the connection, with `close_notify` or without.
fn ending(authority: &Authority, says_goodbye: bool) -> SocketAddr {
    ending_for(WebPkiClientVerifier::no_client_auth(), authority, says_goodbye)
}

/// The same for clients whom this verifier accepts.
fn ending_for(clients: Arc<dyn ClientCertVerifier>, authority: &Authority, says_goodbye: bool) -> SocketAddr {
    authority.issue("127.0.0.1", 2090);
    let chain = CertificateDer::pem_file_iter(authority.path("cert.pem")).expect("a file");
    let chain = chain.map(|one| one.expect("a certificate")).collect();
    let key = PrivateKeyDer::from_pem_file(authority.path("cert.key")).expect("a key");
    let config = ServerConfig::builder()
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key);
    let config = Arc::new(config.expect("a configuration"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::Builder::new()
        .spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let connection = ServerConnection::new(Arc::clone(&config)).expect("a server");
                let mut secure = StreamOwned::new(connection, stream);
                if secure.read(&mut [0; 4096]).is_err() {
                    continue;
                }
                let _ = secure.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nhello");
                if says_goodbye {
                    secure.conn.send_close_notify();
                }
                let _ = secure.flush();
            }
        })
        .expect("a thread");
    address
}

#[test]
fn a_client_certificate_is_sent_to_a_server_that_requires_one() {
    let authority = Authority::new();
    let ca = authority.ca();
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_file(&ca).expect("a file");
    roots.add(root).expect("a root");
    let clients = WebPkiClientVerifier::builder(Arc::new(roots))
        .build()
        .expect("a verifier");
    let url = format!("https://{}/", ending_for(clients, &authority, true));
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    for version in ["1.2", "1.3"] {
        let flags = ["--ca", &ca, "--tls-versions", version];
        let output = fetch(&url, &[&flags[..], &["--cert", &cert, "--key", &key]].concat());
        assert!(output.status.success(), "{version}: {}", text(&output.stderr));
        refused(&url, &flags, 1);
    }
    let said = refused(&url, &["--ca", &ca, "--cert", &ca, "--key", &key], 2);
    assert!(said.contains("does not belong"), "{said}");
}

#[test]
fn a_truncated_response_is_told_from_one_that_ends() {
    let authority = Authority::new();
    let ca = authority.ca();
    let whole = format!("https://{}/", ending(&authority, true));
    let output = fetch(&whole, &["--ca", &ca]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let cut = format!("https://{}/", ending(&authority, false));
    let said = refused(&cut, &["--ca", &ca], 1);
    assert!(said.contains("close_notify"), "{said}");
    let load = [
        "load",
        "--ca",
        &ca,
        "--duration",
        "1s",
        "--clients",
        "1",
        "--lag-max",
        "60s",
        "--json",
    ];
    let result = json(&weir(&[&load[..], &[&cut]].concat()));
    assert_eq!(result["files"], 0, "{result}");
    assert!(
        result["errors"]["truncated"]
            .as_u64()
            .is_some_and(|count| count > 0),
        "{result}"
    );
}

fn load(url: &str, more: &[&str]) -> Value {
    let flags = [
        "load",
        url,
        "--duration",
        "1s",
        "--clients",
        "4",
        "--lag-max",
        "60s",
        "--json",
    ];
    json(&weir(&[&flags[..], more].concat()))
}

#[test]
fn a_load_measures_handshakes_and_resumes() {
    let authority = Authority::new();
    let server = authority.serve("127.0.0.1", 2090);
    let ca = authority.ca();
    let url = server.url("https");
    let result = load(&url, &["--ca", &ca, "--mode", "http10"]);
    let count = |name: &str| result[name]["count"].as_u64().expect("a count");
    assert!(count("handshake_ms") > 10, "{result}");
    assert!(
        result["resumed_share"].as_f64().is_some_and(|share| share > 0.5),
        "{result}"
    );
    assert_eq!(result["tls"]["insecure"], false);
    let flags = [
        "--ca",
        &ca,
        "--mode",
        "http10",
        "--no-resumption",
        "--tls-versions",
        "1.2",
        "--crypto",
        "nist",
    ];
    let result = load(&url, &flags);
    assert_eq!(result["resumed_share"], 0.0, "{result}");
    assert_eq!(result["tls"]["versions"], "1.2");
    assert_eq!(result["tls"]["crypto"], "nist");
    let result = load(&url, &["--insecure"]);
    assert!(
        result["files"].as_u64().is_some_and(|files| files > 10),
        "{result}"
    );
    assert_eq!(result["tls"]["insecure"], true);
}

#[test]
fn clients_share_connections_over_http2() {
    let authority = Authority::new();
    let server = authority.serve("127.0.0.1", 2090);
    let (ca, url) = (authority.ca(), server.url("https"));
    let flags = ["--ca", &ca, "--http2", "--users-per-connection", "2"];
    let result = load(&url, &flags);
    assert_eq!(result["connections"], 2, "{result}");
    assert_eq!(result["handshake_ms"]["count"], 2, "{result}");
    assert!(
        result["files"].as_u64().is_some_and(|files| files > 10),
        "{result}"
    );
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
    // Nobody names a version: the server chooses.
    assert_eq!(load(&url, &["--ca", &ca])["mode"], "h2");
    assert_eq!(load(&url, &["--ca", &ca, "--mode", "serial"])["mode"], "serial");
    // A server that was told not to: nothing but HTTP/2 is offered.
    let server = authority.start(&[
        "--http2",
        "off",
        "--tls-cert",
        &authority.path("cert.pem"),
        "--tls-key",
        &authority.path("cert.key"),
    ]);
    let result = load(&server.url("https"), &["--ca", &ca]);
    assert_eq!(result["mode"], "serial", "{result}");
    assert!(
        result["files"].as_u64().is_some_and(|files| files > 10),
        "{result}"
    );
    let result = load(&server.url("https"), &flags);
    assert_eq!(result["files"], 0, "{result}");
    assert!(
        result["record"]["handshake_fault"]
            .as_str()
            .is_some_and(|fault| fault.contains("--mode")),
        "{result}"
    );
}

#[test]
fn failed_handshakes_of_a_load_are_counted_and_named() {
    let authority = Authority::new();
    let server = authority.serve("other.test", 2090);
    let ca = authority.ca();
    for mode in [
        &[][..],
        &["--mode", "serial"],
        &["--mode", "h2"],
        &["--mode", "h3"],
    ] {
        let result = load(&server.url("https"), &[&["--ca", &ca], mode].concat());
        let failed = result["errors"]["handshake"].as_u64().expect("a count");
        assert!(failed > 0 && result["files"] == 0, "{result}");
        assert!(result["errors"]["protocol"].is_null(), "{result}");
        assert_eq!(result["verdict"]["valid"], false, "{result}");
        let fault = result["record"]["handshake_fault"].as_str().expect("a reason");
        assert!(fault.contains("is not for"), "{mode:?}: {fault}");
    }
    // The report has the reason as well.
    let url = server.url("https");
    let output = weir(&["load", &url, "--ca", &ca, "--clients", "1", "--duration", "2s"]);
    let said = text(&output.stdout);
    let reason = said
        .lines()
        .find(|line| line.contains("first failed TLS handshake: "));
    assert!(
        reason.is_some_and(|line| line.contains("is not for")),
        "{said} {}",
        text(&output.stderr)
    );
}
