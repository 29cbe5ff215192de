//! TLS 1.2 and 1.3 (RFC 8446, RFC 5246) without I/O, for both roles: ciphertext in, plaintext out, over rustls.
//!
//! - [`engine`]: one connection's TLS, whoever moves its bytes
//! - [`secured`]: a session that wraps another, so that any protocol over the driver's contract speaks TLS
//! - [`crew`]: a client's crew that wraps another, the counterpart of [`secured`]
//! - [`trust`]: the TLS of a client as one value: roots, versions, resumption
//! - [`refusal`]: failed handshakes in words, with advice
//! - [`certificates`]: which certificate a client gets, by the name it asks for (SNI, RFC 6066 section 3)
//! - [`settings`]: the TLS of a listener, as one value that can be replaced while connections are open
//! - [`policy`]: which versions, key exchanges and ciphers both ends may agree on
//! - [`names`]: numbers on the wire by their registered names
//! - [`observed`]: records of connections between others, opened with their secrets
//! - [`tickets`]: resumption by tickets whose keys follow from one shared secret and the time
//!
//! Knows no HTTP and no file: PEM text and keys are the caller's to read.

pub mod certificates;
pub mod crew;
pub mod engine;
pub mod names;
pub mod observed;
pub mod policy;
mod records;
pub mod refusal;
pub mod secured;
pub mod settings;
pub mod tickets;
pub mod trust;

pub use rustls;
