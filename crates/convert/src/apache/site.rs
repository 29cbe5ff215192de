//! What a virtual host, a section or a `.htaccess` says about files, as rules of a site.

use super::networks;
use super::rewrite::{self, Wishes};
use super::upstream;
use crate::condition::Sets;
use crate::directive::Directive;
use crate::fastcgi;
use crate::fate::Fate;
use crate::hidden;
use crate::model::{Access, HeaderRule, Mount, Proxy, Redirect, Site};
use crate::pattern::{is_target, pattern};
use crate::regex::{self, Read};
use crate::report::Report;
use crate::upstream::address;
use crate::value::{field, is_site_path, seconds};
use std::collections::BTreeMap;

/// Why a section has no paths: its folder is not that of the site.
pub(super) const OUTSIDE: &str =
    "the folder is not below the root; Weir serves nothing outside its roots but what links lead to";

/// What the depth of a section about the folder of a mount counts more than one about the root. No path is as deep.
const MOUNTED: usize = 1 << 16;

/// Where a directive is: the paths that it is about.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// Patterns; empty if Weir has none.
    pub(super) patterns: Vec<String>,
    /// Patterns of mounts whose folders these are. What limits access to a mount is apart from the root.
    mounted: Vec<String>,
    /// Kind and depth of the section.
    rank: (u8, usize),
    /// File of users and name of the area, as sections around say.
    users: Option<String>,
    realm: Option<String>,
}

impl Folder {
    /// All paths.
    pub(super) fn root() -> Folder {
        Folder {
            patterns: vec!["/*".to_owned()],
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
    /// Whether the level is about the whole site.
    is_site: bool,
    /// Whether clients of networks in `Require` need no password.
    is_network_enough: bool,
    /// Whether `Require` and `Allow` admit everyone.
    is_granted: bool,
    allows_all: bool,
    /// Whether a line `Require` or `Allow` is lost. Others of the level still admit their clients.
    is_lost: bool,
    has_lost_allow: bool,
    /// Whether a line that all clients must satisfy is lost, so that nobody is admitted.
    is_closed: bool,
    /// Whether users are known by something else than a file of passwords.
    is_foreign: bool,
    /// Whether clients in cleartext are refused.
    needs_tls: bool,
}

/// What follows the reason why a limit is lost.
const DENIED: &str = "the result denies these paths";

/// Reads directives about these paths.
pub(super) fn read(
    block: &[Directive],
    folder: &Folder,
    site: &mut Site,
    wishes: &mut Wishes,
    cx: &mut Context<'_>,
) {
    let mut level = Level {
        users: last(block, "authuserfile")
            .map(|one| one.arg(0).to_owned())
            .or_else(|| folder.users.clone()),
        realm: last(block, "authname")
            .map(|one| one.args.join(" "))
            .or_else(|| folder.realm.clone()),
        is_site: folder.is_root(),
        ..Level::default()
    };
    let inside = Folder {
        users: level.users.clone(),
        realm: level.realm.clone(),
        ..folder.clone()
    };
    // Paths that `ProxyPass PATH !` leaves to the files.
    let mut kept: Vec<String> = Vec::new();
    // Sections by folder compare with mounts, wherever they are named.
    mounts(block, site);
    let mut rest: Vec<&Directive> = Vec::new();
    let mut sections: Vec<&Directive> = Vec::new();
    for directive in block {
        match directive.name.starts_with('<') {
            true if is_group(directive) => group(directive, &mut rest, &mut level, cx),
            true => sections.push(directive),
            false => rest.push(directive),
        }
    }
    // In Apache's order: what a later section says replaces what an earlier one says.
    sections.sort_by_key(|one| rank(one));
    for one in sections {
        section(one, &inside, site, wishes, cx);
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
                .or_else(|| upstream::read(directive, &name, folder, site, cx.balancers, &mut kept))
                .unwrap_or_else(|| plain(&name)),
        };
        directive.note_all(&fate, cx.report);
    }
    for condition in &level.conditions {
        condition.note_all(&Fate::missing("no rule follows it"), cx.report);
    }
    if let (Err(why), Some(first)) = (site.keep_from_upstreams(&kept), block.first()) {
        cx.report.add(&first.at, "ProxyPass", Fate::missing(why));
    }
    level.finish(folder, site);
}

/// Whether a section is a group of lines `Require`.
fn is_group(section: &Directive) -> bool {
    let names = ["<requireany", "<requireall", "<requirenone"];
    names.iter().any(|name| section.name.eq_ignore_ascii_case(name))
}

/// Reads a group of lines `Require` at the top of a level, if it says what lines without a group do: alternatives, or clients
/// that are left out of everyone. Others are lost.
fn group<'d>(section: &'d Directive, rest: &mut Vec<&'d Directive>, level: &mut Level, cx: &mut Context<'_>) {
    let begins = |one: &Directive, words: &[&str]| {
        let args = one.args.iter().map(|arg| arg.to_ascii_lowercase());
        one.name.eq_ignore_ascii_case("require")
            && args.clone().count() >= words.len()
            && args.zip(words).all(|(arg, word)| arg == *word)
    };
    let inner = section.inner();
    let is_plain = match section.name.to_ascii_lowercase().as_str() {
        "<requireany" => true,
        "<requireall" => inner
            .iter()
            .all(|one| begins(one, &["all", "granted"]) || begins(one, &["not"])),
        _ => false,
    };
    if !is_plain {
        level.is_said = true;
        level.is_closed = true;
        let why = format!("the converter reads `Require` without groups; {DENIED}");
        return section.note_all(&Fate::missing(why), cx.report);
    }
    cx.report.add(&section.at, &section.shown(), Fate::Carried);
    for one in inner {
        match is_group(one) {
            true => {
                level.is_said = true;
                level.is_lost = true;
                let why = "the converter reads groups of `Require` that are not within each other; the result admits none of \
                           its clients";
                one.note_all(&Fate::missing(why), cx.report);
            }
            false => rest.push(one),
        }
    }
}

