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
use std::sync::Arc;

/// A certificate chain and its key.
#[derive(Clone, Debug)]
pub struct Pair(Arc<CertifiedKey>);

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
        Ok(Pair(Arc::new(pair)))
    }

    /// The certificate chain, the server's first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.0.cert
    }
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

/// Pairs by name.
#[derive(Debug)]
pub struct Certificates {
    by_name: HashMap<Box<str>, Pair>,
    first: Pair,
    unknown: Unknown,
}

impl Certificates {
    /// One that answers every name with this pair.
    pub fn new(first: Pair, unknown: Unknown) -> Certificates {
        Certificates {
            by_name: HashMap::new(),
            first,
            unknown,
        }
    }

    /// Uses a pair for a name: `example.org`, or `*.example.org` for all names of one more label. The name's later pair
    /// replaces the earlier one.
    pub fn insert(&mut self, name: &str, pair: Pair) {
        self.by_name
            .insert(name.trim_end_matches('.').to_ascii_lowercase().into(), pair);
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
            Unknown::FirstPair => Some(&self.first),
            Unknown::Alert => None,
        })
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.find(hello.server_name()).map(|pair| Arc::clone(&pair.0))
    }
}
