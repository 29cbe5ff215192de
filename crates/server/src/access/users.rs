//! Users and their hashed passwords, from a file that `htpasswd` or `mkpasswd` writes.
//!
//! Decides which hashes are accepted, and whether a password is that of a user. A user that does not exist costs as much
//! time as one whose password is wrong: the password is compared with the hash of another user.

use super::apr1::Apr1;
use bcrypt::HashParts;
use sha_crypt::{PasswordVerifier as _, ShaCrypt};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;

/// Longest file, in bytes: about 15,000 users.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Largest bcrypt cost accepted: about two seconds for each check. `htpasswd` defaults to 5, which takes 2 ms.
const COST_MAX: u32 = 15;

/// Most SHA-crypt rounds accepted, by the same measure. The default of the format is 5,000.
const ROUNDS_MAX: u32 = 1_000_000;

/// Fewest rounds of SHA-crypt, by its specification.
const ROUNDS_MIN: u32 = 1_000;

/// Users of one file.
pub(crate) struct Users {
    by_name: HashMap<Box<[u8]>, usize>,
    /// Never empty.
    hashes: Vec<Hash>,
    /// Chooses the hash for a name without one. Random, so that clients cannot tell which.
    chance: RandomState,
}

/// A hashed password.
#[derive(PartialEq, Eq)]
enum Hash {
    Bcrypt(Box<str>),
    /// SHA-256-crypt or SHA-512-crypt.
    Sha(Box<str>),
    /// Apache's MD5-crypt, which is weak.
    Apr1(Apr1),
}

impl fmt::Debug for Users {
    /// Hashes stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.hashes.len())
    }
}

impl Users {
    /// Reads a file of lines `name:hash`; what follows a second colon is a comment. Empty lines and those that begin with `#` are
    /// skipped.
    ///
    /// # Errors
    /// The file, the line and what to do.
    pub(crate) fn read(path: &Path) -> Result<Users, String> {
        let shown = path.display();
        let content = runtime::fs::read_small(path, FILE_BYTES_MAX).map_err(|error| {
            format!("cannot read `{shown}`: {error}; the user of the server must be able to read it")
        })?;
        Users::of(&content).map_err(|why| format!("`{shown}`, {why}"))
    }

    fn of(content: &[u8]) -> Result<Users, String> {
        let mut by_name = HashMap::new();
        let mut hashes = Vec::new();
        for (number, line) in (1..).zip(content.split(|&b| b == b'\n')) {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let colon = line.iter().position(|&b| b == b':');
            let Some((name, hash)) = colon.map(|at| (&line[..at], &line[at + 1..])) else {
                return Err(format!(
                    "line {number}: there is no colon; write `name:hash`, as `htpasswd -B` does"
                ));
            };
            let shown = name.escape_ascii();
            // No hash has a colon.
            let hash = hash.split(|&b| b == b':').next().unwrap_or_default();
            let Some(hash) = Hash::of(hash) else {
                return Err(format!(
                    "line {number}: the password of `{shown}` is not hashed by bcrypt (cost 4 to {COST_MAX}), SHA-crypt \
                     ({ROUNDS_MIN} to {ROUNDS_MAX} rounds) or Apache's MD5 (`$apr1$`); write it with `htpasswd -B`"
                ));
            };
            if by_name.insert(name.into(), hashes.len()).is_some() {
                return Err(format!(
                    "line {number}: `{shown}` is listed twice; remove one of the two"
                ));
            }
            hashes.push(hash);
        }
        match hashes.is_empty() {
            true => Err("there are no users; add one with `htpasswd -B`".to_owned()),
            false => Ok(Users {
                by_name,
                hashes,
                chance: RandomState::new(),
            }),
        }
    }

    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.by_name.contains_key(name)
    }

    pub(super) fn count(&self) -> usize {
        self.hashes.len()
    }

    /// Number of users whose password is quick to guess for those who have the file.
    pub(super) fn count_weak(&self) -> usize {
        let is_weak = |hash: &&Hash| matches!(hash, Hash::Apr1(_));
        self.hashes.iter().filter(is_weak).count()
    }

    /// Whether this is the password of this user. Takes milliseconds to seconds of CPU time.
    pub(crate) fn verify(&self, name: &[u8], password: &[u8]) -> bool {
        let known = self.by_name.get(name).copied();
        // The same name always takes the time of the same hash.
        let other = self.chance.hash_one(name) as usize % self.hashes.len();
        let is_right = self.hashes[known.unwrap_or(other)].matches(password);
        known.is_some() && is_right
    }
}

