//! The folded part of a document's page: all pictures, the document's tables with our numbers, the runs.

use super::{escaped, prose, slug};
use crate::ledger::Study;
use crate::observation::World;
use crate::report::table::{Layout, Ours, layout};
use crate::report::{
    BASES, RECALLED_MEANS, Raw, SPREADS, assumptions, environments, grid, letter, picture, tally,
};
use std::fmt::Write;

pub(super) fn figure(html: &mut String, study: &Study, one: &crate::plan::Picture) {
    let title = escaped(&one.title);
    let place = place(one);
    match picture::draw(study, one, "") {
        Some((svg, worlds)) => {
            let worlds: Vec<String> = worlds
                .iter()
                .map(|world| format!("<span class=\"w {0}\">{0}</span>", world.name()))
                .collect();
            let _ = writeln!(
                html,
                "<figure><figcaption><b>{title}</b> {}{place}</figcaption>{svg}</figure>",
                worlds.join(" "),
            );
        }
        None => {
            let _ = writeln!(
                html,
                "<figure><figcaption><b>{title}</b>{place}</figcaption>\
                 <p class=\"empty\">Nothing to draw yet: no run has the numbers.</p></figure>",
            );
        }
    }
}

/// The document's figure that a picture stands for.
pub(super) fn place(one: &crate::plan::Picture) -> String {
    if one.figure.is_empty() {
        String::new()
    } else {
        format!(" <span class=\"small\">Figure {}</span>", escaped(&one.figure))
    }
}

/// Explains marks and small print for readers and printers without color.
pub(super) fn marks_in_tables(html: &mut String) {
    html.push_str("<p class=\"legend\">");
    for world in [World::Simulated, World::Aged, World::Measured, World::Model] {
        let _ = write!(
            html,
            "<span class=\"w {0}\"><b class=\"mark\">{1}</b> {0}</span>, ",
            world.name(),
            letter(world)
        );
    }
    let _ = writeln!(
        html,
        "below the document's number: the median of the runs, with their spread in small print ({}). \
         <span class=\"recalled\">Italics</span>: {}. ✓ all rules of the claim hold in this world, ✗ at least one does not.</p>",
        escaped(SPREADS),
        escaped(RECALLED_MEANS)
    );
}

pub(super) fn made_with(html: &mut String, study: &Study, setup: &crate::plan::Setup) {
    let _ = writeln!(
        html,
        "<h3 id=\"{}-table-{}\">Table {}: {}</h3>\n<div class=\"wide\"><table><thead><tr><th class=\"l\">item<th class=\"l\">in \
         the document<th class=\"l\">here</tr></thead><tbody>",
        study.name,
        slug(&setup.number),
        escaped(&setup.number),
        escaped(&setup.title)
    );
    for [what, then, here] in &setup.rows {
        let _ = writeln!(
            html,
            "<tr><th class=\"l\">{}<td class=\"l\">{}<td class=\"l\">{}</tr>",
            prose(what),
            prose(then),
            prose(here)
        );
    }
    let _ = writeln!(
        html,
        "</tbody></table></div><p class=\"notes\">provenance: {}</p>",
        prose(&setup.provenance)
    );
}

pub(super) fn printed(html: &mut String, study: &Study, table: &crate::plan::Table) {
    let laid = layout(study, table);
    let _ = writeln!(
        html,
        "<h3 id=\"{}-table-{}\">{}: {}</h3>",
        study.name,
        slug(&table.number),
        escaped(&table.name()),
        escaped(&table.title)
    );
    if !laid.has_ours() {
        html.push_str("<p class=\"small\">As printed; no results of ours yet.</p>");
    }
    rows(html, &laid);
    html.push_str("<p class=\"notes\">");
    let notes: Vec<String> = laid.notes.iter().map(|note| prose(note)).collect();
    html.push_str(&notes.join("<br>"));
    html.push_str("</p>\n");
}

/// A table of our own numbers.
pub(super) fn own(html: &mut String, study: &Study, one: &crate::plan::Grid) {
    let _ = writeln!(html, "<h3>{}</h3>", escaped(&one.title));
    let laid = grid::layout(study, one);
    if laid.has_ours() {
        rows(html, &laid);
    } else {
        html.push_str("<p class=\"small\">No results yet.</p>");
    }
}

