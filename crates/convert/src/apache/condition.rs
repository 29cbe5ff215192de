//! `RewriteCond` as conditions of Weir's rules.

use crate::condition::{self, Compared, Sets};
use crate::directive::Directive;
use crate::regex;

/// What conditions before a rule say.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) sets: Sets,
    /// Paths that the rule leaves out.
    pub(super) except: Vec<String>,
    /// How Weir's conditions differ.
    pub(super) differs: Vec<&'static str>,
}

impl Asked {
    /// Whether nothing but the path is asked.
    pub(super) fn is_about_paths(&self) -> bool {
        self.sets.is_always()
    }
}

/// Reads all conditions before a rule.
///
/// # Errors
/// The first condition that Weir has no form for, and why.
pub(super) fn read(conditions: &[Directive]) -> Result<Asked, String> {
    let mut asked = Asked {
        sets: Sets::always(),
        except: Vec::new(),
        differs: Vec::new(),
    };
    // Those that `OR` joins with the next one.
    let mut before: Option<Sets> = None;
    for one in conditions {
        let flags = one.arg(2).to_ascii_uppercase();
        let mut flags = flags.trim_matches(['[', ']']).split(',').map(str::trim);
        let (is_or, ignores_case) = flags.clone().fold((false, false), |(or, case), flag| {
            (
                or || matches!(flag, "OR" | "ORNEXT"),
                case || matches!(flag, "NC" | "NOCASE"),
            )
        });
        let fail = |why: &str| {
            format!(
                "the condition `{} {}` has no form in Weir: {why}",
                one.arg(0),
                one.arg(1)
            )
        };
        if let Some(flag) =
            flags.find(|flag| !matches!(*flag, "" | "OR" | "ORNEXT" | "NC" | "NOCASE" | "NV" | "NOVARY"))
        {
            return Err(fail(&format!("`[{flag}]`")));
        }
        if let (Some((paths, is_exact)), false, None) = (excepted(one), is_or, &before) {
            asked.except.extend(paths);
            if !is_exact && !asked.differs.contains(&LOOSE) {
                asked.differs.push(LOOSE);
            }
            continue;
        }
        let (sets, differs) = of(one.arg(0), one.arg(1), ignores_case).map_err(|why| fail(&why))?;
        asked
            .differs
            .extend(differs.filter(|differs| !asked.differs.contains(differs)));
        let sets = match before.take() {
            Some(before) => before.or(sets),
            None => sets,
        };
        match is_or {
            true => before = Some(sets),
            false => asked.sets = asked.sets.and(&sets).map_err(|why| fail(&why))?,
        }
    }
    if let Some(sets) = before {
        asked.sets = asked.sets.and(&sets)?;
    }
    Ok(asked)
}

/// How a pattern may differ from an expression about paths that are left out.
const LOOSE: &str =
    "the paths that it leaves out are those of patterns, with upper and lower case told apart";

/// Where checks of authorities for certificates are answered.
const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// The paths that `%{REQUEST_URI} !EXPRESSION` leaves out, and whether they are exactly those of the expression.
pub(super) fn excepted(one: &Directive) -> Option<(Vec<String>, bool)> {
    let expression = one.arg(1).strip_prefix('!')?;
    let is_path = ["%{REQUEST_URI}", "%{THE_REQUEST}"]
        .iter()
        .any(|variable| one.arg(0).eq_ignore_ascii_case(variable));
    let flags = one.arg(2).to_ascii_uppercase();
    let ignores_case = matches!(&*flags, "[NC]" | "[NOCASE]");
    if !is_path || expression.starts_with(['-', '=', '<', '>']) || !(flags.is_empty() || ignores_case) {
        return None;
    }
    // A part of the folder of challenges, without a beginning.
    let plain = expression.replace('\\', "");
    let is_part = CHALLENGES.contains(&*plain) && (plain.contains("acme") || plain.contains("well-known"));
    if is_part && !plain.starts_with('/') {
        return Some((vec![format!("{CHALLENGES}*")], false));
    }
    if one.arg(0).eq_ignore_ascii_case("%{THE_REQUEST}") {
        return None;
    }
    match regex::read(expression) {
        Ok(read) if read.differs.is_none() => Some((read.patterns(), !ignores_case)),
        _ => {
            let read = regex::read_redirect(expression).ok()?;
            Some((read.patterns(), false))
        }
    }
}

