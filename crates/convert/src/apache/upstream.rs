//! `ProxyPass` and its parameters, `ProxyTimeout`, and `RequestHeader` for upstreams.

use super::site::Folder;
use crate::access::Access;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{Proxy, Site};
use crate::pattern::pattern;
use crate::regex;
use crate::request_field::{self, Value};
use crate::upstream::{self, set};
use crate::value::{is_site_path, quote};
use std::collections::BTreeMap;

/// Longest `connect-timeout` of Weir, in seconds.
const CONNECT_MAX: u64 = 60;

/// Parameters that say what Weir does anyway.
const USUAL: [&str; 5] = [
    "keepalive=on",
    "nocanon",
    "upgrade=websocket",
    "upgrade=any",
    "flushpackets=on",
];

/// Reads a directive about upstreams. `kept`: paths that stay with the files. `None`: it is about something else.
pub(super) fn read(
    directive: &Directive,
    name: &str,
    folder: &Folder,
    site: &mut Site,
    balancers: &BTreeMap<String, Proxy>,
    kept: &mut Vec<String>,
) -> Option<Fate> {
    Some(match name {
        "proxypass" | "proxypassmatch" => {
            let (path, target, parameters) = match directive.args.as_slice() {
                [target, rest @ ..] if folder.patterns.len() == 1 && !folder.is_root() => {
                    (folder.patterns[0].trim_end_matches('*'), target, rest)
                }
                [path, target, rest @ ..] => (path.as_str(), target, rest),
                _ => return Some(Fate::missing("a path or a target is missing")),
            };
            if name == "proxypassmatch" {
                let why = "the converter reads `ProxyPass` with a path";
                return Some(match (target == "!", folder.is_root()) {
                    (true, _) => Fate::missing(why),
                    (false, true) => close(path, why, site),
                    (false, false) => {
                        let closed = folder.patterns.iter().map(|path| Access::nobody(path));
                        site.access.extend(closed);
                        Fate::missing(format!("{why}; the result denies these paths"))
                    }
                });
            }
            if target == "!" {
                let bare = path.trim_end_matches('/');
                kept.extend([bare.to_owned(), format!("{bare}/*")]);
                return Some(Fate::Carried);
            }
            let (base, uri) = match target
                .find("://")
                .and_then(|at| target[at + 3..].find('/').map(|slash| at + 3 + slash))
            {
                Some(slash) => target.split_at(slash),
                None => (target.as_str(), ""),
            };
            let found = match base.strip_prefix("balancer://") {
                Some(group) => match balancers.get(group) {
                    Some(rule) if !rule.upstreams.is_empty() => Ok((rule.clone(), None)),
                    _ => Err(format!(
                        "`{group}` has no upstream that Weir can pass requests to"
                    )),
                },
                None => upstream::address(&base.replace("ws://", "http://")).map(|(address, changed)| {
                    let rule = Proxy {
                        upstreams: vec![address],
                        weights: vec![1],
                        ..Proxy::default()
                    };
                    (rule, changed)
                }),
            };
            let (mut rule, changed) = match found {
                Ok(found) => found,
                Err(why) => {
                    site.access
                        .extend(pattern(&format!("{path}*")).map(|path| Access::nobody(&path)));
                    return Some(Fate::missing(format!("{why}; the result denies these paths")));
                }
            };
            let without = self::parameters(parameters, &mut rule);
            let bare = path.trim_end_matches('/');
            // Apache puts what follows the path behind the target as it is.
            let is_even = !folder.is_root() || path.ends_with('/') == uri.ends_with('/');
            let mut is_below = true;
            match uri.trim_end_matches('/') {
                same if same == bare => is_below = false,
                "" => rule.strip = true,
                other if is_even && is_site_path(other) => {
                    set(&mut rule, "rewrite", &quote(&format!("{other}/*")));
                }
                _ => {
                    site.access
                        .extend(pattern(&format!("{path}*")).map(|path| Access::nobody(&path)));
                    return Some(Fate::missing(
                        "Weir sends the whole path, or the part that the star of `path` stands for, to upstreams; the result denies \
                         these paths",
                    ));
                }
            }
            let patterns = match bare {
                "" => vec!["/*".to_owned()],
                bare if is_below => vec![format!("{bare}/*")],
                bare => vec![bare.to_owned(), format!("{bare}/*")],
            };
            for path in patterns.iter().filter_map(|path| pattern(path)) {
                rule.path.clone_from(&path);
                site.proxies.push(rule.clone());
            }
            let lost = (!without.is_empty()).then(|| format!("without {}", without.join(", ")));
            let changes: Vec<String> = changed.into_iter().chain(lost).collect();
            match changes.is_empty() {
                true => Fate::Carried,
                false => Fate::changed(changes.join("; ")),
            }
        }
        "proxypassreverse" => {
            Fate::unneeded("upstreams see the client's `Host`, so their `Location` is right")
        }
        "proxypreservehost" if directive.arg(0).eq_ignore_ascii_case("on") => {
            Fate::unneeded("Weir passes the client's `Host` on")
        }
        "proxypreservehost" => Fate::missing("Weir passes the client's `Host` on"),
        "proxyrequests" | "proxyvia" => Fate::unneeded("Weir is no forward proxy, and adds `Via`"),
        "proxyerroroverride" if directive.arg(0).eq_ignore_ascii_case("off") => {
            Fate::unneeded("Weir passes errors of upstreams on")
        }
        "proxyerroroverride" => {
            Fate::missing("`error-pages` replaces Weir's own errors, not those of upstreams")
        }
        "proxytimeout" => match directive.arg(0).parse::<u64>() {
            Ok(span @ 1..) if folder.is_root() => {
                site.upstream_timeout = Some(span);
                Fate::Carried
            }
            _ => Fate::missing("a timeout for all upstreams of a host is a number of seconds"),
        },
        "requestheader" => change_field(directive, folder, site),
        _ => return None,
    })
}