/// The head and the rows of a table.
fn rows(html: &mut String, laid: &Layout) {
    html.push_str("<div class=\"wide\"><table><thead><tr>");
    for head in &laid.heads {
        let _ = write!(html, "<th class=\"l\">{}", escaped(head));
    }
    for column in &laid.columns {
        let _ = write!(html, "<th>{}", escaped(column));
    }
    html.push_str("</tr></thead><tbody>\n");
    for (row, places) in &laid.rows {
        html.push_str("<tr>");
        for word in row {
            let _ = write!(html, "<th class=\"l\">{}", escaped(word));
        }
        for place in places {
            html.push_str("<td class=\"n\">");
            if let Some(place) = place {
                let kind = if place.is_unverified {
                    "printed recalled"
                } else {
                    "printed"
                };
                if !place.printed.is_empty() {
                    let _ = write!(html, "<span class=\"{kind}\">{}</span>", escaped(&place.printed));
                }
                for ours in &place.ours {
                    number(html, ours);
                }
            }
            html.push_str("</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

fn number(html: &mut String, ours: &Ours) {
    let title = format!("{}, {} run(s)", ours.world.name(), ours.repetitions);
    let _ = write!(
        html,
        "<span class=\"ours w {}\"><a href=\"#{}\" title=\"{}\"><b class=\"mark\">{}</b> {}</a>",
        ours.world.name(),
        slug(&ours.source),
        escaped(&title),
        letter(ours.world),
        ours.text()
    );
    if let Some(spread) = ours.spread_text() {
        let _ = write!(html, " <small>{spread}</small>");
    }
    html.push_str("</span>");
}

pub(super) fn assumed(html: &mut String, study: &Study) {
    let all = assumptions(study);
    if all.is_empty() {
        return;
    }
    let _ = write!(
        html,
        "<details><summary>Assumptions of the simulations</summary><p class=\"small\">{}</p><div class=\"wide\"><table><tbody>",
        escaped(BASES)
    );
    for row in all {
        let cells: Vec<String> = row
            .iter()
            .map(|cell| format!("<td class=\"l\">{}", escaped(cell)))
            .collect();
        let _ = writeln!(html, "<tr>{}</tr>", cells.concat());
    }
    html.push_str("</tbody></table></div></details>\n");
}

pub(super) fn runs(html: &mut String, study: &Study, raw: Raw) {
    let _ = writeln!(
        html,
        "<details class=\"runs\"><summary>{} runs, each with its command and {}</summary><p class=\"small\">{}</p>\
         <div class=\"wide\"><table><thead><tr>\
         <th class=\"l\">Run<th>Repetition<th class=\"l\">Ended<th>Excluded<th>Seconds<th>Steal %<th>Others %\
         <th class=\"l\">Commands</tr></thead><tbody>",
        study.records.len(),
        match raw {
            Raw::Files => "raw result".to_owned(),
            Raw::Tables => format!(
                "numbers (<a href=\"results/{0}-values.csv\">all numbers</a>, <a href=\"results/{0}-runs.csv\">all runs</a>)",
                study.name
            ),
        },
        tally(study)
    );
    for (file, record) in &study.records {
        let head = &record.head;
        let commands: Vec<String> = head
            .commands
            .iter()
            .map(|words| format!("<code>{}</code>", escaped(&words.join(" "))))
            .collect();
        let why = if head.reason.is_empty() {
            String::new()
        } else {
            format!(": {}", escaped(&head.reason))
        };
        let _ = writeln!(
            html,
            "<tr id=\"{}\"><td class=\"l\"><a href=\"{}\">{}</a><td class=\"n\">{}<td class=\"l\">{}{why}<td class=\"n\">{}\
             <td class=\"n\">{:.1}<td class=\"n\">{:.1}<td class=\"n\">{}<td class=\"l\">{}</tr>",
            slug(file),
            escaped(&raw.place(&study.name, file)),
            escaped(&head.run),
            head.repetition,
            head.status.name(),
            head.excluded,
            head.seconds,
            head.disturbance.steal_pct,
            head.disturbance
                .others_pct
                .map_or("–".to_owned(), |share| format!("{share:.0}")),
            commands.join("<br>")
        );
    }
    html.push_str("</tbody></table></div></details>\n");
    let environments = environments(study);
    if environments.is_empty() {
        return;
    }
    html.push_str(
        "<details><summary>Kernel, congestion control and TCP settings of each measured run</summary><ul>",
    );
    for (settings, runs) in environments {
        let _ = write!(
            html,
            "<li>{}<br><code>{}</code></li>",
            escaped(&runs.join(", ")),
            escaped(&settings)
        );
    }
    html.push_str("</ul></details>\n");
}
