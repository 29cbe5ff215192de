//! The time format of the Common Log Format: `06/Nov/1994:08:49:37 +0100`.

use units::UnixTime;
use units::civil::{Date, digits, offset, time_of_day};

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Parses the time between the brackets of the Common Log Format.
pub(crate) fn common(text: &[u8]) -> Option<UnixTime> {
    let (day, rest) = digits(text, 2)?;
    let rest = rest.strip_prefix(b"/")?;
    let (month, rest) = rest.split_at_checked(3)?;
    let month = MONTHS
        .iter()
        .position(|known| month.eq_ignore_ascii_case(known))? as i64
        + 1;
    let (year, rest) = digits(rest.strip_prefix(b"/")?, 4)?;
    let (seconds, rest) = time_of_day(rest.strip_prefix(b":")?)?;
    let offset = offset(rest.strip_prefix(b" ")?)?;
    let days = Date { year, month, day }.days()?;
    Some(UnixTime::from_secs(days * 86_400 + seconds - offset))
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
    }
}
