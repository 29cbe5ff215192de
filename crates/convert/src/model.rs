//! The configuration of Weir as the converters build it. `write` turns it into TOML.

use crate::access::{Access, FixedText};
use crate::access_log::Log;
use crate::directive::Directive;
use crate::pattern::{covers, overlaps};
use crate::report::At;
use std::collections::BTreeMap;

/// Most hosts of Weir.
pub(crate) const HOSTS_MAX: usize = 1_000;

/// Most paths that a redirect or a rule for upstreams leaves out.
pub(crate) const EXCEPT_MAX: usize = 1000;

/// Most mounts of all sites together.
pub(crate) const MOUNTS_MAX: usize = 100;

/// Most access rules of a site.
pub(crate) const ACCESS_MAX: usize = 1000;

/// Most limits of a site.
pub(crate) const LIMITS_MAX: usize = 100;

/// Most files that a rule of Weir tries.
pub(crate) const TRIED_MAX: usize = 8;

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
    /// The log of the server's own messages. `None`: standard error.
    pub(crate) messages: Option<Messages>,
    /// The site of unknown hosts.
    pub(crate) top: Site,
    /// Sites of named hosts.
    pub(crate) hosts: Vec<Site>,
    /// What the configuration answers in cleartext, in its order.
    pub(crate) cleartext: Vec<Cleartext>,
    /// Settings for the whole server that single sites name. [`crate::shared`] writes those on which all sites agree.
    pub(crate) shared: Vec<Shared>,
}

