//! Upper and lower case in paths. In those of access rules, nginx and Apache httpd tell them apart; Weir does not, because some file
//! systems and upstreams do not either. Decides which rules must therefore admit fewer clients, and reports which ones admit more.
//! In the paths of upstreams, mounts and texts, Weir tells them apart, and Caddy does not: these are reported.

use crate::access::Access;
use crate::fate::Fate;
use crate::model::{Server, Site};
use crate::pattern::overlaps;
use crate::report::{At, Report, named};

/// Joins rules whose paths differ in case alone, or puts one with conditions first, and reports exceptions that are also for other
/// spellings.
pub(crate) fn apply(server: &mut Server, file: &str, report: &mut Report) {
    for site in core::iter::once(&mut server.top).chain(&mut server.hosts) {
        let (at, shown) = site.place(file);
        for (one, other) in join_twins(site) {
            let why = "Weir ignores upper and lower case in access rules; clients must satisfy both rules";
            report.add(
                &at,
                &format!("`{one}` and `{other}` of {shown}"),
                Fate::changed(why),
            );
        }
        let paths = exceptions(site);
        if !paths.is_empty() {
            let why = format!(
                "Weir ignores upper and lower case in access rules: those for {} also admit clients to other spellings of these paths, \
                 which a later rule refuses to some clients",
                named(&paths)
            );
            report.add(&at, &format!("case of paths of {shown}"), Fate::changed(why));
        }
    }
}

