//! `allow`, `deny`, `auth_basic` and `satisfy` of one level, and the rule that they become.

use crate::directive::Directive;
use crate::fate::Fate;
use crate::model;
use crate::value::network;
use std::collections::BTreeMap;

/// What a level says about access; what it does not say, it inherits.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    /// Networks in order, with whether they are admitted.
    networks: Option<Vec<(bool, String)>>,
    realm: Option<Option<String>>,
    file: Option<String>,
    any: Option<bool>,
    /// URL of the server that decides; `None` inside: nobody is asked.
    auth: Option<Option<String>>,
    /// Locations by path, with the URLs that they pass requests to.
    servers: BTreeMap<String, String>,
}

impl Access {
    /// Notes the locations whose servers `auth_request` may name.
    pub(super) fn note_servers(&mut self, block: &[Directive]) {
        for location in block.iter().filter(|one| one.name == "location") {
            let path = location.args.last().map_or("", |path| path);
            let passes = location.inner().iter().find(|one| one.name == "proxy_pass");
            if let Some(url) = passes.map(|one| one.arg(0)).filter(|url| !url.contains('$')) {
                let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
                // Without a path, the server is asked for that of the location.
                let url = match rest.contains('/') || rest.starts_with("unix:") {
                    true => url.to_owned(),
                    false => format!("{scheme}://{rest}{path}"),
                };
                self.servers.insert(path.to_owned(), url);
            }
        }
    }

    /// Reads a directive. `None`: it is none of access.
    pub(super) fn read(&mut self, directive: &Directive) -> Option<Fate> {
        let arg = directive.arg(0);
        Some(match directive.name.as_str() {
            "allow" | "deny" => match network(arg) {
                Some(network) => {
                    let admits = directive.name == "allow";
                    self.networks.get_or_insert_default().push((admits, network));
                    Fate::Carried
                }
                None if directive.name == "deny" => Fate::open(format!("`{arg}` is not a network in Weir")),
                None => Fate::missing(format!("`{arg}` is not a network in Weir")),
            },
            "auth_basic" if arg == "off" => {
                self.realm = Some(None);
                Fate::Carried
            }
            "auth_basic" if arg.contains('$') => {
                Fate::open("Weir has no variables: the realm is a fixed text")
            }
            "auth_basic" => {
                self.realm = Some(Some(arg.to_owned()));
                Fate::Carried
            }
            "auth_basic_user_file" if arg.contains('$') => Fate::open("Weir has no variables"),
            "auth_basic_user_file" => {
                self.file = Some(arg.to_owned());
                Fate::changed(
                    "Weir accepts bcrypt, SHA-256-crypt and SHA-512-crypt; it rejects `$apr1$`, MD5 and plain passwords at start",
                )
            }
            "auth_request" if arg == "off" => {
                self.auth = Some(None);
                Fate::Carried
            }
            "auth_request" => match self.servers.get(arg) {
                Some(url) if url.contains("unix:") => Fate::open("write `auth` with this socket by hand"),
                Some(url) => {
                    self.auth = Some(Some(url.clone()));
                    Fate::changed(
                        "Weir asks with GET, and describes the request in `X-Forwarded-Uri` and others",
                    )
                }
                None => Fate::open("no location of this server passes this path to a fixed URL"),
            },
            "auth_request_set" => Fate::missing("`copy` names fields that upstreams get from the answer"),
            "satisfy" => {
                self.any = Some(arg == "any");
                Fate::Carried
            }
            _ => return None,
        })
    }

    /// Whether the level says anything itself.
    pub(super) fn is_said(&self) -> bool {
        self.networks.is_some()
            || self.realm.is_some()
            || self.file.is_some()
            || self.any.is_some()
            || self.auth.is_some()
    }

    /// Whether nobody is admitted.
    pub(super) fn admits_nobody(&self) -> bool {
        matches!(self.networks.as_deref(), Some([(false, network)]) if network == "all")
    }

    /// This level over the one around it.
    pub(super) fn over(&self, around: &Access) -> Access {
        Access {
            networks: self.networks.clone().or_else(|| around.networks.clone()),
            realm: self.realm.clone().or_else(|| around.realm.clone()),
            file: self.file.clone().or_else(|| around.file.clone()),
            any: self.any.or(around.any),
            auth: self.auth.clone().or_else(|| around.auth.clone()),
            servers: BTreeMap::new(),
        }
    }

    /// The rule for a path.
    pub(super) fn rule(&self, path: &str) -> model::Access {
        let networks = self.networks.as_deref().unwrap_or_default();
        let of = |admits: bool| {
            let all = networks.iter().filter(|(admitted, _)| *admitted == admits);
            all.map(|(_, network)| network.clone()).collect::<Vec<_>>()
        };
        let (mut allow, mut deny) = (of(true), of(false));
        // A client that no network names is admitted unless there is an `allow`.
        match networks.iter().find(|(_, network)| network == "all") {
            Some((true, _)) => allow.clear(),
            Some((false, _)) if !allow.is_empty() => deny.retain(|network| network != "all"),
            _ if !allow.is_empty() => allow.push("all".to_owned()),
            _ => {}
        }
        allow.dedup();
        let realm = self.realm.clone().flatten();
        let htpasswd = realm.as_ref().and(self.file.clone());
        let any = self.any == Some(true) && htpasswd.is_some();
        let auth = self.auth.clone().flatten();
        if allow.is_empty() && deny.is_empty() && htpasswd.is_none() && auth.is_none() {
            allow.push("all".to_owned());
        }
        model::Access {
            conditions: Vec::new(),
            path: path.to_owned(),
            allow,
            deny,
            status: None,
            realm: htpasswd.as_ref().and(realm),
            htpasswd,
            any,
            auth: auth.map(|url| (url, Vec::new())),
            rank: (0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(networks: &[(bool, &str)]) -> (Vec<String>, Vec<String>) {
        let access = Access {
            networks: Some(
                networks
                    .iter()
                    .map(|(admits, text)| (*admits, (*text).to_owned()))
                    .collect(),
            ),
            ..Access::default()
        };
        let rule = access.rule("/*");
        (rule.allow, rule.deny)
    }

    #[test]
    fn the_last_entry_decides_about_all_others() {
        let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        for (networks, allow, deny) in [
            (
                &[(true, "10.0.0.0/8"), (false, "all")][..],
                &["10.0.0.0/8"][..],
                &[][..],
            ),
            (&[(false, "10.0.0.1"), (true, "all")], &[], &["10.0.0.1"]),
            (
                &[(false, "10.0.0.1"), (true, "10.0.0.0/8"), (false, "all")],
                &["10.0.0.0/8"],
                &["10.0.0.1"],
            ),
            (&[(false, "all")], &[], &["all"]),
            (&[(true, "10.0.0.1")], &["10.0.0.1", "all"], &[]),
            (&[(true, "all")], &["all"], &[]),
        ] {
            assert_eq!(rule(networks), (texts(allow), texts(deny)), "{networks:?}");
        }
    }
}
