//! TLS to an upstream: which certificates a rule accepts, and which protocols it offers. Decides what a failed handshake is
//! called. `channel` moves the bytes.

use crate::config::{Proxy, UpstreamAddress};
use runtime::fs::read_small;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tls::certificates::{Pair, PairError};
use tls::engine::{Engine, Fault};
use tls::policy::Policy;
use tls::refusal::{self, Settings};
use tls::rustls::pki_types::pem::PemObject as _;
use tls::rustls::pki_types::{CertificateDer, ServerName};
use tls::rustls::{ClientConfig, RootCertStore};
use tls::trust::{Client, Trust, Versions};

/// Most bytes of a file with certificates or a key.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// How the settings are called in advice.
const SETTINGS: Settings = Settings {
    ca: "`ca` in [proxy.tls]",
    insecure: Some("`insecure = true` in [proxy.tls]"),
    certificate: "name one with `cert` and `key` in [proxy.tls]",
    name: "set `server-name` in [proxy.tls] to a name of the certificate, or install one for this name",
    clear: "an http URL",
    versions: "update its TLS",
    protocols: "enable HTTP/1.1 there",
};

/// The TLS of a rule.
pub(crate) struct Terms {
    client: Client,
    name: Option<ServerName<'static>>,
    http2: bool,
}

impl Terms {
    /// Reads the files that the rule names. `None` if it has no upstream with TLS.
    ///
    /// # Errors
    /// In words, which file cannot be used, and why.
    pub(crate) fn of(rule: &Proxy) -> Result<Option<Terms>, String> {
        if !rule.upstreams.iter().any(UpstreamAddress::is_secured) {
            return Ok(None);
        }
        let set = rule.tls.clone().unwrap_or_default();
        let trust = match (&set.ca, set.insecure) {
            (_, true) => Trust::Anyone,
            (Some(ca), false) => Trust::Described(Arc::new(roots_of(ca)?)),
            (None, false) => Trust::Described(Arc::new(system_roots()?)),
        };
        let client = Client::new(trust, Versions::All, Policy::Default, true, protocols(rule.http2));
        let mut client = client.map_err(|error| format!("TLS cannot be set up: {error}"))?;
        if let (Some(cert), Some(key)) = (&set.cert, &set.key) {
            client = client.with_certificate(&pair(cert, key)?);
        }
        let name = set
            .server_name
            .map(|name| ServerName::try_from(name.clone()).map_err(|_| no_name(&name)));
        Ok(Some(Terms {
            client,
            name: name.transpose()?,
            http2: rule.http2,
        }))
    }

    /// For one upstream of the rule, which has sessions and kept connections of its own.
    ///
    /// # Errors
    /// In words: it has no name by which its certificate could be verified.
    pub(crate) fn for_upstream(&self, upstream: &UpstreamAddress) -> Result<Secure, String> {
        let host = upstream.host().trim_end_matches('.').to_owned();
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.clone()).map_err(|_| no_name(&host))?,
        };
        let config = self.client.config();
        let for_http1 = match self.http2 {
            true => self.client.clone().with_protocols(protocols(false)).config(),
            // One store of sessions for all connections.
            false => Arc::clone(&config),
        };
        Ok(Secure {
            config,
            for_http1,
            name,
        })
    }
}

/// The protocols that an upstream is offered, the preferred one first.
fn protocols(http2: bool) -> &'static [&'static [u8]] {
    match http2 {
        true => &[b"h2", b"http/1.1"],
        false => &[b"http/1.1"],
    }
}

fn no_name(name: &str) -> String {
    format!(
        "`{}` cannot be the name in a certificate; set `server-name` in [proxy.tls] to a DNS name or an IP address",
        name.escape_debug()
    )
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    read_small(file, FILE_BYTES_MAX)
        .map_err(|error| format!("`{}`: {error}; name a readable PEM file", file.display()))
}

fn roots_of(file: &Path) -> Result<RootCertStore, String> {
    let fault = |why: String| format!("`{}`: {why}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&read(file)?) {
        let certificate = certificate.map_err(|error| fault(format!("not PEM: {error}")))?;
        roots
            .add(certificate)
            .map_err(|error| fault(format!("not a CA certificate: {error}")))?;
    }
    match roots.is_empty() {
        true => Err(fault("there is no certificate in it; name a PEM file".to_owned())),
        false => Ok(roots),
    }
}

fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    match roots.is_empty() {
        true => Err(
            "the system has no root certificates; install the package ca-certificates, or set `ca` in [proxy.tls]"
                .to_owned(),
        ),
        false => Ok(roots),
    }
}

fn pair(cert: &Path, key: &Path) -> Result<Pair, String> {
    let (chain, secret) = (read(cert)?, read(key)?);
    Pair::from_pem(&chain, &secret, &Policy::Default.provider()).map_err(|error| {
        let file = match error {
            PairError::Chain(_) => cert,
            PairError::Key(_) | PairError::Mismatch => key,
        };
        format!("`{}`: {error}", file.display())
    })
}

/// The TLS of an upstream.
pub(crate) struct Secure {
    /// With the sessions of this upstream, to be resumed.
    config: Arc<ClientConfig>,
    /// The same without HTTP/2, for connections that may switch to WebSocket.
    for_http1: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secure")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Secure {
    /// The TLS of a connection. `is_http1`: it does not offer HTTP/2.
    ///
    /// # Errors
    /// Why it cannot be, in words.
    pub(crate) fn engine(&self, is_http1: bool) -> Result<Engine, String> {
        let config = if is_http1 { &self.for_http1 } else { &self.config };
        Engine::client(Arc::clone(config), self.name.clone()).map_err(|fault| self.explain(&fault))
    }

    /// Whether its connections offer HTTP/2.
    pub(crate) fn offers_http2(&self) -> bool {
        !Arc::ptr_eq(&self.config, &self.for_http1)
    }

    /// Why a connection is over, in words.
    pub(crate) fn explain(&self, fault: &Fault) -> String {
        refusal::text_with(fault, &self.name, &SETTINGS)
    }
}
