//! The page: every figure in a table that needs no script, and a script that renews them in place.

use super::figures::{DECISIONS_SHOWN, Figures, QUANTILES};
use std::fmt::Write;

/// What makes the page live; a file of its own, so that the page needs no inline script.
pub(super) const SCRIPT: &str = include_str!("live.js");

const BEFORE: &str = include_str!("before.html");
const AFTER: &str = include_str!("after.html");

/// The page with the figures of now.
pub(super) fn html(figures: &Figures) -> String {
    let mut out = String::with_capacity(BEFORE.len() + AFTER.len() + 8 * 1024);
    out.push_str(BEFORE);
    let totals = &figures.totals;
    section(&mut out, "Requests", |out| {
        row(out, "requests", "answered", totals.requests, "");
        row(out, "successful", "2xx", totals.successful, "");
        row(
            out,
            "redirected",
            "3xx, unchanged among them",
            totals.redirected,
            "",
        );
        row(out, "client-errors", "4xx", totals.client_errors, "");
        row(out, "server-errors", "5xx", totals.server_errors, "");
        row(out, "bytes-sent", "bytes sent", totals.bytes_sent, "");
        row(out, "aborted", "cut off by the client", totals.aborted, "");
    });
    section(&mut out, "Time to answer", |out| {
        for (name, share) in QUANTILES {
            let micros = figures.durations.quantile(share).map(|d| d.as_micros());
            let value = micros.map_or("none yet".to_owned(), |micros| micros.to_string());
            let _ = writeln!(
                out,
                "<tr><th scope=row>{name}<td data-key=\"latency-us.{name}\">{value}<td>µs at most"
            );
        }
    });
    section(&mut out, "Connections", |out| {
        row(out, "=connections", "open now", figures.open.into(), "");
        row(out, "=addresses", "addresses", figures.addresses as u64, "");
        row(out, "accepted", "accepted", totals.accepted, "");
        row(
            out,
            "refused-total",
            "refused: too many",
            totals.refused_total,
            "",
        );
        row(
            out,
            "refused-address",
            "refused: too many of one address",
            totals.refused_address,
            "",
        );
        row(out, "timeouts", "ended by a timeout", totals.timeouts, "");
    });
    section(&mut out, "Cache", |out| {
        text_row(out, "cache-policy", "policy", &figures.policy);
        row(out, "hits", "answered from memory", totals.hits, "");
        row(out, "loads", "looked for on disk", totals.loads, "");
        row(out, "=cache.entries", "entries", figures.cache.entries, "");
        row(out, "=cache.bytes", "bytes held", figures.cache.bytes, "");
        row(out, "=cache.bytes-max", "bytes at most", figures.cache_size, "");
        row(
            out,
            "=cache.descriptors",
            "files kept open",
            figures.cache.descriptors,
            "",
        );
        row(out, "=cache.evictions", "evicted", figures.cache.evictions, "");
    });
    section(&mut out, "Adaptation", |out| {
        text_row(
            out,
            "adaptation.idle",
            "idle after an answer, at most",
            &figures.idle,
        );
        row(out, "=adaptation.changes", "changes", figures.changes, "");
        if let Some(count) = figures.dry_run {
            row(
                out,
                "=adaptation.dry-run",
                "changes a dry run would make",
                count,
                "",
            );
        }
        for index in 0..DECISIONS_SHOWN {
            // Rows without a decision are there for the script to fill and to show.
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
            text_row(out, "process", "of these answered", &process.to_string());
        }
        row(out, "=sites", "sites", figures.sites as u64, "");
        row(out, "=uptime-s", "running", figures.uptime_secs, "s");
        for (index, (number, worker)) in figures.workers.iter().enumerate() {
            row(
                out,
                &format!("=workers.{index}.requests"),
                &format!("worker {number} answered"),
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

/// A figure. A key with `=` before it is shown as it is; others are totals, which the script also shows
/// by the second.
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
