//! Fits parameters to measurements. Decides the kind of measurement in a file and the fit it allows; the crate
//! `model` does the fitting.

mod capture;
pub(super) mod runs;
mod table;

use super::Measured;
use super::grid::Grid;
use super::report::Report;
use crate::cli::model::FitFlags;
use crate::failure::Failure;
use ::model::bootstrap::{DRAWS, estimate, resample};
use ::model::fit::{
    Estimate, INITIAL_WINDOWS, LoadSample, PathFit, ServiceFit, TransferSample, path, service,
};
use ::model::{Explained, Seconds};
use capture::Capture;
use runs::Steady;
use std::path::Path;
use table::Rows;
use units::{Bytes, median};

/// Limit on the steps of mean value analysis in all draws of a bootstrap.
const STEPS_MAX: u64 = 1_000_000_000;
/// Approximate evaluations per fit.
const EVALUATIONS: u64 = 100;

/// Content of a file.
enum Kind {
    /// CSV.
    Table,
    /// Results of `weir load`.
    Runs,
    /// Lines of `weir trace --json`.
    Capture,
}

/// Fits what the files allow.
pub(super) fn fit(flags: &FitFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let texts = flags.files.iter().map(|file| read(file));
    let texts = texts.collect::<Result<Vec<String>, Failure>>()?;
    let kinds = texts.iter().zip(&flags.files);
    let kinds = kinds.map(|(text, file)| kind(text, file));
    match kinds.collect::<Result<Vec<Kind>, Failure>>()?.as_slice() {
        [Kind::Table] => of_table(flags, &texts[0], measured),
        kinds if kinds.iter().all(|kind| matches!(kind, Kind::Runs)) => {
            if flags.files.iter().any(|file| file == Path::new("-")) {
                return Err(Failure::Usage(
                    "results of `weir load` are read from their files, not from standard input".to_owned(),
                ));
            }
            of_runs(flags, measured)
        }
        kinds if kinds.iter().all(|kind| matches!(kind, Kind::Capture)) => {
            of_captures(flags, &texts, measured)
        }
        _ => Err(Failure::Usage(
            "several files must all be results of `weir load`, or all lines of `weir trace --json`"
                .to_owned(),
        )),
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    text.map_err(|error| {
        Failure::Usage(format!(
            "cannot read the measurements `{}`: {error}",
            file.display()
        ))
    })
}

/// Recognized by the first meaningful line.
fn kind(text: &str, file: &Path) -> Result<Kind, Failure> {
    let mut lines = text.lines().enumerate();
    let Some((number, line)) = lines.find(|(_, line)| !line.trim().is_empty()) else {
        return Ok(Kind::Table);
    };
    if !line.trim_start().starts_with('{') {
        return Ok(Kind::Table);
    }
    let place = format!("{}:{}", file.display(), number + 1);
    let value: serde_json::Value =
        serde_json::from_str(line).map_err(|error| Failure::Usage(format!("{place}: not JSON: {error}")))?;
    match value["event"].as_str() {
        Some("trace" | "transaction" | "connection" | "finding") => Ok(Kind::Capture),
        Some("result" | "merged" | "probe" | "search" | "failed") => Ok(Kind::Runs),
        _ => Err(Failure::Usage(format!(
            "{place}: neither a result of `weir load` nor a line of `weir trace --json`"
        ))),
    }
}

/// Parameters with their intervals and the methods behind those.
struct Intervals(Grid);

impl Intervals {
    fn new() -> Intervals {
        let columns = [
            ("parameter", ""),
            ("estimate", ""),
            ("from", ""),
            ("to", ""),
            ("unit", ""),
            ("interval by", ""),
        ];
        Intervals(Grid::new("95 % intervals", &columns))
    }

    fn row(&mut self, name: &str, estimate: Estimate, unit: &str, by: &str) {
        let Estimate { value, low, high } = estimate;
        let cells = [
            name.into(),
            value.into(),
            low.into(),
            high.into(),
            unit.into(),
            by.into(),
        ];
        self.0.row(cells);
    }

    fn service(&mut self, found: &ServiceFit) {
        self.row("demand", found.demand, "s", CURVATURE);
        self.row("delay", found.delay, "s", CURVATURE);
        self.row("think time", found.think, "s", "Student's t over samples");
    }

    fn path(&mut self, found: &PathFit) {
        self.row("round-trip time", found.rtt, "s", CURVATURE);
        self.row("rate", found.rate, "bit/s", CURVATURE);
    }
}

const CURVATURE: &str = "curvature of the fit";
const SECONDS_DRAWN: &str = "bootstrap over seconds of each run";
const TRANSFERS_DRAWN: &str = "bootstrap over transfers";

fn of_table(flags: &FitFlags, text: &str, measured: Measured<'_>) -> Result<Report, Failure> {
    let name = flags.files[0].display().to_string();
    let rows = Rows::read(text, &name)?;
    let mut report = Report::default();
    let mut intervals = Intervals::new();
    if rows.has(&["users", "throughput", "response"]) {
        let samples = rows.each(&["users", "throughput", "response"], |cells| LoadSample {
            users: cells[0] as u64,
            throughput: cells[1],
            response: Seconds(cells[2]),
        })?;
        let found = take_service(&mut report, service(&samples)?, flags, measured)?;
        intervals.service(&found);
    } else if rows.has(&["size", "latency"]) {
        let samples = rows.each(&["size", "latency"], |cells| TransferSample {
            size: Bytes(cells[0] as u64),
            latency: Seconds(cells[1]),
        })?;
        predicts_nothing(flags)?;
        let sender = flags.sender.sender();
        let explained = path(&samples, &sender, flags.sender.setup, &INITIAL_WINDOWS)?;
        intervals.path(&explained.answer);
        report.answer(explained, measured);
    } else {
        return Err(Failure::Usage(format!(
            "`{name}`: the first line must name the columns users,throughput,response or size,latency; it names {}",
            rows.names.join(", ")
        )));
    }
    report.grids.push(intervals.0);
    Ok(report)
}

/// Adds the fit and its predictions.
fn take_service(
    report: &mut Report,
    explained: Explained<ServiceFit>,
    flags: &FitFlags,
    measured: Measured<'_>,
) -> Result<ServiceFit, Failure> {
    let found = explained.answer;
    report.answer(explained, measured);
    let network = found.network()?;
    for &users in &flags.predict {
        report.answer(network.solve(users)?, measured);
    }
    Ok(found)
}

fn predicts_nothing(flags: &FitFlags) -> Result<(), Failure> {
    if flags.predict.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage(
        "--predict needs columns users, throughput and response; for transfers, use `weir model transfer`"
            .to_owned(),
    ))
}

