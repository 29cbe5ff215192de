//! Bounds on everything a peer can make grow.
//!
//! Each bound has a fault of its own; reaching it is a tested path. The defaults suit a small
//! machine that faces the internet.

use http_semantics::field::MAX_FIELDS;

/// How much of anything a peer may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head, start line and final empty line included.
    pub head_bytes_max: u32,
    /// Field lines of a head or trailer section; at most [`MAX_FIELDS`] count.
    pub fields_max: u16,
    /// Bytes of a request target.
    pub target_bytes_max: u32,
    /// Bytes of a trailer section, its final empty line included.
    pub trailer_bytes_max: u32,
    /// Bytes of chunk extensions in one body, all chunks together.
    pub extension_bytes_max: u32,
    /// Requests a client may have outstanding on one connection; at most 64 count.
    pub outstanding_max: u8,
    /// Interim responses before a final one.
    pub interim_max: u8,
    /// Whether a server takes `GET /path` without a version for a request of HTTP/0.9 (RFC 1945 section 4.1). Off by
    /// default, as RFC 9112 has no such message: it names no host, and its response has no head to tell it from
    /// anything else.
    pub http09: bool,
}

impl Limits {
    /// The default bounds.
    pub const DEFAULT: Limits = Limits {
        head_bytes_max: 16 << 10,
        fields_max: MAX_FIELDS as u16,
        target_bytes_max: 8 << 10,
        trailer_bytes_max: 8 << 10,
        extension_bytes_max: 4 << 10,
        outstanding_max: 64,
        interim_max: 16,
        http09: false,
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}