impl Hash {
    /// `None`: no supported hash, or one that takes too long to check.
    fn of(text: &[u8]) -> Option<Hash> {
        let text = std::str::from_utf8(text).ok()?;
        if let Ok(parts) = text.parse::<HashParts>() {
            let is_known = ["$2a$", "$2b$", "$2y$"]
                .iter()
                .any(|start| text.starts_with(start));
            let is_possible = (4..=COST_MAX).contains(&parts.get_cost());
            return (is_known && is_possible).then(|| Hash::Bcrypt(text.into()));
        }
        if let Some(hash) = Apr1::of(text) {
            return Some(Hash::Apr1(hash));
        }
        let mut fields = text.strip_prefix('$')?.split('$');
        let length = match fields.next()? {
            "5" => 43,
            "6" => 86,
            _ => return None,
        };
        let mut salt = fields.next()?;
        if let Some(rounds) = salt.strip_prefix("rounds=") {
            let rounds: u32 = rounds.parse().ok()?;
            (ROUNDS_MIN..=ROUNDS_MAX).contains(&rounds).then_some(())?;
            salt = fields.next()?;
        }
        let hash = fields.next()?;
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"./".contains(&b);
        let is_whole = fields.next().is_none() && hash.len() == length && salt.len() <= 16;
        (is_whole && hash.bytes().chain(salt.bytes()).all(is_plain)).then(|| Hash::Sha(text.into()))
    }

    /// Compares in constant time.
    fn matches(&self, password: &[u8]) -> bool {
        match self {
            Hash::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Hash::Sha(hash) => ShaCrypt::default().verify_password(password, &**hash).is_ok(),
            Hash::Apr1(hash) => hash.matches(password),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The password is `secret` in each.
    const BCRYPT: &str = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";
    const SHA512: &str =
        "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1";
    const SHA256: &str = "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA";
    const APR1: &str = "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0";

    #[test]
    fn passwords_are_compared_with_their_hashes() {
        let text = format!("# users\n\nann:{BCRYPT}\r\nbob:{SHA512}\n  carol:{SHA256}\nerin:{APR1}\r\n");
        let users = Users::of(text.as_bytes()).unwrap();
        assert_eq!((users.count(), users.count_weak()), (4, 1));
        assert!(users.has(b"erin") && !users.has(b"dave"));
        for (name, password, is_right) in [
            ("ann", "secret", true),
            ("bob", "secret", true),
            ("carol", "secret", true),
            ("erin", "secret", true),
            ("erin", "secret ", false),
            ("erin", "", false),
            ("ann", "Secret", false),
            ("bob", "secret ", false),
            ("carol", "", false),
            ("dave", "secret", false),
            ("", "secret", false),
            ("# users", "secret", false),
        ] {
            assert_eq!(
                users.verify(name.as_bytes(), password.as_bytes()),
                is_right,
                "{name}"
            );
        }
        assert!(!format!("{users:?}").contains('$'));
    }

    #[test]
    fn what_follows_the_hash_is_a_comment() {
        let text = format!("ann:{BCRYPT}:the first: of all\nbob:{SHA256}:\n");
        let users = Users::of(text.as_bytes()).unwrap();
        assert_eq!(users.count(), 2);
        for name in ["ann", "bob"] {
            assert!(users.verify(name.as_bytes(), b"secret"), "{name}");
        }
        for text in ["ann::comment", "ann:comment:hash"] {
            let why = Users::of(text.as_bytes()).unwrap_err();
            assert!(why.contains("the password of `ann` is not hashed"), "{why}");
        }
    }

    /// As `crypt(3)` of glibc computes them.
    #[test]
    fn sha_crypt_is_that_of_the_system() {
        for hash in [
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
            "$5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA",
        ] {
            let known = Hash::of(hash.as_bytes()).unwrap();
            assert!(known.matches(b"Hello world!"), "{hash}");
            assert!(!known.matches(b"Hello world"), "{hash}");
        }
    }

    #[test]
    fn hashes_that_are_unknown_malformed_or_too_slow_are_rejected() {
        for hash in [
            "secret",
            "",
            "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            &APR1[..APR1.len() - 1],
            &APR1.replace("saltsalt", "saltsalts"),
            &APR1.replace("$apr1$", "$apr2$"),
            "rqXexS6ZhobKA",
            "$1$abc$xyz",
            &BCRYPT.replace("$05$", "$16$"),
            &BCRYPT.replace("$05$", "$03$"),
            &BCRYPT.replace("$2y$", "$2x$"),
            &BCRYPT[..59],
            &SHA512.replace("$6$", "$6$rounds=1000001$"),
            &SHA512.replace("$6$", "$6$rounds=999$"),
            &SHA512[..SHA512.len() - 1],
        ] {
            let why = Users::of(format!("\nann:{hash}").as_bytes()).unwrap_err();
            assert!(why.contains("line 2") && why.contains("htpasswd -B"), "{why}");
            assert!(
                hash.is_empty() || !why.contains(hash),
                "the error shows no password"
            );
        }
        assert!(Hash::of(BCRYPT.replace("$05$", "$15$").as_bytes()).is_some());
        assert!(Hash::of(SHA512.replace("$6$", "$6$rounds=1000000$").as_bytes()).is_some());
    }

    #[test]
    fn a_file_without_users_is_an_error() {
        for (text, advice) in [
            ("", "no users"),
            ("# ann\n\n", "no users"),
            ("ann", "line 1: there is no colon"),
            (&format!("a:{BCRYPT}\na:{SHA256}"), "line 2: `a` is listed twice"),
        ] {
            let why = Users::of(text.as_bytes()).unwrap_err();
            assert!(why.contains(advice), "{why}");
        }
        let why = Users::read(Path::new("/nowhere/users")).unwrap_err();
        assert!(
            why.contains("`/nowhere/users`") && why.contains("be able to read"),
            "{why}"
        );
    }
}
