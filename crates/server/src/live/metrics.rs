//! The counters in the OpenMetrics text format that Prometheus scrapes. They are read in place, also those of other
//! processes, without a lock: neither workers nor the reader wait.

mod decisions;

use crate::counters::Totals;
use crate::host_counts::HostReport;
use crate::proxy::Forwarding;
use crate::proxy::cache::{Count, Report};
use crate::service::Server;
use crate::uploads::Counts;
use balance::State;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashSet;
use std::fmt;
use units::UnixTime;

/// `Content-Type` of the OpenMetrics text.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The server's current metrics as OpenMetrics text.
pub(super) fn text(server: &Server, wall: UnixTime) -> String {
    let mut registry = Registry::with_prefix("weir");
    registry.register_collector(Box::new(Gathered(server.clone(), wall)));
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut out, &registry);
    out
}

#[derive(Debug)]
struct Gathered(Server, UnixTime);

impl Collector for Gathered {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let server = &self.0;
        let readings = server.readings();
        // Counters have the same order in every worker.
        for (at, (name, help)) in Totals::HELP.iter().enumerate() {
            // The doc comment is the help text; the encoder adds the final period.
            let help = help.trim().trim_end_matches('.');
            // OpenMetrics appends `_total` to every counter.
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
                "Open connections",
                None,
                u64::from(server.open_connections()),
            ),
            (
                "addresses_open",
                "Addresses with open connections",
                None,
                server.open_addresses() as u64,
            ),
            (
                "disk_waiting",
                "Files being opened, read or compressed for requests, in the process that answers",
                None,
                u64::from(server.jobs_waiting()),
            ),
            (
                "line_waiting",
                "Responses waiting for the line (line-rate)",
                None,
                line.answers as u64,
            ),
            (
                "line_waiting",
                "Bytes left to send of the responses waiting for the line (line-rate)",
                Some(Unit::Bytes),
                line.bytes,
            ),
            ("cache_entries", "Entries in the cache", None, cache.entries),
            (
                "cache_size",
                "Bytes held by the cache",
                Some(Unit::Bytes),
                cache.bytes,
            ),
            (
                "cache_descriptors",
                "Files kept open by the cache",
                None,
                cache.descriptors,
            ),
            (
                "memory_limit",
                "Limit on memory, the nearest one if several apply, of the process that answers; 0 without a limit",
                Some(Unit::Bytes),
                server.budget().limit().map_or(0, |limit| limit.0),
            ),
            (
                "memory_used",
                "Memory in use, counted against the limit",
                Some(Unit::Bytes),
                server.budget().used().0,
            ),
            (
                "memory_held",
                "Bytes held by connections of this process: unsent output, partial requests, requests waiting for a file",
                Some(Unit::Bytes),
                server.budget().held().0,
            ),
            (
                "memory_step",
                "Memory step: 0 none, 1 connections read little at a time, 2 they get one response per turn, \
                 3 idle ones are closed, 4 requests are rejected",
                None,
                server.budget().step() as u64,
            ),
            (
                "processes",
                "Processes that serve requests",
                None,
                readings.processes as u64,
            ),
            (
                "idle_timeout_adapted",
                "Idle timeout in milliseconds while adaptation shortens it, else 0",
                None,
                server
                    .settings()
                    .keep_alive
                    .map_or(0, |span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
            ),
            (
                "ready",
                "1 while the server wants requests, 0 once it is told to stop or while a root cannot be opened",
                None,
                u64::from(server.is_ready()),
            ),
        ];
        for (name, help, unit, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let encoder = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
            gauge.encode(encoder)?;
        }
        let help = "Time since the start of the server";
        let unit = Some(&Unit::Seconds);
        let encoder_of_uptime = encoder.encode_descriptor("uptime", help, unit, MetricType::Gauge)?;
        ConstGauge::new(seconds(self.1) - seconds(server.about().started)).encode(encoder_of_uptime)?;
        upstreams(&mut encoder, &server.upstreams())?;
        caches(&mut encoder, &server.caches())?;
        uploads(&mut encoder, &server.uploads())?;
        hosts(&mut encoder, &server.host_reports())?;
        decisions::write(&mut encoder, &server.auth_decisions())?;
        let certificates = server.about().certificates;
        if !certificates.is_empty() {
            let help = "End of validity of a certificate, in Unix time";
            let unit = Some(&Unit::Seconds);
            let mut family =
                encoder.encode_descriptor("certificate_expiry_timestamp", help, unit, MetricType::Gauge)?;
            for certificate in certificates {
                let label = [("name", certificate.name)];
                ConstGauge::new(certificate.expires.secs).encode(family.encode_family(&label)?)?;
            }
        }
        for (name, help, value) in [
            (
                "adaptations",
                "Changes that adaptation made to settings",
                server.changes(),
            ),
            (
                "adaptations_dry_run",
                "Changes that a dry run decided and did not make",
                server.decisions().dry_run(),
            ),
            (
                "cache_evictions",
                "Entries evicted from the cache to make room",
                cache.evictions,
            ),
            (
                "cache_turned_away",
                "Responses not cached for lack of room",
                cache.turned_away,
            ),
            (
                "cache_ahead",
                "Entries loaded before their request, because a page embeds them",
                cache.ahead,
            ),
        ] {
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(encoder)?;
        }
        let durations = &readings.durations;
        let unit = Some(&Unit::Seconds);
        let help = "Time during which a worker had a standing queue, summed over workers";
        let stood = encoder.encode_descriptor("standing_queue", help, unit, MetricType::Counter)?;
        ConstCounter::new(durations.stood().as_secs_f64()).encode(stood)?;
        let help = "Time responses waited for the line (line-rate), summed over responses";
        let waited = encoder.encode_descriptor("line_wait", help, unit, MetricType::Counter)?;
        ConstCounter::new(line.time.as_secs_f64()).encode(waited)?;
        let help = "Responses that waited for the line (line-rate)";
        let waited = encoder.encode_descriptor("line_waits", help, None, MetricType::Counter)?;
        ConstCounter::new(line.waited).encode(waited)?;
        let mut before = 0;
        let buckets: Vec<(f64, u64)> = durations
            .cumulative()
            .map(|(bound, sum)| (bound.as_secs_f64(), sum - std::mem::replace(&mut before, sum)))
            .collect();
        let help = "Response time, from a request's first byte to the end of the turn in which its response was composed";
        let mut encoder = encoder.encode_descriptor(
            "answer_duration",
            help,
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        let count = durations.count();
        let rest = (f64::INFINITY, count - before);
        let buckets: Vec<(f64, u64)> = buckets.into_iter().chain([rest]).collect();
        encoder.encode_histogram::<NoLabelSet>(durations.sum().as_secs_f64(), count, &buckets, None)
    }
}

