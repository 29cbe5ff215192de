//! The server's end of a connection: requests in, prepared responses out.

use crate::connection::{self, Server};
pub use crate::connection::{Event, Output, Piece, Received};
use crate::engine::Role;
use crate::error::Misuse;
use crate::limits::Limits;
use http_semantics::priority::Priority;
use std::sync::Arc;

/// The server's end of one connection.
pub type Connection = connection::Connection<Server>;

impl Connection {
    /// A new connection; SETTINGS are its first output.
    pub fn new(limits: Arc<Limits>) -> Connection {
        Connection::with_role(Role::Server, limits)
    }

    /// Sends an interim response (1xx) with this section.
    ///
    /// # Errors
    /// The stream is gone, or its final response was sent.
    pub fn inform(&mut self, stream: u64, block: &[u8]) -> Result<(), Misuse> {
        self.engine.respond(stream, block, None, false, false)
    }

    /// Sends the head of the final response. `block` is a section as [`qpack::block`](crate::qpack::block) writes it. After
    /// an `end`, a request whose body is still on the way stays open: [`Connection::stop`] it, or read on.
    ///
    /// # Errors
    /// The stream is gone, or its final response was sent.
    pub fn respond(&mut self, stream: u64, block: &[u8], end: bool) -> Result<(), Misuse> {
        self.engine.respond(stream, block, None, true, end)
    }

    /// [`Connection::respond`] with further fields behind the block, such as `date`, whose names are in lower case.
    ///
    /// # Errors
    /// As [`Connection::respond`].
    pub fn respond_with<'f>(
        &mut self,
        stream: u64,
        block: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
    ) -> Result<(), Misuse> {
        self.engine.respond(stream, block, fields, true, end)
    }

    /// Replaces the priority of a response, for example by what the file is.
    pub fn prioritize(&mut self, stream: u64, priority: Priority) {
        self.engine.prioritize(stream, priority);
    }

    /// The priority of a response, from the request or PRIORITY_UPDATE; `None` if the stream is gone.
    pub fn priority(&self, stream: u64) -> Option<Priority> {
        self.engine.priority(stream)
    }

    /// Notes that a job works for the stream. The stream counts against the limit on streams until its last job has
    /// ended, even after a reset: otherwise a client could queue work without bound by resetting.
    pub fn job_began(&mut self, stream: u64) {
        self.engine.job_began(stream);
    }

    /// Notes the end of a job of [`Connection::job_began`].
    pub fn job_ended(&mut self, stream: u64) {
        self.engine.job_ended(stream);
    }

    /// Announces the end without waiting for requests that are on their way: GOAWAY names the streams of now.
    pub fn leave(&mut self) {
        self.engine.leave();
    }
}

#[cfg(test)]
mod tests;
