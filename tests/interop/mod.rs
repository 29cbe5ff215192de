//! The cases of the public interoperability runner of QUIC (quic-interop-runner), by its names, with quic-go, aioquic and curl:
//! QUIC and HTTP/3 that are no relatives of ours. Where a program is missing, a test says `skipped` and passes.
//!
//! - `as_server`: `weir serve` with clients of others
//! - `as_client`: `weir fetch` with servers of others
//! - `caddy`: `weir fetch` with Caddy
//! - `matrix`: many streams, large files, loss, reordering, migration: each client with each
//! - `measured`: what the runner measures: goodput, alone and beside TCP
//!
//! The runner transfers files by HTTP/0.9 over QUIC in most cases; here, HTTP/3 carries them in all. Its networks are
//! simulated ones of ns-3; here, a [`relay`] has the same losses, from a fixed seed that a failing test prints.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a black-box test is the outside world: it starts programs, opens sockets and writes files"
)]

mod as_client;
mod as_server;
mod caddy;
mod matrix;
mod measured;
mod packets;
mod relay;

use crate::cli::text;
use crate::serve::process::{Launch, Server, Strategy};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// Programs of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    QuicGo,
    Aioquic,
}

/// The exit code of the scripts where their library is missing.
const MISSING: i32 = 3;

/// Seconds after which timeout(1) ends a program.
const SECONDS_MAX: &str = "110";

/// A Python script beside this file.
fn script(name: &str) -> String {
    format!("{}/tests/interop/{name}", env!("CARGO_MANIFEST_DIR"))
}

impl Peer {
    /// The command up to its flags; `None`, with the reason said, if it is missing.
    fn command(self) -> Option<Command> {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", SECONDS_MAX]);
        match self {
            Peer::QuicGo => command.arg(crate::quic_go::program()?),
            Peer::Aioquic => command.args(["python3", &script("aioquic_peer.py")]),
        };
        // It prints hints for its user about buffers of the system.
        command.env("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true");
        Some(command)
    }

    /// Adds flags. Go has no way to choose a cipher but the processor: without instructions for AES, it prefers ChaCha20.
    fn flags(self, command: &mut Command, flags: &[&str]) {
        for flag in flags {
            match (*flag, self) {
                ("--chacha", Peer::QuicGo) => command.env("GODEBUG", "cpu.aes=off"),
                _ => command.arg(flag),
            };
        }
    }
}

/// A folder of files, with certificates for the addresses of loopback and `a.test`.
struct Site {
    dir: TempDir,
}

