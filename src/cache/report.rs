//! The report of a replay: a table for people, JSON lines and CSV for programs. Every figure is given.

use super::log::{Log, Source};
use serde_json::{Value, json};
use server::cache::Policy;
use server::replay::bound::Bound;
use server::replay::{Cost, Outcome};
use std::fmt::Write;
use units::Bytes;

/// Version of the JSON lines.
const FORMAT: u32 = 1;

/// Results of a replay.
#[derive(Debug)]
pub(super) struct Report<'l> {
    pub(super) log: &'l Log,
    pub(super) cost: Cost,
    pub(super) rows: Vec<Row>,
}

/// One policy, or one bound, at one size.
#[derive(Debug)]
pub(super) struct Row {
    /// Cache size; none for unlimited.
    pub(super) capacity: Option<u64>,
    pub(super) subject: Subject,
}

#[derive(Debug)]
pub(super) enum Subject {
    Policy(Policy, Outcome),
    Bound(&'static str, Bound),
}

impl Row {
    fn name(&self) -> String {
        match &self.subject {
            Subject::Policy(policy, _) => policy.to_string(),
            Subject::Bound(name, _) => (*name).to_owned(),
        }
    }

    fn hits(&self) -> (f64, f64) {
        match &self.subject {
            Subject::Policy(_, outcome) => (outcome.hits as f64, outcome.hit_bytes as f64),
            Subject::Bound(_, bound) => (bound.hits, bound.hit_bytes),
        }
    }
}

impl Report<'_> {
    fn ratios(&self, row: &Row) -> (f64, f64) {
        let trace = &self.log.trace;
        let of = |part: f64, all: u64| if all == 0 { 0.0 } else { part / all as f64 };
        let (hits, bytes) = row.hits();
        (
            of(hits, trace.requests.len() as u64),
            of(bytes, trace.requested_bytes()),
        )
    }

    fn show(&self, capacity: Option<u64>) -> String {
        match (capacity, self.cost) {
            (None, _) => "any".to_owned(),
            (Some(number), Cost::One) => format!("{number} files"),
            (Some(bytes), Cost::Bytes { .. }) => Bytes(bytes).to_string(),
        }
    }

