//! A record, replayed: the requests that a server recorded go through each policy, in virtual time.
//!
//! ```text
//!   choices ─▶ Recorded: arrivals, their work, speeds and failures of upstreams ─▶ replay: one policy ─▶ Outcome
//! ```
//! What the record does not say is assumed:
//!
//! - Requests arrive as they did, whatever the policy.
//! - A request needs the service that was estimated at the upstream that got it; at another one, that service scaled by the
//!   estimated speeds of both. An upstream divides its capacity equally among its requests, as the estimate does.
//! - The time in the network is the mean time for a connection to open, and connections are kept.
//! - An upstream fails at some time if its last recorded request before that time failed.
//!
//! The replay of the policy that was recorded, beside what was measured, shows what these assumptions are worth.

use super::station::Station;
use super::{Outcome, outcome};
use crate::balancer::{Balancer, Request, Settings, Visit};
use crate::estimate::Known;
use crate::hash::of_bytes;
use crate::policy::Policy;
use crate::record::{Choice, End, Named, Start};
use crate::speeds::service_times;
use core::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use units::{Duration, Instant, Seed, Word as _};

/// Least service time in seconds: its logarithm is taken.
const SERVICE_MIN: f64 = 1e-6;

/// A recorded request.
#[derive(Clone, Debug)]
struct Arrival {
    /// Nanoseconds since the first one.
    at: u64,
    key: u64,
    /// Seconds of service at an upstream of mean speed.
    work: f64,
    is_repeatable: bool,
}

/// How an upstream fails, and after how many nanoseconds.
type Failure = (End, u64);

/// What a record says.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The policy that chose.
    pub policy: Policy,
    /// Response times and failures as they were measured.
    pub measured: Outcome,
    /// Requests that the client or the server gave up; they are not in `measured`.
    pub given_up: u64,
    /// Its upstreams, in their order.
    pub upstreams: Vec<Observed>,
    settings: Settings,
    retries: u32,
    /// Service time in seconds of a request at an upstream of speed 1.
    mean: f64,
    arrivals: Vec<Arrival>,
    /// Of each upstream, by time: how a request ended that was sent there then; `None`: well.
    ends: Vec<Vec<(u64, Option<Failure>)>>,
}

/// An upstream of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// As in the configuration.
    pub address: String,
    /// Requests that were sent there.
    pub requests: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// Estimated mean service time in seconds.
    pub service: f64,
    /// Mean time for a connection to open, in seconds; that of the others if none was opened there.
    pub network: f64,
}

