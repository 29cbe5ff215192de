//! Finds the pages of logins at `/~login/`: a perfect hash over logins, made at start and at each reload.
//!
//! ```text
//!  ~name ──▶ its slot ──▶ is it the slot's login?  ── yes ──▶ home of the slot, the directory
//!                                                 └─ no ───▶ home of the slot, a name nobody has
//! ```
//! Every name has a slot, and the same amount is hashed, compared, copied and looked up on disk in either case. So
//! neither a response nor its time tells a login that does not exist from one without a directory (or with an
//! unreadable one). A minimal perfect hash by displacement: Belazzougui, Botelho, Dietzfelbinger, *Hash, displace, and
//! compress* (2009). This file does not know paths and files.

use crate::config::Tilde;
use phf_shared::HashKey;
use runtime::fs::{Graft, Grafts};
use runtime::logins;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of logins of a site. Beyond it, Weir warns and leaves out the rest.
const LOGINS_MAX: usize = 65_536;

/// Logins with their homes, and the directory served within each home.
#[derive(Debug)]
pub struct Logins {
    key: HashKey,
    displacements: Vec<(u32, u32)>,
    /// Never empty; all names are different.
    slots: Vec<Slot>,
    directory: Vec<u8>,
    /// Looked up in place of the directory for names that are not logins.
    decoy: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
struct Slot {
    login: Box<[u8]>,
    home: PathBuf,
}

/// Equal logins make equal results, so a cache can be kept. The decoys may differ.
impl PartialEq for Logins {
    fn eq(&self, other: &Logins) -> bool {
        (&self.slots, &self.directory) == (&other.slots, &other.directory)
    }
}

impl Logins {
    /// Looks up the logins with pages. Blocks, possibly on a network if the password database is remote.
    ///
    /// # Errors
    /// The error of the password database.
    pub fn look_up(tilde: &Tilde) -> io::Result<Logins> {
        let mut homes = BTreeMap::new();
        match &tilde.users {
            Some(users) => homes.extend(users.iter().map(|(login, home)| (login.clone(), home.clone()))),
            None => {
                let wanted = |login: &logins::Login| tilde.allows(&login.name, Some(login.uid));
                for login in logins::all(wanted, LOGINS_MAX)? {
                    // Lookups by name return the first login of a name.
                    homes.entry(login.name).or_insert(login.home);
                }
                for name in tilde.enabled.iter().flatten() {
                    if !homes.contains_key(name)
                        && let Some(login) = logins::find(name)?
                    {
                        homes.insert(login.name, login.home);
                    }
                }
            }
        }
        homes.retain(|login, _| tilde.users.is_none() || tilde.allows(login, None));
        homes.retain(|login, _| !tilde.disabled.contains(login));
        if homes.len() >= LOGINS_MAX {
            tracing::warn!(
                "`tilde`: more than {LOGINS_MAX} logins, so some get no pages; list those that should have pages in `enabled`"
            );
            while homes.len() > LOGINS_MAX {
                homes.pop_last();
            }
        }
        Ok(Logins::of(homes, tilde.directory.as_str()))
    }

    fn of(homes: BTreeMap<String, PathBuf>, directory: &str) -> Logins {
        let mut slots: Vec<Slot> = homes
            .into_iter()
            .map(|(login, home)| Slot {
                login: login.into_bytes().into(),
                home,
            })
            .collect();
        if slots.is_empty() {
            // A name that cannot occur: it contains the slash that ends a name in a path.
            slots.push(Slot {
                login: b"/"[..].into(),
                home: "/".into(),
            });
        }
        let names: Vec<&[u8]> = slots.iter().map(|slot| &*slot.login).collect();
        let hash = phf_generator::generate_hash(&names);
        let mut of_slot: Vec<Option<Slot>> = slots.into_iter().map(Some).collect();
        let slots = hash.map.iter().filter_map(|&at| of_slot[at].take()).collect();
        // Random and known only to this process, so no home can contain it.
        let chance = RandomState::new();
        let digits = (0..directory.len().div_ceil(16)).map(|part| {
            let mut hasher = chance.build_hasher();
            hasher.write_usize(part);
            format!("{:016x}", hasher.finish())
        });
        Logins {
            key: hash.key,
            displacements: hash.disps,
            slots,
            directory: directory.as_bytes().to_owned(),
            decoy: digits.collect::<String>().into_bytes(),
        }
    }

