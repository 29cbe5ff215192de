//! What a site of Caddy does with requests: this file walks through blocks and directives, and reads redirects. Files, checks of
//! clients and field lines have files of their own.
//!
//! Caddy sorts the directives of a site, and so does [`super::order`] where the first one decides.

mod checks;
mod fields;
mod files;

use super::exclusive::{self, Exclusive};
use super::matcher::{self, HIDDEN, Matcher, Named};
use super::order::{self, Matched};
use super::php;
use super::proxy;
use super::users::Users;
use crate::access::Access;
use crate::confinement;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{Redirect, Site};
use crate::pattern::{covers, is_target};
use crate::report::{At, Report};
use crate::value::is_site_path;
use checks::{DENIED, is_check, is_firewall, refuses};
use files::{Confined, runs_php, usual_root};
use std::collections::BTreeMap;

/// Reads the directives of a site.
pub(super) fn site(block: &[Directive], site: &mut Site, users: &mut Users, report: &mut Report) {
    site.root = usual_root(block);
    let mut routes = Routes {
        site,
        users,
        named: Named::new(),
        only_paths: BTreeMap::new(),
        own: Vec::new(),
        mounted: Vec::new(),
        serves_all: false,
        confined: Vec::new(),
        lost_files: Vec::new(),
        lines: Vec::new(),
        levels: Vec::new(),
        exclusive: Vec::new(),
        report,
    };
    routes.block(block, &Matcher::everything(), None, true);
    routes.confine(runs_php(block));
    routes.note_lines();
    if let (Err(why), Some(first)) = (routes.keep_own_paths(), block.first()) {
        routes.report.add(&first.at, "reverse_proxy", Fate::missing(why));
    }
    routes.leave_root(block);
    routes.close_lost_files();
    if let (Err(why), Some(first)) = (routes.site.order_access(), block.first()) {
        routes.report.add(&first.at, "access rules", Fate::missing(why));
    }
    let added = exclusive::add(&mut routes.site.access, &routes.exclusive);
    if let (Err(why), Some(first)) = (added, block.first()) {
        routes.report.add(&first.at, "access rules", Fate::missing(why));
    }
    routes.note_left_out();
    if let Some(first) = block.first() {
        routes.note_refused_files(&first.at);
    }
}

/// Whether a target is the same URL with https.
fn leads_home(target: &str) -> bool {
    let rest = target
        .strip_prefix("https://{")
        .and_then(|rest| rest.split_once('}'));
    let is_host = |name: &str| matches!(name, "host" | "hostport" | "http.request.host");
    rest.is_some_and(|(name, rest)| is_host(name) && matches!(rest, "{uri}" | "{http.request.uri}"))
}

/// The status of a redirect.
fn status_of(word: &str) -> Option<u16> {
    match word {
        "permanent" => Some(301),
        "temporary" => Some(302),
        other => other
            .parse::<u16>()
            .ok()
            .filter(|status| matches!(status, 301 | 302 | 303 | 307 | 308)),
    }
}

/// Whether a block answers every request that it gets, so that no directive behind it does.
fn answers(block: &[Directive]) -> bool {
    block.iter().any(|one| {
        let is_for_all = !one.arg(0).starts_with(['/', '@']);
        // `file_server` with it goes on if there is no file.
        let goes_on = one.inner().iter().any(|option| option.name == "pass_thru");
        let is_answer = match one.name.as_str() {
            "reverse_proxy" | "file_server" => true,
            // Others send a text, which is lost.
            "respond" | "error" | "abort" => refuses(one),
            "handle" | "route" => answers(one.inner()),
            _ => false,
        };
        is_for_all && is_answer && !goes_on
    })
}

/// Whether the arguments `strip_prefix PREFIX` name this one, which may have a slash and a star at its end.
fn is_prefix(args: &[String], prefix: &str) -> bool {
    let bare = |text: &str| text.trim_matches('/').to_owned();
    args.get(1)
        .is_some_and(|text| bare(text) == bare(prefix.trim_end_matches('*')))
}

/// What differs for the paths of an expression with `.+`.
const FILLED: &str = "its pattern also matches a path with nothing in place of `.+`, which the expression leaves out: what later \
                      blocks refuse, the result also refuses for its paths";

