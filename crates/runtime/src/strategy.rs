//! The strategies, their names, and the valid combinations.
//!
//! A strategy is a value: this module parses, compares and prints it, and [`serve()`] starts it.

mod per_connection;
mod per_request;
mod serve;

pub use crate::io::refusal::{Refusal, try_uring};
pub use crate::manner::{Manner, Writing};
pub use serve::{Counts, Handle, Limits, serve, serve_as};
use std::fmt;
use std::num::NonZeroUsize;

units::words! {
    /// How connections map to threads and processes.
    #[derive(Default)]
    pub enum Concurrency {
        /// One event loop per worker thread, each with its own connections.
        #[default]
        Loops = "loops",
        /// A single event loop.
        Loop = "loop",
        /// A fixed number of processes with one event loop each, which share their listeners.
        ProcessLoops = "process-loops",
        /// Threads that each serve one connection at a time.
        Pool = "pool",
        /// One accepting thread, and one thread per connection, which ends with it.
        ThreadPerConnection = "thread-per-connection",
        /// One thread that waits for requests, and one thread per request, which ends with it.
        ThreadPerRequest = "thread-per-request",
        /// Processes that each serve one connection at a time; their number follows the load.
        Processes = "processes",
    }
}

units::words! {
    /// The I/O back end.
    pub enum Io {
        /// Readiness, edge-triggered.
        Epoll = "epoll",
        /// Completion: io_uring, if the kernel allows it ([`try_uring()`]).
        Uring = "uring",
        /// Blocking system calls.
        Blocking = "blocking",
    }
}

impl Concurrency {
    /// Whether its workers are processes, which a [`crate::process::prefork::Prefork`] forks and supervises.
    pub const fn is_of_processes(self) -> bool {
        matches!(self, Concurrency::ProcessLoops | Concurrency::Processes)
    }

    /// Whether it can hold output back until the line is free and choose the order. That takes workers that each send
    /// for many connections without blocking on one, all in the process that holds the budget.
    pub const fn can_shape(self) -> bool {
        matches!(self, Concurrency::Loops | Concurrency::Loop)
    }

    /// Whether connections that its sessions open can stay open for other sessions ([`crate::peer`]). That takes workers that
    /// each wait for many sockets at once; with others, a connection ends with its session at the latest.
    pub const fn keeps_peers(self) -> bool {
        matches!(
            self,
            Concurrency::Loops | Concurrency::Loop | Concurrency::ProcessLoops
        )
    }

    /// The best I/O back end that it can use on every machine.
    pub const fn best_io(self) -> Io {
        match self {
            Concurrency::Loops | Concurrency::Loop | Concurrency::ProcessLoops => Io::Epoll,
            Concurrency::Pool
            | Concurrency::ThreadPerConnection
            | Concurrency::ThreadPerRequest
            | Concurrency::Processes => Io::Blocking,
        }
    }

    /// The I/O back ends it can use, best first.
    pub fn valid_io(self) -> impl Iterator<Item = Io> {
        COMBINATIONS
            .into_iter()
            .filter(move |(concurrency, _)| *concurrency == self)
            .map(|(_, io)| io)
    }
}

/// The valid combinations, the best of each strategy first.
pub const COMBINATIONS: [(Concurrency, Io); 9] = [
    (Concurrency::Loops, Io::Epoll),
    (Concurrency::Loops, Io::Uring),
    (Concurrency::Loop, Io::Epoll),
    (Concurrency::Loop, Io::Uring),
    (Concurrency::ProcessLoops, Io::Epoll),
    (Concurrency::Pool, Io::Blocking),
    (Concurrency::ThreadPerConnection, Io::Blocking),
    (Concurrency::ThreadPerRequest, Io::Blocking),
    (Concurrency::Processes, Io::Blocking),
];

/// [`COMBINATIONS`] as text.
pub fn combinations() -> String {
    let valid: Vec<String> = COMBINATIONS
        .iter()
        .map(|(concurrency, io)| format!("{concurrency} with {io}"))
        .collect();
    valid.join(", ")
}

/// A valid strategy, ready to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strategy {
    concurrency: Concurrency,
    io: Io,
    workers: NonZeroUsize,
    pinned: bool,
    manner: Manner,
}

impl Strategy {
    /// Combines the parts.
    ///
    /// # Errors
    /// If the combination is invalid; the text names the valid ones.
    pub fn new(concurrency: Concurrency, io: Io, workers: NonZeroUsize) -> Result<Strategy, StrategyError> {
        if !COMBINATIONS.contains(&(concurrency, io)) {
            let text = format!(
                "`{concurrency}` cannot use `{io}`; valid combinations: {}",
                combinations()
            );
            return Err(StrategyError { text });
        }
        if concurrency == Concurrency::Loop && workers.get() > 1 {
            let text =
                format!("`loop` is a single event loop and cannot have {workers} workers; use `loops`");
            return Err(StrategyError { text });
        }
        Ok(Strategy {
            concurrency,
            io,
            workers,
            pinned: false,
            manner: Manner::default(),
        })
    }

    /// Pins each worker to a processor of its own, as far as there are enough processors.
    #[must_use]
    pub fn pinned(self, pinned: bool) -> Strategy {
        Strategy { pinned, ..self }
    }

    /// Sets how the strategy works in detail.
    ///
    /// # Errors
    /// If the strategy does not support it; the text names those that do.
    pub fn in_manner(self, manner: Manner) -> Result<Strategy, StrategyError> {
        manner.check(self.concurrency, self.io)?;
        Ok(Strategy { manner, ..self })
    }

    /// How connections map to threads and processes.
    pub fn concurrency(self) -> Concurrency {
        self.concurrency
    }

    /// The I/O back end.
    pub fn io(self) -> Io {
        self.io
    }

    /// Number of threads or processes that serve connections; if the load decides, the maximum.
    pub fn workers(self) -> usize {
        self.workers.get()
    }

    /// The strategy that runs inside one process of a strategy of processes.
    #[must_use]
    pub fn of_one_process(self) -> Strategy {
        Strategy {
            workers: NonZeroUsize::MIN,
            ..self
        }
    }
}

/// Why a name or a combination is not a valid strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyError {
    text: String,
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StrategyError {}

impl Manner {
    /// Whether this strategy supports these details.
    ///
    /// # Errors
    /// If its accepting workers cannot share a lock, or if it cannot hold output back. The text names the strategies
    /// that can.
    fn check(self, concurrency: Concurrency, io: Io) -> Result<(), StrategyError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use units::Word as _;

    #[test]
    fn what_does_not_go_together_is_refused_with_what_does() {
        let two = NonZeroUsize::new(2).unwrap();
        for &concurrency in Concurrency::ALL {
            assert_eq!(concurrency.valid_io().next(), Some(concurrency.best_io()));
            for &io in Io::ALL {
                let strategy = Strategy::new(concurrency, io, NonZeroUsize::MIN);
                assert_eq!(strategy.is_ok(), COMBINATIONS.contains(&(concurrency, io)));
            }
        }
        let error = Strategy::new(Concurrency::Pool, Io::Epoll, two)
            .unwrap_err()
            .to_string();
        assert!(error.contains("pool with blocking"), "{error}");
        assert!(Strategy::new(Concurrency::Loop, Io::Epoll, two).is_err());
    }
}
