//! The field `Cache-Status` (RFC 9211): what this cache did for a response.

use std::io::Write as _;

/// Why a request went to the upstream (section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// The cache does not handle the request.
    Bypass,
    /// The method is not one of those reused.
    Method,
    /// Nothing is stored for the target.
    UriMiss,
    /// What is stored was chosen by other request fields.
    VaryMiss,
    /// The request asks for it.
    Request,
    /// What is stored is stale.
    Stale,
    /// What is stored is a part.
    Partial,
}

impl Forwarded {
    /// The value of `fwd`.
    pub const fn name(self) -> &'static str {
        match self {
            Forwarded::Bypass => "bypass",
            Forwarded::Method => "method",
            Forwarded::UriMiss => "uri-miss",
            Forwarded::VaryMiss => "vary-miss",
            Forwarded::Request => "request",
            Forwarded::Stale => "stale",
            Forwarded::Partial => "partial",
        }
    }
}

/// What a cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// It answered without the upstream.
    pub is_hit: bool,
    /// Why it asked the upstream.
    pub forwarded: Option<Forwarded>,
    /// Status of the upstream's response, if the client gets another.
    pub forwarded_status: Option<u16>,
    /// Seconds until the response is stale; negative if it is.
    pub ttl: Option<i64>,
    /// It stores the response.
    pub is_stored: bool,
    /// The request waited for that of another client.
    pub is_collapsed: bool,
    /// More, as a token.
    pub detail: Option<&'static str>,
}

impl CacheStatus {
    /// The outcome in a word: `hit`, or why the upstream was asked. `None` if neither is known.
    pub fn word(&self) -> Option<&'static str> {
        match self.is_hit {
            true => Some("hit"),
            false => self.forwarded.map(Forwarded::name),
        }
    }

    /// The value of the field, in the name of this server.
    pub fn value(&self) -> Vec<u8> {
        let mut value = b"weir".to_vec();
        if self.is_hit {
            value.extend_from_slice(b"; hit");
        }
        if let Some(forwarded) = self.forwarded {
            let _ = write!(value, "; fwd={}", forwarded.name());
        }
        if let Some(status) = self.forwarded_status {
            let _ = write!(value, "; fwd-status={status}");
        }
        if let Some(ttl) = self.ttl {
            let _ = write!(value, "; ttl={ttl}");
        }
        if self.is_stored {
            value.extend_from_slice(b"; stored");
        }
        if self.is_collapsed {
            value.extend_from_slice(b"; collapsed");
        }
        if let Some(detail) = self.detail {
            let _ = write!(value, "; detail={detail}");
        }
        value
    }
}
