//! Closed networks: a fixed number of users who think, ask, wait and think again.
//!
//! Exact mean value analysis (Reiser and Lavenberg 1980) for single servers and delays; convolution (Buzen 1973) for
//! stations with several servers; Schweitzer's approximation (1979) for any size. Asymptotic and balanced job bounds
//! bracket all of them (Lazowska, Zahorjan, Graham and Sevcik, Quantitative System Performance, 1984, chapter 5). One
//! class of users.

use crate::Seconds;
use crate::domain::{DomainError, non_negative, positive, within};
use crate::explain::{Bound, Explained, Quantity, Region, counted, significant};
use serde::Serialize;

/// Kind of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Kind {
    /// One server: processor sharing with any service, or first come first served with exponential service.
    Queue,
    /// A delay: no waiting.
    Delay,
    /// Several servers and one queue, exponential service.
    Servers(u32),
}

/// A station that requests visit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Station {
    /// Name in answers.
    pub name: String,
    /// Service demand of a request: visits times service time.
    pub demand: Seconds,
    /// Kind of the station.
    pub kind: Kind,
}

impl Station {
    /// A station with a single server.
    pub fn queue(name: &str, demand: Seconds) -> Station {
        Station {
            name: name.to_owned(),
            demand,
            kind: Kind::Queue,
        }
    }

    /// A station without waiting.
    pub fn delay(name: &str, demand: Seconds) -> Station {
        Station {
            name: name.to_owned(),
            demand,
            kind: Kind::Delay,
        }
    }

    /// A station of several servers.
    pub fn servers(name: &str, demand: Seconds, count: u32) -> Station {
        Station {
            name: name.to_owned(),
            demand,
            kind: Kind::Servers(count),
        }
    }
}

/// Limits on the size of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Users times stations in the exact recursion.
    pub exact_steps_max: u64,
    /// Users in the convolution, whose cost grows with their square.
    pub convolution_users_max: u64,
    /// Points of a sweep in memory.
    pub sweep_users_max: u64,
}

impl Limits {
    /// A few seconds on one core at most.
    pub const DEFAULT: Limits = Limits {
        exact_steps_max: 1_000_000_000,
        convolution_users_max: 30_000,
        sweep_users_max: 10_000_000,
    };
}

/// A closed network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Network {
    stations: Vec<Station>,
    think: Seconds,
}

/// One station in the steady state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The station.
    pub name: String,
    /// Utilization of each of its servers; for a delay, the mean number present.
    pub utilization: f64,
    /// Time a request spends there, waiting included.
    pub residence: Seconds,
    /// Mean number of requests there.
    pub jobs: f64,
}

/// The steady state with a number of users.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Solution {
    /// `N`.
    pub users: u64,
    /// `X`, requests per second.
    pub throughput: f64,
    /// `R`, mean response time.
    pub response: Seconds,
    /// Every station, in the order given.
    pub stations: Vec<Share>,
}

/// Bounds on throughput and response time, from the demands alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Brackets {
    /// Asymptotic bounds on throughput, requests per second.
    pub throughput_asymptotic: (f64, f64),
    /// Asymptotic bounds on response.
    pub response_asymptotic: (Seconds, Seconds),
    /// Balanced job bounds on throughput; absent where no station queues.
    pub throughput_balanced: Option<(f64, f64)>,
    /// Balanced job bounds on response.
    pub response_balanced: Option<(Seconds, Seconds)>,
    /// `N*`, the users at which the asymptotes cross: above it, the bottleneck limits throughput.
    pub knee: f64,
}

impl Network {
    /// A network with think time `think`; errors name a negative demand or a network without any demand.
    pub fn new(stations: Vec<Station>, think: Seconds) -> Result<Network, DomainError> {
        non_negative("think time", think.0, "0 s or more")?;
        for station in &stations {
            non_negative("demand", station.demand.0, "0 s or more")?;
            if let Kind::Servers(count) = station.kind {
                positive("servers of a station", f64::from(count), "1 or more")?;
            }
        }
        let demand: f64 = stations.iter().map(|station| station.demand.0).sum();
        positive("total demand", demand, "above 0 s")?;
        Ok(Network { stations, think })
    }

    /// The stations.
    pub fn stations(&self) -> &[Station] {
        &self.stations
    }

    /// The think time.
    pub fn think(&self) -> Seconds {
        self.think
    }

    /// `D`, the demand summed over all stations.
    pub fn demand(&self) -> Seconds {
        self.stations.iter().map(|station| station.demand).sum()
    }

    fn has_several_servers(&self) -> bool {
        self.stations
            .iter()
            .any(|station| matches!(station.kind, Kind::Servers(count) if count > 1))
    }

