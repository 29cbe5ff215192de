//! A site that `weir site` wrote and a `weir serve` for it: what the black boxes of clients ask.

#![allow(
    dead_code,
    reason = "each of the test binaries that include this uses a part of it"
)]

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Gone when dropped.
pub(crate) struct Served {
    pub(crate) dir: TempDir,
    server: Child,
    pub(crate) url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Served {
    pub(crate) fn path(&self) -> &str {
        self.dir.path().to_str().expect("text")
    }
}

/// Writes the site (its kind, then flags of `weir site`) and serves it on a port of its own.
pub(crate) fn served(site: &[&str]) -> Served {
    let dir = TempDir::new().expect("a folder");
    let written = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["site", site[0], dir.path().to_str().expect("text")])
        .args(&site[1..])
        .output()
        .expect("the binary starts");
    let errors = String::from_utf8_lossy(&written.stderr);
    assert!(written.status.success(), "{site:?}: {errors}");
    serving(dir, &[])
}

/// Serves this folder on a port of its own, with these flags more.
pub(crate) fn serving(dir: TempDir, more: &[&str]) -> Served {
    let mut server = Command::new(env!("CARGO_BIN_EXE_weir"))
        // A busy machine must not spare the codings that are asked for.
        .args([
            "serve",
            dir.path().to_str().expect("text"),
            "--listen",
            "127.0.0.1:0",
            "--json",
            "--adapt",
            "off",
            "--http2",
            "all",
        ])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server starts");
    let mut line = String::new();
    let output = server.stdout.take().expect("a pipe");
    BufReader::new(output)
        .read_line(&mut line)
        .expect("its first line");
    let started: Value = serde_json::from_str(&line).expect("JSON");
    let address = started["listeners"][0]["address"].as_str().expect("an address");
    Served {
        dir,
        url: format!("http://{address}/"),
        server,
    }
}
