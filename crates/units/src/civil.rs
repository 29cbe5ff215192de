//! Civil time in UTC: days of the Gregorian calendar, and times as RFC 3339 writes them.
//!
//! The only calendar of the workspace besides that of HTTP dates, which the crate `httpdate` has. Parsers of other formats use
//! its parts.

use crate::UnixTime;
use core::fmt;

/// A day of the Gregorian calendar, which is extended to all years. The fields may name a day that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// The year; 0 is the one before the year 1.
    pub year: i64,
    /// From 1 to 12.
    pub month: i64,
    /// From 1 on.
    pub day: i64,
}

/// Days from 0000-03-01 to 1970-01-01. A year that begins in March has its leap day last.
const BEFORE_1970: i64 = 719_468;

/// Days of 400 years, after which the calendar repeats.
const CYCLE: i64 = 146_097;

impl Date {
    /// The date so many days after 1970-01-01 (the algorithm `civil_from_days` of Howard Hinnant).
    pub fn from_days(days: i64) -> Date {
        let shifted = days.saturating_add(BEFORE_1970);
        let (cycle, of_cycle) = (shifted.div_euclid(CYCLE), shifted.rem_euclid(CYCLE));
        let year = (of_cycle - of_cycle / 1_460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
        let of_year = of_cycle - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        Date {
            year: year + cycle * 400 + i64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
        }
    }

    /// Days from 1970-01-01 to the date (the algorithm `days_from_civil` of Howard Hinnant). `None`: there is no
    /// such day, or it is too far away.
    pub fn days(self) -> Option<i64> {
        let Date { year, month, day } = self;
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            2 if is_leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        if !(1..=length).contains(&day) {
            return None;
        }
        let year = year.checked_sub(i64::from(month <= 2))?;
        let (cycle, of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days = of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year;
        cycle.checked_mul(CYCLE)?.checked_add(days - BEFORE_1970)
    }
}

/// Parses `1994-11-06T08:49:37Z`, also with a fraction of the second and with the offset of a zone (RFC 3339). The letters may be
/// small, the `T` may be a space, and the colon in the offset may be missing, as in ISO 8601.
pub fn rfc3339(text: &[u8]) -> Option<UnixTime> {
    let (year, rest) = digits(text, 4)?;
    let (month, rest) = digits(rest.strip_prefix(b"-")?, 2)?;
    let (day, rest) = digits(rest.strip_prefix(b"-")?, 2)?;
    let (b'T' | b't' | b' ', rest) = rest.split_first()? else {
        return None;
    };
    let (seconds, mut rest) = time_of_day(rest)?;
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        if count == 0 {
            return None;
        }
        // Digits beyond the ninth are below a nanosecond.
        nanos = (0..9).fold(0, |sum, at| {
            let digit = fraction[..count].get(at).map_or(0, |b| u32::from(b - b'0'));
            sum * 10 + digit
        });
        rest = &fraction[count..];
    }
    let offset = match rest {
        b"Z" | b"z" => 0,
        zone => offset(zone)?,
    };
    let days = Date { year, month, day }.days()?;
    Some(UnixTime {
        secs: days * 86_400 + seconds - offset,
        nanos,
    })
}

/// The time as RFC 3339 writes it, in UTC, with so many digits of the second's fraction: up to nine. Further ones are cut off.
pub fn to_rfc3339(time: UnixTime, digits: u32) -> impl fmt::Display {
    let UnixTime { secs, nanos } = time;
    let Date { year, month, day } = Date::from_days(secs.div_euclid(86_400));
    let second = secs.rem_euclid(86_400);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let digits = digits.min(9);
    fmt::from_fn(move |f| {
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )?;
        if digits > 0 {
            let fraction = nanos / 10_u32.pow(9 - digits);
            write!(f, ".{fraction:0width$}", width = digits as usize)?;
        }
        f.write_str("Z")
    })
}

/// Parses `08:49:37`, also with a leap second; returns seconds and the rest.
pub fn time_of_day(text: &[u8]) -> Option<(i64, &[u8])> {
    let (hours, rest) = digits(text, 2)?;
    let (minutes, rest) = digits(rest.strip_prefix(b":")?, 2)?;
    let (seconds, rest) = digits(rest.strip_prefix(b":")?, 2)?;
    let is_time = hours < 24 && minutes < 60 && seconds <= 60;
    is_time.then_some((hours * 3_600 + minutes * 60 + seconds, rest))
}

