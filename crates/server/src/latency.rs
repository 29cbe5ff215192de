//! Response times as each worker sees them: from the turn that finds a request's first byte to the end of the turn in
//! which its response was composed.
//!
//! The clock is read only at the beginning and end of a turn. So a response composed within one turn counts with the
//! whole turn, which is never too little. It is too much by the time of other requests in that turn. The kernel's and
//! the network's time is not included. The same words hold the time with a standing queue, and the responses that wait
//! for the line.
//!
//! The scale is logarithmic, with four steps per octave from 1 microsecond on, so a percentile is at most a fifth too
//! high.

use crate::writers::Writers;
use runtime::shaping::Withheld;
use runtime::shared::Words;
use std::sync::atomic::Ordering;
use units::{Duration, Instant};

/// Number of steps per octave.
const STEPS: usize = 4;
/// Number of octaves: up to 2^27 microseconds, 134 seconds. Longer times count as that.
const OCTAVES: usize = 27;
const BUCKETS: usize = STEPS * OCTAVES;
/// Position of the sum, after the buckets, followed by the time with a standing queue; both in microseconds.
const SUM: usize = BUCKETS;
const STOOD: usize = BUCKETS + 1;
/// Position of the line's figures: responses that had to wait and their time in microseconds, responses that wait now
/// and their bytes.
const LINE: usize = BUCKETS + 2;
const LINE_WORDS: usize = 4;

/// A histogram of response times with any number of readers.
#[derive(Debug)]
pub struct Latencies {
    /// A count per bucket, the sum in microseconds, the time with a standing queue, the line's figures.
    words: Words,
    writers: Writers,
}

/// The bucket of a duration; its upper bound is inclusive.
fn bucket(micros: u64) -> usize {
    // The octave before has the bounds that were rounded up.
    let octave = micros.checked_ilog2().unwrap_or(0).saturating_sub(1) as usize;
    (octave * STEPS..BUCKETS)
        .find(|&at| micros <= bound(at))
        .unwrap_or(BUCKETS - 1)
}

/// Upper bound of a bucket in microseconds.
fn bound(at: usize) -> u64 {
    let octave = 1_u64 << (at / STEPS);
    // Rounded up, so that the first octave has whole steps.
    octave + (octave * (at % STEPS) as u64).div_ceil(STEPS as u64)
}

impl Latencies {
    /// Number of words needed.
    pub(crate) const WORDS: usize = LINE + LINE_WORDS;

    /// Uses these words, [`Latencies::WORDS`] of them.
    pub(crate) fn on(words: Words, writers: Writers) -> Latencies {
        debug_assert_eq!(words.get().len(), Latencies::WORDS);
        Latencies { words, writers }
    }

    fn add(&self, duration: Duration, times: u64) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let words = self.words.get();
        self.writers.add(&words[bucket(micros)], times);
        self.writers.add(&words[SUM], micros.saturating_mul(times));
    }

    /// Adds time with a standing queue.
    #[inline]
    pub(crate) fn stood(&self, time: Duration) {
        if !time.is_zero() {
            let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            self.writers.add(&self.words.get()[STOOD], micros);
        }
    }

    /// Sets the figures of responses that wait for the line now and waited so far.
    pub(crate) fn withheld(&self, what: &Withheld) {
        let micros = u64::try_from(what.time.as_micros()).unwrap_or(u64::MAX);
        let values = [what.waited, micros, what.answers as u64, what.bytes];
        for (word, value) in self.words.get()[LINE..].iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Sets the figures of responses waiting now to zero.
    pub(crate) fn nothing_withheld(&self) {
        for word in &self.words.get()[LINE + 2..] {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// The current turn of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    began: Instant,
    answered: u64,
}

impl Turn {
    pub(crate) const fn new() -> Turn {
        Turn {
            began: Instant::ZERO,
            answered: 0,
        }
    }

    /// Begins a turn. With timed turns, responses of a turn that has not ended count toward this one (that of another
    /// thread, if the context has several).
    pub(crate) fn begin(&mut self, now: Instant, is_timed: bool) {
        self.began = now;
        if !is_timed {
            self.answered = 0;
        }
    }

    /// A request that began at `started` was answered in this turn.
    #[inline]
    pub(crate) fn answered(&mut self, started: Instant, latencies: &Latencies) {
        if started >= self.began {
            self.answered += 1;
        } else {
            latencies.add(self.began - started, 1);
        }
    }

    /// Beginning of the turn.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    pub(crate) fn end(&mut self, now: Instant, latencies: &Latencies) {
        if self.answered > 0 {
            latencies.add(now - self.began, std::mem::take(&mut self.answered));
        }
    }
}

/// Histogram of response times, summed over workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations {
    counts: [u64; BUCKETS],
    micros: u64,
    stood: u64,
    line: [u64; LINE_WORDS],
}

