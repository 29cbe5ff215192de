//! Two endpoints and a wire that delays, loses, repeats and reorders segments.
//!
//! Tests the behavior of whole connections; each state machine is tested in its own file.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The fate of the n-th segment: one extra delay per copy that arrives.
type Fate<'a> = Box<dyn FnMut(u64, &Segment) -> Vec<Duration> + 'a>;

struct Pair<'a> {
    ends: [Endpoint; 2],
    now: Instant,
    delay: Duration,
    wire: BTreeMap<(Instant, u64), (usize, Segment)>,
    sent: u64,
    fate: Fate<'a>,
    log: Vec<(Instant, usize, Segment)>,
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn setup(name: &str, iss: u32) -> Setup {
    Setup::new(Stack::preset(name).expect(name), iss)
}

impl<'a> Pair<'a> {
    fn new(client: Setup, server: Setup, delay: Duration, fate: Fate<'a>) -> Pair<'a> {
        let now = Instant::ZERO;
        Pair {
            ends: [Endpoint::connect(client, now), Endpoint::listen(server)],
            now,
            delay,
            wire: BTreeMap::new(),
            sent: 0,
            fate,
            log: Vec::new(),
        }
    }

    fn lossless(name: &str, delay: Duration) -> Pair<'static> {
        Pair::new(
            setup(name, 1_000),
            setup(name, u32::MAX - 2_000),
            delay,
            Box::new(|_, _| vec![Duration::ZERO]),
        )
    }

    fn flush(&mut self) {
        for side in 0..2 {
            while let Some(segment) = self.ends[side].transmit() {
                self.log.push((self.now, side, segment.clone()));
                self.sent += 1;
                for late in (self.fate)(self.sent, &segment) {
                    let key = (
                        self.now + self.delay + late,
                        self.sent * 4 + self.wire.len() as u64 * 4_000,
                    );
                    self.wire.insert(key, (1 - side, segment.clone()));
                }
            }
        }
    }

    /// Runs the next event; false if there is none, or none before `until`.
    fn step(&mut self, until: Instant) -> bool {
        self.flush();
        let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
        let timer = self.ends.iter().filter_map(Endpoint::deadline).min();
        let Some(at) = arrival.into_iter().chain(timer).min().filter(|at| *at <= until) else {
            return false;
        };
        self.now = self.now.max(at);
        if arrival == Some(at) {
            let (_, (side, segment)) = self.wire.pop_first().expect("the wire is not empty");
            self.ends[side].receive(segment, self.now);
        } else {
            self.ends.iter_mut().for_each(|end| end.expire(self.now));
        }
        self.flush();
        true
    }

    /// Runs until both sides are established.
    fn open(&mut self) {
        while !(self.ends[0].is_established() && self.ends[1].is_established()) {
            assert!(self.step(Instant::ZERO + ms(1_000_000)));
        }
    }

    /// Side `from` sends `data` and shuts down; the other side reads as data arrives. Returns the data read and
    /// the time of the last byte.
    fn transfer(&mut self, from: usize, data: &[u8], until: Instant) -> (Vec<u8>, Instant) {
        let (mut written, mut got, mut last) = (0, Vec::new(), self.now);
        loop {
            written += self.ends[from].write(&data[written..], self.now);
            if written == data.len() {
                self.ends[from].shutdown(self.now);
            }
            let read = self.ends[1 - from].read(usize::MAX);
            if !read.is_empty() {
                got.extend(read);
                last = self.now;
            }
            if self.ends[1 - from].is_eof() {
                self.ends[1 - from].shutdown(self.now);
            }
            if !self.step(until) {
                return (got, last);
            }
        }
    }
}

fn stream(n: usize) -> Vec<u8> {
    (0..n as u32).map(|k| (k * 31 + k / 251) as u8).collect()
}

