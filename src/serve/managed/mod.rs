//! Certificates that Weir gets by itself: by ACME (`--domain`) or from an authority of this machine (`--tls=internal`).
//! `agent` decides what is due, `store` keeps what came of it, `https` speaks with the CA.
//!
//! Every serving process looks after certificates on a thread of its own, and a lock in the store lets one of them at a
//! time order. So there is no process whose end would end renewal. What is issued reaches all of them through files
//! ([`super::tls::Watch`]).

mod agent;
mod https;
mod internal;
mod store;

use crate::cli::serve::Flags;
use crate::failure::Failure;
use crate::secure;
use ::tls::certificates::Challenges;
use acme::account::Binding;
use acme::challenge::{Kind, is_token};
use acme::order::{Ca, Reason};
use agent::Customer;
use bytes::Bytes;
use http_semantics::status::Status;
use runtime::background::Background;
use runtime::clock;
use runtime::process::privilege::{self, Account};
use server::Server;
use server::config::{AcmeChallenge, Config, TlsSource};
use server::handler::{Ask, Handler, Made};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use store::{Revocation, Store, Wish};
use units::{Duration, Instant, UnixTime};

/// Where CAs look for answers (RFC 8555 section 8.3).
pub(super) const ANSWERS_AT: &str = "/.well-known/acme-challenge/";

/// How often to see whether a look is due.
const EVERY: Duration = Duration::from_secs(1);

/// Seconds after which another look waits for the end of one that is under way: it may have no end.
const LOOK_AT_MOST: i64 = 3_600;

/// Where certificates come from.
#[derive(Debug)]
enum Authority {
    /// A CA.
    Ca(Customer),
    /// This machine.
    Internal {
        /// Names of this machine besides localhost.
        names: Vec<String>,
    },
}

impl Authority {
    fn names(&self) -> Vec<String> {
        match self {
            Authority::Ca(customer) => customer.names.clone(),
            Authority::Internal { names } => [&["localhost".to_owned()], names.as_slice()].concat(),
        }
    }
}

/// The managed certificate of a server.
#[derive(Clone, Debug)]
pub(super) struct Managed {
    authority: Arc<Authority>,
    store: Store,
}

impl Managed {
    /// Prepares folders and reads what needs the rights of the start. `None` without managed certificates.
    ///
    /// # Errors
    /// `Usage` for a file or folder that cannot be used, `System` without root certificates.
    pub(super) fn open(config: &Config, flags: &Flags) -> Result<Option<Managed>, Failure> {
        if !config.is_managed() {
            return Ok(None);
        }
        let Some(store) = Store::of(config) else {
            let why = "there is no folder for it: $STATE_DIRECTORY and $HOME are not set; name one";
            return Err(flags.blame("tls-state", why.to_owned()));
        };
        let unusable = |error: std::io::Error| {
            let why = format!(
                "`{}`: {error}; name a folder that the server can write",
                store.pair().display()
            );
            flags.blame("tls-state", why)
        };
        prepare(config, &store).map_err(unusable)?;
        let authority = match config.tls {
            TlsSource::Internal => Authority::Internal { names: names() },
            TlsSource::Auto => Authority::Ca(customer(config, flags)?),
        };
        let managed = Managed {
            authority: Arc::new(authority),
            store,
        };
        if let Authority::Internal { .. } = &*managed.authority {
            if !becomes_another(config) {
                // It takes milliseconds and needs nobody, so the first client is served.
                agent::look(&managed.authority, &managed.store, clock::wall());
            }
            tracing::info!(
                "browsers trust this server once `{root}` is among their authorities; on Debian: `cp {root} \
                 /usr/local/share/ca-certificates/weir.crt && update-ca-certificates`; curl: `--cacert {root}`",
                root = managed.store.root().display()
            );
        }
        Ok(Some(managed))
    }

    /// The handler of a CA's checks by http-01.
    pub(super) fn answers(&self) -> Arc<dyn Handler> {
        Arc::new(Answers(self.store.clone()))
    }

    /// The certificates for a CA's checks by tls-alpn-01.
    pub(super) fn challenges(&self) -> Arc<dyn Challenges> {
        Arc::new(Answers(self.store.clone()))
    }

    /// Looks after the certificate from now on.
    pub(super) fn tend(&self, now: Instant) -> Tending {
        let next = Arc::new(AtomicI64::new(0));
        let (authority, store, at) = (Arc::clone(&self.authority), self.store.clone(), Arc::clone(&next));
        let work = move |(), now: UnixTime| {
            // Until the look has ended, nothing is due. One that ends by a panic is followed by another all the same.
            at.store(now.secs.saturating_add(LOOK_AT_MOST), Ordering::Relaxed);
            at.store(agent::look(&authority, &store, now), Ordering::Relaxed);
        };
        Tending {
            thread: Background::new("certificates", 1, work),
            store: self.store.clone(),
            next,
            look_at: now,
        }
    }

