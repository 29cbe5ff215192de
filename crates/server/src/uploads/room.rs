//! The quota of a folder: which changes there is room for, while several are under way.
//!
//! ```text
//!   used: lengths of all files, measured, then counted along ──┐
//!   reserved: bytes that are on their way ─────────────────────┴─ together never above the quota
//! ```
//! Other programs may change the folder, too. So it is measured again after a minute, and always before a change is refused.
//! While another process of this server stores files there, after an upgrade in place, no measurement holds.
//! A measurement and the change of a name exclude each other, so that no file counts twice.

use runtime::clock;
use runtime::fs::WriteFolder;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{Bytes, Duration, Instant};

/// Time for which a measurement holds.
const FRESH: Duration = Duration::from_secs(60);

/// The room of a folder.
#[derive(Debug)]
pub(super) struct Room {
    quota: Option<u64>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of all files, and when they were measured.
    used: Option<(u64, Instant)>,
    reserved: u64,
}

/// Room that is reserved until this is dropped.
#[derive(Debug)]
pub(super) struct Grant<'r> {
    room: &'r Room,
    bytes: u64,
    /// Bytes of the file that is replaced.
    freed: u64,
}

/// What a change does to the lengths of all files together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// They grow by the first number of bytes and shrink by the second.
    By(u64, u64),
    /// They have to be measured again.
    Unknown,
}

impl Room {
    pub(super) fn new(quota: Option<Bytes>) -> Room {
        Room {
            quota: quota.map(|quota| quota.0),
            state: Arc::default(),
        }
    }

    /// The room of the same folder with another quota. Both count all reservations, and their changes exclude each other.
    pub(super) fn with_quota(&self, quota: Option<Bytes>) -> Room {
        Room {
            state: Arc::clone(&self.state),
            ..Room::new(quota)
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves room for a file of so many bytes in place of one of `freed`. `None`: there is none.
    ///
    /// # Errors
    /// Of the system, if the folder cannot be measured.
    pub(super) fn grant(
        &self,
        folder: &WriteFolder,
        bytes: u64,
        freed: u64,
    ) -> io::Result<Option<Grant<'_>>> {
        let mut grant = Grant {
            room: self,
            bytes: 0,
            freed,
        };
        Ok(grant.extend(folder, bytes)?.then_some(grant))
    }

    /// Makes a change while nothing is measured and no other change is made. What was reserved for it is free afterwards.
    ///
    /// # Errors
    /// Of `change`.
    pub(super) fn change<T, E>(
        &self,
        grant: Option<Grant<'_>>,
        change: impl FnOnce() -> Result<(T, Growth), E>,
    ) -> Result<T, E> {
        let mut state = self.lock();
        let outcome = change();
        if let Ok((_, growth)) = &outcome {
            state.used = match (state.used, growth) {
                (Some((used, at)), Growth::By(more, less)) => {
                    Some((used.saturating_add(*more).saturating_sub(*less), at))
                }
                _ => None,
            };
        }
        if let Some(mut grant) = grant {
            state.reserved -= grant.reserved();
            grant.bytes = 0;
            drop(state);
        }
        outcome.map(|(value, _)| value)
    }

    /// Bytes that are used, and bytes that are left; `None` without a quota.
    ///
    /// # Errors
    /// Of the system, if the folder cannot be measured.
    pub(super) fn report(&self, folder: &WriteFolder) -> io::Result<Option<(u64, u64)>> {
        let Some(quota) = self.quota else {
            return Ok(None);
        };
        let mut state = self.lock();
        let used = state.used(folder, FRESH)?;
        let taken = used.saturating_add(state.reserved);
        Ok(Some((used, quota.saturating_sub(taken))))
    }
}

impl State {
    /// Bytes of all files, measured at most so long ago.
    fn used(&mut self, folder: &WriteFolder, age: Duration) -> io::Result<u64> {
        let now = clock::now();
        if let Some((used, at)) = self.used
            && now.since(at) < age
        {
            return Ok(used);
        }
        let measured = folder.measure()?;
        self.used = (!measured.has_others).then_some((measured.bytes, now));
        Ok(measured.bytes)
    }
}

impl Grant<'_> {
    fn reserved(&self) -> u64 {
        self.bytes.saturating_sub(self.freed)
    }

    /// Reserves more. `false`: there is no room for it.
    ///
    /// # Errors
    /// Of the system, if the folder cannot be measured.
    pub(super) fn extend(&mut self, folder: &WriteFolder, more: u64) -> io::Result<bool> {
        let Some(quota) = self.room.quota else {
            return Ok(true);
        };
        let bytes = self.bytes.saturating_add(more);
        let grown = bytes.saturating_sub(self.freed) - self.reserved();
        let mut state = self.room.lock();
        for age in [FRESH, Duration::ZERO] {
            let used = state.used(folder, age)?;
            let taken = used.saturating_add(state.reserved).saturating_add(grown);
            if grown == 0 || taken <= quota {
                state.reserved += grown;
                drop(state);
                self.bytes = bytes;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        let reserved = self.reserved();
        if reserved > 0 {
            self.room.lock().reserved -= reserved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_and_used_never_exceeds_the_quota() {
        let dir = tempfile::tempdir().unwrap();
        let folder = WriteFolder::open(dir.path()).unwrap();
        let stored = |name: &[u8], length: usize| {
            let mut file = folder.begin(&[name]).unwrap();
            file.write(&vec![0; length]).unwrap();
            file.place(false).unwrap();
        };
        stored(b"a", 6);
        let room = Room::new(Some(Bytes(10)));
        assert!(room.grant(&folder, 5, 0).unwrap().is_none());
        let mut grant = room.grant(&folder, 3, 0).unwrap().unwrap();
        assert!(grant.extend(&folder, 1).unwrap() && !grant.extend(&folder, 1).unwrap());
        assert_eq!(room.report(&folder).unwrap(), Some((6, 0)));
        // A file in place of a longer one needs none.
        assert!(room.grant(&folder, 6, 6).unwrap().is_some());
        assert!(room.grant(&folder, 7, 6).unwrap().is_none());
        let changed: Result<(), ()> = room.change(Some(grant), || {
            stored(b"b", 4);
            Ok(((), Growth::By(4, 0)))
        });
        changed.unwrap();
        assert_eq!(room.report(&folder).unwrap(), Some((10, 0)));
        // A change that fails frees what was reserved for it.
        folder.remove(&[b"b"], false).unwrap().finish().unwrap();
        let grant = room.grant(&folder, 4, 0).unwrap();
        assert!(grant.is_some(), "measured again before it is refused");
        assert_eq!(room.change(grant, || Err::<((), Growth), _>("no")), Err("no"));
        assert_eq!(room.report(&folder).unwrap(), Some((6, 4)));
        drop(room.grant(&folder, 4, 0).unwrap());
        assert_eq!(room.report(&folder).unwrap(), Some((6, 4)));
        let tighter = room.with_quota(Some(Bytes(9)));
        let grant = room.grant(&folder, 2, 0).unwrap();
        assert_eq!(tighter.report(&folder).unwrap(), Some((6, 1)));
        assert!(tighter.grant(&folder, 2, 0).unwrap().is_none());
        drop(grant);
        assert!(tighter.grant(&folder, 2, 0).unwrap().is_some());
        let boundless = Room::new(None);
        assert!(boundless.grant(&folder, u64::MAX, 0).unwrap().is_some());
        assert_eq!(boundless.report(&folder).unwrap(), None);
    }
}
