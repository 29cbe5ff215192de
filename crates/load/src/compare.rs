//! Compares two loads: the change of each measure, its confidence, and whether it is worse.
//!
//! The bootstrap resamples and the tests rank *batches*: whole runs if both sides have enough, otherwise pieces of a
//! run, at most sixty. Times within a second depend on each other (a pause delays all of them), so treating them as
//! independent would make every difference look certain. An interval over pieces of one run does not show how runs
//! differ, and two runs of one server differ by more than their pieces do; [`Unit`] tells which batches were used.
//!
//! Seven tests at 5% each give seven chances of an accidental "worse". The rank tests of all deciding measures are
//! therefore corrected together by the step-down method of Holm (1979). A measure that is equal in every batch is not
//! tested.
//!
//! Times include every file, also those completed after the measured time; otherwise a server that stalls would be
//! judged by the files it did not stall. For whole runs they are the histogram of the result; of pieces, the last
//! contains the later files. A failed file counts as at least the longest timeout and the longest time of all runs,
//! because a server that fails its slow requests is not fast. Requests that never completed are excluded.
//!
//! The interval is a percentile bootstrap (Efron 1979) of the relative change with the tails of Student's t for the
//! smaller side (the expanded percentile interval of Hesterberg 2014, arXiv 1411.5279), because plain percentiles of
//! five runs contain the true value far less often than they claim. The rank test is that of Mann and Whitney (1947),
//! exact for few batches. The probability that a batch of B is above one of A is the effect size of Vargha and
//! Delaney (2000). Does not know where results come from.

use crate::chance::{Purpose, below, stream};
use crate::run::Run;
use crate::times::Sparse;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use std::collections::BTreeMap;
use units::{Duration, Ranks, Rng, Seed};

/// Fewest runs on each side for whole runs to be the batches.
pub const RUNS_MIN: usize = 5;
/// Largest number of pieces of one run.
const PIECES_MAX: usize = 60;
/// Fewest batches on each side for a comparison.
pub const BATCHES_MIN: usize = 4;

/// Kind of batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A run: intervals show how much runs differ.
    Run,
    /// A piece of a run: intervals do not show how much runs differ.
    Piece,
}

/// Figures of one run or of a piece of one.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Time over which files and bytes were counted, in seconds.
    seconds: f64,
    files: u64,
    bytes: u64,
    errors: u64,
    /// Response times of all completed files, within those seconds or after them.
    response: Sparse,
    /// Number of failed files.
    failed: u64,
    /// Minimum time of each failed file.
    timeout: Duration,
}

/// A compared measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Files per second.
    FilesPerS,
    /// Content bytes per second.
    BytesPerS,
    /// Errors per file.
    ErrorsPerFile,
    /// Mean response time in milliseconds.
    MeanMs,
    /// Median response time in milliseconds.
    P50Ms,
    /// 90th percentile of response times in milliseconds.
    P90Ms,
    /// 99th percentile of response times in milliseconds.
    P99Ms,
}

impl Measure {
    /// All measures.
    pub const ALL: [Measure; 7] = [
        Measure::FilesPerS,
        Measure::BytesPerS,
        Measure::ErrorsPerFile,
        Measure::MeanMs,
        Measure::P50Ms,
        Measure::P90Ms,
        Measure::P99Ms,
    ];

    /// Name in flags and results.
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

    /// Whether a higher value is worse.
    pub fn more_is_worse(self) -> bool {
        !matches!(self, Measure::FilesPerS | Measure::BytesPerS)
    }

    /// Whether it is a time; a batch may have none.
    fn is_of_times(self) -> bool {
        match self {
            Measure::FilesPerS | Measure::BytesPerS | Measure::ErrorsPerFile => false,
            Measure::MeanMs | Measure::P50Ms | Measure::P90Ms | Measure::P99Ms => true,
        }
    }

    fn of(self, sum: &Sum) -> f64 {
        let over = |above: f64, below: f64| if below > 0.0 { above / below } else { 0.0 };
        match self {
            Measure::FilesPerS => over(sum.files, sum.seconds),
            Measure::BytesPerS => over(sum.bytes, sum.seconds),
            Measure::ErrorsPerFile => over(sum.errors, (sum.times - sum.failed).max(1.0)),
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
            format!("`{text}` is not a measure: choose {}", names.join(", "))
        })
    }
}

/// Settings of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Seed of the bootstrap.
    pub seed: Seed,
    /// Number of bootstrap resamples.
    pub draws: u32,
    /// Confidence of intervals and rank tests, such as 0.95.
    pub confidence: f64,
    /// Largest acceptable worsening of B, as a share.
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

