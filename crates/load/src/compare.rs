//! Two loads compared: how much each measure changed, how sure that is, and whether it is worse.
//!
//! What is drawn again and ranked are *batches*: whole runs if there are enough on both sides, else pieces of a
//! run so long that each is one of at most sixty. Batches, because times within a second depend on each other
//! (a pause delays all of them), and pretending they do not makes every difference look certain. An interval over
//! pieces of one run says nothing of how runs differ among themselves; [`Unit`] says which it is, and two runs of one and
//! the same server differ by more than their pieces do.
//!
//! Who asks seven questions is told one thing in twenty by accident each time, so the rank tests of all measures that
//! decide are corrected together, by the step-down method of Holm (1979): the chance that any of them is called worse where
//! nothing differs is what one was meant to have. A measure that is the same in every batch asks nothing.
//!
//! The interval is a percentile bootstrap (Efron 1979) of the relative change; the rank test is that of Mann and
//! Whitney (1947), exact for few batches; the chance that a batch of B is above one of A is the effect size of
//! Vargha and Delaney (2000). Refuses to know where results come from.

use crate::chance::{Purpose, below, stream};
use crate::run::Run;
use crate::times::Sparse;
use measure::{Ranks, Rng, Seed};
use serde::Serialize;
use std::collections::BTreeMap;

/// Runs on each side from which on they are the batches.
pub const RUNS_MIN: usize = 5;
/// Pieces of one run at the most.
const PIECES_MAX: usize = 60;
/// Batches on each side below which nothing can be said.
pub const BATCHES_MIN: usize = 4;

/// What a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A run: intervals say how runs differ.
    Run,
    /// A piece of a run: intervals say nothing of how runs differ.
    Piece,
}

/// What was measured in one run or piece of one.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    seconds: f64,
    files: u64,
    bytes: u64,
    errors: u64,
    response: Sparse,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Files a second.
    FilesPerS,
    /// Content bytes a second.
    BytesPerS,
    /// Troubles for each file.
    ErrorsPerFile,
    /// Mean response time, milliseconds.
    MeanMs,
    /// Its quantiles.
    P50Ms,
    /// Nine in ten.
    P90Ms,
    /// Ninety-nine in a hundred.
    P99Ms,
}

impl Measure {
    /// All of them.
    pub const ALL: [Measure; 7] = [
        Measure::FilesPerS,
        Measure::BytesPerS,
        Measure::ErrorsPerFile,
        Measure::MeanMs,
        Measure::P50Ms,
        Measure::P90Ms,
        Measure::P99Ms,
    ];

    /// How it is called.
    pub fn name(self) -> &'static str {
        match self {
            Measure::FilesPerS => "files_per_s",
            Measure::BytesPerS => "bytes_per_s",
            Measure::ErrorsPerFile => "errors_per_file",
            Measure::MeanMs => "mean_ms",
            Measure::P50Ms => "p50_ms",
            Measure::P90Ms => "p90_ms",
            Measure::P99Ms => "p99_ms",
        }
    }

    /// Whether more of it is worse.
    pub fn more_is_worse(self) -> bool {
        !matches!(self, Measure::FilesPerS | Measure::BytesPerS)
    }

    fn of(self, sum: &Sum) -> f64 {
        let over = |above: f64, below: f64| if below > 0.0 { above / below } else { 0.0 };
        match self {
            Measure::FilesPerS => over(sum.files, sum.seconds),
            Measure::BytesPerS => over(sum.bytes, sum.seconds),
            Measure::ErrorsPerFile => over(sum.errors, sum.files),
            Measure::MeanMs => over(sum.total_ms, sum.times),
            Measure::P50Ms => sum.quantile(0.5),
            Measure::P90Ms => sum.quantile(0.9),
            Measure::P99Ms => sum.quantile(0.99),
        }
    }
}

impl core::str::FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Measure, String> {
        let found = Measure::ALL.into_iter().find(|measure| measure.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Measure::ALL.iter().map(|measure| measure.name()).collect();
            format!("`{text}` is no measure; there are {}", names.join(", "))
        })
    }
}

/// How a comparison is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// All chance of the bootstrap.
    pub seed: Seed,
    /// How often it draws.
    pub draws: u32,
    /// How sure an interval is to be, and a rank test with it: 0.95.
    pub confidence: f64,
    /// The share by which B may be worse.
    pub worse_max: f64,
}

