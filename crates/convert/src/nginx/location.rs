//! What a `location` says about its paths, as rules of a site.

use super::access::DENIED;
use super::admission;
use super::closed;
use super::condition;
use super::goal::Variables;
use super::level::{self, Level};
use super::lines;
use super::place::{Behind, Place, passes_to_fastcgi};
use super::plain;
use super::reach;
use super::redirect;
use super::scripts::{has_php, of_fastcgi, pass_to_fastcgi};
use super::upstream::{self, Groups};
use crate::access::Access;
use crate::directive::Directive;
use crate::fastcgi;
use crate::fate::Fate;
use crate::hidden;
use crate::model::{HeaderRule, Mount, Proxy, Redirect, Server, Site, TRIED_MAX, Tried};
use crate::pattern::{covers, meet, meet_all, overlaps, pattern};
use crate::report::{At, Report};
use crate::upstream::set;
use crate::value::{NO_TEXT, is_program, is_site_path, removable};

/// What becomes of paths without a pattern that an upstream answers.
const SENT: &str = "in the result, the files that the root has at these paths are sent";

/// Why an expression with `.+` at its end has no folder of its own.
const NO_FOLDER: &str = "a mount of Weir is also for the folder itself, which the expression leaves out";

/// Why `internal` says nothing in a named location.
const NOT_ASKED: &str = "no client can ask for a named location";

/// What the locations of a server share.
pub(super) struct Context<'a> {
    /// Patterns of the locations of one block that say something about access.
    pub(super) said: Vec<String>,
    /// Patterns of the locations around the block that refuse some requests. nginx does not refuse them in the block.
    pub(super) refused: Vec<String>,
    /// The folders of the locations of the server.
    pub(super) folders: Vec<Folder>,
    /// Field lines of locations, those of the strongest first.
    pub(super) header_rules: Vec<HeaderRule>,
    pub(super) groups: &'a Groups,
    /// The block of the server, which has the named locations.
    pub(super) around: &'a [Directive],
    pub(super) variables: Variables,
    /// Whether the server has an address without TLS.
    pub(super) is_clear: bool,
    pub(super) report: &'a mut Report,
    pub(super) server: &'a mut Server,
}

/// Where nginx looks for the files of a location.
pub(super) struct Folder {
    at: At,
    shown: String,
    /// The path of the location, with a slash at both ends.
    path: String,
    /// On disk, without a slash at the end.
    folder: String,
    /// The root that the folder is below, if it is the path below it.
    root: Option<String>,
    index: Vec<String>,
    listing: bool,
}

/// Adds mounts for locations whose files the result would look for elsewhere: in the mount of a location around them.
pub(super) fn mount_folders(site: &mut Site, cx: &mut Context<'_>) {
    let mut folders = std::mem::take(&mut cx.folders);
    folders.sort_by_key(|one| one.path.len());
    for one in folders {
        if site.folder(&one.path).as_deref() == Some(&*one.folder) {
            continue;
        }
        let pattern = format!("{}*", one.path);
        let mount = match &one.root {
            Some(root) => site.mount(&pattern, root, false),
            None => site.mount(&pattern, &one.folder, true),
        };
        match mount {
            Ok(mount) => {
                mount.index = one.index;
                mount.listing = one.listing;
            }
            Err(why) => {
                let shown = format!("folder of {}", one.shown);
                cx.report.add(
                    &one.at,
                    &shown,
                    Fate::missing(format!("nginx looks for its files in `{}`: {why}", one.folder)),
                );
            }
        }
    }
}

/// Whether a directive passes the requests of a location on.
fn passes_on(directive: &Directive) -> bool {
    matches!(directive.name.as_str(), "proxy_pass" | "grpc_pass")
}

