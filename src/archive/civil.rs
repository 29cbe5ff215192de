//! Civil times as archives write them (ISO 8601, RFC 3339), in UTC.

use units::{Duration, UnixTime};

/// The time so long before another.
pub(crate) fn earlier(time: UnixTime, by: Duration) -> UnixTime {
    let nanos = i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos) - by.as_nanos() as i128;
    UnixTime {
        secs: nanos.div_euclid(1_000_000_000) as i64,
        nanos: nanos.rem_euclid(1_000_000_000) as u32,
    }
}

/// ISO 8601 with milliseconds. The day follows from the 400-year cycle of the Gregorian calendar.
pub(crate) fn date(began: UnixTime, after: Duration) -> String {
    let nanos = u128::from(began.nanos) + after.as_nanos();
    let secs = began.secs + i64::try_from(nanos / 1_000_000_000).unwrap_or(0);
    let (days, of_day) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    // Days since 0000-03-01, so that a leap day is the last day of its year.
    let shifted = days + 719_468;
    let (cycle, of_cycle) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_cycle = (of_cycle - of_cycle / 1_460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        of_day / 3_600,
        of_day / 60 % 60,
        of_day % 60,
        nanos % 1_000_000_000 / 1_000_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_civil() {
        for (secs, want) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (867_110_400, "1997-06-24T00:00:00.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
        ] {
            assert_eq!(date(UnixTime::from_secs(secs), Duration::ZERO), want);
        }
        assert_eq!(
            date(
                UnixTime {
                    secs: 0,
                    nanos: 999_000_000
                },
                Duration::from_millis(2)
            ),
            "1970-01-01T00:00:01.001Z"
        );
        let before = earlier(UnixTime::from_secs(0), Duration::from_millis(1_500));
        assert_eq!((before.secs, before.nanos), (-2, 500_000_000));
    }
}
