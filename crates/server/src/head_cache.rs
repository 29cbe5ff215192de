//! Known request heads: equal bytes mean an equal request, which need not be parsed again.
//!
//! Clients repeat themselves exactly: a browser requests every visitor's first page with the same thirty lines. Parsing
//! such a head costs 125 to 700 ns, finding it here 20 to 40. The table keeps the head, the entry that answered it, and
//! the representation. Only plain requests are kept, whose response depends on nothing else: `GET`, no body, no
//! expectation, no condition, no range, 200.
//!
//! ```text
//!   input ─ request line ─▶ slot ─ starts with the head kept there, entry alive ─▶ answer again
//!                             └─ otherwise read it; met twice in a row here: keep it
//! ```
//!
//! A head may also be answered by a response that the proxy's cache has stored ([`Repeat`]).
//!
//! The table is limited in number and length. Dead entries are dropped in the next turn, and all entries when the view
//! drops its own. If heads do not repeat (each client has its own cookie), the search soon pauses for a while. This
//! file knows nothing of connections.

use crate::entry::{Answer, Content, Entry, Representation, Token};
use crate::proxy::cache::{Again, Repeat};
use crate::site::View;
use foldhash::fast::RandomState;
use http_semantics::field::Name;
use http_semantics::method::Method;
use http1::framing::Framing;
use http1::head::{Expect, Request};
use http1::version::Version;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;
use units::UnixTime;

/// Maximum number of heads kept; a power of two.
const SLOTS: usize = 256;
/// Longest head kept, in bytes.
const HEAD_MAX: usize = 2048;
/// Number of searches after which their success is judged.
const WINDOW: u64 = 1024;
/// One search in this many must succeed, or the search pauses.
const PAYS: u64 = 16;
/// Length of the pause, in requests.
const REST: u32 = 8192;
/// Fields that make a response depend on more than the head, or on the time.
pub(crate) const CONDITIONS: [Name; 6] = [
    Name::IfMatch,
    Name::IfNoneMatch,
    Name::IfModifiedSince,
    Name::IfUnmodifiedSince,
    Name::IfRange,
    Name::Range,
];

/// The known heads of one worker.
#[derive(Debug)]
pub(crate) struct HeadCache {
    hasher: RandomState,
    /// Empty until the first head is kept.
    slots: Vec<Slot>,
    /// Whether a head may be kept with an entry.
    has_entries: bool,
    deaths: u64,
    looked: u64,
    found: u64,
    resting: u32,
}

#[derive(Debug, Default)]
struct Slot {
    /// Hash of the last unknown head of this slot.
    candidate: u64,
    known: Option<Known>,
}

/// A head and its response.
#[derive(Debug)]
pub(crate) struct Known {
    /// The whole head, with the empty line at its end.
    head: Box<[u8]>,
    source: Source,
    /// Version of the request, and whether its connection persists.
    pub(crate) version: Version,
    pub(crate) persistent: bool,
    parts: Parts,
}

/// What answers a head.
#[derive(Debug)]
enum Source {
    File(File),
    /// A response that the proxy's cache has stored.
    Stored {
        repeat: Box<Repeat>,
        /// Whether the request came over TLS.
        is_secured: bool,
    },
}

/// An entry of a site.
#[derive(Debug)]
pub(crate) struct File {
    /// The entry that answers it.
    pub(crate) entry: Arc<Entry>,
    /// Index of the representation to send.
    representation: usize,
    /// Whether the content is sent from a file, which may have changed.
    is_file: bool,
    /// Index of the site.
    pub(crate) site: usize,
}

/// Positions within the head of the values for the access log.
#[derive(Clone, Debug)]
struct Parts {
    target: Range<usize>,
    host: Option<Range<usize>>,
    referer: Option<Range<usize>>,
    user_agent: Option<Range<usize>>,
}

impl File {
    #[inline]
    fn representation(&self) -> Option<&Representation> {
        match &self.entry.answer {
            Answer::Resource(resource) => resource.representations.get(self.representation),
            Answer::Listing(_) | Answer::Redirect(_) | Answer::Missing(_) => None,
        }
    }

