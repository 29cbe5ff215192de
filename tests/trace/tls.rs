//! TLS in a capture: what tshark finds in real conversations, with the secrets in the file, beside it, late, wrong or
//! missing; and every packet of it lost in turn.

use super::{folder, json, of, show, text, weir};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

pub(super) const SECURED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/crates/trace/testdata/secured.pcapng"
);
const BY_TSHARK: &str = include_str!("../../crates/trace/testdata/secured.tshark.tsv");

/// Types of pcapng blocks.
pub(super) const ENHANCED_PACKET: u32 = 6;
pub(super) const SECRETS: u32 = 10;

/// The blocks of a pcapng file with little-endian numbers.
pub(super) fn blocks(file: &[u8]) -> Vec<(u32, &[u8])> {
    let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let len = number(at + 4) as usize;
        blocks.push((number(at), &file[at..at + len]));
        at += len;
    }
    blocks
}

/// The capture without its secrets, and these as a key log.
fn apart() -> (Vec<u8>, Vec<u8>) {
    let file = fs::read(SECURED).expect("the capture");
    let (mut rest, mut key_log) = (Vec::new(), Vec::new());
    for (kind, block) in blocks(&file) {
        if kind == SECRETS {
            let len = u32::from_le_bytes(block[12..16].try_into().expect("four bytes")) as usize;
            key_log.extend_from_slice(&block[16..16 + len]);
        } else {
            rest.extend_from_slice(block);
        }
    }
    (rest, key_log)
}

/// Requests and connections.
fn results(lines: &[Value]) -> Vec<&Value> {
    lines
        .iter()
        .filter(|line| line["event"] == "transaction" || line["event"] == "connection")
        .collect()
}

#[test]
fn requests_are_those_that_tshark_finds() {
    let lines = json(&[SECURED]);
    let requests = of(&lines, "transaction");
    let mut rows = 0;
    for line in BY_TSHARK.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| cells[at].parse::<u64>().expect(line);
        let status = if cells[2].is_empty() { number(3) } else { number(2) };
        let is_it = |request: &&&Value| {
            request["connection"] == number(1) + 1
                && request["status"] == status
                && request["last_packet"] == number(0)
                && request["complete"] == true
        };
        assert_eq!(requests.iter().filter(is_it).count(), 1, "{line}: {requests:#?}");
        rows += 1;
    }
    // tshark does not see the end of the answer that ends with its connection.
    assert_eq!((rows, requests.len()), (15, 16));
}

#[test]
fn handshakes_are_described() {
    let lines = json(&[SECURED]);
    let connections = of(&lines, "connection");
    let tls = |id: usize| {
        let found = connections
            .iter()
            .find(|line| line["id"] == id)
            .expect("a connection");
        found["tls"].clone()
    };
    assert_eq!(tls(1)["alpn"], "h2");
    assert_eq!(tls(1)["client"]["server_name"], "localhost");
    assert_eq!(tls(1)["server"]["version"], 0x0304);
    // RFC 8446 hides the protocol; a ServerHello does not have it.
    assert_eq!(tls(1)["server"]["alpn"], Value::Null);
    assert_eq!(tls(3)["server"]["cipher_suite"], 0xcca9);
    assert_eq!(tls(7)["resumption"], "psk");
    assert_eq!(tls(9)["resumption"], "ticket");
    assert_eq!(tls(11)["retried"], true);
    assert_eq!(tls(12)["decryption"], "unknown_suite");
    assert_eq!(tls(13)["server"], Value::Null);
    assert_eq!(
        tls(13)["alerts"],
        json!([{"sender": "server", "fatal": true, "description": 40}])
    );
    let summary = &of(&lines, "summary")[0]["tls"];
    assert_eq!(
        [
            &summary["connections"],
            &summary["tls13"],
            &summary["tls12"],
            &summary["decrypted"]
        ],
        [13, 7, 5, 11]
    );
    let kinds: Vec<&str> = of(&lines, "finding")
        .iter()
        .filter_map(|line| line["kind"].as_str())
        .collect();
    assert!(
        kinds.contains(&"hello_retry") && kinds.contains(&"tls_alert"),
        "{kinds:?}"
    );
    // The server's kernel refuses the client's close_notify: nobody lost anything.
    assert!(!kinds.contains(&"reset_destroyed_data"), "{kinds:?}");
}

