//! Explanations of hand-made timelines with known causes, and the partition property for arbitrary ones.

use super::*;
use crate::timeline::{Fate, Initiator, Object, Part, Role, Source, Tcp};
use proptest::prelude::*;

pub(super) fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

pub(super) fn object(parent: Option<usize>, found: u64, tries: Vec<Try>) -> Object {
    Object {
        url: "http://example.org/".to_owned(),
        role: Role::Page,
        parent,
        found: at(found),
        initiator: Initiator::Content,
        named: Some(at(found)),
        is_used: true,
        tries,
        fate: Fate::Done(Source::Network),
        status: Some(200),
        media: String::new(),
        content_bytes: 0,
    }
}

/// A request: connection, asked, sent, first byte, last byte.
pub(super) fn one(connection: usize, [asked, sent, first, last]: [u64; 4]) -> Try {
    Try {
        connection,
        part: Part::Whole,
        request: String::new(),
        asked: at(asked),
        sent: Some(at(sent)),
        hinted: None,
        first: Some(at(first)),
        last: Some(at(last)),
        status: 200,
        reason: String::new(),
        fields: Vec::new(),
        head_bytes: 0,
        body_bytes: 0,
        is_repeated: false,
        turn: asked as u32,
        stream: None,
        priority: None,
        pieces: Vec::new(),
    }
}

/// Receipts of (instant, bytes).
fn receipts(of: impl Iterator<Item = (u64, u64)>) -> Vec<Arrival> {
    let mut all: Vec<Arrival> = Vec::new();
    for (ms, bytes) in of {
        all.push(Arrival::after(all.last(), at(ms), bytes));
    }
    all
}

/// A connection with a round trip of 20 ms that receives 1,460 bytes at each instant.
pub(super) fn connection(opened: u64, arrivals: &[u64]) -> Connection {
    Connection {
        opened: at(opened),
        connected: Some(at(opened + 20)),
        closed: None,
        is_cut: false,
        secured: None,
        shaken_again: 0,
        arrivals: receipts(arrivals.iter().map(|&ms| (ms, 1460))),
        quic: None,
        tcp: Some(Tcp {
            rtt_min: Some(Duration::from_millis(20)),
            delayed_ack: Duration::from_millis(40),
            ..Tcp::default()
        }),
        bytes_out: 0,
        protocol: "http/1.1",
        requests: 1,
        bytes_again: 0,
    }
}

pub(super) fn timeline(ended: u64, objects: Vec<Object>, connections: Vec<Connection>) -> Timeline {
    Timeline {
        began: at(0),
        ended: at(ended),
        objects,
        connections,
        ..Timeline::default()
    }
}

#[track_caller]
fn partitions(timeline: &Timeline) -> Vec<Span> {
    let spans = explain(timeline);
    let elapsed = timeline.ended - timeline.began;
    assert_eq!(
        sums(&spans).iter().map(|(_, took)| *took).sum::<Duration>(),
        elapsed
    );
    assert!(spans.windows(2).all(|pair| pair[0].to == pair[1].from));
    assert!(spans.iter().all(|span| span.from < span.to));
    if !elapsed.is_zero() {
        assert_eq!(spans.first().map(|span| span.from), Some(timeline.began));
        assert_eq!(spans.last().map(|span| span.to), Some(timeline.ended));
    }
    spans
}

#[track_caller]
fn check(timeline: &Timeline, want: &[(Cause, u64)]) {
    let spans = partitions(timeline);
    let got: Vec<(Cause, u64)> = spans
        .iter()
        .map(|span| (span.cause, (span.to - span.from).as_millis() as u64))
        .collect();
    assert_eq!(got, want);
}

#[test]
fn one_answer_in_two_windows() {
    // Four segments a millisecond apart, a pause of a round trip, four more.
    let arrivals = [70, 71, 72, 73, 93, 94, 95, 96];
    let timeline = timeline(
        96,
        vec![object(None, 0, vec![one(0, [0, 0, 70, 96])])],
        vec![connection(0, &arrivals)],
    );
    check(
        &timeline,
        &[
            (Cause::Connect, 20),
            (Cause::RoundTrip, 20),
            (Cause::ServerWait, 29),
            // The first segment took transmission time, too.
            (Cause::Bandwidth, 4),
            (Cause::SlowStart, 19),
            (Cause::Bandwidth, 4),
        ],
    );
}

