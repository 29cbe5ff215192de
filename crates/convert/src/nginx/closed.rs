//! What the result denies in place of a limit, an upstream or a text that Weir has no form for: the paths around an expression,
//! other methods.
//!
//! What admits clients by who they are (password, network, another server) closes its paths, even if that is the whole site. A
//! location that only refuses requests closes the paths around its expression if they are fewer than all; otherwise, it is
//! reported as open.

use super::access;
use super::place::Place;
use super::plain::UNREAD;
use crate::access::{Access, FixedText};
use crate::condition::{self, Compared};
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::Site;
use crate::pattern::pattern;
use crate::regex;
use crate::value::{NO_TEXT, TEXT_AT_START, is_media_type};

/// What a location does to clients, the mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Limit {
    /// It refuses all.
    Refusal,
    /// It admits some.
    Check,
}

/// Whether a status refuses a request. Those from 500 on are about the server, as in times of maintenance.
pub(super) fn is_refusal(status: &str) -> bool {
    matches!(status.parse::<u16>(), Ok(400..=499))
}

/// Whether a block refuses requests.
pub(super) fn refuses(block: &Directive) -> bool {
    block.inner().iter().any(|one| match one.name.as_str() {
        "return" => is_refusal(one.arg(0)),
        name => matches!(name, "deny" | "internal"),
    })
}

/// Whether a location refuses the requests that meet a condition or have some methods, so that others beside it and in it do not.
pub(super) fn refuses_some(location: &Directive) -> bool {
    let is_error =
        |one: &Directive| one.name == "return" && matches!(one.arg(0).parse::<u16>(), Ok(400..=599));
    // Files have no other methods than GET.
    let answers = |one: &Directive| one.name.ends_with("_pass") || one.name == "try_files";
    location.inner().iter().any(|one| match one.name.as_str() {
        "if" => one.inner().iter().any(is_error),
        "limit_except" => {
            let names_get = one.args.iter().any(|name| name.eq_ignore_ascii_case("get"));
            !names_get || location.inner().iter().any(answers)
        }
        _ => false,
    })
}

/// Whether a directive is a `return` with a text, or without content: neither a redirect nor an error.
pub(super) fn is_text(directive: &Directive) -> bool {
    let status = directive.arg(0).parse::<u16>();
    let is_other = |status: u16| !matches!(status, 301 | 302 | 303 | 307 | 308 | 400..=599);
    directive.name == "return" && status.is_ok_and(is_other)
}

/// Whether a block answers with a text.
pub(super) fn sends_text(block: &Directive) -> bool {
    block.inner().iter().any(is_text)
}

/// Whether a directive answers a location with code, which Weir does not run.
pub(super) fn runs_code(name: &str) -> bool {
    name.starts_with("content_by_lua") || matches!(name, "js_content" | "perl")
}

/// Whether a directive answers a location from files that are none of its own: `try_files` without the path of the request. What is
/// at the path is not for clients.
pub(super) fn hides_files(directive: &Directive) -> bool {
    let Some((last, tried)) = directive.args.split_last() else {
        return false;
    };
    let last = last.split('?').next().unwrap_or(last);
    directive.name == "try_files" && !tried.iter().any(|text| text.contains('$')) && !last.contains('$')
}

/// Answers paths with the text of a `return`. Where the result has no fixed answer, it denies them: the files there, or what an upstream
/// has, are not for clients. `around`: the directives of the location; `None`: it does not tell upper and lower case apart. The fate
/// is that of a text that is lost: [`crate::texts`] says so of one that is not.
pub(super) fn text(
    directive: &Directive,
    around: Option<&[Directive]>,
    paths: &[String],
    site: &mut Site,
) -> Fate {
    let text = match around {
        Some(around) => fixed_text(directive, around),
        None => Err("fixed answers of Weir tell upper and lower case apart".to_owned()),
    };
    let (why, text) = match text {
        Ok(text) => (NO_TEXT.to_owned(), Some(text)),
        Err(why) => (why, None),
    };
    if paths.iter().any(|path| path == "/") {
        site.starts.extend(text.filter(|_| paths.len() == 1));
        return Fate::open(format!("{why}; {TEXT_AT_START}"));
    }
    site.access.extend(paths.iter().map(|path| Access {
        text: text.clone(),
        ..Access::nobody(path)
    }));
    Fate::missing(format!("{why}; the result denies `{}`", paths.join("`, `")))
}

