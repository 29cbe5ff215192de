//! Chooses among settings by paired comparison: each round measures every setting beside the current one, and the
//! ratio of the two rates is one observation. A disturbance slows both, so a busy machine widens the interval but
//! does not shift it. Pure.
//!
//! At each of [`LOOKS`], a sign test decides whether a setting is ahead of the current one by more than [`AHEAD`], or
//! is not. The level of the test is divided among the settings and the looks (Bonferroni). An undecided setting goes
//! on to the next look; if time ends first, it is reported as undecided.

use units::median;

/// Share by which a setting must be faster than the current one; less is not worth a change.
pub(super) const AHEAD: f64 = 0.03;
/// Probability that a stage chooses a setting that is no better.
const LUCK: f64 = 0.05;
/// Rounds after which the test is made. The first number is the smallest that can decide among four settings.
pub(super) const LOOKS: [usize; 4] = [9, 14, 20, 28];
/// Confidence of the reported intervals.
const CONFIDENCE: f64 = 0.95;

/// Measurements of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Round {
    pub(super) files_per_s: f64,
    pub(super) p99_ms: f64,
}

/// A setting and its rounds, in order.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    pub(super) setting: super::Setting,
    pub(super) rounds: Vec<Round>,
}

impl Tried {
    /// Ratio of its rate to that of the current setting in the same round.
    fn ratios(&self, stands: &Tried) -> Vec<f64> {
        let pairs = self.rounds.iter().zip(&stands.rounds);
        pairs
            .map(|(one, base)| one.files_per_s / base.files_per_s.max(1e-9))
            .collect()
    }
}

/// Decision about one setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Faster by more than [`AHEAD`]; the value is the median gain, a share.
    Better(f64),
    /// Not faster by [`AHEAD`].
    NotBetter,
    /// Undecided: the median ratio minus one is in this interval, at 95 % confidence.
    Undecided {
        /// Lower end, a share.
        low: f64,
        /// Upper end.
        high: f64,
    },
}

/// The decision about one of `others` settings, compared with the current one.
pub(super) fn judge(one: &Tried, stands: &Tried, others: usize) -> Verdict {
    let mut ratios = one.ratios(stands);
    ratios.sort_by(f64::total_cmp);
    let level = LUCK / (others.max(1) * LOOKS.len()) as f64;
    let ahead = ratios.iter().filter(|ratio| **ratio > 1.0 + AHEAD).count();
    if at_least(ahead, ratios.len()) <= level {
        // There are ratios: without any, `at_least` is 1.
        Verdict::Better(median(&ratios).unwrap_or(1.0) - 1.0)
    } else if at_least(ratios.len() - ahead, ratios.len()) <= LUCK {
        // To miss a setting costs what stood anyway: this level is not divided, so that an interval that is
        // shown reaches beyond what is looked for.
        Verdict::NotBetter
    } else {
        let (low, high) = interval(&ratios);
        Verdict::Undecided {
            low: low - 1.0,
            high: high - 1.0,
        }
    }
}

/// Index of the winner: of the settings that are certainly faster, the one with the largest gain.
pub(super) fn winner(verdicts: &[Verdict]) -> Option<usize> {
    let leads = verdicts
        .iter()
        .enumerate()
        .filter_map(|(place, verdict)| match verdict {
            Verdict::Better(lead) => Some((place, *lead)),
            Verdict::NotBetter | Verdict::Undecided { .. } => None,
        });
    leads.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(place, _)| place)
}

/// Probability of at least `count` heads in `of` tosses of a fair coin.
fn at_least(count: usize, of: usize) -> f64 {
    // Each term is the previous one times (of - k) / (k + 1); the first is 2 to the power of minus `of`.
    let mut term = 0.5f64.powi(i32::try_from(of).unwrap_or(i32::MAX));
    let mut tail = 0.0;
    for k in 0..=of {
        if k >= count {
            tail += term;
        }
        term *= (of - k) as f64 / (k + 1) as f64;
    }
    tail
}

