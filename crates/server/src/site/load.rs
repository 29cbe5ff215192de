//! Finding a path's answer where the cache has none.
use crate::entry::Entry;
use runtime::session::Job;
use std::sync::Arc;

/// Finds what a path resolves to: opens, reads, builds the header blocks, and puts the entry in the cache.
#[derive(Debug)]
pub struct Load {
    pub(crate) path: Box<[u8]>,
}

/// A finished load or encoding, to be given to [`View::finish`](super::View::finish).
#[derive(Debug)]
pub struct Loaded {
    pub(crate) path: Box<[u8]>,
    pub(crate) entry: Arc<Entry>,
}

impl Loaded {
    /// The answer.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }
}

impl Job for Load {
    type Output = Loaded;
    fn try_now(self) -> Result<Loaded, Load> {
        Err(self)
    }
    fn run(self) -> Loaded {
        let _ = self.path;
        unimplemented!()
    }
}

/// Makes one coding of a resource. Never done on the loop: `try_now` gives it back.
#[derive(Debug)]
pub struct Encode {
    pub(crate) path: Box<[u8]>,
}

impl Job for Encode {
    type Output = Loaded;
    fn try_now(self) -> Result<Loaded, Encode> {
        Err(self)
    }
    fn run(self) -> Loaded {
        let _ = self.path;
        unimplemented!()
    }
}
