//! The settings that adaptation may change, and the keys that set them explicitly.

use serde::{Deserialize, Serialize};

/// A setting that adaptation can change while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// The idle timeout of connections.
    KeepAlive,
    /// Compression on first use.
    Coding,
}

impl Knob {
    /// Every knob.
    pub const ALL: [Knob; 2] = [Knob::KeepAlive, Knob::Coding];

    /// The name in logs, metrics and recordings.
    pub fn name(self) -> &'static str {
        match self {
            Knob::KeepAlive => "keep-alive",
            Knob::Coding => "coding",
        }
    }

    /// Configuration keys that set this knob explicitly, as (table, key).
    pub fn keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Knob::KeepAlive => &[("", "idle-timeout"), ("behavior", "early-close")],
            Knob::Coding => &[("", "compress")],
        }
    }
}