#[test]
fn a_connection_opens_talks_and_closes_in_the_words_of_the_rfc() {
    let mut pair = Pair::lossless("4.4bsd", ms(10));
    pair.open();
    let (got, _) = pair.transfer(0, b"hello", Instant::ZERO + ms(10_000));
    assert_eq!(got, b"hello");
    let words: Vec<String> = pair
        .log
        .iter()
        .map(|(_, side, segment)| format!("{side}{}", segment.flags))
        .collect();
    assert_eq!(words, ["0S", "1SA", "0A", "0PA", "0FA", "1A", "1FA", "0A"]);
    assert!(matches!(pair.ends[0].state(), State::TimeWait { .. }));
    assert_eq!(pair.ends[1].state(), State::Closed(Closed::Orderly));
    assert!(!pair.step(Instant::ZERO + ms(60_000)));
    while pair.step(Instant::ZERO + ms(70_000)) {}
    assert_eq!(pair.ends[0].state(), State::Closed(Closed::Orderly));
}

#[test]
fn each_side_offers_its_mss_and_the_smaller_counts() {
    let mut small = setup("4.4bsd", 1);
    small.mss = 536;
    let mut pair = Pair::new(
        small,
        setup("4.4bsd", 2),
        ms(1),
        Box::new(|_, _| vec![Duration::ZERO]),
    );
    pair.open();
    assert_eq!((pair.ends[0].mss(), pair.ends[1].mss()), (536, 536));
    assert_eq!(pair.log[0].2.mss, Some(536));
    assert_eq!(pair.log[1].2.mss, Some(1_460));
}

/// Slow start with an ACK for every segment doubles the window: d segments from a window of w take
/// log2(d/w + 1) rounds (the closed form of Cardwell, Savage and Anderson with growth 2).
#[test]
fn slow_start_takes_the_rounds_of_the_closed_form() {
    for (first, rounds) in [(1u32, 6.0), (2, 5.0), (4, 4.0)] {
        let mut server = setup("linux-6", 7);
        server.stack.initial_cwnd_segments = first;
        server.stack.send_buffer = units::Bytes(1 << 20);
        let mut client = setup("linux-6", 9);
        // Acknowledge every segment.
        client.stack.ack_rule = AckRule::Segments;
        client.stack.delayed_ack = Duration::from_nanos(1);
        // Segments arrive one by one, as over a link; two at once would be acknowledged together.
        let fate: Fate<'_> = Box::new(|n, _| vec![Duration::from_nanos(10 * n)]);
        let mut pair = Pair::new(client, server, ms(50), fate);
        pair.open();
        let began = pair.now;
        let segments = first as usize * ((1 << rounds as usize) - 1);
        // The peer's window must not limit: 44 segments of 1,460 bytes.
        let segments = segments.min(44 + first as usize * 15);
        let exact = ((segments as f64) / f64::from(first) + 1.0).log2().ceil();
        let bytes = segments * pair.ends[1].mss() as usize;
        let (got, last) = pair.transfer(1, &stream(bytes), began + ms(60_000));
        assert_eq!(got.len(), bytes);
        // The server is established half a round trip after the client: the transfer ends `exact` rounds later,
        // less the return of the last ACK.
        let took = last.since(began).as_secs_f64() / 0.1;
        assert!(
            (took - (exact - 0.5)).abs() < 0.01,
            "w {first}, {segments} segments: {took} rounds"
        );
    }
}

