//! The report of all studies: an HTML page, and the same content as Markdown and as JSON. Decides the layout. Takes
//! every number from an observation with a source.

mod conclusion;
mod grid;
mod html;
mod markdown;
mod picture;
mod summary;
mod table;

use crate::ledger::{Counterfactual, Entry, Study, Verdict, View, apart, counts};
use crate::observation::World;
use crate::plan::{Picture, Plan, Size};
use crate::record::{OTHERS_MAX_PCT, Status};
use chart::Bars;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub use html::pages;
pub use markdown::text;
pub use summary::{runs_csv, snippet, values_csv};

/// Version of the JSON format.
pub const VERSION: u32 = 1;

/// The input of a report.
#[derive(Clone, Copy, Debug)]
pub struct Material<'m> {
    /// The studies, in display order.
    pub studies: &'m [Study],
    /// The ledger of all claims.
    pub ledger: &'m [Entry],
    /// The program and its version.
    pub program: &'m str,
    /// The date, formatted for display.
    pub date: &'m str,
    /// Results of other builds that are left out: their number by program.
    pub others: &'m BTreeMap<String, usize>,
    /// Which raw results lie beside the report.
    pub raw: Raw,
    /// The folder, relative to this report, of one on the protocols since that was published by itself.
    pub since_folder: Option<&'m str>,
}

/// Raw results beside a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// One file per run.
    Files,
    /// Per study, one table of all runs and one of all numbers read from them.
    Tables,
}

impl Raw {
    /// Path of a result relative to the report; `file` is its name in the results folder.
    fn place(self, study: &str, file: &str) -> String {
        match self {
            Raw::Files => file.to_owned(),
            Raw::Tables => format!("results/{study}-values.csv"),
        }
    }
}

/// What the report is of: `Five documents, 41 claims`, and the claims on the protocols since, if they are among them.
fn title(material: &Material<'_>) -> String {
    let sets = apart(material.ledger);
    match (sets.documents.len(), sets.since.len()) {
        (of_documents, 0) => format!("Five documents, {of_documents} claims"),
        (0, since) => format!("The protocols since, {since} claims"),
        (of_documents, since) => {
            format!("Five documents, {of_documents} claims, and {since} on the protocols since")
        }
    }
}

/// Introduces the claims that no document prints as a set.
const SINCE_MEANS: &str = "This project's own claims on TLS, HTTP/2 and HTTP/3. They belong to none of the five documents and are \
                           counted apart. Claims and rules were written before the first run; the known gaps name later changes. \
                           Each claim names its publication.";

/// Introduces the claims that the documents make and the 41 lack.
const FURTHER_MEANS: &str = "Claims that the documents make and that are not among the 41. An audit of 2026-11-30 asked for them. They \
                             are counted apart, because their rules were written while a full run was under way, without looking \
                             at its results.";

/// The number of further claims by verdict: `Of 4 further claims of the documents: 4 not judged`; `None` if there are none.
fn further(entries: &[&Entry]) -> Option<String> {
    (!entries.is_empty()).then(|| {
        format!(
            "Of {} further claims of the documents: {}",
            entries.len(),
            counted(entries)
        )
    })
}

/// The number of claims by verdict, without verdicts that no claim has: `2 reproduced; 1 not judged`.
fn counted(entries: &[&Entry]) -> String {
    let all: Vec<String> = counts(entries)
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(verdict, count)| format!("{count} {}", verdict.name()))
        .collect();
    all.join("; ")
}

