//! `RewriteRule` and its conditions: redirects, https, refused paths, files that are tried. Rules that do more are reported.

use super::condition::{self, Asked};
use crate::access::Access;
use crate::confinement;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::hidden;
use crate::model::{Redirect, Site};
use crate::pattern::{covers_all, is_target};
use crate::regex::{self, Match, Read};
use crate::report::At;
use crate::upstream;
use crate::value::{is_host_name, is_program, is_site_path};

/// What rules ask of the whole server or of other hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct Wishes {
    /// The redirect to https, with the paths that it leaves out. `from` has no meaning.
    pub(super) lead: Option<Wish>,
    /// Paths for which an earlier rule ends the rewriting.
    pub(super) ended: Vec<String>,
    /// Hosts that are redirected as a whole.
    pub(super) hosts: Vec<Site>,
}

/// A redirect of all requests in cleartext to https.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// The host of the target; `None`: that of the request.
    pub(super) to: Option<String>,
    pub(super) rule: Redirect,
    pub(super) said: (At, String),
    /// Names that the rule is for; empty: all of the site.
    pub(super) names: Vec<String>,
    /// Whether the rule is for requests in cleartext only.
    pub(super) is_conditional: bool,
    pub(super) needs_field: bool,
}

/// Whether `is_it` holds for a flag of a rule, which it gets in upper case.
fn has_flag(rule: &Directive, is_it: impl Fn(&str) -> bool) -> bool {
    let flags = rule.arg(2).trim_matches(['[', ']']).to_ascii_uppercase();
    flags.split(',').any(|flag| is_it(flag.trim()))
}

/// Whether a rule does nothing but refuse requests.
pub(super) fn refuses(rule: &Directive) -> bool {
    let is_error = |status: &str| matches!(status.parse::<u16>(), Ok(400..=599));
    has_flag(rule, |flag| match flag.split_once('=') {
        Some(("R" | "REDIRECT", status)) => is_error(status),
        _ => matches!(flag, "F" | "FORBIDDEN" | "G" | "GONE"),
    })
}

/// Whether a rule redirects clients.
pub(super) fn redirects(rule: &Directive) -> bool {
    has_flag(rule, |flag| {
        matches!(flag.split('=').next(), Some("R" | "REDIRECT"))
    })
}

/// Whether a rule passes programs of PHP to an application.
pub(super) fn passes_programs(rule: &Directive) -> bool {
    rule.arg(0).contains("php") && has_flag(rule, |flag| matches!(flag, "P" | "PROXY"))
}

/// Why a rule that hides files is open.
const HIDDEN: &str = "the program also answers paths that have a file, and Weir sends these files; write access rules for those that are not for \
                      clients";

/// The fate of a rule which is lost for this reason. It is open if it leads paths to a program although they have a file.
pub(super) fn lost(rule: &Directive, conditions: &[Directive], why: String) -> Fate {
    let target = rule.arg(1).split('?').next().unwrap_or_default();
    let is_led =
        (target.contains(".php") || is_program(target)) && !redirects(rule) && !target.contains("://");
    match is_led && !are_missing(conditions) {
        true => Fate::open(format!("{why}; {HIDDEN}")),
        false => Fate::missing(why),
    }
}

/// Whether conditions say that the path has no file.
fn are_missing(conditions: &[Directive]) -> bool {
    let mut is_joined = false;
    conditions.iter().any(|one| {
        let is_or = one.arg(2).to_ascii_uppercase().contains("OR");
        let was_joined = std::mem::replace(&mut is_joined, is_or);
        let variable = one.arg(0).to_ascii_uppercase();
        let has = |name: &str| variable.contains(name);
        let is_of_path = has("REQUEST_FILENAME}")
            || has("SCRIPT_FILENAME}")
            || has("DOCUMENT_ROOT}") && has("REQUEST_URI}");
        // With text behind it, as in `%{REQUEST_FILENAME}.php`, it is another file, which clients do not name.
        let wanted = if variable.ends_with('}') { "!-f" } else { "-f" };
        is_of_path && one.arg(1) == wanted && !is_or && !was_joined
    })
}

