//! Conditions on fields, cookies, parameters, scheme and method, as those of Weir's rules (`if`).
//!
//! Weir requires all conditions of a rule. So a condition that another server meets in several ways becomes several rules, each
//! with a set of conditions of its own.

use crate::regex;

/// Most sets that the conditions of one directive may become: each is a rule.
const SETS_MAX: usize = 32;

/// Most conditions of a rule of Weir, and the length of each in bytes.
pub(crate) const CONDITIONS_MAX: usize = 8;
const TEXT_MAX: usize = 256;

/// Sets of conditions, each of which is enough. Without any set, nothing is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sets(Vec<Vec<String>>);

/// What a directive compares the value of a field, cookie or parameter with. An absent one has an empty value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Compared<'t> {
    /// It is not empty.
    Filled,
    /// It is this text.
    Text(&'t str),
    /// This regular expression matches.
    Expression { text: &'t str, ignores_case: bool },
}

impl Sets {
    /// No condition: every request is meant.
    pub(crate) fn always() -> Sets {
        Sets(vec![Vec::new()])
    }

    /// Whether every request is meant.
    pub(crate) fn is_always(&self) -> bool {
        self.0.iter().any(Vec::is_empty)
    }

    /// One condition.
    pub(crate) fn one(text: impl Into<String>) -> Sets {
        Sets(vec![vec![text.into()]])
    }

    /// Requests of which one of these is true.
    pub(crate) fn any(texts: impl IntoIterator<Item = String>) -> Sets {
        Sets(texts.into_iter().map(|text| vec![text]).collect())
    }

    /// Requests that meet one of the sets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Vec<String>> {
        self.0.iter()
    }

    /// Requests of either.
    pub(crate) fn or(mut self, other: Sets) -> Sets {
        for set in other.0 {
            if !self.0.contains(&set) {
                self.0.push(set);
            }
        }
        self
    }

    /// Requests of both.
    ///
    /// # Errors
    /// There are too many sets, or conditions in one of them.
    pub(crate) fn and(&self, other: &Sets) -> Result<Sets, String> {
        let mut all: Vec<Vec<String>> = Vec::new();
        for (one, more) in self
            .0
            .iter()
            .flat_map(|one| other.0.iter().map(move |more| (one, more)))
        {
            let mut set = one.clone();
            for text in more.iter().filter(|text| !one.contains(text)) {
                set.push(text.clone());
            }
            let opposite = |text: &String| match text.strip_prefix("not ") {
                Some(bare) => set.iter().any(|known| known == bare),
                None => set.contains(&format!("not {text}")),
            };
            // No request is both.
            if set.iter().any(opposite) || all.contains(&set) {
                continue;
            }
            if set.len() > CONDITIONS_MAX {
                return Err(format!("a rule of Weir has at most {CONDITIONS_MAX} conditions"));
            }
            if let Some(text) = set.iter().find(|text| text.len() > TEXT_MAX) {
                return Err(format!(
                    "a condition of Weir has at most {TEXT_MAX} bytes: `{text}`"
                ));
            }
            all.push(set);
        }
        match all.len() {
            0 => Err("no request meets the condition".to_owned()),
            count if count > SETS_MAX => Err(format!(
                "the conditions would be {count} rules, and the converter writes at most {SETS_MAX}"
            )),
            _ => Ok(Sets(all)),
        }
    }
}

/// The condition about the value of a field, cookie or parameter: `kind` is `header`, `cookie` or `query`.
///
/// # Errors
/// Why Weir has no such condition.
pub(crate) fn of_value(
    (kind, name): (&str, &str),
    compared: Compared<'_>,
    is_negated: bool,
) -> Result<Sets, String> {
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(format!("`{name}` is no name of a {kind} in Weir"));
    }
    let present = format!("{kind} {name}");
    let is_filled = |text: &str| {
        matches!(
            text,
            "." | ".+" | "^." | "^.+" | ".+$" | "^.+$" | "(.+)" | "^(.+)$"
        )
    };
    let (patterns, ignores_case) = match compared {
        Compared::Filled => (None, false),
        Compared::Expression { text, .. } if is_filled(text) => (None, false),
        Compared::Text(text) => (Some(vec![literal(text)?]), false),
        Compared::Expression { text, ignores_case } => {
            let (text, ignores_case) = match text.strip_prefix("(?i)") {
                Some(text) => (text, true),
                None => (text, ignores_case),
            };
            (Some(regex::read_value(text)?), ignores_case)
        }
    };
    let empty = format!("{present}=");
    let Some(patterns) = patterns else {
        return Ok(match is_negated {
            false => Sets(vec![vec![present, format!("not {empty}")]]),
            true => Sets(vec![vec![format!("not {present}")], vec![empty]]),
        });
    };
    let sign = if ignores_case { "~" } else { "=" };
    let matches_empty = patterns.iter().any(|text| text.chars().all(|c| c == '*'));
    let each = patterns.iter().map(|text| format!("{present}{sign}{text}"));
    let sets = match is_negated {
        false => {
            let absent = matches_empty.then(|| format!("not {present}"));
            Sets::any(each.chain(absent))
        }
        true => {
            let needed = matches_empty.then(|| present.clone());
            Sets(vec![
                each.map(|text| format!("not {text}")).chain(needed).collect(),
            ])
        }
    };
    // The bounds.
    sets.and(&Sets::always())
}

