//! The report as one HTML page without network access or scripts, for light and dark displays, phones and paper.
//! Pictures and the ledger come first, then each study with its tables, runs and plan. Every number of ours links to
//! its run, every run to its raw result and its plan.

use super::table::{Ours, layout};
use super::{
    BASES, COUNTERFACTUALS, Material, RECALLED_MEANS, Raw, SPREADS, assumptions, cells, document,
    environments, letter, machine, numbers, others, picture, tally,
};
use crate::document::RECALLED;
use crate::ledger::{Entry, Study, Verdict, counts};
use crate::observation::World;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// The whole page.
pub fn page(material: &Material<'_>) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>Five documents, 41 claims</title>\n<style>{STYLE}</style></head>\n\
         <body><main>\n<h1>Five documents, 41 claims</h1>\n<p class=\"lead\">Each claim in five worlds: published, simulated with \
         the TCP of its time, measured on this machine with an aged TCP and as it is today, and computed from formulas. A verdict follows from the claim's \
         own rules and the numbers in the result files.</p>\n<p class=\"small\">{} · {}{}</p>\n",
        escape(material.program),
        escape(material.date),
        machine(material)
            .map(|machine| format!(" · {}", escape(&machine)))
            .unwrap_or_default()
    );
    // Writing to a String cannot fail, here and below.
    if let Some(sentence) = others(material) {
        let _ = write!(html, "<p><b>{}</b></p>", escape(&sentence));
    }
    html.push_str("<ul class=\"counts\">");
    for (verdict, count) in counts(material.ledger) {
        let _ = write!(
            html,
            "<li class=\"{}\"><b>{count}</b> {}</li>",
            class(verdict),
            verdict.name()
        );
    }
    html.push_str("</ul>\n<nav>");
    for study in material.studies {
        let _ = write!(
            html,
            "<a href=\"#{}\">{} ({})</a> ",
            study.name,
            study.name,
            escape(&document(&study.plan))
        );
    }
    html.push_str("</nav>\n");
    gallery(&mut html, material);
    ledger(&mut html, material.ledger);
    for study in material.studies {
        section(&mut html, study, material.raw);
    }
    html.push_str("</main></body></html>\n");
    html
}

fn gallery(html: &mut String, material: &Material<'_>) {
    let mut front: Vec<_> = material
        .studies
        .iter()
        .flat_map(|study| study.plan.pictures.iter().map(move |one| (study, one)))
        .filter(|(_, one)| one.front)
        .collect();
    // Pictures with data go before those that wait for a run.
    front.sort_by_cached_key(|(study, one)| picture::draw(study, one, "").is_none());
    html.push_str("<section class=\"gallery\">\n");
    for (study, one) in front.into_iter().take(6) {
        figure(html, study, one);
    }
    html.push_str("</section>\n");
}

fn figure(html: &mut String, study: &Study, one: &crate::plan::Picture) {
    let title = escape(&one.title);
    let from = escape(&document(&study.plan));
    let place = if one.figure.is_empty() {
        String::new()
    } else {
        format!(" · figure {}", escape(&one.figure))
    };
    match picture::draw(study, one, "") {
        Some((svg, worlds)) => {
            let worlds: Vec<String> = worlds
                .iter()
                .map(|world| format!("<span class=\"w {0}\">{0}</span>", world.name()))
                .collect();
            let _ = writeln!(
                html,
                "<figure><figcaption><b>{title}</b> {} <a class=\"small\" href=\"#{}\">document \
                 {from}{place}</a></figcaption>{svg}</figure>",
                worlds.join(" "),
                study.name,
            );
        }
        None => {
            let _ = writeln!(
                html,
                "<figure><figcaption><b>{title}</b> <a class=\"small\" href=\"#{}\">document {from}{place}</a></figcaption>\
                 <p class=\"empty\">Nothing to draw yet: no run has the numbers.</p></figure>",
                study.name,
            );
        }
    }
}

