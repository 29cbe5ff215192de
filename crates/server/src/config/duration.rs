//! Time spans in flags and files: `500ms`, `15s`, `2m`, `1h`, `1m30s`.

use units::Duration;

/// Parses a time span. A number without a unit is in seconds; parts are added up (`1m30s`).
///
/// # Errors
/// A sentence that names the text and shows valid spellings.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let error =
        || format!("`{text}` is not a time span; write a number and a unit, as in 500ms, 15s, 2m, 1h");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(error());
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let scale: u128 = match unit {
            "ms" => 1_000_000,
            "" | "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return Err(error()),
        };
        let part = match number.split_once('.') {
            None => number.parse::<u64>().map_err(|_| error())? as u128 * scale,
            Some((whole, fraction)) if !fraction.is_empty() && fraction.len() <= 9 => {
                let unit_parts = 10u128.pow(fraction.len() as u32);
                let whole: u64 = if whole.is_empty() {
                    0
                } else {
                    whole.parse().map_err(|_| error())?
                };
                let fraction: u64 = fraction.parse().map_err(|_| error())?;
                whole as u128 * scale + fraction as u128 * scale / unit_parts
            }
            Some(_) => return Err(error()),
        };
        nanos += part;
        rest = tail;
    }
    let secs = u64::try_from(nanos / 1_000_000_000).map_err(|_| error())?;
    Ok(Duration::new(secs, (nanos % 1_000_000_000) as u32))
}

/// Parses a time span or `off`, which is zero.
///
/// # Errors
/// As [`parse_duration`], with `off` as a further spelling.
pub fn parse_duration_or_off(text: &str) -> Result<Duration, String> {
    match text.trim() {
        "off" => Ok(Duration::ZERO),
        text => parse_duration(text).map_err(|why| format!("{why}; or off")),
    }
}

/// Formats a time span so that [`parse_duration`] reads it back.
pub fn show_duration(span: Duration) -> String {
    let ms = span.as_millis();
    match (ms % 1_000, ms / 1_000) {
        (0, secs) if secs != 0 && secs % 3_600 == 0 => format!("{}h", secs / 3_600),
        (0, secs) if secs != 0 && secs % 60 == 0 => format!("{}m", secs / 60),
        (0, secs) => format!("{secs}s"),
        _ => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_and_print() {
        for (text, ms, shown) in [
            ("500ms", 500, "500ms"),
            ("15", 15_000, "15s"),
            ("15s", 15_000, "15s"),
            ("1.5s", 1_500, "1500ms"),
            (".5s", 500, "500ms"),
            ("2m", 120_000, "2m"),
            ("1m30s", 90_000, "90s"),
            ("1h", 3_600_000, "1h"),
            ("0s", 0, "0s"),
        ] {
            let got = parse_duration(text).unwrap();
            assert_eq!(got, Duration::from_millis(ms), "{text}");
            assert_eq!(show_duration(got), shown);
        }
        for bad in [
            "",
            "s",
            "15x",
            "1..2s",
            "1.s",
            "-5s",
            "5 s",
            "99999999999999999999s",
            "99999999999999999d",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
