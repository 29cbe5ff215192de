//! Credentials that were verified, so that a client pays for the expensive check of its password once.
//!
//! Holds hashes (SHA-256 of a key that only this process knows and of the credentials), and no passwords. The hashes leave
//! this file nowhere, so nobody can extend one. Two generations bound
//! the number: credentials that are used stay, the others are forgotten first. Wrong passwords are not remembered.

use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Maximum number of credentials in a generation; there are two.
const GENERATION_MAX: usize = 4_096;

/// A keyed hash of credentials.
pub(super) type Digest = [u8; 32];

/// Verified credentials.
pub(super) struct Verified {
    key: [u8; 32],
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: HashSet<Digest>,
    old: HashSet<Digest>,
}

impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verified")
    }
}

impl Verified {
    /// No credentials, under a new key. `None`: the system has no randomness.
    pub(super) fn new() -> Option<Verified> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).ok()?;
        Some(Verified {
            key,
            generations: Mutex::default(),
        })
    }

    /// The hash of credentials for a file of users.
    pub(super) fn digest(&self, file: u32, name: &[u8], password: &[u8]) -> Digest {
        let hash = Sha256::new()
            .chain_update(self.key)
            .chain_update(file.to_le_bytes())
            // The length keeps `ab:c` and `a:bc` apart.
            .chain_update((name.len() as u64).to_le_bytes())
            .chain_update(name)
            .chain_update(password);
        hash.finalize().into()
    }

    pub(super) fn contains(&self, digest: &Digest) -> bool {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if generations.young.contains(digest) {
            return true;
        }
        let is_old = generations.old.contains(digest);
        if is_old {
            generations.insert(*digest);
        }
        is_old
    }

    pub(super) fn insert(&self, digest: Digest) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.insert(digest);
    }
}

impl Generations {
    fn insert(&mut self, digest: Digest) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_told_apart() {
        let verified = Verified::new().unwrap();
        let digest = verified.digest(0, b"ann", b"secret");
        assert!(!verified.contains(&digest));
        verified.insert(digest);
        assert!(verified.contains(&digest));
        for (file, name, password) in [
            (1, "ann", "secret"),
            (0, "anns", "ecret"),
            (0, "ann", "secret "),
            (0, "Ann", "secret"),
        ] {
            let other = verified.digest(file, name.as_bytes(), password.as_bytes());
            assert!(!verified.contains(&other), "{file} {name}:{password}");
        }
        let elsewhere = Verified::new().unwrap();
        assert_ne!(elsewhere.digest(0, b"ann", b"secret"), digest, "keys differ");
    }

    #[test]
    fn the_number_is_bounded_and_used_credentials_stay() {
        let verified = Verified::new().unwrap();
        let of = |n: u32| verified.digest(0, &n.to_le_bytes(), b"");
        let used = verified.digest(0, b"used", b"");
        verified.insert(used);
        for n in 0..3 * GENERATION_MAX as u32 {
            verified.insert(of(n));
            assert!(verified.contains(&used), "{n}");
        }
        assert!(!verified.contains(&of(0)));
        let generations = verified.generations.lock().unwrap();
        assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION_MAX);
    }
}
