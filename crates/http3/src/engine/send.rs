//! Messages out: heads and bodies, pulled in the order of RFC 9218.

use super::stream::{Stream, UNKNOWN};
use super::{Action, Drain, Engine, Role};
use crate::error::{Code, Misuse};
use crate::frame::{kind, write};
use crate::qpack::block::field;
use http_semantics::priority::Priority;
use http_semantics::schedule::{Candidate, Order};
use units::Instant;

/// Bytes a blocked stream must pass within `Limits::stall_time`.
const PROGRESS: u16 = 4096;

/// What the transport must do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// Send bytes.
    Write(Piece<'a>),
    /// Send RESET_STREAM: our half of the stream ends.
    Reset {
        /// Stream.
        stream: u64,
        /// Application error code.
        code: Code,
    },
    /// Send STOP_SENDING: the peer's half of the stream is not read any more.
    Stop {
        /// Stream.
        stream: u64,
        /// Application error code.
        code: Code,
    },
}

/// Bytes for one stream, in this order: `frames`, `body` bytes of the stream's body, and its end if `end`. Say with `sent`
/// how many of them the transport took.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Stream.
    pub stream: u64,
    /// Bytes of frames.
    pub frames: &'a [u8],
    /// Bytes of the body behind them, from the caller.
    pub body: u64,
    /// Whether the stream ends behind all of them.
    pub end: bool,
}

