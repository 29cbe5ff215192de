//! Rules that let pages of other origins read responses (CORS, <https://fetch.spec.whatwg.org/#http-cors-protocol>).
//!
//! Decides which origins, methods and fields a rule allows. Responses get their field lines elsewhere.

use super::condition::{Conditions, Facts};
use super::pattern::PathPattern;
use super::values;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};
use units::Duration;

/// Maximum number of rules of a site. A request is compared with each of them.
const RULES_MAX: usize = 1_000;

/// Maximum number of origins, methods or fields of a rule.
const MEMBERS_MAX: usize = 1_000;

/// A table `[[cors]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Cors {
    /// Matches the path of the request.
    #[serde(default)]
    pub path: PathPattern,
    /// What requests must have for the rule to apply; a preflight request is one of its own.
    #[serde(default, rename = "if")]
    pub conditions: Conditions,
    /// Origins whose pages may read the responses.
    pub origins: Vec<Origin>,
    /// Methods that these pages may use.
    #[serde(default = "get_and_head")]
    pub methods: Vec<Token>,
    /// Request fields that these pages may set, besides those that every page may.
    #[serde(default)]
    pub headers: Vec<Token>,
    /// Response fields that these pages may read, besides those that every page may.
    #[serde(default)]
    pub expose: Vec<Token>,
    /// Whether requests may have cookies and other credentials.
    #[serde(default)]
    pub credentials: bool,
    /// How long a browser may keep the answer to a preflight request.
    #[serde(default = "five_seconds", deserialize_with = "values::duration")]
    pub max_age: Duration,
}

fn get_and_head() -> Vec<Token> {
    ["GET", "HEAD"].map(|name| Token(name.to_owned())).into()
}

/// The default of browsers.
const fn five_seconds() -> Duration {
    Duration::from_secs(5)
}

/// A method or a field name, or `*` for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    fn is_any(&self) -> bool {
        self.0 == "*"
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Token, D::Error> {
        let text = String::deserialize(d)?;
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if text.is_empty() || !text.bytes().all(is_token) {
            return Err(de::Error::custom(format!(
                "`{}` is neither a method nor a field name; write it without spaces, as in PUT or Content-Type",
                text.escape_debug()
            )));
        }
        Ok(Token(text))
    }
}

/// An origin, or a pattern of origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Every origin.
    Any,
    /// This one, as browsers write it (RFC 6454 section 6.2).
    One(String),
    /// Every name below a domain: the text before the star, and the text after it.
    Below(String, String),
}

impl Origin {
    fn admits(&self, origin: &[u8]) -> bool {
        match self {
            Origin::Any => true,
            Origin::One(one) => origin == one.as_bytes(),
            Origin::Below(before, after) => {
                let rest = origin.strip_prefix(before.as_bytes());
                let name = rest.and_then(|rest| rest.strip_suffix(after.as_bytes()));
                name.is_some_and(|name| {
                    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._".contains(b);
                    !name.is_empty() && name.iter().all(is_plain)
                })
            }
        }
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Origin, String> {
        if text == "*" {
            return Ok(Origin::Any);
        }
        let lower = text.to_ascii_lowercase();
        let parts = lower.split_once("://");
        let is_origin = |host: &str| {
            let (name, port) = match host.rsplit_once(':') {
                Some((name, port)) if !host.ends_with(']') => (name, Some(port)),
                _ => (host, None),
            };
            let is_literal = name.starts_with('[') && name.ends_with(']');
            let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
            let is_name = !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain);
            (is_name || is_literal) && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
        };
        if let Some((scheme, host)) = parts {
            let is_scheme = !scheme.is_empty()
                && scheme
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
            let is_default =
                scheme == "https" && host.ends_with(":443") || scheme == "http" && host.ends_with(":80");
            if is_scheme && !is_default {
                match host.strip_prefix("*.") {
                    Some(below) if is_origin(below) => {
                        return Ok(Origin::Below(format!("{scheme}://"), format!(".{below}")));
                    }
                    None if is_origin(host) => return Ok(Origin::One(lower)),
                    _ => {}
                }
            }
        }
        Err(format!(
            "`{}` is not an origin; write scheme and host, without a path and the scheme's own port, as in \
             https://example.org, https://*.example.org or http://localhost:3000; `*` is every origin",
            text.escape_debug()
        ))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Any => f.write_str("*"),
            Origin::One(one) => f.write_str(one),
            Origin::Below(before, after) => write!(f, "{before}*{after}"),
        }
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Origin, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// What a rule says to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant<'o> {
    /// Every origin may read.
    Any,
    /// This origin may read.
    Origin(&'o [u8]),
    /// This origin, or a request without one, gets no permission.
    None,
}

impl Cors {
    /// Whether the rule applies to a request for `spelled`, a path in normalized spelling.
    pub(crate) fn applies(&self, spelled: &[u8], facts: Facts<'_, '_, '_>) -> bool {
        self.path.matches(spelled) && self.conditions.hold(facts)
    }

