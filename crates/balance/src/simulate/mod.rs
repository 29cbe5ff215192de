//! The experiment: policies in a discrete-event simulation, in virtual time, from a seed.
//!
//! ```text
//!   arrivals ─▶ proxy: chooses ─▶ connection ─▶ upstream: processor sharing ─▶ response ─▶ proxy: learns
//! ```
//! The proxy's balancers are those of the server. The requests of a seed are the same for every policy. `cases` has the
//! conditions, `compare` the verdict; this file runs one policy in one case. `replay` takes its requests from a record.

mod cases;
mod compare;
mod prequal;
mod replay;
mod station;

pub use cases::{Arrivals, Case, Fault, cases};
pub use compare::{Cell, Row, Verdict, compare, verdict};
pub use replay::{Observed, Recorded};

use crate::balancer::{Balancer, Request, Settings, Visit};
use crate::choices::draw;
use crate::policy::Policy;
use core::cmp::Reverse;
use core::fmt;
use prequal::{Prequal, Probe};
use station::Station;
use std::collections::BinaryHeap;
use units::{Duration, Instant, Seed};

/// Who chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// A policy of the server.
    Ours(Policy),
    /// Probes of load and latency, for comparison only.
    Prequal,
}

impl Contender {
    /// All that are compared. `hash` is not: it is chosen for its caches, not for response times.
    pub const ALL: [Contender; 6] = [
        Contender::Ours(Policy::RoundRobin),
        Contender::Ours(Policy::LeastConnections),
        Contender::Ours(Policy::TwoChoices),
        Contender::Ours(Policy::Ewma),
        Contender::Ours(Policy::Turnaround),
        Contender::Prequal,
    ];
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contender::Ours(policy) => policy.fmt(f),
            Contender::Prequal => f.pad("prequal-like"),
        }
    }
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Mean response time of requests that got a response, in seconds.
    pub mean: f64,
    /// 99th percentile, in seconds.
    pub p99: f64,
    /// Part of the requests that failed.
    pub errors: f64,
    /// Number of requests.
    pub requests: u64,
}

/// A process of the proxy: processes share nothing.
struct Process {
    balancer: Balancer,
    prequal: Option<Prequal>,
}

/// A request.
struct Job {
    began: u64,
    work: f64,
    process: usize,
    visit: Option<Visit>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request reaches the proxy.
    Arrive(u32),
    /// A request reaches its upstream.
    Reach(u32),
    /// A service may have ended; valid only if nothing changed at the upstream since.
    Served { upstream: u32, version: u64 },
    /// The response, or the end of the connection, reaches the proxy.
    Return { job: u32, is_error: bool },
    /// A fault begins or ends.
    Change(bool),
    /// A probe reaches the upstream.
    Probe { process: u32, upstream: u32 },
    /// Its answer reaches the proxy.
    Probed {
        process: u32,
        upstream: u32,
        load: u32,
        latency_ns: u64,
    },
}

struct World<'c> {
    case: &'c Case,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    events: u64,
    stations: Vec<Station>,
    jobs: Vec<Job>,
    is_faulty: bool,
}

