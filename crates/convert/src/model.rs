//! The configuration of Weir as the converters build it. `write` turns it into TOML.

use crate::access_log::Log;
use crate::condition::Sets;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::pattern::{covers, overlaps};
use crate::report::At;
use crate::value::contains;
use std::collections::BTreeMap;

/// Most hosts of Weir.
pub(crate) const HOSTS_MAX: usize = 100;

/// Most paths that a rule for upstreams leaves out.
const EXCEPT_MAX: usize = 1000;

/// Most mounts of all sites together.
pub(crate) const MOUNTS_MAX: usize = 100;

/// Most files that a rule of Weir tries.
const TRIED_MAX: usize = 8;

/// A whole configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    /// Keys of the top level that belong to no site: key and TOML value.
    pub(crate) keys: Vec<(String, String)>,
    /// Addresses in cleartext.
    pub(crate) listen: Vec<String>,
    /// Addresses with TLS.
    pub(crate) secure: Vec<String>,
    /// Whether clients that name no known host in the handshake are rejected.
    pub(crate) rejects_unknown: bool,
    /// File of the authorities of client certificates, and whether certificates are optional. [`crate::client_certificates`]
    /// makes it of what the sites say.
    pub(crate) client_ca: Option<(String, bool)>,
    /// Networks whose peers may name the client.
    pub(crate) trusted: Vec<String>,
    /// Whether connections begin with the PROXY protocol.
    pub(crate) proxy_protocol: bool,
    /// Log templates by the name that the configuration gives them.
    pub(crate) log_templates: BTreeMap<String, String>,
    /// The site of unknown hosts.
    pub(crate) top: Site,
    /// Sites of named hosts.
    pub(crate) hosts: Vec<Site>,
    /// What the configuration answers in cleartext, in its order.
    pub(crate) cleartext: Vec<Cleartext>,
    /// Settings for the whole server that single sites name. [`crate::shared`] writes those on which all sites agree.
    pub(crate) shared: Vec<Shared>,
}

/// A site of the configuration that answers in cleartext.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cleartext {
    pub(crate) names: Vec<String>,
    /// Whether it answers the hosts that no other site names.
    pub(crate) is_default: bool,
    /// How it redirects to https; `None`: it does not.
    pub(crate) lead: Option<Lead>,
}

/// A redirect of all requests in cleartext to https.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lead {
    /// The host of the target; `None`: that of the request.
    pub(crate) to: Option<String>,
    pub(crate) status: u16,
    /// Patterns of the paths that are not redirected.
    pub(crate) kept: Vec<String>,
    /// The rules for them: mounts, upstreams, access, other redirects.
    pub(crate) rules: Site,
    /// The directives that say so.
    pub(crate) said: Vec<(At, String)>,
    /// Whether a field of a proxy says which requests are in cleartext.
    pub(crate) needs_field: bool,
}

/// A setting for the whole server, as one site has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    /// The site: its place in the file. `None`: all sites, unless they have a value of their own.
    pub(crate) site: Option<At>,
    pub(crate) at: At,
    pub(crate) directive: String,
    pub(crate) key: String,
    /// In TOML.
    pub(crate) value: String,
}

impl Server {
    /// Notes a setting that a directive makes for the whole server: of this site, or of all.
    pub(crate) fn share(&mut self, site: Option<&At>, directive: &Directive, key: &str, value: String) {
        self.shared.push(Shared {
            site: site.cloned(),
            at: directive.at.clone(),
            directive: directive.shown(),
            key: key.to_owned(),
            value,
        });
    }

    /// Sets a key of the top level; the first value stays.
    pub(crate) fn key(&mut self, key: &str, value: impl Into<String>) {
        if !self.has(key) {
            self.keys.push((key.to_owned(), value.into()));
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(known, _)| known == key)
    }
}

/// Whether clients of a site need a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Certificate {
    #[default]
    NotAsked,
    Optional,
    Needed,
}

/// What a site says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Site {
    /// Where the configuration has the site, and its directive there.
    pub(crate) at: Option<(At, String)>,
    pub(crate) names: Vec<String>,
    /// Whether the site serves files although it names no root. Caddy only: all sites of other servers do.
    pub(crate) has_file_server: bool,
    /// Whether clients need a certificate, and the file of its authorities.
    pub(crate) certificate: Certificate,
    pub(crate) authorities: Option<String>,
    /// Whether only this machine reaches the addresses of the site.
    pub(crate) is_local: bool,
    /// Folder of the pages of logins as TOML. Apache only.
    pub(crate) tilde: Option<String>,
    /// Whether a limit on all upstreams is lost, so that the result denies their paths. Apache only.
    pub(crate) closes_upstreams: bool,
    pub(crate) root: Option<String>,
    pub(crate) mounts: Vec<Mount>,
    /// Files with certificates and their keys.
    pub(crate) certificates: Vec<(String, String)>,
    pub(crate) index: Vec<String>,
    pub(crate) listing: Option<bool>,
    pub(crate) compress: Option<bool>,
    pub(crate) precompressed: Option<bool>,
    pub(crate) spa: Option<String>,
    pub(crate) error_pages: Vec<(String, String)>,
    pub(crate) types: Vec<(String, String)>,
    pub(crate) header: Vec<String>,
    /// Field lines of every response, errors included.
    pub(crate) header_always: Vec<String>,
    pub(crate) header_rules: Vec<HeaderRule>,
    pub(crate) tried: Vec<Tried>,
    pub(crate) access: Vec<Access>,
    /// Refusals with conditions, which come before the other rules.
    pub(crate) refusals: Vec<Access>,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) proxies: Vec<Proxy>,
    /// Path of the script for requests without a file, if upstreams speak FastCGI.
    pub(crate) front: Option<String>,
    pub(crate) limits: Vec<Limit>,
    pub(crate) presumed: Vec<Presumed>,
    /// Redirects to https at the host of the request, without a target, and the directives that say so. nginx and Caddy.
    pub(crate) secured: Vec<(Redirect, At, String)>,
    /// Paths that are redirected before upstreams answer. Apache only.
    pub(crate) early: Vec<String>,
    /// Field lines for all upstreams, and fields that they do not get. Apache only.
    pub(crate) upstream_fields: (Vec<String>, Vec<String>),
    /// Seconds for which an upstream may be silent. Apache only.
    pub(crate) upstream_timeout: Option<u64>,
    /// `None`: the site says nothing about a log.
    pub(crate) log: Option<Log>,
}

