//! A distribution with its parameters: sampled, compared with data, parsed from and written as text.
//!
//! A [`Model`] is a mixture of parts, each a shape truncated at both ends. The hybrids of Surge (a body and a tail) are
//! mixtures of two. Flags take and manifests record its text form:
//! `0.943*lognormal(7.63,1.001)@32..10000 + 0.057*pareto(10000,1)@10000..1e7`. Units are the caller's.

use crate::chance::{normal, uniform};
use crate::limits::PARTS_MAX;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};
use units::Rng;

/// Minimum mass that must remain after truncation, so that rejection sampling ends.
const MASS_MIN: f64 = 0.001;

/// A family of distributions with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Lognormal: the logarithm is normally distributed.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Pareto: density proportional to `x^-(alpha+1)` from `k` on.
    Pareto {
        /// Smallest value.
        k: f64,
        /// Tail index.
        alpha: f64,
    },
    /// Inverse Gaussian: time of a Brownian motion with drift to reach a level.
    InverseGaussian {
        /// Mean.
        mean: f64,
        /// Shape parameter; the variance is `mean^3 / lambda`.
        lambda: f64,
    },
    /// Weibull: distribution function `1 - exp(-(x/scale)^shape)`.
    Weibull {
        /// Scale parameter.
        scale: f64,
        /// Shape parameter.
        shape: f64,
    },
    /// Exponential: distribution function `1 - exp(-x/mean)`.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// A single value.
    Constant(f64),
}

impl Shape {
    /// Share of values at most `x`, before truncation.
    pub fn cdf(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        match *self {
            Shape::Lognormal { mu, sigma } => normal_cdf((libm::log(x) - mu) / sigma),
            Shape::Pareto { k, alpha } if x > k => -libm::expm1(alpha * libm::log(k / x)),
            Shape::Pareto { .. } => 0.0,
            Shape::InverseGaussian { mean, lambda } => {
                if x == f64::INFINITY {
                    return 1.0;
                }
                let root = (lambda / x).sqrt();
                let mirrored = libm::log(normal_cdf(-root * (x / mean + 1.0)).max(f64::MIN_POSITIVE));
                let below = normal_cdf(root * (x / mean - 1.0)) + libm::exp(2.0 * lambda / mean + mirrored);
                below.min(1.0)
            }
            Shape::Weibull { scale, shape } => -libm::expm1(-libm::pow(x / scale, shape)),
            Shape::Exponential { mean } => -libm::expm1(-x / mean),
            Shape::Constant(value) => f64::from(x >= value),
        }
    }

    /// Draws a value between `low` and `high`, which must leave at least [`MASS_MIN`].
    fn draw(&self, low: f64, high: f64, rng: &mut Rng) -> f64 {
        let rejected = |draw: &mut dyn FnMut() -> f64| loop {
            let x = draw();
            if (low..=high).contains(&x) {
                return x;
            }
        };
        // Inverse transform for shapes with a simple inverse: no rejection needed.
        let share = |rng: &mut Rng| {
            let (from, to) = (self.cdf(low), self.cdf(high));
            from + (to - from) * uniform(rng)
        };
        match *self {
            Shape::Lognormal { mu, sigma } => rejected(&mut || libm::exp(mu + sigma * normal(rng))),
            Shape::Pareto { k, alpha } => {
                let x = k * libm::pow(1.0 - share(rng), -1.0 / alpha);
                x.clamp(low.max(k), high)
            }
            Shape::InverseGaussian { mean, lambda } => rejected(&mut || inverse_gaussian(mean, lambda, rng)),
            Shape::Weibull { scale, shape } => {
                let x = scale * libm::pow(-libm::log1p(-share(rng)), 1.0 / shape);
                x.clamp(low, high)
            }
            Shape::Exponential { mean } => (-mean * libm::log1p(-share(rng))).clamp(low, high),
            Shape::Constant(value) => value,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Shape::Lognormal { .. } => "lognormal",
            Shape::Pareto { .. } => "pareto",
            Shape::InverseGaussian { .. } => "inverse-gaussian",
            Shape::Weibull { .. } => "weibull",
            Shape::Exponential { .. } => "exponential",
            Shape::Constant(_) => "constant",
        }
    }

