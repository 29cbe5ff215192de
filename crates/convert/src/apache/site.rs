//! What a virtual host, a section or a `.htaccess` says about files, as rules of a site.

use super::rewrite::{self, Wishes};
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{Access, HeaderRule, Proxy, Redirect, Site};
use crate::pattern::{is_target, pattern};
use crate::regex;
use crate::report::Report;
use crate::upstream;
use crate::value::{field, is_site_path, network, seconds};
use std::collections::BTreeMap;

/// Where a directive is: the paths that it is about.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// Patterns; empty if Weir has none.
    patterns: Vec<String>,
}

impl Folder {
    /// All paths.
    pub(super) fn root() -> Folder {
        Folder {
            patterns: vec!["/*".to_owned()],
        }
    }

    fn is_root(&self) -> bool {
        self.patterns == ["/*"]
    }
}

/// What all hosts share.
pub(super) struct Context<'a> {
    pub(super) report: &'a mut Report,
    pub(super) balancers: &'a BTreeMap<String, Proxy>,
    pub(super) is_htaccess: bool,
}

/// Lifetimes and passwords of one level.
#[derive(Default)]
struct Level {
    conditions: Vec<Directive>,
    realm: Option<String>,
    users: Option<String>,
    allow: Vec<String>,
    deny: Vec<String>,
    needs_user: bool,
    any: bool,
    is_said: bool,
}

/// Reads directives about these paths.
pub(super) fn read(
    block: &[Directive],
    folder: &Folder,
    site: &mut Site,
    wishes: &mut Wishes,
    cx: &mut Context<'_>,
) {
    let mut level = Level::default();
    // Paths that `ProxyPass PATH !` leaves to the files.
    let mut kept: Vec<String> = Vec::new();
    let mut rest: Vec<&Directive> = Vec::new();
    // Sections first: their access rules are narrower.
    for directive in block {
        match directive.name.starts_with('<') {
            // Lines `Require` are alternatives without a group, too.
            true if directive.name.eq_ignore_ascii_case("<requireany") => {
                cx.report.add(&directive.at, &directive.shown(), Fate::Carried);
                rest.extend(directive.inner());
            }
            true => section(directive, folder, site, wishes, cx),
            false => rest.push(directive),
        }
    }
    for directive in rest {
        let name = directive.name.to_ascii_lowercase();
        if name == "rewritecond" {
            level.conditions.push(directive.clone());
            continue;
        }
        let fate = match name.as_str() {
            "rewriterule" => {
                let conditions = std::mem::take(&mut level.conditions);
                let fate = match folder.is_root() {
                    true => rewrite::rule(directive, &conditions, cx.is_htaccess, site, wishes),
                    false => Fate::missing("the converter reads rules of the whole site only"),
                };
                for condition in &conditions {
                    let fate = match &fate {
                        Fate::Missing(_) => Fate::missing("its rule is missing"),
                        Fate::Open(_) => Fate::open("its rule is missing"),
                        _ => Fate::Carried,
                    };
                    condition.note_all(&fate, cx.report);
                }
                fate
            }
            _ => access(directive, &name, &mut level)
                .or_else(|| fields(directive, &name, folder, site))
                .or_else(|| files(directive, &name, folder, site))
                .or_else(|| proxy(directive, &name, folder, site, cx.balancers, &mut kept))
                .unwrap_or_else(|| plain(&name)),
        };
        directive.note_all(&fate, cx.report);
    }
    for condition in &level.conditions {
        condition.note_all(&Fate::missing("no rule follows it"), cx.report);
    }
    site.keep_from_upstreams(&kept);
    level.finish(folder, site);
}

