//! Which stored responses a request makes invalid (RFC 9111 section 4.4).

use http_semantics::field::{Fields, Name};
use http_semantics::method::Method;

/// Whether a request with this method and response makes what is stored for its target invalid.
pub const fn is_due(method: Method, status: u16) -> bool {
    let is_safe = matches!(
        method,
        Method::Get | Method::Head | Method::Options | Method::Trace
    );
    !is_safe && status >= 200 && status < 400
}

/// Targets of the same origin that the response names, in origin form: those of `Location` and `Content-Location`.
/// `authority` and `target` are those of the request. References to other origins are left out.
pub fn targets(fields: &Fields<'_, '_>, authority: &[u8], target: &[u8]) -> Vec<Vec<u8>> {
    let named = [fields.get(Name::Location), fields.find("content-location")];
    named
        .into_iter()
        .flatten()
        .filter_map(|reference| resolve(reference, authority, target))
        .collect()
}

/// Resolves a reference of the same origin (RFC 3986 section 5.2), without its fragment. `None` for other origins.
pub fn resolve(reference: &[u8], authority: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let reference = reference.split(|&b| b == b'#').next().unwrap_or_default();
    let lower: Vec<u8> = reference.iter().take(8).map(u8::to_ascii_lowercase).collect();
    let after = [&b"https://"[..], b"http://", b"//"]
        .into_iter()
        .find(|scheme| lower.starts_with(scheme))
        .map(|scheme| &reference[scheme.len()..]);
    if let Some(after) = after {
        let end = after
            .iter()
            .position(|b| matches!(b, b'/' | b'?'))
            .unwrap_or(after.len());
        let (host, rest) = after.split_at(end);
        if !host.eq_ignore_ascii_case(authority) {
            return None;
        }
        return Some(match rest.first() {
            Some(b'/') => without_dots(rest),
            _ => [b"/", rest].concat(),
        });
    }
    let path_end = |text: &[u8]| text.iter().position(|&b| b == b'?').unwrap_or(text.len());
    let path = &target[..path_end(target)];
    match reference.first() {
        None => Some(target.to_vec()),
        Some(b'/') => Some(without_dots(reference)),
        Some(b'?') => Some([path, reference].concat()),
        // Another scheme.
        Some(_)
            if reference
                .iter()
                .take_while(|b| !matches!(b, b'/' | b'?'))
                .any(|&b| b == b':') =>
        {
            None
        }
        Some(_) => {
            let folder = path
                .iter()
                .rposition(|&b| b == b'/')
                .map_or(&b"/"[..], |at| &path[..=at]);
            Some(without_dots(&[folder, reference].concat()))
        }
    }
}

/// Removes dot segments from the path of a target (RFC 3986 section 5.2.4).
fn without_dots(target: &[u8]) -> Vec<u8> {
    let end = target.iter().position(|&b| b == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at(end);
    let mut kept: Vec<&[u8]> = Vec::new();
    let segments: Vec<&[u8]> = path.split(|&b| b == b'/').skip(1).collect();
    for (at, &segment) in segments.iter().enumerate() {
        let is_last = at + 1 == segments.len();
        match segment {
            b"." | b".." => {
                if segment == b".." {
                    kept.pop();
                }
                if is_last {
                    kept.push(b"");
                }
            }
            _ => kept.push(segment),
        }
    }
    let mut out = Vec::with_capacity(target.len());
    for segment in kept {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if out.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(query);
    out
}
