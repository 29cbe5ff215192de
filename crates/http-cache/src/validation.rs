//! Conditional requests of a cache (RFC 9111 section 4.3.1): which validators it sends.

use crate::stored::Stored;
use http_semantics::field::{Fields, Name};

/// Fields of a request that a cache evaluates itself, so that an upstream that validates must not see them.
pub const PRECONDITIONS: [&str; 6] = [
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "range",
];

/// The validators of a stored response, as fields of a request. Empty if it has none.
pub fn conditions(stored: &Stored) -> Vec<(&'static str, Vec<u8>)> {
    let lines = stored.lines();
    let fields = Fields::new(&lines);
    let mut conditions = Vec::new();
    if let Some(etag) = fields.single(Name::ETag) {
        conditions.push(("If-None-Match", etag.to_vec()));
    }
    if let Some(date) = fields.single(Name::LastModified)
        && crate::freshness::http_date(date).is_some()
    {
        conditions.push(("If-Modified-Since", date.to_vec()));
    }
    conditions
}

/// Whether a 304 selects this response: its entity tag, if it has one, is not another.
pub fn selects(stored: &Stored, fields: &Fields<'_, '_>) -> bool {
    let lines = stored.lines();
    match (Fields::new(&lines).single(Name::ETag), fields.single(Name::ETag)) {
        (Some(ours), Some(theirs)) => http_semantics::conditional::weak_match(ours, theirs),
        _ => true,
    }
}
