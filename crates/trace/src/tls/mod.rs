//! TLS as observed on the wire: what both ends offered and chose, how long the handshake took, and, with secrets from a key
//! log, what the records hold.
//!
//! Reads in-order stream bytes of both directions. It observes only: it checks no certificate, and a message that it
//! cannot parse leaves its facts unknown. Memory per connection is at most one record and one handshake message in each
//! direction, and what waits for secrets; all of it counts against the common budget.

mod conversation;
mod fields;
mod fuzzing;
mod hello;
mod keys;
mod record;

pub use conversation::{Alert, Decryption, Resumption, Tls, Unopened};
pub(crate) use conversation::{Content, Conversation};
pub(crate) use fields::Fields;
pub(crate) use fuzzing::Null;
pub use fuzzing::fuzz_tls;
pub use hello::{ClientHello, HelloError, ServerHello};
pub(crate) use keys::Keyring;
pub use keys::{Opener, PacketOpener, Suites};
pub(crate) use record::{is_hello, is_record};
