//! What a virtual host, a section or a `.htaccess` says about files, as rules of a site.

use super::access::{self, Level};
use super::rewrite::{self, Wishes};
use super::{expression, files, plain, upstream};
use crate::access::Access;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::hidden;
use crate::model::{Proxy, Site};
use crate::pattern::{pattern, shortest};
use crate::regex::{self};
use crate::report::Report;
use std::collections::BTreeMap;

/// Why a section has no paths: its folder is not that of the site.
pub(super) const OUTSIDE: &str =
    "the folder is not below the root; Weir serves nothing outside its roots but what links lead to";

/// What differs for a `<Directory>` with a wildcard at its end.
const BESIDE: &str = "its pattern also covers files beside the folders whose names begin alike, so clients must satisfy the rules around \
                      it, too";

/// Where a directive is: the paths that it is about.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// Patterns; empty if Weir has none.
    pub(super) patterns: Vec<String>,
    /// Those of an expression that does not match the shortest path of the pattern.
    pub(super) filled: Vec<String>,
    /// Patterns of mounts whose folders these are. What limits access to a mount is apart from the root.
    pub(super) mounted: Vec<String>,
    /// Kind and depth of the section.
    pub(super) rank: (u8, usize),
    /// File of users and name of the area, as sections around say.
    pub(super) users: Option<String>,
    pub(super) realm: Option<String>,
}

impl Folder {
    /// All paths.
    pub(super) fn root() -> Folder {
        Folder {
            patterns: vec!["/*".to_owned()],
            filled: Vec::new(),
            mounted: Vec::new(),
            rank: (Access::SERVER, 0),
            users: None,
            realm: None,
        }
    }

    pub(super) fn is_root(&self) -> bool {
        self.patterns == ["/*"]
    }
}

/// What all hosts share.
pub(super) struct Context<'a> {
    pub(super) report: &'a mut Report,
    pub(super) balancers: &'a BTreeMap<String, Proxy>,
    pub(super) is_htaccess: bool,
}

