//! Whether a handshake resumed an earlier session, which `quinn-proto` does not tell.
//!
//! A server signs each full handshake of TLS 1.3 (CertificateVerify, RFC 8446 section 4.4.3) and no resumed one. So the
//! certificates of an endpoint come with keys that note their use. An endpoint has one thread and passes its connections
//! packets one at a time: what was signed meanwhile was signed for that connection.

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Knows whether a handshake was signed since it was last asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness(Arc<AtomicBool>);

impl Witness {
    /// Certificates whose use this witness notes.
    pub(crate) fn of(&self, certificates: Arc<dyn ResolvesServerCert>) -> Arc<dyn ResolvesServerCert> {
        Arc::new(Watched {
            certificates,
            witness: self.clone(),
        })
    }

    /// Whether a handshake was signed since the last call.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Watched {
    certificates: Arc<dyn ResolvesServerCert>,
    witness: Witness,
}

impl ResolvesServerCert for Watched {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let found = self.certificates.resolve(hello)?;
        let key = Arc::new(WatchedKey {
            key: Arc::clone(&found.key),
            witness: self.witness.clone(),
        });
        let mut watched = CertifiedKey::new(found.cert.clone(), key);
        watched.ocsp.clone_from(&found.ocsp);
        Some(Arc::new(watched))
    }
}

#[derive(Debug)]
struct WatchedKey {
    key: Arc<dyn SigningKey>,
    witness: Witness,
}

impl SigningKey for WatchedKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.witness.0.store(true, Ordering::Relaxed);
        self.key.choose_scheme(offered)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}
