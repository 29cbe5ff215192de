//! How the rules that apply to a request are written down.

use crate::access::{Check, Verdict};
use crate::client_address::{From, Shown, UNKNOWN};
use crate::config::{Access, Conditions, Config, Facts, HeaderRule, PathPattern, Respond, Satisfy};
use crate::explain::Question;
use crate::proxy::cache::Cached;
use crate::proxy::head::asks_for_websocket;
use crate::proxy::{Found, Route};
use http_semantics::request::RequestHead;
use http1::framing::Framing;
use std::net::IpAddr;
use units::{Instant, UnixTime};

/// The client that a trusted peer names, in words.
pub(super) fn client(from: &From, question: &Question<'_>) -> String {
    let scheme = match question.is_secured {
        true => "https",
        false => "http",
    };
    let client = match from.peer {
        UNKNOWN => format!("{UNKNOWN} (unknown)"),
        address => Shown(address).to_string(),
    };
    let hops: Vec<String> = from.hops.iter().map(|hop| Shown(*hop).to_string()).collect();
    match hops.is_empty() {
        true => format!("{client} over {scheme}, as it says itself (trusted)"),
        false => format!("{client} over {scheme}, through {} (trusted)", hops.join(", ")),
    }
}

/// What access rules decide about a request, in words.
pub(super) fn verdict_in_words(
    verdict: &Verdict,
    covering: &[(usize, &Access)],
    question: &Question<'_>,
) -> String {
    match verdict {
        Verdict::Open(_) => admitted(covering, question),
        Verdict::Refused(status) => {
            format!("{} is not admitted: {}", Shown(question.peer), status.as_u16())
        }
        Verdict::Check(Check::Asked(asked, _)) => format!("{} decides (auth)", asked.url()),
        Verdict::Check(Check::Password(_)) => "the password in Authorization decides".to_owned(),
        Verdict::Answered(_) | Verdict::Unanswered(_) => "the server of `auth` cannot be asked".to_owned(),
        Verdict::Uncertified if question.is_admitted => {
            "a client certificate is needed, which requests in cleartext or of trusted peers do not have: 403"
                .to_owned()
        }
        Verdict::Uncertified => {
            "a client certificate is needed, and explained requests have none: 403".to_owned()
        }
        Verdict::Challenge(_) => "a password is needed".to_owned(),
        Verdict::Busy => "too many passwords are being checked".to_owned(),
        Verdict::Malformed => "the path is malformed".to_owned(),
    }
}

/// Says that the access rules which cover a request admit its client, and what that assumes.
fn admitted(covering: &[(usize, &Access)], question: &Question<'_>) -> String {
    let client = question.peer.to_canonical();
    let needs_more =
        |rule: &Access| question.is_admitted && !(rule.satisfy == Satisfy::Any && rule.admits(client));
    let mut assumed: Vec<String> = Vec::new();
    for (_, rule) in covering.iter().filter(|(_, rule)| needs_more(rule)) {
        let certificate = rule.certificate.is_needed();
        let password = rule.htpasswd.as_ref();
        let server = rule.auth.as_ref();
        let needed = [
            certificate.then(|| "a client certificate".to_owned()),
            password.map(|file| match rule.users {
                None => format!("a password of `{}`", file.display()),
                Some(_) => format!("a password of one of `users` in `{}`", file.display()),
            }),
            server.map(|url| format!("the consent of {url} (auth)")),
        ];
        for one in needed.into_iter().flatten() {
            if !assumed.contains(&one) {
                assumed.push(one);
            }
        }
    }
    let client = Shown(question.peer);
    match assumed.is_empty() {
        true => format!("{client} is admitted"),
        false => format!("{client} is admitted, assuming {}", assumed.join(", ")),
    }
}

/// The rules of a list whose conditions decide about a request: those that cover its path, up to the first that applies.
pub(super) fn asked(
    conditions: &[&Conditions],
    covers: impl Fn(usize) -> bool,
    facts: Facts<'_, '_, '_>,
) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, conditions) in conditions.iter().enumerate().filter(|(at, _)| covers(*at)) {
        if !conditions.is_empty() {
            found.push(at);
        }
        if conditions.hold(facts) {
            break;
        }
    }
    found
}

/// Which condition decides whether a rule for the path of a request applies, in words.
pub(super) fn decided(
    list: &str,
    at: usize,
    path: &PathPattern,
    conditions: &Conditions,
    facts: Facts<'_, '_, '_>,
) -> String {
    let rule = format!("{list} rule {} for `{path}`", at + 1);
    match conditions.failing(facts) {
        Some(one) => format!("{rule} does not apply: `{one}` does not hold"),
        None => format!("{rule} applies: `{conditions}` holds"),
    }
}

