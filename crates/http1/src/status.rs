//! Status codes and their reason phrases (RFC 9110 section 15).
//!
//! The list itself is the `http` crate's; this module decides nothing but the name.

/// A status code, 100 to 999.
pub use http::StatusCode as Status;

/// The registered reason phrase, or an empty one, which RFC 9112 section 4 allows.
pub fn reason(status: Status) -> &'static str {
    status.canonical_reason().unwrap_or("")
}
