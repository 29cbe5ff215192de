//! An answer with its derivation: every formula with its numbers, the bounds that bracket the answer, the region in
//! which it holds, and warnings about measurements outside that region.
//!
//! Decides how a derivation is shown; computes nothing.

use core::fmt;
use serde::Serialize;
pub use units::significant;

/// One line of a derivation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The symbol computed, as in its source.
    pub symbol: String,
    /// Meaning of the symbol.
    pub means: String,
    /// The right-hand side in symbols.
    pub formula: String,
    /// The right-hand side with the numbers in it.
    pub numbers: String,
    /// The result.
    pub value: f64,
    /// The unit of the result; empty for a pure number.
    pub unit: &'static str,
    /// Equation and paper.
    pub source: &'static str,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.symbol, self.formula)?;
        if !self.numbers.is_empty() {
            write!(f, " = {}", self.numbers)?;
        }
        write!(f, " = {}", significant(self.value))?;
        if !self.unit.is_empty() {
            write!(f, " {}", self.unit)?;
        }
        write!(f, "    {} [{}]", self.means, self.source)
    }
}

/// An interval that must contain the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// The quantity bounded.
    pub quantity: &'static str,
    /// Lower end.
    pub low: f64,
    /// Upper end; absent when nothing bounds it from above.
    pub high: Option<f64>,
    /// Unit of both ends.
    pub unit: &'static str,
    /// Name and source of the bound.
    pub source: &'static str,
}

impl Bound {
    /// Whether `value` lies inside, up to rounding.
    pub fn contains(&self, value: f64) -> bool {
        let slack = 1e-9 * value.abs().max(1e-12);
        value >= self.low - slack && self.high.is_none_or(|high| value <= high + slack)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let low = significant(self.low);
        match self.high {
            Some(high) => write!(
                f,
                "{low} <= {} <= {} {}",
                self.quantity,
                significant(high),
                self.unit
            )?,
            None => write!(f, "{} >= {low} {}", self.quantity, self.unit)?,
        }
        write!(f, "    [{}]", self.source)
    }
}

/// A quantity that a measurement can report and a model assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Quantity {
    /// Squared coefficient of variation of the sizes of transfers (variance over squared mean).
    SizeVariability,
    /// Squared coefficient of variation of service times.
    ServiceVariability,
    /// Squared coefficient of variation of the times between arrivals.
    InterarrivalVariability,
    /// Squared coefficient of variation of think times.
    ThinkVariability,
    /// Squared coefficient of variation of the round-trip time.
    RttVariability,
    /// Fraction of packets lost.
    Loss,
    /// Fraction of time the bottleneck is busy.
    Utilization,
}

impl Quantity {
    /// Name in warnings.
    pub const fn name(self) -> &'static str {
        match self {
            Quantity::SizeVariability => "variability of sizes (scv)",
            Quantity::ServiceVariability => "variability of service times (scv)",
            Quantity::InterarrivalVariability => "variability of interarrival times (scv)",
            Quantity::ThinkVariability => "variability of think times (scv)",
            Quantity::RttVariability => "variability of the round-trip time (scv)",
            Quantity::Loss => "packet loss",
            Quantity::Utilization => "utilization",
        }
    }
}

/// The values of one measured quantity for which a model's answer holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Region {
    /// The measured quantity.
    pub quantity: Quantity,
    /// Smallest value inside.
    pub low: f64,
    /// Largest value inside; infinite if the model has no upper limit.
    #[serde(skip_serializing_if = "is_infinite")]
    pub high: f64,
    /// The effect of values outside.
    pub outside: &'static str,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_infinite(value: &f64) -> bool {
    value.is_infinite()
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.quantity.name();
        if self.high.is_infinite() {
            write!(f, "{name} of any value from {} on", significant(self.low))
        } else {
            write!(
                f,
                "{name} from {} to {}",
                significant(self.low),
                significant(self.high)
            )?;
            write!(f, " (outside: {})", self.outside)
        }
    }
}