/// Parses the offset of a zone from UTC, `+0100` or `+01:00`, as seconds.
pub fn offset(text: &[u8]) -> Option<i64> {
    let (sign, rest) = text.split_first()?;
    let sign = match sign {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, rest) = digits(rest, 2)?;
    let (minutes, rest) = digits(rest.strip_prefix(b":").unwrap_or(rest), 2)?;
    (rest.is_empty() && hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Parses exactly `count` digits; returns the number and the rest.
pub fn digits(text: &[u8], count: usize) -> Option<(i64, &[u8])> {
    let (number, rest) = text.split_at_checked(count)?;
    let value = number.iter().try_fold(0, |sum, &b| {
        b.is_ascii_digit()
            .then_some(sum * 10 + i64::from(b.wrapping_sub(b'0')))
    })?;
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_a_cycle_survives_being_a_date() {
        let first = Date {
            year: 1_600,
            month: 3,
            day: 1,
        };
        let first = first.days().unwrap();
        let mut before = Date::from_days(first - 1);
        assert_eq!((before.year, before.month, before.day), (1_600, 2, 29));
        for days in first..=first + CYCLE {
            let date = Date::from_days(days);
            assert_eq!(date.days(), Some(days), "{date:?}");
            let is_next = match date.day {
                1 => date.month == before.month % 12 + 1,
                day => (day, date.month) == (before.day + 1, before.month),
            };
            assert!(is_next, "{before:?} {date:?}");
            before = date;
        }
    }

    #[test]
    fn a_day_that_does_not_exist_has_no_number() {
        for (year, month, day) in [
            (1_900, 2, 29),
            (2_001, 2, 29),
            (2_000, 2, 30),
            (2_000, 11, 31),
            (2_000, 13, 1),
            (2_000, 0, 1),
            (2_000, 1, 0),
            (2_000, 1, 32),
            (i64::MIN, 1, 1),
            (i64::MAX, 1, 1),
        ] {
            let date = Date { year, month, day };
            assert_eq!(date.days(), None, "{date:?}");
        }
    }

    #[test]
    fn times_are_parsed() {
        let at = |secs, nanos| Some(UnixTime { secs, nanos });
        for (text, wanted) in [
            ("1970-01-01T00:00:00Z", at(0, 0)),
            ("1994-11-06T08:49:37Z", at(784_111_777, 0)),
            ("1994-11-06T08:49:37+00:00", at(784_111_777, 0)),
            ("1994-11-06T08:49:37.25Z", at(784_111_777, 250_000_000)),
            ("1994-11-06T08:49:37.1234567891Z", at(784_111_777, 123_456_789)),
            ("2025-01-02T04:00:00Z", at(1_735_790_400, 0)),
            ("2024-02-29T12:00:00.123456Z", at(1_709_208_000, 123_456_000)),
            ("2025-01-02T05:30:00+01:30", at(1_735_790_400, 0)),
            ("2025-01-02T05:30:00+0130", at(1_735_790_400, 0)),
            ("2025-01-02T00:00:00-04:00", at(1_735_790_400, 0)),
            ("2025-01-02 04:00:00Z", at(1_735_790_400, 0)),
            ("2025-01-02t04:00:00z", at(1_735_790_400, 0)),
            ("2016-12-31T23:59:60Z", at(1_483_228_800, 0)),
            ("", None),
            ("1994-11-06", None),
            ("1994-11-06T08:49:37", None),
            ("1994-11-06T08:49:37.Z", None),
            ("1994-11-06x08:49:37Z", None),
            ("1994-13-06T08:49:37Z", None),
            ("1994-02-29T08:49:37Z", None),
            ("1994-11-06T24:49:37Z", None),
            ("2025-01-02T04:00:00+1:00", None),
            ("2025-01-02T04:00:00+01:00 ", None),
            ("ä025-01-02T04:00:00Z", None),
        ] {
            assert_eq!(rfc3339(text.as_bytes()), wanted, "{text}");
        }
    }

    #[test]
    fn times_are_written_with_the_digits_asked_for() {
        let time = UnixTime {
            secs: 951_782_399,
            nanos: 987_654_321,
        };
        for (digits, text) in [
            (0, "2000-02-28T23:59:59Z"),
            (3, "2000-02-28T23:59:59.987Z"),
            (6, "2000-02-28T23:59:59.987654Z"),
            (9, "2000-02-28T23:59:59.987654321Z"),
            (20, "2000-02-28T23:59:59.987654321Z"),
        ] {
            assert_eq!(to_rfc3339(time, digits).to_string(), text);
        }
        let before = UnixTime {
            secs: -1,
            nanos: 1_000,
        };
        assert_eq!(to_rfc3339(before, 6).to_string(), "1969-12-31T23:59:59.000001Z");
    }
}
