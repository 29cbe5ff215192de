//! Measurements as a CSV table whose first line names the columns. Validates cells and names the place of faults.

use crate::failure::Failure;

/// Columns with whole numbers.
const WHOLE: [&str; 2] = ["users", "size"];

/// A table of numbers with named columns.
pub(super) struct Rows {
    file: String,
    pub(super) names: Vec<String>,
    /// Line number and cells.
    lines: Vec<(usize, Vec<String>)>,
}

impl Rows {
    pub(super) fn read(text: &str, file: &str) -> Result<Rows, Failure> {
        let cells = |line: &str| line.split(',').map(|cell| cell.trim().to_owned()).collect();
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(number, line)| (number + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(number, line)| (number, cells(line)));
        let Some((_, names)) = lines.next() else {
            return Err(Failure::Usage(format!(
                "`{file}` is empty; its first line must name the columns"
            )));
        };
        Ok(Rows {
            lines: lines.collect(),
            file: file.to_owned(),
            names,
        })
    }

    pub(super) fn has(&self, columns: &[&str]) -> bool {
        columns
            .iter()
            .all(|column| self.names.iter().any(|name| name == column))
    }

    /// One sample per line; errors name file, line and column.
    pub(super) fn each<T>(&self, columns: &[&str], sample: impl Fn(&[f64]) -> T) -> Result<Vec<T>, Failure> {
        let place = |column: &&str| self.names.iter().position(|name| name == column);
        let places: Vec<usize> = columns.iter().filter_map(place).collect();
        let mut samples = Vec::with_capacity(self.lines.len());
        for (number, cells) in &self.lines {
            let mut values = Vec::with_capacity(columns.len());
            for (&place, column) in places.iter().zip(columns) {
                let wrong = |why: String| Failure::Usage(format!("{}:{number}: {why}", self.file));
                let cell = cells
                    .get(place)
                    .ok_or_else(|| wrong(format!("the line has no {column}")))?;
                let value = cell.parse::<f64>().ok().filter(|value| value.is_finite());
                let value = value.ok_or_else(|| wrong(format!("{column}: `{cell}` is not a number")))?;
                // All fitted quantities are positive, and numbers of users are whole.
                if value <= 0.0 {
                    return Err(wrong(format!("{column} is {cell}; allowed: above 0")));
                }
                if WHOLE.contains(column) && value.fract() != 0.0 {
                    return Err(wrong(format!("{column} is {cell}; allowed: a whole number")));
                }
                values.push(value);
            }
            samples.push(sample(&values));
        }
        Ok(samples)
    }
}
