//! The server that notices and changes: what was sensed in a second goes in, settings come out.
//!
//! ```text
//!   readings, counters ─▶ Window ─▶ Adaptor ─▶ Decision ─▶ log, metric, live page
//!                            │          └─▶ Settings ─▶ Knobs (shared words) ─▶ each worker's next turn
//!                            └─▶ a file, from which the same decisions come again
//! ```
//! Controllers are pure: a window and what they remember decide, no clock and no system is asked. So a recorded run
//! can be looked into afterwards, and a rule tried on it (`weir adapt replay`). Document 002 gives the idea (no fixed
//! strategy is best), document 000 the first rule (`keep_alive`). This file decides who is asked, that what the
//! operator set stays as it is, and that a dry run changes nothing; it does not know how a knob is turned.

mod coding;
mod decisions;
mod keep_alive;
mod knobs;
mod recording;
mod window;

pub use decisions::Decisions;
pub use knobs::{Knobs, Settings};
pub use recording::{Decided, Line, Start};
pub use window::{MemoryState, Sample, Window};

use crate::config::{Adapt, Concurrency, Config, LookupTime, MaxTurn};
use coding::Coding;
use keep_alive::KeepAlive;
use measure::Duration;
use serde::{Deserialize, Serialize};

/// A change, and what led to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What is changed.
    pub knob: Knob,
    /// Its value before, as the configuration writes it.
    pub from: String,
    /// Its value from now on.
    pub to: String,
    /// The numbers that led to it.
    pub why: String,
}

/// What can be changed while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// How long a connection that was answered may be idle.
    KeepAlive,
    /// Whether codings are made on first use.
    Coding,
}

impl Knob {
    /// All there are.
    pub const ALL: [Knob; 2] = [Knob::KeepAlive, Knob::Coding];

    /// As the configuration and the metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Knob::KeepAlive => "keep-alive",
            Knob::Coding => "coding",
        }
    }
}

/// All controllers.
#[derive(Debug)]
pub struct Adaptor {
    keep_alive: Option<KeepAlive>,
    coding: Option<Coding>,
    settings: Settings,
}

impl Adaptor {
    /// The controllers that this configuration leaves free: a knob whose value the operator has set is his.
    pub fn new(config: &Config) -> Adaptor {
        let on = config.adapt != Adapt::Off;
        let pinned =
            config.idle_timeout != Config::default().idle_timeout || !config.behavior.early_close.is_zero();
        Adaptor {
            keep_alive: (on && !pinned).then(|| KeepAlive::new(config.idle_timeout)),
            coding: (on && makes_codings(config)).then(Coding::new),
            settings: Settings::default(),
        }
    }

    /// Of these knobs, where a connection may be idle for so long.
    pub fn of(free: &[Knob], idle_timeout: Duration) -> Adaptor {
        let is_free = |knob: Knob| free.contains(&knob);
        Adaptor {
            keep_alive: is_free(Knob::KeepAlive).then(|| KeepAlive::new(idle_timeout)),
            coding: is_free(Knob::Coding).then(Coding::new),
            settings: Settings::default(),
        }
    }

    /// Knobs it may turn.
    pub fn free(&self) -> Vec<Knob> {
        let free = |knob: &Knob| match knob {
            Knob::KeepAlive => self.keep_alive.is_some(),
            Knob::Coding => self.coding.is_some(),
        };
        Knob::ALL.into_iter().filter(free).collect()
    }

    /// Whether anything can change.
    pub fn is_idle(&self) -> bool {
        self.keep_alive.is_none() && self.coding.is_none()
    }

    /// Looks at one window.
    pub fn look(&mut self, window: &Window) -> Vec<Decision> {
        let mut decisions = Vec::new();
        if let Some(keep_alive) = &mut self.keep_alive
            && let Some(decision) = keep_alive.look(window)
        {
            self.settings.keep_alive = keep_alive.bound();
            decisions.push(decision);
        }
        if let Some(coding) = &mut self.coding
            && let Some(decision) = coding.look(window)
        {
            self.settings.spares_codings = coding.is_spared();
            decisions.push(decision);
        }
        decisions
    }

    /// What the decisions so far come to.
    pub fn settings(&self) -> Settings {
        self.settings
    }
}

/// Whether a worker has many connections: the length of its turns is then how long they wait for each other.
pub(crate) fn takes_turns(concurrency: Concurrency) -> bool {
    matches!(
        concurrency,
        Concurrency::Loops | Concurrency::Loop | Concurrency::ProcessLoops
    )
}

/// Whether text is compressed on first use: a server that looks for each file anew has nowhere to keep it.
fn makes_codings(config: &Config) -> bool {
    config.compress && config.behavior.lookup == LookupTime::Cached
}

/// How long a worker's turn may last, where workers take turns and that is bounded.
pub(crate) fn turn_max(config: &Config) -> Option<Duration> {
    match config.max_turn {
        MaxTurn::At(span) if takes_turns(config.concurrency) => Some(span),
        MaxTurn::At(_) | MaxTurn::Off => None,
    }
}
