//! Which stored response of a target answers a request (RFC 9111 section 4.1): `Vary` names the request fields that chose
//! it.
//!
//! Values are compared after changes that keep their meaning: the lines of a field are joined, white space around commas goes,
//! and languages and codings have no case. The order of members counts: some servers prefer the first.

use crate::directives::combined;
use http_semantics::field::{Fields, members, trim};

/// Names in `Vary` that are told apart. A response with more is not stored.
const NAMES_MAX: usize = 32;

/// The request fields that chose a response, in lower case and sorted. `None`: no later request matches, because of a `*`.
pub fn names(response: &Fields<'_, '_>) -> Option<Vec<String>> {
    let vary = combined(response, "vary");
    let mut names: Vec<String> = Vec::new();
    for member in members(&vary) {
        if member == b"*" {
            return None;
        }
        names.push(String::from_utf8_lossy(member).to_ascii_lowercase());
    }
    names.sort_unstable();
    names.dedup();
    (names.len() <= NAMES_MAX).then_some(names)
}

/// The values of these fields in a request, as text that is equal if and only if the requests match.
pub fn key(names: &[String], request: &Fields<'_, '_>) -> Vec<u8> {
    let mut key = Vec::new();
    for name in names {
        key.extend_from_slice(name.as_bytes());
        let is_present = request.iter().any(|(its, _)| its.eq_ignore_ascii_case(name));
        key.push(if is_present { b':' } else { b'-' });
        if is_present {
            key.extend_from_slice(&normalized(name, &combined(request, name)));
        }
        // No field value has a line feed.
        key.push(b'\n');
    }
    key
}

fn normalized(name: &str, value: &[u8]) -> Vec<u8> {
    let has_no_case = matches!(name, "accept-language" | "accept-encoding" | "accept-charset");
    // A comma within a quoted string is part of a value.
    let mut joined = match value.contains(&b'"') {
        true => trim(value).to_vec(),
        false => members(value).collect::<Vec<_>>().join(&b','),
    };
    if has_no_case {
        joined.retain(|&b| b != b' ' && b != b'\t');
        joined.make_ascii_lowercase();
    }
    joined
}

/// Whether the language of a response is what a request prefers to all others: the server would choose it again, whatever
/// else the request accepts. Holds only for responses that vary by `Accept-Language` and nothing else that differs.
pub fn is_preferred_language(request: &Fields<'_, '_>, language: &[u8]) -> bool {
    let accepted = combined(request, "accept-language");
    let mut best: Option<(u32, &[u8])> = None;
    let mut is_tied = false;
    for member in members(&accepted) {
        let mut parts = member.split(|&b| b == b';').map(trim);
        let tag = parts.next().unwrap_or_default();
        let Some(quality) = quality(parts.next()) else {
            return false;
        };
        match best {
            Some((most, _)) if quality < most => {}
            Some((most, _)) if quality == most => is_tied = true,
            _ => {
                best = Some((quality, tag));
                is_tied = false;
            }
        }
    }
    !is_tied && best.is_some_and(|(quality, tag)| quality > 0 && tag.eq_ignore_ascii_case(trim(language)))
}

/// A weight in thousandths (RFC 9110 section 12.4.2).
fn quality(parameter: Option<&[u8]>) -> Option<u32> {
    let Some(parameter) = parameter else {
        return Some(1_000);
    };
    let text = std::str::from_utf8(parameter).ok()?;
    let value = text.strip_prefix("q=").or_else(|| text.strip_prefix("Q="))?;
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let thousandths: u32 = format!("{fraction:0<3}").parse().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1_000),
        _ => None,
    }
}
