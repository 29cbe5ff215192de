//! The congestion window after idle time and its effect on the next reply: document 001, section 2.4.
//!
//! Simulates a reply, a pause longer than any timeout, and another reply, over the WAN of document 003 with a
//! queue of a few packets at the bottleneck. The paper names the policies (keep, reset, decay, pace at the
//! previous rate) but measured none, so these figures have no published counterpart.

use crate::heidemann::{Pace, Server, client, us};
use link::{Direction, Profile};
use netsim::{HostSetup, Limits, Logged, World};
use tcp::{IdleRestart, Setup, Stack};
use units::{Bytes, Duration, Instant, Seed};

/// When the second request is sent.
const AGAIN: Instant = Instant::from_nanos(4_000_000_000);
/// Bytes of each reply.
const REPLY: usize = 40_000;
/// Buffers of both hosts, in bytes; the paper asks for at least 16 KB on such a path.
const BUFFER: Bytes = Bytes(32_768);
/// Paths with a short queue in front of the bottleneck, and with one that holds a whole window.
pub const PATHS: [&str; 2] = [
    "rate=1.5M delay=44.5ms queue=6p mtu=1500",
    "rate=1.5M delay=44.5ms queue=30p mtu=1500",
];

/// The policies with their names in results.
pub const POLICIES: [(&str, IdleRestart); 4] = [
    ("keep", IdleRestart::Keep),
    ("reset", IdleRestart::One),
    ("decay", IdleRestart::Decay),
    ("pace", IdleRestart::Pace),
];

/// The outcome of a pause.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// Segments of the largest flight before the pause.
    pub flight_before: usize,
    /// Segments sent after the pause before the first ACK arrived.
    pub first_flight: usize,
    /// Milliseconds between the first and the last of them.
    pub spread_ms: f64,
    /// Lost segments of the second reply.
    pub lost: usize,
    /// Seconds from the second request to the last byte of its reply.
    pub seconds: f64,
}

impl Resumed {
    /// Whether slow start began again: one segment, after a larger flight before.
    pub fn is_restart(&self) -> bool {
        self.flight_before > 1 && self.first_flight == 1
    }
}

/// Simulates a server with the stack `name` over `path`; `policy` replaces the stack's own.
pub fn resumed(name: &str, policy: Option<IdleRestart>, path: &str) -> Resumed {
    let profile = Profile::parse(path, &link::Limits::default(), &mut |_| Err(String::new()))
        .expect("the paths are constants that tests parse");
    let host = |stack: Stack| HostSetup {
        tcp: Setup {
            no_delay: true,
            ..Setup::new(stack, 0)
        },
        read_time: us(300),
        read_max: 65_536,
        line_gain: 1.0,
    };
    let preset = |name: &str| {
        let mut stack = Stack::preset(name).expect("the names are constants that tests look up");
        stack.send_buffer = BUFFER;
        stack.recv_buffer = BUFFER;
        stack.slow_start_on_lan = true;
        stack
    };
    let mut stack = preset(name);
    if let Some(policy) = policy {
        stack.idle_restart = policy;
    }
    let mut script = client(vec![(200, REPLY + 226), (200, REPLY + 226)]);
    script.pace = Pace::At(AGAIN);
    let server = Server {
        bodies: vec![REPLY],
        served: 0,
        think: us(2_000),
        gap: us(0),
        separate_headers: false,
        no_delay: true,
        persistent: true,
    };
    let mut world = World::new(
        &profile,
        (host(preset("windows-nt-4.0")), Box::new(script)),
        (host(stack), Box::new(server)),
        Seed(1),
        Limits::default(),
    );
    world.run(AGAIN + Duration::from_secs(120));
    read(world.log())
}

fn read(log: &[Logged]) -> Resumed {
    let data = |from: Instant, to: Instant| {
        log.iter().filter(move |logged| {
            logged.direction == Direction::Down
                && !logged.segment.payload.is_empty()
                && logged.sent >= from
                && logged.sent < to
        })
    };
    let never = Instant::from_nanos(u64::MAX);
    // The first ACK of data of the second reply.
    let begins = data(AGAIN, never).next().map_or(never, |logged| logged.sent);
    let acked = log
        .iter()
        .filter(|logged| logged.direction == Direction::Up && logged.segment.payload.is_empty())
        .filter_map(|logged| logged.arrived)
        .find(|arrived| *arrived > begins)
        .unwrap_or(never);
    // Retransmissions in that time do not count.
    let mut seen = Vec::new();
    let mut first: Vec<Instant> = Vec::new();
    for logged in data(begins, acked).filter(|logged| !is_known(&mut seen, logged)) {
        first.push(logged.sent);
    }
    let spread = match (first.first(), first.last()) {
        (Some(first), Some(last)) => last.since(*first).as_secs_f64() * 1e3,
        _ => 0.0,
    };
    let ended = data(AGAIN, never).filter_map(|logged| logged.arrived).max();
    Resumed {
        flight_before: flight(log),
        first_flight: first.len(),
        spread_ms: spread,
        lost: data(AGAIN, never)
            .filter(|logged| logged.arrived.is_none())
            .count(),
        seconds: ended.unwrap_or(never).since(AGAIN).as_secs_f64(),
    }
}

