//! The locks of a folder (RFC 4918 sections 6 and 7): who may change what, and until when. They are in memory: a restart loses them,
//! which RFC 4918 section 6.6 has clients expect.
//!
//! A lock stands for a file or folder, its root, and with depth infinity for everything below it, too. It protects the content of
//! what it covers, and the names in a folder that it covers.

use super::asked::Place;
use crate::config;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::{Duration, Instant};

/// Most locks of a folder at a time.
pub(super) const LOCKS_MAX: usize = config::LOCKS_MAX as usize;

/// Most other locks that may cover some of the files of a lock. Listings describe all locks of each file.
pub(super) const OVERLAPS_MAX: usize = 15;

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    /// A URN that no other lock has.
    pub(super) token: String,
    /// Its root. Whether that is a folder, is known since it was granted.
    pub(super) place: Place,
    /// Whether it covers what is below its root.
    pub(super) is_deep: bool,
    /// Whether others may have shared locks of the same files.
    pub(super) is_shared: bool,
    /// What the client says of its user, as XML.
    pub(super) owner: String,
    /// The user who has it, if requests name one. A token is of no use to other users.
    pub(super) user: Option<Box<[u8]>>,
    pub(super) until: Instant,
}

impl Lock {
    fn covers(&self, place: &Place) -> bool {
        self.place.is_at(place) || (self.is_deep && place.is_within(&self.place))
    }
}

/// What a request changes at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The content or the properties of what is there.
    Content,
    /// There is nothing yet: the folder above gets a name.
    Name,
    /// All that is there and below, and the name in the folder above.
    Tree,
}

/// What a request shows to be allowed to change what is locked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'c> {
    pub(super) tokens: &'c [&'c [u8]],
    pub(super) user: Option<&'c [u8]>,
}

impl Claim<'_> {
    fn has(&self, lock: &Lock) -> bool {
        lock.user.as_deref() == self.user && self.tokens.contains(&lock.token.as_bytes())
    }

    /// One of these locks, if none of them is claimed.
    fn lacks<'l>(&self, mut those: impl Iterator<Item = &'l Lock>) -> Option<Lock> {
        let first = those.next()?;
        let is_claimed = self.has(first) || those.any(|lock| self.has(lock));
        (!is_claimed).then(|| first.clone())
    }
}

/// Why a lock is not granted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// This one excludes it.
    Conflict(Box<Lock>),
    /// There are [`LOCKS_MAX`].
    Full,
    /// Its user has as many as a user may have.
    Exhausted,
    /// More than [`OVERLAPS_MAX`] shared locks cover some of its files.
    Crowded,
}

/// What becomes of the wish to end a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    Done,
    /// No lock with this token covers the place.
    Missing,
    /// Another user has it.
    Foreign,
}

/// The locks of a folder.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<Vec<Lock>>);

