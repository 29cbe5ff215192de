//! The system's users and their homes: the password database, wherever it is stored (NSS).
//!
//! Decides which records are usable. What may be done with a home is not known here.

use crate::sys;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A user with a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub name: String,
    /// The user ID.
    pub uid: u32,
    /// An absolute path.
    pub home: PathBuf,
}

impl Login {
    /// `None` for a record whose name is not text or whose home is not an absolute path.
    fn of(person: &sys::Person) -> Option<Login> {
        let home = PathBuf::from(OsStr::from_bytes(person.home.as_bytes()));
        let name = person.name.to_str().ok().filter(|name| !name.is_empty())?;
        home.is_absolute().then(|| Login {
            name: name.to_owned(),
            uid: person.uid,
            home,
        })
    }
}

/// The users listed by the database that `wanted` accepts, up to `max`. May wait for a network.
///
/// # Errors
/// The database's.
pub fn all(wanted: impl Fn(&Login) -> bool, max: usize) -> io::Result<Vec<Login>> {
    let mut found = Vec::new();
    sys::each_user(|person| {
        found.extend(Login::of(&person).filter(&wanted));
        found.len() < max
    })?;
    Ok(found)
}

/// The user of this name, listed or not; `None` if there is none with a home.
///
/// # Errors
/// The database's.
pub fn find(name: &str) -> io::Result<Option<Login>> {
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    Ok(sys::find_user(&name)?.as_ref().and_then(Login::of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_listed_is_found_by_name() {
        let all = all(|_| true, usize::MAX).unwrap();
        // A machine whose database lists no users has no root to check either.
        for login in all.iter().filter(|login| login.name == "root") {
            assert_eq!(find(&login.name).unwrap().as_ref(), Some(login));
            assert_eq!(login.uid, 0);
        }
        assert_eq!(find("no such login, surely").unwrap(), None);
        assert_eq!(find("with\0nul").unwrap(), None);
        assert!(super::all(|_| true, 1).unwrap().len() <= 1);
        assert!(super::all(|_| false, 1).unwrap().is_empty());
    }
}