impl Settings {
    /// The default settings.
    pub const DEFAULT: Settings = Settings {
        seed: Seed(1),
        draws: 2000,
        confidence: 0.95,
        worse_max: 0.05,
    };
}

/// One measure compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub measure: Measure,
    /// Its value over all of A.
    pub a: f64,
    /// Over all of B.
    pub b: f64,
    /// (B - A) / A; none if A is 0 and B is not.
    pub change: Option<f64>,
    /// Between which values the change lies, at the confidence asked for.
    pub interval: Option<(f64, f64)>,
    /// The chance that a batch of B is above one of A, ties counted half.
    pub superiority: f64,
    /// How likely ranks as different as these are if there is no difference.
    pub p_value: f64,
    /// How likely it is, if there is no difference, that ranks say as loudly that B is worse, corrected for the measures that
    /// decide; none of one that does not decide.
    pub p_worse: Option<f64>,
    /// Whether it decides, and B is worse by more than is allowed, and that is no accident by interval and corrected rank test.
    pub worse: bool,
}

/// The batches of some runs; all of one size unless a run ends within one.
pub fn batches(runs: &[Run], unit: Unit) -> Vec<Batch> {
    let mut batches = Vec::new();
    for run in runs {
        let long = run.stopped_after_s.unwrap_or(run.asked_s).min(run.asked_s);
        // Seconds that are not whole would show lower rates; what ends after the run is none of its seconds.
        let whole = (long.floor().max(1.0) as usize).min(run.record.seconds.len().max(1));
        let each = match unit {
            Unit::Run => whole,
            Unit::Piece => whole.div_ceil(PIECES_MAX),
        };
        let known = run.record.seconds.get(..whole).unwrap_or_default();
        let pieces = known.chunks_exact(each.max(1));
        batches.extend(pieces.map(|piece| {
            let mut batch = Batch {
                seconds: piece.len() as f64,
                ..Batch::default()
            };
            for second in piece {
                batch.files += second.files;
                batch.bytes += second.bytes;
                batch.errors += second.errors;
                batch.response.merge(&second.response);
            }
            batch
        }));
    }
    batches
}

/// What batches are if there are so many runs on each side.
pub fn unit(a: usize, b: usize) -> Unit {
    if a.min(b) >= RUNS_MIN {
        Unit::Run
    } else {
        Unit::Piece
    }
}

/// Batches added up. Times are counted by place in a list of all values there are.
struct Sum<'v> {
    seconds: f64,
    files: f64,
    bytes: f64,
    errors: f64,
    times: f64,
    total_ms: f64,
    values: &'v [u64],
    counts: Vec<u64>,
}

/// A batch whose times are places in the list.
struct Placed {
    batch: Batch,
    places: Vec<(u32, u64)>,
    total_ms: f64,
}

impl Sum<'_> {
    fn of<'v, 'p>(values: &'v [u64], batches: impl Iterator<Item = &'p Placed>) -> Sum<'v> {
        let mut sum = Sum {
            seconds: 0.0,
            files: 0.0,
            bytes: 0.0,
            errors: 0.0,
            times: 0.0,
            total_ms: 0.0,
            values,
            counts: vec![0; values.len()],
        };
        for placed in batches {
            sum.seconds += placed.batch.seconds;
            sum.files += placed.batch.files as f64;
            sum.bytes += placed.batch.bytes as f64;
            sum.errors += placed.batch.errors as f64;
            sum.total_ms += placed.total_ms;
            for &(place, count) in &placed.places {
                sum.counts[place as usize] += count;
                sum.times += count as f64;
            }
        }
        sum
    }

    fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.times).ceil().max(1.0);
        let mut seen = 0.0;
        for (&value, &count) in self.values.iter().zip(&self.counts) {
            seen += count as f64;
            if seen >= rank {
                return value as f64 / 1e6;
            }
        }
        0.0
    }
}

