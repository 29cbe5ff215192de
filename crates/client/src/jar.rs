//! Cookies of one user (RFC 6265): which responses set them, and which requests carry them.
//!
//! A subset of the algorithm of section 5. A cookie belongs to the host that set it. With `Domain`, it also belongs to the
//! hosts below that domain, which must be the host itself or a parent with a dot in its name; the list of public suffixes
//! is not consulted. `HttpOnly` and `SameSite` concern scripts and other sites, of which this client has none. Crates for
//! cookies read the clock of the system, which this one must not: a run may be in virtual time.

use http_semantics::date;

/// Most cookies of a jar; beyond it, the oldest is dropped.
pub const COOKIES_MAX: usize = 300;
/// Most bytes of a cookie, name and value together (RFC 6265 section 6.1).
pub const COOKIE_BYTES_MAX: usize = 4096;

/// A request or response, as far as cookies depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Host name without port, in lower case.
    pub host: &'a str,
    /// Path, possibly with a query.
    pub path: &'a str,
    /// Whether the scheme is https.
    pub is_secure: bool,
    /// Seconds since 1970.
    pub now: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cookie {
    name: String,
    value: String,
    /// The host, or the domain that contains it.
    domain: String,
    /// Whether only the host itself gets it.
    is_host_only: bool,
    path: String,
    is_secure: bool,
    /// When it expires, in seconds since 1970; never before the jar does if there is none.
    expires: Option<i64>,
}

/// The cookies of one user, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Jar {
    cookies: Vec<Cookie>,
}

impl Jar {
    /// An empty jar.
    pub fn new() -> Jar {
        Jar::default()
    }

    /// Whether it has no cookies.
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    /// Forgets all cookies.
    pub fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Processes a `Set-Cookie` line of a response (section 5.2 and 5.3). Returns whether the jar changed: invalid cookies
    /// are ignored.
    pub fn set(&mut self, line: &[u8], from: Place<'_>) -> bool {
        let Ok(line) = core::str::from_utf8(line) else {
            return false;
        };
        let mut parts = line.split(';');
        let pair = parts.next().and_then(|pair| pair.split_once('='));
        let Some((name, value)) = pair.map(|(name, value)| (name.trim(), value.trim())) else {
            return false;
        };
        let is_sound = |text: &str| !text.chars().any(char::is_control);
        let is_short = name.len() + value.len() <= COOKIE_BYTES_MAX;
        if name.is_empty() || !is_short || !is_sound(name) || !is_sound(value) {
            return false;
        }
        let mut cookie = Cookie {
            name: name.to_owned(),
            value: value.to_owned(),
            domain: from.host.to_owned(),
            is_host_only: true,
            path: default_path(from.path).to_owned(),
            is_secure: false,
            expires: None,
        };
        let mut has_age = false;
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let (key, value) = (key.trim(), value.trim());
            if key.eq_ignore_ascii_case("Max-Age") {
                // It wins over `Expires`; an unreadable one is ignored.
                if let Some(age) = age(value) {
                    (cookie.expires, has_age) = (Some(from.now.saturating_add(age)), true);
                }
            } else if key.eq_ignore_ascii_case("Expires") && !has_age {
                cookie.expires = date::parse(value.as_bytes())
                    .map(|time| time.secs)
                    .or(cookie.expires);
            } else if key.eq_ignore_ascii_case("Domain") && !value.is_empty() {
                let domain = value.strip_prefix('.').unwrap_or(value).to_ascii_lowercase();
                if !is_within(from.host, &domain) || (domain != from.host && !domain.contains('.')) {
                    return false;
                }
                cookie.is_host_only = false;
                cookie.domain = domain;
            } else if key.eq_ignore_ascii_case("Path") && value.starts_with('/') {
                cookie.path = value.to_owned();
            } else if key.eq_ignore_ascii_case("Secure") {
                cookie.is_secure = true;
            }
        }
        // A cookie that only https may carry is not accepted over http (RFC 6265bis section 5.7).
        if cookie.is_secure && !from.is_secure {
            return false;
        }
        self.keep(cookie, from.now)
    }

    /// Adds a cookie for this host and all of its paths, as `--cookie` does.
    pub fn add(&mut self, name: &str, value: &str, host: &str) {
        self.keep(
            Cookie {
                name: name.to_owned(),
                value: value.to_owned(),
                domain: host.to_owned(),
                is_host_only: true,
                path: "/".to_owned(),
                is_secure: false,
                expires: None,
            },
            0,
        );
    }

    /// Replaces the cookie of the same name, domain and path, or removes it if the new one has expired.
    fn keep(&mut self, cookie: Cookie, now: i64) -> bool {
        let is_same = |other: &Cookie| {
            other.name == cookie.name && other.domain == cookie.domain && other.path == cookie.path
        };
        let at = self.cookies.iter().position(is_same);
        let is_over = cookie.expires.is_some_and(|expires| expires <= now);
        match (at, is_over) {
            (Some(at), true) => {
                self.cookies.remove(at);
            }
            // It keeps its age, which orders cookies in requests.
            (Some(at), false) => self.cookies[at] = cookie,
            (None, true) => return false,
            (None, false) => {
                if self.cookies.len() >= COOKIES_MAX {
                    self.cookies.remove(0);
                }
                self.cookies.push(cookie);
            }
        }
        true
    }

    /// The value of `Cookie` in a request (section 5.4); `None` without a cookie for it. Longer paths come first, then
    /// older cookies.
    pub fn line(&self, to: Place<'_>) -> Option<String> {
        let path = to.path.split(['?', '#']).next().unwrap_or_default();
        let belongs = |cookie: &&Cookie| {
            let is_host = match cookie.is_host_only {
                true => cookie.domain == to.host,
                false => is_within(to.host, &cookie.domain),
            };
            is_host
                && is_below(path, &cookie.path)
                && (!cookie.is_secure || to.is_secure)
                && cookie.expires.is_none_or(|expires| expires > to.now)
        };
        let mut cookies: Vec<&Cookie> = self.cookies.iter().filter(belongs).collect();
        cookies.sort_by_key(|cookie| core::cmp::Reverse(cookie.path.len()));
        let pairs = cookies
            .iter()
            .map(|cookie| format!("{}={}", cookie.name, cookie.value));
        let line = pairs.collect::<Vec<_>>().join("; ");
        (!line.is_empty()).then_some(line)
    }
}

