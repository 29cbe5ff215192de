//! Fields of requests on their way to upstreams: which of them a rule of Weir can set or remove, and which Weir sends by itself.
//! The dialects say what a value means to them; this file knows nothing of their variables.

use crate::fate::Fate;
use crate::value::{field, is_token};

/// What the value of a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'v> {
    /// This text.
    Fixed(&'v str),
    /// The scheme of the request.
    Scheme,
    /// The host of the request, with its port or without.
    Host,
    /// The address of the client, or what proxies before said and this address.
    Client,
    /// Something else that differs from request to request.
    Variable,
}

/// Fields that rules of Weir cannot change: those of a connection, framing, and those that name the client.
const RESERVED: [&str; 14] = [
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
];

/// Fields of which a request has one line, which a rule of Weir sets in place of its own.
const SINGLE: [&str; 3] = ["host", "x-forwarded-host", "x-forwarded-proto"];

/// Fields of other servers for what Weir says in fields of other names.
const ALIKE: [&str; 9] = [
    "front-end-https",
    "x-forwarded-port",
    "x-forwarded-protocol",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-real-ip",
    "x-scheme",
    "x-url-scheme",
];

/// Why a field with the client's own values needs no rule.
const DESCRIBED: &str = "Weir describes the client in this field, and drops what the client sent in it";

