//! The upstreams of one rule, and the choice for each request. `health` says which take part, the policy says which of
//! them; this file brings both together and keeps the load.

use crate::estimate::Known;
use crate::health::Health;
use crate::policy::Policy;
use crate::speeds::service_times;
use crate::turns::Turns;
use crate::upstream::Upstream;
use crate::{choices, hash, least, turnaround};
use units::{Duration, Instant, Rng, Seed};

/// Age of the service times after which they are computed anew without a response.
const TIMES_AGE_MAX: Duration = Duration::from_secs(1);

/// What a balancer is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which upstream gets the next request.
    pub policy: Policy,
    /// A policy whose choices are counted and not followed.
    pub dry_run: Option<Policy>,
    /// Identity and weight (at least 1) of each upstream; at most 64.
    pub upstreams: Vec<(u64, u32)>,
    /// Failures in a row that eject an upstream; 0: never.
    pub failures_max: u32,
    /// Time without requests for an ejected upstream.
    pub ejection: Duration,
    /// Time in which an upstream that comes back gets more and more requests.
    pub slow_start: Duration,
}

/// A request that needs an upstream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// A bit for each upstream that it has tried.
    pub tried: u64,
    /// Hash of the request's key, for [`Policy::Hash`].
    pub key: u64,
}

/// A request at an upstream: begins with [`Balancer::enter`] and ends with [`Balancer::leave`].
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    /// Index of the upstream.
    pub at: usize,
    began: Instant,
    /// Reading of the upstream's sharing clock at the begin.
    clock: f64,
    /// Time for the connection to open, if one was opened.
    pub connect: Option<Duration>,
    /// Time to the head of the response, and the service that the request got until then, in seconds; `None` before it.
    pub answer: Option<(Duration, f64)>,
    /// Failures in a row that the head of the response has ended.
    pub forgiven: u32,
}

/// What is known of an upstream, to show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// `up`, `slow start`, `ejected` or `down`.
    pub health: &'static str,
    /// Requests under way.
    pub under_way: u32,
    /// Requests that were sent there.
    pub requests: u64,
    /// Peak-sensitive average of response times, in seconds; `None` before the first response.
    pub response: Option<f64>,
    /// Estimated service time in seconds, without the other requests; `None` before the first response.
    pub service: Option<f64>,
    /// Estimated time in the network in seconds, for connection and request; `None` before the first connection.
    pub network: Option<f64>,
    /// How much the total turnaround would grow with the next request there, in seconds.
    pub growth: f64,
}

/// The upstreams of a rule.
#[derive(Clone, Debug)]
pub struct Balancer {
    policy: Policy,
    upstreams: Vec<Upstream>,
    requests: Vec<u64>,
    turns: Turns,
    failures_max: u32,
    ejection: Duration,
    slow_start: Duration,
    times: Times,
    dry_run: Option<DryRun>,
    latest: Instant,
}

/// Service times of all upstreams at some instant.
#[derive(Clone, Debug)]
struct Times {
    service: Vec<f64>,
    network: Vec<f64>,
    /// How often the growth of a queue counts.
    later: f64,
    known: Vec<Option<Known>>,
    at: Instant,
}

/// The choices of a policy that are counted only.
#[derive(Clone, Debug)]
struct DryRun {
    policy: Policy,
    turns: Turns,
    rng: Rng,
    choices: u64,
    differing: u64,
}

impl Times {
    fn compute(&mut self, upstreams: &[Upstream], now: Instant) {
        self.at = now;
        self.known.clear();
        self.known
            .extend(upstreams.iter().map(|one| one.demand.known(now)));
        service_times(&self.known, &mut self.service);
        let heard = || upstreams.iter().filter_map(|one| one.network.get());
        let mean = heard().sum::<f64>() / (heard().count().max(1) as f64);
        self.network.clear();
        self.network
            .extend(upstreams.iter().map(|one| one.network.get().unwrap_or(mean)));
        let rates = upstreams.iter().map(|one| one.rate.get(now));
        // The speeds of all together serve the requests of all.
        let speed: f64 = self.service.iter().map(|service| 1.0 / service).sum();
        self.later = turnaround::later(rates.sum::<f64>() / speed);
    }
}

impl Times {
    fn growth(&self, at: usize, upstream: &Upstream) -> f64 {
        turnaround::cost(&turnaround::Line {
            network: self.network[at],
            service: self.service[at],
            present: (f64::from(upstream.under_way) - upstream.clock.travelling).max(0.0),
            later: self.later,
        })
    }
}

