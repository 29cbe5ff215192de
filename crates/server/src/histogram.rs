//! Durations, counted by fixed bounds, as metrics show them. Any number of threads write.

use std::sync::atomic::{AtomicU64, Ordering};
use units::Duration;

/// Upper bounds in milliseconds, inclusive.
const BOUNDS: [u64; 12] = [1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

/// Counts of durations.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    micros: AtomicU64,
    /// By bound; the last one is above all of them.
    counts: [AtomicU64; BOUNDS.len() + 1],
}

impl Histogram {
    /// Counts a duration.
    pub(crate) fn add(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|bound| micros <= bound * 1_000);
        self.counts[bucket.unwrap_or(BOUNDS.len())].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Sum of the durations.
    pub(crate) fn sum(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }

    /// Upper bounds in seconds, the last one infinite, each with the number of durations above the bound before it.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS
            .iter()
            .map(|&bound| Duration::from_millis(bound).as_secs_f64());
        bounds
            .chain([f64::INFINITY])
            .zip(&self.counts)
            .map(|(bound, count)| (bound, count.load(Ordering::Relaxed)))
            .collect()
    }
}