    /// The permission of an origin; `None`: the request names none.
    pub(crate) fn grant<'o>(&self, origin: Option<&'o [u8]>) -> Grant<'o> {
        if self.origins.contains(&Origin::Any) {
            return Grant::Any;
        }
        match origin {
            Some(origin) if self.origins.iter().any(|one| one.admits(origin)) => Grant::Origin(origin),
            _ => Grant::None,
        }
    }

    /// The value of `Access-Control-Allow-Methods`.
    pub(crate) fn methods(&self) -> String {
        list(&self.methods)
    }

    /// The value of `Access-Control-Allow-Headers`; empty without any.
    pub(crate) fn headers(&self) -> String {
        list(&self.headers)
    }

    /// The value of `Access-Control-Expose-Headers`; empty without any.
    pub(crate) fn exposed(&self) -> String {
        list(&self.expose)
    }

    fn validate(&self) -> Result<(), String> {
        let Cors { path, origins, .. } = self;
        if origins.is_empty() {
            return Err(format!(
                "the rule for `{path}` names no origins; name one, as in origins = [\"https://example.org\"]"
            ));
        }
        self.validate_conditions()?;
        let lists = [
            ("origins", origins.len()),
            ("methods", self.methods.len()),
            ("headers", self.headers.len()),
            ("expose", self.expose.len()),
        ];
        if let Some((name, _)) = lists.into_iter().find(|(_, len)| *len > MEMBERS_MAX) {
            return Err(format!(
                "the rule for `{path}` has more than {MEMBERS_MAX} `{name}`; combine some"
            ));
        }
        let mut tokens = self.methods.iter().chain(&self.headers).chain(&self.expose);
        if self.credentials && (origins.contains(&Origin::Any) || tokens.any(Token::is_any)) {
            return Err(format!(
                "the rule for `{path}` has `credentials` and a `*`, which browsers reject together; name the origins, \
                 methods and fields"
            ));
        }
        Ok(())
    }

    /// Checks that the conditions leave something of the rule, and that answers to preflight requests have what only they have.
    fn validate_conditions(&self) -> Result<(), String> {
        let Cors { path, conditions, .. } = self;
        conditions
            .validate()
            .map_err(|why| format!("the rule for `{path}` applies to no request: {why}"))?;
        if let Some(one) = conditions.excluding_field("Origin") {
            return Err(format!(
                "the rule for `{path}` applies to no page of another origin: their requests have `Origin`, which `{one}` \
                 excludes; remove the condition"
            ));
        }
        let of_preflights = [
            ("methods", self.methods != get_and_head()),
            ("headers", !self.headers.is_empty()),
            ("max-age", self.max_age != five_seconds()),
        ];
        let of_preflights = of_preflights.iter().find(|(_, is_set)| *is_set);
        if let (Some((key, _)), Some(one)) = (of_preflights, conditions.excluding_preflights()) {
            return Err(format!(
                "the rule for `{path}` has `{key}`, which only answers to preflight requests (OPTIONS) have, and no preflight \
                 request meets `{one}`; move `{key}` to a rule for preflight requests, as with if = \"method OPTIONS\", or \
                 remove the condition"
            ));
        }
        Ok(())
    }
}

fn list(tokens: &[Token]) -> String {
    let names: Vec<&str> = tokens.iter().map(|token| &*token.0).collect();
    names.join(", ")
}

