//! Conditions of rules (`if`): what a request must have besides a matching path.
//!
//! ```text
//!   [not] header NAME | cookie NAME | query NAME    for any value, or with one: NAME=PATTERN, NAME~PATTERN
//!   [not] scheme http | scheme https
//!   [not] method NAME
//! ```
//! Decides which requests meet a condition, from the head of the request alone. Which rule applies, and what an answer says of
//! the fields that it depends on, is decided elsewhere.

use super::pattern::PathPattern;
use super::values;
use core::fmt;
use core::str::FromStr;
use http_semantics::field::{is_token_byte, trim};
use http_semantics::request::RequestHead;
use memchr::memmem;
use serde::{Deserialize, Deserializer, de};
use std::borrow::Cow;

/// Maximum number of conditions of a rule: each may read all fields of a request.
const CONDITIONS_MAX: usize = 8;

/// Maximum length of a condition in bytes.
const TEXT_MAX: usize = 256;

/// What conditions read of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a, 'b, 's> {
    pub(crate) head: &'a RequestHead<'b, 's>,
    /// Whether the client used https: to this server, or to a trusted peer.
    pub(crate) is_secured: bool,
}

/// The conditions of one rule, which must all hold. Empty: the rule has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions(Vec<Condition>);

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// As the operator would write it, with single spaces.
    text: String,
    is_negated: bool,
    test: Test,
}

/// What is tested. A pattern of `None` means any value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// A field of this name.
    Header(String, Option<Glob>),
    /// A cookie of this name.
    Cookie(String, Option<Glob>),
    /// A parameter of this name in the query.
    Query(String, Option<Glob>),
    /// Whether the client used https.
    Secured(bool),
    /// The method.
    Method(String),
}

/// A pattern for values: text in which each star stands for any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Glob {
    /// The texts between the stars, at least one; in lower case if upper and lower case are the same.
    pieces: Vec<Vec<u8>>,
    ignores_case: bool,
}

impl Glob {
    fn new(text: &str, ignores_case: bool) -> Glob {
        let piece = |piece: &str| match ignores_case {
            true => piece.to_ascii_lowercase().into_bytes(),
            false => piece.as_bytes().to_vec(),
        };
        Glob {
            pieces: text.split('*').map(piece).collect(),
            ignores_case,
        }
    }

    /// Takes time in proportion to the value, whatever the pattern is.
    fn matches(&self, value: &[u8]) -> bool {
        match self.ignores_case {
            true => self.matches_as_is(&value.to_ascii_lowercase()),
            false => self.matches_as_is(value),
        }
    }