impl Site {
    /// Notes that a directive and all in it need no rule only as long as files answer these paths. `why` says what is
    /// different for upstreams.
    pub(crate) fn presume(&mut self, directive: &Directive, paths: &[String], why: &str) {
        self.presumed.push(Presumed {
            at: directive.at.clone(),
            directive: directive.shown(),
            paths: paths.to_vec(),
            why: why.to_owned(),
        });
        for inner in directive.inner() {
            self.presume(inner, paths, why);
        }
    }

    /// The pattern of the first rule that passes on requests for one of these paths.
    pub(crate) fn upstream_of(&self, paths: &[String]) -> Option<&str> {
        let is_passed = |rule: &&Proxy| {
            paths.iter().any(|path| {
                let is_excepted = rule.except.iter().any(|except| covers(except, path));
                !is_excepted && overlaps(&rule.path, path)
            })
        };
        self.proxies.iter().find(is_passed).map(|rule| &*rule.path)
    }

    /// Adds a folder of its own for the paths of a pattern such as `/a/*`, or returns the one that they have.
    ///
    /// # Errors
    /// Why Weir has no mount for these paths.
    pub(crate) fn mount(&mut self, pattern: &str, root: &str, strip: bool) -> Result<&mut Mount, String> {
        let is_folder = |path: &&str| path.ends_with('/') && path.len() > 1 && !path.contains('*');
        let path = pattern.strip_suffix('*').filter(is_folder).ok_or_else(|| {
            format!("a mount of Weir is for a folder and all paths below it, not for `{pattern}`")
        })?;
        let mut names = path.split('/').skip(1).enumerate();
        if names.any(|(depth, name)| name.starts_with('.') && (depth, name) != (0, ".well-known")) {
            return Err(format!("`{path}`: Weir hides names that begin with a dot"));
        }
        let known = self.mounts.iter().position(|known| known.path == path);
        let at = match known {
            Some(at) if (&*self.mounts[at].root, self.mounts[at].strip) != (root, strip) => {
                return Err(format!(
                    "`{path}` has the root `{}`, and a mount has one",
                    self.mounts[at].root
                ));
            }
            Some(at) => at,
            None if self.mounts.len() >= MOUNTS_MAX => {
                return Err(format!("Weir has at most {MOUNTS_MAX} mounts"));
            }
            None => {
                self.mounts.push(Mount {
                    path: path.to_owned(),
                    root: root.to_owned(),
                    strip,
                    index: Vec::new(),
                    listing: false,
                });
                self.mounts.len() - 1
            }
        };
        Ok(&mut self.mounts[at])
    }

    /// The mount of these paths, for an index or a listing of their own: a new one of `root` around them, unless they
    /// have one.
    ///
    /// # Errors
    /// As [`Site::mount`]; or they are a part of another mount.
    pub(crate) fn mount_of_root(&mut self, pattern: &str, root: &str) -> Result<&mut Mount, String> {
        let is_mounted = |mount: &Mount| mount.path == pattern.trim_end_matches('*');
        if let Some(at) = self.mounts.iter().position(is_mounted) {
            return Ok(&mut self.mounts[at]);
        }
        let around = self
            .mounts
            .iter()
            .find(|mount| pattern.starts_with(&*mount.path) && (mount.strip || mount.root != root));
        match around {
            Some(around) => Err(format!(
                "Weir has one index and one listing for the mount `{}`",
                around.path
            )),
            None => self.mount(pattern, root, false),
        }
    }

    /// The folder on disk in which the result looks for a path; a folder has a slash at its end.
    pub(crate) fn folder(&self, path: &str) -> Option<String> {
        let around = self.mounts.iter().filter(|mount| path.starts_with(&*mount.path));
        let found = match around.max_by_key(|mount| mount.path.len()) {
            Some(mount) if mount.strip => format!("{}/{}", mount.root, path.get(mount.path.len()..)?),
            Some(mount) => format!("{}{path}", mount.root.trim_end_matches('/')),
            None => format!("{}{path}", self.root.as_deref()?.trim_end_matches('/')),
        };
        Some(found.trim_end_matches('/').to_owned())
    }