/// The text of a `return` beside these directives.
///
/// # Errors
/// Why Weir has no such answer.
fn fixed_text(directive: &Directive, around: &[Directive]) -> Result<FixedText, String> {
    let (status, text) = (directive.arg(0), directive.arg(1));
    if text.contains('$') {
        return Err(
            "Weir has no variables: the text of a fixed answer is the same for all requests".to_owned(),
        );
    }
    let mut said = vec![(directive.at.clone(), directive.shown())];
    let mut media_type = None;
    for one in around {
        let value = match one.name.as_str() {
            "default_type" => one.arg(0),
            "add_header" if one.arg(0).eq_ignore_ascii_case("content-type") => one.arg(1),
            _ => continue,
        };
        if is_media_type(value) {
            said.push((one.at.clone(), one.shown()));
            media_type = Some(value);
        }
    }
    let of_type = media_type.unwrap_or("text/plain");
    let text = FixedText::new(status.parse().unwrap_or(0), text, of_type, said)?;
    let is_open = media_type.is_none() && !text.text.is_empty();
    Ok(FixedText {
        differs: is_open
            .then_some("the media type is `text/plain`, whatever `default_type` of the server is"),
        ..text
    })
}

/// The strongest limit that a location sets, conditions apart.
fn limit(block: &Directive) -> Option<Limit> {
    let inner = block.inner().iter();
    let limits = inner.filter_map(|one| match one.name.as_str() {
        "deny" if one.arg(0) != "all" => Some(Limit::Check),
        "auth_basic" | "auth_request" => (one.arg(0) != "off").then_some(Limit::Check),
        "deny" | "internal" => Some(Limit::Refusal),
        "try_files" => hides_files(one).then_some(Limit::Refusal),
        "return" => refuses(block).then_some(Limit::Refusal),
        "location" => limit(one),
        name if access::is_check(name) => (one.arg(0) != "off").then_some(Limit::Check),
        _ => None,
    });
    let strongest = limits.max()?;
    let admits = |one: &Directive| one.name == "allow";
    match block.inner().iter().any(admits) {
        true => Some(Limit::Check),
        false => Some(strongest),
    }
}

/// Whether a location refuses some clients or requests, sends a text, or may do so by what the converter does not see.
pub(super) fn limits(location: &Directive) -> bool {
    let is_unseen = |one: &Directive| matches!(one.name.as_str(), "if" | "limit_except" | UNREAD);
    limit(location).is_some() || sends_text(location) || location.inner().iter().any(is_unseen)
}

/// The paths to deny in place of a location without patterns. Empty: it limits nothing, passes nothing on and sends no text, or only a
/// pattern for the whole site covers its paths.
pub(super) fn in_place_of(location: &Directive, place: &Place) -> Vec<String> {
    let text = location.args.last().map_or("", |text| text);
    let narrow = match place.is_expression() {
        true => regex::around(text),
        false => {
            // The characters that a pattern may have.
            let ends = (0..=text.len()).rev().filter_map(|end| text.get(..end));
            let mut wider = ends.filter_map(|start| pattern(&format!("{start}*")));
            wider.find(|path| path.len() > "/*".len()).into_iter().collect()
        }
    };
    let passes_on = |one: &Directive| one.name.ends_with("_pass") || runs_code(&one.name);
    match limit(location) {
        // Nobody gets files in place of what an upstream or a text answers.
        None if location.inner().iter().any(passes_on) || sends_text(location) => narrow,
        None => Vec::new(),
        Some(Limit::Check) if narrow.is_empty() => vec!["/*".to_owned()],
        Some(_) => narrow,
    }
}

/// Some of the paths that a location refuses, where its expression has no patterns and none is around it: those of the alternatives
/// that have one.
pub(super) fn some_of(location: &Directive, place: &Place) -> Vec<String> {
    match place.is_expression() && limit(location) == Some(Limit::Refusal) {
        true => regex::partly(location.args.last().map_or("", |text| text)),
        false => Vec::new(),
    }
}

/// Refuses the methods that `limit_except` does not name.
pub(super) fn methods(directive: &Directive, paths: &[String], site: &mut Site) -> Fate {
    let mut names: Vec<String> = directive
        .args
        .iter()
        .map(|name| name.to_ascii_uppercase())
        .collect();
    if names.iter().any(|name| name == "GET") && !names.iter().any(|name| name == "HEAD") {
        names.push("HEAD".to_owned());
    }
    let text = format!("^({})$", names.join("|"));
    let compared = Compared::Expression {
        text: &text,
        ignores_case: false,
    };
    match condition::of_method(compared, true) {
        Ok(sets) => {
            for path in paths {
                site.refuse(path, &sets, 403);
            }
            let is_for_all = |one: &Directive| one.name == "deny" && one.arg(0) == "all";
            match directive.inner().iter().all(is_for_all) {
                true => Fate::Carried,
                false => Fate::missing("Weir refuses the other methods to all clients"),
            }
        }
        Err(why) => {
            site.close(paths);
            Fate::missing(format!("{why}; {}", access::DENIED))
        }
    }
}
