//! The report as Markdown: the ledger and every table, for those who read text.

use super::table::layout;
use super::{BASES, Material, assumptions, machine, tally};
use crate::ledger::counts;
use crate::observation::World;
use crate::rule::short;
use std::fmt::Write;

/// The report.
pub fn text(material: &Material<'_>) -> String {
    // Writing to a String cannot fail, here and below.
    let mut text = format!(
        "# Five documents, 41 claims\n\n{}, {}{}\n\n",
        material.program,
        material.date,
        machine(material)
            .map(|machine| format!(", {machine}"))
            .unwrap_or_default()
    );
    for (verdict, count) in counts(material.ledger) {
        let _ = writeln!(text, "- {}: {count}", verdict.name());
    }
    text.push_str(
        "\n| claim | says | published | simulated | measured | model | verdict | why |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for entry in material.ledger {
        let value = |world: World| {
            entry
                .views
                .get(&world)
                .map_or(String::new(), |view| view.value.clone())
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            entry.id,
            plain(&entry.claim),
            value(World::Published),
            value(World::Simulated),
            value(World::Measured),
            value(World::Model),
            entry.verdict.name(),
            plain(&entry.reason)
        );
    }
    for study in material.studies {
        let plan = &study.plan;
        let _ = writeln!(
            text,
            "\n## {}\n\n{}\n\nPrediction: {}\n\n{}\n",
            plan.title,
            plan.question,
            plan.prediction,
            tally(study)
        );
        for gap in &plan.gaps {
            let _ = writeln!(text, "- Not shown: {gap}");
        }
        for setup in &plan.setups {
            let _ = writeln!(
                text,
                "\n### Table {}: {}\n\n| what | in the document | here |\n|---|---|---|",
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
                            let _ = write!(cell, "<br>{} {}", ours.world.name(), short(ours.value));
                        }
                        cell
                    }
                }));
                let _ = writeln!(text, "| {} |", parts.join(" | "));
            }
            text.push('\n');
            for note in &laid.notes {
                let _ = writeln!(text, "- {note}");
            }
        }
        let assumed = assumptions(study);
        if !assumed.is_empty() {
            let _ = writeln!(text, "\n### What the simulations take for granted\n\n{BASES}\n");
            for [what, value, basis] in assumed {
                let _ = writeln!(text, "- {what}: {value} ({basis})");
            }
        }
        text.push_str("\n| run | repetition | ended | seconds | why | result |\n|---|---|---|---|---|---|\n");
        for (file, record) in &study.records {
            let head = &record.head;
            let place = material.raw.place(&study.name, file);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.1} | {} | [{place}]({place}) |",
                head.run,
                head.repetition,
                head.status.name(),
                head.seconds,
                plain(&head.reason)
            );
        }
    }
    text
}

fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
