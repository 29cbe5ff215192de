//! HTTP/1.x without I/O: bytes in, events out, for both roles (RFC 9110, RFC 9112).
//!
//! No function here reads, waits or asks for the time. Messages are views of the caller's bytes;
//! what a connection remembers between calls fits in 24 bytes. Strict where leniency is a hole, and
//! the same however the input is cut.

pub mod body;
pub mod client;
pub mod coding;
pub mod conditional;
pub mod date;
pub mod error;
pub mod field;
pub mod framing;
pub mod head;
pub mod limits;
pub mod method;
pub mod negotiate;
pub mod range;
pub mod request;
pub mod response;
mod scan;
pub mod server;
mod state;
pub mod status;
pub mod target;
pub mod version;

#[cfg(test)]
mod conformance;
#[cfg(any(test, fuzzing))]
mod cut;
#[cfg(any(test, fuzzing))]
mod transcript;

pub use error::{Fault, Misuse};
pub use limits::Limits;
