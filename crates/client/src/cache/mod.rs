//! The browser's cache between visits: a private cache (RFC 9111).
//!
//! Decides what may be stored (section 3), a response's age (4.2.3), freshness lifetime (4.2.1), validation
//! (4.3) and the update by a 304 (3.2). Knows no files and no clock: the caller stores entries, removes changed
//! ones and passes in the time. Requests are this client's GET and HEAD, without `Cache-Control`.

mod directives;

use directives::{Directives, Seconds, seconds};
use http_semantics::date;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::UnixTime;

/// The error for a response that may not or need not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotKept;

/// A stored response without its body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// The URL of the request.
    pub url: String,
    /// The response status.
    pub status: u16,
    /// Field lines, updated at each validation, without those of a single connection.
    pub fields: Vec<(String, String)>,
    /// The request's value of each field named by `Vary`; `None` if the request had no such field.
    varied: Vec<(String, Option<String>)>,
    /// When the request was sent, in nanoseconds since 1970.
    asked: i128,
    /// When the response was received, in nanoseconds since 1970.
    came: i128,
}

/// A stored response.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The head and the data for validation.
    pub kept: Kept,
    /// The body, in the content coding received.
    pub body: Vec<u8>,
}

/// Cache entries by URL.
pub type Entries = BTreeMap<String, Entry>;

/// How a request may use an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// Use it without contacting the server.
    Fresh,
    /// Send a conditional request with these field lines.
    Validate(Vec<(String, String)>),
    /// It cannot be used.
    None,
}

/// A request and its response, as far as they matter to a cache.
#[derive(Clone, Debug)]
pub struct Exchange<'e> {
    /// Field lines of the request that a response may vary by.
    pub sent: &'e [(String, String)],
    /// When the request was sent.
    pub asked: UnixTime,
    /// When the response was received.
    pub came: UnixTime,
    /// The response status.
    pub status: u16,
    /// The response's field lines.
    pub fields: Vec<(String, String)>,
}

/// Fields of a single connection or of a proxy, which are not stored (RFC 9111 section 3.1); those named by
/// `Connection` come in addition.
const OF_CONNECTION: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields of a 304 about framing and coding of its absent content; those of the entry stay (section 3.2).
const OF_BODY: [&str; 3] = ["content-length", "content-encoding", "content-range"];

/// Statuses with heuristic freshness (RFC 9110 section 15.1), without 206, which is partial.
const HEURISTIC: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];

/// Statuses this client understands, for `must-understand`.
const UNDERSTOOD: [u16; 16] = [
    200, 203, 204, 300, 301, 302, 303, 307, 308, 400, 403, 404, 405, 410, 414, 501,
];

/// Heuristic freshness is the time since the last modification divided by this (section 4.2.2 calls a tenth
/// typical).
const HEURISTIC_SHARE: i128 = 10;

const SECOND: i128 = 1_000_000_000;

fn nanos(time: UnixTime) -> i128 {
    i128::from(time.secs) * SECOND + i128::from(time.nanos)
}

/// Values of all field lines called `name`.
fn values<'f>(fields: &'f [(String, String)], name: &'f str) -> impl Iterator<Item = &'f str> {
    fields
        .iter()
        .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

/// Members of a list without parameters, over all its field lines.
fn members<'f>(fields: &'f [(String, String)], name: &'f str) -> impl Iterator<Item = &'f str> {
    values(fields, name)
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|member| !member.is_empty())
}

/// The request's value of a field: its lines as one list, without whitespace around members (RFC 9111 section
/// 4.1).
fn said(fields: &[(String, String)], name: &str) -> Option<String> {
    let lines: Vec<&str> = values(fields, name)
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    (!lines.is_empty()).then(|| lines.join(","))
}

/// The date in the field `name`, in any of the three formats; `None` if there is more than one line.
fn dated(fields: &[(String, String)], name: &str) -> Option<i128> {
    let mut lines = values(fields, name);
    let time = date::parse(lines.next()?.as_bytes())?;
    lines.next().is_none().then(|| nanos(time))
}

