//! Which files a site of Caddy sends: roots, file servers, files that are tried, pages of errors.

use super::Routes;
use crate::access::Access;
use crate::caddy::matcher::Matcher;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{Mount, Proxy, TRIED_MAX};
use crate::pattern::{covers_all, overlaps};
use crate::report::{At, Report};
use crate::value::{is_program, is_site_path};

/// The root of a site: that of the site itself, or the one that most of its file servers have.
pub(super) fn usual_root(block: &[Directive]) -> Option<String> {
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
pub(super) fn runs_php(block: &[Directive]) -> bool {
    block
        .iter()
        .any(|one| one.name == "php_fastcgi" || runs_php(one.inner()))
}

/// The directive that names this root.
fn root_directive<'d>(block: &'d [Directive], root: &str) -> Option<&'d Directive> {
    block.iter().find_map(|one| {
        let path = one.args.last().map(|path| path.trim_end_matches('/'));
        match one.name == "root" && path == Some(root.trim_end_matches('/')) {
            true => Some(one),
            false => root_directive(one.inner(), root),
        }
    })
}

/// Why the files beside scripts are open.
const BESIDE_SCRIPTS: &str = "Weir serves the other files of the root, too, because scripts are found there; deny them with access rules";

/// Why files have no folder for the paths of an expression with `.+` at its end.
const NO_FOLDER: &str = "a mount of Weir is also for the folder itself, which the expression leaves out";

/// A file server for some paths.
pub(super) struct Confined {
    directive: Directive,
    patterns: Vec<String>,
    is_stripped: bool,
    /// Whether an expression leaves out the shortest path of one of the patterns.
    is_filled: bool,
    /// Its own root.
    root: Option<String>,
    is_browsing: bool,
}