/// Puts the rules of all locations of a block into a site, in the order in which nginx tries them. `outer`: the paths of the
/// block; `filled`: those of its patterns whose shortest path it leaves out. Returns the paths that no upstream answers.
pub(super) fn locations(
    block: &[Directive],
    (outer, filled): (&[String], &[String]),
    around: &Level,
    site: &mut Site,
    cx: &mut Context<'_>,
) -> Vec<String> {
    let blocks = block.iter().filter(|directive| directive.name == "location");
    let mut places: Vec<(&Directive, Place)> = blocks
        .map(|directive| (directive, admission::placed(directive, outer, filled)))
        .collect();
    // A named location answers the paths whose files are tried in vain.
    for index in 0..places.len() {
        let Some(name) = places[index].1.name.clone() else {
            continue;
        };
        let (mut patterns, mut left_out): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for (directive, place) in &places {
            lead_to(&name, directive, place, &mut patterns, &mut left_out);
        }
        if tries(block, &name) {
            patterns.extend(outer.iter().cloned());
            left_out.extend(filled.iter().cloned());
        }
        let passes = places[index].0.inner().iter().any(passes_on);
        if passes && !patterns.is_empty() {
            places[index].1.answer_missing(patterns, left_out);
        }
    }
    admission::precede_shorter(&mut places);
    places.sort_by_key(|(_, place)| place.rank());
    admission::note_weaker(&mut places, block, &around.access);
    let speak = places
        .iter()
        .filter(|(directive, place)| match place.is_for_missing {
            true => admission::says_access(directive) || closed::refuses_some(directive),
            false => admission::speaks(directive),
        });
    let said = speak.flat_map(|(_, place)| place.patterns.clone());
    let said: Vec<String> = said.chain(cx.refused.iter().cloned()).collect();
    let outside = std::mem::replace(&mut cx.said, said);
    let tried = site.tried.iter().find(|rule| rule.path == "*").cloned();
    // Paths of locations that no upstream answers.
    let mut own: Vec<String> = Vec::new();
    // Paths of locations that a later one does not redirect.
    let mut stronger: Vec<String> = Vec::new();
    for (directive, place) in &places {
        let (before, redirects, secured) = (site.proxies.len(), site.redirects.len(), site.secured.len());
        let known = own.len();
        own.extend(location(directive, place, block, around, site, cx));
        // Its paths are those of locations that lead to it.
        let is_other = |path: &&String| !place.is_for_missing || !place.patterns.contains(path);
        let others: Vec<String> = match site.proxies.len() > before {
            true => own[..known].iter().filter(is_other).cloned().collect(),
            false => Vec::new(),
        };
        // The upstream of a location, or of one inside it, is not that of stronger locations beside it.
        for rule in site.proxies.iter_mut().skip(before) {
            let is_inside = !place.patterns.contains(&rule.path);
            let mut lost = None;
            for path in meet_all(std::slice::from_ref(&rule.path), &others) {
                let outcome = match path == rule.path {
                    true if is_inside => Err(format!(
                        "the upstream also answers `{path}`, where nginx sends files"
                    )),
                    true => Ok(()),
                    false => rule.leave_out(&path),
                };
                lost = lost.or(outcome.err());
            }
            if let Some(why) = lost {
                let shown = format!("upstreams in {}", directive.shown());
                cx.report.add(&directive.at, &shown, Fate::changed(why));
            }
        }
        if site.proxies.len() > before
            && let Err(why) = site.keep_from_upstreams(&own)
        {
            cx.report
                .add(&directive.at, &directive.shown(), Fate::missing(why));
        }
        let mut rules: Vec<&mut Redirect> = site.redirects.iter_mut().skip(redirects).collect();
        rules.extend(site.secured.iter_mut().skip(secured).map(|(rule, ..)| rule));
        for rule in rules {
            for path in stronger.iter().flat_map(|path| meet(&rule.from, path)) {
                if path != rule.from && !rule.except.contains(&path) {
                    rule.except.push(path);
                }
            }
        }
        let falls_back = directive.inner().iter().any(|one| {
            one.name == "try_files" && one.args.last().is_some_and(|last| has_upstream(block, last))
        });
        let passes = |one: &Directive| one.name.ends_with("_pass");
        // Names that begin with a dot are hidden among files.
        let is_named = place.name.is_some() || place.is_for_missing || place.is_hidden;
        if is_named || place.is_everything() {
            continue;
        }
        let is_left = falls_back || leads_to_script(directive, place, block, around);
        if !is_left && !directive.inner().iter().any(passes) {
            own.extend(place.patterns.iter().cloned());
        }
        // Redirects come one by one, and refusals before them. Texts come behind them.
        let ends =
            |one: &Directive| matches!(one.name.as_str(), "return" | "internal") && !closed::is_text(one);
        if !directive.inner().iter().any(ends) {
            stronger.extend(place.patterns.iter().cloned());
        }
    }
    cx.said = outside;
    // Only a server has named locations.
    if block.iter().any(is_named) {
        site.access.retain(|rule| !is_mark(rule));
    }
    keep_from_tried(&places, tried.as_ref(), site);
    lines::note(block, &places, around, cx.report);
    reach::note_limits(&places, &site.limits, cx.report);
    own
}

/// Whether `try_files` of a block leads to this named location.
fn tries(block: &[Directive], name: &str) -> bool {
    let mut lines = block.iter().filter(|one| one.name == "try_files");
    lines.any(|one| one.args.last().is_some_and(|last| last == name))
}

/// Whether `try_files` of a location, or of one in it, leads to this named location.
fn leads_to(name: &str, location: &Directive) -> bool {
    let mut inner = location.inner().iter().filter(|one| one.name == "location");
    tries(location.inner(), name) || inner.any(|one| leads_to(name, one))
}

/// Adds the patterns of a location, and of those in it, that lead to a named one by `try_files`, and those whose shortest path is left
/// out.
fn lead_to(
    name: &str,
    location: &Directive,
    place: &Place,
    patterns: &mut Vec<String>,
    left_out: &mut Vec<String>,
) {
    if tries(location.inner(), name) {
        for path in &place.patterns {
            if !patterns.contains(path) {
                patterns.push(path.clone());
            }
        }
        left_out.extend(place.filled.iter().cloned());
    }
    let inner = location.inner().iter().filter(|one| one.name == "location");
    for one in inner.filter(|one| leads_to(name, one)) {
        let inside = admission::placed(one, &place.patterns, &place.filled);
        lead_to(name, one, &inside, patterns, left_out);
    }
}

/// Whether nginx answers the one path of a location, a folder, with its index, and an application answers that index: a script.
fn leads_to_script(location: &Directive, place: &Place, block: &[Directive], around: &Level) -> bool {
    let of_own = location.inner().iter().rfind(|one| one.name == "index");
    let is_script = of_own.map_or(around.is_index_script, level::is_index_script);
    let answers = |one: &Directive| is_root(one) || matches!(one.name.as_str(), "return" | "try_files");
    place.is_exact()
        && place.patterns.iter().all(|path| path.ends_with('/'))
        && is_script
        && !location.inner().iter().any(answers)
        && has_php(block)
}

/// Keeps the files that `location /` tries, and the removal of slashes there, from the paths of stronger locations. `before` is the
/// rule for all paths that the server itself has.
fn keep_from_tried(places: &[(&Directive, Place)], before: Option<&Tried>, site: &mut Site) {
    if site.tried.iter().find(|rule| rule.path == "*") == before {
        return;
    }
    let files = before.map_or_else(|| vec!["$path".to_owned()], |rule| rule.files.clone());
    let slash = before.and_then(|rule| rule.slash);
    for (directive, place) in places {
        // Neither an upstream nor a redirect or a refusal looks for files.
        let ends = |one: &Directive| one.name == "return" || one.name.ends_with("_pass");
        let is_other = place.name.is_some() || place.is_for_missing || place.is_everything();
        if is_other || place.is_hidden || closed::refuses(directive) || directive.inner().iter().any(ends) {
            continue;
        }
        for path in &place.patterns {
            if site.tried.iter().any(|rule| rule.path == *path) {
                continue;
            }
            site.try_files(path, &files);
            if let Some(rule) = site.tried.iter_mut().find(|rule| rule.path == *path) {
                rule.slash = slash;
            }
        }
    }
}

