//! Which access rule of a site decides about a path: in Weir, the first that covers it. The rules that the servers apply together
//! become one.

use crate::access::Access;
use crate::condition::Sets;
use crate::model::{Proxy, Site};
use crate::pattern::{covers, covers_all, meet, overlaps, shortest};

/// Most paths of one lost rule that the report names.
const NAMED_MAX: usize = 8;

impl Site {
    /// All access rules: refusals with conditions first, and behind all others what holds for their paths without the conditions.
    pub(crate) fn all_access(&self) -> Vec<Access> {
        let covers_everything = |rule: &Access| rule.conditions.is_empty() && covers_all(&rule.path);
        // No rule has an effect behind one for all paths, and Weir accepts none there.
        let end = self.access.iter().position(covers_everything);
        let reached = &self.access[..end.map_or(self.access.len(), |at| at + 1)];
        // A first rule that refuses everything leaves nothing to the conditions.
        let closes = |rule: &Access| covers_everything(rule) && rule.is_for_nobody();
        let refusals: &[Access] = match reached.first().is_some_and(closes) {
            true => &[],
            false => &self.refusals,
        };
        let mut all: Vec<Access> = Vec::new();
        for rule in refusals.iter().chain(reached) {
            // The first rule that covers a path and whose conditions hold decides.
            let decides = |known: &Access| known.conditions.is_empty() && hides(known, &rule.path);
            if rule.conditions.is_empty() || !all.iter().any(decides) {
                all.push(rule.clone());
            }
        }
        // Weir asks for a later rule without conditions.
        let mut others: Vec<Access> = Vec::new();
        let conditional = all.iter().enumerate();
        for (at, conditional) in conditional.filter(|(_, rule)| !rule.conditions.is_empty()) {
            let holds = |rule: &Access| {
                rule.conditions.is_empty() && (covers_all(&rule.path) || rule.path == conditional.path)
            };
            let mut behind = all[at + 1..].iter().chain(&others);
            if !behind.any(holds) {
                others.push(Access {
                    path: conditional.path.clone(),
                    allow: vec!["all".to_owned()],
                    ..Access::default()
                });
            }
        }
        all.extend(others);
        all
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
        // A text becomes a fixed answer, which refuses nobody.
        let is_last =
            |rule: &Access| rule.conditions.is_empty() && covers_all(&rule.path) && rule.text.is_none();
        if !self.access.iter().any(is_last) {
            self.access.push(only);
        }
    }

    /// Adds what later rules say about the paths below one without a star: its rule is also for these.
    pub(crate) fn fence(&mut self) {
        let rules = std::mem::take(&mut self.access);
        for (at, rule) in rules.iter().enumerate() {
            let is_single = !rule.path.contains('*') && !rule.path.ends_with('/');
            if is_single && !rule.is_for_nobody() {
                // A path with a slash at its end covers what is below it, and not the path without.
                let below = format!("{}/*", rule.path);
                let path = format!("{}/", rule.path);
                let behind = rules.get(at + 1..).unwrap_or_default();
                for next in behind {
                    if next.applies_to(&below) {
                        self.access.push(narrowed(next, path.clone()));
                        // One with conditions decides about some requests only.
                        match next.conditions.is_empty() {
                            true => break,
                            false => continue,
                        }
                    }
                    let shared = meet(&next.path, &below).into_iter();
                    self.access.extend(shared.map(|path| narrowed(next, path)));
                }
            }
            self.access.push(rule.clone());
        }
    }

    /// Leaves out the name of a folder where a later rule admits fewer clients or requests to it. A rule for `/a/*` is also for `/a`,
    /// and a `location /a/` of nginx says nothing about `/a`.
    pub(crate) fn leave_names_of_folders(&mut self) {
        for at in 0..self.access.len() {
            let rule = &self.access[at];
            let is_narrow = |name: &&str| !name.is_empty() && !name.contains('*');
            let Some(name) = rule.path.strip_suffix("/*").filter(is_narrow) else {
                continue;
            };
            let mut behind = self.access[at + 1..].iter();
            let next = behind.find(|next| next.applies_to(name));
            let admits_more = next.is_some_and(|next| !rule.satisfies(next));
            if admits_more && rule.conditions.is_empty() {
                // With a slash at its end, a path covers what is below it, and not the path without.
                let path = format!("{name}/");
                self.access[at].path = path;
            }
        }
    }

