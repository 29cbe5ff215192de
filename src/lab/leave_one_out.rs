//! `weir lab leave-one-out`: published figures, predicted with parameters that were fitted to the others, as text,
//! Markdown or JSON lines. `repro` fits and simulates.

use crate::cli::lab::{Form, LeaveOneOutFlags};
use crate::failure::Failure;
use crate::gate::markdown::{escaped, row};
use crate::output::print;
use crate::voice::Voice;
use load::site::microscape::TagCase;
use repro::page::microscape;
use repro::refit::{Agreement, Figure, Group, NOT_COVERED, Refit};
use serde_json::{Value, json};
use std::fmt::Write;
use std::rc::Rc;
use units::Word as _;

/// The sentence about a fit without a remaining figure.
const SINGLE: &str = "A fit to this figure alone leaves no figure to predict: its agreement is no evidence.";

/// Runs the command.
///
/// # Errors
/// `System` if the report cannot be written.
pub(super) fn run(flags: &LeaveOneOutFlags, voice: &Voice) -> Result<(), Failure> {
    let page = Rc::new(microscape(TagCase::Lower));
    let groups = match &flags.parameters[..] {
        [] => Group::ALL,
        wanted => wanted,
    };
    let refits: Vec<Refit> = groups
        .iter()
        .flat_map(|group| group.refits(&page, flags.runs))
        .collect();
    print(&if voice.json {
        lines(&refits)
    } else {
        match flags.format {
            Form::Table => text(&refits),
            Form::Markdown => markdown(&refits),
        }
    })
}

/// The agreement with adopted, refitted and left-out parameters.
fn agreements(refit: &Refit) -> [Option<Agreement>; 3] {
    [
        refit.agreement(|figure| Some(figure.adopted)),
        refit.agreement(|figure| Some(figure.refitted)),
        refit.agreement(|figure| figure.left_out),
    ]
}

/// A parameter or figure with at most so many digits.
fn number(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

/// A refitted parameter, with digits for values of all sizes.
fn parameter(value: f64) -> String {
    number(value, if value < 100.0 { 2 } else { 0 })
}

/// The prediction with its relative error.
fn predicted(figure: &Figure) -> String {
    figure.left_out.map_or("-".to_owned(), |value| {
        format!(
            "{} ({:+.0} %)",
            number(value, figure.quantity.digits()),
            100.0 * figure.error(value)
        )
    })
}

fn text(refits: &[Refit]) -> String {
    let mut text = String::new();
    for refit in refits {
        let subject = &refit.subject;
        let _ = writeln!(
            text,
            "{} (document {}, {})\n  {}",
            subject.what, subject.document, subject.provenance, subject.method
        );
        for one in &refit.parameters {
            let _ = writeln!(
                text,
                "  {}: {} adopted, {} refitted",
                one.name,
                parameter(one.adopted),
                parameter(one.refitted)
            );
        }
        let _ = writeln!(
            text,
            "  {:<78} {:>10} {:>9} {:>9} {:>16}",
            "figure", "published", "adopted", "refitted", "left out"
        );
        for figure in &refit.figures {
            let digits = figure.quantity.digits();
            let _ = writeln!(
                text,
                "  {:<78} {:>10} {:>9} {:>9} {:>16}",
                format!("{}: {}", figure.name, figure.quantity.name()),
                number(figure.published, digits),
                number(figure.adopted, digits),
                number(figure.refitted, digits),
                predicted(figure)
            );
        }
        for (what, agreement) in ["adopted", "refitted", "left out"]
            .into_iter()
            .zip(agreements(refit))
        {
            match agreement {
                Some(one) => {
                    let _ = writeln!(
                        text,
                        "  {what}: {} of {} within tolerance; root mean square of relative errors {:.1} %",
                        one.within,
                        refit.figures.len(),
                        100.0 * one.error
                    );
                }
                None => {
                    let _ = writeln!(text, "  {what}: {SINGLE}");
                }
            }
        }
        text.push('\n');
    }
    text += "Fitted, but not covered\n";
    for (what, why) in NOT_COVERED {
        let _ = writeln!(text, "  {what}: {why}");
    }
    text
}

fn markdown(refits: &[Refit]) -> String {
    let mut text = row([
        "parameters",
        "document",
        "figures",
        "within tolerance: adopted",
        "refitted",
        "left out",
        "error: adopted",
        "refitted",
        "left out",
    ]);
    text += &row(["---"; 9]);
    for refit in refits {
        let all = agreements(refit);
        let within = all.map(|one| one.map_or("-".to_owned(), |one| one.within.to_string()));
        let errors = all.map(|one| one.map_or("-".to_owned(), |one| format!("{:.1} %", 100.0 * one.error)));
        let first = [
            escaped(refit.subject.what),
            refit.subject.document.to_owned(),
            refit.figures.len().to_string(),
        ];
        text += &row(first.into_iter().chain(within).chain(errors));
    }
    text.push('\n');
    text += &row(["parameter", "adopted", "refitted"]);
    text += &row(["---"; 3]);
    for refit in refits {
        for one in &refit.parameters {
            text += &row([
                escaped(&format!("{}: {}", refit.subject.what, one.name)),
                parameter(one.adopted),
                parameter(one.refitted),
            ]);
        }
    }
    text.push('\n');
    text += &row(["figure", "published", "adopted", "refitted", "left out"]);
    text += &row(["---"; 5]);
    for refit in refits {
        let heading = format!("**{}**", escaped(refit.subject.what));
        text += &row([heading.as_str(), "", "", "", ""]);
        for figure in &refit.figures {
            let digits = figure.quantity.digits();
            text += &row([
                escaped(&format!("{}: {}", figure.name, figure.quantity.name())),
                number(figure.published, digits),
                number(figure.adopted, digits),
                number(figure.refitted, digits),
                predicted(figure),
            ]);
        }
    }
    text
}

fn lines(refits: &[Refit]) -> String {
    let mut values: Vec<Value> = Vec::new();
    for refit in refits {
        values.push(refit_json(refit));
        values.extend(refit.figures.iter().map(|figure| figure_json(refit, figure)));
    }
    values.extend(
        NOT_COVERED
            .iter()
            .map(|(what, why)| json!({ "event": "not-covered", "what": what, "why": why })),
    );
    values.iter().map(|value| format!("{value}\n")).collect()
}

fn refit_json(refit: &Refit) -> Value {
    let subject = &refit.subject;
    let [adopted, refitted, left_out] =
        agreements(refit).map(|one| one.map(|one| json!({ "within": one.within, "error_rms": one.error })));
    json!({
        "event": "refit", "document": subject.document, "parameters": subject.what, "method": subject.method,
        "values": refit.parameters.iter().map(|one| {
            json!({ "name": one.name, "adopted": one.adopted, "refitted": one.refitted })
        }).collect::<Vec<_>>(),
        "figures": refit.figures.len(), "adopted": adopted, "refitted": refitted, "left_out": left_out,
    })
}

fn figure_json(refit: &Refit, figure: &Figure) -> Value {
    let subject = &refit.subject;
    let (verdict, is_within) = match figure.left_out {
        Some(value) if figure.is_within(value) => ("predicted", Some(true)),
        Some(_) => ("not predicted", Some(false)),
        None => (SINGLE, None),
    };
    json!({
        "event": "figure", "document": subject.document, "parameters": subject.what, "figure": figure.name,
        "quantity": figure.quantity.name(), "published": figure.published, "provenance": subject.provenance,
        "adopted": figure.adopted, "refitted": figure.refitted, "left_out": figure.left_out,
        "values_left_out": figure.parameters, "within": is_within, "verdict": verdict,
    })
}