fn section(section: &Directive, folder: &Folder, site: &mut Site, wishes: &mut Wishes, cx: &mut Context<'_>) {
    let arg = section.arg(0);
    let from_regex = |text: &str| regex::read(text).map(|read| read.patterns).unwrap_or_default();
    let name = section.name.to_ascii_lowercase();
    let patterns: Vec<String> = match name.as_str() {
        "<directory" if arg != "~" => {
            let root = site.root.clone().unwrap_or_default();
            let path = arg.trim_end_matches(['/', '*']);
            match path.strip_prefix(root.as_str()) {
                Some("") => vec!["/*".to_owned()],
                Some(below) if below.starts_with('/') && !root.is_empty() => {
                    pattern(&format!("{below}/*")).into_iter().collect()
                }
                // What holds for a folder above the root holds for the root, if Weir could reach it.
                _ if root.starts_with(path) => {
                    let why = "Weir serves nothing outside its roots";
                    section.note_all(&Fate::unneeded(why), cx.report);
                    return;
                }
                _ => Vec::new(),
            }
        }
        "<location" if arg != "~" => match arg.contains(['*', '?', '[']) {
            true => pattern(arg).into_iter().collect(),
            false if arg == "/" => vec!["/*".to_owned()],
            false => pattern(&format!("{}/*", arg.trim_end_matches('/')))
                .into_iter()
                .collect(),
        },
        "<locationmatch" => from_regex(arg),
        "<filesmatch" => match arg {
            arg if arg.starts_with("^\\.") || arg.starts_with("^(\\.") || arg.starts_with("\\.ht") => {
                section.note_all(
                    &Fate::unneeded("names that begin with a dot get 404 unless `hidden` is set"),
                    cx.report,
                );
                return;
            }
            arg => {
                // The expression is about the name alone, so it begins behind a slash.
                let text = arg
                    .strip_prefix('^')
                    .map_or_else(|| arg.to_owned(), |rest| format!("/{rest}"));
                from_regex(&text)
            }
        },
        "<files" if arg.starts_with(".") => {
            section.note_all(
                &Fate::unneeded("names that begin with a dot get 404 unless `hidden` is set"),
                cx.report,
            );
            return;
        }
        "<files" if !arg.contains(['?', '[', '~']) => {
            let text = if arg.starts_with('*') {
                arg.to_owned()
            } else {
                format!("*/{arg}")
            };
            pattern(&text).into_iter().collect()
        }
        "<requireall" | "<requirenone" => {
            section.note_all(
                &Fate::open("the converter reads `Require` without groups"),
                cx.report,
            );
            return;
        }
        "<limitexcept" | "<limit" => {
            section.note_all(
                &Fate::unneeded("files have GET, HEAD and OPTIONS only; upstreams get all methods"),
                cx.report,
            );
            return;
        }
        _ => Vec::new(),
    };
    if patterns.is_empty() {
        let why = "its paths are no patterns with at most one `*` below the root";
        note_refused(section, why, cx.report);
        return;
    }
    cx.report.add(&section.at, &section.shown(), Fate::Carried);
    let inner = Folder {
        patterns: if patterns == ["/*"] {
            folder.patterns.clone()
        } else {
            patterns
        },
    };
    read(section.inner(), &inner, site, wishes, cx);
}

/// Reports a section, and all in it, as missing.
fn note_refused(directive: &Directive, why: &str, report: &mut Report) {
    let limits = ["require", "deny", "authtype", "authuserfile", "order"];
    let name = directive.name.to_ascii_lowercase();
    let is_limit =
        limits.contains(&name.as_str()) && !directive.shown().to_ascii_lowercase().contains("granted");
    let fate = if is_limit {
        Fate::open(why)
    } else {
        Fate::missing(why)
    };
    report.add(&directive.at, &directive.shown(), fate);
    for inner in directive.inner() {
        note_refused(inner, why, report);
    }
}

