//! Which strategies there are, how they are called, and which combinations make sense.
//!
//! A strategy is a value: it is parsed, compared and printed here and started by [`serve()`].

mod serve;

pub use crate::io::refusal::{Refusal, try_uring};
pub use serve::{Counts, Handle, Limits, serve};
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// How connections are spread over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// One event loop per worker thread, each with its own connections.
    Loops,
    /// A single event loop.
    Loop,
    /// Threads that serve one connection at a time.
    Pool,
}

/// How bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Io {
    /// Readiness, edge-triggered.
    Epoll,
    /// Completion: io_uring, where the kernel lets us ([`try_uring()`]).
    Uring,
    /// The thread waits in the call.
    Blocking,
}

impl Concurrency {
    /// All there are.
    pub const ALL: [Concurrency; 3] = [Concurrency::Loops, Concurrency::Loop, Concurrency::Pool];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Concurrency::Loops => "loops",
            Concurrency::Loop => "loop",
            Concurrency::Pool => "pool",
        }
    }
}

impl Io {
    /// All there are.
    pub const ALL: [Io; 3] = [Io::Epoll, Io::Uring, Io::Blocking];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Io::Epoll => "epoll",
            Io::Uring => "uring",
            Io::Blocking => "blocking",
        }
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Concurrency {
    type Err = StrategyError;
    fn from_str(text: &str) -> Result<Concurrency, StrategyError> {
        let found = Concurrency::ALL.into_iter().find(|known| known.name() == text);
        found.ok_or_else(|| {
            StrategyError::unknown(
                "concurrency strategy",
                text,
                Concurrency::ALL.map(Concurrency::name),
            )
        })
    }
}

impl FromStr for Io {
    type Err = StrategyError;
    fn from_str(text: &str) -> Result<Io, StrategyError> {
        let found = Io::ALL.into_iter().find(|known| known.name() == text);
        found.ok_or_else(|| StrategyError::unknown("I/O strategy", text, Io::ALL.map(Io::name)))
    }
}

/// The combinations that make sense, the best for each concurrency first.
pub const COMBINATIONS: [(Concurrency, Io); 5] = [
    (Concurrency::Loops, Io::Epoll),
    (Concurrency::Loops, Io::Uring),
    (Concurrency::Loop, Io::Epoll),
    (Concurrency::Loop, Io::Uring),
    (Concurrency::Pool, Io::Blocking),
];

/// A strategy that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strategy {
    concurrency: Concurrency,
    io: Io,
    workers: NonZeroUsize,
    pinned: bool,
}

impl Strategy {
    /// Combines the parts.
    ///
    /// # Errors
    /// If they do not go together; the text names what does.
    pub fn new(concurrency: Concurrency, io: Io, workers: NonZeroUsize) -> Result<Strategy, StrategyError> {
        if !COMBINATIONS.contains(&(concurrency, io)) {
            let valid: Vec<String> = COMBINATIONS
                .iter()
                .map(|(c, io)| format!("{c} with {io}"))
                .collect();
            let text = format!(
                "`{concurrency}` cannot use `{io}`; what goes together: {}",
                valid.join(", ")
            );
            return Err(StrategyError { text });
        }
        if concurrency == Concurrency::Loop && workers.get() > 1 {
            let text =
                format!("`loop` is a single event loop and cannot have {workers} workers; `loops` can");
            return Err(StrategyError { text });
        }
        Ok(Strategy {
            concurrency,
            io,
            workers,
            pinned: false,
        })
    }

    /// Keeps each worker on a processor of its own, as far as there are enough.
    #[must_use]
    pub fn pinned(self, pinned: bool) -> Strategy {
        Strategy { pinned, ..self }
    }

    /// How connections are spread over threads.
    pub fn concurrency(self) -> Concurrency {
        self.concurrency
    }

    /// How bytes are moved.
    pub fn io(self) -> Io {
        self.io
    }

    /// How many threads have connections.
    pub fn workers(self) -> usize {
        self.workers.get()
    }
}

/// Why a text or a combination is no strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyError {
    text: String,
}

impl StrategyError {
    fn unknown<const N: usize>(what: &str, text: &str, known: [&str; N]) -> StrategyError {
        StrategyError {
            text: format!("`{text}` is no {what}; there are: {}", known.join(", ")),
        }
    }
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StrategyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_wrong_ones_name_the_right_ones() {
        for concurrency in Concurrency::ALL {
            assert_eq!(concurrency.to_string().parse(), Ok(concurrency));
        }
        for io in Io::ALL {
            assert_eq!(io.to_string().parse(), Ok(io));
        }
        let error = "lops".parse::<Concurrency>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`lops` is no concurrency strategy; there are: loops, loop, pool"
        );
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_what_does() {
        let two = NonZeroUsize::new(2).unwrap();
        for concurrency in Concurrency::ALL {
            for io in Io::ALL {
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
