//! Heads met before: the same bytes mean the same request, so they need not be understood again.
//!
//! Clients repeat themselves to the letter: a browser asks every visitor's first page with the same
//! thirty lines. Reading such a head costs 125 to 700 ns, finding it here 20 to 40. What is kept is
//! the head, the entry that answered it and which representation; only plain requests are kept, whose
//! answer depends on nothing else: `GET`, no body, no expectation, no condition, no range, 200.
//!
//! ```text
//!   input ─ request line ─▶ slot ─ starts with the head kept there, entry alive ─▶ answer again
//!                             └─ otherwise read it; met twice in a row here: keep it
//! ```
//!
//! Bounded in number and length. Entries that died are let go of in the next turn, and everything is
//! when the view lets go of everything. Where heads do not repeat (each client its own cookie), it
//! soon stops looking for a while. Knows nothing of connections.

use crate::entry::{Answer, Content, Entry, Representation, Token};
use crate::site::View;
use foldhash::fast::RandomState;
use http_semantics::field::Name;
use http_semantics::method::Method;
use http1::framing::Framing;
use http1::head::{Expect, Request};
use http1::version::Version;
use measure::UnixTime;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

/// Heads kept at the most; a power of two.
const SLOTS: usize = 256;
/// The longest head kept.
const HEAD_MAX: usize = 2048;
/// Looks after which it is judged whether looking pays.
const WINDOW: u64 = 1024;
/// One look in so many must find something.
const PAYS: u64 = 16;
/// Requests that are not looked for once looking did not pay.
const REST: u32 = 8192;
/// Fields that make an answer depend on more than the head, or on the time.
const CONDITIONS: [Name; 6] = [
    Name::IfMatch,
    Name::IfNoneMatch,
    Name::IfModifiedSince,
    Name::IfUnmodifiedSince,
    Name::IfRange,
    Name::Range,
];

/// The heads one worker has met.
#[derive(Debug)]
pub(crate) struct Recall {
    hasher: RandomState,
    /// Empty until a first head is kept.
    slots: Vec<Slot>,
    deaths: u64,
    looked: u64,
    found: u64,
    resting: u32,
}

#[derive(Debug, Default)]
struct Slot {
    /// Hash of the head last met here that was not known.
    candidate: u64,
    known: Option<Known>,
}

/// A head and its answer.
#[derive(Debug)]
pub(crate) struct Known {
    /// The whole head, with the empty line.
    head: Box<[u8]>,
    /// What it asks for.
    pub(crate) entry: Arc<Entry>,
    /// Which of its representations it gets.
    representation: usize,
    /// Whether that is sent from a file, which may have changed.
    is_file: bool,
    /// Which site it is of.
    pub(crate) site: usize,
    /// Its version, and whether its client wants the connection to persist.
    pub(crate) version: Version,
    pub(crate) persistent: bool,
    parts: Parts,
}

/// Where the access log finds what it shows of a request, in the bytes of its head.
#[derive(Clone, Debug)]
struct Parts {
    target: Range<usize>,
    host: Option<Range<usize>>,
    referer: Option<Range<usize>>,
    user_agent: Option<Range<usize>>,
}

impl Known {
    fn representation(&self) -> Option<&Representation> {
        match &self.entry.answer {
            Answer::Resource(resource) => resource.representations.get(self.representation),
            Answer::Listing(_) | Answer::Redirect(_) | Answer::Missing(_) => None,
        }
    }

    fn is_current(&self, wall: UnixTime) -> bool {
        self.representation().is_some_and(|one| one.is_current(wall))
    }

    /// Target as received.
    pub(crate) fn target(&self) -> &[u8] {
        &self.head[self.parts.target.clone()]
    }

    /// Authority the request is for.
    pub(crate) fn host(&self) -> Option<&[u8]> {
        self.parts.host.clone().map(|range| &self.head[range])
    }

    /// `Referer`.
    pub(crate) fn referer(&self) -> Option<&[u8]> {
        self.parts.referer.clone().map(|range| &self.head[range])
    }

    /// `User-Agent`.
    pub(crate) fn user_agent(&self) -> Option<&[u8]> {
        self.parts.user_agent.clone().map(|range| &self.head[range])
    }
}

/// A head that was found; good until something is kept or let go of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    at: usize,
    /// Bytes of the head.
    pub(crate) used: usize,
    pub(crate) version: Version,
    pub(crate) persistent: bool,
}

impl Recall {
    pub(crate) fn new() -> Recall {
        Recall {
            hasher: RandomState::default(),
            slots: Vec::new(),
            deaths: 0,
            looked: 0,
            found: 0,
            resting: 0,
        }
    }

