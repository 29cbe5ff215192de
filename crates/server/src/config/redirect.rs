//! Redirects of paths.
//!
//! Rules match a path in one normalized spelling: percent-escapes that are not needed are decoded, dot segments and
//! empty ones are resolved, as in a file lookup. So no spelling of a path avoids its rule. Decides where a path
//! redirects to; does not know which files exist.

use super::condition::{Conditions, Facts};
use super::pattern::{self, PathPattern};
use crate::path;
use http_semantics::status::Status;
use serde::{Deserialize, Deserializer, de};

/// Maximum number of redirects in a row; browsers follow no more (Fetch Standard, section 4.4).
const HOPS_MAX: usize = 20;

/// Redirects requests for matching paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    from: PathPattern,
    /// Paths that are not redirected although `from` matches them.
    except: Vec<PathPattern>,
    /// What requests must have to be redirected.
    conditions: Conditions,
    to: Place,
    status: Status,
}

/// The target of a redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The text before the star.
    before: String,
    /// The text after the star and before `#`; `None` without a star.
    after: Option<String>,
    /// The fragment, with its `#`; it follows the query.
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

    /// Appends the target without the fragment and without the query of the request. `captured` replaces the star.
    fn write(&self, mut captured: &[u8], out: &mut Vec<u8>) {
        // `/` followed by another slash would name another host.
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
    /// A redirect of paths that match `from`. A star in `to` stands for the match of the star in `from`.
    ///
    /// # Errors
    /// A sentence that says what `to` or `status` should be.
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
            // Escaped as in TOML, so that the message stays one line and its value is found in the file.
            let to = to.escape_debug();
            return Err(format!(
                "`{to}` is not a redirect target; write a path or an http(s) address, with at most one `*`, and only if `from` \
                 has one, as in /new/* or https://example.org/*"
            ));
        }
        if let Some(address) = address {
            let end = address.find(['/', '?', '#', '*']).unwrap_or(address.len());
            let (host, rest) = address.split_at(end);
            // Text from a client must not become part of a host name.
            if host.is_empty() || (rest.starts_with('*') && !from.begins_with_star()) {
                return Err(format!(
                    "`{to}` would let clients choose the host; write a `/` after the host, as in \
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
            410 | 451 => {
                return Err(format!(
                    "`{status}` leads nowhere; remove this rule, and add a table `[[access]]` with `path = \"{from}\"`, `deny = \
                     \"all\"` and `status = {status}`"
                ));
            }
            _ => {
                return Err(format!(
                    "`{status}` is not a redirect status; write 301, 302, 303, 307 or 308"
                ));
            }
        };
        Ok(Redirect {
            from,
            except: Vec::new(),
            conditions: Conditions::default(),
            to: Place::of(to),
            status,
        })
    }

    /// The same, without these paths and for requests that meet these conditions.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the exceptions.
    fn limited(self, except: Vec<PathPattern>, conditions: Conditions) -> Result<Redirect, String> {
        pattern::validate_exceptions(&except, (&self.from, "from"))?;
        Ok(Redirect {
            except,
            conditions,
            ..self
        })
    }

    /// Whether requests for this path, spelled by [`path::spelling`], are redirected if they meet the conditions.
    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        self.from.matches(path) && !self.except.iter().any(|one| one.matches(path))
    }

    /// The status of the redirect if a request for this path, spelled by [`path::spelling`], is redirected.
    pub(crate) fn applies(&self, path: &[u8], facts: Facts<'_, '_, '_>) -> Option<Status> {
        (self.covers(path) && self.conditions.hold(facts)).then_some(self.status)
    }

    /// What requests must have to be redirected.
    pub(crate) fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// The pattern of the paths.
    pub(crate) fn from(&self) -> &PathPattern {
        &self.from
    }

    /// Appends the target for `path`, which must be spelled by [`path::spelling`]. The query of the request follows that of
    /// the target, if it has one; `escape` appends it.
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
            // `captured` contains no `?`, because paths escape it.
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

    /// The path of this site that `path` is redirected to, and what the target adds to the query; `None` if the target is an
    /// address.
    fn next(&self, path: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        if !self.to.before.starts_with('/') {
            return None;
        }
        let mut to = Vec::new();
        self.to.write(self.from.captures(path)?, &mut to);
        let end = to.iter().position(|&b| b == b'?').unwrap_or(to.len());
        let query = to.get(end + 1..).unwrap_or_default().to_vec();
        Some((path::spelling(&to[..end])?, query))
    }
}