/// Reports the upstreams, mounts and texts of Caddy's sites: Weir has them for one spelling of their paths.
pub(crate) fn note_caddy(server: &Server, file: &str, report: &mut Report) {
    // Names that are redirected to https are sites of their own by now.
    let mut noted: Vec<(At, String)> = Vec::new();
    for site in core::iter::once(&server.top).chain(&server.hosts) {
        let proxies = site.proxies.iter().map(|rule| &rule.path);
        let mounts = site.mounts.iter().map(|mount| &mount.path);
        let texts = site.access.iter().filter(|rule| rule.text.is_some());
        let texts = texts.map(|rule| &rule.path);
        let mut paths: Vec<String> = Vec::new();
        for path in proxies
            .chain(mounts)
            .chain(texts)
            .filter(|path| has_letters(path))
        {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        let place = site.place(file);
        if paths.is_empty() || noted.contains(&place) {
            continue;
        }
        let why = format!(
            "Caddy ignores upper and lower case in paths, and Weir does not for upstreams, mounts and fixed answers: other spellings of \
             {} get what the rules for other paths say",
            named(&paths)
        );
        let (at, shown) = &place;
        report.add(at, &format!("case of paths of {shown}"), Fate::changed(why));
        noted.push(place);
    }
}

fn has_letters(path: &str) -> bool {
    path.bytes().any(|b| b.is_ascii_alphabetic())
}

/// Puts refusals with conditions before rules that are about their paths in Weir alone, because these would decide first. Returns the
/// paths of both.
fn precede_twins(rules: &mut [Access]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for later in 0..rules.len() {
        let next = &rules[later];
        if next.conditions.is_empty() || !next.is_for_nobody() {
            continue;
        }
        let lower = next.path.to_ascii_lowercase();
        let is_twin = |rule: &Access| {
            let decides = rule.conditions.is_empty() && !rule.is_for_nobody();
            decides && share(&rule.path.to_ascii_lowercase(), &lower) && !share(&rule.path, &next.path)
        };
        if let Some(at) = rules[..later].iter().position(is_twin) {
            found.push((rules[at].path.clone(), next.path.clone()));
            rules[at..=later].rotate_right(1);
        }
    }
    found
}

/// Makes the first of two rules admit only clients of both, if they are about the same paths in Weir alone. Returns the paths of
/// both.
fn join_twins(site: &mut Site) -> Vec<(String, String)> {
    let rules = &mut site.access;
    let mut found = precede_twins(rules);
    let lower: Vec<String> = rules.iter().map(|rule| rule.path.to_ascii_lowercase()).collect();
    // Without capitals, two paths are about the same ones in Weir and in the configuration.
    let capitals = |rule: &Access| rule.path.bytes().any(|b| b.is_ascii_uppercase());
    let has_capitals: Vec<bool> = rules.iter().map(capitals).collect();
    for (at, one) in lower.iter().enumerate() {
        for (later, other) in lower.iter().enumerate().skip(at + 1) {
            let may_be_twins = has_capitals[at] || has_capitals[later];
            if !may_be_twins || !share(one, other) || share(&rules[at].path, &rules[later].path) {
                continue;
            }
            let (rule, next) = (&rules[at], &rules[later]);
            if !rule.conditions.is_empty() || !next.conditions.is_empty() || rule.satisfies(next) {
                continue;
            }
            found.push((rule.path.clone(), next.path.clone()));
            let both = rule.and(next).unwrap_or_else(|_| Access::nobody(&rule.path));
            rules[at] = both;
        }
    }
    found
}

/// Whether two rules of these paths may be about the same path. One without a star is also about all paths below.
fn share(one: &str, other: &str) -> bool {
    let below = |path: &str| match path.contains('*') {
        true => path.to_owned(),
        false => format!("{}/*", path.trim_end_matches('/')),
    };
    let (all, others) = (below(one), below(other));
    overlaps(one, other) || overlaps(&all, other) || overlaps(one, &others) || overlaps(&all, &others)
}

/// The paths of rules that admit clients whom a later, wider rule refuses.
fn exceptions(site: &Site) -> Vec<String> {
    let rules = || site.access.iter().filter(|rule| rule.conditions.is_empty());
    let admits_more = |(at, rule): &(usize, &Access)| {
        if rule.is_for_nobody() {
            return false;
        }
        let next = rules().skip(at + 1).find(|next| next.applies_to(&rule.path));
        next.is_some_and(|next| !rule.satisfies(next))
    };
    let found = rules().enumerate().filter(admits_more);
    let paths = found.map(|(_, rule)| rule.path.clone());
    paths.filter(|path| has_letters(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tests::rule;

    /// The rules after [`apply`], and the reasons of its notes.
    fn applied(access: Vec<Access>) -> (Vec<Access>, Vec<String>) {
        let mut server = Server {
            top: Site {
                access,
                ..Site::default()
            },
            ..Server::default()
        };
        let mut report = Report::default();
        apply(&mut server, "site", &mut report);
        let notes = report.notes().iter().map(|note| note.fate.why().to_owned());
        (server.top.access, notes.collect())
    }

    #[test]
    fn the_first_of_two_spellings_admits_only_clients_of_both() {
        let all = rule("/Admin/*", &["all"], &[], false);
        for (first, second, expected) in [
            (
                all.clone(),
                rule("/admin/*", &["10.0.0.0/8"], &[], false),
                rule("/Admin/*", &["10.0.0.0/8"], &[], false),
            ),
            (
                all.clone(),
                rule("/admin/x", &[], &["all"], false),
                rule("/Admin/*", &[], &["all"], false),
            ),
            (
                rule("/Admin", &["192.0.2.1"], &[], false),
                rule("/admin/x", &["10.0.0.0/8"], &[], false),
                Access::nobody("/Admin"),
            ),
        ] {
            let (rules, notes) = applied(vec![first, second.clone()]);
            assert_eq!(rules, [expected, second]);
            assert_eq!(notes.len(), 1, "{notes:?}");
            assert!(notes[0].contains("must satisfy both"), "{notes:?}");
        }
        // These change nothing.
        for second in [
            rule("/other/*", &["10.0.0.0/8"], &[], false),
            rule("/admin/*", &["all"], &[], false),
        ] {
            let rules = vec![all.clone(), second];
            assert_eq!(applied(rules.clone()), (rules, Vec::new()));
        }
    }

    #[test]
    fn a_refusal_with_a_condition_holds_for_other_spellings() {
        let refusal = Access {
            conditions: vec!["header x".to_owned()],
            ..Access::nobody("/admin/*")
        };
        let other = rule("/Admin/*", &["all"], &[], false);
        let (rules, notes) = applied(vec![other.clone(), refusal.clone()]);
        assert_eq!(rules, [refusal.clone(), other]);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("must satisfy both"), "{notes:?}");
        // Of rules in one spelling, the first decides.
        let rules = vec![rule("/admin/a/*", &["all"], &[], false), refusal];
        assert_eq!(applied(rules.clone()), (rules, Vec::new()));
    }

    #[test]
    fn an_exception_is_one_for_all_spellings() {
        let closed = rule("/*", &[], &["all"], false);
        let (_, notes) = applied(vec![rule("/pub/*", &["all"], &[], false), closed.clone()]);
        assert!(notes[0].contains("`/pub/*` also admit"), "{notes:?}");
        let many = ["/a/*", "/b/*", "/c/*", "/d/*"].map(|path| rule(path, &["all"], &[], false));
        let (_, notes) = applied([many.to_vec(), vec![closed.clone()]].concat());
        assert!(
            notes[0].contains("`/a/*`, `/b/*`, `/c/*` and 1 more"),
            "{notes:?}"
        );
        for rules in [
            vec![rule("/1/*", &["all"], &[], false), closed],
            vec![
                rule("/a/*", &["10.1.0.0/16"], &[], true),
                rule("/*", &["10.0.0.0/8"], &[], false),
            ],
            vec![
                rule("/a/*", &[], &["all"], false),
                rule("/*", &["all"], &[], false),
            ],
        ] {
            assert_eq!(applied(rules).1, Vec::<String>::new());
        }
    }
}
