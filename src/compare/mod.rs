//! `weir compare`: results of two loads from files, as a table or as JSON, and an exit code. How they are compared
//! `load` decides.

use crate::cli::compare::Flags;
use crate::cli::{Failure, Voice, output};
use crate::load::read;
use ::load::compare::{BATCHES_MIN, Batch, Measure, RUNS_MIN, Row, Settings, Unit, batches, compare, unit};
use ::load::run::{Parts, Run};
use measure::Seed;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One side of a comparison.
#[derive(Debug)]
struct Side {
    name: String,
    /// Whole runs: those of several machines are put together.
    runs: Vec<Run>,
    /// Why not to trust them.
    doubts: Vec<String>,
}

/// What is printed as JSON: `schemas/compare-result.schema.json`.
#[derive(Debug, Serialize)]
struct Comparison {
    event: &'static str,
    format: &'static str,
    version: u32,
    a: String,
    b: String,
    runs_a: usize,
    runs_b: usize,
    /// Whether both sides asked for the same.
    same_plan: bool,
    unit: Unit,
    batches_a: usize,
    batches_b: usize,
    confidence: f64,
    worse_max: f64,
    draws: u32,
    seed: u64,
    /// How p-values are corrected for the number of measures that decide.
    correction: &'static str,
    measures: Vec<Row>,
    /// Measures that decide and are worse.
    worse: Vec<Measure>,
    /// Whether they decide the exit code: runs do, pieces of runs only if that was said.
    decisive: bool,
    /// Why not to trust the runs.
    doubts: Vec<String>,
}

/// Runs the command to its end.
///
/// # Errors
/// `Failed` if B is worse, `Usage` for files without results, `Invalid` if a run cannot be trusted.
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
        doubts,
    };
    if voice.json {
        let line = serde_json::to_string(&comparison).map_err(|error| Failure::System(error.to_string()))?;
        output::line(&line)?;
    } else if voice.reports() {
        output::line(comparison.words())?;
    }
    comparison.judged(flags.invalid)
}

/// Reads a file's runs and puts those of several machines together.
fn side(path: &Path) -> Result<Side, Failure> {
    let mut groups: BTreeMap<(String, u32, u64), Vec<Run>> = BTreeMap::new();
    let (mut runs, mut doubts) = (Vec::new(), Vec::new());
    let name = path.display().to_string();
    let mut add = |parts: Vec<Run>, whole: bool| {
        let parts = Parts::of(parts).map_err(|why| Failure::Usage(format!("`{name}`: {why}")))?;
        let verdict = if whole {
            parts.verdict()
        } else {
            parts.first().verdict()
        };
        doubts.extend(
            verdict
                .reasons
                .into_iter()
                .map(|reason| format!("{name}: {reason}")),
        );
        runs.push(Run {
            record: parts.record(),
            ..parts.first().clone()
        });
        Ok::<(), Failure>(())
    };
    for run in read(path)? {
        if run.size == 1 {
            add(vec![run], false)?;
        } else {
            let start = run.start_at.unwrap_or(0.0).to_bits();
            groups
                .entry((run.plan.clone(), run.size, start))
                .or_default()
                .push(run);
        }
    }
    for parts in groups.into_values() {
        add(parts, true)?;
    }
    Ok(Side { name, runs, doubts })
}

fn cut(side: &Side, unit: Unit) -> Result<Vec<Batch>, Failure> {
    let batches = batches(&side.runs, unit);
    if batches.len() < BATCHES_MIN {
        return Err(Failure::Usage(format!(
            "`{}` has {} whole seconds; with fewer than {BATCHES_MIN} nothing can be said",
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
            text += "they did not ask for the same: what differs may be the load and not the server\n";
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
            Unit::Run => "  batches are runs: intervals say how runs differ".to_owned(),
            Unit::Piece => format!(
                "  batches are pieces of a run ({} and {}): intervals do not say how runs differ; for that, give {RUNS_MIN} runs or more on each side",
                self.batches_a, self.batches_b
            ),
        };
        text += &format!(
            "\n  p worse: of B being worse, one-sided, corrected for the {} measures that decide (Holm)",
            self.measures.iter().filter(|row| row.p_worse.is_some()).count()
        );
        text
    }

    fn judged(&self, trusting: bool) -> Result<(), Failure> {
        if !self.doubts.is_empty() && !trusting {
            return Err(Failure::Invalid(format!(
                "a run cannot be trusted (compare it all the same with --invalid): {}",
                self.doubts.join("; ")
            )));
        }
        if self.worse.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.worse.iter().map(|measure| measure.name()).collect();
        if !self.decisive {
            tracing::warn!(
                "B seems worse than A by more than {:.1} % ({}), but pieces of one run do not say how runs differ: at least {RUNS_MIN} runs \
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