/// Directives that do the same whether the prefix of a path is removed before them or behind them.
const PATHLESS: [&str; 8] = [
    "basic_auth",
    "basicauth",
    "encode",
    "forward_auth",
    "header",
    "log_append",
    "request_header",
    "root",
];

/// The pattern of a block that removes its own prefix from all paths, as `handle_path` does: `uri strip_prefix`.
fn stripped<'m>(directive: &Directive, matcher: &'m Matcher) -> Option<&'m str> {
    let [pattern] = matcher.patterns.as_slice() else {
        return None;
    };
    let removes =
        |one: &Directive| one.name == "uri" && one.arg(0) == "strip_prefix" && is_prefix(&one.args, pattern);
    // Caddy compares some of them with the path before the prefix is removed.
    let has_path = |one: &Directive| one.args.len() > 1 && one.arg(0).starts_with(['/', '@']);
    let inner = directive.inner();
    // Caddy sorts the directives of `handle`. In `route`, those before this one see the whole path.
    let is_first = match directive.name.as_str() {
        "handle" => true,
        "route" => inner
            .iter()
            .take_while(|one| !removes(one))
            .all(|one| one.name.starts_with('@') || PATHLESS.contains(&&*one.name)),
        _ => false,
    };
    let is_alike = is_first && pattern.ends_with("/*");
    (is_alike && inner.iter().any(removes) && !inner.iter().any(has_path)).then_some(pattern.as_str())
}

struct Routes<'a> {
    site: &'a mut Site,
    users: &'a mut Users,
    named: Named,
    /// The paths of matchers that name one.
    only_paths: BTreeMap<String, String>,
    /// Paths of blocks that no upstream answers.
    own: Vec<String>,
    /// Directives about field lines of some paths, with the patterns.
    lines: Vec<(At, String, Vec<String>)>,
    /// Paths of mounts by a matcher of `root`: the file server around it answers them.
    mounted: Vec<String>,
    /// Whether a file server is for all paths that nothing else answers.
    serves_all: bool,
    /// File servers for some paths.
    confined: Vec<Confined>,
    /// File servers for some clients or requests, which Weir has no form for, with the patterns of their paths.
    lost_files: Vec<(At, String, Vec<String>)>,
    /// The blocks around the directive that is read, from the site inwards.
    levels: Vec<Level>,
    /// Access rules that leave out the paths of earlier blocks.
    exclusive: Vec<Exclusive>,
    report: &'a mut Report,
}

/// A block that is read.
#[derive(Default)]
struct Level {
    /// Patterns of `handle` and `handle_path` up to here, and whether they answer every request that they get.
    handled: Vec<(String, bool)>,
    /// Those of expressions that do not match the shortest path of the pattern, as `^/a/.+`.
    filled: Vec<String>,
    /// Patterns of redirects up to here.
    redirected: Vec<String>,
    /// Whether the directive that is read is one of these two: of them, Caddy runs the first that matches.
    is_handle: bool,
    /// That directive.
    said: Option<(At, String)>,
}