impl Recorded {
    /// Takes a record: its start, and the choices that follow, in any order.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the record.
    pub fn of(start: &Start, choices: &[Choice]) -> Result<Recorded, String> {
        let count = start.upstreams.len();
        let is_known = |at: &usize| *at < count;
        if let Some(bad) = choices
            .iter()
            .find(|choice| !is_known(&choice.chosen) || !choice.tried.iter().all(is_known))
        {
            return Err(format!(
                "request {} names an upstream that its rule does not have; the lines of two records are mixed",
                bad.request
            ));
        }
        let mut requests: BTreeMap<u64, Vec<&Choice>> = BTreeMap::new();
        for choice in choices {
            requests.entry(choice.request).or_default().push(choice);
        }
        for choices in requests.values_mut() {
            choices.sort_by_key(|choice| choice.at_us);
        }
        let services = services(count, choices)?;
        let networks = networks(count, choices);
        // An upstream of mean speed is one that serves the requests as all did on average.
        let answered = || {
            choices
                .iter()
                .filter_map(|choice| Some((choice.chosen, choice.service_us?)))
        };
        let mean = answered().map(|(at, _)| services[at]).sum::<f64>() / answered().count() as f64;
        let work = |(at, micros): (usize, u64)| seconds(micros).max(SERVICE_MIN) * mean / services[at];
        let typical = answered().map(work).sum::<f64>() / answered().count() as f64;
        let mut arrivals = Vec::with_capacity(requests.len());
        let (mut responses, mut errors, mut given_up) = (Vec::new(), 0, 0);
        for choices in requests.values() {
            let (first, last) = (choices[0], choices[choices.len() - 1]);
            let served = last.service_us.map(|micros| (last.chosen, micros));
            arrivals.push(Arrival {
                at: first.at_us.saturating_mul(1_000),
                key: u64::from_str_radix(&first.key, 16)
                    .map_err(|_| format!("`key` of request {} is no hexadecimal number", first.request))?,
                work: served.map_or(typical, work),
                is_repeatable: first.repeatable,
            });
            match (last.outcome, last.response_us) {
                (End::Answered, Some(took)) => {
                    responses.push(seconds(last.at_us - first.at_us) + seconds(took));
                }
                (End::Failed | End::Unprocessed, _) => errors += 1,
                (End::Answered | End::GivenUp, _) => given_up += 1,
            }
        }
        let mut ends = vec![Vec::new(); count];
        for choice in choices {
            let end = match choice.outcome {
                End::Answered => None,
                End::GivenUp => continue,
                failure => Some((failure, choice.failed_us.unwrap_or(0).saturating_mul(1_000))),
            };
            ends[choice.chosen].push((choice.at_us.saturating_mul(1_000), end));
        }
        for ends in &mut ends {
            ends.sort_by_key(|(at, _)| *at);
        }
        let observed = |(at, named): (usize, &Named)| Observed {
            address: named.address.clone(),
            requests: choices.iter().filter(|choice| choice.chosen == at).count() as u64,
            failures: ends[at].iter().filter(|(_, end)| end.is_some()).count() as u64,
            service: services[at],
            network: networks[at],
        };
        let id = |named: &Named| (of_bytes(named.address.as_bytes()), named.weight);
        Ok(Recorded {
            policy: start.policy,
            measured: outcome(&mut responses, errors),
            given_up,
            upstreams: start.upstreams.iter().enumerate().map(observed).collect(),
            settings: Settings {
                policy: start.policy,
                dry_run: None,
                upstreams: start.upstreams.iter().map(id).collect(),
                failures_max: start.max_failures,
                ejection: Duration::from_micros(start.ejection_us),
                slow_start: Duration::from_micros(start.slow_start_us),
            },
            retries: start.retries,
            mean,
            arrivals,
            ends,
        })
    }

    /// Number of requests.
    pub fn requests(&self) -> u64 {
        self.arrivals.len() as u64
    }

    /// How a request fails that is sent to this upstream now; `None`: it does not.
    fn failure(&self, at: usize, now: u64) -> Option<Failure> {
        let ends = &self.ends[at];
        let before = ends.partition_point(|(began, _)| *began <= now);
        ends[..before].last().and_then(|(_, end)| *end)
    }

    /// The outcome of each policy, the mean of so many runs, whose seeds follow this one.
    pub fn compare(&self, runs: u64, first: Seed) -> Vec<(Policy, Outcome)> {
        let of = |policy: Policy| {
            let all = (0..runs).map(|run| self.replay(policy, Seed(first.0.wrapping_add(run))));
            let all: Vec<Outcome> = all.collect();
            let mean = |value: fn(&Outcome) -> f64| all.iter().map(value).sum::<f64>() / runs as f64;
            Outcome {
                mean: mean(|one| one.mean),
                p99: mean(|one| one.p99),
                errors: mean(|one| one.errors),
                requests: self.requests(),
            }
        };
        Policy::ALL.iter().map(|&policy| (policy, of(policy))).collect()
    }