/// The name in lower case. Weir takes `_` for `-`, as some applications do.
fn known(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// What becomes of a field that upstreams get with this value. Its line is added to `lines`.
pub(crate) fn set(lines: &mut Vec<String>, name: &str, value: Value<'_>) -> Fate {
    let known = known(name);
    match (known.as_str(), value) {
        ("host", Value::Host) => Fate::unneeded("Weir passes the client's `Host` on"),
        ("host", value) if !matches!(value, Value::Fixed(_)) => {
            Fate::missing("Weir passes the client's `Host` on; a rule can set a fixed one")
        }
        ("x-forwarded-proto", Value::Scheme)
        | ("x-forwarded-host", Value::Host)
        | ("x-forwarded-for" | "forwarded", Value::Client) => Fate::unneeded(DESCRIBED),
        ("x-forwarded-for" | "forwarded", _) => Fate::missing(
            "Weir names the client in this field itself; `trusted` has the proxies in front whose field it reads",
        ),
        (_, Value::Fixed(text)) => match line(name, &known, text) {
            Ok(line) => {
                put(lines, line);
                Fate::Carried
            }
            Err(why) => Fate::missing(why),
        },
        ("x-forwarded-proto", _) => Fate::missing(
            "Weir sends the scheme that it received, or that a proxy in `trusted` names; `[proxy.request-header]` can set a fixed one",
        ),
        ("x-forwarded-host", _) => {
            Fate::missing("Weir sends the client's `Host`; `[proxy.request-header]` can set a fixed value")
        }
        (name, _) if ALIKE.contains(&name) => Fate::missing(
            "Weir sends `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host` and `Forwarded`; let the application read those",
        ),
        _ => Fate::missing("Weir has no variables: the value is a fixed text"),
    }
}

/// What becomes of a field that upstreams do not get. Its name is added to `names`.
pub(crate) fn remove(names: &mut Vec<String>, name: &str) -> Fate {
    let known = known(name);
    match known.as_str() {
        "content-length" | "host" | "transfer-encoding" | "via" => {
            Fate::missing("Weir writes this field into every request")
        }
        "forwarded" | "x-forwarded-for" | "x-forwarded-host" | "x-forwarded-proto" => {
            Fate::changed("Weir drops what the client sent in this field, and writes it itself")
        }
        other if RESERVED.contains(&other) => Fate::unneeded("Weir drops fields of the client's connection"),
        // A name may contain a star, but Caddy means any text by it.
        _ if name.contains('*') => Fate::missing("a rule of Weir removes fields by their whole names"),
        _ if name.is_empty() || !name.bytes().all(is_token) => {
            Fate::missing(format!("`{name}` is not a field name"))
        }
        _ => {
            names.push(name.to_owned());
            Fate::Carried
        }
    }
}

/// The line of a field.
///
/// # Errors
/// Why a rule of Weir cannot set it.
fn line(name: &str, known: &str, text: &str) -> Result<String, String> {
    let is_single = SINGLE.contains(&known);
    if RESERVED.contains(&known) || (is_single && !name.eq_ignore_ascii_case(known)) {
        return Err(format!("`{name}` belongs to the connection, or Weir writes it"));
    }
    let line = field(name, text)?;
    // White space is joined.
    let value = line.split_once(": ").map_or("", |(_, value)| value);
    let has_only = |more: &[u8]| {
        let is_part = |b: u8| b.is_ascii_alphanumeric() || more.contains(&b);
        !value.is_empty() && value.bytes().all(is_part)
    };
    let is_valid = match known {
        "host" => has_only(b"-._:[]"),
        "x-forwarded-proto" => {
            has_only(b"+-.") && value.starts_with(|first: char| first.is_ascii_alphabetic())
        }
        "x-forwarded-host" => has_only(b"-._:[]/~%@+=&?"),
        _ => true,
    };
    match is_valid {
        true => Ok(line),
        false => Err(format!(
            "`{text}` is no value that a rule of Weir can give `{name}`"
        )),
    }
}

/// Adds a line. Of a field that has one line, the last one stays.
pub(crate) fn put(lines: &mut Vec<String>, line: String) {
    let name = |line: &str| line.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let new = name(&line);
    if SINGLE.contains(&&*new) {
        lines.retain(|known| name(known) != new);
    }
    lines.push(line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fidelity::converted;
    use crate::{Conversion, Dialect};

    /// The words for the fates of a line.
    fn words(found: &Conversion, line: usize) -> Vec<&'static str> {
        let notes = found.report.notes().iter().filter(|note| note.line == line);
        notes.map(|note| note.fate.word()).collect()
    }

    /// Converts the lines, one at a time, and compares: what becomes of it, and the line of the result.
    fn check(dialect: Dialect, (start, end): (&str, &str), rows: &[(&str, &str, Option<&str>)]) {
        for (text, wanted, line) in rows {
            let found = converted(dialect, &format!("{start}\n{text}\n{end}"));
            let at = start.lines().count() + 1;
            assert_eq!(words(&found, at), [*wanted], "{text}: {:?}", found.report);
            let set = line.map(|line| format!("set = [\"{line}\"]"));
            let mut lines = found.toml.lines();
            let got = lines.find(|one| one.starts_with("set = "));
            assert_eq!(got, set.as_deref(), "{text}: {}", found.toml);
            // What Weir refuses to remove is not removed.
            assert!(!found.toml.contains("remove = "), "{text}: {}", found.toml);
        }
    }

    #[test]
    fn nginx_describes_requests() {
        check(
            Dialect::Nginx,
            (
                "server { listen 80; server_name a.test; location / { proxy_pass http://10.0.0.1:80;",
                "} }",
            ),
            &[
                (
                    "proxy_set_header X-Forwarded-Proto https;",
                    "carried",
                    Some("X-Forwarded-Proto: https"),
                ),
                ("proxy_set_header X-Forwarded-Proto $scheme;", "unneeded", None),
                (
                    "proxy_set_header X-Forwarded-Proto $http_x_forwarded_proto;",
                    "missing",
                    None,
                ),
                ("proxy_set_header X-Forwarded-Proto on,off;", "missing", None),
                ("proxy_set_header X-Forwarded-Proto \"\";", "changed", None),
                ("proxy_set_header X-Forwarded-Host $host;", "unneeded", None),
                ("proxy_set_header X-Forwarded-Host $http_host;", "unneeded", None),
                ("proxy_set_header X-Forwarded-Host $server_name;", "missing", None),
                (
                    "proxy_set_header X-Forwarded-Host www.a.test;",
                    "carried",
                    Some("X-Forwarded-Host: www.a.test"),
                ),
                (
                    "proxy_set_header X-Forwarded-Port 443;",
                    "carried",
                    Some("X-Forwarded-Port: 443"),
                ),
                ("proxy_set_header X-Forwarded-Port $server_port;", "missing", None),
                (
                    "proxy_set_header X-Forwarded-Ssl on;",
                    "carried",
                    Some("X-Forwarded-Ssl: on"),
                ),
                (
                    "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
                    "unneeded",
                    None,
                ),
                ("proxy_set_header X-Forwarded-For $remote_addr;", "unneeded", None),
                (
                    "proxy_set_header X-Forwarded-For $http_x_forwarded_for;",
                    "missing",
                    None,
                ),
                ("proxy_set_header X-Forwarded-For 10.0.0.1;", "missing", None),
                (
                    "proxy_set_header Forwarded \"for=$remote_addr;proto=$scheme\";",
                    "unneeded",
                    None,
                ),
                ("proxy_set_header Forwarded $http_forwarded;", "missing", None),
                ("proxy_set_header X-Real-IP $remote_addr;", "missing", None),
                ("proxy_set_header Te \"\";", "unneeded", None),
                ("proxy_set_header Content-Length \"\";", "missing", None),
                ("proxy_set_header Host $proxy_host;", "missing", None),
                (
                    "proxy_set_header Host app.internal;",
                    "carried",
                    Some("Host: app.internal"),
                ),
                ("proxy_set_header Host a.test/office;", "missing", None),
            ],
        );
    }

    #[test]
    fn caddy_describes_requests() {
        check(
            Dialect::Caddy,
            ("http://a.test {\nreverse_proxy 10.0.0.1:80 {", "}\n}"),
            &[
                (
                    "header_up X-Forwarded-Proto https",
                    "carried",
                    Some("X-Forwarded-Proto: https"),
                ),
                ("header_up X-Forwarded-Proto {scheme}", "unneeded", None),
                (
                    "header_up X-Forwarded-Proto {header.X-Forwarded-Proto}",
                    "missing",
                    None,
                ),
                ("header_up X-Forwarded-Proto http https", "missing", None),
                ("header_up X-Forwarded-Host {host}", "unneeded", None),
                ("header_up X-Forwarded-Host {host}/onlyoffice", "missing", None),
                (
                    "header_up X-Forwarded-Host a.test/onlyoffice",
                    "carried",
                    Some("X-Forwarded-Host: a.test/onlyoffice"),
                ),
                ("header_up X-Forwarded-For {remote_host}", "unneeded", None),
                ("header_up X-Forwarded-For {header.X-Real-IP}", "missing", None),
                ("header_up -X-Forwarded-For", "changed", None),
                ("header_up -X-Forwarded-*", "missing", None),
                ("header_up Host {hostport}", "unneeded", None),
                (
                    "header_up Host {upstream_hostport}",
                    "carried",
                    Some("Host: 10.0.0.1:80"),
                ),
            ],
        );
    }

    #[test]
    fn apache_describes_requests() {
        check(
            Dialect::Apache,
            ("DocumentRoot /srv/www\nProxyPass / http://10.0.0.1:80/", ""),
            &[
                (
                    "RequestHeader set X-Forwarded-Proto \"https\"",
                    "carried",
                    Some("X-Forwarded-Proto: https"),
                ),
                (
                    "RequestHeader set X-Forwarded-Port \"443\" early",
                    "carried",
                    Some("X-Forwarded-Port: 443"),
                ),
                (
                    "RequestHeader set X-Forwarded-Proto expr=%{REQUEST_SCHEME}",
                    "unneeded",
                    None,
                ),
                (
                    "RequestHeader set X-Forwarded-Proto https env=HTTPS",
                    "unneeded",
                    None,
                ),
                (
                    "RequestHeader set X-Forwarded-Proto https env=other",
                    "missing",
                    None,
                ),
                (
                    "RequestHeader set X-Forwarded-Host \"%{HTTP_HOST}e\"",
                    "unneeded",
                    None,
                ),
                (
                    "RequestHeader set X-Forwarded-For \"%{REMOTE_ADDR}s\"",
                    "unneeded",
                    None,
                ),
                (
                    "RequestHeader set X-Forwarded-User \"%{REMOTE_USER}s\"",
                    "missing",
                    None,
                ),
                ("RequestHeader unset X-Forwarded-Host", "changed", None),
                ("RequestHeader append X-Forwarded-For 10.0.0.1", "missing", None),
            ],
        );
    }

    #[test]
    fn of_fields_with_one_line_the_last_stays() {
        let mut lines = Vec::new();
        for text in [
            "X-A: 1",
            "X-Forwarded-Proto: http",
            "X-A: 2",
            "x-forwarded-proto: https",
        ] {
            put(&mut lines, text.to_owned());
        }
        assert_eq!(lines, ["X-A: 1", "X-A: 2", "x-forwarded-proto: https"]);
    }
}