fn access(directive: &Directive, name: &str, level: &mut Level) -> Option<Fate> {
    let words: Vec<String> = directive
        .args
        .iter()
        .map(|arg| arg.to_ascii_lowercase())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let networks = |texts: &[&str], list: &mut Vec<String>| {
        let mut others = Vec::new();
        for text in texts {
            match network(text) {
                Some(network) => list.push(network),
                None => others.push((*text).to_owned()),
            }
        }
        match others.is_empty() {
            true => Fate::Carried,
            false => Fate::open(format!("{} is not a network in Weir", others.join(", "))),
        }
    };
    Some(match (name, words.as_slice()) {
        ("require", ["all", "granted"]) => {
            level.is_said = true;
            Fate::Carried
        }
        ("require", ["all", "denied"]) | ("deny", ["from", "all"]) => {
            level.is_said = true;
            level.deny.push("all".to_owned());
            Fate::Carried
        }
        ("require", ["ip", rest @ ..]) | ("allow", ["from", rest @ ..]) if rest != ["all"] => {
            level.is_said = true;
            networks(rest, &mut level.allow)
        }
        ("require", ["not", "ip", rest @ ..]) | ("deny", ["from", rest @ ..]) => {
            level.is_said = true;
            networks(rest, &mut level.deny)
        }
        ("require", ["local"]) => {
            level.is_said = true;
            networks(&["127.0.0.0/8", "::1"], &mut level.allow)
        }
        ("require", ["valid-user"]) => {
            level.is_said = true;
            level.needs_user = true;
            Fate::Carried
        }
        ("require", ["user", ..]) => {
            level.is_said = true;
            level.needs_user = true;
            Fate::open("Weir admits every user of the file; make a file with these users")
        }
        ("require", _) => Fate::open("Weir admits clients by network and password only"),
        ("allow", ["from", "all"]) => {
            level.is_said = true;
            Fate::Carried
        }
        ("order", _) => Fate::changed("the longest matching network decides, not the order"),
        ("satisfy", [word]) => {
            level.any = *word == "any";
            Fate::Carried
        }
        ("authtype", ["basic"]) => Fate::Carried,
        ("authtype", _) => Fate::open("Weir asks for passwords with Basic authentication only"),
        ("authname", _) => {
            level.realm = Some(directive.args.join(" "));
            Fate::Carried
        }
        ("authuserfile", _) => {
            level.users = Some(directive.arg(0).to_owned());
            Fate::changed(
                "Weir accepts bcrypt, SHA-256-crypt and SHA-512-crypt; it rejects `$apr1$`, MD5 and plain passwords at start",
            )
        }
        ("authbasicprovider", ["file"]) => Fate::Carried,
        ("authbasicprovider" | "authgroupfile" | "authdigestprovider" | "authldapurl", _) => {
            Fate::open("users are in a file of names and hashes")
        }
        _ => return None,
    })
}

impl Level {
    /// Puts the rule for this level into the site.
    fn finish(mut self, folder: &Folder, site: &mut Site) {
        if !self.is_said {
            return;
        }
        if !self.allow.is_empty() {
            self.deny.retain(|network| network != "all");
        }
        let htpasswd = if self.needs_user { self.users } else { None };
        let is_open = self.allow.is_empty() && self.deny.is_empty() && htpasswd.is_none();
        // All are admitted at the top anyway.
        if is_open && folder.is_root() {
            return;
        }
        if is_open {
            self.allow.push("all".to_owned());
        }
        // Several lines `Require` without a group are alternatives.
        let any = htpasswd.is_some() && (self.any || !self.allow.is_empty());
        for path in &folder.patterns {
            site.access.push(Access {
                path: path.clone(),
                allow: self.allow.clone(),
                deny: self.deny.clone(),
                realm: htpasswd.as_ref().and(self.realm.clone()),
                htpasswd: htpasswd.clone(),
                any,
                auth: None,
            });
        }
    }
}