/// Reports a block, and all in it, as missing.
pub(super) fn refuse(block: &Directive, why: &str, report: &mut Report) {
    let refuses = block.name == "return" && closed::is_refusal(block.arg(0));
    let admits_all = block.name == "allow" && block.arg(0) == "all";
    let is_limit = plain::limits(&block.name) && block.arg(0) != "off" && !admits_all;
    let fate = match is_limit || refuses || closed::hides_files(block) {
        true => Fate::open(why),
        false => Fate::missing(why),
    };
    report.add(&block.at, &block.shown(), fate);
    for inner in block.inner() {
        refuse(inner, why, report);
    }
}

fn location(
    block: &Directive,
    place: &Place,
    siblings: &[Directive],
    around: &Level,
    site: &mut Site,
    cx: &mut Context<'_>,
) -> Vec<String> {
    if place.name.is_some() {
        refuse(block, "Weir has no named locations", cx.report);
        for one in block.inner().iter().filter(|one| one.name == "internal") {
            cx.report
                .replace(&one.at, &one.shown(), Fate::unneeded(NOT_ASKED));
        }
        return Vec::new();
    }
    let mut level = around.inside(block.inner());
    let mut said = Level::default();
    said.access.know_servers(&around.access);
    said.access.note_servers(siblings);
    for directive in block.inner() {
        said.access.read(directive);
    }
    let says_no =
        |directive: &Directive| directive.name == "return" && matches!(directive.arg(0), "403" | "404");
    if place.is_hidden && (said.access.admits_nobody() || block.inner().iter().any(says_no)) {
        let is_known = siblings
            .iter()
            .any(|one| one.name == "location" && one.args.iter().any(|arg| arg.contains("/.well-known")));
        let fate = hidden::fate(block.args.last().map_or("", |text| text), is_known);
        block.note_all(&fate, cx.report);
        site.presume(block, &["*".to_owned()], hidden::PASSED_ON);
        return Vec::new();
    }
    if place.patterns.is_empty() {
        let why = match &place.why {
            Some(why) => why.clone(),
            None => format!("`{}` is no path pattern of Weir", block.args.join(" ")),
        };
        if passes_to_fastcgi(block) || may_run_scripts(block) {
            // Which of them the location means is not known, and their text is not for clients.
            site.access.push(Access::nobody("*.php"));
        }
        let denied = closed::in_place_of(block, place);
        if !denied.is_empty() {
            let why = format!("{why}; the result denies `{}`", denied.join("`, `"));
            site.close(&denied);
            block.note_all(&Fate::missing(why), cx.report);
        } else {
            if place.behind == Behind::Admits && !said.access.is_said() {
                let shown = format!("access of {}", block.shown());
                cx.report.add(&block.at, &shown, Fate::open(admission::OPENED));
            }
            let why = site.close_some(&closed::some_of(block, place), why);
            refuse(block, &why, cx.report);
            // Files answer in place of a text or an upstream. The text of scripts is denied.
            let has_root = site.root.is_some() || around.site.root.is_some();
            let has_files = (has_root || block.inner().iter().any(is_root)) && !passes_all(siblings);
            let is_about_php = block.args.iter().any(|arg| arg.contains("php"));
            let is_denied = |one: &Directive| one.name == "fastcgi_pass" && is_about_php;
            let passes = |one: &Directive| one.name.ends_with("_pass") && !is_denied(one);
            for one in block.inner() {
                let is_sent = has_files && (passes(one) || closed::runs_code(&one.name));
                let lost = match (closed::is_text(one), is_sent) {
                    (true, _) => NO_TEXT,
                    (false, true) => SENT,
                    (false, false) => continue,
                };
                let fate = Fate::open(format!("{why}; {lost}"));
                cx.report.replace(&one.at, &one.shown(), fate);
            }
        }
        return Vec::new();
    }
    let fate = match (&place.differs, place.any_case && !said.access.is_said()) {
        (Some(differs), _) => Fate::changed(differs.clone()),
        (None, true) => Fate::changed("Weir tells upper and lower case apart"),
        (None, false) => Fate::Carried,
    };
    cx.report.add(&block.at, &block.shown(), fate);

    let mut own = Own {
        place,
        siblings,
        lines: Vec::new(),
        always: Vec::new(),
        pass: None,
        root: None,
        to_fastcgi: None,
        fastcgi: Proxy {
            params: level.params.clone(),
            ..Proxy::default()
        },
    };
    // Before all others: an index and a listing belong to the root of their location.
    let root = block.inner().iter().rfind(|one| is_root(one));
    own.root = root.map(|directive| own.root(directive, &mut level, site));
    if let Some(folder) = own.files(block, &level) {
        cx.folders.push(folder);
    }
    let marks = [
        site.redirects.len(),
        site.secured.len(),
        site.access.len(),
        site.proxies.len(),
    ];
    let refusals = site.refusals.len();
    for directive in block.inner() {
        let fate = own.read(directive, block, &mut level, site, cx);
        if let Some(fate) = fate {
            directive.note_all(&fate, cx.report);
        }
    }
    for path in &place.patterns {
        site.limits.extend(level.limits.of(path));
    }
    if let Some(directive) = own.pass {
        let rules = site.access.len();
        let mut fate = pass(directive, place, &level, site, cx.groups);
        // No client has these paths, and the access rules have the URL.
        if matches!(fate, Fate::Missing(_)) && is_only_asked(block, place, siblings, &said, cx.groups) {
            site.access.truncate(rules);
            fate = Fate::Carried;
        }
        cx.report.add(&directive.at, &directive.shown(), fate);
    }
    if let Some(directive) = own.to_fastcgi {
        let fate = pass_to_fastcgi(directive, place, siblings, own.fastcgi, site, cx.groups);
        cx.report.add(&directive.at, &directive.shown(), fate);
    }
    // Those of a server come before all rules, and those of a location behind the rules of stronger ones.
    let mut refused = site.refusals.split_off(refusals);
    if place.is_for_missing && !refused.is_empty() {
        refuse_with_files(block, std::mem::take(&mut refused), site);
        let why = "files of these paths are refused to the same requests";
        cx.report.add(&block.at, &block.shown(), Fate::changed(why));
    }
    // The rules of locations in this one come before its own, as the first rule decides.
    let mut inner = Vec::new();
    if block.inner().iter().any(|directive| directive.name == "location") {
        let redirects = site.redirects.split_off(marks[0]);
        let secured = site.secured.split_off(marks[1]);
        let access = site.access.split_off(marks[2]);
        let proxies = site.proxies.split_off(marks[3]);
        // In nginx, lines of a level replace those around it; they do not follow them.
        let mut over = said.access.over(&around.access);
        over.know_servers(&level.access);
        level.access = over;
        level.site.header.extend(own.lines.iter().cloned());
        level.site.header_always.extend(own.always.iter().cloned());
        let around_refused = cx.refused.len();
        if closed::refuses_some(block) {
            cx.refused.extend(place.patterns.iter().cloned());
        }
        inner = locations(block.inner(), (&place.patterns, &place.filled), &level, site, cx);
        cx.refused.truncate(around_refused);
        let narrow = std::mem::replace(&mut site.proxies, proxies);
        if let Err(why) = site.keep_from_upstreams(&inner) {
            cx.report.add(&block.at, &block.shown(), Fate::missing(why));
        }
        let own_proxies = std::mem::replace(&mut site.proxies, narrow);
        site.proxies.extend(own_proxies);
        for (rule, is_to_https) in redirects.into_iter().map(|rule| (rule, None)).chain(
            secured
                .into_iter()
                .map(|(rule, at, shown)| (rule, Some((at, shown)))),
        ) {
            let paths = inner.iter().filter(|path| covers(&rule.from, path));
            let except = paths.filter(|path| !rule.except.contains(path)).cloned();
            let except = rule.except.iter().cloned().chain(except).collect();
            let rule = Redirect { except, ..rule };
            match is_to_https {
                Some((at, shown)) => site.secured.push((rule, at, shown)),
                None => site.redirects.push(rule),
            }
        }
        site.access.append(&mut refused);
        site.access.extend(access);
    }
    site.access.append(&mut refused);
    if let Some(named) = refusing_fallback(block, cx.around) {
        site.access
            .extend(place.patterns.iter().map(|path| mark(named, path)));
    }
    // Behind those of locations in this one, which are stronger.
    for (header, always) in [(&own.lines, false), (&own.always, true)] {
        for path in place.patterns.iter().filter(|_| !header.is_empty()) {
            cx.header_rules.push(HeaderRule {
                path: path.clone(),
                conditions: Vec::new(),
                header: header.clone(),
                always,
            });
        }
    }
    // Behind the rules of locations in it, as the first rule decides.
    admission::admit((block, place), (&said, around), site, (&cx.said, &mut *cx.report));
    inner
}

