//! The field `If` (RFC 4918 section 10.4): a condition on the state of files and their locks, and the tokens by which a client shows
//! that it knows of a lock.

use super::asked::Place;
use super::desk::{Desk, etag};
use super::reply::Reply;
use http1::head::Request;
use runtime::fs::Kind;

/// Most conditions of a field. Each may look at a file.
const CONDITIONS_MAX: usize = 100;

/// A list: all of its conditions must hold. The field holds if one of its lists does.
#[derive(Debug, Default, PartialEq, Eq)]
struct List<'f> {
    /// URL of the resource that the conditions are about. `None`: that of the request.
    resource: Option<&'f [u8]>,
    conditions: Vec<Condition<'f>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Condition<'f> {
    is_negated: bool,
    state: State<'f>,
}

/// What a resource is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State<'f> {
    /// A lock with this token.
    Token(&'f [u8]),
    /// This entity tag, in its quotes.
    Tag(&'f [u8]),
}

/// Whether the condition of a request holds, if it has one.
///
/// # Errors
/// 400 for a field that cannot be read.
pub(super) fn holds(desk: &Desk, head: &Request<'_, '_>, place: &Place) -> Result<bool, Reply> {
    let Some(lists) = lists(head)? else {
        return Ok(true);
    };
    Ok(lists.iter().any(|list| {
        // Elsewhere, nothing is known to be locked, and nothing has a tag.
        let about = match list.resource {
            None => Some(place.clone()),
            Some(url) => Place::of_url(&desk.settings, head, url).ok(),
        };
        let mut conditions = list.conditions.iter();
        conditions.all(|condition| {
            let is_so = about.as_ref().is_some_and(|about| match condition.state {
                State::Token(token) => {
                    let locks = desk.locks.covering(about, desk.now());
                    locks.iter().any(|lock| lock.token.as_bytes() == token)
                }
                State::Tag(tag) => {
                    let meta = desk.folder.meta(&about.names());
                    meta.is_ok_and(|meta| meta.kind == Kind::File && etag(&meta).as_bytes() == tag)
                }
            });
            is_so != condition.is_negated
        })
    }))
}

/// The tokens that a request submits: by naming them, whatever their lists say.
///
/// # Errors
/// 400 for a field that cannot be read.
pub(super) fn tokens<'b>(head: &Request<'b, '_>) -> Result<Vec<&'b [u8]>, Reply> {
    let lists = lists(head)?.unwrap_or_default();
    let conditions = lists.iter().flat_map(|list| &list.conditions);
    let tokens = conditions.filter_map(|condition| match condition.state {
        State::Token(token) => Some(token),
        State::Tag(_) => None,
    });
    Ok(tokens.collect())
}

fn lists<'b>(head: &Request<'b, '_>) -> Result<Option<Vec<List<'b>>>, Reply> {
    let named = |(name, _): &(&str, &[u8])| name.eq_ignore_ascii_case("if");
    let mut values = head.fields.iter().filter(named).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => parse(value).map(Some).ok_or_else(|| {
            Reply::error(
                400,
                format!(
                    "The field `If` is malformed, or has more than {CONDITIONS_MAX} conditions (RFC 4918 section 10.4)."
                ),
            )
        }),
        (Some(_), Some(_)) => Err(Reply::error(400, "There are several fields `If`.")),
    }
}

/// The lists of a field. `None`: it is malformed, or has too many conditions.
fn parse(mut rest: &[u8]) -> Option<Vec<List<'_>>> {
    let mut lists: Vec<List<'_>> = Vec::new();
    let mut resource = None;
    let mut count = 0;
    loop {
        rest = rest.trim_ascii_start();
        match rest.first() {
            None if lists.is_empty() => return None,
            None => return Some(lists),
            // Lists without a resource do not stand before those with one.
            Some(b'<') if resource.is_none() && !lists.is_empty() => return None,
            Some(b'<') => {
                let (url, after) = until(&rest[1..], b'>')?;
                resource = Some(url);
                rest = after.trim_ascii_start();
                if rest.first() != Some(&b'(') {
                    return None;
                }
            }
            Some(b'(') => {
                let (conditions, after) = conditions(&rest[1..])?;
                count += conditions.len();
                if count > CONDITIONS_MAX {
                    return None;
                }
                lists.push(List { resource, conditions });
                rest = after;
            }
            Some(_) => return None,
        }
    }
}