#[test]
fn a_pause_as_long_as_our_delayed_acknowledgment() {
    let timeline = timeline(
        103,
        vec![object(None, 0, vec![one(0, [0, 0, 40, 103])])],
        vec![connection(0, &[40, 41, 42, 43, 102, 103])],
    );
    let spans = partitions(&timeline);
    assert_eq!(sums(&spans)[6], (Cause::DelayedAck, Duration::from_millis(59)));
}

#[test]
fn segments_out_of_order_are_recovery_however_long_it_takes() {
    let mut line = connection(0, &[40, 41, 42, 43, 341, 342]);
    line.arrivals[4].holes = 1;
    line.arrivals[5].holes = 1;
    let timeline = timeline(
        342,
        vec![object(None, 0, vec![one(0, [0, 0, 40, 342])])],
        vec![line],
    );
    let spans = partitions(&timeline);
    assert_eq!(sums(&spans)[9], (Cause::LossRecovery, Duration::from_millis(298)));
}

#[test]
fn a_request_held_in_the_buffer_is_the_clients_own_fault() {
    // Found at 50, held until 100, answered a round trip later.
    let timeline = timeline(
        120,
        vec![
            object(None, 0, vec![one(0, [0, 0, 40, 52])]),
            object(Some(0), 50, vec![one(0, [50, 100, 120, 120])]),
        ],
        vec![connection(0, &[40, 44, 48, 50, 52, 120])],
    );
    check(
        &timeline,
        &[
            (Cause::Connect, 20),
            (Cause::RoundTrip, 20),
            // Even receipts within less than a round trip may come from a sender that paces.
            (Cause::Transfer, 10),
            (Cause::ClientIdle, 50),
            (Cause::RoundTrip, 20),
        ],
    );
}

#[test]
fn answers_complete_in_one_receipt_do_not_wait_for_each_other() {
    // Two responses end with the same bytes; the walk still reaches the page and its connection.
    let mut second = one(0, [40, 40, 60, 60]);
    second.turn = 41;
    let timeline = timeline(
        60,
        vec![
            object(None, 0, vec![one(0, [0, 0, 40, 40])]),
            object(Some(0), 40, vec![one(0, [40, 40, 60, 60])]),
            object(Some(0), 40, vec![second]),
        ],
        vec![connection(0, &[40, 60])],
    );
    check(
        &timeline,
        &[
            (Cause::Connect, 20),
            (Cause::RoundTrip, 20),
            (Cause::RoundTrip, 20),
        ],
    );
}

#[test]
fn a_line_shared_by_two_connections_is_busy_while_either_receives() {
    // One segment per 10 ms, alternating.
    let (odd, even): (Vec<u64>, Vec<u64>) = (4..40).map(|n| n * 10).partition(|at| at / 10 % 2 == 1);
    let timeline = timeline(
        390,
        vec![
            object(None, 0, vec![one(0, [0, 0, 40, 380])]),
            object(None, 0, vec![one(1, [0, 0, 50, 390])]),
        ],
        vec![connection(0, &even), connection(0, &odd)],
    );
    let spans = partitions(&timeline);
    assert!(sums(&spans)[7].1 >= Duration::from_millis(340), "{spans:?}");
}

#[test]
fn a_fetch_that_never_connected() {
    let mut timeline = timeline(
        500,
        vec![object(None, 0, vec![one(0, [0, 0, 0, 0])])],
        vec![connection(0, &[])],
    );
    timeline.connections[0].connected = None;
    let never = &mut timeline.objects[0].tries[0];
    (never.first, never.last) = (None, None);
    check(&timeline, &[(Cause::Connect, 500)]);
}

