//! Addresses of upstreams, and keys of the rules for them.

use crate::model::Proxy;
use crate::value::is_host_name;

/// What changes for an upstream with TLS.
pub(crate) const VERIFIED: &str =
    "Weir verifies the upstream's certificate; `[proxy.tls]` has `ca`, `server-name` and `insecure`";

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
    let (scheme, socket) = match text.strip_prefix("h2c+") {
        Some(socket) => ("h2c+", socket),
        None => ("", text),
    };
    if let Some(path) = socket.strip_prefix("unix:") {
        let path = path.trim_end_matches(['/', ':']);
        return match path.starts_with('/') {
            true => Ok((format!("{scheme}unix:{path}"), None)),
            false => Err("the path of a socket is absolute in Weir".to_owned()),
        };
    }
    let (scheme, host, port) = match text.split_once("://") {
        Some(("https", host)) => ("https", host, "443"),
        Some(("h2c", host)) => ("h2c", host, "80"),
        Some(("http", host)) => ("http", host, "80"),
        Some((other, _)) => return Err(format!("`{other}` is not a protocol of Weir's upstreams")),
        None => ("http", text, "80"),
    };
    let verified = (scheme == "https").then(|| VERIFIED.to_owned());
    if host.contains('$') {
        return Err("Weir has no variables".to_owned());
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty() => (name, port),
        _ => (host, port),
    };
    let port: u16 = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
    if name == "localhost" && verified.is_none() {
        let why = "`localhost` became 127.0.0.1".to_owned();
        return Ok((format!("{scheme}://127.0.0.1:{port}"), Some(why)));
    }
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(ip) => Ok((
            format!("{scheme}://{}", std::net::SocketAddr::new(ip, port)),
            verified,
        )),
        Err(_) if is_host_name(name) && !name.starts_with("*.") => {
            Ok((format!("{scheme}://{name}:{port}"), verified))
        }
        Err(_) => Err(format!("`{name}` is no host name")),
    }
}