/// The last directive of a name.
fn last<'d>(block: &'d [Directive], name: &str) -> Option<&'d Directive> {
    block.iter().rfind(|one| one.name.eq_ignore_ascii_case(name))
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

/// Adds the mounts of lines `Alias` in a block.
pub(super) fn mounts(block: &[Directive], site: &mut Site) {
    for directive in block.iter().filter(|one| one.name.eq_ignore_ascii_case("alias")) {
        alias(directive, site);
    }
}

/// Reads `Alias`: a mount, unless the folder is that of the path below the root.
fn alias(directive: &Directive, site: &mut Site) -> Fate {
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
    let extension = |text: &str| {
        let name = text.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map(|(_, extension)| extension.to_owned())
    };
    if extension(path).is_some() && extension(path) == extension(folder) {
        return Fate::missing(format!(
            "a mount of Weir is for a folder, and `{folder}` has the name of a file; put the file below the root"
        ));
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

/// The patterns of a `<Directory>` in the folders of mounts.
fn in_mounts(path: &str, site: &Site) -> Vec<String> {
    let path = path.trim_end_matches(['/', '*']);
    let patterns = site
        .mounts
        .iter()
        .filter(|mount| mount.strip)
        .filter_map(|mount| {
            if path.is_empty() || beneath(&mount.root, path).is_some() {
                return pattern(&format!("{}*", mount.path));
            }
            let rest = beneath(path, &mount.root)?;
            pattern(&format!("{}{rest}/*", mount.path.trim_end_matches('/')))
        });
    patterns.collect()
}

/// The patterns of a `<Directory>` below this root.
///
/// # Errors
/// The folder is outside of it.
fn below(path: &str, root: Option<&str>) -> Result<Vec<String>, ()> {
    let path = path.trim_end_matches(['/', '*']);
    let within = |inner: &str, outer: &str| beneath(inner, outer).map(str::to_owned);
    match root {
        // What holds for a folder above the root holds for the root.
        _ if path.is_empty() => Ok(vec!["/*".to_owned()]),
        Some(root) if within(root, path).is_some() => Ok(vec!["/*".to_owned()]),
        Some(root) => match within(path, root) {
            Some(rest) => Ok(pattern(&format!("{rest}/*")).into_iter().collect()),
            None => Err(()),
        },
        None => Err(()),
    }
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
    let (mut differs, mut refused) = (None, None);
    let mut from_regex = |text: &str| {
        let read = match is_loose {
            true => regex::read_redirect(text),
            false => regex::read(text),
        };
        match read {
            Ok(read) => {
                differs.clone_from(&read.differs);
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
        "<location" => match arg.contains(['*', '?', '[']) {
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
                section.note_all(&Fate::unneeded(hidden::WHY), cx.report);
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
            // Apache applies sections of folders and files to files alone.
            if matches!(folder.rank.0, Access::SERVER | Access::LOCATION) {
                site.presume(section, &folder.patterns, "Weir has no rules by method");
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
        let why = refused.unwrap_or_else(|| format!("`{arg}` is no path pattern below the root"));
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
        match denied.is_empty() {
            true => note_refused(section, &why, cx.report),
            false => {
                let why = format!("{why}; the result denies `{}`", denied.join("`, `"));
                section.note_all(&Fate::missing(why), cx.report);
                site.access.extend(denied.iter().map(|path| Access::nobody(path)));
            }
        }
        return;
    }
    let fate = differs.map_or(Fate::Carried, Fate::changed);
    cx.report.add(&section.at, &section.shown(), fate);
    let inner = Folder {
        patterns,
        mounted,
        rank: rank(section),
        ..folder.clone()
    };
    read(section.inner(), &inner, site, wishes, cx);
}

/// An expression about the name of a file as one about the path, in which the name begins behind a slash.
fn as_path(expression: &str) -> String {
    let rest = expression.strip_prefix('^');
    rest.map_or_else(|| expression.to_owned(), |rest| format!("/{rest}"))
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
    each.max()
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
    let fate = match is_limit(directive) {
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
    let fate = match is_limit(directive) {
        true => Fate::open(OUTSIDE),
        false => Fate::unneeded(OUTSIDE),
    };
    report.add(&directive.at, &directive.shown(), fate);
    for inner in directive.inner() {
        note_outside(inner, report);
    }
}

/// Whether a directive limits access.
pub(super) fn is_limit(directive: &Directive) -> bool {
    let limits = ["require", "deny", "authtype", "authuserfile", "order"];
    let name = directive.name.to_ascii_lowercase();
    limits.contains(&name.as_str()) && !directive.shown().to_ascii_lowercase().contains("granted")
}

/// The fate of a line that refuses some clients, and is lost. It closes its paths, but not a whole site.
fn refusal(level: &mut Level, why: &str) -> Fate {
    match level.is_site {
        true => Fate::open(why),
        false => {
            level.is_closed = true;
            Fate::missing(format!("{why}; {DENIED}"))
        }
    }
}

fn access(directive: &Directive, name: &str, level: &mut Level) -> Option<Fate> {
    let words: Vec<String> = directive
        .args
        .iter()
        .map(|arg| arg.to_ascii_lowercase())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let read = |texts: &[&str], list: &mut Vec<String>| -> Vec<String> {
        let (known, others): (Vec<_>, Vec<_>) = texts
            .iter()
            .map(|text| (text, networks::of(text)))
            .partition(|(_, found)| found.is_some());
        list.extend(known.into_iter().filter_map(|(_, network)| network));
        others.into_iter().map(|(text, _)| (*text).to_owned()).collect()
    };
    let lost = |why: &str| Fate::missing(format!("{why}; {DENIED}"));
    Some(match (name, words.as_slice()) {
        ("require", ["all", "granted"]) => {
            level.is_said = true;
            level.is_granted = true;
            Fate::Carried
        }
        ("require", ["all", "denied"]) | ("deny", ["from", "all"]) => {
            level.is_said = true;
            level.deny.push("all".to_owned());
            Fate::Carried
        }
        ("require", ["ip", rest @ ..]) | ("allow", ["from", rest @ ..]) if rest != ["all"] => {
            level.is_said = true;
            let others = read(rest, &mut level.allow);
            match name {
                "require" => {
                    level.is_network_enough = true;
                    level.is_lost |= !others.is_empty();
                }
                _ => level.has_lost_allow |= !others.is_empty(),
            }
            match others.is_empty() {
                true => Fate::Carried,
                false => Fate::missing(format!(
                    "{} is not a network in Weir; the result admits no client by it",
                    others.join(", ")
                )),
            }
        }
        ("require", ["not", "ip", rest @ ..]) | ("deny", ["from", rest @ ..]) => {
            level.is_said = true;
            let others = read(rest, &mut level.deny);
            match others.is_empty() {
                true => Fate::Carried,
                false => refusal(level, &format!("{} is not a network in Weir", others.join(", "))),
            }
        }
        ("require", ["local"]) => {
            level.is_said = true;
            level.is_network_enough = true;
            level.allow.extend(["127.0.0.0/8".to_owned(), "::1".to_owned()]);
            Fate::Carried
        }
        ("require", ["valid-user"]) => {
            level.is_said = true;
            level.needs_user = true;
            match level.users {
                Some(_) => Fate::Carried,
                None => Fate::missing(
                    "no `AuthUserFile` is named here, so the result admits no client by a password",
                ),
            }
        }
        ("require", ["user", ..]) => {
            level.is_said = true;
            level.is_lost = true;
            Fate::missing(
                "Weir admits every user of a file, so the result admits none here; make a file with these users, and write \
                 `htpasswd`",
            )
        }
        ("require", ["not", ..]) => {
            level.is_said = true;
            refusal(level, "Weir admits clients by network and password only")
        }
        ("require", _) => {
            level.is_said = true;
            level.is_lost = true;
            Fate::missing(
                "Weir admits clients by network and password only, so the result admits no client by this line",
            )
        }
        ("sslrequiressl", _) => {
            level.needs_tls = true;
            Fate::Carried
        }
        ("sslrequire", _) | ("sslverifyclient", ["require"]) => {
            level.is_said = true;
            level.is_closed = true;
            lost("Weir asks for certificates of clients before it knows host and path")
        }
        ("sslverifyclient", _) => Fate::unneeded("clients need no certificate here"),
        ("allow", ["from", "all"]) => {
            level.is_said = true;
            level.allows_all = true;
            Fate::Carried
        }
        ("order", _) => Fate::changed("the longest matching network decides, not the order"),
        ("satisfy", [word]) => {
            level.any = *word == "any";
            Fate::Carried
        }
        ("authtype", ["basic"]) => Fate::Carried,
        ("authtype", ["none"]) => Fate::Carried,
        ("authtype", _) => {
            level.is_foreign = true;
            Fate::missing(
                "Weir asks for passwords with Basic authentication only, so the result admits no user here",
            )
        }
        // Read before the sections of the block.
        ("authname", _) => Fate::Carried,
        ("authuserfile", _) => Fate::changed(
            "Weir accepts bcrypt, SHA-256-crypt and SHA-512-crypt; it rejects `$apr1$`, MD5 and plain passwords at start",
        ),
        ("authbasicprovider", ["file"]) => Fate::Carried,
        ("authbasicprovider", words) if words.contains(&"file") => {
            Fate::missing("users are in a file of names and hashes; the result admits no others")
        }
        ("authbasicprovider" | "authdigestprovider" | "authldapurl", _) => {
            level.is_foreign = true;
            Fate::missing("users are in a file of names and hashes, so the result admits no user here")
        }
        ("authgroupfile", _) => Fate::missing("Weir has no groups of users"),
        _ => return None,
    })
}

impl Level {
    /// Puts the rule for this level into the site.
    fn finish(mut self, folder: &Folder, site: &mut Site) {
        if self.needs_tls {
            for path in &folder.patterns {
                site.refuse(path, &Sets::one("scheme http"), 403);
            }
        }
        if !self.is_said {
            return;
        }
        if !self.allow.is_empty() {
            self.deny.retain(|network| network != "all");
        }
        let is_known = self.needs_user && !self.is_foreign;
        let htpasswd = if is_known { self.users } else { None };
        // With `Satisfy any`, the password is enough.
        if self.any && htpasswd.is_some() && self.allow.is_empty() {
            self.deny.clear();
        }
        let is_lost =
            self.is_lost && !self.is_granted || self.has_lost_allow && !self.allows_all || self.needs_user;
        if is_lost && htpasswd.is_none() && self.allow.is_empty() {
            self.deny = vec!["all".to_owned()];
        }
        let htpasswd = htpasswd.filter(|_| !self.is_closed);
        if self.is_closed {
            self.allow.clear();
            self.deny = vec!["all".to_owned()];
        }
        // A rule that admits everyone lifts those of sections that Apache applies earlier.
        if self.allow.is_empty() && self.deny.is_empty() && htpasswd.is_none() {
            self.allow.push("all".to_owned());
        }
        // Several lines `Require` without a group are alternatives. `Allow` is none beside them without `Satisfy any`.
        let any = htpasswd.is_some() && !self.allow.is_empty() && (self.any || self.is_network_enough);
        let others = folder
            .mounted
            .iter()
            .filter(|path| !folder.patterns.contains(path));
        for path in folder.patterns.iter().chain(others) {
            let (kind, depth) = folder.rank;
            // A section about the root says nothing about a mount, whose rules therefore come first.
            let depth = match folder.mounted.contains(path) {
                true => depth.saturating_add(MOUNTED),
                false => depth,
            };
            site.access.push(Access {
                conditions: Vec::new(),
                path: path.clone(),
                allow: self.allow.clone(),
                deny: self.deny.clone(),
                status: None,
                realm: htpasswd.as_ref().and(self.realm.clone()),
                htpasswd: htpasswd.clone(),
                any,
                auth: None,
                rank: (kind, depth),
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
                    // Two types may have one extension.
                    Some(rule) if rule.header.contains(&line) => {}
                    Some(rule) => rule.header.push(line.clone()),
                    None => site.header_rules.push(HeaderRule {
                        path: path.clone(),
                        conditions: Vec::new(),
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
                                    conditions: Vec::new(),
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
                let index: Vec<String> = names.into_iter().cloned().collect();
                let fate = of_folder(folder, site, |mount| mount.index.clone_from(&index));
                return Some(match others.is_empty() {
                    true => fate,
                    false => fate.min(Fate::changed("without programs and paths")),
                });
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
            // Outside of sections, options are those of every folder.
            if folder.rank.0 == Access::SERVER && has("Indexes") {
                site.mounts.iter_mut().for_each(|mount| mount.listing = true);
            }
            match folder.is_root() {
                true if has("Indexes") => site.listing = Some(true),
                true if lacks => site.listing = Some(false),
                false if has("Indexes") || (lacks && site.listing == Some(true)) => {
                    let fate = of_folder(folder, site, |mount| mount.listing = has("Indexes"));
                    if fate != Fate::Carried {
                        return Some(fate);
                    }
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
        "fallbackresource"
            if folder.is_root()
                && fastcgi::front(arg) == Some(arg)
                && site.proxies.iter().any(|rule| rule.is_fastcgi) =>
        {
            site.front = Some(arg.to_owned());
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
        "sethandler" if folder.patterns == ["*.php"] && fcgi(arg).is_some() => {
            let rule = fcgi(arg).filter(|_| !site.proxies.iter().any(|rule| rule.is_fastcgi));
            match rule {
                Some(rule) => {
                    site.proxies.push(rule);
                    Fate::changed(
                        "Weir splits paths behind the name of a script, and runs scripts in any folder",
                    )
                }
                None => Fate::missing("another directive has the scripts of this site"),
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
            match name {
                "alias" => alias(directive, site),
                _ => Fate::missing("a mount of Weir is for a folder, and not for an expression"),
            }
        }
        _ => return None,
    })
}

/// Gives the mounts of a section's folders an index or a listing of their own.
fn of_folder(folder: &Folder, site: &mut Site, set: impl Fn(&mut Mount)) -> Fate {
    let Some(root) = site.root.clone() else {
        return Fate::missing("no root is named for this folder");
    };
    for path in &folder.patterns {
        match site.mount_of_root(path, &root) {
            Ok(mount) => set(mount),
            Err(why) => return Fate::missing(why),
        }
    }
    Fate::Carried
}

/// The rule for scripts at the application of a handler, as in `proxy:unix:/run/php.sock|fcgi://localhost`.
fn fcgi(handler: &str) -> Option<Proxy> {
    let target = handler.strip_prefix("proxy:")?;
    let upstream = match target.split_once('|') {
        Some((socket, far)) if socket.starts_with("unix:") && far.starts_with("fcgi://") => socket.to_owned(),
        Some(_) => return None,
        None => format!("http://{}", target.strip_prefix("fcgi://")?.trim_end_matches('/')),
    };
    let (upstream, _) = address(&upstream).ok()?;
    Some(fastcgi::rule(&[upstream]))
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
                && !first.contains("://")
                && (rest.len() > 1 || first.eq_ignore_ascii_case("gone") || first.parse::<u16>().is_ok()) =>
        {
            (first.as_str(), rest)
        }
        _ => ("302", &directive.args[..]),
    };
    let status = match status.to_ascii_lowercase().as_str() {
        "permanent" => 301,
        "temp" => 302,
        "seeother" => 303,
        "gone" => 410,
        other => other.parse::<u16>().unwrap_or(0),
    };
    let from = args.first().map_or("", |from| from);
    if matches!(status, 400..=599) {
        let patterns = match name {
            "redirectmatch" => regex::read(from).map(Read::patterns),
            // A rule also covers all paths below its own.
            _ => pattern(from)
                .map(|path| vec![path])
                .ok_or_else(|| format!("`{from}` is no path pattern of Weir")),
        };
        let (patterns, fate) = match (patterns, regex::around(from)) {
            (Ok(patterns), _) => (patterns, Access::fate_of_refusal(status)),
            (Err(why), around) if around.is_empty() || name != "redirectmatch" => return Fate::open(why),
            (Err(why), around) => {
                let why = format!("{why}; the result denies `{}`", around.join("`, `"));
                (around, Fate::missing(why))
            }
        };
        site.access
            .extend(patterns.iter().map(|path| Access::refusal(path, status)));
        return fate;
    }
    let Some(to) = args.get(1) else {
        return Fate::missing("a target is missing");
    };
    let mut rules = Vec::new();
    let mut differs = None;
    let (rest, except) = regex::without_ahead(from)
        .filter(|_| name == "redirectmatch")
        .unwrap_or((from.to_owned(), Vec::new()));
    match name {
        "redirectmatch" => {
            let read = match regex::read_redirect(&rest) {
                Ok(read) => read,
                Err(why) => return Fate::missing(why),
            };
            differs = read.differs;
            for one in read.matches {
                let to = match one.fill(to) {
                    Ok(to) => to,
                    Err(why) => return Fate::missing(why),
                };
                rules.push((one.pattern, to));
            }
        }
        // `Redirect` carries over what follows the path.
        _ if from == "/" => rules.push(("/*".to_owned(), format!("{}/*", to.trim_end_matches('/')))),
        _ if from.ends_with('/') => rules.push((format!("{from}*"), format!("{to}*"))),
        _ => rules.extend([
            (from.to_owned(), to.clone()),
            (format!("{from}/*"), format!("{}/*", to.trim_end_matches('/'))),
        ]),
    }
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Fate::missing("the status of a redirect is 301, 302, 303, 307 or 308");
    }
    let refused = rules
        .iter()
        .find(|(from, to)| pattern(from).is_none() || !is_target(from, to));
    if let Some((from, to)) = refused {
        return Fate::missing(format!("`{to}` is no target of a redirect for `{from}` in Weir"));
    }
    site.redirects
        .extend(rules.into_iter().map(|(from, to)| Redirect {
            from,
            to,
            status,
            except: except.clone(),
            ..Redirect::default()
        }));
    differs.map_or(Fate::Carried, Fate::changed)
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
        // Of modules such as mod_auth_openidc, mod_auth_mellon, ModSecurity.
        _ if ["auth", "oidc", "mellon", "secrule"]
            .iter()
            .any(|start| name.starts_with(start)) =>
        {
            Fate::open("the converter does not know this directive, which limits access by its name")
        }
        _ => Fate::missing("the converter does not know this directive"),
    }
}
