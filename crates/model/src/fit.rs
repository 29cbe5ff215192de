//! From measurements to parameters: service demand and think time from a load result, round-trip time and
//! rate from transfer times, each with a 95 % interval.
//!
//! Nonlinear least squares (Levenberg 1944, Marquardt 1963) on relative errors, in logarithms, so that every
//! parameter stays positive; intervals from the curvature at the minimum and Student's t (Bates and Watts
//! 1988, section 2.3). Formulas never read results: this file turns samples into their arguments.

use crate::Seconds;
use crate::closed::{Network, Station};
use crate::domain::{DomainError, positive};
use crate::explain::{Bound, Explained, Quantity, Region, significant};
use crate::tcp::Sender;
use crate::tcp::ramp::send_at;
use crate::tcp::setup::Setup;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use units::Bytes;

/// The `p` quantile of Student's t with `freedom` degrees of freedom.
pub(crate) fn student(p: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::MAX, |t| t.inverse_cdf(p))
}

/// Half the width of the 95 % confidence interval of the mean of `means`, as of batches of a simulation
/// (Law 2015, section 9.5.3); absent for fewer than two.
pub fn half_width(means: &[f64]) -> Option<f64> {
    let n = means.len() as f64;
    (means.len() > 1).then(|| student(0.975, n - 1.0) * spread(means) / n.sqrt())
}

/// An estimate with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    fn text(&self, unit: &str) -> String {
        let Estimate { value, low, high } = *self;
        format!(
            "{} {unit} [{}, {}]",
            significant(value),
            significant(low),
            significant(high)
        )
    }
}

/// One steady state of a load test with a fixed number of users.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadSample {
    /// Number of users.
    pub users: u64,
    /// Requests per second.
    pub throughput: f64,
    /// Mean response time.
    pub response: Seconds,
}

/// The system that a load test measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServiceFit {
    /// `D`, demand at the bottleneck, in seconds.
    pub demand: Estimate,
    /// `E`, the part of the response time without queueing, in seconds.
    pub delay: Estimate,
    /// `Z`, think time, in seconds.
    pub think: Estimate,
    /// Root mean square of the relative errors of the predicted responses.
    pub error: f64,
}

impl ServiceFit {
    /// The fitted system, to predict other numbers of users.
    pub fn network(&self) -> Result<Network, DomainError> {
        let stations = vec![
            Station::queue("bottleneck", Seconds(self.demand.value)),
            Station::delay("rest", Seconds(self.delay.value)),
        ];
        Network::new(stations, Seconds(self.think.value.max(0.0)))
    }
}

/// Largest number of users in a sample: one evaluation costs as many steps.
const USERS_MAX: u64 = 200_000;

/// Share of the response time by which the think time may be negative: measurements are no more precise than that.
const TOLERATED: f64 = 0.05;

