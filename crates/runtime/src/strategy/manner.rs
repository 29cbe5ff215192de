//! Details of a strategy in which servers differ. Each default is the cheapest choice.
//!
//! The choices of the servers in the documents can be switched on to measure them: heads sent separately, with Nagle's
//! algorithm (document 001), and the rest (document 002, "Optimizing the protocol processing").

use super::{Concurrency, Io, StrategyError};
use crate::shaping::Shaping;

/// How output is divided into system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writing {
    /// Sends the head with a call of its own, so that the content never shares its segment.
    pub split_head: bool,
    /// Maximum bytes per call.
    pub most: usize,
    /// Reads files into memory and writes them from there, instead of `sendfile`.
    pub copies: bool,
}

impl Default for Writing {
    fn default() -> Writing {
        Writing {
            split_head: false,
            most: usize::MAX,
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
    /// The line's rate, if output is limited to it.
    pub shaping: Option<Shaping>,
}

impl Manner {
    /// Whether this strategy supports these details.
    ///
    /// # Errors
    /// If its accepting workers cannot share a lock, or if it cannot hold output back. The text names the strategies
    /// that can.
    pub(super) fn check(self, concurrency: Concurrency, io: Io) -> Result<(), StrategyError> {
        if self.shaping.is_some() && !concurrency.can_shape() {
            let text = format!("`{concurrency}` cannot limit the line's rate; use loops or loop");
            return Err(StrategyError { text });
        }
        let shared = matches!(
            concurrency,
            Concurrency::Loops | Concurrency::ProcessLoops | Concurrency::Pool | Concurrency::Processes
        );
        if !self.accept_lock || (shared && io != Io::Uring) {
            return Ok(());
        }
        let why = if io == Io::Uring {
            "io_uring accepts by itself"
        } else {
            "only one thread accepts"
        };
        Err(StrategyError {
            text: format!(
                "a lock around accept has no effect on `{concurrency}` with `{io}`, because {why}; use it \
                 with loops, process-loops (epoll), pool or processes"
            ),
        })
    }
}
