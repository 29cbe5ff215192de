//! The report of `weir cache replay --shared`: a table for people, JSON lines and CSV for programs. States each assumption.

use super::Tally;
use serde_json::json;
use server::cache::Policy;
use server::config::show_duration;
use server::replay::shared::{Assumed, Judged, Outcome};
use std::fmt::Write;
use units::{Bytes, Duration};

/// Version of the JSON lines (`schemas/cache-replay-shared.schema.json`).
const FORMAT: u32 = 1;

/// Results of a replay.
#[derive(Debug)]
pub(in crate::cache) struct Report {
    pub(super) assumed: Assumed,
    pub(super) tally: Tally,
    pub(super) judged: Judged,
    pub(super) rows: Vec<Row>,
}

/// One cache.
#[derive(Debug)]
pub(super) struct Row {
    /// Budget in bytes; `None`: room for everything.
    pub(super) capacity: Option<u64>,
    pub(super) policy: Policy,
    pub(super) outcome: Outcome,
}

impl Row {
    pub(super) fn new(capacity: Option<u64>, policy: Policy) -> Row {
        Row {
            capacity,
            policy,
            outcome: Outcome::default(),
        }
    }

    /// Name of the policy. With room for everything, no policy matters.
    fn name(&self) -> String {
        match self.capacity {
            Some(_) => self.policy.to_string(),
            None => "infinite".to_owned(),
        }
    }
}

/// Names that are not zero, as a list; empty if there are none.
fn counted(counts: &[(u64, &str)]) -> String {
    let named: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    named.join(", ")
}

impl Report {
    fn ratios(&self, row: &Row) -> (f64, f64) {
        let of = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
        (
            of(row.outcome.hits, self.judged.requests),
            of(row.outcome.hit_bytes, self.judged.bytes),
        )
    }

    /// Requests that always go to the upstream, and their bytes.
    fn passed(&self) -> (u64, u64) {
        let tally = &self.tally;
        let all = [tally.method, tally.status, tally.length];
        all.iter().fold((0, 0), |(requests, bytes), passed| {
            (requests + passed.requests, bytes + passed.bytes)
        })
    }

