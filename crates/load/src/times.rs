//! Histograms of times, how they are shown, and how they are written down so that sums stay exact.
//!
//! Written as HdrHistogram's own compressed form (V2, deflated, base64), which its tools in other languages
//! read. Knows nothing of what the times are.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use measure::Duration;
use serde::{Deserialize, Serialize};
use std::io::Cursor;

/// The longest time that is told from a longer one.
const LONGEST: Duration = Duration::from_secs(3600);
/// Characters of a histogram's written form at the most: all its counts are different and large.
const WRITTEN_MAX: usize = 1 << 20;

/// A histogram of times: three significant digits, up to an hour.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Times {
        let made = Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, 3);
        Times(made.expect("the bounds are in order and three digits are allowed"))
    }
}

/// What is shown of a histogram, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Times recorded.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub p50: f64,
    /// Nine in ten are not above this.
    pub p90: f64,
    /// Ninety-nine in a hundred.
    pub p99: f64,
    /// All but one in a thousand.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Times {
    /// Records one.
    pub fn add(&mut self, time: Duration) {
        let time = time.min(LONGEST).as_nanos() as u64;
        // Saturates at its bounds rather than refuse.
        self.0.saturating_record(time);
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &Times) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// Forgets them all.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Times recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that this share is not above.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    /// What is shown.
    pub fn summary(&self) -> Summary {
        let ms = |ns: u64| ns as f64 / 1e6;
        let at = |share| ms(self.0.value_at_quantile(share));
        Summary {
            count: self.0.len(),
            mean: self.0.mean() / 1e6,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: ms(self.0.max()),
        }
    }

    /// Only the times there are.
    pub fn sparse(&self) -> Sparse {
        Sparse(
            self.0
                .iter_recorded()
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect(),
        )
    }

    /// The histogram itself, for its own tools.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    /// The form in which it is written down.
    fn written(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .expect("memory takes all that is written to it");
        BASE64_STANDARD.encode(bytes)
    }

    /// Reads that form.
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
        // Another program's bounds may differ; counts of the same times are what matters.
        let mut times = Times::default();
        times
            .0
            .add(&read)
            .map_err(|error| format!("a histogram of other times: {error}"))?;
        Ok(times)
    }
}

/// Durations as whole numbers.
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

/// Few times: each with how often it was, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sparse(Vec<(u64, u64)>);

impl Sparse {
    /// These times, in nanoseconds, as they are.
    #[cfg(test)]
    pub(crate) fn counted(mut times: Vec<u64>) -> Sparse {
        times.sort_unstable();
        let each = times.chunk_by(|a, b| a == b);
        Sparse(each.map(|same| (same[0], same.len() as u64)).collect())
    }

    /// Adds those of another.
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

    /// Times recorded.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|&(_, count)| count).sum()
    }

    /// Their sum in nanoseconds, as the mean of a histogram has it: each is the middle of its step.
    pub fn total_ns(&self) -> f64 {
        let steps = Times::default();
        let each = self.0.iter();
        each.map(|&(value, count)| steps.0.median_equivalent(value) as f64 * count as f64)
            .sum()
    }

    /// All of them as a histogram.
    pub fn times(&self) -> Times {
        let mut times = Times::default();
        for &(value, count) in &self.0 {
            times.0.saturating_record_n(value, count);
        }
        times
    }

    /// The time that this share is not above; none if there is none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = ((share * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.0.iter().find_map(|&(value, count)| {
            seen += count;
            (seen >= rank).then(|| Duration::from_nanos(value))
        })
    }

    /// Each time in nanoseconds with how often it was, shortest first.
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
        assert!(times.summary().max >= 3.59e6);
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
