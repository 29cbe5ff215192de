//! `weir compare`: compares the results of two loads from files and prints a table or JSON; the exit code says
//! whether the second is worse. The crate `load` does the statistics.

mod gate;

use crate::cli::compare::Flags;
use crate::failure::Failure;
use crate::load::numbered;
use crate::load::whole;
use crate::output;
use crate::voice::Voice;
use ::load::compare::{
    BATCHES_MIN, Batch, Measure, RUNS_MIN, Row, Settings, Unit, batches, compare, is_powerless, unit,
};
use ::load::run::{Parts, Run};
use ::load::verdict::is_cut_off;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use units::Seed;

/// One side of a comparison.
#[derive(Debug)]
struct Side {
    name: String,
    /// Whole runs; parts of several machines are merged.
    runs: Vec<Run>,
    /// Reasons why runs are invalid.
    doubts: Vec<String>,
    /// Warnings about the runs.
    warnings: Vec<String>,
}

/// The JSON output: `schemas/compare-result.schema.json`.
#[derive(Debug, Serialize)]
struct Comparison {
    event: &'static str,
    format: &'static str,
    version: u32,
    a: String,
    b: String,
    runs_a: usize,
    runs_b: usize,
    /// Whether all runs have the same plan.
    same_plan: bool,
    unit: Unit,
    batches_a: usize,
    batches_b: usize,
    confidence: f64,
    worse_max: f64,
    draws: u32,
    seed: u64,
    /// Method that corrects p-values for the number of deciding measures.
    correction: &'static str,
    measures: Vec<Row>,
    /// Deciding measures that are worse.
    worse: Vec<Measure>,
    /// Whether the comparison decides the exit code: with runs always, with pieces only if `--pieces` is given.
    decisive: bool,
    /// Whether the test could not call any measure worse, whatever was measured.
    powerless: bool,
    /// Reasons why runs are invalid.
    doubts: Vec<String>,
    /// Warnings to read before the figures.
    warnings: Vec<String>,
}

/// Runs the command to its end.
///
/// # Errors
/// `Failed` if B is worse, `Usage` for files without results or with too few batches to decide, `Invalid` if a run is
/// invalid, `System` if a summary cannot be written.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let (a, b) = (side(&flags.a)?, side(&flags.b)?);
    let settings = Settings {
        seed: Seed(flags.seed),
        draws: flags.draws,
        confidence: flags.confidence,
        worse_max: flags.worse,
    };
    let unit = unit(a.runs.len(), b.runs.len());
    let (of_a, of_b) = (cut(&a, unit)?, cut(&b, unit)?);
    let deciding = if flags.measure.is_empty() {
        &Measure::ALL[..]
    } else {
        &flags.measure
    };
    let measures = compare(&of_a, &of_b, deciding, &settings);
    let worse = measures.iter().filter(|row| row.worse).map(|row| row.measure);
    let worse = worse.collect();
    let plans = || a.runs.iter().chain(&b.runs).map(|run| &run.plan);
    let same_plan = plans().all(|plan| Some(plan) == plans().next());
    let doubts = a.doubts.iter().chain(&b.doubts).cloned().collect();
    let mut warnings: Vec<String> = a.warnings.iter().chain(&b.warnings).cloned().collect();
    let common = b
        .runs
        .iter()
        .filter(|run| a.runs.iter().any(|of_a| is_same(of_a, run)));
    match common.count() {
        0 => {}
        count => warnings.push(format!(
            "{count} of the {} runs of B ({}) {} a run of A, too ({}): these runs are compared with themselves",
            b.runs.len(),
            b.name,
            if count == 1 { "is" } else { "are each" },
            a.name
        )),
    }
    let powerless = is_powerless(&measures, &settings);
    let comparison = Comparison {
        event: "comparison",
        format: "weir-compare",
        version: 1,
        runs_a: a.runs.len(),
        runs_b: b.runs.len(),
        a: a.name,
        b: b.name,
        same_plan,
        unit,
        batches_a: of_a.len(),
        batches_b: of_b.len(),
        confidence: flags.confidence,
        worse_max: flags.worse,
        draws: flags.draws,
        seed: flags.seed,
        correction: "holm",
        measures,
        worse,
        decisive: unit == Unit::Run || flags.pieces,
        powerless,
        doubts,
        warnings,
    };
    for warning in &comparison.warnings {
        tracing::warn!("{warning}");
    }
    if voice.json {
        let line = serde_json::to_string(&comparison).map_err(|error| Failure::System(error.to_string()))?;
        output::line(&line)?;
    } else if voice.reports() {
        output::line(comparison.words())?;
    }
    gate::of(&comparison, flags.invalid).write(&flags.summary, whole)?;
    comparison.judged(flags.invalid)
}

/// Whether both are one measurement: two different runs never have equal start times (in nanoseconds) and records.
fn is_same(a: &Run, b: &Run) -> bool {
    a.started_at == b.started_at && a.rank == b.rank && a.plan == b.plan && a.record == b.record
}

/// Reads a file's runs and merges those of several machines. A repeated result counts once.
fn side(path: &Path) -> Result<Side, Failure> {
    let mut side = Side {
        name: path.display().to_string(),
        runs: Vec::new(),
        doubts: Vec::new(),
        warnings: Vec::new(),
    };
    let mut groups: BTreeMap<(String, u32, u64), Vec<(String, Run)>> = BTreeMap::new();
    let mut seen: Vec<(usize, Run)> = Vec::new();
    let mut again = Vec::new();
    for (line, run) in numbered(path)? {
        match seen.iter().find(|(_, before)| is_same(before, &run)) {
            Some((first, _)) => again.push(format!("line {line} is line {first}")),
            None => seen.push((line, run)),
        }
    }
    if !again.is_empty() {
        side.warnings.push(format!(
            "`{}` contains a result more than once, and it counts once: {}",
            side.name,
            again.join(", ")
        ));
    }
    for (line, run) in seen {
        let label = format!("line {line}");
        if run.size == 1 {
            side.add(vec![(label, run)], false)?;
        } else {
            let start = run.start_at.unwrap_or(0.0).to_bits();
            groups
                .entry((run.plan.clone(), run.size, start))
                .or_default()
                .push((label, run));
        }
    }
    for parts in groups.into_values() {
        side.add(parts, true)?;
    }
    Ok(side)
}

