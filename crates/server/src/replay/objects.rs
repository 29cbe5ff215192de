//! Facts about the objects of a log: which path a request target means, whether it is a page or part of one, and, if
//! the files are available, its length and the files it embeds.

use crate::media_type::MediaType;
use crate::path;
use crate::references::{self, Base, Stream, scan};
use runtime::fs::{How, Kind as FileKind, Root, Symlinks, Wait};

/// The probable kind of a file, judged by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// HTML.
    Page,
    /// A file that pages embed: images, styles, scripts, fonts.
    Part,
    /// Any other file.
    Other,
}

/// The path that a request target means, resolved as in the server: without query, decoded, normalized. `None` if it
/// means no path, or one that is not served.
pub fn resolve(target: &[u8]) -> Option<Vec<u8>> {
    let target = match target.first() {
        Some(b'/') => target,
        // The absolute form: the path follows the authority.
        _ => {
            let scheme = memchr::memmem::find(target, b"://")?;
            let authority = &target[scheme + 3..];
            let slash = memchr::memchr(b'/', authority)?;
            &authority[slash..]
        }
    };
    let end = memchr::memchr2(b'?', b'#', target).unwrap_or(target.len());
    let mut out = Vec::new();
    path::resolve(&target[..end], false, &mut out).ok()?;
    Some(out)
}

/// The probable kind of a resolved path.
pub fn classify(path: &[u8]) -> Kind {
    let name = path::name(path);
    if name.is_empty() {
        return Kind::Page;
    }
    let media_type = MediaType::of(name, None, &[]).value;
    let is = |prefix: &[u8]| media_type.starts_with(prefix);
    if is(b"text/html") || is(b"application/xhtml+xml") {
        Kind::Page
    } else if [
        &b"image/"[..],
        b"font/",
        b"text/css",
        b"text/javascript",
        b"application/manifest+json",
    ]
    .iter()
    .any(|prefix| is(prefix))
    {
        Kind::Part
    } else {
        Kind::Other
    }
}

/// The facts taken from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Length in bytes.
    pub size: u64,
    /// Paths of the files it embeds, if it is a page.
    pub references: Vec<Box<[u8]>>,
}

/// Examines the file of a resolved path below a root, or the index of a directory. `None` if there is no readable file.
pub fn look(root: &Root, path: &[u8]) -> Option<Known> {
    let how = How {
        symlinks: Symlinks::FollowWithinRoot,
        wait: Wait::Block,
    };
    let mut name = path.strip_prefix(b"/")?.to_vec();
    if path.ends_with(b"/") {
        name.extend_from_slice(b"index.html");
    }
    let file = root
        .open_file(&name, how)
        .ok()
        .filter(|file| file.meta().kind == FileKind::File)?;
    let embedded = match classify(path) {
        Kind::Page => scan(
            Stream::of(&file),
            Base::of_page(path, false),
            &references::Limits::DEFAULT,
        ),
        Kind::Part | Kind::Other => Vec::new(),
    };
    let references = embedded.into_iter().map(|one| one.path).collect();
    Some(Known {
        size: file.meta().len,
        references,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_mean_paths() {
        for (target, want) in [
            ("/a?b", Some("/a")),
            ("/a%20b/../c", Some("/c")),
            ("http://example.org/x?y", Some("/x")),
            ("http://example.org", None),
            ("*", None),
            ("/.git/config", None),
            ("example.org:443", None),
        ] {
            let got = resolve(target.as_bytes());
            assert_eq!(got.as_deref(), want.map(str::as_bytes), "{target}");
        }
    }

    #[test]
    fn names_say_what_things_are() {
        for (path, want) in [
            ("/", Kind::Page),
            ("/a/b.HTML", Kind::Page),
            ("/a.png", Kind::Part),
            ("/a.css", Kind::Part),
            ("/a.js", Kind::Part),
            ("/a.woff2", Kind::Part),
            ("/a.pdf", Kind::Other),
            ("/a", Kind::Other),
        ] {
            assert_eq!(classify(path.as_bytes()), want, "{path}");
        }
    }

    #[test]
    fn files_say_their_length_and_what_they_embed() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        #[allow(clippy::disallowed_methods, reason = "a test creates the files it reads")]
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("index.html", "<img src=a.png><img src=/b.png>");
        write("a.png", "12345");
        let page = look(&root, b"/").unwrap();
        assert_eq!(page.size, 31);
        assert_eq!(
            page.references,
            [Box::from(&b"/a.png"[..]), Box::from(&b"/b.png"[..])]
        );
        assert_eq!(
            look(&root, b"/a.png").unwrap(),
            Known {
                size: 5,
                references: Vec::new()
            }
        );
        assert_eq!(
            (look(&root, b"/missing"), look(&root, b"/../../etc/passwd")),
            (None, None)
        );
    }
}
