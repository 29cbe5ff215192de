//! Goodness of fit of a sample: Kolmogorov-Smirnov test for continuous values, chi-square test for counts.
//!
//! A fit is a statement about the generator only. Does not know which stream it tests.

use serde::Serialize;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Minimum expected count of a class in the chi-square test; rarer values are merged.
const EXPECTED_MIN: f64 = 10.0;

/// Which test was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Largest distance between two distribution functions.
    KolmogorovSmirnov,
    /// Sum of squared differences of counts over expected counts.
    ChiSquare,
}

/// Result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The test used.
    pub test: Test,
    /// Sample size.
    pub sample: u64,
    /// D, or chi-square.
    pub statistic: f64,
    /// Number of classes minus one; `None` for Kolmogorov-Smirnov.
    pub degrees_of_freedom: Option<u32>,
    /// Probability of a statistic at least this large if the model is right.
    pub p_value: f64,
}

/// Compares a sample, which it sorts, with a continuous distribution function. The p-value is asymptotic
/// (Kolmogorov 1933) with Stephens' correction, accurate to 0.001 from 100 values on.
pub fn kolmogorov_smirnov(sample: &mut [f64], cdf: impl Fn(f64) -> f64) -> Fit {
    sample.sort_unstable_by(f64::total_cmp);
    let n = sample.len() as f64;
    let mut statistic: f64 = 0.0;
    for (index, &x) in sample.iter().enumerate() {
        let want = cdf(x);
        statistic = statistic
            .max(want - index as f64 / n)
            .max((index + 1) as f64 / n - want);
    }
    Fit {
        test: Test::KolmogorovSmirnov,
        sample: sample.len() as u64,
        statistic,
        degrees_of_freedom: None,
        p_value: kolmogorov(statistic * (n.sqrt() + 0.12 + 0.11 / n.sqrt())),
    }
}

/// Compares whole numbers, which it sorts, with the distribution function of the rounded model: `cdf(v)` is the share
/// of values at most `v`. Ties only make the test more lenient (Conover 1972).
pub fn kolmogorov_smirnov_whole(sample: &mut [u64], cdf: impl Fn(u64) -> f64) -> Fit {
    sample.sort_unstable();
    let n = sample.len() as f64;
    let mut statistic: f64 = 0.0;
    let mut seen = 0;
    for run in sample.chunk_by(|a, b| a == b) {
        let value = run[0];
        let before = if value == 0 { 0.0 } else { cdf(value - 1) };
        statistic = statistic.max((before - seen as f64 / n).abs());
        seen += run.len();
        statistic = statistic.max((cdf(value) - seen as f64 / n).abs());
    }
    Fit {
        test: Test::KolmogorovSmirnov,
        sample: sample.len() as u64,
        statistic,
        degrees_of_freedom: None,
        p_value: kolmogorov(statistic * (n.sqrt() + 0.12 + 0.11 / n.sqrt())),
    }
}

/// Compares counts with a discrete distribution function: `cdf(v)` is the share of values at most `v`.
pub fn chi_square(sample: &[u64], cdf: impl Fn(u64) -> f64) -> Fit {
    let n = sample.len() as f64;
    let mut sorted = sample.to_vec();
    sorted.sort_unstable();
    let last = sorted.last().copied().unwrap_or(0);
    let impossible = sorted.first().is_some_and(|&first| cdf(first) <= 0.0)
        || sorted
            .last()
            .is_some_and(|&last| last > 0 && cdf(last) - cdf(last - 1) <= 0.0 && cdf(last) >= 1.0);
    let (mut statistic, mut classes) = (if impossible { f64::INFINITY } else { 0.0 }, 0u32);
    let (mut from, mut seen, mut value) = (0.0, 0usize, 0u64);
    loop {
        // The last class is open and takes the remaining mass.
        let open = n * (1.0 - cdf(value)) < EXPECTED_MIN || value > last.saturating_mul(2).max(64);
        let to = if open { 1.0 } else { cdf(value) };
        let expected = n * (to - from);
        if open || expected >= EXPECTED_MIN {
            let upto = if open {
                sorted.len()
            } else {
                sorted.partition_point(|&x| x <= value)
            };
            let difference = (upto - seen) as f64 - expected;
            if expected > 0.0 {
                statistic += difference * difference / expected;
                classes += 1;
            }
            (from, seen) = (to, upto);
        }
        if open {
            break;
        }
        value += 1;
    }
    let freedom = classes.saturating_sub(1);
    let p_value = match ChiSquared::new(f64::from(freedom)) {
        Ok(law) if statistic.is_finite() => law.sf(statistic),
        // With a single class, only a value that the model excludes contradicts it.
        _ => f64::from(statistic.is_finite()),
    };
    Fit {
        test: Test::ChiSquare,
        sample: sample.len() as u64,
        statistic,
        degrees_of_freedom: Some(freedom),
        p_value,
    }
}

/// Largest distance between the distribution functions of two samples of (value, count) pairs; 0 if either is empty.
pub fn distance(mut a: Vec<(u64, u64)>, mut b: Vec<(u64, u64)>) -> f64 {
    let all = |sample: &[(u64, u64)]| sample.iter().map(|&(_, count)| count).sum::<u64>() as f64;
    let sums = [all(&a), all(&b)];
    if sums.contains(&0.0) {
        return 0.0;
    }
    a.sort_unstable();
    b.sort_unstable();
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    let (mut seen, mut farthest) = ([0u64; 2], 0.0f64);
    while let (Some(&(first, _)), Some(&(second, _))) = (a.peek(), b.peek()) {
        let value = first.min(second);
        while let Some((_, count)) = a.next_if(|&(other, _)| other == value) {
            seen[0] += count;
        }
        while let Some((_, count)) = b.next_if(|&(other, _)| other == value) {
            seen[1] += count;
        }
        farthest = farthest.max((seen[0] as f64 / sums[0] - seen[1] as f64 / sums[1]).abs());
    }
    farthest
}

