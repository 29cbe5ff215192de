//! The client's end of a connection: requests out, responses in. Push is not permitted.

use crate::connection::{self, Client};
pub use crate::connection::{Event, Output, Piece, Received};
use crate::engine::Role;
use crate::error::Misuse;
use crate::limits::Limits;
use http_semantics::priority::Priority;
use std::sync::Arc;

/// The client's end of one connection.
pub type Connection = connection::Connection<Client>;

impl Connection {
    /// A new connection; SETTINGS are its first output.
    pub fn new(limits: Arc<Limits>) -> Connection {
        Connection::with_role(Role::Client, limits)
    }

    /// Sends the head of a request on `stream`, a bidirectional stream the caller has opened. `block` is a section as
    /// [`qpack::block`](crate::qpack::block) writes it. `end` says that no body follows, `head` that the method is HEAD.
    /// `priority` orders our own bodies: put a `Priority` field into the block, or call [`Connection::prioritize`], to tell
    /// the server.
    ///
    /// # Errors
    /// [`Misuse::Full`]: either side is leaving. [`Misuse::Order`]: the stream carries a request, or cannot.
    pub fn request(
        &mut self,
        stream: u64,
        block: &[u8],
        end: bool,
        head: bool,
        priority: Priority,
    ) -> Result<(), Misuse> {
        self.engine.request_out(stream, block, None, end, head, priority)
    }

    /// [`Connection::request`] with the fields behind the block, whose names are in lower case.
    ///
    /// # Errors
    /// As [`Connection::request`].
    pub fn request_with<'f>(
        &mut self,
        stream: u64,
        block: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        head: bool,
        priority: Priority,
    ) -> Result<(), Misuse> {
        self.engine
            .request_out(stream, block, fields, end, head, priority)
    }

    /// Whether neither side is leaving. How many streams may be open is up to the transport.
    pub fn has_room(&self) -> bool {
        self.engine.has_room()
    }

    /// Sends PRIORITY_UPDATE for a response (RFC 9218 section 7.2).
    pub fn prioritize(&mut self, stream: u64, priority: Priority) {
        self.engine.prioritize(stream, priority);
    }
}

#[cfg(test)]
mod tests;
