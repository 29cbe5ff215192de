//! What a request path resolves to, ready for the wire: the unit the cache holds.
//!
//! An entry never changes once made; only its `dead` flag does. Workers share entries by `Arc` and
//! look at the flag on every hit, so a change on disk needs no lock and no system call to be seen.

use crate::cache::{Charge, Draft};
use crate::site::Polls;
use crate::site::Recipe;
use crate::site::path::is_plain;
use crate::site::{is_weak, shows_writes};
use bytes::Bytes;
use http_semantics::coding::Coding;
use http_semantics::status::Status;
use measure::UnixTime;
use runtime::fs;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

/// What a path resolves to.
#[derive(Debug)]
pub struct Entry {
    // In order of use on a hit: the table compares path and hash, then come flag and token.
    pub(crate) path: Box<[u8]>,
    pub(crate) hash: u64,
    /// Whether the path holds no `%`, so that a request may name it as it stands.
    pub(crate) plain: bool,
    dead: AtomicBool,
    pub(crate) token: Token,
    /// Length of the content without coding.
    pub(crate) size: u64,
    /// The answer to give.
    pub answer: Answer,
    polls: Option<Polls>,
    /// Held while an answer is made of it, where that is asked for ([`crate::config::CacheLock::Entry`]).
    pub(crate) in_use: Mutex<()>,
    // Last, so that a file of the answer is let go of before its descriptor is counted.
    _charge: Option<Charge>,
}

/// Where in the store an entry is, and that it is this one and not a later one in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Token {
    /// Not in the store.
    pub(crate) const NONE: Token = Token {
        slot: u32::MAX,
        generation: 0,
    };
}

impl Entry {
    /// A live entry that no cache holds.
    pub fn new(answer: Answer) -> Entry {
        Entry {
            path: Box::default(),
            hash: 0,
            plain: false,
            dead: AtomicBool::new(false),
            token: Token::NONE,
            size: answer.size(),
            answer,
            polls: None,
            in_use: Mutex::new(()),
            _charge: None,
        }
    }

    /// A live entry with a reservation that ends when it is freed.
    pub(crate) fn kept(draft: Draft, token: Token) -> Entry {
        Entry {
            plain: is_plain(&draft.path),
            path: draft.path,
            hash: draft.hash,
            dead: AtomicBool::new(false),
            token,
            size: draft.answer.size(),
            answer: draft.answer,
            polls: draft.polls,
            in_use: Mutex::new(()),
            _charge: Some(draft.charge),
        }
    }

    /// The observation of the paths it depends on, for an entry that takes its place.
    pub(crate) fn polls(&self) -> Option<Polls> {
        self.polls.clone()
    }

    /// Whether the entry was evicted or its file changed: look the path up again.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Marks the entry as no longer true.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }
}

/// The answer to a path.
#[derive(Debug)]
pub enum Answer {
    /// A file in one or more representations.
    Resource(Resource),
    /// A generated directory listing; which of the two is negotiated by `Accept`.
    Listing(Box<Listing>),
    /// A directory named without its slash: 301 to this location (path, already percent-encoded;
    /// the session appends the query).
    Redirect(Box<[u8]>),
    /// Nothing servable: not found, not readable, or outside the root.
    Missing(Missing),
}

impl Answer {
    fn size(&self) -> u64 {
        match self {
            Answer::Resource(resource) => resource.identity().len,
            Answer::Listing(listing) => listing.html.identity().len,
            Answer::Redirect(_) | Answer::Missing(_) => 0,
        }
    }

    /// All resources of the answer.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Resource> {
        Part::ALL.into_iter().filter_map(|part| self.part(part))
    }

    /// This part, if the answer has it.
    pub(crate) fn part(&self, part: Part) -> Option<&Resource> {
        match (self, part) {
            (Answer::Resource(resource), Part::File) => Some(resource),
            (Answer::Listing(listing), Part::Html) => Some(&listing.html),
            (Answer::Listing(listing), Part::Json) => Some(&listing.json),
            _ => None,
        }
    }

    /// The same answer with this resource in place of a part; `None` if it has no such part.
    pub(crate) fn with(&self, part: Part, resource: Resource) -> Option<Answer> {
        match (self, part) {
            (Answer::Resource(_), Part::File) => Some(Answer::Resource(resource)),
            (Answer::Listing(listing), Part::Html) => Some(Answer::Listing(Box::new(Listing {
                html: resource,
                json: listing.json.copy(),
            }))),
            (Answer::Listing(listing), Part::Json) => Some(Answer::Listing(Box::new(Listing {
                html: listing.html.copy(),
                json: resource,
            }))),
            _ => None,
        }
    }
}

/// One resource of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The file, which is the only one.
    File,
    /// The listing of a directory in HTML.
    Html,
    /// The same in JSON.
    Json,
}

impl Part {
    const ALL: [Part; 3] = [Part::File, Part::Html, Part::Json];
}

/// A directory listing in its two media types. The `Vary` of its field blocks names `Accept`, and `Accept-Encoding` if
/// codings of it can be made.
#[derive(Debug)]
pub struct Listing {
    /// `text/html`.
    pub html: Resource,
    /// `application/json`.
    pub json: Resource,
}

/// Why a path has no representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No such file, a special file, or a path that would leave the root: 404 for all, so that
    /// nothing outside is revealed.
    NotFound,
    /// The file exists and may not be read, or a directory has neither index nor listing: 403.
    Forbidden,
    /// The system refused for want of resources (EMFILE, ENOMEM): 503, never cached.
    Unavailable,
}

