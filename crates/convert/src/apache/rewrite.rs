//! `RewriteRule` and its conditions: redirects, https, refused paths, files that are tried. Rules that do more are reported.

use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{Access, Redirect, Site};
use crate::pattern::is_target;
use crate::regex;
use crate::upstream;
use crate::value::{is_host_name, is_site_path};

/// What rules ask of the whole server or of other hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct Wishes {
    /// Whether all requests in cleartext go to https.
    pub(super) secures: bool,
    /// Hosts that are redirected as a whole.
    pub(super) hosts: Vec<Site>,
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
        return refuse(expression, &asked, is_htaccess, has(&["F", "FORBIDDEN"]), site);
    }
    if text == "-"
        && flags
            .iter()
            .any(|flag| flag.starts_with("E=") || flag.starts_with("ENV="))
    {
        return Fate::missing("Weir has no variables");
    }
    if text == "-" {
        return Fate::missing("Weir has no rules that only end others");
    }
    if has(&["P", "PROXY"]) {
        return pass(expression, text, &asked, is_htaccess, site);
    }
    if status.is_some() || is_address {
        return redirect(
            expression,
            text,
            status.unwrap_or(302),
            &asked,
            is_htaccess,
            site,
            wishes,
        );
    }
    inside(expression, text, &asked, is_htaccess, site)
}

