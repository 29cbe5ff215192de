//! Which events of a peer are metered, each by a token bucket of its own.

use crate::error::{Code, Fault};
use crate::limits::Limits;
use units::{Bucket, Instant};

/// What is metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Reset,
    Provoked,
    Control,
    Priority,
    Empty,
}

const KINDS: usize = Kind::Empty as usize + 1;

/// The buckets of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Floods([Bucket; KINDS]);

impl Floods {
    /// Takes one token.
    ///
    /// # Errors
    /// The bucket is empty: a connection error H3_EXCESSIVE_LOAD.
    pub(crate) fn charge(&mut self, kind: Kind, limits: &Limits, now: Instant) -> Result<(), Fault> {
        let (allowance, text) = match kind {
            Kind::Reset => (limits.resets, "too many RESET_STREAM or STOP_SENDING"),
            Kind::Provoked => (limits.provoked, "too many stream errors"),
            Kind::Control => (limits.control, "too many GOAWAY, MAX_PUSH_ID or unknown streams"),
            Kind::Priority => (limits.priorities, "too many PRIORITY_UPDATE"),
            Kind::Empty => (limits.empty, "too many empty or unknown frames"),
        };
        match self.0[kind as usize].take(allowance, now) {
            true => Ok(()),
            false => Err(Fault::Connection(Code::EXCESSIVE_LOAD, text)),
        }
    }
}
