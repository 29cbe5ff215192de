//! How connections are spread over threads. Every strategy drives the same sessions.

pub(crate) mod helpers;
pub mod loops;
mod worker;

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Bounds of a driver.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections open at once, over all workers; further ones wait in the listen backlog.
    pub connections_max: usize,
    /// Helper threads for work that may block; they start when first needed.
    pub helpers: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 16_384,
            helpers: 4,
        }
    }
}

/// What a set of workers is to do; shared by all of them.
#[derive(Debug, Default)]
pub(crate) struct Control {
    state: AtomicU8,
    open: AtomicUsize,
}

/// The states a set of workers goes through, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Accepting and serving.
    Running,
    /// No new connections; the open ones finish what they owe.
    Draining,
    /// Everything closes now.
    Stopping,
}

impl Control {
    pub(crate) fn phase(&self) -> Phase {
        match self.state.load(Ordering::Acquire) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Stopping,
        }
    }

    pub(crate) fn advance(&self, phase: Phase) {
        self.state.fetch_max(phase as u8, Ordering::AcqRel);
    }

    /// Counts a connection in; returns how many are open now.
    pub(crate) fn opened(&self) -> usize {
        self.open.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// What one worker counted since it started. Written by the worker alone, per connection and not per
/// request; read by anyone.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections closed, however.
    pub closed: AtomicU64,
    /// Connections that failed (reset, file error, panic).
    pub lost: AtomicU64,
    /// Times accepting failed for want of descriptors or memory.
    pub accept_failures: AtomicU64,
    /// Jobs that had to leave the loop because they would have blocked it.
    pub jobs_offloaded: AtomicU64,
    /// Parts of files that were not in memory when they were to be sent.
    pub cold_reads: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64) {
    // One writer: a plain add suffices, without a locked instruction.
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
