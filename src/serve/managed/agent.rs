//! Gets and renews the certificate, one look after the other: what is due is done, and what fails is tried again later.
//!
//! ```text
//!   look ─┬─ another process orders ────────────────────────▶ look again in seconds
//!         ├─ failed lately ─────────────────────────────────▶ ... when the wait is over
//!         ├─ none, due, or wanted ──── order ──┬─ issued ────▶ ... in an hour at most
//!         │                                    └─ failed ───▶ note why, wait longer each time
//!         └─ valid ── ask the CA for its window, now and then ▶ ... in an hour at most
//! ```
//! What an operator wants revoked is revoked after that, so that there is another certificate if one can be had.
//! What was issued is written to the store, where every process that uses it notices.

use super::store::{Notes, Revocation, Store};
use super::{Authority, https, internal, store};
use ::tls::certificates::Pair;
use ::tls::rustls::RootCertStore;
use ::tls::rustls::crypto::aws_lc_rs::default_provider;
use ::tls::rustls::pki_types::CertificateDer;
use ::tls::rustls::pki_types::pem::PemObject as _;
use acme::account::Account;
use acme::challenge::{Challenge, Kind};
use acme::error::{Error, Problem};
use acme::order::{self, Ca, Wanted};
use acme::renewal;
use acme::world::{Request, Response, World};
use runtime::clock;
use runtime::process::hook;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Duration, Seed, UnixTime};
use zeroize::Zeroizing;

/// Longest time between two looks: a clock may be set, and a file removed.
const LOOK_MOST: i64 = 3_600;

/// Time between two looks while another process orders.
const LOOK_BUSY: i64 = 10;

/// Time between two looks at a folder that cannot be used: a full disk may be emptied.
const LOOK_UNUSABLE: i64 = 300;

/// The longest time that a CA is not asked for its window again after that failed: waits double up to here (RFC 9773
/// section 4.3.3).
const ASK_AGAIN: i64 = 3_600;

/// Time after an order in which the CA's window leads to no other: one that stays in the past would have no end.
const ORDER_AGAIN: i64 = 86_400;

/// How long a hook may take: some wait until all name servers have the record.
const HOOK_MOST: Duration = Duration::from_secs(600);

/// A wait that ends later than this is due to a clock that was set back: more than the longest wait there is.
const WAIT_MOST: i64 = 8 * 86_400;

/// Does what is due. Returns when to look again, in Unix time.
pub(super) fn look(authority: &Authority, store: &Store, now: UnixTime) -> i64 {
    let _lock = match store.create().and_then(|()| store.lock()) {
        Ok(Some(lock)) => lock,
        Ok(None) => return now.secs + LOOK_BUSY,
        Err(error) => {
            tracing::error!(
                "certificates cannot be renewed: `{}`: {error}; the user of the server must be able to write there \
                 (--tls-state)",
                store.pair().display()
            );
            return now.secs + LOOK_UNUSABLE;
        }
    };
    let mut before = store.notes();
    if let Err(error) = store.note_wish(&mut before) {
        tracing::error!(
            "what was asked for with `weir ctl certificates` cannot be noted: {error} (--tls-state)"
        );
    }
    let mut notes = before.clone();
    let mut next = step(authority, store, &mut notes, now);
    if let Authority::Ca(customer) = authority {
        next = next.min(revoke(customer, store, &mut notes, now));
    }
    if notes != before
        && let Err(error) = store.keep_notes(&notes)
    {
        tracing::error!("notes on certificates cannot be written: {error} (--tls-state)");
    }
    next.clamp(now.secs + 1, now.secs + LOOK_MOST)
}

