//! A metric in the encoding of OTLP (opentelemetry/proto/metrics/v1/metrics.proto). All metrics here are cumulative: each point
//! counts from the same start, which every backend takes.

use crate::export::{self, Resource, Scope};
use crate::span::attribute;
use crate::wire;

/// Path of metrics below that of the collector.
pub const METRICS_AT: &str = "/v1/metrics";

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

/// What a metric is called, what it is and its unit (UCUM).
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// Its name, as `http.client.request.duration`.
    pub name: &'a str,
    /// What it counts or measures.
    pub description: &'a str,
    /// Its unit.
    pub unit: &'a str,
}

/// The time that a point covers, in nanoseconds of Unix time.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// When the count began.
    pub start: u64,
    /// When it had this value.
    pub time: u64,
}

/// Metrics that are being written.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Fields of `ScopeMetrics`.
    fields: Vec<u8>,
}

/// A distribution.
#[derive(Clone, Debug)]
pub struct Distribution<'a> {
    /// Upper bounds of all buckets but the last, which has none.
    pub bounds: &'a [f64],
    /// Values in each bucket: one more than bounds.
    pub counts: &'a [u64],
    /// Sum of all values.
    pub sum: f64,
}

impl Metrics {
    /// Adds a count that only grows, with one point for each value. Each point has these attributes.
    pub fn sum(&mut self, name: Name<'_>, attributes: &[(&str, &str)], points: &[(Interval, u64)]) {
        self.metric(name, 7, |out| {
            for (interval, value) in points {
                wire::message(out, 1, |out| {
                    times(out, *interval);
                    // `as_int`, an `sfixed64`.
                    wire::fixed64(out, 6, *value);
                    texts(out, 7, attributes);
                });
            }
            wire::number(out, 2, CUMULATIVE);
            // `is_monotonic`.
            wire::number(out, 3, 1);
        });
    }

    /// Adds a histogram, with one point for each distribution.
    pub fn histogram(
        &mut self,
        name: Name<'_>,
        attributes: &[(&str, &str)],
        points: &[(Interval, Distribution<'_>)],
    ) {
        self.metric(name, 9, |out| {
            for (interval, distribution) in points {
                wire::message(out, 1, |out| {
                    times(out, *interval);
                    wire::fixed64(out, 4, distribution.counts.iter().sum());
                    wire::double(out, 5, distribution.sum);
                    wire::bytes(out, 6, &packed(distribution.counts.iter().copied()));
                    wire::bytes(
                        out,
                        7,
                        &packed(distribution.bounds.iter().map(|bound| bound.to_bits())),
                    );
                    texts(out, 9, attributes);
                });
            }
            wire::number(out, 2, CUMULATIVE);
        });
    }

    fn metric(&mut self, name: Name<'_>, kind: u32, write: impl FnOnce(&mut Vec<u8>)) {
        wire::message(&mut self.fields, 2, |out| {
            wire::bytes(out, 1, name.name.as_bytes());
            wire::bytes(out, 2, name.description.as_bytes());
            wire::bytes(out, 3, name.unit.as_bytes());
            wire::message(out, kind, write);
        });
    }

    /// The request with these metrics.
    pub fn request(&self, resource: Resource<'_>, scope: Scope<'_>) -> Vec<u8> {
        export::request(resource, scope, &self.fields)
    }
}

fn times(out: &mut Vec<u8>, interval: Interval) {
    wire::fixed64(out, 2, interval.start);
    wire::fixed64(out, 3, interval.time);
}

fn texts(out: &mut Vec<u8>, field: u32, attributes: &[(&str, &str)]) {
    for (key, value) in attributes {
        attribute(out, field, key, |out| wire::bytes(out, 1, value.as_bytes()));
    }
}

/// Numbers of eight bytes behind each other.
fn packed(values: impl Iterator<Item = u64>) -> Vec<u8> {
    values.flat_map(u64::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Fields, Value};

    #[test]
    fn metrics_have_the_fields_of_their_kind() {
        let (name, interval) = (
            Name {
                name: "n",
                description: "d",
                unit: "s",
            },
            Interval { start: 1, time: 2 },
        );
        let mut metrics = Metrics::default();
        metrics.sum(name, &[("k", "v")], &[(interval, 7)]);
        let distribution = Distribution {
            bounds: &[0.5],
            counts: &[3, 4],
            sum: 1.5,
        };
        metrics.histogram(name, &[], &[(interval, distribution)]);
        let read = |bytes: &[u8]| -> Vec<(u32, Vec<u8>)> {
            let fields = Fields(bytes).map(|(field, value)| match value {
                Value::Bytes(bytes) => (field, bytes.to_vec()),
                Value::Number(number) => (field, vec![u8::try_from(number).unwrap()]),
                Value::Fixed64(number) => (field, number.to_le_bytes().to_vec()),
                Value::Fixed32(_) => panic!("{field}"),
            });
            fields.collect()
        };
        let both = read(&metrics.fields);
        let [(2, sum), (2, histogram)] = &both[..] else {
            panic!("{both:?}")
        };
        let fields = read(sum);
        let named = [(1, b"n".to_vec()), (2, b"d".to_vec()), (3, b"s".to_vec())];
        assert_eq!((&fields[..3], fields[3].0), (&named[..], 7));
        let inner = read(&fields[3].1);
        assert_eq!(inner[1..], [(2, vec![2]), (3, vec![1])]);
        let eight = |value: u64| value.to_le_bytes().to_vec();
        assert_eq!(
            read(&inner[0].1),
            [
                (2, eight(1)),
                (3, eight(2)),
                (6, eight(7)),
                (7, b"\x0a\x01k\x12\x03\x0a\x01v".to_vec())
            ]
        );
        let fields = read(histogram);
        assert_eq!((&fields[..3], fields[3].0), (&named[..], 9));
        let inner = read(&fields[3].1);
        assert_eq!(inner[1..], [(2, vec![2])]);
        assert_eq!(
            read(&inner[0].1),
            [
                (2, eight(1)),
                (3, eight(2)),
                (4, eight(7)),
                (5, eight(1.5_f64.to_bits())),
                (6, [eight(3), eight(4)].concat()),
                (7, eight(0.5_f64.to_bits())),
            ]
        );
        let scope = Scope {
            name: "weir",
            version: "1",
        };
        let request = metrics.request(&[], scope);
        let resource = read(&request);
        assert_eq!(
            read(&resource[0].1)
                .iter()
                .map(|(field, _)| *field)
                .collect::<Vec<_>>(),
            [1, 2]
        );
    }
}
