//! Distributions of sizes and times: moments, partial moments and draws.
//!
//! A [`Sizes`] is a pure distribution; the caller knows its unit (bytes, seconds). Everything that formulas need has
//! a closed form, so numerical integration stays one-dimensional. Draws use portable arithmetic: a seed gives
//! identical numbers on every machine.

use crate::domain::{DomainError, non_negative, positive, within};
use serde::Serialize;
use units::{Draw, Rng};

/// A distribution of positive sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Sizes {
    /// A constant.
    Fixed(f64),
    /// Uniform between two sizes.
    Uniform {
        /// Smallest.
        low: f64,
        /// Largest.
        high: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Bounded Pareto: density proportional to `x^-(alpha+1)`.
    BoundedPareto {
        /// Smallest.
        low: f64,
        /// Largest.
        high: f64,
        /// Tail index.
        alpha: f64,
    },
    /// Lognormal, truncated at `high`.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Largest.
        high: f64,
    },
    /// Measured sizes with weights.
    Empirical(Vec<(f64, f64)>),
}

impl Sizes {
    /// Measured sizes, each with weight 1.
    pub fn observed(sizes: &[f64]) -> Result<Sizes, DomainError> {
        let sizes = Sizes::Empirical(sizes.iter().map(|&size| (size, 1.0)).collect());
        sizes.check()?;
        Ok(sizes)
    }

    /// Names the first parameter that lies outside its domain.
    pub fn check(&self) -> Result<(), DomainError> {
        match self {
            Sizes::Fixed(x) => positive("size", *x, "above 0").map(drop),
            Sizes::Uniform { low, high } => {
                non_negative("smallest size", *low, "0 or more")?;
                within("largest size", *high, high > low, "above the smallest").map(drop)
            }
            Sizes::Exponential { mean } => positive("mean size", *mean, "above 0").map(drop),
            Sizes::BoundedPareto { low, high, alpha } => {
                positive("smallest size", *low, "above 0")?;
                within("largest size", *high, high > low, "above the smallest")?;
                positive("tail index", *alpha, "above 0").map(drop)
            }
            Sizes::Lognormal { mu, sigma, high } => {
                within("mu", *mu, mu.abs() < 200.0, "between -200 and 200")?;
                within(
                    "sigma",
                    *sigma,
                    (0.01..=10.0).contains(sigma),
                    "between 0.01 and 10",
                )?;
                positive("largest size", *high, "above 0")?;
                // Draws reject values beyond the truncation, so most of the mass must lie below it.
                within(
                    "mass below the largest size",
                    self.lognormal_mass(),
                    self.lognormal_mass() > 0.05,
                    "above 0.05",
                )
                .map(drop)
            }
            Sizes::Empirical(points) => {
                if points.is_empty() {
                    return Err(DomainError::TooFew {
                        what: "sizes",
                        got: 0,
                        need: 1,
                    });
                }
                for &(size, weight) in points {
                    positive("size", size, "above 0")?;
                    positive("weight", weight, "above 0")?;
                }
                Ok(())
            }
        }
    }

    fn lognormal_mass(&self) -> f64 {
        match *self {
            Sizes::Lognormal { mu, sigma, high } => normal_cdf((high.ln() - mu) / sigma),
            _ => 1.0,
        }
    }

