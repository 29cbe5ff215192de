//! Histograms of times, their summaries, and a serialized form whose sums are exact.
//!
//! Serialized as HdrHistogram's compressed form (V2, deflate, base64), which its tools in other languages read. Does
//! not know what the times measure.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use std::io::Cursor;
use std::sync::LazyLock;
use units::Duration;

/// Largest recordable time; longer ones count as this.
pub(crate) const LONGEST: Duration = Duration::from_secs(3600);
/// Limit on corrected times added one by one per histogram bucket; beyond it they are added per bucket.
const STEPS_MAX: u64 = 4096;
/// Limit on the times that [`Recent`] keeps one by one. Sorting so many costs about as much as reading a histogram.
const FEW_MAX: usize = 2048;
/// Limit on the length of a serialized histogram: more than one whose counts all differ and are large.
const WRITTEN_MAX: usize = 1 << 20;

/// A histogram of times with three significant digits, up to one hour. It has 264 KiB, all of them written when it is
/// made, and a record has many that stay empty. So it is made with the first time, or by [`Times::prepare`].
#[derive(Clone, Debug, Default)]
pub struct Times(Option<Box<Histogram<u64>>>);

/// The histogram of no times.
static EMPTY: LazyLock<Histogram<u64>> = LazyLock::new(empty);

fn empty() -> Histogram<u64> {
    let made = Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, 3);
    made.expect("the bounds are in order and three digits are allowed")
}

impl PartialEq for Times {
    fn eq(&self, other: &Times) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            _ => self.histogram() == other.histogram(),
        }
    }
}

/// Summary of a histogram in milliseconds. A quantile that falls among requests without a time is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of recorded times.
    pub count: u64,
    /// Requests without a time because they failed or never completed; quantiles rank them above all times.
    pub failed: u64,
    /// Mean; a failed request counts as at least its timeout.
    pub mean: f64,
    /// The median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
}

/// Requests without a time in a histogram because they failed or never completed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lost {
    /// Number of requests.
    pub count: u64,
    /// Number of them with a known minimum time; these count in the mean.
    pub timed: u64,
    /// Sum of the known minimum times, in nanoseconds.
    pub least_ns: f64,
}

impl Lost {
    /// `count` requests without a known minimum time.
    pub fn unknown(count: u64) -> Lost {
        Lost {
            count,
            ..Lost::default()
        }
    }
}

impl Times {
    /// Records a time.
    pub fn add(&mut self, time: Duration) {
        let time = time.min(LONGEST).as_nanos() as u64;
        // Saturates at the histogram's bounds.
        self.made().saturating_record(time);
    }

    /// Records a time `count` times.
    pub fn add_n(&mut self, time: Duration, count: u64) {
        let time = time.min(LONGEST).as_nanos() as u64;
        self.made().saturating_record_n(time, count);
    }

    /// Makes the histogram. That takes about 0.2 ms, because the system has to provide its memory.
    pub(crate) fn prepare(&mut self) {
        LazyLock::force(&EMPTY);
        self.made();
    }

    /// The histogram to write to.
    #[inline]
    fn made(&mut self) -> &mut Histogram<u64> {
        self.0.get_or_insert_with(|| Box::new(empty()))
    }

    /// Adds all times of another histogram.
    pub fn merge(&mut self, other: &Times) {
        match (&mut self.0, &other.0) {
            (_, None) => {}
            (None, Some(_)) => self.0.clone_from(&other.0),
            (Some(sum), Some(part)) => sum.add(&**part).expect("both have the same bounds"),
        }
    }

    /// Removes all times.
    pub fn clear(&mut self) {
        if let Some(made) = &mut self.0 {
            made.reset();
        }
    }

