//! UDP in a capture: DNS lookups, and datagrams that Weir does not read.

use super::{folder, json, of, show, text, weir};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A datagram over IPv4 from port to port, `ms` milliseconds into the capture.
pub(super) struct Sent<'a> {
    pub(super) ms: u32,
    pub(super) from: u16,
    pub(super) to: u16,
    pub(super) payload: &'a [u8],
}

/// A pcap file of raw IPv4 packets with these datagrams. Ports below 1024 are on 192.0.2.53, the others on 192.0.2.7.
pub(super) fn capture(path: &Path, datagrams: &[Sent<'_>]) -> PathBuf {
    let mut file = Vec::new();
    file.extend_from_slice(&0xa1b2_c3d4_u32.to_le_bytes());
    file.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0]);
    for sent in datagrams {
        let address = |port: u16| [192, 0, 2, if port < 1024 { 53 } else { 7 }];
        let udp = 8 + sent.payload.len() as u16;
        let mut packet = vec![0x45, 0];
        packet.extend_from_slice(&(20 + udp).to_be_bytes());
        packet.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0]);
        packet.extend_from_slice(&address(sent.from));
        packet.extend_from_slice(&address(sent.to));
        for word in [sent.from, sent.to, udp, 0] {
            packet.extend_from_slice(&word.to_be_bytes());
        }
        packet.extend_from_slice(sent.payload);
        let len = packet.len() as u32;
        for word in [1_700_000_000 + sent.ms / 1000, sent.ms % 1000 * 1000, len, len] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(&packet);
    }
    fs::write(path, file).expect("a file");
    path.to_owned()
}

/// A DNS message with one question about `www.example`.
fn message(id: u16, flags: u16, answers: u16, record: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [id, flags, 1, answers, 0, 0] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(b"\x03www\x07example\x00");
    for word in [record, 1] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// Lookups with a response, with none, with an error and with a query sent again; a response without a query, a message that is
/// none, and another protocol.
pub(super) fn lookups(name: &str) -> PathBuf {
    let (a, aaaa) = (message(1, 0x0100, 0, 1), message(2, 0x0100, 0, 28));
    let (found, missing) = (message(1, 0x8180, 2, 1), message(2, 0x8183, 0, 28));
    let https = message(3, 0x0100, 0, 65);
    let sent = |ms, from, to, payload| Sent {
        ms,
        from,
        to,
        payload,
    };
    capture(
        &folder(name).join("dns.pcap"),
        &[
            sent(0, 40_000, 53, &a),
            sent(1, 40_000, 53, &aaaa),
            sent(13, 53, 40_000, &found),
            sent(21, 53, 40_000, &missing),
            sent(100, 40_001, 53, &a),
            sent(1100, 40_001, 53, &a),
            sent(1112, 53, 40_001, &found),
            sent(1200, 40_002, 53, &https),
            sent(1201, 53, 40_003, &found),
            sent(1202, 40_003, 53, b"no message"),
            sent(1203, 40_004, 40_005, b"another protocol"),
        ],
    )
}

#[test]
fn lookups_are_paired_with_their_responses() {
    let path = lookups("lookups");
    let lines = json(&[show(&path)]);
    let found: Vec<Value> = of(&lines, "lookup")
        .iter()
        .map(|line| {
            json!([
                line["first_packet"],
                line["record"],
                line["wait_ms"],
                line["code"],
                line["answers"],
                line["transmissions"]
            ])
        })
        .collect();
    assert_eq!(
        found,
        [
            json!([1, 1, 13.0, 0, 2, 1]),
            json!([2, 28, 20.0, 3, 0, 1]),
            json!([5, 1, 1012.0, 0, 2, 2]),
            json!([8, 65, null, null, 0, 1]),
        ]
    );
    let summary = &of(&lines, "summary")[0];
    let dns = &summary["udp"]["dns"];
    for (name, count) in [
        ("questions", 4),
        ("answered", 3),
        ("unanswered", 1),
        ("nonexistent", 1),
        ("repeated", 1),
        ("unmatched_responses", 1),
        ("malformed", 1),
    ] {
        assert_eq!(dns[name], count, "{name}");
    }
    // A query that was sent again may have been answered twice: its time is no round trip.
    assert_eq!(dns["round_trip"]["count"], 2);
    assert_eq!(
        (&summary["frames"]["udp"], &summary["frames"]["other_ip"]),
        (&json!(11), &json!(0))
    );
    let carried: Vec<&Value> = of(&lines, "datagrams")
        .iter()
        .map(|line| &line["carried"])
        .collect();
    assert_eq!(carried.len(), 5);
    assert_eq!(carried.iter().filter(|carried| **carried == "other").count(), 1);
}

#[test]
fn the_report_counts_udp_by_protocol() {
    let path = lookups("lookups-report");
    let output = weir(&[show(&path)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    for line in [
        "0 TCP, 10 DNS, 1 other UDP\n",
        "UDP: 5 pairs of ends, 7 datagrams and 171 B from clients, 4 and 116 B from servers\n",
        "DNS: 4 lookups, 3 answered, 1 unanswered, 1 of names that do not exist, 1 queries sent again, \
         1 responses without a query, 1 messages not readable\n",
        "  round trips: 13.0 ms to 20.0 ms, mean 16.5 ms\n",
        "   1012 ms     2 192.0.2.53:53 2 records  A      www.example\n",
    ] {
        assert!(report.contains(line), "{line}\n{report}");
    }
    let filtered = weir(&[show(&path), "--port", "40002"]);
    let report = text(&filtered.stdout);
    assert!(
        report.contains("DNS: 1 lookup, 0 answered, 1 unanswered"),
        "{report}"
    );
    assert!(report.contains("10 excluded by the filter"), "{report}");
    let table = weir(&[show(&path), "--csv", "lookups"]);
    let rows = text(&table.stdout);
    assert_eq!(rows.lines().count(), 5);
    assert!(
        rows.contains("www.example,AAAA,1.000000,20.000000,3,0,0,1,2,4"),
        "{rows}"
    );
}

/// As many pairs of ends as connections are followed.
#[test]
fn beyond_the_limit_a_pair_of_ends_is_reported_early() {
    let path = lookups("lookups-limit");
    let lines = json(&[show(&path), "--connections-max", "2"]);
    let summary = &of(&lines, "summary")[0]["udp"];
    assert_eq!((&summary["flows"], &summary["evicted"]), (&json!(5), &json!(3)));
    let ends: Vec<&Value> = of(&lines, "datagrams").iter().map(|line| &line["end"]).collect();
    assert_eq!(ends.iter().filter(|end| **end == "evicted").count(), 3);
    assert_eq!(of(&lines, "lookup").len(), 4);
}
