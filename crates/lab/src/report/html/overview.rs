//! The first page of the report: every claim in one line, then and now.

use super::{FOOT, class, entries, escape, file, head, named, value};
use crate::ledger::counts;
use crate::observation::World;
use crate::report::{Material, conclusion, machine, others};
use std::fmt::Write;

/// The page.
pub(super) fn page(material: &Material<'_>) -> String {
    let mut html = head("Five documents, 41 claims");
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        html,
        "<h1>Five documents, 41 claims</h1>\n<p class=\"lead\">What five documents of 1997 to 1999 claim about HTTP, \
         servers and TCP, tested in a simulation of their time (<i>then</i>) and on this machine (<i>now</i>).</p>\n\
         <p class=\"small\">{} · {}{}</p>",
        escape(material.program),
        escape(material.date),
        machine(material)
            .map(|machine| format!(" · {}", escape(&machine)))
            .unwrap_or_default()
    );
    if let Some(sentence) = others(material) {
        let _ = write!(html, "<p><b>{}</b></p>", escape(&sentence));
    }
    html.push_str("<ul class=\"counts\">");
    for (verdict, count) in counts(material.ledger) {
        if count > 0 {
            let _ = write!(
                html,
                "<li class=\"{}\"><b>{count}</b> {}</li>",
                class(verdict),
                verdict.name()
            );
        }
    }
    html.push_str(
        "</ul>\n<p class=\"small legend\">✓ all rules of the claim hold in this world, ✗ at least one does not, · the \
         world cannot decide. <span class=\"recalled\">Italics</span>: recalled, not verified. Then: simulated stacks and hosts of the time; \
         for document 004, its formulas. Aged: this kernel with an aged TCP.</p>\n\
         <table class=\"overview\"><thead><tr><th class=\"l\">Claim<th>Published<th>Then<th>Aged<th>Now<th class=\"l\">Verdict</tr></thead>\n",
    );
    for study in material.studies {
        let all: Vec<_> = entries(material, study).collect();
        let sentence = conclusion::sentences(study, &all);
        let _ = writeln!(
            html,
            "<tbody><tr class=\"group\"><th class=\"l\" colspan=\"6\"><a href=\"{}\">{}</a> <span class=\"small\">{}</span></th></tr>",
            escape(&file(&study.name)),
            escape(&named(&study.plan)),
            escape(sentence.first().map_or("", String::as_str))
        );
        for entry in all {
            let _ = write!(
                html,
                "<tr><td class=\"says\"><a href=\"{}#{id}\">{id}</a> {}</td>",
                escape(&file(&study.name)),
                escape(&entry.claim),
                id = escape(&entry.id),
            );
            let then = value(entry, World::Simulated).or_else(|| value(entry, World::Model));
            let cells = [
                ("published", value(entry, World::Published)),
                ("then", then),
                ("aged", value(entry, World::Aged)),
                ("now", value(entry, World::Measured)),
            ];
            for (name, cell) in cells {
                let none = if cell.is_some() { "" } else { " none" };
                let _ = write!(
                    html,
                    "<td class=\"n{none}\" data-w=\"{name}\">{}</td>",
                    cell.as_deref().unwrap_or("–")
                );
            }
            let _ = writeln!(
                html,
                "<td class=\"v\"><span class=\"verdict {}\">{}</span></td></tr>",
                class(entry.verdict),
                entry.verdict.name()
            );
        }
        html.push_str("</tbody>\n");
    }
    html.push_str("</table>");
    let unselected = material
        .ledger
        .iter()
        .filter(|entry| entry.study.is_none())
        .count();
    if unselected > 0 {
        let _ = write!(
            html,
            "<p class=\"small\">{unselected} more claims belong to studies that were not selected.</p>"
        );
    }
    html.push_str(FOOT);
    html
}
