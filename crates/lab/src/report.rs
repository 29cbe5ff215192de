//! The report: one page for people, the same as Markdown and as JSON. Decides what stands where; every number of it
//! comes from an observation with a source.

mod html;
mod markdown;
mod picture;
mod table;

use crate::ledger::{Entry, Study, counts};
use crate::record::Status;
use serde_json::{Value, json};

pub use html::page;
pub use markdown::text;

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
}

/// The report as one object.
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
            json!({ "study": study.name, "document": study.plan.document, "runs": runs, "numbers": numbers,
                "gaps": study.plan.gaps })
        })
        .collect();
    json!({ "event": "report", "format": "weir-report", "version": VERSION, "program": material.program,
        "date": material.date, "verdicts": verdicts, "ledger": material.ledger, "studies": studies })
}

/// Runs by how they ended, and invalid tries that were repeated.
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
        parts.push(format!("{excluded} invalid tries excluded and repeated"));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests;
