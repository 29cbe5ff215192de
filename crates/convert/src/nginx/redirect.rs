//! `return` and `rewrite` of a server or a location: redirects, and refusals of its paths. Where they lead is in [`super::goal`],
//! what becomes of texts in [`super::closed`].

use super::closed;
use super::goal::{self, Goal, Variables};
use crate::access::Access;
use crate::confinement;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{Redirect, Site};
use crate::pattern::{covers, is_target, matches, meet_all};
use crate::regex::{self, Match};
use crate::value::{is_program, is_site_path};

/// Reads `return` for a path.
pub(super) fn returns(directive: &Directive, from: &Match, site: &mut Site, variables: &Variables) -> Fate {
    let (status, text) = match (directive.arg(0).parse::<u16>(), directive.args.len()) {
        (Ok(status), _) => (status, directive.arg(1)),
        (Err(_), 1) => (302, directive.arg(0)),
        (Err(_), _) => return Fate::missing("this is not a status"),
    };
    match status {
        301 | 302 | 303 | 307 | 308 => match goal::of_match(text, from, variables) {
            Ok(Goal::To(to)) => {
                let keeps_query = text.contains("$request_uri") || text.contains("$args");
                site.redirects.push(Redirect {
                    from: from.pattern.clone(),
                    to,
                    status,
                    ..Redirect::default()
                });
                match keeps_query {
                    true => Fate::Carried,
                    false => Fate::changed("Weir appends the query of the request"),
                }
            }
            Ok(Goal::Secure(_)) => {
                secure(directive, &from.pattern, status, site);
                Fate::Carried
            }
            Err(why) => Fate::missing(why),
        },
        400..=599 if from.pattern == "/" => Fate::open("a rule of Weir for `/` is for all paths"),
        400..=599 => {
            site.access.push(Access::refusal(&from.pattern, status));
            match Access::fate_of_refusal(status) {
                Fate::Carried if !text.is_empty() => Fate::changed("without the text: error pages have it"),
                fate => fate,
            }
        }
        _ => closed::text(directive, Some(&[]), std::slice::from_ref(&from.pattern), site),
    }
}

/// Notes that the paths of a pattern are redirected to https at the host of the request.
fn secure(directive: &Directive, from: &str, status: u16, site: &mut Site) {
    let rule = Redirect {
        from: from.to_owned(),
        status,
        ..Redirect::default()
    };
    site.secured.push((rule, directive.at.clone(), directive.shown()));
}

/// Reads a `rewrite` of all paths of a location to https. `None`: it does something else.
pub(super) fn secured_rewrite(
    directive: &Directive,
    patterns: &[String],
    site: &mut Site,
    variables: &Variables,
) -> Option<Fate> {
    let (rules, _) = goal::of_rewrite(directive.arg(0), directive.arg(1), variables).ok()?;
    let [(from, Goal::Secure(_))] = rules.as_slice() else {
        return None;
    };
    let status = if directive.arg(2) == "permanent" { 301 } else { 302 };
    if from != "*" {
        return None;
    }
    for pattern in patterns {
        secure(directive, pattern, status, site);
    }
    Some(Fate::Carried)
}

/// Whether a `rewrite` names a program in place of the path.
pub(super) fn leads_to_program(directive: &Directive) -> bool {
    directive.arg(1).contains(".php")
}

