//! Configurations of other servers as a configuration of `weir serve`: nginx, Caddy, Apache httpd.
//!
//! Every directive has a [`Fate`]: it became lines of the result, needs none, or is reported with file, line and reason.
//! The functions that read a directive return its fate, so none can be dropped by accident. This crate opens no file:
//! the caller passes [`Files`], which reads includes and `.htaccess` files. It does not know the types of the crate `server`;
//! the caller checks the result with them.

mod access;
mod access_log;
mod apache;
mod caddy;
mod client_certificates;
mod condition;
mod confinement;
mod directive;
mod fastcgi;
mod fate;
#[cfg(test)]
mod fidelity;
mod files;
mod gate;
mod hidden;
mod hsts;
mod letter_case;
mod logs;
mod loopback;
mod model;
mod mounts;
mod nginx;
mod pattern;
mod ports;
mod redirects;
mod regex;
mod report;
mod request_field;
mod rootless;
mod shared;
mod texts;
mod to_https;
mod twins;
mod upstream;
mod value;
mod write;

pub use fate::Fate;
pub use files::{Files, INCLUDES_MAX, Nested, Text};
pub use report::{Group, LISTED_MAX, Note, Report, Unreadable};

use core::fmt;

/// The server that a configuration was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// nginx: a whole `nginx.conf` or `server` blocks.
    Nginx,
    /// Caddy: a Caddyfile.
    Caddy,
    /// Apache httpd: a main file, virtual hosts, or a `.htaccess`.
    Apache,
}