    /// Number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |made| made.len())
    }

    /// Whether no time was recorded.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Quantile of the recorded times: `share` is from 0 to 1.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.histogram().value_at_quantile(share))
    }

    /// Quantile of all requests, where `lost` of them took longer than any recorded time; `None` if it falls among
    /// those.
    pub fn quantile_with(&self, share: f64, lost: u64) -> Option<Duration> {
        if lost == 0 {
            return Some(self.quantile(share));
        }
        let rank = rank(share, self.count() + lost);
        let mut seen = 0;
        let mut steps = self.histogram().iter_recorded();
        steps.find_map(|step| {
            seen += step.count_at_value();
            (seen >= rank).then(|| Duration::from_nanos(step.value_iterated_to()))
        })
    }

    /// Summary without lost requests.
    pub fn summary(&self) -> Summary {
        self.summary_with(&Lost::default())
    }

    /// Summary including requests without a time.
    pub fn summary_with(&self, lost: &Lost) -> Summary {
        let at = |share| Some(self.quantile_with(share, lost.count)?.as_secs_f64() * 1e3);
        let all = self.count() + lost.timed;
        Summary {
            count: self.count(),
            failed: lost.count,
            mean: if lost.timed == 0 {
                self.histogram().mean() / 1e6
            } else {
                (self.total_ns() + lost.least_ns) / all as f64 / 1e6
            },
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: (lost.count == 0).then(|| self.histogram().max() as f64 / 1e6),
        }
    }

    /// Sum in nanoseconds, each time taken as the middle of its bucket.
    pub fn total_ns(&self) -> f64 {
        self.histogram().mean() * self.count() as f64
    }

    /// Sum in nanoseconds, with times shorter than `least` counted as `least`.
    pub fn total_of_at_least(&self, least: Duration) -> f64 {
        let least = least.as_nanos() as u64;
        let steps = self.histogram().iter_recorded();
        steps
            .map(|step| {
                let value = EMPTY.median_equivalent(step.value_iterated_to());
                value.max(least) as f64 * step.count_at_value() as f64
            })
            .sum()
    }

    /// Corrected for coordinated omission, as HdrHistogram and wrk do. A request that took longer than `interval` kept
    /// its client from sending one every `interval`. Each missing request is added with the time that was left when it
    /// was due.
    #[must_use]
    pub fn corrected(&self, interval: Duration) -> Times {
        let mut all = self.clone();
        let Some(recorded) = &self.0 else { return all };
        let sum = all.made();
        let interval = (interval.as_nanos() as u64).max(1);
        for step in recorded.iter_recorded() {
            // The middle of the bucket: the remainder of its upper end would be too long by more than the precision.
            let value = recorded.median_equivalent(step.value_iterated_to());
            let count = step.count_at_value();
            if value / interval <= STEPS_MAX {
                let mut left = value.saturating_sub(interval);
                while left >= interval {
                    sum.saturating_record_n(left, count);
                    left -= interval;
                }
                continue;
            }
            // So many that they reach every bucket: count per bucket. The number of n from 1 on with from <= value - n
            // * interval < next.
            let mut low = recorded.lowest_equivalent(interval);
            while low <= value {
                let next = recorded.next_non_equivalent(low);
                let most = (value - low.max(interval)) / interval;
                let missing = most - value.saturating_sub(next) / interval;
                if missing > 0 {
                    sum.saturating_record_n(low, missing.saturating_mul(count));
                }
                low = next;
            }
        }
        all
    }

    /// Only the buckets with counts.
    pub fn sparse(&self) -> Sparse {
        Sparse(
            self.histogram()
                .iter_recorded()
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect(),
        )
    }

    /// The underlying histogram, for HdrHistogram's own tools.
    pub fn histogram(&self) -> &Histogram<u64> {
        self.0.as_deref().unwrap_or(&EMPTY)
    }

    /// The serialized form.
    fn written(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(self.histogram(), &mut bytes)
            .expect("memory takes all that is written to it");
        BASE64_STANDARD.encode(bytes)
    }

    /// Parses the serialized form.
    fn read(text: &str) -> Result<Times, String> {
        if text.len() > WRITTEN_MAX {
            return Err(format!(
                "a histogram of {} characters; there may be {WRITTEN_MAX}",
                text.len()
            ));
        }
        let bytes = BASE64_STANDARD
            .decode(text)
            .map_err(|error| format!("no histogram: {error}"))?;
        let read: Histogram<u64> = Deserializer::new()
            .deserialize(&mut Cursor::new(bytes))
            .map_err(|error| format!("no histogram: {error}"))?;
        // Another program's bounds may differ; only the counts per time matter.
        let mut times = Times::default();
        if read.is_empty() {
            return Ok(times);
        }
        times
            .made()
            .add(&read)
            .map_err(|error| format!("a histogram of other times: {error}"))?;
        Ok(times)
    }
}

/// Rank, from 1, of the quantile `share` among `count` sorted values.
fn rank(share: f64, count: u64) -> u64 {
    ((share * count as f64).ceil() as u64).max(1)
}

/// Times of a short span, to be taken as [`Sparse`]. A histogram has a fixed length of 264 KiB, which costs more to read
/// and clear than a few times do to sort. So times are kept one by one until there are too many.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recent {
    /// Nanoseconds, unsorted.
    few: Vec<u64>,
    /// Earlier times.
    many: Times,
}

impl Recent {
    /// Makes the histogram for many times.
    pub(crate) fn prepare(&mut self) {
        self.many.prepare();
    }