/// Reads a rule with the conditions before it.
pub(super) fn rule(
    rule: &Directive,
    conditions: &[Directive],
    is_htaccess: bool,
    site: &mut Site,
    wishes: &mut Wishes,
) -> Fate {
    let (expression, text) = (rule.arg(0), rule.arg(1));
    let flags: Vec<String> = rule
        .arg(2)
        .trim_matches(['[', ']'])
        .split(',')
        .map(|flag| flag.trim().to_ascii_uppercase())
        .collect();
    let has = |names: &[&str]| flags.iter().any(|flag| names.contains(&flag.as_str()));
    let status = flags.iter().find_map(|flag| {
        let (name, status) = flag.split_once('=').unwrap_or((flag, "302"));
        let status = match status {
            "PERMANENT" => "301",
            "TEMP" => "302",
            other => other,
        };
        (name == "R" || name == "REDIRECT").then(|| status.parse::<u16>().unwrap_or(302))
    });
    let is_address = text.starts_with("http://") || text.starts_with("https://");
    let asked: Vec<(&str, &str)> = conditions.iter().map(|one| (one.arg(0), one.arg(1))).collect();
    if has(&["F", "FORBIDDEN", "G", "GONE"]) || matches!(status, Some(400..)) {
        let status = match () {
            () if has(&["F", "FORBIDDEN"]) => 403,
            () if has(&["G", "GONE"]) => 410,
            () => status.unwrap_or(403),
        };
        return refuse(rule, expression, conditions, is_htaccess, status, site);
    }
    if text == "-"
        && flags
            .iter()
            .any(|flag| flag.starts_with("E=") || flag.starts_with("ENV="))
    {
        return Fate::missing("Weir has no variables");
    }
    if text == "-" {
        let ends = |flag: &String| matches!(&**flag, "" | "L" | "LAST" | "END" | "PT" | "NE" | "QSA");
        let anchored = anchored(expression, is_htaccess);
        return match regex::read(&anchored).or_else(|_| regex::read_redirect(&anchored)) {
            Ok(read) if conditions.is_empty() && flags.iter().all(ends) => {
                wishes.ended.extend(read.patterns());
                Fate::changed("for redirects behind it, which leave these paths out")
            }
            _ => Fate::missing("Weir has no rules that only end others"),
        };
    }
    if has(&["P", "PROXY"]) {
        return pass(expression, text, &asked, is_htaccess, site);
    }
    if status.is_some() || is_address {
        let status = status.unwrap_or(302);
        return match secures(rule, status, conditions, site, wishes) {
            Some(fate) => fate,
            None => redirect(expression, text, status, conditions, is_htaccess, site, wishes),
        };
    }
    match inside(expression, text, &asked, is_htaccess, site) {
        Fate::Missing(why) => lost(rule, conditions, why),
        fate => fate,
    }
}

/// Patterns of an expression. In a `.htaccess`, paths have no slash at their front.
///
/// # Errors
/// Why it has none.
fn patterns(expression: &str, is_htaccess: bool) -> Result<Read, String> {
    regex::read(&anchored(expression, is_htaccess))
}

/// An expression about paths with a slash at their front.
fn anchored(expression: &str, is_htaccess: bool) -> String {
    match expression.strip_prefix('^') {
        Some(rest) if is_htaccess && !rest.starts_with('/') => match rest.strip_prefix("/?") {
            Some(rest) => format!("^/{rest}"),
            None => format!("^/{rest}"),
        },
        Some(rest) => match rest.strip_prefix("/?") {
            Some(rest) => format!("^/{rest}"),
            None => expression.to_owned(),
        },
        None => expression.to_owned(),
    }
}

