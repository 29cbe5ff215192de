//! The seconds of a run as metrics for a collector of OpenTelemetry, sent when the run has ended. Every point counts from the
//! start of the measured time.
//!
//! A collector that does not take them fails the command, whose result is written before that.

use super::report::Report;
use crate::cli::load::CollectorFlags;
use crate::collector::{self, Collector, SCOPE};
use crate::failure::Failure;
use ::load::record::Second;
use otlp::answer::Verdict;
use otlp::export::Resource;
use otlp::metric::{Distribution, Interval, METRICS_AT, Metrics, Name};
use runtime::clock;
use runtime::signal::{Signal, Signals};
use server::config::Otlp;

/// Most seconds in a request, each with a point of each metric.
const SECONDS_MAX: usize = 600;

/// How often a request is sent before it is given up.
const ATTEMPTS: u32 = 4;

/// Upper bounds of the buckets, in seconds (OpenTelemetry semantic conventions, `http.client.request.duration`).
const BOUNDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// A metric, its attribute if it has one, and the count of a second.
type Count = (
    Name<'static>,
    Option<(&'static str, &'static str)>,
    fn(&Second) -> u64,
);

const COUNTS: [Count; 8] = [
    (
        name("weir.load.objects", "Objects begun", "{object}"),
        None,
        |second| second.begun,
    ),
    (
        name("weir.load.files", "Files received completely", "{file}"),
        None,
        |second| second.files,
    ),
    (
        name("weir.load.failures", "Files given up", "{file}"),
        None,
        |second| second.failed,
    ),
    (
        name("weir.load.errors", "Errors of any kind", "{error}"),
        None,
        |second| second.errors,
    ),
    (
        name("weir.load.content", "Bytes of content of complete files", "By"),
        None,
        |second| second.bytes,
    ),
    (REPLIES, Some(("class", "3xx")), |second| second.replies_3xx),
    (REPLIES, Some(("class", "4xx")), |second| second.replies_4xx),
    (REPLIES, Some(("class", "5xx")), |second| second.replies_5xx),
];

const REPLIES: Name<'static> = name(
    "weir.load.replies",
    "Complete responses with a status of this class",
    "{response}",
);

const DURATION: Name<'static> = name(
    "weir.load.response.duration",
    "Response times of complete files",
    "s",
);

const fn name<'a>(name: &'a str, description: &'a str, unit: &'a str) -> Name<'a> {
    Name {
        name,
        description,
        unit,
    }
}

/// The collector that these flags name, if they name one.
///
/// # Errors
/// `Usage` for flags that cannot be used, `System` without root certificates.
pub(super) fn collector(flags: &CollectorFlags) -> Result<Option<Collector>, Failure> {
    if flags.otlp.is_none() && flags.otlp_header.is_empty() && flags.otlp_ca.is_none() {
        return Ok(None);
    }
    if flags.otlp.is_none() {
        let flag = if flags.otlp_ca.is_some() {
            "--otlp-ca"
        } else {
            "--otlp-header"
        };
        return Err(Failure::Usage(format!(
            "`{flag}` has no effect without a collector; name one, as in --otlp http://127.0.0.1:4318"
        )));
    }
    let otlp = Otlp {
        endpoint: flags.otlp.clone(),
        service_name: "weir-load".to_owned(),
        header: flags.otlp_header.clone(),
        ca: flags.otlp_ca.clone(),
        ..Otlp::default()
    };
    otlp.validate()
        .map_err(|error| Failure::Usage(error.to_string()))?;
    Collector::of(&otlp, METRICS_AT)
}