    /// Records a time.
    #[inline]
    pub(crate) fn add(&mut self, time: Duration) {
        if self.few.len() == FEW_MAX {
            self.crowd();
        }
        self.few.push(time.min(LONGEST).as_nanos() as u64);
    }

    /// Takes all times and leaves none; `None` if there are none.
    pub(crate) fn take(&mut self) -> Option<Sparse> {
        if !self.many.is_empty() {
            self.crowd();
            let sparse = self.many.sparse();
            self.many.clear();
            return Some(sparse);
        }
        let mut buckets = core::mem::take(&mut self.few);
        for time in &mut buckets {
            *time = EMPTY.highest_equivalent(*time);
        }
        buckets.sort_unstable();
        let sparse = Sparse::of_sorted(&buckets);
        buckets.clear();
        self.few = buckets;
        (sparse.count() > 0).then_some(sparse)
    }

    /// Moves the times into the histogram.
    #[cold]
    fn crowd(&mut self) {
        let many = self.many.made();
        for time in self.few.drain(..) {
            many.saturating_record(time);
        }
    }
}

/// Serializes durations as whole nanoseconds.
pub(crate) mod nanoseconds {
    use super::{Deserialize, Duration};
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}

/// A histogram with few distinct times: nanoseconds and count, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sparse(Vec<(u64, u64)>);

impl Sparse {
    /// These exact times in nanoseconds.
    #[cfg(test)]
    pub(crate) fn counted(mut times: Vec<u64>) -> Sparse {
        times.sort_unstable();
        Sparse::of_sorted(&times)
    }

    fn of_sorted(times: &[u64]) -> Sparse {
        let each = times.chunk_by(|a, b| a == b);
        Sparse(each.map(|same| (same[0], same.len() as u64)).collect())
    }

    /// Adds all times of another histogram.
    pub fn merge(&mut self, other: &Sparse) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
            return;
        }
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable();
        self.0.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            kept.1 += if same { later.1 } else { 0 };
            same
        });
    }

    /// Number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|&(_, count)| count).sum()
    }

    /// Sum in nanoseconds, each time taken as the middle of its bucket, as in [`Times`].
    pub fn total_ns(&self) -> f64 {
        let each = self.0.iter();
        each.map(|&(value, count)| EMPTY.median_equivalent(value) as f64 * count as f64)
            .sum()
    }

    /// Quantile of all requests, where `lost` of them took longer than any recorded time; `None` if it falls among
    /// those.
    pub fn quantile_with(&self, share: f64, lost: u64) -> Option<Duration> {
        self.at(rank(share, self.count() + lost))
    }

    fn at(&self, rank: u64) -> Option<Duration> {
        let mut seen = 0;
        self.0.iter().find_map(|&(value, count)| {
            seen += count;
            (seen >= rank).then(|| Duration::from_nanos(value))
        })
    }

    /// The same counts as a full histogram.
    pub fn times(&self) -> Times {
        let mut times = Times::default();
        for &(value, count) in &self.0 {
            times.made().saturating_record_n(value, count);
        }
        times
    }

    /// Quantile of the recorded times; `None` without times.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        self.quantile_with(share, 0)
    }

    /// Each time in nanoseconds with its count, ascending.
    pub fn pairs(&self) -> &[(u64, u64)] {
        &self.0
    }
}

impl Serialize for Times {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.written())
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Times, D::Error> {
        let text = String::deserialize(from)?;
        Times::read(&text).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Sparse {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.0.is_empty() {
            return to.serialize_str("");
        }
        to.serialize_str(&self.times().written())
    }
}

