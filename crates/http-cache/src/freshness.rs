//! How long a response is fresh and how old it is (RFC 9111 section 4.2).

use crate::directives::{ResponseDirectives, SECONDS_MAX, seconds};
use http_semantics::field::{Fields, trim};
use units::UnixTime;
use units::civil::Date;

/// Longest heuristic lifetime in seconds: a day, so that no warning is due (RFC 7234 section 5.5.4).
pub const HEURISTIC_MAX: u64 = 86_400;

/// One part in this many of the time since the last change is the heuristic lifetime (section 4.2.2).
const HEURISTIC_PART: u64 = 10;

/// When a request was sent and its response arrived, and what the response says of its own age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// Age at `received`, in seconds (`corrected_initial_age` of section 4.2.3).
    pub initial: u64,
    /// When the response arrived.
    pub received: UnixTime,
}

impl Age {
    /// The age of a response that arrived at `received`, to a request that was sent at `asked`.
    pub fn of(fields: &Fields<'_, '_>, asked: UnixTime, received: UnixTime) -> Age {
        let apparent = date(fields, "date").map_or(0, |date| span(date, received.secs));
        // The first member counts, and one that is invalid is ignored (section 5.1).
        let said = fields.find("age").map(|value| {
            let first = value.split(|&b| b == b',').next().unwrap_or_default();
            seconds(trim(first)).unwrap_or(0)
        });
        let corrected = said.unwrap_or(0) + span(asked.secs, received.secs);
        Age {
            initial: apparent.max(corrected).min(SECONDS_MAX),
            received,
        }
    }

    /// The age now, in seconds.
    pub fn now(&self, now: UnixTime) -> u64 {
        (self.initial + span(self.received.secs, now.secs)).min(SECONDS_MAX)
    }
}

/// Seconds from one time to a later one; 0 if it is earlier.
fn span(from: i64, to: i64) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or(0)
}

/// How long a response is fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// In seconds from the generation of the response.
    pub seconds: u64,
    /// The response says so, rather than a heuristic.
    pub is_explicit: bool,
}

/// The lifetime of a response in a shared cache (section 4.2.1).
pub fn lifetime(
    status: u16,
    fields: &Fields<'_, '_>,
    directives: &ResponseDirectives,
    received: UnixTime,
) -> Lifetime {
    let explicit = |seconds| Lifetime {
        seconds,
        is_explicit: true,
    };
    if let Some(seconds) = directives.s_maxage.or(directives.max_age) {
        return explicit(seconds);
    }
    let generated = date(fields, "date").unwrap_or(received.secs);
    if !directives.is_targeted && fields.find("expires").is_some() {
        // An invalid date is in the past (section 5.3).
        let until = date(fields, "expires").unwrap_or(i64::MIN);
        return explicit(span(generated, until).min(SECONDS_MAX));
    }
    let changed = date(fields, "last-modified");
    let heuristic = changed.filter(|_| is_heuristic(status) || directives.public);
    Lifetime {
        seconds: heuristic.map_or(0, |changed| {
            (span(changed, generated) / HEURISTIC_PART).min(HEURISTIC_MAX)
        }),
        is_explicit: false,
    }
}

/// Whether responses with this status are fresh for some time even if they do not say so (RFC 9110 section 15.1).
pub const fn is_heuristic(status: u16) -> bool {
    matches!(
        status,
        200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// The date in a field; `None` if the field is absent, repeated or no date.
pub(crate) fn date(fields: &Fields<'_, '_>, name: &str) -> Option<i64> {
    let mut values = fields
        .iter()
        .filter(|(its, _)| its.eq_ignore_ascii_case(name))
        .map(|(_, value)| value);
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    http_date(value)
}

/// Parses a date in one of the three formats of RFC 9110 section 5.6.7. Unlike there, letters may have any case: senders
/// with such dates are known, and the meaning is clear.
pub fn http_date(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    let mut parts = text.split(' ');
    let weekday = parts.next()?;
    let (year, month, day, time);
    if let Some(name) = weekday.strip_suffix(',') {
        let next = parts.next()?;
        if let Some((first, rest)) = next.split_once('-') {
            // Thursday, 18-Aug-50 02:01:18 GMT
            let (middle, last) = rest.split_once('-')?;
            is_weekday(name, false).then_some(())?;
            day = number(first, 2)?;
            month = month_of(middle)?;
            let short = number(last, 2)?;
            year = if short < 70 { 2000 + short } else { 1900 + short };
        } else {
            // Thu, 18 Aug 2050 02:01:18 GMT
            is_weekday(name, true).then_some(())?;
            day = number(next, 2)?;
            month = month_of(parts.next()?)?;
            year = number(parts.next()?, 4)?;
        }
        time = parts.next()?;
        parts.next()?.eq_ignore_ascii_case("gmt").then_some(())?;
    } else {
        // Thu Aug  8 02:01:18 2050
        is_weekday(weekday, true).then_some(())?;
        month = month_of(parts.next()?)?;
        let first = parts.next()?;
        day = match first.is_empty() {
            true => number(parts.next()?, 1)?,
            false => number(first, 2)?,
        };
        time = parts.next()?;
        year = number(parts.next()?, 4)?;
    }
    if parts.next().is_some() {
        return None;
    }
    let mut clock = time.split(':');
    let mut unit = |most: i64| number(clock.next()?, 2).filter(|&n| n <= most);
    let (hour, minute, second) = (unit(23)?, unit(59)?, unit(60)?);
    if clock.next().is_some() {
        return None;
    }
    Some(Date { year, month, day }.days()? * 86_400 + hour * 3_600 + minute * 60 + second)
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

const DAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

fn is_weekday(name: &str, is_short: bool) -> bool {
    DAYS.iter().any(|day| {
        let known = if is_short { &day[..3] } else { day };
        name.eq_ignore_ascii_case(known)
    })
}

/// The month, from 1.
fn month_of(name: &str) -> Option<i64> {
    let at = MONTHS.iter().position(|month| name.eq_ignore_ascii_case(month))?;
    Some(at as i64 + 1)
}

fn number(digits: &str, len: usize) -> Option<i64> {
    let is_number = digits.len() == len && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}