    /// All header rules: those of every response first, because later ones replace their lines.
    pub(crate) fn all_header_rules(&self) -> Vec<HeaderRule> {
        let everywhere = (!self.header_always.is_empty()).then(|| HeaderRule {
            path: "*".to_owned(),
            conditions: Vec::new(),
            header: self.header_always.clone(),
            always: true,
        });
        everywhere
            .into_iter()
            .chain(self.header_rules.iter().cloned())
            .collect()
    }

    /// All access rules: refusals with conditions first, and behind all others what holds for their paths without the conditions.
    pub(crate) fn all_access(&self) -> Vec<Access> {
        let covers_everything =
            |rule: &Access| rule.conditions.is_empty() && matches!(&*rule.path, "*" | "/*");
        // No rule has an effect behind one for all paths, and Weir accepts none there.
        let reached = |mut rules: Vec<Access>| {
            let end = rules.iter().position(covers_everything);
            rules.truncate(end.map_or(rules.len(), |at| at + 1));
            rules
        };
        let closes = |rule: &&Access| covers_everything(rule) && rule.is_for_nobody();
        let has_conditions = self.access.iter().any(|rule| !rule.conditions.is_empty());
        if (self.refusals.is_empty() && !has_conditions) || self.access.first().filter(closes).is_some() {
            return reached(self.access.clone());
        }
        let mut all: Vec<Access> = self.refusals.iter().chain(&self.access).cloned().collect();
        for conditional in all.clone().iter().filter(|rule| !rule.conditions.is_empty()) {
            let covers_all =
                |rule: &&Access| matches!(&*rule.path, "*" | "/*") || rule.path == conditional.path;
            if !all
                .iter()
                .filter(|rule| rule.conditions.is_empty())
                .any(|rule| covers_all(&rule))
            {
                all.push(Access {
                    path: conditional.path.clone(),
                    allow: vec!["all".to_owned()],
                    ..Access::default()
                });
            }
        }
        // One that admits all paths is the last.
        all.sort_by_key(covers_everything);
        reached(all)
    }

    /// Admits clients of these networks only, who must also satisfy the other rules.
    pub(crate) fn admit_only(&mut self, networks: &[&str]) {
        let only = Access {
            path: "/*".to_owned(),
            allow: networks.iter().map(|one| (*one).to_owned()).collect(),
            ..Access::default()
        };
        for rule in self.access.iter_mut().filter(|rule| !rule.is_for_nobody()) {
            *rule = rule.and(&only).unwrap_or_else(|_| Access::nobody(&rule.path));
        }
        let covers_everything = |rule: &Access| matches!(&*rule.path, "*" | "/*");
        if !self.access.iter().any(covers_everything) {
            self.access.push(only);
        }
    }

    /// Refuses everyone these paths, whatever other rules say: what limits access to them is lost.
    pub(crate) fn close(&mut self, paths: &[String]) {
        for path in paths {
            let rule = Access::nobody(path);
            self.access.retain(|known| *known != rule);
            self.access.insert(0, rule);
        }
    }

    /// Refuses requests for these paths that meet one of the sets of conditions.
    pub(crate) fn refuse(&mut self, path: &str, sets: &Sets, status: u16) {
        for conditions in sets.iter() {
            let rule = Access {
                conditions: conditions.clone(),
                ..Access::refusal(path, status)
            };
            if !self.refusals.contains(&rule) {
                self.refusals.push(rule);
            }
        }
    }

    /// The paths of redirects that upstreams do not answer: one with conditions comes before them anyway.
    pub(crate) fn redirected(&self) -> Vec<String> {
        let always = self.redirects.iter().filter(|rule| rule.conditions.is_empty());
        always.map(|rule| rule.from.clone()).collect()
    }

    /// Leaves paths out of the rules for upstreams that would cover them.
    ///
    /// # Errors
    /// A rule has no room for all of them, so the upstream answers the others.
    pub(crate) fn keep_from_upstreams(&mut self, paths: &[String]) -> Result<(), String> {
        let mut outcome = Ok(());
        for rule in &mut self.proxies {
            for path in paths
                .iter()
                .filter(|path| **path != rule.path && covers(&rule.path, path))
            {
                if rule.except.contains(path) {
                    continue;
                }
                match rule.except.len() < EXCEPT_MAX {
                    true => rule.except.push(path.clone()),
                    false => {
                        outcome = Err(format!(
                            "`except` of `{}` names at most {EXCEPT_MAX} paths; the upstream answers `{path}`",
                            rule.path
                        ));
                    }
                }
            }
        }
        outcome
    }