    fn numbers(&self) -> Vec<f64> {
        match *self {
            Shape::Lognormal { mu, sigma } => vec![mu, sigma],
            Shape::Pareto { k, alpha } => vec![k, alpha],
            Shape::InverseGaussian { mean, lambda } => vec![mean, lambda],
            Shape::Weibull { scale, shape } => vec![scale, shape],
            Shape::Exponential { mean } => vec![mean],
            Shape::Constant(value) => vec![value],
        }
    }

    fn from_name(name: &str, numbers: &[f64]) -> Result<Shape, String> {
        let shape = match (name, numbers) {
            ("lognormal", &[mu, sigma]) => Shape::Lognormal { mu, sigma },
            ("pareto", &[k, alpha]) => Shape::Pareto { k, alpha },
            ("inverse-gaussian", &[mean, lambda]) => Shape::InverseGaussian { mean, lambda },
            ("weibull", &[scale, shape]) => Shape::Weibull { scale, shape },
            ("exponential", &[mean]) => Shape::Exponential { mean },
            ("constant", &[value]) => Shape::Constant(value),
            _ => {
                return Err(format!(
                    "`{name}` with {} numbers is not a model; there are lognormal(mu,sigma), pareto(k,alpha), \
                     inverse-gaussian(mean,lambda), weibull(scale,shape), exponential(mean), constant(value)",
                    numbers.len()
                ));
            }
        };
        let mut positive = numbers;
        if let Shape::Lognormal { mu, .. } = shape {
            if !(-200.0..=200.0).contains(&mu) {
                return Err(format!("mu is {mu}; it must lie between -200 and 200"));
            }
            positive = &numbers[1..];
        }
        match positive.iter().find(|number| !(1e-6..=1e18).contains(*number)) {
            Some(number) => Err(format!("`{name}`: {number} must lie between 1e-6 and 1e18")),
            None => Ok(shape),
        }
    }
}

/// A truncated shape with its share of a mixture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Share of the values; the shares of a model sum to 1.
    pub weight: f64,
    /// Family and parameters.
    pub shape: Shape,
    /// Lower truncation.
    pub low: f64,
    /// Upper truncation; may be infinite.
    pub high: f64,
}

impl Part {
    fn cdf(&self, x: f64) -> f64 {
        if x < self.low {
            return 0.0;
        }
        if x >= self.high {
            return 1.0;
        }
        let (from, to) = match self.shape {
            // A point mass is not truncated.
            Shape::Constant(_) => (0.0, 1.0),
            _ => (self.shape.cdf(self.low), self.shape.cdf(self.high)),
        };
        (self.shape.cdf(x) - from) / (to - from)
    }
}

/// A distribution of positive numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Model {
    parts: Vec<Part>,
}

impl Model {
    /// A mixture of parts.
    ///
    /// # Errors
    /// Names the part or share that is wrong.
    pub fn new(parts: Vec<Part>) -> Result<Model, String> {
        if parts.is_empty() || parts.len() > PARTS_MAX {
            return Err(format!(
                "a model has 1 to {PARTS_MAX} parts, this one {}",
                parts.len()
            ));
        }
        for part in &parts {
            let name = part.shape.name();
            if !(part.weight > 0.0 && part.weight <= 1.0) {
                return Err(format!(
                    "`{name}` has the share {}; a share is above 0 and at most 1",
                    part.weight
                ));
            }
            if !(part.low >= 0.0 && part.low < part.high) {
                return Err(format!("`{name}` is cut at {}..{}", part.low, part.high));
            }
            let mass = match part.shape {
                Shape::Constant(value) => f64::from((part.low..=part.high).contains(&value)),
                shape => shape.cdf(part.high) - shape.cdf(part.low),
            };
            if mass < MASS_MIN {
                return Err(format!(
                    "`{name}` has only {mass:.1e} of its mass between {} and {}; at least {MASS_MIN} must remain",
                    part.low, part.high
                ));
            }
        }
        let sum: f64 = parts.iter().map(|part| part.weight).sum();
        if (sum - 1.0).abs() > 1e-6 {
            return Err(format!("the shares of the parts sum to {sum}, not to 1"));
        }
        Ok(Model { parts })
    }