impl<'de> Deserialize<'de> for Sparse {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Sparse, D::Error> {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Ok(Sparse::default());
        }
        let times = Times::read(&text).map_err(serde::de::Error::custom)?;
        Ok(times.sparse())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ms: impl IntoIterator<Item = u64>) -> Times {
        let mut times = Times::default();
        ms.into_iter().for_each(|ms| times.add(Duration::from_millis(ms)));
        times
    }

    #[test]
    fn quantiles_keep_three_digits_and_times_beyond_the_bounds_count() {
        let mut times = times(1..=1000);
        let median = times.quantile(0.5).as_secs_f64();
        assert!((median - 0.5).abs() < 0.001, "{median}");
        times.add(Duration::from_secs(1 << 40));
        times.add(Duration::ZERO);
        assert_eq!(times.count(), 1002);
        assert!(times.summary().max >= Some(3.59e6));
    }

    #[test]
    fn what_is_written_is_read() {
        for times in [
            times([]),
            times([1, 1, 30, 3_000_000]),
            times((0..5000).map(|n| n * n)),
        ] {
            let read = Times::read(&times.written()).expect("a histogram");
            assert_eq!(read, times);
            assert_eq!(read.summary(), times.summary());
            assert_eq!(times.sparse().times(), times);
        }
        for text in ["", "!", "AAAA", "HISTFAAAAAAAAAAA"] {
            assert!(Times::read(text).is_err(), "{text}");
        }
    }

    /// Ten requests due every 100 ms, one of which took a second: those with 900, 800, … 100 ms are missing.
    #[test]
    fn what_was_not_asked_is_added() {
        let asked = times([10; 9].into_iter().chain([1000]));
        let corrected = asked.corrected(Duration::from_millis(100));
        let wanted = times([10; 9].into_iter().chain((1..=10).map(|n| 100 * n)));
        assert_eq!(corrected.count(), 19);
        for share in [0.1, 0.5, 0.6, 0.9, 1.0] {
            let (a, b) = (corrected.quantile(share), wanted.quantile(share));
            let ratio = a.as_secs_f64() / b.as_secs_f64();
            assert!((ratio - 1.0).abs() < 0.002, "{share}: {a:?} {b:?}");
        }
        assert_eq!(asked.corrected(Duration::from_secs(1)), asked);
        // So many missing requests that they are counted per bucket: same number, spread evenly over the time.
        let long = times([1000]).corrected(Duration::from_micros(10));
        let count = long.count() as f64;
        assert!((count / 100_000.0 - 1.0).abs() < 0.002, "{count}");
        for share in [0.01, 0.25, 0.5, 0.99] {
            let at = long.quantile(share).as_secs_f64();
            assert!((at / share - 1.0).abs() < 0.01, "{share}: {at}");
        }
    }

    #[test]
    fn quantiles_beyond_the_share_of_those_that_have_a_time_are_not_known() {
        let ten = times(1..=990);
        let lost = Lost {
            count: 10,
            timed: 10,
            least_ns: 10.0 * 1e9,
        };
        let shown = ten.summary_with(&lost);
        assert_eq!((shown.count, shown.failed), (990, 10));
        assert_eq!((shown.p999, shown.max), (None, None));
        let near = |a: Option<f64>, b: f64| assert!((a.expect("known") / b - 1.0).abs() < 0.002, "{a:?} {b}");
        near(shown.p50, 500.0);
        near(shown.p99, 990.0);
        near(Some(shown.mean), (495.5 * 990.0 + 10.0 * 1000.0) / 1000.0);
        // One more lost request, and the p99 is one of them.
        assert_eq!(ten.summary_with(&Lost::unknown(11)).p99, None);
        assert_eq!(times([]).summary_with(&Lost::unknown(1)).p50, None);
        for (share, lost) in [(0.5, 0), (0.5, 3), (0.9, 1), (1.0, 1), (0.99, 0)] {
            let few = times([1, 2, 3, 3, 9]);
            assert_eq!(
                few.quantile_with(share, lost).filter(|_| lost > 0),
                few.sparse().quantile_with(share, lost).filter(|_| lost > 0),
                "{share} {lost}"
            );
        }
        let floor = times([1, 30]).total_of_at_least(Duration::from_millis(10));
        assert!((floor / 40e6 - 1.0).abs() < 0.002, "{floor}");
    }

    /// Whether times are kept one by one or in a histogram makes no difference, also at the limit.
    #[test]
    fn recent_times_are_those_of_a_histogram() {
        let mut recent = Recent::default();
        assert_eq!(recent.take(), None);
        for count in [1, FEW_MAX - 1, FEW_MAX, FEW_MAX + 1, 3 * FEW_MAX + 5, 2] {
            let mut all = Times::default();
            for n in 0..count as u64 {
                // From 0 to beyond the longest.
                let time = Duration::from_nanos(n.pow(4) * (n % 3)).max(Duration::from_nanos(n % 7));
                recent.add(time);
                all.add(time);
            }
            for time in [Duration::ZERO, LONGEST, Duration::MAX] {
                recent.add(time);
                all.add(time);
            }
            assert_eq!(recent.take(), Some(all.sparse()), "{count}");
            assert_eq!(recent.take(), None, "taken");
        }
    }

    #[test]
    fn sparse_times_add_up_and_have_quantiles() {
        let (mut a, b) = (times([5, 5, 9]).sparse(), times([1, 5, 40]).sparse());
        a.merge(&b);
        assert_eq!(a, times([5, 5, 9, 1, 5, 40]).sparse());
        assert_eq!(a.count(), 6);
        for share in [0.1, 0.5, 0.9, 1.0] {
            assert_eq!(a.quantile(share), Some(a.times().quantile(share)), "{share}");
        }
        assert_eq!(Sparse::default().quantile(0.5), None);
    }
}
