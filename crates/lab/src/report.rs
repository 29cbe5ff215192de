//! The report: one page for people, the same as Markdown and as JSON. Decides what stands where; every number of it
//! comes from an observation with a source.

mod html;
mod markdown;
mod picture;
mod summary;
mod table;

use crate::chart::Bars;
use crate::ledger::{Counterfactual, Entry, Study, Verdict, counts};
use crate::observation::World;
use crate::plan::{Picture, Plan, Size};
use crate::record::{OTHERS_MAX_PCT, Status};
use serde_json::{Value, json};

pub use html::page;
pub use markdown::text;
pub use summary::{runs_csv, snippet, values_csv};

/// The version of the JSON form.
pub const VERSION: u32 = 1;

/// What a report is made of.
#[derive(Clone, Copy, Debug)]
pub struct Material<'m> {
    /// The studies, in the order they are shown.
    pub studies: &'m [Study],
    /// The ledger of all claims.
    pub ledger: &'m [Entry],
    /// The program and its version.
    pub program: &'m str,
    /// When, as it is to be shown.
    pub date: &'m str,
    /// What lies beside the report.
    pub raw: Raw,
}

/// What of the raw results lies beside a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// Every one of them, as a file.
    Files,
    /// By study, a table of all runs and one of all numbers that were read from them.
    Tables,
}

impl Raw {
    /// Where a result is, from the place of the report; `file` is its name below the folder of results.
    fn place(self, study: &str, file: &str) -> String {
        match self {
            Raw::Files => file.to_owned(),
            Raw::Tables => format!("results/{study}-values.csv"),
        }
    }
}

/// The machine and the size of the runs, if there are any; none of this is known without.
fn machine(material: &Material<'_>) -> Option<String> {
    let heads = || {
        material
            .studies
            .iter()
            .flat_map(|study| study.records.values())
            .map(|record| &record.head)
    };
    let first = heads().next()?;
    // What lasts equally long in two sizes may have been run for a smaller one.
    let size = Size::ALL
        .into_iter()
        .rev()
        .find(|size| heads().any(|head| head.size == size.name()))?;
    let congestion = first
        .tcp
        .get(CONGESTION_CONTROL)
        .map_or(String::new(), |name| format!(", congestion control {name}"));
    Some(format!(
        "{}, {}{congestion}, size {}",
        first.processor,
        first.kernel,
        size.name()
    ))
}

/// The setting that decides how fast every sender of a link goes, by its name in /proc/sys/net/ipv4.
const CONGESTION_CONTROL: &str = "tcp_congestion_control";

/// The report as one object. Numbers are in it where raw results are files; where they are tables, their place is.
pub fn json(material: &Material<'_>) -> Value {
    let verdicts: serde_json::Map<String, Value> = counts(material.ledger)
        .into_iter()
        .map(|(verdict, count)| (verdict.name().to_owned(), json!(count)))
        .collect();
    let studies: Vec<Value> = material
        .studies
        .iter()
        .map(|study| {
            let runs: Vec<Value> = study
                .records
                .iter()
                .map(|(file, record)| {
                    json!({ "file": file, "run": record.head.run, "repetition": record.head.repetition,
                        "status": record.head.status, "reason": record.head.reason, "excluded": record.head.excluded,
                        "seconds": record.head.seconds, "commands": record.head.commands,
                        "disturbance": record.head.disturbance })
                })
                .collect();
            let numbers: Vec<Value> = study
                .known
                .all()
                .iter()
                .map(|one| {
                    json!({ "world": one.world, "measure": one.measure, "labels": one.labels, "value": one.value,
                        "source": one.source })
                })
                .collect();
            // Beside tables that have them, numbers would be there twice.
            let numbers = match material.raw {
                Raw::Files => json!(numbers),
                Raw::Tables => json!(material.raw.place(&study.name, "")),
            };
            json!({ "study": study.name, "document": study.plan.document, "runs": runs, "numbers": numbers,
                "gaps": study.plan.gaps })
        })
        .collect();
    json!({ "event": "report", "format": "weir-report", "version": VERSION, "program": material.program,
        "date": material.date, "verdicts": verdicts, "ledger": material.ledger,
        "studies": studies })
}

/// Pictures as documents of their own, by name: verdicts by document, and what the plans ask for.
pub fn pictures(material: &Material<'_>) -> Vec<(String, String)> {
    let mut all = vec![("ledger".to_owned(), verdicts(material))];
    for study in material.studies {
        for (name, one) in named_pictures(study) {
            if let Some((svg, _)) = picture::draw(study, one, &one.title) {
                all.push((name, svg));
            }
        }
    }
    all
}

