//! Media type negotiation for a file server (RFC 9110 section 12.5.1): does the client accept a page, and does it
//! prefer JSON?

use http_semantics::field::{Fields, members, trim};

/// Weight of a media type in `Accept`, in thousandths; 0 means "not acceptable". Without the field, every type is
/// acceptable.
pub(super) fn weight(fields: &Fields<'_, '_>, kind: &str, subtype: &str) -> u16 {
    let mut best = None;
    let mut present = false;
    for value in lines(fields) {
        present = true;
        for member in members(value) {
            let (range, weight) = split(member);
            let specific = match range.iter().position(|&b| b == b'/') {
                Some(slash) => {
                    let (k, s) = (&range[..slash], &range[slash + 1..]);
                    match (k, s) {
                        (b"*", b"*") => 1,
                        (k, b"*") if k.eq_ignore_ascii_case(kind.as_bytes()) => 2,
                        (k, s)
                            if k.eq_ignore_ascii_case(kind.as_bytes())
                                && s.eq_ignore_ascii_case(subtype.as_bytes()) =>
                        {
                            3
                        }
                        _ => 0,
                    }
                }
                None => 0,
            };
            if specific > best.map_or(0, |(s, _)| s) {
                best = Some((specific, weight));
            }
        }
    }
    match best {
        Some((_, weight)) => weight,
        None if present => 0,
        None => 1_000,
    }
}

/// Whether the client prefers JSON to a page: by weight, or by naming it first among equals, as programs do that want
/// data.
pub(super) fn prefers_json(fields: &Fields<'_, '_>) -> bool {
    let (json, html) = (
        weight(fields, "application", "json"),
        weight(fields, "text", "html"),
    );
    let is_first = || {
        let first = lines(fields).next().and_then(|value| members(value).next());
        first.is_some_and(|first| split(first).0.eq_ignore_ascii_case(b"application/json"))
    };
    json > html || (json > 0 && json == html && is_first())
}

fn lines<'b>(fields: &Fields<'b, '_>) -> impl Iterator<Item = &'b [u8]> {
    fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("accept"))
        .map(|(_, value)| value)
}

/// A media range and its weight. Other parameters do not matter for files.
fn split(member: &[u8]) -> (&[u8], u16) {
    let mut parts = member.split(|&b| b == b';').map(trim);
    let range = parts.next().unwrap_or_default();
    let weight = parts
        .find_map(|p| p.strip_prefix(b"q=").or_else(|| p.strip_prefix(b"Q=")))
        .map_or(1_000, thousandths);
    (range, weight)
}

/// A weight with at most three decimals. An invalid weight counts as 1, so that no client is rejected for its spelling.
fn thousandths(text: &[u8]) -> u16 {
    let digits = match text {
        [b'0'] => return 0,
        [b'0', b'.', digits @ ..] if digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) => digits,
        _ => return 1_000,
    };
    (0..3).fold(0, |n, i| {
        n * 10 + u16::from(digits.get(i).map_or(0, |d| d - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::server::{Connection, Step};
    use http1::slots::Slots;

    fn with<T>(accept: Option<&str>, ask: impl FnOnce(&Fields<'_, '_>) -> T) -> T {
        let line = accept.map(|a| format!("Accept: {a}\r\n")).unwrap_or_default();
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n");
        let mut slots = Slots::new();
        match Connection::new().receive(head.as_bytes(), &mut slots, &http1::Limits::DEFAULT) {
            Ok(Step::Request { head, .. }) => ask(&head.fields),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_most_specific_range_decides() {
        for (accept, html, json) in [
            (None, 1_000, 1_000),
            (Some("*/*"), 1_000, 1_000),
            (Some("text/html"), 1_000, 0),
            (Some("application/json;q=0.5, text/*;q=0.25"), 250, 500),
            (Some("*/*;q=0.1, text/html;q=0, application/json"), 0, 1_000),
            (Some("image/png"), 0, 0),
            (Some("text/html;level=1;q=0.30"), 300, 0),
            (Some("TEXT/HTML"), 1_000, 0),
        ] {
            let got = with(accept, |f| {
                (weight(f, "text", "html"), weight(f, "application", "json"))
            });
            assert_eq!(got, (html, json), "{accept:?}");
        }
    }

    #[test]
    fn json_is_for_those_who_like_it_better() {
        for (accept, json) in [
            (None, false),
            (Some("*/*"), false),
            (Some("application/json"), true),
            (Some("application/json, text/plain, */*"), true),
            (Some("text/html, application/json"), false),
            (Some("application/json;q=0"), false),
            (Some("application/json;q=0, */*;q=0"), false),
            (Some("application/json;q=0.1, text/html"), false),
            (Some("text/html;q=0.5, application/json;q=0.6"), true),
        ] {
            assert_eq!(with(accept, prefers_json), json, "{accept:?}");
        }
    }
}
