//! Resumption by tickets (RFC 8446 section 4.6.1, RFC 5077): sealed with keys that follow from one shared secret and the time,
//! so that workers, processes and the process after an upgrade accept each other's tickets without talking.
//!
//! ```text
//!   secret of epoch n ── HKDF ──▶ secret of epoch n + 1 ──▶ ...        the earlier secret cannot be had from the later one
//!        └── HKDF ──▶ ticket key of epoch n
//!   ticket:  epoch (8) │ nonce (12) │ sealed state │ tag (16)
//! ```
//! An epoch lasts half of a ticket's lifetime; keys of the epoch before are kept, older ones are gone. Time is an argument of
//! [`Ratchet::advance`], which the owner calls.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use units::UnixTime;
use zeroize::Zeroize as _;

/// Seconds that a ticket is accepted for at least, and half of what it is for at most.
pub const EPOCH_SECS: u64 = 6 * 3_600;

/// Bytes of a secret.
pub const SECRET_LEN: usize = 32;

const EPOCH_LEN: usize = 8;

/// Bytes of a secret with its epoch.
pub const HANDED_ON_LEN: usize = EPOCH_LEN + SECRET_LEN;

/// What tickets of one epoch are sealed with, and what leads to the next.
pub struct Secret {
    epoch: u64,
    bytes: [u8; SECRET_LEN],
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

impl Secret {
    /// A secret of chance for the epoch of this time, in seconds since 1970.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn new(now_secs: u64) -> Result<Secret, rustls::Error> {
        let mut bytes = [0; SECRET_LEN];
        rand::fill(&mut bytes).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
        Ok(Secret {
            epoch: now_secs / EPOCH_SECS,
            bytes,
        })
    }

    /// A secret that another process handed on; `None` if these are not the bytes of one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Secret> {
        let (epoch, bytes) = bytes.split_first_chunk()?;
        Some(Secret {
            epoch: u64::from_be_bytes(*epoch),
            bytes: bytes.try_into().ok()?,
        })
    }

    /// What to hand on to another process: the epoch, big-endian, and the secret.
    pub fn hand_on(&self) -> [u8; HANDED_ON_LEN] {
        let mut bytes = [0; HANDED_ON_LEN];
        bytes[..EPOCH_LEN].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[EPOCH_LEN..].copy_from_slice(&self.bytes);
        bytes
    }

    fn derive(&self, label: &[u8]) -> [u8; SECRET_LEN] {
        let mut derived = [0; SECRET_LEN];
        let prk: Prk = Salt::new(HKDF_SHA256, &[]).extract(&self.bytes);
        let label = [label];
        let filled = prk
            .expand(&label, HKDF_SHA256)
            .and_then(|material| material.fill(&mut derived));
        // Refused only for lengths that HKDF cannot fill; a constant length is no such.
        debug_assert!(filled.is_ok());
        derived
    }

    fn next(&self) -> Secret {
        Secret {
            epoch: self.epoch + 1,
            bytes: self.derive(b"weir ticket secret"),
        }
    }

    fn key(&self) -> Option<LessSafeKey> {
        let mut bytes = self.derive(b"weir ticket key");
        let key = UnboundKey::new(&AES_256_GCM, &bytes).ok();
        bytes.zeroize();
        key.map(LessSafeKey::new)
    }
}

/// The keys in use.
struct Keys {
    secret: Secret,
    current: LessSafeKey,
    previous: Option<LessSafeKey>,
}

/// Seals and opens tickets; shared by all configurations that accept each other's.
#[derive(Clone)]
pub struct Ratchet {
    keys: Arc<RwLock<Keys>>,
    /// What the tickets are for: those for something else are not accepted. Authenticated with each ticket.
    purpose: Arc<[u8]>,
}

impl fmt::Debug for Ratchet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ratchet")
    }
}

impl Ratchet {
    /// Begins with this secret.
    ///
    /// # Errors
    /// The cipher refuses its key.
    pub fn new(secret: Secret) -> Result<Ratchet, rustls::Error> {
        let current = secret
            .key()
            .ok_or_else(|| rustls::Error::General("no ticket key".to_owned()))?;
        Ok(Ratchet {
            keys: Arc::new(RwLock::new(Keys {
                secret,
                current,
                previous: None,
            })),
            purpose: Arc::default(),
        })
    }

    /// The same keys for tickets of this purpose only. A resumption repeats no check of the handshake that it resumes,
    /// so listeners that check clients differently must not accept each other's tickets.
    #[must_use]
    pub fn with_purpose(&self, purpose: &[u8]) -> Ratchet {
        Ratchet {
            keys: Arc::clone(&self.keys),
            purpose: purpose.into(),
        }
    }

    /// Moves on to the epoch of this time, in seconds since 1970; a clock that was set back changes nothing.
    pub fn advance(&self, now_secs: u64) {
        let epoch = now_secs / EPOCH_SECS;
        if self.read(|keys| keys.secret.epoch >= epoch) {
            return;
        }
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        // A clock that jumped by years would keep a worker busy for long.
        let steps = epoch.saturating_sub(keys.secret.epoch).min(4_096);
        for _ in 0..steps {
            let next = keys.secret.next();
            let Some(key) = next.key() else { return };
            keys.previous = Some(std::mem::replace(&mut keys.current, key));
            keys.secret = next;
        }
        keys.secret.epoch = epoch;
    }

