//! Parses `Cache-Control` and related numbers by the rules of RFC 9111: directive names ignore case (section
//! 5.2), quoted strings stay whole, and delta-seconds that are too large count as the largest (section 1.2.2).
//!
//! Only parses; [`super`] decides what is stored and what is fresh.

/// The value of delta-seconds that are too large to represent (RFC 9111 section 1.2.2).
const SECONDS_MAX: u64 = 1 << 31;

/// A number of seconds in a field or directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seconds {
    /// The field or directive is absent.
    Missing,
    /// It is present but not a number, or has two different values.
    Invalid,
    /// Seconds, at most [`SECONDS_MAX`].
    Of(u64),
}

/// The directives of a response's `Cache-Control` that matter to a private cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) no_store: bool,
    pub(super) no_cache: bool,
    pub(super) must_understand: bool,
    /// `public` or `private`: either allows a private cache to store the response.
    pub(super) is_granted: bool,
    pub(super) is_public: bool,
    pub(super) max_age: Seconds,
    /// Whether there is any directive.
    pub(super) is_said: bool,
}

impl Directives {
    /// Parses all `Cache-Control` field lines, in order.
    pub(super) fn of<'v>(values: impl Iterator<Item = &'v str>) -> Directives {
        let mut all = Directives {
            no_store: false,
            no_cache: false,
            must_understand: false,
            is_granted: false,
            is_public: false,
            max_age: Seconds::Missing,
            is_said: false,
        };
        for (name, argument) in values.flat_map(Members) {
            all.is_said = true;
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            // An argument of `no-cache` or `private` names fields; applying the directive to the whole response
            // covers them.
            if is("no-store") {
                all.no_store = true;
            } else if is("no-cache") {
                all.no_cache = true;
            } else if is("must-understand") {
                all.must_understand = true;
            } else if is("public") {
                (all.is_public, all.is_granted) = (true, true);
            } else if is("private") {
                all.is_granted = true;
            } else if is("max-age") {
                let said = seconds(&argument.unwrap_or_default());
                all.max_age = match all.max_age {
                    Seconds::Missing => said,
                    // Two different values: the response counts as stale (section 4.2.1).
                    before if before == said => said,
                    _ => Seconds::Invalid,
                };
            }
        }
        all
    }
}

/// Parses digits and nothing else (RFC 9111 section 1.2.2).
pub(super) fn seconds(text: &str) -> Seconds {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Seconds::Invalid;
    }
    // A number too long to parse is too large.
    Seconds::Of(text.parse().unwrap_or(SECONDS_MAX).min(SECONDS_MAX))
}

/// Iterates over the directives of a field line: a name, and after `=` an argument, quoted or not.
struct Members<'v>(&'v str);

impl<'v> Iterator for Members<'v> {
    type Item = (&'v str, Option<String>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0 = self.0.trim_start_matches([',', ' ', '\t']);
        if self.0.is_empty() {
            return None;
        }
        let member = self.take_member();
        Some(match member.split_once('=') {
            Some((name, argument)) => (name, Some(unquoted(argument))),
            None => (member, None),
        })
    }
}

impl<'v> Members<'v> {
    /// Takes everything up to the next comma outside quoted strings.
    fn take_member(&mut self) -> &'v str {
        let (mut is_quoted, mut is_escaped) = (false, false);
        let end = self.0.bytes().position(|byte| {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_quoted => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                b',' if !is_quoted => return true,
                _ => {}
            }
            false
        });
        let (member, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        member.trim_end_matches([' ', '\t'])
    }
}

/// The content of a quoted string; any other text unchanged.
fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return text.to_owned();
    };
    let mut out = String::with_capacity(inner.len());
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.extend(letters.next()),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Directives {
        Directives::of(lines.iter().copied())
    }

    #[test]
    fn names_have_no_case() {
        for text in [
            "no-store",
            "No-Store",
            "NO-STORE",
            "max-age=9,nO-StOrE",
            " no-store ,",
        ] {
            assert!(of(&[text]).no_store, "{text}");
        }
        assert_eq!(of(&["MaX-AgE=7"]).max_age, Seconds::Of(7));
        assert!(!of(&["x-no-store", "no-stored", "y=\"no-store, no-store\""]).no_store);
    }

    #[test]
    fn numbers_are_digits_and_never_overflow() {
        for (text, want) in [
            ("max-age=0", Seconds::Of(0)),
            ("max-age=003600", Seconds::Of(3_600)),
            ("max-age=\"3600\"", Seconds::Of(3_600)),
            ("max-age=99999999999999999999999999", Seconds::Of(SECONDS_MAX)),
            ("max-age=2147483649", Seconds::Of(SECONDS_MAX)),
            ("max-age=-1", Seconds::Invalid),
            ("max-age=+1", Seconds::Invalid),
            ("max-age=1.5", Seconds::Invalid),
            ("max-age='60'", Seconds::Invalid),
            ("max-age", Seconds::Invalid),
            ("max-age= 60", Seconds::Invalid),
            ("max-age=60, max-age=60", Seconds::Of(60)),
            ("max-age=60, max-age=61", Seconds::Invalid),
            ("x=\"max-age=60, max-age=1\", max-age=2", Seconds::Of(2)),
            ("s-maxage=60", Seconds::Missing),
        ] {
            assert_eq!(of(&[text]).max_age, want, "{text}");
        }
    }
}
