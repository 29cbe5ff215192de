//! Certificates of the listeners: reads the PEM files and keeps a replaceable TLS configuration for each listener.
//! Decides what to report about certificates; `tls` knows the protocol, `server::config` the keys.
//!
//! Files are read before rights are dropped, so that keys may belong to root alone. A reload reads them again with the
//! remaining rights, all before it changes any.

use crate::cli::serve::Flags;
use crate::failure::Failure;
use ::tls::certificates::{Pair, PairError, Unknown};
use ::tls::rustls::ServerConfig;
use ::tls::secured::{Counters, SecuredService, Shared};
use ::tls::settings::{Maker, Slot};
use ::tls::tickets::{Ratchet, Secret};
use runtime::clock;
use runtime::listen::{Listener, Origin};
use runtime::process::prefork::Member;
use runtime::process::{inherit, privilege};
use runtime::strategy::{self, Handle, Limits, Strategy};
use server::Server;
use server::config::{self, Config, UnknownName};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Protocols offered by ALPN (RFC 7301), the preferred one first.
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// TLS of all listeners of a process.
#[derive(Debug)]
pub(super) struct Tls {
    shared: Arc<Shared>,
    maker: Maker,
    listeners: Vec<OfListener>,
}

/// TLS of the addresses of one listener.
#[derive(Debug)]
struct OfListener {
    /// The configured addresses; port 0 stays 0.
    addresses: Vec<SocketAddr>,
    /// Whether they are those of the short form, whose TLS sockets of a service manager get.
    is_short_form: bool,
    /// `None`: cleartext.
    slot: Option<Slot>,
}

/// Certificates that were read and are not in use yet.
pub(super) struct Fresh(Vec<Option<Arc<ServerConfig>>>);

impl Tls {
    /// Reads all certificates. `None` if no listener speaks TLS. Tickets of a predecessor that handed `given` on stay
    /// valid.
    ///
    /// # Errors
    /// `Usage`, naming the file that cannot be used; `System` without random bytes for ticket keys.
    pub(super) fn open(
        config: &Config,
        flags: &Flags,
        given: &inherit::Secret,
    ) -> Result<Option<Tls>, Failure> {
        if !config.has_tls() {
            return Ok(None);
        }
        let no_tickets = |error: ::tls::rustls::Error| Failure::System(format!("no ticket keys: {error}"));
        let secret = match Secret::from_bytes(&given.0) {
            Some(secret) => secret,
            None => Secret::new(clock::wall().secs.unsigned_abs()).map_err(no_tickets)?,
        };
        let tickets = Ratchet::new(secret).map_err(no_tickets)?;
        let maker = Maker::new(tickets.clone());
        let Fresh(configs) = read(&maker, config, flags)?;
        let short_forms = usize::from(!config.listen.0.is_empty());
        let listeners = config.listeners().into_iter().zip(configs).enumerate();
        let tls = Tls {
            shared: Arc::new(Shared {
                tickets,
                counters: Counters::default(),
            }),
            maker,
            listeners: listeners
                .map(|(at, (listener, config))| OfListener {
                    addresses: listener.address.0,
                    is_short_form: at < short_forms,
                    slot: config.map(Slot::new),
                })
                .collect(),
        };
        if let Err(error) = privilege::no_core_dumps() {
            tracing::warn!("core dumps of this process may hold private keys: {error}");
        }
        Ok(Some(tls))
    }

    /// Reads the certificates of a new configuration with the same listeners.
    ///
    /// # Errors
    /// As [`Tls::open`]; the certificates in use stay.
    pub(super) fn read_again(&self, config: &Config, flags: &Flags) -> Result<Fresh, Failure> {
        read(&self.maker, config, flags)
    }

    /// Uses certificates for connections accepted from now on.
    pub(super) fn install(&self, Fresh(configs): Fresh) {
        for (listener, config) in self.listeners.iter().zip(configs) {
            if let (Some(slot), Some(config)) = (&listener.slot, config) {
                slot.replace(config);
            }
        }
    }

    /// Whether connections to this listening socket speak TLS.
    fn slot(&self, listener: &Listener) -> Option<&Slot> {
        let asked = match listener.sockets().origin() {
            Origin::Bound(asked) | Origin::Surplus(asked) => asked,
            Origin::Passed => listener.address(),
        };
        let named = |one: &&OfListener| one.addresses.contains(&asked);
        let short_form = || self.listeners.iter().find(|one| one.is_short_form);
        self.listeners
            .iter()
            .find(named)
            .or_else(short_form)?
            .slot
            .as_ref()
    }
}