/// Compares; every measure has a row, in the order of [`Measure::ALL`]. Those of `deciding` are corrected together.
pub fn compare(a: &[Batch], b: &[Batch], deciding: &[Measure], settings: &Settings) -> Vec<Row> {
    let mut places: BTreeMap<u64, u32> = BTreeMap::new();
    for batch in a.iter().chain(b) {
        places.extend(batch.response.pairs().iter().map(|&(value, _)| (value, 0)));
    }
    let values: Vec<u64> = places.keys().copied().collect();
    for (number, place) in (0..).zip(places.values_mut()) {
        *place = number;
    }
    let place = |batch: &Batch| Placed {
        places: batch
            .response
            .pairs()
            .iter()
            .map(|&(value, count)| (places[&value], count))
            .collect(),
        total_ms: batch
            .response
            .pairs()
            .iter()
            .map(|&(value, count)| value as f64 / 1e6 * count as f64)
            .sum(),
        batch: batch.clone(),
    };
    let a: Vec<Placed> = a.iter().map(place).collect();
    let b: Vec<Placed> = b.iter().map(place).collect();
    let mut rng = stream(settings.seed, Purpose::Bootstrap, 0);
    let mut changes: Vec<Vec<f64>> = vec![Vec::new(); Measure::ALL.len()];
    for _ in 0..settings.draws {
        let (of_a, of_b) = (drawn(&values, &a, &mut rng), drawn(&values, &b, &mut rng));
        for (measure, changes) in Measure::ALL.into_iter().zip(&mut changes) {
            changes.extend(change(measure.of(&of_a), measure.of(&of_b)));
        }
    }
    let (whole_a, whole_b) = (Sum::of(&values, a.iter()), Sum::of(&values, b.iter()));
    let each = |measure: Measure, of: &[Placed]| -> Vec<f64> {
        of.iter()
            .map(|batch| measure.of(&Sum::of(&values, core::iter::once(batch))))
            .collect()
    };
    let rows = Measure::ALL.into_iter().zip(changes);
    let rows = rows.map(|(measure, changes)| {
        let (of_a, of_b) = (measure.of(&whole_a), measure.of(&whole_b));
        let (each_a, each_b) = (each(measure, &a), each(measure, &b));
        let ranks = Ranks::of(&each_a, &each_b);
        let worse = if measure.more_is_worse() {
            ranks.higher
        } else {
            ranks.lower
        };
        // Whichever batches are A's, it would say nothing.
        let same = each_a
            .iter()
            .chain(&each_b)
            .all(|value| Some(value) == each_a.first());
        let row = Row {
            measure,
            a: of_a,
            b: of_b,
            change: change(of_a, of_b),
            interval: interval(changes, settings),
            superiority: ranks.superiority,
            p_value: ranks.either,
            p_worse: deciding.contains(&measure).then_some(worse),
            worse: false,
        };
        (row, same)
    });
    let (mut rows, same): (Vec<Row>, Vec<bool>) = rows.unzip();
    let mut asked: Vec<&mut f64> = rows
        .iter_mut()
        .zip(same)
        .filter_map(|(row, same)| row.p_worse.as_mut().filter(|_| !same))
        .collect();
    correct(&mut asked);
    for row in &mut rows {
        row.worse = is_worse(row, settings);
    }
    rows
}

/// Corrects the p-values of several tests for their number (Holm 1979): the smallest is multiplied by how many there
/// are, the next by one less, and none becomes smaller than one before it.
fn correct(p_values: &mut [&mut f64]) {
    p_values.sort_unstable_by(|a, b| a.total_cmp(b));
    let (count, mut least) = (p_values.len(), 0.0);
    for (position, p_value) in p_values.iter_mut().enumerate() {
        least = f64::max(least, (**p_value * (count - position) as f64).min(1.0));
        **p_value = least;
    }
}

fn drawn<'v>(values: &'v [u64], batches: &[Placed], rng: &mut Rng) -> Sum<'v> {
    let count = batches.len() as u64;
    let chosen: Vec<usize> = (0..count).map(|_| below(rng, count) as usize).collect();
    Sum::of(values, chosen.into_iter().map(|number| &batches[number]))
}

fn change(a: f64, b: f64) -> Option<f64> {
    if a == b {
        return Some(0.0);
    }
    (a != 0.0).then(|| (b - a) / a)
}

/// Between which of the drawn values the middle ones lie; none if too many of the draws had none.
fn interval(mut changes: Vec<f64>, settings: &Settings) -> Option<(f64, f64)> {
    if changes.len() < (settings.draws / 2).max(1) as usize {
        return None;
    }
    changes.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - settings.confidence) / 2.0;
    let at = |share: f64| changes[((changes.len() - 1) as f64 * share).round() as usize];
    Some((at(tail), at(1.0 - tail)))
}