fn ledger(html: &mut String, ledger: &[Entry]) {
    html.push_str("<section><h2 id=\"ledger\">The ledger</h2>\n");
    legend(html);
    html.push_str(
        "<table class=\"ledger\"><thead><tr><th>Claim<th>Published\
         <th>Simulated<th>Aged<th>Measured<th>Model<th>Verdict</tr></thead>\n",
    );
    for entry in ledger.iter().filter(|entry| entry.study.is_some()) {
        let _ = write!(
            html,
            "<tbody id=\"{0}\"><tr><td class=\"says\"><a href=\"#{0}\">{0}</a> {1}",
            escape(&entry.id),
            escape(&entry.claim)
        );
        if !entry.shows.is_empty() {
            let _ = write!(
                html,
                "<span class=\"shows\">numbers: {}</span>",
                escape(&entry.shows)
            );
        }
        html.push_str("</td>");
        for world in World::ALL {
            let none = if entry.views.contains_key(&world) {
                ""
            } else {
                " none"
            };
            let _ = write!(html, "<td class=\"n{none}\" data-w=\"{}\">", world.name());
            match entry.views.get(&world) {
                Some(view) => {
                    let mark = match view.holds {
                        _ if view.is_premise_unmet() => "open",
                        Some(true) => "holds",
                        Some(false) => "fails",
                        None => "open",
                    };
                    let target = view.sources.first().map(|source| anchor(entry, source));
                    let value = escape(&view.value);
                    let title = escape(&numbers(view));
                    let _ = match target {
                        Some(target) => write!(
                            html,
                            "<a class=\"{mark}\" href=\"#{target}\" title=\"{title}\">{value}</a>"
                        ),
                        None => write!(html, "<span class=\"{mark}\" title=\"{title}\">{value}</span>"),
                    };
                }
                None => html.push('–'),
            }
            html.push_str("</td>");
        }
        let _ = write!(
            html,
            "<td class=\"v\"><span class=\"verdict {}\">{}</span></td></tr>\n<tr class=\"why\"><td colspan=\"7\">{}",
            class(entry.verdict),
            entry.verdict.name(),
            escape(&entry.reason)
        );
        let _ = write!(
            html,
            "<details><summary>how it is judged</summary><p>In the document: {}</p>",
            escape(&entry.check)
        );
        for rule in &entry.premise {
            let _ = write!(html, "<p>premise: <code>{}</code></p>", escape(rule));
        }
        for (number, rule) in entry.rules.iter().enumerate() {
            let _ = write!(html, "<p>rule {}: <code>{}</code></p>", number + 1, escape(rule));
        }
        counterfactuals(html, entry);
        for (world, view) in &entry.views {
            let _ = write!(
                html,
                "<p><span class=\"w {0}\">{0}</span> {1}</p>",
                world.name(),
                escape(&numbers(view))
            );
        }
        if let Some(study) = &entry.study {
            let _ = write!(html, "<p><a href=\"#plan-{study}\">the plan</a></p>");
        }
        html.push_str("</details></td></tr></tbody>\n");
    }
    html.push_str("</table>");
    let others = ledger.iter().filter(|entry| entry.study.is_none()).count();
    if others > 0 {
        let _ = write!(
            html,
            "<p class=\"small\">{others} more claims belong to studies that were not selected.</p>"
        );
    }
    html.push_str("</section>\n");
}

/// The values of the claim's rules in each counterfactual.
fn counterfactuals(html: &mut String, entry: &Entry) {
    if entry.counterfactuals.is_empty() {
        return;
    }
    let _ = write!(html, "<p>{COUNTERFACTUALS}</p><ul>");
    for one in &entry.counterfactuals {
        let cells = cells(one, entry.rules.len());
        let rules: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(number, text)| format!("rule {}: {}", number + 1, escape(text)))
            .collect();
        let _ = write!(
            html,
            "<li>without {}: {}</li>",
            escape(&one.name()),
            rules.join("; ")
        );
    }
    html.push_str("</ul>");
}

/// Explains marks and small print for readers and printers without color.
fn legend(html: &mut String) {
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
        escape(SPREADS),
        escape(RECALLED_MEANS)
    );
}

/// Anchor of a claim's source on the page.
fn anchor(entry: &Entry, source: &str) -> String {
    let source = source.strip_suffix(RECALLED).unwrap_or(source);
    match (&entry.study, source.strip_prefix("table ")) {
        (Some(study), Some(number)) => format!("{study}-table-{}", slug(number)),
        _ => slug(source),
    }
}

fn section(html: &mut String, study: &Study, raw: Raw) {
    let plan = &study.plan;
    let _ = writeln!(
        html,
        "<section><h2 id=\"{}\">{}</h2>\n<p>{}</p><p><b>Prediction.</b> {}</p><p class=\"small\">{}</p>",
        study.name,
        escape(&plan.title),
        prose(&plan.question),
        prose(&plan.prediction),
        tally(study)
    );
    if !plan.gaps.is_empty() {
        html.push_str("<p><b>Known gaps.</b></p><ul class=\"gaps\">");
        for gap in &plan.gaps {
            let _ = write!(html, "<li>{}</li>", prose(gap));
        }
        html.push_str("</ul>\n");
    }
    if !plan.pictures.is_empty() {
        html.push_str("<div class=\"gallery\">\n");
        for one in &plan.pictures {
            figure(html, study, one);
        }
        html.push_str("</div>\n");
    }
    for setup in &plan.setups {
        made_with(html, study, setup);
    }
    for table in &plan.tables {
        printed(html, study, table);
    }
    assumed(html, study);
    runs(html, study, raw);
    let _ = writeln!(
        html,
        "<details class=\"plan\" id=\"plan-{}\"><summary>The plan, experiments/{}.toml</summary><pre>{}</pre></details></section>",
        study.name,
        study.name,
        escape(&study.text)
    );
}