    /// The station that saturates first, and the largest throughput that it allows.
    pub fn bottleneck(&self) -> Option<(&Station, f64)> {
        let rate = |station: &Station| match station.kind {
            Kind::Delay => f64::INFINITY,
            Kind::Queue => 1.0 / station.demand.0,
            Kind::Servers(count) => f64::from(count) / station.demand.0,
        };
        let slowest = self.stations.iter().map(|station| (station, rate(station)));
        slowest
            .filter(|(_, rate)| rate.is_finite())
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The exact steady state with `users` users.
    pub fn exact(&self, users: u64) -> Result<Solution, DomainError> {
        self.exact_within(users, &Limits::DEFAULT)
    }

    /// [`Network::exact`] with other limits.
    pub fn exact_within(&self, users: u64, limits: &Limits) -> Result<Solution, DomainError> {
        positive("users", users as f64, "1 or more")?;
        if self.has_several_servers() {
            if users > limits.convolution_users_max {
                return Err(DomainError::Outside {
                    parameter: "users",
                    value: users as f64,
                    allowed: "up to the convolution limit for stations of several servers; use the approximation",
                });
            }
            return Ok(self.convolve(users));
        }
        if users.saturating_mul(self.stations.len() as u64) > limits.exact_steps_max {
            return Err(DomainError::Outside {
                parameter: "users",
                value: users as f64,
                allowed: "users times stations up to the limit of exact steps; use the approximation",
            });
        }
        let mut queues = vec![0.0; self.stations.len()];
        let mut throughput = 0.0;
        for n in 1..=users {
            throughput = self.mva_step(n, &mut queues);
        }
        Ok(self.solution(users, throughput, &queues))
    }

    /// Exact throughput (requests/s) and response time for 1 to `users` users: in one pass of mean value analysis, or
    /// by convolution if a station has several servers.
    pub fn sweep(&self, users: u64) -> Result<Vec<(u64, f64, Seconds)>, DomainError> {
        let limits = Limits::DEFAULT;
        if self.has_several_servers() {
            let max = limits.convolution_users_max;
            let allowed = "1 to 30,000 with stations of several servers";
            within("users", users as f64, (1..=max).contains(&users), allowed)?;
            let point = |(n, x): (u64, f64)| (n, x, Seconds(n as f64 / x) - self.think);
            return Ok((1..).zip(self.throughputs(users)).map(point).collect());
        }
        let max = limits.sweep_users_max;
        within(
            "users",
            users as f64,
            (1..=max).contains(&users),
            "1 to 10,000,000",
        )?;
        let mut queues = vec![0.0; self.stations.len()];
        let point = |n| {
            let x = self.mva_step(n, &mut queues);
            (n, x, Seconds(n as f64 / x) - self.think)
        };
        Ok((1..=users).map(point).collect())
    }

    /// Throughput with 1 to `users` users from the normalizing constants, `X(n) = G(n-1)/G(n)` (Buzen 1973).
    ///
    /// At a scale that suits many users, the constants of few users underflow; these are computed again at a scale of
    /// their own.
    fn throughputs(&self, users: u64) -> Vec<f64> {
        let mut all = vec![0.0; users as usize];
        let mut most = users as usize;
        while most > 0 {
            let (scale, constants) = self.constants(most);
            let known = |n: usize| constants[n - 1] > FAINT && constants[n] > FAINT;
            // The constants rise to their maximum and fall, so the valid ones form one stretch that ends at `most`.
            let first = (1..=most).rev().take_while(|&n| known(n)).last().unwrap_or(most);
            for n in first..=most {
                all[n - 1] = scale * constants[n - 1] / constants[n];
            }
            most = first - 1;
        }
        all
    }

    /// Scale, throughput, and the normalizing constants for 0 to `n` users at that scale; the largest is 1.
    fn constants(&self, n: usize) -> (f64, Vec<f64>) {
        let scale = self.brackets(n as u64).throughput_asymptotic.1;
        let thinking = factor(Kind::Delay, self.think.0 * scale, n);
        let factors = self
            .stations
            .iter()
            .map(|s| factor(s.kind, s.demand.0 * scale, n));
        (scale, factors.fold(thinking, |all, next| product(&all, &next)))
    }

    /// One step of mean value analysis: `queues` holds `Q_k(n-1)` and receives `Q_k(n)`; returns `X(n)`.
    fn mva_step(&self, n: u64, queues: &mut [f64]) -> f64 {
        let mut response = 0.0;
        for (station, queue) in self.stations.iter().zip(queues.iter_mut()) {
            let residence = match station.kind {
                Kind::Delay => station.demand.0,
                Kind::Queue | Kind::Servers(_) => station.demand.0 * (1.0 + *queue),
            };
            *queue = residence;
            response += residence;
        }
        let throughput = n as f64 / (self.think.0 + response);
        queues.iter_mut().for_each(|residence| *residence *= throughput);
        throughput
    }

    fn solution(&self, users: u64, throughput: f64, jobs: &[f64]) -> Solution {
        let shares = self.stations.iter().zip(jobs).map(|(station, &jobs)| Share {
            name: station.name.clone(),
            utilization: match station.kind {
                Kind::Queue | Kind::Delay => throughput * station.demand.0,
                Kind::Servers(count) => throughput * station.demand.0 / f64::from(count),
            },
            residence: Seconds(jobs / throughput),
            jobs,
        });
        Solution {
            users,
            throughput,
            response: Seconds(users as f64 / throughput) - self.think,
            stations: shares.collect(),
        }
    }

    /// Buzen's convolution. Scaling the demands by an estimate of the throughput turns each factor into the shape of
    /// a probability distribution: nothing overflows, and only negligible terms underflow.
    fn convolve(&self, users: u64) -> Solution {
        let n = users as usize;
        let x0 = self.brackets(users).throughput_asymptotic.1;
        let mut factors: Vec<Vec<f64>> = self
            .stations
            .iter()
            .map(|s| factor(s.kind, s.demand.0 * x0, n))
            .collect();
        factors.push(factor(Kind::Delay, self.think.0 * x0, n));
        // before[i] holds the convolution of factors 0..i, so that each station can be removed again.
        let mut before = vec![unit(n)];
        for f in &factors {
            let next = product(before.last().expect("starts with one element"), f);
            before.push(next);
        }
        let all = before.last().expect("one element per factor").clone();
        let throughput = x0 * all[n - 1] / all[n];
        let mut after = factors.pop().expect("the think time was pushed last");
        let mut jobs = vec![0.0; self.stations.len()];
        for i in (0..self.stations.len()).rev() {
            let others = product(&before[i], &after);
            let weight = |j: usize| factors[i][j] * others[n - j];
            let total: f64 = (0..=n).map(weight).sum();
            jobs[i] = (1..=n).map(|j| j as f64 * weight(j)).sum::<f64>() / total;
            after = product(&after, &factors[i]);
        }
        self.solution(users, throughput, &jobs)
    }

    /// Seidmann's rule: `c` servers of demand `D` behave much like one of `D/c` and a delay of `D (c-1)/c`.
    fn seidmann(&self) -> Network {
        let mut stations = Vec::with_capacity(self.stations.len());
        for station in &self.stations {
            match station.kind {
                Kind::Servers(count) => {
                    let c = f64::from(count);
                    stations.push(Station::queue(&station.name, station.demand / c));
                    stations.push(Station::delay(&station.name, station.demand * ((c - 1.0) / c)));
                }
                Kind::Queue | Kind::Delay => stations.push(station.clone()),
            }
        }
        Network {
            stations,
            think: self.think,
        }
    }

    /// Schweitzer's approximation: `Q_k(N-1) = (N-1)/N Q_k(N)` to a fixed point, for any number of users.
    ///
    /// Error typically a few percent, largest near the knee.
    pub fn approximate(&self, users: u64) -> Result<Solution, DomainError> {
        let n = positive("users", users as f64, "1 or more")?;
        let network = self.seidmann();
        let count = network.stations.len();
        let mut jobs = vec![n / count as f64; count];
        let mut throughput = 0.0;
        for _ in 0..100_000 {
            let fewer: Vec<f64> = jobs.iter().map(|q| q * (n - 1.0) / n).collect();
            let mut next = fewer;
            let x = network.mva_step(users, &mut next);
            let moved = next
                .iter()
                .zip(&jobs)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f64::max);
            jobs = next;
            let settled = (x - throughput).abs() <= 1e-12 * x && moved <= 1e-9 * n;
            throughput = x;
            if settled {
                break;
            }
        }
        // Recombines the two halves of each split station.
        let mut parts = jobs.into_iter();
        let mut next = || parts.next().unwrap_or(0.0);
        let joined: Vec<f64> = self
            .stations
            .iter()
            .map(|station| {
                if matches!(station.kind, Kind::Servers(_)) {
                    next() + next()
                } else {
                    next()
                }
            })
            .collect();
        Ok(self.solution(users, throughput, &joined))
    }