/// A server's writes as (instant, bytes), over a link of `rate` bytes per millisecond or one that is never
/// full.
fn over_a_line(writes: &[(u64, u64)], rate: Option<f64>, largest: u32) -> Timeline {
    let mut arrivals: Vec<Arrival> = Vec::new();
    let mut free = 0.0_f64;
    for &(ms, bytes) in writes {
        let mut left = bytes;
        while left > 0 {
            // On an unlimited link, a write arrives at once.
            let piece = rate.map_or(left, |_| left.min(u64::from(largest)));
            free = free.max(ms as f64) + rate.map_or(0.0, |rate| piece as f64 / rate);
            let at = Instant::ZERO + Duration::from_secs_f64(free / 1e3);
            arrivals.push(Arrival::after(arrivals.last(), at, piece));
            left -= piece;
        }
    }
    let (first, last) = (arrivals[0].at, arrivals[arrivals.len() - 1].at);
    let mut request = one(0, [20, 20, 0, 0]);
    (request.first, request.last) = (Some(first), Some(last));
    let mut line = connection(0, &[]);
    line.arrivals = arrivals;
    let tcp = line.tcp.as_mut().expect("known");
    (tcp.path_mss, tcp.mss) = (largest, largest);
    let mut timeline = timeline(0, vec![object(None, 20, vec![request])], vec![line]);
    timeline.ended = last;
    timeline
}

/// Milliseconds assigned to a cause.
fn spent(timeline: &Timeline, cause: Cause) -> f64 {
    let spans = partitions(timeline);
    let of = sums(&spans).into_iter().find(|(one, _)| *one == cause);
    of.map_or(0.0, |(_, took)| took.as_secs_f64() * 1e3)
}

/// Responses with and without pauses, over links with and without a rate. Pauses count as the server's and
/// transfers as the link's; an unlimited link gets no time.
#[test]
fn pauses_of_a_server_are_told_from_a_full_line() {
    // 60,000 bytes in six writes, a tenth of a second apart or all at once.
    let paused: Vec<(u64, u64)> = (0..6).map(|n| (40 + 100 * n, 10_000)).collect();
    let whole = [(40, 60_000)];
    for (name, segment) in [("ethernet", 1_448), ("loopback", 65_483)] {
        let timeline = over_a_line(&paused, None, segment);
        assert_eq!(spent(&timeline, Cause::Bandwidth), 0.0, "{name}");
        assert!(
            (spent(&timeline, Cause::ServerPause) - 500.0).abs() < 1.0,
            "{name}"
        );
        // One receipt: only the wait is left to explain.
        let timeline = over_a_line(&whole, None, segment);
        assert_eq!(spent(&timeline, Cause::Bandwidth), 0.0, "{name}");
        assert_eq!(spent(&timeline, Cause::ServerPause), 0.0, "{name}");
    }
    // A link of 1,000 bytes per millisecond: 10 ms of each 100.
    let timeline = over_a_line(&paused, Some(1_000.0), 1_448);
    let (full, silent) = (
        spent(&timeline, Cause::Bandwidth),
        spent(&timeline, Cause::ServerPause),
    );
    assert!(
        (full - 60.0).abs() < 6.0 && (silent - 450.0).abs() < 6.0,
        "{full} {silent}"
    );
    let timeline = over_a_line(&whole, Some(1_000.0), 1_448);
    let (full, silent) = (
        spent(&timeline, Cause::Bandwidth),
        spent(&timeline, Cause::ServerPause),
    );
    assert!((full - 60.0).abs() < 3.0 && silent == 0.0, "{full} {silent}");
    // 20 bytes per millisecond: writes queue behind each other, and the link is full without a pause.
    let timeline = over_a_line(&paused, Some(20.0), 1_448);
    let (full, silent) = (
        spent(&timeline, Cause::Bandwidth),
        spent(&timeline, Cause::ServerPause),
    );
    assert!((full - 3_000.0).abs() < 60.0 && silent == 0.0, "{full} {silent}");
}

