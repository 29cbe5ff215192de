//! The response to a request path, ready to send: the unit that the cache holds.
//!
//! An entry never changes; only its `dead` flag does. Workers share entries by `Arc` and check the flag on every hit,
//! so a change on disk becomes visible without a lock or system call.

use crate::cache::Charge;
use crate::entity_tag::{is_weak, shows_writes};
use crate::field_block::Compression;
use crate::field_list::FieldList;
use crate::media_type::MediaType;
use crate::path::is_plain;
use bytes::Bytes;
use core::fmt;
use http_semantics::coding::Coding;
use http_semantics::status::Status;
use runtime::fs;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use units::UnixTime;

/// An owned copy of the lines, for header blocks that are formatted for each response.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) last_modified: Option<UnixTime>,
    pub(crate) vary: Option<&'static str>,
    pub(crate) configured: Bytes,
    pub(crate) media_type: MediaType,
}

/// A new entry before it is inserted.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) path: Box<[u8]>,
    pub(crate) hash: u64,
    pub(crate) answer: Answer,
    /// Its reservation, without that of the content.
    pub(crate) charge: Charge,
    /// Bytes reserved by the content itself.
    pub(crate) content: u64,
    /// Keeps the paths it depends on under observation.
    pub(crate) polls: Option<Polls>,
}

/// Keeps the paths of one entry polled until the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Polls {
    _guard: Arc<dyn fmt::Debug + Send + Sync>,
}

impl Polls {
    /// Polls that end when `guard` is dropped.
    pub(crate) fn until_dropped(guard: impl fmt::Debug + Send + Sync + 'static) -> Polls {
        Polls {
            _guard: Arc::new(guard),
        }
    }
}

/// The response to a path.
#[derive(Debug)]
pub struct Entry {
    // In the order of use on a hit: the table compares path and hash, then come flag and token.
    pub(crate) path: Box<[u8]>,
    pub(crate) hash: u64,
    /// Whether the path contains no `%`, so that requests may name it unescaped.
    pub(crate) plain: bool,
    dead: AtomicBool,
    pub(crate) token: Token,
    /// Length of the uncompressed content.
    pub(crate) size: u64,
    /// The response.
    pub answer: Answer,
    polls: Option<Polls>,
    /// Held while a response is composed, if that is configured ([`crate::config::CacheLock::Entry`]).
    pub(crate) in_use: Mutex<()>,
    // Last field, so that a file of the answer is dropped before its descriptor is counted.
    _charge: Option<Charge>,
}

/// Slot of an entry in the store, with the generation that tells it from later entries in the same slot.
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
    /// A live entry that is in no cache.
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

    /// A live entry with a reservation that lasts until it is freed.
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

    /// The observation of the paths it depends on, for an entry that replaces it.
    pub(crate) fn polls(&self) -> Option<Polls> {
        self.polls.clone()
    }

    /// Whether the entry was evicted or its file changed, so that the path must be looked up again.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Marks the entry as outdated.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }
}

/// The kinds of responses to a path.
#[derive(Debug)]
pub enum Answer {
    /// A file in one or more representations.
    Resource(Resource),
    /// A generated directory listing; `Accept` selects HTML or JSON.
    Listing(Box<Listing>),
    /// A directory without its final slash: 301 to this location (a percent-encoded path; the session appends the
    /// query).
    Redirect(Box<[u8]>),
    /// No content: not found, not readable, or outside the root.
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

    /// This part, if there is one.
    pub(crate) fn part(&self, part: Part) -> Option<&Resource> {
        match (self, part) {
            (Answer::Resource(resource), Part::File) => Some(resource),
            (Answer::Listing(listing), Part::Html) => Some(&listing.html),
            (Answer::Listing(listing), Part::Json) => Some(&listing.json),
            _ => None,
        }
    }

    /// A copy with this resource in place of a part; `None` if there is no such part.
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

/// A resource of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The file.
    File,
    /// The HTML form of a listing.
    Html,
    /// The JSON form of a listing.
    Json,
}

impl Part {
    const ALL: [Part; 3] = [Part::File, Part::Html, Part::Json];
}

/// A directory listing in two media types. `Vary` names `Accept`, and `Accept-Encoding` if the listing can be
/// compressed.
#[derive(Debug)]
pub struct Listing {
    /// The listing as `text/html`.
    pub html: Resource,
    /// The listing as `application/json`.
    pub json: Resource,
}

/// Why a path has no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No such file, a special file, or a path out of the root: 404 for each, so that nothing outside is revealed.
    NotFound,
    /// No permission to read the file, or a directory with neither index nor listing: 403.
    Forbidden,
    /// The system lacks resources (EMFILE, ENOMEM) or the disk does not respond: 503, never cached.
    Unavailable,
}

impl Missing {
    /// The status of the response.
    pub(crate) fn status(self) -> Status {
        match self {
            Missing::NotFound => Status::NOT_FOUND,
            Missing::Forbidden => Status::FORBIDDEN,
            Missing::Unavailable => Status::SERVICE_UNAVAILABLE,
        }
    }
}

/// A file or listing in one or more representations.
#[derive(Debug)]
pub struct Resource {
    /// Value of `Last-Modified`; absent for generated content.
    pub last_modified: Option<UnixTime>,
    /// The uncompressed one first, then precompressed siblings and results of compression.
    pub representations: Vec<Representation>,
    /// Codings that the content may still be compressed with, as bits of `1 << coding as u8`.
    makeable: AtomicU8,
    /// Configured field lines of every representation, each with its CRLF.
    pub(crate) configured: Bytes,
    /// Of the resource of a directory: the number of the index that it is, among the names of indexes.
    pub(crate) index: Option<u8>,
    /// The parts of the header block, if it is formatted for each response.
    pub(crate) recipe: Option<Arc<Recipe>>,
}

