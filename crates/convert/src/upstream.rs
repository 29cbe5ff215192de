//! Addresses of upstreams, and keys of the rules for them.

use crate::model::Proxy;
use crate::value::is_host_name;

/// Sets a key of a rule; the last value stays.
pub(crate) fn set(rule: &mut Proxy, key: &str, value: &str) {
    rule.keys.retain(|(known, _)| known != key);
    rule.keys.push((key.to_owned(), value.to_owned()));
}

/// The upstream of an address, and what changes with it.
///
/// # Errors
/// Why Weir cannot pass requests there.
pub(crate) fn address(text: &str) -> Result<(String, Option<String>), String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.trim_end_matches(['/', ':']);
        return match path.starts_with('/') {
            true => Ok((format!("unix:{path}"), None)),
            false => Err("the path of a socket is absolute in Weir".to_owned()),
        };
    }
    if text.starts_with("https://") {
        return Err("Weir passes requests on without TLS".to_owned());
    }
    let host = text.strip_prefix("http://").unwrap_or(text);
    if host.contains('$') {
        return Err("Weir has no variables".to_owned());
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty() => (name, port),
        _ => (host, "80"),
    };
    let port: u16 = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
    if name == "localhost" {
        let why = "`localhost` became 127.0.0.1".to_owned();
        return Ok((format!("http://127.0.0.1:{port}"), Some(why)));
    }
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(ip) => Ok((format!("http://{}", std::net::SocketAddr::new(ip, port)), None)),
        Err(_) if is_host_name(name) && !name.starts_with("*.") => {
            Ok((format!("http://{name}:{port}"), None))
        }
        Err(_) => Err(format!("`{name}` is no host name")),
    }
}
