//! The last decisions, in words shared by all processes of a server. With worker processes, the parent decides and any
//! worker may be asked for the live page.
//!
//! ```text
//!   decisions │ those of a dry run │ slot: version, seconds, applied, bytes, text as JSON │ slot │ ...
//! ```
//! There is one writer. The version of a slot is odd while the slot is written. A reader that sees an odd version, or a
//! different one afterwards, skips the slot. So a writer killed in between costs one line on the live page, and no
//! reader waits.

use super::Decision;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use units::UnixTime;

/// Number of decisions kept; older ones are in the log.
const KEPT: usize = 32;
/// Length of a text in words. Longer texts are cut.
const TEXT: usize = 96;
const VERSION: usize = 0;
const SECONDS: usize = 1;
const APPLIED: usize = 2;
const BYTES: usize = 3;
const HEAD: usize = 4;
const SLOT: usize = HEAD + TEXT;
/// Position of the first slot, after the two counts.
const SLOTS: usize = 2;

/// Number of words that [`note`] and [`Decisions::read`] need.
pub(super) const LEN: usize = SLOTS + KEPT * SLOT;

/// A recorded decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Time of the decision, in whole seconds.
    pub at: UnixTime,
    /// The decision.
    pub decision: Decision,
    /// Whether it is in force; false for a dry run.
    pub applied: bool,
}

/// The last decisions, and how many there were in all.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    /// Newest first.
    last: Vec<Noted>,
    count: u64,
    dry_run: u64,
}

impl Decisions {
    /// Reads the current decisions.
    pub(super) fn read(words: &[AtomicU64]) -> Decisions {
        let count = words[0].load(Ordering::Acquire);
        let kept = count.min(KEPT as u64);
        let last = (count - kept..count)
            .rev()
            .filter_map(|number| read(slot(words, number)));
        Decisions {
            last: last.collect(),
            count,
            dry_run: words[1].load(Ordering::Relaxed),
        }
    }

    /// The last decisions, newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Noted> {
        self.last.iter()
    }

    /// Number of decisions of a dry run since the start; they changed nothing.
    pub fn dry_run(&self) -> u64 {
        self.dry_run
    }

    /// Number of decisions since the start.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Records a decision. Only one thread of one process may call this.
pub(super) fn note(words: &[AtomicU64], decision: &Decision, applied: bool, wall: UnixTime) {
    let number = words[0].load(Ordering::Relaxed);
    let slot = slot(words, number);
    let version = slot[VERSION].load(Ordering::Relaxed) | 1;
    slot[VERSION].store(version, Ordering::Relaxed);
    // Readers must see the odd version before any of the data written below.
    fence(Ordering::Release);
    let text = text(decision.clone());
    slot[SECONDS].store(wall.secs.cast_unsigned(), Ordering::Relaxed);
    slot[APPLIED].store(applied.into(), Ordering::Relaxed);
    slot[BYTES].store(text.len() as u64, Ordering::Relaxed);
    for (word, bytes) in slot[HEAD..].iter().zip(text.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
    slot[VERSION].store(version + 1, Ordering::Release);
    words[1].fetch_add((!applied).into(), Ordering::Relaxed);
    words[0].store(number + 1, Ordering::Release);
}

fn slot(words: &[AtomicU64], number: u64) -> &[AtomicU64] {
    let place = (number % KEPT as u64) as usize;
    &words[SLOTS + place * SLOT..][..SLOT]
}

fn read(slot: &[AtomicU64]) -> Option<Noted> {
    let version = slot[VERSION].load(Ordering::Acquire);
    let at = |place: usize| slot[place].load(Ordering::Relaxed);
    let (secs, applied, len) = (at(SECONDS).cast_signed(), at(APPLIED) != 0, at(BYTES));
    let bytes: Vec<u8> = (HEAD..SLOT).flat_map(|place| at(place).to_le_bytes()).collect();
    // All data must be read before the version is checked again.
    fence(Ordering::Acquire);
    if version % 2 == 1 || slot[VERSION].load(Ordering::Relaxed) != version {
        return None;
    }
    let text = bytes.get(..usize::try_from(len).ok()?)?;
    let decision = serde_json::from_slice(text).ok()?;
    Some(Noted {
        at: UnixTime { secs, nanos: 0 },
        decision,
        applied,
    })
}

/// The decision as JSON, with the reason cut if the text is too long.
fn text(mut decision: Decision) -> Vec<u8> {
    loop {
        let text = serde_json::to_vec(&decision).expect("names and words always serialize");
        let Some(excess) = text.len().checked_sub(TEXT * 8 + 1) else {
            return text;
        };
        // Escaping may make the text longer than the reason, so half of the excess is cut, repeatedly.
        let mut end = decision.why.len().saturating_sub(excess / 2 + 1);
        while !decision.why.is_char_boundary(end) {
            end -= 1;
        }
        if decision.why.is_empty() {
            // Values are short. If they were not, drop them and keep the decision.
            (decision.from, decision.to) = (String::new(), String::new());
        }
        decision.why.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Knob;
    use super::*;

    fn decision(number: i64, why: &str) -> Decision {
        Decision {
            knob: Knob::IdleTimeout,
            from: String::new(),
            to: number.to_string(),
            why: why.to_owned(),
        }
    }

    fn words() -> Vec<AtomicU64> {
        (0..LEN).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn the_newest_are_kept_and_all_are_counted() {
        let words = words();
        for number in 0..100 {
            note(
                &words,
                &decision(number, "\"so\""),
                number % 4 != 3,
                UnixTime::from_secs(number - 50),
            );
        }
        let decisions = Decisions::read(&words);
        assert_eq!((decisions.count(), decisions.dry_run()), (100, 25));
        let newest: Vec<_> = decisions.newest().collect();
        assert_eq!(newest.len(), KEPT);
        let last = Noted {
            at: UnixTime::from_secs(49),
            decision: decision(99, "\"so\""),
            applied: false,
        };
        assert_eq!(newest[0], &last);
        assert!(newest[1].applied && newest[31].decision.to == "68");
    }

    #[test]
    fn what_is_half_written_is_left_out_and_what_is_too_long_is_cut() {
        let words = words();
        let long = "é\"".repeat(2000);
        note(&words, &decision(1, &long), true, UnixTime::from_secs(0));
        note(&words, &decision(2, "short"), true, UnixTime::from_secs(0));
        let decisions = Decisions::read(&words);
        let first = &decisions.newest().last().unwrap().decision;
        assert!(
            first.why.len() > 300 && long.starts_with(&first.why),
            "{}",
            first.why.len()
        );
        slot(&words, 1)[VERSION].fetch_add(1, Ordering::Relaxed);
        let decisions = Decisions::read(&words);
        let numbers: Vec<_> = decisions.newest().map(|one| one.decision.to.as_str()).collect();
        assert_eq!((decisions.count(), numbers), (2, vec!["1"]));
    }
}
