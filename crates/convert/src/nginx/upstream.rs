//! `upstream` blocks, `proxy_pass`, and the settings of `proxy_*` that Weir has keys for.

use super::plain;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::Proxy;
use crate::report::Report;
use crate::request_field::{self, Value};
use crate::upstream::{VERIFIED, address, set};
use crate::value::{bytes, is_site_path, quote, seconds};
use std::collections::BTreeMap;

/// Most upstreams of one rule of Weir.
const UPSTREAMS_MAX: usize = 64;

/// Longest `connect-timeout` of Weir, in seconds.
const CONNECT_MAX: u64 = 60;

/// Why requests with TLS do not go to a socket.
const NO_TLS: &str = "Weir speaks no TLS to sockets of this machine";

/// Groups of upstreams by name.
pub(super) type Groups = BTreeMap<String, Proxy>;

/// Reads an `upstream` block.
pub(super) fn group(block: &Directive, groups: &mut Groups, report: &mut Report) {
    let mut rule = Proxy::default();
    for directive in block.inner() {
        let fate = member(directive, &mut rule);
        report.add(&directive.at, &directive.shown(), fate);
    }
    let fate = match rule.upstreams.is_empty() {
        true => Fate::missing("none of its servers is an address that Weir can pass requests to"),
        false => Fate::Carried,
    };
    report.add(&block.at, &block.shown(), fate);
    groups.insert(block.arg(0).to_owned(), rule);
}

fn member(directive: &Directive, rule: &mut Proxy) -> Fate {
    let mut balance = |policy: &str| {
        rule.keys.push(("balance".to_owned(), quote(policy)));
        Fate::Carried
    };
    match directive.name.as_str() {
        "server" => server(directive, rule),
        "least_conn" => balance("least-connections"),
        "ip_hash" => {
            balance("hash");
            Fate::changed("Weir hashes the whole address and moves only the keys of an upstream that leaves")
        }
        "hash" => match directive.arg(0) {
            "$remote_addr" | "$binary_remote_addr" => balance("hash"),
            "$request_uri" | "$uri" => {
                balance("hash");
                rule.keys.push(("hash-key".to_owned(), quote("path")));
                Fate::changed("Weir hashes the path without the query")
            }
            other => match other.strip_prefix("$http_") {
                Some(field)
                    if !field.is_empty() && field.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') =>
                {
                    balance("hash");
                    rule.keys.push((
                        "hash-key".to_owned(),
                        quote(&format!("header:{}", field.replace('_', "-"))),
                    ));
                    Fate::Carried
                }
                _ => Fate::missing("Weir hashes the address of the client, the path, or one request field"),
            },
        },
        "random" => balance("two-choices"),
        "keepalive" => match directive.arg(0).parse::<u32>() {
            Ok(number) => {
                rule.keys
                    .push(("keepalive".to_owned(), number.min(1_024).to_string()));
                Fate::Carried
            }
            Err(_) => Fate::missing("this is not a number"),
        },
        "keepalive_timeout" => match seconds(directive.arg(0)) {
            Some(span) => {
                rule.keys
                    .push(("keepalive-time".to_owned(), quote(&format!("{}s", span.max(1)))));
                Fate::Carried
            }
            None => Fate::missing("this is not a time"),
        },
        "keepalive_requests" | "keepalive_time" => {
            Fate::unneeded("Weir keeps connections to upstreams as long as they allow")
        }
        other => plain::fate(other)
            .unwrap_or_else(|| Fate::missing("the converter does not know this directive of an upstream")),
    }
}

fn server(directive: &Directive, rule: &mut Proxy) -> Fate {
    let options = directive.args.get(1..).unwrap_or_default();
    if options.iter().any(|option| option == "down") {
        return Fate::unneeded("the server is marked as down");
    }
    if options.iter().any(|option| option == "backup") {
        return Fate::missing("Weir has no backup upstreams: all of a rule share its requests");
    }
    let text = directive.arg(0);
    let text = match text.starts_with("unix:") {
        true => text.to_owned(),
        false => format!("http://{text}"),
    };
    let (address, changed) = match address(&text) {
        Ok(found) => found,
        Err(why) => return Fate::missing(why),
    };
    if rule.upstreams.len() == UPSTREAMS_MAX {
        return Fate::missing(format!("a rule has at most {UPSTREAMS_MAX} upstreams"));
    }
    let mut unknown = Vec::new();
    let mut weight = 1;
    for option in options {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match (key, value.parse::<u32>().ok(), seconds(value)) {
            ("weight", Some(number), _) => weight = number.clamp(1, 100),
            ("max_fails", Some(number), _) => set(rule, "max-failures", &number.to_string()),
            ("fail_timeout", _, Some(span)) => {
                set(rule, "ejection-time", &quote(&format!("{}s", span.max(1))))
            }
            ("slow_start", _, Some(span)) => set(rule, "slow-start", &quote(&format!("{span}s"))),
            _ => unknown.push(option.as_str()),
        }
    }
    rule.upstreams.push(address);
    rule.weights.push(weight);
    match (unknown.is_empty(), changed) {
        (false, _) => Fate::changed(format!("without {}", unknown.join(", "))),
        (true, Some(why)) => Fate::changed(why),
        (true, None) => Fate::Carried,
    }
}

