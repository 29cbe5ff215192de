//! A client's check of certificates, counted: a client checks the certificate in a full handshake only.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tls::rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use tls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// Accepts every certificate whose key signed the handshake.
#[derive(Debug)]
pub(crate) struct Checked {
    provider: Arc<CryptoProvider>,
    count: Arc<AtomicUsize>,
}

impl Checked {
    /// Makes it the check of this client. Returns the count.
    pub(crate) fn watch(client: &mut ClientConfig) -> Arc<AtomicUsize> {
        let count = Arc::<AtomicUsize>::default();
        let checked = Checked {
            provider: Arc::clone(client.crypto_provider()),
            count: Arc::clone(&count),
        };
        client.dangerous().set_certificate_verifier(Arc::new(checked));
        count
    }
}

impl ServerCertVerifier for Checked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