    /// Exact within the default limits, otherwise approximate.
    pub fn solve(&self, users: u64) -> Result<Explained<Solution>, DomainError> {
        let (solution, exact) = match self.exact(users) {
            Ok(solution) => (solution, true),
            Err(_) => (self.approximate(users)?, false),
        };
        Ok(self.explain(solution, exact))
    }

    /// Asymptotic and balanced job bounds with `users` users.
    pub fn brackets(&self, users: u64) -> Brackets {
        let n = users as f64;
        let z = self.think.0;
        let d = self.demand().0;
        let ceiling = self.bottleneck().map_or(f64::INFINITY, |(_, rate)| rate);
        let slowest = 1.0 / ceiling;
        let throughput_asymptotic = (n / (n * d + z), (n / (d + z)).min(ceiling));
        let response_asymptotic = (Seconds(d.max(n * slowest - z)), Seconds(n * d));
        let balanced = self.balanced(n, ceiling);
        let knee = if slowest > 0.0 {
            (d + z) / slowest
        } else {
            f64::INFINITY
        };
        Brackets {
            throughput_asymptotic,
            response_asymptotic,
            throughput_balanced: balanced,
            response_balanced: balanced.map(|(low, high)| (Seconds(n / high - z), Seconds(n / low - z))),
            knee,
        }
    }

