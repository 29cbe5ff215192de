//! The result of a run, or of several parts of one, as JSON and as text.
//!
//! The JSON line is a contract: `schemas/load-result.schema.json`. Everything in it except the parts themselves is
//! computed from them.

use super::gate::{self, Judged};
use crate::cli::requirement::Requirement;
use crate::failure::Failure;
use crate::output;
use crate::voice::Voice;
use ::load::record::{LeftOut, Record, Second, Trouble};
use ::load::replies::Statuses;
use ::load::run::{Parts, Run, Share, StepName};
use ::load::steps::StepRecord;
use ::load::times::{Lost, Summary, Times};
use ::load::verdict::Verdict;
use ::load::webstone::Metrics;
use client::plan::Mode;
use serde::Serialize;
use std::collections::BTreeMap;
use units::{Bytes, Duration};

/// A result line: one run, or a merge of its parts.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    event: &'static str,
    /// The run of one process; for a merge, the first part with the merged record.
    #[serde(flatten)]
    pub(super) run: Run,
    /// Ranks included.
    pub(super) ranks: Vec<u32>,
    /// Missing ranks, with the load they would have carried; for a merge only.
    pub(super) missing: Vec<Missing>,
    pub(super) duration_s: f64,
    /// Users, clients or sessions that began, and when the last one did, from the start; none for arrivals.
    pub(super) users_begun: Option<u64>,
    pub(super) last_user_begun_s: Option<f64>,
    /// Objects per second as drawn at random for `rate_asked`.
    pub(super) rate_drawn: Option<f64>,
    /// Counts of the warm-up, which every other figure except rates excludes.
    pub(super) left_out: LeftOut,
    pub(super) objects_per_s: f64,
    pub(super) files_per_s: f64,
    pub(super) content_bytes_per_s: f64,
    objects_begun: u64,
    pub(super) objects: u64,
    pub(super) files: u64,
    /// Files completed within `duration_s`, also those due in the warm-up; `files_per_s` is their rate.
    pub(super) files_in_time: u64,
    pub(super) files_failed: u64,
    pub(super) content_bytes: u64,
    pub(super) content_bytes_in_time: u64,
    bytes_received: u64,
    connections: u64,
    closed_by_server: u64,
    resent: u64,
    /// Complete responses.
    pub(super) statuses: Statuses,
    unfinished: u64,
    dropped: u64,
    pub(super) errors: BTreeMap<Trouble, u64>,
    /// Milliseconds.
    pub(super) response_ms: Summary,
    /// Response times of successful files alone.
    pub(super) answered_ms: Summary,
    /// Response times corrected for requests that a waiting client did not send; none in an open run.
    pub(super) corrected_ms: Option<Summary>,
    /// Expected interval between two requests of a user, in milliseconds.
    pub(super) expected_interval_ms: Option<f64>,
    pub(super) service_ms: Summary,
    pub(super) object_ms: Summary,
    pub(super) connect_ms: Summary,
    /// TLS handshakes; `None` for cleartext.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) handshake_ms: Option<Summary>,
    /// Share of the handshakes that resumed an earlier session, from 0 to 1; `None` without a handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed_share: Option<f64>,
    pub(super) first_byte_ms: Summary,
    pub(super) transfer_ms: Summary,
    pub(super) lag_ms: Summary,
    pub(super) tick_ms: Summary,
    pub(super) deciles: Vec<Decile>,
    /// Steps of scenarios; empty without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) steps: Vec<StepReport>,
    /// The connection metrics of document 000, as seen by a client.
    pub(super) table6: Table6,
    /// `WebStone`'s metrics, of requests that ended in time; only in modes with one request per connection.
    pub(super) webstone: Option<Metrics>,
    pub(super) verdict: Verdict,
    /// What `--require` asked, judged; empty without it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) requirements: Vec<Judged>,
}

