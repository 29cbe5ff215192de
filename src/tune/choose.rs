//! Which of several settings wins: by rounds in which all took turns, so that what the machine did otherwise falls on all
//! of them. What stands takes two turns in each round: how far it is from itself tells what a difference is worth. Pure.
//!
//! A setting wins only if three things hold, as each alone comes about by chance too often: it is ahead in every round of both
//! turns of what stands; its lead is more than what stands varies; and its rates are larger than those of what stands by more
//! than luck would have it (the one-sided rank test of Mann and Whitney 1947, exact, its level divided among the settings that
//! are tried, after Bonferroni).

use measure::Ranks;

/// By this share a setting must be ahead of what stands: less is not worth another setting, and what stands is known.
const AHEAD: f64 = 0.03;
/// A machine on which the middle half of the rates of one setting is spread wider than this share of its middle tells nothing
/// of three percent.
pub(super) const NOISY: f64 = 0.15;
/// How often a stage may choose a setting that is no better, where nothing is.
const LUCK: f64 = 0.05;

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

impl Tried {
    fn rates(&self) -> impl Iterator<Item = f64> {
        self.rounds.iter().map(|round| round.files_per_s)
    }
}

/// What came of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// What stands stays.
    Stands,
    /// The one at this place is better.
    Won(usize),
    /// It cannot be told: what stands varies by this share of its middle.
    Noisy(f64),
}

/// What kept a setting from winning whose middle rate is larger than that of what stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Short {
    /// Its lead is too small in some rounds: it was ahead in so many.
    Rounds { ahead: usize, of: usize },
    /// It leads by less than what stands is spread.
    Spread(f64),
    /// As much comes about by chance, so often.
    Luck(f64),
}

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |share: f64| share * 100.0;
        match self {
            Short::Rounds { ahead, of } => write!(
                f,
                "ahead by more than {:.0} % of both turns of what stood in {ahead} of {of} rounds only",
                percent(AHEAD)
            ),
            Short::Spread(spread) => write!(
                f,
                "ahead by no more than the middle half of the rates of what stood is spread, {:.0} %",
                percent(*spread)
            ),
            Short::Luck(chance) => write!(
                f,
                "ahead, but not surely: settings that are the same look so {:.1} times in a hundred",
                percent(*chance)
            ),
        }
    }
}

/// The middle one; nothing for no values.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// By linear interpolation between neighbors.
fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else {
        return 0.0;
    };
    let place = share * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    values[below] + (values[above] - values[below]) * (place - place.floor())
}

/// What a setting has to beat.
struct Bar {
    /// Of each round the better turn of what stands.
    rounds: Vec<f64>,
    /// All rates of what stands.
    base: Vec<f64>,
    middle: f64,
    /// How far the middle half of them is spread, as a share of the middle.
    spread: f64,
}

impl Bar {
    fn of(stands: &Tried, again: &Tried) -> Bar {
        let base: Vec<f64> = stands.rates().chain(again.rates()).collect();
        let middle = median(base.iter().copied());
        let half = quantile(base.iter().copied(), 0.75) - quantile(base.iter().copied(), 0.25);
        Bar {
            rounds: stands.rates().zip(again.rates()).map(|(a, b)| a.max(b)).collect(),
            spread: half / middle.max(1e-9),
            base,
            middle,
        }
    }

    /// Why one of so many settings does not beat it; nothing if it does.
    fn keeps(&self, one: &Tried, others: usize) -> Option<Short> {
        let rates: Vec<f64> = one.rates().collect();
        let over = rates.iter().zip(&self.rounds);
        let ahead = over.filter(|(rate, bar)| **rate > **bar * (1.0 + AHEAD)).count();
        let of = self.rounds.len();
        let luck = Ranks::of(&self.base, &rates).higher;
        if ahead < of || rates.len() != of {
            Some(Short::Rounds { ahead, of })
        } else if median(rates.iter().copied()) <= self.middle * (1.0 + self.spread) {
            Some(Short::Spread(self.spread))
        } else if luck > LUCK / others as f64 {
            Some(Short::Luck(luck))
        } else {
            None
        }
    }
}

/// The first two are what stands.
pub(super) fn judge(tried: &[Tried]) -> Verdict {
    let [stands, again, others @ ..] = tried else {
        return Verdict::Stands;
    };
    let bar = Bar::of(stands, again);
    if bar.spread > NOISY {
        return Verdict::Noisy(bar.spread);
    }
    others
        .iter()
        .enumerate()
        .filter(|(_, one)| bar.keeps(one, others.len()).is_none())
        .max_by(|a, b| median(a.1.rates()).total_cmp(&median(b.1.rates())))
        .map_or(Verdict::Stands, |(place, _)| Verdict::Won(place + 2))
}

