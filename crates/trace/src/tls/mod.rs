//! TLS as observed on the wire without keys: what both ends offered and chose, and how long the handshake took.
//!
//! Reads in-order stream bytes of both directions. It observes only: it checks no certificate, and a message that it
//! cannot parse leaves its facts unknown. Memory per direction is at most one record and one hello message.

mod conversation;
mod fields;
mod fuzzing;
mod hello;
mod record;

pub use conversation::{Alert, Conversation, Handshake, Resumption};
pub use fuzzing::fuzz_tls;
pub use hello::{ClientHello, HelloError, ServerHello};
pub use record::{ContentType, Record, Records};
