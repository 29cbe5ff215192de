//! Adaptation: observations of a second go in, settings come out.
//!
//! ```text
//!   readings, counters ─▶ Window ─▶ Adaptor ─▶ Decision ─▶ log, metric, live page
//!                            │          └─▶ Settings ─▶ Knobs (shared words) ─▶ each worker's next turn
//!                            └─▶ a file, from which the same decisions come again
//! ```
//! Controllers are pure: they decide from a window and their own state, without clock or system calls. So a recorded
//! run can be examined afterwards, and a rule tried on it (`weir adapt replay`). Document 002 gives the idea (no fixed
//! strategy is best), document 000 the first rule (`keep_alive`). This file decides which controllers run, leaves
//! explicit settings alone, and makes no changes in a dry run. It does not know how a setting is applied.

mod coding;
mod decisions;
mod keep_alive;
mod knobs;
mod recording;
mod window;

pub use decisions::{Decisions, Noted};
pub use knobs::{Knobs, Settings};
pub use recording::{Decided, Line, Start};
pub use window::{MemoryState, Sample, Window};

pub use crate::config::Knob;

use crate::config::{Adapt, Concurrency, Config, LookupTime, MaxTurn};
use coding::Coding;
use keep_alive::KeepAlive;
use serde::{Deserialize, Serialize};
use units::Duration;

/// A change of a setting, and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The setting.
    #[serde(rename = "setting")]
    pub knob: Knob,
    /// The value before, as the configuration writes it.
    pub from: String,
    /// The new value.
    pub to: String,
    /// The reason, with its numbers.
    pub why: String,
}

impl Knob {
    /// Knobs that this configuration leaves to adaptation. An explicit setting is never changed, even if it equals the
    /// default.
    pub fn free_in(config: &Config) -> Vec<Knob> {
        let default = Config::default();
        let is_free = |knob: &Knob| match knob {
            Knob::IdleTimeout => {
                config.idle_timeout == default.idle_timeout && config.behavior.early_close.is_zero()
            }
            Knob::Compression => makes_codings(config),
        };
        let mut free = Knob::ALL.to_vec();
        free.retain(|knob| config.adapt != Adapt::Off && !config.said.contains(knob) && is_free(knob));
        free
    }
}

/// The controllers of a server.
#[derive(Debug)]
pub struct Adaptor {
    keep_alive: Option<KeepAlive>,
    coding: Option<Coding>,
}

impl Adaptor {
    /// Controllers for the knobs in `free`. `idle_timeout` is the configured one.
    pub fn of(free: &[Knob], idle_timeout: Duration) -> Adaptor {
        let is_free = |knob: Knob| free.contains(&knob);
        Adaptor {
            keep_alive: is_free(Knob::IdleTimeout).then(|| KeepAlive::new(idle_timeout)),
            coding: is_free(Knob::Compression).then(Coding::new),
        }
    }

    /// Takes over the configuration of a reload. Knobs that stay free keep their controller's state; knobs that become
    /// free start from the configured value; knobs that are now explicit are left alone.
    pub fn go_on(&mut self, free: &[Knob], idle_timeout: Duration) {
        let next = Adaptor::of(free, idle_timeout);
        let is_same = |keep_alive: &KeepAlive| keep_alive.configured() == idle_timeout;
        if next.keep_alive.is_none() || !self.keep_alive.as_ref().is_some_and(is_same) {
            self.keep_alive = next.keep_alive;
        }
        if next.coding.is_none() || self.coding.is_none() {
            self.coding = next.coding;
        }
    }

    /// Knobs that have a controller.
    pub fn free(&self) -> Vec<Knob> {
        let free = |knob: &Knob| match knob {
            Knob::IdleTimeout => self.keep_alive.is_some(),
            Knob::Compression => self.coding.is_some(),
        };
        Knob::ALL.into_iter().filter(free).collect()
    }

    /// Whether there is no controller.
    pub fn is_idle(&self) -> bool {
        self.keep_alive.is_none() && self.coding.is_none()
    }

    /// Gives one window to each controller. Returns their decisions.
    pub fn look(&mut self, window: &Window) -> Vec<Decision> {
        let keep_alive = self.keep_alive.as_mut().and_then(|knob| knob.look(window));
        let coding = self.coding.as_mut().and_then(|knob| knob.look(window));
        keep_alive.into_iter().chain(coding).collect()
    }

    /// The settings that follow from all decisions so far.
    pub fn settings(&self) -> Settings {
        Settings {
            keep_alive: self.keep_alive.as_ref().and_then(KeepAlive::bound),
            spares_codings: self.coding.as_ref().is_some_and(Coding::is_spared),
        }
    }
}

/// Whether a worker serves many connections at once: its turns are then the time that connections wait for each other.
pub(crate) fn takes_turns(concurrency: Concurrency) -> bool {
    matches!(
        concurrency,
        Concurrency::Loops | Concurrency::Loop | Concurrency::ProcessLoops
    )
}

/// Whether files are compressed on first use. A server that looks up each file anew has no cache for the result.
fn makes_codings(config: &Config) -> bool {
    config.compress && config.behavior.lookup == LookupTime::Cached
}

/// The longest turn allowed, if there is a limit and workers have turns.
pub(crate) fn turn_max(config: &Config) -> Option<Duration> {
    match config.max_turn {
        MaxTurn::At(span) if takes_turns(config.concurrency) => Some(span),
        MaxTurn::At(_) | MaxTurn::Off => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short_of_everything() -> Window {
        Window {
            run_queue: Some(3.0),
            io_stalled: Some(0.5),
            memory: Some(MemoryState {
                limit: 100 << 20,
                used: 99 << 20,
                files: 10 << 20,
                refaults: Some(5000.0),
            }),
            open: 300,
            ..Window::default()
        }
    }

    const LONG: Duration = Duration::from_secs(65);

    #[test]
    fn what_a_reload_sets_wins_and_what_it_leaves_alone_goes_on() {
        let mut adaptor = Adaptor::of(&Knob::ALL, LONG);
        let changed = |adaptor: &mut Adaptor| {
            (0..2)
                .flat_map(|_| adaptor.look(&short_of_everything()))
                .map(|decision| (decision.knob, decision.from))
                .collect::<Vec<_>>()
        };
        assert_eq!(changed(&mut adaptor).len(), 2);
        let before = adaptor.settings();
        assert!(before.keep_alive.is_some() && before.spares_codings);
        adaptor.go_on(&Knob::ALL, LONG);
        assert_eq!(adaptor.settings(), before, "nothing was set");
        adaptor.go_on(&[Knob::Compression], Duration::from_secs(30));
        let set = Settings {
            keep_alive: None,
            spares_codings: true,
        };
        assert_eq!(
            (adaptor.settings(), adaptor.free()),
            (set, vec![Knob::Compression])
        );
        assert_eq!(
            changed(&mut adaptor),
            [],
            "one is explicit, the other is at its minimum"
        );
        adaptor.go_on(&[Knob::IdleTimeout], Duration::from_secs(10));
        assert_eq!(adaptor.settings(), Settings::default());
        let expected = [(Knob::IdleTimeout, "10s".to_owned())];
        assert_eq!(
            changed(&mut adaptor),
            expected,
            "starting from the value configured now"
        );
        adaptor.go_on(&[], LONG);
        assert!(adaptor.is_idle() && adaptor.settings() == Settings::default());
    }
}