/// Fits one bottleneck, a delay and a think time to `samples`: at least three, with different users.
pub fn service(samples: &[LoadSample]) -> Result<Explained<ServiceFit>, DomainError> {
    if samples.len() < 3 {
        return Err(DomainError::TooFew {
            what: "samples",
            got: samples.len(),
            need: 3,
        });
    }
    for sample in samples {
        let users = sample.users as f64;
        crate::domain::within(
            "users",
            users,
            sample.users >= 1 && sample.users <= USERS_MAX,
            "1 to 200,000",
        )?;
        positive("throughput", sample.throughput, "above 0 per second")?;
        positive("response", sample.response.0, "above 0 s")?;
    }
    // The response time law holds for every sample, whatever the system.
    let thinks: Vec<f64> = samples
        .iter()
        .map(|s| s.users as f64 / s.throughput - s.response.0)
        .collect();
    let think = mean_estimate(&thinks);
    let mean = samples.iter().map(|s| s.response.0).sum::<f64>() / samples.len() as f64;
    // More requests present than users would mean negative think times. Noise around a think time of zero is small
    // compared with the response times, or with its own interval.
    if think.value < -TOLERATED * mean && think.high < 0.0 {
        return Err(DomainError::Contradictory {
            because: format!(
                "N/X - R, the time users think, is {} s on average [{}, {}]; by Little's law a fixed number of users \
                 cannot have it below 0",
                significant(think.value),
                significant(think.low),
                significant(think.high)
            ),
        });
    }
    let z = think.value.max(0.0);
    let largest = samples.iter().map(|s| s.users).max().unwrap_or(1);
    let residuals = |p: &[f64]| -> Vec<f64> {
        let predicted = responses(p[0].exp(), p[1].exp(), z, largest);
        samples
            .iter()
            .map(|s| (predicted[s.users as usize - 1] / s.response.0).ln())
            .collect()
    };
    let peak = samples.iter().map(|s| s.throughput).fold(0.0, f64::max);
    let least = samples.iter().map(|s| s.response.0).fold(f64::INFINITY, f64::min);
    let demand = (1.0 / peak).min(least);
    let start = [demand.ln(), (least - demand).max(0.05 * least).ln()];
    let (demand, delay, error) = match least_squares(&residuals, &start) {
        Ok(fit) => (fit.interval(0), fit.interval(1), fit.rms),
        Err(undetermined) => without_delay(samples, demand, z, least).ok_or(undetermined)?,
    };
    let answer = ServiceFit {
        demand,
        delay,
        think,
        error,
    };
    let line = format!(
        "demand {}, delay {}, think time {}; responses within {} %",
        demand.text("s"),
        delay.text("s"),
        think.text("s"),
        significant(100.0 * error)
    );
    let mut e = Explained::new(answer, line);
    let count = format!("{} samples", samples.len());
    e.step(
        "Z",
        "think time",
        "mean of N/X - R",
        count.clone(),
        think.value,
        "s",
        "interactive response time law",
    );
    let formula = "argmin sum (ln R_MVA(N; D, E, Z) - ln R)2";
    e.step(
        "D",
        "demand at the bottleneck",
        formula,
        count.clone(),
        demand.value,
        "s",
        "nonlinear least squares",
    );
    e.step(
        "E",
        "delay besides the bottleneck",
        formula,
        count,
        delay.value,
        "s",
        "nonlinear least squares",
    );
    let capacity = 1.0 / demand.value;
    e.step(
        "X_max",
        "capacity",
        "1 / D",
        format!("1 / {}", significant(demand.value)),
        capacity,
        "requests/s",
        "asymptotic bounds",
    );
    e.bounds.push(Bound {
        quantity: "demand",
        low: 0.0,
        high: Some((1.0 / peak).min(least)),
        unit: "s",
        source: "the samples, but for their noise: X D <= 1 (utilization law), and nobody is answered sooner than served",
    });
    e.assumptions.extend([
        "one bottleneck that shares itself among requests, the same at every load",
        "each sample is a steady state",
    ]);
    e.region.push(Region {
        quantity: Quantity::Utilization,
        low: 0.0,
        high: (peak * demand.value).clamp(0.1, 1.0),
        outside: "beyond the highest load measured the fit extrapolates",
    });
    if peak * demand.value < 0.5 {
        e.warnings.push(format!(
            "the busiest sample uses only {} % of the fitted capacity: measure more users to pin it down",
            significant(100.0 * peak * demand.value)
        ));
    }
    if think.low < -0.02 * least || spread(&thinks) > 0.1 * (z + least) {
        e.warnings
            .push("N/X - R differs between samples: they disagree with a fixed number of users".to_owned());
    }
    if error > 0.1 {
        e.warnings
            .push("responses differ from the model by more than 10 %: more than one bottleneck?".to_owned());
    }
    Ok(e)
}

