//! Fixed answers. While a configuration is read, a text is an access rule that refuses all clients. So it has its place among the
//! other rules, and nobody gets files or what an upstream has in place of a text that is lost. Here, such a rule becomes a fixed
//! answer of Weir, and leaves out the paths of the rules before it.

use crate::access::{Access, FixedText};
use crate::fate::Fate;
use crate::model::{EXCEPT_MAX, Respond, Server, Site};
use crate::pattern::{covers, overlaps};
use crate::report::Report;

/// Most fixed answers of a site.
const RULES_MAX: usize = 1_000;

/// Makes fixed answers of the texts of all sites.
pub(crate) fn apply(server: &mut Server, report: &mut Report) {
    let mut lost = Vec::new();
    for site in core::iter::once(&mut server.top).chain(&mut server.hosts) {
        lost.extend(of_site(site, report));
    }
    // A text that several sites have is as good as in the worst of them.
    for (text, why) in lost {
        for (at, shown) in &text.said {
            report.replace(at, shown, Fate::missing(&*why));
        }
    }
}

/// Makes fixed answers of the texts of a site. Returns those that stay refusals, and why.
fn of_site(site: &mut Site, report: &mut Report) -> Vec<(FixedText, String)> {
    let mut lost = Vec::new();
    let starts = std::mem::take(&mut site.starts).into_iter();
    site.responds.extend(starts.map(|text| Respond {
        path: "/".to_owned(),
        except: Vec::new(),
        text,
    }));
    let mut kept: Vec<Access> = Vec::new();
    for mut rule in std::mem::take(&mut site.access) {
        let Some(text) = rule.text.take() else {
            kept.push(rule);
            continue;
        };
        match except_of(&rule, &kept, site.responds.len()) {
            Ok(except) => site.responds.push(Respond {
                path: rule.path,
                except,
                text,
            }),
            Err(why) => {
                let why = format!("{why}; the result denies `{}`", rule.path);
                lost.push((text, why));
                kept.push(rule);
            }
        }
    }
    site.access = kept;
    for Respond { path, text, .. } in &site.responds {
        let fate = fate(text, path, &site.access);
        for (at, shown) in &text.said {
            report.replace(at, shown, fate.clone());
        }
    }
    lost
}

/// The paths that a text in place of a rule does not answer: those to which rules before it admit clients. `count`: how many fixed
/// answers the site has.
fn except_of(rule: &Access, before: &[Access], count: usize) -> Result<Vec<String>, String> {
    if !rule.conditions.is_empty() || !rule.is_for_nobody() {
        return Err("a rule with conditions is for these paths, too".to_owned());
    }
    if count >= RULES_MAX {
        return Err(format!("Weir has at most {RULES_MAX} fixed answers for a host"));
    }
    let mut except: Vec<String> = Vec::new();
    for one in before.iter().filter(|one| one.conditions.is_empty()) {
        // With a slash at its end, the path of an access rule also covers what is below it.
        let is_folder = one.path.len() > 1 && one.path.ends_with('/') && !one.path.contains('*');
        let path = match is_folder {
            true => format!("{}*", one.path),
            false => one.path.clone(),
        };
        if covers(&path, &rule.path) {
            return Err(format!("the access rule of `{}` comes first", one.path));
        }
        if !one.is_for_nobody() && overlaps(&path, &rule.path) && !except.contains(&path) {
            except.push(path);
        }
    }
    match except.len() > EXCEPT_MAX {
        true => Err(format!(
            "`except` of a fixed answer names at most {EXCEPT_MAX} paths"
        )),
        false => Ok(except),
    }
}

/// What becomes of a text for this path, which has these access rules: they come first in Weir.
fn fate(text: &FixedText, path: &str, access: &[Access]) -> Fate {
    // The first rule without conditions decides about the whole pattern, and others about a part of it.
    let decides = |rule: &Access| rule.conditions.is_empty() && rule.applies_to(path);
    let end = access.iter().position(decides).map_or(access.len(), |at| at + 1);
    let asks =
        |rule: &&Access| !rule.is_for_everyone() && (overlaps(&rule.path, path) || rule.applies_to(path));
    match access[..end].iter().find(asks) {
        Some(rule) => Fate::changed(format!(
            "clients must also satisfy the access rules for these paths, as that of `{}`",
            rule.path
        )),
        None => text.differs.map_or(Fate::Carried, Fate::changed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> FixedText {
        FixedText::new(200, "ok", "text/plain", Vec::new()).expect("a text")
    }

    fn answered(path: &str) -> Access {
        Access {
            text: Some(text()),
            ..Access::nobody(path)
        }
    }

    fn admitted(path: &str) -> Access {
        Access {
            path: path.to_owned(),
            allow: vec!["all".to_owned()],
            ..Access::default()
        }
    }

    /// The fixed answers of a site with these access rules, and the paths of the rules that are left.
    fn applied(access: Vec<Access>) -> (Vec<(String, Vec<String>)>, Vec<String>) {
        let mut server = Server {
            top: Site {
                access,
                ..Site::default()
            },
            ..Server::default()
        };
        apply(&mut server, &mut Report::default());
        let responds = server.top.responds.into_iter();
        let left = server.top.access.into_iter();
        (
            responds.map(|one| (one.path, one.except)).collect(),
            left.map(|rule| rule.path).collect(),
        )
    }

    #[test]
    fn a_text_leaves_out_what_rules_before_it_admit() {
        let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let found = applied(vec![
            admitted("/a/b/*"),
            admitted("/a/d/"),
            admitted("/c"),
            Access::nobody("/a/x"),
            answered("/a/*"),
            admitted("/a/*"),
        ]);
        assert_eq!(
            found,
            (
                vec![("/a/*".to_owned(), texts(&["/a/b/*", "/a/d/*"]))],
                texts(&["/a/b/*", "/a/d/", "/c", "/a/x", "/a/*"])
            )
        );
        // Nobody gets a text that a rule before it refuses, or files in place of one that is lost.
        for before in [Access::nobody("/*"), admitted("/a/*")] {
            let path = before.path.clone();
            let found = applied(vec![before, answered("/a/*")]);
            assert_eq!(found, (Vec::new(), vec![path, "/a/*".to_owned()]));
        }
        let conditional = Access {
            conditions: vec!["scheme http".to_owned()],
            ..answered("/a/*")
        };
        assert!(applied(vec![conditional]).0.is_empty());
    }

    #[test]
    fn the_first_rule_for_a_path_says_who_gets_its_text() {
        let closed = Access::nobody("/*");
        for (access, word) in [
            (vec![], "carried"),
            (vec![admitted("/a"), closed.clone()], "carried"),
            (vec![Access::nobody("/b"), admitted("/*")], "carried"),
            (vec![admitted("/b"), closed], "changed"),
            (vec![Access::nobody("/"), admitted("/*")], "changed"),
        ] {
            assert_eq!(fate(&text(), "/a", &access).word(), word, "{access:?}");
        }
    }

    #[test]
    fn what_weir_has_no_answer_for_is_said() {
        for (status, text, why) in [
            (206, "", "status 206"),
            (100, "", "status 100"),
            (304, "", "status 304"),
            (200, &*"a".repeat((64 << 10) + 1), "at most 65536 bytes"),
        ] {
            let error = FixedText::new(status, text, "text/plain", Vec::new()).expect_err("no text");
            assert!(error.contains(why), "{error}");
        }
        let empty = FixedText::new(204, "a", "text/plain", Vec::new()).expect("a text");
        assert_eq!(empty.text, "");
    }
}
