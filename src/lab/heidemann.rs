//! `weir lab heidemann`: document 001's table and traces, simulated, and the cost of a restart after idle periods.

use crate::cli::lab::HeidemannFlags;
use crate::failure::Failure;
use crate::output::print;
use crate::voice::Voice;
use repro::Basis;
use repro::heidemann::{CONFIGS, Row, Segment, TIMES, Trace, figure_2, figure_4, table_1};
use repro::pacing::{self, Resumed};
use serde_json::{Value, json};
use std::fmt::Write;

const DOCUMENT: &str = "001";
const PROVENANCE: &str = "seed text";

/// Runs the command.
///
/// # Errors
/// `System` if the report cannot be written.
pub(super) fn run(flags: &HeidemannFlags, voice: &Voice) -> Result<(), Failure> {
    let rows: Vec<Row> = CONFIGS
        .into_iter()
        .map(|config| table_1(config, usize::from(flags.pages), 1))
        .collect();
    let traces = [figure_2(), figure_4()];
    let policies = pacing::policies();
    let stacks = pacing::stacks();
    if voice.json {
        let mut values: Vec<Value> = rows.iter().map(row_json).collect();
        values.extend(traces.iter().map(trace_json));
        values.extend(policies.iter().map(|(path, name, resumed)| {
            let mut line = resumed_json("policy", name, resumed);
            line["path"] = json!(path);
            line
        }));
        values.extend(
            stacks
                .iter()
                .map(|(name, _, resumed)| resumed_json("stack", name, resumed)),
        );
        values.extend(TIMES.map(|(what, value, to)| {
            json!({ "event": "assumption", "document": DOCUMENT, "what": what, "value": value.as_secs_f64(), "to": to })
        }));
        let text: String = values.iter().map(|value| format!("{value}\n")).collect();
        return print(&text);
    }
    let mut text = table(&rows);
    for trace in &traces {
        text += &figure(trace);
    }
    text += &restarts(&policies, &stacks);
    let _ = writeln!(
        text,
        "Processing times of the hosts, the same in all rows\n  fitted: {}\n  Figure 2: read from its timestamps",
        Basis::Fitted.meaning()
    );
    for (what, value, to) in TIMES {
        let _ = writeln!(text, "  {what}: {:.2} ms ({to})", value.as_secs_f64() * 1e3);
    }
    print(&text)
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "Table 1: a page of three documents, simulated / published\n{:<22} {:>17} {:>17} {:>7}\n",
        "", "mean ms", "deviation ms", "stalls"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:<22} {:>7.1} / {:>7.1} {:>7.1} / {:>7.1} {:>7.1}  {}",
            row.config.name,
            row.mean_ms(),
            row.config.mean_ms,
            row.deviation_ms(),
            row.config.deviation_ms,
            row.stalls,
            row.not_explained().unwrap_or_default()
        );
    }
    text.push('\n');
    text
}

fn figure(trace: &Trace) -> String {
    let mut text = format!(
        "Figure {}: {}\n{:>11} {:>11}  {:<7} {:<5} {:<14} {:>6}\n",
        trace.figure,
        trace
            .difference()
            .unwrap_or_else(|| "segment for segment as published".to_owned()),
        "published",
        "simulated",
        "from",
        "flags",
        "positions",
        "ack"
    );
    let start = trace.start_ms();
    for ((published, row), (simulated, _)) in trace.published.iter().zip(&trace.simulated) {
        let _ = writeln!(
            text,
            "{published:>8.3} ms {:>8.3} ms  {:<7} {:<5} {:<14} {:>6}",
            simulated - start,
            row.from,
            row.flags,
            row.seq.map_or(String::new(), |(from, to)| format!("{from}:{to}")),
            row.ack.map_or(String::new(), |ack| ack.to_string()),
        );
    }
    text.push('\n');
    text
}

