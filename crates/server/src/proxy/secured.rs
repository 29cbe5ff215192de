//! TLS to an upstream: which certificates a rule accepts, and the bytes of one connection.
//!
//! ```text
//!   Forward ── plaintext ──▶ Channel ── records ──▶ Ask::Send
//!   Forward ◀── plaintext ── Channel ◀── records ── PeerEvent::Bytes
//! ```
//! A channel outlives its exchange: it is parked with its connection. Decides what a failed handshake is called. Whether the
//! request goes elsewhere then, only `forward` knows.

use crate::config::{Proxy, UpstreamAddress};
use runtime::fs::read_small;
use runtime::rounds::{self, Turn};
use runtime::session::Upstream;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tls::certificates::{Pair, PairError};
use tls::engine::{Engine, Fault};
use tls::policy::Policy;
use tls::refusal::{self, Settings};
use tls::rustls::pki_types::pem::PemObject as _;
use tls::rustls::pki_types::{CertificateDer, ServerName};
use tls::rustls::{ClientConfig, RootCertStore};
use tls::trust::{Client, Trust, Versions};
use units::{Duration, Instant};

/// Most bytes of a file with certificates or a key.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// How the settings are called in advice.
const SETTINGS: Settings = Settings {
    ca: "`ca` in [proxy.tls]",
    insecure: "`insecure = true` in [proxy.tls]",
    certificate: "`cert` and `key` in [proxy.tls]",
    name: "set `server-name` in [proxy.tls] to a name of the certificate, or install one for this name",
    clear: "an http URL",
    versions: "update its TLS",
    protocols: "enable HTTP/1.1 there",
};

/// The number of the next realm. Zero is that of connections without TLS.
static REALMS: AtomicU64 = AtomicU64::new(1);

/// The TLS of a rule.
pub(crate) struct Terms {
    client: Client,
    name: Option<ServerName<'static>>,
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
        let client = Client::new(trust, Versions::All, Policy::Default, true, &[b"http/1.1"]);
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
        Ok(Secure {
            config: self.client.config(),
            name,
            realm: REALMS.fetch_add(1, Ordering::Relaxed),
        })
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
    name: ServerName<'static>,
    realm: u64,
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secure")
            .field("name", &self.name)
            .field("realm", &self.realm)
            .finish_non_exhaustive()
    }
}

impl Secure {
    /// Kept connections are reused only within this realm: others were opened with other settings.
    pub(crate) fn realm(&self) -> u64 {
        self.realm
    }

    /// Begins the TLS of a connection that is open. `announcement` is sent before it, in the clear.
    ///
    /// # Errors
    /// Why it cannot be, in words.
    pub(crate) fn channel(&self, announcement: &[u8]) -> Result<Channel, String> {
        let engine = Engine::client(Arc::clone(&self.config), self.name.clone());
        let mut channel = Channel {
            engine: engine.map_err(|fault| self.explain(&fault))?,
            out: announcement.to_vec(),
            is_closed: false,
        };
        self.receive(&mut channel, &[])?;
        Ok(channel)
    }

    /// Takes bytes of the upstream. Returns the plaintext.
    ///
    /// # Errors
    /// Why the connection is over, in words. What came before is in vain.
    pub(crate) fn receive(&self, channel: &mut Channel, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let (mut scratch, mut plain) = (Vec::new(), Vec::new());
        let received = channel
            .engine
            .receive(bytes, &mut scratch, &mut plain, &mut channel.out)
            .map_err(|fault| self.explain(&fault))?;
        channel.is_closed |= received.closed;
        Ok(plain)
    }

    /// As [`rounds::exchange`]. The end of a connection that TLS does not confirm is an error.
    ///
    /// # Errors
    /// As there, or why the TLS failed, in words.
    pub(crate) fn exchange(
        &self,
        upstream: &Upstream,
        announcement: &[u8],
        bytes: &[u8],
        patience: Duration,
        mut is_enough: impl FnMut(&mut Vec<u8>, bool) -> io::Result<bool>,
    ) -> (io::Result<Vec<u8>>, Instant) {
        let mut opened: Option<Channel> = None;
        let (mut text, mut is_sent) = (Vec::new(), false);
        let (answer, now) = rounds::talk(upstream, patience, |got, is_over| {
            let channel = match &mut opened {
                Some(channel) => channel,
                None => opened.insert(self.channel(announcement).map_err(io::Error::other)?),
            };
            text.extend(self.receive(channel, got).map_err(io::Error::other)?);
            if channel.is_open() && !is_sent {
                is_sent = true;
                channel.send(bytes).map_err(io::Error::other)?;
            }
            if is_over && !channel.is_open() {
                return Err(io::Error::other(refusal::closed()));
            }
            if is_over && !channel.is_closed() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Ok(Turn {
                send: channel.take(),
                is_over: is_enough(&mut text, channel.is_closed())?,
            })
        });
        (answer.map(|()| text), now)
    }

    fn explain(&self, fault: &Fault) -> String {
        refusal::text_with(fault, &self.name, &SETTINGS)
    }
}

/// The TLS of one connection to an upstream.
#[derive(Debug)]
pub(crate) struct Channel {
    engine: Engine,
    /// Records for the upstream.
    out: Vec<u8>,
    is_closed: bool,
}

impl Channel {
    /// Whether the handshake is complete.
    pub(crate) fn is_open(&self) -> bool {
        !self.engine.is_handshaking()
    }

    /// Whether the upstream said that it sends no more. Without that, the end of a connection may be an attacker's.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Makes records of plaintext.
    ///
    /// # Errors
    /// The keys of the connection are used up.
    pub(crate) fn send(&mut self, plain: &[u8]) -> Result<(), Fault> {
        self.engine.send(plain, &mut self.out)
    }

    /// Says that no more will be sent.
    pub(crate) fn close(&mut self) {
        // Before the end of the handshake, there is nothing to say.
        let _ = self.engine.close(&mut self.out);
    }

    /// Takes the records that wait to be sent.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Whether records wait to be sent.
    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether it is between two requests: nothing of a record is held.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.out.is_empty() && self.engine.undecrypted() == 0 && !self.is_closed
    }

    /// The next records are small again.
    pub(crate) fn rest(&mut self) {
        self.engine.rest();
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        size_of::<Channel>() + self.engine.held() + self.out.capacity()
    }
}