/// Whether connections to this listening socket speak TLS.
pub(super) fn is_at(tls: Option<&Tls>, listener: &Listener) -> bool {
    tls.is_some_and(|tls| tls.slot(listener).is_some())
}

/// The ticket keys for the successor in an upgrade; empty without TLS.
pub(super) fn hand_on(tls: Option<&Tls>) -> inherit::Secret {
    let Some(tls) = tls else {
        return inherit::Secret::default();
    };
    let tickets = &tls.shared.tickets;
    // A founder of worker processes has no worker of its own that does this.
    tickets.advance(clock::wall().secs.unsigned_abs());
    inherit::Secret(tickets.hand_on().to_vec())
}

/// Starts a strategy on listeners, with TLS where it is configured. A strategy with cleartext listeners alone runs the
/// same code as without TLS.
///
/// # Errors
/// See [`strategy::serve`].
pub(super) fn serve(
    tls: Option<&Tls>,
    member: Option<&Member>,
    strategy: Strategy,
    listeners: &[Listener],
    server: &Arc<Server>,
    limits: Limits,
) -> io::Result<Handle> {
    let secured = tls.filter(|tls| listeners.iter().any(|listener| tls.slot(listener).is_some()));
    let Some(tls) = secured else {
        return match member {
            None => strategy::serve(strategy, listeners, server, limits),
            Some(member) => strategy::serve_as(member, strategy, listeners, server, limits),
        };
    };
    let slots = listeners.iter().map(|listener| tls.slot(listener).cloned());
    let service = SecuredService::new(Arc::clone(server), slots.collect(), Arc::clone(&tls.shared));
    let service = Arc::new(service);
    match member {
        None => strategy::serve(strategy, listeners, &service, limits),
        Some(member) => strategy::serve_as(member, strategy, listeners, &service, limits),
    }
}

/// The configuration of every listener, `None` for cleartext.
fn read(maker: &Maker, config: &Config, flags: &Flags) -> Result<Fresh, Failure> {
    let has_short_form = !config.listen.0.is_empty();
    let listeners = config.listeners();
    let configs = listeners.iter().enumerate().map(|(at, listener)| {
        let Some(tls) = &listener.tls else { return Ok(None) };
        let keys = match has_short_form && at == 0 {
            true => ("tls-cert", "tls-key"),
            false => ("cert", "key"),
        };
        read_one(maker, tls, keys, flags).map(Some)
    });
    configs.collect::<Result<_, _>>().map(Fresh)
}

fn read_one(
    maker: &Maker,
    tls: &config::Tls,
    keys: (&str, &str),
    flags: &Flags,
) -> Result<Arc<ServerConfig>, Failure> {
    let mut pairs = Vec::new();
    for (cert, key) in tls.cert.iter().zip(&tls.key) {
        let chain = content(cert, keys.0, flags)?;
        let secret = content(key, keys.1, flags)?;
        warn_of_mode(key);
        let pair = maker.pair(chain.as_bytes(), secret.as_bytes()).map_err(|error| {
            let (at, path) = match error {
                PairError::Chain(_) => (keys.0, cert),
                PairError::Key(_) | PairError::Mismatch => (keys.1, key),
            };
            flags.blame(at, format!("`{}`: {error}", path.display()))
        })?;
        warn_of_expiry(cert, &pair);
        pairs.push(pair);
    }
    let mut pairs = pairs.into_iter();
    let Some(first) = pairs.next() else {
        return Err(flags.blame(keys.0, "no certificate; name a PEM file".to_owned()));
    };
    let unknown = match tls.unknown_name {
        UnknownName::First => Unknown::FirstPair,
        UnknownName::Reject => Unknown::Alert,
    };
    let further: Vec<Pair> = pairs.collect();
    maker
        .server(first, &further, unknown, &PROTOCOLS)
        .map_err(|error| Failure::System(format!("TLS cannot be set up: {error}")))
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
fn warn_of_expiry(cert: &Path, pair: &Pair) {
    let now = clock::wall();
    let left = pair.expires().secs.saturating_sub(now.secs);
    let path = cert.display();
    if left <= 0 {
        tracing::warn!("the certificate `{path}` has expired; clients reject it: renew it and send SIGHUP");
    } else if pair.is_due(now) {
        let (count, unit) = match left / 86_400 {
            0 => (left / 3_600, "hours"),
            days => (days, "days"),
        };
        tracing::warn!("the certificate `{path}` expires in {count} {unit}; renew it and send SIGHUP");
    }
}
