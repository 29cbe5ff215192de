//! Words of memory that a process shares with the processes it forks afterwards, or keeps to itself: who
//! writes them need not know which.
//!
//! Plain atomics: whatever is built of them must stay true when a process is killed between two writes.

use crate::sys::Run;
use std::sync::atomic::{AtomicU64, Ordering};

/// A run of words. Clones are the same words.
#[derive(Clone, Debug)]
pub struct Words(Run);

/// Words between what two threads write, so that neither takes the other's cache line.
const APART: usize = 16;

impl Words {
    /// `len` words, all zero.
    ///
    /// # Errors
    /// The system's, if it has no memory.
    pub fn new(len: usize) -> std::io::Result<Words> {
        Run::shared(len).map(Words)
    }

    /// `len` words, all zero, that are this process's alone; on cache lines of their own.
    pub fn own(len: usize) -> Words {
        Words(Run::own(len + 2 * APART).part(APART..APART + len))
    }

    /// The words.
    #[inline]
    pub fn get(&self) -> &[AtomicU64] {
        self.0.words()
    }

    /// The `number`-th of the parts of `len` words each.
    ///
    /// # Panics
    /// If there is no such part.
    #[must_use]
    pub fn part(&self, number: usize, len: usize) -> Words {
        Words(self.0.part(number * len..(number + 1) * len))
    }

    /// All but the first `count`.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn tail(&self, count: usize) -> Words {
        Words(self.0.part(count..self.get().len()))
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
        let own = Words::own(4);
        own.part(1, 2).get()[1].store(9, Ordering::Relaxed);
        assert_eq!((own.get().len(), own.get()[3].load(Ordering::Relaxed)), (4, 9));
    }
}