impl Balancer {
    /// A balancer before its first request.
    pub fn new(settings: &Settings) -> Balancer {
        let weights: Vec<u32> = settings.upstreams.iter().map(|(_, weight)| *weight).collect();
        let upstreams: Vec<Upstream> = settings
            .upstreams
            .iter()
            .map(|&(id, weight)| Upstream::new(id, weight))
            .collect();
        let count = upstreams.len();
        Balancer {
            policy: settings.policy,
            upstreams,
            requests: vec![0; count],
            turns: Turns::new(&weights),
            failures_max: settings.failures_max,
            ejection: settings.ejection,
            slow_start: settings.slow_start,
            times: Times {
                service: vec![1.0; count],
                network: vec![0.0; count],
                later: 1.0,
                known: Vec::new(),
                at: Instant::ZERO,
            },
            latest: Instant::ZERO,
            dry_run: settings.dry_run.map(|policy| DryRun {
                policy,
                turns: Turns::new(&weights),
                rng: Seed(0).rng(),
                choices: 0,
                differing: 0,
            }),
        }
    }

    /// Number of upstreams.
    pub fn len(&self) -> usize {
        self.upstreams.len()
    }

    /// The time of the last event.
    pub fn latest(&self) -> Instant {
        self.latest
    }

    /// Whether there is no upstream.
    pub fn is_empty(&self) -> bool {
        self.upstreams.is_empty()
    }

    /// The upstream for a request; `None` if it has tried all. The request is under way there until [`Balancer::leave`].
    pub fn enter(&mut self, request: Request, rng: &mut Rng, now: Instant) -> Option<Visit> {
        let open = self.open(request.tried, now);
        if open.is_empty() {
            return None;
        }
        self.refresh_times(now);
        let mut turns = std::mem::replace(&mut self.turns, Turns::new(&[]));
        let at = self.pick(self.policy, &mut turns, &open, request.key, rng, now);
        self.turns = turns;
        if let Some(mut dry) = self.dry_run.take() {
            let other = self.pick(dry.policy, &mut dry.turns, &open, request.key, &mut dry.rng, now);
            dry.choices += 1;
            dry.differing += u64::from(other != at);
            self.dry_run = Some(dry);
        }
        Some(self.visit(at, now))
    }

    /// As [`Balancer::enter`], with the upstreams that took part, by index, in the state that the policy saw.
    pub fn enter_seen(
        &mut self,
        request: Request,
        rng: &mut Rng,
        now: Instant,
    ) -> Option<(Visit, Vec<(usize, State)>)> {
        let open = self.open(request.tried, now);
        self.refresh_times(now);
        let seen = match self.uses_times() {
            true => self.states_at(&self.times, now),
            false => self.states(now),
        };
        let visit = self.enter(request, rng, now)?;
        let all = seen.into_iter().enumerate();
        Some((visit, all.filter(|(at, _)| open.contains(at)).collect()))
    }

    /// Whether the policy that is followed, or the one whose choices are counted, needs service times.
    fn uses_times(&self) -> bool {
        let dry = self.dry_run.as_ref();
        self.needs_times(self.policy) || dry.is_some_and(|dry| self.needs_times(dry.policy))
    }

    /// Computes the service times anew if they are needed and old.
    fn refresh_times(&mut self, now: Instant) {
        if self.uses_times() && now - self.times.at > TIMES_AGE_MAX {
            self.times.compute(&self.upstreams, now);
        }
    }

    /// As [`Balancer::enter`], but `choose` is asked for one of the upstreams that take part.
    pub(crate) fn enter_by(
        &mut self,
        request: Request,
        now: Instant,
        choose: impl FnOnce(&[usize]) -> usize,
    ) -> Option<Visit> {
        let open = self.open(request.tried, now);
        (!open.is_empty()).then(|| self.visit(choose(&open), now))
    }

    /// Those that were not tried and take part; if none does, those that were not tried.
    fn open(&self, tried: u64, now: Instant) -> Vec<usize> {
        let untried = || (0..self.len()).filter(|at| tried & 1 << at == 0);
        let open: Vec<usize> = untried()
            .filter(|&at| self.upstreams[at].health.is_open(now))
            .collect();
        if open.is_empty() {
            untried().collect()
        } else {
            open
        }
    }

    fn needs_times(&self, policy: Policy) -> bool {
        policy == Policy::Turnaround
    }

    /// One of `open`, which is not empty.
    fn pick(
        &self,
        policy: Policy,
        turns: &mut Turns,
        open: &[usize],
        key: u64,
        rng: &mut Rng,
        now: Instant,
    ) -> usize {
        let share = |at: usize| self.upstreams[at].health.share(self.slow_start, now);
        let load = |at: usize| least::load(&self.upstreams[at], share(at));
        match policy {
            _ if open.len() == 1 => open[0],
            Policy::RoundRobin => {
                // An upstream in its slow start lets some of its turns pass.
                let mut takes = |at: &usize| share(*at) >= 1.0 || choices::unit(rng) < share(*at);
                let taking: Vec<usize> = open.iter().copied().filter(|at| takes(at)).collect();
                turns.take(if taking.is_empty() { open } else { &taking })
            }
            Policy::LeastConnections => least::of(open, turns.take(open), load),
            Policy::TwoChoices => choices::of(open, rng, load),
            Policy::Ewma => choices::of(open, rng, |at| {
                let upstream = &self.upstreams[at];
                let cost = upstream.response.cost(upstream.under_way, now);
                cost / (f64::from(upstream.weight) * share(at))
            }),
            Policy::Hash => hash::of(&self.upstreams, open, key, share),
            Policy::Turnaround => least::of(open, turns.take(open), |at| self.growth(at) / share(at)),
        }
    }