#[test]
fn a_lost_segment_is_repeated_after_three_duplicates_or_after_the_timeout() {
    // Loses the server's tenth data segment, with enough segments after it; then its last one.
    for fast in [true, false] {
        let (mut count, mut lost) = (0, false);
        let fate: Fate<'_> = Box::new(move |_, segment: &Segment| {
            count += u64::from(!segment.payload.is_empty());
            let chosen = if fast {
                count == 10
            } else {
                segment.flags.fin && segment.space() > 1
            };
            if chosen && !lost {
                lost = true;
                return vec![];
            }
            vec![Duration::ZERO]
        });
        let mut pair = Pair::new(setup("linux-6", 1), setup("linux-6", 2), ms(20), fate);
        pair.open();
        let data = stream(40 * 1_460);
        let (got, last) = pair.transfer(1, &data, Instant::ZERO + ms(60_000));
        assert_eq!(got, data);
        assert_eq!(pair.ends[1].retransmitted(), 1, "fast {fast}");
        // Without loss, five and a half round trips; fast recovery adds two, the timer at least 200 ms.
        let quick = last.since(Instant::ZERO) < ms(400);
        assert_eq!(quick, fast, "{last:?}");
        assert!(pair.ends[1].congestion().threshold() < 40 * 1_460);
    }
}

#[test]
fn timeouts_double_and_end_in_giving_up() {
    let mut pair = Pair::new(
        setup("4.4bsd", 1),
        setup("4.4bsd", 2),
        ms(1),
        Box::new(|_, _| vec![]),
    );
    while pair.step(Instant::ZERO + ms(10_000_000)) {}
    assert_eq!(pair.ends[0].state(), State::Closed(Closed::TimedOut));
    let at: Vec<u64> = pair
        .log
        .iter()
        .map(|(at, _, _)| at.as_nanos() / 1_000_000_000)
        .collect();
    assert_eq!(at[..6], [0, 6, 18, 42, 90, 154]);
    assert_eq!(at.len(), 13);
}

#[test]
fn a_shut_window_opens_again_even_if_the_update_is_lost() {
    let mut lose = false;
    let flag = std::cell::Cell::new(false);
    let mut pair = Pair::new(
        setup("4.4bsd", 1),
        setup("4.4bsd", 2),
        ms(5),
        Box::new(|_, segment: &Segment| {
            if flag.get() && segment.is_pure_ack() && segment.window > 0 && !lose {
                lose = true;
                return vec![];
            }
            vec![Duration::ZERO]
        }),
    );
    pair.open();
    let data = stream(16_384);
    let written = pair.ends[0].write(&data, pair.now);
    assert_eq!(written, 8_192);
    // The application does not read: the window shuts, and probing starts.
    while pair.step(Instant::ZERO + ms(3_000)) {}
    assert_eq!(pair.ends[1].readable(), 8_192);
    pair.ends[0].write(&data[written..], pair.now);
    flag.set(true);
    let mut got = pair.ends[1].read(usize::MAX);
    while pair.step(Instant::ZERO + ms(60_000)) {
        got.extend(pair.ends[1].read(usize::MAX));
    }
    assert_eq!(got, data);
}

#[test]
fn closing_with_input_unread_resets_and_the_reset_destroys_answers() {
    let mut pair = Pair::lossless("4.4bsd", ms(10));
    pair.open();
    let now = pair.now;
    pair.ends[0].write(b"one", now);
    while pair.ends[1].readable() == 0 {
        pair.step(Instant::ZERO + ms(5_000));
    }
    pair.ends[1].read(10);
    pair.ends[1].write(b"answer", pair.now);
    // The client sends another request; the server closes both halves before it arrives.
    pair.ends[0].write(b"two", pair.now);
    pair.ends[0].write(&stream(1_460), pair.now);
    pair.ends[1].close(pair.now);
    while pair.step(Instant::ZERO + ms(20_000)) {}
    assert_eq!(pair.ends[0].state(), State::Closed(Closed::Reset));
    assert_eq!(pair.ends[0].readable(), 0, "the reset discards the unread answer");
}

#[test]
fn half_closing_loses_nothing() {
    let mut pair = Pair::lossless("4.4bsd", ms(10));
    pair.open();
    pair.ends[0].write(b"one", pair.now);
    pair.ends[1].write(b"answer", pair.now);
    pair.ends[1].shutdown(pair.now);
    pair.ends[0].write(b"two", pair.now);
    pair.ends[0].shutdown(pair.now);
    while pair.step(Instant::ZERO + ms(20_000)) {}
    assert_eq!(pair.ends[0].read(99), b"answer");
    assert_eq!(pair.ends[1].read(99), b"onetwo");
    assert!(pair.ends[0].is_eof() && pair.ends[1].is_eof());
}