fn fields(directive: &Directive, name: &str, folder: &Folder, site: &mut Site) -> Option<Fate> {
    let put = |line: String, paths: &[String], site: &mut Site| match paths == ["/*"] {
        true => site.header.push(line),
        false => {
            for path in paths {
                match site
                    .header_rules
                    .iter_mut()
                    .find(|rule| rule.path == *path && !rule.always)
                {
                    Some(rule) => rule.header.push(line.clone()),
                    None => site.header_rules.push(HeaderRule {
                        path: path.clone(),
                        header: vec![line.clone()],
                        always: false,
                    }),
                }
            }
        }
    };
    Some(match name {
        "header" => {
            let (condition, args) = match directive.args.split_first() {
                Some((first, rest))
                    if matches!(first.to_ascii_lowercase().as_str(), "always" | "onsuccess") =>
                {
                    (first.to_ascii_lowercase(), rest)
                }
                _ => (String::new(), &directive.args[..]),
            };
            match (
                args.first().map(|action| action.to_ascii_lowercase()).as_deref(),
                args.get(1),
                args.get(2),
            ) {
                (Some("set" | "append" | "add" | "merge" | "setifempty"), Some(field_name), Some(value)) => {
                    if value.contains("%{") || args.len() > 3 {
                        return Some(Fate::missing(
                            "Weir has no variables and no conditions for fields",
                        ));
                    }
                    match field(field_name, value) {
                        Ok(line) if condition == "always" => {
                            for path in &folder.patterns {
                                site.header_rules.push(HeaderRule {
                                    path: path.clone(),
                                    header: vec![line.clone()],
                                    always: true,
                                });
                            }
                            Fate::Carried
                        }
                        Ok(line) => {
                            put(line, &folder.patterns, site);
                            Fate::Carried
                        }
                        Err(why) if field_name.eq_ignore_ascii_case("vary") => Fate::unneeded(why),
                        Err(why) => Fate::missing(why),
                    }
                }
                (Some("unset"), Some(field_name), _)
                    if ["etag", "x-powered-by", "server"]
                        .contains(&field_name.to_ascii_lowercase().as_str()) =>
                {
                    Fate::unneeded(
                        "Weir's own entity tags are equal on every server, and it sends neither `Server` nor `X-Powered-By`",
                    )
                }
                _ => Fate::missing("Weir sets fields, and removes none"),
            }
        }
        "expiresactive" => Fate::Carried,
        "expiresdefault" => match lifetime(&directive.args) {
            Some(span) => {
                put(format!("Cache-Control: max-age={span}"), &folder.patterns, site);
                Fate::Carried
            }
            None => Fate::missing("Weir knows no lifetime from the modification time"),
        },
        "expiresbytype" => {
            let extensions = extensions(directive.arg(0));
            match (
                lifetime(&directive.args[1..]),
                extensions.is_empty() || !folder.is_root(),
            ) {
                (Some(span), false) => {
                    let paths: Vec<String> = extensions
                        .iter()
                        .map(|extension| format!("*.{extension}"))
                        .collect();
                    put(format!("Cache-Control: max-age={span}"), &paths, site);
                    Fate::changed("by extension, not by type")
                }
                (None, _) => Fate::missing("Weir knows no lifetime from the modification time"),
                _ => {
                    Fate::missing("the converter knows no extensions of this type; write a `[[header-rule]]`")
                }
            }
        }
        _ => return None,
    })
}

/// The lifetime of `"access plus 1 month"` or `A2592000`.
fn lifetime(args: &[String]) -> Option<u64> {
    let text = args.join(" ").to_ascii_lowercase();
    if let Some(span) = text.strip_prefix('a').and_then(|rest| rest.parse().ok()) {
        return Some(span);
    }
    let rest = text
        .strip_prefix("access")
        .or_else(|| text.strip_prefix("now"))?
        .trim();
    let rest = rest.strip_prefix("plus").unwrap_or(rest).trim();
    let mut total = 0_u64;
    let words: Vec<&str> = rest.split_whitespace().collect();
    for pair in words.chunks(2) {
        let [number, unit] = pair else { return None };
        let unit = match unit.trim_end_matches('s') {
            "second" => "s",
            "minute" => "m",
            "hour" => "h",
            "day" => "d",
            "week" => "w",
            "month" => "M",
            "year" => "y",
            _ => return None,
        };
        total = total.checked_add(seconds(&format!("{number}{unit}"))?)?;
    }
    (!words.is_empty()).then_some(total)
}

