//! Whole connections: how they begin and end, counters, requests matched to responses.

mod talk;

use core::time::Duration;
use talk::{GET, Seg, Talk, reply};
use trace::{End, Options, Side, Vantage};

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Handshake, one request, a response of 4,000 bytes, orderly close by the client.
fn whole() -> Talk {
    let mut talk = Talk::default();
    talk.handshake(0, 20_000, 100).data(20_500, true, GET);
    for (i, part) in reply(4000).chunks(1460).enumerate() {
        talk.data(41_000 + i as u64 * 100, false, part);
    }
    talk.ack_all(41_500, true);
    talk.segment(50_000, true, "FA", b"")
        .segment(70_000, false, "FA", b"")
        .ack_all(70_100, true);
    talk
}

#[test]
fn an_orderly_connection() {
    let outcome = whole().analyze();
    assert!(outcome.findings.is_empty(), "{:?}", outcome.titles());
    let c = &outcome.connections[0];
    assert_eq!(
        (c.end, c.vantage, c.packets),
        (End::Closed, Vantage::Client, (1, 11))
    );
    assert_eq!(c.handshake, Some(us(20_100)));
    assert_eq!(c.established, Some(us(50_000)));
    assert_eq!(c.duration, us(70_100));
    assert_eq!(
        (
            c.from_client.kinds.syn,
            c.from_client.kinds.fin,
            c.from_client.kinds.ack
        ),
        (1, 1, 3)
    );
    let d = &c.from_server;
    assert_eq!(
        (d.kinds.data, d.unique_bytes, d.segment_max, d.initial_packets),
        (3, 4041, 1460, 3)
    );
    assert_eq!(d.volume.overhead_40(), 100.0 * 200.0 / 4241.0);
    assert_eq!(c.packets_per_request, Some(11.0));
    let t = &outcome.transactions[0];
    assert_eq!(
        (t.method.as_str(), t.target.as_str(), t.status),
        ("GET", "/index.html", Some(200))
    );
    assert_eq!(
        (
            t.request_header_bytes,
            t.response_header_bytes,
            t.response_body_bytes
        ),
        (47, 41, 4000)
    );
    assert_eq!((t.wait, t.receive), (Some(us(20_500)), Some(us(200))));
    assert_eq!((t.packets, t.first_packet, t.last_packet), (4, 4, 7));
    let s = &outcome.summary.connections;
    assert_eq!((s.seen, s.established, s.closed, s.established_max), (1, 1, 1, 1));
    assert_eq!((s.mean_duration, s.connect_time), (us(50_000), us(50_000)));
    assert!((s.established_mean - 50_000.0 / 70_100.0).abs() < 1e-9);
}

#[test]
fn segments_out_of_order_still_make_an_answer() {
    let calm = whole();
    let mut shuffled = calm.clone();
    let times: Vec<u64> = calm.frames.iter().map(|f| f.at_us).collect();
    shuffled.frames.swap(4, 6);
    for (frame, at_us) in shuffled.frames.iter_mut().zip(times) {
        frame.at_us = at_us;
    }
    let outcome = shuffled.analyze();
    assert!(outcome.transactions[0].complete);
    assert_eq!(outcome.transactions[0].response_body_bytes, 4000);
    let d = &outcome.connections[0].from_server;
    assert_eq!(
        (d.out_of_order, d.retransmissions.packets, d.unique_bytes),
        (2, 0, 4041)
    );
}

#[test]
fn bytes_the_capture_missed_are_a_gap_in_the_body() {
    let mut holed = whole();
    holed.frames.remove(5);
    let outcome = holed.analyze();
    let c = &outcome.connections[0];
    assert_eq!(c.from_server.unique_bytes, 4041 - 1460);
    assert_eq!(c.from_server.stream_bytes, 4041);
    assert_eq!(outcome.transactions[0].response_body_bytes, 4000);
    assert!(outcome.transactions[0].complete);
}

#[test]
fn a_capture_that_starts_in_the_middle() {
    let mut late = whole();
    late.frames.drain(..3);
    let outcome = late.analyze();
    let c = &outcome.connections[0];
    assert_eq!(
        (c.client.port, c.vantage, c.handshake),
        (3199, Vantage::Unknown, None)
    );
    assert!(outcome.transactions[0].complete);
    // Even when the first packet seen is the server's.
    let mut later = whole();
    later.frames.drain(..4);
    let outcome = later.analyze();
    assert_eq!(outcome.connections[0].client.port, 3199);
    assert_eq!(outcome.connections[0].http.unwrap().unmatched_responses, 1);
}

