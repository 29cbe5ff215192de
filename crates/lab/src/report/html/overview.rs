//! The first page of the report: every claim in one line, then and now. Further claims of the five documents follow
//! them, folded, and then the claims on the protocols since, apart.

use super::{FOOT, class, entries, escaped, file, head, legend, named, value};
use crate::ledger::{Entry, Sets, Study, apart, counts};
use crate::observation::World;
use crate::report::{
    FURTHER_MEANS, Material, SINCE_MEANS, conclusion, counted, further, machine, others, title,
};
use std::fmt::Write;

const LEGEND: &str = "<span class=\"recalled\">Italics</span>: recalled, not verified. Then: simulated stacks and hosts of the time; \
     for document 004, its formulas. Aged: this kernel with an aged TCP.";

const LEGEND_SINCE: &str = "Simulated: client and server of today in virtual time, with real TLS, over a modeled link and TCP. Now: \
     measured on this machine.";

/// The page.
pub(super) fn page(material: &Material<'_>) -> String {
    let Sets {
        documents,
        further: added,
        since,
    } = apart(material.ledger);
    let title = title(material);
    let mut html = head(&title);
    let lead = match documents.is_empty() {
        true => SINCE_MEANS,
        false => {
            "What five documents of 1997 to 1999 claim about HTTP, servers and TCP, tested in a simulation of their time \
             (<i>then</i>) and on this machine (<i>now</i>)."
        }
    };
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        html,
        "<h1>{}</h1>\n<p class=\"lead\">{lead}</p>\n<p class=\"small\">{} · {}{}{}</p>",
        escaped(&title),
        escaped(material.program),
        escaped(material.date),
        machine(material)
            .map(|machine| format!(" · {}", escaped(&machine)))
            .unwrap_or_default(),
        material
            .since_folder
            .map(|folder| {
                let folder = escaped(folder);
                format!(" · <a href=\"{folder}/report.html\">The protocols since: a report of their own</a>")
            })
            .unwrap_or_default()
    );
    if let Some(sentence) = others(material) {
        let _ = write!(html, "<p><b>{}</b></p>", escaped(&sentence));
    }
    let of = |is_since: bool| {
        material
            .studies
            .iter()
            .filter(move |study| study.is_since() == is_since)
    };
    if !documents.is_empty() {
        counted_list(&mut html, &documents);
        legend(&mut html, LEGEND);
        table(&mut html, material, of(false), false);
        let unselected = documents.iter().filter(|entry| entry.study.is_none()).count();
        if unselected > 0 {
            let _ = write!(
                html,
                "<p class=\"small\">{unselected} more claims belong to studies that were not selected.</p>"
            );
        }
    }
    if let Some(sentence) = further(&added) {
        let _ = writeln!(
            html,
            "<details><summary>{}</summary><p>{FURTHER_MEANS}</p>",
            escaped(&sentence)
        );
        table(&mut html, material, of(false), true);
        html.push_str("</details>");
    }
    if !since.is_empty() && documents.is_empty() {
        counted_list(&mut html, &since);
        legend(&mut html, LEGEND_SINCE);
        table(&mut html, material, of(true), false);
    } else if !since.is_empty() {
        let _ = writeln!(
            html,
            "<h2>The protocols since: {} claims</h2><p>{SINCE_MEANS} {}.</p><details><summary>The claims, one in a line</summary>",
            since.len(),
            escaped(&counted(&since))
        );
        legend(&mut html, LEGEND_SINCE);
        table(&mut html, material, of(true), false);
        html.push_str("</details>");
    }
    html.push_str(FOOT);
    html
}

/// The number of claims by verdict.
fn counted_list(html: &mut String, entries: &[&Entry]) {
    html.push_str("<ul class=\"counts\">");
    for (verdict, count) in counts(entries).into_iter().filter(|(_, count)| *count > 0) {
        let _ = write!(
            html,
            "<li class=\"{}\"><b>{count}</b> {}</li>",
            class(verdict),
            verdict.name()
        );
    }
    html.push_str("</ul>\n");
}

/// A line for each claim of these studies: for each further one, or for each of the others.
fn table<'m>(
    html: &mut String,
    material: &'m Material<'_>,
    studies: impl Iterator<Item = &'m Study>,
    is_further: bool,
) {
    let studies: Vec<&Study> = studies.collect();
    // The simulation of the protocols since is of today.
    let simulated = match studies.iter().all(|study| study.is_since()) {
        true => "Simulated",
        false => "Then",
    };
    let _ = writeln!(
        html,
        "<table class=\"overview\"><thead><tr><th class=\"l\">Claim<th>Published<th>{simulated}<th>Aged<th>Now<th class=\"l\">Verdict</tr></thead>",
    );
    for study in studies {
        let all: Vec<_> = entries(material, study)
            .filter(|entry| entry.is_further == is_further)
            .collect();
        if is_further && all.is_empty() {
            continue;
        }
        let sentence = conclusion::sentences(study, &all);
        let _ = writeln!(
            html,
            "<tbody><tr class=\"group\"><th class=\"l\" colspan=\"6\"><a href=\"{}\">{}</a> <span class=\"small\">{}</span></th></tr>",
            escaped(&file(&study.name)),
            escaped(&named(&study.plan)),
            escaped(sentence.first().map_or("", String::as_str))
        );
        for entry in all {
            let _ = write!(
                html,
                "<tr><td class=\"says\"><a href=\"{}#{id}\">{id}</a> {}</td>",
                escaped(&file(&study.name)),
                escaped(&entry.claim),
                id = escaped(&entry.id),
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
}