impl World<'_> {
    fn push(&mut self, at: u64, event: Event) {
        self.events += 1;
        self.queue.push(Reverse((at, self.events, event)));
    }

    /// The station's next end of service, after a change.
    fn schedule(&mut self, upstream: u32) {
        let station = &mut self.stations[upstream as usize];
        station.version += 1;
        let version = station.version;
        if let Some(at) = station.next_end() {
            self.push(at, Event::Served { upstream, version });
        }
    }

    /// Nanoseconds of one way to this upstream.
    fn way(&self, upstream: usize) -> u64 {
        nanos(self.case.round_trips[upstream % self.case.round_trips.len()]) / 2
    }

    fn has_fault(&self, upstream: u32) -> bool {
        self.is_faulty && upstream == 0
    }
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Runs a contender in a case.
pub fn run(case: &Case, contender: Contender, seed: Seed) -> Outcome {
    let mut rng = Seed(seed.0 ^ 0x6261_6c61_6e63_6572).rng();
    let mut world = World {
        case,
        queue: BinaryHeap::new(),
        events: 0,
        stations: case
            .speeds()
            .map(|speed| Station::new(speed, case.cores))
            .collect(),
        jobs: Vec::new(),
        is_faulty: false,
    };
    let mut requests = seed.rng();
    for (began, work) in case.requests(&mut requests) {
        let process = draw(&mut requests, case.processes);
        let job = world.jobs.len() as u32;
        world.jobs.push(Job {
            began: nanos(began),
            work,
            process,
            visit: None,
        });
        world.push(nanos(began), Event::Arrive(job));
    }
    if case.fault != Fault::None {
        let (begin, end) = case.faulty();
        world.push(nanos(begin), Event::Change(true));
        world.push(nanos(end), Event::Change(false));
    }
    let mut processes: Vec<Process> = (0..case.processes).map(|_| process(case, contender)).collect();
    let (mut responses, mut errors) = (Vec::with_capacity(world.jobs.len()), 0_u64);
    while let Some(Reverse((now, _, event))) = world.queue.pop() {
        let instant = Instant::from_nanos(now);
        match event {
            Event::Arrive(job) => {
                let number = world.jobs[job as usize].process;
                let process = &mut processes[number];
                let visit = match &mut process.prequal {
                    None => process.balancer.enter(Request::default(), &mut rng, instant),
                    Some(prequal) => process.balancer.enter_by(Request::default(), instant, |open| {
                        prequal.choose(open, &mut rng, instant)
                    }),
                };
                // There is at least one upstream, and the request tried none.
                let Some(visit) = visit else { continue };
                world.jobs[job as usize].visit = Some(visit);
                // One round trip for the connection, half of one for the request.
                world.push(now + 3 * world.way(visit.at), Event::Reach(job));
                if let Some(prequal) = &process.prequal {
                    for upstream in prequal.targets(case.upstreams, &mut rng) {
                        let at = now + world.way(upstream);
                        let (process, upstream) = (number as u32, upstream as u32);
                        world.push(at, Event::Probe { process, upstream });
                    }
                }
            }
            Event::Reach(job) => {
                let Job {
                    process, work, visit, ..
                } = &mut world.jobs[job as usize];
                let Some(visit) = visit else { continue };
                let (work, upstream) = (*work, visit.at as u32);
                let way = nanos(case.round_trips[visit.at % case.round_trips.len()]) / 2;
                let opened = Instant::from_nanos(now - way);
                processes[*process].balancer.opened(visit, opened);
                if world.has_fault(upstream) && case.fault == Fault::Fails {
                    let is_error = true;
                    world.push(now + way, Event::Return { job, is_error });
                } else {
                    world.stations[upstream as usize].arrive(now, work, job);
                    world.schedule(upstream);
                }
            }
            Event::Served { upstream, version } => {
                if world.stations[upstream as usize].version != version {
                    continue;
                }
                if let Some(job) = world.stations[upstream as usize].end(now) {
                    let at = now + world.way(upstream as usize);
                    let is_error = false;
                    world.push(at, Event::Return { job, is_error });
                }
                world.schedule(upstream);
            }
            Event::Return { job, is_error } => {
                let job = &mut world.jobs[job as usize];
                let Some(mut visit) = job.visit.take() else {
                    continue;
                };
                let balancer = &mut processes[job.process].balancer;
                if is_error {
                    errors += 1;
                    balancer.failed(visit.at, visit.forgiven, instant);
                } else {
                    balancer.answered(&mut visit, instant);
                    responses.push((now - job.began) as f64 / 1e9);
                }
                balancer.leave(visit);
            }
            Event::Change(is_faulty) => {
                world.is_faulty = is_faulty;
                if case.fault == Fault::Slows {
                    let speed = case.speeds().next().unwrap_or(1.0);
                    let part = if is_faulty { cases::SLOWED } else { 1.0 };
                    world.stations[0].change(now, speed * part);
                    world.schedule(0);
                }
            }
            Event::Probe { process, upstream } => {
                // An upstream that fails answers no probe.
                if world.has_fault(upstream) && case.fault == Fault::Fails {
                    continue;
                }
                let station = &world.stations[upstream as usize];
                let load = station.present();
                let latency_ns = nanos(station.latency(load));
                let answer = Event::Probed {
                    process,
                    upstream,
                    load,
                    latency_ns,
                };
                let at = now + world.way(upstream as usize);
                world.push(at, answer);
            }
            Event::Probed {
                process,
                upstream,
                load,
                latency_ns,
            } => {
                if let Some(prequal) = &mut processes[process as usize].prequal {
                    prequal.add(Probe {
                        upstream: upstream as usize,
                        load,
                        latency_ns,
                        at: instant,
                        uses: 0,
                    });
                }
            }
        }
    }
    outcome(&mut responses, errors)
}

