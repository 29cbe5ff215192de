//! Flow-level discrete-event simulation: users, lines, transfers, no packets.
//!
//! A line shares its rate among the transfers present; a transfer ends when all its bytes are sent. Time is whole
//! nanoseconds and randomness comes from one seed, so a plan gives identical numbers on every machine. An event costs
//! the logarithm of the number of users: a million users and a thousand lines run in seconds.
//!
//! ```text
//!            think over / arrival          last byte through
//! [thinking] ---------------------> [line] -------------------> [latency] --> [thinking] or gone
//! ```
//!
//! Knows no round trips inside a transfer: all unshared time is part of `latency`.

mod line;

use crate::closed::{Network, Station};
use crate::domain::{DomainError, non_negative, positive, within};
use crate::explain::{Bound, Explained, Quantity, Region, significant};
use crate::sizes::{Sizes, uniform};
use crate::{Seconds, fit::half_width};
use core::cmp::Reverse;
use line::Line;
use serde::Serialize;
use std::collections::BinaryHeap;
use units::{Rate, Rng, Seed};

pub use line::Discipline;

/// Source of requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Source {
    /// A fixed number of users who think (seconds) between transfers.
    Closed {
        /// Number of users.
        users: u32,
        /// Think times in seconds.
        think: Sizes,
    },
    /// Poisson arrivals per second, which leave after service.
    Open {
        /// Arrivals per second over all lines.
        arrivals: f64,
    },
}

/// Assignment of requests to lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Dispatch {
    /// User `u` always uses line `u mod lines`; arrivals use the lines in turn.
    #[default]
    Fixed,
    /// A random line.
    Random,
    /// The less busy of two lines drawn at random.
    TwoChoices,
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Source of requests.
    pub source: Source,
    /// Sizes of transfers in bytes.
    pub sizes: Sizes,
    /// Bandwidth of each line.
    pub lines: Vec<Rate>,
    /// Service discipline of the lines.
    pub discipline: Discipline,
    /// Assignment of requests to lines.
    pub dispatch: Dispatch,
    /// Time of a request in addition to its transfer: round trips, server time.
    pub latency: Seconds,
    /// Simulated time before the measurement.
    pub warmup: Seconds,
    /// Simulated time that is measured.
    pub measured: Seconds,
    /// Random seed.
    pub seed: Seed,
}

/// Limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent requests, and so the users of a closed source; an open source near saturation may reach the limit.
    pub jobs_max: usize,
    /// Events handled before the run is stopped.
    pub events_max: u64,
}

impl Limits {
    /// About a gigabyte of memory and an hour.
    pub const DEFAULT: Limits = Limits {
        jobs_max: 20_000_000,
        events_max: 10_000_000_000,
    };
}

/// The measurements of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Requests completed while measuring.
    pub completed: u64,
    /// Events handled, warm-up included.
    pub events: u64,
    /// Requests per second.
    pub throughput: f64,
    /// Mean response, latency included.
    pub response: Seconds,
    /// Half width of its 95 % confidence interval, by batch means; `None` if only one batch had requests.
    pub half_width: Option<Seconds>,
    /// Longest response.
    pub response_max: Seconds,
    /// Mean busy fraction of the lines.
    pub utilization: f64,
    /// Busy fraction of the busiest line.
    pub utilization_max: f64,
}

const NS: f64 = 1e9;
const BATCHES: usize = 20;

/// Runs `plan`; errors name a meaningless parameter or the limit reached.
pub fn run(plan: &Plan, limits: &Limits) -> Result<Explained<Outcome>, DomainError> {
    check(plan)?;
    if let Source::Closed { users, .. } = plan.source {
        // All users may ask at the same time. Unlike arrivals, their number is known before any memory is allocated.
        within(
            "users",
            f64::from(users),
            users as usize <= limits.jobs_max,
            "up to the requests that a run may have present at once (20,000,000 unless told otherwise)",
        )?;
    }
    let mut world = World::new(plan, limits);
    world.run()?;
    let outcome = world.outcome();
    within(
        "measured time",
        plan.measured.0,
        outcome.completed > 0,
        "so long, in seconds, that a request is completed in it",
    )?;
    Ok(explain(plan, outcome))
}