/// Field lines without those of a connection. A response without `Date` gets the time of receipt (RFC 9110
/// section 6.6.1).
fn kept_fields(mut fields: Vec<(String, String)>, came: UnixTime) -> Vec<(String, String)> {
    if field(&fields, "date").is_none() {
        let now = String::from_utf8_lossy(&date::format(came)).into_owned();
        fields.push(("date".to_owned(), now));
    }
    let named: Vec<String> = members(&fields, "connection")
        .map(str::to_ascii_lowercase)
        .collect();
    fields
        .into_iter()
        .filter(|(name, _)| {
            let name = name.to_ascii_lowercase();
            !OF_CONNECTION.contains(&name.as_str()) && !named.contains(&name)
        })
        .collect()
}

impl Kept {
    /// How a request with these field lines may use the entry; with `force`, a fresh entry is validated, too.
    pub fn usable(&self, fields: &[(String, String)], force: bool, now: UnixTime) -> Use {
        if !self.is_of(fields) {
            return Use::None;
        }
        if !force && self.is_fresh(now) {
            return Use::Fresh;
        }
        let conditions: Vec<_> = [("if-none-match", "etag"), ("if-modified-since", "last-modified")]
            .into_iter()
            .filter_map(|(condition, validator)| {
                Some((condition.to_owned(), self.field(validator)?.to_owned()))
            })
            .collect();
        if conditions.is_empty() {
            Use::None
        } else {
            Use::Validate(conditions)
        }
    }

    /// Whether the entry matches a request with these field lines (section 4.1).
    fn is_of(&self, fields: &[(String, String)]) -> bool {
        self.varied
            .iter()
            .all(|(name, value)| name != "*" && said(fields, name) == *value)
    }

    /// Whether the entry may be used without validation (section 4.2).
    fn is_fresh(&self, now: UnixTime) -> bool {
        let directives = self.directives();
        // `Pragma` counts only without `Cache-Control` (RFC 9111 section 5.4).
        let is_old_style = !directives.is_said
            && members(&self.fields, "pragma").any(|one| one.eq_ignore_ascii_case("no-cache"));
        !directives.no_cache && !is_old_style && self.lifetime(&directives) > self.age_nanos(now)
    }

    fn directives(&self) -> Directives {
        Directives::of(values(&self.fields, "cache-control"))
    }

    /// The response's age in whole seconds, including time in other caches (section 4.2.3).
    pub fn age(&self, now: UnixTime) -> u64 {
        u64::try_from(self.age_nanos(now) / SECOND).unwrap_or(0)
    }

    fn age_nanos(&self, now: UnixTime) -> i128 {
        // A date has whole seconds, so a response dated in the second of its receipt has age zero.
        let apparent = match dated(&self.fields, "date") {
            Some(date) => (self.came.div_euclid(SECOND) * SECOND - date).max(0),
            None => 0,
        };
        // The first of several values counts (section 5.1); a value that is not a number is ignored.
        let first = values(&self.fields, "age")
            .next()
            .and_then(|line| line.split(',').next());
        let said = match first.map(|text| seconds(text.trim())) {
            Some(Seconds::Of(said)) => i128::from(said) * SECOND,
            Some(Seconds::Invalid | Seconds::Missing) | None => 0,
        };
        let corrected = said + (self.came - self.asked).max(0);
        apparent.max(corrected) + (nanos(now) - self.came).max(0)
    }

    /// Freshness lifetime in nanoseconds (section 4.2.1). An unreadable lifetime counts as stale.
    fn lifetime(&self, directives: &Directives) -> i128 {
        match directives.max_age {
            Seconds::Of(said) => return i128::from(said) * SECOND,
            Seconds::Invalid => return 0,
            Seconds::Missing => {}
        }
        let date = dated(&self.fields, "date").unwrap_or(self.came);
        if values(&self.fields, "expires").next().is_some() {
            return dated(&self.fields, "expires").map_or(0, |expires| expires - date);
        }
        let is_estimated = HEURISTIC.contains(&self.status) || directives.is_public;
        match dated(&self.fields, "last-modified").filter(|_| is_estimated) {
            Some(modified) => (date - modified).max(0) / HEURISTIC_SHARE,
            None => 0,
        }
    }