    /// Looks whether `input` begins with a head that is known and whose entry lives and is true.
    #[inline]
    pub(crate) fn find(&mut self, input: &[u8], wall: UnixTime) -> Option<Found> {
        if self.slots.is_empty() {
            return None;
        }
        if self.resting > 0 {
            self.resting -= 1;
            return None;
        }
        self.looked += 1;
        let at = self.slot_of(input)?;
        let known = self.slots[at].known.as_ref()?;
        if !input.starts_with(&known.head) || known.entry.is_dead() {
            return None;
        }
        if known.is_file && !known.is_current(wall) {
            return None;
        }
        self.found += 1;
        Some(Found {
            at,
            used: known.head.len(),
            version: known.version,
            persistent: known.persistent,
        })
    }

    /// What was found, and the representation it gets.
    #[inline]
    pub(crate) fn get(&self, found: Found) -> Option<(&Known, &Representation)> {
        let known = self.slots.get(found.at)?.known.as_ref()?;
        Some((known, known.representation()?))
    }

    /// The request line decides where a head is kept; it says most of what differs between them.
    #[inline]
    fn slot_of(&self, input: &[u8]) -> Option<usize> {
        let window = &input[..input.len().min(HEAD_MAX)];
        let line = &window[..memchr::memchr(b'\r', window)?];
        Some(self.hasher.hash_one(line) as usize & (SLOTS - 1))
    }

    /// A head was understood and answered with this representation. Keeps it if it is plain and was
    /// the last unknown one of its slot, too.
    #[inline]
    pub(crate) fn saw(
        &mut self,
        head: &Request<'_, '_>,
        bytes: &[u8],
        entry: &Arc<Entry>,
        representation: usize,
        site: usize,
    ) {
        // Only of what the store keeps is it noticed when it is no longer true.
        let is_kept = entry.token != Token::NONE && matches!(entry.answer, Answer::Resource(_));
        if self.resting > 0 || bytes.len() > HEAD_MAX || !is_kept || !is_plain(head) {
            return;
        }
        self.consider(head, bytes, entry, representation, site);
    }

    #[cold]
    fn consider(
        &mut self,
        head: &Request<'_, '_>,
        bytes: &[u8],
        entry: &Arc<Entry>,
        representation: usize,
        site: usize,
    ) {
        if self.looked >= WINDOW {
            if self.found < self.looked / PAYS {
                self.resting = REST;
            }
            (self.looked, self.found) = (0, 0);
        }
        // Read from the head itself: leading empty lines are no part of it.
        let Some(parts) = parts(head, bytes) else {
            return;
        };
        let Some(at) = self.slot_of(bytes) else {
            return;
        };
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, Slot::default);
        }
        let hash = self.hasher.hash_one(bytes);
        let slot = &mut self.slots[at];
        if slot.candidate != hash {
            slot.candidate = hash;
            return;
        }
        slot.candidate = 0;
        let mut known = Known {
            head: bytes.into(),
            entry: Arc::clone(entry),
            representation,
            is_file: false,
            site,
            version: head.version,
            persistent: head.persistent,
            parts,
        };
        known.is_file = known
            .representation()
            .is_some_and(|one| matches!(one.content, Content::File(_)));
        slot.known = Some(known);
    }

    /// To be called once a turn: lets go of what the views have let go of, or are about to.
    #[inline]
    pub(crate) fn turn(&mut self, views: &[View]) {
        let deaths = views
            .iter()
            .fold(0, |sum: u64, view| sum.wrapping_add(view.deaths()));
        let are_empty = views.iter().all(View::is_empty);
        if deaths != self.deaths || are_empty {
            self.let_go(deaths, are_empty);
        }
    }

    #[cold]
    fn let_go(&mut self, deaths: u64, all: bool) {
        self.deaths = deaths;
        if all {
            return self.forget();
        }
        for slot in &mut self.slots {
            if slot.known.as_ref().is_some_and(|known| known.entry.is_dead()) {
                slot.known = None;
            }
        }
    }

    /// How many heads are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.known.is_some()).count()
    }

    /// Lets go of everything.
    pub(crate) fn forget(&mut self) {
        self.slots = Vec::new();
        (self.looked, self.found, self.resting) = (0, 0, 0);
    }
}

/// Whether nothing but the head and the entry decide about the answer.
fn is_plain(head: &Request<'_, '_>) -> bool {
    head.method == Method::Get
        && head.version != Version::Http09
        && head.framing == Framing::Empty
        && head.expect == Expect::Nothing
        && !head.fields.has_any(&CONDITIONS)
}

fn parts(head: &Request<'_, '_>, bytes: &[u8]) -> Option<Parts> {
    // A head that is preceded by an empty line is found only behind one: not worth keeping.
    if !bytes.starts_with(b"GET ") {
        return None;
    }
    let range = |part: &[u8]| {
        let start = (part.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
        let end = start + part.len();
        (end <= bytes.len()).then_some(start..end)
    };
    Some(Parts {
        target: range(head.target_raw)?,
        host: head.authority().and_then(range),
        referer: head.referer().and_then(range),
        user_agent: head.user_agent().and_then(range),
    })
}
