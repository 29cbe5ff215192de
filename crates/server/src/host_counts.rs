//! Responses by configured host: status classes, bytes, durations. Labels are names of the configuration, never what clients
//! send, so their number is bounded.

use crate::config::Config;
use crate::histogram::Histogram;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Duration;

/// Label of requests that no host of the configuration gets. No host can have this name.
const OTHERS: &str = "*";

/// Number of status classes.
const CLASSES: usize = 5;

/// The responses of one host. All workers of a process write them.
#[derive(Debug)]
pub(crate) struct HostCounts {
    name: String,
    classes: [AtomicU64; CLASSES],
    bytes: AtomicU64,
    durations: Histogram,
}

/// The responses of one host so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostReport {
    /// First name of the host, or `*`.
    pub(crate) name: String,
    /// Responses by class, as in `2xx`.
    pub(crate) classes: [(&'static str, u64); CLASSES],
    /// Bytes handed to the kernel, heads included.
    pub(crate) bytes: u64,
    /// Sum of the durations.
    pub(crate) duration: Duration,
    /// Responses by duration: upper bound in seconds, and number of responses above the bound before.
    pub(crate) durations: Vec<(f64, u64)>,
}

impl HostCounts {
    /// Counts for each site of a configuration, that of the top level first; empty if they are not wanted. Hosts continue
    /// the counts that their name has among `before`.
    pub(crate) fn of(config: &Config, before: &[Arc<HostCounts>]) -> Vec<Arc<HostCounts>> {
        if !config.host_metrics {
            return Vec::new();
        }
        let names = config
            .host
            .iter()
            .map(|host| host.names.first().map(ToString::to_string).unwrap_or_default());
        let before: HashMap<&str, &Arc<HostCounts>> =
            before.iter().map(|counts| (&*counts.name, counts)).collect();
        std::iter::once(OTHERS.to_owned())
            .chain(names)
            .map(|name| match before.get(&*name) {
                Some(counts) => Arc::clone(counts),
                None => Arc::new(HostCounts::new(name)),
            })
            .collect()
    }

    fn new(name: String) -> HostCounts {
        HostCounts {
            name,
            classes: Default::default(),
            bytes: AtomicU64::new(0),
            durations: Histogram::default(),
        }
    }

    /// Adds a response of this class, from 1 to 5.
    pub(crate) fn add(&self, class: u8, bytes: u64, duration: Duration) {
        let one = |count: &AtomicU64, n: u64| {
            count.fetch_add(n, Ordering::Relaxed);
        };
        if let Some(count) = usize::from(class)
            .checked_sub(1)
            .and_then(|at| self.classes.get(at))
        {
            one(count, 1);
        }
        self.durations.add(duration);
        one(&self.bytes, bytes);
    }

    /// The responses so far.
    pub(crate) fn report(&self) -> HostReport {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let names = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        HostReport {
            name: self.name.clone(),
            classes: core::array::from_fn(|at| (names[at], read(&self.classes[at]))),
            bytes: read(&self.bytes),
            duration: self.durations.sum(),
            durations: self.durations.buckets(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_belong_to_names_of_the_configuration() {
        let config = |text: &str| Config::from_toml(text, "w.toml").unwrap();
        assert!(HostCounts::of(&config("[[host]]\nnames = ['a.test']\n"), &[]).is_empty());
        let first = config("host-metrics = true\n[[host]]\nnames = ['a.test', 'b.test']\n");
        let before = HostCounts::of(&first, &[]);
        let names =
            |counts: &[Arc<HostCounts>]| counts.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&before), ["*", "a.test"]);
        before[1].add(2, 10, Duration::from_millis(5));
        before[1].add(5, 1, Duration::from_secs(60));
        let next =
            config("host-metrics = true\n[[host]]\nnames = ['*.c.test']\n[[host]]\nnames = ['a.test']\n");
        let after = HostCounts::of(&next, &before);
        assert_eq!(names(&after), ["*", "*.c.test", "a.test"]);
        let report = after[2].report();
        assert_eq!(
            report.classes,
            [("1xx", 0), ("2xx", 1), ("3xx", 0), ("4xx", 0), ("5xx", 1)]
        );
        assert_eq!(
            (report.bytes, report.duration),
            (11, Duration::from_millis(60_005))
        );
        let counts: Vec<u64> = report.durations.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(report.durations[1].0, 0.005);
    }
}
