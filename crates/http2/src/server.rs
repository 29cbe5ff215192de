//! The server's end of a connection: requests in, prepared responses out.

use crate::connection::{self, Server};
pub use crate::connection::{Event, Piece, Received};
use crate::engine::Role;
use crate::error::Misuse;
use crate::limits::Limits;
use http_semantics::priority::Priority;
use std::sync::Arc;
use units::Instant;

/// The server's end of one connection.
pub type Connection = connection::Connection<Server>;

impl Connection {
    /// A new connection; writes SETTINGS to `output`.
    pub fn new(limits: Arc<Limits>, now: Instant, output: &mut Vec<u8>) -> Connection {
        Connection::with_role(Role::Server, limits, now, output)
    }

    /// Sends an interim response (1xx) with this HPACK block.
    ///
    /// # Errors
    /// The stream is gone, or its final response was sent.
    pub fn inform(&mut self, stream: u32, block: &[u8], output: &mut Vec<u8>) -> Result<(), Misuse> {
        self.engine.inform(stream, block, output)
    }

    /// Sends the head of the final response. `block` is an HPACK block as [`hpack::block`](crate::hpack::block) writes it:
    /// it does without the dynamic table, so that bytes prepared once answer on every connection by a copy. After an `end`,
    /// a request whose body is still on the way stays open: reset it with NO_ERROR, or read on.
    ///
    /// # Errors
    /// The stream is gone, or its final response was sent.
    pub fn respond(
        &mut self,
        stream: u32,
        block: &[u8],
        end: bool,
        output: &mut Vec<u8>,
    ) -> Result<(), Misuse> {
        self.engine.respond(stream, block, None, end, output)
    }

    /// [`Connection::respond`] with further fields behind the block, such as `date`, whose names are in lower case. They go
    /// through the connection's dynamic table: one that repeats costs a byte or two.
    ///
    /// # Errors
    /// As [`Connection::respond`].
    pub fn respond_with<'f>(
        &mut self,
        stream: u32,
        block: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        output: &mut Vec<u8>,
    ) -> Result<(), Misuse> {
        self.engine.respond(stream, block, fields, end, output)
    }

    /// Notes how many bytes the body of a response has, for [`Limits::smallest_first`] and [`Piece::left`]; no effect if the
    /// stream is gone.
    pub fn length(&mut self, stream: u32, bytes: u64) {
        self.engine.length(stream, bytes);
    }

    /// Replaces the priority of a response, for example by what the file is.
    pub fn prioritize(&mut self, stream: u32, priority: Priority) {
        self.engine.prioritize(stream, priority, &mut Vec::new());
    }

    /// The priority of a response, from the request or PRIORITY_UPDATE; `None` if the stream is gone.
    pub fn priority(&self, stream: u32) -> Option<Priority> {
        self.engine.priority(stream)
    }

    /// Notes that a job works for the stream. The stream counts against the limit on streams until its last job has
    /// ended, even after a reset: otherwise a client could queue work without bound by resetting (CVE-2023-44487).
    pub fn job_began(&mut self, stream: u32) {
        self.engine.job_began(stream);
    }

    /// Notes the end of a job of [`Connection::job_began`].
    pub fn job_ended(&mut self, stream: u32) {
        self.engine.job_ended(stream);
    }

    /// Announces the end without waiting for requests that are on their way: GOAWAY names the last stream of now.
    pub fn leave(&mut self, output: &mut Vec<u8>) {
        self.engine.leave(output);
    }
}

#[cfg(test)]
mod tests;