fn check(plan: &Plan) -> Result<(), DomainError> {
    if plan.lines.is_empty() {
        return Err(DomainError::TooFew {
            what: "lines",
            got: 0,
            need: 1,
        });
    }
    for rate in &plan.lines {
        positive("rate", rate.bits_per_second(), "1 bit/s or more")?;
    }
    if let Discipline::RoundRobin { quantum } = plan.discipline {
        positive("quantum", quantum.0 as f64, "1 B or more")?;
    }
    plan.sizes.check()?;
    non_negative("latency", plan.latency.0, "0 s or more")?;
    non_negative("warm-up", plan.warmup.0, "0 s or more")?;
    positive("measured time", plan.measured.0, "above 0 s")?;
    // u64 nanoseconds end after 584 years; a tenth of that leaves room for pending events.
    positive("simulated time", plan.warmup.0 + plan.measured.0, "up to 1.8e9 s")
        .and_then(|span| within("simulated time", span, span < 1.8e9, "up to 1.8e9 s"))?;
    match &plan.source {
        Source::Closed { users, think } => {
            positive("users", f64::from(*users), "1 or more")?;
            // Users without think time are valid, unlike transfers of zero bytes.
            if *think == Sizes::Fixed(0.0) {
                return Ok(());
            }
            think.check()
        }
        Source::Open { arrivals } => {
            positive("arrival rate", *arrivals, "above 0 per second")?;
            let utilization = offered(plan, *arrivals);
            if utilization >= 1.0 {
                return Err(DomainError::Saturated {
                    station: "the line most is asked of".to_owned(),
                    utilization,
                });
            }
            Ok(())
        }
    }
}

/// Load of the busiest line with `arrivals` per second, as a share of its rate.
fn offered(plan: &Plan, arrivals: f64) -> f64 {
    let rates = || plan.lines.iter().map(|rate| rate.bits_per_second());
    let bits = arrivals * plan.sizes.mean() * 8.0;
    match plan.dispatch {
        Dispatch::Fixed | Dispatch::Random => {
            bits / plan.lines.len() as f64 / rates().fold(f64::INFINITY, f64::min)
        }
        Dispatch::TwoChoices => bits / rates().sum::<f64>(),
    }
}

/// Sums over one batch of the measured time.
#[derive(Clone, Copy, Default)]
struct Batch {
    completed: u64,
    response_ns: f64,
}

