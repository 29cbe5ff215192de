//! The report: one page for people, the same as Markdown and as JSON. Decides what stands where; every number of it
//! comes from an observation with a source.

mod html;
mod markdown;
mod picture;
mod summary;
mod table;

use crate::chart::{Bars, page as page_of};
use crate::ledger::{Entry, Study, Verdict, counts};
use crate::plan::Size;
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
    Some(format!(
        "{}, {}, size {}",
        first.processor,
        first.kernel,
        size.name()
    ))
}

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
        "date": material.date, "verdicts": verdicts, "ledger": material.ledger, "studies": studies })
}

/// Pictures as documents of their own, by name: verdicts by document, and what stands on the front page.
pub fn pictures(material: &Material<'_>) -> Vec<(String, String)> {
    let documents: Vec<&str> = material
        .studies
        .iter()
        .map(|study| study.plan.document.as_str())
        .collect();
    let series = Verdict::ALL.into_iter().map(|verdict| {
        let count = |document: &&str| {
            let of = |entry: &&Entry| entry.document == **document && entry.verdict == verdict;
            let count = material.ledger.iter().filter(of).count();
            // None has no bar.
            if count == 0 { f64::NAN } else { count as f64 }
        };
        (
            verdict.name().to_owned(),
            documents.iter().map(count).collect::<Vec<f64>>(),
        )
    });
    let verdicts = Bars {
        title: format!("{} claims of five documents", material.ledger.len()),
        label: "claims".to_owned(),
        groups: documents
            .iter()
            .map(|document| format!("document {document}"))
            .collect(),
        series: series
            .filter(|(_, counts)| counts.iter().any(|count| !count.is_nan()))
            .collect(),
    };
    let mut all = vec![("ledger".to_owned(), page_of(&[verdicts.body()]))];
    for study in material.studies {
        for one in study.plan.pictures.iter().filter(|one| one.front) {
            if let Some((svg, _)) = picture::draw(study, one, &one.title) {
                let name = one
                    .title
                    .to_lowercase()
                    .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
                all.push((format!("{}-{name}", study.name), svg));
            }
        }
    }
    all
}

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