impl Default for Durations {
    fn default() -> Durations {
        Durations {
            counts: [0; BUCKETS],
            micros: 0,
            stood: 0,
            line: [0; LINE_WORDS],
        }
    }
}

impl Durations {
    /// Adds those of a worker.
    pub(crate) fn take_in(&mut self, latencies: &Latencies) {
        let words = latencies.words.get().iter();
        let read: Vec<u64> = words.map(|word| word.load(Ordering::Relaxed)).collect();
        self.take_in_words(&read);
    }

    /// Adds those in [`Latencies::WORDS`] words.
    pub(crate) fn take_in_words(&mut self, words: &[u64]) {
        for (sum, one) in self.counts.iter_mut().zip(words) {
            *sum = sum.wrapping_add(*one);
        }
        self.micros = self.micros.wrapping_add(words[SUM]);
        self.stood = self.stood.wrapping_add(words[STOOD]);
        for (sum, one) in self.line.iter_mut().zip(&words[LINE..]) {
            *sum = sum.wrapping_add(*one);
        }
    }

    /// Time with a standing queue, summed over workers.
    pub fn stood(&self) -> Duration {
        Duration::from_micros(self.stood)
    }

    /// Responses that waited or wait for the line, summed over workers.
    pub fn withheld(&self) -> Withheld {
        let [waited, micros, answers, bytes] = self.line;
        Withheld {
            answers: usize::try_from(answers).unwrap_or(usize::MAX),
            bytes,
            waited,
            time: Duration::from_micros(micros),
        }
    }

    /// Number of responses.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of their response times.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.micros)
    }

    /// The quantile of this share (0.99 for the 99th percentile), at most a fifth too high. `None` without responses.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let wanted = ((count as f64 * share).ceil() as u64).clamp(1, count);
        let mut seen = 0;
        let at = self.counts.iter().position(|n| {
            seen += n;
            seen >= wanted
        })?;
        Some(Duration::from_micros(bound(at)))
    }

    /// Upper bounds with the number of responses up to each, one per octave.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> {
        let mut sum = 0;
        (0..BUCKETS).filter_map(move |at| {
            sum += self.counts[at];
            at.is_multiple_of(STEPS)
                .then(|| (Duration::from_micros(bound(at)), sum))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_and_hold_their_values() {
        let bounds: Vec<u64> = (0..BUCKETS).map(bound).collect();
        assert_eq!(bounds[..10], [1, 2, 2, 2, 2, 3, 3, 4, 4, 5]);
        assert!(bounds.is_sorted());
        let some = [65_535, 65_536, 65_537, 1_000_000, 100_000_000, 1 << 40, u64::MAX];
        for micros in (0..5_000).chain(some) {
            let at = bucket(micros);
            assert!(
                (bound(at) >= micros || at == BUCKETS - 1) && (at == 0 || bound(at - 1) < micros),
                "{micros}"
            );
            assert!(
                micros < 8 || micros > bound(BUCKETS - 1) || bound(at) as f64 <= micros as f64 * 1.25,
                "{micros}: {}",
                bound(at)
            );
        }
    }

    #[test]
    fn what_workers_hold_back_adds_up() {
        let what = Withheld {
            answers: 2,
            bytes: 3_000,
            waited: 7,
            time: Duration::from_millis(9),
        };
        let mut all = Durations::default();
        for _ in 0..2 {
            let latencies = Latencies::on(Words::own(Latencies::WORDS), Writers::One);
            latencies.withheld(&Withheld::default());
            latencies.withheld(&what);
            all.take_in(&latencies);
        }
        let both = Withheld {
            answers: 4,
            bytes: 6_000,
            waited: 14,
            time: Duration::from_millis(18),
        };
        assert_eq!(all.withheld(), both);
    }

    #[test]
    fn an_answer_counts_with_its_turn() {
        let latencies = Latencies::on(Words::own(Latencies::WORDS), Writers::One);
        let mut turn = Turn::new();
        let at = |micros: u64| Instant::ZERO + Duration::from_micros(micros);
        turn.begin(at(1_000), true);
        turn.answered(at(1_000), &latencies);
        turn.answered(at(1_000), &latencies);
        turn.answered(at(200), &latencies);
        turn.end(at(1_050), &latencies);
        turn.end(at(2_000), &latencies);
        let mut all = Durations::default();
        all.take_in(&latencies);
        assert_eq!((all.count(), all.sum()), (3, Duration::from_micros(900)));
        assert_eq!(all.quantile(0.5), Some(Duration::from_micros(56)));
        assert_eq!(all.quantile(1.0), Some(Duration::from_micros(896)));
        let below: Vec<_> = all
            .cumulative()
            .filter(|(_, n)| *n == 2)
            .map(|(d, _)| d.as_micros())
            .collect();
        assert_eq!(below, [64, 128, 256, 512]);
        assert_eq!(Durations::default().quantile(0.5), None);
    }
}
