//! The list of tables and figures: every entry has a place or a reason, every place exists, and none is forgotten.

use super::{items, of};
use crate::plan::{EMBEDDED, Plan};
use std::path::Path;

#[test]
fn every_table_and_figure_has_a_place_or_a_reason() {
    for (name, text) in EMBEDDED {
        let plan = Plan::parse(name, text).expect("a plan");
        for item in of(&plan.document) {
            let name = format!("{} {}", item.document, item.item);
            assert!(
                !item.place().is_empty(),
                "{name} has neither a place nor a reason"
            );
            for title in &item.pictures {
                assert!(
                    plan.pictures.iter().any(|picture| picture.title == *title),
                    "{name}: no picture is called `{title}`"
                );
            }
            for number in &item.tables {
                let is_table = plan.tables.iter().any(|table| table.number == *number);
                let is_setup = plan.setups.iter().any(|setup| setup.number == *number);
                assert!(is_table || is_setup, "{name}: there is no table {number}");
            }
            if let Some((file, anchor)) = item.elsewhere.split_once('#') {
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
                let text = std::fs::read_to_string(root.join(file)).expect(file);
                let anchors = text
                    .lines()
                    .filter_map(|line| line.strip_prefix("## "))
                    .map(|title| {
                        let kept = title
                            .to_lowercase()
                            .replace(|c: char| !c.is_ascii_alphanumeric() && c != ' ', "");
                        kept.replace(' ', "-")
                    });
                assert!(
                    anchors.into_iter().any(|one| one == anchor),
                    "{name}: {}",
                    item.elsewhere
                );
            }
        }
    }
}

#[test]
fn no_table_or_figure_of_a_document_is_forgotten() {
    for (document, tables, figures) in [
        ("000", 10, 13),
        ("001", 1, 4),
        ("002", 2, 20),
        ("003", 11, 1),
        ("004", 5, 3),
    ] {
        let names: Vec<String> = of(document).into_iter().map(|item| item.item).collect();
        let wanted = (1..=tables)
            .map(|number| format!("Table {number}"))
            .chain((1..=figures).map(|number| format!("Figure {number}")));
        for name in wanted {
            let found = names.iter().filter(|one| **one == name).count();
            assert_eq!(found, 1, "{document} {name}");
        }
    }
    assert!(items().iter().all(|item| !item.about.is_empty()));
}
