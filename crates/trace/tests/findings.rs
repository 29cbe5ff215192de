//! Each finding on a conversation that has it and on the nearest one that has not; first of all the two traces
//! published by Heidemann (1997).

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
    // With a prompt acknowledgment.
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
    // The response continues after the short segment, so it was not the final one.
    let mut longer = fig4;
    longer.next[1] = 10_785;
    longer.data(190_000, false, &[b'.'; 700]);
    assert!(!longer.analyze().titles().contains(&"odd/short final segment"));
}

/// A path of 150 ms delays every acknowledgment by more than G without a timer.
#[test]
fn a_long_path_is_no_short_initial_segment() {
    for (held, expected) in [(0, &[][..]), (180_000, &["short initial segment"])] {
        let mut talk = Talk::default();
        talk.handshake(0, 100, 150_000).data(151_000, true, GET);
        talk.data(152_000, false, &[b'.'; 226])
            .data(152_100, false, &[b'.'; MSS]);
        let at = 302_200 + held;
        talk.ack_all(at, true).data(at + 100, false, &[b'.'; MSS]);
        talk.data(at + 200, false, &[b'.'; MSS]);
        assert_eq!(talk.analyze().titles(), expected, "{held}");
    }
}

/// A transfer in `flights` (in segments), each released by the acknowledgment of the previous one.
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
    // A long path delays all acknowledgments alike, without a timer.
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
    // Without the time from the capture point to the sender.
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
    // Timeout: silence, then the first unacknowledged segment is retransmitted.
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
    assert_eq!(outcome.titles(), ["fast recovery"]);
    // From the first duplicate to the acknowledgment that ended it.
    assert_eq!(
        (outcome.findings[0].cost, &outcome.findings[0].packets[..]),
        (Duration::from_micros(20_100), &[10, 14, 15][..])
    );
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

/// Five segments, of which the first arrives after three others. The receiver's duplicate acknowledgments cause a
/// retransmission, and both copies arrive. `told`: the receiver reports the duplicate (RFC 2883).
fn overtaken(told: bool) -> Talk {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 20_000).data(20_200, true, GET);
    for i in 0..5 {
        talk.data(20_300 + i, false, &[b'.'; MSS]);
    }
    let (own, end) = (talk.next[0], 1 + 5 * 1460);
    for i in 2..5 {
        talk.push(
            40_300 + i,
            Seg {
                seq: own,
                sack: [Some((1461, 1 + (i as u32) * 1460)), None],
                ..Seg::default()
            },
        );
    }
    let again = Seg {
        from_client: false,
        seq: 1,
        ack: own,
        payload: &[b'.'; MSS],
        ..Seg::default()
    };
    // The original arrives just after its retransmission left, and the retransmission a round trip later.
    talk.push(40_400, again).ack(40_900, true, end);
    let duplicate = Seg {
        seq: own,
        ack: end,
        sack: [told.then_some((1, 1461)), None],
        ..Seg::default()
    };
    talk.push(60_400, duplicate);
    talk
}

#[test]
fn reordering_is_no_loss_once_the_receiver_has_said_so() {
    for (told, title, fast, needless) in [
        (true, "reordering taken for loss", 0, 1),
        (false, "fast recovery", 1, 0),
    ] {
        let outcome = overtaken(told).analyze();
        assert_eq!(outcome.titles(), [title]);
        let finding = &outcome.findings[0];
        assert_eq!(
            (finding.cost, &finding.packets[..]),
            (Duration::from_micros(598), &[10, 13, 14][..])
        );
        let again = outcome.connections[0].from_server.retransmissions;
        assert_eq!(
            (again.packets, again.fast, again.needless),
            (1, fast, needless),
            "{told}"
        );
    }
}

/// Captured at the receiver, 40 ms from the sender: a full window becomes a closed one, several times.
#[test]
fn a_closed_window_is_not_counted_as_a_full_one_too() {
    let mut talk = Talk::default();
    talk.handshake_with(0, 40_000, 100, 4 * 1460)
        .data(40_300, true, GET);
    let mut at = 80_400;
    for _ in 0..4 {
        for _ in 0..4 {
            talk.data(at, false, &[b'.'; MSS]);
        }
        let closed = Seg {
            seq: talk.next[0],
            ack: talk.next[1],
            window: 0,
            ..Seg::default()
        };
        talk.push(at + 100, closed);
        let open = Seg {
            window: 4 * 1460,
            ..closed
        };
        talk.push(at + 1_000_100, open);
        at += 1_040_200;
    }
    let outcome = talk.analyze();
    let cost = |title: &str| -> Duration {
        let of = outcome.findings.iter().filter(|one| one.kind.title() == title);
        of.map(|one| one.cost).sum()
    };
    assert_eq!(cost("zero window"), Duration::from_secs(4));
    let limited = outcome.connections[0].from_server.window_limited;
    assert!(limited <= Duration::from_millis(4 * 41), "{limited:?}");
    let lost: Duration = outcome.findings.iter().map(|one| one.cost).sum();
    assert!(lost <= Duration::from_micros(at), "{lost:?} of {at} us");
}

