//! Distribution families: maximum-likelihood parameters for given values, and the distance of the fit.
//!
//! Parameters are computed in closed form or by Newton's method if values are exact. If they are rounded (counts, times
//! in whole seconds), a closed form is off by up to a unit, which is much for a value of 2; then the likelihood of the
//! *rounded* values is maximized by hill climbing with shrinking steps. The same applies if values above a bound were
//! removed: the remaining ones have a truncated distribution. The family with the smallest Kolmogorov-Smirnov distance
//! is the best.

use super::{Candidate, VALUES_MIN};
use crate::fit::{Fit, kolmogorov_smirnov, kolmogorov_smirnov_whole};
use crate::limits::FILE_BYTES_MAX;
use crate::model::{Model, Part, Shape};

/// Limit on values used for a fit; with more, evenly spaced order statistics are used.
const VALUES_MAX: usize = 200_000;
/// The limit for a mixture, whose fit iterates.
const MIXED_MAX: usize = 5000;
/// Candidate starts of a tail, as quantiles of the values.
const CUTS: [f64; 9] = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97];
/// Integers up to this have a bin each; above it, a bin's width is this fraction of its value.
const BINS_SINGLE: f64 = 64.0;
const BINS_WIDER: f64 = 0.03;

/// Number of bins of equal counts when climbing the likelihood of exact values.
const BINS_EVEN: usize = 500;
/// Limit on climbing steps: along a ridge they are short.
const STEPS_MAX: usize = 5000;

/// Truncation of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bounds {
    /// No truncation.
    None,
    /// Sizes: from the smallest file a site can have to the largest. Includes hybrids and mixtures.
    OfSizes {
        /// Smallest size.
        low: f64,
    },
    /// Truncated above: longer values are of another kind and were removed.
    Upto(f64),
}

/// How a drawn value was recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Seen {
    /// Exactly.
    Exactly(Bounds),
    /// Rounded down.
    Down,
    /// Rounded to the nearest whole number of at least 1.
    Nearest,
    /// As the difference of two times, both rounded down to whole seconds.
    Seconds {
        /// Longer values were removed.
        upto: f64,
    },
}

/// A distribution family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Lognormal,
    Pareto,
    Weibull,
    Exponential,
    InverseGaussian,
}

/// All families fitted to sorted values, best first; empty if there are too few values.
pub(super) fn candidates(values: &[f64], families: &[Family], seen: Seen) -> Vec<Candidate> {
    let (Some(&least), Some(&most)) = (values.first(), values.last()) else {
        return Vec::new();
    };
    if values.len() < VALUES_MIN {
        return Vec::new();
    }
    let constant = (least == most).then(|| Model::single(Shape::Constant(least), 0.0, f64::INFINITY));
    if let Some(Ok(model)) = constant {
        return vec![Candidate {
            model: model.to_string(),
            distance: 0.0,
            p_value: 1.0,
        }];
    }
    let mut found: Vec<Candidate> = match seen {
        Seen::Exactly(bounds) => exactly(&spaced(values, VALUES_MAX), families, bounds),
        _ => {
            let rounded = Rounded::new(values, seen);
            let models = families.iter().filter_map(|family| rounded.likeliest(*family));
            models.filter_map(|shape| rounded.held_against(shape)).collect()
        }
    };
    found.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    found
}

/// At most `most` of the sorted values, evenly spaced.
fn spaced(values: &[f64], most: usize) -> Vec<f64> {
    let count = values.len();
    if count <= most {
        return values.to_vec();
    }
    (0..most).map(|n| values[n * count / most]).collect()
}