/// The fit of a system whose delay is not distinguishable from zero: demand, delay and root mean square error.
///
/// The logarithm of zero has no curvature, so the upper end of the delay's interval is that of the profile: the
/// largest delay whose best demand explains the samples not significantly worse (Bates and Watts 1988, section 6.1).
/// `None` if that is a large share of the response time, because then the samples do not separate demand and delay.
fn without_delay(
    samples: &[LoadSample],
    demand: f64,
    think: f64,
    least: f64,
) -> Option<(Estimate, Estimate, f64)> {
    let largest = samples.iter().map(|s| s.users).max()?;
    let with = |delay: f64| {
        let residuals = |p: &[f64]| -> Vec<f64> {
            let predicted = responses(p[0].exp(), delay, think, largest);
            samples
                .iter()
                .map(|s| (predicted[s.users as usize - 1] / s.response.0).ln())
                .collect()
        };
        least_squares(&residuals, &[demand.ln()]).ok()
    };
    let none = with(0.0)?;
    let freedom = samples.len() as f64 - 2.0;
    // A millionth is the precision of the search.
    let allowed = none.rms.powi(2) * (1.0 + student(0.975, freedom).powi(2) / freedom) + 1e-12;
    let (mut low, mut high) = (0.0, least);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if with(middle).is_some_and(|fit| fit.rms.powi(2) <= allowed) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let delay = Estimate {
        value: 0.0,
        low: 0.0,
        high: low,
    };
    (low < 0.5 * least).then(|| (none.interval(0), delay, none.rms))
}

/// Response times for 1 to `users` users of a queue with demand `d`, a delay `e` and a think time `z`.
fn responses(d: f64, e: f64, z: f64, users: u64) -> Vec<f64> {
    let mut queue = 0.0;
    (1..=users)
        .map(|n| {
            let residence = d * (1.0 + queue);
            let response = residence + e;
            queue = n as f64 * residence / (response + z);
            response
        })
        .collect()
}

fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)).sqrt()
}

fn mean_estimate(values: &[f64]) -> Estimate {
    let n = values.len() as f64;
    let value = values.iter().sum::<f64>() / n;
    let half = student(0.975, n - 1.0) * spread(values) / n.sqrt();
    Estimate {
        value,
        low: value - half,
        high: value + half,
    }
}

/// One transfer on an unshared path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferSample {
    /// Bytes transferred.
    pub size: Bytes,
    /// Time from the start of connection set-up to the last byte.
    pub latency: Seconds,
}

/// The path that the transfers used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PathFit {
    /// Round-trip time in seconds, server time per request included.
    pub rtt: Estimate,
    /// Rate of the slowest link in bit/s.
    pub rate: Estimate,
    /// The initial window, in segments, among those tried that explains the samples best.
    pub initial_window: f64,
    /// Root mean square of the relative errors of the predicted latencies.
    pub error: f64,
}

/// Initial windows of common stacks: RFC 2001, 2414, 3390, Heidemann's 2, RFC 6928, large CDNs.
pub const INITIAL_WINDOWS: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 10.0, 16.0, 32.0];

