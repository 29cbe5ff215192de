//! How a number is printed for people: by its leading digits, not by its decimals.

/// Four significant digits without an exponent; whole numbers in full.
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let magnitude = value.abs().log10().floor() as i32;
    if value.fract() == 0.0 && magnitude < 15 {
        return format!("{value:.0}");
    }
    if !(-6..15).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = (3 - magnitude).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_significant_digits() {
        for (value, shown) in [
            (0.0, "0"),
            (1.0, "1"),
            (37.695_312_5, "37.7"),
            (3784.179, "3784"),
            (1_234_567.8, "1234568"),
            (0.001_234_56, "0.001235"),
            (-2.5, "-2.5"),
            (1e-9, "1.000e-9"),
        ] {
            assert_eq!(significant(value), shown);
        }
    }
}
