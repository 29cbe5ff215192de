//! What a run was like: latencies, a series by second, errors by kind.
//!
//! A file's *service* time begins where document 000's client looks at its clock: before the connection is
//! opened, else when the request is sent, else when the file before it in a pipelined batch was complete.
//! Its *response* time begins when it was meant to be asked for; the difference is what waiting on a
//! slow server hides (coordinated omission). Records of several crews add up exactly. Knows no clock.

use hdrhistogram::Histogram;
use measure::{Duration, Instant};
use serde::Serialize;
use std::collections::BTreeMap;

/// The longest time that is told from a longer one.
const LONGEST: Duration = Duration::from_secs(3600);
/// Seconds of a series at the most: a day.
const SECONDS_MAX: usize = 86_400;

/// A histogram of times: three significant digits, up to an hour.
#[derive(Clone, Debug)]
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
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// This machine had no descriptor, port or memory for a connection.
    Here,
    /// A connection could not be opened.
    Connect,
    /// A connection failed while a reply was owed.
    Lost,
    /// A reply was cut short.
    Truncated,
    /// Nothing came for too long.
    Timeout,
    /// What came was not HTTP.
    Protocol,
    /// A status that is no success.
    Status,
    /// A body of another length than the manifest's.
    Length,
    /// A body of another content than the manifest's.
    Content,
}

/// One second of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Second {
    /// Objects begun.
    pub begun: u64,
    /// Files complete.
    pub files: u64,
    /// Content received.
    pub bytes: u64,
    /// Troubles.
    pub errors: u64,
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// From a file's mark to its end.
    pub service: Times,
    /// From when it was meant to be asked for to its end.
    pub response: Times,
    /// Opening a connection.
    pub connect: Times,
    /// From the mark, or the connection's standing, to the first byte of the reply.
    pub first_byte: Times,
    /// From the first byte to the end.
    pub transfer: Times,
    /// A whole object, from when it was meant to begin.
    pub object: Times,
    /// How late this program was to act on an alarm.
    pub lag: Times,
    /// By second from the start.
    pub seconds: Vec<Second>,
    /// How often each trouble came.
    pub troubles: BTreeMap<Trouble, u64>,
    /// Connections opened.
    pub connections: u64,
    /// Connections that the server closed although more could have followed.
    pub closed_by_server: u64,
    /// Requests sent again on another connection because the server had closed theirs unanswered.
    pub resent: u64,
    /// Objects begun.
    pub objects_begun: u64,
    /// Objects complete.
    pub objects: u64,
    /// Files complete.
    pub files: u64,
    /// Files given up.
    pub files_failed: u64,
    /// Content received.
    pub bytes: u64,
    /// Everything received, heads among it.
    pub bytes_received: u64,
    /// Sum over files of their service time.
    pub busy: Duration,
    /// Open arrivals that found no room to wait.
    pub dropped: u64,
    /// Files under way when patience ended.
    pub unfinished: u64,
    /// Errno of the last local refusal.
    pub refusal: Option<i32>,
}

impl Record {
    /// The second that `now` lies in.
    pub fn second(&mut self, now: Instant, began: Instant) -> &mut Second {
        let number = (now.since(began).as_secs() as usize).min(SECONDS_MAX - 1);
        if number >= self.seconds.len() {
            self.seconds.resize(number + 1, Second::default());
        }
        &mut self.seconds[number]
    }

    /// Counts a trouble.
    pub fn trouble(&mut self, trouble: Trouble, now: Instant, began: Instant) {
        *self.troubles.entry(trouble).or_default() += 1;
        self.second(now, began).errors += 1;
    }

    /// All troubles.
    pub fn errors(&self) -> u64 {
        self.troubles.values().sum()
    }

    /// How often this trouble came.
    pub fn count(&self, trouble: Trouble) -> u64 {
        self.troubles.get(&trouble).copied().unwrap_or(0)
    }

    /// Adds what another crew of the same run measured.
    pub fn merge(&mut self, other: &Record) {
        for (sum, part) in [
            (&mut self.service, &other.service),
            (&mut self.response, &other.response),
            (&mut self.connect, &other.connect),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.transfer, &other.transfer),
            (&mut self.object, &other.object),
            (&mut self.lag, &other.lag),
        ] {
            sum.merge(part);
        }
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), Second::default());
        }
        for (sum, part) in self.seconds.iter_mut().zip(&other.seconds) {
            sum.begun += part.begun;
            sum.files += part.files;
            sum.bytes += part.bytes;
            sum.errors += part.errors;
        }
        for (&trouble, count) in &other.troubles {
            *self.troubles.entry(trouble).or_default() += count;
        }
        for (sum, part) in [
            (&mut self.connections, other.connections),
            (&mut self.closed_by_server, other.closed_by_server),
            (&mut self.resent, other.resent),
            (&mut self.objects_begun, other.objects_begun),
            (&mut self.objects, other.objects),
            (&mut self.files, other.files),
            (&mut self.files_failed, other.files_failed),
            (&mut self.bytes, other.bytes),
            (&mut self.bytes_received, other.bytes_received),
            (&mut self.dropped, other.dropped),
            (&mut self.unfinished, other.unfinished),
        ] {
            *sum += part;
        }
        self.busy += other.busy;
        self.refusal = self.refusal.or(other.refusal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(times: &[u64]) -> Record {
        let mut record = Record::default();
        for &ms in times {
            record.service.add(Duration::from_millis(ms));
            record.files += 1;
            let at = Instant::ZERO + Duration::from_millis(ms);
            record.second(at, Instant::ZERO).files += 1;
            record.trouble(Trouble::Lost, at, Instant::ZERO);
        }
        record
    }

    #[test]
    fn records_add_up() {
        let (mut a, b) = (record(&[1, 20, 3000]), record(&[5, 4500]));
        let whole = record(&[1, 20, 3000, 5, 4500]);
        a.merge(&b);
        assert_eq!(a.service.summary(), whole.service.summary());
        assert_eq!(a.seconds, whole.seconds);
        assert_eq!((a.files, a.errors(), a.count(Trouble::Lost)), (5, 5, 5));
        assert_eq!(a.count(Trouble::Status), 0);
    }

    #[test]
    fn quantiles_keep_three_digits_and_times_beyond_the_bounds_count() {
        let mut times = Times::default();
        (1..=1000).for_each(|ms| times.add(Duration::from_millis(ms)));
        let median = times.quantile(0.5).as_secs_f64();
        assert!((median - 0.5).abs() < 0.001, "{median}");
        times.add(Duration::from_secs(1 << 40));
        times.add(Duration::ZERO);
        assert_eq!(times.count(), 1002);
        assert!(times.summary().max >= 3.59e6);
    }
}
