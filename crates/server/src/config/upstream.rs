//! The address of an upstream, and the TLS that connections to it have. Decides which addresses are valid.

use core::fmt;
use core::str::FromStr;
use runtime::session::Upstream;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The address of an upstream: `http://127.0.0.1:8080`, `https://app.internal:8443`, `h2c://127.0.0.1:50051`,
/// `unix:/run/app.sock`, `h2c+unix:/run/app.sock`, `fastcgi://127.0.0.1:9000` or `fastcgi+unix:/run/php/php-fpm.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamAddress {
    pub(crate) place: UpstreamPlace,
    scheme: Scheme,
}

/// What an upstream speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
    /// HTTP/2 without TLS, which both sides know beforehand (RFC 9113 section 3.3).
    H2c,
    /// FastCGI.
    FastCgi,
}

impl Scheme {
    /// Its prefix in an address, and its usual port.
    fn prefix(self) -> (&'static str, u16) {
        match self {
            Scheme::Http => ("http://", 80),
            Scheme::Https => ("https://", 443),
            Scheme::H2c => ("h2c://", 80),
            Scheme::FastCgi => ("fastcgi://", 9000),
        }
    }
}

/// What comes before the address of a Unix socket that speaks HTTP/2. Behind it is the spelling of one that speaks HTTP/1.
const H2C_ON: &str = "h2c+";

/// What comes before the address of a Unix socket that speaks FastCGI.
const FASTCGI_ON: &str = "fastcgi+";

/// What comes before the path of a Unix socket.
const UNIX: &str = "unix:";

/// Length of what comes before the path of a Unix socket in this address; `None`: it is that of no Unix socket.
pub(super) fn before_socket(text: &str) -> Option<usize> {
    let schemes = [H2C_ON, FASTCGI_ON];
    let scheme = schemes
        .iter()
        .find(|on| text.starts_with(**on))
        .map_or(0, |on| on.len());
    text[scheme..].starts_with(UNIX).then_some(scheme + UNIX.len())
}

/// Where an upstream listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamPlace {
    /// There.
    Address(Arc<Upstream>),
    /// At this port of every address of a host name.
    Name { host: Arc<str>, port: u16 },
}

impl UpstreamAddress {
    /// This address, where HTTP/1 is spoken.
    pub(crate) fn at(address: Arc<Upstream>) -> UpstreamAddress {
        UpstreamAddress {
            place: UpstreamPlace::Address(address),
            scheme: Scheme::Http,
        }
    }

    /// Whether it is a part of this process.
    pub(crate) fn is_local(&self) -> bool {
        matches!(&self.place, UpstreamPlace::Address(address) if matches!(**address, Upstream::Local(_)))
    }

    /// The TCP port, unless it is a Unix socket.
    pub fn port(&self) -> Option<u16> {
        match &self.place {
            UpstreamPlace::Address(address) => match &**address {
                Upstream::Tcp(address) => Some(address.port()),
                Upstream::Unix(_) | Upstream::Local(_) => None,
            },
            UpstreamPlace::Name { port, .. } => Some(*port),
        }
    }

    /// Whether it speaks TLS.
    pub fn is_secured(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Whether it speaks HTTP/2 without TLS.
    pub fn is_http2(&self) -> bool {
        self.scheme == Scheme::H2c
    }

    /// Whether it speaks FastCGI.
    pub fn is_fastcgi(&self) -> bool {
        self.scheme == Scheme::FastCgi
    }

    /// Its host name or IP address; empty for a Unix socket.
    pub fn host(&self) -> String {
        match &self.place {
            UpstreamPlace::Address(address) => match &**address {
                Upstream::Tcp(address) => address.ip().to_string(),
                Upstream::Unix(_) | Upstream::Local(_) => String::new(),
            },
            UpstreamPlace::Name { host, .. } => host.to_string(),
        }
    }

    /// Whether it is at the addresses of a host name, which has to be looked up.
    pub fn has_name(&self) -> bool {
        matches!(self.place, UpstreamPlace::Name { .. })
    }
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "",
            scheme => scheme.prefix().0,
        };
        match &self.place {
            UpstreamPlace::Address(address) => match (&**address, self.scheme) {
                (Upstream::Unix(_), Scheme::H2c) => write!(f, "{H2C_ON}{address}"),
                (Upstream::Unix(_), Scheme::FastCgi) => write!(f, "{FASTCGI_ON}{address}"),
                _ => write!(f, "{scheme}{address}"),
            },
            UpstreamPlace::Name { host, port } => write!(f, "{scheme}{host}:{port}"),
        }
    }
}

/// Reads `10.0.0.1:80`, `[::1]`, `app.internal:80`; without a port, this one is meant.
fn authority(text: &str, port: u16) -> Option<UpstreamPlace> {
    let literal = |text: &str| text.parse().ok().map(|address| Upstream::Tcp(address).into());
    if let Some(address) = literal(text).or_else(|| literal(&format!("{text}:{port}"))) {
        return Some(UpstreamPlace::Address(address));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port.parse().ok()?),
        Some(_) => return None,
        None => (text, port),
    };
    (port > 0 && is_host_name(host)).then(|| UpstreamPlace::Name {
        host: host.to_ascii_lowercase().into(),
        port,
    })
}

/// Whether this is a host name (RFC 1123 section 2.1), as loosely as resolvers take it: names of services may have
/// underscores. A last label of digits only is that of a mistaken IP address.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_plain) && !label.starts_with('-')
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_number = |label: &str| label.bytes().all(|b| b.is_ascii_digit());
    name.len() <= 253 && name.split('.').all(is_label) && !name.rsplit('.').next().is_some_and(is_number)
}

