//! Field lines that rules of the configuration add to a response because of the path of its request: those of every kind of
//! response (`always`, `security-headers`), and those that let pages of other origins read it (`cors`).
//!
//! Files get their lines when their cache entry is made ([`crate::filter`]). This file decides the lines of everything
//! else: errors, redirects, responses of upstreams, and answers to preflight requests. It knows no sessions.

use crate::conditional::Dependence;
use crate::config::{Config, Cors, Facts, FieldLine, Grant, HeaderRule, spelling};
use crate::field_list::{FieldList, FieldListBuf, write_line};
use crate::request_id::RequestId;
use http_semantics::method::Method;

/// The names of the fields that let pages of other origins read a response begin with this.
const PERMISSION: &str = "access-control-";

/// The rules of all sites. By default there are none.
#[derive(Debug, Default)]
pub(crate) struct FieldRules {
    /// By index of the site; empty if no site has a rule.
    sites: Vec<SiteRules>,
}

#[derive(Debug)]
struct SiteRules {
    /// Lines of every response.
    general: Vec<FieldLine>,
    /// Rules that apply to every response for their paths.
    always: Vec<HeaderRule>,
    cors: Vec<Cors>,
}

/// What rules do to a response that is no file.
#[derive(Debug, Default)]
pub(crate) struct Always<'c> {
    /// Lines that replace those of the same names.
    pub(crate) lines: FieldListBuf,
    /// Names of fields that the response does not have, unless they are among the lines.
    pub(crate) removed: Vec<&'c str>,
}

/// What a rule for other origins says about a request.
#[derive(Debug)]
pub(crate) struct CrossOrigin<'c, 'b> {
    rule: &'c Cors,
    grant: Grant<'b>,
    is_preflight: bool,
}

impl FieldRules {
    /// The rules of these sites.
    pub(crate) fn of<'c>(sites: impl Iterator<Item = &'c Config>) -> FieldRules {
        let sites: Vec<SiteRules> = sites
            .map(|config| SiteRules {
                general: config.preset_lines(),
                always: config
                    .header_rule
                    .iter()
                    // Those with conditions: `crate::conditional`.
                    .filter(|rule| rule.always && rule.conditions.is_empty())
                    .cloned()
                    .collect(),
                cors: config.cors.clone(),
            })
            .collect();
        let is_empty =
            |site: &SiteRules| site.general.is_empty() && site.always.is_empty() && site.cors.is_empty();
        match sites.iter().all(is_empty) {
            true => FieldRules::default(),
            false => FieldRules { sites },
        }
    }

    /// Whether no site has a rule.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// What the rules do to a response of this site that is no file. `path` is that of the request as received; `None`: there is
    /// none.
    #[cold]
    pub(crate) fn always(&self, site: usize, path: Option<&[u8]>) -> Always<'_> {
        let mut always = Always::default();
        let Some(rules) = self.sites.get(site) else {
            return always;
        };
        for line in &rules.general {
            always.lines.add(line.name(), line.value().as_bytes());
        }
        let spelled = path.and_then(spelling);
        for rule in &rules.always {
            let applies = match &spelled {
                Some(path) => rule.path.matches(path),
                None => rule.path.matches_all(),
            };
            if applies {
                rule.put(&mut always.lines);
                always.removed.extend(rule.removed());
            }
        }
        always
    }

    /// What the rules for other origins say about a request; `None`: none applies to it.
    #[cold]
    pub(crate) fn cross_origin<'c, 'b>(
        &'c self,
        site: usize,
        facts: Facts<'_, 'b, '_>,
    ) -> Option<CrossOrigin<'c, 'b>> {
        let rules = &self.sites.get(site)?.cors;
        let head = facts.head;
        let spelled = (!rules.is_empty()).then(|| head.target.path().and_then(spelling))??;
        let rule = rules.iter().find(|rule| rule.applies(&spelled, facts))?;
        let field = |name: &str| {
            let mut fields = head.fields.iter();
            fields
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        };
        let origin = field("origin");
        Some(CrossOrigin {
            rule,
            grant: rule.grant(origin),
            // https://fetch.spec.whatwg.org/#cors-preflight-request
            is_preflight: head.method == Method::Options
                && origin.is_some()
                && field("access-control-request-method").is_some(),
        })
    }

    /// Whether a rule answers a request in place of files and upstreams: it asks whether a page may send another one.
    pub(crate) fn answers(&self, site: usize, facts: Facts<'_, '_, '_>) -> bool {
        !self.is_empty()
            && self
                .cross_origin(site, facts)
                .is_some_and(|cross| cross.is_preflight)
    }

    /// Lines for a response of an upstream. `dependence`: what it owes to conditions.
    pub(crate) fn passed(
        &self,
        site: usize,
        facts: Facts<'_, '_, '_>,
        dependence: Option<&Dependence>,
    ) -> RuledLines {
        if self.is_empty() && dependence.is_none() {
            return RuledLines::NONE;
        }
        let Always { mut lines, removed } = self.always(site, facts.head.target.path());
        let mut removed: Vec<String> = removed.into_iter().map(str::to_owned).collect();
        if let Some(dependence) = dependence {
            dependence.put_lines(&mut lines);
            removed.extend(dependence.removed().map(str::to_owned));
        }
        // After all header rules, which change no permission of `cors`.
        let cross = self.cross_origin(site, facts);
        if let Some(cross) = &cross {
            remove_permission(&mut lines);
            cross.write(lines.text_mut());
            if cross.depends_on_origin() {
                vary(&mut lines, &["Origin"]);
            }
        }
        if let Some(dependence) = dependence {
            vary(&mut lines, &dependence.fields().collect::<Vec<_>>());
        }
        RuledLines {
            text: std::mem::take(lines.text_mut()),
            removed,
            is_cross_origin: cross.is_some(),
        }
    }
}