struct World<'a> {
    plan: &'a Plan,
    limits: &'a Limits,
    rng: Rng,
    lines: Vec<Line>,
    /// The line whose next transfer ends first.
    next: Tournament,
    /// End of each user's think time (closed), or the next arrival (open, a single entry).
    asks: BinaryHeap<Reverse<(u64, u32)>>,
    /// Start of the request now at a line, by user or by slot.
    asked: Vec<u64>,
    /// Slots of `asked` that no open request uses.
    free: Vec<u32>,
    turn: u32,
    batches: [Batch; BATCHES],
    response_max: u64,
    events: u64,
    start: u64,
    end: u64,
    /// Busy time of each line before measuring; absent during the warm-up.
    busy_before: Option<Vec<u64>>,
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, limits: &'a Limits) -> World<'a> {
        let mut rng = plan.seed.rng();
        let start = nanos(plan.warmup.0);
        let (asks, asked) = match &plan.source {
            Source::Closed { users, think } => {
                let heap: Vec<_> = (0..*users)
                    .map(|user| Reverse((nanos(think.draw(&mut rng)), user)))
                    .collect();
                (BinaryHeap::from(heap), vec![0; *users as usize])
            }
            Source::Open { .. } => (BinaryHeap::from([Reverse((0, 0))]), Vec::new()),
        };
        World {
            plan,
            limits,
            rng,
            lines: plan
                .lines
                .iter()
                .map(|&rate| Line::new(rate, plan.discipline))
                .collect(),
            next: Tournament::new(plan.lines.len()),
            asks,
            asked,
            free: Vec::new(),
            turn: 0,
            batches: [Batch::default(); BATCHES],
            response_max: 0,
            events: 0,
            start,
            end: start + nanos(plan.measured.0),
            busy_before: None,
        }
    }

    fn run(&mut self) -> Result<(), DomainError> {
        loop {
            let ask = self.asks.peek().map_or(u64::MAX, |&Reverse((time, _))| time);
            let (done, line) = self.next.first();
            let now = ask.min(done);
            if now >= self.start && self.busy_before.is_none() {
                self.busy_before = Some(self.busy_at(self.start));
            }
            if now >= self.end {
                return Ok(());
            }
            self.events += 1;
            if self.events > self.limits.events_max {
                return Err(DomainError::Outside {
                    parameter: "events",
                    value: self.events as f64,
                    allowed: "up to the event limit; simulate less time or fewer users",
                });
            }
            if done <= ask {
                self.complete(line, now);
            } else {
                self.ask(now)?;
            }
        }
    }

    /// Nanoseconds that each line was busy until `now`; no later event may precede `now`.
    fn busy_at(&mut self, now: u64) -> Vec<u64> {
        self.lines
            .iter_mut()
            .map(|line| {
                line.advance(now);
                line.busy_ns
            })
            .collect()
    }

    fn ask(&mut self, now: u64) -> Result<(), DomainError> {
        let Some(Reverse((_, user))) = self.asks.pop() else {
            return Ok(());
        };
        let job = match &self.plan.source {
            Source::Closed { .. } => user,
            Source::Open { arrivals } => {
                let gap = Sizes::Exponential { mean: 1.0 / arrivals }.draw(&mut self.rng);
                self.asks.push(Reverse((now + nanos(gap), 0)));
                self.slot()?
            }
        };
        self.asked[job as usize] = now;
        let line = self.choose(job);
        let size = self.plan.sizes.draw(&mut self.rng);
        self.lines[line].advance(now);
        self.lines[line].arrive(size, job);
        self.next.set(line, self.lines[line].next_end());
        Ok(())
    }

    fn slot(&mut self) -> Result<u32, DomainError> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        if self.asked.len() >= self.limits.jobs_max {
            return Err(DomainError::Outside {
                parameter: "requests present at once",
                value: self.asked.len() as f64 + 1.0,
                allowed: "up to the limit of a run; let them arrive less often",
            });
        }
        self.asked.push(0);
        Ok(self.asked.len() as u32 - 1)
    }

    fn choose(&mut self, job: u32) -> usize {
        let count = self.lines.len() as u32;
        match (self.plan.dispatch, &self.plan.source) {
            (Dispatch::Fixed, Source::Closed { .. }) => (job % count) as usize,
            (Dispatch::Fixed, Source::Open { .. }) => {
                self.turn = (self.turn + 1) % count;
                self.turn as usize
            }
            (Dispatch::Random, _) => self.any(count),
            (Dispatch::TwoChoices, _) => {
                let (a, b) = (self.any(count), self.any(count));
                if self.lines[b].jobs() < self.lines[a].jobs() {
                    b
                } else {
                    a
                }
            }
        }
    }

    fn any(&mut self, count: u32) -> usize {
        (uniform(&mut self.rng) * f64::from(count)) as usize
    }

    fn complete(&mut self, line: usize, now: u64) {
        self.lines[line].advance(now);
        let ended = self.lines[line].end_next();
        self.next.set(line, self.lines[line].next_end());
        // The end of a round-robin turn need not end the transfer.
        let Some(job) = ended else { return };
        let latency = nanos(self.plan.latency.0);
        let response = now - self.asked[job as usize] + latency;
        if now >= self.start {
            let span = (self.end - self.start).max(1);
            let batch = (u128::from(now - self.start) * BATCHES as u128 / u128::from(span)) as usize;
            let batch = &mut self.batches[batch.min(BATCHES - 1)];
            batch.completed += 1;
            batch.response_ns += response as f64;
            self.response_max = self.response_max.max(response);
        }
        match &self.plan.source {
            Source::Closed { think, .. } => {
                let pause = nanos(think.draw(&mut self.rng));
                self.asks.push(Reverse((now + latency + pause, job)));
            }
            Source::Open { .. } => self.free.push(job),
        }
    }

    fn outcome(&mut self) -> Outcome {
        let completed: u64 = self.batches.iter().map(|batch| batch.completed).sum();
        let sum: f64 = self.batches.iter().map(|batch| batch.response_ns).sum();
        let mean = if completed == 0 {
            0.0
        } else {
            sum / completed as f64
        };
        let means: Vec<f64> = self
            .batches
            .iter()
            .filter(|batch| batch.completed > 0)
            .map(|batch| batch.response_ns / batch.completed as f64)
            .collect();
        let half = half_width(&means).map(|half| Seconds(half / NS));
        let before = self
            .busy_before
            .take()
            .unwrap_or_else(|| vec![0; self.lines.len()]);
        let span = (self.end - self.start) as f64;
        let busy: Vec<f64> = self
            .busy_at(self.end)
            .iter()
            .zip(before)
            .map(|(end, start)| (end - start) as f64 / span)
            .collect();
        Outcome {
            completed,
            events: self.events,
            throughput: completed as f64 / self.plan.measured.0,
            response: Seconds(mean / NS),
            half_width: half,
            response_max: Seconds(self.response_max as f64 / NS),
            utilization: busy.iter().sum::<f64>() / busy.len() as f64,
            utilization_max: busy.iter().copied().fold(0.0, f64::max),
        }
    }
}