/// The condition of an expression such as `%{QUERY_STRING} =~ /(^|&)v=/`, if Weir has one that says the same.
pub(super) fn of_expression(expression: &str) -> Option<String> {
    let (variable, rest) = expression.split_once("=~")?;
    let text = rest.trim().strip_prefix('/')?.strip_suffix('/')?;
    // A slash ends the expression, and more may follow. Signs such as `!` are those of `RewriteCond`.
    let is_plain = !text.replace("\\/", "").contains('/') && !text.starts_with(['!', '=', '-', '<', '>']);
    if !is_plain || !variable.trim().eq_ignore_ascii_case("%{QUERY_STRING}") {
        return None;
    }
    let (sets, differs) = of("%{QUERY_STRING}", text, false).ok()?;
    let mut each = sets.iter();
    match (each.next()?.as_slice(), each.next(), differs) {
        ([one], None, None) => Some(one.clone()),
        _ => None,
    }
}

/// The conditions for one test, and how they differ.
fn of(variable: &str, text: &str, ignores_case: bool) -> Result<(Sets, Option<&'static str>), String> {
    let upper = variable.to_ascii_uppercase();
    let Some(name) = upper.strip_prefix("%{").and_then(|name| name.strip_suffix('}')) else {
        return Err("several variables".to_owned());
    };
    let (text, is_negated) = match text.strip_prefix('!') {
        Some(text) => (text, true),
        None => (text, false),
    };
    let compared = match (text.strip_prefix('='), text.chars().next()) {
        (Some(text), _) => {
            let text = text.trim_matches('"');
            match ignores_case && text.bytes().any(|b| b.is_ascii_alphabetic()) {
                true => return Err("a text without regard to case".to_owned()),
                false => Compared::Text(text),
            }
        }
        (None, Some('-' | '<' | '>')) => return Err("files and order".to_owned()),
        (None, _) => Compared::Expression { text, ignores_case },
    };
    let scheme = |is_secure: bool| {
        Sets::one(if is_secure != is_negated {
            "scheme https"
        } else {
            "scheme http"
        })
    };
    let value = text
        .trim_start_matches(['=', '^'])
        .trim_end_matches('$')
        .to_ascii_lowercase();
    let header = |name: &str| condition::of_value(("header", name), compared, is_negated);
    let sets = match (name, value.as_str()) {
        ("HTTPS", "on") => scheme(true),
        ("HTTPS", "off") => scheme(false),
        ("REQUEST_SCHEME", "https") | ("SERVER_PORT", "443") => scheme(true),
        ("REQUEST_SCHEME", "http") | ("SERVER_PORT", "80") => scheme(false),
        ("REQUEST_METHOD", _) => condition::of_method(compared, is_negated)?,
        ("HTTP_USER_AGENT", _) => header("User-Agent")?,
        ("HTTP_REFERER", _) => header("Referer")?,
        ("HTTP_COOKIE", _) => header("Cookie")?,
        ("HTTP_ACCEPT", _) => header("Accept")?,
        ("HTTP_FORWARDED", _) => header("Forwarded")?,
        ("HTTP_HOST", _) => header("Host")?,
        ("QUERY_STRING", _) => return query(text, ignores_case, is_negated),
        (name, _) => match name.strip_prefix("HTTP:") {
            Some(_) => header(&variable[7..variable.len() - 1])?,
            None => return Err(format!("nothing like `{variable}`")),
        },
    };
    Ok((sets, None))
}