/// Processor, kernel and size of the runs; `None` without runs.
fn machine(material: &Material<'_>) -> Option<String> {
    let heads = || {
        material
            .studies
            .iter()
            .flat_map(|study| study.records.values())
            .map(|record| &record.head)
    };
    let first = heads().next()?;
    // If two sizes have the same duration, a run may have been made for the smaller one.
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

/// A sentence on results of other builds that are left out; `None` if there are none.
fn others(material: &Material<'_>) -> Option<String> {
    if material.others.is_empty() {
        return None;
    }
    let each: Vec<String> = material
        .others
        .iter()
        .map(|(program, count)| format!("{count} of {program}"))
        .collect();
    Some(format!(
        "The results beside this report are of several builds. It uses those of one build and leaves out {}.",
        each.join(", ")
    ))
}

/// The kernel and the TCP settings of a study's live runs, and the runs that have them: one entry for each different
/// environment.
fn environments(study: &Study) -> Vec<(String, Vec<String>)> {
    let listed = |settings: &BTreeMap<String, String>| -> String {
        let all: Vec<String> = settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        all.join(" ")
    };
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let live = study.records.values().map(|record| &record.head);
    for head in live.filter(|head| head.world.is_live() && head.status == Status::Done) {
        let mut parts = vec![head.kernel.clone()];
        for ends in &head.links {
            parts.push(match (listed(&ends.near), listed(&ends.far)) {
                (near, far) if near == far => format!("both ends of the link: {near}"),
                (near, far) => format!("client: {near}; server: {far}"),
            });
        }
        if head.links.is_empty() {
            parts.push(format!("this machine: {}", listed(&head.tcp)));
        }
        parts.dedup();
        let text = parts.join("; ");
        match found.iter_mut().find(|(known, _)| *known == text) {
            Some((_, runs)) if runs.contains(&head.run) => {}
            Some((_, runs)) => runs.push(head.run.clone()),
            None => found.push((text, vec![head.run.clone()])),
        }
    }
    found
}

/// The sysctl in /proc/sys/net/ipv4 that names the congestion control of all senders.
const CONGESTION_CONTROL: &str = "tcp_congestion_control";

/// The report as one JSON object. With [`Raw::Tables`] it names the tables of numbers instead of repeating them.
pub fn json(material: &Material<'_>) -> Value {
    let sets = apart(material.ledger);
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
                        "program": record.head.program, "kernel": record.head.kernel, "tcp": record.head.tcp,
                        "links": record.head.links, "disturbance": record.head.disturbance })
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
            // The tables beside the report already have these numbers.
            let numbers = match material.raw {
                Raw::Files => json!(numbers),
                Raw::Tables => json!(material.raw.place(&study.name, "")),
            };
            json!({ "study": study.name, "document": study.plan.document, "runs": runs, "numbers": numbers,
                "gaps": study.plan.gaps })
        })
        .collect();
    json!({ "event": "report", "format": "weir-report", "version": VERSION, "program": material.program,
        "date": material.date, "other_builds": material.others, "verdicts": by_verdict(&sets.documents),
        "verdicts_further": by_verdict(&sets.further), "verdicts_since": by_verdict(&sets.since),
        "ledger": material.ledger, "studies": studies })
}

/// The number of claims by the name of their verdict, as JSON.
pub fn by_verdict(entries: &[&Entry]) -> serde_json::Map<String, Value> {
    counts(entries)
        .into_iter()
        .map(|(verdict, count)| (verdict.name().to_owned(), json!(count)))
        .collect()
}

/// Standalone SVG pictures by name: verdicts by document, and those of the plans.
pub fn pictures(material: &Material<'_>) -> Vec<(String, String)> {
    let mut all = vec![("ledger".to_owned(), verdicts(material))];
    for study in material.studies {
        for (name, one) in named_pictures(study) {
            if let Some((svg, _)) = picture::draw(study, &one, &one.title) {
                all.push((name, svg));
            }
        }
    }
    all
}

