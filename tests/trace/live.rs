//! Captures of loopback: what goes over it while the binary listens must be in its report. Where packet sockets
//! are refused the tests say so and what is wrong, and pass.

use super::{folder, json, lines, of, show, text};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

/// A request and its answer over one connection; returns the server's port.
fn talk(listener: &TcpListener, answer: usize) {
    let address = listener.local_addr().expect("an address");
    let mut client = TcpStream::connect(address).expect("loopback is up");
    let (mut server, _) = listener.accept().expect("a connection");
    client
        .write_all(b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("sent");
    let mut request = [0; 31];
    server.read_exact(&mut request).expect("the request");
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {answer}\r\n\r\n");
    let whole = [head.as_bytes(), &vec![b'x'; answer]].concat();
    server.write_all(&whole).expect("sent");
    drop(server);
    let mut received = Vec::new();
    client.read_to_end(&mut received).expect("the answer");
    assert_eq!(received.len(), whole.len());
}

/// Starts the capture and waits until it listens; none if the system refuses, with its reason printed.
fn start(arguments: &[&str]) -> Option<Child> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", "--live"])
        .args(arguments)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    if line.contains("capturing on") {
        child.stderr = Some(said.into_inner());
        return Some(child);
    }
    println!("skipped: {line}");
    assert!(line.contains("CAP_NET_RAW"), "{line}");
    assert_eq!(child.wait().expect("its end").code(), Some(4));
    None
}

fn end(child: Child) -> Output {
    let output = child.wait_with_output().expect("its output");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    output
}

fn the_exchange(lines: &[Value], answer: usize) {
    let connections = of(lines, "connection");
    assert_eq!(connections.len(), 1, "{lines:?}");
    let request = of(lines, "transaction")[0];
    assert_eq!(request["target"], "/live");
    assert_eq!(request["response_body_bytes"], answer);
    assert_eq!(request["complete"], true);
    assert_eq!(of(lines, "summary")[0]["packets_dropped"], 0);
}

#[test]
fn a_signal_ends_the_capture_and_it_reports() {
    for interface in ["lo", "any"] {
        let folder = folder(&format!("live-{interface}"));
        let saved = folder.join("live.pcapng");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let port = listener.local_addr().expect("an address").port().to_string();
        let arguments = [
            interface,
            "--port",
            &port,
            "--write",
            show(&saved),
            "--json",
            "--duration",
            "60s",
        ];
        let Some(child) = start(&arguments) else { return };
        talk(&listener, 5000);
        // What was sent before the signal is in the socket's queue already, but the kernel hands it over in
        // its own time: the file says when it has come.
        wait_for(&saved, 5000);
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .expect("kill")
                .success(),
            "our own child"
        );
        let output = end(child);
        let lines = lines(&output);
        the_exchange(&lines, 5000);
        assert_eq!(of(&lines, "summary")[0]["stopped_by"], "signal");
        let again = json(&[show(&saved)]);
        the_exchange_of_a_file(&again, &lines);
    }
}

/// Waits until the file has grown beyond so many bytes and the last packet of the exchange is in it.
fn wait_for(path: &std::path::Path, bytes: u64) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let fins = || {
        let output = super::weir(&[show(path), "--json"]);
        let lines = lines(&output);
        let found = of(&lines, "summary")
            .first()
            .map(|summary| summary["kinds"]["fin"].clone());
        found == Some(2.into())
    };
    while std::fs::metadata(path).map_or(0, |meta| meta.len()) < bytes || !fins() {
        assert!(std::time::Instant::now() < deadline, "the packets came");
        std::thread::yield_now();
    }
}

/// The saved packets say what the live capture said; only times of day and names differ.
fn the_exchange_of_a_file(file: &[Value], live: &[Value]) {
    for event in ["connection", "transaction"] {
        let (mut file, mut live) = (of(file, event)[0].clone(), of(live, event)[0].clone());
        // Frames are numbered among all, and those of others on the interface were not saved; time counts from the first.
        for lines in [&mut file, &mut live] {
            for field in ["packets", "first_packet", "last_packet", "start_s"] {
                lines[field] = Value::Null;
            }
        }
        assert_eq!(file, live);
    }
}

#[test]
fn a_capture_ends_after_so_many_packets_or_so_long() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let port = listener.local_addr().expect("an address").port().to_string();
    let Some(child) = start(&[
        "lo",
        "--port",
        &port,
        "--packets",
        "5",
        "--duration",
        "60s",
        "--json",
    ]) else {
        return;
    };
    talk(&listener, 20_000);
    let output = end(child);
    let lines = lines(&output);
    let summary = of(&lines, "summary")[0];
    assert_eq!(summary["volume"]["packets"], 5);
    assert_eq!(summary["stopped_by"], "packets");
    let Some(child) = start(&["lo", "--port", "9", "--duration", "50ms"]) else {
        return;
    };
    assert!(text(&end(child).stdout).contains("lo: "));
}

#[test]
fn an_interface_that_is_not_there_is_a_mistake_of_the_user() {
    let output = super::weir(&["--live", "no-such-if"]);
    match output.status.code() {
        Some(4) => println!("skipped: {}", text(&output.stderr)),
        code => {
            assert_eq!(code, Some(2));
            assert!(
                text(&output.stderr).contains("choose one of: any, "),
                "{}",
                text(&output.stderr)
            );
        }
    }
}
