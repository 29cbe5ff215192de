//! Paths that have moved.
//!
//! A rule sees a path in the one spelling that stands for all: percent-escapes decoded where they need not be, dot
//! segments and empty ones resolved, as they are when a file is looked for. So nobody comes to the file behind a rule by
//! spelling its path otherwise. Decides where a path went; refuses to know what is there.

use super::pattern::PathPattern;
use crate::site::path;
use http_semantics::status::Status;
use serde::{Deserialize, Deserializer, de};

/// Redirects that follow each other: more are not followed by browsers (Fetch Standard, section 4.4).
const HOPS_MAX: usize = 20;

/// Requests for these paths are sent elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    from: PathPattern,
    to: Place,
    status: Status,
}

/// Where paths went.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// Before the star.
    before: String,
    /// Behind it, if there is one.
    after: Option<String>,
    /// From `#` on; what is behind the query.
    fragment: String,
}

impl Place {
    fn of(text: &str) -> Place {
        let (text, fragment) = text.split_at(text.find('#').unwrap_or(text.len()));
        let (before, after) = match text.split_once('*') {
            Some((before, after)) => (before, Some(after.to_owned())),
            None => (text, None),
        };
        Place {
            before: before.to_owned(),
            after,
            fragment: fragment.to_owned(),
        }
    }

    /// Appends the address without query and fragment of the request's own, the star standing for `captured`.
    fn write(&self, mut captured: &[u8], out: &mut Vec<u8>) {
        // `/` and then a slash would name another host.
        while self.before == "/" && captured.first() == Some(&b'/') {
            captured = &captured[1..];
        }
        out.extend_from_slice(self.before.as_bytes());
        if let Some(after) = &self.after {
            out.extend_from_slice(captured);
            out.extend_from_slice(after.as_bytes());
        }
    }
}

impl Redirect {
    /// A redirect of the paths `from` to `to`, where a star stands for what it stood for in `from`.
    ///
    /// # Errors
    /// A sentence saying what `to` or `status` should be.
    pub fn new(from: PathPattern, to: &str, status: u16) -> Result<Redirect, String> {
        let plain = |b: u8| (0x21..0x7f).contains(&b) && !b"\"<>\\^`{|}".contains(&b);
        let address = to.strip_prefix("https://").or_else(|| to.strip_prefix("http://"));
        let goes_somewhere = (to.starts_with('/') && !to.starts_with("//")) || address.is_some();
        let stars = to.matches('*').count();
        let is_behind_fragment = to
            .split_once('#')
            .is_some_and(|(_, fragment)| fragment.contains('*'));
        if !goes_somewhere
            || !to.bytes().all(plain)
            || stars > usize::from(from.has_star())
            || is_behind_fragment
        {
            // Escaped as TOML has it, so that a line stays one and is found again in its file.
            let to = to.escape_debug();
            return Err(format!(
                "`{to}` is no place to redirect to; write a path or an http(s) address, with `*` only for what `*` \
                 stands for in `from`, as in /new/* or https://example.org/*"
            ));
        }
        if let Some(address) = address {
            let end = address.find(['/', '?', '#', '*']).unwrap_or(address.len());
            let (host, rest) = address.split_at(end);
            // What a client sent must not become part of the name of the host.
            if host.is_empty() || (rest.starts_with('*') && !from.begins_with_star()) {
                return Err(format!(
                    "`{to}` leads to whatever host a client names; write a `/` behind the host, as in \
                     https://example.org/*"
                ));
            }
        }
        let status = match status {
            301 => Status::MOVED_PERMANENTLY,
            302 => Status::FOUND,
            303 => Status::SEE_OTHER,
            307 => Status::TEMPORARY_REDIRECT,
            308 => Status::PERMANENT_REDIRECT,
            _ => {
                return Err(format!(
                    "`{status}` is no redirect; write 301, 302, 303, 307 or 308"
                ));
            }
        };
        Ok(Redirect {
            from,
            to: Place::of(to),
            status,
        })
    }

    /// With which status, if this path is redirected. `path` is spelled by [`spelling`].
    pub(crate) fn applies(&self, path: &[u8]) -> Option<Status> {
        self.from.matches(path).then_some(self.status)
    }