    /// What to hand on to another process.
    pub fn hand_on(&self) -> [u8; HANDED_ON_LEN] {
        self.read(|keys| keys.secret.hand_on())
    }

    /// What is authenticated with a ticket, and not encrypted.
    fn authenticated(&self, epoch: [u8; EPOCH_LEN]) -> Vec<u8> {
        [&epoch[..], &self.purpose].concat()
    }

    fn read<T>(&self, look: impl FnOnce(&Keys) -> T) -> T {
        look(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ProducesTickets for Ratchet {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(EPOCH_SECS).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        self.read(|keys| {
            let epoch = keys.secret.epoch.to_be_bytes();
            let mut sealed = plain.to_vec();
            let tag = keys
                .current
                .seal_in_place_separate_tag(
                    Nonce::assume_unique_for_key(nonce),
                    Aad::from(self.authenticated(epoch)),
                    &mut sealed,
                )
                .ok()?;
            Some([&epoch[..], &nonce, &sealed, tag.as_ref()].concat())
        })
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let (epoch, rest) = cipher.split_first_chunk::<EPOCH_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        self.read(|keys| {
            let number = u64::from_be_bytes(*epoch);
            let key = match keys.secret.epoch.checked_sub(number)? {
                0 => &keys.current,
                1 => keys.previous.as_ref()?,
                _ => return None,
            };
            let mut opened = sealed.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let length = key
                .open_in_place(nonce, Aad::from(self.authenticated(*epoch)), &mut opened)
                .ok()?
                .len();
            opened.truncate(length);
            Some(opened)
        })
    }
}

/// How often a worker moves the ticket keys on, in seconds: far more often than they change.
const EVERY_SECS: i64 = 60;

/// One worker's share in the rotation of ticket keys. Each worker has one, because any of them may be the only one that is
/// not idle.
#[derive(Debug)]
pub struct Rotation {
    tickets: Ratchet,
    /// When the keys are looked after again, in seconds since 1970.
    due: i64,
}

impl Rotation {
    /// For a worker whose handshakes use these keys.
    pub fn new(tickets: Ratchet) -> Rotation {
        Rotation { tickets, due: 0 }
    }

    /// Moves the keys on to this time, at most once a minute.
    pub fn turn(&mut self, wall: UnixTime) {
        if wall.secs >= self.due {
            self.due = wall.secs + EVERY_SECS;
            self.tickets.advance(wall.secs.unsigned_abs());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: u64 = 1_800_000_000;

    fn pair() -> (Ratchet, Ratchet) {
        let one = Ratchet::new(Secret::new(THEN).expect("chance")).expect("a key");
        let handed_on = Secret::from_bytes(&one.hand_on()).expect("a secret");
        let other = Ratchet::new(handed_on).expect("a key");
        (one, other)
    }

    #[test]
    fn other_bytes_are_no_secret() {
        for length in [0, HANDED_ON_LEN - 1, HANDED_ON_LEN + 1] {
            assert!(Secret::from_bytes(&vec![1; length]).is_none(), "{length}");
        }
    }

    #[test]
    fn a_ticket_is_opened_by_whoever_has_the_secret() {
        let (one, other) = pair();
        let ticket = one.encrypt(b"state").expect("a ticket");
        assert_eq!(other.decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(other.decrypt(&changed), None, "byte {at}");
            assert_eq!(other.decrypt(&ticket[..at]), None, "cut at {at}");
        }
        let stranger = Ratchet::new(Secret::new(THEN).expect("chance")).expect("a key");
        assert_eq!(stranger.decrypt(&ticket), None);
    }

    #[test]
    fn a_ticket_is_not_opened_for_another_purpose() {
        let (one, _) = pair();
        let (open, closed) = (one.with_purpose(b""), one.with_purpose(b"clients of A"));
        let ticket = open.encrypt(b"state").expect("a ticket");
        assert_eq!(one.decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        assert_eq!(closed.decrypt(&ticket), None);
        let ticket = closed.encrypt(b"state").expect("a ticket");
        assert_eq!(closed.decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        assert_eq!(one.with_purpose(b"clients of B").decrypt(&ticket), None);
        one.advance(THEN + EPOCH_SECS);
        assert!(closed.decrypt(&ticket).is_some(), "the keys move on together");
    }

    #[test]
    fn a_ticket_lives_for_one_to_two_epochs_and_processes_move_on_alike() {
        let (one, other) = pair();
        let ticket = one.encrypt(b"state").expect("a ticket");
        one.advance(THEN + EPOCH_SECS);
        assert!(one.decrypt(&ticket).is_some(), "the epoch before");
        let newer = one.encrypt(b"newer").expect("a ticket");
        assert_eq!(other.decrypt(&newer), None, "it has not moved on yet");
        other.advance(THEN + EPOCH_SECS);
        assert!(other.decrypt(&newer).is_some() && other.decrypt(&ticket).is_some());
        other.advance(THEN);
        assert!(other.decrypt(&newer).is_some(), "a clock that was set back");
        other.advance(THEN + 2 * EPOCH_SECS);
        assert!(other.decrypt(&ticket).is_none() && other.decrypt(&newer).is_some());
    }
}