/// Extensions of the types that sites name.
fn extensions(media_type: &str) -> &'static [&'static str] {
    match media_type {
        "text/html" => &["html", "htm"],
        "text/css" => &["css"],
        "text/javascript" | "application/javascript" | "application/x-javascript" => &["js", "mjs"],
        "image/png" => &["png"],
        "image/jpeg" | "image/jpg" => &["jpg", "jpeg"],
        "image/gif" => &["gif"],
        "image/webp" => &["webp"],
        "image/avif" => &["avif"],
        "image/svg+xml" => &["svg"],
        "image/x-icon" | "image/vnd.microsoft.icon" => &["ico"],
        "font/woff2" | "application/font-woff2" => &["woff2"],
        "font/woff" | "application/font-woff" | "application/x-font-woff" => &["woff"],
        "font/ttf" | "application/x-font-ttf" => &["ttf"],
        "application/pdf" => &["pdf"],
        "application/json" => &["json"],
        "video/mp4" => &["mp4"],
        "video/webm" => &["webm"],
        "audio/mpeg" => &["mp3"],
        _ => &[],
    }
}

fn files(directive: &Directive, name: &str, folder: &Folder, site: &mut Site) -> Option<Fate> {
    let args = &directive.args;
    let arg = directive.arg(0);
    Some(match name {
        "directoryindex" => {
            let (names, others): (Vec<&String>, Vec<&String>) = args
                .iter()
                .partition(|name| !name.contains('/') && !name.ends_with(".php"));
            if !folder.is_root() {
                return Some(Fate::missing("Weir has one `index` for each host"));
            }
            if !names.is_empty() {
                site.index = names
                    .into_iter()
                    .filter(|name| *name != "disabled")
                    .cloned()
                    .collect();
            }
            match others.is_empty() {
                true => Fate::Carried,
                false => Fate::changed("without programs and paths"),
            }
        }
        "options" => {
            let has = |word: &str| {
                args.iter()
                    .any(|arg| arg.trim_start_matches('+').eq_ignore_ascii_case(word))
            };
            let lacks = args
                .iter()
                .any(|arg| arg.eq_ignore_ascii_case("-indexes") || arg.eq_ignore_ascii_case("none"));
            let others: Vec<&str> = args
                .iter()
                .map(String::as_str)
                .filter(|arg| {
                    let known = [
                        "indexes",
                        "followsymlinks",
                        "symlinksifownermatch",
                        "none",
                        "all",
                        "multiviews",
                    ];
                    let bare = arg.trim_start_matches(['+', '-']).to_ascii_lowercase();
                    !known.contains(&bare.as_str()) && !arg.starts_with('-')
                })
                .collect();
            match folder.is_root() {
                true if has("Indexes") => site.listing = Some(true),
                true if lacks => site.listing = Some(false),
                false if has("Indexes") => {
                    return Some(Fate::missing("Weir has one `listing` for each host"));
                }
                _ => {}
            }
            if has("MultiViews") && folder.is_root() {
                site.try_files("*", &["$path".to_owned(), "$path.html".to_owned()]);
                return Some(Fate::changed(
                    "`MultiViews` became `$path.html`: Weir does not choose among languages",
                ));
            }
            match others.is_empty() {
                true => Fate::Carried,
                false => Fate::missing(format!("{} has no meaning in Weir", others.join(", "))),
            }
        }
        "errordocument" => {
            let page = directive.arg(1);
            match (
                arg.parse::<u16>(),
                is_site_path(page) && !page.ends_with(".php"),
                folder.is_root(),
            ) {
                (Ok(400..=599), true, true) => {
                    site.error_page(arg, page);
                    Fate::Carried
                }
                _ => Fate::missing("an error page of Weir is a file of the site, for the whole host"),
            }
        }
        "fallbackresource" if is_site_path(arg) && !arg.ends_with(".php") && folder.is_root() => {
            site.spa = Some(arg.to_owned());
            site.try_files("*", &["$path".to_owned(), arg.to_owned()]);
            Fate::Carried
        }
        "fallbackresource" if arg == "disabled" => Fate::unneeded("there is none by default"),
        "fallbackresource" => {
            Fate::missing("the page of unknown paths is a file of the site, for the whole host")
        }
        "addtype" => {
            for extension in args.iter().skip(1) {
                site.media_type(extension, arg);
            }
            match arg.contains("httpd-php") || arg.contains("cgi") {
                true => {
                    site.types.retain(|(_, value)| value != arg);
                    deny_programs(args.iter().skip(1), site)
                }
                false => Fate::Carried,
            }
        }
        "addhandler" | "sethandler" => match name {
            "addhandler" => deny_programs(args.iter().skip(1), site),
            _ => {
                site.access
                    .extend(folder.patterns.iter().map(|path| Access::nobody(path)));
                Fate::missing(
                    "Weir runs no programs; the result denies these paths, because Weir would send their text",
                )
            }
        },
        "adddefaultcharset" if arg.eq_ignore_ascii_case("utf-8") || arg.eq_ignore_ascii_case("off") => {
            Fate::unneeded("Weir sends `charset=utf-8` with text types")
        }
        "adddefaultcharset" | "addcharset" => match args
            .iter()
            .skip(usize::from(name == "addcharset"))
            .all(|_| arg.eq_ignore_ascii_case("utf-8"))
        {
            true => Fate::unneeded("Weir sends `charset=utf-8` with text types"),
            false => Fate::missing(
                "Weir sends `charset=utf-8` with text types; `[types]` sets others by extension",
            ),
        },
        "redirect" | "redirectpermanent" | "redirecttemp" | "redirectmatch" => {
            redirect(directive, name, site)
        }
        "alias" | "scriptalias" | "aliasmatch" | "scriptaliasmatch" => {
            if name.starts_with("script") {
                site.access
                    .extend(pattern(&format!("{}*", arg)).map(|path| Access::nobody(&path)));
                return Some(Fate::missing("Weir runs no programs"));
            }
            let root = site.root.clone().unwrap_or_default();
            let is_same =
                format!("{root}{}", arg.trim_end_matches('/')) == directive.arg(1).trim_end_matches('/');
            match is_same && !root.is_empty() {
                true => Fate::Carried,
                false => Fate::missing(format!(
                    "Weir has one root for each host; put a symbolic link for `{arg}` in it, to a folder inside the root"
                )),
            }
        }
        _ => return None,
    })
}