    /// Appends where `path` went, which is spelled by [`spelling`]. The query of the request goes along, behind that of
    /// the new place if it has one; it is appended through `escape`.
    pub(crate) fn location(
        &self,
        path: &[u8],
        query: Option<&[u8]>,
        out: &mut Vec<u8>,
        escape: impl Fn(&[u8], &mut Vec<u8>),
    ) {
        let start = out.len();
        self.to.write(self.from.captures(path).unwrap_or_default(), out);
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            // None is captured: it is escaped in a path.
            let own = out[start..]
                .iter()
                .position(|&b| b == b'?')
                .map(|at| &out[start + at + 1..]);
            match own {
                None => out.push(b'?'),
                Some([] | [.., b'&']) => {}
                Some(_) => out.push(b'&'),
            }
            escape(query, out);
        }
        out.extend_from_slice(self.to.fragment.as_bytes());
    }

    /// The path of this site that `path` went to; none if that is an address.
    fn next(&self, path: &[u8]) -> Option<Vec<u8>> {
        if !self.to.before.starts_with('/') {
            return None;
        }
        let mut to = Vec::new();
        self.to.write(self.from.captures(path)?, &mut to);
        let end = to.iter().position(|&b| b == b'?').unwrap_or(to.len());
        spelling(&to[..end])
    }
}

/// The one spelling of a raw path that rules are matched with; none for a path that is malformed.
pub(crate) fn spelling(raw: &[u8]) -> Option<Vec<u8>> {
    let mut spelled = Vec::new();
    path::spell(raw, &mut spelled).ok()?;
    Some(spelled)
}