fn of_runs(flags: &FitFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let mut report = Report::default();
    let mut runs = Vec::new();
    for file in &flags.files {
        for (line, run) in crate::load::numbered(file)? {
            let place = format!("{}:{line}", file.display());
            let verdict = run.verdict();
            if !verdict.valid {
                report.notes.push(format!(
                    "{place}: the run is invalid by its own verdict: {}",
                    verdict.reasons.join("; ")
                ));
            }
            runs.push(Steady::of(&run, &place)?);
        }
    }
    let samples: Vec<LoadSample> = runs.iter().map(Steady::sample).collect();
    let found = take_service(&mut report, service(&samples)?, flags, measured)?;
    let mut intervals = Intervals::new();
    intervals.service(&found);
    if runs.iter().all(Steady::can_be_drawn) {
        let largest = samples.iter().map(|sample| sample.users).max().unwrap_or(1);
        let draws = (STEPS_MAX / (largest * EVALUATIONS)).clamp(100, u64::from(DRAWS)) as u32;
        let (mut delays, mut thinks) = (Vec::new(), Vec::new());
        let demand = estimate(found.demand.value, draws, flags.seed, |rng| {
            let samples: Vec<LoadSample> = runs.iter().map(|run| run.drawn(rng)).collect();
            let Ok(fit) = service(&samples).map(|explained| explained.answer) else {
                return f64::NAN;
            };
            delays.push(fit.delay.value);
            thinks.push(fit.think.value);
            fit.demand.value
        });
        // One fit of each draw serves all parameters.
        let again = |value: f64, drawn: Vec<f64>| {
            let count = drawn.len() as u32;
            let mut next = drawn.into_iter();
            estimate(value, count, flags.seed, |_| next.next().unwrap_or(f64::NAN))
        };
        intervals.row("demand", demand, "s", SECONDS_DRAWN);
        intervals.row("delay", again(found.delay.value, delays), "s", SECONDS_DRAWN);
        intervals.row("think time", again(found.think.value, thinks), "s", SECONDS_DRAWN);
    } else {
        report.notes.push(
            "no bootstrap: a run has fewer than six seconds, or its users requested several files at once"
                .to_owned(),
        );
    }
    let least = runs.iter().min_by_key(|run| run.sample().users);
    if let Some(rtt) = least.and_then(Steady::round_trip) {
        intervals.row(
            "round-trip time",
            rtt,
            "s",
            "order statistics of the connects of the run with the fewest users",
        );
    }
    report.grids.push(intervals.0);
    Ok(report)
}

