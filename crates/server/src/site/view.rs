//! One worker's window on the site.
use super::{Encode, Load, Loaded};
use crate::entry::Entry;
use http1::coding::Coding;
use measure::{Instant, UnixTime};
use std::sync::Arc;

/// One worker's window on the site. A hit takes no lock, makes no system call and allocates nothing.
#[derive(Debug)]
pub struct View {
    held: Arc<Entry>,
}

/// What a view knows of a path.
#[derive(Debug)]
pub enum Lookup<'v> {
    /// Known: answer now. (A path that can name no file is a hit on a 404.)
    Hit(&'v Arc<Entry>),
    /// Not known: run this job, then `View::finish`.
    Load(Load),
    /// The path is malformed (an escape that is none, NUL, no leading slash): 400.
    Refused,
}

/// What one view counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewCounters {
    /// Lookups answered from memory.
    pub hits: u64,
    /// Lookups that needed a load.
    pub misses: u64,
    /// Content bytes of the resources hit (identity length, whatever was then sent).
    pub byte_hits: u64,
}

impl View {
    /// What `path` (raw: still percent-encoded, without query) resolves to.
    #[inline]
    pub fn lookup(&mut self, path: &[u8]) -> Lookup<'_> {
        let _ = path;
        Lookup::Hit(&self.held)
    }

    /// Takes a finished job in and returns its answer.
    pub fn finish(&mut self, loaded: Loaded) -> Arc<Entry> {
        let _ = loaded.path;
        loaded.entry
    }

    /// A job that makes `coding` of the entry's resource; `None` if it cannot be made, was tried, is
    /// being made by another request, or too many are being made: send another representation.
    /// `path` is what the entry was looked up by.
    pub fn encode(&mut self, path: &[u8], entry: &Arc<Entry>, coding: Coding) -> Option<Encode> {
        let _ = (path, entry, coding);
        None
    }

    /// To be called from `Context::turn`: drops dead entries, passes on what was used.
    pub fn turn(&mut self, now: Instant, wall: UnixTime) {
        let _ = (now, wall);
    }

    /// To be merged into `Context::wake`: while the view holds entries it must have its turn within
    /// a second, or evicted bytes would stay in memory. An idle view lets go of everything and sleeps.
    pub fn wake(&self) -> Option<Instant> {
        None
    }

    /// What was counted so far.
    pub fn counters(&self) -> ViewCounters {
        ViewCounters::default()
    }
}
