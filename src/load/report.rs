//! What came of a run, as JSON and in words.
//!
//! The JSON line is a contract: `schemas/load-result.schema.json`.

use super::{Load, What, Who, refused};
use crate::cli::load::RunFlags;
use crate::cli::{Failure, Voice};
use ::load::connections::Mode;
use ::load::record::{Record, Summary, Trouble};
use ::load::verdict::Verdict;
use ::load::webstone::{Counts, Metrics};
use measure::{Bytes, Duration};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

/// The name of the form, and its version.
const FORMAT: &str = "weir-load";
const VERSION: u32 = 1;

/// A result.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    event: &'static str,
    format: &'static str,
    version: u32,
    command: Vec<String>,
    program: &'static str,
    kernel: Option<String>,
    processor: Option<String>,
    clock: &'static str,
    seed: u64,
    peer: String,
    workload: &'static str,
    model: &'static str,
    mode: &'static str,
    verified: bool,
    /// Users or clients.
    users: Option<u32>,
    /// Objects a second that were asked for.
    rate_asked: Option<f64>,
    duration_s: f64,
    stopped_after_s: Option<f64>,
    objects_per_s: f64,
    files_per_s: f64,
    content_bytes_per_s: f64,
    objects_begun: u64,
    objects: u64,
    files: u64,
    files_failed: u64,
    content_bytes: u64,
    bytes_received: u64,
    connections: u64,
    closed_by_server: u64,
    resent: u64,
    unfinished: u64,
    dropped: u64,
    errors: BTreeMap<Trouble, u64>,
    /// Milliseconds.
    response_ms: Summary,
    service_ms: Summary,
    object_ms: Summary,
    connect_ms: Summary,
    first_byte_ms: Summary,
    transfer_ms: Summary,
    lag_ms: Summary,
    /// WebStone's, where a connection is one request.
    webstone: Option<Metrics>,
    /// Share of a processor that each thread used.
    cpu: Vec<f64>,
    seconds: Vec<::load::record::Second>,
    verdict: Verdict,
}

impl Report {
    pub(super) fn new(
        load: &Load,
        flags: &RunFlags,
        peer: SocketAddr,
        record: &Record,
        cpu: &[f64],
        stopped: Option<Duration>,
        verdict: Verdict,
    ) -> Report {
        let duration = stopped.unwrap_or(flags.duration).min(flags.duration);
        let span = duration.as_secs_f64().max(1e-9);
        // What ended after the run, while its last objects were completed, is no part of its rate.
        let whole = record.seconds.iter().take(duration.as_secs_f64().ceil() as usize);
        let (files, bytes) = whole.fold((0, 0), |(files, bytes), second| {
            (files + second.files, bytes + second.bytes)
        });
        let (model, users, rate_asked) = match load.who {
            Who::Users(n) => ("users", Some(n), None),
            Who::Clients(n) => ("clients", Some(n), None),
            Who::Rate(rate, ::load::arrivals::Process::Poisson) => ("poisson", None, Some(rate)),
            Who::Rate(rate, ::load::arrivals::Process::Constant) => ("constant", None, Some(rate)),
        };
        let counts = Counts {
            connects: record.connections,
            errors: record.errors(),
            bytes: Bytes(record.bytes_received),
            response_time: record.busy,
        };
        Report {
            event: "result",
            format: FORMAT,
            version: VERSION,
            command: std::env::args().collect(),
            program: concat!("weir ", env!("CARGO_PKG_VERSION")),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            processor: processor(),
            clock: "CLOCK_MONOTONIC",
            seed: load.seed.0,
            peer: peer.to_string(),
            workload: match load.what {
                What::Surge(_) => "surge",
                What::Webstone(_) => "webstone",
                What::Each => "each",
            },
            model,
            mode: load.mode.name(),
            verified: flags.verify,
            users,
            rate_asked,
            duration_s: duration.as_secs_f64(),
            stopped_after_s: stopped.map(|after| after.as_secs_f64()),
            objects_per_s: record.objects_begun as f64 / span,
            files_per_s: files as f64 / span,
            content_bytes_per_s: bytes as f64 / span,
            objects_begun: record.objects_begun,
            objects: record.objects,
            files: record.files,
            files_failed: record.files_failed,
            content_bytes: record.bytes,
            bytes_received: record.bytes_received,
            connections: record.connections,
            closed_by_server: record.closed_by_server,
            resent: record.resent,
            unfinished: record.unfinished,
            dropped: record.dropped,
            errors: record.troubles.clone(),
            response_ms: record.response.summary(),
            service_ms: record.service.summary(),
            object_ms: record.object.summary(),
            connect_ms: record.connect.summary(),
            first_byte_ms: record.first_byte.summary(),
            transfer_ms: record.transfer.summary(),
            lag_ms: record.lag.summary(),
            webstone: (load.mode == Mode::Http10).then(|| Metrics::new(&counts, duration)),
            cpu: cpu.to_vec(),
            seconds: record.seconds.clone(),
            verdict,
        }
    }