    /// Sends field lines with responses of upstreams, too, as nginx and Apache do: those of rules with `always`. Lines about
    /// caching stay with files, because clients would keep errors. Returns the names of the fields that are left out.
    pub(crate) fn reach_upstreams(&mut self) -> Vec<String> {
        if self.proxies.is_empty() {
            return Vec::new();
        }
        let is_caching = |line: &String| {
            let name = line.split(':').next().unwrap_or_default();
            ["cache-control", "expires"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known))
        };
        let (kept, moved): (Vec<String>, Vec<String>) =
            std::mem::take(&mut self.header).into_iter().partition(is_caching);
        let mut left: Vec<String> = kept.clone();
        self.header = kept;
        self.header_always.extend(moved);
        let proxies = &self.proxies;
        let is_proxied = |path: &str| {
            proxies.iter().any(|rule| {
                let is_excepted = rule.except.iter().any(|except| covers(except, path));
                !is_excepted && (covers(&rule.path, path) || covers(path, &rule.path))
            })
        };
        let mut rules = Vec::new();
        for rule in std::mem::take(&mut self.header_rules) {
            if rule.always || !is_proxied(&rule.path) {
                rules.push(rule);
                continue;
            }
            let (kept, moved): (Vec<String>, Vec<String>) = rule.header.iter().cloned().partition(is_caching);
            left.extend(kept.iter().cloned());
            for (header, always) in [(kept, false), (moved, true)] {
                if !header.is_empty() {
                    rules.push(HeaderRule {
                        header,
                        always,
                        ..rule.clone()
                    });
                }
            }
        }
        self.header_rules = rules;
        left
    }

    /// Sets the page of a status; the last one stays.
    pub(crate) fn error_page(&mut self, status: &str, page: &str) {
        self.error_pages.retain(|(known, _)| known != status);
        self.error_pages.push((status.to_owned(), page.to_owned()));
    }

    /// Adds files that are tried for a path. Weir applies one rule to a path, so rules for the same path become one: files
    /// made of the path first, then pages.
    pub(crate) fn try_files(&mut self, path: &str, files: &[String]) {
        let Some(rule) = self.tried.iter_mut().find(|rule| rule.path == path) else {
            // The first rule that matches applies, so a narrower one comes before a wider one.
            let wider = self.tried.iter().position(|rule| covers(&rule.path, path));
            let rule = Tried {
                path: path.to_owned(),
                files: files.to_vec(),
                slash: None,
            };
            self.tried.insert(wider.unwrap_or(self.tried.len()), rule);
            return;
        };
        for file in files {
            if !rule.files.contains(file) && rule.files.len() < TRIED_MAX {
                rule.files.push(file.clone());
            }
        }
        rule.files.sort_by_key(|file| !file.starts_with('$'));
    }

    /// Redirects paths with a slash at their end to those without one, directories included.
    pub(crate) fn remove_slashes(&mut self) {
        self.try_files("*", &["$path".to_owned(), "$path/index.html".to_owned()]);
        for rule in self.tried.iter_mut().filter(|rule| rule.path == "*") {
            rule.slash = Some("remove");
        }
    }

    /// Orders access rules of Apache's sections so that the first one that covers a path is right: the one that Apache
    /// applies last. Refusals by directives outside of sections come first.
    pub(crate) fn order_sections(&mut self) {
        let mut rules = std::mem::take(&mut self.access);
        rules.sort_by_key(|rule| rule.rank);
        for rule in rules.into_iter().rev() {
            // No path reaches a rule behind one that covers all its paths.
            if !self.access.iter().any(|known| covers(&known.path, &rule.path)) {
                self.access.push(rule);
            }
        }
        self.free_upstreams();
        // A path without a rule is for everyone.
        while self.access.last().is_some_and(Access::is_for_everyone) {
            self.access.pop();
        }
    }

    /// Lifts the rules of Apache's sections of folders and files where an upstream answers: Apache applies those sections to
    /// files alone. Paths that the upstream does not answer keep them.
    fn free_upstreams(&mut self) {
        let first = self.access.iter().position(|rule| rule.rank.0 <= Access::FILES);
        let about_files = self.access.split_off(first.unwrap_or(self.access.len()));
        let has_others = about_files
            .iter()
            .any(|rule| rule.rank.0 == Access::SERVER && !rule.is_for_everyone());
        let limits = |rule: &Access, path: &str| !rule.is_for_everyone() && overlaps(&rule.path, path);
        let mut added: Vec<Access> = Vec::new();
        // A rule for a path without a star covers all paths below, and so does one with `/*` behind it.
        let mut proxies: Vec<&Proxy> = self
            .proxies
            .iter()
            .filter(|proxy| !has_others && proxy.path.contains('*'))
            .filter(|proxy| about_files.iter().any(|rule| limits(rule, &proxy.path)))
            .collect();
        proxies.sort_by_key(|proxy| core::cmp::Reverse(proxy.path.len()));
        for proxy in proxies {
            let is_named = |except: &&String| !proxy.except.contains(&format!("{except}/*"));
            for except in proxy.except.iter().filter(is_named) {
                for rule in about_files.iter().filter(|rule| overlaps(&rule.path, except)) {
                    let is_wider = covers(&rule.path, except);
                    let path = if is_wider { except } else { &rule.path };
                    added.push(Access {
                        path: path.clone(),
                        ..rule.clone()
                    });
                    // The first rule that covers a path decides.
                    if is_wider {
                        break;
                    }
                }
            }
            added.push(Access {
                path: proxy.path.clone(),
                allow: vec!["all".to_owned()],
                ..Access::default()
            });
        }
        for rule in added.into_iter().chain(about_files) {
            if !self.access.iter().any(|known| covers(&known.path, &rule.path)) {
                self.access.push(rule);
            }
        }
    }

    /// Orders access rules so that the first one that covers a path is the right one: refusals of everyone first, then
    /// narrower paths before wider ones. A client must also satisfy the wider rules, as in Caddy.
    ///
    /// # Errors
    /// Two rules of which a client must satisfy both, and of which Weir has no one rule: nobody is admitted. The rules are in
    /// order all the same.
    pub(crate) fn order_access(&mut self) -> Result<(), String> {
        let mut outcome = self.join_access();
        let rules = self.access.clone();
        for rule in self.access.iter_mut().filter(|rule| !rule.is_for_nobody()) {
            let path = rule.path.clone();
            for wider in rules
                .iter()
                .filter(|wider| wider.path != path && covers(&wider.path, &path))
            {
                match rule.and(wider) {
                    Ok(both) => *rule = both,
                    Err(what) => {
                        outcome = Err(format!(
                            "`{}` and `{}` both {what}, and Weir applies one rule; the result denies `{}`",
                            rule.path, wider.path, rule.path
                        ));
                        *rule = Access::nobody(&rule.path);
                        break;
                    }
                }
            }
        }
        // Nobody passes a rule that a wider one refuses to everyone.
        self.access.sort_by_key(|rule| {
            let wideness = rule.path.len() - usize::from(rule.path.ends_with('*'));
            (!rule.is_for_nobody(), core::cmp::Reverse(wideness))
        });
        outcome
    }

    /// Makes one rule of those for the same path that a client must all satisfy. A refusal of everyone stays a rule of its own.
    ///
    /// # Errors
    /// Two of which Weir has no one rule: nobody is admitted.
    fn join_access(&mut self) -> Result<(), String> {
        let mut outcome = Ok(());
        let mut joined: Vec<Access> = Vec::new();
        for rule in std::mem::take(&mut self.access) {
            let is_twin = |known: &&mut Access| {
                known.path == rule.path && !known.is_for_nobody() && !rule.is_for_nobody()
            };
            let Some(twin) = joined.iter_mut().find(is_twin) else {
                joined.push(rule);
                continue;
            };
            match twin.and(&rule) {
                Ok(both) => *twin = both,
                Err(what) => {
                    outcome = Err(format!(
                        "two rules for `{}` {what}, and Weir applies one rule; the result denies `{}`",
                        rule.path, rule.path
                    ));
                    *twin = Access::nobody(&rule.path);
                }
            }
        }
        self.access = joined;
        outcome
    }

    /// Sets the type of an extension; the last one stays.
    pub(crate) fn media_type(&mut self, extension: &str, value: &str) {
        let extension = extension.trim_start_matches('.').to_ascii_lowercase();
        self.types.retain(|(known, _)| *known != extension);
        self.types.push((extension, value.to_owned()));
    }
}