    /// A single truncated shape.
    ///
    /// # Errors
    /// As [`Model::new`].
    pub fn single(shape: Shape, low: f64, high: f64) -> Result<Model, String> {
        Model::new(vec![Part {
            weight: 1.0,
            shape,
            low,
            high,
        }])
    }

    /// A body below `cut` and a tail above it. The body's share is the mass of its own distribution below the cut, so
    /// the distribution function is continuous there.
    ///
    /// # Errors
    /// As [`Model::new`].
    pub fn hybrid(body: Shape, tail: Shape, low: f64, cut: f64, high: f64) -> Result<Model, String> {
        let weight = body.cdf(cut);
        Model::new(vec![
            Part {
                weight,
                shape: body,
                low,
                high: cut,
            },
            Part {
                weight: 1.0 - weight,
                shape: tail,
                low: cut,
                high,
            },
        ])
    }

    /// The parts, in drawing order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Share of values at most `x`.
    pub fn cdf(&self, x: f64) -> f64 {
        let below: f64 = self.parts.iter().map(|part| part.weight * part.cdf(x)).sum();
        below.clamp(0.0, 1.0)
    }

    /// Smallest possible value.
    pub fn low(&self) -> f64 {
        self.parts
            .iter()
            .map(|part| match part.shape {
                Shape::Pareto { k, .. } => part.low.max(k),
                Shape::Constant(value) => value,
                _ => part.low,
            })
            .fold(f64::INFINITY, f64::min)
    }

    /// Largest possible value; may be infinite.
    pub fn high(&self) -> f64 {
        self.parts
            .iter()
            .map(|part| match part.shape {
                Shape::Constant(value) => value,
                _ => part.high,
            })
            .fold(0.0, f64::max)
    }

    /// Draws a value.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        let mut left = if self.parts.len() > 1 { uniform(rng) } else { 0.0 };
        for part in &self.parts[..self.parts.len() - 1] {
            if left < part.weight {
                return part.shape.draw(part.low, part.high, rng);
            }
            left -= part.weight;
        }
        let last = &self.parts[self.parts.len() - 1];
        last.shape.draw(last.low, last.high, rng)
    }

    /// Mean, to about six digits; infinite if the tail has none. Computed by the trapezoidal rule on the logarithm of
    /// the complementary distribution function.
    pub fn mean(&self) -> f64 {
        let heavy = self.parts.iter().any(|part| {
            matches!(part.shape, Shape::Pareto { alpha, .. } if alpha <= 1.0 && part.high == f64::INFINITY)
        });
        if heavy {
            return f64::INFINITY;
        }
        let low = self.low().max(1e-9);
        let high = self.high().min(1e24);
        if high <= low {
            return low;
        }
        const STEPS: u32 = 200_000;
        let step = libm::log(high / low) / f64::from(STEPS);
        let term = |i: u32| {
            let x = low * libm::exp(step * f64::from(i));
            x * (1.0 - self.cdf(x))
        };
        let inner: f64 = (1..STEPS).map(term).sum();
        low + step * (inner + (term(0) + term(STEPS)) / 2.0)
    }

    /// Quantile: the value below which a share `p` of all values lies, to nine digits.
    pub fn quantile(&self, p: f64) -> f64 {
        let (mut low, mut high) = (self.low().max(1e-9), self.high().min(1e24));
        for _ in 0..200 {
            let middle = (low * high).sqrt();
            if high / low < 1.0 + 1e-10 {
                break;
            }
            if self.cdf(middle) < p {
                low = middle
            } else {
                high = middle
            }
        }
        high
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                f.write_str(" + ")?;
            }
            if self.parts.len() > 1 {
                write!(f, "{}*", part.weight)?;
            }
            let numbers: Vec<String> = part.shape.numbers().iter().map(f64::to_string).collect();
            write!(f, "{}({})", part.shape.name(), numbers.join(","))?;
            match (part.low > 0.0, part.high < f64::INFINITY) {
                (false, false) => {}
                (true, true) => write!(f, "@{}..{}", part.low, part.high)?,
                (true, false) => write!(f, "@{}..", part.low)?,
                (false, true) => write!(f, "@..{}", part.high)?,
            }
        }
        Ok(())
    }
}

