//! `allow`, `deny`, `auth_basic`, `auth_request` and `satisfy` of one level, and the rule that they become. If a check cannot be
//! carried over, the rule admits nobody.

use crate::access;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::value::{contains, network};
use std::collections::BTreeMap;

/// What follows the reason why a check is lost.
pub(super) const DENIED: &str = "the result denies these paths";

/// Where a check gets its answer.
#[derive(Clone, Debug)]
enum Source {
    /// The file of users, or the URL of the server that decides.
    At(String),
    /// Weir has none like it.
    Lost,
}

/// Whether a directive that the converter does not know decides about clients, by its name: one of a module.
pub(super) fn is_check(name: &str) -> bool {
    let of_module = name
        .strip_prefix("auth_")
        .is_some_and(|rest| !rest.contains('_') && !matches!(rest, "basic" | "request" | "delay" | "http"));
    of_module || name.starts_with("access_by_")
}

/// What a level says about access; what it does not say, it inherits.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    /// Networks in order, with whether they are admitted.
    networks: Option<Vec<(bool, String)>>,
    realm: Option<Option<String>>,
    file: Option<Source>,
    any: Option<bool>,
    /// The server that decides; `None` inside: nobody is asked.
    auth: Option<Option<Source>>,
    /// Whether a check of a module that the converter does not know is on.
    unknown: Option<bool>,
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

    /// Takes over the locations that the level around knows.
    pub(super) fn know_servers(&mut self, around: &Access) {
        self.servers.clone_from(&around.servers);
    }

    /// The URL that `auth_request` with this path asks. `None`: the result has no form for it.
    pub(super) fn server(&self, path: &str) -> Option<&str> {
        let url = self.servers.get(path)?;
        (!url.contains("unix:")).then_some(url)
    }

    /// Reads a directive. `None`: it is none of access.
    pub(super) fn read(&mut self, directive: &Directive) -> Option<Fate> {
        let arg = directive.arg(0);
        let lost = |why: &str| Fate::missing(format!("{why}; {DENIED}"));
        Some(match directive.name.as_str() {
            "allow" | "deny" => {
                let admits = directive.name == "allow";
                let network = match arg {
                    "unix:" => Some("unix".to_owned()),
                    arg => network(arg),
                };
                match network {
                    Some(network) => {
                        self.networks.get_or_insert_default().push((admits, network));
                        Fate::Carried
                    }
                    None if admits => Fate::missing(format!("`{arg}` is not a network in Weir")),
                    None => {
                        let networks = self.networks.get_or_insert_default();
                        networks.push((false, "all".to_owned()));
                        Fate::missing(format!(
                            "`{arg}` is not a network in Weir; the result denies all clients that no line before it admits"
                        ))
                    }
                }
            }
            "auth_basic" if arg == "off" => {
                self.realm = Some(None);
                Fate::Carried
            }
            "auth_basic" if arg.contains('$') => {
                self.realm = Some(Some("Restricted".to_owned()));
                Fate::changed("Weir has no variables: it always asks for a password, with a fixed realm")
            }
            "auth_basic" => {
                self.realm = Some(Some(arg.to_owned()));
                Fate::Carried
            }
            "auth_basic_user_file" if arg.contains('$') => {
                self.file = Some(Source::Lost);
                lost("Weir has no variables: the file of users has a fixed name")
            }
            "auth_basic_user_file" => {
                self.file = Some(Source::At(arg.to_owned()));
                Fate::changed(
                    "Weir accepts bcrypt, SHA-256-crypt, SHA-512-crypt and `$apr1$`; it rejects other hashes and plain passwords at start",
                )
            }
            "auth_request" if arg == "off" => {
                self.auth = Some(None);
                Fate::Carried
            }
            "auth_request" => match self.servers.get(arg) {
                Some(url) if !url.contains("unix:") => {
                    self.auth = Some(Some(Source::At(url.clone())));
                    Fate::changed(
                        "Weir asks with GET, and describes the request in `X-Forwarded-Uri` and others",
                    )
                }
                found => {
                    let why = match found {
                        Some(_) => "write `auth` with this socket by hand",
                        None => "no location of this server passes this path to a fixed URL",
                    };
                    self.auth = Some(Some(Source::Lost));
                    lost(why)
                }
            },
            "auth_request_set" => Fate::missing("`copy` names fields that upstreams get from the answer"),
            "satisfy" => {
                self.any = Some(arg == "any");
                Fate::Carried
            }
            name if is_check(name) => {
                self.unknown = Some(arg != "off");
                match arg {
                    "off" => Fate::Carried,
                    _ => lost("the converter does not know this directive, which limits access by its name"),
                }
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
            || self.unknown.is_some()
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
            unknown: self.unknown.or(around.unknown),
            servers: BTreeMap::new(),
        }
    }

    /// The rule for a path.
    pub(super) fn rule(&self, path: &str) -> access::Access {
        let mut networks: Vec<(bool, &str)> = Vec::new();
        for (admits, network) in self.networks.iter().flatten() {
            // In nginx, the first line that is about a client decides; in Weir, the longest prefix.
            let is_decided = |(other, known): &(bool, &str)| other != admits && contains(known, network);
            if !networks.iter().any(is_decided) {
                networks.push((*admits, network.as_str()));
            }
            if network == "all" {
                break;
            }
        }
        let of = |admits: bool| {
            let all = networks.iter().filter(|(admitted, _)| *admitted == admits);
            all.map(|(_, network)| (*network).to_owned()).collect::<Vec<_>>()
        };
        let (mut allow, mut deny) = (of(true), of(false));
        let realm = self.realm.clone().flatten();
        let file = realm.as_ref().and(self.file.as_ref());
        let auth = self.auth.as_ref().and_then(Option::as_ref);
        let is_lost = self.unknown == Some(true)
            || matches!(file, Some(Source::Lost))
            || matches!(auth, Some(Source::Lost));
        let is_asked = is_lost || file.is_some() || auth.is_some();
        let any = self.any == Some(true) && is_asked;
        // A client that no network names is admitted unless there is an `allow`. With `satisfy any`, it must do what else the
        // level asks for.
        match networks.iter().find(|(_, network)| *network == "all") {
            Some((true, _)) => allow.clear(),
            Some((false, _)) if !allow.is_empty() => deny.retain(|network| network != "all"),
            _ if !allow.is_empty() && !any => allow.push("all".to_owned()),
            _ => {}
        }
        allow.dedup();
        let any = any && !allow.is_empty();
        if is_lost && !any {
            return access::Access::nobody(path);
        }
        let said = |source: Option<&Source>| match source {
            Some(Source::At(text)) if !is_lost => Some(text.clone()),
            _ => None,
        };
        let (htpasswd, auth) = (said(file), said(auth));
        let any = any && !is_lost;
        if allow.is_empty() && deny.is_empty() && htpasswd.is_none() && auth.is_none() {
            allow.push("all".to_owned());
        }
        access::Access {
            conditions: Vec::new(),
            path: path.to_owned(),
            allow,
            deny,
            status: None,
            realm: htpasswd.as_ref().and(realm),
            htpasswd,
            users: Vec::new(),
            any,
            auth: auth.map(|url| (url, Vec::new())),
            is_filled: false,
            rank: (0, 0),
            parts: (false, false),
            text: None,
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
            // No client gets as far as these lines.
            (&[(false, "all"), (true, "10.0.0.1")], &[], &["all"]),
            (
                &[
                    (false, "10.0.0.0/8"),
                    (true, "10.0.0.1"),
                    (true, "192.0.2.1"),
                    (false, "all"),
                ],
                &["192.0.2.1"],
                &["10.0.0.0/8"],
            ),
        ] {
            assert_eq!(rule(networks), (texts(allow), texts(deny)), "{networks:?}");
        }
    }

    fn level(lines: &[&[&str]]) -> Access {
        let mut access = Access::default();
        for line in lines {
            let (name, args) = line.split_first().expect("a name");
            access.read(&Directive {
                at: crate::report::At {
                    file: "n".into(),
                    line: 1,
                },
                name: (*name).to_owned(),
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
                block: None,
            });
        }
        access
    }

    #[test]
    fn a_lost_check_admits_nobody() {
        let allowed = ["allow", "10.0.0.0/8"];
        for lines in [
            &[&["auth_basic", "x"][..], &["auth_basic_user_file", "/u/$host"]][..],
            &[&["auth_basic", "$realm"], &["auth_basic_user_file", "/u/$host"]],
            &[&["auth_request", "/nowhere"]],
            &[&["auth_jwt", "area"]],
            &[&["access_by_lua_block"]],
            &[&["deny", "bad.test"]],
            &[&allowed, &["auth_jwt", "area"]],
        ] {
            assert!(level(lines).rule("/*").is_for_nobody(), "{lines:?}");
            // A level inside inherits it, and may lift it.
            let inside = Access::default().over(&level(lines));
            assert!(inside.rule("/*").is_for_nobody(), "{lines:?}");
        }
        let lifted = level(&[&["auth_jwt", "off"]]).over(&level(&[&["auth_jwt", "area"]]));
        assert_eq!(lifted.rule("/*").allow, ["all"]);
        // Options of a check are none, and a file without a realm asks for nothing.
        for lines in [
            &[&["auth_delay", "1s"][..]][..],
            &[&["auth_basic_user_file", "/u/$host"]],
        ] {
            assert_eq!(level(lines).rule("/*").allow, ["all"], "{lines:?}");
        }
        // With `satisfy any`, the networks are enough.
        let rule = level(&[&["satisfy", "any"], &allowed, &["auth_jwt", "area"]]).rule("/*");
        assert_eq!(
            (&rule.allow[..], rule.any),
            (&["10.0.0.0/8".to_owned()][..], false)
        );
    }

    #[test]
    fn any_check_is_enough_only_for_networks_that_are_named() {
        let asked = [&["auth_basic", "x"][..], &["auth_basic_user_file", "/u"]];
        let with = |lines: &[&[&str]]| level(&[&asked[..], lines].concat()).rule("/*");
        let rule = with(&[&["satisfy", "any"], &["allow", "10.0.0.0/8"]]);
        assert_eq!(
            (&rule.allow[..], rule.any),
            (&["10.0.0.0/8".to_owned()][..], true)
        );
        let rule = with(&[&["satisfy", "any"]]);
        assert!(!rule.any && rule.htpasswd.is_some());
        let rule = with(&[&["allow", "unix:"], &["deny", "all"]]);
        assert_eq!(rule.allow, ["unix"]);
    }
}