    /// The sizes multiplied by `factor`, as when bytes become seconds on a line.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Sizes {
        match self {
            Sizes::Fixed(x) => Sizes::Fixed(x * factor),
            Sizes::Uniform { low, high } => Sizes::Uniform {
                low: low * factor,
                high: high * factor,
            },
            Sizes::Exponential { mean } => Sizes::Exponential { mean: mean * factor },
            Sizes::BoundedPareto { low, high, alpha } => Sizes::BoundedPareto {
                low: low * factor,
                high: high * factor,
                alpha: *alpha,
            },
            Sizes::Lognormal { mu, sigma, high } => Sizes::Lognormal {
                mu: mu + factor.ln(),
                sigma: *sigma,
                high: high * factor,
            },
            Sizes::Empirical(points) => Sizes::Empirical(
                points
                    .iter()
                    .map(|&(size, weight)| (size * factor, weight))
                    .collect(),
            ),
        }
    }

    /// Mean.
    pub fn mean(&self) -> f64 {
        self.moment_below(1, f64::INFINITY)
    }

    /// Squared coefficient of variation: variance over squared mean.
    pub fn scv(&self) -> f64 {
        let mean = self.mean();
        (self.moment_below(2, f64::INFINITY) / (mean * mean) - 1.0).max(0.0)
    }

    /// Range of relevant sizes: larger ones hold less than 1e-26 of the mass.
    pub(crate) fn support(&self) -> (f64, f64) {
        match self {
            Sizes::Fixed(x) => (*x, *x),
            Sizes::Uniform { low, high } | Sizes::BoundedPareto { low, high, .. } => (*low, *high),
            Sizes::Exponential { mean } => (0.0, 60.0 * mean),
            Sizes::Lognormal { mu, sigma, high } => ((mu - 12.0 * sigma).exp().min(*high), *high),
            Sizes::Empirical(points) => points.iter().fold((f64::INFINITY, 0.0), |(low, high), &(x, _)| {
                (low.min(x), high.max(x))
            }),
        }
    }

    /// Probability density; zero for discrete distributions.
    pub(crate) fn density(&self, x: f64) -> f64 {
        match self {
            Sizes::Fixed(_) | Sizes::Empirical(_) => 0.0,
            Sizes::Uniform { low, high } => {
                if (*low..=*high).contains(&x) {
                    1.0 / (high - low)
                } else {
                    0.0
                }
            }
            Sizes::Exponential { mean } => (-x / mean).exp() / mean,
            Sizes::BoundedPareto { low, high, alpha } => {
                if (*low..=*high).contains(&x) {
                    alpha * (low / x).powf(*alpha) / x / (1.0 - (low / high).powf(*alpha))
                } else {
                    0.0
                }
            }
            Sizes::Lognormal { mu, sigma, high } => {
                if x > *high || x <= 0.0 {
                    return 0.0;
                }
                let z = (x.ln() - mu) / sigma;
                (-z * z / 2.0).exp()
                    / (x * sigma * (2.0 * core::f64::consts::PI).sqrt())
                    / self.lognormal_mass()
            }
        }
    }

    /// `E[X^k; X <= x]`: the k-th moment of the part not above `x`; with `k = 0` the distribution function.
    pub fn moment_below(&self, k: i32, x: f64) -> f64 {
        let order = f64::from(k);
        match self {
            Sizes::Fixed(size) => {
                if x >= *size {
                    size.powi(k)
                } else {
                    0.0
                }
            }
            Sizes::Uniform { low, high } => {
                let x = x.clamp(*low, *high);
                (x.powi(k + 1) - low.powi(k + 1)) / ((order + 1.0) * (high - low))
            }
            Sizes::Exponential { mean } => {
                let y = x.max(0.0) / mean;
                // Gamma(k+1, y) in closed form; e^-y and its polynomial vanish together at infinity.
                let tail = |poly: f64| if y > 700.0 { 0.0 } else { (-y).exp() * poly };
                match k {
                    0 => -f64::exp_m1(-y),
                    1 => mean * (1.0 - tail(1.0 + y)),
                    2 => mean * mean * 2.0 * (1.0 - tail(1.0 + y + y * y / 2.0)),
                    _ => unreachable!("the crate uses moments up to the second"),
                }
            }
            Sizes::BoundedPareto { low, high, alpha } => {
                let x = x.clamp(*low, *high);
                let norm = 1.0 - (low / high).powf(*alpha);
                let ratio = x / low;
                let part = if (order - alpha).abs() < 1e-9 {
                    alpha * ratio.ln()
                } else {
                    alpha / (order - alpha) * (ratio.powf(order - alpha) - 1.0)
                };
                low.powi(k) * part / norm
            }
            Sizes::Lognormal { mu, sigma, high } => {
                let x = x.min(*high);
                if x <= 0.0 {
                    return 0.0;
                }
                let shift = (x.ln() - mu - order * sigma * sigma) / sigma;
                (order * mu + order * order * sigma * sigma / 2.0).exp() * normal_cdf(shift)
                    / self.lognormal_mass()
            }
            Sizes::Empirical(points) => {
                let total: f64 = points.iter().map(|&(_, weight)| weight).sum();
                let below = points.iter().filter(|&&(size, _)| size <= x);
                below.map(|&(size, weight)| size.powi(k) * weight).sum::<f64>() / total
            }
        }
    }

    /// Draws one size.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        match self {
            Sizes::Fixed(x) => *x,
            Sizes::Uniform { low, high } => low + (high - low) * uniform(rng),
            Sizes::Exponential { mean } => -mean * libm::log(1.0 - uniform(rng)),
            Sizes::BoundedPareto { low, high, alpha } => {
                let u = uniform(rng);
                let cut = 1.0 - libm::pow(low / high, *alpha);
                low * libm::pow(1.0 - u * cut, -1.0 / alpha)
            }
            Sizes::Lognormal { mu, sigma, high } => loop {
                let x = libm::exp(mu + sigma * normal(rng));
                if x <= *high {
                    return x;
                }
            },
            Sizes::Empirical(points) => {
                let total: f64 = points.iter().map(|&(_, weight)| weight).sum();
                let mut left = uniform(rng) * total;
                for &(size, weight) in points {
                    left -= weight;
                    if left < 0.0 {
                        return size;
                    }
                }
                // Rounding can leave a remainder after the last weight.
                points.last().map_or(0.0, |&(size, _)| size)
            }
        }
    }
}