/// As observed on an unlimited link: each write arrives as a burst of segments within a millisecond.
#[test]
fn bursts_with_pauses_between_are_no_line_however_a_sample_cuts_them() {
    for pieces in [
        &[1_448, 1_448, 1_448, 1_448, 1_448, 760][..],
        &[2_896, 2_896, 2_208],
        &[1_448, 2_896, 3_656],
    ] {
        let mut timeline = over_a_line(&[(40, 1)], None, 1_448);
        let mut arrivals: Vec<Arrival> = Vec::new();
        for (write, (place, bytes)) in
            (0..10).flat_map(|write| pieces.iter().enumerate().map(move |one| (write, one)))
        {
            let at = at(40 + 100 * write) + Duration::from_micros(40 * place as u64);
            arrivals.push(Arrival::after(arrivals.last(), at, *bytes));
        }
        let last = arrivals[arrivals.len() - 1].at;
        timeline.connections[0].arrivals = arrivals;
        timeline.objects[0].tries[0].last = Some(last);
        timeline.ended = last;
        assert_eq!(spent(&timeline, Cause::Bandwidth), 0.0, "{pieces:?}");
        assert!(
            (spent(&timeline, Cause::ServerPause) - 900.0).abs() < 5.0,
            "{pieces:?}"
        );
    }
}

/// A delayed acknowledgment releases nothing before a round trip has passed.
#[test]
fn a_pause_that_is_too_short_for_a_delayed_acknowledgment_is_the_servers() {
    for (pause, want) in [
        (50, Cause::ServerPause),
        (61, Cause::DelayedAck),
        (90, Cause::ServerPause),
    ] {
        let writes: Vec<(u64, u64)> = (0..20).map(|n| (40 + pause * n, 1_000)).collect();
        let timeline = over_a_line(&writes, None, 1_448);
        assert!(
            (spent(&timeline, want) - 19.0 * pause as f64).abs() < 1.0,
            "{pause}"
        );
    }
}

/// Small pieces at a steady pace are the server's, unless the pace follows from their size.
#[test]
fn a_server_that_paces_what_it_writes_is_no_line() {
    let paces: [(&str, Vec<(u64, u64)>); 3] = [
        ("all alike", (0..40).map(|n| (40 + 90 * n, 700)).collect()),
        (
            "two segments and a bit",
            (0..40).map(|n| (40 + 90 * n, 2_000)).collect(),
        ),
        (
            "of any size",
            (0..40).map(|n| (40 + 90 * n, 200 + 311 * n % 1_100)).collect(),
        ),
    ];
    for (name, writes) in paces {
        for segment in [1_448, 65_483] {
            let timeline = over_a_line(&writes, None, segment);
            assert_eq!(spent(&timeline, Cause::Bandwidth), 0.0, "{name}, {segment}");
            let silent = spent(&timeline, Cause::ServerPause);
            assert!((silent - 3_510.0).abs() < 5.0, "{name}, {segment}: {silent}");
        }
    }
    // Responses of any size, all available at once, over a slow link: the link determines their pace.
    let answers: Vec<(u64, u64)> = (0..40).map(|n| (40, 200 + 311 * n % 1_100)).collect();
    let timeline = over_a_line(&answers, Some(20.0), 1_448);
    let bytes: u64 = answers.iter().map(|(_, bytes)| bytes).sum();
    let full = spent(&timeline, Cause::Bandwidth);
    assert!((full - bytes as f64 / 20.0).abs() < 0.05 * full, "{full}");
}

/// Responses of one segment each, requested one after another, do not fill a link.
#[test]
fn a_round_trip_each_is_no_line() {
    let tries = (0..20).map(|n| one(0, [20 + 20 * n, 20 + 20 * n, 40 + 20 * n, 40 + 20 * n]));
    let objects = tries
        .enumerate()
        .map(|(n, made)| object(None, if n == 0 { 0 } else { 40 }, vec![made]))
        .collect();
    let arrivals: Vec<u64> = (0..20).map(|n| 40 + 20 * n).collect();
    let timeline = timeline(420, objects, vec![connection(0, &arrivals)]);
    assert_eq!(spent(&timeline, Cause::Bandwidth), 0.0);
    assert!(spent(&timeline, Cause::RoundTrip) >= 360.0);
}

