//! Which workers with one connection each (threads of a process, or processes) are free, busy, or idle and since when.
//! They use it to agree, without a lock, whose connection is closed for one that waits at a listener.
//!
//! ```text
//!   word of a worker:  0 no connection │ 1 something is under way │ n idle since this instant, in nanoseconds
//! ```
//! Each worker writes only its own word. Knows nothing about connections.

use crate::shared::Words;
use std::sync::atomic::Ordering;
use units::Instant;

const FREE: u64 = 0;
const BUSY: u64 = 1;

/// The words of all workers, and the index of this worker's.
#[derive(Clone, Debug)]
pub(crate) struct Roll {
    words: Words,
    /// Words from one worker's word to the next.
    stride: usize,
    count: usize,
    own: usize,
}

impl Roll {
    /// A roll for `count` workers of this process, as the first has it.
    pub(crate) fn of_threads(count: usize) -> Roll {
        Roll::on(Words::own(count), 1, count, 0)
    }

    /// A roll on every `stride`-th of these words.
    pub(crate) fn on(words: Words, stride: usize, count: usize, own: usize) -> Roll {
        Roll {
            words,
            stride,
            count,
            own,
        }
    }

    /// The same roll, as worker number `own` has it.
    pub(crate) fn of(&self, own: usize) -> Roll {
        Roll { own, ..self.clone() }
    }

    fn set(&self, word: u64) {
        self.words.get()[self.own * self.stride].store(word, Ordering::Relaxed);
    }

    /// This worker has no connection.
    pub(crate) fn free(&self) {
        self.set(FREE);
    }

    /// This worker's connection is not idle.
    pub(crate) fn busy(&self) {
        self.set(BUSY);
    }

    /// This worker's connection has been idle since then.
    pub(crate) fn idle(&self, since: Instant) {
        self.set(since.as_nanos().max(BUSY + 1));
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        (0..self.count).map(|number| self.words.get()[number * self.stride].load(Ordering::Relaxed))
    }

    /// Whether every worker has a connection.
    pub(crate) fn is_full(&self) -> bool {
        self.all().all(|word| word != FREE)
    }

    /// Whether no other worker's connection has been idle longer; among equal ones, the first counts as oldest.
    pub(crate) fn is_eldest(&self) -> bool {
        let idle = self.all().enumerate().filter(|(_, word)| *word > BUSY);
        idle.min_by_key(|(_, since)| *since)
            .is_some_and(|(number, _)| number == self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_all_that_are_idle_is_the_eldest() {
        let roll = Roll::of_threads(3);
        let workers = [0, 1, 2].map(|own| roll.of(own));
        let eldest = || -> Vec<bool> { workers.iter().map(Roll::is_eldest).collect() };
        assert!(!roll.is_full());
        assert_eq!(eldest(), [false; 3], "nobody is idle");
        workers[0].busy();
        workers[1].idle(Instant::from_nanos(20));
        assert!(!roll.is_full());
        workers[2].idle(Instant::from_nanos(20));
        assert!(roll.is_full());
        assert_eq!(eldest(), [false, true, false], "of equals the first");
        workers[1].busy();
        assert_eq!(eldest(), [false, false, true]);
        workers[2].free();
        assert!(!roll.is_full());
    }

    #[test]
    fn strides_keep_to_their_words() {
        let words = Words::own(8);
        let roll = Roll::on(words.clone(), 4, 2, 1);
        roll.busy();
        let set: Vec<u64> = words
            .get()
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect();
        assert_eq!(set, [0, 0, 0, 0, 1, 0, 0, 0]);
    }
}
