//! The client's end of a connection: requests out, responses in. Push is disabled and refused.

use crate::connection::{self, Client};
pub use crate::connection::{Event, Piece, Received};
use crate::engine::Role;
use crate::error::Misuse;
use crate::limits::Limits;
use http_semantics::priority::Priority;
use std::sync::Arc;
use units::Instant;

/// The client's end of one connection.
pub type Connection = connection::Connection<Client>;

impl Connection {
    /// A new connection; writes the preface and SETTINGS to `output`.
    pub fn new(limits: Arc<Limits>, now: Instant, output: &mut Vec<u8>) -> Connection {
        Connection::with_role(Role::Client, limits, now, output)
    }

    /// Sends the head of a request and returns its stream. `block` is an HPACK block without the dynamic table. `end` says
    /// that no body follows, `head` that the method is HEAD. `priority` orders our own bodies: put a `Priority` field into
    /// the block, or call [`Connection::prioritize`], to tell the server.
    ///
    /// # Errors
    /// [`Misuse::Full`]: the server's limit on streams is reached, or the connection is shutting down.
    pub fn request(
        &mut self,
        block: &[u8],
        end: bool,
        head: bool,
        priority: Priority,
        output: &mut Vec<u8>,
    ) -> Result<u32, Misuse> {
        self.engine.request_out(block, None, end, head, priority, output)
    }

    /// [`Connection::request`] with the fields behind the block, whose names are in lower case; the block may be empty and
    /// the pseudo-fields be the first fields. They go through the connection's dynamic table: one that repeats costs a byte
    /// or two.
    ///
    /// # Errors
    /// As [`Connection::request`].
    pub fn request_with<'f>(
        &mut self,
        block: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        head: bool,
        priority: Priority,
        output: &mut Vec<u8>,
    ) -> Result<u32, Misuse> {
        self.engine
            .request_out(block, fields, end, head, priority, output)
    }

    /// Whether the server permits another request now.
    pub fn has_room(&self) -> bool {
        self.engine.has_room()
    }

    /// Requests that the server permits at a time; `u32::MAX` before it has said so.
    pub fn streams_max(&self) -> u32 {
        self.engine.streams_max()
    }

    /// Sends PRIORITY_UPDATE for a response (RFC 9218 section 7.1).
    pub fn prioritize(&mut self, stream: u32, priority: Priority, output: &mut Vec<u8>) {
        self.engine.prioritize(stream, priority, output);
    }
}

#[cfg(test)]
mod tests;
