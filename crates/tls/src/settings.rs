//! The TLS of a listener as one value: its certificates, ticket keys and protocols, replaceable while connections are
//! open.
//!
//! Decides versions, key exchange and ciphers: what rustls with aws-lc-rs considers safe, X25519MLKEM768 first. Early
//! data (RFC 8446 section 2.3) is off, because a request in it can be replayed.

use crate::certificates::{Certificates, Pair, PairError, Unknown};
use crate::tickets::Ratchet;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use std::sync::{Arc, PoisonError, RwLock};

/// Reads certificates and makes configurations with one cryptography provider and one set of ticket keys, so that all
/// listeners accept each other's tickets.
#[derive(Clone, Debug)]
pub struct Maker {
    provider: Arc<CryptoProvider>,
    tickets: Ratchet,
}

impl Maker {
    /// A maker whose configurations seal tickets with these keys.
    pub fn new(tickets: Ratchet) -> Maker {
        Maker {
            provider: Arc::new(default_provider()),
            tickets,
        }
    }

    /// Reads a chain and its key, both PEM.
    ///
    /// # Errors
    /// See [`Pair::from_pem`].
    pub fn pair(&self, chain: &[u8], key: &[u8]) -> Result<Pair, PairError> {
        Pair::from_pem(chain, key, &self.provider)
    }

    /// A server's configuration with these pairs; clients choose by name. `protocols` are offered by ALPN (RFC 7301),
    /// the preferred one first.
    ///
    /// # Errors
    /// A configuration that rustls refuses.
    pub fn server(
        &self,
        first: Pair,
        further: &[Pair],
        unknown: Unknown,
        protocols: &[&[u8]],
    ) -> Result<Arc<ServerConfig>, rustls::Error> {
        let mut certificates = Certificates::new(first, unknown);
        for pair in further {
            certificates.insert(pair);
        }
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        config.ticketer = Arc::new(self.tickets.clone());
        Ok(Arc::new(config))
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
