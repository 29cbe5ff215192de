//! Limits on everything a peer can make grow.
//!
//! Each limit has its own fault and a test that reaches it. The defaults suit a small machine on the public
//! internet.

use http_semantics::field::MAX_FIELDS;

/// Limits on the messages of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head, including its start line and final empty line.
    pub head_bytes_max: u32,
    /// Field lines of a head or trailer section; values above [`MAX_LINES`](http_semantics::field::MAX_LINES) have no effect.
    pub fields_max: u16,
    /// Bytes of a request target.
    pub target_bytes_max: u32,
    /// Bytes of a trailer section, including its final empty line.
    pub trailer_bytes_max: u32,
    /// Bytes of chunk extensions in one body, over all chunks.
    pub extension_bytes_max: u32,
    /// Outstanding requests of a client on one connection; values above 64 have no effect.
    pub outstanding_max: u8,
    /// Interim responses before the final one.
    pub interim_max: u8,
    /// Whether a server accepts `GET /path` without a version as HTTP/0.9 (RFC 1945 section 4.1). Off by
    /// default: RFC 9112 has no such message. It names no host, and its response has no head that identifies
    /// it.
    pub http09: bool,
}

impl Limits {
    /// The default limits.
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