/// Whether an expression matches every path.
fn is_everything(expression: &str) -> bool {
    matches!(
        expression,
        "^" | "."
            | ".*"
            | "(.*)"
            | "^(.*)$"
            | "^.*$"
            | "^/?(.*)$"
            | "^/(.*)$"
            | "^/?(.*)"
            | "^(.*)"
            | ".?"
            | "^/?"
            | "^.*"
            | "^/.*$"
            | "^(.+)$"
            | "^(.+)"
    )
}

fn is_insecure(asked: &(&str, &str)) -> bool {
    match (
        asked.0.to_ascii_uppercase().as_str(),
        asked.1.to_ascii_lowercase().as_str(),
    ) {
        ("%{HTTPS}", text) => matches!(text, "off" | "!=on" | "!on" | "^off$" | "=off"),
        ("%{SERVER_PORT}", text) => matches!(text, "80" | "^80$" | "!443" | "!^443$"),
        ("%{REQUEST_SCHEME}", text) => matches!(text, "http" | "!https" | "^http$" | "=http"),
        ("%{HTTP:X-FORWARDED-PROTO}", text) => matches!(text, "!https" | "http" | "!=https"),
        _ => false,
    }
}

/// The host of `%{HTTP_HOST} ^www\.example\.org$`.
fn host(asked: &(&str, &str)) -> Option<String> {
    let is_host = matches!(
        asked.0.to_ascii_uppercase().as_str(),
        "%{HTTP_HOST}" | "%{SERVER_NAME}"
    );
    let text = asked
        .1
        .strip_prefix('^')
        .unwrap_or(asked.1.trim_start_matches('='));
    let name = text
        .strip_suffix('$')
        .unwrap_or(text)
        .replace("\\.", ".")
        .to_ascii_lowercase();
    (is_host && is_host_name(&name) && !name.starts_with("*.") && name.contains('.')).then_some(name)
}

/// The names of the site that a rule redirects from `www.NAME` to `NAME`, or the reverse, with their targets. `None`: the
/// rule does something else.
fn www(expression: &str, text: &str, asked: &[(&str, &str)], site: &Site) -> Option<Vec<(String, String)>> {
    let [(variable, condition)] = asked else {
        return None;
    };
    if !variable.eq_ignore_ascii_case("%{HTTP_HOST}") || !is_everything(expression) {
        return None;
    }
    let (scheme, rest) = text.split_once("://")?;
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    let is_whole = |rest: &str| matches!(rest, "%{REQUEST_URI}" | "/$1" | "$1" | "/%{REQUEST_URI}");
    let condition = condition.strip_suffix('$').unwrap_or(condition);
    let to = |host: &str| format!("{scheme}://{host}*");
    let names = site.names.iter();
    let found: Vec<(String, String)> = match condition {
        r"^www\.(.+)" | r"^www\.(.*)" | "^www.(.+)" | "^www.(.*)" if is_whole(rest.strip_prefix("%1")?) => {
            names
                .filter_map(|name| Some((name.clone(), to(name.strip_prefix("www.")?))))
                .collect()
        }
        r"!^www\." | "!^www." if is_whole(rest.strip_prefix("www.%{HTTP_HOST}")?) => names
            .filter(|name| !name.starts_with("www.") && !name.starts_with("*."))
            .map(|name| (name.clone(), to(&format!("www.{name}"))))
            .collect(),
        _ => return None,
    };
    Some(found)
}

/// Texts that stand for the whole path behind a host.
const WHOLE: [&str; 4] = ["%{REQUEST_URI}", "/%{REQUEST_URI}", "/$1", "$1"];

/// The address of another host, with the whole path behind it.
fn goes_whole(text: &str) -> Option<String> {
    let address = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))?;
    let rest = WHOLE.iter().find(|rest| address.ends_with(**rest))?;
    let name = address.strip_suffix(*rest)?;
    is_host_name(name).then(|| text[..text.len() - rest.len()].to_owned())
}

