//! The conditions of the experiment: fixed before its first run.

use crate::choices::unit;
use model::Sizes;
use units::Rng;

/// Mean work of a request, in seconds at speed 1.
const WORK: f64 = 0.010;

/// Speed of the upstream that slows down, as a part of its own.
pub(super) const SLOWED: f64 = 0.2;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// One by one, at random times.
    Poisson,
    /// Several at once, at random times: a geometric number with a mean of two per upstream.
    Bursts,
}

/// What happens to the first upstream in the middle half of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It has a fifth of its speed.
    Slows,
    /// It closes each connection without a response, at once.
    Fails,
}

/// Conditions of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Name, unique among cases with as many upstreams.
    pub name: &'static str,
    /// Number of upstreams.
    pub upstreams: usize,
    /// Speeds relative to each other, in turn; scaled so that their mean is 1.
    pub relative: Vec<f64>,
    /// Processors of each upstream; together they have its speed.
    pub cores: u32,
    /// Work of requests, relative to its mean.
    pub sizes: Sizes,
    /// Round-trip times in seconds, in turn.
    pub round_trips: Vec<f64>,
    /// How requests come.
    pub arrivals: Arrivals,
    /// What happens to the first upstream.
    pub fault: Fault,
    /// Processes of the proxy, which share nothing.
    pub processes: usize,
    /// Offered work as a part of the speed of all.
    pub load: f64,
    /// Time in which requests come, in seconds.
    pub seconds: f64,
}

impl Case {
    /// The speed of each upstream: work in seconds that it does in a second.
    pub(super) fn speeds(&self) -> impl Iterator<Item = f64> {
        let each = move |at: usize| self.relative[at % self.relative.len()];
        let mean = (0..self.upstreams).map(each).sum::<f64>() / self.upstreams as f64;
        (0..self.upstreams).map(move |at| each(at) / mean)
    }

    /// Begin and end of the fault, in seconds.
    pub(super) fn faulty(&self) -> (f64, f64) {
        (self.seconds * 0.25, self.seconds * 0.75)
    }

    /// Instant and work of each request, in seconds.
    pub(super) fn requests(&self, rng: &mut Rng) -> Vec<(f64, f64)> {
        let rate = self.load * self.upstreams as f64 / WORK;
        let burst = match self.arrivals {
            Arrivals::Poisson => 1.0,
            Arrivals::Bursts => 2.0 * self.upstreams as f64,
        };
        let scale = WORK / self.sizes.mean();
        let gaps = Sizes::Exponential { mean: burst / rate };
        let mut requests = Vec::new();
        let mut now = gaps.draw(rng);
        while now < self.seconds {
            requests.push((now, self.sizes.draw(rng) * scale));
            while unit(rng) >= 1.0 / burst {
                requests.push((now, self.sizes.draw(rng) * scale));
            }
            now += gaps.draw(rng);
        }
        requests
    }
}

/// The cases with these numbers of upstreams; requests come for this many seconds.
pub fn cases(upstreams: &[usize], seconds: f64) -> Vec<Case> {
    let of = |&upstreams: &usize| {
        let equal = Case {
            name: "equal",
            upstreams,
            relative: vec![1.0],
            cores: 1,
            sizes: Sizes::Exponential { mean: 1.0 },
            round_trips: vec![0.0005],
            arrivals: Arrivals::Poisson,
            fault: Fault::None,
            processes: 1,
            load: 0.7,
            seconds,
        };
        let other = |name| Case {
            name,
            ..equal.clone()
        };
        [
            equal.clone(),
            Case {
                relative: vec![1.0, 3.0],
                ..other("unequal")
            },
            Case {
                sizes: Sizes::BoundedPareto {
                    low: 1.0,
                    high: 1000.0,
                    alpha: 1.2,
                },
                ..other("heavy-tailed")
            },
            Case {
                cores: 4,
                ..other("four cores")
            },
            Case {
                round_trips: vec![0.001, 0.020],
                ..other("half are far")
            },
            Case {
                fault: Fault::Slows,
                load: 0.4,
                ..other("one slows down")
            },
            Case {
                fault: Fault::Fails,
                load: 0.4,
                ..other("one fails")
            },
            Case {
                arrivals: Arrivals::Bursts,
                ..other("bursts")
            },
            Case {
                processes: 4,
                ..other("four processes")
            },
        ]
    };
    upstreams.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Seed;

    #[test]
    fn requests_offer_the_load_of_their_case() {
        for case in cases(&[8], 400.0) {
            let work: f64 = case
                .requests(&mut Seed(1).rng())
                .iter()
                .map(|(_, work)| work)
                .sum();
            let load = work / (case.seconds * case.speeds().sum::<f64>());
            let tolerance = if case.name == "heavy-tailed" { 0.2 } else { 0.03 };
            assert!(
                (load / case.load - 1.0).abs() < tolerance,
                "{}: {load}",
                case.name
            );
            assert!((case.speeds().sum::<f64>() - 8.0).abs() < 1e-9);
        }
    }
}