    /// Updates the entry with a 304; returns false if the validators show that the 304 belongs to another
    /// response (section 4.3.4).
    pub fn validated(&mut self, exchange: Exchange<'_>) -> bool {
        let fields = &exchange.fields;
        let is_ours = match field(fields, "etag") {
            Some(theirs) => self
                .field("etag")
                .is_some_and(|ours| opaque(ours) == opaque(theirs)),
            // Without an entity tag in the 304, its date must match if it has one.
            None => field(fields, "last-modified")
                .is_none_or(|theirs| self.field("last-modified") == Some(theirs)),
        };
        if !is_ours || exchange.status != 304 {
            return false;
        }
        // The `Age` of the old response does not apply to the new one.
        self.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("age"));
        let news: Vec<_> = kept_fields(exchange.fields, exchange.came)
            .into_iter()
            .filter(|(name, _)| !OF_BODY.iter().any(|one| name.eq_ignore_ascii_case(one)))
            .collect();
        self.fields
            .retain(|(name, _)| !news.iter().any(|(new, _)| new.eq_ignore_ascii_case(name)));
        self.fields.extend(news);
        self.varied = varied(&self.fields, exchange.sent);
        (self.asked, self.came) = (nanos(exchange.asked), nanos(exchange.came));
        true
    }

    /// Whether a response to HEAD has the same validator or, without validators, the same length. Entity tags
    /// are compared weakly, as for If-None-Match (RFC 9110, section 13.1.2): a server may call a tag weak while
    /// its file is new and strong later.
    pub fn is_same(&self, fields: &[(String, String)]) -> bool {
        for name in ["etag", "last-modified", "content-length"] {
            match (field(&self.fields, name), field(fields, name)) {
                (Some(ours), Some(theirs)) => {
                    return ours == theirs || (name == "etag" && opaque(ours) == opaque(theirs));
                }
                (None, None) => {}
                _ => return false,
            }
        }
        false
    }

    /// The value of the entry's first field line called `name`; case does not matter.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.fields, name)
    }
}

/// The value of the first field line called `name`; case does not matter.
pub fn field<'f>(fields: &'f [(String, String)], name: &str) -> Option<&'f str> {
    fields
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

