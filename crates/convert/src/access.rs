//! Who may request a path: access rules, and which of them decides. In Weir, the first rule that covers a path does.

use crate::condition::Sets;
use crate::fate::Fate;
use crate::model::{Proxy, Site};
use crate::pattern::{covers, overlaps};
use crate::value::contains;

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

impl Site {
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
}
