//! Wall-clock time as responses and logs show it, formatted once a second instead of per response.
//!
//! The HTTP date is the only source; the spellings of the log are cut out of it, so that no second calendar can
//! disagree. Times are in UTC.

use units::UnixTime;

/// The current second in every spelling that responses and log lines need.
#[derive(Clone, Debug)]
pub struct Clock {
    now: UnixTime,
    /// `Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n`, with the empty line that ends a header block.
    date_lines: [u8; 39],
    /// `[06/Nov/1994:08:49:37 +0000]`
    bracketed: [u8; 28],
    /// `1994-11-06T08:49:37Z`
    iso: [u8; 20],
}

impl Default for Clock {
    fn default() -> Clock {
        let mut clock = Clock {
            now: UnixTime::from_secs(i64::MIN),
            date_lines: *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n",
            bracketed: *b"[01/Jan/1970:00:00:00 +0000]",
            iso: *b"1970-01-01T00:00:00Z",
        };
        clock.set(UnixTime::from_secs(0));
        clock
    }
}

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

impl Clock {
    /// Moves to the second of `now`, if it differs.
    #[inline]
    pub fn set(&mut self, now: UnixTime) {
        if now.secs != self.now.secs {
            self.format(now);
        }
        self.now = now;
    }

    /// Moves to the second of `now` and formats it in any case.
    pub fn set_anew(&mut self, now: UnixTime) {
        self.format(now);
        self.now = now;
    }

    #[cold]
    fn format(&mut self, now: UnixTime) {
        let http = http_semantics::date::format(now);
        let (day, month, year, time) = (&http[5..7], &http[8..11], &http[12..16], &http[17..25]);
        self.date_lines[6..35].copy_from_slice(&http);
        self.bracketed[1..3].copy_from_slice(day);
        self.bracketed[4..7].copy_from_slice(month);
        self.bracketed[8..12].copy_from_slice(year);
        self.bracketed[13..21].copy_from_slice(time);
        let number = 1 + MONTHS.iter().position(|m| *m == month).unwrap_or(0) as u8;
        self.iso[..4].copy_from_slice(year);
        self.iso[5..7].copy_from_slice(&[b'0' + number / 10, b'0' + number % 10]);
        self.iso[8..10].copy_from_slice(day);
        self.iso[11..19].copy_from_slice(time);
    }

    /// The time last set.
    #[inline]
    pub fn now(&self) -> UnixTime {
        self.now
    }

    /// The `Date` field line with its CRLF (RFC 9110 section 6.6.1).
    #[inline]
    pub fn date_line(&self) -> &[u8] {
        &self.date_lines[..37]
    }

    /// The `Date` field line as the last of a header block: with its CRLF and the empty line.
    #[inline]
    pub fn last_lines(&self) -> &[u8; 39] {
        &self.date_lines
    }

    /// The value of `Date`.
    #[inline]
    pub fn date(&self) -> &[u8] {
        &self.date_lines[6..35]
    }

    /// The time in brackets, as in the Common Log Format.
    #[inline]
    pub fn bracketed(&self) -> &[u8; 28] {
        &self.bracketed
    }

    /// The time in the format of ISO 8601 and RFC 3339.
    #[inline]
    pub fn iso(&self) -> &[u8; 20] {
        &self.iso
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_shows_the_same_second() {
        let mut clock = Clock::default();
        clock.set(UnixTime::from_secs(784_111_777));
        assert_eq!(clock.date_line(), b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
        assert_eq!(clock.bracketed(), b"[06/Nov/1994:08:49:37 +0000]");
        assert_eq!(clock.iso(), b"1994-11-06T08:49:37Z");
        clock.set(UnixTime::from_secs(1_798_761_600));
        assert_eq!(clock.iso(), b"2027-01-01T00:00:00Z");
    }

    #[test]
    fn times_out_of_range_do_not_panic() {
        let mut clock = Clock::default();
        for secs in [i64::MIN, -1, i64::MAX] {
            clock.set(UnixTime::from_secs(secs));
        }
        assert_eq!(clock.iso(), b"9999-12-31T23:59:59Z");
    }
}
