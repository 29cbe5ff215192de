//! Each finding on a conversation that has it and on its nearest neighbor that has not; first of all
//! the two traces published by Heidemann (1997).

mod talk;

use core::time::Duration;
use talk::{GET, Outcome, Seg, Talk, reply};
use trace::{AckTimer, Kind, Side};

const MSS: usize = 1460;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Reads a published trace: `t_s,from,to,flags,seq_start,seq_end,len,ack,win,role`.
fn published(csv: &str) -> Talk {
    let mut talk = Talk::default();
    for line in csv
        .lines()
        .filter(|l| !l.starts_with('#') && !l.starts_with("t_s"))
    {
        let f: Vec<&str> = line.splitn(10, ',').collect();
        let number = |text: &str| text.parse::<u32>().ok();
        let at = (f[0].parse::<f64>().unwrap() * 1e6).round() as u64;
        let from_client = f[1] == "client";
        let own = usize::from(!from_client);
        let syn = f[3].contains('S');
        let seq = if syn {
            0
        } else {
            number(f[4]).unwrap_or(talk.next[own])
        };
        let payload = vec![b'.'; number(f[6]).unwrap() as usize];
        talk.next[own] = seq + payload.len() as u32 + u32::from(syn);
        let seg = Seg {
            from_client,
            flags: f[3],
            seq,
            ack: number(f[7]).unwrap_or(0),
            window: f[8].parse().unwrap(),
            payload: &payload,
            mss: (f[9] == "SYN mss 1460").then_some(1460),
            ..Seg::default()
        };
        talk.push(at, seg);
    }
    talk
}

#[test]
fn figure_2_shows_the_short_initial_segment_and_nothing_else() {
    let outcome = published(include_str!("../testdata/heidemann_fig2_trace.csv")).analyze();
    assert_eq!(outcome.titles(), ["short initial segment"]);
    let finding = &outcome.findings[0];
    assert_eq!(finding.packets, [5, 6, 7, 8]);
    assert_eq!(finding.sender, Side::Server);
    // Claim he-02: 185.7 ms between the second and the third data segment.
    assert_eq!(finding.cost, Duration::from_micros(185_736));
    match finding.kind {
        Kind::ShortInitialSegment { first_len, ack_delay } => {
            assert_eq!((first_len, ack_delay), (226, Duration::from_micros(184_290)));
        }
        ref other => panic!("{other:?}"),
    }
    let c = &outcome.connections[0];
    assert_eq!(
        (
            c.from_client.kinds.syn,
            c.from_server.kinds.data,
            c.from_client.kinds.ack
        ),
        (1, 4, 2)
    );
    assert_eq!(c.from_server.mss, None);
}

