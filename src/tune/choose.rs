//! Which of several settings wins: by rounds in which all took turns, so that what the machine did otherwise falls on all
//! of them. Pure.

/// By this share of the middle a setting must be ahead of what stands: less is noise, and what stands is known.
const AHEAD: f64 = 0.03;

/// What one round showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Round {
    pub(super) files_per_s: f64,
    pub(super) p99_ms: f64,
}

/// A setting and its rounds.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    pub(super) setting: super::Setting,
    pub(super) rounds: Vec<Round>,
}

/// The middle one; nothing for no values.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// The place of the winner: the first, which stands, or the best of those that are ahead of it in every round.
pub(super) fn winner(tried: &[Tried]) -> usize {
    let Some(stands) = tried.first() else { return 0 };
    let middle = |one: &Tried| median(one.rounds.iter().map(|round| round.files_per_s));
    let is_ahead = |one: &Tried| {
        let pairs = one.rounds.iter().zip(&stands.rounds);
        middle(one) > middle(stands) * (1.0 + AHEAD)
            && one.rounds.len() == stands.rounds.len()
            && pairs.into_iter().all(|(a, b)| a.files_per_s > b.files_per_s)
    };
    let ahead = tried.iter().enumerate().skip(1).filter(|(_, one)| is_ahead(one));
    ahead
        .max_by(|a, b| middle(a.1).total_cmp(&middle(b.1)))
        .map_or(0, |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rates: &[&[f64]], expected: usize) {
        let tried: Vec<Tried> = rates
            .iter()
            .map(|rates| Tried {
                setting: Vec::new(),
                rounds: rates
                    .iter()
                    .map(|rate| Round {
                        files_per_s: *rate,
                        p99_ms: 1.0,
                    })
                    .collect(),
            })
            .collect();
        assert_eq!(winner(&tried), expected, "{rates:?}");
    }

    #[test]
    fn what_stands_stays_unless_another_is_surely_better() {
        check(&[&[100.0, 100.0, 100.0]], 0);
        check(&[&[100.0, 100.0, 100.0], &[102.0, 102.0, 102.0]], 0);
        check(&[&[100.0, 100.0, 100.0], &[110.0, 99.0, 120.0]], 0);
        check(&[&[100.0, 100.0, 100.0], &[110.0, 104.0, 120.0]], 1);
        check(
            &[
                &[100.0, 90.0, 100.0],
                &[110.0, 104.0, 120.0],
                &[130.0, 140.0, 150.0],
            ],
            2,
        );
        // The whole machine was slower in one round: that falls on both.
        check(&[&[100.0, 50.0, 100.0], &[110.0, 55.0, 110.0]], 1);
        check(&[], 0);
    }

    #[test]
    fn the_middle_of_an_even_number_is_between_two() {
        assert_eq!(median([4.0, 1.0, 3.0, 2.0].into_iter()), 2.5);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([].into_iter()), 0.0);
    }
}
