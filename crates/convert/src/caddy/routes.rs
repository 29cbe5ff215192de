//! What a site of Caddy does with requests: files, redirects, fields, access, upstreams.
//!
//! Caddy sorts the directives of a site. Weir has an order of its own, so directives of one kind keep theirs, and a
//! `handle` for a longer path comes before one for a shorter path.

use super::matcher::{self, HIDDEN, Matcher, Named};
use super::php;
use super::proxy;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{Access, HeaderRule, Mount, Redirect, Site};
use crate::pattern::is_target;
use crate::report::Report;
use crate::value::{field, is_program, is_site_path};

/// Name of the file for the users of `basic_auth`, beside the result.
pub(super) const USERS: &str = "weir.htpasswd";

/// Most files that a rule of Weir tries.
const TRIED_MAX: usize = 8;

/// Reads the directives of a site.
pub(super) fn site(block: &[Directive], site: &mut Site, users: &mut Vec<String>, report: &mut Report) {
    site.root = usual_root(block);
    let mut routes = Routes {
        site,
        users,
        named: Named::new(),
        own: Vec::new(),
        mounted: Vec::new(),
        report,
    };
    routes.block(block, &Matcher::everything(), None);
    if let (Err(why), Some(first)) = (routes.keep_own_paths(), block.first()) {
        routes.report.add(&first.at, "reverse_proxy", Fate::missing(why));
    }
    if let (Err(why), Some(first)) = (routes.site.order_access(), block.first()) {
        routes.report.add(&first.at, "access rules", Fate::open(why));
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

/// Whether a target is the same URL with https.
fn leads_home(target: &str) -> bool {
    let rest = target
        .strip_prefix("https://{")
        .and_then(|rest| rest.split_once('}'));
    let is_host = |name: &str| matches!(name, "host" | "hostport" | "http.request.host");
    rest.is_some_and(|(name, rest)| is_host(name) && matches!(rest, "{uri}" | "{http.request.uri}"))
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

/// Reports a directive without a form in Weir, and all in it: what limits access is open.
fn note_lost(directive: &Directive, why: &str, report: &mut Report) {
    let is_limit = matches!(
        directive.name.as_str(),
        "basic_auth" | "basicauth" | "forward_auth"
    ) || refuses(directive);
    let fate = match is_limit {
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
    users: &'a mut Vec<String>,
    named: Named,
    /// Paths of blocks that no upstream answers.
    own: Vec<String>,
    /// Paths of mounts by a matcher of `root`: the file server around it answers them.
    mounted: Vec<String>,
    report: &'a mut Report,
}

impl Routes<'_> {
    /// Reads directives for requests that match. `strip` is the prefix that `handle_path` removed.
    fn block(&mut self, block: &[Directive], around: &Matcher, strip: Option<&str>) {
        // Matchers that a block defines hold in it alone.
        let outside = self.named.clone();
        for definition in block.iter().filter(|one| one.name.starts_with('@')) {
            matcher::define(definition, (around, strip), &mut self.named);
            let fate = match self.named.get(&definition.name) {
                Some(Err(why)) if why == HIDDEN => {
                    self.site
                        .presume(definition, &around.patterns, crate::hidden::PASSED_ON);
                    Fate::unneeded(HIDDEN)
                }
                Some(Err(why)) => Fate::missing(why.clone()),
                _ => Fate::Carried,
            };
            definition.note_all(&fate, self.report);
        }
        let mut sorted: Vec<&Directive> = block.iter().filter(|one| !one.name.starts_with('@')).collect();
        let rank = |one: &&Directive| match one.name.as_str() {
            "handle" | "handle_path" => (1, core::cmp::Reverse(one.arg(0).len())),
            _ => (0, core::cmp::Reverse(0)),
        };
        sorted.sort_by_key(rank);
        for directive in sorted {
            let (matcher, taken) = match matcher::of(&directive.args, (around, strip), &self.named) {
                Ok(found) => found,
                Err(why) => {
                    if why.ends_with(HIDDEN) && refuses(directive) {
                        directive.note_all(&Fate::unneeded(HIDDEN), self.report);
                        self.site
                            .presume(directive, &around.patterns, crate::hidden::PASSED_ON);
                    } else {
                        note_lost(directive, &why, self.report);
                    }
                    continue;
                }
            };
            let args = directive.args.get(taken..).unwrap_or_default();
            match directive.name.as_str() {
                "handle" | "route" | "handle_path" => {
                    let prefix = (directive.name == "handle_path").then(|| directive.arg(0));
                    self.report.add(&directive.at, &directive.shown(), Fate::Carried);
                    let before = self.site.proxies.len();
                    self.block(directive.inner(), &matcher, prefix.or(strip));
                    let is_always = matcher.conditions.is_always();
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
                    let fate = self.read(directive, args, &matcher, strip);
                    directive.note_all(&fate, self.report);
                }
            }
        }
        self.named = outside;
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
            self.site.access.push(Access {
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
            return Fate::missing("only access rules of Weir choose by network");
        }
        let has_conditions = matches!(
            directive.name.as_str(),
            "respond" | "abort" | "error" | "redir" | "header"
        );
        if !matcher.conditions.is_always() && !has_conditions {
            let why = "of this directive, Weir has no rule with conditions";
            let is_limit = matches!(
                directive.name.as_str(),
                "basic_auth" | "basicauth" | "forward_auth"
            );
            return if is_limit {
                Fate::open(why)
            } else {
                Fate::missing(why)
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
            "file_server" => self.file_server(directive, args, matcher, strip),
            "encode" => {
                self.site.compress = Some(true);
                Fate::unneeded("Weir compresses with brotli, zstd and gzip")
            }
            "header" => self.header(directive, args, matcher),
            "redir" if leads_home(arg) && matcher.is_everything() && self.site.names.len() != 1 => {
                self.site.leads_home = Some((directive.at.clone(), directive.shown()));
                Fate::missing(
                    "`https-redirect` is for all hosts or none, and not all of these names have a site with https",
                )
            }
            "redir" => self.redirect(args, matcher, strip),
            "try_files" => self.try_files(args, matcher),
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
                Some(status @ (401 | 403 | 404 | 410 | 451)) => self.deny(matcher, status),
                _ => Fate::missing("access rules of Weir answer 403, 404, 410 and 451, and no other error"),
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
            name if ["auth", "jwt"].iter().any(|start| name.starts_with(start)) => {
                Fate::open("the converter does not know this directive, which limits access by its name")
            }
            _ => Fate::missing("the converter does not know this directive"),
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
        let status = match status {
            "permanent" => 301,
            "temporary" => 302,
            other => match other.parse::<u16>() {
                Ok(status @ (301 | 302 | 303 | 307 | 308)) => status,
                _ => return Fate::missing("the status of a redirect is 301, 302, 303, 307 or 308"),
            },
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
        for user in directive.inner() {
            let hash = user.arg(0);
            let is_hash = hash.starts_with("$2") && !user.name.contains(':');
            if !is_hash {
                return Fate::open(format!("`{}` has no bcrypt hash", user.name));
            }
            let line = format!("{}:{hash}", user.name);
            if !self.users.contains(&line) {
                self.users.push(line);
            }
        }
        let realm = args.get(1).cloned();
        for path in &matcher.patterns {
            self.site.access.push(Access {
                path: path.clone(),
                htpasswd: Some(USERS.to_owned()),
                realm: realm.clone(),
                ..Access::default()
            });
        }
        Fate::changed(format!(
            "the users are in `{USERS}` beside the result, which `--out` writes; all rules share it"
        ))
    }

    fn respond(&mut self, args: &[String], matcher: &Matcher) -> Fate {
        let status = args.iter().find_map(|arg| {
            arg.parse::<u16>()
                .ok()
                .filter(|status| (100..600).contains(status))
        });
        match status {
            Some(status @ (401 | 403 | 404 | 410 | 451)) => match self.deny(matcher, status) {
                Fate::Carried if args.len() > 1 => Fate::changed("without the text: error pages have it"),
                fate => fate,
            },
            _ => Fate::missing("Weir answers with files, not with texts of the configuration"),
        }
    }

    fn deny(&mut self, matcher: &Matcher, status: u16) -> Fate {
        if !matcher.conditions.is_always() {
            if matcher.networks.is_some() {
                return Fate::open(
                    "the conditions of a rule are about the request, and networks are apart from them",
                );
            }
            for path in &matcher.patterns {
                self.site.refuse(path, &matcher.conditions, status);
            }
            return Access::fate_of_refusal(status);
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
            self.site.access.push(rule);
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
