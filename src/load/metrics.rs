//! The seconds of a run as counts from the start of the measured time, and the delivery of requests with them once the run
//! has ended. `otlp` and `remote_write` decide which server gets them, and encode them.
//!
//! A server that does not take them fails the command, whose result is written before that.

use super::report::Report;
use crate::collector::{self, Collector};
use crate::failure::Failure;
use ::load::record::Second;
use otlp::answer::Verdict;
use otlp::metric::{Interval, Name};
use runtime::clock;
use runtime::signal::{Signal, Signals};

/// How often a request is sent before it is given up.
const ATTEMPTS: u32 = 4;

/// Upper bounds of the buckets, in seconds (OpenTelemetry semantic conventions, `http.client.request.duration`).
pub(super) const BOUNDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// A count of each second, under its names in both protocols.
#[derive(Debug)]
pub(super) struct Count {
    /// Its name in OpenTelemetry.
    pub(super) name: Name<'static>,
    /// Its name in Prometheus.
    pub(super) total: &'static str,
    /// The class of responses that it counts; `None`: it has no classes.
    pub(super) class: Option<&'static str>,
    of: fn(&Second) -> u64,
}

/// All counts, in the order in which they are sent.
pub(super) const COUNTS: [Count; 8] = [
    Count {
        name: name("weir.load.objects", "Objects begun", "{object}"),
        total: "weir_load_objects_total",
        class: None,
        of: |second| second.begun,
    },
    Count {
        name: name("weir.load.files", "Files received completely", "{file}"),
        total: "weir_load_files_total",
        class: None,
        of: |second| second.files,
    },
    Count {
        name: name("weir.load.failures", "Files given up", "{file}"),
        total: "weir_load_failures_total",
        class: None,
        of: |second| second.failed,
    },
    Count {
        name: name("weir.load.errors", "Errors of any kind", "{error}"),
        total: "weir_load_errors_total",
        class: None,
        of: |second| second.errors,
    },
    Count {
        name: name("weir.load.content", "Bytes of content of complete files", "By"),
        total: "weir_load_content_bytes_total",
        class: None,
        of: |second| second.bytes,
    },
    replies("3xx", |second| second.replies_3xx),
    replies("4xx", |second| second.replies_4xx),
    replies("5xx", |second| second.replies_5xx),
];

const fn replies(class: &'static str, of: fn(&Second) -> u64) -> Count {
    Count {
        name: name(
            "weir.load.replies",
            "Complete responses with a status of this class",
            "{response}",
        ),
        total: "weir_load_replies_total",
        class: Some(class),
        of,
    }
}

/// A name in OpenTelemetry.
pub(super) const fn name(name: &'static str, description: &'static str, unit: &'static str) -> Name<'static> {
    Name {
        name,
        description,
        unit,
    }
}

/// Counts and response times from the start of the measured time to a later time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// The later time, in nanoseconds of Unix time.
    pub(super) time: u64,
    /// In the order of [`COUNTS`].
    pub(super) counts: [u64; COUNTS.len()],
    /// Response times of complete files by bucket: one more than [`BOUNDS`].
    pub(super) buckets: [u64; BOUNDS.len() + 1],
    /// Sum of these response times, in seconds.
    pub(super) response_s: f64,
}

impl Sums {
    fn add(&mut self, second: &Second) {
        for (sum, count) in self.counts.iter_mut().zip(&COUNTS) {
            *sum += (count.of)(second);
        }
        for (nanos, count) in second.response.pairs() {
            let taken = *nanos as f64 / 1e9;
            let at = BOUNDS
                .iter()
                .position(|bound| taken <= *bound)
                .unwrap_or(BOUNDS.len());
            self.buckets[at] += count;
        }
        self.response_s += second.response.total_ns() / 1e9;
    }
}

/// The measured time of a run.
pub(super) fn measured(report: &Report) -> Interval {
    let start = nanos(report.run.started_at + report.run.warmup_s);
    Interval {
        start,
        time: start + nanos(report.duration_s),
    }
}

/// The sums at the end of each second of an interval, the last of which may be a part of one.
pub(super) fn by_second(seconds: &[Second], all: Interval) -> Vec<Sums> {
    let mut sums = Sums::default();
    let ends = (1_u64..).map(|number| all.time.min(all.start + 1_000_000_000 * number));
    seconds
        .iter()
        .zip(ends)
        .map(|(second, end)| {
            sums.add(second);
            sums.time = end;
            sums
        })
        .collect()
}

/// Sends requests one after another to a server, which this flag names.
///
/// # Errors
/// `System`: the server did not take them, or was given up because of a signal.
pub(super) fn send(
    requests: impl Iterator<Item = Vec<u8>>,
    collector: &Collector,
    flag: &str,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let refused = |why: String| {
        Failure::System(format!(
            "metrics were not sent to {}: {why} ({flag})",
            collector.place()
        ))
    };
    for content in requests {
        let mut failed = 0;
        loop {
            let (why, after) = match collector.send(&content) {
                Ok((_, Verdict::Taken { rejected: 0, message })) => {
                    if !message.is_empty() {
                        tracing::warn!("{}: \"{}\"", collector.place(), message.escape_debug());
                    }
                    break;
                }
                Ok((_, Verdict::Taken { rejected, message })) => {
                    return Err(refused(format!(
                        "it rejected {rejected} points: \"{}\"",
                        message.escape_debug()
                    )));
                }
                Ok((status, Verdict::Refused)) => return Err(refused(format!("it answers with {status}"))),
                Ok((status, Verdict::Again { after })) => (format!("it answers with {status}"), after),
                Err(unanswered) if unanswered.is_final => return Err(refused(unanswered.why)),
                Err(unanswered) => (unanswered.why, None),
            };
            failed += 1;
            if failed == ATTEMPTS {
                return Err(refused(why));
            }
            let until = clock::now() + collector::pause(failed, after);
            while clock::now() < until {
                let signal = signals.wait(Some(until.since(clock::now())));
                if signal.map_err(|error| refused(error.to_string()))? == Some(Signal::Stop) {
                    return Err(refused(format!("{why}; stopped by a signal")));
                }
            }
        }
    }
    Ok(())
}

/// Seconds of Unix time as nanoseconds.
fn nanos(seconds: f64) -> u64 {
    u64::try_from((seconds * 1e9) as i128).unwrap_or(0)
}