fn deny_programs<'a>(extensions: impl Iterator<Item = &'a String>, site: &mut Site) -> Fate {
    for extension in extensions {
        site.access.extend(
            pattern(&format!("*.{}", extension.trim_start_matches('.'))).map(|path| Access::nobody(&path)),
        );
    }
    Fate::missing("Weir runs no programs; the result denies these paths, because Weir would send their text")
}

fn redirect(directive: &Directive, name: &str, site: &mut Site) -> Fate {
    let (status, args) = match (name, directive.args.split_first()) {
        ("redirectpermanent", _) => ("301", &directive.args[..]),
        ("redirecttemp", _) => ("302", &directive.args[..]),
        (_, Some((first, rest)))
            if !first.starts_with(['/', '^', '('])
                || matches!(first.as_str(), "permanent" | "temp" | "seeother" | "gone") =>
        {
            (first.as_str(), rest)
        }
        _ => ("302", &directive.args[..]),
    };
    let status = match status {
        "permanent" => 301,
        "temp" => 302,
        "seeother" => 303,
        "gone" => 410,
        other => other.parse::<u16>().unwrap_or(0),
    };
    let from = args.first().map_or("", |from| from);
    if matches!(status, 400..=599) {
        let patterns = match name {
            "redirectmatch" => regex::read(from).map(|read| read.patterns).unwrap_or_default(),
            _ => pattern(&format!("{from}*")).into_iter().collect(),
        };
        if patterns.is_empty() {
            return Fate::open("its paths are no patterns with at most one `*`");
        }
        site.access
            .extend(patterns.iter().map(|path| Access::nobody(path)));
        return if status == 403 {
            Fate::Carried
        } else {
            Fate::changed("Weir answers 403")
        };
    }
    let Some(to) = args.get(1) else {
        return Fate::missing("a target is missing");
    };
    let mut rules = Vec::new();
    match name {
        "redirectmatch" => {
            let Some(read) = regex::read(from) else {
                return Fate::missing("the expression is no path pattern with one star");
            };
            let star = read.group.map(|group| format!("${group}"));
            let to = match star {
                Some(group) if to.matches(&group).count() == 1 => to.replace(&group, "*"),
                _ => to.clone(),
            };
            rules.extend(read.patterns.into_iter().map(|from| (from, to.clone())));
        }
        // `Redirect` carries over what follows the path.
        _ if from == "/" => rules.push(("/*".to_owned(), format!("{}/*", to.trim_end_matches('/')))),
        _ if from.ends_with('/') => rules.push((format!("{from}*"), format!("{to}*"))),
        _ => rules.extend([
            (from.to_owned(), to.clone()),
            (format!("{from}/*"), format!("{}/*", to.trim_end_matches('/'))),
        ]),
    }
    if !matches!(status, 301 | 302 | 303 | 307 | 308)
        || rules
            .iter()
            .any(|(from, to)| pattern(from).is_none() || !is_target(from, to))
    {
        return Fate::missing(format!("`{to}` is no target of a redirect for `{from}` in Weir"));
    }
    site.redirects
        .extend(rules.into_iter().map(|(from, to)| Redirect { from, to, status }));
    Fate::Carried
}