    /// Balanced job bounds on throughput with `n` users, at most `ceiling`.
    ///
    /// For `c` servers of demand `D` the rate with `j` requests, `min(j, c)/D`, lies between rates of stations the
    /// bounds know, and throughput grows with the rates: above that of a queue of `D/c` followed by a delay of
    /// `D (c-1)/c`, which `j` requests leave at `min(j, c)/D` at the most; below that of a queue of `D/c` alone,
    /// `c/D`, and below that of a delay of `D`, `j/D`.
    fn balanced(&self, n: f64, ceiling: f64) -> Option<(f64, f64)> {
        let demands = |kind: fn(&Station, f64) -> (f64, f64)| -> Vec<(f64, f64)> {
            let stations = self.stations.iter().map(|station| match station.kind {
                Kind::Delay => (0.0, station.demand.0),
                Kind::Queue => (station.demand.0, 0.0),
                Kind::Servers(count) => kind(station, f64::from(count)),
            });
            stations.collect()
        };
        let slow = demands(|station, c| (station.demand.0 / c, station.demand.0 * (c - 1.0) / c));
        let (low, _) = balanced_bounds(n, self.think.0, &slow)?;
        let fast = demands(|station, c| (station.demand.0 / c, 0.0));
        let spread = demands(|station, c| {
            if c > 1.0 {
                (0.0, station.demand.0)
            } else {
                (station.demand.0, 0.0)
            }
        });
        let high = [fast, spread]
            .into_iter()
            .filter_map(|demands| balanced_bounds(n, self.think.0, &demands));
        let high = high.map(|(_, high)| high).fold(ceiling, f64::min);
        // A delay for each request: nobody waits.
        let alone = n / (self.think + self.demand()).0;
        Some((low, high.min(alone)))
    }

    fn explain(&self, solution: Solution, exact: bool) -> Explained<Solution> {
        let users = solution.users;
        let method = match (exact, self.has_several_servers()) {
            (true, false) => "exact mean value analysis, Reiser and Lavenberg 1980",
            (true, true) => "convolution, Buzen 1973",
            (false, _) => "approximate mean value analysis, Schweitzer 1979",
        };
        let line = format!(
            "{}: {} requests/s, mean response {}",
            counted(users, "user"),
            significant(solution.throughput),
            solution.response
        );
        let mut e = Explained::new(solution, line);
        for (station, share) in self.stations.iter().zip(e.answer.stations.clone()) {
            let formula = match station.kind {
                Kind::Delay => "D",
                Kind::Queue => "D (1 + Q(N-1))",
                Kind::Servers(_) => "residence with c servers",
            };
            let numbers = format!(
                "D = {}, Q(N) = {}",
                significant(station.demand.0),
                significant(share.jobs)
            );
            e.step(
                format!("R_{}", station.name),
                match station.kind {
                    Kind::Delay => format!("time at {}", station.name),
                    Kind::Queue | Kind::Servers(_) => format!(
                        "time at {}, utilization {}",
                        station.name,
                        significant(share.utilization)
                    ),
                },
                formula,
                numbers,
                share.residence.0,
                "s",
                method,
            );
        }
        let (x, r) = (e.answer.throughput, e.answer.response.0);
        let numbers = format!("{users} / ({} + {})", significant(r), significant(self.think.0));
        e.step(
            "X",
            "throughput",
            "N / (R + Z)",
            numbers,
            x,
            "requests/s",
            "interactive response time law",
        );
        let b = self.brackets(users);
        let knee = b.knee;
        if knee.is_finite() {
            e.step(
                "N*",
                "users at the knee",
                "(D + Z) / Dmax",
                "",
                knee,
                "users",
                "asymptotic bounds",
            );
        }
        e.bounds.extend(b.to_bounds());
        e.assumptions.extend([
            "one class of users, each with one request at a time",
            "stations share the processor, or serve exponential work in order of arrival",
        ]);
        e.region.push(Region {
            quantity: Quantity::ThinkVariability,
            low: 0.0,
            high: f64::INFINITY,
            outside: "means do not depend on it",
        });
        e.region.push(Region {
            quantity: Quantity::ServiceVariability,
            low: if self.has_several_servers() { 0.0 } else { 0.8 },
            high: if self.has_several_servers() { 1.5 } else { 1.25 },
            outside: if self.has_several_servers() {
                "stations of several servers are exact for exponential service only"
            } else {
                "a station that serves in order of arrival responds later with more variability (simulate it: weir model flow \
                 --discipline fifo); one that shares its processor does not change"
            },
        });
        if !exact {
            e.warnings
                .push("approximate: expect a few percent of error near the knee".to_owned());
        }
        e
    }
}