/// A folder of its own for a path and all paths below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// With a slash at both ends.
    pub(crate) path: String,
    pub(crate) root: String,
    /// Whether names in the folder lack the path.
    pub(crate) strip: bool,
    /// Empty: that of the site.
    pub(crate) index: Vec<String>,
    pub(crate) listing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderRule {
    pub(crate) path: String,
    pub(crate) conditions: Vec<String>,
    pub(crate) header: Vec<String>,
    /// Whether errors, redirects and responses of upstreams have the lines, too.
    pub(crate) always: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tried {
    pub(crate) path: String,
    pub(crate) files: Vec<String>,
    /// `remove` or `add`.
    pub(crate) slash: Option<&'static str>,
}

/// Who may request a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) path: String,
    pub(crate) conditions: Vec<String>,
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    /// Status for clients whose network is not admitted; `None`: 403.
    pub(crate) status: Option<u16>,
    pub(crate) htpasswd: Option<String>,
    pub(crate) realm: Option<String>,
    pub(crate) any: bool,
    /// URL of the server that decides, and the fields that upstreams get from its answer.
    pub(crate) auth: Option<(String, Vec<String>)>,
    /// Of Apache: kind and depth of the section. Apache applies sections of higher ranks later.
    pub(crate) rank: (u8, usize),
}

impl Access {
    /// Kinds of Apache's sections, for `rank`.
    pub(crate) const SERVER: u8 = 0;
    pub(crate) const DIRECTORY: u8 = 1;
    pub(crate) const FILES: u8 = 2;
    pub(crate) const LOCATION: u8 = 3;

    /// Whether no client is admitted.
    pub(crate) fn is_for_nobody(&self) -> bool {
        self.allow.is_empty() && self.deny == ["all"]
    }

    /// Whether the rule applies to all paths of a pattern: it also covers the paths below its own.
    pub(crate) fn applies_to(&self, pattern: &str) -> bool {
        let below = format!("{}/*", self.path.trim_end_matches('/'));
        covers(&self.path, pattern) || (!self.path.contains('*') && covers(&below, pattern))
    }

    /// Whether every client is admitted without a password.
    fn is_for_everyone(&self) -> bool {
        let is_all = self.allow.is_empty() || self.allow == ["all"];
        is_all && self.deny.is_empty() && self.htpasswd.is_none() && self.auth.is_none()
    }