/// So many bytes, no two parts of which are alike.
fn content(length: usize) -> Vec<u8> {
    let mut content = Vec::with_capacity(length + 8);
    let mut at = length as u64;
    while content.len() < length {
        content.extend_from_slice(&at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        at += 1;
    }
    content.truncate(length);
    content
}

impl Site {
    /// Files of these names and lengths.
    fn new(files: &[(&str, usize)]) -> Site {
        let dir = TempDir::new().expect("a folder");
        std::fs::create_dir(dir.path().join("site")).expect("a folder");
        let site = Site { dir };
        site.certify(0);
        for &(name, length) in files {
            site.write(name, &content(length));
        }
        site
    }

    /// A page whose images are these files, and the files.
    fn page(files: &[(&str, usize)]) -> Site {
        let site = Site::new(files);
        let images: String = files
            .iter()
            .map(|(name, _)| format!("<img src={name}>"))
            .collect();
        site.write("index.html", images.as_bytes());
        site
    }

    /// So many files of this length, `0000.gif` and on.
    fn many(count: usize, length: usize) -> (Site, Vec<String>) {
        let names: Vec<String> = (0..count).map(|number| format!("{number:04}.gif")).collect();
        let files: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), length)).collect();
        (Site::page(&files), names)
    }

    fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.folder().join(name), content).expect("a file");
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("site")
    }

    /// Bytes of a file.
    fn length(&self, name: &str) -> u64 {
        let about = std::fs::metadata(self.folder().join(name));
        about.expect("a file").len()
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Writes a certificate, and so many others behind it in its chain.
    fn certify(&self, others: usize) {
        let names = ["127.0.0.1", "::1", "198.18.0.1", "a.test"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let mut chain = made.cert.pem();
        std::fs::write(self.path("ca.pem"), &chain).expect("a file");
        for number in 0..others {
            let name = format!("{number}.a.test");
            let other = rcgen::generate_simple_self_signed([name]).expect("a certificate");
            chain += &other.cert.pem();
        }
        std::fs::write(self.path("cert.pem"), chain).expect("a file");
        std::fs::write(self.path("cert.key"), made.signing_key.serialize_pem()).expect("a file");
    }

    /// `weir serve` of it at this address.
    fn serve(&self, address: &str) -> Server {
        self.launch(address).start()
    }

    fn launch(&self, address: &str) -> Launch {
        let [cert, key] = ["cert.pem", "cert.key"].map(|name| self.path(name));
        Launch::at(Strategy::LOOPS, address).root(&self.folder()).args([
            "--http3",
            "--tls-cert",
            &cert,
            "--tls-key",
            &key,
        ])
    }

    /// Fetches files from this address with a program of others, which compares them with those of the folder. What it saw;
    /// `None`, with the reason said, if the program is missing.
    fn get(&self, peer: Peer, flags: &[&str], from: SocketAddr, names: &[&str]) -> Option<Value> {
        let mut command = peer.command()?;
        command.args(["get", "--folder"]).arg(self.folder());
        peer.flags(&mut command, flags);
        command.arg(from.to_string()).args(names);
        saw(command)
    }

    /// Serves the folder with a program of others.
    fn served_by(&self, peer: Peer, flags: &[&str]) -> Option<Served> {
        let mut command = peer.command()?;
        let [cert, key] = ["cert.pem", "cert.key"].map(|name| self.path(name));
        command.arg("files");
        peer.flags(&mut command, flags);
        command.args([cert, key]).arg(self.folder());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("timeout(1)");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut port = String::new();
        output.read_line(&mut port).expect("its port");
        let Ok(port) = port.trim().parse::<u16>() else {
            let status = child.wait().expect("our own child");
            assert_eq!(status.code(), Some(MISSING), "{peer:?} {flags:?}");
            println!("skipped: no python3 with the library of {peer:?}");
            return None;
        };
        let is_v6 = flags.contains(&"[::1]:0");
        let host = if is_v6 { "[::1]" } else { "127.0.0.1" };
        Some(Served {
            address: format!("{host}:{port}").parse().expect("an address"),
            child,
            output,
        })
    }
}

/// Runs a client to its end: the JSON that it printed.
fn saw(mut command: Command) -> Option<Value> {
    let Ok(output) = command.output() else {
        println!("skipped: timeout(1) is not on this machine");
        return None;
    };
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    // 127 of timeout(1): no such program.
    if matches!(output.status.code(), Some(MISSING | 127)) {
        println!("skipped: {command:?} lacks its program or library");
        return None;
    }
    assert!(output.status.success(), "{command:?}: {said}{errors}");
    let found = serde_json::from_str(&said);
    Some(found.unwrap_or_else(|error| panic!("{command:?}: {error}: {said}")))
}

/// A server of others, which ends with this.
struct Served {
    address: SocketAddr,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Drop for Served {
    fn drop(&mut self) {
        // timeout(1) passes it on; a program that ends by itself is gone already.
        let _ = self.child.stdin.take();
        let _ = self.child.wait();
    }
}

impl Served {
    /// Ends it: what it saw.
    fn end(mut self) -> Value {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.output.read_to_string(&mut said).expect("text");
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    }
}

/// A number that a program printed.
fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name}: {of}"))
}
