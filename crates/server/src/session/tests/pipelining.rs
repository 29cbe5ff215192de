//! Several requests at once: the same responses as one after another, in limited memory.

use super::rig::{End, Rig, answers, file};
use crate::limits::Limits;

#[test]
fn sixteen_at_once_are_one_output() {
    let mut rig = Rig::new();
    rig.send(b"GET /small.png HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.reconnect();
    rig.output_max = 0;
    rig.send("GET /small.png HTTP/1.1\r\nHost: a\r\n\r\n".repeat(16).as_bytes());
    let all = answers(&rig.out, |_| false);
    assert_eq!(all.len(), 16);
    assert!(all.iter().all(|a| a.body == file("/small.png")));
    assert_eq!(rig.output_max, rig.out.len(), "one write");
}

#[test]
fn answers_keep_their_order_whatever_they_are_made_of() {
    let paths = [
        "/digits.bin",
        "/big.png",
        "/nothing",
        "/text.txt",
        "/dir",
        "/page.png",
        "/empty.bin",
        "/",
    ];
    let mut input = String::new();
    for path in paths {
        input += &format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    }
    let mut first: Option<Vec<u8>> = None;
    for pieces in super::rig::cuts(input.as_bytes()) {
        let mut rig = Rig::new();
        pieces.iter().for_each(|piece| rig.send(piece));
        assert_eq!(first.get_or_insert_with(|| rig.out.clone()), &rig.out);
        let statuses: Vec<u16> = answers(&rig.out, |_| false).iter().map(|a| a.status).collect();
        assert_eq!(statuses, [200, 200, 404, 200, 301, 200, 200, 200]);
    }
}

#[test]
fn a_peer_that_does_not_read_costs_a_bounded_output() {
    let mut rig = Rig::new();
    rig.stalled = true;
    rig.send("GET /page.png HTTP/1.1\r\nHost: a\r\n\r\n".repeat(500).as_bytes());
    assert_eq!(rig.end, End::Blocked);
    rig.unstall();
    assert_eq!(answers(&rig.out, |_| false).len(), 500);
    assert!(
        rig.output_max <= Limits::OUTPUT_PER_TURN + 10_000,
        "{}",
        rig.output_max
    );
}

#[test]
fn the_depth_of_a_turn_is_bounded() {
    let mut rig = Rig::with(|c| c.max_pipeline = 4);
    rig.send(
        "GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n"
            .repeat(10)
            .as_bytes(),
    );
    let all = answers(&rig.out, |_| false);
    assert_eq!(all.len(), 10, "the rest follows in later turns");
    // The first one waited for its file, so it began its own turn: one and four.
    assert!(rig.output_max <= 5 * (rig.out.len() / 10));
}

#[test]
fn nothing_is_answered_behind_the_last_answer() {
    let input =
        "GET /digits.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for pieces in super::rig::cuts(input.as_bytes()) {
        let mut rig = Rig::new();
        pieces.iter().for_each(|piece| rig.send(piece));
        assert_eq!(answers(&rig.out, |_| false).len(), 1);
        // If the split is between the two, the second one meets a closed connection. Together they are unread input,
        // which must not be followed by a reset.
        let want = if pieces.len() == 1 {
            End::HalfClosed
        } else {
            rig.end
        };
        assert!(rig.end == want && rig.end != End::Open);
    }
}

#[test]
fn an_error_ends_the_pipeline_where_it_stands() {
    let mut rig = Rig::new();
    rig.send(
        b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    let statuses: Vec<u16> = answers(&rig.out, |_| false).iter().map(|a| a.status).collect();
    assert_eq!(statuses, [200, 400]);
    assert_eq!(rig.end, End::HalfClosed);
}
