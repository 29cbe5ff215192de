//! Links as tables: packets in and out in virtual time, and properties of every link.

use crate::{
    Bottleneck, Cause, Datagram, Delay, Direction, Discipline, Framing, Jitter, Limits, OPPORTUNITY, Packet,
    Path, Profile, Queue, Server, Trace, Verdict,
};
use proptest::prelude::*;
use std::fmt::Write;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Rate, Seed};

/// A packet with a size and a number.
#[derive(Clone, Debug, PartialEq)]
struct Probe {
    name: usize,
    size: u64,
}

impl Packet for Probe {
    fn size(&self) -> Bytes {
        Bytes(self.size)
    }
}

fn us(n: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(n)
}

fn profile(text: &str) -> Profile {
    let mut files = |_: &str| Ok("2\n2\n7\n10\n".to_owned());
    Profile::parse(text, &Limits::default(), &mut files).expect(text)
}

/// Sends packets of (microseconds, bytes) upstream and lists when each arrived.
fn table(text: &str, packets: &[(u64, u64)]) -> String {
    let mut path = Path::new(&profile(text), Seed(1), &Limits::default());
    let mut fate = vec![String::from("lost on the way"); packets.len()];
    let mut take = |path: &mut Path<Probe>, until: Instant| {
        while let Some(at) = path.next_departure().filter(|at| *at <= until) {
            while let Some(packet) = path.receive(Direction::Up, at) {
                fate[packet.name] = format!("{:.3}", at.as_nanos() as f64 / 1e6);
            }
        }
    };
    let mut refused = vec![None; packets.len()];
    for (name, &(at, size)) in packets.iter().enumerate() {
        take(&mut path, us(at));
        if let Verdict::Dropped(cause) = path.send(Direction::Up, Probe { name, size }, us(at)) {
            refused[name] = Some(cause);
        }
    }
    take(&mut path, Instant::from_nanos(u64::MAX - 1));
    let mut out = format!("{text}\n   in ms  bytes  out ms\n");
    for (name, &(at, size)) in packets.iter().enumerate() {
        let fate = match refused[name] {
            Some(cause) => format!("refused: {cause:?}"),
            None => fate[name].clone(),
        };
        writeln!(out, "{:8.3} {size:6}  {fate}", at as f64 / 1e3).expect("a string");
    }
    out
}

const BURST: &[(u64, u64)] = &[
    (0, 1500),
    (0, 1500),
    (100, 40),
    (200, 1500),
    (200, 1501),
    (300, 576),
    (40_000, 1500),
];

