//! What was noticed in about a second: rates, shares and levels, each with its unit.
//!
//! The form in which sensor logs are written (JSON, one window per line) and read again. A number that could not be
//! had is absent; it is never taken for zero.

use crate::counters::Totals;
use crate::latency::Durations;
use measure::{Duration, Instant};
use runtime::sensors::Reading;
use serde::{Deserialize, Serialize};

/// A second in the life of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Window {
    /// Its end, in milliseconds since the first.
    pub at_ms: u64,
    /// Its length in milliseconds.
    pub span_ms: u64,
    /// Processors kept busy by the server, 1.0 being a whole one.
    pub cpu: f64,
    /// Threads waiting for a processor, on average.
    pub run_queue: Option<f64>,
    /// Share of the time in which somebody waited for memory.
    pub memory_stalled: Option<f64>,
    /// Share of the time in which somebody waited for a disk.
    pub io_stalled: Option<f64>,
    /// Faults per second that waited for a disk.
    pub major_faults: f64,
    /// Memory of the control group, if it is bounded.
    pub memory: Option<MemoryState>,
    /// Resident memory of the server in bytes.
    pub resident: u64,
    /// Connections open at the end.
    pub open: u32,
    /// Connections accepted per second.
    pub accepted: f64,
    /// Requests answered per second.
    pub requests: f64,
    /// Requests per second that waited for a file or a coding.
    pub loads: f64,
    /// Bytes sent per second.
    pub bytes_sent: f64,
    /// How long answers took in the server, on average, in milliseconds; none if there were none, or nobody timed them.
    #[serde(default)]
    pub delay_ms: Option<f64>,
    /// Workers with a standing queue: 1.0 is one of them all the time. None if their turns were not timed.
    #[serde(default)]
    pub queued: Option<f64>,
    /// Requests refused per second because the server was behind.
    #[serde(default)]
    pub refused: Option<f64>,
}

/// Memory of a control group at the end of a window, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MemoryState {
    /// What may be used.
    pub limit: u64,
    /// What is used.
    pub used: u64,
    /// Files in the cache.
    pub files: u64,
    /// Pages of files per second that were evicted and are wanted again.
    pub refaults: Option<f64>,
}

/// What was seen at one instant.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The machine and the processes.
    pub reading: Reading,
    /// The server's counters.
    pub totals: Totals,
    /// Connections open.
    pub open: u32,
    /// How long answers took, and how long workers had a standing queue.
    pub durations: Durations,
}

impl Window {
    /// From one sample to a later one; `start` is where time is counted from.
    pub fn between(start: Instant, before: &Sample, after: &Sample) -> Window {
        let span = after
            .reading
            .at
            .since(before.reading.at)
            .max(Duration::from_millis(1));
        let seconds = span.as_secs_f64();
        // A total that shrank is of other processes than before.
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

/// The mean time of the answers between, in milliseconds.
fn delay(before: &Durations, after: &Durations) -> Option<f64> {
    let count = answers(before, after)?;
    let took = after.sum().saturating_sub(before.sum());
    Some(took.as_secs_f64() * 1e3 / count as f64)
}

/// The workers with a standing queue, if any answers were timed: a worker that has one answers.
fn queued(before: &Durations, after: &Durations, seconds: f64) -> Option<f64> {
    answers(before, after)?;
    Some(after.stood().saturating_sub(before.stood()).as_secs_f64() / seconds)
}

/// How many were timed between, if any.
fn answers(before: &Durations, after: &Durations) -> Option<u64> {
    after
        .count()
        .checked_sub(before.count())
        .filter(|count| *count > 0)
}