#[test]
fn nobody_home_answers_with_a_reset() {
    let mut lone = Endpoint::connect(setup("4.4bsd", 5), Instant::ZERO);
    let syn = lone.transmit().expect("a SYN");
    let mut closed = Endpoint::listen(setup("4.4bsd", 6));
    closed.close(Instant::ZERO);
    closed.receive(syn, Instant::ZERO);
    lone.receive(closed.transmit().expect("a reset"), Instant::ZERO);
    assert_eq!(lone.state(), State::Closed(Closed::Reset));
}

/// Counts the segments sent at once when 8 are written after a successful flight of 16 and a pause.
#[test]
fn after_idling_each_stack_restarts_as_it_does() {
    for (restart, burst) in [
        (crate::IdleRestart::Keep, 8),
        (crate::IdleRestart::One, 1),
        (crate::IdleRestart::Initial, 2),
        (crate::IdleRestart::Pace, 1),
    ] {
        let mut server = setup("linux-6", 2);
        server.stack.initial_cwnd_segments = 2;
        server.stack.idle_restart = restart;
        server.stack.send_buffer = units::Bytes(1 << 20);
        let mut pair = Pair::new(
            setup("linux-6", 1),
            server,
            ms(40),
            Box::new(|_, _| vec![Duration::ZERO]),
        );
        pair.open();
        let mss = pair.ends[1].mss() as usize;
        pair.ends[1].write(&stream(40 * mss), pair.now);
        while pair.step(Instant::ZERO + ms(5_000)) {
            pair.ends[0].read(usize::MAX);
        }
        pair.now = Instant::ZERO + ms(9_000);
        let before = pair.log.len();
        pair.ends[1].write(&stream(8 * mss), pair.now);
        pair.flush();
        assert_eq!(pair.log.len() - before, burst, "{restart:?}");
        if restart == crate::IdleRestart::Pace {
            let began = pair.now;
            while pair.step(began + ms(70)) {}
            let sent = pair.log[before..].iter().filter(|(_, side, _)| *side == 1);
            let spaced: Vec<Instant> = sent.map(|(at, _, _)| *at).collect();
            assert!(spaced.len() > 4, "{spaced:?}");
            let gaps: Vec<Duration> = spaced.windows(2).map(|pair| pair[1].since(pair[0])).collect();
            assert!(
                gaps.iter().all(|gap| *gap == gaps[0] && !gap.is_zero()),
                "{gaps:?}"
            );
        }
    }
}