#[test]
fn what_asks_whether_a_closed_window_has_opened_is_no_timeout() {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 100).data(300, true, GET);
    talk.data(500, false, &[b'.'; MSS]);
    let own = talk.next[0];
    let closed = Seg {
        seq: own,
        ack: 1461,
        window: 0,
        ..Seg::default()
    };
    talk.push(700, closed);
    // BSD's probe: the next byte, repeated and never accepted.
    let probe = Seg {
        from_client: false,
        seq: 1461,
        ack: own,
        payload: b"p",
        ..Seg::default()
    };
    for n in 0..4 {
        talk.push(500_000 << n, probe).push((500_000 << n) + 200, closed);
    }
    talk.push(
        4_500_000,
        Seg {
            window: 16_384,
            ..closed
        },
    );
    talk.next[1] = 1461;
    talk.data(4_500_100, false, &[b'.'; MSS]).ack_all(4_500_300, true);
    let outcome = talk.analyze();
    assert_eq!(outcome.titles(), ["zero window"]);
    assert_eq!(outcome.findings[0].kind, Kind::ZeroWindow { probes: 4 });
    let again = outcome.connections[0].from_server.retransmissions;
    // The byte alone three times, and once with the data after it through the opened window.
    assert_eq!((again.packets, again.timeout, again.window_probe), (4, 0, 4));
}

#[test]
fn a_syn_repeated_before_a_refusal_is_found() {
    let mut talk = Talk::default();
    let syn = Seg {
        flags: "S",
        seq: 0,
        mss: Some(1460),
        ..Seg::default()
    };
    talk.push(0, syn).push(1_000_000, syn).push(3_000_000, syn);
    talk.push(
        3_000_100,
        Seg {
            from_client: false,
            flags: "RA",
            seq: 0,
            ack: 1,
            ..Seg::default()
        },
    );
    let outcome = talk.analyze();
    assert_eq!(outcome.titles(), ["handshake retransmission"]);
    let finding = &outcome.findings[0];
    assert_eq!((finding.cost, &finding.packets[..]), (ms(3_000), &[1, 3][..]));
    assert_eq!(finding.kind, Kind::HandshakeRetransmission { transmissions: 3 });
}

/// Claim w3-07: naive full close with requests in flight.
fn close_with_requests_in_flight(half_close: bool) -> Outcome {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 100)
        .data(300, true, GET)
        .data(500, false, &reply(100));
    // The server closes after the first response; two more requests are on their way.
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
    // A reset of an idle connection destroys nothing.
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
    // A slow SYN-ACK is not a second attempt.
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

/// A client's capture, 90 ms from its server. Both clocks count milliseconds; without queueing, the server's shows 5000
/// and the client's 9000 more than the capture's. All times are in milliseconds.
struct Far {
    talk: Talk,
    stamps: bool,
}

impl Far {
    fn new(stamps: bool) -> Far {
        let mut far = Far {
            talk: Talk::default(),
            stamps,
        };
        let syn = Seg {
            flags: "S",
            seq: 0,
            mss: Some(1460),
            stamps: stamps.then_some((9000, 0)),
            ..Seg::default()
        };
        far.talk.push(0, syn).push(
            90_000,
            Seg {
                flags: "SA",
                from_client: false,
                stamps: stamps.then_some((5090, 9000)),
                ..syn
            },
        );
        far.ack(90, None);
        let own = far.talk.next[0];
        let get = Seg {
            flags: "PA",
            seq: own,
            payload: GET,
            stamps: stamps.then_some((9091, 5090)),
            ..Seg::default()
        };
        far.talk.push(91_000, get);
        far.talk.next[0] += GET.len() as u32;
        far
    }

    /// The client acknowledges everything, or up to a number.
    fn ack(&mut self, at: u64, ack: Option<u32>) {
        let seg = Seg {
            seq: self.talk.next[0],
            ack: ack.unwrap_or(self.talk.next[1]),
            stamps: self.stamps.then_some((9000 + at as u32, 5000 + at as u32)),
            ..Seg::default()
        };
        self.talk.push(at * 1000 + 50, seg);
    }