#[test]
fn figure_4_shows_the_odd_short_final_segment_and_nothing_else() {
    let outcome = published(include_str!("../testdata/heidemann_fig4_trace.csv")).analyze();
    assert_eq!(outcome.titles(), ["odd/short final segment"]);
    let finding = &outcome.findings[0];
    assert_eq!(finding.packets, [5, 7, 8]);
    // Claim he-03: the acknowledgment comes 167 ms after the odd segment, the final one 0.2 ms after it.
    assert_eq!(finding.cost, Duration::from_micros(189_479 - 22_103));
    match finding.kind {
        Kind::OddShortFinalSegment {
            odd_len,
            final_len,
            ack_delay,
        } => {
            assert_eq!((odd_len, final_len), (1176, 13));
            assert_eq!(ack_delay, Duration::from_micros(189_262 - 22_103));
        }
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn published_predicates_turn_false_when_one_condition_is_taken_away() {
    let fig2 = published(include_str!("../testdata/heidemann_fig2_trace.csv"));
    let fig4 = published(include_str!("../testdata/heidemann_fig4_trace.csv"));
    // The acknowledgment comes at once.
    let mut prompt = fig2.clone();
    for frame in &mut prompt.frames[6..] {
        frame.at_us -= 184_000;
    }
    assert!(
        prompt.analyze().titles().is_empty(),
        "{:?}",
        prompt.analyze().titles()
    );
    // The third segment does not follow at once: something else held it.
    let mut later = fig2.clone();
    for frame in &mut later.frames[7..] {
        frame.at_us += 20_000;
    }
    assert!(!later.analyze().titles().contains(&"short initial segment"));
    // Claim he-05: with TCP_NODELAY the last segment does not wait.
    let mut nodelay = fig4.clone();
    nodelay.frames[7].at_us = 22_200;
    nodelay.frames.sort_by_key(|f| f.at_us);
    assert!(nodelay.analyze().titles().is_empty());
    // The reply goes on after the short segment: it was not the final one.
    let mut longer = fig4;
    longer.next[1] = 10_785;
    longer.data(190_000, false, &[b'.'; 700]);
    assert!(!longer.analyze().titles().contains(&"odd/short final segment"));
}

/// A transfer of `flights` (in segments), each released by the acknowledgment of the one before.
fn flights(talk: &mut Talk, mut at: u64, rtt: u64, flights: &[usize]) -> u64 {
    let body = vec![b'.'; MSS];
    for segments in flights {
        for _ in 0..*segments {
            talk.data(at, false, &body);
        }
        at += rtt;
        let end = talk.next[1];
        for i in (0..*segments as u32).rev() {
            talk.ack(at, true, end - i * MSS as u32);
        }
    }
    at
}

#[test]
fn slow_start_restart() {
    let build = |again: &[usize], pause: u64| {
        let mut talk = Talk::default();
        talk.handshake(0, 100, 50_000).data(51_000, true, GET);
        let at = flights(&mut talk, 60_000, 50_000, &[2, 4, 8]);
        let at = at + pause;
        talk.data(at, true, GET);
        flights(&mut talk, at + 10, 50_000, again);
        talk.analyze()
    };
    let outcome = build(&[2, 4, 8, 1], 3_000_000);
    assert!(
        outcome.titles().contains(&"slow-start restart"),
        "{:?}",
        outcome.titles()
    );
    let finding = outcome
        .findings
        .iter()
        .find(|f| f.kind.title() == "slow-start restart")
        .unwrap();
    match finding.kind {
        Kind::SlowStartRestart {
            flight_before,
            flight_after,
            rounds,
            ..
        } => {
            assert_eq!((flight_before, flight_after, rounds), (8 * 1460, 2 * 1460, 3));
        }
        ref other => panic!("{other:?}"),
    }
    // The eighth segment leaves two round trips after the first.
    assert_eq!(finding.cost, ms(100));
    for (again, pause, why) in [
        (&[8, 8][..], 3_000_000, "the window was kept"),
        (&[2], 3_000_000, "the reply was short"),
        (&[2, 4, 8, 1], 10_000, "there was no pause"),
        (&[2, 2, 2, 2, 2], 3_000_000, "the window did not grow"),
    ] {
        assert!(
            !build(again, pause).titles().contains(&"slow-start restart"),
            "{why}"
        );
    }
}

#[test]
fn delayed_ack_floor_on_linux_and_bsd() {
    for (delay, timer) in [(40_000, AckTimer::Short), (200_000, AckTimer::Heartbeat)] {
        let mut talk = Talk::default();
        talk.handshake(0, 100, 100).data(300, true, GET);
        // An initial window of one segment: the second waits for the timer.
        talk.data(500, false, &[b'.'; MSS]);
        talk.ack_all(500 + delay, true);
        talk.data(600 + delay, false, &[b'.'; MSS])
            .data(610 + delay, false, &[b'.'; MSS]);
        let outcome = talk.analyze();
        assert_eq!(outcome.titles(), ["delayed acknowledgment"]);
        assert_eq!(outcome.findings[0].packets, [5, 6, 7]);
        match outcome.findings[0].kind {
            Kind::DelayedAck { timer: found, .. } => assert_eq!(found, timer),
            ref other => panic!("{other:?}"),
        }
    }
    // A long path delays every acknowledgment alike: that is no timer.
    let mut talk = Talk::default();
    talk.handshake(0, 100, 90_000).data(90_300, true, GET);
    flights(&mut talk, 90_400, 90_000, &[1, 2, 4]);
    assert!(talk.analyze().titles().is_empty());
}

#[test]
fn nagle_with_buffering() {
    let build = |hold: bool| {
        let mut talk = Talk::default();
        talk.handshake(0, 100, 100);
        // The request leaves in two pieces; the second waits for the acknowledgment of the first.
        talk.data(300, true, &GET[..20]);
        if hold {
            talk.ack_all(40_400, false).data(40_450, true, &GET[20..]);
        } else {
            talk.data(350, true, &GET[20..]);
        }
        talk.data(41_000, false, &reply(10));
        talk.analyze()
    };
    let outcome = build(true);
    assert_eq!(outcome.titles(), ["Nagle with application buffering"]);
    assert_eq!(outcome.findings[0].sender, Side::Client);
    assert_eq!(outcome.findings[0].cost, Duration::from_micros(40_150));
    match outcome.findings[0].kind {
        Kind::NagleBuffering { held_len, timer } => {
            assert_eq!(
                (held_len as usize, timer),
                (GET.len() - 20, Some(AckTimer::Short))
            );
        }
        ref other => panic!("{other:?}"),
    }
    assert_eq!(outcome.transactions.len(), 1);
    assert!(build(false).titles().is_empty());
}

#[test]
fn application_limited() {
    let build = |pause: u64| {
        let mut talk = Talk::default();
        talk.handshake(0, 100, 100).data(300, true, GET);
        talk.data(500, false, &reply(20_000)[..1000]).ack_all(600, true);
        talk.data(600 + pause, false, &[b'x'; 1000])
            .ack_all(700 + pause, true);
        talk.analyze()
    };
    let outcome = build(150_000);
    assert_eq!(outcome.titles(), ["application limited"]);
    assert_eq!(outcome.findings[0].packets, [5, 7]);
    // Without the way from the capture point to the sender.
    assert_eq!(outcome.findings[0].cost, Duration::from_micros(149_900));
    assert!(build(10_000).titles().is_empty());
}

#[test]
fn receiver_window_limited() {
    let build = |window: u16| {
        let mut talk = Talk::default();
        talk.handshake_with(0, 100, 20_000, window)
            .data(20_200, true, GET);
        for round in 0..6 {
            let at = 20_300 + round * 20_000;
            for _ in 0..4 {
                talk.data(at, false, &[b'.'; MSS]);
            }
            let ack = talk.next[1];
            let seq = talk.next[0];
            talk.push(
                at + 19_900,
                Seg {
                    seq,
                    ack,
                    window,
                    ..Seg::default()
                },
            );
        }
        talk.analyze()
    };
    let outcome = build(4 * 1460);
    assert_eq!(outcome.titles(), ["receiver-window limited"]);
    match outcome.findings[0].kind {
        Kind::ReceiverWindowLimited { waits, window_max } => assert_eq!((waits, window_max), (5, 16_384)),
        ref other => panic!("{other:?}"),
    }
    assert!(build(60_000).titles().is_empty());
}

#[test]
fn zero_window() {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 100).data(300, true, GET);
    talk.data(500, false, &[b'.'; MSS]).data(510, false, &[b'.'; MSS]);
    let (seq, ack) = (talk.next[0], talk.next[1]);
    let shut = Seg {
        seq,
        ack,
        window: 0,
        ..Seg::default()
    };
    talk.push(600, shut);
    // A Linux probe: no payload, one below the next byte.
    let probe = Seg {
        from_client: false,
        seq: ack - 1,
        ack: seq,
        ..Seg::default()
    };
    talk.push(200_600, probe).push(200_700, shut);
    talk.push(
        301_000,
        Seg {
            window: 16_384,
            ..shut
        },
    );
    talk.data(301_100, false, &[b'.'; MSS]).ack_all(301_200, true);
    let outcome = talk.analyze();
    let finding = outcome
        .findings
        .iter()
        .find(|f| f.kind.title() == "zero window")
        .unwrap();
    assert_eq!(
        (finding.cost, &finding.packets[..]),
        (Duration::from_micros(300_400), &[7, 10][..])
    );
    assert_eq!(finding.kind, Kind::ZeroWindow { probes: 1 });
    assert_eq!(outcome.connections[0].from_client.zero_windows, 2);
    // A window that is small, but open.
    let mut open = Talk::default();
    open.handshake(0, 100, 100).data(300, true, GET);
    open.data(500, false, &[b'.'; MSS]).data(510, false, &[b'.'; MSS]);
    open.push(600, Seg { window: 1, ..shut });
    open.push(
        301_000,
        Seg {
            window: 16_384,
            ..shut
        },
    );
    open.data(301_100, false, &[b'.'; MSS]).ack_all(301_200, true);
    assert!(!open.analyze().titles().contains(&"zero window"));
}

#[test]
fn retransmission_timeout_and_fast_retransmit_are_told_apart() {
    // Timeout: silence, then the first unacknowledged segment again.
    let mut talk = Talk::default();
    talk.handshake(0, 100, 20_000).data(20_200, true, GET);
    talk.data(20_300, false, &[b'.'; MSS])
        .data(20_310, false, &[b'.'; 700]);
    let lost = Seg {
        from_client: false,
        seq: 1,
        ack: talk.next[0],
        payload: &[b'.'; MSS],
        ..Seg::default()
    };
    talk.push(320_300, lost).ack_all(340_300, true);
    let outcome = talk.analyze();
    assert_eq!(outcome.titles(), ["retransmission timeout"]);
    assert_eq!(
        (outcome.findings[0].cost, &outcome.findings[0].packets[..]),
        (ms(300), &[5, 7][..])
    );
    assert_eq!(outcome.connections[0].from_server.retransmissions.timeout, 1);
    assert_eq!(outcome.connections[0].from_server.retransmissions.bytes, 1460);

    // Fast retransmit: three duplicates, no timer.
    let mut talk = Talk::default();
    talk.handshake(0, 100, 20_000).data(20_200, true, GET);
    for i in 0..5 {
        talk.data(20_300 + i, false, &[b'.'; MSS]);
    }
    for i in 0..4 {
        talk.ack(40_300 + i, true, 1);
    }
    let lost = Seg {
        from_client: false,
        seq: 1,
        ack: talk.next[0],
        payload: &[b'.'; MSS],
        ..Seg::default()
    };
    talk.push(40_400, lost).ack_all(60_400, true);
    let outcome = talk.analyze();
    assert!(outcome.titles().is_empty(), "{:?}", outcome.titles());
    let c = &outcome.connections[0];
    assert_eq!(c.from_server.retransmissions.fast, 1);
    assert_eq!(
        (c.from_client.duplicate_acks, c.from_client.triple_duplicate_acks),
        (4, 1)
    );
}

#[test]
fn a_spurious_timeout_is_known_by_its_echo() {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 20_000).data(20_200, true, GET);
    let first = Seg {
        from_client: false,
        seq: 1,
        ack: talk.next[0],
        payload: &[b'.'; MSS],
        stamps: Some((1000, 5)),
        ..Seg::default()
    };
    talk.push(20_300, first);
    talk.push(
        400_000,
        Seg {
            stamps: Some((1380, 5)),
            ..first
        },
    );
    let seq = talk.next[0];
    talk.push(
        400_100,
        Seg {
            seq,
            ack: 1461,
            stamps: Some((9, 1000)),
            ..Seg::default()
        },
    );
    let outcome = talk.analyze();
    assert_eq!(
        outcome.findings[0].kind,
        Kind::RetransmissionTimeout {
            transmissions: 2,
            spurious: true
        }
    );
}

