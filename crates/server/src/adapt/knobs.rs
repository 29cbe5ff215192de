//! Adapted settings, in a few words of memory that all workers of all processes read.
//!
//! ```text
//!   number of the change │ keep-alive in ms, plus one │ whether codings are spared │ decisions
//! ```
//! There is one writer. Each turn, a worker reads the first word, which costs one load of a cache line that is rarely
//! written. It reads the others when the first has changed. There is no lock, because processes share these words: a
//! killed process leaves nothing locked.

use super::{Decision, Decisions, decisions};
use runtime::shared::Words;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Duration, UnixTime};

const CHANGE: usize = 0;
const KEEP_ALIVE: usize = 1;
const CODINGS: usize = 2;
const DECISIONS: usize = 3;
const LEN: usize = DECISIONS + decisions::LEN;

/// Settings that differ from the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Idle timeout in force; `None`: as configured.
    pub keep_alive: Option<Duration>,
    /// Whether compression is paused; existing encodings are still sent.
    pub spares_codings: bool,
}

/// Handle of the shared words; clones refer to the same words.
#[derive(Clone, Debug, Default)]
pub struct Knobs(Option<Words>);

impl Knobs {
    /// Words for a server whose settings may change. Processes forked later share them.
    ///
    /// # Errors
    /// The system's error if it has no memory.
    pub fn new() -> std::io::Result<Knobs> {
        Ok(Knobs(Some(Words::new(LEN)?)))
    }

    /// Puts settings in force. Only one thread of one process may call this.
    pub fn set(&self, settings: Settings) {
        if let Some(words) = self.words() {
            let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX - 1);
            let keep_alive = settings.keep_alive.map_or(0, |span| ms(span) + 1);
            words[KEEP_ALIVE].store(keep_alive, Ordering::Relaxed);
            words[CODINGS].store(settings.spares_codings.into(), Ordering::Relaxed);
            words[CHANGE].fetch_add(1, Ordering::Release);
        }
    }

    /// Records the decisions behind a change, or behind a change that a dry run did not make (`applied` is false).
    /// `wall` is the time shown with them. Only the thread that calls [`Knobs::set`] may call this.
    pub fn note(&self, decisions: &[Decision], applied: bool, wall: UnixTime) {
        if let Some(words) = self.words() {
            for decision in decisions {
                decisions::note(&words[DECISIONS..], decision, applied, wall);
            }
        }
    }

    /// The last recorded decisions.
    pub(crate) fn decisions(&self) -> Decisions {
        self.words()
            .map_or_else(Decisions::default, |words| Decisions::read(&words[DECISIONS..]))
    }

    /// Number of changes so far.
    #[inline]
    pub(crate) fn change(&self) -> u64 {
        match self.words() {
            Some(words) => words[CHANGE].load(Ordering::Relaxed),
            None => 0,
        }
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> Settings {
        let Some(words) = self.words() else {
            return Settings::default();
        };
        // Pairs with the release in `set`: the values read are those of the change that this worker saw, or newer ones.
        words[CHANGE].load(Ordering::Acquire);
        let keep_alive = words[KEEP_ALIVE].load(Ordering::Relaxed);
        Settings {
            keep_alive: keep_alive.checked_sub(1).map(Duration::from_millis),
            spares_codings: words[CODINGS].load(Ordering::Relaxed) != 0,
        }
    }

    #[inline]
    fn words(&self) -> Option<&[AtomicU64]> {
        self.0.as_ref().map(Words::get)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Noted;
    use super::*;

    /// One process decides, and another is asked for the live page.
    #[test]
    fn who_has_the_same_words_reads_what_was_noted() {
        let knobs = Knobs::new().unwrap();
        let asked = knobs.clone();
        assert_eq!(asked.decisions().count(), 0);
        let decision = Decision {
            knob: super::super::Knob::Compression,
            from: "on first use".to_owned(),
            to: "paused".to_owned(),
            why: "so".to_owned(),
        };
        knobs.note(std::slice::from_ref(&decision), false, UnixTime::from_secs(7));
        let decisions = asked.decisions();
        let newest: Vec<_> = decisions.newest().collect();
        let noted = Noted {
            at: UnixTime::from_secs(7),
            decision: decision.clone(),
            applied: false,
        };
        assert_eq!((newest, decisions.dry_run()), (vec![&noted], 1));
        assert_eq!(asked.change(), 0, "nothing is in force");
        Knobs::default().note(&[decision], true, UnixTime::from_secs(7));
        assert_eq!(Knobs::default().decisions().count(), 0);
    }

    #[test]
    fn what_is_set_is_read_and_none_is_not_zero() {
        let knobs = Knobs::new().unwrap();
        assert_eq!((knobs.change(), knobs.settings()), (0, Settings::default()));
        for keep_alive in [Some(Duration::ZERO), Some(Duration::from_millis(250)), None] {
            let before = knobs.change();
            let settings = Settings {
                keep_alive,
                spares_codings: keep_alive.is_some(),
            };
            knobs.set(settings);
            assert_eq!(knobs.clone().settings(), settings);
            assert!(knobs.change() > before);
        }
        let fixed = Knobs::default();
        fixed.set(Settings {
            keep_alive: Some(Duration::ZERO),
            ..Settings::default()
        });
        assert_eq!((fixed.change(), fixed.settings()), (0, Settings::default()));
    }
}