    fn matches_as_is(&self, value: &[u8]) -> bool {
        let Some((last, before)) = self.pieces.split_last() else {
            return false;
        };
        let Some((first, between)) = before.split_first() else {
            return value == last.as_slice();
        };
        let rest = value
            .strip_prefix(first.as_slice())
            .and_then(|rest| rest.strip_suffix(last.as_slice()));
        let Some(mut rest) = rest else { return false };
        for piece in between {
            match memmem::find(rest, piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        true
    }
}

/// Whether a value meets a pattern, if there is one.
fn meets(value: &[u8], pattern: Option<&Glob>) -> bool {
    pattern.is_none_or(|pattern| pattern.matches(value))
}

impl Test {
    fn holds(&self, facts: Facts<'_, '_, '_>) -> bool {
        let head = facts.head;
        match self {
            Test::Header(name, pattern) => {
                field(head, name).is_some_and(|value| meets(&value, pattern.as_ref()))
            }
            Test::Cookie(name, pattern) => {
                cookies(head).any(|(known, value)| known == name.as_bytes() && meets(value, pattern.as_ref()))
            }
            Test::Query(..) => self.is_in_query(head.target.query().unwrap_or_default()),
            Test::Secured(is_secured) => *is_secured == facts.is_secured,
            Test::Method(name) => head.method_name == name,
        }
    }

    /// Whether the texts show that every request that passes the other test passes this one.
    fn includes(&self, other: &Test) -> bool {
        self == other
            || match (self, other) {
                (Test::Header(one, None), Test::Header(other, _)) => one.eq_ignore_ascii_case(other),
                (Test::Cookie(one, None), Test::Cookie(other, _))
                | (Test::Query(one, None), Test::Query(other, _)) => one == other,
                _ => false,
            }
    }

    /// Whether a query meets the test; false for other tests.
    fn is_in_query(&self, query: &[u8]) -> bool {
        let Test::Query(name, pattern) = self else {
            return false;
        };
        let mut parameters = query.split(|&b| b == b'&').filter(|one| !one.is_empty());
        parameters.any(|parameter| {
            let (known, value) = match parameter.iter().position(|&b| b == b'=') {
                Some(at) => (&parameter[..at], &parameter[at + 1..]),
                None => (parameter, &b""[..]),
            };
            *decoded(known) == *name.as_bytes() && meets(&decoded(value), pattern.as_ref())
        })
    }
}

/// The value of a field: several lines are one list (RFC 9110 section 5.3), and those of cookies one string (RFC 9113 section
/// 8.2.3). `None`: the request has no such line.
fn field<'h>(head: &'h RequestHead<'_, '_>, name: &str) -> Option<Cow<'h, [u8]>> {
    // Some versions carry it in the target.
    if name.eq_ignore_ascii_case("host") {
        return head.authority().map(Cow::Borrowed);
    }
    let lines = head.fields.iter();
    let mut values = lines
        .filter(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value);
    let first = values.next()?;
    let Some(second) = values.next() else {
        return Some(Cow::Borrowed(first));
    };
    let between: &[u8] = match name.eq_ignore_ascii_case("cookie") {
        true => b"; ",
        false => b", ",
    };
    let mut all = first.to_vec();
    for value in core::iter::once(second).chain(values) {
        all.extend_from_slice(between);
        all.extend_from_slice(value);
    }
    Some(Cow::Owned(all))
}

/// The cookies of a request with their values (RFC 6265 section 4.2), over all lines: HTTP/2 and HTTP/3 split them.
fn cookies<'b>(head: &RequestHead<'b, '_>) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
    let lines = head.fields.iter();
    let lines = lines.filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    let pairs = lines.flat_map(|(_, value)| value.split(|&b| b == b';'));
    pairs.filter_map(|pair| {
        let at = pair.iter().position(|&b| b == b'=')?;
        Some((trim(&pair[..at]), trim(&pair[at + 1..])))
    })
}

/// A name or value of a query as forms mean it: `+` is a space, and `%` begins an escape. A `%` without two digits stands for
/// itself.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|b| matches!(b, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let digit = |b: &u8| {
        char::from(*b)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        rest = behind;
        match (first, behind) {
            (b'+', _) => out.push(b' '),
            (b'%', [high, low, after @ ..]) => match (digit(high), digit(low)) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    rest = after;
                }
                _ => out.push(b'%'),
            },
            _ => out.push(*first),
        }
    }
    Cow::Owned(out)
}

impl Condition {
    /// Whether a request meets the condition.
    pub(crate) fn holds(&self, facts: Facts<'_, '_, '_>) -> bool {
        self.test.holds(facts) != self.is_negated
    }

    /// Whether the texts show that no request meets both conditions.
    fn excludes(&self, other: &Condition) -> bool {
        match (self.is_negated, other.is_negated) {
            (false, false) => match (&self.test, &other.test) {
                (Test::Method(one), Test::Method(other)) => one != other,
                (Test::Secured(one), Test::Secured(other)) => one != other,
                _ => false,
            },
            // Every request has one of the two.
            (true, true) => {
                matches!((&self.test, &other.test), (Test::Secured(one), Test::Secured(other)) if one != other)
            }
            (true, false) => self.test.includes(&other.test),
            (false, true) => other.excludes(self),
        }
    }

    /// Whether browsers ask without this for permission to send another request
    /// (<https://fetch.spec.whatwg.org/#cors-preflight-fetch>): with the method OPTIONS, no cookies and no password.
    fn excludes_preflights(&self) -> bool {
        match &self.test {
            Test::Method(name) => (name == "OPTIONS") == self.is_negated,
            Test::Cookie(..) => !self.is_negated,
            Test::Header(name, _) => {
                let is_personal = ["cookie", "authorization"];
                !self.is_negated && is_personal.iter().any(|one| name.eq_ignore_ascii_case(one))
            }
            Test::Query(..) | Test::Secured(_) => false,
        }
    }

