//! `reverse_proxy`: upstreams, balance, checks.

use super::matcher::Matcher;
use crate::confinement;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{HeaderRule, Proxy, Site};
use crate::report::Report;
use crate::request_field::{self, Value};
use crate::upstream;
use crate::value::{field, list, quote, removable, seconds};

/// Most upstreams of one rule of Weir.
const UPSTREAMS_MAX: usize = 64;

/// Reads `reverse_proxy` behind its matcher. `strip`: the paths of the matcher lose their prefix.
pub(super) fn read(
    directive: &Directive,
    args: &[String],
    matcher: &Matcher,
    strip: bool,
    site: &mut Site,
    report: &mut Report,
) -> Fate {
    let mut rule = Proxy {
        strip,
        ..Proxy::default()
    };
    let mut changes: Vec<String> = Vec::new();
    let mut failures: Vec<String> = Vec::new();
    for text in args {
        failures.extend(add(text, &mut rule, &mut changes).err());
    }
    // Upstreams first: other options are about all of them, in whatever order they are written.
    for option in directive.inner().iter().filter(|option| option.name == "to") {
        let added = option.args.iter().map(|text| add(text, &mut rule, &mut changes));
        let failed: Vec<String> = added.filter_map(Result::err).collect();
        let fate = match failed.is_empty() {
            true => Fate::Carried,
            false => Fate::missing(failed.join("; ")),
        };
        option.note_all(&fate, report);
        failures.extend(failed);
    }
    // Field lines that replace those of the upstream.
    let mut lines: Vec<String> = Vec::new();
    let mut removed: Vec<String> = Vec::new();
    for option in directive.inner().iter().filter(|option| option.name != "to") {
        let fate = match option.name.as_str() {
            "header_down" if option.args.len() == 1 && option.arg(0).starts_with('-') => {
                let name = option.arg(0).trim_start_matches('-');
                match removable(name) {
                    Ok(()) => {
                        removed.push(name.to_owned());
                        Fate::Carried
                    }
                    Err(why) => Fate::missing(why),
                }
            }
            "header_down" => match set_line(option) {
                Ok(line) => {
                    lines.push(line);
                    Fate::changed("Weir's own errors and redirects at these paths have it, too")
                }
                Err(why) => Fate::missing(why),
            },
            // The only upstream has one name, which is a fixed text.
            "header_up" if is_own_name(option) => match only_name(&rule) {
                Some(name) => {
                    request_field::put(&mut rule.request_header.0, format!("Host: {name}"));
                    Fate::Carried
                }
                None => Fate::missing("Weir has no variables: upstreams get one fixed `Host`"),
            },
            _ => of_option(option, &mut rule),
        };
        option.note_all(&fate, report);
    }
    if let Some(timeout) = rule
        .check
        .iter()
        .find(|(key, _)| key == "path")
        .is_none()
        .then(|| rule.check.clone())
    {
        // Without a path there is no check.
        rule.check.retain(|pair| !timeout.contains(pair));
    }
    if rule.upstreams.is_empty() && !matcher.conditions.is_always() {
        return Fate::missing(format!("no upstream is named here; {}", failures.join("; ")));
    }
    if rule.upstreams.is_empty() {
        for path in &matcher.patterns {
            site.access.push(crate::access::Access::nobody(path));
        }
        let why = match failures.is_empty() {
            true => "no upstream is named here".to_owned(),
            false => failures.join("; "),
        };
        return Fate::missing(format!("{why}; the result denies these paths"));
    }
    if matcher.networks.is_some() {
        return Fate::missing("Weir chooses upstreams by path, not by network");
    }
    for path in &matcher.patterns {
        let mut rule = rule.clone();
        rule.path = if path == "*" {
            "/*".to_owned()
        } else {
            path.clone()
        };
        rule.strip = strip && rule.path.contains('*');
        if !lines.is_empty() {
            let rules = matcher.conditions.iter().map(|conditions| HeaderRule {
                path: rule.path.clone(),
                conditions: conditions.clone(),
                header: lines.clone(),
                always: true,
            });
            site.header_rules.extend(rules);
        }
        for conditions in matcher.conditions.iter() {
            for name in &removed {
                site.remove_field(&rule.path, conditions, name);
            }
            let mut rule = rule.clone();
            if !conditions.is_empty() {
                upstream::set(&mut rule, "if", &list(conditions));
            }
            // The directives are in the order in which Caddy applies them, and the first rule that applies decides.
            site.proxies.push(rule);
        }
    }
    match (failures.is_empty(), changes.first()) {
        (false, _) => Fate::missing(format!("only in part: {}", failures.join("; "))),
        (true, Some(change)) => Fate::changed(change.clone()),
        (true, None) => Fate::Carried,
    }
}

