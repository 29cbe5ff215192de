//! The streams of one connection, as its session sees them.

use crate::unread::Unread;
use bytes::Bytes;
use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt, WriteError};
use runtime::clock::to_standard;
use runtime::streams::{Input, Transport};
use units::Instant;

/// Bytes given at a time while congestion control lets everything out: some 50 packets, a few calls of the system.
const ROOM: usize = 64 << 10;

/// Bytes that may wait for congestion control when it has stopped the transport: about two packets, so that what is more
/// urgent overtakes the rest.
const ROOM_HELD: usize = 2_400;

/// Bytes given to the transport that it has not sent yet. An estimate: a packet that is sent again counts twice, and the
/// reset of one stream drops the bytes of all from it, so it may be too low.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unsent {
    bytes: usize,
    /// Bytes sent since the transport last stopped while some were left; `None` if none were left.
    released: Option<usize>,
}

impl Unsent {
    /// The transport made a payload of this size.
    pub(crate) fn left(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(released) = &mut self.released {
            *released = released.saturating_add(bytes);
        }
    }

    /// The transport sends nothing more now.
    pub(crate) fn settle(&mut self) {
        self.released = (self.bytes > 0).then_some(0);
    }

    /// A stream was reset: what waited of it is never sent, and how much that was is not known.
    fn forget(&mut self) {
        self.bytes = 0;
    }

    /// Bytes that the transport may be given now. As many may wait as it has sent since it stopped. So an acknowledgment
    /// that lets two packets out is answered with two, and one that lets out a hundred with few calls of the system. What
    /// waits takes no longer than the time between two acknowledgments.
    fn room(&self) -> usize {
        let most = self
            .released
            .map_or(ROOM, |released| released.clamp(ROOM_HELD, ROOM));
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

/// An application error code. One that no frame can carry becomes the largest.
pub(crate) fn code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// Writes until all `length` bytes are accepted or the stream is blocked. `write` gets the number of bytes accepted so far.
/// The library reports a stream as writable again only after it refused a write, not after it accepted a part.
fn until_blocked(
    length: usize,
    mut write: impl FnMut(usize) -> Result<usize, WriteError>,
) -> Result<usize, WriteError> {
    let mut written = 0;
    while written < length {
        match write(written) {
            Ok(bytes) => written += bytes,
            Err(WriteError::Blocked) if written > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
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
        let mut stream = self.quic.send_stream(name(stream)?);
        let result = until_blocked(bytes.len(), |written| stream.write(&bytes[written..]));
        self.gave(result)
    }

    fn write_shared(&mut self, stream: u64, bytes: &mut Bytes) -> Option<usize> {
        if bytes.is_empty() {
            return Some(0);
        }
        let mut stream = self.quic.send_stream(name(stream)?);
        let result = until_blocked(bytes.len(), |_| {
            let written = stream.write_chunks(std::slice::from_mut(bytes))?;
            Ok(written.bytes)
        });
        self.gave(result)
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
            if self.quic.send_stream(id).reset(code(error)).is_ok() {
                self.unsent.forget();
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the transport what it has room for, until congestion control has let this many bytes out. Returns the
    /// payloads and the bytes that wait then.
    fn let_out(unsent: &mut Unsent, mut window: usize) -> (usize, usize) {
        let mut payloads = 0;
        loop {
            unsent.bytes += unsent.room();
            let sent = unsent.bytes.min(window);
            if sent == 0 {
                unsent.settle();
                return (payloads, unsent.bytes);
            }
            window -= sent;
            payloads += 1;
            unsent.left(sent);
        }
    }

    #[test]
    fn at_most_as_many_bytes_wait_as_the_last_acknowledgment_let_out() {
        let mut unsent = Unsent::default();
        assert_eq!(let_out(&mut unsent, 10_000), (1, ROOM));
        // What waits beyond the room leaves first.
        assert_eq!(let_out(&mut unsent, ROOM - 2_000), (1, ROOM - 2_000));
        assert_eq!(let_out(&mut unsent, 30_000), (1, ROOM - 32_000));
        for _ in 0..20 {
            let_out(&mut unsent, 2_400);
        }
        for _ in 0..10 {
            assert_eq!(let_out(&mut unsent, 2_400), (1, ROOM_HELD));
        }
        let (_, waiting) = let_out(&mut unsent, 14_000);
        assert!((ROOM_HELD..=14_000).contains(&waiting), "{waiting} bytes wait");
        let (payloads, waiting) = let_out(&mut unsent, 200_000);
        assert!(payloads <= 9, "{payloads} payloads");
        assert!(waiting <= ROOM, "{waiting} bytes wait");
    }

    #[test]
    fn a_write_that_was_taken_in_part_goes_on_until_it_is_refused() {
        let mut answers = vec![Err(WriteError::Blocked), Ok(30), Ok(20)];
        let mut seen = Vec::new();
        let result = until_blocked(100, |written| {
            seen.push(written);
            answers.pop().expect("no call after a refusal")
        });
        assert_eq!((result, seen), (Ok(50), vec![0, 20, 50]));
        assert_eq!(until_blocked(100, |_| Ok(100)), Ok(100));
        assert_eq!(
            until_blocked(100, |_| Err(WriteError::Blocked)),
            Err(WriteError::Blocked)
        );
    }

    #[test]
    fn what_a_reset_stream_left_takes_no_room() {
        let mut unsent = Unsent::default();
        assert_eq!(let_out(&mut unsent, 1_000), (1, ROOM));
        assert_eq!(unsent.room(), 0);
        unsent.forget();
        assert_eq!(unsent.room(), ROOM_HELD);
    }

    #[test]
    fn a_transport_that_let_everything_out_gets_a_full_room() {
        let mut unsent = Unsent::default();
        let_out(&mut unsent, 1_000);
        unsent.left(unsent.bytes);
        unsent.settle();
        assert_eq!(unsent.room(), ROOM);
    }
}
