//! HTTP/2 without I/O: bytes in, events out, for both roles (RFC 9113), with priorities (RFC 9218).
//!
//! No function here reads, waits or asks for the time. Output goes to a `Vec<u8>` of the caller. Bodies are never
//! copied: the connection writes the header of a DATA frame and says how many bytes of which stream follow it.

pub mod client;
#[cfg(any(test, fuzzing))]
pub mod cuts;
mod engine;
pub mod error;
mod flood;
pub mod frame;
pub mod hpack;
pub mod limits;
pub mod message;
pub mod priority;
pub mod server;

pub use error::{Code, Fault, Misuse};
pub use limits::Limits;
