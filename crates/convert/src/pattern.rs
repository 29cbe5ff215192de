//! Path patterns of Weir: literal text with at most one star. Decides which texts are patterns, and whether one matches.

/// A pattern in Weir's spelling, or `None` if Weir would reject the text.
pub(crate) fn pattern(text: &str) -> Option<String> {
    let is_plain = |b: u8| (0x21..0x7f).contains(&b) && !b"?#\\%".contains(&b);
    let is_valid =
        text.starts_with(['/', '*']) && text.bytes().all(is_plain) && text.matches('*').count() <= 1;
    let mut parts = text.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        if matches!(part, "." | "..") || (part.is_empty() && !is_last) {
            return None;
        }
    }
    is_valid.then(|| text.to_owned())
}

/// Whether a path matches a pattern.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((before, after)) => path
            .strip_prefix(before)
            .is_some_and(|rest| rest.len() >= after.len() && rest.ends_with(after)),
    }
}

/// Whether every path that matches `inner` also matches `outer`.
pub(crate) fn covers(outer: &str, inner: &str) -> bool {
    match (outer.split_once('*'), inner.split_once('*')) {
        (None, None) => outer == inner,
        (None, Some(_)) => false,
        (Some(_), None) => matches(outer, inner),
        (Some((before, after)), Some((start, end))) => {
            // A leading star also stands for the leading slash.
            let start = if start.is_empty() { "/" } else { start };
            start.starts_with(before) && end.ends_with(after)
        }
    }
}

/// The shortest path that matches a pattern.
pub(crate) fn shortest(pattern: &str) -> String {
    let path = pattern.replacen('*', "", 1);
    match path.starts_with('/') {
        true => path,
        // A leading star also stands for the leading slash.
        false => format!("/{path}"),
    }
}

/// Whether a pattern is for all paths.
pub(crate) fn covers_all(pattern: &str) -> bool {
    matches!(pattern, "*" | "/*")
}

/// Whether a path may match both patterns.
pub(crate) fn overlaps(one: &str, other: &str) -> bool {
    match (one.split_once('*'), other.split_once('*')) {
        (None, None) => one == other,
        (None, Some(_)) => matches(other, one),
        (Some(_), None) => matches(one, other),
        (Some((before, after)), Some((start, end))) => {
            (before.starts_with(start) || start.starts_with(before))
                && (after.ends_with(end) || end.ends_with(after))
        }
    }
}

/// The patterns of the paths that match both of two.
pub(crate) fn meet(one: &str, other: &str) -> Vec<String> {
    if covers(one, other) {
        return vec![other.to_owned()];
    }
    if covers(other, one) {
        return vec![one.to_owned()];
    }
    let (Some((before, after)), Some((start, end))) = (one.split_once('*'), other.split_once('*')) else {
        return Vec::new();
    };
    if !overlaps(one, other) {
        return Vec::new();
    }
    let (before, after) = (
        if before.len() > start.len() { before } else { start },
        if after.len() > end.len() { after } else { end },
    );
    // Paths in which the end of the beginning is the beginning of the end.
    let shared = (1..=after.len()).filter(|count| {
        let text = after.get(..*count);
        text.is_some_and(|text| before.ends_with(text))
    });
    let short = shared.map(|count| format!("{before}{}", &after[count..]));
    let all = core::iter::once(format!("{before}*{after}")).chain(short);
    all.filter_map(|path| pattern(&path)).collect()
}

