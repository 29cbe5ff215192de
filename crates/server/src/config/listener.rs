//! Addresses with settings of their own: strategy, connection limit, TLS.
//!
//! `listen` is the short form: its addresses use the settings of the top level.

use super::values::{self, Concurrency, IoKind, Listen, Workers};
use super::{Config, ConfigError};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A table `[[listener]]`: its addresses, and where they differ from the top level.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Listener {
    /// Its addresses: one string or a list.
    pub address: Listen,
    /// See [`Config::concurrency`].
    pub concurrency: Option<Concurrency>,
    /// See [`Config::io`].
    pub io: Option<IoKind>,
    /// See [`Config::workers`].
    pub workers: Option<Workers>,
    /// Connections that may be open at these addresses. The limit of the whole server applies too.
    pub max_connections: Option<u32>,
    /// The certificates of its addresses. `None`: cleartext.
    pub tls: Option<Tls>,
}

/// TLS of a listener: its certificates, and the response to names without one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tls {
    /// PEM files with certificate chains, the server's certificate first: one string or a list.
    #[serde(deserialize_with = "values::paths")]
    pub cert: Vec<PathBuf>,
    /// PEM files with the private keys, in the order of `cert`.
    #[serde(deserialize_with = "values::paths")]
    pub key: Vec<PathBuf>,
    /// The certificate of clients that ask for another name, or for none.
    #[serde(default)]
    pub unknown_name: UnknownName,
}

/// The response to a client that asks for a name without a certificate (SNI, RFC 6066 section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownName {
    /// The first certificate. Clients without SNI, and those that connect by IP address, get it too.
    #[default]
    First,
    /// A TLS alert, and no certificate.
    Reject,
}

impl Tls {
    /// Validates that there are certificates, and a key for each.
    fn validate(&self, keys: (&str, &str)) -> Result<(), ConfigError> {
        let (cert, key) = keys;
        let (certs, found) = (self.cert.len(), self.key.len());
        if certs == found && certs > 0 {
            return Ok(());
        }
        let (wrong, why) = match certs > found {
            true => (
                key,
                format!("{certs} certificates and {found} keys: name one key for each certificate"),
            ),
            false => (
                cert,
                format!("{found} keys and {certs} certificates: name one certificate for each key"),
            ),
        };
        let why = match (certs, found) {
            (0, 0) => "no certificate; name a PEM file, as in \"cert.pem\"".to_owned(),
            _ => why,
        };
        Err(ConfigError::invalid(wrong, why))
    }
}

impl Listener {
    /// The table without its certificates: everything that takes effect only at the next start.
    fn without_certificates(&self) -> Listener {
        Listener {
            tls: self.tls.as_ref().map(|_| Tls::default()),
            ..self.clone()
        }
    }
}

impl Config {
    /// Every listener: those of the short form `listen` first, as one, then the tables.
    pub fn listeners(&self) -> Vec<Listener> {
        let short = (!self.listen.0.is_empty()).then(|| Listener {
            address: self.listen.clone(),
            concurrency: None,
            io: None,
            workers: None,
            max_connections: None,
            tls: self.tls(),
        });
        short.into_iter().chain(self.listener.iter().cloned()).collect()
    }