/// Reads directives about these paths.
pub(super) fn read(
    block: &[Directive],
    folder: &Folder,
    site: &mut Site,
    wishes: &mut Wishes,
    cx: &mut Context<'_>,
) {
    let mut level = Level::begin(block, folder);
    let inside = level.inside(folder);
    let mut conditions: Vec<Directive> = Vec::new();
    // Paths that `ProxyPass PATH !` leaves to the files.
    let mut kept: Vec<String> = Vec::new();
    // Sections by folder compare with mounts, wherever they are named.
    mounts(block, site);
    let mut rest: Vec<&Directive> = Vec::new();
    let mut sections: Vec<&Directive> = Vec::new();
    for directive in block {
        match directive.name.starts_with('<') {
            true if access::is_group(directive) => level.group(directive, &mut rest, cx.report),
            true if limits_get(directive) => {
                let why = "for all methods: files have GET, HEAD and OPTIONS only";
                cx.report
                    .add(&directive.at, &directive.shown(), Fate::changed(why));
                for one in directive.inner() {
                    match access::is_group(one) {
                        true => level.group(one, &mut rest, cx.report),
                        false => rest.push(one),
                    }
                }
            }
            true => sections.push(directive),
            false => rest.push(directive),
        }
    }
    // In Apache's order: what a later section says replaces what an earlier one says.
    sections.sort_by_key(|one| rank(one));
    for (at, one) in sections.iter().enumerate() {
        match expression::rules(one, block, &inside) {
            Some(rules) => {
                one.note_all(&Fate::Carried, cx.report);
                site.header_rules.extend(rules);
            }
            None => {
                let inside = with_users_above(one, &sections[..at], &inside);
                section(one, &inside, site, wishes, cx);
            }
        }
    }
    // [`options`] has read those outside of sections.
    rest.retain(|one| folder.rank.0 != Access::SERVER || !is_options(one));
    for directive in rest {
        let name = directive.name.to_ascii_lowercase();
        if name == "rewritecond" {
            conditions.push(directive.clone());
            continue;
        }
        let fate = match name.as_str() {
            "rewriterule" => {
                let conditions = std::mem::take(&mut conditions);
                let before = site.proxies.len();
                let fate = match folder.is_root() {
                    true => rewrite::rule(directive, &conditions, cx.is_htaccess, site, wishes),
                    false => rule_of_folder(directive, &conditions, folder, site),
                };
                // There, `[P]` comes after the checks of sections.
                if cx.is_htaccess || folder.rank.0 != Access::SERVER {
                    let added = site.proxies.iter_mut().skip(before);
                    added.for_each(|rule| rule.is_in_section = true);
                }
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
            "header" if files::is_set_again(directive, block) => {
                Fate::unneeded("`Header always set` of this field replaces the line")
            }
            _ => level
                .read(directive, &name)
                .or_else(|| files::fields(directive, &name, folder, site))
                .or_else(|| files::read(directive, &name, folder, site))
                .or_else(|| upstream::read(directive, &name, folder, site, cx.balancers, &mut kept))
                .unwrap_or_else(|| match name.as_str() {
                    "allowoverride" => overrides(directive),
                    _ => plain::fate(&name),
                }),
        };
        directive.note_all(&fate, cx.report);
    }
    for condition in &conditions {
        condition.note_all(&Fate::missing("no rule follows it"), cx.report);
    }
    if let (Err(why), Some(first)) = (site.keep_from_upstreams(&kept), block.first()) {
        cx.report.add(&first.at, "ProxyPass", Fate::missing(why));
    }
    level.finish(folder, site);
}

/// The fate of a `RewriteRule` about some paths, which the converter does not read. One that refuses requests closes them.
fn rule_of_folder(rule: &Directive, conditions: &[Directive], folder: &Folder, site: &mut Site) -> Fate {
    let why = "the converter reads rules of the whole site only";
    let denied = if rewrite::refuses(rule) {
        folder.patterns.clone()
    } else if rewrite::passes_programs(rule) {
        vec!["*.php".to_owned()]
    } else {
        return rewrite::lost(rule, conditions, why.to_owned());
    };
    site.access.extend(denied.iter().map(|path| Access::nobody(path)));
    Fate::missing(format!("{why}; the result denies `{}`", denied.join("`, `")))
}

/// Reads lines `Options` outside of sections, which hold for every folder. Sections replace them, so they are read before all sections.
pub(super) fn options(block: &[Directive], site: &mut Site, report: &mut Report) {
    let folder = Folder::root();
    for directive in block.iter().filter(|one| is_options(one)) {
        let fate = files::read(directive, "options", &folder, site).unwrap_or(Fate::Carried);
        directive.note_all(&fate, report);
    }
}

fn is_options(directive: &Directive) -> bool {
    directive.name.eq_ignore_ascii_case("options")
}

/// The fate of `AllowOverride`.
fn overrides(directive: &Directive) -> Fate {
    match directive.arg(0).eq_ignore_ascii_case("none") {
        true => Fate::unneeded("Weir reads no files in folders of the site"),
        false => Fate::open(
            "a `.htaccess` in a folder may limit access, and Weir reads none; convert each of them with `--root`",
        ),
    }
}

/// Whether a section by method is about GET: that is all that clients do with files.
fn limits_get(section: &Directive) -> bool {
    let names_get = section.args.iter().any(|arg| arg.eq_ignore_ascii_case("get"));
    match section.name.to_ascii_lowercase().as_str() {
        "<limit" => names_get,
        "<limitexcept" => !names_get,
        _ => false,
    }
}

/// Kind and depth of a section, in the order in which Apache applies sections.
fn rank(section: &Directive) -> (u8, usize) {
    let name = section.name.to_ascii_lowercase();
    if name == "<directory" {
        let path = section.arg(0).trim_end_matches(['/', '*']);
        return (Access::DIRECTORY, path.matches('/').count());
    }
    let kinds = [
        ("<directory", Access::DIRECTORY),
        ("<files", Access::FILES),
        ("<location", Access::LOCATION),
    ];
    let kind = kinds.iter().find(|(start, _)| name.starts_with(start));
    // An expression about folders applies after their names.
    kind.map_or((Access::SERVER, 0), |(_, kind)| (*kind, usize::MAX))
}

/// The folder around a section, with the file of users and the name of the area that earlier sections name, if their folders are that of
/// the section or above it.
fn with_users_above(section: &Directive, earlier: &[&Directive], around: &Folder) -> Folder {
    let mut folder = around.clone();
    let Some(path) = plain_folder(section) else {
        return folder;
    };
    for one in earlier {
        if plain_folder(one).is_some_and(|above| beneath(path, above).is_some()) {
            access::take_users(one.inner(), &mut folder);
        }
    }
    folder
}

/// The folder of a `<Directory>` whose path has no wildcards, without a slash at its end.
fn plain_folder(section: &Directive) -> Option<&str> {
    let is_plain = section.name.eq_ignore_ascii_case("<directory")
        && section.args.len() == 1
        && !section.arg(0).contains(['*', '?', '[']);
    is_plain.then(|| section.arg(0).trim_end_matches('/'))
}

/// Adds the mounts of lines `Alias` in a block.
pub(super) fn mounts(block: &[Directive], site: &mut Site) {
    for directive in block.iter().filter(|one| one.name.eq_ignore_ascii_case("alias")) {
        alias(directive, site);
    }
}

/// Reads `Alias`: a mount, unless the folder is that of the path below the root.
pub(super) fn alias(directive: &Directive, site: &mut Site) -> Fate {
    let [path, folder] = directive.args.as_slice() else {
        return Fate::missing("the converter reads `Alias` with a path and a folder");
    };
    let bare = folder.trim_end_matches('/');
    let below_root = format!(
        "{}{}",
        site.root.as_deref().unwrap_or_default(),
        path.trim_end_matches('/')
    );
    if site.root.is_some() && below_root == bare {
        return Fate::Carried;
    }
    if folder.contains(['$', '%']) {
        return Fate::missing("Weir has no variables: a root is a fixed folder");
    }
    if path.ends_with('/') && !folder.ends_with('/') {
        return Fate::missing(format!(
            "Apache appends the rest of the path to `{folder}` without a slash between them; end both with a slash"
        ));
    }
    if let Some(why) = crate::mounts::of_file(path, folder) {
        return Fate::missing(why);
    }
    let pattern = format!("{}/*", path.trim_end_matches('/'));
    let mounted = pattern.trim_end_matches('*');
    if site.mounts.iter().all(|known| known.path != mounted)
        && let Some(known) = site.mounts.iter().find(|known| mounted.starts_with(&*known.path))
    {
        return Fate::unneeded(format!("`Alias {}` before it covers its path", known.path));
    }
    match site.mount(&pattern, bare, true) {
        Ok(_) if folder.starts_with('/') => Fate::Carried,
        Ok(_) => {
            Fate::changed("Apache reads the path from its `ServerRoot`, Weir from the folder of its file")
        }
        Err(why) => Fate::missing(why),
    }
}

/// What is left of a folder's path below another one; `None`: it is not below.
fn beneath<'p>(inner: &'p str, outer: &str) -> Option<&'p str> {
    let rest = inner.strip_prefix(outer)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// A folder as `<Directory>` names it, without a star at its end, and what the pattern of its paths ends with: `/a*` are all folders
