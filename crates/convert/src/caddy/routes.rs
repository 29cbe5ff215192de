//! What a site of Caddy does with requests: files, redirects, fields, access, upstreams.
//!
//! Caddy sorts the directives of a site, and so does [`super::order`] where the first one decides. A check of clients that Weir
//! has no form for closes its paths.

use super::exclusive::{self, Exclusive};
use super::matcher::{self, HIDDEN, Lost, Matcher, Named};
use super::order::{self, Matched};
use super::php;
use super::proxy;
use super::users::{self, Users};
use crate::access::Access;
use crate::confinement;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{HeaderRule, Mount, Redirect, Site};
use crate::pattern::{covers, is_target, overlaps};
use crate::report::{At, Report};
use crate::value::{field, is_program, is_site_path};
use std::collections::BTreeMap;

/// Most files that a rule of Weir tries.
const TRIED_MAX: usize = 8;

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

/// The root of a site: that of the site itself, or the one that most of its file servers have.
fn usual_root(block: &[Directive]) -> Option<String> {
    let is_own = |one: &&Directive| one.name == "root" && (one.args.len() == 1 || one.arg(0) == "*");
    if block.iter().any(|one| is_own(&one)) {
        return None;
    }
    let mut found: Vec<(String, usize)> = Vec::new();
    let mut blocks: Vec<&[Directive]> = vec![block];
    while let Some(block) = blocks.pop() {
        for one in block {
            blocks.push(one.inner());
            let root = one.inner().iter().find(|option| option.name == "root");
            let Some(root) = root.filter(|_| one.name == "file_server") else {
                continue;
            };
            let root = root.arg(0).trim_end_matches('/');
            match found.iter_mut().find(|(known, _)| known == root) {
                Some((_, count)) => *count += 1,
                None => found.push((root.to_owned(), 1)),
            }
        }
    }
    // The first of equally frequent ones.
    found.reverse();
    found
        .into_iter()
        .filter(|(root, _)| !root.contains('{'))
        .max_by_key(|(_, count)| *count)
        .map(|(root, _)| root)
}