fn step(authority: &Authority, store: &Store, notes: &mut Notes, now: UnixTime) -> i64 {
    if notes.failures > 0 && (now.secs..now.secs + WAIT_MOST).contains(&notes.again_at) {
        return notes.again_at;
    }
    let pair = in_use(store);
    let seed = seed(store);
    let due = |notes: &Notes| {
        let valid = pair.as_ref().filter(|pair| pair.expires().secs > now.secs);
        valid.map(|pair| renewal::due(pair.begins(), pair.expires(), notes.window, seed).secs)
    };
    if let (Authority::Ca(customer), Some(pair)) = (authority, &pair)
        && now.secs >= notes.ask_at
    {
        ask(customer, pair, notes, seed, now);
    }
    match due(notes) {
        Some(due) if !notes.is_wanted => {
            // A clock that was set back makes no order one of the future.
            let is_new = (0..ORDER_AGAIN).contains(&(now.secs - notes.ordered_at));
            let due = if is_new {
                due.max(notes.ordered_at + ORDER_AGAIN)
            } else {
                due
            };
            if now.secs < due {
                let has_ca = matches!(authority, Authority::Ca(_));
                return if has_ca { due.min(notes.ask_at) } else { due };
            }
        }
        _ => {}
    }
    let outcome = match authority {
        Authority::Internal { names } => {
            internal::make(store, names, now).map_err(|error| Error::Here(error.to_string()))
        }
        Authority::Ca(customer) => customer.order(store, pair.as_ref(), notes.failures),
    };
    match outcome {
        Ok(()) => {
            *notes = Notes {
                ordered_at: now.secs,
                revocation: notes.revocation.take(),
                ..Notes::default()
            };
            tracing::info!("got a new certificate for {}", authority.names().join(", "));
            now.secs
        }
        Err(error) => {
            notes.failures = notes.failures.saturating_add(1);
            let wait = renewal::wait(notes.failures, error.retry_after(), seed);
            notes.again_at = now.secs + i64::try_from(wait.as_secs()).unwrap_or(LOOK_MOST);
            notes.trouble = Some(error.to_string());
            let left = match in_use(store) {
                Some(pair) if pair.expires().secs > now.secs => format!(
                    "the certificate in use ends {}",
                    store::until(pair.expires().secs, now)
                ),
                Some(_) => "the certificate in use has ended".to_owned(),
                None => "https clients get no answer until there is a certificate".to_owned(),
            };
            tracing::error!(
                "no certificate for {}: {error}; next attempt {}; {left}",
                authority.names().join(", "),
                store::until(notes.again_at, now)
            );
            notes.again_at
        }
    }
}

/// The certificate in the store, if there is one that can be read.
fn in_use(store: &Store) -> Option<Pair> {
    let pem = Zeroizing::new(std::fs::read_to_string(store.pair()).ok()?);
    Pair::from_pem(pem.as_bytes(), pem.as_bytes(), &default_provider()).ok()
}

/// Differs by certificate, so that the servers of the world do not renew at once.
fn seed(store: &Store) -> Seed {
    let text = store.pair().display().to_string();
    Seed(text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }))
}

/// Asks the CA when it wants the certificate renewed.
fn ask(customer: &Customer, pair: &Pair, notes: &mut Notes, seed: Seed, now: UnixTime) {
    let Some(id) = pair
        .chain()
        .first()
        .and_then(|certificate| renewal::id(certificate))
    else {
        notes.ask_at = now.secs + ASK_AGAIN;
        return;
    };
    let mut outside = Outside {
        customer,
        store: None,
    };
    match renewal::ask(&mut outside, &customer.ca.directory, &id) {
        Ok(found) => {
            if found.window != notes.window
                && let Some(window) = found.window
            {
                tracing::info!(
                    "the CA wants the certificate renewed {}, at the latest {}",
                    store::until(window.start, now),
                    store::until(window.end, now)
                );
            }
            notes.window = found.window;
            notes.ask_failures = 0;
            notes.ask_at = now.secs + i64::try_from(found.again.as_secs()).unwrap_or(ASK_AGAIN);
        }
        Err(error) => {
            notes.ask_failures = notes.ask_failures.saturating_add(1);
            let wait = renewal::wait(notes.ask_failures, error.retry_after(), seed);
            notes.ask_at = now.secs + i64::try_from(wait.as_secs()).unwrap_or(ASK_AGAIN).min(ASK_AGAIN);
            tracing::warn!(
                "the CA does not say when to renew the certificate: {error}; it is asked again {}",
                store::until(notes.ask_at, now)
            );
        }
    }
}

/// Revokes what an operator wants revoked. Returns when to try again.
fn revoke(customer: &Customer, store: &Store, notes: &mut Notes, now: UnixTime) -> i64 {
    let Some(revocation) = notes.revocation.as_mut().filter(|one| !one.is_refused) else {
        return i64::MAX;
    };
    if (now.secs..now.secs + WAIT_MOST).contains(&revocation.again_at) {
        return revocation.again_at;
    }
    let error = match customer.revoke(store, revocation) {
        Ok(()) => {
            tracing::info!(
                "the CA has revoked a certificate for {}",
                customer.names.join(", ")
            );
            notes.revocation = None;
            return i64::MAX;
        }
        Err(error) => error,
    };
    let is_passing = |problem: &Problem| ["rateLimited", "serverInternal"].contains(&problem.short());
    revocation.is_refused = matches!(&error, Error::Refused(problem) if !is_passing(problem));
    revocation.failures = revocation.failures.saturating_add(1);
    revocation.trouble = Some(error.to_string());
    let wait = renewal::wait(revocation.failures, error.retry_after(), seed(store));
    revocation.again_at = now.secs + i64::try_from(wait.as_secs()).unwrap_or(LOOK_MOST);
    let next = match revocation.is_refused {
        true => "ask again with another reason, or at the CA (weir ctl certificates revoke)".to_owned(),
        false => format!("next attempt {}", store::until(revocation.again_at, now)),
    };
    tracing::error!("a certificate is not revoked: {error}; {next}");
    match revocation.is_refused {
        true => i64::MAX,
        false => revocation.again_at,
    }
}