    /// Sends the requests through a policy.
    pub fn replay(&self, policy: Policy, seed: Seed) -> Outcome {
        let mut rng = seed.rng();
        let settings = Settings {
            policy,
            ..self.settings.clone()
        };
        let mut world = World::new(self, &settings);
        let (mut responses, mut errors) = (Vec::with_capacity(self.arrivals.len()), 0);
        while let Some(Reverse((now, _, event))) = world.queue.pop() {
            let instant = Instant::from_nanos(now);
            match event {
                Event::Choose(job) => {
                    let one = &world.jobs[job as usize];
                    let request = Request {
                        tried: one.tried,
                        key: self.arrivals[job as usize].key,
                    };
                    match world.balancer.enter(request, &mut rng, instant) {
                        Some(visit) => world.begin(self, job, visit, now),
                        None => errors += 1,
                    }
                }
                Event::Reach(job) => world.reach(self, job, now),
                Event::Served { upstream, version } => world.served(upstream, version, now),
                Event::Return(job) => {
                    let Some(mut visit) = world.jobs[job as usize].visit.take() else {
                        continue;
                    };
                    world.balancer.answered(&mut visit, instant);
                    world.balancer.leave(visit);
                    responses.push((now - self.arrivals[job as usize].at) as f64 / 1e9);
                }
                Event::Fail(job, is_processed) => {
                    let Some(visit) = world.jobs[job as usize].visit.take() else {
                        continue;
                    };
                    world.balancer.failed(visit.at, visit.forgiven, instant);
                    world.balancer.leave(visit);
                    match world.may_repeat(self, job, is_processed) {
                        true => world.push(now, Event::Choose(job)),
                        false => errors += 1,
                    }
                }
            }
        }
        outcome(&mut responses, errors)
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The estimated service time of each upstream in seconds, over the whole record.
fn services(count: usize, choices: &[Choice]) -> Result<Vec<f64>, String> {
    let mut logs: Vec<Vec<f64>> = vec![Vec::new(); count];
    for choice in choices {
        let service = choice.service_us.map(|micros| seconds(micros).max(SERVICE_MIN));
        logs[choice.chosen].extend(service.map(libm::log));
    }
    if logs.iter().all(Vec::is_empty) {
        return Err("no upstream has answered a request".to_owned());
    }
    let known: Vec<Option<Known>> = logs
        .iter()
        .map(|logs| {
            let count = logs.len() as f64;
            let log = logs.iter().sum::<f64>() / count;
            (count > 0.0).then(|| Known {
                count,
                log,
                spread: logs.iter().map(|one| (one - log) * (one - log)).sum(),
                seconds: logs.iter().map(|one| libm::exp(*one)).sum(),
            })
        })
        .collect();
    let mut times = Vec::new();
    service_times(&known, &mut times);
    Ok(times)
}

/// The mean time for a connection to each upstream to open, in seconds.
fn networks(count: usize, choices: &[Choice]) -> Vec<f64> {
    let mean = |of: &dyn Fn(usize) -> bool| {
        let times = choices.iter().filter(|choice| of(choice.chosen));
        let times: Vec<f64> = times
            .filter_map(|choice| choice.connect_us.map(seconds))
            .collect();
        (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
    };
    let all = mean(&|_| true).unwrap_or(0.0);
    (0..count)
        .map(|at| mean(&|chosen| chosen == at).unwrap_or(all))
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request needs an upstream.
    Choose(u32),
    /// It reaches its upstream.
    Reach(u32),
    /// A service may have ended; valid only if nothing changed at the upstream since.
    Served { upstream: u32, version: u64 },
    /// The response reaches the proxy.
    Return(u32),
    /// The upstream fails the request, and may have processed it.
    Fail(u32, bool),
}

/// A request under way.
#[derive(Clone, Debug, Default)]
struct Job {
    tried: u64,
    retries: u32,
    visit: Option<Visit>,
    /// It opened the connection.
    opens: bool,
}

struct World {
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    events: u64,
    balancer: Balancer,
    stations: Vec<Station>,
    /// Nanoseconds to each upstream and back, and whether a connection is open.
    round_trips: Vec<(u64, bool)>,
    jobs: Vec<Job>,
}

impl World {
    /// All requests are about to arrive.
    fn new(recorded: &Recorded, settings: &Settings) -> World {
        let speeds = recorded.upstreams.iter().map(|one| recorded.mean / one.service);
        let mut world = World {
            queue: BinaryHeap::new(),
            events: 0,
            balancer: Balancer::new(settings),
            stations: speeds.map(|speed| Station::new(speed, 1)).collect(),
            round_trips: recorded
                .upstreams
                .iter()
                .map(|one| ((one.network * 1e9) as u64, false))
                .collect(),
            jobs: vec![
                Job {
                    retries: recorded.retries,
                    ..Job::default()
                };
                recorded.arrivals.len()
            ],
        };
        for (job, arrival) in recorded.arrivals.iter().enumerate() {
            world.push(arrival.at, Event::Choose(job as u32));
        }
        world
    }

    fn push(&mut self, at: u64, event: Event) {
        self.events += 1;
        self.queue.push(Reverse((at, self.events, event)));
    }

    /// A request is sent to the upstream that was chosen.
    fn begin(&mut self, recorded: &Recorded, job: u32, visit: Visit, now: u64) {
        let one = &mut self.jobs[job as usize];
        one.tried |= 1 << visit.at;
        one.visit = Some(visit);
        if let Some((failure, took)) = recorded.failure(visit.at, now) {
            return self.push(now + took, Event::Fail(job, failure == End::Failed));
        }
        let (round_trip, is_open) = &mut self.round_trips[visit.at];
        one.opens = !std::mem::replace(is_open, true);
        let connect = if one.opens { *round_trip } else { 0 };
        let at = now + connect + *round_trip / 2;
        self.push(at, Event::Reach(job));
    }

    fn reach(&mut self, recorded: &Recorded, job: u32, now: u64) {
        let one = &mut self.jobs[job as usize];
        let Some(visit) = &mut one.visit else { return };
        let upstream = visit.at;
        if one.opens {
            let opened = now - self.round_trips[upstream].0 / 2;
            self.balancer.opened(visit, Instant::from_nanos(opened));
        }
        let work = recorded.arrivals[job as usize].work;
        self.stations[upstream].arrive(now, work, job);
        self.schedule(upstream as u32);
    }

    fn served(&mut self, upstream: u32, version: u64, now: u64) {
        let station = &mut self.stations[upstream as usize];
        if station.version != version {
            return;
        }
        if let Some(job) = station.end(now) {
            let way = self.round_trips[upstream as usize].0 / 2;
            self.push(now + way, Event::Return(job));
        }
        self.schedule(upstream);
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

    /// Whether a request that failed goes to another upstream, as the proxy decides it.
    fn may_repeat(&mut self, recorded: &Recorded, job: u32, is_processed: bool) -> bool {
        let one = &mut self.jobs[job as usize];
        let has_another = (one.tried.count_ones() as usize) < recorded.upstreams.len();
        if !is_processed || !has_another {
            return has_another;
        }
        let may = recorded.arrivals[job as usize].is_repeatable && one.retries > 0;
        one.retries -= u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::VERSION;

    fn start(upstreams: usize) -> Start {
        let named = |at| Named {
            address: format!("http://10.0.0.{at}:80"),
            weight: 1,
        };
        Start {
            balance_record: VERSION,
            weir: "1.0.0".to_owned(),
            began_ms: 0,
            rule: "/*".to_owned(),
            policy: Policy::RoundRobin,
            upstreams: (1..=upstreams).map(named).collect(),
            max_failures: 0,
            ejection_us: 10_000_000,
            slow_start_us: 0,
            retries: 1,
        }
    }

    /// A request that came at this time in milliseconds and needed this service.
    fn choice(request: u64, at_ms: u64, chosen: usize, service_ms: u64) -> Choice {
        Choice {
            at_us: at_ms * 1_000,
            rule: "/*".to_owned(),
            request,
            key: format!("{request:016x}"),
            tried: Vec::new(),
            candidates: Vec::new(),
            chosen,
            connect_us: None,
            response_us: Some(service_ms * 1_000),
            service_us: Some(service_ms * 1_000),
            failed_us: None,
            bytes: 0,
            status: Some(200),
            outcome: End::Answered,
            repeatable: true,
        }
    }

    fn close(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 1e-3, "{got} is not {expected}");
    }

    fn replay(recorded: &Recorded, policy: Policy) -> Outcome {
        recorded.replay(policy, Seed(1))
    }

    #[test]
    fn requests_that_do_not_meet_take_what_they_took() {
        let mut choices: Vec<Choice> = (0..200).map(|at| choice(at, 100 * at, 0, 10 + at % 3)).collect();
        for choice in &mut choices {
            choice.connect_us = Some(2_000);
            choice.response_us = choice.response_us.map(|took| took + 2_000);
        }
        let recorded = Recorded::of(&start(1), &choices).expect("a record");
        for policy in Policy::ALL {
            let got = replay(&recorded, *policy);
            close(got.mean, recorded.measured.mean);
            close(got.p99, 0.014);
            assert_eq!((got.errors, got.requests), (0.0, 200), "{policy}");
        }
        close(recorded.upstreams[0].network, 0.002);
    }

    #[test]
    fn a_request_at_another_upstream_takes_its_speed_into_account() {
        // The second upstream takes four times as long, and requests never meet.
        let took = |at: u64| if at.is_multiple_of(2) { 10 } else { 40 };
        let choices: Vec<Choice> = (0..400)
            .map(|at| choice(at, 100 * at, (at % 2) as usize, took(at)))
            .collect();
        let recorded = Recorded::of(&start(2), &choices).expect("a record");
        close(recorded.measured.mean, 0.025);
        close(recorded.upstreams[1].service / recorded.upstreams[0].service, 4.0);
        close(replay(&recorded, Policy::RoundRobin).mean, 0.025);
        let turnaround = replay(&recorded, Policy::Turnaround);
        assert!(turnaround.mean < 0.012, "{turnaround:?}");
        // Two at once share an upstream, or do not.
        let pairs: Vec<Choice> = (0..400).map(|at| choice(at, 100 * (at / 2), 0, 10)).collect();
        let alone = Recorded::of(&start(1), &pairs).expect("a record");
        close(replay(&alone, Policy::RoundRobin).mean, 0.020);
        let both = Recorded::of(&start(2), &pairs).expect("a record");
        close(replay(&both, Policy::LeastConnections).mean, 0.010);
    }

    #[test]
    fn an_upstream_fails_as_long_as_it_failed() {
        let record = |failure: End, repeatable: bool| {
            let choices: Vec<Choice> = (0..300)
                .map(|at| {
                    let fails = (100..200).contains(&at) && at % 3 == 1;
                    Choice {
                        outcome: if fails { failure } else { End::Answered },
                        service_us: (!fails).then_some(10_000),
                        response_us: (!fails).then_some(10_000),
                        failed_us: fails.then_some(1_000),
                        repeatable,
                        ..choice(at, 100 * at, (at % 3) as usize, 10)
                    }
                })
                .collect();
            Recorded::of(&start(3), &choices).expect("a record")
        };
        // A third of the middle third; the last failure lasts until the next success.
        let recorded = record(End::Failed, false);
        assert_eq!(recorded.upstreams[1].failures, 34);
        assert_eq!(recorded.measured.errors, 34.0 / 300.0);
        let got = replay(&recorded, Policy::RoundRobin);
        assert!((got.errors - recorded.measured.errors).abs() < 0.005, "{got:?}");
        // What was not processed, or may be repeated once, goes to another upstream.
        for recorded in [record(End::Unprocessed, false), record(End::Failed, true)] {
            let got = replay(&recorded, Policy::RoundRobin);
            assert_eq!((got.errors, got.requests), (0.0, 300));
            assert!(got.mean > 0.010_05, "{got:?}");
        }
    }

    #[test]
    fn a_repeated_request_is_one_and_a_bad_record_says_why() {
        let mut choices = vec![
            choice(0, 0, 0, 10),
            choice(0, 5, 1, 10),
            choice(1, 50, 0, 10),
            choice(2, 60, 1, 10),
        ];
        (choices[0].outcome, choices[0].service_us) = (End::Failed, None);
        choices[1].tried = vec![0];
        choices[3].outcome = End::GivenUp;
        let recorded = Recorded::of(&start(2), &choices).expect("a record");
        assert_eq!((recorded.requests(), recorded.given_up), (3, 1));
        assert_eq!(recorded.measured.requests, 2);
        // 15 ms with the failure, and 10 ms.
        close(recorded.measured.mean, 0.0125);
        let first = recorded.compare(2, Seed(1));
        assert_eq!(first.len(), Policy::ALL.len());
        assert_eq!(first, recorded.compare(2, Seed(1)), "a seed has one outcome");
        choices[3].chosen = 2;
        let why = Recorded::of(&start(2), &choices).expect_err("an unknown upstream");
        assert!(why.contains("request 2 names an upstream"), "{why}");
        let why = Recorded::of(&start(2), &choices[..1]).expect_err("no response");
        assert!(why.contains("no upstream has answered"), "{why}");
    }
}
