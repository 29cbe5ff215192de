//! The two time formats of logs: `06/Nov/1994:08:49:37 +0100` and RFC 3339.

use units::UnixTime;

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Parses the time between the brackets of the Common Log Format.
pub(crate) fn common(text: &[u8]) -> Option<UnixTime> {
    let (day, rest) = number(text, 2)?;
    let rest = rest.strip_prefix(b"/")?;
    let (month, rest) = rest.split_at_checked(3)?;
    let month = MONTHS
        .iter()
        .position(|known| month.eq_ignore_ascii_case(known))? as i64
        + 1;
    let (year, rest) = number(rest.strip_prefix(b"/")?, 4)?;
    let (seconds, rest) = clock(rest.strip_prefix(b":")?)?;
    let offset = zone(rest.strip_prefix(b" ")?)?;
    Some(UnixTime::from_secs(date(year, month, day)? + seconds - offset))
}

/// Parses `1994-11-06T08:49:37Z`, also with a fraction and with a zone offset (RFC 3339).
pub fn rfc3339(text: &[u8]) -> Option<UnixTime> {
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(rest.strip_prefix(b"-")?, 2)?;
    let (day, rest) = number(rest.strip_prefix(b"-")?, 2)?;
    let rest = rest.strip_prefix(b"T").or_else(|| rest.strip_prefix(b" "))?;
    let (seconds, mut rest) = clock(rest)?;
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix(b".") {
        let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        // Digits beyond the ninth are below a nanosecond.
        nanos = (0..9).fold(0, |sum, at| {
            let digit = fraction[..digits].get(at).map_or(0, |b| u32::from(b - b'0'));
            sum * 10 + digit
        });
        rest = &fraction[digits..];
    }
    let offset = match rest {
        b"Z" | b"z" => 0,
        zone_text => zone(zone_text)?,
    };
    Some(UnixTime {
        secs: date(year, month, day)? + seconds - offset,
        nanos,
    })
}

/// Parses `08:49:37`, also a leap second; returns seconds and the rest.
fn clock(text: &[u8]) -> Option<(i64, &[u8])> {
    let (hours, rest) = number(text, 2)?;
    let (minutes, rest) = number(rest.strip_prefix(b":")?, 2)?;
    let (seconds, rest) = number(rest.strip_prefix(b":")?, 2)?;
    let is_time = hours < 24 && minutes < 60 && seconds <= 60;
    is_time.then_some((hours * 3_600 + minutes * 60 + seconds, rest))
}

/// Parses `+0100` or `+01:00` as seconds.
fn zone(text: &[u8]) -> Option<i64> {
    let (sign, rest) = text.split_first()?;
    let sign = match sign {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, rest) = number(rest, 2)?;
    let (minutes, rest) = number(rest.strip_prefix(b":").unwrap_or(rest), 2)?;
    (rest.is_empty() && hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Parses exactly `digits` digits; returns the number and the rest.
fn number(text: &[u8], digits: usize) -> Option<(i64, &[u8])> {
    let (number, rest) = text.split_at_checked(digits)?;
    let value = number.iter().try_fold(0, |sum, &b| {
        b.is_ascii_digit()
            .then_some(sum * 10 + i64::from(b.wrapping_sub(b'0')))
    })?;
    Some((value, rest))
}

/// Seconds from the epoch to the start of a day in the Gregorian calendar.
fn date(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Counting years from March puts the leap day last.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let era = year.div_euclid(400);
    let year = year.rem_euclid(400);
    let days = year * 365 + year / 4 - year / 100 + (153 * month + 2) / 5 + day - 1;
    Some((era * 146_097 + days - 719_468) * 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let at = |secs| Some(UnixTime::from_secs(secs));
        assert_eq!(common(b"06/Nov/1994:08:49:37 +0000"), at(784_111_777));
        assert_eq!(common(b"06/Nov/1994:09:49:37 +0100"), at(784_111_777));
        assert_eq!(common(b"06/Nov/1994:03:19:37 -0530"), at(784_111_777));
        assert_eq!(common(b"01/Jan/1970:00:00:00 +0000"), at(0));
        assert_eq!(common(b"29/Feb/2000:00:00:00 +0000"), at(951_782_400));
        assert_eq!(common(b"01/Mar/2100:00:00:00 +0000"), at(4_107_542_400));
        assert_eq!(rfc3339(b"1994-11-06T08:49:37Z"), at(784_111_777));
        assert_eq!(rfc3339(b"1994-11-06T08:49:37+00:00"), at(784_111_777));
        let nanos = |nanos| {
            Some(UnixTime {
                secs: 784_111_777,
                nanos,
            })
        };
        assert_eq!(rfc3339(b"1994-11-06T08:49:37.25Z"), nanos(250_000_000));
        assert_eq!(rfc3339(b"1994-11-06T08:49:37.1234567891Z"), nanos(123_456_789));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "06/Nov/1994",
            "6/Nov/1994:08:49:37 +0000",
            "06/Nov/1994:08:49:37",
            "06/Nov/1994:08:49:37 0000",
            "06/Nix/1994:08:49:37 +0000",
            "31/Nov/1994:08:49:37 +0000",
            "29/Feb/1900:08:49:37 +0000",
            "06/Nov/1994:24:49:37 +0000",
            "06/Nov/1994:08:49:37 +0000 ",
            "06/Nov/1994:08:60:37 +0000",
        ] {
            assert_eq!(common(text.as_bytes()), None, "{text}");
        }
        for text in [
            "1994-11-06",
            "1994-11-06T08:49:37",
            "1994-11-06T08:49:37.Z",
            "1994-13-06T08:49:37Z",
        ] {
            assert_eq!(rfc3339(text.as_bytes()), None, "{text}");
        }
    }
}
