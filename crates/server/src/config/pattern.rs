//! Patterns of paths: literal text with at most one `*`, which stands for any bytes, slashes included.
//!
//! One star says what sites need (`/old/*`, `*.css`, `/assets/*.js`) and makes a match and what it
//! captured plain to see; more would need an order of preference nobody remembers.

use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};

/// What a path must look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    before: String,
    /// What follows the star, if there is one.
    after: Option<String>,
}

impl PathPattern {
    /// What the star stands for in `path`; empty for a pattern without one. `None`: no match.
    pub fn captures<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let rest = path.strip_prefix(self.before.as_bytes())?;
        match &self.after {
            None => rest.is_empty().then_some(rest),
            Some(after) => rest.strip_suffix(after.as_bytes()),
        }
    }

    /// Whether it matches.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.captures(path).is_some()
    }

    /// Whether there is a star.
    pub fn has_star(&self) -> bool {
        self.after.is_some()
    }
}

impl FromStr for PathPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<PathPattern, String> {
        let plain = |b: u8| (0x21..0x7f).contains(&b) && !b"?#\\".contains(&b);
        if !text.starts_with(['/', '*']) || !text.bytes().all(plain) || text.matches('*').count() > 1 {
            return Err(format!(
                "`{text}` is no path pattern; write a path with at most one `*`, as in /old/* or *.css"
            ));
        }
        Ok(match text.split_once('*') {
            Some((before, after)) => PathPattern {
                before: before.to_owned(),
                after: Some(after.to_owned()),
            },
            None => PathPattern {
                before: text.to_owned(),
                after: None,
            },
        })
    }
}

impl<'de> Deserialize<'de> for PathPattern {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<PathPattern, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
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
    fn what_is_no_pattern_is_said() {
        for text in ["", "old/*", "/a*b*", "/a b", "/a?b", "/ü"] {
            let error = text.parse::<PathPattern>().unwrap_err();
            assert!(error.contains("as in /old/*"), "{error}");
        }
    }
}
