//! Redirects from cleartext to https. Weir's `https-redirect` is for all hosts and all paths. If a site of the configuration
//! answers in cleartext, or some paths do, each site that redirects has a redirect of its own with the condition `scheme http`.
//! Decides which of the two the result has, and what the sites with TLS answer in cleartext.

use crate::access::Access;
use crate::fate::Fate;
use crate::model::{Cleartext, HOSTS_MAX, Lead, Redirect, Server, Site};
use crate::pattern::{covers, covers_all, meet, overlaps};
use crate::report::{At, Report};
use crate::value::quote;

/// The condition of requests in cleartext.
const CLEAR: &str = "scheme http";

/// Writes the redirects to https that the configuration has.
pub(crate) fn apply(server: &mut Server, file: &str, report: &mut Report) {
    let is_lost = server.secure.is_empty() && server.trusted.is_empty();
    for one in server.cleartext.iter_mut().filter(|_| is_lost) {
        let Some(lead) = one.lead.take_if(|lead| lead.needs_field) else {
            continue;
        };
        let why = "Weir reads `X-Forwarded-Proto` of proxies in `trusted` only, and no address has TLS; nothing is redirected";
        for (at, directive) in &lead.said {
            report.replace(at, directive, Fate::missing(why));
        }
    }
    let mut leads = server.cleartext.iter().filter_map(|one| one.lead.as_ref());
    let Some(first) = leads.next() else { return };
    let is_whole = |lead: &Lead| lead.kept.is_empty() && lead.rules.redirects.is_empty();
    // `https-redirect` keeps the host of the request.
    let keeps_host = |one: &Cleartext| {
        let to = one.lead.as_ref().map(|lead| lead.to.as_ref());
        to.is_some_and(|to| to.is_none_or(|to| one.names == [to.as_str()]))
    };
    let all_lead = server.cleartext.iter().all(keeps_host);
    if all_lead && !server.secure.is_empty() && is_whole(first) && leads.all(is_whole) {
        for (at, directive) in server
            .cleartext
            .iter()
            .filter_map(|one| one.lead.as_ref())
            .flat_map(|lead| &lead.said)
        {
            let why = "`https-redirect` answers all requests in cleartext, with 308";
            report.replace(at, directive, Fate::changed(why));
        }
        // With certificates by ACME, Weir redirects unless told otherwise.
        if !server.has("domain") && !server.listen.is_empty() {
            server.key("https-redirect", "true");
        }
        return;
    }
    server.keys.retain(|(key, _)| key != "https-redirect");
    if !server.secure.is_empty() {
        server.key("https-redirect", "false");
    }
    let mut splitting = Splitting {
        cleartext: std::mem::take(&mut server.cleartext),
        file,
        report,
    };
    let hosts = std::mem::take(&mut server.hosts);
    let room = HOSTS_MAX.saturating_sub(hosts.len());
    let mut made = splitting.top(&mut server.top);
    let mut all = Vec::new();
    for host in hosts {
        all.extend(splitting.host(host));
    }
    // Names of the top level come last, as no other host has them.
    all.append(&mut made);
    if all.len() > HOSTS_MAX {
        let at = splitting.nowhere();
        let left = all.split_off(HOSTS_MAX);
        let names: Vec<String> = left.into_iter().flat_map(|site| site.names).collect();
        let why = format!(
            "Weir has at most {HOSTS_MAX} hosts, and each name that is redirected to https is one ({room} were left); these names are not in the result: {}",
            names.join(", ")
        );
        splitting.report.add(&at, "https", Fate::missing(why));
    }
    server.hosts = all;
}

/// Whether a redirect is for all paths, but those that it leaves out.
pub(crate) fn is_whole(rule: &Redirect) -> bool {
    rule.conditions.is_empty() && covers_all(&rule.from)
}