#[test]
fn nagle_holds_a_small_segment_unless_told_otherwise() {
    for (no_delay, sent) in [(false, 1), (true, 2)] {
        let mut client = setup("4.4bsd", 1);
        client.no_delay = no_delay;
        let mut pair = Pair::new(
            client,
            setup("4.4bsd", 2),
            ms(5),
            Box::new(|_, _| vec![Duration::ZERO]),
        );
        pair.open();
        let before = pair.log.len();
        pair.ends[0].write(b"a", pair.now);
        pair.ends[0].write(b"b", pair.now);
        pair.flush();
        assert_eq!(pair.log.len() - before, sent);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The stream arrives whole, in order and once over any wire that sometimes delivers.
    #[test]
    fn the_stream_survives_loss_repetition_and_reordering(
        name in prop::sample::select(crate::PRESETS),
        up in 0usize..20_000,
        down in 0usize..40_000,
        fates in prop::collection::vec(0u8..20, 400),
        iss in any::<u32>(),
    ) {
        let fate: Fate<'_> = Box::new(|n, _| match fates[n as usize % fates.len()] {
            0 | 1 => vec![],
            2 => vec![Duration::ZERO, ms(3)],
            3 => vec![ms(30)],
            _ => vec![Duration::ZERO],
        });
        let mut pair = Pair::new(setup(name, iss), setup(name, !iss), ms(10), fate);
        let (data, answer) = (stream(up), stream(down));
        let (mut written, mut got) = ([0, 0], [Vec::new(), Vec::new()]);
        let until = Instant::ZERO + ms(3_000_000);
        loop {
            for side in 0..2 {
                let all = if side == 0 { &data } else { &answer };
                let now = pair.now;
                written[side] += pair.ends[side].write(&all[written[side]..], now);
                if written[side] == all.len() && pair.ends[side].is_established() {
                    pair.ends[side].shutdown(now);
                }
                got[side].extend(pair.ends[side].read(usize::MAX));
            }
            if !pair.step(until) {
                break;
            }
        }
        prop_assert!(got[1] == data, "up: {} of {}", got[1].len(), data.len());
        prop_assert!(got[0] == answer, "down: {} of {}", got[0].len(), answer.len());
        prop_assert!(pair.ends.iter().all(|end| matches!(end.state(), State::Closed(_))));
    }
}

#[test]
fn time_stamps_are_used_if_both_sides_have_them() {
    for (client, server, stamped) in [
        ("linux-6", "linux-6", true),
        ("4.4bsd", "linux-6", false),
        ("linux-6", "4.4bsd", false),
    ] {
        let mut pair = Pair::new(
            setup(client, 1),
            setup(server, 2),
            ms(40),
            Box::new(|_, _| vec![Duration::ZERO]),
        );
        pair.open();
        let (got, _) = pair.transfer(1, &stream(30_000), Instant::ZERO + ms(60_000));
        assert_eq!(got.len(), 30_000);
        assert_eq!(pair.log[0].2.stamps.is_some(), client == "linux-6");
        let most = pair.log.iter().map(|(_, _, segment)| segment.payload.len()).max();
        assert_eq!(
            most,
            Some(if stamped { 1_448 } else { 1_460 }),
            "{client} {server}"
        );
        let other = pair.log[1..]
            .iter()
            .find(|(_, _, segment)| segment.stamps.is_some() != stamped && !segment.flags.rst);
        assert!(other.is_none(), "{client} {server}: {other:?}");
        // Each side echoes a timestamp at least one one-way delay (40 ms) old.
        for (at, side, segment) in &pair.log[1..] {
            if let Some(stamps) = segment.stamps {
                let now = at.as_nanos() / 1_000_000;
                assert!(u64::from(stamps.value) <= now.max(1), "{side} {segment:?}");
                assert!(u64::from(stamps.echo) + 40 <= now.max(41), "{side} {segment:?}");
            }
        }
        // Either method measures a round trip of 80 ms.
        let smooth = pair.ends[1].rto().smooth().unwrap_or_default();
        assert!(smooth >= ms(79) && smooth < ms(100), "{smooth:?}");
    }
}

/// Delays ten data segments from the twentieth on by more than a timeout, or loses them. Returns the server's
/// retransmissions and spurious timeouts.
fn late(stamps: bool, undo: SpuriousTimeouts, lost: bool) -> (u64, u64) {
    let mut server = setup("linux-6", 7);
    server.stack.send_buffer = units::Bytes(1 << 20);
    server.stack.timestamps = stamps;
    server.stack.spurious_timeouts = undo;
    let (mut count, mut highest) = (0, 0);
    let fate: Fate<'_> = Box::new(move |n, segment: &Segment| {
        // Segments are spaced so that they arrive in the order sent.
        let width = Duration::from_micros(10 * n);
        if segment.payload.is_empty() {
            return vec![width];
        }
        count += 1;
        let end = segment.seq.wrapping_sub(7) + segment.payload.len() as u32;
        let again = end <= highest;
        highest = highest.max(end);
        match (20..30).contains(&count) {
            true if lost && !again => Vec::new(),
            true => vec![ms(350) + width],
            // Retransmissions wait in the same queue.
            false if again && !lost => vec![ms(350) + width],
            false => vec![width],
        }
    });
    let mut pair = Pair::new(setup("linux-6", 9), server, ms(50), fate);
    pair.open();
    let data = stream(200_000);
    let (got, _) = pair.transfer(1, &data, Instant::ZERO + ms(600_000));
    assert!(got == data, "{} bytes", got.len());
    (pair.ends[1].retransmitted(), pair.ends[1].spurious_timeouts())
}

