//! Where `return` and `rewrite` send a client, as a target of Weir's redirects.

use crate::pattern::is_target;
use crate::regex::{self, Match};

/// What nginx's variables are at this place.
#[derive(Clone, Debug)]
pub(super) struct Variables {
    /// The only name of the server, if it has one.
    pub(super) host: Option<String>,
    /// Whether the server is reached over TLS.
    pub(super) is_secure: bool,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// The same URL with https, at the host of the request or at this one.
    Secure(Option<String>),
    /// A target for `to`.
    To(String),
}

/// The target of `return STATUS TEXT`, for a rule whose `from` is this pattern.
///
/// # Errors
/// Why Weir has no such target.
pub(super) fn of_return(text: &str, from: &str, variables: &Variables) -> Result<Goal, String> {
    let text = text
        .replace("${", "$")
        .replace("request_uri}", "request_uri")
        .replace("host}", "host");
    for host in ["$host", "$http_host", "$server_name"] {
        if text == format!("https://{host}$request_uri") || text == format!("https://{host}$uri") {
            let name = (host == "$server_name").then(|| variables.host.clone()).flatten();
            return Ok(Goal::Secure(name));
        }
    }
    let scheme = if variables.is_secure { "https" } else { "http" };
    let mut text = text.replace("$scheme", scheme);
    for host in ["$http_host", "$host", "$server_name"] {
        if text.contains(host) {
            let Some(name) = &variables.host else {
                return Err(format!(
                    "`{host}` has several values here; write a `[[host]]` for each name"
                ));
            };
            text = text.replace(host, name);
        }
    }
    for rest in ["$request_uri", "$uri$is_args$args", "$uri"] {
        if let Some(start) = text.strip_suffix(rest) {
            // The pattern itself, whose star is the same text in both.
            return target(from, &format!("{start}{from}"));
        }
    }
    let text = text
        .strip_suffix("$is_args$args")
        .or_else(|| text.strip_suffix("?$args"))
        .unwrap_or(&text);
    target(from, text)
}

fn target(from: &str, to: &str) -> Result<Goal, String> {
    match is_target(from, to) {
        true => Ok(Goal::To(to.to_owned())),
        false => Err(format!("`{to}` is no target of a redirect for `{from}` in Weir")),
    }
}

/// The target of `return STATUS TEXT` for the paths of an expression, whose groups the text may name.
///
/// # Errors
/// Why Weir has no such target.
pub(super) fn of_match(text: &str, from: &Match, variables: &Variables) -> Result<Goal, String> {
    of_return(&from.fill(text)?, &from.pattern, variables)
}

/// Rules `from` and target, and how they differ from the expression.
type Rules = (Vec<(String, Goal)>, Option<String>);

/// The rules of `rewrite EXPRESSION TEXT`.
///
/// # Errors
/// Why Weir has no such rules.
pub(super) fn of_rewrite(expression: &str, text: &str, variables: &Variables) -> Result<Rules, String> {
    let read = regex::read_redirect(expression)?;
    let text = text.strip_suffix('?').unwrap_or(text);
    let mut rules = Vec::new();
    for from in read.matches {
        let goal = of_match(text, &from, variables)?;
        rules.push((from.pattern, goal));
    }
    Ok((rules, read.differs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_redirects() {
        let variables = |host: Option<&str>| Variables {
            host: host.map(str::to_owned),
            is_secure: true,
        };
        let one = variables(Some("example.org"));
        for (text, from, goal) in [
            ("https://$host$request_uri", "*", Some(Goal::Secure(None))),
            ("https://${host}$request_uri", "*", Some(Goal::Secure(None))),
            (
                "https://$server_name$request_uri",
                "*",
                Some(Goal::Secure(Some("example.org".to_owned()))),
            ),
            (
                "https://www.example.org$request_uri",
                "*",
                Some(Goal::To("https://www.example.org*".to_owned())),
            ),
            (
                "https://www.example.org$request_uri",
                "/*",
                Some(Goal::To("https://www.example.org/*".to_owned())),
            ),
            (
                "$scheme://www.$host$request_uri",
                "*",
                Some(Goal::To("https://www.example.org*".to_owned())),
            ),
            ("/new", "/old", Some(Goal::To("/new".to_owned()))),
            ("/new?x=1", "/old", Some(Goal::To("/new?x=1".to_owned()))),
            (
                "https://x.org$request_uri",
                "/a*",
                Some(Goal::To("https://x.org/a*".to_owned())),
            ),
            (
                "https://x.org/old$uri$is_args$args",
                "/a",
                Some(Goal::To("https://x.org/old/a".to_owned())),
            ),
            ("/a/$cookie_x", "/old", None),
            ("/ab", "/a*", None),
        ] {
            assert_eq!(of_return(text, from, &one).ok(), goal, "{text}");
        }
        assert!(of_return("https://www.$host/", "*", &variables(None)).is_err());
        let rules = of_rewrite("^/old/(.*)$", "/new/$1", &one).unwrap();
        let to = |from: &str, to: &str| (from.to_owned(), Goal::To(to.to_owned()));
        assert_eq!(rules, (vec![to("/old/*", "/new/*")], None));
        let (rules, differs) = of_rewrite("^/(a|b).html$", "https://$host/3/$1", &one).unwrap();
        assert_eq!(
            rules,
            [
                to("/a.html", "https://example.org/3/a"),
                to("/b.html", "https://example.org/3/b")
            ]
        );
        assert!(differs.is_some());
        assert!(of_rewrite("^/(.*)/(.*)$", "/$2/$1", &one).is_err());
    }
}