/// The redirect of a site as a whole, with what answers the paths that it leaves out. The second part of the result are such
/// paths that have no folder of their own: the result redirects them, too.
pub(crate) fn lead_of(
    site: &Site,
    rule: &Redirect,
    to: Option<String>,
    said: Vec<(At, String)>,
) -> (Lead, Vec<String>) {
    let mut rules = site.clone();
    rules.secured.clear();
    rules.redirects.retain(|known| !is_whole(known));
    let mut lost = Vec::new();
    for path in &rule.except {
        let refuses = |known: &Access| {
            known.is_for_nobody() && known.conditions.is_empty() && covers(&known.path, path)
        };
        let moves = |known: &Redirect| known.conditions.is_empty() && covers(&known.from, path);
        if site.proxies.iter().any(|proxy| covers(&proxy.path, path))
            || rules.redirects.iter().any(moves)
            || site.access.iter().any(refuses)
        {
            continue;
        }
        let folder = format!("{}/*", path.trim_end_matches('*').trim_end_matches('/'));
        let is_mounted = rules.mounts.iter().any(|mount| folder.starts_with(&*mount.path));
        let root = site.root.clone().filter(|_| path.ends_with('*'));
        match root {
            _ if is_mounted => {}
            Some(root) if rules.mount(&folder, &root, false).is_ok() => {}
            _ => lost.push(path.clone()),
        }
    }
    // Alone, a mount is not left out of the redirect.
    let is_left = |path: &String| rule.except.iter().any(|left| overlaps(left, path));
    rules.mounts.retain(|mount| is_left(&format!("{}*", mount.path)));
    rules.proxies.retain(|proxy| is_left(&proxy.path));
    let folders = rules.mounts.iter().map(|mount| format!("{}*", mount.path));
    let proxies = rules.proxies.iter().map(|proxy| proxy.path.clone());
    let kept: Vec<String> = proxies.chain(folders).collect();
    let is_kept = |path: &String| kept.iter().any(|known| overlaps(known, path));
    rules.header_rules.retain(|rule| is_kept(&rule.path));
    // Redirects come before access in the server, and behind it in Weir.
    let of_kept = std::mem::take(&mut rules.access).into_iter().flat_map(|rule| {
        let paths = kept.iter().flat_map(|path| meet(path, &rule.path));
        let rules = paths.map(|path| Access { path, ..rule.clone() });
        rules.collect::<Vec<_>>()
    });
    rules.access = of_kept.collect();
    let lead = Lead {
        to,
        status: rule.status,
        kept,
        rules,
        said,
        needs_field: false,
    };
    (lead, lost)
}

/// Reports paths that a site in cleartext answers beside its redirect to https, and the result does not.
pub(crate) fn note_lost(at: &At, lost: &[String], report: &mut Report) {
    for path in lost {
        let why = "a site that redirects to https keeps folders and upstreams only; the result redirects these paths, too";
        report.add(at, &format!("{path} in cleartext"), Fate::missing(why));
    }
}

struct Splitting<'a> {
    cleartext: Vec<Cleartext>,
    file: &'a str,
    report: &'a mut Report,
}