/// Families of the caches of `[[proxy]]` rules, if there are any. They are of one process.
fn caches(encoder: &mut DescriptorEncoder<'_>, caches: &[(String, Report)]) -> Result<(), fmt::Error> {
    if caches.is_empty() {
        return Ok(());
    }
    type Value = fn(&Report) -> u64;
    let gauges: [(&str, &str, Value); 8] = [
        ("entries", "Stored responses", |report| report.entries),
        ("bytes", "Bytes reserved", |report| report.bytes),
        ("bytes_peak", "Most bytes reserved at once", |report| {
            report.bytes_peak
        }),
        ("bytes_limit", "Byte budget", |report| report.bytes_max),
        ("disk_entries", "Responses on the disk", |report| {
            report.disk.entries
        }),
        ("disk_bytes", "Bytes on the disk", |report| report.disk.bytes),
        ("disk_bytes_peak", "Most bytes on the disk at once", |report| {
            report.disk.bytes_peak
        }),
        ("disk_bytes_limit", "Byte budget on the disk", |report| {
            report.disk.bytes_max
        }),
    ];
    for (name, what, value) in gauges {
        let help = format!("{what} of the proxy's cache, in the process that answers");
        let name = format!("proxy_cache_{name}");
        let mut family = encoder.encode_descriptor(&name, &help, None, MetricType::Gauge)?;
        for (upstreams, report) in caches {
            let labels = [("upstreams", upstreams.as_str())];
            ConstGauge::new(value(report)).encode(family.encode_family(&labels)?)?;
        }
    }
    let counted = Count::ALL
        .iter()
        .map(|count| (count.name(), count.help()))
        .chain([("evicted", "Stored responses evicted to make room")]);
    for (at, (name, what)) in counted.enumerate() {
        let help = format!("{what}, in the process that answers");
        let name = format!("proxy_cache_{name}");
        let mut family = encoder.encode_descriptor(&name, &help, None, MetricType::Counter)?;
        for (upstreams, report) in caches {
            let labels = [("upstreams", upstreams.as_str())];
            let count = report.counts.get(at).copied().unwrap_or(report.evictions);
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Families of the rules for uploads, if there are any. They are of one process.
fn uploads(encoder: &mut DescriptorEncoder<'_>, folders: &[(String, Counts)]) -> Result<(), fmt::Error> {
    if folders.is_empty() {
        return Ok(());
    }
    type Value = fn(&Counts) -> u64;
    let counters: [(&str, &str, Value); 5] = [
        ("files", "Files stored by PUT", |counts| counts.stored),
        ("bytes", "Bytes of files stored by PUT", |counts| counts.bytes),
        ("removed", "Files and folders removed by DELETE", |counts| {
            counts.removed
        }),
        (
            "full",
            "Requests rejected because the quota or the disk was full",
            |counts| counts.full,
        ),
        (
            "failed",
            "Requests that failed because of the file system",
            |counts| counts.failed,
        ),
    ];
    for (name, help, value) in counters {
        let name = format!("upload_{name}");
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
        for (folder, counts) in folders {
            let labels = [("folder", folder.as_str())];
            ConstCounter::new(value(counts)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Families of hosts, if their responses are counted. They are of one process.
fn hosts(encoder: &mut DescriptorEncoder<'_>, hosts: &[HostReport]) -> Result<(), fmt::Error> {
    if hosts.is_empty() {
        return Ok(());
    }
    let help = "Responses by host of the configuration, in the process that answers";
    let mut family = encoder.encode_descriptor("host_responses", help, None, MetricType::Counter)?;
    for host in hosts {
        for (class, count) in host.classes {
            let labels = [("host", host.name.as_str()), ("class", class)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    let help = "Bytes of responses handed to the kernel by host, header blocks included, in the process that answers";
    let mut family = encoder.encode_descriptor("host_sent", help, Some(&Unit::Bytes), MetricType::Counter)?;
    for host in hosts {
        let labels = [("host", host.name.as_str())];
        ConstCounter::new(host.bytes).encode(family.encode_family(&labels)?)?;
    }
    let help = "Time from a request's first byte to the last byte of its response by host, in the process that answers";
    let mut family = encoder.encode_descriptor(
        "host_response_duration",
        help,
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    for host in hosts {
        let labels = [("host", host.name.as_str())];
        let count: u64 = host.durations.iter().map(|(_, count)| count).sum();
        family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
            host.duration.as_secs_f64(),
            count,
            &host.durations,
            None,
        )?;
    }
    Ok(())
}

fn seconds(time: UnixTime) -> f64 {
    time.secs as f64 + f64::from(time.nanos) / 1e9
}

/// Families of upstreams that may speak HTTP/2, if there are any.
fn http2_upstreams(encoder: &mut DescriptorEncoder<'_>, rules: &[Forwarding]) -> Result<(), fmt::Error> {
    const COUNTERS: [(&str, &str); 4] = [
        ("streams", "Requests sent to the upstream in HTTP/2"),
        ("reused", "HTTP/2 requests that found an open connection"),
        ("goaway", "GOAWAY frames of the upstream"),
        (
            "refused",
            "HTTP/2 requests that the upstream did not process (REFUSED_STREAM, GOAWAY)",
        ),
    ];
    let mut seen = HashSet::new();
    let mut each = Vec::new();
    for rule in rules {
        for (address, counts) in &rule.http2 {
            let labels = [
                ("site", rule.site.as_str()),
                ("rule", rule.path.as_str()),
                ("upstream", address.as_str()),
            ];
            if seen.insert(labels) {
                each.push((labels, counts));
            }
        }
    }
    if each.is_empty() {
        return Ok(());
    }
    for (at, (name, help)) in COUNTERS.into_iter().enumerate() {
        let (name, help) = (
            format!("upstream_http2_{name}"),
            format!("{help}, in the process that answers"),
        );
        let mut family = encoder.encode_descriptor(&name, &help, None, MetricType::Counter)?;
        for (labels, counts) in &each {
            ConstCounter::new(counts[at]).encode(family.encode_family(labels)?)?;
        }
    }
    Ok(())
}

/// Families of the upstreams of `[[proxy]]` rules, if there are any. Like the balancer, they are of one process.
fn upstreams(encoder: &mut DescriptorEncoder<'_>, rules: &[Forwarding]) -> Result<(), fmt::Error> {
    type Value = fn(&State) -> Option<f64>;
    let seconds = Some(Unit::Seconds);
    let gauges: [(&str, &str, &Option<Unit>, Value); 5] = [
        (
            "upstream_up",
            "1 if the upstream gets requests, 0 while it is ejected or its check fails, in the process that answers",
            &None,
            |state| {
                Some(f64::from(u8::from(
                    state.health == "up" || state.health == "slow start",
                )))
            },
        ),
        (
            "upstream_under_way",
            "Requests at the upstream, in the process that answers",
            &None,
            |state| Some(f64::from(state.under_way)),
        ),
        (
            "upstream_response",
            "Peak-sensitive average of the time to the head of a response, in the process that answers",
            &seconds,
            |state| state.response,
        ),
        (
            "upstream_service",
            "Estimated service time without other requests, in the process that answers",
            &seconds,
            |state| state.service,
        ),
        (
            "upstream_network",
            "Estimated time in the network for connection and request, in the process that answers",
            &seconds,
            |state| state.network,
        ),
    ];
    // A rule or upstream that occurs twice has one series, that of the first.
    let mut seen = HashSet::new();
    let mut each = Vec::new();
    for rule in rules {
        for (address, state) in &rule.upstreams {
            let labels = [
                ("site", rule.site.as_str()),
                ("rule", rule.path.as_str()),
                ("upstream", address.as_str()),
            ];
            if seen.insert(labels) {
                each.push((labels, state));
            }
        }
    }
    if rules.is_empty() {
        return Ok(());
    }
    for (name, help, unit, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for (labels, state) in &each {
            if let Some(value) = value(state) {
                ConstGauge::new(value).encode(family.encode_family(labels)?)?;
            }
        }
    }
    let help = "Requests sent to the upstream, in the process that answers";
    let mut family = encoder.encode_descriptor("upstream_requests", help, None, MetricType::Counter)?;
    for (labels, state) in &each {
        ConstCounter::new(state.requests).encode(family.encode_family(labels)?)?;
    }
    http2_upstreams(encoder, rules)?;
    let mut seen = HashSet::new();
    let mut names = Vec::new();
    for rule in rules {
        for (name, known) in &rule.names {
            let labels = [
                ("site", rule.site.as_str()),
                ("rule", rule.path.as_str()),
                ("upstream", name.as_str()),
            ];
            if seen.insert(labels) {
                names.push((labels, known));
            }
        }
    }
    let help = "Known addresses of the upstream's host name, in the process that answers";
    let mut family = encoder.encode_descriptor("upstream_addresses", help, None, MetricType::Gauge)?;
    for (labels, known) in &names {
        ConstGauge::new(known.addresses.len() as f64).encode(family.encode_family(labels)?)?;
    }
    let help = "Failed lookups of the upstream's host name, in the process that answers";
    let mut family =
        encoder.encode_descriptor("upstream_lookup_failures", help, None, MetricType::Counter)?;
    for (labels, known) in &names {
        ConstCounter::new(known.failures).encode(family.encode_family(labels)?)?;
    }
    let help = "Choices of an upstream that the dry run of a policy would have made otherwise, in the process that answers";
    let mut family =
        encoder.encode_descriptor("balance_dry_run_differing", help, None, MetricType::Counter)?;
    let mut seen = HashSet::new();
    for rule in rules {
        let policy = rule.dry_run.map(|dry| dry.policy.to_string());
        if let (Some(dry), Some(policy)) = (rule.dry_run, &policy)
            && seen.insert((rule.site.as_str(), rule.path.as_str()))
        {
            let labels = [
                ("site", rule.site.as_str()),
                ("rule", rule.path.as_str()),
                ("policy", policy.as_str()),
            ];
            ConstCounter::new(dry.differing).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
