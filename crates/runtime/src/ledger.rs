//! Counters of several processes, which any of them can add up at any time.
//!
//! ```text
//!   part 0 │ part 1 │ ... │ the gone │ version      each part: what lasts (counts) │ what is true of a living process
//! ```
//! Each process alone writes its part, so counting takes no lock and survives the process being killed. When a process
//! is gone, the one that forked it closes its part: lasting counts are added to the part of the gone, the rest is
//! zeroed. A reader that meets a closing starts again (a sequence lock), so no count is seen twice or missed. What is
//! counted is not known here.

use crate::shared::Words;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// How often a reader starts again before it takes the values as they are: the closing process may have been killed.
const ATTEMPTS: usize = 1_000;

/// Parts of equal shape. Clones refer to the same memory, also in processes forked later.
#[derive(Clone, Debug)]
pub struct Ledger {
    words: Words,
    shape: Shape,
    parts: usize,
}

/// The shape of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of words.
    pub len: usize,
    /// Number of leading words that are counts and outlast their process.
    pub lasting: usize,
}

/// All parts at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// By number; all zero for an unused part.
    pub parts: Vec<Vec<u64>>,
    /// Counts of processes that are gone.
    pub gone: Vec<u64>,
}

impl Ledger {
    /// A ledger of `parts` parts, all zero.
    ///
    /// # Errors
    /// The system's, if it has no memory.
    pub fn new(parts: usize, shape: Shape) -> std::io::Result<Ledger> {
        assert!(shape.lasting <= shape.len, "{shape:?}");
        Ok(Ledger {
            words: Words::new((parts + 1) * shape.len + 1)?,
            shape,
            parts,
        })
    }

    /// A part, for its process to write.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn part(&self, number: usize) -> Words {
        assert!(number < self.parts, "part {number} of {}", self.parts);
        self.words.part(number, self.shape.len)
    }

    /// Number of parts, used or not.
    pub fn parts(&self) -> usize {
        self.parts
    }

    fn version(&self) -> &AtomicU64 {
        &self.words.get()[(self.parts + 1) * self.shape.len]
    }

    fn slice(&self, number: usize) -> &[AtomicU64] {
        &self.words.get()[number * self.shape.len..][..self.shape.len]
    }

    /// Closes the part of a dead process. Only the process that forked it may call this.
    pub fn close(&self, number: usize) {
        let version = self.version().load(Ordering::Relaxed);
        self.version().store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let (part, gone) = (self.slice(number), self.slice(self.parts));
        for (at, word) in part.iter().enumerate() {
            let value = word.load(Ordering::Relaxed);
            if value == 0 {
                continue;
            }
            if at < self.shape.lasting {
                let sum = gone[at].load(Ordering::Relaxed).wrapping_add(value);
                gone[at].store(sum, Ordering::Relaxed);
            }
            word.store(0, Ordering::Relaxed);
        }
        self.version().store(version.wrapping_add(2), Ordering::Release);
    }

    /// Reads all parts without a lock.
    pub fn read(&self) -> Reading {
        let mut reading = self.read_once();
        for _ in 0..ATTEMPTS {
            match reading {
                Ok(reading) => return reading,
                Err(_) => {
                    std::hint::spin_loop();
                    reading = self.read_once();
                }
            }
        }
        reading.unwrap_or_else(|torn| torn)
    }

    /// `Err` if a part was closed meanwhile.
    fn read_once(&self) -> Result<Reading, Reading> {
        let before = self.version().load(Ordering::Acquire);
        let copy = |number: usize| -> Vec<u64> {
            let words = self.slice(number).iter();
            words.map(|word| word.load(Ordering::Relaxed)).collect()
        };
        let reading = Reading {
            parts: (0..self.parts).map(copy).collect(),
            gone: copy(self.parts),
        };
        fence(Ordering::Acquire);
        let after = self.version().load(Ordering::Relaxed);
        match before == after && before.is_multiple_of(2) {
            true => Ok(reading),
            false => Err(reading),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { len: 3, lasting: 2 };

    #[test]
    fn what_lasts_outlives_its_process_and_the_rest_does_not() {
        let ledger = Ledger::new(2, SHAPE).unwrap();
        for (number, value) in [(0, 5), (1, 7)] {
            for word in ledger.part(number).get() {
                word.store(value, Ordering::Relaxed);
            }
        }
        ledger.close(0);
        let reading = ledger.read();
        assert_eq!((&reading.parts[0], &reading.parts[1]), (&vec![0; 3], &vec![7; 3]));
        assert_eq!(reading.gone, [5, 5, 0]);
        // The successor continues the counts.
        ledger.part(0).get()[1].store(1, Ordering::Relaxed);
        ledger.close(0);
        assert_eq!(ledger.read().gone, [5, 6, 0]);
        assert_eq!(ledger.parts(), 2);
    }

    #[test]
    fn no_reader_sees_a_count_twice_or_not_at_all() {
        let ledger = Ledger::new(4, SHAPE).unwrap();
        let reader = ledger.clone();
        let sum = |reading: &Reading| {
            let living: u64 = reading.parts.iter().map(|part| part[0]).sum();
            living + reading.gone[0]
        };
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                for round in 0..20_000_usize {
                    let number = round % 4;
                    ledger.part(number).get()[0].store(1, Ordering::Relaxed);
                    ledger.close(number);
                }
                ledger.read()
            });
            let mut last = 0;
            while !writer.is_finished() {
                let now = sum(&reader.read());
                assert!(now >= last, "{now} after {last}");
                last = now;
            }
            assert_eq!(sum(&writer.join().unwrap()), 20_000);
        });
    }

    #[test]
    fn a_closing_that_never_ends_keeps_nobody() {
        let ledger = Ledger::new(1, SHAPE).unwrap();
        ledger.part(0).get()[0].store(3, Ordering::Relaxed);
        ledger.version().store(1, Ordering::Relaxed);
        assert_eq!(ledger.read().parts[0][0], 3);
    }
}
