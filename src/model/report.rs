//! An answer in the requested form: table, JSON, CSV or SVG. Decides the form, never a number.

use super::grid::Grid;
use crate::cli::model::Format;
use crate::failure::Failure;
use ::model::explain::{Bound, Region, Step};
use ::model::{Explained, Quantity};
use chart::{Chart, document};
use serde::Serialize;
use serde_json::{Value, json};

/// Version of the JSON form (`schemas/model.schema.json`); changes when a field changes its meaning or disappears.
const VERSION: u32 = 1;

/// The JSON of a question without an answer: all fields are empty except the reason.
pub(super) fn refusal(command: &str, why: &Failure) -> String {
    let report = Report {
        failed: Some(why.to_string()),
        ..Report::default()
    };
    report.json(command)
}

/// One explained answer to any question.
#[derive(Debug)]
pub(super) struct Answer {
    line: String,
    steps: Vec<Step>,
    bounds: Vec<Bound>,
    assumptions: Vec<&'static str>,
    region: Vec<Region>,
    warnings: Vec<String>,
    json: Value,
}

/// Published numbers in a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Published {
    /// Where the answer shows them: columns or parameters.
    pub(super) shown: &'static str,
    /// Document, and place in it.
    pub(super) source: String,
    /// Provenance: whether the document was read or the numbers were recalled.
    pub(super) provenance: String,
}

impl core::fmt::Display for Published {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {} ({})", self.shown, self.source, self.provenance)
    }
}

/// The whole output of a question.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Answers with their derivations.
    pub(super) answers: Vec<Answer>,
    /// Tables; `--format csv` prints the first.
    pub(super) grids: Vec<Grid>,
    pub(super) charts: Vec<Chart>,
    /// Sources of published numbers.
    pub(super) published: Vec<Published>,
    /// Remarks for the reader.
    pub(super) notes: Vec<String>,
    /// The tables contain the results of the steps, so only the answers' lines are printed.
    pub(super) brief: bool,
    /// The reason if compared values disagree: the report is printed and the command fails.
    pub(super) failed: Option<String>,
}

impl Report {
    /// Adds an answer, compared with the measured values.
    pub(super) fn answer<T: Serialize>(&mut self, explained: Explained<T>, measured: &[(Quantity, f64)]) {
        let explained = explained.against(measured);
        let json = json!(explained);
        self.answers.push(Answer {
            line: explained.line,
            steps: explained.steps,
            bounds: explained.bounds,
            assumptions: explained.assumptions,
            region: explained.region,
            warnings: explained.warnings,
            json,
        });
    }

    /// The report as text with a final newline.
    pub(super) fn render(&self, format: Format, explain: bool, command: &str) -> Result<String, Failure> {
        match format {
            Format::Table => Ok(self.text(explain)),
            Format::Json => Ok(self.json(command)),
            Format::Csv => Ok(self.primary().csv()),
            Format::Markdown => Ok(self.primary().markdown()),
            Format::Svg if self.charts.is_empty() => Err(Failure::Usage(format!(
                "`weir model {command}` has no picture; its forms are table, json, csv and markdown"
            ))),
            Format::Svg => Ok(document(&self.charts)),
        }
    }

    fn text(&self, explain: bool) -> String {
        let mut text = String::new();
        for answer in &self.answers {
            answer.text(&mut text, explain, self.brief);
        }
        for grid in &self.grids {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&grid.text());
        }
        section(&mut text, "published", &self.published);
        section(&mut text, "notes", &self.notes);
        text
    }

    fn json(&self, command: &str) -> String {
        let value = json!({
            "format": "weir-model",
            "version": VERSION,
            "program": concat!("weir ", env!("CARGO_PKG_VERSION")),
            "command": command,
            "answers": self.answers.iter().map(|answer| &answer.json).collect::<Vec<_>>(),
            "tables": self.grids.iter().map(Grid::json).collect::<Vec<_>>(),
            "published": self.published,
            "notes": self.notes,
            "failed": self.failed,
        });
        format!("{value}\n")
    }

    /// The first table; without tables, the steps of all answers.
    fn primary(&self) -> Grid {
        if let Some(grid) = self.grids.first() {
            return grid.clone();
        }
        let columns = [
            ("answer", ""),
            ("symbol", ""),
            ("value", ""),
            ("unit", ""),
            ("means", ""),
            ("source", ""),
        ];
        let mut grid = Grid::new("steps", &columns);
        for (number, answer) in self.answers.iter().enumerate() {
            for step in &answer.steps {
                grid.row([
                    (number as u64 + 1).into(),
                    step.symbol.as_str().into(),
                    step.value.into(),
                    step.unit.into(),
                    step.means.as_str().into(),
                    step.source.into(),
                ]);
            }
        }
        grid
    }
}

impl Answer {
    /// The answer's line; the formulas with numbers, or only their results; bounds, region and warnings always.
    fn text(&self, text: &mut String, explain: bool, brief: bool) {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&self.line);
        text.push('\n');
        if explain {
            self.steps
                .iter()
                .for_each(|step| text.push_str(&format!("  {step}\n")));
        } else if !brief && !self.steps.is_empty() {
            text.push_str(&self.results());
        }
        section(text, "bounds", &self.bounds);
        if explain {
            section(text, "assumes", &self.assumptions);
        }
        section(text, "holds for", &self.region);
        section(text, "warnings", &self.warnings);
    }

    fn results(&self) -> String {
        let mut grid = Grid::new("", &[("symbol", ""), ("value", ""), ("unit", ""), ("means", "")]);
        for step in &self.steps {
            grid.row([
                step.symbol.as_str().into(),
                step.value.into(),
                step.unit.into(),
                step.means.as_str().into(),
            ]);
        }
        // Without the name, which is empty, and the header, which adds nothing.
        grid.text()
            .lines()
            .skip(2)
            .map(|line| format!("{line}\n"))
            .collect()
    }
}

fn section<L: core::fmt::Display>(text: &mut String, title: &str, lines: &[L]) {
    if !lines.is_empty() {
        text.push_str(&format!("{title}:\n"));
        lines
            .iter()
            .for_each(|line| text.push_str(&format!("  {line}\n")));
    }
}