    /// Whether it is still the answer at this time.
    #[inline]
    fn current(&self, wall: UnixTime) -> Option<&Representation> {
        if self.entry.is_dead() {
            return None;
        }
        self.representation()
            .filter(|one| !self.is_file || one.is_current(wall))
    }
}

impl Known {
    /// The target as received.
    pub(crate) fn target(&self) -> &[u8] {
        &self.head[self.parts.target.clone()]
    }

    /// The authority of the request.
    pub(crate) fn host(&self) -> Option<&[u8]> {
        self.parts.host.clone().map(|range| &self.head[range])
    }

    /// Value of `Referer`.
    pub(crate) fn referer(&self) -> Option<&[u8]> {
        self.parts.referer.clone().map(|range| &self.head[range])
    }

    /// Value of `User-Agent`.
    pub(crate) fn user_agent(&self) -> Option<&[u8]> {
        self.parts.user_agent.clone().map(|range| &self.head[range])
    }
}

/// The origin of an answer that depends on the request head and the entry only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled<'e> {
    pub(crate) entry: &'e Arc<Entry>,
    /// Index of the representation.
    pub(crate) representation: usize,
    /// Index of the site.
    pub(crate) site: usize,
}

/// What to send.
#[derive(Debug)]
pub(crate) enum Send<'c> {
    /// This representation of an entry.
    File(&'c File, &'c Representation),
    /// This response.
    Stored(&'c Repeat, Again),
}

/// A head that was found at the start of some input.
#[derive(Debug)]
pub(crate) struct Found<'c, 'b> {
    pub(crate) known: &'c Known,
    pub(crate) send: Send<'c>,
    /// The input behind the head.
    pub(crate) behind: &'b [u8],
}

impl HeadCache {
    pub(crate) fn new() -> HeadCache {
        HeadCache {
            hasher: RandomState::default(),
            slots: Vec::new(),
            has_entries: false,
            deaths: 0,
            looked: 0,
            found: 0,
            resting: 0,
        }
    }