    /// Says what came of it, and writes it where it was asked to be.
    pub(super) fn tell(&self, voice: &Voice, out: Option<&Path>) -> Result<(), Failure> {
        let line = serde_json::to_string(self).map_err(|error| Failure::System(error.to_string()))?;
        if let Some(path) = out {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(path)
                .and_then(|mut file| writeln!(file, "{line}"))
                .map_err(|error| refused(&format!("cannot write `{}`", path.display()), &error))?;
        }
        if voice.json {
            println!("{line}");
        } else if voice.reports() {
            println!("{}", self.words());
        }
        Ok(())
    }

    fn words(&self) -> String {
        let mut text = format!(
            "{:.1} s, {}, {}: {} files ({:.1}/s) of {} objects ({:.1}/s begun), {} ({}/s)\n",
            self.duration_s,
            self.model,
            self.mode,
            self.files,
            self.files_per_s,
            self.objects,
            self.objects_per_s,
            Bytes(self.content_bytes),
            Bytes(self.content_bytes_per_s as u64),
        );
        text +=
            "  ms               count       mean        p50        p90        p99      p99.9        max\n";
        for (name, times) in [
            ("response", &self.response_ms),
            ("service", &self.service_ms),
            ("object", &self.object_ms),
            ("connect", &self.connect_ms),
            ("first byte", &self.first_byte_ms),
            ("transfer", &self.transfer_ms),
            ("lag", &self.lag_ms),
        ] {
            text += &format!(
                "  {name:<12}{:>10} {:>10.3} {:>10.3} {:>10.3} {:>10.3} {:>10.3} {:>10.3}\n",
                times.count, times.mean, times.p50, times.p90, times.p99, times.p999, times.max
            );
        }
        text += &format!(
            "  {} connections, {} closed by the server, {} requests sent again",
            self.connections, self.closed_by_server, self.resent
        );
        for (trouble, count) in &self.errors {
            let name = serde_json::to_value(trouble).ok();
            text += &format!(
                ", {count} {}",
                name.as_ref().and_then(|name| name.as_str()).unwrap_or("errors")
            );
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
        let cpu: Vec<String> = self
            .cpu
            .iter()
            .map(|share| format!("{:.0} %", share * 100.0))
            .collect();
        text += &format!(
            "\n  this client used {} of a processor for each thread; ",
            cpu.join(", ")
        );
        text += if self.verdict.valid {
            "the run is valid"
        } else {
            "THE RUN IS NOT VALID"
        };
        text
    }

    /// A run that cannot be trusted is a failure, with the reasons.
    pub(super) fn judged(&self) -> Result<(), Failure> {
        if self.verdict.valid {
            return Ok(());
        }
        Err(Failure::Invalid(format!(
            "the run cannot be trusted: {}",
            self.verdict.reasons.join("; ")
        )))
    }
}

fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(str::to_owned)
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
