//! `ewma`: of two random upstreams, the one with the least product of peak response time and requests under way.
//!
//! The source is Finagle's `PeakEwma` load metric with its choice of two (com.twitter.finagle.loadbalancer). A response
//! slower than the average replaces it at once; otherwise the average moves with a time constant of 10 s, also while no
//! response arrives, so that an upstream that was slow is tried again.

use units::{Duration, Instant};

/// Time constant of the average: Finagle's default.
const DECAY_SECONDS: f64 = 10.0;

/// Cost of an upstream without any response, if it has requests under way: they may hang. Finagle's default.
const PENALTY: f64 = 1e9;

/// Peak-sensitive average of response times, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peak {
    average: f64,
    at: Instant,
}

impl Peak {
    /// A response took this long.
    pub(crate) fn add(&mut self, took: Duration, now: Instant) {
        let took = took.as_secs_f64();
        if took > self.average {
            self.average = took;
        } else {
            let kept = self.kept(now);
            self.average = self.average * kept + took * (1.0 - kept);
        }
        self.at = now;
    }

    fn kept(&self, now: Instant) -> f64 {
        libm::exp(-(now - self.at).as_secs_f64() / DECAY_SECONDS)
    }

    /// The average now, in seconds; zero before the first response.
    pub(crate) fn get(&self, now: Instant) -> f64 {
        self.average * self.kept(now)
    }

    /// The average at the last response; `None` before the first.
    pub(crate) fn last(&self) -> Option<f64> {
        (self.average > 0.0).then_some(self.average)
    }

    /// Cost of a request to an upstream with this many under way.
    pub(crate) fn cost(&self, under_way: u32, now: Instant) -> f64 {
        let average = self.get(now);
        if average == 0.0 && under_way > 0 {
            return PENALTY + f64::from(under_way);
        }
        average * (f64::from(under_way) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_count_at_once_and_fade() {
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let mut peak = Peak::default();
        assert_eq!(peak.cost(0, at(1)), 0.0);
        assert!(peak.cost(1, at(1)) > PENALTY);
        peak.add(Duration::from_millis(10), at(1));
        peak.add(Duration::from_millis(100), at(1));
        assert!((peak.cost(1, at(1)) - 0.2).abs() < 1e-12);
        peak.add(Duration::from_millis(10), at(11));
        let expected = 0.1 * libm::exp(-1.0) + 0.01 * (1.0 - libm::exp(-1.0));
        assert!((peak.get(at(11)) - expected).abs() < 1e-12);
        assert!(peak.get(at(41)) < peak.get(at(11)) / 15.0);
    }
}