/// Patterns of an expression. In a `.htaccess`, paths have no slash at their front.
fn patterns(expression: &str, is_htaccess: bool) -> Option<regex::Read> {
    let text = match expression.strip_prefix('^') {
        Some(rest) if is_htaccess && !rest.starts_with('/') => match rest.strip_prefix("/?") {
            Some(rest) => format!("^/{rest}"),
            None => format!("^/{rest}"),
        },
        Some(rest) => match rest.strip_prefix("/?") {
            Some(rest) => format!("^/{rest}"),
            None => expression.to_owned(),
        },
        None => expression.to_owned(),
    };
    regex::read(&text)
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

fn redirect(
    expression: &str,
    text: &str,
    status: u16,
    asked: &[(&str, &str)],
    is_htaccess: bool,
    site: &mut Site,
    wishes: &mut Wishes,
) -> Fate {
    let whole = ["%{REQUEST_URI}", "/%{REQUEST_URI}", "/$1", "$1"];
    let same_host = |text: &str| {
        let rest = text
            .strip_prefix("https://%{HTTP_HOST}")
            .or_else(|| text.strip_prefix("https://%{SERVER_NAME}"));
        rest.is_some_and(|rest| whole.contains(&rest))
    };
    let goes_whole = |text: &str| {
        let address = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"))?;
        let rest = whole.iter().find(|rest| address.ends_with(**rest))?;
        let name = address.strip_suffix(*rest)?;
        is_host_name(name).then(|| text[..text.len() - rest.len()].to_owned())
    };
    if is_everything(expression)
        && !asked.is_empty()
        && asked.iter().all(is_insecure)
        && (same_host(text) || goes_whole(text).is_some())
    {
        wishes.secures = true;
        return Fate::changed("`https-redirect` answers all requests in cleartext, with 308");
    }
    // Conditions about one host, perhaps with one about https before them.
    let hosts: Vec<Option<String>> = asked.iter().map(host).collect();
    if is_everything(expression) && !hosts.is_empty() && hosts.iter().all(Option::is_some) {
        let Some(to) = goes_whole(text) else {
            return Fate::missing("the target is no address of a whole host");
        };
        let names: Vec<String> = hosts.into_iter().flatten().collect();
        wishes.hosts.push(Site {
            names,
            redirects: vec![Redirect {
                from: "*".to_owned(),
                to: format!("{to}*"),
                status,
            }],
            ..Site::default()
        });
        return Fate::Carried;
    }
    if !asked.is_empty() {
        return Fate::missing("the conditions before it are not about https or one host");
    }
    let Some(read) = patterns(expression, is_htaccess) else {
        return Fate::missing("the expression is no path pattern with one star");
    };
    let star = read.group.map(|group| format!("${group}"));
    let mut to = match star {
        Some(group) if text.matches(&group).count() == 1 => text.replace(&group, "*"),
        _ => text.to_owned(),
    };
    let drops_query = to.ends_with('?');
    to = to.trim_end_matches('?').to_owned();
    if !to.starts_with('/') && !to.contains("://") {
        to = format!("/{to}");
    }
    let mut rules = Vec::new();
    for from in read.patterns {
        if !is_target(&from, &to) {
            return Fate::missing(format!("`{to}` is no target of a redirect for `{from}` in Weir"));
        }
        rules.push(Redirect {
            from,
            to: to.clone(),
            status,
        });
    }
    site.redirects.extend(rules);
    match drops_query {
        true => Fate::changed("Weir keeps the query of the request"),
        false => Fate::Carried,
    }
}

fn refuse(
    expression: &str,
    asked: &[(&str, &str)],
    is_htaccess: bool,
    is_exact: bool,
    site: &mut Site,
) -> Fate {
    if expression
        .trim_start_matches(['^', '/', '(', '|', ')'])
        .starts_with("\\.")
        && asked.is_empty()
        && !expression.contains(r"\.php")
    {
        let is_name = expression.contains("/\\.")
            || expression.starts_with("^\\.")
            || expression.starts_with("\\.ht")
            || expression.contains("(^|/)\\.");
        if is_name {
            return Fate::unneeded("names that begin with a dot get 404 unless `hidden` is set");
        }
    }
    if !asked.is_empty() {
        return Fate::open("the conditions before it have no form in Weir");
    }
    let Some(read) = patterns(expression, is_htaccess) else {
        return Fate::open("the expression is no path pattern with one star");
    };
    site.access
        .extend(read.patterns.iter().map(|path| Access::nobody(path)));
    match is_exact {
        true => Fate::Carried,
        false => Fate::changed("Weir answers 403"),
    }
}

fn pass(expression: &str, text: &str, asked: &[(&str, &str)], is_htaccess: bool, site: &mut Site) -> Fate {
    if !asked.is_empty() {
        return Fate::missing(
            "the conditions before it have no form in Weir; `websocket` of a `[[proxy]]` is on by default",
        );
    }
    let Some(read) = patterns(expression, is_htaccess) else {
        return Fate::missing("the expression is no path pattern with one star");
    };
    let star = read.group.map(|group| format!("/${group}"));
    let Some(target) = star.and_then(|star| text.strip_suffix(&*star).map(str::to_owned)) else {
        return Fate::missing(
            "Weir sends the whole path, or the part that the star stands for, to upstreams",
        );
    };
    let (address, changed) = match upstream::address(&target) {
        Ok(found) => found,
        Err(why) => return Fate::missing(why),
    };
    for path in read.patterns {
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
    let text = text.split(['?', '[']).next().unwrap_or(text);
    let page = match text.starts_with('/') {
        true => text.to_owned(),
        false => format!("/{text}"),
    };
    // Every path without a file has this page.
    if is_everything(expression) && !asked.is_empty() && misses && is_site_path(&page) {
        if page.ends_with(".php") {
            return Fate::missing("the page is a program; Weir passes requests on over HTTP only");
        }
        site.spa = Some(page.clone());
        site.try_files("*", &["$path".to_owned(), page]);
        return Fate::Carried;
    }
    // `$1.html`, if there is such a file.
    let exists = asked.iter().any(|one| about_files(one) && one.1 == "-f");
    let suffix = text.trim_start_matches('/').strip_prefix("$1");
    if let Some(suffix) =
        suffix.filter(|suffix| suffix.starts_with('.') && is_site_path(&format!("/x{suffix}")))
        && (exists || misses)
        && asked.iter().all(about_files)
        && patterns(expression, is_htaccess)
            .is_some_and(|read| read.patterns.iter().all(|one| one == "/*" || one == "*"))
            | matches!(
                expression,
                "^([^.]+)$" | "^([^\\.]+)$" | "^([^\\.]+)/?$" | "^([^/.]+)$"
            )
    {
        site.try_files("*", &["$path".to_owned(), format!("$path{suffix}")]);
        return Fate::Carried;
    }
    if page.contains(".php") {
        return Fate::missing("the target is a program; Weir passes requests on over HTTP only");
    }
    Fate::missing("Weir does not change paths inside; `[[try-files]]` names other files for a path")
}