fn is_worse(row: &Row, settings: &Settings) -> bool {
    let sign = if row.measure.more_is_worse() { 1.0 } else { -1.0 };
    let certain = row
        .p_worse
        .is_some_and(|p_worse| p_worse < 1.0 - settings.confidence);
    match (row.change, row.interval) {
        (Some(change), Some((low, high))) => {
            let least = (sign * low).min(sign * high);
            certain && sign * change > settings.worse_max && least > 0.0
        }
        // Nothing of it in A and some in B: no share of nothing is allowed.
        (None, _) => certain && sign > 0.0 && row.b > 0.0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::normal;

    /// Batches of a second with times around `ms`, of which a share by batch differs.
    fn side(seed: u64, count: usize, ms: f64, files: u64) -> Vec<Batch> {
        let mut rng = Seed(seed).rng();
        (0..count)
            .map(|_| {
                let level = ms * (1.0 + 0.05 * normal(&mut rng));
                batch(&mut rng, level, 0.2, files)
            })
            .collect()
    }

    /// A batch of a second with times around `ms`, by hundredths of a millisecond.
    fn batch(rng: &mut Rng, ms: f64, spread: f64, files: u64) -> Batch {
        let mut time = || ms * (1.0 + spread * normal(rng).abs());
        Batch {
            seconds: 1.0,
            files,
            bytes: files * 1000,
            errors: 0,
            response: Sparse::counted(
                (0..files)
                    .map(|_| 10_000 * (time() * 100.0).max(1.0) as u64)
                    .collect(),
            ),
        }
    }

    /// How often in so many comparisons of what is the same something is called worse, with nothing allowed. Levels of runs
    /// differ by a tenth, rates too; batches are so many runs on each side, or pieces of one run each, that share its level.
    fn false_alarms(unit: Unit, trials: u64) -> usize {
        let settings = Settings {
            draws: 60,
            worse_max: 0.0,
            ..Settings::DEFAULT
        };
        let count = if unit == Unit::Run { RUNS_MIN } else { 12 };
        let one = |seed: u64| -> Vec<Batch> {
            let mut rng = Seed(seed).rng();
            let mut level = 1.0 + 0.1 * normal(&mut rng);
            (0..count)
                .map(|_| {
                    if unit == Unit::Run {
                        level = 1.0 + 0.1 * normal(&mut rng);
                    }
                    let files = 12 + (4.0 * normal(&mut rng).abs()) as u64;
                    let errors = u64::from(normal(&mut rng) > 1.0);
                    Batch {
                        errors,
                        ..batch(&mut rng, 10.0 * level, 0.05, files)
                    }
                })
                .collect()
        };
        (0..trials)
            .filter(|trial| {
                let (a, b) = (one(2 * trial + 1000), one(2 * trial + 1001));
                let rows = compare(&a, &b, &Measure::ALL, &settings);
                rows.iter().any(|row| row.worse)
            })
            .count()
    }

    fn worse(a: &[Batch], b: &[Batch]) -> Vec<Measure> {
        let rows = compare(
            a,
            b,
            &Measure::ALL,
            &Settings {
                draws: 400,
                ..Settings::DEFAULT
            },
        );
        rows.iter()
            .filter(|row| row.worse)
            .map(|row| row.measure)
            .collect()
    }

    #[test]
    fn what_is_slower_is_found_and_what_is_not_is_not() {
        let a = side(1, 30, 10.0, 50);
        assert_eq!(worse(&a, &side(2, 30, 10.0, 50)), []);
        let slow = side(3, 30, 12.0, 50);
        let times = [Measure::MeanMs, Measure::P50Ms, Measure::P90Ms, Measure::P99Ms];
        assert_eq!(worse(&a, &slow), times);
        assert_eq!(worse(&slow, &a), [], "better is not worse");
        assert_eq!(
            worse(&a, &side(4, 30, 10.0, 40)),
            [Measure::FilesPerS, Measure::BytesPerS]
        );
    }

    #[test]
    fn a_difference_within_what_is_allowed_is_not_worse() {
        let (a, b) = (side(1, 60, 10.0, 50), side(2, 60, 10.35, 50));
        assert_eq!(worse(&a, &b), []);
        let strict = Settings {
            worse_max: 0.0,
            draws: 400,
            ..Settings::DEFAULT
        };
        let rows = compare(&a, &b, &Measure::ALL, &strict);
        assert!(
            rows.iter().any(|row| row.worse && row.measure == Measure::P50Ms),
            "{rows:?}"
        );
    }

    /// Nineteen in twenty intervals hold the truth, and one rank test in twenty is wrong.
    #[test]
    fn intervals_and_rank_tests_keep_their_promises() {
        let (mut holding, mut wrong) = (0, 0);
        let trials = 60;
        for seed in 0..trials {
            let (a, b) = (side(2 * seed + 10, 20, 10.0, 8), side(2 * seed + 11, 20, 10.0, 8));
            let settings = Settings {
                draws: 200,
                ..Settings::DEFAULT
            };
            let rows = compare(&a, &b, &Measure::ALL, &settings);
            let mean = rows
                .iter()
                .find(|row| row.measure == Measure::MeanMs)
                .expect("a row");
            let (low, high) = mean.interval.expect("an interval");
            holding += u32::from(low <= 0.0 && high >= 0.0);
            wrong += u32::from(mean.p_value < 0.05);
        }
        // Within four standard deviations of 57 and 3; a percentile bootstrap of twenty is a little short.
        assert!((50..=60).contains(&holding), "{holding} of {trials}");
        assert!(wrong <= 9, "{wrong} of {trials}");
    }

    /// Seven measures together raise a false alarm in one comparison of twenty at the most, between runs; between pieces of two runs
    /// they raise one far more often, which is why pieces decide nothing unless somebody says so.
    #[test]
    fn the_same_is_seldom_called_worse() {
        let trials = 300;
        let alarms = false_alarms(Unit::Run, trials);
        // Four standard deviations above 15.
        assert!(alarms <= 30, "{alarms} of {trials}");
        let trials = 60;
        let alarms = false_alarms(Unit::Piece, trials);
        assert!(alarms > 12, "{alarms} of {trials}");
    }

    /// Five runs on each side are enough for a difference that all of them have.
    #[test]
    fn a_difference_between_few_runs_is_found() {
        let (a, b) = (side(1, RUNS_MIN, 10.0, 50), side(2, RUNS_MIN, 15.0, 40));
        let all = [
            Measure::FilesPerS,
            Measure::BytesPerS,
            Measure::MeanMs,
            Measure::P50Ms,
            Measure::P90Ms,
            Measure::P99Ms,
        ];
        assert_eq!(worse(&a, &b), all);
        let rows = compare(&a, &b, &[Measure::P50Ms], &Settings::DEFAULT);
        let deciding: Vec<Measure> = rows
            .iter()
            .filter(|row| row.worse)
            .map(|row| row.measure)
            .collect();
        assert_eq!(deciding, [Measure::P50Ms]);
        assert!(
            rows.iter()
                .all(|row| row.p_worse.is_some() == (row.measure == Measure::P50Ms))
        );
    }

    /// By hand: 0.01 x 4, then 0.02 x 3, 0.03 x 2 which may not be less than that, 0.5.
    #[test]
    fn several_tests_are_corrected_together() {
        let mut p_values = [0.5, 0.02, 0.01, 0.03];
        let mut all: Vec<&mut f64> = p_values.iter_mut().collect();
        correct(&mut all);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let wanted = [0.5, 0.06, 0.04, 0.06];
        assert!(
            p_values.iter().zip(wanted).all(|(&a, b)| near(a, b)),
            "{p_values:?}"
        );
        correct(&mut []);
    }

    #[test]
    fn the_same_seed_gives_the_same_intervals() {
        let (a, b) = (side(1, 10, 10.0, 20), side(2, 10, 11.0, 20));
        let settings = Settings {
            draws: 100,
            ..Settings::DEFAULT
        };
        let compared = |settings| compare(&a, &b, &Measure::ALL, settings);
        assert_eq!(compared(&settings), compared(&settings));
        let other = Settings {
            seed: Seed(9),
            ..settings
        };
        assert_ne!(compared(&settings), compared(&other));
    }

    #[test]
    fn errors_where_there_were_none_are_worse() {
        let a = side(1, 20, 10.0, 50);
        let b: Vec<Batch> = a
            .iter()
            .cloned()
            .map(|batch| Batch { errors: 1, ..batch })
            .collect();
        assert_eq!(worse(&a, &b), [Measure::ErrorsPerFile]);
    }
}
