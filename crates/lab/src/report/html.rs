//! The report as HTML pages without network access or scripts, for light and dark displays, phones and paper: an
//! overview of all claims, and a page for each document. Every number of ours links to its run, every run to its raw
//! result and its plan.

mod card;
mod details;
mod document;
mod overview;

use super::{Material, document as document_name};
use crate::ledger::{Entry, Study, Verdict, View};
use crate::observation::World;
use crate::plan::Plan;
use chart::escaped;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// All pages by file name; `report.html` is the overview.
pub fn pages(material: &Material<'_>) -> Vec<(String, String)> {
    let mut all = vec![("report.html".to_owned(), overview::page(material))];
    for study in material.studies {
        all.push((file(&study.name), document::page(material, study)));
    }
    all
}

/// File name of a document's page.
pub(super) fn file(study: &str) -> String {
    // A plan of the user's may be called `report`.
    if study == "report" {
        return "report-study.html".to_owned();
    }
    format!("{study}.html")
}

/// The page up to its body.
fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{}</title>\n<style>{STYLE}</style></head>\n<body><main>\n",
        escaped(title)
    )
}

const FOOT: &str = "</main></body></html>\n";

/// The claims of a study.
fn entries<'m>(material: &Material<'m>, study: &'m Study) -> impl Iterator<Item = &'m Entry> {
    material
        .ledger
        .iter()
        .filter(|entry| entry.study.as_ref() == Some(&study.name))
}

/// The marks of [`value`] in words.
const MARKS: &str = "✓ all rules of the claim hold in this world, ✗ at least one does not, · the world cannot decide. The number \
                     is that of the first rule; if another fails, it is named.";

/// A claim's number in a world, rounded, with marks for recalled numbers and single runs; exact in the tooltip.
fn value(entry: &Entry, world: World) -> Option<String> {
    let view = entry.views.get(&world)?;
    let text = view
        .range
        .map_or("not evaluated".to_owned(), |range| entry.unit.text(range));
    let kind = match mark(view) {
        Some(true) => "holds",
        Some(false) => "fails",
        None => "undecided",
    };
    let recalled = if view.value.ends_with("(recalled)") {
        " recalled"
    } else {
        ""
    };
    let rule = match failing_rule(&view.met) {
        Some(rule) if kind == "fails" => format!(" data-rule=\" (rule {rule})\""),
        _ => String::new(),
    };
    Some(format!(
        "<span class=\"{kind}{recalled}\"{rule} title=\"{}\">{text}</span>",
        escaped(&super::numbers(view))
    ))
}

/// The number of the first rule that fails, if the first rule of all, whose number is shown, does not.
fn failing_rule(met: &[Option<bool>]) -> Option<usize> {
    let first = met.iter().position(|met| *met == Some(false))?;
    (first > 0).then_some(first + 1)
}

/// The marks, what else is said of them, and what each verdict says, folded.
fn legend(html: &mut String, more: &str) {
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        html,
        "<details><summary>What the marks and verdicts mean</summary><p>{MARKS} {more}</p><ul class=\"gaps\">"
    );
    for verdict in Verdict::ALL {
        let _ = write!(
            html,
            "<li><span class=\"verdict {}\">{}</span>: {}</li>",
            class(verdict),
            verdict.name(),
            verdict.means()
        );
    }
    html.push_str("</ul></details>\n");
}

/// The document's number with authors and year, or with its subject.
fn named(plan: &Plan) -> String {
    let short = document_name(plan);
    if short != plan.document {
        return short;
    }
    let title = plan.title.strip_prefix("Document ").unwrap_or(&plan.title);
    title.replacen(": ", " ", 1)
}

/// Whether a world meets a claim's rules; `None` if it cannot decide.
fn mark(view: &View) -> Option<bool> {
    view.holds.filter(|_| !view.is_premise_unmet())
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "yes",
        Verdict::AgedOnly => "aged",
        Verdict::SimulatedOnly => "then",
        Verdict::Borderline => "border",
        Verdict::Identity => "identity",
        Verdict::Assumed => "assumed",
        Verdict::NotReproduced => "no",
        Verdict::PremiseNotMet => "idle",
        Verdict::NotTestable => "cannot",
        Verdict::NotJudged => "open",
    }
}

fn slug(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect()
}

/// Escaped text; words between backticks become code.
fn prose(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escaped).collect();
    // An unpaired backtick is printed as is.
    if parts.len().is_multiple_of(2) {
        return parts.join("`");
    }
    let mark = |(place, part): (usize, &String)| match place % 2 {
        0 => part.clone(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::failing_rule;

    #[test]
    fn a_failing_rule_is_named_if_it_is_not_that_of_the_number() {
        assert_eq!(failing_rule(&[Some(true), None, Some(false)]), Some(3));
        assert_eq!(failing_rule(&[Some(false), Some(false)]), None);
        assert_eq!(failing_rule(&[Some(true)]), None);
    }
}
