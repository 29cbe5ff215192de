//! QUIC as observed on the wire (RFC 9000, RFC 9001, RFC 9369): what headers show, the handshake in Initial packets, whose keys
//! everyone can derive, and, with secrets from a key log, every frame, with streams, losses and requests over HTTP/3.
//!
//! Reads datagrams of both directions. Memory per connection is bounded: streams, packets under way, bytes out of order, and what
//! waits for secrets; all of it counts against the common budget.

mod assembly;
mod conversation;
mod frame;
mod fuzzing;
mod header;
mod http3;
mod log;
mod offload;
mod parameters;
mod pauses;
mod protect;
mod recovery;
mod shake;
mod spin;
mod streams;
mod window;

pub(crate) use conversation::Conversation;
pub use fuzzing::fuzz_quic;
pub(crate) use header::is_first;

use ::http3::varint::read as varint;