impl Side {
    /// Adds the parts of a run; a `whole` one is judged by the plan of all its ranks.
    fn add(&mut self, parts: Vec<(String, Run)>, whole: bool) -> Result<(), Failure> {
        let name = &self.name;
        let parts = Parts::named(parts).map_err(|why| Failure::Usage(format!("`{name}`: {why}")))?;
        let verdict = if whole {
            parts.verdict()
        } else {
            parts.first().verdict()
        };
        let said = |of: Vec<String>| {
            of.into_iter()
                .map(|why| format!("{name}: {why}"))
                .collect::<Vec<_>>()
        };
        let run = parts.whole();
        // Comparing only completed requests would favor the slower server, which completed fewer of its slow ones.
        let told = if is_cut_off(&run.record, &run.bounds) {
            &mut self.doubts
        } else {
            &mut self.warnings
        };
        told.extend(said(verdict.warnings));
        self.doubts.extend(said(verdict.reasons));
        self.runs.push(run);
        Ok(())
    }
}

fn cut(side: &Side, unit: Unit) -> Result<Vec<Batch>, Failure> {
    let batches = batches(&side.runs, unit);
    if batches.len() < BATCHES_MIN {
        return Err(Failure::Usage(format!(
            "`{}` has {} whole seconds; a comparison needs at least {BATCHES_MIN}",
            side.name,
            batches.len()
        )));
    }
    Ok(batches)
}

impl Comparison {
    fn words(&self) -> String {
        let mut text = format!(
            "A: {} ({} runs)\nB: {} ({} runs)\n",
            self.a, self.runs_a, self.b, self.runs_b
        );
        if !self.same_plan {
            text += "their plans differ: a difference may come from the load and not from the server\n";
        }
        text += &format!(
            "  measure                   A            B    change   {:>3.0} % interval     B above A        p  p worse\n",
            self.confidence * 100.0
        );
        let percent = |share: f64| format!("{:+.1} %", share * 100.0);
        for row in &self.measures {
            let change = row.change.map_or_else(|| "new".to_owned(), percent);
            let interval = row.interval.map_or_else(
                || "unknown".to_owned(),
                |(low, high)| format!("{:+.1} to {:+.1}", low * 100.0, high * 100.0),
            );
            text += &format!(
                "  {:<16}{:>11.3} {:>12.3} {change:>9} {interval:>16} {:>13.2} {:>8.4} {:>8}{}\n",
                row.measure.name(),
                row.a,
                row.b,
                row.superiority,
                row.p_value,
                row.p_worse
                    .map_or_else(|| "-".to_owned(), |p_worse| format!("{p_worse:.4}")),
                if row.worse { "  worse" } else { "" }
            );
        }
        text += &match self.unit {
            Unit::Run => "  batches are runs: intervals show how runs differ".to_owned(),
            Unit::Piece => format!(
                "  batches are pieces of a run ({} and {}): intervals do not show how runs differ; for that, give {RUNS_MIN} runs or more on each side",
                self.batches_a, self.batches_b
            ),
        };
        text += "\n  times include every file, also those completed after the measured time; a failed file counts as at least its timeout";
        if self.powerless {
            text += &format!("\n  {}", self.why_powerless());
        }
        text += &format!(
            "\n  p worse: one-sided p-value for B being worse, corrected for the {} deciding measures (Holm)",
            self.measures.iter().filter(|row| row.p_worse.is_some()).count()
        );
        text
    }

    /// Why the test cannot report "worse", and what would change that.
    fn why_powerless(&self) -> String {
        let asked = || self.measures.iter().filter_map(|row| row.p_least);
        let unit = match self.unit {
            Unit::Run => "runs",
            Unit::Piece => "pieces",
        };
        format!(
            "nothing could be called worse here, whatever was measured: with {} and {} {unit} and {} deciding measures, p worse is \
             at least {:.4}, which is above {:.4}; give more {unit}, or fewer measures (--measure)",
            self.batches_a,
            self.batches_b,
            asked().count(),
            asked().fold(1.0, f64::min),
            1.0 - self.confidence
        )
    }

    fn judged(&self, trusting: bool) -> Result<(), Failure> {
        if !self.doubts.is_empty() && !trusting {
            return Err(Failure::Invalid(format!(
                "a run is invalid; to compare it anyway, add --invalid: {}",
                self.doubts.join("; ")
            )));
        }
        if self.powerless {
            let why = self.why_powerless();
            if self.decisive {
                return Err(Failure::Usage(why));
            }
            tracing::warn!("{why}");
        }
        if self.worse.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.worse.iter().map(|measure| measure.name()).collect();
        if !self.decisive {
            tracing::warn!(
                "B seems worse than A by more than {:.1} % ({}), but pieces of one run do not show how runs differ: at least {RUNS_MIN} runs \
                 each are needed to decide, or --pieces",
                self.worse_max * 100.0,
                names.join(", ")
            );
            return Ok(());
        }
        Err(Failure::Failed(format!(
            "B is worse than A by more than {:.1} %: {}",
            self.worse_max * 100.0,
            names.join(", ")
        )))
    }
}