fn exactly(values: &[f64], families: &[Family], bounds: Bounds) -> Vec<Candidate> {
    let (low, high) = match bounds {
        Bounds::None => (0.0, f64::INFINITY),
        Bounds::OfSizes { low } => {
            let ends = values.first().zip(values.last());
            let (least, most) = ends.map_or((0.0, 0.0), |(&least, &most)| (least, most));
            let low = if low > 0.0 { least.max(low) } else { 0.0 };
            (low, most.min(FILE_BYTES_MAX as f64))
        }
        Bounds::Upto(high) => (0.0, high),
    };
    let likeliest = |family: &Family| match bounds {
        Bounds::Upto(high) => family.likeliest_upto(values, high),
        _ => family.likeliest(values),
    };
    let single = families
        .iter()
        .filter_map(|family| Model::single(likeliest(family)?, low, high).ok());
    let mut found: Vec<Candidate> = single.map(|model| held_against(values, &model)).collect();
    if matches!(bounds, Bounds::OfSizes { .. }) {
        let hybrids = CUTS
            .iter()
            .filter_map(|&cut| body_and_tail(values, cut, (low, high)));
        found.extend(
            hybrids
                .map(|model| held_against(values, &model))
                .min_by(|a, b| a.distance.total_cmp(&b.distance)),
        );
        found.extend(two_lognormals(values, (low, high)).map(|model| held_against(values, &model)));
    }
    found
}

fn held_against(values: &[f64], model: &Model) -> Candidate {
    candidate(model, &kolmogorov_smirnov(&mut values.to_vec(), |x| model.cdf(x)))
}

fn candidate(model: &Model, fit: &Fit) -> Candidate {
    Candidate {
        model: model.to_string(),
        distance: fit.statistic,
        p_value: fit.p_value,
    }
}

/// Neighboring values, counted together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bin {
    /// Largest number below the bin; an integer if the values are.
    below: f64,
    /// Largest value of the bin.
    upto: f64,
    count: f64,
}

/// Values recorded with rounding or removal.
#[derive(Debug)]
struct Rounded<'a> {
    values: &'a [f64],
    seen: Seen,
    bins: Vec<Bin>,
}

impl Rounded<'_> {
    fn new(values: &[f64], seen: Seen) -> Rounded<'_> {
        let mut bins: Vec<Bin> = Vec::new();
        for run in values.chunk_by(|a, b| a == b) {
            let (value, count) = (run[0], run.len() as f64);
            match bins.last_mut() {
                Some(bin) if value > BINS_SINGLE && value <= bin.below * (1.0 + BINS_WIDER) => {
                    bin.upto = value;
                    bin.count += count;
                }
                _ => bins.push(Bin {
                    below: value - 1.0,
                    upto: value,
                    count,
                }),
            }
        }
        Rounded { values, seen, bins }
    }

    /// Bound above which values were removed.
    fn upto(&self) -> f64 {
        match self.seen {
            Seen::Seconds { upto } => upto,
            _ => f64::INFINITY,
        }
    }

    /// Distribution function of the recorded values, at an integer.
    fn cdf(&self, shape: &Shape, value: f64) -> f64 {
        let upto = self.upto();
        if value >= upto {
            return 1.0;
        }
        let left = if upto.is_finite() {
            self.whole_cdf(shape, upto)
        } else {
            1.0
        };
        self.whole_cdf(shape, value) / left.max(f64::MIN_POSITIVE)
    }

    /// The same before removal.
    fn whole_cdf(&self, shape: &Shape, value: f64) -> f64 {
        match self.seen {
            Seen::Exactly(_) => shape.cdf(value),
            Seen::Down => shape.cdf((value + 1.0).next_down()),
            Seen::Nearest if value < 1.0 => 0.0,
            Seen::Nearest => shape.cdf((value + 0.5).next_down()),
            // The first time lies anywhere within its second.
            Seen::Seconds { .. } => {
                let within = [0.125, 0.375, 0.625, 0.875];
                within
                    .iter()
                    .map(|into| shape.cdf(value + 1.0 - into))
                    .sum::<f64>()
                    / 4.0
            }
        }
    }

    fn likelihood(&self, shape: &Shape) -> f64 {
        let of = |bin: &Bin| {
            let share = self.cdf(shape, bin.upto) - self.cdf(shape, bin.below);
            bin.count * libm::log(share.max(1e-300))
        };
        self.bins.iter().map(of).sum()
    }

    fn likeliest(&self, family: Family) -> Option<Shape> {
        let half = if self.seen == Seen::Down { 0.5 } else { 0.0 };
        let drawn: Vec<f64> = spaced(self.values, VALUES_MAX)
            .iter()
            .map(|value| value + half)
            .collect();
        // Values from k on, rounded down, are recorded from floor(k) on.
        let least = (self.seen == Seen::Down)
            .then(|| self.values.first().copied())
            .flatten();
        let start = match (family.likeliest(&drawn)?, least) {
            (Shape::Pareto { alpha, .. }, Some(k)) => Shape::Pareto { k, alpha },
            (shape, _) => shape,
        };
        Some(climbed(start, least.is_some(), |shape| self.likelihood(shape)).rounded())
    }

    fn held_against(&self, shape: Shape) -> Option<Candidate> {
        let mut values: Vec<u64> = self.values.iter().map(|&value| value as u64).collect();
        let fit = kolmogorov_smirnov_whole(&mut values, |value| self.cdf(&shape, value as f64));
        let model = Model::single(shape, 0.0, self.upto()).ok()?;
        Some(candidate(&model, &fit))
    }
}