/// Fits round-trip time and rate to `samples` of at least two sizes, trying each of `windows` as initial window.
pub fn path(
    samples: &[TransferSample],
    sender: &Sender,
    setup: Setup,
    windows: &[f64],
) -> Result<Explained<PathFit>, DomainError> {
    sender.check()?;
    if samples.len() < 3 {
        return Err(DomainError::TooFew {
            what: "samples",
            got: samples.len(),
            need: 3,
        });
    }
    for sample in samples {
        positive("size", sample.size.0 as f64, "1 B or more")?;
        positive("latency", sample.latency.0, "above 0 s")?;
    }
    let least = samples.iter().map(|s| s.latency.0).fold(f64::INFINITY, f64::min);
    let speed = samples
        .iter()
        .map(|s| sender.wire_bytes(s.size) * 8.0 / s.latency.0)
        .fold(0.0, f64::max);
    let trips = f64::from(setup.round_trips()) + 1.0;
    let mut best: Option<(f64, Fit)> = None;
    for &window in windows {
        let sender = sender.with_initial_window(window);
        sender.check()?;
        let residuals = |p: &[f64]| -> Vec<f64> {
            let (rtt, seconds_per_bit) = (p[0].exp(), p[1].exp());
            samples
                .iter()
                .map(|s| (predicted(&sender, trips, rtt, seconds_per_bit, s.size) / s.latency.0).ln())
                .collect()
        };
        // The latency has kinks where a stall vanishes; several starting points avoid a fit stuck at one.
        for share in [0.3, 0.9] {
            let start = [(share * least / trips).ln(), (1.0 / (speed * (1.5 - share))).ln()];
            let Ok(fit) = least_squares(&residuals, &start) else {
                continue;
            };
            if best.as_ref().is_none_or(|(_, other)| fit.rms < other.rms) {
                best = Some((window, fit));
            }
        }
    }
    let (initial_window, fit) = best.ok_or(DomainError::Undetermined {
        because: "sizes are too alike to tell round trips from rate; add much smaller and much larger ones",
    })?;
    let rtt = fit.interval(0);
    let per_bit = fit.interval(1);
    let rate = Estimate {
        value: 1.0 / per_bit.value,
        low: 1.0 / per_bit.high,
        high: 1.0 / per_bit.low,
    };
    let answer = PathFit {
        rtt,
        rate,
        initial_window,
        error: fit.rms,
    };
    let line = format!(
        "round trip {}, rate {}, initial window {}; latencies within {} %",
        rtt.text("s"),
        rate.text("bit/s"),
        significant(initial_window),
        significant(100.0 * fit.rms)
    );
    let mut e = Explained::new(answer, line);
    let count = format!("{} samples", samples.len());
    let formula = "argmin sum (ln T(size; R, C, w) - ln T)2";
    e.step(
        "R",
        "round-trip time",
        formula,
        count.clone(),
        rtt.value,
        "s",
        "nonlinear least squares",
    );
    e.step(
        "C",
        "rate",
        formula,
        count.clone(),
        rate.value,
        "bit/s",
        "nonlinear least squares",
    );
    e.step(
        "w",
        "initial window",
        "least error among those tried",
        count,
        initial_window,
        "segments",
        "nonlinear least squares",
    );
    e.bounds.extend([
        Bound {
            quantity: "round-trip time",
            low: 0.0,
            high: Some(least / trips),
            unit: "s",
            source: "no transfer is sooner than its round trips",
        },
        Bound {
            quantity: "rate",
            low: speed,
            high: None,
            unit: "bit/s",
            source: "no transfer is sooner than its bytes",
        },
    ]);
    e.assumptions.extend([
        "transfers had the path to themselves and lost nothing",
        "time in the server counts as round trip",
    ]);
    e.region.push(Region {
        quantity: Quantity::Loss,
        low: 0.0,
        high: 0.001,
        outside: "losses stretched some samples; fit without them",
    });
    if fit.rms > 0.1 {
        e.warnings.push(
            "latencies differ from the model by more than 10 %: shared link, loss or server time?".to_owned(),
        );
    }
    Ok(e)
}

fn predicted(sender: &Sender, trips: f64, rtt: f64, seconds_per_bit: f64, size: Bytes) -> f64 {
    let sent = send_at(8.0 * seconds_per_bit, rtt, sender, size, sender.initial_window);
    rtt * trips + sent.sending().0
}

/// A minimum of the search.
struct Fit {
    at: Vec<f64>,
    /// Standard errors of the logarithms.
    errors: Vec<f64>,
    freedom: f64,
    rms: f64,
}

impl Fit {
    /// The interval of parameter `i`, whose logarithm was fitted.
    fn interval(&self, i: usize) -> Estimate {
        let half = student(0.975, self.freedom) * self.errors[i];
        Estimate {
            value: self.at[i].exp(),
            low: (self.at[i] - half).exp(),
            high: (self.at[i] + half).exp(),
        }
    }
}

const ITERATIONS_MAX: usize = 300;