impl Splitting<'_> {
    fn nowhere(&self) -> At {
        At {
            file: self.file.into(),
            line: 0,
        }
    }

    /// How requests in cleartext for this name are redirected; `None`: they are answered.
    fn lead(&self, name: &str) -> Option<Lead> {
        let has = |one: &&Cleartext| one.names.iter().any(|known| known == name);
        let is_below = |one: &&Cleartext| {
            let ends = one.names.iter().filter_map(|known| known.strip_prefix('*'));
            ends.into_iter().any(|end| name.ends_with(end))
        };
        let all = || self.cleartext.iter();
        let found = all().find(has).or_else(|| all().find(is_below));
        found.or_else(|| self.usual()).and_then(|one| one.lead.clone())
    }

    /// What answers the hosts that no site names.
    fn usual(&self) -> Option<&Cleartext> {
        self.cleartext.iter().find(|one| one.is_default)
    }

    /// A host, as hosts whose names all have the same redirect.
    fn host(&mut self, mut host: Site) -> Vec<Site> {
        let mut led: Vec<(Lead, Vec<String>)> = Vec::new();
        let mut rest = Vec::new();
        for name in std::mem::take(&mut host.names) {
            let Some(lead) = self.lead(&name) else {
                rest.push(name);
                continue;
            };
            // Without a target of its own, the redirect is to the name.
            let alike = led
                .iter_mut()
                .find(|(known, _)| lead.to.is_some() && *known == lead);
            match alike {
                Some((_, names)) => names.push(name),
                None => led.push((lead, vec![name])),
            }
        }
        let mut split = Vec::new();
        for (lead, names) in led {
            let site = names.first().map(|name| self.led(&host, name, &lead));
            split.extend(site.map(|site| Site { names, ..site }));
        }
        if !rest.is_empty() {
            host.names = rest;
            split.insert(0, host);
        }
        split
    }

    /// Redirects what the site of unknown hosts answers in cleartext. Returns hosts for its names.
    fn top(&mut self, top: &mut Site) -> Vec<Site> {
        let names = std::mem::take(&mut top.names);
        let first = names.iter().find(|name| !name.starts_with('*')).cloned();
        let usual = match self.usual() {
            Some(one) => one.lead.clone(),
            None => first.as_ref().and_then(|name| self.lead(name)),
        };
        let mut hosts = Vec::new();
        for name in &names {
            let lead = self.lead(name);
            // The top level itself answers them alike.
            let is_alike = |lead: &Lead| lead.to.is_some() || Some(name) == first.as_ref();
            if lead == usual && lead.as_ref().is_none_or(is_alike) {
                continue;
            }
            hosts.push(match lead {
                Some(lead) => self.led(top, name, &lead),
                None => Site {
                    names: vec![name.clone()],
                    ..top.clone()
                },
            });
        }
        if let Some(lead) = usual {
            *top = match lead.to.clone().or(first) {
                Some(name) => {
                    if lead.to.is_none() {
                        let why = format!(
                            "the redirect of unknown hosts leads to `https://{name}`: Weir has no variables"
                        );
                        let (at, shown) = top
                            .at
                            .clone()
                            .unwrap_or((self.nowhere(), "unknown hosts".to_owned()));
                        self.report.add(
                            &at,
                            &format!("https for unknown hosts of {shown}"),
                            Fate::changed(why),
                        );
                    }
                    self.led(top, &name, &lead)
                }
                None => self.refused(top, "unknown hosts", &lead),
            };
            top.names.clear();
        }
        hosts
    }

    /// The site for this name, with its redirect.
    fn led(&mut self, site: &Site, name: &str, lead: &Lead) -> Site {
        let target = lead.to.as_deref().unwrap_or(name);
        if target.starts_with('*') {
            return Site {
                names: vec![name.to_owned()],
                ..self.refused(site, name, lead)
            };
        }
        let mut site = Site {
            names: vec![name.to_owned()],
            ..site.clone()
        };
        let kept = self.keep(&mut site, (name, lead), false);
        let mut redirects: Vec<Redirect> = lead.rules.redirects.clone();
        for rule in &mut redirects {
            rule.conditions.push(CLEAR.to_owned());
        }
        redirects.push(Redirect {
            from: "*".to_owned(),
            except: lead.kept.clone(),
            conditions: vec![CLEAR.to_owned()],
            to: format!("https://{target}*"),
            status: lead.status,
        });
        for rule in site.redirects.iter_mut() {
            let kept = lead.kept.iter().filter(|path| covers(&rule.from, path));
            let kept: Vec<String> = kept.filter(|path| !rule.except.contains(path)).cloned().collect();
            rule.except.extend(kept);
        }
        site.redirects.splice(0..0, redirects);
        // Weir asks for a password before it redirects by a rule; a client must not send it in cleartext.
        let asks = |rule: &Access| rule.htpasswd.is_some() || rule.auth.is_some();
        let rules = std::mem::take(&mut site.access).into_iter();
        let rules = rules.flat_map(|rule| {
            let before = (asks(&rule) && rule.conditions.is_empty()).then(|| everyone(&rule.path));
            before.into_iter().chain([rule])
        });
        site.access = kept.into_iter().chain(rules).collect();
        site
    }

    /// Adds the rules for the paths that are not redirected, and returns who may request them. `is_closed`: the rules of the
    /// site are not for these paths.
    fn keep(&mut self, site: &mut Site, (name, lead): (&str, &Lead), is_closed: bool) -> Vec<Access> {
        // The site has them.
        if lead.rules == Site::default() {
            return Vec::new();
        }
        let (at, shown) = site.at.clone().unwrap_or((self.nowhere(), name.to_owned()));
        // Folders that the site has over https because of this.
        let mut added: Vec<String> = Vec::new();
        for mount in &lead.rules.mounts {
            match site.mounts.iter().find(|known| known.path == mount.path) {
                Some(known) if (&known.root, known.strip) == (&mount.root, mount.strip) => {}
                Some(known) => {
                    let why = format!(
                        "in cleartext, `{}` of {name} has the folder `{}`, over https `{}`, and Weir has one for both; the result has the latter",
                        mount.path, mount.root, known.root
                    );
                    self.report
                        .add(&at, &format!("root {}", mount.root), Fate::missing(why));
                }
                None => {
                    added.push(format!("{}*", mount.path));
                    site.mounts.push(mount.clone());
                }
            }
        }
        let others: Vec<&Access> = site.access.iter().chain(&site.refusals).collect();
        let has_rules = |path: &String| is_closed || others.iter().any(|rule| overlaps(&rule.path, path));
        let own = lead.rules.all_access();
        // Behind those of the configuration for a part of these paths.
        let is_ruled = |path: &String| {
            own.iter()
                .any(|rule| rule.conditions.is_empty() && covers(&rule.path, path))
        };
        let open = lead
            .kept
            .iter()
            .filter(|path| has_rules(path) && !is_ruled(path))
            .map(|path| everyone(path));
        let open: Vec<Access> = open.collect();
        let closed = own.into_iter().map(|mut rule| {
            // What limits access to such a folder does so over https, too.
            if !added.iter().any(|folder| covers(folder, &rule.path)) {
                rule.conditions.push(CLEAR.to_owned());
            }
            rule
        });
        let rules: Vec<Access> = closed.chain(open).collect();
        let folders: Vec<String> = lead
            .rules
            .mounts
            .iter()
            .map(|mount| format!("{}*", mount.path))
            .collect();
        if let Err(why) = site.keep_from_upstreams(&folders) {
            self.report.add(&at, &shown, Fate::missing(why));
        }
        for path in &folders {
            if site.tried.iter().any(|rule| overlaps(&rule.path, path)) {
                site.try_files(path, &["$path".to_owned()]);
            }
        }
        let lines = lead.rules.header_rules.iter().map(|rule| {
            let mut rule = rule.clone();
            rule.conditions.push(CLEAR.to_owned());
            rule
        });
        let lines: Vec<_> = lines.collect();
        site.header_rules.extend(lines);
        for limit in &lead.rules.limits {
            match lead.kept.iter().any(|path| covers(path, &limit.path)) {
                true => site.limits.push(limit.clone()),
                false => {
                    let why = "limits of Weir have no conditions; the result limits no redirects to https";
                    self.report
                        .add(&at, &format!("limit of {name} in cleartext"), Fate::missing(why));
                }
            }
        }
        let proxies = lead.rules.proxies.iter().map(|rule| {
            let mut rule = rule.clone();
            rule.keys.push(("if".to_owned(), format!("[{}]", quote(CLEAR))));
            rule
        });
        let proxies: Vec<_> = proxies.collect();
        site.proxies.splice(0..0, proxies);
        if !folders.is_empty() {
            let why =
                "these paths have the folder over https, too: Weir's hosts answer at all addresses alike";
            let named = format!("{} of {name}", folders.join(", "));
            self.report.add(&at, &named, Fate::changed(why));
        }
        rules
    }

    /// The site, without answers in cleartext: Weir has no redirect for these names.
    fn refused(&mut self, site: &Site, whose: &str, lead: &Lead) -> Site {
        let mut site = site.clone();
        let (at, shown) = site.at.clone().unwrap_or((self.nowhere(), whose.to_owned()));
        let kept = self.keep(&mut site, (whose, lead), true);
        let refusal = Access {
            conditions: vec![CLEAR.to_owned()],
            ..Access::nobody("*")
        };
        site.access.splice(0..0, kept.into_iter().chain([refusal]));
        let why = format!(
            "a redirect of Weir names its host, and {whose} has none, or several; the result denies it in cleartext. `https-redirect` redirects all hosts"
        );
        self.report
            .add(&at, &format!("https for {shown}"), Fate::missing(why));
        site
    }
}

/// A rule that admits every client in cleartext.
fn everyone(path: &str) -> Access {
    Access {
        path: path.to_owned(),
        conditions: vec![CLEAR.to_owned()],
        allow: vec!["all".to_owned()],
        ..Access::default()
    }
}
