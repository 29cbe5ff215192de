//! The report as Markdown, as GitHub shows it: the ledger with its rules, every picture and every table. Runs are
//! counted here; the files beside the report list each of them.

use super::table::{Layout, layout};
use super::{
    BASES, COUNTERFACTUALS, FURTHER_MEANS, Material, RECALLED_MEANS, Raw, SINCE_MEANS, SPREADS, assumptions,
    cells, conclusion, environments, further, grid, machine, named_pictures, others, picture, tally, title,
};
use crate::ledger::{Entry, Sets, Study, apart, counts};
use crate::observation::World;
use crate::record::{Record, Status};
use std::fmt::Write;

/// The whole report.
pub fn text(material: &Material<'_>) -> String {
    // Writing to a String cannot fail, here and below.
    let mut text = format!(
        "# {}\n\n{}, {}{}\n\n",
        title(material),
        material.program,
        material.date,
        machine(material)
            .map(|machine| format!(", {machine}"))
            .unwrap_or_default()
    );
    if let Some(sentence) = others(material) {
        let _ = writeln!(text, "{sentence}\n");
    }
    let Sets {
        documents,
        further: added,
        since,
    } = apart(material.ledger);
    if !documents.is_empty() {
        tallied(&mut text, &documents);
    }
    if let Some(sentence) = further(&added) {
        let _ = writeln!(text, "\n{sentence}.");
    }
    if !since.is_empty() {
        let _ = writeln!(text, "\nThe protocols since:\n");
        tallied(&mut text, &since);
    }
    if let Some(folder) = material.since_folder {
        let _ = writeln!(
            text,
            "\nThe claims on the protocols since have a [report of their own]({folder}/report.md)."
        );
    }
    text.push_str("\n![Verdicts by document](pictures/ledger.svg)\n");
    if !documents.is_empty() {
        ledger(&mut text, &documents);
    }
    if !added.is_empty() {
        let _ = writeln!(
            text,
            "\n## Further claims of the documents: {}\n\n{FURTHER_MEANS}",
            added.len()
        );
        ledger(&mut text, &added);
    }
    if !since.is_empty() {
        let _ = writeln!(
            text,
            "\n## The protocols since: {} claims\n\n{SINCE_MEANS}",
            since.len()
        );
        ledger(&mut text, &since);
    }
    rules(&mut text, material);
    for study in material.studies {
        let plan = &study.plan;
        let of_study = |entry: &&Entry| entry.study.as_ref() == Some(&study.name);
        let entries: Vec<&Entry> = material.ledger.iter().filter(of_study).collect();
        let _ = writeln!(
            text,
            "\n## {}\n\n{}\n\nQuestion: {}\n\nPrediction: {}\n\n{}\n",
            plan.title,
            conclusion::sentences(study, &entries).join(" "),
            plan.question,
            plan.prediction,
            tally(study)
        );
        if !plan.gaps.is_empty() {
            text.push_str("Known gaps:\n\n");
        }
        for gap in &plan.gaps {
            let _ = writeln!(text, "- {gap}");
        }
        pictures(&mut text, study);
        for setup in &plan.setups {
            let _ = writeln!(
                text,
                "\n### Table {}: {}\n\n| item | in the document | here |\n|---|---|---|",
                setup.number, setup.title
            );
            for row in &setup.rows {
                let cells: Vec<String> = row.iter().map(|cell| plain(cell)).collect();
                let _ = writeln!(text, "| {} |", cells.join(" | "));
            }
            let _ = writeln!(text, "\n- provenance: {}", setup.provenance);
        }
        for table in &plan.tables {
            let laid = layout(study, table);
            let _ = writeln!(text, "\n### {}: {}\n", table.name(), table.title);
            rows(&mut text, &laid);
            text.push('\n');
            for note in &laid.notes {
                let _ = writeln!(text, "- {note}");
            }
        }
        for one in &plan.grids {
            let laid = grid::layout(study, one);
            let _ = writeln!(text, "\n### {}\n", one.title);
            rows(&mut text, &laid);
        }
        let assumed = assumptions(study);
        if !assumed.is_empty() {
            let _ = writeln!(text, "\n### Assumptions of the simulations\n\n{BASES}\n");
            for [what, value, basis] in assumed {
                let _ = writeln!(text, "- {what}: {value} ({basis})");
            }
        }
        runs(&mut text, study, material.raw);
    }
    text
}

