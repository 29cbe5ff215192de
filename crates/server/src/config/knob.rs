//! The settings that adaptation may change, and the keys that set them explicitly.

use serde::{Deserialize, Serialize};

/// A setting that adaptation can change while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// The idle timeout of connections.
    IdleTimeout,
    /// Compression on first use.
    Compression,
}

impl Knob {
    /// Every knob.
    pub const ALL: [Knob; 2] = [Knob::IdleTimeout, Knob::Compression];

    /// The name in logs, metrics and recordings.
    pub fn name(self) -> &'static str {
        match self {
            Knob::IdleTimeout => "idle-timeout",
            Knob::Compression => "compression",
        }
    }

    /// Configuration keys that set this knob explicitly, as (table, key).
    pub fn keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Knob::IdleTimeout => &[("", "idle-timeout"), ("behavior", "early-close")],
            Knob::Compression => &[("", "compress")],
        }
    }
}