/// Reads a redirect of all requests in cleartext to https, perhaps without some paths. `None`: it does something else.
fn secures(
    rule: &Directive,
    status: u16,
    conditions: &[Directive],
    site: &Site,
    wishes: &mut Wishes,
) -> Option<Fate> {
    let (expression, text) = (rule.arg(0), rule.arg(1));
    let asked = |one: &Directive| (one.arg(0).to_owned(), one.arg(1).to_owned());
    let is_clear = |one: &&Directive| is_insecure(&(one.arg(0), one.arg(1)));
    let (insecure, others): (Vec<&Directive>, Vec<&Directive>) = conditions.iter().partition(is_clear);
    let has_or = |one: &&Directive| one.arg(2).to_ascii_uppercase().contains("OR");
    let (hosts, others): (Vec<&Directive>, Vec<&Directive>) = others
        .into_iter()
        .partition(|one| host(&(one.arg(0), one.arg(1))).is_some());
    let names: Vec<String> = hosts
        .iter()
        .filter_map(|one| host(&(one.arg(0), one.arg(1))))
        .collect();
    let same_host = ["https://%{HTTP_HOST}", "https://%{SERVER_NAME}"]
        .iter()
        .filter_map(|start| text.strip_prefix(start))
        .any(|rest| WHOLE.contains(&rest));
    let to = match same_host {
        true => None,
        // One condition is about one host; several are about any of them.
        false if names.is_empty() && !insecure.is_empty() => {
            Some(goes_whole(text)?.strip_prefix("https://")?.to_owned())
        }
        false => return None,
    };
    let ored = conditions.iter().filter(|one| has_or(one)).count();
    let is_alternative =
        names.len() > 1 && ored == names.len() - 1 && hosts.iter().filter(|one| has_or(one)).count() == ored;
    let insecure_or = insecure.len() > 1 && insecure.iter().filter(|one| has_or(one)).count() == ored;
    if ored > 0 && !is_alternative && !insecure_or || names.len() > 1 && !is_alternative {
        return None;
    }
    let left = match (expression.strip_prefix('!'), regex::without_ahead(expression)) {
        (Some(left), _) => Some(regex::read_redirect(left).ok()?.patterns()),
        (None, Some((rest, left))) => is_everything(&rest).then_some(left),
        (None, None) => is_everything(expression).then(Vec::new),
    }?;
    let mut except: Vec<String> = wishes.ended.clone();
    except.extend(left);
    let mut differs = None;
    for one in others {
        let (paths, is_exact) = condition::excepted(one)?;
        except.extend(paths);
        differs = differs.or((!is_exact).then(|| asked(one)));
    }
    let (at, shown) = (rule.at.clone(), rule.shown());
    let needs_field = insecure
        .iter()
        .any(|one| one.arg(0).to_ascii_uppercase().starts_with("%{HTTP:"));
    wishes.lead.get_or_insert_with(|| Wish {
        to,
        rule: Redirect {
            from: "*".to_owned(),
            except: except.clone(),
            status,
            ..Redirect::default()
        },
        said: (at, shown),
        names: names
            .into_iter()
            .filter(|name| site.names.contains(name))
            .collect(),
        is_conditional: !insecure.is_empty(),
        needs_field,
    });
    Some(match differs {
        Some((variable, expression)) => Fate::changed(format!(
            "`{variable} {expression}` became `{}`",
            except.join("`, `")
        )),
        None => Fate::Carried,
    })
}

