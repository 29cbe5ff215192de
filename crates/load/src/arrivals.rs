//! When objects are asked for if nobody waits for answers: an open process, split exactly over shards.
//!
//! Every shard draws the whole process and keeps each `shards`-th arrival, so that the union of all shards
//! is the process of a single one, to the nanosecond. Refuses to know what is asked for.

use crate::chance::{Purpose, stream, uniform};
use core::str::FromStr;
use measure::{Duration, Rng, Seed};
use serde::Serialize;

/// The kind of process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Process {
    /// Independent arrivals: exponential gaps.
    Poisson,
    /// Equal gaps.
    Constant,
}

impl FromStr for Process {
    type Err = String;

    fn from_str(text: &str) -> Result<Process, String> {
        match text {
            "poisson" => Ok(Process::Poisson),
            "constant" => Ok(Process::Constant),
            _ => Err(format!(
                "`{text}` is no process of arrivals; there are poisson and constant"
            )),
        }
    }
}

/// One shard's arrivals: number in the whole process and time from its beginning; endless.
#[derive(Clone, Debug)]
pub struct Arrivals {
    process: Process,
    /// Arrivals a second, over all shards.
    rate: f64,
    shard: u64,
    shards: u64,
    rng: Rng,
    next: u64,
    /// Seconds at which the last one came.
    at: f64,
}

impl Arrivals {
    /// The arrivals that shard `shard` of `shards` makes of `rate` a second in all.
    pub fn new(process: Process, rate: f64, seed: Seed, shard: u64, shards: u64) -> Arrivals {
        Arrivals {
            process,
            rate,
            shard,
            shards: shards.max(1),
            rng: stream(seed, Purpose::Arrivals, 0),
            next: 0,
            at: 0.0,
        }
    }
}

impl Iterator for Arrivals {
    type Item = (u64, Duration);

    fn next(&mut self) -> Option<(u64, Duration)> {
        loop {
            let number = self.next;
            self.next += 1;
            self.at = match self.process {
                Process::Constant => number as f64 / self.rate,
                Process::Poisson => self.at - libm::log(uniform(&mut self.rng)) / self.rate,
            };
            if number % self.shards == self.shard {
                return Some((number, Duration::from_nanos(libm::round(self.at * 1e9) as u64)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit;

    #[test]
    fn the_union_of_the_shards_is_the_whole() {
        for process in [Process::Poisson, Process::Constant] {
            let whole: Vec<_> = Arrivals::new(process, 700.0, Seed(3), 0, 1).take(2100).collect();
            for shards in [2, 3, 7] {
                let mut union: Vec<_> = (0..shards)
                    .flat_map(|shard| {
                        Arrivals::new(process, 700.0, Seed(3), shard, shards).take(2100 / shards as usize)
                    })
                    .collect();
                union.sort_unstable();
                assert_eq!(union, whole, "{process:?} {shards}");
            }
        }
    }

    #[test]
    fn gaps_are_exponential_or_equal() {
        let at: Vec<f64> = Arrivals::new(Process::Poisson, 50.0, Seed(1), 0, 1)
            .take(100_000)
            .map(|(_, at)| at.as_secs_f64())
            .collect();
        let mut gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let fit = fit::kolmogorov_smirnov(&mut gaps, |gap| 1.0 - libm::exp(-50.0 * gap));
        assert!(fit.p_value > 0.01, "{fit:?}");
        let constant: Vec<u64> = Arrivals::new(Process::Constant, 1000.0, Seed(1), 0, 1)
            .take(4)
            .map(|(_, at)| at.as_nanos() as u64)
            .collect();
        assert_eq!(constant, [0, 1_000_000, 2_000_000, 3_000_000]);
    }
}