/// Claim w3-07: naive full close with requests in flight.
fn close_with_requests_in_flight(half_close: bool) -> Outcome {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 100)
        .data(300, true, GET)
        .data(500, false, &reply(100));
    // The server closes after the first answer; two more requests are on their way.
    talk.segment(520, false, "FA", b"");
    talk.data(530, true, GET).data(540, true, GET);
    if half_close {
        talk.ack_all(600, false)
            .segment(700, true, "FA", b"")
            .ack_all(800, false);
    } else {
        let seq = talk.next[1];
        talk.push(
            600,
            Seg {
                from_client: false,
                flags: "R",
                seq,
                ..Seg::default()
            },
        );
    }
    talk.analyze()
}

#[test]
fn a_reset_that_destroyed_data() {
    let outcome = close_with_requests_in_flight(false);
    assert_eq!(outcome.titles(), ["reset destroyed data"]);
    match outcome.findings[0].kind {
        Kind::ResetDestroyedData {
            by,
            unread,
            requests,
            after_close,
            ..
        } => {
            assert_eq!(
                (by, unread, requests, after_close),
                (Side::Server, 2 * GET.len() as u64, 2, true)
            );
        }
        ref other => panic!("{other:?}"),
    }
    assert_eq!(outcome.findings[0].packets, [8, 9]);
    assert!(
        !close_with_requests_in_flight(true)
            .titles()
            .contains(&"reset destroyed data")
    );
    // A reset of a quiet connection destroys nothing.
    let mut talk = Talk::default();
    talk.handshake(0, 100, 100)
        .data(300, true, GET)
        .data(500, false, &reply(100))
        .ack_all(600, true);
    let seq = talk.next[0];
    talk.push(
        700,
        Seg {
            flags: "R",
            seq,
            ..Seg::default()
        },
    );
    assert!(talk.analyze().titles().is_empty());
}

