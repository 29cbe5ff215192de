//! A table of a document as printed, with our results in its cells. Decides which result belongs in which cell; knows
//! no HTML.

use crate::document::{Cell, cells, table as numbers};
use crate::ledger::Study;
use crate::observation::{Labels, World};
use crate::plan::Table;
use crate::rule::short;
use crate::statistics::{Spread, spread};
use units::Seed;

/// Our result beside a number of the document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ours {
    pub(super) world: World,
    /// Median of the runs.
    pub(super) value: f64,
    /// Spread of the repetitions; `None` for a single run.
    pub(super) spread: Option<Spread>,
    pub(super) repetitions: usize,
    pub(super) source: String,
    /// Half a unit of the last digit that the document printed; `None` if it printed no number.
    pub(super) rounding: Option<f64>,
}

impl Ours {
    /// The number in few digits. Rounding noise of floating point, beside a coarser printed number, is shown as 0.
    pub(super) fn text(&self) -> String {
        self.rounded(self.value)
    }

    /// The spread in the words that the legend explains: `60 to 65 of 3`, `single run`. `None` if the number cannot
    /// vary between repetitions.
    pub(super) fn spread_text(&self) -> Option<String> {
        if self.world.is_live() && self.repetitions == 1 {
            return Some("single run".to_owned());
        }
        let (low, high, of) = match self.spread? {
            Spread::Range(low, high) => (low, high, ""),
            Spread::Interval(low, high) => (low, high, "95 %: "),
        };
        let (low, high, runs) = (self.rounded(low), self.rounded(high), self.repetitions);
        Some(if low == high {
            format!("{runs} alike")
        } else {
            format!("{of}{low} to {high} of {runs}")
        })
    }

    fn rounded(&self, value: f64) -> String {
        // Below this value, `short` writes powers of ten.
        let is_noise = value.abs() < self.rounding.unwrap_or(0.0).min(0.001);
        if is_noise { "0".to_owned() } else { short(value) }
    }
}

/// Half a unit of the last digit of a printed number.
fn rounding(printed: &str) -> Option<f64> {
    printed.parse::<f64>().ok()?;
    let decimals = printed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    Some(0.5 * 10f64.powi(-i32::try_from(decimals).ok()?))
}

/// A number of the document and our results.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) printed: String,
    pub(super) is_unverified: bool,
    pub(super) ours: Vec<Ours>,
}

/// The layout of a table.
pub(super) struct Layout {
    /// Headings of the leading columns.
    pub(super) heads: Vec<String>,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<(Vec<String>, Vec<Option<Place>>)>,
    /// Provenance of the document's numbers, and notes on them.
    pub(super) notes: Vec<String>,
}

impl Layout {
    /// Whether any cell has results of ours.
    pub(super) fn has_ours(&self) -> bool {
        self.rows
            .iter()
            .flat_map(|(_, places)| places)
            .flatten()
            .any(|place| !place.ours.is_empty())
    }
}

pub(super) fn layout(study: &Study, table: &Table) -> Layout {
    // `Study::new` has already refused tables that cannot be read.
    let all = cells(table, &study.plan.words).unwrap_or_default();
    let mut layout = Layout {
        heads: table.rows.iter().map(|name| spaced(name)).collect(),
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
    for column in &mut layout.columns {
        *column = spaced(column);
    }
    for word in layout.rows.iter_mut().flat_map(|(row, _)| row) {
        *word = spaced(word);
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

/// The name of a file or of a plan's key with spaces.
pub(super) fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

fn place(study: &Study, table: &Table, cell: &Cell) -> Place {
    let mut ours = Vec::new();
    for world in [World::Model, World::Simulated, World::Aged, World::Measured] {
        let mut labels: Labels = cell.labels.clone();
        labels.extend(table.beside.get(&world).cloned().unwrap_or_default());
        let groups = study.known.select(world, &cell.measure, &labels);
        // If several measurements fit, none is shown: choosing one would be arbitrary.
        if let [group] = groups.as_slice() {
            ours.push(Ours {
                world,
                value: group.median(),
                spread: spread(&group.values, Seed(study.plan.seed)),
                repetitions: group.values.len(),
                source: group.sources.first().cloned().unwrap_or_default(),
                rounding: rounding(&cell.printed),
            });
        }
    }
    Place {
        printed: cell.printed.clone(),
        is_unverified: cell.is_unverified(),
        ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(value: f64, printed: &str, spread: Option<Spread>) -> Ours {
        Ours {
            world: World::Measured,
            value,
            spread,
            repetitions: 3,
            source: String::new(),
            rounding: rounding(printed),
        }
    }

    #[test]
    fn what_is_only_rounding_is_nothing_beside_a_rounded_number() {
        for (value, printed, wanted) in [
            (6.07e-14, "0.0", "0"),
            (6.07e-14, "12", "0"),
            (6.07e-14, "fast", "6.07e-14"),
            (0.0004, "0.000", "0"),
            (0.0004, "0.0001", "4.00e-4"),
            (0.2, "3", "0.2"),
        ] {
            assert_eq!(ours(value, printed, None).text(), wanted, "{value} {printed}");
        }
    }

    #[test]
    fn a_range_is_not_called_an_interval() {
        let text = |spread| ours(2.0, "2", Some(spread)).spread_text().expect("repetitions");
        assert_eq!(text(Spread::Range(1.0, 3.0)), "1 to 3 of 3");
        assert_eq!(text(Spread::Interval(1.0, 3.0)), "95 %: 1 to 3 of 3");
        assert_eq!(text(Spread::Range(2.0, 2.0)), "3 alike");
    }

    #[test]
    fn one_measured_run_is_marked_and_one_simulated_run_is_not() {
        let mut one = Ours {
            repetitions: 1,
            ..ours(2.0, "2", None)
        };
        assert_eq!(one.spread_text().as_deref(), Some("single run"));
        one.world = World::Simulated;
        assert_eq!(one.spread_text(), None);
    }
}