/// The file for the server's own messages, and the directives that name it or another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Messages {
    pub(crate) file: String,
    pub(crate) said: Vec<(At, String)>,
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
    /// Whether all addresses of the site are private ones.
    pub(crate) is_private: bool,
    /// The ports at which the configuration answers the site. Empty: it names none.
    pub(crate) ports: Vec<u16>,
    /// Folder of the pages of logins as TOML. Apache only.
    pub(crate) tilde: Option<String>,
    /// Whether a limit on all upstreams is lost, so that the result denies their paths. Apache only.
    pub(crate) closes_upstreams: bool,
    pub(crate) root: Option<String>,
    pub(crate) mounts: Vec<Mount>,
    /// Files with certificates and their keys.
    pub(crate) certificates: Vec<(String, String)>,
    /// Names of index files. Empty: the site says nothing about them. An empty name stands for none.
    pub(crate) index: Vec<String>,
    pub(crate) listing: Option<bool>,
    pub(crate) compress: Option<bool>,
    pub(crate) precompressed: Option<bool>,
    /// Patterns of paths that are sent uncompressed.
    pub(crate) uncompressed: Vec<String>,
    pub(crate) spa: Option<String>,
    pub(crate) error_pages: Vec<(String, String)>,
    pub(crate) types: Vec<(String, String)>,
    pub(crate) header: Vec<String>,
    /// Field lines of every response, errors included.
    pub(crate) header_always: Vec<String>,
    pub(crate) header_rules: Vec<HeaderRule>,
    pub(crate) removals: Vec<Removal>,
    pub(crate) tried: Vec<Tried>,
    pub(crate) access: Vec<Access>,
    /// Refusals with conditions, which come before the other rules.
    pub(crate) refusals: Vec<Access>,
    pub(crate) redirects: Vec<Redirect>,
    /// Texts at `/` alone. No access rule stands for them, as for those of other paths: one for `/` would be for all paths.
    pub(crate) starts: Vec<FixedText>,
    pub(crate) responds: Vec<Respond>,
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
    /// Where the report has a note about the whole site, and the directive there. `file` is the main file of the configuration.
    pub(crate) fn place(&self, file: &str) -> (At, String) {
        self.at.clone().unwrap_or_else(|| {
            let at = At {
                file: file.into(),
                line: 0,
            };
            (at, "the site".to_owned())
        })
    }

    /// Notes that a directive and all in it need no rule only as long as files answer these paths. `why` says what is
    /// different for upstreams.
    pub(crate) fn presume(&mut self, directive: &Directive, paths: &[String], why: &str) {
        self.presumed.push(Presumed {
            at: directive.at.clone(),
            directive: directive.shown(),
            paths: paths.to_vec(),
            why: why.to_owned(),
            is_of_files: false,
        });
        for inner in directive.inner() {
            self.presume(inner, paths, why);
        }
    }

    /// As [`Site::presume`], for a directive that limits scripts and what sections pass on, and no other upstream.
    pub(crate) fn presume_of_files(&mut self, directive: &Directive, paths: &[String], why: &str) {
        let before = self.presumed.len();
        self.presume(directive, paths, why);
        let added = self.presumed.iter_mut().skip(before);
        added.for_each(|one| one.is_of_files = true);
    }

    /// The pattern of the first rule that passes on requests for one of these paths.
    pub(crate) fn upstream_of(&self, paths: &[String]) -> Option<&str> {
        let found = self.proxies.iter().find(|rule| rule.passes(paths));
        found.map(|rule| &*rule.path)
    }

    /// The pattern of the first rule that contradicts a presumption.
    pub(crate) fn upstream_against(&self, presumed: &Presumed) -> Option<&str> {
        let is_meant = |rule: &&Proxy| !presumed.is_of_files || rule.is_fastcgi || rule.is_in_section;
        let mut rules = self.proxies.iter().filter(is_meant);
        let found = rules.find(|rule| rule.passes(&presumed.paths));
        found.map(|rule| &*rule.path)
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

    /// Removes a field from all responses to requests for a path that meet these conditions.
    pub(crate) fn remove_field(&mut self, path: &str, conditions: &[String], name: &str) {
        let is_it = |known: &&mut Removal| known.path == path && known.conditions == conditions;
        match self.removals.iter_mut().find(is_it) {
            Some(known) if known.names.iter().any(|one| one.eq_ignore_ascii_case(name)) => {}
            Some(known) => known.names.push(name.to_owned()),
            None => self.removals.push(Removal {
                path: path.to_owned(),
                conditions: conditions.to_vec(),
                names: vec![name.to_owned()],
            }),
        }
    }

    /// The fields that are removed, without those that the site sets for files: a rule of Weir would remove its own lines, too. Weir
    /// itself sends no `Server`.
    pub(crate) fn all_removals(&self) -> Vec<Removal> {
        let is_absent = |name: &&String| self.proxies.is_empty() && name.eq_ignore_ascii_case("server");
        let removals = self.removals.iter().map(|one| {
            let names = one.names.iter();
            let names = names.filter(|name| !is_absent(name) && !self.sets(name));
            Removal {
                names: names.cloned().collect(),
                ..one.clone()
            }
        });
        removals.filter(|one| !one.names.is_empty()).collect()
    }

    /// Whether the site sets a field for files.
    pub(crate) fn sets(&self, name: &str) -> bool {
        let mut lines = self.header.iter().filter_map(|line| line.split_once(':'));
        lines.any(|(known, _)| known.eq_ignore_ascii_case(name))
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
            let is_inside = |path: &&String| **path != rule.path && covers(&rule.path, path);
            let inside: Vec<&String> = paths.iter().filter(is_inside).collect();
            for path in inside {
                if let Err(why) = rule.leave_out(path) {
                    outcome = Err(why);
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

    /// Redirects those paths of a pattern that have a slash at their end to the same path without one, directories included.
    pub(crate) fn remove_slashes(&mut self, path: &str) {
        self.try_files(path, &["$path".to_owned(), "$path/index.html".to_owned()]);
        for rule in self.tried.iter_mut().filter(|rule| rule.path == path) {
            rule.slash = Some("remove");
        }
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

/// Fields that no response to requests for a path has, whoever sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) path: String,
    pub(crate) conditions: Vec<String>,
    pub(crate) names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tried {
    pub(crate) path: String,
    pub(crate) files: Vec<String>,
    /// `remove` or `add`.
    pub(crate) slash: Option<&'static str>,
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

/// Requests that a text of the configuration answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Respond {
    pub(crate) path: String,
    /// Paths that the text does not answer although `path` matches them.
    pub(crate) except: Vec<String>,
    pub(crate) text: FixedText,
}

/// A directive whose fate is only right while no upstream answers its paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Presumed {
    pub(crate) at: At,
    pub(crate) directive: String,
    pub(crate) paths: Vec<String>,
    /// What is different for upstreams.
    pub(crate) why: String,
    /// Whether it limits scripts and what sections of Apache pass on, and no other upstream.
    pub(crate) is_of_files: bool,
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
    /// Of Apache: whether a section or a `.htaccess` passes the requests on, so that sections of folders and files limit them.
    pub(crate) is_in_section: bool,
    /// Further keys of `[proxy.fastcgi]` and their TOML values.
    pub(crate) fastcgi: Vec<(String, String)>,
    /// Parameters of each request and their values.
    pub(crate) params: Vec<(String, String)>,
}

impl Proxy {
    /// Leaves a path to the files.
    ///
    /// # Errors
    /// The rule has no room for it, so the upstream answers it.
    pub(crate) fn leave_out(&mut self, path: &str) -> Result<(), String> {
        if self.except.iter().map(String::as_str).any(|known| known == path) {
            return Ok(());
        }
        if self.except.len() >= EXCEPT_MAX {
            return Err(format!(
                "`except` of `{}` names at most {EXCEPT_MAX} paths; the upstream answers `{path}`",
                self.path
            ));
        }
        self.except.push(path.to_owned());
        Ok(())
    }

    /// Whether the rule passes on requests for one of these paths.
    fn passes(&self, paths: &[String]) -> bool {
        paths.iter().any(|path| {
            let is_excepted = self.except.iter().any(|except| covers(except, path));
            !is_excepted && overlaps(&self.path, path)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        site.remove_slashes("*");
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