fn made_with(html: &mut String, study: &Study, setup: &crate::plan::Setup) {
    let _ = writeln!(
        html,
        "<h3 id=\"{}-table-{}\">Table {}: {}</h3>\n<div class=\"wide\"><table><thead><tr><th class=\"l\">item<th class=\"l\">in \
         the document<th class=\"l\">here</tr></thead><tbody>",
        study.name,
        slug(&setup.number),
        escape(&setup.number),
        escape(&setup.title)
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

fn printed(html: &mut String, study: &Study, table: &crate::plan::Table) {
    let laid = layout(study, table);
    let _ = writeln!(
        html,
        "<h3 id=\"{}-table-{}\">{}: {}</h3>",
        study.name,
        slug(&table.number),
        escape(&table.name()),
        escape(&table.title)
    );
    if !laid.has_ours() {
        html.push_str("<p class=\"small\">As printed; no results of ours yet.</p>");
    }
    html.push_str("<div class=\"wide\"><table><thead><tr>");
    for head in &laid.heads {
        let _ = write!(html, "<th class=\"l\">{}", escape(head));
    }
    for column in &laid.columns {
        let _ = write!(html, "<th>{}", escape(column));
    }
    html.push_str("</tr></thead><tbody>\n");
    for (row, places) in &laid.rows {
        html.push_str("<tr>");
        for word in row {
            let _ = write!(html, "<th class=\"l\">{}", escape(word));
        }
        for place in places {
            html.push_str("<td class=\"n\">");
            if let Some(place) = place {
                let kind = if place.is_unverified {
                    "printed recalled"
                } else {
                    "printed"
                };
                let _ = write!(html, "<span class=\"{kind}\">{}</span>", escape(&place.printed));
                for ours in &place.ours {
                    number(html, ours);
                }
            }
            html.push_str("</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div><p class=\"notes\">");
    let notes: Vec<String> = laid.notes.iter().map(|note| prose(note)).collect();
    html.push_str(&notes.join("<br>"));
    html.push_str("</p>\n");
}

fn number(html: &mut String, ours: &Ours) {
    let title = format!("{}, {} run(s)", ours.world.name(), ours.repetitions);
    let _ = write!(
        html,
        "<span class=\"ours w {}\"><a href=\"#{}\" title=\"{}\"><b class=\"mark\">{}</b> {}</a>",
        ours.world.name(),
        slug(&ours.source),
        escape(&title),
        letter(ours.world),
        ours.text()
    );
    if let Some(spread) = ours.spread_text() {
        let _ = write!(html, " <small>{spread}</small>");
    }
    html.push_str("</span>");
}

fn assumed(html: &mut String, study: &Study) {
    let all = assumptions(study);
    if all.is_empty() {
        return;
    }
    let _ = write!(
        html,
        "<details><summary>Assumptions of the simulations</summary><p class=\"small\">{}</p><div class=\"wide\"><table><tbody>",
        escape(BASES)
    );
    for row in all {
        let cells: Vec<String> = row
            .iter()
            .map(|cell| format!("<td class=\"l\">{}", escape(cell)))
            .collect();
        let _ = writeln!(html, "<tr>{}</tr>", cells.concat());
    }
    html.push_str("</tbody></table></div></details>\n");
}

fn runs(html: &mut String, study: &Study, raw: Raw) {
    let _ = writeln!(
        html,
        "<details class=\"runs\"><summary>{} runs, each with its command and raw result</summary><div class=\"wide\"><table><thead><tr>\
         <th class=\"l\">Run<th>Repetition<th class=\"l\">Ended<th>Excluded<th>Seconds<th>Steal %<th>Others %\
         <th class=\"l\">Commands</tr></thead><tbody>",
        study.records.len()
    );
    for (file, record) in &study.records {
        let head = &record.head;
        let commands: Vec<String> = head
            .commands
            .iter()
            .map(|words| format!("<code>{}</code>", escape(&words.join(" "))))
            .collect();
        let why = if head.reason.is_empty() {
            String::new()
        } else {
            format!(": {}", escape(&head.reason))
        };
        let _ = writeln!(
            html,
            "<tr id=\"{}\"><td class=\"l\"><a href=\"{}\">{}</a><td class=\"n\">{}<td class=\"l\">{}{why}<td class=\"n\">{}\
             <td class=\"n\">{:.1}<td class=\"n\">{:.1}<td class=\"n\">{}<td class=\"l\">{}</tr>",
            slug(file),
            escape(&raw.place(&study.name, file)),
            escape(&head.run),
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
            escape(&runs.join(", ")),
            escape(&settings)
        );
    }
    html.push_str("</ul></details>\n");
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Escaped text; words between backticks become code.
fn prose(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escape).collect();
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