/// Validates the rules of a site.
pub(super) fn validate(rules: &[Cors]) -> Result<(), String> {
    if rules.len() > RULES_MAX {
        return Err(format!("more than {RULES_MAX} rules; combine some"));
    }
    rules.iter().try_for_each(Cors::validate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Result<Cors, String> {
        let rule: Cors =
            toml::from_str(&format!("path = '/a'\n{text}")).map_err(|e| e.message().to_owned())?;
        validate(std::slice::from_ref(&rule))?;
        Ok(rule)
    }

    #[test]
    fn origins_are_compared_as_browsers_write_them() {
        let named = rule("origins = ['https://a.test', 'http://*.B.test:81', 'http://[::1]:3000']").unwrap();
        for (origin, is_granted) in [
            ("https://a.test", true),
            ("https://A.test", false),
            ("http://a.test", false),
            ("https://a.test:444", false),
            ("https://a.test.evil.test", false),
            ("http://x.b.test:81", true),
            ("http://x.y.b.test:81", true),
            ("http://b.test:81", false),
            ("http://.b.test:81", false),
            ("http://evil.test/.b.test:81", false),
            ("http://x.b.test", false),
            ("http://[::1]:3000", true),
            ("null", false),
            ("", false),
        ] {
            let grant = named.grant(Some(origin.as_bytes()));
            let wanted = match is_granted {
                true => Grant::Origin(origin.as_bytes()),
                false => Grant::None,
            };
            assert_eq!(grant, wanted, "{origin}");
        }
        assert_eq!(named.grant(None), Grant::None);
        assert_eq!(rule("origins = ['*']").unwrap().grant(None), Grant::Any);
    }

    #[test]
    fn mistakes_are_explained() {
        let many: Vec<String> = (0..=MEMBERS_MAX).map(|n| format!("'https://{n}.test'")).collect();
        for (text, advice) in [
            ("origins = []", "names no origins"),
            ("origins = ['a.test']", "is not an origin"),
            ("origins = ['https://a.test/']", "is not an origin"),
            ("origins = ['https://a.test:443']", "the scheme's own port"),
            ("origins = ['https://*']", "is not an origin"),
            ("origins = ['https://a.*.test']", "is not an origin"),
            ("origins = ['null']", "is not an origin"),
            ("origins = ['https://a.test:99999']", "is not an origin"),
            ("origins = ['*']\ncredentials = true", "browsers reject"),
            (
                "origins = ['https://a.test']\nheaders = ['*']\ncredentials = true",
                "browsers reject",
            ),
            ("origins = ['*']\nmethods = ['GET, PUT']", "is neither a method"),
            (
                "origins = ['*']\nif = ['cookie a=1', 'not cookie a']",
                "the rule for `/a` applies to no request: `cookie a=1` and `not cookie a` never hold together",
            ),
            (
                "origins = ['*']\nif = 'not header origin'",
                "applies to no page of another origin",
            ),
            (
                "origins = ['*']\nif = ['scheme https', 'method GET']\nheaders = ['X-A']",
                "has `headers`, which only answers to preflight requests (OPTIONS) have, and no preflight request meets `method GET`",
            ),
            (
                "origins = ['*']\nif = 'cookie a'\nmax-age = '1h'",
                "no preflight request meets `cookie a`",
            ),
            (
                "origins = ['*']\nif = 'header authorization=Basic *'\nmethods = ['PUT']",
                "has `methods`",
            ),
            (
                "origins = ['*']\nif = 'not method OPTIONS'\nmax-age = '1h'",
                "no preflight request meets `not method OPTIONS`",
            ),
            (
                &*format!("origins = [{}]", many.join(",")),
                "more than 1000 `origins`",
            ),
        ] {
            let why = rule(text).unwrap_err();
            assert!(why.contains(advice), "{text}: {why}");
        }
        assert!(rule(&format!("origins = [{}]", many[1..].join(","))).is_ok());
        let rules = vec![rule("origins = ['*']").unwrap(); RULES_MAX + 1];
        assert!(validate(&rules).unwrap_err().contains("more than 1000 rules"));
        assert_eq!(validate(&rules[1..]), Ok(()));
    }

    #[test]
    fn conditions_that_leave_preflight_requests_permit_what_only_they_ask_for() {
        let all = "origins = ['*']\nmethods = ['PUT']\nheaders = ['X-A']\nmax-age = '1h'\n";
        for condition in [
            "method OPTIONS",
            "not method GET",
            "not cookie a",
            "not header Authorization",
            "header Origin=https://*.test",
            "not header Origin=null",
            "header User-Agent~*firefox*",
            "header Access-Control-Request-Method=PUT",
            "query a",
            "scheme https",
        ] {
            let rule = rule(&format!("{all}if = '{condition}'"));
            assert!(rule.is_ok(), "{condition}: {rule:?}");
        }
        for condition in ["method GET", "cookie a", "header Authorization"] {
            let rule = rule(&format!("origins = ['*']\nexpose = ['X-A']\nif = '{condition}'"));
            assert!(rule.is_ok(), "{condition}: {rule:?}");
        }
    }

    #[test]
    fn a_rule_allows_little_unless_it_says_more() {
        let rule = rule("origins = ['*']").unwrap();
        assert_eq!(
            (&*rule.methods(), &*rule.headers(), &*rule.exposed()),
            ("GET, HEAD", "", "")
        );
        assert_eq!(rule.max_age, Duration::from_secs(5));
    }
}