/// Denies the paths of an expression that an upstream would answer, and that is lost: the files there, programs above all, are not
/// for clients.
pub(super) fn close(expression: &str, why: &str, site: &mut Site) -> Fate {
    let patterns = match regex::read(expression) {
        Ok(read) => read.patterns(),
        Err(_) => regex::around(expression),
    };
    let denied = match patterns.is_empty() && expression.contains("php") {
        true => vec!["*.php".to_owned()],
        false => patterns,
    };
    if denied.is_empty() {
        return Fate::missing(why);
    }
    site.access.extend(denied.iter().map(|path| Access::nobody(path)));
    Fate::missing(format!("{why}; the result denies `{}`", denied.join("`, `")))
}

/// Reads the parameters of `ProxyPass` into a rule. Returns those without a key in Weir.
fn parameters(parameters: &[String], rule: &mut Proxy) -> Vec<String> {
    let mut without = Vec::new();
    for text in parameters {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let name = name.to_ascii_lowercase();
        match (name.as_str(), value.parse::<u64>()) {
            ("timeout", Ok(span @ 1..)) => silence(rule, span),
            ("connectiontimeout", Ok(span @ 1..)) => {
                set(
                    rule,
                    "connect-timeout",
                    &quote(&format!("{}s", span.min(CONNECT_MAX))),
                );
            }
            _ if USUAL.contains(&text.to_ascii_lowercase().as_str()) => {}
            _ => without.push(format!("`{text}`")),
        }
    }
    without
}

/// Sets for how many seconds an upstream may be silent.
fn silence(rule: &mut Proxy, span: u64) {
    for key in ["first-byte-timeout", "idle-timeout"] {
        set(rule, key, &quote(&format!("{span}s")));
    }
}

/// Reads `RequestHeader`: a field that upstreams get, or do not get.
fn change_field(directive: &Directive, folder: &Folder, site: &mut Site) -> Fate {
    // `early` is about the moment, which is the same for upstreams.
    let args: Vec<&str> = directive.args.iter().map(String::as_str).collect();
    let args = match args.as_slice() {
        [rest @ .., "early"] => rest,
        rest => rest,
    };
    let (mut lines, mut removed) = (Vec::new(), Vec::new());
    let action = args.first().map(|action| action.to_ascii_lowercase());
    let fate = match (action.as_deref(), args.get(1..).unwrap_or_default()) {
        (Some("set"), [name, value]) => request_field::set(&mut lines, name, value_of(value)),
        // Apache knows the variable if the client uses TLS.
        (Some("set"), [name, "https", condition])
            if name.eq_ignore_ascii_case("x-forwarded-proto")
                && condition.eq_ignore_ascii_case("env=https") =>
        {
            request_field::set(&mut lines, name, Value::Scheme)
        }
        (Some("unset"), [name]) => request_field::remove(&mut removed, name),
        _ => Fate::missing("the converter carries fields that are set to a fixed text, or removed"),
    };
    if fate == Fate::Carried && !folder.is_root() {
        return Fate::missing("the converter carries fields for all upstreams of a host only");
    }
    for line in lines {
        request_field::put(&mut site.upstream_fields.0, line);
    }
    site.upstream_fields.1.extend(removed);
    fate
}

/// What the value of a field for upstreams is.
fn value_of(text: &str) -> Value<'_> {
    let (is_expression, bare) = match text.strip_prefix("expr=") {
        Some(rest) => (true, rest),
        None => (false, text.trim_end_matches(['e', 's'])),
    };
    match bare {
        "%{REQUEST_SCHEME}" => Value::Scheme,
        "%{HTTP_HOST}" => Value::Host,
        "%{REMOTE_ADDR}" => Value::Client,
        _ if is_expression || text.contains('%') => Value::Variable,
        _ => Value::Fixed(text),
    }
}

/// Gives the rules of a site what it says about all its upstreams.
///
/// # Errors
/// A rule has no room for all paths that its upstream does not answer.
pub(super) fn finish(site: &mut Site) -> Result<(), String> {
    let (set_lines, removed) = std::mem::take(&mut site.upstream_fields);
    for rule in &mut site.proxies {
        rule.request_header.0.extend(set_lines.iter().cloned());
        rule.request_header.1.extend(removed.iter().cloned());
        let is_timed = rule.keys.iter().any(|(key, _)| key == "first-byte-timeout");
        if let Some(span) = site.upstream_timeout.filter(|_| !is_timed) {
            silence(rule, span);
        }
    }
    let early = std::mem::take(&mut site.early);
    site.keep_from_upstreams(&early)
}
