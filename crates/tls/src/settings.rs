//! The TLS of a listener as one value: its certificates, ticket keys and protocols, replaceable while connections are
//! open.
//!
//! `policy` has the versions, key exchanges and ciphers. Early data (RFC 8446 section 2.3) is off, because a request in it
//! can be replayed.

use crate::certificates::{CHALLENGE_PROTOCOL, Certificates, Challenges, Pair, PairError, Unknown};
use crate::policy::Policy;
use crate::tickets::Ratchet;
use aws_lc_rs::digest;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{KeyLog, RootCertStore, ServerConfig};
use std::sync::{Arc, PoisonError, RwLock};

/// Reads certificates and makes configurations with one cryptography provider and one set of ticket keys, so that all
/// listeners accept each other's tickets.
#[derive(Clone, Debug)]
pub struct Maker {
    policy: Policy,
    provider: Arc<CryptoProvider>,
    tickets: Ratchet,
}

impl Maker {
    /// A maker whose configurations seal tickets with these keys, with the default policy.
    pub fn new(tickets: Ratchet) -> Maker {
        Maker {
            policy: Policy::default(),
            provider: Arc::new(Policy::default().provider()),
            tickets,
        }
    }

    /// The maker for another policy, with the same ticket keys.
    #[must_use]
    pub fn with_policy(&self, policy: Policy) -> Maker {
        Maker {
            policy,
            provider: Arc::new(policy.provider()),
            tickets: self.tickets.clone(),
        }
    }

    /// Reads a chain and its key, both PEM.
    ///
    /// # Errors
    /// See [`Pair::from_pem`].
    pub fn pair(&self, chain: &[u8], key: &[u8]) -> Result<Pair, PairError> {
        Pair::from_pem(chain, key, &self.provider)
    }

    /// A server's configuration with these pairs; clients choose by name.
    ///
    /// # Errors
    /// A configuration that rustls refuses.
    pub fn server(&self, pairs: &[Pair], options: &Options<'_>) -> Result<Arc<ServerConfig>, rustls::Error> {
        let mut certificates = Certificates::new(pairs, options.unknown);
        let mut protocols: Vec<Vec<u8>> = options.protocols.iter().map(|name| name.to_vec()).collect();
        if let Some(challenges) = options.challenges {
            certificates = certificates.with_challenges(Arc::clone(challenges), Arc::clone(&self.provider));
            protocols.push(CHALLENGE_PROTOCOL.to_vec());
        }
        let (verifier, tickets) = match options.clients {
            None => (WebPkiClientVerifier::no_client_auth(), self.tickets.clone()),
            Some(clients) => {
                let verifier = clients.verifier(&self.provider)?;
                (verifier, self.tickets.with_purpose(&clients.purpose()))
            }
        };
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(self.policy.versions())?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = protocols;
        config.ticketer = Arc::new(tickets);
        config.enable_secret_extraction = true;
        if let Some(log) = options.key_log {
            config.key_log = Arc::clone(log);
        }
        Ok(Arc::new(config))
    }
}

/// What a server's configuration has besides certificates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// For clients that ask for another name.
    pub unknown: Unknown,
    /// Protocols offered by ALPN (RFC 7301), the preferred one first.
    pub protocols: &'a [&'a [u8]],
    /// Clients that must, or may, show a certificate; `None`: they are not asked for one.
    pub clients: Option<&'a Clients>,
    /// Certificates for a CA that checks names.
    pub challenges: Option<&'a Arc<dyn Challenges>>,
    /// Gets the secrets of every connection, in the format of SSLKEYLOGFILE.
    pub key_log: Option<&'a Arc<dyn KeyLog>>,
}

/// Who may be a client: those with a certificate of certain authorities.
#[derive(Clone, Debug)]
pub struct Clients {
    authorities: Vec<CertificateDer<'static>>,
    is_required: bool,
}

impl Clients {
    /// Clients with a certificate of the authorities in this PEM text. Others are refused if it `is_required`; those
    /// whose certificate proves nothing are refused anyway.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn from_pem(authorities: &[u8], is_required: bool) -> Result<Clients, PairError> {
        let authorities = CertificateDer::pem_slice_iter(authorities)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| PairError::Chain(error.to_string()))?;
        let clients = Clients {
            authorities,
            is_required,
        };
        clients.roots().map_err(PairError::Chain)?;
        Ok(clients)
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        for authority in &self.authorities {
            roots
                .add(authority.clone())
                .map_err(|error| format!("not the certificate of an authority: {error}"))?;
        }
        match roots.is_empty() {
            true => Err("there is no certificate in it".to_owned()),
            false => Ok(roots),
        }
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
        let roots = Arc::new(self.roots().map_err(rustls::Error::General)?);
        let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
        let builder = match self.is_required {
            true => builder,
            false => builder.allow_unauthenticated(),
        };
        builder
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))
    }

    /// Tells tickets of these clients from those of others.
    fn purpose(&self) -> Vec<u8> {
        let mut digest = digest::Context::new(&digest::SHA256);
        digest.update(&[u8::from(self.is_required)]);
        for authority in &self.authorities {
            digest.update(&(authority.len() as u64).to_be_bytes());
            digest.update(authority);
        }
        digest.finish().as_ref().to_vec()
    }
}

/// The TLS of one listener. Clones share it, and a replacement is for connections accepted from then on.
#[derive(Clone, Debug)]
pub struct Slot(Arc<RwLock<Arc<ServerConfig>>>);

impl Slot {
    /// A slot with this configuration.
    pub fn new(config: Arc<ServerConfig>) -> Slot {
        Slot(Arc::new(RwLock::new(config)))
    }

    /// Uses another configuration from the next connection on. Open connections keep theirs.
    pub fn replace(&self, config: Arc<ServerConfig>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// The configuration for a new connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
