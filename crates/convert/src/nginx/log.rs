//! `log_format` and `access_log`: the file, and the template of its lines.

use crate::access_log::{self, Log};
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::Server;

/// Times of nginx are in seconds.
const IN_MILLIS: Option<&str> = Some("times are in milliseconds");

/// Variables of nginx, Weir's, and how their values differ.
const VARIABLES: &[(&str, &str, Option<&str>)] = &[
    ("args", "query", None),
    ("body_bytes_sent", "body_bytes", None),
    ("bytes_sent", "bytes", None),
    ("host", "host", None),
    ("http_host", "host", None),
    ("http_referer", "referer", None),
    ("http_user_agent", "user_agent", None),
    ("query_string", "query", None),
    ("remote_addr", "peer", None),
    ("remote_user", "user", None),
    ("request", "request", None),
    ("request_id", "request_id", None),
    ("request_method", "method", None),
    ("request_time", "duration_ms", IN_MILLIS),
    ("request_uri", "target", None),
    ("scheme", "scheme", None),
    ("server_protocol", "version", None),
    ("ssl_protocol", "tls_version", None),
    ("status", "status", None),
    ("tcpinfo_rtt", "rtt_us", None),
    ("time_iso8601", "time", None),
    ("time_local", "time_clf", None),
    ("upstream_addr", "upstream", None),
    (
        "upstream_cache_status",
        "cache_status",
        Some(
            "`$cache_status` is `hit` or why the upstream was asked, as `uri-miss` for `MISS` and `stale` for `EXPIRED`",
        ),
    ),
    ("upstream_response_time", "upstream_ms", IN_MILLIS),
    ("uri", "path", None),
];

/// What the variables of request fields begin with, in nginx as in Weir.
const FIELD_PREFIX: &str = "http_";

/// Reads `log_format`; the template is known to later `access_log` by its name.
pub(super) fn format(directive: &Directive, server: &mut Server) -> Fate {
    let Some((name, texts)) = directive.args.split_first() else {
        return Fate::missing("it has no name");
    };
    let texts: Vec<&str> = texts
        .iter()
        .map(String::as_str)
        .filter(|text| !text.starts_with("escape="))
        .collect();
    match template(&texts.concat()) {
        Ok((template, differences)) => {
            server.log_templates.insert(name.clone(), template);
            match differences.is_empty() {
                true => Fate::Carried,
                false => Fate::changed(differences.join("; ")),
            }
        }
        Err(why) => Fate::missing(why),
    }
}

/// The template of Weir, and how values of its variables differ.
///
/// # Errors
/// The first variable that Weir does not have.
fn template(text: &str) -> Result<(String, Vec<&'static str>), String> {
    let mut out = String::new();
    let mut differences: Vec<&'static str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, next) = match after.strip_prefix('{') {
            Some(inside) => inside.split_once('}').ok_or("a `${` has no `}`")?,
            None => {
                let end = after
                    .bytes()
                    .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
                    .count();
                after.split_at(end)
            }
        };
        let known = VARIABLES.iter().find(|(theirs, ..)| *theirs == name);
        let (ours, differs) = match known {
            Some((_, ours, differs)) => (*ours, *differs),
            None if name.len() > FIELD_PREFIX.len() && name.starts_with(FIELD_PREFIX) => (name, None),
            None => return Err(format!("Weir's log has no `${name}`")),
        };
        differences.extend(differs.filter(|difference| !differences.contains(difference)));
        // What follows must not become a part of the name.
        match next.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            true => out.push_str(&format!("${{{ours}}}")),
            false => out.push_str(&format!("${ours}")),
        }
        rest = next;
    }
    out.push_str(rest);
    Ok((out, differences))
}

/// Reads `access_log` of `http` or a server.
pub(super) fn access(directive: &Directive, log: &mut Option<Log>, server: &mut Server) -> Fate {
    let path = directive.arg(0);
    if path == "off" {
        return access_log::set(log, Log::Off, Fate::Carried);
    }
    if path.contains('$') || path.starts_with("syslog:") {
        return Fate::missing(format!(
            "`{path}` is no file of one name, and no `-` for standard output"
        ));
    }
    let path = if path == "/dev/stdout" { "-" } else { path };
    let format = directive.arg(1);
    if let Some(template) = server.log_templates.get(format).cloned() {
        if template.contains("$rtt_us") {
            server.key("log-tcp", "true");
        }
        if template.contains("$request_id") || template.contains("${request_id}") {
            server.key("request-id", "true");
        }
        return access_log::set(log, Log::of_template(path, &template), Fate::Carried);
    }
    let (format, fate) = match format {
        "" | "combined" => ("combined", Fate::Carried),
        format if format.contains("json") => ("json", Fate::changed("in Weir's JSON format")),
        _ => ("combined", Fate::changed("in the `combined` format")),
    };
    access_log::set(log, Log::of_format(path, format), fate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_have_variables_of_weir() {
        for (theirs, ours) in [
            (
                "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent",
                Ok((
                    "$peer - $user [$time_clf] \"$request\" $status $body_bytes".to_owned(),
                    vec![],
                )),
            ),
            (
                "${status}x ${request_time}s",
                Ok((
                    "${status}x ${duration_ms}s".to_owned(),
                    vec!["times are in milliseconds"],
                )),
            ),
            ("$status$uri", Ok(("$status$path".to_owned(), vec![]))),
            ("$request_id", Ok(("$request_id".to_owned(), vec![]))),
            (
                "$scheme $ssl_protocol $http_host ${http_x_forwarded_for}s",
                Ok((
                    "$scheme $tls_version $host ${http_x_forwarded_for}s".to_owned(),
                    vec![],
                )),
            ),
            (
                "$request_time $upstream_cache_status $upstream_response_time",
                Ok((
                    "$duration_ms $cache_status $upstream_ms".to_owned(),
                    vec![
                        "times are in milliseconds",
                        "`$cache_status` is `hit` or why the upstream was asked, as `uri-miss` for `MISS` and `stale` for `EXPIRED`",
                    ],
                )),
            ),
            ("$http_", Err("Weir's log has no `$http_`".to_owned())),
            ("$connection", Err("Weir's log has no `$connection`".to_owned())),
            ("$", Err("Weir's log has no `$`".to_owned())),
            ("${status", Err("a `${` has no `}`".to_owned())),
        ] {
            assert_eq!(template(theirs), ours, "{theirs}");
        }
    }
}