/// whose names begin with `a`.
fn without_star(path: &str) -> (&str, &'static str) {
    let path = path.trim_end_matches('/');
    match path.strip_suffix('*') {
        Some(start) if !start.is_empty() && !start.ends_with(['/', '*']) => (start, "*"),
        _ => (path.trim_end_matches(['/', '*']), "/*"),
    }
}

/// The patterns of a `<Directory>` in the folders of mounts.
fn in_mounts(path: &str, site: &Site) -> Vec<String> {
    let (path, end) = without_star(path);
    let patterns = site
        .mounts
        .iter()
        .filter(|mount| mount.strip)
        .filter_map(|mount| {
            let is_above = path.is_empty() || beneath(&mount.root, path).is_some();
            if is_above || (end == "*" && mount.root.starts_with(path)) {
                return pattern(&format!("{}*", mount.path));
            }
            let rest = beneath(path, &mount.root)?;
            pattern(&format!("{}{rest}{end}", mount.path.trim_end_matches('/')))
        });
    patterns.collect()
}

/// The patterns of a `<Directory>` below this root.
///
/// # Errors
/// The folder is outside of it.
fn below(path: &str, root: Option<&str>) -> Result<Vec<String>, ()> {
    let (path, end) = without_star(path);
    let within = |inner: &str, outer: &str| beneath(inner, outer).map(str::to_owned);
    match root {
        // What holds for a folder above the root holds for the root.
        _ if path.is_empty() => Ok(vec!["/*".to_owned()]),
        Some(root) if within(root, path).is_some() => Ok(vec!["/*".to_owned()]),
        Some(root) if end == "*" && root.starts_with(path) => Ok(vec!["/*".to_owned()]),
        Some(root) => match within(path, root) {
            Some(rest) => Ok(pattern(&format!("{rest}{end}")).into_iter().collect()),
            None => Err(()),
        },
        None => Err(()),
    }
}

