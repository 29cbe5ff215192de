//! TLS of the client commands: reads the roots, warns about unchecked certificates, and starts crews with or without
//! TLS. `tls` knows the protocol; cleartext crews run without any layer.

mod flags;

pub(crate) use flags::TlsFlags;
use quic::dialing::{Dialing, Target};
use quic::tape::Tape;
use runtime::clock;
use runtime::dial::{self, Crew, Running, Stopper, Usage, datagrams};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tls::certificates::{Pair, PairError};
use tls::crew::SecuredCrew;
use tls::policy::Policy;
use tls::refusal::{FLAGS, Settings};
use tls::rustls::crypto::aws_lc_rs::default_provider;
use tls::rustls::pki_types::pem::PemObject;
use tls::rustls::pki_types::{CertificateDer, ServerName};
use tls::rustls::{KeyLog, RootCertStore};
use tls::trust::{Client, Trust, Versions};
use units::Duration;

/// Protocols offered by ALPN (RFC 7301).
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// H3_NO_ERROR (RFC 9114 section 8.1): how a client closes a connection of HTTP/3.
pub(crate) const NO_ERROR: u32 = 0x100;

/// Bytes that a server may send on a connection of HTTP/3 before more are granted, unless one stream alone may have more.
const CONNECTION_WINDOW: u32 = 15 << 20;

/// Time without a packet after which a client of HTTP/3 sends a PING, so that neither end gives up a connection on which an answer
/// is awaited (RFC 9114 section 5.1). NATs forget after 30 s and more (RFC 9308 section 3.2).
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Limits of a client's connections of HTTP/3. `stream_window`: bytes that the server may send on a stream before more are
/// granted.
pub(crate) fn limits_of_quic(stream_window: u32) -> quic::Limits {
    quic::Limits {
        streams_max: 0,
        stream_window,
        connection_window: CONNECTION_WINDOW.max(stream_window),
        keep_alive: Some(KEEP_ALIVE),
        ..quic::Limits::default()
    }
}

/// Why TLS cannot be set up. The text names the cause and what to do.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A flag or file that cannot be used.
    Usage(String),
    /// Something that the system lacks.
    System(String),
}

/// How connections of a command speak TLS.
#[derive(Clone, Debug)]
pub(crate) struct Secure {
    client: Client,
    name: ServerName<'static>,
    /// Whether certificates are accepted unchecked.
    pub(crate) is_insecure: bool,
    /// Connections are those of QUIC, with these limits, instead of TCP.
    quic: Option<quic::Limits>,
    /// What passes over QUIC is recorded here.
    tape: Option<Tape>,
    /// What the settings are called in advice.
    settings: &'static Settings,
}

