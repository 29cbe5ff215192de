//! QUIC in a capture: handshakes without keys, packets, streams, losses and requests with them, against what independent ends say of
//! the same connections; and qlog.

use super::datagrams::{Sent, capture};
use super::tls::{ENHANCED_PACKET, blocks};
use super::{folder, json, of, show, text, weir};
use crate::drawn;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

macro_rules! data {
    ($name:literal) => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/crates/trace/testdata/quic/", $name)
    };
}

/// Six connections over loopback, most of them between two ends of aioquic.
pub(super) const PEERS: &str = data!("peers.pcapng");
/// One connection with losses, at the client and at the server.
const NEAR: &str = data!("near.pcapng");
const FAR: &str = data!("far.pcapng");
pub(super) const KEYS: &str = data!("keys.log");
/// Packets that the server of `far.pcapng` sent and declared lost.
const BY_AIOQUIC: &str = include_str!("../../crates/trace/testdata/quic/far.aioquic.tsv");
/// RFC 9001, appendix A.2.
const FIRST: &[u8] = include_bytes!("../../crates/trace/testdata/quic/rfc9001_a2.bin");

fn connection(lines: &[Value], id: u64) -> Value {
    let found = of(lines, "quic").into_iter().find(|line| line["id"] == id);
    found.unwrap_or_else(|| panic!("connection {id}")).clone()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

#[test]
fn the_first_packet_of_rfc_9001_opens_without_keys() {
    let path = folder("quic-first").join("first.pcap");
    let sent = [Sent {
        ms: 0,
        from: 50_000,
        to: 443,
        payload: FIRST,
    }];
    capture(&path, &sent);
    let lines = json(&[show(&path)]);
    let quic = connection(&lines, 1);
    assert_eq!(quic["version"], 1);
    assert_eq!(quic["original_id"], "8394c8f03e515708");
    assert_eq!(quic["client_hello"]["server_name"], "example.com");
    assert_eq!(quic["client_hello"]["alpn"], json!(["alpn"]));
    assert_eq!(quic["from_client"]["opened"], 1);
    // Damaged anywhere, it is counted and tells nothing.
    let mut damaged = FIRST.to_vec();
    damaged[600] ^= 1;
    let sent = [Sent {
        ms: 0,
        from: 50_000,
        to: 443,
        payload: &damaged,
    }];
    capture(&path, &sent);
    let quic = connection(&json(&[show(&path)]), 1);
    assert_eq!(quic["client_hello"], Value::Null);
    assert_eq!(quic["from_client"]["not_authentic"], 1);
}

#[test]
fn handshakes_are_described_without_keys() {
    let lines = json(&[PEERS]);
    let connections = of(&lines, "quic");
    assert_eq!(connections.len(), 6);
    for quic in &connections {
        assert_eq!(quic["client_hello"]["server_name"], "localhost", "{quic}");
        assert_eq!(quic["client_hello"]["alpn"], json!(["h3"]));
        assert_eq!(quic["server_hello"]["version"], 0x0304);
        assert_eq!(quic["decryption"], "not_tried");
        assert!(quic["handshake_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{quic}");
        assert_eq!(quic["streams"], json!([]));
        assert_eq!(quic["alpn"], Value::Null, "EncryptedExtensions are encrypted");
    }
    let v2 = 0x6b33_43cf_u32;
    assert_eq!(connection(&lines, 1)["retried"], true);
    assert_eq!(connection(&lines, 2)["version"], v2);
    assert_eq!(connection(&lines, 5)["supported_versions"], json!([1, v2]));
    assert_eq!(connection(&lines, 5)["version"], 1);
    assert_eq!(connection(&lines, 5)["offered_version"], 0x1a2a_3a4a);
    let summary = &of(&lines, "summary")[0];
    assert_eq!(summary["udp"]["quic_datagrams"], summary["frames"]["udp"]);
    let quic = &summary["quic"];
    assert_eq!((&quic["connections"], &quic["version2"]), (&json!(6), &json!(1)));
    let said = weir(&[PEERS]);
    assert!(
        text(&said.stdout).contains("6 connections with QUIC not decrypted"),
        "{}",
        text(&said.stdout)
    );
}

#[test]
fn losses_are_unknown_without_keys() {
    let of_far = |arguments: &[&str]| {
        let output = weir(arguments);
        let report = text(&output.stdout);
        let table = report
            .split("QUIC connections by")
            .nth(1)
            .expect("a table")
            .to_owned();
        // Datagrams and payloads are pairs; the losses follow.
        let row = table.lines().nth(2).expect("a row").to_owned();
        let columns: Vec<&str> = row.split_whitespace().collect();
        let pairs = columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.contains('/'));
        let (payload, _) = pairs.clone().nth(1).expect("payloads");
        columns[payload + 1].to_owned()
    };
    assert_eq!(of_far(&[FAR]), "-");
    assert!(
        of_far(&[FAR, "--keys", KEYS])
            .parse::<u64>()
            .is_ok_and(|lost| lost > 0)
    );
}

#[test]
fn requests_over_http_3_are_found_with_keys() {
    let lines = json(&[PEERS, "--keys", KEYS]);
    let mut requests: Vec<(u64, &str, u64, u64)> = of(&lines, "transaction")
        .iter()
        .map(|line| {
            assert_eq!(
                (&line["complete"], &line["method"]),
                (&json!(true), &json!("GET"))
            );
            (
                number(&line["connection"]),
                line["target"].as_str().expect("text"),
                number(&line["status"]),
                number(&line["response_body_bytes"]),
            )
        })
        .collect();
    requests.sort_unstable();
    assert_eq!(
        requests,
        [
            (1, "/300", 200, 300),
            (2, "/500", 200, 500),
            (2, "/500", 200, 500),
            (2, "/700", 200, 700),
            (3, "/9000", 200, 9000),
            (4, "/2000/pause", 200, 2000),
            (5, "/400", 200, 400),
            (6, "/s.bin", 200, 3000),
        ]
    );
    for quic in of(&lines, "quic") {
        assert_eq!(
            (&quic["decryption"], &quic["alpn"]),
            (&json!("done"), &json!("h3"))
        );
        for end in ["from_client", "from_server"] {
            let d = &quic[end];
            assert_eq!(d["not_authentic"], 0, "{quic}");
            let packets = ["initial", "zero_rtt", "handshake", "one_rtt"].map(|kind| number(&d[kind]));
            assert_eq!(number(&d["opened"]), packets.iter().sum::<u64>(), "{quic}");
        }
        assert_eq!(quic["end"], "closed");
    }
    assert_eq!(connection(&lines, 2)["key_updates"], 2);
}

#[test]
fn causes_are_named() {
    let lines = json(&[PEERS, "--keys", KEYS, "--delayed-ack", "5ms"]);
    let kinds = |id: u64| -> BTreeSet<String> {
        of(&lines, "finding")
            .iter()
            .filter(|line| line["connection"] == id)
            .map(|line| line["kind"].as_str().expect("text").to_owned())
            .collect()
    };
    let set = |kinds: &[&str]| {
        kinds
            .iter()
            .map(|kind| (*kind).to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(kinds(1), set(&["quic_retry"]));
    assert_eq!(kinds(3), set(&["quic_flow_control"]));
    assert_eq!(kinds(4), set(&["application_limited"]));
    assert_eq!(kinds(5), set(&["version_negotiation"]));
    assert_eq!(kinds(6), set(&[]));
    let pause = of(&lines, "finding")
        .into_iter()
        .find(|line| line["kind"] == "application_limited")
        .expect("the pause")["cost_ms"]
        .as_f64()
        .expect("a number");
    assert!(
        (100.0..160.0).contains(&pause),
        "the server slept 150 ms: {pause}"
    );
}

/// What the sender declared lost, its capture shows; the receiver's shows holes that were filled late.
#[test]
fn losses_are_those_that_the_sender_declared() {
    let declared = BY_AIOQUIC.lines().filter(|line| line.starts_with("lost")).count();
    let far = connection(&json(&[FAR, "--keys", KEYS]), 1);
    assert_eq!(number(&far["from_server"]["lost"]), declared as u64);
    assert_eq!(far["from_server"]["lost_before"], 0);
    assert_eq!(far["from_server"]["spurious"], 0);
    let lines = json(&[NEAR, "--keys", KEYS]);
    let near = connection(&lines, 1);
    assert_eq!(near["from_server"]["lost"], 0);
    let late = number(&near["from_server"]["lost_before"]);
    assert!((1..=declared as u64).contains(&late), "{late}");
    // Both saw the same bytes arrive, once each.
    for end in ["from_client", "from_server"] {
        assert_eq!(near[end]["stream_bytes"], far[end]["stream_bytes"]);
    }
    assert_eq!(near["from_server"]["stream_bytes_again"], 0);
    let losses: Vec<&Value> = of(&lines, "finding")
        .into_iter()
        .filter(|line| line["kind"] == "quic_loss_recovery")
        .collect();
    assert!(!losses.is_empty() && losses.iter().all(|line| line["upstream"] == true));
    // The link has a round trip of 40 ms.
    let least = far["from_server"]["rtt"]["min_ms"].as_f64().expect("a number");
    assert!((40.0..45.0).contains(&least), "{least}");
}

#[test]
fn qlog_has_the_packets_and_frames_that_the_sender_logged() {
    let path = folder("qlog").join("far.qlog");
    let output = weir(&[FAR, "--keys", KEYS, "--qlog", show(&path)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let written = fs::read_to_string(&path).expect("a file");
    assert!(
        written.starts_with("{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON\""),
        "viewers look here"
    );
    let log: Value = serde_json::from_str(&written).expect("JSON");
    let trace = &log["traces"][0];
    assert_eq!(trace["vantage_point"]["type"], "network");
    assert_eq!(trace["common_fields"]["time_format"], "relative");
    let events = trace["events"].as_array().expect("events");
    let times: Vec<f64> = events
        .iter()
        .map(|event| event["time"].as_f64().expect("a time"))
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    drawn::whole(events, 1);
    let ours: Vec<String> = events
        .iter()
        .filter(|event| event["name"] == "transport:packet_received")
        .filter(|event| event["data"]["header"]["packet_type"] == "1RTT")
        .map(|event| {
            let frames = event["data"]["frames"].as_array().expect("frames");
            let kinds: Vec<&str> = frames
                .iter()
                .map(|frame| frame["frame_type"].as_str().expect("a type"))
                .collect();
            let number = &event["data"]["header"]["packet_number"];
            format!("sent\t{number}\t{}", kinds.join(" "))
        })
        .collect();
    let theirs: Vec<&str> = BY_AIOQUIC
        .lines()
        .filter(|line| line.starts_with("sent"))
        .collect();
    assert_eq!(ours, theirs);
    let ranges = &events
        .iter()
        .find(|event| event["data"]["frames"][0]["frame_type"] == "ack")
        .expect("an acknowledgment")["data"]["frames"][0]["acked_ranges"];
    assert!(ranges[0][0].is_u64(), "{ranges}");
    let refused = weir(&[FAR, "--qlog", "/no/such/folder/a.qlog"]);
    assert_eq!(refused.status.code(), Some(2));
}

/// A log of the client of `near.pcapng`: its host sent and received what the capture has.
fn log_of_the_client(folder_name: &str) -> PathBuf {
    let path = folder(folder_name).join("client.qlog");
    let output = weir(&[NEAR, "--keys", KEYS, "--qlog", show(&path)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let written = fs::read_to_string(&path).expect("a file");
    assert!(written.contains(r#""type":"network""#));
    let written = written.replace(r#""type":"network""#, r#""type":"client""#);
    fs::write(&path, written).expect("a file");
    path
}

/// The capture at the server beside that log.
pub(super) fn compared(folder_name: &str) -> Vec<Value> {
    let log = log_of_the_client(folder_name);
    json(&[FAR, "--keys", KEYS, "--compare-qlog", show(&log)])
}

#[test]
fn a_log_of_the_client_beside_a_capture_at_the_server_has_losses_and_delays() {
    let lines = compared("compared");
    let found = of(&lines, "comparison");
    assert_eq!(found.len(), 1);
    let one = found[0];
    assert_eq!(
        (&one["connection"], &one["logged_by"]),
        (&json!(1), &json!("client"))
    );
    let far = connection(&lines, 1);
    let (sent, received) = (&one["sent"], &one["received"]);
    assert_eq!(sent["missing"], 0, "the link loses nothing of the client");
    let declared = BY_AIOQUIC.lines().filter(|line| line.starts_with("lost")).count();
    assert_eq!(number(&received["missing"]), declared as u64);
    let opened = |end: &str| number(&far[end]["opened"]);
    assert_eq!(number(&sent["matched"]), opened("from_client"));
    let rest = opened("from_server") - number(&received["matched"]) - declared as u64;
    assert!(rest <= 1, "{rest} packets at the end did not arrive");
    assert_eq!(one["unnumbered"], 0);
    // The link takes 20 ms each way, and both captures have the clock of one machine.
    let ms = |value: &Value| value.as_f64().expect("a number");
    for way in [sent, received] {
        assert!((20.0..25.0).contains(&ms(&way["delay_min_ms"])), "{one}");
        assert!(ms(&way["delay_min_ms"]) <= ms(&way["delay_median_ms"]), "{one}");
        assert!(ms(&way["delay_median_ms"]) <= ms(&way["delay_max_ms"]), "{one}");
    }
    let both = ms(&sent["delay_min_ms"]) + ms(&received["delay_min_ms"]);
    assert!((ms(&one["round_trip_ms"]) - both).abs() < 1e-6, "{one}");
}

#[test]
fn a_comparison_says_what_it_lacks() {
    let log = log_of_the_client("compared-lacks");
    let said = weir(&[FAR, "--compare-qlog", show(&log)]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let report = text(&said.stdout);
    for part in [
        "connection 1, logged by the client; round trip between the two points 4",
        "from the client to the capture: ",
        "from the capture to the client: ",
        "their numbers are encrypted; name the key log of an end with --keys",
    ] {
        assert!(report.contains(part), "{part}\n{report}");
    }
    let other = weir(&[PEERS, "--compare-qlog", show(&log)]);
    assert_eq!(other.status.code(), Some(0));
    assert!(
        text(&other.stderr).contains("no connection of the capture is in"),
        "{}",
        text(&other.stderr)
    );
    for (file, why) in [(KEYS, "not qlog 0.3"), ("/no/such/file", "name a readable file")] {
        let refused = weir(&[FAR, "--compare-qlog", file]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    }
}

#[test]
fn one_connection_is_reported_whole() {
    let output = weir(&[PEERS, "--keys", KEYS, "--connection", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    for part in [
        "QUIC 1 localhost h3, TLS_AES_256_GCM_SHA384",
        "connection IDs: first destination ",
        "HTTP/3: 1 requests, 1 answered, 0 unanswered",
        "held back by flow control",
        "GET /9000 (stream 0)",
    ] {
        assert!(report.contains(part), "{part}\n{report}");
    }
    assert!(!report.contains("/2000/pause"), "{report}");
}

/// In steps, because each is a run of the program.
#[test]
fn any_packet_may_be_lost() {
    let folder = folder("quic-lost");
    let file = fs::read(PEERS).expect("the capture");
    let parts = blocks(&file);
    let packets: Vec<usize> = (0..parts.len())
        .filter(|at| parts[*at].0 == ENHANCED_PACKET)
        .collect();
    let path = folder.join("lost.pcapng");
    let mut worst = usize::MAX;
    for lost in packets.iter().step_by(4) {
        let kept: Vec<u8> = parts
            .iter()
            .enumerate()
            .filter(|(at, _)| at != lost)
            .flat_map(|(_, (_, block))| block.iter().copied())
            .collect();
        fs::write(&path, kept).expect("a file");
        let lines = json(&[show(&path), "--keys", KEYS]);
        let whole = of(&lines, "transaction")
            .iter()
            .filter(|request| request["complete"] == true)
            .count();
        // Other connections are not concerned; the largest one has three requests.
        assert!(whole >= 5, "without block {lost}: {whole}");
        worst = worst.min(whole);
    }
    assert!(worst < 8, "no lost packet mattered");
}