#[test]
fn one_request_per_segment() {
    let build = |together: bool| {
        let mut talk = Talk::default();
        talk.handshake(0, 100, 100);
        if together {
            talk.data(300, true, &GET.repeat(10));
        } else {
            for i in 0..10 {
                talk.data(300 + i * 100, true, GET);
            }
        }
        talk.data(2000, false, &reply(10).repeat(10)).ack_all(2100, true);
        talk.analyze()
    };
    let outcome = build(false);
    assert_eq!(outcome.titles(), ["one request per segment"]);
    assert_eq!(
        outcome.findings[0].kind,
        Kind::OneRequestPerSegment {
            requests: 10,
            needless: 9
        }
    );
    assert_eq!(outcome.findings[0].cost, Duration::from_micros(900));
    assert_eq!(outcome.transactions.len(), 10);
    assert_eq!(outcome.transactions.iter().filter(|t| t.complete).count(), 10);
    assert_eq!(outcome.transactions[9].ahead, 9);
    assert!(build(true).titles().is_empty());
}

#[test]
fn handshake_retransmission() {
    let mut talk = Talk::default();
    let syn = Seg {
        flags: "S",
        seq: 0,
        mss: Some(1460),
        ..Seg::default()
    };
    talk.push(0, syn).push(1_000_000, syn);
    talk.push(
        1_000_100,
        Seg {
            flags: "SA",
            from_client: false,
            ..syn
        },
    );
    talk.ack_all(1_000_200, true);
    let outcome = talk.analyze();
    assert_eq!(outcome.titles(), ["handshake retransmission"]);
    assert_eq!(
        (outcome.findings[0].cost, &outcome.findings[0].packets[..]),
        (ms(1000), &[1, 2][..])
    );
    assert_eq!(
        outcome.connections[0].handshake,
        Some(Duration::from_micros(1_000_200))
    );
    // A slow answer is no second attempt.
    let mut slow = Talk::default();
    slow.handshake(0, 1_000_000, 100);
    assert!(slow.analyze().titles().is_empty());
}

