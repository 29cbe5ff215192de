//! `if` with a condition that rules of Weir can have, around a redirect or a refusal.

use super::goal::{self, Goal, Variables};
use crate::access::Access;
use crate::condition::{self, Compared, Sets};
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{Redirect, Site};
use crate::regex::Match;
use crate::report::Report;
use crate::value::NO_TEXT;

/// What differs for the names of cookies and parameters.
const NAMES: &str = "Weir tells upper and lower case of the names of cookies and parameters apart";

/// The sets of conditions of an `if`, and what is different in Weir.
type Read = (Sets, Option<&'static str>);

/// Reads the condition of an `if`.
///
/// # Errors
/// Why Weir has none like it.
pub(super) fn read(block: &Directive) -> Result<Read, String> {
    let mut words: Vec<&str> = block.args.iter().map(String::as_str).collect();
    if let Some(first) = words.first_mut() {
        *first = first.strip_prefix('(').unwrap_or(first);
    }
    if let Some(last) = words.last_mut() {
        *last = last.strip_suffix(')').unwrap_or(last);
    }
    words.retain(|word| !word.is_empty());
    let (variable, compared, is_negated) = match words[..] {
        [variable] => (variable, Compared::Filled, false),
        // An empty text, whose quotes are gone.
        [variable, "="] => (variable, Compared::Text(""), false),
        [variable, "!="] => (variable, Compared::Text(""), true),
        [variable, "=", text] => (variable, Compared::Text(text), false),
        [variable, "!=", text] => (variable, Compared::Text(text), true),
        [variable, sign @ ("~" | "~*" | "!~" | "!~*"), text] => {
            let expression = Compared::Expression {
                text,
                ignores_case: sign.ends_with('*'),
            };
            (variable, expression, sign.starts_with('!'))
        }
        _ => return Err("Weir has no such condition".to_owned()),
    };
    let Some(name) = variable.strip_prefix('$') else {
        return Err("Weir has no conditions on files".to_owned());
    };
    let name = name.trim_matches(['{', '}']);
    let value = |kind: &str, name: &str| {
        let sets = condition::of_value((kind, name), compared, is_negated)?;
        match (compared, is_negated) {
            // In nginx, this text is no.
            (Compared::Filled, false) => sets.and(&Sets::one(format!("not {kind} {name}=0"))),
            _ => Ok(sets),
        }
    };
    let scheme = |name: &str| Sets::one(format!("scheme {name}"));
    match (name, compared) {
        ("scheme", Compared::Text("http")) => Ok((scheme(if is_negated { "https" } else { "http" }), None)),
        ("scheme", Compared::Text("https")) => Ok((scheme(if is_negated { "http" } else { "https" }), None)),
        ("https", Compared::Filled) => Ok((scheme("https"), None)),
        ("https", Compared::Text("on")) => Ok((scheme(if is_negated { "http" } else { "https" }), None)),
        ("https", Compared::Text("")) => Ok((scheme(if is_negated { "https" } else { "http" }), None)),
        ("request_method", _) => Ok((condition::of_method(compared, is_negated)?, None)),
        ("host" | "http_host" | "scheme" | "https", _) => {
            Err("Weir has hosts and redirects to https in place of this condition".to_owned())
        }
        _ => {
            if let Some(name) = name.strip_prefix("http_") {
                Ok((value("header", &name.replace('_', "-"))?, None))
            } else if let Some(name) = name.strip_prefix("cookie_") {
                Ok((value("cookie", name)?, Some(NAMES)))
            } else if let Some(name) = name.strip_prefix("arg_") {
                Ok((value("query", name)?, Some(NAMES)))
            } else {
                Err(format!("Weir has no condition on `${name}`"))
            }
        }
    }
}

/// Reads an `if` around one redirect or refusal, for the paths of these patterns, and reports it with all in it.
///
/// # Errors
/// Why the result has no rule for it; nothing is reported.
pub(super) fn apply(
    block: &Directive,
    from: &[Match],
    site: &mut Site,
    variables: &Variables,
    report: &mut Report,
) -> Result<(), String> {
    let (sets, differs) = read(block)?;
    let (breaks, inner): (Vec<&Directive>, Vec<&Directive>) =
        block.inner().iter().partition(|one| one.name == "break");
    let [one] = inner[..] else {
        return Err("Weir has rules with conditions for one redirect or refusal".to_owned());
    };
    let (status, text) = match (one.name.as_str(), &one.args[..]) {
        ("return", [status]) => match status.parse::<u16>() {
            Ok(status) => (status, ""),
            Err(_) => (302, status.as_str()),
        },
        ("return", [status, text]) => {
            let status = status
                .parse::<u16>()
                .map_err(|_| "this is not a status".to_owned())?;
            (status, text.as_str())
        }
        // For all paths of the block.
        ("rewrite", [expression, text, flags @ ..])
            if matches!(
                &**expression,
                "^" | "^(.*)$" | "^.*$" | "^/(.*)$" | "^(.*)" | "^/(.*)"
            ) =>
        {
            let is_permanent = flags.iter().any(|flag| flag == "permanent");
            let is_redirect = flags.iter().any(|flag| flag == "redirect") || text.contains("://");
            match (is_permanent, is_redirect) {
                (true, _) => (301, text.as_str()),
                (_, true) => (302, text.as_str()),
                _ => return Err("Weir redirects, and does not change paths inside".to_owned()),
            }
        }
        _ => return Err("Weir has rules with conditions for one redirect or refusal".to_owned()),
    };
    let mut fate = Fate::Carried;
    match status {
        301 | 302 | 303 | 307 | 308 => {
            let mut rules = Vec::new();
            for from in from {
                let text = match one.name.as_str() {
                    "rewrite" if text.ends_with("/$1") => text.replace("/$1", "$request_uri"),
                    "rewrite" => text.replace("$1", "$request_uri"),
                    _ => text.to_owned(),
                };
                let to = match goal::of_match(&text, from, variables)? {
                    Goal::To(to) => to,
                    Goal::Secure(host) => {
                        let host = host.or_else(|| variables.host.clone());
                        let host =
                            host.ok_or("`$host` has several values here; write a `[[host]]` for each name")?;
                        format!("https://{host}{}", from.pattern)
                    }
                };
                let keeps_query = text.contains("$request_uri") || text.contains("$args");
                if !keeps_query && one.name == "return" {
                    fate = Fate::changed("Weir appends the query of the request");
                }
                rules.extend(sets.iter().map(|conditions| Redirect {
                    from: from.pattern.clone(),
                    conditions: conditions.clone(),
                    to: to.clone(),
                    status,
                    ..Redirect::default()
                }));
            }
            site.redirects.extend(rules);
        }
        400..=599 => {
            for from in from {
                site.refuse(&from.pattern, &sets, status);
            }
            fate = Access::fate_of_refusal(status);
            if fate == Fate::Carried && !text.is_empty() {
                fate = Fate::changed("without the text: error pages have it");
            }
        }
        _ => return Err(format!("{NO_TEXT}; these requests are answered as all others")),
    }
    report.add(
        &block.at,
        &block.shown(),
        differs.map_or(Fate::Carried, Fate::changed),
    );
    report.add(&one.at, &one.shown(), fate);
    for one in breaks {
        report.add(&one.at, &one.shown(), Fate::unneeded("nothing follows it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::At;

    #[test]
    fn conditions_are_read() {
        let at = At {
            file: "n".into(),
            line: 1,
        };
        for (words, expected) in [
            (&["($http_x_a", "=", "b)"][..], Some("header x-a=b")),
            (
                &["($http_user_agent", "~*", "(a|b))"],
                Some("header user-agent~*a* | header user-agent~*b*"),
            ),
            (
                &["($http_user_agent", "!~", "^a$", ")"],
                Some("not header user-agent=a"),
            ),
            (
                &["($cookie_beta)"],
                Some("cookie beta & not cookie beta= & not cookie beta=0"),
            ),
            (&["($arg_lang", "!=", "de)"], Some("not query lang=de")),
            (
                &["($http_referer", "=", ")"],
                Some("header referer= | not header referer"),
            ),
            (
                &["($request_method", "!~", "^(GET|HEAD)$)"],
                Some("not method GET & not method HEAD"),
            ),
            (&["($scheme", "=", "http)"], Some("scheme http")),
            (&["($scheme", "!=", "https)"], Some("scheme http")),
            (&["($https", "=", ")"], Some("scheme http")),
            (&["($host", "=", "a.test)"], None),
            (&["($uri", "~", "x)"], None),
            (&["(-f", "$request_filename)"], None),
            (&["($http_x", "~", "[a-z]+)"], None),
        ] {
            let block = Directive {
                at: at.clone(),
                name: "if".to_owned(),
                args: words.iter().map(|word| (*word).to_owned()).collect(),
                block: Some(Vec::new()),
            };
            let found = read(&block).map(|(sets, _)| {
                let sets: Vec<String> = sets.iter().map(|set| set.join(" & ")).collect();
                sets.join(" | ")
            });
            assert_eq!(found.as_deref().ok(), expected, "{words:?}: {found:?}");
        }
    }
}
