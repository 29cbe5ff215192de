//! Which strategy a configuration means on this machine, and why. Decides; starts nothing.

use crate::cli::Failure;
use server::config::{Concurrency, Config, IoKind, Workers};

/// Threads of a blocking pool per usable core: each waits most of the time for its one client, so
/// there must be many more of them than cores.
const POOL_THREADS_PER_CORE: usize = 64;

/// A strategy with nothing left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) concurrency: Concurrency,
    /// Never `Auto`.
    pub(crate) io: IoKind,
    pub(crate) workers: usize,
    /// The reason of each of the three, in this order.
    pub(crate) why: [String; 3],
}

/// Decides for a machine with this many usable cores.
///
/// # Errors
/// `Usage` for combinations that cannot be.
pub(crate) fn choose(config: &Config, cores: usize) -> Result<Choice, Failure> {
    let concurrency = config.concurrency;
    let (why_concurrency, native, why_native) = match concurrency {
        Concurrency::Loops => (
            "an event loop per worker: no connection is shared, so nothing is locked",
            IoKind::Epoll,
            "event loops wait for readiness",
        ),
        Concurrency::Loop => (
            "a single event loop, as configured",
            IoKind::Epoll,
            "an event loop waits for readiness",
        ),
        Concurrency::Pool => (
            "threads that serve one connection at a time, as configured",
            IoKind::Blocking,
            "the threads of a pool wait in the call itself",
        ),
    };
    let why_io = if config.io == IoKind::Auto {
        why_native.to_owned()
    } else if config.io == native {
        "as configured".to_owned()
    } else {
        return Err(Failure::Usage(format!(
            "`--concurrency {concurrency}` cannot use `--io {}`: {why_native}; use `--io {native}` or leave it out",
            config.io
        )));
    };
    let (workers, why_workers) = match (concurrency, config.workers) {
        (Concurrency::Loop, Workers::Fixed(count)) if count.get() > 1 => {
            return Err(Failure::Usage(format!(
                "`--concurrency loop` is a single event loop and cannot have {count} workers; use `--concurrency loops`"
            )));
        }
        (Concurrency::Loop, _) => (1, "a single loop has one".to_owned()),
        (_, Workers::Fixed(count)) => (count.get(), "as configured".to_owned()),
        (Concurrency::Loops, Workers::Auto) => (cores, "one per usable core".to_owned()),
        (Concurrency::Pool, Workers::Auto) => (
            cores * POOL_THREADS_PER_CORE,
            format!("{POOL_THREADS_PER_CORE} per usable core, because each waits for one client"),
        ),
    };
    Ok(Choice {
        concurrency,
        io: native,
        workers,
        why: [why_concurrency.to_owned(), why_io, why_workers],
    })
}

impl Choice {
    /// The reasons in one line.
    pub(crate) fn why(&self) -> String {
        let [concurrency, io, workers] = &self.why;
        format!(
            "{}: {concurrency}; {}: {io}; {} {}: {workers}",
            self.concurrency,
            self.io,
            self.workers,
            if self.workers == 1 { "worker" } else { "workers" },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(concurrency: &str, io: &str, workers: &str) -> Result<(String, String, usize), String> {
        let config = Config {
            concurrency: concurrency.parse()?,
            io: io.parse()?,
            workers: workers.parse()?,
            ..Config::default()
        };
        choose(&config, 4)
            .map(|choice| {
                (
                    choice.concurrency.to_string(),
                    choice.io.to_string(),
                    choice.workers,
                )
            })
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn nothing_is_left_open() {
        for (asked, got) in [
            (("loops", "auto", "auto"), ("loops", "epoll", 4)),
            (("loops", "epoll", "2"), ("loops", "epoll", 2)),
            (("loop", "auto", "auto"), ("loop", "epoll", 1)),
            (("loop", "auto", "1"), ("loop", "epoll", 1)),
            (("pool", "auto", "auto"), ("pool", "blocking", 256)),
            (("pool", "blocking", "10"), ("pool", "blocking", 10)),
        ] {
            let wanted = (got.0.to_owned(), got.1.to_owned(), got.2);
            assert_eq!(check(asked.0, asked.1, asked.2), Ok(wanted), "{asked:?}");
        }
    }

    #[test]
    fn contradictions_are_refused_with_a_way_out() {
        for (asked, fragment) in [
            (("pool", "epoll", "auto"), "use `--io blocking`"),
            (("loops", "blocking", "auto"), "use `--io epoll`"),
            (("loop", "auto", "3"), "use `--concurrency loops`"),
        ] {
            let error = check(asked.0, asked.1, asked.2).expect_err("a contradiction");
            assert!(error.contains(fragment), "{asked:?}: {error}");
        }
    }
}