/// Adds the upstream of an address to a rule, and what changes with it.
///
/// # Errors
/// The address, and why Weir cannot pass requests there.
fn add(text: &str, rule: &mut Proxy, changes: &mut Vec<String>) -> Result<(), String> {
    let (address, change) = upstream(text).map_err(|why| format!("`{text}`: {why}"))?;
    if rule.upstreams.len() == UPSTREAMS_MAX {
        return Err(format!("`{text}`: a rule has at most {UPSTREAMS_MAX} upstreams"));
    }
    rule.upstreams.push(address);
    rule.weights.push(1);
    changes.extend(change);
    Ok(())
}

/// Whether an option gives upstreams their own name as `Host`.
fn is_own_name(option: &Directive) -> bool {
    let names = ["{upstream_hostport}", "{http.reverse_proxy.upstream.hostport}"];
    option.arg(0).eq_ignore_ascii_case("host") && names.contains(&option.arg(1))
}

/// Name and port of the only upstream.
fn only_name(rule: &Proxy) -> Option<String> {
    match rule.upstreams.as_slice() {
        [one] => one.split_once("://").map(|(_, name)| name.to_owned()),
        _ => None,
    }
}

/// The line of `header_down NAME VALUE`.
///
/// # Errors
/// Why Weir cannot do the same to a response.
fn set_line(option: &Directive) -> Result<String, String> {
    let [name, value] = option.args.as_slice() else {
        return Err("the converter carries fields that are set".to_owned());
    };
    if name.starts_with(['+', '?', '>', '-']) {
        return Err("the converter carries fields that are set".to_owned());
    }
    if value.contains('{') {
        return Err("Weir has no variables: the value is a fixed text".to_owned());
    }
    field(name, value)
}

/// The upstream of an address in Caddy's spelling, and what changes with it.
///
/// # Errors
/// Why Weir cannot pass requests there.
pub(super) fn upstream(text: &str) -> Result<(String, Option<String>), String> {
    if let Some(socket) = text.strip_prefix("unix/") {
        return upstream::address(&format!("unix:{socket}"));
    }
    if let Some(socket) = text.strip_prefix("unix+h2c/") {
        return upstream::address(&format!("h2c+unix:{socket}"));
    }
    if text.contains('{') {
        return Err("Weir has no variables".to_owned());
    }
    if let Some(port) = text.strip_prefix(':') {
        return upstream::address(&format!("http://127.0.0.1:{port}"));
    }
    match text.contains("://") {
        true => upstream::address(text),
        false => upstream::address(&format!("http://{text}")),
    }
}

