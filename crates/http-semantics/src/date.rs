//! HTTP dates (RFC 9110 section 5.6.7): parses all three formats, writes IMF-fixdate.
//!
//! `httpdate` does the calendar; this module converts its clock type to and from [`UnixTime`], a plain
//! number.

use std::time::UNIX_EPOCH;
use units::{Duration, UnixTime};

/// Length of an IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_LEN: usize = 29;

/// The last second an IMF-fixdate can express, in Unix time.
const LAST_SECS: i64 = 253_402_300_799;

/// Parses an IMF-fixdate, an RFC 850 date or an asctime date in the years 1970 to 9999.
pub fn parse(value: &[u8]) -> Option<UnixTime> {
    let text = core::str::from_utf8(value).ok()?;
    let time = httpdate::parse_http_date(text).ok()?;
    let secs = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(UnixTime::from_secs(i64::try_from(secs).ok()?))
}

/// Formats a second as IMF-fixdate. Times before 1970 or after 9999 are clamped to the nearest valid date.
pub fn format(time: UnixTime) -> [u8; DATE_LEN] {
    let secs = time.secs.clamp(0, LAST_SECS).unsigned_abs();
    let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(secs));
    let mut text = [0; DATE_LEN];
    let mut rest = &mut text[..];
    // Every four-digit year gives this length.
    std::io::Write::write_fmt(&mut rest, format_args!("{date}")).expect("an IMF-fixdate has 29 bytes");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_out_of_reach_are_shown_as_the_nearest() {
        let shown = |secs| String::from_utf8_lossy(&format(UnixTime::from_secs(secs))).into_owned();
        assert_eq!(shown(-1), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(shown(i64::MIN), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(shown(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    proptest! {
        #![proptest_config(crate::seeded::cases(1_000))]
        #[test]
        fn every_second_survives_being_written(secs in 0..=LAST_SECS) {
            let text = format(UnixTime::from_secs(secs));
            prop_assert_eq!(parse(&text), Some(UnixTime::from_secs(secs)));
        }

        #[test]
        fn any_text_is_a_date_or_none(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(time) = parse(&text) {
                prop_assert!((0..=LAST_SECS).contains(&time.secs));
            }
        }
    }
}