/// Says which conditions of fixed answers decide.
pub(super) fn fixed_conditions(
    config: &Config,
    (spelled, facts): (&[u8], Facts<'_, '_, '_>),
    say: &mut impl FnMut(&'static str, String),
) {
    let covers = |at: usize| config.respond[at].covers(spelled);
    let conditions: Vec<_> = config.respond.iter().map(Respond::conditions).collect();
    for at in asked(&conditions, covers, facts) {
        let path = config.respond[at].path();
        say("if", decided("respond", at, path, conditions[at], facts));
    }
}

/// The rate that each address may have for all its requests, in words; `None`: there is no such limit.
pub(super) fn rate(config: &Config) -> Option<String> {
    let per_second = config.max_request_rate;
    (per_second > 0).then(|| {
        format!(
            "each address {per_second}/s, {} at once",
            config.max_request_burst
        )
    })
}

/// Says which limits count a request of this client.
pub(super) fn limits(
    config: &Config,
    (spelled, facts): (&[u8], Facts<'_, '_, '_>),
    peer: IpAddr,
    say: &mut impl FnMut(&'static str, String),
) {
    let rules = config.limit.iter().enumerate();
    for (at, rule) in rules.filter(|(_, rule)| rule.path.covers(spelled)) {
        if !rule.conditions.is_empty() {
            say("if", decided("limit", at, &rule.path, &rule.conditions, facts));
        }
        if rule.counts(facts) {
            let text = match rule.client(peer.to_canonical()) {
                Some(_) => format!("each client {}", rule.allowance()),
                None => format!("{} is not limited (except)", Shown(peer)),
            };
            say("limit", format!("rule {} for `{}`: {text}", at + 1, rule.path));
        }
    }
}

/// Says which rule for pages of other origins applies to a request. Returns its name, if one does.
pub(super) fn cors(
    config: &Config,
    (spelled, facts): (&[u8], Facts<'_, '_, '_>),
    say: &mut impl FnMut(&'static str, String),
) -> Option<String> {
    let covers = |at: usize| config.cors[at].path.matches(spelled);
    let conditions: Vec<_> = config.cors.iter().map(|rule| &rule.conditions).collect();
    for at in asked(&conditions, covers, facts) {
        say(
            "if",
            decided("cors", at, &config.cors[at].path, conditions[at], facts),
        );
    }
    let mut rules = config.cors.iter().enumerate();
    let (at, rule) = rules.find(|(_, rule)| rule.applies(spelled, facts))?;
    let origins: Vec<String> = rule.origins.iter().map(ToString::to_string).collect();
    let name = format!("rule {}", at + 1);
    say(
        "cors",
        format!("{name} for `{}`: pages of {}", rule.path, origins.join(", ")),
    );
    Some(name)
}

/// Says which header rules apply, of those that are for an answer.
pub(super) fn header_rules(
    config: &Config,
    facts: Facts<'_, '_, '_>,
    is_for: impl Fn(&HeaderRule) -> bool,
    say: &mut impl FnMut(&'static str, String),
) {
    let rules = config.header_rule.iter().enumerate();
    for (at, rule) in rules.filter(|(_, rule)| is_for(rule)) {
        if !rule.conditions.is_empty() {
            say(
                "if",
                decided("header-rule", at, &rule.path, &rule.conditions, facts),
            );
        }
        if !rule.conditions.hold(facts) {
            continue;
        }
        say(
            "header-rule",
            format!("rule {} for `{}`: {}", at + 1, rule.path, rule.in_words()),
        );
    }
}

/// The site of a request, in words.
pub(super) fn host(whole: &Config, site: usize, config: &Config) -> String {
    let root = match &config.root {
        Some(root) => format!("files in `{}`", root.display()),
        None => "the embedded site".to_owned(),
    };
    let host = site.checked_sub(1).and_then(|at| whole.host.get(at));
    match host {
        Some(host) => {
            let names: Vec<String> = host.names.iter().map(ToString::to_string).collect();
            format!("host {site}, {}: {root}", names.join(", "))
        }
        None => format!("the top level: {root}"),
    }
}

/// The rule by which clients change the files of a path in normalized spelling, in words.
pub(super) fn storing(config: &Config, spelled: &[u8]) -> Option<String> {
    let mut rules = config.uploads.iter().enumerate();
    let (at, rule) = rules.find(|(_, rule)| rule.path.pattern().matches(spelled))?;
    let folder = rule.folder_in(config)?.display();
    Some(format!(
        "rule {} for `{}`: files in `{folder}`",
        at + 1,
        rule.path
    ))
}

/// The proxy rule that covers a path in normalized spelling, in words.
pub(super) fn passing(config: &Config, found: &Found) -> Option<String> {
    let rule = &found.route.rule;
    let at = config.proxy.iter().position(|one| one == rule)?;
    let upstreams: Vec<String> = rule.upstreams.iter().map(ToString::to_string).collect();
    let script = match (&found.script, &rule.scripts()) {
        (Some(asked), Some(rule)) => format!("; {}", asked.explain(rule)),
        _ => String::new(),
    };
    Some(format!(
        "rule {} for `{}`: to {}{script}",
        at + 1,
        rule.path,
        upstreams.join(", ")
    ))
}

/// What the cache of a route may do for a request, in words.
pub(super) fn cache(
    route: &Route,
    head: &RequestHead<'_, '_>,
    is_personal: bool,
    is_secured: bool,
    (wall, now): (UnixTime, Instant),
) -> Vec<String> {
    let switches = route.rule.websocket && asks_for_websocket(head, Framing::Empty);
    let cache = match route.cache_for(switches, is_personal) {
        Ok(cache) => cache,
        Err(why) => return vec![format!("none: {why}")],
    };
    match Cached::new(cache, head, false, is_secured, wall, now) {
        Some(cached) => cached.explain(),
        None => vec!["none: the target is no path".to_owned()],
    }
}
