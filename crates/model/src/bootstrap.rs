//! Confidence intervals for estimates without a formula: the measurements are resampled with replacement, and the
//! spread of the resampled estimates stands for the spread of the estimate (percentile bootstrap, Efron 1979; Efron
//! and Tibshirani 1993, chapter 13).
//!
//! Knows nothing about the estimate. Randomness comes from a seed only.

use crate::fit::Estimate;
use crate::sizes::uniform;
use units::{Rng, Seed};

/// Number of draws; it makes the ends of an interval steady to about a twentieth of its width.
pub const DRAWS: u32 = 1_000;

/// `value` with the interval that holds 95 % of `statistic` over `draws` draws. Without draws, or if every draw is
/// NaN, the interval is the value itself.
pub fn estimate(value: f64, draws: u32, seed: Seed, mut statistic: impl FnMut(&mut Rng) -> f64) -> Estimate {
    let mut rng = seed.rng();
    let mut drawn: Vec<f64> = (0..draws).map(|_| statistic(&mut rng)).collect();
    drawn.retain(|value| value.is_finite());
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| drawn.get((share * drawn.len() as f64) as usize).copied();
    // Rounding outward at both ends never narrows the interval.
    let high = drawn.len().checked_sub(1 + (0.025 * drawn.len() as f64) as usize);
    Estimate {
        value,
        low: at(0.025).unwrap_or(value),
        high: high.and_then(|at| drawn.get(at).copied()).unwrap_or(value),
    }
}

/// A resample of `values` of the same length, with replacement.
pub fn resample<T: Copy>(values: &[T], rng: &mut Rng) -> Vec<T> {
    let place = |rng: &mut Rng| (uniform(rng) * values.len() as f64) as usize;
    values.iter().map(|_| values[place(rng)]).collect()
}

/// The mean of `values`; NaN if empty.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_the_sum_by_the_number() {
        assert!(mean(&[]).is_nan());
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
    }

    #[test]
    fn without_draws_the_interval_is_the_value() {
        let lone = estimate(2.0, 0, Seed(1), |_| 5.0);
        assert_eq!((lone.low, lone.high), (2.0, 2.0));
        let nothing = estimate(2.0, 10, Seed(1), |_| f64::NAN);
        assert_eq!((nothing.low, nothing.high), (2.0, 2.0));
    }

    /// An exact case: the interval of a mean is close to that of the normal distribution.
    #[test]
    fn intervals_cover_a_mean_nearly_as_often_as_they_say() {
        let runs = 400;
        let covered = (0..runs)
            .filter(|&seed| {
                let mut rng = Seed(seed).rng();
                let values: Vec<f64> = (0..40).map(|_| -(1.0 - uniform(&mut rng)).ln()).collect();
                let found = estimate(mean(&values), 400, Seed(seed + 10_000), |rng| {
                    mean(&resample(&values, rng))
                });
                assert!(found.low <= found.value && found.value <= found.high);
                found.low <= 1.0 && 1.0 <= found.high
            })
            .count();
        let share = covered as f64 / runs as f64;
        // Forty exponential values: the percentile bootstrap is known to be a little short.
        assert!(
            (0.89..=0.97).contains(&share),
            "95 % intervals cover {share}, seeds 0..{runs}"
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let values = [1.0, 2.0, 4.0, 8.0];
        let once = |seed| estimate(3.0, 100, Seed(seed), |rng| mean(&resample(&values, rng)));
        assert_eq!(once(7), once(7));
        assert_ne!(once(7), once(8));
    }
}
