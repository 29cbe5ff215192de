//! Certificates that Weir gets by itself: from a CA by ACME (`domain`), or from an authority of its own (`tls`).

use super::{Config, ConfigError, HttpsRedirect, Listen, Listener};
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};
use std::net::IpAddr;

/// Most names of a certificate, as Let's Encrypt has it.
const DOMAINS_MAX: usize = 100;

units::words! {
    /// Where the certificate of the addresses in `listen` comes from.
    #[derive(Default)]
    pub enum TlsSource {
        /// From files, or by ACME if `domain` names a name; without either, these addresses have no TLS.
        #[default]
        Auto = "auto",
        /// From an authority that Weir makes on this machine, for localhost and this machine's names.
        Internal = "internal",
    }
}

units::words! {
    /// How a CA can check that a name is ours.
    #[derive(Default)]
    pub enum AcmeChallenge {
        /// A DNS record if there is a hook for it; else a file at port 80, or a certificate at port 443.
        #[default]
        Auto = "auto",
        /// A file at port 80 (RFC 8555 section 8.3).
        Http = "http-01",
        /// A certificate at port 443 (RFC 8737).
        TlsAlpn = "tls-alpn-01",
        /// A DNS record (RFC 8555 section 8.4).
        Dns = "dns-01",
    }
}

/// A CA: a short name, or the URL of its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeCa {
    /// URL of the directory (RFC 8555 section 7.1.1).
    pub directory: String,
}

/// The short names.
const CAS: [(&str, &str); 2] = [
    ("letsencrypt", "https://acme-v02.api.letsencrypt.org/directory"),
    (
        "letsencrypt-staging",
        "https://acme-staging-v02.api.letsencrypt.org/directory",
    ),
];

impl Default for AcmeCa {
    fn default() -> AcmeCa {
        AcmeCa {
            directory: CAS[0].1.to_owned(),
        }
    }
}

impl FromStr for AcmeCa {
    type Err = String;

    fn from_str(text: &str) -> Result<AcmeCa, String> {
        let known = CAS.iter().find(|(name, _)| *name == text);
        let directory = known.map_or(text, |(_, url)| url);
        let rest = directory.strip_prefix("https://").unwrap_or_default();
        if rest.is_empty() || rest.starts_with('/') || !directory.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(format!(
                "`{text}` is no CA; write letsencrypt, letsencrypt-staging or the https URL of a directory"
            ));
        }
        Ok(AcmeCa {
            directory: directory.to_owned(),
        })
    }
}

impl fmt::Display for AcmeCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.directory)
    }
}

impl<'de> Deserialize<'de> for AcmeCa {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AcmeCa, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// A name for a certificate by ACME, in lower case: of a host, of all hosts of a domain (`*.`), or an IP address.
///
/// # Errors
/// Why it is none.
pub fn parse_domain(text: &str) -> Result<String, String> {
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let base = name.strip_prefix("*.").unwrap_or(&name);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > 253 || !base.split('.').all(is_label) {
        return Err(format!(
            "`{}` is not a host name; write it without scheme and port, as in example.org or *.example.org",
            text.escape_debug()
        ));
    }
    Ok(name)
}

/// Names from a file: one string or a list.
pub(super) fn domains<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(String),
        Many(Vec<String>),
    }
    let written = match Written::deserialize(deserializer)? {
        Written::One(name) => vec![name],
        Written::Many(names) => names,
    };
    let parsed: Result<Vec<String>, String> = written.iter().map(|name| parse_domain(name)).collect();
    parsed.map_err(de::Error::custom)
}

impl Config {
    /// Whether Weir gets certificates by itself.
    pub fn is_managed(&self) -> bool {
        !self.domain.is_empty() || self.tls == TlsSource::Internal
    }

    /// Puts the addresses in force that follow from `domain`: 443, and 80 in cleartext, which redirects. Addresses that
    /// are set stay. Call it once, after all sources of settings are merged.
    pub fn settle(&mut self) {
        if self.domain.is_empty() {
            return;
        }
        let every = |port: u16| Listen::parse_one(&format!(":{port}")).map(|address| Listen(vec![address]));
        if self.listen == Listen::default()
            && let Ok(all) = every(443)
        {
            self.listen = all;
        }
        let clear = self.http_listen.take().or_else(|| every(80).ok());
        if let Some(address) = clear.filter(|clear| !clear.0.is_empty()) {
            self.listener.push(Listener {
                address,
                concurrency: None,
                io: None,
                workers: None,
                max_connections: None,
                tls: None,
                proxy_protocol: self.proxy_protocol,
                socket_mode: None,
                socket_owner: None,
                is_admin: false,
            });
        }
        if self.https_redirect == HttpsRedirect::Auto {
            self.https_redirect = HttpsRedirect::On;
        }
    }