/// The paths that match a pattern of both lists.
pub(crate) fn meet_all(some: &[String], others: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for path in some
        .iter()
        .flat_map(|one| others.iter().flat_map(move |other| meet(one, other)))
    {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// A redirect target that Weir accepts for this pattern: a path or an address, with a star only where both have one.
pub(crate) fn is_target(from: &str, to: &str) -> bool {
    let is_plain = |b: u8| (0x21..0x7f).contains(&b) && !b"\"<>\\^`{|}$".contains(&b);
    let address = to.strip_prefix("https://").or_else(|| to.strip_prefix("http://"));
    let is_path = to.starts_with('/') && !to.starts_with("//");
    let stars = to.matches('*').count();
    let is_behind_fragment = to
        .split_once('#')
        .is_some_and(|(_, fragment)| fragment.contains('*'));
    let host =
        address.map(|address| address.split_at(address.find(['/', '?', '#', '*']).unwrap_or(address.len())));
    let is_host = host.is_none_or(|(host, rest)| {
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b);
        !host.is_empty() && host.bytes().all(is_name) && (!rest.starts_with('*') || from.starts_with('*'))
    });
    // The target must not be redirected again by the same rule.
    let example = to.split(['?', '#']).next().unwrap_or(to).replace('*', "x");
    (is_path || address.is_some())
        && to.bytes().all(is_plain)
        && stars <= usize::from(from.contains('*'))
        && !is_behind_fragment
        && is_host
        && !(is_path && matches(from, &example))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_resolved_paths_with_one_star() {
        for (text, is_pattern) in [
            ("/a/*", true),
            ("*.css", true),
            ("/", true),
            ("/a/", true),
            ("a", false),
            ("/a//b", false),
            ("/a/../b", false),
            ("/a*b*", false),
            ("/a b", false),
            ("/a%20b", false),
        ] {
            assert_eq!(pattern(text).is_some(), is_pattern, "{text}");
        }
    }

    #[test]
    fn the_star_of_the_shortest_path_stands_for_nothing() {
        for (pattern, path) in [
            ("/a/*", "/a/"),
            ("/a*.html", "/a.html"),
            ("*.html", "/.html"),
            ("*/b", "/b"),
            ("*", "/"),
            ("/a", "/a"),
        ] {
            assert_eq!(shortest(pattern), path, "{pattern}");
            assert!(matches(pattern, path), "{pattern}");
        }
    }

    #[test]
    fn a_wider_pattern_covers_a_narrower_one() {
        for (outer, inner, covered) in [
            ("/*", "/a/*", true),
            ("/*", "*.css", true),
            ("*", "/a", true),
            ("/a/*", "/a/b", true),
            ("/a/*", "/*", false),
            ("*.css", "/a/*.css", true),
            ("*.css", "/a/*", false),
        ] {
            assert_eq!(covers(outer, inner), covered, "{outer} {inner}");
        }
    }

    #[test]
    fn patterns_overlap_if_a_path_matches_both() {
        for (one, other, expected) in [
            ("/a/*", "*.css", true),
            ("/a/*", "/*", true),
            ("*", "/a", true),
            ("/a", "/a", true),
            ("/a/*", "/b/*", false),
            ("*.css", "*.js", false),
            ("/a/*", "/a", false),
        ] {
            assert_eq!(overlaps(one, other), expected, "{one} {other}");
            assert_eq!(overlaps(other, one), expected, "{other} {one}");
        }
    }

    #[test]
    fn the_paths_of_two_patterns_are_patterns() {
        for (one, other, both) in [
            ("/a/*", "*.png", &["/a/*.png"][..]),
            ("/a/*", "/a/b*", &["/a/b*"]),
            ("/a/*", "/*", &["/a/*"]),
            ("/a/*", "*/b", &["/a/*/b", "/a/b"]),
            ("/a/*", "/b/*", &[]),
            ("/a/*", "/a/b", &["/a/b"]),
            ("*.tar.gz", "*.gz", &["*.tar.gz"]),
            ("/a", "*.png", &[]),
        ] {
            assert_eq!(meet(one, other), both, "{one} {other}");
            assert_eq!(meet(other, one), both, "{other} {one}");
        }
    }

    #[test]
    fn targets_lead_elsewhere() {
        for (from, to, is_valid) in [
            ("/old/*", "/new/*", true),
            ("*", "https://example.org*", true),
            ("/a*", "https://example.org*", false),
            ("/a", "/b/*", false),
            ("/a*", "/ab", false),
            ("/a", "//host", false),
            ("/a", "/b$1", false),
            ("/a", "ftp://x", false),
            ("/a", "https://$host/x", false),
        ] {
            assert_eq!(is_target(from, to), is_valid, "{from} {to}");
        }
    }
}
