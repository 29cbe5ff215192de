//! Arrivals of an open process, independent of responses, split exactly over shards.
//!
//! Every shard draws the whole process and keeps each `shards`-th arrival, so that the union of all shards equals the
//! process of a single one, to the nanosecond. A changing rate is a process of rate one with a variable clock: the
//! k-th arrival comes when the integral of the rate reaches the k-th arrival of that process. Does not know what is
//! requested.

use crate::chance::{Purpose, stream, uniform};
use core::fmt;
use core::str::FromStr;
use serde::Serialize;
use std::sync::Arc;
use units::{Duration, Rng, Seed};

/// Limit on the pieces of a schedule.
const PIECES_MAX: usize = 1000;
/// Limit on the arrival rate, per second.
const RATE_MAX: f64 = 1e7;

/// How arrival times are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Process {
    /// Poisson process: exponential gaps.
    Poisson,
    /// Constant gaps.
    Constant,
}

impl FromStr for Process {
    type Err = String;

    fn from_str(text: &str) -> Result<Process, String> {
        match text {
            "poisson" => Ok(Process::Poisson),
            "constant" => Ok(Process::Constant),
            _ => Err(format!(
                "`{text}` is not an arrival process: choose poisson or constant"
            )),
        }
    }
}

/// A piecewise constant arrival rate per second, written as `100` or `100,500@10s,50@20s`.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Start in seconds and rate per second of each piece; starts ascend from 0.
    pieces: Vec<(f64, f64)>,
}

impl Schedule {
    /// A constant rate.
    pub fn constant(rate: f64) -> Schedule {
        Schedule {
            pieces: vec![(0.0, rate)],
        }
    }

    /// Expected number of arrivals before `until`.
    pub fn expected(&self, until: Duration) -> f64 {
        let until = until.as_secs_f64();
        let ends = self
            .pieces
            .iter()
            .skip(1)
            .map(|&(from, _)| from)
            .chain([f64::INFINITY]);
        let each = self.pieces.iter().zip(ends);
        each.map(|(&(from, rate), end)| rate * (end.min(until) - from).max(0.0))
            .sum()
    }

    /// Second at which the expected number of arrivals reaches `expected`; infinite if it never does.
    fn when(&self, mut expected: f64) -> f64 {
        for (index, &(from, rate)) in self.pieces.iter().enumerate() {
            let room = match self.pieces.get(index + 1) {
                Some(&(end, _)) => rate * (end - from),
                None => f64::INFINITY,
            };
            if rate > 0.0 && expected <= room {
                return from + expected / rate;
            }
            if index + 1 < self.pieces.len() {
                expected -= room;
            }
        }
        f64::INFINITY
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedule, String> {
        let fault = |why: &str| format!("`{text}`: {why}; write a rate as 100 or `100,500@10s,50@20s`");
        let mut pieces: Vec<(f64, f64)> = Vec::new();
        for piece in text.split(',') {
            let (rate, from) = piece.split_once('@').unwrap_or((piece, "0"));
            let rate: f64 = rate.trim().parse().map_err(|_| fault("no number"))?;
            let from = from.trim();
            let from = from.strip_suffix('s').unwrap_or(from);
            let from: f64 = from.parse().map_err(|_| fault("not a time in seconds"))?;
            if !(0.0..=RATE_MAX).contains(&rate) {
                return Err(fault("a rate must be between 0 and 10,000,000"));
            }
            let follows = pieces.last().map_or(from == 0.0, |&(before, _)| from > before);
            if !follows || !from.is_finite() {
                return Err(fault(
                    "the first rate starts at 0, and each later rate after the one before it",
                ));
            }
            pieces.push((from, rate));
        }
        if pieces.len() > PIECES_MAX {
            return Err(fault("more than 1000 rates"));
        }
        if pieces.iter().all(|&(_, rate)| rate == 0.0) {
            return Err(fault("all rates are 0"));
        }
        Ok(Schedule { pieces })
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (from, rate)) in self.pieces.iter().enumerate() {
            match index {
                0 => write!(f, "{rate}")?,
                _ => write!(f, ",{rate}@{from}s")?,
            }
        }
        Ok(())
    }
}

/// Source of the arrival times.
#[derive(Clone, Debug)]
enum Source {
    Drawn {
        process: Process,
        schedule: Schedule,
        rng: Rng,
        /// Expected number of arrivals until the last one drawn.
        expected: f64,
    },
    Given(Arc<[Duration]>),
}

/// Arrivals of one shard: number in the whole process, and time from the start.
#[derive(Clone, Debug)]
pub struct Arrivals {
    source: Source,
    shard: u64,
    shards: u64,
    next: u64,
}

impl Arrivals {
    /// Arrivals that shard `shard` of `shards` owns; endless unless the rate ends at 0.
    pub fn new(process: Process, schedule: &Schedule, seed: Seed, shard: u64, shards: u64) -> Arrivals {
        Arrivals {
            source: Source::Drawn {
                process,
                schedule: schedule.clone(),
                rng: stream(seed, Purpose::Arrivals, 0),
                expected: 0.0,
            },
            shard,
            shards: shards.max(1),
            next: 0,
        }
    }

