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

#[cfg(test)]
mod tests {
    use super::*;

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
