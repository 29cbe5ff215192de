//! Pauses compression on first use while the CPU is busy.
//!
//! Compressing costs milliseconds of CPU time once and saves bytes on the line each time the result is sent. While
//! threads of the server wait for a CPU, those milliseconds delay responses, and saved bytes do not help the clients
//! that wait. So Weir starts no compression then. It sends encodings that exist already, and otherwise the file as it
//! is.
//!
//! ```text
//!             short twice
//!   Making ───────────────▶ Sparing ◀─┐ CPU still short: not calm
//!     ▲                        │  └───┘
//!     └─ calm for `patience` windows; short again soon after that: patience doubles
//! ```
//! Patience doubles in case compression itself makes the CPU short.

use super::{Decision, Knob, Window};

/// Average number of the server's threads waiting for a CPU from which on the CPU counts as short.
const WAITING_MIN: f64 = 0.5;
/// Number of windows in a row with a short CPU before compression is paused.
const SHORT_MIN: u32 = 2;
const PATIENCE: u32 = 5;
const PATIENCE_MAX: u32 = 160;

#[derive(Debug)]
pub(super) struct Coding {
    state: State,
    patience: u32,
}

#[derive(Debug)]
enum State {
    Making {
        /// Number of windows in a row with a short CPU.
        short: u32,
        /// Number of windows since the last pause ended.
        since: u32,
    },
    Sparing {
        calm: u32,
    },
}

impl Coding {
    pub(super) fn new() -> Coding {
        Coding {
            state: State::Making {
                short: 0,
                since: u32::MAX,
            },
            patience: PATIENCE,
        }
    }

    /// Whether compression is paused.
    pub(super) fn is_spared(&self) -> bool {
        matches!(self.state, State::Sparing { .. })
    }

    pub(super) fn look(&mut self, window: &Window) -> Option<Decision> {
        // A window without this figure counts as neither short nor calm.
        let waiting = window.run_queue?;
        let is_short = waiting >= WAITING_MIN;
        match &mut self.state {
            State::Making { short, since } => {
                *since = since.saturating_add(1);
                *short = if is_short { *short + 1 } else { 0 };
                if *short < SHORT_MIN {
                    return None;
                }
                if *since <= self.patience {
                    self.patience = (self.patience * 2).min(PATIENCE_MAX);
                }
                self.state = State::Sparing { calm: 0 };
                let why = format!(
                    "CPU busy: {waiting:.1} threads waiting on average, {:.2} cores in use, {:.0} responses a second",
                    window.cpu, window.requests
                );
                Some(decision("on first use", "paused", why))
            }
            State::Sparing { calm } => {
                *calm = if is_short { 0 } else { *calm + 1 };
                if *calm < self.patience {
                    return None;
                }
                let why = format!("{calm} windows in a row with CPU to spare");
                self.state = State::Making { short: 0, since: 0 };
                Some(decision("paused", "on first use", why))
            }
        }
    }
}

fn decision(from: &str, to: &str, why: String) -> Decision {
    Decision {
        knob: Knob::Compression,
        from: from.to_owned(),
        to: to.to_owned(),
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(run_queue: Option<f64>) -> Window {
        Window {
            run_queue,
            ..Window::default()
        }
    }

    #[test]
    fn processors_that_are_short_end_it_and_free_ones_bring_it_back() {
        let mut coding = Coding::new();
        let (busy, free) = (window(Some(1.4)), window(Some(0.05)));
        assert_eq!(coding.look(&busy), None, "a single window is not enough");
        assert_eq!(coding.look(&free), None);
        assert_eq!(coding.look(&busy), None);
        let ended = coding.look(&busy).expect("a decision");
        assert!(coding.is_spared() && ended.to == "paused");
        assert!(ended.why.contains("1.4 threads"), "{}", ended.why);
        assert!((0..50).all(|_| coding.look(&busy).is_none()));
        let unknown = window(None);
        assert!(
            (0..50).all(|_| coding.look(&unknown).is_none()),
            "not known to be calm"
        );
        let decisions: Vec<_> = (0..PATIENCE).filter_map(|_| coding.look(&free)).collect();
        assert_eq!((decisions.len(), coding.is_spared()), (1, false));
        assert!(
            (0..50).all(|_| coding.look(&unknown).is_none()),
            "not known to be short"
        );
    }

    /// The CPU is short only because of compression.
    #[test]
    fn it_does_not_swing() {
        let mut coding = Coding::new();
        let mut changes = Vec::new();
        for second in 0..2000 {
            let waiting = if coding.is_spared() { 0.1 } else { 2.0 };
            if coding.look(&window(Some(waiting))).is_some() {
                changes.push(second);
            }
        }
        let in_the_end = changes.iter().filter(|second| **second >= 1000).count();
        assert!(in_the_end <= 16, "{in_the_end}: {changes:?}");
    }
}
