//! A table of our own numbers, laid out as those of the documents are. Decides rows, columns and which measurement
//! belongs in a cell; knows no HTML.

use super::picture;
use super::table::{Layout, Ours, Place, spaced};
use crate::ledger::Study;
use crate::observation::{Group, World};
use crate::plan::Grid;
use crate::statistics::spread;
use units::Seed;

/// The table; without rows if there are no numbers.
pub(super) fn layout(study: &Study, grid: &Grid) -> Layout {
    let groups = |measure: &String| study.known.select(World::Measured, measure, &grid.only);
    let has_all = |group: &Group| {
        grid.rows
            .iter()
            .chain([&grid.columns])
            .all(|name| group.labels.contains_key(name))
    };
    let mut all: Vec<(&String, Group)> = Vec::new();
    for measure in &grid.measures {
        all.extend(
            groups(measure)
                .into_iter()
                .filter(has_all)
                .map(|group| (measure, group)),
        );
    }
    let key =
        |group: &Group| -> Vec<String> { grid.rows.iter().map(|name| group.labels[name].clone()).collect() };
    let mut columns: Vec<String> = Vec::new();
    let mut keys: Vec<Vec<String>> = Vec::new();
    for (_, group) in &all {
        if !columns.contains(&group.labels[&grid.columns]) {
            columns.push(group.labels[&grid.columns].clone());
        }
        if !keys.contains(&key(group)) {
            keys.push(key(group));
        }
    }
    let order = picture::order(study, &grid.columns);
    columns.sort_by_cached_key(|column| picture::place(&order, column));
    // By the first label, then by the second, each in the plan's order.
    let ranks: Vec<Vec<String>> = grid.rows.iter().map(|name| picture::order(study, name)).collect();
    keys.sort_by_cached_key(|key| -> Vec<usize> {
        key.iter()
            .zip(&ranks)
            .map(|(word, order)| picture::place(order, word))
            .collect()
    });
    let mut rows = Vec::new();
    for of_row in &keys {
        for measure in &grid.measures {
            let cell = |column: &String| {
                let fits = |(of, group): &&(&String, Group)| {
                    *of == measure && key(group) == *of_row && group.labels[&grid.columns] == *column
                };
                let fitting: Vec<&(&String, Group)> = all.iter().filter(fits).collect();
                // If several measurements fit, none is shown: choosing one would be arbitrary.
                match fitting.as_slice() {
                    [(_, group)] => Some(place(study, group)),
                    _ => None,
                }
            };
            let places: Vec<Option<Place>> = columns.iter().map(cell).collect();
            if places.iter().all(Option::is_none) {
                continue;
            }
            let unit = study.plan.units.get(measure).filter(|unit| *unit != measure);
            let name = spaced(measure);
            let mut head: Vec<String> = of_row
                .iter()
                .map(|word| picture::shown(&study.plan, word))
                .collect();
            head.push(unit.map_or(name.clone(), |unit| format!("{name} [{unit}]")));
            rows.push((head, places));
        }
    }
    let mut heads: Vec<String> = grid.rows.iter().map(|name| spaced(name)).collect();
    heads.push(String::new());
    Layout {
        heads,
        columns: columns
            .iter()
            .map(|word| picture::shown(&study.plan, word))
            .collect(),
        rows,
        notes: Vec::new(),
    }
}

fn place(study: &Study, group: &Group) -> Place {
    Place {
        printed: String::new(),
        is_unverified: false,
        ours: vec![Ours {
            world: World::Measured,
            value: group.median(),
            spread: spread(&group.values, Seed(study.plan.seed)),
            repetitions: group.values.len(),
            source: group.sources.first().cloned().unwrap_or_default(),
            rounding: None,
        }],
    }
}
