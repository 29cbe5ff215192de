//! What both roles of a connection share. `server` and `client` add their own calls.

use crate::engine::{Engine, Role};
pub use crate::engine::{Event, Piece, Received};
use crate::error::{Code, Fault, Misuse};
use crate::limits::Limits;
use core::marker::PhantomData;
use std::sync::Arc;
use units::Instant;

/// The role of `server::Connection`.
#[derive(Debug)]
pub enum Server {}

/// The role of `client::Connection`.
#[derive(Debug)]
pub enum Client {}

/// One end of a connection, in the role `R`.
#[derive(Debug)]
pub struct Connection<R> {
    pub(crate) engine: Engine,
    role: PhantomData<R>,
}

impl<R> Connection<R> {
    pub(crate) fn with_role(
        role: Role,
        limits: Arc<Limits>,
        now: Instant,
        output: &mut Vec<u8>,
    ) -> Connection<R> {
        Connection {
            engine: Engine::new(role, limits, now, output),
            role: PhantomData,
        }
    }

    /// Takes input: drop `used` bytes and call again, until the event is [`Event::Partial`]; then offer the rest again
    /// with more bytes. Frames other than DATA must fit the caller's buffer: 16,393 bytes. Stop calling while much
    /// output is unsent: some frames demand an answer.
    pub fn receive<'a>(&'a mut self, input: &'a [u8], now: Instant, output: &mut Vec<u8>) -> Received<'a> {
        self.engine.receive(input, now, output)
    }

    /// Says that `bytes` more of the body are ready to be sent.
    ///
    /// # Errors
    /// The stream is gone, its head was not sent, or its body is finished.
    pub fn ready(&mut self, stream: u32, bytes: u64) -> Result<(), Misuse> {
        self.engine.ready(stream, bytes)
    }

    /// Says that the bytes ready are the last. Call early: with the length known, shorter bodies go first.
    ///
    /// # Errors
    /// As [`Connection::ready`].
    pub fn finish(&mut self, stream: u32) -> Result<(), Misuse> {
        self.engine.finish(stream)
    }

    /// Chooses the stream that sends next and writes the header of its DATA frame to `output`; the caller sends
    /// `bytes` of that body behind it. `room` bounds header and body, in bytes. `None` if nothing is ready, flow control
    /// blocks it, or `room` is below ten bytes.
    pub fn next(&mut self, room: usize, now: Instant, output: &mut Vec<u8>) -> Option<Piece> {
        self.engine.next(room, now, output)
    }

    /// Ends the body with a trailer section, when all ready bytes were sent and instead of `finish`.
    ///
    /// # Errors
    /// The stream is gone, or bytes are still ready, or the body has ended.
    pub fn trailers(&mut self, stream: u32, block: &[u8], output: &mut Vec<u8>) -> Result<(), Misuse> {
        self.engine.trailers_out(stream, block, output)
    }

    /// Returns `bytes` of a received body to the flow-control windows. Without it the peer stops sending.
    pub fn consumed(&mut self, stream: u32, bytes: u32, output: &mut Vec<u8>) {
        self.engine.consumed(stream, bytes, output);
    }

    /// Bytes of a body that the peer may still send on this stream, as far as it was told; of all streams for stream 0.
    /// Zero for a stream that is gone.
    pub fn granted(&self, stream: u32) -> u32 {
        self.engine.granted(stream)
    }

    /// Resets a stream; no effect if it is gone.
    pub fn reset(&mut self, stream: u32, code: Code, output: &mut Vec<u8>) {
        self.engine.reset(stream, code, output);
    }

    /// Begins a graceful shutdown (RFC 9113 section 6.8): GOAWAY now, and again with the last stream after a round trip.
    /// Close once [`Connection::is_drained`].
    pub fn shut_down(&mut self, now: Instant, output: &mut Vec<u8>) {
        self.engine.shut_down(now, output);
    }

    /// Whether either side leaves and no stream remains.
    pub fn is_drained(&self) -> bool {
        self.engine.is_drained()
    }

    /// Streams that are open, or whose jobs are under way.
    pub fn streams(&self) -> usize {
        self.engine.streams()
    }

    /// The next instant at which [`Connection::expire`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.engine.deadline()
    }

    /// Acts on what is due: unacknowledged SETTINGS, an unfinished field block, blocked streams, the second GOAWAY, the
    /// dynamic table of an idle peer. Calls `lost` for each stream it resets.
    ///
    /// # Errors
    /// The connection failed; GOAWAY is in the output.
    pub fn expire(
        &mut self,
        now: Instant,
        output: &mut Vec<u8>,
        lost: impl FnMut(u32, Code),
    ) -> Result<(), Fault> {
        self.engine.expire(now, output, lost)
    }

    /// Gives back memory an idle connection does not need. Call when the last stream has ended and input is awaited.
    /// `Limits::table_time` later, [`Connection::expire`] asks the peer to empty a large dynamic table.
    pub fn trim(&mut self, now: Instant) {
        self.engine.trim(now);
    }

    /// Bytes of memory the connection holds, its own size included.
    pub fn memory(&self) -> usize {
        self.engine.memory()
    }
}
