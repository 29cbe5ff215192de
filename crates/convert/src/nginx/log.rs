//! `log_format` and `access_log`: the file, and the template of its lines.

use crate::access_log::{self, Log};
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::Server;

/// Variables of nginx, Weir's, and whether the unit differs.
const VARIABLES: &[(&str, &str, bool)] = &[
    ("args", "query", false),
    ("body_bytes_sent", "body_bytes", false),
    ("bytes_sent", "bytes", false),
    ("host", "host", false),
    ("http_host", "host", false),
    ("http_referer", "referer", false),
    ("http_user_agent", "user_agent", false),
    ("query_string", "query", false),
    ("remote_addr", "peer", false),
    ("remote_user", "user", false),
    ("request", "request", false),
    ("request_id", "request_id", false),
    ("request_method", "method", false),
    ("request_time", "duration_ms", true),
    ("request_uri", "target", false),
    ("server_protocol", "version", false),
    ("status", "status", false),
    ("tcpinfo_rtt", "rtt_us", false),
    ("time_iso8601", "time", false),
    ("time_local", "time_clf", false),
    ("upstream_addr", "upstream", false),
    ("upstream_response_time", "upstream_ms", true),
    ("uri", "path", false),
];

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
        Ok((template, units_differ)) => {
            server.log_templates.insert(name.clone(), template);
            match units_differ {
                true => Fate::changed("times are in milliseconds"),
                false => Fate::Carried,
            }
        }
        Err(why) => Fate::missing(why),
    }
}

/// The template of Weir, and whether the unit of a variable differs.
///
/// # Errors
/// The first variable that Weir does not have.
fn template(text: &str) -> Result<(String, bool), String> {
    let mut out = String::new();
    let mut units_differ = false;
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
        let (_, ours, differs) = known.ok_or_else(|| format!("Weir's log has no `${name}`"))?;
        units_differ |= *differs;
        // What follows must not become a part of the name.
        match next.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            true => out.push_str(&format!("${{{ours}}}")),
            false => out.push_str(&format!("${ours}")),
        }
        rest = next;
    }
    out.push_str(rest);
    Ok((out, units_differ))
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
                    false,
                )),
            ),
            (
                "${status}x ${request_time}s",
                Ok(("${status}x ${duration_ms}s".to_owned(), true)),
            ),
            ("$status$uri", Ok(("$status$path".to_owned(), false))),
            ("$request_id", Ok(("$request_id".to_owned(), false))),
            ("$connection", Err("Weir's log has no `$connection`".to_owned())),
            ("$", Err("Weir's log has no `$`".to_owned())),
            ("${status", Err("a `${` has no `}`".to_owned())),
        ] {
            assert_eq!(template(theirs), ours, "{theirs}");
        }
    }
}
