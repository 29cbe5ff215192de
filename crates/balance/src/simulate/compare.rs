//! All contenders in all cases, and the rule that decides the default.

use super::{Case, Contender, run};
use crate::policy::Policy;
use units::Seed;

/// How much worse than the best a default may be.
const WORSE_MAX: f64 = 1.02;

/// A contender in a case: means over the seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Who chose.
    pub contender: Contender,
    /// Mean response time, in seconds.
    pub mean: f64,
    /// 95 % half width of the mean over the seeds, in seconds.
    pub half_width: f64,
    /// 99th percentile, in seconds.
    pub p99: f64,
    /// Part of the requests that failed.
    pub errors: f64,
}

/// A case.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its conditions.
    pub case: Case,
    /// In the order of [`Contender::ALL`].
    pub cells: Vec<Cell>,
}

impl Row {
    /// A contender's mean, 99th percentile and errors as multiples of the least of the row. Errors are parts of requests
    /// that got a response, so that none is no division by zero.
    pub fn ratios(&self, contender: Contender) -> Option<[f64; 3]> {
        let own = self.cells.iter().find(|cell| cell.contender == contender)?;
        let ratio = |value: fn(&Cell) -> f64| {
            let least = self.cells.iter().map(value).fold(f64::INFINITY, f64::min);
            value(own) / least
        };
        Some([
            ratio(|cell| cell.mean),
            ratio(|cell| cell.p99),
            ratio(|cell| 1.0 / (1.0 - cell.errors)),
        ])
    }
}

/// Runs each contender in each case with this many seeds, from `first` on.
pub fn compare(cases: &[Case], first: Seed, seeds: u64) -> Vec<Row> {
    let cell = |case: &Case, contender| {
        let outcomes: Vec<_> = (0..seeds)
            .map(|more| run(case, contender, Seed(first.0.wrapping_add(more))))
            .collect();
        let count = seeds as f64;
        let mean = outcomes.iter().map(|one| one.mean).sum::<f64>() / count;
        let squares: f64 = outcomes
            .iter()
            .map(|one| (one.mean - mean) * (one.mean - mean))
            .sum();
        Cell {
            contender,
            mean,
            half_width: 1.96 * (squares / (count - 1.0).max(1.0) / count).sqrt(),
            p99: outcomes.iter().map(|one| one.p99).sum::<f64>() / count,
            errors: outcomes.iter().map(|one| one.errors).sum::<f64>() / count,
        }
    };
    let row = |case: &Case| Row {
        case: case.clone(),
        cells: Contender::ALL.map(|contender| cell(case, contender)).to_vec(),
    };
    cases.iter().map(row).collect()
}

/// What the rows say of `turnaround` as the default.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whether it is never worse than 1.02 of the best, in mean, 99th percentile and errors, and the best somewhere.
    pub is_default: bool,
    /// Where it is worse: index of the row, and the three ratios.
    pub worse: Vec<(usize, [f64; 3])>,
    /// Number of rows where its mean is the least.
    pub best: usize,
}

/// Decides by the rule.
pub fn verdict(rows: &[Row]) -> Verdict {
    let own = Contender::Ours(Policy::Turnaround);
    let ratios: Vec<(usize, [f64; 3])> = rows
        .iter()
        .enumerate()
        .filter_map(|(at, row)| Some((at, row.ratios(own)?)))
        .collect();
    let best = ratios.iter().filter(|(_, [mean, ..])| *mean <= 1.0).count();
    let is_worse = |(_, ratios): &&(usize, [f64; 3])| ratios.iter().any(|ratio| *ratio > WORSE_MAX);
    let worse: Vec<_> = ratios.iter().filter(is_worse).copied().collect();
    Verdict {
        is_default: worse.is_empty() && best > 0,
        worse,
        best,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::cases;

    #[test]
    fn the_rule_names_each_row_that_is_worse() {
        let case = cases(&[2], 1.0).remove(0);
        let cell = |contender, mean, errors| Cell {
            contender,
            mean,
            half_width: 0.0,
            p99: 1.0,
            errors,
        };
        let (own, other) = (Contender::Ours(Policy::Turnaround), Contender::Prequal);
        let row = |mean, errors| Row {
            case: case.clone(),
            cells: vec![cell(own, mean, errors), cell(other, 1.0, 0.0)],
        };
        assert!(verdict(&[row(1.02, 0.0), row(0.5, 0.01)]).is_default);
        assert!(!verdict(&[row(1.01, 0.0)]).is_default, "better nowhere");
        let got = verdict(&[row(0.5, 0.0), row(1.03, 0.0), row(0.5, 0.1)]);
        let worse: Vec<usize> = got.worse.iter().map(|(at, _)| *at).collect();
        assert_eq!((got.is_default, worse, got.best), (false, vec![1, 2], 2));
    }
}
