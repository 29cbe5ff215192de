//! The TLS of a client as one value: which certificates it accepts, which versions it offers, whether it resumes.
//!
//! Decides that sessions are shared by the connections of one crew and by no others, so that crews on several threads
//! neither wait for each other nor depend on each other's order. Early data (RFC 8446 section 2.3) is off.

use crate::certificates::{self, Pair};
use crate::policy::Policy;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue, WebPkiServerVerifier,
};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, KeyLog, NamedGroup, OtherError,
    RootCertStore, SignatureScheme, SupportedProtocolVersion,
};
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most TLS 1.3 tickets kept for a crew; the oldest is dropped. Each resumes one connection.
const TICKETS_MAX: usize = 1024;

/// Which certificates a client accepts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Valid certificates for the server's name, issued under one of these roots.
    Roots(Arc<RootCertStore>),
    /// The same; a rejected certificate is described in the error ([`Rejected`]), for a log that is read later.
    Described(Arc<RootCertStore>),
    /// Any certificate: the peer may be anyone. The peer must still have the certificate's key.
    Anyone,
}

/// The protocol versions a client offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// TLS 1.2 and 1.3.
    #[default]
    All,
    /// TLS 1.2 only.
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

impl Versions {
    /// The name in flags and results.
    pub fn name(self) -> &'static str {
        match self {
            Versions::All => "1.2,1.3",
            Versions::Tls12 => "1.2",
            Versions::Tls13 => "1.3",
        }
    }

    fn supported(self) -> &'static [&'static SupportedProtocolVersion] {
        static ALL: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        match self {
            Versions::All => &ALL,
            Versions::Tls12 => &ALL[1..],
            Versions::Tls13 => &ALL[..1],
        }
    }
}

impl FromStr for Versions {
    type Err = String;

    fn from_str(text: &str) -> Result<Versions, String> {
        match text {
            "1.2,1.3" | "1.3,1.2" => Ok(Versions::All),
            "1.2" => Ok(Versions::Tls12),
            "1.3" => Ok(Versions::Tls13),
            _ => Err(format!(
                "`{text}` names no TLS versions; write 1.2, 1.3 or 1.2,1.3"
            )),
        }
    }
}

/// The TLS of a client.
#[derive(Clone, Debug)]
pub struct Client {
    config: ClientConfig,
    resumes: bool,
    offers_tls13: bool,
}

impl Client {
    /// A client's TLS. `protocols` are offered by ALPN (RFC 7301), the preferred one first. Only versions that `policy`
    /// has, too, are offered.
    ///
    /// # Errors
    /// A configuration that rustls refuses, such as one without a version of TLS.
    pub fn new(
        trust: Trust,
        versions: Versions,
        policy: Policy,
        resumes: bool,
        protocols: &[&[u8]],
    ) -> Result<Client, Error> {
        let provider = Arc::new(policy.provider());
        let mut offered = versions.supported().to_vec();
        offered.retain(|version| policy.versions().contains(version));
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&offered)?;
        let builder = match trust {
            Trust::Roots(roots) => builder.with_root_certificates(roots),
            Trust::Described(roots) => {
                let inner = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
                let inner = inner.build().map_err(|error| Error::General(error.to_string()))?;
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(Described(inner)))
            }
            Trust::Anyone => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unchecked(provider))),
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        config.resumption = Resumption::disabled();
        config.enable_secret_extraction = true;
        Ok(Client {
            config,
            resumes,
            offers_tls13: offered.contains(&&TLS13),
        })
    }

    /// Sends this certificate to servers that ask for one (RFC 8446 section 4.3.2).
    #[must_use]
    pub fn with_certificate(mut self, pair: &Pair) -> Client {
        let pair = SingleCertAndKey::from(Arc::clone(pair.certified()));
        self.config.client_auth_cert_resolver = Arc::new(pair);
        self
    }

    /// Offers these protocols by ALPN instead.
    #[must_use]
    pub fn with_protocols(mut self, protocols: &[&[u8]]) -> Client {
        self.config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        self
    }

    /// Gives the secrets of its connections to this log.
    #[must_use]
    pub fn with_key_log(mut self, log: Arc<dyn KeyLog>) -> Client {
        self.config.key_log = log;
        self
    }

    /// Whether it offers TLS 1.3, without which there is no QUIC (RFC 9001 section 4.2).
    pub fn offers_tls13(&self) -> bool {
        self.offers_tls13
    }

    /// The configuration for one crew, with sessions of its own.
    pub fn config(&self) -> Arc<ClientConfig> {
        let mut config = self.config.clone();
        if self.resumes {
            config.resumption = Resumption::store(Arc::new(Sessions::default()));
        }
        Arc::new(config)
    }
}

/// A certificate that was not accepted.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// Why.
    pub why: CertificateError,
    /// Names, issuer and end of validity.
    pub about: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.why, self.about)
    }
}

impl std::error::Error for Rejected {}

/// Verifies as rustls does, and describes what it rejects.
#[derive(Debug)]
struct Described(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Described {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self
            .0
            .verify_server_cert(end_entity, intermediates, name, ocsp, now);
        verified.map_err(|error| match error {
            Error::InvalidCertificate(why) => {
                let about = certificates::description(end_entity);
                let rejected = Rejected { why, about };
                Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(rejected))))
            }
            other => other,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Accepts every certificate and checks that the peer has its key.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The sessions with one server, newest first.
#[derive(Default)]
struct Sessions(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

/// A crew talks to one server, so the name is not looked at.
impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.kept().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.kept().tls12 = Some(value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.kept().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut kept = self.kept();
        if kept.tickets.len() >= TICKETS_MAX {
            kept.tickets.pop_back();
        }
        kept.tickets.push_front(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.kept().tickets.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_they_are_written() {
        for versions in [Versions::All, Versions::Tls12, Versions::Tls13] {
            assert_eq!(versions.name().parse(), Ok(versions));
        }
        assert!("1.1".parse::<Versions>().is_err_and(|why| why.contains("`1.1`")));
    }
}
