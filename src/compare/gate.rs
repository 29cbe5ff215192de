//! A comparison as checks of [`crate::gate`]: valid runs, enough of them, and each deciding measure.

use super::{Comparison, Unit};
use crate::gate::markdown::{escaped, row};
use crate::gate::{Check, Gate, Outcome};
use ::load::compare::Row;

/// The gate of a comparison. `trusting` compares invalid runs too.
pub(super) fn of(comparison: &Comparison, trusting: bool) -> Gate {
    let valid = match comparison.doubts.is_empty() {
        true => Outcome::Passed,
        false if trusting => Outcome::Skipped,
        false => Outcome::Undecided,
    };
    let enough = match (comparison.powerless, comparison.decisive) {
        (_, false) => Outcome::Skipped,
        (true, true) => Outcome::Undecided,
        (false, true) => Outcome::Passed,
    };
    let unit = match comparison.unit {
        Unit::Run => "runs",
        Unit::Piece => "pieces of runs",
    };
    let mut checks = vec![
        Check {
            name: "all runs are valid".to_owned(),
            outcome: valid,
            told: comparison.doubts.join("; "),
        },
        Check {
            name: "enough runs to decide".to_owned(),
            outcome: enough,
            told: match comparison.powerless {
                true => comparison.why_powerless(),
                false => format!("{} and {} {unit}", comparison.batches_a, comparison.batches_b),
            },
        },
    ];
    let deciding = comparison.measures.iter().filter(|row| row.p_worse.is_some());
    checks.extend(deciding.map(|measure| Check {
        name: format!(
            "{} is not worse by more than {:.1} %",
            measure.measure.name(),
            comparison.worse_max * 100.0
        ),
        outcome: match (measure.worse, comparison.decisive) {
            (false, _) => Outcome::Passed,
            (true, true) => Outcome::Failed,
            (true, false) => Outcome::Skipped,
        },
        told: told(measure, comparison.decisive),
    }));
    Gate {
        command: "weir compare",
        subject: format!("{} and {}", comparison.a, comparison.b),
        took_s: 0.0,
        checks,
        details: details(comparison),
    }
}

fn told(measure: &Row, decisive: bool) -> String {
    let mut text = format!("{:.3} to {:.3}", measure.a, measure.b);
    if let Some(change) = measure.change {
        text += &format!(", {:+.1} %", change * 100.0);
    }
    if measure.worse && !decisive {
        text += "; seems worse, but pieces of one run do not decide";
    }
    text
}

/// Every measure with its interval, and the warnings.
fn details(comparison: &Comparison) -> String {
    let interval = format!("{:.0} % interval", comparison.confidence * 100.0);
    let mut text = row(["measure", "A", "B", "change", &interval, "p worse"]);
    text += "| --- | ---: | ---: | ---: | ---: | ---: |\n";
    for measure in &comparison.measures {
        let percent = |share: f64| format!("{:+.1} %", share * 100.0);
        text += &row([
            escaped(measure.measure.name()),
            format!("{:.3}", measure.a),
            format!("{:.3}", measure.b),
            measure.change.map_or_else(|| "new".to_owned(), percent),
            measure.interval.map_or_else(
                || "unknown".to_owned(),
                |(low, high)| format!("{} to {}", percent(low), percent(high)),
            ),
            measure
                .p_worse
                .map_or_else(|| "-".to_owned(), |p| format!("{p:.4}")),
        ]);
    }
    if !comparison.same_plan {
        text += "\n> The plans differ: a difference may come from the load and not from the server.\n";
    }
    for warning in &comparison.warnings {
        text += &format!("\n> {}\n", escaped(warning));
    }
    text
}