    /// Admits nobody to the shortest path of a pattern whom a later rule refuses, if the expression does not match that path. Returns
    /// the patterns of the rules that admit fewer clients for it.
    pub(crate) fn keep_shortest(&mut self) -> Vec<String> {
        let mut narrowed = Vec::new();
        // The last ones first, so that those behind are complete.
        for at in (0..self.access.len()).rev() {
            let rule = &self.access[at];
            if !rule.is_filled {
                continue;
            }
            let path = shortest(&rule.path);
            let decides = |next: &Access| {
                let leaves_it_out = next.is_filled && shortest(&next.path) == path;
                next.conditions.is_empty() && next.applies_to(&path) && !leaves_it_out
            };
            let behind = &self.access[at + 1..];
            let end = behind.iter().position(decides);
            let next = end.and_then(|end| behind.get(end));
            let next = next.filter(|next| !rule.satisfies(next));
            let both = next.map(|next| rule.and(next).unwrap_or_else(|_| Access::nobody(&rule.path)));
            // Requests that are refused there are refused for all paths of the pattern.
            let conditional = behind[..end.unwrap_or(behind.len())].iter();
            let conditional = conditional.filter(|one| !one.conditions.is_empty() && one.applies_to(&path));
            let conditional = conditional.map(|one| Access {
                path: rule.path.clone(),
                ..one.clone()
            });
            let conditional: Vec<Access> = conditional.collect();
            if both.is_none() && conditional.is_empty() {
                continue;
            }
            narrowed.push(rule.path.clone());
            if let Some(both) = both {
                self.access[at] = Access {
                    rank: rule.rank,
                    ..both
                };
            }
            self.access.splice(at..at, conditional);
        }
        narrowed
    }

    /// Refuses everyone these paths, whatever other rules say: what limits access to them is lost.
    pub(crate) fn close(&mut self, paths: &[String]) {
        for path in paths {
            let rule = Access::nobody(path);
            self.access.retain(|known| *known != rule);
            self.access.insert(0, rule);
        }
    }

    /// Refuses everyone these paths, which are only some of those that a lost rule refuses. Adds them to the reason why it is lost.
    pub(crate) fn close_some(&mut self, paths: &[String], why: String) -> String {
        self.refuse_some(paths, 403, why)
    }

