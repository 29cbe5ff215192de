//! What was measured of one step of a scenario.

use crate::times::{Lost, Times};
use crate::trouble::Trouble;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::Duration;

/// The requests of one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Response times of those that succeeded, from their intended start.
    pub response: Times,
    /// Time from the intended start to the failure, for each of `failures`.
    pub failed: Times,
    /// Failed requests by kind.
    pub failures: BTreeMap<Trouble, u64>,
    /// Requests that were never made, because an earlier step of their scenario failed.
    pub skipped: u64,
    /// Requests still pending at the end of the grace period.
    pub unfinished: u64,
}

impl StepRecord {
    /// Counts a request that failed `took` after its intended start.
    pub fn fail(&mut self, trouble: Trouble, took: Duration) {
        *self.failures.entry(trouble).or_default() += 1;
        self.failed.add(took);
    }

    /// Number of failed requests.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Requests without a response time. Each failed one counts in means as at least `timeout`.
    pub fn lost(&self, timeout: Duration) -> Lost {
        Lost {
            count: self.failed() + self.unfinished,
            timed: self.failed.count(),
            least_ns: self.failed.total_of_at_least(timeout),
        }
    }

    /// Adds the requests of another crew.
    pub fn merge(&mut self, other: &StepRecord) {
        self.response.merge(&other.response);
        self.failed.merge(&other.failed);
        for (&trouble, count) in &other.failures {
            *self.failures.entry(trouble).or_default() += count;
        }
        self.skipped += other.skipped;
        self.unfinished += other.unfinished;
    }
}