impl Locks {
    /// Those that are in force.
    fn current(&self, now: Instant) -> MutexGuard<'_, Vec<Lock>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|lock| lock.until > now);
        locks
    }

    /// Grants a lock unless another one that covers some of the same files excludes it, or its user has `most` locks already.
    /// Clients without a user count as one.
    ///
    /// # Errors
    /// Why it is not granted.
    pub(super) fn grant(&self, lock: Lock, most: usize, now: Instant) -> Result<(), Denied> {
        let mut locks = self.current(now);
        let (mut overlaps, mut own) = (0, 0);
        for other in locks.iter() {
            own += usize::from(other.user == lock.user);
            let is_below = lock.is_deep && other.place.is_within(&lock.place);
            if !is_below && !other.covers(&lock.place) {
                continue;
            }
            if !(lock.is_shared && other.is_shared) {
                return Err(Denied::Conflict(Box::new(other.clone())));
            }
            overlaps += 1;
        }
        if locks.len() >= LOCKS_MAX {
            return Err(Denied::Full);
        }
        if own >= most {
            return Err(Denied::Exhausted);
        }
        if overlaps > OVERLAPS_MAX {
            return Err(Denied::Crowded);
        }
        locks.push(lock);
        Ok(())
    }

    /// Extends a lock that covers a place and that a client claims. `None`: there is none.
    pub(super) fn refresh(
        &self,
        place: &Place,
        claim: Claim<'_>,
        time: Duration,
        now: Instant,
    ) -> Option<Lock> {
        let mut locks = self.current(now);
        let mut found = locks.iter_mut().filter(|lock| lock.covers(place));
        let lock = found.find(|lock| claim.has(lock))?;
        lock.until = now + time;
        Some(lock.clone())
    }

    /// Ends the lock with this token, which covers a place.
    pub(super) fn release(&self, place: &Place, claim: Claim<'_>, now: Instant) -> Release {
        let mut locks = self.current(now);
        let is_named = |lock: &Lock| claim.tokens.contains(&lock.token.as_bytes()) && lock.covers(place);
        let Some(at) = locks.iter().position(is_named) else {
            return Release::Missing;
        };
        if !claim.has(&locks[at]) {
            return Release::Foreign;
        }
        locks.remove(at);
        Release::Done
    }

    /// Those that cover a place.
    pub(super) fn covering(&self, place: &Place, now: Instant) -> Vec<Lock> {
        let locks = self.current(now);
        locks.iter().filter(|lock| lock.covers(place)).cloned().collect()
    }

    /// A lock that forbids a change, if there is one. Of the locks that cover one file, one has to be claimed.
    pub(super) fn forbidding(
        &self,
        place: &Place,
        extent: Extent,
        claim: Claim<'_>,
        now: Instant,
    ) -> Option<Lock> {
        let locks = self.current(now);
        let of = claim.lacks(locks.iter().filter(|lock| lock.covers(place)));
        let above = || claim.lacks(locks.iter().filter(|lock| lock.place.is_right_above(place)));
        let below = || {
            let mut roots = locks
                .iter()
                .filter(|lock| lock.place.is_within(place) && !lock.place.is_at(place));
            roots.find_map(|root| claim.lacks(locks.iter().filter(|lock| lock.place.is_at(&root.place))))
        };
        match extent {
            Extent::Content => of,
            Extent::Name => of.or_else(above),
            Extent::Tree => of.or_else(above).or_else(below),
        }
    }

    /// Ends the locks of what is below a place that was removed or replaced. `with_root`: those of the place itself, too.
    pub(super) fn forget(&self, place: &Place, with_root: bool) {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|lock| !lock.place.is_within(place) || (!with_root && lock.place.is_at(place)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const TIME: Duration = Duration::from_secs(10);

    fn lock(number: usize, path: &str, is_deep: bool, is_shared: bool) -> Lock {
        Lock {
            token: format!("urn:{number}"),
            place: Place::at(path),
            is_deep,
            is_shared,
            owner: String::new(),
            user: Some(Box::from(&b"ann"[..])),
            until: NOW + TIME,
        }
    }

    fn locks(those: &[(&str, bool, bool)]) -> Locks {
        let locks = Locks::default();
        for (number, &(path, is_deep, is_shared)) in those.iter().enumerate() {
            locks
                .grant(lock(number, path, is_deep, is_shared), LOCKS_MAX, NOW)
                .unwrap();
        }
        locks
    }

    fn claim<'c>(tokens: &'c [&'c [u8]]) -> Claim<'c> {
        Claim {
            tokens,
            user: Some(b"ann"),
        }
    }

    #[test]
    fn only_shared_locks_meet() {
        for (held, path, is_deep, is_free) in [
            (("a", false, false), "a", false, false),
            (("a", false, false), "b", false, true),
            (("a", false, false), "a/b", false, true),
            (("a", true, false), "a/b/c", false, false),
            (("a/b", false, false), "a", true, false),
            (("a/b", false, false), "a", false, true),
            (("ab", true, false), "a", true, true),
            (("", true, false), "a", false, false),
        ] {
            let conflicts = locks(&[held]).grant(lock(9, path, is_deep, false), LOCKS_MAX, NOW);
            assert_eq!(conflicts.is_ok(), is_free, "{held:?} {path} {is_deep}");
            let halves = locks(&[held]).grant(lock(9, path, is_deep, true), LOCKS_MAX, NOW);
            assert_eq!(halves.is_ok(), is_free, "{held:?} {path} {is_deep}");
            let shared = locks(&[(held.0, held.1, true)]);
            assert_eq!(shared.grant(lock(9, path, is_deep, true), LOCKS_MAX, NOW), Ok(()));
        }
    }

    #[test]
    fn a_change_needs_a_lock_of_each_file_it_touches() {
        use Extent::{Content, Name, Tree};
        let locks = locks(&[
            ("a", false, false),
            ("a/b/c", false, true),
            ("a/b/c", false, true),
            ("x", true, false),
        ]);
        let forbids = |path: &str, extent, tokens: &[&[u8]]| {
            let found = locks.forbidding(&Place::at(path), extent, claim(tokens), NOW);
            found.map(|lock| lock.token)
        };
        for (path, extent, tokens, expected) in [
            ("a", Content, &[][..], Some("urn:0")),
            ("a", Content, &[&b"urn:0"[..]][..], None),
            ("a", Content, &[b"urn:1"], Some("urn:0")),
            // A lock of a folder alone protects its names, not the content of its files.
            ("a/b", Content, &[], None),
            ("a/n", Name, &[], Some("urn:0")),
            ("a/n", Name, &[b"urn:0"], None),
            ("a/b/n", Name, &[], None),
            ("a/b", Tree, &[b"urn:0"], Some("urn:1")),
            // One of several shared locks is enough.
            ("a/b", Tree, &[b"urn:0", b"urn:2"], None),
            ("a/b", Tree, &[b"urn:2"], Some("urn:0")),
            ("x/y/z", Content, &[], Some("urn:3")),
            ("x/y/z", Name, &[b"urn:3"], None),
            ("y", Tree, &[], None),
            ("", Tree, &[], Some("urn:0")),
        ] {
            assert_eq!(
                forbids(path, extent, tokens).as_deref(),
                expected,
                "{path} {extent:?} {tokens:?}"
            );
        }
        let foreign = Claim {
            tokens: &[b"urn:0"],
            user: Some(b"bob"),
        };
        assert!(locks.forbidding(&Place::at("a"), Content, foreign, NOW).is_some());
    }

    #[test]
    fn locks_end_with_their_time_their_release_and_their_files() {
        let locks = locks(&[
            ("a", true, false),
            ("b", false, false),
            ("b/c", false, false),
            ("b/c/d", false, false),
        ]);
        let count = |path: &str, now| locks.covering(&Place::at(path), now).len();
        let foreign = Claim {
            tokens: &[b"urn:0"],
            user: None,
        };
        let below = Place::at("a/x");
        assert_eq!(locks.release(&below, foreign, NOW), Release::Foreign);
        assert_eq!(
            locks.release(&Place::at("b"), claim(&[b"urn:0"]), NOW),
            Release::Missing
        );
        let later = NOW + (TIME - Duration::from_nanos(1));
        assert_eq!(locks.refresh(&below, foreign, TIME, NOW), None);
        let refreshed = locks.refresh(&below, claim(&[b"urn:0"]), TIME, later).unwrap();
        assert_eq!(refreshed.until, later + TIME);
        assert_eq!(count("b/c/d", later), 1);
        locks.forget(&Place::at("b"), false);
        assert_eq!(
            [count("b", later), count("b/c", later), count("b/c/d", later)],
            [1, 0, 0]
        );
        locks.forget(&Place::at("b"), true);
        assert_eq!([count("b", later), count("a", later)], [0, 1]);
        assert_eq!([count("a", NOW + TIME), count("a", later + TIME)], [1, 0]);
        let locks = super::tests::locks(&[("a", true, false)]);
        assert_eq!(locks.release(&below, claim(&[b"urn:0"]), NOW), Release::Done);
        assert_eq!(locks.release(&below, claim(&[b"urn:0"]), NOW), Release::Missing);
    }

    #[test]
    fn locks_are_bounded_and_old_ones_make_room() {
        let locks = Locks::default();
        for number in 0..LOCKS_MAX {
            let path = format!("{number}");
            assert_eq!(
                locks.grant(lock(number, &path, false, false), LOCKS_MAX, NOW),
                Ok(())
            );
        }
        let more = || lock(LOCKS_MAX, "more", false, false);
        assert_eq!(locks.grant(more(), LOCKS_MAX, NOW), Err(Denied::Full));
        assert_eq!(
            locks.release(&Place::at("7"), claim(&[b"urn:7"]), NOW),
            Release::Done
        );
        assert_eq!(locks.grant(more(), LOCKS_MAX, NOW), Ok(()));
        assert_eq!(
            locks.grant(lock(1, "later", false, false), LOCKS_MAX, NOW + TIME),
            Ok(())
        );
        assert_eq!(locks.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_user_leaves_locks_to_others() {
        let of = |number: usize, user: Option<&str>| Lock {
            user: user.map(|name| Box::from(name.as_bytes())),
            ..lock(number, &format!("{number}"), false, false)
        };
        let locks = Locks::default();
        let (ann, bob, nobody) = (Some("ann"), Some("bob"), None);
        for number in 0..2 {
            assert_eq!(locks.grant(of(number, ann), 2, NOW), Ok(()));
            assert_eq!(locks.grant(of(10 + number, nobody), 2, NOW), Ok(()));
        }
        assert_eq!(locks.grant(of(2, ann), 2, NOW), Err(Denied::Exhausted));
        assert_eq!(locks.grant(of(12, nobody), 2, NOW), Err(Denied::Exhausted));
        assert_eq!(locks.grant(of(20, bob), 2, NOW), Ok(()));
        assert_eq!(
            locks
                .refresh(&Place::at("0"), claim(&[b"urn:0"]), TIME, NOW)
                .map(|lock| lock.until),
            Some(NOW + TIME)
        );
        assert_eq!(
            locks.release(&Place::at("0"), claim(&[b"urn:0"]), NOW),
            Release::Done
        );
        assert_eq!(locks.grant(of(2, ann), 2, NOW), Ok(()));
        // A lock that has ended does not count.
        assert_eq!(locks.grant(of(3, ann), 1, NOW + TIME), Ok(()));
    }

    #[test]
    fn few_locks_cover_a_file() {
        let locks = Locks::default();
        // Of one file, of the folders above it, and of other files.
        for number in 0..OVERLAPS_MAX {
            let path = ["a/b/c", "a/b", "a"][number % 3];
            assert_eq!(
                locks.grant(lock(number, path, true, true), LOCKS_MAX, NOW),
                Ok(())
            );
            let path = format!("other/{number}");
            assert_eq!(
                locks.grant(lock(100 + number, &path, false, true), LOCKS_MAX, NOW),
                Ok(())
            );
        }
        let below = |number| lock(number, "a/b/c", false, true);
        assert_eq!(locks.grant(below(200), LOCKS_MAX, NOW), Ok(()));
        assert_eq!(locks.grant(below(201), LOCKS_MAX, NOW), Err(Denied::Crowded));
        // Of all files: those of other files count, too.
        assert_eq!(
            locks.grant(lock(202, "", true, true), LOCKS_MAX, NOW),
            Err(Denied::Crowded)
        );
        assert_eq!(
            locks.release(&Place::at("a/b/c"), claim(&[b"urn:200"]), NOW),
            Release::Done
        );
        assert_eq!(locks.grant(below(201), LOCKS_MAX, NOW), Ok(()));
    }
}