    /// As [`Site::close_some`], with the status of the lost rule.
    pub(crate) fn refuse_some(&mut self, paths: &[String], status: u16, why: String) -> String {
        let named = paths.get(..NAMED_MAX).unwrap_or(paths).join("`, `");
        let more = match paths.len().saturating_sub(NAMED_MAX) {
            _ if paths.is_empty() => return why,
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        self.access
            .extend(paths.iter().map(|path| Access::refusal(path, status)));
        format!("{why}; of its paths, the result denies only `{named}`{more}")
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
        rules.reverse();
        for at in 0..rules.len() {
            let rule = &rules[at];
            let lacks = |other: &&Access| {
                let is_part = match rule.parts {
                    (true, false) => other.parts.1,
                    (false, true) => other.parts.0,
                    _ => false,
                };
                is_part && covers(&other.path, &rule.path)
            };
            // With `Satisfy any`, its own part is enough, unless it replaces `Satisfy` with `Allow` and `Deny`.
            let inherited = rules[at + 1..].iter().find(lacks);
            let inherited = inherited.filter(|other| !other.any || rule.parts.1);
            if let Some(other) = inherited {
                let both = rule.and(other).unwrap_or_else(|_| Access::nobody(&rule.path));
                rules[at] = Access {
                    rank: rule.rank,
                    any: rule.any && both.any,
                    ..both
                };
            }
        }
        // The last ones first, so that those around are complete.
        for at in (0..rules.len()).rev() {
            let rule = &rules[at];
            let mut behind = rules[at + 1..].iter();
            let around = behind.find(|next| is_for_files_beside(rule) && covers(&next.path, &rule.path));
            if let Some(around) = around.filter(|around| !rule.satisfies(around)) {
                let both = rule.and(around).unwrap_or_else(|_| Access::nobody(&rule.path));
                rules[at] = Access {
                    rank: rule.rank,
                    ..both
                };
            }
        }
        self.access = rules;
        // One that is left out next may be about a folder that an expression leaves out.
        self.keep_shortest();
        for rule in std::mem::take(&mut self.access) {
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
            // Scripts are files: Apache applies the sections to them.
            .filter(|proxy| !has_others && !proxy.is_fastcgi && !proxy.is_in_section)
            .filter(|proxy| proxy.path.contains('*'))
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
                // Clients must satisfy the rule before they get a text.
                .filter(|wider| wider.text.is_none() && wider.path != path && covers(&wider.path, &path))
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
        for (path, both) in self.shared_paths() {
            let rule = both.unwrap_or_else(|why| {
                outcome = Err(why);
                Access::nobody(&path)
            });
            self.access.push(Access { path, ..rule });
        }
        // Nobody passes a rule that a wider one refuses to everyone.
        self.access.sort_by_key(|rule| {
            let wideness = rule.path.len() - usize::from(rule.path.ends_with('*'));
            (!rule.is_for_nobody(), core::cmp::Reverse(wideness))
        });
        outcome
    }

    /// The paths that two rules share although neither covers the other, with the rule for both.
    fn shared_paths(&self) -> Vec<(String, Result<Access, String>)> {
        let mut found: Vec<(String, Result<Access, String>)> = Vec::new();
        for (at, one) in self.access.iter().enumerate() {
            let others = self.access.get(at + 1..).unwrap_or_default();
            for other in others.iter().filter(|other| !covers(&one.path, &other.path)) {
                if covers(&other.path, &one.path) || one.is_for_nobody() || other.is_for_nobody() {
                    continue;
                }
                for path in meet(&one.path, &other.path) {
                    let is_known = self.access.iter().any(|known| known.path == path)
                        || found.iter().any(|(known, _)| *known == path);
                    if !is_known {
                        let both = one.and(other).map_err(|what| {
                            format!(
                                "`{}` and `{}` both {what}, and Weir applies one rule; the result denies `{path}`",
                                one.path, other.path
                            )
                        });
                        found.push((path, both));
                    }
                }
            }
        }
        found
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

/// A rule for some of the paths of another one.
fn narrowed(rule: &Access, path: String) -> Access {
    Access {
        is_filled: rule.is_filled && shortest(&rule.path) == shortest(&path),
        path,
        ..rule.clone()
    }
}

/// Whether Weir asks no later rule about the paths of a pattern, because this one covers them all. Weir ignores upper and lower case,
/// and a rule for `/a/*` is also for `/a`.
fn hides(rule: &Access, path: &str) -> bool {
    let lower = Access {
        path: rule.path.to_ascii_lowercase(),
        ..Access::default()
    };
    let path = path.to_ascii_lowercase();
    lower.applies_to(&path) || lower.path.strip_suffix("/*") == Some(&*path)
}

/// Whether the path of a section for folders also covers files beside them, as `/a*` covers `/a.txt`: the section is not about these.
fn is_for_files_beside(rule: &Access) -> bool {
    rule.rank.0 == Access::DIRECTORY && rule.path.ends_with('*') && !rule.path.ends_with("/*")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tests::rule;

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
    fn a_folder_is_not_its_name() {
        let closed = || rule("/*", &[], &["all"], false);
        for (path, wider, expected) in [
            ("/a/*", closed(), "/a/"),
            ("/a/*", rule("/b/*", &[], &["all"], false), "/a/*"),
            ("/a/*", rule("/a", &[], &["all"], false), "/a/"),
            ("/a/*", rule("/*", &["all"], &[], false), "/a/*"),
            ("/a*", closed(), "/a*"),
            ("/*/a/*", closed(), "/*/a/*"),
            ("/*", closed(), "/*"),
        ] {
            let mut site = Site {
                access: vec![rule(path, &["all"], &[], false), wider.clone()],
                ..Site::default()
            };
            site.leave_names_of_folders();
            assert_eq!(site.access[0].path, expected, "{path} {wider:?}");
            assert_eq!(site.access[1], wider);
        }
        // One that refuses more covers the name, too.
        let mut site = Site {
            access: vec![rule("/a/*", &[], &[], true), rule("/*", &["all"], &[], false)],
            ..Site::default()
        };
        site.leave_names_of_folders();
        assert_eq!(site.access[0].path, "/a/*");
    }

    #[test]
    fn a_folder_that_an_expression_leaves_out_keeps_its_rule() {
        let closed = || rule("/*", &[], &["all"], false);
        let filled = |path: &str, allow: &[&str]| Access {
            is_filled: true,
            ..rule(path, allow, &[], false)
        };
        let kept = |access: Vec<Access>| {
            let mut site = Site {
                access,
                ..Site::default()
            };
            let narrowed = site.keep_shortest();
            (narrowed, site.access.swap_remove(0))
        };
        let (narrowed, first) = kept(vec![filled("/a/*", &["all"]), closed()]);
        assert!(first.is_for_nobody(), "{first:?}");
        assert_eq!(narrowed, ["/a/*"]);
        let asked = rule("/*", &[], &[], true);
        let (_, first) = kept(vec![filled("/a/*", &["10.0.0.0/8"]), asked]);
        assert!(
            first.htpasswd.is_some() && first.allow == ["10.0.0.0/8"],
            "{first:?}"
        );
        // The first rule behind that is about the folder decides.
        let own = rule("/a*", &["all"], &[], false);
        for access in [
            vec![filled("/a/*", &["all"]), own.clone(), closed()],
            vec![filled("/a/*", &["all"])],
            vec![own, closed()],
        ] {
            let first = access[0].clone();
            assert_eq!(kept(access), (Vec::new(), first));
        }
        let other = rule("/a/b/*", &["all"], &[], false);
        let (_, first) = kept(vec![filled("/a/*", &["all"]), other, closed()]);
        assert!(first.is_for_nobody(), "{first:?}");
        // One that leaves it out, too, does not decide.
        let twin = filled("/a/*", &["10.0.0.0/8"]);
        let (_, first) = kept(vec![filled("/a/*", &["all"]), twin, closed()]);
        assert!(first.is_for_nobody(), "{first:?}");
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

    /// Refuses requests with a field.
    fn conditional(path: &str) -> Access {
        Access {
            conditions: vec!["header x".to_owned()],
            ..Access::nobody(path)
        }
    }

    #[test]
    fn refusals_with_conditions_hold_beside_what_is_added() {
        let site = |access: &[Access]| Site {
            access: access.to_vec(),
            ..Site::default()
        };
        // Other requests are limited to the networks.
        let mut local = site(&[conditional("/*")]);
        local.admit_only(&["127.0.0.0/8"]);
        assert_eq!(local.access[1].allow, ["127.0.0.0/8"]);
        // The name of a folder is refused as before, and so are the paths below a name.
        let open = |path: &str| rule(path, &["all"], &[], false);
        let mut named = site(&[open("/a/*"), conditional("/*")]);
        named.leave_names_of_folders();
        assert_eq!(named.access[0].path, "/a/");
        let mut fenced = site(&[open("/a"), conditional("/*"), rule("/*", &[], &[], true)]);
        fenced.fence();
        assert_eq!(
            fenced.access[..2],
            [conditional("/a/"), rule("/a/", &[], &[], true)]
        );
        let filled = Access {
            is_filled: true,
            ..open("/a/*")
        };
        // What is below a name has the same shortest path only if the pattern is for it alone.
        let around = Access {
            is_filled: true,
            ..open("/*")
        };
        for (behind, is_filled) in [(filled.clone(), true), (around, false)] {
            let mut fenced = site(&[open("/a"), behind]);
            fenced.fence();
            let (path, found) = (&*fenced.access[0].path, fenced.access[0].is_filled);
            assert_eq!((path, found), ("/a/", is_filled));
        }
        let mut kept = site(&[filled.clone(), conditional("/*")]);
        assert_eq!(kept.keep_shortest(), ["/a/*"]);
        assert_eq!(kept.access, [conditional("/a/*"), filled, conditional("/*")]);
    }

    #[test]
    fn a_rule_for_all_paths_stays_before_those_behind_it() {
        let mut site = Site {
            access: vec![
                rule("/a/*", &["10.0.0.0/8"], &[], false),
                rule("/*", &[], &["all"], false),
                rule("/b/*", &["all"], &[], false),
                conditional("/d/*"),
            ],
            ..Site::default()
        };
        site.refuse("/c/*", &Sets::one("header x"), 403);
        let paths = |site: &Site| -> Vec<String> {
            let rules = site.all_access().into_iter();
            rules.map(|rule| rule.path).collect()
        };
        // `/b/*` would admit clients whom the rule before it refuses.
        assert_eq!(paths(&site), ["/c/*", "/a/*", "/*"]);
        // A rule with conditions has an effect before others for its paths alone, and one behind it holds without the conditions.
        site.refusals.clear();
        site.access = vec![
            rule("/a/*", &["all"], &[], false),
            conditional("/a/*"),
            conditional("/b/*"),
        ];
        assert_eq!(paths(&site), ["/a/*", "/b/*", "/b/*"]);
        assert!(site.all_access()[2].is_for_everyone());
        // Nor behind one for the folder, or in another spelling: Weir rejects these, too.
        site.access = vec![
            rule("/a/*", &[], &["all"], false),
            conditional("/a"),
            conditional("/A/b"),
        ];
        assert_eq!(paths(&site), ["/a/*"]);
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