    /// All addresses to listen on.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let tables = self.listener.iter().flat_map(|listener| &listener.address.0);
        self.listen.0.iter().chain(tables).copied()
    }

    /// TLS of the addresses in `listen`, from `tls-cert` and `tls-key`.
    pub fn tls(&self) -> Option<Tls> {
        let is_off = self.tls_cert.is_empty() && self.tls_key.is_empty();
        (!is_off).then(|| Tls {
            cert: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            unknown_name: UnknownName::default(),
        })
    }

    /// Whether some listener speaks TLS.
    pub fn has_tls(&self) -> bool {
        self.listeners().iter().any(|listener| listener.tls.is_some())
    }

    /// Validates addresses and certificates.
    pub(super) fn validate_listeners(&self) -> Result<(), ConfigError> {
        if self.listen.0.is_empty() && self.listener.is_empty() {
            return Err(ConfigError::invalid(
                "listen",
                "no address; name at least one, as in \"127.0.0.1:8080\"",
            ));
        }
        if let Some(tls) = self.tls() {
            tls.validate(("tls-cert", "tls-key"))?;
        }
        for listener in &self.listener {
            if listener.address.0.is_empty() {
                return Err(ConfigError::invalid(
                    "address",
                    "no address; name at least one, as in \"127.0.0.1:8443\"",
                ));
            }
            if listener.max_connections == Some(0) {
                return Err(ConfigError::invalid(
                    "max-connections",
                    "0 is too small; it must be at least 1 (otherwise nobody is served)",
                ));
            }
            if let Some(tls) = &listener.tls {
                tls.validate(("cert", "key"))?;
            }
        }
        let all: Vec<SocketAddr> = self.addresses().collect();
        for (at, one) in all.iter().enumerate() {
            let takes = |other: &SocketAddr| {
                other.port() == one.port()
                    && other.is_ipv4() == one.is_ipv4()
                    && (other.ip() == one.ip() || other.ip().is_unspecified() || one.ip().is_unspecified())
            };
            if one.port() != 0
                && let Some(other) = all[..at].iter().find(|other| takes(other))
            {
                let why = match other == one {
                    true => format!("{one} is listed twice; list it once"),
                    false => format!(
                        "{other} and {one} have the same port, and one address includes the other; list one of them"
                    ),
                };
                let key = if at < self.listen.0.len() {
                    "listen"
                } else {
                    "address"
                };
                return Err(ConfigError::invalid(key, why));
            }
        }
        Ok(())
    }

    /// Whether both have the same listeners, apart from their certificates.
    pub(super) fn same_listeners(&self, other: &Config) -> bool {
        let parts = |config: &Config| -> Vec<Listener> {
            config
                .listener
                .iter()
                .map(Listener::without_certificates)
                .collect()
        };
        parts(self) == parts(other) && self.tls().is_some() == other.tls().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        Config::from_toml(text, "weir.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn tables_take_the_place_of_the_default_address() {
        let tables = "[[listener]]\naddress = ':8080'\n\n[[listener]]\naddress = [':8443', '127.0.0.1:9443']\n\
                      concurrency = 'pool'\ntls = { cert = 'a.pem', key = 'a.key' }\n";
        let config = read(tables).expect("valid");
        assert!(config.listen.0.is_empty());
        let listeners = config.listeners();
        assert_eq!(listeners.len(), 2);
        assert_eq!(listeners[0].tls, None);
        assert_eq!(listeners[1].address.0.len(), 2);
        assert_eq!(listeners[1].concurrency, Some(Concurrency::Pool));
        let tls = listeners[1].tls.as_ref().expect("TLS");
        assert_eq!(
            (&*tls.cert, &*tls.key),
            (&["a.pem".into()][..], &["a.key".into()][..])
        );
        let both = read(&format!("listen = ':80'\n{tables}")).expect("valid");
        assert_eq!(both.listeners().len(), 3);
    }

    #[test]
    fn the_short_form_has_certificates_too() {
        let config = read("tls-cert = ['a.pem', 'b.pem']\ntls-key = ['a.key', 'b.key']").expect("valid");
        let listeners = config.listeners();
        assert_eq!(listeners.len(), 1);
        assert_eq!(listeners[0].tls.as_ref().map(|tls| tls.cert.len()), Some(2));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, wanted) in [
            ("tls-cert = 'a.pem'", "tls-key"),
            ("tls-key = 'a.key'", "tls-cert"),
            ("[[listener]]\naddress = []", "weir.toml:2: `address`"),
            (
                "[[listener]]\naddress = ':1'\ntls = { cert = [], key = [] }",
                "no certificate",
            ),
            ("listen = ':1'\n[[listener]]\naddress = ':1'", "listed twice"),
            ("[[listener]]\naddress = ':1'\nmax-connections = 0", "too small"),
            (
                "[[listener]]\naddress = ':1'\nroot = '/x'",
                "belongs at the top level",
            ),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn a_reload_takes_new_certificates_and_no_new_addresses() {
        let of = |port: u16, cert: &str| {
            read(&format!(
                "[[listener]]\naddress = ':{port}'\ntls = {{ cert = '{cert}', key = 'k' }}"
            ))
            .expect("valid")
        };
        let running = of(1, "a");
        assert!(of(1, "b").needs_restart(&running).is_empty());
        assert_eq!(of(2, "a").needs_restart(&running), ["listener"]);
        let mut next = of(2, "b");
        next.keep_until_restart(&running);
        assert_eq!(next, running);
    }
}