    /// The rule, for the paths of this one, whose clients satisfy both.
    ///
    /// # Errors
    /// What both say and one rule cannot.
    pub(crate) fn and(&self, other: &Access) -> Result<Access, &'static str> {
        let within = |inner: &[String], outer: &[String]| {
            let is_within = |network: &String| outer.iter().any(|known| contains(known, network));
            inner.iter().all(is_within)
        };
        let allow = match (&self.allow[..], &other.allow[..]) {
            (own, []) => own.to_vec(),
            ([], other) => other.to_vec(),
            (own, other) if within(own, other) => own.to_vec(),
            (own, other) if within(other, own) => other.to_vec(),
            _ => return Err("name networks"),
        };
        let mut deny = self.deny.clone();
        deny.extend(
            other
                .deny
                .iter()
                .filter(|network| !self.deny.contains(network))
                .cloned(),
        );
        // In Weir, the longest prefix decides.
        let is_denied = |network: &String| deny.iter().any(|known| contains(known, network));
        let (denied, allow): (Vec<String>, Vec<String>) = allow.into_iter().partition(is_denied);
        if !denied.is_empty() && allow.is_empty() {
            deny = vec!["all".to_owned()];
        }
        let only = |own: &Option<String>, other: &Option<String>| match (own, other) {
            (Some(own), Some(other)) if own != other => Err("ask for passwords of their own users"),
            (own, other) => Ok(own.clone().or_else(|| other.clone())),
        };
        let auth = match (&self.auth, &other.auth) {
            (Some(own), Some(other)) if own != other => return Err("ask a server"),
            (own, other) => own.clone().or_else(|| other.clone()),
        };
        Ok(Access {
            allow,
            deny,
            htpasswd: only(&self.htpasswd, &other.htpasswd)?,
            realm: self.realm.clone().or_else(|| other.realm.clone()),
            auth,
            ..self.clone()
        })
    }

    /// Everyone gets an error for the path: this status if a rule can have it, otherwise 403.
    pub(crate) fn refusal(path: &str, status: u16) -> Access {
        Access {
            status: Access::refuses_with(status),
            ..Access::nobody(path)
        }
    }

    /// The status of a rule, in place of 403.
    pub(crate) fn refuses_with(status: u16) -> Option<u16> {
        matches!(status, 404 | 410 | 451).then_some(status)
    }

    /// What becomes of a directive that answers with this status.
    pub(crate) fn fate_of_refusal(status: u16) -> Fate {
        match status == 403 || Access::refuses_with(status).is_some() {
            true => Fate::Carried,
            false => Fate::changed("Weir answers 403"),
        }
    }

    /// Nobody may request the path.
    pub(crate) fn nobody(path: &str) -> Access {
        Access {
            path: path.to_owned(),
            deny: vec!["all".to_owned()],
            // No section admits clients that another directive refuses.
            rank: (u8::MAX, 0),
            ..Access::default()
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) from: String,
    /// Paths that are not redirected although `from` matches them.
    pub(crate) except: Vec<String>,
    pub(crate) conditions: Vec<String>,
    pub(crate) to: String,
    pub(crate) status: u16,
}

/// A directive whose fate is only right while no upstream answers its paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Presumed {
    pub(crate) at: At,
    pub(crate) directive: String,
    pub(crate) paths: Vec<String>,
    /// What is different for upstreams.
    pub(crate) why: String,
}

/// How many requests a client may make for a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) path: String,
    /// In Weir's spelling, as `10/s`.
    pub(crate) rate: Option<String>,
    pub(crate) burst: Option<u32>,
    pub(crate) concurrent: Option<u32>,
}