impl Missing {
    /// The status that says so.
    pub(crate) fn status(self) -> Status {
        match self {
            Missing::NotFound => Status::NOT_FOUND,
            Missing::Forbidden => Status::FORBIDDEN,
            Missing::Unavailable => Status::SERVICE_UNAVAILABLE,
        }
    }
}

/// A file's representations.
#[derive(Debug)]
pub struct Resource {
    /// Last-Modified; absent for generated content.
    pub last_modified: Option<UnixTime>,
    /// Identity first, then precompressed siblings or codings made on first use.
    pub representations: Vec<Representation>,
    /// Codings that may still be made on first use, as bits of `1 << coding as u8`.
    makeable: AtomicU8,
    /// Configured field lines, each with its CRLF, that every representation has.
    pub(crate) configured: Bytes,
    /// What its heads are composed of, where that is done for each answer.
    pub(crate) recipe: Option<Arc<Recipe>>,
}

impl Resource {
    /// A resource of these representations, the first without coding. `makeable` are the codings
    /// that may be made of it on first use; `configured` are the configured field lines they have.
    pub fn new(
        last_modified: Option<UnixTime>,
        representations: Vec<Representation>,
        makeable: &[Coding],
        configured: Bytes,
    ) -> Resource {
        let bits = makeable.iter().fold(0, |bits, &coding| bits | bit(coding));
        Resource {
            last_modified,
            representations,
            makeable: AtomicU8::new(bits),
            configured,
            recipe: None,
        }
    }

    /// The same, with what its heads are composed of.
    pub(crate) fn composed_of(self, recipe: Option<Arc<Recipe>>) -> Resource {
        Resource { recipe, ..self }
    }

    /// The same resource once more: its content is shared, claims are not.
    fn copy(&self) -> Resource {
        let again = Resource::new(
            self.last_modified,
            self.representations.clone(),
            &self.makeable(),
            self.configured.clone(),
        );
        again.composed_of(self.recipe.clone())
    }

    /// The representation in this coding, if there is one now.
    #[inline]
    pub fn get(&self, coding: Coding) -> Option<&Representation> {
        self.representations.iter().find(|r| r.coding == coding)
    }

    /// The representation without a coding.
    #[inline]
    pub fn identity(&self) -> &Representation {
        &self.representations[0]
    }

    /// Whether this coding may be made on first use (and nobody is making it).
    #[inline]
    pub fn can_make(&self, coding: Coding) -> bool {
        self.makeable.load(Ordering::Relaxed) & bit(coding) != 0
    }

    /// Claims the making of a coding: true for one caller only.
    pub(crate) fn claim(&self, coding: Coding) -> bool {
        self.makeable.fetch_and(!bit(coding), Ordering::Relaxed) & bit(coding) != 0
    }

    /// Gives a claim back: another request may make the coding.
    pub(crate) fn unclaim(&self, coding: Coding) {
        self.makeable.fetch_or(bit(coding), Ordering::Relaxed);
    }

    /// The codings that may be made on first use.
    pub(crate) fn makeable(&self) -> Vec<Coding> {
        PREFERENCE
            .into_iter()
            .filter(|&coding| self.can_make(coding))
            .collect()
    }

    /// The codings to offer in negotiation, best first: those there are and those that can be made,
    /// identity last.
    pub fn codings(&self) -> impl Iterator<Item = Coding> + '_ {
        PREFERENCE
            .into_iter()
            .filter(|&c| self.can_make(c) || self.get(c).is_some())
    }
}

/// Smallest first, as a rule; clients with no preference of their own get this order.
const PREFERENCE: [Coding; 5] = [
    Coding::Brotli,
    Coding::Zstd,
    Coding::Gzip,
    Coding::Deflate,
    Coding::Identity,
];

const fn bit(coding: Coding) -> u8 {
    1 << coding as u8
}

/// One representation (RFC 9110 section 8), with its header block ready to copy.
#[derive(Clone, Debug)]
pub struct Representation {
    /// The content coding; `Coding::Identity` for none.
    pub coding: Coding,
    /// Entity tag with its quotes; differs between codings. Weak (`W/`) only where a file is sent from its descriptor
    /// that was changed within the last seconds, or is not on disk yet.
    pub etag: Box<[u8]>,
    /// Length of the content in bytes.
    pub len: u64,
    /// `ETag`, `Last-Modified`, `Vary`, `Accept-Ranges`, `Cache-Control` and configured field lines,
    /// each with its CRLF: what 200, 206 and 304 share. Then, from `content_fields` on,
    /// `Content-Type`, `Content-Encoding`. `Content-Length` is in neither.
    pub fields: Box<[u8]>,
    /// Offset in `fields` where the representation's own lines begin.
    pub content_fields: usize,
    /// Everything of a 200 up to but excluding `Date` and `Connection` and the final CRLF: status
    /// line, `fields`, `Content-Length`.
    pub head_200: Box<[u8]>,
    /// Value of `Content-Type`, for multipart/byteranges parts.
    pub media_type: Box<[u8]>,
    /// The bytes.
    pub content: Content,
}

impl Representation {
    /// Whether it still is what a load would find: its file was not written to, and has no better tag by now. Asks the
    /// kernel about a file (`fstat`), and nobody about bytes in memory.
    #[inline]
    pub(crate) fn is_current(&self, wall: UnixTime) -> bool {
        match &self.content {
            Content::Memory(_) => true,
            Content::File(file) => file.is_unchanged() && !(is_weak(&self.etag) && shows_writes(file, wall)),
        }
    }
}

/// Where a representation's bytes are.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory.
    Memory(Bytes),
    /// In an open file, sent with sendfile or splice.
    File(Arc<fs::File>),
}