/// The conditions up to the end of a list, of which there is at least one, and what follows.
fn conditions(mut rest: &[u8]) -> Option<(Vec<Condition<'_>>, &[u8])> {
    let mut conditions = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        if let Some(after) = rest.strip_prefix(b")") {
            return (!conditions.is_empty()).then_some((conditions, after));
        }
        let is_negated = rest
            .get(..3)
            .is_some_and(|word| word.eq_ignore_ascii_case(b"not"));
        if is_negated {
            rest = rest[3..].trim_ascii_start();
        }
        let state = match rest.first()? {
            b'<' => {
                let (token, after) = until(&rest[1..], b'>')?;
                rest = after;
                State::Token(token)
            }
            b'[' => {
                let tag = &rest[1..];
                let opening = if tag.starts_with(b"W/") { 2 } else { 0 };
                if tag.get(opening) != Some(&b'"') {
                    return None;
                }
                let (opaque, after) = until(&tag[opening + 1..], b'"')?;
                rest = after.strip_prefix(b"]")?;
                State::Tag(&tag[..opening + opaque.len() + 2])
            }
            _ => return None,
        };
        conditions.push(Condition { is_negated, state });
        if conditions.len() > CONDITIONS_MAX {
            return None;
        }
    }
}

/// What is before the first such byte, and what is behind it.
fn until(text: &[u8], end: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&b| b == end)?;
    Some((&text[..at], &text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(state: State<'_>, is_negated: bool) -> Condition<'_> {
        Condition { is_negated, state }
    }

    #[test]
    fn lists_are_read() {
        let token = State::Token(b"urn:uuid:1");
        let list = |resource, conditions| List { resource, conditions };
        for (text, expected) in [
            (
                &b"(<urn:uuid:1>)"[..],
                vec![list(None, vec![condition(token, false)])],
            ),
            (
                b" (<urn:uuid:1> [\"a]b\"]) ( Not<urn:uuid:1> not [W/\"x\"] )",
                vec![
                    list(
                        None,
                        vec![condition(token, false), condition(State::Tag(b"\"a]b\""), false)],
                    ),
                    list(
                        None,
                        vec![condition(token, true), condition(State::Tag(b"W/\"x\""), true)],
                    ),
                ],
            ),
            (
                b"<http://h/a> (<urn:uuid:1>)([\"t\"]) </b>(<urn:uuid:1>)",
                vec![
                    list(Some(b"http://h/a"), vec![condition(token, false)]),
                    list(Some(b"http://h/a"), vec![condition(State::Tag(b"\"t\""), false)]),
                    list(Some(b"/b"), vec![condition(token, false)]),
                ],
            ),
        ] {
            assert_eq!(parse(text), Some(expected), "{}", text.escape_ascii());
        }
        for text in [
            "",
            "()",
            "(",
            "(<a>",
            "(<a)",
            "(a)",
            "([a])",
            "([\"a\")",
            "(Not)",
            "<a>",
            "<a> <b> (<c>)",
            "(<a>) <b> (<c>)",
            "(<a>) x",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn conditions_are_bounded_in_a_list_and_together() {
        let one = |count: usize| format!("({})", "<a>".repeat(count));
        let many = |count: usize| "(<a>)".repeat(count);
        for text in [one(CONDITIONS_MAX), many(CONDITIONS_MAX)] {
            assert!(parse(text.as_bytes()).is_some());
        }
        for text in [one(CONDITIONS_MAX + 1), many(CONDITIONS_MAX + 1)] {
            assert!(parse(text.as_bytes()).is_none());
        }
    }
}