/// Whether this sequence number was seen before; records it.
fn is_known(seen: &mut Vec<u32>, logged: &Logged) -> bool {
    let is_known = seen.contains(&logged.segment.seq);
    seen.push(logged.segment.seq);
    is_known
}

/// The most segments outstanding at once before the pause.
fn flight(log: &[Logged]) -> usize {
    let mut events: Vec<(Instant, i64)> = Vec::new();
    for logged in log.iter().filter(|logged| logged.sent < AGAIN) {
        let segment = &logged.segment;
        match logged.direction {
            Direction::Down if !segment.payload.is_empty() => {
                events.push((
                    logged.sent,
                    i64::from(segment.seq.wrapping_add(segment.payload.len() as u32)),
                ));
            }
            Direction::Up if segment.flags.ack => {
                events.extend(logged.arrived.map(|at| (at, -i64::from(segment.ack))));
            }
            _ => {}
        }
    }
    events.sort_by_key(|(at, _)| *at);
    let (mut ends, mut most): (Vec<u32>, usize) = (Vec::new(), 0);
    for (_, what) in events {
        if what > 0 {
            ends.push(what as u32);
            most = most.max(ends.len());
        } else {
            let ack = (-what) as u32;
            ends.retain(|end| (end.wrapping_sub(ack) as i32) > 0);
        }
    }
    most
}

/// The stacks of claim he-06, and whether the paper says that they restart.
pub const STACKS: [(&str, bool); 3] = [("4.4bsd", true), ("linux-2.0", true), ("sunos-4.1.3", false)];

/// The policies over [`PATHS`], in the stack `4.4bsd`: path, policy, outcome.
pub fn policies() -> Vec<(&'static str, &'static str, Resumed)> {
    let mut all = Vec::new();
    for path in PATHS {
        for (name, policy) in POLICIES {
            all.push((path, name, resumed("4.4bsd", Some(policy), path)));
        }
    }
    all
}

/// Whether each of [`STACKS`] restarts, over a path without loss: name, the paper's statement, outcome.
pub fn stacks() -> Vec<(&'static str, bool, Resumed)> {
    STACKS
        .into_iter()
        .map(|(name, restarts)| {
            (
                name,
                restarts,
                resumed(name, None, "rate=1.5M delay=44.5ms mtu=1500"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_restart_as_the_paper_says() {
        for (name, restarts, resumed) in stacks() {
            println!("{name}: {resumed:?}");
            assert_eq!(resumed.is_restart(), restarts, "{name}: {resumed:?}");
        }
    }

    /// A kept window bursts, and loses segments where the queue is short. A reset one loses nothing and is
    /// slow. A paced one sends as much in its first round trip as the kept one, but spread out, and loses less.
    #[test]
    fn pacing_is_between_keeping_and_resetting() {
        let all = policies();
        for row in &all {
            println!("{row:?}");
        }
        for path in PATHS {
            let of = |wanted: &str| {
                let found = all
                    .iter()
                    .find(|(over, name, _)| *over == path && *name == wanted);
                found.map(|(_, _, resumed)| resumed.clone()).expect(wanted)
            };
            let (keep, reset, pace) = (of("keep"), of("reset"), of("pace"));
            assert!(keep.first_flight > 6 && keep.spread_ms < 1.0, "{keep:?}");
            assert_eq!((reset.first_flight, reset.lost), (1, 0));
            assert!(pace.first_flight > 6 && pace.spread_ms > 40.0, "{pace:?}");
            if path == PATHS[0] {
                assert!(keep.lost > 0 && pace.lost < keep.lost, "{keep:?} {pace:?}");
            } else {
                assert_eq!((keep.lost, pace.lost), (0, 0));
                assert!(pace.seconds < reset.seconds, "{pace:?} {reset:?}");
            }
        }
    }
}
