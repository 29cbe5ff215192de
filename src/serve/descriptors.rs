//! How the descriptors of the process are shared out: a system that is short of them must still serve.
//!
//! Connections get what is left after files kept open and what the process itself needs. Decides
//! numbers only; who enforces them is told.

use super::strategy::Choice;
use server::config::Config;

/// Standard streams, listeners, the log, the watcher and what a file being opened needs.
const OWN: u64 = 12;
/// Event queue, waker and listener of a worker with an event loop. Other workers have none of their own.
const PER_LOOP: u64 = 4;
/// Files kept open may have one part in this many.
const FILES_SHARE: u64 = 8;

/// What each use may have at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// What the process may have in all.
    pub(crate) total: u64,
    /// Connections open at once in one process, whatever the configuration allows.
    pub(crate) connections: u64,
    /// Processes that have connections.
    pub(crate) processes: u64,
    /// Files kept open.
    pub(crate) files: u32,
}

impl Shares {
    /// Shares of `total`. However few there are, one connection and one file can be open.
    pub(crate) fn of(total: u64, config: &Config, choice: &Choice) -> Shares {
        let files = u64::from(config.cache_files).min((total / FILES_SHARE).max(1));
        let processes = if choice.is_of_processes() {
            choice.workers as u64
        } else {
            1
        };
        let loops = match choice.is_of_loops() {
            true => choice.workers as u64 / processes,
            false => 1,
        };
        let own = OWN + PER_LOOP * loops;
        Shares {
            total,
            connections: total.saturating_sub(files + own).max(1),
            processes,
            files: u32::try_from(files).unwrap_or(u32::MAX),
        }
    }

    /// Connections open at once in all processes.
    pub(crate) fn connections_in_all(&self) -> u64 {
        self.connections.saturating_mul(self.processes)
    }

    /// Connections that can be open at once.
    pub(crate) fn can_be_open(&self, config: &Config) -> u32 {
        let most = self.connections_in_all().min(config.max_connections.into());
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// Whether connections are bounded by descriptors rather than by configuration.
    pub(crate) fn are_short(&self, config: &Config) -> bool {
        self.connections_in_all() < config.max_connections.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::strategy::choose;
    use super::*;
    use server::config::{Concurrency, Workers};
    use std::num::NonZeroUsize;

    #[test]
    fn connections_get_what_is_left() {
        let config = Config::default();
        let choice = choose(&config, 2).expect("a valid configuration");
        let of = |total| {
            let shares = Shares::of(total, &config, &choice);
            (shares.connections, shares.files, shares.are_short(&config))
        };
        assert_eq!(of(0), (1, 1, true));
        assert_eq!(of(64), (36, 8, true));
        assert_eq!(of(1024), (876, 128, true));
        assert_eq!(of(20_000), (17_932, 2048, true));
        assert_eq!(of(1 << 20), (1_046_508, 2048, false));
    }

    #[test]
    fn workers_without_an_event_loop_need_no_descriptors() {
        let config = Config {
            concurrency: Concurrency::Pool,
            workers: Workers::Fixed(NonZeroUsize::new(64).expect("not zero")),
            ..Config::default()
        };
        let choice = choose(&config, 2).expect("a valid configuration");
        assert_eq!(Shares::of(200, &config, &choice).connections, 159);
    }
}