/// The seconds of `Max-Age`.
fn age(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let far = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    Some(text.parse().unwrap_or(far))
}

/// The path of a cookie without `Path`: that of the request up to its last slash (section 5.1.4).
fn default_path(path: &str) -> &str {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    match path.rfind('/') {
        Some(end @ 1..) if path.starts_with('/') => &path[..end],
        _ => "/",
    }
}

/// Whether `host` is `domain` or below it (section 5.1.3). Addresses have no domains above them.
fn is_within(host: &str, domain: &str) -> bool {
    let is_address = host.parse::<core::net::Ipv4Addr>().is_ok() || host.starts_with('[');
    host == domain
        || (!is_address
            && host
                .strip_suffix(domain)
                .is_some_and(|before| before.ends_with('.')))
}

/// Whether `path` is `folder` or below it (section 5.1.4).
fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || folder.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place<'a>(host: &'a str, path: &'a str, is_secure: bool, now: i64) -> Place<'a> {
        Place {
            host,
            path,
            is_secure,
            now,
        }
    }

    fn jar(lines: &[&str], from: Place<'_>) -> Jar {
        let mut jar = Jar::new();
        lines.iter().for_each(|line| {
            jar.set(line.as_bytes(), from);
        });
        jar
    }

    fn carried(jar: &Jar, to: Place<'_>) -> String {
        jar.line(to).unwrap_or_default()
    }

    #[test]
    fn cookies_go_back_to_where_they_came_from() {
        let from = place("a.example.org", "/shop/cart?x=1", true, 1000);
        let jar = jar(
            &[
                "a=1",
                "b=2; Path=/",
                "c=3; Domain=.Example.org; Path=/; HttpOnly; SameSite=Lax",
                "d=4; Secure; Path=/shop/cart",
                "e=5; Domain=other.org",
                "f=6; Domain=org",
                "g=7; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/",
                "h=8; Expires=Thu, 01 Jan 1970 00:16:41 GMT; Path=/",
                "i=9; Max-Age=0",
                "=nameless",
                "nothing",
            ],
            from,
        );
        assert_eq!(carried(&jar, from), "d=4; a=1; b=2; c=3; g=7; h=8");
        assert_eq!(
            carried(&jar, place("a.example.org", "/shop/cart", false, 1000)),
            "a=1; b=2; c=3; g=7; h=8"
        );
        assert_eq!(
            carried(&jar, place("a.example.org", "/shop", true, 1001)),
            "a=1; b=2; c=3; g=7"
        );
        assert_eq!(
            carried(&jar, place("a.example.org", "/shopping", true, 1060)),
            "b=2; c=3"
        );
        assert_eq!(carried(&jar, place("b.example.org", "/", true, 1000)), "c=3");
        assert_eq!(carried(&jar, place("badexample.org", "/", true, 1000)), "");
    }

    #[test]
    fn a_cookie_is_replaced_and_removed() {
        let from = place("h", "/", false, 5);
        let mut jar = jar(&["a=1", "b=2", "a=3"], from);
        assert_eq!(carried(&jar, from), "a=3; b=2");
        assert!(jar.set(b"a=; Max-Age=-1", from));
        assert_eq!(carried(&jar, from), "b=2");
        assert!(!jar.set(b"s=1; Secure", from), "only https may set it");
        assert!(!jar.set(b"s=1\x01", from) && !jar.set(b"s=\xff", from));
        jar.add("c", "4", "h");
        assert_eq!(carried(&jar, from), "b=2; c=4");
        jar.clear();
        assert!(jar.is_empty());
        // An address has no domain above it.
        let from = place("10.0.0.1", "/", false, 5);
        assert!(!jar.set(b"a=1; Domain=0.0.1", from) && jar.set(b"a=1; Domain=10.0.0.1", from));
    }

    #[test]
    fn a_jar_is_bounded() {
        let from = place("h", "/", false, 0);
        let mut jar = Jar::new();
        for number in 0..=COOKIES_MAX {
            assert!(jar.set(format!("c{number}=x").as_bytes(), from));
        }
        let line = carried(&jar, from);
        assert_eq!(line.split("; ").count(), COOKIES_MAX);
        assert!(line.starts_with("c1=x; c2=x"), "the oldest is gone");
        let longest = format!("n={}", "v".repeat(COOKIE_BYTES_MAX - 1));
        assert!(jar.set(longest.as_bytes(), from));
        assert!(!jar.set(format!("{longest}v").as_bytes(), from));
    }

    proptest! {
        /// Whatever a server says, a request line stays one line.
        #[test]
        fn no_line_breaks_come_back(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            let from = place("h", "/", true, 0);
            let mut jar = Jar::new();
            jar.set(&line, from);
            let said = carried(&jar, from);
            prop_assert!(!said.chars().any(char::is_control), "{said:?}");
        }
    }
}