/// Comparison of one measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The measure.
    pub measure: Measure,
    /// Value over all batches of A.
    pub a: f64,
    /// Value over all batches of B.
    pub b: f64,
    /// Relative change (B - A) / A; `None` if A is 0 and B is not.
    pub change: Option<f64>,
    /// Confidence interval of the change.
    pub interval: Option<(f64, f64)>,
    /// Probability that a batch of B is above one of A; ties count half.
    pub superiority: f64,
    /// Two-sided p-value of the rank test.
    pub p_value: f64,
    /// One-sided p-value for "B is worse", corrected for the number of deciding measures; `None` for other measures.
    pub p_worse: Option<f64>,
    /// Smallest possible `p_worse` with this number of batches and deciding measures; `None` for measures that do not
    /// decide or are equal in every batch.
    pub p_least: Option<f64>,
    /// Whether the measure decides and B is worse by more than allowed, confirmed by the interval and the corrected
    /// rank test.
    pub worse: bool,
}

impl Batch {
    /// A whole run, with the figures of its result.
    fn of_run(run: &Run) -> Batch {
        let record = &run.record;
        Batch {
            seconds: span(run).max(1e-9),
            files: record.files_in_time,
            bytes: record.bytes_in_time,
            errors: record.errors(),
            response: record.response.sparse(),
            failed: record.files_failed,
            timeout: run.timeout(),
        }
    }

    /// Pieces of equal length. The last one also has the remaining seconds and the files that completed later.
    fn pieces_of(run: &Run) -> impl Iterator<Item = Batch> {
        // Partial seconds would show lower rates. A second without events counts too.
        let whole = span(run).floor().max(1.0) as usize;
        let each = whole.div_ceil(PIECES_MAX);
        let count = whole / each;
        (0..count).map(move |number| {
            let from = number * each;
            let last = number + 1 == count;
            let until = if last { whole } else { from + each };
            let mut batch = Batch {
                seconds: (until - from) as f64,
                timeout: run.timeout(),
                ..Batch::default()
            };
            for (at, second) in run.record.seconds.iter().enumerate().skip(from) {
                if at < until {
                    batch.files += second.files;
                    batch.bytes += second.bytes;
                } else if !last {
                    break;
                }
                batch.errors += second.errors;
                batch.failed += second.failed;
                batch.response.merge(&second.response);
            }
            batch
        })
    }
}

/// Seconds that a run's rates refer to.
fn span(run: &Run) -> f64 {
    run.stopped_after_s.unwrap_or(run.asked_s).min(run.asked_s)
}

/// Batches of runs.
pub fn batches(runs: &[Run], unit: Unit) -> Vec<Batch> {
    match unit {
        Unit::Run => runs.iter().map(Batch::of_run).collect(),
        Unit::Piece => runs.iter().flat_map(Batch::pieces_of).collect(),
    }
}

/// Kind of batch for `a` and `b` runs on the two sides.
pub fn unit(a: usize, b: usize) -> Unit {
    if a.min(b) >= RUNS_MIN {
        Unit::Run
    } else {
        Unit::Piece
    }
}

/// Sum of batches. Times are counts by index into a sorted list of all values.
struct Sum<'v> {
    seconds: f64,
    files: f64,
    bytes: f64,
    errors: f64,
    /// Number of times: completed plus failed files.
    times: f64,
    failed: f64,
    total_ms: f64,
    values: &'v [u64],
    counts: Vec<u64>,
}

