//! Which upstream of a route gets the next request, and which get none for a while.
//!
//! ```text
//!            failures in a row            time is over             the probe succeeds
//!   Healthy ──────────────────▶ Ejected ───────────────▶ probed ───────────────────────▶ Healthy
//!                                  ▲                        │ fails, or does not end
//!                                  └────────────────────────┘
//! ```
//! Passive: only requests of clients tell the state. A process learns by itself; other processes do not share it. If every
//! upstream is ejected, all take part: an error is no worse than a refusal.

use crate::config::{Balance, Proxy};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use units::{Draw as _, Duration, Instant, Rng};

/// The upstreams of a route.
#[derive(Debug)]
pub(crate) struct Balancer {
    balance: Balance,
    members: Vec<Member>,
    /// The order of the turns, in which each upstream occurs as often as its weight.
    schedule: Vec<u8>,
    turns: AtomicUsize,
    failures_max: u32,
    ejection: Duration,
}

#[derive(Debug)]
struct Member {
    weight: u64,
    /// Requests under way.
    under_way: AtomicU32,
    /// Failures in a row.
    failures: AtomicU32,
    /// End of the ejection in nanoseconds of the clock; 0: none.
    out_until: AtomicU64,
}

impl Balancer {
    pub(crate) fn new(rule: &Proxy) -> Balancer {
        let weights: Vec<u64> = (0..rule.upstreams.len())
            .map(|at| u64::from(rule.weights.get(at).copied().unwrap_or(1)))
            .collect();
        Balancer {
            balance: rule.balance,
            schedule: schedule(&weights),
            members: weights
                .iter()
                .map(|&weight| Member {
                    weight,
                    under_way: AtomicU32::new(0),
                    failures: AtomicU32::new(0),
                    out_until: AtomicU64::new(0),
                })
                .collect(),
            turns: AtomicUsize::new(0),
            failures_max: rule.max_failures,
            ejection: rule.ejection_time,
        }
    }

    /// Number of upstreams.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// The upstream for a request. `tried` has a bit for each that this request has tried; `None` if it has tried all.
    /// The request is under way there until [`Balancer::leave`].
    pub(crate) fn enter(&self, tried: u64, rng: &mut Rng, now: Instant) -> Option<usize> {
        let all: Vec<usize> = (0..self.len()).filter(|at| tried & 1 << at == 0).collect();
        let mut open: Vec<usize> = all.iter().copied().filter(|&at| self.is_open(at, now)).collect();
        if open.is_empty() {
            open = all;
        }
        let at = match (self.balance, open.len()) {
            (_, 0) => return None,
            (_, 1) => open[0],
            (Balance::RoundRobin, _) => self.turn(&open),
            (Balance::LeastConnections, _) => {
                // Among equals, they take turns.
                let first = self.turn(&open);
                let shifted = |at: usize| (at + self.len() - first) % self.len();
                *open.iter().min_by(|a, b| {
                    self.compare(**a, **b)
                        .then_with(|| shifted(**a).cmp(&shifted(**b)))
                })?
            }
            (Balance::TwoChoices, count) => {
                let one = draw(rng, count);
                let other = (one + 1 + draw(rng, count - 1)) % count;
                match self.compare(open[one], open[other]) {
                    std::cmp::Ordering::Greater => open[other],
                    _ => open[one],
                }
            }
        };
        let member = &self.members[at];
        if member.out_until.load(Ordering::Relaxed) != 0 {
            // This request is the probe; until it ends, no other one is.
            let until = (now + self.ejection).as_nanos();
            member.out_until.store(until, Ordering::Relaxed);
        }
        member.under_way.fetch_add(1, Ordering::Relaxed);
        Some(at)
    }