/// The named location that answers where a location finds no file, if it refuses some requests. `around`: the block of the server.
fn refusing_fallback<'d>(block: &Directive, around: &'d [Directive]) -> Option<&'d Directive> {
    let refuses =
        |one: &&Directive| is_named(one) && tries(block.inner(), one.arg(0)) && closed::refuses_some(one);
    around.iter().find(refuses)
}

/// Whether a directive is a location that only others refer to.
fn is_named(directive: &Directive) -> bool {
    directive.name == "location" && directive.arg(0).starts_with('@')
}

/// Stands among the access rules for the refusals of a named location, for a path of a location that leads to it.
fn mark(named: &Directive, path: &str) -> Access {
    Access {
        path: format!("{} {path}", named.arg(0)),
        ..Access::default()
    }
}

/// Whether a rule is a [`mark`].
fn is_mark(rule: &Access) -> bool {
    rule.path.starts_with('@')
}

/// Puts the refusals of a named location before the rules of the locations that lead to it, which it refuses whatever these rules say,
/// and behind those of stronger ones. Weir refuses files, too. Those for other paths come before all rules.
fn refuse_with_files(named: &Directive, refused: Vec<Access>, site: &mut Site) {
    for rule in refused {
        let mark = mark(named, &rule.path);
        match site.access.iter().position(|known| *known == mark) {
            Some(at) => site.access.insert(at, rule),
            None => site.refusals.push(rule),
        }
    }
}

/// Whether a location answers nothing but `auth_request` of the block around it, with a URL that the result has.
fn is_only_asked(
    block: &Directive,
    place: &Place,
    siblings: &[Directive],
    said: &Level,
    groups: &Groups,
) -> bool {
    let path = block.args.last().map_or("", |text| text);
    let has_url = said.access.server(path).is_some_and(|url| {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or(rest);
        // `auth` names one server, and no group.
        !groups.contains_key(authority)
    });
    let is_internal = block.inner().iter().any(|one| one.name == "internal");
    place.is_exact() && is_internal && has_url && asks(siblings, path)
}

/// Whether `auth_request` in a block, or in a block in it, asks a location with this path.
fn asks(block: &[Directive], path: &str) -> bool {
    block
        .iter()
        .any(|one| (one.name == "auth_request" && one.arg(0) == path) || asks(one.inner(), path))
}