/// A batch whose times are indices into that list.
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
            failed: 0.0,
            total_ms: 0.0,
            values,
            counts: vec![0; values.len()],
        };
        for placed in batches {
            sum.seconds += placed.batch.seconds;
            sum.files += placed.batch.files as f64;
            sum.bytes += placed.batch.bytes as f64;
            sum.errors += placed.batch.errors as f64;
            sum.failed += placed.batch.failed as f64;
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

/// Compares A and B: one row per measure in the order of [`Measure::ALL`]. The measures of `deciding` are corrected
/// together.
pub fn compare(a: &[Batch], b: &[Batch], deciding: &[Measure], settings: &Settings) -> Vec<Row> {
    let mut places: BTreeMap<u64, u32> = BTreeMap::new();
    for batch in a.iter().chain(b) {
        places.extend(batch.response.pairs().iter().map(|&(value, _)| (value, 0)));
    }
    // The true times of failed files are unknown: at least as long as all others.
    let timeout = a
        .iter()
        .chain(b)
        .map(|batch| batch.timeout.as_nanos() as u64)
        .max();
    let failed = timeout.max(places.keys().last().copied()).unwrap_or_default();
    if a.iter().chain(b).any(|batch| batch.failed > 0) {
        places.insert(failed, 0);
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
            .chain((batch.failed > 0).then(|| (places[&failed], batch.failed)))
            .collect(),
        total_ms: (batch.response.total_ns() + failed as f64 * batch.failed as f64) / 1e6,
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
        // A batch without completions is not a batch of short times.
        of.iter()
            .filter(|batch| !measure.is_of_times() || !batch.places.is_empty())
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
        // Equal batches cannot show a difference.
        let same = each_a
            .iter()
            .chain(&each_b)
            .all(|value| Some(value) == each_a.first());
        Row {
            measure,
            a: of_a,
            b: of_b,
            change: change(of_a, of_b),
            interval: interval(changes, a.len().min(b.len()), settings),
            superiority: ranks.superiority,
            p_value: ranks.either,
            p_worse: deciding.contains(&measure).then_some(worse),
            p_least: (deciding.contains(&measure) && !same).then(|| least(each_a.len(), each_b.len())),
            worse: false,
        }
    });
    let mut rows: Vec<Row> = rows.collect();
    let mut asked: Vec<&mut f64> = rows
        .iter_mut()
        .filter(|row| row.p_least.is_some())
        .filter_map(|row| row.p_worse.as_mut())
        .collect();
    correct(&mut asked);
    let count = asked.len() as f64;
    for row in &mut rows {
        // Holm's first multiplier, for the smallest p-value.
        row.p_least = row.p_least.map(|p_least| (p_least * count).min(1.0));
        row.worse = is_worse(row, settings);
    }
    rows
}

/// Smallest one-sided p-value of a rank test: the probability that all of B rank above all of A.
fn least(a: usize, b: usize) -> f64 {
    (1..=b).map(|n| n as f64 / (a + n) as f64).product()
}

/// Whether no deciding measure could become significant: too few batches, or too many measures.
pub fn is_powerless(rows: &[Row], settings: &Settings) -> bool {
    let mut asked = rows.iter().filter_map(|row| row.p_least).peekable();
    asked.peek().is_some() && asked.all(|p_least| p_least >= 1.0 - settings.confidence)
}

/// Step-down correction for several tests (Holm 1979): the smallest p-value is multiplied by the number of tests, the
/// next by one less, and each is at least as large as the one before.
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

/// Confidence interval from the drawn changes, for `count` batches on the smaller side; `None` if too many draws have
/// no change.
fn interval(mut changes: Vec<f64>, count: usize, settings: &Settings) -> Option<(f64, f64)> {
    if changes.len() < (settings.draws / 2).max(1) as usize {
        return None;
    }
    changes.sort_unstable_by(f64::total_cmp);
    let tail = expanded((1.0 - settings.confidence) / 2.0, count);
    let at = |share: f64| changes[((changes.len() - 1) as f64 * share).round() as usize];
    Some((at(tail), at(1.0 - tail)))
}