    /// Whether the condition excludes every request with this field.
    fn excludes_field(&self, field: &str) -> bool {
        let is_any = matches!(&self.test, Test::Header(name, None) if name.eq_ignore_ascii_case(field));
        self.is_negated && is_any
    }

    /// The field of requests that the condition reads, if it is one that `Vary` names. The target of a request is part of every
    /// cache's key.
    fn field(&self) -> Option<&str> {
        match &self.test {
            Test::Header(name, _) if name.eq_ignore_ascii_case("host") => None,
            Test::Header(name, _) => Some(name),
            Test::Cookie(..) => Some("Cookie"),
            Test::Query(..) | Test::Secured(_) | Test::Method(_) => None,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let wrong = || {
            format!(
                "`{}` is not a condition; write header, cookie or query with a name, and a value if it matters, or scheme or \
                 method, as in \"cookie beta\", \"query lang=de\", \"not header User-Agent~*bot*\" or \"scheme http\"",
                text.escape_debug()
            )
        };
        if text.len() > TEXT_MAX {
            return Err(format!(
                "a condition has at most {TEXT_MAX} bytes, and this one has {}: `{}`",
                text.len(),
                text.escape_debug()
            ));
        }
        if text.chars().any(char::is_control) {
            return Err(wrong());
        }
        let (is_negated, bare) = match text.trim().strip_prefix("not ") {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text.trim()),
        };
        let (kind, rest) = bare.split_once(' ').ok_or_else(wrong)?;
        let rest = rest.trim_start();
        let (name, operator, value) = match rest.find(['=', '~']) {
            Some(at) => (rest[..at].trim_end(), &rest[at..=at], rest[at + 1..].trim_start()),
            None => (rest, "", ""),
        };
        let pattern = (!operator.is_empty()).then(|| Glob::new(value, operator == "~"));
        let is_token = !name.is_empty() && name.bytes().all(is_token_byte);
        let test = match (kind, name, &pattern) {
            ("header", ..) if is_token => Test::Header(name.to_owned(), pattern),
            ("cookie", ..) if is_token => Test::Cookie(name.to_owned(), pattern),
            ("query", ..) if !name.is_empty() && !name.contains(['&', ' ']) => {
                Test::Query(name.to_owned(), pattern)
            }
            ("scheme", "http" | "https", None) => Test::Secured(name == "https"),
            ("method", _, None) if is_token => Test::Method(name.to_owned()),
            _ => return Err(wrong()),
        };
        let not = if is_negated { "not " } else { "" };
        Ok(Condition {
            text: format!("{not}{kind} {name}{operator}{value}"),
            is_negated,
            test,
        })
    }
}

impl Conditions {
    /// These conditions.
    ///
    /// # Errors
    /// There are too many, or they say the same or the opposite of each other.
    fn new(all: Vec<Condition>) -> Result<Conditions, String> {
        if all.is_empty() {
            return Err("`if` names no condition; remove it, or write one, as in \"cookie beta\"".to_owned());
        }
        if all.len() > CONDITIONS_MAX {
            return Err(format!(
                "`if` names {} conditions; write at most {CONDITIONS_MAX}",
                all.len()
            ));
        }
        for (at, one) in all.iter().enumerate() {
            let Some(other) = all[..at].iter().find(|other| other.test == one.test) else {
                continue;
            };
            return Err(match other.is_negated == one.is_negated {
                true => format!("`if` names `{one}` twice; name it once"),
                false => format!("`{other}` and `{one}` never hold together; remove one of the two"),
            });
        }
        Ok(Conditions(all))
    }

    /// Whether the rule has no conditions.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a request meets all conditions.
    #[inline]
    pub(crate) fn hold(&self, facts: Facts<'_, '_, '_>) -> bool {
        self.0.iter().all(|one| one.holds(facts))
    }

    /// The first condition that a request does not meet.
    pub(crate) fn failing(&self, facts: Facts<'_, '_, '_>) -> Option<&Condition> {
        self.0.iter().find(|one| !one.holds(facts))
    }