/// The head and the rows of a table.
fn rows(text: &mut String, laid: &Layout) {
    let heads: Vec<&str> = laid
        .heads
        .iter()
        .chain(&laid.columns)
        .map(String::as_str)
        .collect();
    let _ = writeln!(
        text,
        "| {} |\n|{}",
        plain(&heads.join("\u{1f}")).replace('\u{1f}', " | "),
        "---|".repeat(heads.len())
    );
    for (row, places) in &laid.rows {
        let mut parts: Vec<String> = row.iter().map(|word| plain(word)).collect();
        parts.extend(places.iter().map(|place| match place {
            None => String::new(),
            Some(place) => {
                let mut cell = place.printed.clone();
                if place.is_unverified {
                    cell.push_str(" [recalled]");
                }
                for ours in &place.ours {
                    // Beside no printed number, the world is that of the whole table.
                    let _ = match place.printed.is_empty() {
                        true => write!(cell, "{}", ours.text()),
                        false => write!(cell, "<br>{} {}", ours.world.name(), ours.text()),
                    };
                    if let Some(spread) = ours.spread_text() {
                        let _ = write!(cell, " ({spread})");
                    }
                }
                cell
            }
        }));
        let _ = writeln!(text, "| {} |", parts.join(" | "));
    }
}

fn tallied(text: &mut String, entries: &[&Entry]) {
    for (verdict, count) in counts(entries) {
        let _ = writeln!(text, "- {}: {count} ({})", verdict.name(), verdict.means());
    }
}

fn ledger(text: &mut String, entries: &[&Entry]) {
    text.push_str(
        "\n| claim | says | published | simulated | aged | measured | model | verdict | why |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for entry in entries.iter().filter(|entry| entry.study.is_some()) {
        let value = |world: World| {
            entry
                .views
                .get(&world)
                .map_or(String::new(), |view| view.value.clone())
        };
        let mut shows = if entry.shows.is_empty() {
            String::new()
        } else {
            format!("<br>*numbers: {}*", plain(&entry.shows))
        };
        if entry.is_since() {
            let _ = write!(shows, "<br>*source: {}*", plain(&entry.check));
        }
        let _ = writeln!(
            text,
            "| {} | {}{shows} | {} | {} | {} | {} | {} | {} | {} |",
            entry.id,
            plain(&entry.claim),
            value(World::Published),
            value(World::Simulated),
            value(World::Aged),
            value(World::Measured),
            value(World::Model),
            entry.verdict.name(),
            plain(&entry.reason)
        );
    }
    let others = entries.iter().filter(|entry| entry.study.is_none()).count();
    if others > 0 {
        let _ = writeln!(
            text,
            "\n{others} more claims belong to studies that were not selected."
        );
    }
}

/// The rules and counterfactuals of all claims.
fn rules(text: &mut String, material: &Material<'_>) {
    text.push_str("\n## The rules\n\nA claim holds in a world where all of its rules hold for that world's numbers. A world in which a premise fails \
                   decides nothing.\n\n");
    for entry in material.ledger.iter().filter(|entry| !entry.rules.is_empty()) {
        let rules: Vec<String> = entry.rules.iter().map(|rule| format!("`{rule}`")).collect();
        let _ = writeln!(
            text,
            "- {}: {}{}{}",
            entry.id,
            rules.join(", "),
            each(material, entry),
            premise(entry)
        );
    }
    let tested = || {
        material
            .ledger
            .iter()
            .filter(|entry| !entry.counterfactuals.is_empty())
    };
    if tested().next().is_some() {
        let _ = writeln!(text, "\n## Counterfactuals\n\n{COUNTERFACTUALS}");
    }
    for entry in tested() {
        let rules: Vec<String> = (1..=entry.rules.len())
            .map(|rule| format!("rule {rule}"))
            .collect();
        let _ = writeln!(
            text,
            "\n{}\n\n| switched off | {} |\n|---|{}",
            entry.id,
            rules.join(" | "),
            "---|".repeat(rules.len())
        );
        for one in &entry.counterfactuals {
            let _ = writeln!(
                text,
                "| {} | {} |",
                plain(&one.name()),
                cells(one, rules.len()).join(" | ")
            );
        }
    }
    let _ = writeln!(
        text,
        "\nIn the tables below, our number stands below the document's: the median of the runs, followed by their spread \
         ({SPREADS}). [recalled]: {RECALLED_MEANS}."
    );
}