fn pass(directive: &Directive, place: &Place, level: &Level, site: &mut Site, groups: &Groups) -> Fate {
    let target = match directive.arg(0) {
        target if directive.name == "grpc_pass" && !target.contains("://") => format!("grpc://{target}"),
        target => target.to_owned(),
    };
    match upstream::pass(&target, place.prefix.as_deref(), groups) {
        Ok((mut rule, changed)) => {
            level.proxy.apply(&mut rule);
            if place.is_for_missing {
                set(&mut rule, "when", "\"missing\"");
            }
            for path in &place.patterns {
                let mut rule = rule.clone();
                rule.path.clone_from(path);
                if (rule.strip || rule.keys.iter().any(|(key, _)| key == "rewrite")) && !path.contains('*') {
                    return Fate::missing("Weir sends the whole path of a location without a star");
                }
                site.proxies.push(rule);
            }
            changed.map_or(Fate::Carried, Fate::Changed)
        }
        Err(why) => {
            // Files at these paths are not meant for clients.
            for path in &place.patterns {
                site.access.push(Access::nobody(path));
            }
            Fate::missing(format!("{why}; the result denies these paths"))
        }
    }
}

/// What a location has gathered.
struct Own<'a> {
    place: &'a Place,
    /// The block around the location.
    siblings: &'a [Directive],
    lines: Vec<String>,
    /// Lines of every response.
    always: Vec<String>,
    pass: Option<&'a Directive>,
    /// The fate of `root` or `alias`.
    root: Option<Fate>,
    to_fastcgi: Option<&'a Directive>,
    /// What the directives say of a rule for FastCGI.
    fastcgi: Proxy,
}

/// Gives a mount the index and the listing that its location has from the levels around it.
fn inherit(mount: &mut Mount, level: &Level) {
    mount.listing = level.site.listing.unwrap_or(false);
    mount.index = match level.site.index.is_empty() {
        true => vec!["index.html".to_owned()],
        false => level.site.index.clone(),
    };
}

/// Whether a directive switches compression off.
fn is_off(directive: &Directive) -> bool {
    directive.name == "gzip" && directive.arg(0) == "off"
}

/// Whether a directive names the folder of a location.
fn is_root(directive: &Directive) -> bool {
    matches!(directive.name.as_str(), "root" | "alias")
}

impl<'a> Own<'a> {
    /// The fate of a directive; `None` if it is reported elsewhere.
    fn read(
        &mut self,
        directive: &'a Directive,
        block: &Directive,
        level: &mut Level,
        site: &mut Site,
        cx: &mut Context<'_>,
    ) -> Option<Fate> {
        let is_everything = self.place.is_everything();
        if self.place.is_php
            && let Some(fate) = of_fastcgi(directive, &mut self.fastcgi, cx.is_clear)
        {
            return Some(fate);
        }
        Some(match directive.name.as_str() {
            "location" => return None,
            plain::UNREAD if may_run_scripts(block) => {
                site.close(&self.place.patterns);
                Fate::missing(format!(
                    "the file cannot be read, and may pass scripts to an application; {DENIED}"
                ))
            }
            "proxy_pass" | "grpc_pass" => {
                self.pass = Some(directive);
                return None;
            }
            "fastcgi_pass" => {
                self.to_fastcgi = Some(directive);
                return None;
            }
            "uwsgi_pass" | "scgi_pass" | "memcached_pass" => {
                for path in &self.place.patterns {
                    site.access.push(Access::nobody(path));
                }
                let why = plain::fate(&directive.name)
                    .map(|fate| fate.why().to_owned())
                    .unwrap_or_default();
                Fate::missing(format!(
                    "{why}; the result denies these paths, because Weir would send the text of programs"
                ))
            }
            name if closed::runs_code(name) => {
                site.close(&self.place.patterns);
                Fate::missing(format!("Weir runs no code for a path; {DENIED}"))
            }
            "add_header" => match level::header(directive) {
                Ok(line) => {
                    match directive.arg(2) {
                        "always" => self.always.push(line),
                        _ => self.lines.push(line),
                    }
                    Fate::Carried
                }
                Err(fate) => fate,
            },
            "proxy_hide_header" | "fastcgi_hide_header" => match removable(directive.arg(0)) {
                Ok(()) => {
                    // An application of FastCGI also answers paths without a script.
                    let everywhere = ["*".to_owned()];
                    let paths: &[String] = match self.place.is_php {
                        true => &everywhere,
                        false => &self.place.patterns,
                    };
                    for path in paths {
                        site.remove_field(path, &[], directive.arg(0));
                    }
                    Fate::Carried
                }
                Err(why) => Fate::missing(why),
            },
            "expires" => match level::expires(directive) {
                Ok(line) => {
                    self.lines.extend(line);
                    Fate::Carried
                }
                Err(why) => Fate::missing(why),
            },
            "internal" if self.place.is_for_missing => Fate::unneeded(NOT_ASKED),
            "internal" => {
                for path in &self.place.patterns {
                    site.access.push(Access::refusal(path, 404));
                }
                Fate::Carried
            }
            "return" => self.answer(directive, block, site, cx),
            "rewrite" => {
                let patterns = &self.place.patterns;
                // Behind `try_files`, no path has a file.
                let is_behind = self.place.is_for_missing && redirect::leads_to_program(directive);
                redirect::secured_rewrite(directive, patterns, site, &cx.variables).unwrap_or_else(|| {
                    match redirect::rewrite(directive, &self.paths(), site, &cx.variables) {
                        Fate::Open(why) if is_behind => Fate::Missing(why),
                        fate => fate,
                    }
                })
            }
            "try_files" => match try_files(directive, &self.paths(), cx.around, site) {
                Fate::Missing(why) if closed::hides_files(directive) => match is_everything {
                    true => Fate::open(why),
                    false => {
                        site.close(&self.place.patterns);
                        Fate::missing(format!("{why}; {DENIED}"))
                    }
                },
                fate => fate,
            },
            "root" | "alias" => self.root.clone().unwrap_or(Fate::Carried),
            "index" | "autoindex" | "error_page" | "types" | "gzip" | "gzip_static" | "default_type"
            | "charset" => {
                let mut inner = level.clone();
                let fate = inner.read(directive).unwrap_or(Fate::Carried);
                match () {
                    () if is_everything => {
                        let mut target = Level::default();
                        target.site.clone_from(site);
                        target.read(directive);
                        *site = target.site;
                        fate
                    }
                    // It repeats what the server says.
                    () if inner.site == level.site => fate,
                    () if matches!(directive.name.as_str(), "index" | "autoindex")
                        && !block.inner().iter().any(passes_on) =>
                    {
                        self.of_folder(directive, &inner.site, level, site, fate)
                    }
                    () if is_off(directive) && self.answers_all_its_paths(block) => {
                        site.uncompressed.extend(self.place.patterns.iter().cloned());
                        let codes = |one: &Directive| matches!(one.name.as_str(), "brotli" | "zstd");
                        match level.site.precompressed == Some(true) || self.siblings.iter().any(codes) {
                            true => Fate::changed("Weir sends these paths in no coding, and no siblings"),
                            false => fate,
                        }
                    }
                    () => Fate::missing(format!("Weir has one `{}` for each host", directive.name)),
                }
            }
            "stub_status" => {
                cx.server.key("live", "\"local\"");
                Fate::changed("the metrics are at `/.weir/metrics`, for clients on this machine")
            }
            "access_log" => Fate::missing("the access log has all requests"),
            // An application answers other methods, too; of files, GET is all there is.
            "limit_except" => match block.inner().iter().any(|one| one.name.ends_with("_pass"))
                || block
                    .inner()
                    .iter()
                    .any(|one| falls_back(one, self.siblings) || falls_back(one, cx.around))
                || !directive.args.iter().any(|name| name.eq_ignore_ascii_case("get"))
            {
                true => closed::methods(directive, &self.place.patterns, site),
                false => Fate::unneeded("files have GET, HEAD and OPTIONS only"),
            },
            "if" => {
                let from = self.place.matches();
                if let Err(why) = condition::apply(directive, &from, site, &cx.variables, cx.report) {
                    // A refusal that is lost closes the location, but not a whole site.
                    match closed::refuses(directive) && !is_everything {
                        true => {
                            let paths = &self.place.patterns;
                            match self.place.is_for_missing {
                                true => site.close(paths),
                                // Behind the rules of stronger locations.
                                false => site.access.extend(paths.iter().map(|path| Access::nobody(path))),
                            }
                            directive.note_all(&Fate::missing(format!("{why}; {DENIED}")), cx.report);
                        }
                        false => refuse(directive, &why, cx.report),
                    }
                }
                return None;
            }
            "break" => Fate::unneeded("it ends the rewriting, which Weir does not have"),
            name if level::is_global(name) => Fate::missing(
                "Weir has this setting for all hosts and paths, not for the paths of a location",
            ),
            _ => match level.read(directive) {
                Some(fate) => fate,
                None => plain::fate(&directive.name).unwrap_or_else(|| plain::unknown(&directive.name)),
            },
        })
    }

