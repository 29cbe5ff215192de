//! Timelines made by hand, whose causes are known, and any others, whose parts must still add up.

use super::*;
use crate::timeline::{Fate, Object, Part, Role, Source, Tcp};
use proptest::prelude::*;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn object(parent: Option<usize>, found: u64, tries: Vec<Try>) -> Object {
    Object {
        url: "http://example.org/".to_owned(),
        role: Role::Page,
        parent,
        found: at(found),
        tries,
        fate: Fate::Done(Source::Network),
        status: Some(200),
        media: String::new(),
        content_bytes: 0,
    }
}

/// A request: connection, asked, sent, first byte, last byte.
fn one(connection: usize, [asked, sent, first, last]: [u64; 4]) -> Try {
    Try {
        connection,
        part: Part::Whole,
        request: String::new(),
        asked: at(asked),
        sent: Some(at(sent)),
        first: Some(at(first)),
        last: Some(at(last)),
        status: 200,
        reason: String::new(),
        fields: Vec::new(),
        head_bytes: 0,
        body_bytes: 0,
        is_repeated: false,
        turn: asked as u32,
    }
}

/// So many bytes at each instant.
fn receipts(of: impl Iterator<Item = (u64, u64)>) -> Vec<Arrival> {
    let mut all: Vec<Arrival> = Vec::new();
    for (ms, bytes) in of {
        all.push(Arrival::after(all.last(), at(ms), bytes));
    }
    all
}

/// A connection with a round trip of 20 ms that receives 1,460 bytes at each of these.
fn connection(opened: u64, arrivals: &[u64]) -> Connection {
    Connection {
        opened: at(opened),
        connected: Some(at(opened + 20)),
        closed: None,
        is_cut: false,
        shaken_again: 0,
        arrivals: receipts(arrivals.iter().map(|&ms| (ms, 1460))),
        tcp: Some(Tcp {
            rtt_min: Some(Duration::from_millis(20)),
            delayed_ack: Duration::from_millis(40),
            ..Tcp::default()
        }),
        bytes_out: 0,
        requests: 1,
        bytes_again: 0,
    }
}

fn timeline(ended: u64, objects: Vec<Object>, connections: Vec<Connection>) -> Timeline {
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
    // Four segments a millisecond apart, a round trip's pause, four more.
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
            // The first segment took its time on the line, too.
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
    assert_eq!(sums(&spans)[4], (Cause::DelayedAck, Duration::from_millis(58)));
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
    assert_eq!(sums(&spans)[6], (Cause::LossRecovery, Duration::from_millis(297)));
}

#[test]
fn a_request_held_in_the_buffer_is_the_clients_own_fault() {
    // Named at 50, held until 100, answered a round trip later.
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
            (Cause::Bandwidth, 10),
            (Cause::ClientIdle, 50),
            (Cause::RoundTrip, 20),
        ],
    );
}

#[test]
fn answers_complete_in_one_receipt_do_not_wait_for_each_other() {
    // Two answers end with the same bytes; the walk still reaches the page and its connection.
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
    // A segment each 10 ms, alternating.
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
    assert!(sums(&spans)[5].1 >= Duration::from_millis(340), "{spans:?}");
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

proptest! {
    /// Whatever a timeline holds, sense or none, the parts are a partition.
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