#[test]
fn a_burst_over_each_kind_of_link() {
    let all: Vec<String> = [
        "rate=none",
        "delay=10ms",
        "rate=10M",
        "rate=10M delay=1ms framing=ethernet mtu=1500",
        "rate=10M queue=2p",
        "rate=10M queue=3000",
        "trace=t",
        "delay=10ms jitter=5ms",
        "delay=10ms jitter=5ms reorder=yes",
        "rate=10M loss=burst:30%,50% delay=1ms",
        "lan",
        "ppp",
    ]
    .iter()
    .map(|text| table(text, BURST))
    .collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn codel_keeps_the_standing_queue_near_its_target() {
    // One packet of 1,500 bytes per millisecond, 20 % above the link's 10 Mbit/s, for ten seconds.
    let mut worst = [Duration::ZERO; 2];
    let mut dropped = [0; 2];
    for (k, text) in ["rate=10M queue=1000p", "rate=10M queue=codel"]
        .iter()
        .enumerate()
    {
        let mut path = Path::new(&profile(text), Seed(1), &Limits::default());
        let mut sent = Vec::new();
        for name in 0..10_000 {
            let now = us(1_000 * name as u64);
            while let Some(packet) = path.receive(Direction::Up, now) {
                let Probe { name, .. } = packet;
                let waited = now.since(sent[name]);
                if now > us(9_000_000) {
                    worst[k] = worst[k].max(waited);
                }
            }
            sent.push(now);
            path.send(Direction::Up, Probe { name, size: 1_500 }, now);
        }
        dropped[k] = path.counters(Direction::Up).dropped.total();
    }
    assert!(worst[0] > Duration::from_millis(1_000), "{worst:?}");
    assert!(worst[1] < Duration::from_millis(200), "{worst:?}");
    assert!(dropped[1] > 1_000, "{dropped:?}");
}

#[test]
fn a_half_duplex_medium_serves_both_directions_in_turn() {
    let mut path = Path::new(&profile("rate=10M half-duplex=yes"), Seed(1), &Limits::default());
    path.send(Direction::Up, Probe { name: 0, size: 1_250 }, us(0));
    path.send(Direction::Down, Probe { name: 1, size: 1_250 }, us(0));
    assert_eq!(path.receive(Direction::Down, us(1_999)), None);
    assert!(path.receive(Direction::Up, us(1_999)).is_some());
    assert!(path.receive(Direction::Down, us(2_000)).is_some());
    assert_eq!(path.next_departure(), None);
}

#[test]
fn bounds_are_reached_and_counted() {
    let limits = Limits {
        in_flight_max: 2,
        queue_packets_max: 3,
        ..Limits::default()
    };
    let probe = |name| Probe { name, size: 100 };
    let mut delay = Delay::new(Duration::from_secs(1), limits.in_flight_max);
    for name in 0..3 {
        delay.enqueue(probe(name), us(0));
    }
    assert_eq!(delay.counters().dropped.limit, 1);
    let mut line = Bottleneck::new(Server::Rate(Rate(0)), Framing::IP, Discipline::default(), &limits);
    // One packet in a transmission that never ends, three waiting.
    for name in 0..5 {
        line.enqueue(probe(name), us(0));
    }
    assert_eq!(line.counters().dropped.full, 1);
    assert_eq!(line.enqueue(probe(5), us(1)), Verdict::Dropped(Cause::Full));
}

#[test]
fn a_late_driver_sees_the_same_packets() {
    for text in [
        "rate=10M delay=3ms jitter=1ms",
        "trace=t delay=1ms",
        "rate=1M queue=codel loss=5%",
    ] {
        let run = |step: u64| {
            let mut path = Path::new(&profile(text), Seed(3), &Limits::default());
            let mut out = Vec::new();
            for t in 0..2_000u64 {
                let now = us(t * 100);
                if t % 3 == 0 && t < 1_500 {
                    path.send(
                        Direction::Up,
                        Probe {
                            name: t as usize,
                            size: 700,
                        },
                        now,
                    );
                }
                if t % step == 0 || t == 1_999 {
                    out.extend(core::iter::from_fn(|| path.receive(Direction::Up, now)).map(|p| p.name));
                }
            }
            (out, path.counters(Direction::Up))
        };
        assert_eq!(run(1), run(37), "{text}");
    }
}

#[test]
fn a_trace_at_a_steady_rate_delivers_that_rate() {
    let trace = Trace::steady(Duration::from_millis(1), 10);
    assert_eq!(trace.rate(), Rate::mbit(12));
    let mut line = Bottleneck::new(
        Server::Trace(Arc::new(trace)),
        Framing::IP,
        Discipline::default(),
        &Limits::default(),
    );
    for name in 0..100 {
        line.enqueue(
            Probe {
                name,
                size: OPPORTUNITY.0,
            },
            us(0),
        );
    }
    let by_then = core::iter::from_fn(|| line.dequeue(us(50_000))).count();
    assert_eq!(by_then, 50);
}

/// Links of every kind, as the text a user would write.
fn links() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("rate=none"),
        Just("rate=56k"),
        Just("rate=10M"),
        Just("trace=t"),
        Just("rate=1M half-duplex=yes"),
    ];
    let queue = prop_oneof![Just("5p"), Just("4000"), Just("codel:1ms,5ms,20p")];
    let loss = prop_oneof![Just("0"), Just("20%"), Just("burst:10%,30%")];
    let jitter = prop_oneof![Just("0"), Just("4ms"), Just("normal:2ms")];
    (line, queue, loss, jitter, 0u64..20).prop_map(|(line, queue, loss, jitter, delay)| {
        format!("{line} queue={queue} loss={loss} jitter={jitter} delay={delay}ms mtu=1400")
    })
}