impl Routes<'_> {
    /// Reads directives for requests that match. `strip` is the prefix that `handle_path` removed. `is_sorted`: Caddy sorts the
    /// directives.
    fn block(&mut self, block: &[Directive], around: &Matcher, strip: Option<&str>, is_sorted: bool) {
        // Matchers that a block defines hold in it alone.
        let outside = (self.named.clone(), self.only_paths.clone());
        for definition in block.iter().filter(|one| one.name.starts_with('@')) {
            matcher::define(definition, (around, strip), &mut self.named);
            match matcher::only_path(definition) {
                Some(path) => self.only_paths.insert(definition.name.clone(), path),
                None => self.only_paths.remove(&definition.name),
            };
            let fate = match self.named.get(&definition.name) {
                Some(Err(lost)) if lost.why == HIDDEN => {
                    self.site
                        .presume(definition, &around.patterns, crate::hidden::PASSED_ON);
                    Fate::unneeded(HIDDEN)
                }
                Some(Err(lost)) => Fate::missing(lost.why.clone()),
                Some(Ok(matcher)) if matcher.is_filled && !around.is_filled => Fate::changed(FILLED),
                _ => Fate::Carried,
            };
            definition.note_all(&fate, self.report);
        }
        let directives = block.iter().filter(|one| !one.name.starts_with('@'));
        let sorted: Vec<&Directive> = match is_sorted {
            true => order::sorted(directives, |one| self.matched(one)),
            false => directives.collect(),
        };
        self.levels.push(Level::default());
        for directive in sorted {
            let is_handle = matches!(directive.name.as_str(), "handle" | "handle_path");
            if let Some(level) = self.levels.last_mut() {
                level.is_handle = is_handle;
                level.said = Some((directive.at.clone(), directive.shown()));
            }
            let (matcher, taken) = match matcher::of(&directive.args, (around, strip), &self.named) {
                Ok(found) => found,
                Err(lost) => {
                    if lost.why.ends_with(HIDDEN) && refuses(directive) {
                        directive.note_all(&Fate::unneeded(HIDDEN), self.report);
                        self.site
                            .presume(directive, &around.patterns, crate::hidden::PASSED_ON);
                    } else {
                        if directive.name == "file_server" {
                            let patterns = lost.patterns.clone();
                            self.lost_files
                                .push((directive.at.clone(), directive.shown(), patterns));
                        }
                        self.lose(directive, &lost);
                    }
                    continue;
                }
            };
            let args = directive.args.get(taken..).unwrap_or_default();
            let is_for_some = matcher.networks.is_some() || !matcher.conditions.is_always();
            if directive.name == "file_server" && is_for_some {
                let patterns = matcher.patterns.clone();
                self.lost_files
                    .push((directive.at.clone(), directive.shown(), patterns));
            }
            match directive.name.as_str() {
                "handle" | "route" | "handle_path" => {
                    let prefix = match directive.name.as_str() {
                        "handle_path" => Some(directive.arg(0)),
                        _ => stripped(directive, &matcher),
                    };
                    self.report.add(&directive.at, &directive.shown(), Fate::Carried);
                    let before = self.site.proxies.len();
                    let marks = (self.site.redirects.len(), self.site.secured.len());
                    let is_sorted = directive.name != "route";
                    let outside = self.named.clone();
                    if let Some(prefix) = prefix {
                        matcher::strip(&mut self.named, prefix);
                    }
                    self.block(directive.inner(), &matcher, prefix.or(strip), is_sorted);
                    self.named = outside;
                    let is_always = matcher.conditions.is_always();
                    let level = self.levels.last_mut();
                    let handled: &[(String, bool)] = level.as_ref().map_or(&[], |level| &level.handled);
                    let redirects = self.site.redirects.iter_mut().skip(marks.0);
                    let secured = self.site.secured.iter_mut().skip(marks.1);
                    let rules = redirects.chain(secured.map(|(rule, ..)| rule));
                    for rule in rules.filter(|_| is_handle) {
                        let paths = handled.iter().map(|(path, _)| path);
                        let paths = paths.filter(|path| **path != rule.from);
                        let paths =
                            paths.filter(|path| covers(&rule.from, path) && !rule.except.contains(path));
                        let paths: Vec<String> = paths.cloned().collect();
                        rule.except.extend(paths);
                    }
                    let is_for_all = is_always && matcher.networks.is_none();
                    if let Some(level) = level.filter(|_| is_handle && is_for_all && !matcher.is_everything())
                    {
                        if matcher.is_filled {
                            level.filled.extend(matcher.patterns.iter().cloned());
                        }
                        let is_answer = answers(directive.inner());
                        let patterns = matcher.patterns.iter().cloned();
                        level.handled.extend(patterns.map(|path| (path, is_answer)));
                    }
                    if self.site.proxies.len() == before && !matcher.is_everything() && is_always {
                        self.own.extend(matcher.patterns.iter().cloned());
                    }
                }
                "reverse_proxy" => {
                    let fate =
                        proxy::read(directive, args, &matcher, strip.is_some(), self.site, self.report);
                    self.report.add(&directive.at, &directive.shown(), fate);
                }
                "php_fastcgi" => {
                    let read = php::read(directive, args, &matcher, strip.is_some(), self.site, self.report);
                    let fate = read.unwrap_or_else(|why| {
                        self.site.access.push(Access::nobody("*.php"));
                        Fate::missing(format!(
                            "{why}; the result denies `*.php`, because Weir would send the text of programs"
                        ))
                    });
                    self.report.add(&directive.at, &directive.shown(), fate);
                }
                _ => {
                    let fate = match self.read(directive, args, &matcher, strip) {
                        Fate::Open(why) if is_check(directive) => {
                            self.close(&matcher);
                            Fate::missing(format!("{why}; {DENIED}"))
                        }
                        fate => fate,
                    };
                    let is_for_all = matcher.conditions.is_always() && !matcher.is_everything();
                    if directive.name == "redir"
                        && is_for_all
                        && !matches!(fate, Fate::Missing(_))
                        && let Some(level) = self.levels.last_mut()
                    {
                        level.redirected.extend(matcher.patterns.iter().cloned());
                    }
                    directive.note_all(&fate, self.report);
                    if directive.name == "file_server" && fate == Fate::Carried {
                        files::note_options(directive, self.report);
                    }
                }
            }
        }
        self.levels.pop();
        (self.named, self.only_paths) = outside;
    }

    /// What the matcher of a directive is about, for Caddy's order.
    fn matched(&self, directive: &Directive) -> Matched {
        match directive.arg(0) {
            path if path.starts_with('/') => Matched::Path(path.to_owned()),
            name if name.starts_with('@') => match self.only_paths.get(name) {
                Some(path) => Matched::Path(path.clone()),
                None => Matched::Others,
            },
            _ => Matched::Everything,
        }
    }

    fn read(
        &mut self,
        directive: &Directive,
        args: &[String],
        matcher: &Matcher,
        strip: Option<&str>,
    ) -> Fate {
        let arg = args.first().map_or("", |arg| arg);
        if matcher.networks.is_some() && !matches!(directive.name.as_str(), "respond" | "abort" | "error") {
            let why = "only access rules of Weir choose by network";
            return match is_check(directive) {
                true => Fate::open(why),
                false => Fate::missing(why),
            };
        }
        let has_conditions = matches!(
            directive.name.as_str(),
            "respond" | "abort" | "error" | "redir" | "header"
        );
        if !matcher.conditions.is_always() && !has_conditions {
            let why = "of this directive, Weir has no rule with conditions";
            return match is_check(directive) {
                true => Fate::open(why),
                false => Fate::missing(why),
            };
        }
        match directive.name.as_str() {
            "root" => {
                let fate = self.root(arg, matcher, strip);
                if directive.args.len() > 1 {
                    self.mounted.extend(matcher.patterns.iter().cloned());
                }
                fate
            }
            "file_server" => {
                self.site.has_file_server = true;
                self.file_server(directive, args, matcher, strip)
            }
            "encode" => {
                self.site.compress = Some(true);
                Fate::unneeded("Weir compresses with brotli, zstd and gzip")
            }
            "header" => self.header(directive, args, matcher),
            "redir" if leads_home(arg) && matcher.is_everything() && self.site.names.len() != 1 => {
                let rule = Redirect {
                    from: "*".to_owned(),
                    status: status_of(args.get(1).map_or("302", |word| word)).unwrap_or(302),
                    ..Redirect::default()
                };
                let said = (directive.at.clone(), directive.shown());
                self.site.secured.push((rule, said.0, said.1));
                Fate::Carried
            }
            "redir" => self.redirect(args, matcher, strip),
            "try_files" => self.try_files(args, matcher),
            "rewrite" if let Some(fate) = args.last().and_then(|target| confinement::lost(target)) => fate,
            "rewrite" => match (args.last().map_or("", |page| page), matcher.is_everything()) {
                (page, _) if page.contains('{') => Fate::missing(
                    "Weir has no variables; `rewrite` of a `[[proxy]]` changes the path for upstreams",
                ),
                (page, true) if is_site_path(page) => {
                    self.site.spa = Some(page.to_owned());
                    Fate::changed(
                        "Weir sends the page only for paths without a file, to browsers that navigate",
                    )
                }
                _ => Fate::missing(
                    "Weir does not change paths inside; `[[try-files]]` names other files for a path",
                ),
            },
            "basic_auth" | "basicauth" => self.users(directive, args, matcher),
            "respond" => self.respond(directive, args, matcher),
            "abort" => self.deny(matcher, 403),
            "error" => match args.iter().find_map(|arg| arg.parse::<u16>().ok()) {
                Some(status @ 400..=599) => self.deny(matcher, status),
                _ => self.deny(matcher, 403),
            },
            "handle_errors" => self.errors(directive),
            "php_server" => {
                self.site.access.push(Access::nobody("*.php"));
                Fate::missing(
                    "Weir runs no PHP itself; `php_fastcgi` passes requests to php-fpm. The result denies `*.php`, because Weir \
                     would send the text of programs",
                )
            }
            "forward_auth" => self.ask(directive, args, matcher),
            "templates" => Fate::missing("Weir runs no templates"),
            "metrics" => Fate::missing("the metrics are at `/.weir/metrics`, if `live` admits the client"),
            "vars" | "map" => Fate::missing("Weir has no variables"),
            "uri" if arg == "strip_prefix" && strip.is_some_and(|prefix| is_prefix(args, prefix)) => {
                Fate::Carried
            }
            "uri" if strip.is_none() && arg == "strip_prefix" => Fate::missing(format!(
                "Weir looks files up, and passes requests on, with `{}` in the path; `strip = true` in a `[[proxy]]` or a mount of \
                 these paths removes it",
                args.get(1).map_or("", |prefix| prefix)
            )),
            "request_header" => Fate::missing("the converter carries no fields for upstreams"),
            "log_skip" | "skip_log" | "log_name" | "log_append" => {
                Fate::missing("the access log has all requests")
            }
            "push" => {
                Fate::unneeded("Weir does not use server push; `early-hints` announces what a page embeds")
            }
            "tracing" => Fate::missing("the converter carries no tracing"),
            "intercept" => Fate::missing("Weir passes responses of upstreams on"),
            "invoke" => Fate::open("the converter reads no named routes, and one may limit access"),
            _ if is_check(directive) => {
                Fate::open("the converter does not know this directive, which limits access by its name")
            }
            _ if is_firewall(directive) => {
                Fate::open("the converter does not know this directive, which refuses requests by its name")
            }
            _ => Fate::missing("the converter does not know this directive"),
        }
    }

    fn redirect(&mut self, args: &[String], matcher: &Matcher, strip: Option<&str>) -> Fate {
        let (to, status) = match args {
            [to] => (to.as_str(), "302"),
            [to, status] => (to.as_str(), status.as_str()),
            _ => return Fate::missing("this is no redirect that the converter knows"),
        };
        let Some(status) = status_of(status) else {
            return Fate::missing("the status of a redirect is 301, 302, 303, 307 or 308");
        };
        let mut fate = Fate::Carried;
        for from in &matcher.patterns {
            let mut target = to.replace("{scheme}", "https");
            if let [name] = self.site.names.as_slice() {
                target = target.replace("{host}", name).replace("{hostport}", name);
            }
            for rest in ["{uri}", "{http.request.uri}", "{path}"] {
                if let Some(start) = target.strip_suffix(rest) {
                    // The pattern itself, whose star is the same text in both; `handle_path` took its beginning off.
                    let path = match strip.map(|prefix| prefix.trim_end_matches(['*', '/'])) {
                        Some(prefix) => {
                            match from.strip_prefix(prefix).filter(|path| path.starts_with('/')) {
                                Some(path) => path,
                                None => return Fate::missing("the path is not below that of `handle_path`"),
                            }
                        }
                        None => from,
                    };
                    target = format!("{start}{path}");
                    break;
                }
            }
            if !is_target(from, &target) {
                return Fate::missing(format!(
                    "`{target}` is no target of a redirect for `{from}` in Weir"
                ));
            }
            if !to.contains("{uri}") {
                fate = Fate::changed("Weir appends the query of the request");
            }
            let rules = matcher.conditions.iter().map(|conditions| Redirect {
                from: from.clone(),
                conditions: conditions.clone(),
                to: target.clone(),
                status,
                ..Redirect::default()
            });
            self.site.redirects.extend(rules);
        }
        fate
    }

    /// Leaves the paths of redirects and of files to themselves, where an upstream has the paths around them.
    ///
    /// # Errors
    /// There are too many.
    fn keep_own_paths(&mut self) -> Result<(), String> {
        let redirects = self.site.redirected().into_iter();
        let tried = self.site.tried.iter().map(|rule| rule.path.clone());
        let own: Vec<String> = redirects.chain(tried).chain(self.own.clone()).collect();
        self.site.keep_from_upstreams(&own)
    }
}
