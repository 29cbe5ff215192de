//! Reads certificates, keys and authorities from their files, and warns of what operators should mend.

use super::super::managed;
use super::{Certificate, Extras};
use crate::cli::serve::Flags;
use crate::failure::Failure;
use ::tls::certificates::{Pair, PairError, Unknown};
use ::tls::policy::Policy;
use ::tls::rustls::ServerConfig;
use ::tls::settings::{Clients, Maker, Options};
use runtime::clock;
use server::config::{self, Config, Crypto, Http2, UnknownName};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Protocols offered by ALPN (RFC 7301), the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Certificates that were read and are not in use yet.
pub(in crate::serve) struct Fresh {
    /// By listener; `None`: cleartext.
    pub(super) configs: Vec<Option<Arc<ServerConfig>>>,
    pub(super) certificates: Vec<Certificate>,
}

/// The names of keys in messages.
#[derive(Clone, Copy)]
struct Keys {
    cert: &'static str,
    key: &'static str,
    client_ca: &'static str,
}

const SHORT_FORM: Keys = Keys {
    cert: "tls-cert",
    key: "tls-key",
    client_ca: "tls-client-ca",
};
const TABLE: Keys = Keys {
    cert: "cert",
    key: "key",
    client_ca: "client-ca",
};

const MANAGED: Keys = Keys {
    cert: "tls-state",
    key: "tls-state",
    client_ca: "",
};

/// Reads the files of every listener and of every host, and the managed certificate.
///
/// # Errors
/// `Usage`, naming the file that cannot be used.
pub(super) fn read(maker: &Maker, config: &Config, flags: &Flags, extras: &Extras) -> Result<Fresh, Failure> {
    let maker = maker.with_policy(match config.crypto {
        Crypto::Default => Policy::Default,
        Crypto::Modern => Policy::Modern,
        Crypto::Classical => Policy::Classical,
        Crypto::Nist => Policy::Nist,
    });
    let mut reader = Reader {
        maker: &maker,
        flags,
        protocols: match config.http2 {
            Http2::Off => &PROTOCOLS[1..],
            Http2::Tls | Http2::All => &PROTOCOLS,
        },
        certificates: Vec::new(),
    };
    let mut others = Vec::new();
    for host in &config.host {
        others.extend(reader.pairs(&host.tls_cert, &host.tls_key, SHORT_FORM)?);
    }
    // The first order may still be under way.
    if let Some(file) = managed::pair_file(config).filter(|file| file.exists()) {
        others.extend(reader.pairs(std::slice::from_ref(&file), std::slice::from_ref(&file), MANAGED)?);
    }
    let has_short_form = !config.listen.0.is_empty();
    let mut configs = Vec::new();
    for (at, listener) in config.listeners().iter().enumerate() {
        let keys = match has_short_form && at == 0 {
            true => SHORT_FORM,
            false => TABLE,
        };
        let read = listener
            .tls
            .as_ref()
            .map(|tls| reader.listener(tls, keys, &others, extras));
        configs.push(read.transpose()?);
    }
    Ok(Fresh {
        configs,
        certificates: reader.certificates,
    })
}

/// Reads files and remembers what certificates there are.
struct Reader<'a> {
    maker: &'a Maker,
    flags: &'a Flags,
    protocols: &'a [&'a [u8]],
    certificates: Vec<Certificate>,
}