    /// Has a new certificate ordered whatever the date of the old one, and the old one revoked if there is a reason.
    /// Returns at once: whichever process looks next does it.
    ///
    /// # Errors
    /// `Usage` if there is nothing to revoke, `System` if the wish cannot be left in the folder.
    pub(super) fn renew(&self, revoke: Option<Reason>) -> Result<(), Failure> {
        let revoke = revoke.map(|reason| self.revocation(reason)).transpose()?;
        self.store.leave_wish(&Wish { revoke }).map_err(|error| {
            let folder = self.store.pair();
            Failure::System(format!("`{}`: {error} (--tls-state)", folder.display()))
        })
    }

    /// The certificate in use, to be revoked.
    fn revocation(&self, reason: Reason) -> Result<Revocation, Failure> {
        if let Authority::Internal { .. } = &*self.authority {
            return Err(Failure::Usage(
                "this machine's own authority revokes nothing: remove its root from whoever trusts it, and its folder \
                 `internal` from that of --tls-state"
                    .to_owned(),
            ));
        }
        let file = self.store.pair();
        let pem = std::fs::read_to_string(&file)
            .map_err(|error| Failure::Usage(format!("nothing to revoke: `{}`: {error}", file.display())))?;
        // The first of the chain; never the key.
        let end = "-----END CERTIFICATE-----\n";
        let certificate = pem.split_inclusive(end).next().filter(|text| text.ends_with(end));
        let certificate = certificate.ok_or_else(|| {
            Failure::Usage(format!(
                "nothing to revoke: no certificate in `{}`",
                file.display()
            ))
        })?;
        Ok(Revocation {
            certificate: certificate.to_owned(),
            reason,
            ..Revocation::default()
        })
    }

    /// What became of a revocation, in words; `None` if none is wanted, or it is done.
    pub(super) fn revocation_state(&self, now: UnixTime) -> Option<String> {
        let revocation = self.store.notes().revocation?;
        Some(match (revocation.trouble, revocation.is_refused) {
            (None, _) => "under way".to_owned(),
            (Some(trouble), true) => trouble,
            (Some(trouble), false) => {
                format!(
                    "{trouble}; next attempt {}",
                    store::until(revocation.again_at, now)
                )
            }
        })
    }

    /// The state of the certificate in words, for `weir ctl`; `None` if there is nothing to say.
    pub(super) fn state(&self, now: UnixTime) -> Option<String> {
        let notes = self.store.notes();
        let trouble = notes.trouble?;
        Some(format!(
            "{trouble}; next attempt {}",
            store::until(notes.again_at, now)
        ))
    }
}

/// The file of the managed certificate; `None` without one.
pub(super) fn pair_file(config: &Config) -> Option<PathBuf> {
    config
        .is_managed()
        .then(|| Store::of(config))?
        .map(|store| store.pair())
}

/// The folder of managed certificates; `None` without them.
pub(super) fn folder(config: &Config) -> Option<&Path> {
    config.tls_state.as_deref().filter(|_| config.is_managed())
}

/// The ports of the CA and of name servers, to which connections must be possible.
pub(super) fn ports(config: &Config) -> Vec<u16> {
    if config.domain.is_empty() {
        return Vec::new();
    }
    let url = url::Url::parse(&config.acme_ca.directory).ok();
    let ca = url.and_then(|url| url.port()).unwrap_or(443);
    // A CA may have its places at other ports of its own; all known ones use one. A hook asks for DNS records over https.
    let hook = config.acme_hook.as_ref().map(|_| 443);
    [53, ca]
        .into_iter()
        .chain(hook.filter(|port| *port != ca))
        .collect()
}

/// Chooses the folder if none is configured, and makes its path absolute.
pub(super) fn choose_folder(config: &mut Config) {
    if config.is_managed() {
        let chosen = config.tls_state.take();
        let folder = chosen.or_else(|| store::default_folder(|name| std::env::var(name).ok()));
        // A successor in an upgrade may begin in another folder.
        config.tls_state = folder.map(|folder| std::path::absolute(&folder).unwrap_or(folder));
    }
}

/// Certificates being looked after.
#[derive(Debug)]
pub(super) struct Tending {
    thread: Background<()>,
    store: Store,
    /// When to look again, in Unix time.
    next: Arc<AtomicI64>,
    look_at: Instant,
}

impl Tending {
    /// Time until [`Tending::go_on`] should be called again.
    pub(super) fn patience(&self, now: Instant) -> Duration {
        match self.look_at > now {
            true => self.look_at.since(now),
            false => Duration::ZERO,
        }
    }

