//! Resolves a reference in a page to a path of the site (RFC 3986 section 5, as far as paths go). A site does not know
//! its own names, so a reference with a scheme or host counts as another site's.

use super::Limits;
use crate::path;

/// The base of a page's references.
#[derive(Clone, Debug)]
pub struct Base {
    /// The directory, percent-encoded, with its final slash; `None` for another site.
    directory: Option<Vec<u8>>,
    /// Whether names that begin with a dot are served.
    hidden: bool,
    scratch: Vec<u8>,
}

impl Base {
    /// The base of the page at this path, which must be resolved. `hidden`: whether the site serves names that begin
    /// with a dot.
    pub fn of_page(page: &[u8], hidden: bool) -> Base {
        let mut directory = Vec::new();
        path::encode(path::directory(page), &mut directory);
        Base {
            directory: Some(directory),
            hidden,
            scratch: Vec::new(),
        }
    }

    /// Applies the `href` of a `base` element.
    pub(super) fn rebase(&mut self, href: &[u8]) {
        self.directory = self.absolute(href).map(|mut absolute| {
            absolute.truncate(path::directory(&absolute).len());
            absolute
        });
    }

    /// The path that a reference names; `None` if it is not a file of this site, or too long.
    pub fn resolve(&mut self, reference: &[u8], limits: &Limits) -> Option<Box<[u8]>> {
        let absolute = self.absolute(reference)?;
        path::resolve(&absolute, self.hidden, &mut self.scratch).ok()?;
        let fits = self.scratch.len() <= limits.reference_bytes_max;
        (fits && !self.scratch.ends_with(b"/")).then(|| self.scratch.as_slice().into())
    }

    /// The reference as an absolute, percent-encoded path without query.
    fn absolute(&self, reference: &[u8]) -> Option<Vec<u8>> {
        // Browsers remove these characters anywhere (WHATWG URL, section 4.4).
        let clean: Vec<u8> = reference
            .trim_ascii()
            .iter()
            .copied()
            .filter(|b| !b"\t\n\r".contains(b))
            .collect();
        let end = clean
            .iter()
            .position(|b| b"?#".contains(b))
            .unwrap_or(clean.len());
        let path = &clean[..end];
        let scheme = path
            .iter()
            .position(|b| !b.is_ascii_alphanumeric() && !b"+-.".contains(b));
        if path.is_empty() || path.starts_with(b"//") || scheme.is_some_and(|end| path[end] == b':') {
            return None;
        }
        // With a base on another site, an absolute path is on that site, too.
        let directory = self.directory.as_deref()?;
        match path {
            [b'/', ..] => Some(path.to_vec()),
            _ => Some([directory, path].concat()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(page: &str, reference: &str, want: Option<&str>) {
        let mut base = Base::of_page(page.as_bytes(), false);
        let got = base.resolve(reference.as_bytes(), &Limits::DEFAULT);
        assert_eq!(
            got.as_deref().map(String::from_utf8_lossy).as_deref(),
            want,
            "{reference} on {page}"
        );
    }

    #[test]
    fn references_become_paths() {
        check("/", "a.png", Some("/a.png"));
        check("/x/page.html", "a.png", Some("/x/a.png"));
        check("/x/y/", "../a.png", Some("/x/a.png"));
        check("/x/y/", "/a.png?v=3#top", Some("/a.png"));
        check("/x/y/", " ./a%20b.png\n", Some("/x/y/a b.png"));
        check("/a b/", "c.css", Some("/a b/c.css"));
        check("/100%/", "c.css", Some("/100%/c.css"));
        check("/", "../../../etc/passwd", Some("/etc/passwd"));
        check("/", "a\tb.png", Some("/ab.png"));
        check("/", "a:b/c.png", None);
        check("/", "./a:b.png", Some("/a:b.png"));
    }

    #[test]
    fn what_is_no_file_here_is_left_out() {
        for reference in [
            "",
            "#top",
            "?q",
            "//cdn.example/a.png",
            "https://example.org/a.png",
            "data:image/png;base64,AAAA",
            "dir/",
            "..",
            ".git/logo.png",
            "a%00.png",
            "%zz.png",
            "a%2fb.png",
        ] {
            check("/x/", reference, None);
        }
        check("/", &"a".repeat(600), None);
        check("/", &"a/".repeat(300), None);
    }

    #[test]
    fn a_base_moves_what_is_relative() {
        let mut base = Base::of_page(b"/x/page.html", false);
        base.rebase(b"assets/");
        let at = |base: &mut Base, reference: &[u8]| base.resolve(reference, &Limits::DEFAULT);
        assert_eq!(at(&mut base, b"a.png").as_deref(), Some(&b"/x/assets/a.png"[..]));
        base.rebase(b"https://cdn.example/");
        assert_eq!(at(&mut base, b"a.png"), None);
        assert_eq!(at(&mut base, b"/a.png").as_deref(), None);
    }
}