/// A customer of a CA.
#[derive(Debug)]
pub(super) struct Customer {
    pub(super) ca: Ca,
    pub(super) roots: Arc<RootCertStore>,
    pub(super) names: Vec<String>,
    pub(super) kinds: Vec<Kind>,
    pub(super) profile: Option<String>,
    /// Writes DNS records.
    pub(super) hook: Option<PathBuf>,
    /// What they need to reach all name servers.
    pub(super) hook_wait: Duration,
}

impl Customer {
    /// Orders a certificate, and puts it into the store. After failures, the ways to show that names are ours take turns.
    fn order(&self, store: &Store, before: Option<&Pair>, failures: u32) -> Result<(), Error> {
        let replaced = before.and_then(|pair| pair.chain().first());
        let mut kinds = self.kinds.clone();
        kinds.rotate_left(failures as usize % self.kinds.len().max(1));
        let wanted = Wanted {
            names: self.names.clone(),
            kinds,
            profile: self.profile.clone(),
            replaces: replaced.and_then(|certificate| renewal::id(certificate)),
            dns_wait: self.hook_wait,
        };
        let issued = self.with_account(store, |outside, account| {
            order::obtain(outside, &self.ca, account, &wanted)
        })?;
        let pem = Zeroizing::new(format!("{}{}", issued.chain, issued.key));
        let pair = Pair::from_pem(pem.as_bytes(), pem.as_bytes(), &default_provider()).map_err(|error| {
            Error::Unexpected(format!("the CA sent a certificate that cannot be used: {error}"))
        })?;
        store::replace(&store.pair(), pem.as_bytes()).map_err(|error| unusable(&store.pair(), &error))?;
        if renewal::due(pair.begins(), pair.expires(), None, seed(store)).secs > clock::wall().secs {
            return Ok(());
        }
        // It is used, for the clock may be wrong; but another order would be due at once, and so on without end.
        Err(Error::Here(
            "by the clock of this machine, the new certificate is due for renewal already; set the clock, or ask for \
             a profile that is valid for longer (--acme-profile)"
                .to_owned(),
        ))
    }

    fn revoke(&self, store: &Store, revocation: &Revocation) -> Result<(), Error> {
        let certificate = CertificateDer::from_pem_slice(revocation.certificate.as_bytes())
            .map_err(|error| Error::Here(format!("the noted certificate cannot be read: {error}")))?;
        self.with_account(store, |outside, account| {
            order::revoke(outside, &self.ca, account, &certificate, revocation.reason)
        })
    }

    /// Speaks with the CA as the customer that it knows, or that it will know from then on.
    fn with_account<T>(
        &self,
        store: &Store,
        speak: impl FnOnce(&mut Outside<'_>, &mut Account) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let file = store.account();
        let mut account = match std::fs::read_to_string(&file) {
            Ok(text) => Account::parse(&text)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Account::new()?,
            Err(error) => return Err(unusable(&file, &error)),
        };
        let mut outside = Outside {
            customer: self,
            store: Some(store),
        };
        let outcome = speak(&mut outside, &mut account);
        // Also after a failure: the CA may have taken the account.
        store::replace(&file, account.text().as_bytes()).map_err(|error| unusable(&file, &error))?;
        outcome
    }

    /// Has a DNS record written or removed.
    fn run_hook(&self, action: &str, record: &str, value: &str) -> Result<(), String> {
        let Some(hook) = &self.hook else {
            return Err("this server writes no DNS records (--acme-hook)".to_owned());
        };
        hook::run(hook, &[action, &format!("{record}."), value], HOOK_MOST)
            .map_err(|error| format!("`{} {action} {record}.` {error} (--acme-hook)", hook.display()))
    }
}

fn unusable(file: &Path, error: &std::io::Error) -> Error {
    Error::Here(format!("`{}`: {error} (--tls-state)", file.display()))
}

/// The outside, as ACME sees it.
struct Outside<'a> {
    customer: &'a Customer,
    /// Where answers to checks go; `None`: nothing is ordered.
    store: Option<&'a Store>,
}