/// Climbs to the likeliest shape, one parameter at a time; with `fixed`, a Pareto keeps its k.
fn climbed(start: Shape, fixed: bool, likelihood: impl Fn(&Shape) -> f64) -> Shape {
    let mut best = (likelihood(&start), start);
    let mut step = 0.25;
    for _ in 0..STEPS_MAX {
        let before = best.0;
        for (place, sign) in [(0, 1.0), (0, -1.0), (1, 1.0), (1, -1.0)] {
            let Some(shape) = moved(best.1, place, sign * step, fixed) else {
                continue;
            };
            let likelihood = likelihood(&shape);
            if likelihood > best.0 {
                best = (likelihood, shape);
            }
        }
        if best.0 <= before {
            step /= 2.0;
        }
        if step <= 1e-4 {
            break;
        }
    }
    best.1
}

/// The shape with one parameter changed by a factor, a location by an offset; `None` if there is no such parameter.
fn moved(shape: Shape, place: usize, step: f64, fixed: bool) -> Option<Shape> {
    let factor = libm::exp(step);
    Some(match (shape, place) {
        (Shape::Lognormal { mu, sigma }, 0) => Shape::Lognormal { mu: mu + step, sigma },
        (Shape::Lognormal { mu, sigma }, _) => Shape::Lognormal {
            mu,
            sigma: sigma * factor,
        },
        (Shape::Pareto { k, alpha }, 0) if !fixed => Shape::Pareto { k: k * factor, alpha },
        (Shape::Pareto { k, alpha }, 1) => Shape::Pareto {
            k,
            alpha: alpha * factor,
        },
        (Shape::Weibull { scale, shape }, 0) => Shape::Weibull {
            scale: scale * factor,
            shape,
        },
        (Shape::Weibull { scale, shape }, _) => Shape::Weibull {
            scale,
            shape: shape * factor,
        },
        (Shape::Exponential { mean }, 0) => Shape::Exponential { mean: mean * factor },
        (Shape::InverseGaussian { mean, lambda }, 0) => Shape::InverseGaussian {
            mean: mean * factor,
            lambda,
        },
        (Shape::InverseGaussian { mean, lambda }, _) => Shape::InverseGaussian {
            mean,
            lambda: lambda * factor,
        },
        _ => return None,
    })
}

impl Shape {
    /// Rounds the parameters to significant digits.
    fn rounded(self) -> Shape {
        match self {
            Shape::Lognormal { mu, sigma } => Shape::Lognormal {
                mu: rounded(mu),
                sigma: rounded(sigma),
            },
            Shape::Pareto { k, alpha } => Shape::Pareto {
                k: rounded(k),
                alpha: rounded(alpha),
            },
            Shape::Weibull { scale, shape } => Shape::Weibull {
                scale: rounded(scale),
                shape: rounded(shape),
            },
            Shape::Exponential { mean } => Shape::Exponential { mean: rounded(mean) },
            Shape::InverseGaussian { mean, lambda } => Shape::InverseGaussian {
                mean: rounded(mean),
                lambda: rounded(lambda),
            },
            Shape::Constant(value) => Shape::Constant(value),
        }
    }
}

impl Family {
    /// Maximum-likelihood parameters for exact, sorted values.
    pub(super) fn likeliest(self, values: &[f64]) -> Option<Shape> {
        match self {
            Family::Lognormal => lognormal(values),
            Family::Pareto => pareto(values),
            Family::Weibull => weibull(values),
            Family::Exponential => exponential(values),
            Family::InverseGaussian => inverse_gaussian(values),
        }
    }
}

