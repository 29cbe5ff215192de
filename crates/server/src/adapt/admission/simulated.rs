//! The controller with the gate and the queue of a worker that exists in virtual time only: what it decides, and what that
//! does to who asks. Requests come by a Poisson process over so many connections, or from clients that never pause.

use super::super::Window;
use super::Admission;
use crate::gate::Gate;
use crate::queue::Queue;
use measure::{Draw, Duration, Instant, Rng, Seed};
use runtime::Line;
use std::collections::VecDeque;

/// Events a loop takes from the kernel in a turn.
const EVENTS: usize = 256;
/// A small answer from memory, or a refusal; and a costly answer. A sixth are of these.
const CHEAP: Duration = Duration::from_micros(10);
const COSTLY: Duration = Duration::from_micros(160);
const ONE_IN: u64 = 6;
/// Connections of an open load.
const CONNECTIONS: usize = 2000;

/// What one worker can do in a second.
fn capacity() -> f64 {
    let mean = (COSTLY.as_secs_f64() + (ONE_IN - 1) as f64 * CHEAP.as_secs_f64()) / ONE_IN as f64;
    1.0 / mean
}

enum Load {
    /// So many requests a second.
    Open(f64),
    /// So many clients, each of whom asks again when it is answered.
    Closed(usize),
}

#[derive(Default)]
struct Outcome {
    /// At which second what was decided.
    decisions: Vec<(u64, String)>,
    /// In the last half: whole answers a second, and the wait of 99 of 100 of them.
    good: f64,
    p99: Duration,
}

/// In line: a request since when, or the mark.
#[derive(Clone, Copy)]
enum Ready {
    Request(Instant),
    Mark(Instant),
}

struct Simulation {
    rng: Rng,
    now: Instant,
    line: VecDeque<Ready>,
    marked: bool,
    gate: Gate,
    queue: Queue,
    queued: Duration,
    answered: u64,
    refused: u64,
    waits: Vec<Duration>,
}

impl Simulation {
    fn chance(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One turn: takes what a loop takes, answers or refuses it, and notices what a worker notices.
    fn turn(&mut self) -> usize {
        let began = self.now;
        let taken: Vec<Ready> = (0..EVENTS).map_while(|_| self.line.pop_front()).collect();
        let is_full = taken.len() == EVENTS;
        let mark = taken.iter().find_map(|ready| match ready {
            Ready::Mark(since) => Some(began - *since),
            Ready::Request(_) => None,
        });
        let line = match (mark, is_full) {
            (Some(waited), _) => Line::Waited(waited),
            (None, true) => Line::Longer,
            (None, false) => Line::Taken,
        };
        self.marked &= mark.is_none();
        if is_full && !self.marked {
            self.marked = true;
            self.line.push_back(Ready::Mark(began));
        }
        let mut requests = 0;
        for ready in taken {
            let Ready::Request(since) = ready else { continue };
            requests += 1;
            let is_costly = self.rng.next_u64().is_multiple_of(ONE_IN);
            let is_given = !is_costly || self.gate.admits();
            let cost = if is_costly && is_given { COSTLY } else { CHEAP };
            self.now = self.now + cost;
            self.answered += 1;
            match is_given {
                true => self.waits.push(self.now - since),
                false => self.refused += 1,
            }
        }
        self.gate.end(self.now - began, line);
        self.queued += self.queue.turn(line, began, self.now);
        requests
    }
}

fn simulate(load: &Load, mut admission: Option<Admission>, seconds: u64) -> Outcome {
    let mut sim = Simulation {
        rng: Seed(7).rng(),
        now: Instant::ZERO,
        line: VecDeque::new(),
        marked: false,
        gate: Gate::new(),
        queue: Queue::Short,
        queued: Duration::ZERO,
        answered: 0,
        refused: 0,
        waits: Vec::new(),
    };
    let mut idle = match load {
        Load::Open(_) => CONNECTIONS,
        Load::Closed(clients) => {
            sim.line = vec![Ready::Request(Instant::ZERO); *clients].into();
            0
        }
    };
    let mut outcome = Outcome::default();
    let mut next = Instant::ZERO;
    for second in 1..=seconds {
        let end = Instant::ZERO + Duration::from_secs(second);
        while sim.now < end {
            if let Load::Open(rate) = load {
                while next <= sim.now {
                    // Whoever finds no connection is not sent.
                    if idle > 0 {
                        idle -= 1;
                        sim.line.push_back(Ready::Request(next));
                    }
                    next = next + Duration::from_secs_f64(-(1.0 - sim.chance()).ln() / rate);
                }
                if sim.line.is_empty() {
                    sim.now = next;
                    continue;
                }
            }
            let freed = sim.turn();
            match load {
                Load::Open(_) => idle += freed,
                Load::Closed(_) => {
                    let now = sim.now;
                    sim.line.extend((0..freed).map(|_| Ready::Request(now)));
                }
            }
        }
        let window = Window {
            requests: std::mem::take(&mut sim.answered) as f64,
            refused: Some(std::mem::take(&mut sim.refused) as f64),
            queued: Some(std::mem::take(&mut sim.queued).as_secs_f64()),
            ..Window::default()
        };
        if let Some(admission) = &mut admission {
            if let Some(decision) = admission.look(&window) {
                outcome.decisions.push((second, decision.to));
            }
            sim.gate.hold(admission.target());
        }
        if second == seconds / 2 {
            sim.waits.clear();
        }
    }
    sim.waits.sort_unstable();
    outcome.good = sim.waits.len() as f64 / (seconds - seconds / 2) as f64;
    outcome.p99 = sim.waits[sim.waits.len() * 99 / 100];
    outcome
}

#[test]
fn at_twice_what_it_can_do_it_guards_and_stays() {
    let load = Load::Open(2.0 * capacity());
    let open = simulate(&load, None, 12);
    let guarded = simulate(&load, Some(Admission::new()), 12);
    assert_eq!(
        guarded.decisions,
        [(2, "turns of 5ms".to_owned())],
        "and no swinging"
    );
    assert!(
        guarded.good >= 0.95 * open.good,
        "{} of {}",
        guarded.good,
        open.good
    );
    assert!(guarded.p99 * 4 <= open.p99, "{:?} of {:?}", guarded.p99, open.p99);
}

#[test]
fn what_it_can_do_is_never_refused() {
    for share in [0.1, 0.5, 0.9] {
        let outcome = simulate(&Load::Open(share * capacity()), Some(Admission::new()), 12);
        assert_eq!(outcome.decisions, [], "{share}");
    }
    // Clients without a pause fill turns, and wait for nobody but each other.
    for clients in [1, 64, 300, 1000] {
        let outcome = simulate(&Load::Closed(clients), Some(Admission::new()), 6);
        assert_eq!(outcome.decisions, [], "{clients}");
    }
}
