//! Adds to a counter that other threads and processes read. One writer needs no locked instruction; several threads of a
//! process do.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many threads write a counter at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writers {
    /// One, so that an addition is a load and a store.
    One,
    /// Several threads of one process.
    Many,
}

impl Writers {
    /// Adds `n` to a counter with these writers.
    #[inline]
    pub(crate) fn add(self, word: &AtomicU64, n: u64) {
        match self {
            Writers::One => word.store(word.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed),
            Writers::Many => {
                word.fetch_add(n, Ordering::Relaxed);
            }
        }
    }
}
