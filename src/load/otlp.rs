//! The seconds of a run as metrics for a collector of OpenTelemetry, sent when the run has ended. Every point counts from the
//! start of the measured time.

use super::metrics::{self, BOUNDS, COUNTS, Sums};
use super::report::Report;
use crate::cli::load::CollectorFlags;
use crate::collector::{Collector, SCOPE};
use crate::failure::Failure;
use otlp::export::Resource;
use otlp::metric::{Distribution, Interval, METRICS_AT, Metrics, Name};
use runtime::signal::Signals;
use server::config::Otlp;

/// Most seconds in a request, each with a point of each metric.
const SECONDS_MAX: usize = 600;

const DURATION: Name<'static> = metrics::name(
    "weir.load.response.duration",
    "Response times of complete files",
    "s",
);

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
/// As [`metrics::send`].
pub(super) fn send(report: &Report, collector: &Collector, signals: &mut Signals) -> Result<(), Failure> {
    let run = &report.run;
    let rank = run.rank.to_string();
    let attributes = [
        ("weir.load.peer", run.peer.as_str()),
        ("weir.load.mode", run.mode.as_str()),
        ("weir.load.rank", rank.as_str()),
    ];
    let all = metrics::measured(report);
    let sums = metrics::by_second(report.seconds(), all);
    let resource = collector.resource();
    let requests = requests(&sums, all.start, &attributes, &resource);
    metrics::send(requests, collector, "--otlp", signals)
}

/// The content of each request with these sums, all of which count from `start`.
fn requests(
    sums: &[Sums],
    start: u64,
    attributes: &[(&str, &str)],
    resource: Resource<'_>,
) -> impl Iterator<Item = Vec<u8>> {
    sums.chunks(SECONDS_MAX)
        .map(move |some| request(some, start, attributes, resource))
}

fn request(sums: &[Sums], start: u64, attributes: &[(&str, &str)], resource: Resource<'_>) -> Vec<u8> {
    let mut metrics = Metrics::default();
    let until = |sums: &Sums| Interval {
        start,
        time: sums.time,
    };
    for (at, count) in COUNTS.iter().enumerate() {
        let points: Vec<(Interval, u64)> = sums.iter().map(|sums| (until(sums), sums.counts[at])).collect();
        let class = count.class.map(|class| ("class", class));
        let attributes: Vec<(&str, &str)> = attributes.iter().copied().chain(class).collect();
        metrics.sum(count.name, &attributes, &points);
    }
    let points = sums.iter().map(|sums| {
        let distribution = Distribution {
            bounds: &BOUNDS,
            counts: &sums.buckets,
            sum: sums.response_s,
        };
        (until(sums), distribution)
    });
    metrics.histogram(DURATION, attributes, &points.collect::<Vec<_>>());
    metrics.request(resource, SCOPE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::load::record::Second;
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
        let sums = metrics::by_second(&vec![second; SECONDS_MAX + 1], all);
        let points: Vec<_> = requests(&sums, all.start, &[], &[])
            .map(|request| points(&request, "weir.load.files"))
            .collect();
        let [first, second] = &points[..] else {
            panic!("{points:?}")
        };
        assert_eq!((first.len(), first[0]), (SECONDS_MAX, (1_000_000_005, 2)));
        assert_eq!(second[..], [(600_500_000_005, 1_202)]);
    }
}