    fn lead(&self, login: &[u8]) -> Graft {
        let hashes = phf_shared::hash(login, &self.key);
        let at = phf_shared::get_index(&hashes, &self.displacements, self.slots.len());
        let slot = &self.slots[at as usize];
        let exists = *slot.login == *login;
        Graft {
            base: slot.home.clone(),
            below: if exists { &self.directory } else { &self.decoy }.clone(),
            exists,
        }
    }

    /// These logins as directories grafted into the tree of a site.
    pub(super) fn grafts(logins: &Arc<Logins>) -> Grafts {
        let logins = Arc::clone(logins);
        Grafts::new(b'~', move |name| logins.lead(&name[1..]))
    }

    /// Number of logins.
    pub fn count(&self) -> usize {
        self.homes().count()
    }

    /// The homes of all logins.
    pub fn homes(&self) -> impl Iterator<Item = &Path> {
        let real = self.slots.iter().filter(|slot| *slot.login != b"/"[..]);
        real.map(|slot| &*slot.home)
    }

    /// The served directories of all logins, whether or not they exist.
    pub fn directories(&self) -> impl Iterator<Item = PathBuf> {
        let directory = String::from_utf8_lossy(&self.directory).into_owned();
        self.homes().map(move |home| home.join(&directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logins(count: usize) -> Logins {
        let homes = (0..count).map(|n| (format!("user{n}"), PathBuf::from(format!("/home/{n}"))));
        Logins::of(homes.collect(), "public_html")
    }

    #[test]
    fn every_login_has_its_slot_and_every_other_name_a_decoy() {
        for count in [0, 1, 2, 3, 100, 5_000] {
            let logins = logins(count);
            assert_eq!(logins.count(), count);
            for n in 0..count {
                let graft = logins.lead(format!("user{n}").as_bytes());
                assert_eq!(graft.base, Path::new(&format!("/home/{n}")));
                assert!(graft.exists && graft.below == b"public_html");
            }
            for name in [&b""[..], b"user", b"user5000", b"root", b"\xff", b"user1 "] {
                let graft = logins.lead(name);
                assert!(!graft.exists, "{count}: {}", name.escape_ascii());
                assert_ne!(graft.below, b"public_html");
                assert!(graft.below.len() >= b"public_html".len());
            }
        }
    }

    #[test]
    fn the_same_logins_are_equal_and_others_are_not() {
        assert_eq!(logins(50), logins(50));
        assert_ne!(logins(50), logins(51));
        assert_ne!(logins(50).decoy, logins(50).decoy);
        let other = Logins::of(
            BTreeMap::from([("user0".to_owned(), "/elsewhere".into())]),
            "public_html",
        );
        assert_ne!(logins(1), other);
    }

    #[test]
    fn a_table_takes_the_place_of_the_database() {
        let tilde = Tilde {
            users: Some(BTreeMap::from([
                ("alice".to_owned(), "/a".into()),
                ("bob".to_owned(), "/b".into()),
                ("carol".to_owned(), "/c".into()),
            ])),
            enabled: Some(vec!["alice".to_owned(), "bob".to_owned()]),
            disabled: vec!["bob".to_owned()],
            ..Tilde::default()
        };
        let logins = Logins::look_up(&tilde).unwrap();
        assert_eq!(logins.homes().collect::<Vec<_>>(), [Path::new("/a")]);
        assert_eq!(
            logins.directories().collect::<Vec<_>>(),
            [Path::new("/a/public_html")]
        );
    }
}
