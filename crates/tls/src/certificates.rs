//! Which certificate a client gets: by the name it asks for (SNI, RFC 6066 section 3), wildcards included (RFC 9525 section
//! 6.3), and what happens to one that asks for a name there is no certificate for.
//!
//! Reads no file. A key that cannot be used, or that belongs to another certificate, is an error here and not at the first
//! handshake.

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use units::UnixTime;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// A certificate that is valid for longer than this, in seconds, is not yet due for renewal: 14 days.
pub const RENEWAL_SECS_MAX: i64 = 14 * 86_400;

/// A certificate chain and its key, with what the certificate says about itself.
#[derive(Clone, Debug)]
pub struct Pair {
    key: Arc<CertifiedKey>,
    names: Vec<Box<str>>,
    begins: UnixTime,
    expires: UnixTime,
}

/// What is wrong with a pair. Never shows key material.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairError {
    /// The PEM text of the chain has no certificate, or one that cannot be read.
    Chain(String),
    /// The PEM text of the key has no private key, or one that cannot be read.
    Key(String),
    /// The key does not belong to the first certificate of the chain.
    Mismatch,
}

impl fmt::Display for PairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PairError::Chain(why) => write!(f, "not a certificate chain in PEM: {why}"),
            PairError::Key(why) => write!(f, "not a private key in PEM: {why}"),
            PairError::Mismatch => f.write_str("the key does not belong to the certificate"),
        }
    }
}

impl std::error::Error for PairError {}

impl Pair {
    /// Reads a chain (the server's certificate first) and its key, both PEM.
    ///
    /// # Errors
    /// Which of the two cannot be read, or that they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<Pair, PairError> {
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| PairError::Chain(error.to_string()))?;
        if chain.is_empty() {
            return Err(PairError::Chain("there is no certificate in it".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| PairError::Key(error.to_string()))?;
        let pair = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => PairError::Mismatch,
            other => PairError::Key(other.to_string()),
        })?;
        let (names, [begins, expires]) = read(&pair).map_err(PairError::Chain)?;
        Ok(Pair {
            key: Arc::new(pair),
            names,
            begins,
            expires,
        })
    }

    /// The DNS names and addresses of the certificate (subjectAltName, RFC 5280 section 4.2.1.6), in lower case. Wildcards keep
    /// their star. The common name is not used (RFC 9525 section 2).
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// When the certificate becomes valid (notBefore, RFC 5280 section 4.1.2.5).
    pub fn begins(&self) -> UnixTime {
        self.begins
    }

    /// When the certificate becomes invalid (notAfter, RFC 5280 section 4.1.2.5).
    pub fn expires(&self) -> UnixTime {
        self.expires
    }

    /// When it should have been renewed at the latest: [`RENEWAL_SECS_MAX`] before its end, or, if that is later, when a
    /// third of its lifetime is left, so that short-lived certificates do not always count as due.
    pub fn due(&self) -> UnixTime {
        let lifetime = self.expires.secs.saturating_sub(self.begins.secs).max(0);
        UnixTime::from_secs(self.expires.secs - (lifetime / 3).min(RENEWAL_SECS_MAX))
    }

    /// The pair as rustls takes it.
    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.key
    }

    /// The certificate chain, the server's first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }
}

/// Reads the names and the limits of validity (RFC 5280 section 4.1.2.5) of the first certificate.
fn read(pair: &CertifiedKey) -> Result<(Vec<Box<str>>, [UnixTime; 2]), String> {
    let first = pair.end_entity_cert().map_err(|error| error.to_string())?;
    let (_, certificate) = X509Certificate::from_der(first).map_err(|error| error.to_string())?;
    let names = names_of(&certificate)?;
    let validity = certificate.validity();
    let limits =
        [validity.not_before, validity.not_after].map(|limit| UnixTime::from_secs(limit.timestamp()));
    Ok((names, limits))
}

/// The DNS names and addresses of a certificate, in lower case.
fn names_of(certificate: &X509Certificate<'_>) -> Result<Vec<Box<str>>, String> {
    let alternative = certificate
        .subject_alternative_name()
        .map_err(|error| error.to_string())?;
    let names = alternative.iter().flat_map(|names| &names.value.general_names);
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.trim_end_matches('.').to_ascii_lowercase().into()),
        GeneralName::IPAddress(octets) => Some(address(octets)?.to_string().into()),
        _ => None,
    });
    Ok(names.collect())
}