    /// How much the total turnaround grows with a request to this upstream, in seconds.
    fn growth(&self, at: usize) -> f64 {
        self.times.growth(at, &self.upstreams[at])
    }

    fn visit(&mut self, at: usize, now: Instant) -> Visit {
        self.latest = self.latest.max(now);
        let upstream = &mut self.upstreams[at];
        upstream.health.entered(self.ejection, now);
        upstream.under_way += 1;
        let clock = upstream.clock.advance(now);
        upstream.clock.present += 1;
        self.requests[at] += 1;
        upstream.rate.add(now);
        Visit {
            at,
            began: now,
            clock,
            connect: None,
            answer: None,
            forgiven: 0,
        }
    }

    /// A connection was opened for the request.
    pub fn opened(&mut self, visit: &mut Visit, now: Instant) {
        let took = now - visit.began;
        visit.connect = Some(took);
        self.upstreams[visit.at].network.connected(took);
    }

    /// The head of the response arrived.
    pub fn answered(&mut self, visit: &mut Visit, now: Instant) {
        if visit.answer.is_some() {
            return;
        }
        self.latest = self.latest.max(now);
        let upstream = &mut self.upstreams[visit.at];
        let shared = upstream.clock.advance(now) - visit.clock;
        upstream.clock.present -= 1;
        let took = now - visit.began;
        upstream.response.add(took, now);
        let network = upstream.network.spent(visit.connect);
        // Little's law.
        upstream.clock.travelling = upstream.rate.get(now) * upstream.network.get().unwrap_or(0.0);
        let seconds = took.as_secs_f64();
        let mut service = 0.0;
        if seconds > 0.0 {
            // The network's part of the time is shared like the rest.
            service = shared * (seconds - network).max(0.0) / seconds;
            upstream.demand.add(service, now);
        }
        visit.answer = Some((took, service));
        visit.forgiven = upstream.health.succeeded(now);
        if self.uses_times() {
            self.times.compute(&self.upstreams, now);
        }
    }

    /// The upstream failed the request, whose [`Visit::forgiven`] count again. Returns whether it is ejected because of that. A single
    /// upstream never is.
    pub fn failed(&mut self, at: usize, forgiven: u32, now: Instant) -> bool {
        self.latest = self.latest.max(now);
        let failures_max = if self.len() == 1 { 0 } else { self.failures_max };
        self.upstreams[at]
            .health
            .failed(forgiven, failures_max, self.ejection, now)
    }

    /// An active check of the upstream ended. Returns whether it goes out of use or comes back because of that.
    pub fn checked(&mut self, at: usize, is_good: bool, now: Instant) -> bool {
        self.latest = self.latest.max(now);
        self.upstreams[at].health.checked(is_good, now)
    }

    /// The request is no longer under way.
    pub fn leave(&mut self, visit: Visit) {
        let upstream = &mut self.upstreams[visit.at];
        upstream.under_way -= 1;
        if visit.answer.is_none() {
            // Nobody tells the time here. The clock errs by the time since it was last read.
            upstream.clock.present -= 1;
        }
    }

    /// What is known of each upstream, in their order.
    pub fn states(&self, now: Instant) -> Vec<State> {
        let mut times = self.times.clone();
        times.compute(&self.upstreams, now);
        self.states_at(&times, now)
    }

    fn states_at(&self, times: &Times, now: Instant) -> Vec<State> {
        let state = |(at, upstream): (usize, &Upstream)| {
            let service = times.service[at];
            State {
                health: match upstream.health {
                    Health::Up { .. } if upstream.health.share(self.slow_start, now) < 1.0 => "slow start",
                    Health::Up { .. } => "up",
                    Health::Ejected { .. } => "ejected",
                    Health::Down => "down",
                },
                under_way: upstream.under_way,
                requests: self.requests[at],
                response: upstream.response.last(),
                service: times.known.get(at).copied().flatten().map(|_| service),
                network: upstream.network.get(),
                growth: times.growth(at, upstream),
            }
        };
        self.upstreams.iter().enumerate().map(state).collect()
    }

    /// Choices that the dry run has counted, and how many of them differ from those that were followed.
    pub fn dry_run(&self) -> Option<(Policy, u64, u64)> {
        let dry = self.dry_run.as_ref()?;
        Some((dry.policy, dry.choices, dry.differing))
    }
}

#[cfg(test)]
mod tests;