    /// The table.
    pub(in crate::cache) fn table(&self) -> String {
        let (tally, judged, assumed) = (&self.tally, &self.judged, &self.assumed);
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{} of {} lines replayed: requests for {} targets, {} sent",
            judged.requests,
            tally.lines,
            judged.keys,
            Bytes(judged.bytes)
        );
        let span = |secs| show_duration(Duration::from_secs(secs));
        let errors = match assumed.negative {
            0 => "errors are not stored".to_owned(),
            secs => format!("a 404, 405, 410, 414 or 501 for {}", span(secs)),
        };
        let _ = writeln!(
            out,
            "assumed, as the log has no Cache-Control: each response is fresh for {}; {errors}; no {}Authorization or \
             private",
            span(assumed.lifetime),
            if assumed.vary.is_empty() { "Vary, " } else { "" }
        );
        if !tally.vary.is_empty() {
            let names: Vec<String> = tally
                .vary
                .iter()
                .map(|(name, count)| format!("{name} ({count} of {} requests have it)", judged.requests))
                .collect();
            let _ = writeln!(
                out,
                "assumed: each response varies by {}; variants: {}",
                names.join(", "),
                judged.variants
            );
        }
        let allowed = [
            (assumed.stale_while_revalidate, "while it is validated"),
            (assumed.stale_if_error, "in place of a 500, 502, 503 or 504"),
        ];
        for (secs, when) in allowed.into_iter().filter(|(secs, _)| *secs > 0) {
            let _ = writeln!(
                out,
                "assumed: a stale response is served for {} {when}",
                span(secs)
            );
        }
        let _ = writeln!(
            out,
            "stored: content up to {}, or half of the cache",
            Bytes(assumed.object_max)
        );
        let passed = counted(&[
            (tally.method.requests, "not GET or HEAD"),
            (tally.status.requests, "with a status that is not stored"),
            (tally.length.requests, "of unknown length"),
        ]);
        if !passed.is_empty() {
            let (_, bytes) = self.passed();
            let _ = writeln!(
                out,
                "not judged, always from the upstream: {passed}; {} in all",
                Bytes(bytes)
            );
        }
        let skipped = counted(&[
            (tally.faults, "not understood"),
            (tally.no_request, "without a request"),
            (tally.target, "with a target that is no path"),
            (tally.path, "for other paths"),
        ]);
        if !skipped.is_empty() {
            let _ = writeln!(out, "skipped: {skipped}");
        }
        if let Some((name, line, fault)) = &tally.first_fault {
            let _ = writeln!(out, "first not understood: {name}, line {line}, {fault}");
        }
        if judged.out_of_order > 0 {
            let _ = writeln!(
                out,
                "out of order: {} lines have an earlier time than a line before; they count as simultaneous with it",
                judged.out_of_order
            );
        }
        if tally.is_cut {
            let _ = writeln!(
                out,
                "the log has too many different targets to replay; the rest was skipped"
            );
        }
        let serves_stale = assumed.stale_while_revalidate > 0 || assumed.stale_if_error > 0;
        let _ = write!(
            out,
            "\n{:>10}  {:<11} {:>8} {:>8} {:>10} {:>10} {:>10} {:>10}",
            "cache", "policy", "hits", "bytes", "fetched", "if 304", "stale", "evictions"
        );
        if serves_stale {
            let _ = write!(out, " {:>10} {:>10} {:>10}", "stale hits", "stood in", "errors");
        }
        out.push('\n');
        let mut before = None;
        for row in &self.rows {
            let size = match row.capacity {
                _ if before == Some(row.capacity) => String::new(),
                Some(bytes) => Bytes(bytes).to_string(),
                None => "any".to_owned(),
            };
            before = Some(row.capacity);
            let (hits, bytes) = self.ratios(row);
            let outcome = &row.outcome;
            let _ = write!(
                out,
                "{size:>10}  {:<11} {:>6.2} % {:>6.2} % {:>10} {:>10} {:>10} {:>10}",
                row.name(),
                hits * 100.0,
                bytes * 100.0,
                Bytes(outcome.fetched_bytes()).to_string(),
                Bytes(outcome.miss_bytes).to_string(),
                outcome.stale,
                outcome.evictions
            );
            if serves_stale {
                let _ = write!(
                    out,
                    " {:>10} {:>10} {:>10}",
                    outcome.stale_hits, outcome.stood_in, outcome.errors
                );
            }
            out.push('\n');
        }
        out.push_str(
            "\nhits and bytes: share of the requests, and of their bytes, answered without the upstream. fetched: bytes\n\
             from the upstream if it sends each stale response again; if 304: if it confirms each one instead.\n\
             stale: requests that went to the upstream because the stored response was stale.\n",
        );
        if serves_stale {
            out.push_str(
                "stale hits: hits whose response was stale. stood in, errors: failures of the upstream that a stale response\n\
                 hid, and failures that clients saw.\n",
            );
        }
        out
    }

    /// JSON lines: a summary of the replay, then one line per cache.
    pub(in crate::cache) fn json(&self) -> String {
        let (tally, judged, assumed) = (&self.tally, &self.judged, &self.assumed);
        let command: Vec<String> = std::env::args().collect();
        let first_fault = tally
            .first_fault
            .as_ref()
            .map(|(log, line, fault)| json!({ "log": log, "line": line, "fault": fault.to_string() }));
        let (_, passed_bytes) = self.passed();
        let mut out = json!({
            "event": "cache-replay-shared",
            "format": FORMAT,
            "version": env!("CARGO_PKG_VERSION"),
            "command": command,
            "lines": tally.lines,
            "requests": judged.requests,
            "requested-bytes": judged.bytes,
            "targets": judged.keys,
            "variants": judged.variants,
            "vary": tally
                .vary
                .iter()
                .map(|(name, count)| json!({ "field": name, "requests": count }))
                .collect::<Vec<_>>(),
            "out-of-order": judged.out_of_order,
            "is-cut": tally.is_cut,
            "assumed": {
                "lifetime-s": assumed.lifetime,
                "negative-s": assumed.negative,
                "stale-while-revalidate-s": assumed.stale_while_revalidate,
                "stale-if-error-s": assumed.stale_if_error,
                "max-object-size": assumed.object_max,
                "path": assumed.path.as_ref().map(ToString::to_string),
            },
            "not-judged": {
                "method": tally.method.requests,
                "status": tally.status.requests,
                "length": tally.length.requests,
                "bytes": passed_bytes,
            },
            "skipped": {
                "not-understood": tally.faults,
                "no-request": tally.no_request,
                "target": tally.target,
                "path": tally.path,
            },
            "first-not-understood": first_fault,
        })
        .to_string();
        out.push('\n');
        for row in &self.rows {
            let (hit_ratio, byte_hit_ratio) = self.ratios(row);
            let outcome = &row.outcome;
            let line = json!({
                "event": "cache-replay-shared-row",
                "capacity": row.capacity,
                "name": row.name(),
                "hits": outcome.hits,
                "hit-bytes": outcome.hit_bytes,
                "hit-ratio": hit_ratio,
                "byte-hit-ratio": byte_hit_ratio,
                "misses": outcome.misses,
                "stale": outcome.stale,
                "fetched-bytes": outcome.fetched_bytes(),
                "fetched-bytes-if-304": outcome.miss_bytes,
                "stored": outcome.stored,
                "too-large": outcome.too_large,
                "invalidated": outcome.invalidated,
                "evictions": outcome.evictions,
                "stale-hits": outcome.stale_hits,
                "stood-in": outcome.stood_in,
                "errors": outcome.errors,
            });
            let _ = writeln!(out, "{line}");
        }
        out
    }

    /// CSV: a header line, then one line per cache.
    pub(in crate::cache) fn csv(&self) -> String {
        let mut out = String::from(
            "capacity,name,requests,hits,hit_ratio,byte_hit_ratio,misses,stale,fetched_bytes,fetched_bytes_if_304,\
             stored,too_large,invalidated,evictions,stale_hits,stood_in,errors\n",
        );
        for row in &self.rows {
            let capacity = row.capacity.map(|bytes| bytes.to_string()).unwrap_or_default();
            let (hit_ratio, byte_hit_ratio) = self.ratios(row);
            let outcome = &row.outcome;
            let _ = writeln!(
                out,
                "{capacity},{},{},{},{hit_ratio:.6},{byte_hit_ratio:.6},{},{},{},{},{},{},{},{},{},{},{}",
                row.name(),
                self.judged.requests,
                outcome.hits,
                outcome.misses,
                outcome.stale,
                outcome.fetched_bytes(),
                outcome.miss_bytes,
                outcome.stored,
                outcome.too_large,
                outcome.invalidated,
                outcome.evictions,
                outcome.stale_hits,
                outcome.stood_in,
                outcome.errors
            );
        }
        out
    }
}