#[test]
fn a_spurious_timeout_is_noticed_and_costs_one_segment() {
    use SpuriousTimeouts::{GoBack, Undo};
    let back = late(true, GoBack, false);
    assert!(back.0 > 5 && back.1 == 0, "{back:?}");
    // By timestamps (RFC 3522), and without them by F-RTO (RFC 5682).
    for stamps in [true, false] {
        let undone = late(stamps, Undo, false);
        assert!(
            undone.0 < back.0 / 2 && undone.1 > 0,
            "stamps {stamps}: {undone:?}, {back:?}"
        );
    }
}

#[test]
fn a_loss_is_not_taken_for_a_delay() {
    for stamps in [true, false] {
        let (again, spurious) = late(stamps, SpuriousTimeouts::Undo, true);
        assert!(again >= 10, "stamps {stamps}: {again}");
        assert_eq!(spurious, 0, "stamps {stamps}");
    }
}

/// Sends an answer of 60 segments and loses the data segments numbered in `lost`, counted from 1 in the order
/// sent. Returns the number of retransmissions, when the last byte was read, and the number of ranges in each
/// of the client's reports.
fn answer_with_losses(change: impl Fn(&mut Stack), lost: &'static [u64]) -> (u64, Instant, Vec<usize>) {
    let mut server = setup("linux-6", 7);
    server.stack.send_buffer = units::Bytes(1 << 20);
    server.stack.initial_cwnd_segments = 60;
    change(&mut server.stack);
    let mut count = 0;
    let fate: Fate<'_> = Box::new(move |n, segment: &Segment| {
        count += u64::from(!segment.payload.is_empty());
        match !segment.payload.is_empty() && lost.contains(&count) {
            true => vec![],
            // Spaced so that segments stay in order.
            false => vec![Duration::from_micros(10 * n)],
        }
    });
    let mut client = setup("linux-6", 9);
    client.stack.recv_buffer = units::Bytes(1 << 20);
    let mut pair = Pair::new(client, server, ms(50), fate);
    pair.open();
    let data = stream(60 * 1_448);
    let (got, last) = pair.transfer(1, &data, Instant::ZERO + ms(600_000));
    assert!(got == data, "{} bytes", got.len());
    let reports = pair
        .log
        .iter()
        .filter(|(_, side, segment)| *side == 0 && !segment.sacks.is_empty());
    (
        pair.ends[1].retransmitted(),
        last,
        reports.map(|(_, _, segment)| segment.sacks.len()).collect(),
    )
}

#[test]
fn several_losses_of_one_flight_are_repaired_in_one_round_trip_and_nothing_else_is_sent_again() {
    const LOST: &[u64] = &[5, 9, 10, 23, 31, 32, 33, 44];
    let (again, with, reports) = answer_with_losses(|_| {}, LOST);
    assert_eq!(again, LOST.len() as u64);
    // With timestamps, three ranges fit.
    assert_eq!(reports.iter().max(), Some(&3));
    // Handshake, flight and repair, half of the window at a time, without a timeout of 200 ms.
    let (none, whole, _) = answer_with_losses(|_| {}, &[]);
    assert_eq!(none, 0);
    assert!(with.since(whole) < ms(150), "{:?}", with.since(whole));
    let (_, without, silent) = answer_with_losses(|stack| stack.selective_acks = false, LOST);
    assert!(silent.is_empty());
    assert!(without.since(whole) > ms(400), "{:?}", without.since(whole));
}

