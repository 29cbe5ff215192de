//! QUIC streams in memory, as the transport of crate `h3`: ordered bytes, ends and resets, without packets.

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{
    BidiStream, Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream,
    StreamErrorIncoming, StreamId, WriteBuf,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

/// One direction of a stream.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) bytes: Vec<u8>,
    pub(crate) fin: bool,
    pub(crate) reset: Option<u64>,
    pub(crate) stop: Option<u64>,
    /// The receiver of a stream has seen its end.
    pub(crate) done: bool,
}

/// All streams of a connection.
#[derive(Debug)]
pub(crate) struct Wire {
    /// Towards `h3`, and from it.
    pub(crate) to: BTreeMap<u64, Lane>,
    pub(crate) from: BTreeMap<u64, Lane>,
    /// Streams of ours that `h3` has not accepted.
    pub(crate) bidirectional: VecDeque<u64>,
    pub(crate) unidirectional: VecDeque<u64>,
    /// The next streams that `h3` opens.
    next_bidirectional: u64,
    next_unidirectional: u64,
    /// Bytes that each direction of a stream holds.
    pub(crate) room: usize,
    /// The code with which `h3` closed the connection.
    pub(crate) closed: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Quic(Arc<Mutex<Wire>>);

impl Quic {
    /// A transport for a client, or a server, of `h3`.
    pub(crate) fn new(is_client: bool, room: usize) -> Quic {
        let first = u64::from(!is_client);
        Quic(Arc::new(Mutex::new(Wire {
            to: BTreeMap::new(),
            from: BTreeMap::new(),
            bidirectional: VecDeque::new(),
            unidirectional: VecDeque::new(),
            next_bidirectional: first,
            next_unidirectional: first + 2,
            room,
            closed: None,
        })))
    }

    pub(crate) fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().expect("no test thread panicked")
    }

    fn end(&self, id: u64) -> End {
        End {
            quic: self.clone(),
            id,
            pending: None,
        }
    }
}

impl OpenStreams<Bytes> for Quic {
    type BidiStream = End;
    type SendStream = End;

    fn poll_open_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<End, StreamErrorIncoming>> {
        let mut wire = self.wire();
        let id = wire.next_bidirectional;
        wire.next_bidirectional += 4;
        wire.from.entry(id).or_default();
        drop(wire);
        Poll::Ready(Ok(self.end(id)))
    }

    fn poll_open_send(&mut self, _: &mut Context<'_>) -> Poll<Result<End, StreamErrorIncoming>> {
        let mut wire = self.wire();
        let id = wire.next_unidirectional;
        wire.next_unidirectional += 4;
        wire.from.entry(id).or_default();
        drop(wire);
        Poll::Ready(Ok(self.end(id)))
    }

    fn close(&mut self, code: Code, _: &[u8]) {
        self.wire().closed.get_or_insert(code.value());
    }
}

impl Connection<Bytes> for Quic {
    type RecvStream = End;
    type OpenStreams = Quic;

    fn poll_accept_recv(&mut self, _: &mut Context<'_>) -> Poll<Result<End, ConnectionErrorIncoming>> {
        let id = self.wire().unidirectional.pop_front();
        id.map_or(Poll::Pending, |id| Poll::Ready(Ok(self.end(id))))
    }

    fn poll_accept_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<End, ConnectionErrorIncoming>> {
        let id = self.wire().bidirectional.pop_front();
        id.map_or(Poll::Pending, |id| Poll::Ready(Ok(self.end(id))))
    }

    fn opener(&self) -> Quic {
        self.clone()
    }
}

/// The end of `h3` of one stream.
pub(crate) struct End {
    quic: Quic,
    id: u64,
    pending: Option<WriteBuf<Bytes>>,
}

fn id(id: u64) -> StreamId {
    StreamId::try_from(id).expect("a stream of the test")
}

impl SendStream<Bytes> for End {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let mut wire = self.quic.wire();
        let room = wire.room;
        let lane = wire.from.entry(self.id).or_default();
        if let Some(error_code) = lane.stop {
            return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code }));
        }
        if let Some(pending) = &mut self.pending {
            while pending.has_remaining() && lane.bytes.len() < room {
                let chunk = pending.chunk();
                let bytes = chunk.len().min(room - lane.bytes.len());
                lane.bytes.extend_from_slice(&chunk[..bytes]);
                pending.advance(bytes);
            }
            if pending.has_remaining() {
                return Poll::Pending;
            }
        }
        drop(wire);
        self.pending = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        assert!(self.pending.is_none(), "h3 waits for poll_ready");
        self.pending = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let ready = self.poll_ready(cx);
        if let Poll::Ready(Ok(())) = ready {
            self.quic.wire().from.entry(self.id).or_default().fin = true;
        }
        ready
    }

    fn reset(&mut self, code: u64) {
        self.quic.wire().from.entry(self.id).or_default().reset = Some(code);
    }

    fn send_id(&self) -> StreamId {
        id(self.id)
    }
}

impl RecvStream for End {
    type Buf = Bytes;

    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let mut wire = self.quic.wire();
        let lane = wire.to.entry(self.id).or_default();
        if !lane.bytes.is_empty() {
            let bytes = core::mem::take(&mut lane.bytes);
            return Poll::Ready(Ok(Some(Bytes::from(bytes))));
        }
        // Behind the bytes, although QUIC may drop them: the plan says what the other end must have seen.
        if let Some(error_code) = lane.reset {
            return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code }));
        }
        if lane.fin {
            lane.done = true;
            return Poll::Ready(Ok(None));
        }
        Poll::Pending
    }

    fn stop_sending(&mut self, code: u64) {
        self.quic.wire().to.entry(self.id).or_default().stop = Some(code);
    }

    fn recv_id(&self) -> StreamId {
        id(self.id)
    }
}

impl BidiStream<Bytes> for End {
    type SendStream = End;
    type RecvStream = End;

    fn split(self) -> (End, End) {
        let other = self.quic.end(self.id);
        (self, other)
    }
}
