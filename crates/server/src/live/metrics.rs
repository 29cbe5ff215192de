//! The counters in the OpenMetrics text form that Prometheus scrapes. Each worker's are read where they
//! stand, also those of other processes; nobody waits for anybody.

use crate::counters::Totals;
use crate::service::Server;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// `Content-Type` of the text.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of a server now.
pub(super) fn text(server: &Server) -> String {
    let mut registry = Registry::with_prefix("weir");
    registry.register_collector(Box::new(Gathered(server.clone())));
    let mut out = String::new();
    // Writing into a text does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut out, &registry);
    out
}

#[derive(Debug)]
struct Gathered(Server);

impl Collector for Gathered {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let server = &self.0;
        let readings = server.readings();
        // The counters have one order in every worker.
        for (at, (name, help)) in Totals::HELP.iter().enumerate() {
            // The first sentence of their documentation; the encoder ends it.
            let help = help.trim().trim_end_matches('.');
            // The form puts `_total` behind every counter.
            let name = name.strip_suffix("_total").unwrap_or(name);
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            let numbered = readings
                .workers
                .iter()
                .map(|(number, worker)| (number.to_string(), worker));
            for (name, worker) in numbered.chain([("ended".to_owned(), &readings.ended)]) {
                let count = worker.each().nth(at).map_or(0, |(_, count)| count);
                let label = [("worker", name)];
                ConstCounter::new(count).encode(family.encode_family(&label)?)?;
            }
        }
        let cache = readings.cache.map_or_else(|| server.cache(), |(cache, _)| cache);
        let line = readings.durations.withheld();
        let gauges = [
            (
                "connections_open",
                "Connections open now",
                None,
                u64::from(server.open_connections()),
            ),
            (
                "addresses_open",
                "Addresses with a connection open now",
                None,
                server.open_addresses() as u64,
            ),
            (
                "disk_waiting",
                "Files being opened, read or compressed for requests, in the process that answers this",
                None,
                u64::from(server.jobs_waiting()),
            ),
            (
                "line_waiting",
                "Answers that wait for the line now",
                None,
                line.answers as u64,
            ),
            (
                "line_waiting",
                "Bytes left of the answers that wait for the line now",
                Some(Unit::Bytes),
                line.bytes,
            ),
            ("cache_entries", "Entries in the cache", None, cache.entries),
            (
                "cache_size",
                "Bytes the cache holds",
                Some(Unit::Bytes),
                cache.bytes,
            ),
            (
                "cache_descriptors",
                "Files the cache keeps open",
                None,
                cache.descriptors,
            ),
            (
                "memory_limit",
                "Bytes the server may use, of the bound that is nearest, by the process that answers; 0 without one",
                Some(Unit::Bytes),
                server.budget().limit().map_or(0, |limit| limit.0),
            ),
            (
                "memory_used",
                "Bytes used of it",
                Some(Unit::Bytes),
                server.budget().used().0,
            ),
            (
                "memory_held",
                "Bytes connections of this process hold: output that waits, partial requests, requests that wait for a job",
                Some(Unit::Bytes),
                server.budget().held().0,
            ),
            (
                "memory_step",
                "What is done about memory: 0 nothing, 1 connections read little at a time, 2 they get one answer per turn, \
                 3 idle ones are closed, 4 requests are refused",
                None,
                server.budget().step() as u64,
            ),
            (
                "processes",
                "Processes that serve",
                None,
                readings.processes as u64,
            ),
            (
                "idle_timeout_adapted",
                "Milliseconds an answered connection may be idle as long as less than configured, else 0",
                None,
                server
                    .settings()
                    .keep_alive
                    .map_or(0, |span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
            ),
            (
                "ready",
                "1 while requests are wanted, 0 once the server is told to stop or while a root cannot be opened",
                None,
                u64::from(server.is_ready()),
            ),
        ];
        for (name, help, unit, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let encoder = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
            gauge.encode(encoder)?;
        }
        for (name, help, value) in [
            (
                "adaptations",
                "Changes the server made to its own settings",
                server.changes(),
            ),
            (
                "adaptations_dry_run",
                "Changes that a dry run decided on and did not make",
                server.decisions().dry_run(),
            ),
            (
                "cache_evictions",
                "Entries that left the cache for want of room",
                cache.evictions,
            ),
            (
                "cache_turned_away",
                "Answers served without being kept, for want of room",
                cache.turned_away,
            ),
            (
                "cache_ahead",
                "Entries loaded because a page embeds them, before they were asked for",
                cache.ahead,
            ),
        ] {
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(encoder)?;
        }
        let durations = &readings.durations;
        let unit = Some(&Unit::Seconds);
        let help = "Time in which a worker had a queue that stands, summed over workers";
        let stood = encoder.encode_descriptor("standing_queue", help, unit, MetricType::Counter)?;
        ConstCounter::new(durations.stood().as_secs_f64()).encode(stood)?;
        let help = "Time answers waited for the line whose rate was declared, summed over answers";
        let waited = encoder.encode_descriptor("line_wait", help, unit, MetricType::Counter)?;
        ConstCounter::new(line.time.as_secs_f64()).encode(waited)?;
        let help = "Answers that waited for the line whose rate was declared";
        let waited = encoder.encode_descriptor("line_waits", help, None, MetricType::Counter)?;
        ConstCounter::new(line.waited).encode(waited)?;
        let mut before = 0;
        let buckets: Vec<(f64, u64)> = durations
            .cumulative()
            .map(|(bound, sum)| (bound.as_secs_f64(), sum - std::mem::replace(&mut before, sum)))
            .collect();
        let help = "From a request's first byte to the end of the turn in which its answer was written down";
        let mut encoder = encoder.encode_descriptor(
            "answer_duration",
            help,
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        let count = durations.count();
        let rest = (f64::INFINITY, count - before);
        let buckets: Vec<(f64, u64)> = buckets.into_iter().chain([rest]).collect();
        encoder.encode_histogram::<prometheus_client::encoding::NoLabelSet>(
            durations.sum().as_secs_f64(),
            count,
            &buckets,
            None,
        )
    }
}
