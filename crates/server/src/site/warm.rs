//! Loads the files that a page embeds as soon as the page is loaded, on a separate thread.
//!
//! ```text
//!  page loaded ──▶ queue ──▶ scan ──▶ told to the policy ──▶ each part that is not held: load
//! ```
//!
//! Only for policies that use references; for early hints, only the scan. Nothing waits for this thread, and hits do not
//! know it. Everything is limited: the pages that wait ([`PAGES_MAX`]), the bytes of a page that are scanned and its
//! references ([`Limits`]), and the loads for one page ([`PAGE_SHARE`] of the cache). Files embedded by embedded files
//! are not loaded. It stops early if the page has left the cache meanwhile. An embedded file that changes on disk dies
//! like any entry and is loaded again on request.

use super::Shared;
use super::load::Load;
use crate::entry::{Answer, Content, Entry, Resource, Token};
use crate::references::{Base, Embedded, Limits, References, Stream, scan};
use runtime::background::Background;
use runtime::session::Job;
use std::sync::{Arc, Weak};
use units::UnixTime;

/// Maximum number of waiting pages; the files that further pages embed are not loaded ahead.
const PAGES_MAX: usize = 256;

/// The loads for one page may take one part in this many of the cache's bytes and descriptors, plus one load.
const PAGE_SHARE: u64 = crate::cache::UNIT_SHARE;

/// Media types of pages.
const PAGES: [&[u8]; 2] = [b"text/html", b"application/xhtml+xml"];

/// The thread that loads ahead. A waiting page that dies is not kept alive.
pub(super) type Warmer = Background<Weak<Entry>>;

/// Creates the thread, if references are used. It starts with the first page.
pub(super) fn start(shared: &Arc<Shared>) {
    if !shared.config.cache.policy.anticipates() && shared.hints.is_none() {
        return;
    }
    let weak = Arc::downgrade(shared);
    let warmer = Background::new("weir-warm", PAGES_MAX, move |page: Weak<Entry>, wall| {
        if let (Some(shared), Some(page)) = (weak.upgrade(), page.upgrade()) {
            shared.warm(page, wall);
        }
    });
    let unset = shared.warmer.set(warmer);
    debug_assert!(unset.is_ok(), "a site is started once");
}

impl Shared {
    /// A page was cached: queues the loads of the files it embeds, unless they are known or nothing uses them.
    pub(super) fn anticipate(&self, page: &Arc<Entry>) {
        if let Some(warmer) = self.warmer.get()
            && page.token != Token::NONE
            && page_of(page).is_some()
            && !self.store.is_referred(page)
        {
            warmer.offer(Arc::downgrade(page));
        }
    }

    /// Forgets what early hints say of a path whose load led to no page, or to one that is not cached and so is not
    /// scanned.
    pub(super) fn correct_hint(&self, path: &[u8], loaded: &Entry) {
        if let Some(hints) = &self.hints
            && (loaded.token == Token::NONE || page_of(loaded).is_none())
        {
            hints.forget(path);
        }
    }

    /// Reads the references of a page; notes them for early hints, and loads them if the policy uses them.
    fn warm(self: &Arc<Shared>, page: Arc<Entry>, wall: UnixTime) {
        let Some(embedded) = self.look(&page) else {
            return;
        };
        if let Some(hints) = &self.hints {
            hints.note(&page.path, &embedded);
            // A load that found the page gone may have come first, and had nothing to forget.
            if page.is_dead() {
                hints.forget(&page.path);
            }
        }
        if !self.config.cache.policy.anticipates() {
            return;
        }
        let references = Arc::new(References::new(embedded, |path| self.hash(path)));
        let Some(charge) = self.store.reserve(references.footprint(), 0) else {
            return;
        };
        if !self.store.refer(&page, &references, charge) {
            return;
        }
        // From here on, the cache decides how long the page is held.
        drop(page);
        let cache = &self.config.cache;
        let (mut bytes, mut descriptors) = (0, 0);
        for (hash, path) in references.iter() {
            // The store drops the references when the page leaves it.
            let is_held = Arc::strong_count(&references) > 1;
            let is_enough = bytes > cache.budget.0 / PAGE_SHARE
                || descriptors > cache.descriptors_max as u64 / PAGE_SHARE;
            if !is_held || is_enough {
                return;
            }
            if self.store.get(hash, path).is_some() {
                continue;
            }
            let part = Load {
                shared: Arc::clone(self),
                path: path.into(),
                wall,
                is_ahead: true,
                query: None,
            };
            let loaded = part.run();
            if loaded.entry.token != Token::NONE {
                self.store.loaded_ahead();
                let (more, open) = held_by(&loaded.entry);
                bytes += more;
                descriptors += open;
            }
        }
    }

    /// What a page embeds; `None` if the entry is not a page.
    fn look(&self, page: &Entry) -> Option<Vec<Embedded>> {
        let resource = page_of(page)?;
        let base = Base::of_page(&page.path, self.config.hidden);
        Some(match &resource.identity().content {
            Content::Memory(bytes) => scan(&bytes[..], base, &Limits::DEFAULT),
            Content::File(file) => scan(Stream::of(file), base, &Limits::DEFAULT),
        })
    }
}

/// The resource of an entry that is a page.
fn page_of(entry: &Entry) -> Option<&Resource> {
    let Answer::Resource(resource) = &entry.answer else {
        return None;
    };
    let media_type = &resource.identity().media_type;
    PAGES
        .iter()
        .any(|page| media_type.starts_with(page))
        .then_some(resource)
}

/// Bytes in memory and descriptors of an entry.
fn held_by(entry: &Entry) -> (u64, u64) {
    let Answer::Resource(resource) = &entry.answer else {
        return (0, 0);
    };
    resource
        .representations
        .iter()
        .fold((0, 0), |(bytes, open), one| match one.content {
            Content::Memory(_) => (bytes + one.len, open),
            Content::File(_) => (bytes, open + 1),
        })
}

#[cfg(test)]
mod tests;
