//! Reads included files: names with stars, relative to the folder of the main file. Decides how long a file may be. The search for
//! `.htaccess` files is in [`super::nested`].

use super::nested;
use convert::{Files, INCLUDES_MAX, Nested, Text};
use runtime::fs::read_small;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Longest configuration file.
const BYTES_MAX: u64 = 4 << 20;

/// The text of a file. Bytes that are not UTF-8 are replaced: old configurations have comments in other encodings.
///
/// # Errors
/// The system's.
pub(super) fn read(path: &Path) -> io::Result<String> {
    read_small(path, BYTES_MAX).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Files relative to a folder.
pub(super) struct Includes {
    folder: PathBuf,
}

impl Includes {
    pub(super) fn of(folder: &Path) -> Includes {
        Includes {
            folder: folder.to_owned(),
        }
    }
}

impl Files for Includes {
    fn read(&self, pattern: &str) -> Result<Vec<Text>, String> {
        let pattern = self.folder.join(pattern);
        let is_literal = !pattern.to_string_lossy().contains(['*', '?']);
        let mut found = expand(&pattern);
        found.sort();
        let mut texts = Vec::new();
        for path in found {
            match read(&path) {
                Ok(text) => texts.push(Text {
                    name: path.display().to_string(),
                    text,
                }),
                Err(_) if !is_literal && path.is_dir() => {}
                Err(error) => return Err(format!("cannot read `{}`: {error}", path.display())),
            }
        }
        Ok(texts)
    }

    fn nested(&self, root: &str) -> Nested {
        nested::search(Path::new(root))
    }
}

/// The paths that a pattern stands for; a literal path is itself.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::new()];
    for component in pattern.components() {
        let wanted = component.as_os_str().to_string_lossy().into_owned();
        let is_pattern = matches!(component, Component::Normal(_)) && wanted.contains(['*', '?']);
        paths = match is_pattern {
            false => paths.into_iter().map(|path| path.join(component)).collect(),
            true => paths
                .iter()
                .flat_map(|path| children(path, &wanted))
                .take(INCLUDES_MAX + 1)
                .collect(),
        };
    }
    paths
}

fn children(folder: &Path, wanted: &str) -> Vec<PathBuf> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    // As by the shell: a star does not stand for a leading dot.
    let fits = names.filter(|name| {
        (!name.starts_with('.') || wanted.starts_with('.')) && is_like(wanted.as_bytes(), name.as_bytes())
    });
    fits.map(|name| folder.join(name)).collect()
}

/// Whether a name matches a pattern with `*` and `?`.
fn is_like(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => is_like(rest, name) || (!name.is_empty() && is_like(pattern, &name[1..])),
        ([b'?', rest @ ..], [_, after @ ..]) => is_like(rest, after),
        ([one, rest @ ..], [other, after @ ..]) => one == other && is_like(rest, after),
        _ => false,
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "the test writes the files that are included"
)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        for (pattern, name, matches) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("*", "x", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*b*c", "aXbYc", true),
        ] {
            assert_eq!(
                is_like(pattern.as_bytes(), name.as_bytes()),
                matches,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn included_files_are_read_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b.conf", "a.conf", ".hidden.conf", "c.txt"] {
            std::fs::write(folder.path().join(name), name).expect("a file");
        }
        std::fs::create_dir(folder.path().join("d.conf")).expect("a folder");
        let includes = Includes::of(folder.path());
        let texts: Vec<String> = includes
            .read("*.conf")
            .unwrap()
            .into_iter()
            .map(|file| file.text)
            .collect();
        assert_eq!(texts, ["a.conf", "b.conf"]);
        assert!(
            includes
                .read("missing.conf")
                .unwrap_err()
                .contains("missing.conf")
        );
        assert_eq!(includes.read("missing/*.conf"), Ok(Vec::new()));
    }
}
