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

/// What precedes the address of a socket for the protocol of this URL.
///
/// # Errors
/// Weir does not speak it over Unix sockets, or the URL has a path.
fn over_socket(url: &str) -> Result<&'static str, String> {
    let (scheme, host) = url.split_once("://").unwrap_or((url, ""));
    if host.trim_end_matches('/').contains('/') {
        return Err(format!("`{url}`: an upstream of Weir has no path"));
    }
    match scheme {
        "http" | "ws" => Ok(""),
        "h2c" => Ok("h2c+"),
        other => Err(format!(
            "`{other}` is not a protocol of Weir's upstreams over Unix sockets"
        )),
    }
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
        // Apache names the protocol behind the path: `unix:/run/app.sock|http://localhost`.
        let (path, scheme) = match path.split_once('|') {
            None => (path, scheme),
            Some((path, far)) => (path, over_socket(far)?),
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_apache_has_its_protocol_behind_the_path() {
        for (text, expected) in [
            ("unix:/run/a.sock", Ok("unix:/run/a.sock")),
            ("unix:/run/a.sock|http://localhost", Ok("unix:/run/a.sock")),
            ("unix:/run/a.sock|ws://localhost/", Ok("unix:/run/a.sock")),
            ("unix:/run/a.sock|h2c://localhost", Ok("h2c+unix:/run/a.sock")),
            ("unix:/run/a.sock|http://localhost/app", Err("has no path")),
            (
                "unix:/run/a.sock|https://localhost",
                Err("`https` is not a protocol"),
            ),
            (
                "unix:/run/a.sock|fcgi://localhost",
                Err("`fcgi` is not a protocol"),
            ),
            ("unix:a.sock|http://localhost", Err("is absolute")),
        ] {
            match (address(text), expected) {
                (Ok((found, changed)), Ok(expected)) => assert_eq!((&*found, changed), (expected, None)),
                (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