    /// Arrivals of shard `shard` of `shards` at given, ascending times.
    pub fn given(times: Arc<[Duration]>, shard: u64, shards: u64) -> Arrivals {
        Arrivals {
            source: Source::Given(times),
            shard,
            shards: shards.max(1),
            next: 0,
        }
    }

    /// Whether the times are given, so that the arrivals end.
    pub fn are_given(&self) -> bool {
        matches!(self.source, Source::Given(_))
    }
}

impl Iterator for Arrivals {
    type Item = (u64, Duration);

    fn next(&mut self) -> Option<(u64, Duration)> {
        loop {
            let number = self.next;
            self.next += 1;
            let at = match &mut self.source {
                Source::Given(times) => *times.get(usize::try_from(number).ok()?)?,
                Source::Drawn {
                    process,
                    schedule,
                    rng,
                    expected,
                } => {
                    *expected = match process {
                        Process::Constant => number as f64,
                        Process::Poisson => *expected - libm::log(uniform(rng)),
                    };
                    let at = schedule.when(*expected);
                    if !at.is_finite() {
                        return None;
                    }
                    Duration::from_nanos(libm::round(at * 1e9) as u64)
                }
            };
            if number % self.shards == self.shard {
                return Some((number, at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit;

    fn constant(rate: f64) -> Schedule {
        Schedule::constant(rate)
    }

    #[test]
    fn the_union_of_the_shards_is_the_whole() {
        for process in [Process::Poisson, Process::Constant] {
            let whole: Vec<_> = Arrivals::new(process, &constant(700.0), Seed(3), 0, 1)
                .take(2100)
                .collect();
            for shards in [2, 3, 7] {
                let mut union: Vec<_> = (0..shards)
                    .flat_map(|shard| {
                        Arrivals::new(process, &constant(700.0), Seed(3), shard, shards)
                            .take(2100 / shards as usize)
                    })
                    .collect();
                union.sort_unstable();
                assert_eq!(union, whole, "{process:?} {shards}");
            }
        }
    }

    #[test]
    fn gaps_are_exponential_or_equal() {
        let at: Vec<f64> = Arrivals::new(Process::Poisson, &constant(50.0), Seed(1), 0, 1)
            .take(100_000)
            .map(|(_, at)| at.as_secs_f64())
            .collect();
        let mut gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let fit = fit::kolmogorov_smirnov(&mut gaps, |gap| 1.0 - libm::exp(-50.0 * gap));
        assert!(fit.p_value > 0.01, "{fit:?}");
        let constant: Vec<u64> = Arrivals::new(Process::Constant, &constant(1000.0), Seed(1), 0, 1)
            .take(4)
            .map(|(_, at)| at.as_nanos() as u64)
            .collect();
        assert_eq!(constant, [0, 1_000_000, 2_000_000, 3_000_000]);
    }

    #[test]
    fn a_rate_that_changes_is_kept_to() {
        let schedule: Schedule = "100,0@2s,1000@3s,10@4s".parse().expect("a schedule");
        assert_eq!(schedule.to_string(), "100,0@2s,1000@3s,10@4s");
        assert_eq!(schedule.expected(Duration::from_millis(3500)), 700.0);
        for process in [Process::Constant, Process::Poisson] {
            let times: Vec<f64> = Arrivals::new(process, &schedule, Seed(1), 0, 1)
                .map(|(_, at)| at.as_secs_f64())
                .take_while(|&at| at < 14.0)
                .collect();
            assert!(times.is_sorted());
            for (from, to, mean) in [
                (0.0, 2.0, 200.0),
                (2.0, 3.0, 0.0),
                (3.0, 4.0, 1000.0),
                (4.0, 14.0, 100.0),
            ] {
                let count = times.iter().filter(|&&at| from < at && at <= to).count() as f64;
                let slack = match process {
                    Process::Constant => 1.0,
                    Process::Poisson => 4.0 * f64::sqrt(mean),
                };
                assert!((count - mean).abs() <= slack, "{process:?} {from}: {count}");
            }
        }
        let ends: Schedule = "10,0@1s".parse().expect("a schedule");
        assert_eq!(Arrivals::new(Process::Constant, &ends, Seed(1), 0, 1).count(), 11);
        for wrong in [
            "",
            "x",
            "-1",
            "0",
            "5@1s",
            "5,6@0s",
            "5,6@2s,7@1s",
            "1e9",
            "5,6@x",
            "nan",
        ] {
            assert!(wrong.parse::<Schedule>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn given_instants_are_split_too() {
        let times: Arc<[Duration]> = [3, 3, 9, 20].map(Duration::from_millis).into();
        let of = |shard, shards| Arrivals::given(Arc::clone(&times), shard, shards).collect::<Vec<_>>();
        assert_eq!(of(0, 1).len(), 4);
        assert_eq!(of(1, 3), [(1, Duration::from_millis(3))]);
        assert_eq!(
            of(0, 3),
            [(0, Duration::from_millis(3)), (3, Duration::from_millis(20))]
        );
    }
}