    /// Searches for a known head at the start of `input`, with a live and current answer. `is_secured`: it came over TLS.
    /// `is_last`: the response has to say that no other follows, which the head of a stored response does not.
    #[inline]
    pub(crate) fn find<'b>(
        &mut self,
        input: &'b [u8],
        (is_secured, is_last): (bool, bool),
        wall: UnixTime,
    ) -> Option<Found<'_, 'b>> {
        if self.slots.is_empty() {
            return None;
        }
        if self.resting > 0 {
            self.resting -= 1;
            return None;
        }
        self.looked += 1;
        let at = self.slot_of(input)?;
        let known = self.slots[at].known.as_mut()?;
        let behind = input.strip_prefix(&*known.head)?;
        let again = match &mut known.source {
            Source::File(_) => None,
            Source::Stored {
                repeat,
                is_secured: was_secured,
            } if *was_secured == is_secured && !is_last => Some(repeat.again(wall)?),
            Source::Stored { .. } => return None,
        };
        let known = &*known;
        let send = match (&known.source, again) {
            (Source::Stored { repeat, .. }, Some(again)) => Send::Stored(repeat, again),
            (Source::File(file), _) => Send::File(file, file.current(wall)?),
            (Source::Stored { .. }, None) => return None,
        };
        self.found += 1;
        Some(Found { known, send, behind })
    }

    /// The request line selects the slot; heads differ mostly in it.
    #[inline]
    fn slot_of(&self, input: &[u8]) -> Option<usize> {
        let window = &input[..input.len().min(HEAD_MAX)];
        let line = &window[..memchr::memchr(b'\r', window)?];
        Some(self.hasher.hash_one(line) as usize & (SLOTS - 1))
    }

    /// A head was parsed and answered with this representation. It is kept if it is plain and was already the last
    /// unknown one of its slot.
    #[inline]
    pub(crate) fn saw(&mut self, head: &Request<'_, '_>, bytes: &[u8], settled: Settled<'_>) {
        let entry = settled.entry;
        // Only entries of the store are marked dead when they become outdated.
        let is_kept = entry.token != Token::NONE && matches!(entry.answer, Answer::Resource(_));
        if self.resting > 0 || bytes.len() > HEAD_MAX || !is_kept || !is_plain(head) {
            return;
        }
        self.consider(head, bytes, || {
            let mut file = File {
                entry: Arc::clone(entry),
                representation: settled.representation,
                is_file: false,
                site: settled.site,
            };
            file.is_file = file
                .representation()
                .is_some_and(|one| matches!(one.content, Content::File(_)));
            Source::File(file)
        });
    }

    /// As [`HeadCache::saw`], for a head that was answered with a stored response. `is_secured`: it came over TLS.
    #[cold]
    pub(crate) fn saw_stored(
        &mut self,
        head: &Request<'_, '_>,
        bytes: &[u8],
        mut repeat: Box<Repeat>,
        is_secured: bool,
    ) {
        if self.resting > 0 || bytes.len() > HEAD_MAX || !is_plain(head) {
            return;
        }
        self.consider(head, bytes, || {
            // Over TLS, the content is read and encrypted.
            if !is_secured {
                repeat.move_to_file();
            }
            Source::Stored { repeat, is_secured }
        });
    }

    #[cold]
    fn consider(&mut self, head: &Request<'_, '_>, bytes: &[u8], source: impl FnOnce() -> Source) {
        if self.looked >= WINDOW {
            if self.found < self.looked / PAYS {
                self.resting = REST;
            }
            (self.looked, self.found) = (0, 0);
        }
        // Positions are relative to the head itself: leading empty lines are not part of it.
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
        let source = source();
        self.has_entries |= matches!(source, Source::File(_));
        slot.known = Some(Known {
            head: bytes.into(),
            source,
            version: head.version,
            persistent: head.persistent,
            parts,
        });
    }

    /// Drops heads whose entries are dead, or all with an entry if the views are empty. To be called once per turn.
    #[inline]
    pub(crate) fn turn(&mut self, views: &[View]) {
        let deaths = views
            .iter()
            .fold(0, |sum: u64, view| sum.wrapping_add(view.deaths()));
        let are_empty = views.iter().all(View::is_empty);
        if deaths != self.deaths || (are_empty && self.has_entries) {
            self.let_go(deaths, are_empty);
        }
    }

    #[cold]
    fn let_go(&mut self, deaths: u64, all: bool) {
        self.deaths = deaths;
        self.has_entries &= !all;
        for slot in &mut self.slots {
            let is_over = |known: &Known| match &known.source {
                Source::File(file) => all || file.entry.is_dead(),
                Source::Stored { .. } => false,
            };
            if slot.known.as_ref().is_some_and(is_over) {
                slot.known = None;
            }
        }
        if all && self.slots.iter().all(|slot| slot.known.is_none()) {
            self.forget();
        }
    }

    /// Number of heads kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.known.is_some()).count()
    }

    /// Drops all heads.
    pub(crate) fn forget(&mut self) {
        self.slots = Vec::new();
        self.has_entries = false;
        (self.looked, self.found, self.resting) = (0, 0, 0);
    }
}

/// Whether the response depends on the head and the entry only.
fn is_plain(head: &Request<'_, '_>) -> bool {
    head.method == Method::Get
        && head.version != Version::Http09
        && head.framing == Framing::Empty
        && head.expect == Expect::Nothing
        && !head.fields.has_any(&CONDITIONS)
}

fn parts(head: &Request<'_, '_>, bytes: &[u8]) -> Option<Parts> {
    // A head after an empty line would be found only after another one: not worth keeping.
    if !bytes.starts_with(b"GET ") {
        return None;
    }
    let values = head.semantics();
    let range = |part: &[u8]| {
        let start = (part.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
        let end = start + part.len();
        (end <= bytes.len()).then_some(start..end)
    };
    Some(Parts {
        target: range(head.target_raw)?,
        host: values.authority().and_then(range),
        referer: values.referer().and_then(range),
        user_agent: values.user_agent().and_then(range),
    })
}
