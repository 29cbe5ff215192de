//! Who may request a path: one access rule, and what two of them say together.

use crate::fate::Fate;
use crate::pattern::covers;
use crate::report::At;
use crate::value::contains;

/// Longest text of a fixed answer, in bytes.
const TEXT_MAX: usize = 64 << 10;

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
    /// The users of this file who are admitted; empty: all of them.
    pub(crate) users: Vec<String>,
    pub(crate) realm: Option<String>,
    pub(crate) any: bool,
    /// URL of the server that decides, and the fields that upstreams get from its answer.
    pub(crate) auth: Option<(String, Vec<String>)>,
    /// Whether the path is the pattern of an expression that does not match the shortest path of the pattern, as `^/a/.+`.
    pub(crate) is_filled: bool,
    /// Of Apache: kind and depth of the section. Apache applies sections of higher ranks later.
    pub(crate) rank: (u8, usize),
    /// Of Apache: whether lines `Require` say it, and whether lines `Allow` and `Deny` do. Sections inherit each of them apart.
    pub(crate) parts: (bool, bool),
    /// The text that clients get instead of files. The rule refuses all of them, and becomes a fixed answer in the end.
    pub(crate) text: Option<FixedText>,
}

/// A status with a text, or without content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FixedText {
    pub(crate) status: u16,
    pub(crate) text: String,
    pub(crate) media_type: String,
    /// The directives that say so.
    pub(crate) said: Vec<(At, String)>,
    /// What differs in the result.
    pub(crate) differs: Option<&'static str>,
}

impl FixedText {
    /// A text that Weir can answer with.
    ///
    /// # Errors
    /// Why it cannot.
    pub(crate) fn new(
        status: u16,
        text: &str,
        media_type: &str,
        said: Vec<(At, String)>,
    ) -> Result<FixedText, String> {
        if !matches!(status, 200..=205 | 207..=299) {
            return Err(format!("Weir has no fixed answer with status {status}"));
        }
        if text.len() > TEXT_MAX {
            return Err(format!("the text of a fixed answer has at most {TEXT_MAX} bytes"));
        }
        Ok(FixedText {
            status,
            text: match status {
                204 | 205 => String::new(),
                _ => text.to_owned(),
            },
            media_type: media_type.to_owned(),
            said,
            differs: None,
        })
    }
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
    pub(crate) fn is_for_everyone(&self) -> bool {
        let is_all = self.allow.is_empty() || self.allow == ["all"];
        is_all && self.deny.is_empty() && self.htpasswd.is_none() && self.auth.is_none()
    }

    /// Whether all clients that this rule admits also satisfy the other one, as far as the texts of both show it.
    pub(crate) fn satisfies(&self, other: &Access) -> bool {
        let is_unchanged = |both: Access| {
            let realm = self.realm.clone();
            Access { realm, ..both } == *self
        };
        self.is_for_nobody() || other.is_for_everyone() || self.and(other).is_ok_and(is_unchanged)
    }

    /// The rule, for the paths of this one, whose clients satisfy both. Where no one rule says that exactly, it admits fewer.
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
        let users: Vec<String> = match (&self.users[..], &other.users[..]) {
            (own, []) => own.to_vec(),
            ([], other) => other.to_vec(),
            (own, other) => own.iter().filter(|name| other.contains(name)).cloned().collect(),
        };
        if users.is_empty() && !(self.users.is_empty() && other.users.is_empty()) {
            return Err("ask for passwords of their own users");
        }
        let auth = match (&self.auth, &other.auth) {
            (Some(own), Some(other)) if own != other => return Err("ask a server"),
            (own, other) => own.clone().or_else(|| other.clone()),
        };
        let asks_alike =
            self.htpasswd == other.htpasswd && self.users == other.users && self.auth == other.auth;
        // Otherwise, a password alone would avoid what the other rule asks for.
        let is_any_kept = match (self.any, other.any) {
            (true, true) => asks_alike,
            (true, false) => other.is_for_everyone(),
            (false, true) => self.is_for_everyone(),
            (false, false) => false,
        };
        Ok(Access {
            any: is_any_kept && !allow.is_empty(),
            allow,
            deny,
            htpasswd: only(&self.htpasswd, &other.htpasswd)?,
            users,
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An access rule for `path`, for tests here and of the gate.
    pub(crate) fn rule(path: &str, allow: &[&str], deny: &[&str], htpasswd: bool) -> Access {
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
    fn users_of_both_rules_are_named_by_both() {
        let of = |path: &str, users: &[&str]| Access {
            users: users.iter().map(|name| (*name).to_owned()).collect(),
            ..rule(path, &[], &[], true)
        };
        let none = rule("/*", &["all"], &[], false);
        for (one, other, users) in [
            (of("/a", &["ann"]), of("/*", &[]), Ok(of("/a", &["ann"]))),
            (of("/a", &[]), of("/*", &["ann"]), Ok(of("/a", &["ann"]))),
            (
                of("/a", &["ann", "bob"]),
                of("/*", &["eve", "bob"]),
                Ok(of("/a", &["bob"])),
            ),
            (
                of("/a", &["ann"]),
                of("/*", &["bob"]),
                Err("ask for passwords of their own users"),
            ),
        ] {
            assert_eq!(one.and(&other), users, "{one:?} {other:?}");
        }
        assert!(of("/a", &["ann"]).satisfies(&of("/*", &["bob", "ann"])));
        assert!(!of("/a", &[]).satisfies(&of("/*", &["ann"])));
        assert!(of("/a", &["ann"]).satisfies(&none));
    }

    #[test]
    fn a_password_alone_avoids_no_network_of_the_other_rule() {
        let any = |path: &str, allow: &[&str]| Access {
            any: true,
            ..rule(path, allow, &[], true)
        };
        for (one, other, is_any) in [
            (
                any("/a", &["10.0.0.0/8"]),
                rule("/*", &["10.1.0.0/16"], &[], false),
                false,
            ),
            (
                rule("/a", &["10.1.0.0/16"], &[], false),
                any("/*", &["10.0.0.0/8"]),
                false,
            ),
            (any("/a", &["10.0.0.0/8"]), rule("/*", &[], &[], true), false),
            (any("/a", &["10.1.0.0/16"]), any("/*", &["10.0.0.0/8"]), true),
            (
                any("/a", &["10.1.0.0/16"]),
                rule("/*", &["all"], &[], false),
                true,
            ),
            (
                rule("/a", &["all"], &[], false),
                any("/*", &["10.1.0.0/16"]),
                true,
            ),
        ] {
            let both = one.and(&other).expect("one rule");
            assert_eq!(both.any, is_any, "{one:?} {other:?}");
            assert_eq!(both.htpasswd.as_deref(), Some("users"), "{one:?} {other:?}");
        }
    }
}
