//! One request stream: what its two halves wait for, and what is ready to be sent.

use crate::error::{Code, Fault};
use crate::frame::Reader;
use crate::qpack::Section;
use http_semantics::message::Expected;
use http_semantics::priority::Priority;
use units::Instant;

/// The length of a body of ours is not known.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// What the peer's half may continue with (RFC 9114 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The head; for a client, interim responses too.
    Head,
    /// Content, trailers, or the end.
    Body,
    /// The end.
    Trailers,
}

/// What the payload of the frame under way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// Content.
    Data,
    /// A field section.
    Block,
    /// A field section that exceeds the limit: skipped.
    TooLong,
    /// Of no interest: an unknown frame, or a section already decoded.
    Skipped,
}

/// A stream of which one half is open, or closed with jobs under way.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u64,
    pub(crate) reader: Reader,
    /// The part of a field section that has come; all of it while the section waits for the dynamic table.
    pub(crate) block: Vec<u8>,
    /// The section in `block` waits for entries of the dynamic table.
    pub(crate) waiting: Option<Section>,
    /// When the head must have come, or the section that waits must have been decoded.
    pub(crate) due: Option<Instant>,
    /// Bytes of content still to come.
    pub(crate) expected: Expected,
    /// Bytes of frames to send before `body`.
    pub(crate) frames: Vec<u8>,
    /// How many of them belong to heads.
    pub(crate) heads: usize,
    /// Bytes of the body that complete the DATA frame whose header was written.
    pub(crate) body: u64,
    /// Bytes of the body that the caller has ready behind them.
    pub(crate) ready: u64,
    /// The trailer section's frame, sent behind the body.
    pub(crate) tail: Vec<u8>,
    /// Bytes of the body that we have still to send, ready or not, or [`UNKNOWN`].
    pub(crate) left: u64,
    /// Since when flow control has blocked the stream without letting 4 KiB pass.
    pub(crate) stalled: Option<Instant>,
    /// Bytes sent since then.
    pub(crate) crept: u16,
    /// Jobs under way.
    pub(crate) jobs: u16,
    /// When it was last served.
    pub(crate) turn: u32,
    pub(crate) priority: Priority,
    pub(crate) phase: Phase,
    pub(crate) payload: Payload,
    /// The transport takes no more bytes.
    pub(crate) is_full: bool,
    /// An unknown frame has come: honest peers send one to keep others tolerant.
    pub(crate) greased: bool,
    /// The caller was told that the section that waits can be decoded.
    pub(crate) resumed: bool,
    /// Our final head was given.
    pub(crate) head_sent: bool,
    /// The caller will add no more bytes to `ready`.
    pub(crate) finished: bool,
    /// Everything of ours was sent, with the end of the stream, or our half was reset.
    pub(crate) local_end: bool,
    /// The peer's half has ended, or we have stopped it.
    pub(crate) remote_end: bool,
    /// Closed; remains only for its jobs.
    pub(crate) dead: bool,
    /// Our request was HEAD: `Content-Length` of its response announces no body.
    pub(crate) bodiless: bool,
    /// The request is CONNECT: only DATA may follow (RFC 9114 section 4.4).
    pub(crate) connect: bool,
}

impl Stream {
    pub(crate) fn new(id: u64) -> Stream {
        Stream {
            id,
            reader: Reader::default(),
            block: Vec::new(),
            waiting: None,
            due: None,
            expected: Expected::ANY,
            frames: Vec::new(),
            heads: 0,
            body: 0,
            ready: 0,
            tail: Vec::new(),
            left: UNKNOWN,
            stalled: None,
            crept: 0,
            jobs: 0,
            turn: 0,
            priority: Priority::DEFAULT,
            phase: Phase::Head,
            payload: Payload::Skipped,
            is_full: false,
            greased: false,
            resumed: false,
            head_sent: false,
            finished: false,
            local_end: false,
            remote_end: false,
            dead: false,
            bodiless: false,
            connect: false,
        }
    }

    /// Whether there is something to send, and the transport takes it.
    pub(crate) fn may_send(&self) -> bool {
        !self.local_end && !self.dead && !self.is_full && self.is_waiting()
    }

    /// Whether a head is to be sent, and the transport takes it.
    pub(crate) fn has_head(&self) -> bool {
        self.heads > 0 && self.may_send()
    }

    /// Whether there is something to send, the end of the stream included.
    pub(crate) fn is_waiting(&self) -> bool {
        self.finished || self.ready > 0 || self.body > 0 || !self.frames.is_empty() || !self.tail.is_empty()
    }

    /// Bytes of the body that we have still to send, as far as that is known.
    pub(crate) fn remaining(&self) -> u64 {
        match self.finished {
            true => self.body.saturating_add(self.ready),
            false => self.left,
        }
    }

    /// Counts `bytes` of content against `Content-Length`.
    ///
    /// # Errors
    /// They disagree: the message is malformed.
    pub(crate) fn count(&mut self, bytes: u64, end: bool) -> Result<(), Fault> {
        let counted = self.expected.count(bytes, end);
        counted.map_err(|text| Fault::Stream(self.id, Code::MESSAGE_ERROR, text))
    }

    /// Bytes of memory held beyond its own size.
    pub(crate) fn memory(&self) -> usize {
        self.block.capacity() + self.frames.capacity() + self.tail.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_costs_at_most_256_bytes() {
        assert!(size_of::<Stream>() <= 256, "{}", size_of::<Stream>());
    }
}