impl World for Outside<'_> {
    fn send(&mut self, request: &Request) -> Result<Response, String> {
        https::send(request, &self.customer.roots)
    }

    fn present(&mut self, challenge: &Challenge) -> Result<(), String> {
        let written = match (challenge, self.store) {
            (Challenge::Http { token, answer }, Some(store)) => {
                store::replace(&store.answer(token), answer.as_bytes())
            }
            (Challenge::TlsAlpn { name, pem }, Some(store)) => {
                store::replace(&store.challenge_pair(name), pem.as_bytes())
            }
            (Challenge::Dns { record, answer }, Some(_)) => {
                return self.customer.run_hook("present", record, answer);
            }
            (_, None) => return Err("this server answers no such check".to_owned()),
        };
        written
            .map_err(|error| format!("the answer to the CA's check cannot be written: {error} (--tls-state)"))
    }

    fn withdraw(&mut self, challenge: &Challenge) {
        let file = match (challenge, self.store) {
            (Challenge::Http { token, .. }, Some(store)) => store.answer(token),
            (Challenge::TlsAlpn { name, .. }, Some(store)) => store.challenge_pair(name),
            (Challenge::Dns { record, answer }, Some(_)) => {
                if let Err(why) = self.customer.run_hook("cleanup", record, answer) {
                    tracing::warn!("a DNS record may stay: {why}");
                }
                return;
            }
            (_, None) => return,
        };
        // One that stays does no harm: its token is used up.
        let _ = std::fs::remove_file(file);
    }

    fn now(&self) -> UnixTime {
        clock::wall()
    }

    fn wait(&mut self, span: Duration) {
        clock::pause(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::config::{Config, TlsSource};

    const DAY: i64 = 86_400;

    /// An empty store, and the folder that it is in.
    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Config {
            tls: TlsSource::Internal,
            tls_state: Some(folder.path().to_owned()),
            ..Config::default()
        };
        let store = Store::of(&config).expect("a store");
        store.create().expect("folders");
        (folder, store)
    }

    #[test]
    fn a_window_that_stays_in_the_past_leads_to_one_order_a_day() {
        let (_folder, store) = store();
        let authority = Authority::Internal {
            names: vec!["localhost".to_owned()],
        };
        let then = UnixTime::from_secs(1_800_000_000);
        let mut notes = Notes::default();
        let at = |notes: &mut Notes, secs: i64| {
            let now = UnixTime::from_secs(then.secs + secs);
            notes.window = Some(renewal::Window {
                start: now.secs - 2,
                end: now.secs - 1,
            });
            let next = step(&authority, &store, notes, now);
            let pair = in_use(&store).expect("a pair");
            (next - then.secs, pair.chain().to_vec())
        };
        let (_, first) = at(&mut notes, 0);
        for secs in [1, 3_600, DAY - 1] {
            assert_eq!(at(&mut notes, secs), (DAY, first.clone()), "after {secs} s");
        }
        let (_, second) = at(&mut notes, DAY);
        assert!(second != first);
        // A clock that is set back by years does not make it wait for years.
        let (next, third) = at(&mut notes, -1_000 * DAY);
        assert!(third != second && next == -1_000 * DAY, "{next}");
    }

    #[test]
    fn a_ca_that_does_not_answer_is_asked_again_after_ever_longer_waits() {
        let (_folder, store) = store();
        let names = vec!["localhost".to_owned()];
        let then = UnixTime::from_secs(1_800_000_000);
        internal::make(&store, &names, then).expect("a certificate");
        let authority = Authority::Ca(Customer {
            ca: Ca {
                // No URL that can be asked.
                directory: "http://localhost/".to_owned(),
                ..Ca::default()
            },
            roots: Arc::new(RootCertStore::empty()),
            names,
            kinds: Kind::ALL.iter().map(|(kind, _)| *kind).collect(),
            profile: None,
            hook: None,
            hook_wait: Duration::ZERO,
        });
        let mut notes = Notes::default();
        let mut now = then;
        let waits: Vec<i64> = (0..9)
            .map(|_| {
                let next = step(&authority, &store, &mut notes, now);
                let wait = next - now.secs;
                now = UnixTime::from_secs(next);
                wait
            })
            .collect();
        assert_eq!(notes.failures, 0, "{:?}", notes.trouble);
        assert!((60..=75).contains(&waits[0]), "{waits:?}");
        assert!(waits.is_sorted() && waits[8] == ASK_AGAIN, "{waits:?}");
    }
}