/// Confidence interval of the median of sorted values, by order statistics; the whole range if values are too few.
fn interval(sorted: &[f64]) -> (f64, f64) {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
        return (f64::NEG_INFINITY, f64::INFINITY);
    };
    let of = sorted.len();
    let cut = (1..of / 2)
        .take_while(|cut| 2.0 * at_least(of - cut, of) <= 1.0 - CONFIDENCE)
        .last();
    cut.map_or((*first, *last), |cut| (sorted[cut], sorted[of - 1 - cut]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Draw, Seed};

    fn tried(rates: &[f64]) -> Tried {
        let round = |rate: &f64| Round {
            files_per_s: *rate,
            p99_ms: 1.0,
        };
        Tried {
            setting: Vec::new(),
            rounds: rates.iter().map(round).collect(),
        }
    }

    fn verdict(one: &[f64], stands: &[f64]) -> Verdict {
        judge(&tried(one), &tried(stands), 4)
    }

    #[test]
    fn a_coin_is_fair() {
        assert_eq!(at_least(0, 5), 1.0);
        assert_eq!(at_least(5, 5), 1.0 / 32.0);
        assert_eq!(at_least(4, 5), 6.0 / 32.0);
        assert_eq!(at_least(0, 0), 1.0);
        // What the first look asks for: nine of nine, among four settings.
        assert!(at_least(9, 9) <= LUCK / 16.0 && at_least(8, 8) > LUCK / 16.0);
    }

    /// A disturbance of a whole round slows both settings, so the ratio stays valid.
    #[test]
    fn a_busy_machine_decides_by_pairs() {
        let stands: Vec<f64> = [100.0, 30.0, 90.0, 12.0, 80.0, 99.0, 45.0, 70.0, 20.0].to_vec();
        let times = |factor: f64| -> Vec<f64> { stands.iter().map(|rate| rate * factor).collect() };
        let Verdict::Better(lead) = verdict(&times(1.1), &stands) else {
            panic!("ahead in every round");
        };
        assert!((lead - 0.1).abs() < 1e-9);
        assert_eq!(verdict(&times(1.02), &stands), Verdict::NotBetter);
        assert_eq!(verdict(&times(0.9), &stands), Verdict::NotBetter);
    }

    #[test]
    fn what_is_sometimes_ahead_is_undecided_with_an_interval() {
        let stands = [100.0; 9];
        let one = [110.0, 110.0, 110.0, 110.0, 110.0, 110.0, 110.0, 100.0, 90.0];
        let Verdict::Undecided { low, high } = verdict(&one, &stands) else {
            panic!("seven of nine may be chance");
        };
        assert!(
            (low - 0.0).abs() < 1e-9 && (high - 0.1).abs() < 1e-9,
            "{low} {high}"
        );
        assert_eq!(
            verdict(&[], &[]),
            Verdict::Undecided {
                low: f64::NEG_INFINITY,
                high: f64::INFINITY
            }
        );
    }

    #[test]
    fn an_interval_that_is_shown_reaches_beyond_what_is_looked_for() {
        let stands = [100.0; 9];
        let mostly_slower = [40.0, 50.0, 60.0, 70.0, 80.0, 80.0, 80.0, 80.0, 150.0];
        assert_eq!(verdict(&mostly_slower, &stands), Verdict::NotBetter);
        let rarely_slower = [40.0, 50.0, 60.0, 70.0, 80.0, 80.0, 80.0, 130.0, 150.0];
        let Verdict::Undecided { high, .. } = verdict(&rarely_slower, &stands) else {
            panic!("seven of nine may be chance");
        };
        assert!(high > AHEAD, "{high}");
    }

    #[test]
    fn the_largest_sure_lead_wins() {
        use Verdict::{Better, NotBetter, Undecided};
        let open = Undecided { low: 0.0, high: 0.5 };
        assert_eq!(winner(&[NotBetter, Better(0.04), open, Better(0.2)]), Some(3));
        assert_eq!(winner(&[NotBetter, open]), None);
        assert_eq!(winner(&[]), None);
    }

    /// Where nothing matters hardly a stage in a hundred changes anything, looks and all, whatever the machine does to rounds.
    #[test]
    fn settings_that_are_the_same_are_not_chosen() {
        let mut rng = Seed(7).rng();
        let mut unit = || rng.next_u64() as f64 / u64::MAX as f64;
        let (mut chosen, mut undecided) = (0, 0);
        for _ in 0..1000 {
            let slow: Vec<f64> = (0..28).map(|_| 1.0 - 0.8 * unit()).collect();
            let mut rates = || -> Vec<f64> { slow.iter().map(|slow| slow * (1.0 + 0.1 * unit())).collect() };
            let stands = rates();
            let others: Vec<Vec<f64>> = (0..4).map(|_| rates()).collect();
            let verdicts = others.iter().map(|one| {
                let looks = LOOKS.iter().map(|&look| verdict(&one[..look], &stands[..look]));
                let mut looks = looks.skip_while(|verdict| matches!(verdict, Verdict::Undecided { .. }));
                looks.next().unwrap_or(Verdict::Undecided { low: 0.0, high: 0.0 })
            });
            let verdicts: Vec<Verdict> = verdicts.collect();
            chosen += usize::from(winner(&verdicts).is_some());
            let open = |verdict: &&Verdict| matches!(verdict, Verdict::Undecided { .. });
            undecided += verdicts.iter().filter(open).count();
        }
        assert!(chosen <= 10, "{chosen} of 1000, seed 7");
        println!("{undecided} of 4000 comparisons are undecided after 28 rounds");
    }

    /// And one that is a tenth faster is found, on a machine whose rounds differ fivefold and whose turns by a twentieth.
    #[test]
    fn a_setting_that_is_a_tenth_faster_is_found() {
        let mut rng = Seed(11).rng();
        let mut unit = || rng.next_u64() as f64 / u64::MAX as f64;
        let mut found = 0;
        for _ in 0..200 {
            let slow: Vec<f64> = (0..28).map(|_| 1.0 - 0.8 * unit()).collect();
            let mut rates = |factor: f64| -> Vec<f64> {
                slow.iter()
                    .map(|slow| slow * factor * (1.0 + 0.05 * unit()))
                    .collect()
            };
            let (stands, one) = (rates(1.0), rates(1.1));
            let looks = LOOKS.iter().map(|&look| verdict(&one[..look], &stands[..look]));
            found += usize::from(
                looks
                    .into_iter()
                    .any(|verdict| matches!(verdict, Verdict::Better(_))),
            );
        }
        assert!(found >= 195, "{found} of 200, seed 11");
    }
}
