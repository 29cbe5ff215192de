//! The middle of repetitions and how sure it is. Chance comes from a seed; knows nothing of what was measured. Whether
//! two samples differ is [`measure::ranks`].

use measure::{Draw, Seed};

/// The middle value; none of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match (sorted.len(), sorted.len() % 2) {
        (0, _) => None,
        (_, 1) => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

/// How often values are drawn again.
const DRAWS: usize = 2000;

/// The 95 % percentile-bootstrap interval of the median (Efron 1979); none with fewer than three values, of which it
/// would say nothing but their extremes.
pub fn interval(values: &[f64], seed: Seed) -> Option<(f64, f64)> {
    if values.len() < 3 {
        return None;
    }
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
    Some((at(0.025), at(0.975)))
}

/// A straight line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// How much the second coordinate grows with the first.
    pub slope: f64,
    /// The second coordinate where the first is zero.
    pub intercept: f64,
    /// The share of the second coordinate's variance that it explains.
    pub determination: f64,
}

/// The line of least squares; none through fewer than three points, or through points that are all above each other.
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
    fn the_middle_of_odd_even_and_no_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn intervals_hold_the_median_and_are_the_same_every_time() {
        let values = [1.0, 2.0, 3.0, 4.0, 100.0];
        let (low, high) = interval(&values, Seed(1)).expect("five values");
        assert!(low <= 3.0 && 3.0 <= high && low < high, "{low} {high}");
        assert_eq!(interval(&values, Seed(1)), interval(&values, Seed(1)));
        assert_eq!(interval(&values[..2], Seed(1)), None);
        assert_eq!(interval(&[5.0; 4], Seed(1)), Some((5.0, 5.0)));
    }
}
