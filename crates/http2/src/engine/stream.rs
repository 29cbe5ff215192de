//! One stream: its two halves (RFC 9113 section 5.1), windows and what is ready to be sent.

use crate::error::{Code, Fault};
use crate::frame::WINDOW_MAX;
use http_semantics::message::Expected;
use http_semantics::priority::Priority;
use units::Instant;

/// The length of a body of ours is not known.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// A stream that is open, half-closed, or closed with jobs under way.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    /// Bytes the peer lets us send; negative after it lowered SETTINGS_INITIAL_WINDOW_SIZE.
    pub(crate) send_window: i32,
    /// Bytes the peer may still send.
    pub(crate) receive_window: i32,
    /// Bytes received that the caller has not consumed.
    pub(crate) held: u32,
    /// Bytes consumed and not yet announced by WINDOW_UPDATE.
    pub(crate) credit: u32,
    /// Bytes of the body still to come.
    pub(crate) expected: Expected,
    /// Bytes of the body the caller has ready.
    pub(crate) ready: u64,
    /// Bytes of the body that we have still to send, ready or not, or [`UNKNOWN`].
    pub(crate) left: u64,
    /// Since when flow control has blocked ready bytes without letting 4 KiB pass.
    pub(crate) blocked: Option<Instant>,
    /// Bytes sent since then.
    pub(crate) crept: u16,
    /// When it was last served, for round robin.
    pub(crate) turn: u32,
    /// Jobs under way.
    pub(crate) jobs: u16,
    pub(crate) priority: Priority,
    /// Our final HEADERS were sent.
    pub(crate) head_sent: bool,
    /// The caller will add no more bytes to `ready`.
    pub(crate) finished: bool,
    /// We sent END_STREAM.
    pub(crate) local_end: bool,
    /// The peer's final HEADERS came.
    pub(crate) head_received: bool,
    /// The peer sent END_STREAM.
    pub(crate) remote_end: bool,
    /// Closed; remains only for its jobs.
    pub(crate) dead: bool,
    /// Our request was HEAD: `Content-Length` of its response announces no body.
    pub(crate) bodiless: bool,
    /// The request is CONNECT: only DATA and frames that manage the stream may follow (RFC 9113 section 8.5).
    pub(crate) connect: bool,
}

impl Stream {
    pub(crate) fn new(id: u32, send_window: u32, receive_window: u32) -> Stream {
        Stream {
            id,
            send_window: signed(send_window),
            receive_window: signed(receive_window),
            held: 0,
            credit: 0,
            expected: Expected::ANY,
            ready: 0,
            left: UNKNOWN,
            blocked: None,
            crept: 0,
            turn: 0,
            jobs: 0,
            priority: Priority::DEFAULT,
            head_sent: false,
            finished: false,
            local_end: false,
            head_received: false,
            remote_end: false,
            dead: false,
            bodiless: false,
            connect: false,
        }
    }

    /// Whether the caller has given something to send.
    pub(crate) fn is_waiting(&self) -> bool {
        self.head_sent && !self.local_end && !self.dead && (self.ready > 0 || self.finished)
    }

    /// Whether the stream may send, where the connection's window is `closed` or not; notes since when flow control blocks it.
    pub(crate) fn may_send(&mut self, closed: bool, now: Instant) -> bool {
        if !self.is_waiting() {
            return false;
        }
        let is_blocked = self.ready > 0 && (closed || self.send_window <= 0);
        if is_blocked && self.blocked.is_none() {
            (self.blocked, self.crept) = (Some(now), 0);
        }
        !is_blocked
    }

    /// Bytes of the body that we have still to send, as far as that is known.
    pub(crate) fn remaining(&self) -> u64 {
        match self.finished {
            true => self.ready,
            false => self.left,
        }
    }

    /// Whether the stream's own window blocks ready bytes.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_waiting() && self.ready > 0 && self.send_window <= 0
    }

    /// Counts `bytes` of content against `Content-Length`.
    ///
    /// # Errors
    /// They disagree.
    pub(crate) fn count(&mut self, bytes: u32, end: bool) -> Result<(), Fault> {
        let counted = self.expected.count(u64::from(bytes), end);
        counted.map_err(|text| Fault::Stream(self.id, Code::PROTOCOL_ERROR, text))
    }
}

/// A window or setting below 2^31 as a signed number.
pub(crate) fn signed(bytes: u32) -> i32 {
    i32::try_from(bytes.min(WINDOW_MAX)).expect("at most 2^31-1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_costs_at_most_100_bytes() {
        assert!(size_of::<Stream>() <= 100, "{}", size_of::<Stream>());
    }
}
