//! What both roles of a connection share. `server` and `client` add their own calls.

use crate::engine::{Engine, Role};
pub use crate::engine::{Event, Output, Piece, Received};
use crate::error::{Code, Fault, Misuse};
use crate::frame::Settings;
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
///
/// The caller owns the QUIC transport. It opens one unidirectional stream when the connection begins, for control, and a
/// second one if [`Limits::table_bytes`] is not 0: their identifiers are known, so [`Connection::poll`] names them. It
/// reports the peer's streams with [`Connection::open`], in any order, and their bytes with [`Connection::receive`]; it
/// calls [`Connection::poll`] after every other call.
#[derive(Debug)]
pub struct Connection<R> {
    pub(crate) engine: Engine,
    role: PhantomData<R>,
}

impl<R> Connection<R> {
    pub(crate) fn with_role(role: Role, limits: Arc<Limits>) -> Connection<R> {
        Connection {
            engine: Engine::new(role, limits),
            role: PhantomData,
        }
    }

    /// The peer has opened this stream.
    ///
    /// # Errors
    /// The connection failed: close it with the code and the text of the fault.
    pub fn open(&mut self, stream: u64, now: Instant) -> Result<(), Fault> {
        self.engine.open(stream, now)
    }

    /// Takes input of a stream, in its order; `fin` says that the stream ends behind `input`. Drop `used` bytes and call
    /// again, with the same `fin`, until the event is [`Event::Partial`], also when no bytes are left: events remain.
    pub fn receive<'a>(&'a mut self, stream: u64, input: &'a [u8], fin: bool, now: Instant) -> Received<'a> {
        self.engine.receive(stream, input, fin, now)
    }

    /// The peer sent RESET_STREAM. Returns whether a request or response ended by that: its stream is gone.
    ///
    /// # Errors
    /// The connection failed: the stream was a critical one, or there are too many resets.
    pub fn peer_reset(&mut self, stream: u64, now: Instant) -> Result<bool, Fault> {
        self.engine.peer_reset(stream, now)
    }

    /// The peer sent STOP_SENDING. Returns whether a response ended by that: its stream is gone. A request goes on without
    /// the rest of its body.
    ///
    /// # Errors
    /// As [`Connection::peer_reset`].
    pub fn peer_stopped(&mut self, stream: u64, code: Code, now: Instant) -> Result<bool, Fault> {
        self.engine.peer_stopped(stream, code, now)
    }

    /// What the transport must do next; `None` if there is nothing, or flow control blocks it.
    pub fn poll(&mut self) -> Option<Output<'_>> {
        self.engine.poll()
    }

    /// Says that the transport took `bytes` of the last [`Piece`] of this stream: first of its frames, then of its body, and
    /// its end if these were all bytes.
    pub fn sent(&mut self, stream: u64, bytes: u64) {
        self.engine.sent(stream, bytes);
    }

    /// Says that flow control blocks our half of the stream: [`Connection::poll`] passes it over.
    pub fn blocked(&mut self, stream: u64, now: Instant) {
        self.engine.blocked(stream, now);
    }

    /// Says that flow control no longer blocks our half of the stream.
    pub fn writable(&mut self, stream: u64) {
        self.engine.writable(stream);
    }

    /// Says that `bytes` more of the body are ready to be sent.
    ///
    /// # Errors
    /// The stream is gone, its head was not sent, or its body is finished.
    pub fn ready(&mut self, stream: u64, bytes: u64) -> Result<(), Misuse> {
        self.engine.ready(stream, bytes)
    }

    /// Says that the bytes ready are the last.
    ///
    /// # Errors
    /// As [`Connection::ready`].
    pub fn finish(&mut self, stream: u64) -> Result<(), Misuse> {
        self.engine.finish(stream)
    }

    /// Notes how many bytes the body has, so that shorter bodies go first; no effect if the stream is gone.
    pub fn length(&mut self, stream: u64, bytes: u64) {
        self.engine.length(stream, bytes);
    }

    /// Ends the body with a trailer section, instead of `finish`.
    ///
    /// # Errors
    /// As [`Connection::ready`].
    pub fn trailers(&mut self, stream: u64, block: &[u8]) -> Result<(), Misuse> {
        self.engine.trailers_out(stream, block)
    }

    /// Ends both halves of a stream; no effect if it is gone.
    pub fn reset(&mut self, stream: u64, code: Code) {
        self.engine.reset(stream, code);
    }

    /// Ends the peer's half of a stream and goes on with ours. A server that has answered without the whole body of the
    /// request uses H3_NO_ERROR (RFC 9114 section 4.1).
    pub fn stop(&mut self, stream: u64, code: Code) {
        self.engine.stop(stream, code);
    }

    /// Begins a graceful shutdown (RFC 9114 section 5.2). Close with H3_NO_ERROR once [`Connection::is_drained`].
    pub fn shut_down(&mut self, now: Instant) {
        self.engine.shut_down(now);
    }

    /// Whether either side leaves and no stream remains.
    pub fn is_drained(&self) -> bool {
        self.engine.is_drained()
    }

    /// Streams that are open, or whose jobs are under way.
    pub fn streams(&self) -> usize {
        self.engine.streams()
    }

    /// The peer's SETTINGS, once they have come. Field sections above its `section_size` may be refused.
    pub fn peer(&self) -> Option<Settings> {
        self.engine.peer()
    }

    /// The next instant at which [`Connection::expire`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.engine.deadline()
    }

    /// Acts on what is due: heads that have not come, blocked streams, the second GOAWAY. Calls `lost` for each request or
    /// response that ends by that.
    ///
    /// # Errors
    /// The connection failed.
    pub fn expire(&mut self, now: Instant, lost: impl FnMut(u64, Code)) -> Result<(), Fault> {
        self.engine.expire(now, lost)
    }

    /// Gives back memory an idle connection does not need.
    pub fn trim(&mut self) {
        self.engine.trim();
    }

    /// Bytes of memory the connection holds, its own size included.
    pub fn memory(&self) -> usize {
        self.engine.memory()
    }
}