impl Dialect {
    /// Every dialect with its word.
    pub const ALL: [(Dialect, &'static str); 3] = [
        (Dialect::Nginx, "nginx"),
        (Dialect::Caddy, "caddy"),
        (Dialect::Apache, "apache"),
    ];

    /// The dialect of a file, by its name, or by the lines that it has.
    pub fn of(name: &str, text: &str) -> Dialect {
        let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        if name.contains("caddy") {
            return Dialect::Caddy;
        }
        if name.contains("nginx") {
            return Dialect::Nginx;
        }
        if name.contains("htaccess") || name.contains("httpd") || name.contains("apache") {
            return Dialect::Apache;
        }
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        let count = |fits: &dyn Fn(&str) -> bool| lines.iter().filter(|line| fits(line)).count();
        let statements = count(&|line| {
            let line = line.split('#').next().unwrap_or(line).trim_end();
            line.ends_with(';') || (line.ends_with('}') && line.contains(';'))
        });
        let sections = count(&|line| line.starts_with('<') && line.ends_with('>'));
        let words = [
            "RewriteRule",
            "RewriteEngine",
            "Redirect",
            "RedirectPermanent",
            "RedirectMatch",
            "Header",
            "ErrorDocument",
            "Options",
            "DirectoryIndex",
            "AuthType",
            "Require",
            "AddType",
            "DocumentRoot",
        ];
        let directives = count(&|line| words.contains(&line.split_whitespace().next().unwrap_or_default()));
        if statements > sections + directives {
            return Dialect::Nginx;
        }
        match sections + directives > 0 {
            true => Dialect::Apache,
            false => Dialect::Caddy,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Dialect::ALL.iter().find(|(dialect, _)| dialect == self);
        f.write_str(word.map_or("", |(_, word)| word))
    }
}

/// A configuration of `weir serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The text of the TOML file. It begins with the directives that are missing, as comments.
    pub toml: String,
    /// Further files that the TOML file names, relative to it: name and text.
    pub files: Vec<(String, String)>,
    /// Empty folders that the TOML file names, relative to it: hosts without files have them as their root.
    pub folders: Vec<String>,
    /// The fate of every directive.
    pub report: Report,
}

/// Converts a configuration. `root` is the document root of a configuration that names none. If this is a `.htaccess`, others in the
/// folders of the root belong to it.
///
/// # Errors
/// The first mistake of syntax.
pub fn convert(
    dialect: Dialect,
    main: &Text,
    files: &dyn Files,
    root: Option<&str>,
) -> Result<Conversion, Unreadable> {
    let mut report = Report::default();
    let (mut server, files) = match dialect {
        Dialect::Nginx => (nginx::convert(main, files, &mut report)?, Vec::new()),
        Dialect::Caddy => caddy::convert(main, files, &mut report)?,
        Dialect::Apache => (apache::convert(main, files, root, &mut report)?, Vec::new()),
    };
    shared::apply(&mut server, &mut report);
    shared::note_announced(&server, &mut report);
    to_https::apply(&mut server, &main.name, &mut report);
    if dialect != Dialect::Caddy {
        reach_upstreams(&mut server, &main.name, &mut report);
    }
    loopback::limit(&mut server, &main.name, &mut report);
    client_certificates::apply(&mut server, &main.name, &mut report);
    match dialect {
        // It ignores case in the paths of access rules, too.
        Dialect::Caddy => letter_case::note_caddy(&server, &main.name, &mut report),
        Dialect::Nginx | Dialect::Apache => letter_case::apply(&mut server, &main.name, &mut report),
    }
    let has_files = dialect != Dialect::Caddy;
    let needs_folder = rootless::fill(&mut server, root, has_files, &main.name, &mut report);
    hsts::apply(&mut server, &main.name, &mut report);
    reopen(&server, &mut report);
    note_kept_fields(&server, &main.name, &mut report);
    note_refused_redirects(&server, &main.name, &mut report);
    logs::note_absent(&server, &mut report);
    logs::bound(&mut server, &main.name, &mut report);
    logs::part(&mut server, &mut report);
    mounts::bound(&mut server, &main.name, &mut report);
    redirects::bound(&mut server, &main.name, &mut report);
    texts::apply(&mut server, &mut report);
    report.sort();
    let toml = write::toml(&server, &report, &main.name);
    let folders = needs_folder.then(|| rootless::FOLDER.to_owned());
    Ok(Conversion {
        toml,
        files,
        folders: folders.into_iter().collect(),
        report,
    })
}

/// Corrects the fates that presume that files answer, where an upstream does.
fn reopen(server: &model::Server, report: &mut Report) {
    for site in core::iter::once(&server.top).chain(&server.hosts) {
        for one in &site.presumed {
            if let Some(path) = site.upstream_against(one) {
                let why = format!("{}; the upstream of `{path}` gets these requests", one.why);
                report.replace(&one.at, &one.directive, Fate::open(why));
            }
        }
    }
}

/// Reports fields that are not removed from responses of upstreams, because the site sets them for files.
fn note_kept_fields(server: &model::Server, file: &str, report: &mut Report) {
    for site in core::iter::once(&server.top).chain(&server.hosts) {
        let names = site.removals.iter().flat_map(|one| &one.names);
        for name in names.filter(|name| !site.proxies.is_empty() && site.sets(name)) {
            let why = "`remove` of a `[[header-rule]]` would also remove the line that the site sets for files; responses of upstreams \
                       keep theirs";
            let (at, shown) = site.place(file);
            report.add(
                &at,
                &format!("removal of `{name}` in {shown}"),
                Fate::missing(why),
            );
        }
    }
}

/// Reports redirects of paths that are refused: Weir applies access rules first.
fn note_refused_redirects(server: &model::Server, file: &str, report: &mut Report) {
    let at = report::At {
        file: file.into(),
        line: 0,
    };
    for site in core::iter::once(&server.top).chain(&server.hosts) {
        // Those with conditions come with refusals of their own.
        for redirect in site.redirects.iter().filter(|rule| rule.conditions.is_empty()) {
            let mut rules = site.access.iter().filter(|rule| rule.conditions.is_empty());
            let first = rules.find(|rule| rule.applies_to(&redirect.from));
            // A text comes behind redirects.
            if let Some(rule) = first.filter(|rule| rule.is_for_nobody() && rule.text.is_none()) {
                let why = format!(
                    "`{}` is refused before; an access rule with `allow` before that one admits the path",
                    rule.path
                );
                report.add(
                    &at,
                    &format!("redirect of `{}`", redirect.from),
                    Fate::changed(why),
                );
            }
        }
    }
}

/// Sends the field lines of sites with responses of upstreams, and reports what is different then.
fn reach_upstreams(server: &mut model::Server, file: &str, report: &mut Report) {
    let at = report::At {
        file: file.into(),
        line: 0,
    };
    let sites = core::iter::once(&mut server.top).chain(&mut server.hosts);
    let mut has_changed = false;
    let mut left: Vec<String> = Vec::new();
    for site in sites {
        let before = (site.header_always.len(), site.header_rules.clone());
        left.extend(site.reach_upstreams());
        has_changed |= before != (site.header_always.len(), site.header_rules.clone());
    }
    if has_changed {
        let why = "where upstreams answer, errors and redirects have these lines, too";
        report.add(&at, "field lines of responses", Fate::changed(why));
    }
    left.sort();
    left.dedup();
    for line in left {
        let why = "responses of upstreams have only lines of rules with `always`, and errors should not be kept; let the upstream send it";
        report.add(&at, &line, Fate::missing(why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialect_is_known_by_name_or_text() {
        for (name, text, dialect) in [
            ("/etc/caddy/Caddyfile", "", Dialect::Caddy),
            (".htaccess", "", Dialect::Apache),
            ("nginx.conf", "", Dialect::Nginx),
            (
                "site.conf",
                "server {\n  root /srv;\n  location / {\n  }\n}\n",
                Dialect::Nginx,
            ),
            (
                "site.conf",
                "server { listen 80; location / { root /srv; } }\n",
                Dialect::Nginx,
            ),
            (
                "site.conf",
                "<VirtualHost *:80>\n  ServerName a.test\n</VirtualHost>\n",
                Dialect::Apache,
            ),
            (
                "rules",
                "# old\nRewriteEngine on\nRewriteRule a b\n",
                Dialect::Apache,
            ),
            ("site", "example.org {\n  file_server\n}\n", Dialect::Caddy),
        ] {
            assert_eq!(Dialect::of(name, text), dialect, "{name}");
        }
    }
}