fn proxy(
    directive: &Directive,
    name: &str,
    folder: &Folder,
    site: &mut Site,
    balancers: &BTreeMap<String, Proxy>,
    kept: &mut Vec<String>,
) -> Option<Fate> {
    Some(match name {
        "proxypass" | "proxypassmatch" => {
            let (path, target) = match directive.args.as_slice() {
                [target, ..] if folder.patterns.len() == 1 && !folder.is_root() => {
                    (folder.patterns[0].trim_end_matches('*'), target)
                }
                [path, target, ..] => (path.as_str(), target),
                _ => return Some(Fate::missing("a path or a target is missing")),
            };
            if target == "!" {
                let bare = path.trim_end_matches('/');
                kept.extend([bare.to_owned(), format!("{bare}/*")]);
                return Some(Fate::Carried);
            }
            if name == "proxypassmatch" {
                return Some(Fate::missing("the converter reads `ProxyPass` with a path"));
            }
            let (base, uri) = match target
                .find("://")
                .and_then(|at| target[at + 3..].find('/').map(|slash| at + 3 + slash))
            {
                Some(slash) => target.split_at(slash),
                None => (target.as_str(), ""),
            };
            let found = match base.strip_prefix("balancer://") {
                Some(group) => match balancers.get(group) {
                    Some(rule) if !rule.upstreams.is_empty() => Ok((rule.clone(), None)),
                    _ => Err(format!(
                        "`{group}` has no upstream that Weir can pass requests to"
                    )),
                },
                None => upstream::address(&base.replace("ws://", "http://")).map(|(address, changed)| {
                    let rule = Proxy {
                        upstreams: vec![address],
                        weights: vec![1],
                        ..Proxy::default()
                    };
                    (rule, changed)
                }),
            };
            let (mut rule, changed) = match found {
                Ok(found) => found,
                Err(why) => {
                    site.access
                        .extend(pattern(&format!("{path}*")).map(|path| Access::nobody(&path)));
                    return Some(Fate::missing(format!("{why}; the result denies these paths")));
                }
            };
            let bare = path.trim_end_matches('/');
            match uri.trim_end_matches('/') {
                same if same == bare => {}
                "" => rule.strip = true,
                _ => {
                    return Some(Fate::missing(
                        "Weir sends the whole path, or the part that the star of `path` stands for, to upstreams",
                    ));
                }
            }
            let patterns = match bare {
                "" => vec!["/*".to_owned()],
                bare if rule.strip => vec![format!("{bare}/*")],
                bare => vec![bare.to_owned(), format!("{bare}/*")],
            };
            for path in patterns.iter().filter_map(|path| pattern(path)) {
                rule.path.clone_from(&path);
                site.proxies.push(rule.clone());
            }
            changed.map_or(Fate::Carried, Fate::Changed)
        }
        "proxypassreverse" => {
            Fate::unneeded("upstreams see the client's `Host`, so their `Location` is right")
        }
        "proxypreservehost" if directive.arg(0).eq_ignore_ascii_case("on") => {
            Fate::unneeded("Weir passes the client's `Host` on")
        }
        "proxypreservehost" => Fate::missing("Weir passes the client's `Host` on"),
        "proxyrequests" | "proxyvia" | "proxytimeout" | "proxyerroroverride" => {
            Fate::unneeded("Weir is no forward proxy, adds `Via`, and has timeouts for each `[[proxy]]`")
        }
        "requestheader" if directive.shown().to_ascii_lowercase().contains("x-forwarded-") => Fate::unneeded(
            "Weir describes the client in `X-Forwarded-For`, `-Proto`, `-Host` and `Forwarded`",
        ),
        "requestheader" => Fate::missing("the converter carries no fields for upstreams"),
        _ => return None,
    })
}

