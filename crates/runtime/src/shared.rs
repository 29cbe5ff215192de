//! Words of memory that a process shares with the processes it forks afterwards.
//!
//! Plain atomics: whatever is built of them must stay true when a process is killed between two writes.

use crate::sys::SharedWords;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A run of shared words. Clones are the same words.
#[derive(Clone, Debug)]
pub struct Words {
    all: Arc<SharedWords>,
    range: Range<usize>,
}

impl Words {
    /// `len` words, all zero.
    ///
    /// # Errors
    /// The system's, if it has no memory.
    pub fn new(len: usize) -> std::io::Result<Words> {
        Ok(Words {
            all: Arc::new(SharedWords::new(len)?),
            range: 0..len,
        })
    }

    /// The words.
    #[inline]
    pub fn get(&self) -> &[AtomicU64] {
        &self.all.words()[self.range.clone()]
    }

    /// The `number`-th of the parts of `len` words each.
    ///
    /// # Panics
    /// If there is no such part.
    #[must_use]
    pub fn part(&self, number: usize, len: usize) -> Words {
        let start = self.range.start + number * len;
        assert!(start + len <= self.range.end, "part {number} of {len} words");
        Words {
            all: Arc::clone(&self.all),
            range: start..start + len,
        }
    }

    /// Sets all to zero: what a process left that is no more.
    pub fn clear(&self) {
        for word in self.get() {
            // Untouched pages stay untouched.
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_the_same_words() {
        let words = Words::new(12).unwrap();
        words.part(1, 4).get()[3].store(7, Ordering::Relaxed);
        assert_eq!(words.get()[7].load(Ordering::Relaxed), 7);
        words.part(0, 4).clear();
        assert_eq!(words.get()[7].load(Ordering::Relaxed), 7);
        words.part(1, 4).clear();
        assert_eq!(words.get()[7].load(Ordering::Relaxed), 0);
    }
}