    /// Validates what has to do with managed certificates.
    pub(super) fn validate_managed(&self) -> Result<(), ConfigError> {
        if self.domain.len() > DOMAINS_MAX {
            let why = format!("more than {DOMAINS_MAX} names; CAs issue no such certificate");
            return Err(ConfigError::invalid("domain", why));
        }
        if !self.domain.is_empty() && self.tls == TlsSource::Internal {
            let why = "`internal` certificates are for this machine, those of `domain` for the internet; choose one";
            return Err(ConfigError::invalid("tls", why.to_owned()));
        }
        if !self.domain.is_empty() {
            return self.validate_challenge();
        }
        let named = [
            ("http-listen", self.http_listen.is_some()),
            ("acme-ca", self.acme_ca != AcmeCa::default()),
            ("acme-ca-root", self.acme_ca_root.is_some()),
            ("acme-email", self.acme_email.is_some()),
            ("acme-eab", self.acme_eab.is_some()),
            ("acme-profile", self.acme_profile.is_some()),
            ("acme-challenge", self.acme_challenge != AcmeChallenge::Auto),
            ("acme-hook", self.acme_hook.is_some()),
            (
                "acme-hook-wait",
                self.acme_hook_wait != Config::default().acme_hook_wait,
            ),
        ];
        match named.into_iter().find(|(_, is_named)| *is_named) {
            Some((key, _)) => Err(ConfigError::invalid(
                key,
                "has no effect without `domain`; name the host that the certificate is for".to_owned(),
            )),
            None => Ok(()),
        }
    }

    /// Whether the names can be shown to be ours in the configured way.
    fn validate_challenge(&self) -> Result<(), ConfigError> {
        let is_by_dns = matches!(self.acme_challenge, AcmeChallenge::Auto | AcmeChallenge::Dns);
        if self.acme_challenge == AcmeChallenge::Dns && self.acme_hook.is_none() {
            let why = "`dns-01` needs a program that writes DNS records; name it with `acme-hook`";
            return Err(ConfigError::invalid("acme-challenge", why.to_owned()));
        }
        if self.acme_hook.is_some() && !is_by_dns {
            let why = "is for `dns-01`, and `acme-challenge` names another way; remove one of them";
            return Err(ConfigError::invalid("acme-hook", why.to_owned()));
        }
        let wildcard = self.domain.iter().find(|name| name.starts_with("*."));
        if let Some(name) = wildcard
            && self.acme_hook.is_none()
        {
            return Err(ConfigError::invalid(
                "domain",
                format!(
                    "`{name}`: CAs want a DNS record as proof for a wildcard; name a program that writes it with \
                     `acme-hook`, or name each host"
                ),
            ));
        }
        let is_address = |name: &&String| name.parse::<IpAddr>().is_ok();
        if let Some(address) = self.domain.iter().find(is_address)
            && self.acme_challenge == AcmeChallenge::Dns
        {
            return Err(ConfigError::invalid(
                "acme-challenge",
                format!("`{address}` has no DNS record; choose `auto`"),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(text: &str) -> Config {
        let mut config = Config::from_toml(text, "weir.toml").expect("valid");
        config.settle();
        config.validate().expect("valid");
        config
    }

    fn ports(config: &Config) -> Vec<(u16, bool)> {
        let listeners = config.listeners().into_iter();
        listeners
            .map(|one| (one.address.0[0].port(), one.tls.is_some()))
            .collect()
    }

    #[test]
    fn a_domain_is_served_at_the_ports_of_the_web() {
        let config = settled("domain = 'Example.org'");
        assert_eq!(ports(&config), [(443, true), (80, false)]);
        assert_eq!(config.https_port(), Some(443));
        assert_eq!(config.domain, ["example.org"]);
        let config = settled("domain = 'a.test'\nlisten = '127.0.0.1:8443'\nhttp-listen = '127.0.0.1:8080'");
        assert_eq!(ports(&config), [(8443, true), (8080, false)]);
        assert_eq!(config.https_port(), Some(8443));
        let config = settled("domain = 'a.test'\nhttp-listen = []\nhttps-redirect = false");
        assert_eq!((ports(&config), config.https_port()), (vec![(443, true)], None));
        let config = settled("tls = 'internal'");
        assert_eq!(ports(&config), [(8080, true)]);
    }

    #[test]
    fn names_and_cas_are_checked() {
        for wrong in [
            "",
            "a b",
            "https://a.test",
            "*",
            "*.",
            "a.*.test",
            "*.*.test",
            "-a.test",
            "a..test",
            "a_b.test",
        ] {
            assert!(parse_domain(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_domain("192.0.2.7"), Ok("192.0.2.7".to_owned()));
        assert_eq!(parse_domain("*.A.test"), Ok("*.a.test".to_owned()));
        assert!(
            "letsencrypt-staging"
                .parse::<AcmeCa>()
                .is_ok_and(|ca| ca.directory.contains("staging"))
        );
        assert!("https://ca.test/dir".parse::<AcmeCa>().is_ok());
        for wrong in ["http://ca.test/dir", "https://", "letsencript"] {
            assert!(wrong.parse::<AcmeCa>().is_err(), "{wrong}");
        }
        for (text, wanted) in [
            ("acme-email = 'a@a.test'", "no effect without `domain`"),
            ("domain = 'a.test'\ntls = 'internal'", "choose one"),
            ("acme-hook = 'h'", "no effect without `domain`"),
            ("acme-hook-wait = 1", "no effect without `domain`"),
            ("domain = '*.a.test'", "`acme-hook`"),
            ("domain = 'a.test'\nacme-challenge = 'dns-01'", "`acme-hook`"),
            (
                "domain = 'a.test'\nacme-challenge = 'http-01'\nacme-hook = 'h'",
                "remove one",
            ),
            (
                "domain = ['a.test', '192.0.2.7']\nacme-challenge = 'dns-01'\nacme-hook = 'h'",
                "no DNS record",
            ),
        ] {
            let error = Config::from_toml(text, "w.toml").expect_err(text).to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
