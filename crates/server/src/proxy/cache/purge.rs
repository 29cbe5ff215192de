//! Which stored responses an operator drops: all, those of a path, or those with a tag.
//!
//! Tags are those of the response fields `Cache-Tag` (separated by commas) and `Surrogate-Key` (separated by spaces).

use super::purges::TEXT_MAX;
use core::fmt;
use core::str::FromStr;
use http_semantics::field::Line;

/// What is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// Responses for this path as clients spell it, with any query; below it, if it ends in a star.
    Path(String),
    /// Responses with this tag.
    Tag(String),
}

/// A text that names nothing to drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeError;

impl fmt::Display for PurgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write all, path and a path that begins with a slash, or tag and a tag, as in path /api/*; at most 500 bytes",
        )
    }
}

impl std::error::Error for PurgeError {}

impl fmt::Display for Purge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Purge::All => f.write_str("all"),
            Purge::Path(path) => write!(f, "path {path}"),
            Purge::Tag(tag) => write!(f, "tag {tag}"),
        }
    }
}

impl FromStr for Purge {
    type Err = PurgeError;

    fn from_str(text: &str) -> Result<Purge, PurgeError> {
        let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if text.len() > TEXT_MAX {
            return Err(PurgeError);
        }
        match text.split_once(' ') {
            None if text == "all" => Ok(Purge::All),
            Some(("path", path)) if path.starts_with('/') && is_plain(path) => {
                Ok(Purge::Path(path.to_owned()))
            }
            Some(("tag", tag)) if is_plain(tag) && !tag.contains(',') => Ok(Purge::Tag(tag.to_owned())),
            _ => Err(PurgeError),
        }
    }
}

impl Purge {
    /// Whether a stored response with these field lines is dropped.
    pub(super) fn picks(&self, key: &[u8], lines: &[Line<'_>]) -> bool {
        match self {
            Purge::All => true,
            Purge::Path(path) => {
                let target = key.rsplit(|&b| b == 0).next().unwrap_or_default();
                let its = target.split(|&b| b == b'?').next().unwrap_or_default();
                match path.strip_suffix('*') {
                    Some(above) => its.starts_with(above.as_bytes()),
                    None => its == path.as_bytes(),
                }
            }
            Purge::Tag(tag) => lines.iter().any(|line| {
                let Some(separator) = separator(line.name) else {
                    return false;
                };
                let mut tags = line.value.split(|&b| b == separator).map(<[u8]>::trim_ascii);
                tags.any(|its| its == tag.as_bytes())
            }),
        }
    }
}

/// Whether a field of this name has tags.
pub(super) fn is_tagged(name: &str) -> bool {
    separator(name).is_some()
}

/// What separates the tags in a field of this name.
fn separator(name: &str) -> Option<u8> {
    match name {
        name if name.eq_ignore_ascii_case("cache-tag") => Some(b','),
        name if name.eq_ignore_ascii_case("surrogate-key") => Some(b' '),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_named() {
        for text in ["all", "path /a", "path /a/*", "tag x"] {
            assert_eq!(text.parse::<Purge>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "path",
            "path a",
            "path /a b",
            "tag",
            "tag a,b",
            "tag ",
            "everything",
            &format!("tag {}", "x".repeat(TEXT_MAX)),
        ] {
            assert_eq!(text.parse::<Purge>(), Err(PurgeError), "{text}");
        }
        let lines = [
            Line {
                name: "Cache-Tag",
                value: b"a, b",
            },
            Line {
                name: "surrogate-key",
                value: b"c d",
            },
        ];
        for (purge, picks) in [
            ("all", true),
            ("path /x/y", true),
            ("path /x", false),
            ("path /x*", true),
            ("path /x/*", true),
            ("path /y*", false),
            ("tag a", true),
            ("tag b", true),
            ("tag d", true),
            ("tag c d", false),
            ("tag x", false),
        ] {
            if let Ok(purge) = purge.parse::<Purge>() {
                assert_eq!(purge.picks(b"p\0host\0/x/y?q", &lines), picks, "{purge}");
            }
        }
    }
}