/// A pause on a path with almost no round trip, as long as the delayed-ACK timer, is a stall without bandwidth
/// time.
#[test]
fn a_stall_on_loopback_has_no_bandwidth() {
    let writes: Vec<(u64, u64)> = (0..30).map(|n| (40 + 41 * n, 300)).collect();
    let mut timeline = over_a_line(&writes, None, 65_483);
    let tcp = timeline.connections[0].tcp.as_mut().expect("known");
    (tcp.rtt_min, tcp.delayed_ack) = (Some(Duration::from_micros(50)), Duration::from_millis(40));
    assert_eq!(spent(&timeline, Cause::Bandwidth), 0.0);
    assert!((spent(&timeline, Cause::DelayedAck) - 29.0 * 41.0).abs() < 1.0);
}

/// A pause shorter than a round trip counts as slow start only if bytes came a round trip before its end.
#[test]
fn a_window_opens_a_round_trip_after_what_was_acknowledged() {
    let pause = |from: u64, to: u64| {
        let arrivals = [from, from + 1, from + 2, from + 3, to, to + 1, to + 2, to + 3];
        let mut line = connection(0, &arrivals);
        line.tcp.as_mut().expect("known").rtt_min = Some(Duration::from_millis(100));
        line.connected = Some(at(100));
        timeline(
            to + 3,
            vec![object(None, 0, vec![one(0, [0, 0, from, to + 3])])],
            vec![line],
        )
    };
    let clocked = pause(200, 300);
    assert!(spent(&clocked, Cause::SlowStart) > 90.0);
    assert_eq!(spent(&clocked, Cause::ServerPause), 0.0);
    let early = pause(200, 240);
    assert_eq!(spent(&early, Cause::SlowStart), 0.0);
    assert!(spent(&early, Cause::ServerPause) > 30.0);
}

/// A server without Nagle's algorithm that writes often: some receipt is always as old as the delayed-ACK
/// timer, but no silence is that long.
#[test]
fn a_steady_writer_does_not_wait_for_acknowledgments() {
    for (every, bytes) in [(3, 1_000), (2, 1_460), (10, 1_000), (25, 700)] {
        for timer in [3, 40, 45] {
            let writes: Vec<(u64, u64)> = (0..300).map(|n| (40 + every * n, bytes)).collect();
            let mut timeline = over_a_line(&writes, None, 65_483);
            let tcp = timeline.connections[0].tcp.as_mut().expect("known");
            (tcp.rtt_min, tcp.delayed_ack) = (Some(Duration::from_micros(50)), Duration::from_millis(timer));
            assert_eq!(spent(&timeline, Cause::DelayedAck), 0.0, "{every} {timer}");
            assert_eq!(spent(&timeline, Cause::Bandwidth), 0.0, "{every} {timer}");
            let silent = spent(&timeline, Cause::ServerPause);
            assert!(
                (silent - (299 * every) as f64).abs() < 1.0,
                "{every} {timer}: {silent}"
            );
        }
    }
}

/// Where a stall and a pause look the same, the name claims neither.
#[test]
fn what_cannot_be_told_apart_is_named_so() {
    assert_eq!(Cause::DelayedAck.name(), "delayed ACK or pause");
    assert_eq!(Cause::SlowStart.name(), "slow start or pause");
    // 1,000 bytes per 45 ms: as long as the timer, or a pause.
    let writes: Vec<(u64, u64)> = (0..20).map(|n| (40 + 45 * n, 1_000)).collect();
    let mut timeline = over_a_line(&writes, None, 65_483);
    timeline.connections[0].tcp.as_mut().expect("known").rtt_min = Some(Duration::from_micros(50));
    assert!((spent(&timeline, Cause::DelayedAck) - 19.0 * 45.0).abs() < 1.0);
    // With a round trip of 40 ms.
    timeline.connections[0].tcp.as_mut().expect("known").rtt_min = Some(Duration::from_millis(40));
    timeline.connections[0].connected = Some(at(40));
    assert!(spent(&timeline, Cause::SlowStart) > 700.0);
}