/// Bar chart of the claims of each document by verdict, without its further claims.
fn verdicts(material: &Material<'_>) -> String {
    let documents: Vec<&Plan> = material.studies.iter().map(|study| &study.plan).collect();
    let series = Verdict::ALL.into_iter().map(|verdict| {
        let count = |plan: &&Plan| {
            let of = |entry: &&Entry| {
                entry.document == plan.document && !entry.is_further && entry.verdict == verdict
            };
            let count = material.ledger.iter().filter(of).count();
            // A bar chart omits values that are not finite.
            if count == 0 { f64::NAN } else { count as f64 }
        };
        let counts: Vec<f64> = documents.iter().map(count).collect();
        (picture::color_of(verdict), (verdict.name().to_owned(), counts))
    });
    let (colors, series): (Vec<usize>, Vec<_>) = series
        .filter(|(_, (_, counts))| counts.iter().any(|count| !count.is_nan()))
        .unzip();
    let sets = apart(material.ledger);
    let bars = Bars {
        title: match (sets.documents.len(), sets.since.len()) {
            (0, since) => format!("{since} claims on the protocols since"),
            (of_five, 0) => format!("{of_five} claims of five documents"),
            (of_five, since) => format!("{of_five} claims of five documents, {since} on the protocols since"),
        },
        label: "claims".to_owned(),
        groups: documents.iter().map(|plan| document(plan)).collect(),
        series,
        reach: None,
    };
    bars.compact(&colors)
}

/// The document's number, with authors and year if the plan's title ends with them.
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

/// The pictures of a plan with unique file names. If a picture is drawn for several worlds, the names of all but the first end
/// with the world.
fn named_pictures(study: &Study) -> Vec<(String, Picture)> {
    let mut named: Vec<(String, Picture)> = Vec::new();
    for one in &study.plan.pictures {
        let title = one
            .title
            .to_lowercase()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let mut name = format!("{}-{title}", study.name);
        if named.iter().any(|(other, _)| *other == name) {
            name = format!("{name}-{}", named.len() + 1);
        }
        for (place, side) in picture::by_world(study, one).into_iter().enumerate() {
            let world = side.worlds.first().map_or("", |world| world.name());
            let name = match place {
                0 => name.clone(),
                _ => format!("{name}-{world}"),
            };
            named.push((name, side));
        }
    }
    named
}

/// A letter for a world, so that a print without color stays readable.
fn letter(world: World) -> char {
    match world {
        World::Published => 'p',
        World::Simulated => 's',
        World::Aged => 'a',
        World::Measured => 'm',
        World::Model => 'f',
    }
}

/// How the spread of the runs is written beside a number.
const SPREADS: &str =
    "for 2 to 5 runs, the lowest and highest; for 6 or more, the 95 % bootstrap interval of the median";

/// Introduces a table of counterfactuals.
const COUNTERFACTUALS: &str = "Each row changes some features of the systems, or conditions of the runs, and shows the values that \
                               the claim's rules measure then. The smallest change with which the claim holds, also with bounds that \
                               are 1 % stricter, is called its cause. If it changes a condition of the document, it shows where \
                               the claim holds, and not what is different from then.";

/// The results of a claim's premises and rules in a world.
fn numbers(view: &View) -> String {
    let premises = view.premises.iter().map(|text| format!("premise: {text}"));
    let all: Vec<String> = premises.chain(view.rules.iter().cloned()).collect();
    all.join("; ")
}

/// The values of the rules in a counterfactual; `not run` without results.
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

/// Explains the mark of recalled numbers.
const RECALLED_MEANS: &str = "recalled, not verified in a copy of the document";

/// The assumptions of a study's simulations without duplicates: name, value, and basis.
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

/// Explains the bases that [`assumptions`] prints.
const BASES: &str = "document: stated there; fitted: chosen to make simulated figures match published ones, which then are no \
                     evidence for it; assumed: chosen without evidence";

/// Runs by status, and the number of excluded attempts.
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
            "{excluded} invalid or disturbed attempts excluded and repeated"
        ));
    }
    let disturbed = study
        .records
        .values()
        .filter(|record| record.is_disturbed(OTHERS_MAX_PCT))
        .count();
    if disturbed > 0 {
        parts.push(format!(
            "{disturbed} began while other programs used more than {OTHERS_MAX_PCT} % of the processors and are used only where \
             there is no better run"
        ));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests;