#[test]
fn findings_are_the_same_wherever_the_capture_was_made() {
    // One restart, captured at the server and at the client, 25 ms away.
    for (to_server, to_client) in [(100, 50_000), (50_000, 100)] {
        let mut talk = Talk::default();
        talk.handshake(0, to_server, to_client);
        let at = to_server + to_client + 100;
        talk.data(at, true, GET);
        let mut now = at + to_server + 100;
        let transfer = |talk: &mut Talk, now: &mut u64, sizes: &[usize]| {
            for segments in sizes {
                for i in 0..*segments {
                    talk.data(*now + i as u64, false, &[b'.'; MSS]);
                    if to_client < 1000 {
                        talk.ack_all(*now + i as u64, true);
                    }
                }
                *now += 50_100;
                if to_client > 1000 {
                    talk.ack_all(*now - 100, true);
                }
            }
        };
        transfer(&mut talk, &mut now, &[2, 4, 8]);
        now += 5_000_000;
        talk.data(now, true, GET);
        now += to_server + 100;
        transfer(&mut talk, &mut now, &[2, 4, 8, 2]);
        let outcome = talk.analyze();
        let restart = outcome
            .findings
            .iter()
            .find(|f| f.kind.title() == "slow-start restart");
        assert!(
            restart.is_some(),
            "{to_server} {to_client}: {:?}",
            outcome.titles()
        );
        assert_eq!(outcome.connections[0].from_server.flight.max, 8 * 1460);
    }
}
