//! Two hosts driven as a driver of real programs drives them: what crosses the link is read from the packets.

use super::*;

fn ms(n: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(n)
}

fn host(name: &str) -> BridgeHost {
    BridgeHost {
        stack: Stack::preset(name).expect(name),
        no_delay: false,
    }
}

fn profile(link: &str) -> Profile {
    let mut no_files = |name: &str| Err(format!("no file {name}"));
    Profile::parse(link, &link::Limits::default(), &mut no_files).expect(link)
}

fn bridge(link: &str, near: &str, far: &str) -> Bridge {
    limited(link, near, far, BridgeLimits::default())
}

fn limited(link: &str, near: &str, far: &str, limits: BridgeLimits) -> Bridge {
    let hosts = [&host(near), &host(far)];
    Bridge::new(&profile(link), hosts, Seed(7), limits, true)
}

fn pair(port: u16) -> Pair {
    Pair {
        near: SocketAddrV4::new([198, 18, 0, 2].into(), port),
        far: SocketAddrV4::new([198, 18, 0, 1].into(), 80),
    }
}

/// Runs to `until` and returns the events. The far host accepts, refuses or ignores each SYN.
fn run(bridge: &mut Bridge, until: Instant, decide: fn(&mut Bridge, Pair)) -> Vec<Turn> {
    let mut turns = Vec::new();
    loop {
        let due = bridge.next_due().filter(|due| *due <= until);
        bridge.advance(due.unwrap_or(until));
        while let Some(turn) = bridge.turn() {
            if let Turn::Asked(pair) = turn {
                decide(bridge, pair);
            }
            turns.push(turn);
        }
        if due.is_none() {
            return turns;
        }
    }
}

/// A connection that is open on both sides, at 200 ms.
fn opened(link: &str, near: &str, far: &str) -> Bridge {
    let mut bridge = bridge(link, near, far);
    assert!(bridge.connect(pair(1)));
    let turns = run(&mut bridge, ms(200), Bridge::accept);
    assert!(turns.contains(&Turn::Opened(pair(1))), "{turns:?}");
    bridge
}

fn passed(bridge: &mut Bridge) -> Vec<(Instant, Direction, Segment)> {
    std::iter::from_fn(|| bridge.passing())
        .map(|passing| {
            let (.., segment) = parse_ipv4_packet(&passing.packet).expect("a segment");
            (passing.at, passing.direction, segment)
        })
        .collect()
}

#[test]
fn the_first_flight_is_the_stacks_initial_window() {
    for (stack, segments) in [
        ("solaris-2.5", 1),
        ("4.4bsd", 2),
        ("sunos-4.1.3", 2),
        ("linux-6", 10),
    ] {
        let mut bridge = opened("rtt=100ms", "linux-6", stack);
        let sent = bridge.write(pair(1), Side::Far, &[b'x'; 20_000]);
        assert!(sent >= 2 * 1_448, "{stack}: {sent}");
        run(&mut bridge, ms(290), Bridge::accept);
        let flight = passed(&mut bridge)
            .iter()
            .filter(|(_, direction, segment)| *direction == Direction::Down && !segment.payload.is_empty())
            .count();
        assert_eq!(flight, segments, "{stack}");
    }
}

#[test]
fn the_delayed_ack_is_the_stacks() {
    for (stack, delay) in [("solaris-2.5", 50), ("windows-nt-4.0", 200)] {
        let mut bridge = opened("rtt=20ms", stack, "4.4bsd");
        bridge.write(pair(1), Side::Far, &[b'x'; 100]);
        run(&mut bridge, ms(1_000), Bridge::accept);
        let packets = passed(&mut bridge);
        let data = packets
            .iter()
            .position(|(.., segment)| !segment.payload.is_empty());
        let data = data.expect("the data");
        assert_eq!(packets[data].0, ms(210), "{stack}");
        assert_eq!(packets[data + 1].0, ms(210 + delay), "{stack}");
        assert!(packets[data + 1].2.is_pure_ack(), "{stack}");
    }
}