fn of_option(option: &Directive, rule: &mut Proxy) -> Fate {
    let arg = option.arg(0);
    let time = |text: &str| seconds(text).map(|span| quote(&format!("{}s", span.max(1))));
    let mut set = |key: &str, value: Option<String>| match value {
        Some(value) => {
            upstream::set(rule, key, &value);
            Fate::Carried
        }
        None => Fate::missing("this is not a time"),
    };
    match option.name.as_str() {
        "lb_policy" => {
            let policy = match arg {
                "round_robin" | "weighted_round_robin" => "round-robin",
                "least_conn" => "least-connections",
                "random" | "random_choose" => "two-choices",
                "ip_hash" | "client_ip_hash" | "uri_hash" | "header" => "hash",
                _ => return Fate::missing("Weir has no such policy"),
            };
            set("balance", Some(quote(policy)));
            match arg {
                "uri_hash" => set("hash-key", Some(quote("path"))),
                "header"
                    if option
                        .arg(1)
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b == b'-') =>
                {
                    set("hash-key", Some(quote(&format!("header:{}", option.arg(1)))))
                }
                "random" => Fate::changed("of two random upstreams, the one with fewer requests"),
                "weighted_round_robin" => Fate::changed("without weights; set `weights`"),
                _ => Fate::Carried,
            }
        }
        "lb_retries" => set(
            "retries",
            arg.parse::<u32>().ok().map(|number| number.min(10).to_string()),
        ),
        "fail_duration" => set("ejection-time", time(arg)),
        "max_fails" => set(
            "max-failures",
            arg.parse::<u32>().ok().map(|number| number.to_string()),
        ),
        "health_uri" if arg.starts_with('/') => {
            rule.check.insert(0, ("path".to_owned(), quote(arg)));
            Fate::Carried
        }
        "health_interval" | "health_timeout" => match seconds(arg) {
            Some(span) => {
                let (key, most) = if option.name == "health_interval" {
                    ("interval", 3_600)
                } else {
                    ("timeout", 60)
                };
                rule.check
                    .push((key.to_owned(), quote(&format!("{}s", span.clamp(1, most)))));
                Fate::Carried
            }
            None => Fate::missing("this is not a time"),
        },
        "health_status" => match arg.parse::<u16>() {
            Ok(status @ 100..=599) => {
                rule.check.push(("status".to_owned(), status.to_string()));
                Fate::Carried
            }
            _ => Fate::missing("Weir checks for one status, or for any from 200 to 399"),
        },
        "header_up" => match (option.args.as_slice(), arg.strip_prefix('-')) {
            ([_], Some(name)) => request_field::remove(&mut rule.request_header.1, name),
            ([name, value], None) if !name.starts_with(['+', '?', '>']) => {
                request_field::set(&mut rule.request_header.0, name, value_of(value))
            }
            _ => Fate::missing("the converter carries fields that are set or removed"),
        },
        "flush_interval" | "buffer_requests" | "buffer_responses" | "request_buffers"
        | "response_buffers" => Fate::unneeded("Weir streams bodies in both directions"),
        "stream_timeout" | "stream_close_delay" => {
            Fate::unneeded("`idle-timeout` of the rule bounds the time without a byte")
        }
        "transport" if arg == "http" => {
            let mut fates = Vec::new();
            for inner in option.inner() {
                fates.push(match (inner.name.as_str(), seconds(inner.arg(0))) {
                    ("dial_timeout", Some(span)) => {
                        upstream::set(
                            rule,
                            "connect-timeout",
                            &quote(&format!("{}s", span.clamp(1, 60))),
                        );
                        None
                    }
                    ("response_header_timeout", Some(span)) => {
                        upstream::set(rule, "first-byte-timeout", &quote(&format!("{}s", span.max(1))));
                        None
                    }
                    ("read_timeout", Some(span)) => {
                        upstream::set(rule, "idle-timeout", &quote(&format!("{}s", span.max(1))));
                        None
                    }
                    ("versions", _) => versions(&inner.args, rule).err(),
                    (name, _) => Some(name.to_owned()),
                });
            }
            let others: Vec<String> = fates.into_iter().flatten().collect();
            match others.is_empty() {
                true => Fate::Carried,
                false => Fate::missing(format!("without {}", others.join(", "))),
            }
        }
        "rewrite" if let Some(fate) = option.args.last().and_then(|target| confinement::lost(target)) => fate,
        "transport" => Fate::missing("the converter carries HTTP, and FastCGI from `php_fastcgi`"),
        _ => Fate::missing("this option of the proxy has no key"),
    }
}

/// What the value of a field for upstreams is.
fn value_of(text: &str) -> Value<'_> {
    match text {
        "{scheme}" | "{http.request.scheme}" => Value::Scheme,
        "{host}" | "{hostport}" | "{http.request.host}" | "{http.request.hostport}" => Value::Host,
        "{remote_host}" | "{http.request.remote.host}" | "{client_ip}" | "{http.vars.client_ip}" => {
            Value::Client
        }
        text if text.contains('{') => Value::Variable,
        text => Value::Fixed(text),
    }
}

/// Reads the versions of HTTP that upstreams speak.
///
/// # Errors
/// The option in words, if Weir cannot do the same.
fn versions(versions: &[String], rule: &mut Proxy) -> Result<(), String> {
    let has = |version: &str| versions.iter().any(|one| one == version);
    if has("3") {
        return Err("HTTP/3 to upstreams".to_owned());
    }
    if has("h2c") {
        for upstream in &mut rule.upstreams {
            match upstream.strip_prefix("http://") {
                Some(rest) => *upstream = format!("h2c://{rest}"),
                None if upstream.starts_with("unix:") => *upstream = format!("h2c+{upstream}"),
                None if upstream.starts_with("h2c") => {}
                None => return Err(format!("h2c to {upstream}")),
            }
        }
    }
    if has("2")
        && rule
            .upstreams
            .iter()
            .any(|upstream| upstream.starts_with("https://"))
    {
        upstream::set(rule, "http2", "true");
    }
    Ok(())
}
