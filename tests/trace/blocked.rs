//! Streams that wait behind a lost segment, within TLS: a page over HTTP/2 with losses, captured at the client.

use super::tls::{ENHANCED_PACKET, SECRETS, blocks};
use super::{folder, json, of, show};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

const BLOCKED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/crates/trace/testdata/blocked.pcapng"
);
const BY_TSHARK: &str = include_str!("../../crates/trace/testdata/blocked.tshark.tsv");

/// The streams whose bytes were lost and those that waited, of each finding.
fn blocking(lines: &[Value]) -> Vec<(Value, Value)> {
    of(lines, "finding")
        .iter()
        .filter(|finding| finding["kind"] == "head_of_line_blocking")
        .map(|finding| (finding["lost"].clone(), finding["waiting"].clone()))
        .collect()
}

#[test]
fn answers_end_where_tshark_ends_them() {
    let mut wanted = BTreeMap::new();
    for line in BY_TSHARK.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        let [streams, ends] = [1, 3].map(|cell| cells[cell].split(',').collect::<Vec<_>>());
        if streams.len() != ends.len() {
            // The first request, in a packet with SETTINGS, which have no such flag.
            continue;
        }
        for (stream, _) in streams.iter().zip(ends).filter(|(_, end)| *end == "1") {
            // The request ends before its answer does.
            let stream: u64 = stream.parse().expect(line);
            wanted.insert(stream, cells[0].parse::<u64>().expect(line));
        }
    }
    let lines = json(&[BLOCKED]);
    let found: BTreeMap<u64, u64> = of(&lines, "transaction")
        .iter()
        .filter(|request| request["status"] == 200 && request["complete"] == true)
        .filter_map(|request| Some((request["stream"].as_u64()?, request["last_packet"].as_u64()?)))
        .collect();
    assert_eq!(found.len(), 7);
    assert_eq!(found, wanted);
}

/// The cause, switched off: with the segment that was sent again at the place of the lost one, nobody waits for it.
#[test]
fn streams_wait_for_a_lost_segment_and_not_without_the_loss() {
    let lines = json(&[BLOCKED]);
    let (first, second) = ((json!([3]), json!([5, 7])), (json!([11]), json!([13])));
    assert_eq!(blocking(&lines), [first, second.clone()]);

    let file = fs::read(BLOCKED).expect("the capture");
    let mut parts: Vec<(u32, Vec<u8>)> = blocks(&file)
        .into_iter()
        .map(|(kind, block)| (kind, block.to_vec()))
        .collect();
    let place = |number: usize| {
        let mut packets = (0..parts.len()).filter(|at| parts[*at].0 == ENHANCED_PACKET);
        packets.nth(number - 1).expect("a packet")
    };
    // By tshark, packets 40 to 73 came behind a hole that packet 74 fills.
    let (behind, again) = (place(40), place(74));
    let mut moved = parts.remove(again);
    moved.1[12..20].copy_from_slice(&parts[behind].1[12..20]);
    parts.insert(behind, moved);
    let path = folder("blocked").join("in-order.pcapng");
    let write = |parts: &[(u32, Vec<u8>)]| {
        let bytes: Vec<u8> = parts.iter().flat_map(|(_, block)| block.clone()).collect();
        fs::write(&path, bytes).expect("a file");
    };
    write(&parts);
    assert_eq!(blocking(&json(&[show(&path)])), [second]);

    // What is in the records is not known without their secrets.
    parts.retain(|(kind, _)| *kind != SECRETS);
    write(&parts);
    assert_eq!(blocking(&json(&[show(&path)])), []);
}
