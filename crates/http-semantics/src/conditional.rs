//! Conditional requests: evaluates preconditions (RFC 9110 section 13).
//!
//! Compares validators in the order of section 13.2.2 and does not know where they come from. Malformed
//! fields are handled as section 13.1 says for each field: an invalid date is ignored, an invalid entity tag
//! matches nothing.

use crate::date;
use crate::field::{Fields, Name, Values};
use crate::method::Method;
use units::UnixTime;

/// The validators of the selected representation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// Entity tag with its quotes, and `W/` before them if it is weak.
    pub etag: Option<&'a [u8]>,
    /// Last modification time, compared in whole seconds.
    pub last_modified: Option<UnixTime>,
}

/// Outcome of the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Perform the method.
    Proceed {
        /// Whether a `Range` field, if present, applies.
        range: bool,
    },
    /// 304: the client's copy is current.
    NotModified,
    /// 412: a precondition does not hold for the current representation.
    Failed,
}

const PRECONDITIONS: [Name; 5] = [
    Name::IfMatch,
    Name::IfNoneMatch,
    Name::IfModifiedSince,
    Name::IfUnmodifiedSince,
    Name::IfRange,
];

/// Evaluates the preconditions of a request on an existing representation. `now` is the time in the
/// response's `Date`; it decides whether a modification date is a strong validator.
#[inline]
pub fn evaluate(
    method: Method,
    fields: &Fields<'_, '_>,
    validators: &Validators<'_>,
    now: UnixTime,
) -> Verdict {
    if !fields.has_any(&PRECONDITIONS) {
        return Verdict::Proceed { range: true };
    }
    in_order(method, fields, validators, now)
}

fn in_order(method: Method, fields: &Fields<'_, '_>, validators: &Validators<'_>, now: UnixTime) -> Verdict {
    let reads = matches!(method, Method::Get | Method::Head);
    // Section 13.2.1: a method that does not select or change a representation ignores preconditions.
    if matches!(method, Method::Connect | Method::Options | Method::Trace) {
        return Verdict::Proceed { range: false };
    }
    // Steps 1 and 2.
    if fields.has(Name::IfMatch) {
        if !matches(fields.values(Name::IfMatch), validators.etag, strong_match) {
            return Verdict::Failed;
        }
    } else if let Some((since, modified)) = dates(fields, Name::IfUnmodifiedSince, validators)
        && modified > since
    {
        return Verdict::Failed;
    }
    // Steps 3 and 4.
    if fields.has(Name::IfNoneMatch) {
        if matches(fields.values(Name::IfNoneMatch), validators.etag, weak_match) {
            return if reads {
                Verdict::NotModified
            } else {
                Verdict::Failed
            };
        }
    } else if reads
        && let Some((since, modified)) = dates(fields, Name::IfModifiedSince, validators)
        && modified <= since
    {
        return Verdict::NotModified;
    }
    // Step 5.
    Verdict::Proceed {
        range: !fields.has(Name::IfRange)
            || fields
                .single(Name::IfRange)
                .is_some_and(|value| if_range(value, validators, now)),
    }
}

/// The date field and the modification time in whole seconds, if both are present and valid.
fn dates(fields: &Fields<'_, '_>, name: Name, validators: &Validators<'_>) -> Option<(i64, i64)> {
    let since = date::parse(fields.single(name)?)?;
    Some((since.secs, validators.last_modified?.secs))
}

/// Whether a list of entity tags, or `*`, matches. `*` always matches, because the representation exists.
fn matches(values: Values<'_, '_>, etag: Option<&[u8]>, same: fn(&[u8], &[u8]) -> bool) -> bool {
    values.into_iter().any(|value| {
        value == b"*" || etag.is_some_and(|etag| Tags { rest: value }.any(|tag| same(tag, etag)))
    })
}

/// Section 13.1.5: a strong comparison of entity tags, or a strong date that is identical.
fn if_range(value: &[u8], validators: &Validators<'_>, now: UnixTime) -> bool {
    if value.starts_with(b"\"") || value.starts_with(b"W/") {
        let mut tags = Tags { rest: value };
        return match (tags.next(), tags.next()) {
            (Some(tag), None) => validators.etag.is_some_and(|etag| strong_match(tag, etag)),
            _ => false,
        };
    }
    match (date::parse(value), validators.last_modified) {
        // Section 8.8.2.2: a file can change twice within one second, so a recent date is weak.
        (Some(date), Some(modified)) => date.secs == modified.secs && modified.secs < now.secs,
        _ => false,
    }
}

/// Strong comparison (section 8.8.3.2): equal, and neither tag is weak.
pub fn strong_match(a: &[u8], b: &[u8]) -> bool {
    a == b && !a.starts_with(b"W/")
}

/// Weak comparison (section 8.8.3.2): equal apart from `W/`.
pub fn weak_match(a: &[u8], b: &[u8]) -> bool {
    opaque(a) == opaque(b)
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// The entity tags of one list value. A tag may contain commas, so the parser follows the quotes. It stops at
/// the first malformed member, because after that it cannot know where the next one begins.
#[derive(Clone, Debug)]
struct Tags<'b> {
    rest: &'b [u8],
}

impl<'b> Iterator for Tags<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let start = self.rest.iter().position(|b| !matches!(b, b' ' | b'\t' | b','))?;
        let member = core::mem::take(&mut self.rest).get(start..)?;
        let (tag, after) = member.split_at_checked(tag_len(member)?)?;
        let ends_here = matches!(crate::field::trim(after).first(), None | Some(b','));
        ends_here.then(|| {
            self.rest = after;
            tag
        })
    }
}

/// Length of the entity tag at the front: `[ "W/" ] DQUOTE *etagc DQUOTE` (section 8.8.3).
fn tag_len(text: &[u8]) -> Option<usize> {
    let quoted = opaque(text).strip_prefix(b"\"")?;
    let close = memchr::memchr(b'"', quoted)?;
    let is_etagc = |b: &u8| *b == 0x21 || (0x23..=0x7e).contains(b) || *b >= 0x80;
    let before = text.len() - quoted.len();
    quoted[..close].iter().all(is_etagc).then_some(before + close + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_where_a_member_is_no_tag() {
        let tags = |rest: &'static [u8]| {
            Tags { rest }
                .map(|tag| tag.escape_ascii().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            tags(br#""a", W/"b" ,,"c,d""#),
            [r#"\"a\""#, r#"W/\"b\""#, r#"\"c,d\""#]
        );
        assert_eq!(tags(br#""a", b, "c""#), [r#"\"a\""#]);
        assert_eq!(tags(br#""a"b, "c""#), [""; 0]);
        assert_eq!(tags(br#""a, "b""#), [""; 0]);
        assert_eq!(tags(br#""""#), [r#"\"\""#]);
        assert_eq!(tags(b"\""), [""; 0]);
    }
}
