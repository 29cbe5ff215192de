//! The seconds of a run at a collector: what it gets of them, and what a collector that takes nothing does to the command.

use crate::fixture::served;
use crate::serve::otlp::{Collector, LATER, NEVER, Sent, TAKEN, attributes, inner, text};
use crate::workload::{refused, result};
use otlp::wire::{Fields, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Lag is not the matter here, and this machine may be busy.
pub(super) const PATIENT: [&str; 4] = ["--lag-max", "60s", "--stall-max", "1h"];

/// A point: its fields of eight bytes and bytes by number, and its attributes.
#[derive(Debug, Default)]
struct Point {
    numbers: BTreeMap<u32, u64>,
    packed: BTreeMap<u32, Vec<u64>>,
    attributes: BTreeMap<String, String>,
}

/// The points of each metric, with the class of its attribute if it has one.
fn points(sent: &Sent) -> BTreeMap<String, Vec<Point>> {
    let mut all = BTreeMap::new();
    let resource = inner(&sent.content, 1).next().expect("a resource");
    let who = attributes(inner(resource, 1).next().expect("attributes"), 1);
    assert_eq!(who["service.name"], "weir-load");
    let scope = inner(resource, 2).next().expect("a scope");
    for metric in inner(scope, 2) {
        let name = text(inner(metric, 1).next().expect("a name"));
        // A sum or a histogram.
        let (data, attributes_at) = match inner(metric, 7).next() {
            Some(sum) => {
                let fields: Vec<_> = Fields(sum).filter(|(field, _)| *field != 1).collect();
                assert_eq!(
                    fields,
                    [(2, Value::Number(2)), (3, Value::Number(1))],
                    "cumulative and monotonic"
                );
                (sum, 7)
            }
            None => (inner(metric, 9).next().expect("a histogram"), 9),
        };
        let point = |message: &[u8]| {
            let mut point = Point {
                attributes: attributes(message, attributes_at),
                ..Point::default()
            };
            for (field, value) in Fields(message).filter(|(field, _)| *field != attributes_at) {
                match value {
                    Value::Fixed64(number) => {
                        point.numbers.insert(field, number);
                    }
                    Value::Bytes(bytes) => {
                        let eight = bytes.chunks_exact(8);
                        let eight = eight.map(|eight| u64::from_le_bytes(eight.try_into().expect("eight")));
                        point.packed.insert(field, eight.collect());
                    }
                    other => panic!("{field}: {other:?}"),
                }
            }
            point
        };
        let points: Vec<Point> = inner(data, 1).map(point).collect();
        let class = points
            .first()
            .and_then(|point| point.attributes.get("class"))
            .cloned();
        let before = all.insert(
            class.map_or(name.clone(), |class| format!("{name} {class}")),
            points,
        );
        assert!(before.is_none(), "{name} twice");
    }
    all
}

#[test]
fn a_collector_gets_each_second_of_a_run() {
    let site = served(&["webstone"]);
    let collector = Collector::new(|number| if number == 0 { LATER } else { TAKEN });
    let run = [
        "load",
        &site.url,
        "--site",
        site.path(),
        "--rate",
        "200",
        "--duration",
        "2s",
        "--json",
    ];
    let to = ["--otlp", &collector.url, "--otlp-header", "X-Key: secret"];
    let (said, _) = result(&[&run[..], &PATIENT, &to].concat(), 0);
    let sent = collector.all();
    assert_eq!(sent.len(), 2, "the second attempt is taken");
    assert_eq!(sent[0].content, sent[1].content);
    for part in ["POST /v1/metrics HTTP/1.1\r\n", "\r\nX-Key: secret\r\n"] {
        assert!(sent[1].head.contains(part), "{}", sent[1].head);
    }
    let points = points(&sent[1]);
    let names: BTreeSet<&str> = points.keys().map(String::as_str).collect();
    let expected = [
        "weir.load.objects",
        "weir.load.files",
        "weir.load.failures",
        "weir.load.errors",
        "weir.load.content",
        "weir.load.replies 3xx",
        "weir.load.replies 4xx",
        "weir.load.replies 5xx",
        "weir.load.response.duration",
    ];
    assert_eq!(names, BTreeSet::from(expected));
    for (name, points) in &points {
        assert_eq!(points.len(), 2, "{name}");
        let times = |number: u32| points.iter().map(move |point| point.numbers[&number]);
        let starts: BTreeSet<u64> = times(2).collect();
        let ends: Vec<u64> = times(3).collect();
        let start = *starts.first().expect("a start");
        assert_eq!(
            (starts.len(), &ends[..]),
            (1, &[start + 1_000_000_000, start + 2_000_000_000][..]),
            "{name}"
        );
        assert_eq!(points[0].attributes["weir.load.rank"], "0", "{name}");
    }
    let last = |name: &str| points[name][1].numbers[&6];
    let files = said["files_in_time"].as_u64().expect("a count");
    assert!(files > 0 && points["weir.load.files"][0].numbers[&6] <= files);
    assert_eq!(
        (
            last("weir.load.files"),
            last("weir.load.failures"),
            last("weir.load.replies 5xx")
        ),
        (files, 0, 0)
    );
    let [first, second] = &points["weir.load.response.duration"][..] else {
        panic!("{points:?}");
    };
    assert_eq!(second.numbers[&4], files, "as many times as files");
    let (counts, bounds) = (&second.packed[&6], &second.packed[&7]);
    assert_eq!(
        (counts.len(), counts.iter().sum::<u64>()),
        (bounds.len() + 1, files)
    );
    assert!(
        first.packed[&6]
            .iter()
            .zip(counts)
            .all(|(before, after)| before <= after)
    );
    let sum = f64::from_bits(second.numbers[&5]);
    assert!(sum > 0.0 && sum < 60.0 * files as f64, "{sum}");
}

#[test]
fn a_collector_that_takes_nothing_fails_the_command_behind_its_result() {
    let site = served(&["webstone"]);
    let collector = Collector::new(|_| NEVER);
    let run = [
        "load",
        &site.url,
        "--site",
        site.path(),
        "--rate",
        "100",
        "--duration",
        "1s",
        "--json",
    ];
    let (said, failure) = result(&[&run[..], &PATIENT, &["--otlp", &collector.url]].concat(), 4);
    assert!(said["files"].as_u64() > Some(0));
    assert!(failure.contains("it answers with 400 (--otlp)"), "{failure}");
    assert_eq!(collector.all().len(), 1, "once is enough");
    let collector = Collector::new(|_| LATER);
    let (_, failure) = result(&[&run[..], &PATIENT, &["--otlp", &collector.url]].concat(), 4);
    assert!(failure.contains("it answers with 503 (--otlp)"), "{failure}");
    assert_eq!(collector.all().len(), 4, "attempts");
    for (flags, part) in [
        (&["--otlp", "127.0.0.1:4318"][..], "is not the URL of a collector"),
        (
            &["--otlp-header", "X-Key: secret"],
            "`--otlp-header` has no effect without a collector",
        ),
        (
            &["--otlp-ca", "ca.pem"],
            "`--otlp-ca` has no effect without a collector",
        ),
        (
            &["--otlp", "http://127.0.0.1:1", "--slo", "p99<1s"],
            "`--otlp` sends the seconds of one run",
        ),
    ] {
        let why = refused(&[&run[..], flags].concat(), 2);
        assert!(why.contains(part), "{flags:?}: {why}");
    }
}