#[test]
fn segments_fit_both_the_stack_and_the_link() {
    for (link, near, far) in [
        ("rtt=20ms", 1_460, 1_460),
        ("rtt=20ms mtu=576", 536, 536),
        ("rtt=20ms mtu=9000", 1_460, 1_460),
        ("rtt=20ms up.mtu=576", 1_460, 536),
    ] {
        let mut bridge = opened(link, "4.4bsd", "4.4bsd");
        bridge.write(pair(1), Side::Near, &[b'x'; 4_000]);
        bridge.write(pair(1), Side::Far, &[b'x'; 4_000]);
        run(&mut bridge, ms(3_000), Bridge::accept);
        let packets = passed(&mut bridge);
        let announced: Vec<_> = packets.iter().filter_map(|(.., segment)| segment.mss).collect();
        // Each host announces what fits the packets that reach it, and sends no more than it announces.
        assert_eq!(announced, [near, far], "{link}");
        for direction in [Direction::Up, Direction::Down] {
            let sizes = packets.iter().filter(|packet| packet.1 == direction);
            let largest = sizes.map(|(.., segment)| segment.payload.len()).max();
            assert_eq!(largest, Some(usize::from(near.min(far))), "{link}");
            assert_eq!(bridge.counters(direction).dropped.total(), 0, "{link}");
        }
    }
}

#[test]
fn nagles_algorithm_is_the_hosts() {
    for (no_delay, at_once) in [(false, 1), (true, 2)] {
        let far = BridgeHost {
            no_delay,
            ..host("4.4bsd")
        };
        let hosts = [&host("4.4bsd"), &far];
        let limits = BridgeLimits::default();
        let mut bridge = Bridge::new(&profile("rtt=20ms"), hosts, Seed(7), limits, true);
        assert!(bridge.connect(pair(1)));
        run(&mut bridge, ms(100), Bridge::accept);
        bridge.write(pair(1), Side::Far, b"small");
        bridge.write(pair(1), Side::Far, b"and small");
        run(&mut bridge, ms(111), Bridge::accept);
        let packets = passed(&mut bridge);
        let data = packets.iter().filter(|(.., segment)| !segment.payload.is_empty());
        assert_eq!(data.count(), at_once, "no_delay {no_delay}");
    }
}

#[test]
fn a_refusal_is_a_reset_one_round_trip_later() {
    let mut bridge = bridge("rtt=80ms", "4.4bsd", "4.4bsd");
    assert!(bridge.connect(pair(1)));
    run(&mut bridge, ms(79), Bridge::refuse);
    assert_eq!(bridge.ended(pair(1), Side::Near), None);
    let turns = run(&mut bridge, ms(80), Bridge::refuse);
    assert_eq!(turns, [Turn::Moved(pair(1), Side::Near)]);
    assert_eq!(bridge.ended(pair(1), Side::Near), Some(Closed::Reset));
    bridge.release(pair(1), Side::Near);
    assert_eq!((bridge.hosts[0].ends.len(), bridge.next_due()), (0, None));
}

#[test]
fn a_syn_without_an_answer_is_repeated_until_the_stack_gives_up() {
    let mut bridge = bridge("rtt=80ms", "4.4bsd", "4.4bsd");
    assert!(bridge.connect(pair(1)));
    let turns = run(&mut bridge, ms(3_600_000), Bridge::ignore);
    let asked = turns.iter().filter(|turn| **turn == Turn::Asked(pair(1))).count();
    assert_eq!(asked, 13, "the SYN and as many repetitions as expiries");
    assert_eq!(bridge.ended(pair(1), Side::Near), Some(Closed::TimedOut));
    assert_eq!(turns.last(), Some(&Turn::Moved(pair(1), Side::Near)));
}