/// Minimizes the sum of squared `residuals` over the logarithms of positive parameters, from `start`.
///
/// Errors when the samples do not determine all parameters.
fn least_squares(residuals: &impl Fn(&[f64]) -> Vec<f64>, start: &[f64]) -> Result<Fit, DomainError> {
    let undetermined = DomainError::Undetermined {
        because: "samples are too alike to tell the parameters apart; add lower and higher loads or sizes",
    };
    let square = |r: &[f64]| r.iter().map(|x| x * x).sum::<f64>();
    let count = start.len();
    let mut at = start.to_vec();
    let mut current = residuals(&at);
    let mut cost = square(&current);
    if !cost.is_finite() {
        return Err(undetermined);
    }
    let mut damping = 1e-3;
    for _ in 0..ITERATIONS_MAX {
        let (normal, gradient) = normal_equations(residuals, &at, &current);
        let mut damped = normal.clone();
        for (i, row) in damped.iter_mut().enumerate() {
            row[i] += damping * (row[i] + 1e-12);
        }
        let Some(step) = solve(damped, &gradient) else {
            return Err(undetermined);
        };
        // A single step of more than e^3 would leave the region where the tangent is useful.
        let moved: Vec<f64> = at
            .iter()
            .zip(&step)
            .map(|(x, dx)| x - dx.clamp(-3.0, 3.0))
            .collect();
        let tried = residuals(&moved);
        let better = square(&tried);
        let size = step.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        if better <= cost {
            let gained = cost - better;
            (at, current, cost) = (moved, tried, better);
            damping = (damping / 10.0).max(1e-12);
            if size < 1e-10 || gained <= 1e-14 * cost {
                break;
            }
        } else {
            damping *= 10.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    let (normal, _) = normal_equations(residuals, &at, &current);
    let freedom = current.len() as f64 - count as f64;
    let variance = cost / freedom.max(1.0);
    let mut errors = Vec::with_capacity(count);
    for i in 0..count {
        let column: Vec<f64> = (0..count).map(|j| f64::from(u8::from(i == j))).collect();
        let inverse = solve(normal.clone(), &column).ok_or(undetermined.clone())?;
        errors.push((variance * inverse[i].max(0.0)).sqrt());
    }
    // A parameter whose interval spans more than a factor of e^5 either way is undetermined.
    if errors.iter().any(|error| !error.is_finite() || *error > 5.0) || freedom < 1.0 {
        return Err(undetermined);
    }
    Ok(Fit {
        at,
        errors,
        freedom,
        rms: (cost / current.len() as f64).sqrt(),
    })
}

/// `J'J` and `J'r` with a central-difference Jacobian.
fn normal_equations(
    residuals: &impl Fn(&[f64]) -> Vec<f64>,
    at: &[f64],
    current: &[f64],
) -> (Vec<Vec<f64>>, Vec<f64>) {
    const H: f64 = 1e-5;
    let columns: Vec<Vec<f64>> = (0..at.len())
        .map(|i| {
            let moved = |h: f64| {
                let mut p = at.to_vec();
                p[i] += h;
                residuals(&p)
            };
            moved(H)
                .iter()
                .zip(moved(-H))
                .map(|(a, b)| (a - b) / (2.0 * H))
                .collect()
        })
        .collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let normal = columns
        .iter()
        .map(|a| columns.iter().map(|b| dot(a, b)).collect())
        .collect();
    let gradient = columns.iter().map(|a| dot(a, current)).collect();
    (normal, gradient)
}

/// Solves a small linear system by elimination with pivoting; `None` if it is singular to working precision.
fn solve(mut a: Vec<Vec<f64>>, b: &[f64]) -> Option<Vec<f64>> {
    let n = b.len();
    let mut b = b.to_vec();
    let scale = a.iter().flatten().fold(0.0, |top: f64, x| top.max(x.abs()));
    for i in 0..n {
        let pivot = (i..n).max_by(|&p, &q| a[p][i].abs().total_cmp(&a[q][i].abs()))?;
        a.swap(i, pivot);
        b.swap(i, pivot);
        let head = a[i][i];
        if head.is_nan() || head.abs() <= 1e-14 * scale {
            return None;
        }
        for k in i + 1..n {
            let factor = a[k][i] / head;
            let (above, below) = a.split_at_mut(k);
            for (entry, head) in below[0][i..].iter_mut().zip(&above[i][i..]) {
                *entry -= factor * head;
            }
            b[k] -= factor * b[i];
        }
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| a[i][j] * b[j]).sum();
        b[i] = (b[i] - known) / a[i][i];
    }
    Some(b)
}

#[cfg(test)]
mod tests;
