//! Document 004's tables and its Figure 3, computed from its formulas, beside the printed values.

use super::grid::{Cell, Grid};
use super::report::{Published, Report};
use crate::cli::model::{SavingsFlags, TablesFlags};
use crate::failure::Failure;
use ::model::paper::{GROUPS, Table, Verdict, figure_three};
use ::model::waiting::InnerSum;
use chart::{Axis, Chart, Series, Stroke};

/// The document's tables; the third in both readings of its equations.
const TABLES: [(u8, &str, Table); 6] = [
    (1, "Table 1", Table::One),
    (2, "Table 2", Table::Two),
    (
        3,
        "Table 3, Eqs. 5 and 6 as printed",
        Table::Three(InnerSum::Printed),
    ),
    (
        3,
        "Table 3, inner sum over the group index",
        Table::Three(InnerSum::TableThree),
    ),
    (4, "Table 4", Table::Four),
    (5, "Table 5", Table::Five),
];

fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Measured => "measured",
        Verdict::Match => "match",
        Verdict::LastDigit => "last digit",
        Verdict::Erratum => "erratum",
    }
}

/// Source of a table's printed numbers.
pub(super) fn published(shown: &'static str, table: Table) -> Published {
    Published {
        shown,
        source: table.source().to_owned(),
        provenance: table.provenance().to_owned(),
    }
}

/// Every entry with its verdict, and their counts.
pub(super) fn tables(flags: &TablesFlags) -> Result<Report, Failure> {
    let columns = [
        ("table", ""),
        ("entry", ""),
        ("printed", ""),
        ("computed", ""),
        ("unit", ""),
        ("verdict", ""),
    ];
    let mut entries = Grid::new(
        if flags.errata {
            "entries that differ"
        } else {
            "entries"
        },
        &columns,
    );
    let columns = [
        ("table", ""),
        ("entries", ""),
        ("match", ""),
        ("last digit", ""),
        ("errata", ""),
        ("measured", ""),
    ];
    let mut sums = Grid::new("sums", &columns);
    let mut origins = Vec::new();
    for (number, name, table) in TABLES {
        if !flags.tables.is_empty() && !flags.tables.contains(&number) {
            continue;
        }
        let all = table.entries()?;
        let origin = published("printed", table);
        if !origins.contains(&origin) {
            origins.push(origin);
        }
        for entry in &all {
            let verdict = entry.verdict();
            if flags.errata && matches!(verdict, Verdict::Match | Verdict::Measured) {
                continue;
            }
            let decimals = entry.decimals as usize;
            entries.row([
                name.into(),
                entry.key.as_str().into(),
                Cell::Decimals(entry.printed, decimals),
                // One digit more than printed shows why a last digit differs.
                entry
                    .computed
                    .map_or(Cell::Missing, |value| Cell::Decimals(value, decimals + 1)),
                entry.unit.as_str().into(),
                words(verdict).into(),
            ]);
        }
        let count = |wanted| all.iter().filter(|entry| entry.verdict() == wanted).count() as u64;
        sums.row([
            name.into(),
            (all.len() as u64).into(),
            count(Verdict::Match).into(),
            count(Verdict::LastDigit).into(),
            count(Verdict::Erratum).into(),
            count(Verdict::Measured).into(),
        ]);
    }
    Ok(Report {
        grids: vec![entries, sums],
        published: origins,
        notes: [
            "computed as the document did: Tf counts 1,000 B as 1,024 B, K is not rounded up, the wide-area RTT is \
             0.1 s (printed 0.1 ms), Table 5 rounds t to 1 ms",
            "last digit: truncated, or rounded the other way; erratum: the document's own formula gives another number",
        ]
        .map(str::to_owned)
        .into(),
        ..Report::default()
    })
}

/// Figure 3.
pub(super) fn savings(flags: &SavingsFlags) -> Result<Report, Failure> {
    let points = figure_three(flags.page)?;
    let columns = [
        ("lines", ""),
        ("users", ""),
        ("waiting saved", "%"),
        ("turnaround saved", "%"),
    ];
    let mut grid = Grid::new("savings by Eq. 9", &columns);
    for point in &points {
        grid.row([
            point.group.as_str().into(),
            point.users.into(),
            point.waiting_percent.into(),
            point.turnaround_percent.into(),
        ]);
    }
    let chart = |what: &str, percent: fn(&::model::paper::Saving) -> f64| Chart {
        title: format!(
            "{what} saved by distributing users over lines, files of {} B",
            flags.page.0
        ),
        x: Axis::linear("users"),
        y: Axis::linear("percent"),
        series: GROUPS
            .iter()
            .map(|group| {
                let name = group.join("+");
                let own = points.iter().filter(|point| point.group == name);
                Series {
                    stroke: Stroke::Solid,
                    points: own.map(|point| (point.users as f64, percent(point))).collect(),
                    name,
                }
            })
            .collect(),
    };
    Ok(Report {
        grids: vec![grid],
        charts: vec![
            chart("Waiting", |point| point.waiting_percent),
            chart("Turnaround", |point| point.turnaround_percent),
        ],
        notes: vec![
            "before: the mean over the group's lines of the time if all users shared that line; the document \
             does not say which single line it compares with"
                .to_owned(),
        ],
        ..Report::default()
    })
}
