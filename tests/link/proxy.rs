//! `weir link --proxy`: works without namespaces, says what it is, delays and paces, refuses what it cannot do.

use crate::fixture::Refusing;
use crate::link::{echo, text, weir};
use serde_json::Value;
use std::io::Write;
use std::net::TcpListener;
use std::process::Output;
use std::time::{Duration, Instant};

/// A shell script in front of a proxy to this port; `$at` is where to connect.
fn proxied(link: &[&str], port: u16, script: &str) -> Output {
    let pair = format!("127.0.0.1:0=127.0.0.1:{port}");
    let script = format!("at=/dev/tcp/${{WEIR_LINK_PROXY%:*}}/${{WEIR_LINK_PROXY##*:}}; {script}");
    weir(&[&["link"], link, &["--proxy", &pair, "--", "bash", "-c", &script]].concat())
}

#[test]
fn it_delays_from_the_handshake_on_and_says_what_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log").display().to_string();
    let start = Instant::now();
    let script = "exec 3<>$at; echo over >&3; head -n 1 <&3; echo $WEIR_LINK";
    let output = proxied(&["rtt=100ms", "--log", &log], echo(), script);
    let took = start.elapsed();
    assert_eq!(
        text(&output.stdout),
        "over\nrtt=100ms (proxy)\n",
        "{}",
        text(&output.stderr)
    );
    // One round trip before the first byte, one for the words.
    assert!(took >= Duration::from_millis(200), "{took:?}");
    assert!(
        text(&output.stderr).contains("not at packet level"),
        "{}",
        text(&output.stderr)
    );
    let lines = std::fs::read_to_string(&log).expect("a log");
    let last: Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["packet_level"], false);
    // Open, five bytes, and perhaps the end, each with 40 bytes for the headers it has not.
    assert!(last["up"]["bytes_in"].as_u64() >= Some(85), "{last}");
}

#[test]
fn bytes_arrive_whole_and_no_faster_than_the_line() {
    let script = "exec 3<>$at; (head -c 100000 /dev/zero | tr '\\0' x >&3) & head -c 100000 <&3 | cksum";
    let plain = "head -c 100000 /dev/zero | tr '\\0' x | cksum";
    let wanted = std::process::Command::new("bash").args(["-c", plain]).output();
    for rate in ["1M", "none"] {
        let start = Instant::now();
        let output = proxied(&["rtt=10ms", "--rate", rate], echo(), script);
        let took = start.elapsed();
        assert_eq!(
            text(&output.stdout),
            text(&wanted.as_ref().expect("bash").stdout),
            "{rate}: {}",
            text(&output.stderr)
        );
        // 69 pieces of at most 1,500 bytes at 1 Mbit/s.
        assert!(rate == "none" || took >= Duration::from_millis(820), "{took:?}");
    }
}

#[test]
fn ends_and_refusals_travel() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"bye\n");
        }
    });
    let output = proxied(&["rtt=4ms"], port, "exec 3<>$at; timeout 60 cat <&3");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "bye\n");
    let unused = Refusing::new();
    let port = unused.address().port();
    let output = proxied(&["rtt=4ms"], port, "exec 3<>$at; timeout 60 cat <&3");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("reset"), "{}", text(&output.stderr));
    assert_eq!(proxied(&["lan"], port, "exit 7").status.code(), Some(7));
}

#[test]
fn what_needs_packets_is_refused_by_name() {
    for (link, part) in [
        (&["wan loss=1%"][..], "emulate loss:"),
        (
            &["wan", "--mss", "536", "--queue", "codel"],
            "emulate queue, mss:",
        ),
        (&["lan", "--pcap", "x"], "--pcap"),
        (&["lan", "--far", "true"], "--far"),
    ] {
        let output = proxied(link, 9, "true");
        assert_eq!(output.status.code(), Some(2), "{link:?}");
        assert!(
            text(&output.stderr).contains(part),
            "{link:?}: {}",
            text(&output.stderr)
        );
    }
    for pair in ["8080", "here=there", "127.0.0.1:0=127.0.0.1"] {
        let output = weir(&["link", "lan", "--proxy", pair, "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{pair}");
    }
}