impl Routes<'_> {
    /// Reports files that are tried for admitted paths, and refused under their own: Weir compares these with access rules, too.
    pub(super) fn note_refused_files(&mut self, at: &At) {
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

    /// If the site has file servers for some paths only: serves the root at these, and nowhere else.
    pub(super) fn confine(&mut self, runs_php: bool) {
        if self.serves_all || self.confined.is_empty() || self.site.root.is_none() {
            return;
        }
        if runs_php {
            for one in &self.confined {
                let (at, shown) = (&one.directive.at, one.directive.shown());
                self.report.add(at, &shown, Fate::open(BESIDE_SCRIPTS));
            }
            return;
        }
        let Some(root) = self.site.root.take() else { return };
        // A host without a root gets an empty one.
        self.site.has_file_server = false;
        self.site.listing = None;
        let index = std::mem::take(&mut self.site.index);
        for one in &self.confined {
            if one.is_filled {
                let (at, shown) = (&one.directive.at, one.directive.shown());
                self.report.add(at, &shown, Fate::missing(NO_FOLDER));
                continue;
            }
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

    /// Leaves out the root if no file server of the result sends its files: Weir serves the files of every root. One that no path
    /// reaches stays, because pages of errors are found there.
    pub(super) fn leave_root(&mut self, block: &[Directive]) {
        let Some(root) = self.site.root.clone().filter(|_| !self.serves_all) else {
            return;
        };
        let redirected = self.site.redirected();
        let passes_all = |rule: &Proxy| {
            let is_whole = covers_all(&rule.path) && !rule.is_fastcgi;
            let is_for_some = rule.keys.iter().any(|(key, _)| matches!(&**key, "if" | "when"));
            is_whole && !is_for_some && rule.except.iter().all(|path| redirected.contains(path))
        };
        if self.site.proxies.iter().any(passes_all) {
            return;
        }
        let fate = match runs_php(block) {
            // It is reported already.
            true if !self.confined.is_empty() => return,
            true => Fate::open(BESIDE_SCRIPTS),
            false => {
                self.site.root = None;
                self.site.listing = None;
                Fate::changed("no `file_server` of the result sends its files, so the result has no root")
            }
        };
        match root_directive(block, &root) {
            Some(one) => self.report.replace(&one.at, &one.shown(), fate),
            None => {
                if let Some(first) = block.first() {
                    self.report.add(&first.at, &format!("root {root}"), fate);
                }
            }
        }
    }

    /// Denies the paths of file servers that Weir has no form for, where it would send the files of another root or of a mount.
    pub(super) fn close_lost_files(&mut self) {
        for (at, shown, patterns) in std::mem::take(&mut self.lost_files) {
            let is_everything = patterns.iter().any(|path| covers_all(path));
            let is_mounted = |path: &String| {
                let mut mounts = self.site.mounts.iter();
                mounts.any(|mount| overlaps(path, &format!("{}*", mount.path)))
            };
            let sends = self.site.root.is_some() || patterns.iter().any(is_mounted);
            if is_everything || !sends || self.site.upstream_of(&patterns).is_some() {
                continue;
            }
            let closed = patterns.iter().map(|path| Access::nobody(path));
            self.site.access.extend(closed);
            let why = format!(
                "Weir would send these files to everyone; the result denies `{}`",
                patterns.join("`, `")
            );
            self.report.add(&at, &shown, Fate::missing(why));
        }
    }

    pub(super) fn root(&mut self, arg: &str, matcher: &Matcher, strip: Option<&str>) -> Fate {
        if arg.contains('{') {
            return Fate::missing("Weir has no variables: a root is a fixed folder");
        }
        let path = match arg.trim_end_matches('/') {
            "" => "/",
            path => path,
        };
        let is_stripped = strip.is_some() && !matcher.is_everything();
        if !matcher.is_everything() && (is_stripped || self.site.root.as_deref() != Some(path)) {
            if matcher.is_filled {
                return Fate::missing(NO_FOLDER);
            }
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

    pub(super) fn file_server(
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
                    is_filled: matcher.is_filled,
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
                // Reported alone: see [`note_options`].
                "disable_canonical_uris" | "etag_file_extensions" => {}
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

    pub(super) fn try_files(&mut self, args: &[String], matcher: &Matcher) -> Fate {
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

    /// Reads `handle_errors`. Caddy applies the first of its lines `rewrite` that matches.
    pub(super) fn errors(&mut self, directive: &Directive) -> Fate {
        const NOT_ONE: &str = "an error page of Weir is one file for a status or a class";
        let of_block: Vec<String> = match directive.args.is_empty() {
            true => vec!["4xx".to_owned(), "5xx".to_owned()],
            false => directive.args.clone(),
        };
        let mut pages: Vec<(String, &str)> = Vec::new();
        let rewrites = directive.inner().iter().filter(|one| one.name == "rewrite");
        let mut rewrites: Vec<&Directive> = rewrites.collect();
        // Caddy sorts them: those for all errors are the last.
        rewrites.sort_by_key(|one| one.args.len() < 2 || one.arg(0) == "*");
        for rewrite in rewrites {
            let (statuses, page) = match rewrite.args.as_slice() {
                [page] => (of_block.clone(), page),
                [all, page] if all == "*" => (of_block.clone(), page),
                [name, page] => match statuses_of(directive.inner(), name) {
                    Some(statuses) => (meet(&statuses, &of_block), page),
                    None => return Fate::missing(NOT_ONE),
                },
                _ => return Fate::missing(NOT_ONE),
            };
            if !is_site_path(page) || page.contains('{') || is_program(page) {
                return Fate::missing(NOT_ONE);
            }
            for status in statuses {
                match (status.parse::<u16>(), &*status) {
                    (Ok(400..=599), _) | (_, "4xx" | "5xx") => {}
                    _ => return Fate::missing(format!("`{status}` is no status of an error")),
                }
                if !pages.iter().any(|(known, _)| *known == status) {
                    pages.push((status, page.as_str()));
                }
            }
        }
        if pages.is_empty() {
            return Fate::missing(NOT_ONE);
        }
        for (status, page) in pages {
            self.site.error_page(&status, page);
        }
        Fate::Carried
    }
}

/// The statuses with which a matcher of a block compares the status of the error. `None`: it has another meaning.
fn statuses_of(block: &[Directive], name: &str) -> Option<Vec<String>> {
    let definition = block
        .iter()
        .find(|one| one.name == name && name.starts_with('@'))?;
    let text = match (definition.inner(), definition.args.as_slice()) {
        ([one], []) if one.name == "expression" => one.args.join(" "),
        ([], [kind, rest @ ..]) if kind == "expression" && !rest.is_empty() => rest.join(" "),
        // An expression alone, in quotes.
        ([], [expression]) => expression.clone(),
        _ => return None,
    };
    let subject = ["{err.status_code}", "{http.error.status_code}"];
    let compared = subject
        .iter()
        .find_map(|subject| text.trim().strip_prefix(*subject))?
        .trim_start();
    let listed = compared
        .strip_prefix("in")
        .and_then(|list| list.trim().strip_prefix('[')?.strip_suffix(']'));
    let numbers: Vec<String> = match (compared.strip_prefix("=="), listed) {
        (Some(number), _) => vec![number.trim().to_owned()],
        (None, Some(list)) => list.split(',').map(|number| number.trim().to_owned()).collect(),
        (None, None) => return None,
    };
    let are_statuses = numbers.iter().all(|number| number.parse::<u16>().is_ok());
    are_statuses.then_some(numbers)
}

/// The statuses that are among those of a block, or of its classes.
fn meet(statuses: &[String], of_block: &[String]) -> Vec<String> {
    let is_of = |status: &str, other: &str| {
        let class = other.strip_suffix("xx");
        status == other || class.is_some_and(|class| status.starts_with(class))
    };
    let is_meant = |status: &&String| of_block.iter().any(|other| is_of(status, other));
    statuses.iter().filter(is_meant).cloned().collect()
}

/// Reports the options of a file server without which the result sends the same files.
pub(super) fn note_options(directive: &Directive, report: &mut Report) {
    for option in directive.inner() {
        let why = match option.name.as_str() {
            "disable_canonical_uris" => {
                "Weir redirects the path of a directory to the path with a slash at its end"
            }
            "etag_file_extensions" => "Weir makes the `ETag` of a file itself",
            _ => continue,
        };
        report.replace(&option.at, &option.shown(), Fate::missing(why));
    }
}