fn nanos(seconds: f64) -> u64 {
    // Rounded, so that means are not biased by half a nanosecond; the cast saturates.
    (seconds * NS + 0.5) as u64
}

/// The smallest of a fixed set of times, updated one at a time: a tournament in an array.
struct Tournament {
    leaves: usize,
    /// `winner[1]` is the earliest; node `i` has children `2i` and `2i + 1`; leaves follow the nodes.
    winner: Vec<u32>,
    time: Vec<u64>,
}

impl Tournament {
    fn new(count: usize) -> Tournament {
        let leaves = count.next_power_of_two();
        let mut winner = vec![0; 2 * leaves];
        for leaf in 0..leaves {
            winner[leaves + leaf] = leaf as u32;
        }
        let mut tournament = Tournament {
            leaves,
            winner,
            time: vec![u64::MAX; leaves],
        };
        for leaf in 0..leaves {
            tournament.set(leaf, u64::MAX);
        }
        tournament
    }

    fn set(&mut self, leaf: usize, time: u64) {
        self.time[leaf] = time;
        let mut node = (self.leaves + leaf) / 2;
        while node > 0 {
            let (a, b) = (self.winner[2 * node], self.winner[2 * node + 1]);
            self.winner[node] = if self.time[b as usize] < self.time[a as usize] {
                b
            } else {
                a
            };
            node /= 2;
        }
    }

    fn first(&self) -> (u64, usize) {
        // A single leaf is its own winner: node 1 is the leaf.
        let leaf = self.winner[1] as usize;
        (self.time[leaf], leaf)
    }
}

