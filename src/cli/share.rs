//! Parses fractions written as `0.05` or `5%`. Knows nothing about what the fraction is of.

/// Parses a fraction from 0 to 1 inclusive.
///
/// # Errors
/// A sentence that shows valid forms.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let (number, whole) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a fraction; write one like 0.05 or 5%"))?;
    let share = number / whole;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err(format!(
            "`{text}` is out of range; write a fraction from 0 to 1, or 0% to 100%"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_in_both_forms() {
        for (text, share) in [
            ("0.05", 0.05),
            ("5%", 0.05),
            (" 50 % ", 0.5),
            ("1", 1.0),
            ("100%", 1.0),
        ] {
            assert_eq!(parse_share(text), Ok(share), "{text}");
        }
        for wrong in ["", "%", "x", "nan", "5", "101%", "-1%", "5 percent"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }
}