/// A number in `[0, 1)` with 53 random bits.
pub(crate) fn uniform(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A standard normal number (Box and Muller 1958).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * libm::log(1.0 - uniform(rng))).sqrt();
    radius * libm::cos(2.0 * core::f64::consts::PI * uniform(rng))
}

fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::integrate::integrate;
    use units::Seed;

    /// One distribution of each kind, with means between 1 and 50.
    pub(crate) fn examples() -> Vec<Sizes> {
        vec![
            Sizes::Fixed(2.0),
            Sizes::Uniform { low: 0.0, high: 4.0 },
            Sizes::Exponential { mean: 3.0 },
            Sizes::BoundedPareto {
                low: 1.0,
                high: 1000.0,
                alpha: 1.1,
            },
            Sizes::BoundedPareto {
                low: 1.0,
                high: 1e5,
                alpha: 1.0,
            },
            Sizes::Lognormal {
                mu: 0.5,
                sigma: 1.4,
                high: 1e4,
            },
            Sizes::Empirical(vec![(1.0, 3.0), (2.0, 2.0), (10.0, 1.0)]),
        ]
    }

    #[test]
    fn closed_moments_are_the_integrals_of_the_density() {
        for sizes in examples() {
            let (low, high) = sizes.support();
            if sizes.density((low + high) / 2.0) == 0.0 {
                continue;
            }
            let low = low.max(1e-12);
            for x in [high, low + (high - low) * 0.01, low + (high - low) * 0.3] {
                for k in 0..3 {
                    let f = |y: f64| sizes.density(y.exp()) * y.exp().powi(k + 1);
                    let want = integrate(f, low.ln(), x.ln(), 1e-10).value;
                    let got = sizes.moment_below(k, x) - sizes.moment_below(k, low * (1.0 - 1e-15));
                    assert!(
                        (got - want).abs() <= 1e-8 * want.max(1e-3),
                        "{sizes:?} k={k} x={x}: {got} {want}"
                    );
                }
            }
        }
    }

    #[test]
    fn draws_have_the_moments() {
        for sizes in examples() {
            let seed = Seed(7);
            let mut rng = seed.rng();
            let n = 200_000;
            let (low, high) = sizes.support();
            let mut sum = 0.0;
            for _ in 0..n {
                let x = sizes.draw(&mut rng);
                assert!(
                    x >= low * (1.0 - 1e-12) && x <= high * (1.0 + 1e-12),
                    "{sizes:?} drew {x}, {seed}"
                );
                sum += x;
            }
            let error = sizes.mean() * (sizes.scv() / f64::from(n)).sqrt();
            let mean = sum / f64::from(n);
            assert!(
                (mean - sizes.mean()).abs() <= 4.0 * error + 1e-9,
                "{sizes:?}: {mean} {} {seed}",
                sizes.mean()
            );
        }
    }

    #[test]
    fn scaling_scales_the_mean_and_keeps_the_shape() {
        for sizes in examples() {
            let scaled = sizes.scaled(8.0);
            assert!((scaled.mean() / sizes.mean() - 8.0).abs() < 1e-9);
            assert!((scaled.scv() - sizes.scv()).abs() < 1e-9 * (1.0 + sizes.scv()));
        }
    }

    #[test]
    fn bad_shapes_are_named() {
        for broken in [
            Sizes::Fixed(0.0),
            Sizes::Uniform { low: 2.0, high: 1.0 },
            Sizes::Exponential { mean: f64::NAN },
            Sizes::BoundedPareto {
                low: 0.0,
                high: 1.0,
                alpha: 1.0,
            },
            Sizes::Lognormal {
                mu: 10.0,
                sigma: 1.0,
                high: 1.0,
            },
            Sizes::Empirical(vec![]),
            Sizes::Empirical(vec![(1.0, 0.0)]),
        ] {
            assert!(broken.check().is_err(), "{broken:?}");
        }
    }
}