/// What tells a certificate from others, for a log: its first names, its issuer, the end of its validity. Characters that
/// a terminal could take for commands are escaped.
pub(crate) fn description(certificate: &CertificateDer<'_>) -> String {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return "unreadable".to_owned();
    };
    let names = names_of(&certificate).unwrap_or_default();
    let shown = match names.as_slice() {
        [] => format!("subject {}", certificate.subject()),
        [one] => format!("for {one}"),
        [one, ..] => format!("for {one} and {} more", names.len() - 1),
    };
    let text = format!(
        "{shown}, issued by {}, valid until {}",
        certificate.issuer(),
        certificate.validity().not_after
    );
    let text: String = text.chars().take(400).collect();
    text.escape_debug().to_string()
}

/// Whom a certificate names: the subject's common name (RFC 5280 section 4.1.2.6), else its first alternative name of
/// a DNS name, an email address or a URI. `None` if it names nobody or cannot be read.
pub fn identity(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let common = certificate.subject().iter_common_name().next();
    if let Some(name) = common.and_then(|name| name.as_str().ok()) {
        return Some(name.to_owned());
    }
    let alternative = certificate.subject_alternative_name().ok()??;
    alternative
        .value
        .general_names
        .iter()
        .find_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
                Some((*name).to_owned())
            }
            _ => None,
        })
}

/// An address of a certificate (RFC 5280 section 4.2.1.6).
fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = || Some(IpAddr::from(<[u8; 4]>::try_from(octets).ok()?));
    v4().or_else(|| Some(IpAddr::from(<[u8; 16]>::try_from(octets).ok()?)))
}

/// What a client gets that asks for a name without a certificate, or for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// The first pair.
    #[default]
    FirstPair,
    /// The alert `unrecognized_name` or `handshake_failure`, and no certificate.
    Alert,
}

/// Where the certificates are with which a CA checks names (tls-alpn-01, RFC 8737).
pub trait Challenges: Send + Sync + fmt::Debug {
    /// Chain and key, PEM, for a name that is being checked. Called only for clients that offer [`CHALLENGE_PROTOCOL`].
    fn pem(&self, name: &str) -> Option<Vec<u8>>;
}

/// The protocol that a CA offers to check a name (ALPN, RFC 8737 section 6.2).
pub const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// Pairs by name.
#[derive(Debug)]
pub struct Certificates {
    by_name: HashMap<Box<str>, Pair>,
    first: Option<Pair>,
    unknown: Unknown,
    challenges: Option<(Arc<dyn Challenges>, Arc<CryptoProvider>)>,
}

impl Certificates {
    /// Certificates of which the first is for clients that `unknown` says. Without any, every client gets an alert.
    pub fn new(pairs: &[Pair], unknown: Unknown) -> Certificates {
        let mut all = Certificates {
            by_name: HashMap::new(),
            first: pairs.first().cloned(),
            unknown,
            challenges: None,
        };
        for pair in pairs {
            all.insert(pair);
        }
        all
    }

    /// Lets a CA check names, too.
    #[must_use]
    pub fn with_challenges(self, from: Arc<dyn Challenges>, provider: Arc<CryptoProvider>) -> Certificates {
        Certificates {
            challenges: Some((from, provider)),
            ..self
        }
    }

    /// The certificate for a CA that checks a name.
    fn challenge(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let (from, provider) = self.challenges.as_ref()?;
        let pem = from.pem(hello.server_name()?)?;
        let chain = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<Vec<_>, _>>()
            .ok()?;
        let key = PrivateKeyDer::from_pem_slice(&pem).ok()?;
        // Not `CertifiedKey::from_der`: it refuses the critical extension that such a certificate must have (RFC 8737
        // section 3).
        let key = provider.key_provider.load_private_key(key).ok()?;
        Some(Arc::new(CertifiedKey::new(chain, key)))
    }

    /// Uses a pair for the names of its certificate: `example.org`, or `*.example.org` for all names with one more
    /// label. A name that another pair has keeps that pair.
    fn insert(&mut self, pair: &Pair) {
        for name in &pair.names {
            self.by_name.entry(name.clone()).or_insert_with(|| pair.clone());
        }
    }

