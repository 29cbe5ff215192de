//! A policy like Prequal, for comparison: Wydrowski, Kleinberg, Rumble and Archer, "Load is not what you should balance:
//! Introducing Prequal", NSDI 2024. Each request sends probes to random upstreams, which tell their load and latency;
//! later requests choose from the pool of answers by the rule of hot and cold.
//!
//! Its parameters are those of the paper where it gives them. It is "like" Prequal, because the latency that an upstream
//! tells is an average per load, and because an answer is used at most [`USES_MAX`] times in place of their formula.

use crate::choices::draw;
use std::collections::VecDeque;
use units::{Duration, Instant, Rng};

/// Probes per request.
const PROBES: usize = 3;

/// Answers in the pool.
const POOL_MAX: usize = 16;

/// Age at which an answer is dropped.
const AGE_MAX: Duration = Duration::from_secs(1);

/// Requests that use an answer.
const USES_MAX: u32 = 2;

/// Quantile of the loads above which an upstream is hot.
const HOT: f64 = 0.84;

/// Loads from which the quantile is taken.
const LOADS: usize = 128;

/// The answer to a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) upstream: usize,
    /// Requests at the upstream, and those sent since.
    pub(super) load: u32,
    pub(super) latency_ns: u64,
    pub(super) at: Instant,
    pub(super) uses: u32,
}

/// The pool of answers.
#[derive(Debug, Default)]
pub(super) struct Prequal {
    pool: VecDeque<Probe>,
    loads: VecDeque<u32>,
    removes_worst: bool,
}

impl Prequal {
    /// The upstreams to probe for a request: different random ones.
    pub(super) fn targets(&self, upstreams: usize, rng: &mut Rng) -> Vec<usize> {
        let mut all: Vec<usize> = (0..upstreams).collect();
        let count = PROBES.min(upstreams);
        for place in 0..count {
            let other = place + draw(rng, upstreams - place);
            all.swap(place, other);
        }
        all.truncate(count);
        all
    }

    /// Takes an answer.
    pub(super) fn add(&mut self, probe: Probe) {
        if self.pool.len() == POOL_MAX {
            self.pool.pop_front();
        }
        self.pool.push_back(probe);
        if self.loads.len() == LOADS {
            self.loads.pop_front();
        }
        self.loads.push_back(probe.load);
    }

    /// One of `open`, which is not empty.
    pub(super) fn choose(&mut self, open: &[usize], rng: &mut Rng, now: Instant) -> usize {
        self.pool
            .retain(|probe| now - probe.at <= AGE_MAX && open.contains(&probe.upstream));
        if self.pool.len() < 2 {
            return open[draw(rng, open.len())];
        }
        let limit = self.limit();
        let best = self.pool.iter_mut().min_by_key(|probe| rank(probe, limit));
        let Some(best) = best else { return open[0] };
        let chosen = best.upstream;
        best.uses += 1;
        for probe in &mut self.pool {
            probe.load += u32::from(probe.upstream == chosen);
        }
        self.pool.retain(|probe| probe.uses < USES_MAX);
        self.remove(limit);
        chosen
    }

    fn limit(&self) -> u32 {
        let mut loads: Vec<u32> = self.loads.iter().copied().collect();
        loads.sort_unstable();
        let place = (HOT * loads.len() as f64) as usize;
        loads.get(place).copied().unwrap_or(u32::MAX)
    }

    /// Drops the oldest answer and the worst one in turn.
    fn remove(&mut self, limit: u32) {
        if self.pool.len() <= 2 {
            return;
        }
        if self.removes_worst {
            let worst = (0..self.pool.len()).max_by_key(|&at| rank(&self.pool[at], limit));
            worst.and_then(|at| self.pool.remove(at));
        } else {
            self.pool.pop_front();
        }
        self.removes_worst = !self.removes_worst;
    }
}

/// Cold ones by latency come before hot ones by load.
fn rank(probe: &Probe, limit: u32) -> (bool, u64) {
    match probe.load > limit {
        true => (true, u64::from(probe.load)),
        false => (false, probe.latency_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Seed;

    #[test]
    fn cold_ones_by_latency_then_hot_ones_by_load() {
        let mut prequal = Prequal::default();
        let mut rng = Seed(1).rng();
        let probe = |upstream, load, latency_ns| Probe {
            upstream,
            load,
            latency_ns,
            at: Instant::ZERO,
            uses: 0,
        };
        for _ in 0..10 {
            prequal.add(probe(0, 1, 500));
        }
        prequal.add(probe(1, 9, 100));
        prequal.add(probe(2, 1, 400));
        assert_eq!(prequal.choose(&[0, 1, 2], &mut rng, Instant::ZERO), 2);
        // Old answers count for nothing.
        let later = Instant::ZERO + Duration::from_secs(2);
        assert_eq!(prequal.choose(&[3], &mut rng, later), 3);
        assert!(prequal.pool.is_empty());
        for _ in 0..100 {
            prequal.add(probe(0, 1, 500));
        }
        assert_eq!((prequal.pool.len(), prequal.loads.len()), (POOL_MAX, 112));
    }
}
