//! Observations of about a second: rates, shares and levels, each with its unit.
//!
//! This is the format of sensor logs (JSON, one window per line). A number that could not be measured is absent, never
//! zero.

use crate::counters::Totals;
use crate::latency::Durations;
use runtime::sensors::Reading;
use serde::{Deserialize, Serialize};
use units::{Duration, Instant};

/// Observations of about a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Window {
    /// End of the window, in milliseconds since the first observation.
    pub at_ms: u64,
    /// Length in milliseconds.
    pub span_ms: u64,
    /// CPUs used by the server; 1.0 is one CPU all the time.
    pub cpu: f64,
    /// Average number of the server's threads waiting for a CPU.
    pub run_queue: Option<f64>,
    /// Share of the time in which at least one task was stalled on memory (PSI).
    pub memory_stalled: Option<f64>,
    /// Share of the time in which at least one task was stalled on a disk (PSI).
    pub io_stalled: Option<f64>,
    /// Major page faults per second: those that waited for a disk.
    pub major_faults: f64,
    /// Memory of the control group, if it is limited.
    pub memory: Option<MemoryState>,
    /// Resident memory of the server in bytes.
    pub resident: u64,
    /// Open connections at the end of the window.
    pub open: u32,
    /// Connections accepted per second.
    pub accepted: f64,
    /// Requests answered per second.
    pub requests: f64,
    /// Requests per second that waited for a file to be opened, read or compressed.
    pub loads: f64,
    /// Bytes sent per second.
    pub bytes_sent: f64,
    /// Mean response time within the server in milliseconds. `None` without responses, or if they were not timed.
    #[serde(default)]
    pub delay_ms: Option<f64>,
    /// Workers with a standing queue; 1.0 is one worker all the time. `None` if turns were not timed.
    #[serde(default)]
    pub queued: Option<f64>,
    /// Requests per second rejected because the server was overloaded.
    #[serde(default)]
    pub refused: Option<f64>,
}

/// Memory of a control group at the end of a window, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MemoryState {
    /// Limit.
    pub limit: u64,
    /// Memory in use.
    pub used: u64,
    /// Cached files.
    pub files: u64,
    /// File pages per second that were evicted and read again (refaults).
    pub refaults: Option<f64>,
}

/// Readings of one instant.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Readings of the machine and the processes.
    pub reading: Reading,
    /// The server's counters.
    pub totals: Totals,
    /// Open connections.
    pub open: u32,
    /// Response times, and the time that workers had a standing queue.
    pub durations: Durations,
}

impl Window {
    /// The window from one sample to a later one; `start` is time zero.
    pub fn between(start: Instant, before: &Sample, after: &Sample) -> Window {
        let span = after
            .reading
            .at
            .since(before.reading.at)
            .max(Duration::from_millis(1));
        let seconds = span.as_secs_f64();
        // A total can shrink when a process has ended; its rate is then zero.
        let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        let share = |before: Option<Duration>, after: Option<Duration>| {
            let (before, after) = (before?, after?);
            Some(after.saturating_sub(before).as_secs_f64() / seconds)
        };
        let (was, is) = (&before.reading, &after.reading);
        let memory = is.memory.map(|memory| MemoryState {
            limit: memory.limit.0,
            used: memory.used.0,
            files: memory.files.0,
            refaults: memory
                .refaults
                .zip(was.memory.and_then(|memory| memory.refaults))
                .map(|(after, before)| rate(before, after)),
        });
        Window {
            at_ms: u64::try_from(is.at.since(start).as_millis()).unwrap_or(u64::MAX),
            span_ms: u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
            cpu: is.process.cpu.saturating_sub(was.process.cpu).as_secs_f64() / seconds,
            run_queue: share(was.process.run_delay, is.process.run_delay),
            memory_stalled: share(was.stalled.memory, is.stalled.memory),
            io_stalled: share(was.stalled.io, is.stalled.io),
            major_faults: rate(was.process.major_faults, is.process.major_faults),
            memory,
            resident: is.process.resident.0,
            open: after.open,
            accepted: rate(before.totals.accepted, after.totals.accepted),
            requests: rate(before.totals.requests, after.totals.requests),
            loads: rate(before.totals.loads, after.totals.loads),
            bytes_sent: rate(before.totals.bytes_sent, after.totals.bytes_sent),
            delay_ms: delay(&before.durations, &after.durations),
            queued: queued(&before.durations, &after.durations, seconds),
            refused: Some(rate(before.totals.overloaded, after.totals.overloaded)),
        }
    }
}

/// Mean response time between two samples, in milliseconds.
fn delay(before: &Durations, after: &Durations) -> Option<f64> {
    let count = answers(before, after)?;
    let took = after.sum().saturating_sub(before.sum());
    Some(took.as_secs_f64() * 1e3 / count as f64)
}

/// Average number of workers with a standing queue. `None` if no response was timed, because a worker with a queue
/// sends responses.
fn queued(before: &Durations, after: &Durations, seconds: f64) -> Option<f64> {
    answers(before, after)?;
    Some(after.stood().saturating_sub(before.stood()).as_secs_f64() / seconds)
}

/// Number of responses timed between two samples; `None` if there were none.
fn answers(before: &Durations, after: &Durations) -> Option<u64> {
    after
        .count()
        .checked_sub(before.count())
        .filter(|count| *count > 0)
}
