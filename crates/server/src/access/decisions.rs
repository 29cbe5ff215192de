//! What servers that decide about requests have answered, and how fast: counts for metrics.

use crate::checked::{Answered, Unanswered};
use crate::histogram::Histogram;
use crate::proxy::direct::Gauge;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Duration;

/// Answers of one server to the requests of one rule. All threads of a process write them.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    allowed: AtomicU64,
    denied: AtomicU64,
    failed: AtomicU64,
    durations: Histogram,
    /// Its connections.
    pub(super) open: Gauge,
    opened: AtomicU64,
}

/// The answers so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecisionReport {
    /// Number of the site: 0 is the top level, others are hosts in the order of the file.
    pub(crate) site: String,
    /// Pattern of the rule.
    pub(crate) path: String,
    /// The server, without the path that it is asked for.
    pub(crate) server: String,
    /// Requests by outcome.
    pub(crate) outcomes: [(&'static str, u64); 3],
    /// Sum of the times until the answer or the failure.
    pub(crate) duration: Duration,
    /// Requests by that time: upper bound in seconds, and number of requests above the bound before.
    pub(crate) durations: Vec<(f64, u64)>,
    /// Open connections, used and idle ones.
    pub(crate) open: u64,
    /// Connections opened so far.
    pub(crate) opened: u64,
}

fn one(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl Decisions {
    /// Counts a request that was asked about, and the time from the request to this.
    pub(super) fn add(&self, result: &Result<Arc<Answered>, Unanswered>, took: Duration) {
        one(match result {
            Ok(answered) if answered.admits() => &self.allowed,
            // The server has a fault; it has decided nothing.
            Ok(answered) if answered.status.as_u16() >= 500 => &self.failed,
            Ok(_) => &self.denied,
            Err(_) => &self.failed,
        });
        self.durations.add(took);
    }

    /// Counts a request that the server was not asked about, because too many wait.
    pub(super) fn refused(&self) {
        one(&self.failed);
    }

    /// Counts a connection that was opened.
    pub(super) fn opened(&self) {
        one(&self.opened);
    }

    /// The answers so far, with these labels.
    pub(super) fn report(&self, site: String, path: String, server: String) -> DecisionReport {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        DecisionReport {
            site,
            path,
            server,
            outcomes: [
                ("allowed", read(&self.allowed)),
                ("denied", read(&self.denied)),
                ("failed", read(&self.failed)),
            ],
            duration: self.durations.sum(),
            durations: self.durations.buckets(),
            open: self.open.get(),
            opened: read(&self.opened),
        }
    }
}
