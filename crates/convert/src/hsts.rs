//! `Strict-Transport-Security` belongs in responses over TLS alone (RFC 6797 section 7.2).

use crate::condition::CONDITIONS_MAX;
use crate::fate::Fate;
use crate::model::{HeaderRule, Server};
use crate::report::Report;

/// The condition of requests over TLS, to Weir or to a proxy that it trusts.
const OVER_TLS: &str = "scheme https";

/// If the server has TLS: sends the field over TLS only, although one host answers over TLS and in cleartext. Reports the lines of
/// rules that are for cleartext, and of those without room for a further condition.
pub(crate) fn apply(server: &mut Server, file: &str, report: &mut Report) {
    if server.secure.is_empty() && !server.has("domain") && !server.has("tls") {
        return;
    }
    for site in core::iter::once(&mut server.top).chain(&mut server.hosts) {
        let mut moved = Vec::new();
        for (lines, always) in [(&mut site.header, false), (&mut site.header_always, true)] {
            moved.push(HeaderRule {
                path: "*".to_owned(),
                conditions: vec![OVER_TLS.to_owned()],
                header: taken(lines),
                always,
            });
        }
        let (at, _) = site.place(file);
        for rule in &mut site.header_rules {
            let header = taken(&mut rule.header);
            if header.is_empty() {
                continue;
            }
            let mut conditions = rule.conditions.clone();
            let shown = format!("Strict-Transport-Security for `{}`", rule.path);
            if conditions.iter().any(|one| one == "scheme http") {
                let why = "the rule is for requests in cleartext, where clients ignore the field";
                report.add(&at, &shown, Fate::unneeded(why));
                continue;
            }
            let is_told = conditions
                .iter()
                .any(|one| one == OVER_TLS || one == "not scheme http");
            if !is_told && conditions.len() < CONDITIONS_MAX {
                conditions.push(OVER_TLS.to_owned());
            } else if !is_told {
                let why = format!(
                    "Weir also sends it in cleartext, where clients ignore it: a rule has at most {CONDITIONS_MAX} conditions"
                );
                report.add(&at, &shown, Fate::changed(why));
            }
            moved.push(HeaderRule {
                header,
                conditions,
                ..rule.clone()
            });
        }
        site.header_rules.extend(moved);
        site.header_rules.retain(|rule| !rule.header.is_empty());
    }
}

/// Takes the lines of the field.
fn taken(lines: &mut Vec<String>) -> Vec<String> {
    let is_it = |line: &String| {
        let name = line.split(':').next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case("strict-transport-security")
    };
    let (found, kept) = std::mem::take(lines).into_iter().partition(is_it);
    *lines = kept;
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(path: &str, conditions: &[&str], header: &[&str]) -> HeaderRule {
        HeaderRule {
            path: path.to_owned(),
            conditions: conditions.iter().map(|one| (*one).to_owned()).collect(),
            header: header.iter().map(|one| (*one).to_owned()).collect(),
            always: false,
        }
    }

    #[test]
    fn the_field_is_sent_over_tls_only() {
        let mut server = Server {
            secure: vec!["0.0.0.0:443".to_owned()],
            ..Server::default()
        };
        let line = "strict-transport-security: max-age=1";
        server.top.header = vec!["X-A: 1".to_owned(), line.to_owned()];
        server.top.header_rules = vec![
            rule("/a/*", &[], &[line, "X-B: 1"]),
            rule("/b/*", &["scheme https"], &[line]),
        ];
        apply(&mut server, "site", &mut Report::default());
        assert_eq!(server.top.header, ["X-A: 1"]);
        assert_eq!(
            server.top.header_rules,
            [
                rule("/a/*", &[], &["X-B: 1"]),
                rule("*", &[OVER_TLS], &[line]),
                rule("/a/*", &[OVER_TLS], &[line]),
                rule("/b/*", &[OVER_TLS], &[line]),
            ]
        );
    }

    #[test]
    fn a_server_without_tls_keeps_it() {
        // A proxy in front of it may speak TLS and say nothing about that.
        let mut server = Server::default();
        server.top.header_always = vec!["Strict-Transport-Security: max-age=1".to_owned()];
        let before = server.top.clone();
        apply(&mut server, "site", &mut Report::default());
        assert_eq!(server.top, before);
    }

    #[test]
    fn a_line_that_has_no_room_for_the_condition_is_reported() {
        let line = "Strict-Transport-Security: max-age=1";
        let many: Vec<String> = (0..CONDITIONS_MAX).map(|at| format!("header x-{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut told = many.clone();
        told[0] = OVER_TLS;
        for (conditions, word) in [
            (&many[..], Some("changed")),
            (&many[1..], None),
            (&told[..], None),
            (&["scheme http"][..], Some("unneeded")),
        ] {
            let mut server = Server {
                secure: vec!["0.0.0.0:443".to_owned()],
                ..Server::default()
            };
            server.top.header_rules = vec![rule("/a/*", conditions, &[line])];
            let mut report = Report::default();
            apply(&mut server, "site", &mut report);
            let words: Vec<&str> = report.notes().iter().map(|note| note.fate.word()).collect();
            assert_eq!(words, Vec::from_iter(word), "{conditions:?}");
            let kept = server
                .top
                .header_rules
                .iter()
                .all(|rule| rule.conditions.len() <= CONDITIONS_MAX);
            assert!(kept && server.top.header_rules.is_empty() == (word == Some("unneeded")));
        }
    }
}