impl Secure {
    /// TLS to this host, a name or an IP address without brackets.
    ///
    /// # Errors
    /// `Usage` for a host or a file of certificates that cannot be used; `System` without root certificates.
    pub(crate) fn new(flags: &TlsFlags, host: &str) -> Result<Secure, Fault> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            Fault::Usage(format!(
                "`{}` is neither a host name nor an IP address, so no certificate can be for it",
                host.escape_debug()
            ))
        })?;
        let trust = if flags.insecure {
            tracing::warn!(
                "--insecure: certificates are not checked; anyone on the path can read and change everything"
            );
            Trust::Anyone
        } else {
            Trust::Roots(roots(flags.ca.as_deref(), "--ca")?)
        };
        start_generator()?;
        let versions = flags.tls_versions.unwrap_or_default();
        let policy = flags.crypto.unwrap_or_default();
        if versions == Versions::Tls12 && policy == Policy::Modern {
            return Err(Fault::Usage(
                "--tls-versions 1.2 and --crypto modern exclude each other: modern is TLS 1.3 only"
                    .to_owned(),
            ));
        }
        let client = Client::new(trust, versions, policy, !flags.no_resumption, &PROTOCOLS)
            .map_err(|error| Fault::System(format!("TLS cannot be set up: {error}")))?;
        let client = match (&flags.cert, &flags.key) {
            (Some(cert), Some(key)) => client.with_certificate(&pair(cert, key)?),
            _ => client,
        };
        Ok(Secure {
            client,
            name,
            is_insecure: flags.insecure,
            quic: None,
            tape: None,
            settings: &FLAGS,
        })
    }

    /// The same, for HTTP/2.
    pub(crate) fn for_http2(&self) -> Secure {
        Secure {
            client: self.client.clone().with_protocols(&[b"h2"]),
            ..self.clone()
        }
    }

    /// The same, for HTTP/3. `stream_window`: bytes that the server may send on a stream before more are granted.
    ///
    /// # Errors
    /// `Usage` if the flags exclude what QUIC needs.
    pub(crate) fn for_http3(&self, stream_window: u32) -> Result<Secure, Fault> {
        let secure = Secure {
            client: self.client.clone().with_protocols(&[b"h3"]),
            quic: Some(limits_of_quic(stream_window)),
            ..self.clone()
        };
        if !secure.client.offers_tls13() {
            return Err(Fault::Usage(
                "HTTP/3 needs TLS 1.3; leave out --tls-versions, or add 1.3 to it".to_owned(),
            ));
        }
        let anywhere = SocketAddr::from(([0; 4], 0));
        secure.target(anywhere).map_err(Fault::Usage)?;
        Ok(secure)
    }

    /// The server at this address, for QUIC.
    fn target(&self, address: SocketAddr) -> Result<Target, String> {
        let limits = self.quic.unwrap_or_default();
        let name = self.name.to_str().into_owned();
        let target = Target::new(self.client.config(), &limits, address, name, NO_ERROR)?;
        let target = target.naming(client::http3::error_named);
        Ok(target.taped(self.tape.clone()))
    }

    /// Records the datagrams of its QUIC connections on this tape, and their secrets in this log.
    #[must_use]
    pub(crate) fn recorded(self, tape: Tape, secrets: Arc<dyn KeyLog>) -> Secure {
        Secure {
            client: self.client.with_key_log(secrets),
            tape: Some(tape),
            ..self
        }
    }

    /// The same, for HTTP/2 or HTTP/1.1, as the server prefers.
    pub(crate) fn for_either(&self) -> Secure {
        Secure {
            client: self.client.clone().with_protocols(&[b"h2", b"http/1.1"]),
            ..self.clone()
        }
    }

    /// TLS to this host, a name or an IP address without brackets, whose certificate these roots vouch for. Errors name these
    /// settings.
    ///
    /// # Errors
    /// In words, why that cannot be.
    pub(crate) fn trusting(
        roots: Arc<RootCertStore>,
        host: &str,
        settings: &'static Settings,
    ) -> Result<Secure, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            format!(
                "`{}` is neither a host name nor an IP address",
                host.escape_debug()
            )
        })?;
        let client = Client::new(
            Trust::Roots(roots),
            Versions::All,
            Policy::default(),
            false,
            &PROTOCOLS,
        )
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
        Ok(Secure {
            client,
            name,
            is_insecure: false,
            quic: None,
            tape: None,
            settings,
        })
    }

    /// The same, whose errors name these settings.
    #[must_use]
    pub(crate) fn advising(self, settings: &'static Settings) -> Secure {
        Secure { settings, ..self }
    }

    /// Refuses TLS flags for a cleartext URL.
    pub(crate) fn none(flags: &TlsFlags) -> Result<(), Fault> {
        match flags.first() {
            Some(flag) => Err(Fault::Usage(format!(
                "`{flag}` has no effect here: it applies to https URLs"
            ))),
            None => Ok(()),
        }
    }
}

/// Starts the random generator of the cryptographic library. At its first use, it gathers entropy for about a tenth of a
/// second: that would count as a part of the first connection.
///
/// # Errors
/// `System` if the system has no randomness.
fn start_generator() -> Result<(), Fault> {
    let mut bytes = [0; 32];
    default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| Fault::System("the system has no random numbers for TLS".to_owned()))
}

/// The roots in the file that a flag names; without a file, those of the system.
///
/// # Errors
/// `Usage` for a file that cannot be used; `System` if the system has no roots.
pub(crate) fn roots(file: Option<&Path>, flag: &str) -> Result<Arc<RootCertStore>, Fault> {
    match file {
        Some(file) => named_roots(file, flag).map(Arc::new),
        None => system_roots(flag).map(Arc::new),
    }
}