    /// The table.
    pub(super) fn table(&self) -> String {
        let log = self.log;
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{} of {} lines replayed: requests for {} files of {} in total",
            log.trace.requests.len(),
            log.lines,
            log.requested_files,
            Bytes(log.requested_bytes)
        );
        let skipped = &log.skipped;
        let reasons = [
            (skipped.faults, "not understood"),
            (skipped.no_request, "without a request"),
            (skipped.method, "not GET"),
            (skipped.status, "not 200, 206 or 304"),
            (skipped.target, "with a target that is no path of the site"),
        ];
        let named: Vec<String> = reasons
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, why)| format!("{count} {why}"))
            .collect();
        if !named.is_empty() {
            let _ = writeln!(out, "skipped: {}", named.join(", "));
        }
        if let Some((name, line, fault)) = &skipped.first_fault {
            let _ = writeln!(out, "first not understood: {name}, line {line}, {fault}");
        }
        if log.is_cut {
            let _ = writeln!(out, "the log is too long to replay; the rest was skipped");
        }
        let (pages, parts) = self.references();
        let _ = match log.source {
            Source::Nowhere => writeln!(
                out,
                "references: none known, so hinted and structured act as lru; give --root DIR or a log with referrers"
            ),
            Source::Referer => writeln!(
                out,
                "references: {parts} from {pages} pages, by the log's referrers"
            ),
            Source::Files => writeln!(
                out,
                "references: {parts} from {pages} pages, by the files below the root"
            ),
        };
        if log.missing > 0 {
            let _ = writeln!(out, "missing files: {} (lengths taken from the log)", log.missing);
        }
        let _ = writeln!(
            out,
            "\n{:>10}  {:<11} {:>8} {:>8} {:>10} {:>10} {:>10}",
            "cache", "policy", "hits", "bytes", "loads", "ahead", "loaded"
        );
        let mut before = None;
        for row in &self.rows {
            let size = if before == Some(row.capacity) {
                String::new()
            } else {
                self.show(row.capacity)
            };
            before = Some(row.capacity);
            let (hits, bytes) = self.ratios(row);
            let _ = write!(
                out,
                "{size:>10}  {:<11} {:>6.2} % {:>6.2} %",
                row.name(),
                hits * 100.0,
                bytes * 100.0
            );
            let _ = match &row.subject {
                Subject::Policy(_, outcome) => writeln!(
                    out,
                    " {:>10} {:>10} {:>10}",
                    outcome.loads(),
                    outcome.ahead,
                    Bytes(outcome.loaded_bytes()).to_string()
                ),
                // Rounded down, so that it stays a lower bound.
                Subject::Bound(_, bound) => writeln!(
                    out,
                    " {:>10} {:>10} {:>10}",
                    format!(">= {}", self.least_loads(bound)),
                    "",
                    "a bound"
                ),
            };
        }
        out.push_str(
            "\nhits and bytes: share of the requests, and of their bytes, served from the cache. loads: files read;\n\
             ahead: loads before a request. A bound knows the future and applies to policies that load on\n\
             demand. Policies that load ahead may have more hits, but never fewer loads.\n",
        );
        out
    }

    fn least_loads(&self, bound: &Bound) -> u64 {
        // A value just above a whole number is that number with a rounding error.
        (self.log.trace.requests.len() as f64 - bound.hits - 1e-6)
            .ceil()
            .max(0.0) as u64
    }

    /// Number of pages that embed files, and of their references.
    fn references(&self) -> (usize, usize) {
        let counts = self
            .log
            .trace
            .objects
            .iter()
            .map(|object| object.references.len());
        counts
            .filter(|&count| count > 0)
            .fold((0, 0), |(pages, parts), count| (pages + 1, parts + count))
    }

    /// JSON lines: a summary of the replay, then one line per row.
    pub(super) fn json(&self) -> String {
        let log = self.log;
        let (pages, parts) = self.references();
        let skipped = &log.skipped;
        let (counts_as, overhead) = match self.cost {
            Cost::One => ("one", 0),
            Cost::Bytes { overhead } => ("bytes", overhead),
        };
        let command: Vec<String> = std::env::args().collect();
        let mut out = json!({
            "event": "cache-replay",
            "format": FORMAT,
            "version": env!("CARGO_PKG_VERSION"),
            "command": command,
            "lines": log.lines,
            "requests": log.trace.requests.len(),
            "requested-bytes": log.trace.requested_bytes(),
            "files": log.requested_files,
            "file-bytes": log.requested_bytes,
            "files-missing": log.missing,
            "is-cut": log.is_cut,
            "skipped": {
                "not-understood": skipped.faults,
                "no-request": skipped.no_request,
                "method": skipped.method,
                "status": skipped.status,
                "target": skipped.target,
            },
            "references": { "from": log.source.name(), "pages": pages, "parts": parts },
            "counts-as": counts_as,
            "overhead": overhead,
        })
        .to_string();
        out.push('\n');
        for row in &self.rows {
            let (hit_ratio, byte_hit_ratio) = self.ratios(row);
            let mut line = json!({
                "event": "cache-replay-row",
                "capacity": row.capacity,
                "name": row.name(),
                "hit-ratio": hit_ratio,
                "byte-hit-ratio": byte_hit_ratio,
            });
            let more: Vec<(&str, Value)> = match &row.subject {
                Subject::Policy(_, outcome) => vec![
                    ("kind", "policy".into()),
                    ("hits", outcome.hits.into()),
                    ("hit-bytes", outcome.hit_bytes.into()),
                    ("loads", outcome.loads().into()),
                    ("ahead", outcome.ahead.into()),
                    ("loaded-bytes", outcome.loaded_bytes().into()),
                    ("evictions", outcome.evictions.into()),
                ],
                Subject::Bound(_, bound) => vec![
                    ("kind", "bound".into()),
                    ("hits", bound.hits.into()),
                    ("hit-bytes", bound.hit_bytes.into()),
                    ("loads", self.least_loads(bound).into()),
                ],
            };
            for (name, value) in more {
                line[name] = value;
            }
            let _ = writeln!(out, "{line}");
        }
        out
    }

    /// CSV: a header line, then one line per row.
    pub(super) fn csv(&self) -> String {
        let mut out = String::from(
            "capacity,kind,name,requests,hits,hit_ratio,byte_hit_ratio,loads,ahead,loaded_bytes,evictions\n",
        );
        for row in &self.rows {
            let capacity = row
                .capacity
                .map(|capacity| capacity.to_string())
                .unwrap_or_default();
            let (hit_ratio, byte_hit_ratio) = self.ratios(row);
            let kind = match row.subject {
                Subject::Policy(..) => "policy",
                Subject::Bound(..) => "bound",
            };
            let requests = self.log.trace.requests.len();
            let (hits, _) = row.hits();
            let _ = write!(
                out,
                "{capacity},{kind},{},{requests},{hits},{hit_ratio:.6},{byte_hit_ratio:.6}",
                row.name()
            );
            let _ = match &row.subject {
                Subject::Policy(_, outcome) => writeln!(
                    out,
                    ",{},{},{},{}",
                    outcome.loads(),
                    outcome.ahead,
                    outcome.loaded_bytes(),
                    outcome.evictions
                ),
                Subject::Bound(_, bound) => writeln!(out, ",{},,,", self.least_loads(bound)),
            };
        }
        out
    }
}