fn redirect(
    expression: &str,
    text: &str,
    status: u16,
    conditions: &[Directive],
    is_htaccess: bool,
    site: &mut Site,
    wishes: &mut Wishes,
) -> Fate {
    let asked: Vec<(&str, &str)> = conditions.iter().map(|one| (one.arg(0), one.arg(1))).collect();
    let asked = asked.as_slice();
    // Conditions about one host, perhaps with one about https before them.
    let hosts: Vec<Option<String>> = asked.iter().map(host).collect();
    if is_everything(expression) && !hosts.is_empty() && hosts.iter().all(Option::is_some) {
        let Some(to) = goes_whole(text) else {
            return Fate::missing(format!("`{text}` is no address of a whole host"));
        };
        let names: Vec<String> = hosts.into_iter().flatten().collect();
        wishes.hosts.push(Site {
            names,
            redirects: vec![Redirect {
                from: "*".to_owned(),
                to: format!("{to}*"),
                status,
                ..Redirect::default()
            }],
            ..Site::default()
        });
        return Fate::Carried;
    }
    if let Some(goal) = www(expression, text, asked, site) {
        let (names, to): (Vec<String>, Vec<String>) = goal.into_iter().unzip();
        if names.is_empty() {
            return Fate::missing(
                "no `ServerName` or `ServerAlias` here has this form; write a `[[host]]` with a redirect",
            );
        }
        wishes
            .hosts
            .extend(names.into_iter().zip(to).map(|(name, to)| Site {
                names: vec![name],
                redirects: vec![Redirect {
                    from: "*".to_owned(),
                    to,
                    status,
                    ..Redirect::default()
                }],
                ..Site::default()
            }));
        return Fate::Carried;
    }
    let is_about_directories = |one: &(&str, &str)| one.0.contains("REQUEST_FILENAME") && one.1 == "!-d";
    if asked.iter().all(is_about_directories)
        && regex::is_slash_removal(&anchored(expression, is_htaccess), text)
    {
        site.remove_slashes("*");
        return match (asked.is_empty(), status) {
            (true, 301) => Fate::Carried,
            (true, _) => Fate::changed("`trailing-slash` redirects with 301"),
            (false, _) => Fate::changed("`trailing-slash` redirects with 301, directories too"),
        };
    }
    let Asked {
        sets,
        mut except,
        differs,
    } = match condition::read(conditions) {
        Ok(asked) => asked,
        Err(why) => return Fate::missing(why),
    };
    except.extend(wishes.ended.iter().cloned());
    let everything = || Read {
        matches: vec![Match::plain("*")],
        differs: None,
    };
    let read = match regex::read_redirect(&anchored(expression, is_htaccess)) {
        Ok(read) => read,
        Err(_) if is_everything(expression) => everything(),
        Err(why) => return Fate::missing(why),
    };
    let drops_query = text.ends_with('?');
    let text = text.trim_end_matches('?');
    let text = match site.names.as_slice() {
        [name] if !name.starts_with('*') => {
            text.replace("%{HTTP_HOST}", name).replace("%{SERVER_NAME}", name)
        }
        _ => text.to_owned(),
    };
    let is_always = |scheme: &str| sets.iter().all(|set| set.iter().any(|one| one == scheme));
    let text = match (is_always("scheme http"), is_always("scheme https")) {
        (true, _) => text.replace("%{REQUEST_SCHEME}", "http"),
        (_, true) => text.replace("%{REQUEST_SCHEME}", "https"),
        (false, false) => text,
    };
    // The whole path is the pattern, whose star is the same in both.
    let whole_path = |from: &str| {
        let start = text.strip_suffix("%{REQUEST_URI}")?;
        let start = start
            .strip_suffix('/')
            .filter(|_| from.starts_with(['/', '*']))
            .unwrap_or(start);
        Some(format!("{start}{from}"))
    };
    let mut rules = Vec::new();
    for one in read.matches {
        let from = one.pattern.clone();
        let mut to = match whole_path(&from).map_or_else(|| one.fill(&text), Ok) {
            Ok(to) => to,
            Err(why) => return Fate::missing(why),
        };
        if !to.starts_with('/') && !to.contains("://") {
            to = format!("/{to}");
        }
        if !is_target(&from, &to) {
            return Fate::missing(format!("`{to}` is no target of a redirect for `{from}` in Weir"));
        }
        rules.extend(sets.iter().map(|conditions| Redirect {
            from: from.clone(),
            except: except.clone(),
            conditions: conditions.clone(),
            to: to.clone(),
            status,
        }));
    }
    // Apache redirects by these rules before it passes requests on.
    let always = rules.iter().filter(|rule| rule.conditions.is_empty());
    site.early.extend(always.map(|rule| rule.from.clone()));
    site.redirects.extend(rules);
    let query = drops_query.then(|| "Weir keeps the query of the request".to_owned());
    let differs = differs.into_iter().map(str::to_owned);
    let differs: Vec<String> = read.differs.into_iter().chain(query).chain(differs).collect();
    match differs.is_empty() {
        true => Fate::Carried,
        false => Fate::changed(differs.join("; ")),
    }
}