/// The condition about the method.
///
/// # Errors
/// Why Weir has no such condition.
pub(crate) fn of_method(compared: Compared<'_>, is_negated: bool) -> Result<Sets, String> {
    let names = match compared {
        Compared::Filled => return Err("every request has a method".to_owned()),
        Compared::Text(text) => vec![text.to_owned()],
        Compared::Expression { text, .. } => regex::read_value(text)?,
    };
    let is_name = |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase());
    // Weir compares methods as a whole.
    let names: Vec<String> = names
        .into_iter()
        .map(|name| name.trim_matches('*').to_owned())
        .collect();
    if let Some(name) = names.iter().find(|name| !is_name(name)) {
        return Err(format!("`{name}` is no method in Weir"));
    }
    let sets = match is_negated {
        false => Sets::any(names.iter().map(|name| format!("method {name}"))),
        true => Sets(vec![
            names.iter().map(|name| format!("not method {name}")).collect(),
        ]),
    };
    sets.and(&Sets::always())
}

/// A text as a pattern of Weir.
///
/// # Errors
/// It has a star, which would stand for any text, or what no condition has.
pub(crate) fn literal(text: &str) -> Result<String, String> {
    let is_plain =
        !text.contains(['*', '$', '{']) && !text.chars().any(char::is_control) && text.trim() == text;
    match is_plain {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "`{text}` is no text that a condition of Weir can compare"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(sets: Result<Sets, String>) -> Result<String, String> {
        let sets = sets?;
        let all: Vec<String> = sets.iter().map(|set| set.join(" & ")).collect();
        Ok(all.join(" | "))
    }

    #[test]
    fn values_are_compared_as_other_servers_do() {
        let expression = |text, ignores_case| Compared::Expression { text, ignores_case };
        for (compared, is_negated, expected) in [
            (Compared::Filled, false, Some("header A & not header A=")),
            (Compared::Filled, true, Some("not header A | header A=")),
            (expression(".", false), false, Some("header A & not header A=")),
            (Compared::Text("x"), false, Some("header A=x")),
            (Compared::Text("x"), true, Some("not header A=x")),
            // An absent one is empty.
            (Compared::Text(""), false, Some("header A= | not header A")),
            (Compared::Text(""), true, Some("not header A= & header A")),
            (expression("^$", false), false, Some("header A= | not header A")),
            (expression("bot", true), false, Some("header A~*bot*")),
            (expression("(?i)bot", false), false, Some("header A~*bot*")),
            (
                expression("^(a|b.*c)$", false),
                false,
                Some("header A=a | header A=b*c"),
            ),
            (
                expression("a|b", true),
                true,
                Some("not header A~*a* & not header A~*b*"),
            ),
            (
                expression(r"^Mozilla/5\.0", false),
                false,
                Some("header A=Mozilla/5.0*"),
            ),
            (expression("a.b", false), false, None),
            (expression("a.+", false), false, None),
            (expression("[a-z]+", false), false, None),
            (expression("a*", false), false, None),
            (Compared::Text("$host"), false, None),
            (Compared::Text("a*b"), false, None),
        ] {
            let found = shown(of_value(("header", "A"), compared, is_negated));
            assert_eq!(
                found.as_deref().ok(),
                expected,
                "{compared:?} {is_negated}: {found:?}"
            );
        }
        assert!(of_value(("cookie", "a b"), Compared::Filled, false).is_err());
    }

    #[test]
    fn methods_are_compared_as_a_whole() {
        let expression = |text| Compared::Expression {
            text,
            ignores_case: false,
        };
        for (compared, is_negated, expected) in [
            (Compared::Text("POST"), false, Some("method POST")),
            (
                expression("^(GET|HEAD)$"),
                true,
                Some("not method GET & not method HEAD"),
            ),
            (
                expression("^(PUT|DELETE)"),
                false,
                Some("method PUT | method DELETE"),
            ),
            (Compared::Text("post"), false, None),
            (Compared::Filled, false, None),
        ] {
            let found = shown(of_method(compared, is_negated));
            assert_eq!(found.as_deref().ok(), expected, "{compared:?}: {found:?}");
        }
    }

    #[test]
    fn sets_are_joined_within_bounds() {
        let set = |text: &str| Sets::one(text);
        let both = set("cookie a").or(set("cookie b")).and(&set("header c")).unwrap();
        assert_eq!(
            shown(Ok(both)).unwrap(),
            "cookie a & header c | cookie b & header c"
        );
        // What no request meets is left out.
        let either = set("cookie a").or(set("not cookie b"));
        assert_eq!(
            shown(either.and(&set("cookie b"))).unwrap(),
            "cookie a & cookie b"
        );
        assert!(set("cookie a").and(&set("not cookie a")).is_err());
        assert!(Sets::always().is_always() && !both_of(2).is_always());
        assert!(both_of(CONDITIONS_MAX).and(&Sets::always()).is_ok());
        assert!(both_of(CONDITIONS_MAX + 1).and(&Sets::always()).is_err());
        let many = |count: usize| Sets::any((0..count).map(|at| format!("cookie c{at}")));
        assert!(many(SETS_MAX).and(&Sets::always()).is_ok());
        assert!(many(SETS_MAX + 1).and(&Sets::always()).is_err());
        let long = |len: usize| set(&"x".repeat(len)).and(&Sets::always());
        assert!(long(TEXT_MAX).is_ok() && long(TEXT_MAX + 1).is_err());
    }

    /// One set of this many conditions.
    fn both_of(count: usize) -> Sets {
        Sets(vec![(0..count).map(|at| format!("cookie c{at}")).collect()])
    }
}