    /// Looks after the certificate if that is due. Returns at once.
    pub(super) fn go_on(&mut self, now: Instant, wall: UnixTime) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + EVERY;
        if wall.secs >= self.next.load(Ordering::Relaxed) || self.store.has_wish() {
            // Refused while a look is under way and another waits.
            let _ = self.thread.offer(());
        }
    }
}

fn customer(config: &Config, flags: &Flags) -> Result<Customer, Failure> {
    let roots = secure::roots(config.acme_ca_root.as_deref(), https::SETTINGS.ca);
    let binding = config.acme_eab.as_ref().map(|file| {
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
        text.and_then(|text| Binding::parse(&text))
            .map_err(|why| flags.blame("acme-eab", format!("`{}`: {why}", file.display())))
    });
    Ok(Customer {
        ca: Ca {
            directory: config.acme_ca.directory.clone(),
            email: config.acme_email.clone(),
            binding: binding.transpose()?,
        },
        roots: roots?,
        names: config.domain.clone(),
        kinds: match config.acme_challenge {
            AcmeChallenge::Auto => {
                let by_hook = config.acme_hook.as_ref().map(|_| Kind::Dns);
                // Otherwise nothing listens where the CA would look for a file.
                let is_clear = config
                    .listeners()
                    .iter()
                    .any(|one| one.tls.is_none() && !one.is_admin);
                let by_file = is_clear.then_some(Kind::Http);
                [by_hook, by_file, Some(Kind::TlsAlpn)]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            AcmeChallenge::Http => vec![Kind::Http],
            AcmeChallenge::TlsAlpn => vec![Kind::TlsAlpn],
            AcmeChallenge::Dns => vec![Kind::Dns],
        },
        profile: config.acme_profile.clone(),
        hook: hook(config, flags)?,
        hook_wait: config.acme_hook_wait,
    })
}

/// The program that writes DNS records, at a path that stays the same in every folder.
fn hook(config: &Config, flags: &Flags) -> Result<Option<PathBuf>, Failure> {
    let Some(named) = &config.acme_hook else {
        return Ok(None);
    };
    let unusable = |why: String| flags.blame("acme-hook", format!("`{}`: {why}", named.display()));
    let file = std::path::absolute(named).map_err(|error| unusable(error.to_string()))?;
    let found = file.metadata().map_err(|error| unusable(error.to_string()))?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return Err(unusable(
            "this is no program; make the file executable".to_owned(),
        ));
    }
    Ok(Some(file))
}

/// Whether this process becomes another user after this.
pub(super) fn becomes_another(config: &Config) -> bool {
    config.user.is_some() && privilege::current().0 == 0
}

/// Creates the folders. Before rights are dropped, only if there is nothing yet: what belongs to a user with fewer rights
/// can be made to lead anywhere, so root neither creates nor gives away anything in it. The user does that later.
fn prepare(config: &Config, store: &Store) -> std::io::Result<()> {
    let base = config.tls_state.as_deref().unwrap_or(Path::new("."));
    match &config.user {
        Some(user) if becomes_another(config) => {
            if base.exists() {
                return Ok(());
            }
            store.create()?;
            // A user that does not exist is reported where rights are dropped.
            if let Ok(account) = Account::find(&user.name, user.group.as_deref()) {
                for folder in store.folders() {
                    privilege::give(&folder, &account)?;
                }
            }
            Ok(())
        }
        _ => store.create(),
    }
}

/// The name of this machine.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    server::config::parse_domain(name.trim()).ok()
}

/// Names under which others may reach this machine: its own, alone and as multicast DNS has it.
fn names() -> Vec<String> {
    let Some(name) = host_name().filter(|name| name != "localhost") else {
        return Vec::new();
    };
    let local = (!name.contains('.')).then(|| format!("{name}.local"));
    [Some(name), local].into_iter().flatten().collect()
}

/// Answers to a CA's checks, from the store. A read of a small file blocks for microseconds, and only paths that can be
/// tokens lead to one.
#[derive(Debug)]
struct Answers(Store);

impl Handler for Answers {
    fn answer(&self, ask: &Ask<'_>, _: &Server) -> Option<Made> {
        let token = str::from_utf8(ask.path).ok().filter(|token| is_token(token))?;
        let content = std::fs::read_to_string(self.0.answer(token)).ok()?;
        Some(Made {
            status: Status::OK,
            media_type: "application/octet-stream",
            content: Bytes::from(content),
        })
    }

    fn is_guarded(&self) -> bool {
        false
    }
}

impl Challenges for Answers {
    fn pem(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read_to_string(self.0.challenge_pair(name))
            .ok()
            .map(String::into_bytes)
    }
}