/// An entity tag without the weak prefix, for weak comparison.
fn opaque(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// The request's values of the fields named by `Vary`.
fn varied(fields: &[(String, String)], sent: &[(String, String)]) -> Vec<(String, Option<String>)> {
    let mut all: Vec<_> = members(fields, "vary")
        .map(str::to_ascii_lowercase)
        .map(|name| {
            let value = said(sent, &name);
            (name, value)
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Turns a response to GET into a stored one, if the rules allow a browser to store it.
///
/// # Errors
/// If they do not, or if the entry could never be used: neither fresh nor with a validator.
pub fn keep(url: &str, exchange: Exchange<'_>) -> Result<Kept, NotKept> {
    let Exchange {
        sent,
        asked,
        came,
        status,
        fields,
    } = exchange;
    let directives = Directives::of(values(&fields, "cache-control"));
    // `must-understand` overrides `no-store`, which is meant for caches that do not understand the status
    // (section 5.2.2.3).
    let is_void = directives.must_understand && UNDERSTOOD.contains(&status);
    let is_explicit = directives.is_granted
        || directives.max_age != Seconds::Missing
        || values(&fields, "expires").next().is_some();
    let may_keep = (200..=599).contains(&status)
        && !matches!(status, 206 | 304)
        && (!directives.must_understand || is_void)
        && (!directives.no_store || is_void)
        && (is_explicit || HEURISTIC.contains(&status));
    let fields = kept_fields(fields, came);
    let kept = Kept {
        url: url.to_owned(),
        status,
        varied: varied(&fields, sent),
        fields,
        asked: nanos(asked),
        came: nanos(came),
    };
    // Without freshness and validators, an entry could never be used.
    let has_validator = kept.field("etag").is_some() || kept.field("last-modified").is_some();
    if may_keep && (has_validator || kept.is_fresh(came)) {
        Ok(kept)
    } else {
        Err(NotKept)
    }
}

/// Stores a response and replaces the old entry. If it may not be stored, the old entry is removed, because it
/// is out of date. Returns whether the cache changed.
pub fn store(entries: &mut Entries, url: &str, exchange: Exchange<'_>, body: Vec<u8>) -> bool {
    match keep(url, exchange) {
        Ok(kept) => {
            entries.insert(url.to_owned(), Entry { kept, body });
            true
        }
        Err(NotKept) => entries.remove(url).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://example.org/a.png";

    fn owned(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// An exchange that took no time, at this second.
    fn exchange<'e>(
        sent: &'e [(String, String)],
        status: u16,
        fields: &[(&str, &str)],
        secs: i64,
    ) -> Exchange<'e> {
        Exchange {
            sent,
            asked: UnixTime::from_secs(secs),
            came: UnixTime::from_secs(secs),
            status,
            fields: owned(fields),
        }
    }

    /// 1970-01-12T13:46:40Z
    const NOW: i64 = 1_000_000;

    fn kept(fields: &[(&str, &str)]) -> Result<Kept, NotKept> {
        keep(URL, exchange(&[], 200, fields, NOW))
    }

    fn at(secs: i64) -> UnixTime {
        UnixTime::from_secs(NOW + secs)
    }

    #[test]
    fn fresh_stale_and_forced() {
        let kept = kept(&[("Cache-Control", "max-age=60"), ("ETag", "\"a\"")]).expect("may be kept");
        assert_eq!(kept.usable(&[], false, at(59)), Use::Fresh);
        let ask = Use::Validate(owned(&[("if-none-match", "\"a\"")]));
        assert_eq!(kept.usable(&[], false, at(60)), ask);
        assert_eq!(kept.usable(&[], true, at(1)), ask);
    }

    /// Cases from past faults: field lines, and how many seconds after receipt the response stops being fresh.
    #[test]
    fn it_is_fresh_as_long_as_its_age_allows() {
        let a = ("ETag", "\"a\"");
        for (fields, want) in [
            // Apparent age (section 4.2.3): generated 50 s before it was received.
            (
                &[
                    ("Cache-Control", "max-age=60"),
                    ("Date", "Mon, 12 Jan 1970 13:45:50 GMT"),
                    a,
                ][..],
                Some(10),
            ),
            (
                &[
                    ("Cache-Control", "max-age=60"),
                    ("Date", "Mon, 12 Jan 1970 13:40:00 GMT"),
                    a,
                ],
                None,
            ),
            // The `Age` field counts if it is larger.
            (
                &[
                    ("Cache-Control", "max-age=60"),
                    ("Date", "Mon, 12 Jan 1970 13:46:20 GMT"),
                    ("Age", "30"),
                    a,
                ],
                Some(30),
            ),
            (
                &[
                    ("Cache-Control", "max-age=60"),
                    ("Age", "99999999999999999999"),
                    a,
                ],
                None,
            ),
            (
                &[("Cache-Control", "max-age=99999999999999999999"), a],
                Some(1 << 31),
            ),
            (&[("cache-control", "MAX-AGE=60"), a], Some(60)),
            // All three date formats.
            (&[("Expires", "Mon Jan 12 13:47:40 1970"), a], Some(60)),
            (&[("Expires", "Monday, 12-Jan-70 13:47:40 GMT"), a], Some(60)),
            (&[("Expires", "Mon, 12 Jan 1970 13:47:40 GMT"), a], Some(60)),
            (&[("Expires", "0"), a], None),
            (
                &[
                    ("Expires", "Mon, 12 Jan 1970 13:47:40 GMT"),
                    ("Expires", "Mon, 12 Jan 1970 13:47:40 GMT"),
                    a,
                ],
                None,
            ),
            // A tenth of the time since the last modification.
            (&[("Last-Modified", "Mon Jan 12 13:30:00 1970")], Some(100)),
            (
                &[
                    ("Last-Modified", "Mon, 12 Jan 1970 13:30:00 GMT"),
                    ("Cache-Control", "no-cache"),
                ],
                None,
            ),
            (
                &[
                    ("Last-Modified", "Mon, 12 Jan 1970 13:30:00 GMT"),
                    ("Pragma", "no-cache"),
                ],
                None,
            ),
        ] {
            let kept = kept(fields).expect("may be kept");
            let is_fresh = |secs| kept.usable(&[], false, at(secs)) == Use::Fresh;
            match want {
                Some(secs) => assert!(is_fresh(0) && is_fresh(secs - 1) && !is_fresh(secs), "{fields:?}"),
                None => assert!(!is_fresh(0), "{fields:?}"),
            }
        }
    }

    #[test]
    fn the_time_an_answer_took_is_part_of_its_age() {
        let mut slow = exchange(&[], 200, &[("Cache-Control", "max-age=60"), ("Age", "10")], NOW);
        slow.asked = at(-20);
        let kept = keep(URL, slow).expect("may be kept");
        assert_eq!((kept.age(at(0)), kept.age(at(5))), (30, 35));
    }

    #[test]
    fn a_304_makes_it_fresh_again() {
        let mut kept = kept(&[
            ("Cache-Control", "max-age=60"),
            ("ETag", "\"a\""),
            ("Age", "7"),
            ("Content-Length", "9"),
            ("X", "old"),
        ])
        .expect("may be kept");
        let news = [
            ("ETag", "W/\"a\""),
            ("Cache-Control", "max-age=600"),
            ("Content-Length", "0"),
            ("Connection", "Y"),
            ("Y", "not kept"),
            ("x", "new"),
        ];
        assert!(kept.validated(exchange(&[], 304, &news, NOW + 100)));
        assert_eq!(kept.usable(&[], false, at(699)), Use::Fresh);
        assert_ne!(kept.usable(&[], false, at(700)), Use::Fresh);
        assert_eq!(
            ["x", "content-length", "y", "age"].map(|name| kept.field(name)),
            [Some("new"), Some("9"), None, None]
        );
        assert!(!kept.validated(exchange(&[], 304, &[("ETag", "\"b\"")], NOW + 100)));
    }

    #[test]
    fn what_may_not_be_kept_is_not() {
        for said in [
            "no-store",
            "No-Store",
            "max-age=60, NO-STORE",
            "no-store, must-understand, x",
        ] {
            let is_void = said.contains("must-understand");
            assert_eq!(
                kept(&[("Cache-Control", said), ("ETag", "\"a\"")]).is_ok(),
                is_void,
                "{said}"
            );
        }
        assert!(kept(&[]).is_err(), "neither fresh nor to be validated");
        assert!(
            kept(&[("Cache-Control", "private, max-age=9")]).is_ok(),
            "one user"
        );
        assert!(
            kept(&[("Vary", "*"), ("ETag", "\"a\"")])
                .map(|kept| kept.usable(&[], false, UnixTime::from_secs(1_000_000)))
                .is_ok_and(|usable| usable != Use::Fresh)
        );
    }

    #[test]
    fn another_variant_is_of_no_use() {
        let gzip = owned(&[("accept-encoding", "gzip")]);
        let fields = owned(&[
            ("Vary", "Accept-Encoding"),
            ("Cache-Control", "max-age=60"),
            ("ETag", "\"a\""),
        ]);
        let now = at(0);
        let of_gzip = Exchange {
            fields,
            ..exchange(&gzip, 200, &[], NOW)
        };
        let kept = keep(URL, of_gzip).expect("may be kept");
        assert_eq!(kept.usable(&gzip, false, now), Use::Fresh);
        assert_ne!(kept.usable(&[], false, now), Use::Fresh);
    }

    #[test]
    fn head_answers_are_compared_by_their_strongest_validator() {
        let kept = kept(&[("ETag", "\"a\""), ("Content-Length", "9")]).expect("may be kept");
        assert!(kept.is_same(&owned(&[("etag", "\"a\""), ("content-length", "8")])));
        assert!(kept.is_same(&owned(&[("etag", "W/\"a\""), ("content-length", "9")])));
        assert!(!kept.is_same(&owned(&[("etag", "\"b\""), ("content-length", "9")])));
        assert!(!kept.is_same(&owned(&[("content-length", "9")])));
    }
}
