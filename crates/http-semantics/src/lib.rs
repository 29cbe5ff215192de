//! HTTP semantics (RFC 9110): methods, status codes, targets, fields, dates, conditions, ranges, content negotiation and
//! codings, whatever the version of HTTP that carries them. Besides, what HTTP/2 and HTTP/3 share: rules of field sections,
//! priorities (RFC 9218) and parts of field compression.
//!
//! Every function is pure and works on bytes of the caller. Framing, connections and what a malformed message means for
//! them belong to the crate of a version (`http1`, `http2`, `http3`).
//!
//! ```
//! use http_semantics::coding::Coding;
//! use http_semantics::negotiate::Preferences;
//!
//! let preferences = Preferences::parse([&b"br;q=0.5, gzip"[..]]);
//! assert_eq!(preferences.choose([Coding::Brotli, Coding::Gzip]), Some(Coding::Gzip));
//! ```

pub mod alt_svc;
pub mod coding;
pub mod compression;
pub mod conditional;
pub mod date;
pub mod field;
pub mod forwarded;
pub mod message;
pub mod method;
pub mod negotiate;
pub mod priority;
pub mod range;
pub mod request;
pub mod schedule;
pub mod status;
pub mod target;

#[cfg(test)]
mod seeded;