    /// The paths of rules: one for the whole site, or the patterns of the location.
    fn paths(&self) -> Vec<String> {
        match self.place.is_everything() {
            true => vec!["*".to_owned()],
            false => self.place.patterns.clone(),
        }
    }

    fn answer(
        &self,
        directive: &Directive,
        block: &Directive,
        site: &mut Site,
        cx: &mut Context<'_>,
    ) -> Fate {
        if closed::is_text(directive) {
            let around = (!self.place.any_case).then(|| block.inner());
            return closed::text(directive, around, &self.place.patterns, site);
        }
        let mut fate = Fate::Carried;
        for from in self.place.matches() {
            // The worst one counts.
            fate = fate.min(redirect::returns(directive, &from, site, &cx.variables));
        }
        fate
    }

    /// Whether all paths of the location are its own: the patterns are exact, and no other location sends files of some of
    /// them compressed.
    fn answers_all_its_paths(&self, block: &Directive) -> bool {
        let is_location = |one: &&Directive| one.name == "location";
        // In another location, those outside of it may be stronger.
        let is_of_server = |one: &Directive| matches!(one.name.as_str(), "listen" | "server_name");
        let Place {
            patterns,
            differs,
            any_case,
            is_for_missing,
            ..
        } = self.place;
        if differs.is_some()
            || *any_case
            || *is_for_missing
            || !self.siblings.iter().any(is_of_server)
            || block.inner().iter().any(|one| is_location(&one))
        {
            return false;
        }
        let rank = Place::of(block).rank();
        let takes = |one: &Directive| {
            let other = Place::of(one);
            let ends =
                |inner: &Directive| is_off(inner) || inner.name == "return" || inner.name.ends_with("_pass");
            if other.name.is_some() || other.is_hidden || one.inner().iter().any(ends) {
                return false;
            }
            let is_stronger = other.rank() <= rank;
            // A longer prefix is also stronger than a shorter one with `^~`.
            let is_longer = |own: &str, path: &str| other.prefix.is_some() && covers(own, path);
            let meets = |path: &String| {
                let mut own = patterns.iter();
                own.any(|own| (is_stronger && overlaps(own, path)) || is_longer(own, path))
            };
            match other.patterns.is_empty() {
                true => is_stronger,
                false => other.patterns.iter().any(meets),
            }
        };
        let others = self.siblings.iter().filter(is_location);
        !others.filter(|one| !core::ptr::eq(*one, block)).any(takes)
    }