/// An answer with its derivation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explained<T> {
    /// The answer itself.
    pub answer: T,
    /// The answer in one line.
    pub line: String,
    /// The steps of the derivation, in order.
    pub steps: Vec<Step>,
    /// Intervals that bracket it.
    pub bounds: Vec<Bound>,
    /// Assumptions of the model.
    pub assumptions: Vec<&'static str>,
    /// Ranges of measured quantities for which the answer holds.
    pub region: Vec<Region>,
    /// Caveats to know before using the answer.
    pub warnings: Vec<String>,
}

impl<T> Explained<T> {
    /// An answer without a derivation yet.
    pub(crate) fn new(answer: T, line: impl Into<String>) -> Explained<T> {
        Explained {
            answer,
            line: line.into(),
            steps: Vec::new(),
            bounds: Vec::new(),
            assumptions: Vec::new(),
            region: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Appends a line of the derivation.
    #[expect(
        clippy::too_many_arguments,
        reason = "one argument per column of the derivation"
    )]
    pub(crate) fn step(
        &mut self,
        symbol: impl Into<String>,
        means: impl Into<String>,
        formula: impl Into<String>,
        numbers: impl Into<String>,
        value: f64,
        unit: &'static str,
        source: &'static str,
    ) {
        self.steps.push(Step {
            symbol: symbol.into(),
            means: means.into(),
            formula: formula.into(),
            numbers: numbers.into(),
            value,
            unit,
            source,
        });
    }

    /// Adds a warning for every measured quantity that lies outside the region of validity.
    #[must_use]
    pub fn against(mut self, measured: &[(Quantity, f64)]) -> Explained<T> {
        for &(quantity, value) in measured {
            for region in self.region.iter().filter(|region| region.quantity == quantity) {
                // Written so that NaN, which lies in no range, warns.
                if !(value >= region.low && value <= region.high) {
                    self.warnings.push(format!(
                        "measured {} is {}; the model holds from {} to {}: {}",
                        quantity.name(),
                        significant(value),
                        significant(region.low),
                        significant(region.high),
                        region.outside
                    ));
                }
            }
        }
        self
    }
}

impl<T> fmt::Display for Explained<T> {
    /// The whole derivation, as `--explain` shows it: answer, formulas, bounds, region, warnings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.line)?;
        for step in &self.steps {
            writeln!(f, "  {step}")?;
        }
        section(f, "bounds", &self.bounds)?;
        section(f, "assumes", &self.assumptions)?;
        section(f, "holds for", &self.region)?;
        section(f, "warnings", &self.warnings)
    }
}

fn section<L: fmt::Display>(f: &mut fmt::Formatter<'_>, title: &str, lines: &[L]) -> fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(f, "{title}:")?;
    lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
}

/// A count with its noun: `1 user`, `2 users`.
pub fn counted(count: u64, one: &str) -> String {
    if count == 1 {
        format!("1 {one}")
    } else {
        format!("{count} {one}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derivation_prints_formula_numbers_and_warnings() {
        let mut answer = Explained::new(6.0, "the product is 6");
        answer.step("c", "product", "a b", "2 x 3", 6.0, "s", "Eq. 1");
        answer.bounds.push(Bound {
            quantity: "c",
            low: 5.0,
            high: Some(7.0),
            unit: "s",
            source: "test",
        });
        answer.region.push(Region {
            quantity: Quantity::SizeVariability,
            low: 0.0,
            high: 0.1,
            outside: "sizes differ",
        });
        let answer = answer.against(&[(Quantity::SizeVariability, 4.0), (Quantity::Loss, 0.5)]);
        let text = answer.to_string();
        assert!(
            text.contains("c = a b = 2 x 3 = 6 s    product [Eq. 1]"),
            "{text}"
        );
        assert!(text.contains("5 <= c <= 7 s    [test]"), "{text}");
        assert!(
            text.contains("measured variability of sizes (scv) is 4"),
            "{text}"
        );
        assert_eq!(answer.warnings.len(), 1);
    }
}