#[allow(clippy::disallowed_methods, reason = "a command reads the file it is given")]
fn named_roots(file: &Path, flag: &str) -> Result<RootCertStore, Fault> {
    let fault = |why: String| Fault::Usage(format!("{flag}: `{}`: {why}", file.display()));
    let content = std::fs::read(file).map_err(|error| fault(format!("{error}; name a readable PEM file")))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&content) {
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

/// The client's own certificate and its key.
#[allow(clippy::disallowed_methods, reason = "a command reads the files it is given")]
fn pair(cert: &Path, key: &Path) -> Result<Pair, Fault> {
    let fault =
        |flag: &str, file: &Path, why: String| Fault::Usage(format!("{flag}: `{}`: {why}", file.display()));
    let read = |flag, file: &Path| {
        std::fs::read(file).map_err(|error| fault(flag, file, format!("{error}; name a readable PEM file")))
    };
    let (chain, secret) = (read("--cert", cert)?, read("--key", key)?);
    Pair::from_pem(&chain, &secret, &default_provider()).map_err(|error| match error {
        PairError::Chain(_) => fault("--cert", cert, error.to_string()),
        PairError::Key(_) | PairError::Mismatch => fault("--key", key, error.to_string()),
    })
}

fn system_roots(flag: &str) -> Result<RootCertStore, Fault> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found
            .errors
            .first()
            .map_or(String::new(), |error| format!(": {error}"));
        return Err(Fault::System(format!(
            "the system has no root certificates{why}; install the package ca-certificates or name a file with {flag}"
        )));
    }
    Ok(roots)
}

/// The host of a URL's authority: without port, and without the brackets of an IPv6 address.
pub(crate) fn host(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    if authority.parse::<IpAddr>().is_ok() {
        return authority;
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// Crews that run, with TLS or without.
pub(crate) enum Crews<C> {
    /// Without any layer.
    Clear(Running<C>),
    /// Each with sessions of its own.
    Secured(Running<SecuredCrew<C>>),
    /// Over QUIC.
    Quic(Running<C>),
}

/// Starts crews against one peer.
///
/// # Errors
/// See [`dial::start`].
pub(crate) fn start<C: Crew>(
    crews: Vec<C>,
    peer: SocketAddr,
    secure: Option<&Secure>,
) -> io::Result<Crews<C>> {
    let Some(secure) = secure else {
        return dial::start(crews, peer).map(Crews::Clear);
    };
    if secure.quic.is_some() {
        let carry = |crew| Ok(Dialing::new(crew, secure.target(peer)?));
        let carriers: Result<Vec<_>, String> = crews.into_iter().map(carry).collect();
        return datagrams::start(carriers.map_err(io::Error::other)?, peer).map(Crews::Quic);
    }
    let wrap = |crew| {
        SecuredCrew::new(crew, secure.client.config(), secure.name.clone(), |_| {
            clock::now()
        })
        .with_settings(secure.settings)
    };
    dial::start(crews.into_iter().map(wrap).collect(), peer).map(Crews::Secured)
}

impl<C> Crews<C> {
    /// A handle to stop them.
    pub(crate) fn stopper(&self) -> Stopper {
        match self {
            Crews::Clear(running) | Crews::Quic(running) => running.stopper(),
            Crews::Secured(running) => running.stopper(),
        }
    }

    /// Calls each; see [`Running::call`].
    pub(crate) fn call(&self) {
        match self {
            Crews::Clear(running) | Crews::Quic(running) => running.call(),
            Crews::Secured(running) => running.call(),
        }
    }

    /// Whether all have ended.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Crews::Clear(running) | Crews::Quic(running) => running.is_over(),
            Crews::Secured(running) => running.is_over(),
        }
    }
}

impl<C: Crew> Crews<C> {
    /// Waits for all of them; see [`Running::join`].
    ///
    /// # Errors
    /// The error that ended one of them.
    pub(crate) fn join(self) -> io::Result<Vec<(C, Usage)>> {
        match self {
            Crews::Clear(running) | Crews::Quic(running) => running.join(),
            Crews::Secured(running) => {
                let ended = running.join()?.into_iter();
                Ok(ended.map(|(crew, usage)| (crew.into_inner(), usage)).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_without_port_and_brackets() {
        for (authority, wanted) in [
            ("h", "h"),
            ("h:8443", "h"),
            ("127.0.0.1:9", "127.0.0.1"),
            ("[::1]:9", "::1"),
            ("[::1]", "::1"),
        ] {
            assert_eq!(host(authority), wanted);
        }
    }
}