    /// A segment of the server that would have arrived at `sent` without queueing, sent after the client's packet of
    /// `heard`.
    fn server(&mut self, came: u64, sent: u64, heard: u64, seq: u32, payload: &[u8]) {
        let seg = Seg {
            from_client: false,
            flags: "PA",
            seq,
            ack: self.talk.next[0],
            payload,
            stamps: self.stamps.then_some((5000 + sent as u32, 9000 + heard as u32)),
            ..Seg::default()
        };
        self.talk.push(came * 1000, seg);
        self.talk.next[1] = self.talk.next[1].max(seq + payload.len() as u32);
    }

    /// New data and its acknowledgment.
    fn data(&mut self, came: u64, sent: u64, heard: u64, payload: &[u8]) {
        let seq = self.talk.next[1];
        self.server(came, sent, heard, seq, payload);
        self.ack(came, None);
    }

    /// A full segment has 1,448 bytes with timestamps.
    fn full(&self) -> Vec<u8> {
        vec![b'.'; if self.stamps { 1448 } else { 1460 }]
    }

    /// Four full segments together, then two.
    fn opened(stamps: bool) -> Far {
        let mut far = Far::new(stamps);
        let full = far.full();
        for i in 0..4 {
            far.data(190 + i, 190, 91, &full);
        }
        far.data(300, 300, 193, &full);
        far.data(301, 300, 193, &full);
        far
    }
}

#[test]
fn what_the_line_takes_to_deliver_is_not_held() {
    for stamps in [true, false] {
        let mut far = Far::new(stamps);
        let full = far.full();
        // A full segment takes the line 8 ms, the last one 6 ms; each is acknowledged on arrival.
        for i in 0..6 {
            far.data(190 + 8 * i, 190, 91, &full);
        }
        far.data(236, 190, 91, &full[..1100]);
        let outcome = far.talk.analyze();
        assert!(outcome.titles().is_empty(), "{stamps} {:?}", outcome.titles());
    }
}

#[test]
fn a_piece_that_came_a_round_trip_after_the_acknowledgment_was_held() {
    for (echo, sent, held) in [(190, 281, true), (91, 281, false), (190, 190, false)] {
        let mut far = Far::new(true);
        far.data(190, 190, 91, &[b'.'; 200]);
        far.data(281, sent, echo, &[b'.'; 300]);
        let outcome = far.talk.analyze();
        let expected: &[&str] = if held {
            &["Nagle with application buffering"]
        } else {
            &[]
        };
        assert_eq!(outcome.titles(), expected, "{echo} {sent}");
    }
}

#[test]
fn a_pause_is_the_applications_only_if_it_was_the_senders() {
    let limited = &["application limited"][..];
    let queued = &["queued in the network"][..];
    for (stamps, came, sent, heard, expected) in [
        // Sent late, with everything acknowledged and an open window.
        (true, 900, 900, 301, limited),
        // Sent at once: it waited in a queue.
        (true, 900, 310, 193, queued),
        // Half of each: the queue's part is not the application's.
        (true, 900, 600, 301, queued),
        // Late because an acknowledgment was still on its way when it was sent.
        (true, 900, 900, 300, &[]),
        // Without timestamps, the cause is unknown.
        (false, 900, 900, 301, &[]),
        // No relevant pause beyond the round trip.
        (true, 400, 400, 301, &[]),
    ] {
        let mut far = Far::opened(stamps);
        let full = far.full();
        far.data(came, sent, heard, &full);
        let outcome = far.talk.analyze();
        assert_eq!(outcome.titles(), expected, "{came} {sent} {heard}");
        for finding in &outcome.findings {
            assert_eq!(finding.packets[0], 15);
            assert_eq!(finding.packets[1], 17);
        }
    }
    // One segment per round trip of 290 ms: a window of one segment, and acknowledgments delayed on their way.
    let mut far = Far::new(true);
    let full = far.full();
    for i in 0..6 {
        let heard = if i == 0 { 91 } else { 190 + 290 * (i - 1) };
        far.data(190 + 290 * i, 190 + 290 * i, heard, &full);
    }
    let titles = far.talk.analyze().titles();
    assert!(titles.is_empty(), "{titles:?}");
}

