//! The live page: tables that need no script, and a script that updates their figures in place.

use super::figures::{DECISIONS_SHOWN, Figures, QUANTILES};
use std::fmt::Write;

/// The script that updates the page; a separate file, so that the page needs no inline script.
pub(super) const SCRIPT: &str = include_str!("live.js");

const BEFORE: &str = include_str!("before.html");
const AFTER: &str = include_str!("after.html");

/// The page as HTML, with these figures.
pub(super) fn html(figures: &Figures) -> String {
    let mut out = String::with_capacity(BEFORE.len() + AFTER.len() + 8 * 1024);
    out.push_str(BEFORE);
    let totals = &figures.totals;
    section(&mut out, "Requests", |out| {
        row(out, "requests", "answered", totals.requests, "");
        row(out, "successful", "2xx", totals.successful, "");
        row(out, "redirected", "3xx, including 304", totals.redirected, "");
        row(out, "client-errors", "4xx", totals.client_errors, "");
        row(out, "server-errors", "5xx", totals.server_errors, "");
        row(out, "bytes-sent", "bytes sent", totals.bytes_sent, "");
        row(
            out,
            "aborted",
            "connection lost before the end",
            totals.aborted,
            "",
        );
    });
    section(&mut out, "Response times", |out| {
        for (name, share) in QUANTILES {
            let micros = figures.durations.quantile(share).map(|d| d.as_micros());
            let value = micros.map_or("none yet".to_owned(), |micros| micros.to_string());
            let _ = writeln!(
                out,
                "<tr><th scope=row>{name}<td data-key=\"latency-us.{name}\">{value}<td>µs or less"
            );
        }
    });
    section(&mut out, "Connections", |out| {
        row(out, "=connections", "open", figures.open.into(), "");
        row(out, "=addresses", "addresses", figures.addresses as u64, "");
        row(out, "accepted", "accepted", totals.accepted, "");
        row(
            out,
            "refused-total",
            "rejected: connection limit",
            totals.refused_total,
            "",
        );
        row(
            out,
            "refused-address",
            "rejected: per-address limit",
            totals.refused_address,
            "",
        );
        row(
            out,
            "refused-handshakes",
            "rejected: handshakes of an address",
            totals.refused_handshakes,
            "",
        );
        row(out, "timeouts", "closed by a timeout", totals.timeouts, "");
    });
    section(&mut out, "HTTP/2", |out| {
        row(
            out,
            "http2-connections",
            "connections",
            totals.http2_connections,
            "",
        );
        row(out, "http2-requests", "requests", totals.http2_requests, "");
        row(
            out,
            "http2-resets",
            "cancelled by clients",
            totals.http2_resets,
            "",
        );
        row(
            out,
            "http2-failed",
            "connections ended by a fault",
            totals.http2_failed,
            "",
        );
    });
    section(&mut out, "HTTP/3", |out| {
        row(
            out,
            "http3-connections",
            "connections",
            totals.http3_connections,
            "",
        );
        row(out, "http3-requests", "requests", totals.http3_requests, "");
        row(
            out,
            "http3-resets",
            "cancelled by clients",
            totals.http3_resets,
            "",
        );
        row(
            out,
            "http3-failed",
            "connections ended by a fault",
            totals.http3_failed,
            "",
        );
        row(
            out,
            "http3-retries",
            "clients that had to prove their address",
            totals.http3_retries,
            "",
        );
        row(out, "udp-received", "datagrams received", totals.udp_received, "");
        row(
            out,
            "udp-forwarded",
            "handed to another thread",
            totals.udp_forwarded,
            "",
        );
        row(
            out,
            "udp-relayed",
            "handed to another process",
            totals.udp_relayed,
            "",
        );
        row(
            out,
            "udp-dropped",
            "dropped: too many waited",
            totals.udp_dropped,
            "",
        );
        row(out, "udp-sent", "payloads sent", totals.udp_sent, "");
        row(
            out,
            "udp-refused",
            "refused by the kernel",
            totals.udp_refused,
            "",
        );
    });
    if !figures.certificates.is_empty() {
        section(&mut out, "TLS", |out| {
            row(out, "tls-handshakes", "handshakes", totals.tls_handshakes, "");
            row(out, "tls-resumed", "resumed", totals.tls_resumed, "");
            row(out, "tls-failed", "failed", totals.tls_failed, "");
            row(out, "tls-plain-http", "plain HTTP", totals.tls_plain_http, "");
            for (index, certificate) in figures.certificates.iter().enumerate() {
                text_row(out, &format!("certificates.{index}"), "certificate", certificate);
            }
        });
    }
    section(&mut out, "Cache", |out| {
        text_row(out, "cache-policy", "policy", &figures.policy);
        row(out, "hits", "hits", totals.hits, "");
        row(out, "loads", "waited for disk or compression", totals.loads, "");
        row(out, "=cache.entries", "entries", figures.cache.entries, "");
        row(out, "=cache.bytes", "bytes", figures.cache.bytes, "");
        row(out, "=cache.bytes-max", "byte budget", figures.cache_size, "");
        row(
            out,
            "=cache.descriptors",
            "open files",
            figures.cache.descriptors,
            "",
        );
        row(out, "=cache.evictions", "evictions", figures.cache.evictions, "");
    });
    if !figures.upstreams.is_empty() {
        section(&mut out, "Upstreams", |out| {
            for (index, said) in figures.upstreams.iter().enumerate() {
                let _ = writeln!(
                    out,
                    "<tr><td class=said colspan=3 data-key=\"upstreams.{index}\">{said}"
                );
            }
        });
    }
    section(&mut out, "Adaptation", |out| {
        text_row(out, "adaptation.idle", "idle timeout in force", &figures.idle);
        row(out, "=adaptation.changes", "changes", figures.changes, "");
        if let Some(count) = figures.dry_run {
            row(
                out,
                "=adaptation.dry-run",
                "changes decided in a dry run",
                count,
                "",
            );
        }
        for index in 0..DECISIONS_SHOWN {
            // The script fills and shows the hidden rows when decisions are made.
            let (hidden, said) = match figures.decisions.get(index) {
                Some(said) => ("", said.as_str()),
                None => (" hidden", ""),
            };
            let _ = writeln!(
                out,
                "<tr{hidden}><td class=said colspan=3 data-key=\"adaptation.decisions.{index}\">{said}"
            );
        }
    });
    section(&mut out, "Strategy", |out| {
        text_row(out, "strategy", "in force", &figures.strategy);
        if let Some(process) = figures.process {
            row(out, "=processes", "processes", figures.processes as u64, "");
            text_row(out, "process", "process that answered", &process.to_string());
        }
        row(out, "=sites", "sites", figures.sites as u64, "");
        row(out, "=uptime-s", "uptime", figures.uptime_secs, "s");
        for (index, (number, worker)) in figures.workers.iter().enumerate() {
            row(
                out,
                &format!("=workers.{index}.requests"),
                &format!("worker {number}, answered"),
                worker.requests,
                "",
            );
        }
    });
    out.push_str(AFTER);
    out
}

fn section(out: &mut String, title: &str, rows: impl FnOnce(&mut String)) {
    let _ = writeln!(out, "<section><h2>{title}</h2><table>");
    rows(out);
    out.push_str("</table></section>\n");
}

/// Appends a row with a figure. A key that begins with `=` is shown as it is; other keys are totals, for which the
/// script also shows the rate per second.
fn row(out: &mut String, key: &str, label: &str, value: u64, unit: &str) {
    let (path, rate) = match key.strip_prefix('=') {
        Some(path) => (path.to_owned(), ""),
        None => (format!("totals.{key}"), " data-rate"),
    };
    let _ = writeln!(
        out,
        "<tr><th scope=row>{label}<td data-key=\"{path}\"{rate}>{value}<td>{unit}"
    );
}

fn text_row(out: &mut String, key: &str, label: &str, value: &str) {
    let _ = writeln!(
        out,
        "<tr><th scope=row>{label}<td class=text colspan=2 data-key=\"{key}\">{value}"
    );
}