fn restarts(policies: &[(&str, &str, Resumed)], stacks: &[(&str, bool, Resumed)]) -> String {
    let mut text = "A response of 40,000 B after about 3 s without traffic (the document publishes no figures for this)\n".to_owned();
    let line = |name: &str, one: &Resumed| {
        format!(
            "{name:<14} {:>12} {:>12} {:>10.1} {:>6} {:>9.3}\n",
            one.flight_before, one.first_flight, one.spread_ms, one.lost, one.seconds
        )
    };
    let mut last = "";
    for (path, name, resumed) in policies {
        if *path != last {
            let _ = writeln!(
                text,
                "over {path}\n{:<14} {:>12} {:>12} {:>10} {:>6} {:>9}",
                "policy", "before pause", "first flight", "over ms", "lost", "seconds"
            );
            last = path;
        }
        text += &line(name, resumed);
    }
    text += "\nTCP stacks on their own, without the short queue\n";
    for (name, restarts, resumed) in stacks {
        text += line(name, resumed).trim_end();
        let _ = writeln!(
            text,
            "  {}; the paper says it {}",
            if resumed.is_restart() {
                "restarts"
            } else {
                "does not restart"
            },
            if *restarts { "should" } else { "should not" }
        );
    }
    text.push('\n');
    text
}

fn row_json(row: &Row) -> Value {
    json!({
        "event": "row", "document": DOCUMENT, "table": 1, "configuration": row.config.name,
        "runs": row.pages_ms.len(),
        "published": { "mean_ms": row.config.mean_ms, "deviation_ms": row.config.deviation_ms, "provenance": PROVENANCE },
        "simulated": { "mean_ms": row.mean_ms(), "deviation_ms": row.deviation_ms(), "stalls": row.stalls,
            "pages_ms": row.pages_ms },
        "verdict": row.not_explained().unwrap_or_else(|| "met".to_owned()),
    })
}

fn trace_json(trace: &Trace) -> Value {
    let [published, simulated] = trace.stall_ms();
    let (figure, start) = (trace.figure, trace.start_ms());
    json!({
        "event": "trace", "document": DOCUMENT, "figure": trace.figure, "segments": trace.published.len(),
        "published": { "stall_ms": published, "provenance": PROVENANCE, "data": data(figure, &trace.published, 0.0),
            "acknowledged": acknowledged(figure, &trace.published, 0.0) },
        "simulated": { "stall_ms": simulated, "data": data(figure, &trace.simulated, start),
            "acknowledged": acknowledged(figure, &trace.simulated, start) },
        "difference": trace.difference(),
    })
}

/// The server's data segments: time after `start`, first position and the one behind the last.
fn data(figure: u32, rows: &[(f64, Segment)], start: f64) -> Vec<Value> {
    let of_server = rows.iter().filter(|(_, row)| row.from == "server");
    of_server
        .filter_map(|(at, row)| {
            let (from, to) = row.seq?;
            Some(json!({ "figure": figure, "ms": micros(at - start), "from": from, "to": to }))
        })
        .collect()
}

/// The client's acknowledgments: time after `start`, and the position that it expects.
fn acknowledged(figure: u32, rows: &[(f64, Segment)], start: f64) -> Vec<Value> {
    let of_client = rows.iter().filter(|(_, row)| row.from == "client");
    of_client
        .filter_map(|(at, row)| {
            Some(json!({ "figure": figure, "ms": micros(at - start), "position": row.ack? }))
        })
        .collect()
}

/// Milliseconds in whole microseconds, as captures have them.
fn micros(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

fn resumed_json(kind: &str, name: &str, one: &Resumed) -> Value {
    json!({
        "event": "restart", "document": DOCUMENT, kind: name, "flight_before": one.flight_before,
        "first_flight": one.first_flight, "spread_ms": one.spread_ms, "lost": one.lost, "seconds": one.seconds,
        "restarts": one.is_restart(),
    })
}
