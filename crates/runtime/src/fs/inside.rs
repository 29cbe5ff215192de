//! Which absolute paths lie in a directory, judged by their spelling.
//!
//! Decides which part of an absolute link's target is left once the directory's own path is removed from its front.
//! This reads nothing on disk, so nothing outside the directory is touched and no concurrent change affects the result.
//! The rest is resolved beneath the directory like any other path.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The absolute paths of one directory: as it was named, and with its links resolved.
#[derive(Clone, Debug, Default)]
pub(super) struct Spellings(Vec<PathBuf>);

impl Spellings {
    pub(super) fn of(directory: &Path) -> Spellings {
        let resolved = std::fs::canonicalize(directory).ok();
        let named = std::path::absolute(directory).ok();
        let mut spellings: Vec<PathBuf> = resolved.into_iter().chain(named).collect();
        spellings.dedup();
        Spellings(spellings)
    }

    /// The part of this absolute path after the directory's path; `None` if it leads elsewhere.
    pub(super) fn below<'t>(&self, target: &'t [u8]) -> Option<&'t [u8]> {
        self.0
            .iter()
            .find_map(|spelling| strip(spelling.as_os_str().as_bytes(), target))
    }
}

/// `path` without the names of `base`. Names are compared literally: `..` equals only itself.
fn strip<'t>(base: &[u8], path: &'t [u8]) -> Option<&'t [u8]> {
    names(base).try_fold(path, |left, name| {
        let left = skip(left);
        let end = left.iter().position(|&b| b == b'/').unwrap_or(left.len());
        (left[..end] == *name).then(|| &left[end..])
    })
}

fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&b| b == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
}

/// Without leading slashes and single dots.
fn skip(mut path: &[u8]) -> &[u8] {
    loop {
        path = match path {
            [b'/', rest @ ..] | [b'.', rest @ ..] if path[0] == b'/' || rest.first() == Some(&b'/') => rest,
            _ => return path,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_a_directory_by_its_names() {
        let spellings = Spellings(vec!["/srv/releases/7".into(), "/srv/current".into()]);
        for (target, rest) in [
            ("/srv/releases/7/a/b", Some("/a/b")),
            ("/srv/current/a", Some("/a")),
            ("//srv/./current//a/", Some("//a/")),
            ("/srv/current", Some("")),
            ("/srv/current/", Some("/")),
            ("/srv/current/../x", Some("/../x")),
            ("/srv/current.old/a", None),
            ("/srv/releases/7x", None),
            ("/srv/releases", None),
            ("/srv/../srv/current/a", None),
            ("/srv/.current/a", None),
            ("/", None),
            ("/etc/passwd", None),
        ] {
            let below = spellings.below(target.as_bytes());
            assert_eq!(below, rest.map(str::as_bytes), "{target}");
        }
        let whole = Spellings(vec!["/".into()]);
        assert_eq!(whole.below(b"/etc/passwd"), Some(&b"/etc/passwd"[..]));
    }
}