/// Reads `rewrite EXPRESSION TEXT [FLAG]` for the paths of a server or a location.
pub(super) fn rewrite(
    directive: &Directive,
    paths: &[String],
    site: &mut Site,
    variables: &Variables,
) -> Fate {
    let (expression, text, flag) = (directive.arg(0), directive.arg(1), directive.arg(2));
    let is_address =
        text.starts_with("http://") || text.starts_with("https://") || text.starts_with("$scheme");
    let status = match flag {
        "permanent" => 301,
        "redirect" => 302,
        _ if is_address => 302,
        _ => {
            let confined = confinement::lost(text).filter(|_| confinement::is_of_all(expression));
            let why = "Weir redirects, and does not change paths inside; `[[try-files]]` names other files for a path";
            return confined.unwrap_or_else(|| match leads_to_program(directive) {
                true => Fate::open(format!(
                    "{why}; the program also answers paths that have a file or a script of their own, and Weir sends or runs these"
                )),
                false => Fate::missing(why),
            });
        }
    };
    if regex::is_slash_removal(expression, text) {
        for path in paths {
            site.remove_slashes(path);
        }
        return match status {
            301 => Fate::Carried,
            _ => Fate::changed("`trailing-slash` redirects with 301"),
        };
    }
    if let Some(mut redirects) = of_single_paths(directive, paths, status) {
        site.redirects.append(&mut redirects);
        return Fate::Carried;
    }
    match goal::of_rewrite(expression, text, variables) {
        Ok((rules, differs)) => {
            let mut redirects = Vec::new();
            for (from, goal) in rules {
                let Goal::To(to) = goal else {
                    return Fate::missing(
                        "the converter reads redirects to https for all paths of a server or a location",
                    );
                };
                for (from, to) in within(&from, &to, paths) {
                    if !is_target(&from, &to) {
                        return Fate::missing(format!(
                            "`{to}` is no target of a redirect for `{from}` in Weir"
                        ));
                    }
                    redirects.push(Redirect {
                        from,
                        to,
                        status,
                        ..Redirect::default()
                    });
                }
            }
            if redirects.is_empty() {
                return Fate::unneeded("no path of the location matches the expression");
            }
            site.redirects.append(&mut redirects);
            differs.map_or(Fate::Carried, Fate::changed)
        }
        Err(why) => Fate::missing(why),
    }
}

/// Reads a `rewrite` of one path to another one within a server, as the file for this path. `block` is the server. `None`: it is
/// something else, or an upstream may answer either path.
pub(super) fn inside(directive: &Directive, block: &[Directive], site: &mut Site) -> Option<Fate> {
    let (expression, to, flag) = (directive.arg(0), directive.arg(1), directive.arg(2));
    let is_file = is_site_path(to) && !is_program(to) && matches!(flag, "" | "last" | "break");
    if !is_file || has_upstreams(block) {
        return None;
    }
    let read = regex::read(expression).ok()?;
    let [one] = read.matches.as_slice() else {
        return None;
    };
    if read.differs.is_some() || !is_site_path(&one.pattern) || one.pattern.contains('*') {
        return None;
    }
    site.try_files(&one.pattern, &[to.to_owned()]);
    Some(Fate::changed(format!(
        "Weir sends the file `{to}`; access rules and redirects of `{}` hold, too",
        one.pattern
    )))
}

/// Whether a directive of a block, at any depth, passes requests on.
fn has_upstreams(block: &[Directive]) -> bool {
    block
        .iter()
        .any(|one| one.name.ends_with("_pass") || has_upstreams(one.inner()))
}

/// The redirects of a `rewrite` with a fixed target for single paths. A pattern for all that its expression matches might also match the
/// target. `None`: there are none.
fn of_single_paths(directive: &Directive, paths: &[String], status: u16) -> Option<Vec<Redirect>> {
    let to = directive.arg(1);
    let to = to.strip_suffix('?').unwrap_or(to);
    if to.contains('$') || paths.iter().any(|path| path.contains('*')) {
        return None;
    }
    let read = regex::read_redirect(directive.arg(0)).ok()?;
    let is_meant = |path: &&String| {
        let mut all = read.matches.iter();
        all.any(|one| matches(&one.pattern, path)) && is_target(path, to)
    };
    let found = paths.iter().filter(is_meant).map(|path| Redirect {
        from: path.clone(),
        to: to.to_owned(),
        status,
        ..Redirect::default()
    });
    let found: Vec<Redirect> = found.collect();
    let is_exact = read.differs.is_none() && found.len() == paths.len();
    is_exact.then_some(found)
}

/// A redirect for those paths of a pattern that are among these, with the same targets.
fn within(from: &str, to: &str, paths: &[String]) -> Vec<(String, String)> {
    if paths.iter().any(|path| covers(path, from)) {
        return vec![(from.to_owned(), to.to_owned())];
    }
    let Some((before, after)) = from.split_once('*') else {
        return Vec::new();
    };
    let narrower = meet_all(&[from.to_owned()], paths).into_iter();
    let redirects = narrower.filter_map(|path| {
        let star = path.strip_prefix(before)?.strip_suffix(after)?;
        let to = to.replace('*', star);
        Some((path, to))
    });
    redirects.collect()
}