fn of_captures(flags: &FitFlags, texts: &[String], measured: Measured<'_>) -> Result<Report, Failure> {
    predicts_nothing(flags)?;
    let mut captures = texts.iter().zip(&flags.files);
    let mut capture = Capture::default();
    captures.try_for_each(|(text, file)| {
        let next = Capture::read(text, &file.display().to_string())?;
        capture.add(next);
        Ok::<(), Failure>(())
    })?;
    if capture.handshakes.is_empty() {
        let names: Vec<String> = flags
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        return Err(Failure::Usage(format!(
            "{}: no connection was captured with its handshake",
            names.join(", ")
        )));
    }
    let mut report = Report::default();
    let mut intervals = Intervals::new();
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    let handshake = estimate(middle(&capture.handshakes), DRAWS, flags.seed, |rng| {
        middle(&resample(&capture.handshakes, rng))
    });
    intervals.row("handshake", handshake, "s", "bootstrap over connections");
    if let Some(loss) = capture.loss() {
        intervals.row("segments sent again", loss, "", "Wilson");
    }
    let mut sender = flags.sender.sender();
    sender.mss = Bytes(capture.segment.max(1));
    let first = capture.first_flight as f64 / capture.segment.max(1) as f64;
    report.notes.push(format!(
        "largest segment {}; largest first flight {} ({first:.1} segments), which is the initial window if any reply was longer",
        sender.mss,
        Bytes(capture.first_flight)
    ));
    let fitted = |samples: &[TransferSample]| path(samples, &sender, flags.sender.setup, &INITIAL_WINDOWS);
    match fitted(&capture.transfers) {
        Ok(explained) => {
            let found = explained.answer;
            report.answer(explained, measured);
            intervals.path(&found);
            for (name, value, unit, of) in [
                (
                    "round-trip time",
                    found.rtt.value,
                    "s",
                    (|fit| fit.rtt.value) as fn(PathFit) -> f64,
                ),
                ("rate", found.rate.value, "bit/s", |fit| fit.rate.value),
            ] {
                let drawn = estimate(value, DRAWS / 5, flags.seed, |rng| {
                    fitted(&resample(&capture.transfers, rng)).map_or(f64::NAN, |fit| of(fit.answer))
                });
                intervals.row(name, drawn, unit, TRANSFERS_DRAWN);
            }
        }
        Err(why) => report.notes.push(format!(
            "no fit of round trip and rate from {} transfers that began with their connection: {why}",
            capture.transfers.len()
        )),
    }
    report.grids.push(intervals.0);
    Ok(report)
}

#[cfg(feature = "measure")]
#[cfg(test)]
pub(super) mod tests;