/// Of a stage in which what stands stays: the settings whose middle rate is larger than its by more than counts, with their lead as
/// a share and what kept them from winning.
pub(super) fn short(tried: &[Tried]) -> Vec<(&Tried, f64, Short)> {
    let [stands, again, others @ ..] = tried else {
        return Vec::new();
    };
    let bar = Bar::of(stands, again);
    let lead = |one: &Tried| median(one.rates()) / bar.middle.max(1e-9) - 1.0;
    others
        .iter()
        .filter(|one| lead(one) > AHEAD)
        .filter_map(|one| Some((one, lead(one), bar.keeps(one, others.len())?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Draw, Seed};

    fn judged(rates: &[&[f64]]) -> Verdict {
        judge(&tried(rates))
    }

    fn tried(rates: &[&[f64]]) -> Vec<Tried> {
        rates
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
            .collect()
    }

    const EVEN: &[f64] = &[100.0, 101.0, 99.0, 100.0, 102.0];
    const AGAIN: &[f64] = &[101.0, 100.0, 100.0, 99.0, 101.0];

    #[test]
    fn what_stands_stays_unless_another_is_surely_better() {
        for (other, expected) in [
            (&[100.0, 100.0, 100.0, 100.0, 100.0][..], Verdict::Stands),
            (&[103.0, 103.0, 103.0, 103.0, 103.0], Verdict::Stands),
            (&[110.0, 99.0, 120.0, 120.0, 120.0], Verdict::Stands),
            (&[110.0, 104.5, 120.0, 110.0, 111.0], Verdict::Won(2)),
        ] {
            assert_eq!(judged(&[EVEN, AGAIN, other]), expected, "{other:?}");
        }
        let better: &[f64] = &[110.0, 111.0, 110.0, 112.0, 113.0];
        let best: &[f64] = &[130.0, 140.0, 150.0, 130.0, 130.0];
        assert_eq!(judged(&[EVEN, AGAIN, better, best]), Verdict::Won(3));
        assert_eq!(judged(&[]), Verdict::Stands);
        assert_eq!(judged(&[EVEN, AGAIN]), Verdict::Stands);
    }

    #[test]
    fn a_setting_that_was_faster_and_did_not_win_is_told_why() {
        let why = |rates: &[&[f64]]| -> Vec<Short> {
            let tried = tried(rates);
            short(&tried).into_iter().map(|(_, _, why)| why).collect()
        };
        let once: &[f64] = &[110.0, 99.0, 120.0, 120.0, 120.0];
        assert_eq!(why(&[EVEN, AGAIN, once]), [Short::Rounds { ahead: 4, of: 5 }]);
        // Half of its turns are slow, in rounds that were slow for all.
        let base: &[f64] = &[80.0, 100.0, 98.0, 88.0, 101.0];
        let other: &[f64] = &[85.0, 107.0, 104.0, 94.0, 106.0];
        assert!(matches!(why(&[base, base, other])[..], [Short::Spread(spread)] if spread > 0.1));
        let better: &[f64] = &[110.0, 111.0, 110.0, 112.0, 113.0];
        assert!(why(&[EVEN, AGAIN, better]).is_empty(), "it won");
        assert!(why(&[EVEN, AGAIN, EVEN]).is_empty(), "it was not ahead");
        let three = |rates: &'static [f64]| -> &'static [f64] { &rates[..2] };
        assert!(matches!(
            why(&[three(EVEN), three(AGAIN), &[110.0, 111.0]])[..],
            [Short::Luck(chance)] if chance > 0.05
        ));
        let said = Short::Rounds { ahead: 4, of: 5 }.to_string();
        assert!(said.contains("4 of 5 rounds"), "{said}");
    }

    /// What a machine showed that was busy: three rounds of one setting, and a lead that was none.
    #[test]
    fn a_setting_that_is_far_from_itself_tells_nothing_of_others() {
        let base: &[f64] = &[11_891.0, 37_794.0, 34_409.0, 30_000.0, 36_000.0];
        let again: &[f64] = &[34_000.0, 36_100.0, 12_000.0, 35_000.0, 28_147.0];
        let other: &[f64] = &[76_261.0, 76_000.0, 75_000.0, 77_000.0, 76_000.0];
        let Verdict::Noisy(spread) = judged(&[base, again, other]) else {
            panic!("not noisy");
        };
        assert!(spread > NOISY, "{spread}");
    }

    /// Where nothing matters hardly a stage in a thousand changes anything, whatever the machine does to whole rounds.
    #[test]
    fn settings_that_are_the_same_are_not_chosen() {
        let mut rng = Seed(7).rng();
        let mut unit = || rng.next_u64() as f64 / u64::MAX as f64;
        let mut chosen = 0;
        for _ in 0..2000 {
            let slow: Vec<f64> = (0..5).map(|_| 1.0 - 0.05 * unit()).collect();
            let rates: Vec<Vec<f64>> = (0..6)
                .map(|_| {
                    slow.iter()
                        .map(|slow| 1000.0 * slow * (1.0 + 0.1 * unit()))
                        .collect()
                })
                .collect();
            let rates: Vec<&[f64]> = rates.iter().map(Vec::as_slice).collect();
            chosen += u32::from(matches!(judged(&rates), Verdict::Won(_)));
        }
        assert!(chosen <= 2, "{chosen} of 2000, seed 7");
    }

    #[test]
    fn the_middle_of_an_even_number_is_between_two() {
        assert_eq!(median([4.0, 1.0, 3.0, 2.0].into_iter()), 2.5);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([].into_iter()), 0.0);
    }
}
