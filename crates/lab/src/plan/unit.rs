//! The unit of a claim's number, and its rounding for readers. Verdicts never use rounded numbers.

use serde::{Deserialize, Serialize};

/// The unit of the left side of a claim's first rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A plain number.
    #[default]
    Number,
    /// A ratio: `2.8 ×`.
    Ratio,
    /// A share of one, shown in percent.
    Share,
    /// Percent.
    Percent,
    /// Percentage points.
    Points,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
    /// Megabits a second.
    Mbit,
}

impl Unit {
    /// A value, or the least and largest of several, in few digits and with the unit.
    pub fn text(self, (low, high): (f64, f64)) -> String {
        let is_giga = self == Unit::Mbit && high.abs() >= 1000.0;
        let factor = match self {
            Unit::Share => 100.0,
            _ if is_giga => 1e-3,
            _ => 1.0,
        };
        let sign = match self {
            Unit::Number => "",
            Unit::Ratio => "\u{a0}×",
            Unit::Share | Unit::Percent => "\u{a0}%",
            Unit::Points => "\u{a0}points",
            Unit::Ms => "\u{a0}ms",
            Unit::S => "\u{a0}s",
            Unit::Mbit if is_giga => "\u{a0}Gbit/s",
            Unit::Mbit => "\u{a0}Mbit/s",
        };
        match (rounded(low * factor), rounded(high * factor)) {
            (low, high) if low == high => format!("{low}{sign}"),
            (low, high) => format!("{low} to {high}{sign}"),
        }
    }
}

/// Three significant digits at most, and none below a ten-thousandth.
fn rounded(value: f64) -> String {
    let digits = match value.abs() {
        m if m >= 100.0 || (m == m.trunc() && m >= 1.0) => 0,
        m if m >= 10.0 => 1,
        m if m >= 0.095 => 2,
        m if m >= 0.00095 => 3,
        m if m >= 0.0001 => 4,
        _ => return "0".to_owned(),
    };
    let text = format!("{value:.digits$}");
    if digits > 0 {
        return text;
    }
    let (minus, whole) = text
        .strip_prefix('-')
        .map_or(("", text.as_str()), |rest| ("-", rest));
    let mut grouped = String::from(minus);
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::Unit;

    #[test]
    fn numbers_have_few_digits_and_a_unit() {
        for (unit, range, wanted) in [
            (Unit::Ratio, (0.328, 0.3831), "0.33 to 0.38\u{a0}×"),
            (Unit::Ratio, (432.9, 760.7), "433 to 761\u{a0}×"),
            (Unit::Share, (1.26e-4, 0.0182), "0.013 to 1.82\u{a0}%"),
            (Unit::Share, (2.0e-7, 2.0e-7), "0\u{a0}%"),
            (Unit::Ms, (1234.5, 1234.5), "1,234\u{a0}ms"),
            (Unit::Number, (-12345.0, -12345.0), "-12,345"),
            (Unit::Number, (2.22e-15, 0.0), "0"),
            (Unit::Mbit, (45.02, 45.02), "45.0\u{a0}Mbit/s"),
            (Unit::Mbit, (14_767.0, 15_392.0), "14.8 to 15.4\u{a0}Gbit/s"),
        ] {
            assert_eq!(unit.text(range), wanted, "{unit:?} {range:?}");
        }
    }
}
