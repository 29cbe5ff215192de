//! Settings that Weir has for the whole server, and other servers for each site: timeouts, limits, the networks of proxies. The
//! result has those on which all sites agree. Others are reported with the values of the sites, and what relies on them is closed.

use crate::access::Access;
use crate::fate::Fate;
use crate::model::{Server, Site};
use crate::report::{At, Report};
use crate::rootless::redirects_all;
use core::fmt::Write as _;

/// The key of the networks whose peers may name the client.
pub(crate) const TRUSTED: &str = "trusted";

/// The sites of the result that answer requests themselves.
fn sites(server: &Server) -> Vec<(&At, &str)> {
    let all = || core::iter::once(&server.top).chain(&server.hosts);
    let is_led = all().all(redirects_all);
    let mut found: Vec<(&At, &str)> = Vec::new();
    for site in all().filter(|site| is_led || !redirects_all(site)) {
        let Some((at, shown)) = &site.at else { continue };
        if !found.iter().any(|(known, _)| *known == at) {
            found.push((at, shown));
        }
    }
    found
}

/// The values of a key that a site has: its own, or those for all sites.
fn values<'s>(server: &'s Server, key: &str, site: Option<&At>) -> Vec<&'s str> {
    let at_level = |level: Option<&At>| -> Vec<&'s str> {
        let all = server.shared.iter().filter(|one| one.key == key);
        let own = all.filter(|one| one.site.as_ref() == level);
        own.map(|one| &*one.value).collect()
    };
    let own = site.map(|site| at_level(Some(site))).unwrap_or_default();
    match own.is_empty() {
        true => at_level(None),
        false => own,
    }
}

/// Writes the settings on which all sites agree, and reports the others.
pub(crate) fn apply(server: &mut Server, report: &mut Report) {
    let mut keys: Vec<String> = Vec::new();
    for one in &server.shared {
        if !keys.contains(&one.key) {
            keys.push(one.key.clone());
        }
    }
    for key in keys {
        let sites = sites(server);
        let of_sites: Vec<(&str, Vec<&str>)> = match sites.is_empty() {
            true => vec![("all sites", values(server, &key, None))],
            false => sites
                .iter()
                .map(|(at, shown)| (*shown, values(server, &key, Some(at))))
                .collect(),
        };
        let agreed: Vec<String> = of_sites[0].1.iter().map(|value| (*value).to_owned()).collect();
        let written = server.keys.iter().find(|(known, _)| *known == key);
        let is_other = written.is_some_and(|(_, value)| agreed.last() != Some(value));
        let is_agreed = !agreed.is_empty() && !is_other && of_sites.iter().all(|(_, own)| *own == agreed);
        let mut why = format!("all hosts share `{key}`");
        for (shown, own) in &of_sites {
            let _ = match own.is_empty() {
                true => write!(why, ", and {shown} names none"),
                false => write!(why, ", and {shown} has {}", own.join(", ")),
            };
        }
        for one in server.shared.iter().filter(|one| one.key == key) {
            if !is_agreed || !agreed.contains(&one.value) {
                report.replace(&one.at, &one.directive, Fate::missing(&*why));
            }
        }
        match (is_agreed, &*key) {
            (true, TRUSTED) => server.trusted = agreed,
            (true, _) => server.key(&key, agreed.last().map_or("", |value| value)),
            (false, TRUSTED) => distrust(server, report),
            (false, _) => {}
        }
    }
}

/// Reports the PROXY protocol if no network is trusted to speak it.
pub(crate) fn note_announced(server: &Server, report: &mut Report) {
    if server.proxy_protocol && server.trusted.is_empty() {
        let at = At {
            file: "the result".into(),
            line: 0,
        };
        let why = "Weir accepts the PROXY protocol from networks that `trusted` names, and none is known";
        report.add(&at, "proxy_protocol", Fate::missing(why));
    }
}

/// Closes what relies on the addresses of clients that no proxy names in the result.
fn distrust(server: &mut Server, report: &mut Report) {
    let of_proxies: Vec<At> = sites(server)
        .into_iter()
        .map(|(at, _)| at.clone())
        .filter(|at| !values(server, TRUSTED, Some(at)).is_empty())
        .collect();
    let is_one = |site: &Site| site.at.as_ref().is_some_and(|(at, _)| of_proxies.contains(at));
    let all = core::iter::once(&mut server.top).chain(&mut server.hosts);
    for site in all.filter(|site| is_one(site)) {
        let Some((at, shown)) = site.at.clone() else {
            continue;
        };
        let by_network = |rule: &Access| rule.allow.iter().any(|network| network != "all");
        for rule in site.access.iter_mut().filter(|rule| by_network(rule)) {
            let why = format!(
                "the result knows no proxies of this site, so all clients would have the address of one; it denies `{}`",
                rule.path
            );
            report.add(&at, &format!("networks of {shown}"), Fate::missing(why));
            *rule = Access {
                conditions: rule.conditions.clone(),
                ..Access::nobody(&rule.path)
            };
        }
        let refuses = |rule: &&Access| rule.deny.iter().any(|network| network != "all");
        for rule in site.access.iter().filter(refuses) {
            let why = format!(
                "the result knows no proxies of this site, so no client has an address of the networks that `{}` refuses",
                rule.path
            );
            report.add(&at, &format!("networks of {shown}"), Fate::open(why));
        }
    }
}