/// Whether a field of this name lets pages of other origins read a response.
fn is_permission(name: &[u8]) -> bool {
    name.get(..PERMISSION.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(PERMISSION.as_bytes()))
}

/// Whether a line lets pages of other origins read a response.
#[cold]
pub(crate) fn has_permission(lines: FieldList<'_>) -> bool {
    lines.iter().any(|(name, _)| is_permission(name))
}

/// Removes all lines that let pages of other origins read a response.
#[cold]
pub(crate) fn remove_permission(lines: &mut FieldListBuf) {
    lines.remove_beginning(PERMISSION);
}

/// Adds these fields to `Vary`.
fn vary(lines: &mut FieldListBuf, fields: &[&str]) {
    if !fields.is_empty() && !lines.add_members("Vary", fields) {
        lines.add("Vary", fields.join(", ").as_bytes());
    }
}

/// Puts the lines of rules among those of a fixed answer with status 200, for a request for this path in normalized spelling: the
/// lines that a file there would have. Rules with conditions: `crate::conditional`.
#[cold]
pub(crate) fn put_of_content(config: &Config, path: &[u8], lines: &mut FieldListBuf) {
    let general = config.general_lines();
    for line in &general {
        lines.remove(line.name());
    }
    for line in &general {
        lines.add(line.name(), line.value().as_bytes());
    }
    let rules = config.header_rule.iter();
    for rule in rules.filter(|rule| rule.conditions.is_empty() && rule.path.matches(path)) {
        rule.put(lines);
    }
}

/// Lines of rules for one response of an upstream.
#[derive(Debug, Default)]
pub(crate) struct RuledLines {
    text: Vec<u8>,
    /// Names of fields of the upstream that are left out.
    removed: Vec<String>,
    /// Whether this server decides which pages of other origins may read the response.
    is_cross_origin: bool,
}

impl RuledLines {
    /// No lines.
    pub(crate) const NONE: RuledLines = RuledLines {
        text: Vec::new(),
        removed: Vec::new(),
        is_cross_origin: false,
    };

    /// These lines, and that with the id of the request.
    #[cold]
    pub(crate) fn identified(mut self, id: &RequestId) -> RuledLines {
        id.write(&mut self.text);
        self
    }

    /// The lines.
    pub(crate) fn list(&self) -> FieldList<'_> {
        FieldList::of(&self.text)
    }

    /// Whether a line of the upstream with this name is left out.
    pub(crate) fn replaces(&self, name: &str) -> bool {
        (self.list().has(name) && !name.eq_ignore_ascii_case("vary"))
            || self.removed.iter().any(|one| one.eq_ignore_ascii_case(name))
            || (self.is_cross_origin && is_permission(name.as_bytes()))
    }

    /// Whether rules remove lines of the upstream with this name, and add none.
    pub(crate) fn removes(&self, name: &str) -> bool {
        self.removed.iter().any(|one| one.eq_ignore_ascii_case(name)) && !self.list().has(name)
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        let names = self.removed.iter().map(String::capacity);
        self.text.capacity() + names.sum::<usize>()
    }
}

impl CrossOrigin<'_, '_> {
    /// Whether the request only asks whether another one may be sent.
    pub(crate) fn is_preflight(&self) -> bool {
        self.is_preflight
    }

    /// Whether another origin could get other lines.
    pub(crate) fn depends_on_origin(&self) -> bool {
        self.grant != Grant::Any
    }

    /// Appends the lines of the response.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let CrossOrigin { rule, grant, .. } = self;
        let origin = match grant {
            Grant::Any => b"*",
            Grant::Origin(origin) => *origin,
            Grant::None => return,
        };
        write_line(out, "Access-Control-Allow-Origin", origin);
        if rule.credentials {
            write_line(out, "Access-Control-Allow-Credentials", b"true");
        }
        let mut list = |name, value: String| {
            if !value.is_empty() {
                write_line(out, name, value.as_bytes());
            }
        };
        if self.is_preflight {
            list("Access-Control-Allow-Methods", rule.methods());
            list("Access-Control-Allow-Headers", rule.headers());
            list("Access-Control-Max-Age", rule.max_age.as_secs().to_string());
        } else {
            list("Access-Control-Expose-Headers", rule.exposed());
        }
    }
}
