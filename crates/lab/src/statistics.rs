//! The uncertainty of a median of repetitions, and straight lines. Randomness comes from a seed; knows nothing about the measurements.
//! See [`units::ranks`] for tests of differences.

use units::{Draw, Seed, median};

/// Number of bootstrap draws.
const DRAWS: usize = 2000;

/// Least number of values for an interval: with fewer, the 95 % bootstrap interval is the whole range.
pub const INTERVAL_MIN: usize = 6;

/// Spread of repetitions, as precise as their number allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// Lowest and highest value.
    Range(f64, f64),
    /// The 95 % percentile-bootstrap interval of the median (Efron 1979).
    Interval(f64, f64),
}

/// The spread of these values; `None` for fewer than two.
pub fn spread(values: &[f64], seed: Seed) -> Option<Spread> {
    if values.len() < 2 {
        return None;
    }
    if values.len() < INTERVAL_MIN {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        return Some(Spread::Range(low, high));
    }
    let (low, high) = interval(values, seed);
    Some(Spread::Interval(low, high))
}

/// The least p of a two-sided rank test of `a` and `b` values without ties: the two arrangements without overlap, as
/// a share of all arrangements. However large the difference, p cannot be lower.
pub fn least_p(a: usize, b: usize) -> f64 {
    let arrangements: f64 = (1..=a).map(|k| (b + k) as f64 / k as f64).product();
    (2.0 / arrangements).min(1.0)
}

fn interval(values: &[f64], seed: Seed) -> (f64, f64) {
    let mut rng = seed.rng();
    let count = values.len() as u64;
    let mut medians: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let drawn: Vec<f64> = (0..count)
                .map(|_| values[((u128::from(rng.next_u64()) * u128::from(count)) >> 64) as usize])
                .collect();
            median(&drawn)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| medians[((DRAWS - 1) as f64 * share).round() as usize];
    (at(0.025), at(0.975))
}

/// A straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Increase of y per unit of x.
    pub slope: f64,
    /// Value of y at x = 0.
    pub intercept: f64,
    /// Share of the variance of y that the line explains (r squared).
    pub determination: f64,
}

/// The least-squares line; `None` for fewer than three points, or if all have the same x.
pub fn least_squares(points: &[(f64, f64)]) -> Option<Line> {
    let count = points.len() as f64;
    if points.len() < 3 {
        return None;
    }
    let middle = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (middle(|point| point.0), middle(|point| point.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 { points.iter().map(|p| of(p.0 - x, p.1 - y)).sum() };
    let (xx, xy, yy) = (
        sum(&|dx, _| dx * dx),
        sum(&|dx, dy| dx * dy),
        sum(&|_, dy| dy * dy),
    );
    if xx == 0.0 {
        return None;
    }
    let slope = xy / xx;
    Some(Line {
        slope,
        intercept: y - slope * x,
        determination: if yy == 0.0 { 1.0 } else { slope * xy / yy },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_how_much_of_it_is_noise() {
        let exact: Vec<(f64, f64)> = (0..5).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x))).collect();
        let line = least_squares(&exact).expect("five points");
        assert_eq!((line.slope, line.intercept, line.determination), (2.0, 3.0, 1.0));
        // Anscombe's first set (1973): y = 3.00 + 0.500 x, r squared 0.67.
        let xs = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let ys = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let points: Vec<(f64, f64)> = xs.into_iter().zip(ys).collect();
        let line = least_squares(&points).expect("eleven points");
        assert!((line.slope - 0.5001).abs() < 1e-4 && (line.intercept - 3.0001).abs() < 1e-4);
        assert!((line.determination - 0.6665).abs() < 1e-4);
        assert_eq!(least_squares(&points[..2]), None);
        assert_eq!(least_squares(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }

    #[test]
    fn few_values_have_a_range_and_more_an_interval_that_is_the_same_every_time() {
        assert_eq!(spread(&[2.0], Seed(1)), None);
        for few in [&[9.0, 1.0][..], &[9.0, 2.0, 1.0], &[9.0, 4.0, 1.0, 2.0, 3.0]] {
            assert_eq!(spread(few, Seed(1)), Some(Spread::Range(1.0, 9.0)));
        }
        let values: Vec<f64> = (1..=INTERVAL_MIN).map(|value| value as f64).collect();
        let six = spread(&values, Seed(1));
        assert!(
            matches!(six, Some(Spread::Interval(low, high)) if low <= 3.5 && 3.5 <= high && low < high),
            "{six:?}"
        );
        assert_eq!(six, spread(&values, Seed(1)));
        assert_eq!(spread(&[5.0; 8], Seed(1)), Some(Spread::Interval(5.0, 5.0)));
    }

    #[test]
    fn the_least_p_is_what_the_rank_test_gives_samples_that_lie_apart() {
        for (m, n) in [(3, 3), (5, 5), (3, 4), (6, 3), (10, 10)] {
            let low: Vec<f64> = (0..m).map(f64::from).collect();
            let high: Vec<f64> = (100..100 + n).map(f64::from).collect();
            let p = units::ranks(&low, &high).1;
            let least = least_p(low.len(), high.len());
            assert!((p - least).abs() < 1e-9, "{m} {n}: {p} {least}");
        }
        assert!((least_p(3, 3) - 0.1).abs() < 1e-12 && (least_p(5, 5) - 0.007_936_5).abs() < 1e-6);
    }
}