#[test]
fn a_repetition_that_is_lost_too_waits_for_the_timer_and_what_arrived_is_not_sent_again() {
    // The 61st data segment is the first retransmission.
    let (again, last, _) = answer_with_losses(|_| {}, &[5, 9, 61]);
    assert_eq!(again, 3);
    let (_, whole, _) = answer_with_losses(|_| {}, &[]);
    let late = last.since(whole);
    assert!(late > ms(200) && late < ms(700), "{late:?}");
}

#[test]
fn the_last_segments_of_an_answer_need_the_timer_only_if_nothing_follows_them() {
    let (again, ..) = answer_with_losses(|_| {}, &[60]);
    assert_eq!(again, 1);
    let (again, last, _) = answer_with_losses(|_| {}, &[58]);
    assert_eq!(again, 1);
    let (_, whole, _) = answer_with_losses(|_| {}, &[]);
    // Only two segments follow the gap, not three: the timer repairs it, as without RACK-TLP.
    assert!(last.since(whole) >= ms(190), "{:?}", last.since(whole));
}

/// Returns the largest flight of a long answer, and the options each SYN offers.
fn flight(client: Setup, server: Setup) -> (u64, [(Option<u8>, bool); 2]) {
    // Spaced so that no segment overtakes another.
    let fate: Fate<'_> = Box::new(|n, _| vec![Duration::from_micros(n)]);
    let mut pair = Pair::new(client, server, ms(50), fate);
    pair.open();
    let mut largest = 0;
    let (mut written, data) = (0, stream(2_000_000));
    while written < data.len() || pair.ends[1].unacknowledged() > 0 {
        written += pair.ends[1].write(&data[written..], pair.now);
        pair.flush();
        largest = largest.max(pair.ends[1].sender.flight());
        pair.ends[0].read(usize::MAX);
        assert!(pair.step(Instant::ZERO + ms(600_000)));
    }
    let offered = |side: usize| {
        let mut syns = pair
            .log
            .iter()
            .filter(|(_, from, segment)| *from == side && segment.flags.syn);
        syns.next()
            .map(|(_, _, syn)| (syn.window_scale, syn.sack_permitted))
            .expect("a SYN")
    };
    (largest, [offered(0), offered(1)])
}

#[test]
fn windows_are_scaled_if_both_sides_do_so() {
    let today = |iss| {
        let mut setup = setup("linux-6", iss);
        setup.stack.send_buffer = units::Bytes(1 << 20);
        setup.stack.recv_buffer = units::Bytes(300_000);
        setup
    };
    let (largest, offers) = flight(today(1), today(2));
    assert_eq!(offers, [(Some(7), true); 2]);
    // The receiver's free buffer, rounded down to units of the scale.
    assert!((299_000..=300_000).contains(&largest), "{largest}");
    let (largest, offers) = flight(setup("4.4bsd", 1), today(2));
    assert_eq!(offers, [(None, false); 2]);
    assert!(largest <= 65_535, "{largest}");
    let (_, offers) = flight(today(1), setup("4.4bsd", 2));
    assert_eq!(offers, [(Some(7), true), (None, false)]);
}

#[test]
fn no_stack_of_the_period_offers_what_it_did_not_have() {
    for name in crate::PRESETS.iter().filter(|name| **name != "linux-6") {
        let stack = Stack::preset(name).expect(name);
        assert!(!stack.selective_acks && stack.window_scale.is_none(), "{name}");
        let mut pair = Pair::lossless(name, ms(5));
        pair.open();
        for (_, _, segment) in &pair.log {
            let has_any =
                segment.sack_permitted || segment.window_scale.is_some() || !segment.sacks.is_empty();
            assert!(!has_any, "{name}: {segment:?}");
        }
    }
}
