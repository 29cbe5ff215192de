//! What a browser keeps between visits, and whether it is still true (RFC 9111).
//!
//! The rules are `http-cache-semantics`'s, for a cache of one user. Here requests and answers of this client
//! become theirs, and what they decide becomes field lines. Knows no files: who keeps entries puts them in and
//! takes out what changed.

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, request, response};
use http_cache_semantics::{AfterResponse, BeforeRequest, CacheOptions, CachePolicy};
use measure::UnixTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Why an answer is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotKept;

/// An answer that is kept, without its body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// Of what.
    pub url: String,
    /// Its status.
    pub status: u16,
    /// Its field lines, brought up to date when it was validated.
    pub fields: Vec<(String, String)>,
    policy: CachePolicy,
}

/// An answer that is kept.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its head.
    pub kept: Kept,
    /// Its body, in the coding it came in.
    pub body: Vec<u8>,
}

/// Entries by address.
pub type Entries = BTreeMap<String, Entry>;

/// What a request may do with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// Nobody needs to be asked.
    Fresh,
    /// The server is asked with these field lines.
    Validate(Vec<(String, String)>),
    /// It is of no use.
    None,
}

/// Civil time as the rules take it.
fn system(time: UnixTime) -> SystemTime {
    let secs = u64::try_from(time.secs).unwrap_or(0);
    UNIX_EPOCH + Duration::new(secs, time.nanos)
}

/// A GET of `url` with these field lines.
fn asked(url: &str, fields: &[(String, String)]) -> Option<request::Parts> {
    let mut request = Request::get(url).body(()).ok()?;
    *request.headers_mut() = headers(fields);
    Some(request.into_parts().0)
}

fn answered(status: u16, fields: &[(String, String)]) -> Option<response::Parts> {
    let mut response = Response::builder().status(status).body(()).ok()?;
    *response.headers_mut() = headers(fields);
    Some(response.into_parts().0)
}

/// Field lines as the rules take them; what is none is left out.
fn headers(fields: &[(String, String)]) -> HeaderMap {
    fields
        .iter()
        .filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value).ok()?))
        })
        .collect()
}

fn lines(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect()
}

impl Kept {
    /// What a request with these field lines may do with it; `force`: it is asked about however fresh it is.
    pub fn usable(&self, fields: &[(String, String)], force: bool, now: UnixTime) -> Use {
        let Some(mut request) = asked(&self.url, fields) else {
            return Use::None;
        };
        if force {
            request
                .headers
                .insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        match self.policy.before_request(&request, system(now)) {
            BeforeRequest::Fresh(_) => Use::Fresh,
            BeforeRequest::Stale { matches: false, .. } => Use::None,
            BeforeRequest::Stale { request, .. } => {
                let conditions = lines(&request.headers);
                let conditions: Vec<_> = conditions
                    .into_iter()
                    .filter(|(name, _)| name == "if-none-match" || name == "if-modified-since")
                    .collect();
                if conditions.is_empty() {
                    Use::None
                } else {
                    Use::Validate(conditions)
                }
            }
        }
    }

    /// Brings it up to date with a 304 to a request with these field lines; false: it is another's.
    pub fn validated(
        &mut self,
        sent: &[(String, String)],
        status: u16,
        fields: &[(String, String)],
        now: UnixTime,
    ) -> bool {
        let (Some(request), Some(response)) = (asked(&self.url, sent), answered(status, fields)) else {
            return false;
        };
        match self.policy.after_response(&request, &response, system(now)) {
            AfterResponse::NotModified(policy, parts) => {
                self.policy = policy;
                self.fields = lines(&parts.headers);
                true
            }
            AfterResponse::Modified(..) => false,
        }
    }

    /// Whether an answer to HEAD has the same validators, or without any the same length. Entity tags are compared weakly, as
    /// by If-None-Match (RFC 9110, section 13.1.2): a server may call a tag weak while its file is new, and not later.
    pub fn is_same(&self, fields: &[(String, String)]) -> bool {
        for name in ["etag", "last-modified", "content-length"] {
            match (field(&self.fields, name), field(fields, name)) {
                (Some(ours), Some(theirs)) => {
                    fn opaque(tag: &str) -> &str {
                        tag.strip_prefix("W/").unwrap_or(tag)
                    }
                    return ours == theirs || (name == "etag" && opaque(ours) == opaque(theirs));
                }
                (None, None) => {}
                _ => return false,
            }
        }
        false
    }

    /// A field line of it.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.fields, name)
    }
}

/// The first field line of this name; case does not matter.
pub fn field<'f>(fields: &'f [(String, String)], name: &str) -> Option<&'f str> {
    fields
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

/// Keeps an answer to a GET with these field lines, if the rules let a browser keep it.
///
/// # Errors
/// If they do not.
pub fn keep(
    url: &str,
    sent: &[(String, String)],
    status: u16,
    fields: Vec<(String, String)>,
    now: UnixTime,
) -> Result<Kept, NotKept> {
    let request = asked(url, sent).ok_or(NotKept)?;
    let response = answered(status, &fields).ok_or(NotKept)?;
    let options = CacheOptions {
        shared: false,
        ..CacheOptions::default()
    };
    let policy = CachePolicy::new_options(&request, &response, system(now), options);
    // What can neither be fresh nor validated would only lie there.
    let has_validator = field(&fields, "etag").is_some() || field(&fields, "last-modified").is_some();
    if !policy.is_storable() || (!has_validator && policy.is_stale(system(now))) {
        return Err(NotKept);
    }
    Ok(Kept {
        url: url.to_owned(),
        status,
        fields,
        policy,
    })
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

    fn kept(fields: &[(&str, &str)]) -> Result<Kept, NotKept> {
        keep(URL, &[], 200, owned(fields), UnixTime::from_secs(1_000_000))
    }

    #[test]
    fn fresh_stale_and_forced() {
        let kept = kept(&[("Cache-Control", "max-age=60"), ("ETag", "\"a\"")]).expect("may be kept");
        let at = |secs: i64| UnixTime::from_secs(1_000_000 + secs);
        assert_eq!(kept.usable(&[], false, at(59)), Use::Fresh);
        let ask = Use::Validate(owned(&[("if-none-match", "\"a\"")]));
        assert_eq!(kept.usable(&[], false, at(61)), ask);
        assert_eq!(kept.usable(&[], true, at(1)), ask);
    }

    #[test]
    fn a_304_makes_it_fresh_again() {
        let mut kept = kept(&[("Cache-Control", "max-age=60"), ("ETag", "\"a\"")]).expect("may be kept");
        let at = |secs: i64| UnixTime::from_secs(1_000_000 + secs);
        let sent = owned(&[("if-none-match", "\"a\"")]);
        assert!(kept.validated(
            &sent,
            304,
            &owned(&[("ETag", "\"a\""), ("Cache-Control", "max-age=600")]),
            at(100)
        ));
        assert_eq!(kept.usable(&[], false, at(600)), Use::Fresh);
        assert!(!kept.validated(&sent, 304, &owned(&[("ETag", "\"b\"")]), at(100)));
    }

    #[test]
    fn what_may_not_be_kept_is_not() {
        assert!(kept(&[("Cache-Control", "no-store"), ("ETag", "\"a\"")]).is_err());
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
        let now = UnixTime::from_secs(1_000_000);
        let kept = keep(URL, &gzip, 200, fields, now).expect("may be kept");
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
