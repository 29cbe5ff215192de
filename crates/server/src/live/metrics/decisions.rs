//! Families of the servers that decide about requests (`auth` in `[[access]]`).

use crate::access::DecisionReport;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::collections::HashSet;
use std::fmt;

/// Writes them, if there are any. They are of one process.
pub(super) fn write(
    encoder: &mut DescriptorEncoder<'_>,
    reports: &[DecisionReport],
) -> Result<(), fmt::Error> {
    // A rule that occurs twice has one series, that of the first.
    let mut seen = HashSet::new();
    let mut each = Vec::new();
    for report in reports {
        let labels = [
            ("site", report.site.as_str()),
            ("rule", report.path.as_str()),
            ("server", report.server.as_str()),
        ];
        if seen.insert(labels) {
            each.push((labels, report));
        }
    }
    if each.is_empty() {
        return Ok(());
    }
    let help = "Requests by decision of the server in auth, in the process that answers";
    let mut family = encoder.encode_descriptor("auth_requests", help, None, MetricType::Counter)?;
    for ([site, rule, server], report) in &each {
        for (outcome, count) in report.outcomes {
            let labels = [*site, *rule, *server, ("outcome", outcome)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    let help = "Open connections to the server in auth, in the process that answers";
    let mut family = encoder.encode_descriptor("auth_connections_open", help, None, MetricType::Gauge)?;
    for (labels, report) in &each {
        let open = i64::try_from(report.open).unwrap_or(i64::MAX);
        ConstGauge::new(open).encode(family.encode_family(labels)?)?;
    }
    let help = "Connections opened to the server in auth, in the process that answers";
    let mut family = encoder.encode_descriptor("auth_connections_opened", help, None, MetricType::Counter)?;
    for (labels, report) in &each {
        ConstCounter::new(report.opened).encode(family.encode_family(labels)?)?;
    }
    let help = "Time from a request to the answer of the server in auth or to its failure, in the process that answers";
    let mut family =
        encoder.encode_descriptor("auth_duration", help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for (labels, report) in &each {
        let count: u64 = report.durations.iter().map(|(_, count)| count).sum();
        family.encode_family(labels)?.encode_histogram::<NoLabelSet>(
            report.duration.as_secs_f64(),
            count,
            &report.durations,
            None,
        )?;
    }
    Ok(())
}