impl Brackets {
    /// The bounds as lines of an answer.
    pub fn to_bounds(&self) -> Vec<Bound> {
        let rate = |(low, high): (f64, f64), source| Bound {
            quantity: "throughput",
            low,
            high: Some(high),
            unit: "requests/s",
            source,
        };
        let time = |(low, high): (Seconds, Seconds), source| Bound {
            quantity: "response",
            low: low.0,
            high: Some(high.0),
            unit: "s",
            source,
        };
        let asymptotic = "asymptotic bounds, Muntz and Wong 1974";
        let balanced = "balanced job bounds, Zahorjan et al. 1982";
        let mut bounds = vec![
            rate(self.throughput_asymptotic, asymptotic),
            time(self.response_asymptotic, asymptotic),
        ];
        bounds.extend(self.throughput_balanced.map(|b| rate(b, balanced)));
        bounds.extend(self.response_balanced.map(|b| time(b, balanced)));
        bounds
    }
}

/// Balanced job bounds on throughput with `n` users and think time `z`; `demands` holds queueing and delay demand by
/// station. `None` if no station queues.
fn balanced_bounds(n: f64, z: f64, demands: &[(f64, f64)]) -> Option<(f64, f64)> {
    let queues = || demands.iter().map(|demand| demand.0).filter(|queue| *queue > 0.0);
    let queued: f64 = queues().sum();
    // Delays never queue: for these bounds they are think time that counts as response time.
    let pause = z + demands.iter().map(|demand| demand.1).sum::<f64>();
    let slowest = queues().fold(0.0, f64::max);
    let average = queued / queues().count() as f64;
    (queued > 0.0).then(|| {
        let low = n / (queued + pause + (n - 1.0) * slowest / (1.0 + pause / (n * queued)));
        let high = n / (queued + pause + (n - 1.0) * average / (1.0 + pause / queued));
        (low, high)
    })
}

/// Smaller constants may have lost terms to underflow.
const FAINT: f64 = 1e-200;

/// The unnormalized probabilities of 0 to `n` jobs at a station with load `a`; the largest is 1.
fn factor(kind: Kind, a: f64, n: usize) -> Vec<f64> {
    if a == 0.0 {
        return unit(n);
    }
    let servers = match kind {
        Kind::Queue => 1.0,
        Kind::Delay => f64::INFINITY,
        Kind::Servers(count) => f64::from(count),
    };
    let mut logs = Vec::with_capacity(n + 1);
    let mut log = 0.0;
    logs.push(log);
    for j in 1..=n {
        log += (a / servers.min(j as f64)).ln();
        logs.push(log);
    }
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logs.into_iter().map(|log| (log - top).exp()).collect()
}

fn unit(n: usize) -> Vec<f64> {
    let mut one = vec![0.0; n + 1];
    one[0] = 1.0;
    one
}

/// The first `a.len()` terms of the convolution, scaled so that the largest is 1.
fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut out: Vec<f64> = (0..a.len())
        .map(|n| a[..=n].iter().zip(b[..=n].iter().rev()).map(|(x, y)| x * y).sum())
        .collect();
    let top = out.iter().copied().fold(0.0, f64::max);
    if top > 0.0 {
        out.iter_mut().for_each(|value| *value /= top);
    }
    out
}

#[cfg(test)]
mod tests;