/// A round trip of 40 ms; the segments of each round arrive evenly over part of it, given in milliseconds.
fn rounds(of: &[(u64, u64)]) -> Timeline {
    let mut timeline = over_a_line(&[(40, 1)], None, 1_448);
    let mut arrivals: Vec<Arrival> = Vec::new();
    for (round, &(segments, over)) in of.iter().enumerate() {
        for place in 0..segments {
            let at = at(80 + 40 * round as u64)
                + Duration::from_millis(over).mul_f64(place as f64 / segments as f64);
            arrivals.push(Arrival::after(arrivals.last(), at, 1_448));
        }
    }
    let one = &mut timeline.connections[0];
    one.connected = Some(at(40));
    one.tcp.as_mut().expect("known").rtt_min = Some(Duration::from_millis(40));
    let last = arrivals[arrivals.len() - 1].at;
    let made = &mut timeline.objects[0].tries[0];
    (made.first, made.last) = (Some(arrivals[0].at), Some(last));
    one.arrivals = arrivals;
    timeline.ended = last;
    timeline
}

/// BBR's startup on an unlimited link doubles the segments of each round trip, evenly paced. On a full link the
/// number of segments per millisecond stays constant.
#[test]
fn a_sender_that_paces_and_grows_fills_no_line() {
    let growing = rounds(&[(10, 38), (20, 38), (40, 38), (80, 38), (160, 38), (104, 16)]);
    assert_eq!(spent(&growing, Cause::Bandwidth), 0.0);
    let full = rounds(&[(10, 5), (20, 10), (40, 20), (80, 40), (80, 40), (80, 40)]);
    let busy = spent(&full, Cause::Bandwidth);
    assert!((busy - 155.0).abs() < 8.0, "{busy}");
}

/// Writes slightly larger than a segment arrive as a whole segment and a rest, or in one receipt: neither is
/// bulk data.
#[test]
fn writes_a_little_larger_than_a_segment_fill_no_line() {
    for pieces in [&[1_448_u64, 12][..], &[1_460]] {
        let mut timeline = over_a_line(&[(40, 1)], None, 1_448);
        let mut arrivals: Vec<Arrival> = Vec::new();
        for write in 0..300 {
            for &bytes in pieces {
                arrivals.push(Arrival::after(arrivals.last(), at(40 + 2 * write), bytes));
            }
        }
        let one = &mut timeline.connections[0];
        one.tcp.as_mut().expect("known").rtt_min = Some(Duration::from_micros(50));
        one.arrivals = arrivals;
        timeline.objects[0].tries[0].last = Some(at(638));
        timeline.ended = at(638);
        assert_eq!(spent(&timeline, Cause::Bandwidth), 0.0, "{pieces:?}");
    }
}

proptest! {
    /// The parts are a partition, whatever the timeline holds.
    #[test]
    fn the_parts_add_up(
        ended in 0_u64..400,
        objects in proptest::collection::vec(
            (proptest::option::of(0_usize..6), 0_u64..400,
             proptest::collection::vec((0_usize..3, [0_u64..400, 0..400, 0..400, 0..400], 0_u8..8), 0..3)),
            1..6),
        arrivals in proptest::collection::vec(proptest::collection::vec(0_u64..400, 0..12), 3),
        opened in [0_u64..200, 0..200, 0..200],
    ) {
        let count = objects.len();
        let objects = objects
            .into_iter()
            .map(|(parent, found, tries)| {
                let tries = tries.into_iter().map(|(number, times, none)| {
                    let mut made = one(number, times);
                    if none & 1 == 1 { made.last = None; }
                    if none & 2 == 2 { made.first = None; }
                    if none & 4 == 4 { made.sent = None; }
                    made
                }).collect();
                object(parent.filter(|parent| *parent < count), found, tries)
            })
            .collect();
        let connections = arrivals
            .into_iter()
            .zip(opened)
            .map(|(mut arrivals, opened)| {
                arrivals.sort_unstable();
                connection(opened, &arrivals)
            })
            .collect();
        partitions(&timeline(ended, objects, connections));
    }
}
