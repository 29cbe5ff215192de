//! The policies of the reverse proxy in simulated cases: the tables of the experiment, and what they say of the default.

use super::grid::{Cell, Grid};
use super::replayed;
use super::report::Report;
use crate::cli::model::BalanceFlags;
use crate::failure::Failure;
use ::balance::Policy;
use ::balance::simulate::{Contender, Row, cases, compare, verdict};
use ::model::DomainError;

/// Longest time in which requests come, in seconds.
const DURATION_MAX: f64 = 600.0;

/// Runs all policies.
pub(super) fn balance(flags: &BalanceFlags) -> Result<Report, Failure> {
    if let Some(record) = &flags.record {
        return replayed::balance(record, flags.runs, flags.seed);
    }
    let seconds = flags.duration.0;
    if !(1.0..=DURATION_MAX).contains(&seconds) {
        return Err(DomainError::Outside {
            parameter: "duration",
            value: seconds,
            allowed: "1 s to 600 s",
        }
        .into());
    }
    let upstreams: Vec<usize> = flags.upstreams.iter().map(|&count| usize::from(count)).collect();
    let rows = compare(&cases(&upstreams, seconds), flags.seed, flags.runs);
    let mut report = Report::default();
    let ratio = |index: usize| {
        move |row: &Row, contender| {
            row.ratios(contender)
                .map(|ratios| Cell::Decimals(ratios[index], 3))
        }
    };
    let least = |row: &Row, value: fn(&::balance::simulate::Cell) -> f64| {
        row.cells.iter().map(value).fold(f64::INFINITY, f64::min) * 1e3
    };
    report.grids = vec![
        grid(
            "mean response, as a multiple of the least",
            "least, ms",
            &rows,
            ratio(0),
            |row| Cell::Decimals(least(row, |cell| cell.mean), 1),
        ),
        grid(
            "99th percentile, as a multiple of the least",
            "least, ms",
            &rows,
            ratio(1),
            |row| Cell::Decimals(least(row, |cell| cell.p99), 0),
        ),
        grid(
            "failed requests in percent",
            "load",
            &rows,
            |row, contender| {
                let cell = row.cells.iter().find(|cell| cell.contender == contender)?;
                Some(Cell::Decimals(100.0 * cell.errors, 3))
            },
            |row| Cell::Decimals(row.case.load, 1),
        ),
    ];
    report.notes = notes(&rows, flags);
    Ok(report)
}

/// A table with a row for each case and a column for each contender.
fn grid(
    name: &str,
    last: &str,
    rows: &[Row],
    value: impl Fn(&Row, Contender) -> Option<Cell>,
    of_row: impl Fn(&Row) -> Cell,
) -> Grid {
    let names = Contender::ALL.map(|contender| contender.to_string());
    let mut columns = vec![("upstreams", ""), ("case", "")];
    columns.extend(names.iter().map(|name| (name.as_str(), "")));
    columns.push((last, ""));
    let mut grid = Grid::new(name, &columns);
    for row in rows {
        let mut cells = vec![Cell::Count(row.case.upstreams as u64), row.case.name.into()];
        let own = Contender::ALL.map(|contender| value(row, contender).unwrap_or(Cell::Missing));
        cells.extend(own);
        cells.push(of_row(row));
        grid.row(cells);
    }
    grid
}

fn notes(rows: &[Row], flags: &BalanceFlags) -> Vec<String> {
    let verdict = verdict(rows);
    let mut notes = vec![format!(
        "{} runs of {} each, seeds {} to {}; mean work 10 ms at an upstream of mean speed",
        flags.runs,
        flags.duration,
        flags.seed.0,
        flags.seed.0.wrapping_add(flags.runs - 1)
    )];
    let own = Policy::Turnaround;
    notes.push(match verdict.is_default {
        true => format!("{own} is never worse than 1.02 of the best, and the best in {} cases", verdict.best),
        false => format!(
            "{own} is worse than 1.02 of the best in {} cases of {}, and has the least mean in {}: it is not the default",
            verdict.worse.len(),
            rows.len(),
            verdict.best
        ),
    });
    for (at, [mean, p99, errors]) in verdict.worse {
        let case = &rows[at].case;
        notes.push(format!(
            "{own} with {} upstreams, {}: mean {mean:.3}, 99th percentile {p99:.3}, requests per response {errors:.4} of the best",
            case.upstreams, case.name
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::model::Seconds;
    use units::Seed;

    #[test]
    fn tables_have_a_row_for_each_case() {
        let flags = |duration| BalanceFlags {
            record: None,
            upstreams: vec![2],
            duration: Seconds(duration),
            runs: 2,
            seed: Seed(1),
        };
        let report = balance(&flags(2.0)).expect("valid flags");
        assert_eq!(report.grids.len(), 3);
        let text = report
            .render(crate::cli::model::Format::Csv, false, "balance")
            .expect("CSV");
        assert_eq!(text.lines().count(), 1 + cases(&[2], 1.0).len(), "{text}");
        assert!(text.contains("one slows down"), "{text}");
        assert!(report.notes[0].contains("seeds 1 to 2"), "{:?}", report.notes);
        assert!(balance(&flags(0.5)).is_err());
    }
}