fn process(case: &Case, contender: Contender) -> Process {
    let policy = match contender {
        Contender::Ours(policy) => policy,
        Contender::Prequal => Policy::RoundRobin,
    };
    // The defaults of a rule `[[proxy]]`.
    let settings = Settings {
        policy,
        dry_run: None,
        upstreams: (1..=case.upstreams as u64).map(|id| (id, 1)).collect(),
        failures_max: 3,
        ejection: Duration::from_secs(10),
        slow_start: Duration::ZERO,
    };
    Process {
        balancer: Balancer::new(&settings),
        prequal: (contender == Contender::Prequal).then(Prequal::default),
    }
}

fn outcome(responses: &mut [f64], errors: u64) -> Outcome {
    let requests = responses.len() as u64 + errors;
    if responses.is_empty() {
        return Outcome {
            errors: 1.0,
            requests,
            ..Outcome::default()
        };
    }
    let mean = responses.iter().sum::<f64>() / responses.len() as f64;
    // The least time that 99 % of the responses do not exceed.
    let rank = (responses.len() * 99).div_ceil(100) - 1;
    let (_, p99, _) = responses.select_nth_unstable_by(rank, f64::total_cmp);
    Outcome {
        mean,
        p99: *p99,
        errors: errors as f64 / requests as f64,
        requests,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, upstreams: usize) -> Case {
        let all = cases(&[upstreams], 10.0);
        all.into_iter().find(|case| case.name == name).unwrap()
    }

    #[test]
    fn a_seed_gives_one_outcome() {
        for contender in Contender::ALL {
            let case = case("equal", 8);
            let first = run(&case, contender, Seed(1));
            assert_eq!(first, run(&case, contender, Seed(1)), "{contender}");
            assert_ne!(first, run(&case, contender, Seed(2)), "{contender}");
        }
    }

    /// M/M/1 with processor sharing at load 0.7: 10 ms / 0.3, and two round trips of 0.5 ms.
    #[test]
    fn one_upstream_is_the_queue_of_theory() {
        let mut case = Case {
            seconds: 3_000.0,
            ..case("equal", 2)
        };
        case.upstreams = 1;
        let got = run(&case, Contender::Ours(Policy::RoundRobin), Seed(3));
        let expected = 0.010 / 0.3 + 0.001;
        assert!(
            (got.mean / expected - 1.0).abs() < 0.03,
            "{} {expected}",
            got.mean
        );
        assert_eq!(got.errors, 0.0);
    }

    #[test]
    fn least_connections_beat_turns_and_failures_cost_errors() {
        let at = |name, policy| run(&case(name, 8), Contender::Ours(policy), Seed(4));
        let (turns, least) = (Policy::RoundRobin, Policy::LeastConnections);
        assert!(at("equal", least).mean < 0.7 * at("equal", turns).mean);
        let failing = at("one fails", turns);
        assert!(failing.errors > 0.0 && failing.errors < 0.02, "{failing:?}");
    }
}