impl From<Model> for String {
    fn from(model: Model) -> String {
        model.to_string()
    }
}

impl TryFrom<String> for Model {
    type Error = String;

    fn try_from(text: String) -> Result<Model, String> {
        text.parse()
    }
}

impl FromStr for Model {
    type Err = String;

    fn from_str(text: &str) -> Result<Model, String> {
        // A `+` may also be part of an exponent (`1e+6`): only one after `)` or a bound separates parts.
        let pieces: Vec<&str> = text.split(" + ").collect();
        let parts: Result<Vec<Part>, String> = pieces
            .iter()
            .map(|piece| part(piece.trim(), pieces.len() == 1))
            .collect();
        parts.and_then(Model::new).map_err(|why| {
            format!("`{text}` is not a model: {why}; write one as in lognormal(7.63,1.001)@32..10000")
        })
    }
}

/// Parses `WEIGHT*name(a,b)@low..high`; weight and truncation are optional.
fn part(text: &str, alone: bool) -> Result<Part, String> {
    let (weight, rest) = match text.split_once('*') {
        Some((weight, rest)) => (number(weight)?, rest.trim()),
        None if alone => (1.0, text),
        None => return Err(format!("`{text}` lacks its share, as in 0.5*{text}")),
    };
    let (shape, cuts) = match rest.split_once('@') {
        Some((shape, cuts)) => (shape.trim(), Some(cuts.trim())),
        None => (rest, None),
    };
    let (name, arguments) = shape
        .strip_suffix(')')
        .and_then(|shape| shape.split_once('('))
        .ok_or_else(|| format!("`{shape}` lacks its numbers in parentheses"))?;
    let numbers: Vec<f64> = arguments.split(',').map(number).collect::<Result<_, _>>()?;
    let (low, high) = match cuts.map(|cuts| cuts.split_once("..").ok_or(cuts)) {
        None => (0.0, f64::INFINITY),
        Some(Err(cuts)) => return Err(format!("`{cuts}` lacks `..` between smallest and largest value")),
        Some(Ok((low, high))) => (
            if low.is_empty() { 0.0 } else { number(low)? },
            if high.is_empty() {
                f64::INFINITY
            } else {
                number(high)?
            },
        ),
    };
    Ok(Part {
        weight,
        shape: Shape::from_name(name.trim(), &numbers)?,
        low,
        high,
    })
}

fn number(text: &str) -> Result<f64, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .ok_or_else(|| format!("`{}` is not a number", text.trim()))
}

/// Algorithm of Michael, Schucany and Haas (1976).
fn inverse_gaussian(mean: f64, lambda: f64, rng: &mut Rng) -> f64 {
    let z = normal(rng);
    let y = mean * z * z;
    let x = mean + mean * (y - (4.0 * lambda * y + y * y).sqrt()) / (2.0 * lambda);
    if uniform(rng) <= mean / (mean + x) {
        x
    } else {
        mean * mean / x
    }
}

/// Standard normal distribution function.
fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests;
