//! The streams of one connection, as its session sees them.

use crate::unread::Unread;
use bytes::Bytes;
use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt, WriteError};
use runtime::clock::to_standard;
use runtime::streams::{Input, Transport};
use units::Instant;

/// Bytes given at a time while congestion control lets everything out: some 50 packets, a few calls of the system.
const ROOM: usize = 64 << 10;

/// Bytes that may wait for congestion control: about two packets, so that what is more urgent overtakes the rest.
const ROOM_HELD: usize = 2_400;

/// Bytes given to the transport that it has not sent yet. An estimate: a packet that is sent again counts twice, so
/// it may be too low.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unsent {
    bytes: usize,
    /// Whether the transport stopped sending while some were left.
    is_held: bool,
}

impl Unsent {
    /// The transport made a payload of this size.
    pub(crate) fn left(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// The transport sends nothing more now.
    pub(crate) fn settle(&mut self) {
        self.is_held = self.bytes > 0;
    }

    fn room(&self) -> usize {
        let most = if self.is_held { ROOM_HELD } else { ROOM };
        most.saturating_sub(self.bytes)
    }
}

/// A connection for the time of a call.
pub(crate) struct Carrier<'c> {
    pub(crate) quic: &'c mut Connection,
    pub(crate) unsent: &'c mut Unsent,
    pub(crate) unread: &'c mut Unread,
    pub(crate) now: Instant,
}

fn name(stream: u64) -> Option<StreamId> {
    VarInt::from_u64(stream).ok().map(StreamId::from)
}

/// Whether a peer's stream ends with a request. The others stay as long as the connection.
fn is_request(id: StreamId) -> bool {
    id.dir() == Dir::Bi
}

fn code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

impl Carrier<'_> {
    fn gave(&mut self, result: Result<usize, WriteError>) -> Option<usize> {
        match result {
            Ok(bytes) => {
                self.unsent.bytes += bytes;
                Some(bytes)
            }
            Err(WriteError::Blocked) => Some(0),
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => None,
        }
    }
}

impl Transport for Carrier<'_> {
    fn read(&mut self, stream: u64, take: &mut dyn FnMut(&[u8])) -> Input {
        let Some(id) = name(stream) else {
            return Input::Gone;
        };
        let mut stream = self.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return Input::Gone;
        };
        let mut length = 0;
        let input = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    length += chunk.bytes.len();
                    take(&chunk.bytes);
                }
                Ok(None) => break Input::End,
                Err(ReadError::Blocked) => break Input::Open,
                Err(ReadError::Reset(code)) => break Input::Reset(code.into_inner()),
            }
        };
        // What it says about datagrams to send: the endpoint asks for them anyway.
        let _ = chunks.finalize();
        self.unread.read(length);
        if is_request(id) && input != Input::Open {
            self.unread.ended();
        }
        input
    }

    fn write(&mut self, stream: u64, bytes: &[u8]) -> Option<usize> {
        // The library would send a frame without data, in a packet that the peer has to acknowledge.
        if bytes.is_empty() {
            return Some(0);
        }
        let result = self.quic.send_stream(name(stream)?).write(bytes);
        self.gave(result)
    }

    fn write_shared(&mut self, stream: u64, bytes: &mut Bytes) -> Option<usize> {
        if bytes.is_empty() {
            return Some(0);
        }
        let mut stream = self.quic.send_stream(name(stream)?);
        let result = stream.write_chunks(std::slice::from_mut(bytes));
        self.gave(result.map(|written| written.bytes))
    }

    fn finish(&mut self, stream: u64) {
        if let Some(id) = name(stream) {
            // It fails if the peer has stopped the stream, whose event follows.
            let _ = self.quic.send_stream(id).finish();
        }
    }

    fn reset(&mut self, stream: u64, error: u64) {
        if let Some(id) = name(stream) {
            // One that has ended meanwhile needs none.
            let _ = self.quic.send_stream(id).reset(code(error));
        }
    }

    fn was_reset(&mut self, stream: u64) -> Option<u64> {
        let id = name(stream)?;
        let reset = self.quic.recv_stream(id).received_reset().ok()??;
        if is_request(id) {
            self.unread.ended();
        }
        Some(reset.into_inner())
    }

    fn stop(&mut self, stream: u64, error: u64) {
        if let Some(id) = name(stream)
            && self.quic.recv_stream(id).stop(code(error)).is_ok()
            && is_request(id)
        {
            self.unread.ended();
        }
    }

    fn open(&mut self) -> Option<u64> {
        self.quic.streams().open(Dir::Uni).map(u64::from)
    }

    fn close(&mut self, error: u64, reason: &str) {
        let reason = Bytes::copy_from_slice(reason.as_bytes());
        self.quic.close(to_standard(self.now), code(error), reason);
    }

    fn room(&self) -> usize {
        self.unsent.room()
    }
}
