//! Path patterns: literal text with at most one `*`, which matches any bytes, including slashes.
//!
//! Paths and patterns are compared in one normalized spelling, in which only bytes that need escaping are escaped
//! (`site::path`).
//!
//! One star covers the needs of sites (`/old/*`, `*.css`, `/assets/*.js`), and both a match and its capture are
//! obvious. More stars would need an order of preference.

use super::values;
use crate::path;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};

/// Most exceptions of a rule: a request is compared with each of them.
pub(super) const EXCEPTIONS_MAX: usize = 1000;

/// A path pattern, in normalized spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    before: String,
    /// The text after the star; `None` without a star.
    after: Option<String>,
}

impl PathPattern {
    /// The part of `path` that the star matches; empty for a pattern without one. `None`: no match. `path` must be
    /// spelled by [`path::spell`] or [`path::encode`].
    pub fn captures<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let rest = path.strip_prefix(self.before.as_bytes())?;
        match &self.after {
            None => rest.is_empty().then_some(rest),
            Some(after) => rest.strip_suffix(after.as_bytes()),
        }
    }

    /// Whether `path`, in normalized spelling, matches.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.captures(path).is_some()
    }

    /// Whether `path`, in normalized spelling, or a path above it matches. `/a/*` also covers `/a`. Upper and lower case
    /// of ASCII letters are equal, because some file systems and upstreams do not tell them apart.
    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let mut above = slashes.flat_map(|(at, _)| [&path[..at], &path[..=at]]);
        self.covers_itself(path) || above.any(|above| self.covers_itself(above))
    }

    /// Whether the pattern may match a path below this one, which ends with a slash, or a path above one.
    pub(crate) fn meets(&self, folder: &str) -> bool {
        let (before, folder) = (self.before.as_bytes(), folder.as_bytes());
        let common = before.len().min(folder.len());
        let is_alike = before[..common].eq_ignore_ascii_case(&folder[..common]);
        is_alike && (before.len() >= folder.len() || self.has_star())
    }

    fn covers_itself(&self, path: &[u8]) -> bool {
        let before = self.before.as_bytes();
        let Some(after) = &self.after else {
            return path.eq_ignore_ascii_case(before);
        };
        if after.is_empty()
            && before
                .strip_suffix(b"/")
                .is_some_and(|end| path.eq_ignore_ascii_case(end))
        {
            return true;
        }
        let Some((start, rest)) = path.split_at_checked(before.len()) else {
            return false;
        };
        let end = rest.len().checked_sub(after.len()).and_then(|at| rest.get(at..));
        start.eq_ignore_ascii_case(before)
            && end.is_some_and(|end| end.eq_ignore_ascii_case(after.as_bytes()))
    }

    /// Whether this pattern covers every path that `inner` covers. If the texts do not show it, the answer is no.
    pub(super) fn covers_all_of(&self, inner: &PathPattern) -> bool {
        if self.matches_all() {
            return true;
        }
        let is_same = |one: Option<&String>, other: Option<&String>| match (one, other) {
            (Some(one), Some(other)) => one.eq_ignore_ascii_case(other),
            (None, None) => true,
            _ => false,
        };
        if self.before.eq_ignore_ascii_case(&inner.before)
            && is_same(self.after.as_ref(), inner.after.as_ref())
        {
            return true;
        }
        let begins = |text: &str| {
            let start = inner.before.as_bytes().get(..text.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(text.as_bytes()))
        };
        match &self.after {
            // All paths that begin like this, and the folder itself.
            Some(after) if after.is_empty() => {
                let folder = self.before.strip_suffix('/');
                let is_folder = |folder: &str| inner.before.eq_ignore_ascii_case(folder);
                begins(&self.before) || (!inner.has_star() && folder.is_some_and(is_folder))
            }
            Some(_) => false,
            // The path itself and all below it.
            None if self.before.ends_with('/') => {
                inner.before.len() > self.before.len() && begins(&self.before)
            }
            None => begins(&format!("{}/", self.before)),
        }
    }

    /// The pattern in normalized spelling. `None` if no normalized path can match it.
    fn spelled(&self) -> Option<PathPattern> {
        // A leading star also matches the leading slash. A sample name in place of the star keeps it from being read as
        // a dot segment.
        let front = if self.before.is_empty() { "/" } else { "" };
        let star = if self.has_star() { "x" } else { "" };
        let begin = [front, &self.before, star].concat();
        let whole = [&*begin, self.after.as_deref().unwrap_or_default()].concat();
        if !is_resolved(&whole) {
            return None;
        }
        let (begin, whole) = (spelled(&begin)?, spelled(&whole)?);
        let before = begin.strip_prefix(front)?.strip_suffix(star)?.to_owned();
        let after = match self.has_star() {
            true => Some(whole.strip_prefix(&*begin)?.to_owned()),
            false => None,
        };
        Some(PathPattern { before, after })
    }

    /// A matching path, with `star` in place of the star.
    pub(crate) fn example(&self, star: &str) -> String {
        match &self.after {
            None => self.before.clone(),
            Some(after) if self.before.is_empty() => format!("/{star}{after}"),
            Some(after) => format!("{}{star}{after}", self.before),
        }
    }

    /// Whether the star's match always begins with a slash: it does if the pattern begins with the star.
    pub(crate) fn begins_with_star(&self) -> bool {
        self.before.is_empty()
    }

    /// Whether every path matches.
    pub(crate) fn matches_all(&self) -> bool {
        matches!(&*self.before, "" | "/") && self.after.as_deref() == Some("")
    }

    /// Whether the pattern contains a star.
    pub fn has_star(&self) -> bool {
        self.after.is_some()
    }
}