/// Says which of these rules leads a request from one to the next without end, if one does. Only paths are followed:
/// where an address leads is not known here.
///
/// # Errors
/// The rule's pattern and the way, as a sentence.
pub(super) fn all_end(rules: &[Redirect]) -> Result<(), String> {
    for rule in rules {
        for star in ["", "x", "x/y"] {
            let example = rule.from.example(star);
            let mut way = Vec::new();
            let mut path = spelling(example.as_bytes());
            while let Some(at) = path {
                let taken = rules.iter().find(|rule| rule.applies(&at).is_some());
                path = taken.and_then(|rule| rule.next(&at));
                way.push(at);
                if path.is_some() && way.len() > HOPS_MAX {
                    let shown: Vec<_> = way.iter().take(4).map(|at| String::from_utf8_lossy(at)).collect();
                    return Err(format!(
                        "`{}` is redirected without end: {} ...; end that with a path that no rule applies to",
                        rule.from,
                        shown.join(" to ")
                    ));
                }
            }
        }
    }
    Ok(())
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

    fn redirect(from: &str, to: &str, status: u16) -> Result<Redirect, String> {
        Redirect::new(from.parse()?, to, status)
    }

    fn goes(from: &str, to: &str, path: &str, query: Option<&str>) -> Option<String> {
        let redirect = redirect(from, to, 301).unwrap();
        let path = spelling(path.as_bytes())?;
        redirect.applies(&path)?;
        let mut out = Vec::new();
        let plain = |text: &[u8], out: &mut Vec<u8>| out.extend_from_slice(text);
        redirect.location(&path, query.map(str::as_bytes), &mut out, plain);
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_the_star_stood_for_goes_along() {
        for (from, to, path, query, location) in [
            ("/a", "/b", "/a", None, Some("/b")),
            ("/a", "/b", "/a", Some("q"), Some("/b?q")),
            ("/a", "/b", "/a", Some(""), Some("/b")),
            ("/a", "/b?x=1", "/a", None, Some("/b?x=1")),
            ("/a", "/b?x=1", "/a", Some("q"), Some("/b?x=1&q")),
            ("/a", "/b?x=1&", "/a", Some("q"), Some("/b?x=1&q")),
            ("/a", "/b?", "/a", Some("q"), Some("/b?q")),
            ("/a", "/b#part", "/a", Some("q"), Some("/b?q#part")),
            ("/a", "/b?x#part?", "/a", Some("q"), Some("/b?x&q#part?")),
            ("/a/*", "/b?was=*", "/a/c", Some("q"), Some("/b?was=c&q")),
            ("/a/*", "/b/*?x", "/a/c%3fd", Some("q"), Some("/b/c%3Fd?x&q")),
            ("/a", "/b", "/c", None, None),
            ("/old/*", "/new/*", "/old/x/y", None, Some("/new/x/y")),
            (
                "/*",
                "https://w.test/*",
                "/x",
                Some("q"),
                Some("https://w.test/x?q"),
            ),
            ("*", "https://w.test*", "/x", None, Some("https://w.test/x")),
            ("*", "https://w.test:1*", "//x", None, Some("https://w.test:1/x")),
            ("/old/*", "/*", "/old//evil.test", None, Some("/evil.test")),
            ("/old*", "/*", "/old/evil.test", None, Some("/evil.test")),
            ("/old/*", "/*", "/old/\\evil.test", None, Some("/%5Cevil.test")),
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
    fn every_spelling_of_a_path_is_redirected() {
        for path in [
            "/old/x",
            "/%6fld/x",
            "//old//x",
            "/a/../old/./x",
            "/old/%78",
            "/%2E%2e/old/x",
        ] {
            assert_eq!(
                goes("/old/*", "/new/*", path, None).as_deref(),
                Some("/new/x"),
                "{path}"
            );
            assert_eq!(
                goes("/%6Fld/*", "/new/*", path, None).as_deref(),
                Some("/new/x"),
                "{path}"
            );
        }
        let same = |path| goes("*", "https://w.test*", path, None);
        assert_eq!(same("/a%2fb").as_deref(), Some("https://w.test/a%2Fb"));
        assert_eq!(same("/%zz"), None, "what is malformed is answered as that");
        assert_eq!(same("/a%00"), None);
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
            ("/a/*", "/b#*", 301),
            ("/a//b", "/b", 301),
            ("/a/../b", "/c", 301),
        ] {
            assert!(redirect(from, to, status).is_err(), "{from} {to} {status}");
        }
    }

    #[test]
    fn no_client_names_the_host() {
        for (from, to) in [
            ("/old*", "https://w.test*"),
            ("/go/*", "https://*"),
            ("/go/*", "https://*/x"),
            ("/go/*", "http://*.w.test/"),
            ("/go/*", "https://w.test:*"),
            ("*", "https://*"),
            ("/a", "https:///b"),
        ] {
            let error = redirect(from, to, 301).unwrap_err();
            assert!(error.contains("behind the host"), "{from} {to}: {error}");
        }
    }

    #[test]
    fn rules_that_chase_each_other_are_found() {
        let check = |rules: &[(&str, &str)]| {
            let rules: Vec<Redirect> = rules
                .iter()
                .map(|(from, to)| redirect(from, to, 301).unwrap())
                .collect();
            all_end(&rules)
        };
        for (rules, first) in [
            (&[("/a", "/a")][..], "`/a`"),
            (&[("/x", "/y"), ("/a", "/a?b=c#d")], "`/a`"),
            (&[("/a", "/%61")], "`/a`"),
            (&[("/a", "/b"), ("/b", "/c"), ("/c", "/a")], "`/a`"),
            (&[("/*", "/index.html")], "`/*`"),
            (&[("/*", "/new/*")], "`/*`"),
            (&[("/old/*", "/old/new/*")], "`/old/*`"),
            (&[("/a/*", "/b/*"), ("/b/*", "/a/*")], "`/a/*`"),
            (&[("/blog*", "/blog/*")], "`/blog*`"),
        ] {
            let error = check(rules).unwrap_err();
            assert!(
                error.starts_with(first) && error.contains("without end"),
                "{error}"
            );
        }
        for rules in [
            &[("/a", "/b"), ("/b", "/c")][..],
            &[("/a", "/b"), ("/b", "https://w.test/a")],
            &[("*", "https://w.test*")],
            &[("/old/*", "/new/*")],
            &[("/*/index.html", "/*/")],
            // The first rule that applies is the one.
            &[("/b", "/c"), ("/a", "/b"), ("/b", "/a")],
        ] {
            assert_eq!(check(rules), Ok(()), "{rules:?}");
        }
        let chain: Vec<(String, String)> = (0..=HOPS_MAX)
            .map(|n| (format!("/{n}"), format!("/{}", n + 1)))
            .collect();
        let chain: Vec<(&str, &str)> = chain.iter().map(|(from, to)| (&**from, &**to)).collect();
        assert_eq!(check(&chain[1..]), Ok(()), "as many as a browser follows");
        assert!(check(&chain).is_err());
    }
}