/// Ten pipelined requests, answered 20 ms later in order with bodies of 100, 101 … bytes. With `serial`, each request
/// waits for the previous response.
fn ten(serial: bool) -> Talk {
    let mut talk = Talk::default();
    talk.handshake(0, 20_000, 100);
    let mut at = 30_000;
    if !serial {
        for _ in 0..10 {
            talk.data(at, true, GET);
            at += 100;
        }
        at += 20_000;
    }
    for i in 0..10 {
        if serial {
            talk.data(at, true, GET);
            at += 20_000;
        }
        talk.data(at, false, &reply(100 + i)).ack_all(at + 10, true);
        at += 1000;
    }
    talk
}

/// Requests with the sizes of their responses if the capture begins `missed` frames late.
fn pairs(mut talk: Talk, missed: usize) -> (Vec<(usize, u64)>, trace::HttpCounts) {
    talk.frames.drain(..missed);
    let outcome = talk.analyze();
    for t in &outcome.transactions {
        let longest = outcome.summary.duration;
        assert!(
            t.request <= longest && t.wait.unwrap_or_default() <= longest && t.first_packet > 0,
            "{t:?}"
        );
        assert!(t.receive.unwrap_or_default() <= longest, "{t:?}");
    }
    assert!(outcome.summary.http_total.max <= outcome.summary.duration);
    let answered = outcome.transactions.iter().filter(|t| t.complete);
    (
        answered
            .map(|t| (t.first_packet as usize + missed, t.response_body_bytes))
            .collect(),
        outcome.connections[0].http.unwrap(),
    )
}

/// A request gets a response only if it must be its own. Frames 4 to 13 are the pipelined requests; in the serial case,
/// request n is frame 4 + 3 n.
#[test]
fn requests_under_way_before_the_capture_take_no_later_ones_answer() {
    for missed in 2..4 {
        let (pairs, http) = pairs(ten(false), missed);
        // All requests are captured, but without the handshake earlier ones cannot be ruled out.
        assert!(pairs.is_empty(), "{missed}: {pairs:?}");
        assert_eq!(http.unmatched_responses, 10, "{missed}");
        assert_eq!((http.unmatched_requests, http.unanswered), (10, 0), "{missed}");
    }
    for missed in 4..14 {
        let (pairs, http) = pairs(ten(false), missed);
        assert!(pairs.is_empty(), "{missed}: {pairs:?}");
        assert_eq!(http.unmatched_responses, 10, "{missed}");
    }
    for missed in 3..20 {
        let (pairs, http) = pairs(ten(true), missed);
        let whole = (0..10usize).map(|n| (4 + 3 * n, 100 + n as u64));
        let expected: Vec<_> = whole.filter(|(frame, _)| *frame > missed).collect();
        assert_eq!(pairs, expected, "{missed}");
        assert_eq!(http.responses as usize, expected.len(), "{missed}");
    }
}

/// After bytes are lost in the middle, in either direction, no request gets another's response.
#[test]
fn after_a_gap_no_request_gets_anothers_answer() {
    for serial in [false, true] {
        for lost in 3..23 {
            let mut talk = ten(serial);
            if lost + 1 >= talk.frames.len() {
                continue;
            }
            let sizes: Vec<(usize, u64)> = {
                let whole = ten(serial).analyze();
                let of = |t: &trace::Transaction| (t.first_packet as usize, t.response_body_bytes);
                whole.transactions.iter().map(of).collect()
            };
            talk.frames.remove(lost);
            for t in talk.analyze().transactions.iter().filter(|t| t.complete) {
                let frame = t.first_packet as usize + usize::from(t.first_packet as usize > lost);
                assert!(
                    sizes.contains(&(frame, t.response_body_bytes)),
                    "{serial} {lost} {t:?}"
                );
            }
        }
    }
}

#[test]
fn the_same_endpoints_may_connect_again() {
    let mut talk = whole();
    let mut again = whole();
    again.client_isn += 1_000_000;
    let mut second = Talk {
        client_isn: talk.client_isn.wrapping_add(90_000),
        ..Talk::default()
    };
    second
        .handshake(200_000, 100, 100)
        .data(200_300, true, GET)
        .data(200_400, false, &reply(10));
    talk.frames.extend(second.frames);
    let outcome = talk.analyze();
    assert_eq!(outcome.connections.len(), 2);
    assert_eq!(outcome.transactions.iter().filter(|t| t.complete).count(), 2);
    // A late retransmission of the SYN is no new connection.
    let mut repeated = Talk::default();
    let syn = Seg {
        flags: "S",
        seq: 0,
        mss: Some(1460),
        ..Seg::default()
    };
    repeated
        .handshake(0, 100, 100)
        .push(1000, syn)
        .data(2000, true, GET);
    assert_eq!(repeated.analyze().connections.len(), 1);
}

