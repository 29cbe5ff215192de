//! How a strategy goes about its work where servers differ: each default is what costs least.
//!
//! What the servers of the documents did otherwise can be switched on to be measured (document 001 on heads
//! sent apart and Nagle's algorithm; document 002, "Optimizing the protocol processing", on the rest).

use super::{Concurrency, Io, StrategyError};
use crate::shaping::Shaping;

/// How output is cut into system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writing {
    /// A head goes out by a call of its own, so that the content never shares its segment.
    pub split_head: bool,
    /// Bytes of one call at the most.
    pub most: usize,
    /// Files are read into memory and written from there, in place of `sendfile`.
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
    /// Whether nothing bounds what goes out at once.
    pub(crate) fn is_free(self) -> bool {
        self == Writing::default()
    }
}

/// How a strategy goes about its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Manner {
    /// How output is cut into system calls.
    pub writing: Writing,
    /// The clocks are read for each arrival of bytes, not once a turn.
    pub fresh_clock: bool,
    /// Whoever accepts a connection holds a lock meanwhile that all workers share.
    pub accept_lock: bool,
    /// The line's rate, if what is sent is held to it.
    pub shaping: Option<Shaping>,
}

impl Manner {
    /// Whether this strategy can go about it like this.
    ///
    /// # Errors
    /// If it has several workers that accept, and the lock cannot be between them; if it cannot hold output back; the
    /// text names which can.
    pub(super) fn check(self, concurrency: Concurrency, io: Io) -> Result<(), StrategyError> {
        if self.shaping.is_some() && !concurrency.can_shape() {
            let text =
                format!("`{concurrency}` cannot limit the line's rate; use loops or loop");
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
                "a lock around accept means nothing to `{concurrency}` with `{io}`, where {why}; it goes \
                 with loops, process-loops (epoll), pool and processes"
            ),
        })
    }
}