fn refuse(
    rule: &Directive,
    expression: &str,
    conditions: &[Directive],
    is_htaccess: bool,
    status: u16,
    site: &mut Site,
) -> Fate {
    // Conditions only narrow it.
    if hidden::is_hidden(expression) {
        site.presume(rule, &["*".to_owned()], hidden::PASSED_ON);
        let leaves_known = conditions.iter().any(|one| one.arg(1).contains("well-known"));
        return hidden::fate(expression, leaves_known);
    }
    let asked = match condition::read(conditions) {
        Ok(asked) if asked.except.is_empty() => Ok(asked),
        Ok(_) => {
            Err("an access rule of Weir leaves out no paths; write a rule for them before it".to_owned())
        }
        Err(why) => Err(why),
    };
    let paths = match is_everything(expression) {
        true => Ok(vec!["*".to_owned()]),
        false => patterns(expression, is_htaccess).map(Read::patterns),
    };
    let (asked, paths) = match (asked, paths) {
        (Ok(asked), Ok(paths)) => (asked, paths),
        (asked, paths) => {
            let is_about_paths = asked.as_ref().is_ok_and(Asked::is_about_paths);
            let why = asked
                .err()
                .or_else(|| paths.as_ref().err().cloned())
                .unwrap_or_default();
            let is_lost = paths.is_err();
            let around = paths.unwrap_or_else(|_| regex::around(&anchored(expression, is_htaccess)));
            // A rule that is lost closes its paths, but not a whole site.
            if around.is_empty() || around.iter().any(|path| covers_all(path)) {
                // Some of the paths are better than none.
                let some = match is_lost && is_about_paths {
                    true => regex::partly(&anchored(expression, is_htaccess)),
                    false => Vec::new(),
                };
                return Fate::Open(site.refuse_some(&some, status, why));
            }
            site.access
                .extend(around.iter().map(|path| Access::refusal(path, status)));
            return Fate::missing(format!("{why}; the result denies `{}`", around.join("`, `")));
        }
    };
    for path in &paths {
        match asked.is_about_paths() {
            true => site.access.push(Access::refusal(path, status)),
            false => site.refuse(path, &asked.sets, status),
        }
    }
    match (Access::fate_of_refusal(status), &asked.differs[..]) {
        (Fate::Carried, [first, ..]) => Fate::changed(*first),
        (fate, _) => fate,
    }
}

fn pass(expression: &str, text: &str, asked: &[(&str, &str)], is_htaccess: bool, site: &mut Site) -> Fate {
    let anchored = anchored(expression, is_htaccess);
    if let [(asked, condition), ..] = asked {
        let why = format!(
            "the condition `{asked} {condition}` has no form in Weir; `websocket` of a `[[proxy]]` is on by default"
        );
        // Most of these choose among upstreams. Programs would be sent as text.
        return match expression.contains("php") {
            true => super::upstream::close(&anchored, &why, site),
            false => Fate::missing(why),
        };
    }
    let read = match regex::read(&anchored) {
        Ok(read) => read,
        Err(why) => return super::upstream::close(&anchored, &why, site),
    };
    // The target is an address, and behind it the text of the star.
    let target = |one: &Match| one.fill(text).ok()?.strip_suffix("/*").map(str::to_owned);
    let first = read.matches.first().and_then(target);
    let Some(target) =
        first.filter(|first| read.matches.iter().all(|one| target(one).as_ref() == Some(first)))
    else {
        let why = "Weir sends the whole path, or the part that the star stands for, to upstreams";
        return super::upstream::close(&anchored, why, site);
    };
    let (address, changed) = match upstream::address(&target) {
        Ok(found) => found,
        Err(why) => return super::upstream::close(&anchored, &why, site),
    };
    for path in read.patterns() {
        site.proxies.push(crate::model::Proxy {
            strip: path != "/*" && path != "*",
            path: if path == "*" { "/*".to_owned() } else { path },
            upstreams: vec![address.clone()],
            weights: vec![1],
            ..crate::model::Proxy::default()
        });
    }
    changed.map_or(Fate::Carried, Fate::Changed)
}

