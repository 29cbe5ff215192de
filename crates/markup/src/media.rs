//! Finds media queries that cannot match a screen (Media Queries Level 4, section 3).
//!
//! Knows no viewport, so every feature condition may hold: only the media type decides.

/// Whether a list of media queries may match a screen; an empty list may.
pub fn may_match(list: &[u8]) -> bool {
    let mut queries = list
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .peekable();
    let is_empty = list.trim_ascii().is_empty();
    is_empty || queries.any(query_may_match)
}

fn query_may_match(query: &[u8]) -> bool {
    let mut words = query
        .split(|byte| byte.is_ascii_whitespace() || *byte == b'(')
        .filter(|word| !word.is_empty());
    // A query that begins with a condition applies to all media.
    if query.first().is_none_or(|byte| *byte == b'(') {
        return !query.is_empty();
    }
    let first = words.next().unwrap_or_default();
    let is_not = first.eq_ignore_ascii_case(b"not");
    let kind = match is_not || first.eq_ignore_ascii_case(b"only") {
        true if query
            .get(first.len()..)
            .is_some_and(|rest| rest.trim_ascii().starts_with(b"(")) =>
        {
            return true;
        }
        true => words.next().unwrap_or_default(),
        false => first,
    };
    let is_screen = kind.eq_ignore_ascii_case(b"screen") || kind.eq_ignore_ascii_case(b"all");
    let has_conditions = words.next().is_some();
    if is_not {
        !is_screen || has_conditions
    } else {
        is_screen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_type_decides() {
        for (query, want) in [
            ("", true),
            ("all", true),
            ("SCREEN", true),
            ("only screen and (min-width: 9000px)", true),
            ("(max-width: 1px)", true),
            ("print", false),
            ("print and (color)", false),
            ("speech, tty", false),
            ("print, screen", true),
            ("not print", true),
            ("not all", false),
            ("not screen", false),
            ("not screen and (color)", true),
            ("not (color)", true),
            (",", false),
        ] {
            assert_eq!(may_match(query.as_bytes()), want, "{query}");
        }
    }
}