/// Requests that upstreams answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) path: String,
    /// Paths that stay with the files.
    pub(crate) except: Vec<String>,
    pub(crate) upstreams: Vec<String>,
    pub(crate) weights: Vec<u32>,
    pub(crate) strip: bool,
    /// Further keys and their TOML values.
    pub(crate) keys: Vec<(String, String)>,
    /// Field lines that replace those of clients, and fields that upstreams do not get.
    pub(crate) request_header: (Vec<String>, Vec<String>),
    /// Keys and TOML values of active checks.
    pub(crate) check: Vec<(String, String)>,
    /// Whether the upstreams speak FastCGI.
    pub(crate) is_fastcgi: bool,
    /// Further keys of `[proxy.fastcgi]` and their TOML values.
    pub(crate) fastcgi: Vec<(String, String)>,
    /// Parameters of each request and their values.
    pub(crate) params: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(path: &str, allow: &[&str], deny: &[&str], htpasswd: bool) -> Access {
        let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        Access {
            path: path.to_owned(),
            allow: texts(allow),
            deny: texts(deny),
            htpasswd: htpasswd.then(|| "users".to_owned()),
            ..Access::default()
        }
    }

    #[test]
    fn a_narrow_rule_keeps_the_conditions_of_wider_ones() {
        let mut site = Site {
            access: vec![
                rule("*", &["10.0.0.0/8"], &[], false),
                rule("/admin/*", &[], &[], true),
                rule("/secret/*", &[], &["all"], false),
            ],
            ..Site::default()
        };
        assert_eq!(site.order_access(), Ok(()));
        assert_eq!(
            site.access,
            [
                rule("/secret/*", &[], &["all"], false),
                rule("/admin/*", &["10.0.0.0/8"], &[], true),
                rule("*", &["10.0.0.0/8"], &[], false),
            ]
        );
        site.access.push(rule("/far/*", &["192.0.2.0/24"], &[], false));
        site.access.push(rule("/near/*", &["10.1.0.0/16"], &[], false));
        assert!(site.order_access().unwrap_err().contains("`/far/*` and `*`"));
        let of = |path: &str| site.access.iter().find(|rule| rule.path == path).expect("a rule");
        assert!(of("/far/*").is_for_nobody());
        assert_eq!(of("/near/*").allow, ["10.1.0.0/16"]);
    }

    #[test]
    fn clients_of_both_rules_are_in_the_networks_of_both() {
        for (one, other, allow, deny) in [
            (
                (&["10.0.0.0/8"][..], &[][..]),
                (&["10.1.0.0/16"][..], &[][..]),
                &["10.1.0.0/16"][..],
                &[][..],
            ),
            (
                (&[], &["192.0.2.1"]),
                (&[], &["192.0.2.2"]),
                &[],
                &["192.0.2.1", "192.0.2.2"],
            ),
            (
                (&["10.0.0.0/8"], &[]),
                (&[], &["10.1.0.0/16"]),
                &["10.0.0.0/8"],
                &["10.1.0.0/16"],
            ),
            // The longest prefix decides, so a network within a denied one is left out.
            (
                (&["10.1.0.0/16", "192.0.2.1"], &[]),
                (&[], &["10.0.0.0/8"]),
                &["192.0.2.1"],
                &["10.0.0.0/8"],
            ),
            ((&["10.1.0.0/16"], &[]), (&[], &["10.0.0.0/8"]), &[], &["all"]),
        ] {
            let both = rule("/a", one.0, one.1, false).and(&rule("/*", other.0, other.1, false));
            assert_eq!(both, Ok(rule("/a", allow, deny, false)), "{one:?} {other:?}");
        }
        let far = rule("/a", &["10.0.0.0/8"], &[], false).and(&rule("/*", &["192.0.2.1"], &[], false));
        assert_eq!(far, Err("name networks"));
    }

    #[test]
    fn a_closed_path_has_no_rule_before_it_and_none_has_one_behind_all_paths() {
        let mut site = Site {
            access: vec![
                rule("/a/*", &["all"], &[], false),
                rule("/*", &["all"], &[], false),
            ],
            ..Site::default()
        };
        site.access.push(rule("/b/*", &["all"], &[], false));
        assert_eq!(site.all_access().len(), 2, "the last one is never reached");
        site.refuse("/c/*", &Sets::one("header x"), 403);
        site.close(&["/a/*".to_owned()]);
        let rules = site.all_access();
        let first = rules.iter().find(|rule| rule.path == "/a/*").expect("a rule");
        assert!(first.is_for_nobody());
        site.close(&["/*".to_owned()]);
        assert_eq!(site.all_access(), [Access::nobody("/*")]);
    }

    #[test]
    fn the_section_that_apache_applies_last_comes_first() {
        let ranked = |path: &str, allow: &[&str], deny: &[&str], rank: (u8, usize)| Access {
            rank,
            ..rule(path, allow, deny, false)
        };
        let mut site = Site {
            access: vec![
                Access::nobody("*.php"),
                ranked("/*", &["all"], &[], (1, 3)),
                ranked("/*", &[], &["all"], (1, 0)),
                ranked("/a/*", &["10.0.0.0/8"], &[], (1, 4)),
                // A section by address is stronger than one by folder, and the later of two than the earlier.
                ranked("/a/b/*", &["192.0.2.0/24"], &[], (3, 0)),
                ranked("/a/b/c/*", &["all"], &[], (1, 6)),
                ranked("/a/b/*", &[], &["all"], (3, 0)),
            ],
            ..Site::default()
        };
        site.order_sections();
        let paths: Vec<&str> = site.access.iter().map(|rule| &*rule.path).collect();
        assert_eq!(paths, ["*.php", "/a/b/*", "/a/*"]);
        assert!(site.access[1].is_for_nobody());
    }

    #[test]
    fn a_mount_is_for_a_folder() {
        let mut site = Site::default();
        for (pattern, why) in [
            ("/a/*", None),
            ("/.well-known/acme-challenge/*", None),
            ("/*", Some("`/*`")),
            ("/a*", Some("`/a*`")),
            ("*.png", Some("`*.png`")),
            ("/a", Some("`/a`")),
            ("/a/*/b/*", Some("not for")),
            ("/.git/*", Some("begin with a dot")),
            ("/a/.well-known/*", Some("begin with a dot")),
        ] {
            let refused = site.mount(pattern, "/srv/a", true).err();
            assert_eq!(refused.is_some(), why.is_some(), "{pattern}");
            assert!(
                refused.is_none_or(|text| why.is_some_and(|why| text.contains(why))),
                "{pattern}"
            );
        }
        assert_eq!(site.mounts.len(), 2);
        site.mount("/a/*", "/srv/a", true).unwrap().listing = true;
        assert!(site.mounts[0].listing, "the same mount");
        assert!(
            site.mount("/a/*", "/srv/b", true)
                .unwrap_err()
                .contains("`/srv/a`")
        );
        assert!(
            site.mount_of_root("/a/*", "/srv").unwrap().strip,
            "the same mount"
        );
        assert!(
            site.mount_of_root("/a/b/*", "/srv")
                .unwrap_err()
                .contains("`/a/`")
        );
        assert!(!site.mount_of_root("/b/*", "/srv").unwrap().strip);
        assert!(!site.mount_of_root("/b/c/*", "/srv").unwrap().strip);
        for at in site.mounts.len()..MOUNTS_MAX {
            assert!(site.mount(&format!("/{at}/*"), "/srv", true).is_ok());
        }
        assert!(
            site.mount("/last/*", "/srv", true)
                .unwrap_err()
                .contains("at most 100")
        );
    }

    #[test]
    fn conditions_for_one_path_are_one_rule() {
        let auth = Access {
            auth: Some(("http://auth:9091/verify".to_owned(), Vec::new())),
            ..rule("*", &[], &[], false)
        };
        let mut site = Site {
            access: vec![
                rule("*", &["10.0.0.0/8"], &[], false),
                auth.clone(),
                rule("*", &[], &[], true),
            ],
            ..Site::default()
        };
        assert_eq!(site.order_access(), Ok(()));
        let joined = Access {
            auth: auth.auth,
            ..rule("*", &["10.0.0.0/8"], &[], true)
        };
        assert_eq!(site.access, [joined]);
        // Two that a client cannot both satisfy by one rule.
        let mut strict = site.clone();
        strict.access.push(Access {
            htpasswd: Some("others".to_owned()),
            ..rule("*", &[], &[], false)
        });
        let why = strict.order_access().unwrap_err();
        assert!(why.contains("two rules for `*` ask for passwords"), "{why}");
        assert!(strict.access[0].is_for_nobody() && strict.all_access().len() == 1);
        // A refusal stays a rule of its own.
        site.access.push(rule("*", &[], &["all"], false));
        assert_eq!(site.order_access(), Ok(()));
        assert_eq!(site.access.len(), 2);
        assert!(site.access[0].is_for_nobody());
    }

    #[test]
    fn paths_that_an_upstream_answers_are_reported() {
        let mut site = Site {
            proxies: vec![Proxy {
                path: "/*".to_owned(),
                ..Proxy::default()
            }],
            ..Site::default()
        };
        let paths: Vec<String> = (0..EXCEPT_MAX).map(|at| format!("/{at}")).collect();
        assert_eq!(site.keep_from_upstreams(&paths), Ok(()));
        assert_eq!(site.keep_from_upstreams(&paths), Ok(()), "known already");
        let why = site.keep_from_upstreams(&["/last".to_owned()]).unwrap_err();
        assert!(why.contains("at most 1000") && why.contains("`/last`"), "{why}");
        assert_eq!(site.proxies[0].except.len(), EXCEPT_MAX);
    }

    #[test]
    fn lines_reach_responses_of_upstreams() {
        let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let lines = |path: &str, header: &[&str], always: bool| HeaderRule {
            path: path.to_owned(),
            conditions: Vec::new(),
            header: texts(header),
            always,
        };
        let mut site = Site {
            header: texts(&["X-A: 1", "Cache-Control: max-age=60"]),
            header_rules: vec![
                lines("/api/v1/*", &["X-B: 1", "Cache-Control: no-store"], false),
                lines("*.css", &["X-C: 1"], false),
                lines("/other/*", &["X-D: 1"], false),
            ],
            ..Site::default()
        };
        let unchanged = site.clone();
        assert!(site.reach_upstreams().is_empty());
        assert_eq!(site, unchanged, "no upstream answers");
        site.proxies.push(Proxy {
            path: "/api/*".to_owned(),
            ..Proxy::default()
        });
        site.proxies.push(Proxy {
            path: "*".to_owned(),
            except: texts(&["*.css", "/other/*"]),
            ..Proxy::default()
        });
        assert_eq!(
            site.reach_upstreams(),
            ["Cache-Control: max-age=60", "Cache-Control: no-store"]
        );
        assert_eq!(site.header, ["Cache-Control: max-age=60"]);
        assert_eq!(site.header_always, ["X-A: 1"]);
        assert_eq!(
            site.header_rules,
            [
                lines("/api/v1/*", &["Cache-Control: no-store"], false),
                lines("/api/v1/*", &["X-B: 1"], true),
                lines("*.css", &["X-C: 1"], false),
                lines("/other/*", &["X-D: 1"], false),
            ]
        );
    }

    #[test]
    fn files_for_one_path_are_one_rule() {
        let mut site = Site::default();
        let files = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        site.try_files("*", &files(&["$path", "/index.html"]));
        site.try_files("*", &files(&["$path", "$path.html"]));
        assert_eq!(site.tried.len(), 1);
        assert_eq!(site.tried[0].files, ["$path", "$path.html", "/index.html"]);
        site.try_files("/a/*", &files(&["/b/*"]));
        site.try_files("/a/b/*", &files(&["/c/*"]));
        let order: Vec<&str> = site.tried.iter().map(|rule| &*rule.path).collect();
        assert_eq!(order, ["/a/b/*", "/a/*", "*"]);
        site.tried.drain(..2);
        site.remove_slashes();
        assert_eq!(site.tried[0].slash, Some("remove"));
        assert_eq!(
            site.tried[0].files,
            ["$path", "$path.html", "$path/index.html", "/index.html"]
        );
        for n in 0..TRIED_MAX {
            site.try_files("*", &[format!("/{n}")]);
        }
        assert_eq!(site.tried[0].files.len(), TRIED_MAX);
    }
}
