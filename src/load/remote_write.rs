//! The seconds of a run for a receiver of Prometheus remote write 1.0, sent when the run has ended. Every sample counts from
//! the start of the measured time.

use super::metrics::{self, BOUNDS, COUNTS, Sums};
use super::report::Report;
use crate::cli::load::RemoteWriteFlags;
use crate::collector::{Collector, REMOTE_WRITE_VERSION};
use crate::failure::Failure;
use otlp::wire;
use runtime::signal::Signals;
use server::config::Otlp;

/// Most seconds in a request. Each has a sample of 25 series, and Prometheus itself sends up to 2,000 samples in a request.
const SECONDS_MAX: usize = 80;

const NS_PER_MS: u64 = 1_000_000;

/// The receiver that these flags name, if they name one.
///
/// # Errors
/// `Usage` for flags that cannot be used, `System` without root certificates.
pub(super) fn receiver(flags: &RemoteWriteFlags) -> Result<Option<Collector>, Failure> {
    let (header, ca) = (&flags.remote_write_header, flags.remote_write_ca.as_deref());
    let Some(url) = &flags.remote_write else {
        let flag = match (ca, header.first()) {
            (None, None) => return Ok(None),
            (Some(_), _) => "--remote-write-ca",
            (None, Some(_)) => "--remote-write-header",
        };
        return Err(Failure::Usage(format!(
            "`{flag}` has no effect without a receiver; name one, as in --remote-write http://127.0.0.1:9090/api/v1/write"
        )));
    };
    if ca.is_some() && url.scheme() != "https" {
        return Err(Failure::Usage(format!(
            "`--remote-write-ca` has no effect: {url} is not https; write an https URL, or omit the flag"
        )));
    }
    let (version, _) = REMOTE_WRITE_VERSION;
    let own = header
        .iter()
        .find(|line| Otlp::has_own(line) || line.name().eq_ignore_ascii_case(version));
    if let Some(line) = own {
        return Err(Failure::Usage(format!(
            "`--remote-write-header`: `{}` is set by Weir for each request to the receiver; remove it",
            line.name()
        )));
    }
    Collector::of_remote_write(url, header, ca).map(Some)
}

/// Sends the seconds of a run.
///
/// # Errors
/// As [`metrics::send`].
pub(super) fn send(report: &Report, receiver: &Collector, signals: &mut Signals) -> Result<(), Failure> {
    let run = &report.run;
    let rank = run.rank.to_string();
    let labels = [
        ("instance", run.peer.as_str()),
        ("job", "weir-load"),
        ("mode", run.mode.as_str()),
        ("rank", rank.as_str()),
    ];
    let all = metrics::measured(report);
    let samples = samples(all.start, metrics::by_second(report.seconds(), all));
    let requests = requests(&samples, &labels);
    metrics::send(requests, receiver, "--remote-write", signals)
}

/// The sums that are sent: those at the end of each second, after zeros at the start. Without the zeros, `increase()` would
/// leave out the first second, and a longer run would seem to continue a shorter one.
fn samples(start: u64, seconds: Vec<Sums>) -> Vec<Sums> {
    let zeros = (!seconds.is_empty()).then(|| Sums {
        time: start,
        ..Sums::default()
    });
    let mut samples: Vec<Sums> = zeros.into_iter().chain(seconds).collect();
    // Times are sent in milliseconds, and receivers reject another value for the same time.
    samples.dedup_by(|later, kept| {
        let is_same = later.time / NS_PER_MS == kept.time / NS_PER_MS;
        if is_same {
            *kept = *later;
        }
        is_same
    });
    samples
}

/// The messages (`WriteRequest`) with these sums.
fn requests(samples: &[Sums], labels: &[(&str, &str)]) -> impl Iterator<Item = Vec<u8>> {
    samples.chunks(SECONDS_MAX).map(move |some| request(some, labels))
}

fn request(samples: &[Sums], labels: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut add = |name: &str, own: Option<(&str, &str)>, value: &dyn Fn(&Sums) -> f64| {
        let named = [("__name__", name)].into_iter().chain(own);
        let mut all: Vec<(&str, &str)> = named.chain(labels.iter().copied()).collect();
        all.sort_unstable();
        series(&mut out, &all, samples, value);
    };
    for (at, count) in COUNTS.iter().enumerate() {
        let class = count.class.map(|class| ("class", class));
        add(count.total, class, &|sums: &Sums| sums.counts[at] as f64);
    }
    for at in 0..=BOUNDS.len() {
        // As in OpenMetrics: `1.0`, not `1`.
        let bound = BOUNDS.get(at).map(|bound| format!("{bound:?}"));
        let bound = bound.as_deref().unwrap_or("+Inf");
        add(
            "weir_load_response_duration_seconds_bucket",
            Some(("le", bound)),
            &|sums: &Sums| sums.buckets[..=at].iter().sum::<u64>() as f64,
        );
    }
    add("weir_load_response_duration_seconds_sum", None, &|sums: &Sums| {
        sums.response_s
    });
    add(
        "weir_load_response_duration_seconds_count",
        None,
        &|sums: &Sums| sums.buckets.iter().sum::<u64>() as f64,
    );
    out
}