impl Resource {
    /// A resource of these representations, the uncompressed one first. `makeable` are the codings it may be compressed
    /// with on first use; `configured` are its configured field lines.
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
            index: None,
            recipe: None,
        }
    }

    /// The resource of a directory, as the index with this number.
    pub(crate) fn numbered(self, index: Option<u8>) -> Resource {
        Resource { index, ..self }
    }

    /// Adds the parts from which header blocks are formatted for each response.
    pub(crate) fn composed_of(self, recipe: Option<Arc<Recipe>>) -> Resource {
        Resource { recipe, ..self }
    }

    /// A copy that shares the content but has no claims.
    fn copy(&self) -> Resource {
        let again = Resource::new(
            self.last_modified,
            self.representations.clone(),
            &self.makeable(),
            self.configured.clone(),
        );
        again.composed_of(self.recipe.clone()).numbered(self.index)
    }

    /// The representation in this coding, if it exists already.
    #[inline]
    pub fn get(&self, coding: Coding) -> Option<&Representation> {
        self.representations.iter().find(|r| r.coding == coding)
    }

    /// The uncompressed representation.
    #[inline]
    pub fn identity(&self) -> &Representation {
        &self.representations[0]
    }

    /// Whether this coding may be made on first use and no request is making it.
    #[inline]
    pub fn can_make(&self, coding: Coding) -> bool {
        self.makeable.load(Ordering::Relaxed) & bit(coding) != 0
    }

    /// Claims the compression with this coding. Returns true for one caller only.
    pub(crate) fn claim(&self, coding: Coding) -> bool {
        self.makeable.fetch_and(!bit(coding), Ordering::Relaxed) & bit(coding) != 0
    }

    /// Releases a claim, so that another request may compress.
    pub(crate) fn unclaim(&self, coding: Coding) {
        self.makeable.fetch_or(bit(coding), Ordering::Relaxed);
    }

    /// The codings it may be compressed with on first use.
    pub(crate) fn makeable(&self) -> Vec<Coding> {
        PREFERENCE
            .into_iter()
            .filter(|&coding| self.can_make(coding))
            .collect()
    }

    /// The codings to offer in negotiation, best first: existing and possible ones, identity last.
    pub fn codings(&self) -> impl Iterator<Item = Coding> + '_ {
        PREFERENCE
            .into_iter()
            .filter(|&c| self.can_make(c) || self.get(c).is_some())
    }
}

/// Usually the smallest result first; the order for clients without a preference.
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
    /// Entity tag with its quotes; differs between codings. It is weak (`W/`) only for a file sent from its descriptor
    /// that changed within the last seconds or is not written back to disk yet.
    pub etag: Box<[u8]>,
    /// Length of the content in bytes.
    pub len: u64,
    /// Field lines shared by 200, 206 and 304, each with its CRLF: `ETag`, `Last-Modified`, `Vary`, `Accept-Ranges`,
    /// `Cache-Control` and configured ones. From `content_fields` on: `Content-Type` and `Content-Encoding`.
    /// `Content-Length` is in neither part. [`Representation::all_fields`] has them as names and values.
    pub fields: Box<[u8]>,
    /// Offset in `fields` of the lines about the content itself.
    pub content_fields: usize,
    /// Header block of a 200 response in HTTP/1, without `Date`, `Connection` and the final CRLF: status line, `fields`,
    /// `Content-Length`.
    pub head_200: Box<[u8]>,
    /// The same for HTTP/2 and HTTP/3 ([`Compression`]), once a request needed it.
    pub(crate) blocks_200: [OnceLock<Box<[u8]>>; Compression::COUNT],
    /// Value of `Content-Type`, for the parts of multipart/byteranges.
    pub media_type: Box<[u8]>,
    /// The content.
    pub content: Content,
}

impl Representation {
    /// The field lines shared by 200, 206 and 304, without those about the content itself.
    #[inline]
    pub fn general_fields(&self) -> FieldList<'_> {
        FieldList::of(&self.fields[..self.content_fields])
    }

    /// The field lines about the content itself, without `Content-Length`.
    #[inline]
    pub fn own_fields(&self) -> FieldList<'_> {
        FieldList::of(&self.fields[self.content_fields..])
    }

    /// All field lines except `Content-Length`.
    #[inline]
    pub fn all_fields(&self) -> FieldList<'_> {
        FieldList::of(&self.fields)
    }

    /// Field block of a 200 response in HTTP/2 or HTTP/3, without `date`. Never longer than `head_200`.
    #[inline]
    pub(crate) fn block_200(&self, compression: Compression) -> &[u8] {
        self.blocks_200[compression as usize]
            .get_or_init(|| compression.prepared(self.all_fields(), self.len))
    }

    /// Whether a load would still find this representation: its file has not been written to, and its weak tag has not
    /// become strong. Costs an `fstat` for a file and nothing for content in memory.
    #[inline]
    pub(crate) fn is_current(&self, wall: UnixTime) -> bool {
        match &self.content {
            Content::Memory(_) => true,
            Content::File(file) => file.is_unchanged() && !(is_weak(&self.etag) && shows_writes(file, wall)),
        }
    }
}

/// Where the content of a representation is.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory.
    Memory(Bytes),
    /// In an open file, sent with sendfile or splice.
    File(Arc<fs::File>),
}
