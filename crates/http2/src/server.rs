//! The server's end of a connection: requests in, prepared responses out.

use crate::engine::{Engine, Role};
pub use crate::engine::{Event, Piece, Received};
use crate::error::{Code, Fault, Misuse};
use crate::limits::Limits;
use crate::priority::Priority;
use measure::Instant;
use std::sync::Arc;

/// The server's end of one connection.
#[derive(Debug)]
pub struct Connection(Engine);

impl Connection {
    /// A new connection; writes SETTINGS to `output`.
    pub fn new(limits: Arc<Limits>, now: Instant, output: &mut Vec<u8>) -> Connection {
        Connection(Engine::new(Role::Server, limits, now, output))
    }

    /// Sends an interim response (1xx) with this HPACK block.
    ///
    /// # Errors
    /// The stream is gone, or its final response was sent.
    pub fn inform(&mut self, stream: u32, block: &[u8], output: &mut Vec<u8>) -> Result<(), Misuse> {
        self.0.inform(stream, block, output)
    }

    /// Sends the head of the final response. `block` is an HPACK block without references to a dynamic table. After an
    /// `end`, a request whose body is still on the way stays open: reset it with NO_ERROR, or read on.
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
        self.0.respond(stream, block, end, output)
    }

    /// Replaces the priority of a response, for example by what the file is.
    pub fn prioritize(&mut self, stream: u32, priority: Priority) {
        self.0.prioritize(stream, priority, &mut Vec::new());
    }

    /// The priority of a response, from the request or PRIORITY_UPDATE; `None` if the stream is gone.
    pub fn priority(&self, stream: u32) -> Option<Priority> {
        self.0.priority(stream)
    }

    /// Notes that a job works for the stream. The stream counts against the limit on streams until its last job has
    /// ended, even after a reset: otherwise a client could queue work without bound by resetting (CVE-2023-44487).
    pub fn job_began(&mut self, stream: u32) {
        self.0.job_began(stream);
    }

    /// Notes the end of a job of [`Connection::job_began`].
    pub fn job_ended(&mut self, stream: u32) {
        self.0.job_ended(stream);
    }

    /// Takes input: drop `used` bytes and call again, until the event is [`Event::Partial`]; then offer the rest again
    /// with more bytes. Frames other than DATA must fit the caller's buffer: 16,393 bytes. Stop calling while much
    /// output is unsent: some frames demand an answer.
    pub fn receive<'a>(&'a mut self, input: &'a [u8], now: Instant, output: &mut Vec<u8>) -> Received<'a> {
        self.0.receive(input, now, output)
    }

    /// Says that `bytes` more of the body are ready to be sent.
    ///
    /// # Errors
    /// The stream is gone, its head was not sent, or its body is finished.
    pub fn ready(&mut self, stream: u32, bytes: u64) -> Result<(), Misuse> {
        self.0.ready(stream, bytes)
    }

    /// Says that the bytes ready are the last. Call early: with the length known, shorter bodies go first.
    ///
    /// # Errors
    /// As [`Connection::ready`].
    pub fn finish(&mut self, stream: u32) -> Result<(), Misuse> {
        self.0.finish(stream)
    }

    /// Chooses the stream that sends next and writes the header of its DATA frame to `output`; the caller sends
    /// `bytes` of that body behind it. `room` bounds header and body, in bytes. `None` if nothing is ready, flow control
    /// blocks it, or `room` is below ten bytes.
    pub fn next(&mut self, room: usize, now: Instant, output: &mut Vec<u8>) -> Option<Piece> {
        self.0.next(room, now, output)
    }

    /// Ends the body with a trailer section, when all ready bytes were sent and instead of `finish`.
    ///
    /// # Errors
    /// The stream is gone, or bytes are still ready, or the body has ended.
    pub fn trailers(&mut self, stream: u32, block: &[u8], output: &mut Vec<u8>) -> Result<(), Misuse> {
        self.0.trailers_out(stream, block, output)
    }

    /// Returns `bytes` of a received body to the flow-control windows. Without it the peer stops sending.
    pub fn consumed(&mut self, stream: u32, bytes: u32, output: &mut Vec<u8>) {
        self.0.consumed(stream, bytes, output);
    }

    /// Resets a stream; no effect if it is gone.
    pub fn reset(&mut self, stream: u32, code: Code, output: &mut Vec<u8>) {
        self.0.reset(stream, code, output);
    }

    /// Begins a graceful shutdown (RFC 9113 section 6.8): GOAWAY now, and again with the last stream after a round trip.
    /// Close once [`Connection::is_drained`].
    pub fn shut_down(&mut self, now: Instant, output: &mut Vec<u8>) {
        self.0.shut_down(now, output);
    }

    /// Announces the end without waiting for requests that are on their way: GOAWAY names the last stream of now.
    pub fn leave(&mut self, output: &mut Vec<u8>) {
        self.0.leave(output);
    }

    /// Whether either side leaves and no stream remains.
    pub fn is_drained(&self) -> bool {
        self.0.is_drained()
    }

    /// Streams that are open, or whose jobs are under way.
    pub fn streams(&self) -> usize {
        self.0.streams()
    }

    /// The next instant at which [`Connection::expire`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    /// Acts on what is due: unacknowledged SETTINGS, an unfinished field block, blocked streams, the second GOAWAY. Calls
    /// `lost` for each stream it resets.
    ///
    /// # Errors
    /// The connection failed; GOAWAY is in the output.
    pub fn expire(
        &mut self,
        now: Instant,
        output: &mut Vec<u8>,
        lost: impl FnMut(u32, Code),
    ) -> Result<(), Fault> {
        self.0.expire(now, output, lost)
    }

    /// Gives back memory an idle connection does not need. Call when the last stream has ended and input is awaited.
    pub fn trim(&mut self) {
        self.0.trim();
    }

    /// Bytes of memory the connection holds, its own size included.
    pub fn memory(&self) -> usize {
        self.0.memory()
    }
}

#[cfg(test)]
mod tests;