/// Appends a `TimeSeries`, with a `Label` for each of these labels and a `Sample` for each of these sums.
fn series(out: &mut Vec<u8>, labels: &[(&str, &str)], samples: &[Sums], value: &dyn Fn(&Sums) -> f64) {
    wire::message(out, 1, |out| {
        for (name, text) in labels {
            wire::message(out, 1, |out| {
                wire::bytes(out, 1, name.as_bytes());
                wire::bytes(out, 2, text.as_bytes());
            });
        }
        for sums in samples {
            wire::message(out, 2, |out| {
                wire::double(out, 1, value(sums));
                wire::signed(out, 2, (sums.time / NS_PER_MS).cast_signed());
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::load::record::Second;
    use ::load::times::Times;
    use otlp::metric::Interval;
    use otlp::wire::{Fields, Value};
    use std::collections::BTreeMap;
    use units::Duration;

    /// Samples of each series, as milliseconds and value, by name and labels in the order in which they were written.
    type Read = BTreeMap<String, Vec<(u64, f64)>>;

    fn inner(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
        Fields(message).filter_map(move |field| match field {
            (its, Value::Bytes(inner)) if its == number => Some(inner),
            _ => None,
        })
    }

    fn read(request: &[u8]) -> Read {
        let label = |label: &[u8]| {
            let text = |number| str::from_utf8(inner(label, number).next().unwrap()).unwrap();
            format!("{}={}", text(1), text(2))
        };
        let sample = |sample: &[u8]| match Fields(sample).collect::<Vec<_>>()[..] {
            [(1, Value::Fixed64(value)), (2, Value::Number(time))] => (time, f64::from_bits(value)),
            ref other => panic!("{other:?}"),
        };
        let series = inner(request, 1).map(|series| {
            let labels: Vec<String> = inner(series, 1).map(label).collect();
            let samples: Vec<(u64, f64)> = inner(series, 2).map(sample).collect();
            (labels.join(" "), samples)
        });
        series.collect()
    }

    fn second(files: u64, response_ms: &[u64]) -> Second {
        let mut times = Times::default();
        for ms in response_ms {
            times.add(Duration::from_millis(*ms));
        }
        Second {
            files,
            replies_5xx: 1,
            response: times.sparse(),
            ..Second::default()
        }
    }

    #[test]
    fn samples_count_from_one_start_under_sorted_labels() {
        // The last second is half of one.
        let all = Interval {
            start: 7_000_000_999,
            time: 8_500_000_999,
        };
        let seconds = [second(3, &[30, 2_000]), second(1, &[20_000])];
        let samples = samples(all.start, metrics::by_second(&seconds, all));
        let labels = [("instance", "a:1"), ("job", "weir-load"), ("rank", "0")];
        let requests: Vec<_> = requests(&samples, &labels).collect();
        let [request] = &requests[..] else {
            panic!("{} requests", requests.len())
        };
        let series = read(request);
        assert_eq!(series.len(), 25);
        let at = |values: [f64; 3]| {
            let times = [7_000_u64, 8_000, 8_500];
            times.into_iter().zip(values).collect::<Vec<_>>()
        };
        for (name, values) in [
            (
                "__name__=weir_load_files_total instance=a:1 job=weir-load rank=0",
                [0.0, 3.0, 4.0],
            ),
            (
                "__name__=weir_load_replies_total class=5xx instance=a:1 job=weir-load rank=0",
                [0.0, 1.0, 2.0],
            ),
            (
                "__name__=weir_load_response_duration_seconds_bucket instance=a:1 job=weir-load le=0.05 rank=0",
                [0.0, 1.0, 1.0],
            ),
            (
                "__name__=weir_load_response_duration_seconds_bucket instance=a:1 job=weir-load le=10.0 rank=0",
                [0.0, 2.0, 2.0],
            ),
            (
                "__name__=weir_load_response_duration_seconds_bucket instance=a:1 job=weir-load le=+Inf rank=0",
                [0.0, 2.0, 3.0],
            ),
            (
                "__name__=weir_load_response_duration_seconds_count instance=a:1 job=weir-load rank=0",
                [0.0, 2.0, 3.0],
            ),
        ] {
            assert_eq!(series.get(name), Some(&at(values)), "{name}");
        }
        let sum = "__name__=weir_load_response_duration_seconds_sum instance=a:1 job=weir-load rank=0";
        // Times have three digits.
        for ((_, sum), expected) in series[sum].iter().zip([0.0, 2.03, 22.03]) {
            assert!((sum - expected).abs() <= 0.02, "{sum} {expected}");
        }
    }

    #[test]
    fn long_runs_need_several_requests() {
        let all = Interval {
            start: 0,
            time: 1_000_000_000 * SECONDS_MAX as u64,
        };
        let seconds = vec![second(1, &[]); SECONDS_MAX];
        let samples = samples(all.start, metrics::by_second(&seconds, all));
        let files = "__name__=weir_load_files_total";
        let read: Vec<Vec<(u64, f64)>> = requests(&samples, &[])
            .map(|request| read(&request)[files].clone())
            .collect();
        let [first, last] = &read[..] else {
            panic!("{read:?}")
        };
        assert_eq!((first.len(), first[0]), (SECONDS_MAX, (0, 0.0)));
        assert_eq!(last[..], [(1_000 * SECONDS_MAX as u64, SECONDS_MAX as f64)]);
    }

    #[test]
    fn a_millisecond_has_one_sample() {
        let all = Interval {
            start: 5_000_000,
            time: 1_005_000_300,
        };
        let of = |seconds: &[Second]| samples(all.start, metrics::by_second(seconds, all));
        let samples = of(&[second(2, &[]), second(3, &[])]);
        let files: Vec<(u64, u64)> = samples
            .iter()
            .map(|sums| (sums.time / NS_PER_MS, sums.counts[1]))
            .collect();
        assert_eq!(files, [(5, 0), (1_005, 5)]);
        assert!(of(&[]).is_empty());
    }
}
