//! Addresses of sites: names, ports, and whether Caddy would get a certificate for them.

use crate::value::is_host_name;

/// An address of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Empty for every host.
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// `Some(false)`: the address begins with `http://`.
    pub(super) is_secure: Option<bool>,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// Why Weir has no such address.
    pub(super) fn of(text: &str) -> Result<Address, String> {
        if text.contains("{$") || text.contains("{env.") {
            return Err("Weir's configuration has no variables of the environment".to_owned());
        }
        let (is_secure, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (Some(false), rest),
            (_, Some(rest)) => (Some(true), rest),
            _ => (None, text),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !matches!(path, "" | "*") {
            return Err("the address of a site has no path in Weir; write rules with paths".to_owned());
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !host.ends_with(':') && !port.contains(']') => {
                let port = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
                (host, Some(port))
            }
            _ => (authority, None),
        };
        let host = host.to_ascii_lowercase();
        if !host.is_empty() && !host.starts_with('[') && !is_host_name(&host) {
            return Err(format!("`{host}` is not a host name"));
        }
        Ok(Address {
            host,
            port,
            is_secure,
        })
    }

    /// Whether the address has TLS, given whether the site names certificates.
    pub(super) fn has_tls(&self, has_certificates: bool) -> bool {
        match (self.is_secure, self.port) {
            (Some(said), _) => said,
            (None, Some(80)) => false,
            (None, Some(443)) => true,
            (None, _) if self.host.is_empty() => has_certificates,
            (None, _) => true,
        }
    }

    /// The port in force.
    pub(super) fn port(&self, has_tls: bool) -> u16 {
        self.port.unwrap_or(if has_tls { 443 } else { 80 })
    }

    /// Whether only this machine and its networks know the name, so that no CA gives a certificate for it.
    pub(super) fn is_internal(&self) -> bool {
        let ends = [".localhost", ".local", ".internal", ".home.arpa", ".lan", ".test"];
        self.host == "localhost"
            || self.host.starts_with('[')
            || self.host.parse::<std::net::IpAddr>().is_ok()
            || (!self.host.is_empty() && !self.host.contains('.'))
            || ends.iter().any(|end| self.host.ends_with(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_port_and_tls() {
        for (text, port, has_tls, is_internal) in [
            ("example.org", 443, true, false),
            ("http://example.org", 80, false, false),
            ("example.org:8443", 8443, true, false),
            (":8080", 8080, false, false),
            (":443", 443, true, false),
            ("localhost", 443, true, true),
            ("*.example.org", 443, true, false),
            ("https://app.internal", 443, true, true),
        ] {
            let address = Address::of(text).unwrap();
            let tls = address.has_tls(false);
            assert_eq!(
                (address.port(tls), tls, address.is_internal()),
                (port, has_tls, is_internal),
                "{text}"
            );
        }
        for text in ["{$HOST}", "example.org/path", "a b", "x:port"] {
            assert!(Address::of(text).is_err(), "{text}");
        }
    }
}
