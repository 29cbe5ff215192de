//! What answers owe to conditions of rules (`if`): the fields of requests that they depend on, and the lines of header rules
//! with conditions.
//!
//! ```text
//!   request ─▶ of ─┬─ no rule with a condition has its path ─▶ nothing: the answer may be kept by head
//!                  └─ Dependence ─▶ `Vary` and lines of rules; the answer is not kept
//! ```
//! An answer to a path depends on the conditions of all rules for the path, whether they hold or not. Rules without conditions
//! act elsewhere: `crate::filter` and `crate::field_rules` add their lines. Limits (`crate::request_limit`) are no part of this:
//! they change no answer, they refuse it. This file knows no sessions.

use crate::config::{Access, Config, Facts, HeaderRule, PathPattern, spelling};
use crate::field_list::FieldListBuf;

/// The rules of all sites. By default there are none.
#[derive(Debug, Default)]
pub(crate) struct Conditional {
    /// By index of the site; empty if no site has a rule with a condition.
    sites: Vec<Site>,
}

/// The rules of one site that have conditions.
#[derive(Debug)]
struct Site {
    /// Paths of redirects, fixed answers, upstreams, tried files and rules for other origins, and the fields that their conditions
    /// read.
    choices: Vec<(PathPattern, Vec<String>)>,
    header_rules: Vec<HeaderRule>,
    /// Whether there are access rules with conditions.
    has_access: bool,
}

/// What the answer to one request owes to conditions.
#[derive(Debug, Default)]
pub(crate) struct Dependence {
    /// Fields of the request, for `Vary`.
    fields: Vec<String>,
    /// Lines for answers of this kind.
    lines: FieldListBuf,
    /// Names of fields that the answer does not have, unless they are among the lines.
    removed: Vec<String>,
}

impl Conditional {
    /// The rules of these sites.
    pub(crate) fn of<'c>(sites: impl Iterator<Item = &'c Config>) -> Conditional {
        let sites: Vec<Site> = sites.map(Site::of).collect();
        match sites.iter().all(Site::is_empty) {
            true => Conditional::default(),
            false => Conditional { sites },
        }
    }

    /// Whether no site has a rule with a condition.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// What the answer to a request owes to conditions. `access` finds the access rules with conditions that may apply to the
    /// request. `None`: nothing, because no rule for its path has one.
    #[cold]
    pub(crate) fn of_request<'c>(
        &self,
        site: usize,
        facts: Facts<'_, '_, '_>,
        access: impl FnOnce() -> Vec<(usize, &'c Access)>,
    ) -> Option<Dependence> {
        let rules = self.sites.get(site).filter(|rules| !rules.is_empty())?;
        let spelled = facts.head.target.path().and_then(spelling)?;
        let mut is_dependent = false;
        let mut found = Dependence::default();
        for (path, fields) in &rules.choices {
            if path.matches(&spelled) {
                is_dependent = true;
                found.read(fields.iter().map(String::as_str));
            }
        }
        if rules.has_access {
            for (_, access) in access() {
                is_dependent = true;
                found.read(access.conditions.fields());
            }
        }
        // Those that are not for answers of every kind are for files, which are not known yet.
        for rule in &rules.header_rules {
            if rule.always && rule.path.matches(&spelled) {
                is_dependent = true;
                found.read(rule.conditions.fields());
                if rule.conditions.hold(facts) {
                    found.put(rule);
                }
            }
        }
        is_dependent.then_some(found)
    }

    /// Whether a site has header rules with conditions.
    #[inline]
    pub(crate) fn has_header_rules(&self, site: usize) -> bool {
        self.sites
            .get(site)
            .is_some_and(|rules| !rules.header_rules.is_empty())
    }

    /// What an answer with the content of a file owes to the header rules for the path of the request, or for that of the file.
    /// Both are in normalized spelling. `None`: nothing, because no rule with a condition is for them.
    #[cold]
    pub(crate) fn of_file(
        &self,
        site: usize,
        facts: Facts<'_, '_, '_>,
        (asked, file): (&[u8], &[u8]),
    ) -> Option<Dependence> {
        let rules = &self.sites.get(site)?.header_rules;
        let is_for = |rule: &&HeaderRule| rule.path.matches(asked) || rule.path.matches(file);
        let mut found = None;
        for rule in rules.iter().filter(is_for) {
            let found: &mut Dependence = found.get_or_insert_default();
            found.read(rule.conditions.fields());
            if rule.conditions.hold(facts) {
                found.put(rule);
            }
        }
        found
    }
}

impl Site {
    fn of(config: &Config) -> Site {
        let redirects = config
            .redirect
            .iter()
            .map(|rule| (rule.from(), rule.conditions()));
        let fixed = config.respond.iter().map(|rule| (rule.path(), rule.conditions()));
        let proxies = config.proxy.iter().map(|rule| (&rule.path, &rule.conditions));
        let tried = config.try_files.iter().map(|rule| (&rule.path, &rule.conditions));
        let cors = config.cors.iter().map(|rule| (&rule.path, &rule.conditions));
        let choices = redirects.chain(fixed).chain(proxies).chain(tried).chain(cors);
        let choices = choices.filter(|(_, conditions)| !conditions.is_empty());
        let header_rules = config.header_rule.iter();
        Site {
            choices: choices
                .map(|(path, conditions)| (path.clone(), conditions.fields().map(str::to_owned).collect()))
                .collect(),
            header_rules: header_rules
                .filter(|rule| !rule.conditions.is_empty())
                .cloned()
                .collect(),
            has_access: config.access.iter().any(|rule| !rule.conditions.is_empty()),
        }
    }