#[test]
fn secrets_beside_the_capture_tell_the_same() {
    let folder = folder("tls-beside");
    let (capture, key_log) = apart();
    let (path, keys) = (folder.join("bare.pcapng"), folder.join("keys.log"));
    fs::write(&path, &capture).expect("a file");
    // The last line may lack its end.
    fs::write(&keys, key_log.strip_suffix(b"\n").unwrap_or(&key_log)).expect("a file");
    let within = json(&[SECURED]);
    let beside = json(&[show(&path), "--keys", show(&keys)]);
    assert_eq!(results(&within), results(&beside));
    // Pictures take a second look at the file, with the secrets.
    let plots = folder.join("plots");
    let output = weir(&[show(&path), "--keys", show(&keys), "--plot", show(&plots)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // What is saved from a capture with secrets keeps them.
    let saved = folder.join("saved.pcapng");
    let output = weir(&[SECURED, "--write", show(&saved)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(results(&within), results(&json(&[show(&saved)])));
}

#[test]
fn without_secrets_the_handshake_is_left() {
    let folder = folder("tls-bare");
    let (capture, key_log) = apart();
    let (path, keys) = (folder.join("bare.pcapng"), folder.join("keys.log"));
    fs::write(&path, &capture).expect("a file");
    let lines = json(&[show(&path)]);
    assert_eq!(of(&lines, "transaction").len(), 0);
    let tls = |lines: &[Value], id: u64| {
        let connections = of(lines, "connection");
        let found = connections
            .iter()
            .find(|line| line["id"] == id)
            .expect("a connection");
        found["tls"].clone()
    };
    assert_eq!(tls(&lines, 1)["decryption"], "not_tried");
    assert!(tls(&lines, 1)["handshake_ms"].as_f64().is_some_and(|ms| ms > 0.0));
    let said = weir(&[show(&path)]);
    assert!(
        text(&said.stdout).contains("13 connections with TLS not decrypted"),
        "{}",
        text(&said.stdout)
    );
    // The secrets of all connections but one.
    let all = String::from_utf8(key_log.clone()).expect("text");
    let missing = all
        .split_ascii_whitespace()
        .nth(1)
        .expect("the random value of a connection");
    let other: String = all
        .lines()
        .filter(|line| !line.contains(missing))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&keys, &other).expect("a file");
    let some = json(&[show(&path), "--keys", show(&keys)]);
    let of_some = of(&some, "transaction").len();
    assert!((1..16).contains(&of_some), "{of_some}");
    // Secrets that were damaged.
    let damaged: Vec<u8> =
        String::from_utf8(key_log)
            .expect("text")
            .lines()
            .fold(Vec::new(), |mut all, line| {
                let (start, secret) = line.rsplit_once(' ').unwrap_or((line, ""));
                let turned: String = secret.chars().rev().collect();
                all.extend_from_slice(format!("{start} {turned}\n").as_bytes());
                all
            });
    fs::write(&keys, damaged).expect("a file");
    let lines = json(&[show(&path), "--keys", show(&keys)]);
    assert_eq!(of(&lines, "transaction").len(), 0);
    assert_eq!(tls(&lines, 1)["decryption"], "stopped");
    let causes: Vec<&Value> = of(&lines, "finding")
        .iter()
        .map(|line| &line["cause"])
        .filter(|cause| !cause.is_null())
        .collect();
    assert!(
        causes.iter().all(|cause| **cause == "not_authentic") && !causes.is_empty(),
        "{causes:?}"
    );
}

#[test]
fn a_key_log_that_is_missing_is_named() {
    let output = weir(&[SECURED, "--keys", "/no/such/keys.log"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("/no/such/keys.log"),
        "{}",
        text(&output.stderr)
    );
}

/// Waits until a file is longer than `bytes`.
fn wait_for(path: &Path, bytes: u64) {
    for _ in 0..1_000_000 {
        if fs::metadata(path).is_ok_and(|meta| meta.len() > bytes) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{} never grew above {bytes} bytes", path.display());
}

#[test]
fn secrets_may_come_after_the_records() {
    let folder = folder("tls-late");
    let (capture, key_log) = apart();
    let (keys, saved) = (folder.join("keys.log"), folder.join("saved.pcapng"));
    fs::write(&keys, b"").expect("a file");
    // All packets but the last: the records of every connection wait.
    let last = blocks(&capture).last().map_or(0, |(_, block)| block.len());
    let (most, rest) = capture.split_at(capture.len() - last);
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args([
            "trace",
            "-",
            "--json",
            "--keys",
            show(&keys),
            "--write",
            show(&saved),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut pipe = child.stdin.take().expect("piped");
    pipe.write_all(most).expect("sent");
    wait_for(&saved, most.len() as u64 * 9 / 10);
    fs::write(&keys, &key_log).expect("a file");
    pipe.write_all(rest).expect("sent");
    drop(pipe);
    let output = child.wait_with_output().expect("its output");
    let lines = super::lines(&output);
    assert_eq!(of(&lines, "transaction").len(), 16);
    assert_eq!(of(&lines, "summary")[0]["tls"]["decrypted"], 11);
}

#[test]
fn any_packet_may_be_lost() {
    let folder = folder("tls-lost");
    let file = fs::read(SECURED).expect("the capture");
    let parts = blocks(&file);
    let packets: Vec<usize> = (0..parts.len())
        .filter(|at| parts[*at].0 == ENHANCED_PACKET)
        .collect();
    let path = folder.join("lost.pcapng");
    let mut worst = usize::MAX;
    // One after the other as in a capture that dropped them; in steps, because each is a run of the program.
    for lost in packets.iter().step_by(3) {
        let kept: Vec<u8> = parts
            .iter()
            .enumerate()
            .filter(|(at, _)| at != lost)
            .flat_map(|(_, (_, block))| block.iter().copied())
            .collect();
        fs::write(&path, kept).expect("a file");
        let lines = json(&[show(&path)]);
        let whole = of(&lines, "transaction")
            .iter()
            .filter(|request| request["complete"] == true)
            .count();
        // Other connections are not concerned; the largest one has four requests.
        assert!(whole >= 12, "without block {lost}: {whole}");
        worst = worst.min(whole);
    }
    assert!(worst < 16, "no lost packet mattered");
}