#[test]
fn loss_before_the_capture_point_is_seen_at_the_receiver() {
    // The second of five segments is missing; it arrives `came` after the others, with a timestamp of `sent`.
    let build = |stamps: bool, after: u64, came: u64, sent: u64| {
        let mut far = Far::opened(stamps);
        let full = far.full();
        far.data(400, 400, 301, &full);
        let missing = far.talk.next[1];
        far.talk.next[1] += full.len() as u32;
        for i in 0..after {
            let seq = far.talk.next[1];
            far.server(401 + i, 400, 301, seq, &full);
            far.ack(401 + i, Some(missing));
        }
        far.server(came, sent, 402, missing, &full);
        far.ack(came, None);
        far.talk.analyze()
    };
    for stamps in [true, false] {
        let outcome = build(stamps, 4, 500, 500);
        assert_eq!(outcome.titles(), ["fast recovery"], "{stamps}");
        let finding = &outcome.findings[0];
        assert_eq!((finding.cost, finding.sender), (ms(99), Side::Server));
        assert_eq!(finding.packets, [19, 27]);
        assert_eq!(
            finding.kind,
            Kind::FastRecovery {
                segments: 1,
                upstream: true
            }
        );
        let d = &outcome.connections[0].from_server;
        assert_eq!((d.out_of_order, d.out_of_order_late), (1, 1));
        assert_eq!(outcome.summary.from_servers.out_of_order_late, 1);
        // A single segment after the gap triggers no fast retransmit: only a timer retransmits.
        let outcome = build(stamps, 1, 900, 900);
        assert_eq!(outcome.titles(), ["retransmission timeout"], "{stamps}");
    }
    // Reordered, not lost: sent before the segments that passed it, or arrived before the sender could have learned of
    // the gap.
    for (stamps, came, sent) in [(true, 450, 399), (false, 406, 406)] {
        let outcome = build(stamps, 4, came, sent);
        assert!(outcome.titles().is_empty(), "{stamps} {:?}", outcome.titles());
        let d = &outcome.connections[0].from_server;
        assert_eq!((d.out_of_order, d.out_of_order_late), (1, 0));
    }
}

/// Two waits for a full window at each of `rounds`; acknowledged `rtt` after being sent.
fn window_of_four(first_rtt: u64, rtt: u64, scale: Option<u8>, window: u16) -> Talk {
    let mut talk = Talk::default();
    let syn = Seg {
        flags: "S",
        seq: 0,
        window: 65_000,
        mss: Some(1460),
        scale,
        ..Seg::default()
    };
    talk.push(0, syn).push(
        100,
        Seg {
            flags: "SA",
            from_client: false,
            ..syn
        },
    );
    let ack = |talk: &mut Talk, at: u64| {
        let (seq, ack) = (talk.next[0], talk.next[1]);
        let seg = Seg {
            seq,
            ack,
            window,
            ..Seg::default()
        };
        talk.push(at, seg);
    };
    ack(&mut talk, first_rtt);
    talk.data(first_rtt + 200, true, GET);
    let mut at = first_rtt + 300;
    for _ in 0..6 {
        for _ in 0..4 {
            talk.data(at, false, &[b'.'; MSS]);
        }
        ack(&mut talk, at + rtt);
        at += rtt + 100;
    }
    talk
}

#[test]
fn a_full_window_limits_only_where_no_queue_is_full() {
    let limited = window_of_four(20_000, 20_000, Some(0), 4 * 1460);
    assert_eq!(limited.analyze().titles(), ["receiver-window limited"]);
    // Four times the path's round-trip time: the line is saturated.
    let queued = window_of_four(20_000, 80_000, Some(0), 4 * 1460);
    assert!(
        !queued.analyze().titles().contains(&"receiver-window limited"),
        "{:?}",
        queued.analyze().titles()
    );
}

#[test]
fn a_window_whose_scale_was_cut_off_limits_nothing() {
    let talk = window_of_four(20_000, 20_000, Some(7), 100);
    let analyze = |snaplen: usize| {
        let mut analyzer = trace::Analyzer::new(trace::Options::default());
        for (i, sent) in talk.frames.iter().enumerate() {
            let mut frame = sent.frame(i as u64 + 1);
            frame.data = &sent.data[..snaplen.min(sent.data.len())];
            analyzer.frame(&frame);
        }
        analyzer.finish_frames();
        let mut windows = Vec::new();
        while let Some(event) = analyzer.next_event() {
            if let trace::Event::Connection(c) = event {
                windows.push((c.from_client.window_scale, c.from_client.window_min));
            }
        }
        (analyzer.summary(), windows)
    };
    // Ethernet, IP and TCP take 54 bytes, the first option 4, the scale the next 3.
    for (snaplen, expected) in [(2000, (Some(7), Some(12_800))), (58, (None, None))] {
        let (summary, windows) = analyze(snaplen);
        assert!(summary.findings.is_empty(), "{snaplen}: {:?}", summary.findings);
        assert_eq!(windows, [expected]);
    }
    // An announcement by one end alone does not enable scaling.
    let mut half = talk;
    half.frames.remove(0);
    let outcome = half.analyze();
    assert!(outcome.findings.is_empty(), "{:?}", outcome.titles());
    assert_eq!(outcome.connections[0].from_client.window_min, None);
}