#[test]
fn a_reader_that_stops_stops_the_writer_and_loses_nothing() {
    let mut bridge = opened("rtt=20ms rate=1M", "4.4bsd", "4.4bsd");
    let stream: Vec<u8> = (0..60_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    let (mut written, mut now) = (0, ms(200));
    let mut push = |bridge: &mut Bridge, now: &mut Instant, times: u32| {
        for _ in 0..times {
            written += bridge.write(pair(1), Side::Near, &stream[written..]);
            *now = *now + Duration::from_millis(10);
            run(bridge, *now, Bridge::accept);
        }
        written
    };
    let stopped = push(&mut bridge, &mut now, 2_000);
    // Two buffers of 8 KiB; the receiver's last bytes may be too few to be offered.
    assert!((14_000..=16_384).contains(&stopped), "{stopped}");
    assert_eq!(bridge.room(pair(1), Side::Near), 0);
    // However long the reader waits: the sender probes the shut window and does not give up.
    now = now + Duration::from_secs(7_200);
    run(&mut bridge, now, Bridge::accept);
    assert_eq!(bridge.ended(pair(1), Side::Near), None);
    let mut read = Vec::new();
    for _ in 0..4_000 {
        read.extend(bridge.read(pair(1), Side::Far, 4_096));
        push(&mut bridge, &mut now, 1);
    }
    assert!(read == stream, "{} of {} bytes", read.len(), stream.len());
}

#[test]
fn each_half_closes_alone_and_nothing_remains() {
    let mut bridge = opened("rtt=20ms", "solaris-2.5", "4.4bsd");
    bridge.write(pair(1), Side::Near, b"request");
    bridge.shutdown(pair(1), Side::Near);
    run(&mut bridge, ms(300), Bridge::accept);
    assert!(!bridge.is_eof(pair(1), Side::Far), "not before it is read");
    assert_eq!(bridge.read(pair(1), Side::Far, 100), b"request");
    assert!(bridge.is_eof(pair(1), Side::Far));
    assert_eq!(
        (
            bridge.room(pair(1), Side::Near),
            bridge.is_eof(pair(1), Side::Near)
        ),
        (0, false)
    );
    assert_eq!(bridge.write(pair(1), Side::Far, b"response"), 8);
    run(&mut bridge, ms(400), Bridge::accept);
    assert_eq!(bridge.read(pair(1), Side::Near, 100), b"response");
    bridge.shutdown(pair(1), Side::Far);
    run(&mut bridge, ms(500), Bridge::accept);
    assert!(bridge.is_eof(pair(1), Side::Near));
    for side in [Side::Near, Side::Far] {
        bridge.release(pair(1), side);
    }
    // The side that closed first waits in TIME_WAIT.
    assert_eq!(bridge.hosts.each_ref().map(|host| host.ends.len()), [1, 0]);
    run(&mut bridge, ms(61_000), Bridge::accept);
    assert_eq!((bridge.hosts[0].ends.len(), bridge.next_due()), (0, None));
}

#[test]
fn a_reset_crosses_the_link() {
    for (from, to) in [(Side::Near, Side::Far), (Side::Far, Side::Near)] {
        let mut bridge = opened("rtt=20ms", "4.4bsd", "linux-2.0");
        bridge.abort(pair(1), from);
        bridge.release(pair(1), from);
        run(&mut bridge, ms(209), Bridge::accept);
        assert_eq!(bridge.ended(pair(1), to), None);
        run(&mut bridge, ms(210), Bridge::accept);
        assert_eq!(bridge.ended(pair(1), to), Some(Closed::Reset));
        // Whoever still writes there is not answered twice: nothing is on its way.
        assert_eq!(bridge.write(pair(1), to, b"late"), 0);
        assert_eq!(bridge.next_due(), None);
    }
}

#[test]
fn a_segment_without_a_connection_is_answered_with_a_reset() {
    let mut bridge = opened("rtt=20ms", "4.4bsd", "4.4bsd");
    // The far host has forgotten the connection, as after a restart.
    bridge.hosts[Side::Far as usize].remove(pair(1));
    bridge.write(pair(1), Side::Near, b"hello");
    run(&mut bridge, ms(220), Bridge::accept);
    assert_eq!(bridge.ended(pair(1), Side::Near), Some(Closed::Reset));
}

#[test]
fn connections_and_waits_are_bounded() {
    let limits = || BridgeLimits {
        connections_max: 2,
        ..BridgeLimits::default()
    };
    let mut bridge = limited("rtt=2ms", "4.4bsd", "4.4bsd", limits());
    assert!(bridge.connect(pair(1)) && bridge.connect(pair(2)));
    assert!(!bridge.connect(pair(3)), "the third of two");
    assert!(!bridge.connect(pair(1)), "the addresses are in use");
    let mut now = ms(0);
    for port in 1..20 {
        if port > 2 {
            assert!(bridge.connect(pair(port)), "{port}");
        }
        now = now + Duration::from_millis(50);
        run(&mut bridge, now, Bridge::accept);
        for side in [Side::Near, Side::Far] {
            bridge.shutdown(pair(port), side);
            now = now + Duration::from_millis(50);
            run(&mut bridge, now, Bridge::accept);
        }
        for side in [Side::Near, Side::Far] {
            bridge.release(pair(port), side);
        }
        assert!(bridge.hosts[0].ends.len() <= 4, "{port}: TIME_WAIT is bounded");
    }
    assert_eq!(bridge.hosts[0].ends.len(), 4);
    // A new connection takes the place of one in TIME_WAIT between the same addresses.
    assert!(bridge.connect(pair(19)));
    now = now + Duration::from_millis(50);
    assert!(run(&mut bridge, now, Bridge::accept).contains(&Turn::Opened(pair(19))));

    // SYNs that wait for a decision count, too.
    let mut bridge = limited("rtt=2ms", "4.4bsd", "4.4bsd", BridgeLimits::default());
    bridge.limits.connections_max = 2;
    for port in 1..=2 {
        assert!(bridge.connect(pair(port)));
    }
    bridge.limits.connections_max = 1;
    let turns = run(&mut bridge, ms(10), |_, _| {});
    assert_eq!(turns, [Turn::Asked(pair(1))]);
}

#[test]
fn a_late_driver_changes_no_packet() {
    let start = || {
        let mut bridge = opened("rtt=30ms rate=56k", "windows-nt-4.0", "solaris-2.5");
        bridge.write(pair(1), Side::Far, &[b'x'; 8_000]);
        bridge
    };
    let mut exact = start();
    run(&mut exact, ms(20_000), Bridge::accept);
    let mut late = start();
    late.advance(ms(20_000));
    let (exact, late) = (passed(&mut exact), passed(&mut late));
    assert!(exact.len() > 10);
    assert_eq!(exact, late);
}

#[test]
fn streams_survive_loss_in_both_directions() {
    for (near, far) in [
        ("sunos-4.1.3", "solaris-2.5"),
        ("linux-6", "linux-6"),
        ("linux-2.0", "4.4bsd"),
    ] {
        let mut bridge = opened("rtt=20ms rate=2M loss=5%", near, far);
        let stream: Vec<u8> = (0..100_000_u32).map(|n| ((n * 13) >> 2) as u8).collect();
        let mut progress = [(0, Vec::new()), (0, Vec::new())];
        let mut now = ms(200);
        while progress.iter().any(|(_, read)| read.len() < stream.len()) {
            assert!(now < ms(3_600_000), "{near} and {far}");
            for side in [Side::Near, Side::Far] {
                let (written, read) = &mut progress[side as usize];
                *written += bridge.write(pair(1), side, &stream[*written..]);
                read.extend(bridge.read(pair(1), side, 4_096));
            }
            let next = now + Duration::from_millis(5);
            now = bridge.next_due().map_or(next, |due| due.max(next));
            run(&mut bridge, now, Bridge::accept);
        }
        assert!(
            progress.iter().all(|(_, read)| *read == stream),
            "{near} and {far}"
        );
        assert!(bridge.counters(Direction::Up).dropped.loss > 0);
    }
}
