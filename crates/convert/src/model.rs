//! The configuration of Weir as the converters build it. `write` turns it into TOML.

use crate::pattern::covers;
use std::collections::BTreeMap;

/// Most paths that a rule for upstreams leaves out.
const EXCEPT_MAX: usize = 100;

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
    /// File of the authorities of client certificates, and whether certificates are optional.
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
}

impl Server {
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

/// What a site says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) names: Vec<String>,
    pub(crate) root: Option<String>,
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
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) limits: Vec<Limit>,
}

impl Site {
    /// All header rules: those of every response first, because later ones replace their lines.
    pub(crate) fn all_header_rules(&self) -> Vec<HeaderRule> {
        let everywhere = (!self.header_always.is_empty()).then(|| HeaderRule {
            path: "*".to_owned(),
            header: self.header_always.clone(),
            always: true,
        });
        everywhere
            .into_iter()
            .chain(self.header_rules.iter().cloned())
            .collect()
    }

    /// Leaves paths out of the rules for upstreams that would cover them.
    pub(crate) fn keep_from_upstreams(&mut self, paths: &[String]) {
        for rule in &mut self.proxies {
            for path in paths
                .iter()
                .filter(|path| **path != rule.path && covers(&rule.path, path))
            {
                if !rule.except.contains(path) && rule.except.len() < EXCEPT_MAX {
                    rule.except.push(path.clone());
                }
            }
        }
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
            self.tried.push(Tried {
                path: path.to_owned(),
                files: files.to_vec(),
                slash: None,
            });
            return;
        };
        for file in files {
            if !rule.files.contains(file) && rule.files.len() < TRIED_MAX {
                rule.files.push(file.clone());
            }
        }
        rule.files.sort_by_key(|file| !file.starts_with('$'));
    }

    /// Orders access rules so that the first one that covers a path is the right one: refusals of everyone first, then
    /// narrower paths before wider ones. With `adds_up`, a client must also satisfy the wider rules, as in Caddy.
    ///
    /// # Errors
    /// Two rules with networks of their own, which Weir cannot require both. The rules are in order all the same.
    pub(crate) fn order_access(&mut self, adds_up: bool) -> Result<(), String> {
        let mut outcome = Ok(());
        if adds_up {
            self.join_access();
        }
        let rules = self.access.clone();
        for rule in self
            .access
            .iter_mut()
            .filter(|rule| adds_up && !rule.is_for_nobody())
        {
            for wider in rules
                .iter()
                .filter(|wider| wider.path != rule.path && covers(&wider.path, &rule.path))
            {
                for network in &wider.deny {
                    if !rule.deny.contains(network) {
                        rule.deny.push(network.clone());
                    }
                }
                if rule.allow.is_empty() {
                    rule.allow.clone_from(&wider.allow);
                } else if !wider.allow.is_empty() && wider.allow != rule.allow {
                    outcome = Err(format!(
                        "`{}` and `{}` both name networks, and Weir applies those of one rule",
                        rule.path, wider.path
                    ));
                }
                if rule.htpasswd.is_none() {
                    rule.htpasswd.clone_from(&wider.htpasswd);
                    rule.realm.clone_from(&wider.realm);
                }
                if rule.auth.is_none() {
                    rule.auth.clone_from(&wider.auth);
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

    /// Makes one rule of those for the same path that a client must all satisfy, where one can say what both say.
    fn join_access(&mut self) {
        let mut joined: Vec<Access> = Vec::new();
        for rule in std::mem::take(&mut self.access) {
            let twin = joined
                .iter_mut()
                .find(|known| known.path == rule.path && known.has_room_for(&rule));
            let Some(twin) = twin else {
                joined.push(rule);
                continue;
            };
            // One of the two has networks at most.
            twin.allow.extend(rule.allow);
            twin.deny.extend(rule.deny);
            twin.htpasswd = twin.htpasswd.take().or(rule.htpasswd);
            twin.realm = twin.realm.take().or(rule.realm);
            twin.auth = twin.auth.take().or(rule.auth);
        }
        self.access = joined;
    }

    /// Sets the type of an extension; the last one stays.
    pub(crate) fn media_type(&mut self, extension: &str, value: &str) {
        let extension = extension.trim_start_matches('.').to_ascii_lowercase();
        self.types.retain(|(known, _)| *known != extension);
        self.types.push((extension, value.to_owned()));
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderRule {
    pub(crate) path: String,
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
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    pub(crate) htpasswd: Option<String>,
    pub(crate) realm: Option<String>,
    pub(crate) any: bool,
    /// URL of the server that decides, and the fields that upstreams get from its answer.
    pub(crate) auth: Option<(String, Vec<String>)>,
}

impl Access {
    /// Whether no client is admitted.
    pub(crate) fn is_for_nobody(&self) -> bool {
        self.allow.is_empty() && self.deny == ["all"]
    }

    /// Whether this rule can also say what another one says: neither refuses everyone, and each condition is said once.
    fn has_room_for(&self, other: &Access) -> bool {
        let nobody = self.is_for_nobody() || other.is_for_nobody() || self.any || other.any;
        let networks = |rule: &Access| !rule.allow.is_empty() || !rule.deny.is_empty();
        !(nobody
            || networks(self) && networks(other)
            || self.htpasswd.is_some() && other.htpasswd.is_some()
            || self.auth.is_some() && other.auth.is_some())
    }

    /// Nobody may request the path.
    pub(crate) fn nobody(path: &str) -> Access {
        Access {
            path: path.to_owned(),
            deny: vec!["all".to_owned()],
            ..Access::default()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) status: u16,
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
        assert_eq!(site.order_access(true), Ok(()));
        assert_eq!(
            site.access,
            [
                rule("/secret/*", &[], &["all"], false),
                rule("/admin/*", &["10.0.0.0/8"], &[], true),
                rule("*", &["10.0.0.0/8"], &[], false),
            ]
        );
        site.access.push(rule("/far/*", &["192.0.2.0/24"], &[], false));
        assert!(site.order_access(true).unwrap_err().contains("`/far/*` and `*`"));
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
        assert_eq!(site.order_access(true), Ok(()));
        let joined = Access {
            auth: auth.auth,
            ..rule("*", &["10.0.0.0/8"], &[], true)
        };
        assert_eq!(site.access, [joined]);
        // A refusal stays a rule of its own.
        site.access.push(rule("*", &[], &["all"], false));
        assert_eq!(site.order_access(true), Ok(()));
        assert_eq!(site.access.len(), 2);
        assert!(site.access[0].is_for_nobody());
    }

    #[test]
    fn files_for_one_path_are_one_rule() {
        let mut site = Site::default();
        let files = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        site.try_files("*", &files(&["$path", "/index.html"]));
        site.try_files("*", &files(&["$path", "$path.html"]));
        assert_eq!(site.tried.len(), 1);
        assert_eq!(site.tried[0].files, ["$path", "$path.html", "/index.html"]);
        for n in 0..TRIED_MAX {
            site.try_files("*", &[format!("/{n}")]);
        }
        assert_eq!(site.tried[0].files.len(), TRIED_MAX);
    }
}
