//! Whether requests may be refused: not at all, or as many as keep a worker's turns short.
//!
//! At more than it can do a server that takes everything on makes everybody wait: its queue grows until connections run
//! out, and what it answers comes too late for whoever asked. Refusing a part at once lets it answer the rest in time.
//! This controller decides when that begins and ends, from how long workers had a queue that stands (`queue`, CoDel's test);
//! how many are refused decides each worker each turn (`gate`), as a second is far too long to wait for that.
//!
//! ```text
//!               behind twice
//!   Open ────────────────────▶ Guarded ◀─┐ anybody was refused, or a worker is behind: not calm
//!     ▲                           │  └───┘
//!     └── calm for `patience` windows: what came then was no more than it can do; behind again soon: patience doubles
//! ```
//! The mean time of answers, which it looked at first, tells nothing: with cheap answers a full turn takes 5 ms, however many
//! connections wait for the next, and on a cold disk answers take 15 ms with nobody in line.

use super::{Decision, Knob, Window};
use crate::config::show_duration;
use crate::queue::TARGET as LONG;
use measure::Duration;

/// How long a turn may last while it holds: a connection that is ready waits for a few turns, and for nobody longer than people
/// notice.
pub(super) const TARGET: Duration = Duration::from_millis(5);
/// One worker has a standing queue for half of the time, or several for a part of it, when the server is behind.
const QUEUED_MIN: f64 = 0.5;
/// Windows in a row in which it is behind before anything is done.
const BEHIND_MIN: u32 = 2;
/// With fewer answers a second it is not requests that there are too many of: a disk is slow for a few alone.
const ANSWERS_MIN: f64 = 100.0;
const PATIENCE: u32 = 5;
const PATIENCE_MAX: u32 = 160;

#[derive(Debug)]
pub(super) struct Admission {
    state: State,
    patience: u32,
}

#[derive(Debug)]
enum State {
    Open {
        /// Windows in a row in which it was behind.
        behind: u32,
        /// Windows since it was last guarded.
        since: u32,
    },
    Guarded {
        calm: u32,
    },
}

impl Admission {
    pub(super) fn new() -> Admission {
        Admission {
            state: State::Open {
                behind: 0,
                since: u32::MAX,
            },
            patience: PATIENCE,
        }
    }

    /// How long a turn may last, while that is bounded.
    pub(super) fn target(&self) -> Option<Duration> {
        match self.state {
            State::Open { .. } => None,
            State::Guarded { .. } => Some(TARGET),
        }
    }

    pub(super) fn look(&mut self, window: &Window) -> Option<Decision> {
        let queued = window
            .queued
            .filter(|queued| *queued >= QUEUED_MIN && window.requests >= ANSWERS_MIN);
        match &mut self.state {
            State::Open { behind, since } => {
                *since = since.saturating_add(1);
                let Some(queued) = queued else {
                    *behind = 0;
                    return None;
                };
                *behind += 1;
                if *behind < BEHIND_MIN {
                    return None;
                }
                if *since <= self.patience {
                    self.patience = (self.patience * 2).min(PATIENCE_MAX);
                }
                self.state = State::Guarded { calm: 0 };
                let why = format!(
                    "{:.0} % of the time whoever was ready waited at least {} for a worker, {:.0} answers a second, {:.2} \
                     processors busy, {} connections",
                    queued * 100.0,
                    show_duration(LONG),
                    window.requests,
                    window.cpu,
                    window.open
                );
                Some(decision("all requests", &guarded(), why))
            }
            State::Guarded { calm } => {
                let is_calm = queued.is_none() && window.refused.unwrap_or(0.0) < 1.0;
                *calm = if is_calm { *calm + 1 } else { 0 };
                if *calm < self.patience {
                    return None;
                }
                let why = format!("{calm} windows in which nobody had to be refused");
                self.state = State::Open { behind: 0, since: 0 };
                Some(decision(&guarded(), "all requests", why))
            }
        }
    }
}

fn guarded() -> String {
    format!("turns of {}", show_duration(TARGET))
}

fn decision(from: &str, to: &str, why: String) -> Decision {
    Decision {
        knob: Knob::Admission,
        from: from.to_owned(),
        to: to.to_owned(),
        why,
    }
}

#[cfg(test)]
mod simulated;

#[cfg(test)]
mod tests {
    use super::*;

    fn window(queued: f64, requests: f64, refused: f64) -> Window {
        Window {
            queued: Some(queued),
            requests,
            refused: Some(refused),
            ..Window::default()
        }
    }

    #[test]
    fn it_begins_when_a_queue_stands_and_ends_when_nobody_is_refused() {
        let mut admission = Admission::new();
        let fine = window(0.0, 5000.0, 0.0);
        let behind = window(0.96, 5000.0, 0.0);
        let refusing = window(0.0, 9000.0, 4000.0);
        assert_eq!(admission.look(&behind), None, "one window alone is nothing");
        assert_eq!(admission.look(&fine), None);
        assert_eq!(admission.look(&behind), None);
        let begun = admission.look(&behind).expect("a decision");
        assert_eq!(begun.to, "turns of 5ms");
        for part in ["96 % of the time", "50ms", "5000 answers a second"] {
            assert!(begun.why.contains(part), "{}", begun.why);
        }
        assert_eq!(admission.target(), Some(TARGET));
        assert!(
            (0..50).all(|_| admission.look(&refusing).is_none()),
            "that is what it is for"
        );
        let ended: Vec<_> = (0..PATIENCE).filter_map(|_| admission.look(&fine)).collect();
        assert_eq!((ended.len(), admission.target()), (1, None));
    }

    #[test]
    fn a_slow_disk_with_few_requests_is_no_queue_and_what_is_not_known_is_none() {
        let mut admission = Admission::new();
        let disk = window(0.9, 20.0, 0.0);
        let unknown = Window {
            requests: 5000.0,
            ..Window::default()
        };
        assert!((0..20).all(|_| admission.look(&disk).is_none() && admission.look(&unknown).is_none()));
    }

    /// A load that is too much whenever it is let in, and not seen while it is kept out.
    #[test]
    fn it_does_not_swing() {
        let mut admission = Admission::new();
        let mut changes = Vec::new();
        for second in 0..2000 {
            let now = match admission.target() {
                None => window(0.9, 5000.0, 0.0),
                Some(_) => window(0.0, 5000.0, 0.0),
            };
            if admission.look(&now).is_some() {
                changes.push(second);
            }
        }
        let in_the_end = changes.iter().filter(|second| **second >= 1000).count();
        assert!(
            in_the_end <= 16,
            "{in_the_end} changes in 1000 seconds: {changes:?}"
        );
    }
}