/// A step of a scenario.
#[derive(Debug, Serialize)]
pub(super) struct StepReport {
    #[serde(flatten)]
    pub(super) name: StepName,
    /// Requests that failed.
    pub(super) failed: u64,
    /// Failed requests by kind.
    pub(super) failures: BTreeMap<Trouble, u64>,
    /// Requests never made, because an earlier step failed.
    pub(super) skipped: u64,
    /// Requests still pending at the end.
    unfinished: u64,
    /// Milliseconds.
    pub(super) response_ms: Summary,
}

impl StepReport {
    fn of(name: &StepName, record: &StepRecord, timeout: Duration) -> StepReport {
        StepReport {
            name: name.clone(),
            failed: record.failed(),
            failures: record.failures.clone(),
            skipped: record.skipped,
            unfinished: record.unfinished,
            response_ms: record.response.summary_with(&record.lost(timeout)),
        }
    }

    /// The failures by kind, and what was skipped, as text; empty without any.
    pub(super) fn lost(&self) -> String {
        let kinds = self
            .failures
            .iter()
            .map(|(trouble, count)| format!("{count} {}", trouble.name()));
        let skipped = (self.skipped > 0).then(|| format!("{} skipped", self.skipped));
        let unfinished = (self.unfinished > 0).then(|| format!("{} never completed", self.unfinished));
        kinds
            .chain(skipped)
            .chain(unfinished)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// A rank that is missing.
#[derive(Debug, Serialize)]
pub(super) struct Missing {
    pub(super) rank: u32,
    #[serde(flatten)]
    pub(super) share: Share,
}

/// Objects of similar size.
#[derive(Debug, Serialize)]
pub(super) struct Decile {
    /// Largest size in this decile, in bytes.
    pub(super) bytes_max: u64,
    pub(super) object_ms: Summary,
}

/// The deciles of a run with their times; empty if sizes are unknown or no object ended.
fn deciles(run: &Run) -> Vec<Decile> {
    let Record {
        deciles,
        deciles_failed,
        ..
    } = &run.record;
    if deciles.is_empty() && deciles_failed.is_empty() {
        return Vec::new();
    }
    let none = Times::default();
    let each = run.decile_bytes.iter().enumerate();
    each.map(|(number, &bytes_max)| {
        let failed = deciles_failed.get(number).copied().unwrap_or(0);
        let times = deciles.get(number).unwrap_or(&none);
        Decile {
            bytes_max,
            object_ms: times.summary_with(&Lost::unknown(failed)),
        }
    })
    .collect()
}

/// Length in seconds of a row of the series by second, in a run that measured for this time.
pub(super) fn row_length(duration_s: f64, number: usize) -> f64 {
    (duration_s - number as f64).clamp(0.0, 1.0)
}

/// Connections as Table 6 of document 000 counts them, seen from the client.
#[derive(Debug, Serialize)]
pub(super) struct Table6 {
    pub(super) total_connects: u64,
    pub(super) average_established: f64,
    pub(super) average_duration_s: f64,
    pub(super) connect_seconds: f64,
    /// Throughput as in the document: requests per second.
    pub(super) gets_per_s: f64,
    /// Latency as in the document: mean service time of a file.
    pub(super) latency_ms: f64,
}

impl Table6 {
    fn of(record: &Record, files_per_s: f64, span: f64) -> Table6 {
        let standing = record.standing.as_secs_f64();
        Table6 {
            total_connects: record.established,
            average_established: standing / span,
            average_duration_s: standing / record.established.max(1) as f64,
            connect_seconds: standing,
            gets_per_s: files_per_s,
            latency_ms: record.service.summary().mean,
        }
    }
}

impl Report {
    /// The report of one machine, judged by its own share.
    pub(super) fn of_rank(parts: &Parts) -> Report {
        Report::new("result", parts, parts.first().verdict(), Vec::new())
    }

    /// The report of several machines, judged by the whole plan.
    pub(super) fn of_all(parts: &Parts) -> Report {
        let missing = parts.missing().into_iter();
        let missing = missing.map(|(rank, share)| Missing { rank, share }).collect();
        Report::new("merged", parts, parts.verdict(), missing)
    }

    fn new(event: &'static str, parts: &Parts, verdict: Verdict, missing: Vec<Missing>) -> Report {
        let first = parts.first();
        // Ranks may be stopped at different times; the longest duration covers all their counts.
        let spans = parts.runs().map(|run| run.stopped_after_s.unwrap_or(run.asked_s));
        let duration_s = spans.fold(0.0, f64::max).min(first.asked_s);
        let span = duration_s.max(1e-9);
        let run = parts.whole();
        let record = &run.record;
        let timeout = run.timeout();
        let (lost_files, lost_objects) = (record.lost_files(timeout), record.lost_objects(timeout));
        // The parts of failed requests have no known times, so their means exclude them.
        let lost_parts = Lost::unknown(lost_files.count);
        // A rate is of what completed within the measured time, whenever it was due.
        let (files, bytes) = (record.files_in_time, record.bytes_in_time);
        let come = matches!(run.model.as_str(), "users" | "clients" | "sessions");
        let files_per_s = files as f64 / span;
        let deciles = deciles(&run);
        let none = StepRecord::default();
        let steps = run.step_names.iter().enumerate().map(|(number, name)| {
            let step = record.steps.get(number).unwrap_or(&none);
            StepReport::of(name, step, timeout)
        });
        let steps = steps.collect();
        Report {
            event,
            ranks: parts.runs().map(|run| run.rank).collect(),
            missing,
            duration_s,
            users_begun: come.then_some(record.users_begun),
            last_user_begun_s: come.then_some(record.last_begun.as_secs_f64()),
            rate_drawn: run
                .arrivals_drawn
                .map(|drawn| drawn as f64 / run.asked_s.max(1e-9)),
            left_out: record.left_out,
            objects_per_s: record.objects_begun as f64 / span,
            files_per_s,
            content_bytes_per_s: bytes as f64 / span,
            objects_begun: record.objects_begun,
            objects: record.objects,
            files: record.files,
            files_in_time: files,
            files_failed: record.files_failed,
            content_bytes: record.bytes,
            content_bytes_in_time: bytes,
            bytes_received: record.bytes_received,
            connections: record.connections,
            closed_by_server: record.closed_by_server,
            resent: record.resent,
            statuses: record.statuses.clone(),
            unfinished: record.unfinished,
            dropped: record.dropped,
            errors: record.troubles.clone(),
            response_ms: record.response.summary_with(&lost_files),
            answered_ms: record.response.summary(),
            corrected_ms: run.corrected().map(|(times, lost)| times.summary_with(&lost)),
            expected_interval_ms: run
                .expected_interval()
                .map(|interval| interval.as_secs_f64() * 1e3),
            service_ms: record.service.summary_with(&lost_files),
            object_ms: record.object.summary_with(&lost_objects),
            connect_ms: record
                .connect
                .summary_with(&Lost::unknown(record.connects_failed)),
            handshake_ms: run.tls.as_ref().map(|_| {
                record
                    .handshake
                    .summary_with(&Lost::unknown(record.handshakes_failed))
            }),
            resumed_share: (!record.handshake.is_empty())
                .then(|| record.resumed as f64 / record.handshake.count() as f64),
            first_byte_ms: record.first_byte.summary_with(&lost_parts),
            transfer_ms: record.transfer.summary_with(&lost_parts),
            lag_ms: record.lag.summary(),
            tick_ms: record.tick.summary(),
            deciles,
            steps,
            table6: Table6::of(record, files_per_s, span),
            webstone: (run.mode == Mode::Http10.name())
                .then(|| Metrics::new(&record.in_time, Duration::from_secs_f64(duration_s))),
            verdict,
            requirements: Vec::new(),
            run,
        }
    }

    /// The report, judged by these requirements too.
    pub(super) fn requiring(mut self, requirements: &[Requirement]) -> Report {
        self.requirements = gate::judge(requirements, &self);
        self
    }

    /// Whether any response had a status other than 200.
    pub(super) fn has_other_answers(&self) -> bool {
        self.statuses.iter().any(|(status, _)| status != 200)
    }

    /// Counts of responses by status, as text.
    pub(super) fn answers(&self) -> String {
        let each = self.statuses.iter();
        let each = each.map(|(status, count)| format!("{count} with {status}"));
        each.collect::<Vec<_>>().join(", ")
    }

    /// Whether this is the result of one machine and not a merge.
    pub(super) fn is_part(&self) -> bool {
        self.event == "result"
    }

    /// Prints the report.
    ///
    /// # Errors
    /// `System` if standard output cannot be written.
    pub(super) fn tell(&self, voice: &Voice) -> Result<(), Failure> {
        if voice.json {
            output::line(self.line())?;
        } else if voice.reports() {
            output::line(self.words())?;
        }
        Ok(())
    }

    /// The result as one line of JSON.
    pub(super) fn line(&self) -> String {
        serde_json::to_string(self).expect("numbers, words and lists of them have a form in JSON")
    }

    /// The histograms by name, with their summaries.
    pub(super) fn times(&self) -> Vec<(&'static str, &Summary)> {
        let corrected = self.corrected_ms.iter().map(|times| ("corrected", times));
        let response = core::iter::once(("response", &self.response_ms));
        let others = [
            ("service", &self.service_ms),
            ("object", &self.object_ms),
            ("connect", &self.connect_ms),
        ];
        let handshake = self.handshake_ms.iter().map(|times| ("handshake", times));
        let parts = [
            ("first byte", &self.first_byte_ms),
            ("transfer", &self.transfer_ms),
            ("lag", &self.lag_ms),
            ("tick", &self.tick_ms),
        ];
        response
            .chain(corrected)
            .chain(others)
            .chain(handshake)
            .chain(parts)
            .collect()
    }

    /// A note on coordinated omission in closed loops and its correction; none for open runs.
    pub(super) fn loop_note(&self) -> Option<String> {
        match (self.run.model.as_str(), self.expected_interval_ms) {
            ("clients" | "users", Some(interval)) => Some(format!(
                "closed loop: each user waits for a response before the next request, so a server pause shows in few response times; \
                 `corrected` adds the requests that each of the {} would have sent, one every {interval:.3} ms, also while it waited for \
                 requests that failed or never completed",
                self.run.model
            )),
            ("sessions", _) => Some(
                "partly open: within a session, a user sends nothing while waiting for a response, so a server pause shows in few response times"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// A note on requests without a response time and their effect on the figures; none if all have one.
    pub(super) fn lost_note(&self) -> Option<String> {
        let (lost, all) = (self.response_ms.failed, self.files + self.response_ms.failed);
        let (failed, unfinished) = (self.files_failed, self.response_ms.failed - self.files_failed);
        let share = lost as f64 / all.max(1) as f64 * 100.0;
        let mut text = match (failed, unfinished) {
            (0, 0) => return None,
            (_, 0) => format!("{failed} of {all} requests ({share:.2} %) failed"),
            (0, _) => format!("{unfinished} of {all} requests ({share:.2} %) never completed"),
            _ => format!(
                "{lost} of {all} requests ({share:.2} %) have no response time: {failed} failed, {unfinished} never completed"
            ),
        };
        text += ". Quantiles count them as longer than all others; `-` marks a quantile that falls on one of them.";
        if failed > 0 {
            text += &format!(
                " The means of response, service and object count each failed request as at least {:.1} s (--timeout).",
                self.run.timeout_s
            );
        }
        if unfinished > 0 {
            text += " The means of response, service and object exclude requests that never completed";
            text += match self.corrected_ms {
                Some(_) => "; the corrected mean counts them with the time they were pending.",
                None => ".",
            };
        }
        Some(text)
    }

    /// The measured seconds, the last of which may be a part of one ([`row_length`]). Files completed later are in the
    /// counts and times but in no second.
    pub(super) fn seconds(&self) -> &[Second] {
        let seconds = &self.run.record.seconds;
        &seconds[..seconds.len().min(self.duration_s.ceil() as usize)]
    }

    /// The deciles of object sizes, each with its times or the reason why there are none.
    pub(super) fn by_size(&self) -> impl Iterator<Item = (&Decile, Result<&Summary, String>)> {
        let before = core::iter::once(None).chain(self.deciles.iter().map(Some));
        self.deciles.iter().zip(before).map(|(decile, before)| {
            let why = match (before, decile.object_ms.failed) {
                _ if decile.object_ms.count > 0 => return (decile, Ok(&decile.object_ms)),
                // An object with more than a tenth of the references fills several deciles.
                (Some(before), _) if before.bytes_max == decile.bytes_max => {
                    "same size as the decile above, counted there".to_owned()
                }
                (_, 0) => "none completed".to_owned(),
                (_, failed) => format!("none of {failed} completed"),
            };
            (decile, Err(why))
        })
    }

    /// Files that completed after the measured time.
    pub(super) fn files_late(&self) -> u64 {
        let in_time = self.files_in_time.saturating_sub(self.left_out.files_in_time);
        self.files.saturating_sub(in_time)
    }

    /// Amounts within the measured time, after it, and in the warm-up.
    fn amounts(&self) -> String {
        let mut text = format!(
            "{:.1} s, {}, {}: {} files completed in that time ({:.1}/s), {} ({}/s)\n",
            self.duration_s,
            self.run.model,
            self.run.mode,
            self.files_in_time,
            self.files_per_s,
            Bytes(self.content_bytes_in_time),
            Bytes(self.content_bytes_per_s as u64),
        );
        text += &format!(
            "  {} objects begun ({:.1}/s), {} of them completed",
            self.objects_begun, self.objects_per_s, self.objects,
        );
        let late = self.files_late();
        if late > 0 {
            text += &format!(
                "; {late} files completed after that time; the times below are of all {} files",
                self.files
            );
        }
        text.push('\n');
        if let (Some(asked), Some(drawn), Some(arrivals)) =
            (self.run.rate_asked, self.rate_drawn, self.run.arrivals_drawn)
        {
            text += &format!("  rate set: {asked:.1} objects/s; drawn: {arrivals} arrivals ({drawn:.1}/s)\n");
        }
        if let (Some(begun), Some(last), Some(stagger)) =
            (self.users_begun, self.last_user_begun_s, self.run.stagger_s)
        {
            text += &format!(
                "  {begun} users began, {:.3} ms apart, the last {last:.2} s after the start\n",
                stagger * 1e3
            );
        }
        if self.run.warmup_s > 0.0 {
            let left_out = &self.left_out;
            text += &format!(
                "  excluded: the warm-up of {:.1} s, with {} objects begun, {} files ({}), {} errors\n",
                self.run.warmup_s,
                left_out.objects_begun,
                left_out.files,
                Bytes(left_out.bytes),
                left_out.errors
            );
            if left_out.files_in_time > 0 {
                text += &format!(
                    "  {} of these files completed after the warm-up: they count in the rates, and their times do not\n",
                    left_out.files_in_time
                );
            }
        }
        text
    }

    /// The steps of scenarios as a table.
    fn step_words(&self) -> String {
        let width = self
            .steps
            .iter()
            .map(|step| step.name.name.len())
            .max()
            .unwrap_or(0)
            .max(12);
        let mut text = format!(
            "  {:<width$}{:>10} {:>10} {:>10} {:>10} {:>10}   failures\n",
            "step", "count", "mean", "p50", "p99", "max"
        );
        let mut scenario = "";
        for step in &self.steps {
            if step.name.scenario != scenario {
                scenario = &step.name.scenario;
                text += &format!("  scenario {scenario}:\n");
            }
            let times = &step.response_ms;
            text += &format!("  {:<width$}{:>10}", step.name.name, times.count);
            let lost = step.lost();
            // Nothing happened: the step was skipped each time.
            let is_empty = times.count == 0 && times.mean == 0.0;
            for time in [Some(times.mean), times.p50, times.p99, times.max] {
                text += &match time.filter(|_| !is_empty) {
                    Some(time) => format!(" {time:>10.3}"),
                    None => format!(" {:>10}", "-"),
                };
            }
            text += &format!("   {}\n", if lost.is_empty() { "none" } else { &lost });
        }
        let interrupted = self.run.record.interrupted;
        if interrupted > 0 {
            text +=
                &format!("  {interrupted} scenarios ended with the run, in the think time behind a step\n");
        }
        text
    }

    fn words(&self) -> String {
        let mut text = self.amounts();
        if self.run.size > 1 {
            let ranks: Vec<String> = self.ranks.iter().map(u32::to_string).collect();
            text += &format!("  rank {} of {}\n", ranks.join(", "), self.run.size);
        }
        text +=
            "  ms               count       mean        p50        p90        p99      p99.9        max\n";
        let deciles = self.by_size().map(|(decile, times)| {
            let name = format!("to {}", Bytes(decile.bytes_max));
            (name, times)
        });
        let times = self
            .times()
            .into_iter()
            .map(|(name, times)| (name.to_owned(), Ok(times)));
        for (name, times) in times.chain(deciles) {
            let times = match times {
                Ok(times) => times,
                Err(why) => {
                    text += &format!("  {name:<12}{:>10}   {why}\n", 0);
                    continue;
                }
            };
            text += &format!("  {name:<12}{:>10} {:>10.3}", times.count, times.mean);
            for quantile in [times.p50, times.p90, times.p99, times.p999, times.max] {
                text += &match quantile {
                    Some(quantile) => format!(" {quantile:>10.3}"),
                    None => format!(" {:>10}", "-"),
                };
            }
            text.push('\n');
        }
        if !self.steps.is_empty() {
            text += &self.step_words();
        }
        for note in [self.lost_note(), self.loop_note()].into_iter().flatten() {
            text += &format!("  {note}\n");
        }
        text += &format!(
            "  {} connections, {:.2} open on average, {:.3} ms each; {} closed by the server, {} requests repeated",
            self.table6.total_connects,
            self.table6.average_established,
            self.table6.average_duration_s * 1e3,
            self.closed_by_server,
            self.resent
        );
        if let Some(tls) = &self.run.tls {
            text += &format!(
                "\n  {} TLS handshakes, {:.1} % resumed{}",
                self.run.record.handshake.count(),
                self.resumed_share.unwrap_or(0.0) * 100.0,
                match tls.insecure {
                    true => ", certificates not checked (--insecure)",
                    false => "",
                }
            );
        }
        for (trouble, count) in &self.errors {
            text += &format!(", {count} {}", trouble.name());
        }
        if let Some(fault) = &self.run.record.handshake_fault {
            text += &format!("\n  first failed TLS handshake: {fault}");
        }
        if let Some(fault) = &self.run.record.close_fault {
            text += &format!("\n  first connection closed with an error: {fault}");
        }
        if self.has_other_answers() {
            text += &format!("\n  responses: {}", self.answers());
        }
        if let Some(metrics) = &self.webstone {
            text += &format!(
                "\n  WebStone: {:.1} connections/s, {:.2} Mbit/s, Little's load factor {:.2}, {:.3} ms, error level {:.3} %",
                metrics.connection_rate,
                metrics.server_throughput,
                metrics.littles_load_factor,
                metrics.average_response_time,
                metrics.error_level
            );
        }
        let cpu = self.run.cpu.iter().map(|share| format!("{:.0} %", share * 100.0));
        text += &format!(
            "\n  processor use of this client's threads: {}; ",
            cpu.collect::<Vec<_>>().join(", ")
        );
        text += if self.verdict.valid {
            "the run is valid"
        } else {
            "THE RUN IS INVALID"
        };
        for warning in &self.verdict.warnings {
            text += &format!("\n  warning: {warning}");
        }
        for one in &self.requirements {
            text += &format!(
                "\n  required: {}: {} ({})",
                one.requirement,
                one.outcome.word(),
                one.told
            );
        }
        text
    }

    /// `Invalid` with the reasons if the run is invalid, `Failed` if it is valid and misses a requirement.
    pub(super) fn judged(&self) -> Result<(), Failure> {
        if self.verdict.valid {
            return gate::outcome(&self.requirements);
        }
        Err(Failure::Invalid(format!(
            "the run is invalid: {}",
            self.verdict.reasons.join("; ")
        )))
    }
}