fn explain(plan: &Plan, outcome: Outcome) -> Explained<Outcome> {
    let line = format!(
        "{} requests/s, mean response {} +- {}, utilization {}",
        significant(outcome.throughput),
        outcome.response,
        outcome
            .half_width
            .map_or_else(|| "?".to_owned(), |half| half.to_string()),
        significant(outcome.utilization)
    );
    let mut e = Explained::new(outcome, line);
    e.bounds.extend(bounds(plan));
    e.assumptions.extend([
        "no packets: a transfer is its bytes, and what is not shared is the latency",
        "no loss; a line is the only place where transfers meet",
    ]);
    let scv = plan.sizes.scv();
    let is_insensitive = plan.discipline == Discipline::Sharing;
    e.region.push(Region {
        quantity: Quantity::SizeVariability,
        low: if is_insensitive { 0.0 } else { scv / 1.25 },
        high: if is_insensitive { f64::INFINITY } else { scv * 1.25 },
        outside: "the response was simulated for another variability",
    });
    e.region.push(Region {
        quantity: Quantity::Loss,
        low: 0.0,
        high: 0.001,
        outside: "flows know no loss; simulate packets instead",
    });
    e.step(
        "X",
        "throughput",
        "completed / time",
        format!("{} / {}", outcome.completed, significant(plan.measured.0)),
        outcome.throughput,
        "requests/s",
        "simulation",
    );
    e.step(
        "R",
        "mean response",
        "mean of batch means",
        format!("{}", plan.seed),
        outcome.response.0,
        "s",
        "simulation",
    );
    let Some(half) = outcome.half_width else {
        e.warnings
            .push("too few requests for a confidence interval: measure longer".to_owned());
        return e;
    };
    let formula = "t(0.975) s / sqrt(batches)";
    e.step(
        "h",
        "half width of the 95 % interval",
        formula,
        "",
        half.0,
        "s",
        "Law 2015, section 9.5.3",
    );
    if half.0 > 0.05 * outcome.response.0 {
        e.warnings
            .push("the interval is wider than 5 % of the mean: measure longer".to_owned());
    }
    let (low, high) = (outcome.response.0 - half.0, outcome.response.0 + half.0);
    let is_outside = |bound: &Bound| high < bound.low || bound.high.is_some_and(|most| low > most);
    if e.bounds.iter().any(is_outside) {
        e.warnings.push(
            "the mean lies outside its bounds by more than its interval: the start is still in it; warm up longer"
                .to_owned(),
        );
    }
    e
}

/// Bounds of the mean response time from mean values; a simulation of finite length varies around it.
fn bounds(plan: &Plan) -> Vec<Bound> {
    let fastest = plan.lines.iter().copied().max().unwrap_or(Rate(1));
    let mut bounds = vec![Bound {
        quantity: "mean response",
        low: (alone(&plan.sizes, fastest) + plan.latency).0,
        high: None,
        unit: "s",
        source: "asymptotic: a mean transfer alone",
    }];
    let (Source::Closed { users, think }, Discipline::Sharing, Dispatch::Fixed) =
        (&plan.source, plan.discipline, plan.dispatch)
    else {
        return bounds;
    };
    // Each line is its own network; the mean lies between the extremes of a single line.
    let count = plan.lines.len() as u32;
    let brackets = plan.lines.iter().zip(0..count).filter_map(|(&rate, line)| {
        let own = users / count + u32::from(line < users % count);
        let stations = vec![
            Station::queue("line", alone(&plan.sizes, rate)),
            Station::delay("latency", plan.latency),
        ];
        let network = Network::new(stations, Seconds(think.mean())).ok()?;
        (own > 0).then(|| network.brackets(u64::from(own)).response_balanced)?
    });
    let ends = brackets.fold((f64::INFINITY, 0.0f64), |(low, high), (least, most)| {
        (low.min(least.0), high.max(most.0))
    });
    bounds.push(Bound {
        quantity: "mean response",
        low: ends.0,
        high: Some(ends.1),
        unit: "s",
        source: "balanced job bounds of the lines, Zahorjan et al. 1982",
    });
    bounds
}

/// Mean transfer time on an unshared line of `rate`.
pub fn alone(sizes: &Sizes, rate: Rate) -> Seconds {
    Seconds(sizes.mean() * 8.0 / rate.bits_per_second())
}

#[cfg(test)]
mod tests;
