//! Known requests of HTTP/2 and HTTP/3: equal fields mean an equal request, which gets the stored response of the proxy's
//! cache again without route, exchange or lookup.
//!
//! ```text
//!   decoded fields ─ path ─▶ slot ─ equal to the fields kept there, response fresh ─▶ answer again
//!                              └─ otherwise look it up; met twice in a row here: keep it
//! ```
//! The counterpart of [`crate::head_cache`], for fields that were decoded from a connection's own compression. Only plain
//! requests are kept: `GET` without body, expectation, condition or range. The table is limited in number and length. It
//! holds no content: an evicted response frees its memory ([`Repeat`]). This file knows nothing of connections.

use crate::field_block::Compression;
use crate::head_cache::CONDITIONS;
use crate::proxy::cache::{Again, Repeat};
use foldhash::fast::RandomState;
use http_semantics::compression::Fields;
use http_semantics::method::Method;
use http_semantics::priority::Priority;
use http_semantics::request::RequestHead;
use std::hash::BuildHasher;
use units::UnixTime;

/// Maximum number of requests kept; a power of two.
const SLOTS: usize = 256;

/// Longest fields kept: bytes of their names and values.
const FIELDS_MAX: usize = 2048;

/// How a request came. Responses to equal fields differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Carrier {
    /// Of the response's head.
    pub(crate) compression: Compression,
    /// Whether the request came over TLS.
    pub(crate) is_secured: bool,
}

/// The known requests of one worker.
#[derive(Debug, Default)]
pub(crate) struct FieldCache {
    hasher: RandomState,
    /// Empty until the first request is met.
    slots: Vec<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Hash of the last unknown request of this slot.
    candidate: u64,
    known: Option<Box<Known>>,
}

/// A request and its response.
#[derive(Debug)]
pub(crate) struct Known {
    fields: Fields,
    carrier: Carrier,
    repeat: Box<Repeat>,
    /// The priority of the response, unless the request names one or the default holds.
    pub(crate) priority: Option<Priority>,
    /// For the access log.
    pub(crate) logged: Logged,
}

/// What the access log says of a request.
#[derive(Debug)]
pub(crate) struct Logged {
    /// The target as received.
    pub(crate) target: Box<[u8]>,
    /// The authority of the request.
    pub(crate) host: Option<Box<[u8]>>,
    /// Value of `Referer`.
    pub(crate) referer: Option<Box<[u8]>>,
    /// Value of `User-Agent`.
    pub(crate) user_agent: Option<Box<[u8]>>,
}

impl Known {
    /// The response, whose head is that of the second in which it was found.
    pub(crate) fn repeat(&self) -> &Repeat {
        &self.repeat
    }
}

impl Logged {
    /// `None` if the response to the request depends on more than its fields and what is stored.
    pub(crate) fn of(head: &RequestHead<'_, '_>) -> Option<Logged> {
        let is_plain = head.method == Method::Get
            && !head.fields.has_any(&CONDITIONS)
            && head.fields.find("expect").is_none();
        is_plain.then(|| Logged {
            target: head.target_raw.into(),
            host: head.authority().map(Box::from),
            referer: head.referer().map(Box::from),
            user_agent: head.user_agent().map(Box::from),
        })
    }
}

impl FieldCache {
    /// Whether no request was met.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Searches for a known request with these fields, of which `target` is its `:path`, and a current response.
    #[inline]
    pub(crate) fn find(
        &mut self,
        target: &[u8],
        fields: &Fields,
        carrier: Carrier,
        wall: UnixTime,
    ) -> Option<(&Known, Again)> {
        let at = self.slot_of(target, carrier);
        let known = self.slots.get_mut(at)?.known.as_mut()?;
        if known.carrier != carrier || known.fields != *fields {
            return None;
        }
        let again = known.repeat.again(wall)?;
        Some((&**known, again))
    }

    /// The path selects the slot; requests differ mostly in it.
    #[inline]
    fn slot_of(&self, target: &[u8], carrier: Carrier) -> usize {
        self.hasher.hash_one((target, carrier)) as usize & (SLOTS - 1)
    }

    /// A request with these fields was answered with a stored response. It is kept if it was already the last unknown one of
    /// its slot and is plain, which `logged` tells. `priority`: as in [`Known`].
    #[cold]
    pub(crate) fn saw(
        &mut self,
        (target, fields): (&[u8], &Fields),
        carrier: Carrier,
        (repeat, priority): (Box<Repeat>, Option<Priority>),
        logged: impl FnOnce() -> Option<Logged>,
    ) {
        if fields.text_len() > FIELDS_MAX {
            return;
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, Slot::default);
        }
        let hash = self.hasher.hash_one(fields);
        let at = self.slot_of(target, carrier);
        let slot = &mut self.slots[at];
        if slot.candidate != hash {
            slot.candidate = hash;
            return;
        }
        slot.candidate = 0;
        let Some(logged) = logged() else { return };
        slot.known = Some(Box::new(Known {
            fields: fields.clone(),
            carrier,
            repeat,
            priority,
            logged,
        }));
    }

    /// Number of requests kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.known.is_some()).count()
    }

    /// Drops all requests.
    pub(crate) fn forget(&mut self) {
        self.slots = Vec::new();
    }
}
