//! A table of a document as it was printed, with ours in every cell beside it. Decides what stands in which cell;
//! knows no HTML.

use crate::document::{Cell, cells, table as numbers};
use crate::ledger::Study;
use crate::observation::{Labels, World};
use crate::plan::Table;
use crate::statistics::interval;
use measure::Seed;

/// Ours beside a number of the document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ours {
    pub(super) world: World,
    /// The median.
    pub(super) value: f64,
    /// Its 95 % interval; none with fewer than three repetitions.
    pub(super) interval: Option<(f64, f64)>,
    pub(super) repetitions: usize,
    pub(super) source: String,
}

/// A number of the document and ours.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) printed: String,
    pub(super) is_unverified: bool,
    pub(super) ours: Vec<Ours>,
}

/// A table laid out.
pub(super) struct Layout {
    /// The names of what stands at the left.
    pub(super) heads: Vec<String>,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<(Vec<String>, Vec<Option<Place>>)>,
    /// How the numbers came down to us, and what is to be known of them.
    pub(super) notes: Vec<String>,
}

impl Layout {
    /// Whether anything of ours is in it.
    pub(super) fn has_ours(&self) -> bool {
        self.rows
            .iter()
            .flat_map(|(_, places)| places)
            .flatten()
            .any(|place| !place.ours.is_empty())
    }
}

pub(super) fn layout(study: &Study, table: &Table) -> Layout {
    // A study whose tables cannot be read was refused before.
    let all = cells(table, &study.plan.words).unwrap_or_default();
    let mut layout = Layout {
        heads: table.rows.iter().map(|name| name.replace('_', " ")).collect(),
        columns: Vec::new(),
        rows: Vec::new(),
        notes: Vec::new(),
    };
    for cell in &all {
        if !layout.columns.contains(&cell.column) {
            layout.columns.push(cell.column.clone());
        }
    }
    for cell in &all {
        let Some(column) = layout.columns.iter().position(|name| *name == cell.column) else {
            continue;
        };
        let at = match layout.rows.iter().position(|(row, _)| *row == cell.row) {
            Some(at) => at,
            None => {
                let empty = vec![None; layout.columns.len()];
                layout.rows.push((cell.row.clone(), empty));
                layout.rows.len() - 1
            }
        };
        layout.rows[at].1[column] = Some(place(study, table, cell));
    }
    if let Ok(numbers) = numbers(&table.file) {
        for key in ["source", "units", "provenance", "note", "erratum", "caution"] {
            if let Some(text) = numbers.about.get(key) {
                layout.notes.push(format!("{key}: {text}"));
            }
        }
    }
    if !table.note.is_empty() {
        layout.notes.push(table.note.clone());
    }
    layout
}

fn place(study: &Study, table: &Table, cell: &Cell) -> Place {
    let mut ours = Vec::new();
    for world in [World::Model, World::Simulated, World::Measured] {
        let mut labels: Labels = cell.labels.clone();
        labels.extend(table.beside.get(&world).cloned().unwrap_or_default());
        let groups = study.known.select(world, &cell.measure, &labels);
        // More than one measurement fits: which one stands here would be a matter of taste.
        if let [group] = groups.as_slice() {
            ours.push(Ours {
                world,
                value: group.median(),
                interval: interval(&group.values, Seed(study.plan.seed)),
                repetitions: group.values.len(),
                source: group.sources.first().cloned().unwrap_or_default(),
            });
        }
    }
    Place {
        printed: cell.printed.clone(),
        is_unverified: cell.is_unverified(),
        ours,
    }
}