/// A rule that names another file for a path.
fn inside(expression: &str, text: &str, asked: &[(&str, &str)], is_htaccess: bool, site: &mut Site) -> Fate {
    let about_files = |one: &(&str, &str)| {
        one.0.to_ascii_uppercase().contains("REQUEST_FILENAME")
            || one.0.contains("%{REQUEST_URI}.")
            || one.0.contains("DOCUMENT_ROOT")
    };
    let misses = asked
        .iter()
        .all(|one| about_files(one) && one.1.starts_with("!-"));
    let has_query = text.contains('?');
    let text = text.split(['?', '[']).next().unwrap_or(text);
    let page = match text.starts_with('/') {
        true => text.to_owned(),
        false => format!("/{text}"),
    };
    // Every path without a file has this page.
    if is_everything(expression) && !asked.is_empty() && misses && is_site_path(&page) {
        if is_program(&page) {
            return Fate::missing(format!(
                "`{page}` is a program; Weir has no application for it, and serves no programs as files"
            ));
        }
        site.spa = Some(page.clone());
        site.try_files("*", &["$path".to_owned(), page]);
        return Fate::Carried;
    }
    // `$1.html`, if there is such a file.
    let exists = asked.iter().any(|one| about_files(one) && one.1 == "-f");
    let suffix = text.trim_start_matches('/').strip_prefix("$1");
    if let Some(suffix) =
        suffix.filter(|suffix| suffix.starts_with(['.', '/']) && is_site_path(&format!("/x{suffix}")))
        && !is_program(suffix)
        && (exists || misses)
        && asked.iter().all(about_files)
        && patterns(expression, is_htaccess)
            .is_ok_and(|read| read.patterns().iter().all(|one| one == "/*" || one == "*"))
            | matches!(
                expression,
                "^([^.]+)$" | "^([^\\.]+)$" | "^([^\\.]+)/?$" | "^([^/.]+)$"
            )
    {
        site.try_files("*", &["$path".to_owned(), format!("$path{suffix}")]);
        return Fate::Carried;
    }
    if page.contains(".php") || is_program(&page) {
        return Fate::missing(format!(
            "`{page}` is a program; Weir has no application for it, and serves no programs as files"
        ));
    }
    // Other files for the paths of an expression.
    if misses
        && !has_query
        && let Ok(read) = patterns(expression, is_htaccess)
        && let Some(rules) = read
            .matches
            .iter()
            .map(|one| Some((&*one.pattern, one.fill(&page).ok()?)))
            .collect::<Option<Vec<_>>>()
        && rules.iter().all(|(path, file)| {
            let stars = file.matches('*').count();
            !covers_all(path) && is_site_path(file) && stars <= usize::from(path.contains('*'))
        })
    {
        // A group may make it a program.
        if let Some((path, file)) = rules.iter().find(|(_, file)| is_program(file)) {
            return Fate::missing(format!(
                "`{file}` for `{path}` is a program; Weir has no application for it, and serves no programs as files"
            ));
        }
        for (path, file) in rules {
            let tried = match asked.is_empty() {
                true => vec![file],
                false => vec!["$path".to_owned(), file],
            };
            site.try_files(path, &tried);
        }
        return Fate::Carried;
    }
    let confined = confinement::lost(text).filter(|_| confinement::is_of_all(expression));
    confined.unwrap_or(Fate::missing(
        "Weir does not change paths inside; `[[try-files]]` names other files for a path",
    ))
}