/// Checks that no request is redirected more than [`HOPS_MAX`] times. Only paths are followed, not addresses. A request that meets
/// the conditions of the first redirect meets only conditions of others that are the same, or that the query of a target makes
/// true.
///
/// # Errors
/// The pattern of a rule and the first steps of the chain, as a sentence.
pub(super) fn all_end(rules: &[Redirect]) -> Result<(), String> {
    for rule in rules {
        for star in ["", "x", "x/y"] {
            let example = rule.from.example(star);
            let mut way = Vec::new();
            // What the targets have added to the query, which the client keeps.
            let mut query = Vec::new();
            let mut path = path::spelling(example.as_bytes());
            while let Some(at) = path {
                let holds = |other: &&Redirect| other.conditions.hold_given(&rule.conditions, &query);
                let taken = rules.iter().filter(holds).find(|rule| rule.covers(&at));
                let next = taken.and_then(|rule| rule.next(&at));
                path = next.map(|(path, added)| {
                    query = [&added, &b"&"[..], &query].concat();
                    path
                });
                way.push(at);
                if path.is_some() && way.len() > HOPS_MAX {
                    let shown: Vec<_> = way.iter().take(4).map(|at| String::from_utf8_lossy(at)).collect();
                    return Err(format!(
                        "`{}` is redirected more than {HOPS_MAX} times: {} ...; let the redirects end at a path that no rule matches",
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
            #[serde(default, deserialize_with = "pattern::several")]
            except: Vec<PathPattern>,
            #[serde(default, rename = "if")]
            conditions: Conditions,
            to: String,
            #[serde(default = "permanently")]
            status: u16,
        }
        const fn permanently() -> u16 {
            301
        }
        let Text {
            from,
            except,
            conditions,
            to,
            status,
        } = Text::deserialize(d)?;
        let redirect = Redirect::new(from, &to, status).map_err(de::Error::custom)?;
        redirect.limited(except, conditions).map_err(de::Error::custom)
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
        let path = path::spelling(path.as_bytes())?;
        redirect.covers(&path).then_some(())?;
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
    fn exceptions_are_not_redirected() {
        let read = |except: &str| -> Result<Redirect, String> {
            let text = format!("from = '*'\nto = 'https://a.test*'\nexcept = {except}");
            toml::from_str(&text).map_err(|error| error.message().to_owned())
        };
        let rule = read("['/.well-known/*', '/b']").unwrap();
        for (path, is_redirected) in [
            ("/", true),
            ("/.well-known", true),
            ("/.well-known/acme-challenge/x", false),
            ("/x/../.well-known/a", false),
            ("/b", false),
            ("/b/c", true),
        ] {
            assert_eq!(
                rule.covers(&path::spelling(path.as_bytes()).unwrap()),
                is_redirected,
                "{path}"
            );
        }
        assert!(read("'*'").unwrap_err().contains("all of `from`"));
        assert!(read("1").unwrap_err().contains("no path patterns"));
        let many = |count: usize| {
            let all: Vec<String> = (0..count).map(|at| format!("'/{at}'")).collect();
            read(&format!("[{}]", all.join(", ")))
        };
        assert!(many(pattern::EXCEPTIONS_MAX).is_ok());
        assert!(
            many(pattern::EXCEPTIONS_MAX + 1)
                .unwrap_err()
                .contains("more than 1000")
        );
    }

    #[test]
    fn what_is_gone_is_no_redirect_and_the_error_says_where_to_put_it() {
        for status in [410, 451] {
            let error = redirect("/a/*", "/b", status).unwrap_err();
            let rule = format!("`path = \"/a/*\"`, `deny = \"all\"` and `status = {status}`");
            assert!(error.contains(&rule), "{error}");
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
            assert!(error.contains("after the host"), "{from} {to}: {error}");
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
                error.starts_with(first) && error.contains("more than 20 times"),
                "{error}"
            );
        }
        for rules in [
            &[("/a", "/b"), ("/b", "/c")][..],
            &[("/a", "/b"), ("/b", "https://w.test/a")],
            &[("*", "https://w.test*")],
            &[("/old/*", "/new/*")],
            &[("/*/index.html", "/*/")],
            // The first matching rule applies.
            &[("/b", "/c"), ("/a", "/b"), ("/b", "/a")],
        ] {
            assert_eq!(check(rules), Ok(()), "{rules:?}");
        }
        let read = |text: &str| {
            #[derive(Deserialize)]
            struct Rules {
                redirect: Vec<Redirect>,
            }
            let tables: String = text
                .split(';')
                .map(|one| format!("[[redirect]]\n{one}\n"))
                .collect();
            let rules: Rules = toml::from_str(&tables.replace(", ", "\n")).unwrap();
            all_end(&rules.redirect)
        };
        for (rules, is_endless) in [
            ("from = '*', to = '/beta/*', if = 'cookie beta'", true),
            (
                "from = '*', to = '/beta*', if = 'cookie beta', except = '/beta/*'",
                false,
            ),
            // The target makes the condition false, or true.
            ("from = '/a', to = '/a?lang=de', if = 'not query lang'", false),
            ("from = '/a', to = '/a?x=1', if = 'not query lang'", true),
            (
                "from = '/a', to = '/b?x'; from = '/b', to = '/a', if = 'query x'",
                true,
            ),
            (
                "from = '/a', to = '/b'; from = '/b', to = '/a', if = 'query x'",
                true,
            ),
            (
                "from = '/a', to = '/b'; from = '/b*', to = '/a', if = 'query x', except = '/b'",
                false,
            ),
            // A request to /a has a cookie, and one to /b has none.
            (
                "from = '/a', to = '/b', if = 'cookie x'; from = '/b', to = '/a', if = 'not cookie x'",
                false,
            ),
            (
                "from = '/a', to = '/b', if = 'cookie x'; from = '/b', to = '/a', if = 'cookie x'",
                true,
            ),
            (
                "from = '/a', to = '/b', if = 'cookie x'; from = '/b', to = '/a'",
                true,
            ),
        ] {
            assert_eq!(read(rules).is_err(), is_endless, "{rules}");
        }
        let chain: Vec<(String, String)> = (0..=HOPS_MAX)
            .map(|n| (format!("/{n}"), format!("/{}", n + 1)))
            .collect();
        let chain: Vec<(&str, &str)> = chain.iter().map(|(from, to)| (&**from, &**to)).collect();
        assert_eq!(check(&chain[1..]), Ok(()), "as many as a browser follows");
        assert!(check(&chain).is_err());
    }
}
