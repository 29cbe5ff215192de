//! Messages out: heads at once, bodies pulled piece by piece in the order of RFC 9218.

use super::stream::{Stream, UNKNOWN, signed};
use super::{Drain, Engine, Role};
use crate::error::{Code, Misuse};
use crate::frame::{HEADER, WINDOW_MAX, write};
use http_semantics::priority::Priority;
use http_semantics::schedule::{Candidate, Order};
use units::Instant;

/// Bytes a blocked stream must pass within `Limits::stall_time`.
const PROGRESS: u16 = 4096;

/// The DATA frame whose header was written: the caller appends `bytes` of the stream's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Stream.
    pub stream: u32,
    /// Bytes to append, possibly 0 at the end of a body.
    pub bytes: usize,
    /// Whether this ends the stream.
    pub last: bool,
    /// Bytes of the body that follow in later frames; `u64::MAX` if unknown.
    pub left: u64,
}

impl Engine {
    /// Writes the prepared block and `fields` as HEADERS, behind the table size updates that are due.
    fn block<'f>(
        &mut self,
        id: u32,
        block: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        output: &mut Vec<u8>,
    ) {
        let (max, mut fields) = (self.peer.frame_size, fields.into_iter().peekable());
        let mut whole = Vec::new();
        self.encoder.begin(&mut whole);
        if whole.is_empty() && fields.peek().is_none() {
            return write::headers(output, id, block, end, max);
        }
        whole.extend_from_slice(block);
        for (name, value) in fields {
            self.encoder.field(name, value, &mut whole);
        }
        write::headers(output, id, &whole, end, max);
    }

    /// Whether a stream may be opened.
    pub(crate) fn has_room(&self) -> bool {
        let leaving = self.peer_leaves.is_some() || self.drain != Drain::No || self.failed.is_some();
        !leaving && self.streams.len() < self.peer.streams_max as usize && self.next <= WINDOW_MAX
    }

    /// Streams of ours that the peer permits at a time.
    pub(crate) fn streams_max(&self) -> u32 {
        self.peer.streams_max
    }

    /// Opens a stream with a request.
    pub(crate) fn request_out<'f>(
        &mut self,
        block: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        bodiless: bool,
        priority: Priority,
        output: &mut Vec<u8>,
    ) -> Result<u32, Misuse> {
        if !self.has_room() {
            return Err(Misuse::Full);
        }
        let id = self.next;
        self.next += 2;
        let mut stream = Stream::new(id, self.peer.window, self.new_window());
        (stream.head_sent, stream.local_end, stream.bodiless) = (true, end, bodiless);
        (stream.priority, stream.turn) = (priority, self.turns.now());
        self.streams.push(stream);
        self.block(id, block, fields, end, output);
        Ok(id)
    }

    fn at(&self, id: u32) -> Result<usize, Misuse> {
        match self.failed {
            Some(_) => Err(Misuse::Gone),
            None => self.live(id).ok_or(Misuse::Gone),
        }
    }

    /// An interim response.
    pub(crate) fn inform(&mut self, id: u32, block: &[u8], output: &mut Vec<u8>) -> Result<(), Misuse> {
        let at = self.at(id)?;
        if self.streams[at].head_sent {
            return Err(Misuse::Order);
        }
        self.block(id, block, None, false, output);
        Ok(())
    }

    /// The final response.
    pub(crate) fn respond<'f>(
        &mut self,
        id: u32,
        block: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        output: &mut Vec<u8>,
    ) -> Result<(), Misuse> {
        let at = self.at(id)?;
        if self.streams[at].head_sent {
            return Err(Misuse::Order);
        }
        self.block(id, block, fields, end, output);
        let stream = &mut self.streams[at];
        (stream.head_sent, stream.local_end) = (true, end);
        self.close_if_done(at, output);
        Ok(())
    }

    pub(crate) fn ready(&mut self, id: u32, bytes: u64) -> Result<(), Misuse> {
        let at = self.at(id)?;
        let stream = &mut self.streams[at];
        if !stream.head_sent || stream.local_end || stream.finished {
            return Err(Misuse::Order);
        }
        stream.ready += bytes;
        Ok(())
    }

    pub(crate) fn length(&mut self, id: u32, bytes: u64) {
        if let Ok(at) = self.at(id) {
            self.streams[at].left = bytes;
        }
    }

    pub(crate) fn finish(&mut self, id: u32) -> Result<(), Misuse> {
        self.ready(id, 0)?;
        let at = self.at(id)?;
        self.streams[at].finished = true;
        Ok(())
    }

    pub(crate) fn trailers_out(&mut self, id: u32, block: &[u8], output: &mut Vec<u8>) -> Result<(), Misuse> {
        let at = self.at(id)?;
        let stream = &mut self.streams[at];
        if !stream.head_sent || stream.local_end || stream.finished || stream.ready > 0 {
            return Err(Misuse::Order);
        }
        stream.local_end = true;
        self.block(id, block, None, true, output);
        self.close_if_done(at, output);
        Ok(())
    }

    pub(crate) fn reset(&mut self, id: u32, code: Code, output: &mut Vec<u8>) {
        if self.at(id).is_ok() {
            self.abort(id, code, None, output)
                .expect("only a provoked reset is rationed");
        }
    }

    /// The caller has dealt with `bytes` of the body: returns them to both windows.
    pub(crate) fn consumed(&mut self, id: u32, bytes: u32, output: &mut Vec<u8>) {
        // The bytes of a closed stream were returned when it closed.
        let Some(at) = self.live(id).filter(|_| self.failed.is_none()) else {
            return;
        };
        let half = self.limits.stream_window / 2;
        let stream = &mut self.streams[at];
        let bytes = bytes.min(stream.held);
        stream.held -= bytes;
        stream.credit += bytes;
        if stream.credit > half && !stream.remote_end {
            write::window_update(output, id, stream.credit);
            stream.receive_window += signed(stream.credit);
            stream.credit = 0;
        }
        self.return_credit(bytes, output);
    }

    pub(crate) fn granted(&self, id: u32) -> u32 {
        let window = match id {
            0 => self.receive_window,
            id => self.live(id).map_or(0, |at| self.streams[at].receive_window),
        };
        window.max(0).unsigned_abs()
    }

    /// Chooses the stream that sends next and writes the header of its DATA frame. `room` bounds the frame with its
    /// header, in bytes. `None` if nothing is ready, flow control blocks it, or `room` is below ten bytes.
    pub(crate) fn next(&mut self, room: usize, now: Instant, output: &mut Vec<u8>) -> Option<Piece> {
        let room = room.checked_sub(HEADER).filter(|&room| room > 0)?;
        if self.failed.is_some() {
            return None;
        }
        let at = self.choose(now)?;
        let stream = &mut self.streams[at];
        stream.turn = self.turns.taken(stream.priority);
        let windows = stream.send_window.min(self.send_window).max(0) as u64;
        let most = windows.min(room as u64).min(u64::from(self.peer.frame_size));
        let bytes = stream.ready.min(most) as u32;
        stream.ready -= u64::from(bytes);
        if stream.left != UNKNOWN {
            stream.left = stream.left.saturating_sub(u64::from(bytes));
        }
        let sent = signed(bytes);
        stream.send_window -= sent;
        self.send_window -= sent;
        stream.crept = stream.crept.saturating_add(bytes.min(u32::from(u16::MAX)) as u16);
        if stream.crept >= PROGRESS || stream.ready == 0 {
            (stream.blocked, stream.crept) = (None, 0);
        }
        let last = stream.finished && stream.ready == 0;
        stream.local_end = last;
        let piece = Piece {
            stream: stream.id,
            bytes: bytes as usize,
            last,
            left: if last { 0 } else { stream.remaining() },
        };
        write::data(output, piece.stream, piece.bytes, last);
        self.close_if_done(at, output);
        Some(piece)
    }

    /// The stream that sends next. Notes since when flow control blocks the others.
    fn choose(&mut self, now: Instant) -> Option<usize> {
        let order = match self.limits.smallest_first {
            true => Order::SmallestFirst,
            false => Order::Turns,
        };
        let closed = self.send_window <= 0;
        // Streams are in the order in which they began.
        let candidates = self.streams.iter_mut().enumerate().filter_map(|(at, stream)| {
            let candidate = Candidate {
                priority: stream.priority,
                left: stream.remaining(),
                turn: stream.turn,
            };
            stream.may_send(closed, now).then_some((at, candidate))
        });
        self.turns.choose(order, candidates)
    }

    /// Announces the priority of our request (RFC 9218 section 7.1).
    pub(crate) fn prioritize(&mut self, id: u32, priority: Priority, output: &mut Vec<u8>) {
        if let Ok(at) = self.at(id) {
            self.streams[at].priority = priority;
            if self.role == Role::Client {
                write::priority_update(output, id, priority.value());
            }
        }
    }
}