/// Whether a site passes scripts on, which it finds in its root.
fn runs_php(block: &[Directive]) -> bool {
    block
        .iter()
        .any(|one| one.name == "php_fastcgi" || runs_php(one.inner()))
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

/// Whether a directive does nothing but refuse requests.
fn refuses(directive: &Directive) -> bool {
    match directive.name.as_str() {
        "abort" | "error" => true,
        "respond" => {
            let is_error = |arg: &String| matches!(arg.parse::<u16>(), Ok(400..=599));
            directive.args.iter().any(is_error)
        }
        "handle" | "route" => !directive.inner().is_empty() && directive.inner().iter().all(refuses),
        _ => false,
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
    let is_alike = directive.name == "handle" && pattern.ends_with("/*");
    (is_alike && inner.iter().any(removes) && !inner.iter().any(has_path)).then_some(pattern.as_str())
}

/// What follows the reason why a check is lost.
const DENIED: &str = "the result denies these paths";

/// Whether a directive decides about clients: one of Caddy, or by its name one of a module that the converter does not know.
fn is_check(directive: &Directive) -> bool {
    let name = directive.name.as_str();
    let starts = ["auth", "jwt"];
    // What a named route does is not known here.
    matches!(name, "basic_auth" | "basicauth" | "forward_auth" | "invoke")
        || starts.iter().any(|start| name.starts_with(start))
}

/// Whether a directive, or one in it, decides about clients.
fn has_check(directive: &Directive) -> bool {
    is_check(directive) || directive.inner().iter().any(has_check)
}

/// Reports a directive without a form in Weir, and all in it: what limits access is open.
fn note_lost(directive: &Directive, why: &str, report: &mut Report) {
    let fate = match is_check(directive) || refuses(directive) {
        true => Fate::open(why),
        false => Fate::missing(why),
    };
    report.add(&directive.at, &directive.shown(), fate);
    for inner in directive.inner() {
        note_lost(inner, why, report);
    }
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
    /// Patterns of redirects up to here.
    redirected: Vec<String>,
    /// Whether the directive that is read is one of these two: of them, Caddy runs the first that matches.
    is_handle: bool,
    /// That directive.
    said: Option<(At, String)>,
}

/// A file server for some paths.
struct Confined {
    directive: Directive,
    patterns: Vec<String>,
    is_stripped: bool,
    /// Its own root.
    root: Option<String>,
    is_browsing: bool,
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
                        self.lose(directive, &lost);
                    }
                    continue;
                }
            };
            let args = directive.args.get(taken..).unwrap_or_default();
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
                }
            }
        }
        self.levels.pop();
        (self.named, self.only_paths) = outside;
    }

    /// Adds an access rule of the directive that is read: it is not about the paths that earlier blocks answer.
    fn limit(&mut self, rule: Access) {
        let levels = self.levels.iter();
        let before = levels.flat_map(|level| {
            let handled = level.handled.iter();
            let handled = handled.filter(|(_, is_answer)| level.is_handle || *is_answer);
            handled.map(|(path, _)| path).chain(&level.redirected)
        });
        let is_left_out = |path: &&String| {
            exclusive::can_leave_out(path) && overlaps(&rule.path, path) && !covers(path, &rule.path)
        };
        let except: Vec<String> = before.filter(is_left_out).cloned().collect();
        if except.is_empty() {
            return self.site.access.push(rule);
        }
        let said = self.levels.last().and_then(|level| level.said.clone());
        self.exclusive.push(Exclusive { rule, except, said });
    }

    /// Reports what rules that leave out the paths below a folder leave out besides.
    fn note_left_out(&mut self) {
        let rules = self
            .exclusive
            .chunk_by(|one, next| (&one.said, &one.except) == (&next.said, &next.except));
        for one in rules.filter_map(|rules| rules.first()) {
            let folders: Vec<&str> = one
                .except
                .iter()
                .filter_map(|path| path.strip_suffix("/*"))
                .collect();
            if let (Some((at, shown)), false) = (&one.said, folders.is_empty()) {
                let why = format!(
                    "not for `{}`, because a rule of Weir for the paths below a folder is also for its name",
                    folders.join("`, `")
                );
                self.report.add(at, shown, Fate::changed(why));
            }
        }
    }

    /// Reports field lines whose paths in Weir are not those of Caddy, which compares the path of the request before it tries
    /// files. Weir compares the path of the file that it sends.
    fn note_lines(&mut self) {
        for (at, shown, paths) in std::mem::take(&mut self.lines) {
            let (mut lost, mut leaked): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
            for rule in &self.site.tried {
                let is_whole = paths.iter().any(|path| covers(path, &rule.path));
                for text in rule.files.iter().filter(|text| *text != "$path") {
                    let of = |path: &str| match text.strip_prefix("$path") {
                        Some(suffix) => format!("{path}{suffix}"),
                        None => text.clone(),
                    };
                    let asked = paths.iter().filter(|path| overlaps(path, &rule.path));
                    let is_own = |file: &str| paths.iter().any(|path| covers(path, file));
                    let all = asked.map(|path| {
                        of(if covers(&rule.path, path) {
                            path
                        } else {
                            &rule.path
                        })
                    });
                    lost.extend(all.filter(|file| !is_own(file)));
                    let file = of(&rule.path);
                    if !is_whole && paths.iter().any(|path| overlaps(path, &file)) {
                        leaked.push(rule.path.clone());
                    }
                }
            }
            for list in [&mut lost, &mut leaked] {
                list.sort();
                list.dedup();
            }
            if !lost.is_empty() {
                let why = format!(
                    "Weir compares the path of the file sent, and `try_files` sends `{}`, without these lines; write a `[[header-rule]]` for it",
                    lost.join("`, `")
                );
                self.report.add(&at, &shown, Fate::missing(why));
            }
            if !leaked.is_empty() {
                let why = format!(
                    "Weir compares the path of the file sent: requests for `{}` have these lines, too, if `try_files` sends such a file",
                    leaked.join("`, `")
                );
                self.report.add(&at, &shown, Fate::changed(why));
            }
        }
    }

    /// Reports files that are tried for admitted paths, and refused under their own: Weir compares these with access rules, too.
    fn note_refused_files(&mut self, at: &At) {
        let refusal = |path: &str| {
            let mut rules = self.site.access.iter().filter(|rule| rule.conditions.is_empty());
            rules
                .find(|rule| rule.applies_to(path))
                .filter(|rule| rule.is_for_nobody())
        };
        for rule in self
            .site
            .tried
            .iter()
            .filter(|rule| refusal(&rule.path).is_none())
        {
            for file in rule.files.iter().filter(|file| file.starts_with('/')) {
                if let Some(closed) = refusal(file) {
                    let why = format!(
                        "the access rule for `{}` also refuses this file; write one with `allow` for it before that rule",
                        closed.path
                    );
                    let shown = format!("try_files {file} for `{}`", rule.path);
                    self.report.add(at, &shown, Fate::missing(why));
                }
            }
        }
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

    /// Refuses all clients the requests of a matcher.
    fn close(&mut self, matcher: &Matcher) {
        for path in &matcher.patterns {
            match matcher.conditions.is_always() {
                true => self.limit(Access::nobody(path)),
                false => self.site.refuse(path, &matcher.conditions, 403),
            }
        }
    }

    /// Reports a directive whose matcher is lost, and denies its paths if it limits access. What only refuses all clients does
    /// not close a whole site.
    fn lose(&mut self, directive: &Directive, lost: &Lost) {
        let is_everything = lost.patterns.iter().any(|path| matches!(&**path, "*" | "/*"));
        let closes = has_check(directive) || (refuses(directive) && !is_everything);
        if !closes {
            return note_lost(directive, &lost.why, self.report);
        }
        for path in &lost.patterns {
            self.limit(Access::nobody(path));
        }
        let why = format!("{}; the result denies `{}`", lost.why, lost.patterns.join("`, `"));
        directive.note_all(&Fate::missing(why), self.report);
    }

    /// Reads `forward_auth`: a server that decides about requests.
    fn ask(&mut self, directive: &Directive, args: &[String], matcher: &Matcher) -> Fate {
        let option = |name: &'static str| directive.inner().iter().filter(move |one| one.name == name);
        let known = ["uri", "copy_headers"];
        if let Some(other) = directive
            .inner()
            .iter()
            .find(|one| !known.contains(&one.name.as_str()))
        {
            return Fate::open(format!("`{}` has no key", other.name));
        }
        let [server] = args else {
            return Fate::open("Weir asks one server");
        };
        let (server, _) = match proxy::upstream(server) {
            Ok(found) => found,
            Err(why) => return Fate::open(why),
        };
        let uri = option("uri").next_back().map_or("/", |uri| uri.arg(0));
        if uri.contains('{') || !uri.starts_with('/') {
            return Fate::open("Weir has no variables: the URL of the server is a fixed text");
        }
        let url = match server.starts_with("unix:") {
            true => format!("{server}:{uri}"),
            false => format!("{server}{uri}"),
        };
        let lines = option("copy_headers").flat_map(|one| {
            let inner = one
                .inner()
                .iter()
                .flat_map(|line| core::iter::once(&line.name).chain(&line.args));
            one.args.iter().chain(inner)
        });
        let copy: Vec<String> = lines.cloned().collect();
        if copy.iter().any(|name| name.contains('>')) {
            return Fate::open("Weir copies fields under their own names");
        }
        for path in &matcher.patterns {
            self.limit(Access {
                path: path.clone(),
                auth: Some((url.clone(), copy.clone())),
                ..Access::default()
            });
        }
        Fate::Carried
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
            "respond" => self.respond(args, matcher),
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
            "uri" if strip.is_none() && arg == "strip_prefix" => {
                Fate::missing("`strip` of a `[[proxy]]` keeps the part that the star stands for")
            }
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
            _ => Fate::missing("the converter does not know this directive"),
        }
    }

    /// If the site has file servers for some paths only: serves the root at these, and nowhere else.
    fn confine(&mut self, runs_php: bool) {
        if self.serves_all || self.confined.is_empty() || self.site.root.is_none() {
            return;
        }
        if runs_php {
            let why = "Weir serves the other files of the root, too, because scripts are found there; deny them with \
                       access rules";
            for one in &self.confined {
                let (at, shown) = (&one.directive.at, one.directive.shown());
                self.report.add(at, &shown, Fate::open(why));
            }
            return;
        }
        let Some(root) = self.site.root.take() else { return };
        // A host without a root gets an empty one.
        self.site.has_file_server = false;
        self.site.listing = None;
        let index = std::mem::take(&mut self.site.index);
        for one in &self.confined {
            let root = one.root.as_deref().unwrap_or(&root);
            for pattern in &one.patterns {
                let is_mounted = |mount: &Mount| *pattern == format!("{}*", mount.path);
                if self.site.mounts.iter().any(is_mounted) {
                    continue;
                }
                match self.site.mount(pattern, root, one.is_stripped) {
                    Ok(mount) => {
                        mount.listing = one.is_browsing;
                        mount.index.clone_from(&index);
                    }
                    Err(why) => {
                        let (at, shown) = (&one.directive.at, one.directive.shown());
                        self.report.add(at, &shown, Fate::missing(why));
                    }
                }
            }
        }
    }

    fn root(&mut self, arg: &str, matcher: &Matcher, strip: Option<&str>) -> Fate {
        if arg.contains('{') {
            return Fate::missing("Weir has no variables: a root is a fixed folder");
        }
        let path = match arg.trim_end_matches('/') {
            "" => "/",
            path => path,
        };
        let is_stripped = strip.is_some() && !matcher.is_everything();
        if !matcher.is_everything() && (is_stripped || self.site.root.as_deref() != Some(path)) {
            for pattern in &matcher.patterns {
                if let Err(why) = self.site.mount(pattern, path, is_stripped) {
                    return Fate::missing(why);
                }
            }
        } else {
            self.site.root = Some(path.to_owned());
        }
        match path.starts_with('/') {
            true => Fate::Carried,
            false => Fate::changed(
                "Caddy reads the path from its working directory, Weir from the folder of its file",
            ),
        }
    }

    /// The mounts that a file server with this matcher answers. Empty: it answers paths of the site's root, too.
    fn mounts_of(&mut self, matcher: &Matcher) -> Vec<&mut Mount> {
        let is_own = |mount: &Mount| matcher.patterns.contains(&format!("{}*", mount.path));
        let mounts = self.site.mounts.iter_mut();
        let found: Vec<&mut Mount> = mounts.filter(|mount| is_own(mount)).collect();
        match found.len() == matcher.patterns.len() {
            true => found,
            false => Vec::new(),
        }
    }

    fn file_server(
        &mut self,
        directive: &Directive,
        args: &[String],
        matcher: &Matcher,
        strip: Option<&str>,
    ) -> Fate {
        let mut others = Vec::new();
        // The other options are about the folder.
        if let Some(root) = directive.inner().iter().find(|option| option.name == "root") {
            let path = root.arg(0).trim_end_matches('/');
            match self.site.root.as_deref() {
                Some(known) if known == path && strip.is_none() => {}
                None if matcher.is_everything() && !path.contains('{') => {
                    self.site.root = Some(path.to_owned())
                }
                _ => {
                    if let Fate::Missing(why) = self.root(path, matcher, strip) {
                        others.push(format!("root {path}: {why}"));
                    }
                }
            }
        }
        let is_browsing = args.iter().any(|arg| arg == "browse")
            || directive.inner().iter().any(|option| option.name == "browse");
        match matcher.is_everything() {
            true => self.serves_all = true,
            false => {
                let root = directive.inner().iter().find(|option| option.name == "root");
                self.confined.push(Confined {
                    directive: directive.clone(),
                    patterns: matcher.patterns.clone(),
                    is_stripped: strip.is_some(),
                    root: root.map(|option| option.arg(0).trim_end_matches('/').to_owned()),
                    is_browsing,
                });
            }
        }
        if is_browsing {
            let mut mounts = self.mounts_of(matcher);
            mounts.iter_mut().for_each(|mount| mount.listing = true);
            if mounts.is_empty() {
                self.site.listing = Some(true);
                let by_matcher = &self.mounted;
                let is_ours = |mount: &&mut Mount| by_matcher.contains(&format!("{}*", mount.path));
                let mounts = self.site.mounts.iter_mut().filter(is_ours);
                mounts.for_each(|mount| mount.listing = true);
            }
        }
        for option in directive.inner() {
            match option.name.as_str() {
                "browse" | "root" => {}
                "index" => {
                    let names = option.args.iter().filter(|name| !name.contains('/'));
                    let index: Vec<String> = names.cloned().collect();
                    let mut mounts = self.mounts_of(matcher);
                    mounts.iter_mut().for_each(|mount| mount.index.clone_from(&index));
                    if mounts.is_empty() {
                        self.site.index = index;
                    }
                }
                "precompressed" => self.site.precompressed = Some(true),
                "hide"
                    if option
                        .args
                        .iter()
                        .all(|name| name.trim_start_matches('/').starts_with('.')) => {}
                other => others.push(other.to_owned()),
            }
        }
        match others.is_empty() {
            true => Fate::Carried,
            false if others.iter().any(|name| name == "hide") => {
                Fate::open("Weir hides names that begin with a dot; deny others with access rules")
            }
            false => Fate::missing(format!("without {}", others.join(", "))),
        }
    }

    fn header(&mut self, directive: &Directive, args: &[String], matcher: &Matcher) -> Fate {
        let mut lines = Vec::new();
        let mut others = Vec::new();
        let mut one = |name: &str, value: &str| {
            let bare = name.trim_start_matches(['+', '?', '>']);
            if let Some(gone) = name.strip_prefix('-') {
                if !gone.eq_ignore_ascii_case("server") {
                    others.push(format!("Weir removes no fields: `{gone}`"));
                }
                return;
            }
            if value.contains('{') {
                return others.push(format!("`{bare}`: Weir has no variables"));
            }
            match field(bare, value) {
                Ok(line) => lines.push(line),
                Err(why) => others.push(why),
            }
        };
        match args {
            [] => {}
            [name] => one(name, ""),
            // A third argument replaces a part of what the upstream sent.
            [name, value] => one(name, value),
            [name, ..] => return Fate::missing(format!("`{name}`: Weir replaces no parts of fields")),
        }
        for inner in directive.inner() {
            match inner.args.len() {
                _ if inner.name == "defer" => {}
                0 | 1 => one(&inner.name, inner.arg(0)),
                _ => return Fate::missing(format!("`{}`: Weir replaces no parts of fields", inner.name)),
            }
        }
        let is_empty = lines.is_empty();
        match matcher.is_everything() {
            true => self.site.header_always.extend(lines),
            false => {
                if !is_empty && matcher.conditions.is_always() {
                    let (at, shown) = (directive.at.clone(), directive.shown());
                    self.lines.push((at, shown, matcher.patterns.clone()));
                }
                for path in matcher.patterns.iter().filter(|_| !is_empty) {
                    let rules = matcher.conditions.iter().map(|conditions| HeaderRule {
                        path: path.clone(),
                        conditions: conditions.clone(),
                        header: lines.clone(),
                        always: true,
                    });
                    self.site.header_rules.extend(rules);
                }
            }
        }
        match (others.is_empty(), is_empty) {
            (false, _) => Fate::missing(others.join("; ")),
            (true, true) => Fate::unneeded("Weir sends no `Server` field"),
            (true, false) => Fate::Carried,
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

    fn try_files(&mut self, args: &[String], matcher: &Matcher) -> Fate {
        let mut files: Vec<String> = Vec::new();
        for text in args {
            let file = match text
                .strip_prefix("{path}")
                .or_else(|| text.strip_prefix("{http.request.uri.path}"))
            {
                Some("" | "/") => "$path".to_owned(),
                Some(suffix) if suffix.starts_with(['.', '/', '-', '_']) && !suffix.ends_with('/') => {
                    format!("$path{suffix}")
                }
                None if text == "=404" => continue,
                None if is_site_path(text) => text.clone(),
                _ => return Fate::missing(format!("`{text}` is no file that Weir can try")),
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
        if files.len() > TRIED_MAX {
            return Fate::missing(format!("a rule tries at most {TRIED_MAX} files"));
        }
        if files.is_empty() || files == ["$path"] {
            return Fate::unneeded("Weir looks for the file, then for the index of the directory");
        }
        // For paths with a slash at their end, where no further file is tried.
        if let Some(page) = files
            .last()
            .filter(|page| page.starts_with('/') && matcher.is_everything())
        {
            self.site.spa = Some(page.clone());
        }
        for path in &matcher.patterns {
            self.site.try_files(path, &files);
        }
        Fate::Carried
    }

    fn users(&mut self, directive: &Directive, args: &[String], matcher: &Matcher) -> Fate {
        let algorithm = args.first().map_or("bcrypt", |arg| arg);
        if algorithm != "bcrypt" {
            return Fate::open("Weir accepts bcrypt and SHA-crypt hashes");
        }
        let (lines, lost) = users::read(directive);
        let lost = match lost.is_empty() {
            true => None,
            false => Some(format!(
                "`{}` has no bcrypt hash of a cost up to 15, and is not admitted",
                lost.join("`, `")
            )),
        };
        if lines.is_empty() {
            return Fate::open(lost.unwrap_or_else(|| "no user is named here".to_owned()));
        }
        let file = self.users.file(lines);
        let realm = args.get(1).cloned();
        for path in &matcher.patterns {
            self.limit(Access {
                path: path.clone(),
                htpasswd: Some(file.clone()),
                realm: realm.clone(),
                ..Access::default()
            });
        }
        let place = format!("the users are in `{file}` beside the result, which `--out` writes");
        match lost {
            Some(lost) => Fate::missing(format!("{lost}; {place}")),
            None => Fate::changed(place),
        }
    }

    fn respond(&mut self, args: &[String], matcher: &Matcher) -> Fate {
        let status = args.iter().find_map(|arg| {
            arg.parse::<u16>()
                .ok()
                .filter(|status| (100..600).contains(status))
        });
        match status {
            Some(status @ 400..=599) => match self.deny(matcher, status) {
                Fate::Carried if args.len() > 1 => Fate::changed("without the text: error pages have it"),
                fate => fate,
            },
            _ => Fate::missing("Weir answers with files, not with texts of the configuration"),
        }
    }

    fn deny(&mut self, matcher: &Matcher, status: u16) -> Fate {
        if !matcher.conditions.is_always() {
            for path in &matcher.patterns {
                self.site.refuse(path, &matcher.conditions, status);
            }
            return match matcher.networks.is_some() {
                true => Fate::missing(
                    "a rule of Weir with conditions is for clients of all networks, and the result refuses all of them",
                ),
                false => Access::fate_of_refusal(status),
            };
        }
        for path in &matcher.patterns {
            let mut rule = Access {
                path: path.clone(),
                status: Access::refuses_with(status),
                ..Access::default()
            };
            match &matcher.networks {
                None => rule.deny.push("all".to_owned()),
                Some(networks) if networks.is_outside => rule.allow.clone_from(&networks.networks),
                Some(networks) => rule.deny.clone_from(&networks.networks),
            }
            self.limit(rule);
        }
        Access::fate_of_refusal(status)
    }

    fn errors(&mut self, directive: &Directive) -> Fate {
        let rewrite = directive.inner().iter().find(|one| one.name == "rewrite");
        let page = rewrite
            .and_then(|rewrite| rewrite.args.last())
            .map_or("", |page| page);
        let statuses: Vec<&str> = directive.args.iter().map(String::as_str).collect();
        if !is_site_path(page) || rewrite.is_some_and(|rewrite| rewrite.arg(0).starts_with('@')) {
            return Fate::missing("an error page of Weir is one file for a status or a class");
        }
        let statuses = if statuses.is_empty() {
            vec!["4xx", "5xx"]
        } else {
            statuses
        };
        for status in &statuses {
            match (status.parse::<u16>(), *status) {
                (Ok(400..=599), _) | (_, "4xx" | "5xx") => self.site.error_page(status, page),
                _ => return Fate::missing(format!("`{status}` is no status of an error")),
            }
        }
        Fate::Carried
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
