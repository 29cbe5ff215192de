//! Cache directives of requests and responses (RFC 9111 section 5.2), and of responses for some caches only (RFC 9213).
//!
//! A directive with an invalid time counts as time zero, because the sender meant to limit reuse. Of repeated directives the
//! first counts (section 4.2.1). Fields named by `private` or `no-cache` are not told apart: the directive then holds for
//! the whole response, which is always allowed.

use crate::structured;
use http_semantics::field::{Fields, is_token_byte, trim};

/// Longest time in seconds that is told apart (section 1.2.2).
pub const SECONDS_MAX: u64 = 1 << 31;

/// Directives of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each is the directive of that name; times are in seconds"
)]
pub struct ResponseDirectives {
    pub max_age: Option<u64>,
    pub s_maxage: Option<u64>,
    pub no_store: bool,
    pub no_cache: bool,
    pub private: bool,
    pub public: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub must_understand: bool,
    /// RFC 5861 section 3.
    pub stale_while_revalidate: Option<u64>,
    /// RFC 5861 section 4.
    pub stale_if_error: Option<u64>,
    /// They come from a targeted field, so `Cache-Control` and `Expires` do not count (RFC 9213 section 2.2).
    pub is_targeted: bool,
}

/// Directives of a request. Times are in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the directive of that name")]
pub struct RequestDirectives {
    pub max_age: Option<u64>,
    /// Without a value, any time.
    pub max_stale: Option<u64>,
    pub min_fresh: Option<u64>,
    pub no_cache: bool,
    pub no_store: bool,
    pub only_if_cached: bool,
}

impl ResponseDirectives {
    /// Those of these fields: of the first targeted field in `targets` that is valid and not empty, otherwise of
    /// `Cache-Control`.
    pub fn of(fields: &Fields<'_, '_>, targets: &[&str]) -> ResponseDirectives {
        for target in targets {
            let text = combined(fields, target);
            let Some(members) = structured::dictionary(&text).filter(|members| !members.is_empty()) else {
                continue;
            };
            let mut found = ResponseDirectives {
                is_targeted: true,
                ..ResponseDirectives::default()
            };
            for (name, value) in &members {
                let value = match value {
                    structured::Value::Integer(seconds) => {
                        Argument::Seconds(u64::try_from(*seconds).unwrap_or(0))
                    }
                    structured::Value::True => Argument::None,
                    structured::Value::Other => continue,
                };
                found.set(name.as_bytes(), value);
            }
            return found;
        }
        let mut found = ResponseDirectives::default();
        each(fields, "cache-control", |name, value| found.set(name, value));
        found
    }

    fn set(&mut self, name: &[u8], value: Argument) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let seconds = value.seconds();
        if is("max-age") {
            self.max_age = self.max_age.or(Some(seconds));
        } else if is("s-maxage") {
            self.s_maxage = self.s_maxage.or(Some(seconds));
        } else if is("stale-while-revalidate") {
            self.stale_while_revalidate = self.stale_while_revalidate.or(Some(seconds));
        } else if is("stale-if-error") {
            self.stale_if_error = self.stale_if_error.or(Some(seconds));
        } else if is("no-store") {
            self.no_store = true;
        } else if is("no-cache") {
            self.no_cache = true;
        } else if is("private") {
            self.private = true;
        } else if is("public") {
            self.public = true;
        } else if is("must-revalidate") {
            self.must_revalidate = true;
        } else if is("proxy-revalidate") {
            self.proxy_revalidate = true;
        } else if is("must-understand") {
            self.must_understand = true;
        }
    }

    /// Whether a shared cache must not serve the response stale (sections 5.2.2.2, 5.2.2.8 and 5.2.2.10).
    pub const fn forbids_stale(&self) -> bool {
        self.no_cache || self.must_revalidate || self.proxy_revalidate || self.s_maxage.is_some()
    }
}

impl RequestDirectives {
    /// Those of these fields. `Pragma: no-cache` counts without `Cache-Control` (section 5.4).
    pub fn of(fields: &Fields<'_, '_>) -> RequestDirectives {
        let mut found = RequestDirectives::default();
        let has_any = each(fields, "cache-control", |name, value| found.set(name, value));
        if !has_any {
            each(fields, "pragma", |name, _| {
                found.no_cache |= name.eq_ignore_ascii_case(b"no-cache");
            });
        }
        found
    }

    fn set(&mut self, name: &[u8], value: Argument) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let seconds = value.seconds();
        if is("max-age") {
            self.max_age = self.max_age.or(Some(seconds));
        } else if is("min-fresh") {
            self.min_fresh = self.min_fresh.or(Some(seconds));
        } else if is("max-stale") {
            let most = match value {
                Argument::None => u64::MAX,
                _ => seconds,
            };
            self.max_stale = self.max_stale.or(Some(most));
        } else if is("no-cache") {
            self.no_cache = true;
        } else if is("no-store") {
            self.no_store = true;
        } else if is("only-if-cached") {
            self.only_if_cached = true;
        }
    }
}

/// The argument of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument {
    None,
    Seconds(u64),
    Invalid,
}

impl Argument {
    fn of(text: &[u8]) -> Argument {
        // Section 5.2: recipients ought to accept both forms.
        let inner = text.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        seconds(inner.unwrap_or(text)).map_or(Argument::Invalid, Argument::Seconds)
    }

    fn seconds(self) -> u64 {
        match self {
            Argument::Seconds(seconds) => seconds.min(SECONDS_MAX),
            Argument::None | Argument::Invalid => 0,
        }
    }
}

/// A number of seconds (section 1.2.2): digits only; a number too large is [`SECONDS_MAX`].
pub fn seconds(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_u64, |sum, digit| {
        sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    });
    Some(value.min(SECONDS_MAX))
}

/// All values of a field, joined as one list (RFC 9110 section 5.2).
pub(crate) fn combined(fields: &Fields<'_, '_>, name: &str) -> Vec<u8> {
    let mut all = Vec::new();
    for (_, value) in fields.iter().filter(|(its, _)| its.eq_ignore_ascii_case(name)) {
        if !all.is_empty() {
            all.extend_from_slice(b", ");
        }
        all.extend_from_slice(value);
    }
    all
}

/// Calls `found` for each directive of a field. Returns whether the field is there.
fn each(fields: &Fields<'_, '_>, field: &str, mut found: impl FnMut(&[u8], Argument)) -> bool {
    let mut has_any = false;
    for (_, value) in fields.iter().filter(|(its, _)| its.eq_ignore_ascii_case(field)) {
        has_any = true;
        for member in Members(value) {
            let (name, argument) = match member.iter().position(|&b| b == b'=') {
                Some(at) => (&member[..at], Argument::of(&member[at + 1..])),
                None => (member, Argument::None),
            };
            if !name.is_empty() && name.iter().all(|&b| is_token_byte(b)) {
                found(name, argument);
            }
        }
    }
    has_any
}

/// Members of a comma-separated list whose members may hold quoted strings.
struct Members<'a>(&'a [u8]);

impl<'a> Iterator for Members<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let (mut is_quoted, mut is_escaped) = (false, false);
        let end = self.0.iter().position(|&b| {
            if is_escaped {
                is_escaped = false;
            } else if is_quoted {
                is_escaped = b == b'\\';
                is_quoted = b != b'"';
            } else if b == b'"' {
                is_quoted = true;
            } else {
                return b == b',';
            }
            false
        });
        let member = match end {
            Some(at) => {
                let member = &self.0[..at];
                self.0 = &self.0[at + 1..];
                member
            }
            None => std::mem::take(&mut self.0),
        };
        Some(trim(member))
    }
}