/// The condition for a test of the query: about one parameter.
fn query(
    expression: &str,
    ignores_case: bool,
    is_negated: bool,
) -> Result<(Sets, Option<&'static str>), String> {
    const OTHERS: &str = "Weir compares one parameter, whatever other parameters there are";
    let front = ["(^|&)", "(?:^|&)", r"\b", "^"];
    let back = ["(&|$)", "(?:&|$)", "(?:$|&)", "($|&)", r"\b", "$"];
    let starts = front.iter().find(|front| expression.starts_with(**front));
    let rest = &expression[starts.map_or(0, |front| front.len())..];
    let ends = back.iter().find(|back| rest.ends_with(**back));
    let rest = &rest[..rest.len() - ends.map_or(0, |back| back.len())];
    let (Some(starts), false) = (starts, rest.is_empty()) else {
        return Err("it is not about one parameter from its beginning".to_owned());
    };
    let (name, value) = match rest.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (rest, None),
    };
    // `+` and `%` are decoded before Weir compares.
    if value.is_some_and(|value| value.contains(['%', '+', '&'])) {
        return Err("an escaped parameter".to_owned());
    }
    let text;
    let compared = match (value, ends) {
        (Some(value), Some(_)) => {
            text = format!("^(?:{value})$");
            Some(&text)
        }
        (Some(value), None) if !value.is_empty() => {
            text = format!("^(?:{value})");
            Some(&text)
        }
        (Some(_), None) | (None, Some(_)) => None,
        (None, None) => return Err("the beginning of a name".to_owned()),
    };
    let is_exact = starts.contains('&') && ends.is_none_or(|ends| ends.contains('&'));
    let differs = (!is_exact).then_some(OTHERS);
    let sets = match compared {
        Some(text) => condition::of_value(
            ("query", name),
            Compared::Expression { text, ignores_case },
            is_negated,
        )?,
        None => {
            // The name alone.
            condition::of_value(("query", name), Compared::Filled, false)?;
            let not = if is_negated { "not " } else { "" };
            Sets::one(format!("{not}query {name}"))
        }
    };
    Ok((sets, differs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::At;

    fn shown(conditions: &[&[&str]]) -> Result<String, String> {
        let at = At {
            file: "a".into(),
            line: 1,
        };
        let conditions: Vec<Directive> = conditions
            .iter()
            .map(|args| Directive {
                at: at.clone(),
                name: "RewriteCond".to_owned(),
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
                block: None,
            })
            .collect();
        let asked = read(&conditions)?;
        let sets: Vec<String> = asked.sets.iter().map(|set| set.join(" & ")).collect();
        let except: String = asked
            .except
            .iter()
            .map(|path| format!(" except {path}"))
            .collect();
        let differs = if asked.differs.is_empty() {
            ""
        } else {
            " (differs)"
        };
        Ok(format!("{}{except}{differs}", sets.join(" | ")))
    }

    #[test]
    fn expressions_about_one_parameter_are_conditions() {
        for (expression, expected) in [
            ("%{QUERY_STRING} =~ /(^|&)v=/", Some("query v")),
            ("%{query_string} =~ /(^|&)v=2(&|$)/", Some("query v=2")),
            // Weir compares one parameter, whatever is beside it.
            ("%{QUERY_STRING} =~ /^v=/", None),
            ("%{QUERY_STRING} =~ /v=/", None),
            ("%{QUERY_STRING} =~ /(^|&)(a|b)=1/", None),
            ("%{QUERY_STRING} =~ /(^|&)v=/ && %{HTTPS} =~ /on/", None),
            ("%{QUERY_STRING} =~ /(^|&)v=/i", None),
            ("%{QUERY_STRING} =~ /!(^|&)v=/", None),
            ("%{QUERY_STRING} == 'v=1'", None),
            ("%{REQUEST_URI} =~ m#/login$#", None),
        ] {
            assert_eq!(of_expression(expression).as_deref(), expected, "{expression}");
        }
    }

    #[test]
    fn conditions_are_read() {
        for (conditions, expected) in [
            (&[&["%{HTTPS}", "off"][..]][..], Some("scheme http")),
            (&[&["%{HTTPS}", "!=on"]], Some("scheme http")),
            (&[&["%{SERVER_PORT}", "^443$"]], Some("scheme https")),
            (
                &[&["%{HTTP_USER_AGENT}", "(a|b)", "[NC]"]],
                Some("header User-Agent~*a* | header User-Agent~*b*"),
            ),
            (&[&["%{HTTP:X-Env}", "!^prod$"]], Some("not header X-Env=prod")),
            (&[&["%{HTTP:X-Env}", "=prod"]], Some("header X-Env=prod")),
            (&[&["%{HTTP_COOKIE}", "beta=1"]], Some("header Cookie=*beta=1*")),
            (&[&["%{QUERY_STRING}", "(^|&)id=5(&|$)"]], Some("query id=5")),
            (&[&["%{QUERY_STRING}", "^id=5$"]], Some("query id=5 (differs)")),
            (&[&["%{QUERY_STRING}", "!(^|&)id="]], Some("not query id")),
            (&[&["%{QUERY_STRING}", "(^|&)id=5"]], Some("query id=5*")),
            (&[&["%{QUERY_STRING}", "id=5"]], None),
            (&[&["%{QUERY_STRING}", "^$"]], None),
            (&[&["%{REQUEST_METHOD}", "^POST$"]], Some("method POST")),
            (
                &[&["%{HTTPS}", "off"], &["%{REQUEST_URI}", r"!^/\.well-known/"]],
                Some("scheme http except /.well-known/*"),
            ),
            (
                &[
                    &["%{HTTP_REFERER}", "a", "[OR]"],
                    &["%{HTTP_REFERER}", "b", "[NC,OR]"],
                    &["%{HTTP:X}", "=c"],
                    &["%{HTTPS}", "on"],
                ],
                Some(
                    "header Referer=*a* & scheme https | header Referer~*b* & scheme https | header X=c & scheme https",
                ),
            ),
            (&[&["%{REQUEST_FILENAME}", "!-f"]], None),
            (&[&["%{REMOTE_ADDR}", "^10"]], None),
            (&[&["%{HTTP:X}", "a", "[XY]"]], None),
            (&[&["%{HTTP:X}%{HTTP:Y}", "a"]], None),
        ] {
            let found = shown(conditions);
            assert_eq!(found.as_deref().ok(), expected, "{conditions:?}: {found:?}");
        }
    }
}