/// Names, separated by spaces, and the reason for their fate.
type Table = &'static [(&'static str, &'static str)];

/// Directives whose fate does not depend on their arguments.
fn plain(name: &str) -> Fate {
    let unneeded: Table = &[
        (
            "rewriteengine rewritebase rewriteoptions",
            "rules of Weir are always on, and begin at the root",
        ),
        (
            "allowoverride accessfilename",
            "Weir reads no files in folders of the site",
        ),
        (
            "errorlog loglevel",
            "Weir logs errors to standard error, which a service manager keeps",
        ),
        (
            "logformat",
            "the result has a format of Weir's; `log-template` makes others",
        ),
        (
            "serveradmin serversignature servertokens traceenable hostnamelookups usecanonicalname namevirtualhost",
            "it has no effect in Weir",
        ),
        (
            "addoutputfilterbytype deflatecompressionlevel deflatefilternote addencoding browsermatch brotlicompressionquality setoutputfilter \
             brotlifilternote",
            "Weir compresses types that shrink, and caches the result",
        ),
        (
            "fileetag contentdigest",
            "Weir's entity tags are computed from the content",
        ),
        (
            "keepalive enablesendfile enablemmap",
            "Weir keeps connections, and chooses how it sends files",
        ),
        (
            "loadmodule serverroot pidfile defaultruntimedir mutex startservers minsparethreads maxsparethreads threadlimit threadsperchild \
             maxrequestworkers maxconnectionsperchild minspareservers maxspareservers serverlimit listenbacklog",
            "Weir starts a worker for each core, under a service manager",
        ),
        (
            "indexoptions indexignore addicon addiconbytype addiconbyencoding defaulticon readmename headername adddescription indexorderdefault",
            "Weir's listings have a form of their own",
        ),
        ("directoryslash", "`/dir` redirects to `/dir/`"),
        (
            "typesconfig defaulttype",
            "Weir has a table of media types; `[types]` changes single ones",
        ),
        (
            "addlanguage languagepriority forcelanguagepriority defaultlanguage",
            "Weir does not choose among languages",
        ),
    ];
    let missing: Table = &[
        (
            "user group",
            "the unit of Weir's packages sets the user; add `user` if you start Weir as root",
        ),
        (
            "php_value php_flag php_admin_value php_admin_flag passengerroot passengerapproot wsgiscriptalias wsgidaemonprocess wsgiprocessgroup scriptsock",
            "Weir runs no programs; put an HTTP server before the application",
        ),
        (
            "setenv setenvif setenvifnocase passenv unsetenv define undefine",
            "Weir has no variables",
        ),
        (
            "sslrequiressl sslrequire",
            "`https-redirect` sends clients to https",
        ),
        (
            "limitrequestfields limitrequestfieldsize limitrequestline requestreadtimeout",
            "limits have keys of their own, as `max-fields`, `max-head-size` and `header-timeout`",
        ),
        (
            "rewritemap",
            "Weir has no tables of paths; write a `[[redirect]]` for each",
        ),
        (
            "cacheenable cacheroot cachedefaultexpire",
            "write `cache` in the `[[proxy]]`; the converter carries no cache of upstream responses",
        ),
    ];
    let find = |table: Table| {
        table
            .iter()
            .find(|(names, _)| names.split_whitespace().any(|known| known == name))
            .map(|(_, why)| *why)
    };
    match (find(unneeded), find(missing)) {
        (Some(why), _) => Fate::unneeded(why),
        (_, Some(why)) => Fate::missing(why),
        _ => Fate::missing("the converter does not know this directive"),
    }
}
