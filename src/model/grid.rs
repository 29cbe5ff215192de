//! A table of an answer: columns with units; cells of text, numbers or nothing. Decides alignment for terminals and
//! quoting for programs (RFC 4180); knows no meaning.

use ::model::Seconds;
use ::model::explain::significant;
use serde_json::{Value, json};
use std::fmt::Write;

/// Content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    /// A measured or computed number: four digits for readers, all digits for programs.
    Number(f64),
    /// A number shown with this many decimals, as a document printed it.
    Decimals(f64, usize),
    Count(u64),
    /// Unknown.
    Missing,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

impl From<Seconds> for Cell {
    fn from(span: Seconds) -> Cell {
        Cell::Number(span.0)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Cell {
        Cell::Count(u64::from(count))
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Cell {
        cell.map_or(Cell::Missing, Into::into)
    }
}

impl Cell {
    /// The cell for readers.
    fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(number) => significant(*number),
            // Zero after rounding has no sign.
            Cell::Decimals(number, decimals) => match format!("{number:.decimals$}") {
                text if text.trim_matches(['-', '0', '.']).is_empty() => text.trim_matches('-').to_owned(),
                text => text,
            },
            Cell::Count(count) => count.to_string(),
            Cell::Missing => "-".to_owned(),
        }
    }

    /// The cell for programs; empty if unknown.
    fn exact(&self) -> String {
        match self {
            Cell::Text(text) if text.contains([',', '"', '\n', '\r']) => {
                format!("\"{}\"", text.replace('"', "\"\""))
            }
            Cell::Text(text) => text.clone(),
            Cell::Number(number) | Cell::Decimals(number, _) => number.to_string(),
            Cell::Count(count) => count.to_string(),
            Cell::Missing => String::new(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Number(number) | Cell::Decimals(number, _) => json!(number),
            Cell::Count(count) => json!(count),
            Cell::Missing => Value::Null,
        }
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Grid {
    name: String,
    /// Names with units; text and pure numbers have no unit.
    columns: Vec<(String, &'static str)>,
    rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// An empty table.
    pub(super) fn new(name: impl Into<String>, columns: &[(&str, &'static str)]) -> Grid {
        let columns = columns.iter().map(|&(name, unit)| (name.to_owned(), unit));
        Grid {
            name: name.into(),
            columns: columns.collect(),
            rows: Vec::new(),
        }
    }

    /// Appends a row with one cell per column.
    pub(super) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.name);
        self.rows.push(cells);
    }

    fn heads(&self) -> Vec<String> {
        let head = |(name, unit): &(String, &str)| {
            if unit.is_empty() {
                name.clone()
            } else {
                format!("{name} [{unit}]")
            }
        };
        self.columns.iter().map(head).collect()
    }

    /// Columns of equal width, text left-aligned, numbers right-aligned.
    pub(super) fn text(&self) -> String {
        let heads = self.heads();
        let shown: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::shown).collect())
            .collect();
        let wide = |column: usize| {
            let cells = shown.iter().map(|row| row[column].chars().count());
            cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heads.len()).map(wide).collect();
        let words: Vec<bool> = (0..heads.len())
            .map(|column| self.rows.iter().any(|row| matches!(row[column], Cell::Text(_))))
            .collect();
        let mut text = format!("{}\n", self.name);
        for line in core::iter::once(&heads).chain(&shown) {
            let mut out = String::from(" ");
            for (column, cell) in line.iter().enumerate() {
                let width = widths[column];
                // Writing to a String cannot fail.
                let _ = if words[column] {
                    write!(out, " {cell:<width$} ")
                } else {
                    write!(out, " {cell:>width$} ")
                };
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
        text
    }

    /// A header line with units, then the rows.
    pub(super) fn csv(&self) -> String {
        let heads = self.heads().into_iter().map(|head| Cell::Text(head).exact());
        let mut text = heads.collect::<Vec<_>>().join(",");
        text.push('\n');
        for row in &self.rows {
            text.push_str(&row.iter().map(Cell::exact).collect::<Vec<_>>().join(","));
            text.push('\n');
        }
        text
    }

    /// The table as Markdown.
    pub(super) fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let rule = self.columns.iter().enumerate().map(|(column, _)| {
            let words = self.rows.iter().any(|row| matches!(row[column], Cell::Text(_)));
            (if words { "---" } else { "---:" }).to_owned()
        });
        let mut text = line(self.heads()) + &line(rule.collect());
        for row in &self.rows {
            text.push_str(&line(row.iter().map(Cell::shown).collect()));
        }
        text
    }

    /// Name, columns with units, rows.
    pub(super) fn json(&self) -> Value {
        let column = |(name, unit): &(String, &str)| json!({ "name": name, "unit": unit });
        json!({
            "name": self.name,
            "columns": self.columns.iter().map(column).collect::<Vec<_>>(),
            "rows": self.rows.iter().map(|row| row.iter().map(Cell::json).collect()).collect::<Vec<Value>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Grid {
        let mut grid = Grid::new("lines", &[("line", ""), ("users", ""), ("t_T", "s")]);
        grid.row(["a, \"b\"".into(), 15u64.into(), Cell::Number(10.368)]);
        grid.row(["c".into(), Cell::Missing, Cell::Decimals(2.0, 2)]);
        grid
    }

    #[test]
    fn tables_line_up() {
        let want = "lines\n  line    users  t_T [s]\n  a, \"b\"     15    10.37\n  c           -     2.00\n";
        assert_eq!(example().text(), want);
        assert_eq!(Cell::Decimals(-0.001, 2).shown(), "0.00");
        assert_eq!(Cell::Decimals(-0.01, 2).shown(), "-0.01");
    }

    #[test]
    fn programs_get_every_digit_and_quotes() {
        assert_eq!(
            example().csv(),
            "line,users,t_T [s]\n\"a, \"\"b\"\"\",15,10.368\nc,,2\n"
        );
        assert_eq!(example().json()["rows"][1], json!(["c", null, 2.0]));
    }

    #[test]
    fn documents_get_markdown() {
        let text = example().markdown();
        assert!(
            text.starts_with("| line | users | t_T [s] |\n| --- | ---: | ---: |\n"),
            "{text}"
        );
    }
}