    /// Puts the index or the listing of the location into its mount. A location without one gets a mount of the root
    /// around it.
    fn of_folder(
        &self,
        directive: &Directive,
        said: &Site,
        level: &Level,
        site: &mut Site,
        fate: Fate,
    ) -> Fate {
        let root = level.site.root.as_deref().or(site.root.as_deref());
        let Some(root) = root.map(str::to_owned) else {
            return Fate::missing(format!("Weir has one `{}` for each host", directive.name));
        };
        if let Some(lost @ Fate::Missing(_)) = &self.root {
            return lost.clone();
        }
        if !self.place.filled.is_empty() {
            return Fate::missing(NO_FOLDER);
        }
        let (pattern, differs) = self.folder();
        let mount = match site.mount_of_root(&pattern, &root) {
            Ok(mount) => mount,
            Err(why) => return Fate::missing(why),
        };
        if self.root.is_none() {
            inherit(mount, level);
        }
        match directive.name.as_str() {
            "index" => mount.index.clone_from(&said.index),
            _ => mount.listing = said.listing.unwrap_or(false),
        }
        fate.min(differs.map_or(Fate::Carried, Fate::Changed))
    }

    /// Where nginx looks for the files of this location. `None`: it sends none, or its paths have no folder.
    fn files(&self, block: &Directive, level: &Level) -> Option<Folder> {
        let sends = |one: &Directive| one.name.ends_with("_pass") || one.name == "return";
        let is_lost = matches!(self.root, Some(Fate::Missing(_)));
        if self.place.is_everything() || is_lost || block.inner().iter().any(sends) {
            return None;
        }
        let ([one], Some(_)) = (self.place.patterns.as_slice(), &self.place.prefix) else {
            return None;
        };
        let path = match one.strip_suffix('*') {
            Some(path) => format!("{}/", path.trim_end_matches('/')),
            None => one.clone(),
        };
        let (folder, root) = match &level.alias {
            Some((prefix, folder)) => (format!("{folder}{}", path.strip_prefix(&**prefix)?), None),
            None => {
                let root = level.site.root.clone()?;
                (format!("{}{path}", root.trim_end_matches('/')), Some(root))
            }
        };
        let mut mount = Mount {
            path: path.clone(),
            root: folder.trim_end_matches('/').to_owned(),
            strip: true,
            index: Vec::new(),
            listing: false,
        };
        inherit(&mut mount, level);
        Some(Folder {
            at: block.at.clone(),
            shown: block.shown(),
            path,
            folder: mount.root,
            root,
            index: mount.index,
            listing: mount.listing,
        })
    }

    /// The pattern of the paths that a mount of this location is for, and how they differ from those of nginx.
    fn folder(&self) -> (String, Option<String>) {
        let pattern = match (self.place.prefix.as_deref(), self.place.patterns.as_slice()) {
            (_, [one]) if one.ends_with("/*") => one.clone(),
            (Some(prefix), [one]) if one.ends_with('*') => {
                let differs = format!(
                    "the mount is for `{prefix}/` and paths below it; nginx also takes other paths that begin with `{prefix}`"
                );
                return (format!("{prefix}/*"), Some(differs));
            }
            (_, patterns) => return (patterns.join(", "), None),
        };
        // An expression is stronger than a prefix without `^~`, and has the root around it.
        let is_stronger = |one: &&Directive| {
            let place = Place::of(one);
            let answers = |inner: &Directive| {
                is_root(inner)
                    || matches!(inner.name.as_str(), "return" | "deny" | "internal")
                    || inner.name.ends_with("_pass")
            };
            place.is_expression()
                && place.patterns.iter().any(|path| overlaps(path, &pattern))
                && !one.inner().iter().any(answers)
        };
        let mut locations = self.siblings.iter().filter(|one| one.name == "location");
        let stronger = locations.find(is_stronger).filter(|_| !self.place.is_preferred());
        let differs = stronger.map(|one| {
            format!(
                "nginx answers paths of `{}` from the root around them",
                one.shown()
            )
        });
        (pattern, differs)
    }

    /// The fate of `root` and `alias`: the root of the site, or a mount.
    fn root(&self, directive: &Directive, level: &mut Level, site: &mut Site) -> Fate {
        let path = match level::root(directive.arg(0)) {
            Ok(path) => path,
            Err(why) => return Fate::missing(why),
        };
        let above = level.site.root.as_deref().or(site.root.as_deref());
        if directive.name == "root" {
            if above == Some(&*path) {
                level.site.root = Some(path);
                level.alias = None;
                return Fate::Carried;
            }
            level.alias = None;
            if !self.place.filled.is_empty() {
                return Fate::missing(NO_FOLDER);
            }
            if self.place.is_everything() {
                site.root = Some(path.clone());
                level.site.root = Some(path);
                return Fate::Carried;
            }
            let (pattern, differs) = self.folder();
            return match site.mount(&pattern, &path, false) {
                Ok(mount) => {
                    inherit(mount, level);
                    level.site.root = Some(path);
                    differs.map_or_else(|| level::is_relative(directive.arg(0)), Fate::changed)
                }
                Err(why) => Fate::missing(why),
            };
        }
        // An alias that is the folder of the same path below the root changes nothing.
        let prefix = self.place.prefix.as_deref().unwrap_or_default();
        let is_same = above.is_some_and(|above| format!("{above}{}", prefix.trim_end_matches('/')) == path);
        level.alias = Some((prefix.trim_end_matches('/').to_owned(), path.clone()));
        if is_same {
            return Fate::Carried;
        }
        if !self.place.filled.is_empty() {
            return Fate::missing(NO_FOLDER);
        }
        let is_prefix = self.place.patterns.iter().any(|one| one.ends_with('*'));
        if let Some(why) = crate::mounts::of_file(prefix, &path).filter(|_| is_prefix) {
            return Fate::missing(why);
        }
        if prefix.ends_with('/') && !directive.arg(0).ends_with('/') {
            return Fate::missing(format!(
                "nginx appends the rest of the path to `{path}` without a slash between them; end the alias with a slash"
            ));
        }
        let (pattern, differs) = self.folder();
        match site.mount(&pattern, &path, true) {
            Ok(mount) => {
                inherit(mount, level);
                differs.map_or_else(|| level::is_relative(directive.arg(0)), Fate::changed)
            }
            Err(why) => Fate::missing(why),
        }
    }
}