impl Family {
    /// Maximum-likelihood parameters for exact, sorted values, with those above a bound removed.
    fn likeliest_upto(self, values: &[f64], upto: f64) -> Option<Shape> {
        let start = self.likeliest(values)?;
        let bins = evenly_binned(values);
        let likelihood = |shape: &Shape| {
            let left = libm::log(shape.cdf(upto).max(1e-300));
            let of = |bin: &Bin| {
                let share = shape.cdf(bin.upto) - shape.cdf(bin.below);
                bin.count * (libm::log(share.max(1e-300)) - left)
            };
            bins.iter().map(of).sum()
        };
        Some(climbed(start, true, likelihood).rounded())
    }
}

/// Bins with about equal counts of sorted values; the first one starts at 0.
fn evenly_binned(values: &[f64]) -> Vec<Bin> {
    let wanted = values.len().div_ceil(BINS_EVEN);
    let mut bins: Vec<Bin> = Vec::new();
    let mut below = 0.0;
    let mut count = 0;
    for run in values.chunk_by(|a, b| a == b) {
        count += run.len();
        if count >= wanted {
            bins.push(Bin {
                below,
                upto: run[0],
                count: count as f64,
            });
            (below, count) = (run[0], 0);
        }
    }
    if let (Some(&last), true) = (values.last(), count > 0) {
        bins.push(Bin {
            below,
            upto: last,
            count: count as f64,
        });
    }
    bins
}

/// Rounds a number to significant digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = libm::pow(10.0, 4.0 - libm::floor(libm::log10(value.abs())));
    libm::round(value * scale) / scale
}

fn log_moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().map(|&x| libm::log(x)).sum::<f64>() / n;
    let square = values
        .iter()
        .map(|&x| libm::pow(libm::log(x) - mean, 2.0))
        .sum::<f64>()
        / n;
    (mean, square.sqrt())
}

fn lognormal(values: &[f64]) -> Option<Shape> {
    let (mu, sigma) = log_moments(values);
    (sigma > 0.0).then(|| Shape::Lognormal {
        mu: rounded(mu),
        sigma: rounded(sigma),
    })
}

fn pareto(values: &[f64]) -> Option<Shape> {
    let k = values.first().copied().filter(|&k| k > 0.0)?;
    let sum: f64 = values.iter().map(|&x| libm::log(x / k)).sum();
    (sum > 0.0).then(|| Shape::Pareto {
        k,
        alpha: rounded(values.len() as f64 / sum),
    })
}

fn exponential(values: &[f64]) -> Option<Shape> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean > 0.0).then(|| Shape::Exponential { mean: rounded(mean) })
}

fn inverse_gaussian(values: &[f64]) -> Option<Shape> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let spread: f64 = values.iter().map(|x| 1.0 / x - 1.0 / mean).sum();
    (mean > 0.0 && spread > 0.0).then(|| Shape::InverseGaussian {
        mean: rounded(mean),
        lambda: rounded(n / spread),
    })
}

/// The shape k solves `S1(k)/S0(k) - 1/k = mean of logarithms`, by Newton's method.
fn weibull(values: &[f64]) -> Option<Shape> {
    let (log_mean, log_deviation) = log_moments(values);
    if log_deviation <= 0.0 {
        return None;
    }
    let mut shape = 1.2 / log_deviation;
    // In units of the geometric mean, so that no power overflows.
    let logs: Vec<f64> = values.iter().map(|&x| libm::log(x) - log_mean).collect();
    for _ in 0..100 {
        let (mut s0, mut s1, mut s2) = (0.0, 0.0, 0.0);
        for &log in &logs {
            let power = libm::exp(shape * log);
            s0 += power;
            s1 += power * log;
            s2 += power * log * log;
        }
        let off = s1 / s0 - 1.0 / shape;
        let slope = s2 / s0 - libm::pow(s1 / s0, 2.0) + 1.0 / (shape * shape);
        let next = (shape - off / slope).clamp(shape / 2.0, shape * 2.0);
        let done = (next - shape).abs() < 1e-9 * shape;
        shape = next;
        if done || !shape.is_finite() {
            break;
        }
    }
    let mean_power = logs.iter().map(|log| libm::exp(shape * log)).sum::<f64>() / logs.len() as f64;
    let scale = libm::exp(log_mean + libm::log(mean_power) / shape);
    (shape.is_finite() && scale.is_finite()).then(|| Shape::Weibull {
        scale: rounded(scale),
        shape: rounded(shape),
    })
}

