//! The last purges, in words that all processes of a server share. A cache applies what is new before it looks for a response.
//!
//! ```text
//!   count │ slot: version, bytes, text │ slot │ ...
//! ```
//! There is one writer. The version of a slot is odd while the slot is written. A reader that finds a slot in use again, or
//! that is more purges behind than there are slots, drops everything: too much is safe, too little is not.

use super::purge::Purge;
use runtime::shared::Words;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Purges that are kept.
const KEPT: u64 = 32;

/// Longest text, in bytes: a path or tag of 500, and what kind it is.
pub(super) const TEXT_MAX: usize = 512;

const VERSION: usize = 0;
const BYTES: usize = 1;
const HEAD: usize = 2;
const SLOT: usize = HEAD + TEXT_MAX / 8;
const LEN: usize = 1 + KEPT as usize * SLOT;

/// The purges of a server. Clones refer to the same ones.
#[derive(Clone, Debug)]
pub struct Purges(Arc<Words>);

impl Default for Purges {
    /// Those of a server that is one process.
    fn default() -> Purges {
        Purges(Arc::new(Words::own(LEN)))
    }
}

impl Purges {
    /// Those of processes that are forked later.
    ///
    /// # Errors
    /// The system's error if it has no memory.
    pub fn shared() -> io::Result<Purges> {
        Ok(Purges(Arc::new(Words::new(LEN)?)))
    }

    /// Number of purges so far.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.0.get()[0].load(Ordering::Acquire)
    }

    /// Adds a purge, which all processes obey from then on. Only one thread of one process may call this.
    pub fn note(&self, what: &Purge) {
        let words = self.0.get();
        let number = words[0].load(Ordering::Relaxed);
        let slot = self.slot(number);
        let version = slot[VERSION].load(Ordering::Relaxed) | 1;
        slot[VERSION].store(version, Ordering::Relaxed);
        // Readers must see the odd version before any of the text.
        fence(Ordering::Release);
        let text = what.to_string();
        // Parsing bounds the text. A longer one would be cut and read as nonsense, which drops everything.
        slot[BYTES].store(text.len() as u64, Ordering::Relaxed);
        for (word, bytes) in slot[HEAD..].iter().zip(text.as_bytes().chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        slot[VERSION].store(version + 1, Ordering::Release);
        words[0].store(number + 1, Ordering::Release);
    }

    /// The purges after the first `seen`.
    pub(super) fn since(&self, seen: u64) -> Vec<Purge> {
        let count = self.count();
        if count.saturating_sub(seen) > KEPT {
            return vec![Purge::All];
        }
        let read = (seen..count).map(|number| self.read(number).unwrap_or(Purge::All));
        read.collect()
    }

    fn slot(&self, number: u64) -> &[AtomicU64] {
        let place = (number % KEPT) as usize;
        &self.0.get()[1 + place * SLOT..][..SLOT]
    }

    fn read(&self, number: u64) -> Option<Purge> {
        let slot = self.slot(number);
        let version = slot[VERSION].load(Ordering::Acquire);
        let len = slot[BYTES].load(Ordering::Relaxed);
        let words = slot[HEAD..].iter();
        let bytes: Vec<u8> = words
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .collect();
        // All of the text must be read before the version is looked at again.
        fence(Ordering::Acquire);
        // The slot is written once in a round, and each time its version grows by two.
        let expected = (number / KEPT + 1) * 2;
        if version != expected || slot[VERSION].load(Ordering::Relaxed) != version {
            return None;
        }
        let text = bytes.get(..usize::try_from(len).ok()?)?;
        std::str::from_utf8(text).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: u64) -> Purge {
        Purge::Path(format!("/{number}"))
    }

    #[test]
    fn purges_are_read_in_order_and_who_is_too_far_behind_drops_all() {
        for purges in [Purges::default(), Purges::shared().unwrap()] {
            let reader = purges.clone();
            assert!(reader.since(0).is_empty());
            for number in 0..KEPT {
                purges.note(&path(number));
            }
            assert_eq!(reader.since(0), (0..KEPT).map(path).collect::<Vec<_>>());
            assert_eq!(reader.since(KEPT - 1), [path(KEPT - 1)]);
            purges.note(&path(KEPT));
            assert_eq!(reader.since(0), [Purge::All]);
            assert_eq!(reader.since(KEPT), [path(KEPT)]);
            assert!(reader.since(KEPT + 1).is_empty());
        }
    }

    #[test]
    fn a_slot_that_is_being_written_drops_all_and_the_longest_text_fits() {
        let purges = Purges::default();
        let longest = format!("path /{}", "a".repeat(TEXT_MAX - 6));
        let longest: Purge = longest.parse().unwrap();
        purges.note(&longest);
        assert_eq!(purges.since(0), [longest]);
        purges.slot(0)[VERSION].fetch_add(1, Ordering::Relaxed);
        assert_eq!(purges.since(0), [Purge::All]);
    }
}