/// Whether folders that a text with wildcards names may be those of the site.
fn may_be_below(path: &str, site: &Site) -> bool {
    let fixed = path.split(['*', '?', '[']).next().unwrap_or(path);
    let of_mounts = site.mounts.iter().map(|mount| &mount.root);
    let mut roots = site.root.iter().chain(of_mounts);
    roots.any(|root| root.starts_with(fixed) || fixed.starts_with(&**root))
}

/// The patterns of a section of files within a folder; empty if Weir has none.
fn within(folder: &Folder, files: Vec<String>) -> Vec<String> {
    if folder.is_root() || files.is_empty() {
        return files;
    }
    let mut joined = Vec::new();
    for around in &folder.patterns {
        let Some(start) = around.strip_suffix("/*") else {
            return Vec::new();
        };
        for path in &files {
            let ends = match path.strip_prefix('*') {
                // A name in the folder, and in those below.
                Some(name) if name.starts_with('/') => vec![name.to_owned(), format!("/*{name}")],
                Some(_) => vec![format!("/{path}")],
                None => vec![path.clone()],
            };
            for end in ends {
                match pattern(&format!("{start}{end}")) {
                    Some(path) => joined.push(path),
                    None => return Vec::new(),
                }
            }
        }
    }
    joined
}

fn section(section: &Directive, folder: &Folder, site: &mut Site, wishes: &mut Wishes, cx: &mut Context<'_>) {
    // `<Location ~ EXPRESSION>` is `<LocationMatch EXPRESSION>`.
    let (arg, suffix) = match section.arg(0) {
        "~" => (section.arg(1), "match"),
        arg => (arg, ""),
    };
    // Field lines may have paths that differ a little from the expression.
    let is_loose = section.inner().iter().all(is_about_fields);
    let (mut differs, mut refused, mut filled) = (None, None, Vec::new());
    let mut from_regex = |text: &str| {
        let read = match is_loose {
            true => regex::read_redirect(text),
            false => regex::read(text),
        };
        match read {
            Ok(read) => {
                differs.clone_from(&read.differs);
                filled = read.filled();
                read.patterns()
            }
            Err(why) => {
                refused = Some(why);
                Vec::new()
            }
        }
    };
    let name = section.name.to_ascii_lowercase() + suffix;
    let mut mounted = Vec::new();
    let patterns: Vec<String> = match name.as_str() {
        // No pattern of Weir has these.
        "<directory" if arg.contains(['?', '[']) && may_be_below(arg, site) => Vec::new(),
        "<location" if arg.contains(['?', '[']) => Vec::new(),
        "<directory" => {
            mounted = in_mounts(arg, site);
            match below(arg, site.root.as_deref()) {
                Ok(patterns) if patterns == ["/*"] => patterns,
                Ok(patterns) => [patterns, mounted.clone()].concat(),
                Err(()) if mounted.is_empty() => {
                    note_outside(section, cx.report);
                    return;
                }
                Err(()) => mounted.clone(),
            }
        }
        "<location" => match arg.contains('*') {
            true => pattern(arg).into_iter().collect(),
            false if arg == "/" => vec!["/*".to_owned()],
            false => pattern(&format!("{}/*", arg.trim_end_matches('/')))
                .into_iter()
                .collect(),
        },
        "<locationmatch" => from_regex(arg),
        "<filesmatch" => match arg {
            // Apache applies sections of files to files alone, not to upstreams.
            arg if hidden::is_hidden(arg) => {
                section.note_all(&hidden::fate(arg, true), cx.report);
                return;
            }
            arg => from_regex(&as_path(arg)),
        },
        "<files" if arg.starts_with(".") => {
            section.note_all(&Fate::unneeded(hidden::WHY), cx.report);
            return;
        }
        "<files" if !arg.contains(['?', '[']) => {
            let text = if arg.starts_with('*') {
                arg.to_owned()
            } else {
                format!("*/{arg}")
            };
            pattern(&text).into_iter().collect()
        }
        "<limitexcept" | "<limit" => {
            let why = "files have GET, HEAD and OPTIONS only";
            section.note_all(&Fate::unneeded(why), cx.report);
            // Apache applies sections of folders and files to files alone, scripts included.
            let why = "Weir has no rules by method";
            match folder.rank.0 {
                Access::SERVER | Access::LOCATION => site.presume(section, &folder.patterns, why),
                _ => site.presume_of_files(section, &folder.patterns, why),
            }
            return;
        }
        _ => Vec::new(),
    };
    let is_all = matches!(patterns.as_slice(), [one] if one == "/*" || one == "*");
    let patterns = match name.starts_with("<files") {
        _ if is_all => folder.patterns.clone(),
        true => within(folder, patterns),
        false => patterns,
    };
    if patterns.is_empty() {
        let why = refused.unwrap_or_else(|| match name.as_str() {
            "<if" | "<elseif" | "<else" => expression::LOST.to_owned(),
            _ => format!("`{arg}` is no path pattern below the root"),
        });
        if matches!(name.as_str(), "<proxy" | "<proxymatch") && limits(section).is_some() {
            site.closes_upstreams = true;
            let why =
                "Weir limits access by path, not by upstream; the result denies the paths of all upstreams";
            return section.note_all(&Fate::missing(why), cx.report);
        }
        let denied = match name.as_str() {
            "<locationmatch" => in_place_of(section, regex::around(arg), folder),
            "<filesmatch" if folder.is_root() => in_place_of(section, regex::around(&as_path(arg)), folder),
            name if ["<location", "<files", "<directory"]
                .iter()
                .any(|kind| name.starts_with(kind)) =>
            {
                in_place_of(section, Vec::new(), folder)
            }
            _ => Vec::new(),
        };
        // The text of scripts is not for clients.
        let runs = |one: &Directive| one.name.eq_ignore_ascii_case("sethandler");
        let denied = match denied.is_empty() && arg.contains("ph") && section.inner().iter().any(runs) {
            true => vec!["*.php".to_owned()],
            false => denied,
        };
        match denied.is_empty() {
            true => {
                // Some of the paths are better than none.
                let some = match (name.as_str(), limits(section)) {
                    ("<filesmatch", Some(Limit::Refusal)) => within(folder, regex::partly(&as_path(arg))),
                    ("<locationmatch", Some(Limit::Refusal)) => regex::partly(arg),
                    _ => Vec::new(),
                };
                let why = site.close_some(&some, why);
                note_refused(section, &why, cx.report);
            }
            false => {
                let why = format!("{why}; the result denies `{}`", denied.join("`, `"));
                section.note_all(&Fate::missing(why), cx.report);
                site.access.extend(denied.iter().map(|path| Access::nobody(path)));
            }
        }
        return;
    }
    let is_beside = |path: &String| path.ends_with('*') && !path.ends_with("/*");
    if name == "<directory" && patterns.iter().any(is_beside) {
        differs = Some(BESIDE.to_owned());
    }
    if let Some(path) = filled.first().filter(|_| !is_loose) {
        differs = Some(format!(
            "`{path}` is also for `{}`, which the expression leaves out, so clients must satisfy the rules around it, too",
            shortest(path)
        ));
    }
    let fate = differs.map_or(Fate::Carried, Fate::changed);
    cx.report.add(&section.at, &section.shown(), fate);
    let inner = Folder {
        patterns,
        filled,
        mounted,
        rank: rank(section),
        ..folder.clone()
    };
    read(section.inner(), &inner, site, wishes, cx);
}

