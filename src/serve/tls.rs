//! TLS of the listeners: a replaceable configuration for each, and what `weir ctl` and the metrics tell of
//! certificates. `files` reads them, `watch` notices when they change; `tls` knows the protocol, `server::config` the
//! keys.
//!
//! Files are read before rights are dropped, so that keys may belong to root alone. A reload reads them again with the
//! remaining rights, all before it changes any.

pub(super) mod files;
mod key_log;
mod watch;

use super::managed::Managed;
use crate::cli::serve::Flags;
use crate::failure::Failure;
use ::tls::certificates::Challenges;
use ::tls::rustls::KeyLog;
use ::tls::settings::{Maker, Slot};
use ::tls::tickets::{Ratchet, Secret};
use files::Fresh;
use key_log::KeyLogFile;
use runtime::clock;
use runtime::listen::{Address, Listener, Origin};
use runtime::process::{inherit, privilege};
use server::config::Config;
use serving::Secured;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use units::UnixTime;
pub(super) use watch::Watch;

/// TLS of all listeners of a process.
#[derive(Debug)]
pub(super) struct Tls {
    tickets: Ratchet,
    maker: Maker,
    extras: Extras,
    listeners: Vec<OfListener>,
    in_use: Mutex<Vec<Certificate>>,
}

/// What all listeners with TLS have, whatever their certificates.
#[derive(Debug)]
pub(super) struct Extras {
    /// Gets the secrets of every connection.
    key_log: Option<Arc<dyn KeyLog>>,
    /// Certificates for a CA that checks names.
    challenges: Option<Arc<dyn Challenges>>,
}

/// What is told of a certificate.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    /// The PEM file that it is from.
    pub(super) file: PathBuf,
    /// The names that it is for.
    pub(super) names: Vec<String>,
    /// The end of its validity.
    pub(super) expires: UnixTime,
    /// When it should be renewed at the latest.
    pub(super) due: UnixTime,
    /// Whether Weir renews it.
    pub(super) is_managed: bool,
}

/// TLS of the addresses of one listener.
#[derive(Debug)]
struct OfListener {
    /// The configured addresses; port 0 stays 0.
    addresses: Vec<Address>,
    /// Whether they are those of the short form, whose TLS sockets of a service manager get.
    is_short_form: bool,
    /// `None`: cleartext.
    slot: Option<Slot>,
}

impl Tls {
    /// Reads all certificates. `None` if no listener speaks TLS. Tickets of a predecessor that handed `given` on stay
    /// valid.
    ///
    /// # Errors
    /// `Usage`, naming the file that cannot be used; `System` without random bytes for ticket keys.
    pub(super) fn open(
        config: &Config,
        flags: &Flags,
        managed: Option<&Managed>,
        given: &inherit::Secret,
    ) -> Result<Option<Tls>, Failure> {
        if config.listeners().iter().all(|listener| listener.tls.is_none()) {
            return Ok(None);
        }
        let no_tickets = |error: ::tls::rustls::Error| Failure::System(format!("no ticket keys: {error}"));
        let secret = match Secret::from_bytes(&given.0) {
            Some(secret) => secret,
            None => Secret::new(clock::wall().secs.unsigned_abs()).map_err(no_tickets)?,
        };
        let tickets = Ratchet::new(secret).map_err(no_tickets)?;
        let maker = Maker::new(tickets.clone());
        let extras = Extras {
            key_log: key_log(config, flags)?,
            challenges: managed.map(Managed::challenges),
        };
        let fresh = files::read(&maker, config, flags, &extras)?;
        let short_forms = usize::from(!config.listen.0.is_empty());
        let listeners = config.listeners().into_iter().zip(fresh.configs).enumerate();
        let tls = Tls {
            tickets,
            maker,
            extras,
            in_use: Mutex::new(fresh.certificates),
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
        files::read(&self.maker, config, flags, &self.extras)
    }

    /// Uses certificates for connections accepted from now on.
    pub(super) fn install(&self, fresh: Fresh) {
        for (listener, config) in self.listeners.iter().zip(fresh.configs) {
            if let (Some(slot), Some(config)) = (&listener.slot, config) {
                slot.replace(config);
            }
        }
        *self.in_use.lock().unwrap_or_else(PoisonError::into_inner) = fresh.certificates;
    }

    /// The certificates in use.
    pub(super) fn certificates(&self) -> Vec<Certificate> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The keys of tickets, for all listeners.
    pub(super) fn tickets(&self) -> &Ratchet {
        &self.tickets
    }

    /// Whether connections to this listening socket speak TLS.
    pub(super) fn slot(&self, listener: &Listener) -> Option<&Slot> {
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

/// The certificates as the live page and the metrics show them; none without TLS.
pub(super) fn shown(tls: Option<&Tls>) -> Vec<server::Certificate> {
    let all = tls.map(Tls::certificates).unwrap_or_default();
    let shown = all.into_iter().map(|one| server::Certificate {
        name: one.title(),
        expires: one.expires,
    });
    shown.collect()
}

impl Certificate {
    /// The first of its names, else its file.
    pub(super) fn title(&self) -> String {
        let name = self.names.first().cloned();
        name.unwrap_or_else(|| self.file.display().to_string())
    }
}

/// The file of secrets, opened before rights are dropped, with a warning.
fn key_log(config: &Config, flags: &Flags) -> Result<Option<Arc<dyn KeyLog>>, Failure> {
    let Some(path) = &config.tls_key_log else {
        return Ok(None);
    };
    let file = KeyLogFile::open(path).map_err(|error| {
        let why = format!(
            "cannot open `{}`: {error}; name a file that this user can write",
            path.display()
        );
        flags.blame("tls-key-log", why)
    })?;
    tracing::warn!(
        "the secrets of all TLS connections are written to `{}`: everyone who has it can read all traffic; remove --tls-key-log \
         and the file when you are done",
        path.display()
    );
    Ok(Some(Arc::new(file)))
}

/// The ticket keys for the successor in an upgrade; empty without TLS.
pub(super) fn hand_on(tls: Option<&Tls>) -> inherit::Secret {
    let Some(tls) = tls else {
        return inherit::Secret::default();
    };
    let tickets = &tls.tickets;
    // A founder of worker processes has no worker of its own that does this.
    tickets.advance(clock::wall().secs.unsigned_abs());
    inherit::Secret(tickets.hand_on().to_vec())
}

/// TLS of these listeners, if one of them has it. A strategy with cleartext listeners alone runs the same code as without
/// TLS.
pub(super) fn of(tls: Option<&Tls>, listeners: &[Listener]) -> Option<Secured> {
    let tls = tls.filter(|tls| listeners.iter().any(|listener| tls.slot(listener).is_some()))?;
    let slots = listeners.iter().map(|listener| tls.slot(listener).cloned());
    Some(Secured {
        slots: slots.collect(),
        tickets: tls.tickets.clone(),
    })
}
