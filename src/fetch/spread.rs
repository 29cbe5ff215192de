//! Several fetches of one kind in a few numbers: mean, minimum, median, maximum, standard deviation.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) mean: f64,
    pub(super) least: f64,
    pub(super) median: f64,
    pub(super) most: f64,
    /// Sample standard deviation (divides by n - 1); 0 for a single value.
    pub(super) deviation: f64,
}

impl Spread {
    /// The spread of the values; `None` without any.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        };
        Some(Spread {
            mean,
            least,
            median,
            most,
            deviation: (squares / (count - 1.0).max(1.0)).sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_numbers() {
        let spread = Spread::of([4.0, 2.0, 6.0, 8.0]).expect("some");
        assert_eq!(
            (spread.mean, spread.least, spread.median, spread.most),
            (5.0, 2.0, 5.0, 8.0)
        );
        assert!((spread.deviation - (20.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(
            Spread::of([3.0]).map(|spread| (spread.median, spread.deviation)),
            Some((3.0, 0.0))
        );
        assert_eq!(Spread::of([]), None);
    }
}