proptest! {
    #[test]
    fn packets_are_delivered_once_in_order_and_none_is_forgotten(
        text in links(),
        seed in any::<u64>(),
        packets in prop::collection::vec((0u64..3_000, 40u64..1_500), 1..200),
    ) {
        let mut path = Path::new(&profile(&text), Seed(seed), &Limits::default());
        let (mut now, mut got) = (0, Vec::new());
        let entered = packets.len() as u64;
        for (name, (gap, size)) in packets.into_iter().enumerate() {
            now += gap;
            path.send(Direction::Up, Probe { name, size }, us(now));
            got.extend(core::iter::from_fn(|| path.receive(Direction::Up, us(now))).map(|p| p.name));
            let c = path.counters(Direction::Up);
            prop_assert_eq!(c.entered, c.left + c.dropped.total() + c.waiting);
        }
        while let Some(at) = path.next_departure() {
            got.extend(core::iter::from_fn(|| path.receive(Direction::Up, at)).map(|p| p.name));
        }
        let c = path.counters(Direction::Up);
        prop_assert_eq!((c.entered, c.waiting), (entered, 0));
        prop_assert_eq!(got.len() as u64, c.left);
        prop_assert!(got.is_sorted_by(|a, b| a < b), "{:?}", got);
    }

    #[test]
    fn a_line_is_never_faster_than_its_rate(
        rate in 1_000u64..100_000_000,
        packets in prop::collection::vec((0u64..5_000, 40u64..1_500), 1..200),
        framing in prop_oneof![Just(Framing::IP), Just(Framing::ETHERNET), Just(Framing::PPP)],
    ) {
        let mut line = Bottleneck::new(
            Server::Rate(Rate(rate)), framing, Discipline::default(), &Limits::default(),
        );
        let mut now = 0;
        for (name, (gap, size)) in packets.into_iter().enumerate() {
            now += gap;
            line.enqueue(Probe { name, size }, us(now));
        }
        let mut done: Option<Instant> = None;
        while let Some(at) = line.next_departure() {
            let Some(packet) = line.dequeue(at) else { continue };
            let bits = (packet.size.max(framing.padded_to.0) + framing.per_packet.0) * 8;
            if let Some(before) = done {
                let passed = u128::from(at.as_nanos() - before.as_nanos());
                prop_assert!(passed * u128::from(rate) >= u128::from(bits) * 1_000_000_000);
            }
            done = Some(at);
        }
    }
}

#[test]
fn jitter_stays_in_its_range() {
    let mut delay = Delay::with_jitter(
        Duration::from_millis(10),
        Jitter::Normal(Duration::from_millis(4)),
        true,
        Seed(9),
        10_000,
    );
    for name in 0..10_000 {
        delay.enqueue(Probe { name, size: 1 }, us(0));
    }
    let mut sum = 0.0;
    let mut n = 0.0;
    while let Some(at) = delay.next_departure() {
        delay.dequeue(at).expect("due");
        sum += at.as_nanos() as f64 / 1e6;
        n += 1.0;
        assert!(at <= us(34_000));
    }
    assert!((sum / n - 10.0f64).abs() < 0.15, "{}", sum / n);
}

#[test]
fn raw_packets_travel_too() {
    let mut path = Path::new(&profile("delay=1ms"), Seed(1), &Limits::default());
    path.send(Direction::Down, Datagram::new(vec![0x45; 20]), us(0));
    assert_eq!(
        path.receive(Direction::Down, us(1_000)).map(Datagram::into_bytes),
        Some(vec![0x45; 20])
    );
}
