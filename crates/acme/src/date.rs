//! HTTP dates as CAs write them, as Unix time.

use units::civil::Date;

/// `Sun, 06 Nov 1994 08:49:37 GMT` as Unix time.
pub(crate) fn http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut words = text.split_ascii_whitespace().skip(1);
    let day = i64::from(words.next()?.parse::<u8>().ok()?);
    let name = words.next()?;
    let month = 1 + i64::try_from(MONTHS.iter().position(|month| *month == name)?).ok()?;
    let year = i64::from(words.next()?.parse::<u16>().ok()?);
    let mut time = words.next()?.split(':').map(|part| part.parse::<u8>().ok());
    let [hour, minute, second] = [time.next()??, time.next()??, time.next()??].map(i64::from);
    Some(Date { year, month, day }.days()? * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_a_date_or_none() {
        for (text, wanted) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 29 Feb 2024 12:00:00 GMT", Some(1_709_208_000)),
            ("Thu, 31 Feb 2024 12:00:00 GMT", None),
            ("Sun, 06 Nov 9223372036854775807 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 9223372036854775807:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49 GMT", None),
            ("Sun", None),
            ("", None),
        ] {
            assert_eq!(http_date(text), wanted, "{text}");
        }
    }
}