/// `P(K > x)` of the Kolmogorov distribution.
fn kolmogorov(x: f64) -> f64 {
    if x < 0.2 {
        return 1.0;
    }
    let mut sum = 0.0;
    for k in 1..=100 {
        let k = f64::from(k);
        let term = libm::exp(-2.0 * k * k * x * x);
        sum += if k % 2.0 == 1.0 { term } else { -term };
        if term < 1e-16 {
            break;
        }
    }
    (2.0 * sum).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::uniform;
    use statrs::distribution::{Exp, Uniform};
    use statrs::stats_tests::NaNPolicy;
    use statrs::stats_tests::ks_test::{KSOneSampleAlternativeMethod, ks_onesample};
    use units::Seed;

    #[test]
    fn the_test_agrees_with_another_implementation() {
        for seed in (0..20).map(Seed) {
            let mut rng = seed.rng();
            let mut sample: Vec<f64> = (0..2000).map(|_| uniform(&mut rng)).collect();
            let (d, p) = ks_onesample(
                sample.clone(),
                &Uniform::new(0.0, 1.0).unwrap(),
                KSOneSampleAlternativeMethod::TwoSidedAsymptotic,
                NaNPolicy::Error,
            )
            .unwrap();
            let fit = kolmogorov_smirnov(&mut sample, |x| x);
            assert!((fit.statistic - d).abs() < 1e-12, "{seed}");
            assert!((fit.p_value - p).abs() < 0.02, "{seed}: {} and {p}", fit.p_value);
        }
    }

    /// Under the model, p-values are uniform: one in a hundred is below 0.01.
    #[test]
    fn p_values_are_even_under_the_model() {
        let (mut low_ks, mut low_chi) = (0, 0);
        for seed in (0..2000).map(Seed) {
            let mut rng = seed.rng();
            let mut sample: Vec<f64> = (0..300).map(|_| uniform(&mut rng)).collect();
            low_ks += u32::from(kolmogorov_smirnov(&mut sample, |x| x).p_value < 0.1);
            let counts: Vec<u64> = (0..300)
                .map(|_| 1 + (-3.0 * uniform(&mut rng).ln()) as u64)
                .collect();
            let law = Exp::new(1.0 / 3.0).unwrap();
            let cdf = |v: u64| if v == 0 { 0.0 } else { law.cdf(v as f64) };
            low_chi += u32::from(chi_square(&counts, cdf).p_value < 0.1);
        }
        assert!((160..240).contains(&low_ks), "{low_ks} of 2000");
        assert!((160..240).contains(&low_chi), "{low_chi} of 2000");
    }

    #[test]
    fn a_wrong_model_is_found() {
        let mut rng = Seed(3).rng();
        let mut sample: Vec<f64> = (0..100_000).map(|_| uniform(&mut rng)).collect();
        assert!(kolmogorov_smirnov(&mut sample, |x| x.powf(1.02)).p_value < 0.01);
        let counts: Vec<u64> = sample.iter().map(|u| (u * 10.0) as u64).collect();
        let tilted = |v: u64| ((v + 1) as f64 / 10.0).min(1.0).powf(1.05);
        assert!(chi_square(&counts, tilted).p_value < 0.01);
        assert!(chi_square(&counts, |v| ((v + 1) as f64 / 10.0).min(1.0)).p_value > 0.01);
    }

    #[test]
    fn whole_numbers_are_compared_where_they_are() {
        let mut rng = Seed(4).rng();
        let mut sample: Vec<u64> = (0..100_000)
            .map(|_| (uniform(&mut rng) * 6.0) as u64 + 1)
            .collect();
        let fit = kolmogorov_smirnov_whole(&mut sample, |v| (v as f64 / 6.0).min(1.0));
        assert!(fit.statistic < 0.005 && fit.p_value > 0.01, "{fit:?}");
    }

    #[test]
    fn samples_are_compared_by_their_counts() {
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-12, "{found}, not {wanted}");
        near(
            distance(vec![(1, 3), (5, 1)], vec![(5, 10), (1, 15), (1, 15)]),
            0.0,
        );
        near(distance(vec![(1, 1), (2, 1)], vec![(2, 1), (3, 1)]), 0.5);
        near(distance(vec![(1, 4)], vec![(2, 1)]), 1.0);
        near(distance(vec![(9, 1), (1, 3)], vec![(4, 1), (1, 1)]), 0.25);
        near(distance(Vec::new(), vec![(2, 1)]), 0.0);
    }

    #[test]
    fn degenerate_samples_have_an_answer() {
        assert_eq!(chi_square(&[4; 1000], |v| f64::from(v >= 4)).p_value, 1.0);
        for excluded in [3, 5] {
            assert_eq!(chi_square(&[excluded; 1000], |v| f64::from(v >= 4)).p_value, 0.0);
        }
        assert_eq!(kolmogorov_smirnov(&mut [], |x| x).statistic, 0.0);
    }
}