/// Share of draws to cut off at each end so that about `tail` of the true values lie beyond. Percentiles of draws from
/// `count` values are too narrow by sqrt((n - 1) / n), and follow a normal distribution instead of Student's t.
fn expanded(tail: f64, count: usize) -> f64 {
    let n = count as f64;
    match (StudentsT::new(0.0, 1.0, n - 1.0), Normal::new(0.0, 1.0)) {
        (Ok(student), Ok(normal)) => normal.cdf(student.inverse_cdf(tail) * (n / (n - 1.0)).sqrt()),
        // Draws from a single value are all equal; nothing is cut off.
        _ => 0.0,
    }
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
        // A has none of it and B some: no share of zero is acceptable.
        (None, _) => certain && sign > 0.0 && row.b > 0.0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::normal;
    use crate::record::Trouble;
    use units::Instant;

    /// Batches of one second with times around `ms`; their levels differ between batches.
    fn side(seed: u64, count: usize, ms: f64, files: u64) -> Vec<Batch> {
        let mut rng = Seed(seed).rng();
        (0..count)
            .map(|_| {
                let level = ms * (1.0 + 0.05 * normal(&mut rng));
                batch(&mut rng, level, 0.2, files)
            })
            .collect()
    }

    /// A batch of one second with times around `ms`, in hundredths of a millisecond.
    fn batch(rng: &mut Rng, ms: f64, spread: f64, files: u64) -> Batch {
        let mut time = || ms * (1.0 + spread * normal(rng).abs());
        Batch {
            seconds: 1.0,
            files,
            bytes: files * 1000,
            response: Sparse::counted(
                (0..files)
                    .map(|_| 10_000 * (time() * 100.0).max(1.0) as u64)
                    .collect(),
            ),
            ..Batch::default()
        }
    }

    /// Number of comparisons of equal sides in which a measure is called worse, with no worsening allowed. The levels
    /// of runs and their rates differ by a tenth. Batches are runs, or pieces of one run per side that share its level.
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

    /// Nineteen of twenty intervals contain the true value, and one rank test in twenty is wrong.
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
        // Within four standard deviations of 57 and 3; a percentile bootstrap of twenty is slightly too narrow.
        assert!((50..=60).contains(&holding), "{holding} of {trials}");
        assert!(wrong <= 9, "{wrong} of {trials}");
    }

    /// Seven measures together raise a false alarm in at most one comparison of twenty between runs. Between pieces of
    /// two runs they raise far more, so pieces decide only on request.
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

    /// Five runs per side are enough to find a difference that all of them show.
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

    /// Computed by hand: 0.01 x 4, 0.02 x 3, then 0.03 x 2 raised to the value before it, and 0.5.
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

    /// Coverage of intervals, with levels of runs that differ by a tenth or follow a log-normal distribution.
    #[test]
    fn intervals_of_few_runs_hold_the_truth_as_often_as_they_say() {
        let settings = Settings {
            draws: 1000,
            ..Settings::DEFAULT
        };
        for (count, skewed) in [(5, false), (6, false), (5, true), (8, true)] {
            let trials = 300;
            let one = |seed: u64| -> Vec<Batch> {
                let mut rng = Seed(seed).rng();
                (0..count)
                    .map(|_| {
                        let z = normal(&mut rng);
                        let level = if skewed { libm::exp(0.4 * z) } else { 1.0 + 0.1 * z };
                        Batch {
                            seconds: 1.0,
                            response: Sparse::counted(vec![(level * 1e7) as u64]),
                            ..Batch::default()
                        }
                    })
                    .collect()
            };
            let holding = (0..trials)
                .filter(|trial| {
                    let (a, b) = (one(2 * trial + 5000), one(2 * trial + 5001));
                    let rows = compare(&a, &b, &[Measure::MeanMs], &settings);
                    let mean = rows.iter().find(|row| row.measure == Measure::MeanMs);
                    let interval = mean.and_then(|row| row.interval);
                    let (low, high) = interval.expect("an interval");
                    low <= 0.0 && high >= 0.0
                })
                .count();
            println!("{count} runs, skewed {skewed}: {holding} of {trials}");
            // 285 expected; 274 is three standard deviations below.
            assert!(
                holding >= 274,
                "{count} runs, skewed {skewed}: {holding} of {trials}"
            );
        }
    }

    /// For five: t at 0.025 with 4 degrees of freedom is -2.776, times sqrt(5/4) is -3.104, below which lies 0.00095 of
    /// a normal distribution.
    #[test]
    fn few_batches_widen_the_tails() {
        assert!(
            (expanded(0.025, 5) - 0.000_95).abs() < 1e-5,
            "{}",
            expanded(0.025, 5)
        );
        assert!((expanded(0.025, 100_000) - 0.025).abs() < 1e-4);
        assert!(expanded(0.025, 1) < 1e-9);
    }

    /// Four of eight can be chosen in 70 ways: at least 0.1 with seven measures, at least 0.043 with three.
    #[test]
    fn what_can_never_be_called_worse_is_known() {
        assert!((least(4, 4) - 1.0 / 70.0).abs() < 1e-12);
        assert!((least(5, 5) - 1.0 / 252.0).abs() < 1e-12);
        let settings = Settings {
            draws: 100,
            ..Settings::DEFAULT
        };
        let powerless = |count: usize, deciding: &[Measure], settings: &Settings| {
            let (mut a, b) = (side(1, count, 10.0, 20), side(2, count, 90.0, 10));
            a[0].errors = 1;
            let rows = compare(&a, &b, deciding, settings);
            let powerless = is_powerless(&rows, settings);
            assert!(!powerless || rows.iter().all(|row| !row.worse), "{rows:?}");
            powerless
        };
        assert!(powerless(4, &Measure::ALL, &settings));
        assert!(!powerless(4, &Measure::ALL[4..], &settings));
        assert!(!powerless(5, &Measure::ALL, &settings));
        let surer = Settings {
            confidence: 0.99,
            ..settings
        };
        assert!(powerless(5, &Measure::ALL, &surer));
        // A measure equal in every batch needs no correction and adds no test.
        let same = vec![Batch::default(); 4];
        assert!(!is_powerless(
            &compare(&same, &same, &Measure::ALL, &settings),
            &settings
        ));
    }

    /// A server that responds in ten milliseconds and then stalls for the last two seconds; the pending responses come
    /// after the measured time.
    fn stalled() -> Run {
        let mut run = crate::run::tests::run(0, 1, 0);
        (run.asked_s, run.start_at) = (4.0, None);
        let record = &mut run.record;
        let ms = |ms| Duration::from_millis(ms);
        for number in 0..113 {
            let quick = number < 100;
            let response = if quick { ms(10) } else { ms(2000) };
            let at = Instant::ZERO
                + if quick {
                    ms(20 * number)
                } else {
                    ms(2400 + 20 * number)
                };
            record.respond(response, at, Instant::ZERO);
            record.second(at, Instant::ZERO).files += 1;
            record.files += 1;
            record.files_in_time += u64::from(quick);
        }
        record.trouble(Trouble::Lost, Instant::ZERO + ms(4700), Instant::ZERO);
        record.settle();
        run
    }

    #[test]
    fn what_came_late_is_compared_as_results_show_it() {
        let run = stalled();
        let shown = run.record.response.summary();
        assert!(shown.p99 > Some(1990.0) && shown.count == 113, "{shown:?}");
        let settings = Settings {
            draws: 100,
            ..Settings::DEFAULT
        };
        for unit in [Unit::Run, Unit::Piece] {
            let batches = batches(std::slice::from_ref(&run), unit);
            assert_eq!(batches.len(), if unit == Unit::Run { 1 } else { 4 });
            let rows = compare(&batches, &batches, &Measure::ALL, &settings);
            let a = |measure| rows.iter().find(|row| row.measure == measure).expect("a row").a;
            let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * b, "{unit:?}: {a} {b}");
            near(a(Measure::MeanMs), shown.mean);
            near(a(Measure::P50Ms), shown.p50.expect("a time"));
            near(a(Measure::P90Ms), shown.p90.expect("a time"));
            near(a(Measure::P99Ms), shown.p99.expect("a time"));
            near(a(Measure::FilesPerS), 25.0);
            near(a(Measure::ErrorsPerFile), 1.0 / 113.0);
        }
    }

    #[test]
    fn seconds_without_an_answer_are_seconds_and_no_short_times() {
        let (quick, mut silent) = (stalled(), stalled());
        silent.asked_s = 10.0;
        silent.record.seconds.truncate(2);
        let (a, b) = (batches(&[quick], Unit::Piece), batches(&[silent], Unit::Piece));
        assert_eq!(b.len(), 10);
        let rows = compare(&a, &b, &Measure::ALL, &Settings::DEFAULT);
        let of = |measure| rows.iter().find(|row| row.measure == measure).expect("a row");
        assert!((of(Measure::FilesPerS).b - 10.0).abs() < 1e-9);
        // Two pieces of B have times, and three of A.
        let p50 = of(Measure::P50Ms).p_least.expect("it decides");
        let asked = rows.iter().filter(|row| row.p_least.is_some()).count() as f64;
        assert!((p50 - (asked * least(3, 2)).min(1.0)).abs() < 1e-9, "{p50}");
    }

    /// A server that fails two requests in a hundred after ten seconds is slower than one that answers them late.
    #[test]
    fn what_failed_counts_as_at_least_its_timeout() {
        let a = side(1, 20, 10.0, 50);
        let failing = |a: &[Batch]| -> Vec<Batch> {
            let each = a.iter().cloned();
            each.map(|batch| Batch {
                failed: 1,
                timeout: Duration::from_secs(10),
                ..batch
            })
            .collect()
        };
        let b = failing(&a);
        let rows = compare(&a, &b, &Measure::ALL, &Settings::DEFAULT);
        let of = |measure| rows.iter().find(|row| row.measure == measure).expect("a row");
        assert!((of(Measure::P99Ms).b - 10_000.0).abs() < 1e-6, "{rows:?}");
        assert!(of(Measure::MeanMs).b > 200.0, "{rows:?}");
        assert_eq!(of(Measure::FilesPerS).change, Some(0.0));
        assert_eq!(worse(&a, &b), [Measure::MeanMs, Measure::P99Ms]);
        assert_eq!(worse(&b, &a), []);
        // A piece in which all requests failed is one of long times.
        let dead = vec![
            Batch {
                files: 0,
                response: Sparse::default(),
                seconds: 1.0,
                ..b[0].clone()
            };
            20
        ];
        assert!(worse(&a, &dead).contains(&Measure::P50Ms));
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
