//! Addresses with settings of their own: strategy, connection limit, TLS.
//!
//! `listen` is the short form: its addresses use the settings of the top level.

use super::access::line_of_certificate;
use super::admin::CONNECTIONS_MAX;
use super::secure::{ClientAuth, HttpsRedirect};
use super::socket_file::SocketMode;
use super::values::{self, IoKind, Listen, User, Workers};
use super::{Config, ConfigError};
use runtime::listen::Address;
use runtime::strategy::Concurrency;
use serde::Deserialize;
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
    /// See [`Config::proxy_protocol`].
    #[serde(default)]
    pub proxy_protocol: bool,
    /// Permission bits of its Unix sockets; `None`: the default. Whoever may write the file may connect.
    #[serde(default)]
    pub socket_mode: Option<SocketMode>,
    /// User and group of its Unix sockets; `None`: those of [`Config::user`], else those of the process.
    #[serde(default)]
    pub socket_owner: Option<User>,
    /// Whether its addresses are those of the table `[admin]`. Not a key of the file.
    #[serde(skip)]
    pub is_admin: bool,
}

/// TLS of a listener: its certificates, and the response to names without one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tls {
    /// PEM files with certificate chains, the server's certificate first: one string or a list.
    #[serde(default, deserialize_with = "values::paths")]
    pub cert: Vec<PathBuf>,
    /// PEM files with the private keys, in the order of `cert`.
    #[serde(default, deserialize_with = "values::paths")]
    pub key: Vec<PathBuf>,
    /// PEM file with the authorities of client certificates. `None`: clients are not asked for one.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
    /// Whether clients must show a certificate.
    #[serde(default)]
    pub client_auth: ClientAuth,
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
    /// Whether clients are asked for a certificate, and must have one.
    pub fn asks_clients(&self) -> Option<bool> {
        match (self.client_auth, &self.client_ca) {
            (ClientAuth::Auto, None) | (ClientAuth::Off, _) => None,
            (ClientAuth::Auto, Some(_)) | (ClientAuth::Required, _) => Some(true),
            (ClientAuth::Optional, _) => Some(false),
        }
    }

    /// Validates that there are certificates, unless it `has_others`, a key for each, and authorities if clients are asked.
    fn validate(&self, keys: [&str; 3], has_others: bool) -> Result<(), ConfigError> {
        let [cert, key, authorities] = keys;
        if self.asks_clients().is_some() && self.client_ca.is_none() {
            let why = "clients are asked for certificates, and no authority is named; name a PEM file with those to trust";
            return Err(ConfigError::invalid(authorities, why.to_owned()));
        }
        let (certs, found) = (self.cert.len(), self.key.len());
        if certs == found && (certs > 0 || has_others) {
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
    /// Every listener: those of the short form `listen` first, as one, then the tables, then those of `admin`.
    pub fn listeners(&self) -> Vec<Listener> {
        let short = (!self.listen.0.is_empty()).then(|| Listener {
            address: self.listen.clone(),
            concurrency: None,
            io: None,
            workers: None,
            max_connections: None,
            tls: self.tls(),
            proxy_protocol: self.proxy_protocol,
            socket_mode: None,
            socket_owner: None,
            is_admin: false,
        });
        let admin = self.admin.as_ref().map(|admin| Listener {
            address: admin.listen.clone(),
            concurrency: None,
            io: None,
            workers: None,
            max_connections: Some(CONNECTIONS_MAX),
            tls: admin.tls.clone(),
            proxy_protocol: false,
            socket_mode: None,
            socket_owner: None,
            is_admin: true,
        });
        let all = short.into_iter().chain(self.listener.iter().cloned());
        all.chain(admin).collect()
    }

    /// All addresses to listen on.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> + '_ {
        let tables = self.listener.iter().flat_map(|listener| &listener.address.0);
        let admin = self.admin.iter().flat_map(|admin| &admin.listen.0);
        self.listen.0.iter().chain(tables).chain(admin)
    }

    /// TLS of the addresses in `listen`, from `tls-cert` and `tls-key`.
    pub fn tls(&self) -> Option<Tls> {
        let is_off = self.tls_cert.is_empty() && self.tls_key.is_empty() && !self.is_managed();
        (!is_off).then(|| Tls {
            cert: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            client_ca: self.tls_client_ca.clone(),
            client_auth: self.tls_client_auth,
            unknown_name: UnknownName::default(),
        })
    }

    /// The port that requests in cleartext are redirected to; `None`: they are answered.
    pub fn https_port(&self) -> Option<u16> {
        match self.https_redirect {
            HttpsRedirect::Auto | HttpsRedirect::Off => None,
            HttpsRedirect::Port(port) => Some(port),
            HttpsRedirect::On => {
                let secured = self.public_listeners().find(|one| one.tls.is_some());
                secured.and_then(|one| Some(one.address.0.iter().find_map(Address::tcp)?.port()))
            }
        }
    }

    /// All listeners but that of `[admin]`.
    fn public_listeners(&self) -> impl Iterator<Item = Listener> {
        let all = self.listeners().into_iter();
        all.filter(|listener| !listener.is_admin)
    }

    /// Whether some listener other than that of `[admin]` speaks TLS.
    pub fn has_tls(&self) -> bool {
        self.public_listeners().any(|listener| listener.tls.is_some())
    }

    /// Validates addresses and certificates.
    pub(super) fn validate_listeners(&self) -> Result<(), ConfigError> {
        if self.listen.0.is_empty() && self.listener.is_empty() {
            return Err(ConfigError::invalid(
                "listen",
                "no address; name at least one, as in \"127.0.0.1:8080\"",
            ));
        }
        self.validate_redirect()?;
        let mut has_others = self.is_managed();
        for host in &self.host {
            let pairs = Tls {
                cert: host.tls_cert.clone(),
                key: host.tls_key.clone(),
                ..Tls::default()
            };
            pairs.validate(["tls-cert", "tls-key", "tls-client-ca"], true)?;
            has_others |= !pairs.cert.is_empty();
        }
        if has_others && !self.is_managed() && !self.has_tls() {
            let why = "no address has TLS, so nobody gets this certificate; add `tls = {}` to a [[listener]]";
            return Err(ConfigError::invalid("tls-cert", why.to_owned()));
        }
        if let Some(tls) = self.tls() {
            tls.validate(["tls-cert", "tls-key", "tls-client-ca"], has_others)?;
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
            let has_path = listener.address.0.iter().any(|one| one.path().is_some());
            if (listener.socket_mode.is_some() || listener.socket_owner.is_some()) && !has_path {
                let key = match listener.socket_mode {
                    Some(_) => "socket-mode",
                    None => "socket-owner",
                };
                return Err(ConfigError::invalid(
                    key,
                    "this listener has no Unix socket; add one, as in address = \"unix:/run/weir.sock\", or remove the key",
                ));
            }
            if let Some(tls) = &listener.tls {
                tls.validate(["cert", "key", "client-ca"], has_others)?;
            }
        }
        if let Some(admin) = &self.admin {
            admin.validate()?;
            if let Some(tls) = &admin.tls {
                tls.validate(["cert", "key", "client-ca"], has_others)?;
            }
        }
        self.validate_chosen_ports()?;
        let all: Vec<&Address> = self.addresses().collect();
        for (at, &one) in all.iter().enumerate() {
            let takes = |other: &Address| match (other.tcp(), one.tcp()) {
                (Some(other), Some(one)) => {
                    one.port() != 0
                        && other.port() == one.port()
                        && other.is_ipv4() == one.is_ipv4()
                        && (other.ip() == one.ip()
                            || other.ip().is_unspecified()
                            || one.ip().is_unspecified())
                }
                _ => other == one,
            };
            if let Some(other) = all[..at].iter().find(|other| takes(other)) {
                let why = match *other == one {
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

    /// Checks that clients are asked for the certificates that access rules need, once flags and environment were read.
    ///
    /// # Errors
    /// The key that is missing.
    pub fn validate_certificates(&self, text: &str, name: &str) -> Result<(), ConfigError> {
        let Some(rule) = self.access_rules().find(|rule| rule.certificate.is_needed()) else {
            return Ok(());
        };
        let asks = |listener: Listener| listener.tls.is_some_and(|tls| tls.asks_clients().is_some());
        match self.public_listeners().any(asks) {
            true => Ok(()),
            false => Err(ConfigError {
                file: Some(name.to_owned()),
                line: line_of_certificate(text),
                ..ConfigError::invalid(
                    "certificate",
                    format!(
                        "the rule for `{}` needs client certificates, and no listener asks for them; set `client-ca` and \
                         `client-auth = \"optional\"` in `tls` of a [[listener]], or --tls-client-ca and --tls-client-auth \
                         optional",
                        rule.path
                    ),
                )
            }),
        }
    }

    /// Validates that addresses whose port the system chooses can be told apart where their TLS differs.
    fn validate_chosen_ports(&self) -> Result<(), ConfigError> {
        let listeners = self.listeners();
        for (at, one) in listeners.iter().enumerate() {
            let differs = |other: &&Listener| other.tls != one.tls;
            for other in listeners[..at].iter().filter(differs) {
                let twice = one
                    .address
                    .0
                    .iter()
                    .find(|address| other.address.0.contains(address));
                if let Some(address) = twice {
                    let why = format!(
                        "{address} is listed twice with different TLS; name the ports, or use different addresses"
                    );
                    return Err(ConfigError::invalid("address", why));
                }
            }
        }
        Ok(())
    }

    /// Validates that a redirect to https has a place to lead to, and that keys for TLS are not without it.
    fn validate_redirect(&self) -> Result<(), ConfigError> {
        if self.https_redirect == HttpsRedirect::On && matches!(self.https_port(), None | Some(0)) {
            let why = "the port of https is not known: no address has TLS, or the system chooses its port; name the port";
            return Err(ConfigError::invalid("https-redirect", why.to_owned()));
        }
        if self.tls().is_none() {
            let named = [
                ("tls-client-ca", self.tls_client_ca.is_some()),
                ("tls-client-auth", self.tls_client_auth != ClientAuth::Auto),
            ];
            if let Some((key, _)) = named.into_iter().find(|(_, is_named)| *is_named) {
                let why = "the addresses in `listen` have no TLS; add tls-cert and tls-key, or domain";
                return Err(ConfigError::invalid(key, why.to_owned()));
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
            ("tls-client-ca = 'ca.pem'", "weir.toml:1: `tls-client-ca`"),
            (
                "tls-cert = 'a'\ntls-key = 'b'\ntls-client-auth = 'optional'",
                "no authority",
            ),
            (
                "[[host]]\nnames = ['a']\ntls-cert = 'a'\ntls-key = 'b'",
                "no address has TLS",
            ),
            ("[[listener]]\naddress = ':1'\ntls = {}", "no certificate"),
            (
                "listen = '127.0.0.1:0'\n[[listener]]\naddress = '127.0.0.1:0'\ntls = { cert = 'a', key = 'b' }",
                "with different TLS",
            ),
            ("https-redirect = true", "no address has TLS"),
            ("https-redirect = 70000", "not a port"),
            ("hsts = 'soon'", "`soon`"),
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
    fn certificates_of_access_rules_must_be_asked_for() {
        let rule = "[[access]]\npath = '/a/*'\ncertificate = true\n";
        let of_host = "[[host]]\nnames = ['a']\naccess = [{ path = '/a/*', certificate = 'Ann' }]\n";
        let of_none = "[[access]]\npath = '/b/*'\ncertificate = false\nallow = 'all'\n";
        let tls =
            |more: &str| format!("[[listener]]\naddress = ':1'\ntls = {{ cert = 'c', key = 'k'{more} }}\n");
        // The line of the certificate that nobody asks for.
        for (text, line) in [
            (String::new(), None),
            (tls(""), None),
            (of_none.to_owned(), None),
            (rule.to_owned(), Some(3)),
            (of_host.to_owned(), Some(3)),
            (format!("{of_none}{rule}"), Some(7)),
            (format!("{of_host}{of_none}"), Some(3)),
            (format!("{of_host}{rule}"), Some(6)),
            (format!("{}{rule}", tls("")), Some(6)),
            (
                format!("{}{rule}", tls(", client-ca = 'a', client-auth = 'off'")),
                Some(6),
            ),
            (format!("{}{rule}", tls(", client-ca = 'a'")), None),
            (
                format!("{}{of_host}", tls(", client-ca = 'a', client-auth = 'optional'")),
                None,
            ),
            (
                format!(
                    "tls-cert = 'c'\ntls-key = 'k'\ntls-client-ca = 'a'\ntls-client-auth = 'optional'\n{rule}"
                ),
                None,
            ),
            (
                format!("[admin]\nlisten = ':2'\ntls = {{ cert = 'c', key = 'k', client-ca = 'a' }}\n{rule}"),
                Some(6),
            ),
        ] {
            let found = read(&text).expect(&text).validate_certificates(&text, "w.toml");
            let error = found.err();
            assert_eq!(
                error.as_ref().and_then(|error| error.line),
                line,
                "{text}: {error:?}"
            );
            let why = error.map(|error| error.to_string());
            assert!(why.is_none_or(|why| {
                let parts = ["w.toml:", "`/a/*`", "`client-ca`"];
                parts.iter().all(|part| why.contains(part))
            }));
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