/// An expression about the name of a file as one about the path, in which the name begins behind a slash.
fn as_path(expression: &str) -> String {
    let each = regex::alternatives(expression).map(|one| match one.strip_prefix('^') {
        Some(rest) => format!("/{rest}"),
        None => one.to_owned(),
    });
    each.collect::<Vec<String>>().join("|")
}

/// What a section does to clients, the mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Limit {
    /// It refuses all.
    Refusal,
    /// It admits some.
    Check,
}

/// The strongest limit that a section sets.
fn limits(section: &Directive) -> Option<Limit> {
    let inner = section.inner().iter();
    let each = inner.filter_map(|one| {
        let words: Vec<String> = one.args.iter().map(|arg| arg.to_ascii_lowercase()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match (one.name.to_ascii_lowercase().as_str(), &words[..]) {
            ("require", ["all", "granted"]) => None,
            ("require", ["all", "denied"]) | ("deny", ["from", "all"]) => Some(Limit::Refusal),
            ("require" | "deny" | "sslrequire", _) | ("sslverifyclient", ["require"]) => Some(Limit::Check),
            ("allow", ["from", rest @ ..]) if rest != ["all"] => Some(Limit::Check),
            ("<limit" | "<limitexcept" | "<if" | "<elseif" | "<else", _) => None,
            (name, _) if name.starts_with('<') => limits(one),
            _ => None,
        }
    });
    let by_order = access::refuses_by_order(section.inner());
    each.chain(by_order.then_some(Limit::Refusal)).max()
}

/// The paths to deny in place of a section without patterns, given those around its expression. What only refuses all clients
/// does not close everything around it.
fn in_place_of(section: &Directive, narrow: Vec<String>, folder: &Folder) -> Vec<String> {
    match limits(section) {
        None => Vec::new(),
        Some(Limit::Check) if narrow.is_empty() => folder.patterns.clone(),
        Some(_) => narrow,
    }
}

/// Whether a directive is about field lines alone.
fn is_about_fields(directive: &Directive) -> bool {
    let name = directive.name.to_ascii_lowercase();
    matches!(
        name.as_str(),
        "header" | "expiresactive" | "expiresdefault" | "setenvif" | "directoryindex"
    )
}

/// Reports a section, and all in it, as missing.
fn note_refused(directive: &Directive, why: &str, report: &mut Report) {
    let fate = match access::is_limit(directive) {
        true => Fate::open(why),
        false => Fate::missing(why),
    };
    report.add(&directive.at, &directive.shown(), fate);
    for inner in directive.inner() {
        note_refused(inner, why, report);
    }
}

/// Reports a section about a folder outside of the root: what limits access is open, because links may lead there.
fn note_outside(directive: &Directive, report: &mut Report) {
    let fate = match access::is_limit(directive) {
        true => Fate::open(OUTSIDE),
        false => Fate::unneeded(OUTSIDE),
    };
    report.add(&directive.at, &directive.shown(), fate);
    for inner in directive.inner() {
        note_outside(inner, report);
    }
}