impl FromStr for UpstreamAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<UpstreamAddress, String> {
        let with_scheme = |scheme: Scheme| {
            let (prefix, port) = scheme.prefix();
            let rest = text.strip_prefix(prefix)?;
            Some((authority(rest.strip_suffix('/').unwrap_or(rest), port)?, scheme))
        };
        let found = match before_socket(text).map(|at| text.split_at(at)) {
            Some((before, path)) if path.starts_with('/') && !path.contains('\0') => {
                let path = Upstream::Unix(PathBuf::from(path));
                let scheme = match before {
                    UNIX => Scheme::Http,
                    _ if before.starts_with(H2C_ON) => Scheme::H2c,
                    _ => Scheme::FastCgi,
                };
                Some((UpstreamPlace::Address(path.into()), scheme))
            }
            Some(_) => None,
            None => [Scheme::Http, Scheme::Https, Scheme::H2c, Scheme::FastCgi]
                .into_iter()
                .find_map(with_scheme),
        };
        found
            .map(|(place, scheme)| UpstreamAddress { place, scheme })
            .ok_or_else(|| {
                format!(
                    "`{}` is not an upstream; write http, https, h2c or fastcgi and an IP address or a host name with a port, as in \
                     http://127.0.0.1:8080, or the path of a Unix socket, as in unix:/run/app.sock, or with HTTP/2 in \
                     h2c+unix:/run/app.sock, or with FastCGI in fastcgi+unix:/run/php/php-fpm.sock (other paths are not supported)",
                    text.escape_debug()
                )
            })
    }
}

/// A table `[proxy.tls]`: which certificates of upstreams are accepted, and what they get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ProxyTls {
    /// PEM file with the certificates of CAs, in place of the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// PEM file with the certificate that upstreams get if they ask for one, and the certificates up to its CA.
    #[serde(default)]
    pub cert: Option<PathBuf>,
    /// PEM file with its key.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// Name that the certificate has to have and that the upstream is told (SNI), in place of the host of its URL.
    #[serde(default)]
    pub server_name: Option<String>,
    /// Accepts any certificate: whoever can redirect the connection can read and change everything.
    #[serde(default)]
    pub insecure: bool,
}

impl ProxyTls {
    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.ca, &self.cert, &self.key];
        files.into_iter().flatten().map(PathBuf::as_path)
    }

    /// Checks values that depend on each other.
    pub(super) fn validate(&self) -> Result<(), String> {
        if self.cert.is_some() != self.key.is_some() {
            return Err("`cert` and `key` of `tls` belong together; write both, or none".to_owned());
        }
        if self.insecure && self.ca.is_some() {
            return Err(
                "`insecure` of `tls` accepts certificates of any CA; remove it, or remove `ca`".to_owned(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_host_names() {
        for (text, shown) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://127.0.0.1:8080/", "127.0.0.1:8080"),
            ("http://127.0.0.1", "127.0.0.1:80"),
            ("http://[::1]:9", "[::1]:9"),
            ("http://[::1]", "[::1]:80"),
            ("http://app:8080", "app:8080"),
            ("http://App.Internal", "app.internal:80"),
            ("http://my_app.internal.:1/", "my_app.internal.:1"),
            ("https://app", "https://app:443"),
            ("https://[::1]/", "https://[::1]:443"),
            ("h2c://app:50051", "h2c://app:50051"),
            ("h2c://127.0.0.1", "h2c://127.0.0.1:80"),
            ("http://10.0.0.1.nip.io", "10.0.0.1.nip.io:80"),
            ("unix:/run/app.sock", "unix:/run/app.sock"),
            ("h2c+unix:/run/app.sock", "h2c+unix:/run/app.sock"),
            ("fastcgi://127.0.0.1:9000", "fastcgi://127.0.0.1:9000"),
            ("fastcgi://php", "fastcgi://php:9000"),
            (
                "fastcgi+unix:/run/php/php-fpm.sock",
                "fastcgi+unix:/run/php/php-fpm.sock",
            ),
        ] {
            let address: UpstreamAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.is_http2(), text.starts_with("h2c"));
            assert_eq!(address.is_fastcgi(), text.starts_with("fastcgi"));
        }
        for text in [
            "127.0.0.1:8080",
            "https://",
            "ftp://127.0.0.1",
            "http://app:0",
            "http://app:65536",
            "http://app:+80",
            "http://a..b",
            "http://-a",
            "http://a b",
            "http://user@app",
            "http://[app]:80",
            "http://127.0.0.1.5:8080",
            "http://",
            "http://127.0.0.1:8080/x",
            "unix:app.sock",
            "h2c+unix:app.sock",
            "fastcgi+unix:php.sock",
            "fastcgi+http://127.0.0.1:80",
            "fastcgi:/run/php.sock",
            "fcgi://127.0.0.1:9000",
            "h2c+http://127.0.0.1:80",
            "h2c://unix:/run/app.sock",
            "https+unix:/run/app.sock",
            "",
        ] {
            let error = text.parse::<UpstreamAddress>().unwrap_err();
            assert!(error.contains("http://127.0.0.1:8080"), "{error}");
        }
    }

    #[test]
    fn settings_of_tls_that_contradict_each_other_are_refused() {
        let check = |text: &str| {
            toml::from_str::<ProxyTls>(text)
                .map_err(|error| error.to_string())?
                .validate()
        };
        assert_eq!(
            check("ca = 'a'\ncert = 'b'\nkey = 'c'\nserver-name = 'd'"),
            Ok(())
        );
        for (text, said) in [
            ("cert = 'a'", "`key`"),
            ("key = 'a'", "`cert`"),
            ("insecure = true\nca = 'a'", "`insecure`"),
            ("verify = false", "verify"),
        ] {
            assert!(check(text).is_err_and(|why| why.contains(said)), "{text}");
        }
    }
}
