//! Details of a strategy in which servers differ. Each default is the cheapest choice.
//!
//! The choices of the servers in the documents can be switched on to measure them: heads sent separately, with Nagle's
//! algorithm (document 001), and the rest (document 002, "Optimizing the protocol processing").

use crate::shaping::Shaping;
use units::Duration;

/// How output is divided into system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writing {
    /// Sends the head with a call of its own, so that the content never shares its segment.
    pub split_head: bool,
    /// Maximum bytes per call.
    pub most: usize,
    /// For how long the worker is busy before each further call for the bytes of one response.
    pub pause: Duration,
    /// Reads files into memory and writes them from there, instead of `sendfile`.
    pub copies: bool,
}

impl Default for Writing {
    fn default() -> Writing {
        Writing {
            split_head: false,
            most: usize::MAX,
            pause: Duration::ZERO,
            copies: false,
        }
    }
}

impl Writing {
    /// Whether a call may send everything at once.
    pub(crate) fn is_free(self) -> bool {
        self == Writing::default()
    }
}

/// Details of how a strategy works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Manner {
    /// How output is divided into system calls.
    pub writing: Writing,
    /// Reads the clocks at each arrival of bytes instead of once per turn.
    pub fresh_clock: bool,
    /// A worker holds a lock shared by all workers while it accepts a connection.
    pub accept_lock: bool,
    /// For how long the worker is busy after it accepts a connection, before the first read.
    pub accept_pause: Duration,
    /// The line's rate, if output is limited to it.
    pub shaping: Option<Shaping>,
}