/// Whether a location of this block passes all paths on.
fn passes_all(block: &[Directive]) -> bool {
    let passes = |one: &Directive| one.name.ends_with("_pass");
    let is_for_all = |one: &&Directive| one.name == "location" && Place::of(one).is_everything();
    let mut locations = block.iter().filter(is_for_all);
    locations.any(|one| one.inner().iter().any(passes))
}

/// Whether a location is about scripts of PHP, and what is to become of them is in a file that cannot be read.
fn may_run_scripts(block: &Directive) -> bool {
    let is_unread = |one: &Directive| one.name == plain::UNREAD;
    block.args.iter().any(|arg| arg.contains("php")) && block.inner().iter().any(is_unread)
}

/// Closes the scripts of PHP in a server whose files that cannot be read may pass them to an application.
pub(super) fn close_scripts(block: &[Directive], site: &mut Site) {
    const NAMES: [&str; 4] = ["index", "try_files", "error_page", "rewrite"];
    let is_sign = |one: &Directive| {
        NAMES.contains(&one.name.as_str()) && one.args.iter().any(|arg| arg.contains(".php"))
    };
    let is_about = |one: &Directive| is_sign(one) || one.inner().iter().any(is_sign);
    let is_unread = block.iter().any(|one| one.name == plain::UNREAD);
    let is_passed = site.proxies.iter().any(|rule| rule.is_fastcgi);
    if is_unread && !is_passed && block.iter().any(is_about) {
        site.access.insert(0, Access::nobody("*.php"));
    }
}

/// Whether a named location of this block passes requests on.
fn has_upstream(block: &[Directive], name: &str) -> bool {
    let named = |one: &&Directive| one.name == "location" && one.arg(0) == name;
    block
        .iter()
        .filter(named)
        .any(|one| one.inner().iter().any(passes_on))
}

/// Whether a directive sends requests without a file to an upstream of this block.
fn falls_back(directive: &Directive, block: &[Directive]) -> bool {
    let is_passed = |last: &String| has_upstream(block, last) || (last.contains(".php") && has_php(block));
    directive.name == "try_files" && directive.args.last().is_some_and(is_passed)
}

/// Reads `try_files` for paths. `block` has the named locations.
pub(super) fn try_files(
    directive: &Directive,
    paths: &[String],
    block: &[Directive],
    site: &mut Site,
) -> Fate {
    let Some((last, tried)) = directive.args.split_last() else {
        return Fate::missing("no file is named");
    };
    let mut files: Vec<String> = Vec::new();
    for text in tried {
        let file = match text.strip_prefix("$uri") {
            // Weir looks up a directory with its file.
            Some("" | "/") => "$path".to_owned(),
            Some(suffix)
                if suffix.starts_with(['.', '/', '-', '_'])
                    && !suffix.ends_with('/')
                    && is_site_path(&format!("/x{suffix}")) =>
            {
                format!("$path{suffix}")
            }
            None if is_site_path(text) => text.clone(),
            _ => {
                return Fate::missing(format!(
                    "`{text}` is no file that Weir can try: it tries `$path` with an ending, and paths of the site"
                ));
            }
        };
        if is_program(&file) {
            return Fate::missing(format!(
                "`{text}` is a program; Weir has no application for it, and serves no programs as files"
            ));
        }
        if !files.contains(&file) {
            files.push(file);
        }
    }
    let mut fate = Fate::Carried;
    // Without `$uri/`, nginx looks for no directory.
    let has_path = tried.iter().any(|text| text == "$uri");
    let has_directory = directive.args.iter().any(|text| text == "$uri/");
    match last.as_str() {
        "=404" if has_path && !has_directory && paths == ["*"] => {
            fate = Fate::changed(
                "Weir also sends the index or the listing of a directory; `$uri` without `$uri/` is no directory in nginx",
            );
        }
        "=404" => {}
        "$uri/" => {}
        status if status.starts_with('=') => fate = Fate::changed("Weir answers 404"),
        // The named location has the rule for paths without a file.
        name if name.starts_with('@') && has_upstream(block, name) => {}
        name if name.starts_with('@') => {
            fate = Fate::missing(format!(
                "Weir passes requests on before it looks for files, so `{name}` cannot follow them"
            ))
        }
        page if paths == ["*"] && has_php(block) && fastcgi::front(page).is_some() => {
            site.front = fastcgi::front(page).map(str::to_owned);
        }
        page if page.contains(".php?") && paths == ["*"] && has_php(block) => {
            fate = Fate::missing(format!(
                "the front controller of Weir gets the query of the request as it is, and not that of `{page}`; the application can read the path from `REQUEST_URI`"
            ));
        }
        page if page.contains(".php") || page.contains('$') => {
            fate = Fate::missing(format!(
                "`{page}` is a program; Weir has no application for it, and serves no programs as files"
            ));
        }
        page if is_site_path(page) => {
            files.push(page.to_owned());
            // For paths with a slash at their end, where no further file is tried.
            if paths == ["*"] {
                site.spa = Some(page.to_owned());
            }
        }
        _ => fate = Fate::missing(format!("`{last}` is no file that Weir can try")),
    }
    if files.len() > TRIED_MAX {
        return Fate::missing(format!("a rule tries at most {TRIED_MAX} files"));
    }
    if files.is_empty() && last == "$uri/" {
        return Fate::unneeded("Weir looks for the index of the directory");
    }
    if files.is_empty() || files == ["$path"] {
        return match fate {
            Fate::Carried => Fate::unneeded("Weir looks for the file, then for the index of the directory"),
            fate => fate,
        };
    }
    for path in paths.iter().filter_map(|path| pattern(path)) {
        site.try_files(&path, &files);
    }
    fate
}
