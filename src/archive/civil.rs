//! Civil times as archives write them (ISO 8601, RFC 3339), in UTC.

use units::civil::to_rfc3339;
use units::{Duration, UnixTime};

/// The time so long before another.
pub(crate) fn earlier(time: UnixTime, by: Duration) -> UnixTime {
    let nanos = i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos) - by.as_nanos() as i128;
    UnixTime {
        secs: nanos.div_euclid(1_000_000_000) as i64,
        nanos: nanos.rem_euclid(1_000_000_000) as u32,
    }
}

/// ISO 8601 with milliseconds.
pub(crate) fn date(began: UnixTime, after: Duration) -> String {
    let nanos = u128::from(began.nanos) + after.as_nanos();
    let time = UnixTime {
        secs: began.secs + i64::try_from(nanos / 1_000_000_000).unwrap_or(0),
        nanos: (nanos % 1_000_000_000) as u32,
    };
    to_rfc3339(time, 3).to_string()
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