/// `/*`: every path.
impl Default for PathPattern {
    fn default() -> PathPattern {
        PathPattern {
            before: "/".to_owned(),
            after: Some(String::new()),
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.after {
            None => f.write_str(&self.before),
            Some(after) => write!(f, "{}*{after}", self.before),
        }
    }
}

impl FromStr for PathPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<PathPattern, String> {
        let plain = |b: u8| (0x21..0x7f).contains(&b) && !b"?#\\".contains(&b);
        if !text.starts_with(['/', '*']) || !text.bytes().all(plain) || text.matches('*').count() > 1 {
            return Err(format!(
                "`{text}` is not a path pattern; write a path with at most one `*`, as in /old/* or *.css"
            ));
        }
        let (before, after) = match text.split_once('*') {
            Some((before, after)) => (before, Some(after.to_owned())),
            None => (text, None),
        };
        let raw = PathPattern {
            before: before.to_owned(),
            after,
        };
        raw.spelled()
            .ok_or_else(|| format!("`{text}` matches no path; write it with `//`, `/./` and `/../` resolved"))
    }
}

impl<'de> Deserialize<'de> for PathPattern {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<PathPattern, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// One pattern or a list of them.
pub(super) fn several<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<PathPattern>, D::Error> {
    values::one_or_several(
        d,
        "these are no path patterns; write a list, as in [\"/assets/*\", \"*.css\"]",
    )
}

/// The same, for a key that may be missing.
pub(super) fn some_several<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<PathPattern>>, D::Error> {
    several(d).map(Some)
}

/// Validates the key `except` of a rule for the paths of `whole`, which is the value of this key.
///
/// # Errors
/// Too many patterns, or one that leaves nothing of the rule.
pub(super) fn validate_exceptions(
    except: &[PathPattern],
    (whole, key): (&PathPattern, &str),
) -> Result<(), String> {
    if except.len() > EXCEPTIONS_MAX {
        return Err(format!(
            "`except` names more than {EXCEPTIONS_MAX} patterns; combine some"
        ));
    }
    match except.iter().find(|one| *one == whole) {
        Some(all) => Err(format!(
            "`except` names `{all}`, which is all of `{key}`; remove it, or the rule"
        )),
        None => Ok(()),
    }
}

fn spelled(text: &str) -> Option<String> {
    let mut out = Vec::new();
    path::spell(text.as_bytes(), &mut out).ok()?;
    String::from_utf8(out).ok()
}

/// Whether a path has no dot segments, and no empty segments except at its end.
fn is_resolved(text: &str) -> bool {
    let mut segments = text.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match http_semantics::target::decode(segment.as_bytes()).as_deref() {
            Ok(b"") if segments.peek().is_some() => return false,
            Ok(b"." | b"..") | Err(_) => return false,
            Ok(_) => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::PathPattern;

    #[test]
    fn one_star_stands_for_anything() {
        for (pattern, path, captured) in [
            ("/a", "/a", Some("")),
            ("/a", "/a/", None),
            ("/old/*", "/old/x/y", Some("x/y")),
            ("/old/*", "/old/", Some("")),
            ("/old/*", "/old", None),
            ("*.css", "/deep/in/s.css", Some("/deep/in/s")),
            ("*.css", "/s.css.map", None),
            ("/a*a", "/a", None),
            ("/a*a", "/aa", Some("")),
            ("*", "/anything", Some("/anything")),
        ] {
            let pattern: PathPattern = pattern.parse().unwrap();
            let wanted = captured.map(str::as_bytes);
            assert_eq!(pattern.captures(path.as_bytes()), wanted, "{pattern:?} {path}");
        }
    }

    #[test]
    fn a_pattern_is_spelled_as_paths_are() {
        for (pattern, spelled) in [
            ("/old", Some("/old")),
            ("/%6fld", Some("/old")),
            ("/old%20*", Some("/old%20*")),
            ("/it's/*", Some("/it%27s/*")),
            ("/a%2fb", Some("/a%2Fb")),
            ("/a%2a*", Some("/a**")),
            ("*", Some("*")),
            ("*/", Some("*/")),
            ("*.css", Some("*.css")),
            ("/a/*/", Some("/a/*/")),
            ("/a/*/b", Some("/a/*/b")),
            ("/a//b", None),
            ("//*", None),
            ("/a/../b", None),
            ("/a/.", None),
            ("/a/%2e%2e/*", None),
            ("*/..", None),
            ("/%zz", None),
        ] {
            let parsed: Result<PathPattern, String> = pattern.parse();
            if let Err(error) = &parsed {
                assert!(error.contains("matches no path"), "{error}");
            }
            let parsed = parsed.ok().map(|pattern| pattern.to_string());
            assert_eq!(parsed.as_deref(), spelled, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_covers_all_below_it_in_any_case() {
        for (pattern, path, covered) in [
            ("/admin", "/admin", true),
            ("/admin", "/admin/", true),
            ("/admin", "/admin/x/y", true),
            ("/admin", "/ADMIN/x", true),
            ("/admin", "/administration", false),
            ("/admin", "/x/admin", false),
            ("/admin/", "/admin/x", true),
            ("/admin/*", "/admin", true),
            ("/admin/*", "/Admin/", true),
            ("/admin/*", "/admin/x", true),
            ("/admin/*", "/administration", false),
            ("/admin*", "/administration", true),
            ("/", "/x", true),
            ("/*", "/", true),
            ("*", "/x/y", true),
            ("*.php", "/x.php", true),
            ("*.php", "/x.PHP/y", true),
            ("*.php", "/x.php.txt", false),
            ("/a*b", "/aXb/c", true),
            ("/a*b", "/a", false),
            ("/a*a", "/a", false),
        ] {
            let parsed: PathPattern = pattern.parse().unwrap();
            assert_eq!(parsed.covers(path.as_bytes()), covered, "{pattern} {path}");
        }
    }

    #[test]
    fn a_wider_pattern_covers_all_of_a_narrower_one() {
        for (outer, inner, covered) in [
            ("/*", "/a", true),
            ("*", "*.php", true),
            ("/*", "*.php", true),
            ("/a*", "*.php", false),
            ("/a/*", "/a/*", true),
            ("/A/*", "/a/b/*", true),
            ("/a/*", "/a", true),
            ("/a/*", "/a*", false),
            ("/a/*", "/ab", false),
            ("/a", "/a/*", true),
            ("/a", "/a/b*c", true),
            ("/a", "/a*", false),
            ("/a", "/ab", false),
            ("/a/", "/a/*", false),
            ("/a/", "/a/b", true),
            ("/a*", "/ab/c", true),
            ("/a*", "/a", true),
            ("*.php", "*.PHP", true),
            ("*.php", "/a.php", false),
            ("/", "/a", true),
        ] {
            let [one, other]: [PathPattern; 2] = [outer, inner].map(|text| text.parse().unwrap());
            assert_eq!(one.covers_all_of(&other), covered, "{outer} {inner}");
            // No path contradicts it.
            let paths = [
                "/", "/a", "/a/", "/A/b", "/ab", "/ab/c", "/a.php", "/x.php/y", "/a/bc", "/x",
            ];
            for path in paths.map(str::as_bytes) {
                assert!(
                    !covered || !other.covers(path) || one.covers(path),
                    "{outer} {inner}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_pattern_is_said() {
        for text in ["", "old/*", "/a*b*", "/a b", "/a?b", "/ü"] {
            let error = text.parse::<PathPattern>().unwrap_err();
            assert!(error.contains("as in /old/*"), "{error}");
        }
    }
}
