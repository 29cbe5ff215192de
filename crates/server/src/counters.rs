//! What a worker counts, readable by others without stopping it.
//!
//! Each worker is the only writer of its own counters, so an increment is a load and a store, no
//! locked instruction. Readers see every value whole but not all values of one instant.

use crate::latency::{Durations, Latencies};
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A count with one writer.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`. Only the worker that owns the counters calls this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The value now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident),* $(,)?) => {
        /// One worker's counters.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[doc = $doc])+ pub $name: Count),* }

        /// The sum over workers at (nearly) one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals { $($(#[doc = $doc])+ pub $name: u64),* }

        impl Totals {
            /// Every counter's name and what it counts, in order of declaration.
            pub const HELP: &[(&'static str, &'static str)] =
                &[$((stringify!($name), concat!($($doc),+))),*];

            fn add(&mut self, one: &Counters) {
                $(self.$name = self.$name.wrapping_add(one.$name.get());)*
            }

            /// Every counter with its name, in order of declaration.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Connections accepted.
    accepted,
    /// Connections refused over the bound on all connections.
    refused_total,
    /// Connections refused over the bound of one address.
    refused_address,
    /// Connections closed.
    closed,
    /// Requests answered, with whatever status.
    requests,
    /// Answers 1xx.
    informational,
    /// Answers 2xx.
    successful,
    /// Answers 3xx.
    redirected,
    /// Answers 4xx.
    client_errors,
    /// Answers 5xx.
    server_errors,
    /// Requests refused because their address made too many.
    too_many,
    /// Bytes of answers handed to the kernel, heads included.
    bytes_sent,
    /// Requests answered from the worker's view of the cache.
    hits,
    /// Requests that waited for a job: a cold file, a new coding.
    loads,
    /// Connections ended by a timeout.
    timeouts,
    /// Answers that did not reach the peer whole because the connection was lost.
    aborted,
    /// Answers cut short because their file ended early or could not be read.
    truncated,
    /// Access log lines that could not be kept.
    log_dropped,
}

/// The counters of all workers.
#[derive(Debug, Default)]
pub struct Board {
    workers: Mutex<Vec<Seat>>,
    /// Of those who have left.
    before: Mutex<(Totals, Durations)>,
}

/// What one worker writes for all to read.
#[derive(Clone, Debug, Default)]
pub struct Seat {
    /// Its counters.
    pub counters: Arc<CachePadded<Counters>>,
    /// How long its answers took.
    pub latencies: Arc<Latencies>,
}

impl Board {
    /// Counters for one more worker.
    pub fn join(&self) -> Seat {
        let seat = Seat::default();
        self.workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(seat.clone());
        seat
    }

    /// How long the answers of all workers took.
    pub fn durations(&self) -> Durations {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut durations = self
            .before
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .clone();
        for one in workers.iter() {
            durations.take_in(&one.latencies);
        }
        durations
    }

    /// Keeps the sum of a worker that ends, and nothing else of it: some live as short as a connection.
    pub fn leave(&self, counters: &Arc<CachePadded<Counters>>) {
        // Both locks, in the order `totals` takes them, so that nothing is counted twice or not at all.
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = workers
            .iter()
            .position(|one| Arc::ptr_eq(&one.counters, counters))
        {
            let one = workers.remove(at);
            before.0.add(counters);
            before.1.take_in(&one.latencies);
        }
    }

    /// The sum over those who have left.
    pub fn ended(&self) -> Totals {
        self.before.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// The sum over all workers, those who have left included.
    pub fn totals(&self) -> Totals {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = self.ended();
        for one in workers.iter() {
            totals.add(&one.counters);
        }
        totals
    }

    /// Each worker's own sum, in the order they joined; not of those who have left.
    pub fn per_worker(&self) -> Vec<Totals> {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers
            .iter()
            .map(|one| {
                let mut totals = Totals::default();
                totals.add(&one.counters);
                totals
            })
            .collect()
    }
}

impl Counters {
    /// Counts an answer with this status.
    #[inline]
    pub fn answered(&self, status: u16) {
        self.requests.add(1);
        match status / 100 {
            1 => &self.informational,
            2 => &self.successful,
            3 => &self.redirected,
            4 => &self.client_errors,
            _ => &self.server_errors,
        }
        .add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_add_up() {
        let board = Board::default();
        let (a, b) = (board.join().counters, board.join().counters);
        a.answered(200);
        a.answered(304);
        b.answered(404);
        b.bytes_sent.add(7);
        let totals = board.totals();
        assert_eq!((totals.requests, totals.successful, totals.redirected), (3, 1, 1));
        assert_eq!((totals.client_errors, totals.bytes_sent), (1, 7));
        assert_eq!(board.per_worker()[1].requests, 1);
        assert_eq!(
            totals.each().find(|(n, _)| *n == "requests"),
            Some(("requests", 3))
        );
        board.leave(&b);
        assert_eq!((board.totals(), board.per_worker().len()), (totals, 1));
    }
}
