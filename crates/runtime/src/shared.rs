//! Words of memory that a process shares with its later children, or keeps private. Writers need not know which.
//!
//! The words are plain atomics: structures built on them must stay consistent if a process is killed between two
//! writes.

use crate::sys::Run;
use std::sync::atomic::{AtomicU64, Ordering};

/// A run of words. Clones refer to the same words.
#[derive(Clone, Debug)]
pub struct Words(Run);

/// Padding between words written by two threads, so that neither invalidates the other's cache line.
const APART: usize = 16;

impl Words {
    /// `len` shared words, all zero.
    ///
    /// # Errors
    /// The system's error if no memory is left.
    pub fn new(len: usize) -> std::io::Result<Words> {
        Run::shared(len).map(Words)
    }

    /// `len` words, all zero, private to this process; on cache lines of their own.
    pub fn own(len: usize) -> Words {
        Words(Run::own(len + 2 * APART).part(APART..APART + len))
    }

    /// The words.
    #[inline]
    pub fn get(&self) -> &[AtomicU64] {
        self.0.words()
    }

    /// Part `number` (0-based), if the words are divided into parts of `len` words.
    ///
    /// # Panics
    /// If there is no such part.
    #[must_use]
    pub fn part(&self, number: usize, len: usize) -> Words {
        Words(self.0.part(number * len..(number + 1) * len))
    }

    /// All words but the first `count`.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn tail(&self, count: usize) -> Words {
        Words(self.0.part(count..self.get().len()))
    }

    /// Sets all words to zero, to remove what a dead process left.
    pub fn clear(&self) {
        for word in self.get() {
            // Reading first leaves untouched pages unallocated.
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
        let own = Words::own(4);
        own.part(1, 2).get()[1].store(9, Ordering::Relaxed);
        assert_eq!((own.get().len(), own.get()[3].load(Ordering::Relaxed)), (4, 9));
    }
}