#[test]
fn silent_connections_are_let_go() {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 100);
    let mut other = Talk {
        client_port: 4000,
        ..Talk::default()
    };
    other.handshake(10_000_000, 100, 100);
    talk.frames.extend(other.frames);
    let mut options = Options::default();
    options.limits.idle = Duration::from_secs(5);
    let outcome = talk::analyze(&talk.pcapng(), options);
    assert_eq!(outcome.connections[0].end, End::Idle);
    assert_eq!(outcome.connections[1].end, End::CaptureEnded);
    assert_eq!(
        (outcome.summary.connections.idle, outcome.summary.connections.open),
        (1, 1)
    );
}

/// A damaged time in one record is not years of silence, which would end every connection and begin it anew.
#[test]
fn one_wrong_time_changes_nothing_but_the_note() {
    let calm = whole();
    let (expected, last) = (calm.analyze(), calm.frames.len() - 1);
    for (place, offset) in [(5, 352_183_739), (6, 3 * 3600), (last, 352_183_739)] {
        let mut wrong = calm.clone();
        wrong.frames[place].at_us += offset * 1_000_000;
        let outcome = wrong.analyze();
        assert_eq!(outcome.connections.len(), 1, "frame {place}");
        assert_eq!(outcome.connections[0].end, End::Closed, "frame {place}");
        assert_eq!(outcome.summary.frames.time_wrong, 1, "frame {place}");
        assert_eq!(outcome.summary.frames.time_backwards, 0, "frame {place}");
        assert!(outcome.summary.duration <= expected.summary.duration);
        assert_eq!(outcome.summary.volume, expected.summary.volume);
    }
    // A single older frame counts once; frames after the newer one do not.
    let mut swapped = calm;
    swapped.frames[5].at_us += 3_000_000;
    assert_eq!(swapped.analyze().summary.frames.time_backwards, 1);
}

#[test]
fn a_reset_ends_a_connection() {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 100)
        .data(300, true, GET)
        .data(400, false, &reply(10))
        .ack_all(500, true);
    let seq = talk.next[0];
    talk.push(
        600,
        Seg {
            flags: "R",
            seq,
            ..Seg::default()
        },
    );
    let outcome = talk.analyze();
    assert_eq!(outcome.connections[0].end, End::Reset(Side::Client));
    assert_eq!(outcome.summary.connections.reset, 1);
    // A refused connection: never established.
    let mut refused = Talk::default();
    let syn = Seg {
        flags: "S",
        seq: 0,
        mss: Some(1460),
        ..Seg::default()
    };
    refused.push(0, syn).push(
        100,
        Seg {
            flags: "RA",
            from_client: false,
            seq: 0,
            ..Seg::default()
        },
    );
    let outcome = refused.analyze();
    assert_eq!(outcome.connections[0].end, End::Reset(Side::Server));
    assert_eq!(
        (outcome.summary.connections.established, outcome.findings.len()),
        (0, 0)
    );
}

#[test]
fn ten_thousand_short_connections_need_no_more_memory_than_those_that_linger() {
    let mut analyzer = trace::Analyzer::new(Options::default());
    let mut number = 0;
    let mut most = 0;
    for round in 0..10_000u64 {
        let mut talk = Talk {
            client_port: 1024 + (round % 60_000) as u16,
            ..Talk::default()
        };
        let at = round * 50_000;
        talk.handshake(at, 100, 100).segment(at + 300, true, "FA", b"");
        talk.segment(at + 400, false, "FA", b"").ack_all(at + 500, true);
        for sent in &talk.frames {
            number += 1;
            analyzer.frame(&sent.frame(number));
        }
        most = most.max(analyzer.connections());
        while analyzer.next_event().is_some() {}
    }
    // One begins every 50 ms and is kept for 10 s.
    assert!((195..=205).contains(&most), "{most}");
}

/// Bytes of a body that the capture lacks are counted once, so the next response is found.
#[test]
fn bytes_missing_in_a_body_are_counted_once() {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 10_000).data(11_000, true, GET);
    let whole = talk::reply(3_000);
    let head = whole.len() - 3_000;
    talk.data(20_000, false, &whole[..head + 500]);
    // The receiver acknowledges 1000 bytes that were not captured.
    talk.next[1] += 1_000;
    talk.data(21_000, false, &whole[head + 1_500..]);
    talk.ack_all(22_000, true);
    talk.data(30_000, true, GET);
    talk.data(40_000, false, &talk::reply(10));
    talk.ack_all(41_000, true);
    let outcome = talk.analyze();
    let bodies: Vec<u64> = outcome
        .transactions
        .iter()
        .map(|t| t.response_body_bytes)
        .collect();
    assert_eq!(bodies, [3_000, 10]);
    assert!(outcome.transactions.iter().all(|t| t.complete));
}