/// The premises of a claim.
fn premise(entry: &Entry) -> String {
    let premises: Vec<String> = entry.premise.iter().map(|rule| format!("`{rule}`")).collect();
    if premises.is_empty() {
        String::new()
    } else {
        format!("; premise: {}", premises.join(", "))
    }
}

/// The label values for which a claim's rules are repeated.
fn each(material: &Material<'_>, entry: &Entry) -> String {
    let claims = material.studies.iter().flat_map(|study| &study.plan.claims);
    let Some(claim) = claims.into_iter().find(|claim| claim.id == entry.id) else {
        return String::new();
    };
    let each: Vec<String> = claim
        .each
        .iter()
        .map(|(name, values)| match values.as_slice() {
            [all] if all == "*" => format!("every {name}"),
            values => format!("{name} {}", values.join(", ")),
        })
        .collect();
    if each.is_empty() {
        String::new()
    } else {
        format!("; for {}", each.join("; "))
    }
}

/// The pictures beside the report.
fn pictures(text: &mut String, study: &Study) {
    for (name, one) in named_pictures(study) {
        let Some((_, worlds)) = picture::draw(study, &one, "") else {
            continue;
        };
        let worlds: Vec<&str> = worlds.iter().map(|world| world.name()).collect();
        let figure = if one.figure.is_empty() {
            String::new()
        } else {
            format!(", figure {}", one.figure)
        };
        let _ = writeln!(
            text,
            "\n![{}](pictures/{name}.svg)\n\n{} ({}{figure})",
            one.title.replace(['[', ']'], ""),
            one.title,
            worlds.join(", ")
        );
    }
}

/// The runs of each arm by status, and where their results are.
fn runs(text: &mut String, study: &Study, raw: Raw) {
    if study.records.is_empty() {
        return;
    }
    let place = match raw {
        Raw::Files => format!("[one file per run](results/{}/)", study.name),
        Raw::Tables => format!(
            "[one row per run](results/{0}-runs.csv), and their [numbers](results/{0}-values.csv)",
            study.name
        ),
    };
    let _ = writeln!(
        text,
        "\n### Runs\n\nBy arm of the plan; {place}. Invalid or disturbed attempts were excluded and repeated.\n\n\
         | arm | world | runs | done | excluded | not run | failed or invalid |\n|---|---|---|---|---|---|---|"
    );
    for arm in &study.plan.arms {
        let of: Vec<&Record> = study
            .records
            .values()
            .filter(|record| record.head.name == arm.name)
            .collect();
        if of.is_empty() {
            continue;
        }
        let count = |status: Status| of.iter().filter(|record| record.head.status == status).count();
        let excluded: u32 = of.iter().map(|record| record.head.excluded).sum();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {excluded} | {} | {} |",
            arm.name,
            arm.world.name(),
            of.len(),
            count(Status::Done),
            count(Status::NotRun),
            count(Status::Failed) + count(Status::Invalid)
        );
    }
    let environments = environments(study);
    if !environments.is_empty() {
        let _ = writeln!(
            text,
            "\n<details><summary>Kernel, congestion control and TCP settings of each measured run</summary>\n"
        );
        for (settings, runs) in environments {
            let _ = writeln!(text, "- {}: `{}`", runs.join(", "), plain(&settings));
        }
        text.push_str("\n</details>\n");
    }
    // Each reason is listed once, however many runs share it.
    let mut reasons: Vec<String> = Vec::new();
    for record in study
        .records
        .values()
        .filter(|record| !record.head.reason.is_empty())
    {
        let head = &record.head;
        let reason = format!("{}, {}: {}", head.name, head.status.name(), plain(&head.reason));
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    if !reasons.is_empty() {
        let _ = writeln!(text, "\n- {}", reasons.join("\n- "));
    }
}

fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
