//! Dates as CAs write them, as Unix time.

/// `Sun, 06 Nov 1994 08:49:37 GMT` as Unix time.
pub(crate) fn http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut words = text.split_ascii_whitespace().skip(1);
    let day = words.next()?.parse().ok()?;
    let name = words.next()?;
    let month = 1 + MONTHS.iter().position(|month| *month == name)?;
    let year = words.next()?.parse().ok()?;
    let mut time = words.next()?.split(':').map(|part| part.parse::<i64>().ok());
    let [hour, minute, second] = [time.next()??, time.next()??, time.next()??];
    Some(days(year, i64::try_from(month).ok()?, day)? * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// `2026-01-02T03:04:05.6Z` or with an offset, as Unix time (RFC 3339).
pub(crate) fn rfc3339(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    let mark = |at: usize, wanted: &str| text.get(at..=at).filter(|mark| wanted.contains(*mark));
    for (at, wanted) in [(4, "-"), (7, "-"), (10, "Tt "), (13, ":"), (16, ":")] {
        mark(at, wanted)?;
    }
    let day = days(number(0, 4)?, number(5, 7)?, number(8, 10)?)?;
    let local = day * 86_400 + number(11, 13)? * 3_600 + number(14, 16)? * 60 + number(17, 19)?;
    let rest = text.get(19..)?;
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    if matches!(rest, "Z" | "z") {
        return Some(local);
    }
    let at = text.len() - rest.len();
    let offset = number(at + 1, at + 3)? * 3_600 + number(at + 4, at + 6)? * 60;
    mark(at + 3, ":")?;
    match (rest.len(), rest.as_bytes().first()?) {
        (6, b'+') => Some(local - offset),
        (6, b'-') => Some(local + offset),
        _ => None,
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(0..=9_999).contains(&year) {
        return None;
    }
    // A year that begins in March has its leap day last.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, wanted) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2025-01-02T04:00:00Z", Some(1_735_790_400)),
            ("2024-02-29T12:00:00.123456Z", Some(1_709_208_000)),
            ("2025-01-02T05:30:00+01:30", Some(1_735_790_400)),
            ("2025-01-02T00:00:00-04:00", Some(1_735_790_400)),
            ("2025-01-02 04:00:00Z", Some(1_735_790_400)),
            ("2025-13-02T04:00:00Z", None),
            ("2025-01-02T04:00:00", None),
            ("2025-01-02T04:00:00+1:00", None),
            ("", None),
            ("ä025-01-02T04:00:00Z", None),
        ] {
            assert_eq!(rfc3339(text), wanted, "{text}");
        }
    }
}
