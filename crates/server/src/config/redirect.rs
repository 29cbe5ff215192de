//! Paths that have moved.

use super::pattern::PathPattern;
use http1::status::Status;
use serde::{Deserialize, Deserializer, de};

/// Requests for these paths are sent elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    from: PathPattern,
    /// Before the star, and behind it if there is one.
    to: (String, Option<String>),
    status: Status,
}

impl Redirect {
    /// A redirect of the paths `from` to `to`, where a star stands for what it stood for in `from`.
    ///
    /// # Errors
    /// A sentence saying what `to` or `status` should be.
    pub fn new(from: PathPattern, to: &str, status: u16) -> Result<Redirect, String> {
        let plain = |b: u8| (0x21..0x7f).contains(&b) && !b"\"<>\\^`{|}".contains(&b);
        let goes_somewhere = (to.starts_with('/') && !to.starts_with("//"))
            || to.starts_with("https://")
            || to.starts_with("http://");
        let stars = to.matches('*').count();
        if !goes_somewhere || !to.bytes().all(plain) || stars > usize::from(from.has_star()) {
            return Err(format!(
                "`{to}` is no place to redirect to; write a path or an http(s) address, with `*` only for what `*` \
                 stands for in `from`, as in /new/* or https://example.org/*"
            ));
        }
        let status = match status {
            301 => Status::MOVED_PERMANENTLY,
            302 => Status::FOUND,
            303 => Status::SEE_OTHER,
            307 => Status::TEMPORARY_REDIRECT,
            308 => Status::PERMANENT_REDIRECT,
            _ => {
                return Err(format!(
                    "{status} is no redirect; write 301, 302, 303, 307 or 308"
                ));
            }
        };
        let to = match to.split_once('*') {
            Some((before, after)) => (before.to_owned(), Some(after.to_owned())),
            None => (to.to_owned(), None),
        };
        Ok(Redirect { from, to, status })
    }

    /// With which status, if this path is redirected. `path` is raw: as it stands in the request.
    pub(crate) fn applies(&self, path: &[u8]) -> Option<Status> {
        self.from.matches(path).then_some(self.status)
    }

    /// Appends where `path` went, with the query unless the new place has one. What a client sent is
    /// appended through `escape`.
    pub(crate) fn location(
        &self,
        path: &[u8],
        query: Option<&[u8]>,
        out: &mut Vec<u8>,
        escape: impl Fn(&[u8], &mut Vec<u8>),
    ) {
        let (before, after) = &self.to;
        let mut captured = self.from.captures(path).unwrap_or_default();
        // `/` and then a slash would name another host.
        while before == "/" && captured.first().is_some_and(|&b| b == b'/' || b == b'\\') {
            captured = &captured[1..];
        }
        out.extend_from_slice(before.as_bytes());
        if let Some(after) = after {
            escape(captured, out);
            out.extend_from_slice(after.as_bytes());
        }
        if let Some(query) =
            query.filter(|_| !before.contains('?') && after.as_ref().is_none_or(|a| !a.contains('?')))
        {
            out.push(b'?');
            escape(query, out);
        }
    }
}

impl<'de> Deserialize<'de> for Redirect {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Redirect, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        struct Text {
            from: PathPattern,
            to: String,
            #[serde(default = "permanently")]
            status: u16,
        }
        const fn permanently() -> u16 {
            301
        }
        let Text { from, to, status } = Text::deserialize(d)?;
        Redirect::new(from, &to, status).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes(from: &str, to: &str, path: &str, query: Option<&str>) -> Option<String> {
        let redirect = Redirect::new(from.parse().unwrap(), to, 301).unwrap();
        redirect.applies(path.as_bytes())?;
        let mut out = Vec::new();
        let plain = |text: &[u8], out: &mut Vec<u8>| out.extend_from_slice(text);
        redirect.location(path.as_bytes(), query.map(str::as_bytes), &mut out, plain);
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_the_star_stood_for_goes_along() {
        for (from, to, path, query, location) in [
            ("/a", "/b", "/a", None, Some("/b")),
            ("/a", "/b", "/a", Some("q"), Some("/b?q")),
            ("/a", "/b?x=1", "/a", Some("q"), Some("/b?x=1")),
            ("/a", "/b", "/c", None, None),
            ("/old/*", "/new/*", "/old/x/y", None, Some("/new/x/y")),
            (
                "/*",
                "https://w.test/*",
                "/x",
                Some("q"),
                Some("https://w.test/x?q"),
            ),
            ("/old/*", "/*", "/old//evil.test", None, Some("/evil.test")),
            ("*.php", "/gone.html", "/x.php", None, Some("/gone.html")),
        ] {
            assert_eq!(
                goes(from, to, path, query).as_deref(),
                location,
                "{from} {to} {path}"
            );
        }
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        for (from, to, status) in [
            ("/a", "b", 301),
            ("/a", "//evil.test", 301),
            ("/a", "/b/*", 301),
            ("/a/*", "/*/*", 301),
            ("/a", "/b c", 301),
            ("/a", "javascript:alert(1)", 301),
            ("/a", "/b", 200),
        ] {
            assert!(
                Redirect::new(from.parse().unwrap(), to, status).is_err(),
                "{to} {status}"
            );
        }
    }
}
