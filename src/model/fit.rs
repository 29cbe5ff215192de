//! From a file of measurements to parameters. Decides which columns mean which measurement; the fit itself
//! is the crate's.

use super::Measured;
use super::grid::Grid;
use super::report::Report;
use crate::cli::Failure;
use crate::cli::model::FitFlags;
use ::model::Seconds;
use ::model::fit::{Estimate, INITIAL_WINDOWS, LoadSample, TransferSample, path, service};
use measure::Bytes;
use std::path::Path;

/// Fits what the columns of the file allow.
pub(super) fn fit(flags: &FitFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let name = flags.file.display().to_string();
    let text = std::fs::read_to_string(&flags.file)
        .map_err(|error| Failure::Usage(format!("cannot read the measurements `{name}`: {error}")))?;
    let rows = Rows::read(&text, &flags.file)?;
    let mut report = Report::default();
    let columns = [
        ("parameter", ""),
        ("estimate", ""),
        ("from", ""),
        ("to", ""),
        ("unit", ""),
    ];
    let mut grid = Grid::new("95 % intervals", &columns);
    let mut row = |name: &str, estimate: Estimate, unit: &str| {
        let Estimate { value, low, high } = estimate;
        grid.row([name.into(), value.into(), low.into(), high.into(), unit.into()]);
    };
    if rows.has(&["users", "throughput", "response"]) {
        let samples = rows.each(&["users", "throughput", "response"], |cells| LoadSample {
            users: cells[0] as u64,
            throughput: cells[1],
            response: Seconds(cells[2]),
        })?;
        let explained = service(&samples)?;
        let found = explained.answer;
        report.answer(explained, measured);
        row("demand", found.demand, "s");
        row("delay", found.delay, "s");
        row("think time", found.think, "s");
        let network = found.network()?;
        for &users in &flags.predict {
            report.answer(network.solve(users)?, measured);
        }
    } else if rows.has(&["size", "latency"]) {
        let samples = rows.each(&["size", "latency"], |cells| TransferSample {
            size: Bytes(cells[0] as u64),
            latency: Seconds(cells[1]),
        })?;
        let explained = path(
            &samples,
            &flags.sender.sender(),
            flags.sender.setup,
            &INITIAL_WINDOWS,
        )?;
        let found = explained.answer;
        report.answer(explained, measured);
        row("round-trip time", found.rtt, "s");
        row("rate", found.rate, "bit/s");
        if !flags.predict.is_empty() {
            return Err(Failure::Usage(
                "--predict needs users, throughput and response; these are transfers, which `weir model transfer` predicts".to_owned(),
            ));
        }
    } else {
        return Err(Failure::Usage(format!(
            "`{name}`: the first line must name the columns users,throughput,response or size,latency; it names {}",
            rows.names.join(", ")
        )));
    }
    report.grids.push(grid);
    Ok(report)
}

/// A table of numbers with named columns.
struct Rows {
    file: String,
    names: Vec<String>,
    /// The line's number and its cells.
    lines: Vec<(usize, Vec<String>)>,
}

impl Rows {
    fn read(text: &str, file: &Path) -> Result<Rows, Failure> {
        let cells = |line: &str| line.split(',').map(|cell| cell.trim().to_owned()).collect();
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(number, line)| (number + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(number, line)| (number, cells(line)));
        let file = file.display().to_string();
        let Some((_, names)) = lines.next() else {
            return Err(Failure::Usage(format!(
                "`{file}` is empty; its first line must name the columns"
            )));
        };
        Ok(Rows {
            lines: lines.collect(),
            file,
            names,
        })
    }

    fn has(&self, columns: &[&str]) -> bool {
        columns
            .iter()
            .all(|column| self.names.iter().any(|name| name == column))
    }

    /// One sample for each line; errors name file, line and column.
    fn each<T>(&self, columns: &[&str], sample: impl Fn(&[f64]) -> T) -> Result<Vec<T>, Failure> {
        let place = |column: &&str| self.names.iter().position(|name| name == column);
        let places: Vec<usize> = columns.iter().filter_map(place).collect();
        let mut samples = Vec::with_capacity(self.lines.len());
        for (number, cells) in &self.lines {
            let mut values = Vec::with_capacity(columns.len());
            for (&place, column) in places.iter().zip(columns) {
                let cell = cells.get(place).map_or("", String::as_str);
                let value = cell.parse::<f64>().ok().filter(|value| value.is_finite());
                values.push(value.ok_or_else(|| {
                    Failure::Usage(format!(
                        "{}:{number}: `{cell}` is no number for {column}",
                        self.file
                    ))
                })?);
            }
            samples.push(sample(&values));
        }
        Ok(samples)
    }
}