    /// The pair for a name: that of the name itself, else of the wildcard above it, else by [`Unknown`].
    pub fn find(&self, name: Option<&str>) -> Option<&Pair> {
        let named = name.and_then(|name| {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            self.by_name.get(&*name).or_else(|| {
                let (_, above) = name.split_once('.')?;
                self.by_name.get(&*format!("*.{above}"))
            })
        });
        named.or(match self.unknown {
            Unknown::FirstPair => self.first.as_ref(),
            Unknown::Alert => None,
        })
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut offered = hello.alpn().into_iter().flatten();
        if offered.any(|name| name == CHALLENGE_PROTOCOL) {
            return self.challenge(&hello);
        }
        self.find(hello.server_name()).map(|pair| Arc::clone(&pair.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::aws_lc_rs::default_provider;

    fn pair(names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let key = made.signing_key.serialize_pem();
        Pair::from_pem(made.cert.pem().as_bytes(), key.as_bytes(), &default_provider()).expect("a pair")
    }

    fn first_name(found: Option<&Pair>) -> Option<&str> {
        found?.names().next()
    }

    #[test]
    fn the_name_chooses_the_certificate() {
        let pairs = [
            pair(&["a.test", "www.a.test"]),
            pair(&["*.b.test", "b.test"]),
            pair(&["special.b.test"]),
        ];
        let all = Certificates::new(&pairs, Unknown::FirstPair);
        for (asked, wanted) in [
            ("a.test", "a.test"),
            ("WWW.A.test.", "a.test"),
            ("x.b.test", "*.b.test"),
            ("special.b.test", "special.b.test"),
            ("b.test", "*.b.test"),
            ("x.y.b.test", "a.test"),
            ("other.test", "a.test"),
        ] {
            assert_eq!(first_name(all.find(Some(asked))), Some(wanted), "{asked}");
        }
        assert_eq!(first_name(all.find(None)), Some("a.test"));
        let strict = Certificates::new(&pairs[..1], Unknown::Alert);
        assert!(strict.find(Some("other.test")).is_none() && strict.find(None).is_none());
        assert_eq!(first_name(strict.find(Some("a.test"))), Some("a.test"));
        let none = Certificates::new(&[], Unknown::FirstPair);
        assert!(none.find(Some("a.test")).is_none() && none.find(None).is_none());
    }

    #[test]
    fn a_pair_that_cannot_work_is_refused_with_its_reason() {
        let make = || rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).expect("a certificate");
        let (one, other) = (make(), make());
        let (chain, key) = (one.cert.pem(), one.signing_key.serialize_pem());
        let stranger = other.signing_key.serialize_pem();
        let read = |chain: &str, key: &str| {
            Pair::from_pem(chain.as_bytes(), key.as_bytes(), &default_provider()).map(|_| ())
        };
        assert_eq!(read(&chain, &key), Ok(()));
        assert_eq!(read(&chain, &stranger), Err(PairError::Mismatch));
        assert!(matches!(read("", &key), Err(PairError::Chain(_))));
        assert!(matches!(read(&key, &key), Err(PairError::Chain(_))));
        assert!(matches!(read(&chain, &chain), Err(PairError::Key(_))));
    }

    /// A pair that is valid from and until the starts of these days.
    fn valid(from: (i32, u8, u8), until: (i32, u8, u8)) -> Pair {
        let mut parameters = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("names");
        parameters.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
        parameters.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
        let key = rcgen::KeyPair::generate().expect("a key");
        let made = parameters.self_signed(&key).expect("a certificate");
        let (chain, key) = (made.pem(), key.serialize_pem());
        Pair::from_pem(chain.as_bytes(), key.as_bytes(), &default_provider()).expect("a pair")
    }

    #[test]
    fn a_certificate_names_its_subject() {
        let named = |common: Option<&str>, others: Vec<rcgen::SanType>| {
            let mut parameters = rcgen::CertificateParams::default();
            parameters.distinguished_name = rcgen::DistinguishedName::new();
            if let Some(common) = common {
                parameters
                    .distinguished_name
                    .push(rcgen::DnType::CommonName, common);
            }
            parameters.subject_alt_names = others;
            let key = rcgen::KeyPair::generate().expect("a key");
            let made = parameters.self_signed(&key).expect("a certificate");
            identity(made.der())
        };
        let uri = || rcgen::SanType::URI("spiffe://a.test/db".try_into().expect("ASCII"));
        assert_eq!(named(Some("Alice"), vec![uri()]).as_deref(), Some("Alice"));
        assert_eq!(named(None, vec![uri()]).as_deref(), Some("spiffe://a.test/db"));
        assert_eq!(named(None, Vec::new()), None);
        assert_eq!(identity(&CertificateDer::from(vec![0x30, 0x01])), None);
    }

    #[test]
    fn the_end_of_validity_is_read() {
        let pair = valid((2030, 5, 7), (2031, 5, 7));
        assert_eq!(pair.expires().secs, 1_935_878_400);
    }

    #[test]
    fn renewal_is_due_when_a_third_of_the_lifetime_is_left_at_most_14_days() {
        const DAY: i64 = 86_400;
        for (from, until, due_days) in [((2030, 5, 7), (2031, 5, 7), 14), ((2030, 5, 1), (2030, 5, 7), 2)] {
            let pair = valid(from, until);
            assert_eq!(pair.due().secs, pair.expires().secs - due_days * DAY, "{until:?}");
        }
    }
}