    fn is_empty(&self) -> bool {
        self.choices.is_empty() && self.header_rules.is_empty() && !self.has_access
    }
}

impl Dependence {
    fn read<'f>(&mut self, fields: impl Iterator<Item = &'f str>) {
        for field in fields {
            if !self.fields.iter().any(|known| known.eq_ignore_ascii_case(field)) {
                self.fields.push(field.to_owned());
            }
        }
    }

    /// Notes what a rule does whose conditions hold.
    fn put(&mut self, rule: &HeaderRule) {
        rule.put(&mut self.lines);
        self.removed.extend(rule.removed().map(str::to_owned));
    }

    /// Names of fields that the answer does not have, unless this adds them.
    pub(crate) fn removed(&self) -> impl Iterator<Item = &str> {
        self.removed.iter().map(String::as_str)
    }

    /// Fields of the request that the answer depends on; may be empty.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(String::as_str)
    }

    /// Puts its lines in place of those of the same names, and removes fields.
    pub(crate) fn put_lines(&self, lines: &mut FieldListBuf) {
        for name in self.removed() {
            lines.remove(name);
        }
        for (name, _) in self.lines.list().iter() {
            lines.remove(&String::from_utf8_lossy(name));
        }
        lines.extend(self.lines.list());
    }

    /// What an answer owes that owes both.
    pub(crate) fn and(mut self, other: Dependence) -> Dependence {
        self.read(other.fields());
        Dependence {
            lines: other.lines,
            removed: other.removed,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_semantics::field::{Fields, Line};
    use http_semantics::method::Method;
    use http_semantics::request::{Protocol, RequestHead};
    use http_semantics::target::Target;

    /// The fields that an answer to a GET request of this path depends on; `None`: no condition is for it.
    fn fields(rules: &str, path: &str) -> Option<String> {
        let config = Config::from_toml(rules, "w.toml").unwrap();
        let lines: [Line<'_>; 0] = [];
        let head = RequestHead {
            method: Method::Get,
            method_name: "GET",
            target: Target::parse(path.as_bytes(), Method::Get).unwrap(),
            target_raw: path.as_bytes(),
            protocol: Protocol::Http11,
            fields: Fields::new(&lines),
        };
        let facts = Facts {
            head: &head,
            is_secured: false,
        };
        let rules = Conditional::of([&config].into_iter());
        let access = config.access.iter().enumerate();
        let may_apply =
            |(_, rule): &(usize, &Access)| !rule.conditions.is_empty() && rule.path.covers(path.as_bytes());
        let found = rules.of_request(0, facts, || access.filter(may_apply).collect())?;
        Some(found.fields().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn an_answer_depends_on_all_conditions_for_its_path() {
        let access = "[[access]]\npath = '/docs/*'\nif = ['header X-A', 'cookie c']\nallow = 'all'\n\
            [[access]]\npath = '*.html'\nif = 'header X-B'\ndeny = 'all'\n\
            [[access]]\npath = '/docs/*'\ndeny = 'all'\n[[access]]\nallow = 'all'\n";
        let redirects = "[[redirect]]\nfrom = '/r'\nto = '/'\nif = ['header x-a', 'not header X-A=1', 'header Host=a']\n\
            [[redirect]]\nfrom = '/s'\nto = '/'\nif = ['scheme http', 'query q', 'method GET']\n";
        let header = "[[header-rule]]\npath = '/h*'\nheader = ['A: b']\nif = 'header X-C'\n\
            [[header-rule]]\npath = '/i*'\nheader = ['A: b']\nif = 'header X-C'\nalways = true\n";
        let cors = "[[cors]]\npath = '/c/*'\norigins = ['*']\nif = ['header X-D', 'scheme https']\n\
            [[cors]]\npath = '/o/*'\norigins = ['*']\nif = 'method GET'\n\
            [[cors]]\norigins = ['https://a.test']\n";
        let limit = "[[limit]]\nrate = 1\nif = 'header X-E'\n";
        for (rules, path, expected) in [
            (cors, "/c/a", Some("X-D")),
            (cors, "/o/a", Some("")),
            (cors, "/C/a", None),
            (limit, "/", None),
            (access, "/a", None),
            (access, "/docs/a", Some("X-A Cookie")),
            (access, "/docs/a.html", Some("X-A Cookie X-B")),
            (
                "[[respond]]\npath = '/f'\nif = 'not header X-F'\n",
                "/f",
                Some("X-F"),
            ),
            (redirects, "/r", Some("x-a")),
            (redirects, "/s", Some("")),
            (redirects, "/t", None),
            // Which file answers is not known yet.
            (header, "/h", None),
            (header, "/i", Some("X-C")),
            ("[[redirect]]\nfrom = '/r'\nto = '/'\n", "/r", None),
            ("", "/", None),
        ] {
            assert_eq!(fields(rules, path).as_deref(), expected, "{rules} {path}");
        }
        let none = Config::from_toml("", "w.toml").unwrap();
        assert!(Conditional::of([&none].into_iter()).is_empty());
    }
}