impl Reader<'_> {
    /// The configuration of a listener: its own pairs, then the others, of hosts and managed ones.
    fn listener(
        &mut self,
        tls: &config::Tls,
        keys: Keys,
        others: &[Pair],
        extras: &Extras,
    ) -> Result<Arc<ServerConfig>, Failure> {
        let mut pairs = self.pairs(&tls.cert, &tls.key, keys)?;
        pairs.extend_from_slice(others);
        let clients = self.clients(tls, keys)?;
        let options = Options {
            unknown: match tls.unknown_name {
                UnknownName::First => Unknown::FirstPair,
                UnknownName::Reject => Unknown::Alert,
            },
            protocols: self.protocols,
            clients: clients.as_ref(),
            challenges: extras.challenges.as_ref(),
            key_log: extras.key_log.as_ref(),
        };
        self.maker
            .server(&pairs, &options)
            .map_err(|error| Failure::System(format!("TLS cannot be set up: {error}")))
    }

    fn pairs(&mut self, certs: &[PathBuf], secrets: &[PathBuf], keys: Keys) -> Result<Vec<Pair>, Failure> {
        let mut pairs = Vec::new();
        for (cert, key) in certs.iter().zip(secrets) {
            let chain = content(cert, keys.cert, self.flags)?;
            let secret = Zeroizing::new(content(key, keys.key, self.flags)?);
            warn_of_mode(key);
            let pair = self
                .maker
                .pair(chain.as_bytes(), secret.as_bytes())
                .map_err(|error| {
                    let (at, path) = match error {
                        PairError::Chain(_) => (keys.cert, cert),
                        PairError::Key(_) | PairError::Mismatch => (keys.key, key),
                    };
                    self.flags.blame(at, format!("`{}`: {error}", path.display()))
                })?;
            let certificate = Certificate {
                file: cert.clone(),
                names: pair.names().map(str::to_owned).collect(),
                expires: pair.expires(),
                due: pair.due(),
                is_managed: keys.cert == MANAGED.cert,
            };
            warn_of_expiry(&certificate);
            self.certificates.push(certificate);
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// Who may be a client, if clients are asked.
    fn clients(&self, tls: &config::Tls, keys: Keys) -> Result<Option<Clients>, Failure> {
        let (Some(is_required), Some(file)) = (tls.asks_clients(), &tls.client_ca) else {
            return Ok(None);
        };
        let authorities = content(file, keys.client_ca, self.flags)?;
        let clients = Clients::from_pem(authorities.as_bytes(), is_required);
        clients.map(Some).map_err(|error| {
            self.flags
                .blame(keys.client_ca, format!("`{}`: {error}", file.display()))
        })
    }
}

/// The files that [`read`] reads.
pub(in crate::serve) fn named(config: &Config) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for tls in config.listeners().into_iter().filter_map(|listener| listener.tls) {
        files.extend(tls.cert.into_iter().chain(tls.key).chain(tls.client_ca));
    }
    files.extend(managed::pair_file(config));
    for host in &config.host {
        files.extend(host.tls_cert.iter().chain(&host.tls_key).cloned());
    }
    files
}

fn content(path: &Path, key: &str, flags: &Flags) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => "; the user of the server must be able to read it at a reload",
            _ => "; name a readable PEM file",
        };
        flags.blame(key, format!("cannot read `{}`: {error}{advice}", path.display()))
    })
}

/// Warns of a private key that every user of the machine can read.
fn warn_of_mode(key: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = key.metadata().map_or(0, |found| found.permissions().mode());
    if mode & 0o004 != 0 {
        tracing::warn!(
            "every user can read the private key `{}`; run `chmod o-r` on it",
            key.display()
        );
    }
}

/// Warns of a certificate that has expired or is due for renewal.
pub(super) fn warn_of_expiry(certificate: &Certificate) {
    let now = clock::wall();
    let left = certificate.expires.secs.saturating_sub(now.secs);
    let file = certificate.file.display();
    let advice = match certificate.is_managed {
        true => "Weir tries to renew it: `weir ctl certificates` and earlier errors say what fails",
        false => "renew it",
    };
    if left <= 0 {
        tracing::warn!("the certificate `{file}` has expired; clients reject it: {advice}");
    } else if now.secs > certificate.due.secs {
        let (count, unit) = match left / 86_400 {
            0 => (left / 3_600, "hours"),
            days => (days, "days"),
        };
        tracing::warn!("the certificate `{file}` expires in {count} {unit}; {advice}");
    }
}