/// The rule for a `proxy_pass` of a location, without its path, and what changes.
///
/// # Errors
/// Why Weir cannot pass requests there.
pub(super) fn pass(
    target: &str,
    location: Option<&str>,
    groups: &Groups,
) -> Result<(Proxy, Option<String>), String> {
    let (scheme, rest) = target.split_once("://").unwrap_or(("http", target));
    let is_grpc = scheme.starts_with("grpc");
    let scheme = match scheme {
        "grpc" => "h2c",
        "grpcs" => "https",
        other => other,
    };
    let (authority, uri) = match rest.strip_prefix("unix:") {
        Some(path) => match path.split_once(':') {
            Some((socket, uri)) => (format!("unix:{socket}"), Some(uri)),
            None => (format!("unix:{path}"), None),
        },
        None => match rest.find('/') {
            Some(at) => (rest[..at].to_owned(), Some(&rest[at..])),
            None => (rest.to_owned(), None),
        },
    };
    let (mut rule, mut changed) = match groups.get(&authority) {
        Some(group) if group.upstreams.is_empty() => {
            return Err(format!(
                "`{authority}` has no upstream that Weir can pass requests to"
            ));
        }
        Some(group) if scheme != "http" => {
            let mut rule = group.clone();
            for upstream in &mut rule.upstreams {
                *upstream = match upstream.strip_prefix("http://") {
                    Some(rest) => format!("{scheme}://{rest}"),
                    None if scheme == "h2c" => format!("h2c+{upstream}"),
                    None => return Err(NO_TLS.to_owned()),
                };
            }
            (rule, (scheme == "https").then(|| VERIFIED.to_owned()))
        }
        Some(group) => (group.clone(), None),
        None => {
            let text = match authority.starts_with("unix:") {
                true if scheme == "h2c" => format!("h2c+{authority}"),
                true if is_grpc => return Err(NO_TLS.to_owned()),
                true => authority.clone(),
                false => format!("{scheme}://{authority}"),
            };
            let (upstream, changed) = address(&text)?;
            let rule = Proxy {
                upstreams: vec![upstream],
                weights: vec![1],
                ..Proxy::default()
            };
            (rule, changed)
        }
    };
    if is_grpc && scheme == "https" {
        set(&mut rule, "http2", "true");
    }
    match (uri, location) {
        (None, _) => {}
        (Some(uri), Some(location)) if uri == location => {}
        (Some("/"), Some(location)) if location.ends_with('/') => rule.strip = true,
        (Some("/"), Some(_)) => {
            rule.strip = true;
            changed = Some(
                "Weir sends the part of the path behind the location, with a slash before it".to_owned(),
            );
        }
        (Some(uri), Some(location)) if uri.ends_with('/') && is_site_path(uri.trim_end_matches('/')) => {
            set(&mut rule, "rewrite", &quote(&format!("{uri}*")));
            changed = (!location.ends_with('/')).then(|| {
                "Weir sends the part of the path behind the location, with one slash before it".to_owned()
            });
        }
        _ => {
            return Err(
                "Weir sends the whole path, or the part that the star of `path` stands for, to upstreams"
                    .to_owned(),
            );
        }
    }
    Ok((rule, changed))
}

/// Keys of `[[proxy]]` from directives of `http`, `server` and `location`.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    keys: Vec<(String, String)>,
    /// Field lines for upstreams, and fields that they do not get.
    fields: (Vec<String>, Vec<String>),
}

impl Settings {
    fn set(&mut self, key: &str, value: String) {
        self.keys.retain(|(known, _)| known != key);
        self.keys.push((key.to_owned(), value));
    }

    /// Forgets the fields of the level around this one, which sets its own.
    pub(super) fn clear_fields(&mut self) {
        self.fields = <_>::default();
    }

    /// Puts the settings into a rule, which keeps its own.
    pub(super) fn apply(&self, rule: &mut Proxy) {
        rule.request_header.clone_from(&self.fields);
        for (key, value) in &self.keys {
            if !rule.keys.iter().any(|(known, _)| known == key) {
                rule.keys.push((key.clone(), value.clone()));
            }
        }
    }