/// How many claims of each document met which end.
fn verdicts(material: &Material<'_>) -> String {
    let documents: Vec<&Plan> = material.studies.iter().map(|study| &study.plan).collect();
    let series = Verdict::ALL.into_iter().map(|verdict| {
        let count = |plan: &&Plan| {
            let of = |entry: &&Entry| entry.document == plan.document && entry.verdict == verdict;
            let count = material.ledger.iter().filter(of).count();
            // None has no bar.
            if count == 0 { f64::NAN } else { count as f64 }
        };
        let counts: Vec<f64> = documents.iter().map(count).collect();
        (picture::color_of(verdict), (verdict.name().to_owned(), counts))
    });
    let (colors, series): (Vec<usize>, Vec<_>) = series
        .filter(|(_, (_, counts))| counts.iter().any(|count| !count.is_nan()))
        .unzip();
    let bars = Bars {
        title: format!("{} claims of five documents", material.ledger.len()),
        label: "claims".to_owned(),
        groups: documents.iter().map(|plan| document(plan)).collect(),
        series,
    };
    bars.compact(&colors)
}

/// The number of a plan's document with who wrote it and when, if its title ends with that.
fn document(plan: &Plan) -> String {
    let authors = plan
        .title
        .strip_suffix(')')
        .and_then(|title| title.rsplit_once('('));
    match authors {
        Some((_, authors)) => format!("{} {authors}", plan.document),
        None => plan.document.clone(),
    }
}

/// The pictures of a plan with the names of their files.
fn named_pictures(study: &Study) -> Vec<(String, &Picture)> {
    let mut named: Vec<(String, &Picture)> = Vec::new();
    for one in &study.plan.pictures {
        let title = one
            .title
            .to_lowercase()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let mut name = format!("{}-{title}", study.name);
        if named.iter().any(|(other, _)| *other == name) {
            name = format!("{name}-{}", named.len() + 1);
        }
        named.push((name, one));
    }
    named
}

/// A letter for a world, which print without color keeps.
fn letter(world: World) -> char {
    match world {
        World::Published => 'p',
        World::Simulated => 's',
        World::Measured => 'm',
        World::Model => 'f',
    }
}

/// How far apart repetitions lie, as it is written beside a number.
const SPREADS: &str =
    "with 2 to 5 runs the lowest to the highest of them, from 6 on the 95 % bootstrap interval of the median";

/// What a table of counterfactuals shows.
const COUNTERFACTUALS: &str = "Each row has something of today's kernel switched off, and what the claim's rules come to there, \
                               measured. The first row in which a rule holds is its cause.";

/// What the rules come to in a counterfactual, in turn; `not run` if it has not been.
fn cells(one: &Counterfactual, rules: usize) -> Vec<String> {
    match &one.view {
        Some(view) => {
            let is_single = view.value.ends_with("(single run)");
            let mark = if is_single { " (single run)" } else { "" };
            view.rules.iter().map(|text| format!("{text}{mark}")).collect()
        }
        None => vec!["not run".to_owned(); rules],
    }
}

/// What is not known from a copy of the document.
const RECALLED_MEANS: &str = "recalled, and verified in no copy of the document";

/// What the simulations of a study take for granted, each once: what, its value, and where it comes from.
fn assumptions(study: &Study) -> Vec<[String; 3]> {
    let mut all: Vec<[String; 3]> = Vec::new();
    let lines = study.records.values().flat_map(|record| &record.lines);
    for line in lines.filter(|line| line["event"] == "assumption") {
        let word = |name: &str| match &line[name] {
            Value::String(text) => text.clone(),
            Value::Number(number) => format!("{number} s"),
            _ => String::new(),
        };
        let basis = [word("basis"), word("to")];
        let basis: Vec<String> = basis.into_iter().filter(|text| !text.is_empty()).collect();
        let one = [word("what"), word("value"), basis.join(": ")];
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// What the words of [`assumptions`] mean.
const BASES: &str = "document: it says so; fitted: chosen so that simulated figures meet published ones, which are then no \
                     evidence for it; assumed: chosen without evidence";

/// Runs by how they ended, and invalid or disturbed tries that were repeated.
fn tally(study: &Study) -> String {
    let count = |status: Status| {
        study
            .records
            .values()
            .filter(|record| record.head.status == status)
            .count()
    };
    let excluded: u32 = study.records.values().map(|record| record.head.excluded).sum();
    let mut parts = vec![format!("{} runs used", count(Status::Done))];
    for status in [Status::NotRun, Status::Failed, Status::Invalid] {
        if count(status) > 0 {
            parts.push(format!("{} {}", count(status), status.name()));
        }
    }
    if excluded > 0 {
        parts.push(format!(
            "{excluded} invalid or disturbed tries excluded and repeated"
        ));
    }
    let disturbed = study
        .records
        .values()
        .filter(|record| record.is_disturbed(OTHERS_MAX_PCT))
        .count();
    if disturbed > 0 {
        parts.push(format!(
            "{disturbed} began while other programs used more than {OTHERS_MAX_PCT} % of the processors, and count only where \
             there is no better run"
        ));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests;
