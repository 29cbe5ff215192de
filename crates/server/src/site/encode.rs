//! Compression of a resource on first use.
//!
//! One request claims the compression and waits for it; other requests get an existing representation meanwhile. The
//! result replaces the entry it was made of. A coding that saves too little is not tried again until the entry is
//! loaded anew; one whose job was dropped unfinished is. For listings that are not cached (of folders whose changes the
//! kernel does not report), the compression is made for one response.

use super::Shared;
use super::load::Loaded;
use super::represent::{self, Body, Lines};
use crate::coding::compress;
use crate::entry::Draft;
use crate::entry::{Content, Entry, Part, Representation, Resource, Token};
use crate::media_type::MediaType;
use bytes::Bytes;
use http_semantics::coding::Coding;
use runtime::fs::Wait;
use runtime::session::Job;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often a result is offered again because another coding replaced the entry meanwhile.
const OFFERS_MAX: usize = 8;

/// Compresses a resource with one coding. Never runs on an event loop: `try_now` always returns the job.
#[derive(Debug)]
pub struct Encode {
    claim: Claim,
    level: u8,
}

/// The right to compress one entry with one coding, and one of the places for concurrent compressions.
#[derive(Debug)]
struct Claim {
    shared: Arc<Shared>,
    entry: Arc<Entry>,
    part: Part,
    coding: Coding,
    finished: bool,
}

impl Encode {
    /// The job. `None` if the coding cannot be made, another request is making it, or too many compressions are
    /// running.
    pub(super) fn claim(
        shared: &Arc<Shared>,
        entry: &Arc<Entry>,
        part: Part,
        coding: Coding,
    ) -> Option<Encode> {
        let config = shared.config.compress.as_ref()?;
        let level = config.level(coding)?;
        let resource = entry.answer.part(part)?;
        if entry.is_dead() || !resource.can_make(coding) {
            return None;
        }
        let below = |making: usize| (making < config.concurrent_max).then_some(making + 1);
        shared
            .encoding
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, below)
            .ok()?;
        if !resource.claim(coding) {
            shared.encoding.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let claim = Claim {
            shared: Arc::clone(shared),
            entry: Arc::clone(entry),
            part,
            coding,
            finished: false,
        };
        Some(Encode { claim, level })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.shared.encoding.fetch_sub(1, Ordering::Relaxed);
        if let (false, Some(resource)) = (self.finished, self.entry.answer.part(self.part)) {
            resource.unclaim(self.coding);
        }
    }
}

impl Job for Encode {
    type Output = Loaded;

    fn try_now(self) -> Result<Loaded, Encode> {
        Err(self)
    }

    fn run(mut self) -> Loaded {
        let entry = self.make().unwrap_or_else(|| Arc::clone(&self.claim.entry));
        self.claim.finished = true;
        Loaded::of(entry)
    }
}

impl Encode {
    /// The result if the job does not run: the unchanged entry, which another request may compress.
    pub(crate) fn refuse(self) -> Loaded {
        Loaded {
            entry: Arc::clone(&self.claim.entry),
            is_refused: true,
            checked: None,
        }
    }

    /// The new entry; `None` if it saves too little or there is no room.
    fn make(&self) -> Option<Arc<Entry>> {
        let Claim {
            shared,
            entry,
            part,
            coding,
            ..
        } = &self.claim;
        let resource = entry.answer.part(*part)?;
        let identity = resource.identity();
        let coded = match &identity.content {
            Content::Memory(bytes) => compress(*coding, self.level, bytes).ok()??,
            Content::File(file) => {
                let bytes = file.read_all(0, identity.len as usize, Wait::Block).ok()?;
                let same = bytes.len() as u64 == identity.len && file.meta_now().ok()? == *file.meta();
                same.then(|| compress(*coding, self.level, &bytes).ok())
                    .flatten()??
            }
        };
        let len = coded.len() as u64;
        if entry.token == Token::NONE {
            let body = Body::memory(Bytes::from(coded), *coding, 0, false);
            let made = self.represent(resource, body);
            let answer = entry.answer.with(*part, joined(resource, made))?;
            return Some(Arc::new(Entry::new(answer)));
        }
        let charge = shared.store.reserve(len, 0)?;
        let body = Body::memory(charge.hold(coded), *coding, len, true);
        let made = self.represent(resource, body);
        // Another coding may have replaced the entry meanwhile; the new one is then added to its successor.
        let mut base = Arc::clone(entry);
        for _ in 0..OFFERS_MAX {
            match shared.store.replace(&base, self.draft(&base, &made)?) {
                Some(entry) => {
                    // The entry may have been replaced before its references were read.
                    shared.anticipate(&entry);
                    return Some(entry);
                }
                None => base = shared.store.get(entry.hash, &entry.path)?,
            }
        }
        None
    }

    fn represent(&self, resource: &Resource, body: Body) -> Representation {
        let Claim {
            entry, part, coding, ..
        } = &self.claim;
        let identity = resource.identity();
        // The type was decided when the file was loaded; only its text is needed here.
        let media_type = MediaType::of_value(&String::from_utf8_lossy(&identity.media_type), &[]);
        let lines = Lines {
            last_modified: resource.last_modified,
            vary: represent::vary(*part, true),
            configured: &resource.configured,
            media_type: &media_type,
        };
        debug_assert!(entry.token == Token::NONE || !entry.path.is_empty());
        represent::representation(&lines, *coding, body.etag, body.content, body.len)
    }

    /// `base` with the new representation; `None` if `base` has other content, or for lack of room.
    fn draft(&self, base: &Entry, made: &Representation) -> Option<Draft> {
        let Claim {
            shared, entry, part, ..
        } = &self.claim;
        let (old, source) = (base.answer.part(*part)?, entry.answer.part(*part)?);
        if old.identity().etag != source.identity().etag || old.get(made.coding).is_some() {
            return None;
        }
        let answer = base.answer.with(*part, joined(old, made.clone()))?;
        let all = || answer.resources().flat_map(|resource| &resource.representations);
        let files: Vec<_> = all()
            .filter_map(|r| match &r.content {
                Content::File(file) => Some(Arc::clone(file)),
                Content::Memory(_) => None,
            })
            .collect();
        // Embedded files take no memory; listings do, because they are generated.
        let is_reserved = |r: &Representation| {
            shared.tree_changes(&base.path) || *part != Part::File || r.coding != Coding::Identity
        };
        let content = all()
            .map(|r| match r.content {
                Content::Memory(_) if is_reserved(r) => r.len,
                _ => 0,
            })
            .sum();
        let charge = shared.charge(&base.path, &answer, &files)?;
        Some(Draft {
            path: base.path.clone(),
            hash: base.hash,
            answer,
            charge,
            content,
            polls: base.polls(),
        })
    }
}

/// A copy of the resource with one more representation.
fn joined(old: &Resource, made: Representation) -> Resource {
    let mut representations = old.representations.clone();
    representations.push(made);
    let makeable = old.makeable();
    let resource = Resource::new(
        old.last_modified,
        representations,
        &makeable,
        old.configured.clone(),
    );
    resource.composed_of(old.recipe.clone()).numbered(old.index)
}
