//! Rules for applications of FastCGI, as nginx, Caddy and Apache describe them. Decides which parameters Weir sets itself, and
//! which front controllers it has.

use crate::model::Proxy;

/// The parameters that Weir sets for each request, and those of nginx's own files of which PHP has no use.
const SET: [&str; 28] = [
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "HTTP_HOST",
    "HTTP_PROXY",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_REAL_IP",
    "HTTP_AUTHORIZATION",
    "HTTP_COOKIE",
    "HTTP_USER_AGENT",
];

/// Whether Weir tells the application this parameter itself.
pub(crate) fn is_set(name: &str) -> bool {
    SET.contains(&name)
}

/// The parameter that says https, which a rule of Weir may fix.
pub(crate) const HTTPS: &str = "HTTPS";

/// Why another value of that parameter is lost.
pub(crate) const NO_FIXED_SCHEME: &str = "Weir says https if the request has it, or if a proxy in `trusted` names it in `X-Forwarded-Proto`; \
                                          `HTTPS = \"on\"` in `params` says it for all requests";

/// The value of that parameter in a rule of Weir, for a fixed one.
pub(crate) fn fixed_https(value: &str) -> Option<&'static str> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "1" => Some("on"),
        "off" | "0" | "" => Some("off"),
        _ => None,
    }
}

/// Sets a parameter of a rule.
pub(crate) fn set_param(rule: &mut Proxy, name: &str, value: &str) {
    rule.params.retain(|(known, _)| known != name);
    rule.params.push((name.to_owned(), value.to_owned()));
}

/// Whether a rule of Weir may have this parameter, with this fixed value.
pub(crate) fn is_param(name: &str, value: &str) -> bool {
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let capital = name.to_ascii_uppercase();
    let is_own = is_set(&capital)
        || capital.starts_with("HTTP_")
        || ["AUTH_TYPE", "REMOTE_HOST", "REMOTE_IDENT", "REMOTE_USER"].contains(&&*capital);
    !name.is_empty() && name.bytes().all(is_name) && !is_own && !value.contains(['$', '{', '\0'])
}

/// The path of the script in the last argument of `try_files`, as in `/index.php?$args`; `None`: it is no front controller that
/// gets the query of the request as it is.
pub(crate) fn front(text: &str) -> Option<&str> {
    const QUERIES: [&str; 6] = [
        "",
        "?$args",
        "?$query_string",
        "?$is_args$args",
        "$is_args$args",
        "$is_args$query_string",
    ];
    let end = text.find(".php")? + ".php".len();
    let (path, query) = text.split_at(end);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.');
    let is_path =
        path.starts_with('/') && path.bytes().all(is_plain) && !path.contains("//") && !path.contains("/.");
    (is_path && QUERIES.contains(&query)).then_some(path)
}

/// The rule for the scripts of a site at these upstreams, whose addresses are those of HTTP.
pub(crate) fn rule(upstreams: &[String]) -> Proxy {
    let address = |upstream: &String| match upstream.strip_prefix("http://") {
        Some(rest) => format!("fastcgi://{rest}"),
        None => format!("fastcgi+{upstream}"),
    };
    Proxy {
        path: "/*".to_owned(),
        upstreams: upstreams.iter().map(address).collect(),
        weights: vec![1; upstreams.len()],
        is_fastcgi: true,
        ..Proxy::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_controllers_get_the_query_as_it_is() {
        for (text, path) in [
            ("/index.php", Some("/index.php")),
            ("/index.php?$args", Some("/index.php")),
            ("/index.php?$query_string", Some("/index.php")),
            ("/index.php$is_args$args", Some("/index.php")),
            ("/app/front.php?$is_args$args", Some("/app/front.php")),
            ("/index.php?q=$uri&$args", None),
            ("/index.php/$uri", None),
            ("$uri.php", None),
            ("/a/../index.php", None),
            ("@php", None),
        ] {
            assert_eq!(front(text), path, "{text}");
        }
    }

    #[test]
    fn parameters_are_carried_if_they_are_fixed() {
        assert!(is_param("APP_ENV", "prod") && is_param("PHP_VALUE", "upload_max_filesize=10M"));
        assert!(is_param("front_controller_active", "true") && is_param("modHeadersAvailable", "true"));
        for (name, value) in [
            ("APP_ENV", "$x"),
            ("SCRIPT_NAME", "x"),
            ("HTTP_X", "y"),
            ("http_x", "y"),
            ("script_name", "x"),
            ("app-env", "x"),
            ("", "x"),
            ("REMOTE_USER", "x"),
        ] {
            assert!(!is_param(name, value), "{name}");
        }
    }

    #[test]
    fn https_is_on_or_off() {
        for (value, fixed) in [
            ("on", Some("on")),
            ("On", Some("on")),
            ("1", Some("on")),
            ("off", Some("off")),
            ("", Some("off")),
            ("$https", None),
            ("{scheme}", None),
        ] {
            assert_eq!(fixed_https(value), fixed, "{value}");
        }
    }

    #[test]
    fn addresses_become_those_of_fastcgi() {
        let rule = rule(&[
            "unix:/run/php.sock".to_owned(),
            "http://127.0.0.1:9000".to_owned(),
        ]);
        assert_eq!(
            rule.upstreams,
            ["fastcgi+unix:/run/php.sock", "fastcgi://127.0.0.1:9000"]
        );
    }
}