    /// A request is no longer under way.
    pub(crate) fn leave(&self, at: usize) {
        self.members[at].under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// An upstream answered.
    pub(crate) fn succeeded(&self, at: usize) {
        let member = &self.members[at];
        member.failures.store(0, Ordering::Relaxed);
        member.out_until.store(0, Ordering::Relaxed);
    }

    /// An upstream failed before its response. Returns whether it is ejected because of that.
    pub(crate) fn failed(&self, at: usize, now: Instant) -> bool {
        let member = &self.members[at];
        let failures = member.failures.load(Ordering::Relaxed).saturating_add(1);
        member.failures.store(failures, Ordering::Relaxed);
        if self.failures_max == 0 || failures < self.failures_max || self.len() == 1 {
            return false;
        }
        let until = (now + self.ejection).as_nanos();
        member.out_until.swap(until, Ordering::Relaxed) == 0
    }

    fn is_open(&self, at: usize, now: Instant) -> bool {
        self.members[at].out_until.load(Ordering::Relaxed) <= now.as_nanos()
    }

    /// The next in the schedule that is among these, which are not empty.
    fn turn(&self, open: &[usize]) -> usize {
        for _ in 0..self.schedule.len() {
            let turn = self.turns.fetch_add(1, Ordering::Relaxed) % self.schedule.len();
            let at = usize::from(self.schedule[turn]);
            if open.contains(&at) {
                return at;
            }
        }
        open[0]
    }

    /// Compares two upstreams by requests under way for their weight, with one more.
    fn compare(&self, one: usize, other: usize) -> std::cmp::Ordering {
        let load = |at: usize| u64::from(self.members[at].under_way.load(Ordering::Relaxed)) + 1;
        let weight = |at: usize| self.members[at].weight;
        (load(one) * weight(other)).cmp(&(load(other) * weight(one)))
    }
}

/// A number below `count`.
fn draw(rng: &mut Rng, count: usize) -> usize {
    (rng.next_u64() % count as u64) as usize
}

/// An order of turns in which each index occurs as often as its weight, spread evenly: each turn goes to the one that is
/// furthest behind its share.
fn schedule(weights: &[u64]) -> Vec<u8> {
    let total: u64 = weights.iter().sum();
    let mut taken = vec![0; weights.len()];
    (1..=total)
        .map(|turn| {
            let behind = |at: &usize| (weights[*at] * turn) as i64 - (taken[*at] * total) as i64;
            // The first of equals.
            let next = (0..weights.len()).rev().max_by_key(behind).unwrap_or(0);
            taken[next] += 1;
            next as u8
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Seed;

    fn balancer(balance: Balance, weights: &[u32]) -> Balancer {
        let upstreams = vec!["http://127.0.0.1:1".parse().unwrap(); weights.len()];
        let rule = Proxy {
            balance,
            weights: weights.to_vec(),
            ..Proxy::new("/*".parse().unwrap(), upstreams)
        };
        Balancer::new(&rule)
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    /// How often each upstream is chosen, if every request ends at once.
    fn counts(balancer: &Balancer, requests: usize) -> Vec<usize> {
        let mut rng = Seed(1).rng();
        let mut counts = vec![0; balancer.len()];
        for _ in 0..requests {
            let chosen = balancer.enter(0, &mut rng, at(1)).unwrap();
            balancer.leave(chosen);
            counts[chosen] += 1;
        }
        counts
    }

    #[test]
    fn turns_follow_the_weights_evenly() {
        assert_eq!(schedule(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(schedule(&[3, 1]), [0, 0, 1, 0]);
        assert_eq!(schedule(&[100, 100]).len(), 200);
        assert_eq!(counts(&balancer(Balance::RoundRobin, &[3, 1]), 40), [30, 10]);
        assert_eq!(
            counts(&balancer(Balance::LeastConnections, &[1, 1]), 40),
            [20, 20]
        );
    }

    #[test]
    fn busy_upstreams_get_less() {
        for balance in [Balance::LeastConnections, Balance::TwoChoices] {
            let balancer = balancer(balance, &[1, 1]);
            let mut rng = Seed(2).rng();
            // Nothing ends: requests must spread evenly.
            for _ in 0..20 {
                balancer.enter(0, &mut rng, at(1)).unwrap();
            }
            let under_way = |at: usize| balancer.members[at].under_way.load(Ordering::Relaxed);
            assert_eq!((under_way(0), under_way(1)), (10, 10), "{balance}");
        }
    }

    #[test]
    fn a_request_tries_each_upstream_once() {
        let balancer = balancer(Balance::TwoChoices, &[1, 1, 1]);
        let mut rng = Seed(3).rng();
        let mut tried = 0;
        for _ in 0..3 {
            tried |= 1 << balancer.enter(tried, &mut rng, at(1)).unwrap();
        }
        assert_eq!((tried, balancer.enter(tried, &mut rng, at(1))), (0b111, None));
    }

    #[test]
    fn an_upstream_that_fails_is_ejected_and_probed() {
        let balancer = balancer(Balance::RoundRobin, &[1, 1]);
        let mut rng = Seed(4).rng();
        assert!(!balancer.failed(0, at(1)) && !balancer.failed(0, at(1)));
        assert!(balancer.failed(0, at(1)), "the third failure in a row ejects");
        assert_eq!(counts(&balancer, 10), [0, 10]);
        // After ten seconds, one request probes; the others stay away until it ends.
        let mut chosen = |seconds| balancer.enter(0, &mut rng, at(seconds)).unwrap();
        let later: Vec<usize> = (0..6).map(|_| chosen(12)).collect();
        assert_eq!(later.iter().filter(|at| **at == 0).count(), 1, "{later:?}");
        assert!(!balancer.failed(0, at(12)), "it was ejected before");
        assert_eq!((0..4).map(|_| chosen(13)).max(), Some(1));
        assert_eq!((0..4).map(|_| chosen(13)).min(), Some(1));
        balancer.succeeded(0);
        let healthy: Vec<usize> = (0..4).map(|_| chosen(13)).collect();
        assert!(healthy.contains(&0) && healthy.contains(&1), "{healthy:?}");
    }

    #[test]
    fn if_all_are_ejected_all_take_part() {
        let balancer = balancer(Balance::RoundRobin, &[1, 1]);
        for upstream in [0, 0, 0, 1, 1, 1] {
            balancer.failed(upstream, at(1));
        }
        assert_eq!(counts(&balancer, 10), [5, 5]);
        let alone = self::balancer(Balance::RoundRobin, &[1]);
        assert!((0..9).all(|_| !alone.failed(0, at(1))), "there is no other");
    }
}