    /// Reads a directive. `None`: it is no setting of the proxy.
    pub(super) fn read(&mut self, directive: &Directive) -> Option<Fate> {
        let span = || seconds(directive.arg(0));
        let name = match directive.name.strip_prefix("grpc_") {
            Some(rest)
                if ["connect_timeout", "read_timeout", "set_header", "next_upstream"].contains(&rest) =>
            {
                format!("proxy_{rest}")
            }
            _ => directive.name.clone(),
        };
        let fate = match name.as_str() {
            "proxy_cache" if directive.arg(0) == "off" => {
                self.keys.retain(|(known, _)| known != "cache");
                Fate::Carried
            }
            "proxy_cache" => {
                self.set("cache", "true".to_owned());
                Fate::changed(
                    "Weir stores what RFC 9111 allows, in memory; `[proxy.cache]` has sizes, `disk` and times",
                )
            }
            "proxy_connect_timeout" => match span() {
                Some(span) => {
                    self.set(
                        "connect-timeout",
                        quote(&format!("{}s", span.clamp(1, CONNECT_MAX))),
                    );
                    match span > CONNECT_MAX {
                        true => Fate::changed("Weir waits at most 60 s for a connection"),
                        false => Fate::Carried,
                    }
                }
                None => Fate::missing("this is not a time"),
            },
            "proxy_read_timeout" => match span() {
                Some(span) => {
                    let value = quote(&format!("{}s", span.max(1)));
                    self.set("first-byte-timeout", value.clone());
                    self.set("idle-timeout", value);
                    Fate::Carried
                }
                None => Fate::missing("this is not a time"),
            },
            "client_max_body_size" => match bytes(directive.arg(0)) {
                Some(0) => {
                    self.set("max-body-size", quote("1TiB"));
                    Fate::changed(
                        "request bodies for upstreams may have up to 1 TiB; Weir has no unlimited size",
                    )
                }
                Some(size) => {
                    self.set("max-body-size", size.to_string());
                    Fate::changed(
                        "for requests to upstreams; Weir discards all other bodies, up to `max-body-size` of the top level",
                    )
                }
                None => Fate::missing("this is not a size"),
            },
            "proxy_next_upstream" if directive.arg(0) == "off" => {
                self.set("retries", "0".to_owned());
                Fate::Carried
            }
            "proxy_next_upstream" => Fate::changed(
                "Weir repeats a request without a body if an upstream fails before its first byte; a status is no failure",
            ),
            "proxy_next_upstream_tries" => match directive.arg(0).parse::<u32>() {
                Ok(number) => {
                    self.set("retries", number.saturating_sub(1).min(10).to_string());
                    Fate::Carried
                }
                Err(_) => Fate::missing("this is not a number"),
            },
            "proxy_redirect" if matches!(directive.arg(0), "off" | "default") => {
                Fate::unneeded("Weir passes `Location` on unchanged, and upstreams see the client's `Host`")
            }
            "proxy_redirect" => Fate::missing("Weir passes `Location` on unchanged"),
            "proxy_intercept_errors" if directive.arg(0) == "off" => {
                Fate::unneeded("Weir passes errors of upstreams on")
            }
            "proxy_intercept_errors" => {
                Fate::missing("`error-pages` replaces Weir's own errors, not those of upstreams")
            }
            "proxy_set_header" => set_header(directive, &mut self.fields),
            _ => return None,
        };
        Some(fate)
    }
}

/// The fate of a field for upstreams.
fn set_header(directive: &Directive, (set, remove): &mut (Vec<String>, Vec<String>)) -> Fate {
    let (name, value) = (directive.arg(0), directive.arg(1));
    match name.to_ascii_lowercase().as_str() {
        "upgrade" | "connection" => {
            Fate::unneeded("Weir keeps connections, and lets clients switch to WebSocket (`websocket`)")
        }
        _ if value.is_empty() => request_field::remove(remove, name),
        _ => request_field::set(set, name, value_of(value)),
    }
}

/// What the value of a field for upstreams is.
fn value_of(text: &str) -> Value<'_> {
    match text {
        "$scheme" => Value::Scheme,
        "$host" | "$http_host" | "$host:$server_port" => Value::Host,
        "$remote_addr" | "$proxy_add_x_forwarded_for" | "$http_x_forwarded_for, $remote_addr" => {
            Value::Client
        }
        // `Forwarded`: the map that the documentation of nginx has for it, or a part of it.
        text if text.starts_with("$proxy_add_forwarded") || text.contains("for=$remote_addr") => {
            Value::Client
        }
        text if text.contains('$') => Value::Variable,
        text => Value::Fixed(text),
    }
}