/// Sends the seconds of a run.
///
/// # Errors
/// `System`: the collector did not take them, or was given up because of a signal.
pub(super) fn send(report: &Report, collector: &Collector, signals: &mut Signals) -> Result<(), Failure> {
    let refused = |why: String| {
        Failure::System(format!(
            "metrics were not sent to {}: {why} (--otlp)",
            collector.place()
        ))
    };
    let run = &report.run;
    let rank = run.rank.to_string();
    let attributes = [
        ("weir.load.peer", run.peer.as_str()),
        ("weir.load.mode", run.mode.as_str()),
        ("weir.load.rank", rank.as_str()),
    ];
    let start = nanos(run.started_at + run.warmup_s);
    let all = Interval {
        start,
        time: start + nanos(report.duration_s),
    };
    for content in requests(report.seconds(), all, &attributes, &collector.resource()) {
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

/// The content of each request with the seconds of an interval, the last of which may be a part of one.
fn requests(
    seconds: &[Second],
    all: Interval,
    attributes: &[(&str, &str)],
    resource: Resource<'_>,
) -> Vec<Vec<u8>> {
    let until = |number: usize| Interval {
        start: all.start,
        time: all.time.min(all.start + 1_000_000_000 * (number as u64 + 1)),
    };
    let mut sums = [0; COUNTS.len()];
    let mut buckets = [0; BOUNDS.len() + 1];
    let mut total = 0.0;
    let numbered: Vec<(usize, &Second)> = seconds.iter().enumerate().collect();
    let request = |some: &[(usize, &Second)]| {
        let mut metrics = Metrics::default();
        for ((name, attribute, count), sum) in COUNTS.iter().zip(&mut sums) {
            let points = some.iter().map(|(number, second)| {
                *sum += count(second);
                (until(*number), *sum)
            });
            let points: Vec<(Interval, u64)> = points.collect();
            let attributes: Vec<(&str, &str)> = attributes.iter().copied().chain(*attribute).collect();
            metrics.sum(*name, &attributes, &points);
        }
        let counts: Vec<([u64; BOUNDS.len() + 1], f64)> = some
            .iter()
            .map(|(_, second)| {
                for value in second.response.times().histogram().iter_recorded() {
                    let taken = value.value_iterated_to() as f64 / 1e9;
                    let at = BOUNDS
                        .iter()
                        .position(|bound| taken <= *bound)
                        .unwrap_or(BOUNDS.len());
                    buckets[at] += value.count_at_value();
                }
                total += second.response.total_ns() / 1e9;
                (buckets, total)
            })
            .collect();
        let points = some.iter().zip(&counts).map(|((number, _), (counts, sum))| {
            let distribution = Distribution {
                bounds: &BOUNDS,
                counts,
                sum: *sum,
            };
            (until(*number), distribution)
        });
        metrics.histogram(DURATION, attributes, &points.collect::<Vec<_>>());
        metrics.request(resource, SCOPE)
    };
    numbered.chunks(SECONDS_MAX).map(request).collect()
}

/// Seconds of Unix time as nanoseconds.
fn nanos(seconds: f64) -> u64 {
    u64::try_from((seconds * 1e9) as i128).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use otlp::wire::{Fields, Value};

    /// The messages and texts in this field.
    fn inner(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
        Fields(message).filter_map(move |field| match field {
            (its, Value::Bytes(inner)) if its == number => Some(inner),
            _ => None,
        })
    }

    /// Time and value of each point of a sum.
    fn points(request: &[u8], name: &str) -> Vec<(u64, u64)> {
        let scopes = inner(request, 1).flat_map(|resource| inner(resource, 2));
        let mut metrics = scopes.flat_map(|scope| inner(scope, 2));
        let metric = metrics.find(|metric| inner(metric, 1).next() == Some(name.as_bytes()));
        let sum = inner(metric.unwrap(), 7).next().unwrap();
        let number = |point: &[u8], wanted: u32| {
            let found = Fields(point).find_map(|field| match field {
                (its, Value::Fixed64(number)) if its == wanted => Some(number),
                _ => None,
            });
            found.unwrap()
        };
        inner(sum, 1)
            .map(|point| (number(point, 3), number(point, 6)))
            .collect()
    }

    #[test]
    fn requests_of_a_long_run_count_from_one_start() {
        let second = Second {
            files: 2,
            ..Second::default()
        };
        // The last second is half of one.
        let all = Interval {
            start: 5,
            time: 600_500_000_005,
        };
        let requests = requests(&vec![second; SECONDS_MAX + 1], all, &[], &[]);
        let points: Vec<_> = requests
            .iter()
            .map(|request| points(request, "weir.load.files"))
            .collect();
        let [first, second] = &points[..] else {
            panic!("{points:?}")
        };
        assert_eq!((first.len(), first[0]), (SECONDS_MAX, (1_000_000_005, 2)));
        assert_eq!(second[..], [(600_500_000_005, 1_202)]);
    }
}