    /// Fields of requests that the conditions read, for `Vary`.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(Condition::field)
    }

    /// Checks that some request may meet all conditions.
    ///
    /// # Errors
    /// Two conditions whose texts show that no request meets both, as a sentence.
    pub(super) fn validate(&self) -> Result<(), String> {
        for (at, one) in self.0.iter().enumerate() {
            if let Some(other) = self.0[..at].iter().find(|other| one.excludes(other)) {
                return Err(format!(
                    "`{other}` and `{one}` never hold together; remove one of the two"
                ));
            }
        }
        Ok(())
    }

    /// The first condition that no preflight request of a browser meets.
    pub(super) fn excluding_preflights(&self) -> Option<&Condition> {
        self.0.iter().find(|one| one.excludes_preflights())
    }

    /// The first condition that no request with this field meets.
    pub(super) fn excluding_field(&self, field: &str) -> Option<&Condition> {
        self.0.iter().find(|one| one.excludes_field(field))
    }

    /// The pattern of a rule with these conditions behind it, which tells it from other rules for the same paths.
    pub(super) fn after(&self, path: &PathPattern) -> String {
        match self.is_empty() {
            true => path.to_string(),
            false => format!("{path} if {self}"),
        }
    }

    /// Whether all conditions hold for a request of which this is known: it meets `assumed`, and its query contains `query`. What
    /// is not known does not hold.
    pub(super) fn hold_given(&self, assumed: &Conditions, query: &[u8]) -> bool {
        self.0
            .iter()
            .all(|one| match (one.test.is_in_query(query), one.is_negated) {
                (true, is_negated) => !is_negated,
                (false, _) => assumed.0.contains(one),
            })
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, one) in self.0.iter().enumerate() {
            let between = if at > 0 { ", " } else { "" };
            write!(f, "{between}{one}")?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Conditions, D::Error> {
        let all = values::one_or_several(
            d,
            "these are no conditions; write a list, as in [\"cookie beta\", \"not query lang=de\"]",
        )?;
        Conditions::new(all).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_semantics::field::{Fields, Line};
    use http_semantics::method::Method;
    use http_semantics::request::Protocol;
    use http_semantics::target::Target;

    /// Whether a GET request for `target` with these field lines meets a condition.
    fn holds(condition: &str, target: &str, lines: &[(&'static str, &str)]) -> bool {
        let lines: Vec<Line<'_>> = lines
            .iter()
            .map(|(name, value)| Line {
                name,
                value: value.as_bytes(),
            })
            .collect();
        let head = RequestHead {
            method: Method::Get,
            method_name: "GET",
            target: Target::parse(target.as_bytes(), Method::Get).unwrap(),
            target_raw: target.as_bytes(),
            protocol: Protocol::Http11,
            fields: Fields::new(&lines),
        };
        let facts = Facts {
            head: &head,
            is_secured: false,
        };
        let one: Condition = condition.parse().unwrap();
        let negated: Condition = format!("not {condition}").parse().unwrap();
        assert_ne!(one.holds(facts), negated.holds(facts), "{condition}");
        one.holds(facts)
    }

    #[test]
    fn fields_are_compared_by_their_whole_value() {
        for (condition, lines, expected) in [
            ("header X-A", &[("x-a", "")][..], true),
            ("header X-A", &[("X-Ab", "1")], false),
            ("header X-A", &[], false),
            ("header x-a=1", &[("X-A", "1")], true),
            ("header X-A = 1", &[("X-A", "1")], true),
            ("header X-A=1", &[("X-A", "12")], false),
            ("header X-A=a", &[("X-A", "A")], false),
            ("header X-A~a", &[("X-A", "A")], true),
            ("header X-A~AbC", &[("X-A", "aBc")], true),
            ("header X-A=", &[("X-A", "")], true),
            ("header X-A=", &[("X-A", "1")], false),
            ("header X-A=", &[], false),
            // Several lines are one list.
            ("header X-A=1", &[("X-A", "1"), ("x-a", "2")], false),
            (
                "header X-A=1, 2",
                &[("X-A", "1"), ("Other", "9"), ("x-a", "2")],
                true,
            ),
            ("header X-A=*2", &[("X-A", "1"), ("x-a", "2")], true),
            (
                "header Cookie=a=1; b=2",
                &[("cookie", "a=1"), ("cookie", "b=2")],
                true,
            ),
            ("header Host~A.TEST", &[("Host", "a.test")], true),
            ("header X-A=b=c~d", &[("X-A", "b=c~d")], true),
            ("header X-A=ü*", &[("X-A", "üb")], true),
        ] {
            assert_eq!(holds(condition, "/", lines), expected, "{condition} {lines:?}");
        }
        assert!(holds(
            "header Host=b.test",
            "http://b.test/",
            &[("Host", "a.test")]
        ));
    }

    #[test]
    fn each_star_stands_for_any_text() {
        for (pattern, value, expected) in [
            ("*", "", true),
            ("*", "x", true),
            ("**", "x", true),
            ("a*", "a", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*bot*", "Mozilla (compatible; Googlebot/2.1)", true),
            ("*bot*", "bo", false),
            ("*a*b*", "xbxaxbx", true),
            ("*a*b*", "xbxa", false),
            ("a*b*c", "abbc", true),
            ("a*bc*c", "abc", false),
            ("ab*ba", "aba", false),
            ("*aab", "aaab", true),
        ] {
            let condition = format!("header A={pattern}");
            assert_eq!(
                holds(&condition, "/", &[("A", value)]),
                expected,
                "{pattern} {value}"
            );
        }
        // No pattern is slow: this value has many places where the pattern almost matches.
        let value = "a".repeat(1 << 20);
        let almost = format!("*{}b*", "a".repeat(TEXT_MAX - 20));
        assert!(!Glob::new(&almost, true).matches(value.as_bytes()));
    }

    #[test]
    fn cookies_are_those_of_all_lines() {
        let split = &[
            ("cookie", "a=1; beta=yes"),
            ("Cookie", "c=x=y;d=\"q\""),
            ("cookie", "a=2"),
        ][..];
        for (condition, expected) in [
            ("cookie beta", true),
            ("cookie beta=yes", true),
            ("cookie beta=y*", true),
            ("cookie Beta", false),
            ("cookie beta=YES", false),
            ("cookie beta~YES", true),
            ("cookie bet", false),
            ("cookie c=x=y", true),
            ("cookie d=\"q\"", true),
            ("cookie a=1", true),
            ("cookie a=2", true),
            ("cookie a=3", false),
            ("cookie yes", false),
        ] {
            assert_eq!(holds(condition, "/", split), expected, "{condition}");
        }
        for (lines, expected) in [
            (&[("Cookie", "beta")][..], false),
            (&[("Cookie", " beta = ; x=1")], true),
            (&[("X-Cookie", "beta=1")], false),
            (&[("Cookie", "xbeta=1")], false),
        ] {
            assert_eq!(holds("cookie beta", "/", lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn parameters_of_the_query_are_decoded() {
        for (condition, target, expected) in [
            ("query lang", "/?lang", true),
            ("query lang", "/?lang=", true),
            ("query lang", "/?a=1&lang=de&b", true),
            ("query lang", "/?alang=1", false),
            ("query lang", "/?a=lang", false),
            ("query lang", "/lang", false),
            ("query lang=de", "/?lang=en&lang=de", true),
            ("query lang=de", "/?lang=de-AT", false),
            ("query lang=de*", "/?lang=de-AT", true),
            ("query lang=de", "/?%6cang=d%65", true),
            ("query lang", "/?Lang=1", false),
            ("query q=a b", "/?q=a+b", true),
            ("query q=a b", "/?q=a%20b", true),
            ("query q=a&b", "/?q=a%26b", true),
            ("query q=100%", "/?q=100%", true),
            ("query q=ü", "/?q=%C3%BC", true),
            ("query lang=", "/?lang", true),
        ] {
            assert_eq!(holds(condition, target, &[]), expected, "{condition} {target}");
        }
    }

    #[test]
    fn scheme_and_method_are_compared() {
        for (condition, expected) in [
            ("scheme http", true),
            ("scheme https", false),
            ("method GET", true),
            ("method get", false),
            ("method POST", false),
        ] {
            assert_eq!(holds(condition, "/", &[]), expected, "{condition}");
        }
    }

    #[test]
    fn mistakes_are_explained() {
        for text in [
            "",
            "not",
            "cookie",
            "cookie ",
            "beta",
            "field A",
            "not not cookie a",
            "Cookie beta",
            "header A: b",
            "header A b",
            "header =b",
            "cookie a b",
            "query a&b",
            "query a b=c",
            "scheme ftp",
            "scheme =http",
            "scheme http=1",
            "method",
            "method GET POST",
            "header A=\u{7}",
            "header A=b\nc",
        ] {
            let why = text.parse::<Condition>().unwrap_err();
            assert!(why.contains("\"scheme http\""), "{text}: {why}");
        }
        let long = |len: usize| format!("header A={}", "x".repeat(len - 9)).parse::<Condition>();
        assert!(long(TEXT_MAX).is_ok());
        assert!(long(TEXT_MAX + 1).unwrap_err().contains("at most 256 bytes"));
        let shown: Condition = " not  header  A = b c ".parse().unwrap();
        assert_eq!(shown.to_string(), "not header A=b c");
    }

    #[test]
    fn a_rule_has_few_conditions_that_can_hold_together() {
        let read = |text: &str| -> Result<Conditions, String> {
            #[derive(Debug, Deserialize)]
            struct Rule {
                r#if: Conditions,
            }
            let rule: Result<Rule, _> = toml::from_str(&format!("if = {text}"));
            rule.map(|rule| rule.r#if)
                .map_err(|error| error.message().to_owned())
        };
        assert_eq!(read("'cookie a'"), read("['cookie a']"));
        let conditions =
            read("['header X-A', 'not cookie a', 'query q', 'header Host', 'scheme http']").unwrap();
        assert_eq!(conditions.fields().collect::<Vec<_>>(), ["X-A", "Cookie"]);
        for (text, advice) in [
            ("[]", "remove it"),
            ("1", "these are no conditions"),
            ("['cookie a', 'cookie  a']", "`cookie a` twice"),
            ("['cookie a', 'not cookie a']", "never hold together"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(advice), "{text}: {why}");
        }
        let many = |count: usize| {
            let all: Vec<String> = (0..count).map(|at| format!("'cookie c{at}'")).collect();
            read(&format!("[{}]", all.join(", ")))
        };
        assert!(many(CONDITIONS_MAX).is_ok());
        assert!(many(CONDITIONS_MAX + 1).unwrap_err().contains("at most 8"));
    }

    #[test]
    fn conditions_that_no_request_meets_together_are_found() {
        for (one, other, is_possible) in [
            ("method GET", "method POST", false),
            ("method GET", "not method POST", true),
            ("not method GET", "not method POST", true),
            ("scheme http", "scheme https", false),
            ("not scheme http", "not scheme https", false),
            ("scheme http", "not scheme https", true),
            ("header X-A=1", "not header x-a", false),
            ("not header X-A=1", "header X-A", true),
            ("header X-A=1", "header X-A=2", true),
            ("header X-A=1", "not header X-B", true),
            ("cookie a=1", "not cookie a", false),
            ("cookie a=1", "not cookie A", true),
            ("cookie a", "not cookie a=1", true),
            ("query a=1", "not query a", false),
            ("query a=1", "not cookie a", true),
        ] {
            for pair in [[one, other], [other, one]] {
                let all = pair.map(|text| text.parse().unwrap());
                let found = Conditions(all.to_vec()).validate();
                assert_eq!(found.is_ok(), is_possible, "{pair:?}: {found:?}");
            }
        }
    }

    #[test]
    fn what_is_assumed_of_a_request_decides_without_one() {
        let one = |text: &str| Conditions(vec![text.parse().unwrap()]);
        for (condition, assumed, query, expected) in [
            ("cookie a", "cookie a", "", true),
            ("cookie a", "cookie b", "", false),
            ("not cookie a", "not cookie a", "x", true),
            ("query a", "query b", "a=1", true),
            ("not query a", "not query a", "a=1", false),
            ("not query a", "not query a", "b=1", true),
            ("not query a", "cookie x", "", false),
        ] {
            let held = one(condition).hold_given(&one(assumed), query.as_bytes());
            assert_eq!(held, expected, "{condition}, given {assumed} and {query}");
        }
        assert!(Conditions::default().hold_given(&Conditions::default(), b""));
    }
}