impl Engine {
    /// Appends HEADERS: the prepared section and `fields` behind it.
    fn headers<'f>(block: &[u8], fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>, out: &mut Vec<u8>) {
        let mut more = Vec::new();
        for (name, value) in fields {
            field(name, value, &mut more);
        }
        write::header(kind::HEADERS, (block.len() + more.len()) as u64, out);
        out.extend_from_slice(block);
        out.extend_from_slice(&more);
    }

    /// Whether a request may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.peer_leaves.is_none() && self.drain == Drain::No && self.failed.is_none()
    }

    /// Sends a request on a stream that the caller has opened.
    pub(crate) fn request_out<'f>(
        &mut self,
        id: u64,
        block: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        bodiless: bool,
        priority: Priority,
    ) -> Result<(), Misuse> {
        if !self.has_room() {
            return Err(Misuse::Full);
        }
        if id & 3 != 0 || self.streams.binary_search_by_key(&id, |stream| stream.id).is_ok() {
            return Err(Misuse::Order);
        }
        let mut stream = Stream::new(id);
        (stream.head_sent, stream.finished, stream.bodiless) = (true, end, bodiless);
        (stream.priority, stream.turn) = (priority, self.turns.now());
        Self::headers(block, fields, &mut stream.frames);
        stream.heads = stream.frames.len();
        self.insert(stream);
        Ok(())
    }

    fn at(&self, id: u64) -> Result<usize, Misuse> {
        match self.failed {
            Some(_) => Err(Misuse::Gone),
            None => self.live(id).ok_or(Misuse::Gone),
        }
    }

    /// An interim response, or the final one, which `is_final`.
    pub(crate) fn respond<'f>(
        &mut self,
        id: u64,
        block: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        is_final: bool,
        end: bool,
    ) -> Result<(), Misuse> {
        let at = self.at(id)?;
        let stream = &mut self.streams[at];
        if stream.head_sent {
            return Err(Misuse::Order);
        }
        Self::headers(block, fields, &mut stream.frames);
        stream.heads = stream.frames.len();
        (stream.head_sent, stream.finished) = (is_final, end);
        Ok(())
    }

    /// The stream of a body to which something may be added.
    fn sending(&mut self, id: u64) -> Result<&mut Stream, Misuse> {
        let at = self.at(id)?;
        let stream = &mut self.streams[at];
        let is_open = stream.head_sent && !stream.local_end && !stream.finished;
        if is_open { Ok(stream) } else { Err(Misuse::Order) }
    }

    pub(crate) fn ready(&mut self, id: u64, bytes: u64) -> Result<(), Misuse> {
        let stream = self.sending(id)?;
        stream.ready += bytes;
        Ok(())
    }

    pub(crate) fn length(&mut self, id: u64, bytes: u64) {
        if let Ok(at) = self.at(id) {
            self.streams[at].left = bytes;
        }
    }

    pub(crate) fn finish(&mut self, id: u64) -> Result<(), Misuse> {
        self.sending(id)?.finished = true;
        Ok(())
    }

    pub(crate) fn trailers_out(&mut self, id: u64, block: &[u8]) -> Result<(), Misuse> {
        let stream = self.sending(id)?;
        Self::headers(block, None, &mut stream.tail);
        stream.finished = true;
        Ok(())
    }

    /// What the transport must do next: ends of streams, then our control stream, then the stream that comes first.
    /// Heads wait for one turn of another stream at most: a request whose head waits for bodies looks like an attack.
    pub(crate) fn poll(&mut self) -> Option<Output<'_>> {
        if self.failed.is_some() {
            return None;
        }
        if let Some(action) = self.actions.pop_front() {
            return Some(match action {
                Action::Reset(stream, code) => Output::Reset { stream, code },
                Action::Stop(stream, code) => Output::Stop { stream, code },
            });
        }
        self.decoder.announce(&mut self.acknowledgments.bytes);
        if self.control.may_send() {
            return Some(Output::Write(self.control.piece()));
        }
        if self.acknowledgments.may_send() {
            return Some(Output::Write(self.acknowledgments.piece()));
        }
        let (at, is_head_only) = self.choose()?;
        if is_head_only {
            let stream = &self.streams[at];
            return Some(Output::Write(Piece {
                stream: stream.id,
                frames: &stream.frames[..stream.heads],
                body: 0,
                end: false,
            }));
        }
        let stream = &mut self.streams[at];
        stream.turn = self.turns.taken(stream.priority);
        if stream.body == 0 && stream.ready > 0 {
            write::header(kind::DATA, stream.ready, &mut stream.frames);
            stream.body = core::mem::take(&mut stream.ready);
        }
        if stream.body == 0 && !stream.tail.is_empty() {
            stream.frames.append(&mut stream.tail);
        }
        let end = stream.finished && stream.ready == 0 && stream.tail.is_empty();
        Some(Output::Write(Piece {
            stream: stream.id,
            frames: &stream.frames,
            body: stream.body,
            end,
        }))
    }

    /// The stream that sends next, and whether only its head may go.
    fn choose(&mut self) -> Option<(usize, bool)> {
        let order = match self.limits.smallest_first {
            true => Order::SmallestFirst,
            false => Order::Turns,
        };
        // Streams are in the order in which they began.
        let candidates = self.streams.iter().enumerate().filter_map(|(at, stream)| {
            let candidate = Candidate {
                priority: stream.priority,
                left: stream.remaining(),
                turn: stream.turn,
            };
            stream.may_send().then_some((at, candidate))
        });
        let best = self.turns.choose(order, candidates)?;
        let head = match self.streams[best].heads {
            0 => self.streams.iter().position(Stream::has_head),
            _ => None,
        };
        Some(match head {
            Some(at) => {
                let stream = &self.streams[at];
                (at, stream.body > 0 || stream.ready > 0 || !stream.tail.is_empty())
            }
            None => (best, false),
        })
    }

    /// The transport took `bytes` of the last piece of this stream, and its end if that was all.
    pub(crate) fn sent(&mut self, id: u64, bytes: u64) {
        for outbound in [&mut self.control, &mut self.acknowledgments] {
            if outbound.id == id {
                let taken = (bytes as usize).min(outbound.bytes.len());
                outbound.bytes.drain(..taken);
                return;
            }
        }
        let Some(at) = self.live(id).filter(|&at| !self.streams[at].local_end) else {
            return;
        };
        let stream = &mut self.streams[at];
        let frames = bytes.min(stream.frames.len() as u64);
        stream.frames.drain(..frames as usize);
        stream.heads = stream.heads.saturating_sub(frames as usize);
        let body = (bytes - frames).min(stream.body);
        stream.body -= body;
        if stream.left != UNKNOWN {
            stream.left = stream.left.saturating_sub(body);
        }
        stream.crept = stream.crept.saturating_add(bytes.min(u64::from(u16::MAX)) as u16);
        let is_sent =
            stream.frames.is_empty() && stream.body == 0 && stream.ready == 0 && stream.tail.is_empty();
        if stream.crept >= PROGRESS || is_sent {
            (stream.stalled, stream.crept) = (None, 0);
        }
        if is_sent && stream.finished {
            stream.local_end = true;
            self.close_if_done(at);
        }
    }

    /// The transport takes no more bytes of this stream until `writable`.
    pub(crate) fn blocked(&mut self, id: u64, now: Instant) {
        for outbound in [&mut self.control, &mut self.acknowledgments] {
            outbound.is_full |= outbound.id == id;
        }
        if let Some(at) = self.live(id) {
            let stream = &mut self.streams[at];
            stream.is_full = true;
            if stream.stalled.is_none() {
                (stream.stalled, stream.crept) = (Some(now), 0);
            }
        }
    }

    pub(crate) fn writable(&mut self, id: u64) {
        for outbound in [&mut self.control, &mut self.acknowledgments] {
            outbound.is_full &= outbound.id != id;
        }
        if let Some(at) = self.live(id) {
            self.streams[at].is_full = false;
        }
    }

    /// Replaces the priority of a body; a client tells the server (RFC 9218 section 7.2).
    pub(crate) fn prioritize(&mut self, id: u64, priority: Priority) {
        if let Ok(at) = self.at(id) {
            self.streams[at].priority = priority;
            if self.role == Role::Client {
                write::priority_update(id, priority.value(), &mut self.control.bytes);
            }
        }
    }
}