/// A lognormal body and a Pareto tail that meet at this quantile.
fn body_and_tail(values: &[f64], cut: f64, (low, high): (f64, f64)) -> Option<Model> {
    let at = (values.len() as f64 * cut) as usize;
    let (body, tail) = values.split_at(at);
    if body.len() < VALUES_MIN || tail.len() < VALUES_MIN {
        return None;
    }
    let k = rounded(tail[0]);
    let sum: f64 = tail.iter().map(|&x| libm::log((x / k).max(1.0))).sum();
    if sum <= 0.0 {
        return None;
    }
    // The body's parameters come from two quantiles of all values, because its own mean would be that of a truncated
    // body.
    let quantile = |share: f64| libm::log(values[((values.len() - 1) as f64 * share) as usize]);
    let (near, far) = (cut * 0.25, cut * 0.75);
    let (z_near, z_far) = (normal_quantile(near), normal_quantile(far));
    let sigma = (quantile(far) - quantile(near)) / (z_far - z_near);
    if sigma <= 0.0 {
        return None;
    }
    let body = Shape::Lognormal {
        mu: rounded(quantile(near) - sigma * z_near),
        sigma: rounded(sigma),
    };
    let tail = Shape::Pareto {
        k,
        alpha: rounded(tail.len() as f64 / sum),
    };
    Model::hybrid(body, tail, low, k, high).ok()
}

/// Two lognormals by expectation-maximization (Dempster, Laird and Rubin 1977), started from the two halves of the
/// values.
fn two_lognormals(values: &[f64], (low, high): (f64, f64)) -> Option<Model> {
    let logs: Vec<f64> = spaced(values, MIXED_MAX).iter().map(|&x| libm::log(x)).collect();
    if logs.len() < 4 * VALUES_MIN {
        return None;
    }
    let moments = |weights: &dyn Fn(usize) -> f64| {
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for (place, log) in logs.iter().enumerate() {
            let weight = weights(place);
            sum += weight;
            first += weight * log;
            second += weight * log * log;
        }
        let mean = first / sum;
        (
            sum / logs.len() as f64,
            mean,
            (second / sum - mean * mean).max(1e-6).sqrt(),
        )
    };
    let half = logs.len() / 2;
    let mut parts = [
        moments(&|place| f64::from(u8::from(place < half))),
        moments(&|place| f64::from(u8::from(place >= half))),
    ];
    for _ in 0..200 {
        let density = |(share, mean, deviation): (f64, f64, f64), log: f64| {
            let z = (log - mean) / deviation;
            share / deviation * libm::exp(-0.5 * z * z)
        };
        let of_first: Vec<f64> = logs
            .iter()
            .map(|&log| {
                let (one, other) = (density(parts[0], log), density(parts[1], log));
                if one + other > 0.0 {
                    one / (one + other)
                } else {
                    0.5
                }
            })
            .collect();
        parts = [
            moments(&|place| of_first[place]),
            moments(&|place| 1.0 - of_first[place]),
        ];
        if parts.iter().any(|part| !(part.0 > 0.01 && part.2 > 0.01)) {
            return None;
        }
    }
    let first = libm::round(parts[0].0 * 1e4) / 1e4;
    let part = |weight, (_, mu, sigma): (f64, f64, f64)| Part {
        weight,
        shape: Shape::Lognormal {
            mu: rounded(mu),
            sigma: rounded(sigma),
        },
        low,
        high,
    };
    Model::new(vec![part(first, parts[0]), part(1.0 - first, parts[1])]).ok()
}

/// Quantile of the standard normal distribution, by bisection.
fn normal_quantile(share: f64) -> f64 {
    let cdf = |z: f64| 0.5 * libm::erfc(-z / core::f64::consts::SQRT_2);
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if cdf(middle) < share {
            low = middle
        } else {
            high = middle
        }
    }
    (low + high) / 2.0
}
