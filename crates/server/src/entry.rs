//! What a request path resolves to, ready for the wire: the unit the cache holds.
//!
//! An entry never changes once made; only its `dead` flag does. Workers share entries by `Arc` and
//! look at the flag on every hit, so a change on disk needs no lock and no system call to be seen.

use bytes::Bytes;
use http1::coding::Coding;
use measure::UnixTime;
use runtime::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a path resolves to.
#[derive(Debug)]
pub struct Entry {
    /// The answer to give.
    pub answer: Answer,
    dead: AtomicBool,
}

impl Entry {
    /// A live entry.
    pub fn new(answer: Answer) -> Entry {
        Entry {
            answer,
            dead: AtomicBool::new(false),
        }
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
    /// A file (or a generated listing) in one or more representations.
    Resource(Resource),
    /// A directory named without its slash: 301 to this location (path, already percent-encoded;
    /// the session appends the query).
    Redirect(Box<[u8]>),
    /// Nothing servable: not found, not readable, or outside the root.
    Missing(Missing),
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

/// A file's representations.
#[derive(Debug)]
pub struct Resource {
    /// Last-Modified; absent for generated content.
    pub last_modified: Option<UnixTime>,
    /// Identity first, then precompressed siblings or codings made on first use.
    pub representations: Vec<Representation>,
    /// Codings that may still be made on first use (compressible type, within bounds, none tried yet).
    pub can_make: Vec<Coding>,
}

/// One representation (RFC 9110 section 8), with its header block ready to copy.
#[derive(Debug)]
pub struct Representation {
    /// The content coding; `Coding::Identity` for none.
    pub coding: Coding,
    /// Strong entity tag with its quotes; differs between codings.
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

/// Where a representation's bytes are.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory.
    Memory(Bytes),
    /// In an open file, sent with sendfile or splice.
    File(Arc<fs::File>),
}
